/* trust.h - how far to trust a predicted step: the published runs like a question, and the errors of their predictions.
 *
 * The index, results/accuracy/trust.csv, has a row for every published run that was predicted: what its error may
 * depend on, and the prediction's error, made with the run's source left out of every fit.
 *   point.c     a question and its prediction as such a row
 *   index.c     reading the index
 *   interval.c  neighbours and intervals
 *   pairs.c     which of two plans is faster
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TRUST_TRUST_H
#define MQ_TRUST_TRUST_H

#include "base/args.h"
#include "base/csv.h"
#include "maquette/question.h"
#include "maquette/result.h"

/* What errors may depend on, each a column of the index. */
#define MQ_TRUST_WORDS(F)                                                \
	F(device, "device type of the first device")                     \
	F(family, "its generation")                                      \
	F(software, "training software")                                 \
	F(parent, "the software that it inherits")                       \
	F(kind, "dense, mixture, images, fine-tuning, inference, other") \
	F(precision, "operands of GEMMs")                                \
	F(network, "network between machines, or none")
#define MQ_TRUST_NUMBERS(F)                                            \
	F(gpus, "devices of the plan")                                 \
	F(nodes, "their machines")                                     \
	F(kinds, "device types")                                       \
	F(seq, "tokens of a sample; 0 where it has none")              \
	F(params, "parameters of the model")                           \
	F(tp, "tensor parallelism")                                    \
	F(tp_nodes, "machines that a tensor-parallel group spans")     \
	F(pp, "pipeline stages")                                       \
	F(cp, "context parallelism")                                   \
	F(ep, "expert parallelism")                                    \
	F(dp, "data parallelism")                                      \
	F(recompute, "0 none, 1 selective, 2 full")                    \
	F(sync, "0 all-reduce, else the stage of ZeRO")                \
	F(comm_share, "predicted exposed communication over the step") \
	F(bubble_share, "predicted bubble over the step")              \
	F(mfu, "predicted share of the peak")                          \
	F(step_s, "predicted step")

#define MQ_MEMBER(name, about) MQ_TRUST_##name,
enum mq_trust_word { MQ_TRUST_WORDS(MQ_MEMBER) MQ_N_TRUST_WORDS };
enum mq_trust_number { MQ_TRUST_NUMBERS(MQ_MEMBER) MQ_N_TRUST_NUMBERS };
#undef MQ_MEMBER

struct mq_trust_point {
	const char *word[MQ_N_TRUST_WORDS]; /* borrowed */
	double number[MQ_N_TRUST_NUMBERS];  /* NaN = unknown */
};

/* A question with a plan and its result. */
struct mq_trust_view {
	const struct mq_model *model;
	const struct mq_train *train;
	const struct mq_software_record *software;
	const struct mq_plan *plan;
	const struct mq_result *result;
	const struct mq_device_calib *device; /* of the plan's first device; NULL = none */
	const char *network;                  /* "none" on one machine */
	uint32_t per_node, nodes, kinds;      /* devices per machine; the plan's machines and device types */
};
void mq_trust_point_of(const struct mq_trust_view *view, struct mq_trust_point *point);

/* Header of a table of points, which begins with ',', and the cells of a row. */
extern const char mq_trust_header[];
void mq_trust_put(struct mq_csv_writer *w, const struct mq_trust_point *point);

/* ---- the index (index.c) -------------------------------------------------------------------------- */

/* A point prepared for distances: words as ids, numbers scaled. */
enum { MQ_TRUST_SCALED = 9 };
struct mq_trust_place {
	uint32_t word[MQ_N_TRUST_WORDS];
	float x[MQ_TRUST_SCALED];
};

struct mq_trust_row {
	struct mq_trust_point point;
	struct mq_trust_place place;
	const char *table, *id, *publisher;
	uint32_t source, group; /* ids of its publisher, and of the rows that differ from it in plan alone */
	double measured_s;
	double error; /* log(measured / predicted), clipped to +-1 */
	double score; /* |error - middle| / spread of its neighbours, its publisher and table left out */
	double share; /* weight among neighbours, see interval.c */
	const char *memory_basis;
	double predicted_GB, measured_GB;
	bool own; /* the user's own run (--trust-with) */
};

/* Two runs that differ in plan alone. */
struct mq_trust_pair {
	uint32_t a, b;      /* rows */
	double ratio, plan; /* |log| of the ratio of their predictions; distance of their plans */
	bool right;         /* the faster one was predicted faster */
};

struct mq_trust {
	struct mq_arena *arena; /* borrowed */
	struct mq_index *words;
	struct mq_trust_row *row;
	uint32_t n, room, n_words;
	uint32_t n_sources;
	uint32_t *by_score;          /* [n] rows by rising score */
	struct mq_trust_pair *pair;  /* [n_pairs], filled when `paired` */
	uint32_t n_pairs, *pairs_of; /* by source */
	bool paired;
};
/* Columns of the index before and after a point's. */
extern const char mq_trust_columns[], mq_trust_columns_behind[];

/* The message if there is no index. */
extern const char mq_trust_missing[];
/* Path of the shipped index, or NULL. */
const char *mq_trust_path(struct mq_arena *arena);
struct mq_trust *mq_trust_new(struct mq_arena *arena); /* an empty one */
/* Loads the shipped index and the tables of --trust-with; *trust = NULL: there is no index. MQ_EINPUT: file and line
 * where a column, score or number is missing or out of range. */
enum mq_status mq_trust_open(const struct mq_list *own, struct mq_arena *arena, struct mq_trust **trust,
			     struct mq_err *err);
/* Adds the runs of a trust.csv that `score` or `validate` wrote; `own`: they are the user's. */
enum mq_status mq_trust_add(struct mq_trust *trust, const char *path, bool own, struct mq_err *err);
/* Sorts the rows by score and sets their shares; call after rows were added or scores changed. */
void mq_trust_sort(struct mq_trust *trust);
void mq_trust_place_of(struct mq_trust *trust, const struct mq_trust_point *point, struct mq_trust_place *place);
/* Publisher of a row: the first word of the organisation in its source ("github NVIDIA-NeMo/NeMo@..." is NVIDIA). */
const char *mq_trust_publisher(const char *source, struct mq_arena *arena);

/* ---- answers (interval.c) ------------------------------------------------------------------------- */

/* Published rows to leave out: of a table (NULL = none), and of a publisher. */
struct mq_trust_without {
	const char *table, *publisher;
};
struct mq_trust_answer {
	uint32_t like;                                   /* rows within MQ_TRUST_LIKE of the point */
	double like_error;                               /* median of their |predicted / measured - 1|; NaN = none */
	double low_80_s, high_80_s, low_50_s, high_50_s; /* NaN: no index */
	const char *described; /* in words: what the rows near the point share with it, and the nearest row */
	const char *beyond;    /* in words: what no run has measured; "" = nothing */
};
/* Columns of an answer in tables, and the cells. */
extern const char mq_trust_answer_columns[];
void mq_trust_put_answer(struct mq_csv_writer *w, const struct mq_trust_answer *answer);
#define MQ_TRUST_LIKE 3.0 /* distance up to which runs are alike */
/* Fills *answer, which lives in `arena`. Without an index (NULL) its numbers are NaN, and the point is not read. */
void mq_trust_ask(struct mq_trust *trust, const struct mq_trust_point *point, const struct mq_trust_without *without,
		  struct mq_arena *arena, struct mq_trust_answer *answer);

/* Is the row not left out? */
bool mq_trust_asked(const struct mq_trust_row *row, const struct mq_trust_without *without);
/* Have two places the same word? Software also equals its kin: parent, children, and children of its parent. */
bool mq_trust_same(const struct mq_trust_place *a, const struct mq_trust_place *b, int word);
/* Distance of two places. 1 for another device type and 3 more for another generation; 1 each for another software (a
 * half for kin), operand type of GEMMs or network, for a mixture of experts or none, fine-tuning of a part or all,
 * inference or training, tensor parallelism across machines or within, mixed devices or one type; 1 for an octave
 * between their MFU, for four octaves between their step times, and for each fifth of the step by which exposed
 * communication, or bubble, differs. The weights are stated, not fitted: fitted ones did worse at publishers that the
 * fit had not seen. */
double mq_trust_distance(const struct mq_trust_place *a, const struct mq_trust_place *b);
/* Computes each row's score from all rows but those of its table and its publisher. */
void mq_trust_score(struct mq_trust *trust);

/* Probability that plan `a` is faster than plan `b` of one question (pairs.c). Between 1 - MQ_TRUST_CLOSE and
 * MQ_TRUST_CLOSE it is too close to call. */
#define MQ_TRUST_CLOSE .7
double mq_trust_faster(struct mq_trust *trust, const struct mq_trust_point *a, const struct mq_trust_point *b,
		       const struct mq_trust_without *without);
const struct mq_trust_pair *mq_trust_pairs(struct mq_trust *trust, uint32_t *n);

/* Nine of ten runs used at most `high` times the predicted memory, rounded up to a per cent. Computed for each basis,
 * "allocated", "reserved" and "device" (also where the source names none); the highest is returned. high 0: no such
 * run, or no index. */
struct mq_trust_memory {
	double high;
	const char *basis;
	uint32_t n; /* runs */
};
struct mq_trust_memory mq_trust_memory(const struct mq_trust *trust, const struct mq_trust_without *without);

enum mq_status mq_trust_save(const struct mq_trust *trust, const char *path, struct mq_err *err);

#endif
