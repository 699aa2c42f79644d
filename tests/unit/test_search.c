/*
 * test_search.c - the loop: order and bytes of the rows, the shared cache, resuming after a kill,
 * constraints, full disks. Engines and judge are small fakes with known answers.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "search/search.h"
#include "libraries.h"
#include "schedule/columns.h"
#include "session/search_run.h"

struct fixture {
	struct mq_arena arena;
	struct mq_model *model;
	struct mq_cluster *cluster;
	struct mq_calib *calib;
	struct mq_train train;
	struct mq_question q;
	struct mq_limits limits;
	struct mq_costs costs;
	char dir[64];
	uint32_t judged;     /* plans that the fake judge saw */
	uint32_t fail_after; /* judge gives up after so many: a kill; 0 = never */
	uint32_t crash_at;   /* of this one the simulator dies; 0 = of none */
	bool some_tight;     /* all that run take a second; of those off rank 0 at first memory is tight */
};

/* A chain of four ops; plans are placements of them on four devices. */
static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct mq_model_builder b;
	struct mq_err err;

	mq_model_begin(&b, &f->arena, "chain");
	for (uint32_t i = 0; i < 4; i++) {
		char name[8];

		snprintf(name, sizeof(name), "op%u", i);
		uint32_t op = mq_model_add(&b, MQ_OP_GEMM, name);
		b.model->op[op].flop = b.model->op[op].output = 1;
		b.model->op[op].extent[MQ_DIM_BATCH] = 1;
		if (i)
			mq_model_connect(&b, op - 1, op, 1);
	}
	assert_int_equal(mq_model_finish(&b, &f->model, &err), MQ_OK);
	f->cluster = mq_cluster_flat(&f->arena, 4, "ideal", 1e12, 1e9, 1e9, 1e-6);
	f->calib = bare_calib(&f->arena);
	f->train.batch = 4;
	f->q = (struct mq_question){ .model = f->model, .cluster = f->cluster, .calib = f->calib, .train = &f->train };
	f->limits.fix_pipeline = f->limits.fix_recompute = f->limits.fix_sync = -1;
	strcpy(f->dir, "/tmp/test_search.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", f->dir);
	int status = system(command);
	mq_arena_fini(&f->arena);
	free(f);
	return status;
}

/* Time = 1 + mean rank of the devices used, in seconds; rank 3 is out of memory. */
static enum mq_status judge(void *context, const struct mq_plan *const *plan, uint32_t n, struct mq_result *result,
			    struct mq_err *err)
{
	struct fixture *f = context;

	for (uint32_t i = 0; i < n; i++) {
		double sum = 0;
		struct mq_result *r = &result[i];

		if (f->fail_after && f->judged == f->fail_after)
			return mq_fail(err, MQ_ETIME, "killed");
		f->judged++;
		memset(r, 0, sizeof(*r));
		for (uint32_t op = 0; op < plan[i]->n_ops; op++) {
			uint32_t rank = plan[i]->config[plan[i]->config_of[op]].device[0];

			sum += rank;
			if (rank == 3)
				r->verdict = MQ_VERDICT_OOM;
		}
		if (f->judged == f->crash_at)
			r->verdict = MQ_VERDICT_CRASH;
		r->step_time_s = r->verdict == MQ_VERDICT_OK ? 1 + sum / 3 : (double)NAN;
		r->samples_per_s = 4 / r->step_time_s;
		r->mfu = 0.5;
		r->peak_memory_B = 2e9;
		r->memory_limit_B = 1e9;
		if (f->some_tight && r->verdict == MQ_VERDICT_OK) {
			r->step_time_s = 1;
			r->memory_high_B = plan[i]->config[plan[i]->config_of[0]].device[0] ? 1.01e9 : .99e9;
		}
		snprintf(r->bottleneck, sizeof(r->bottleneck), "a \"quoted\", divided text");
	}
	return MQ_OK;
}

struct draw {
	uint32_t proposals, heard;
	double last_s;
};

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct draw *s = state;
	uint32_t device_of[4];

	for (int i = 0; i < 4; i++)
		device_of[i] = mq_rng_below(problem->rng, 4);
	/* What was heard changes what is proposed, so that a wrong replay shows. */
	if (s->last_s > 2)
		device_of[0] = 0;
	s->proposals++;
	mq_plan_from_placement(device_of, problem->q->model, arena, plan);
	return MQ_OK;
}

static void observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		    const struct mq_result *result)
{
	struct draw *s = state;

	s->heard++;
	s->last_s = result->step_time_s;
}

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	return MQ_OK;
}

static void stop(void *state, const struct mq_problem *problem)
{
	const struct draw *s = state;
	char line[64];

	assert_true(s->heard <= s->proposals);
	snprintf(line, sizeof(line), "heard %u", s->heard);
	problem->say(problem->host, line);
}

static const struct mq_engine engine_of_4 = {
	MQ_ENGINE_HEAD("draw"),
	.summary = "fake",
	.state_size = sizeof(struct draw),
	.batch = 4,
	.start = start,
	.propose = propose,
	.observe = observe,
	.stop = stop,
};
static const struct mq_engine engine_of_1 = {
	MQ_ENGINE_HEAD("draw"),
	.summary = "fake",
	.state_size = sizeof(struct draw),
	.batch = 1,
	.start = start,
	.propose = propose,
	.observe = observe,
	.stop = stop,
};

static struct mq_search question(struct fixture *f, const struct mq_search_engine *engines, uint32_t chunk)
{
	return (struct mq_search){
		.q = &f->q,
		.costs = &f->costs,
		.limits = &f->limits,
		.objective = "step-time",
		.engine = engines,
		.n_engines = 2,
		.seed = 5,
		.evals = 30,
		.seconds = (double)INFINITY,
		.top = 3,
		.dir = f->dir,
		.context = 77,
		.evaluator = { f, judge, chunk },
	};
}

static const struct mq_search_engine both[] = { { &engine_of_4, "", "four", false },
						{ &engine_of_1, "", "one", false } };

static char *slurp(struct fixture *f, const char *name, size_t *size)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	char *text = mq_arena_alloc(&f->arena, 1 << 20);
	*size = fread(text, 1, (1 << 20) - 1, file);
	fclose(file);
	return text;
}

static void remove_results(const struct fixture *f)
{
	static const char *const names[] = { "candidates.csv", "evaluations.csv" };
	char path[128];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", f->dir, names[i]);
		unlink(path);
	}
}

static void rows_do_not_depend_on_chunks(void **state)
{
	struct fixture *f = *state;
	struct mq_search_outcome out;
	struct mq_err err = MQ_ERR_INIT;
	size_t n1, n2;

	struct mq_search s = question(f, both, 1);
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	assert_int_equal(out.proposals, 60);
	assert_int_equal(out.judged + out.cached, 60);
	assert_int_equal(out.judged, f->judged);
	assert_string_equal(out.report[1].said[0], "heard 30");
	char *first = slurp(f, "candidates.csv", &n1);
	remove_results(f);
	s = question(f, both, 64);
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	char *second = slurp(f, "candidates.csv", &n2);
	assert_int_equal(n1, n2);
	assert_memory_equal(first, second, n1);
	assert_memory_equal(first, mq_table[MQ_TABLE_candidates].header, strlen(mq_table[MQ_TABLE_candidates].header));
}

/* An engine that takes a part hears of two devices of four and half of the batch; who judges gets four. What it hears of
 * is the plan that it made; devices in no order are passed over and cost no evaluation. */
static enum mq_status propose_part(void *state, const struct mq_problem *problem, struct mq_arena *arena,
				   struct mq_plan *plan, struct mq_err *err)
{
	struct draw *s = state;
	uint32_t order[] = { s->heard % 2 ? 0 : 1, s->heard % 2 ? 1 : 0 }; /* every other one goes on */
	struct mq_config c = { .n_devices = 2, .device = order, .split = MQ_UNSPLIT };

	assert_int_equal(problem->q->cluster->n_devices, 2);
	assert_true(problem->q->train->batch == 2 && problem->times == 2);
	c.split[MQ_DIM_BATCH] = 2;
	s->proposals++;
	plan->micro_batches = 1;
	for (uint32_t op = 0; op < plan->n_ops; op++)
		plan->config_of[op] = mq_plan_intern(plan, &c, arena);
	return MQ_OK;
}

static void observe_part(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
			 const struct mq_result *result)
{
	struct draw *s = state;

	assert_int_equal(plan->config[0].n_devices, 2);
	assert_int_equal(plan->config[0].recompute, MQ_RECOMPUTE_FULL); /* as was fixed */
	assert_int_equal(result->verdict, s->heard++ % 2 ? MQ_VERDICT_OK : MQ_VERDICT_INVALID);
}

static void a_part_stands_for_the_whole(void **state)
{
	struct fixture *f = *state;
	struct mq_engine parts = engine_of_1;
	const struct mq_search_engine one[] = { { &parts, "", "parts", false } };
	struct mq_train train = { .batch = 2 };
	struct mq_search_part part = { .times = 2, .q = f->q, .costs = &f->costs };
	struct mq_search_outcome out;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_search s = question(f, one, 1);
	struct mq_limits limits = *s.limits;

	limits.fix_recompute = MQ_RECOMPUTE_FULL;
	s.limits = &limits;
	parts.parts = true;
	parts.propose = propose_part;
	parts.observe = observe_part;
	for (uint32_t op = 0; op < f->model->n_ops; op++)
		f->model->op[op].splits |= 1u << MQ_DIM_BATCH;
	part.q.train = &train;
	part.q.cluster = mq_cluster_flat(&f->arena, 2, "ideal", 1e12, 1e9, 1e9, 1e-6);
	s.part = &part;
	s.n_engines = 1;
	s.evals = 5;
	s.dir = NULL;
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	assert_int_equal(out.feasible, 5);
	assert_int_equal(out.n_best, 1);
	const struct mq_config *c = &out.best[0].plan->config[0];
	assert_int_equal(c->n_devices, 4);
	assert_int_equal(c->split[MQ_DIM_BATCH], 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(c->device[i], i);
}

static void best_are_sorted_and_distinct(void **state)
{
	struct fixture *f = *state;
	struct mq_search_outcome out;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_search s = question(f, both, 8);

	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	assert_int_equal(out.n_best, 3);
	for (uint32_t i = 1; i < 3; i++) {
		assert_true(out.best[i - 1].result.step_time_s <= out.best[i].result.step_time_s);
		assert_true(out.best[i - 1].hash != out.best[i].hash);
	}
	assert_string_equal(out.best[0].result.bottleneck, "a \"quoted\", divided text");
}

/* Offers the ranking a placement of the three operators. */
static void offer(struct fixture *f, struct mq_ranking *ranking, uint32_t a, uint32_t b, uint32_t c, double step_s,
		  const char *runs_in)
{
	const uint32_t device_of[4] = { a, b, c, c };
	struct mq_plan *plan = mq_arena_alloc(&f->arena, sizeof(*plan));

	mq_plan_init(plan, &f->arena, f->q.model->n_ops);
	mq_plan_from_placement(device_of, f->q.model, &f->arena, plan);
	struct mq_candidate candidate = {
		.engine = "hand",
		.hash = mq_plan_hash(plan),
		.plan = plan,
		.runs_in = runs_in,
		.result = { .step_time_s = step_s, .peak_memory_B = 1e9 * step_s },
	};
	mq_ranking_add(ranking, &candidate);
}

/* Placements on two devices: 0.4 % apart they share a row, 0.6 % apart they do not; one that is offered twice counts
 * once, whether it comes before the best or after. */
static void near_equal_plans_are_one_row(void **state)
{
	static const struct mq_software_record software[] = { { .software.name = "ddp" }, { .software.name = "dd" } };
	struct fixture *f = *state;
	struct mq_ranking ranking;
	struct mq_search_outcome out;
	struct mq_search s = question(f, both, 1);

	s.software = software;
	s.n_software = 2;
	mq_ranking_init(&ranking, &s, &f->arena);
	offer(f, &ranking, 0, 1, 1, 1.004, "ddp");
	offer(f, &ranking, 0, 0, 1, 1, "-");
	offer(f, &ranking, 0, 1, 1, 1.004, "ddp");
	offer(f, &ranking, 0, 2, 2, 1.006, "fsdp ddp");
	offer(f, &ranking, 0, 1, 2, 1.001, "-"); /* on three devices: of another form */
	mq_ranking_finish(&ranking, &out);
	assert_int_equal(out.n_best, 3);
	assert_int_equal(out.best[0].like, 1);
	assert_float_equal(out.best[1].result.step_time_s, 1.001, 0);
	assert_int_equal(out.best[1].like, 0);
	assert_float_equal(out.best[2].result.step_time_s, 1.006, 0);
	assert_float_equal(out.software[0].best.result.step_time_s, 1.004, 0);
	assert_null(out.software[1].best.plan); /* "ddp" is not "dd" */
}

/* The list of candidates is full of near-equal ones: these go before one that is worse and different. */
static void near_equal_plans_do_not_crowd_out_others(void **state)
{
	struct fixture *f = *state;
	struct mq_ranking ranking;
	struct mq_search_outcome out;
	struct mq_search s = question(f, both, 1);

	s.top = 2;
	mq_ranking_init(&ranking, &s, &f->arena);
	ranking.room = 3;
	offer(f, &ranking, 0, 1, 2, 2, "-");
	offer(f, &ranking, 0, 0, 1, 1, "-");
	offer(f, &ranking, 0, 1, 1, 1.001, "-");
	offer(f, &ranking, 0, 2, 2, 1.002, "-");
	offer(f, &ranking, 1, 2, 2, 1.003, "-");
	mq_ranking_finish(&ranking, &out);
	assert_int_equal(out.n_best, 2);
	assert_int_equal(out.best[0].like, 3);
	assert_float_equal(out.best[1].result.step_time_s, 2, 0);
}

/* Needs of 93 % of the device are within what the memory model may be off (8 %), 91 % are not. */
static void of_equal_plans_the_tight_come_last(void **state)
{
	struct fixture *f = *state;
	struct mq_search_outcome out;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_search s = question(f, both, 8);
	uint32_t tight = 0;
	size_t n;

	f->some_tight = true;
	s.top = 200;
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	for (uint32_t i = 0; i < out.n_best; i++) {
		assert_true(out.best[i].result.verdict == MQ_VERDICT_OK);
		tight += mq_result_tight(&out.best[i].result);
		assert_true(mq_result_tight(&out.best[i].result) == (tight > 0));
	}
	assert_true(tight > 0 && tight < out.n_best);
	assert_non_null(strstr(slurp(f, "candidates.csv", &n), ",tight,1,"));
	/* Known again, they are tight again. */
	f->judged = 0;
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	assert_int_equal(f->judged, 0);
	assert_true(mq_result_tight(&out.best[out.n_best - 1].result));
	assert_string_equal(mq_result_verdict(&out.best[out.n_best - 1].result), "tight");
	assert_true(mq_verdict_runs("tight") && mq_verdict_runs("ok") && !mq_verdict_runs("oom"));
}

/* The first takes 10 s: 8 of compute, 1 of bubble, .5 each over nvswitch and ports. The others are worked out by hand. */
static void says_why_a_plan_is_not_the_first(void **state)
{
	struct fixture *f = *state;
	static const struct {
		double compute_s, bubble_s, nvswitch_s, nic_s, host_s, peak_B;
		bool leaves; /* tensor-parallel ranks sit in several machines */
		const char *why;
	} cases[] = {
		{ 8, 1, .5, .5, 0, 70e9, false, "" },
		{ 8.2, 3, .5, .3, 0, 70e9, false, "bubble 25 %" },
		{ 8, 1, .5, 1.7, 0, 70e9, false, "+12 % communication, nic" },
		{ 8, 1, .5, 1.7, 0, 70e9, true, "tp over nic" },
		{ 8, 1, .9, .5, 0, 70e9, true, "+4.0 % communication, nvswitch" },
		{ 9, 1.1, .5, .5, 0, 70e9, false, "+10 % compute" },
		{ 8.25, 1, .5, .5, 0, 70e9, false, "+2.5 % compute" },
		{ 8.004, 1, .5, .5, 0, 70e9, false, "within 0.05 %" },
		{ 8, 1, .5, .5, 2, 70e9, false, "+20 % communication, host" },
		{ 1, 1, .5, .5, 0, 81.2e9, false, "oom by 1.2 GB" },
	};
	struct mq_search_outcome out = { .objective = "step-time", .n_best = 1 };
	struct mq_candidate first;

	for (uint32_t d = 0; d < 4; d++) /* a machine each */
		f->cluster->device[d].node = d;
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct mq_plan plan;
		struct mq_candidate c = { .hash = i, .plan = &plan, .objective = 1 };
		struct mq_result *r = &c.result;

		mq_plan_init(&plan, &f->arena, f->q.model->n_ops);
		mq_plan_add_config(&plan, &f->arena, 4);
		for (uint32_t d = 0; d < 4; d++)
			plan.config[0].device[d] = d;
		plan.config[0].split[MQ_DIM_OUT] = cases[i].leaves ? 2 : 1;
		*r = mq_result_none(cases[i].peak_B > 80e9 ? MQ_VERDICT_OOM : MQ_VERDICT_OK);
		r->compute_s = cases[i].compute_s;
		r->bubble_s = cases[i].bubble_s;
		r->link_s[MQ_LINK_NVSWITCH] = cases[i].nvswitch_s;
		r->link_s[MQ_LINK_NIC] = cases[i].nic_s;
		r->link_s[MQ_LINK_HOST] = cases[i].host_s;
		r->exposed_comm_s = cases[i].nvswitch_s + cases[i].nic_s + cases[i].host_s;
		r->step_time_s = r->compute_s + r->bubble_s + r->exposed_comm_s;
		r->peak_memory_B = cases[i].peak_B;
		r->memory_limit_B = 80e9;
		if (i == 0)
			first = c;
		out.best = &first;
		assert_string_equal(mq_why_not_first(&c, &out, f->cluster, &f->arena), cases[i].why);
	}
	struct mq_candidate dear = first;

	dear.hash = 99;
	dear.objective = 1.07;
	out.objective = "cost";
	assert_string_equal(mq_why_not_first(&dear, &out, f->cluster, &f->arena), "+7.0 % cost");
	dear.objective = INFINITY;
	assert_string_equal(mq_why_not_first(&dear, &out, f->cluster, &f->arena), "cost not known");
}

static void a_killed_run_resumes(void **state)
{
	struct fixture *f = *state;
	struct mq_search_outcome out;
	struct mq_err err = MQ_ERR_INIT;
	size_t n1, n2;
	char path[128];

	struct mq_search s = question(f, both, 1);
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	char *whole = slurp(f, "candidates.csv", &n1);
	uint32_t all = f->judged;
	remove_results(f);
	f->judged = 0;
	f->fail_after = 11;
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_ETIME);
	assert_int_equal(f->judged, 11);
	/* A kill in the middle of a row leaves a part of it. */
	slurp(f, "candidates.csv", &n2);
	assert_true(n2 < n1);
	snprintf(path, sizeof(path), "%s/candidates.csv", f->dir);
	assert_int_equal(truncate(path, (off_t)n2 - 7), 0);
	f->fail_after = 0;
	f->judged = 0;
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	assert_int_equal(f->judged, all - 11);
	char *again = slurp(f, "candidates.csv", &n2);
	assert_int_equal(n1, n2);
	assert_memory_equal(whole, again, n1);
	/* Once more: nothing to simulate, nothing to write. */
	f->judged = 0;
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	assert_int_equal(f->judged, 0);
}

/* What was not judged because a simulator died is judged when the search is run again, whose rows are then
 * those of a search in which nothing died. */
static void a_crash_is_no_answer(void **state)
{
	struct fixture *f = *state;
	struct mq_search_outcome out;
	struct mq_err err = MQ_ERR_INIT;
	size_t n1, n2;
	struct mq_search s = question(f, both, 8);

	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	assert_int_equal(out.crashed, 0);
	char *whole = slurp(f, "candidates.csv", &n1);
	uint32_t all = f->judged;
	for (f->crash_at = 1; f->crash_at <= all; f->crash_at += 7) {
		uint32_t known = f->crash_at;

		remove_results(f);
		f->judged = 0;
		assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
		assert_true(out.crashed > 0);
		char *rows = slurp(f, "candidates.csv", &n2);
		rows[n2] = '\0';
		assert_non_null(strstr(rows, ",crash,"));
		f->crash_at = f->judged = 0;
		assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
		assert_true(f->judged > 0 && f->judged <= all);
		assert_int_equal(out.crashed, 0);
		char *again = slurp(f, "candidates.csv", &n2);
		assert_int_equal(n1, n2);
		assert_memory_equal(whole, again, n1);
		f->crash_at = known;
	}
}

/* An answer that was changed is not taken for one; the file of another version begins anew. */
static void edited_rows_are_refused(void **state)
{
	struct fixture *f = *state;
	struct mq_search_outcome out;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_search s = question(f, both, 8);
	char path[128], *text, *at;
	size_t n;

	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	text = slurp(f, "evaluations.csv", &n);
	text[n] = '\0';
	at = strstr(text, ",ok,");
	assert_non_null(at);
	at[4] = at[4] == '9' ? '8' : '9';
	snprintf(path, sizeof(path), "%s/evaluations.csv", f->dir);
	FILE *file = fopen(path, "w");
	fwrite(text, 1, n, file);
	fclose(file);
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "does not match its check sum"));
	file = fopen(path, "w");
	fputs("context,plan_hash,verdict\n0000000000000001,0000000000000001,ok\n", file);
	fclose(file);
	f->judged = 0;
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	assert_true(f->judged > 0); /* rows of another context are not taken */
	f->judged = 0;
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	assert_int_equal(f->judged, 0);
	file = fopen(path, "w");
	fputs("my own table\n", file);
	fclose(file);
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "not a file of this program"));
}

static void another_question_is_not_mixed_in(void **state)
{
	struct fixture *f = *state;
	struct mq_search_outcome out;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_search s = question(f, both, 8);

	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	s.seed = 6;
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "candidates.csv:2: written by another command"));
	/* Other inputs: the folder's plans are not of them, and that is said before one is judged. */
	s.seed = 5;
	s.context = 78;
	f->judged = 0;
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "judged with another model"));
	assert_int_equal(f->judged, 0);
	/* Where there is no row yet, what was judged before does not count. */
	char path[128];
	snprintf(path, sizeof(path), "%s/candidates.csv", f->dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	assert_true(f->judged > 0);
}

static void constraints_are_kept(void **state)
{
	struct fixture *f = *state;
	struct mq_search_outcome out;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_search s = question(f, both, 8);

	f->limits.max_devices = 1;
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	for (uint32_t i = 0; i < out.n_best; i++)
		assert_int_equal(mq_plan_degrees(out.best[i].plan).n_devices, 1);
	assert_true(out.judged + out.cached < out.proposals);
}

static void a_full_disk_is_an_error(void **state)
{
	struct fixture *f = *state;
	struct mq_search_outcome out;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_search s = question(f, both, 8);
	static const char *const names[] = { "candidates.csv", "evaluations.csv" };

	for (int i = 0; i < 2; i++) {
		char path[128];

		snprintf(path, sizeof(path), "%s/%s", f->dir, names[i]);
		assert_int_equal(symlink("/dev/full", path), 0);
		assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_EINPUT);
		assert_non_null(strstr(err.text, "No space left on device"));
		remove_results(f);
	}
}

static void no_feasible_plan_names_the_nearest(void **state)
{
	struct fixture *f = *state;
	struct mq_search_outcome out;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_search s = question(f, both, 8);

	s.dir = NULL;
	f->limits.fix_tp = 7; /* of 4 devices */
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "7 ranks"));
	f->limits.fix_tp = 0;
	f->limits.fix_ep = 7; /* no plan keeps it */
	assert_int_equal(mq_search_run(&s, &f->arena, &out, &err), MQ_OK);
	assert_int_equal(out.n_best, 0);
	assert_int_equal(out.judged, 0);
	assert_false(out.have_nearest);
}

/* Prices that turn the order round: rank 0 is fastest and dear, rank 2 slow and cheap; power the same for all.
 * The judge says 1 + sum / 3 seconds and 2 GB for each. */
static void price(struct fixture *f)
{
	static const double usd_per_h[] = { 3600, 1800, 36, 1 };

	for (uint32_t d = 0; d < 4; d++) {
		f->cluster->device[d].price_per_h = usd_per_h[d];
		f->cluster->device[d].power_W = 3.6e6;
	}
}

static void run_all(struct fixture *f, const char *objective, struct mq_search_outcome *outcome)
{
	struct mq_search s = question(f, both, 8);
	struct mq_err err = MQ_ERR_INIT;

	s.objective = objective;
	s.evals = 400; /* of 4^4 placements: sees them all, or nearly */
	s.top = 200;
	s.dir = NULL;
	if (mq_search_run(&s, &f->arena, outcome, &err) != MQ_OK)
		fail_msg("%s", err.text);
}

/* The order of all plans found is that of the objective, worked out anew for each. */
static void objectives_rank_plans(void **state)
{
	struct fixture *f = *state;
	struct mq_search_outcome o;

	price(f);
	run_all(f, "cost", &o);
	assert_true(o.n_best > 5);
	for (uint32_t i = 0; i < o.n_best; i++) {
		double usd = mq_step_usd(f->cluster, o.best[i].plan, o.best[i].result.step_time_s);

		/* one row for plans the same in effect */
		for (uint32_t k = 0; k < i; k++)
			assert_false(o.best[k].objective == o.best[i].objective &&
				     o.best[k].result.step_time_s == o.best[i].result.step_time_s &&
				     mq_plan_degrees(o.best[k].plan).n_devices ==
					     mq_plan_degrees(o.best[i].plan).n_devices);
		assert_true(o.best[i].objective == usd);
		assert_true(i == 0 || usd >= o.best[i - 1].objective);
	}
	/* All on rank 2: 1 + 4 * 2 / 3 seconds at one cent each. */
	assert_true(fabs(o.best[0].objective - 0.01 * (1 + 8 / 3.0)) < 1e-9);
	run_all(f, "energy", &o);
	assert_true(fabs(o.best[0].objective - 1) < 1e-9); /* one device for one second: 1 kWh */
	assert_true(o.best[0].result.step_time_s == 1);
	run_all(f, "step-time", &o);
	assert_true(o.best[0].result.step_time_s == 1);
}

/* Time under a budget of cost, and cost under one of time; a budget that nobody keeps says by how much. */
static void budgets_are_kept(void **state)
{
	struct fixture *f = *state;
	struct mq_search_outcome o;
	struct mq_search s = question(f, both, 8);
	struct mq_err err = MQ_ERR_INIT;

	price(f);
	f->limits.max_usd = 1.2; /* rank 0 alone costs $1: the fastest within it is that */
	run_all(f, "step-time", &o);
	for (uint32_t i = 0; i < o.n_best; i++)
		assert_true(mq_step_usd(f->cluster, o.best[i].plan, o.best[i].result.step_time_s) <= 1.2);
	assert_true(o.best[0].result.step_time_s == 1);
	f->limits.max_usd = 0.9; /* rank 1 costs $1.17 alone and more with rank 2: all on rank 2 is left */
	run_all(f, "step-time", &o);
	assert_int_equal(o.n_best, 1);
	assert_true(fabs(o.best[0].result.step_time_s - (1 + 8 / 3.0)) < 1e-8);
	f->limits.max_usd = 0;
	f->limits.max_step_s = 1.5;
	s.objective = "cost";
	s.evals = 400;
	s.dir = NULL;
	assert_int_equal(mq_search_run(&s, &f->arena, &o, &err), MQ_OK);
	assert_true(o.n_best > 0 && o.best[0].result.step_time_s <= 1.5);
	f->limits.max_step_s = 0;
	f->limits.max_memory_B = 1.5e9;
	assert_int_equal(mq_search_run(&s, &f->arena, &o, &err), MQ_OK);
	assert_int_equal(o.n_best, 0);
	assert_true(o.have_refused);
	assert_int_equal(o.refused.result.verdict, MQ_VERDICT_REFUSED);
	assert_string_equal(o.refused.result.message, "a device holds 2 GB, --max memory allows 1.5");
	f->limits.max_memory_B = 0;
	f->limits.max_usd = 1;
	for (uint32_t d = 0; d < 4; d++) /* a price that is not known keeps no budget */
		f->cluster->device[d].price_per_h = (double)NAN;
	assert_int_equal(mq_search_run(&s, &f->arena, &o, &err), MQ_OK);
	assert_int_equal(o.n_best, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rows_do_not_depend_on_chunks, setup, teardown),
		cmocka_unit_test_setup_teardown(a_part_stands_for_the_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(best_are_sorted_and_distinct, setup, teardown),
		cmocka_unit_test_setup_teardown(near_equal_plans_are_one_row, setup, teardown),
		cmocka_unit_test_setup_teardown(near_equal_plans_do_not_crowd_out_others, setup, teardown),
		cmocka_unit_test_setup_teardown(of_equal_plans_the_tight_come_last, setup, teardown),
		cmocka_unit_test_setup_teardown(says_why_a_plan_is_not_the_first, setup, teardown),
		cmocka_unit_test_setup_teardown(a_killed_run_resumes, setup, teardown),
		cmocka_unit_test_setup_teardown(a_crash_is_no_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(edited_rows_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(another_question_is_not_mixed_in, setup, teardown),
		cmocka_unit_test_setup_teardown(constraints_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_disk_is_an_error, setup, teardown),
		cmocka_unit_test_setup_teardown(no_feasible_plan_names_the_nearest, setup, teardown),
		cmocka_unit_test_setup_teardown(objectives_rank_plans, setup, teardown),
		cmocka_unit_test_setup_teardown(budgets_are_kept, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
