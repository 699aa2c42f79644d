/* huggingface_keys.h - the keys and families of Hugging Face's configurations, as their reader and writer share them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMATS_LIB_HUGGINGFACE_KEYS_H
#define MQ_MODEL_FORMATS_LIB_HUGGINGFACE_KEYS_H

#include "model/formats/lib/huggingface.h"

/* A configuration as it is read: what becomes the description, and what its keys say together. */
struct mq_hf_config {
	struct mq_transformer t;
	uint32_t positions;
	uint32_t moe_ffn, dense_ffn, shared;               /* widths of experts and other layers; shared experts */
	uint32_t step, first_of_step, last_moe;            /* of so many layers one has experts, the last or this one */
	uint32_t interval, offset;                         /* likewise full attention */
	uint32_t rotary_dim, narrow, expand, ffn_multiple; /* ffn_multiple: widths are rounded up to it */
	uint32_t global_dim, global_kv_heads;          /* of attention to all keys, where the others have their own */
	uint32_t positions_more, positions_less;       /* rows of the table that no sequence reaches: not told, told */
	double rate;                                   /* of dropout, where its key is absent */
	char other;                                    /* mixer of layers without full attention; 0 = windows */
	bool unwindowed;                               /* whatever sliding_window says */
	bool full_first;                               /* the first of an interval is the full one */
	bool mlp_bias, attention_bias, bias, qkv_only; /* qkv_only: attention_bias is of Q, K and V alone */
	bool multi_query, many_query;                  /* one head of keys; unless many */
	bool alibi, learned;                           /* positions: biases of scores, a table */
	bool two_halves;                               /* intermediate_size counts both matrices going up (Qwen) */
	bool two_thirds;                               /* it counts as of a feed-forward part without gate (LFM2) */
	bool beside;                                   /* experts beside a dense feed-forward part (Gemma 4) */
};

/* Ways of naming things: which keys a family's files are written with. */
enum mq_hf_dialect {
	COMMON = 1 << 0,
	ROPE = 1 << 1,
	HEADS = 1 << 2,
	TIED = 1 << 3,
	LLAMA = 1 << 4,
	WINDOW = 1 << 5,
	GPT2 = 1 << 6,
	BERT = 1 << 7,
	NEOX = 1 << 8,
	OPT = 1 << 9,
	LOCAL = 1 << 10, /* experts as Mixtral names them */
	QWEN = 1 << 11,
	ROUTED = 1 << 12, /* as DeepSeek does */
	LATENT = 1 << 13,
	LLAMA4 = 1 << 14,
	QWEN1 = 1 << 15,
	MAMBA = 1 << 16,
	NEMOTRON = 1 << 17,
	NEMOTRON_MOE = 1 << 18,
	GLM = 1 << 19,
	EPS = 1 << 20,
	LAYER_EPS = 1 << 21,
	GEMMA3 = 1 << 22,
	DMODEL = 1 << 23,
	DISTIL = 1 << 24,
	NEO = 1 << 25,
	INDEXER = 1 << 26,
	BIAS = 1 << 27,
	MAMBA1 = 1 << 28,
	KIMI = 1 << 29,  /* linear_attn_config */
	GIVEN = 1 << 30, /* that key must be there, but in nested configurations */
	STACK = LLAMA | COMMON | ROPE | EPS | HEADS | TIED,
};

enum mq_hf_type { MQ_HF_NUMBER, MQ_HF_REAL, MQ_HF_FLAG, MQ_HF_RATE };

struct mq_hf_key {
	const char *name;
	int reads, writes; /* families of which dialects read it, and are written with it */
	enum mq_hf_type type;
	size_t offset; /* in struct mq_hf_config */
	double min, max;
};
extern const struct mq_hf_key mq_hf_keys[]; /* up to one without name */

struct mq_hf_family {
	const char *model_type, *architecture; /* the latter's first letters */
	int dialects;
	struct mq_hf_config start;
};
extern const struct mq_hf_family mq_hf_families[]; /* up to one without model_type */

/* Keys that the reader would make this description of. */
struct mq_hf_config mq_hf_unsettle(const struct mq_hf_family *family, const struct mq_transformer *t);

/* huggingface_layers.c: fills t.pattern, or t.mixers and t.feeds, where layers are not alike. */
enum mq_status mq_hf_layers(const struct mq_hf_family *family, const struct mq_json_at *at, struct mq_hf_config *c,
			    struct mq_arena *arena, struct mq_err *err) MQ_MUST_CHECK;
/* Is it a key that huggingface_layers.c reads? */
bool mq_hf_layer_key(const char *key);
/* The word for a mixer or what follows in "layer_types" or "mlp_layer_types". */
const char *mq_hf_layer_word(char letter);

#endif
