/*
 * format.h - a reader of models: one file sim/model/formats/NAME.c exports mq_format_NAME and is found by it.
 *
 * Two kinds: builders (spec "NAME[:key=value,...]", `build` set) and file readers (`probe`, `load`). A
 * file may export one struct that serves several builder names through `names`.
 */
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

extern const struct mq_format *const mq_formats[]; /* NULL-terminated, sorted by name */

#endif
