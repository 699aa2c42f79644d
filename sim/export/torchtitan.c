/* torchtitan.c - a plan as a recipe of torchtitan 0.3.0: a Python module with a function that returns the whole
 * configuration, as torchtitan/config/README.md describes (TOML files and flags are deprecated); its template is
 * platforms/launch/torchtitan.py.in.
 *
 * The model consists of torchtitan's parts (models/llama3, qwen3, deepseek_v3); data, tokenizer and learning rate are
 * those of its debug configuration, for the user to replace. It reduces in float32 only.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/template.h"
#include "export/export.h"

/* The torchtitan model with the parts for a stack. */
enum mq_titan_family { MQ_TITAN_LLAMA3, MQ_TITAN_QWEN3, MQ_TITAN_DEEPSEEK };

static enum mq_titan_family family_of(const struct mq_transformer *t)
{
	if (t->kv_rank)
		return MQ_TITAN_DEEPSEEK;
	return t->experts || t->qk_norm ? MQ_TITAN_QWEN3 : MQ_TITAN_LLAMA3;
}

static const struct {
	const char *module, *prefix, *rope, *parallelize;
} families[] = {
	[MQ_TITAN_LLAMA3] = { "llama3", "Llama3", "ComplexRoPE", "llama" },
	[MQ_TITAN_QWEN3] = { "qwen3", "Qwen3", "CosSinRoPE", "qwen3" },
	[MQ_TITAN_DEEPSEEK] = { "deepseek_v3", "DeepSeekV3", "ComplexRoPE", "deepseekv3" },
};

static const char *python_bool(bool x)
{
	return x ? "True" : "False";
}

/* torchtitan's YaRN scales attention scores alone, by a function of `mscale` and the factor: as latent attention does
 * whose two scales are equal. */
static const char *scaling_of(const struct mq_transformer *t, struct mq_arena *arena)
{
	const struct mq_rope *r = &t->rope;

	if (r->kind && !strcmp(r->kind, "yarn"))
		return mq_arena_printf(
			arena,
			", scaling=\"yarn\", rope_factor=%.9g, beta_fast=%.9g, beta_slow=%.9g, original_seq_len=%u%s",
			r->factor, mq_told(r->fast, 32), mq_told(r->slow, 1), r->length ? r->length : 4096,
			r->unrounded ? ", truncate=False" : "");
	if (r->kind && !strcmp(r->kind, "llama3") && family_of(t) == MQ_TITAN_LLAMA3)
		return mq_arena_printf(arena,
				       ", scaling=\"llama\", scaling_factor=%.9g, low_freq_factor=%.9g, "
				       "high_freq_factor=%.9g, original_max_position_embeddings=%u",
				       r->factor, mq_told(r->low, 1), mq_told(r->high, 4),
				       r->length ? r->length : 8192);
	return "";
}

static void set_model(struct mq_template *v, const struct mq_export *e)
{
	const struct mq_transformer *t = e->model->stack;
	enum mq_titan_family family = family_of(t);
	bool outer = t->experts && (t->dense_layers || t->moe_every > 1), fp8 = mq_train_gemm_dtype(e->train) == MQ_FP8;
	const struct mq_template_value words[] = {
		{ "module", families[family].module },
		{ "prefix", families[family].prefix },
		{ "rope", families[family].rope },
		{ "parallelize", families[family].parallelize },
		{ "latent", t->kv_rank ? "latent" : "" },
		{ "mixture", t->experts ? "yes" : "" },
		{ "score", t->sigmoid_router ? "sigmoid" : "softmax" },
		{ "rope_width", t->kv_rank ? "qk_rope_head_dim" : "head_dim" },
		{ "converter", !fp8                                  ? "" :
			       e->train->gemm_dtype == MQ_GEMM_MXFP8 ? "MXFP8LinearConverter" :
								       "Float8LinearConverter" },
	};

	mq_export_fields(v, t, "True", "False");
	mq_template_set(v, "outer_ffn", "%u", outer ? t->dense_ffn : t->ffn);
	mq_template_set(v, "step", "%u", mq_or_1(t->moe_every));
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		mq_template_set(v, words[i].name, "%s", words[i].text);
	mq_template_set(v, "groups", t->expert_groups ? "%u" : "None", t->expert_groups);
	mq_template_set(v, "limit", t->expert_groups ? "%u" : "None", t->group_limit);
	mq_template_set(v, "scaling", "%s", scaling_of(t, e->arena));
	mq_template_set(v, "mscale", "%.9g", t->rope.mscale_all);
	mq_template_set(v, "route_scale", "%.9g", mq_told(t->router_scale, 1));
	mq_template_set(v, "eps", "%g", mq_told(t->norm_eps, 1e-5));
	mq_template_set(v, "theta", "%.1f", mq_told(t->rope_theta, 10000));
}

/* ---- the plan --------------------------------------------------------------------------------------- */

/* The modules of the stages' chunks, a line each. */
static const char *parts_of(const struct mq_export *e)
{
	const struct mq_shape *s = &e->shape;
	uint32_t layer = 0, n = s->pp * s->virtual;
	const char *text = "";

	for (uint32_t i = 0; i < n; i++) {
		const char *part = i ? "" : ", \"tok_embeddings\"";

		for (uint32_t k = 0; k < s->stage_layers[i]; k++)
			part = mq_arena_printf(e->arena, "%s, \"layers.%u\"", part, layer++);
		if (i + 1 == n)
			part = mq_arena_printf(e->arena, "%s, \"norm\", \"lm_head\"", part);
		text = mq_arena_printf(e->arena, "%s            [%s],\n", text, *part ? part + 2 : "");
	}
	return text;
}

static const char *schedule_name(const struct mq_shape *s)
{
	const struct mq_torch_schedule *known = mq_torch_schedules;
	/* torchtitan refuses to interleave one stage. */
	bool single = s->pipeline == MQ_PIPE_INTERLEAVED && s->virtual == 1;

	while (known->name && known->pipeline != (single ? MQ_PIPE_1F1B : s->pipeline))
		known++;
	return known->name;
}

/* Replicas and shards: HSDP if ZeRO shards over groups, replicas only without ZeRO. Shards span replicas and
 * context-parallel ranks; torchtitan counts replicas. */
static void set_plan(struct mq_template *v, const struct mq_export *e)
{
	const struct mq_shape *s = &e->shape;
	bool sharded = s->sync >= MQ_SYNC_ZERO1;
	uint32_t shards = sharded ? s->dp : 1;

	if (sharded && e->resolved.zero_group && e->resolved.zero_group < s->dp * s->cp)
		shards = e->resolved.zero_group / s->cp;
	const struct mq_template_value words[] = {
		{ "bf16_gradients", e->train->grad_dtype == MQ_BF16 ? "yes" : "" },
		{ "dtype", e->train->dtype == MQ_BF16 ? "bfloat16" : "float32" },
		{ "reshard", !sharded                 ? "" :
			     s->sync != MQ_SYNC_ZERO3 ? "never" :
			     s->pp > 1                ? "default" :
							"always" },
		{ "sequence_parallel", s->tp > 1 ? python_bool(s->sequence_parallel) : "" },
		{ "schedule", s->pp > 1 ? schedule_name(s) : "" },
		{ "parts", s->pp > 1 ? parts_of(e) : "" },
		{ "recompute", s->recompute == MQ_RECOMPUTE_FULL      ? "FullAC.Config()" :
			       s->recompute == MQ_RECOMPUTE_SELECTIVE ? "SelectiveAC.Config()" :
									"None" },
		{ "attention", s->cp > 1 ? "flex" : "varlen" }, /* varlen has no context parallelism */
		{ "compile", python_bool(strcmp(e->software->flags, "eager")) },
		{ "async", python_bool(e->resolved.overlap_tp && s->tp > 1) },
	};

	mq_template_set(v, "copies", "%u", s->dp / shards);
	mq_template_set(v, "shards", "%u", shards);
	mq_template_set(v, "tp", "%u", s->tp);
	mq_template_set(v, "cp", "%u", s->cp);
	mq_template_set(v, "ep", "%u", s->ep);
	mq_template_set(v, "pp", "%u", s->pp);
	mq_template_set(v, "micro_batch", "%u", e->micro_batch);
	/* A pipeline splits the local batch into micro-batches; without one each is a step of accumulation. */
	mq_template_set(v, "local_batch", "%u", e->micro_batch * (s->pp > 1 ? s->micro_batches : 1));
	mq_template_set(v, "batch", "%.0f", e->train->batch);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		mq_template_set(v, words[i].name, "%s", words[i].text);
}

/* Adapters of its LoRAConverter: by names of linear layers, with joint queries, keys and values and separate gate and
 * up; it has no dropout and freezes every other parameter in the type of the model. */
static enum mq_status set_adapters(struct mq_template *v, const struct mq_export *e, struct mq_err *err)
{
	static const char *const names[][2] = { { "qkv linear_qkv qkv_proj", "wqkv" },
						{ "proj linear_proj o_proj wo", "wo" },
						{ "gate_proj w1", "w1" },
						{ "up_proj w3", "w3" },
						{ "down linear_fc2 down_proj w2", "w2" },
						{ NULL, NULL } };
	const char *modules = mq_export_adapters(e, names, v);
	const struct mq_tuning *t = &e->tuning;

	if (!modules || (*modules && e->model->stack->kv_rank))
		return mq_bad(err,
			      "--train lora: torchtitan's recipes have no adapters of %s; ask with targets of its "
			      "linear layers: qkv proj w1 w3 w2, of models without latent attention",
			      t->targets);
	const char *lacks = t->dropout > 0 ? "no dropout of what adapters read; give dropout=0" :
			    t->base        ? "no frozen base in another type; give base=dtype" :
			    e->model->stack->experts && strpbrk(modules, "123") ?
				      "no adapters of experts; leave w1, w2 and w3 out" :
				      NULL;
	if (*modules && lacks)
		return mq_bad(err, "--train lora: torchtitan has %s", lacks);
	return MQ_OK;
}

static enum mq_status check_options(const struct mq_export *e, struct mq_err *err)
{
	const struct mq_shape *s = &e->shape;

	if (!e->model->stack)
		return mq_bad(err, "torchtitan: model '%s' is not one stack of blocks", e->model->name);
	if (e->train->optimizer != MQ_OPTIMIZER_ADAM)
		return mq_bad(err, "torchtitan: --optimizer other than adam is not exported; its recipes use AdamW");
	if (s->recompute == MQ_RECOMPUTE_SELECTIVE && e->software->selective == MQ_SELECTIVE_LAYERS)
		return mq_bad(err, "torchtitan: recomputation of every other layer is no setting of it any more; "
				   "its SelectiveAC chooses by operator");
	return MQ_OK;
}

/* Reads the recipe back and reports a part of the model that it lacks. */
static enum mq_status check_said(const struct mq_export *e, const char *text, struct mq_err *err)
{
	struct mq_transformer said;

	MQ_TRY(mq_titan_read_model(text, e->arena, &said, err));
	MQ_TRY(mq_transformer_check(&said, "torchtitan", err));
	const char *differs = mq_export_differs(e, &said, "the recipe");
	return differs ? mq_bad(err, "torchtitan has no parts for all of model '%s': its %s", e->model->name, differs) :
			 MQ_OK;
}

enum mq_status mq_export_torchtitan(const struct mq_export *e, const char **text, struct mq_err *err)
{
	struct mq_template v = { .arena = e->arena };
	struct mq_export_node *node;
	uint32_t n = mq_export_nodes(e, &node);

	MQ_TRY(check_options(e, err));
	mq_template_set(&v, "one", "%s", n == 1 ? "yes" : ""); /* run_train.sh starts all processes on one machine */
	mq_template_set(&v, "ranks", "%u", e->n_ranks);
	mq_template_set(&v, "nodes", "%u", n);
	mq_template_set(&v, "each", "%u", node[0].n);
	mq_template_set(&v, "nccl", "%s", mq_export_nccl(e));
	mq_template_set(&v, "head", "%s", mq_export_head_lines(e, "# "));
	set_model(&v, e);
	set_plan(&v, e);
	MQ_TRY(set_adapters(&v, e, err));
	MQ_TRY(mq_template_text(&v, "platforms/launch", "torchtitan.py.in", text, err));
	return check_said(e, *text, err);
}
