/* mcmc.c - FlexFlow's search: a Markov chain over the configurations of single ops (Jia, Zaharia, Aiken, "Beyond Data
 * and Model Parallelism for Deep Neural Networks", MLSys 2019; released code).
 *
 * Starts from data parallelism (or --start), with the micro-batches, sharded states, recomputation or tensor
 * parallelism needed to fit. Each step gives a random op a random configuration: degrees along its dimensions on an
 * aligned run of devices, all of them or a part; with probability `propagate`, also its twins in all layers (as the
 * released code). With simulated time T, it accepts if T is shorter, else with probability exp(-alpha dT), dT in ms;
 * every clamp(budget / 100, 1, 1000) steps the chain restarts from its best. Plans that do not fit count as slower than
 * any. In graphs with profiles or devices of their own, it moves whole colours between devices.
 *
 * Differs: one proposal at a time, scored by our simulator instead of FlexFlow's; a step that its screened time already
 * rejects is not simulated, which leaves the chain unchanged; alpha may be relative (alpha_relative), because a step
 * may last 1 ms or 100 s. A heuristic without a bound. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/engine.h"
#include "lib/placements.h"
#include "lib/plans.h"
#include "lib/shapes.h"

/* Steps rejected by screened time before one is simulated regardless. */
enum { SCREENS = 8 };

struct mcmc {
	double alpha, alpha_relative, propagate;
	uint32_t micro_batches;
	struct mq_devices devices;
	struct placements placements;
	bool place; /* changes devices, not splits */
	struct mq_plan now, best;
	struct mq_arena of_now, of_best; /* owned: hold these two plans */
	double now_s, best_s, chance;    /* chance: uniform number that decides on the proposal */
	uint64_t step, restart;
	bool started;
};

static const struct mq_opt opts[] = {
	MQ_F64(struct mcmc, alpha, 1, 0, 1e9, "accepts dT more ms with probability exp(-alpha dT)"),
	MQ_F64(struct mcmc, alpha_relative, 0, 0, 1e9,
	       "if > 0: replaces alpha, with dT as a share of the current time"),
	MQ_F64(struct mcmc, propagate, 0.25, 0, 1, "probability that equal ops in all layers change too"),
	MQ_U32(struct mcmc, micro_batches, 0, 0, 1e6, "per step; 0 = as few as the start fits with"), MQ_END
};

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct mcmc *s = state;

	s->place = placements_natural(problem);
	s->devices = mq_devices_usable(problem, problem->arena);
	s->now_s = s->best_s = INFINITY;
	s->restart = problem->evals == UINT64_MAX ? 1000 : problem->evals / 100;
	s->restart = s->restart < 1 ? 1 : s->restart > 1000 ? 1000 : s->restart;
	if (s->place) {
		placements_init(&s->placements, problem);
		if (!s->placements.n_devices)
			return mq_bad(err, "engine 'mcmc': no device of '%s' can run '%s'", problem->q->cluster->name,
				      problem->q->model->name);
	}
	if (!problem->start)
		MQ_TRY(mq_limits_refuse(problem->limits, "mcmc",
					s->place ? MQ_LACKS_ALL : MQ_LACKS_PP | MQ_LACKS_VIRTUAL, err));
	return mq_micro_batch_rounds(problem, "mcmc", s->micro_batches, 0, NULL, NULL, err);
}

/* ---- moves -------------------------------------------------------------------------------------- */

/* Data parallelism of degree n / tp, tensor parallelism inside as in Megatron. False: not possible. */
static bool split_all(const struct mcmc *s, const struct mq_problem *problem, const struct mq_shape *want,
		      struct mq_arena *arena, struct mq_plan *plan)
{
	struct mq_devices few = { s->devices.n / want->tp, s->devices.rank };
	double samples = problem->q->train->batch / want->micro_batches;
	struct mq_shape shape = *want;
	struct mq_err why = MQ_ERR_INIT;

	if (!few.n)
		return false;
	shape.dp = mq_data_parallel_degree(problem, &few);
	shape.dp = shape.dp > samples ? (uint32_t)samples : shape.dp;
	shape.device = s->devices.rank;
	shape.sequence_parallel =
		shape.tp > 1 && problem->q->model->seq % shape.tp == 0 && mq_software_of(problem)->sequence_parallel;
	if (shape.tp > 1)
		return mq_plan_from_shape(&shape, problem->q->model, problem->q->cluster, arena, plan, &why) == MQ_OK;
	mq_plan_data_parallel(problem, &s->devices, shape.dp, arena, plan);
	plan->micro_batches = shape.micro_batches;
	for (uint32_t c = 0; c < plan->n_configs; c++) {
		plan->config[c].sync = plan->config[c].split[MQ_DIM_BATCH] > 1 ? shape.sync : MQ_SYNC_ALLREDUCE;
		plan->config[c].recompute = shape.recompute;
	}
	return true;
}

/* FlexFlow starts from data parallelism and ignores memory. If that does not fit, takes the first that does with more
 * micro-batches, sharded states, recomputation, tensor parallelism, in this order. If nothing fits: plain
 * all-reduce. */
static void first_split(const struct mcmc *s, const struct mq_problem *problem, struct mq_arena *arena,
			struct mq_plan *plan)
{
	static const uint8_t sync[] = { MQ_SYNC_ALLREDUCE, MQ_SYNC_ZERO1, MQ_SYNC_ZERO3 };
	uint32_t least = s->micro_batches ? s->micro_batches : 1, fix = problem->limits->fix_tp;
	struct mq_shape shape = { .tp = fix ? fix : 1, .micro_batches = least };
	uint32_t most_tp = fix ? fix : problem->limits->max_tp ? problem->limits->max_tp : 64;

	for (uint32_t tp = shape.tp; tp <= most_tp && tp <= s->devices.n; tp *= 2) {
		for (uint32_t i = 0; i < 2 * 3; i++) {
			for (double m = least; m <= (s->micro_batches ? least : problem->q->train->batch); m *= 2) {
				struct mq_shape want = { .tp = tp,
							 .sync = sync[i % 3],
							 .recompute = i / 3 ? MQ_RECOMPUTE_FULL : MQ_RECOMPUTE_NONE,
							 .micro_batches = (uint32_t)m };

				if (!mq_tick(problem, (double)NAN, "a plan to start from"))
					break;
				if (fmod(problem->q->train->batch, m) == 0 &&
				    split_all(s, problem, &want, arena, plan) && mq_fits(problem, plan))
					return;
			}
		}
	}
	if (!split_all(s, problem, &shape, arena, plan)) {
		shape.tp = 1;
		(void)split_all(s, problem, &shape, arena, plan);
	}
}

static void first_plan(struct mcmc *s, const struct mq_problem *problem, struct mq_arena *arena, struct mq_plan *plan)
{
	if (problem->start) {
		mq_plan_copy(plan, problem->start, arena);
	} else if (s->place) {
		uint32_t *choice = mq_arena_array(arena, s->placements.n_groups, uint32_t);

		placements_plan(&s->placements, choice, problem, arena, plan);
	} else {
		first_split(s, problem, arena, plan);
	}
}

/* A random factorization of `parts` over the dimensions that the op can be split along. */
static bool random_split(const struct mq_problem *problem, const struct mq_op *op, uint32_t parts, double samples,
			 uint32_t split[MQ_N_DIMS])
{
	for (int d = 0; d < MQ_N_DIMS; d++)
		split[d] = 1;
	for (uint32_t prime = 2; parts > 1;) {
		int may[MQ_N_DIMS];
		uint32_t n = 0;

		if (parts % prime) {
			prime++;
			continue;
		}
		for (int d = 0; d < MQ_N_DIMS; d++) {
			double extent = d == MQ_DIM_BATCH ? samples : op->extent[d];

			if (op->splits & 1u << d && (double)split[d] * prime <= extent)
				may[n++] = d;
		}
		if (!n)
			return false;
		split[may[mq_rng_below(problem->rng, n)]] *= prime;
		parts /= prime;
	}
	return true;
}

static const char *role_of(const char *name)
{
	const char *dot = strchr(name, '.');

	return dot ? dot : name;
}

/* Gives `op`, and if asked its twins (ops of its kind and name in other layers), a config. */
static void set_config(struct mq_plan *plan, const struct mq_model *model, uint32_t op, uint32_t config, bool twins)
{
	plan->config_of[op] = config;
	for (uint32_t v = 0; twins && v < model->n_ops; v++)
		if (model->op[v].layer != MQ_NONE && model->op[op].layer != MQ_NONE &&
		    model->op[v].kind == model->op[op].kind &&
		    !strcmp(role_of(model->op[v].name), role_of(model->op[op].name)))
			plan->config_of[v] = config;
}

static void mutate_split(struct mcmc *s, const struct mq_problem *problem, struct mq_arena *arena, struct mq_plan *plan)
{
	const struct mq_model *model = problem->q->model;
	uint32_t op = mq_rng_below(problem->rng, model->n_ops > 1 ? model->n_ops - 1 : 1);
	const struct mq_config old = plan->config[plan->config_of[op]];
	uint32_t split[MQ_N_DIMS], parts;
	double samples = problem->q->train->batch / plan->micro_batches;
	bool twins = mq_rng_unit(problem->rng) < s->propagate;
	uint32_t tries = 0;

	do /* if the limits leave nothing, the op stays as it is */
	{
		/* a divisor of the number of devices, all equally likely */
		uint32_t divisor[64], n = shapes_divisors(s->devices.n, divisor, 64);

		parts = divisor[mq_rng_below(problem->rng, n)];
	} while (tries++ < 1000 && (!random_split(problem, &model->op[op], parts, samples, split) ||
				    !mq_split_allowed(problem->limits, &model->op[op], samples, split)));
	if (tries > 1000)
		return;
	/* as many devices as the split has parts, or all with replication */
	bool all = mq_rng_below(problem->rng, 2);
	uint32_t n = all ? s->devices.n : parts;
	uint32_t first = mq_rng_below(problem->rng, s->devices.n / n) * n;
	struct mq_config c = { .n_devices = n,
			       .device = s->devices.rank + first,
			       .stage = old.stage,
			       .recompute = old.recompute,
			       .sync = split[MQ_DIM_BATCH] > 1 ? old.sync : MQ_SYNC_ALLREDUCE };

	memcpy(c.split, split, sizeof(split));
	set_config(plan, model, op, mq_plan_intern(plan, &c, arena), twins);
}

static void mutate_place(struct mcmc *s, const struct mq_problem *problem, struct mq_arena *arena, struct mq_plan *plan)
{
	const struct placements *space = &s->placements;
	uint32_t group = mq_rng_below(problem->rng, space->n_groups);
	uint32_t rank = space->device[mq_rng_below(problem->rng, space->n_devices)];
	uint32_t *device_of = mq_arena_array(arena, problem->q->model->n_ops, uint32_t);

	for (uint32_t op = 0; op < problem->q->model->n_ops; op++)
		device_of[op] = space->group_of[op] == group ? rank : plan->config[plan->config_of[op]].device[0];
	mq_plan_from_placement(device_of, problem->q->model, arena, plan);
}

/* ---- hooks -------------------------------------------------------------------------------------- */

/* Seconds of a plan; out of memory, more than any step, growing with the excess, so that the chain finds its way
 * out. */
static double time_of(const struct mq_result *result)
{
	if (result->verdict == MQ_VERDICT_OOM && result->memory_limit_B > 0)
		return 1e6 * (1 + result->peak_memory_B / result->memory_limit_B);
	return result->verdict == MQ_VERDICT_OK ? result->step_time_s : (double)INFINITY;
}

static bool accepts(const struct mcmc *s, double time)
{
	double worse = s->alpha_relative > 0 ? s->alpha_relative * (time - s->now_s) / s->now_s :
					       s->alpha * 1e3 * (time - s->now_s);

	return time <= s->now_s || (isfinite(time) && s->chance < exp(-worse));
}

static void store_plan(struct mq_plan *to, struct mq_arena *arena, const struct mq_plan *from)
{
	mq_arena_fini(arena);
	mq_plan_copy(to, from, arena);
}

static void end_step(struct mcmc *s)
{
	if (++s->step % s->restart == 0 && s->now_s > s->best_s) {
		store_plan(&s->now, &s->of_now, &s->best);
		s->now_s = s->best_s;
	}
}

/* Is the step rejected for certain? Screened time is a lower bound of simulated time. */
static bool surely_rejected(const struct mcmc *s, const struct mq_problem *problem, const struct mq_plan *plan)
{
	const struct mq_costs *costs = problem->costs;
	struct mq_result result;

	return costs->screen && costs->screen(costs->screen_context, plan, &result) &&
	       (result.verdict == MQ_VERDICT_OK || result.verdict == MQ_VERDICT_OOM) && !accepts(s, time_of(&result));
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct mcmc *s = state;

	if (!s->started) {
		first_plan(s, problem, arena, plan);
		return MQ_OK;
	}
	for (uint32_t i = 0;; i++) {
		struct mq_arena_mark mark = mq_arena_mark(arena);

		mq_plan_copy(plan, &s->now, arena);
		if (s->place)
			mutate_place(s, problem, arena, plan);
		else
			mutate_split(s, problem, arena, plan);
		mq_plan_compact(plan, arena);
		plan->engine_objective = NAN;
		/* one random number per step on every path, so that the chain is reproducible */
		s->chance = mq_rng_unit(problem->rng);
		if (i == SCREENS || !surely_rejected(s, problem, plan))
			return MQ_OK;
		mq_arena_rewind(arena, mark);
		end_step(s);
		if (!mq_tick(problem, (double)NAN, "refused steps"))
			return MQ_DONE;
	}
}

static void observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		    const struct mq_result *result)
{
	struct mcmc *s = state;
	double time = time_of(result);

	if (!s->started || accepts(s, time)) {
		store_plan(&s->now, &s->of_now, plan);
		s->now_s = time;
	}
	if (!s->started || time < s->best_s) {
		store_plan(&s->best, &s->of_best, plan);
		s->best_s = time;
	}
	s->started = true;
	end_step(s);
}

static void stop(void *state, const struct mq_problem *problem)
{
	struct mcmc *s = state;

	mq_arena_fini(&s->of_now);
	mq_arena_fini(&s->of_best);
}

MQ_ENGINE(mcmc) = {
	MQ_ENGINE_HEAD("mcmc"),
	.summary = "Markov chain over the configurations of single ops (FlexFlow)",
	.paper = "Jia, Zaharia, Aiken, FlexFlow, MLSys 2019",
	MQ_ENGINE_OWN(struct mcmc),
	.lacks = MQ_LACKS_SHAPES,
	.observe = observe,
	.stop = stop,
};
