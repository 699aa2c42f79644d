/* images.c - see images.h: which images there are, what they ask for, which links never fill up. */
#include "lower/images_impl.h"

#include <math.h>

#include "core/map.h"
#include "core/rng.h"
#include "lower/fold.h"
#include "lower/program.h"

struct mq_images *mq_images_new(const struct mq_cluster *cluster, const struct mq_calib *calib,
				const struct mq_schedule *schedule, struct mq_arena *arena)
{
	struct mq_images *im = mq_arena_alloc(arena, sizeof(*im));
	const struct mq_fold *fold = schedule->fold;

	*im = (struct mq_images){
		.cluster = cluster, .calib = calib, .schedule = schedule, .fold = fold, .arena = arena
	};
	im->bases = mq_arena_array(arena, fold->n_comms, struct mq_bases);
	im->slack = mq_arena_array(arena, cluster->n_links, bool);
	im->expanded = mq_index_new(arena);
	im->known = mq_index_new(arena);
	im->rank = mq_arena_array(arena, cluster->n_devices, uint32_t);
	return im;
}

/* ---- images ------------------------------------------------------------------------------------- */

static const uint32_t *members(const struct mq_images *im, const struct mq_task *t, uint32_t pair[2], uint32_t *n)
{
	if (t->kind == MQ_TASK_COLLECTIVE) {
		*n = im->fold->comm_n[t->comm];
		return im->fold->comm_rank[t->comm];
	}
	bool send = t->kind == MQ_TASK_SEND;

	pair[0] = im->schedule->device[send ? t->device : t->peer];
	pair[1] = im->schedule->device[send ? t->peer : t->device];
	*n = 2;
	return pair;
}

/* Puts the group, moved by `base`, on its places on the first member's stage. False: it leaves a block, or
 * a place is taken. */
static bool cover(const struct mq_fold *fold, const uint32_t *rank, uint32_t n, uint32_t base, bool *covered)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t p = fold->position[rank[i]];
		bool here = fold->rank_of[rank[i]] == fold->rank_of[rank[0]];

		if (p % fold->size + base >= fold->size || (here && covered[p + base]))
			return false;
		covered[p + base] |= here;
	}
	return true;
}

/* Translations that cover the blocks of the members on the first one's stage, each place once. Members on
 * another stage (tied embeddings) are at the same places there. */
static void find_bases(struct mq_images *im, const uint32_t *rank, uint32_t n, struct mq_bases *bases)
{
	const struct mq_fold *fold = im->fold;
	struct mq_arena scratch = MQ_ARENA_INIT;
	bool *covered = mq_arena_array(&scratch, fold->n_positions, bool);
	uint32_t first = fold->position[rank[0]], room = 0;
	bool good = true;

	bases->known = true;
	for (uint32_t base = 0; base < fold->size && good; base++) {
		if (first + base < fold->n_positions && covered[first + base])
			continue;
		good = cover(fold, rank, n, base, covered);
		MQ_PUSH(im->arena, bases->base, bases->n, room, base);
	}
	for (uint32_t i = 0; i < n; i++) { /* the block of each member there is full */
		uint32_t block = fold->position[rank[i]] / fold->size * fold->size;

		for (uint32_t k = 0; k < fold->size && fold->rank_of[rank[i]] == fold->rank_of[rank[0]]; k++)
			good = good && covered[block + k];
	}
	if (!good)
		bases->n = 0;
	mq_arena_fini(&scratch);
}

uint32_t mq_images_count(struct mq_images *im, const struct mq_task *t)
{
	if (t->kind != MQ_TASK_COLLECTIVE)
		return im->fold->size;
	struct mq_bases *b = &im->bases[t->comm];
	if (!b->known)
		find_bases(im, im->fold->comm_rank[t->comm], im->fold->comm_n[t->comm], b);
	return b->n;
}

/* Where the members sit, without the names of the machines. Groups that look alike cost the same. */
static uint64_t look(const struct mq_cluster *cluster, const uint32_t *rank, uint32_t n)
{
	uint64_t h = MQ_HASH_INIT;
	uint32_t node = MQ_NONE, count = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct mq_device *d = &cluster->device[rank[i]];

		if (d->node != node)
			count++;
		node = d->node;
		h = mq_map_mix(h, (uint64_t)d->local << 40 ^ (uint64_t)count << 16 ^ d->calib);
	}
	return h;
}

/* Groups that look alike get the same flows, by position: each kind of call is expanded once. */
static enum mq_status expand(struct mq_images *im, const struct mq_task *t, const uint32_t *rank, uint32_t n,
			     struct mq_coll_flows *flows, struct mq_err *err)
{
	uint64_t key[] = { look(im->cluster, rank, n), n, t->coll, t->dtype, t->algo, t->proto, t->root, 0 };
	struct mq_coll_request rq = mq_coll_request_of(t, n, rank);
	bool found;

	memcpy(&key[7], &t->bytes, sizeof(key[7]));
	uint32_t at = mq_index_put(im->expanded, key, sizeof(key), im->n_flows, &found);
	if (!found) {
		MQ_TRY(mq_collective_expand(im->cluster, im->calib, &rq, im->arena, flows, err));
		MQ_PUSH(im->arena, im->flows, im->n_flows, im->flows_room, *flows);
	}
	*flows = im->flows[at];
	return MQ_OK;
}

enum mq_status mq_images_get(struct mq_images *im, const struct mq_task *t, uint32_t i, struct mq_image *image,
			     struct mq_err *err)
{
	uint32_t pair[2], n, base = t->kind == MQ_TASK_COLLECTIVE ? im->bases[t->comm].base[i] : i;
	const uint32_t *own = members(im, t, pair, &n);
	struct mq_coll_flows flows;
	double alone_s;

	for (uint32_t k = 0; k < n; k++)
		im->rank[k] = im->fold->device[im->fold->rank_of[own[k]]][im->fold->position[own[k]] + base];
	*image = (struct mq_image){ .n = n, .rank = im->rank };
	if (t->kind == MQ_TASK_COLLECTIVE) {
		MQ_TRY(expand(im, t, im->rank, n, &flows, err));
		image->latency_s = flows.latency_s;
		image->alone_s = flows.alone_s;
		image->channels = flows.channels;
		image->n_flows = flows.n_flows;
		image->flow = flows.flow;
		return MQ_OK;
	}
	im->one = (struct mq_flow){ .src = 0, .dst = 1, .bytes = t->bytes };
	image->flow = &im->one;
	image->n_flows = t->bytes > 0 && im->rank[0] != im->rank[1];
	return mq_p2p_expand(im->cluster, im->calib, im->rank[0], im->rank[1], t->bytes, &image->latency_s,
			     &im->one.rate_Bps, &alone_s, err);
}

/* ---- links -------------------------------------------------------------------------------------- */

static enum mq_status each_link(struct mq_images *im, const struct mq_task *t, bool slack, mq_images_see *see,
				void *data, struct mq_err *err)
{
	uint32_t count = mq_images_count(im, t);

	for (uint32_t i = 0; i < count; i++) {
		struct mq_image image;

		MQ_TRY(mq_images_get(im, t, i, &image, err));
		for (uint32_t f = 0; f < image.n_flows; f++) {
			const struct mq_route *route;

			MQ_TRY(mq_cluster_route(im->cluster, image.rank[image.flow[f].src],
						image.rank[image.flow[f].dst], &route, err));
			for (uint32_t k = 0; k < route->n_links; k++) {
				uint32_t l = route->link[k];

				if (slack || (!im->slack[l] && !im->cluster->link[l].fatpipe))
					see(l, image.flow[f].bytes, data);
			}
		}
	}
	return MQ_OK;
}

enum mq_status mq_images_links(struct mq_images *im, const struct mq_task *t, mq_images_see *see, void *data,
			       struct mq_err *err)
{
	return each_link(im, t, false, see, data, err);
}

enum mq_status mq_images_all_links(struct mq_images *im, const struct mq_task *t, mq_images_see *see, void *data,
				   struct mq_err *err)
{
	return each_link(im, t, true, see, data, err);
}

/* ---- slack -------------------------------------------------------------------------------------- */

/* All that goes from one device to another, in whatever meeting. */
struct way {
	const struct mq_route *route;
	double cap_Bps;
};

struct slack {
	struct mq_images *im;
	struct mq_arena *arena;
	struct mq_map pairs;
	uint32_t n_ways, room;
	struct way *way;
	uint32_t *first, *at; /* CSR: ways of each link */
	double *driven_Bps;   /* [n_links] through a bottleneck, while one link is looked at */
	uint32_t *bottleneck; /* [n_links] those of the link that is looked at */
	bool *needed;         /* [n_links] why another one cannot fill up */
};

static enum mq_status add_ways(struct slack *s, const struct mq_task *t, struct mq_err *err)
{
	uint32_t count = mq_images_count(s->im, t);

	for (uint32_t i = 0; i < count; i++) {
		struct mq_image image;

		MQ_TRY(mq_images_get(s->im, t, i, &image, err));
		for (uint32_t f = 0; f < image.n_flows; f++) {
			uint64_t src = image.rank[image.flow[f].src];
			uint32_t dst = image.rank[image.flow[f].dst];
			uint32_t index = mq_map_add(&s->pairs, src << 32 | dst);
			if (index == s->n_ways) {
				struct way way = { NULL, 0 };
				MQ_TRY(mq_cluster_route(s->im->cluster, (uint32_t)src, dst, &way.route, err));
				MQ_PUSH(s->arena, s->way, s->n_ways, s->room, way);
			}
			s->way[index].cap_Bps += image.flow[f].rate_Bps;
		}
	}
	return MQ_OK;
}

static void list_ways(struct slack *s)
{
	uint32_t n_links = s->im->cluster->n_links;

	s->first = mq_arena_array(s->arena, n_links + 2, uint32_t);
	for (uint32_t w = 0; w < s->n_ways; w++)
		for (uint32_t k = 0; k < s->way[w].route->n_links; k++)
			s->first[s->way[w].route->link[k] + 2]++;
	for (uint32_t l = 0; l < n_links; l++)
		s->first[l + 2] += s->first[l + 1];
	s->at = mq_arena_array(s->arena, s->first[n_links + 1], uint32_t);
	for (uint32_t w = 0; w < s->n_ways; w++)
		for (uint32_t k = 0; k < s->way[w].route->n_links; k++)
			s->at[s->first[s->way[w].route->link[k] + 1]++] = w;
}

/* The narrowest link that can fill up on the way to a link, or on the way from it. */
static uint32_t narrowest(const struct slack *s, const struct mq_route *route, uint32_t link, bool before)
{
	uint32_t best = MQ_NONE;
	bool past = false;

	for (uint32_t k = 0; k < route->n_links; k++) {
		uint32_t l = route->link[k];
		const struct mq_link *candidate = &s->im->cluster->link[l];

		past |= l == link;
		if (l == link || past == before || s->im->slack[l] || candidate->fatpipe)
			continue;
		if (best == MQ_NONE || mq_link_usable_Bps(candidate) < mq_link_usable_Bps(&s->im->cluster->link[best]))
			best = l;
	}
	return best;
}

/* Most that can come through the bottlenecks before (or behind) a link; they are left in bottleneck[]. */
static double drive(struct slack *s, uint32_t link, bool before, uint32_t *n)
{
	double sum = 0;

	*n = 0;
	for (uint32_t k = s->first[link]; k < s->first[link + 1]; k++) {
		const struct way *way = &s->way[s->at[k]];
		uint32_t b = narrowest(s, way->route, link, before);

		if (b == MQ_NONE) {
			sum += way->cap_Bps;
			continue;
		}
		if (!(s->driven_Bps[b] > 0))
			s->bottleneck[(*n)++] = b;
		s->driven_Bps[b] += way->cap_Bps;
	}
	for (uint32_t i = 0; i < *n; i++) {
		uint32_t b = s->bottleneck[i];

		sum += fmin(s->driven_Bps[b], mq_link_usable_Bps(&s->im->cluster->link[b]));
		s->driven_Bps[b] = 0;
	}
	return sum;
}

/* A link that was needed to show that another has room must stay. */
static void look_at_link(struct slack *s, uint32_t link)
{
	double limit = mq_link_usable_Bps(&s->im->cluster->link[link]) * (1 + 1e-12);
	uint32_t n;

	if (s->needed[link] || s->first[link] == s->first[link + 1])
		return;
	for (int before = 1; before >= 0; before--) {
		if (drive(s, link, before, &n) > limit)
			continue;
		s->im->slack[link] = true;
		for (uint32_t i = 0; i < n; i++)
			s->needed[s->bottleneck[i]] = true;
		return;
	}
}

/* Trunks first: a port is the reason why a trunk has room, not the other way round. */
static bool is_trunk(const struct mq_link *link)
{
	return link->class == MQ_LINK_FABRIC || link->class == MQ_LINK_SOCKET || link->class == MQ_LINK_PCIE_SWITCH ||
	       link->class == MQ_LINK_OTHER;
}

enum mq_status mq_images_find_slack(struct mq_images *im, const struct mq_task *const *task, uint32_t n,
				    struct mq_err *err)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	uint32_t n_links = im->cluster->n_links;
	struct slack s = { .im = im, .arena = &arena };
	enum mq_status status = MQ_OK;

	mq_map_init(&s.pairs, &arena, 1024);
	for (uint32_t i = 0; i < n && status == MQ_OK; i++)
		status = add_ways(&s, task[i], err);
	if (status == MQ_OK) {
		list_ways(&s);
		s.driven_Bps = mq_arena_array(&arena, n_links, double);
		s.bottleneck = mq_arena_array(&arena, n_links, uint32_t);
		s.needed = mq_arena_array(&arena, n_links, bool);
		for (int trunks = 1; trunks >= 0; trunks--)
			for (uint32_t l = 0; l < n_links; l++)
				if (is_trunk(&im->cluster->link[l]) == (trunks == 1))
					look_at_link(&s, l);
	}
	mq_arena_fini(&arena);
	return status;
}

/* ---- times -------------------------------------------------------------------------------------- */

static double bound_of(const struct mq_quotient *q, struct mq_arena *scratch)
{
	const struct mq_fluid *net = &q->net;
	double *load_B = mq_arena_array(scratch, net->n_links, double), longest = 0;

	for (uint32_t i = 0; i < net->n_flows; i++) {
		double rate = net->cap_Bps[i];

		for (uint32_t k = net->first[i]; k < net->first[i + 1]; k++) {
			rate = fmin(rate, net->bw_Bps[net->link[k]]);
			load_B[net->link[k]] += q->bytes[i] * net->weight[k];
		}
		longest = fmax(longest, q->bytes[i] / rate);
	}
	for (uint32_t l = 0; l < net->n_links; l++)
		longest = fmax(longest, load_B[l] / net->bw_Bps[l]);
	return longest;
}

/* Until the last flow has ended; `same` tells whether the images did so together. */
static double run_alone(struct mq_quotient *q, struct mq_arena *scratch, bool *same)
{
	uint32_t *running = mq_arena_array(scratch, q->net.n_flows, uint32_t), n = q->net.n_flows;
	double *left_B = mq_arena_array(scratch, n, double);
	double *done_s = mq_arena_array(scratch, n, double), now_s = 0;

	for (uint32_t i = 0; i < n; i++) {
		running[i] = i;
		left_B[i] = q->bytes[i];
	}
	while (n) {
		double step = INFINITY;
		uint32_t still = 0;

		mq_fluid_rates(&q->net, running, n);
		for (uint32_t r = 0; r < n; r++)
			step = fmin(step, left_B[running[r]] / q->net.rate_Bps[running[r]]);
		now_s += step;
		for (uint32_t r = 0; r < n; r++) {
			uint32_t i = running[r];

			done_s[i] = now_s;
			if (left_B[i] <= step * q->net.rate_Bps[i] * (1 + 1e-12))
				continue;
			left_B[i] -= step * q->net.rate_Bps[i];
			running[still++] = i;
		}
		n = still;
	}
	*same = mq_quotient_together(q, 0, 0, done_s);
	return now_s;
}

static enum mq_status find_times(struct mq_images *im, const struct mq_task *t, struct mq_image_times *times,
				 struct mq_err *err)
{
	struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_quotient q;
	uint32_t count = mq_images_count(im, t);
	enum mq_status status = MQ_OK;
	bool equal = count > 0, together = true;

	for (uint32_t i = 0; i < count && status == MQ_OK; i++) {
		struct mq_image image;

		status = mq_images_get(im, t, i, &image, err);
		if (i == 0)
			times->latency_s = image.latency_s;
		equal = equal && fabs(image.latency_s - times->latency_s) <= 1e-12 * times->latency_s;
	}
	if (status == MQ_OK)
		status = mq_quotient_build(im, &t, 1, &scratch, &q, err);
	if (status == MQ_OK) {
		times->alone_s = times->latency_s + run_alone(&q, &scratch, &together);
		times->bound_s = fmin(times->latency_s + bound_of(&q, &scratch), times->alone_s);
		times->same = equal && together;
	}
	mq_arena_fini(&scratch);
	return status;
}

enum mq_status mq_images_times(struct mq_images *im, const struct mq_task *t, struct mq_image_times *times,
			       struct mq_err *err)
{
	bool pair = t->kind != MQ_TASK_COLLECTIVE, send = t->kind == MQ_TASK_SEND, found;
	double key[] = { pair,
			 pair ? (send ? t->device : t->peer) : t->comm,
			 pair ? (send ? t->peer : t->device) : t->coll,
			 t->bytes,
			 pair ? 0 : t->dtype,
			 pair ? 0 : t->algo,
			 pair ? 0 : t->proto,
			 pair ? 0 : t->root };
	uint32_t at = mq_index_put(im->known, key, sizeof(key), im->n_times, &found);

	if (!found) {
		struct mq_image_times fresh = { .same = true };

		MQ_PUSH(im->arena, im->times, im->n_times, im->times_room, fresh);
		MQ_TRY(find_times(im, t, &im->times[at], err));
	}
	*times = im->times[at];
	return MQ_OK;
}
