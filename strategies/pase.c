/* pase.c - PaSE: the best split of every layer by dynamic programming over dependent sets (Elango, "PaSE:
 * Parallelization Strategies for Efficient DNN Training", IPDPS 2021).
 *
 * Objective: the sum of all layers' times and of the communication inside and between them, in one step, without
 * overlap. Complexity O(n K^(M+1)), K configurations per layer, M the largest dependent set; graphs above a bound are
 * refused. Costs come from the cost queries (links and the slowest device class included); see lib/pase_model.h. Beyond
 * the paper: if the optimum exceeds memory, bytes get a price, found by bisection, at which the plan fits the smallest
 * device. Proposes one plan per number of micro-batches and device order.
 *
 * Locality: the mesh of a split has its innermost dimensions on consecutive devices, and the order takes `block`
 * devices of each machine in turn. The splits are solved anew for each block that divides a machine, where the paper
 * maps given splits greedily; the simulator chooses among them, as only it sees groups that share a machine's links.
 * Orders that differ between layers are not tried: changing between them moves whole tensors.
 *
 * `maquette solve X.tables.json` solves explicit cost tables (pase/tables.h): prints the least cost, and the cost of
 * splitting only the batch.
 *
 * Not modelled by it: pipelines, overlap, contention. All ops run on all devices.
 *
 * link: jansson
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/engine.h"
#include "lib/pase_model.h"
#include "pase/tables.h"
#include "lib/plans.h"

struct pase {
	const struct mq_problem *problem;
	uint32_t order, micro_batches, block;
	double rows;
	/* search */
	struct mq_devices devices;
	uint32_t n_orders;
	struct mq_devices in_order[32];      /* device orders by block size, whole machines first */
	uint32_t round, n_rounds, sizes[24]; /* round: micro-batches x order */
	double bound_s, best_s; /* over all rounds: the optimum without memory limit; the best plan proposed */
};

static const struct mq_opt opts[] = {
	MQ_CHOICE(struct pase, order, MQ_ELIM_LEAST, "least-dependent|breadth-first",
		  "order in which layers are eliminated"),
	MQ_F64(struct pase, rows, 4e9, 1, 1e15, "combinations that one table may need; refuse beyond"),
	MQ_U32(struct pase, micro_batches, 0, 0, 1e6, "per step; 0 = powers of two in turn"),
	MQ_U32(struct pase, block, 0, 0, 65536, "devices of a machine that are neighbours; 0 = each divisor in turn"),
	MQ_END
};

static enum mq_status solve(void *state, const char *path, const struct mq_problem *problem, struct mq_err *err)
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
		mq_say(problem, "data-parallel %.17g", mq_elim_cost(&tables.problem, tables.data_parallel));
	else
		mq_say(problem, "data-parallel none: a layer has no configuration that splits the batch alone");
	return MQ_OK;
}

/* One order per block that divides the machine, the largest first. */
static void list_orders(struct pase *s)
{
	const struct mq_cluster *cluster = s->problem->q->cluster;
	uint32_t most = mq_devices_per_machine(cluster, &s->devices);
	bool one_machine = most == s->devices.n;

	for (uint32_t block = most; block > 0 && s->n_orders < 32; block--)
		if (s->block ? block == most : most % block == 0 && (block == most || !one_machine))
			s->in_order[s->n_orders++] = mq_devices_in_blocks(
				cluster, &s->devices, s->block ? s->block : block, s->problem->arena);
}

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct pase *s = state;

	if (mq_model_explicit_backward(problem->q->model))
		return mq_bad(err,
			      "engine 'pase' splits forward ops and derives the backward pass: '%s' brings backward "
			      "ops of its own; use ideal-dp or dpl",
			      problem->q->model->name);
	s->bound_s = s->best_s = INFINITY;
	s->problem = problem;
	s->devices = mq_devices_usable(problem, problem->arena);
	list_orders(s);
	MQ_TRY(mq_micro_batch_rounds(problem, "pase", s->micro_batches, 64, s->sizes, &s->n_rounds, err));
	s->n_rounds *= s->n_orders;
	return MQ_OK;
}

/* Solves with memory priced at `price` seconds per byte. */
static enum mq_status solve_priced(const struct pase *s, const struct mq_pase_model *model, double price,
				   struct mq_arena *arena, struct mq_elim_result *result, struct mq_err *err)
{
	struct mq_elim_problem p = model->problem;
	const double **cost = mq_arena_array(arena, p.n_vars, const double *);

	for (uint32_t v = 0; v < p.n_vars; v++) {
		double *priced = mq_arena_array(arena, p.n_choices[v], double);

		for (uint32_t c = 0; c < p.n_choices[v]; c++)
			priced[c] = model->memory[v][c] > model->limit_B ?
					    (double)INFINITY :
					    model->cost[v][c] + price * model->memory[v][c];
		cost[v] = priced;
	}
	p.cost = cost;
	p.order = s->order;
	p.max_rows = s->rows;
	p.tick = s->problem->tick;
	p.tick_context = s->problem->tick_context;
	return mq_elim_solve(&p, arena, result, err);
}

/* The cheapest choice that fits, as far as a uniform price finds it; *found = false: none. */
static enum mq_status choose(struct pase *s, const struct mq_pase_model *model, struct mq_arena *arena,
			     uint32_t *choice, bool *found, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	double low = 0, high = 0, price = 0;
	enum mq_status status = MQ_OK;

	*found = false;
	for (uint32_t round = 0; round < 24; round++) {
		struct mq_elim_result r;
		struct mq_arena_mark mark = mq_arena_mark(&scratch);

		status = solve_priced(s, model, price, &scratch, &r, err);
		if (status != MQ_OK || isinf(r.optimum))
			break;
		if (price == 0)
			s->bound_s = fmin(s->bound_s, r.optimum);
		bool fits = mq_pase_memory(model, r.choice) <= model->limit_B;

		if (fits) {
			memcpy(choice, r.choice, model->problem.n_vars * sizeof(*choice));
			*found = true;
			high = price;
		} else {
			low = price;
		}
		if (fits && price == 0)
			break;
		if (*found && round >= 10)
			break;
		if (!*found) /* the first price: all memory costs a thousandth of all time */
			price = price > 0 ? 8 * price : 1e-3 * r.optimum / mq_pase_memory(model, r.choice);
		else
			price = (low + high) / 2;
		mq_arena_rewind(&scratch, mark);
	}
	return status;
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct pase *s = state;

	while (s->round < s->n_rounds) {
		const struct mq_devices *devices = &s->in_order[s->round % s->n_orders];
		uint32_t micro_batches = s->sizes[s->round++ / s->n_orders];
		struct mq_pase_model model;
		uint32_t *choice = mq_arena_array(arena, problem->q->model->n_ops, uint32_t);
		bool found;

		MQ_TRY(mq_pase_from_problem(problem, devices, micro_batches, arena, &model, err));
		MQ_TRY(choose(s, &model, arena, choice, &found, err));
		if (!found)
			continue;
		mq_pase_plan(&model, choice, problem, arena, plan);
		plan->engine_objective = mq_elim_cost(&model.problem, choice);
		plan->engine_unit = "s per step, without overlap";
		s->best_s = fmin(s->best_s, plan->engine_objective);
		return MQ_OK;
	}
	return MQ_DONE;
}

static void stop(void *state, const struct mq_problem *problem)
{
	const struct pase *s = state;

	if (s->round == s->n_rounds)
		mq_show_bound(problem, &(struct mq_bound){ "cost", s->best_s, s->bound_s, "s per step, without overlap",
							   "split of its layers" });
}

MQ_ENGINE(pase) = {
	MQ_ENGINE_HEAD("pase"),
	.summary = "optimal splits of layers by dynamic programming over dependent sets",
	.paper = "Elango, PaSE, IPDPS 2021",
	MQ_ENGINE_OWN(struct pase),
	.lacks = MQ_LACKS_PP | MQ_LACKS_VIRTUAL | MQ_LACKS_SHAPES,
	.proves = true,
	.stop = stop,
	.solve = solve,
	.accepts = mq_pase_tables_probe,
};
