/* analytic.c - times a schedule in one pass: a screen for search loops, and a lower bound of the simulation.
 *
 * Longest path through the event graph (see schedule/events.h). A collective lasts its latency plus the bound of its
 * own flows (slowest flow, most loaded link). Not modelled: flows of different communications sharing a link, compute
 * and communication slowing each other, the order in which a host issues work. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "folding/view_costing.h"
#include "executors/execute.h"
#include "executors/walk.h"

static enum mq_status duration(struct mq_costing *c, const struct mq_task *t, double *seconds, struct mq_err *err)
{
	uint32_t index;

	if (t->kind == MQ_TASK_COMPUTE || t->kind == MQ_TASK_COPY) {
		*seconds = mq_costing_task(c, t);
		return MQ_OK;
	}
	MQ_TRY(mq_costing_communication(c, t, &index, err));
	if (isnan(c->communication[index].bound_s))
		MQ_TRY(mq_costing_bound(c, index, err));
	*seconds = c->communication[index].bound_s;
	return MQ_OK;
}

enum mq_status mq_execute_analytic(const struct mq_exec_request *request, struct mq_arena *arena,
				   struct mq_timeline *timeline, enum mq_verdict *verdict, struct mq_err *err)
{
	const struct mq_schedule *s = request->view.schedule;
	struct mq_costing costing = { .view = request->view,
				      .cluster = request->cluster,
				      .calib = request->calib,
				      .jitter = request->jitter,
				      .times_only = request->times_only };
	struct mq_events ev;
	struct mq_walk walk;

	*timeline = (struct mq_timeline){ .executor = "analytic" };
	MQ_TRY(mq_events_build(s, request->view.rounds, arena, &ev, err));
	mq_costing_init(&costing, arena);
	if (!mq_costing_possible(&costing, err)) {
		*verdict = MQ_VERDICT_INVALID;
		return MQ_OK;
	}
	mq_walk_init(&walk, &ev, arena);
	for (uint32_t e; (e = mq_walk_next(&walk)) != MQ_NONE;) {
		double seconds = 0;
		if (ev.first[e] != MQ_NONE)
			MQ_TRY(duration(&costing, &s->task[ev.first[e]], &seconds, err));
		mq_walk_finish(&walk, e, walk.start_s[e] + seconds);
	}
	*verdict = walk.n_done == ev.n ? MQ_VERDICT_OK : MQ_VERDICT_DEADLOCK;
	MQ_TRY(mq_costing_timeline(&costing, &ev, walk.start_s, walk.finish_s, timeline, err));
	if (*verdict == MQ_VERDICT_OK && !timeline->inexact && timeline->step_time_s > request->timeout_s)
		*verdict = MQ_VERDICT_TIMEOUT;
	return MQ_OK;
}
