/* opt.h - options that describe themselves: one row gives parser, default, range, help, man page.
 *
 * A table of rows maps `key=value` text to fields of a plain struct. Used for engine options (-e NAME:key=value,...),
 * model dimensions (gpt:layers=24,...), job files and the command line. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_OPT_H
#define MAQUETTE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "maquette/arena.h"
#include "maquette/err.h"

enum mq_opt_type { MQ_OPT_END, MQ_OPT_U32, MQ_OPT_F64, MQ_OPT_BOOL, MQ_OPT_STR, MQ_OPT_CHOICE };

struct mq_opt {
	enum mq_opt_type type;
	const char *name;
	size_t offset;    /* of the field in the struct that the table describes */
	double initial;   /* default of numbers, booleans (0/1) and choices (index) */
	double min, max;  /* inclusive range of numbers */
	const char *text; /* default of MQ_OPT_STR (may be NULL); MQ_OPT_CHOICE: "a|b|c" */
	const char *help; /* one line; where the name ends in a unit, values may have others: nic_GBps=400Gb/s */
};

/* Rows: field types are uint32_t, double, bool, const char *, and uint32_t (index) for a choice. */
#define MQ_U32(type, field, initial, min, max, help)                                     \
	{                                                                                \
		MQ_OPT_U32, #field, offsetof(type, field), initial, min, max, NULL, help \
	}
#define MQ_F64(type, field, initial, min, max, help)                                     \
	{                                                                                \
		MQ_OPT_F64, #field, offsetof(type, field), initial, min, max, NULL, help \
	}
#define MQ_BOOL(type, field, initial, help)                                           \
	{                                                                             \
		MQ_OPT_BOOL, #field, offsetof(type, field), initial, 0, 1, NULL, help \
	}
#define MQ_STR(type, field, initial, help)                                        \
	{                                                                         \
		MQ_OPT_STR, #field, offsetof(type, field), 0, 0, 0, initial, help \
	}
#define MQ_CHOICE(type, field, initial, choices, help)                                     \
	{                                                                                  \
		MQ_OPT_CHOICE, #field, offsetof(type, field), initial, 0, 0, choices, help \
	}
#define MQ_END                     \
	{                          \
		.type = MQ_OPT_END \
	}

/* Fill every field of `target` with its default. */
MQ_API void mq_opt_defaults(const struct mq_opt *opts, void *target);

/* Set one field. `what` names the owner in messages ("engine 'mcmc'"). Strings are copied into the
 * arena. MQ_EINPUT: unknown key (with the nearest name), not a number, NaN, out of range. */
MQ_API enum mq_status mq_opt_set(const struct mq_opt *opts, void *target, const char *what, const char *key,
				 const char *value, struct mq_arena *arena, struct mq_err *err);

/* Parse "key=value,key=value" (empty or NULL is fine); a bare key sets a boolean to true. */
MQ_API enum mq_status mq_opt_parse(const struct mq_opt *opts, void *target, const char *what, const char *text,
				   struct mq_arena *arena, struct mq_err *err);

/* The value of a field other than a text: booleans 0 or 1, choices their index. Any field as a text for mq_opt_set;
 * NULL: a text that is not set. */
MQ_API double mq_opt_value(const struct mq_opt *opt, const void *target);
MQ_API const char *mq_opt_text(const struct mq_opt *opt, const void *target, int digits, char text[64]);

/* "key=value,..." of every field that differs from its default, in table order (may be ""). */
MQ_API const char *mq_opt_print(const struct mq_opt *opts, const void *target, struct mq_arena *arena);

/* The entry of a NULL-terminated list that is nearest to `word` by edit distance, or NULL if none
 * is near: for "did you mean". */
MQ_API const char *mq_nearest(const char *word, const char *const *names);

#endif
