/* pool_server.c - the server process of the pool: loads the platform, answers routes, forks workers.
 *
 * All code runs inside one SimGrid actor, the conductor (executors/simgrid/conductor.h); a worker is a fork that goes
 * on in it with its own loop. The process has one thread (the main process keeps BLAS from starting more), so a fork
 * copies all that runs. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/index.h"
#include "base/message.h"
#include "hardware/change.h"
#include "executors/simgrid/conductor.h"
#include "maquette/spawn.h"
#include "hardware/platform/platform.h"
#include "judge/pool.h"
#include "judge/pool_message.h"

enum { LARGE_TASKS = 1000000 };

struct server {
	struct mq_arena arena;   /* the question */
	struct mq_arena scratch; /* one message or one judgement */
	struct mq_job job;
	struct mq_arena asking; /* arena of asked_job and q, the newest plan's question */
	char *asked;            /* the arguments it was unpacked from */
	uint32_t asked_size;
	struct mq_job asked_job;
	struct mq_question q;
	const void *dump; /* the cluster, before changes, as sent to the main process */
	size_t dump_size;
	struct mq_judge judge;
	struct mq_index *replays; /* kept for all plans */
	struct mq_calib *calib;
	struct mq_cluster *cluster, *part; /* the whole cluster; the devices that are asked about */
	uint32_t judged_tasks;             /* in the newest plan's view */
	pid_t *child;
	uint32_t n_children, child_room;
};

/* An answer to the asking process; its bytes lie in the scratch arena. */
struct answer {
	enum mq_wire_kind kind;
	const void *bytes;
	size_t size;
	int fd; /* passed with the answer, then closed; -1 = none */
};

/* Handles one question; *answer is empty and of the question's kind at first. An error is sent as MQ_WIRE_FAILED. */
typedef enum mq_status handle_fn(struct server *s, const struct mq_wire_head *head, const void *bytes,
				 struct answer *answer, struct mq_err *err);

static void put(struct server *s, struct answer *answer, const void *bytes, size_t size)
{
	answer->bytes = memcpy(mq_arena_alloc(&s->scratch, size), bytes, size);
	answer->size = size;
}

/* Answers questions until the socket closes or a worker asks to be replaced (MQ_WIRE_LAST). */
static void answer_questions(struct server *s, int fd, handle_fn *handle)
{
	struct mq_wire_head head;
	bool going = true;
	void *bytes;

	while (going && mq_wire_receive(fd, &s->scratch, &head, &bytes, NULL)) {
		struct answer answer = { .kind = (enum mq_wire_kind)head.kind, .fd = -1 };
		struct mq_err err = MQ_ERR_INIT;

		s->judged_tasks = 0;
		if (handle(s, &head, bytes, &answer, &err) == MQ_OK)
			going = mq_wire_send(fd, answer.kind, answer.bytes, answer.size, answer.fd);
		else
			going = mq_wire_send(fd, MQ_WIRE_FAILED, &err, sizeof(err), -1);
		going = going && answer.kind != MQ_WIRE_LAST;
		if (answer.fd >= 0)
			close(answer.fd);
		mq_arena_rewind(&s->scratch, (struct mq_arena_mark){ NULL, 0 });
		if (s->judged_tasks > LARGE_TASKS)
			malloc_trim(0); /* free() keeps memory; gigabytes go back to the system */
	}
}

/* ---- worker ------------------------------------------------------------------------------------ */

/* Unpacks the question that comes with a plan, unless it equals the newest one, as it mostly does. */
static enum mq_status take_question(struct server *s, const struct mq_job_parts *parts, struct mq_err *err)
{
	uint32_t n = parts->args_size;

	if (s->asked && n == s->asked_size && !memcmp(s->asked, parts->args, n))
		return MQ_OK;
	mq_arena_rewind(&s->asking, (struct mq_arena_mark){ NULL, 0 });
	s->asked = NULL;
	s->asked_job = s->job;
	MQ_TRY(mq_job_unpack(parts, &s->asking, &s->asked_job, err));
	MQ_TRY(mq_job_question(&s->asked_job, &s->asking, &s->q, err));
	s->q.cluster = s->part;
	s->q.calib = s->calib;
	s->judge = (struct mq_judge){
		.q = &s->q,
		.fold = !s->asked_job.asked.no_fold,
		.interference = !s->asked_job.asked.no_interference,
		.execute = s->asked_job.analytic ? mq_execute_analytic : mq_execute_simgrid,
		.times_only = s->asked_job.times_only,
		.any_memory = s->asked_job.any_memory,
		.time_oom = s->asked_job.asked.time_oom,
		.max_tasks = s->asked_job.max_tasks,
		.timeout_s = s->asked_job.asked.timeout_s,
		.simulation_s = s->asked_job.asked.simulation_s,
		.jitter = s->asked_job.jitter,
		.replays = s->replays,
	};
	s->asked = mq_arena_alloc(&s->asking, n);
	memcpy(s->asked, parts->args, n);
	s->asked_size = n;
	return MQ_OK;
}

/* Judges one plan; an error becomes the plan's verdict, so that the run goes on. `outputs`: the files that will be
 * written, or NULL; `first_tasks`: see mq_judge. */
static void judge(struct server *s, const void *bytes, size_t size, const struct mq_outputs *outputs,
		  double first_tasks, struct mq_judged *out)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_job_parts parts;
	struct mq_plan plan;
	enum mq_status status = mq_job_parts(bytes, size, &parts, &err);

	if (status == MQ_OK)
		status = take_question(s, &parts, &err);
	if (status == MQ_OK)
		status = mq_plan_unpack(parts.plan, parts.plan_size, &s->scratch, &plan, &err);
	struct mq_judge how = s->judge;
	if (status == MQ_OK && outputs)
		how = mq_outputs_judge(&s->judge, &plan, outputs);
	how.first_tasks = first_tasks;
	if (status == MQ_OK && mq_judge_full(&how, &plan, &s->scratch, out, &err) == MQ_OK) {
		if (out->view.schedule)
			s->judged_tasks = out->view.schedule->n_tasks;
		return;
	}
	memset(out, 0, sizeof(*out));
	out->result.verdict = err.status == MQ_EBUG ? MQ_VERDICT_CRASH : MQ_VERDICT_INVALID;
	out->result.step_time_s = out->result.samples_per_s = out->result.mfu = NAN;
	out->result.peak_memory_B = out->result.memory_limit_B = NAN;
	out->result.memory_device = MQ_NONE;
	snprintf(out->result.message, sizeof(out->result.message), "%.250s", err.text);
}

/* Judges a plan for its files. Its numbers are those of the ordinary judgement, to the last digit; explanations and
 * files come from a second one that keeps every task. */
static enum mq_status judge_detailed(struct server *s, const void *bytes, size_t size, struct answer *answer,
				     struct mq_err *err)
{
	const struct mq_outputs *outputs = &s->asked_job.outputs;
	struct mq_arena_mark mark = mq_arena_mark(&s->scratch);
	struct mq_judged out;

	judge(s, bytes, size, NULL, 0, &out);
	struct mq_result result = out.result;
	/* otherwise the first judgement kept every task; only a schedule file needs the ops of kernels */
	if (out.view.fold || out.view.steady || outputs->schedule) {
		mq_arena_rewind(&s->scratch, mark);
		judge(s, bytes, size, outputs, out.view.steady ? mq_outputs_first_tasks(outputs) : 0, &out);
		if (!mq_outputs_end_before(&out, outputs)) {
			mq_arena_rewind(&s->scratch, mark);
			judge(s, bytes, size, outputs, 0, &out);
		}
		mq_outputs_explain(&out, &result);
	}
	MQ_TRY(mq_simulate_outputs(&s->judge, &out, outputs, &result, err));
	put(s, answer, &result, sizeof(result));
	return MQ_OK;
}

static enum mq_status judge_together(struct server *s, const void *bytes, size_t size, struct answer *answer,
				     struct mq_err *err)
{
	const struct mq_question all = { .cluster = s->cluster, .calib = s->calib };
	const struct mq_judge whole = { .q = &all,
					.execute = mq_execute_simgrid,
					.interference = !s->job.asked.no_interference,
					.timeout_s = s->job.asked.timeout_s };
	void *packed;

	s->judged_tasks = LARGE_TASKS + 1; /* makes answer_questions give memory back */
	MQ_TRY(mq_coscheduled_answer(&whole, bytes, size, &s->scratch, &packed, &answer->size, err));
	answer->bytes = packed;
	return MQ_OK;
}

static enum mq_status work(struct server *s, const struct mq_wire_head *head, const void *bytes, struct answer *answer,
			   struct mq_err *err)
{
	struct mq_judged out;

	if (head->kind == MQ_WIRE_DETAIL)
		return judge_detailed(s, bytes, head->size, answer, err);
	if (head->kind == MQ_WIRE_TOGETHER)
		return judge_together(s, bytes, head->size, answer, err);
	judge(s, bytes, head->size, NULL, 0, &out);
	put(s, answer, &out.result, sizeof(out.result));
	answer->kind = mq_simgrid_is_worn() ? MQ_WIRE_LAST : MQ_WIRE_JUDGE;
	return MQ_OK;
}

/* ---- server ------------------------------------------------------------------------------------- */

static enum mq_status fork_worker(struct server *s, struct answer *answer, struct mq_err *err)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return mq_fail(err, MQ_ETIME, "cannot make a worker: %s", strerror(errno));
	pid_t server = getpid(), pid = fork();
	if (!pid) {
		/* A worker in the middle of a simulation would not notice that its server died. */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != server)
			_exit(0);
		close(pair[0]);
		close(MQ_WIRE_FD);
		answer_questions(s, pair[1], work);
		_exit(0);
	}
	close(pair[1]);
	answer->fd = pair[0];
	if (pid < 0)
		return mq_fail(err, MQ_ETIME, "cannot fork a worker: %s", strerror(errno));
	MQ_PUSH(&s->arena, s->child, s->n_children, s->child_room, pid);
	put(s, answer, &pid, sizeof(pid));
	return MQ_OK;
}

static void reap(struct server *s, pid_t pid, struct answer *answer)
{
	int status = 0;

	for (uint32_t i = 0; i < s->n_children; i++)
		if (s->child[i] == pid) {
			s->child[i] = s->child[--s->n_children];
			kill(pid, SIGKILL); /* harmless if it is dead already */
			status = mq_wait(pid);
			break;
		}
	put(s, answer, &status, sizeof(status));
}

static enum mq_status put_route(struct server *s, struct mq_message *m, uint32_t src, uint32_t dst, struct mq_err *err)
{
	const struct mq_route *route;

	MQ_TRY(mq_cluster_route(s->cluster, src, dst, &route, err));
	const uint32_t head[] = { src, dst, route->n_links };

	mq_message_put(m, head, sizeof(head));
	mq_message_put(m, route->link, route->n_links * sizeof(*route->link));
	return MQ_OK;
}

/* Adds a route that was not asked for, unless it is the one asked for (the first in m) or does not exist. */
static void try_route(struct server *s, struct mq_message *m, uint32_t src, uint32_t dst)
{
	const uint32_t *asked = (const uint32_t *)(const void *)m->at;
	struct mq_err none = MQ_ERR_INIT;

	if (src != dst && (src != asked[0] || dst != asked[1]))
		(void)!put_route(s, m, src, dst, &none);
}

/* Devices [*first, *end): the device and about MOST neighbours by rank on the same machine. */
static void neighbours(const struct mq_cluster *c, uint32_t device, uint32_t *first, uint32_t *end)
{
	enum { MOST = 16 };

	for (*first = device; *first && device - *first < MOST && c->device[*first - 1].node == c->device[device].node;)
		--*first;
	for (*end = device + 1; *end < c->n_devices && *end - *first < MOST; ++*end)
		if (c->device[*end].node != c->device[device].node)
			break;
}

/* Answers a route, with those likely to be asked for next. Within a machine: all pairs of neighbours. Between machines:
 * each neighbour of src to dst, and (src + i, dst + i) as rings and pipeline stages need. Pairs without a route are
 * left out. */
static enum mq_status answer_route(struct server *s, const uint32_t *ends, struct answer *answer, struct mq_err *err)
{
	enum { FOLLOW = 64 };
	const struct mq_cluster *c = s->cluster;
	struct mq_message m = { .arena = &s->scratch };
	uint32_t src = ends[0], dst = ends[1], first, end;

	if (src >= c->n_devices || dst >= c->n_devices)
		return mq_fail(err, MQ_EBUG, "route between ranks %u and %u of %u", src, dst, c->n_devices);
	MQ_TRY(put_route(s, &m, src, dst, err));
	bool inside = c->device[src].node == c->device[dst].node;
	neighbours(c, src, &first, &end);
	for (uint32_t i = first; i < end; i++) {
		for (uint32_t k = first; inside && k < end; k++)
			try_route(s, &m, i, k);
		if (!inside)
			try_route(s, &m, i, dst);
	}
	for (uint32_t i = 1; !inside && i < FOLLOW && src + i < c->n_devices && dst + i < c->n_devices; i++)
		try_route(s, &m, src + i, dst + i);
	answer->bytes = m.at;
	answer->size = m.n;
	return MQ_OK;
}

static enum mq_status manage(struct server *s, const struct mq_wire_head *head, const void *bytes,
			     struct answer *answer, struct mq_err *err)
{
	pid_t pid;

	if (head->kind == MQ_WIRE_ROUTES && head->size == 2 * sizeof(uint32_t))
		return answer_route(s, bytes, answer, err);
	if (head->kind == MQ_WIRE_FORK)
		return fork_worker(s, answer, err);
	if (head->kind != MQ_WIRE_REAP || head->size != sizeof(pid))
		return mq_fail(err, MQ_EBUG, "a question of kind %u with %llu bytes", head->kind,
			       (unsigned long long)head->size);
	memcpy(&pid, bytes, sizeof(pid));
	reap(s, pid, answer);
	return MQ_OK;
}

static void serve(void *data)
{
	struct server *s = data;

	answer_questions(s, MQ_WIRE_FD, manage);
	for (uint32_t i = 0; i < s->n_children; i++)
		kill(s->child[i], SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
	/* Nothing of SimGrid is worth an orderly end, and its destructors take long. */
	_exit(0);
}

/* Applies the what-if changes, after the dump: the main process applies them to its own copy. */
static enum mq_status change(struct server *s, struct mq_calib *calib, struct mq_err *err)
{
	for (uint32_t i = 0; i < s->job.n_change; i++)
		MQ_TRY(mq_change_apply(s->job.change[i], s->job.asked.seed, s->cluster, calib, err));
	if (s->job.n_change)
		mq_conduct_bind(s->cluster);
	return MQ_OK;
}

static const char *const *types_of(const struct mq_cluster *c, struct mq_arena *arena)
{
	const char **type = mq_arena_array(arena, c->n_devices + 1, const char *);
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n_devices; i++)
		if (!n || strcmp(type[n - 1], c->device[i].type))
			type[n++] = c->device[i].type;
	return type;
}

/* Loads the calibrations. Where the shipped folder is the only one and no change may name a type, `type` alone is
 * loaded. */
static enum mq_status load_calib(struct server *s, const struct mq_job *job, const char *const *type,
				 struct mq_err *err)
{
	s->calib = mq_calib_new(&s->arena);
	return type && job->n_calib == 1 && !job->n_change ? mq_calib_load_types(s->calib, job->calib[0], type, err) :
							     mq_job_calib(job, 0, s->calib, err);
}

/* Loads platform and calibrations. A file of generator keys is built with the calibrations that were loaded when it
 * was written; the file of calibrations beside it, which came from the keys, is loaded after. */
static enum mq_status load_platform(struct server *s, struct mq_err *err)
{
	const char *path = s->job.asked.platform, *beside = mq_platform_calib_path(path, &s->arena);
	const char **given = mq_arena_array(&s->arena, s->job.n_calib + 1, const char *);
	struct mq_job job = s->job;

	if (!mq_platform_is_keys(path)) {
		MQ_TRY(mq_platform_load(path, &s->arena, &s->cluster, err));
		return load_calib(s, &job, types_of(s->cluster, &s->arena), err);
	}
	job.calib = given;
	job.n_calib = 0;
	for (uint32_t i = 0; i < s->job.n_calib; i++)
		if (strcmp(s->job.calib[i], beside) != 0)
			given[job.n_calib++] = s->job.calib[i];
	MQ_TRY(load_calib(s, &job, job.type, err));
	MQ_TRY(mq_platform_build_file(path, s->calib, &s->arena, &s->cluster, err));
	return job.n_calib < s->job.n_calib ? load_calib(s, &s->job, NULL, err) : MQ_OK;
}

static enum mq_status load(struct server *s, int argc, char **argv, struct mq_err *err)
{
	MQ_TRY(mq_job_decode(argc, argv, &s->arena, &s->job, err));
	mq_platform_start("maquette");
	MQ_TRY(load_platform(s, err));
	s->replays = mq_index_new(&s->arena);
	if (s->job.asked.model) {
		MQ_TRY(mq_calib_bind(s->calib, s->cluster, err));
		mq_conduct_bind(s->cluster);
	}
	s->dump = mq_platform_dump(s->cluster, &s->arena, &s->dump_size);
	if (s->job.asked.model)
		MQ_TRY(change(s, s->calib, err));
	s->part = s->cluster;
	if (!s->job.asked.devices)
		return MQ_OK;
	uint32_t *rank, n; /* ranks of asked.devices */
	MQ_TRY(mq_cluster_ranks(s->cluster, s->job.asked.devices, &s->arena, &rank, &n, err));
	return mq_cluster_part(s->cluster, rank, n, &s->arena, &s->part, err);
}

enum mq_status mq_pool_serve(int argc, char **argv, struct mq_err *err)
{
	struct server s = { .arena = MQ_ARENA_INIT };

	if (load(&s, argc, argv, err) != MQ_OK) {
		(void)mq_wire_send(MQ_WIRE_FD, MQ_WIRE_FAILED, err, sizeof(*err), -1);
		return err->status;
	}
	if (!mq_wire_send(MQ_WIRE_FD, MQ_WIRE_READY, s.dump, s.dump_size, -1))
		return mq_bad(err, "nobody listens; this command is started by the others and not meant to be typed");
	mq_conduct(s.cluster, serve, &s);
	return mq_fail(err, MQ_EBUG, "the simulation ended by itself");
}
