/* text.h - text files: read into memory up to a bound (files come from others, /dev/zero has no end), and written.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_BASE_TEXT_H
#define MQ_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "maquette/arena.h"
#include "maquette/err.h"

/* Reads a file (or a pipe) to its end; *text is followed by a NUL. MQ_EINPUT: it cannot be read, has more than
 * `most_MB` megabytes, or zero bytes in it. */
enum mq_status mq_text_read(const char *path, size_t most_MB, struct mq_arena *arena, char **text, size_t *size,
			    struct mq_err *err);

/* The same of any bytes. */
enum mq_status mq_bytes_read(const char *path, size_t most_MB, struct mq_arena *arena, char **bytes, size_t *size,
			     struct mq_err *err);

/* For qsort: texts by their bytes, whatever the locale. */
MQ_API int mq_by_text(const void *a, const void *b);

/* Is it one of the words of a list, with blanks between them? */
MQ_API bool mq_text_has_word(const char *list, const char *word);
/* Takes what stands before the next separator off the front of a list, without blanks around it; NULL at the end. */
MQ_API char *mq_text_next(const char **list, const char *separators, struct mq_arena *arena);
/* Does it fit a pattern of a list, as fnmatch takes them? */
MQ_API bool mq_text_fits(const char *patterns, char separator, const char *text, int flags);

/* Text as a JSON string. */
MQ_API void mq_json_put_text(FILE *file, const char *text);
/* The same behind what is written as it is, as a key. */
void mq_json_put_after(FILE *file, const char *before, const char *text);
/* The same where no character of `also` may stand as it is: it is written by its number. */
MQ_API void mq_json_put_but(FILE *file, const char *text, const char *also);

/* A file of these bytes, whole or not at all: what a killed process leaves half is PATH.half. MQ_EINPUT: cannot write. */
MQ_API enum mq_status mq_text_write(const char *path, const void *bytes, size_t size, struct mq_err *err);
/* A stream into memory: the text lives until the caller frees it (MQ_FREED: at the end of the block). */
struct mq_words {
	char *text;
	size_t size;
};
FILE *mq_words_open(struct mq_words *words);
MQ_API void mq_words_free(struct mq_words *words);
#define MQ_FREED __attribute__((cleanup(mq_words_free)))

/* The words of a command line, in the arena: added one by one as printf makes them; the end adds the NULL behind them. */
struct mq_argv {
	struct mq_arena *arena;
	char **word;
	uint32_t n, room;
};
void mq_argv_add(struct mq_argv *argv, const char *format, ...) __attribute__((format(printf, 2, 3)));
char **mq_argv_end(struct mq_argv *argv);

/* A new file to write to. MQ_EINPUT: it cannot be written. */
MQ_API enum mq_status mq_file_open(const char *path, FILE **file, struct mq_err *err);
/* MQ_EINPUT: not all that was written arrived (a full disk). */
MQ_API enum mq_status mq_file_close(FILE *file, const char *path, struct mq_err *err);
/* A new file, or a device, of this text alone. */
enum mq_status mq_file_put(const char *path, const char *text, struct mq_err *err);

#endif
