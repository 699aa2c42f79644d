/* megatron_bridge.c - a plan as a program for Megatron-Bridge: train.py, and beside it the model as Hugging Face's
 * config.json, which its AutoBridge reads. A plan's values are those of Megatron-LM's flags (megatron.c); further
 * settings of the performance recipes are in the software's file (platforms/software/nemo.json) or in the program,
 * platforms/launch/megatron_bridge.py.in. Source: NVIDIA-NeMo/Megatron-Bridge 0.7.0, src/megatron/bridge.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/csv.h"
#include "base/template.h"
#include "export/export.h"

/* The model class with a registered bridge. */
static enum mq_status set_model(struct mq_template *v, const struct mq_export *e, const char **config,
				struct mq_err *err)
{
	struct mq_csv bridges;
	const char *dir;

	if (!e->model->stack || e->train->infer)
		return mq_bad(err, "Megatron-Bridge: model '%s' is %s", e->model->name,
			      e->train->infer ? "asked with --mode infer; these are settings of training" :
						"not one stack of blocks");
	MQ_TRY(mq_export_huggingface(e, config, err));
	MQ_TRY(mq_find_dir("platforms/launch", e->arena, &dir, err));
	MQ_TRY(mq_csv_load_of(mq_arena_printf(e->arena, "%s/megatron_bridge.csv", dir), "model_type,architecture",
			      e->arena, &bridges, err));
	const char *type = strstr(*config, "\"model_type\": \"") + strlen("\"model_type\": \"");
	type = mq_arena_printf(e->arena, "%.*s", (int)strcspn(type, "\""), type);
	for (uint32_t i = 0; i < bridges.n_rows; i++)
		if (!strcmp(mq_csv_word(&bridges, i, "model_type"), type)) {
			mq_template_set(v, "architecture", "%s", mq_csv_word(&bridges, i, "architecture"));
			return MQ_OK;
		}
	return mq_bad(err, "Megatron-Bridge has no bridge for model '%s', which is a %s of Hugging Face's library",
		      e->model->name, type);
}

/* Frozen matrices of adapters are stored in the type of their GEMMs (fp8_param_gather), or in the training type. */
static enum mq_status set_adapters(struct mq_template *v, const struct mq_export *e, struct mq_err *err)
{
	static const char *const names[][2] = { { "qkv linear_qkv qkv_proj", "linear_qkv" },
						{ "proj linear_proj o_proj wo", "linear_proj" },
						{ "up linear_fc1", "linear_fc1" },
						{ "down linear_fc2 down_proj w2", "linear_fc2" },
						{ NULL, NULL } };
	const char *modules = mq_export_adapters(e, names, v);
	const struct mq_tuning *t = &e->tuning;

	if (!modules || (e->model->stack->kv_rank && strstr(modules, "qkv")) ||
	    (e->model->stack->experts && strstr(modules, "fc")))
		return mq_bad(err,
			      "--train lora: Megatron-Bridge has no adapters of %s here; give linear_qkv linear_proj "
			      "linear_fc1 linear_fc2: whole matrices, none of experts, of latent attention linear_proj",
			      t->targets);
	if (t->base && t->base + 1 != MQ_FROZEN_AS_DTYPE + (uint32_t)e->train->gemm_dtype)
		return mq_bad(err,
			      "--train %s: Megatron-Bridge holds the frozen base as --gemm-dtype, or in --dtype; "
			      "give base=dtype",
			      e->train->tuning);
	if (*modules)
		mq_template_set(v, "held", t->base ? "True" : "False");
	return MQ_OK;
}

/* Names of mixed_precision.py. */
static enum mq_status set_precision(struct mq_template *v, const struct mq_export *e, struct mq_err *err)
{
	static const char *const gemms[] = { "", "_with_fp8_current_scaling", "_with_mxfp8", "_with_nvfp4" };
	const struct mq_train *t = e->train;

	if (t->dtype != MQ_BF16 && (t->dtype != MQ_FP16 || t->gemm_dtype == MQ_GEMM_FP4))
		return mq_bad(err, "Megatron-Bridge has no recipe of mixed precision of %s%s; give --dtype bf16",
			      mq_dtype_name(t->dtype), t->gemm_dtype == MQ_GEMM_FP4 ? " with GEMMs in fp4" : "");
	mq_template_set(v, "recipe", "%s%s_mixed", mq_dtype_name(t->dtype), gemms[t->gemm_dtype]);
	mq_template_set(v, "mxfp8", t->gemm_dtype == MQ_GEMM_MXFP8 ? "yes" : "");
	mq_template_set(v, "held", mq_train_gemm_dtype(t) == MQ_FP8 && e->software->fp8_params ? "True" : "False");
	mq_template_set(v, "fp8_attention", "%s",
			mq_train_gemm_dtype(t) == MQ_FP8 && e->software->fp8_attention ? "yes" : "");
	mq_template_set(v, "bucket", e->resolved.bucket_B > 0 ? "%.0f" : "", /* in elements */
			e->resolved.bucket_B / mq_dtype_size(t->grad_dtype));
	mq_template_set(v, "gradients_in_fp32", t->grad_dtype == MQ_FP32 ? "True" : "False");
	return MQ_OK;
}

static enum mq_status set_recipe(struct mq_template *v, const struct mq_export *e, struct mq_err *err)
{
	const struct mq_software *w = e->software;
	const struct mq_shape *s = &e->shape;
	bool chunks = s->virtual > 1, exchanged = e->model->experts && s->ep > 1 && !(e->train->experts.capacity > 0);

	if (s->sync == MQ_SYNC_ZERO3 && s->dp * s->cp > 1)
		return mq_bad(err, "Megatron-Bridge: zero3 is Megatron-FSDP's, which is not exported so; give zero1");
	if (*w->cuda_graph_scope && strcmp(w->cuda_graph_scope, "*") != 0)
		return mq_bad(err, "cuda_graph_scope '%s': Megatron-Bridge's are exported of whole steps ('*') alone",
			      w->cuda_graph_scope);
	mq_template_set(v, "graphs", "%s", w->cuda_graph_scope);
	mq_template_set(v, "virtual", chunks ? "%u" : "", s->virtual); /* a layout does not include it */
	mq_template_set(v, "mixture", e->model->experts ? "yes" : "");
	mq_template_set(v, "dispatcher", !exchanged || !w->deepep ? "" : w->fused_experts ? "hybridep" : "deepep");
	mq_template_set(v, "fused_experts", e->model->experts && w->fused_experts ? "yes" : "");
	mq_template_set(v, "with_optimizer",
			chunks && s->dp > 1 && s->sync == MQ_SYNC_ZERO1 && w->overlap_param_gather_with_optimizer_step ?
				"yes" :
				"");
	return MQ_OK;
}

enum mq_status mq_export_megatron_bridge(const struct mq_export *e, const char **text, struct mq_err *err)
{
	struct mq_template v = { .arena = e->arena };
	const char *config;

	mq_template_set(&v, "seq", "%u", e->model->seq);
	MQ_TRY(set_model(&v, e, &config, err));
	MQ_TRY(mq_export_megatron_values(e, &v, err));
	MQ_TRY(set_precision(&v, e, err));
	MQ_TRY(set_recipe(&v, e, err));
	MQ_TRY(set_adapters(&v, e, err));
	MQ_TRY(mq_template_text(&v, "platforms/launch", "megatron_bridge.py.in", text, err));
	return e->dir ? mq_export_put(e, "config.json", config, err) : MQ_OK;
}
