/* commands.c - the table of commands: one per file of this folder, generated from their names.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "cmd/cmd.h"

#define MQ_COMMAND(name) extern const struct mq_command mq_command_##name;
#include "commands.inc"
#undef MQ_COMMAND
#define MQ_COMMAND(name) &mq_command_##name,
const struct mq_command *const mq_commands[] = {
#include "commands.inc"
	NULL
};
