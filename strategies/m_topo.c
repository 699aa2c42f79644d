/* m_topo.c - Baechi's m-topo: fills devices in topological order up to a cap (Jeon, Cai, Srivastava, Jiang, Ke, Meng,
 * Gupta, "Baechi: Fast Device Placement of Machine Learning Graphs", SoCC 2020). Method and differences: lib/baechi.h.
 * Proposes one plan; its makespan is the engine's objective. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/engine.h"
#include "lib/baechi.h"

static enum mq_status schedule(struct mq_list_engine *e, const struct mq_problem *problem, struct mq_arena *arena,
			       struct mq_schedule_state *s, struct mq_err *err)
{
	return mq_baechi_topo(&e->tasks, arena, s, err);
}

MQ_LIST_START("m-topo", schedule)

MQ_ENGINE(m_topo) = {
	MQ_ENGINE_HEAD("m-topo"),
	.summary = "fills devices in topological order to a memory cap (Baechi)",
	.paper = "Jeon et al., Baechi, SoCC 2020",
	MQ_LIST_ENGINE,
};
