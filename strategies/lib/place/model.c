/* model.c - see model.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/place/model.h"

#include <math.h>

#include "lib/plans.h"

/* One placement type per device type of the cluster, in order of first rank. */
static void collect_types(const struct mq_problem *problem, const struct mq_devices *devices, struct mq_arena *arena,
			  struct mq_place_model *out)
{
	struct mq_place_type *type = mq_arena_array(arena, devices->n, struct mq_place_type);

	out->type_name = mq_arena_array(arena, devices->n, const char *);
	out->rank = mq_arena_array(arena, devices->n, uint32_t *);
	out->place.type = type;
	for (uint32_t i = 0; i < devices->n; i++) {
		const struct mq_device *device = &problem->q->cluster->device[devices->rank[i]];
		uint32_t t = 0;

		while (t < out->place.n_types && strcmp(out->type_name[t], device->type))
			t++;
		if (t == out->place.n_types) {
			out->type_name[t] = device->type;
			type[t].own_memory = true;
			/* 5 % are reserved for communication buffers */
			type[t].memory = fmax(0, 0.95 * mq_room_B(problem, devices->rank[i]));
			out->rank[t] = mq_arena_array(arena, devices->n, uint32_t);
			out->place.n_types++;
		}
		out->rank[t][type[t].count++] = devices->rank[i];
	}
}

static uint32_t *colors_of(const struct mq_model *model, struct mq_arena *arena)
{
	uint32_t *color = mq_arena_array(arena, model->n_ops, uint32_t), fresh = 0;

	for (uint32_t op = 0; op < model->n_ops; op++)
		if (model->op[op].color != MQ_NONE && model->op[op].color >= fresh)
			fresh = model->op[op].color + 1;
	for (uint32_t op = 0; op < model->n_ops; op++)
		color[op] = model->op[op].color;
	/* an explicit backward op without a colour shares the device of its forward op */
	for (uint32_t op = 0; op < model->n_ops; op++) {
		uint32_t mate = model->op[op].mate;

		if (mate == MQ_NONE || mate >= model->n_ops)
			continue;
		if (color[op] == MQ_NONE && color[mate] == MQ_NONE)
			color[op] = fresh++;
		if (color[op] == MQ_NONE)
			color[op] = color[mate];
		if (color[mate] == MQ_NONE)
			color[mate] = color[op];
	}
	/* tied parameters are placed with their owner */
	for (uint32_t op = 0; op < model->n_ops; op++) {
		uint32_t owner = model->op[op].tied;

		if (owner == MQ_NONE || owner >= model->n_ops)
			continue;
		if (color[owner] == MQ_NONE)
			color[owner] = fresh++;
		if (color[op] == MQ_NONE)
			color[op] = color[owner];
	}
	return color;
}

/* Writable tables of a placement problem's ops (place.h). */
struct values {
	double *time, *size, *out_cost, *sync;
};

/* Fills the graph of a model; returns zeroed tables for its ops and the problem's types. */
static struct values make_graph(const struct mq_model *model, struct mq_arena *arena, struct mq_place *place)
{
	struct mq_place_edge *edge = mq_arena_array(arena, model->n_edges, struct mq_place_edge);
	bool *backward = mq_arena_array(arena, model->n_ops, bool);
	struct values v = { mq_arena_array(arena, model->n_ops * place->n_types, double),
			    mq_arena_array(arena, model->n_ops, double), mq_arena_array(arena, model->n_ops, double),
			    mq_arena_array(arena, model->n_ops, double) };

	for (uint32_t e = 0; e < model->n_edges; e++)
		edge[e] = (struct mq_place_edge){ model->edge[e].src, model->edge[e].dst };
	for (uint32_t op = 0; op < model->n_ops; op++)
		backward[op] = model->op[op].phase == MQ_BACKWARD;
	place->n_nodes = model->n_ops;
	place->n_edges = model->n_edges;
	place->edge = edge;
	place->backward = backward;
	place->color = colors_of(model, arena);
	place->time = v.time;
	place->size = v.size;
	place->out_cost = v.out_cost;
	place->sync = v.sync;
	return v;
}

/* For a graph that brings its own devices and times. */
static void from_own_devices(const struct mq_problem *problem, struct mq_arena *arena, struct mq_place_model *out)
{
	const struct mq_model *model = problem->q->model;
	const struct mq_profile *profile = &model->profile;
	uint32_t n_types = profile->n_types;
	struct mq_place_type *type = mq_arena_array(arena, n_types, struct mq_place_type);

	out->own_units = true;
	out->unit = "per sample, unit of the file";
	out->type_name = profile->type;
	out->rank = mq_arena_array(arena, n_types, uint32_t *);
	out->place.n_types = n_types;
	out->place.type = type;
	for (uint32_t t = 0; t < n_types; t++) {
		bool cpu = !strcmp(profile->type[t], "cpu");

		type[t].own_memory = !cpu;
		type[t].memory = cpu || model->devices.memory_B <= 0 ? (double)INFINITY : model->devices.memory_B;
		out->rank[t] = mq_arena_array(arena, problem->q->cluster->n_devices, uint32_t);
		for (uint32_t d = 0; d < problem->q->cluster->n_devices; d++)
			if (!strcmp(problem->q->cluster->device[d].type, profile->type[t]))
				out->rank[t][type[t].count++] = d;
	}
	struct values v = make_graph(model, arena, &out->place);

	for (uint32_t op = 0; op < model->n_ops; op++) {
		for (uint32_t i = op * n_types; i < (op + 1) * n_types; i++)
			v.time[i] = (profile->forward_s[i] + (profile->backward_s ? profile->backward_s[i] : 0)) /
				    model->devices.time_unit_s;
		v.size[op] = profile->memory_B ? profile->memory_B[op] : 0;
		v.out_cost[op] = model->op[op].output;
	}
}

/* Seconds to move `bytes` between consecutive devices, for the slowest such pair. */
static bool slowest_transfer(const struct mq_problem *problem, const struct mq_devices *devices, double bytes,
			     double *seconds)
{
	*seconds = 0;
	for (uint32_t i = 1; i < devices->n; i++) {
		const struct mq_device *a = &problem->q->cluster->device[devices->rank[i - 1]];
		const struct mq_device *b = &problem->q->cluster->device[devices->rank[i]];
		double s;

		/* one pair per node is measured */
		if (i > 1 && a->node == b->node && a->local > 0)
			continue;
		if (!problem->costs->transfer(problem->costs->context, devices->rank[i - 1], devices->rank[i], bytes,
					      &s))
			return false;
		*seconds = fmax(*seconds, s);
	}
	return true;
}

struct measure {
	const struct mq_problem *problem;
	double samples; /* per micro-batch */
	uint32_t in_flight, micro_batches;
	double latency_s, per_byte_s;
};

static void measure_op(const struct measure *m, const struct mq_place_model *model, uint32_t op, struct values *v)
{
	const struct mq_problem *problem = m->problem;
	const struct mq_costs *costs = problem->costs;
	uint32_t split[MQ_N_DIMS] = MQ_UNSPLIT, n_types = model->place.n_types;
	struct mq_op_memory memory;
	double width = mq_dtype_size(problem->q->train->dtype);
	bool train = !problem->q->train->infer, explicit = model->place.backward[op];

	for (uint32_t t = 0; t < n_types; t++) {
		enum mq_phase phase = explicit ? MQ_BACKWARD : MQ_FORWARD;
		double s = costs->op_time(costs->context, op, phase, model->rank[t][0], split, m->samples);

		if (train && !explicit && problem->q->model->op[op].mate == MQ_NONE)
			s += costs->op_time(costs->context, op, MQ_BACKWARD, model->rank[t][0], split, m->samples);
		v->time[op * n_types + t] = s;
	}
	costs->op_memory(costs->context, op, split, m->samples, MQ_SYNC_ALLREDUCE, 1, MQ_RECOMPUTE_NONE, &memory);
	v->size[op] = mq_op_static_B(&memory) + memory.kept_B * m->in_flight;
	v->out_cost[op] =
		problem->q->model->op[op].output > 0 ?
			(m->latency_s + problem->q->model->op[op].output * m->samples * width * m->per_byte_s) *
				(train ? 2 : 1) :
			0;
	v->sync[op] = train ? problem->q->model->op[op].param * width * m->per_byte_s / m->micro_batches : 0;
}

enum mq_status mq_place_from_problem(const struct mq_problem *problem, uint32_t micro_batches, uint32_t in_flight,
				     struct mq_arena *arena, struct mq_place_model *out, struct mq_err *err)
{
	const struct mq_model *model = problem->q->model;
	struct mq_devices devices = mq_devices_usable(problem, arena);
	struct measure m = { problem, problem->q->train->batch / micro_batches, in_flight, micro_batches, 0, 0 };
	double much_s;

	*out = (struct mq_place_model){ .micro_batches = micro_batches, .unit = "s per micro-batch" };
	if (model->devices.time_unit_s > 0 && model->devices.bw_Bps == 0) {
		from_own_devices(problem, arena, out);
		return MQ_OK;
	}
	collect_types(problem, &devices, arena, out);
	if (!slowest_transfer(problem, &devices, 0, &m.latency_s) || !slowest_transfer(problem, &devices, 1e6, &much_s))
		return mq_bad(err, "no route joins neighbouring devices of '%s': every device must reach the next",
			      problem->q->cluster->name);
	m.per_byte_s = (much_s - m.latency_s) / 1e6;
	struct values v = make_graph(model, arena, &out->place);

	for (uint32_t op = 0; op < model->n_ops; op++)
		measure_op(&m, out, op, &v);
	return MQ_OK;
}

/* ---- plans -------------------------------------------------------------------------------------- */

void mq_place_plan(const struct mq_place_model *m, struct mq_placement *placement, const struct mq_problem *problem,
		   struct mq_arena *arena, struct mq_plan *plan)
{
	if (!mq_placement_sort(&m->place, placement, arena)) {
		mq_place_plan_free(m, placement, problem, arena, plan);
		return;
	}
	mq_plan_init(plan, arena, problem->q->model->n_ops);
	plan->micro_batches = m->micro_batches;
	plan->pipeline = placement->n_stages > 1 && !problem->q->train->infer ? MQ_PIPE_1F1B : MQ_PIPE_GPIPE;
	for (uint32_t i = 0; i < placement->n_stages; i++) {
		const struct mq_place_stage *stage = &placement->stage[i];
		struct mq_spot spot = { .n_devices = stage->replicas,
					.stage = i,
					.tp = 1,
					.device = m->rank[stage->type] + stage->device };

		for (uint32_t v = 0; v < stage->n_nodes; v++)
			mq_plan_put(plan, problem, stage->node[v], &spot, arena);
	}
	plan->engine_unit = m->unit;
}

void mq_place_plan_free(const struct mq_place_model *m, const struct mq_placement *placement,
			const struct mq_problem *problem, struct mq_arena *arena, struct mq_plan *plan)
{
	uint32_t *device_of = mq_arena_array(arena, problem->q->model->n_ops, uint32_t);

	for (uint32_t s = 0; s < placement->n_stages; s++)
		for (uint32_t i = 0; i < placement->stage[s].n_nodes; i++)
			device_of[placement->stage[s].node[i]] =
				m->rank[placement->stage[s].type][placement->stage[s].device];
	mq_plan_from_placement(device_of, problem->q->model, arena, plan);
	plan->micro_batches = m->micro_batches;
	if (m->own_units) /* one sample per micro-batch, pipelined over the devices */
		plan->pipeline = MQ_PIPE_GPIPE;
	plan->engine_unit = m->unit;
}
