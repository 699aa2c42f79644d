/* software.h - training software: how it runs a plan (kernels, host time, overlaps, memory), and the plans it can run.
 *
 * Software is an input of every question, as are model, cluster, calibration and plan. One file per software,
 * platforms/software/NAME.json; a file's presence is its registration:
 *   {"maquette_software": 1, "inherits": "OTHER", "about": "...",
 *    "listed": true, "target": "megatron", "release": "Megatron-LM core_v0.19.0", "flags": "--bf16",
 *    "FIELD": {"value": x, "from": "documented"|"counted"|"fitted", "source": "..."}, ...,
 *    "runs": {"schedules": ["1f1b", ...], "sync": [...], "recompute": [...], "devices": ["gpu"],
 *             "uneven_stages": true, ...}}
 * "listed" (not inherited) marks software that `runs_in` names; "target" is the `export --to` whose settings are this
 * software's, as of "release"; export adds "flags" to them. A value with "from": "fitted" also has "rows" (the fitted
 * data) and "interval" ([low, high]). A value missing in a file is its parent's, or else the default of the field table
 * (mq_software_fields).
 *
 * Decisions that a plan leaves open (mq_plan.explicit) are the software's: mq_software_apply_defaults fills them in,
 * and lowering sees only resolved plans.
 *
 * Not modelled: versions of libraries below the software (cuBLAS, NCCL), and the software's effects on numerics and
 * convergence. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_SOFTWARE_H
#define MAQUETTE_SOFTWARE_H

#include "maquette/calib.h"
#include "maquette/model.h"
#include "maquette/opt.h"
#include "maquette/plan.h"

/* Kernels of norms, rotary positions, activations, dropout, biases: FUSED, one kernel; EAGER, PyTorch's, with biases
 * added by GEMMs; APART, the same with biases added by separate kernels; XLA's fusions; TENSORFLOW, op by op. */
enum mq_fusion { MQ_FUSED, MQ_EAGER, MQ_APART, MQ_XLA, MQ_TENSORFLOW };
/* Transpose copies around attention: NONE; OUTPUT (output, and dQ, dK, dV packed); ALL (Q, K, V, output); PACKED (Q, K,
 * V of fused attention, K and V twice more: flash-attention varlen). */
enum mq_transpose_copies { MQ_HEADS_NONE, MQ_HEADS_OUTPUT, MQ_HEADS_ALL, MQ_HEADS_PACKED };
/* Keys and values repeated for each query head of their group (GQA): NONE; before ATTENTION; before rotary
 * POSITIONS. */
enum mq_repeat_kv { MQ_REPEAT_NONE, MQ_REPEAT_ATTENTION, MQ_REPEAT_POSITIONS };
/* Convolutions with channels-first tensors: NONE; 32-bit ones; 32-bit and all 3D ones; ALL. */
enum mq_channels_first { MQ_FIRST_NONE, MQ_FIRST_32, MQ_FIRST_32_VOLUMES, MQ_FIRST_ALL };
/* Element-wise ops of image networks fused into the kernel before them: NONE; NORM_16, those after a batch norm in 16
 * bits, channels-last (cuDNN's norm with addition and activation); ALL, whole chains (compilers); CONV, with frozen
 * norms, into the convolution before them (apex's ConvFrozenScaleBiasReLU, cuDNN's runtime fusion). */
enum mq_elementwise_fusion { MQ_CHAINS_NONE, MQ_CHAINS_NORM_16, MQ_CHAINS_ALL, MQ_CHAINS_CONV };
/* Batch norms of image networks in 16 bits fused with convolutions: APART, none; STATS, the convolution before a norm
 * sums up its output for it (cuDNN's CONV_BNSTATS); MAINLOOP, those after the norm also normalize and activate their
 * input (SCALE_BIAS_ACTIVATION_CONV), so that the norm has no kernel in the forward pass. */
enum mq_norm_convolution { MQ_NORMS_APART, MQ_NORMS_STATS, MQ_NORMS_MAINLOOP };
/* Stages whose next pass waits for their send to finish: NONE; PLAIN, stages with one chunk per device; ALL. */
enum mq_blocking_sends { MQ_SENDS_NONE, MQ_SENDS_PLAIN, MQ_SENDS_ALL };
/* Ops that `recompute: selective` recomputes: the attention core that stores scores; that core, fused or not; all but
 * attention and every second GEMM; every second layer; the ops that recompute_ops names. */
enum mq_selective {
	MQ_SELECTIVE_ATTENTION,
	MQ_SELECTIVE_CORE_ATTN,
	MQ_SELECTIVE_OPS,
	MQ_SELECTIVE_LAYERS,
	MQ_SELECTIVE_NAMED
};
/* Type of reduced gradients: the training type, or one of these. */
enum mq_grad_type { MQ_GRAD_AS_TRAINED, MQ_GRAD_FP32, MQ_GRAD_BF16, MQ_GRAD_FP16 };
/* Gradients in both 16 and 32 bits: ONCE, never; STEP, 16-bit ones are copied to fp32 for the optimizer step; BOTH, and
 * 16-bit ones are also kept beside accumulated fp32 ones. */
enum mq_grads_twice { MQ_GRADS_ONCE, MQ_GRADS_STEP, MQ_GRADS_BOTH };
/* Allocator of device memory: OTHER, with the calibration's fragmentation; PYTORCH (schedule/allocator.h); EXPANDABLE,
 * PyTorch's with expandable segments, and PLANNED, all tensors placed before the run: no fragmentation. */
enum mq_allocator_kind { MQ_ALLOCATOR_OTHER, MQ_ALLOCATOR_PYTORCH, MQ_ALLOCATOR_EXPANDABLE, MQ_ALLOCATOR_PLANNED };
/* Partition of layers into stages. If stages do not divide the layers: EVEN, the first stages have one more; CEIL, all
 * but the last have ceil(layers / stages); ENDS, embedding and head count as a layer each. In all cases: COST, a stage
 * takes layers until their GEMM parameters reach its share of the total, so the last stages may have none; head and
 * loss are then on the first stage without layers. */
enum mq_stage_rule { MQ_STAGES_EVEN, MQ_STAGES_CEIL, MQ_STAGES_ENDS, MQ_STAGES_COST };

/* Models that the software implements: any; of repeated layers; of layers of equal width. */
enum mq_models {
	MQ_MODELS_ANY,
	MQ_MODELS_LAYERS,
	MQ_MODELS_ONE_WIDTH,
	MQ_MODELS_LLAMA_LIKE, /* of equal width with RMS norms, rotary positions and GEMMs without biases */
	MQ_N_MODELS
};
MQ_API const char *mq_models_name(enum mq_models m); /* any layers one-width llama-like */

/* Bits of `switches`: 1u << BIT of decisions.h; algo and proto share one. */
enum { MQ_N_SWITCHES = MQ_N_DECISIONS - 1 };
MQ_API const char *mq_switch_name(uint32_t i); /* of bit i */
/* Bits of `sequence` and `vocab`: whole or split under tensor parallelism is allowed. */
enum { MQ_WHOLE = 1 << 0, MQ_SPLIT = 1 << 1 };

/* Yes-or-no rules of a space: X(key in a file, value without a file). */
#define MQ_SPACE_FLAGS(X)                                                                                          \
	X(tensor, true)                                                                                            \
	X(pipeline, true)                                                                                          \
	X(context, true)                                                                                           \
	X(ulysses, true) /* context-parallel ranks that exchange heads for parts of the sequence */                \
	X(expert, true)                                                                                            \
	X(expert_tensor, true)      /* experts split over tensor-parallel ranks under expert parallelism */        \
	X(expert_inside, true)      /* expert parallelism over fewer than all tensor and context parallel ranks */ \
	X(expert_bias, true)        /* experts with biases split over tensor-parallel ranks */                     \
	X(expert_capacity, true)    /* experts that take so many tokens and drop the rest */                       \
	X(mixtures, true)           /* models of experts */                                                        \
	X(unsharded_half, true)     /* 16-bit training with tensor or pipeline parallelism and nothing sharded */  \
	X(fp8_params_whole, true)   /* fp8_params with fp32 masters that ZeRO does not shard, or on the host */    \
	X(zero_pipeline, true)      /* ZeRO-2 and 3 with pipeline stages */                                        \
	X(tensor_pipeline, true)    /* tensor parallelism with pipeline stages */                                  \
	X(uneven_stages, true)      /* stages of other numbers of layers than its `partition` makes */             \
	X(ragged_rounds, true)      /* interleaved: micro-batches that are no multiple of the stages */            \
	X(unequal_degrees, true)    /* stages of unequal degrees or numbers of devices */                          \
	X(shares, true)             /* uneven shares of the batch */                                               \
	X(replica_major, true)      /* ranks may go through a replica's stages before the next replica */          \
	X(any_order, true)          /* ranks need not go through the machines one after the other */               \
	X(offload_pipeline, false)  /* offload_layers with pipeline stages */                                      \
	X(offload_recompute, false) /* offload_layers with recomputation */                                        \
	X(offload_all, false)       /* offload_layers of all layers */                                             \
	X(placement, true)          /* ops placed one by one, splits that no shape has */

/* Plans that a software can run, "runs" of its file; keys are named as here unless another name is given. Lists are
 * bits 1u << enum value. Without a key, a list allows everything, a flag is as in MQ_SPACE_FLAGS. */
struct mq_software_space {
	uint32_t schedules, recomputes, dtypes; /* "recompute"; dtypes: of training and of GEMMs */
	uint32_t syncs;                         /* "sync"; applies only with more than one replica */
	uint32_t sync_split;                    /* syncs that work with tensor, context or expert parallelism */
	uint32_t switches;                      /* decisions that its settings can make (decisions.h) */
	uint32_t sequence, vocab;               /* "sequence_parallel", "vocab_parallel": lists of no and yes */
	uint32_t models;                        /* enum mq_models */
	uint32_t parts;                         /* allowed in models: bits of enum mq_model_part */
	bool gpu, cpu;                          /* "devices" */
#define MQ_MEMBER(key, initial) bool key;
	MQ_SPACE_FLAGS(MQ_MEMBER)
#undef MQ_MEMBER
};

/* The yes-or-no rules of a space, named as in files; ended by name NULL. */
struct mq_space_flag {
	const char *name;
	size_t offset; /* of the bool in struct mq_software_space */
};
MQ_API const struct mq_space_flag *mq_space_flags(void);
static inline bool mq_space_has(const struct mq_software_space *s, const struct mq_space_flag *f)
{
	return *(const bool *)((const char *)s + f->offset);
}

struct mq_software {
	const char *name; /* as asked for: "NAME" or "NAME,key=value,..." */
	const char *file; /* the software's own name, without options */
	const char *about;
	const char *target;  /* argument of `export --to`; NULL = none */
	const char *release; /* release of the framework that has these settings, named as in its registry; or NULL */
	bool halves_causal;  /* its logged FLOP count half of causal attention ("log_flop": "causal"; else "whole") */
	const char *flags;   /* flags that export always adds; "" = none */
#define MQ_NUM(group, field, ...)  double field;
#define MQ_INT(group, field, ...)  uint32_t field;
#define MQ_YES(group, field, ...)  bool field;
#define MQ_WORD(group, field, ...) uint32_t field;
#define MQ_TEXT(group, field, ...) const char *field;
#include "maquette/software_fields.def"
	struct mq_software_space runs;
};

enum {
	MQ_N_SOFTWARE_FIELDS = 0
#define MQ_NUM(...)  +1
#define MQ_INT(...)  +1
#define MQ_YES(...)  +1
#define MQ_WORD(...) +1
#define MQ_TEXT(...) +1
#include "maquette/software_fields.def"
};

enum mq_software_group { MQ_SW_KERNELS, MQ_SW_HOST, MQ_SW_COMMUNICATION, MQ_SW_MEMORY, MQ_SW_DEFAULTS, MQ_N_SW_GROUPS };
MQ_API const char *mq_software_group_name(enum mq_software_group group);

/* One row per field: reader, options, documentation and tables of runs use it. */
struct mq_software_field {
	struct mq_opt opt; /* of struct mq_software */
	const char *unit;
	enum mq_software_group group;
};
MQ_API const struct mq_software_field *mq_software_fields(void); /* ended by opt.type MQ_OPT_END */
/* Index of the field of this name; UINT32_MAX = none. */
MQ_API uint32_t mq_software_field_find(const char *name);
/* The present name of a field by its name before version 0.3; NULL = not an old name. */
MQ_API const char *mq_software_renamed(const char *old);

enum mq_evidence { MQ_ASSUMED, MQ_DOCUMENTED, MQ_COUNTED, MQ_FITTED, MQ_N_EVIDENCE };
MQ_API const char *mq_evidence_name(enum mq_evidence evidence);

/* Source of a value. */
struct mq_software_note {
	enum mq_evidence evidence; /* ASSUMED: the field's default */
	const char *source, *rows; /* rows: the data of a fit; both NULL for a default */
	double low, high;          /* interval of a fit; NaN = none */
	const char *file;          /* software whose file has it; NULL = the default, or an option */
};

/* A software with the source of each value. Lives in the arena it was loaded into. */
struct mq_software_record {
	struct mq_software software;
	const char *inherits; /* NULL = nothing */
	bool listed;          /* `runs_in` names it */
	struct mq_software_note note[MQ_N_SOFTWARE_FIELDS];
};

/* Loads a software of folder `dir`, parents first. `text`: "NAME", or with options "NAME,key=value,..." (';' may
 * replace ','). MQ_EINPUT: no such software (with the near ones), a loop of inheritance, an unknown key, a value out of
 * range, a value without its evidence; the message names file or option. */
MQ_API enum mq_status mq_software_load(const char *dir, const char *text, struct mq_arena *arena,
				       struct mq_software_record *record, struct mq_err *err);
/* Loads all files of the folder, in order of their names, each once. */
MQ_API enum mq_status mq_software_load_all(const char *dir, struct mq_arena *arena, struct mq_software_record **record,
					   uint32_t *n, struct mq_err *err);
/* Sets options "key=value", separated by ',' or ';', and appends them to the name. `what` names their owner in
 * messages. */
MQ_API enum mq_status mq_software_set(struct mq_software *software, const char *what, const char *options,
				      struct mq_arena *arena, struct mq_err *err);
/* Names of all files of a folder in order, NULL-terminated. */
MQ_API enum mq_status mq_software_names(const char *dir, struct mq_arena *arena, const char ***names,
					struct mq_err *err);

/* The software of a question without one, for tests and abstract devices: the field table's defaults (least traffic, no
 * host factor), and every plan allowed. */
MQ_API const struct mq_software *mq_software_plain(void);

/* The software's value of a decision that a plan leaves open. */
MQ_API double mq_software_default(const struct mq_software *software, enum mq_decision_id id);
/* Model FLOP per sample, without recomputation, as this software's log counts them; and that convention in words. */
MQ_API double mq_sample_flop(const struct mq_model *model, const struct mq_train *train,
			     const struct mq_software *software);
MQ_API const char *mq_flop_convention(const struct mq_software *software);

/* Fills in the decisions that the plan leaves to the software (overlaps, buckets, sharding groups, recomputed ops),
 * each only if the plan has the properties it needs. `to` may not be `from`. */
MQ_API void mq_software_apply_defaults(const struct mq_software *software, const struct mq_model *model,
				       const struct mq_plan *from, struct mq_arena *arena, struct mq_plan *to);

/* ---- which plans it runs (software_space.c) ------------------------------------------------------- */

struct mq_question;

/* The properties of a plan that the rules test: computed once for any number of softwares. */
struct mq_plan_form {
	struct mq_plan_stage *stage; /* [n_stages]; n_stages 0: no stages that a launcher can express */
	uint32_t n_stages;
	bool shaped; /* all stages have equal degrees: `shape` builds the plan */
	struct mq_shape shape;
	bool uneven;                     /* replicas get unequal shares of the batch */
	bool stage_major, replica_major; /* in this order ranks pass through the machines one by one */
	bool gpu, cpu;                   /* kinds of the devices in use */
	char why[256];                   /* the reason why it has no stages, or no shape */
};
MQ_API void mq_plan_form(const struct mq_question *q, const struct mq_plan *plan, struct mq_arena *arena,
			 struct mq_plan_form *form);
/* Can the software run the plan (valid, of this form)? If not, `message` (may be NULL) gives the reason. `software` may
 * differ from q's. */
MQ_API bool mq_software_runs_form(const struct mq_software *software, const struct mq_question *q,
				  const struct mq_plan *plan, const struct mq_plan_form *form, char *message,
				  size_t size);
/* The same for a plan without its form. O(ops + configs), and O(1) if the software runs everything. */
MQ_API bool mq_software_runs(const struct mq_software *software, const struct mq_question *q,
			     const struct mq_plan *plan, char *message, size_t size);
/* The same for a shape that is not built yet, ignoring the model and the order of devices. For engines, which are
 * refused before they start if the software lacks the model. */
MQ_API bool mq_software_runs_shape(const struct mq_software *software, const struct mq_question *q,
				   const struct mq_shape *shape, char *message, size_t size);
/* The same for the model and its types alone. */
MQ_API bool mq_software_runs_model(const struct mq_software *software, const struct mq_question *q, char *message,
				   size_t size);
/* Names of the listed softwares that can run the plan, separated by spaces; "-" = none. */
MQ_API const char *mq_software_runs_in(const struct mq_software_record *record, uint32_t n, const struct mq_question *q,
				       const struct mq_plan *plan, struct mq_arena *arena);
/* Hash of all fields and rules. */
MQ_API uint64_t mq_software_hash(const struct mq_software *software, uint64_t hash);

struct mq_calib;
/* The training dtype on devices of these types (ending in NULL): `asked`, or if that is MQ_N_DTYPES bf16 if every GPU
 * has it, else fp16, and fp32 on CPUs alone; fp32 is TF32 where the software has `tf32` and every device has it. */
MQ_API enum mq_dtype mq_software_dtype(const struct mq_software *software, const struct mq_calib *calib,
				       const char *const *types, enum mq_dtype asked);
/* Bytes of the fp32 copy of a parameter in training: of the optimizer's, or of the parameter itself (fp32_params). */
MQ_API double mq_software_master_B(const struct mq_software *software, const struct mq_train *train);
/* Type of reduced gradients, for training in `dtype`. */
MQ_API enum mq_dtype mq_software_grad_dtype(const struct mq_software *software, enum mq_dtype dtype);
/* Are an op's kernels launched by a CUDA graph (of parts of layers)? */
MQ_API bool mq_software_graphs(const struct mq_software *software, const struct mq_model *model, uint32_t op);
/* Bytes per element that a cast of GEMM operands moves; 0: no cast. */
MQ_API double mq_software_cast_B(const struct mq_software *software, enum mq_gemm_dtype gemm);
/* Are attention scores stored? */
MQ_API bool mq_software_stores_scores(const struct mq_software *software);
/* Number of GEMMs of a GEMM op in the software: three for separate queries, keys and values, two for separate gate and
 * up; else one. */
MQ_API uint32_t mq_software_modules(const struct mq_software *software, const struct mq_model *model, uint32_t op);
/* The type of the residual stream, and of additions to it and norms on it, when training in `dtype`. */
MQ_API enum mq_dtype mq_software_stream(const struct mq_software *software, enum mq_dtype dtype);
/* Is the softmax of stored scores in fp32 (autocast) when training in `dtype`? */
MQ_API bool mq_software_casts_scores(const struct mq_software *software, enum mq_dtype dtype);
/* Sets stage_layers of `shape` (pp, virtual) as the software partitions layers (NULL = evenly, the first ones more).
 * Returns the number of stages with work; later ones idle. */
MQ_API uint32_t mq_software_stages(const struct mq_software *software, const struct mq_model *model,
				   struct mq_arena *arena, struct mq_shape *shape);

#endif
