/* huggingface_keys.h - the keys and families of Hugging Face configurations, shared by reader and writer.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMATS_LIB_HUGGINGFACE_KEYS_H
#define MQ_MODEL_FORMATS_LIB_HUGGINGFACE_KEYS_H

#include "base/csv.h"
#include "model/formats/lib/huggingface.h"

/* A configuration: the description it becomes, and values of keys that fill its fields only in combination. */
struct mq_hf_config {
	struct mq_transformer t;
#define X(type, name) type name;
#include "model/formats/lib/huggingface_config.def"
#undef X
};

/* Dialects: sets of keys that a family's files use. platforms/models/README.md lists them by family; a written key with
 * GIVEN is mandatory, except in nested configurations. */
/* clang-format off */
#define MQ_HF_DIALECTS(X) \
	X(COMMON) X(ROPE) X(HEADS) X(TIED) X(LLAMA) X(WINDOW) X(GPT2) X(BERT) X(NEOX) X(OPT) X(LOCAL) X(QWEN) \
	X(ROUTED) X(LATENT) X(LLAMA4) X(QWEN1) X(MAMBA) X(NEMOTRON) X(NEMOTRON_MOE) X(GLM) X(EPS) X(LAYER_EPS) \
	X(GEMMA3) X(DMODEL) X(DISTIL) X(NEO) X(INDEXER) X(BIAS) X(MAMBA1) X(KIMI) X(SCALING) X(GIVEN)
#define MQ_HF_INDEX(name) name##_INDEX,
#define MQ_HF_BIT(name)   name = 1u << name##_INDEX,
/* clang-format on */
enum mq_hf_index { MQ_HF_DIALECTS(MQ_HF_INDEX) MQ_HF_N_DIALECTS };
enum mq_hf_dialect { MQ_HF_DIALECTS(MQ_HF_BIT) };
_Static_assert(MQ_HF_N_DIALECTS <= 32, "a bit for each dialect");

enum mq_hf_type { MQ_HF_NUMBER, MQ_HF_REAL, MQ_HF_FLAG, MQ_HF_RATE };

struct mq_hf_key {
	const char *name;
	uint32_t reads, writes; /* dialects whose families read it, and write it */
	enum mq_hf_type type;
	size_t offset; /* in struct mq_hf_config */
	double min, max;
};

struct mq_hf_family {
	const char *model_type, *architecture; /* architecture: its first letters */
	uint32_t dialects;
	struct mq_hf_config start;
	const struct mq_hf_key *keys; /* of all families; the last has no name */
	const struct mq_csv *others;  /* huggingface_other_keys.csv: without effect, or not modelled */
};

/* The configuration of which the reader makes this description. */
struct mq_hf_config mq_hf_unsettle(const struct mq_hf_family *family, const struct mq_transformer *t);

/* huggingface_layers.c: fills t.pattern, or t.mixers and t.feeds, if layers differ. */
enum mq_status mq_hf_layers(const struct mq_hf_family *family, const struct mq_json_at *at, struct mq_hf_config *c,
			    struct mq_arena *arena, struct mq_err *err);
/* Is it a key that huggingface_layers.c reads? */
bool mq_hf_layer_key(const char *key);
/* The word for a mixer or MLP in "layer_types" or "mlp_layer_types". */
const char *mq_hf_layer_word(char letter);

#endif
