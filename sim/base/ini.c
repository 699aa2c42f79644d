/* ini.c - see ini.h. SPDX-License-Identifier: Apache-2.0 */
#include "base/ini.h"

#include <ctype.h>
#include <string.h>

#include "base/text.h"

static const char plain[] = "ntr\"\\", meant[] = "\n\t\r\"\\";

/* Would the reader read it as something else? */
static bool needs_quotes(const char *value)
{
	size_t n = strlen(value);

	if (!n || *value == '"' || isspace((unsigned char)*value) || isspace((unsigned char)value[n - 1]) ||
	    !strcmp(value, "true") || !strcmp(value, "false"))
		return true;
	for (size_t i = 0; i < n; i++)
		if (iscntrl((unsigned char)value[i]) ||
		    (strchr(";#", value[i]) && (!i || isspace((unsigned char)value[i - 1]))))
			return true;
	return false;
}

void mq_ini_put_value(FILE *file, const char *value)
{
	if (!needs_quotes(value)) {
		fputs(value, file);
		return;
	}
	fputc('"', file);
	for (; *value; value++) {
		const char *special = strchr(meant, *value);

		if (special)
			fprintf(file, "\\%c", plain[special - meant]);
		else
			fputc(*value, file);
	}
	fputc('"', file);
}

void mq_ini_put(FILE *file, const char *key, const char *value)
{
	fprintf(file, "%s = ", key);
	mq_ini_put_value(file, value);
	fputc('\n', file);
}

/* Trims blanks at both ends, in place. */
static char *trim(char *text)
{
	size_t n = strlen(text);

	while (n && isspace((unsigned char)text[n - 1]))
		text[--n] = '\0';
	return text + strspn(text, " \t\r\v\f");
}

/* A quoted value, in place; false: unterminated, or text follows. */
static bool unquote(char *value)
{
	char *to = value, *at = value + 1;

	for (; *at && *at != '"'; at++) {
		const char *special = *at == '\\' && at[1] ? strchr(plain, at[1]) : NULL;

		if (special)
			at++;
		*to++ = special ? meant[special - plain] : *at;
	}
	if (*at != '"')
		return false;
	at += 1 + strspn(at + 1, " \t\r");
	*to = '\0';
	return !*at || *at == ';' || *at == '#';
}

static enum mq_status read_line(struct mq_ini_item *item, char *line, mq_ini_take *take, void *context,
				struct mq_err *err)
{
	char *end, *text = trim(line);

	if (!*text || *text == ';' || *text == '#')
		return MQ_OK;
	if (*text == '[' && (end = strchr(text, ']'))) {
		*end = '\0';
		item->section = text + 1;
		return MQ_OK;
	}
	char *sign = strpbrk(text, "=:");
	if (!sign || sign == text)
		return mq_bad(err, "%s:%u: not `key = value`", item->path, item->line);
	*sign = '\0';
	char *value = sign + 1 + strspn(sign + 1, " \t");
	item->quoted = *value == '"';
	if (item->quoted && !unquote(value))
		return mq_bad(err, "%s:%u: the value of %s begins with a quotation mark and does not end with one",
			      item->path, item->line, trim(text));
	if (!item->quoted) { /* a comment begins at a ';' after a blank */
		for (char *c = value; *c; c++)
			if (*c == ';' && (c == value || isspace((unsigned char)c[-1])))
				*c = '\0';
		value = trim(value);
	}
	item->key = trim(text);
	item->value = value;
	return take(context, item, err);
}

enum mq_status mq_ini_read(const char *path, struct mq_arena *arena, mq_ini_take *take, void *context,
			   struct mq_err *err)
{
	struct mq_ini_item item = { .path = path, .section = "" };
	char *text = NULL, *next;
	size_t size;

	MQ_TRY(mq_text_read(path, 16, arena, &text, &size, err));
	if (!strncmp(text, "\xef\xbb\xbf", 3)) /* the byte-order mark of some editors */
		text += 3;
	for (char *line = text; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		item.line++;
		MQ_TRY(read_line(&item, line, take, context, err));
	}
	return MQ_OK;
}
