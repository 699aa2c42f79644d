/* layers.c - see layers.h. SPDX-License-Identifier: Apache-2.0 */
#include "model/builders/lib/layers.h"
#include "model/builders/lib/image.h"

#include <math.h>

#define BIT(dim) (1u << MQ_DIM_##dim)

static const double MASK = .5; /* a mask of one byte, in 16-bit elements */

void mq_net_begin(struct mq_net *net, struct mq_arena *arena, const char *name)
{
	*net = (struct mq_net){ .arena = arena, .layer = MQ_NONE, .prefix = "" };
	mq_model_begin(&net->b, arena, name);
	net->b.model->unit = "sequence";
}

struct mq_op *mq_net_at(struct mq_net *net, uint32_t op)
{
	return &net->b.model->op[op];
}

uint32_t mq_net_add(struct mq_net *net, enum mq_op_kind kind, const char *name)
{
	uint32_t id = mq_model_add(&net->b, kind, mq_arena_printf(net->arena, "%s%s", net->prefix, name));
	struct mq_op *op = mq_net_at(net, id);

	op->layer = net->layer;
	op->splits |= BIT(SEQ);
	op->extent[MQ_DIM_SEQ] = net->rows;
	op->kernels = 1;
	return id;
}

void mq_net_join(struct mq_net *net, uint32_t src, uint32_t dst, double width)
{
	mq_model_connect(&net->b, src, dst, net->rows * width);
}

static void allow(struct mq_op *op, enum mq_dim dim, double extent)
{
	op->splits |= 1u << dim;
	op->extent[dim] = extent;
}

uint32_t mq_net_by_head(struct mq_net *net, uint32_t id, double heads, bool serial)
{
	struct mq_op *op = mq_net_at(net, id);

	allow(op, MQ_DIM_HEAD, heads);
	if (serial) {
		op->splits &= ~BIT(SEQ);
		op->extent[MQ_DIM_SEQ] = 0;
	}
	return id;
}

void mq_net_tie(struct mq_net *net, uint32_t op, uint32_t owner)
{
	mq_net_at(net, op)->param = 0;
	mq_net_at(net, op)->tied = owner;
}

void mq_net_no_grad(struct mq_net *net)
{
	net->b.model->edge[net->b.model->n_edges - 1].no_grad = true;
}

uint32_t mq_net_step(struct mq_net *net, const char *name, uint32_t input, double width, const struct mq_step *step)
{
	uint32_t id = mq_net_add(net, MQ_OP_ELEMENTWISE, name);
	struct mq_op *op = mq_net_at(net, id);
	double elems = net->rows * width;

	op->flop = step->flop * elems;
	op->flop_bwd = step->flop_bwd * elems;
	op->read = step->read * elems;
	op->write = step->write * elems;
	op->output = elems;
	op->moved_bwd = step->moved_bwd * elems;
	op->saved = step->saved * elems;
	mq_net_join(net, input, id, width);
	return id;
}

uint32_t mq_net_convolve(struct mq_net *net, uint32_t input, double width, double taps, double flop)
{
	double each = 2 * taps + flop;
	uint32_t id = mq_net_step(net, "conv", input, width, &(struct mq_step){ each, 3 * each, 1, 1, 5, 1 });

	mq_net_at(net, id)->param = width * taps;
	return id;
}

uint32_t mq_net_gate(struct mq_net *net, uint32_t scanned, uint32_t proj, double width, double weights)
{
	/* RMS norm 4 FLOP, SiLU and product 5; the next GEMM's input is saved */
	uint32_t id = mq_net_step(net, "gate", scanned, width, &(struct mq_step){ 9, 18, 2, 1, 5, 1 });

	mq_net_at(net, id)->param = weights;
	mq_net_join(net, proj, id, width);
	return id;
}

uint32_t mq_net_tokens(struct mq_net *net, const char *name)
{
	uint32_t id = mq_net_add(net, MQ_OP_INPUT, name);

	mq_net_at(net, id)->output = net->rows;
	mq_net_at(net, id)->kernels = 0;
	return id;
}

uint32_t mq_net_embedding(struct mq_net *net, uint32_t tokens, double vocab, double width)
{
	uint32_t id = mq_net_add(net, MQ_OP_EMBEDDING, "embedding");
	struct mq_op *op = mq_net_at(net, id);

	op->param = vocab * width;
	op->read = op->write = op->output = net->rows * width;
	op->moved_bwd = 2 * net->rows * width;
	allow(op, MQ_DIM_IN, vocab);
	allow(op, MQ_DIM_OUT, width);
	mq_net_join(net, tokens, id, 1);
	mq_net_no_grad(net);
	return id;
}

uint32_t mq_net_norm(struct mq_net *net, const char *name, uint32_t input, double width)
{
	uint32_t id = mq_net_add(net, MQ_OP_NORM, name);
	struct mq_op *op = mq_net_at(net, id);
	double elems = net->rows * width;

	op->param = net->rms ? width : 2 * width;
	op->flop = (net->rms ? 4 : 8) * elems;
	op->flop_bwd = 2 * op->flop;
	op->read = op->write = op->output = elems;
	op->moved_bwd = 3 * elems;
	op->saved = 2 * elems;
	op->rms = net->rms;
	mq_net_join(net, input, id, width);
	return id;
}

uint32_t mq_net_gemm(struct mq_net *net, const char *name, uint32_t input, double k, double n)
{
	uint32_t id = mq_net_add(net, MQ_OP_GEMM, name);

	mq_amounts_gemm(mq_net_at(net, id), (double[]){ net->rows, n, k }, net->biases, true);
	mq_net_join(net, input, id, k);
	return id;
}

uint32_t mq_net_gemm_whole(struct mq_net *net, const char *name, uint32_t input, double k, double n)
{
	uint32_t id = mq_net_gemm(net, name, input, k, n);

	mq_net_at(net, id)->splits &= ~(BIT(OUT) | BIT(IN));
	return id;
}

uint32_t mq_net_gemm_once(struct mq_net *net, const char *name, uint32_t input, double k, double n)
{
	double rows = net->rows;

	net->rows = 1;
	uint32_t id = mq_net_gemm(net, name, input, k, n);
	mq_net_at(net, id)->splits &= ~BIT(SEQ);
	net->rows = rows;
	return id;
}

uint32_t mq_net_patches(struct mq_net *net, const char *name, double pixels, double width, double param)
{
	uint32_t x = mq_net_gemm(net, "patches", mq_net_tokens(net, name), pixels, width);

	mq_net_no_grad(net);
	x = mq_net_step(net, "position", x, width, &(struct mq_step){ 1, 1, 1, 1, 2, 0 });
	mq_net_at(net, x)->param = param;
	return x;
}

uint32_t mq_net_residual(struct mq_net *net, const char *name, uint32_t branch, uint32_t stream, double width)
{
	uint32_t id = mq_net_add(net, MQ_OP_ELEMENTWISE, name);
	struct mq_op *op = mq_net_at(net, id);
	double elems = net->rows * width, mask = net->dropout ? MASK * elems : 0;

	op->flop = elems;
	op->flop_bwd = elems; /* sum of the two gradients of the residual stream */
	op->read = 2 * elems;
	op->write = elems + mask;
	op->output = elems;
	op->moved_bwd = 3 * elems + (net->dropout ? 2 * elems + mask : 0);
	op->saved = mask;
	op->masks = net->dropout ? elems : 0;
	op->kernels = net->dropout ? 2 : 1;
	op->dropout = net->dropout;
	allow(op, MQ_DIM_OUT, width);
	mq_net_join(net, branch, id, width);
	mq_net_join(net, stream, id, width);
	return id;
}

uint32_t mq_net_activation(struct mq_net *net, const char *name, uint32_t input, double ffn, enum mq_activation kind)
{
	static const double flop[] = { [MQ_ACT_GELU] = 8, [MQ_ACT_RELU] = 1, [MQ_ACT_GATED] = 5 };
	uint32_t id = mq_net_add(net, MQ_OP_ELEMENTWISE, name);
	struct mq_op *op = mq_net_at(net, id);
	double elems = net->rows * ffn, in = kind == MQ_ACT_GATED ? 2 : 1;

	op->flop = flop[kind] * elems;
	op->flop_bwd = 2 * op->flop;
	op->read = in * elems;
	op->write = op->output = elems;
	op->moved_bwd = (2 * in + 1) * elems;
	op->saved = kind == MQ_ACT_RELU ? elems : (in + 1) * elems; /* ReLU works in place */
	op->kernels = 1;
	op->gated = kind == MQ_ACT_GATED;
	op->gelu = kind == MQ_ACT_GELU;
	allow(op, MQ_DIM_OUT, ffn);
	mq_net_join(net, input, id, in * ffn);
	return id;
}

uint32_t mq_net_loss(struct mq_net *net, uint32_t head, double vocab)
{
	uint32_t id = mq_net_add(net, MQ_OP_LOSS, "loss");
	struct mq_op *op = mq_net_at(net, id);
	double elems = net->rows * vocab;

	op->flop = op->flop_bwd = 5 * elems;
	op->read = elems;
	op->write = 2 * elems; /* fp32 probabilities, kept for the backward pass */
	op->moved_bwd = 3 * elems;
	op->saved = 2 * elems;
	op->output = net->rows;
	op->kernels = 3;
	allow(op, MQ_DIM_OUT, vocab);
	mq_net_join(net, head, id, vocab);
	return id;
}

void mq_op_store_scores(struct mq_op *op)
{
	double scores = op->m * op->n * op->count;
	double product = (op->m * op->k + op->n * op->k + op->m * op->n) * op->count;

	op->fused = false;
	op->saved_selective = scores * (op->dropout ? 2 + MASK : 1);
	op->saved = fmax(op->saved - 2 * op->m * op->count, 0) +
		    op->saved_selective; /* in place of the softmax statistics */
	op->masks = op->dropout ? scores : 0;
	/* Two batched GEMMs; a softmax reads scores and writes probabilities; dropout reads
	 * these and writes a mask and what is left: 4 or 9 bytes a score in 16 bit. */
	op->read = 2 * product - op->m * op->k * op->count + (op->dropout ? scores : 0);
	op->write = op->m * op->k * op->count + scores + op->saved_selective;
	op->moved_bwd = 4 * product + 3 * scores + (op->dropout ? (2 + MASK) * scores : 0);
	op->kernels += op->dropout ? 4 : 3;
}

/* Share of the query-key pairs inside a sliding window. Causal: each query sees the last w keys, n w - w^2/2 of n^2/2
 * pairs; in chunks of w, n w/2 of them. Without causal mask n w of n^2. */
static double seen(const struct mq_attention *a)
{
	double part = a->keys > 0 ? a->window / a->keys : 0;

	return a->window > 0 && part < 1 ? (a->causal && !a->chunked ? part * (2 - part) : part) : 1;
}

uint32_t mq_net_attention(struct mq_net *net, const char *name, uint32_t query, uint32_t memory,
			  const struct mq_attention *a)
{
	uint32_t id = mq_net_add(net, MQ_OP_ATTENTION, name);
	struct mq_op *op = mq_net_at(net, id);
	double value_dim = a->value_dim > 0 ? a->value_dim : a->head_dim;
	double q = net->rows * a->heads * a->head_dim, out = net->rows * a->heads * value_dim;
	double kv = a->keys * a->kv_heads * (a->head_dim + value_dim);

	op->m = net->rows;
	op->n = a->keys;
	op->k = (a->head_dim + value_dim) / 2; /* mean of the two GEMMs */
	op->count = a->heads;
	op->causal = a->causal;
	op->fused = true;
	op->dropout = net->dropout;
	op->flop = 4 * op->m * op->n * op->k * op->count * seen(a);
	op->flop_bwd = 2 * op->flop;
	op->output = out;
	op->read = q + kv;
	op->write = out + 2 * net->rows * a->heads; /* fp32 log-sum-exp of each row */
	op->moved_bwd = 2 * (q + out) + 2 * kv;     /* with gradients */
	op->saved = q + kv + op->write;             /* the output is saved as the next GEMM's input */
	op->splits |= BIT(HEAD);
	op->extent[MQ_DIM_HEAD] = a->heads;
	if (!a->fused)
		mq_op_store_scores(op);
	if (a->rotary) {
		op->kernels += 2;
		op->rotated = q + a->keys * a->kv_heads * a->head_dim;
	}
	if (memory == MQ_NONE) {
		mq_model_connect(&net->b, query, id, q + kv);
	} else {
		mq_model_connect(&net->b, query, id, q);
		mq_model_connect(&net->b, memory, id, kv);
	}
	return id;
}

/* ---- mixture of experts ---------------------------------------------------------------------- */

static double width_of(const struct mq_experts *e)
{
	return e->latent > 0 ? e->latent : e->hidden;
}

static uint32_t router(struct mq_net *net, uint32_t input, const struct mq_experts *e)
{
	bool biases = net->biases;

	net->biases = false;
	uint32_t id = mq_net_gemm(net, "router", input, e->hidden, e->experts);
	net->biases = biases;
	struct mq_op *op = mq_net_at(net, id);
	op->kind = MQ_OP_ROUTER;
	op->splits = BIT(BATCH) | BIT(SEQ); /* every rank routes its own tokens over all experts */
	op->kernels = 4;
	return id;
}

/* A token is copied once per expert that it visits. Traffic beyond this minimum depends on the software, see
 * exchange_kernels in kernels/model_kernels.c. */
static uint32_t exchange(struct mq_net *net, enum mq_op_kind kind, const struct mq_experts *e)
{
	bool out = kind == MQ_OP_DISPATCH;
	uint32_t id = mq_net_add(net, kind, out ? "dispatch" : "combine");
	struct mq_op *op = mq_net_at(net, id);
	double tokens = net->rows * width_of(e), copies = tokens * e->top_k;

	op->read = out ? tokens : copies;
	op->write = out ? copies : tokens;
	op->moved_bwd = copies + tokens;
	op->output = out ? copies : tokens;
	op->flop = out ? 0 : 2 * copies;
	op->flop_bwd = 2 * op->flop;
	op->saved = copies; /* input of the experts; their output, for the router's gradient */
	op->kernels = out ? 4 : 3;
	allow(op, MQ_DIM_EXPERT, e->experts);
	return id;
}

/* One matrix per expert; each multiplies its share of rows * top_k. */
static uint32_t expert_gemm(struct mq_net *net, const char *name, uint32_t input, const struct mq_experts *e,
			    const double kn[2])
{
	uint32_t id = mq_net_gemm(net, name, input, kn[0], kn[1]);
	struct mq_op *op = mq_net_at(net, id);

	op->m = net->rows * e->top_k / e->experts;
	op->count = e->experts;
	op->param *= e->experts;
	op->flop *= e->top_k;
	op->flop_bwd *= e->top_k;
	op->read *= e->top_k;
	op->write *= e->top_k;
	op->output *= e->top_k;
	op->moved_bwd *= e->top_k;
	net->b.model->edge[net->b.model->n_edges - 1].elems *= e->top_k;
	allow(op, MQ_DIM_EXPERT, e->experts);
	return id;
}

static uint32_t expert_activation(struct mq_net *net, uint32_t input, const struct mq_experts *e)
{
	double rows = net->rows;

	net->rows = rows * e->top_k;
	uint32_t id = mq_net_activation(net, "experts.activation", input, e->ffn, e->activation);
	net->rows = rows;
	mq_net_at(net, id)->extent[MQ_DIM_SEQ] = rows;
	allow(mq_net_at(net, id), MQ_DIM_EXPERT, e->experts);
	return id;
}

/* An element-wise op over `width` elements of every token copy, which a fused kernel of experts includes. */
static uint32_t expert_step(struct mq_net *net, const char *name, uint32_t input, const struct mq_experts *e,
			    double width, const struct mq_step *step)
{
	uint32_t id = mq_net_step(net, name, input, width * e->top_k, step);

	allow(mq_net_at(net, id), MQ_DIM_EXPERT, e->experts);
	return id;
}

/* GPT-OSS clamps the two halves of a gated activation's input separately and concatenates them. Per element of both:
 * forward the clamps read and write, as does the concatenation; backward each clamp reads its gradient and its input
 * and writes, and the halves are concatenated (Megatron core's fused_bias_geglu.py). */
static uint32_t clamp(struct mq_net *net, uint32_t up, const struct mq_experts *e)
{
	uint32_t id = expert_step(net, "experts.clamp", up, e, 2 * e->ffn, &(struct mq_step){ 1, 2, 2, 2, 5, 1 });

	mq_net_at(net, id)->kernels = 3;
	return id;
}

/* Megatron core's experts.py adds the bias of each expert's output, weighted by the routing in fp32, expert by expert,
 * then concatenates and rounds. Traffic in 16-bit elements, forward: the GEMM is written (2), it and the output are
 * read (3) and their sum written (2); the concatenation reads and writes (4), as does the rounding (3). Backward:
 * widening (3), gradient of the output (3), concatenation (2); gradient of the GEMM by the weight (4) and its sum (2),
 * by the bias (4) and its sum (2). */
static uint32_t add_bias(struct mq_net *net, uint32_t down, const struct mq_experts *e, double width)
{
	uint32_t id = expert_step(net, "experts.bias", down, e, width, &(struct mq_step){ 1, 2, 7, 7, 20, 0 });

	mq_net_at(net, id)->count = e->experts; /* two kernels per expert */
	mq_net_at(net, id)->kernels = 2;
	return id;
}

uint32_t mq_net_experts(struct mq_net *net, uint32_t input, const struct mq_experts *e)
{
	double up_n = e->activation == MQ_ACT_GATED ? 2 * e->ffn : e->ffn, width = width_of(e);
	uint32_t route = router(net, input, e);

	if (e->latent > 0) /* as in the router, every rank projects its own tokens by the whole matrix */
		input = mq_net_gemm_whole(net, "latent.down", input, e->hidden, e->latent);
	uint32_t dispatch = exchange(net, MQ_OP_DISPATCH, e);
	mq_net_join(net, input, dispatch, width);
	mq_net_join(net, route, dispatch, e->top_k);
	mq_net_no_grad(net); /* indices have none */
	uint32_t up = expert_gemm(net, "experts.up", dispatch, e, (double[]){ width, up_n });
	if (e->clamp)
		up = clamp(net, up, e);
	uint32_t act = expert_activation(net, up, e);
	uint32_t down = expert_gemm(net, "experts.down", act, e, (double[]){ e->ffn, width });
	if (net->biases)
		down = add_bias(net, down, e, width);
	uint32_t combine = exchange(net, MQ_OP_COMBINE, e);
	mq_net_join(net, down, combine, width * e->top_k);
	mq_net_join(net, route, combine, e->top_k);
	return e->latent > 0 ? mq_net_gemm_whole(net, "latent.up", combine, e->latent, e->hidden) : combine;
}
