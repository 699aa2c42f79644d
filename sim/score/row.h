/* row.h - turns a row of a table of measured training runs into a job for the simulator: the question that `simulate`
 * would get, and a plan.
 *
 * The columns of a row, see results/published/README.md, give all of it. Only two things are assumed, and reported
 * (columns `software` and `network` of score.csv, a line on the terminal): a row without `software` runs `generic`, one
 * without `platform` has the machines of gpu, gpus, gpus_per_node and nodes, with the usual network of that device.
 *   platforms/models.csv      names of models that have a public model card, and their specifications
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCORE_ROW_H
#define MQ_SCORE_ROW_H

#include <math.h>

#include "score/score.h"
#include "maquette/cluster.h"
#include "maquette/plan.h"
#include "maquette/question.h"
#include "maquette/result.h"
#include "judge/job.h"

/* One row as read: text unchanged, numbers NaN if the cell is empty. Borrowed from the table. */
struct mq_run {
	const struct mq_csv *table; /* NULL in tests */
	const char *id, *model, *model_spec, *mode, *gpu, *platform, *change, *software;
	const char *options; /* of the software: "key=value;..." from software_options and columns */
	const char *precision, *tuning, *zero, *stage_layers, *placement, *schedule, *recompute;
	const char *unit, *status, *provenance, *source;
	const char *memory_basis; /* what max_mem_gb is: "device" (or blank: all), "reserved" (by the framework's
				   * allocator), "allocated" (its tensors) */
	const char *memory_rank;  /* the measured rank: "first"; blank: the fullest device */
	double params_b, layers, hidden, ffn, heads, kv_heads, seq, vocab, gpus, gpus_per_node, nodes;
	double tp, pp, dp, vp, cp, ulysses, ep, mbs, gbs, accum, value, step_time_s, max_mem_GB;
	const char *bad; /* cells that should be numbers and are not, or NULL */
	uint32_t line;
};

/* Machines of one kind, in rank order. */
struct mq_case_part {
	const char *device;
	uint32_t nodes, per_node, first; /* first: rank of its first device */
};

enum { MQ_CASE_MAX_PARTS = 16, MQ_CASE_MAX_CHANGES = 256 };

/* The job of a row. */
struct mq_case {
	const struct mq_run *run;
	const struct mq_score_options *options; /* borrowed while the job is built, like the arena */
	struct mq_arena *arena;
	struct mq_case_part part[MQ_CASE_MAX_PARTS];
	uint32_t n_parts; /* 0 = the platform is a name or a file */
	struct mq_software_record software;
	const char *spec; /* model, for mq_model_load */
	struct mq_train train;
	struct mq_shape shape;
	uint32_t zero_group, seq;
	uint32_t n_devices;
	bool image;           /* an image network: the row has no layers and no sequence */
	const char *platform; /* for -p: keys of `platform generate`, a name or a file */
	const char *network; /* "row" = the platform is the row's, "default" = from its columns, "none" = one machine */
	const char *links;   /* the first device type and the platform keys without machines: for groups */
	const char *fabric;  /* kind of network; "unknown" of a named platform */
	double vocab;        /* as simulated, before padding; 0 = the model has none */
	const char *assumed; /* what was assumed, or NULL */
	struct mq_model *model;
	struct mq_plan plan;
	struct mq_job job; /* of `simulate` and of the pool; its platform is `platform` */
};

/* A degree of parallelism from a cell; empty = 1. */
static inline uint32_t mq_run_degree(double cell)
{
	return isnan(cell) || cell < 1 || cell > UINT32_MAX ? 1 : (uint32_t)cell;
}

/* Reads all rows of a table. A missing step time follows from value and unit (tokens/s, sequences/s, images/s, or these
 * per GPU) with gbs and seq. MQ_EINPUT: a mandatory column is missing, a cell is no number. */
enum mq_status mq_runs_load(const char *path, struct mq_arena *arena, struct mq_run **runs, uint32_t *n,
			    struct mq_err *err);
/* MQ_EINPUT for an empty mandatory column, with the table's column of a similar name. */
enum mq_status mq_run_lacks(const struct mq_run *run, const char *column, const char *remedy, struct mq_err *err);
/* MQ_EINPUT for a cell that is none of the words, with the nearest. */
enum mq_status mq_run_unknown(const char *column, const char *cell, const char *const *words, struct mq_err *err);
/* Unread columns of a table with a name similar to a read one; NULL = none. */
const char *mq_runs_unread(const struct mq_csv *table, struct mq_arena *arena);

/* Builds the job of a row. MQ_EINPUT: it cannot be scored; err is the reason, for the list of refused rows. */
enum mq_status mq_case_build(const struct mq_score_options *options, const struct mq_run *run, struct mq_case *out,
			     struct mq_err *err);

/* Collects all reasons why a row cannot be scored, without simulating; returns their number. Checks that depend on a
 * missing part are skipped. *assumed: the assumptions of a complete row, or NULL. */
enum { MQ_CASE_MAX_LACKS = 8 };
uint32_t mq_case_lacks(const struct mq_score_options *options, const struct mq_run *run,
		       const char *why[MQ_CASE_MAX_LACKS], const char **assumed);

/* Model, specification and software of a row, without its plan: the first part of mq_case_build. */
enum mq_status mq_case_model(struct mq_case *c, struct mq_err *err);

/* The machines of a row: fills part[], n_parts, platform, network and links of `c`, whose run and n_devices are set.
 *   platform   keys of `platform generate`, a shipped platform's name or a file
 *   gpu        without `platform`: one type, or several as "12x V100 + 4x T4" or "V100:12;T4:4" (ranks in that
 *              order); numbers that it does not give are those of `placement`
 *   placement  on several kinds: stages separated by ';', their replicas by '|', each TYPE or TYPExTPn; a single
 *              stage stands for all
 * mq_case_degrees: the degrees of a placement: replicas, tp of each stage. mq_case_place: devices of the shape, if they
 * are not 0, 1, 2 ... MQ_EINPUT: an unknown type, inconsistent numbers, replicas of one stage with different tp. */
enum mq_status mq_case_machines(struct mq_case *c, struct mq_err *err);
enum mq_status mq_case_degrees(struct mq_case *c, struct mq_err *err);
enum mq_status mq_case_place(struct mq_case *c, struct mq_err *err);
/* Adds an assumption to the report of the row. */
void mq_case_assume(struct mq_case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The shape of the plan: degrees, micro-batches, schedule, sync, recomputation, layers of each stage. MQ_EINPUT: an
 * unknown word in a column, with the nearest known one. */
enum mq_status mq_case_shape(struct mq_case *c, struct mq_err *err);

/* A key: rows with equal keys differ only in plan (same model, hardware, batch and precision). */
const char *mq_run_group(const struct mq_case *c, struct mq_arena *arena);

#endif
