/*
 * test_executors.c - executors analytic and simgrid on hand-computable schedules, and properties that
 * tie the two together on random ones.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <simgrid/actor.h>

#include "maquette/rng.h"
#include "folding/fold.h"
#include "schedules.h"
#include "simulated.h"
#include "libraries.h"
#include "sanitized.h"

#define FREE_COMM                                  \
	{                                          \
		.n = 8, .bw_Bps = 1e18, .lat_s = 0 \
	}

/* GPipe and 1F1B with equal stages and free communication: m (f + b) + (p - 1)(f + b). */
static void bubbles(struct simulated *t)
{
	for (uint32_t gpipe = 0; gpipe < 2; gpipe++)
		for (uint32_t p = 1; p <= 8; p *= 2)
			for (uint32_t m = p; m <= 32; m *= 2) {
				struct mq_schedule *s = hand_new(&t->arena, t->cluster);
				struct hand_pipe pipe = { .p = p, .m = m, .gpipe = gpipe, .bytes = 1 };
				pipe.forward = hand_work(s, 1.25);
				pipe.backward = hand_work(s, 2.5);
				hand_pipeline(s, &pipe);
				double want = (m + p - 1) * 3.75;
				EXPECT_NEAR(t, simulated_step(t, s, mq_execute_analytic, false), want, 1e-12);
				EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, false), want, 1e-12);
			}
}

/* One transfer: latency of the route, then the bytes. */
static void one_transfer(struct simulated *t)
{
	struct mq_schedule *s = hand_new(&t->arena, t->cluster);

	hand_send(s, 0, 1, 3e6);
	hand_recv(s, 1, 0, 3e6);
	double want = 2 * 5e-6 + 3e6 / 1e9;
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_analytic, false), want, 1e-12);
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, false), want, 1e-12);
	/* A second one in the same stream waits until the first has gone. */
	hand_send(s, 0, 2, 3e6);
	hand_recv(s, 2, 0, 3e6);
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_analytic, false), 2 * want, 1e-12);
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, false), 2 * want, 1e-12);
}

/* Two sends into one device share its link: both flows halve; analytic does not see it. */
static void two_into_one(struct simulated *t)
{
	struct mq_schedule *s = hand_new(&t->arena, t->cluster);

	hand_send(s, 0, 2, 1e9);
	hand_send(s, 1, 2, 1e9);
	hand_recv(s, 2, 0, 1e9);
	uint32_t r = hand_recv(s, 2, 1, 1e9);
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, false), 2 * (1 + 1e-5), 1e-12);
	s->task[r].stream = MQ_STREAM_COPY; /* any other stream: the two overlap */
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, false), 2 + 1e-5, 1e-9);
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_analytic, false), 1 + 1e-5, 1e-9);
}

/* Flows of different latency (one waits for a computation first) share a link fairly: 0.5 s alone,
 * then half each. */
static void late_flow_shares_fairly(struct simulated *t)
{
	struct mq_schedule *s = hand_new(&t->arena, t->cluster);
	uint32_t half = hand_work(s, 0.5);

	hand_send(s, 0, 2, 1e9);
	uint32_t c = hand_compute(s, 1, half);
	hand_send(s, 1, 3, 1e9);
	hand_dep(s, c);
	hand_recv(s, 2, 0, 1e9);
	hand_recv(s, 3, 1, 1e9);
	/* backbone of 1e9: alone 0.5 s (0.5e9 left), both at half until 1.5, the late one alone. */
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, false), 2.0, 1e-9);
}

/* A ring all-reduce on private links is 2 (n - 1) (S / n / bw + lat) where a step's latency is that of
 * a route; run twice at once on two halves of the machine. */
static void ring(struct simulated *t)
{
	struct mq_schedule *s = hand_new(&t->arena, t->cluster);
	uint32_t a = hand_comm(s, 0, 1, 4), b = hand_comm(s, 4, 1, 4);

	for (uint32_t d = 0; d < 8; d++)
		hand_collective(s, d, d < 4 ? a : b, MQ_COLL_ALL_REDUCE, 8e6);
	double analytic = simulated_step(t, s, mq_execute_analytic, false);
	double simgrid = simulated_step(t, s, mq_execute_simgrid, false);
	EXPECT(t, simgrid >= analytic * (1 - 1e-9));
	/* Two communicators that share every device's links must be simulated as flows. */
	struct mq_schedule *both = hand_new(&t->arena, t->cluster);
	uint32_t c = hand_comm(both, 0, 1, 8);
	uint32_t e = hand_comm(both, 0, 1, 8);
	for (uint32_t d = 0; d < 8; d++) {
		hand_collective(both, d, c, MQ_COLL_ALL_REDUCE, 800e6);
		uint32_t x = hand_collective(both, d, e, MQ_COLL_ALL_REDUCE, 800e6);
		both->task[x].stream = MQ_STREAM_COMM;
	}
	double one = simulated_step(t, both, mq_execute_analytic, false);
	double two = simulated_step(t, both, mq_execute_simgrid, false);
	EXPECT(t, two > 1.5 * one && two < 2.0001 * one);
}

/* A collective that overlaps with compute slows it: one second of overlap costs oc seconds. */
static void interference(struct simulated *t)
{
	struct mq_schedule *s = hand_new(&t->arena, t->cluster);
	struct mq_device_calib *calib = &t->calib->device[0];
	uint32_t comm = hand_comm(s, 0, 1, 2), w = hand_work(s, 10);

	for (uint32_t d = 0; d < 2; d++)
		hand_collective(s, d, comm, MQ_COLL_ALL_REDUCE, 2e9);
	hand_compute(s, 0, w);
	double comm_s = simulated_step(t, s, mq_execute_analytic, false);
	EXPECT_NEAR(t, comm_s, 10, 1e-9); /* hidden */
	s->n_tasks = 2;
	comm_s = simulated_step(t, s, mq_execute_simgrid, true);
	hand_compute(s, 0, w);
	calib->overlap_compute = 0.5;
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, true), 10 + 0.5 * comm_s, 1e-9);
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, false), 10, 1e-12);
	/* The collective is slowed, too: it lasts comm_s / 0.8 while compute runs. */
	calib->overlap_comm = 0.2;
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, true), 10 + 0.5 * comm_s / 0.8, 1e-9);
	/* Cores that carry their communication stand still meanwhile. */
	calib->overlap_comm = calib->overlap_compute = 0;
	calib->serial_comm = true;
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, true), 10 + comm_s, 1e-9);
	calib->serial_comm = false;
}

/* What a collective takes of the device beside it: the multiprocessors of its two channels (of eight), as long
 * as it runs, and three accesses to memory for each of the 2e9 bytes that an all-reduce of 2e9 on two ranks
 * receives, which take 6e9 / 10e9 s however long the network takes. */
static void copies_take_their_share(struct simulated *t)
{
	struct mq_schedule *s = hand_new(&t->arena, t->cluster);
	struct mq_device_calib *calib = &t->calib->device[0];
	uint32_t comm = hand_comm(s, 0, 1, 2), w = hand_work(s, 20);

	for (uint32_t d = 0; d < 2; d++)
		hand_collective(s, d, comm, MQ_COLL_ALL_REDUCE, 2e9);
	double comm_s = simulated_step(t, s, mq_execute_simgrid, true);
	EXPECT(t, comm_s < 15);
	hand_compute(s, 0, w);
	calib->overlap_compute = -1;
	calib->sm_count = 8;
	calib->mem_bw_Bps = 10e9;
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, true), 20 + comm_s / 4, 1e-9);
	s->work[w].kernel->kind = MQ_KERNEL_MEMORY;
	s->work[w].kernel->bytes = 200e9;
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, true), 20.6, 1e-9);
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, false), 20, 1e-12);
	/* An all-to-all of as many bytes receives half of them, and reads what it sends besides. */
	s->task[0].coll = s->task[1].coll = MQ_COLL_ALL_TO_ALL;
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, true), 20.4, 1e-9);
	s->task[0].coll = s->task[1].coll = MQ_COLL_ALL_REDUCE;
	/* A host that takes longer to launch than the device to run has the time. */
	s->work[w].kernel->launches = 1;
	calib->host_launch_s = 21;
	EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, true), 21, 1e-9);
	calib->host_launch_s = 0;
	calib->overlap_compute = 0;
}

/* After the time-out the process goes on serving. */
/* Many flows on one link amplify the smallest difference; there must be none, whatever the clock. */
static void repeats_to_the_last_bit(struct simulated *t)
{
	double first = 0;

	for (int i = 0; i < 4; i++) {
		struct mq_schedule *s = hand_new(&t->arena, t->cluster);
		struct hand_pipe pipe = { .p = t->cluster->n_devices, .m = 64, .bytes = 1e6 };

		pipe.forward = pipe.backward = hand_work(s, 1e-4);
		hand_pipeline(s, &pipe);
		double step = simulated_request(
			t,
			(struct mq_exec_request){
				.view.schedule = s, .cluster = t->cluster, .calib = t->calib, .timeout_s = INFINITY },
			mq_execute_simgrid);
		EXPECT(t, i == 0 || step == first);
		first = step;
		sg_actor_sleep_for(0.1234567 * (i + 1));
	}
}

static void timeouts_do_no_harm(struct simulated *t)
{
	struct mq_exec_request request = { .cluster = t->cluster, .calib = t->calib, .timeout_s = 0.5 };
	struct mq_err err = MQ_ERR_INIT;

	for (int i = 0; i < 20; i++) {
		struct mq_schedule *s = hand_new(&t->arena, t->cluster);
		struct mq_timeline timeline;
		enum mq_verdict verdict = MQ_VERDICT_OK;
		hand_send(s, 0, 2, 1e9);
		hand_recv(s, 2, 0, 1e9);
		hand_send(s, 1, 2, 1e9);
		uint32_t r = hand_recv(s, 2, 1, 1e9);
		s->task[r].stream = MQ_STREAM_COPY;
		request.view.schedule = s;
		EXPECT(t, mq_execute_simgrid(&request, &t->arena, &timeline, &verdict, &err) == MQ_OK);
		EXPECT(t, verdict == MQ_VERDICT_TIMEOUT);
		EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, false), 2 + 1e-5, 1e-9);
	}
}

/* Schedules that wait for themselves, or that a device cannot run, are verdicts of both. */
static void verdicts(struct simulated *t)
{
	static mq_execute_fn *const both[] = { mq_execute_analytic, mq_execute_simgrid };
	struct mq_schedule *s = hand_new(&t->arena, t->cluster), *never = hand_new(&t->arena, t->cluster);
	struct mq_exec_request request = { .cluster = t->cluster, .calib = t->calib, .timeout_s = INFINITY };
	struct mq_err err = MQ_ERR_INIT;
	uint32_t w = hand_work(s, 1);

	for (uint32_t d = 0; d < 2; d++) {
		uint32_t r = hand_recv(s, d, 1 - d, 5);
		hand_send(s, d, 1 - d, 5);
		hand_dep(s, r);
	}
	for (int k = 0; k < 500; k++) { /* behind it, each another meeting that the walk never comes to */
		hand_send(s, 0, 1, 10 + k);
		hand_recv(s, 1, 0, 10 + k);
	}
	hand_compute(s, 2, w);
	hand_compute(never, 0, hand_work(never, INFINITY));
	for (int i = 0; i < 6; i++) {
		struct mq_timeline timeline;
		enum mq_verdict verdict = MQ_VERDICT_OK;
		request.view.schedule = i < 4 ? s : never;
		EXPECT(t, both[i % 2](&request, &t->arena, &timeline, &verdict, &err) == MQ_OK);
		EXPECT(t, verdict == (i < 4 ? MQ_VERDICT_DEADLOCK : MQ_VERDICT_INVALID));
		double moved = 0, asked = 2 * 5 + 500 * 10 + 499 * 500 / 2; /* all of it, over every link once */
		for (uint32_t l = 0; !i && l < timeline.n_links; l++)
			moved = fmax(moved, timeline.link_busy_B[l]);
		EXPECT(t, i || moved <= asked);
		EXPECT(t, i || moved >= asked - 5);
	}
	EXPECT(t, strstr(err.text, "cannot run") != NULL);
}

/* ---- properties on random schedules ------------------------------------------------------------- */

struct random {
	struct mq_rng rng;
	struct mq_schedule *s;
	uint32_t last[8]; /* newest task of each device, MQ_NONE = none */
	uint32_t comms[3];
	const uint32_t *name; /* permutation of the devices */
};

enum { COLLECTIVES = 1, GROUPS = 2 }; /* what to leave out */

static void follow(struct random *r, uint32_t device, uint32_t task)
{
	if (r->last[device] != MQ_NONE && mq_rng_below(&r->rng, 4))
		hand_dep(r->s, r->last[device]);
	r->last[device] = task;
}

static bool seed_bit(struct random *r)
{
	return r->s->n_tasks & 1; /* the same for every naming of the devices */
}

/* Everyone of some devices sends to the next and receives from the one before, as one launch each. */
static void exchange(struct random *r, uint32_t group, double size)
{
	uint32_t n = 2 + mq_rng_below(&r->rng, 3), shift = mq_rng_below(&r->rng, 8);

	for (uint32_t k = 0; k < n; k++) {
		uint32_t at = r->name[(shift + k) % 8], next = r->name[(shift + (k + 1) % n) % 8];
		uint32_t before = r->name[(shift + (k + n - 1) % n) % 8], wait = r->last[at];
		uint32_t send = hand_send(r->s, at, next, size);
		if (wait != MQ_NONE)
			hand_dep(r->s, wait);
		uint32_t recv = hand_recv(r->s, at, before, size);
		if (seed_bit(r))
			r->s->task[recv].stream = MQ_STREAM_SEND;
		r->s->task[send].group = r->s->task[recv].group = group;
		r->s->task[send].channel = r->s->task[recv].channel = 1;
		r->last[at] = recv;
	}
}

/* Tasks are added whole meetings at a time, so every order of ids is one that works. */
static struct mq_schedule *random_tasks(struct simulated *t, uint64_t seed, const uint32_t *name, uint32_t without)
{
	struct random r = { .s = hand_new(&t->arena, t->cluster), .name = name };
	static const enum mq_stream streams[] = { MQ_STREAM_SEND, MQ_STREAM_GRAD, MQ_STREAM_COMM };

	mq_rng_seed(&r.rng, seed);
	memset(r.last, 0xff, sizeof(r.last));
	for (uint32_t c = 0; c < 3; c++) {
		r.comms[c] = hand_comm(r.s, 0, 1, 2 + mq_rng_below(&r.rng, 5));
		uint32_t shift = mq_rng_below(&r.rng, 8);
		for (uint32_t i = 0; i < r.s->comm[c].n; i++)
			r.s->comm[c].rank[i] = name[(i + shift) % 8];
	}
	for (uint32_t i = 0; i < 60; i++) {
		uint32_t what = mq_rng_below(&r.rng, 5), a = name[mq_rng_below(&r.rng, 8)];
		double size = 1e5 + 1e7 * mq_rng_unit(&r.rng);
		if (what < 2) {
			uint32_t w = hand_work(r.s, 1e-3 * mq_rng_unit(&r.rng));
			follow(&r, a, hand_compute(r.s, a, w));
		} else if (what == 4 && !(without & GROUPS)) {
			exchange(&r, i + 1, size);
		} else if (what == 2 || without & COLLECTIVES) {
			uint32_t b = name[mq_rng_below(&r.rng, 8)];
			if (a == b)
				continue;
			follow(&r, a, hand_send(r.s, a, b, size));
			follow(&r, b, hand_recv(r.s, b, a, size));
		} else {
			const struct mq_comm *c = &r.s->comm[mq_rng_below(&r.rng, 3)];
			enum mq_coll_kind kind = mq_rng_below(&r.rng, MQ_N_COLL_KINDS);
			for (uint32_t k = 0; k < c->n; k++) {
				uint32_t x = hand_collective(r.s, c->rank[k], (uint32_t)(c - r.s->comm), kind, size);
				r.s->task[x].stream = streams[(c - r.s->comm) % 3];
				follow(&r, c->rank[k], x);
			}
		}
	}
	return r.s;
}

static struct mq_schedule *random_schedule(struct simulated *t, uint64_t seed, const uint32_t *name)
{
	return random_tasks(t, seed, name, 0);
}

static const uint32_t in_order[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };

static void analytic_is_below(struct simulated *t)
{
	uint32_t shared = 0, slowed = 0, seeds = SANITIZED ? 50 : 150;

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct mq_schedule *s = random_schedule(t, seed, in_order);
		double low = simulated_step(t, s, mq_execute_analytic, false);
		double high = simulated_step(t, s, mq_execute_simgrid, false);
		double again = simulated_step(t, s, mq_execute_simgrid, false);
		EXPECT(t, low <= high * (1 + 1e-9));
		EXPECT_NEAR(t, again, high, 1e-11);
		EXPECT_NEAR(t, simulated_all(t, s, false), high, 1e-9);
		shared += high > low * (1 + 1e-6);
		/* Interference: never below the bound, and as repeatable. */
		struct mq_device_calib *calib = &t->calib->device[0];
		calib->overlap_compute = 0.4;
		calib->overlap_comm = 0.1;
		calib->serial_comm = seed % 3 == 0;
		double slow = simulated_step(t, s, mq_execute_simgrid, true);
		EXPECT(t, low <= slow * (1 + 1e-9));
		EXPECT_NEAR(t, simulated_step(t, s, mq_execute_simgrid, true), slow, 1e-10);
		slowed += slow > high * (1 + 1e-6);
		calib->overlap_compute = calib->overlap_comm = 0;
		calib->serial_comm = false;
	}
	EXPECT(t, shared > (SANITIZED ? 4 : 20) && slowed > (SANITIZED ? 4 : 20)); /* or this proves nothing */
}

/* Where each meeting has the machine to itself, the two agree: make every task wait for all before. */
static void equal_where_alone(struct simulated *t)
{
	for (uint64_t seed = 1; seed <= (SANITIZED ? 15 : 60); seed++) {
		struct mq_schedule *s = random_tasks(t, seed, in_order, GROUPS);
		for (uint32_t i = 0; i < s->n_tasks; i++)
			s->task[i].stream = MQ_STREAM_COMPUTE;
		double low = simulated_step(t, s, mq_execute_analytic, false);
		bool private_links = t->cluster->n_links == 16;
		double high = simulated_step(t, s, mq_execute_simgrid, false);
		if (private_links)
			EXPECT_NEAR(t, high, low, 1e-9);
		else
			EXPECT(t, low <= high * (1 + 1e-9));
	}
}

static void swapped_devices_change_nothing(struct simulated *t)
{
	static const uint32_t swapped[8] = { 0, 6, 2, 3, 4, 5, 1, 7 };

	for (uint64_t seed = 1; seed <= (SANITIZED ? 15 : 60); seed++) {
		double a = simulated_step(t, random_schedule(t, seed, in_order), mq_execute_simgrid, true);
		double b = simulated_step(t, random_schedule(t, seed, swapped), mq_execute_simgrid, true);
		EXPECT_NEAR(t, b, a, 1e-11);
	}
}

/* Lowered plans of a transformer: leaving out the flows that meet nobody changes nothing. */
static void plans_either_way(struct simulated *t)
{
	struct mq_train train = { .batch = 32, .dtype = MQ_FP16, .grad_dtype = MQ_FP16 };
	struct mq_model_request ask = { .spec = "gpt:layers=4,hidden=256,heads=4", .train = &train, .seq = 128 };
	struct mq_err err = MQ_ERR_INIT;
	struct mq_model *model;

	EXPECT(t, mq_model_load(&ask, &t->arena, &model, &err) == MQ_OK);
	t->calib->device[0].overlap_compute = 0.4;
	for (uint32_t i = 0; i < 12; i++) {
		struct mq_shape shape = { .dp = 1u << i % 3,
					  .tp = 1u << i / 3 % 2,
					  .pp = i % 6 == 5 ? 1 : 2,
					  .micro_batches = 4,
					  .pipeline = i < 6 ? MQ_PIPE_1F1B : MQ_PIPE_GPIPE };
		struct mq_plan plan;
		struct mq_lowered low;
		const struct mq_question q = {
			.model = model, .cluster = t->cluster, .calib = t->calib, .train = &train
		};
		struct mq_lower_request rq = { .q = &q, .plan = &plan };
		if (mq_plan_from_shape(&shape, model, t->cluster, &t->arena, &plan, &err) ||
		    mq_lower(&rq, &t->arena, &low, &err) || low.verdict != MQ_VERDICT_OK) {
			EXPECT(t, !"lowered");
			fprintf(stderr, "%s %s\n", err.text, low.message);
			continue;
		}
		for (int slowed = 0; slowed < 2; slowed++) {
			double few = simulated_step(t, low.schedule, mq_execute_simgrid, slowed);
			double low_s = simulated_step(t, low.schedule, mq_execute_analytic, false);
			if (!slowed)
				EXPECT_NEAR(t, simulated_all(t, low.schedule, false), few, 1e-9);
			EXPECT(t, few >= low_s * (1 - 1e-9));
		}
	}
}

/* The same schedules on a platform whose speeds are divided by c and latencies multiplied by c. Without
 * collectives, whose library has step times of its own. */
static double scale_sum;
static char scale_file[64];
static void sum_up(struct simulated *t)
{
	const char *path = scale_file;
	double c = t->cluster->link[0].bw_Bps < 1e9 ? 8 : 1, sum = 0;

	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct mq_schedule *s = random_tasks(t, seed, in_order, COLLECTIVES);
		for (uint32_t w = 0; w < s->n_works; w++)
			s->work[w].kernel->time_s *= c;
		sum += simulated_step(t, s, mq_execute_simgrid, true);
	}
	FILE *f = fopen(path, c > 1 ? "r" : "w");
	if (c > 1) {
		EXPECT(t, fscanf(f, "%lf", &scale_sum) == 1);
		EXPECT_NEAR(t, sum, c * scale_sum, 1e-9);
		unlink(path);
	} else {
		fprintf(f, "%.17g", sum);
	}
	fclose(f);
}

/* analytic on a flat cluster of the given speeds, collective algorithms fixed. */
static double screen(uint64_t seed, double bw_Bps, double lat_s, double work)
{
	struct simulated t = { .arena = MQ_ARENA_INIT };
	struct mq_err err = MQ_ERR_INIT;

	t.cluster = mq_cluster_flat(&t.arena, 8, "T", 1e12, 16e9, bw_Bps, lat_s);
	t.calib = bare_calib(&t.arena);
	mq_calib_add_ideal(t.calib, "T", 1e12, 1e12, 16e9);
	assert_int_equal(mq_calib_bind(t.calib, t.cluster, &err), MQ_OK);
	struct mq_schedule *s = random_schedule(&t, seed, in_order);
	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].kind == MQ_TASK_COLLECTIVE && s->task[i].coll != MQ_COLL_ALL_TO_ALL) {
			s->task[i].algo = MQ_ALGO_RING;
			s->task[i].proto = MQ_PROTO_SIMPLE;
		}
	for (uint32_t w = 0; w < s->n_works; w++)
		s->work[w].kernel->time_s *= work;
	double step_s = simulated_step(&t, s, mq_execute_analytic, false);
	assert_int_equal(t.failures, 0);
	mq_arena_fini(&t.arena);
	return step_s;
}

static void case_faster_is_never_slower(void **state)
{
	uint32_t strictly = 0;

	for (uint64_t seed = 1; seed <= 60; seed++) {
		double step_s = screen(seed, 1e9, 1e-5, 1);
		double wide_s = screen(seed, 3e9, 1e-5, 1), quick_s = screen(seed, 1e9, 1e-6, 1);
		double strong_s = screen(seed, 1e9, 1e-5, 0.5);
		assert_true(wide_s <= step_s * (1 + 1e-12));
		assert_true(quick_s <= step_s * (1 + 1e-12));
		assert_true(strong_s <= step_s * (1 + 1e-12));
		strictly += wide_s < step_s && quick_s < step_s;
	}
	assert_true(strictly > 30);
}

static void case_bubbles(void **state)
{
	struct simulated_platform p = FREE_COMM;
	assert_true(simulated_run(&p, bubbles));
}

static void case_transfers(void **state)
{
	struct simulated_platform p = { .n = 4, .bw_Bps = 1e9, .lat_s = 5e-6 };
	assert_true(simulated_run(&p, one_transfer));
	assert_true(simulated_run(&p, two_into_one));
	assert_true(simulated_run(&p, timeouts_do_no_harm));
	assert_true(simulated_run(&p, verdicts));
	p.lat_s = 0;
	p.bw_Bps = 1e12;
	p.backbone_Bps = 1e9;
	assert_true(simulated_run(&p, late_flow_shares_fairly));
	p.n = 32;
	p.bw_Bps = 1e10;
	p.backbone_Bps = 1e11;
	assert_true(simulated_run(&p, repeats_to_the_last_bit));
}

static void case_collectives(void **state)
{
	struct simulated_platform p = { .n = 8, .bw_Bps = 1e9, .lat_s = 1e-6 };
	assert_true(simulated_run(&p, ring));
	assert_true(simulated_run(&p, interference));
	assert_true(simulated_run(&p, copies_take_their_share));
}

static void case_properties(void **state)
{
	struct simulated_platform p = { .n = 8, .bw_Bps = 1e9, .lat_s = 1e-6 };
	assert_true(simulated_run(&p, analytic_is_below));
	assert_true(simulated_run(&p, equal_where_alone));
	assert_true(simulated_run(&p, swapped_devices_change_nothing));
	p.backbone_Bps = 3e9;
	assert_true(simulated_run(&p, analytic_is_below));
	assert_true(simulated_run(&p, equal_where_alone));
	assert_true(simulated_run(&p, swapped_devices_change_nothing));
}

static void case_plans(void **state)
{
	struct simulated_platform p = { .n = 8, .bw_Bps = 1e9, .lat_s = 1e-6 };
	assert_true(simulated_run(&p, plans_either_way));
	p.backbone_Bps = 2e9;
	assert_true(simulated_run(&p, plans_either_way));
}

static void case_scaling(void **state)
{
	struct simulated_platform p = { .n = 8, .bw_Bps = 1e9, .lat_s = 1e-6, .backbone_Bps = 3e9 };
	snprintf(scale_file, sizeof(scale_file), "/tmp/mq-scale-%d", (int)getpid());
	assert_true(simulated_run(&p, sum_up));
	p.bw_Bps /= 8;
	p.lat_s *= 8;
	p.backbone_Bps /= 8;
	assert_true(simulated_run(&p, sum_up));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(case_bubbles),
		cmocka_unit_test(case_transfers),
		cmocka_unit_test(case_collectives),
		cmocka_unit_test(case_properties),
		cmocka_unit_test(case_plans),
		cmocka_unit_test(case_scaling),
		cmocka_unit_test(case_faster_is_never_slower),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
