/* plan.h - the decision: which devices run each op, how tensors are split, stages, micro-batches, pipeline schedule,
 * gradient sync, recompute.
 *
 * Canonical form: every op has an index into `config[]`; a config is a device list with a degree per named dimension.
 * Usual shapes (data, tensor, pipeline parallelism, placement) have builders below; dp, tp and pp are derived, never
 * stored.
 *
 * The devices of a config form a mesh in row-major order, outermost first:
 *     batch, expert, seq, spatial, head, out, in, (replica)
 * so the product of the degrees divides n_devices and what is left over is plain replication. In Megatron's terms that
 * is order tp-cp-ep-dp: tensor-parallel ranks are neighbours. mq_mesh_dims lists the order.
 *
 * Pipeline: ops of one stage are consecutive; `stage` counts model chunks from 0. With `virtual` = v chunks per device
 * (interleaved schedule) stage s runs on the devices of pipeline rank s mod (n/v). V schedules (zbv, dualpipe-v) have
 * two chunks per device, placed in a V: the first and the last stage share rank 0. Only mq_pipeline_rank and
 * mq_pipeline_stage encode this. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_PLAN_H
#define MAQUETTE_PLAN_H

#include "maquette/arena.h"
#include "maquette/cluster.h"
#include "maquette/decisions.h"
#include "maquette/model.h"
#include "maquette/types.h"

/* Pipeline schedules. A new one has its name here, a row in pipelines.c, and its order in lowering/pipeline.c; files of
 * platforms/software/ list the ones they run. */
enum mq_pipeline {
	MQ_PIPE_GPIPE,
	MQ_PIPE_1F1B,
	MQ_PIPE_INTERLEAVED,
	MQ_PIPE_ZB_H1,
	MQ_PIPE_ZBV,
	MQ_PIPE_DUALPIPE_V,
	MQ_N_PIPELINES
};
enum mq_sync {
	MQ_SYNC_ALLREDUCE,
	MQ_SYNC_PS,
	MQ_SYNC_DUPLICATE,
	MQ_SYNC_ZERO1,
	MQ_SYNC_ZERO2,
	MQ_SYNC_ZERO3,
	MQ_N_SYNCS
};
enum mq_recompute { MQ_RECOMPUTE_NONE, MQ_RECOMPUTE_SELECTIVE, MQ_RECOMPUTE_FULL, MQ_N_RECOMPUTES };
/* What recompute_num_layers counts (decisions.h). */
enum mq_recompute_method { MQ_RECOMPUTE_BLOCK, MQ_RECOMPUTE_UNIFORM, MQ_N_RECOMPUTE_METHODS };
/* Properties of a pipeline schedule other than the order of its passes. */
struct mq_pipeline_kind {
	const char *name;
	uint32_t least_chunks, most_chunks; /* per device */
	bool v;                             /* its two chunks are placed in a V */
	bool splits;                        /* weight gradients are a separate pass */
	bool keeps_all;                     /* all forward passes come before the first backward pass */
	bool turns;                         /* forward and backward passes can alternate (overlap_experts) */
	bool rounds;           /* with several chunks micro-batches must be multiples of the pipeline ranks */
	uint32_t least_rounds; /* in training, least micro-batches per pipeline rank */
	double bubble; /* idle passes of a stage per stage before it; a pass: one chunk if their number is free, else
			* all */
};
MQ_API const struct mq_pipeline_kind *mq_pipeline_kind(enum mq_pipeline p);
MQ_API const char *mq_pipeline_name(enum mq_pipeline p);   /* gpipe 1f1b interleaved zb-h1 zbv dualpipe-v */
MQ_API const char *mq_sync_name(enum mq_sync s);           /* allreduce ps duplicate zero1 zero2 zero3 */
MQ_API const char *mq_recompute_name(enum mq_recompute r); /* none selective full */
MQ_API const char *mq_recompute_method_name(enum mq_recompute_method m); /* block uniform */
MQ_API bool mq_pipeline_is_v(enum mq_pipeline p);
MQ_API bool mq_pipeline_splits(enum mq_pipeline p);
/* Idle passes of a stage per stage before it; a pass is a micro-batch over all chunks of a device. */
MQ_API double mq_pipeline_bubble(enum mq_pipeline p, uint32_t chunks);
/* Can the schedule run this number of micro-batches? If not, `message` tells why. */
MQ_API bool mq_pipeline_deals(enum mq_pipeline p, uint32_t n_ranks, uint32_t chunks, uint32_t micro_batches, bool infer,
			      char message[256]);
/* Can a device have this number of chunks? */
MQ_API bool mq_pipeline_takes(enum mq_pipeline p, uint32_t chunks);
/* The same as an error with the remedy. */
MQ_API enum mq_status mq_pipeline_chunks(enum mq_pipeline p, uint32_t chunks, struct mq_err *err);
/* The pipeline rank (of n_ranks) of a stage, and the stage of a rank's chunk. */
MQ_API uint32_t mq_pipeline_rank(enum mq_pipeline p, uint32_t n_ranks, uint32_t stage);
MQ_API uint32_t mq_pipeline_stage(enum mq_pipeline p, uint32_t n_ranks, uint32_t rank, uint32_t chunk);

struct mq_config {
	uint32_t n_devices;
	uint32_t *device;          /* [n_devices] ranks of the cluster, mesh order */
	uint32_t split[MQ_N_DIMS]; /* degrees, each >= 1 */
	double *share;             /* [split[MQ_DIM_BATCH]] weights of the batch coordinates, or NULL
				    * = equal */
	uint32_t stage;
	uint8_t sync;      /* enum mq_sync */
	uint8_t recompute; /* enum mq_recompute */
};

struct mq_plan {
	uint32_t n_ops, n_configs;
	uint32_t *config_of;      /* [n_ops] */
	struct mq_config *config; /* [n_configs] */
	uint32_t micro_batches;   /* per step, >= 1 */
	uint32_t virtual;         /* chunks per device: 1 unless interleaved, 2 for V schedules */
	uint8_t pipeline;         /* enum mq_pipeline */
	uint32_t explicit;        /* MQ_EXPLICIT_...: decisions that the plan makes itself; the others are the training
				   * software's (mq_software_apply_defaults) */
#define MQ_DECISION(id, bit, type, field, ...) type field;
#include "maquette/decisions.def"
	double engine_objective; /* the engine's own value of the plan, NaN = none; not hashed */
	const char *engine_unit; /* unit of engine_objective; not hashed */
	const char *usual;       /* the name of such a plan among the software's users, NULL = none; not hashed */
};

/* Has this pipeline of `stages` stages forward and backward passes that can alternate, given two micro-batches? */
MQ_API bool mq_plan_takes_turns(const struct mq_plan *plan, uint32_t stages);

/* The mesh order of the dimensions, outermost first. */
MQ_API extern const enum mq_dim mq_mesh_dims[MQ_N_DIMS];

/* An empty plan for a model: all defaults, config_of zeroed, no configs. */
MQ_API void mq_plan_init(struct mq_plan *plan, struct mq_arena *arena, uint32_t n_ops);
MQ_API void mq_plan_copy(struct mq_plan *to, const struct mq_plan *from, struct mq_arena *arena);
/* Appends a config with room for n devices (all degrees 1, ranks to be filled); returns its index. */
MQ_API uint32_t mq_plan_add_config(struct mq_plan *plan, struct mq_arena *arena, uint32_t n_devices);
/* The index of a config equal to `like`: the plan's newest if it is equal, else a copy, which is added. */
MQ_API uint32_t mq_plan_intern(struct mq_plan *plan, const struct mq_config *like, struct mq_arena *arena);
/* Makes a plan with `times` as many replicas, devices and samples; false: the devices are in no order that can be
 * continued. */
MQ_API bool mq_plan_times(const struct mq_plan *plan, const struct mq_model *model, uint32_t times,
			  struct mq_arena *arena, struct mq_plan *out);
/* Number of stages in the configs. */
MQ_API uint32_t mq_plan_stage_count(const struct mq_plan *plan);

/* The invariants of a plan for this model on this cluster: indices, ranks that exist, degrees that divide, splits the
 * op allows (and extents at least the degree), stages in topological order, schedule and virtual stages consistent,
 * samples enough for every micro-batch and share. MQ_EINPUT with place, value and remedy. */
MQ_API enum mq_status mq_plan_check(const struct mq_plan *plan, const struct mq_model *model,
				    const struct mq_cluster *cluster, const struct mq_train *train, struct mq_err *err);

/* Hash of the canonical form: configs in order of first use, duplicates merged. */
MQ_API uint64_t mq_plan_hash(const struct mq_plan *plan);
/* One line: "dp 2 tp 4 pp 2, 16 micro-batches, 1f1b, recompute none" or "placement on 3 devices". */
MQ_API const char *mq_plan_describe(const struct mq_plan *plan, const struct mq_cluster *cluster,
				    struct mq_arena *arena);

/* dp, tp, pp, ... of a plan whose stages are all equal; else zeros. */
struct mq_degrees {
	uint32_t dp, tp, pp, cp, ep;
	uint32_t etp;       /* of experts; tp where there are none */
	uint32_t ulysses;   /* see mq_shape; 1 = none */
	uint32_t n_devices; /* distinct devices used, whatever the shape */
};
MQ_API struct mq_degrees mq_plan_degrees(const struct mq_plan *plan);

/* Samples of one micro-batch for each batch coordinate of a config, samples[config->split[MQ_DIM_BATCH]] (largest
 * remainder, ties to the lowest coordinate); their sum is batch / micro_batches. */
MQ_API void mq_plan_samples(const struct mq_plan *plan, const struct mq_config *config, const struct mq_train *train,
			    struct mq_arena *scratch, double *samples);

/* JSON, documented in README.md; ops may be named one by one or in runs. `path` is for messages. */
MQ_API enum mq_status mq_plan_load(const char *path, const struct mq_model *model, const struct mq_cluster *cluster,
				   struct mq_arena *arena, struct mq_plan *plan, struct mq_err *err);
MQ_API enum mq_status mq_plan_save(const struct mq_plan *plan, const struct mq_model *model,
				   const struct mq_cluster *cluster, const char *path, struct mq_err *err);
/* Flat bytes of the canonical form, for pipes and caches. */
MQ_API void *mq_plan_pack(const struct mq_plan *plan, struct mq_arena *arena, size_t *size);
MQ_API enum mq_status mq_plan_unpack(const void *bytes, size_t size, struct mq_arena *arena, struct mq_plan *plan,
				     struct mq_err *err);

/* ---- builders -------------------------------------------------------------------------------- */

/* Data x tensor x pipeline (x context x expert) parallelism of a layered model. */
struct mq_shape {
	uint32_t dp, tp, pp, cp, ep; /* dp includes the expert-parallel ranks; 0 counts as 1 */
	uint32_t etp; /* tensor-parallel degree of experts, which are then distributed over all dp x cp x tp ranks of a
		       * stage, neighbours first (Megatron core's parallel folding): ep x etp is a multiple of cp x tp,
		       * or divides it. 0 = experts are split over tp like other ops, and distributed over dp alone */
	uint32_t ulysses; /* number of neighbours among cp ranks that exchange parts of the sequence for heads around
			  * attention (Jacobs et al. 2023); the ring of keys and values has cp / ulysses ranks. 0 counts
			   * as 1: a ring of all */
	uint32_t virtual; /* chunks per device; 0 counts as 1 */
	uint32_t micro_batches;
	uint8_t pipeline, sync, recompute;
	bool sequence_parallel;       /* norms and dropouts split along the sequence over tp */
	bool vocab_parallel;          /* embedding, head and loss split over tp */
	const uint32_t *stage_layers; /* [pp * virtual] layers per stage, or NULL = even: first stages
				       * get the remainder; embedding joins the first, head the last, which
				       * may have no layer */
	const uint32_t *device;       /* [dp*cp*tp*pp] ranks: [stage][dp][cp][tp], or NULL = 0, 1, 2.. */
	const uint32_t *stage_tp;     /* [pp] tensor-parallel degree of each stage, or NULL = tp */
	const double *share;          /* [dp] batch weights for every stage, or NULL */
};
/* A degree of a shape, or chunks of a device; 0 counts as 1. */
static inline uint32_t mq_or_1(uint32_t degree)
{
	return degree ? degree : 1;
}
/* An array for mq_shape.device whose ranks pass through a replica's stages before the next replica (Megatron's
 * --use-tp-pp-dp-mapping), [dp*cp*tp*pp]. All stages must have degree tp. */
MQ_API const uint32_t *mq_shape_replica_major(const struct mq_shape *shape, struct mq_arena *arena);
/* MQ_EINPUT: the model cannot be divided so (layers < stages, heads not divisible by tp, ...). */
MQ_API enum mq_status mq_plan_from_shape(const struct mq_shape *shape, const struct mq_model *model,
					 const struct mq_cluster *cluster, struct mq_arena *arena, struct mq_plan *plan,
					 struct mq_err *err);

/* ---- and back -------------------------------------------------------------------------------- */

/* One pipeline stage (model chunk) of a plan as a launcher sees it. */
struct mq_plan_stage {
	uint32_t layers, n_devices, dp, tp, cp, ep;
	uint32_t heads;         /* parts into which heads are divided: tp times ulysses */
	uint32_t etp;           /* tensor-parallel degree of ops split along experts; 0 = no such ops */
	const uint32_t *device; /* [n_devices] in mesh order, borrowed from the plan */
	uint8_t sync, recompute;
	bool uneven; /* replicas get unequal shares of the batch */
};
/* The stages of a valid plan, in order. MQ_EINPUT: a stage that no launcher can express (its ops differ in devices,
 * data-parallel degree, sync or recomputation; a layer lies on two stages; a spatial split). */
MQ_API enum mq_status mq_plan_stages(const struct mq_plan *plan, const struct mq_model *model, struct mq_arena *arena,
				     struct mq_plan_stage **stage, uint32_t *n, struct mq_err *err);
/* The shape whose plan has exactly these configs, but for shares of the batch; its arrays live in `arena`. MQ_EINPUT:
 * there is none; names the first difference. */
MQ_API enum mq_status mq_plan_to_shape(const struct mq_plan *plan, const struct mq_model *model,
				       const struct mq_cluster *cluster, const struct mq_plan_stage *stage,
				       uint32_t n_stages, struct mq_arena *arena, struct mq_shape *shape,
				       struct mq_err *err);

/* ---- placements and splits ---------------------------------------------------------------------- */

/* One device per op: device_of[n_ops]. Ops of one device share a config; one stage. */
MQ_API void mq_plan_from_placement(const uint32_t *device_of, const struct mq_model *model, struct mq_arena *arena,
				   struct mq_plan *plan);

/* Split of one op under tensor parallelism of degree t, Megatron's rules: column- and row-parallel GEMMs, heads,
 * vocabulary; norms and element-wise ops whole, or along the sequence when sequence_parallel. Fills `split` (batch
 * excepted, set to 1). False, and `split` whole: the op cannot be split. */
MQ_API bool mq_tensor_split(const struct mq_model *model, uint32_t op, uint32_t t, bool sequence_parallel,
			    bool vocab_parallel, uint32_t split[MQ_N_DIMS]);

#endif
