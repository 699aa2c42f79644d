/* script.c - a schedule as one rank sees it. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "host/script.h"

static enum mq_status check_task(const struct mq_schedule *s, const struct mq_task *t, struct mq_err *err)
{
	if (t->kind == MQ_TASK_COMPUTE)
		for (uint32_t i = 0; i < s->work[t->work].n_kernels; i++)
			MQ_TRY(host_kernel_check(&s->work[t->work].kernel[i], err));
	if (t->kind == MQ_TASK_COLLECTIVE && mq_coll_adds(t->coll) && t->dtype != MQ_FP32 && t->dtype != MQ_TF32 &&
	    t->dtype != MQ_FP64)
		return mq_fail(err, MQ_EINPUT,
			       "executor host adds fp32 and fp64, task %u asks for %s: lower it with --dtype fp32",
			       (uint32_t)(t - s->task), mq_dtype_name(t->dtype));
	return MQ_OK;
}

static void build_lanes(struct host_script *script, struct mq_arena *arena)
{
	const struct mq_schedule *s = script->schedule;
	uint32_t n[MQ_N_STREAMS] = { 0 };

	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].device == script->device)
			n[s->task[i].stream]++;
	for (int l = 0; l < MQ_N_STREAMS; l++)
		script->lane[l].task = mq_arena_array(arena, n[l], uint32_t);
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		struct host_lane *lane = &script->lane[s->task[i].stream];

		if (s->task[i].device != script->device)
			continue;
		lane->task[lane->n++] = i;
		script->n_local++;
	}
}

enum mq_status host_script_build(struct host_rank *rank, const struct mq_schedule *schedule, struct host_script *script,
				 struct mq_err *err)
{
	script->schedule = schedule;
	script->device = rank->ranks->rank;
	script->done = mq_arena_array(rank->arena, schedule->n_tasks, uint8_t);
	script->next_call = mq_arena_array(rank->arena, schedule->n_comms, uint32_t);
	for (uint32_t i = 0; i < schedule->n_tasks; i++)
		if (mq_replay_own(rank->session, script->device, 1, &schedule->task[i].device))
			MQ_TRY(check_task(schedule, &schedule->task[i], err));
	MQ_TRY(mq_schedule_match(schedule, rank->arena, &script->match, &script->call, err));
	build_lanes(script, rank->arena);
	return rank->talk->prepare(rank->talk_state, script, err);
}
