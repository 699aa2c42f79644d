/* numbers.c - see numbers.h. SPDX-License-Identifier: Apache-2.0 */
#include "base/numbers.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/quantity.h"
#include "base/text.h"

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
	bool list = listed || mq_parse_f64(text, &alone); /* else the name of a file */

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
