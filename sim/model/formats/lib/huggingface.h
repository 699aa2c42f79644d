/*
 * huggingface.h - the families of Hugging Face models whose config.json describes one stack of blocks.
 */
#ifndef MQ_MODEL_FORMATS_LIB_HUGGINGFACE_H
#define MQ_MODEL_FORMATS_LIB_HUGGINGFACE_H

#include "model/formats/lib/json.h"
#include "model/builders/lib/transformer.h"

struct mq_hf_family {
	const char *model_type;
	const char *architecture; /* prefix of architectures[0], for files without model_type */
	enum mq_status (*read)(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
			       struct mq_err *err);
	bool qkv_bias, qk_norm;
};

extern const struct mq_hf_family mq_hf_families[]; /* up to a row without model_type */

/* The family of a configuration; NULL: none of these. An unknown one with all of Llama's keys is read as
 * Llama, and `*guessed` says so. */
const struct mq_hf_family *mq_hf_family_of(const struct mq_json_at *at, const char *type, bool *guessed);

/* The configuration as Hugging Face's library would write it, from which the reader makes the same model.
 * MQ_EINPUT: no family of the library is such a model, and what stands in the way. */
enum mq_status mq_hf_write(const struct mq_transformer *t, FILE *file, struct mq_err *err) MQ_MUST_CHECK;

#endif
