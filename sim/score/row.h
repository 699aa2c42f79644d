/*
 * row.h - from a row of a table of measured training runs to a job that the simulator runs: the same
 * question that `simulate` would be asked, and a plan.
 *
 * What a row says in columns of its own wins: `software`, `software_options`, any field of a software,
 * `platform`, dimensions of the model, degrees. What it leaves open comes from tables that a user can extend,
 * and is told as an assumption (mq_case.network and the like, columns of score.csv):
 *   platforms/systems.csv     the machines behind `gpu`, `intra_link`, `inter_link`
 *   platforms/models.csv      the model behind `model` (public model cards)
 *   platforms/publishers.csv  the training software behind `source`, `notes`, `locator`, ...
 *   platforms/overlay.csv     what a source says in words, as columns
 */
#ifndef MQ_SCORE_ROW_H
#define MQ_SCORE_ROW_H

#include <math.h>

#include "score/score.h"
#include "hardware/cluster.h"
#include "plan/plan.h"
#include "software/question.h"
#include "schedule/result.h"
#include "judge/job.h"

/* One row as read: text as is, numbers NaN where the cell is empty. Borrowed from the table. */
struct mq_run {
	bool open_batches; /* the table has columns for micro-batches: an empty cell is not known, not usual */
	const char *id, *model, *gpu, *intra, *inter, *precision, *zero, *stage_layers, *placement;
	const char *schedule, *recompute, *metric, *unit, *basis, *status, *source, *provenance;
	const char *notes, *locator, *software, *platform;
	const char *mem_basis; /* what max_mem_gb is: "device" (or blank: all, on the fullest device),
				    * "reserved" (by the framework's allocator), "allocated" (its tensors); with
				    * "first" before it, of the first rank */
	const char *options;   /* of the software: "key=value;..." from software_options and columns */
	double params_b, layers, hidden, ffn, heads, kv_heads, seq, vocab, gpus, gpus_per_node, nodes;
	double tp, pp, dp, vp, cp, ep, mbs, gbs, accum, value, step_time_s, max_mem_GB;
	const char *refused; /* why it is left out, by the overlay; NULL = it is not */
	bool half_attention; /* its FLOPs count causal attention by half */
	uint32_t line;
};

/* Hardware: a row of systems.csv. */
struct mq_system {
	const char *name, *device;
	const char *platform; /* options of the platform generator, but gpu, nodes and gpus */
	uint32_t domain;      /* GPUs joined inside a node where that is not gpus_per_node; 0 */
	double host;          /* time of its CPUs per kernel / that of the calibration's */
	bool network_said;    /* found by the row's own words on its network */
};

/* Machines of one kind in a row that mixes several: `gpus` devices from rank `first` on. */
struct mq_case_part {
	struct mq_system system;
	uint32_t gpus, nodes, per_node, first;
};

enum { MQ_CASE_MAX_PARTS = 8, MQ_CASE_MAX_CHANGES = 256 };

/* A row made ready. */
struct mq_case {
	const struct mq_run *run;
	struct mq_system system; /* where parts differ: of the first */
	struct mq_case_part part[MQ_CASE_MAX_PARTS];
	uint32_t n_parts; /* kinds of machines, 1 where the row mixes none; 0 = a platform file */
	struct mq_software_record software;
	const char *spec; /* model, for mq_model_load */
	struct mq_train train;
	struct mq_shape shape;
	uint32_t zero_group, seq;
	bool offload_optimizer;
	uint32_t n_devices;
	bool image;           /* an image network: no layers, no sequence in the row */
	const char *platform; /* keys of `platform generate`, a name or a file: what -p takes */
	const char *network;  /* what was taken for the network, and whether the row says so */
	const char *unread;   /* words of the row on its network that nobody understood, or NULL */
	double vocab;         /* as simulated, before padding; 0 = the model has none */
	const char *guess;    /* what else was guessed, or NULL */
	struct mq_model *model;
	struct mq_plan plan;
	struct mq_job job; /* of `simulate` and of the pool; its platform is `platform` */
};

/* The tables behind the rows. */
struct mq_score_tables {
	struct mq_csv systems, models, publishers, overlay;
	const struct mq_calib *calib;
	const char *software_dir;
};
enum mq_status mq_score_tables_load(const struct mq_score_options *options, struct mq_score_tables *tables,
				    struct mq_err *err) MQ_MUST_CHECK;

/* Finds `platforms` where it is not given and loads its calibrations. */
enum mq_status mq_score_open(struct mq_score_options *options, struct mq_err *err) MQ_MUST_CHECK;

/* A degree of parallelism from a cell: 1 where it says none. */
static inline uint32_t mq_run_degree(double cell)
{
	return isnan(cell) || cell < 1 || cell > UINT32_MAX ? 1 : (uint32_t)cell;
}

/* Read all rows of a table. MQ_EINPUT: no such column as a table must have, a cell that is no number. */
enum mq_status mq_runs_load(const char *path, struct mq_arena *arena, struct mq_run **runs, uint32_t *n,
			    struct mq_err *err) MQ_MUST_CHECK;

/*
 * What a row leaves to its source. First the overlay and the publisher's line: software where the row names
 * none, columns that they fill or force. Then from models.csv (where it knows the model): the sequence, as
 * `seq` in `given`; the global batch of a published recipe, as a number in `batch`, or "each*NUMBER", the batch
 * of one device, which is then its micro-batch too. "tokens*SHARE" there says that
 * the row counts its batches in tokens, of which SHARE are not padding: they become sequences. From
 * throughput, in tokens or samples per second, and batch follows the step time. From the locator, where it
 * reads "DGX-2 (16x V100 32GB)": the memory of a GPU given as "V100"; the GPUs of a machine given as 2.
 */
void mq_run_complete(const struct mq_score_tables *tables, struct mq_run *run, struct mq_arena *arena);
/* The first part of it alone. */
void mq_run_publish(const struct mq_score_tables *tables, struct mq_run *run, struct mq_arena *arena);
/* A column by its name, as text; false: there is none of that name. `force`: whatever the row says. */
bool mq_run_put(struct mq_run *run, const char *column, const char *value, bool force, struct mq_arena *arena);

/* `run` is as mq_run_complete leaves it. MQ_EINPUT: the row cannot be scored; err says why in words for the
 * list of refused rows. */
enum mq_status mq_case_build(const struct mq_score_options *options, const struct mq_score_tables *tables,
			     const struct mq_run *run, struct mq_case *out, struct mq_err *err) MQ_MUST_CHECK;

/* Model, specification and software of a row, without its plan: what mq_case_build begins with. */
enum mq_status mq_case_model(const struct mq_score_tables *tables, struct mq_case *c, struct mq_arena *arena,
			     struct mq_err *err) MQ_MUST_CHECK;

/* FLOPs of the products for one sample, forward and backward, as those who publish "model TFLOP/s" count
 * them: nothing computed again, causal attention whole or by half. MQ_EINPUT: no model, no software. */
enum mq_status mq_case_flop(const struct mq_score_tables *tables, const struct mq_run *run, struct mq_arena *arena,
			    double *flop, struct mq_err *err) MQ_MUST_CHECK;

/*
 * The machines of a row, from its platform column or its words: fills part[], n_parts, system, platform and
 * network of `c`, whose run and n_devices are set; then the devices of its shape where they are not simply 0, 1, 2...
 *   platform   keys of `platform generate`, a shipped platform's name or a file
 *   gpu        one type, or several as "12x V100 + 4x T4" or "V100:12;T4:4" (ranks in that order)
 *   placement  stages separated by ';', their replicas by '|', each TYPE or TYPExTPn: what runs where;
 *              a single stage stands for all. Also taken from the notes ("placement A|B ; C|D").
 *   notes      numbers of devices ("3x p3.8xlarge (4 V100 each)") that `gpu` leaves open
 * Between the two, the degrees that a placement of several kinds gives: replicas, tp of each stage.
 * MQ_EINPUT: a type without a system, numbers that do not add up, replicas of one stage of unequal tp.
 */
enum mq_status mq_case_machines(const struct mq_score_tables *tables, struct mq_case *c, struct mq_arena *arena,
				struct mq_err *err) MQ_MUST_CHECK;
enum mq_status mq_case_degrees(const struct mq_score_tables *tables, struct mq_case *c, struct mq_arena *arena,
			       struct mq_err *err) MQ_MUST_CHECK;
enum mq_status mq_case_place(const struct mq_score_tables *tables, struct mq_case *c, struct mq_arena *arena,
			     struct mq_err *err) MQ_MUST_CHECK;
/*
 * Schedule, sync, sharding group, offload and recomputation of the shape, whose degrees are set, from the row's words:
 *   zero       "ZeRO-2", "stage 3", "1", "none"; "FSDP FULL_SHARD", "SHARD_GRAD_OP", "HSDP 4x8", "ZeRO-1 within 8";
 *              with "offload" the optimizer is the host's (ZeRO-Offload: stage 2)
 *   schedule   GPipe, 1F1B, interleaved, zero bubble, ZBV, DualPipeV
 *   recompute  none, selective, full; yes, no
 * An empty cell is as the software does, and so is one that nobody understands, which is told (mq_case_assume).
 * MQ_EINPUT: chunks of an interleaved schedule that nobody gives, parameters on disks.
 */
enum mq_status mq_case_words(struct mq_case *c, struct mq_arena *arena, struct mq_err *err) MQ_MUST_CHECK;
/* Adds to what is told of the row as assumed. */
void mq_case_assume(struct mq_case *c, struct mq_arena *arena, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Degrees, micro-batches, schedule, sync, recomputation, layers of each stage: the shape of the plan. */
enum mq_status mq_case_shape(const struct mq_score_tables *tables, struct mq_case *c, struct mq_arena *arena,
			     struct mq_err *err) MQ_MUST_CHECK;

/* What a network's words say ("4x100 Gb/s RoCE", "1x EDR InfiniBand per node", "3200 Gb/s EFA"): ports of a
 * machine (0 = not said), the rate of all of them together, and the fabric's name (NULL = not said). False:
 * no rate is said. */
struct mq_network_words {
	double ports, node_GBps;
	const char *fabric;
};
bool mq_network_read(const char *words, uint32_t gpus_per_node, struct mq_network_words *out);

/* Rows whose key is equal differ only in plan: same model, hardware, batch and precision. */
const char *mq_run_group(const struct mq_case *c, struct mq_arena *arena);

#endif
