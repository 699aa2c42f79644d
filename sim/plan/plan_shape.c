/* plan_shape.c - plans of the usual shapes: data x tensor x pipeline x context x expert parallelism, and one device per
 * op. See plan.h.
 *
 * Tensor parallelism follows Megatron-LM (Shoeybi et al. 2019, Korthikanti et al. 2022): a GEMM whose input is whole is
 * split by columns (OUT), one whose input is split by features is split by rows (IN) and leaves partial sums; attention
 * follows the heads; the rest works on whole features, or on a part of the sequence under sequence parallelism.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "maquette/plan.h"

static bool may(const struct mq_op *op, enum mq_dim dim, uint32_t parts)
{
	return (op->splits & 1u << dim) && op->extent[dim] >= parts;
}

static bool is_gemm(const struct mq_op *op)
{
	return op->kind == MQ_OP_GEMM || op->kind == MQ_OP_RECURRENT;
}

static bool feeds_loss(const struct mq_model *model, uint32_t op)
{
	MQ_EACH_OUT(model, op, e)
		if (model->op[e->dst].kind == MQ_OP_LOSS)
			return true;
	return false;
}

static bool features_split(const struct mq_model *model, uint32_t op, uint32_t t, bool vocab);

/* Are all inputs with activations split by features? Outputs of GEMMs are checked first, since they answer at once:
 * else a residual sum would recurse through all layers before it. */
static bool inputs_split(const struct mq_model *model, uint32_t op, uint32_t t, bool vocab)
{
	bool any = false;

	for (int gemms = 1; gemms >= 0; gemms--)
		MQ_EACH_IN(model, op, e) {
			if (model->op[e->src].kind == MQ_OP_INPUT || is_gemm(&model->op[e->src]) != gemms)
				continue;
			if (!features_split(model, e->src, t, vocab))
				return false;
			any = true;
		}
	return any;
}

/* Is the GEMM split by rows? The second GEMM of an adapter never is, since its input is gathered. */
static bool row_parallel(const struct mq_model *model, uint32_t op, uint32_t t, bool vocab)
{
	return model->op[op].adapter != MQ_ADAPTER_OUT && inputs_split(model, op, t, vocab);
}

static bool column_parallel(const struct mq_model *model, uint32_t op, uint32_t t, bool vocab)
{
	const struct mq_op *o = &model->op[op];

	return is_gemm(o) && may(o, MQ_DIM_OUT, t) && (vocab || !feeds_loss(model, op)) &&
	       !row_parallel(model, op, t, vocab);
}

/* Is the op's output split by features? The recursion ends at GEMMs, norms and inputs, so it is as deep as a chain of
 * element-wise ops. */
static bool features_split(const struct mq_model *model, uint32_t op, uint32_t t, bool vocab)
{
	const struct mq_op *o = &model->op[op];

	switch (o->kind) {
	case MQ_OP_GEMM:
	case MQ_OP_RECURRENT:
		return column_parallel(model, op, t, vocab);
	case MQ_OP_ATTENTION:
	case MQ_OP_BMM:
		return may(o, MQ_DIM_HEAD, t) && inputs_split(model, op, t, vocab);
	case MQ_OP_SCAN:
	case MQ_OP_SOFTMAX:
	case MQ_OP_ELEMENTWISE:
	case MQ_OP_RESHAPE:
		return (may(o, MQ_DIM_OUT, t) || may(o, MQ_DIM_HEAD, t)) && inputs_split(model, op, t, vocab);
	default:
		return false;
	}
}

bool mq_tensor_split(const struct mq_model *model, uint32_t op, uint32_t t, bool sequence_parallel, bool vocab_parallel,
		     uint32_t split[MQ_N_DIMS])
{
	const struct mq_op *o = &model->op[op];
	enum mq_dim dim = MQ_N_DIMS;

	for (int d = 0; d < MQ_N_DIMS; d++)
		split[d] = 1;
	if (t <= 1)
		return true;
	if (is_gemm(o)) {
		if (row_parallel(model, op, t, vocab_parallel))
			dim = MQ_DIM_IN;
		else if (column_parallel(model, op, t, vocab_parallel))
			dim = MQ_DIM_OUT;
		else if (sequence_parallel && !(o->splits & (1u << MQ_DIM_OUT | 1u << MQ_DIM_IN)) &&
			 may(o, MQ_DIM_SEQ, t))
			dim = MQ_DIM_SEQ; /* each rank has its own tokens and all weights */
	} else if (o->kind == MQ_OP_EMBEDDING) {
		if (vocab_parallel && may(o, MQ_DIM_IN, t))
			dim = MQ_DIM_IN;
	} else if (o->kind == MQ_OP_LOSS) {
		if (inputs_split(model, op, t, vocab_parallel) && may(o, MQ_DIM_OUT, t))
			dim = MQ_DIM_OUT;
	} else if (features_split(model, op, t, vocab_parallel)) {
		dim = may(o, MQ_DIM_HEAD, t) ? MQ_DIM_HEAD : MQ_DIM_OUT;
	} else if (sequence_parallel && may(o, MQ_DIM_SEQ, t) && o->kind != MQ_OP_ATTENTION && o->kind != MQ_OP_BMM) {
		dim = MQ_DIM_SEQ;
	}
	/* Heads are indivisible; vocabulary and feature dimensions are padded to a multiple of t. */
	if (dim == MQ_DIM_HEAD && fmod(o->extent[MQ_DIM_HEAD], t) > 0)
		return false;
	if (dim != MQ_N_DIMS) /* else replicated on every rank, which is always valid */
		split[dim] = t;
	return true;
}

/* ---- stages -------------------------------------------------------------------------------------- */

static enum mq_status layer_stages(const struct mq_shape *shape, const struct mq_model *model, uint32_t stages,
				   uint32_t *stage_of_layer, struct mq_err *err)
{
	uint32_t layer = 0, layers = model->n_layers;

	if (layers < stages && !shape->stage_layers)
		return mq_bad(err, "%u layers cannot fill %u stages; use at most %u", layers, stages, layers);
	for (uint32_t s = 0; s < stages; s++) {
		uint32_t n = shape->stage_layers ? shape->stage_layers[s] : layers / stages + (s < layers % stages);

		if (!n && s && s + 1 < stages)
			return mq_bad(err,
				      "stage_layers leave stage %u without a layer; only "
				      "the first and the last have other work",
				      s);
		if (n > layers - layer)
			return mq_bad(err, "stage_layers add up to more than %u layers", layers);
		while (n--)
			stage_of_layer[layer++] = s;
	}
	if (layer < layers)
		return mq_bad(err, "stage_layers add up to %u of %u layers", layer, layers);
	return MQ_OK;
}

/* Splits models without repeated layers by FLOPs, in topological order. */
static void flop_stages(const struct mq_model *model, uint32_t stages, uint32_t *stage)
{
	double total = 0, sum = 0;

	for (uint32_t op = 0; op < model->n_ops; op++)
		total += model->op[op].flop + model->op[op].read + model->op[op].write;
	for (uint32_t op = 0; op < model->n_ops; op++) {
		double s = total > 0 ? floor(sum / total * stages) : 0;

		stage[op] = s < stages ? (uint32_t)s : stages - 1;
		sum += model->op[op].flop + model->op[op].read + model->op[op].write;
	}
}

static enum mq_status assign_stages(const struct mq_shape *shape, const struct mq_model *model, uint32_t stages,
				    struct mq_arena *arena, uint32_t *stage, struct mq_err *err)
{
	if (!model->n_layers && stages > 1) {
		flop_stages(model, stages, stage);
		return MQ_OK;
	}
	uint32_t *of_layer = mq_arena_array(arena, model->n_layers + 1, uint32_t), before = 0;
	while (model->n_layers && before < model->n_ops && model->op[before].layer == MQ_NONE)
		before++;
	if (model->n_layers)
		MQ_TRY(layer_stages(shape, model, stages, of_layer, err));
	/* What belongs to no layer goes with its first consumer; what has none, with the last stage. A first
	 * stage without layers has what lies before them. */
	for (uint32_t op = model->n_ops; op-- > 0;) {
		stage[op] = stages - 1;
		MQ_EACH_OUT(model, op, e)
			if (stage[e->dst] < stage[op])
				stage[op] = stage[e->dst];
		if (model->op[op].layer != MQ_NONE)
			stage[op] = of_layer[model->op[op].layer];
		else if (op < before && stage[op] == of_layer[0] && model->op[op].kind != MQ_OP_INPUT)
			stage[op] = 0;
	}
	return MQ_OK;
}

/* ---- shapes -------------------------------------------------------------------------------------- */

static uint32_t find_or_add(struct mq_plan *plan, struct mq_arena *arena, uint32_t stage,
			    const uint32_t split[MQ_N_DIMS], uint32_t n_devices, bool *added)
{
	*added = false;
	for (uint32_t i = plan->n_configs; i-- > 0;)
		if (plan->config[i].stage == stage && !memcmp(plan->config[i].split, split, MQ_N_DIMS * sizeof(*split)))
			return i;
	uint32_t i = mq_plan_add_config(plan, arena, n_devices);
	memcpy(plan->config[i].split, split, MQ_N_DIMS * sizeof(*split));
	plan->config[i].stage = stage;
	*added = true;
	return i;
}

struct degrees {
	uint32_t dp, tp, pp, cp, ep, virtual;
};

/* Lays experts out over ep x etp ranks of a stage, which are whole groups of cp x tp or lie inside one. */
static bool fold_experts(const struct degrees *g, uint32_t tp, uint32_t etp, uint32_t split[MQ_N_DIMS])
{
	uint32_t inner = g->cp * tp, ranks = g->ep * etp;

	split[MQ_DIM_EXPERT] = g->ep;
	if (ranks % inner == 0 && g->dp % (ranks / inner) == 0) {
		split[MQ_DIM_BATCH] = g->dp / (ranks / inner);
		return true;
	}
	split[MQ_DIM_BATCH] = g->dp;
	split[MQ_DIM_SEQ] *= inner / ranks;
	return ranks < inner && inner % ranks == 0;
}

/* Tensor-parallel degree of a pipeline rank. */
static uint32_t rank_tp(const struct mq_shape *shape, const struct degrees *g, uint32_t rank)
{
	return shape->stage_tp ? mq_or_1(shape->stage_tp[rank]) : g->tp;
}

/* Ulysses: attention splits more heads and less of the sequence; the layouts around it imply the exchange. */
static bool exchange_heads(const struct mq_shape *shape, const struct degrees *g, uint32_t tp,
			   const struct mq_model *model, const struct mq_op *o, uint32_t split[MQ_N_DIMS])
{
	uint32_t parts = shape->ulysses * tp;

	if (g->cp % shape->ulysses || !may(o, MQ_DIM_HEAD, parts) || fmod(o->extent[MQ_DIM_HEAD], parts) > 0 ||
	    (model->kv_heads && model->kv_heads % parts))
		return false;
	split[MQ_DIM_HEAD] = parts;
	split[MQ_DIM_SEQ] = g->cp / shape->ulysses;
	return true;
}

static enum mq_status op_split(const struct mq_shape *shape, const struct degrees *g, uint32_t tp,
			       const struct mq_model *model, uint32_t op, uint32_t split[MQ_N_DIMS], struct mq_err *err)
{
	const struct mq_op *o = &model->op[op];

	if (shape->etp && g->ep > 1 && may(o, MQ_DIM_EXPERT, g->ep)) {
		if (mq_tensor_split(model, op, shape->etp, shape->sequence_parallel, shape->vocab_parallel, split) &&
		    fold_experts(g, tp, shape->etp, split))
			return MQ_OK;
		return mq_bad(err,
			      "experts: ep %u x etp %u neither divide cp %u x tp %u nor are so many times it "
			      "that they divide dp %u too",
			      g->ep, shape->etp, g->cp, tp, g->dp);
	}
	if (!mq_tensor_split(model, op, tp, shape->sequence_parallel, shape->vocab_parallel, split))
		return mq_bad(err, "op '%s' has %g heads, which tp=%u does not divide", o->name, o->extent[MQ_DIM_HEAD],
			      tp);
	split[MQ_DIM_BATCH] = g->dp;
	if (shape->ulysses > 1 && o->kind == MQ_OP_ATTENTION) {
		if (!exchange_heads(shape, g, tp, model, o, split))
			return mq_bad(err,
				      "op '%s': ulysses=%u times tp=%u divides neither its %g heads nor the %u of "
				      "keys and values, or not cp=%u",
				      o->name, shape->ulysses, tp, o->extent[MQ_DIM_HEAD], model->kv_heads, g->cp);
		return MQ_OK;
	}
	if (g->cp > 1 && may(o, MQ_DIM_SEQ, g->cp * split[MQ_DIM_SEQ]))
		split[MQ_DIM_SEQ] *= g->cp;
	if (g->ep > 1 && may(o, MQ_DIM_EXPERT, g->ep)) {
		split[MQ_DIM_EXPERT] = g->ep;
		split[MQ_DIM_BATCH] = g->dp / g->ep;
	}
	return MQ_OK;
}

static void fill_config(const struct mq_shape *shape, const struct degrees *g, uint32_t stage, struct mq_config *c,
			struct mq_arena *arena)
{
	uint32_t base = 0, rank = mq_pipeline_rank(shape->pipeline, g->pp, stage);

	for (uint32_t r = 0; r < rank; r++)
		base += g->dp * g->cp * rank_tp(shape, g, r);
	for (uint32_t d = 0; d < c->n_devices; d++)
		c->device[d] = shape->device ? shape->device[base + d] : base + d;
	c->sync = shape->sync;
	c->recompute = shape->recompute;
	if (!shape->share)
		return;
	uint32_t n = c->split[MQ_DIM_BATCH], per = g->dp / n;
	c->share = mq_arena_array(arena, n, double);
	for (uint32_t i = 0; i < g->dp; i++)
		c->share[i / per] += shape->share[i];
}

static enum mq_status check_shape(const struct degrees *g, const struct mq_model *model,
				  const struct mq_cluster *cluster, const struct mq_shape *shape, struct mq_err *err)
{
	double need = 0;

	for (uint32_t r = 0; r < g->pp; r++)
		need += (double)g->dp * g->cp * rank_tp(shape, g, r);
	if (need > cluster->n_devices)
		return mq_bad(err, "dp %u x tp %u x pp %u x cp %u needs %.0f devices, the platform has %u", g->dp,
			      g->tp, g->pp, g->cp, need, cluster->n_devices);
	if (g->ep > 1 && !model->experts)
		return mq_bad(err, "ep=%u: model '%s' has no experts; leave it out", g->ep, model->name);
	if (g->ep > 1 && model->experts % g->ep)
		return mq_bad(err, "ep=%u does not divide the %u experts of model '%s'", g->ep, model->experts,
			      model->name);
	if (model->seq && g->cp > model->seq)
		return mq_bad(err, "cp=%u is more than the %u tokens of a sequence", g->cp, model->seq);
	if (!shape->etp && g->dp % g->ep)
		return mq_bad(err,
			      "ep=%u does not divide dp=%u; give experts a tensor-parallel degree of "
			      "their own (etp) to deal them out over tp too",
			      g->ep, g->dp);
	return mq_pipeline_chunks(shape->pipeline, g->virtual, err);
}

const uint32_t *mq_shape_replica_major(const struct mq_shape *shape, struct mq_arena *arena)
{
	uint32_t width = mq_or_1(shape->cp) * mq_or_1(shape->tp), dp = mq_or_1(shape->dp), pp = mq_or_1(shape->pp);
	uint32_t *device = mq_arena_array(arena, (size_t)dp * pp * width, uint32_t), n = 0;

	for (uint32_t stage = 0; stage < pp; stage++)
		for (uint32_t replica = 0; replica < dp; replica++)
			for (uint32_t k = 0; k < width; k++)
				device[n++] = (replica * pp + stage) * width + k;
	return device;
}

enum mq_status mq_plan_from_shape(const struct mq_shape *shape, const struct mq_model *model,
				  const struct mq_cluster *cluster, struct mq_arena *arena, struct mq_plan *plan,
				  struct mq_err *err)
{
	struct degrees g = { .dp = mq_or_1(shape->dp),
			     .tp = mq_or_1(shape->tp),
			     .pp = mq_or_1(shape->pp),
			     .cp = mq_or_1(shape->cp),
			     .ep = mq_or_1(shape->ep),
			     .virtual = mq_or_1(shape->virtual) };

	MQ_TRY(check_shape(&g, model, cluster, shape, err));
	mq_plan_init(plan, arena, model->n_ops);
	plan->micro_batches = mq_or_1(shape->micro_batches);
	plan->virtual = g.virtual;
	plan->pipeline = shape->pipeline;
	uint32_t *stage = mq_arena_array(arena, model->n_ops, uint32_t);
	MQ_TRY(assign_stages(shape, model, g.pp * g.virtual, arena, stage, err));
	for (uint32_t op = 0; op < model->n_ops; op++) {
		uint32_t split[MQ_N_DIMS];
		uint32_t tp = rank_tp(shape, &g, mq_pipeline_rank(shape->pipeline, g.pp, stage[op]));
		bool added;

		MQ_TRY(op_split(shape, &g, tp, model, op, split, err));
		uint32_t c = find_or_add(plan, arena, stage[op], split, g.dp * g.cp * tp, &added);
		if (added)
			fill_config(shape, &g, stage[op], &plan->config[c], arena);
		plan->config_of[op] = c;
	}
	return MQ_OK;
}

void mq_plan_from_placement(const uint32_t *device_of, const struct mq_model *model, struct mq_arena *arena,
			    struct mq_plan *plan)
{
	mq_plan_init(plan, arena, model->n_ops);
	for (uint32_t op = 0; op < model->n_ops; op++) {
		uint32_t device = device_of[op];

		plan->config_of[op] = mq_plan_intern(
			plan, &(struct mq_config){ .n_devices = 1, .device = &device, .split = MQ_UNSPLIT }, arena);
	}
}
