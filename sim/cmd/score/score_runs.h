/*
 * score_runs.h - from a row of a table of measured training runs to a question the simulator answers.
 *
 * What a row leaves open is filled in from tables that a user can extend, never from the row's file:
 *   platforms/systems.csv  the hardware behind `gpu`, `intra_link`, `inter_link`
 *   platforms/models.csv   the model behind `model` (public model cards)
 *   platforms/stacks.csv   the training software behind `source`
 *   platforms/recipes.csv  what published recipes of that software set otherwise
 */
#ifndef MQ_CMD_SCORE_SCORE_RUNS_H
#define MQ_CMD_SCORE_SCORE_RUNS_H

#include "cmd/score/score.h"
#include "core/cluster.h"
#include "core/plan.h"
#include "core/result.h"

/* One row as read: text as is, numbers NaN where the cell is empty. Borrowed from the table. */
struct mq_run {
	const char *id, *model, *gpu, *intra, *inter, *precision, *zero, *stage_layers, *placement;
	const char *schedule, *recompute, *metric, *unit, *basis, *status, *source, *provenance;
	const char *notes, *stack, *locator;
	double params_b, layers, hidden, ffn, heads, kv_heads, seq, vocab, gpus, gpus_per_node, nodes;
	double tp, pp, dp, vp, cp, ep, mbs, gbs, accum, value, step_time_s, max_mem_GB;
	uint32_t line;
};

/* Hardware: a row of systems.csv. */
struct mq_system {
	const char *name, *device;
	const char *platform;      /* options of the platform generator, but gpu, nodes and gpus */
	uint32_t domain;           /* GPUs joined inside a node where that is not gpus_per_node; 0 */
	double host;               /* time of its CPUs per kernel / that of the stacks' values */
};

/* Which tensors have their channels first: none, those of 32 bits, these and all of volumes, all. */
enum mq_channels_first { MQ_FIRST_NONE, MQ_FIRST_32, MQ_FIRST_32_VOLUMES, MQ_FIRST_ALL };

/* How software runs image networks. */
struct mq_image_stack {
	int channels_first;        /* tensors that lie so: enum mq_channels_first */
	double conv_passes;        /* over tensors that tensor cores want otherwise, see mq_device_calib */
	double traffic;            /* bytes of element-wise kernels / one kernel per op of the graph */
	double step_s;             /* host time of a step that nothing hides (a loss is fetched) */
	double sync_s;             /* the same with several devices: agreement on what to reduce */
};

/* Training software: a row of stacks.csv. */
struct mq_stack {
	const char *name;
	bool fused_attention, sequence_parallel, vocab_parallel, overlap_grads, scatter_gather;
	bool broadcast_params, early_stop; /* see mq_plan */
	uint32_t vocab_multiple;   /* vocabulary padded to a multiple of this times tp; 0 = as given */
	double bucket_B;           /* gradients reduced together; 0 = a stage's */
	bool grad_as_dtype;        /* gradients are reduced in the training dtype */
	enum mq_dtype grad_dtype;  /* otherwise */
	enum mq_sync sync;         /* where the row does not say */
	bool full_first;           /* uneven stages: ceil(layers/stages) each until none are left */
	uint32_t chunks;           /* per device where a row is interleaved and does not say; 0 = unknown */
	bool split_batch;          /* a pipeline divides a replica's one batch by its stages */
	double traffic;            /* bytes of element-wise kernels / fused minimum */
	double traffic_32;         /* elements that they move in 32-bit training / in 16-bit training */
	double scores;             /* as traffic, of the kernels over stored attention scores */
	double cast_B, accum_B;    /* bytes per parameter and micro-batch: in 16-bit training; where
				    * micro-batches are accumulated */
	double update_B;           /* bytes per parameter and step beside the optimizer's least */
	double reduce_B;           /* more of them where gradients are reduced: copies to and from */
	double update_calls;       /* kernels that update an op's parameters */
	bool tf32;                 /* fp32 products use TF32 where the device has it */
	double attention;          /* its fused attention / the device's attention_eff */
	double host;               /* its host time per kernel / the device's host_launch_s */
	bool launch_waits;         /* the host waits for each kernel before it launches the next */
	double loss_B;             /* per logit, at the worst moment of the cross-entropy */
	double flat_elems;         /* gradients reduced through one flat copy */
	bool grads_twice;          /* gradients are held in 16 and in 32 bits */
	bool saves_casts, frees_outputs; /* see mq_device_calib */
	double reserve_B;          /* context, framework, libraries, workspaces */
	double comm_B;             /* buffers of its communicators where NVLink joins GPUs */
	enum mq_recompute recompute; /* where the row does not say */
	bool own_recompute;        /* whatever the row says */
	bool selective_ops;        /* "selective" keeps attention and every second product */
	double fp8_cast_B;         /* see mq_train */
	double mx_cast_B;          /* the same with a scale for each block of 32 elements (MXFP8) */
	bool fused_experts, fp8_attention, merge_copies, repeat_kv; /* likewise */
	struct mq_image_stack images; /* what applies to image networks alone */
	double ring;               /* speed of a ring's later steps of attention / of the first */
	bool overlap_experts, overlap_tp; /* see mq_plan; where the row's plan has what they take */
	bool half_attention;       /* published model FLOPs count causal attention by half */
	double mbs;                /* micro-batch where the row does not say; 0 = then it is refused */
	const char *recompute_ops; /* patterns of the ops of a layer that are computed again; "" = none */
	const char *precision;     /* where the row does not say; "" = 16 bit */
};

/* Machines of one kind in a row that mixes several: `gpus` devices from rank `first` on. */
struct mq_case_part {
	struct mq_system system;
	uint32_t gpus, nodes, per_node, first;
};

enum { MQ_CASE_MAX_PARTS = 8 };

/* A row made ready. */
struct mq_case {
	const struct mq_run *run;
	struct mq_system system;   /* where parts differ: of the first */
	struct mq_case_part part[MQ_CASE_MAX_PARTS];
	uint32_t n_parts;          /* kinds of machines, 1 where the row mixes none */
	struct mq_stack stack;
	const char *spec;          /* model, for mq_model_load */
	struct mq_train train;
	struct mq_shape shape;
	uint32_t zero_group, seq;
	uint32_t n_devices;
	bool image;                /* an image network: no layers, no sequence in the row */
	const char *platform;      /* a name for score.csv */
};

/* The tables behind the rows. */
struct mq_score_tables {
	struct mq_csv systems, models, stacks, recipes;
};
enum mq_status mq_score_tables_load(const struct mq_score_options *options,
				    struct mq_score_tables *tables, struct mq_err *err) MQ_MUST_CHECK;

/* Finds `platforms` where it is not given, loads its calibrations and applies --set to them. */
enum mq_status mq_score_open(struct mq_score_options *options, struct mq_err *err) MQ_MUST_CHECK;

/* Read all rows of a table. MQ_EINPUT: no such column as a table must have, a cell that is no number. */
enum mq_status mq_runs_load(const char *path, struct mq_arena *arena, struct mq_run **runs,
			    uint32_t *n, struct mq_err *err) MQ_MUST_CHECK;

/*
 * What a row leaves to its source. From models.csv (where it knows the model): the sequence, as `seq` in
 * `given`; the global batch of a published recipe, as a number in `batch`, or "each*NUMBER", the batch of
 * one device, which is then its micro-batch too. "tokens*SHARE" there says that
 * the row counts its batches in tokens, of which SHARE are not padding: they become sequences. From
 * throughput, in tokens or samples per second, and batch follows the step time. From the locator, where it
 * reads "DGX-2 (16x V100 32GB)": the memory of a GPU given as "V100"; the GPUs of a machine given as 2.
 */
void mq_run_complete(const struct mq_score_tables *tables, struct mq_run *run, struct mq_arena *arena);

/* `run` is as mq_run_complete leaves it. MQ_EINPUT: the row cannot be scored; err says why in words for the list of refused rows. */
enum mq_status mq_case_build(const struct mq_score_tables *tables, const struct mq_calib *calib,
			     const struct mq_run *run, struct mq_arena *arena, struct mq_case *out,
			     struct mq_err *err) MQ_MUST_CHECK;

/* FLOPs of the products for one sample, forward and backward, as those who publish "model TFLOP/s" count
 * them: nothing computed again, causal attention whole or by half (mq_stack). MQ_EINPUT: no model, no stack. */
enum mq_status mq_case_flop(const struct mq_score_tables *tables, const struct mq_run *run,
			    struct mq_arena *arena, double *flop, struct mq_err *err) MQ_MUST_CHECK;

/*
 * The kinds of machines of a row: fills part[], n_parts, system and platform of `c`, whose run and
 * n_devices are set; then the devices of its shape where they are not simply 0, 1, 2...
 *   gpu        one type, or several as "12x V100 + 4x T4" (ranks in that order)
 *   placement  stages separated by ';', their replicas by '|', each TYPE or TYPExTPn: what runs where;
 *              a single stage stands for all. Also taken from the notes ("placement A|B ; C|D").
 *   notes      numbers of devices ("3x p3.8xlarge (4 V100 each)") that `gpu` leaves open
 * Between the two, the degrees that a placement of several kinds gives: replicas, tp of each stage.
 * MQ_EINPUT: a type without a system, numbers that do not add up, replicas of one stage of unequal tp.
 */
enum mq_status mq_case_machines(const struct mq_score_tables *tables, struct mq_case *c,
				struct mq_arena *arena, struct mq_err *err) MQ_MUST_CHECK;
enum mq_status mq_case_degrees(const struct mq_score_tables *tables, struct mq_case *c,
			       struct mq_arena *arena, struct mq_err *err) MQ_MUST_CHECK;
enum mq_status mq_case_place(const struct mq_score_tables *tables, struct mq_case *c,
			     struct mq_arena *arena, struct mq_err *err) MQ_MUST_CHECK;
/* Layers of each stage or chunk in shape.stage_layers, NULL = even: as the row lists them; where it does not,
 * as its software divides `layers`. mq_case_build does this where the model's spec names its layers.
 * MQ_EINPUT: the row's list does not fit. */
enum mq_status mq_case_stages(struct mq_case *c, uint32_t layers, struct mq_arena *arena,
			      struct mq_err *err) MQ_MUST_CHECK;
/* The options of the platform generator that make the machines of `c`. */
struct mq_platform_spec;
enum mq_status mq_case_platform(const struct mq_case *c, struct mq_platform_spec *spec,
				struct mq_arena *arena, struct mq_err *err) MQ_MUST_CHECK;

/* Simulate (or walk analytically) a case; only inside an actor of the loaded platform. */
enum mq_status mq_case_judge(const struct mq_case *c, struct mq_cluster *cluster,
			     const struct mq_calib *shared, bool analytic, struct mq_arena *arena,
			     struct mq_result *result, struct mq_err *err) MQ_MUST_CHECK;

/* The worker's side of a `score`, see score_worker.c. */
enum mq_status mq_score_work(const struct mq_score_options *options, const char *platform,
			     struct mq_err *err) MQ_MUST_CHECK;

/* Rows whose key is equal differ only in plan: same model, hardware, batch and precision. */
const char *mq_run_group(const struct mq_case *c, struct mq_arena *arena);

#endif
