/* transformer.h - one description of transformers, for the built-in builders and for files.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_BUILDERS_LIB_TRANSFORMER_H
#define MQ_MODEL_BUILDERS_LIB_TRANSFORMER_H

#include "model/builders/lib/mixers.h"

struct mq_tower;

/* How rotary positions are stretched. What is 0 is not known. */
struct mq_rope {
	const char *kind; /* "yarn", "llama3", "linear", ...; NULL = not at all */
	double factor;
	uint32_t length;           /* tokens before it */
	double fast, slow;         /* YaRN: turns within them that are kept, that are stretched whole */
	double mscale, mscale_all; /* YaRN of DeepSeek */
	double attention;          /* YaRN: its factor, where it is not what `factor` makes */
	bool unrounded;            /* YaRN: between them without whole steps */
	double low, high;          /* Llama 3: likewise of wavelengths */
};

struct mq_transformer {
	const char *name;
	uint32_t layers;
	uint32_t hidden, heads, kv_heads, head_dim; /* kv_heads, head_dim 0: heads, hidden / heads */
	uint32_t ffn;                               /* 0 = 4 hidden */
	uint32_t vocab, seq;
	uint32_t positions;                  /* learned position table; 0 = none */
	uint32_t token_types;                /* BERT's segment table */
	uint32_t relative;                   /* rows of a table of relative positions, for each head (T5) */
	uint32_t experts, top_k;             /* 0 = dense */
	uint32_t expert_groups, group_limit; /* see mq_model */
	uint32_t shared_ffn;                 /* width of the experts that every token visits */
	uint32_t dense_layers;               /* first layers without experts */
	uint32_t dense_ffn;                  /* their width; 0 = ffn */
	/* Latent attention (DeepSeek): ranks of the compressed Q and K, V; the latter 0 = not
	 * latent. A head's Q and K are nope_dim + rope_dim wide, its V value_dim. */
	uint32_t q_rank, kv_rank, nope_dim, rope_dim;
	uint32_t value_dim; /* not latent: 0 = head_dim */
	/* Hybrid stacks: a letter per layer, each with a norm and a residual of its own: M Mamba-2,
	 * * attention, - feed-forward, E experts. NULL = every layer is attention and feed-forward. */
	const char *pattern;
	/* Stacks of layers with two parts each that differ between layers: a letter per layer, NULL = all equal.
	 * mixers, the parts that mix tokens: * attention, W attention within `window`, I latent attention with its own
	 * indexer, M Mamba, H Mamba in parallel with attention, D delta-net, L lightning attention, C short
	 * convolution, . none. feeds, the parts after them: - feed-forward, E experts, . none. */
	const char *mixers, *feeds;
	struct mq_mamba mamba;
	struct mq_linear linear; /* D, L, C */
	/* Sparse attention (DeepSeek-V3.2): so many narrow heads score all keys, each query sees the index_keys best. */
	uint32_t index_heads, index_dim, index_keys;
	uint32_t local_heads, local_kv_heads, local_head_dim, local_value_dim; /* of W; 0 = as elsewhere */
	uint32_t latent; /* width in which tokens travel to experts; 0 = hidden */
	/* Multi-token prediction (DeepSeek-V3): so many times more a block (of a hybrid stack:
	 * attention and experts) with norms, a projection of stream and embedding, the head and a loss. */
	uint32_t mtp;
	bool mtp_shared;                  /* one set of weights for all of them */
	uint32_t predictions;             /* BERT: masked tokens that its head looks at; 0 = 15 % of seq */
	bool biases, qkv_bias, proj_bias; /* the latter two apply where biases are off */
	bool qk_norm;                     /* RMS norms over each head's Q and K */
	bool gated, relu, rms;
	bool clamp;          /* experts clamp what goes into their activation (GPT-OSS) */
	uint32_t window;     /* keys that the queries of most layers see; 0 = all */
	uint32_t full_every; /* the last of so many layers sees all keys; 0 = none does */
	uint32_t moe_every;  /* the last of so many layers has experts; 0 = all behind dense_layers do */
	bool tied;           /* head uses the embedding's parameters */
	bool headless;       /* the loss is over the last norm's width: no GEMM with the vocabulary */
	bool causal, fused, rotary, dropout;
	bool undropped;      /* probabilities of attention go through none, whatever else does */
	bool post_norm;      /* norm behind the residual (BERT) */
	bool output_norms;   /* norms of what attention and feed-forward put out (Gemma 2, OLMo 2) */
	bool no_input_norms; /* and none of what goes into them (OLMo 2) */
	bool parallel;       /* attention and feed-forward both read the stream (GPT-NeoX) */
	bool one_norm;       /* through one norm (GPT-J, Falcon, Command R) */
	bool output_gate;    /* what attention puts out is multiplied by a gate as wide as Q (Qwen3-Next) */
	bool shared_kv;      /* attention to all keys has no V of its own: K is V (Gemma 4) */
	bool chunked;        /* the window is a chunk that it does not reach beyond (Llama 4) */
	bool embedding_norm; /* behind the embedding (BLOOM, ModernBERT) */
	/* Kept for those who write settings; they cost nothing that is modelled. */
	bool gelu;           /* the gate is a GELU (GeGLU) instead of a SiLU */
	bool squared;        /* the ReLU is squared */
	bool softcap;        /* scores and logits are bounded by tanh */
	bool sigmoid_router; /* experts are scored by sigmoids with a bias for balance */
	double router_scale; /* by which the experts' weights are multiplied; 0 = not known */
	double rope_theta;   /* base of rotary positions; 0 = not known */
	double rope_part;    /* of a head's width that is turned; 0 = all */
	bool yarn;           /* what is turned is scaled, too (YaRN with a concentration factor) */
	struct mq_rope rope;
	double norm_eps; /* 0 = not known */
	const struct mq_tower *const
		*towers;     /* of images and sounds, NULL-terminated; or NULL (builders/lib/tower.h) */
	uint32_t contrast;   /* width of vectors by which texts and images are paired (CLIP); 0 = text is predicted */
	bool pretrain_heads; /* BERT: pooler, masked-language and next-sentence heads */
	bool span_head;      /* instead of them: where an answer starts and ends (SQuAD) */
};

/* A value of those that are 0 where they are not known. */
static inline double mq_told(double value, double otherwise)
{
	return value > 0 ? value : otherwise;
}

/* MQ_EINPUT with one line that names `what` ("model gpt", or a file) and the dimension at fault. */
enum mq_status mq_transformer_check(struct mq_transformer *t, const char *what, struct mq_err *err);
/* The first field in which two descriptions that have passed the check differ, NULL: none; `text` gets both
 * values. What is not known of the first (rope_theta, norm_eps) does not count, nor what no layer uses. */
const char *mq_transformer_differs(const struct mq_transformer *a, const struct mq_transformer *b, char text[96]);
/* The same; *n: in how many fields. */
const char *mq_transformer_compare(const struct mq_transformer *a, const struct mq_transformer *b, uint32_t *n,
				   char text[96]);

/* A member of a structure by its name: n uint32_t, d double, b bool, c char, s text. */
struct mq_field {
	const char *name;
	size_t offset;
	char type;
};
/* clang-format off */
#define MQ_FIELD(type, field) { #field, offsetof(type, field), MQ_FIELD_TYPE(((type *)0)->field) }
#define MQ_FIELD_TYPE(field)  _Generic(field, uint32_t: 'n', double: 'd', bool: 'b', char: 'c', default: 's')
/* clang-format on */
const struct mq_field *mq_field_find(const struct mq_field *fields, size_t n, const char *name);
/* Those of a description, but for its name and towers. */
const struct mq_field *mq_transformer_fields(size_t *n);

/* A stack of blocks with embedding, head and (in training) loss. Fills defaults, checks, builds. */
enum mq_status mq_transformer_build(struct mq_transformer *t, const char *what, const struct mq_model_request *request,
				    struct mq_arena *arena, struct mq_model **model, struct mq_err *err);

/* Pieces, for models that join several stacks; `t` has passed the check. Each returns its last op. */

/* t->layers blocks, numbered from `first` on (MQ_NONE: of no layer). */
uint32_t mq_transformer_blocks(struct mq_net *net, const struct mq_transformer *t, uint32_t first, uint32_t stream);
/* One of them: a block, or by its letter in a pattern one part between a norm and a residual. `letter` 0: a block. */
uint32_t mq_transformer_layer(struct mq_net *net, const struct mq_transformer *t, char letter, uint32_t stream);
/* Half a block: what mixes tokens, or (`feeds`) what follows it, between its norms, and the residual; the names of both
 * end with `index`. */
uint32_t mq_transformer_part(struct mq_net *net, const struct mq_transformer *t, uint32_t stream, bool feeds,
			     const char *index);
/* A GEMM with the vocabulary, tied to `embedding` where t says so. */
uint32_t mq_transformer_head(struct mq_net *net, const struct mq_transformer *t, uint32_t input, uint32_t embedding);
/* Fills the fields of the model that reports and shape rules read; it has `layers` blocks in all. */
void mq_transformer_describe(struct mq_model *model, const struct mq_transformer *t, uint32_t layers);

#endif
