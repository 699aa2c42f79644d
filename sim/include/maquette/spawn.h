/* spawn.h - starts programs that end with this process, however it ends: a killed search leaves no simulator, solver or
 * replay behind. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_SPAWN_H
#define MAQUETTE_SPAWN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "maquette/arena.h"
#include "maquette/err.h"

enum { MQ_SPAWN_MAX_FDS = 4 };

struct mq_spawn {
	const char *path;  /* a file; without '/' it is looked up in PATH */
	char *const *argv; /* NULL-terminated */
	char *const *env;  /* NULL = this process's */
	/* Signal sent when the starting thread ends: SIGKILL, or SIGTERM for a program with its own children. */
	int on_death;
	uint32_t n_fds;
	struct {
		int from, to;
	} fd[MQ_SPAWN_MAX_FDS]; /* dup2 in this order; other descriptors stay open unless they close on exec */
};
/* Returns 0, or an errno value (ENOENT: no such program). Does not copy memory, so a process with threads or gigabytes
 * may call it. */
MQ_API int mq_spawn(const struct mq_spawn *spawn, pid_t *pid);
/* Waits for a child to end; returns its status, as of waitpid. */
MQ_API int mq_wait(pid_t pid);
/* Runs a program to its end. Its standard error (with `out` standard output too) becomes a text in the arena; `fd` is
 * ignored. *status: as of waitpid. */
MQ_API int mq_run(const struct mq_spawn *spawn, bool out, struct mq_arena *arena, char **said, int *status);

#endif
