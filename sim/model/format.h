/* format.h - the interface of model formats: each file sim/model/formats/NAME.c exports mq_format_NAME.
 *
 * Two kinds: builders (spec "NAME[:key=value,...]", `build` set) and file readers (`probe`, `load`). One struct may
 * serve several builder names through `names`. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMAT_H
#define MQ_MODEL_FORMAT_H

#include "maquette/model.h"
#include "maquette/opt.h"

struct mq_format {
	const char *name;          /* file name with '-' for '_' */
	const char *summary;       /* one line for `maquette list models` */
	const char *const *names;  /* builders: NULL-terminated list of model names */
	const struct mq_opt *opts; /* builders: options of every name (defaults may depend on it) */
	/* Builders: makes the model `name` from "key=value,..." options. */
	enum mq_status (*build)(const char *name, const char *options, const struct mq_model_request *request,
				struct mq_arena *arena, struct mq_model **model, struct mq_err *err);
	/* Readers: is the file of this format? head: its first bytes (NUL-terminated). */
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
 * other texts. */
enum mq_status mq_tuning_resolve(const char **text, struct mq_arena *arena, struct mq_err *err);

/* Writes a model as a graph for both modes, for any sequence length if its amounts are polynomials of it. */
enum mq_status mq_graph_write(const struct mq_model_request *request, const char *path, struct mq_err *err);

extern const struct mq_format *const mq_formats[]; /* NULL-terminated, sorted by name */
/* The builder of NAME[:key=value,...]; NULL: none. */
const struct mq_format *mq_format_builder(const char *name);

#endif
