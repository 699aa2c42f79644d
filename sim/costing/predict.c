/* predict.c - see predict.h. SPDX-License-Identifier: Apache-2.0 */
#include "costing/predict.h"

#include <math.h>

#include "maquette/cost.h"

/* Memory traffic of the member that receives most. With NCCL's primitives between processes, the peer writes a received
 * byte into a buffer here; it is read from there and, with or without the sum with a byte of the input, written to the
 * output or to the next peer's buffer: three accesses per byte. All-to-alls also read each byte that they send. */
double mq_predict_memory_Bps(const struct mq_task *t, const struct mq_flow *flow, uint32_t n_flows, uint32_t n,
			     double seconds)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	double *in = mq_arena_array(&scratch, n, double), most = 0;

	if (t->kind == MQ_TASK_COLLECTIVE)
		for (uint32_t i = 0; i < n_flows; i++)
			in[flow[i].dst] += flow[i].bytes;
	for (uint32_t i = 0; i < n; i++)
		most = fmax(most, in[i]);
	return seconds > 0 ? most * (t->coll == MQ_COLL_ALL_TO_ALL ? 4 : 3) / seconds : 0;
}

struct mq_communication_key mq_communication_key(const struct mq_task *t)
{
	if (t->kind == MQ_TASK_COLLECTIVE)
		return (struct mq_communication_key){
			t->bytes, { t->comm, MQ_NONE }, t->coll, t->dtype, t->algo, t->proto, t->root
		};
	if (t->kind == MQ_TASK_SEND)
		return (struct mq_communication_key){ .bytes = t->bytes, .ends = { t->device, t->peer } };
	return (struct mq_communication_key){ .bytes = t->bytes, .ends = { t->peer, t->device } };
}

struct mq_members mq_predict_members(const struct mq_schedule *s, uint32_t comm, struct mq_arena *arena)
{
	const struct mq_comm *c = &s->comm[comm];
	uint32_t *rank = mq_arena_array(arena, c->n, uint32_t);

	for (uint32_t i = 0; i < c->n; i++)
		rank[i] = s->device[c->rank[i]];
	return (struct mq_members){ c->n, rank };
}

static enum mq_status collective(const struct mq_predictor *p, const struct mq_task *t,
				 const struct mq_members *members, struct mq_communication *m, struct mq_err *err)
{
	struct mq_coll_request ask = mq_coll_request_of(t, members->n, members->rank);
	struct mq_coll_flows flows;

	MQ_TRY(mq_collective_expand(p->cluster, p->calib, &ask, p->arena, &flows, err));
	m->n = ask.n;
	m->rank = ask.rank;
	m->latency_s = flows.latency_s;
	m->alone_s = flows.alone_s;
	m->n_flows = flows.n_flows;
	m->flow = flows.flow;
	m->channels = flows.channels;
	m->memory_Bps = mq_predict_memory_Bps(t, flows.flow, flows.n_flows, ask.n, flows.alone_s);
	return MQ_OK;
}

static enum mq_status message(const struct mq_predictor *p, const struct mq_schedule *s, const struct mq_task *t,
			      struct mq_communication *m, struct mq_err *err)
{
	bool send = t->kind == MQ_TASK_SEND;
	uint32_t *rank = mq_arena_array(p->arena, 2, uint32_t);
	struct mq_flow *flow = mq_arena_array(p->arena, 1, struct mq_flow);

	rank[0] = s->device[send ? t->device : t->peer];
	rank[1] = s->device[send ? t->peer : t->device];
	*flow = (struct mq_flow){ .src = 0, .dst = 1, .bytes = t->bytes };
	m->n = 2;
	m->rank = rank;
	m->flow = flow;
	m->n_flows = t->bytes > 0 && rank[0] != rank[1];
	return mq_p2p_expand(p->cluster, p->calib, rank[0], rank[1], t->bytes, &m->latency_s, &flow->rate_Bps,
			     &m->alone_s, err);
}

enum mq_status mq_predict_communication(const struct mq_predictor *p, const struct mq_schedule *s,
					const struct mq_task *t, const struct mq_members *members,
					struct mq_communication *m, struct mq_err *err)
{
	*m = (struct mq_communication){ .task = t, .bound_s = NAN };
	return t->kind == MQ_TASK_COLLECTIVE ? collective(p, t, members, m, err) : message(p, s, t, m, err);
}

struct mq_device_calib mq_predict_device(const struct mq_cluster *cluster, const struct mq_calib *calib,
					 const struct mq_schedule *s, uint32_t device)
{
	struct mq_device_calib d = calib->device[cluster->device[s->device[device]].calib];

	d.clock = s->clock ? s->clock[device] : 1;
	return d;
}

enum mq_status mq_predict_task(const struct mq_predictor *p, const struct mq_schedule *s, uint32_t task,
			       double *seconds, struct mq_err *err)
{
	const struct mq_task *t = &s->task[task];
	const struct mq_device_calib d = mq_predict_device(p->cluster, p->calib, s, t->device);
	struct mq_arena_mark mark = mq_arena_mark(p->arena);
	struct mq_members members = { 0 };
	enum mq_status status = MQ_OK;
	struct mq_communication m;

	switch ((enum mq_task_kind)t->kind) {
	case MQ_TASK_COMPUTE:
		*seconds = mq_cost_work(&d, &s->work[t->work]);
		break;
	case MQ_TASK_COPY:
		*seconds = mq_cost_copy(&d, t->bytes);
		break;
	case MQ_TASK_COLLECTIVE:
		members = mq_predict_members(s, t->comm, p->arena); /* fall through */
	case MQ_TASK_SEND:
	case MQ_TASK_RECV:
		status = mq_predict_communication(p, s, t, &members, &m, err);
		*seconds = m.alone_s;
		break;
	case MQ_N_TASK_KINDS:
		mq_assert(!"a task kind that exists");
	}
	mq_arena_rewind(p->arena, mark);
	return status;
}
