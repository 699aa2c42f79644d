/* template.c - see template.h. SPDX-License-Identifier: Apache-2.0 */
#include "base/template.h"

#include <stdbool.h>
#include <string.h>

#include "base/paths.h"
#include "base/text.h"

void mq_template_set(struct mq_template *t, const char *name, const char *format, ...)
{
	struct mq_template_value value = { .name = name };
	va_list values;

	va_start(values, format);
	value.text = mq_arena_vprintf(t->arena, format, values);
	va_end(values);
	MQ_PUSH(t->arena, t->value, t->n, t->room, value);
}

/* The value of the name from `at` to `mark`, and the text after that; NULL: none. */
static const char *value_at(const struct mq_template *t, const char *at, const char *mark, const char **behind)
{
	const char *end = strstr(at, mark);
	size_t n = end ? (size_t)(end - at) : 0;

	*behind = n ? end + strlen(mark) : at;
	for (uint32_t i = t->n; n && i-- > 0;)
		if (strlen(t->value[i].name) == n && !strncmp(t->value[i].name, at, n))
			return t->value[i].text;
	return NULL;
}

static bool put_line(const struct mq_template *t, const char *line, size_t n, FILE *file)
{
	const char *end = line + n, *text;
	bool within = false; /* "[[" and "]]" */

	while (line < end) {
		bool value = !strncmp(line, "{{", 2), part = !strncmp(line, "[[", 2);

		if (within && !strncmp(line, "]]", 2)) {
			within = false;
			line += 2;
		} else if (!value && !part) {
			fputc(*line++, file);
		} else if (!(text = value_at(t, line + 2, value ? "}}" : ":", &line))) {
			return false;
		} else if (value) {
			fputs(text, file);
		} else {
			within = true;
			line = *text ? line : strstr(line, "]]") ?: end;
		}
	}
	return !within;
}

enum mq_status mq_template_text(const struct mq_template *t, const char *folder, const char *name, const char **text,
				struct mq_err *err)
{
	MQ_FREED struct mq_words memory = { NULL, 0 };
	bool inside = false, shown = true, good = true;
	const char *dir, *path, *behind, *value;
	uint32_t line = 0;
	char *form;
	size_t size;

	MQ_TRY(mq_find_dir(folder, t->arena, &dir, err));
	path = mq_arena_printf(t->arena, "%s/%s", dir, name);
	MQ_TRY(mq_text_read(path, 1, t->arena, &form, &size, err));
	FILE *file = mq_words_open(&memory);
	for (const char *c = form, *next; *c && good; c = next, line++) {
		next = c + strcspn(c, "\n");
		next += *next == '\n';
		if (!strncmp(c, "{{if ", 5)) {
			value = value_at(t, c + 5, "}}", &behind);
			good = value && !inside;
			inside = true;
			shown = good && *value;
		} else if (!strncmp(c, "{{else}}", 8)) {
			good = inside;
			shown = !shown;
		} else if (!strncmp(c, "{{end}}", 7)) {
			good = inside;
			inside = false;
			shown = true;
		} else if (shown) {
			good = put_line(t, c, (size_t)(next - c), file);
		}
	}
	fclose(file);
	*text = mq_arena_strdup(t->arena, memory.text);
	return good && !inside ?
		       MQ_OK :
		       mq_bad(err, "%s:%u: a name without value, or a condition without beginning or end", path, line);
}
