/* names.h - models by the names that people say, which are neither a file nor a builder.
 * It guesses nothing: what is not the same name is only named as near. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMATS_LIB_NAMES_H
#define MQ_MODEL_FORMATS_LIB_NAMES_H

#include "model/formats/lib/json.h"
#include "maquette/model.h"

/* A file of platforms/models; NULL: it is missing, or no JSON. The caller releases the reference. */
json_t *mq_models_file(const char *name, struct mq_arena *arena);
/* Names ORG/NAME of the shipped configurations (hub.json), NULL-terminated. */
const char **mq_hf_shipped(struct mq_arena *arena);

/* The specification that a name stands for: ORG/NAME of the shipped configuration with this NAME, whatever the case and
 * what stands between letters, digits and points, without words that leave the model as it is (hf, base, instruct, v0.1);
 * "FAMILY:size=SIZE" for FAMILY-SIZE; or what platforms/models/names.json has for it, which is not looked up there again.
 * NULL: none; *near has those that share most of its words, "" = none do. */
const char *mq_model_named(const char *name, struct mq_arena *arena, const char **near);

#endif
