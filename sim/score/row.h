/* row.h - from a row of a table of measured training runs to a job that the simulator runs: the same question that
 * `simulate` would be asked, and a plan.
 *
 * A row says all of it in columns of its own; results/published/README.md lists them. What a table leaves open is
 * assumed in two places only, and told (columns `software` and `network` of score.csv, a line on the terminal): a row
 * without `software` runs `generic`, one without `platform` has the machines that gpu, gpus, gpus_per_node and nodes
 * count, with the network that is usual for that device.
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

/* One row as read: text as is, numbers NaN where the cell is empty. Borrowed from the table. */
struct mq_run {
	const struct mq_csv *table; /* NULL in tests */
	const char *id, *model, *model_spec, *mode, *gpu, *platform, *change, *software;
	const char *options; /* of the software: "key=value;..." from software_options and columns */
	const char *precision, *tuning, *zero, *stage_layers, *placement, *schedule, *recompute;
	const char *unit, *status, *provenance, *source;
	const char *memory_basis; /* what max_mem_gb is: "device" (or blank: all), "reserved" (by the framework's
				   * allocator), "allocated" (its tensors) */
	const char *memory_rank;  /* of which rank: "first", or blank: of the fullest device */
	double params_b, layers, hidden, ffn, heads, kv_heads, seq, vocab, gpus, gpus_per_node, nodes;
	double tp, pp, dp, vp, cp, ulysses, ep, mbs, gbs, accum, value, step_time_s, max_mem_GB;
	const char *bad; /* its cells that should be numbers and are not, or NULL */
	uint32_t line;
};

/* Machines of one kind, in rank order; a platform of several kinds has as many. */
struct mq_case_part {
	const char *device;
	uint32_t nodes, per_node, first; /* first: rank of its first device */
};

enum { MQ_CASE_MAX_PARTS = 16, MQ_CASE_MAX_CHANGES = 256 };

/* A row made ready. */
struct mq_case {
	const struct mq_run *run;
	const struct mq_score_options *options; /* borrowed while it is made, as the arena is */
	struct mq_arena *arena;
	struct mq_case_part part[MQ_CASE_MAX_PARTS];
	uint32_t n_parts; /* 0 = the platform is a name or a file */
	struct mq_software_record software;
	const char *spec; /* model, for mq_model_load */
	struct mq_train train;
	struct mq_shape shape;
	uint32_t zero_group, seq;
	uint32_t n_devices;
	bool image;           /* an image network: no layers, no sequence in the row */
	const char *platform; /* keys of `platform generate`, a name or a file: what -p takes */
	const char *network; /* "row" = the platform is the row's, "default" = from its columns, "none" = one machine */
	const char *links;   /* the first device type, and keys of the platform but its machines: for groups */
	const char *fabric;  /* kind of network; "unknown" of a named platform */
	double vocab;        /* as simulated, before padding; 0 = the model has none */
	const char *assumed; /* what was assumed, or NULL */
	struct mq_model *model;
	struct mq_plan plan;
	struct mq_job job; /* of `simulate` and of the pool; its platform is `platform` */
};

/* A degree of parallelism from a cell: 1 where it says none. */
static inline uint32_t mq_run_degree(double cell)
{
	return isnan(cell) || cell < 1 || cell > UINT32_MAX ? 1 : (uint32_t)cell;
}

/* Read all rows of a table. MQ_EINPUT: no such column as a table must have, a cell that is no number. A step time
 * that is not given follows from a rate in value and unit (tokens/s, sequences/s, images/s, or these per GPU) with gbs
 * and seq. */
enum mq_status mq_runs_load(const char *path, struct mq_arena *arena, struct mq_run **runs, uint32_t *n,
			    struct mq_err *err);
/* A column that a row needs has no value: MQ_EINPUT, with the column of the table that has nearly that name. */
enum mq_status mq_run_lacks(const struct mq_run *run, const char *column, const char *remedy, struct mq_err *err);
/* MQ_EINPUT: the cell is none of the words; names the nearest. */
enum mq_status mq_run_unknown(const char *column, const char *cell, const char *const *words, struct mq_err *err);
/* Columns of a table that are read by nobody but have nearly the name of one that is; NULL = none. */
const char *mq_runs_unread(const struct mq_csv *table, struct mq_arena *arena);

/* MQ_EINPUT: the row cannot be scored; err says why in words for the list of refused rows. */
enum mq_status mq_case_build(const struct mq_score_options *options, const struct mq_run *run, struct mq_case *out,
			     struct mq_err *err);

/* All that keeps a row from being scored, each in words, before anything is simulated; returns how many, 0 = nothing.
 * A row is looked at as far as what it lacks allows. *assumed: what was assumed of one that lacks nothing, or NULL. */
enum { MQ_CASE_MAX_LACKS = 8 };
uint32_t mq_case_lacks(const struct mq_score_options *options, const struct mq_run *run,
		       const char *why[MQ_CASE_MAX_LACKS], const char **assumed);

/* Model, specification and software of a row, without its plan: what mq_case_build begins with. */
enum mq_status mq_case_model(struct mq_case *c, struct mq_err *err);

/* The machines of a row: fills part[], n_parts, platform, network and links of `c`, whose run and n_devices are set.
 *   platform   keys of `platform generate`, a shipped platform's name or a file
 *   gpu        without `platform`: one type, or several as "12x V100 + 4x T4" or "V100:12;T4:4" (ranks in that
 *              order); numbers that it does not give are those of `placement`
 *   placement  on several kinds: stages separated by ';', their replicas by '|', each TYPE or TYPExTPn: what runs
 *              where; a single stage stands for all
 * mq_case_degrees: what a placement says of degrees: replicas, tp of each stage. mq_case_place: devices of the shape
 * where they are not simply 0, 1, 2 ... MQ_EINPUT: a type that is not known, numbers that do not add up, replicas of
 * one stage of unequal tp. */
enum mq_status mq_case_machines(struct mq_case *c, struct mq_err *err);
enum mq_status mq_case_degrees(struct mq_case *c, struct mq_err *err);
enum mq_status mq_case_place(struct mq_case *c, struct mq_err *err);
/* Adds to what is told of the row as assumed. */
void mq_case_assume(struct mq_case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Degrees, micro-batches, schedule, sync, recomputation, layers of each stage: the shape of the plan. MQ_EINPUT: a
 * word that is none of the column's, with the nearest that is. */
enum mq_status mq_case_shape(struct mq_case *c, struct mq_err *err);

/* Rows whose key is equal differ only in plan: same model, hardware, batch and precision. */
const char *mq_run_group(const struct mq_case *c, struct mq_arena *arena);

#endif
