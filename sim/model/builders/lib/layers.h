/* layers.h - the ops that transformers are made of, with their exact shapes and amounts.
 *
 * What is kept for the backward pass (`saved`) is booked with the op on whose device it lies: a norm keeps its input
 * and its output (which the next GEMM needs), an activation likewise, attention its Q, K, V and output, a residual its
 * dropout mask. So a split divides exactly what Megatron divides: Korthikanti et al., "Reducing activation
 * recomputation in large transformer models" (2022), s b h (10 + 24/t + 5 a s/(h t)) bytes a layer, and all of it over
 * t with sequence parallelism.
 *
 * FLOPs of what is not a GEMM are counted as in the ONNX reader: 1 an element for additions, 4 to 8 for norms and
 * activations, 5 for softmax. The position encoding of rotary models is part of attention and moves nothing of its
 * own. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_BUILDERS_LIB_LAYERS_H
#define MQ_MODEL_BUILDERS_LIB_LAYERS_H

#include "model/format.h"

enum mq_activation { MQ_ACT_GELU, MQ_ACT_RELU, MQ_ACT_GATED };

/* A model under construction; `layer` and `prefix` apply to the ops added next. */
struct mq_net {
	struct mq_model_builder b;
	struct mq_arena *arena;
	double rows;        /* tokens of a sample in the current stack */
	uint32_t layer;     /* MQ_NONE outside the blocks */
	const char *prefix; /* put before the names of ops, e.g. "layer3." */
	bool dropout;
	bool biases; /* of GEMMs */
	bool rms;    /* norms without bias and mean */
};

void mq_net_begin(struct mq_net *net, struct mq_arena *arena, const char *name);
struct mq_op *mq_net_at(struct mq_net *net, uint32_t op);
/* An op without amounts; `name` goes behind the prefix. */
uint32_t mq_net_add(struct mq_net *net, enum mq_op_kind kind, const char *name);
/* A tensor of `width` features per row. */
void mq_net_join(struct mq_net *net, uint32_t src, uint32_t dst, double width);

/* Divides an op by heads, too; `serial`: and never along the tokens, since each step needs the one before. Returns it. */
uint32_t mq_net_by_head(struct mq_net *net, uint32_t op, double heads, bool serial);
/* An op uses the weights of another. */
void mq_net_tie(struct mq_net *net, uint32_t op, uint32_t owner);
/* The latest edge: what flows back over it is nothing. */
void mq_net_no_grad(struct mq_net *net);

/* An element-wise op (or MQ_OP_SCAN) as wide as its input: what it does and moves, in elements, for each of them. */
struct mq_step {
	double flop, flop_bwd, read, write, moved_bwd, saved;
};
uint32_t mq_net_step(struct mq_net *net, const char *name, uint32_t input, double width, const struct mq_step *step);
/* A depthwise convolution over time without bias, and what is behind it: `flop` more an element. */
uint32_t mq_net_convolve(struct mq_net *net, uint32_t input, double width, double taps, double flop);
/* RMS norm of what was scanned times an activation of the gate. */
uint32_t mq_net_gate(struct mq_net *net, uint32_t scanned, uint32_t proj, double width, double weights);
/* A GEMM that every tensor-parallel rank computes in whole; and one of a single vector per sample, whatever the tokens. */
uint32_t mq_net_gemm_whole(struct mq_net *net, const char *name, uint32_t input, double k, double n);
uint32_t mq_net_gemm_once(struct mq_net *net, const char *name, uint32_t input, double k, double n);

uint32_t mq_net_tokens(struct mq_net *net, const char *name);
/* Patches of `pixels` elements each as tokens of `width`, and their positions, `param` of them. */
uint32_t mq_net_patches(struct mq_net *net, const char *name, double pixels, double width, double param);
uint32_t mq_net_embedding(struct mq_net *net, uint32_t tokens, double vocab, double width);
uint32_t mq_net_norm(struct mq_net *net, const char *name, uint32_t input, double width);
uint32_t mq_net_gemm(struct mq_net *net, const char *name, uint32_t input, double k, double n);
/* x + f(x), the latter through dropout. */
uint32_t mq_net_residual(struct mq_net *net, const char *name, uint32_t branch, uint32_t stream, double width);
uint32_t mq_net_activation(struct mq_net *net, const char *name, uint32_t input, double ffn, enum mq_activation kind);
/* Cross-entropy over the logits of `head`. */
uint32_t mq_net_loss(struct mq_net *net, uint32_t head, double vocab);

struct mq_attention {
	double heads, kv_heads, head_dim, keys;
	double value_dim; /* width of a head of values; 0 = head_dim */
	double window;    /* keys that a query of fused attention sees; 0 = all (before it) */
	bool chunked;     /* the window is a chunk of the sequence */
	bool causal, fused, rotary;
};
/* `query` gives Q (or Q, K and V when `memory` is MQ_NONE), `memory` the keys and values. */
uint32_t mq_net_attention(struct mq_net *net, const char *name, uint32_t query, uint32_t memory,
			  const struct mq_attention *a);

/* Makes fused attention, with `dropout` of its scores or not, one that stores them: m x n a head, and with dropout its
 * mask and its output besides. */
void mq_op_store_scores(struct mq_op *op);

struct mq_experts {
	double hidden, ffn, experts, top_k;
	double latent; /* width that tokens are projected to before they travel (LatentMoE); 0 = hidden */
	enum mq_activation activation;
	bool clamp; /* the gated activation clamps both of its inputs */
};
/* Router, dispatch, expert GEMMs and combine (between the latent projections); returns the last op. */
uint32_t mq_net_experts(struct mq_net *net, uint32_t input, const struct mq_experts *e);

#endif
