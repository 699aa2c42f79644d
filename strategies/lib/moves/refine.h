/* refine.h - local search around judged plans: screens the neighbours of a good plan (moves.h) with the analytic
 * executor, descends from the promising ones and proposes the results for simulation.
 *
 * Start from any plans: offer them with their results. The next proposal is the one with the largest expected
 * improvement on the best: a neighbour is predicted from its screened time and the contention seen near its point; an
 * unexpanded plan from what the best neighbours of other plans gained, those of new families apart. A move of devices
 * may take away contention: the more of it there is, the less certain is its prediction. Screened time is a lower
 * bound of simulated time: neighbours that screen above the best wait until nothing lower is left to screen; after
 * that come random walks from the best. No plan is proposed twice, nor one that lowers to the same schedule, nor one
 * that does not fit. A neighbour that screens below the best but does not fit is tried with higher ZeRO stages, small
 * gradient buckets, more micro-batches and the fewest layers whose activations are offloaded or recomputed.
 *
 * A family is the set of plans with the same stages, devices per stage and degrees. Each evaluation that does not
 * improve a family adds to its penalty, so that others get their turn; the decisions of the best plan are tried on the
 * best plan of each family. When the search stalls, stages of the best family and of those near it are split and
 * merged, and layers rebalanced.
 *
 * No proof of optimality: it ends at a local optimum of these moves. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_MOVES_REFINE_H
#define MQ_LIB_MOVES_REFINE_H

#include "maquette/map.h"
#include "lib/moves/moves.h"

enum { MQ_REFINE_POINTS = 48 };

struct mq_refine_near {
	struct mq_move move;
	uint32_t relief; /* 1 + variant of mq_move_relieve; 0: the plan as it is */
	uint32_t known;  /* index into mq_refine.of_known */
	double screened_s;
	double hope_s; /* screened_s, for moves of devices less its deviation */
};

/* A plan, up to equal effect (mq_plan_effect), that was screened; `fits` is set if `asked`. */
struct mq_refine_known {
	double screened_s;
	bool asked, fits;
};

struct mq_refine_point {
	struct mq_plan *plan;
	double value, screened_s; /* value: of the objective, simulated, see start_value() */
	uint32_t family;          /* index into of_family */
	bool expanded, more;      /* more: neighbours that no expansion has screened */
	uint32_t n, next;         /* near[next] fits, or next == n */
	uint32_t heard;           /* judged neighbours, and the sum of their simulated / screened times */
	double sum;
	struct mq_refine_near *near; /* [n] by hope_s */
};

/* Number, sum and sum of squares of what was seen. */
struct mq_refine_seen {
	uint32_t n;
	double sum, squares;
};

/* Plans with the same stages, devices per stage and degrees. */
struct mq_refine_family {
	double best;   /* value judged */
	uint32_t idle; /* plans judged since best */
	bool expanded;
	struct mq_refine_seen places; /* relative errors of predictions of device moves */
};

struct mq_refine_asked {
	uint32_t point; /* the point it was derived from */
	double screened_s;
	bool places; /* a device move */
};

struct mq_refine {
	const struct mq_problem *problem;
	struct mq_move_space space;
	struct mq_map judged; /* mq_plan_effect of plans proposed or offered */
	struct mq_map places; /* device moves and reshapes tried, by family */
	struct mq_map times;  /* screened times proposed, by family, to about 1e-5 */
	struct mq_map known;  /* mq_plan_effect of plans screened; index into of_known */
	struct mq_refine_known *of_known;
	struct mq_map families; /* index into of_family */
	struct mq_refine_family *of_family;
	uint32_t room, family_room;
	double best;                      /* value judged */
	uint32_t idle;                    /* plans judged since best */
	struct mq_refine_seen brought[2]; /* best neighbour's / point's screened time: first of a family; later ones */
	struct mq_refine_seen off;        /* relative errors of predictions */
	uint32_t width;                   /* neighbours screened per expansion */
	uint32_t n, n_asked, heard;
	uint32_t crossed, reshaped;       /* plans screened in crossover(), and in reshape() with its descents */
	struct mq_refine_asked asked[64]; /* ring of proposals without a result */
	struct mq_refine_point point[MQ_REFINE_POINTS];
	struct mq_arena scratch; /* owned */
};

void mq_refine_init(struct mq_refine *r, const struct mq_problem *problem);
void mq_refine_fini(struct mq_refine *r);

/* Adds a judged plan from any source. */
void mq_refine_offer(struct mq_refine *r, const struct mq_plan *plan, const struct mq_result *result);
/* Was a plan of the same effect offered or proposed before? */
bool mq_refine_met(struct mq_refine *r, const struct mq_plan *plan);

/* Proposes a plan, with its screened time as engine_objective. False: no offered plan fits, the time is over, or
 * nothing new was found. At most 64 proposals may await their result. */
bool mq_refine_next(struct mq_refine *r, struct mq_arena *arena, struct mq_plan *plan);
/* Takes the result of the oldest proposal without one. */
void mq_refine_hear(struct mq_refine *r, const struct mq_plan *plan, const struct mq_result *result);

#endif
