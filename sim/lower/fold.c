/*
 * fold.c - one representative for each pipeline rank, where that changes no answer. See fold.h.
 *
 * Position 0 of every stage stands for all positions of it. That is exact if
 *   1. all devices of a stage are of one type and do the same work (equal shares, one device list per
 *      stage, stages of equal size that exchange tensors position by position);
 *   2. each communicator of the representative has images under translation of the mesh that partition the
 *      stage, and all images take the same time alone; the same for the pairs of a stage boundary;
 *   3. no link of the representative's communicators and pairs is shared by flows of different sources
 *      and different destinations, unless it can carry all that these can drive at once (a trunk).
 * Then by symmetry every position sees what position 0 sees. Whether flows of the representative itself
 * meet on its links is the executor's business: where they do it reports that the folded time may differ.
 * Anything else is refused, and the whole schedule is lowered.
 *
 * Fusing: a collective whose links serve nobody else among the simulated lasts a fixed time. Where it sits
 * between two runs of compute that wait for nothing else, the three become one task of fixed duration.
 */
#include "lower/fold.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/collective.h"
#include "core/cost.h"
#include "core/rng.h"
#include "lower/program.h"

static bool refuse(struct mq_low *low, const char *why)
{
	snprintf(low->out->unfolded, sizeof(low->out->unfolded), "%s", why);
	return false;
}

/* ---- before the templates: who is simulated ---------------------------------------------------------- */

static bool even_configs(struct mq_low *low)
{
	double samples = low->train->batch / low->plan->micro_batches;
	uint32_t n = mq_low_config(low, 0)->n_devices;

	for (uint32_t op = 0; op < low->model->n_ops; op++) {
		const struct mq_config *c = mq_low_config(low, op);
		uint32_t first = low->stage_op[low->stage_first[low->stage_of[op]]];

		if (c->n_devices != n || low->devset_of[low->plan->config_of[op]] !=
						 low->devset_of[low->plan->config_of[first]])
			return refuse(low, "ops of a stage, or stages, differ in their devices");
		if (c->share || fmod(samples, c->split[MQ_DIM_BATCH]) != 0)
			return refuse(low, "batch shares are uneven");
		for (uint32_t d = 1; d < n; d++)
			if (low->rq->cluster->device[c->device[d]].calib !=
			    low->rq->cluster->device[c->device[0]].calib)
				return refuse(low, "a stage has devices of different speed");
	}
	return n > 1;
}

bool mq_fold_decide(struct mq_low *low)
{
	const struct mq_cluster *cluster = low->rq->cluster;
	uint32_t n;

	if (!low->rq->fold || !even_configs(low))
		return false;
	for (uint32_t t = 0; t < low->n_transfers; t++)
		if (low->transfer[t].way == MQ_WAY_BOXES)
			return refuse(low, "tensors change their layout between devices");
	low->active = mq_arena_array(&low->scratch, cluster->n_devices, bool);
	low->position = mq_arena_array(&low->scratch, cluster->n_devices, uint32_t);
	low->config_of_rank = mq_arena_array(&low->scratch, low->n_ranks, uint32_t);
	for (uint32_t op = 0; op < low->model->n_ops; op++) {
		const struct mq_config *c = mq_low_config(low, op);

		low->active[c->device[0]] = true;
		low->config_of_rank[low->stage_of[op] % low->n_ranks] = low->plan->config_of[op];
		for (uint32_t p = 0; p < c->n_devices; p++)
			low->position[c->device[p]] = p;
	}
	n = mq_low_config(low, 0)->n_devices;
	low->fold = mq_arena_alloc(low->arena, sizeof(*low->fold));
	low->fold->weight = mq_arena_array(low->arena, low->n_ranks, double);
	for (uint32_t r = 0; r < low->n_ranks; r++)
		low->fold->weight[r] = n;
	return true;
}

/* ---- after the templates: is it exact? ------------------------------------------------------------------ */

/* Traffic on a link of the representatives, for rule 3. */
struct load {
	uint32_t link, src, dst;
	double cap_Bps;          /* of the flow */
	double way_Bps;          /* of its route: what one endpoint can drive through it at most */
};

struct verify {
	struct mq_low *low;
	struct mq_arena *arena;
	bool *mine;              /* [links] that a representative's communicators and pairs use */
	uint32_t *users[2];      /* [links] simulated communicators and pairs that use it in passes of
				    micro-batches but the last; in those and the last */
	uint32_t n_loads, load_room;
	struct load *load;
	bool loose;              /* templates may begin with a busy COMM stream */
	struct mq_index *expanded; /* calls by kind and by where their members sit -> flows */
	uint32_t n_flows, flows_room;
	struct mq_coll_flows *flows;
};

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
		uint32_t fields[] = { d->local, count, d->calib };
		h = mq_hash(h, fields, sizeof(fields));
	}
	return h;
}

/* Groups that look alike get the same flows, by position: each kind of call is expanded once. */
static enum mq_status expand(struct verify *v, const struct mq_task *t, const uint32_t *rank, uint32_t n,
			     struct mq_coll_flows *flows)
{
	uint64_t key[] = { look(v->low->rq->cluster, rank, n), n, t->coll, t->dtype, t->algo, t->proto,
			   t->root, 0 };
	struct mq_coll_request rq = { .kind = t->coll,
				      .n = n,
				      .rank = rank,
				      .bytes = t->bytes,
				      .dtype = t->dtype,
				      .algo = t->algo,
				      .proto = t->proto,
				      .root = t->root };
	bool found;

	memcpy(&key[7], &t->bytes, sizeof(key[7]));
	uint32_t at = mq_index_put(v->expanded, key, sizeof(key), v->n_flows, &found);
	if (!found) {
		MQ_TRY(mq_collective_expand(v->low->rq->cluster, v->low->rq->calib, &rq, v->arena,
					    flows, v->low->err));
		MQ_PUSH(v->arena, v->flows, v->n_flows, v->flows_room, *flows);
	}
	*flows = v->flows[at];
	return MQ_OK;
}

static enum mq_status add_flow(struct verify *v, uint32_t src, uint32_t dst, double rate_Bps,
			       bool mark_only)
{
	const struct mq_route *route;

	MQ_TRY(mq_cluster_route(v->low->rq->cluster, src, dst, &route, v->low->err));
	for (uint32_t i = 0; i < route->n_links; i++) {
		uint32_t l = route->link[i];

		if (v->low->rq->cluster->link[l].fatpipe)
			continue;
		if (mark_only) {
			v->mine[l] = true;
		} else if (v->mine[l]) {
			struct load load = { l, src, dst, rate_Bps, route->bw_Bps };
			MQ_PUSH(v->arena, v->load, v->n_loads, v->load_room, load);
		}
	}
	return MQ_OK;
}

/* Flows of one collective on given ranks. */
static enum mq_status add_flows(struct verify *v, const struct mq_coll_flows *flows,
				const uint32_t *rank, bool mark_only)
{
	for (uint32_t f = 0; f < flows->n_flows; f++) {
		uint32_t src = rank[flows->flow[f].src], dst = rank[flows->flow[f].dst];

		MQ_TRY(add_flow(v, src, dst, flows->flow[f].rate_Bps, mark_only));
	}
	return MQ_OK;
}

/* The images of a communicator under translation: each must cost the same, and loads its links. */
static enum mq_status check_images(struct verify *v, const struct mq_task *t, bool mark_only, bool *same)
{
	struct mq_low *low = v->low;
	uint32_t n = low->fold->comm_n[t->comm];
	const uint32_t *rank = low->fold->comm_rank[t->comm];
	uint32_t pipeline_rank = low->rank_of_device[rank[0]];
	const struct mq_config *c = &low->plan->config[low->config_of_rank[pipeline_rank]];
	uint32_t *image = mq_arena_array(v->arena, n, uint32_t);
	bool *covered = mq_arena_array(v->arena, c->n_devices, bool);
	struct mq_coll_flows flows = { 0 };
	double alone = NAN;

	for (uint32_t base = 0; base < c->n_devices; base++) {
		if (covered[base])
			continue;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t p = low->position[rank[i]] + base;
			/* Members on another stage (tied embeddings) are at the same places there. */
			bool here = low->rank_of_device[rank[i]] == pipeline_rank;

			if (p >= c->n_devices || (here && covered[p])) {
				*same = refuse(low, "groups are not translations of each other");
				return MQ_OK;
			}
			covered[p] |= here;
			const struct mq_config *own =
				&low->plan->config[low->config_of_rank[low->rank_of_device[rank[i]]]];
			image[i] = own->device[p];
		}
		MQ_TRY(expand(v, t, image, n, &flows));
		if (base == 0)
			alone = flows.alone_s;
		if (fabs(flows.alone_s - alone) > 1e-12 * alone) {
			*same = refuse(low, "equal collectives take different times in different places");
			return MQ_OK;
		}
		MQ_TRY(add_flows(v, &flows, image, mark_only));
		if (mark_only)
			return MQ_OK;
	}
	return MQ_OK;
}

static enum mq_status check_pairs(struct verify *v, const struct mq_task *t, bool mark_only, bool *same)
{
	struct mq_low *low = v->low;
	const uint32_t *device = low->schedule->device;
	uint32_t ra = low->rank_of_device[device[t->device]];
	uint32_t rb = low->rank_of_device[device[t->peer]];
	const struct mq_config *a = &low->plan->config[low->config_of_rank[ra]];
	const struct mq_config *b = &low->plan->config[low->config_of_rank[rb]];
	double first = NAN;

	for (uint32_t p = 0; p < (mark_only ? 1 : a->n_devices); p++) {
		double latency, rate, alone;

		MQ_TRY(mq_p2p_expand(low->rq->cluster, low->rq->calib, a->device[p], b->device[p],
				     t->bytes, &latency, &rate, &alone, low->err));
		if (p == 0)
			first = alone;
		if (fabs(alone - first) > 1e-12 * first) {
			*same = refuse(low, "equal messages take different times in different places");
			return MQ_OK;
		}
		MQ_TRY(add_flow(v, a->device[p], b->device[p], rate, mark_only));
	}
	return MQ_OK;
}

/* Every distinct communication of the templates. */
static enum mq_status each_request(struct verify *v, bool mark_only, bool *same)
{
	struct mq_low *low = v->low;
	struct mq_index *seen = mq_index_new(v->arena);

	for (uint32_t i = 0; i < low->n_stages * MQ_N_PASSES; i++)
		for (uint32_t k = 0; k < low->pass[i].n_tasks && *same; k++) {
			const struct mq_task *t = &low->pass[i].task[k].task;
			double key[] = { t->kind, t->coll, t->comm, t->device, t->peer, t->bytes };
			bool found;

			if (t->kind != MQ_TASK_SEND && t->kind != MQ_TASK_COLLECTIVE)
				continue;
			mq_index_put(seen, key, sizeof(key), 0, &found);
			if (found)
				continue;
			if (t->kind == MQ_TASK_SEND)
				MQ_TRY(check_pairs(v, t, mark_only, same));
			else
				MQ_TRY(check_images(v, t, mark_only, same));
		}
	return MQ_OK;
}

static int by_link_src(const void *a, const void *b)
{
	const struct load *x = a, *y = b;

	if (x->link != y->link)
		return x->link < y->link ? -1 : 1;
	return x->src < y->src ? -1 : x->src > y->src;
}

static int by_link_dst(const void *a, const void *b)
{
	const struct load *x = a, *y = b;

	if (x->link != y->link)
		return x->link < y->link ? -1 : 1;
	return x->dst < y->dst ? -1 : x->dst > y->dst;
}

/* Most that the distinct endpoints on each link can drive, added up; 0 where there is just one. */
static void drive(struct verify *v, bool source, double *sum)
{
	qsort(v->load, v->n_loads, sizeof(*v->load), source ? by_link_src : by_link_dst);
	for (uint32_t i = 0, k; i < v->n_loads; i = k) {
		double caps = 0, way = 0;

		for (k = i; k < v->n_loads && v->load[k].link == v->load[i].link &&
			    (source ? v->load[k].src == v->load[i].src :
				      v->load[k].dst == v->load[i].dst);
		     k++) {
			caps += v->load[k].cap_Bps;
			way = fmax(way, v->load[k].way_Bps);
		}
		bool alone = (i == 0 || v->load[i - 1].link != v->load[i].link) &&
			     (k == v->n_loads || v->load[k].link != v->load[i].link);
		sum[v->load[i].link] += alone ? 0 : fmin(caps, way);
	}
}

static bool trunks_suffice(struct verify *v)
{
	const struct mq_cluster *cluster = v->low->rq->cluster;
	double *by_src = mq_arena_array(v->arena, cluster->n_links, double);
	double *by_dst = mq_arena_array(v->arena, cluster->n_links, double);

	drive(v, true, by_src);
	drive(v, false, by_dst);
	for (uint32_t l = 0; l < cluster->n_links; l++)
		if (fmin(by_src[l], by_dst[l]) > mq_link_usable_Bps(&cluster->link[l]) * (1 + 1e-9))
			return refuse(v->low, "flows of different ranks share a link that cannot carry "
					      "them all");
	return true;
}

/* ---- fusing ------------------------------------------------------------------------------------------------ */

static bool is_last(uint32_t pass)
{
	return pass == MQ_PASS_B_LAST || pass == MQ_PASS_W_LAST;
}

static enum mq_status count_task(struct verify *v, const struct mq_task *t, uint32_t *users,
				 uint32_t *stamp, uint32_t user)
{
	struct mq_low *low = v->low;
	struct mq_coll_flows flows = { 0 };
	uint32_t two[2] = { low->schedule->device[t->device], 0 };
	struct mq_flow one = { 0, 1, t->bytes, INFINITY };
	const uint32_t *rank = two;

	if (t->kind == MQ_TASK_SEND) {
		two[1] = low->schedule->device[t->peer];
		flows.n_flows = 1;
		flows.flow = &one;
	} else {
		rank = low->fold->comm_rank[t->comm];
		MQ_TRY(expand(v, t, rank, low->fold->comm_n[t->comm], &flows));
	}
	for (uint32_t f = 0; f < flows.n_flows; f++) {
		const struct mq_route *route;

		MQ_TRY(mq_cluster_route(low->rq->cluster, rank[flows.flow[f].src],
					rank[flows.flow[f].dst], &route, low->err));
		for (uint32_t l = 0; l < route->n_links; l++)
			if (stamp[route->link[l]] != user) {
				stamp[route->link[l]] = user;
				users[route->link[l]]++;
			}
	}
	return MQ_OK;
}

/* How many simulated communicators and pairs use each link. What runs after the last micro-batch (POST)
 * meets none of what is fused. */
static enum mq_status count_users(struct verify *v, bool with_last)
{
	struct mq_low *low = v->low;
	struct mq_index *seen = mq_index_new(v->arena);
	uint32_t *stamp = mq_arena_array(v->arena, low->rq->cluster->n_links, uint32_t), user = 0;

	for (uint32_t i = 0; i < low->n_stages * MQ_N_PASSES; i++) {
		uint32_t pass = i % MQ_N_PASSES;

		if (pass == MQ_PASS_POST || (is_last(pass) && !with_last))
			continue;
		for (uint32_t k = 0; k < low->pass[i].n_tasks; k++) {
			const struct mq_task *t = &low->pass[i].task[k].task;
			bool pair = t->kind == MQ_TASK_SEND, found;
			uint32_t key[] = { t->kind, pair ? t->device : t->comm, t->peer,
					   pair ? 0 : t->stream };

			if (!pair && t->kind != MQ_TASK_COLLECTIVE)
				continue;
			mq_index_put(seen, key, sizeof(key), 0, &found);
			if (!found)
				MQ_TRY(count_task(v, t, v->users[with_last], stamp, ++user));
		}
	}
	return MQ_OK;
}

/* Fixed duration of a collective that nobody disturbs, or NaN. */
static enum mq_status fixed_time(struct verify *v, const struct mq_task *t, const uint32_t *users,
				 double *seconds)
{
	struct mq_low *low = v->low;
	const uint32_t *rank = low->fold->comm_rank[t->comm];
	struct mq_coll_flows flows;

	*seconds = NAN;
	if (low->schedule->comm[t->comm].n != 1) /* others must arrive at their own time */
		return MQ_OK;
	MQ_TRY(expand(v, t, rank, low->fold->comm_n[t->comm], &flows));
	for (uint32_t f = 0; f < flows.n_flows; f++) {
		const struct mq_route *route;

		MQ_TRY(mq_cluster_route(low->rq->cluster, rank[flows.flow[f].src],
					rank[flows.flow[f].dst], &route, low->err));
		for (uint32_t l = 0; l < route->n_links; l++)
			if (users[route->link[l]] > 1 &&
			    !low->rq->cluster->link[route->link[l]].fatpipe)
				return MQ_OK;
	}
	*seconds = flows.alone_s;
	return MQ_OK;
}

/* A chain compute, collective, compute, ... of one device, while it is being gathered. */
struct chain {
	uint32_t head;           /* local id of its first task */
	uint32_t tail;           /* of its last compute or collective */
	double fixed_s, comm_s;
	uint32_t n_parts;
};

static double compute_time(const struct mq_low *low, const struct mq_task *t)
{
	uint32_t calib = low->rq->cluster->device[low->schedule->device[t->device]].calib;

	return mq_cost_work(&low->rq->calib->device[calib], &low->schedule->work[t->work]);
}

static uint32_t fused_work(struct mq_low *low, const struct mq_template *t, const uint32_t *part,
			   const struct chain *chain)
{
	struct mq_schedule *s = low->schedule;
	struct mq_work w = { 0 };
	uint32_t room = 0;

	for (uint32_t i = 0; i < chain->n_parts; i++) {
		if (t->task[part[i]].task.kind != MQ_TASK_COMPUTE)
			continue;
		const struct mq_work *p = &s->work[t->task[part[i]].task.work];
		for (uint32_t k = 0; k < p->n_kernels; k++)
			MQ_PUSH(low->arena, w.kernel, w.n_kernels, room, p->kernel[k]);
		w.flop += p->flop;
		w.bytes += p->bytes;
		w.model_flop += p->model_flop;
	}
	MQ_PUSH(low->arena, s->work, s->n_works, s->work_room, w);
	return s->n_works - 1;
}

struct fusing {
	struct verify *v;
	struct mq_template *t;
	const uint32_t *users;   /* [links] that may be at work at the same time */
	uint32_t *dependents;    /* [tasks] */
	uint32_t *replaced;      /* [tasks] head of the chain that swallowed it, MQ_NONE = kept */
};

static bool only_dep(const struct mq_template *t, uint32_t task, uint32_t dep)
{
	const struct mq_task *k = &t->task[task].task;

	return k->n_deps == 1 && t->dep[k->dep_first] == dep;
}

static uint32_t next_on(const struct mq_template *t, uint32_t after, uint32_t device, uint8_t kind)
{
	for (uint32_t i = after + 1; i < t->n_tasks; i++)
		if (t->task[i].task.device == device && t->task[i].task.kind == kind &&
		    (kind == MQ_TASK_COMPUTE || t->task[i].task.stream == MQ_STREAM_COMM))
			return i;
	return MQ_NONE;
}

/* Follows the chain that starts at compute task `head`; parts are written to part[]. The last collective of a
 * chain stays a task of its own, so that those after it queue behind it as they would have. */
static enum mq_status follow(struct fusing *f, uint32_t head, uint32_t *part, struct chain *chain)
{
	const struct mq_template *t = f->t;
	uint32_t device = t->task[head].task.device, at = head, held_coll = MQ_NONE, held = MQ_NONE;
	double held_s = 0;

	*chain = (struct chain){ head, head, compute_time(f->v->low, &t->task[head].task), 0, 1 };
	part[0] = head;
	for (;;) {
		uint32_t coll, next;
		double seconds;

		if (f->dependents[at] != 1)
			return MQ_OK;
		coll = next_on(t, at, device, MQ_TASK_COLLECTIVE);
		if (coll == MQ_NONE || !only_dep(t, coll, at) || f->dependents[coll] != 1)
			return MQ_OK;
		next = next_on(t, at, device, MQ_TASK_COMPUTE);
		if (next == MQ_NONE || next < coll || !only_dep(t, next, coll))
			return MQ_OK;
		MQ_TRY(fixed_time(f->v, &t->task[coll].task, f->users, &seconds));
		if (isnan(seconds))
			return MQ_OK;
		if (held != MQ_NONE) { /* another follows: the one held back is not the last */
			part[chain->n_parts++] = held_coll;
			part[chain->n_parts++] = held;
			chain->fixed_s += held_s + compute_time(f->v->low, &t->task[held].task);
			chain->comm_s += held_s;
			chain->tail = held;
		}
		held_coll = coll;
		held_s = seconds;
		at = held = next;
	}
}

static void note_fixed(struct mq_low *low, uint32_t work, const struct chain *chain)
{
	uint32_t have = low->n_fixed;

	if (work >= low->fixed_room) {
		uint32_t room = low->fixed_room;

		low->fold->work_fixed_s = mq_arena_grow(low->arena, low->fold->work_fixed_s,
							sizeof(double), have, work + 1, &room);
		low->fold->work_comm_s = mq_arena_grow(low->arena, low->fold->work_comm_s,
						       sizeof(double), have, work + 1,
						       &low->fixed_room);
	}
	while (low->n_fixed < work + 1) {
		low->fold->work_fixed_s[low->n_fixed] = NAN;
		low->fold->work_comm_s[low->n_fixed++] = 0;
	}
	low->fold->work_fixed_s[work] = chain->fixed_s;
	low->fold->work_comm_s[work] = chain->comm_s;
}

/* Drops the swallowed tasks and renumbers. Whoever waited for a chain's tail waits for its head. */
static void compact(struct mq_low *low, struct fusing *f)
{
	struct mq_template *t = f->t, old = *t;
	uint32_t *fresh = mq_arena_array(f->v->arena, t->n_tasks, uint32_t);

	t->n_tasks = t->n_deps = t->task_room = t->dep_room = 0;
	t->task = NULL;
	t->dep = NULL;
	for (uint32_t i = 0; i < old.n_tasks; i++) {
		struct mq_ttask task = old.task[i];

		if (f->replaced[i] != MQ_NONE && f->replaced[i] != i) {
			fresh[i] = fresh[f->replaced[i]];
			continue;
		}
		uint32_t first = t->n_deps;
		for (uint32_t k = 0; k < task.task.n_deps; k++) {
			uint32_t d = old.dep[task.task.dep_first + k];

			d = d >= MQ_DEP_STREAM(0) ? d : fresh[d];
			MQ_PUSH(&low->scratch, t->dep, t->n_deps, t->dep_room, d);
		}
		task.task.dep_first = first;
		fresh[i] = t->n_tasks;
		MQ_PUSH(&low->scratch, t->task, t->n_tasks, t->task_room, task);
	}
}

/* After the first n tasks: is a collective of the device's COMM stream under way that no compute task of the
 * device has waited for? A later one would have to queue behind it. `loose`: so it may be from the start. */
static bool queue_is_busy(const struct mq_template *t, uint32_t device, uint32_t n, bool loose)
{
	uint32_t last = MQ_NONE;
	bool busy = loose;

	for (uint32_t i = 0; i < n; i++) {
		const struct mq_task *k = &t->task[i].task;

		if (k->device != device)
			continue;
		if (k->kind == MQ_TASK_COLLECTIVE && k->stream == MQ_STREAM_COMM) {
			last = i;
			busy = true;
		}
		for (uint32_t d = 0; k->kind == MQ_TASK_COMPUTE && d < k->n_deps; d++)
			busy = busy && t->dep[k->dep_first + d] != last;
	}
	return busy;
}

/* Does any template leave such a collective behind for the next instance on its device? */
static bool loose_ends(const struct mq_low *low)
{
	for (uint32_t i = 0; i < low->n_stages * MQ_N_PASSES; i++) {
		const struct mq_template *t = &low->pass[i];

		for (uint32_t k = 0; k < t->n_tasks; k++)
			if (t->task[k].task.kind == MQ_TASK_COLLECTIVE &&
			    queue_is_busy(t, t->task[k].task.device, t->n_tasks, false))
				return true;
	}
	return false;
}

static enum mq_status fuse_template(struct verify *v, struct mq_template *t, uint32_t pass)
{
	struct mq_low *low = v->low;
	/* With several chunks per device the last micro-batch of one meets the others'. */
	bool last = is_last(pass) || low->n_stages > low->n_ranks;
	struct fusing f = { .v = v, .t = t, .users = v->users[last] };
	uint32_t *part = mq_arena_array(v->arena, t->n_tasks, uint32_t);

	f.dependents = mq_arena_array(v->arena, t->n_tasks, uint32_t);
	f.replaced = mq_arena_array(v->arena, t->n_tasks, uint32_t);
	for (uint32_t i = 0; i < t->n_tasks; i++)
		f.replaced[i] = MQ_NONE;
	for (uint32_t i = 0; i < t->n_deps; i++)
		if (t->dep[i] < MQ_DEP_STREAM(0))
			f.dependents[t->dep[i]]++;
	for (uint32_t i = 0; i < t->n_tasks; i++) {
		struct chain chain;

		if (t->task[i].task.kind != MQ_TASK_COMPUTE || f.replaced[i] != MQ_NONE ||
		    queue_is_busy(t, t->task[i].task.device, i + 1, v->loose))
			continue;
		MQ_TRY(follow(&f, i, part, &chain));
		if (chain.n_parts == 1)
			continue;
		uint32_t work = fused_work(low, t, part, &chain);
		note_fixed(low, work, &chain);
		for (uint32_t k = 0; k < chain.n_parts; k++)
			f.replaced[part[k]] = i;
		t->task[i].task.work = work;
	}
	compact(low, &f);
	return MQ_OK;
}

enum mq_status mq_fold_verify(struct mq_low *low, bool *exact)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct verify v = { .low = low, .arena = &arena };
	enum mq_status status;

	*exact = true;
	v.expanded = mq_index_new(&arena);
	v.mine = mq_arena_array(&arena, low->rq->cluster->n_links, bool);
	v.users[0] = mq_arena_array(&arena, low->rq->cluster->n_links, uint32_t);
	v.users[1] = mq_arena_array(&arena, low->rq->cluster->n_links, uint32_t);
	status = each_request(&v, true, exact);
	if (status == MQ_OK && *exact)
		status = each_request(&v, false, exact);
	if (status == MQ_OK && *exact)
		*exact = trunks_suffice(&v);
	if (status == MQ_OK && *exact)
		status = count_users(&v, false);
	if (status == MQ_OK && *exact)
		status = count_users(&v, true);
	v.loose = *exact && loose_ends(low);
	for (uint32_t i = 0; status == MQ_OK && *exact && i < low->n_stages * MQ_N_PASSES; i++)
		if (i % MQ_N_PASSES != MQ_PASS_POST)
			status = fuse_template(&v, &low->pass[i], i % MQ_N_PASSES);
	if (status == MQ_OK && *exact && low->n_fixed) {
		struct chain none = { .fixed_s = NAN };

		note_fixed(low, low->schedule->n_works, &none); /* the table covers every work */
	}
	mq_arena_fini(&arena);
	return status;
}
