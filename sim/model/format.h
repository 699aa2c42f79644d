/* format.h - a reader of models: one file sim/model/formats/NAME.c exports mq_format_NAME and is found by it.
 *
 * Two kinds: builders (spec "NAME[:key=value,...]", `build` set) and file readers (`probe`, `load`). A file may export
 * one struct that serves several builder names through `names`. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMAT_H
#define MQ_MODEL_FORMAT_H

#include "maquette/model.h"
#include "maquette/opt.h"

struct mq_format {
	const char *name;          /* file name with '-' for '_' */
	const char *summary;       /* one line for `maquette list models` */
	const char *const *names;  /* builders: NULL-terminated list of model names */
	const struct mq_opt *opts; /* builders: options of every name (defaults may depend on it) */
	/* Builders: make the model called `name` from "key=value,..." options. */
	enum mq_status (*build)(const char *name, const char *options, const struct mq_model_request *request,
				struct mq_arena *arena, struct mq_model **model, struct mq_err *err);
	/* Readers: does this file look like ours? `head` holds its first bytes (NUL-terminated). */
	bool (*probe)(const char *path, const char *head, size_t size);
	enum mq_status (*load)(const char *path, const struct mq_model_request *request, struct mq_arena *arena,
			       struct mq_model **model, struct mq_err *err);
};

/* The amounts of struct mq_op by name: all doubles but the extents. The last has no name. */
struct mq_op_amount {
	const char *name;
	size_t offset;
};
extern const struct mq_op_amount mq_op_amounts[];

/* A built-in model: one of a builder, or a shipped graph. */
struct mq_builtin {
	const char *name, *summary;
	const struct mq_opt *opts; /* of a builder */
	const char **made;         /* of graphs: the parameters of each, "key=value,..."; NULL-terminated */
};
/* The names of all, in the arena, sorted, NULL-terminated. */
const char **mq_model_names(struct mq_arena *arena);
/* That of NAME[:key=value,...]; false: there is none. */
bool mq_model_builtin(const char *spec, struct mq_arena *arena, struct mq_builtin *is);

/* A file of PEFT's (adapter_config.json) and "qlora[:...]" become the text that mq_tuning_read takes; another text stays
 * as it is. */
enum mq_status mq_tuning_resolve(const char **text, struct mq_arena *arena, struct mq_err *err);

/* Writes a model as a graph for both modes, and for any sequence length where amounts are polynomials of it. */
enum mq_status mq_graph_write(const struct mq_model_request *request, const char *path, struct mq_err *err);

extern const struct mq_format *const mq_formats[]; /* NULL-terminated, sorted by name */
/* The builder of NAME[:key=value,...]; NULL: there is none. */
const struct mq_format *mq_format_builder(const char *name);

#endif
