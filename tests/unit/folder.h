/*
 * folder.h - a folder of a test program's own: made and removed with its group of tests, as is the arena
 * of the program. Comes behind cmocka.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_FOLDER_H
#define MQ_TESTS_FOLDER_H

#include <stdio.h>
#include <stdlib.h>

#include "maquette/arena.h"

static struct mq_arena arena;
static char dir[] = "/tmp/mq-test-XXXXXX";

static inline const char *put_file(const char *name, const char *text)
{
	const char *path = mq_arena_printf(&arena, "%s/%s", dir, name);
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
	return path;
}

static inline int make_dir(void **state)
{
	return mkdtemp(dir) == NULL;
}

static inline int remove_dir(void **state)
{
	int status = system(mq_arena_printf(&arena, "rm -rf '%s'", dir));

	mq_arena_fini(&arena);
	return status;
}

#endif
