/*
 * hybrid.c - our planner for models of repeated layers on mixed clusters: ordered stages of layers
 * on groups of devices, tensor and data parallelism, uneven layers, uneven samples, micro-batches,
 * schedule, recomputation and ZeRO stage, with memory counted.
 *
 * Two families of candidates are walked through in full: the usual shapes on the whole cluster and
 * parts of it (lib/shapes.h; mixed stages share samples by speed), and pipelines whose stages each
 * lie on devices of one class (a type, or its slow ones), with degrees of their own per class and the
 * classes in any order. A closed
 * estimate (lib/hybrid_cost.h) ranks them; what cannot beat the list so far by a lower bound (layers
 * dealt without loss) is dropped without it. The best of the list are
 * screened with the analytic executor, and proposed in the order that it gives; the simulator
 * decides. From the 17th plan on two of three are moves on what was judged so far (lib/refine.h).
 *
 * --proof: below how much the compute of the layers alone, dealt without loss, lets no candidate of
 * these families go; and how many candidates lower bounds of the estimate spared.
 *
 * Models without repeated layers (convolutional networks, profiled graphs) are cut by the
 * linearised dynamic programme with replicated stages (lib/ideal.h) and split op by op by
 * elimination (lib/pase_model.h), for every number of micro-batches, beside the usual shapes
 * without stages.
 *
 * Heuristic: the estimate has no contention.
 */
#include <math.h>
#include <stdlib.h>

#include "core/engine.h"
#include "lib/hybrid_cost.h"
#include "lib/ideal.h"
#include "lib/pase_model.h"
#include "lib/place_model.h"
#include "lib/plans.h"
#include "lib/refine.h"
#include "lib/shapes.h"

enum { MAX_TYPES = 4, MAX_PARTS = 64, HEAD = 16 };

struct part {
	uint32_t type, tp, dp, pp;
};

enum kind { SHAPE, TYPED, READY };

struct item {
	enum kind kind;
	const struct mq_plan *plan; /* READY: made when it was found */
	struct shape_point point;   /* shapes; also micro-batches, sync, ... of typed pipelines */
	uint32_t n_parts;
	struct part part[MAX_TYPES];
	double step_s; /* estimated, then screened */
	double rank_s; /* order of screening: the estimate; 0 = surely */
	uint32_t order;
};

struct hybrid {
	uint32_t keep, screens; /* options */
	bool moves;
	struct shape_space space;
	struct mq_hybrid_cost cost;
	struct mq_hybrid_candidate now;
	struct item *list; /* [keep] sorted by step_s */
	uint32_t n, next, n_ticks;
	uint64_t seen, pruned, estimated;
	double bound_s; /* of everything seen */
	bool stopped, selective; /* selective: it would save something */
	struct mq_refine refine;
	uint64_t turn, heard, moved; /* moved: bit of each waiting proposal, made by refinement */
};

static const struct mq_opt opts[] = {
        MQ_U32(struct hybrid, keep, 1500, 1, 20000, "candidates kept by estimate"),
        MQ_U32(struct hybrid, screens, 0, 0, 100000,
               "of them screened with the analytic executor; 0 = 64, fewer beyond 64 devices"),
        MQ_BOOL(struct hybrid, moves, 1, "from the 17th plan on two of three are moves on the best"),
        MQ_END};

/* ---- the list ---------------------------------------------------------------------------------
 */

static double worst_kept(const struct hybrid *s)
{
	return s->n < s->keep ? (double)INFINITY : s->list[s->n - 1].rank_s;
}

static void keep_item(struct hybrid *s, const struct item *item)
{
	uint32_t at = s->n < s->keep ? s->n++ : s->n - 1;

	while (at > 0 && item->rank_s < s->list[at - 1].rank_s) {
		s->list[at] = s->list[at - 1];
		at--;
	}
	s->list[at] = *item;
	s->list[at].order = (uint32_t)s->seen;
}

/* Estimates s->now; keeps the item where it is among the best and fits. */
static bool consider(struct hybrid *s, struct item *item)
{
	const struct mq_problem *problem = s->cost.problem;

	s->seen++;
	if (++s->n_ticks % 4096 == 0 && problem->tick &&
	    !problem->tick(problem->tick_context, (double)NAN, "estimates"))
		s->stopped = true;
	double bound = mq_hybrid_bound(&s->cost, &s->now);

	if (!isfinite(bound))
		return !s->stopped;
	s->bound_s = fmin(s->bound_s, s->now.floor_s);
	if (bound >= worst_kept(s)) {
		s->pruned++;
		return !s->stopped;
	}
	s->estimated++;
	if (mq_hybrid_estimate(&s->cost, &s->now) && s->now.excess_B <= 0 &&
	    s->now.step_s < worst_kept(s)) {
		item->rank_s = item->step_s = s->now.step_s;
		keep_item(s, item);
	}
	return !s->stopped;
}

/* ---- the usual shapes -------------------------------------------------------------------------
 */

static uint32_t replica_at(const struct shape_point *p, uint32_t stage, uint32_t replica)
{
	return (p->replica_major ? replica * p->pp + stage : stage * p->dp + replica) * p->cp *
	       p->tp;
}

/* Beyond the kinds that a stage has room for, the last one stands for the rest. */
static void add_share(struct mq_hybrid_stage *stage, uint32_t type)
{
	uint32_t i = 0;

	while (i < stage->n_shares && stage->share[i].type != type)
		i++;
	if (i == stage->n_shares && stage->n_shares < MQ_HYBRID_MAX_SHARES) {
		stage->share[i].type = type;
		stage->share[i].replicas = 0;
		stage->n_shares++;
	}
	stage->share[i < stage->n_shares ? i : stage->n_shares - 1].replicas++;
}

static void set_globals(struct hybrid *s, const struct shape_point *p)
{
	s->now.micro_batches = p->micro_batches;
	s->now.pipeline = p->pipeline;
	s->now.sync = p->sync;
	s->now.recompute = p->recompute;
	s->now.chunks = p->virtual;
}

static void lay_shape(struct hybrid *s, const struct shape_point *p)
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
		for (uint32_t r = 0; r < p->dp; r++)
			add_share(to, s->cost.type_of[set->device[replica_at(p, stage, r)]]);
		for (uint32_t i = 0; i < to->n_shares; i++)
			to->share[i].replicas *= p->cp;
		to->first_rank = set->device[replica_at(p, stage, 0)];
		to->last_rank = set->device[replica_at(p, stage, p->dp - 1) + p->cp * p->tp - 1];
	}
}

static bool visit_shape(void *context, const struct shape_point *p)
{
	struct hybrid *s = context;
	struct item item = {.point = *p};

	if (p->sequence_parallel != shapes_sequence(&s->space, p->tp, p->cp) && p->tp > 1)
		return true; /* otherwise than the software does it, though it could */
	if (p->pp > MQ_HYBRID_MAX_STAGES ||
	    (p->recompute == MQ_RECOMPUTE_SELECTIVE && !s->selective))
		return true;
	lay_shape(s, p);
	return consider(s, &item);
}

/* Degrees that the user fixed are those of one shape: the other families have several. */
static bool shapes_only(const struct mq_limits *l)
{
	return l->fix_dp || l->fix_pp || l->fix_mbs || l->fix_cp > 1 || l->fix_ep > 1 ||
	       l->fix_virtual > 1 || l->max_dp || l->max_pp;
}

/* ---- pipelines over device types ----------------------------------------------------------------
 */

struct menu {
	uint32_t n;
	struct part part[256]; /* ways to use all devices of one type */
};

static void fill_menu(const struct hybrid *s, uint32_t type, struct menu *menu)
{
	const struct mq_hybrid_type *t = &s->cost.type[type];
	const struct mq_model *model = s->cost.problem->q->model;
	const struct mq_limits *limits = s->cost.problem->limits;

	menu->n = 0;
	for (uint32_t tp = 1; tp <= t->per_node; tp *= 2) {
		if (t->per_node % tp || (tp > 1 && (!model->heads || model->heads % tp)))
			continue;
		if ((limits->fix_tp && limits->fix_tp != tp) ||
		    (limits->max_tp && tp > limits->max_tp))
			continue;
		for (uint32_t pp = 1; pp <= MAX_PARTS && pp < s->cost.n_layers; pp++) {
			if (t->n % (tp * pp))
				continue;
			if (menu->n < sizeof(menu->part) / sizeof(*menu->part))
				menu->part[menu->n++] =
				        (struct part){type, tp, t->n / (tp * pp), pp};
		}
	}
}

/* Have all types the same degrees, so that the pipeline is a shape? */
static bool same_degrees(const struct item *item)
{
	for (uint32_t i = 1; i < item->n_parts; i++)
		if (item->part[i].dp != item->part[0].dp || item->part[i].tp != item->part[0].tp)
			return false;
	return true;
}

static bool lay_stages(struct hybrid *s, const struct item *item)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < item->n_parts; i++) {
		const struct part *p = &item->part[i];
		const struct mq_hybrid_type *type = &s->cost.type[p->type];

		if (n + p->pp > MQ_HYBRID_MAX_STAGES || n + p->pp > s->cost.n_layers)
			return false;
		for (uint32_t k = 0; k < p->pp; k++, n++) {
			struct mq_hybrid_stage *to = &s->now.stage[n];
			uint32_t width = p->dp * p->tp;

			*to = (struct mq_hybrid_stage){.d = p->dp, .t = p->tp, .n_shares = 1};
			to->share[0].type = p->type;
			to->share[0].replicas = p->dp;
			to->first_rank = type->rank[k * width];
			to->last_rank = type->rank[(k + 1) * width - 1];
		}
	}
	s->now.n_stages = n;
	s->now.even = false;
	return true;
}

/* Can the training software run a typed pipeline with these choices? Layers are dealt out by speed. */
static bool software_runs(const struct hybrid *s, const struct item *item, const struct shape_point *p)
{
	const struct mq_software *software = s->space.software;

	if (software->runs.placement)
		return true;
	if (!software->runs.uneven_stages)
		return false;
	for (uint32_t i = 0; i < item->n_parts; i++) {
		const struct part *part = &item->part[i];
		struct mq_shape shape = {.dp = part->dp,
		                         .tp = part->tp,
		                         .pp = s->now.n_stages,
		                         .micro_batches = p->micro_batches,
		                         .pipeline = p->pipeline,
		                         .sync = p->sync,
		                         .recompute = p->recompute,
		                         .sequence_parallel = shapes_sequence(&s->space, part->tp, 1),
		                         .vocab_parallel = software->vocab_parallel && part->tp > 1};

		if (!mq_software_runs_shape(software, s->space.problem->q, &shape, NULL, 0))
			return false;
	}
	return true;
}

/* Micro-batches, schedule, recomputation and ZeRO of typed pipelines. */
static bool each_global(struct hybrid *s, struct item *item)
{
	static const uint8_t pipes[] = {MQ_PIPE_1F1B, MQ_PIPE_ZB_H1};
	static const uint8_t syncs[] = {MQ_SYNC_ALLREDUCE, MQ_SYNC_ZERO1, MQ_SYNC_ZERO2,
	                                MQ_SYNC_ZERO3};
	/* Pipelines would reduce ZeRO-2's gradients with every micro-batch: only where there is no other. */
	uint32_t n_syncs = s->space.software->runs.syncs & 1u << MQ_SYNC_ZERO1 ? 2 : 4;
	const struct mq_limits *limits = s->cost.problem->limits;
	bool infer = s->cost.problem->q->train->infer;
	double batch = s->cost.problem->q->train->batch;
	uint32_t most = 1;

	for (uint32_t i = 0; i < item->n_parts; i++)
		most = item->part[i].dp > most ? item->part[i].dp : most;
	for (double m = 1; batch / m >= most && m <= 4096; m *= 2) {
		if (fmod(batch, m) != 0)
			continue;
		for (uint32_t i = 0; i < 2 * n_syncs * MQ_N_RECOMPUTES; i++) {
			struct shape_point p = {.micro_batches = (uint32_t)m,
			                        .pipeline = pipes[i % 2],
			                        .sync = syncs[i / 2 % n_syncs],
			                        .recompute = (uint8_t)(i / (2 * n_syncs))};

			if ((infer && i) ||
			    (p.recompute == MQ_RECOMPUTE_SELECTIVE && !s->selective) ||
			    (limits->fix_pipeline >= 0 && limits->fix_pipeline != p.pipeline) ||
			    (limits->fix_recompute >= 0 && limits->fix_recompute != p.recompute) ||
			    (limits->fix_sync >= 0 && limits->fix_sync != p.sync) ||
			    !software_runs(s, item, &p))
				continue;
			item->point = p;
			set_globals(s, &p);
			if (!consider(s, item))
				return false;
		}
	}
	return true;
}

/* Every order of every subset of at least two types, every way to use each. */
static bool each_order(struct hybrid *s, struct item *item, const struct menu *menu, uint32_t used)
{
	for (uint32_t t = 0; t < s->cost.n_types; t++) {
		if (used & 1u << t)
			continue;
		for (uint32_t i = 0; i < menu[t].n; i++) {
			item->part[item->n_parts++] = menu[t].part[i];
			bool go_on = true;

			if (item->n_parts > 1 &&
			    (s->space.software->runs.unequal_degrees || same_degrees(item)) &&
			    lay_stages(s, item))
				go_on = each_global(s, item);
			if (go_on)
				go_on = each_order(s, item, menu, used | 1u << t);
			item->n_parts--;
			if (!go_on)
				return false;
		}
	}
	return true;
}

/* ---- plans ------------------------------------------------------------------------------------
 */

static bool typed_plan(struct hybrid *s, const struct item *item, struct mq_arena *arena,
                       struct mq_plan *plan)
{
	const struct mq_problem *problem = s->cost.problem;
	const struct mq_model *model = problem->q->model;
	uint32_t *stage_of = mq_arena_array(arena, s->cost.n_layers, uint32_t), layer = 0,
	         stage = 0;
	struct mq_spot *spot;

	set_globals(s, &item->point);
	if (!lay_stages(s, item) || !mq_hybrid_estimate(&s->cost, &s->now))
		return false;
	spot = mq_arena_array(arena, s->now.n_stages, struct mq_spot);
	for (uint32_t i = 0; i < item->n_parts; i++) {
		const struct part *p = &item->part[i];

		for (uint32_t k = 0; k < p->pp; k++, stage++) {
			spot[stage] = (struct mq_spot){
			        .n_devices = p->dp * p->tp,
			        .stage = stage,
			        .tp = p->tp,
			        .device = s->cost.type[p->type].rank + k * p->dp * p->tp,
			        .sync = p->dp > 1 ? item->point.sync : MQ_SYNC_ALLREDUCE,
			        .recompute = item->point.recompute,
			        .sequence_parallel = shapes_sequence(&s->space, p->tp, 1)};
			for (uint32_t l = 0;
			     l < s->now.stage[stage].layers && layer < s->cost.n_layers; l++)
				stage_of[layer++] = stage;
		}
	}
	mq_plan_init(plan, arena, model->n_ops);
	plan->micro_batches = item->point.micro_batches;
	plan->pipeline = item->point.pipeline;
	/* What belongs to no layer goes with the first stage until a layer was seen, then the last.
	 */
	uint32_t outside = 0;

	for (uint32_t op = 0; op < model->n_ops; op++) {
		bool inside = model->op[op].layer != MQ_NONE;

		if (inside)
			outside = s->now.n_stages - 1;
		mq_plan_put(plan, problem, op,
		            &spot[inside ? stage_of[model->op[op].layer] : outside], arena);
	}
	return true;
}

static bool make_plan(struct hybrid *s, const struct item *item, struct mq_arena *arena,
                      struct mq_plan *plan)
{
	struct mq_err ignored = MQ_ERR_INIT;
	uint32_t *layers = NULL;

	if (item->kind == TYPED)
		return typed_plan(s, item, arena, plan);
	if (item->kind == READY) {
		mq_plan_copy(plan, item->plan, arena);
		return true;
	}
	/* stages on one device each are cut as the estimate dealt the layers; chunks and models without
	 * layers as shapes.c cuts them */
	if (item->point.balanced && item->point.virtual == 1 && item->point.pp > 1 && s->cost.n_layers) {
		layers = mq_arena_array(arena, item->point.pp, uint32_t);
		lay_shape(s, &item->point);
		if (!mq_hybrid_estimate(&s->cost, &s->now))
			return false;
		for (uint32_t i = 0; i < item->point.pp; i++)
			layers[i] = s->now.stage[i].layers;
	}
	/* else this model cannot be cut so */
	return shapes_plan_cut(&s->space, &item->point, layers, arena, plan, &ignored) == MQ_OK;
}

/* ---- models without layers ---------------------------------------------------------------------
 */

/* Seconds to exchange all gradients over a point's replicas: first stage, first ranks. */
static double exchange_s(struct hybrid *s, const struct shape_point *p)
{
	const struct shape_set *set = &s->space.set[p->set];
	const struct mq_problem *problem = s->space.problem;
	struct mq_arena scratch = MQ_ARENA_INIT;
	uint32_t *rank = mq_arena_array(&scratch, p->dp, uint32_t);
	struct mq_coll_request rq = {.kind = MQ_COLL_ALL_REDUCE,
	                             .n = p->dp,
	                             .rank = rank,
	                             .dtype = problem->q->train->dtype,
	                             .bytes = mq_model_totals(problem->q->model).parameters / p->pp *
	                                      mq_dtype_size(problem->q->train->grad_dtype)};
	double seconds = 0;

	for (uint32_t d = 0; d < p->dp; d++)
		rank[d] = set->device[replica_at(p, 0, d)];
	if (p->dp > 1 && !problem->q->train->infer &&
	    !problem->costs->collective(problem->costs->context, &rq, &seconds))
		seconds = INFINITY;
	mq_arena_fini(&scratch);
	return seconds;
}

static bool visit_flat_shape(void *context, const struct shape_point *p)
{
	struct hybrid *s = context;
	const struct shape_set *set = &s->space.set[p->set];
	struct item item = {.kind = SHAPE, .point = *p};
	double speed = 0, slowest = INFINITY, work;

	/* Pipelines come from the dynamic programme, which knows where to cut; recomputation and
	 * sharded gradients are for layers. */
	if ((p->pp > 1 && !s->space.problem->limits->fix_pp) || p->recompute != MQ_RECOMPUTE_NONE ||
	    p->sync > MQ_SYNC_ZERO1)
		return true;
	for (uint32_t d = 0; d < set->n; d++) {
		speed += set->speed[d];
		slowest = fmin(slowest, set->speed[d]);
	}
	work = s->space.problem->q->train->batch / (p->balanced ? speed : set->n * slowest);
	s->seen++;
	s->bound_s = fmin(s->bound_s, s->space.problem->q->train->batch / speed);
	if (work >= worst_kept(s)) {
		s->pruned++;
		return true;
	}
	s->estimated++;
	work *= 1 + (p->pp - 1.0) / p->micro_batches;
	item.rank_s = item.step_s = work + exchange_s(s, p);
	if (item.rank_s < worst_kept(s))
		keep_item(s, &item);
	return true;
}

static void keep_plan(struct hybrid *s, const struct mq_plan *plan, double step_s)
{
	struct mq_plan *copy = mq_arena_array(s->space.problem->arena, 1, struct mq_plan);
	struct item item = {.kind = READY, .plan = copy, .step_s = step_s};

	s->seen++;
	s->estimated++;
	mq_plan_copy(copy, plan, s->space.problem->arena);
	if (worst_kept(s) > 0)
		keep_item(s, &item);
}

static enum mq_status place_stages(struct hybrid *s, uint32_t micro_batches, uint32_t in_flight,
                                   struct mq_arena *scratch, struct mq_err *err)
{
	const struct mq_problem *problem = s->space.problem;
	double samples = floor(problem->q->train->batch / micro_batches), sum = 0;
	struct mq_ideal_options o = {
	        .linearize = true, .max_replicas = samples < 1 ? 1 : (uint32_t)fmin(samples, 1e6)};
	struct mq_place_model model;
	struct mq_ideal_result r;
	struct mq_plan plan;

	MQ_TRY(mq_place_from_problem(problem, micro_batches, in_flight, scratch, &model, err));
	MQ_TRY(mq_ideal_solve(&model.place, &o, scratch, &r, err));
	if (isinf(r.placement.max_load))
		return MQ_OK;
	for (uint32_t i = 0; i < r.placement.n_stages; i++)
		sum += r.placement.stage[i].load;
	if (mq_placement_sort(&model.place, &r.placement, scratch))
		mq_place_plan(&model, &r.placement, problem, scratch, &plan);
	else
		mq_place_plan_free(&model, &r.placement, problem, scratch, &plan);
	keep_plan(s, &plan, (micro_batches - 1.0) * r.placement.max_load + sum);
	return MQ_OK;
}

/* The best split of every op, where its graph is narrow enough to be solved at once. */
static enum mq_status split_ops(struct hybrid *s, uint32_t micro_batches, struct mq_arena *scratch,
                                struct mq_err *err)
{
	const struct mq_problem *problem = s->space.problem;
	struct mq_devices devices = mq_devices_usable(problem, scratch);
	struct mq_pase_model model;
	struct mq_elim_result r;
	struct mq_err wide = MQ_ERR_INIT;
	struct mq_plan plan;

	if (devices.n > 64)
		return MQ_OK;
	MQ_TRY(mq_pase_from_problem(problem, &devices, micro_batches, scratch, &model, err));
	model.problem.max_rows = 1e8;
	if (mq_elim_solve(&model.problem, scratch, &r, &wide) != MQ_OK || isinf(r.optimum))
		return MQ_OK; /* too wide: the other families remain */
	mq_pase_plan(&model, r.choice, problem, scratch, &plan);
	keep_plan(s, &plan, r.optimum);
	return MQ_OK;
}

static enum mq_status start_flat(struct hybrid *s, const struct mq_problem *problem,
                                 struct mq_err *err)
{
	double batch = floor(problem->q->train->batch);
	struct mq_arena scratch = MQ_ARENA_INIT;
	enum mq_status status = MQ_OK;
	bool backward = false;

	for (uint32_t op = 0; op < problem->q->model->n_ops; op++)
		backward = backward || problem->q->model->op[op].phase == MQ_BACKWARD;
	shapes_each(&s->space, visit_flat_shape, s);
	bool free = !shapes_only(problem->limits) && !problem->limits->fix_tp &&
	            s->space.software->runs.placement;

	for (double m = 1; free && m <= batch && m <= 512 && status == MQ_OK; m *= 2) {
		if (fmod(batch, m) != 0)
			continue;
		status = place_stages(s, (uint32_t)m, 1, &scratch, err);
		if (status == MQ_OK && m > 1 && !problem->q->train->infer)
			status = place_stages(s, (uint32_t)m, (uint32_t)fmin(m, s->space.set[0].n),
			                      &scratch, err);
		if (status == MQ_OK && m <= 4 && !backward)
			status = split_ops(s, (uint32_t)m, &scratch, err);
		mq_arena_rewind(&scratch, (struct mq_arena_mark){NULL, 0});
	}
	mq_arena_fini(&scratch);
	return status;
}

/* ---- hooks ------------------------------------------------------------------------------------
 */

static int faster(const void *left, const void *right)
{
	const struct item *a = left, *b = right;

	if (a->step_s != b->step_s)
		return a->step_s < b->step_s ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* Do two candidates use the devices the same way? They then differ in schedule, sync and the like.
 */
static bool same_family(const struct item *a, const struct item *b)
{
	if (a->kind != b->kind || a->kind == READY || a->n_parts != b->n_parts)
		return false;
	if (a->kind == TYPED)
		return !memcmp(a->part, b->part, a->n_parts * sizeof(*a->part));
	return a->point.set == b->point.set && a->point.dp == b->point.dp &&
	       a->point.tp == b->point.tp && a->point.pp == b->point.pp &&
	       a->point.cp == b->point.cp && a->point.balanced == b->point.balanced;
}

/* Screening in two halves: first one of each family, best estimates first, so that no family that
 * the estimate flatters hides the others; then more of the families that came out best. */
struct screening {
	struct hybrid *s;
	const struct mq_problem *problem;
	struct mq_arena arena;
	uint32_t *family; /* [n] first item of the same family */
	uint32_t *tries;  /* [n] by first item */
	double *best;     /* [n] by first item: screened time */
	uint8_t *known;   /* [n] 1 = screened and fits, 2 = does not */
	uint32_t left;
};

static void screen_item(struct screening *w, uint32_t i)
{
	struct mq_arena_mark mark = mq_arena_mark(&w->arena);
	struct item *item = &w->s->list[i];
	struct mq_plan plan;
	struct mq_result result;

	w->known[i] = 2;
	w->tries[w->family[i]]++;
	w->left--;
	if (make_plan(w->s, item, &w->arena, &plan) &&
	    w->problem->costs->screen(w->problem->costs->context, &plan, &result) &&
	    result.verdict == MQ_VERDICT_OK) {
		w->known[i] = 1;
		item->step_s = result.step_time_s;
		w->best[w->family[i]] = fmin(w->best[w->family[i]], item->step_s);
	}
	mq_arena_rewind(&w->arena, mark);
}

static void screen_families(struct screening *w, uint32_t n)
{
	uint32_t half = w->left / 2;

	for (uint32_t i = 0; i < n && w->left > half; i++) /* again where the first did not fit */
		if (isinf(w->best[w->family[i]]) && w->tries[w->family[i]] < 3)
			screen_item(w, i);
	while (w->left) {
		uint32_t pick = MQ_NONE;
		double least = INFINITY;

		for (uint32_t i = 0; i < n; i++) {
			/* Each further try makes a family a little less likely. */
			double worth = w->best[w->family[i]] * (1 + 0.01 * w->tries[w->family[i]]);

			if (!w->known[i] && worth < least)
				least = worth, pick = i;
		}
		if (pick == MQ_NONE)
			break;
		screen_item(w, pick);
	}
}

/* The analytic executor orders the best; what it finds too large is dropped; the rest stays behind.
 */
static void screen_list(struct hybrid *s, const struct mq_problem *problem)
{
	uint32_t n = s->screens, devices = s->space.set[0].n, kept = 0, fit = 0;
	struct screening w = {.s = s, .problem = problem};
	struct item *sorted;

	if (!problem->costs->screen)
		return;
	if (!n) /* a screen takes time in proportion to the devices; fewer when time is short */
		n = (devices <= 64 ? 64 : 64 * 64 / devices + 4) /
		    (isfinite(problem->seconds) ? 4 : 1);
	w.left = s->n < n ? s->n : n;
	w.family = mq_arena_array(&w.arena, s->n, uint32_t);
	w.tries = mq_arena_array(&w.arena, s->n, uint32_t);
	w.best = mq_arena_array(&w.arena, s->n, double);
	w.known = mq_arena_array(&w.arena, s->n, uint8_t);
	sorted = mq_arena_array(&w.arena, s->n, struct item);
	for (uint32_t i = 0; i < s->n; i++) {
		w.best[i] = INFINITY;
		w.family[i] = i;
		for (uint32_t k = 0; k < i && w.family[i] == i; k++)
			if (w.family[k] == k && same_family(&s->list[k], &s->list[i]))
				w.family[i] = k;
	}
	screen_families(&w, s->n);
	for (uint32_t i = 0; i < s->n; i++)
		if (w.known[i] == 1)
			sorted[fit++] = s->list[i];
	qsort(sorted, fit, sizeof(*sorted), faster);
	kept = fit;
	for (uint32_t i = 0; i < s->n; i++)
		if (!w.known[i])
			sorted[kept++] = s->list[i];
	memcpy(s->list, sorted, kept * sizeof(*sorted));
	s->n = kept;
	mq_arena_fini(&w.arena);
}

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct hybrid *s = state;
	struct menu *menu;
	struct item item = {.kind = TYPED};

	mq_refine_init(&s->refine, problem);
	MQ_TRY(shapes_init(&s->space, problem, err));
	s->space.zero = s->space.all_schedules = true;
	s->list = mq_arena_array(problem->arena, s->keep, struct item);
	s->bound_s = INFINITY;
	s->selective = mq_selective_saves(problem);
	if (!problem->q->model->n_layers || !problem->q->model->hidden) {
		MQ_TRY(start_flat(s, problem, err));
		screen_list(s, problem);
		if (!s->n)
			return mq_fail(err, MQ_ENOPLAN,
			               "engine 'hybrid': no plan fits the memory of '%s'",
			               problem->q->cluster->name);
		return MQ_OK;
	}
	MQ_TRY(mq_hybrid_cost_init(&s->cost, problem, err));
	shapes_each(&s->space, visit_shape, s);
	if (s->cost.n_types > 1 && s->cost.n_types <= MAX_TYPES && !s->stopped &&
	    !shapes_only(problem->limits)) {
		menu = mq_arena_array(problem->arena, s->cost.n_types, struct menu);
		for (uint32_t t = 0; t < s->cost.n_types; t++)
			fill_menu(s, t, &menu[t]);
		each_order(s, &item, menu, 0);
	}
	screen_list(s, problem);
	if (!s->n)
		return mq_fail(err, MQ_ENOPLAN,
		               "engine 'hybrid': none of %llu candidates fits the memory "
		               "of '%s'",
		               (unsigned long long)s->seen, problem->q->cluster->name);
	return MQ_OK;
}

/* The next plan of the list that is not known by another name. */
static bool from_list(struct hybrid *s, struct mq_arena *arena, struct mq_plan *plan)
{
	while (s->next < s->n) {
		const struct item *item = &s->list[s->next++];

		if (!make_plan(s, item, arena, plan) || mq_refine_met(&s->refine, plan))
			continue;
		plan->engine_objective = item->step_s;
		plan->engine_unit = "s per step, estimated";
		return true;
	}
	return false;
}

/* The head of the list first; then one more of it for every two moves on what was judged. */
static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
                              struct mq_plan *plan, struct mq_err *err)
{
	struct hybrid *s = state;
	uint64_t bit = 1ull << s->turn % 64;
	bool listed = !s->moves || s->turn < HEAD || s->turn % 3 == 0;

	s->moved &= ~bit;
	if (listed && from_list(s, arena, plan)) {
		s->turn++;
		return MQ_OK;
	}
	if (s->moves && s->heard && problem->costs->screen &&
	    mq_refine_next(&s->refine, arena, plan)) {
		s->moved |= bit;
		s->turn++;
		return MQ_OK;
	}
	if (!from_list(s, arena, plan))
		return MQ_DONE;
	s->turn++;
	return MQ_OK;
}

static void observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
                    const struct mq_result *result)
{
	struct hybrid *s = state;

	if (s->moved & 1ull << s->heard++ % 64)
		mq_refine_hear(&s->refine, plan, result);
	else
		mq_refine_offer(&s->refine, plan, result);
}

static void stop(void *state, const struct mq_problem *problem)
{
	struct hybrid *s = state;

	if (problem->bound && !s->stopped) {
		mq_show_bound(problem, &(struct mq_bound){"step-time", NAN, s->bound_s, "s",
		                                          "candidate by the compute of its layers"});
		mq_say(problem,
		       "hybrid: %llu candidates, %llu dropped by their lower bound, %llu estimated",
		       (unsigned long long)s->seen, (unsigned long long)s->pruned,
		       (unsigned long long)s->estimated);
	}
	mq_hybrid_cost_fini(&s->cost);
	mq_refine_fini(&s->refine);
}

MQ_ENGINE(hybrid) = {
        MQ_ENGINE_HEAD("hybrid"),
        .summary =
                "our planner: stages on mixed devices, all usual choices, then moves on the best",
        .opts = opts,
        .state_size = sizeof(struct hybrid),
        .heuristic = true,
        .proves = true,
        .start = start,
        .propose = propose,
        .observe = observe,
        .stop = stop,
};
