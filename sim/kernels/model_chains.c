/* model_chains.c - see model_chains.h. SPDX-License-Identifier: Apache-2.0 */
#include "kernels/model_chains.h"

bool mq_channels_first(const struct mq_model *model, const struct mq_software *software, enum mq_dtype dtype)
{
	bool wide = mq_dtype_size(dtype) >= 4;

	switch ((enum mq_channels_first)software->channels_first) {
	case MQ_FIRST_ALL:
		return true;
	case MQ_FIRST_32_VOLUMES:
		return wide || model->volumes;
	case MQ_FIRST_32:
		return wide;
	case MQ_FIRST_NONE:
		break;
	}
	return false;
}

static bool feeds_one(const struct mq_model *model, uint32_t op)
{
	return model->out_first[op + 1] - model->out_first[op] == 1;
}

/* The norm, or the element-wise op of a chain behind one, whose output only this op reads. */
static const struct mq_op *chain_of(const struct mq_model *model, uint32_t id)
{
	if (model->op[id].kind != MQ_OP_ELEMENTWISE)
		return NULL;
	MQ_EACH_IN(model, id, e)
		if (feeds_one(model, e->src) && (model->op[e->src].kind == MQ_OP_NORM || chain_of(model, e->src)))
			return &model->op[e->src];
	return NULL;
}

static bool joins(const struct mq_model *model, const struct mq_software *software, enum mq_dtype dtype)
{
	return software->elementwise_fusion == MQ_CHAINS_ALL ||
	       (software->elementwise_fusion == MQ_CHAINS_NORM_16 && mq_dtype_size(dtype) < 4 &&
		!mq_channels_first(model, software, dtype));
}

/* The op of the first input that fits and that only this op reads. */
static const struct mq_op *maker_of(const struct mq_model *model, uint32_t id,
				    bool (*fits)(const struct mq_model *, uint32_t))
{
	MQ_EACH_IN(model, id, e)
		if (feeds_one(model, e->src) && fits(model, e->src))
			return &model->op[e->src];
	return NULL;
}

/* Is it a convolution or part of its epilogue: an untrained scale and shift, a sum, an activation? */
static bool in_epilogue(const struct mq_model *model, uint32_t id)
{
	const struct mq_op *op = &model->op[id];
	bool scale = op->kind == MQ_OP_NORM && op->read == op->output && op->moved_bwd <= 2 * op->output;

	if (op->kind == MQ_OP_CONV)
		return true;
	return (scale || op->kind == MQ_OP_ELEMENTWISE) && maker_of(model, id, in_epilogue);
}

/* Elements that an epilogue saves: forward all but the other branch of a sum; backward the scale is fused with the
 * activation behind it, or the kernel of the sum's backward pass writes it. */
static double epilogue_spares(const struct mq_model *model, uint32_t id, bool backward)
{
	const struct mq_op *op = &model->op[id];
	uint32_t first = model->out_first[id];

	if (op->kind == MQ_OP_CONV || !in_epilogue(model, id))
		return 0;
	if (!backward)
		return 2 * op->write;
	if (op->kind != MQ_OP_NORM || first == model->out_first[id + 1])
		return 0;
	const struct mq_op *reader = &model->op[model->edge[first].dst];
	return op->moved_bwd - (reader->read > reader->write ? op->write : 0);
}

/* Can cuDNN fuse a norm with this convolution? If its filters have at most 3 x 3 elements. */
static bool takes_norms(const struct mq_model *model, uint32_t op)
{
	enum { WINDOW = 9 };

	return model->op[op].kind == MQ_OP_CONV && model->op[op].window >= 1 && model->op[op].window <= WINDOW;
}

/* Is the op's output read by such convolutions alone, directly or through an activation (`activated`: it is one)? */
static bool read_by_convs(const struct mq_model *model, uint32_t id, bool activated)
{
	for (uint32_t i = model->out_first[id]; i < model->out_first[id + 1]; i++) {
		uint32_t reader = model->edge[i].dst;
		const struct mq_op *op = &model->op[reader];
		bool activation = !activated && op->kind == MQ_OP_ELEMENTWISE && op->read <= op->write;

		if (!takes_norms(model, reader) && !(activation && read_by_convs(model, reader, true)))
			return false;
	}
	return model->out_first[id] < model->out_first[id + 1];
}

/* Elements that fusion with convolutions saves a batch norm forward (cuDNN's CONV_BNSTATS and SCALE_BIAS_ACTIVATION):
 * one reading, if the convolution before it sums up its output as it writes it; all, if the convolutions after it also
 * normalize and activate their input. */
static double norm_spares(const struct mq_model *model, uint32_t id, const struct mq_software *software,
			  enum mq_dtype dtype)
{
	const struct mq_op *op = &model->op[id];

	if (software->norm_convolution == MQ_NORMS_APART || mq_dtype_size(dtype) >= 4 || op->read <= op->output ||
	    !maker_of(model, id, takes_norms))
		return 0;
	return software->norm_convolution == MQ_NORMS_MAINLOOP && read_by_convs(model, id, false) ?
		       op->read + op->write :
		       op->output;
}

double mq_chain_spares(const struct mq_model *model, uint32_t id, const struct mq_software *software,
		       enum mq_dtype dtype, bool backward)
{
	const struct mq_op *op = &model->op[id], *chain = NULL;
	bool library = software->elementwise_fusion == MQ_CHAINS_NORM_16, adds = op->read > op->write;
	double less = 0;

	if (model->image && software->elementwise_fusion == MQ_CHAINS_CONV)
		return epilogue_spares(model, id, backward) +
		       (backward && op->kind == MQ_OP_ELEMENTWISE && adds && software->fused_grad_add ? 2 * op->write :
													0);
	if (model->image && op->kind == MQ_OP_NORM && !backward)
		return norm_spares(model, id, software, dtype);
	if (!model->image || op->kind != MQ_OP_ELEMENTWISE)
		return 0;
	if (joins(model, software, dtype))
		chain = chain_of(model, id);
	if (!backward)
		return chain ? 2 * op->write : 0;
	if (chain && adds)
		less = library ? -op->write : 0;
	else if (chain)
		less = op->moved_bwd - (library ? 0 : chain->kind == MQ_OP_NORM ? 2 * op->write : op->write);
	return less + (adds && software->fused_grad_add ? 2 * op->write : 0);
}
