/* huggingface.h - the families of Hugging Face models whose config.json describes one stack of blocks.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMATS_LIB_HUGGINGFACE_H
#define MQ_MODEL_FORMATS_LIB_HUGGINGFACE_H

#include "model/formats/lib/json.h"
#include "model/builders/lib/transformer.h"

struct mq_hf_family; /* see huggingface_keys.h */

/* The family of a configuration; NULL: none. *guessed: the family is unknown, but has all of Llama's keys and may be a
 * Llama; it is none if it has others (mq_hf_unread_keys). */
const struct mq_hf_family *mq_hf_family_of(const struct mq_hf_family *families, const struct mq_json_at *at,
					   const char *type, bool *guessed);

/* Reads a configuration into *t, except name, fused and seq. *positions: its maximum sequence length. */
enum mq_status mq_hf_read(const struct mq_hf_family *family, const struct mq_json_at *at, struct mq_transformer *t,
			  uint32_t *positions, struct mq_arena *arena, struct mq_err *err);
/* Keys of a configuration that the family does not read and that may matter, separated by blanks; "": none. as_llama:
 * all keys that Llama does not have, even if other families read them. */
const char *mq_hf_unread_keys(const struct mq_hf_family *family, bool as_llama, const json_t *object,
			      struct mq_arena *arena);
/* The "model_type" of a multimodal model's text part, if the part itself has none; NULL: not known. */
const char *mq_hf_text_type(const struct mq_json_at *top);
/* Fills t->towers, the vision and audio encoders. image: pixels of a side, 0 = the model's default. t->hidden, seq,
 * fused and contrast must be set. MQ_EINPUT: an unknown encoder, or one with more tokens than the sequence. */
enum mq_status mq_hf_towers(const struct mq_json_at *top, uint32_t image, struct mq_transformer *t,
			    struct mq_arena *arena, struct mq_err *err);
/* MQ_EINPUT: the configuration has a part that no family models. */
enum mq_status mq_hf_refuse_parts(const struct mq_hf_family *family, const struct mq_json_at *at, struct mq_err *err);
/* Does a value switch a part off? null, false, 0 and empty values do. */
bool mq_hf_is_off(const json_t *value);
/* The families (huggingface_keys.h), and their model_types, NULL-terminated. */
enum mq_status mq_hf_families(struct mq_arena *arena, const struct mq_hf_family **families, struct mq_err *err);
const char *const *mq_hf_types(const struct mq_hf_family *families, struct mq_arena *arena);

/* Loads the shipped configuration ORG/NAME; *model = NULL: none has that name. */
enum mq_status mq_hf_load_shipped(const struct mq_model_request *request, struct mq_arena *arena,
				  struct mq_model **model, struct mq_err *err);

/* The configuration as Hugging Face's library would write it; the reader makes the same model of it. MQ_EINPUT: no
 * family of the library is such a model, with the field that differs. */
enum mq_status mq_hf_write(const struct mq_transformer *t, FILE *file, struct mq_err *err);

#endif
