/* args.c - see args.h. argp finds the options and prints --help; its "Try `... --help'" text remains for errors that
 * only getopt sees (a missing value). SPDX-License-Identifier: Apache-2.0 */
#include "base/args.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/ini.h"
#include "maquette/opt.h"
#include "base/quantity.h"
#include "base/text.h"

enum { MAX_ROWS = 128, FIRST_KEY = 1000 };

/* ---- values ----------------------------------------------------------------------------------------------- */

/* The word of an index; NULL: beyond the last. */
static const char *word(const struct mq_arg *row, int index, char text[32])
{
	const char *w = row->words;

	if (row->name_of)
		return index < row->n ? row->name_of(index) : NULL;
	for (; w && index; index--) {
		w = strchr(w, '|');
		w = w ? w + 1 : NULL;
	}
	if (w)
		snprintf(text, 32, "%.*s", (int)strcspn(w, "|"), w);
	return w ? text : NULL;
}

static void put_int(const struct mq_arg *row, void *at, uint64_t value)
{
	if (row->size == sizeof(uint64_t))
		*(uint64_t *)at = value;
	else if (row->size == sizeof(uint32_t))
		*(uint32_t *)at = (uint32_t)value;
	else
		*(uint8_t *)at = (uint8_t)value;
}

static uint64_t get_int(const struct mq_arg *row, const void *at)
{
	return row->size == sizeof(uint64_t) ? *(const uint64_t *)at :
	       row->size == sizeof(uint32_t) ? *(const uint32_t *)at :
					       *(const uint8_t *)at;
}

void mq_args_defaults(const struct mq_arg *rows, void *target)
{
	for (const struct mq_arg *row = rows; row->type != MQ_ARG_END; row++) {
		char *at = (char *)target + row->offset;

		if (row->type == MQ_ARG_TEXT || row->type == MQ_ARG_CHOICE)
			*(const char **)at = row->text;
		else if (row->type == MQ_ARG_F64 || row->type == MQ_ARG_WHOLE)
			*(double *)at = row->initial * (row->scale > 0 ? row->scale : 1);
		else if (row->type == MQ_ARG_INT || row->type == MQ_ARG_WORD || row->type == MQ_ARG_FLAG)
			put_int(row, at, (uint64_t)row->initial);
		else if (row->type == MQ_ARG_LIST)
			((struct mq_list *)at)->n = 0;
	}
}

enum mq_status mq_arg_push(const char *option, struct mq_list *list, const char *text, struct mq_err *err)
{
	if (list->n == MQ_MAX_LIST)
		return mq_bad(err, "%s was given more than %d times", option, MQ_MAX_LIST);
	list->item[list->n++] = text;
	return MQ_OK;
}

static uint64_t most(const struct mq_arg *row)
{
	return row->max < 0x1p64 ? (uint64_t)row->max : UINT64_MAX;
}

static enum mq_status set_whole(const struct mq_arg *row, void *at, const char *prefix, const char *text,
				struct mq_err *err)
{
	size_t n = strlen(text), kibi = row->flags & MQ_ARG_KIBI && n > 1 && (text[n - 1] | 0x20) == 'k';
	char digits[24];
	uint64_t v;

	snprintf(digits, sizeof(digits), "%.*s", (int)(n - kibi), text);
	bool sound = n < sizeof(digits) && mq_parse_u64(digits, &v) && (!kibi || v <= UINT64_MAX / 1024);
	v = sound && kibi ? v * 1024 : v;
	if (!sound || (prefix && (v < (uint64_t)row->min || v > most(row))))
		return mq_bad(err, "%s%s %s: give a whole number from %llu to %llu", prefix ? prefix : "", row->name,
			      text, (unsigned long long)row->min, (unsigned long long)most(row));
	if (row->type == MQ_ARG_WHOLE)
		*(double *)at = (double)v;
	else
		put_int(row, at, v);
	return MQ_OK;
}

static enum mq_status set_number(const struct mq_arg *row, double *at, const char *prefix, const char *text,
				 struct mq_err *err)
{
	double v;

	if (!(row->unit ? mq_parse_quantity(text, row->unit, &v) : mq_parse_f64(text, &v)) ||
	    (prefix && !(v >= row->min && v <= row->max)))
		return mq_bad(err, "%s%s %s: give a number from %g to %g%s%s%s", prefix ? prefix : "", row->name, text,
			      row->min, row->max, row->unit ? ", in " : "", row->unit ? row->unit : "",
			      row->unit ? " where it has no unit" : "");
	*at = v * (row->scale > 0 ? row->scale : 1);
	return MQ_OK;
}

/* The index of a word or its alias, ignoring case if it is stored as an index; -1: unknown. */
static int find_word(const struct mq_arg *row, const char *text)
{
	const char *name, *also = row->also ? row->also : "";
	size_t n = strlen(text);
	char room[32], other[32];
	int (*const compare)(const char *, const char *) = row->type == MQ_ARG_CHOICE ? strcmp : strcasecmp;

	for (; *also; also += strcspn(also, " "), also += *also == ' ')
		if (!strncasecmp(also, text, n) && also[n] == '=') {
			snprintf(other, sizeof(other), "%.*s", (int)strcspn(also + n + 1, " "), also + n + 1);
			text = other;
			break;
		}
	for (int i = 0; (name = word(row, i, room)); i++)
		if (!compare(name, text))
			return i;
	return -1;
}

static enum mq_status set_word(const struct mq_arg *row, void *at, const char *prefix, const char *text,
			       struct mq_err *err)
{
	char room[16][32], list[256] = "";
	const char *names[17] = { NULL };
	int index = find_word(row, text);
	size_t used = 0;

	if (index >= 0 && row->type == MQ_ARG_CHOICE)
		*(const char **)at = text;
	else if (index >= 0)
		put_int(row, at, (uint64_t)index);
	if (index >= 0)
		return MQ_OK;
	for (int i = 0; i < 16 && (names[i] = word(row, i, room[i])); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, " %s", names[i]);
	const char *near = mq_nearest(text, names);
	return mq_bad(err, "%s%s %s: give one of%s%s%s%s", prefix ? prefix : "", row->name, text, list,
		      near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

enum mq_status mq_arg_set(const struct mq_arg *row, void *target, const char *prefix, const char *text,
			  struct mq_err *err)
{
	if (row->instead && find_word(row, text) < 0 && find_word(row->instead, text) >= 0)
		row = row->instead;
	char *at = (char *)target + row->offset, option[64];

	if (row->given)
		*(bool *)((char *)target + row->given) = true;
	switch (row->type) {
	case MQ_ARG_FLAG:
		*(bool *)at = true;
		return MQ_OK;
	case MQ_ARG_TEXT:
		*(const char **)at = text;
		return MQ_OK;
	case MQ_ARG_LIST:
		snprintf(option, sizeof(option), "%s%s", prefix ? prefix : "", row->name);
		return mq_arg_push(option, (struct mq_list *)at, text, err);
	case MQ_ARG_WHOLE:
		if (!prefix) /* a share of a batch may be fractional */
			return set_number(row, (double *)at, prefix, text, err);
		return set_whole(row, at, prefix, text, err);
	case MQ_ARG_INT:
		return set_whole(row, at, prefix, text, err);
	case MQ_ARG_F64:
		return set_number(row, (double *)at, prefix, text, err);
	case MQ_ARG_WORD:
	case MQ_ARG_CHOICE:
		return set_word(row, at, prefix, text, err);
	case MQ_ARG_READ:
	case MQ_ARG_SWITCH:
		return row->read(row, target, text ? text : "true", err);
	case MQ_ARG_GROUP:
	case MQ_ARG_END:
		break;
	}
	mq_assert(!"type of an option");
	return MQ_EBUG;
}

const struct mq_arg *mq_arg_find(const struct mq_arg *rows, const char *name)
{
	for (; rows->type != MQ_ARG_END; rows++)
		if (rows->type != MQ_ARG_GROUP && !strcmp(rows->name, name))
			return rows;
	return NULL;
}

const char *mq_arg_text(const struct mq_arg *row, const void *target, uint32_t index, int digits, char text[32])
{
	const void *at = (const char *)target + row->offset;
	double scale = row->scale > 0 ? row->scale : 1;

	if (row->type == MQ_ARG_LIST)
		return index < ((const struct mq_list *)at)->n ? ((const struct mq_list *)at)->item[index] : NULL;
	if (index || (row->flags & MQ_ARG_EFFORT && row->type == MQ_ARG_INT && get_int(row, at) == UINT64_MAX))
		return NULL;
	switch (row->type) {
	case MQ_ARG_FLAG:
		return *(const bool *)at ? "true" : NULL;
	case MQ_ARG_TEXT:
	case MQ_ARG_CHOICE:
		return *(const char *const *)at;
	case MQ_ARG_WORD:
		return word(row, (int)get_int(row, at), text);
	case MQ_ARG_INT:
		snprintf(text, 32, "%llu", (unsigned long long)get_int(row, at));
		return text;
	case MQ_ARG_F64:
	case MQ_ARG_WHOLE:
		snprintf(text, 32, "%.*g", digits, *(const double *)at / scale);
		return isfinite(*(const double *)at) ? text : NULL;
	default:
		return NULL;
	}
}

static bool is_default(const struct mq_arg *row, const void *target)
{
	const void *at = (const char *)target + row->offset;

	if (row->given)
		return !*(const bool *)((const char *)target + row->given);
	if (row->type == MQ_ARG_TEXT || row->type == MQ_ARG_CHOICE)
		return row->text && *(const char *const *)at && !strcmp(row->text, *(const char *const *)at);
	if (row->type == MQ_ARG_F64 || row->type == MQ_ARG_WHOLE)
		return *(const double *)at == row->initial * (row->scale > 0 ? row->scale : 1);
	if (row->type == MQ_ARG_INT || row->type == MQ_ARG_WORD)
		return get_int(row, at) == (uint64_t)row->initial;
	return false;
}

void mq_args_print(const struct mq_arg *rows, const void *target, uint32_t without, FILE *file)
{
	const char *value;
	char text[32];

	for (const struct mq_arg *row = rows; row->type != MQ_ARG_END; row++) {
		if (row->flags & (without | MQ_ARG_QUIET) || (!(row->flags & MQ_ARG_ALWAYS) && is_default(row, target)))
			continue;
		for (uint32_t i = 0; (value = mq_arg_text(row, target, i, 12, text)); i++)
			if (row->type == MQ_ARG_TEXT || row->type == MQ_ARG_LIST)
				mq_ini_put(file, row->name, value);
			else
				fprintf(file, "%s = %s\n", row->name, value);
	}
}

uint32_t mq_args_encode(const struct mq_arg *rows, const void *target, uint32_t flags, struct mq_arena *arena,
			char **argv)
{
	const char *value;
	char text[32];
	uint32_t n = 0;

	for (const struct mq_arg *row = rows; row->type != MQ_ARG_END; row++) {
		if (!(row->flags & flags) || (row->given && !(row->flags & MQ_ARG_ALWAYS) && is_default(row, target)))
			continue;
		for (uint32_t i = 0; (value = mq_arg_text(row, target, i, 17, text)); i++)
			argv[n++] = mq_arena_printf(arena, "%s=%s", row->name, value);
	}
	return n;
}

enum mq_status mq_args_decode(const struct mq_arg *rows, void *target, const char *text, bool *known,
			      struct mq_err *err)
{
	const char *equals = strchr(text, '=');

	*known = false;
	for (const struct mq_arg *row = rows; equals && row->type != MQ_ARG_END; row++)
		if (row->type != MQ_ARG_GROUP && strlen(row->name) == (size_t)(equals - text) &&
		    !strncmp(row->name, text, (size_t)(equals - text))) {
			*known = true;
			return mq_arg_set(row, target, NULL, equals + 1, err);
		}
	return MQ_OK;
}

/* ---- command lines ---------------------------------------------------------------------------------------- */

struct parsing {
	const struct mq_arg *row[MAX_ROWS]; /* of all tables; key FIRST_KEY + i is the i-th */
	void *target[MAX_ROWS];
	uint32_t n;
	uint32_t words; /* words without -- so far */
	struct mq_arena arena;
	struct mq_err *err;
};

static bool takes_value(const struct mq_arg *row)
{
	return row->type != MQ_ARG_FLAG && row->type != MQ_ARG_SWITCH;
}

/* The default as text; NULL: none, or part of the description. */
static const char *default_of(const struct mq_arg *row, struct mq_arena *arena)
{
	char text[32];

	if (row->flags & MQ_ARG_OWN_DEFAULT)
		return NULL;
	if (row->type == MQ_ARG_WORD)
		return mq_arena_strdup(arena, word(row, (int)row->initial, text));
	if (row->text)
		return row->text;
	if ((row->type == MQ_ARG_INT || row->type == MQ_ARG_F64 || row->type == MQ_ARG_WHOLE) && row->initial > 0 &&
	    isfinite(row->initial))
		return mq_arena_printf(arena, "%g", row->initial);
	return NULL;
}

static bool has_words(const struct mq_arg *row)
{
	return row->type == MQ_ARG_WORD || row->type == MQ_ARG_CHOICE;
}

/* Description, known words and default. */
static const char *help_of(const struct mq_arg *row, struct mq_arena *arena)
{
	const char *help = row->help, *w, *initial = default_of(row, arena);
	char text[32];

	for (int i = 0; has_words(row) && (w = word(row, i, text)); i++)
		help = mq_arena_printf(arena, "%s%s %s", help, i ? "" : ":", w);
	return initial ? mq_arena_printf(arena, "%s (default %s)", help, initial) : help;
}

/* The rows of all tables for argp, except rows of words without --. */
static void list_options(const struct mq_args *args, struct parsing *p, struct argp_option *option)
{
	int group = 0;

	for (int t = 0; t < MQ_ARG_TABLES && args->table[t].rows; t++, group++)
		for (const struct mq_arg *row = args->table[t].rows; row->type != MQ_ARG_END; row++) {
			mq_assert(p->n + 1 < MAX_ROWS);
			group += row->type == MQ_ARG_GROUP;
			if (row->type == MQ_ARG_GROUP)
				*option++ = (struct argp_option){ .doc = row->name, .group = group };
			else if (!(row->flags & MQ_ARG_POSITIONAL))
				*option++ = (struct argp_option){
					.name = row->name,
					.key = row->letter ? row->letter : FIRST_KEY + (int)p->n,
					.arg = takes_value(row) ? row->value : NULL,
					.flags = row->flags & MQ_ARG_HIDDEN ? OPTION_HIDDEN : 0,
					.doc = help_of(row, &p->arena),
					.group = group,
				};
			p->row[p->n] = row;
			p->target[p->n++] = args->table[t].target;
		}
}

static bool is_option(const struct mq_arg *row)
{
	return row->type != MQ_ARG_GROUP && !(row->flags & MQ_ARG_POSITIONAL);
}

/* A word without -- goes to the next row of such words; a list takes all remaining ones. */
static enum mq_status take_word(struct parsing *p, const char *text)
{
	uint32_t left = p->words++;

	for (uint32_t i = 0; i < p->n; i++) {
		const struct mq_arg *row = p->row[i];

		if (!(row->flags & MQ_ARG_POSITIONAL) || (left && row->type == MQ_ARG_TEXT && left--))
			continue;
		if (row->type == MQ_ARG_TEXT) {
			const char *other = *(const char **)((char *)p->target[i] + row->offset);

			if (other)
				return mq_bad(p->err, "two values for %s, '%s' and '%s'; give one", row->name, other,
					      text);
		}
		return mq_arg_set(row, p->target[i], "", text, p->err);
	}
	return mq_bad(p->err, "argument '%s' is one too many; leave it away", text);
}

static void put_member(const char *key, const char *text)
{
	if (!text)
		return;
	printf(", \"%s\": ", key);
	mq_json_put_text(stdout, text);
}

/* --help as JSON: the members of a command's object. */
static void print_json(const struct mq_args *args, struct parsing *p)
{
	static const char *const types[] = {
		[MQ_ARG_FLAG] = "flag",     [MQ_ARG_TEXT] = "text",  [MQ_ARG_LIST] = "list", [MQ_ARG_INT] = "integer",
		[MQ_ARG_WHOLE] = "integer", [MQ_ARG_F64] = "number", [MQ_ARG_WORD] = "word", [MQ_ARG_CHOICE] = "word",
		[MQ_ARG_READ] = "text",     [MQ_ARG_SWITCH] = "flag"
	};
	const char *group = NULL, *w, *between = "";
	char text[32];

	mq_json_put_after(stdout, "\"about\": ", args->doc ? args->doc : "");
	printf(", \"options\": [");
	for (uint32_t i = 0; i < p->n; i++) {
		const struct mq_arg *row = p->row[i];

		if (row->type == MQ_ARG_GROUP)
			group = row->name;
		if (row->type == MQ_ARG_GROUP || row->flags & MQ_ARG_HIDDEN)
			continue;
		printf("%s\n  {\"type\": \"%s\"", between, types[row->type]);
		put_member("name", row->name);
		put_member("letter", row->letter ? (char[]){ row->letter, '\0' } : NULL);
		put_member("group", group);
		put_member("value", takes_value(row) ? row->value : NULL);
		put_member("help", row->help);
		put_member("default", default_of(row, &p->arena));
		put_member("unit", row->unit);
		if (row->max > row->min)
			printf(", \"min\": %.17g, \"max\": %.17g", row->min, row->max);
		for (int k = 0; has_words(row) && (w = word(row, k, text)); k++)
			printf("%s\"%s\"", k ? ", " : ", \"words\": [", w);
		printf("%s%s}", has_words(row) ? "]" : "",
		       row->flags & MQ_ARG_POSITIONAL ? ", \"positional\": true" : "");
		between = ",";
	}
	printf("\n  ]");
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct parsing *p = state->input;
	enum mq_status status = MQ_OK;
	uint32_t i = 0;

	if (key == ARGP_KEY_ARG)
		status = take_word(p, text);
	while (key != ARGP_KEY_ARG && i < p->n &&
	       (!is_option(p->row[i]) || key != (p->row[i]->letter ? p->row[i]->letter : FIRST_KEY + (int)i)))
		i++;
	if (i == p->n)
		return ARGP_ERR_UNKNOWN;
	if (key != ARGP_KEY_ARG)
		status = mq_arg_set(p->row[i], p->target[i], "--", text, p->err);
	return status == MQ_OK ? 0 : EINVAL;
}

/* The option that a word names or abbreviates, as in getopt; NULL and *other: ambiguous. */
static const char *find_long(const struct parsing *p, const char *text, const char **other, bool *value)
{
	static const char *const own[] = { "help", "usage", "version" };
	const char *found = NULL;

	*other = NULL;
	for (uint32_t i = 0; i < p->n + 3; i++) {
		const char *name = i < 3 ? own[i] : p->row[i - 3]->name;

		if ((i >= 3 && !is_option(p->row[i - 3])) || strncmp(text, name, strlen(text)))
			continue;
		bool whole = !strcmp(text, name);
		*other = whole || !found ? NULL : *other ? *other : name;
		if (whole || !found) {
			found = name;
			*value = i >= 3 && takes_value(p->row[i - 3]);
		}
		if (whole)
			break;
	}
	return found;
}

/* Errors for which argp would print three lines and end the process; words may come from a job file. */
static enum mq_status check_long(const struct parsing *p, const char *program, const char *arg)
{
	const char *names[MAX_ROWS + 1], *other, *found;
	char text[64] = "";
	size_t length = strcspn(arg, "="), n = 0;
	bool value = false;

	if (length >= sizeof(text))
		return mq_bad(p->err, "unknown option --%.60s...; see %s --help", arg, program);
	memcpy(text, arg, length);
	found = find_long(p, text, &other, &value);
	if (other)
		return mq_bad(p->err, "option --%s is the beginning of --%s and of --%s: write more of it", text, found,
			      other);
	if (found && !value && arg[length])
		return mq_bad(p->err, "option --%s takes no value; leave '%.60s' away", found, arg + length);
	if (found)
		return MQ_OK;
	for (uint32_t i = 0; i < p->n; i++) {
		if (p->row[i]->was && !strcmp(p->row[i]->was, text))
			return mq_bad(p->err, "option --%s is now --%s", text, p->row[i]->name);
		if (is_option(p->row[i]))
			names[n++] = p->row[i]->name;
	}
	names[n] = NULL;
	const char *near = mq_nearest(text, names);
	if (near)
		return mq_bad(p->err, "unknown option --%s; did you mean --%s?", text, near);
	return mq_bad(p->err, "unknown option --%s; see %s --help", text, program);
}

static enum mq_status parse_all(struct parsing *p, const struct argp *argp, const char *program, int argc, char **argv)
{
	static char help[] = "--help";
	char name[64], *command = argv[0];

	snprintf(name, sizeof(name), program ? "%s" : "maquette %s", program ? program : command);
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		if (!strcmp(argv[i], "-h"))
			argv[i] = help;
		if (!strncmp(argv[i], "--", 2))
			MQ_TRY(check_long(p, name, argv[i] + 2));
	}
	argv[0] = name; /* the name in --help */
	argp_err_exit_status = MQ_EINPUT;
	p->err->status = MQ_OK;
	error_t bad = argp_parse(argp, argc, argv, 0, NULL, p);
	argv[0] = command;
	if (p->err->status != MQ_OK)
		return p->err->status;
	return bad ? mq_bad(p->err, "bad usage; see %s --help", name) : MQ_OK;
}

bool mq_args_describe(int argc, char **argv)
{
	return argc == 3 && !strcmp(argv[1], "--help") && !strcmp(argv[2], "--json");
}

enum mq_status mq_args_parse(const struct mq_args *args, int argc, char **argv, struct mq_err *err)
{
	struct argp_option option[MAX_ROWS] = { { .name = NULL } };
	const struct argp argp = { option, parse, args->args_doc, args->doc, NULL, NULL, NULL };
	struct parsing p = { .arena = MQ_ARENA_INIT, .err = err };

	list_options(args, &p, option);
	if (mq_args_describe(argc, argv)) {
		print_json(args, &p);
		err->text[0] = '\0';
		mq_arena_fini(&p.arena);
		return MQ_EINPUT;
	}
	enum mq_status status = parse_all(&p, &argp, args->program, argc, argv);
	mq_arena_fini(&p.arena);
	return status;
}
