/*
 * test_learned.c - the engines that learn reach the optimum of the space they can express, where that space is
 * small enough to enumerate: in at least 9 of 10 seeds within 2,000 evaluations.
 *
 * Judged by the analytic executor; enumerated here, without any engine.
 *
 * link: igraph openblas jansson -lmetis
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "maquette/loader.h"
#include "search/search.h"
#include "costing/costing.h"
#include "executors/execute.h"
#include "judge/judge.h"
#include "tag/space.h"
#include "../unit/libraries.h"

enum { EVALS = 2000, SEEDS = 10, OPS = 8, DEVICES = 3 };

struct question {
	struct mq_arena arena, scratch;
	struct mq_model *model;
	struct mq_cluster *cluster;
	struct mq_calib *calib;
	struct mq_train train;
	struct mq_question asked; /* the above */
	struct mq_limits limits;
	struct mq_costs *costs;
};

/* A search ends after the plans that were judged together with one of this step time; none does below 0. */
static double goal_s = -1;
static bool reached, ends;

static bool at_goal(void)
{
	return ends;
}

static void set_machine(struct question *q, struct mq_cluster *cluster)
{
	struct mq_err err;

	q->cluster = cluster;
	q->calib = bare_calib(&q->arena);
	mq_calib_add_ideal(q->calib, "ideal", 1e13, 1e12, 16e9)->launch_s = 1e-6;
	mq_calib_add_ideal(q->calib, "slow", 3e12, 5e11, 16e9)->launch_s = 1e-6;
	if (mq_calib_bind(q->calib, q->cluster, &err) != MQ_OK)
		fail_msg("%s", err.text);
	q->limits.fix_pipeline = q->limits.fix_recompute = q->limits.fix_sync = -1;
	q->asked =
		(struct mq_question){ .model = q->model, .cluster = q->cluster, .calib = q->calib, .train = &q->train };
	q->costs = mq_costs_new(&q->asked, &q->arena);
}

/* Eight profiled ops, a random graph; three devices between which tensors take as long as ops. */
static void ask_placement(struct question *q, uint64_t seed)
{
	struct mq_model_builder b;
	struct mq_rng rng;
	struct mq_err err;

	mq_rng_seed(&rng, seed);
	q->train = (struct mq_train){ .batch = 1, .dtype = MQ_FP32, .infer = true };
	mq_model_begin(&b, &q->arena, "random");
	for (uint32_t i = 0; i < OPS; i++) {
		char name[8];

		snprintf(name, sizeof(name), "op%u", i);
		uint32_t op = mq_model_add(&b, MQ_OP_PROFILED, name);
		b.model->op[op].output = 1e6;
	}
	for (uint32_t i = 1; i < OPS; i++)
		for (uint32_t k = 0; k < i; k++)
			if (k + 1 == i || mq_rng_below(&rng, 4) == 0)
				mq_model_connect(&b, k + 1 == i && i % 2 ? 0 : k, i, 1e6);
	b.model->profile.n_types = 1;
	b.model->profile.type = mq_arena_array(&q->arena, 1, const char *);
	b.model->profile.type[0] = "ideal";
	b.model->profile.forward_s = mq_arena_array(&q->arena, OPS, double);
	b.model->profile.backward_s = mq_arena_array(&q->arena, OPS, double);
	for (uint32_t i = 0; i < OPS; i++)
		b.model->profile.forward_s[i] = 5e-4 + 2e-3 * mq_rng_unit(&rng);
	if (mq_model_finish(&b, &q->model, &err) != MQ_OK)
		fail_msg("%s", err.text);
	set_machine(q, mq_cluster_flat(&q->arena, DEVICES, "ideal", 1e13, 16e9, 1e10, 1e-6));
}

static void ask_transformer(struct question *q, const char *model, double batch)
{
	struct mq_model_request request = { .spec = model, .train = &q->train, .seq = 32 };
	struct mq_err err;

	q->train = (struct mq_train){ .batch = batch, .dtype = MQ_FP16 };
	if (mq_model_load(&request, &q->arena, &q->model, &err) != MQ_OK)
		fail_msg("%s", err.text);
	set_machine(q, mq_cluster_flat(&q->arena, 4, "ideal", 1e13, 16e9, 1e10, 1e-6));
}

static bool screen(void *context, const struct mq_plan *plan, struct mq_result *result)
{
	struct question *q = context;
	struct mq_err lost;
	const struct mq_judge analytic = { .q = &q->asked, .execute = mq_execute_analytic, .timeout_s = 1e9 };
	bool known = mq_judge_plan(&analytic, plan, &q->scratch, result, &lost) == MQ_OK;

	mq_arena_rewind(&q->scratch, (struct mq_arena_mark){ NULL, 0 });
	return known;
}

static enum mq_status judge(void *context, const struct mq_plan *const *plan, uint32_t n, struct mq_result *result,
			    struct mq_err *err)
{
	(void)err;
	ends = reached;
	for (uint32_t i = 0; i < n; i++)
		if (!screen(context, plan[i], &result[i])) {
			memset(&result[i], 0, sizeof(result[i]));
			result[i].verdict = MQ_VERDICT_REFUSED;
			result[i].step_time_s = (double)NAN;
		} else if (result[i].verdict == MQ_VERDICT_OK && result[i].step_time_s <= goal_s) {
			reached = true;
		}
	return MQ_OK;
}

/* Best step time of one search; NaN where none is feasible. */
static double search(struct question *q, const char *engine, const char *options, uint64_t seed, uint64_t evals)
{
	struct mq_search_engine spec = { .options = options, .label = engine };
	const char *build = getenv("BUILD");
	char dir[4096];
	struct mq_search_outcome out;
	struct mq_err err = MQ_ERR_INIT;

	snprintf(dir, sizeof(dir), "%s/engines", build ? build : "build");
	if (mq_engine_open(dir, engine, &q->arena, &spec.engine, &err) != MQ_OK)
		fail_msg("%s", err.text);
	struct mq_search s = {
		.q = &q->asked,
		.costs = q->costs,
		.limits = &q->limits,
		.objective = "step-time",
		.engine = &spec,
		.n_engines = 1,
		.seed = seed,
		.evals = evals,
		.seconds = (double)INFINITY,
		.top = 1,
		.screen = screen,
		.screen_context = q,
		.stopped = at_goal,
		.evaluator = { q, judge, 8 },
	};
	if (mq_search_run(&s, &q->arena, &out, &err) != MQ_OK)
		fail_msg("%s: %s", engine, err.text);
	return out.n_best ? out.best[0].result.step_time_s : (double)NAN;
}

static double enumerate_placements(struct question *q)
{
	double best = (double)INFINITY;

	for (uint32_t code = 0; code < 6561; code++) { /* 3^8 */
		uint32_t device_of[OPS], c = code;
		struct mq_arena arena = MQ_ARENA_INIT;
		struct mq_plan plan;
		struct mq_result r;

		for (uint32_t op = 0; op < OPS; op++, c /= DEVICES)
			device_of[op] = c % DEVICES;
		mq_plan_from_placement(device_of, q->model, &arena, &plan);
		if (screen(q, &plan, &r) && r.verdict == MQ_VERDICT_OK)
			best = fmin(best, r.step_time_s);
		mq_arena_fini(&arena);
	}
	return best;
}

/* `make` puts the question anew for every seed, so that nothing is carried over. The first seed goes on to the end, so
 * that a plan better than the optimum would be seen; the others end where they reach it. */
static void count_hits(const char *engine, const char *options, double truth, uint64_t evals,
		       void (*make)(struct question *q))
{
	uint32_t hits = 0;
	double worst = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct question q = { .arena = MQ_ARENA_INIT, .scratch = MQ_ARENA_INIT };

		make(&q);
		goal_s = seed > 1 ? truth * (1 + 1e-8) : -1;
		reached = ends = false;
		double found = search(&q, engine, options, seed, evals);

		if (found < truth * (1 - 1e-8))
			fail_msg("%s finds %.9g s, less than the enumerated optimum of %.9g s", engine, found, truth);
		hits += found <= truth * (1 + 1e-8);
		worst = fmax(worst, found / truth);
		mq_arena_fini(&q.arena);
		mq_arena_fini(&q.scratch);
	}
	print_message("         %s %s: optimum in %u of %d seeds, worst %.4f of it\n", engine, options, hits, SEEDS,
		      worst);
	if (hits < 9)
		fail_msg("%s %s: the optimum in %u of %d seeds only", engine, options, hits, SEEDS);
}

static void graph_3(struct question *q)
{
	ask_placement(q, 3);
}

static void graph_7(struct question *q)
{
	ask_placement(q, 7);
}

static void placements(void **state)
{
	static void (*const graph[])(struct question *) = { graph_3, graph_7 };
	/* Cross-entropy alone needs more samples a round than the default to keep from settling too early. */
	const char *engine = *state, *options = strcmp(engine, "cem") ? "" : "samples=64";

	for (size_t g = 0; g < 2; g++) {
		struct question q = { .arena = MQ_ARENA_INIT, .scratch = MQ_ARENA_INIT };

		graph[g](&q);
		double truth = enumerate_placements(&q);
		mq_arena_fini(&q.arena);
		mq_arena_fini(&q.scratch);
		count_hits(engine, options, truth, EVALS, graph[g]);
	}
}

/* ---- split decisions ---------------------------------------------------------------------------------- */

static void splits(struct question *q)
{
	ask_transformer(q, "gpt:layers=1,hidden=256,heads=4,vocab=2048", 4);
}

/* Each weight whole, by columns or by rows is what mode=opp decides. The truth: the best of all labels that agree
 * along the edges, flooded here in a way of their own: features of a tensor are split on both sides or on none. */
enum { OPEN = -1, WHOLE = MQ_N_DIMS };

static bool table_or_product(const struct mq_op *op)
{
	return op->kind == MQ_OP_GEMM || op->kind == MQ_OP_EMBEDDING;
}

static int giving(const struct mq_op *op)
{
	if (op->kind == MQ_OP_LOSS)
		return WHOLE;
	return op->kind != MQ_OP_GEMM && op->splits >> MQ_DIM_HEAD & 1 ? MQ_DIM_HEAD :
	       op->splits >> MQ_DIM_OUT & 1                            ? MQ_DIM_OUT :
									 WHOLE;
}

static int taking(const struct mq_op *op)
{
	if (op->kind == MQ_OP_GEMM)
		return op->splits >> MQ_DIM_IN & 1 ? MQ_DIM_IN : WHOLE;
	return op->kind == MQ_OP_EMBEDDING ? WHOLE : op->kind == MQ_OP_LOSS ? MQ_DIM_OUT : giving(op);
}

/* One end of an edge has its features split: so must the other, where it can. False: it is otherwise. */
static bool follow(int *label, bool split, int answer, bool *changed)
{
	if (!split || answer == WHOLE || *label == answer)
		return true;
	if (*label != OPEN)
		return false;
	*label = answer;
	return *changed = true;
}

static bool flood(const struct mq_model *m, int *label)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (uint32_t e = 0; e < m->n_edges; e++) {
			uint32_t a = m->edge[e].src, b = m->edge[e].dst;
			bool gives = label[a] >= 0 && label[a] < WHOLE && label[a] == giving(&m->op[a]);
			bool takes = label[b] >= 0 && label[b] < WHOLE && label[b] == taking(&m->op[b]);

			if (!follow(&label[b], gives, taking(&m->op[b]), &changed) ||
			    !follow(&label[a], takes, giving(&m->op[a]), &changed))
				return false;
		}
		/* A head that multiplies with the table of the embedding: rows of one are columns of the other. */
		for (uint32_t op = 0; op < m->n_ops; op++) {
			uint32_t table = m->op[op].tied;

			if (table == MQ_NONE)
				continue;
			if (label[op] != OPEN && label[op] < WHOLE &&
			    !follow(&label[table], true, label[op] == MQ_DIM_OUT ? MQ_DIM_IN : MQ_DIM_OUT, &changed))
				return false;
			if (label[table] != OPEN && label[table] < WHOLE &&
			    !follow(&label[op], true, label[table] == MQ_DIM_OUT ? MQ_DIM_IN : MQ_DIM_OUT, &changed))
				return false;
		}
	}
	return true;
}

/* The step time with these labels; infinite where the plan does not run. */
static double time_of_labels(struct question *q, const int *label)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_plan plan;
	struct mq_result r;
	struct mq_err err;
	double time_s = (double)INFINITY;

	mq_plan_init(&plan, &arena, q->model->n_ops);
	for (int dim = 0; dim <= MQ_N_DIMS; dim++) {
		uint32_t c = mq_plan_add_config(&plan, &arena, 4);

		for (uint32_t d = 0; d < 4; d++)
			plan.config[c].device[d] = d;
		if (dim < MQ_N_DIMS)
			plan.config[c].split[dim] = 4;
	}
	for (uint32_t op = 0; op < q->model->n_ops; op++)
		plan.config_of[op] = label[op] == OPEN ? (uint32_t)WHOLE : (uint32_t)label[op];
	if (mq_plan_check(&plan, q->model, q->cluster, &q->train, &err) == MQ_OK && screen(q, &plan, &r) &&
	    r.verdict == MQ_VERDICT_OK)
		time_s = r.step_time_s;
	mq_arena_fini(&arena);
	return time_s;
}

static double enumerate_splits(struct question *q)
{
	static const int choice[] = { WHOLE, MQ_DIM_OUT, MQ_DIM_IN };
	const struct mq_model *m = q->model;
	int *label = mq_arena_array(&q->arena, m->n_ops, int);
	uint32_t codes = 1, agreed = 0;
	double best = (double)INFINITY;

	for (uint32_t op = 0; op < m->n_ops; op++)
		codes *= table_or_product(&m->op[op]) ? 3 : 1;
	for (uint32_t code = 0; code < codes; code++) {
		uint32_t c = code;
		bool may = true;

		for (uint32_t op = 0; op < m->n_ops; op++) {
			label[op] = OPEN;
			if (!table_or_product(&m->op[op]))
				continue;
			label[op] = choice[c % 3];
			may = may && (label[op] == WHOLE || m->op[op].splits >> label[op] & 1);
			c /= 3;
		}
		if (!may || !flood(m, label))
			continue;
		agreed++;
		best = fmin(best, time_of_labels(q, label));
	}
	print_message("         %u of %u labels of weights agree\n", agreed, codes);
	assert_in_range(agreed, 8, codes / 4);
	return best;
}

static void automap_splits(void **state)
{
	struct question q = { .arena = MQ_ARENA_INIT, .scratch = MQ_ARENA_INIT };

	(void)state;
	splits(&q);
	double truth = enumerate_splits(&q);
	mq_arena_fini(&q.arena);
	mq_arena_fini(&q.scratch);
	count_hits("automap", "mode=opp,tie=false", truth, EVALS / 10, splits); /* 2,000 would take a minute */
}

/* Dimensions of data parallelism: batch against sequence, micro-batches, recomputation. */
static double enumerate_dimensions(struct question *q)
{
	double best = (double)INFINITY;

	for (uint32_t i = 0; i < 3 * 4 * MQ_N_RECOMPUTES; i++) {
		struct mq_shape shape = { .dp = 4 >> i % 3,
					  .cp = 1u << i % 3,
					  .tp = 1,
					  .pp = 1,
					  .micro_batches = 1u << i / 3 % 4,
					  .pipeline = MQ_PIPE_1F1B,
					  .recompute = (uint8_t)(i / 12),
					  .vocab_parallel = true };
		struct mq_arena arena = MQ_ARENA_INIT;
		struct mq_plan plan;
		struct mq_result r;
		struct mq_err err;

		if (mq_plan_from_shape(&shape, q->model, q->cluster, &arena, &plan, &err) == MQ_OK &&
		    mq_plan_check(&plan, q->model, q->cluster, &q->train, &err) == MQ_OK && screen(q, &plan, &r) &&
		    r.verdict == MQ_VERDICT_OK)
			best = fmin(best, r.step_time_s);
		mq_arena_fini(&arena);
	}
	return best;
}

/* Two samples for four devices: the batch alone cannot keep them busy. */
static void few_samples(struct question *q)
{
	splits(q);
	q->train.batch = 2;
}

static void automap_dimensions(void **state)
{
	struct question q = { .arena = MQ_ARENA_INIT, .scratch = MQ_ARENA_INIT };

	(void)state;
	few_samples(&q);
	double truth = enumerate_dimensions(&q);
	assert_true(isfinite(truth));
	mq_arena_fini(&q.arena);
	mq_arena_fini(&q.scratch);
	count_hits("automap", "mode=adp", truth, EVALS / 20, few_samples);
}

/* ---- sets of unequal devices -------------------------------------------------------------------------- */

static void unequal(struct question *q)
{
	struct mq_model_request request = { .spec = "gpt:layers=2,hidden=512,heads=4,vocab=4096",
					    .train = &q->train,
					    .seq = 64 };
	struct mq_err err;

	q->train = (struct mq_train){ .batch = 16, .dtype = MQ_FP16 };
	if (mq_model_load(&request, &q->arena, &q->model, &err) != MQ_OK)
		fail_msg("%s", err.text);
	struct mq_cluster *c = mq_cluster_flat(&q->arena, 4, "ideal", 1e13, 16e9, 1e10, 1e-6);
	c->device[2].type = c->device[3].type = "slow";
	set_machine(q, c);
}

static bool go_on(void *context, double done, const char *what)
{
	(void)context, (void)done, (void)what;
	return true;
}

static struct mq_tag_space make_space(struct question *q, struct mq_problem *p, struct mq_rng *rng, uint32_t groups)
{
	struct mq_tag_options options = { .groups = groups };
	struct mq_tag_space space;
	struct mq_err err;

	mq_rng_seed(rng, 1);
	*p = (struct mq_problem){
		.q = &q->asked, .costs = q->costs, .limits = &q->limits, .rng = rng, .arena = &q->arena, .tick = go_on
	};
	if (mq_tag_space_make(p, &options, &space, &err) != MQ_OK)
		fail_msg("%s", err.text);
	return space;
}

/* All actions of all groups; the plans are tag's own, the search is not. */
static double enumerate_sets(struct question *q, uint32_t groups)
{
	struct mq_rng rng;
	struct mq_problem p;
	struct mq_err err;
	double best = (double)INFINITY;
	uint64_t all = 1;
	uint32_t action[8];
	struct mq_tag_space space = make_space(q, &p, &rng, groups);

	assert_int_equal(space.n_devices, 2);
	assert_in_range(space.n, 2, groups);
	for (uint32_t g = 0; g < space.n; g++)
		all *= space.n_actions;
	for (uint64_t code = 0; code < all; code++) {
		struct mq_arena arena = MQ_ARENA_INIT;
		struct mq_plan plan;
		struct mq_result r;
		uint64_t c = code;

		for (uint32_t g = 0; g < space.n; g++, c /= space.n_actions)
			action[g] = (uint32_t)(c % space.n_actions);
		if (mq_tag_plan(&space, action, &p, &arena, &plan, &err) == MQ_OK && screen(q, &plan, &r) &&
		    r.verdict == MQ_VERDICT_OK)
			best = fmin(best, r.step_time_s);
		mq_arena_fini(&arena);
	}
	return best;
}

/* Op groups on other devices gather other factors: those of their own set. */
static void tag_gathers_by_group(void **state)
{
	struct question q = { .arena = MQ_ARENA_INIT, .scratch = MQ_ARENA_INIT };
	struct mq_problem p;
	struct mq_plan plan;
	struct mq_rng rng;
	struct mq_err err;
	uint32_t other = 1, seen[2] = { 0 };

	(void)state;
	unequal(&q);
	struct mq_tag_space space = make_space(&q, &p, &rng, 4);
	uint32_t *action = mq_arena_array(&q.arena, space.n, uint32_t);

	while (space.action[other].how != MQ_TAG_ALL_REDUCE)
		other++;
	space.duplicate = mq_arena_array(&q.arena, space.n_actions, bool *);
	space.duplicate[other] = mq_arena_array(&q.arena, q.model->n_ops, bool);
	memset(space.duplicate[other], true, q.model->n_ops * sizeof(bool));
	for (uint32_t g = 0; g < space.n; g++)
		action[g] = g % 2 ? other : 0;
	assert_int_equal(mq_tag_plan(&space, action, &p, &q.arena, &plan, &err), MQ_OK);
	for (uint32_t op = 0; op < q.model->n_ops; op++) {
		bool gathers = plan.config[plan.config_of[op]].sync == MQ_SYNC_DUPLICATE;
		uint32_t g = space.coarse.group_of[space.coarse.tasks.space.group_of[op]];

		assert_int_equal(gathers, g % 2);
		seen[gathers]++;
	}
	assert_true(seen[0] > 0 && seen[1] > 0);
	mq_arena_fini(&q.arena);
	mq_arena_fini(&q.scratch);
}

static void tag_sets(void **state)
{
	struct question q = { .arena = MQ_ARENA_INIT, .scratch = MQ_ARENA_INIT };

	(void)state;
	unequal(&q);
	double truth = enumerate_sets(&q, 4);
	mq_arena_fini(&q.arena);
	mq_arena_fini(&q.scratch);
	count_hits("tag", "groups=4,sfb=false,gnn=false", truth, EVALS, unequal);
	count_hits("tag", "groups=4,sfb=false", truth, EVALS, unequal);
}

int main(void)
{
	static const char *const engines[] = { "post", "cem", "ppo", "reinforce", "hsdag" };
	struct CMUnitTest tests[10] = { cmocka_unit_test(automap_splits), cmocka_unit_test(automap_dimensions),
					cmocka_unit_test(tag_sets), cmocka_unit_test(tag_gathers_by_group) };
	size_t n = 4;

	for (size_t i = 0; i < sizeof(engines) / sizeof(*engines); i++) {
		char *name = strdup(engines[i]);

		tests[n++] = (struct CMUnitTest){ .name = name, .test_func = placements, .initial_state = name };
	}
	return _cmocka_run_group_tests("learned", tests, n, NULL, NULL);
}
