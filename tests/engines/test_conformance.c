/*
 * test_conformance.c - what every engine in BUILD/engines must keep: it loads, refuses bad options, repeats
 * itself for the same seed, stays in its budget, proposes plans that are valid, never crashes on questions
 * that are not its own, and reports lower bounds if it says that it proves. Plans are judged by the analytic executor,
 * without SimGrid.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "maquette/loader.h"
#include "search/search.h"
#include "costing/costing.h"
#include "executors/execute.h"
#include "judge/judge.h"
#include "../unit/libraries.h"

enum { EVALS = 24 };

struct question {
	struct mq_arena arena;
	struct mq_model *model;
	struct mq_cluster *cluster;
	struct mq_calib *calib;
	struct mq_train train;
	struct mq_question asked; /* the above */
	struct mq_limits limits;
	struct mq_costs *costs;
	uint32_t invalid; /* plans that mq_plan_check refused */
	char why[600];
};

static const char *engines_dir(void)
{
	static char dir[4096];
	const char *build = getenv("BUILD");

	snprintf(dir, sizeof(dir), "%s/engines", build ? build : "build");
	return dir;
}

static void set_machine(struct question *q, uint32_t devices)
{
	struct mq_err err;
	struct mq_device_calib *d;

	q->cluster = mq_cluster_flat(&q->arena, devices, "ideal", 1e13, 16e9, 1e10, 1e-6);
	q->calib = bare_calib(&q->arena);
	d = mq_calib_add_ideal(q->calib, "ideal", 1e13, 1e12, 16e9);
	d->launch_s = 1e-6;
	if (mq_calib_bind(q->calib, q->cluster, &err) != MQ_OK)
		fail_msg("%s", err.text);
	q->limits.fix_pipeline = q->limits.fix_recompute = q->limits.fix_sync = -1;
	q->asked =
		(struct mq_question){ .model = q->model, .cluster = q->cluster, .calib = q->calib, .train = &q->train };
	q->costs = mq_costs_new(&q->asked, &q->arena);
}

/* A transformer of two layers. */
static void ask_transformer(struct question *q, uint32_t devices, double batch)
{
	struct mq_model_request request = { .spec = "gpt:layers=2,hidden=64,heads=4,vocab=512",
					    .train = &q->train,
					    .seq = 32 };
	struct mq_err err;

	q->train = (struct mq_train){ .batch = batch, .dtype = MQ_FP16 };
	if (mq_model_load(&request, &q->arena, &q->model, &err) != MQ_OK)
		fail_msg("%s", err.text);
	set_machine(q, devices);
}

/* Five profiled ops in a diamond with a tail; two devices. */
static void ask_placement(struct question *q)
{
	static const double time_s[5] = { 1e-3, 3e-3, 2.385e-3, 1.5e-3, 0.5e-3 };
	static const uint32_t edge[][2] = { { 0, 1 }, { 0, 2 }, { 1, 3 }, { 2, 3 }, { 3, 4 } };
	struct mq_model_builder b;
	struct mq_err err;

	q->train = (struct mq_train){ .batch = 1, .dtype = MQ_FP32, .infer = true };
	mq_model_begin(&b, &q->arena, "diamond");
	for (uint32_t i = 0; i < 5; i++) {
		char name[8];

		snprintf(name, sizeof(name), "op%u", i);
		uint32_t op = mq_model_add(&b, MQ_OP_PROFILED, name);
		b.model->op[op].output = 1000;
	}
	for (uint32_t i = 0; i < 5; i++)
		mq_model_connect(&b, edge[i][0], edge[i][1], 1000);
	b.model->profile.n_types = 1;
	b.model->profile.type = mq_arena_array(&q->arena, 1, const char *);
	b.model->profile.type[0] = "ideal";
	b.model->profile.forward_s = mq_arena_array(&q->arena, 5, double);
	b.model->profile.backward_s = mq_arena_array(&q->arena, 5, double);
	memcpy(b.model->profile.forward_s, time_s, sizeof(time_s));
	if (mq_model_finish(&b, &q->model, &err) != MQ_OK)
		fail_msg("%s", err.text);
	set_machine(q, 2);
}

/* The analytic executor, as engines see it. */
static bool screen(void *context, const struct mq_plan *plan, struct mq_result *result)
{
	struct question *q = context;
	struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_err lost;
	const struct mq_judge analytic = { .q = &q->asked, .execute = mq_execute_analytic, .timeout_s = 1e9 };
	bool known = mq_judge_plan(&analytic, plan, &scratch, result, &lost) == MQ_OK;

	mq_arena_fini(&scratch);
	return known;
}

static enum mq_status judge(void *context, const struct mq_plan *const *plan, uint32_t n, struct mq_result *result,
			    struct mq_err *err)
{
	struct question *q = context;

	for (uint32_t i = 0; i < n; i++) {
		struct mq_err why = MQ_ERR_INIT;

		memset(&result[i], 0, sizeof(result[i]));
		if (mq_plan_check(plan[i], q->model, q->cluster, &q->train, &why) != MQ_OK) {
			q->invalid++;
			snprintf(q->why, sizeof(q->why), "%s", why.text);
			result[i].verdict = MQ_VERDICT_INVALID;
			result[i].step_time_s = (double)NAN;
		} else if (!screen(q, plan[i], &result[i])) {
			result[i].verdict = MQ_VERDICT_REFUSED;
			result[i].step_time_s = (double)NAN;
		}
	}
	return MQ_OK;
}

static bool prove; /* ask for lower bounds; who proves has a budget that lets exhaustive end */

/* Runs one engine; false where it refuses the question, with its reason in `why`. */
static bool play(struct question *q, const char *name, const char *options, uint32_t chunk,
		 struct mq_search_outcome *out, struct mq_err *why)
{
	/* its network of usual width would take half the time of this program */
	bool small = !strcmp(name, "automap") && !*options;
	struct mq_search_engine spec = { .options = small ? "width=16" : options, .label = name };

	if (mq_engine_open(engines_dir(), name, &q->arena, &spec.engine, why) != MQ_OK)
		return false;
	struct mq_search s = {
		.q = &q->asked,
		.costs = q->costs,
		.limits = &q->limits,
		.objective = "step-time",
		.engine = &spec,
		.n_engines = 1,
		.seed = 3,
		.evals = prove && spec.engine->proves ? 4 * EVALS : EVALS,
		.seconds = (double)INFINITY,
		.top = EVALS,
		.screen = screen,
		.screen_context = q,
		.evaluator = { q, judge, chunk },
		.proof = prove,
	};
	return mq_search_run(&s, &q->arena, out, why) == MQ_OK;
}

/* ---- the rules ---------------------------------------------------------------------------------- */

static void it_loads(const char *name)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	const struct mq_engine *e;
	struct mq_err err = MQ_ERR_INIT;
	enum mq_status status = mq_engine_open(engines_dir(), name, &arena, &e, &err);

	if (status != MQ_OK)
		fail_msg("%s: %s", name, err.text);
	if (strlen(e->summary) > 100 || strchr(e->summary, '\n'))
		fail_msg("%s: the summary is not one line of at most 100 characters", name);
	for (const struct mq_opt *o = e->opts; o && o->type != MQ_OPT_END; o++)
		if (!o->help || !*o->help)
			fail_msg("%s: option %s has no help", name, o->name);
	mq_arena_fini(&arena);
}

static void it_refuses_bad_options(const char *name)
{
	struct question q = { .arena = MQ_ARENA_INIT };
	struct mq_search_outcome out;
	struct mq_err why = MQ_ERR_INIT;

	ask_transformer(&q, 2, 8);
	if (play(&q, name, "no_such_option=1", 1, &out, &why) || why.status != MQ_EINPUT)
		fail_msg("%s accepts no_such_option=1", name);
	mq_arena_fini(&q.arena);
}

static uint64_t trace_of(const struct mq_search_outcome *out)
{
	uint64_t hash = MQ_HASH_INIT;

	for (uint32_t i = 0; i < out->n_best; i++) {
		hash = mq_hash(hash, &out->best[i].hash, sizeof(out->best[i].hash));
		hash = mq_hash(hash, &out->best[i].result.step_time_s, sizeof(double));
	}
	return mq_hash(hash, &out->proposals, sizeof(out->proposals));
}

static void it_repeats_and_keeps_its_budget(const char *name, bool placement)
{
	uint64_t trace[2] = { 0, 0 };

	for (int i = 0; i < 2; i++) {
		struct question q = { .arena = MQ_ARENA_INIT };
		struct mq_search_outcome out;
		struct mq_err why = MQ_ERR_INIT;

		if (placement)
			ask_placement(&q);
		else
			ask_transformer(&q, 4, 16);
		if (play(&q, name, "", i ? 64 : 1, &out, &why)) {
			if (out.proposals > EVALS)
				fail_msg("%s: %llu proposals, the budget was %d", name,
					 (unsigned long long)out.proposals, EVALS);
			if (q.invalid)
				fail_msg("%s proposes invalid plans: %s", name, q.why);
			if (out.report[0].stopped[0] && out.proposals)
				fail_msg("%s stopped: %s", name, out.report[0].stopped);
			trace[i] = trace_of(&out);
		} else {
			if (!why.text[0])
				fail_msg("%s refuses without a reason", name);
			if (!i)
				printf("         %s refuses the %s: %s\n", name,
				       placement ? "profiled graph" : "transformer", why.text);
		}
		mq_arena_fini(&q.arena);
	}
	if (trace[0] != trace[1])
		fail_msg("%s: two runs with the same seed differ", name);
}

/* The ground truth of the tiny cases, by an engine-free enumeration of all placements. */
static double brute_force(void)
{
	struct question q = { .arena = MQ_ARENA_INIT };
	double best = (double)INFINITY;

	ask_placement(&q);
	for (uint32_t code = 0; code < 32; code++) {
		uint32_t device_of[5];
		struct mq_plan plan;
		struct mq_result result;

		for (uint32_t op = 0; op < 5; op++)
			device_of[op] = code >> op & 1;
		mq_plan_from_placement(device_of, q.model, &q.arena, &plan);
		if (screen(&q, &plan, &result) && result.verdict == MQ_VERDICT_OK)
			best = fmin(best, result.step_time_s);
	}
	mq_arena_fini(&q.arena);
	return best;
}

/* An engine that says it proves shows a bound on one of the two questions, none above its own best;
 * the others show none. */
static void it_proves_what_it_says(const char *name)
{
	uint32_t shown = 0;
	bool proves = false;

	prove = true;
	for (int i = 0; i < 2; i++) {
		struct question q = { .arena = MQ_ARENA_INIT };
		struct mq_search_outcome out;
		struct mq_err why = MQ_ERR_INIT;
		const struct mq_engine *e;

		assert_int_equal(mq_engine_open(engines_dir(), name, &q.arena, &e, &why), MQ_OK);
		proves = e->proves;
		if (i)
			ask_placement(&q);
		else
			ask_transformer(&q, 4, 16);
		bool answered = play(&q, name, "", 1, &out, &why);
		for (uint32_t k = 0; answered && k < out.report[0].n_bounds; k++) {
			const struct mq_bound *b = &out.report[0].bound[k];

			if (!isfinite(b->bound) || b->bound > b->best * (1 + 1e-9))
				fail_msg("%s: bound %.9g above its best %.9g (%s)", name, b->bound, b->best, b->scope);
			shown++;
		}
		mq_arena_fini(&q.arena);
	}
	prove = false;
	if (proves != (shown > 0))
		fail_msg("%s %s, and shows %u bounds", name, proves ? "proves" : "does not prove", shown);
}

/* ---- --fix and --max ---------------------------------------------------------------------------- */

struct limit_case {
	const char *text;
	struct mq_limits limits;
	uint32_t lacks; /* engines that lack this must refuse */
};

#define FREE .fix_pipeline = -1, .fix_recompute = -1, .fix_sync = -1
static const struct limit_case limit_case[] = {
	{ "max devices=2", { FREE, .max_devices = 2 }, 0 },
	{ "max dp=2", { FREE, .max_dp = 2 }, 0 },
	{ "max tp=1", { FREE, .max_tp = 1 }, 0 },
	{ "max pp=1", { FREE, .max_pp = 1 }, 0 },
	{ "fix dp=2", { FREE, .fix_dp = 2 }, MQ_LACKS_DP },
	{ "fix tp=2", { FREE, .fix_tp = 2 }, MQ_LACKS_TP },
	{ "fix pp=2", { FREE, .fix_pp = 2 }, MQ_LACKS_PP },
	{ "fix mbs=2", { FREE, .fix_mbs = 2 }, 0 },
	{ "fix schedule=gpipe", { .fix_recompute = -1, .fix_sync = -1, .fix_pipeline = MQ_PIPE_GPIPE }, 0 },
	{ "fix recompute=full", { .fix_pipeline = -1, .fix_sync = -1, .fix_recompute = MQ_RECOMPUTE_FULL }, 0 },
	{ "fix sync=zero1", { .fix_pipeline = -1, .fix_recompute = -1, .fix_sync = MQ_SYNC_ZERO1 }, 0 },
};

/* Does a plan keep the limits? Worked out from its configs alone, stage by stage. */
static bool keeps(const struct mq_limits *l, const struct mq_plan *plan, double batch)
{
	uint32_t dp[16] = { 0 }, tp[16] = { 0 }, stages = 0, devices = 0;
	bool used[64] = { false };

	for (uint32_t op = 0; op < plan->n_ops; op++) {
		const struct mq_config *c = &plan->config[plan->config_of[op]];
		uint32_t d = c->split[MQ_DIM_BATCH] * c->split[MQ_DIM_EXPERT];
		uint32_t t = c->split[MQ_DIM_HEAD] * c->split[MQ_DIM_OUT] * c->split[MQ_DIM_IN];

		assert_true(c->stage < 16);
		dp[c->stage] = d > dp[c->stage] ? d : dp[c->stage];
		tp[c->stage] = t > tp[c->stage] ? t : tp[c->stage];
		stages = c->stage + 1 > stages ? c->stage + 1 : stages;
		for (uint32_t i = 0; i < c->n_devices; i++) {
			devices += !used[c->device[i]];
			used[c->device[i]] = true;
		}
		if ((l->fix_recompute >= 0 && c->recompute != l->fix_recompute) ||
		    (l->fix_sync >= 0 && c->sync != l->fix_sync))
			return false;
	}
	for (uint32_t s = 0; s < stages; s++)
		if ((l->fix_dp && dp[s] != l->fix_dp) || (l->max_dp && dp[s] > l->max_dp) ||
		    (l->fix_tp && tp[s] != l->fix_tp) || (l->max_tp && tp[s] > l->max_tp) ||
		    (l->fix_mbs && batch / plan->micro_batches / dp[s] != l->fix_mbs))
			return false;
	return (!l->fix_pp || stages / plan->virtual == l->fix_pp) &&
	       (!l->max_pp || stages / plan->virtual <= l->max_pp) && (!l->max_devices || devices <= l->max_devices) &&
	       (l->fix_pipeline < 0 || plan->pipeline == l->fix_pipeline);
}

/* An engine obeys each constraint, or refuses it in words; no plan that breaks one is among its best. */
static void it_keeps_limits(const char *name)
{
	for (size_t i = 0; i < sizeof(limit_case) / sizeof(*limit_case); i++) {
		const struct limit_case *c = &limit_case[i];
		struct question q = { .arena = MQ_ARENA_INIT };
		struct mq_search_outcome out;
		struct mq_err why = MQ_ERR_INIT;
		const struct mq_engine *e;

		assert_int_equal(mq_engine_open(engines_dir(), name, &q.arena, &e, &why), MQ_OK);
		ask_transformer(&q, 4, 16);
		q.limits = c->limits;
		if (!play(&q, name, "", 8, &out, &why)) {
			if (!c->lacks || !strstr(why.text, "leaves none"))
				fail_msg("%s refuses --%s: %s", name, c->text, why.text);
		} else if (!out.n_best && !(c->lacks && !strcmp(name, "tag"))) {
			/* tag takes whole groups of equal devices: here all four or none */
			fail_msg("%s finds no plan with --%s", name, c->text);
		}
		for (uint32_t k = 0; !why.text[0] && k < out.n_best; k++)
			if (!keeps(&c->limits, out.best[k].plan, q.train.batch))
				fail_msg("%s: a plan breaks --%s", name, c->text);
		mq_arena_fini(&q.arena);
	}
}

/* ---- memory --------------------------------------------------------------------------------------- */

/* The transformer on four devices that together hold its states, but only a part of the activations of
 * the whole batch: placements of whole ops fit in several micro-batches alone. */
static void ask_tight(struct question *q)
{
	static const uint32_t whole[MQ_N_DIMS] = { 1, 1, 1, 1, 1, 1, 1 };
	struct mq_op_memory memory;
	double all = 0;

	ask_transformer(q, 4, 256);
	for (uint32_t op = 0; op < q->model->n_ops; op++) {
		q->costs->op_memory(q->costs->context, op, whole, q->train.batch, MQ_SYNC_ALLREDUCE, 1,
				    MQ_RECOMPUTE_NONE, &memory);
		all += mq_op_static_B(&memory) + memory.kept_B;
	}
	for (uint32_t d = 0; d < 4; d++)
		q->cluster->device[d].memory_B = all / 6;
}

static void placement_engines_fit_tight_memory(void **state)
{
	static const char *const name[] = { "heft", "m-topo", "m-etf", "m-sct", "metis", "local-search", "ip", "mcmc" };

	for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++) {
		struct question q = { .arena = MQ_ARENA_INIT };
		struct mq_search_outcome out;
		struct mq_err why = MQ_ERR_INIT;

		ask_tight(&q);
		if (!play(&q, name[i], "", 4, &out, &why))
			fail_msg("%s refuses: %s", name[i], why.text);
		if (!out.n_best)
			fail_msg("%s finds no plan that fits: %s", name[i], out.report[0].stopped);
		assert_true(out.best[0].plan->micro_batches > 1);
		for (uint32_t d = 0; d < 4; d++) /* nor do the states fit now */
			q.cluster->device[d].memory_B /= 20;
		if (play(&q, name[i], "", 4, &out, &why) && out.n_best)
			fail_msg("%s finds a plan where none can fit", name[i]);
		mq_arena_fini(&q.arena);
	}
}

/* ---- over all engines --------------------------------------------------------------------------- */

static void conforms(void **state)
{
	const char *name = *state;

	it_loads(name);
	it_refuses_bad_options(name);
	it_repeats_and_keeps_its_budget(name, false);
	it_repeats_and_keeps_its_budget(name, true);
	it_proves_what_it_says(name);
	it_keeps_limits(name);
}

/* One engine, until it has nothing more to propose. */
static struct mq_search whole_search(struct question *q, struct mq_search_engine *spec)
{
	return (struct mq_search){
		.q = &q->asked,
		.costs = q->costs,
		.limits = &q->limits,
		.objective = "step-time",
		.engine = spec,
		.n_engines = 1,
		.seed = 3,
		.evals = UINT64_MAX,
		.seconds = (double)INFINITY,
		.top = 1,
		.screen = screen,
		.screen_context = q,
		.evaluator = { q, judge, 8 },
	};
}

/* `exhaustive` with room for all 32 placements finds what the brute force finds. */
static void exhaustive_is_the_ground_truth(void **state)
{
	struct question q = { .arena = MQ_ARENA_INIT };
	struct mq_search_engine spec = { .options = "space=placement", .label = "exhaustive" };
	struct mq_search_outcome out;
	struct mq_err err = MQ_ERR_INIT;

	ask_placement(&q);
	if (mq_engine_open(engines_dir(), "exhaustive", &q.arena, &spec.engine, &err) != MQ_OK)
		fail_msg("%s", err.text);
	struct mq_search s = whole_search(&q, &spec);
	if (mq_search_run(&s, &q.arena, &out, &err) != MQ_OK)
		fail_msg("%s", err.text);
	assert_int_equal(out.proposals, 32);
	assert_true(out.report[0].finished);
	assert_true(fabs(out.best[0].result.step_time_s / brute_force() - 1) < 1e-9);
	/* Beyond its limit it refuses and says by how much. */
	spec.options = "space=placement,limit=31";
	assert_int_equal(mq_search_run(&s, &q.arena, &out, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "32 plans exceed limit=31"));
	mq_arena_fini(&q.arena);
}

/* All data x tensor x pipeline plans of the tiny transformer on `devices` of the four, by loops of its own. */
static double brute_force_shapes(struct question *q, uint32_t devices)
{
	double best = (double)INFINITY;

	for (uint32_t code = 0; code < 3 * 3 * 5 * 2 * 2 * 3 * 2 * 2; code++) {
		uint32_t c = code, tp = 1u << c % 3, pp = 1u << (c /= 3) % 3, m = 1u << (c /= 3) % 5;
		struct mq_shape shape = { .tp = tp, .pp = pp, .micro_batches = m };
		uint32_t device[4];
		struct mq_plan plan;
		struct mq_result result;
		struct mq_err why;

		shape.pipeline = (c /= 5) % 2 ? MQ_PIPE_GPIPE : MQ_PIPE_1F1B;
		shape.sync = (c /= 2) % 2 ? MQ_SYNC_ZERO1 : MQ_SYNC_ALLREDUCE;
		shape.recompute = (uint8_t)((c /= 2) % 3);
		shape.sequence_parallel = (c /= 3) % 2;
		bool replica_major = (c /= 2) % 2;
		if (tp * pp > devices || pp > 2)
			continue; /* two layers fill two stages */
		shape.dp = devices / tp / pp;
		shape.vocab_parallel = tp > 1;
		if (16 % m || 16 / m % shape.dp || (shape.sequence_parallel && tp == 1) ||
		    (shape.sync == MQ_SYNC_ZERO1 && shape.dp == 1))
			continue;
		for (uint32_t s = 0, n = 0; s < pp; s++)
			for (uint32_t d = 0; d < shape.dp; d++)
				for (uint32_t t = 0; t < tp; t++)
					device[n++] = (replica_major ? d * pp + s : s * shape.dp + d) * tp + t;
		shape.device = device;
		if (mq_plan_from_shape(&shape, q->model, q->cluster, &q->arena, &plan, &why) == MQ_OK &&
		    screen(q, &plan, &result) && result.verdict == MQ_VERDICT_OK)
			best = fmin(best, result.step_time_s);
	}
	return best;
}

static void exhaustive_finds_the_best_shape(void **state)
{
	struct question q = { .arena = MQ_ARENA_INIT };
	struct mq_search_engine spec = { .options = "space=shape", .label = "exhaustive" };
	struct mq_search_outcome out;
	struct mq_err err = MQ_ERR_INIT;

	ask_transformer(&q, 4, 16);
	if (mq_engine_open(engines_dir(), "exhaustive", &q.arena, &spec.engine, &err) != MQ_OK)
		fail_msg("%s", err.text);
	struct mq_search s = whole_search(&q, &spec);
	if (mq_search_run(&s, &q.arena, &out, &err) != MQ_OK)
		fail_msg("%s", err.text);
	/* The space: all four devices, or one. */
	double truth = fmin(brute_force_shapes(&q, 4), brute_force_shapes(&q, 1));
	assert_true(isfinite(truth));
	if (fabs(out.best[0].result.step_time_s / truth - 1) > 1e-8)
		fail_msg("exhaustive finds %.9g s, the brute force %.9g s", out.best[0].result.step_time_s, truth);
	mq_arena_fini(&q.arena);
}

static void broken_engines_are_refused(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	const struct mq_engine *e;
	struct mq_engine bad = { MQ_ENGINE_HEAD("bad"), .summary = "bad" };

	assert_int_equal(mq_engine_check(&bad, "bad", &err), MQ_EINPUT);
	bad.abi = MQ_ABI + 1;
	assert_int_equal(mq_engine_check(&bad, "bad", &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "rebuild it"));
	assert_int_equal(mq_engine_open(engines_dir(), "exprt", &arena, &e, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "did you mean 'expert'?"));
	assert_int_equal(mq_engine_open(engines_dir(), "../x", &arena, &e, &err), MQ_EINPUT);
	mq_arena_fini(&arena);
}

enum { MAX_TESTS = 128 };

int main(void)
{
	struct CMUnitTest tests[MAX_TESTS] = {
		cmocka_unit_test(broken_engines_are_refused),
		cmocka_unit_test(exhaustive_is_the_ground_truth),
		cmocka_unit_test(placement_engines_fit_tight_memory),
		cmocka_unit_test(exhaustive_finds_the_best_shape),
	};
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	const char **name;
	size_t n = 4;

	if (mq_plugin_names(engines_dir(), ".so", &arena, &name, &err) != MQ_OK || !*name) {
		fprintf(stderr, "no engines: %s\n", err.text);
		return 1;
	}
	for (; *name && n < MAX_TESTS; name++)
		tests[n++] = (struct CMUnitTest){ .name = *name,
						  .test_func = conforms,
						  .initial_state = mq_arena_strdup(&arena, *name) };
	int failed = _cmocka_run_group_tests("engines", tests, n, NULL, NULL);
	mq_arena_fini(&arena);
	return failed;
}
