/* layers.h - the ops of transformers, with exact shapes, FLOPs and bytes.
 *
 * Saved activations (`saved`) are counted at the op on whose device they are: a norm saves its input and its output
 * (which the next GEMM needs), as does an activation, attention its Q, K, V and output, a residual its dropout mask. So
 * a split divides exactly what Megatron divides: Korthikanti et al., "Reducing activation recomputation in large
 * transformer models" (2022), s b h (10 + 24/t + 5 a s/(h t)) bytes per layer, with sequence parallelism all over t.
 *
 * FLOPs of ops other than GEMMs are counted as in the ONNX reader: 1 per element for additions, 4 to 8 for norms and
 * activations, 5 for softmax. Rotary embedding is part of attention and moves no bytes here.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_BUILDERS_LIB_LAYERS_H
#define MQ_MODEL_BUILDERS_LIB_LAYERS_H

#include "model/format.h"

enum mq_activation { MQ_ACT_GELU, MQ_ACT_RELU, MQ_ACT_GATED };

/* A model under construction; `layer` and `prefix` apply to the ops added next. */
struct mq_net {
	struct mq_model_builder b;
	struct mq_arena *arena;
	double rows;        /* tokens per sample in the current stack */
	uint32_t layer;     /* MQ_NONE outside the blocks */
	const char *prefix; /* of the names of ops, e.g. "layer3." */
	bool dropout;
	bool biases; /* GEMMs have biases */
	bool rms;    /* RMS norms, without bias and mean */
};

void mq_net_begin(struct mq_net *net, struct mq_arena *arena, const char *name);
struct mq_op *mq_net_at(struct mq_net *net, uint32_t op);
/* Adds an op without FLOPs and bytes, named prefix + name. */
uint32_t mq_net_add(struct mq_net *net, enum mq_op_kind kind, const char *name);
/* Connects src to dst by a tensor of `width` features per row. */
void mq_net_join(struct mq_net *net, uint32_t src, uint32_t dst, double width);

/* Allows splits by heads; serial: forbids splits along tokens, since each step needs the one before. Returns the op. */
uint32_t mq_net_by_head(struct mq_net *net, uint32_t op, double heads, bool serial);
/* Ties the weights of an op to those of another. */
void mq_net_tie(struct mq_net *net, uint32_t op, uint32_t owner);
/* Marks the latest edge: no gradient flows back over it. */
void mq_net_no_grad(struct mq_net *net);

/* An element-wise op (or MQ_OP_SCAN) as wide as its input, with FLOPs and elements moved per element. */
struct mq_step {
	double flop, flop_bwd, read, write, moved_bwd, saved;
};
uint32_t mq_net_step(struct mq_net *net, const char *name, uint32_t input, double width, const struct mq_step *step);
/* A depthwise convolution over time without bias, and its epilogue of `flop` FLOPs per element. */
uint32_t mq_net_convolve(struct mq_net *net, uint32_t input, double width, double taps, double flop);
/* RMS norm of the scan's output, times an activation of the gate. */
uint32_t mq_net_gate(struct mq_net *net, uint32_t scanned, uint32_t proj, double width, double weights);
/* A GEMM that every tensor-parallel rank computes in full; a GEMM on one vector per sample. */
uint32_t mq_net_gemm_whole(struct mq_net *net, const char *name, uint32_t input, double k, double n);
uint32_t mq_net_gemm_once(struct mq_net *net, const char *name, uint32_t input, double k, double n);

uint32_t mq_net_tokens(struct mq_net *net, const char *name);
/* Patch embedding: patches of `pixels` elements to tokens of `width`, and `param` position parameters. */
uint32_t mq_net_patches(struct mq_net *net, const char *name, double pixels, double width, double param);
uint32_t mq_net_embedding(struct mq_net *net, uint32_t tokens, double vocab, double width);
uint32_t mq_net_norm(struct mq_net *net, const char *name, uint32_t input, double width);
uint32_t mq_net_gemm(struct mq_net *net, const char *name, uint32_t input, double k, double n);
/* x + dropout(f(x)). */
uint32_t mq_net_residual(struct mq_net *net, const char *name, uint32_t branch, uint32_t stream, double width);
uint32_t mq_net_activation(struct mq_net *net, const char *name, uint32_t input, double ffn, enum mq_activation kind);
/* Cross-entropy over the logits of `head`. */
uint32_t mq_net_loss(struct mq_net *net, uint32_t head, double vocab);

struct mq_attention {
	double heads, kv_heads, head_dim, keys;
	double value_dim; /* head width of values; 0 = head_dim */
	double window;    /* keys that a query of fused attention sees; 0 = all (causal: all before it) */
	bool chunked;     /* queries see the keys of their chunk of `window` tokens */
	bool causal, fused, rotary;
};
/* Attention: op `query` gives Q (and K and V if `memory` is MQ_NONE), op `memory` K and V. */
uint32_t mq_net_attention(struct mq_net *net, const char *name, uint32_t query, uint32_t memory,
			  const struct mq_attention *a);

/* Turns fused attention into one that stores its scores, m x n per head, and with dropout also its mask and output. */
void mq_op_store_scores(struct mq_op *op);

struct mq_experts {
	double hidden, ffn, experts, top_k;
	double latent; /* width of tokens in the all-to-all after a projection (LatentMoE); 0 = hidden */
	enum mq_activation activation;
	bool clamp; /* the gated activation clamps both inputs */
};
/* Router, dispatch, expert GEMMs and combine (between the latent projections); returns the last op. */
uint32_t mq_net_experts(struct mq_net *net, uint32_t input, const struct mq_experts *e);

#endif
