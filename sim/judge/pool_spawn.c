/* pool_spawn.c - starts the server process of the pool; see pool_message.h. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "judge/job.h"
#include "judge/pool_message.h"
#include "maquette/spawn.h"

extern char **environ;

/* The environment, with BLAS limited to one thread: the server forks, so it must have no threads. */
static char **single_threaded(struct mq_arena *a)
{
	static const char *const add[] = { "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1" };
	size_t n = 0, k = 0;

	while (environ[n])
		n++;
	char **env = mq_arena_array(a, n + 3, char *);
	for (size_t i = 0; i < n; i++)
		if (strncmp(environ[i], add[0], 21) != 0 && strncmp(environ[i], add[1], 16) != 0)
			env[k++] = environ[i];
	for (size_t i = 0; i < 2; i++)
		env[k++] = mq_arena_strdup(a, add[i]);
	return env;
}

/* The path behind /proc/self/exe, which under valgrind would open valgrind itself. If the file was replaced (readlink
 * says " (deleted)"), /proc/self/exe. */
static const char *own_path(struct mq_arena *arena)
{
	char *path = mq_arena_alloc(arena, PATH_MAX);
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

	return n > 0 && !access(path, X_OK) ? path : "/proc/self/exe";
}

enum mq_status mq_pool_spawn(const struct mq_job *job, struct mq_arena *scratch, struct mq_pool_process *process,
			     struct mq_err *err)
{
	int pair[2] = { -1, -1 }, pipes[2], nothing = open("/dev/null", O_RDWR | O_CLOEXEC), argc;
	char **args = mq_job_encode(job, scratch, &argc);
	char **argv = mq_arena_array(scratch, argc + 3, char *);

	argv[0] = program_invocation_short_name;
	argv[1] = mq_arena_strdup(scratch, "worker");
	memcpy(argv + 2, args, (size_t)argc * sizeof(*argv));
	if (nothing < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) || pipe2(pipes, O_CLOEXEC)) {
		const int opened[] = { nothing, pair[0], pair[1] };

		(void)mq_fail(err, MQ_ETIME, "cannot start the simulation server: %s", strerror(errno));
		for (int i = 0; i < 3; i++)
			if (opened[i] >= 0)
				close(opened[i]);
		return MQ_ETIME;
	}
	const struct mq_spawn server = {
		.path = own_path(scratch),
		.argv = argv,
		.env = single_threaded(scratch),
		.on_death = SIGKILL,
		.n_fds = 4,
		.fd = { { nothing, 0 }, { nothing, 1 }, { pipes[1], 2 }, { pair[1], MQ_WIRE_FD } },
	};
	int failed = mq_spawn(&server, &process->pid);
	close(nothing);
	close(pair[1]);
	close(pipes[1]);
	process->control = pair[0];
	process->stderr_pipe = pipes[0];
	fcntl(process->stderr_pipe, F_SETFL, O_NONBLOCK);
	if (failed) {
		process->pid = -1;
		return mq_fail(err, MQ_ETIME, "cannot start the simulation server: %s", strerror(failed));
	}
	return MQ_OK;
}
