/* model_attention.c - the kernels of attention.
 *
 * Fused (flash) attention is one kernel, with rotary embeddings, copies, casts and the sums between a ring's steps
 * around it; unfused attention is batched GEMMs and the kernels on the scores between them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernels/model_work.h"

/* Copies of queries, keys, values and output that make the elements of a head contiguous. */
static void add_heads(struct mq_op_work *w, bool backward)
{
	const struct mq_op *op = w->op;
	double width = op->k * op->count * w->scale.count;
	double output = op->m * w->scale.rows * width, keys = 2 * op->n * w->scale.keys * width;

	if (w->model->image || w->software->transpose_copies == MQ_HEADS_NONE ||
	    w->software->transpose_copies == MQ_HEADS_PACKED)
		return;
	bool all = w->software->transpose_copies == MQ_HEADS_ALL;
	mq_work_made(w, MQ_PART_COPY, MQ_MAKE_NATIVE, all ? 2 * output + keys : output, backward);
	if (!all && backward) /* the backward pass of torch.split concatenates them */
		mq_work_made(w, MQ_PART_COPY, MQ_MAKE_EAGER, output + keys, backward);
}

/* Kernels that combine a ring's steps, of `output` elements and `keys` of keys and values (Transformer Engine,
 * context_parallel.py). Keys and values are concatenated to travel, and saved so. Forward, the first step's output is
 * rescaled, each later one is rescaled and added; backward, gradients are copied, then added. With balanced causal work
 * the first half of a rank's queries sees nothing of the second half of the other's keys: 3/4 take part on average,
 * except in the first output. In fp8, bytes per element in brackets: each output is converted to fp32 (5), rescaled (8)
 * or added (12), and the sum converted to 16 bits (6); gradients are kept in fp8 (2), converted to fp32 (5), summed
 * over the steps (4 and 4) and converted to 16 bits (6). */
static void merge_steps(struct mq_op_work *w, double output, double keys, bool backward)
{
	double steps = w->ring - 1, size_B = w->size_B, part = w->op->causal ? .75 : 1, bytes;

	if (w->software->fp8_attention && w->fp8)
		bytes = 2 * keys + (backward ? ((part * 2 + 5 + 4) * w->ring + 4 + 6) * (output + keys) :
					       (5 + 8 + 6 + part * (5 + 12) * steps) * output);
	else
		bytes = size_B * (2 * keys + (backward ? part * (2 + 3 * steps) * (output + keys) :
							 (2 + part * 3 * steps) * output));
	/* concatenation, statistics, first output; per later step statistics and output; Q, K and V */
	mq_work_pass(w, MQ_KERNEL_MEMORY, bytes, backward ? 1 + 3 * w->ring : 3 + 2 * steps);
}

/* Elements of keys or values repeated for all query heads of their group; 0 = not repeated. */
static double repeated(const struct mq_op_work *w, double keys)
{
	double all = w->op->n * w->op->k * w->op->count;

	return w->software->repeat_kv != MQ_REPEAT_NONE && keys > 0 && keys < 2 * all ? all : 0;
}

static void add_rope(struct mq_op_work *w, double queries, double keys, bool backward)
{
	const struct mq_software *s = w->software;
	double elems = w->op->rotated * w->scale.read;

	if (s->repeat_kv == MQ_REPEAT_POSITIONS && repeated(w, keys) > 0)
		elems *= (queries + repeated(w, keys)) / (queries + keys / 2);
	if (!(elems > 0))
		return;
	mq_work_pass(w, MQ_KERNEL_MEMORY, 2 * elems * w->size_B, 0); /* the op counts the launches */
	if (s->rope == MQ_EAGER || (w->op->scaled && s->yarn == MQ_EAGER)) {
		mq_work_made(w, MQ_PART_ROPE, MQ_MAKE_EAGER, elems, backward);
		w->kernel[w->n - 1].launches--; /* the op counts one of Q and one of K, the table one of both */
	}
}

static void fused_attention(struct mq_op_work *w, bool backward)
{
	const struct mq_op *op = w->op;
	struct mq_kernel *k = mq_work_add(w, MQ_KERNEL_ATTENTION);
	double queries = op->m * op->k * op->count;
	double keys = op->read > queries ? op->read - queries : 0, wide = 2 * repeated(w, keys);

	k->m = op->m * w->scale.rows;
	k->n = op->n * w->scale.keys;
	k->k = op->k;
	k->count = op->count * w->scale.count;
	k->flop = (backward ? op->flop_bwd : op->flop) * w->scale.flop * w->documents;
	k->bytes = (queries + op->write) * w->scale.read + keys * w->scale.kv;
	if (backward) { /* Q, O, dO in, dQ out; K, V in, dK, dV out */
		double all = 2 * (queries + op->write) + 2 * keys;
		double here = 2 * (queries + op->write) * w->scale.read + 2 * keys * w->scale.kv;

		k->bytes = all > 0 ? op->moved_bwd * here / all : 0;
	}
	k->bytes *= w->size_B;
	if (w->software->fp8_attention && w->fp8) {
		k->dtype = MQ_FP8;
		k->mx = w->mx;
	}
	/* flash attention: one kernel forward, three backward; rotary embedding, norms of Q and K: as many both ways */
	k->launches = op->kernels + (backward ? 2 : w->software->attention_setup_kernels);
	k->steps = w->ring > 1 ? w->ring - 1 : 0;
	k->attention = (uint8_t)w->software->attention;
	if (!w->ring)
		add_rope(w, queries, keys, backward);
	if (wide > 0) /* backward: sum of the gradients of a group's copies */
		mq_work_pass(w, MQ_KERNEL_MEMORY, (wide * w->scale.read + keys * w->scale.kv) * w->size_B, 2);
	/* into the layout that rotary embedding and attention need: one copy of all three, two more of K and V */
	if (w->software->transpose_copies == MQ_HEADS_PACKED)
		mq_work_pass(w, MQ_KERNEL_MEMORY, 2 * (queries * w->scale.read + 3 * keys * w->scale.kv) * w->size_B,
			     3);
	if (w->ring > 1)
		merge_steps(w, op->write * w->scale.read, keys * w->scale.kv / (w->scale.keys * w->ring), backward);
	else if (backward) /* dO; Q, K and V were kept in fp8 */
		mq_work_cast(w, op->write * w->scale.read, 1);
	else
		mq_work_cast(w, queries * w->scale.read + keys * w->scale.kv, 3);
}

/* The implementation of softmax on stored scores. */
static enum mq_make scores_make(const struct mq_op_work *w)
{
	static const enum mq_make makes[] = {
		[MQ_ATTENTION_STORED] = MQ_MAKE_EAGER,          [MQ_ATTENTION_EAGER] = MQ_MAKE_NATIVE,
		[MQ_ATTENTION_MASKED] = MQ_MAKE_APART,          [MQ_ATTENTION_XLA] = MQ_MAKE_XLA,
		[MQ_ATTENTION_TENSORFLOW] = MQ_MAKE_TENSORFLOW,
	};

	return mq_software_casts_scores(w->software, w->dtype) ? MQ_MAKE_AUTOCAST : makes[w->software->attention];
}

/* Mask, softmax and dropout of stored scores. */
static void add_scores(struct mq_op_work *w, double scores, bool backward)
{
	if (w->software->attention >= MQ_ATTENTION_FUSED_SOFTMAX || w->model->image)
		return;
	enum mq_make make = scores_make(w);

	mq_work_made(w, MQ_PART_SCORES, make, scores, backward);
	if (w->software->attention == MQ_ATTENTION_EAGER)
		mq_work_made(w, MQ_PART_MASK, w->software->masked_fill ? MQ_MAKE_EAGER : MQ_MAKE_NATIVE, scores,
			     backward);
	if (w->op->masks > 0 && mq_part_kernels(w->libraries, MQ_PART_DROPOUT, make))
		mq_work_made(w, MQ_PART_DROPOUT, make, scores, backward);
}

/* Attention that stores its scores: the batched GEMMs' traffic follows from their shapes, the softmax moves the rest of
 * the op's traffic. */
static void unfused_attention(struct mq_op_work *w, bool backward)
{
	const struct mq_op *op = w->op;
	double m = op->m * w->scale.rows, n = op->n * w->scale.keys, k = op->k;
	double count = op->count * w->scale.count;
	double product = (m * k + n * k + m * n) * count;
	double flop = (backward ? op->flop_bwd / 4 : op->flop / 2) * w->scale.flop;
	uint32_t products = backward ? 4 : 2, first = w->n;
	double whole = (op->m * k + op->n * k + op->m * op->n) * op->count;
	double rest = (backward ? op->moved_bwd : op->read + op->write) - products * whole;
	const double shape[4][3] = { { m, n, k }, { m, k, n }, { n, k, m }, { n, k, m } };

	for (uint32_t i = 0; i < products; i++)
		mq_work_gemm(w, shape[i], flop, product);
	for (uint32_t i = first; i < w->n; i++)
		w->kernel[i].launches = 1;
	struct mq_kernel *softmax = mq_work_add(w, MQ_KERNEL_MEMORY);
	softmax->bytes = fmax(rest, 0) * w->scale.read * w->scale.keys * w->size_B *
			 (w->model->image ? w->traffic : w->software->score_traffic);
	softmax->launches = fmax(op->kernels - 2, 1);
	softmax->n = n;
	add_scores(w, m * n * count, backward);
	add_heads(w, backward);
	add_rope(w, 0, 0, backward);
}

void mq_work_attention(struct mq_op_work *w, bool backward)
{
	const struct mq_op *op = w->op;
	double queries = op->m * op->k * op->count, keys = op->read > queries ? op->read - queries : 0;

	(op->fused ? fused_attention : unfused_attention)(w, backward);
	/* Q, K, V and the output, or their gradients, are each copied on either side of the wire: heads or positions
	 * of a rank lie together there (flash_attn_a2a_communicate, DeepSpeed's single_all_to_all) */
	if (w->exchanged)
		mq_work_pass(w, MQ_KERNEL_MEMORY,
			     2 * 2 * (2 * queries * w->scale.read + keys * w->scale.kv) * w->size_B, 2 * 4);
}
