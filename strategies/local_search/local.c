/* local.c - see local.h. SPDX-License-Identifier: Apache-2.0 */
#include "local_search/local.h"

#include <math.h>

struct device {
	uint32_t type;
	double time, comm, size;
};

struct run {
	const struct mq_place *p;
	struct mq_units u;
	struct mq_arena *arena;
	uint32_t n_devices;
	struct device *device;
	uint32_t *at;    /* [units] device */
	uint32_t *n_got; /* [signals * devices] number of receivers there */
};

static uint32_t *n_recv(struct run *r, uint32_t signal, uint32_t device)
{
	return &r->n_got[(size_t)signal * r->n_devices + device];
}

/* Does a signal cross the border of a device? `home_here`: its sender is there; `here` of `all` receivers are there. */
static bool crosses(bool home_here, uint32_t here, uint32_t all)
{
	return home_here ? here < all : here > 0;
}

static double load_of(const struct run *r, const struct device *d)
{
	return d->time + (r->p->type[d->type].own_memory ? d->comm : 0);
}

/* Communication of a device after adding (+1) or removing (-1) `unit`. */
static double comm_after(struct run *r, uint32_t unit, uint32_t device, int change)
{
	const struct mq_units *u = &r->u;
	double comm = r->device[device].comm;

	for (uint32_t i = u->sent_first[unit]; i < u->sent_first[unit + 1]; i++) {
		uint32_t s = u->sent[i], all = u->dst_first[s + 1] - u->dst_first[s];
		uint32_t here = *n_recv(r, s, device);

		comm -= crosses(change < 0, here, all) ? u->cost[s] : 0;
		comm += crosses(change > 0, here, all) ? u->cost[s] : 0;
	}
	for (uint32_t i = u->got_first[unit]; i < u->got_first[unit + 1]; i++) {
		uint32_t s = u->got[i], all = u->dst_first[s + 1] - u->dst_first[s];
		uint32_t here = *n_recv(r, s, device);
		bool home = r->at[u->home[s]] == device;

		comm -= crosses(home, here, all) ? u->cost[s] : 0;
		comm += crosses(home, here + (uint32_t)change, all) ? u->cost[s] : 0;
	}
	return comm;
}

static void apply_move(struct run *r, uint32_t unit, uint32_t device)
{
	const struct mq_units *u = &r->u;
	struct device *from = &r->device[r->at[unit]], *to = &r->device[device];

	from->comm = comm_after(r, unit, r->at[unit], -1);
	to->comm = comm_after(r, unit, device, 1);
	from->time -= u->time[unit * u->n_types + from->type];
	to->time += u->time[unit * u->n_types + to->type];
	from->size -= u->size[unit];
	to->size += u->size[unit];
	for (uint32_t i = u->got_first[unit]; i < u->got_first[unit + 1]; i++) {
		--*n_recv(r, u->got[i], r->at[unit]);
		++*n_recv(r, u->got[i], device);
	}
	r->at[unit] = device;
}

/* Max-load after a move; +inf: not allowed. The largest load of the other devices is among the three largest of all. */
static double after_move(struct run *r, uint32_t unit, uint32_t device, const double top[3], const uint32_t who[3])
{
	const struct mq_units *u = &r->u;
	uint32_t from = r->at[unit];
	struct device a = r->device[from], b = r->device[device];
	double rest = 0;

	b.time += u->time[unit * u->n_types + b.type];
	b.size += u->size[unit];
	if (!isfinite(b.time) || b.size > r->p->type[b.type].memory)
		return INFINITY;
	a.time -= u->time[unit * u->n_types + a.type];
	a.comm = comm_after(r, unit, from, -1);
	b.comm = comm_after(r, unit, device, 1);
	for (int i = 0; i < 3; i++) {
		if (who[i] != from && who[i] != device) {
			rest = top[i];
			break;
		}
	}
	return fmax(rest, fmax(load_of(r, &a), load_of(r, &b)));
}

static void three_largest(const struct run *r, double top[3], uint32_t who[3])
{
	for (int i = 0; i < 3; i++) {
		top[i] = 0;
		who[i] = MQ_NONE;
		for (uint32_t d = 0; d < r->n_devices; d++) {
			bool taken = (i > 0 && who[0] == d) || (i > 1 && who[1] == d);

			if (!taken && (who[i] == MQ_NONE || load_of(r, &r->device[d]) > top[i])) {
				top[i] = load_of(r, &r->device[d]);
				who[i] = d;
			}
		}
	}
}

static enum mq_status random_start(struct run *r, struct mq_rng *rng, struct mq_err *err)
{
	const struct mq_units *u = &r->u;
	uint32_t *may = mq_arena_array(r->arena, r->n_devices, uint32_t);

	for (uint32_t v = 0; v < u->n; v++) {
		uint32_t n = 0;

		for (uint32_t d = 0; d < r->n_devices; d++)
			if (isfinite(u->time[v * u->n_types + r->device[d].type]) &&
			    r->device[d].size + u->size[v] <= r->p->type[r->device[d].type].memory)
				may[n++] = d;
		if (!n)
			return mq_fail(err, MQ_ENOPLAN, "a random start leaves no room for op group %u (%.3g B)", v,
				       u->size[v]);
		r->at[v] = may[mq_rng_below(rng, n)];
		r->device[r->at[v]].size += u->size[v];
		r->device[r->at[v]].time += u->time[v * u->n_types + r->device[r->at[v]].type];
	}
	for (uint32_t s = 0; s < u->n_signals; s++)
		for (uint32_t i = u->dst_first[s]; i < u->dst_first[s + 1]; i++)
			++*n_recv(r, s, r->at[u->dst[i]]);
	for (uint32_t s = 0; s < u->n_signals; s++)
		for (uint32_t d = 0; d < r->n_devices; d++)
			if (crosses(r->at[u->home[s]] == d, *n_recv(r, s, d), u->dst_first[s + 1] - u->dst_first[s]))
				r->device[d].comm += u->cost[s];
	return MQ_OK;
}

enum mq_status mq_local_search(const struct mq_place *p, struct mq_rng *rng, struct mq_arena *arena,
			       struct mq_local_result *result, struct mq_err *err)
{
	struct run r = { .p = p, .arena = arena };

	*result = (struct mq_local_result){ .placement = mq_placement_empty(p, arena) };
	MQ_TRY(mq_units_make(p, MQ_UNITS_COLORS, arena, &r.u, err));
	r.n_devices = result->placement.n_stages;
	r.device = mq_arena_array(arena, r.n_devices, struct device);
	r.at = mq_arena_array(arena, r.u.n, uint32_t);
	r.n_got = mq_arena_array(arena, (size_t)r.u.n_signals * r.n_devices, uint32_t);
	for (uint32_t d = 0; d < r.n_devices; d++)
		r.device[d].type = result->placement.stage[d].type;
	MQ_TRY(random_start(&r, rng, err));
	for (;;) {
		double top[3], best;
		uint32_t who[3], unit = MQ_NONE, device = 0;

		three_largest(&r, top, who);
		best = top[0] * (1 - 1e-9);
		for (uint32_t v = 0; v < r.u.n; v++) {
			/* a move that leaves the most loaded device as it is cannot be below top[0] */
			for (uint32_t d = 0; d < r.n_devices; d++) {
				if (d == r.at[v])
					continue;
				double load = after_move(&r, v, d, top, who);

				if (load < best)
					best = load, unit = v, device = d;
			}
		}
		if (unit == MQ_NONE)
			break;
		apply_move(&r, unit, device);
		result->moves++;
	}
	mq_placement_fill(&r.u, p->n_nodes, r.at, arena, &result->placement);
	mq_placement_loads(p, &result->placement, arena);
	return MQ_OK;
}
