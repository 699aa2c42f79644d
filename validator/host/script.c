/*
 * script.c - a schedule as one rank sees it.
 */
#include <string.h>

#include "host/script.h"

static MPI_Comm find_comm(const struct host_comms *comms, const struct mq_comm *wanted)
{
	for (uint32_t i = 0; i < comms->n; i++)
		if (comms->entry[i].n == wanted->n &&
		    !memcmp(comms->entry[i].rank, wanted->rank, wanted->n * sizeof(uint32_t)))
			return comms->entry[i].comm;
	return MPI_COMM_NULL;
}

/* All members come here in the same order, since all ranks walk the same schedules. */
static MPI_Comm make_comm(struct host_rank *r, const struct mq_comm *wanted, int tag)
{
	struct host_comm entry = {.n = wanted->n, .rank = wanted->rank, .comm = MPI_COMM_NULL};
	int *members = mq_arena_array(r->arena, wanted->n, int);
	MPI_Group world, group;

	for (uint32_t i = 0; i < wanted->n; i++)
		members[i] = (int)wanted->rank[i];
	MPI_Comm_group(r->world, &world);
	MPI_Group_incl(world, (int)wanted->n, members, &group);
	MPI_Comm_create_group(r->world, group, tag, &entry.comm);
	MPI_Group_free(&group);
	MPI_Group_free(&world);
	MQ_PUSH(r->arena, r->comms.entry, r->comms.n, r->comms.room, entry);
	return entry.comm;
}

static void build_comms(struct host_rank *r, const struct mq_schedule *s,
                        struct host_script *script)
{
	script->comm = mq_arena_array(r->arena, s->n_comms, MPI_Comm);
	script->next_call = mq_arena_array(r->arena, s->n_comms, uint32_t);
	for (uint32_t c = 0; c < s->n_comms; c++) {
		bool member = false;

		for (uint32_t i = 0; i < s->comm[c].n; i++)
			member |= s->comm[c].rank[i] == r->rank;
		script->comm[c] = MPI_COMM_NULL;
		if (!member)
			continue;
		script->comm[c] = find_comm(&r->comms, &s->comm[c]);
		if (script->comm[c] == MPI_COMM_NULL)
			script->comm[c] = make_comm(r, &s->comm[c], (int)(c & 0x7fff));
	}
}

static enum mq_status check_task(const struct mq_schedule *s, const struct mq_task *t,
                                 struct mq_err *err)
{
	if (t->kind == MQ_TASK_COMPUTE)
		for (uint32_t i = 0; i < s->work[t->work].n_kernels; i++)
			MQ_TRY(host_kernel_check(&s->work[t->work].kernel[i], err));
	bool sums = t->kind == MQ_TASK_COLLECTIVE &&
	            (t->coll == MQ_COLL_ALL_REDUCE || t->coll == MQ_COLL_REDUCE_SCATTER ||
	             t->coll == MQ_COLL_REDUCE);
	if (sums && t->dtype != MQ_FP32 && t->dtype != MQ_TF32 && t->dtype != MQ_FP64)
		return mq_fail(err, MQ_EINPUT,
		               "executor host adds fp32 and fp64, task %u asks for %s: "
		               "lower it with --dtype fp32",
		               (uint32_t)(t - s->task), mq_dtype_name(t->dtype));
	return MQ_OK;
}

static void build_lanes(struct host_script *script, struct mq_arena *arena)
{
	const struct mq_schedule *s = script->schedule;
	uint32_t n[MQ_N_STREAMS] = {0};

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

enum mq_status host_script_build(struct host_rank *rank, const struct mq_schedule *schedule,
                                 struct host_script *script, struct mq_err *err)
{
	script->schedule = schedule;
	script->device = rank->rank;
	script->done = mq_arena_array(rank->arena, schedule->n_tasks, uint8_t);
	script->left = mq_arena_array(rank->arena, schedule->n_tasks, uint16_t);
	for (uint32_t i = 0; i < schedule->n_tasks; i++)
		MQ_TRY(check_task(schedule, &schedule->task[i], err));
	MQ_TRY(mq_schedule_match(schedule, rank->arena, &script->match, &script->call, err));
	build_lanes(script, rank->arena);
	build_comms(rank, schedule, script);
	return MQ_OK;
}
