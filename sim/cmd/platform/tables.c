/* tables.c - tables of a platform: devices, links by class, bandwidth of device pairs, bisection; and hints about
 * unlikely values.
 *
 * The bisection bandwidth is that of a permutation: each device of the first half (in rank order) exchanges with its
 * partner in the second, all at once, limited by the link with the most traffic for its bandwidth. Its halves follow
 * rank order, so it is not the minimum over all halves, and it depends on the placement of ranks.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/platform/words.h"

enum { MAX_ROWS = 256 };

struct pair_row {
	const char *from, *to;
	bool same_node;
	uint32_t classes; /* a bit per link class on the route */
	uint32_t pairs, min_links, max_links;
	double min_Bps, max_Bps, min_s, max_s;
};

struct tables {
	const struct mq_cluster *cluster;
	FILE *file;
	struct pair_row row[MAX_ROWS];
	uint32_t n_rows;
};

static void range(char text[48], double low, double high)
{
	if (fabs(high - low) <= 1e-9 * fabs(high))
		snprintf(text, 48, "%.4g", low);
	else
		snprintf(text, 48, "%.4g-%.4g", low, high);
}

static void put_devices(const struct tables *t)
{
	const struct mq_cluster *c = t->cluster;
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	bool *done = mq_arena_array(&arena, c->n_devices, bool);

	fprintf(t->file, "%-18s %8s %8s %12s %10s\n", "devices", "count", "machines", "peak_TFLOPs", "memory_GB");
	for (uint32_t i = 0; i < c->n_devices; i++) {
		uint32_t count = 0, machines = 0, last = MQ_NONE;

		if (done[i])
			continue;
		for (uint32_t j = i; j < c->n_devices; j++)
			if (!done[j] && !strcmp(c->device[j].type, c->device[i].type)) {
				done[j] = true;
				count++;
				machines += c->device[j].node != last;
				last = c->device[j].node;
			}
		fprintf(t->file, "%-18s %8u %8u %12.4g %10.4g\n", c->device[i].type, count, machines,
			c->device[i].speed_flops / 1e12, c->device[i].memory_B / 1e9);
	}
}

static void put_links(const struct tables *t)
{
	const struct mq_cluster *c = t->cluster;
	char GBps[48], us[48];

	fprintf(t->file, "\n%-18s %8s %16s %16s\n", "links", "count", "GB/s", "latency_us");
	for (int class = 0; class < MQ_N_LINK_CLASSES; class ++) {
		double low = INFINITY, high = 0, soon = INFINITY, late = 0;
		uint32_t count = 0;

		for (uint32_t i = 0; i < c->n_links; i++) {
			const struct mq_link *l = &c->link[i];

			if ((int)l->class != class)
				continue;
			count++;
			low = fmin(low, l->bw_Bps);
			high = fmax(high, l->bw_Bps);
			soon = fmin(soon, l->lat_s);
			late = fmax(late, l->lat_s);
		}
		if (!count)
			continue;
		range(GBps, low / 1e9, high / 1e9);
		range(us, soon * 1e6, late * 1e6);
		fprintf(t->file, "%-18s %8u %16s %16s\n", mq_link_class_name((enum mq_link_class) class), count, GBps,
			us);
	}
}

static void add_pair(struct tables *t, uint32_t a, uint32_t b, const struct mq_route *r)
{
	const struct mq_cluster *c = t->cluster;
	const struct mq_device *x = &c->device[a], *y = &c->device[b];
	uint32_t classes = 0, i = 0;

	for (uint32_t j = 0; j < r->n_links; j++)
		classes |= 1U << c->link[r->link[j]].class;
	for (; i < t->n_rows; i++)
		if (!strcmp(t->row[i].from, x->type) && !strcmp(t->row[i].to, y->type) &&
		    t->row[i].same_node == (x->node == y->node) && t->row[i].classes == classes)
			break;
	if (i == MAX_ROWS)
		return;
	struct pair_row *row = &t->row[i];
	if (i == t->n_rows) {
		t->n_rows++;
		*row = (struct pair_row){
			.from = x->type,
			.to = y->type,
			.same_node = x->node == y->node,
			.classes = classes,
			.min_links = r->n_links,
			.min_Bps = INFINITY,
			.min_s = INFINITY,
		};
	}
	row->pairs++;
	row->min_links = row->min_links < r->n_links ? row->min_links : r->n_links;
	row->max_links = row->max_links > r->n_links ? row->max_links : r->n_links;
	row->min_Bps = fmin(row->min_Bps, r->bw_Bps);
	row->max_Bps = fmax(row->max_Bps, r->bw_Bps);
	row->min_s = fmin(row->min_s, r->lat_s);
	row->max_s = fmax(row->max_s, r->lat_s);
}

MQ_COMPARE(by_place, struct pair_row,
	   strcmp(a->from, b->from)                     ?:
		   strcmp(a->to, b->to)                 ?:
		   MQ_ORDER(b->same_node, a->same_node) ?:
		   MQ_ORDER(b->max_Bps, a->max_Bps)     ?:
							  MQ_ORDER(a->classes, b->classes))

static void put_pair_row(const struct pair_row *r, FILE *file)
{
	char GBps[48], us[48], links[48], way[128] = "";
	size_t used = 0;

	range(GBps, r->min_Bps / 1e9, r->max_Bps / 1e9);
	range(us, r->min_s * 1e6, r->max_s * 1e6);
	range(links, r->min_links, r->max_links);
	for (int c = 0; c < MQ_N_LINK_CLASSES; c++)
		if (r->classes >> c & 1)
			used += (size_t)snprintf(way + used, sizeof(way) - used, "%s%s", used ? "+" : "",
						 mq_link_class_name((enum mq_link_class)c));
	fprintf(file, "%-18s %-18s %-8s %12s %12s %6s  %s\n", r->from, r->to, r->same_node ? "machine" : "network",
		GBps, us, links, way);
}

static enum mq_status put_pairs(struct tables *t, struct mq_arena *arena, struct mq_err *err)
{
	struct mq_platform_sample s;
	const struct mq_route *route;

	mq_platform_sample(t->cluster, arena, &s);
	for (uint32_t i = 0; i < s.n; i++)
		for (uint32_t j = 0; j < s.n; j++)
			if (i != j) {
				MQ_TRY(mq_cluster_route(t->cluster, s.device[i], s.device[j], &route, err));
				add_pair(t, s.device[i], s.device[j], route);
			}
	qsort(t->row, t->n_rows, sizeof(t->row[0]), by_place);
	fprintf(t->file, "\n%-18s %-18s %-8s %12s %12s %6s  %s\n", "from", "to", "inside", "GB/s", "latency_us",
		"links", s.all ? "over" : "over (of a sample of pairs)");
	for (uint32_t i = 0; i < t->n_rows; i++)
		put_pair_row(&t->row[i], t->file);
	return MQ_OK;
}

static enum mq_status put_bisection(const struct tables *t, struct mq_arena *arena, struct mq_err *err)
{
	const struct mq_cluster *c = t->cluster;
	uint32_t n = c->n_devices, half = n / 2, narrow = 0;
	double *load = mq_arena_array(arena, c->n_links, double), worst = 0;
	const struct mq_route *route;

	if (n < 2)
		return MQ_OK;
	for (uint32_t i = 0; i < 2 * half; i++) {
		MQ_TRY(mq_cluster_route(c, i, mq_platform_partner(n, i), &route, err));
		for (uint32_t j = 0; j < route->n_links; j++)
			load[route->link[j]]++;
	}
	for (uint32_t i = 0; i < c->n_links; i++)
		if (load[i] / c->link[i].bw_Bps > worst * (1 + 1e-12)) {
			worst = load[i] / c->link[i].bw_Bps;
			narrow = i;
		}
	fprintf(t->file, "\nhalf to half, all at once: %.4g GB/s each way, limited by %s (%s)\n", half / worst / 1e9,
		c->link[narrow].name, mq_link_class_name(c->link[narrow].class));
	return MQ_OK;
}

enum mq_status mq_platform_tables(const struct mq_cluster *cluster, FILE *file, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct tables *t = mq_arena_array(&arena, 1, struct tables);

	t->cluster = cluster;
	t->file = file;
	fprintf(file, "%s: %u devices on %u machine%s, %u links%s%s\n\n", cluster->name, cluster->n_devices,
		cluster->n_nodes, cluster->n_nodes > 1 ? "s" : "", cluster->n_links,
		cluster->nvls ? ", NVSwitch reduces" : "", cluster->sharp ? ", network reduces" : "");
	put_devices(t);
	put_links(t);
	if (cluster->n_devices > 1)
		MQ_TRY(put_pairs(t, &arena, err));
	return put_bisection(t, &arena, err);
}

static uint32_t doubt_links(const struct mq_cluster *c, FILE *file)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n_links; i++) {
		const struct mq_link *l = &c->link[i];
		const char *what = NULL;

		if (l->bw_Bps < 1e7 || l->bw_Bps > 1e15)
			what = "bandwidth (10 MB/s to 1 PB/s are usual)";
		else if (l->lat_s > 0.01)
			what = "latency (up to 10 ms is usual)";
		else if (l->class == MQ_LINK_OTHER)
			what = "class: give it an mq_class, its calibration hangs on it";
		if (what && ++n <= 10)
			fprintf(file, "hint: link '%s' has an unlikely %s\n", l->name, what);
	}
	return n;
}

uint32_t mq_platform_doubts(const struct mq_cluster *c, FILE *file)
{
	uint32_t n = doubt_links(c, file);

	for (uint32_t i = 0; i < c->n_devices; i++) {
		const struct mq_device *d = &c->device[i];

		if ((d->speed_flops < 1e8 || d->speed_flops > 1e18) && ++n <= 10)
			fprintf(file, "hint: device '%s' has an unlikely speed of %g flop/s\n", d->name,
				d->speed_flops);
		if (d->memory_B > 0 && (d->memory_B < 1e8 || d->memory_B > 1e14) && ++n <= 10)
			fprintf(file, "hint: device '%s' has an unlikely memory of %g B\n", d->name, d->memory_B);
	}
	if (n > 10)
		fprintf(file, "hint: %u more like these\n", n - 10);
	return n;
}
