/*
 * sfb.c - data parallelism that duplicates weight gradients where this beats all-reducing them.
 *
 * Sufficient-factor broadcasting as formulated by TAG (IEEE TPDS 2023): the all-reduce of a weight
 * gradient is replaced by gathering its two factors, the layer's input and the gradient of its
 * output, and computing the whole weight gradient on every replica. Which layers do so is an exact
 * minimum cut (lib/sfb.h). Proposes plain data parallelism first, then the cut's plan.
 *
 * `maquette solve CASES.json` answers explicit instances: a line `case ID optimum VALUE` each.
 *
 * Differs from TAG: forward ops are never duplicated, because a plan of ours says per layer how its
 * gradient is made, not per gradient op. Not modelled: overlap of gathering with compute.
 *
 * link: igraph jansson
 */
#include <math.h>

#include "core/engine.h"
#include "lib/plans.h"
#include "lib/sfb.h"

struct sfb {
	double alpha_us;
	struct mq_devices devices;
	uint32_t degree, round;
};

static const struct mq_opt opts[] = {
        MQ_F64(struct sfb, alpha_us, 1, 0, 1e6, "price of duplicating one op, us"), MQ_END};

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct sfb *s = state;

	if (problem->q->train->infer)
		return mq_fail(err, MQ_EINPUT,
		               "engine 'sfb' plans gradient exchange: inference has "
		               "none; use --mode train");
	s->devices = mq_devices_usable(problem, problem->arena);
	s->degree = mq_data_parallel_degree(problem, &s->devices);
	return MQ_OK;
}

/* Nodes of the cut: for op i its output (3i), the gradient of its output (3i + 1), and its weight
 * gradient (3i + 2), which alone may be duplicated. */
struct builder {
	const struct sfb *s;
	const struct mq_problem *problem;
	double *cost;
	bool *forbidden;
	struct mq_sfb_edge *edge;
	uint32_t n_edges;
};

static bool collective(const struct builder *b, enum mq_coll_kind kind, double elems,
                       double *seconds)
{
	struct mq_coll_request request = {
	        .kind = kind,
	        .n = b->s->degree,
	        .rank = b->s->devices.rank,
	        .bytes = elems * mq_dtype_size(b->problem->q->train->dtype),
	        .dtype = b->problem->q->train->dtype,
	};

	return b->problem->costs->collective(b->problem->costs->context, &request, seconds);
}

static bool add_gather(struct builder *b, uint32_t src, uint32_t dst, double elems)
{
	double seconds;

	if (!collective(b, MQ_COLL_ALL_GATHER, elems * b->problem->q->train->batch, &seconds))
		return false;
	b->edge[b->n_edges++] = (struct mq_sfb_edge){src, dst, seconds * 1e6};
	return true;
}

static bool add_op(struct builder *b, uint32_t op)
{
	const struct mq_model *model = b->problem->q->model;
	const struct mq_costs *costs = b->problem->costs;
	uint32_t split[MQ_N_DIMS];
	double reduce_s, time_s;

	for (int d = 0; d < MQ_N_DIMS; d++)
		split[d] = 1;
	split[MQ_DIM_BATCH] = b->s->degree;
	for (int node = 0; node < 3; node++)
		b->forbidden[3 * op + node] = true;
	if (model->op[op].param <= 0 || !(model->op[op].splits & 1u << MQ_DIM_BATCH) ||
	    (model->op[op].kind != MQ_OP_GEMM && model->op[op].kind != MQ_OP_CONV))
		return true;
	if (!collective(b, MQ_COLL_ALL_REDUCE, model->op[op].param, &reduce_s))
		return false;
	/* Half of a layer's backward pass is its weight gradient. */
	time_s = costs->op_time(costs->context, op, MQ_BACKWARD, b->s->devices.rank[0], split,
	                        b->problem->q->train->batch / b->s->degree) /
	         2;
	b->cost[3 * op + 2] = ((b->s->degree - 1) * time_s - reduce_s) * 1e6 + b->s->alpha_us;
	b->forbidden[3 * op + 2] = false;
	for (uint32_t e = model->in_first[op]; e < model->in_first[op + 1]; e++) {
		const struct mq_edge *edge = &model->edge[model->in_edge[e]];

		if (!add_gather(b, 3 * edge->src, 3 * op + 2, edge->elems))
			return false;
	}
	return add_gather(b, 3 * op + 1, 3 * op + 2, model->op[op].output);
}

static enum mq_status duplicate_by_cut(const struct sfb *s, const struct mq_problem *problem,
                                       struct mq_arena *arena, struct mq_plan *plan,
                                       struct mq_err *err)
{
	uint32_t n = problem->q->model->n_ops;
	struct builder b = {s,
	                    problem,
	                    mq_arena_array(arena, 3 * n, double),
	                    mq_arena_array(arena, 3 * n, bool),
	                    mq_arena_array(arena, problem->q->model->n_edges + n, struct mq_sfb_edge),
	                    0};
	struct mq_sfb_result result;

	for (uint32_t op = 0; op < n; op++)
		if (!add_op(&b, op))
			return mq_fail(err, MQ_EINPUT,
			               "engine 'sfb': no route joins the %u devices of "
			               "op '%s': name connected ones with --max devices=N",
			               s->degree, problem->q->model->op[op].name);
	struct mq_sfb_problem cut = {3 * n, b.n_edges, b.cost, b.forbidden, b.edge};

	MQ_TRY(mq_sfb_solve(&cut, arena, &result, err));
	plan->engine_objective = result.optimum;
	plan->engine_unit = "us";
	uint32_t duplicated = MQ_NONE;

	for (uint32_t op = 0; op < n; op++) {
		if (!result.duplicate[3 * op + 2])
			continue;
		if (duplicated == MQ_NONE) {
			const struct mq_config *from = &plan->config[plan->config_of[op]];

			duplicated = mq_plan_add_config(plan, arena, from->n_devices);
			from = &plan->config[plan->config_of[op]]; /* the list may have moved */
			memcpy(plan->config[duplicated].device, from->device,
			       from->n_devices * sizeof(*from->device));
			memcpy(plan->config[duplicated].split, from->split, sizeof(from->split));
			plan->config[duplicated].sync = MQ_SYNC_DUPLICATE;
		}
		plan->config_of[op] = duplicated;
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

static enum mq_status solve(void *state, const char *path, const struct mq_problem *problem,
                            struct mq_err *err)
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

static bool accepts(const char *path)
{
	return mq_sfb_cases_probe(path);
}

MQ_ENGINE(sfb) = {
        MQ_ENGINE_HEAD("sfb"),
        .summary = "data parallelism with weight gradients duplicated where a minimum cut says so",
        .paper = "Zhang et al., TAG, IEEE TPDS 2023 (sufficient-factor broadcasting)",
        .opts = opts,
        .state_size = sizeof(struct sfb),
        .heuristic = true,
        .lacks = MQ_LACKS_SPLITS | MQ_LACKS_PP | MQ_LACKS_SHAPES,
        .start = start,
        .propose = propose,
        .solve = solve,
        .accepts = accepts,
};
