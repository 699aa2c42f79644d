/* spawn.h - programs that end when the one that started them does, however that ends: a killed search leaves no
 * simulator, solver or replay behind. SPDX-License-Identifier: Apache-2.0 */
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
	char *const *env;  /* NULL = that of this process */
	/* Sent when the thread that started it ends: SIGKILL, or SIGTERM to one that has processes of its own. */
	int on_death;
	uint32_t n_fds;
	struct {
		int from, to;
	} fd[MQ_SPAWN_MAX_FDS]; /* dup2 in this order; others stay unless they close on exec */
};
/* 0, or an errno value: ENOENT where there is no such program. Does not copy memory: a process with threads or
 * gigabytes may call it. */
MQ_API int mq_spawn(const struct mq_spawn *spawn, pid_t *pid);
/* Until a child ends: its status, as of waitpid. */
MQ_API int mq_wait(pid_t pid);
/* The same to the program's end. What it writes to standard error, with `out` to standard output too, becomes a text in
 * the arena instead; `fd` is not used. *status: as of waitpid. */
MQ_API int mq_run(const struct mq_spawn *spawn, bool out, struct mq_arena *arena, char **said, int *status);

#endif
