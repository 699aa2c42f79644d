/* shell.h - the words of a launch script, as a shell would hand them to the program.
 *
 * Read are quotes, backslashes, comments, assignments (NAME=value, NAME=( words ), NAME+=...) and $NAME, ${NAME},
 * ${NAME:-otherwise}, ${NAME[@]} of names that the script itself assigns. Nothing is run and nothing is taken from
 * the environment: $(command), $((arithmetic)) and names that are not assigned stay as they are written, so that who
 * needs their value can name them. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_BASE_SHELL_H
#define MQ_BASE_SHELL_H

#include "maquette/arena.h"
#include "maquette/err.h"

/* All words of `text` that are not assignments, NULL-terminated. MQ_EINPUT: they come to more than 1 MiB. */
MQ_API enum mq_status mq_shell_words(const char *text, struct mq_arena *arena, const char ***word,
				     struct mq_err *err) MQ_MUST_CHECK;

#endif
