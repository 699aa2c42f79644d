/*
 * fold.c - representatives for each pipeline rank, where that changes no answer. See fold.h.
 *
 * The first position of a block stands for all positions of it. That is exact if
 *   1. all devices of a block are of one type and do the same work (equal shares, one device list per
 *      stage, stages of equal size that exchange tensors position by position);
 *   2. the meetings of the representatives have images under translation of all members inside their
 *      blocks that cover these blocks, and all images take the same time.
 * Then by induction every position sees what its representative sees, as long as images that meet others on
 * their links go on ending together. That is the executor's business (it knows who meets): where they do
 * not, it reports that the folded time may differ. Anything else is refused.
 *
 * A block is the whole stage at best. Where the stage lies over machines in such a way that its positions
 * differ (half of it in one NVLink domain), or where replicas have shares or devices of their own, smaller
 * blocks still are alike: those of tensor parallelism, which lies innermost.
 *
 * Fusing: a collective whose links serve nobody else lasts a fixed time. Where it sits between two runs of
 * compute that wait for nothing else, the three become one task of fixed duration.
 */
#include "lower/fold.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/cost.h"
#include "lower/images.h"
#include "lower/program.h"

static bool refuse(struct mq_low *low, const char *why)
{
	if (!*low->out->unfolded) /* of the largest blocks */
		snprintf(low->out->unfolded, sizeof(low->out->unfolded), "%s", why);
	return false;
}

/* ---- before the templates: who is simulated ---------------------------------------------------------- */

static bool even_configs(struct mq_low *low, uint32_t size)
{
	double samples = low->train->batch / low->plan->micro_batches;
	uint32_t n = mq_low_config(low, 0)->n_devices;

	for (uint32_t op = 0; op < low->model->n_ops; op++) {
		const struct mq_config *c = mq_low_config(low, op);
		uint32_t first = low->stage_op[low->stage_first[low->stage_of[op]]];

		if (c->n_devices != n || low->devset_of[low->plan->config_of[op]] !=
						 low->devset_of[low->plan->config_of[first]])
			return refuse(low, "ops of a stage, or stages, differ in their devices");
		bool uneven = c->share || fmod(samples, c->split[MQ_DIM_BATCH]) != 0;
		if (uneven && n / c->split[MQ_DIM_BATCH] % size) /* the batch is the mesh's outermost */
			return refuse(low, "batch shares are uneven");
		for (uint32_t d = 1; d < n; d++)
			if (low->q.cluster->device[c->device[d]].calib !=
			    low->q.cluster->device[c->device[d - d % size]].calib)
				return refuse(low, "a stage has devices of different speed");
	}
	return true;
}

/* The largest size of blocks below a limit that nothing speaks against yet; 1 = none. */
static uint32_t block_size(struct mq_low *low, uint32_t below)
{
	uint32_t n = mq_low_config(low, 0)->n_devices, size = n < below ? n : below - 1;

	while (size > 1 && (n % size || !even_configs(low, size)))
		size--;
	return size;
}

bool mq_fold_decide(struct mq_low *low, uint32_t below)
{
	const struct mq_cluster *cluster = low->q.cluster;
	uint32_t n = mq_low_config(low, 0)->n_devices, size, n_active = 0;
	struct mq_fold *fold;

	if (!low->rq->fold || below <= 1)
		return false;
	for (uint32_t t = 0; t < low->n_transfers; t++)
		if (low->transfer[t].way == MQ_WAY_BOXES)
			return refuse(low, "tensors change their layout between devices");
	size = block_size(low, below);
	if (size <= 1)
		return false;
	low->active = mq_arena_array(&low->scratch, cluster->n_devices, bool);
	fold = low->fold = mq_arena_alloc(low->arena, sizeof(*low->fold));
	fold->n_positions = n;
	fold->size = size;
	fold->position = mq_arena_array(low->arena, cluster->n_devices, uint32_t);
	fold->device = mq_arena_array(low->arena, low->n_ranks, const uint32_t *);
	fold->rank_of = low->rank_of_device;
	for (uint32_t op = 0; op < low->model->n_ops; op++) {
		const struct mq_config *c = mq_low_config(low, op);

		fold->device[mq_low_rank(low, low->stage_of[op])] = c->device;
		for (uint32_t p = 0; p < n; p++)
			fold->position[c->device[p]] = p;
		for (uint32_t p = 0; p < n; p += size)
			low->active[c->device[p]] = true;
	}
	for (uint32_t d = 0; d < cluster->n_devices; d++)
		n_active += low->active[d];
	fold->weight = mq_arena_array(low->arena, n_active, double);
	for (uint32_t i = 0; i < n_active; i++)
		fold->weight[i] = size;
	return true;
}

/* ---- after the templates: is it exact? ------------------------------------------------------------------ */

/* Who uses a link, images included. */
struct users {
	uint32_t n;              /* communicators and pairs, at any time */
	uint32_t late[2];        /* 1 + devices that use it once they reduce gradients, and after */
	bool more;               /* and others */
};

struct verify {
	struct mq_low *low;
	struct mq_arena *arena;
	struct mq_images *images;
	uint32_t n_requests, room;
	const struct mq_task **request; /* every distinct communication of the templates */
	struct users *users;     /* [links] */
	bool loose;              /* templates may begin with a busy COMM stream */
	struct mq_index *fixed;  /* collectives whose fixed time is known -> fixed_s[] */
	uint32_t n_fixed, fixed_room;
	double *fixed_s;
};

static void list_requests(struct verify *v)
{
	struct mq_low *low = v->low;
	struct mq_index *seen = mq_index_new(v->arena);

	for (uint32_t i = 0; i < low->n_stages * MQ_N_PASSES; i++)
		for (uint32_t k = 0; k < low->pass[i].n_tasks; k++) {
			const struct mq_task *t = &low->pass[i].task[k].task;
			double key[] = { t->kind, t->coll, t->comm, t->device, t->peer, t->bytes,
					 t->dtype };
			bool found;

			if (t->kind != MQ_TASK_SEND && t->kind != MQ_TASK_COLLECTIVE)
				continue;
			if (t->kind == MQ_TASK_COLLECTIVE) /* of every member, the same */
				key[3] = key[4] = 0;
			mq_index_put(seen, key, sizeof(key), 0, &found);
			if (!found)
				MQ_PUSH(v->arena, v->request, v->n_requests, v->room, t);
		}
}

static enum mq_status check_images(struct verify *v, bool *same)
{
	for (uint32_t i = 0; i < v->n_requests && *same; i++)
		if (!mq_images_count(v->images, v->request[i]))
			*same = refuse(v->low, "groups are not translations of each other");
	if (*same)
		MQ_TRY(mq_images_find_slack(v->images, v->request, v->n_requests, v->low->err));
	for (uint32_t i = 0; i < v->n_requests && *same; i++) {
		struct mq_image_times times;

		MQ_TRY(mq_images_times(v->images, v->request[i], &times, v->low->err));
		if (!times.same)
			*same = refuse(v->low, v->request[i]->kind == MQ_TASK_SEND ?
				       "equal messages take different times in different places" :
				       "equal collectives take different times in different places");
	}
	return MQ_OK;
}

/* ---- fusing ------------------------------------------------------------------------------------------------ */

struct counter {
	struct verify *v;
	const struct mq_task *task;
	bool late;
	uint32_t *stamp, user;
};

static void add_late(struct users *u, uint32_t device)
{
	for (int i = 0; i < 2; i++) {
		if (!u->late[i])
			u->late[i] = 1 + device;
		if (u->late[i] == 1 + device)
			return;
	}
	u->more = true;
}

static void count_link(uint32_t link, double bytes, void *data)
{
	struct counter *c = data;
	const struct mq_schedule *s = c->v->low->schedule;
	const struct mq_comm *comm = &s->comm[c->task->comm];
	struct users *u = &c->v->users[link];

	(void)bytes;
	if (c->stamp[link] == c->user)
		return;
	c->stamp[link] = c->user;
	if (!c->late) {
		u->n++;
		return;
	}
	for (uint32_t i = 0; i < comm->n; i++)
		add_late(u, comm->rank[i]);
}

/* A device's own gradient collectives, and what it does after the last micro-batch (POST), meet none of what
 * is fused on it: its first one ends that (mq_low.whole). */
static enum mq_status count_users(struct verify *v)
{
	struct mq_low *low = v->low;
	struct mq_index *seen = mq_index_new(v->arena);
	struct counter c = { .v = v };

	c.stamp = mq_arena_array(v->arena, low->q.cluster->n_links, uint32_t);
	for (uint32_t i = 0; i < low->n_stages * MQ_N_PASSES; i++)
		for (uint32_t k = 0; k < low->pass[i].n_tasks; k++) {
			const struct mq_task *t = c.task = &low->pass[i].task[k].task;
			bool pair = t->kind == MQ_TASK_SEND, found;

			if (!pair && t->kind != MQ_TASK_COLLECTIVE)
				continue;
			c.late = !pair && (t->stream == MQ_STREAM_GRAD ||
					   i % MQ_N_PASSES == MQ_PASS_POST);
			uint32_t key[] = { t->kind, pair ? t->device : t->comm, t->peer,
					   pair ? 0 : t->stream, c.late };
			mq_index_put(seen, key, sizeof(key), 0, &found);
			c.user += !found;
			if (!found)
				MQ_TRY(mq_images_links(v->images, t, count_link, &c, low->err));
		}
	return MQ_OK;
}

struct looker {
	const struct users *users;
	uint32_t device;
	bool shared;
};

static void look_at_link(uint32_t link, double bytes, void *data)
{
	struct looker *l = data;
	const struct users *u = &l->users[link];

	(void)bytes;
	l->shared |= u->n > 1 || u->more;
	for (int i = 0; i < 2; i++)
		l->shared |= u->late[i] && u->late[i] != 1 + l->device;
}

static enum mq_status find_fixed(struct verify *v, const struct mq_task *t, double *seconds)
{
	const struct mq_schedule *s = v->low->schedule;
	struct looker l = { .users = v->users, .device = t->device };
	struct mq_image_times times;

	*seconds = NAN;
	if (s->comm[t->comm].n != 1) /* others must arrive at their own time */
		return MQ_OK;
	MQ_TRY(mq_images_links(v->images, t, look_at_link, &l, v->low->err));
	if (l.shared)
		return MQ_OK;
	MQ_TRY(mq_images_times(v->images, t, &times, v->low->err));
	*seconds = times.alone_s;
	return MQ_OK;
}

/* Fixed duration of a collective that nobody disturbs, or NaN. */
static enum mq_status fixed_time(struct verify *v, const struct mq_task *t, double *seconds)
{
	double key[] = { t->coll, t->comm, t->bytes, t->dtype, t->root };
	bool found;
	uint32_t at = mq_index_put(v->fixed, key, sizeof(key), v->n_fixed, &found);

	if (!found) {
		MQ_PUSH(v->arena, v->fixed_s, v->n_fixed, v->fixed_room, NAN);
		MQ_TRY(find_fixed(v, t, &v->fixed_s[at]));
	}
	*seconds = v->fixed_s[at];
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
	uint32_t calib = low->q.cluster->device[low->schedule->device[t->device]].calib;

	return mq_cost_work(&low->q.calib->device[calib], &low->schedule->work[t->work]);
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
	uint32_t *dependents;    /* [tasks] */
	uint32_t *replaced;      /* [tasks] head of the chain that swallowed it, MQ_NONE = kept */
	uint32_t *work;          /* [tasks] of a chain's head */
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
		MQ_TRY(fixed_time(f->v, &t->task[coll].task, &seconds));
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
		if (f->replaced[i] == i)
			task.task.work = f->work[i];
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

static enum mq_status fuse_template(struct verify *v, struct mq_template *t)
{
	struct mq_low *low = v->low;
	struct fusing f = { .v = v, .t = t };
	uint32_t *part = mq_arena_array(v->arena, t->n_tasks, uint32_t);

	f.dependents = mq_arena_array(v->arena, t->n_tasks, uint32_t);
	f.replaced = mq_arena_array(v->arena, t->n_tasks, uint32_t);
	f.work = mq_arena_array(v->arena, t->n_tasks, uint32_t);
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
		f.work[i] = work;
	}
	compact(low, &f);
	return MQ_OK;
}

static bool reduces(const struct mq_template *t)
{
	for (uint32_t k = 0; k < t->n_tasks; k++)
		if (t->task[k].task.kind == MQ_TASK_COLLECTIVE &&
		    t->task[k].task.stream == MQ_STREAM_GRAD)
			return true;
	return false;
}

/* Gradient collectives slow compute but not the collectives between, and may meet these on their links:
 * from the first of them on, a device uses the templates as they were (mq_low.whole). Where every
 * communication stops the compute, nothing is fused. */
static enum mq_status fuse_all(struct verify *v)
{
	struct mq_low *low = v->low;
	uint32_t n = low->n_stages * MQ_N_PASSES;

	if (low->plan->overlap_experts) /* tokens on their way slow whatever computes */
		return MQ_OK;
	for (uint32_t i = 0; i < low->schedule->n_devices; i++) {
		uint32_t calib = low->q.cluster->device[low->schedule->device[i]].calib;

		if (low->q.calib->device[calib].serial_comm)
			return MQ_OK;
	}
	low->whole = mq_arena_array(&low->scratch, n, struct mq_template);
	low->reduces = mq_arena_array(&low->scratch, n, bool);
	memcpy(low->whole, low->pass, n * sizeof(*low->whole));
	for (uint32_t i = 0; i < n; i++)
		low->reduces[i] = reduces(&low->pass[i]);
	for (uint32_t i = 0; i < n; i++)
		if (i % MQ_N_PASSES != MQ_PASS_POST)
			MQ_TRY(fuse_template(v, &low->pass[i]));
	return MQ_OK;
}

enum mq_status mq_fold_verify(struct mq_low *low, bool *exact)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct verify v = { .low = low, .arena = &arena };
	enum mq_status status;

	*exact = true;
	v.images = low->fold->images = mq_images_new(low->q.cluster, low->q.calib, low->schedule,
						     low->arena);
	v.users = mq_arena_array(&arena, low->q.cluster->n_links, struct users);
	v.fixed = mq_index_new(&arena);
	list_requests(&v);
	status = check_images(&v, exact);
	if (status == MQ_OK && *exact)
		status = count_users(&v);
	v.loose = *exact && loose_ends(low);
	if (status == MQ_OK && *exact && !low->rq->keep_tasks)
		status = fuse_all(&v);
	if (status == MQ_OK && *exact && low->n_fixed) {
		struct chain none = { .fixed_s = NAN };

		note_fixed(low, low->schedule->n_works, &none); /* the table covers every work */
	}
	mq_arena_fini(&arena);
	return status;
}
