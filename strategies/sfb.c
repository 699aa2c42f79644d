/* sfb.c - data parallelism that duplicates weight gradients where this beats all-reducing them.
 *
 * Sufficient-factor broadcasting as formulated by TAG (IEEE TPDS 2023): instead of all-reducing a weight gradient,
 * replicas gather its two factors, the layer's input and its output's gradient, and each computes the whole weight
 * gradient. An exact minimum cut chooses the layers (lib/sfb.h). Proposes plain data parallelism first, then the cut's
 * plan.
 *
 * `maquette solve CASES.json` solves explicit instances and prints a line `case ID optimum VALUE` each.
 *
 * Differs from TAG: forward ops are never duplicated (lib/sfb_model.h). Not modelled: overlap of gathering with
 * compute.
 *
 * link: igraph jansson
 * SPDX-License-Identifier: Apache-2.0 */
#include "maquette/engine.h"
#include "lib/plans.h"
#include "lib/sfb_model.h"

struct sfb {
	double alpha_us;
	struct mq_devices devices;
	uint32_t degree, round;
};

static const struct mq_opt opts[] = { MQ_F64(struct sfb, alpha_us, 1, 0, 1e6, "price of duplicating one op, us"),
				      MQ_END };

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct sfb *s = state;

	if (problem->q->train->infer)
		return mq_bad(err, "engine 'sfb' plans gradient exchange: inference has none; use --mode train");
	s->devices = mq_devices_usable(problem, problem->arena);
	s->degree = mq_data_parallel_degree(problem, &s->devices);
	return MQ_OK;
}

static enum mq_status duplicate_by_cut(const struct sfb *s, const struct mq_problem *problem, struct mq_arena *arena,
				       struct mq_plan *plan, struct mq_err *err)
{
	struct mq_sfb_group all = { s->degree, s->devices.rank, s->alpha_us };
	struct mq_sfb_result result;

	MQ_TRY(mq_sfb_of_group(problem, &all, arena, &result, err));
	plan->engine_objective = result.optimum;
	plan->engine_unit = "us";
	for (uint32_t op = 0; op < problem->q->model->n_ops; op++) {
		struct mq_config c = plan->config[plan->config_of[op]];

		c.sync = MQ_SYNC_DUPLICATE;
		if (result.duplicate[op])
			plan->config_of[op] = mq_plan_intern(plan, &c, arena);
	}
	return MQ_OK;
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct sfb *s = state;

	if (s->round > 1 || (s->round == 1 && s->degree == 1))
		return MQ_DONE;
	mq_plan_data_parallel(problem, &s->devices, s->degree, arena, plan);
	if (s->round++ == 0)
		return MQ_OK;
	return duplicate_by_cut(s, problem, arena, plan, err);
}

static enum mq_status solve(void *state, const char *path, const struct mq_problem *problem, struct mq_err *err)
{
	struct mq_sfb_cases cases;
	struct mq_sfb_result result;

	MQ_TRY(mq_sfb_cases_load(path, problem->arena, &cases, err));
	for (uint32_t i = 0; i < cases.n; i++) {
		MQ_TRY(mq_sfb_solve(&cases.problem[i], problem->arena, &result, err));
		mq_say(problem, "case %u optimum %.17g", cases.id[i], result.optimum);
	}
	return MQ_OK;
}

MQ_ENGINE(sfb) = {
	MQ_ENGINE_HEAD("sfb"),
	.summary = "data parallelism, weight gradients duplicated by minimum cut",
	.paper = "Zhang et al., TAG, IEEE TPDS 2023 (sufficient-factor broadcasting)",
	MQ_ENGINE_OWN(struct sfb),
	.lacks = MQ_LACKS_SPLITS | MQ_LACKS_PP | MQ_LACKS_SHAPES,
	.solve = solve,
	.accepts = mq_sfb_cases_probe,
};
