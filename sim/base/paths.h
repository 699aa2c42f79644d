/* paths.h - where the shipped files are, in the source tree and when installed: found from the executable's own place,
 * without configuration. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_BASE_PATHS_H
#define MQ_BASE_PATHS_H

#include <stdbool.h>

#include "maquette/arena.h"
#include "maquette/err.h"

/* A shipped folder: "engines" and "executors" (plug-ins), "platforms", "plots". MQ_EINPUT: says where it looked. */
MQ_API enum mq_status mq_find_dir(const char *kind, struct mq_arena *arena, const char **dir, struct mq_err *err);
/* The path of this executable, or of one beside it ("maquette-replay"). */
MQ_API char *mq_find_program(const char *name, struct mq_arena *arena);

MQ_API bool mq_is_dir(const char *path);
/* Names in a folder that begin and end so, hidden ones apart, in the order of their bytes, NULL-terminated; NULL: it
 * cannot be read (errno). */
MQ_API const char **mq_folder_names(const char *dir, const char *prefix, const char *suffix, struct mq_arena *arena,
				    uint32_t *n);

#endif
