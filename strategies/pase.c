/*
 * pase.c - PaSE: the best split of every layer by dynamic programming over dependent sets
 * (Elango, "PaSE: Parallelization Strategies for Efficient DNN Training", IPDPS 2021).
 *
 * `maquette solve X.tables.json` answers from explicit cost tables (lib/pase_tables.h): the least sum
 * of layer costs and edge costs, and the cost of splitting only the batch.
 *
 * Objective: total work and communication of one step, not overlapped. Complexity O(n K^(M+1)), K
 * configurations per layer, M the largest dependent set; the method refuses graphs beyond a bound.
 * Not modelled by it: pipelines, overlap, contention.
 *
 * link: jansson
 */
#include "core/engine.h"
#include "lib/pase_tables.h"
#include "lib/plans.h"

struct pase {
	uint32_t order;
	double rows;
};

static const struct mq_opt opts[] = {
	MQ_CHOICE(struct pase, order, MQ_ELIM_LEAST, "least-dependent|breadth-first",
		  "order in which layers are eliminated"),
	MQ_F64(struct pase, rows, 4e9, 1, 1e15, "combinations that one table may need; refuse beyond"),
	MQ_END
};

static enum mq_status solve(void *state, const char *path, const struct mq_problem *problem,
			    struct mq_err *err)
{
	const struct pase *s = state;
	struct mq_pase_tables tables;
	struct mq_elim_result result;
	bool has_data_parallel = true;

	MQ_TRY(mq_pase_tables_load(path, problem->arena, &tables, err));
	tables.problem.order = s->order;
	tables.problem.max_rows = s->rows;
	MQ_TRY(mq_elim_solve(&tables.problem, problem->arena, &result, err));
	mq_say(problem, "optimum %.17g", result.optimum);
	for (uint32_t v = 0; v < tables.problem.n_vars; v++)
		has_data_parallel = has_data_parallel && tables.data_parallel[v] != MQ_NONE;
	if (has_data_parallel)
		mq_say(problem, "data-parallel %.17g",
		       mq_elim_cost(&tables.problem, tables.data_parallel));
	else
		mq_say(problem, "data-parallel none: a layer has no configuration that splits the "
				"batch alone");
	return MQ_OK;
}

static bool accepts(const char *path)
{
	return mq_pase_tables_probe(path);
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	return mq_fail(err, MQ_EINPUT, "engine 'pase' answers from cost tables only: maquette solve "
				       "FILE.tables.json");
}

MQ_ENGINE(pase) = {
	MQ_ENGINE_HEAD("pase"),
	.summary = "optimal splits of layers by dynamic programming over dependent sets",
	.paper = "Elango, PaSE, IPDPS 2021",
	.opts = opts,
	.state_size = sizeof(struct pase),
	.propose = propose,
	.solve = solve,
	.accepts = accepts,
};
