/* stages.c - see stages.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/moves/stages.h"

#include <math.h>

uint32_t mq_stages_of_op(const struct mq_plan *plan, uint32_t op)
{
	return plan->config[plan->config_of[op]].stage;
}

void mq_stages_look(const struct mq_move_space *space, const struct mq_plan *plan, struct mq_arena *arena,
		    struct mq_stages *v)
{
	const struct mq_model *m = space->problem->q->model;

	v->stages = mq_plan_stage_count(plan);
	v->ranks = v->stages / plan->virtual;
	v->some = mq_arena_none(arena, v->stages);
	v->layers = mq_arena_array(arena, v->stages, uint32_t);
	for (uint32_t op = 0; op < plan->n_ops; op++) {
		uint32_t s = mq_stages_of_op(plan, op), c = plan->config_of[op];

		if (v->some[s] == MQ_NONE || plan->config[c].n_devices > plan->config[v->some[s]].n_devices)
			v->some[s] = c;
	}
	for (uint32_t l = 0; l < m->n_layers; l++)
		if (space->layer_first[l] < space->layer_first[l + 1])
			v->layers[mq_stages_of_op(plan, space->layer_op[space->layer_first[l + 1] - 1])]++;
}

double mq_stages_speed(const struct mq_move_space *space, const struct mq_config *c, uint32_t i)
{
	uint32_t width = c->n_devices / c->split[MQ_DIM_BATCH];
	double least = INFINITY;

	for (uint32_t d = i * width; d < (i + 1) * width; d++)
		least = fmin(least, space->speed[space->classes.of[c->device[d]]]);
	return least;
}

/* ---- boundaries --------------------------------------------------------------------------------- */

/* Gives an op a config on the stage of `like`: that of its peer there if both are of one kind, else its own split if
 * the number of devices is the same, else the batch split over them. False: it has another split. */
static bool adopt_config(const struct mq_move_space *space, struct mq_plan *plan, uint32_t op, uint32_t peer,
			 const struct mq_config *like, struct mq_arena *arena)
{
	const struct mq_op *o = space->problem->q->model->op;
	struct mq_config c = plan->config[plan->config_of[op]];

	if (peer != MQ_NONE && o[peer].kind == o[op].kind && o[peer].splits == o[op].splits) {
		plan->config_of[op] = plan->config_of[peer];
		return true;
	}
	uint32_t others = c.n_devices / c.split[MQ_DIM_BATCH];

	if (c.n_devices != like->n_devices) {
		if (others != 1)
			return false;
		bool divided = o[op].splits & 1u << MQ_DIM_BATCH;

		c.n_devices = divided ? like->n_devices : 1;
		c.split[MQ_DIM_BATCH] = c.n_devices;
	}
	c.device = like->device;
	c.stage = like->stage;
	c.sync = like->sync;
	c.recompute = like->recompute;
	c.share = c.split[MQ_DIM_BATCH] == like->split[MQ_DIM_BATCH] ? like->share : NULL;
	plan->config_of[op] = mq_plan_intern(plan, &c, arena);
	return true;
}

/* The last (or first) layer of a stage; MQ_NONE = none. */
static uint32_t edge_layer(const struct mq_move_space *space, const struct mq_plan *plan, uint32_t stage, bool last)
{
	uint32_t layers = space->problem->q->model->n_layers, found = MQ_NONE;

	for (uint32_t l = 0; l < layers; l++) {
		if (space->layer_first[l] == space->layer_first[l + 1] ||
		    mq_stages_of_op(plan, space->layer_op[space->layer_first[l + 1] - 1]) != stage)
			continue;
		found = l;
		if (!last)
			break;
	}
	return found;
}

static bool move_layer(const struct mq_move_space *space, struct mq_plan *plan, uint32_t from, uint32_t to,
		       const struct mq_config *like, struct mq_arena *arena)
{
	uint32_t l = edge_layer(space, plan, from, to > from), r = edge_layer(space, plan, to, to < from);

	if (l == MQ_NONE)
		return false;
	uint32_t n = space->layer_first[l + 1] - space->layer_first[l];
	bool alike = r != MQ_NONE && n == space->layer_first[r + 1] - space->layer_first[r];

	for (uint32_t i = 0; i < n; i++) {
		uint32_t peer = alike ? space->layer_op[space->layer_first[r] + i] : MQ_NONE;

		if (!adopt_config(space, plan, space->layer_op[space->layer_first[l] + i], peer, like, arena))
			return false;
	}
	return true;
}

/* For models without layers: moves n ops from the end (or start) of a stage. */
static bool move_ops(const struct mq_move_space *space, struct mq_plan *plan, uint32_t from, uint32_t to, uint32_t n,
		     const struct mq_config *like, struct mq_arena *arena)
{
	uint32_t moved = 0;

	for (uint32_t i = 0; i < plan->n_ops && moved < n; i++) {
		uint32_t op = to > from ? plan->n_ops - 1 - i : i;

		if (mq_stages_of_op(plan, op) != from)
			continue;
		if (!adopt_config(space, plan, op, MQ_NONE, like, arena))
			return false;
		moved++;
	}
	return moved == n;
}

bool mq_stages_boundary(const struct mq_move_space *space, struct mq_plan *plan, uint32_t from, uint32_t goal,
			uint32_t layers, const struct mq_stages *v, struct mq_arena *arena)
{
	int step = goal > from ? 1 : -1;

	for (uint32_t s = from; s != goal; s = (uint32_t)((int)s + step)) {
		uint32_t to = (uint32_t)((int)s + step);
		struct mq_config like = plan->config[v->some[to]];

		if (!space->problem->q->model->n_layers) {
			if (!move_ops(space, plan, s, to, layers, &like, arena))
				return false;
			continue;
		}
		for (uint32_t n = 0; n < layers; n++)
			if (!move_layer(space, plan, s, to, &like, arena))
				return false;
	}
	return true;
}

/* ---- width, split and merge ------------------------------------------------------------------------ */

/* Devices per replica of a stage; 0 if its configs differ in that, or split experts. */
static uint32_t replica_width(const struct mq_plan *plan, uint32_t stage)
{
	uint32_t width = 0;

	for (uint32_t i = 0; i < plan->n_configs; i++) {
		const struct mq_config *c = &plan->config[i];

		if (c->stage != stage)
			continue;
		uint32_t w = c->n_devices / c->split[MQ_DIM_BATCH];

		if ((width && w != width) || c->split[MQ_DIM_EXPERT] > 1)
			return 0;
		width = w;
	}
	return width;
}

static void set_width(struct mq_plan *plan, uint32_t stage, uint32_t n, uint32_t *device, uint32_t width)
{
	for (uint32_t i = 0; i < plan->n_configs; i++) {
		struct mq_config *c = &plan->config[i];

		if (c->stage != stage)
			continue;
		c->n_devices = n;
		c->device = device;
		c->split[MQ_DIM_BATCH] = n / width;
		c->share = NULL;
	}
}

bool mq_stages_width(struct mq_plan *plan, const struct mq_stages *v, uint32_t a, uint32_t b, struct mq_arena *arena)
{
	const struct mq_config *x = &plan->config[v->some[a]], *y = &plan->config[v->some[b]];
	uint32_t give = replica_width(plan, a), take = replica_width(plan, b), left, n;

	if (!give || !take || x->n_devices <= give || give % take)
		return false;
	left = x->n_devices - give;
	n = y->n_devices + give;
	uint32_t *more = mq_arena_array(arena, n, uint32_t), *fewer = mq_arena_array(arena, left, uint32_t);

	/* gives the replica that is next to the other stage */
	memcpy(fewer, a < b ? x->device : x->device + give, left * sizeof(*fewer));
	memcpy(a < b ? more + give : more, y->device, y->n_devices * sizeof(*more));
	memcpy(a < b ? more : more + y->n_devices, a < b ? x->device + left : x->device, give * sizeof(*more));
	set_width(plan, a, left, fewer, give);
	set_width(plan, b, n, more, take);
	return true;
}

/* Speed of a stage: micro-batches per second if it held the whole model and its tensor parallelism were free. */
static double stage_speed(const struct mq_move_space *space, const struct mq_plan *plan, const struct mq_config *c,
			  struct mq_arena *arena)
{
	uint32_t b = c->split[MQ_DIM_BATCH];
	double *samples = mq_arena_array(arena, b, double), longest = 0, passes = 3;

	mq_plan_samples(plan, c, space->problem->q->train, arena, samples);
	for (uint32_t i = 0; i < b; i++)
		longest = fmax(longest, ceil(samples[i]) / mq_stages_speed(space, c, i));
	return c->n_devices / b / longest * passes / (passes + (c->recompute == MQ_RECOMPUTE_FULL));
}

bool mq_stages_deal(const struct mq_move_space *space, struct mq_plan *plan, struct mq_arena *arena)
{
	struct mq_layers layers = space->layers;
	uint32_t first = 0, n = 0;
	struct mq_stages v;

	mq_stages_look(space, plan, arena, &v);
	uint32_t *count = mq_arena_array(arena, v.stages, uint32_t);
	double *speed = mq_arena_array(arena, v.stages, double);

	while (!v.layers[first])
		first++;
	while (first + n < v.stages && v.layers[first + n]) {
		speed[n] = stage_speed(space, plan, &plan->config[v.some[first + n]], arena);
		n++;
	}
	int64_t over = 0, *flow = mq_arena_array(arena, v.stages, int64_t);
	bool can = true;

	layers.head_s = first ? 0 : layers.head_s;
	layers.tail_s = first + n < v.stages ? 0 : layers.tail_s;
	mq_layers_cut(&layers, speed, n, count);
	/* first pass: layers that go to the next stage; second pass, from the last stage: those that go back */
	for (uint32_t i = 0; i + 1 < n; i++) {
		over += (int64_t)v.layers[first + i] - count[i];
		flow[i] = over;
		if (over > 0)
			can = can &&
			      mq_stages_boundary(space, plan, first + i, first + i + 1, (uint32_t)over, &v, arena);
	}
	for (uint32_t i = n; i-- > 1;)
		if (flow[i - 1] < 0)
			can = can && mq_stages_boundary(space, plan, first + i, first + i - 1, (uint32_t)-flow[i - 1],
							&v, arena);
	return can;
}

bool mq_stages_divide(const struct mq_move_space *space, struct mq_plan *plan, uint32_t stage, uint32_t layers,
		      uint32_t replicas, struct mq_arena *arena)
{
	uint32_t width = replica_width(plan, stage), layer = edge_layer(space, plan, stage, false), n[2] = { 0 };
	bool inside = false;

	if (plan->virtual > 1 || !width || layer == MQ_NONE || (!layers && width > 1))
		return false;
	for (uint32_t i = 0; i < plan->n_configs; i++)
		plan->config[i].stage += plan->config[i].stage > stage;
	for (uint32_t op = 0; op < plan->n_ops; op++) {
		struct mq_config c = plan->config[plan->config_of[op]];
		uint32_t of = space->problem->q->model->op[op].layer, first = replicas * width;

		inside |= of != MQ_NONE;
		if (c.stage != stage)
			continue;
		bool late = of == MQ_NONE ? inside : of >= layer + layers;

		if (c.n_devices <= first)
			return false;
		n[late]++;
		c.stage += late;
		c.device += late ? first : 0;
		c.n_devices = late ? c.n_devices - first : first;
		c.split[MQ_DIM_BATCH] = c.n_devices / width;
		c.share = NULL;
		plan->config_of[op] = mq_plan_intern(plan, &c, arena);
	}
	return n[0] && n[1] && (!layers || mq_stages_deal(space, plan, arena));
}

bool mq_stages_merge(const struct mq_move_space *space, struct mq_plan *plan, const struct mq_stages *v, uint32_t a,
		     struct mq_arena *arena)
{
	const struct mq_config x = plan->config[v->some[a]], y = plan->config[v->some[a + 1]];
	uint32_t width = replica_width(plan, a), n = x.n_devices + y.n_devices;
	uint32_t *device = mq_arena_array(arena, n, uint32_t);

	if (!width || width != replica_width(plan, a + 1))
		return false;
	memcpy(device, x.device, x.n_devices * sizeof(*device));
	memcpy(device + x.n_devices, y.device, y.n_devices * sizeof(*device));
	for (uint32_t i = 0; i < plan->n_configs; i++) {
		struct mq_config *c = &plan->config[i];

		c->stage -= c->stage > a;
		c->sync = c->stage == a && x.n_devices < y.n_devices ? y.sync : c->stage == a ? x.sync : c->sync;
	}
	set_width(plan, a, n, device, width);
	return mq_stages_deal(space, plan, arena);
}
