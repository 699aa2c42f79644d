/* cmd.h - the interface of sub-commands: each file sim/cmd/NAME.c exports mq_command_NAME.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_CMD_CMD_H
#define MQ_CMD_CMD_H

#include "maquette/err.h"

struct mq_command {
	const char *name;
	const char *summary; /* one line for --help and the man page; NULL = hidden */
	/* argv[0] is the command's name. Returns the status; main prints the message and exits. */
	enum mq_status (*run)(int argc, char **argv, struct mq_err *err);
};
/* Defines the command at the end of its file, after the static function `run`. */
#define MQ_DEFINE_COMMAND(name_, summary_) \
	const struct mq_command mq_command_##name_ = { .name = #name_, .summary = summary_, .run = run }

extern const struct mq_command *const mq_commands[]; /* NULL-terminated, sorted by name */

#endif
