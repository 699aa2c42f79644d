/* names.h - models by common names that are neither a file nor a builder. Nothing is guessed: names that only resemble
 * are suggestions. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMATS_LIB_NAMES_H
#define MQ_MODEL_FORMATS_LIB_NAMES_H

#include "model/formats/lib/json.h"
#include "maquette/model.h"

/* A file of platforms/models; NULL: missing, or no JSON. The caller releases the reference. */
json_t *mq_models_file(const char *name, struct mq_arena *arena);
/* Names ORG/NAME of the shipped configurations (hub.json), NULL-terminated. */
const char **mq_hf_shipped(struct mq_arena *arena);

/* The specification of a name, ignoring case, separators and suffixes that do not change the model (hf, base, instruct,
 * v0.1), from the first that has it: the entry of platforms/models/names.json, which is not looked up again; ORG/NAME of
 * the shipped configuration with this NAME; "FAMILY:size=SIZE" for FAMILY-SIZE; `known` (built-in models, graphs;
 * NULL-terminated). NULL: none; *near has the names that share most words, "" = none do. */
const char *mq_model_named(const char *name, const char *const *known, struct mq_arena *arena, const char **near);

#endif
