/* launch.h - launch settings of whatever program as words of Megatron-LM's command line, which import_megatron.c reads.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_EXPORT_LAUNCH_H
#define MQ_EXPORT_LAUNCH_H

#include <stdbool.h>

#include "maquette/arena.h"
#include "maquette/err.h"

struct mq_launch {
	const char *path, *text;
	const char *program; /* whose settings these are: "Megatron-LM", "torchtitan", ... */
	const char **word;   /* NULL-terminated; besides Megatron's flags, those of the table in launch.c */
	const char **doubt;  /* words of branches that a script does not decide */
	const char *unread;  /* " a b c": keys that are not read */
};

/* Reads shell, YAML, TOML or JSON, as the name and the text say. A plan is a file that has settings of one; what a
 * Python recipe and ds_config.json have is found by their own readers (program "torchtitan recipe", "DeepSpeed").
 * MQ_EINPUT: cannot be read, broken; a setting that no plan has a word for, or that stands in another file. */
enum mq_status mq_launch_read(const char *path, struct mq_arena *arena, struct mq_launch *launch, struct mq_err *err);
/* Is the flag there? The number behind it; 0 = the launch has none. */
bool mq_launch_has(const struct mq_launch *launch, const char *flag);
double mq_launch_number(const struct mq_launch *launch, const char *flag);

#endif
