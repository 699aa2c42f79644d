/* shares.c - one device's part of a split op: parameters, saved activations, optimizer state. model_kernels.c lists
 * what each split divides. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/model.h"

bool mq_edge_to_experts(const struct mq_model *m, const struct mq_edge *e)
{
	enum mq_op_kind from = m->op[e->src].kind, to = m->op[e->dst].kind;

	return from == MQ_OP_COMBINE || to == MQ_OP_DISPATCH || (from == MQ_OP_ROUTER && to == MQ_OP_COMBINE);
}

double mq_op_param_shard(const struct mq_op *op, const double split[MQ_N_DIMS])
{
	double e = mq_degree(split, MQ_DIM_EXPERT), h = mq_degree(split, MQ_DIM_HEAD);
	double o = mq_degree(split, MQ_DIM_OUT), i = mq_degree(split, MQ_DIM_IN);

	switch (op->kind) {
	case MQ_OP_GEMM:
	case MQ_OP_CONV:
	case MQ_OP_ROUTER: {
		double matrices = op->count > 0 ? op->count : 1;
		double weights = fmin(op->k * op->n * matrices, op->param);

		return weights / (o * h * i * e) + (op->param - weights) / (o * h * e);
	}
	case MQ_OP_EMBEDDING:
		return op->param / (i * o);
	case MQ_OP_PROFILED:
		return op->param;
	default:
		return op->param / (o * h * e);
	}
}

double mq_operand_B(enum mq_gemm_dtype gemm, enum mq_dtype dtype)
{
	const double size_B[] = { mq_dtype_size(dtype), 1, 1 + 1 / 32.0, .5 + 1 / 16.0 };

	return size_B[gemm];
}

/* Frozen matrices, except in NF4, are stored in the type of the GEMM operand. */
_Static_assert(MQ_FROZEN_NVFP4 - MQ_FROZEN_AS_DTYPE == (int)MQ_GEMM_FP4, "their types in the same order");
static enum mq_gemm_dtype held_as(const struct mq_op *op)
{
	return op->frozen > MQ_FROZEN_AS_DTYPE ? (enum mq_gemm_dtype)(op->frozen - MQ_FROZEN_AS_DTYPE) :
						 MQ_GEMM_AS_DTYPE;
}

double mq_op_param_B(const struct mq_op *op, const struct mq_train *train)
{
	return op->frozen == MQ_FROZEN_NF4 ? .5 + 1 / 64.0 + 4 / (64 * 256.0) : mq_operand_B(held_as(op), train->dtype);
}

bool mq_op_dequantizes(const struct mq_op *op, const struct mq_train *train)
{
	return op->frozen == MQ_FROZEN_NF4 ||
	       (op->frozen > MQ_FROZEN_AS_DTYPE && mq_operand_dtype(held_as(op), train->dtype) !=
							   mq_operand_dtype(mq_op_gemm_dtype(op, train), train->dtype));
}

/* Saved activations are split like the op's output; partial sums along IN are not divided. */
static double kept_share(double elems, const struct mq_share *share)
{
	double parts = 1;

	for (int d = 0; d < MQ_N_DIMS; d++)
		if (d != MQ_DIM_BATCH && d != MQ_DIM_IN)
			parts *= mq_degree(share->split, d);
	return elems * share->samples / parts;
}

double mq_op_saved_shard(const struct mq_op *op, const struct mq_share *share, bool selective)
{
	return kept_share(selective ? op->saved - op->saved_selective : op->saved, share);
}

double mq_op_saved_B(const struct mq_op *op, const struct mq_share *share, bool selective, const struct mq_train *train)
{
	double size = op->kind == MQ_OP_LOSS ? 2 : mq_dtype_size(train->dtype);
	double masks = selective && op->saved_selective > 0 ? 0 : op->masks;

	return mq_op_saved_shard(op, share, selective) * size + kept_share(masks, share) * (1 - size / 2);
}

double mq_optimizer_moments(enum mq_optimizer optimizer)
{
	static const double moments[MQ_N_OPTIMIZERS] = { [MQ_OPTIMIZER_ADAM] = 2, [MQ_OPTIMIZER_MOMENTUM] = 1 };

	return moments[optimizer];
}

double mq_train_state_B(const struct mq_train *train, double master_B, double moment_B)
{
	bool half = mq_dtype_size(train->dtype) < 4;

	return half ? master_B + moment_B * mq_optimizer_moments(train->optimizer) :
		      4 * mq_optimizer_moments(train->optimizer);
}
