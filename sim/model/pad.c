/* pad.c - pads the vocabulary of a model, so that every tensor-parallel rank gets an aligned share (Megatron-LM's
 * --make-vocab-size-divisible-by).
 *
 * The embedding table, the head's columns and all of the loss grow in proportion.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "maquette/model.h"

/* The dimension of the op that is the vocabulary; MQ_N_DIMS = none. */
static enum mq_dim vocab_dim(const struct mq_model *m, const struct mq_op *op)
{
	if (op->layer != MQ_NONE || !m->vocab)
		return MQ_N_DIMS;
	if (op->kind == MQ_OP_EMBEDDING)
		return op->extent[MQ_DIM_IN] == m->vocab ? MQ_DIM_IN : MQ_N_DIMS;
	if (op->kind == MQ_OP_GEMM && op->n != m->vocab)
		return MQ_N_DIMS;
	return op->extent[MQ_DIM_OUT] == m->vocab ? MQ_DIM_OUT : MQ_N_DIMS;
}

uint32_t mq_model_vocab_op(const struct mq_model *m)
{
	for (uint32_t op = m->n_ops; op-- > 0;)
		if (vocab_dim(m, &m->op[op]) == MQ_DIM_OUT)
			return op;
	return MQ_NONE;
}

static void grow(struct mq_op *op, enum mq_dim dim, double padded)
{
	double factor = padded / op->extent[dim];

	op->extent[dim] = padded; /* exact: kernels check whether rows are aligned */
	op->param *= factor;
	op->fixed_bwd *= factor;
	if (dim == MQ_DIM_IN)
		return;
	double moved = op->read + op->write;
	op->flop *= factor;
	op->flop_bwd *= factor;
	op->write *= factor;
	if (op->kind != MQ_OP_LOSS) /* one number, whatever the vocabulary */
		op->output *= factor;
	if (op->kind == MQ_OP_GEMM) {
		op->n = padded;
		op->moved_bwd *= moved > 0 ? (op->read + op->write) / moved : 1;
		return;
	}
	op->read *= factor;
	op->moved_bwd *= factor;
	op->saved *= factor;
	op->saved_selective *= factor;
	op->masks *= factor;
}

const struct mq_model *mq_model_pad_vocab(const struct mq_model *m, double multiple, uint32_t parts,
					  struct mq_arena *arena)
{
	double unit = multiple * parts;
	double padded = unit > 0 ? ceil(m->vocab / unit) * unit : fmax(floor((double)m->vocab / parts), 1) * parts;
	double factor = padded / m->vocab;

	if (!m->vocab || padded == m->vocab || mq_model_vocab_op(m) == MQ_NONE)
		return m;
	struct mq_model *to = mq_arena_alloc(arena, sizeof(*to));
	*to = *m;
	to->op = mq_arena_array(arena, m->n_ops, struct mq_op);
	to->edge = mq_arena_array(arena, m->n_edges, struct mq_edge);
	memcpy(to->op, m->op, m->n_ops * sizeof(*m->op));
	memcpy(to->edge, m->edge, m->n_edges * sizeof(*m->edge));
	for (uint32_t i = 0; i < m->n_ops; i++) {
		enum mq_dim dim = vocab_dim(m, &m->op[i]);

		if (dim == MQ_N_DIMS)
			continue;
		grow(&to->op[i], dim, padded);
		for (uint32_t e = m->out_first[i]; dim == MQ_DIM_OUT && e < m->out_first[i + 1]; e++)
			to->edge[e].elems *= factor;
	}
	to->vocab = (uint32_t)padded;
	return to;
}
