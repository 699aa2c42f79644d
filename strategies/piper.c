/* piper.c - Piper: pipeline stages with data- and tensor-parallel degrees and recomputation chosen per stage, counting
 * activations in flight (Tarnawski, Narayanan, Phanishayee, "Piper: Multidimensional Planner for DNN Parallelization",
 * NeurIPS 2021). Formulation and method: piper/dp.h.
 *
 * `maquette solve FILE.json -e piper:devices=8,memory=8,bandwidth=25` solves a published problem file (options override
 * its numbers) and prints the equal-split baseline.
 *
 * In a search, layers are the model's blocks; tensor degrees are the powers of two inside a machine; each layer may
 * keep or recompute its activations; it proposes one plan per micro-batch size. Piper's data-parallel replicas take
 * whole micro-batches in turn; ours share each of N / max d micro-batches.
 *
 * Assumes equal devices and one bandwidth: on a mixed cluster it uses the devices of one kind (type and speed), the one
 * with the largest total speed on this model, and says so. No bubbles; the knapsack inside a stage is a heuristic.
 * Refuses graphs with more downsets, or tables with more entries, than its bounds.
 *
 * link: jansson
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/engine.h"
#include "lib/blocks.h"
#include "lib/classes.h"
#include "piper/dp.h"
#include "lib/plans.h"

struct piper {
	uint32_t devices, micro_batches, ideals, max_tp;
	double memory, bandwidth;
	/* search */
	struct mq_devices use;
	struct mq_blocks blocks;
	uint32_t per_machine, round, n_rounds;
	uint32_t size[24]; /* samples of a micro-batch */
	double bytes_per_s, memory_B;
};

static const struct mq_opt opts[] = {
	MQ_U32(struct piper, devices, 0, 0, 10000, "solve: devices; 0 = as in the file"),
	MQ_F64(struct piper, memory, 0, 0, 1e6, "solve: memory per device, GiB; 0 = as in the file"),
	MQ_F64(struct piper, bandwidth, 0, 0, 1e6, "solve: bandwidth, GiB/s; 0 = as in the file"),
	MQ_U32(struct piper, micro_batches, 0, 0, 1e6, "solve: micro-batches; 0 = as in the file"),
	MQ_U32(struct piper, ideals, 40000, 2, 1e6, "refuse layer graphs with more downsets"),
	MQ_U32(struct piper, max_tp, 0, 0, 4096, "search: largest tensor degree; 0 = a machine"),
	MQ_END
};

/* ---- solve -------------------------------------------------------------------------------------- */

static enum mq_status solve(void *state, const char *path, const struct mq_problem *problem, struct mq_err *err)
{
	const struct piper *s = state;
	const double GiB = 1073741824.0;
	struct mq_piper p;
	struct mq_piper_result best;

	MQ_TRY(mq_piper_load(path, problem->arena, &p, err));
	p.devices = s->devices ? s->devices : p.devices;
	p.memory = s->memory > 0 ? s->memory * GiB : p.memory;
	p.bandwidth = s->bandwidth > 0 ? s->bandwidth * GiB : p.bandwidth;
	p.micro_batches = s->micro_batches ? s->micro_batches : p.micro_batches;
	p.max_ideals = s->ideals;
	p.tick = mq_tick_hook;
	p.tick_context = &problem;
	MQ_TRY(mq_piper_solve(&p, problem->arena, &best, err));
	if (best.stopped)
		return mq_fail(err, MQ_ETIME, "%s: stopped before the answer was known", path);
	const double time_s[] = { best.time, mq_piper_equal_split(&p, problem->arena) };

	for (int i = 0; i < 2; i++)
		if (isinf(time_s[i]))
			mq_say(problem, "%s infeasible", i ? "equal-split" : "optimum");
		else
			mq_say(problem, "%s %.9g", i ? "equal-split" : "optimum", time_s[i]);
	for (uint32_t i = 0; i < best.n_stages; i++)
		mq_say(problem, "stage %u: %u layers, d %u t %u, %.9g s", i, best.stage[i].n_nodes, best.stage[i].d,
		       best.stage[i].t, best.stage[i].time);
	return MQ_OK;
}

/* ---- search ------------------------------------------------------------------------------------- */

/* Chooses the kind of devices with the largest total speed. */
static void choose_kind(struct piper *s, const struct mq_problem *problem)
{
	struct mq_devices all = mq_devices_usable(problem, problem->arena);
	const struct mq_device *device = problem->q->cluster->device, *best = NULL;
	double most = -1;

	for (uint32_t i = 0; i < all.n; i++) {
		uint32_t n = 0, first = i;

		for (uint32_t k = 0; k < all.n; k++) {
			bool same = mq_devices_alike(&device[all.rank[i]], &device[all.rank[k]]);

			first = same && k < first ? k : first;
			n += same;
		}
		double sum = 0; /* seconds of the whole model on one device */

		for (uint32_t b = 0; b < s->blocks.n && first == i; b++)
			sum += mq_block_time(problem, &s->blocks, b, &all.rank[i], 1, 1);
		double speed = sum > 0 ? n * (1 / sum) : 0;

		if (speed > most)
			most = speed, best = &device[all.rank[i]];
	}
	s->use.rank = mq_arena_array(problem->arena, all.n, uint32_t);
	for (uint32_t i = 0; i < all.n; i++)
		if (mq_devices_alike(&device[all.rank[i]], best))
			s->use.rank[s->use.n++] = all.rank[i];
	if (s->use.n < all.n)
		mq_say(problem, "piper: plans for equal devices: the %u of type %s, not the other %u", s->use.n,
		       best->type, all.n - s->use.n);
}

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct piper *s = state;
	double none_s, per_byte_s;

	mq_blocks_make(problem->q->model, problem->arena, &s->blocks);
	choose_kind(s, problem);
	s->per_machine = mq_devices_least_per_machine(problem->q->cluster, s->use.rank, s->use.n);
	s->memory_B = mq_room_B(problem, s->use.rank[0]);
	s->bytes_per_s = 1e12;
	if (s->use.n > 1) {
		uint32_t far = s->use.rank[s->per_machine < s->use.n ? s->per_machine : 1];

		if (!mq_transfer_line(problem, s->use.rank[0], far, 1e8, &none_s, &per_byte_s))
			return mq_bad(err, "engine 'piper': no route joins the first devices of '%s'",
				      problem->q->cluster->name);
		s->bytes_per_s = 1 / fmax(1e-20, per_byte_s);
	}
	if (problem->limits->fix_tp > s->per_machine)
		return mq_bad(err, "engine 'piper': --fix tp=%u, but tensor groups stay inside a machine of %u devices",
			      problem->limits->fix_tp, s->per_machine);
	s->n_rounds = mq_powers_dividing(floor(problem->q->train->batch), INFINITY, s->size);
	return MQ_OK;
}

static void set_choice(const struct piper *s, const struct mq_problem *problem, uint32_t block, uint32_t tp,
		       double samples, bool recompute, struct mq_piper_choice *c)
{
	double held, saved, forward;

	c->time = mq_block_time(problem, &s->blocks, block, s->use.rank, tp, samples);
	c->parameters = mq_block_gradient_B(problem, &s->blocks, block, tp);
	mq_block_memory(problem, &s->blocks, block, tp, samples, recompute ? MQ_RECOMPUTE_FULL : MQ_RECOMPUTE_NONE,
			&held, &saved);
	c->memory_a = saved;
	c->memory_b = held;
	if (!recompute)
		return;
	/* the forward pass, a third of the work, runs again */
	forward = c->time / 3;
	mq_block_memory(problem, &s->blocks, block, tp, samples, MQ_RECOMPUTE_NONE, &held, &saved);
	c->memory_b += saved; /* one micro-batch has all its activations while it runs */
	c->time += forward;
}

static void set_nodes(const struct piper *s, const struct mq_problem *problem, double samples, struct mq_arena *arena,
		      struct mq_piper *p)
{
	uint32_t most = s->max_tp ? s->max_tp : s->per_machine;
	double width = mq_dtype_size(problem->q->train->dtype);

	p->n_nodes = s->blocks.n;
	p->n_edges = s->blocks.n_edges;
	p->node = mq_arena_array(arena, p->n_nodes, struct mq_piper_node);
	p->edge = mq_arena_array(arena, p->n_edges, struct mq_piper_edge);
	p->degree = mq_arena_array(arena, 32, uint32_t);
	for (uint32_t t = 1; t <= most && t <= s->per_machine; t *= 2)
		if (mq_degree_allowed(problem->limits->fix_tp, problem->limits->max_tp, t))
			p->degree[p->n_degrees++] = t;
	for (uint32_t e = 0; e < p->n_edges; e++)
		p->edge[e] = (struct mq_piper_edge){ s->blocks.edge[e].src, s->blocks.edge[e].dst,
						     s->blocks.edge[e].elems * samples * width };
	for (uint32_t v = 0; v < p->n_nodes; v++) {
		struct mq_piper_node *node = &p->node[v];
		uint32_t *touching = mq_arena_array(arena, p->n_edges, uint32_t);
		bool layer = problem->q->model->op[s->blocks.op[s->blocks.first[v]]].layer != MQ_NONE;

		for (uint32_t e = 0; e < p->n_edges; e++)
			if (p->edge[e].src == v || p->edge[e].dst == v)
				touching[node->n_edges++] = e;
		double *sync = mq_arena_array(arena, node->n_edges, double);

		node->name = layer ? "layer" : problem->q->model->op[s->blocks.op[s->blocks.first[v]]].name;
		node->edge = touching;
		node->n_choices = mq_arena_array(arena, p->n_degrees, uint32_t);
		node->choice = mq_arena_array(arena, p->n_degrees, struct mq_piper_choice *);
		for (uint32_t t = 0; t < p->n_degrees; t++) {
			node->n_choices[t] = layer && !problem->q->train->infer ? 2 : 1;
			node->choice[t] = mq_arena_array(arena, 2, struct mq_piper_choice);
			for (uint32_t c = 0; c < node->n_choices[t]; c++) {
				node->choice[t][c].sync = sync;
				set_choice(s, problem, v, p->degree[t], samples, c == 1, &node->choice[t][c]);
			}
		}
	}
}

static void make_plan(const struct piper *s, const struct mq_problem *problem, const struct mq_piper *p,
		      const struct mq_piper_result *r, struct mq_arena *arena, struct mq_plan *plan)
{
	uint32_t used = 0, most = 1;

	mq_plan_init(plan, arena, problem->q->model->n_ops);
	plan->pipeline = r->n_stages > 1 && !problem->q->train->infer ? MQ_PIPE_1F1B : MQ_PIPE_GPIPE;
	for (uint32_t i = 0; i < r->n_stages; i++) {
		const struct mq_piper_stage *stage = &r->stage[i];

		most = stage->d > most ? stage->d : most;
		for (uint32_t l = 0; l < stage->n_nodes; l++) {
			struct mq_spot spot = { .n_devices = stage->d * stage->t,
						.device = s->use.rank + used,
						.stage = i,
						.tp = stage->t,
						.recompute = stage->choice[l] ? MQ_RECOMPUTE_FULL : MQ_RECOMPUTE_NONE };
			uint32_t block = stage->node[l];

			for (uint32_t k = s->blocks.first[block]; k < s->blocks.first[block + 1]; k++)
				mq_plan_put(plan, problem, s->blocks.op[k], &spot, arena);
		}
		used += stage->d * stage->t;
	}
	plan->micro_batches = p->micro_batches / most ? p->micro_batches / most : 1;
	plan->engine_objective = r->time;
	plan->engine_unit = "s per micro-batch";
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct piper *s = state;

	while (s->round < s->n_rounds) {
		double samples = s->size[s->round++];
		struct mq_stage_limits limits = mq_stage_limits(problem->limits, s->use.n);
		struct mq_piper p = { .devices = limits.devices,
				      .only_d = limits.dp,
				      .most_d = limits.most_dp,
				      .width = limits.width,
				      .memory = s->memory_B,
				      .bandwidth = s->bytes_per_s,
				      .micro_batches = (uint32_t)(floor(problem->q->train->batch) / samples),
				      .max_ideals = s->ideals,
				      .tick = mq_tick_hook,
				      .tick_context = &problem };
		struct mq_piper_result r;

		set_nodes(s, problem, samples, arena, &p);
		MQ_TRY(mq_piper_solve(&p, arena, &r, err));
		if (r.stopped)
			return MQ_DONE;
		if (isinf(r.time))
			continue; /* no stage fits at this micro-batch size */
		make_plan(s, problem, &p, &r, arena, plan);
		return MQ_OK;
	}
	return MQ_DONE;
}

MQ_ENGINE(piper) = {
	MQ_ENGINE_HEAD("piper"),
	.summary = "stages with data and tensor degrees and recomputation, over downsets (Piper)",
	.paper = "Tarnawski et al., Piper, NeurIPS 2021",
	MQ_ENGINE_OWN(struct piper),
	.lacks = MQ_LACKS_CP | MQ_LACKS_EP | MQ_LACKS_VIRTUAL | MQ_LACKS_SHAPES,
	.solve = solve,
	.accepts = mq_piper_probe,
};
