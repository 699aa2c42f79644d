/* pipedream.c - PipeDream's optimizer: replicated stages along the layers of a model, on one or two levels of bandwidth
 * (Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", SOSP 2019). Formulation and
 * complexity: pipedream/dp.h.
 *
 * `maquette solve X.graph.txt -e pipedream:machines=16,bandwidth=3.125` solves a profile in the published format. In a
 * search, layers are the model's blocks with times from the cost queries, the inner level is a machine of the cluster
 * and the outer level the machines, with bandwidths of a large transfer; it proposes one plan per number of
 * micro-batches.
 *
 * Assumes equal machines: on mixed clusters it takes the slowest device's times. Not modelled by it: memory, fill and
 * drain (its runtime is asynchronous), tensor splits. All devices are used.
 *
 * A layer graph with more ideals than the option allows is refused. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "maquette/engine.h"
#include "lib/blocks.h"
#include "pipedream/dp.h"
#include "lib/plans.h"

struct pipedream {
	uint32_t machines, outer_machines, ideals, micro_batches;
	double bandwidth, outer_bandwidth;
	bool transfers, flat;
	/* search */
	struct mq_devices devices;
	struct mq_blocks blocks;
	uint32_t per_machine, n_machines;
	uint32_t round, n_rounds, sizes[24];
};

static const struct mq_opt opts[] = {
	MQ_U32(struct pipedream, machines, 16, 1, 65536, "solve: workers of the (inner) level"),
	MQ_F64(struct pipedream, bandwidth, 3.125, 1e-6, 1e6, "solve: bandwidth between them, GB/s"),
	MQ_U32(struct pipedream, outer_machines, 1, 1, 65536, "solve: machines of the outer level"),
	MQ_F64(struct pipedream, outer_bandwidth, 1.25, 1e-6, 1e6, "solve: bandwidth between those, GB/s"),
	MQ_BOOL(struct pipedream, transfers, 1, "count activations that enter a stage"),
	MQ_BOOL(struct pipedream, flat, 0, "search: one level, at the bandwidth between machines"),
	MQ_U32(struct pipedream, ideals, 3000, 2, 20000, "refuse layer graphs with more ideals"),
	MQ_U32(struct pipedream, micro_batches, 0, 0, 1e6, "per step; 0 = powers of two in turn"),
	MQ_END
};

/* ---- solve -------------------------------------------------------------------------------------- */

/* The name of a layer of the stage that has no predecessor in it. */
static const char *first_layer(const struct mq_pipedream *p, const struct mq_pipedream_stage *stage)
{
	for (uint32_t i = 0; i < stage->n_layers; i++) {
		bool fed = false;

		for (uint32_t e = 0; e < p->n_edges; e++)
			for (uint32_t k = 0; p->dst[e] == stage->layer[i] && k < stage->n_layers; k++)
				fed = fed || p->src[e] == stage->layer[k];
		if (!fed)
			return p->layer[stage->layer[i]].name;
	}
	return "";
}

static enum mq_status solve(void *state, const char *path, const struct mq_problem *problem, struct mq_err *err)
{
	const struct pipedream *s = state;
	struct mq_pipedream p;
	struct mq_pipedream_result r;
	char shape[200] = "";
	size_t used = 0;

	MQ_TRY(mq_pipedream_load(path, problem->arena, &p, err));
	p.transfers = s->transfers;
	p.max_ideals = s->ideals;
	p.n_levels = s->outer_machines > 1 ? 2 : 1;
	p.level[0] = (struct mq_pipedream_level){ s->machines, s->bandwidth * 1e9 };
	p.level[1] = (struct mq_pipedream_level){ s->outer_machines, s->outer_bandwidth * 1e9 };
	MQ_TRY(mq_pipedream_solve(&p, problem->arena, &r, err));
	mq_say(problem, "optimum %.9g s per minibatch", r.time);
	mq_say(problem, "data-parallel %.9g s per minibatch", r.data_parallel);
	for (uint32_t i = 0; i < r.n_stages && used < sizeof(shape); i++)
		used += (size_t)snprintf(shape + used, sizeof(shape) - used, "%s%u", i ? "-" : "",
					 r.stage[i].inner * r.stage[i].outer);
	mq_say(problem, "configuration %s", shape);
	for (uint32_t i = 0; i < r.n_stages; i++)
		mq_say(problem, "stage %u: %u layers, from '%s', x %u", i, r.stage[i].n_layers,
		       first_layer(&p, &r.stage[i]), r.stage[i].inner * r.stage[i].outer);
	return MQ_OK;
}

/* ---- search ------------------------------------------------------------------------------------- */

/* Drops devices until all machines have as many as the smallest. */
static void count_machines(struct pipedream *s, const struct mq_problem *problem)
{
	const struct mq_cluster *cluster = problem->q->cluster;
	uint32_t *n = mq_arena_array(problem->arena, cluster->n_nodes, uint32_t), kept = 0;

	s->per_machine = UINT32_MAX;
	for (uint32_t i = 0; i < s->devices.n; i++)
		n[cluster->device[s->devices.rank[i]].node]++;
	for (uint32_t i = 0; i < cluster->n_nodes; i++) {
		if (n[i] && n[i] < s->per_machine)
			s->per_machine = n[i];
		s->n_machines += n[i] > 0;
		n[i] = 0;
	}
	for (uint32_t i = 0; i < s->devices.n; i++) {
		uint32_t rank = s->devices.rank[i];

		if (n[cluster->device[rank].node]++ < s->per_machine)
			s->devices.rank[kept++] = rank;
	}
	s->devices.n = kept;
}

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct pipedream *s = state;

	s->devices = mq_devices_usable(problem, problem->arena);
	mq_blocks_make(problem->q->model, problem->arena, &s->blocks);
	count_machines(s, problem);
	return mq_micro_batch_rounds(problem, "pipedream", s->micro_batches, 4096, s->sizes, &s->n_rounds, err);
}

/* Bandwidth of a large transfer, B/s; false: no route. */
static bool bandwidth(const struct mq_problem *problem, uint32_t a, uint32_t b, double *out)
{
	double latency_s, per_byte_s;

	if (!mq_transfer_line(problem, a, b, 1e8, &latency_s, &per_byte_s) || !(per_byte_s > 0))
		return false;
	*out = 1 / per_byte_s;
	return true;
}

static enum mq_status set_levels(const struct pipedream *s, const struct mq_problem *problem, struct mq_pipedream *p,
				 struct mq_err *err)
{
	const uint32_t *rank = s->devices.rank;
	struct mq_stage_limits l = mq_stage_limits(problem->limits, s->devices.n);
	bool kept = l.dp || l.most_dp || l.width; /* limits on replicas need a single level */
	bool two = s->n_machines > 1 && s->per_machine > 1 && !s->flat && !kept, fine = true;

	p->n_levels = two ? 2 : 1;
	p->only = l.dp ? l.dp : l.width;
	p->most = l.most_dp;
	p->level[0] = (struct mq_pipedream_level){ two  ? s->per_machine :
						   l.dp ? l.devices / l.dp * l.dp :
							  l.devices,
						   1e9 };
	p->level[1] = (struct mq_pipedream_level){ s->n_machines, 1e9 };
	if (two)
		fine = bandwidth(problem, rank[0], rank[1], &p->level[0].bandwidth) &&
		       bandwidth(problem, rank[0], rank[s->per_machine], &p->level[1].bandwidth);
	else if (s->devices.n > 1)
		fine = bandwidth(problem, rank[0], rank[s->n_machines > 1 ? s->per_machine : 1],
				 &p->level[0].bandwidth);
	if (!fine)
		return mq_bad(err, "engine 'pipedream': no route joins the first devices of '%s'",
			      problem->q->cluster->name);
	return MQ_OK;
}

/* Fills layers and edges; a layer's time is that of the slowest device type. */
static void set_layers(const struct pipedream *s, const struct mq_problem *problem, double samples,
		       struct mq_arena *arena, struct mq_pipedream *p)
{
	struct mq_pipedream_layer *layer = mq_arena_array(arena, s->blocks.n, struct mq_pipedream_layer);
	uint32_t *src = mq_arena_array(arena, s->blocks.n_edges, uint32_t);
	uint32_t *dst = mq_arena_array(arena, s->blocks.n_edges, uint32_t);
	double width = mq_dtype_size(problem->q->train->dtype);

	for (uint32_t b = 0; b < s->blocks.n; b++) {
		for (uint32_t i = 0; i < s->devices.n; i++) {
			const char *type = problem->q->cluster->device[s->devices.rank[i]].type;

			if (i && !strcmp(type, problem->q->cluster->device[s->devices.rank[i - 1]].type))
				continue;
			layer[b].time = fmax(layer[b].time,
					     mq_block_time(problem, &s->blocks, b, s->devices.rank + i, 1, samples));
		}
		layer[b].parameters = problem->q->train->infer ? 0 : mq_block_gradient_B(problem, &s->blocks, b, 1);
	}
	for (uint32_t e = 0; e < s->blocks.n_edges; e++) {
		const struct mq_block_edge *edge = &s->blocks.edge[e];

		src[e] = edge->src;
		dst[e] = edge->dst;
		layer[edge->src].output = fmax(layer[edge->src].output, edge->elems * samples * width);
	}
	p->n_layers = s->blocks.n;
	p->n_edges = s->blocks.n_edges;
	p->layer = layer;
	p->src = src;
	p->dst = dst;
}

/* Ranks of a stage: `inner` devices from `used` on, on each of `outer` machines from `machine` on. */
static void pick_devices(const struct pipedream *s, const struct mq_pipedream *p,
			 const struct mq_pipedream_stage *stage, uint32_t *used, uint32_t *machine, uint32_t *rank)
{
	uint32_t width = p->n_levels == 2 ? p->level[0].machines : 1, n = 0;

	for (uint32_t m = 0; m < stage->outer; m++)
		for (uint32_t i = 0; i < stage->inner; i++)
			rank[n++] = s->devices.rank[(*machine + m) * width + *used + i];
	*used += stage->inner;
	if (*used == width) { /* the next stages are on other machines */
		*used = 0;
		*machine += stage->outer;
	}
}

static void make_plan(const struct pipedream *s, const struct mq_problem *problem, const struct mq_pipedream *p,
		      const struct mq_pipedream_result *r, struct mq_arena *arena, struct mq_plan *plan)
{
	uint32_t used = 0, machine = 0;

	mq_plan_init(plan, arena, problem->q->model->n_ops);
	plan->pipeline = r->n_stages > 1 && !problem->q->train->infer ? MQ_PIPE_1F1B : MQ_PIPE_GPIPE;
	for (uint32_t i = 0; i < r->n_stages; i++) {
		const struct mq_pipedream_stage *stage = &r->stage[i];
		struct mq_spot spot = { .n_devices = stage->inner * stage->outer, .stage = i, .tp = 1 };
		uint32_t *rank = mq_arena_array(arena, spot.n_devices, uint32_t);

		pick_devices(s, p, stage, &used, &machine, rank);
		spot.device = rank;
		for (uint32_t l = 0; l < stage->n_layers; l++)
			for (uint32_t k = s->blocks.first[stage->layer[l]]; k < s->blocks.first[stage->layer[l] + 1];
			     k++)
				mq_plan_put(plan, problem, s->blocks.op[k], &spot, arena);
	}
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct pipedream *s = state;
	struct mq_pipedream p;
	struct mq_pipedream_result r;

	while (s->round < s->n_rounds) {
		uint32_t micro_batches = s->sizes[s->round++], most = 1;
		double samples = problem->q->train->batch / micro_batches;

		p = (struct mq_pipedream){ .transfers = s->transfers, .max_ideals = s->ideals };
		MQ_TRY(set_levels(s, problem, &p, err));
		set_layers(s, problem, samples, arena, &p);
		MQ_TRY(mq_pipedream_solve(&p, arena, &r, err));
		for (uint32_t i = 0; i < r.n_stages; i++)
			if (r.stage[i].inner * r.stage[i].outer > most)
				most = r.stage[i].inner * r.stage[i].outer;
		if (most > samples || isinf(r.time)) /* a replica without a sample, or no plan within the limits */
			continue;
		make_plan(s, problem, &p, &r, arena, plan);
		plan->micro_batches = micro_batches;
		plan->engine_objective = r.time;
		plan->engine_unit = "s per micro-batch";
		return MQ_OK;
	}
	return MQ_DONE;
}

MQ_ENGINE(pipedream) = {
	MQ_ENGINE_HEAD("pipedream"),
	.summary = "pipeline stages with replicas on one or two levels of bandwidth (PipeDream)",
	.paper = "Narayanan et al., PipeDream, SOSP 2019",
	MQ_ENGINE_OWN(struct pipedream),
	.lacks = MQ_LACKS_SPLITS | MQ_LACKS_SHAPES,
	.solve = solve,
	.accepts = mq_pipedream_probe,
};
