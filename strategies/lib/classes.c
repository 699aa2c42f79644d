/* classes.c - see classes.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/classes.h"

#include <math.h>

enum { NEIGHBOURS = 16 };

struct mark {
	const struct mq_device *device;
	double inside_Bps, outside_Bps;
};

/* The route's least bandwidth outside the fabric: which of its switches the other device hangs on does not matter. */
static double way_Bps(const struct mq_cluster *c, uint32_t a, uint32_t b)
{
	const struct mq_route *route;
	struct mq_err none = MQ_ERR_INIT;
	double least = INFINITY;

	if (mq_cluster_route(c, a, b, &route, &none) != MQ_OK)
		return 0;
	for (uint32_t i = 0; i < route->n_links; i++)
		if (c->link[route->link[i]].class != MQ_LINK_FABRIC)
			least = fmin(least, mq_link_usable_Bps(&c->link[route->link[i]]));
	return least;
}

/* The largest bandwidth to another device of the machine among the NEIGHBOURS nearest ranks. Devices of a machine
 * nearly always have consecutive ranks; where they do not, all of a machine see equally few. */
static double inside_Bps(const struct mq_cluster *c, uint32_t d)
{
	double most = 0;

	for (uint32_t i = 1; i <= NEIGHBOURS && i < c->n_devices; i++) {
		uint32_t up = d + i, down = d - i;

		if (up < c->n_devices && c->device[up].node == c->device[d].node)
			most = fmax(most, way_Bps(c, d, up));
		if (i <= d && c->device[down].node == c->device[d].node)
			most = fmax(most, way_Bps(c, d, down));
	}
	return most;
}

static double outside_Bps(const struct mq_cluster *c, uint32_t d)
{
	for (uint32_t i = 1; i < c->n_devices; i++) {
		uint32_t other = (d + i) % c->n_devices;

		if (c->device[other].node != c->device[d].node)
			return way_Bps(c, d, other);
	}
	return 0;
}

static bool same(const struct mark *a, const struct mark *b)
{
	return mq_devices_alike(a->device, b->device) && a->device->mem_bw_Bps == b->device->mem_bw_Bps &&
	       a->device->speed_flops == b->device->speed_flops && a->inside_Bps == b->inside_Bps &&
	       a->outside_Bps == b->outside_Bps;
}

void mq_classes_make(const struct mq_cluster *c, struct mq_arena *arena, struct mq_classes *out)
{
	struct mark *mark = mq_arena_array(arena, c->n_devices, struct mark);

	out->n = 0;
	out->of = mq_arena_array(arena, c->n_devices, uint32_t);
	out->first = mq_arena_array(arena, c->n_devices, uint32_t);
	for (uint32_t d = 0; d < c->n_devices; d++) {
		struct mark m = { &c->device[d], inside_Bps(c, d), outside_Bps(c, d) };
		uint32_t k = 0;

		while (k < out->n && !same(&mark[k], &m))
			k++;
		if (k == out->n) {
			mark[k] = m;
			out->first[out->n++] = d;
		}
		out->of[d] = k;
	}
}

static bool same_number(double a, double b)
{
	return a == b || (isnan(a) && isnan(b)); /* NaN: not given */
}

bool mq_classes_exchange(const struct mq_cluster *c, const struct mq_classes *classes, uint32_t a, uint32_t b)
{
	const struct mq_device *x = &c->device[a], *y = &c->device[b];

	return classes->of[a] == classes->of[b] && same_number(x->price_per_h, y->price_per_h) &&
	       same_number(x->power_W, y->power_W);
}

bool mq_links_alike(const struct mq_link *a, const struct mq_link *b)
{
	return a->class == b->class && a->fabric == b->fabric && a->lat_s == b->lat_s && a->fatpipe == b->fatpipe &&
	       mq_link_usable_Bps(a) == mq_link_usable_Bps(b);
}
