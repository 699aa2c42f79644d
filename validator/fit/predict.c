/*
 * predict.c - what the model says one call takes, alone on an idle machine: the same cost functions
 * that the simulator uses.
 */
#include "core/collective/collective.h"
#include "core/cost.h"
#include "fit/fit.h"

static enum mq_status predict_collective(const struct mq_predictor *p, const struct mq_schedule *s,
					 const struct mq_task *t, double *seconds, struct mq_err *err)
{
	const struct mq_comm *comm = &s->comm[t->comm];
	uint32_t *rank = mq_arena_array(p->scratch, comm->n, uint32_t);
	struct mq_coll_flows flows;

	for (uint32_t i = 0; i < comm->n; i++)
		rank[i] = s->device[comm->rank[i]];
	struct mq_coll_request request = mq_coll_request_of(t, comm->n, rank);

	MQ_TRY(mq_collective_expand(p->cluster, p->calib, &request, p->scratch, &flows, err));
	*seconds = flows.alone_s;
	return MQ_OK;
}

enum mq_status mq_predict_task(const struct mq_predictor *p, const struct mq_schedule *schedule, uint32_t task,
			       double *seconds, struct mq_err *err)
{
	const struct mq_task *t = &schedule->task[task];
	const struct mq_device *device = &p->cluster->device[schedule->device[t->device]];
	const struct mq_device_calib *calib = &p->calib->device[device->calib];
	struct mq_arena_mark mark = mq_arena_mark(p->scratch);
	double latency, rate;
	enum mq_status status = MQ_OK;

	switch ((enum mq_task_kind)t->kind) {
	case MQ_TASK_COMPUTE:
		*seconds = mq_cost_work(calib, &schedule->work[t->work]);
		break;
	case MQ_TASK_COPY:
		*seconds = mq_cost_copy(calib, t->bytes);
		break;
	case MQ_TASK_SEND:
	case MQ_TASK_RECV:
		status = mq_p2p_expand(p->cluster, p->calib, schedule->device[t->device], schedule->device[t->peer],
				       t->bytes, &latency, &rate, seconds, err);
		break;
	case MQ_TASK_COLLECTIVE:
		status = predict_collective(p, schedule, t, seconds, err);
		break;
	case MQ_N_TASK_KINDS:
		mq_assert(!"a task kind that exists");
	}
	mq_arena_rewind(p->scratch, mark);
	return status;
}
