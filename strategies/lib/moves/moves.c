/* moves.c - see moves.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/moves/moves.h"

#include <math.h>
#include <stdlib.h>

#include "maquette/engine.h"
#include "lib/moves/degrees.h"
#include "lib/moves/switches.h"
#include "lib/plans.h"

enum kind {
	BOUNDARY,  /* a: stage, b: its neighbour that takes n layers (or ops) */
	MICRO,     /* a: micro-batches */
	SCHEDULE,  /* a: enum mq_pipeline */
	SYNC,      /* a: stage or MQ_NONE = all, b: enum mq_sync */
	RECOMPUTE, /* a: stage or MQ_NONE = all, b: enum mq_recompute */
	SWITCH,    /* a: enum mq_decision_id, b: which of its other values (switches.h) */
	OFFLOAD,   /* a: layers of each stage whose activations wait on the host; then none is computed again */
	SHARE,     /* a, b: batch coordinates, n: samples from a to b, in every stage of that degree */
	SWAP,      /* a, b: stages that exchange their devices */
	REVERSE,   /* the last stage's devices for the first */
	WIDTH,     /* a: stage that gives a replica's devices to stage b */
	EXCHANGE,  /* a, b: ranks that exchange all that they do */
	STRIDE,    /* a: the devices in use, in order, are dealt out anew: every a-th follows */
	DEGREES,   /* a: which factor of two (enum mq_factor), b: how the devices follow (enum order) */
	SPLIT,     /* a: op, b: how (enum way) */
	PLACE,     /* a: first op, n: how many go to device b, each whole */
	ALONE      /* what comes before the first layer has a stage of its own */
};

enum way { WAY_BATCH, WAY_OUT, WAY_IN, WAY_DUPLICATE, WAY_PS, N_WAYS };

enum { MOST_STEPS = 4, SMALL = 8 };

/* ---- what a plan is made of --------------------------------------------------------------------- */

struct view {
	uint32_t stages, ranks; /* ranks: stages / chunks per device */
	uint32_t *some;         /* [stages] a config of each with most devices */
	uint32_t *layers;       /* [stages] layers with an op there */
};

static uint32_t stage_of(const struct mq_plan *plan, uint32_t op)
{
	return plan->config[plan->config_of[op]].stage;
}

static uint32_t rank_of(const struct mq_plan *plan, const struct view *v, uint32_t stage)
{
	return mq_pipeline_rank((enum mq_pipeline)plan->pipeline, v->ranks, stage);
}

static void look(const struct mq_move_space *space, const struct mq_plan *plan, struct mq_arena *arena, struct view *v)
{
	const struct mq_model *m = space->problem->q->model;

	v->stages = mq_plan_stage_count(plan);
	v->ranks = v->stages / plan->virtual;
	v->some = mq_arena_none(arena, v->stages);
	v->layers = mq_arena_array(arena, v->stages, uint32_t);
	for (uint32_t op = 0; op < plan->n_ops; op++) {
		uint32_t s = stage_of(plan, op), c = plan->config_of[op];

		if (v->some[s] == MQ_NONE || plan->config[c].n_devices > plan->config[v->some[s]].n_devices)
			v->some[s] = c;
	}
	for (uint32_t l = 0; l < m->n_layers; l++)
		if (space->layer_first[l] < space->layer_first[l + 1])
			v->layers[stage_of(plan, space->layer_op[space->layer_first[l]])]++;
}

/* ---- the list ----------------------------------------------------------------------------------- */

struct list {
	struct mq_arena *arena;
	struct mq_move *move;
	uint32_t n, room;
};

static void add(struct list *l, enum kind kind, uint32_t a, uint32_t b, uint32_t n)
{
	struct mq_move move = { (uint8_t)kind, a, b, n };

	MQ_PUSH(l->arena, l->move, l->n, l->room, move);
}

static void list_stages(const struct mq_move_space *space, const struct mq_plan *plan, const struct view *v,
			struct list *l)
{
	bool layered = space->problem->q->model->n_layers > 0;

	for (uint32_t s = 0; s + 1 < v->stages && !space->both_ways; s++)
		for (uint32_t n = 1; n <= (layered ? 2u : 16u); n *= 2) {
			add(l, BOUNDARY, s, s + 1, n);
			add(l, BOUNDARY, s + 1, s, n);
		}
	/* the last stage's work to all stages before it, and back: one boundary alone only moves the peak */
	for (uint32_t end = 0; layered && v->stages > 2 && end < v->stages && !space->both_ways; end += v->stages - 1)
		for (uint32_t s = 0; s < v->stages; s++)
			if (s > end + 1 || s + 1 < end) {
				add(l, BOUNDARY, s, end, 1);
				add(l, BOUNDARY, end, s, 1);
			}
	for (uint32_t a = 0; a < v->ranks; a++)
		for (uint32_t b = a + 1; b < v->ranks; b++) {
			const struct mq_config *x = &plan->config[v->some[a]], *y = &plan->config[v->some[b]];

			if (x->n_devices == y->n_devices &&
			    space->classes.of[x->device[0]] != space->classes.of[y->device[0]])
				add(l, SWAP, a, b, 0);
		}
	if (v->ranks > 1)
		add(l, REVERSE, 0, 0, 0);
	for (uint32_t a = 0; a < v->ranks && v->ranks > 1 && plan->virtual == 1; a++)
		for (uint32_t b = 0; b < v->ranks; b++)
			if (a != b)
				add(l, WIDTH, a, b, 0);
}

/* Devices of one kind are not alike to each other: two may share a switch. Where a stage ends and the next one
 * begins, all pairs of small plans, and all devices dealt out with a stride. */
static void list_places(const struct mq_plan *plan, const struct view *v, struct list *l)
{
	uint32_t used = 0;

	for (uint32_t s = 0; s < v->ranks; s++)
		used += plan->config[v->some[s]].n_devices;
	for (uint32_t s = 0; s < v->ranks; s++)
		for (uint32_t t = s + 1; t < v->ranks; t++) {
			const struct mq_config *x = &plan->config[v->some[s]], *y = &plan->config[v->some[t]];
			bool all = used <= SMALL;

			if (!all && t != s + 1)
				continue;
			for (uint32_t i = all ? 0 : x->n_devices - 1; i < x->n_devices; i++)
				for (uint32_t k = 0; k < (all ? y->n_devices : 1u); k++)
					add(l, EXCHANGE, x->device[i], y->device[k], 0);
		}
	for (uint32_t n = 2; n < used && v->ranks > 1; n++)
		if (used % n == 0)
			add(l, STRIDE, n, 0, 0);
}

static void list_globals(const struct mq_move_space *space, const struct mq_plan *plan, const struct view *v,
			 struct list *l)
{
	double batch = space->problem->q->train->batch;
	int64_t m = plan->micro_batches;

	for (int step = 1, found = 0; step >= -1; step -= 2, found = 0)
		for (int64_t n = m + step; n >= 1 && n <= batch && n <= 4 * m && found < 2; n += step)
			if (fmod(batch, (double)n) == 0)
				add(l, MICRO, (uint32_t)n, 0, 0), found++;
	for (uint32_t p = 0; p < MQ_N_PIPELINES && v->stages > 1; p++)
		if (p != plan->pipeline && mq_pipeline_takes((enum mq_pipeline)p, plan->virtual) &&
		    mq_pipeline_is_v((enum mq_pipeline)p) == mq_pipeline_is_v((enum mq_pipeline)plan->pipeline))
			add(l, SCHEDULE, p, 0, 0);
	for (uint32_t f = 0; f < MQ_N_FACTORS; f++)
		for (uint32_t order = 0; order < MQ_N_ORDERS; order++)
			add(l, DEGREES, f, order, 0);
}

/* Activations that wait on the host in place of those computed again: of all layers but one, or half of them; and of
 * fewer, where some do. */
static void list_offload(const struct mq_move_space *space, const struct mq_plan *plan, const struct view *v,
			 struct list *l)
{
	const struct mq_config *first = &plan->config[v->some[0]];
	bool gpu = space->problem->q->cluster->device[first->device[0]].kind == MQ_GPU;
	uint32_t most = 0;

	for (uint32_t s = 0; s < v->stages; s++)
		most = v->layers[s] > most ? v->layers[s] : most;
	if (gpu && most > 1 && first->recompute != MQ_RECOMPUTE_NONE) {
		add(l, OFFLOAD, most - 1, 0, 0);
		if (most > 2)
			add(l, OFFLOAD, most / 2, 0, 0);
	}
	if (plan->explicit & MQ_EXPLICIT_OFFLOAD_LAYERS && plan->offload_layers)
		add(l, OFFLOAD, plan->offload_layers / 2, 0, 0);
}

static void list_choices(const struct mq_move_space *space, const struct mq_plan *plan, const struct view *v,
			 struct list *l)
{
	static const uint8_t syncs[] = { MQ_SYNC_ALLREDUCE, MQ_SYNC_ZERO1, MQ_SYNC_ZERO2, MQ_SYNC_ZERO3 };

	if (space->problem->q->train->infer)
		return;
	for (uint32_t i = 0; i < MQ_N_SYNCS; i++)
		add(l, SYNC, MQ_NONE, i, 0);
	for (uint32_t r = 0; r < MQ_N_RECOMPUTES; r++)
		if (r != MQ_RECOMPUTE_SELECTIVE || space->selective)
			add(l, RECOMPUTE, MQ_NONE, r, 0);
	list_offload(space, plan, v, l);
	for (uint32_t d = 0; d < MQ_N_DECISIONS; d++) {
		double value[MQ_SWITCH_VALUES];
		uint32_t n = mq_switch_values(space->problem, plan, (enum mq_decision_id)d, value);

		for (uint32_t i = 0; i < n; i++)
			add(l, SWITCH, d, i, 0);
	}
	for (uint32_t s = 0; s < v->ranks && v->ranks > 1; s++) {
		for (uint32_t i = 0; i < 4; i++)
			if (plan->config[v->some[s]].sync != syncs[i] &&
			    plan->config[v->some[s]].split[MQ_DIM_BATCH] > 1)
				add(l, SYNC, s, syncs[i], 0);
		for (uint32_t r = 0; r < MQ_N_RECOMPUTES; r++)
			if (plan->config[v->some[s]].recompute != r &&
			    (r != MQ_RECOMPUTE_SELECTIVE || space->selective))
				add(l, RECOMPUTE, s, r, 0);
	}
}

/* A forward pass whose ops are whole: runs of them, as branches of a graph are, on every other device. */
static void list_runs(const struct mq_move_space *space, const struct mq_plan *plan, struct list *l)
{
	uint32_t devices = space->problem->q->cluster->n_devices;
	bool whole = space->problem->q->train->infer && devices > 1 && devices <= SMALL;

	for (uint32_t i = 0; i < plan->n_configs; i++)
		whole = whole && plan->config[i].n_devices == 1 && plan->config[i].stage == 0;
	for (uint32_t n = 1; whole && n < plan->n_ops; n *= 2)
		for (uint32_t op = 0; op < plan->n_ops; op += n)
			for (uint32_t d = 0; d < devices; d++)
				if (plan->config[plan->config_of[op]].device[0] != d)
					add(l, PLACE, op, d, n);
}

/* Speed of a batch coordinate: of its slowest device. */
static double coordinate_speed(const struct mq_move_space *space, const struct mq_config *c, uint32_t i)
{
	uint32_t width = c->n_devices / c->split[MQ_DIM_BATCH];
	double least = INFINITY;

	for (uint32_t d = i * width; d < (i + 1) * width; d++)
		least = fmin(least, space->speed[space->classes.of[c->device[d]]]);
	return least;
}

/* From the replica that takes longest to the one that would then be done first, and to each other class. */
static void list_shares(const struct mq_move_space *space, const struct mq_plan *plan, const struct view *v,
			struct list *l)
{
	for (uint32_t s = 0; s < v->ranks; s++) {
		const struct mq_config *c = &plan->config[v->some[s]];
		uint32_t b = c->split[MQ_DIM_BATCH], from = 0, to = 0;
		double longest = -1, shortest = INFINITY, *samples = mq_arena_array(l->arena, b, double);

		mq_plan_samples(plan, c, space->problem->q->train, l->arena, samples);
		for (uint32_t i = 0; i < b; i++) {
			double n = samples[i];
			double speed = coordinate_speed(space, c, i);

			if (n / speed > longest && n > 1)
				longest = n / speed, from = i;
			if ((n + 1) / speed < shortest)
				shortest = (n + 1) / speed, to = i;
		}
		if (b < 2 || longest < 0 || from == to)
			continue;
		for (uint32_t n = 1; n <= MOST_STEPS; n *= 2)
			add(l, SHARE, from, to, n);
		add(l, SHARE, from, (from + 1) % b, 1);
		add(l, SHARE, (to + b - 1) % b, to, 1);
	}
}

bool mq_move_places(const struct mq_move *move)
{
	return move->kind == EXCHANGE || move->kind == STRIDE || move->kind == SWAP || move->kind == REVERSE;
}

const struct mq_move mq_move_alone = { .kind = ALONE };

bool mq_move_odd(const struct mq_move_space *space, const struct mq_move *move)
{
	return move->kind == SPLIT && space->problem->q->model->n_layers;
}

bool mq_move_quiet(const struct mq_move *move)
{
	return move->kind >= MICRO && move->kind <= OFFLOAD && move->kind != SYNC;
}

uint32_t mq_moves_list(const struct mq_move_space *space, const struct mq_plan *plan, struct mq_arena *arena,
		       struct mq_move **moves)
{
	struct list l = { .arena = arena };
	struct view v;

	look(space, plan, arena, &v);
	list_stages(space, plan, &v, &l);
	if (!space->problem->times) /* in a part devices are numbered as in the whole */
		list_places(plan, &v, &l);
	list_globals(space, plan, &v, &l);
	list_choices(space, plan, &v, &l);
	list_shares(space, plan, &v, &l);
	list_runs(space, plan, &l);
	for (uint32_t i = 0; i < space->n_heavy; i++)
		for (uint32_t w = 0; w < N_WAYS; w++)
			add(&l, SPLIT, space->heavy[i], w, 0);
	*moves = l.move;
	return l.n;
}

/* ---- boundaries --------------------------------------------------------------------------------- */

/* The config of an op that goes to the stage of `like`: as its peer has it there, else as it was on as many other
 * devices, else the batch divided over the stage. */
static bool take_over(const struct mq_move_space *space, struct mq_plan *plan, uint32_t op, uint32_t peer,
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

/* The layer of a stage nearest to the next (or previous) stage; MQ_NONE = none. */
static uint32_t edge_layer(const struct mq_move_space *space, const struct mq_plan *plan, uint32_t stage, bool last)
{
	uint32_t layers = space->problem->q->model->n_layers, found = MQ_NONE;

	for (uint32_t l = 0; l < layers; l++) {
		if (space->layer_first[l] == space->layer_first[l + 1] ||
		    stage_of(plan, space->layer_op[space->layer_first[l]]) != stage)
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

		if (!take_over(space, plan, space->layer_op[space->layer_first[l] + i], peer, like, arena))
			return false;
	}
	return true;
}

/* In models without layers: n ops at the end (or the start) of the stage. */
static bool move_ops(const struct mq_move_space *space, struct mq_plan *plan, uint32_t from, uint32_t to, uint32_t n,
		     const struct mq_config *like, struct mq_arena *arena)
{
	uint32_t moved = 0;

	for (uint32_t i = 0; i < plan->n_ops && moved < n; i++) {
		uint32_t op = to > from ? plan->n_ops - 1 - i : i;

		if (stage_of(plan, op) != from)
			continue;
		if (!take_over(space, plan, op, MQ_NONE, like, arena))
			return false;
		moved++;
	}
	return moved == n;
}

/* Between stages that are no neighbours one layer is handed on from each to the next. */
static bool boundary(const struct mq_move_space *space, struct mq_plan *plan, const struct mq_move *move,
		     const struct view *v, struct mq_arena *arena)
{
	int step = move->b > move->a ? 1 : -1;

	for (uint32_t s = move->a; s != move->b; s = (uint32_t)((int)s + step)) {
		uint32_t to = (uint32_t)((int)s + step);
		struct mq_config like = plan->config[v->some[to]];

		if (!space->problem->q->model->n_layers) {
			if (!move_ops(space, plan, s, to, move->n, &like, arena))
				return false;
			continue;
		}
		for (uint32_t n = 0; n < move->n; n++)
			if (!move_layer(space, plan, s, to, &like, arena))
				return false;
	}
	return true;
}

/* ---- the other moves ------------------------------------------------------------------------------ */

static bool share(const struct mq_move_space *space, struct mq_plan *plan, const struct mq_move *move,
		  struct mq_arena *arena)
{
	uint32_t b = 0;
	bool any = false;

	for (uint32_t i = 0; i < plan->n_configs; i++) {
		struct mq_config *c = &plan->config[i];

		b = c->split[MQ_DIM_BATCH];
		if (b <= move->a || b <= move->b || move->a == move->b)
			continue;
		double *count = mq_arena_array(arena, b, double);

		mq_plan_samples(plan, c, space->problem->q->train, arena, count);
		if (count[move->a] <= move->n)
			return false;
		count[move->a] -= move->n;
		count[move->b] += move->n;
		c->share = count;
		any = true;
	}
	return any;
}

/* Exchanges the devices of two ranks of the pipeline, in all their chunks. */
static bool swap(struct mq_plan *plan, const struct view *v, uint32_t a, uint32_t b)
{
	uint32_t n = plan->config[v->some[a]].n_devices;
	uint32_t *of_a = plan->config[v->some[a]].device, *of_b = plan->config[v->some[b]].device;

	for (uint32_t i = 0; i < plan->n_configs; i++) {
		uint32_t rank = rank_of(plan, v, plan->config[i].stage);

		if ((rank == a || rank == b) && plan->config[i].n_devices != n)
			return false;
	}
	for (uint32_t i = 0; i < plan->n_configs; i++) {
		uint32_t rank = rank_of(plan, v, plan->config[i].stage);

		if (rank != a && rank != b)
			continue;
		/* chunks and splits of one rank list the same devices in the same order */
		plan->config[i].device = rank == a ? of_b : of_a;
	}
	return true;
}

static bool stride(const struct mq_move_space *space, struct mq_plan *plan, uint32_t every, struct mq_arena *arena)
{
	uint32_t n = space->problem->q->cluster->n_devices, used = 0;
	uint32_t *to = mq_arena_count(arena, n), *rank = mq_arena_array(arena, n, uint32_t);
	bool *seen = mq_arena_array(arena, n, bool);

	for (uint32_t i = 0; i < plan->n_configs; i++)
		for (uint32_t d = 0; d < plan->config[i].n_devices; d++)
			seen[plan->config[i].device[d]] = true;
	for (uint32_t d = 0; d < n; d++)
		if (seen[d])
			rank[used++] = d;
	if (used % every)
		return false;
	for (uint32_t i = 0; i < used; i++)
		to[rank[i]] = rank[i % every * (used / every) + i / every];
	mq_plan_rename(plan, to, arena);
	return true;
}

/* Devices of one replica of a stage; 0 where its configs are not all batch x rest. */
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

static bool width(struct mq_plan *plan, const struct view *v, uint32_t a, uint32_t b, struct mq_arena *arena)
{
	const struct mq_config *x = &plan->config[v->some[a]], *y = &plan->config[v->some[b]];
	uint32_t give = replica_width(plan, a), take = replica_width(plan, b), left, n;

	if (!give || !take || x->n_devices <= give || give % take)
		return false;
	left = x->n_devices - give;
	n = y->n_devices + give;
	uint32_t *more = mq_arena_array(arena, n, uint32_t), *fewer = mq_arena_array(arena, left, uint32_t);

	/* the replica next to the other stage */
	memcpy(fewer, a < b ? x->device : x->device + give, left * sizeof(*fewer));
	memcpy(a < b ? more + give : more, y->device, y->n_devices * sizeof(*more));
	memcpy(a < b ? more : more + y->n_devices, a < b ? x->device + left : x->device, give * sizeof(*more));
	set_width(plan, a, left, fewer, give);
	set_width(plan, b, n, more, take);
	return true;
}

/* On the first device of the first stage, whose replicas then exchange no gradients of an embedding. */
static bool alone(const struct mq_move_space *space, struct mq_plan *plan, struct mq_arena *arena)
{
	struct mq_config c = plan->config[plan->config_of[0]];
	bool can = plan->virtual == 1 && replica_width(plan, 0) == 1 && c.n_devices > 1;
	uint32_t op = 0;

	for (uint32_t i = 0; can && i < plan->n_configs; i++) {
		struct mq_config *x = &plan->config[i];

		if (x->stage++)
			continue;
		x->n_devices = --x->split[MQ_DIM_BATCH];
		x->device++;
		x->share = NULL;
	}
	c.n_devices = c.split[MQ_DIM_BATCH] = 1;
	c.share = NULL;
	for (; can && op < plan->n_ops && space->problem->q->model->op[op].layer == MQ_NONE; op++)
		plan->config_of[op] = mq_plan_intern(plan, &c, arena);
	return op > 0 && op < plan->n_ops;
}

/* Another split of one op over its stage's devices. */
static bool split(const struct mq_move_space *space, struct mq_plan *plan, const struct view *v, uint32_t op,
		  enum way way, struct mq_arena *arena)
{
	static const int dim[] = { MQ_DIM_BATCH, MQ_DIM_OUT, MQ_DIM_IN };
	const struct mq_op *o = &space->problem->q->model->op[op];
	struct mq_config c = plan->config[plan->config_of[op]];
	const struct mq_config *all = &plan->config[v->some[c.stage]];

	if (way >= WAY_DUPLICATE) {
		if (c.split[MQ_DIM_BATCH] == 1)
			return false;
		c.sync = way == WAY_PS ? MQ_SYNC_PS : MQ_SYNC_DUPLICATE;
	} else {
		if (!(o->splits & 1u << dim[way]))
			return false;
		for (int d = 0; d < MQ_N_DIMS; d++)
			c.split[d] = 1;
		c.n_devices = all->n_devices;
		c.device = all->device;
		c.split[dim[way]] = all->n_devices;
		c.share = way == WAY_BATCH && all->split[MQ_DIM_BATCH] == all->n_devices ? all->share : NULL;
		c.sync = all->sync;
	}
	plan->config_of[op] = mq_plan_intern(plan, &c, arena);
	return true;
}

/* Moves may be applied to other plans than the one they were listed for. */
static bool switch_to(const struct mq_move_space *space, struct mq_plan *plan, enum mq_decision_id id, uint32_t which)
{
	double value[MQ_SWITCH_VALUES];

	if (which >= mq_switch_values(space->problem, plan, id, value))
		return false;
	mq_switch_set(space->problem, plan, id, value[which]);
	return true;
}

static bool edit(const struct mq_move_space *space, struct mq_plan *plan, const struct mq_move *move,
		 const struct view *v, struct mq_arena *arena)
{
	uint32_t *to, device = move->b;

	switch ((enum kind)move->kind) {
	case BOUNDARY:
		return boundary(space, plan, move, v, arena);
	case MICRO:
		plan->micro_batches = move->a;
		return true;
	case SCHEDULE:
		plan->pipeline = (uint8_t)move->a;
		return true;
	case SYNC:
	case RECOMPUTE:
		for (uint32_t i = 0; i < plan->n_configs; i++)
			if (move->a == MQ_NONE || rank_of(plan, v, plan->config[i].stage) == move->a)
				*(move->kind == SYNC ? &plan->config[i].sync : &plan->config[i].recompute) =
					(uint8_t)move->b;
		return true;
	case SWITCH:
		return switch_to(space, plan, (enum mq_decision_id)move->a, move->b);
	case OFFLOAD:
		plan->explicit |= MQ_EXPLICIT_OFFLOAD_LAYERS;
		plan->offload_layers = move->a;
		for (uint32_t i = 0; i < plan->n_configs; i++)
			plan->config[i].recompute = MQ_RECOMPUTE_NONE;
		return true;
	case SHARE:
		return share(space, plan, move, arena);
	case SWAP:
		return swap(plan, v, move->a, move->b);
	case REVERSE:
		for (uint32_t a = 0; a < v->ranks / 2; a++)
			if (!swap(plan, v, a, v->ranks - 1 - a))
				return false;
		return true;
	case WIDTH:
		return width(plan, v, move->a, move->b, arena);
	case EXCHANGE:
		to = mq_arena_count(arena, space->problem->q->cluster->n_devices);
		to[move->a] = move->b;
		to[move->b] = move->a;
		mq_plan_rename(plan, to, arena);
		return true;
	case STRIDE:
		return stride(space, plan, move->a, arena);
	case SPLIT:
		return split(space, plan, v, move->a, (enum way)move->b, arena);
	case PLACE:
		for (uint32_t op = move->a; op < plan->n_ops && op - move->a < move->n; op++) {
			struct mq_config c = { .n_devices = 1, .device = &device, .split = MQ_UNSPLIT };

			plan->config_of[op] = mq_plan_intern(plan, &c, arena);
		}
		return true;
	case ALONE:
		return alone(space, plan, arena);
	case DEGREES:
		break;
	}
	return false;
}

static bool sound(const struct mq_move_space *space, struct mq_plan *plan)
{
	const struct mq_question *q = space->problem->q;
	const struct mq_limits *limits = space->problem->limits;
	struct mq_err none = MQ_ERR_INIT;
	char message[256];

	plan->engine_objective = NAN;
	mq_limits_apply(limits, plan, q->train);
	return mq_plan_check(plan, q->model, q->cluster, q->train, &none) == MQ_OK &&
	       mq_limits_hold(limits, plan, q->train, message, sizeof(message)) &&
	       mq_software_runs(mq_software_of(space->problem), q, plan, message, sizeof(message));
}

bool mq_move_like(const struct mq_move_space *space, const struct mq_plan *plan, const struct mq_plan *other,
		  struct mq_arena *arena, struct mq_plan *out)
{
	mq_plan_copy(out, plan, arena);
	out->micro_batches = other->micro_batches;
	for (uint32_t i = 0; i < out->n_configs; i++)
		if (out->config[i].split[MQ_DIM_BATCH] > 1)
			out->config[i].sync = other->config[0].sync;
	mq_switches_like(space->problem, out, other);
	mq_plan_compact(out, arena);
	return sound(space, out);
}

bool mq_move_apply(const struct mq_move_space *space, const struct mq_plan *plan, const struct mq_move *move,
		   struct mq_arena *arena, struct mq_plan *out)
{
	struct view v;

	if (move->kind == DEGREES) {
		if (!mq_move_degrees(space, plan, (enum mq_factor)move->a, (enum mq_order)move->b, arena, out))
			return false;
	} else {
		mq_plan_copy(out, plan, arena);
		look(space, out, arena, &v);
		if (!edit(space, out, move, &v, arena))
			return false;
		mq_plan_compact(out, arena);
	}
	return sound(space, out);
}
