/* engine.c - see engine.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/place/engine.h"

#include <math.h>
#include <stdio.h>

#include "lib/plans.h"

void mq_place_again_note(struct mq_place_again *again, const struct mq_problem *problem, const struct mq_plan *plan,
			 const struct mq_result *result)
{
	if (result->verdict != MQ_VERDICT_DEADLOCK || plan->pipeline != MQ_PIPE_1F1B)
		return;
	mq_plan_copy(&again->plan, plan, problem->arena);
	again->plan.pipeline = MQ_PIPE_GPIPE;
	again->wanted = true;
}

bool mq_place_again_take(struct mq_place_again *again, struct mq_arena *arena, struct mq_plan *plan)
{
	if (!again->wanted)
		return false;
	mq_plan_copy(plan, &again->plan, arena);
	again->wanted = false;
	return true;
}

enum mq_status mq_place_objective(const struct mq_problem *problem, const char *name, struct mq_err *err)
{
	if (problem->objective && strcmp(problem->objective, "max-load") && strcmp(problem->objective, "latency") &&
	    strcmp(problem->objective, "step-time"))
		return mq_bad(err, "engine '%s' cannot minimise '%s': use --objective max-load, latency or step-time",
			      name, problem->objective);
	return MQ_OK;
}

bool mq_place_latency_asked(const struct mq_problem *problem)
{
	return problem->objective && !strcmp(problem->objective, "latency");
}

void mq_place_limit(struct mq_place *place, uint32_t left, struct mq_arena *arena)
{
	struct mq_place_type *type = mq_arena_array(arena, place->n_types, struct mq_place_type);

	memcpy(type, place->type, place->n_types * sizeof(*type));
	place->type = type;
	for (uint32_t t = 0; t < place->n_types; t++) {
		type[t].count = type[t].count < left ? type[t].count : left;
		left -= type[t].count;
	}
}

static bool own_devices(const struct mq_problem *problem)
{
	return problem->q->model->devices.time_unit_s > 0 && problem->q->model->devices.bw_Bps == 0;
}

enum mq_status mq_place_engine_start(struct mq_place_engine *e, const char *name, bool linearize,
				     const struct mq_problem *problem, struct mq_err *err)
{
	uint32_t asked = e->micro_batches;

	e->linearize = linearize;
	MQ_TRY(mq_place_objective(problem, name, err));
	if (!asked && own_devices(problem)) /* one sample per micro-batch */
		asked = (uint32_t)fmax(1, fmin(floor(problem->q->train->batch), 1e6));
	/* from few large to many small micro-batches: fitting wants many, speed may want few */
	return mq_micro_batch_rounds(problem, name, asked, 4096, e->sizes, &e->n_rounds, err);
}

static void say_value(const struct mq_problem *problem, const struct mq_place_model *m, const struct mq_ideal_result *r,
		      struct mq_arena *arena, struct mq_plan *plan)
{
	bool latency = mq_place_latency_asked(problem);

	plan->engine_objective = latency ? mq_place_latency(&m->place, &r->placement, arena) : r->placement.max_load;
	if (m->own_units || (problem->objective && strcmp(problem->objective, "step-time")))
		mq_say(problem, "%s %.9g", latency ? "latency" : "max-load", plan->engine_objective);
	if (m->own_units)
		mq_say(problem, "%u units, %u ideals, %.0f sets looked at%s", r->n_units, r->n_ideals, r->pairs,
		       r->stopped ? "; stopped early: the linearised answer" : "");
}

/* The max-load is optimal, hence its own lower bound, within the plans that the method covers. */
static void show_bound(const struct mq_problem *problem, const struct mq_place_model *m,
		       const struct mq_ideal_result *r, bool linearize, uint32_t in_flight)
{
	bool latency = mq_place_latency_asked(problem);
	double load = r->placement.max_load;
	char scope[96];

	if (latency || r->stopped)
		return;
	snprintf(scope, sizeof(scope), "%s with %u micro-batches, memory for %u,",
		 linearize ? "pipeline along this topological order" : "contiguous pipeline", m->micro_batches,
		 in_flight);
	mq_show_bound(problem, &(struct mq_bound){ "max-load", load, load, m->unit, scope });
}

/* Most micro-batches in flight at a stage under 1F1B: the number of stages. */
static uint32_t most_in_flight(const struct mq_problem *problem, uint32_t micro_batches)
{
	struct mq_devices devices = mq_devices_usable(problem, problem->arena);

	return micro_batches < devices.n ? micro_batches : devices.n;
}

/* Applies --fix and --max of dp and pp: replicas per stage, and the device counts per type that the stages then take,
 * first types first. False: a replica would get no sample. */
static bool apply_limits(const struct mq_problem *problem, struct mq_place *place, struct mq_ideal_options *o,
			 double samples, struct mq_arena *arena)
{
	uint32_t n = 0, left;

	for (uint32_t t = 0; t < place->n_types; t++)
		n += place->type[t].count;
	struct mq_stage_limits l = mq_stage_limits(problem->limits, n);

	if (l.most_dp)
		o->max_replicas = l.most_dp < o->max_replicas ? l.most_dp : o->max_replicas;
	o->only_replicas = l.dp ? l.dp : l.width > 1 && o->max_replicas > 1 ? l.width : 0;
	left = l.width && o->max_replicas == 1 ? n / l.width : l.devices;
	if (l.dp && problem->limits->fix_pp)
		left = l.dp * problem->limits->fix_pp;
	o->use_all = problem->limits->fix_pp > 0;
	mq_place_limit(place, left, arena);
	return o->only_replicas <= fmax(1, samples) && mq_degree_allowed(0, l.most_dp, o->only_replicas);
}

enum mq_status mq_place_engine_propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
				       struct mq_plan *plan, struct mq_err *err)
{
	struct mq_place_engine *e = state;
	struct mq_ideal_options o = {
		.linearize = e->linearize, .max_ideals = e->ideals, .tick = mq_tick_hook, .tick_context = &problem
	};
	bool train = !problem->q->train->infer;

	if (mq_place_again_take(&e->again, arena, plan))
		return MQ_OK;
	while (e->round < 2 * e->n_rounds) {
		uint32_t round = e->round++, m = e->sizes[round / 2];
		uint32_t flight = round % 2 && train ? most_in_flight(problem, m) : 1;
		struct mq_place_model model;
		struct mq_ideal_result r;

		/* even rounds: memory for one micro-batch; odd rounds: for all in flight */
		if (round % 2 && (flight == 1 || own_devices(problem)))
			continue;
		MQ_TRY(mq_place_from_problem(problem, m, flight, arena, &model, err));
		double samples = floor(problem->q->train->batch / m); /* each replica needs at least one */

		o.max_replicas = e->replicas ? e->replicas : own_devices(problem) ? 1 : UINT32_MAX;
		o.max_replicas = (uint32_t)fmin(o.max_replicas, fmax(1, samples));
		if (!apply_limits(problem, &model.place, &o, samples, arena))
			continue;
		MQ_TRY(mq_ideal_solve(&model.place, &o, arena, &r, err));
		if (isinf(r.placement.max_load))
			continue;
		mq_place_plan(&model, &r.placement, problem, arena, plan);
		say_value(problem, &model, &r, arena, plan);
		show_bound(problem, &model, &r, e->linearize, flight);
		return MQ_OK;
	}
	return MQ_DONE;
}

void mq_place_engine_observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
			     const struct mq_result *result)
{
	struct mq_place_engine *e = state;

	mq_place_again_note(&e->again, problem, plan, result);
}
