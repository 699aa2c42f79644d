/* shell_parts.h - what shell.c (words) and shell_run.c (commands) share. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_BASE_SHELL_PARTS_H
#define MQ_BASE_SHELL_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/shell.h"

enum { MQ_SHELL_BYTES = 1 << 20 }; /* of words, and steps, at most */

struct mq_shell_list {
	const char **word;
	uint32_t n, room;
};

struct mq_shell_variable {
	const char *name;
	struct mq_shell_list value; /* one, or those of an array; of one in doubt: all that it may be */
	bool unsure;
};

struct mq_shell_function {
	const char *name, *body;
};

struct mq_shell {
	struct mq_arena *arena;
	struct mq_shell_variable *variable;
	struct mq_shell_function *function;
	uint32_t n, room, n_functions, function_room;
	struct mq_shell_list out, doubt;
	const struct mq_shell_list *args; /* of the function that runs; NULL = of the script */
	uint32_t skip, unsure;            /* branches around that are not taken, that may be */
	uint32_t depth, nesting;
	size_t bytes; /* made so far */
	bool full;
	const char *heredoc; /* the word that ends the document which begins on the next line */
	size_t heredoc_n;
	bool heredoc_runs; /* a shell reads it */
};

void mq_shell_push(struct mq_shell *s, struct mq_shell_list *out, const char *word);
size_t mq_shell_name(const char *c);
struct mq_shell_variable *mq_shell_find(struct mq_shell *s, const char *name, size_t n);
/* The end of the raw word that begins here: at a blank, or at one of `;&|()<>` outside quotes. */
const char *mq_shell_word_end(const char *c);
/* A raw word as Bash makes it; `split`: unquoted values fall into words. */
void mq_shell_expand(struct mq_shell *s, const char *c, const char *end, bool split, struct mq_shell_list *out);
/* The same as one text. */
const char *mq_shell_text(struct mq_shell *s, const char *c, const char *end);
/* An integer expression; false: has names whose value is not known, or is none. */
bool mq_shell_number(struct mq_shell *s, const char *text, int64_t *value);
void mq_shell_assign(struct mq_shell *s, const char *name, size_t n, const struct mq_shell_list *value, bool append);

#endif
