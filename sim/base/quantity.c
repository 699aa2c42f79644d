/* quantity.c - see quantity.h. SPDX-License-Identifier: Apache-2.0 */
#include "base/quantity.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/text.h"

/* Digits and a point, few enough that one division of integers rounds as strtod: most cells of tables, in a tenth of
 * its time. */
static bool parse_short(const char *text, double *value)
{
	double digits = 0, scale = 1;
	const char *p = text;
	bool point = false;

	for (; p - text < 15 && (isdigit((unsigned char)*p) || (*p == '.' && !point)); p++) {
		point |= *p == '.';
		digits = *p == '.' ? digits : 10 * digits + (*p - '0');
		scale *= point && *p != '.' ? 10 : 1;
	}
	if (*p || p - text <= point)
		return false;
	*value = digits / scale;
	return true;
}

bool mq_parse_f64(const char *text, double *value)
{
	char *end;

	if (parse_short(text, value))
		return true;
	if (!*text || *text == ' ')
		return false;
	errno = 0;
	double v = strtod(text, &end);
	if (*end || end == text || !isfinite(v) || (errno == ERANGE && fabs(v) > 1))
		return false;
	*value = v;
	return true;
}

bool mq_parse_u64(const char *text, uint64_t *value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	if (*end || errno)
		return false;
	*value = v;
	return true;
}

enum kind { BYTES, RATE, TIME, SPEED, POWER, ENERGY, MONEY };

/* Units after the prefix. Case only matters where it separates bit and byte. */
static const struct {
	const char *name;
	enum kind kind;
	double size;
	bool exact; /* case matters */
} units[] = {
	{ "B/s", RATE, 1, true },     { "b/s", RATE, .125, true },    { "Bps", RATE, 1, true },
	{ "bps", RATE, .125, true },  { "bit/s", RATE, .125, false }, { "byte/s", RATE, 1, false },
	{ "B", BYTES, 1, true },      { "b", BYTES, .125, true },     { "bit", BYTES, .125, false },
	{ "byte", BYTES, 1, false },  { "s", TIME, 1, true },         { "sec", TIME, 1, false },
	{ "min", TIME, 60, true },    { "h", TIME, 3600, true },      { "flop/s", SPEED, 1, false },
	{ "flops", SPEED, 1, false }, { "W", POWER, 1, true },        { "Wh", ENERGY, 1, true },
	{ "$", MONEY, 1, true },      { "USD", MONEY, 1, false },
};

static const struct {
	const char *name;
	double size;
} prefixes[] = {
	{ "", 1 },      { "k", 1e3 },         { "K", 1e3 },         { "M", 1e6 },
	{ "G", 1e9 },   { "T", 1e12 },        { "P", 1e15 },        { "m", 1e-3 },
	{ "u", 1e-6 },  { "\302\265", 1e-6 }, { "\316\274", 1e-6 }, { "n", 1e-9 },
	{ "Ki", 1024 }, { "Mi", 1048576 },    { "Gi", 1073741824 }, { "Ti", 1099511627776 },
};

static bool read_unit(const char *text, enum kind *kind, double *size)
{
	for (size_t p = 0; p < sizeof(prefixes) / sizeof(*prefixes); p++) {
		size_t n = strlen(prefixes[p].name);

		for (size_t u = 0; !strncmp(text, prefixes[p].name, n) && u < sizeof(units) / sizeof(*units); u++)
			if (!(units[u].exact ? strcmp : strcasecmp)(text + n, units[u].name)) {
				*kind = units[u].kind;
				*size = units[u].size * prefixes[p].size;
				return true;
			}
	}
	return false;
}

bool mq_parse_quantity(const char *text, const char *unit, double *value)
{
	enum kind want, given;
	double in, size, number;
	char *end;

	if (mq_parse_f64(text, value))
		return true;
	if (!read_unit(unit, &want, &in))
		return false;
	bool dollars = want == MONEY && *text == '$';
	number = strtod(text += dollars, &end);
	if (end == text || isspace((unsigned char)*text) || !isfinite(number))
		return false;
	while (*end == ' ')
		end++;
	const char *of = want == MONEY && *end && !end[1] ? strchr("kMG", *end == 'K' ? 'k' : *end) : NULL;
	if (of || (dollars && !*end)) { /* 20M, $20M, $2.5 */
		*value = number * (of ? pow(1000, *of == 'k' ? 1 : *of == 'M' ? 2 : 3) : 1);
		return true;
	}
	if (!read_unit(end, &given, &size) || given != want)
		return false;
	*value = number * (size / in);
	return true;
}

const char *mq_unit_of_name(const char *name)
{
	static const char *const ends[][2] = {
		{ "_GBps", "GB/s" }, { "_TBps", "TB/s" },     { "_Bps", "B/s" }, { "_GB", "GB" },
		{ "_MB", "MB" },     { "_B", "B" },           { "_us", "us" },   { "_ms", "ms" },
		{ "_s", "s" },       { "tflops", "Tflop/s" }, { "_W", "W" },     { "_per_h", "$" },
	};
	size_t n = strlen(name);

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t m = strlen(ends[i][0]);

		if (n >= m && !strcmp(name + n - m, ends[i][0]))
			return ends[i][1];
	}
	return NULL;
}

double mq_now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- lists of numbers ------------------------------------------------------------------------------------ */

static bool separates(char c)
{
	return isspace((unsigned char)c) || c == ',';
}

enum mq_status mq_numbers_read(const char *what, const char *text, uint32_t most, struct mq_arena *arena,
			       double **number, uint32_t *n, struct mq_err *err)
{
	const char *from = text;
	char *words;
	size_t size;
	uint32_t room = 0, line = 1;
	double alone;
	bool listed = strchr(text, ',') && (isdigit((unsigned char)*text) || *text == '.');
	bool list = listed || mq_parse_f64(text, &alone); /* else a file name */

	*number = NULL;
	*n = 0;
	if (list)
		words = mq_arena_strdup(arena, text);
	else if (mq_text_read(text, 64, arena, &words, &size, err) != MQ_OK)
		return mq_wrap(err, "%s", what);
	while (*words) {
		size_t length = 0;
		double value;

		line += *words == '\n';
		if (separates(*words)) {
			words++;
			continue;
		}
		if (*words == '#') {
			words += strcspn(words, "\n");
			continue;
		}
		while (words[length] && !separates(words[length]))
			length++;
		const char *word = mq_arena_printf(arena, "%.*s", (int)length, words);
		if (!mq_parse_f64(word, &value) || value < 0)
			return mq_bad(err, "%s %s%s: '%.40s' is no number >= 0; give numbers, or a file of them", what,
				      from, list ? "" : mq_arena_printf(arena, ":%u", line), word);
		if (*n == most)
			return mq_bad(err, "%s %s: more than %u numbers", what, from, most);
		MQ_PUSH(arena, *number, *n, room, value);
		words += length;
	}
	if (!*n)
		return mq_bad(err, "%s %s: no number in it", what, from);
	return MQ_OK;
}

const char *mq_numbers_text(const double *number, uint32_t n, struct mq_arena *arena)
{
	enum { DIGITS = 25 };
	char *text = mq_arena_alloc(arena, (size_t)n * DIGITS + 1), *at = text;

	for (uint32_t i = 0; i < n; i++) {
		double back;

		at += sprintf(at, "%s%.9g", i ? "," : "", number[i]);
		const char *begin = at;
		while (begin > text && begin[-1] != ',')
			begin--;
		if (!mq_parse_f64(begin, &back) || back != number[i])
			at = (char *)text + (begin - text) + sprintf((char *)text + (begin - text), "%.17g", number[i]);
	}
	return text;
}
