/* moves.c - see moves.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/moves/moves.h"

#include <math.h>

#include "maquette/engine.h"
#include "lib/moves/degrees.h"
#include "lib/moves/stages.h"
#include "lib/moves/switches.h"
#include "lib/plans.h"

enum kind {
	BOUNDARY,  /* a: stage that gives n layers (or ops), b: stage that gets them */
	MICRO,     /* a: micro-batches */
	SCHEDULE,  /* a: enum mq_pipeline */
	SYNC,      /* a: pipeline rank or MQ_NONE = all, b: enum mq_sync */
	RECOMPUTE, /* a: pipeline rank or MQ_NONE = all, b: enum mq_recompute */
	SWITCH,    /* a: enum mq_decision_id, b: index into mq_switch_values */
	OFFLOAD,   /* a: layers per stage whose activations are offloaded to the host, in place of recomputation */
	SHARE,     /* a, b: batch coordinates; n samples go from a to b, in every stage with these coordinates */
	SWAP,      /* a, b: pipeline ranks that exchange their devices */
	REVERSE,   /* reverses the order of devices over the pipeline */
	WIDTH,     /* a: stage that gives the devices of one replica to stage b */
	EXCHANGE,  /* a, b: devices that exchange their roles */
	STRIDE,    /* a: renumbers the devices in use with stride a */
	DEGREES,   /* a: enum mq_factor, b: enum mq_order */
	SPLIT,     /* a: op, b: enum way */
	PLACE,     /* a: first of n ops that go to device b, each unsplit */
	DIVIDE,    /* a: stage whose first b layers (and ops before them) become a stage on its first n replicas */
	MERGE,     /* a: stage merged with the next, on the devices of both */
	DEAL       /* balances layers by speed; a: 0 .. DEALS - 1, equal moves followed by different random descents */
};

enum way { WAY_BATCH, WAY_OUT, WAY_IN, WAY_DUPLICATE, WAY_PS, N_WAYS };

/* For every sharding of the states. */
enum relief { AS_SHARDED, SMALL_BUCKETS, SMALL_BATCHES, ON_HOST, COMPUTED_AGAIN, N_RELIEFS };
enum { MOST_STEPS = 4, SMALL = 8, DEALS = 2 };

static uint32_t rank_of(const struct mq_plan *plan, const struct mq_stages *v, uint32_t stage)
{
	return mq_pipeline_rank((enum mq_pipeline)plan->pipeline, v->ranks, stage);
}

/* ---- listing moves ------------------------------------------------------------------------------ */

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

static void list_stages(const struct mq_move_space *space, const struct mq_plan *plan, const struct mq_stages *v,
			struct list *l)
{
	bool layered = space->problem->q->model->n_layers > 0;

	for (uint32_t s = 0; s + 1 < v->stages && !space->both_ways; s++)
		for (uint32_t n = 1; n <= (layered ? 2u : 16u); n *= 2) {
			add(l, BOUNDARY, s, s + 1, n);
			add(l, BOUNDARY, s + 1, s, n);
		}
	/* from the last (or first) stage to any other and back: moving one boundary alone only shifts the peak */
	for (uint32_t end = 0; layered && v->stages > 2 && end < v->stages && !space->both_ways; end += v->stages - 1)
		for (uint32_t s = end != 0; s < v->stages; s++)
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
	for (uint32_t i = 0; layered && v->stages > 1 && i < DEALS; i++)
		add(l, DEAL, i, 0, 0);
	for (uint32_t s = 0; layered && s < v->stages && plan->virtual == 1; s++) {
		uint32_t replicas = plan->config[v->some[s]].split[MQ_DIM_BATCH], half = replicas / 2;
		uint32_t layers = half ? (v->layers[s] * half + half) / replicas : 0;

		if (layers && layers < v->layers[s])
			add(l, DIVIDE, s, layers, half);
		if (s + 1 < v->stages)
			add(l, MERGE, s, 0, 0);
	}
	if (v->ranks > 1)
		add(l, REVERSE, 0, 0, 0);
	for (uint32_t a = 0; a < v->ranks && v->ranks > 1 && plan->virtual == 1; a++)
		for (uint32_t b = 0; b < v->ranks; b++)
			if (a != b)
				add(l, WIDTH, a, b, 0);
}

/* Exchanges of devices, which matter even within a device class (two may share a switch): at the boundary of two
 * stages, all pairs in small plans, and strides over all devices. */
static void list_device_moves(const struct mq_plan *plan, const struct mq_stages *v, struct list *l)
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

static void list_globals(const struct mq_move_space *space, const struct mq_plan *plan, const struct mq_stages *v,
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
			if (f < TP_CP || f > CP_DP || mq_context_pays(space->problem))
				add(l, DEGREES, f, order, 0);
}

/* Offloading of activations in place of recomputation: all layers but one, or half of them; and fewer layers than now,
 * in case memory allows. */
static void list_offload(const struct mq_move_space *space, const struct mq_plan *plan, const struct mq_stages *v,
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
	for (uint32_t n = 1; plan->explicit & MQ_EXPLICIT_OFFLOAD_LAYERS && n < plan->offload_layers; n *= 2)
		add(l, OFFLOAD, plan->offload_layers - n, 0, 0);
}

static void list_choices(const struct mq_move_space *space, const struct mq_plan *plan, const struct mq_stages *v,
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

/* For inference with unsplit ops: moves runs of consecutive ops, such as a branch of the graph, to another device. */
static void list_op_runs(const struct mq_move_space *space, const struct mq_plan *plan, struct list *l)
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

/* Moves samples from the slowest replica to the one that would finish first with one more, and to or from a
 * neighbour. */
static void list_shares(const struct mq_move_space *space, const struct mq_plan *plan, const struct mq_stages *v,
			struct list *l)
{
	for (uint32_t s = 0; s < v->ranks; s++) {
		const struct mq_config *c = &plan->config[v->some[s]];
		uint32_t b = c->split[MQ_DIM_BATCH], from = 0, to = 0;
		double longest = -1, shortest = INFINITY, *samples = mq_arena_array(l->arena, b, double);

		mq_plan_samples(plan, c, space->problem->q->train, l->arena, samples);
		for (uint32_t i = 0; i < b; i++) {
			double n = samples[i];
			double speed = mq_stages_speed(space, c, i);

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

const struct mq_move mq_move_alone = { .kind = DIVIDE, .n = 1 };

struct mq_move mq_move_apart(const struct mq_move_space *space)
{
	return (struct mq_move){ SPLIT, space->heavy[0], WAY_OUT, 0 };
}

bool mq_move_deals(const struct mq_move *move)
{
	return move->kind == SHARE || move->kind == BOUNDARY;
}

bool mq_move_odd(const struct mq_move_space *space, const struct mq_move *move)
{
	return move->kind == SPLIT && space->problem->q->model->n_layers;
}

bool mq_move_reshapes(const struct mq_move *move)
{
	return move->kind == DIVIDE || move->kind == MERGE || move->kind == DEAL;
}

bool mq_move_quiet(const struct mq_move *move)
{
	return move->kind >= MICRO && move->kind <= OFFLOAD && move->kind != SYNC;
}

uint32_t mq_moves_list(const struct mq_move_space *space, const struct mq_plan *plan, struct mq_arena *arena,
		       struct mq_move **moves)
{
	struct list l = { .arena = arena };
	struct mq_stages v;

	mq_stages_look(space, plan, arena, &v);
	list_stages(space, plan, &v, &l);
	if (!space->problem->times) /* in a part of a cluster, devices have the same numbers as in the whole */
		list_device_moves(plan, &v, &l);
	list_globals(space, plan, &v, &l);
	list_choices(space, plan, &v, &l);
	list_shares(space, plan, &v, &l);
	list_op_runs(space, plan, &l);
	for (uint32_t i = 0; i < space->n_heavy; i++)
		for (uint32_t w = 0; w < N_WAYS; w++)
			add(&l, SPLIT, space->heavy[i], w, 0);
	*moves = l.move;
	return l.n;
}

/* ---- applying moves ------------------------------------------------------------------------------- */

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

/* Exchanges the devices of two pipeline ranks, in all their chunks. */
static bool swap(struct mq_plan *plan, const struct mq_stages *v, uint32_t a, uint32_t b)
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
		/* all configs of a rank list the same devices in the same order */
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

/* Changes the split, or the gradient sync, of one op on the devices of its stage. */
static bool split(const struct mq_move_space *space, struct mq_plan *plan, const struct mq_stages *v, uint32_t op,
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

/* The plan may differ from the one that the move was listed for. */
static bool switch_to(const struct mq_move_space *space, struct mq_plan *plan, enum mq_decision_id id, uint32_t which)
{
	double value[MQ_SWITCH_VALUES];

	if (which >= mq_switch_values(space->problem, plan, id, value))
		return false;
	mq_switch_set(space->problem, plan, id, value[which]);
	return true;
}

/* Sets sync or recomputation of a pipeline rank or of all. If parameters are now gathered once per step, overlaps this
 * with the forward pass where the software can: else ZeRO-3, which always overlaps it, looks better. */
static void set_choice(const struct mq_move_space *space, struct mq_plan *plan, const struct mq_move *move,
		       const struct mq_stages *v)
{
	const enum mq_decision_id gather = MQ_DECISION_OVERLAP_PARAM_GATHER;
	double value[MQ_SWITCH_VALUES];
	bool mattered = mq_switch_values(space->problem, plan, gather, value) > 0;

	for (uint32_t i = 0; i < plan->n_configs; i++)
		if (move->a == MQ_NONE || rank_of(plan, v, plan->config[i].stage) == move->a)
			*(move->kind == SYNC ? &plan->config[i].sync : &plan->config[i].recompute) = (uint8_t)move->b;
	if (!mattered && mq_switch_values(space->problem, plan, gather, value) && value[0])
		mq_switch_set(space->problem, plan, gather, 1);
}

static bool edit(const struct mq_move_space *space, struct mq_plan *plan, const struct mq_move *move,
		 const struct mq_stages *v, struct mq_arena *arena)
{
	uint32_t *to, device = move->b;

	switch ((enum kind)move->kind) {
	case BOUNDARY:
		return mq_stages_boundary(space, plan, move->a, move->b, move->n, v, arena);
	case MICRO:
		plan->micro_batches = move->a;
		return true;
	case SCHEDULE:
		plan->pipeline = (uint8_t)move->a;
		return true;
	case SYNC:
	case RECOMPUTE:
		set_choice(space, plan, move, v);
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
		return mq_stages_width(plan, v, move->a, move->b, arena);
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
	case DIVIDE:
		return mq_stages_divide(space, plan, move->a, move->b, move->n, arena);
	case MERGE:
		return mq_stages_merge(space, plan, v, move->a, arena);
	case DEAL:
		return mq_stages_deal(space, plan, arena);
	case DEGREES:
		break;
	}
	return false;
}

static bool allowed(const struct mq_move_space *space, struct mq_plan *plan)
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
	return allowed(space, out);
}

/* The activations of n layers of each stage are on the host, or computed again. False: the software cannot. */
static bool save(const struct mq_move_space *space, struct mq_plan *plan, enum relief relief, uint32_t n,
		 const struct mq_stages *v, struct mq_arena *arena)
{
	const enum mq_decision_id layers = MQ_DECISION_RECOMPUTE_NUM_LAYERS;
	const struct mq_move host = { OFFLOAD, n, 0, 0 }, again = { RECOMPUTE, MQ_NONE, MQ_RECOMPUTE_FULL, 0 };
	const struct mq_software *software = mq_software_of(space->problem);

	if (relief == COMPUTED_AGAIN &&
	    (!(software->runs.switches & mq_decision(layers)->bit) || software->recompute_method != MQ_RECOMPUTE_BLOCK))
		return false;
	if (relief == COMPUTED_AGAIN)
		mq_switch_set(space->problem, plan, layers, n);
	edit(space, plan, relief == ON_HOST ? &host : &again, v, arena);
	mq_plan_compact(plan, arena);
	return allowed(space, plan);
}

/* The plan that fits with the fewest layers saved so, by bisection; not all: that is another move. */
static bool save_fewest(const struct mq_move_space *space, const struct mq_plan *plan, enum relief relief,
			struct mq_arena *arena, struct mq_plan *out)
{
	uint32_t most = 1, few = 0, enough;
	struct mq_stages v;

	mq_stages_look(space, plan, arena, &v);
	for (uint32_t s = 0; s < v.stages; s++)
		most = v.layers[s] > most ? v.layers[s] : most;
	enough = most;
	for (uint32_t n = most - 1; enough - few > 1; n = (few + enough) / 2) {
		struct mq_plan less;

		mq_plan_copy(&less, plan, arena);
		if (!save(space, &less, relief, n, &v, arena))
			return false;
		if (!mq_fits(space->problem, &less)) {
			few = n;
			continue;
		}
		enough = n;
		*out = less;
	}
	return enough < most;
}

/* Smaller gradient buckets. */
static bool save_buckets(const struct mq_move_space *space, struct mq_plan *plan)
{
	double value[MQ_SWITCH_VALUES], least = INFINITY;
	uint32_t n = mq_switch_values(space->problem, plan, MQ_DECISION_BUCKET, value);

	for (uint32_t i = 0; i < n; i++)
		least = value[i] > 0 ? fmin(least, value[i]) : least;
	if (isfinite(least))
		mq_switch_set(space->problem, plan, MQ_DECISION_BUCKET, least);
	return isfinite(least);
}

/* The fewest micro-batches, at most four times as many, with which the plan fits. */
static bool save_batches(const struct mq_move_space *space, struct mq_plan *plan)
{
	double batch = space->problem->q->train->batch;

	for (uint32_t n = plan->micro_batches, most = 4 * n; ++n <= most && n <= batch;) {
		plan->micro_batches = n;
		if (fmod(batch, n) == 0 && allowed(space, plan) && mq_fits(space->problem, plan))
			return true;
	}
	return false;
}

bool mq_move_relieve(const struct mq_move_space *space, const struct mq_plan *plan, uint32_t way,
		     struct mq_arena *arena, struct mq_plan *out)
{
	static const uint8_t shards[] = { MQ_SYNC_ALLREDUCE, MQ_SYNC_ZERO1, MQ_SYNC_ZERO2, MQ_SYNC_ZERO3 };
	const enum relief relief = way % N_RELIEFS;
	const struct mq_move shard = { SYNC, MQ_NONE, shards[way / N_RELIEFS], 0 };
	bool whole = false; /* states that replicas could share */
	struct mq_stages v;

	if (space->problem->q->train->infer || way >= MQ_MOVE_RELIEFS || !way)
		return false;
	mq_plan_copy(out, plan, arena);
	mq_stages_look(space, out, arena, &v);
	for (uint32_t i = 0; i < out->n_configs; i++) {
		const struct mq_config *c = &out->config[i];

		whole = whole || (c->sync < shard.b && c->split[MQ_DIM_BATCH] * c->split[MQ_DIM_SEQ] > 1);
	}
	if (way >= N_RELIEFS && (!whole || !edit(space, out, &shard, &v, arena)))
		return false;
	if (relief == SMALL_BUCKETS && !save_buckets(space, out))
		return false;
	if (relief == SMALL_BATCHES)
		return save_batches(space, out);
	if (relief >= ON_HOST) {
		const struct mq_plan sharded = *out;

		return save_fewest(space, &sharded, relief, arena, out);
	}
	mq_plan_compact(out, arena);
	return allowed(space, out) && mq_fits(space->problem, out);
}

bool mq_relief_holds(uint32_t way)
{
	return way % N_RELIEFS < SMALL_BATCHES;
}

bool mq_move_apply(const struct mq_move_space *space, const struct mq_plan *plan, const struct mq_move *move,
		   struct mq_arena *arena, struct mq_plan *out)
{
	struct mq_stages v;

	if (move->kind == DEGREES) {
		if (!mq_move_degrees(space, plan, (enum mq_factor)move->a, (enum mq_order)move->b, arena, out))
			return false;
	} else {
		mq_plan_copy(out, plan, arena);
		mq_stages_look(space, out, arena, &v);
		if (!edit(space, out, move, &v, arena))
			return false;
		mq_plan_compact(out, arena);
	}
	return allowed(space, out);
}
