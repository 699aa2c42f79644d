/* opt.c - see opt.h. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/opt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/quantity.h"
#include "base/text.h"

enum { MAX_NAMES = 256, MAX_WORD = 63 };

static uint32_t edit_distance(const char *a, const char *b)
{
	uint32_t row[MAX_WORD + 1];
	size_t na = strlen(a), nb = strlen(b);

	if (na > MAX_WORD || nb > MAX_WORD)
		return UINT32_MAX;
	for (size_t j = 0; j <= nb; j++)
		row[j] = (uint32_t)j;
	for (size_t i = 1; i <= na; i++) {
		uint32_t diagonal = row[0];

		row[0] = (uint32_t)i;
		for (size_t j = 1; j <= nb; j++) {
			uint32_t best = diagonal + (a[i - 1] != b[j - 1]);

			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[nb];
}

const char *mq_nearest(const char *word, const char *const *names)
{
	const char *best = NULL;
	size_t length = strlen(word);
	uint32_t least = (uint32_t)length / 2 + 1;
	const char *begun = NULL; /* the shortest name that begins with the word: nearer than any misspelling */

	for (; *names; names++) {
		uint32_t d = edit_distance(word, *names);

		if (length > 2 && !strncmp(word, *names, length) && (!begun || strlen(*names) < strlen(begun)))
			begun = *names;
		if (d < least) {
			least = d;
			best = *names;
		}
	}
	return begun ? begun : best;
}

static void *field(const struct mq_opt *o, void *target)
{
	return (char *)target + o->offset;
}

static void put(const struct mq_opt *o, void *target, double value)
{
	if (o->type == MQ_OPT_F64)
		*(double *)field(o, target) = value;
	else if (o->type == MQ_OPT_BOOL)
		*(bool *)field(o, target) = value != 0;
	else
		*(uint32_t *)field(o, target) = (uint32_t)value;
}

double mq_opt_value(const struct mq_opt *o, const void *target)
{
	const void *at = (const char *)target + o->offset;

	return o->type == MQ_OPT_F64  ? *(const double *)at :
	       o->type == MQ_OPT_BOOL ? *(const bool *)at :
					*(const uint32_t *)at;
}

const char *mq_opt_text(const struct mq_opt *o, const void *target, int digits, char text[64])
{
	const char *word = o->text;

	if (o->type == MQ_OPT_STR)
		return *(const char *const *)((const char *)target + o->offset);
	double value = mq_opt_value(o, target);
	if (o->type == MQ_OPT_BOOL)
		return value != 0 ? "true" : "false";
	for (uint32_t i = 0; o->type == MQ_OPT_CHOICE && i < (uint32_t)value; i++)
		word = strchr(word, '|') + 1;
	if (o->type == MQ_OPT_CHOICE)
		snprintf(text, 64, "%.*s", (int)strcspn(word, "|"), word);
	else
		snprintf(text, 64, "%.*g", o->type == MQ_OPT_U32 ? 10 : digits, value);
	return text;
}

void mq_opt_defaults(const struct mq_opt *opts, void *target)
{
	for (const struct mq_opt *o = opts; o && o->type != MQ_OPT_END; o++)
		if (o->type == MQ_OPT_STR)
			*(const char **)field(o, target) = o->text;
		else
			put(o, target, o->initial);
}

/* The row of a name. With a unit in the value, the key needs none: nic=400Gb/s is nic_GBps=50. */
static const struct mq_opt *find(const struct mq_opt *opts, const char *key, const char *value)
{
	size_t n = strlen(key);
	double v;

	for (const struct mq_opt *o = opts; o && o->type != MQ_OPT_END; o++)
		if (!strcmp(o->name, key))
			return o;
	for (const struct mq_opt *o = opts; o && o->type != MQ_OPT_END; o++)
		if (n && !strncmp(o->name, key, n) && o->name[n] == '_' && !strchr(o->name + n + 1, '_') &&
		    mq_unit_of_name(o->name) && mq_parse_quantity(value, mq_unit_of_name(o->name), &v) &&
		    !mq_parse_f64(value, &v))
			return o;
	return NULL;
}

static enum mq_status unknown(const struct mq_opt *opts, const char *what, const char *key, struct mq_err *err)
{
	const char *names[MAX_NAMES];
	char list[320] = "";
	size_t n = 0, used = 0;

	for (const struct mq_opt *o = opts; o && o->type != MQ_OPT_END && n + 1 < MAX_NAMES; o++) {
		names[n++] = o->name;
		if (used + strlen(o->name) + 2 < sizeof(list))
			used += (size_t)sprintf(list + used, "%s%s", used ? " " : "", o->name);
	}
	names[n] = NULL;
	if (!n)
		return mq_bad(err, "%s takes no options, '%s' was given", what, key);
	const char *near = mq_nearest(key, names);
	if (near)
		return mq_bad(err, "%s has no option '%s'; did you mean '%s'?", what, key, near);
	return mq_bad(err, "%s has no option '%s'; it has: %s", what, key, list);
}

static enum mq_status set_number(const struct mq_opt *o, void *target, const char *what, const char *value,
				 struct mq_err *err)
{
	const char *unit = mq_unit_of_name(o->name);
	double v;

	if (!mq_parse_f64(value, &v) && !(unit && mq_parse_quantity(value, unit, &v)))
		return mq_bad(err, "%s: %s=%s is not a number%s%s; give one from %g to %g", what, o->name, value,
			      unit ? " or a quantity in " : "", unit ? unit : "", o->min, o->max);
	if (v < o->min || v > o->max)
		return mq_bad(err, "%s: %s=%s is out of range; give %g to %g", what, o->name, value, o->min, o->max);
	if (o->type == MQ_OPT_U32 && v != floor(v))
		return mq_bad(err, "%s: %s=%s must be a whole number from %g to %g", what, o->name, value, o->min,
			      o->max);
	put(o, target, v);
	return MQ_OK;
}

static enum mq_status set_bool(const struct mq_opt *o, void *target, const char *what, const char *value,
			       struct mq_err *err)
{
	bool yes = mq_text_has_word("1 true yes on", value);

	if (!yes && !mq_text_has_word("0 false no off", value))
		return mq_bad(err, "%s: %s=%s is neither true nor false", what, o->name, value);
	put(o, target, yes);
	return MQ_OK;
}

static enum mq_status set_choice(const struct mq_opt *o, void *target, const char *what, const char *value,
				 struct mq_err *err)
{
	size_t length = strlen(value), n;
	uint32_t index = 0;

	for (const char *c = o->text; c; c = c[n] ? c + n + 1 : NULL, index++) {
		n = strcspn(c, "|");
		if (n == length && !memcmp(c, value, n)) {
			put(o, target, index);
			return MQ_OK;
		}
	}
	return mq_bad(err, "%s: %s=%s is not one of %s", what, o->name, value, o->text);
}

enum mq_status mq_opt_set(const struct mq_opt *opts, void *target, const char *what, const char *key, const char *value,
			  struct mq_arena *arena, struct mq_err *err)
{
	const struct mq_opt *o = find(opts, key, value);

	if (!o)
		return unknown(opts, what, key, err);
	switch (o->type) {
	case MQ_OPT_U32:
	case MQ_OPT_F64:
		return set_number(o, target, what, value, err);
	case MQ_OPT_BOOL:
		return set_bool(o, target, what, value, err);
	case MQ_OPT_CHOICE:
		return set_choice(o, target, what, value, err);
	case MQ_OPT_STR:
		*(const char **)field(o, target) = mq_arena_strdup(arena, value);
		return MQ_OK;
	case MQ_OPT_END:
		break;
	}
	mq_assert(!"option type");
	return MQ_EBUG;
}

enum mq_status mq_opt_parse(const struct mq_opt *opts, void *target, const char *what, const char *text,
			    struct mq_arena *arena, struct mq_err *err)
{
	if (!text || !*text)
		return MQ_OK;
	char *copy = mq_arena_strdup(arena, text);
	for (char *item = copy; item;) {
		char *comma = strchr(item, ',');

		if (comma)
			*comma++ = '\0';
		char *value = strchr(item, '=');
		if (value)
			*value++ = '\0';
		if (!*item)
			return mq_bad(err, "%s: empty option in '%s'; write key=value", what, text);
		MQ_TRY(mq_opt_set(opts, target, what, item, value ? value : "true", arena, err));
		item = comma;
	}
	return MQ_OK;
}

const char *mq_opt_print(const struct mq_opt *opts, const void *target, struct mq_arena *arena)
{
	const char *list = "";

	for (const struct mq_opt *o = opts; o && o->type != MQ_OPT_END; o++) {
		char text[64];
		const char *v = mq_opt_text(o, target, 12, text);

		if (o->type == MQ_OPT_STR ? v && (!o->text || strcmp(v, o->text)) :
					    mq_opt_value(o, target) != o->initial)
			list = mq_arena_printf(arena, "%s%s%s=%s", list, *list ? "," : "", o->name, v);
	}
	return list;
}
