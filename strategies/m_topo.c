/*
 * m_topo.c - Baechi's m-topo: devices filled in topological order to a cap. (Jeon, Cai, Srivastava, Jiang, Ke, Meng,
 * Gupta, "Baechi: Fast Device Placement of Machine Learning Graphs", SoCC 2020). Method and differences:
 * lib/baechi.h. One plan is proposed; the makespan of its schedule is the engine's objective.
 */
#include "maquette/engine.h"
#include "lib/baechi.h"

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct mq_baechi *b = state;

	return mq_tasks_make(problem, "m-topo", &b->tasks, err);
}

static enum mq_status schedule(struct mq_baechi *b, const struct mq_problem *problem, struct mq_arena *arena,
			       struct mq_schedule_state *s, struct mq_err *err)
{
	return mq_baechi_topo(&b->tasks, arena, s, err);
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	return mq_baechi_propose(state, schedule, problem, arena, plan, err);
}

MQ_ENGINE(m_topo) = {
	MQ_ENGINE_HEAD("m-topo"),
	.summary = "fills devices in topological order to a memory cap (Baechi)",
	.paper = "Jeon et al., Baechi, SoCC 2020",
	.state_size = sizeof(struct mq_baechi),
	.heuristic = true,
	.lacks = MQ_LACKS_ALL,
	.start = start,
	.propose = propose,
	.observe = mq_baechi_observe,
};
