/* dpl.c - the linearised dynamic program: the best pipeline whose stages are intervals of one depth-first topological
 * order (DPL of Tarnawski et al., NeurIPS 2020).
 *
 * Same objective as ideal-dp, over at most n + 1 ideals, so it solves any graph: O(n^2) sets times device states. A
 * heuristic, as the order is fixed before the search. Device types and replicated stages as in ideal-dp.
 * SPDX-License-Identifier: Apache-2.0 */
#include "maquette/engine.h"
#include "lib/place/engine.h"

static const struct mq_opt opts[] = { MQ_PLACE_ENGINE_OPTS, MQ_END };

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	return mq_place_engine_start(state, "dpl", true, problem, err);
}

MQ_ENGINE(dpl) = {
	MQ_ENGINE_HEAD("dpl"),
	.summary = "best pipeline along one topological order (dynamic programming after linearization)",
	MQ_PLACE_ENGINE,
};
