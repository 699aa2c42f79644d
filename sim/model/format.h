/* format.h - interfaces of builders of models and of formats of model files: each file sim/model/builders/NAME.c
 * exports mq_builder_NAME, each file sim/model/formats/NAME.c mq_format_NAME. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMAT_H
#define MQ_MODEL_FORMAT_H

#include "maquette/model.h"
#include "maquette/opt.h"

/* Makes the models "NAME[:key=value,...]" of some names. */
struct mq_builder {
	const char *summary;       /* one line for `maquette list models` */
	const char *const *names;  /* NULL-terminated */
	const struct mq_opt *opts; /* of every name (defaults may depend on it) */
	/* Makes the model `name` from "key=value,..." options. */
	enum mq_status (*build)(const char *name, const char *options, const struct mq_model_request *request,
				struct mq_arena *arena, struct mq_model **model, struct mq_err *err);
};

/* Reads a model from a file. */
struct mq_format {
	const char *name;    /* file name with '-' for '_' */
	const char *summary; /* one line for `maquette list models` */
	/* Is the file of this format? head: its first bytes (NUL-terminated). */
	bool (*probe)(const char *path, const char *head, size_t size);
	enum mq_status (*load)(const char *path, const struct mq_model_request *request, struct mq_arena *arena,
			       struct mq_model **model, struct mq_err *err);
};

/* The double fields of struct mq_op by name, without extents. The last has no name. */
struct mq_op_amount {
	const char *name;
	size_t offset;
};
extern const struct mq_op_amount mq_op_amounts[];

/* A built-in model: of a builder, or a shipped graph. */
struct mq_builtin {
	const char *name, *summary;
	const struct mq_opt *opts; /* builders: their options */
	const char **made;         /* graphs: the parameters of each variant, "key=value,..."; NULL-terminated */
};
/* The names of all built-in models, in the arena, sorted, NULL-terminated. */
const char **mq_model_names(struct mq_arena *arena);
/* Finds the built-in model of NAME[:key=value,...]; false: none. */
bool mq_model_builtin(const char *spec, struct mq_arena *arena, struct mq_builtin *is);

/* Replaces the path of a PEFT adapter_config.json, or "qlora[:...]", by the text that mq_tuning_read takes; leaves
 * other texts unchanged. */
enum mq_status mq_tuning_resolve(const char **text, struct mq_arena *arena, struct mq_err *err);

/* Writes a model as a graph for both modes, for any sequence length if its amounts are polynomials of it. */
enum mq_status mq_graph_write(const struct mq_model_request *request, const char *path, struct mq_err *err);

/* NULL-terminated, sorted by name. */
extern const struct mq_builder *const mq_builders[];
extern const struct mq_format *const mq_formats[];
/* The builder of NAME[:key=value,...]; NULL: none. */
const struct mq_builder *mq_builder_find(const char *spec);

#endif
