/*
 * bench_executors.c - activities per second of both executors beside raw SimGrid driven with the same
 * computations and sends in the same process; nanoseconds per task of the check and of `analytic`.
 *
 * Activities: one per computation and one per send. Raw: one actor per stream of a device (compute, send,
 * receive), which sleep, put, get and tell each other in the order of the schedule; nothing else. The two
 * must find the same step time. Best of three, on one core.
 * SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include <simgrid/semaphore.h>

#include "../unit/schedules.h"
#include "../unit/simulated.h"
#include "schedule/events.h"

static double clock_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- raw ------------------------------------------------------------------------------------------ */

struct raw {
	struct simulated *t;
	uint32_t p, m, stage, alive;
	double bytes, seconds;
	sg_sem_t done, computed, arrived; /* done: of raw[0]; the others of each stage */
	struct raw *all;
};

static sg_mailbox_t raw_box(uint32_t from, uint32_t to)
{
	char name[40];

	snprintf(name, sizeof(name), "raw%u-%u", from, to);
	return sg_mailbox_by_name(name);
}

static void raw_end(struct raw *r)
{
	if (!--r->all->alive)
		sg_sem_release(r->all->done);
}

/* What a stage does in 1F1B order; its streams each go through it. */
struct raw_order {
	uint32_t f, b;
};

static bool raw_forward_next(const struct raw *r, struct raw_order *o)
{
	bool forward = o->f < r->m && o->f < o->b + r->p - r->stage;

	o->f += forward;
	o->b += !forward;
	return forward;
}

static void raw_stage(int argc, char **argv)
{
	struct raw *r = sg_actor_self_get_data();
	struct raw_order o = { 0, 0 };

	(void)argc;
	(void)argv;
	while (o.b < r->m) {
		bool forward = raw_forward_next(r, &o);
		if (forward ? r->stage > 0 : r->stage + 1 < r->p)
			sg_sem_acquire(r->arrived);
		sg_actor_sleep_for(r->seconds);
		if (forward ? r->stage + 1 < r->p : r->stage > 0)
			sg_sem_release(r->computed);
	}
	raw_end(r);
}

static void raw_sender(int argc, char **argv)
{
	static int payload;
	struct raw *r = sg_actor_self_get_data();
	struct raw_order o = { 0, 0 };

	(void)argc;
	(void)argv;
	while (o.b < r->m) {
		bool forward = raw_forward_next(r, &o);
		if (forward ? r->stage + 1 == r->p : r->stage == 0)
			continue;
		sg_sem_acquire(r->computed);
		sg_mailbox_put(raw_box(r->stage, forward ? r->stage + 1 : r->stage - 1), &payload, (long)r->bytes);
	}
	raw_end(r);
}

static void raw_receiver(int argc, char **argv)
{
	struct raw *r = sg_actor_self_get_data();
	struct raw_order o = { 0, 0 };

	(void)argc;
	(void)argv;
	while (o.b < r->m) {
		bool forward = raw_forward_next(r, &o);
		if (forward ? r->stage == 0 : r->stage + 1 == r->p)
			continue;
		sg_mailbox_get(raw_box(forward ? r->stage - 1 : r->stage + 1, r->stage));
		sg_sem_release(r->arrived);
	}
	raw_end(r);
}

static void raw_actor(struct raw *r, xbt_main_func_t code)
{
	sg_actor_t a = sg_actor_init("raw", mq_platform_host(r->t->cluster, r->stage));

	r->all->alive++;
	sg_actor_set_data(a, r);
	sg_actor_start_(a, code, 0, NULL);
}

/* Simulated seconds of the pipeline, by raw SimGrid. */
static double raw_pipeline(struct simulated *t, uint32_t p, uint32_t m, double bytes, double seconds)
{
	struct raw *r = mq_arena_array(&t->arena, p, struct raw);
	double since_s = simgrid_get_clock();

	r[0].done = sg_sem_init(0);
	for (uint32_t s = 0; s < p; s++)
		r[s] = (struct raw){ .t = t,
				     .p = p,
				     .m = m,
				     .stage = s,
				     .bytes = bytes,
				     .seconds = seconds,
				     .all = r,
				     .done = r[0].done,
				     .computed = sg_sem_init(0),
				     .arrived = sg_sem_init(0) };
	for (uint32_t s = 0; s < p; s++) {
		raw_actor(&r[s], raw_stage);
		raw_actor(&r[s], raw_sender);
		raw_actor(&r[s], raw_receiver);
	}
	sg_sem_acquire(r[0].done);
	return simgrid_get_clock() - since_s;
}

/* ---- the comparison --------------------------------------------------------------------------------- */

static void compare(struct simulated *t, uint32_t p, uint32_t m)
{
	struct mq_schedule *s = hand_new(&t->arena, t->cluster);
	struct hand_pipe pipe = { .p = p, .m = m, .bytes = 1e6 };
	double activities = 2.0 * p * m + 2.0 * (p - 1) * m;
	double raw_s = INFINITY, ours_s = INFINITY, check_s = INFINITY, screen_s = INFINITY;
	double raw_step = 0, our_step = 0;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_arena arena = MQ_ARENA_INIT; /* as a worker's: kept from plan to plan */

	pipe.forward = pipe.backward = hand_work(s, 1e-3);
	hand_pipeline(s, &pipe);
	for (int i = 0; i < 3; i++) {
		double at = clock_s();
		raw_step = raw_pipeline(t, p, m, 1e6, 1e-3);
		raw_s = fmin(raw_s, clock_s() - at);
		struct mq_exec_request request = {
			.view.schedule = s, .cluster = t->cluster, .calib = t->calib, .timeout_s = INFINITY
		};
		struct mq_timeline timeline;
		enum mq_verdict verdict;
		at = clock_s();
		EXPECT(t, !mq_execute_simgrid(&request, &arena, &timeline, &verdict, &err));
		ours_s = fmin(ours_s, clock_s() - at);
		our_step = timeline.step_time_s;
		mq_arena_rewind(&arena, (struct mq_arena_mark){ NULL, 0 });
		at = clock_s();
		EXPECT(t, !mq_schedule_check(s, NULL, &err));
		check_s = fmin(check_s, clock_s() - at);
		at = clock_s();
		EXPECT(t, !mq_execute_analytic(&request, &arena, &timeline, &verdict, &err));
		screen_s = fmin(screen_s, clock_s() - at);
		mq_arena_rewind(&arena, (struct mq_arena_mark){ NULL, 0 });
	}
	mq_arena_fini(&arena);
	EXPECT_NEAR(t, our_step, raw_step, 1e-9);
	printf("%4u x %4u  %8.0f  %9.3f  %9.3f  %8.2f  %7.0f  %8.0f  %.6f %.6f\n", p, m, activities,
	       1e-6 * activities / raw_s, 1e-6 * activities / ours_s, raw_s / ours_s, 1e9 * check_s / s->n_tasks,
	       1e9 * screen_s / s->n_tasks, raw_step, our_step);
	fflush(stdout);
}

static void sizes(struct simulated *t)
{
	printf("stages x mb  activities  raw M/s  simgrid M/s  ratio  check ns/task  analytic  "
	       "step raw, ours [s]\n");
	compare(t, 8, 32);
	compare(t, 64, 64);
	compare(t, 64, 512);
}

int main(void)
{
	struct simulated_platform p = { .n = 64, .bw_Bps = 1e10, .lat_s = 0 };

	printf("private links: every duration is known beforehand\n");
	bool good = simulated_run(&p, sizes);
	p.backbone_Bps = 2e11;
	printf("one backbone for all: every send is simulated\n");
	good &= simulated_run(&p, sizes);
	return good ? 0 : 1;
}
