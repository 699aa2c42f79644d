/* launch.c - starts the ranks and watches them: a failure is one line, and no process is left behind.
 *
 * Ranks of an MPI executor run under one mpirun; all others are spawned here, one process per rank, which
 * MAQUETTE_RANK, MAQUETTE_SIZE and MAQUETTE_RENDEZVOUS identify. Children have their own process group and die with
 * this process. Rank 0 writes a "." line every second to standard output; silence for longer than the deadline ends the
 * run. Output of launchers (mpirun explains a dead rank in ten lines) is held back and reduced to the line that
 * matters. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/paths.h"
#include "base/quantity.h"
#include "replay/replay.h"

enum { MAX_RANKS_HERE = 64, GRACE_MS = 1500 };

struct child {
	pid_t pid;
	bool ended;
	int status;
};

struct pipe_reader {
	int fd;
	size_t used;
	char text[1024];
};

struct launch {
	const struct replay_job *job;
	uint32_t n;
	struct child child[MAX_RANKS_HERE];
	struct pipe_reader out, report;
	char error_line[512]; /* first error line of a rank */
	char other_line[256]; /* first other line */
	int dead_rank;        /* named by mpirun; -1 = none */
	double last_beat_s;
};
static bool env_u32(const char *name, uint32_t *value)
{
	const char *text = getenv(name);
	uint64_t number;

	if (!text || !mq_parse_u64(text, &number) || number > UINT32_MAX)
		return false;
	*value = (uint32_t)number;
	return true;
}

bool replay_rank_from_environment(uint32_t *rank, uint32_t *size, uint32_t *local)
{
	static const char *const names[][3] = {
		{ "MAQUETTE_RANK", "MAQUETTE_SIZE", "MAQUETTE_LOCAL_RANK" },
		{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK" },
		{ "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID" },    /* srun --mpi=pmi2, MPICH */
		{ "PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID" }, /* srun --mpi=pmix */
		{ "RANK", "WORLD_SIZE", "LOCAL_RANK" },
		{ "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!env_u32(names[i][0], rank) || !env_u32(names[i][1], size) || !*size)
			continue;
		/* In a Slurm allocation without srun NTASKS and PROCID 0 belong to the shell. */
		if (!strncmp(names[i][0], "SLURM", 5) && !getenv("SLURM_STEP_ID"))
			continue;
		/* PMI-2 of Slurm lacks the index on the node, Slurm has it. */
		if (!env_u32(names[i][2], local) && !env_u32("SLURM_LOCALID", local))
			*local = *rank;
		return *rank < *size;
	}
	return false;
}

/* ---- starting -------------------------------------------------------------------------------- */

static void become_child(const struct launch *l, uint32_t rank, char **argv, int out, int report)
{
	char text[32];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	dup2(out, STDOUT_FILENO);
	dup2(report, STDERR_FILENO);
	if (l->job->spawn) {
		snprintf(text, sizeof(text), "%u", rank);
		setenv("MAQUETTE_RANK", text, 1);
		setenv("MAQUETTE_LOCAL_RANK", text, 1);
		snprintf(text, sizeof(text), "%u", l->n);
		setenv("MAQUETTE_SIZE", text, 1);
	}
	execvp(argv[0], argv);
	dprintf(STDERR_FILENO, "maquette-replay: cannot start '%s': %s\n", argv[0], strerror(errno));
	_exit(MQ_ENODEV);
}

static char **mpirun_arguments(const struct launch *l, char *self, char **argv)
{
	struct mq_arena *arena = l->job->session.arena;
	uint32_t argc = 0, n = 0;

	while (argv[argc])
		argc++;
	char **line = mq_arena_array(arena, argc + 16, char *);
	/* clang-format off */
	const char *const head[] = { "mpirun", "--bind-to", "none", "--mca", "btl_base_warn_component_unused", "0",
				     "-x", "OPENBLAS_NUM_THREADS", "-x", "MAQUETTE_LAUNCHED", "-n" };
	/* clang-format on */

	for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++)
		line[n++] = mq_arena_strdup(arena, head[i]);
	line[n++] = mq_arena_printf(arena, "%u", l->job->session.n_devices);
	if (!geteuid())
		line[n++] = mq_arena_strdup(arena, "--allow-run-as-root");
	if (l->job->set->options.oversubscribe)
		line[n++] = mq_arena_strdup(arena, "--oversubscribe");
	line[n++] = self;
	for (uint32_t i = 1; i < argc; i++)
		line[n++] = argv[i];
	return line;
}

static enum mq_status start(struct launch *l, char **argv, struct mq_err *err)
{
	bool mpi = !l->job->spawn;
	char *self = mq_find_program("maquette-replay", l->job->session.arena);
	int out[2], report[2];

	if (pipe2(out, O_CLOEXEC) || pipe2(report, O_CLOEXEC))
		return mq_fail(err, MQ_EBUG, "cannot start the ranks: %s", strerror(errno));
	setenv("MAQUETTE_LAUNCHED", "1", 1); /* rank 0 then writes "." lines */
	if (!mpi && !l->job->set->options.rendezvous[0]) {
		/* A memory file of this process: ranks find it while the process lives, and it need not be removed. */
		int fd = memfd_create("maquette-rendezvous", MFD_CLOEXEC);

		if (fd < 0)
			return mq_fail(err, MQ_EBUG, "no file in memory for the ranks to meet: %s", strerror(errno));
		setenv("MAQUETTE_RENDEZVOUS",
		       mq_arena_printf(l->job->session.arena, "memory:/proc/%d/fd/%d", (int)getpid(), fd), 1);
	}
	char **line = mpi ? mpirun_arguments(l, self, argv) : argv;
	argv[0] = self;
	l->n = mpi ? 1 : l->job->session.n_devices;
	for (uint32_t i = 0; i < l->n; i++) {
		pid_t pid = fork();

		if (!pid)
			become_child(l, i, line, out[1], report[1]);
		if (pid < 0)
			return mq_fail(err, MQ_EBUG, "cannot start rank %u: %s", i, strerror(errno));
		l->child[i].pid = pid;
	}
	close(out[1]);
	close(report[1]);
	l->out.fd = out[0];
	l->report.fd = report[0];
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(report[0], F_SETFL, O_NONBLOCK);
	return MQ_OK;
}

/* ---- output of the ranks --------------------------------------------------------------------- */

static void pass_output(struct launch *l, const char *line)
{
	l->last_beat_s = mq_seconds(CLOCK_MONOTONIC);
	if (strcmp(line, "."))
		puts(line);
}

static void keep_error(struct launch *l, const char *line)
{
	static const char mark[] = "maquette-replay: ", death[] = "process rank ";
	const char *ours = strstr(line, mark), *rank = strstr(line, death);

	/* A rank that noticed another one's end may report it before that one reports the cause. */
	bool cause = ours && !strstr(ours, "its connection closed");
	if (ours && (!l->error_line[0] || (cause && strstr(l->error_line, "its connection closed"))))
		snprintf(l->error_line, sizeof(l->error_line), "%s", ours + strlen(mark));
	if (rank && strstr(line, "exited on signal"))
		l->dead_rank = atoi(rank + strlen(death));
	if (!ours && !l->other_line[0] && line[0] && !strchr("-=[\n", line[0]))
		snprintf(l->other_line, sizeof(l->other_line), "%s", line);
}

static bool read_lines(struct launch *l, struct pipe_reader *r, void (*take_line)(struct launch *, const char *))
{
	for (;;) {
		ssize_t n = read(r->fd, r->text + r->used, sizeof(r->text) - 1 - r->used);

		if (n <= 0)
			return n < 0 && errno == EAGAIN;
		r->used += (size_t)n;
		r->text[r->used] = '\0';
		char *line = r->text, *end;
		while ((end = strchr(line, '\n'))) {
			*end = '\0';
			take_line(l, line);
			line = end + 1;
		}
		r->used -= (size_t)(line - r->text);
		memmove(r->text, line, r->used);
		if (r->used == sizeof(r->text) - 1)
			r->used = 0; /* longer than any error line */
	}
}

/* ---- ending ---------------------------------------------------------------------------------- */

static uint32_t reap(struct launch *l)
{
	uint32_t alive = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		struct child *c = &l->child[i];

		if (!c->ended && c->pid > 0 && waitpid(c->pid, &c->status, WNOHANG) == c->pid)
			c->ended = true;
		alive += !c->ended;
	}
	return alive;
}

/* The likeliest cause: a signal, else an exit code other than MQ_ETIME (ranks that only lost a peer), else that. */
static const struct child *first_failure(const struct launch *l)
{
	const struct child *failed = NULL;

	for (uint32_t i = 0; i < l->n; i++) {
		const struct child *c = &l->child[i];

		if (!c->ended || !c->status)
			continue;
		if (WIFSIGNALED(c->status))
			return c;
		if (!failed || (WEXITSTATUS(failed->status) == MQ_ETIME && WEXITSTATUS(c->status) != MQ_ETIME))
			failed = c;
	}
	return failed;
}

static void stop_all(struct launch *l)
{
	double until = mq_seconds(CLOCK_MONOTONIC) + 1e-3 * GRACE_MS;

	for (uint32_t i = 0; i < l->n; i++)
		if (!l->child[i].ended)
			kill(l->child[i].pid, SIGTERM);
	while (reap(l) && mq_seconds(CLOCK_MONOTONIC) < until)
		usleep(20000);
	for (uint32_t i = 0; i < l->n; i++)
		if (!l->child[i].ended) {
			kill(-l->child[i].pid, SIGKILL);
			kill(l->child[i].pid, SIGKILL);
			waitpid(l->child[i].pid, &l->child[i].status, 0);
			l->child[i].ended = true;
		}
}

static enum mq_status verdict(const struct launch *l, const struct child *failed, struct mq_err *err)
{
	if (!failed)
		return MQ_OK;
	if (WIFSIGNALED(failed->status))
		return mq_fail(err, MQ_ETIME, "%s died (signal %d, %s); the other ranks were stopped",
			       l->job->spawn ? replay_rank_name(l->job, (uint32_t)(failed - l->child)) : "mpirun",
			       WTERMSIG(failed->status), strsignal(WTERMSIG(failed->status)));
	int code = WEXITSTATUS(failed->status);

	if (l->dead_rank >= 0)
		return mq_fail(err, MQ_ETIME, "%s died; the other ranks were stopped",
			       replay_rank_name(l->job, (uint32_t)l->dead_rank));
	bool known = code <= MQ_ETHRESHOLD || code == MQ_EBUG;
	enum mq_status status = known ? (enum mq_status)code : MQ_ETIME;
	if (l->error_line[0])
		return mq_fail(err, status, "%s", l->error_line);
	return mq_fail(err, known && code > 1 ? status : MQ_ETIME, "the ranks ended with status %d%s%s", code,
		       l->other_line[0] ? ": " : "", l->other_line);
}

static enum mq_status watch(struct launch *l, struct mq_err *err)
{
	double deadline = l->job->set->options.deadline_s + 2;
	const struct child *failed = NULL;
	double failed_at = 0;

	l->last_beat_s = mq_seconds(CLOCK_MONOTONIC);
	while (reap(l)) {
		struct pollfd fds[2] = { { l->out.fd, POLLIN, 0 }, { l->report.fd, POLLIN, 0 } };

		/* Once a rank has closed its end, poll returns at once: sleep instead of spinning. */
		if (poll(fds, 2, 100) > 0 && !((fds[0].revents | fds[1].revents) & POLLIN))
			usleep(20000);
		read_lines(l, &l->out, pass_output);
		read_lines(l, &l->report, keep_error);
		if (!failed && (failed = first_failure(l)))
			failed_at = mq_seconds(CLOCK_MONOTONIC);
		if (failed && mq_seconds(CLOCK_MONOTONIC) > failed_at + 0.5)
			break;
		if (!failed && mq_seconds(CLOCK_MONOTONIC) > l->last_beat_s + deadline) {
			stop_all(l);
			read_lines(l, &l->report, keep_error);
			return mq_fail(err, MQ_ETIME,
				       "no sign of life for %.3g s: stopped; a longer --deadline may be needed%s%s",
				       deadline, l->error_line[0] ? ": " : "", l->error_line);
		}
	}
	failed = first_failure(l);
	stop_all(l);
	read_lines(l, &l->out, pass_output);
	read_lines(l, &l->report, keep_error);
	return verdict(l, failed, err);
}

enum mq_status replay_launch(const struct replay_job *job, char **argv, struct mq_err *err)
{
	struct launch *l = mq_arena_alloc(job->session.arena, sizeof(*l));

	if (job->spawn && job->session.n_devices > MAX_RANKS_HERE)
		return mq_fail(
			err, MQ_ENODEV,
			"%u devices: more than %d ranks on one machine; start the ranks with mpirun, srun or torchrun",
			job->session.n_devices, MAX_RANKS_HERE);
	l->job = job;
	l->dead_rank = -1;
	enum mq_status status = start(l, argv, err);
	if (status == MQ_OK)
		status = watch(l, err);
	else
		stop_all(l);
	return status;
}
