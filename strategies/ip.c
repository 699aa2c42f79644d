/* ip.c - placement by integer programming (Tarnawski et al., NeurIPS 2020), solved by the program cbc.
 *
 * Objectives: max-load over contiguous or (contiguous=0) any sets; with `phases`, the largest forward load plus the
 * largest backward load, which is the time per sample of a pipeline that finishes the forward pass before the backward
 * pass (GPipe); latency, the time of one sample, with `pieces` sets per accelerator. See ip/place_ip.h. Starts from the
 * linearised dynamic program or, for latency, from the best sets along many orders if faster; its bound on latency
 * comes from the paths of the graph (ip/place_latency.h), as the program's own is weak. Stops at the time limit and
 * reports the remaining gap. Proposes one plan, the best placement found. Exponential in the worst case: programs with
 * more than `columns` columns are refused.
 *
 * Under a time limit the answer depends on the machine: raise it until the gap is 0 for reproducible answers. By
 * default it takes the fewest micro-batches with which the linearised pipeline fits; if the simulator finds the plan
 * too large, it doubles them, with half the time limit. Not modelled: replicated stages, tensor splits, fill and drain
 * of the pipeline.
 *
 * link: igraph
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/engine.h"
#include "lib/place/ideal.h"
#include "lib/place/engine.h"
#include "ip/place_ip.h"
#include "ip/place_latency.h"
#include "lib/place/model.h"
#include "lib/plans.h"

struct ip_engine {
	bool contiguous, phases;
	uint32_t pieces, orders, micro_batches, columns;
	double seconds, gap;
	bool done;
	struct mq_place_again again;
	uint32_t next, tries; /* next micro-batches to try, 0 = none; programs solved */
};

static const struct mq_opt opts[] = {
	MQ_BOOL(struct ip_engine, contiguous, 1, "max-load: sets that a pipeline can run"),
	MQ_BOOL(struct ip_engine, phases, 0, "max-load: the largest forward load plus the largest backward one"),
	MQ_U32(struct ip_engine, pieces, 1, 1, 16, "latency: sets per accelerator"),
	MQ_U32(struct ip_engine, orders, 1000, 1, 1e6, "latency: orders tried for the start"),
	MQ_F64(struct ip_engine, seconds, 60, 0.1, 1e6, "time limit of the program cbc, s"),
	MQ_F64(struct ip_engine, gap, 0, 0, 1, "stop when this close to the bound (relative)"),
	MQ_U32(struct ip_engine, micro_batches, 0, 0, 1e6, "micro-batches per step; 0 = as few as fit"),
	MQ_U32(struct ip_engine, columns, 100000, 1, 1e9, "refuse larger programs (unit x device)"),
	MQ_END
};

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	const struct ip_engine *s = state;

	MQ_TRY(mq_place_objective(problem, "ip", err));
	MQ_TRY(mq_micro_batch_rounds(problem, "ip", s->micro_batches, 0, NULL, NULL, err));
	if (s->phases && (!mq_model_explicit_backward(problem->q->model) || mq_place_latency_asked(problem)))
		return mq_bad(
			err,
			"engine 'ip': phases=true is of --objective max-load and graphs that bring backward ops of "
			"their own: leave it out for '%s'",
			problem->q->model->name);
	return MQ_OK;
}

static enum mq_status refuse_large(const struct ip_engine *s, const struct mq_place *place, struct mq_err *err)
{
	double devices = 0;

	for (uint32_t t = 0; t < place->n_types; t++)
		devices += place->type[t].count;
	if (devices * place->n_nodes > s->columns)
		return mq_bad(
			err,
			"engine 'ip': %u ops on %g devices make %.3g columns, the bound is %u: use --max devices=N, "
			"columns=N, or engine ideal-dp",
			place->n_nodes, devices, devices * place->n_nodes, s->columns);
	return MQ_OK;
}

static void report(const struct mq_problem *problem, const char *what, const struct mq_place_ip_result *r)
{
	double gap = r->value > 0 ? (r->value - r->bound) / r->value : 0;

	mq_say(problem, "%s %.9g", what, r->value);
	if (r->optimal)
		mq_say(problem, "%s proven optimal (bound %.9g)", what, r->bound);
	else
		mq_say(problem, "%s not proven: lower bound %.9g, gap %.3g %%", what, fmax(0, r->bound),
		       100 * fmin(1, gap));
}

/* The problem at the fewest micro-batches with which the linearised pipeline fits; if none does, at the most, as the
 * integer program's sets need not be contiguous. */
static enum mq_status solve_start(struct ip_engine *s, const struct mq_problem *problem, struct mq_arena *arena,
				  struct mq_place_model *model, struct mq_ideal_result *line, struct mq_err *err)
{
	struct mq_ideal_options o = { .linearize = true, .keep_idle = true, .use_all = problem->limits->fix_pp > 0 };
	bool own = problem->q->model->devices.time_unit_s > 0, fixed = s->micro_batches || own;
	uint32_t m = s->micro_batches ? s->micro_batches : s->next ? s->next : 1;
	uint32_t stages = problem->limits->fix_pp ? problem->limits->fix_pp : problem->limits->max_pp;

	if (own && !s->micro_batches) /* one sample per micro-batch */
		m = (uint32_t)fmax(1, fmin(floor(problem->q->train->batch), 1e6));
	for (;;) {
		uint32_t n = problem->q->cluster->n_devices;
		uint32_t flight = problem->q->train->infer ? 1 : m < n ? m : n;
		bool more =
			!fixed && 2.0 * m <= problem->q->train->batch && fmod(problem->q->train->batch, 2.0 * m) == 0;

		MQ_TRY(mq_place_from_problem(problem, m, fixed ? 1 : flight, arena, model, err));
		if (stages)
			mq_place_limit(&model->place, stages, arena);
		MQ_TRY(refuse_large(s, &model->place, err));
		MQ_TRY(mq_ideal_solve(&model->place, &o, arena, line, err));
		s->next = more ? 2 * m : 0;
		if (isfinite(line->placement.max_load) || !more)
			return MQ_OK;
		m *= 2;
	}
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct ip_engine *s = state;
	bool latency = mq_place_latency_asked(problem);
	struct mq_place_model model;
	struct mq_ideal_result start_from;
	struct mq_placement line;
	struct mq_place_ip_result r;
	struct mq_place_ip_options o = {
		.objective = latency   ? MQ_PLACE_LATENCY :
			     s->phases ? MQ_PLACE_PHASES :
					 MQ_PLACE_MAX_LOAD,
		.contiguous = s->contiguous,
		.use_all = problem->limits->fix_pp > 0,
		.pieces = s->pieces,
		.gap = s->gap,
		.seconds = fmin(ldexp(s->seconds, -(int)s->tries), problem->seconds),
		.tick = mq_tick_hook,
		.tick_context = &problem,
	};

	if (mq_place_again_take(&s->again, arena, plan))
		return MQ_OK;
	if (s->done)
		return MQ_DONE;
	s->done = true;
	MQ_TRY(solve_start(s, problem, arena, &model, &start_from, err));
	if (isfinite(start_from.placement.max_load))
		o.start = &start_from.placement;
	if (latency)
		MQ_TRY(mq_place_line(&model.place, s->orders, problem->rng, arena, &line, err));
	if (latency && line.n_stages &&
	    (!o.start || mq_place_latency(&model.place, &line, arena) < mq_place_latency(&model.place, o.start, arena)))
		o.start = &line;
	s->tries++; /* halves the next time limit */
	MQ_TRY(mq_place_ip(&model.place, &o, arena, &r, err));
	if (!r.placement.n_stages || isinf(r.value))
		return mq_fail(err, MQ_ENOPLAN, "engine 'ip': %s",
			       r.infeasible ? "no placement fits the devices' memory" :
					      "no placement found within the time limit: raise seconds=S");
	mq_place_plan(&model, &r.placement, problem, arena, plan);
	plan->engine_objective = r.value;
	const char *what = latency ? "latency" : s->phases ? "forward + backward max-load" : "max-load";

	report(problem, what, &r);
	mq_show_bound(problem, &(struct mq_bound){ what, r.value, fmax(0, r.bound), model.unit,
						   latency || !s->contiguous ? "placement of whole ops" :
									       "contiguous placement" });
	return MQ_OK;
}

static void observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		    const struct mq_result *result)
{
	struct ip_engine *s = state;

	mq_place_again_note(&s->again, problem, plan, result);
	if (result->verdict == MQ_VERDICT_OOM && s->next)
		s->done = false;
}

MQ_ENGINE(ip) = {
	MQ_ENGINE_HEAD("ip"),
	.summary = "placement by integer programming with the program cbc: max-load or latency",
	.paper = "Tarnawski et al., NeurIPS 2020",
	MQ_ENGINE_OWN(struct ip_engine),
	.lacks = MQ_LACKS_SPLITS | MQ_LACKS_DP | MQ_LACKS_SHAPES,
	.proves = true,
	.observe = observe,
};
