/*
 * simgrid_share.c - see simgrid_share.h.
 *
 * A meeting's time is known beforehand unless another meeting's flows can be on one of its links at the
 * same time. That is decided per event, from the order that the schedule imposes: tasks of one stream
 * never overlap; and with lo(t) = the last task of the device's compute stream that is before t, hi(t) =
 * the first that is after it (along stream order and dependencies), two tasks of a device cannot overlap
 * if hi of one <= lo of the other. Links whose users have no device in common are taken as shared. The
 * same windows tell which compute tasks a communication may slow.
 *
 * Not seen: order imposed through other devices. It only costs time: such events are simulated.
 */
#include "executors/simgrid_share.h"

#include <stdlib.h>

struct window {
	int64_t lo, hi;
	uint32_t event, colour; /* tasks of one colour never overlap */
};

struct finder {
	struct mq_costing *c;
	const struct mq_schedule *s;
	const struct mq_events *ev;
	struct mq_sharing *out;
	struct mq_arena *arena;
	uint32_t n_users;
	uint32_t *user_of;             /* [meetings] */
	bool *mixed;                   /* [users] on several streams, or in groups */
	uint32_t *link_first, *link_user; /* CSR: users of each link */
	uint32_t *user_devices_first, *user_device; /* CSR: devices of each user */
	uint32_t *task_first, *task_at;/* CSR: communication tasks of each device */
	int64_t *lo, *hi, *position;   /* [tasks], made when first needed */
};

static bool meets(const struct mq_task *t)
{
	return t->kind == MQ_TASK_SEND || t->kind == MQ_TASK_RECV || t->kind == MQ_TASK_COLLECTIVE;
}

/* ---- users of links --------------------------------------------------------------------------- */

static uint64_t user_key(const struct mq_task *t)
{
	if (t->kind == MQ_TASK_COLLECTIVE)
		return 1ull << 63 | t->comm;
	return t->kind == MQ_TASK_SEND ? (uint64_t)t->device << 31 | t->peer
				       : (uint64_t)t->peer << 31 | t->device;
}

/* Meetings of all events, and who uses links: a communicator, or a pair of devices. */
static enum mq_status list_users(struct finder *f, struct mq_err *err)
{
	const struct mq_schedule *s = f->s;
	struct mq_map map;

	mq_map_init(&map, f->arena, s->n_comms + 64);
	for (uint32_t e = 0; e < f->ev->n; e++) {
		uint32_t task = f->ev->first[e];
		f->out->meeting[e] = MQ_NONE;
		if (task != MQ_NONE && meets(&s->task[task]))
			MQ_TRY(mq_costing_meeting(f->c, &s->task[task], &f->out->meeting[e], err));
	}
	f->user_of = mq_arena_array(f->arena, f->c->n_meetings, uint32_t);
	for (uint32_t m = 0; m < f->c->n_meetings; m++)
		f->user_of[m] = mq_map_add(&map, user_key(f->c->meeting[m].task));
	f->n_users = map.n;
	return MQ_OK;
}

/* The streams that a user's tasks run on, as one number per role: 1 + stream, and whether they mix. */
static void find_mixed(struct finder *f)
{
	uint8_t *stream = mq_arena_array(f->arena, 2 * (size_t)f->n_users, uint8_t);

	f->mixed = mq_arena_array(f->arena, f->n_users, bool);
	for (uint32_t i = 0; i < f->s->n_tasks; i++) {
		const struct mq_task *t = &f->s->task[i];
		if (!meets(t))
			continue;
		uint32_t user = f->user_of[f->out->meeting[f->ev->of[i]]];
		uint8_t *role = &stream[2 * user + (t->kind == MQ_TASK_RECV)];
		if (t->group || (*role && *role != t->stream + 1))
			f->mixed[user] = true;
		*role = (uint8_t)(t->stream + 1);
	}
}

static void list_devices(struct finder *f)
{
	const struct mq_schedule *s = f->s;
	uint32_t *first = mq_arena_array(f->arena, f->n_users + 2, uint32_t);
	const struct mq_task **example = mq_arena_array(f->arena, f->n_users, const struct mq_task *);

	for (uint32_t m = 0; m < f->c->n_meetings; m++)
		example[f->user_of[m]] = f->c->meeting[m].task;
	for (uint32_t u = 0; u < f->n_users; u++) {
		const struct mq_task *t = example[u];
		first[u + 1] = first[u] + (t->kind == MQ_TASK_COLLECTIVE ? s->comm[t->comm].n : 2);
	}
	f->user_devices_first = first;
	f->user_device = mq_arena_array(f->arena, first[f->n_users], uint32_t);
	for (uint32_t u = 0; u < f->n_users; u++) {
		const struct mq_task *t = example[u];
		uint32_t *to = f->user_device + first[u];
		if (t->kind == MQ_TASK_COLLECTIVE) {
			memcpy(to, s->comm[t->comm].rank, s->comm[t->comm].n * sizeof(*to));
		} else {
			to[0] = t->device;
			to[1] = t->peer;
		}
	}
}

/* Calls `use` for each link of each meeting that another flow can slow, once per (link, user). */
static enum mq_status each_link(struct finder *f, uint32_t *stamp, bool fill, struct mq_err *err)
{
	const struct mq_cluster *cluster = f->c->request->cluster;

	for (uint32_t m = 0; m < f->c->n_meetings; m++) {
		const struct mq_meeting *meeting = &f->c->meeting[m];
		for (uint32_t k = 0; k < meeting->n_flows; k++) {
			const struct mq_route *route;
			MQ_TRY(mq_cluster_route(cluster, meeting->rank[meeting->flow[k].src],
						meeting->rank[meeting->flow[k].dst], &route, err));
			for (uint32_t i = 0; i < route->n_links; i++) {
				uint32_t l = route->link[i], user = f->user_of[m] + 1;
				if (cluster->link[l].fatpipe || stamp[l] == user)
					continue;
				stamp[l] = user;
				if (fill)
					f->link_user[f->link_first[l + 1]++] = user - 1;
				else
					f->link_first[l + 2]++;
			}
		}
	}
	return MQ_OK;
}

/* Meetings of one user follow each other only by chance, so a pair may be listed twice: harmless. */
static enum mq_status list_links(struct finder *f, struct mq_err *err)
{
	uint32_t n_links = f->c->request->cluster->n_links;
	uint32_t *stamp = mq_arena_array(f->arena, n_links, uint32_t);

	f->link_first = mq_arena_array(f->arena, n_links + 2, uint32_t);
	MQ_TRY(each_link(f, stamp, false, err));
	for (uint32_t l = 0; l < n_links; l++)
		f->link_first[l + 2] += f->link_first[l + 1];
	f->link_user = mq_arena_array(f->arena, f->link_first[n_links + 1], uint32_t);
	memset(stamp, 0, (size_t)n_links * sizeof(*stamp));
	return each_link(f, stamp, true, err);
}

/* ---- windows ----------------------------------------------------------------------------------- */

static int64_t reach(const struct finder *f, const int64_t *known, uint32_t task)
{
	return f->position[task] >= 0 ? f->position[task] : known[task];
}

static void find_windows(struct finder *f)
{
	const struct mq_schedule *s = f->s;
	const struct mq_events *ev = f->ev;
	uint32_t n = s->n_tasks, n_queues = s->n_devices * MQ_N_STREAMS;
	uint32_t *order = mq_arena_array(f->arena, ev->n, uint32_t);
	uint32_t *before = mq_arena_array(f->arena, n, uint32_t);
	uint32_t *last = mq_arena_array(f->arena, n_queues, uint32_t);
	int64_t *count = mq_arena_array(f->arena, s->n_devices, int64_t);
	uint32_t n_order = mq_events_order(ev, f->arena, order);

	f->lo = mq_arena_array(f->arena, n, int64_t);
	f->hi = mq_arena_array(f->arena, n, int64_t);
	f->position = mq_arena_array(f->arena, n, int64_t);
	memset(last, 0xff, (size_t)n_queues * sizeof(*last));
	for (uint32_t i = 0; i < n; i++) {
		const struct mq_task *t = &s->task[i];
		uint32_t *queue = &last[t->device * MQ_N_STREAMS + t->stream];
		/* A group's members start together: only what precedes the group precedes them. */
		before[i] = *queue != MQ_NONE && t->group && s->task[*queue].group == t->group
				    ? before[*queue] : *queue;
		*queue = i;
		f->position[i] = t->stream == MQ_STREAM_COMPUTE ? count[t->device]++ : -1;
		f->lo[i] = -1;
		f->hi[i] = INT64_MAX;
	}
	for (uint32_t k = 0; k < n_order; k++)
		for (uint32_t i = ev->first[order[k]]; i != MQ_NONE; i = ev->next[i]) {
			const struct mq_task *t = &s->task[i];
			if (before[i] != MQ_NONE && reach(f, f->lo, before[i]) > f->lo[i])
				f->lo[i] = reach(f, f->lo, before[i]);
			for (uint32_t d = t->dep_first; d < t->dep_first + t->n_deps; d++)
				if (reach(f, f->lo, s->dep[d]) > f->lo[i])
					f->lo[i] = reach(f, f->lo, s->dep[d]);
		}
	for (uint32_t k = n_order; k-- > 0;)
		for (uint32_t i = ev->first[order[k]]; i != MQ_NONE; i = ev->next[i]) {
			const struct mq_task *t = &s->task[i];
			int64_t mine = reach(f, f->hi, i);
			if (before[i] != MQ_NONE && mine < f->hi[before[i]])
				f->hi[before[i]] = mine;
			for (uint32_t d = t->dep_first; d < t->dep_first + t->n_deps; d++)
				if (mine < f->hi[s->dep[d]])
					f->hi[s->dep[d]] = mine;
		}
}

static void list_tasks(struct finder *f)
{
	uint32_t *first = mq_arena_array(f->arena, f->s->n_devices + 2, uint32_t);

	for (uint32_t i = 0; i < f->s->n_tasks; i++)
		first[f->s->task[i].device + 2] += meets(&f->s->task[i]);
	for (uint32_t d = 0; d < f->s->n_devices; d++)
		first[d + 2] += first[d + 1];
	f->task_at = mq_arena_array(f->arena, first[f->s->n_devices + 1], uint32_t);
	for (uint32_t i = 0; i < f->s->n_tasks; i++)
		if (meets(&f->s->task[i]))
			f->task_at[first[f->s->task[i].device + 1]++] = i;
	f->task_first = first;
}

static void need_windows(struct finder *f)
{
	if (!f->lo) {
		find_windows(f);
		list_tasks(f);
	}
}

/* ---- sharing ----------------------------------------------------------------------------------- */

static void mark(struct finder *f, uint32_t event)
{
	if (f->c->meeting[f->out->meeting[event]].n_flows && !f->out->flows[event]) {
		f->out->flows[event] = true;
		f->out->n_flows++;
	}
}

static int by_lo(const void *a, const void *b)
{
	const struct window *x = a, *y = b;

	if (x->lo != y->lo)
		return x->lo < y->lo ? -1 : 1;
	return x->event < y->event ? -1 : x->event > y->event;
}

/* Marks every window that overlaps one of another colour. In the order of lo, a window overlaps an
 * earlier one if that one's hi is beyond its lo: the two largest hi of different colours suffice. */
static void mark_overlaps(struct finder *f, struct window *w, uint32_t n)
{
	int64_t hi1 = INT64_MIN, hi2 = INT64_MIN; /* largest hi; largest of another colour */
	uint32_t colour1 = MQ_NONE;

	qsort(w, n, sizeof(*w), by_lo);
	for (uint32_t i = 0; i < n; i++) {
		if ((w[i].colour == colour1 ? hi2 : hi1) > w[i].lo)
			mark(f, w[i].event);
		if (w[i].colour == colour1) {
			hi1 = w[i].hi > hi1 ? w[i].hi : hi1;
		} else if (w[i].hi >= hi1) {
			hi2 = hi1;
			hi1 = w[i].hi;
			colour1 = w[i].colour;
		} else if (w[i].hi > hi2) {
			hi2 = w[i].hi;
		}
	}
	/* And backwards: the next window of another colour begins before this one must have ended. */
	uint32_t next = n, other = n; /* nearest later window; nearest of another colour than it */
	for (uint32_t i = n; i-- > 0;) {
		if (next < n && w[next].colour != w[i].colour)
			other = next;
		next = i;
		if (other < n && w[other].lo < w[i].hi)
			mark(f, w[i].event);
	}
}

/* A device that all users of a link have in common, or MQ_NONE. seen: [devices], zeroed, and left so. */
static uint32_t common_device(struct finder *f, uint32_t link, uint32_t *seen)
{
	uint32_t found = MQ_NONE, n = 0, from = f->link_first[link], to = f->link_first[link + 1];

	for (uint32_t k = from; k < to; k++, n++)
		for (uint32_t i = f->user_devices_first[f->link_user[k]];
		     i < f->user_devices_first[f->link_user[k] + 1]; i++) {
			uint32_t d = f->user_device[i];
			if (d == MQ_NONE || seen[d] != n)
				continue;
			seen[d] = n + 1;
			if (k + 1 == to && d < found)
				found = d;
		}
	for (uint32_t k = from; k < to; k++)
		for (uint32_t i = f->user_devices_first[f->link_user[k]];
		     i < f->user_devices_first[f->link_user[k] + 1]; i++)
			if (f->user_device[i] != MQ_NONE)
				seen[f->user_device[i]] = 0;
	return found;
}

/* on_link: [users], those of the link are set. */
static void share_on_device(struct finder *f, uint32_t device, const bool *on_link,
			    struct window *room)
{
	uint32_t n = 0;

	need_windows(f);
	for (uint32_t k = f->task_first[device]; k < f->task_first[device + 1]; k++) {
		uint32_t task = f->task_at[k], event = f->ev->of[task];
		const struct mq_task *t = &f->s->task[task];
		if (!on_link[f->user_of[f->out->meeting[event]]])
			continue;
		room[n++] = (struct window){ .lo = f->lo[task], .hi = f->hi[task], .event = event,
					     .colour = t->group ? MQ_N_STREAMS + task : t->stream };
	}
	mark_overlaps(f, room, n);
}

static void share_all(struct finder *f, const bool *user)
{
	for (uint32_t e = 0; e < f->ev->n; e++)
		if (f->out->meeting[e] != MQ_NONE && user[f->user_of[f->out->meeting[e]]])
			mark(f, e);
}

static void find_shared(struct finder *f)
{
	uint32_t n_links = f->c->request->cluster->n_links;
	bool *on_link = mq_arena_array(f->arena, f->n_users, bool);
	bool *lost = mq_arena_array(f->arena, f->n_users, bool); /* shared all the time */
	uint32_t *seen = mq_arena_array(f->arena, f->s->n_devices, uint32_t);
	struct window *room = NULL;
	struct mq_map done; /* sets of users looked at on a device: many links have the same */
	bool any_lost = false;

	mq_map_init(&done, f->arena, 64);

	for (uint32_t l = 0; l < n_links; l++) {
		uint32_t from = f->link_first[l], to = f->link_first[l + 1];
		if (from == to || (to - from == 1 && !f->mixed[f->link_user[from]]))
			continue;
		uint32_t device = common_device(f, l, seen), n_done = done.n;
		uint64_t set = device;
		for (uint32_t k = from; k < to; k++) {
			on_link[f->link_user[k]] = true;
			set = mq_map_mix(set, f->link_user[k]);
		}
		if (device != MQ_NONE) {
			if (!room)
				room = mq_arena_array(f->arena, f->s->n_tasks, struct window);
			if (mq_map_add(&done, set) == n_done)
				share_on_device(f, device, on_link, room);
		} else {
			for (uint32_t k = from; k < to; k++)
				any_lost = lost[f->link_user[k]] = true;
		}
		for (uint32_t k = from; k < to; k++)
			on_link[f->link_user[k]] = false;
	}
	if (any_lost)
		share_all(f, lost);
}

/* ---- interference ------------------------------------------------------------------------------ */

bool mq_task_interferes(const struct mq_device_calib *device, const struct mq_task *t)
{
	if (!meets(t))
		return false;
	if (device->serial_comm)
		return true;
	return t->kind == MQ_TASK_COLLECTIVE && t->stream == MQ_STREAM_GRAD &&
	       (device->overlap_compute > 0 || device->overlap_comm > 0);
}

static void mark_slowed(struct finder *f, uint32_t event)
{
	if (!f->out->slowed[event]) {
		f->out->slowed[event] = true;
		f->out->n_slowed++;
	}
}

/* Compute tasks inside the window of a communication that interferes, and that communication. */
static void find_slowed(struct finder *f)
{
	const struct mq_exec_request *r = f->c->request;
	const struct mq_schedule *s = f->s;
	uint32_t *first = mq_arena_array(f->arena, s->n_devices + 2, uint32_t);
	bool any = false;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		const struct mq_device *d = &r->cluster->device[s->device[t->device]];
		first[t->device + 1] += t->stream == MQ_STREAM_COMPUTE;
		any |= mq_task_interferes(&r->calib->device[d->calib], t);
	}
	if (!any)
		return;
	need_windows(f);
	for (uint32_t d = 0; d < s->n_devices; d++)
		first[d + 1] += first[d];
	uint32_t n_compute = first[s->n_devices];
	int32_t *change = mq_arena_array(f->arena, n_compute + 1, int32_t); /* windows begun - ended */
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		const struct mq_device *d = &r->cluster->device[s->device[t->device]];
		uint32_t from = first[t->device] + (uint32_t)(f->lo[i] + 1);
		uint32_t to = f->hi[i] == INT64_MAX ? first[t->device + 1]
						    : first[t->device] + (uint32_t)f->hi[i];
		if (from >= to || !mq_task_interferes(&r->calib->device[d->calib], t))
			continue;
		change[from]++;
		change[to]--;
		mark_slowed(f, f->ev->of[i]);
	}
	for (uint32_t k = 1; k < n_compute; k++)
		change[k] += change[k - 1];
	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (f->position[i] >= 0 && s->task[i].kind == MQ_TASK_COMPUTE &&
		    change[first[s->task[i].device] + (uint32_t)f->position[i]] > 0)
			mark_slowed(f, f->ev->of[i]);
}

enum mq_status mq_sharing_find(struct mq_costing *c, const struct mq_events *ev,
			       struct mq_sharing *out, struct mq_err *err)
{
	struct finder f = { .c = c, .s = c->request->schedule, .ev = ev, .out = out,
			    .arena = c->arena };

	*out = (struct mq_sharing){ 0 };
	out->meeting = mq_arena_array(f.arena, ev->n, uint32_t);
	out->flows = mq_arena_array(f.arena, ev->n, bool);
	out->slowed = mq_arena_array(f.arena, ev->n, bool);
	MQ_TRY(list_users(&f, err));
	find_mixed(&f);
	list_devices(&f);
	MQ_TRY(list_links(&f, err));
	find_shared(&f);
	if (c->request->interference)
		find_slowed(&f);
	return MQ_OK;
}
