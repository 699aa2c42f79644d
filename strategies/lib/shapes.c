/* shapes.c - see shapes.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/shapes.h"
#include "lib/moves/switches.h"
#include "lib/plans.h"

#include <math.h>
#include <stdlib.h>

/* Relative speed difference from which sets leave out the slower devices. */
static const double DIFFERS = 0.03;
/* Above MANY devices, sets drop whole machines; LARGE: devices of a large machine; OTHERS: sets not made by speed. */
enum { MANY = 64, LARGE = 8, OTHERS = 6 };

/* ---- sets of devices ---------------------------------------------------------------------------- */

struct ranked {
	uint32_t rank, node;
	double speed;
};

MQ_COMPARE(faster_first, struct ranked, MQ_ORDER(b->speed, a->speed) ?: MQ_ORDER(a->rank, b->rank))

static void add_set(struct shape_space *space, const struct ranked *r, uint32_t n)
{
	struct mq_arena *arena = space->problem->arena;
	bool *seen = mq_arena_array(arena, space->problem->q->cluster->n_nodes, bool);

	for (uint32_t s = 0; s < space->n_sets; s++)
		if (space->set[s].n == n && space->set[s].device[0] == r->rank)
			return; /* a set is a run of one order: its first device and size identify it */
	if (!n || space->n_sets == SHAPES_MAX_SETS)
		return;
	struct shape_set *set = &space->set[space->n_sets++];
	set->n = n;
	set->device = mq_arena_array(arena, n, uint32_t);
	set->speed = mq_arena_array(arena, n, double);
	for (uint32_t i = 0; i < n; i++) {
		set->device[i] = r[i].rank;
		set->speed[i] = r[i].speed;
	}
	set->mixed = r[n - 1].speed != r[0].speed;
	set->per_node = n;
	set->in_order = true;
	for (uint32_t i = 0; i < n;) {
		uint32_t j = i;

		set->in_order = set->in_order && !seen[r[i].node];
		seen[r[i].node] = true;
		while (j < n && r[j].node == r[i].node)
			j++;
		if (j - i < set->per_node)
			set->per_node = j - i;
		i = j;
	}
}

/* The usable devices that can run the model, with their speed. */
static uint32_t usable_devices(const struct shape_space *space, struct ranked *r)
{
	const struct mq_problem *p = space->problem;
	struct mq_devices devices = mq_devices_usable(p, p->arena);
	double *of_class = mq_arena_array(p->arena, space->classes.n, double);
	uint32_t n = 0;

	for (uint32_t i = 0; i < devices.n; i++) {
		uint32_t d = devices.rank[i];
		double *speed = &of_class[space->classes.of[d]];

		if (*speed == 0) /* not yet computed */
			*speed = 1 / mq_model_s(p, d);
		if (isfinite(*speed) && *speed > 0)
			r[n++] = (struct ranked){ d, p->q->cluster->device[d].node, *speed };
	}
	return n;
}

/* For every number of chunks: does a division of layers by work differ from an even one on equal devices? */
static void find_uneven(struct shape_space *space)
{
	struct mq_arena *arena = space->problem->arena;
	uint32_t layers = space->problem->q->model->n_layers;
	double *speed = mq_arena_array(arena, layers, double);

	space->uneven = mq_arena_array(arena, layers + 1, bool);
	for (uint32_t c = 0; c < layers; c++)
		speed[c] = 1;
	for (uint32_t chunks = 2; chunks <= layers; chunks++) {
		struct mq_arena_mark mark = mq_arena_mark(arena);
		uint32_t *count = mq_arena_array(arena, chunks, uint32_t);

		mq_layers_cut(&space->layers, speed, chunks, count);
		for (uint32_t c = 0; c < chunks; c++)
			space->uneven[chunks] |= count[c] != layers / chunks + (c < layers % chunks);
		mq_arena_rewind(arena, mark);
	}
}

static uint64_t odd_part(double n)
{
	uint64_t odd = n >= 1 && n < 1e15 ? (uint64_t)n : 1;

	while (odd % 2 == 0)
		odd /= 2;
	return odd;
}

/* The largest count > n / 2 whose odd factors divide those of batch x layers; n if there is none. */
static uint32_t divisible_count(const struct mq_question *q, uint32_t n, uint32_t step)
{
	uint64_t odd = odd_part(q->train->batch) * odd_part(q->model->n_layers);

	for (uint32_t few = n - n % step; few > n / 2; few -= step)
		if (odd % odd_part(few) == 0)
			return few;
	return n;
}

/* The largest count that divides the batch, above half of the devices that it has a sample for; n if there is none. */
static uint32_t dividing_count(double batch, uint32_t n, uint32_t step)
{
	uint32_t most = batch < n ? (uint32_t)batch : n;

	for (uint32_t few = most - most % step; few > most / 2; few -= step)
		if (fmod(batch, few) == 0)
			return few;
	return n;
}

enum mq_status shapes_init(struct shape_space *space, const struct mq_problem *problem, struct mq_err *err)
{
	const struct mq_cluster *c = problem->q->cluster;
	struct ranked *r = mq_arena_array(problem->arena, c->n_devices + 1, struct ranked);
	uint32_t n, node = 0;
	double slower = 0, all = 0;

	space->problem = problem;
	space->software = mq_question_software(problem->q);
	mq_classes_make(c, problem->arena, &space->classes);
	n = usable_devices(space, r);
	if (!n)
		return mq_bad(err,
			      "no device of '%s' can run every op of '%s' in %s; choose another "
			      "platform, --dtype or --gemm-dtype",
			      c->name, problem->q->model->name, mq_train_gemm_name(problem->q->train));
	qsort(r, n, sizeof(*r), faster_first);
	add_set(space, r, n);
	for (uint32_t i = 0; i < n; i++)
		all += r[i].speed;
	for (uint32_t i = n; i-- > 1 && space->n_sets + OTHERS + 1 < SHAPES_MAX_SETS;) {
		slower += r[i].speed;
		if (r[i].speed >= r[i - 1].speed * (1 - DIFFERS))
			continue;
		add_set(space, r, i);
		if (slower >= all / 2)
			add_set(space, r + i, n - i);
	}
	while (node < n && r[node].node == r[0].node)
		node++;
	add_set(space, r, node);
	for (uint32_t few = 1; few < n && n <= MANY; few *= 2) /* e.g. 4 of 5: more degrees divide it */
		if (2 * few > n)
			add_set(space, r, few);
	uint32_t step = n > MANY ? node & -node : 1; /* machines, of domains of 72 parts: tp divides what is left */
	add_set(space, r, divisible_count(problem->q, n, step));
	add_set(space, r, dividing_count(problem->q->train->batch, n, step));
	add_set(space, r, 1);
	/* as many devices as the fixed degrees take, which may fit no other set */
	const struct mq_limits *l = space->problem->limits;
	uint64_t wanted = (uint64_t)(l->fix_dp ? l->fix_dp : l->max_dp) * mq_or_1(l->fix_tp) * mq_or_1(l->fix_pp) *
			  mq_or_1(l->fix_cp);

	if (wanted && wanted <= n)
		add_set(space, r, (uint32_t)wanted);
	mq_layers_measure(problem, r[0].rank, &space->layers);
	find_uneven(space);
	return MQ_OK;
}

/* ---- validity of points ------------------------------------------------------------------------- */

uint32_t shapes_divisors(uint32_t n, uint32_t *divisor, uint32_t room)
{
	uint32_t count = 0, low;

	for (uint32_t d = 1; (uint64_t)d * d <= n && count < room; d++)
		if (n % d == 0)
			divisor[count++] = d;
	low = count;
	for (uint32_t i = low; i-- > 0 && count < room;)
		if (divisor[i] != n / divisor[i])
			divisor[count++] = n / divisor[i];
	return count;
}

static bool limits_allow(const struct mq_limits *l, const struct shape_point *p)
{
	return mq_degree_allowed(l->fix_dp, l->max_dp, p->dp) && mq_degree_allowed(l->fix_tp, l->max_tp, p->tp) &&
	       mq_degree_allowed(l->fix_pp, l->max_pp, p->pp) && mq_degree_allowed(l->fix_cp, 0, p->cp) &&
	       mq_degree_allowed(l->fix_ep, 0, p->ep) && mq_degree_allowed(l->fix_etp, 0, p->etp ? p->etp : p->tp) &&
	       mq_degree_allowed(l->fix_ulysses, 0, mq_or_1(p->ulysses)) &&
	       mq_degree_allowed(l->fix_virtual, 0, p->virtual) &&
	       (l->fix_pipeline < 0 || l->fix_pipeline == p->pipeline ||
		(p->pp == 1 && mq_pipeline_takes((enum mq_pipeline)l->fix_pipeline, p->virtual))) &&
	       (l->fix_recompute < 0 || l->fix_recompute == p->recompute) &&
	       (l->fix_sync < 0 || l->fix_sync == p->sync);
}

/* Do expert-parallel groups tile the replicas or, with etp, a stage's ranks (whole cp x tp groups, or parts of one)? */
static bool experts_fit(const struct shape_point *p)
{
	uint32_t inner = p->tp * p->cp, ranks = p->ep * p->etp;

	if (!p->etp)
		return p->dp % p->ep == 0;
	return inner % ranks == 0 || (ranks % inner == 0 && p->dp % (ranks / inner) == 0);
}

static bool model_allows(const struct mq_model *m, const struct shape_point *p)
{
	uint32_t chunks = p->pp * p->virtual;

	if (p->tp > 1 && (!m->heads || m->heads % p->tp))
		return false;
	if (p->tp > 1 && m->kv_heads && m->kv_heads % p->tp && p->tp % m->kv_heads)
		return false;
	if (p->ep > 1 && (!m->experts || m->experts % p->ep || !experts_fit(p)))
		return false;
	if (p->etp && (p->ep == 1 || p->tp * p->cp == 1 || (p->tp > 1 && !p->sequence_parallel)))
		return false; /* etp has no effect, or tensor-parallel ranks would hold the same tokens */
	if (p->cp > 1 && (!m->seq || m->seq % p->cp))
		return false;
	if (p->ulysses > 1 && (m->heads % (p->ulysses * p->tp) || (m->kv_heads && m->kv_heads % (p->ulysses * p->tp))))
		return false;
	if (p->sequence_parallel && (p->tp == 1 || (m->seq / p->cp) % p->tp))
		return false;
	return chunks <= (m->n_layers ? m->n_layers : m->n_ops);
}

/* Do equal replicas get different numbers of samples, because dp does not divide the batch? */
static bool uneven_batch(const struct shape_space *space, const struct shape_point *p)
{
	return fmod(space->problem->q->train->batch, p->dp) != 0;
}

/* Does a balanced point divide samples over replicas by speed? If not, it balances layers only. */
static bool has_shares(const struct shape_space *space, const struct shape_point *p)
{
	return p->balanced && p->dp > 1 && (space->set[p->set].mixed || uneven_batch(space, p)) &&
	       space->software->runs.shares;
}

/* Does `balanced` change the plan? */
static bool may_balance(const struct shape_space *space, const struct shape_point *p)
{
	bool cut = p->pp > 1 && space->software->runs.uneven_stages;
	uint32_t chunks = p->pp * p->virtual, layers = space->problem->q->model->n_layers;

	if (space->set[p->set].mixed)
		return cut || space->software->runs.shares;
	if (has_shares(space, p))
		return true;
	return cut && layers && chunks <= layers && space->uneven[chunks];
}

static bool batch_allows(const struct shape_space *space, const struct shape_point *p)
{
	double per_micro = space->problem->q->train->batch / p->micro_batches;
	uint32_t mbs = space->problem->limits->fix_mbs;

	if (per_micro != floor(per_micro) || per_micro < p->dp)
		return false;
	if (!has_shares(space, p) && fmod(per_micro, p->dp) != 0)
		return false;
	return !mbs || per_micro == (double)mbs * p->dp;
}

bool shapes_sequence(const struct shape_space *space, uint32_t tp, uint32_t cp)
{
	const struct mq_model *m = space->problem->q->model;

	return tp > 1 && space->software->sequence_parallel && m->seq / (cp ? cp : 1) % tp == 0;
}

static struct mq_shape shape_of(const struct shape_space *space, const struct shape_point *p)
{
	return (struct mq_shape){
		.dp = p->dp,
		.tp = p->tp,
		.pp = p->pp,
		.cp = p->cp,
		.ep = p->ep,
		.etp = p->etp,
		.ulysses = p->ulysses,
		.virtual = p->virtual,
		.micro_batches = p->micro_batches,
		.pipeline = p->pipeline,
		.sync = p->sync,
		.recompute = p->recompute,
		.sequence_parallel = p->sequence_parallel,
		.vocab_parallel = p->tp > 1 && space->software->vocab_parallel,
	};
}

/* Can the training software run the point? */
static bool software_allows(const struct shape_space *space, const struct shape_point *p)
{
	const struct mq_software_space *r = &space->software->runs;
	struct mq_shape shape = shape_of(space, p);

	if (r->placement)
		return true;
	if (!r->any_order && (!space->set[p->set].in_order || (p->replica_major && !r->replica_major)))
		return false;
	return mq_software_runs_shape(space->software, space->problem->q, &shape, NULL, 0);
}

/* Can tensor-parallel groups consist of whole machines, with no more devices than a large machine has? */
static bool spans_machines(const struct shape_set *set, uint32_t tp)
{
	return tp <= LARGE && set->in_order && set->n % set->per_node == 0 && tp % set->per_node == 0;
}

bool shapes_valid(const struct shape_space *space, const struct shape_point *p)
{
	const struct shape_set *set = &space->set[p->set];
	bool infer = space->problem->q->train->infer;

	if (!p->dp || !p->tp || !p->pp || !p->cp || !p->ep || !p->virtual || !p->micro_batches ||
	    p->set >= space->n_sets)
		return false;
	if ((uint64_t)p->dp * p->tp * p->pp * p->cp != set->n)
		return false;
	if (p->tp > 1 && set->per_node % p->tp && !spans_machines(set, p->tp))
		return false;
	if ((mq_pipeline_kind(p->pipeline)->most_chunks > 1) != (p->virtual > 1) ||
	    !mq_pipeline_takes(p->pipeline, p->virtual))
		return false;
	if (p->virtual > 1 && p->pp == 1)
		return false;
	if (!mq_pipeline_deals(p->pipeline, p->pp, p->virtual, p->micro_batches, false, NULL))
		return false;
	if (p->pp == 1 && p->pipeline != MQ_PIPE_1F1B)
		return false; /* without stages all schedules are equal */
	if (p->balanced && !may_balance(space, p))
		return false;
	if (p->replica_major && (p->pp == 1 || p->dp == 1))
		return false;
	if (infer && (p->sync != MQ_SYNC_ALLREDUCE || p->recompute != MQ_RECOMPUTE_NONE))
		return false;
	if (p->sync >= MQ_SYNC_ZERO1 && p->dp * p->cp == 1)
		return false;
	return limits_allow(&space->problem->limits[0], p) && model_allows(space->problem->q->model, p) &&
	       batch_allows(space, p) && software_allows(space, p);
}

struct listing {
	const struct shape_space *space;
	bool (*wanted)(void *context, const struct shape_point *point);
	void *context;
	struct shape_list *list;
};

static bool list_point(void *context, const struct shape_point *p)
{
	struct listing *l = context;
	struct shape_list *list = l->list;

	if (l->wanted && !l->wanted(l->context, p))
		return true;
	if (list->n < list->most)
		MQ_PUSH(l->space->problem->arena, list->point, list->n, list->room, *p);
	else
		list->n++;
	return list->n < UINT32_MAX && (list->n % 4096 || mq_tick(l->space->problem, (double)NAN, "listing"));
}

void shapes_list(const struct shape_space *space, bool (*wanted)(void *context, const struct shape_point *point),
		 void *context, uint32_t most, struct shape_list *list)
{
	struct listing l = { space, wanted, context, list };

	list->most = most;
	shapes_each(space, list_point, &l);
}

enum mq_status shapes_none(const struct shape_space *space, struct mq_err *err)
{
	double batch = space->problem->q->train->batch;

	if (space->software->runs.placement)
		return mq_bad(
			err,
			"no division of %g samples per step over the devices keeps --fix and --max; relax them or "
			"choose a --batch with more divisors",
			batch);
	return mq_bad(
		err,
		"no division of %g samples per step over the devices keeps --fix and --max and is one that %s runs; "
		"relax them or choose a --batch with more divisors or another --software",
		batch, space->software->file);
}

/* ---- plans -------------------------------------------------------------------------------------- */

uint32_t shapes_place(const struct shape_point *p, uint32_t stage, uint32_t replica)
{
	uint32_t group = p->replica_major ? replica * p->pp + stage : stage * p->dp + replica;

	return group * p->cp * p->tp;
}

/* The speed of a tensor- and context-parallel group: of its slowest member. */
static double group_speed(const struct shape_set *set, const struct shape_point *p, uint32_t stage, uint32_t replica)
{
	uint32_t first = shapes_place(p, stage, replica);
	double least = set->speed[first];

	for (uint32_t i = 1; i < p->cp * p->tp; i++)
		least = fmin(least, set->speed[first + i]);
	return least;
}

static double *shares(const struct shape_set *set, const struct shape_point *p, struct mq_arena *arena)
{
	double *share = mq_arena_array(arena, p->dp, double);

	for (uint32_t d = 0; d < p->dp; d++)
		for (uint32_t s = 0; s < p->pp; s++)
			share[d] += set->mixed ? group_speed(set, p, s, d) : 1;
	return share;
}

static uint32_t *stage_layers(const struct shape_space *space, const struct shape_point *p, struct mq_arena *arena)
{
	const struct shape_set *set = &space->set[p->set];
	uint32_t chunks = p->pp * p->virtual, *count = mq_arena_array(arena, chunks, uint32_t);
	double *speed = mq_arena_array(arena, chunks, double);

	for (uint32_t c = 0; c < chunks; c++)
		for (uint32_t d = 0; d < p->dp; d++)
			speed[c] += group_speed(set, p, mq_pipeline_rank(p->pipeline, p->pp, c), d);
	mq_layers_cut(&space->layers, speed, chunks, count);
	return count;
}

enum mq_status shapes_plan(const struct shape_space *space, const struct shape_point *p, struct mq_arena *arena,
			   struct mq_plan *plan, struct mq_err *err)
{
	return shapes_plan_cut(space, p, NULL, arena, plan, err);
}

enum mq_status shapes_plan_cut(const struct shape_space *space, const struct shape_point *p, const uint32_t *layers,
			       struct mq_arena *arena, struct mq_plan *plan, struct mq_err *err)
{
	const struct shape_set *set = &space->set[p->set];
	uint32_t *device = mq_arena_array(arena, set->n, uint32_t), n = 0;
	struct mq_shape shape = shape_of(space, p);

	shape.device = device;
	for (uint32_t s = 0; s < p->pp; s++)
		for (uint32_t d = 0; d < p->dp; d++)
			for (uint32_t i = 0; i < p->cp * p->tp; i++)
				device[n++] = set->device[shapes_place(p, s, d) + i];
	if (has_shares(space, p))
		shape.share = shares(set, p, arena);
	if (p->balanced && p->pp > 1 && space->problem->q->model->n_layers)
		shape.stage_layers = layers ? layers : stage_layers(space, p, arena);
	else if (p->pp > 1 && p->virtual == 1 && space->problem->q->model->n_layers)
		mq_software_stages(space->software, space->problem->q->model, arena, &shape);
	MQ_TRY(mq_plan_from_shape(&shape, space->problem->q->model, space->problem->q->cluster, arena, plan, err));
	if (space->host)
		mq_switch_set(space->problem, plan, MQ_DECISION_OFFLOAD_OPTIMIZER, 1);
	return MQ_OK;
}

bool shapes_can_host(const struct shape_space *space)
{
	return space->software->runs.switches & MQ_EXPLICIT_OFFLOAD_OPTIMIZER && !space->software->offload_optimizer &&
	       !space->problem->q->train->infer;
}

/* ---- enumeration of points ---------------------------------------------------------------------- */

enum { MAX_DIVISORS = 256 };

struct visit {
	const struct shape_space *space;
	bool (*call)(void *context, const struct shape_point *point);
	void *context;
	bool go_on;
};

/* Visits all choices of sync, recomputation, sequence parallelism, balance and order for given degrees. */
static void each_choice(struct visit *v, struct shape_point *p)
{
	static const uint8_t syncs[] = { MQ_SYNC_ALLREDUCE, MQ_SYNC_ZERO1, MQ_SYNC_ZERO2, MQ_SYNC_ZERO3 };
	/* a software that runs only some values lists them itself */
	bool few = !v->space->software->runs.placement;
	uint32_t n_syncs = v->space->zero || few || v->space->problem->limits->fix_sync >= 0 ? 4 : 2;

	for (uint32_t s = 0; s < n_syncs; s++)
		for (uint32_t r = 0; r < MQ_N_RECOMPUTES; r++)
			for (uint32_t flags = 0; flags < 8; flags++) {
				p->sync = syncs[s];
				p->recompute = (uint8_t)r;
				p->sequence_parallel = flags & 1;
				p->balanced = flags & 2;
				p->replica_major = flags & 4;
				v->go_on = v->go_on && (!shapes_valid(v->space, p) || v->call(v->context, p));
			}
}

static void each_chunks(struct visit *v, struct shape_point *p, enum mq_pipeline pipeline)
{
	const struct mq_pipeline_kind *kind = mq_pipeline_kind(pipeline);
	bool free = kind->most_chunks > kind->least_chunks;

	p->pipeline = (uint8_t)pipeline;
	for (p->virtual = free ? 2 : kind->least_chunks; p->virtual <= (free ? 8 : kind->most_chunks); p->virtual ++)
		each_choice(v, p);
}

/* 1F1B, then schedules with a fixed number of chunks, then those with a choice of chunks. */
static void each_schedule(struct visit *v, struct shape_point *p)
{
	const struct mq_limits *l = v->space->problem->limits;
	bool all = v->space->all_schedules || l->fix_pipeline >= 0 || l->fix_virtual > 1;

	each_chunks(v, p, MQ_PIPE_1F1B);
	for (int free = 0; free < 2; free++)
		for (int i = 0; i < MQ_N_PIPELINES; i++) {
			const struct mq_pipeline_kind *kind = mq_pipeline_kind((enum mq_pipeline)i);
			bool plain = kind->most_chunks == 1 && !kind->splits;

			if (i != MQ_PIPE_1F1B && (all || plain) && free == (kind->most_chunks > kind->least_chunks))
				each_chunks(v, p, (enum mq_pipeline)i);
		}
}

static void each_batch(struct visit *v, struct shape_point *p)
{
	uint32_t counts[MAX_DIVISORS];
	uint32_t n = shapes_divisors((uint32_t)v->space->problem->q->train->batch, counts, MAX_DIVISORS);

	for (uint32_t i = 0; i < n && v->go_on; i++) {
		p->micro_batches = counts[i];
		each_schedule(v, p);
	}
}

static void each_extra(struct visit *v, struct shape_point *p, uint32_t rest)
{
	const struct mq_problem *problem = v->space->problem;
	uint32_t cps[MAX_DIVISORS], eps[MAX_DIVISORS], fix_ulysses = problem->limits->fix_ulysses;
	uint32_t n_cp = shapes_divisors(rest, cps, mq_context_pays(problem) ? MAX_DIVISORS : 1);

	for (uint32_t c = 0; c < n_cp; c++) {
		p->cp = cps[c];
		p->dp = rest / p->cp;
		uint32_t n_ep = shapes_divisors(p->dp, eps, problem->q->model->experts ? MAX_DIVISORS : 1);

		for (uint32_t e = 0; e < n_ep && v->go_on; e++) {
			p->ep = eps[e];
			each_batch(v, p);
			p->ulysses = fix_ulysses ? fix_ulysses : p->cp;
			if (p->cp > 1 && p->cp % p->ulysses == 0)
				each_batch(v, p);
			p->ulysses = 0;
		}
		if (!problem->q->model->experts || p->tp * p->cp == 1)
			continue;
		p->etp = mq_or_1(problem->limits->fix_etp);
		n_ep = p->tp % p->etp ? 0 : shapes_divisors(p->dp * p->cp * p->tp / p->etp, eps, MAX_DIVISORS);
		for (uint32_t e = 1; e < n_ep && v->go_on; e++) {
			p->ep = eps[e];
			each_batch(v, p);
		}
		p->etp = 0;
	}
}

void shapes_each(const struct shape_space *space, bool (*visit)(void *context, const struct shape_point *point),
		 void *context)
{
	struct visit v = { space, visit, context, true };
	uint32_t tps[MAX_DIVISORS], pps[MAX_DIVISORS];

	for (uint32_t s = 0; s < space->n_sets && v.go_on; s++) {
		const struct shape_set *set = &space->set[s];
		uint32_t n_tp = shapes_divisors(set->n, tps, MAX_DIVISORS);

		for (uint32_t t = 0; t < n_tp; t++) {
			if (set->per_node % tps[t] && !spans_machines(set, tps[t]))
				continue;
			uint32_t n_pp = shapes_divisors(set->n / tps[t], pps, MAX_DIVISORS);

			for (uint32_t i = 0; i < n_pp && v.go_on; i++) {
				struct shape_point p = { .set = s, .tp = tps[t], .pp = pps[i] };

				each_extra(&v, &p, set->n / tps[t] / pps[i]);
			}
		}
	}
}
