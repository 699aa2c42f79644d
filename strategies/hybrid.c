/* hybrid.c - our planner for models of repeated layers on mixed clusters: ordered stages of layers on groups of
 * devices, tensor and data parallelism, uneven layers, uneven samples, micro-batches, schedule, recomputation and ZeRO
 * stage, within memory.
 *
 * Two families of candidates: the usual shapes on the whole cluster and parts of it (lib/shapes.h; mixed stages divide
 * samples by speed), and pipelines with each stage on devices of one class (a type, or its slow ones) and degrees per
 * class: all ordered pairs of classes, and longer chains grown from the best of those (beam search); with a single
 * class, stages of unequal width (hybrid/width.c). A closed-form estimate (hybrid/cost.h) ranks them; a lower bound
 * (layers divisible) prunes candidates that cannot enter the list, except two of each family. If none fits, all are
 * tried again with samples divided among ranks (context parallelism), then with an offloaded optimizer, if the software
 * can. The analytic executor screens the best of the list; they are proposed by screened time, corrected by the
 * contention seen on the same devices, and simulated. From the 17th plan on, two of three are moves on judged plans
 * (lib/moves/refine.h).
 *
 * --proof: a lower bound over all candidates of these families (hybrid/proof.c), and how many candidates were pruned.
 *
 * Models without repeated layers (convolutional networks, profiled graphs) are cut by the linearised dynamic program
 * with replicated stages (lib/place/ideal.h) and split op by op by elimination (lib/pase_model.h), for every number of
 * micro-batches, besides the usual shapes with few stages.
 *
 * Heuristic: the estimate has no contention. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "maquette/engine.h"
#include "hybrid/hybrid.h"
#include "lib/moves/switches.h"
#include "lib/plans.h"

enum { MAX_PARTS = 64, BEAM = 16 };

static const struct mq_opt opts[] = {
	MQ_U32(struct mq_hybrid, keep, 1500, 1, 20000, "candidates kept by estimate"),
	MQ_U32(struct mq_hybrid, screens, 0, 0, 100000,
	       "candidates screened with the analytic executor; 0 = four per proposed plan"),
	MQ_BOOL(struct mq_hybrid, moves, 1, "from the 17th plan on, two of three are moves on the best"), MQ_END
};

/* Bounds, then estimates s->now; keeps the item if it fits and is good enough for the list. False: the time is over. */
static bool consider(struct mq_hybrid *s, struct mq_hybrid_item *item)
{
	const struct mq_problem *problem = s->cost.problem;

	s->seen++;
	if (++s->n_ticks % 512 == 0 && !mq_hybrid_time(s, problem, "estimates"))
		s->stopped = true;
	double bound = mq_hybrid_bound(&s->cost, &s->now);

	if (!isfinite(bound))
		return !s->stopped;
	mq_hybrid_seen(s, item, s->now.floor_s);
	s->considered_s = fmin(s->considered_s, 1.5 * bound); /* in case it does not fit */
	if (bound >= mq_hybrid_worst(s, item)) {
		s->pruned++;
		return !s->stopped;
	}
	s->estimated++;
	if (!mq_hybrid_estimate(&s->cost, &s->now) || s->now.excess_B > 0)
		return !s->stopped;
	s->considered_s = fmin(s->considered_s, s->now.step_s);
	if (s->now.step_s < mq_hybrid_worst(s, item)) {
		item->rank_s = item->step_s = s->now.step_s;
		mq_hybrid_keep(s, item);
	}
	return !s->stopped;
}

/* ---- the usual shapes --------------------------------------------------------------------------- */

/* Adds replicas of a type; when the stage's shares are used up, the last one stands for the rest. */
static void add_share(struct mq_hybrid_stage *stage, uint32_t type, uint32_t replicas)
{
	uint32_t i = 0;

	while (i < stage->n_shares && stage->share[i].type != type)
		i++;
	if (i == stage->n_shares && stage->n_shares < MQ_HYBRID_MAX_SHARES) {
		stage->share[i].type = type;
		stage->share[i].replicas = 0;
		stage->n_shares++;
	}
	stage->share[i < stage->n_shares ? i : stage->n_shares - 1].replicas += replicas;
}

static void set_globals(struct mq_hybrid *s, const struct shape_point *p)
{
	s->now.micro_batches = p->micro_batches;
	s->now.pipeline = p->pipeline;
	s->now.sync = p->sync;
	s->now.recompute = p->recompute;
	s->now.chunks = p->virtual;
}

static void set_shape(struct mq_hybrid *s, const struct shape_point *p)
{
	const struct shape_set *set = &s->space.set[p->set];

	set_globals(s, p);
	s->now.n_stages = p->pp;
	s->now.even = !p->balanced;
	for (uint32_t stage = 0; stage < p->pp; stage++) {
		struct mq_hybrid_stage *to = &s->now.stage[stage];

		to->d = p->dp * p->cp;
		to->t = p->tp;
		to->n_shares = 0;
		if (s->cost.n_types == 1)
			add_share(to, 0, p->dp * p->cp);
		for (uint32_t r = 0; r < p->dp && s->cost.n_types > 1; r++)
			add_share(to, s->cost.type_of[set->device[shapes_place(p, stage, r)]], p->cp);
		to->rank = set->device + shapes_place(p, stage, 0);
		to->stride = (p->replica_major ? p->pp : 1) * p->cp * p->tp;
		to->inner = p->cp;
		to->ring = p->cp / mq_or_1(p->ulysses);
		to->last_rank = set->device[shapes_place(p, stage, p->dp - 1) + p->cp * p->tp - 1];
	}
}

static bool visit_shape(void *context, const struct shape_point *p)
{
	struct mq_hybrid *s = context;
	struct mq_hybrid_item item = { .point = *p };

	if (p->sequence_parallel != shapes_sequence(&s->space, p->tp, p->cp) && p->tp > 1)
		return true; /* not as the software does it, though it could */
	if (p->pp > MQ_HYBRID_MAX_STAGES || (p->recompute == MQ_RECOMPUTE_SELECTIVE && !s->selective))
		return true;
	set_shape(s, p);
	return consider(s, &item);
}

/* ---- pipelines of one device type per stage ----------------------------------------------------- */

struct menu {
	uint32_t n;
	struct mq_hybrid_part part[256]; /* ways to use all devices of a type */
};

static bool tensor_fits(const struct mq_hybrid *s, uint32_t type, uint32_t tp)
{
	const struct mq_model *model = s->cost.problem->q->model;
	const struct mq_limits *limits = s->cost.problem->limits;

	return s->cost.type[type].per_node % tp == 0 && (tp == 1 || (model->heads && model->heads % tp == 0)) &&
	       mq_degree_allowed(limits->fix_tp, limits->max_tp, tp);
}

static void fill_menu(const struct mq_hybrid *s, uint32_t type, struct menu *menu)
{
	const struct mq_hybrid_type *t = &s->cost.type[type];

	menu->n = 0;
	for (uint32_t tp = 1; tp <= t->per_node; tp++) {
		if (!tensor_fits(s, type, tp))
			continue;
		for (uint32_t pp = 1; pp <= MAX_PARTS && pp < s->cost.n_layers; pp++) {
			if (t->n % (tp * pp))
				continue;
			if (menu->n < sizeof(menu->part) / sizeof(*menu->part))
				menu->part[menu->n++] = (struct mq_hybrid_part){ type, tp, t->n / (tp * pp), pp, 0 };
		}
	}
}

/* Do all parts have the same degrees, so that the pipeline is a shape? */
static bool same_degrees(const struct mq_hybrid_item *item)
{
	for (uint32_t i = 1; i < item->n_parts; i++)
		if (item->part[i].dp != item->part[0].dp || item->part[i].tp != item->part[0].tp)
			return false;
	return true;
}

static bool set_stages(struct mq_hybrid *s, const struct mq_hybrid_item *item)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < item->n_parts; i++) {
		const struct mq_hybrid_part *p = &item->part[i];
		const struct mq_hybrid_type *type = &s->cost.type[p->type];

		if (n + p->pp > MQ_HYBRID_MAX_STAGES || n + p->pp > s->cost.n_layers)
			return false;
		for (uint32_t k = 0; k < p->pp; k++, n++) {
			struct mq_hybrid_stage *to = &s->now.stage[n];
			uint32_t width = p->dp * p->tp;

			*to = (struct mq_hybrid_stage){ .d = p->dp, .t = p->tp, .n_shares = 1 };
			to->share[0].type = p->type;
			to->share[0].replicas = p->dp;
			to->rank = type->rank + p->first + k * width;
			to->stride = p->tp;
			to->inner = to->ring = 1;
			to->last_rank = to->rank[width - 1];
		}
	}
	s->now.n_stages = n;
	s->now.even = false;
	return true;
}

/* Can the training software run a typed pipeline with these choices, with layers divided by speed? */
static bool software_runs(const struct mq_hybrid *s, const struct mq_hybrid_item *item, const struct shape_point *p)
{
	const struct mq_software *software = s->space.software;

	if (software->runs.placement)
		return true;
	if (!software->runs.uneven_stages)
		return false;
	for (uint32_t i = 0; i < item->n_parts; i++) {
		const struct mq_hybrid_part *part = &item->part[i];
		struct mq_shape shape = { .dp = part->dp,
					  .tp = part->tp,
					  .pp = s->now.n_stages,
					  .micro_batches = p->micro_batches,
					  .pipeline = p->pipeline,
					  .sync = p->sync,
					  .recompute = p->recompute,
					  .sequence_parallel = shapes_sequence(&s->space, part->tp, 1),
					  .vocab_parallel = software->vocab_parallel && part->tp > 1 };

		if (!mq_software_runs_shape(software, s->space.problem->q, &shape, NULL, 0))
			return false;
	}
	return true;
}

/* Do the user's constraints allow a typed pipeline with these choices? */
static bool limits_allow(const struct mq_hybrid *s, const struct shape_point *p)
{
	const struct mq_limits *limits = s->cost.problem->limits;

	return (p->recompute != MQ_RECOMPUTE_SELECTIVE || s->selective) &&
	       (limits->fix_pipeline < 0 || limits->fix_pipeline == p->pipeline) &&
	       (limits->fix_recompute < 0 || limits->fix_recompute == p->recompute) &&
	       (limits->fix_sync < 0 || limits->fix_sync == p->sync);
}

/* Tries all micro-batches, schedules, recomputations and ZeRO stages of a typed pipeline. */
static bool each_global(struct mq_hybrid *s, struct mq_hybrid_item *item)
{
	static const uint8_t pipes[] = { MQ_PIPE_1F1B, MQ_PIPE_ZB_H1 };
	static const uint8_t syncs[] = { MQ_SYNC_ALLREDUCE, MQ_SYNC_ZERO1, MQ_SYNC_ZERO2, MQ_SYNC_ZERO3 };
	/* in a pipeline ZeRO-2 reduces gradients per micro-batch: ZeRO-2 and 3 only if there is no ZeRO-1 */
	uint32_t n_syncs = s->space.software->runs.syncs & 1u << MQ_SYNC_ZERO1 ? 2 : 4;
	bool infer = s->cost.problem->q->train->infer;
	double batch = s->cost.problem->q->train->batch;
	uint32_t divisor[256], n = shapes_divisors((uint32_t)batch, divisor, 256), most = 1;

	for (uint32_t i = 0; i < item->n_parts; i++)
		most = item->part[i].dp > most ? item->part[i].dp : most;
	for (uint32_t k = 0; k < n && divisor[k] <= fmin(batch / most, 4096); k++)
		for (uint32_t i = 0; i < 2 * n_syncs * MQ_N_RECOMPUTES; i++) {
			struct shape_point p = { .micro_batches = divisor[k],
						 .pipeline = pipes[i % 2],
						 .sync = syncs[i / 2 % n_syncs],
						 .recompute = (uint8_t)(i / (2 * n_syncs)) };

			if ((infer && i) || !limits_allow(s, &p) || !software_runs(s, item, &p))
				continue;
			item->point = p;
			set_globals(s, &p);
			if (!consider(s, item))
				return false;
		}
	return true;
}

struct chain {
	uint32_t n;
	struct mq_hybrid_part part[MQ_HYBRID_MAX_TYPES];
	double score_s;
};

/* Beam search: the best chains of one length, by score. */
struct beam {
	uint32_t n;
	struct chain chain[BEAM];
};

static void beam_add(struct beam *beam, const struct chain *chain)
{
	uint32_t at = beam->n < BEAM ? beam->n++ : BEAM;

	for (; at > 0 && chain->score_s < beam->chain[at - 1].score_s; at--)
		if (at < BEAM)
			beam->chain[at] = beam->chain[at - 1];
	if (at < BEAM)
		beam->chain[at] = *chain;
}

/* Tries all micro-batches, schedules, ... of a chain; its score is the best of them. */
static bool try_chain(struct mq_hybrid *s, struct chain *chain)
{
	struct mq_hybrid_item item = { .kind = MQ_HYBRID_TYPED, .n_parts = chain->n };
	bool go_on = true;

	memcpy(item.part, chain->part, chain->n * sizeof(*chain->part));
	s->considered_s = INFINITY;
	if ((s->space.software->runs.unequal_degrees || same_degrees(&item)) && set_stages(s, &item))
		go_on = each_global(s, &item);
	chain->score_s = s->considered_s;
	return go_on;
}

static bool has_type(const struct chain *chain, uint32_t type)
{
	for (uint32_t i = 0; i < chain->n; i++)
		if (chain->part[i].type == type)
			return true;
	return false;
}

/* Extends a chain by one more type, at every position from `first` on, in every way to use it. */
static bool extend(struct mq_hybrid *s, const struct chain *from, uint32_t first, const struct menu *menu,
		   struct beam *beam)
{
	for (uint32_t t = 0; t < s->cost.n_types; t++)
		for (uint32_t i = 0; i < menu[t].n && !has_type(from, t); i++)
			for (uint32_t at = first; at <= from->n; at++) {
				struct chain chain = *from;

				memmove(&chain.part[at + 1], &chain.part[at], (from->n - at) * sizeof(*chain.part));
				chain.part[at] = menu[t].part[i];
				chain.n++;
				if (!try_chain(s, &chain))
					return false;
				if (isfinite(chain.score_s))
					beam_add(beam, &chain);
			}
	return true;
}

/* Tries every ordered pair of types, every way to use each; extends the best by a third type, and so on. */
static void each_chain(struct mq_hybrid *s, const struct menu *menu)
{
	struct beam *beam = mq_arena_array(s->cost.arena, 2, struct beam); /* of even and odd lengths */

	for (uint32_t t = 0; t < s->cost.n_types; t++)
		for (uint32_t i = 0; i < menu[t].n; i++) {
			struct chain one = { .n = 1, .part = { menu[t].part[i] } };

			if (!extend(s, &one, 1, menu, &beam[0]))
				return;
		}
	for (uint32_t length = 3; length <= s->cost.n_types; length++) {
		beam[length % 2].n = 0;
		for (uint32_t k = 0; k < beam[(length + 1) % 2].n; k++)
			if (!extend(s, &beam[(length + 1) % 2].chain[k], 0, menu, &beam[length % 2]))
				return;
	}
}

/* Tries the schedules of stages with given widths. */
static bool visit_widths(struct mq_hybrid *s, struct mq_hybrid_item *item)
{
	static const uint8_t pipes[] = { MQ_PIPE_1F1B, MQ_PIPE_ZB_H1 };

	for (uint32_t i = 0; i < 2; i++) {
		item->point.pipeline = pipes[i];
		set_globals(s, &item->point);
		if (limits_allow(s, &item->point) && (s->space.software->runs.unequal_degrees || same_degrees(item)) &&
		    set_stages(s, item) && software_runs(s, item, &item->point) && !consider(s, item))
			return false;
	}
	return true;
}

/* Tries stages of unequal width on devices of one type. */
static void each_width(struct mq_hybrid *s)
{
	static const uint8_t syncs[] = { MQ_SYNC_ALLREDUCE, MQ_SYNC_ZERO1 };
	const struct mq_problem *problem = s->cost.problem;
	uint32_t divisor[256], n = shapes_divisors((uint32_t)problem->q->train->batch, divisor, 256);

	for (uint32_t tp = 1; tp <= s->cost.type[0].per_node; tp++)
		for (uint32_t k = 0; k < n && divisor[k] <= 4096; k++)
			for (uint32_t i = 0; i < 2 * MQ_N_RECOMPUTES; i++) {
				struct mq_hybrid_item item = { .kind = MQ_HYBRID_TYPED,
							       .point = { .micro_batches = divisor[k],
									  .sync = syncs[i % 2],
									  .recompute = (uint8_t)(i / 2) } };

				if (!tensor_fits(s, 0, tp) || (problem->q->train->infer && i) ||
				    !(s->space.software->runs.syncs & 1u << item.point.sync))
					continue;
				set_globals(s, &item.point);
				if (!mq_hybrid_widths(s, tp, visit_widths, &item))
					return;
			}
}

/* ---- plans -------------------------------------------------------------------------------------- */

static bool typed_plan(struct mq_hybrid *s, const struct mq_hybrid_item *item, struct mq_arena *arena,
		       struct mq_plan *plan)
{
	const struct mq_problem *problem = s->cost.problem;
	const struct mq_model *model = problem->q->model;
	uint32_t *stage_of = mq_arena_array(arena, s->cost.n_layers, uint32_t), layer = 0, stage = 0;
	struct mq_spot *spot;

	set_globals(s, &item->point);
	if (!set_stages(s, item) || !mq_hybrid_estimate(&s->cost, &s->now))
		return false;
	spot = mq_arena_array(arena, s->now.n_stages, struct mq_spot);
	for (uint32_t i = 0; i < item->n_parts; i++) {
		const struct mq_hybrid_part *p = &item->part[i];

		for (uint32_t k = 0; k < p->pp; k++, stage++) {
			spot[stage] =
				(struct mq_spot){ .n_devices = p->dp * p->tp,
						  .stage = stage,
						  .tp = p->tp,
						  .device = s->cost.type[p->type].rank + p->first + k * p->dp * p->tp,
						  .sync = p->dp > 1 ? item->point.sync : MQ_SYNC_ALLREDUCE,
						  .recompute = item->point.recompute,
						  .sequence_parallel = shapes_sequence(&s->space, p->tp, 1) };
			for (uint32_t l = 0; l < s->now.stage[stage].layers && layer < s->cost.n_layers; l++)
				stage_of[layer++] = stage;
		}
	}
	mq_plan_init(plan, arena, model->n_ops);
	plan->micro_batches = item->point.micro_batches;
	plan->pipeline = item->point.pipeline;
	if (s->space.host)
		mq_switch_set(problem, plan, MQ_DECISION_OFFLOAD_OPTIMIZER, 1);
	/* ops outside of layers: on the first stage before the layers, then on the last */
	uint32_t outside = 0;

	for (uint32_t op = 0; op < model->n_ops; op++) {
		bool inside = model->op[op].layer != MQ_NONE;

		if (inside)
			outside = s->now.n_stages - 1;
		mq_plan_put(plan, problem, op, &spot[inside ? stage_of[model->op[op].layer] : outside], arena);
	}
	return true;
}

static bool make_plan(struct mq_hybrid *s, const struct mq_hybrid_item *item, struct mq_arena *arena,
		      struct mq_plan *plan)
{
	struct mq_err ignored = MQ_ERR_INIT;
	uint32_t *layers = NULL;

	if (item->kind == MQ_HYBRID_TYPED)
		return typed_plan(s, item, arena, plan);
	if (item->kind == MQ_HYBRID_READY) {
		mq_plan_copy(plan, item->plan, arena);
		return true;
	}
	/* plain stages get the layers of the estimate; shapes.c divides chunks, unequal layers, models without layers */
	if (item->point.balanced && item->point.virtual == 1 && item->point.pp > 1 && s->cost.n_layers && !s->unequal) {
		layers = mq_arena_array(arena, item->point.pp, uint32_t);
		set_shape(s, &item->point);
		if (!mq_hybrid_estimate(&s->cost, &s->now))
			return false;
		for (uint32_t i = 0; i < item->point.pp; i++)
			layers[i] = s->now.stage[i].layers;
	}
	/* false: this model cannot be cut so */
	return shapes_plan_cut(&s->space, &item->point, layers, arena, plan, &ignored) == MQ_OK;
}

/* Estimates all families of candidates. */
static void each_candidate(struct mq_hybrid *s)
{
	const struct mq_problem *problem = s->cost.problem;

	shapes_each(&s->space, visit_shape, s);
	bool free = !s->stopped && !mq_hybrid_shapes_only(problem->limits);

	if (s->cost.n_types == 1 && free)
		each_width(s);
	if (s->cost.n_types > 1 && s->cost.n_types <= MQ_HYBRID_MAX_TYPES && free) {
		struct menu *menu = mq_arena_array(problem->arena, s->cost.n_types, struct menu);

		for (uint32_t t = 0; t < s->cost.n_types; t++)
			fill_menu(s, t, &menu[t]);
		each_chain(s, menu);
	}
}

/* ---- hooks -------------------------------------------------------------------------------------- */

static enum mq_status check_list(const struct mq_hybrid *s, const struct mq_problem *problem, struct mq_err *err)
{
	if (s->n)
		return MQ_OK;
	if (!s->seen)
		return shapes_none(&s->space, err);
	return mq_fail(err, MQ_ENOPLAN, "engine 'hybrid': none of %llu candidates fits the memory of '%s'",
		       (unsigned long long)s->seen, problem->q->cluster->name);
}

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct mq_hybrid *s = state;

	mq_refine_init(&s->refine, problem);
	mq_map_init(&s->families, problem->arena, 256);
	mq_map_init(&s->uses, problem->arena, 64);
	s->make = make_plan;
	MQ_TRY(shapes_init(&s->space, problem, err));
	s->space.zero = s->space.all_schedules = true;
	s->list = mq_arena_array(problem->arena, s->keep, struct mq_hybrid_item);
	s->listed_s = INFINITY;
	mq_hybrid_proof_init(s, problem);
	s->selective = mq_selective_saves(problem);
	for (uint32_t l = 0; l < s->space.layers.n; l++)
		s->unequal |= fabs(s->space.layers.layer_s[l] / s->space.layers.layer_s[0] - 1) > 0.05;
	if (!problem->q->model->n_layers || !problem->q->model->hidden) {
		MQ_TRY(mq_hybrid_flat(s, problem, err));
		mq_hybrid_screen(s, problem);
		return check_list(s, problem, err);
	}
	MQ_TRY(mq_hybrid_cost_init(&s->cost, problem, err));
	/* only if nothing fits: fractions of a sample per rank, hard to estimate, then offload, which is slow */
	for (uint32_t way = 0;
	     way < 3 && (!way || mq_tick(problem, (double)NAN, "estimates")) && (!s->n || s->none_fits); way++) {
		bool parts = way > 0 && !problem->bound, host = way == 2;

		if ((way == 1 && !(parts && s->cost.could_part)) || (host && !shapes_can_host(&s->space)))
			continue;
		s->cost.parts = parts;
		s->space.host = s->cost.host = host;
		s->n = 0;
		s->stopped = false; /* only this attempt's half of the time was over */
		for (uint32_t f = 0; f < s->families.n; f++)
			s->of_family[f] = (struct mq_hybrid_family){ 0 };
		mq_hybrid_halve(s, problem);
		each_candidate(s);
		s->cut = s->cut || s->stopped;
		mq_hybrid_screen(s, problem);
	}
	return check_list(s, problem, err);
}

/* Proposes the next plan of the list without a known equivalent. */
static bool from_list(struct mq_hybrid *s, struct mq_arena *arena, struct mq_plan *plan)
{
	while (s->next < s->n) {
		mq_hybrid_choose(s);
		const struct mq_hybrid_item *item = &s->list[s->next++];

		if (!make_plan(s, item, arena, plan) || mq_refine_met(&s->refine, plan))
			continue;
		plan->engine_objective = item->step_s;
		plan->engine_unit = "s per step, estimated";
		return true;
	}
	return false;
}

/* Proposes the head of the list, then one more of it for every two moves. */
static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct mq_hybrid *s = state;
	uint64_t bit = 1ull << s->turn % 64;
	bool listed = !s->moves || s->turn < MQ_HYBRID_HEAD || s->turn % 3 == 0;

	s->moved &= ~bit;
	if (!listed || !from_list(s, arena, plan)) {
		if (s->moves && s->heard && problem->costs->screen && mq_refine_next(&s->refine, arena, plan))
			s->moved |= bit;
		else if (!from_list(s, arena, plan))
			return MQ_DONE;
	}
	s->turn++;
	return MQ_OK;
}

static void observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		    const struct mq_result *result)
{
	struct mq_hybrid *s = state;
	uint64_t turn = s->heard++;

	if (s->moved & 1ull << turn % 64) {
		mq_refine_hear(&s->refine, plan, result);
		return;
	}
	mq_refine_offer(&s->refine, plan, result);
	mq_hybrid_judged(s, plan, result);
	if (result->verdict != MQ_VERDICT_OK)
		return;
	s->listed_s = fmin(s->listed_s, result->step_time_s);
	mq_hybrid_contends(s, turn, result->step_time_s / plan->engine_objective);
}

static void stop(void *state, const struct mq_problem *problem)
{
	struct mq_hybrid *s = state;

	if (s->proof && !s->cut) {
		if (isfinite(s->listed_s))
			mq_show_bound(
				problem,
				&(struct mq_bound){
					"step-time", s->listed_s, mq_hybrid_prove(s, problem), "s",
					"candidate of hybrid (usual shapes on all or part of the cluster; stages of "
					"one device type each, with degrees of their own)" });
		mq_say(problem, "hybrid: %llu candidates, %llu dropped by their lower bound, %llu estimated",
		       (unsigned long long)s->seen, (unsigned long long)s->pruned, (unsigned long long)s->estimated);
	}
	mq_hybrid_cost_fini(&s->cost);
	mq_refine_fini(&s->refine);
}

MQ_ENGINE(hybrid) = {
	MQ_ENGINE_HEAD("hybrid"),
	.summary = "our planner: stages on mixed devices, all usual choices, then moves on the best",
	MQ_ENGINE_OWN(struct mq_hybrid),
	.parts = true,
	.proves = true,
	.observe = observe,
	.stop = stop,
};
