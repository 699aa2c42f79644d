/* huggingface.h - the families of Hugging Face models whose config.json describes one stack of blocks.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMATS_LIB_HUGGINGFACE_H
#define MQ_MODEL_FORMATS_LIB_HUGGINGFACE_H

#include "model/formats/lib/json.h"
#include "model/builders/lib/transformer.h"

struct mq_hf_family; /* see huggingface_keys.h */

/* The family of a configuration; NULL: none of these. An unknown one that has all of Llama's keys may be a Llama,
 * and `*guessed` says so: it is none where it has others (mq_hf_unread_keys). */
const struct mq_hf_family *mq_hf_family_of(const struct mq_hf_family *families, const struct mq_json_at *at,
					   const char *type, bool *guessed);

/* Reads it; name, fused and seq of *t stay. *positions: the longest sequence that it names. */
enum mq_status mq_hf_read(const struct mq_hf_family *family, const struct mq_json_at *at, struct mq_transformer *t,
			  uint32_t *positions, struct mq_arena *arena, struct mq_err *err);
/* Keys of a configuration that the family does not read, and that may matter, with blanks between; "": none. `as_llama`:
 * all but Llama's, of any family's tables. */
const char *mq_hf_unread_keys(const struct mq_hf_family *family, bool as_llama, const json_t *object,
			      struct mq_arena *arena);
/* The "model_type" of the text part of a model with towers, where that says none; NULL: not known. */
const char *mq_hf_text_type(const struct mq_json_at *top);
/* t->towers: those that stand beside the text; `image`: pixels of a side, 0 = the model's own. t->hidden, seq, fused and
 * contrast are filled. MQ_EINPUT: one that is not read, or makes more tokens than there are. */
enum mq_status mq_hf_towers(const struct mq_json_at *top, uint32_t image, struct mq_transformer *t,
			    struct mq_arena *arena, struct mq_err *err);
/* null, false, 0 and what is empty switch a part off. */
bool mq_hf_is_off(const json_t *value);
/* The families (huggingface_keys.h), and their model_types, NULL-terminated. */
enum mq_status mq_hf_families(struct mq_arena *arena, const struct mq_hf_family **families, struct mq_err *err);
const char *const *mq_hf_types(const struct mq_hf_family *families, struct mq_arena *arena);

/* Loads the shipped configuration ORG/NAME; *model = NULL: none has that name. */
enum mq_status mq_hf_load_shipped(const struct mq_model_request *request, struct mq_arena *arena,
				  struct mq_model **model, struct mq_err *err);

/* The configuration as Hugging Face's library would write it, from which the reader makes the same model.
 * MQ_EINPUT: no family of the library is such a model, and what stands in the way. */
enum mq_status mq_hf_write(const struct mq_transformer *t, FILE *file, struct mq_err *err);

#endif
