/* software.h - training software: how it runs a plan. Which implementations of kernels it calls, what its host does,
 * what it overlaps, what it holds in memory, and which plans it can run at all.
 *
 * Software is an input of every question, as are model, cluster, calibration and plan. One file per software,
 * platforms/software/NAME.json; a file's presence is its registration:
 *   {"maquette_software": 1, "inherits": "OTHER", "about": "...",
 *    "listed": true, "target": "megatron", "release": "Megatron-LM core_v0.19.0", "flags": "--bf16",
 *    "FIELD": {"value": x, "from": "documented"|"counted"|"fitted", "source": "..."}, ...,
 *    "runs": {"schedules": ["1f1b", ...], "sync": [...], "recompute": [...], "devices": ["gpu"],
 *             "uneven_stages": true, ...}}
 * "listed" (not inherited) marks those that `runs_in` names; "target" names those of `export --to` whose
 * settings are this software's, as of "release"; "flags" what export adds to them. A value with "from": "fitted" also has "rows" (what
 * it rests on) and "interval" ([low, high]). What a file does not say is its parent's, in the end the default of the
 * field table (mq_software_fields).
 *
 * A plan leaves to the software what it does not decide itself (mq_plan.explicit); mq_software_apply_defaults fills
 * that in, and lowering sees resolved plans alone.
 *
 * Not modelled: versions of libraries below the software (cuBLAS, NCCL), and what software does for numerics and
 * convergence. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_SOFTWARE_H
#define MAQUETTE_SOFTWARE_H

#include "maquette/calib.h"
#include "maquette/model.h"
#include "maquette/opt.h"
#include "maquette/plan.h"

/* Kernels of norms, rotary positions, activations, dropout, biases: one fused kernel; eager PyTorch's, where GEMMs add
 * their biases (EAGER) or kernels of their own do (APART); the fusions of XLA; TensorFlow's op by op. */
enum mq_fusion { MQ_FUSED, MQ_EAGER, MQ_APART, MQ_XLA, MQ_TENSORFLOW, MQ_N_FUSIONS };
/* Transpose copies around attention: NONE; OUTPUT (output, and dQ, dK, dV packed); ALL (Q, K, V, output); PACKED (Q, K,
 * V of fused attention, K and V twice more: flash-attention varlen). */
enum mq_transpose_copies { MQ_HEADS_NONE, MQ_HEADS_OUTPUT, MQ_HEADS_ALL, MQ_HEADS_PACKED };
/* Keys and values copied for each query head of their group: not; before attention; before their rotary positions. */
enum mq_repeat_kv { MQ_REPEAT_NONE, MQ_REPEAT_ATTENTION, MQ_REPEAT_POSITIONS };
/* Convolutions whose tensors are channels-first: none; 32-bit ones; 32-bit ones and all 3D ones; all. */
enum mq_channels_first { MQ_FIRST_NONE, MQ_FIRST_32, MQ_FIRST_32_VOLUMES, MQ_FIRST_ALL };
/* Element-wise ops of image networks that are fused into the kernel before them: none; those after a batch norm in 16
 * bits, channels-last (cuDNN's norm with addition and activation); whole chains (compilers); with frozen norms, inside the
 * convolution before them (apex's ConvFrozenScaleBiasReLU, cuDNN's runtime fusion). */
enum mq_elementwise_fusion { MQ_CHAINS_NONE, MQ_CHAINS_NORM_16, MQ_CHAINS_ALL, MQ_CHAINS_CONV };
/* Pipeline stages whose next pass waits until their send is done: none; stages with one chunk per device; all. */
enum mq_blocking_sends { MQ_SENDS_NONE, MQ_SENDS_PLAIN, MQ_SENDS_ALL };
/* Ops that `recompute: selective` recomputes: the attention core; all but attention and every second GEMM; every second
 * layer; the ops that recompute_ops names. */
enum mq_selective { MQ_SELECTIVE_ATTENTION, MQ_SELECTIVE_OPS, MQ_SELECTIVE_LAYERS, MQ_SELECTIVE_NAMED };
/* Type of reduced gradients: that of training, or one of these. */
enum mq_grad_type { MQ_GRAD_AS_TRAINED, MQ_GRAD_FP32, MQ_GRAD_BF16, MQ_GRAD_FP16 };
/* Gradients in 16 and in 32 bits: not both; 16-bit ones are copied to fp32 for the optimizer's step; these, and
 * 16-bit ones stay beside fp32 ones that are accumulated. */
enum mq_grads_twice { MQ_GRADS_ONCE, MQ_GRADS_STEP, MQ_GRADS_BOTH };
/* Allocator of device memory: one whose fragmentation is the calibration's; PyTorch's (allocator.h); PyTorch's with
 * expandable segments, and a plan of all tensors made before the run, which have none. */
enum mq_allocator_kind { MQ_ALLOCATOR_OTHER, MQ_ALLOCATOR_PYTORCH, MQ_ALLOCATOR_EXPANDABLE, MQ_ALLOCATOR_PLANNED };
/* Partition of layers into stages. Where their numbers do not divide: EVEN, the first stages have one more; CEIL, all
 * but the last have ceil(layers / stages); ENDS, embedding and head count as a layer each. COST, always: a stage takes
 * layers until their GEMM parameters reach its share of all, so that the last stages may have none; the head and the
 * loss are then on the first stage without layers. */
enum mq_stage_rule { MQ_STAGES_EVEN, MQ_STAGES_CEIL, MQ_STAGES_ENDS, MQ_STAGES_COST };

/* Models that it has an implementation of: all, those of repeated layers, those whose layers are all of one width. */
enum mq_models {
	MQ_MODELS_ANY,
	MQ_MODELS_LAYERS,
	MQ_MODELS_ONE_WIDTH,
	MQ_MODELS_LLAMA_LIKE, /* and RMS norms, rotary positions, GEMMs without biases */
	MQ_N_MODELS
};
MQ_API const char *mq_models_name(enum mq_models m); /* any layers one-width llama-like */

/* Bits of `switches`: 1u << BIT of decisions.h; algo and proto share one. */
enum { MQ_N_SWITCHES = MQ_N_DECISIONS - 1 };
MQ_API const char *mq_switch_name(uint32_t i); /* of bit i */
/* What is whole and what is split under tensor parallelism: bits of `sequence` and `vocab`. */
enum { MQ_WHOLE = 1 << 0, MQ_SPLIT = 1 << 1 };

/* Rules of a space that are yes or no, each by its key in a file: X(KEY, what software without a file has). */
#define MQ_SPACE_FLAGS(X)                                                                                          \
	X(tensor, true)                                                                                            \
	X(pipeline, true)                                                                                          \
	X(context, true)                                                                                           \
	X(ulysses, true) /* context-parallel ranks that exchange heads for parts of the sequence */                \
	X(expert, true)                                                                                            \
	X(expert_tensor, true)      /* experts split over tensor-parallel ranks under expert parallelism */        \
	X(expert_inside, true)      /* expert parallelism over fewer than all tensor and context parallel ranks */ \
	X(expert_capacity, true)    /* experts that take so many tokens and drop the rest */                       \
	X(mixtures, true)           /* models of experts */                                                        \
	X(unsharded_half, true)     /* 16-bit training with tensor or pipeline parallelism and nothing sharded */  \
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

/* Plans that a software can run: "runs" of its file, each key by the name it has here unless another is
 * given. Lists are bits 1u << enum value. What a file and its parents do not say is allowed. */
struct mq_software_space {
	uint32_t schedules, recomputes, dtypes; /* "recompute"; dtypes: of training and of GEMMs */
	uint32_t syncs;                         /* "sync"; asked only where there is more than one replica */
	uint32_t sync_split;                    /* those that work with tensor, context or expert parallelism */
	uint32_t switches;                      /* decisions that its settings can change (decisions.h) */
	uint32_t sequence, vocab;               /* "sequence_parallel", "vocab_parallel": lists of no and yes */
	uint32_t models;                        /* enum mq_models */
	uint32_t parts;                         /* of models: bits of enum mq_model_part */
	bool gpu, cpu;                          /* "devices" */
#define MQ_MEMBER(key, initial) bool key;
	MQ_SPACE_FLAGS(MQ_MEMBER)
#undef MQ_MEMBER
};

/* What of a space is yes or no: names as in the files; ended by name NULL. */
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
	const char *target;  /* words of `export --to`; NULL = none */
	const char *release; /* of the framework whose settings these are, as its registry names it; or NULL */
	bool halves_causal;  /* its log counts half of causal attention ("log_flop": "causal"; else all: "whole") */
	const char *flags;   /* that export adds whatever the plan; "" = none */
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
/* Index of a field; UINT32_MAX = there is none of that name. */
MQ_API uint32_t mq_software_field_find(const char *name);
/* The name that a field bears now, of one that it bore until version 0.3; NULL = it never bore it. */
MQ_API const char *mq_software_renamed(const char *old);

enum mq_evidence { MQ_ASSUMED, MQ_DOCUMENTED, MQ_COUNTED, MQ_FITTED, MQ_N_EVIDENCE };
MQ_API const char *mq_evidence_name(enum mq_evidence evidence);

/* Where a value comes from. */
struct mq_software_note {
	enum mq_evidence evidence; /* ASSUMED: nothing says it, the field's default stands */
	const char *source, *rows; /* rows: what a fit rests on; of a default both are NULL */
	double low, high;          /* interval of a fit; NaN = none */
	const char *file;          /* software whose file says it; NULL = the default, or an option */
};

/* A software with what is known about each value. Lives in the arena it was loaded into. */
struct mq_software_record {
	struct mq_software software;
	const char *inherits; /* NULL = nothing */
	bool listed;          /* `runs_in` names it */
	struct mq_software_note note[MQ_N_SOFTWARE_FIELDS];
};

/* Reads NAME of the folder `dir`, its parents first. `text` may go on with options: "NAME,key=value,...",
 * or with ';' in place of ','. MQ_EINPUT: no such software (with the near ones), a loop of inheritance, an
 * unknown key, a value out of range, a value without its evidence; the message names file or option. */
MQ_API enum mq_status mq_software_load(const char *dir, const char *text, struct mq_arena *arena,
				       struct mq_software_record *record, struct mq_err *err);
/* All files of the folder, in order of their names, each read once. */
MQ_API enum mq_status mq_software_load_all(const char *dir, struct mq_arena *arena, struct mq_software_record **record,
					   uint32_t *n, struct mq_err *err);
/* Options on top: "key=value" between ',' or ';'. `what` names their owner in messages. The name grows by them. */
MQ_API enum mq_status mq_software_set(struct mq_software *software, const char *what, const char *options,
				      struct mq_arena *arena, struct mq_err *err);
/* Names of all files of a folder in order, NULL-terminated. */
MQ_API enum mq_status mq_software_names(const char *dir, struct mq_arena *arena, const char ***names,
					struct mq_err *err);

/* The defaults of the field table and every plan: least traffic, no host factor. What a question without
 * software means, in tests and on abstract devices. */
MQ_API const struct mq_software *mq_software_plain(void);

/* What the software does where a plan leaves this decision open. */
MQ_API double mq_software_default(const struct mq_software *software, enum mq_decision_id id);
/* FLOP of the model itself for a sample, recomputation apart, as this software's log counts them; and that in words. */
MQ_API double mq_sample_flop(const struct mq_model *model, const struct mq_train *train,
			     const struct mq_software *software);
MQ_API const char *mq_flop_convention(const struct mq_software *software);

/* Fills in what the plan leaves to the software: overlaps and buckets, sharding groups, which ops are
 * computed again, each only where the plan has what it takes. `to` may not be `from`. */
MQ_API void mq_software_apply_defaults(const struct mq_software *software, const struct mq_model *model,
				       const struct mq_plan *from, struct mq_arena *arena, struct mq_plan *to);

/* ---- which plans it runs (software_space.c) ------------------------------------------------------- */

struct mq_question;

/* A plan as the rules look at it: made once, held against any number of softwares. */
struct mq_plan_form {
	struct mq_plan_stage *stage; /* [n_stages]; n_stages 0: it has no stages that a launcher knows */
	uint32_t n_stages;
	bool shaped; /* one set of degrees for all stages: `shape` builds it */
	struct mq_shape shape;
	bool uneven;                     /* replicas get unequal shares */
	bool stage_major, replica_major; /* in this order ranks go through the machines one by one */
	bool gpu, cpu;                   /* kinds of the devices in use */
	char why[256];                   /* why it has no stages, or no shape */
};
MQ_API void mq_plan_form(const struct mq_question *q, const struct mq_plan *plan, struct mq_arena *arena,
			 struct mq_plan_form *form);
/* Is the plan (a sound one, of this form) in the software's space? Else says why not. `message` may be NULL.
 * The software is not q's own. */
MQ_API bool mq_software_runs_form(const struct mq_software *software, const struct mq_question *q,
				  const struct mq_plan *plan, const struct mq_plan_form *form, char *message,
				  size_t size);
/* The same of a plan alone. O(ops + configs), and O(1) where the space is everything. */
MQ_API bool mq_software_runs(const struct mq_software *software, const struct mq_question *q,
			     const struct mq_plan *plan, char *message, size_t size);
/* The same of a shape that is not built yet; neither the model nor the order of its devices is looked at. For
 * engines, which are refused before they start where the model is not the software's. */
MQ_API bool mq_software_runs_shape(const struct mq_software *software, const struct mq_question *q,
				   const struct mq_shape *shape, char *message, size_t size);
/* The same of the model and its types, whatever the plan. */
MQ_API bool mq_software_runs_model(const struct mq_software *software, const struct mq_question *q, char *message,
				   size_t size);
/* Names of the listed softwares that run the plan, spaces between; "-" = none of them. */
MQ_API const char *mq_software_runs_in(const struct mq_software_record *record, uint32_t n, const struct mq_question *q,
				       const struct mq_plan *plan, struct mq_arena *arena);
/* Hash of all fields and rules. */
MQ_API uint64_t mq_software_hash(const struct mq_software *software, uint64_t hash);

/* Type of reduced gradients, for training in `dtype`. */
MQ_API enum mq_dtype mq_software_grad_dtype(const struct mq_software *software, enum mq_dtype dtype);
/* Are an op's kernels launched by a graph (CUDA graphs of parts of layers)? */
MQ_API bool mq_software_graphs(const struct mq_software *software, const struct mq_model *model, uint32_t op);
/* Bytes that a cast to the operands of GEMMs moves per element; 0 where GEMMs are in the dtype. */
MQ_API double mq_software_cast_B(const struct mq_software *software, enum mq_gemm_dtype gemm);
/* Are attention scores stored? */
MQ_API bool mq_software_stores_scores(const struct mq_software *software);
/* GEMMs that a GEMM op is in the software's source: three of queries, keys and values that are apart, two of gate
 * and up; else one. */
MQ_API uint32_t mq_software_modules(const struct mq_software *software, const struct mq_model *model, uint32_t op);
/* The type of the residual stream, of what is added to it and of what norms it, in this type of training. */
MQ_API enum mq_dtype mq_software_stream(const struct mq_software *software, enum mq_dtype dtype);
/* Is their softmax in fp32 under autocast, in this type of training? */
MQ_API bool mq_software_casts_scores(const struct mq_software *software, enum mq_dtype dtype);
/* Layers as the software deals them out to the stages of `shape` (pp, virtual): sets stage_layers (NULL = evenly, the
 * first ones more). Returns how many stages have work; those behind idle. */
MQ_API uint32_t mq_software_stages(const struct mq_software *software, const struct mq_model *model,
				   struct mq_arena *arena, struct mq_shape *shape);

#endif
