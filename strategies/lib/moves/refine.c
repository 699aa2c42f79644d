/* refine.c - see refine.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/moves/refine.h"
#include "lib/plans.h"

#include <math.h>
#include <stdlib.h>

#include "maquette/engine.h"

/* WIDTH (chosen): neighbours of one plan that are screened, about all of a pipeline of four stages. DEPTH: steps of one
 * descent. KICKS: random walks tried per proposal. STALE: evaluations without a new best after which stages are
 * reshaped, for points within `close` of the best. slack (chosen): neighbours that screen slower than this are dropped.
 * gain: smaller relative gains do not count. */
enum { WIDTH = 128, DEPTH = 8, KICKS = 24, STALE = 16, RING = 64 };
/* tired (chosen): penalty of a family's value per evaluation since its last improvement */
static const double slack = 0.03, close = 0.1, gain = 1e-3, tired = 1e-3, PI = 3.14159265358979323846;

void mq_refine_init(struct mq_refine *r, const struct mq_problem *problem)
{
	uint32_t devices = problem->q->cluster->n_devices;

	*r = (struct mq_refine){ .problem = problem, .best = INFINITY };
	mq_move_space_make(problem, &r->space);
	mq_map_init(&r->judged, problem->arena, 512);
	mq_map_init(&r->known, problem->arena, 4096);
	mq_map_init(&r->times, problem->arena, 512);
	mq_map_init(&r->families, problem->arena, 64);
	mq_map_init(&r->places, problem->arena, 512);
	/* a screen takes time proportional to the number of devices */
	r->width = devices <= 64 ? WIDTH : (uint32_t)fmax(12, WIDTH * 64 / devices);
}

void mq_refine_fini(struct mq_refine *r)
{
	mq_arena_fini(&r->scratch);
}

/* ---- points ----------------------------------------------------------------------------------- */

static double value_of(const struct mq_refine *r, const struct mq_plan *plan, double step_s)
{
	const struct mq_cluster *cluster = r->problem->q->cluster;
	const char *o = r->problem->objective;
	double value = !strcmp(o, "cost")   ? mq_step_usd(cluster, plan, step_s) :
		       !strcmp(o, "energy") ? mq_step_kWh(cluster, plan, step_s) :
					      step_s;

	return isnan(value) ? step_s : value;
}

/* The value of a judged plan as a starting point: on large clusters, plans with many distinct devices to simulate get a
 * penalty, so that the search spends its time on more plans rather than on the last 0.1 % of one. */
static double start_value(const struct mq_refine *r, const struct mq_plan *plan, const struct mq_result *result)
{
	static const double each = 0.003; /* chosen: per doubling of the simulated devices */
	double devices = r->width < WIDTH ? result->n_simulated : 0;
	double stages = mq_plan_stage_count(plan) / mq_or_1(plan->virtual);

	return value_of(r, plan, result->step_time_s) * (1 + each * log2(fmax(1, devices / stages)));
}

/* Hash of the stages, the number of devices and the degrees of each. */
static uint64_t family_of(const struct mq_plan *plan)
{
	uint64_t hash = mq_hash(MQ_HASH_INIT, &plan->virtual, sizeof(plan->virtual));

	for (uint32_t i = 0; i < plan->n_configs; i++) {
		const struct mq_config *c = &plan->config[i];
		uint32_t key[] = { c->stage, c->n_devices, c->split[MQ_DIM_BATCH], c->split[MQ_DIM_EXPERT] };
		bool first = true;

		for (uint32_t k = 0; k < i && first; k++)
			first = plan->config[k].stage != c->stage;
		if (first)
			hash = mq_hash(hash, key, sizeof(key));
	}
	return hash;
}

/* Checked lazily: only plans with good times need it. */
static bool fits(struct mq_refine *r, uint32_t known, const struct mq_plan *plan)
{
	struct mq_refine_known *k = &r->of_known[known];

	if (!k->asked)
		k->fits = mq_fits(r->problem, plan);
	k->asked = true;
	return k->fits;
}

/* Index into of_known of a plan, which is screened unless it was before. */
static uint32_t know(struct mq_refine *r, const struct mq_plan *plan)
{
	const struct mq_costs *costs = r->problem->costs;
	uint32_t before = r->known.n, i = mq_map_add(&r->known, mq_plan_effect(&r->space, plan, &r->scratch)), at = i;
	struct mq_refine_known fresh = { .screened_s = INFINITY };
	struct mq_result result;

	if (i == before) {
		costs->screen_times(costs->screen_context, &plan, 1, &result);
		if (result.verdict == MQ_VERDICT_OK)
			fresh.screened_s = value_of(r, plan, result.step_time_s);
		MQ_PUSH(r->problem->arena, r->of_known, at, r->room, fresh);
	}
	return i;
}

/* Screened value of a plan; +inf: it does not fit. Above `most` the memory may stay unchecked. */
static double screen(struct mq_refine *r, const struct mq_plan *plan, double most)
{
	uint32_t i = know(r, plan);
	double value = r->of_known[i].screened_s;

	return value > most || fits(r, i, plan) ? value : (double)INFINITY;
}

static uint64_t time_key(uint32_t family, double screened_s)
{
	uint64_t bits;

	memcpy(&bits, &screened_s, sizeof(bits));
	return mq_map_mix(bits >> 36, family);
}

/* Was a plan of the family proposed with this screened time, to about 1e-5? It is taken to be equivalent. */
static bool same_time(const struct mq_refine *r, uint32_t family, double screened_s)
{
	return mq_map_find(&r->times, time_key(family, screened_s)) != MQ_NONE;
}

/* A value with the penalty of its family (`tired`), so that the search does not stay in one family. */
static double penalized(const struct mq_refine *r, const struct mq_refine_point *p, double value)
{
	return value * (1 + tired * r->of_family[p->family].idle);
}

/* The slot for a new point: a free one, else that of the worst point of the largest family; NULL: the new point is
 * worse than that one, and not the best of its family. */
static struct mq_refine_point *slot_for(struct mq_refine *r, double value, uint32_t family)
{
	struct mq_refine_point *worst = NULL;
	uint32_t size[MQ_REFINE_POINTS] = { 0 }, most = 0;

	if (r->n < MQ_REFINE_POINTS)
		return &r->point[r->n++];
	for (uint32_t i = 0; i < r->n; i++) {
		for (uint32_t k = 0; k < r->n; k++)
			size[i] += r->point[k].family == r->point[i].family;
		most = size[i] > most ? size[i] : most;
	}
	for (uint32_t i = 0; i < r->n; i++)
		if (size[i] == most && (!worst || r->point[i].value > worst->value))
			worst = &r->point[i];
	return value < worst->value || (most > 1 && value <= r->of_family[family].best) ? worst : NULL;
}

/* Updates the family of a judged plan with its value; returns its index. */
static uint32_t update_family(struct mq_refine *r, const struct mq_plan *plan, double value)
{
	uint32_t before = r->families.n, at = mq_map_add(&r->families, family_of(plan));

	if (at == before)
		MQ_PUSH(r->problem->arena, r->of_family, before, r->family_room,
			(struct mq_refine_family){ .best = INFINITY });
	struct mq_refine_family *f = &r->of_family[at];

	f->idle = value < f->best * (1 - gain) ? 0 : f->idle + 1;
	f->best = fmin(f->best, value);
	return at;
}

void mq_refine_offer(struct mq_refine *r, const struct mq_plan *plan, const struct mq_result *result)
{
	uint64_t effect = mq_plan_effect(&r->space, plan, &r->scratch);
	uint32_t before = r->judged.n;

	mq_map_add(&r->judged, effect);
	if (result->verdict != MQ_VERDICT_OK)
		return;
	double value = start_value(r, plan, result);
	uint32_t family = update_family(r, plan, value);

	r->idle = value < r->best * (1 - gain) ? 0 : r->idle + 1;
	r->best = fmin(r->best, value);
	for (uint32_t i = 0; i < r->n && r->judged.n == before; i++)
		if (r->point[i].value == value)
			return; /* known already */
	struct mq_refine_point *p = slot_for(r, value, family);

	if (!p)
		return;
	struct mq_plan *copy = p->plan ? p->plan : mq_arena_array(r->problem->arena, 1, struct mq_plan);

	mq_plan_copy(copy, plan, r->problem->arena);
	*p = (struct mq_refine_point){ .plan = copy, .value = value, .family = family, .screened_s = NAN };
}

bool mq_refine_met(struct mq_refine *r, const struct mq_plan *plan)
{
	return mq_map_find(&r->judged, mq_plan_effect(&r->space, plan, &r->scratch)) != MQ_NONE;
}

/* Predicted ratio of simulated to screened time for neighbours of a point: the mean over the point itself and its
 * judged neighbours. */
static double contention(const struct mq_refine_point *p)
{
	return (p->value / p->screened_s + p->sum) / (1 + p->heard);
}

/* May more plans be screened? With a fifth of an expansion per proposal, screening takes little time beside simulation.
 * Otherwise the best known candidate is proposed. */
static bool may_screen(const struct mq_refine *r)
{
	return r->known.n - r->crossed < r->width * (4 + r->n_asked / 5);
}

static void see(struct mq_refine_seen *s, double x)
{
	s->n++;
	s->sum += x;
	s->squares += x * x;
}

static double deviation(const struct mq_refine_seen *s, double mean)
{
	return s->n ? sqrt(fmax(0, s->squares / s->n - mean * mean)) : 0;
}

/* Are families and moves of devices told apart? That expands twice as many points, and on more than 32 devices (chosen)
 * screens take longer than simulations, and see too few neighbours. */
static bool apart(const struct mq_refine *r)
{
	return r->problem->q->cluster->n_devices <= 32;
}

/* What expansions like the next one of a point brought. */
static struct mq_refine_seen *brought(struct mq_refine *r, const struct mq_refine_point *p)
{
	return &r->brought[apart(r) && r->of_family[p->family].expanded];
}

/* Relative deviation of predictions of device moves from a point: of contention, half may go, as far as those of its
 * family do not say otherwise. */
static double calmed(const struct mq_refine *r, const struct mq_refine_point *p)
{
	const struct mq_refine_seen *seen = &r->of_family[p->family].places;
	double half = 0.5 * fmax(0, 1 - 1 / contention(p));

	return apart(r) ? sqrt((half * half + seen->squares) / (1 + seen->n)) : 0;
}

/* Predicted value of a point's next neighbour, and the relative deviation of such predictions. If the point is not
 * expanded: its value times the mean of what expansions brought, those of new families and others. +inf: no neighbour
 * is promising. */
static double expected(struct mq_refine *r, const struct mq_refine_point *p, bool look, double *sd)
{
	double off = deviation(&r->off, apart(r) && r->off.n ? r->off.sum / r->off.n : 0);

	*sd = off;
	if (!p->expanded) {
		const struct mq_refine_seen *seen = brought(r, p);
		double mean = seen->n ? seen->sum / seen->n : 1;

		if (apart(r))
			*sd = deviation(seen, mean);
		return p->value * mean;
	}
	if (p->next >= p->n)
		return INFINITY;
	const struct mq_refine_near *near = &p->near[p->next];

	/* simulated time is never below the screened one: neither a new best nor an improvement of the point */
	if (look && near->screened_s > fmax(r->best, p->screened_s) * (1 - gain))
		return INFINITY;
	if (mq_move_places(&near->move))
		*sd = fmax(*sd, calmed(r, p));
	return near->screened_s * contention(p);
}

/* Expected improvement on the best for a normal prediction of this mean and relative deviation: Jones, Schonlau, Welch,
 * "Efficient Global Optimization of Expensive Black-Box Functions", 1998. */
static double improvement(const struct mq_refine *r, double mean, double sd)
{
	double less = r->best - mean;

	sd *= mean;
	if (!(sd > 0) || isinf(mean))
		return fmax(less, 0);
	return less * 0.5 * erfc(-less / sd / sqrt(2)) + sd * exp(-0.5 * less * less / sd / sd) / sqrt(2 * PI);
}

static struct mq_refine_point *choose(struct mq_refine *r)
{
	struct mq_refine_point *best = NULL;
	double most = 0, least = INFINITY;
	bool look = may_screen(r);

	for (uint32_t i = 0; i < r->n; i++) {
		double sd, mean = penalized(r, &r->point[i], expected(r, &r->point[i], look, &sd));
		double gained = improvement(r, mean, sd);

		if (isfinite(mean) && (gained > most || (gained == most && mean < least)))
			most = gained, least = mean, best = &r->point[i];
	}
	return best;
}

/* ---- neighbours --------------------------------------------------------------------------------- */

MQ_COMPARE(sooner, struct mq_refine_near, MQ_ORDER(a->hope_s, b->hope_s) ?: memcmp(&a->move, &b->move, sizeof(a->move)))

enum { SLICE = 32, SHORT_SLICE = 4 };

/* A batch of neighbours screened in one call. */
struct slice {
	struct mq_refine_near near[SLICE];
	const struct mq_plan *plan[SLICE];
	const struct mq_plan *fresh[SLICE];
	uint32_t place[SLICE]; /* [n_fresh] index into of_known */
	uint32_t n, n_fresh;
};

static void screen_slice(struct mq_refine *r, struct slice *s)
{
	const struct mq_costs *costs = r->problem->costs;
	struct mq_result result[SLICE];

	if (s->n_fresh)
		costs->screen_times(costs->screen_context, s->fresh, s->n_fresh, result);
	for (uint32_t i = 0; i < s->n_fresh; i++)
		if (result[i].verdict == MQ_VERDICT_OK)
			r->of_known[s->place[i]].screened_s = value_of(r, s->fresh[i], result[i].step_time_s);
	for (uint32_t i = 0; i < s->n; i++)
		s->near[i].screened_s = r->of_known[s->near[i].known].screened_s;
}

/* Adds the plan after this move to the batch unless a plan of the same effect was judged. */
static void add_near(struct mq_refine *r, const struct mq_plan *from, const struct mq_move *move, struct slice *s)
{
	struct mq_plan *plan = mq_arena_array(&r->scratch, 1, struct mq_plan);

	/* reshaping moves are left to reshape(): as neighbours they turn all plans into deep pipelines */
	if (mq_move_reshapes(move) || !mq_move_apply(&r->space, from, move, &r->scratch, plan))
		return;
	uint64_t effect = mq_plan_effect(&r->space, plan, &r->scratch);
	if (mq_map_find(&r->judged, effect) != MQ_NONE)
		return;
	uint32_t before = r->known.n, i = mq_map_add(&r->known, effect), at = i;
	if (i == before) {
		MQ_PUSH(r->problem->arena, r->of_known, at, r->room,
			(struct mq_refine_known){ .screened_s = INFINITY });
		s->place[s->n_fresh] = i;
		s->fresh[s->n_fresh++] = plan;
	}
	s->plan[s->n] = plan;
	s->near[s->n++] = (struct mq_refine_near){ .move = *move, .known = i };
}

/* The time limit is checked after each batch: under a limit, batches shrink as clusters grow and screens slow down. */
static uint32_t slice_size(const struct mq_refine *r)
{
	if (!isfinite(r->problem->seconds))
		return SLICE;
	return (uint32_t)fmax(1, fmin(SLICE / 2, floor(2048.0 / r->problem->q->cluster->n_devices)));
}

/* The plan of a neighbour. */
static bool make_near(const struct mq_refine *r, const struct mq_refine_point *p, const struct mq_refine_near *near,
		      struct mq_arena *arena, struct mq_plan *plan)
{
	struct mq_plan moved;

	if (!near->relief)
		return mq_move_apply(&r->space, p->plan, &near->move, arena, plan);
	return mq_move_apply(&r->space, p->plan, &near->move, arena, &moved) &&
	       mq_move_relieve(&r->space, &moved, near->relief - 1, arena, plan);
}

/* A neighbour that screens below the best but does not fit is replaced by its fastest variant that does. */
static void relieve(struct mq_refine *r, const struct mq_plan *plan, struct mq_refine_near *near)
{
	const double good = r->best * (1 - gain);
	struct mq_plan less;

	if (near->screened_s >= good || r->of_known[near->known].asked || fits(r, near->known, plan))
		return;
	for (uint32_t way = 0; way < MQ_MOVE_RELIEFS; way++) {
		if (!mq_move_relieve(&r->space, plan, way, &r->scratch, &less))
			continue;
		uint32_t known = know(r, &less);
		struct mq_refine_known *k = &r->of_known[known];

		k->asked = k->fits = true;
		if (k->screened_s < (near->relief ? near->screened_s : good) && !mq_refine_met(r, &less)) {
			near->relief = 1 + way;
			near->known = known;
			near->screened_s = k->screened_s;
		}
		if (mq_relief_holds(way))
			return;
	}
}

/* Advances `next` past neighbours that do not fit. */
static void skip_unfit(struct mq_refine *r, struct mq_refine_point *p)
{
	struct mq_arena_mark mark = mq_arena_mark(&r->scratch);

	for (bool found = false; p->next < p->n && !found; p->next += !found) {
		const struct mq_refine_near *near = &p->near[p->next];
		struct mq_plan plan;

		found = r->of_known[near->known].asked ?
				r->of_known[near->known].fits :
				make_near(r, p, near, &r->scratch, &plan) && fits(r, near->known, &plan);
		mq_arena_rewind(&r->scratch, mark);
	}
}

/* Screens up to `width` new neighbours of a point. False: the time is over. */
static bool expand(struct mq_refine *r, struct mq_refine_point *p)
{
	struct mq_arena_mark mark = mq_arena_mark(&r->scratch);
	struct mq_move *move;
	uint32_t n = mq_moves_list(&r->space, p->plan, &r->scratch, &move), tried = 0, room = 0, i = 0;
	uint32_t most = slice_size(r);
	bool time = true, again = p->more; /* then known neighbours do not count */

	p->n = p->next = 0;
	p->screened_s = screen(r, p->plan, 0); /* it was judged: it fits */
	mq_map_add(&r->times, time_key(p->family, p->screened_s));
	MQ_SHUFFLE(r->problem->rng, move, n)
	while (i < n && tried < r->width && time) {
		struct mq_arena_mark each = mq_arena_mark(&r->scratch);
		struct slice s = { .n = 0 };

		while (i < n && tried + (again ? s.n_fresh : s.n) < r->width && s.n < most)
			add_near(r, p->plan, &move[i++], &s);
		screen_slice(r, &s);
		tried += again ? s.n_fresh : s.n;
		for (uint32_t k = 0; k < s.n; k++) {
			relieve(r, s.plan[k], &s.near[k]);
			if (s.near[k].screened_s <
			    p->screened_s * (1 + (mq_move_odd(&r->space, &s.near[k].move) ? -gain : slack))) {
				s.near[k].hope_s =
					s.near[k].screened_s * (mq_move_places(&s.near[k].move) ? 1 - calmed(r, p) : 1);
				MQ_PUSH(r->problem->arena, p->near, p->n, room, s.near[k]);
			}
		}
		mq_arena_rewind(&r->scratch, each);
		time = mq_tick(r->problem, (double)NAN, "refining");
	}
	if (p->n)
		qsort(p->near, p->n, sizeof(*p->near), sooner);
	mq_arena_rewind(&r->scratch, mark);
	p->expanded = true;
	p->more = i < n;
	skip_unfit(r, p);
	see(brought(r, p), p->next < p->n ? fmin(1, p->near[p->next].screened_s / p->screened_s) : 1);
	r->of_family[p->family].expanded = true;
	return time;
}

/* One step of first-improvement descent on screened time, among a sample of all moves or (`quiet`) all quiet ones. */
static bool step_down(struct mq_refine *r, struct mq_plan *plan, bool quiet, double *screened_s, struct mq_arena *arena)
{
	struct mq_arena_mark mark = mq_arena_mark(&r->scratch);
	struct mq_move *move;
	uint32_t n = mq_moves_list(&r->space, plan, &r->scratch, &move), tried = 0, i = 0;
	uint32_t most = slice_size(r) < SHORT_SLICE ? slice_size(r) : SHORT_SLICE, width = r->width / (quiet ? 1 : 4);
	bool found = false;

	MQ_SHUFFLE(r->problem->rng, move, n)
	while (i < n && tried < width && !found && mq_tick(r->problem, (double)NAN, "refining")) {
		struct slice s = { .n = 0 };

		for (; i < n && tried + s.n < width && s.n < most; i++)
			if (!quiet || mq_move_quiet(&move[i]))
				add_near(r, plan, &move[i], &s);
		screen_slice(r, &s);
		tried += s.n;
		for (uint32_t k = 0; k < s.n && !found; k++) {
			found = s.near[k].screened_s < *screened_s * (1 - gain) && fits(r, s.near[k].known, s.plan[k]);
			if (!found)
				continue;
			*screened_s = s.near[k].screened_s;
			mq_plan_copy(plan, s.plan[k], arena);
		}
	}
	mq_arena_rewind(&r->scratch, mark);
	return found;
}

/* Descends to a local optimum of screened time, at most DEPTH steps. */
static void descend(struct mq_refine *r, struct mq_plan *plan, bool quiet, double *screened_s, struct mq_arena *arena)
{
	bool down = true;

	for (uint32_t i = 0; i < DEPTH && down; i++)
		down = step_down(r, plan, quiet, screened_s, arena);
}

static void propose(struct mq_refine *r, const struct mq_refine_point *p, struct mq_plan *plan, double screened_s)
{
	struct mq_refine_asked *asked = &r->asked[r->n_asked % RING];

	mq_map_add(&r->judged, mq_plan_effect(&r->space, plan, &r->scratch));
	mq_map_add(&r->times, time_key(p->family, screened_s));
	plan->engine_objective = screened_s;
	plan->engine_unit = "s per step, screened";
	plan->usual = NULL;
	mq_assert(r->n_asked - r->heard < RING);
	*asked = (struct mq_refine_asked){ (uint32_t)(p - r->point), screened_s, false };
	r->n_asked++;
}

/* Was this device move or reshape already tried on a plan of the family? It would have the same effect here. */
static bool tried_in_family(struct mq_refine *r, const struct mq_refine_point *p, const struct mq_move *move)
{
	uint32_t key[] = { p->family, move->kind, move->a, move->b, move->n }, before = r->places.n;

	return mq_map_add(&r->places, mq_hash(MQ_HASH_INIT, key, sizeof(key))) < before;
}

/* Proposes the next neighbour of a point after a descent from it; false: it is known already, or not promising. */
static bool propose_near(struct mq_refine *r, struct mq_refine_point *p, struct mq_arena *arena, struct mq_plan *plan)
{
	const struct mq_refine_near *near = &p->near[p->next++];
	bool as_other = same_time(r, p->family, near->screened_s) && !(r->idle >= STALE && mq_move_deals(&near->move));
	bool known = mq_move_places(&near->move) ? tried_in_family(r, p, &near->move) : as_other;

	skip_unfit(r, p);
	if (known || !make_near(r, p, near, arena, plan) || mq_refine_met(r, plan))
		return false;
	double screened_s = near->screened_s;

	if (screened_s < p->screened_s * (1 - gain))
		descend(r, plan, false, &screened_s, arena);
	if (may_screen(r) && screened_s > r->best * (1 - gain))
		return false;
	propose(r, p, plan, screened_s);
	r->asked[(r->n_asked - 1) % RING].places = mq_move_places(&near->move);
	return true;
}

/* The point with the least value, in one family (MQ_NONE: in all), with or without the penalty of families. */
static struct mq_refine_point *best_point(struct mq_refine *r, uint32_t family, bool as_worn)
{
	struct mq_refine_point *best = NULL;
	double least = INFINITY;

	for (uint32_t i = 0; i < r->n; i++) {
		struct mq_refine_point *p = &r->point[i];
		double value = as_worn ? penalized(r, p, p->value) : p->value;

		if ((family == MQ_NONE || family == p->family) && value < least)
			least = value, best = p;
	}
	return best;
}

/* Crossover: the best point of each family with the decisions of the best of all, then a descent, as its own way there
 * may take more turns than it gets; also with an embedding's own stage and, once the search stalls, with an embedding
 * split by its width. Once per resulting plan. */
static bool crossover(struct mq_refine *r, struct mq_arena *arena, struct mq_plan *plan)
{
	const struct mq_refine_point *best = best_point(r, MQ_NONE, false);
	const struct mq_move apart = mq_move_apart(&r->space);
	uint32_t ways = r->idle >= STALE && r->space.n_heavy ? 3 : 2;

	for (uint32_t k = 0; best && k < ways * r->families.n && r->crossed < r->width * (1 + r->n_asked / 10) &&
			     mq_tick(r->problem, (double)NAN, "refining");
	     k++) {
		uint32_t f = k / ways, way = k % ways;
		const struct mq_refine_point *p = best_point(r, f, false);
		struct mq_arena_mark mark = mq_arena_mark(arena);
		uint32_t before = r->known.n;
		double screened_s = INFINITY;

		if (p &&
		    (way ? mq_move_apply(&r->space, p->plan, way == 1 ? &mq_move_alone : &apart, arena, plan) :
			   mq_move_like(&r->space, p->plan, best->plan, arena, plan)) &&
		    !mq_refine_met(r, plan))
			screened_s = screen(r, plan, fmax(p->value, r->best));
		if (r->known.n > before) {
			r->crossed++;
			if (screened_s < p->value && may_screen(r))
				descend(r, plan, way == 0, &screened_s, arena);
			if (screened_s < r->best * (1 - gain) && !same_time(r, f, screened_s)) {
				propose(r, p, plan, screened_s);
				return true;
			}
		}
		mq_arena_rewind(arena, mark);
	}
	return false;
}

/* Once the search stalls: splits and merges stages or rebalances layers, once per family, and descends from there, as
 * such plans are worse until other decisions have followed. */
static bool reshape(struct mq_refine *r, struct mq_arena *arena, struct mq_plan *plan)
{
	for (uint32_t f = 0; f < r->families.n && r->idle >= STALE; f++) {
		const struct mq_refine_point *p = best_point(r, f, false);
		struct mq_move *move;
		uint32_t n =
			p && p->value < r->best * (1 + close) ? mq_moves_list(&r->space, p->plan, arena, &move) : 0;

		for (uint32_t i = 0;
		     i < n && r->reshaped < r->width * r->n_asked / 20 && mq_tick(r->problem, (double)NAN, "refining");
		     i++) {
			struct mq_arena_mark mark = mq_arena_mark(arena);
			uint32_t before = r->known.n;

			if (!mq_move_reshapes(&move[i]) || tried_in_family(r, p, &move[i]) ||
			    !mq_move_apply(&r->space, p->plan, &move[i], arena, plan))
				continue;
			double screened_s = screen(r, plan, r->best * (1 + close));

			if (screened_s < r->best * (1 + close))
				descend(r, plan, false, &screened_s, arena);
			r->reshaped += r->known.n - before;
			if (screened_s < r->best * (1 - gain) && !same_time(r, f, screened_s) &&
			    !mq_refine_met(r, plan)) {
				propose(r, p, plan, screened_s);
				return true;
			}
			mq_arena_rewind(arena, mark);
		}
	}
	return false;
}

/* A random walk of `n` moves from a plan. */
static struct mq_plan random_walk(struct mq_refine *r, const struct mq_plan *from, uint32_t n, struct mq_arena *arena)
{
	struct mq_plan now = *from;

	for (uint32_t i = 0; i < n; i++) {
		struct mq_move *move;
		uint32_t n_moves = mq_moves_list(&r->space, &now, arena, &move);
		struct mq_plan other;

		const struct mq_move *any = n_moves ? &move[mq_rng_below(r->problem->rng, n_moves)] : NULL;

		if (any && !mq_move_odd(&r->space, any) && mq_move_apply(&r->space, &now, any, arena, &other))
			now = other;
	}
	return now;
}

/* Perturbation: random walks from the best point (with the penalty of families), then descent; proposes the first that
 * screens below the best, else the lowest. */
static bool perturb(struct mq_refine *r, struct mq_arena *arena, struct mq_plan *plan)
{
	struct mq_refine_point *best = best_point(r, MQ_NONE, true);
	double least_s = INFINITY;

	for (uint32_t round = 0; best && round < KICKS && least_s > r->best * (1 - gain) &&
				 (isinf(least_s) || may_screen(r)) && mq_tick(r->problem, (double)NAN, "refining");
	     round++) {
		struct mq_plan now = random_walk(r, best->plan, 2 + round / 8, arena);
		double s;

		for (uint32_t i = 0; i < KICKS && mq_refine_met(r, &now); i++)
			now = random_walk(r, &now, 1, arena);
		if (mq_refine_met(r, &now))
			continue;
		s = screen(r, &now, INFINITY);
		if (isinf(s))
			continue;
		if (may_screen(r))
			descend(r, &now, false, &s, arena);
		if (s < least_s && !same_time(r, best->family, s)) {
			least_s = s;
			mq_plan_copy(plan, &now, arena);
		}
	}
	if (isfinite(least_s))
		propose(r, best, plan, least_s);
	return isfinite(least_s);
}

/* Where no known neighbour is promising: the best point if it has neighbours that were not screened, to expand again. */
static struct mq_refine_point *unseen(struct mq_refine *r)
{
	struct mq_refine_point *p = may_screen(r) ? best_point(r, MQ_NONE, false) : NULL;

	if (!p || !p->more)
		return NULL;
	p->expanded = false;
	return p;
}

bool mq_refine_next(struct mq_refine *r, struct mq_arena *arena, struct mq_plan *plan)
{
	struct mq_refine_point *p;

	if (crossover(r, arena, plan) || reshape(r, arena, plan))
		return true;
	while ((p = choose(r)) || (p = unseen(r))) {
		if (!p->expanded) {
			if (!expand(r, p))
				return false;
		} else if (propose_near(r, p, arena, plan)) {
			return true;
		}
	}
	return perturb(r, arena, plan);
}

void mq_refine_hear(struct mq_refine *r, const struct mq_plan *plan, const struct mq_result *result)
{
	mq_assert(r->heard < r->n_asked);
	const struct mq_refine_asked *asked = &r->asked[r->heard++ % RING];
	struct mq_refine_point *p = &r->point[asked->point];

	/* the point's slot may hold another plan by now */
	if (result->verdict == MQ_VERDICT_OK && p->expanded && isfinite(p->screened_s)) {
		double ratio = value_of(r, plan, result->step_time_s) / asked->screened_s;
		double off = ratio / contention(p) - 1;

		see(asked->places && apart(r) ? &r->of_family[p->family].places : &r->off, off);
		p->sum += ratio;
		p->heard++;
	}
	mq_refine_offer(r, plan, result);
}
