/* wire.c - transport of the host executor over maquette-replay's wire, in runs with other executors or without MPI. See
 * host.h. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/host.h"
#include "maquette/wire.h"

enum { MAX_FLIGHTS = 256, POLLS_PER_CHECK = 1024 };

struct flight {
	uint32_t id;
	bool collective;
	struct mq_transfer transfer;
	struct mq_wire_coll coll;
	void *data;
	struct flight *next;
};

struct talk {
	struct mq_wire *wire;
	const struct mq_ranks *ranks;
	const struct mq_replay_session *session;
	struct flight flight[MAX_FLIGHTS];
	struct flight *under_way, *idle; /* lists */
	uint32_t polls;
};

static enum mq_status open_wire(void *state, const struct mq_replay_session *session, struct mq_err *err)
{
	struct talk *t = state;

	t->session = session;
	t->wire = session->wire; /* NULL: a single rank */
	t->ranks = session->ranks;
	for (int i = MAX_FLIGHTS - 1; i >= 0; i--) {
		t->flight[i].next = t->idle;
		t->idle = &t->flight[i];
	}
	return MQ_OK;
}

static void place(void *state, uint32_t *local, uint32_t *locals, bool *apart)
{
	const struct talk *t = state;
	cpu_set_t set;

	*local = t->session->options->local;
	*locals = t->session->n_own;
	/* Another launcher bound this rank to its own cores. */
	*apart = !getenv("MAQUETTE_LAUNCHED") && !sched_getaffinity(0, sizeof(set), &set) &&
		 CPU_COUNT(&set) < sysconf(_SC_NPROCESSORS_ONLN);
}

static size_t room(const struct mq_schedule *s, const struct mq_task *t)
{
	uint32_t n = s->comm[t->comm].n;

	return n * mq_wire_coll_part_B((enum mq_dtype)t->dtype, t->bytes, n);
}

static bool can_post(void *state, const struct mq_task *task)
{
	return ((struct talk *)state)->idle != NULL;
}

static void post(void *state, const struct host_call *call)
{
	struct talk *t = state;
	struct flight *f = t->idle;
	const struct mq_schedule *s = call->script->schedule;
	const struct mq_task *task = &s->task[call->id];

	t->idle = f->next;
	f->next = t->under_way;
	t->under_way = f;
	f->id = call->id;
	f->collective = task->kind == MQ_TASK_COLLECTIVE;
	if (f->collective) {
		f->coll = mq_wire_coll_of(s, task, t->ranks->rank, call->script->call[call->id]);
		f->coll.in = call->in;
		f->coll.out = call->out;
		return;
	}
	bool send = task->kind == MQ_TASK_SEND;
	/* A send only reads it. */
	f->data = send ? (void *)(uintptr_t)call->in : call->out;
	f->transfer = (struct mq_transfer){ .peer = task->peer,
					    .send = send,
					    .tag = send ? call->id : call->script->match[call->id],
					    .bytes = (size_t)llround(task->bytes) };
	mq_wire_post(t->wire, &f->transfer);
}

static enum mq_status poll(void *state, void (*ended)(void *context, uint32_t id), void *context, struct mq_err *err)
{
	struct talk *t = state;

	for (struct flight **at = &t->under_way; *at;) {
		struct flight *f = *at;

		if (!f->collective)
			mq_wire_move(t->wire, &f->transfer, f->data);
		if (f->collective ? !mq_wire_coll_run(t->wire, &f->coll) : !f->transfer.done) {
			at = &f->next;
			continue;
		}
		*at = f->next;
		f->next = t->idle;
		t->idle = f;
		ended(context, f->id);
	}
	if (t->under_way && ++t->polls % POLLS_PER_CHECK == 0)
		return t->ranks->alive(t->ranks->state, err);
	return MQ_OK;
}

static uint32_t under_way(void *state)
{
	const struct talk *t = state;

	return t->under_way ? t->under_way->id : MQ_NONE;
}

static void describe(char *text, size_t size)
{
	snprintf(text, size, "messages=shared memory of maquette-replay\n");
}

const struct host_talk host_talk_wire = { .state_size = sizeof(struct talk),
					  .open = open_wire,
					  .place = place,
					  .room = room,
					  .can_post = can_post,
					  .post = post,
					  .poll = poll,
					  .under_way = under_way,
					  .describe = describe };
