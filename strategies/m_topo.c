/*
 * m_topo.c - Baechi's m-topo: devices filled in topological order to a cap.
 * (Jeon, Cai, Srivastava, Jiang, Ke, Meng, Gupta, "Baechi: Fast Device Placement of Machine
 * Learning Graphs", SoCC 2020). Method and differences: lib/baechi.h. One plan is proposed; the
 * makespan of its schedule is the engine's objective.
 */
#include "core/engine.h"
#include "lib/baechi.h"

struct m_topo {
	struct mq_tasks tasks;
	bool done;
};

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct m_topo *s = state;

	return mq_tasks_make(problem, "m-topo", &s->tasks, err);
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
                              struct mq_plan *plan, struct mq_err *err)
{
	struct m_topo *s = state;
	struct mq_schedule_state schedule;
	enum mq_status status;

	if (s->done)
		return MQ_DONE;
	s->done = true;
	do
		status = mq_baechi_topo(&s->tasks, arena, &schedule, err);
	while (status == MQ_ENOPLAN && mq_tasks_finer(problem, &s->tasks));
	MQ_TRY(status);
	mq_baechi_plan(&s->tasks, &schedule, problem, arena, plan);
	return MQ_OK;
}

/* What the simulator finds too large is tried again in smaller micro-batches. */
static void observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
                    const struct mq_result *result)
{
	struct m_topo *s = state;

	if (result->verdict == MQ_VERDICT_OOM && mq_tasks_finer(problem, &s->tasks))
		s->done = false;
}

MQ_ENGINE(m_topo) = {
        MQ_ENGINE_HEAD("m-topo"),
        .summary = "fills devices in topological order to a memory cap (Baechi)",
        .paper = "Jeon et al., Baechi, SoCC 2020",
        .state_size = sizeof(struct m_topo),
        .heuristic = true,
        .lacks = MQ_LACKS_ALL,
        .start = start,
        .propose = propose,
        .observe = observe,
};
