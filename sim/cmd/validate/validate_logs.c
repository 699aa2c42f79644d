/*
 * validate_logs.c - logs of nccl-tests as observations: see validate_traces.h.
 */
#include "cmd/validate/validate_traces.h"

/* A link class is of one group of ranks. */
static enum mq_status check_rows(const struct mq_logs *logs, const char *path, const char *link_class,
                                 const struct mq_nccl_row *row, uint32_t n, struct mq_err *err)
{
	uint32_t ranks = logs->n ? logs->ranks : row[0].ranks, nodes = logs->n ? logs->nodes : row[0].nodes;

	for (uint32_t i = 0; i < n; i++)
		if (row[i].ranks != ranks || row[i].nodes != nodes)
			return mq_fail(err, MQ_EINPUT,
			               "%s:%u: %u ranks on %u nodes, those before are %u on %u: each "
			               "group is a link class of its own: fit them apart, with --link-class",
			               path, row[i].line, row[i].ranks, row[i].nodes, ranks, nodes);
	if (nodes > 1 && !link_class)
		return mq_fail(err, MQ_EINPUT,
		               "%s is of %u nodes: name the class of the links between them with --link-class",
		               path, nodes);
	return MQ_OK;
}

enum mq_status mq_logs_add(struct mq_logs *logs, const char *path, const char *link_class,
                           struct mq_arena *arena, struct mq_err *err)
{
	struct mq_nccl_row *row;
	uint32_t n;

	MQ_TRY(mq_nccl_log_load(path, arena, &row, &n, err));
	MQ_TRY(check_rows(logs, path, link_class, row, n, err));
	logs->ranks = row[0].ranks;
	logs->nodes = row[0].nodes;
	/* A communicator of all its ranks. */
	struct mq_schedule *s = mq_arena_array(arena, 1, struct mq_schedule);
	s->model = "nccl-tests";
	s->n_devices = logs->ranks;
	s->n_comms = 1;
	s->comm = mq_arena_array(arena, 1, struct mq_comm);
	s->comm[0] = (struct mq_comm){.n = logs->ranks, .purpose = "log"};
	s->task = mq_arena_array(arena, n, struct mq_task);
	s->n_tasks = n;
	for (uint32_t i = 0; i < n; i++) {
		struct mq_observed o = {.schedule = s,
		                        .task = i,
		                        .time = {row[i].seconds, row[i].seconds, row[i].seconds, 1}};

		s->task[i] = (struct mq_task){.bytes = row[i].bytes,
		                              .coll = (uint8_t)row[i].kind,
		                              .kind = row[i].sendrecv ? MQ_TASK_SEND : MQ_TASK_COLLECTIVE};
		MQ_PUSH(arena, logs->observed, logs->n, logs->room, o);
	}
	return MQ_OK;
}
