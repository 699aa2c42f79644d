/* m_sct.c - Baechi's m-sct: earliest start first, with favourite children from a linear program (Jeon, Cai, Srivastava,
 * Jiang, Ke, Meng, Gupta, "Baechi: Fast Device Placement of Machine Learning Graphs", SoCC 2020, after Hanen and
 * Munier's small-communication-time schedules). Method: lib/baechi.h.
 *
 *   min w;  s_i + p_i + c_ij x_ij <= s_j;  sum_children x >= |children| - 1;
 *   sum_parents x >= |parents| - 1;  s_i + p_i <= w;  0 <= x <= 1
 *
 * j is i's favourite child if x_ij <= 0.1. Solved by the program cbc (COIN-OR). p and c are means over the devices.
 * Proposes one plan. Refuses programs with more than 200,000 columns. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/engine.h"
#include "lib/baechi.h"
#include "lib/mip.h"

struct m_sct {
	struct mq_list_engine list;
	double seconds;
	const uint32_t *favourite; /* valid while proposing */
};

static const struct mq_opt opts[] = {
	MQ_F64(struct m_sct, seconds, 60, 0.1, 1e6, "time limit of the linear programme, s"), MQ_END
};

static enum mq_status schedule(struct mq_list_engine *e, const struct mq_problem *problem, struct mq_arena *arena,
			       struct mq_schedule_state *s, struct mq_err *err)
{
	return mq_baechi_etf(&e->tasks, ((struct m_sct *)e)->favourite, arena, s, err);
}

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct m_sct *s = state;

	s->list.schedule = schedule;
	MQ_TRY(mq_tasks_make(problem, "m-sct", &s->list.tasks, err));
	uint32_t columns = s->list.tasks.n + s->list.tasks.n_edges;
	if (columns > 200000)
		return mq_bad(err, "engine 'm-sct': %u columns, the bound is 200000: use m-etf", columns);
	return MQ_OK;
}

static void add_start_rows(const struct mq_tasks *t, struct mq_mip *lp, uint32_t w, uint32_t s0, uint32_t x0)
{
	for (uint32_t v = 0; v < t->n; v++)
		MQ_MIP_ROW(lp, 'G', mq_tasks_mean_time(t, v), { w, 1 }, { s0 + v, -1 });
	for (uint32_t e = 0; e < t->n_edges; e++) {
		const struct mq_task_edge *edge = &t->edge[e];

		MQ_MIP_ROW(lp, 'G', mq_tasks_mean_time(t, edge->src), { s0 + edge->dst, 1 }, { s0 + edge->src, -1 },
			   { x0 + e, -mq_tasks_mean_move(t, edge->bytes) });
	}
}

/* At most one favourite child and one favourite parent per task. */
static void add_degree_rows(const struct mq_tasks *t, struct mq_mip *lp, uint32_t x0)
{
	for (uint32_t v = 0; v < t->n; v++) {
		for (int side = 0; side < 2; side++) {
			const uint32_t *first = side ? t->in_first : t->out_first;
			const uint32_t *list = side ? t->in : t->out;
			uint32_t n = first[v + 1] - first[v];

			if (n < 2)
				continue;
			uint32_t row = mq_mip_row(lp, 'G', n - 1.0);

			for (uint32_t i = first[v]; i < first[v + 1]; i++)
				mq_mip_add(lp, row, x0 + list[i], 1);
		}
	}
}

static enum mq_status favourites(const struct m_sct *s, const struct mq_problem *problem, struct mq_arena *arena,
				 uint32_t *favourite, struct mq_err *err)
{
	const struct mq_tasks *t = &s->list.tasks;
	struct mq_mip lp = { .arena = arena };
	struct mq_mip_options o = { .seconds = fmin(s->seconds, problem->seconds) };
	struct mq_mip_result r;
	uint32_t w = mq_mip_column(&lp, 1, 0, INFINITY, false), s0 = lp.n_columns, x0;

	for (uint32_t v = 0; v < t->n; v++)
		mq_mip_column(&lp, 0, 0, INFINITY, false);
	x0 = lp.n_columns;
	for (uint32_t e = 0; e < t->n_edges; e++)
		mq_mip_column(&lp, 0, 0, 1, false);
	add_start_rows(t, &lp, w, s0, x0);
	add_degree_rows(t, &lp, x0);
	MQ_TRY(mq_mip_solve(&lp, &o, arena, &r, err));
	if (!r.value)
		return mq_fail(err, MQ_ETIME,
			       "engine 'm-sct': no solution of the linear programme: colours that make a cycle of op "
			       "groups, or too little time (seconds=S)");
	for (uint32_t v = 0; v < t->n; v++)
		favourite[v] = MQ_NONE;
	for (uint32_t e = 0; e < t->n_edges; e++)
		if (r.value[x0 + e] <= 0.1 && favourite[t->edge[e].src] == MQ_NONE)
			favourite[t->edge[e].src] = t->edge[e].dst;
	return MQ_OK;
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct m_sct *s = state;
	uint32_t *favourite = mq_arena_array(arena, s->list.tasks.n, uint32_t);

	if (!s->list.done)
		MQ_TRY(favourites(s, problem, arena, favourite, err));
	s->favourite = favourite;
	return mq_list_propose(state, problem, arena, plan, err);
}

MQ_ENGINE(m_sct) = {
	MQ_ENGINE_HEAD("m-sct"),
	.summary = "earliest start first with favourite children from a linear program (Baechi)",
	.paper = "Jeon et al., Baechi, SoCC 2020",
	MQ_ENGINE_OWN(struct m_sct),
	.lacks = MQ_LACKS_ALL,
	.observe = mq_list_observe,
};
