/* share.c - see share.h: the users of each link, and which of them met.
 *
 * A communication occupies its links from the end of its latency to its finish. For each set of users that share a
 * link, their events are sorted by that start, and one pass finds all that overlap.
 * SPDX-License-Identifier: Apache-2.0 */
#include "executors/simgrid/share.h"

#include "folding/replica_flows.h"
#include "maquette/map.h"

bool mq_task_communicates(const struct mq_task *t)
{
	return t->kind == MQ_TASK_SEND || t->kind == MQ_TASK_RECV || t->kind == MQ_TASK_COLLECTIVE;
}

bool mq_task_interferes(const struct mq_device_calib *device, const struct mq_task *t)
{
	if (!mq_task_communicates(t))
		return false;
	if (device->serial_comm)
		return true;
	return t->kind == MQ_TASK_COLLECTIVE && (t->stream == MQ_STREAM_GRAD || t->stream == MQ_STREAM_EXPERT) &&
	       (device->overlap_compute != 0 || device->overlap_comm > 0);
}

/* ---- users of links --------------------------------------------------------------------------- */

/* Finds each event's communication, and its user: a communicator, or a pair of devices. */
static enum mq_status list_users(struct mq_sharing *f, struct mq_err *err)
{
	const struct mq_schedule *s = f->c->view.schedule;
	struct mq_map map;

	mq_map_init(&map, f->arena, s->n_comms + 64);
	for (uint32_t e = 0; e < f->ev->n; e++) {
		uint32_t task = f->ev->first[e];
		f->communication[e] = MQ_NONE;
		if (task != MQ_NONE && mq_task_communicates(&s->task[task]))
			MQ_TRY(mq_costing_communication(f->c, &s->task[task], &f->communication[e], err));
	}
	f->user_of = mq_arena_array(f->arena, f->c->n_communications, uint32_t);
	for (uint32_t m = 0; m < f->c->n_communications; m++) {
		const struct mq_communication_key key = mq_communication_key(f->c->communication[m].task);

		f->user_of[m] = mq_map_add(&map, (uint64_t)key.ends[0] << 32 | key.ends[1]);
	}
	f->n_users = map.n;
	return MQ_OK;
}

/* Marks users whose tasks are in groups, or on several streams in one role (recv or not). stream[]: 1 + stream. */
static void find_mixed(struct mq_sharing *f)
{
	uint8_t *stream = mq_arena_array(f->arena, 2 * (size_t)f->n_users, uint8_t);

	f->mixed = mq_arena_array(f->arena, f->n_users, bool);
	for (uint32_t i = 0; i < f->c->view.schedule->n_tasks; i++) {
		const struct mq_task *t = &f->c->view.schedule->task[i];
		if (!mq_task_communicates(t))
			continue;
		uint32_t user = f->user_of[f->communication[f->ev->of[i]]];
		uint8_t *role = &stream[2 * user + (t->kind == MQ_TASK_RECV)];
		if (t->group || (*role && *role != t->stream + 1))
			f->mixed[user] = true;
		*role = (uint8_t)(t->stream + 1);
	}
}

static void list_devices(struct mq_sharing *f)
{
	const struct mq_schedule *s = f->c->view.schedule;
	const struct mq_task **example = mq_arena_array(f->arena, f->n_users, const struct mq_task *);
	uint32_t n = 0, room = 0;

	for (uint32_t m = 0; m < f->c->n_communications; m++)
		example[f->user_of[m]] = f->c->communication[m].task;
	f->device_first = mq_arena_array(f->arena, f->n_users + 1, uint32_t);
	for (uint32_t u = 0; u < f->n_users; u++) {
		const struct mq_task *t = example[u];
		const struct mq_comm pair = { .n = 2, .rank = (uint32_t[]){ t->device, t->peer } };
		const struct mq_comm *of = t->kind == MQ_TASK_COLLECTIVE ? &s->comm[t->comm] : &pair;

		for (uint32_t i = 0; i < of->n; i++)
			MQ_PUSH(f->arena, f->device, n, room, of->rank[i]);
		f->device_first[u + 1] = n;
	}
}

/* The users of links, before they are sorted by link. */
struct notes {
	struct mq_arena *arena;
	uint32_t *stamp; /* [links] 1 + newest user noted */
	uint32_t user, n, room;
	struct note {
		uint32_t link, user;
	} * note;
};

/* Notes the user at the link once. */
static void note_link(uint32_t link, uint32_t replica, double bytes, void *data)
{
	struct notes *n = data;
	const struct note fresh = { link, n->user };

	(void)replica;
	(void)bytes;
	if (n->stamp[link] == n->user + 1)
		return;
	n->stamp[link] = n->user + 1;
	MQ_PUSH(n->arena, n->note, n->n, n->room, fresh);
}

/* Do m[0] and m[1], broadcasts or reductions of different roots, use all links of m[2]? Each lacks only its root's
 * edges. */
static bool adds_no_link(const struct mq_sharing *f, const uint32_t *m)
{
	const struct mq_task *t[3];

	for (uint32_t i = 0; i < 3; i++) {
		t[i] = f->c->communication[m[i]].task;
		if (t[i]->kind != MQ_TASK_COLLECTIVE || !mq_coll_has_root(t[i]->coll) || t[i]->comm != t[0]->comm ||
		    t[i]->coll != t[0]->coll || t[i]->bytes != t[0]->bytes || t[i]->dtype != t[0]->dtype ||
		    t[i]->algo != t[0]->algo || t[i]->proto != t[0]->proto || f->user_of[m[i]] != f->user_of[m[0]])
			return false;
	}
	return t[0]->root != t[1]->root;
}

/* Lists each link's users. Communications are sorted by user, so a link's stamp tells whether the user is listed. */
static enum mq_status list_links(struct mq_sharing *f, struct mq_err *err)
{
	uint32_t n_links = f->c->cluster->n_links, n = f->c->n_communications;
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct notes notes = { .arena = &scratch,
			       .stamp = mq_arena_array(&scratch, n_links, uint32_t),
			       .note = mq_arena_array(&scratch, 1, struct note),
			       .room = 1 };
	uint32_t *first, *by_user;

	mq_csr_make(&scratch, f->n_users, n, f->user_of, NULL, sizeof(*f->user_of), &first, &by_user);
	for (uint32_t k = 0; k < n; k++) {
		notes.user = f->user_of[by_user[k]];
		if (k < 2 || !adds_no_link(f, &by_user[k - 2]))
			MQ_TRY(mq_costing_links(f->c, &f->c->communication[by_user[k]], false, note_link, &notes, err));
	}
	mq_csr_make(f->arena, n_links, notes.n, &notes.note->link, &notes.note->user, sizeof(*notes.note),
		    &f->link_first, &f->link_user);
	return MQ_OK;
}

static void list_events(struct mq_sharing *f)
{
	uint32_t *user = mq_arena_none(f->arena, f->ev->n);

	for (uint32_t e = 0; e < f->ev->n; e++)
		if (f->communication[e] != MQ_NONE && f->c->communication[f->communication[e]].n_flows)
			user[e] = f->user_of[f->communication[e]];
	mq_csr_make(f->arena, f->n_users, f->ev->n, user, NULL, sizeof(*user), &f->event_first, &f->event);
}

/* Counts the events of users that share a link: only those can meet others. */
static void count_neighbours(struct mq_sharing *f)
{
	bool *seen = mq_arena_array(f->arena, f->n_users, bool);

	for (uint32_t l = 0; l < f->c->cluster->n_links; l++) {
		uint32_t from = f->link_first[l], to = f->link_first[l + 1];
		if (from == to || (to - from == 1 && !f->mixed[f->link_user[from]]))
			continue;
		for (uint32_t k = from; k < to; k++) {
			uint32_t user = f->link_user[k];
			if (!seen[user])
				f->n_neighbours += f->event_first[user + 1] - f->event_first[user];
			seen[user] = true;
		}
	}
}

enum mq_status mq_sharing_init(struct mq_sharing *f, struct mq_costing *c, const struct mq_events *ev,
			       struct mq_err *err)
{
	*f = (struct mq_sharing){ .c = c, .ev = ev, .arena = c->arena };
	f->communication = mq_arena_array(f->arena, ev->n, uint32_t);
	f->flows = mq_arena_array(f->arena, ev->n, bool);
	f->slowed = mq_arena_array(f->arena, ev->n, bool);
	MQ_TRY(list_users(f, err));
	find_mixed(f);
	list_devices(f);
	MQ_TRY(list_links(f, err));
	list_events(f);
	count_neighbours(f);
	return MQ_OK;
}

void mq_sharing_mark(struct mq_sharing *f, uint32_t event)
{
	if (f->c->communication[f->communication[event]].n_flows && !f->flows[event]) {
		f->flows[event] = true;
		f->n_flows++;
	}
}

void mq_sharing_all(struct mq_sharing *f)
{
	for (uint32_t e = 0; e < f->ev->n; e++)
		if (f->communication[e] != MQ_NONE)
			mq_sharing_mark(f, e);
}

void mq_sharing_each_set(struct mq_sharing *f, mq_sharing_look *look, void *data)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	bool *on_link = mq_arena_array(&scratch, f->n_users, bool);
	struct mq_map done; /* many links have the same users */

	mq_map_init(&done, &scratch, 64);
	for (uint32_t l = 0; l < f->c->cluster->n_links; l++) {
		uint32_t from = f->link_first[l], to = f->link_first[l + 1], n_done = done.n;
		uint64_t set = 1;
		if (from == to || (to - from == 1 && !f->mixed[f->link_user[from]]))
			continue;
		for (uint32_t k = from; k < to; k++)
			set = mq_map_mix(set, f->link_user[k]);
		if (mq_map_add(&done, set) < n_done)
			continue;
		for (uint32_t k = from; k < to; k++)
			on_link[f->link_user[k]] = true;
		look(f, l, on_link, data);
		for (uint32_t k = from; k < to; k++)
			on_link[f->link_user[k]] = false;
	}
}

/* ---- overlaps ------------------------------------------------------------------------------------ */

struct span {
	double from_s, to_s; /* time on the links */
	uint32_t event;
};

struct contention {
	const double *start_s, *finish_s;
	struct span *span, *spare; /* [events with flows] */
};

static bool comes_first(const struct span *a, const struct span *b)
{
	return a->from_s != b->from_s ? a->from_s < b->from_s : a->event < b->event;
}

/* Natural merge sort: each user's events are mostly in order of time, so the runs are few and long. */
static void sort_spans(struct contention *m, uint32_t n)
{
	for (uint32_t n_runs = 2; n_runs > 1;) {
		n_runs = 0;
		for (uint32_t at = 0; at < n; n_runs++) {
			uint32_t middle = at + 1, end;
			while (middle < n && !comes_first(&m->span[middle], &m->span[middle - 1]))
				middle++;
			for (end = middle < n ? middle + 1 : middle;
			     end < n && !comes_first(&m->span[end], &m->span[end - 1]);)
				end++;
			for (uint32_t a = at, b = middle; at < end; at++) { /* merges the two */
				bool second = a == middle || (b < end && comes_first(&m->span[b], &m->span[a]));

				m->spare[at] = m->span[second ? b++ : a++];
			}
		}
		struct span *swap = m->span;
		m->span = m->spare;
		m->spare = swap;
	}
}

/* Marks events that overlap: in order of start, an event met the latest-ending one before it if it starts before that
 * one's end. Spans that only touch, up to rounding, do not overlap. */
static void mark_overlaps_in_time(struct mq_sharing *f, uint32_t link, const bool *on_link, void *data)
{
	struct contention *m = data;
	uint32_t n = 0, last = 0;

	for (uint32_t k = f->link_first[link]; k < f->link_first[link + 1]; k++) {
		uint32_t user = f->link_user[k];
		for (uint32_t i = f->event_first[user]; i < f->event_first[user + 1]; i++) {
			uint32_t e = f->event[i];
			m->span[n++] =
				(struct span){ m->start_s[e] + f->c->communication[f->communication[e]].latency_s,
					       m->finish_s[e], e };
		}
	}
	sort_spans(m, n);
	for (uint32_t i = 1; i < n; i++) {
		if (m->span[i].from_s < m->span[last].to_s * (1 - 1e-12)) {
			mq_sharing_mark(f, m->span[i].event);
			mq_sharing_mark(f, m->span[last].event);
		}
		if (m->span[i].to_s > m->span[last].to_s)
			last = i;
	}
}

uint32_t mq_sharing_contended(struct mq_sharing *f, const double *start_s, const double *finish_s)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct contention m = { .start_s = start_s, .finish_s = finish_s };
	uint32_t before = f->n_flows;

	if (f->n_neighbours) {
		m.span = mq_arena_array(&scratch, f->event_first[f->n_users], struct span);
		m.spare = mq_arena_array(&scratch, f->event_first[f->n_users], struct span);
		mq_sharing_each_set(f, mark_overlaps_in_time, &m);
	}
	return f->n_flows - before;
}
