/* args.h - tables of options: one row defines an option of a command, a line of a job file, a key of a study and an
 * argument of a worker process.
 *
 *	static const struct mq_arg rows[] = {
 *		MQ_ARG(INT, "reps", struct options, reps, "N", "repetitions", .initial = 7, .min = 1, .max = 1000),
 *		{ .type = MQ_ARG_END },
 *	};
 *
 * The help text is an option's only description; --help adds its words and its default.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_BASE_ARGS_H
#define MQ_BASE_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "maquette/arena.h"
#include "maquette/err.h"

enum { MQ_MAX_LIST = 64, MQ_ARG_TABLES = 3 };

/* The values of a repeatable option, in the order given. */
struct mq_list {
	const char *item[MQ_MAX_LIST];
	uint32_t n;
};

enum mq_arg_type {
	MQ_ARG_END,
	MQ_ARG_GROUP,  /* a heading of --help, `name` */
	MQ_ARG_FLAG,   /* bool: true if given */
	MQ_ARG_TEXT,   /* const char *, borrowed from the command line */
	MQ_ARG_LIST,   /* struct mq_list: repeatable */
	MQ_ARG_INT,    /* unsigned integer of any size */
	MQ_ARG_WHOLE,  /* double that holds a whole number */
	MQ_ARG_F64,    /* double; with `unit` a quantity */
	MQ_ARG_WORD,   /* index of one of the words: an enumeration, a bool */
	MQ_ARG_CHOICE, /* const char *: one of the words itself */
	MQ_ARG_READ,   /* parsed by `read` */
	MQ_ARG_SWITCH  /* likewise, without a value: `read` gets "true" */
};

enum mq_arg_flags {
	MQ_ARG_ALWAYS = 1,         /* in job files even with its default value */
	MQ_ARG_QUIET = 2,          /* never in job files */
	MQ_ARG_EFFORT = 4,         /* effort or display: a search in a folder may resume with another value */
	MQ_ARG_PLAN = 8,           /* sent to worker processes with each plan */
	MQ_ARG_MACHINE = 16,       /* given to worker processes once, when they start */
	MQ_ARG_JOB_KEY = 32,       /* each of several jobs of a study may have its own: job.NAME.KEY */
	MQ_ARG_FILE = 64,          /* may name a file, whose contents are part of the question */
	MQ_ARG_COMMAS = 128,       /* values have commas: a study's lists use semicolons, or comma and blank */
	MQ_ARG_ONE_VALUE = 256,    /* never an axis of a study */
	MQ_ARG_POSITIONAL = 512,   /* a word without --; only the last such row may be a list */
	MQ_ARG_OWN_DEFAULT = 1024, /* the help text states the default */
	MQ_ARG_CONSTRAINT = 4096,  /* decides which plans are tried, not what a plan's result is */
	MQ_ARG_HIDDEN = 2048,      /* --help does not show it */
	MQ_ARG_KIBI = 8192         /* whole numbers may end in k (8k = 8192), as context lengths are written */
};

struct mq_arg {
	enum mq_arg_type type;
	const char *name; /* the long option, and the key in job files */
	size_t offset, size;
	const char *value; /* name of the value in --help */
	const char *help;
	const char *was;   /* former name, refused with the new one; or NULL */
	const char *unit;  /* of MQ_ARG_F64, see mq_parse_quantity; or NULL */
	const char *text;  /* default of texts and choices */
	const char *words; /* "a|b|c"; or NULL, and `name_of` names `n` of them */
	const char *(*name_of)(int);
	int n;
	const char *also;             /* other names of words: "bfloat16=bf16 half=fp16"; or NULL */
	const struct mq_arg *instead; /* row that a word unknown to this one may set; or NULL */
	double initial, min, max;     /* default and inclusive range of numbers; `initial` of words: the index */
	double scale;                 /* field = number x scale; 0 = 1 */
	size_t given;                 /* offset of a bool set when the option is given; 0 = none */
	uint32_t flags;               /* enum mq_arg_flags */
	char letter;                  /* the short option, or 0 */
	enum mq_status (*read)(const struct mq_arg *row, void *target, const char *text, struct mq_err *err);
};
/* A row: MQ_ARG(TEXT, "output", struct options, dir, "DIR", "folder for the tables", .letter = 'o'). */
#define MQ_ARG(kind, name_, target, field, value_, help_, ...)                                    \
	{                                                                                         \
		.type = MQ_ARG_##kind, .name = name_, .offset = offsetof(target, field),          \
		.size = sizeof(((target *)0)->field), .value = value_, .help = help_, __VA_ARGS__ \
	}
#define MQ_ARG_NAMES(name_of_enum, count) .name_of = (const char *(*)(int))(name_of_enum), .n = (count)

/* The rows of a command, each table with the struct that it fills. */
struct mq_args {
	struct {
		const struct mq_arg *rows;
		void *target;
	} table[MQ_ARG_TABLES];
	const char *doc, *args_doc;
	const char *program; /* NULL: a command of maquette, argv[0] its name */
};

void mq_args_defaults(const struct mq_arg *rows, void *target);
/* Reads a command line; options not given keep the targets' values. `err` names a mistake: a former name with the new
 * one, an unknown option with the nearest. --help prints and exits with 0. */
enum mq_status mq_args_parse(const struct mq_args *args, int argc, char **argv, struct mq_err *err);

/* "COMMAND --help --json": mq_args_parse then prints the rows as members of a JSON object ("about", "options") and
 * returns MQ_EINPUT without a message, so that the command does nothing. */
bool mq_args_describe(int argc, char **argv);

const struct mq_arg *mq_arg_find(const struct mq_arg *rows, const char *name);
/* One value from text. Messages name `prefix` and the row ("--", "--fix "); a `prefix` of NULL checks no range. */
enum mq_status mq_arg_set(const struct mq_arg *row, void *target, const char *prefix, const char *text,
			  struct mq_err *err);
enum mq_status mq_arg_push(const char *option, struct mq_list *list, const char *text, struct mq_err *err);

/* The value as a text for mq_arg_set, item `index` of a list; NULL: none. `digits`: of numbers. */
const char *mq_arg_text(const struct mq_arg *row, const void *target, uint32_t index, int digits, char text[32]);

/* Prints lines "key = value" of a job file for values that differ from the default; leaves out rows with a
 * flag of `without`. */
void mq_args_print(const struct mq_arg *rows, const void *target, uint32_t without, FILE *file);

/* Fills argv[] with "name=value" of every row with a flag of `flags`, exactly; returns their number. `argv` needs room
 * for every row and list item. */
uint32_t mq_args_encode(const struct mq_arg *rows, const void *target, uint32_t flags, struct mq_arena *arena,
			char **argv);
/* Reads one such text. *known = false: no row has its name. */
enum mq_status mq_args_decode(const struct mq_arg *rows, void *target, const char *text, bool *known,
			      struct mq_err *err);

#endif
