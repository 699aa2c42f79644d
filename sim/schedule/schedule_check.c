/* schedule_check.c - checks a schedule's invariants. See schedule.h.
 *
 * A topological order of the events (Kahn, 1962), with stream order, dependencies, groups and communications as edges,
 * exists exactly if no executor that keeps this order can deadlock. SPDX-License-Identifier: Apache-2.0 */

#include "schedule/events.h"

static enum mq_status bad(struct mq_err *err, uint32_t task, const char *field, double value, const char *remedy)
{
	return mq_bad(err, "schedule: task %u: %s %.17g: %s", task, field, value, remedy);
}

static enum mq_status check_communication(const struct mq_schedule *s, uint32_t id, struct mq_err *err)
{
	const struct mq_task *t = &s->task[id];

	if (t->kind == MQ_TASK_COLLECTIVE) {
		if (t->comm >= s->n_comms)
			return bad(err, id, "comm", t->comm, "no such communicator");
		if (t->coll >= MQ_N_COLL_KINDS || t->algo >= MQ_N_ALGOS || t->proto >= MQ_N_PROTOS ||
		    t->dtype >= MQ_N_DTYPES)
			return bad(err, id, "coll", t->coll, "collective, algorithm, protocol or dtype out of range");
		bool rooted = t->coll == MQ_COLL_BROADCAST || t->coll == MQ_COLL_REDUCE;
		if (rooted && !s->partial && t->root >= s->comm[t->comm].n)
			return bad(err, id, "root", t->root, "must be below the communicator's size");
	} else if (t->kind == MQ_TASK_SEND || t->kind == MQ_TASK_RECV) {
		if (t->peer >= s->n_devices)
			return bad(err, id, "peer", t->peer, "no such device");
		if (t->peer == t->device)
			return bad(err, id, "peer", t->peer, "a device cannot send to itself");
	}
	return MQ_OK;
}

static enum mq_status check_task(const struct mq_schedule *s, uint32_t id, struct mq_err *err)
{
	const struct mq_task *t = &s->task[id];

	if (t->device >= s->n_devices)
		return bad(err, id, "device", t->device, "no such device in the header");
	if (t->kind >= MQ_N_TASK_KINDS)
		return bad(err, id, "kind", t->kind, "no such kind of task");
	if (t->stream >= MQ_N_STREAMS)
		return bad(err, id, "stream", t->stream, "no such stream");
	if (!(t->bytes >= 0 && t->bytes <= 1e300))
		return bad(err, id, "bytes", t->bytes, "must be finite and not negative");
	if (t->kind == MQ_TASK_COMPUTE && t->work >= s->n_works)
		return bad(err, id, "work", t->work, "no such work");
	if (t->op != MQ_NONE && t->op >= s->n_ops)
		return bad(err, id, "op", t->op, "no such op in the header");
	if ((uint64_t)t->dep_first + t->n_deps > s->n_deps)
		return bad(err, id, "deps", t->n_deps, "beyond the list of dependencies");
	for (uint32_t d = 0; d < t->n_deps; d++) {
		uint32_t dep = s->dep[t->dep_first + d];
		if (dep >= s->n_tasks || s->task[dep].device != t->device)
			return bad(err, id, "dependency", dep, "must be a task of the same device");
		if (dep == id)
			return bad(err, id, "dependency", dep, "a task cannot wait for itself");
	}
	return check_communication(s, id, err);
}

static enum mq_status check_comms(const struct mq_schedule *s, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	uint32_t *seen = mq_arena_array(&scratch, s->n_devices, uint32_t);

	for (uint32_t c = 0; c < s->n_comms; c++)
		for (uint32_t i = 0; i < s->comm[c].n; i++) {
			uint32_t d = s->comm[c].rank[i];
			if (d >= s->n_devices)
				return mq_bad(err, "schedule: communicator %u: rank %u: no such device in the header",
					      c, d);
			if (seen[d] == c + 1)
				return mq_bad(err, "schedule: communicator %u: rank %u is listed twice", c, d);
			seen[d] = c + 1;
		}
	return MQ_OK;
}

/* Words a cycle: from an event without place in the order, follows one that it waits for, until an event repeats. */
static enum mq_status name_cycle(const struct mq_schedule *s, const struct mq_events *ev, const bool *placed,
				 struct mq_arena *a, struct mq_err *err)
{
	uint32_t *before = mq_arena_array(a, ev->n, uint32_t);
	uint32_t *step = mq_arena_array(a, ev->n, uint32_t);
	uint32_t at = MQ_NONE, length = 0;

	for (uint32_t e = 0; e < ev->n; e++)
		for (uint32_t k = ev->after_first[e]; !placed[e] && k < ev->after_first[e + 1]; k++)
			before[ev->after[k]] = at = e;
	mq_assert(at != MQ_NONE);
	for (; !step[at]; at = before[at])
		step[at] = ++length;
	uint32_t first = at, n = 0;
	const char *text = "";
	do {
		if (ev->first[at] != MQ_NONE && n++ < 3)
			text = mq_arena_printf(a, "%s%s%s", text, *text ? ", which waits for " : "",
					       mq_task_describe(s, ev->first[at], a));
		at = before[at];
	} while (at != first);
	return mq_bad(err, "schedule: deadlock: %s%s waits for itself%s", text, n > 3 ? ", ... ," : "",
		      n > 1 ? " in the end" : "");
}

enum mq_status mq_schedule_check(const struct mq_schedule *s, bool *deadlock, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_events ev;

	if (deadlock)
		*deadlock = false;
	if (!s->n_devices)
		return mq_bad(err, "schedule: no devices");
	MQ_TRY(check_comms(s, err));
	for (uint32_t i = 0; i < s->n_tasks; i++)
		MQ_TRY(check_task(s, i, err));
	MQ_TRY(mq_events_build(s, NULL, &scratch, &ev, err));
	uint32_t *order = mq_arena_array(&scratch, ev.n, uint32_t);
	uint32_t n = mq_events_order(&ev, &scratch, order);
	if (n == ev.n)
		return MQ_OK;
	if (deadlock)
		*deadlock = true;
	bool *placed = mq_arena_array(&scratch, ev.n, bool);
	for (uint32_t i = 0; i < n; i++)
		placed[order[i]] = true;
	return name_cycle(s, &ev, placed, &scratch, err);
}

enum mq_status mq_schedule_match(const struct mq_schedule *s, struct mq_arena *arena, uint32_t **match, uint32_t **call,
				 struct mq_err *err)
{
	struct mq_events ev;

	MQ_TRY(mq_events_build(s, NULL, arena, &ev, err));
	*match = ev.match;
	*call = ev.call;
	return MQ_OK;
}
