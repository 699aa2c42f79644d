/* hybrid.h - the parts of the hybrid planner (strategies/hybrid.c): the list of candidates by estimate, their
 * screening, bounds, candidates for models without layers. SPDX-License-Identifier: Apache-2.0 */
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
/* HEAD: plans of the list that come first; then one for every two moves. OF_FAMILY: items of a family that other
 * families cannot evict, among its first ASKED / 2 candidates. */

/* pp stages of dp x tp devices each of a type, from its device number `first` on. */
struct mq_hybrid_part {
	uint32_t type, tp, dp, pp, first;
};

enum mq_hybrid_kind { MQ_HYBRID_SHAPE, MQ_HYBRID_TYPED, MQ_HYBRID_READY };

struct mq_hybrid_item {
	enum mq_hybrid_kind kind;
	const struct mq_plan *plan; /* MQ_HYBRID_READY: the plan */
	struct shape_point point;   /* the shape; of typed pipelines micro-batches, sync, ... */
	uint32_t n_parts;
	struct mq_hybrid_part part[MQ_HYBRID_MAX_PARTS];
	double step_s;        /* estimated, then screened */
	double rank_s;        /* order of screening: the estimate; 0 = always screened */
	uint32_t order, like; /* like: plans of its family ranked before it, see diversify() in list.c */
	uint32_t family;      /* index in mq_hybrid.families */
};

struct mq_hybrid_family {
	uint32_t kept, asked; /* items in the list; candidates admitted while the list was full */
};

/* Contention on a set of devices: judged plans and the sum of simulated / screened times, both plus 1. */
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
	struct mq_hybrid_item *list; /* [keep] by rank_s; screened ones first, as proposed */
	uint32_t n, n_screened, next, n_ticks;
	struct mq_map uses; /* sets of devices; index into of_use */
	struct mq_hybrid_use *of_use;
	uint32_t use_room, asked[64]; /* asked: ring, of_use index of each proposal */
	bool none_fits;               /* no screened plan fits */
	double worst_s;               /* rank_s of the item evicted next */
	struct mq_map families;       /* index into of_family */
	struct mq_hybrid_family *of_family;
	uint32_t family_room;
	uint64_t seen, pruned, estimated;
	double listed_s;     /* best judged time of plans of the list, without moves */
	double considered_s; /* least estimate (or bound) of the last chain */
	bool stopped, cut;   /* the time ended before all estimates were made: of this attempt, of any */
	bool selective;      /* see mq_selective_saves */
	bool unequal;        /* layers take unlike times; estimates take the mean */
	struct mq_map flat;  /* models without layers: samples -> index into flat_s, seconds of both passes */
	double *flat_s;
	uint32_t flat_room;
	double until_s; /* seconds left at which estimates or screens end; -inf: no time limit */
	struct mq_refine refine;
	/* The plan of an item; false: it cannot be built. */
	bool (*make)(struct mq_hybrid *s, const struct mq_hybrid_item *item, struct mq_arena *arena,
		     struct mq_plan *plan);
	struct mq_hybrid_proof *proof; /* NULL: --proof was not given */
	uint64_t turn, heard, moved;   /* moved: bit per pending proposal, made by refinement */
};

/* ---- the list (list.c) */

/* The estimate that a candidate must beat to be kept; sets its family. */
double mq_hybrid_worst(struct mq_hybrid *s, struct mq_hybrid_item *item);
/* Under a time limit, gives the next step half of the time left. mq_hybrid_time: false when it is over. */
void mq_hybrid_halve(struct mq_hybrid *s, const struct mq_problem *problem);
bool mq_hybrid_time(const struct mq_hybrid *s, const struct mq_problem *problem, const char *what);
/* Adds a candidate after mq_hybrid_worst. A full list evicts the last item of a family with more than OF_FAMILY, so
 * that no family crowds out the others. */
void mq_hybrid_keep(struct mq_hybrid *s, const struct mq_hybrid_item *item);
/* Did the user fix degrees? They are those of one shape, while the other families have several. */
bool mq_hybrid_shapes_only(const struct mq_limits *limits);
/* Screens the best of the list and sorts them by screened time; drops those that do not fit; unscreened ones follow. */
void mq_hybrid_screen(struct mq_hybrid *s, const struct mq_problem *problem);

/* Moves the next item to s->next: the least screened time, with the contention seen on its devices. */
void mq_hybrid_choose(struct mq_hybrid *s);
/* Records simulated / screened time of a plan of the list. */
void mq_hybrid_contends(struct mq_hybrid *s, uint64_t turn, double ratio);

/* ---- stages of unequal width on one type (width.c) */

/* Calls `visit` for the best division of the devices into stages of dp x tp, for several limits on dp, under s->now's
 * micro-batches, sync and recomputation; `item` carries these and gets the parts. False: visit said stop. */
bool mq_hybrid_widths(struct mq_hybrid *s, uint32_t tp, bool (*visit)(struct mq_hybrid *s, struct mq_hybrid_item *item),
		      struct mq_hybrid_item *item);

/* ---- lower bound over all candidates (proof.c); all but the last do nothing without --proof */

void mq_hybrid_proof_init(struct mq_hybrid *s, const struct mq_problem *problem);
/* Records a candidate with a lower bound of its simulated step time. */
void mq_hybrid_seen(struct mq_hybrid *s, const struct mq_hybrid_item *item, double floor_s);
/* Records the simulated result of a plan of the list. */
void mq_hybrid_judged(struct mq_hybrid *s, const struct mq_plan *plan, const struct mq_result *result);
/* Lower bound of the simulated step time over all candidates seen. Needs s->proof. */
double mq_hybrid_prove(struct mq_hybrid *s, const struct mq_problem *problem);

/* ---- models without layers (flat.c) */

enum mq_status mq_hybrid_flat(struct mq_hybrid *s, const struct mq_problem *problem, struct mq_err *err);

#endif
