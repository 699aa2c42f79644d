/* software_defaults.c - applies a software's defaults to a plan, and derives quantities from it. See software.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "maquette/calib.h"
#include "maquette/software.h"
#include "base/text.h"

/* ---- recomputation ----------------------------------------------------------------------------------- */

/* Does torchtitan's selective recomputation recompute the op? All except attention and every second GEMM. Of its seven
 * GEMMs per layer (q, k, v, output, gate, up, down), q, k, v are one op here, as are gate and up: to save half of each,
 * layers alternate in which half of their GEMMs they save. */
static bool cheap_op(const struct mq_model *model, uint32_t op)
{
	uint32_t products = model->op[op].layer;

	if (model->op[op].kind == MQ_OP_ATTENTION)
		return false;
	if (model->op[op].kind != MQ_OP_GEMM)
		return true;
	for (uint32_t i = op; i-- > 0 && model->op[i].layer == model->op[op].layer;)
		products += model->op[i].kind == MQ_OP_GEMM;
	return products % 2 == 0;
}

/* Ops by their names inside a layer: "layer3.norm1" is "norm1". */
static bool named_op(const struct mq_model *model, uint32_t op, const char *patterns)
{
	const char *name = strchr(model->op[op].name, '.');

	return name && mq_text_fits(patterns, '|', name + 1, 0);
}

bool mq_software_graphs(const struct mq_software *s, const struct mq_model *model, uint32_t op)
{
	return *s->cuda_graph_scope && (!strcmp(s->cuda_graph_scope, "*") ||
					(model->op[op].layer != MQ_NONE && named_op(model, op, s->cuda_graph_scope)));
}

static bool again(const struct mq_software *s, const struct mq_model *model, uint32_t op)
{
	if (model->op[op].layer == MQ_NONE)
		return false;
	switch ((enum mq_selective)s->selective) {
	case MQ_SELECTIVE_OPS:
		return cheap_op(model, op);
	case MQ_SELECTIVE_LAYERS:
		return model->op[op].layer % 2 == 0;
	case MQ_SELECTIVE_NAMED:
		return named_op(model, op, s->recompute_ops);
	case MQ_SELECTIVE_ATTENTION:
	case MQ_SELECTIVE_CORE_ATTN:
		break;
	}
	return false;
}

/* Splits each config with recomputation `from` in two: its ops in again[] recompute, the others save their outputs. */
static void divide(enum mq_recompute from, const bool *again, struct mq_arena *arena, struct mq_plan *plan)
{
	uint32_t n = plan->n_configs, *twin = mq_arena_array(arena, n, uint32_t), made = n;
	struct mq_config *config = mq_arena_array(arena, 2 * (size_t)n, struct mq_config);

	memcpy(config, plan->config, n * sizeof(*config));
	for (uint32_t i = 0; i < n; i++) {
		if (config[i].recompute != from)
			continue;
		config[i].recompute = MQ_RECOMPUTE_NONE;
		config[made] = config[i];
		config[made].recompute = MQ_RECOMPUTE_FULL;
		twin[i] = made++;
	}
	plan->config = config;
	plan->n_configs = made;
	for (uint32_t op = 0; op < plan->n_ops; op++)
		if (twin[plan->config_of[op]] && again[op])
			plan->config_of[op] = twin[plan->config_of[op]];
}

/* Full recomputation of only the first layers of each stage. */
static void recompute_block(const struct mq_model *model, struct mq_arena *arena, struct mq_plan *plan)
{
	bool *of = mq_arena_array(arena, plan->n_ops, bool);
	uint32_t stage = MQ_NONE, layer = MQ_NONE, layers = 0;

	for (uint32_t op = 0; op < plan->n_ops; op++) {
		const struct mq_config *c = &plan->config[plan->config_of[op]];

		if (c->stage != stage)
			layers = 0;
		if (model->op[op].layer != MQ_NONE && (c->stage != stage || model->op[op].layer != layer))
			layers++;
		stage = c->stage;
		layer = model->op[op].layer;
		of[op] = layers <= plan->recompute_num_layers;
	}
	divide(MQ_RECOMPUTE_FULL, of, arena, plan);
}

/* ---- decisions --------------------------------------------------------------------------------------- */

/* Do all configs shard (ZeRO), over ranks that divide into several groups of the software's size? */
static bool divides(const struct mq_software *s, const struct mq_plan *plan)
{
	for (uint32_t i = 0; i < plan->n_configs; i++) {
		const struct mq_config *c = &plan->config[i];
		uint32_t same = c->split[MQ_DIM_BATCH] * c->split[MQ_DIM_SEQ];

		if (c->sync < MQ_SYNC_ZERO1 || !s->shard_group || s->shard_group >= same || same % s->shard_group)
			return false;
	}
	return true;
}

double mq_software_default(const struct mq_software *s, enum mq_decision_id id)
{
	switch (id) {
#define MQ_DECISION(id, bit, type, field, value, ...) \
	case MQ_DECISION_##id:                        \
		return value;
#include "maquette/decisions.def"
	case MQ_N_DECISIONS:
		break;
	}
	return 0;
}

void mq_software_apply_defaults(const struct mq_software *s, const struct mq_model *model, const struct mq_plan *from,
				struct mq_arena *arena, struct mq_plan *to)
{
	if (!s)
		s = mq_software_plain();
	mq_plan_copy(to, from, arena);
	uint32_t has = mq_plan_properties(to) | (divides(s, to) ? MQ_NEEDS_GROUP : 0);
	for (int d = 0; d < MQ_N_DECISIONS; d++) {
		uint32_t needs = mq_decision(d)->needs | mq_decision(d)->defaults_need;

		if (mq_plan_leaves(to, d))
			mq_plan_set_value(to, d, needs & ~has ? 0 : mq_software_default(s, d));
	}
	to->explicit = MQ_EXPLICIT_ALL;
	if (to->recompute_num_layers && to->recompute_method == MQ_RECOMPUTE_BLOCK)
		recompute_block(model, arena, to);
	if (s->selective <= MQ_SELECTIVE_CORE_ATTN)
		return;
	bool *of = mq_arena_array(arena, to->n_ops, bool); /* further recomputed ops */
	for (uint32_t op = 0; op < to->n_ops; op++)
		of[op] = again(s, model, op);
	divide(MQ_RECOMPUTE_SELECTIVE, of, arena, to);
}

/* ---- what follows from the fields --------------------------------------------------------------------- */

enum mq_dtype mq_software_dtype(const struct mq_software *s, const struct mq_calib *calib, const char *const *types,
				enum mq_dtype asked)
{
	bool cpus = *types, bf16 = true, tf32 = s->tf32 && *types;

	for (; *types; types++) {
		const struct mq_device_calib *d =
			mq_calib_device(calib, *types); /* NULL: only the platform describes it */
		bool cpu = d && d->kind == MQ_CPU;

		cpus &= cpu;
		bf16 &= cpu || !d || d->peak_flops[MQ_BF16] > 0;
		tf32 &= d && d->peak_flops[MQ_TF32] > 0;
	}
	if (asked == MQ_N_DTYPES)
		asked = cpus ? MQ_FP32 : bf16 ? MQ_BF16 : MQ_FP16;
	return asked == MQ_FP32 && tf32 ? MQ_TF32 : asked;
}

double mq_software_master_B(const struct mq_software *s, const struct mq_train *train)
{
	return mq_dtype_size(train->dtype) < 4 && (s->fp32_params || train->optimizer != MQ_OPTIMIZER_NONE) ?
		       s->master_B :
		       0;
}

enum mq_dtype mq_software_grad_dtype(const struct mq_software *s, enum mq_dtype dtype)
{
	const enum mq_dtype types[] = { [MQ_GRAD_AS_TRAINED] = dtype,
					[MQ_GRAD_FP32] = MQ_FP32,
					[MQ_GRAD_BF16] = MQ_BF16,
					[MQ_GRAD_FP16] = MQ_FP16 };

	return types[s->grad_dtype];
}

double mq_software_cast_B(const struct mq_software *s, enum mq_gemm_dtype gemm)
{
	const double cast_B[] = { 0, s->fp8_cast_B, s->mxfp8_cast_B, s->fp4_cast_B };

	return cast_B[gemm];
}

bool mq_model_fuses(const struct mq_model_request *request, bool asked)
{
	return asked && !(request->software && mq_software_stores_scores(request->software));
}

/* Sets the GEMM type of ops that the software keeps in 16 bits or runs in MXFP8; frozen weights of the former are
 * stored in the training data type. */
void mq_model_mark_gemms(const struct mq_model_request *request, struct mq_model *model)
{
	const struct mq_software *s = request->software;

	for (uint32_t i = 0; s && request->train && mq_train_casts(request->train) && i < model->n_ops; i++) {
		struct mq_op *op = &model->op[i];
		bool gemm = op->kind == MQ_OP_GEMM;
		bool end = op->layer < s->num_layers_at_start_in_bf16 ||
			   op->layer + s->num_layers_at_end_in_bf16 >= model->n_layers;

		op->own_gemm = op->layer == MQ_NONE                             ? 0 :
			       end || (gemm && named_op(model, i, s->bf16_ops)) ? 1 + MQ_GEMM_AS_DTYPE :
			       gemm && named_op(model, i, s->mxfp8_ops)         ? 1 + MQ_GEMM_MXFP8 :
										  0;
		if (op->own_gemm == 1 + MQ_GEMM_AS_DTYPE && op->frozen)
			op->frozen = MQ_FROZEN_AS_DTYPE;
	}
}

uint32_t mq_software_modules(const struct mq_software *s, const struct mq_model *model, uint32_t op)
{
	uint32_t first = model->out_first[op];

	if (!s->separate_projections || first == model->out_first[op + 1])
		return 1;
	const struct mq_op *reader = &model->op[model->edge[first].dst];
	return reader->kind == MQ_OP_ATTENTION ? 3 : reader->gated ? 2 : 1;
}

enum mq_dtype mq_software_stream(const struct mq_software *s, enum mq_dtype dtype)
{
	return s->autocast && mq_dtype_size(dtype) < 4 ? MQ_FP32 : dtype;
}

bool mq_software_casts_scores(const struct mq_software *s, enum mq_dtype dtype)
{
	return s->attention == MQ_ATTENTION_EAGER && s->autocast && mq_dtype_size(dtype) < 4;
}

bool mq_software_stores_scores(const struct mq_software *s)
{
	return s->attention <= MQ_ATTENTION_FUSED_SOFTMAX;
}

/* As many layers as fit into each stage, until none are left. */
static const uint32_t *stages_ceil(uint32_t layers, uint32_t stages, struct mq_arena *arena)
{
	uint32_t most = (layers + stages - 1) / stages, left = layers;
	uint32_t *stage = mq_arena_array(arena, stages, uint32_t);

	if (layers % stages == 0)
		return NULL;
	for (uint32_t i = 0; i < stages; i++) {
		stage[i] = most < left ? most : left;
		left -= stage[i];
		if (!stage[i])
			return NULL; /* too few layers for this rule: an even split */
	}
	return stage;
}

/* Even split with embedding and head counted as a layer each. */
static const uint32_t *stages_ends(uint32_t layers, uint32_t stages, struct mq_arena *arena)
{
	uint32_t *stage = mq_arena_array(arena, stages, uint32_t);

	if (stages < 2 || (layers + 2) % stages)
		return NULL;
	for (uint32_t i = 0; i < stages; i++)
		stage[i] = (layers + 2) / stages - (i == 0) - (i == stages - 1);
	return stage;
}

/* Assigns blocks (embedding, layers, norm, head, cast, loss) to a stage until their GEMM parameters exceed its share. A
 * layer counts keys and values as wide as queries, and a gate. */
static uint32_t stages_cost(const struct mq_model *m, uint32_t stages, struct mq_arena *arena, struct mq_shape *shape)
{
	double layer = 4.0 * m->heads * m->head_dim * m->hidden + 3.0 * m->ffn * m->hidden;
	double head = (double)m->vocab * m->hidden, total = m->n_layers * layer + head, sum = 0;
	uint32_t *count = mq_arena_array(arena, stages + 1, uint32_t), at = 0, last = 0;

	for (uint32_t block = 0; block < m->n_layers + 5; block++) {
		bool is_layer = block > 0 && block <= m->n_layers;

		count[at] += is_layer;
		last = is_layer ? at : last;
		sum += is_layer ? layer : block == m->n_layers + 2 ? head : 0;
		if (block + 1 < m->n_layers + 5)
			at += at + 1 < stages && sum > total * ((at + 1) / (double)stages);
	}
	shape->stage_layers = count;
	return last + 1 + (at > last); /* head and loss together */
}

uint32_t mq_software_stages(const struct mq_software *s, const struct mq_model *model, struct mq_arena *arena,
			    struct mq_shape *shape)
{
	uint32_t stages = mq_or_1(shape->pp) * mq_or_1(shape->virtual);

	shape->stage_layers = NULL;
	if (stages == 1 || !model->n_layers)
		return stages;
	switch ((enum mq_stage_rule)s->partition) {
	case MQ_STAGES_CEIL:
		shape->stage_layers = stages_ceil(model->n_layers, stages, arena);
		break;
	case MQ_STAGES_ENDS:
		shape->stage_layers = stages_ends(model->n_layers, stages, arena);
		break;
	case MQ_STAGES_COST:
		return stages_cost(model, stages, arena, shape);
	case MQ_STAGES_EVEN:
		break;
	}
	return stages;
}

double mq_sample_flop(const struct mq_model *model, const struct mq_train *train, const struct mq_software *software)
{
	struct mq_model_totals t = mq_model_totals(model);
	double flop = t.forward_flop + (train->infer ? 0 : t.backward_flop);

	for (uint32_t i = 0; software && software->halves_causal && i < model->n_ops; i++) {
		const struct mq_op *op = &model->op[i];

		if (op->causal && op->phase == MQ_FORWARD)
			flop -= (op->flop + (train->infer ? 0 : op->flop_bwd)) / 2;
	}
	return flop;
}

const char *mq_flop_convention(const struct mq_software *software)
{
	return software && software->halves_causal ? "half of causal attention counted" : "all of attention counted";
}
