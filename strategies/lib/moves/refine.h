/* refine.h - local search from judged plans: the neighbours of a good plan (moves.h) in the order that the analytic
 * executor gives them, each as far down as that executor sees a way, for the simulator to judge.
 *
 * Start from any plans: offer them with their results. Next comes what will improve most on the best in the mean: of a
 * neighbour its screened time is known, and what contention added to others of its point; of a plan whose neighbours
 * are not known, what the best neighbours of other plans brought. No simulation is below its screened time: neighbours
 * above the best are not proposed while there is more to look at, and when nothing below is left, random moves are made
 * from the best. No plan is proposed twice, nor one that lowers to the schedule of another, nor one that does not fit.
 *
 * A family are the plans that use the devices alike. Each of its plans that does not improve on it is to its
 * disadvantage, so that others have their turns; and what the best plan decides is tried on the best of each. Where
 * nothing better was found for a while, stages of the best and of families near it are divided and merged, and layers
 * dealt out anew.
 *
 * Not a proof of anything: what it ends at is a local optimum of these moves. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_MOVES_REFINE_H
#define MQ_LIB_MOVES_REFINE_H

#include "maquette/map.h"
#include "lib/moves/moves.h"

enum { MQ_REFINE_POINTS = 48 };

struct mq_refine_near {
	struct mq_move move;
	uint32_t known; /* index into mq_refine.of_known */
	double screened_s;
};

/* An effect whose time is known, and where somebody asked, whether it fits. */
struct mq_refine_known {
	double screened_s;
	bool asked, fits;
};

struct mq_refine_point {
	struct mq_plan *plan;
	double value, screened_s; /* value: of the objective, simulated */
	uint32_t family;          /* how it uses the devices: index into of_family */
	bool expanded;
	uint32_t n, next; /* the next of near[] fits */
	uint32_t heard;   /* neighbours judged, and the sum of how far they were above their screened times */
	double sum;
	struct mq_refine_near *near; /* [n] by screened_s */
};

/* Plans that use the devices alike. */
struct mq_refine_family {
	double best;   /* value judged */
	uint32_t idle; /* plans judged since */
};

struct mq_refine_asked {
	uint32_t point; /* that it was made from */
	double screened_s;
};

struct mq_refine {
	const struct mq_problem *problem;
	struct mq_move_space space;
	struct mq_map judged; /* effects proposed or offered */
	struct mq_map places; /* moves of devices tried, by how the plan uses them */
	struct mq_map times;  /* screened times proposed, to the last bit */
	struct mq_map known;  /* effects screened; index into of_known */
	struct mq_refine_known *of_known;
	struct mq_map families; /* index into of_family */
	struct mq_refine_family *of_family;
	uint32_t room, family_room;
	double best;         /* value judged */
	uint32_t idle;       /* plans judged since it was found */
	uint64_t expansions; /* and the sum of what their best neighbours promised, over what the point had */
	double brought;
	double spread; /* squares of how far judged plans were from what was expected, over that */
	uint64_t n_spread;
	uint32_t width; /* screens of one expansion */
	uint32_t n, n_asked, heard;
	uint32_t crossed, reshaped;       /* plans that were screened in cross(), and in reshape() with its ways down */
	struct mq_refine_asked asked[64]; /* a ring: proposals not heard yet */
	struct mq_refine_point point[MQ_REFINE_POINTS];
	struct mq_arena scratch; /* owned */
};

void mq_refine_init(struct mq_refine *r, const struct mq_problem *problem);
void mq_refine_fini(struct mq_refine *r);

/* A judged plan, whoever proposed it. */
void mq_refine_offer(struct mq_refine *r, const struct mq_plan *plan, const struct mq_result *result);
/* Was a plan of the same effect offered or proposed? */
bool mq_refine_met(struct mq_refine *r, const struct mq_plan *plan);

/* A plan worth judging, with its screened time as engine_objective. False: nothing was offered that fits, or time is
 * over, or nothing new is found. At most 64 may wait for their judgement. */
bool mq_refine_next(struct mq_refine *r, struct mq_arena *arena, struct mq_plan *plan);
/* The judgement of the oldest proposal that has none. */
void mq_refine_hear(struct mq_refine *r, const struct mq_plan *plan, const struct mq_result *result);

#endif
