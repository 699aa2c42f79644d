/* hybrid.h - the parts of the hybrid planner (strategies/hybrid.c): the list of candidates by estimate, screening of
 * its best, bounds, and candidates of models without layers. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HYBRID_HYBRID_H
#define MQ_HYBRID_HYBRID_H

#include "hybrid/cost.h"
#include "lib/moves/refine.h"
#include "lib/shapes.h"

enum {
	MQ_HYBRID_MAX_TYPES = 4,
	MQ_HYBRID_MAX_PARTS = 6,
	MQ_HYBRID_HEAD = 16,
	MQ_HYBRID_OF_FAMILY = 2,
	MQ_HYBRID_ASKED = 128
};
/* HEAD: plans of the list that come first; then one for every two moves on what was judged. OF_FAMILY: items of a family
 * that no other drives out of the list, of its first ASKED / 2 candidates. */

/* pp stages of dp x tp devices of a type, from its `first` device on. */
struct mq_hybrid_part {
	uint32_t type, tp, dp, pp, first;
};

enum mq_hybrid_kind { MQ_HYBRID_SHAPE, MQ_HYBRID_TYPED, MQ_HYBRID_READY };

struct mq_hybrid_item {
	enum mq_hybrid_kind kind;
	const struct mq_plan *plan; /* MQ_HYBRID_READY: made when it was found */
	struct shape_point point;   /* shapes; also micro-batches, sync, ... of typed pipelines */
	uint32_t n_parts;
	struct mq_hybrid_part part[MQ_HYBRID_MAX_PARTS];
	double step_s;        /* estimated, then screened */
	double rank_s;        /* order of screening: the estimate; 0 = surely */
	uint32_t order, like; /* like: plans of its family before it, see mix in list.c */
	uint32_t family;      /* index in mq_hybrid.families: those that use the devices alike */
};

struct mq_hybrid_family {
	uint32_t kept, asked; /* items in the list; candidates that might have been */
};

/* Judged plans of the list on the same devices: the sum of how far they were above their screened times. */
struct mq_hybrid_use {
	uint32_t n;
	double sum;
};

struct mq_hybrid {
	uint32_t keep, screens; /* options */
	bool moves;
	struct shape_space space;
	struct mq_hybrid_cost cost;
	struct mq_hybrid_candidate now;
	struct mq_hybrid_item *list; /* [keep] sorted by step_s */
	uint32_t n, n_screened, next, n_ticks;
	struct mq_map uses; /* of devices; index into of_use */
	struct mq_hybrid_use *of_use;
	uint32_t use_room, asked[64]; /* asked: a ring, of_use of each proposal */
	bool none_fits;               /* of those screened */
	double worst_s;               /* of the last one of the list that may go */
	struct mq_map families;       /* index into of_family */
	struct mq_hybrid_family *of_family;
	uint32_t family_room;
	uint64_t seen, pruned, estimated;
	double listed_s;     /* best of the list, judged; moves leave its space */
	double considered_s; /* least estimate (or what a bound promises) of the last chain */
	bool stopped, cut;   /* estimates of this way, of any way, ended before all were made */
	bool selective;      /* it would save something */
	struct mq_map flat;  /* models without layers: samples; index into flat_s, seconds of both passes */
	double *flat_s;
	uint32_t flat_room;
	double until_s; /* seconds left at which estimates, or screens, are over; -inf: there is no end of time */
	struct mq_refine refine;
	/* The plan of an item; false: it cannot be built. */
	bool (*make)(struct mq_hybrid *s, const struct mq_hybrid_item *item, struct mq_arena *arena,
		     struct mq_plan *plan);
	struct mq_hybrid_proof *proof; /* NULL: nobody asked for bounds */
	uint64_t turn, heard, moved;   /* moved: bit of each waiting proposal, made by refinement */
};

/* ---- the list (list.c) */

/* The estimate that a candidate of this family has to beat to be kept; finds its family. */
double mq_hybrid_worst(struct mq_hybrid *s, struct mq_hybrid_item *item);
/* In a given time what comes next has half of what is left, so that some plan is judged. False: it is over. */
void mq_hybrid_halve(struct mq_hybrid *s, const struct mq_problem *problem);
bool mq_hybrid_time(const struct mq_hybrid *s, const struct mq_problem *problem, const char *what);
/* Adds a candidate that was asked about above. Where the list is full the last one goes, of a family that has more
 * than two: no family hides the others. */
void mq_hybrid_keep(struct mq_hybrid *s, const struct mq_hybrid_item *item);
/* Degrees that the user fixed are those of one shape: the other families have several. */
bool mq_hybrid_shapes_only(const struct mq_limits *limits);
/* The analytic executor orders the best of the list; what it finds too large is dropped; the rest stays behind. */
void mq_hybrid_screen(struct mq_hybrid *s, const struct mq_problem *problem);

/* The next of the list, at s->next: the least screened time, with what contention added to others on its devices. */
void mq_hybrid_choose(struct mq_hybrid *s);
/* The simulator's answer to a plan of the list, over its screened time. */
void mq_hybrid_contends(struct mq_hybrid *s, uint64_t turn, double ratio);

/* ---- stages of unequal width on one type (width.c) */

/* Calls `visit` for the best division of the devices into stages of dp x tp, under s->now's micro-batches, sync and
 * recomputation, for some limits on dp; `item` carries them and gets the parts. False: visit said stop. */
bool mq_hybrid_widths(struct mq_hybrid *s, uint32_t tp, bool (*visit)(struct mq_hybrid *s, struct mq_hybrid_item *item),
		      struct mq_hybrid_item *item);

/* ---- what no candidate is below (proof.c); all but the last do nothing where nobody asked */

void mq_hybrid_proof_init(struct mq_hybrid *s, const struct mq_problem *problem);
/* A candidate that no simulated step is below floor_s of. */
void mq_hybrid_seen(struct mq_hybrid *s, const struct mq_hybrid_item *item, double floor_s);
/* The simulator's answer to a plan of the list. */
void mq_hybrid_judged(struct mq_hybrid *s, const struct mq_plan *plan, const struct mq_result *result);
/* Seconds that no simulated step of a candidate seen is below. Needs s->proof. */
double mq_hybrid_prove(struct mq_hybrid *s, const struct mq_problem *problem);

/* ---- models without layers (flat.c) */

enum mq_status mq_hybrid_flat(struct mq_hybrid *s, const struct mq_problem *problem, struct mq_err *err);

#endif
