/* ideal.c - see ideal.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/place/ideal.h"

#include <math.h>

#include "lib/csr.h"
#include "lib/place/ideals.h"

struct frame {
	uint32_t ideal, link, unit;
	double comm, size, sync;
};

struct run {
	const struct mq_place *place;
	const struct mq_units *u;
	struct mq_arena *arena;
	struct mq_ideals ideals;
	uint32_t n_types, n_states, max_replicas, least_replicas;
	bool use_all;
	uint32_t *stride; /* [n_types] of the states */
	double *dp;       /* [n_ideals * n_states] */
	double bound;     /* sets with a larger load are skipped */
	bool *useful;     /* [n_ideals] see find_useful */
	/* the current difference of two ideals */
	bool *in;            /* [units] */
	uint32_t *n_got;     /* [signals] number of receivers in it */
	struct frame *frame; /* [units + 1] */
	double *time;        /* [(units + 1) * n_types] */
	uint32_t *mark, stamp;
	double pairs;
	/* backtracking: the step that attains a value */
	bool find;
	uint32_t find_state, found_ideal, found_type, found_replicas;
	double found_load;
};

/* The prefixes of the linearised order as a chain of ideals. */
static void line_ideals(struct run *r)
{
	struct mq_ideals *s = &r->ideals;
	uint32_t n = r->u->n;

	s->n = n + 1;
	s->link_first = mq_arena_array(r->arena, n + 2, uint32_t);
	s->link_unit = mq_arena_array(r->arena, n, uint32_t);
	s->link_to = mq_arena_array(r->arena, n, uint32_t);
	for (uint32_t i = 0; i < n; i++) {
		s->link_first[i + 1] = i;
		s->link_unit[i] = r->u->line[i];
		s->link_to[i] = i;
	}
	s->link_first[n + 1] = n;
}

/* ---- difference of two ideals ------------------------------------------------------------------- */

/* Adds a unit to the difference; returns the communication of the enlarged set. */
static double add_unit(struct run *r, uint32_t unit, double comm)
{
	const struct mq_units *u = r->u;

	r->in[unit] = true;
	for (uint32_t i = u->sent_first[unit]; i < u->sent_first[unit + 1]; i++) {
		uint32_t s = u->sent[i], n_dst = u->dst_first[s + 1] - u->dst_first[s];

		comm -= r->n_got[s] > 0 ? u->cost[s] : 0; /* it came from outside before */
		comm += r->n_got[s] < n_dst ? u->cost[s] : 0;
	}
	for (uint32_t i = u->got_first[unit]; i < u->got_first[unit + 1]; i++) {
		uint32_t s = u->got[i], n_dst = u->dst_first[s + 1] - u->dst_first[s];
		uint32_t n = ++r->n_got[s];

		if (r->in[u->home[s]])
			comm -= n == n_dst ? u->cost[s] : 0; /* no receiver is outside now */
		else
			comm += n == 1 ? u->cost[s] : 0;
	}
	return comm;
}

static void remove_unit(struct run *r, uint32_t unit)
{
	const struct mq_units *u = r->u;

	r->in[unit] = false;
	for (uint32_t i = u->got_first[unit]; i < u->got_first[unit + 1]; i++)
		r->n_got[u->got[i]]--;
}

/* Is the set too slow or too large for every type? Then so are all supersets below. */
static bool pruned(const struct run *r, uint32_t depth)
{
	const double *time = r->time + (size_t)depth * r->n_types;

	for (uint32_t t = 0; t < r->n_types; t++)
		if (r->place->type[t].count && time[t] <= r->bound * r->max_replicas &&
		    r->frame[depth].size <= r->place->type[t].memory)
			return false;
	return true;
}

static double load_of(const struct run *r, uint32_t depth, uint32_t type, uint32_t replicas)
{
	const struct frame *f = &r->frame[depth];
	double load = r->time[(size_t)depth * r->n_types + type], n = replicas;

	if (f->size > r->place->type[type].memory)
		return INFINITY;
	if (r->place->type[type].own_memory)
		load += f->comm;
	return replicas == 1 ? load : load / n + 2 * (n - 1) / n * f->sync;
}

/* Updates every state of `top` whose last set is this one, on n devices of type t. */
static void relax(struct run *r, uint32_t top, uint32_t sub, uint32_t t, uint32_t n, double load)
{
	uint32_t count = r->place->type[t].count, step = r->stride[t];
	double *restrict to = r->dp + (size_t)top * r->n_states + n * step;
	const double *restrict from = r->dp + (size_t)sub * r->n_states;

	for (uint32_t base = 0; base < r->n_states; base += step * (count + 1)) {
		for (uint32_t s = base; s < base + step * (count + 1 - n); s++) {
			double value = from[s] < load ? load : from[s];

			to[s] = value < to[s] ? value : to[s];
		}
	}
}

/* Does this set on n devices of type t attain the value of the state being traced? Ties go to the least load, so that
 * earlier stages are not emptier than necessary. */
static void trace(struct run *r, uint32_t top, uint32_t sub, uint32_t t, uint32_t n, double load)
{
	uint32_t count = r->place->type[t].count, s = r->find_state;

	if (s / r->stride[t] % (count + 1) < n)
		return;
	double value = fmax(r->dp[(size_t)sub * r->n_states + s - n * r->stride[t]], load);

	if (value != r->dp[(size_t)top * r->n_states + s] || (r->found_ideal != MQ_NONE && load >= r->found_load))
		return;
	r->found_ideal = sub;
	r->found_type = t;
	r->found_replicas = n;
	r->found_load = load;
}

static void visit(struct run *r, uint32_t top, uint32_t sub, uint32_t depth)
{
	r->pairs++;
	if (!r->useful[sub])
		return;
	for (uint32_t t = 0; t < r->n_types; t++) {
		uint32_t most = r->place->type[t].count;

		most = most < r->max_replicas ? most : r->max_replicas;
		/* every number of replicas up to 16, then doubled */
		for (uint32_t n = r->least_replicas; n <= most; n = n < 16 ? n + 1 : 2 * n) {
			double load = load_of(r, depth, t, n);

			if (load > r->bound)
				continue;
			if (!r->find)
				relax(r, top, sub, t, n, load);
			else
				trace(r, top, sub, t, n, load);
		}
	}
}

/* Visits all sub-ideals of `top`, depth first. */
static void descend(struct run *r, uint32_t top)
{
	const struct mq_ideals *s = &r->ideals;
	const struct mq_units *u = r->u;
	uint32_t depth = 0;

	r->stamp++;
	r->frame[0] = (struct frame){ .ideal = top, .link = s->link_first[top] };
	for (uint32_t t = 0; t < r->n_types; t++)
		r->time[t] = 0;
	for (;;) {
		struct frame *f = &r->frame[depth];

		if (f->link == s->link_first[f->ideal + 1]) {
			if (depth == 0)
				return;
			remove_unit(r, f->unit);
			depth--;
			continue;
		}
		uint32_t unit = s->link_unit[f->link], sub = s->link_to[f->link];

		f->link++;
		if (r->mark[sub] == r->stamp)
			continue;
		r->mark[sub] = r->stamp;
		r->frame[depth + 1] = (struct frame){ .ideal = sub,
						      .link = s->link_first[sub],
						      .unit = unit,
						      .comm = add_unit(r, unit, f->comm),
						      .size = f->size + u->size[unit],
						      .sync = f->sync + u->sync[unit] };
		for (uint32_t t = 0; t < r->n_types; t++)
			r->time[(size_t)(depth + 1) * r->n_types + t] =
				r->time[(size_t)depth * r->n_types + t] + u->time[unit * r->n_types + t];
		if (pruned(r, depth + 1)) {
			remove_unit(r, unit);
			continue;
		}
		depth++;
		visit(r, top, sub, depth);
	}
}

/* ---- dynamic program ---------------------------------------------------------------------------- */

/* Upper bound of a device's work within the load bound, in seconds of the first type. */
static double capacity(const struct run *r, uint32_t type)
{
	double most = 0;

	for (uint32_t v = 0; v < r->u->n; v++) {
		const double *time = r->u->time + (size_t)v * r->n_types;

		if (time[0] > 0)
			most = fmax(most, time[type] > 0 ? time[0] / time[type] : (double)INFINITY);
	}
	return most > 0 && r->place->type[type].count ? r->bound * most * (1 + 1e-9) : 0;
}

/* Marks ideals that some devices can hold within the bound while the others hold the rest; no placement within the
 * bound passes through any other. */
static void find_useful(struct run *r)
{
	const struct mq_ideals *ideals = &r->ideals;
	double *work = mq_arena_array(r->arena, ideals->n, double),
	       *room = mq_arena_array(r->arena, r->n_states, double);

	r->useful = mq_arena_array(r->arena, ideals->n, bool);
	for (uint32_t id = 1; id < ideals->n; id++) {
		uint32_t link = ideals->link_first[id];

		work[id] = work[ideals->link_to[link]] + r->u->time[(size_t)ideals->link_unit[link] * r->n_types];
	}
	for (uint32_t t = 0; t < r->n_types; t++) {
		double each = capacity(r, t);

		for (uint32_t s = 0; s < r->n_states; s++) {
			uint32_t n = s / r->stride[t] % (r->place->type[t].count + 1);

			room[s] += n ? n * each : 0;
		}
	}
	for (uint32_t id = 0; id < ideals->n; id++)
		for (uint32_t s = 0; s < r->n_states && !r->useful[id]; s++)
			r->useful[id] = isinf(room[r->n_states - 1]) ||
					(work[id] <= room[s] &&
					 work[ideals->n - 1] - work[id] <= room[r->n_states - 1] - room[s]);
}

static bool fill(struct run *r, const struct mq_ideal_options *o)
{
	find_useful(r);
	for (uint32_t id = 0; id < r->ideals.n; id++) {
		double *dp = r->dp + (size_t)id * r->n_states;

		for (uint32_t s = 0; s < r->n_states; s++)
			dp[s] = id == 0 && (!s || !r->use_all) ? 0 : INFINITY;
		if (id == 0)
			continue;
		if (id % 64 == 0 && o->tick && !o->tick(o->tick_context, (double)id / r->ideals.n, "ideals"))
			return false;
		if (r->useful[id])
			descend(r, id);
		for (uint32_t t = 0; t < r->n_types && !r->use_all; t++) { /* a device may stay unused */
			uint32_t wide = r->stride[t] * (r->place->type[t].count + 1);

			for (uint32_t s = 0; s < r->n_states; s++)
				if (s % wide >= r->stride[t] && dp[s - r->stride[t]] < dp[s])
					dp[s] = dp[s - r->stride[t]];
		}
	}
	return true;
}

static void add_stage(struct run *r, uint32_t top, uint32_t *set, struct mq_placement *out)
{
	/* the units of `top` outside the found sub-ideal; in a chain, those between them */
	for (uint32_t v = 0; r->ideals.bits && v < r->u->n; v++)
		if (mq_ideals_has(&r->ideals, top, v) && !mq_ideals_has(&r->ideals, r->found_ideal, v))
			set[v] = out->n_stages;
	for (uint32_t i = r->found_ideal; !r->ideals.bits && i < top; i++)
		set[r->u->line[i]] = out->n_stages;
	out->stage[out->n_stages++] = (struct mq_place_stage){ .type = r->found_type, .replicas = r->found_replicas };
}

/* Traces the optimum back; finds stages from last to first. */
static void backtrack(struct run *r, struct mq_placement *out)
{
	uint32_t top = r->ideals.n - 1, s = r->n_states - 1;

	*out = (struct mq_placement){ .max_load = r->dp[(size_t)top * r->n_states + s] };
	if (isinf(out->max_load))
		return;
	out->stage = mq_arena_array(r->arena, r->u->n, struct mq_place_stage);
	uint32_t *set = mq_arena_array(r->arena, r->u->n, uint32_t); /* [units] stage */

	r->find = true;
	while (top) {
		const double *dp = r->dp + (size_t)top * r->n_states;

		for (uint32_t k = 0; k < 2 * r->n_types && !r->use_all; k++) {
			uint32_t t = k % r->n_types; /* drop idle devices, CPUs first */

			if (r->place->type[t].own_memory == (k < r->n_types))
				continue;
			while (s / r->stride[t] % (r->place->type[t].count + 1) && dp[s - r->stride[t]] == dp[s])
				s -= r->stride[t];
		}
		r->find_state = s;
		r->found_ideal = MQ_NONE;
		descend(r, top);
		mq_assert(r->found_ideal != MQ_NONE);
		add_stage(r, top, set, out);
		s -= r->found_replicas * r->stride[r->found_type];
		top = r->found_ideal;
	}
	r->find = false;
	MQ_REVERSE(out->stage, out->n_stages)
	for (uint32_t v = 0; v < r->u->n; v++)
		set[v] = out->n_stages - 1 - set[v];
	mq_placement_fill(r->u, r->place->n_nodes, set, r->arena, out);
	mq_placement_loads(r->place, out, r->arena);
	uint32_t *used = mq_arena_array(r->arena, r->n_types, uint32_t);

	for (uint32_t i = 0; i < out->n_stages; i++) {
		out->stage[i].device = used[out->stage[i].type];
		used[out->stage[i].type] += out->stage[i].replicas;
	}
}

static void prepare(struct run *r)
{
	uint32_t n = r->u->n;

	r->in = mq_arena_array(r->arena, n, bool);
	r->n_got = mq_arena_array(r->arena, r->u->n_signals, uint32_t);
	r->frame = mq_arena_array(r->arena, n + 1, struct frame);
	r->time = mq_arena_array(r->arena, (size_t)(n + 1) * r->n_types, double);
	r->mark = mq_arena_array(r->arena, r->ideals.n, uint32_t);
	r->dp = mq_arena_array(r->arena, (size_t)r->ideals.n * r->n_states, double);
}

static enum mq_status count_states(struct run *r, struct mq_err *err)
{
	double states = 1;

	r->stride = mq_arena_array(r->arena, r->n_types, uint32_t);
	for (uint32_t t = 0; t < r->n_types; t++) {
		r->stride[t] = (uint32_t)states;
		states *= r->place->type[t].count + 1.0;
		if (states > 1e6)
			return mq_bad(
				err, "device counts make more than 1e6 states for each ideal: use fewer devices (--max "
				     "devices=N)");
	}
	r->n_states = (uint32_t)states;
	return MQ_OK;
}

static void solve_line(struct run *r, const struct mq_ideal_options *o, struct mq_ideal_result *result)
{
	line_ideals(r);
	prepare(r);
	r->bound = INFINITY;
	result->n_ideals = r->ideals.n;
	if (!fill(r, o)) {
		result->stopped = true;
		result->placement = (struct mq_placement){ .max_load = INFINITY };
		return;
	}
	backtrack(r, &result->placement);
	result->pairs += r->pairs;
	result->line_load = result->placement.max_load;
}

enum mq_status mq_ideal_solve(const struct mq_place *place, const struct mq_ideal_options *o, struct mq_arena *arena,
			      struct mq_ideal_result *result, struct mq_err *err)
{
	struct mq_units units;
	struct run r = { .place = place,
			 .u = &units,
			 .arena = arena,
			 .n_types = place->n_types,
			 .max_replicas = o->max_replicas ? o->max_replicas : 1,
			 .least_replicas = 1,
			 .use_all = o->use_all };
	struct run line;

	uint32_t most = 1;

	*result = (struct mq_ideal_result){ .line_load = INFINITY };
	for (uint32_t t = 0; t < place->n_types; t++)
		most = place->type[t].count > most ? place->type[t].count : most;
	r.max_replicas = r.max_replicas < most ? r.max_replicas : most;
	if (o->only_replicas)
		r.least_replicas = r.max_replicas = o->only_replicas;
	MQ_TRY(mq_units_make(place, o->keep_idle ? MQ_UNITS_CYCLES : MQ_UNITS_IDLE, arena, &units, err));
	result->n_units = units.n;
	MQ_TRY(count_states(&r, err));
	line = r;
	solve_line(&line, o, result);
	if (o->linearize || result->stopped)
		return MQ_OK;
	struct mq_ideals_graph graph = { units.n, units.pred_first, units.pred, units.succ_first, units.succ };

	MQ_TRY(mq_ideals_make(&graph, o->max_ideals ? o->max_ideals : 60000, arena, &r.ideals, err));
	prepare(&r);
	result->n_ideals = r.ideals.n;
	/* sums in another order may differ in the last bits */
	r.bound = result->line_load * (1 + 1e-12);
	if (!fill(&r, o)) {
		result->stopped = true;
		return MQ_OK;
	}
	backtrack(&r, &result->placement);
	result->pairs += r.pairs;
	return MQ_OK;
}
