/* text.c - see text.h. SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 64 << 10 };

static enum mq_status read_all(const char *path, size_t most_MB, bool binary, struct mq_arena *arena, char **text,
			       size_t *size, struct mq_err *err)
{
	FILE *f = fopen(path, "r");
	size_t most = most_MB << 20, room = CHUNK, got = 1;
	bool zeros = false;
	struct stat st;

	if (!f)
		return mq_bad(err, "%s: cannot open: %s", path, strerror(errno));
	if (!fstat(fileno(f), &st) && S_ISREG(st.st_mode) && (size_t)st.st_size <= most)
		room = (size_t)st.st_size + 2; /* so that one read reaches the end */
	*text = mq_arena_alloc(arena, room);
	for (*size = 0; got && !zeros && *size <= most; *size += got) {
		if (*size + 1 == room) {
			char *old = *text;

			room *= 2;
			*text = mq_arena_alloc(arena, room);
			memcpy(*text, old, *size);
		}
		got = fread(*text + *size, 1, room - 1 - *size, f);
		zeros = !binary && memchr(*text + *size, '\0', got);
	}
	bool bad = ferror(f) != 0;
	int reason = errno;
	fclose(f);
	(*text)[*size] = '\0';
	if (bad)
		return mq_bad(err, "%s: cannot read: %s", path, strerror(reason));
	if (zeros)
		return mq_bad(err, "%s: not a text file: it has zero bytes", path);
	if (*size > most)
		return mq_bad(err, "%s: more than %zu MB", path, most_MB);
	return MQ_OK;
}

enum mq_status mq_text_read(const char *path, size_t most_MB, struct mq_arena *arena, char **text, size_t *size,
			    struct mq_err *err)
{
	return read_all(path, most_MB, false, arena, text, size, err);
}

enum mq_status mq_bytes_read(const char *path, size_t most_MB, struct mq_arena *arena, char **bytes, size_t *size,
			     struct mq_err *err)
{
	return read_all(path, most_MB, true, arena, bytes, size, err);
}

int mq_by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool mq_text_has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = n && !strchr(word, ' ') ? strstr(list, word) : NULL; at; at = strstr(at + 1, word))
		if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ' '))
			return true;
	return false;
}

char *mq_text_next(const char **list, const char *separators, struct mq_arena *arena)
{
	const char *start = *list + strspn(*list, " ");
	size_t n = strcspn(start, separators), length = n;

	if (!**list)
		return NULL;
	while (length && start[length - 1] == ' ')
		length--;
	*list = start + n + (start[n] != '\0');
	return mq_arena_printf(arena, "%.*s", (int)length, start);
}

bool mq_text_fits(const char *patterns, char separator, const char *text, int flags)
{
	char one[256];

	for (const char *end; *patterns; patterns = end + (*end != '\0')) {
		end = strchrnul(patterns, separator);
		snprintf(one, sizeof(one), "%.*s", (int)(end - patterns), patterns);
		if (!fnmatch(one, text, flags))
			return true;
	}
	return false;
}

void mq_json_put_but(FILE *file, const char *text, const char *also)
{
	fputc('"', file);
	for (text = text ? text : ""; *text; text++)
		if (*text == '"' || *text == '\\')
			fprintf(file, "\\%c", *text);
		else if ((unsigned char)*text < 0x20 || strchr(also, *text))
			fprintf(file, "\\u%04x", (unsigned)*text);
		else
			fputc(*text, file);
	fputc('"', file);
}

void mq_json_put_text(FILE *file, const char *text)
{
	mq_json_put_but(file, text, "");
}

void mq_json_put_after(FILE *file, const char *before, const char *text)
{
	fputs(before, file);
	mq_json_put_text(file, text);
}

enum mq_status mq_file_open(const char *path, FILE **file, struct mq_err *err)
{
	*file = fopen(path, "w");
	return *file ? MQ_OK : mq_bad(err, "%s: cannot write: %s", path, strerror(errno));
}

enum mq_status mq_file_close(FILE *file, const char *path, struct mq_err *err)
{
	bool broken = ferror(file) != 0;

	if (fclose(file) || broken)
		return mq_bad(err, "%s: cannot write: %s; is the disk full?", path, strerror(errno));
	return MQ_OK;
}

enum mq_status mq_file_put(const char *path, const char *text, struct mq_err *err)
{
	FILE *file;

	MQ_TRY(mq_file_open(path, &file, err));
	fputs(text, file);
	return mq_file_close(file, path, err);
}

enum mq_status mq_text_write(const char *path, const void *bytes, size_t size, struct mq_err *err)
{
	char half[4096];

	snprintf(half, sizeof(half), "%s.half", path);
	FILE *f = fopen(half, "w");
	bool bad = !f || fwrite(bytes, 1, size, f) != size;
	if (!(f && fclose(f)) && !bad && !rename(half, path))
		return MQ_OK;
	int reason = errno;
	unlink(half);
	return mq_bad(err, "%s: cannot write: %s; free some space and run again", path, strerror(reason));
}

void mq_text_strip_controls(char *text)
{
	char *to = text;

	for (const char *p = text; *p; p++) {
		if (*p == '\033' && p[1] == '[') {
			while (*p && !isalpha((unsigned char)*p))
				p++;
			if (!*p)
				break;
		} else if ((unsigned char)*p >= ' ' || *p == '\t' || *p == '\n') {
			*to++ = *p;
		}
	}
	*to = '\0';
}

FILE *mq_words_open(struct mq_words *m)
{
	FILE *f = open_memstream(&m->text, &m->size);

	mq_assert(f);
	return f;
}

void mq_words_free(struct mq_words *m)
{
	free(m->text);
}

const char *mq_file_stem(const char *path, struct mq_arena *arena)
{
	const char *base = basename(path);

	return *base ? mq_arena_printf(arena, "%.*s", (int)(1 + strcspn(base + 1, ".")), base) : "model";
}

void mq_argv_add(struct mq_argv *argv, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	char *word = mq_arena_vprintf(argv->arena, format, values);
	va_end(values);
	MQ_PUSH(argv->arena, argv->word, argv->n, argv->room, word);
}

char **mq_argv_end(struct mq_argv *argv)
{
	MQ_PUSH(argv->arena, argv->word, argv->n, argv->room, NULL);
	argv->n--;
	return argv->word;
}
