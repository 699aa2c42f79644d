/* spawn.c - see spawn.h. Uses vfork, as posix_spawn does, which cannot request a signal on the parent's death.
 * SPDX-License-Identifier: Apache-2.0 */
#include "maquette/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* In the child, which shares the parent's memory until exec: only system calls. */
static int become(const struct mq_spawn *s, pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, s->on_death) || getppid() != parent)
		return ECHILD; /* the parent has died already */
	for (uint32_t i = 0; i < s->n_fds; i++) {
		bool same = s->fd[i].from == s->fd[i].to; /* dup2 onto itself would keep close-on-exec */

		if (same ? fcntl(s->fd[i].to, F_SETFD, 0) : dup2(s->fd[i].from, s->fd[i].to) < 0)
			return errno;
	}
	execvpe(s->path, s->argv, s->env ? s->env : environ);
	return errno;
}

int mq_wait(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

int mq_spawn(const struct mq_spawn *spawn, pid_t *pid)
{
	volatile int failed = 0;
	pid_t parent = getpid();

	*pid = vfork();
	if (*pid < 0)
		return errno;
	if (!*pid) {
		failed = become(spawn, parent);
		_exit(127);
	}
	if (!failed)
		return 0;
	mq_wait(*pid);
	return failed;
}

int mq_run(const struct mq_spawn *spawn, bool out, struct mq_arena *arena, char **said, int *status)
{
	struct mq_spawn own = *spawn;
	FILE *words = tmpfile();
	struct stat st;
	pid_t pid;

	*said = mq_arena_strdup(arena, "");
	if (!words)
		return errno;
	own.n_fds = 1 + out;
	own.fd[0].from = own.fd[1].from = fileno(words);
	own.fd[0].to = STDERR_FILENO;
	own.fd[1].to = STDOUT_FILENO;
	int failed = mq_spawn(&own, &pid);
	while (!failed && waitpid(pid, status, 0) < 0)
		failed = errno == EINTR ? 0 : errno;
	if (!failed && !fstat(own.fd[0].from, &st)) {
		*said = mq_arena_alloc(arena, (size_t)st.st_size + 1);
		rewind(words);
		(*said)[fread(*said, 1, (size_t)st.st_size, words)] = '\0';
	}
	fclose(words);
	return failed;
}
