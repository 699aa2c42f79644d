/* pool.c - the main process's side of the pool: spawns the server, hands out plans, replaces workers.
 *
 * One plan at a time per worker; results are stored by plan, so the workers' speed changes none. When a worker dies,
 * its socket ends and the server tells how it died. Linux kills any process when memory runs out, so a death need not
 * be the plan's fault: the plan is tried again after the others, alone, and only a second death becomes its verdict. A
 * dead server is started again; all questions to it can be repeated. SPDX-License-Identifier: Apache-2.0 */
#include "judge/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/quantity.h"
#include "maquette/rng.h"
#include "maquette/spawn.h"
#include "hardware/platform/platform.h"
#include "judge/pool_message.h"

struct worker {
	pid_t pid;
	int fd;          /* socket; -1 = not forked yet */
	uint32_t plan;   /* being judged; MQ_NONE = idle */
	uint32_t queued; /* already sent, to be judged next; MQ_NONE = none */
	double since_s;  /* clock time when `plan` was begun */
};

/* If plans take less than this, a worker is sent its next one before it answers, so that it need not wait for it. */
static const double quick_s = 0.005;
/* Seconds between two checks whether to stop. */
static const double LOOK_S = 0.1;
/* Bytes that surely fit a socket's buffer; starts of a server in a row without an answer before the pool gives up. */
enum { SMALL_PLAN = 32 * 1024, MAX_SERVERS = 4 };

/* Plans of one call, in the order in which they are handed out. */
struct batch {
	const struct mq_plan *const *plan;
	const struct mq_job *const *job; /* NULL = the pool's own for all */
	/* [n] plans to hand out, from the end; a plan that was only queued when its worker died comes back here */
	uint32_t *todo, n_todo;
	uint32_t *lost, n_lost; /* [n] plans whose worker died once: tried alone, after the others */
	bool *died;             /* [n] */
};

struct mq_pool {
	struct mq_arena *arena;  /* borrowed */
	struct mq_arena scratch; /* one message */
	const struct mq_job *job;
	struct mq_cluster *cluster;
	pid_t server;
	int control, stderr_pipe; /* socket to the server; pipe with the stderr of server and workers */
	struct worker *worker;
	uint32_t n_workers;
	struct batch *batch;    /* being judged; NULL = none */
	uint32_t n_servers;     /* started so far */
	uint32_t n_unanswered;  /* started since the newest answer of a worker */
	uint64_t platform_hash; /* of the platform that the first server read */
	double mean_s;          /* clock time of recent plans; 0 = none yet */
	double until_s;         /* clock time at which judging ends */
	bool (*stopped)(void);  /* must it end now? NULL = no */
	struct pollfd *watch;   /* [n_workers + 1] */
	char stderr_text[8192]; /* newest text of that pipe: a sentence and SimGrid's backtraces */
	size_t n_stderr_text;
};

/* ---- stderr of the processes ---------------------------------------------------------------------- */

/* Empties the pipe; a full one would block a worker. */
static void read_stderr(struct mq_pool *p)
{
	char bytes[1024];
	ssize_t got;

	while ((got = read(p->stderr_pipe, bytes, sizeof(bytes))) > 0) {
		size_t n = (size_t)got;
		if (p->n_stderr_text + n >= sizeof(p->stderr_text))
			p->n_stderr_text = 0; /* keep the newest */
		memcpy(p->stderr_text + p->n_stderr_text, bytes, n);
		p->n_stderr_text += n;
		p->stderr_text[p->n_stderr_text] = '\0';
	}
}

/* Copies the first line that is a complaint (mq_platform_complaint) and forgets the rest. */
static void first_error_line(struct mq_pool *p, char *line, size_t size)
{
	read_stderr(p);
	*line = '\0';
	for (const char *from = p->stderr_text; !*line && *(from += strspn(from, " \n\t"));
	     from += strcspn(from, "\n")) {
		const char *words = mq_platform_complaint(from);
		if (words)
			snprintf(line, size, "%.*s", (int)strcspn(words, "\n"), words);
	}
	p->n_stderr_text = 0;
	p->stderr_text[0] = '\0';
}

/* Ends the server, whose workers die with it; returns its wait status. */
static int end_server(struct mq_pool *p)
{
	if (p->control >= 0)
		close(p->control);
	int status = p->server > 0 ? mq_wait(p->server) : 0;
	p->control = -1;
	p->server = -1;
	return status;
}

/* The error that says how the server died. */
static enum mq_status server_died(struct mq_pool *p, struct mq_err *err)
{
	char line[300];
	int status = end_server(p);

	first_error_line(p, line, sizeof(line));
	bool loading = !p->cluster && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	if (*line && loading)
		return mq_bad(err, "%s: SimGrid refuses the platform: %s", p->job->asked.platform, line);
	if (WIFSIGNALED(status))
		return mq_fail(err, MQ_ETIME, "the simulation server was killed by signal %d (%s)", WTERMSIG(status),
			       strsignal(WTERMSIG(status)));
	return mq_fail(err, MQ_ETIME, "the simulation server ended with status %d",
		       WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static enum mq_status remote_error(const void *bytes, size_t size, struct mq_err *err)
{
	struct mq_err said = { MQ_EBUG, "a message cut short" };

	if (size == sizeof(said))
		memcpy(&said, bytes, sizeof(said));
	return mq_fail(err, said.status, "%s", said.text);
}

static void forget_message(struct mq_pool *p)
{
	mq_arena_rewind(&p->scratch, (struct mq_arena_mark){ NULL, 0 });
}

static enum mq_status start_server(struct mq_pool *p, struct mq_err *err);

/* Asks the server; *bytes lives until forget_message. A server that died is started again and asked again. */
static enum mq_status ask(struct mq_pool *p, enum mq_wire_kind kind, const void *question, size_t n,
			  struct mq_wire_head *head, void **bytes, int *passed, struct mq_err *err)
{
	if (p->control < 0)
		return mq_fail(err, MQ_ETIME, "the simulation server is gone");
	while (!mq_wire_send(p->control, kind, question, n, -1) ||
	       !mq_wire_receive(p->control, &p->scratch, head, bytes, passed))
		MQ_TRY(start_server(p, err));
	return head->kind == MQ_WIRE_FAILED ? remote_error(*bytes, head->size, err) : MQ_OK;
}

static enum mq_status resolve(void *context, uint32_t src, uint32_t dst, struct mq_route *route, struct mq_err *err)
{
	struct mq_pool *p = context;
	uint32_t ends[2] = { src, dst };
	struct mq_wire_head head;
	void *bytes = NULL;
	enum mq_status status = ask(p, MQ_WIRE_ROUTES, ends, sizeof(ends), &head, &bytes, NULL, err);
	const uint32_t *at = bytes, *end = status == MQ_OK ? at + head.size / sizeof(*at) : at;

	for (; at < end; at += 3 + at[2])
		if (at[0] != src || at[1] != dst) {
			mq_cluster_keep_route(p->cluster, at[0], at[1], at + 3, at[2]);
		} else {
			uint32_t *link = mq_arena_array(p->arena, at[2], uint32_t);

			memcpy(link, at + 3, at[2] * sizeof(*link));
			*route = (struct mq_route){ .n_links = at[2], .link = link };
		}
	forget_message(p);
	return status;
}

/* ---- start ---------------------------------------------------------------------------------------- */

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

static enum mq_status spawn(struct mq_pool *p, struct mq_err *err)
{
	int pair[2] = { -1, -1 }, pipes[2], nothing = open("/dev/null", O_RDWR | O_CLOEXEC), argc;
	char **args = mq_job_encode(p->job, &p->scratch, &argc);
	char **argv = mq_arena_array(&p->scratch, argc + 3, char *);

	argv[0] = program_invocation_short_name;
	argv[1] = mq_arena_strdup(&p->scratch, "worker");
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
		.path = own_path(&p->scratch),
		.argv = argv,
		.env = single_threaded(&p->scratch),
		.on_death = SIGKILL,
		.n_fds = 4,
		.fd = { { nothing, 0 }, { nothing, 1 }, { pipes[1], 2 }, { pair[1], MQ_WIRE_FD } },
	};
	int failed = mq_spawn(&server, &p->server);
	close(nothing);
	close(pair[1]);
	close(pipes[1]);
	p->control = pair[0];
	p->stderr_pipe = pipes[0];
	fcntl(p->stderr_pipe, F_SETFL, O_NONBLOCK);
	if (failed) {
		p->server = -1;
		return mq_fail(err, MQ_ETIME, "cannot start the simulation server: %s", strerror(failed));
	}
	return MQ_OK;
}

/* Takes the first server's cluster; a later server must have read the same platform, since the cluster is in use. */
static enum mq_status take_platform(struct mq_pool *p, const void *bytes, size_t size, struct mq_err *err)
{
	uint64_t hash = mq_hash(MQ_HASH_INIT, bytes, size);

	if (p->cluster && hash != p->platform_hash)
		return mq_bad(err, "%s: changed while it was in use; run again", p->job->asked.platform);
	if (p->cluster)
		return MQ_OK;
	p->platform_hash = hash;
	MQ_TRY(mq_platform_restore(bytes, size, p->arena, &p->cluster, err));
	p->cluster->resolve = resolve;
	p->cluster->context = p;
	return MQ_OK;
}

static enum mq_status start_once(struct mq_pool *p, struct mq_err *err)
{
	struct mq_wire_head head;
	void *bytes;

	p->n_servers++;
	p->n_unanswered++;
	MQ_TRY(spawn(p, err));
	forget_message(p);
	if (!mq_wire_receive(p->control, &p->scratch, &head, &bytes, NULL))
		return server_died(p, err);
	if (head.kind == MQ_WIRE_FAILED)
		return remote_error(bytes, head.size, err);
	enum mq_status status = take_platform(p, bytes, head.size, err);
	forget_message(p);
	return status;
}

/* Forgets a worker that is gone; its plans go back to the batch. */
static void forget_worker(struct mq_pool *p, struct worker *w)
{
	if (w->fd >= 0)
		close(w->fd);
	if (w->plan != MQ_NONE)
		p->batch->todo[p->batch->n_todo++] = w->plan;
	if (w->queued != MQ_NONE)
		p->batch->todo[p->batch->n_todo++] = w->queued;
	w->fd = -1;
	w->plan = w->queued = MQ_NONE;
}

/* Starts the first server, or replaces a dead one; the old one's workers died with it. */
static enum mq_status start_server(struct mq_pool *p, struct mq_err *err)
{
	enum mq_status status = MQ_ETIME;

	for (uint32_t i = 0; i < p->n_workers; i++)
		forget_worker(p, &p->worker[i]);
	if (p->n_servers)
		status = server_died(p, err);
	while (status == MQ_ETIME && p->n_unanswered < MAX_SERVERS) {
		end_server(p);
		if (p->stderr_pipe >= 0)
			close(p->stderr_pipe);
		p->stderr_pipe = -1;
		status = start_once(p, err);
	}
	if (status != MQ_OK)
		end_server(p);
	return status;
}

enum mq_status mq_pool_open(const struct mq_job *job, uint32_t n_workers, struct mq_arena *arena, struct mq_pool **pool,
			    struct mq_err *err)
{
	struct mq_pool *p = mq_arena_array(arena, 1, struct mq_pool);

	p->arena = arena;
	p->job = job;
	p->control = p->stderr_pipe = -1;
	p->server = -1;
	p->n_workers = n_workers ? n_workers : 1;
	p->until_s = INFINITY;
	p->worker = mq_arena_array(arena, p->n_workers, struct worker);
	p->watch = mq_arena_array(arena, p->n_workers + 1, struct pollfd);
	for (uint32_t i = 0; i < p->n_workers; i++)
		p->worker[i] = (struct worker){ .fd = -1, .plan = MQ_NONE, .queued = MQ_NONE };
	enum mq_status status = start_server(p, err);
	if (status != MQ_OK) {
		mq_pool_close(p);
		return status;
	}
	*pool = p;
	return MQ_OK;
}

struct mq_cluster *mq_pool_cluster(struct mq_pool *pool)
{
	return pool->cluster;
}

void mq_pool_close(struct mq_pool *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < p->n_workers; i++)
		if (p->worker[i].fd >= 0)
			close(p->worker[i].fd);
	end_server(p); /* kills its workers */
	if (p->stderr_pipe >= 0)
		close(p->stderr_pipe);
	mq_arena_fini(&p->scratch);
	p->stderr_pipe = -1;
}

/* ---- judging --------------------------------------------------------------------------------------- */

static enum mq_status fork_if_needed(struct mq_pool *p, struct worker *w, struct mq_err *err)
{
	struct mq_wire_head head;
	void *bytes;
	int fd = -1;

	if (w->fd >= 0)
		return MQ_OK;
	enum mq_status status = ask(p, MQ_WIRE_FORK, NULL, 0, &head, &bytes, &fd, err);
	if (status == MQ_OK && (fd < 0 || head.size != sizeof(w->pid)))
		status = mq_fail(err, MQ_ENODEV,
				 "no file can be opened for a simulator: raise the limit on open files (ulimit -n)");
	if (status == MQ_OK) {
		memcpy(&w->pid, bytes, sizeof(w->pid));
		w->fd = fd;
		w->plan = MQ_NONE;
	}
	forget_message(p);
	return status;
}

/* Stops a worker; the next use forks a new one. Its queued plan goes back to the batch, the plan being judged does
 * not. *how: its wait status; -1: the server died too. */
static enum mq_status stop_worker(struct mq_pool *p, struct worker *w, int *how, struct mq_err *err)
{
	uint32_t n_servers = p->n_servers;
	struct mq_wire_head head;
	void *bytes;

	*how = 0;
	w->plan = MQ_NONE;
	forget_worker(p, w);
	MQ_TRY(ask(p, MQ_WIRE_REAP, &w->pid, sizeof(w->pid), &head, &bytes, NULL, err));
	if (head.size == sizeof(*how))
		memcpy(how, bytes, sizeof(*how));
	if (p->n_servers != n_servers)
		*how = -1;
	forget_message(p);
	return MQ_OK;
}

/* Fills *r with the verdict crash or (late) timeout and the reason. */
static void report_loss(struct mq_pool *p, int how, bool late, struct mq_result *r)
{
	char line[160];

	first_error_line(p, line, sizeof(line));
	*r = mq_result_none(late ? MQ_VERDICT_TIMEOUT : MQ_VERDICT_CRASH);
	if (late)
		snprintf(r->message, sizeof(r->message), "judging takes more than %.9g s of clock time",
			 p->job->wall_s);
	else if (WIFSIGNALED(how))
		snprintf(r->message, sizeof(r->message), "the worker was killed by signal %d (%s)%s%s", WTERMSIG(how),
			 strsignal(WTERMSIG(how)), *line ? ": " : "", line);
	else
		snprintf(r->message, sizeof(r->message), "the worker ended with status %d%s%s", WEXITSTATUS(how),
			 *line ? ": " : "", line);
}

/* Stops a worker that died or takes too long; its plan gets another try, or the verdict crash or timeout. */
static enum mq_status retry_or_fail(struct mq_pool *p, struct worker *w, bool late, struct mq_result *r,
				    struct mq_err *err)
{
	struct batch *b = p->batch;
	uint32_t plan = w->plan;
	int how;

	MQ_TRY(stop_worker(p, w, &how, err));
	if (!late && how == -1) {
		b->todo[b->n_todo++] = plan;
	} else if (!late && !b->died[plan]) {
		b->died[plan] = true;
		b->lost[b->n_lost++] = plan;
	} else {
		report_loss(p, how, late, r);
	}
	return MQ_OK;
}

/* Sends plan `index` to a worker: to be judged now if the worker is idle, else queued. */
static enum mq_status hand_out(struct mq_pool *p, struct worker *w, uint32_t index, const struct batch *b,
			       struct mq_err *err)
{
	size_t size;

	MQ_TRY(fork_if_needed(p, w, err));
	const void *bytes = mq_job_pack(b->job ? b->job[index] : p->job, b->plan[index], &p->scratch, &size);
	if (w->plan == MQ_NONE) {
		w->plan = index;
		w->since_s = mq_now_s();
	} else {
		w->queued = index;
	}
	if (size > SMALL_PLAN)
		p->mean_s = 0; /* queue nothing: sending might block until the worker reads */
	/* A failure to send shows as a dead worker when its answer is read. */
	(void)mq_wire_send(w->fd, MQ_WIRE_JUDGE, bytes, size, -1);
	forget_message(p);
	return MQ_OK;
}

/* Milliseconds until the first deadline of the pool or of a plan, for poll(); -1 = none. */
static int poll_timeout_ms(const struct mq_pool *p)
{
	/* a signal may come just before poll() */
	double now_s = mq_now_s(), first_s = fmin(p->until_s - now_s, p->stopped ? LOOK_S : (double)INFINITY);

	for (uint32_t i = 0; i < p->n_workers; i++)
		if (p->worker[i].plan != MQ_NONE)
			first_s = fmin(first_s, p->worker[i].since_s + p->job->wall_s - now_s);
	if (first_s > 1e6)
		return -1;
	return first_s <= 0 ? 0 : (int)(1000 * first_s) + 1;
}

static enum mq_status take(struct mq_pool *p, struct worker *w, struct mq_result *result, struct mq_err *err)
{
	struct mq_result *r = &result[w->plan];
	struct mq_wire_head head;
	void *bytes;

	if (!mq_wire_receive(w->fd, &p->scratch, &head, &bytes, NULL) || head.size != sizeof(*r))
		return retry_or_fail(p, w, false, r, err);
	memcpy(r, bytes, sizeof(*r));
	p->n_unanswered = 0;
	double now_s = mq_now_s(), took_s = now_s - w->since_s;
	p->mean_s = p->mean_s > 0 ? 0.75 * p->mean_s + 0.25 * took_s : took_s;
	if (head.kind == MQ_WIRE_LAST) {
		int how;
		forget_message(p);
		return stop_worker(p, w, &how, err);
	}
	w->plan = w->queued;
	w->queued = MQ_NONE;
	w->since_s = now_s;
	forget_message(p);
	return MQ_OK;
}

/* Waits for an answer or a deadline, and stores the results that have come. */
static enum mq_status wait_some(struct mq_pool *p, struct mq_result *result, struct mq_err *err)
{
	for (uint32_t i = 0; i < p->n_workers; i++)
		p->watch[i] =
			(struct pollfd){ .events = POLLIN, .fd = p->worker[i].plan == MQ_NONE ? -1 : p->worker[i].fd };
	p->watch[p->n_workers] = (struct pollfd){ .fd = p->stderr_pipe, .events = POLLIN };
	if (poll(p->watch, p->n_workers + 1, poll_timeout_ms(p)) < 0 && errno != EINTR)
		return mq_fail(err, MQ_ETIME, "waiting for workers: %s", strerror(errno));
	if (p->watch[p->n_workers].revents & POLLIN)
		read_stderr(p);
	for (uint32_t i = 0; i < p->n_workers; i++) {
		struct worker *w = &p->worker[i];
		if (w->plan == MQ_NONE)
			continue;
		if (p->watch[i].fd >= 0 && p->watch[i].revents)
			MQ_TRY(take(p, w, result, err));
		else if (mq_now_s() >= w->since_s + p->job->wall_s)
			MQ_TRY(retry_or_fail(p, w, true, &result[w->plan], err));
	}
	return MQ_OK;
}

static bool busy(const struct mq_pool *p)
{
	for (uint32_t i = 0; i < p->n_workers; i++)
		if (p->worker[i].plan != MQ_NONE)
			return true;
	return false;
}

/* Takes the next plan of the batch; one that has killed a worker only when all workers are idle. MQ_NONE = none. */
static uint32_t next_plan(struct mq_pool *p, struct batch *b)
{
	if (b->n_todo)
		return b->todo[--b->n_todo];
	return b->n_lost && !busy(p) ? b->lost[--b->n_lost] : MQ_NONE;
}

/* Hands each idle worker a plan; where plans are quick (quick_s), then queues a second one for each worker. */
static enum mq_status hand_out_all(struct mq_pool *p, struct batch *b, struct mq_err *err)
{
	for (int second = 0; second < 2; second++)
		for (uint32_t i = 0; i < p->n_workers; i++) {
			struct worker *w = &p->worker[i];
			bool room = second ? w->plan != MQ_NONE && w->queued == MQ_NONE && p->mean_s > 0 &&
						     p->mean_s < quick_s :
					     w->plan == MQ_NONE;
			uint32_t index = room ? next_plan(p, b) : MQ_NONE;
			if (index != MQ_NONE)
				MQ_TRY(hand_out(p, w, index, b, err));
		}
	return MQ_OK;
}

/* The deadline has passed: plans without a result get MQ_N_VERDICTS. */
static enum mq_status give_up(struct mq_pool *p, struct batch *b, struct mq_result *result, struct mq_err *err)
{
	int how;

	for (uint32_t i = 0; i < p->n_workers; i++) {
		struct worker *w = &p->worker[i];

		if (w->plan == MQ_NONE)
			continue;
		b->todo[b->n_todo++] = w->plan;
		MQ_TRY(stop_worker(p, w, &how, err));
	}
	while (b->n_todo || b->n_lost)
		result[next_plan(p, b)] = mq_result_none(MQ_N_VERDICTS);
	return MQ_OK;
}

static enum mq_status judge_batch(struct mq_pool *p, struct batch *b, struct mq_result *result, struct mq_err *err)
{
	int how;

	for (;;) {
		bool over = !b->n_todo && !busy(p);

		if (over && !b->n_lost)
			return MQ_OK;
		if (mq_now_s() >= p->until_s || (p->stopped && p->stopped()))
			return give_up(p, b, result, err);
		for (uint32_t i = 0; i < p->n_workers && over;
		     i++) /* retries run alone: stop idle workers, which hold memory */
			if (p->worker[i].fd >= 0)
				MQ_TRY(stop_worker(p, &p->worker[i], &how, err));
		MQ_TRY(hand_out_all(p, b, err));
		MQ_TRY(wait_some(p, result, err));
	}
}

/* Indices of the plans, longest estimated simulation last, which is handed out first: it balances the workers (LPT rule,
 * Graham 1969). */
static uint32_t *order_of(const struct mq_plan *const *plan, uint32_t n, struct mq_arena *arena)
{
	double *less = mq_arena_array(arena, n, double); /* minus the weight */
	uint32_t *last = mq_arena_array(arena, n, uint32_t);

	/* Estimated number of simulated tasks: each op once per micro-batch, and once per device too where uneven
	 * shares prevent folding. */
	for (uint32_t i = 0; i < n; i++) {
		double tasks = 0;

		for (uint32_t op = 0; op < plan[i]->n_ops; op++) {
			const struct mq_config *c = &plan[i]->config[plan[i]->config_of[op]];
			tasks += c->share ? c->n_devices : 1;
		}
		less[i] = -tasks * plan[i]->micro_batches;
	}
	const uint32_t *first = mq_arena_order(arena, less, n);
	for (uint32_t i = 0; i < n; i++)
		last[n - 1 - i] = first[i];
	return last;
}

enum mq_status mq_pool_judge(struct mq_pool *p, const struct mq_plan *const *plan, uint32_t n, struct mq_result *result,
			     struct mq_err *err)
{
	return mq_pool_judge_jobs(p, NULL, plan, n, result, err);
}

enum mq_status mq_pool_judge_jobs(struct mq_pool *p, const struct mq_job *const *job, const struct mq_plan *const *plan,
				  uint32_t n, struct mq_result *result, struct mq_err *err)
{
	struct batch b = { .plan = plan, .job = job, .n_todo = n };
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;

	if (!n)
		return MQ_OK;
	b.todo = order_of(plan, n, &scratch);
	b.lost = mq_arena_array(&scratch, n, uint32_t);
	b.died = mq_arena_array(&scratch, n, bool);
	p->batch = &b;
	enum mq_status status = judge_batch(p, &b, result, err);
	for (uint32_t i = 0; i < p->n_workers && status != MQ_OK; i++)
		forget_worker(p, &p->worker[i]); /* a later call must not read their answers */
	p->batch = NULL;
	return status;
}

void mq_pool_until(struct mq_pool *p, double left_s)
{
	p->until_s = mq_now_s() + left_s;
}

void mq_pool_stop_when(struct mq_pool *p, bool (*stopped)(void))
{
	p->stopped = stopped;
}

/* Waits for a worker's answer and meanwhile empties the stderr pipe, on which the worker could block. */
static bool wait_for_answer(struct mq_pool *p, const struct worker *w)
{
	struct pollfd watch[2] = { { .fd = w->fd, .events = POLLIN }, { .fd = p->stderr_pipe, .events = POLLIN } };

	while (!watch[0].revents) {
		if (poll(watch, 2, -1) < 0 && errno != EINTR)
			return false;
		if (watch[1].revents & POLLIN)
			read_stderr(p);
		else if (watch[1].revents)
			watch[1].fd = -1; /* no process holds the other end */
	}
	return true;
}

struct question {
	enum mq_wire_kind kind;
	const void *bytes;
	size_t size;
};

/* Asks the first worker, a second time if it dies. *answer lives until forget_message (on an error it is gone).
 * *answer NULL: the worker died twice, *lost says how. */
static enum mq_status ask_worker(struct mq_pool *p, const struct question *q, struct mq_result *lost,
				 struct mq_wire_head *head, void **answer, struct mq_err *err)
{
	struct worker *w = &p->worker[0];
	int deaths = 0, how;

	for (;;) {
		MQ_TRY(fork_if_needed(p, w, err));
		if (mq_wire_send(w->fd, q->kind, q->bytes, q->size, -1) && wait_for_answer(p, w) &&
		    mq_wire_receive(w->fd, &p->scratch, head, answer, NULL))
			break;
		MQ_TRY(stop_worker(p, w, &how, err));
		deaths += how != -1;
		if (deaths == 2) {
			report_loss(p, how, false, lost);
			*answer = NULL;
			return MQ_OK;
		}
	}
	p->n_unanswered = 0;
	if (head->kind != MQ_WIRE_FAILED)
		return MQ_OK;
	enum mq_status status = remote_error(*answer, head->size, err);
	forget_message(p);
	return status;
}

enum mq_status mq_pool_detail(struct mq_pool *p, bool analytic, const struct mq_plan *plan,
			      const struct mq_outputs *outputs, struct mq_result *result, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct question question = { .kind = MQ_WIRE_DETAIL };
	struct mq_job job = *p->job;
	struct mq_wire_head head;
	void *answer;
	int how;

	job.outputs = *outputs;
	job.analytic = analytic;
	question.bytes = mq_job_pack(&job, plan, &scratch, &question.size);
	if (p->worker[0].fd >= 0) /* a fresh worker: its clock (mq_simgrid_is_worn) must last for two judgements */
		MQ_TRY(stop_worker(p, &p->worker[0], &how, err));
	enum mq_status status = ask_worker(p, &question, result, &head, &answer, err);
	if (status == MQ_OK && answer)
		memcpy(result, answer, sizeof(*result));
	forget_message(p);
	return status;
}

enum mq_status mq_pool_coscheduled(struct mq_pool *p, const struct mq_coscheduled_job *job, uint32_t n, uint32_t steps,
				   struct mq_arena *arena, struct mq_coscheduled *out, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_wire_head head;
	struct mq_result lost;
	void *answer;
	struct question question = { .kind = MQ_WIRE_TOGETHER };

	question.bytes = mq_coscheduled_pack_ask(job, n, steps, &scratch, &question.size);
	enum mq_status status = ask_worker(p, &question, &lost, &head, &answer, err);

	if (status == MQ_OK)
		status = answer ? mq_coscheduled_unpack(answer, head.size, arena, out, err) :
				  mq_fail(err, MQ_ETIME, "jobs together: %s", lost.message);
	forget_message(p);
	return status;
}
