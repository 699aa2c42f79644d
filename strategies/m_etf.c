/* m_etf.c - Baechi's m-etf: the task and device that can start first. (Jeon, Cai, Srivastava, Jiang, Ke, Meng, Gupta,
 * "Baechi: Fast Device Placement of Machine Learning Graphs", SoCC 2020). Method and differences:
 * lib/baechi.h. One plan is proposed; the makespan of its schedule is the engine's objective.
 * SPDX-License-Identifier: Apache-2.0 */
#include "maquette/engine.h"
#include "lib/baechi.h"

static enum mq_status schedule(struct mq_list_engine *e, const struct mq_problem *problem, struct mq_arena *arena,
			       struct mq_schedule_state *s, struct mq_err *err)
{
	return mq_baechi_etf(&e->tasks, NULL, arena, s, err);
}

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct mq_list_engine *e = state;

	e->schedule = schedule;
	return mq_tasks_make(problem, "m-etf", &e->tasks, err);
}

MQ_ENGINE(m_etf) = {
	MQ_ENGINE_HEAD("m-etf"),
	.summary = "earliest start first, memory kept (Baechi)",
	.paper = "Jeon et al., Baechi, SoCC 2020",
	.state_size = sizeof(struct mq_list_engine),
	.heuristic = true,
	.lacks = MQ_LACKS_ALL,
	.start = start,
	.propose = mq_list_propose,
	.observe = mq_list_observe,
};
