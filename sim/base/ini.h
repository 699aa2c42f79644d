/* ini.h - job files: a line `key = value` each, sections in brackets, comments after ';' or '#'.
 *
 * Lines may be of any length (lists of a study, paths). A value in double quotes is taken as it is, with \n, \r, \t, \"
 * and \\ for what a line cannot hold: so a name with a line break in it stays one value. No continuation lines.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_BASE_INI_H
#define MQ_BASE_INI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "maquette/arena.h"
#include "maquette/err.h"

struct mq_ini_item {
	const char *path;        /* of the file */
	const char *section;     /* "" before the first */
	const char *key, *value; /* in the arena */
	bool quoted;             /* the value stood in quotes: text, whatever it looks like */
	uint32_t line;
};
/* Called for each line with a value; anything but MQ_OK ends the reading. */
typedef enum mq_status mq_ini_take(void *context, const struct mq_ini_item *item, struct mq_err *err);

/* MQ_EINPUT: no such file, more than 16 MB, a line that is not `key = value`. */
enum mq_status mq_ini_read(const char *path, struct mq_arena *arena, mq_ini_take *take, void *context,
			   struct mq_err *err);
/* A line that mq_ini_read gives back as it was; in quotes where it must be. */
void mq_ini_put(FILE *file, const char *key, const char *value);
/* The value alone: for comments, which a line break would end. */
void mq_ini_put_value(FILE *file, const char *value);

#endif
