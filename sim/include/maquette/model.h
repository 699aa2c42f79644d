/* model.h - a model: a graph of forward operators with shapes, FLOPs, bytes and parameters.
 *
 * All amounts are for ONE sample (a sequence or an image) and count elements, not bytes; the training options give the
 * element type and the number of samples. The backward pass is derived from the forward op (mq_op_kernels), except in
 * graphs that bring their own backward nodes (`phase`, `mate`), such as the public placement data. A model is frozen
 * after load and lives in the caller's arena.
 *
 * Conventions that all builders and readers keep:
 * - ops are in topological order (edges go from a lower to a higher id); mq_model_check verifies it;
 * - a multiply and an add count as two FLOPs;
 * - `read` + `write` is the least memory traffic of that op, all fused, without weights; traffic beyond it is the
 *   training software's (mq_op_kernels), not a property of the model;
 * - a transformer layer is: norm, qkv (GEMM), attention, proj (GEMM), residual add, norm, up (GEMM; gate and up
 *   together when gated), activation, down (GEMM), residual add; `layer` numbers the blocks from 0 and is MQ_NONE
 *   outside them (embedding, final norm, head, loss);
 * - a tensor on an edge has the dimensions {batch, seq or spatial, features}: the producer splits the features by OUT
 *   or HEAD, the consumer by IN, HEAD or (element-wise ops) OUT.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_MODEL_H
#define MAQUETTE_MODEL_H

#include "maquette/arena.h"
#include "maquette/kernel.h"
#include "maquette/sequence_packing.h"
#include "maquette/experts.h"
#include "maquette/types.h"

enum mq_op_kind {
	MQ_OP_INPUT,     /* data arrives; no work */
	MQ_OP_EMBEDDING, /* table look-up; IN splits the vocabulary, OUT the width */
	MQ_OP_GEMM,      /* activations [m x k] times weights [k x n] */
	MQ_OP_CONV,      /* as an implicit GEMM: m = output pixels, n = filters, k = c*r*s */
	MQ_OP_ATTENTION, /* softmax(Q K^T) V per head: m = queries, n = keys, k = head dim, count = heads */
	MQ_OP_BMM,       /* batched GEMM of two activations (unfused attention): count x [m k][k n] */
	MQ_OP_NORM,      /* layer, RMS, batch norm: cannot be split along the features */
	MQ_OP_SOFTMAX,
	MQ_OP_ELEMENTWISE, /* activation, dropout, residual add, ... */
	MQ_OP_POOL,
	MQ_OP_RESHAPE,   /* transpose, concat, ...: moves bytes, computes nothing */
	MQ_OP_SCAN,      /* chunked state-space product over the sequence (Mamba-2) */
	MQ_OP_RECURRENT, /* LSTM/GRU layer over the sequence: serial in m steps */
	MQ_OP_ROUTER,    /* MoE gate: scores, top-k */
	MQ_OP_DISPATCH,  /* MoE: tokens to experts; under an EXPERT split an all-to-all */
	MQ_OP_COMBINE,   /* MoE: expert outputs back to tokens; likewise */
	MQ_OP_LOSS,      /* softmax cross-entropy; OUT splits the vocabulary */
	MQ_OP_PROFILED,  /* known by measured times alone (placement and pipeline data sets) */
	MQ_N_OP_KINDS
};
MQ_API const char *mq_op_kind_name(enum mq_op_kind kind);

/* Storage of frozen parameters: in the training type, or layers' matrices in fewer bits. NF4: blocks of 64 with a
 * one-byte scale, and an fp32 scale per 256 of these (bitsandbytes, double quantisation). */
enum mq_frozen { MQ_TRAINED, MQ_FROZEN_AS_DTYPE, MQ_FROZEN_FP8, MQ_FROZEN_MXFP8, MQ_FROZEN_NVFP4, MQ_FROZEN_NF4 };
/* An op's part in an adapter: GEMM into the low rank, GEMM out of it, sum with the adapted output. */
enum mq_adapter { MQ_NO_ADAPTER, MQ_ADAPTER_IN, MQ_ADAPTER_OUT, MQ_ADAPTER_SUM };

struct mq_op {
	const char *name; /* unique inside the model, e.g. "layer3.qkv" */
	enum mq_op_kind kind;
	enum mq_phase phase;      /* MQ_FORWARD, or MQ_BACKWARD in graphs with explicit backward nodes */
	uint32_t mate;            /* explicit backward op: its forward op (and back); else MQ_NONE */
	uint32_t layer;           /* repeated block, or MQ_NONE */
	uint32_t color;           /* ops of equal colour must share a device; MQ_NONE = free */
	uint32_t tied;            /* op whose parameters this one uses (tied embeddings), else MQ_NONE */
	uint32_t splits;          /* bit mask (1u << enum mq_dim) of the dimensions that may be split */
	double extent[MQ_N_DIMS]; /* size of each dimension per sample (batch: 1); 0 = has none */
	double m, n, k, count;    /* GEMM view of the forward op per sample (see kind); 0 = no GEMM */
	double flop;              /* forward FLOP per sample, whatever the kind (causal halving not applied) */
	double flop_bwd;          /* backward FLOP per sample (2x flop for GEMMs with weights, ...) */
	double read, write;       /* activation elements moved by the forward pass, fused minimum */
	double moved_bwd;         /* elements moved by the backward pass */
	double fixed_bwd;         /* further elements, independent of samples (a table's whole gradient) */
	double param;             /* parameter elements (0 if tied to another op) */
	double output;            /* elements of the output tensor */
	double saved;             /* elements kept from forward for backward (16-bit unit: 1 = one element of
				   * the training dtype; masks of one byte count as 0.5) */
	double saved_selective;   /* part of `saved` that selective recompute frees (attention inner) */
	double masks;             /* elements whose one-byte mask is in `saved`; with saved_selective, in that */
	double winograd;          /* CONV of 3x3, stride 1, one group: output pixels when rounded up to tiles
				   * of 4x4 / output pixels; 0 = Winograd's algorithm does not apply */
	double window; /* CONV: pixels of its window; 0: no window gathers its input (transposed convolutions) */
	bool volume;   /* CONV: 3D */
	struct mq_conv_image image; /* CONV: for executors that run it as a convolution */
	double host_flop; /* forward work of one host core for any number of samples (each has a core); the device
			   * waits */
	double halo;      /* elements that a SPATIAL split needs of a neighbour, per cut */
	double kernels;   /* kernels launched by the forward pass (eager count; for launch cost) */
	bool causal;      /* ATTENTION: only the lower triangle is needed */
	bool fused;       /* ATTENTION: flash-style, scores are never stored */
	double rotated;   /* ATTENTION: elements of queries and keys with rotary positions */
	bool scaled;      /* ATTENTION: rotary positions also scale (YaRN's concentration factor) */
	bool rms;         /* NORM: root mean square */
	bool dropout;     /* ELEMENTWISE: residual addition after dropout */
	bool gelu;        /* ELEMENTWISE: GELU */
	bool gated;       /* ELEMENTWISE: gated activation (SwiGLU, GeGLU) */
	bool silu;        /* ELEMENTWISE of image networks: SiLU, in place where the framework can */
	uint8_t frozen;   /* enum mq_frozen: its parameters (or those it is tied to) get no gradient; if its backward
			   * amounts are 0 too, nothing before it is trained */
	uint8_t adapter;  /* enum mq_adapter; with MQ_ADAPTER_IN `dropout` is on its input */
	uint8_t own_gemm; /* 1 + its own enum mq_gemm_dtype when operands are cast; 0 = as the others */
};

/* Has the op a backward pass? */
static inline bool mq_op_goes_back(const struct mq_op *op)
{
	return op->frozen == MQ_TRAINED || op->flop_bwd > 0 || op->moved_bwd > 0;
}
/* Has the op parameters that are updated? */
static inline bool mq_op_trained(const struct mq_op *op)
{
	return op->param > 0 && op->frozen == MQ_TRAINED;
}

struct mq_edge {
	uint32_t src, dst;
	double elems; /* tensor elements per sample */
	bool no_grad; /* no gradient flows back (inputs, indices) */
};

/* Measured times of PROFILED ops, by device type. Times are for one sample. */
struct mq_profile {
	uint32_t n_types;
	const char **type;  /* [n_types], e.g. "accelerator", "cpu", "V100-SXM2-16GB" */
	double *forward_s;  /* [n_ops * n_types]; +inf = not supported there */
	double *backward_s; /* likewise; 0 in graphs with explicit backward nodes */
	double *memory_B;   /* [n_ops] memory of an op on its device; NULL: unknown */
};

/* Devices that a model file defines (placement data: -p model). Zero = none. */
struct mq_model_devices {
	uint32_t n_accelerators, n_cpus;
	double memory_B;    /* per accelerator */
	double bw_Bps;      /* between devices; 0 = mq_edge.elems is a time already, in the file's
			     * unit, whatever the element type */
	double time_unit_s; /* seconds per unit of the file's times (report in the file's units) */
};

/* Kinds of layers, and towers beside the layers, that not all training software supports; bits 1u << PART of
 * mq_model.parts. */
enum mq_model_part {
	MQ_PART_MAMBA1,
	MQ_PART_MAMBA2,
	MQ_PART_DELTA_NET,
	MQ_PART_LIGHTNING,
	MQ_PART_SHORT_CONV,
	MQ_PART_INDEXER,
	MQ_PART_TOWER,
	MQ_N_MODEL_PARTS
};
MQ_API const char *mq_model_part_name(enum mq_model_part part);

struct mq_transformer; /* model/builders/lib/transformer.h */
struct mq_model {
	const char *name;
	const char *unit; /* of a sample: "sequence", "image", "sample" */
	uint32_t n_ops, n_edges, n_layers;
	struct mq_op *op;         /* [n_ops] */
	struct mq_edge *edge;     /* [n_edges], sorted by (src, dst) */
	uint32_t *out_first;      /* [n_ops + 1]: edges leaving op i are out_first[i] .. out_first[i+1]-1 */
	uint32_t *in_first;       /* [n_ops + 1] into in_edge */
	uint32_t *in_edge;        /* [n_edges] edge ids sorted by (dst, src) */
	uint32_t *like;           /* [n_ops] the op at the same place of the first equal layer (equal neighbours too) */
	double tokens_per_sample; /* for tokens/s; 0: not applicable */
	struct mq_profile profile;
	struct mq_model_devices devices;
	/* of transformer-like models, for shape rules and reports; 0 otherwise */
	uint32_t hidden, heads, kv_heads, head_dim, ffn, vocab, seq, experts, top_k;
	/* a token's experts are in group_limit of expert_groups equal groups; 0 = anywhere */
	uint32_t expert_groups, group_limit;
	uint32_t parts; /* bits of enum mq_model_part */
	bool tied_embeddings;
	bool image, volumes; /* samples are images; some convolution is 3D */
	/* The parameters of a model that is a single stack of blocks, for export; NULL: it is not. */
	const struct mq_transformer *stack;
	double batch;     /* samples of a step, from its file; 0: not given */
	const char *note; /* assumptions of the reader, in words; or NULL */
};
/* Has the graph backward ops of its own? Else a backward pass is derived from its forward ops. */
static inline bool mq_model_explicit_backward(const struct mq_model *m)
{
	for (uint32_t op = 0; op < m->n_ops; op++)
		if (m->op[op].phase == MQ_BACKWARD)
			return true;
	return false;
}

/* Loops over the edges into an op, and over those out of it; `e`: the edge. */
#define MQ_EACH_IN(model, op, e)                                                                               \
	for (uint32_t e##_at = (model)->in_first[op], e##_end = (model)->in_first[(op) + 1]; e##_at < e##_end; \
	     e##_at = e##_end)                                                                                 \
		for (struct mq_edge * e; e##_at < e##_end && (e = &(model)->edge[(model)->in_edge[e##_at]]); e##_at++)
#define MQ_EACH_OUT(model, op, e)                                                          \
	for (const struct mq_edge *e = (model)->edge + (model)->out_first[op],             \
				  *e##_end = (model)->edge + (model)->out_first[(op) + 1]; \
	     e < e##_end; e++)

/* NONE: a step is a forward and a backward pass alone, and adds to the gradients that earlier steps left. Nothing is
 * updated, gathered or copied behind the passes, and no optimizer holds copies of parameters. */
enum mq_optimizer { MQ_OPTIMIZER_ADAM, MQ_OPTIMIZER_SGD, MQ_OPTIMIZER_MOMENTUM, MQ_OPTIMIZER_NONE, MQ_N_OPTIMIZERS };

/* Operands of the layers' GEMMs (not of the head, the router, attention). MXFP8: a scale for each 32 elements. */
enum mq_gemm_dtype { MQ_GEMM_AS_DTYPE, MQ_GEMM_FP8, MQ_GEMM_MXFP8, MQ_GEMM_FP4 };

/* Training options: part of every question, never of the model. */
struct mq_train {
	double batch;             /* global batch in samples, >= 1 */
	enum mq_dtype dtype;      /* of activations and GEMMs */
	enum mq_dtype grad_dtype; /* of reduced gradients (fp32 accumulation, or as dtype) */
	enum mq_optimizer optimizer;
	bool infer; /* forward only, no gradients, no optimizer state */
	enum mq_gemm_dtype gemm_dtype;
	struct mq_expert_load experts;               /* zeroes = tokens visit all experts alike */
	struct mq_sequence_packing sequence_packing; /* zeroes = each sequence is one document */
	const char *tuning; /* the trained part of the model, see fine_tune.h; NULL = all of it */
};

/* Are operands of the layers' GEMMs cast to another type than the training type? */
static inline bool mq_train_casts(const struct mq_train *train)
{
	return train->gemm_dtype != MQ_GEMM_AS_DTYPE;
}
/* The type of this op's operands. Adapters multiply in the training type. */
static inline enum mq_gemm_dtype mq_op_gemm_dtype(const struct mq_op *op, const struct mq_train *train)
{
	if (!mq_train_casts(train) || op->kind != MQ_OP_GEMM || op->layer == MQ_NONE || op->adapter)
		return MQ_GEMM_AS_DTYPE;
	return op->own_gemm ? (enum mq_gemm_dtype)(op->own_gemm - 1) : train->gemm_dtype;
}
/* The data type of such operands if training is in `dtype`; the same for the layers' GEMMs. */
static inline enum mq_dtype mq_operand_dtype(enum mq_gemm_dtype gemm, enum mq_dtype dtype)
{
	return gemm == MQ_GEMM_AS_DTYPE ? dtype : gemm == MQ_GEMM_FP4 ? MQ_FP4 : MQ_FP8;
}
static inline enum mq_dtype mq_train_gemm_dtype(const struct mq_train *train)
{
	return mq_operand_dtype(train->gemm_dtype, train->dtype);
}
static inline const char *mq_train_gemm_name(const struct mq_train *train)
{
	return train->gemm_dtype == MQ_GEMM_MXFP8 ? "mxfp8" : mq_dtype_name(mq_train_gemm_dtype(train));
}
/* Bytes of such an operand's element, with the scales of blocks of 32 (MXFP8) or 16 (fp4). */
MQ_API double mq_operand_B(enum mq_gemm_dtype gemm, enum mq_dtype dtype);

/* Building: zeroed struct mq_model_builder, add ops and edges, finish. */
struct mq_model_builder {
	struct mq_arena *arena;
	struct mq_model *model;
	uint32_t op_room, edge_room;
};
MQ_API void mq_model_begin(struct mq_model_builder *b, struct mq_arena *arena, const char *name);
/* Returns the id of the op; fields are filled by the caller through model->op[id]. */
MQ_API uint32_t mq_model_add(struct mq_model_builder *b, enum mq_op_kind kind, const char *name);
MQ_API void mq_model_connect(struct mq_model_builder *b, uint32_t src, uint32_t dst, double elems);
/* Sorts topologically (lowest id first; renumbers if needed), builds the CSR arrays and checks. MQ_EINPUT: a cycle
 * (names an op on it), or what mq_model_check finds. */
MQ_API enum mq_status mq_model_finish(struct mq_model_builder *b, struct mq_model **model, struct mq_err *err);

/* Fills `like`; call it again after changing ops of a finished model. */
MQ_API void mq_model_find_alike(struct mq_model *model, struct mq_arena *arena);

/* Full invariants: finite non-negative amounts, order, colours, mates, unique names. */
MQ_API enum mq_status mq_model_check(const struct mq_model *model, struct mq_err *err);

/* The last op with one value per word of the vocabulary (loss, or head); MQ_NONE = none. */
MQ_API uint32_t mq_model_vocab_op(const struct mq_model *model);
/* The model with its vocabulary padded to a multiple of `multiple` on each of `parts` ranks; multiple 0: cut to whole
 * shares. The model itself if nothing changes. */
MQ_API const struct mq_model *mq_model_pad_vocab(const struct mq_model *model, double multiple, uint32_t parts,
						 struct mq_arena *arena);

/* Is the op between dispatch and combine of a mixture, or one of these two? */
static inline bool mq_op_of_experts(const struct mq_op *op)
{
	return op->extent[MQ_DIM_EXPERT] > 0;
}
/* Does the edge carry tokens, or their routing weights, to experts or back? */
MQ_API bool mq_edge_to_experts(const struct mq_model *model, const struct mq_edge *edge);

/* Totals for one sample. */
struct mq_model_totals {
	double parameters, forward_flop, backward_flop, activation_elems;
};
MQ_API struct mq_model_totals mq_model_totals(const struct mq_model *model);

/* ---- work of a split op on one device ------------------------------------------------------ */

/* A device's share of an op. */
struct mq_share {
	double samples;          /* of the micro-batch on this device */
	double split[MQ_N_DIMS]; /* degree per dimension; [MQ_DIM_BATCH] is ignored (see samples) */
	double keys;             /* ATTENTION: share of the keys and values; 0 = all of them */
	bool remote;             /* ATTENTION: the keys are other ranks' (a ring's later steps) */
	bool exchanged;          /* ATTENTION: context-parallel ranks exchange heads for it (Ulysses) */
	bool accumulates;        /* whole gradients of several micro-batches are accumulated */
	bool gathered;           /* ZeRO-3: parameters are gathered and gradients reduced in every micro-batch */
	bool reduced;            /* gradients are reduced among devices */
	uint32_t shards;         /* UPDATE: ranks that update a shard each, then gather the whole; 0, 1 = one shard */
};

/* A degree of a share's split; an unset 0 counts as 1. */
static inline double mq_degree(const double split[MQ_N_DIMS], enum mq_dim dim)
{
	return split[dim] > 1 ? split[dim] : 1;
}

/* Speed of scalar, branching code on one host core: an operation per 1.5 cycles at 3 GHz (stated). */
#define MQ_HOST_FLOPS 2e9

enum { MQ_MAX_KERNELS_PER_OP = 20 };
/* Writes the kernels of one op and phase under a share, up to MQ_MAX_KERNELS_PER_OP; returns their number. Forward
 * GEMM: one; backward GEMM: input gradient and weight gradient (phase MQ_BACKWARD). MQ_UPDATE: the optimizer step over
 * the op's parameter shard. `type` names the device type and `cpu` its class, for profiled ops. */
struct mq_question; /* maquette/question.h; its model, software and train are used */
MQ_API uint32_t mq_op_kernels(const struct mq_question *q, uint32_t op, enum mq_phase phase,
			      const struct mq_share *share, const char *type, struct mq_kernel *kernel);

/* A convolution's image when its rows are cut into strips; zeroes: the strips are uneven, or the image is unknown. */
MQ_API struct mq_conv_image mq_conv_image_part(const struct mq_op *op, double strips);
/* Bytes in which a parameter of the op is stored and gathered, without gradients and copies. */
MQ_API double mq_op_param_B(const struct mq_op *op, const struct mq_train *train);
/* Are the op's weights dequantized to the type of its GEMM before each GEMM? */
MQ_API bool mq_op_dequantizes(const struct mq_op *op, const struct mq_train *train);
/* Elements of the op's parameters held by one device under a split. */
MQ_API double mq_op_param_shard(const struct mq_op *op, const double split[MQ_N_DIMS]);
/* Elements (see `saved`) one device keeps per micro-batch share; selective: without that part. */
MQ_API double mq_op_saved_shard(const struct mq_op *op, const struct mq_share *share, bool selective);
/* The same in bytes. A loss keeps fp32 values, whatever the element type. */
MQ_API double mq_op_saved_B(const struct mq_op *op, const struct mq_share *share, bool selective,
			    const struct mq_train *train);
/* Number of moments that an optimizer keeps per parameter. */
MQ_API double mq_optimizer_moments(enum mq_optimizer optimizer);
/* Bytes of optimizer state per parameter: with 16-bit parameters a master copy of `master_B` (0 = none) and moments of
 * `moment_B` each; else moments of 4 bytes. */
MQ_API double mq_train_state_B(const struct mq_train *train, double master_B, double moment_B);

/* Reads "NAME[:key=value,...]" (a built-in builder) or a file; see model/formats/. Declared here because every command
 * needs it, and engines that solve files; defined in model/formats/formats.c. */
struct mq_software;
struct mq_model_request {
	const char *spec;
	const struct mq_train *train;
	uint32_t seq;                       /* --seq; 0 = the model's own default */
	const struct mq_software *software; /* chooses attention; NULL = mq_software_plain() */
};
MQ_API enum mq_status mq_model_load(const struct mq_model_request *request, struct mq_arena *arena,
				    struct mq_model **model, struct mq_err *err);
/* Is attention fused, so that scores are never stored? True if the model asks for it and the software has it. */
MQ_API bool mq_model_fuses(const struct mq_model_request *request, bool asked);
/* Marks the ops whose GEMMs the software runs in another type (mq_op.own_gemm). */
MQ_API void mq_model_mark_gemms(const struct mq_model_request *request, struct mq_model *model);

#endif
