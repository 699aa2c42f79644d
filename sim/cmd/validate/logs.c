/* logs.c - logs of nccl-tests as observations: see traces.h. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/stat.h>

#include "cmd/validate/traces.h"

bool mq_logs_probe(const char *path)
{
	struct stat st;

	return !stat(path, &st) && !S_ISDIR(st.st_mode);
}

/* A class of links is measured with one group of ranks: those of one node tell of the links inside it, those of several
 * of the links between nodes. */
static enum mq_status group_of(struct mq_logs *logs, const char *path, const struct mq_nccl_row *row,
			       struct mq_log_group **group, struct mq_err *err)
{
	struct mq_log_group *g = &logs->group[row->nodes > 1 ? MQ_LOG_BETWEEN : MQ_LOG_WITHIN];

	if (g->n && (g->ranks != row->ranks || g->nodes != row->nodes))
		return mq_fail(err, MQ_EINPUT,
			       "%s:%u: %u ranks on %u nodes, those before are %u on %u: each "
			       "group is a link class of its own: fit them apart, with --link-class",
			       path, row->line, row->ranks, row->nodes, g->ranks, g->nodes);
	g->ranks = row->ranks;
	g->nodes = row->nodes;
	*group = g;
	return MQ_OK;
}

/* A communicator of all the group's ranks, and a task for each row. */
static struct mq_schedule *schedule_of(uint32_t ranks, const struct mq_nccl_row *row, uint32_t n,
				       struct mq_arena *arena)
{
	struct mq_schedule *s = mq_arena_array(arena, 1, struct mq_schedule);

	s->model = "nccl-tests";
	s->n_devices = ranks;
	s->n_comms = 1;
	s->comm = mq_arena_array(arena, 1, struct mq_comm);
	s->comm[0] = (struct mq_comm){ .n = ranks, .purpose = "log" };
	s->task = mq_arena_array(arena, n, struct mq_task);
	s->n_tasks = n;
	for (uint32_t i = 0; i < n; i++)
		s->task[i] = (struct mq_task){ .bytes = row[i].bytes,
					       .coll = (uint8_t)row[i].kind,
					       .kind = row[i].sendrecv ? MQ_TASK_SEND : MQ_TASK_COLLECTIVE };
	return s;
}

enum mq_status mq_logs_add(struct mq_logs *logs, const char *path, struct mq_arena *arena, struct mq_err *err)
{
	struct mq_schedule *schedule[MQ_N_LOG_GROUPS] = { NULL };
	struct mq_log_group *group = NULL;
	struct mq_nccl_row *row;
	uint32_t n;

	MQ_TRY(mq_nccl_log_load(path, arena, &row, &n, err));
	for (uint32_t i = 0; i < n; i++) {
		MQ_TRY(group_of(logs, path, &row[i], &group, err));
		struct mq_schedule **s = &schedule[group - logs->group];
		if (!*s)
			*s = schedule_of(group->ranks, row, n, arena);
		struct mq_observed o = { .schedule = *s,
					 .task = i,
					 .time = { row[i].seconds, row[i].seconds, row[i].seconds, 1 } };
		MQ_PUSH(arena, group->observed, group->n, group->room, o);
	}
	return MQ_OK;
}

enum mq_status mq_logs_name(struct mq_logs *logs, const char *names, struct mq_arena *arena, struct mq_err *err)
{
	struct mq_log_group *within = &logs->group[MQ_LOG_WITHIN], *between = &logs->group[MQ_LOG_BETWEEN];
	const char *comma = names ? strchr(names, ',') : NULL;

	if (between->n && !names)
		return mq_fail(
			err, MQ_EINPUT,
			"these logs are of %u nodes: name the class of the links between them with --link-class%s",
			between->nodes, within->n ? " WITHIN,BETWEEN (inside a node, between nodes)" : "");
	if (within->n && between->n && (!comma || strchr(comma + 1, ',') || comma == names || !comma[1]))
		return mq_fail(
			err, MQ_EINPUT,
			"--link-class %s: these logs are of one node and of %u: name both classes, WITHIN,BETWEEN",
			names, between->nodes);
	if (comma && (within->n || between->n) && !(within->n && between->n))
		return mq_fail(err, MQ_EINPUT, "--link-class %s: what is measured is of one class: give one name",
			       names);
	within->link_class = comma ? mq_arena_printf(arena, "%.*s", (int)(comma - names), names) : names;
	between->link_class = comma ? comma + 1 : names;
	logs->first = within->n ? within : between->n ? between : NULL;
	logs->second = within->n && between->n ? between : NULL;
	return MQ_OK;
}
