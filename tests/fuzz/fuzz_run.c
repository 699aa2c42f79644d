/*
 * fuzz_run.c - schedules executed: what passes the checks of maquette-replay is run by the host executor, device
 * by device, with its kernels, pools and lanes; only the messages are made up, they arrive at once. A schedule
 * that is free of deadlock comes to its end.
 * corpus: schedule
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <math.h>

#include "host/host.h"

enum { MOST_TASKS = 2000, MOST_CALLS = 256, MOST_ROOM_B = 1 << 24, LEAST_ROOM_B = 1 << 20 };
static const double most_flop = 1e7, most_B = 1e7, most_s = 1e-5;

/* ---- messages that arrive at once ------------------------------------------------------------------- */

struct mailbox {
	uint32_t n, id[MOST_CALLS];
};

static bool can_post(void *state, const struct mq_task *task)
{
	return ((struct mailbox *)state)->n < MOST_CALLS;
}

/* Buffers are touched as a transport touches them: all of what the executor says a task needs. */
static void post(void *state, const struct host_call *call)
{
	struct mailbox *m = state;
	const struct mq_schedule *s = call->script->schedule;
	const struct mq_task *t = &s->task[call->id];
	size_t bytes = t->kind == MQ_TASK_COLLECTIVE ? host_talk_wire.room(s, t) : (size_t)llround(t->bytes);

	if (call->in && call->out)
		memcpy(call->out, call->in, bytes);
	else if (call->out)
		memset(call->out, 0, bytes);
	m->id[m->n++] = call->id;
}

static enum mq_status poll(void *state, void (*ended)(void *context, uint32_t id), void *context, struct mq_err *err)
{
	struct mailbox *m = state;

	while (m->n)
		ended(context, m->id[--m->n]);
	return MQ_OK;
}

static uint32_t under_way(void *state)
{
	const struct mailbox *m = state;

	return m->n ? m->id[0] : MQ_NONE;
}

static enum mq_status prepare(void *state, struct host_script *script, struct mq_err *err)
{
	return MQ_OK;
}

/* A clock that goes on with every look, so that waiting for nothing ends soon and always alike. */
static double now(void *state)
{
	return *(double *)state += 1e-3;
}

/* ---- one device ------------------------------------------------------------------------------------- */

static bool is_small(const struct mq_schedule *s)
{
	if (s->n_tasks > MOST_TASKS || s->n_devices > 64)
		return false;
	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].bytes > most_B)
			return false;
	for (uint32_t w = 0; w < s->n_works; w++)
		for (uint32_t k = 0; k < s->work[w].n_kernels; k++) {
			const struct mq_kernel *x = &s->work[w].kernel[k];
			double size = fmax(1, x->m) * fmax(1, x->n) * fmax(1, x->k) * fmax(1, x->count);

			if (size > most_flop || x->flop > most_flop || x->bytes > most_B || x->time_s > most_s)
				return false;
		}
	return true;
}

static void run_device(struct host_rank *rank, const struct mq_schedule *s)
{
	struct host_script script = { 0 };
	struct mq_replay_sample sample = { 0 };
	struct mq_err err = MQ_ERR_INIT;
	enum mq_status status = host_script_build(rank, s, &script, &err);

	fuzz_refused(status, &err);
	if (status != MQ_OK)
		return;
	sample.start_s = mq_arena_array(rank->arena, s->n_tasks, double);
	sample.finish_s = mq_arena_array(rank->arena, s->n_tasks, double);
	sample.switches = mq_arena_array(rank->arena, s->n_tasks, double);
	sample.lost_s = mq_arena_array(rank->arena, s->n_tasks, double);
	status = host_script_run(rank, &script, 0, &sample, &err);
	if (status != MQ_OK)
		mq_bug(err.text, __FILE__, __LINE__);
}

static void run_all(struct mq_schedule *s, struct mq_arena *arena)
{
	struct host_talk talk = host_talk_wire;
	struct mailbox mailbox = { 0 };
	static const struct mq_replay_executor nobody;
	const struct mq_replay_executor **owner =
		mq_arena_array(arena, s->n_devices, const struct mq_replay_executor *);
	double clock = 0;
	struct mq_ranks ranks = { .size = s->n_devices, .state = &clock, .now = now };
	struct mq_replay_session session = { .n_schedules = 1,
					     .schedule = &s,
					     .n_devices = s->n_devices,
					     .n_own = s->n_devices,
					     .owner = owner,
					     .ranks = &ranks,
					     .arena = arena };
	struct host_rank rank = { .deadline_s = 1e6,
				  .session = &session,
				  .ranks = &ranks,
				  .talk = &talk,
				  .talk_state = &mailbox,
				  .arena = arena };
	struct mq_err err = MQ_ERR_INIT;
	size_t room = mq_replay_room(&session, host_kernel_need, true, LEAST_ROOM_B);

	if (room > MOST_ROOM_B)
		return;
	talk.can_post = can_post;
	talk.post = post;
	talk.poll = poll;
	talk.under_way = under_way;
	talk.prepare = prepare;
	for (uint32_t i = 0; i < s->n_devices; i++)
		owner[i] = &nobody;
	mq_assert(host_pool_init(&rank.pool, room, 1, &err) == MQ_OK);
	for (ranks.rank = 0; ranks.rank < s->n_devices; ranks.rank++)
		run_device(&rank, s);
	host_pool_fini(&rank.pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_schedule *schedule;
	struct mq_err err = MQ_ERR_INIT;
	bool deadlock = false;

	if (mq_schedule_load(fuzz_file(data, size, ".jsonl"), &arena, &schedule, &err) == MQ_OK &&
	    mq_schedule_check(schedule, &deadlock, &err) == MQ_OK && is_small(schedule))
		run_all(schedule, &arena);
	mq_arena_fini(&arena);
	return 0;
}
