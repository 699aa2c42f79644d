/*
 * test_pool.c - worker processes: same results whatever their number and whoever is killed once, a second
 * crash and time-outs cost one plan, bad platforms are one line. This program is also its own worker.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "judge/pool.h"
#include "judge/judge.h"
#include "sanitized.h"

enum { N_PLANS = 12 };

struct fixture {
	struct mq_arena arena;
	struct mq_job job;
	struct mq_model *model;
	struct mq_calib *calib;
	struct mq_plan plan[N_PLANS];
	const struct mq_plan *ask[N_PLANS];
	struct mq_err err;
};

static const char *const calibs[] = { "platforms/calib" };

static void make_plans(struct fixture *f, struct mq_cluster *cluster)
{
	for (uint32_t i = 0; i < N_PLANS; i++) {
		struct mq_shape shape = { .dp = 1u << i % 3,
					  .tp = 1u << i / 3 % 2,
					  .pp = i % 6 == 5 ? 1 : 2,
					  .micro_batches = 4u << i / 6,
					  .pipeline = MQ_PIPE_1F1B,
					  .vocab_parallel = true };
		if (mq_plan_from_shape(&shape, f->model, cluster, &f->arena, &f->plan[i], &f->err))
			fail_msg("%s", f->err.text);
		f->ask[i] = &f->plan[i];
	}
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	mq_job_init(&f->job);
	f->job.asked.model = "gpt:layers=4,hidden=256,heads=4";
	f->job.asked.seq = 128;
	f->job.asked.train = (struct mq_train){ .batch = 64, .dtype = MQ_FP16, .grad_dtype = MQ_FP16 };
	f->job.asked.grad_given = true;
	f->job.asked.platform = "platforms/dgx_a100.xml";
	f->job.calib = calibs;
	f->job.n_calib = 1;
	struct mq_model_request ask = { .spec = f->job.asked.model,
					.train = &f->job.asked.train,
					.seq = f->job.asked.seq };
	if (mq_model_load(&ask, &f->arena, &f->model, &f->err) ||
	    mq_job_calib(&f->job, 0, f->calib = mq_calib_new(&f->arena), &f->err))
		fail_msg("%s", f->err.text);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	mq_arena_fini(&f->arena);
	free(f);
	return 0;
}

static struct mq_pool *open_pool(struct fixture *f, uint32_t workers)
{
	struct mq_pool *pool;

	if (mq_pool_open(&f->job, workers, &f->arena, &pool, &f->err) ||
	    mq_calib_bind(f->calib, mq_pool_cluster(pool), &f->err))
		fail_msg("%s", f->err.text);
	return pool;
}

static void number_of_workers_changes_nothing(void **state)
{
	struct fixture *f = *state;
	struct mq_result result[3][N_PLANS];

	for (uint32_t k = 0; k < 3; k++) {
		struct mq_pool *pool = open_pool(f, 1 + k);
		make_plans(f, mq_pool_cluster(pool));
		memset(result[k], 0, sizeof(result[k]));
		assert_int_equal(mq_pool_judge(pool, f->ask, N_PLANS, result[k], &f->err), MQ_OK);
		mq_pool_close(pool);
	}
	for (uint32_t i = 0; i < N_PLANS; i++) {
		if (result[0][i].verdict != MQ_VERDICT_OK)
			fail_msg("plan %u: %s", i, result[0][i].message);
		assert_true(result[0][i].step_time_s > 0);
		assert_memory_equal(&result[0][i], &result[1][i], sizeof(struct mq_result));
		assert_memory_equal(&result[0][i], &result[2][i], sizeof(struct mq_result));
	}
}

/* Steps of minutes: the clock of a worker comes to its limit, and another goes on. */
static void worn_workers_are_replaced(void **state)
{
	static const char *const slow[] = { "device.A100-SXM4-80GB.flops=1e-6" };
	struct fixture *f = *state;
	struct mq_result result[2][N_PLANS];
	double sum_s = 0;

	f->job.change = slow;
	f->job.n_change = 1;
	for (uint32_t k = 0; k < 2; k++) {
		struct mq_pool *pool = open_pool(f, 1 + k);
		make_plans(f, mq_pool_cluster(pool));
		memset(result[k], 0, sizeof(result[k]));
		assert_int_equal(mq_pool_judge(pool, f->ask, N_PLANS, result[k], &f->err), MQ_OK);
		mq_pool_close(pool);
	}
	f->job.n_change = 0;
	for (uint32_t i = 0; i < N_PLANS; i++) {
		if (result[0][i].verdict != MQ_VERDICT_OK)
			fail_msg("plan %u: %s", i, result[0][i].message);
		assert_memory_equal(&result[0][i], &result[1][i], sizeof(struct mq_result));
		sum_s += result[0][i].step_time_s;
	}
	assert_true(sum_s > 2000); /* more than one worker's clock holds */
}

static void routes_are_those_of_the_platform(void **state)
{
	struct fixture *f = *state;
	struct mq_pool *pool = open_pool(f, 1);
	struct mq_cluster *cluster = mq_pool_cluster(pool);
	const struct mq_route *route;

	assert_int_equal(cluster->n_devices, 8);
	assert_int_equal(mq_cluster_route(cluster, 0, 5, &route, &f->err), MQ_OK);
	assert_true(route->n_links >= 1 && route->bw_Bps > 1e9);
	mq_pool_close(pool);
}

/* The server tells more routes than it was asked about: whichever pair of four machines is asked about first, all are
 * the same. */
static void routes_told_along_are_right(void **state)
{
	struct fixture *f = *state;
	struct mq_pool *pool[2];
	const struct mq_cluster *c[2];

	f->job.asked.platform = "platforms/amp_mixed.xml"; /* four machines of four */
	for (int k = 0; k < 2; k++) {
		pool[k] = open_pool(f, 1);
		c[k] = mq_pool_cluster(pool[k]);
	}
	uint32_t n = c[0]->n_devices;
	assert_int_equal(n, 16);
	for (uint32_t i = 0; i < n * n; i++) {
		const struct mq_route *route;
		uint32_t back = n * n - 1 - i;

		if (i / n != i % n)
			assert_int_equal(mq_cluster_route(c[0], i / n, i % n, &route, &f->err), MQ_OK);
		if (back / n != back % n)
			assert_int_equal(mq_cluster_route(c[1], back / n, back % n, &route, &f->err), MQ_OK);
	}
	for (uint32_t i = 0; i < n * n; i++) {
		const struct mq_route *a, *b;

		if (i / n == i % n)
			continue;
		assert_int_equal(mq_cluster_route(c[0], i / n, i % n, &a, &f->err), MQ_OK);
		assert_int_equal(mq_cluster_route(c[1], i / n, i % n, &b, &f->err), MQ_OK);
		assert_int_equal(a->n_links, b->n_links);
		assert_memory_equal(a->link, b->link, a->n_links * sizeof(*a->link));
		assert_true(a->lat_s == b->lat_s && a->bw_Bps == b->bw_Bps);
	}
	for (int k = 0; k < 2; k++)
		mq_pool_close(pool[k]);
}

/* The screen in the main process (analytic) is never above what the workers find. */
static void screen_is_below(void **state)
{
	struct fixture *f = *state;
	struct mq_pool *pool = open_pool(f, 1);
	struct mq_result result[N_PLANS];
	const struct mq_question q = {
		.model = f->model, .cluster = mq_pool_cluster(pool), .calib = f->calib, .train = &f->job.asked.train
	};
	struct mq_judge judge = { .q = &q, .execute = mq_execute_analytic, .timeout_s = INFINITY };

	make_plans(f, mq_pool_cluster(pool));
	assert_int_equal(mq_pool_judge(pool, f->ask, N_PLANS, result, &f->err), MQ_OK);
	for (uint32_t i = 0; i < N_PLANS; i++) {
		struct mq_result screen;
		if (mq_judge_plan(&judge, f->ask[i], &f->arena, &screen, &f->err))
			fail_msg("%s", f->err.text);
		assert_true(screen.step_time_s <= result[i].step_time_s * (1 + 1e-8));
		assert_true(screen.step_time_s >= result[i].lower_bound_s * (1 - 1e-8));
		double parts = result[i].compute_s + result[i].exposed_comm_s + result[i].bubble_s;
		assert_true(fabs(parts - result[i].step_time_s) < 1e-7 * parts);
		assert_true(result[i].bottleneck[0]);
	}
	mq_pool_close(pool);
}

/* Time over: nothing is judged, and with time again all is as ever. */
/* Workers screen as the main process does, to the last bit, and what is asked of memory alone has the verdict and the
 * bytes of the whole judgement. */
static void screens_are_the_same_anywhere(void **state)
{
	struct fixture *f = *state;
	struct mq_pool *pool = open_pool(f, 2);
	struct mq_job analytic = f->job;
	const struct mq_job *job[N_PLANS];
	struct mq_result away[N_PLANS], here, room;
	const struct mq_question q = {
		.model = f->model, .cluster = mq_pool_cluster(pool), .calib = f->calib, .train = &f->job.asked.train
	};
	const struct mq_judge screen = {
		.q = &q, .execute = mq_execute_analytic, .fold = true, .interference = true, .timeout_s = INFINITY
	};
	const struct mq_judge memory = { .q = &q, .fold = true };

	analytic.analytic = true;
	make_plans(f, mq_pool_cluster(pool));
	for (uint32_t i = 0; i < N_PLANS; i++)
		job[i] = &analytic;
	memset(away, 0, sizeof(away));
	assert_int_equal(mq_pool_judge_jobs(pool, job, f->ask, N_PLANS, away, &f->err), MQ_OK);
	for (uint32_t i = 0; i < N_PLANS; i++) {
		assert_int_equal(mq_judge_plan(&screen, f->ask[i], &f->arena, &here, &f->err), MQ_OK);
		assert_int_equal(here.verdict, MQ_VERDICT_OK);
		assert_int_equal(away[i].verdict, here.verdict);
		assert_true(away[i].step_time_s > 0 && away[i].step_time_s == here.step_time_s);
		assert_true(away[i].peak_memory_B == here.peak_memory_B);
		assert_int_equal(mq_judge_plan(&memory, f->ask[i], &f->arena, &room, &f->err), MQ_OK);
		assert_int_equal(room.verdict, here.verdict);
		assert_true(room.peak_memory_B == here.peak_memory_B && isnan(room.step_time_s));
	}
	mq_pool_close(pool);
}

static void no_time_no_results(void **state)
{
	struct fixture *f = *state;
	struct mq_pool *pool = open_pool(f, 2);
	struct mq_result result[N_PLANS];

	make_plans(f, mq_pool_cluster(pool));
	mq_pool_until(pool, 0);
	assert_int_equal(mq_pool_judge(pool, f->ask, N_PLANS, result, &f->err), MQ_OK);
	for (uint32_t i = 0; i < N_PLANS; i++)
		assert_int_equal(result[i].verdict, MQ_N_VERDICTS);
	mq_pool_until(pool, INFINITY);
	assert_int_equal(mq_pool_judge(pool, f->ask, N_PLANS, result, &f->err), MQ_OK);
	for (uint32_t i = 0; i < N_PLANS; i++)
		assert_int_equal(result[i].verdict, MQ_VERDICT_OK);
	mq_pool_close(pool);
}

static void late_plans_are_given_up(void **state)
{
	struct fixture *f = *state;
	struct mq_result result[N_PLANS];

	f->job.wall_s = 0; /* nothing is that fast */
	struct mq_pool *pool = open_pool(f, 1);
	uint32_t late = 0;
	make_plans(f, mq_pool_cluster(pool));
	assert_int_equal(mq_pool_judge(pool, f->ask, N_PLANS, result, &f->err), MQ_OK);
	for (uint32_t i = 0; i < N_PLANS; i++) {
		assert_true(result[i].verdict == MQ_VERDICT_TIMEOUT || result[i].verdict == MQ_VERDICT_OK);
		late += result[i].verdict == MQ_VERDICT_TIMEOUT;
	}
	assert_true(late > 0);
	f->job.wall_s = 60; /* and the pool goes on serving */
	assert_int_equal(mq_pool_judge(pool, f->ask, 2, result, &f->err), MQ_OK);
	assert_int_equal(result[0].verdict, MQ_VERDICT_OK);
	mq_pool_close(pool);
}

static void folding_changes_nothing(void **state)
{
	struct fixture *f = *state;
	struct mq_result result[2][N_PLANS];

	for (int fold = 0; fold < 2; fold++) {
		f->job.asked.no_fold = !fold;
		struct mq_pool *pool = open_pool(f, 1);
		make_plans(f, mq_pool_cluster(pool));
		assert_int_equal(mq_pool_judge(pool, f->ask, N_PLANS, result[fold], &f->err), MQ_OK);
		mq_pool_close(pool);
	}
	for (uint32_t i = 0; i < N_PLANS; i++) {
		const struct mq_result *a = &result[0][i], *b = &result[1][i];
		assert_true(fabs(a->step_time_s - b->step_time_s) <= 2e-9 * a->step_time_s);
		assert_true(fabs(a->compute_s - b->compute_s) <= 1e-7 * a->step_time_s);
		assert_true(fabs(a->bubble_s - b->bubble_s) <= 1e-7 * a->step_time_s);
		assert_true(a->peak_memory_B == b->peak_memory_B && a->mfu == b->mfu);
	}
}

/* Children of a process, as the kernel lists them; false where it does not. */
static bool children_of(pid_t pid, pid_t child[16], uint32_t *n)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	FILE *f = fopen(path, "r");
	*n = 0;
	if (!f)
		return false;
	while (*n < 16 && fscanf(f, "%d", &child[*n]) == 1)
		++*n;
	fclose(f);
	return true;
}

/* Has a process computed for 20 ms? A worker that has is at its plans, not on its way to them. */
static bool at_work(pid_t pid)
{
	unsigned long ticks = 0;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *f = fopen(path, "r");
	if (!f)
		return false;
	if (fscanf(f, "%*d %*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu", &ticks) != 1)
		ticks = 0;
	fclose(f);
	return (double)ticks >= .02 * (double)sysconf(_SC_CLK_TCK);
}

enum victim { WORKERS, SERVER };

/* A process of its own that kills the workers of its parent's pool once they are at work, or their server. */
static pid_t kill_soon(enum victim victim)
{
	pid_t parent = getpid(), server[16], worker[16], killer;
	uint32_t n_servers, n_workers, killed = 0;

	if ((killer = fork()))
		return killer;
	for (int tries = 0; tries < 1000 && !killed; tries++) {
		usleep(5000);
		if (!children_of(parent, server, &n_servers))
			_exit(0);
		for (uint32_t i = 0; i < n_servers; i++)
			if (server[i] != getpid() && children_of(server[i], worker, &n_workers))
				for (uint32_t k = 0; k < n_workers; k++)
					killed += at_work(worker[k]) &&
						  !kill(victim == SERVER ? server[i] : worker[k], SIGKILL);
	}
	_exit(0);
}

/* One kill in the middle of the work, whomever it hits, changes no result. */
static void one_kill_changes_nothing(void **state)
{
	struct fixture *f = *state;
	struct mq_result result[3][N_PLANS];
	pid_t child[16];
	uint32_t n;

	if (!children_of(getpid(), child, &n)) {
		print_message("skipped: this kernel does not list children\n");
		skip();
	}
	f->job.asked.no_fold = true; /* slow plans, so that they are hit at work */
	f->job.asked.model = SANITIZED ? "gpt:layers=60,hidden=256,heads=4" : "gpt:layers=240,hidden=256,heads=4";
	struct mq_model_request ask = { .spec = f->job.asked.model,
					.train = &f->job.asked.train,
					.seq = f->job.asked.seq };
	assert_int_equal(mq_model_load(&ask, &f->arena, &f->model, &f->err), MQ_OK);
	memset(result, 0, sizeof(result));
	for (int round = 0; round < 3; round++) {
		struct mq_pool *pool = open_pool(f, 2);

		make_plans(f, mq_pool_cluster(pool));
		pid_t killer = round < 2 ? kill_soon(round ? SERVER : WORKERS) : 0;
		if (mq_pool_judge(pool, f->ask, N_PLANS, result[round], &f->err))
			fail_msg("round %d: %s", round, f->err.text);
		if (killer)
			assert_int_equal(waitpid(killer, NULL, 0), killer);
		mq_pool_close(pool);
	}
	for (uint32_t i = 0; i < N_PLANS; i++) {
		assert_int_equal(result[2][i].verdict, MQ_VERDICT_OK);
		assert_memory_equal(&result[0][i], &result[2][i], sizeof(struct mq_result));
		assert_memory_equal(&result[1][i], &result[2][i], sizeof(struct mq_result));
	}
}

/* ---- deaths by appointment ---------------------------------------------------------------------------
 * The environment of a server may name a file with a number: so many of the processes that it forks die at
 * once (DYING_WORKERS), or it does when it has forked (DYING_SERVERS). */

#define DYING_WORKERS "MQ_TEST_DYING_WORKERS"
#define DYING_SERVERS "MQ_TEST_DYING_SERVERS"

static void die_if_due(const char *appointment)
{
	const char *path = getenv(appointment);
	FILE *f = path ? fopen(path, "r+") : NULL;
	int left = 0;

	if (!f)
		return;
	if (flock(fileno(f), LOCK_EX)) /* workers begin at the same time */
		abort();
	if (fscanf(f, "%d", &left) != 1 || !left)
		left = 0;
	rewind(f);
	fprintf(f, "%d\n", left ? left - 1 : 0);
	fclose(f);
	if (left)
		raise(SIGKILL);
}

static void worker_forked(void)
{
	die_if_due(DYING_WORKERS);
}

static void server_has_forked(void)
{
	die_if_due(DYING_SERVERS);
}

static struct mq_pool *open_dying(struct fixture *f, const char *appointment, int deaths)
{
	char path[] = "/tmp/mq-deaths-XXXXXX", text[16];
	int fd = mkstemp(path), n = snprintf(text, sizeof(text), "%d\n", deaths);

	assert_int_equal(write(fd, text, (size_t)n), n);
	close(fd);
	setenv(appointment, path, 1);
	struct mq_pool *pool = open_pool(f, 2);
	make_plans(f, mq_pool_cluster(pool));
	return pool;
}

static void close_dying(struct mq_pool *pool, const char *appointment)
{
	pid_t child[16];
	uint32_t n;

	mq_pool_close(pool);
	unlink(getenv(appointment));
	unsetenv(appointment);
	if (children_of(getpid(), child, &n))
		assert_int_equal(n, 0);
}

/* Two workers at first: each plan has its first death, the first tried alone its second. */
static void two_deaths_are_a_verdict(void **state)
{
	static const struct mq_outputs none;
	struct fixture *f = *state;
	struct mq_result result[2];
	struct mq_pool *pool = open_dying(f, DYING_WORKERS, 3);
	uint32_t lost = 0;

	assert_int_equal(mq_pool_judge(pool, f->ask, 2, result, &f->err), MQ_OK);
	for (uint32_t i = 0; i < 2; i++)
		if (result[i].verdict == MQ_VERDICT_CRASH) {
			assert_non_null(strstr(result[i].message, "signal 9"));
			lost++;
		} else {
			assert_int_equal(result[i].verdict, MQ_VERDICT_OK);
		}
	assert_int_equal(lost, 1);
	assert_int_equal(mq_pool_judge(pool, f->ask, 2, result, &f->err), MQ_OK);
	assert_true(result[0].verdict == MQ_VERDICT_OK && result[1].verdict == MQ_VERDICT_OK);
	close_dying(pool, DYING_WORKERS);

	for (int deaths = 1; deaths <= 2; deaths++) {
		pool = open_dying(f, DYING_WORKERS, deaths);
		assert_int_equal(mq_pool_detail(pool, false, f->ask[0], &none, result, &f->err), MQ_OK);
		assert_int_equal(result[0].verdict, deaths == 1 ? MQ_VERDICT_OK : MQ_VERDICT_CRASH);
		close_dying(pool, DYING_WORKERS);
	}
}

/* A server that dies a few times is replaced; one that always does is an error, not a loop. */
static void dead_servers_are_replaced(void **state)
{
	struct fixture *f = *state;
	struct mq_result result[N_PLANS];
	struct mq_pool *pool = open_dying(f, DYING_SERVERS, 3);

	assert_int_equal(mq_pool_judge(pool, f->ask, N_PLANS, result, &f->err), MQ_OK);
	for (uint32_t i = 0; i < N_PLANS; i++)
		assert_int_equal(result[i].verdict, MQ_VERDICT_OK);
	close_dying(pool, DYING_SERVERS);

	pool = open_dying(f, DYING_SERVERS, 1000);
	assert_int_equal(mq_pool_judge(pool, f->ask, N_PLANS, result, &f->err), MQ_ETIME);
	assert_non_null(strstr(f->err.text, "server was killed by signal 9"));
	assert_int_equal(mq_pool_judge(pool, f->ask, N_PLANS, result, &f->err), MQ_ETIME);
	close_dying(pool, DYING_SERVERS);
}

/* A plan of another model is broken input for this one: a verdict, and the worker lives on. */
static void broken_plans_cost_one_verdict(void **state)
{
	struct fixture *f = *state;
	struct mq_result result[N_PLANS];
	struct mq_pool *pool = open_pool(f, 2);

	make_plans(f, mq_pool_cluster(pool));
	f->plan[1].config[0].device[0] = 4000; /* no such device */
	assert_int_equal(mq_pool_judge(pool, f->ask, 4, result, &f->err), MQ_OK);
	assert_int_equal(result[0].verdict, MQ_VERDICT_OK);
	assert_int_equal(result[1].verdict, MQ_VERDICT_INVALID);
	assert_int_equal(result[2].verdict, MQ_VERDICT_OK);
	mq_pool_close(pool);
}

static void refuses(struct fixture *f, const char *xml, const char *words)
{
	char path[] = "/tmp/mq-pool-XXXXXX.xml";
	int fd = mkstemps(path, 4);
	struct mq_pool *pool;

	assert_int_equal(write(fd, xml, strlen(xml)), (ssize_t)strlen(xml));
	close(fd);
	f->job.asked.platform = path;
	assert_int_equal(mq_pool_open(&f->job, 1, &f->arena, &pool, &f->err), MQ_EINPUT);
	unlink(path);
	if (!strstr(f->err.text, words) || !strstr(f->err.text, "mq-pool-"))
		fail_msg("\"%s\" does not say \"%s\"", f->err.text, words);
}

#define HEAD                                                \
	"<?xml version=\"1.0\"?><!DOCTYPE platform SYSTEM " \
	"\"https://simgrid.org/simgrid.dtd\"><platform version=\"4.1\">"

static void bad_platforms_are_one_line(void **state)
{
	struct fixture *f = *state;
	struct mq_pool *pool;

	refuses(f, HEAD "<zo", "XML");
	refuses(f,
		HEAD "<zone id=\"a\" routing=\"Full\"><host id=\"x\" speed=\"1Tg\"/></zone>"
		     "</platform>",
		"unknown unit");
	f->job.asked.platform = "/nowhere/at-all.xml";
	assert_int_equal(mq_pool_open(&f->job, 1, &f->arena, &pool, &f->err), MQ_EINPUT);
	assert_non_null(strstr(f->err.text, "/nowhere/at-all.xml"));
}

static void details_are_written(void **state)
{
	struct fixture *f = *state;
	struct mq_pool *pool = open_pool(f, 1);
	char dir[] = "/tmp/mq-detail-XXXXXX", path[64];
	static const char *const files[] = { "summary.csv", "timeline.csv", "memory.csv",    "links.csv",
					     "tasks.csv",   "trace.json",   "schedule.jsonl" };
	struct mq_result judged, detailed;

	make_plans(f, mq_pool_cluster(pool));
	assert_non_null(mkdtemp(dir));
	struct mq_outputs outputs = { .dir = dir };
	outputs.trace = mq_arena_printf(&f->arena, "%s/trace.json", dir);
	outputs.schedule = mq_arena_printf(&f->arena, "%s/schedule.jsonl", dir);
	assert_int_equal(mq_pool_judge(pool, f->ask + 4, 1, &judged, &f->err), MQ_OK);
	if (mq_pool_detail(pool, false, f->ask[4], &outputs, &detailed, &f->err))
		fail_msg("%s", f->err.text);
	assert_true(judged.step_time_s == detailed.step_time_s); /* to the last digit */
	struct mq_schedule *s;
	if (mq_schedule_load(outputs.schedule, &f->arena, &s, &f->err))
		fail_msg("%s", f->err.text);
	for (uint32_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		assert_int_equal(access(path, R_OK), 0);
		unlink(path);
	}
	rmdir(dir);
	outputs = (struct mq_outputs){ .dir = "/nowhere/at-all" };
	assert_int_equal(mq_pool_detail(pool, false, f->ask[4], &outputs, &detailed, &f->err), MQ_EINPUT);
	mq_pool_close(pool);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(number_of_workers_changes_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(worn_workers_are_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(routes_are_those_of_the_platform, setup, teardown),
		cmocka_unit_test_setup_teardown(routes_told_along_are_right, setup, teardown),
		cmocka_unit_test_setup_teardown(screen_is_below, setup, teardown),
		cmocka_unit_test_setup_teardown(screens_are_the_same_anywhere, setup, teardown),
		cmocka_unit_test_setup_teardown(no_time_no_results, setup, teardown),
		cmocka_unit_test_setup_teardown(late_plans_are_given_up, setup, teardown),
		cmocka_unit_test_setup_teardown(folding_changes_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(one_kill_changes_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(two_deaths_are_a_verdict, setup, teardown),
		cmocka_unit_test_setup_teardown(dead_servers_are_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(broken_plans_cost_one_verdict, setup, teardown),
		cmocka_unit_test_setup_teardown(bad_platforms_are_one_line, setup, teardown),
		cmocka_unit_test_setup_teardown(details_are_written, setup, teardown),
	};
	if (argc > 1 && !strcmp(argv[1], "worker")) {
		struct mq_err err = MQ_ERR_INIT;
		pthread_atfork(NULL, server_has_forked, worker_forked);
		enum mq_status status = mq_pool_serve(argc - 2, argv + 2, &err);
		fprintf(stderr, "%s\n", err.text);
		return status;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
