/* events.c - see events.h.
 *
 * Edges are emitted as pairs in one pass over the tasks, then sorted by source with counting sort (CSR). Sends and
 * recvs are paired by their ordinal on the (source, destination, channel) triple, collectives by their ordinal on
 * (communicator, member). SPDX-License-Identifier: Apache-2.0 */
#include "schedule/events.h"

#include "maquette/map.h"

struct builder {
	const struct mq_schedule *s;
	const struct mq_rounds *rounds; /* NULL: one step */
	struct mq_arena *arena;
	struct mq_events *ev;
	struct mq_err *err;
	uint32_t *src, *dst, n_edges;                        /* pairs, before sorting */
	uint32_t *member_first, *member_comm, *member_calls; /* device -> its communicators */
};

const char *mq_task_describe(const struct mq_schedule *s, uint32_t task, struct mq_arena *arena)
{
	const struct mq_task *t = &s->task[task];
	const char *device = s->device_name[t->device];

	switch (t->kind) {
	case MQ_TASK_SEND:
		return mq_arena_printf(arena, "task %u (send to %s, on %s)", task, s->device_name[t->peer], device);
	case MQ_TASK_RECV:
		return mq_arena_printf(arena, "task %u (recv from %s, on %s)", task, s->device_name[t->peer], device);
	case MQ_TASK_COLLECTIVE:
		return mq_arena_printf(arena, "task %u (%s on communicator %u, on %s)", task, mq_coll_name(t->coll),
				       t->comm, device);
	default:
		return mq_arena_printf(arena, "task %u (%s, on %s)", task, mq_task_kind_name(t->kind), device);
	}
}

static enum mq_status fail_task(struct builder *b, uint32_t task, const char *what)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	return mq_bad(b->err, "schedule: %s %s", mq_task_describe(b->s, task, &scratch), what);
}

/* ---- communications -------------------------------------------------------------------------------- */

/* Numbers the sends (or recvs) of every channel, and counts them. */
static uint32_t *ordinals(struct builder *b, struct mq_map *map, enum mq_task_kind kind, uint32_t *pair_of,
			  uint32_t *n_pairs)
{
	const struct mq_schedule *s = b->s;
	uint32_t room = 0, *count = NULL;
	uint32_t used = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		if (t->kind != kind)
			continue;
		uint64_t from = kind == MQ_TASK_SEND ? t->device : t->peer;
		uint64_t to = kind == MQ_TASK_SEND ? t->peer : t->device;
		uint32_t pair = mq_map_add(map, from << 35 | to << 8 | t->channel);
		while (used <= pair)
			MQ_PUSH(b->arena, count, used, room, 0);
		pair_of[i] = pair;
		b->ev->call[i] = count[pair]++;
	}
	*n_pairs = used;
	return count;
}

static enum mq_status odd_channel(struct builder *b, const uint32_t *pair_of, uint32_t pair, bool send)
{
	for (uint32_t i = b->s->n_tasks; i-- > 0;)
		if (pair_of[i] == pair && (b->s->task[i].kind == MQ_TASK_SEND) == send)
			return fail_task(b, i, send ? "has no recv at the other end" : "has no send at the other end");
	return mq_fail(b->err, MQ_EBUG, "schedule: a channel without tasks");
}

static enum mq_status match_messages(struct builder *b)
{
	const struct mq_schedule *s = b->s;
	uint32_t *pair_of = mq_arena_none(b->arena, s->n_tasks);
	uint32_t n_sent, n_received;
	struct mq_map map;

	mq_map_init(&map, b->arena, 64);
	uint32_t *sent = ordinals(b, &map, MQ_TASK_SEND, pair_of, &n_sent);
	uint32_t *received = ordinals(b, &map, MQ_TASK_RECV, pair_of, &n_received);
	uint32_t *place = mq_arena_array(b->arena, map.n + 1, uint32_t);
	for (uint32_t p = 0; p < map.n; p++) {
		uint32_t out = p < n_sent ? sent[p] : 0, in = p < n_received ? received[p] : 0;
		if (out != in)
			return odd_channel(b, pair_of, p, out > in);
		place[p + 1] = place[p] + out;
	}
	uint32_t *at = mq_arena_array(b->arena, place[map.n], uint32_t);
	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].kind == MQ_TASK_SEND)
			at[place[pair_of[i]] + b->ev->call[i]] = i;
	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].kind == MQ_TASK_RECV) {
			uint32_t send = at[place[pair_of[i]] + b->ev->call[i]];
			if (s->task[send].bytes != s->task[i].bytes)
				return fail_task(b, i, "expects another size than its send has");
			b->ev->match[i] = send;
			b->ev->match[send] = i;
		}
	return MQ_OK;
}

/* Lists the communicators of each device (CSR). */
static void list_members(struct builder *b)
{
	const struct mq_schedule *s = b->s;
	struct member {
		uint32_t device, comm;
	} *member = mq_arena_array(b->arena, 1, struct member);
	uint32_t n = 0, room = 1;

	for (uint32_t c = 0; c < s->n_comms; c++)
		for (uint32_t i = 0; i < s->comm[c].n; i++)
			MQ_PUSH(b->arena, member, n, room, ((struct member){ s->comm[c].rank[i], c }));
	mq_csr_make(b->arena, s->n_devices, n, &member->device, &member->comm, sizeof(*member), &b->member_first,
		    &b->member_comm);
	b->member_calls = mq_arena_array(b->arena, n, uint32_t);
}

static bool same_call(const struct mq_task *a, const struct mq_task *b)
{
	return a->coll == b->coll && a->bytes == b->bytes && a->dtype == b->dtype && a->algo == b->algo &&
	       a->proto == b->proto && a->root == b->root;
}

/* Numbers the calls of each member, and chains the tasks of each call. */
static enum mq_status match_calls(struct builder *b, uint32_t *chain)
{
	const struct mq_schedule *s = b->s;
	uint32_t *most = mq_arena_array(b->arena, s->n_comms + 1, uint32_t);
	uint32_t *place = mq_arena_array(b->arena, s->n_comms + 1, uint32_t);

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		if (t->kind != MQ_TASK_COLLECTIVE)
			continue;
		uint32_t m = b->member_first[t->device], end = b->member_first[t->device + 1];
		while (m < end && b->member_comm[m] != t->comm)
			m++;
		if (m == end)
			return fail_task(b, i, "is not by a member of its communicator");
		b->ev->call[i] = b->member_calls[m]++;
		if (most[t->comm] < b->member_calls[m])
			most[t->comm] = b->member_calls[m];
	}
	for (uint32_t d = 0; d < s->n_devices; d++)
		for (uint32_t m = b->member_first[d]; m < b->member_first[d + 1]; m++)
			if (b->member_calls[m] != most[b->member_comm[m]])
				return mq_bad(b->err,
					      "schedule: %s calls communicator %u %u times, another member %u times",
					      s->device_name[d], b->member_comm[m], b->member_calls[m],
					      most[b->member_comm[m]]);
	for (uint32_t c = 0; c < s->n_comms; c++)
		place[c + 1] = place[c] + most[c];
	uint32_t *head = mq_arena_none(b->arena, place[s->n_comms]);
	for (uint32_t i = s->n_tasks; i-- > 0;) {
		const struct mq_task *t = &s->task[i];
		if (t->kind != MQ_TASK_COLLECTIVE)
			continue;
		uint32_t *h = &head[place[t->comm] + b->ev->call[i]];
		if (*h != MQ_NONE && !same_call(t, &s->task[*h]))
			return fail_task(b, *h, "differs from what another member calls");
		chain[i] = *h;
		*h = i;
	}
	return MQ_OK;
}

/* Numbers the events in order of their lowest tasks. */
static void number_events(struct builder *b)
{
	const struct mq_schedule *s = b->s;
	struct mq_events *ev = b->ev;

	memset(ev->of, 0xff, (size_t)s->n_tasks * sizeof(*ev->of));
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		if (ev->of[i] != MQ_NONE)
			continue;
		ev->first[ev->n] = i;
		if (ev->match[i] != MQ_NONE)
			ev->next[i] = ev->match[i]; /* the match is the higher task */
		for (uint32_t t = i; t != MQ_NONE; t = ev->next[t])
			ev->of[t] = ev->n;
		ev->n++;
	}
}

/* ---- edges ----------------------------------------------------------------------------------- */

static void edge(struct builder *b, uint32_t from, uint32_t to)
{
	b->src[b->n_edges] = from;
	b->dst[b->n_edges++] = to;
}

static enum mq_status emit(struct builder *b)
{
	const struct mq_schedule *s = b->s;
	struct mq_events *ev = b->ev;
	uint32_t n_queues = s->n_devices * MQ_N_STREAMS;
	uint32_t *last = mq_arena_none(b->arena, n_queues);
	uint32_t *together = mq_arena_array(b->arena, s->n_tasks, uint32_t);
	uint16_t *seen = mq_arena_array(b->arena, s->n_tasks, uint16_t); /* streams of a barrier */
	struct mq_map groups;

	mq_map_init(&groups, b->arena, 16);
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		uint32_t *queue = &last[t->device * MQ_N_STREAMS + t->stream];
		uint32_t before = *queue, target = ev->of[i];

		together[i] = MQ_NONE;
		if (t->group) {
			target = b->ev->n + mq_map_add(&groups, (uint64_t)t->device << 32 | t->group);
			edge(b, target, ev->of[i]);
		}
		if (t->group && before != MQ_NONE && s->task[before].group == t->group) {
			together[i] = before;
		} else {
			if (t->group && seen[target - ev->n] & 1u << t->stream)
				return fail_task(b, i, "comes back to a group that its stream has left");
			for (uint32_t p = before; p != MQ_NONE; p = together[p])
				edge(b, ev->of[p], target);
		}
		if (t->group)
			seen[target - ev->n] |= (uint16_t)(1u << t->stream);
		*queue = i;
		for (uint32_t d = 0; d < t->n_deps; d++)
			edge(b, ev->of[s->dep[t->dep_first + d]], target);
	}
	ev->n_barriers = groups.n;
	return MQ_OK;
}

/* The round of every event; a group's barrier has the round of its tasks. */
static uint32_t *rounds_of_events(const struct builder *b)
{
	uint32_t *round = mq_arena_array(b->arena, b->ev->n + b->ev->n_barriers, uint32_t);

	for (uint32_t t = 0; t < b->s->n_tasks; t++)
		round[b->ev->of[t]] = b->rounds->of[t];
	for (uint32_t e = 0; e < b->n_edges; e++)
		if (b->src[e] >= b->ev->n)
			round[b->src[e]] = round[b->dst[e]];
	return round;
}

/* One barrier per round that waits: after the events of the round before that none of it follows, and before the
 * round's own events that follow none of it. */
static void emit_rounds(struct builder *b)
{
	const struct mq_rounds *r = b->rounds;
	uint32_t n = b->ev->n + b->ev->n_barriers, inside = b->n_edges;
	uint32_t *round = rounds_of_events(b), *next = mq_arena_none(b->arena, r->n);
	bool *is_first = mq_arena_array(b->arena, n, bool), *is_last = mq_arena_array(b->arena, n, bool);

	memset(is_first, 1, n);
	memset(is_last, 1, n);
	for (uint32_t i = 0; i < r->n; i++)
		if (r->before[i] != MQ_NONE)
			next[r->before[i]] = i;
	for (uint32_t e = 0; e < inside; e++)
		if (round[b->src[e]] == round[b->dst[e]])
			is_last[b->src[e]] = is_first[b->dst[e]] = false;
	for (uint32_t e = 0; e < n; e++) {
		if (is_first[e] && r->before[round[e]] != MQ_NONE)
			edge(b, n + round[e], e);
		if (is_last[e] && next[round[e]] != MQ_NONE)
			edge(b, e, n + next[round[e]]);
	}
	b->ev->n_barriers += r->n;
}

static void sort_edges(struct builder *b)
{
	struct mq_events *ev = b->ev;

	ev->n_before = mq_arena_array(b->arena, ev->n, uint32_t);
	for (uint32_t e = 0; e < b->n_edges; e++)
		ev->n_before[b->dst[e]]++;
	mq_csr_make(b->arena, ev->n, b->n_edges, b->src, b->dst, sizeof(*b->src), &ev->after_first, &ev->after);
}

enum mq_status mq_events_build(const struct mq_schedule *s, const struct mq_rounds *rounds, struct mq_arena *arena,
			       struct mq_events *ev, struct mq_err *err)
{
	struct builder b = { .s = s, .rounds = rounds, .arena = arena, .ev = ev, .err = err };
	uint32_t n = s->n_tasks;

	memset(ev, 0, sizeof(*ev));
	ev->of = mq_arena_array(arena, n, uint32_t);
	ev->next = mq_arena_none(arena, n);
	ev->match = mq_arena_none(arena, n);
	ev->call = mq_arena_array(arena, n, uint32_t);
	uint32_t n_rounds = rounds ? rounds->n : 0;
	ev->first = mq_arena_array(arena, 2 * (size_t)n + n_rounds, uint32_t); /* barriers included */
	list_members(&b);
	MQ_TRY(match_messages(&b));
	MQ_TRY(match_calls(&b, ev->next));
	number_events(&b);
	size_t most = (n_rounds ? 6 : 2) * (size_t)n + s->n_deps; /* edges */
	b.src = mq_arena_array(arena, most, uint32_t);
	b.dst = mq_arena_array(arena, most, uint32_t);
	MQ_TRY(emit(&b));
	if (rounds)
		emit_rounds(&b);
	for (uint32_t i = 0; i < ev->n_barriers; i++)
		ev->first[ev->n++] = MQ_NONE;
	sort_edges(&b);
	return MQ_OK;
}

uint32_t mq_events_order(const struct mq_events *ev, struct mq_arena *scratch, uint32_t *order)
{
	uint32_t *missing = mq_arena_array(scratch, ev->n, uint32_t);
	uint32_t n = 0;

	if (ev->n)
		memcpy(missing, ev->n_before, (size_t)ev->n * sizeof(*missing));
	for (uint32_t e = 0; e < ev->n; e++)
		if (!missing[e])
			order[n++] = e;
	for (uint32_t done = 0; done < n; done++) {
		uint32_t e = order[done];
		for (uint32_t k = ev->after_first[e]; k < ev->after_first[e + 1]; k++)
			if (!--missing[ev->after[k]])
				order[n++] = ev->after[k];
	}
	return n;
}
