/* text.h - reads text files of bounded size (input may be hostile, /dev/zero has no end), writes files, and takes texts
 * apart. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_BASE_TEXT_H
#define MQ_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "maquette/arena.h"
#include "maquette/err.h"

/* Reads a file (or a pipe) to its end; *text ends in a NUL. MQ_EINPUT: it cannot be read, is larger than `most_MB`
 * megabytes, or contains zero bytes. */
enum mq_status mq_text_read(const char *path, size_t most_MB, struct mq_arena *arena, char **text, size_t *size,
			    struct mq_err *err);

/* The same, zero bytes allowed. */
enum mq_status mq_bytes_read(const char *path, size_t most_MB, struct mq_arena *arena, char **bytes, size_t *size,
			     struct mq_err *err);

/* Removes terminal colours and a pager's control characters; keeps tabs and ends of lines. */
MQ_API void mq_text_strip_controls(char *text);

/* For qsort: orders texts by their bytes, in any locale. */
MQ_API int mq_by_text(const void *a, const void *b);

/* Is `word` in a list of words, separated by blanks? */
MQ_API bool mq_text_has_word(const char *list, const char *word);
/* Removes and returns the first item of a list, without blanks around it; NULL at the end. */
MQ_API char *mq_text_next(const char **list, const char *separators, struct mq_arena *arena);
/* A file's name without folder, up to its first dot, unless it begins with that. */
MQ_API const char *mq_file_stem(const char *path, struct mq_arena *arena);
/* Does the text match a pattern (fnmatch) of a list? */
MQ_API bool mq_text_fits(const char *patterns, char separator, const char *text, int flags);

/* Writes text as a JSON string. */
MQ_API void mq_json_put_text(FILE *file, const char *text);
/* Writes `before` unchanged (a key, say), then text as a JSON string. */
void mq_json_put_after(FILE *file, const char *before, const char *text);
/* Writes text as a JSON string in which characters of `also` are escaped as \uXXXX, too. */
MQ_API void mq_json_put_but(FILE *file, const char *text, const char *also);

/* Writes a file of these bytes atomically, by renaming PATH.half. MQ_EINPUT: it cannot be written. */
MQ_API enum mq_status mq_text_write(const char *path, const void *bytes, size_t size, struct mq_err *err);
/* A stream into memory: the text lives until the caller frees it (MQ_FREED: at the end of the block). */
struct mq_words {
	char *text;
	size_t size;
};
FILE *mq_words_open(struct mq_words *words);
MQ_API void mq_words_free(struct mq_words *words);
#define MQ_FREED __attribute__((cleanup(mq_words_free)))

/* A command line in the arena: mq_argv_add appends a word, a printf format; mq_argv_end ends it by NULL. */
struct mq_argv {
	struct mq_arena *arena;
	char **word;
	uint32_t n, room;
};
void mq_argv_add(struct mq_argv *argv, const char *format, ...) __attribute__((format(printf, 2, 3)));
char **mq_argv_end(struct mq_argv *argv);

/* Opens a new file for writing. MQ_EINPUT: it cannot be written. */
MQ_API enum mq_status mq_file_open(const char *path, FILE **file, struct mq_err *err);
/* MQ_EINPUT: a write failed (the disk is full). */
MQ_API enum mq_status mq_file_close(FILE *file, const char *path, struct mq_err *err);
/* Writes a text to a new file, or to a device. */
enum mq_status mq_file_put(const char *path, const char *text, struct mq_err *err);

#endif
