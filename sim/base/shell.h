/* shell.h - the words that Bash would pass to the programs of a launch script, without running any.
 *
 * Followed are quotes, arrays, assignments, ${NAME} with defaults, indices and lengths, $((arithmetic)), functions,
 * conditions on what the script itself assigns, and commands in strings (eval, bash -c) and here-documents (sbatch
 * <<EOF). #SBATCH lines say what Slurm sets. The script has no arguments and nothing is taken from the environment:
 * $(command) and names that are not assigned stay as written, so that an error can name them.
 *
 * If the script does not decide a condition or a loop, its body is in doubt: a name that is assigned there stays as
 * written, and its words are listed apart (`doubt`). Not followed: other files (source), coprocesses, patterns in
 * names. A text with lines "--flag: value" (YAML) is read as these flags alone. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_BASE_SHELL_H
#define MQ_BASE_SHELL_H

#include "maquette/arena.h"
#include "maquette/err.h"

struct mq_script {
	const char **word;  /* of all commands that are run, NULL-terminated */
	const char **doubt; /* of commands and values that may be, NULL-terminated */
};

/* MQ_EINPUT: its words come to more than 1 MiB, or it nests too deep. */
MQ_API enum mq_status mq_shell_read(const char *text, struct mq_arena *arena, struct mq_script *script,
				    struct mq_err *err);

#endif
