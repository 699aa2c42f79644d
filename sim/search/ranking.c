/* ranking.c - the ranking of a search: rows that are different plans, and the best plan of each software.
 *
 * Plans of one form (degrees, schedule, micro-batches, recompute, sync, offload or none) differ in a stage boundary, a
 * replica's share, the number of layers on the host or the order of devices. The best of them is the row; those within
 * half a percent of it are counted. Where plans have no common degrees (placements, stages of unequal width) the slower
 * ones have rows of their own. The ranking is known at the end, since a better plan may come at any time. Until then
 * more candidates than rows are kept; where these are too many, the worst goes that a better one stands for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "search/search.h"

#include <math.h>
#include <stdlib.h>

#include "base/text.h"

static const double NEAR_EQUAL = 0.005;
enum { KEPT_PER_ROW = 16 };
static const uint64_t UNEVEN = 1; /* bit of a form: its plans have no common degrees */

struct mq_seen {
	uint64_t hash, form;
	double step_time_s, objective;
};

/* An engine's own objective ranks its plan where it measures what was asked: the load of a device per micro-batch,
 * or times of a profiled graph in its file's unit. Shares of bytes cut or weights split do not. */
static bool measures(const struct mq_candidate *c, const char *unit)
{
	return !isnan(c->plan->engine_objective) && c->plan->engine_unit &&
	       !strncmp(c->plan->engine_unit, unit, strlen(unit));
}

/* What a feasible candidate is ranked by: less is better; infinite where it is not known. */
static double objective_of(const struct mq_search *s, const struct mq_candidate *c)
{
	const char *o = s->objective;

	if (!strcmp(o, "cost") || !strcmp(o, "energy")) {
		double v = (*o == 'c' ? mq_step_usd : mq_step_kWh)(s->q->cluster, c->plan, c->result.step_time_s);
		return isnan(v) ? (double)INFINITY : v;
	}
	if (strcmp(o, "step-time") && measures(c, "per sample"))
		return c->plan->engine_objective;
	if (!strcmp(o, "max-load"))
		return measures(c, "s per micro-batch") ? c->plan->engine_objective : (double)INFINITY;
	return c->result.step_time_s; /* latency: of the batch that was asked */
}

/* Of stages that differ in recompute or sync the set of their choices counts. */
static uint64_t form_of(const struct mq_plan *plan)
{
	const struct mq_degrees d = mq_plan_degrees(plan);
	uint32_t recompute = 0, sync = 0,
		 offload = (plan->explicit & MQ_EXPLICIT_OFFLOAD_LAYERS) && plan->offload_layers > 0;

	for (uint32_t i = 0; i < plan->n_configs; i++) {
		recompute |= 1u << plan->config[i].recompute;
		sync |= 1u << plan->config[i].sync;
	}
	const uint32_t form[] = { d.dp,          d.tp,           d.pp,
				  d.cp,          d.ep,           d.etp,
				  d.ulysses,     d.n_devices,    plan->micro_batches,
				  plan->virtual, plan->pipeline, recompute,
				  sync,          offload };
	uint64_t hash = mq_hash(MQ_HASH_INIT, form, sizeof(form));

	return d.dp ? hash & ~UNEVEN : hash | UNEVEN;
}

static bool close_by(double x, double y)
{
	return x == y || fabs(x - y) <= NEAR_EQUAL * fmin(fabs(x), fabs(y));
}

static bool near_equal(const struct mq_candidate *row, const struct mq_seen *other)
{
	return close_by(row->result.step_time_s, other->step_time_s) && close_by(row->objective, other->objective);
}

static bool stands_for(const struct mq_candidate *row, const struct mq_seen *other)
{
	return row->form == other->form && (!(row->form & UNEVEN) || near_equal(row, other));
}

static struct mq_seen seen_of(const struct mq_candidate *c)
{
	return (struct mq_seen){ c->hash, c->form, c->result.step_time_s, c->objective };
}

void mq_candidate_keep(struct mq_candidate *to, const struct mq_candidate *from, struct mq_arena *arena)
{
	*to = *from;
	to->plan = mq_arena_alloc(arena, sizeof(*to->plan));
	mq_plan_copy(to->plan, from->plan, arena);
	to->runs_in = mq_arena_strdup(arena, from->runs_in);
}

/* Is a before b, which was found first? */
static bool before(const struct mq_candidate *a, const struct mq_candidate *b)
{
	if (a->objective != b->objective)
		return a->objective < b->objective;
	if (isinf(a->objective) && a->result.step_time_s != b->result.step_time_s) /* neither's price is known */
		return a->result.step_time_s < b->result.step_time_s;
	return !mq_result_tight(&a->result) && mq_result_tight(&b->result);
}

/* Plans equal in time and memory to nine digits differ in a choice without effect (recomputation where nothing is
 * kept, the order of devices that are alike, the sync of a stage off the critical path): one row of the ranking. */
static bool same_effect(const struct mq_candidate *a, const struct mq_candidate *b)
{
	const struct mq_result *x = &a->result, *y = &b->result;

	return a->objective == b->objective && x->step_time_s == y->step_time_s &&
	       x->peak_memory_B == y->peak_memory_B && a->plan->micro_batches == b->plan->micro_batches &&
	       mq_plan_degrees(a->plan).n_devices == mq_plan_degrees(b->plan).n_devices;
}

/* The candidate to give up: the worst that a better one stands for, else the worst. */
static uint32_t least_missed(const struct mq_ranking *r)
{
	for (uint32_t i = r->n; i-- > 1;) {
		struct mq_seen worse = seen_of(&r->candidate[i]);

		for (uint32_t k = 0; k < i; k++)
			if (stands_for(&r->candidate[k], &worse))
				return i;
	}
	return r->n - 1;
}

/* Of plans the same in effect the first found stays, but one that a software runs replaces one that none does. */
static bool known(struct mq_ranking *r, const struct mq_candidate *c)
{
	for (uint32_t i = 0; i < r->n; i++) {
		struct mq_candidate *old = &r->candidate[i];

		if (old->hash != c->hash && !same_effect(old, c))
			continue;
		if (old->hash != c->hash && !strcmp(old->runs_in, "-") && strcmp(c->runs_in, "-"))
			mq_candidate_keep(old, c, r->arena);
		return true;
	}
	return false;
}

void mq_ranking_init(struct mq_ranking *r, const struct mq_search *search, struct mq_arena *arena)
{
	uint32_t room = KEPT_PER_ROW * (search->top + 1);

	*r = (struct mq_ranking){
		.search = search,
		.arena = arena,
		.room = room,
		.candidate = mq_arena_array(arena, room + 1, struct mq_candidate),
		.software = mq_arena_array(arena, search->n_software, struct mq_named_candidate),
	};
	for (uint32_t i = 0; i < search->n_software; i++)
		r->software[i].name = search->software[i].software.name;
}

void mq_ranking_add(struct mq_ranking *r, struct mq_candidate *c)
{
	uint32_t at = r->n;

	c->objective = objective_of(r->search, c);
	c->form = form_of(c->plan);
	MQ_PUSH(r->arena, r->seen, r->n_seen, r->seen_room, seen_of(c));
	for (uint32_t i = 0; i < r->search->n_software; i++) {
		struct mq_named_candidate *s = &r->software[i];

		if (mq_text_has_word(c->runs_in, s->name) && (!s->best.plan || before(c, &s->best)))
			mq_candidate_keep(&s->best, c, r->arena);
	}
	if (known(r, c))
		return;
	while (at > 0 && before(c, &r->candidate[at - 1]))
		at--;
	if (at == r->room)
		return;
	memmove(&r->candidate[at + 1], &r->candidate[at], (r->n - at) * sizeof(*r->candidate));
	mq_candidate_keep(&r->candidate[at], c, r->arena);
	if (++r->n <= r->room)
		return;
	at = least_missed(r);
	memmove(&r->candidate[at], &r->candidate[at + 1], (--r->n - at) * sizeof(*r->candidate));
}

MQ_COMPARE(by_hash, struct mq_seen, MQ_ORDER(a->hash, b->hash))

/* Each plan that was seen counts once, for the first row that stands for it. */
static void count_alike(struct mq_ranking *r, struct mq_search_outcome *out)
{
	if (r->n_seen)
		qsort(r->seen, r->n_seen, sizeof(*r->seen), by_hash);
	for (uint32_t i = 0; i < r->n_seen; i++) {
		const struct mq_seen *s = &r->seen[i];
		uint32_t row = 0;

		if (i && s->hash == s[-1].hash)
			continue;
		while (row < out->n_best && !stands_for(&out->best[row], s))
			row++;
		if (row < out->n_best && out->best[row].hash != s->hash && near_equal(&out->best[row], s))
			out->best[row].like++;
	}
}

void mq_ranking_finish(struct mq_ranking *r, struct mq_search_outcome *out)
{
	out->best = mq_arena_array(r->arena, r->search->top, struct mq_candidate);
	out->n_best = 0;
	for (uint32_t i = 0; i < r->n && out->n_best < r->search->top; i++) {
		struct mq_seen s = seen_of(&r->candidate[i]);
		uint32_t row = 0;

		while (row < out->n_best && !stands_for(&out->best[row], &s))
			row++;
		if (row == out->n_best)
			out->best[out->n_best++] = r->candidate[i];
	}
	count_alike(r, out);
	out->n_software = r->search->n_software;
	out->software = r->software;
}
