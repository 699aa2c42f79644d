/* deepspeed.c - a plan as a folder for DeepSpeed: ds_config.json, hostfile, the model as Hugging Face's config.json,
 * and train.py, which sets what the JSON file cannot (recomputation; without pipelines).
 *
 * Without a folder, prints ds_config.json only. The layers of a pipeline are the user's PipelineModule, since DeepSpeed
 * builds none from a model. SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/template.h"
#include "export/export.h"

/* "NODE slots=N" of the plan's nodes, in rank order. */
static enum mq_status put_hostfile(const struct mq_export *e, struct mq_err *err)
{
	struct mq_export_node *node;
	uint32_t n = mq_export_nodes(e, &node);
	const char *text = mq_export_head_lines(e, "# ");

	for (uint32_t i = 0; i < n; i++)
		text = mq_arena_printf(e->arena, "%snode%u slots=%u\n", text, node[i].node, node[i].n);
	return mq_export_put(e, "hostfile", text, err);
}

/* PEFT's names of the modules with an adapter; bitsandbytes holds QLoRA's base. */
static enum mq_status set_adapters(struct mq_template *v, const struct mq_export *e, struct mq_err *err)
{
	static const char *const names[][2] = { { "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj", NULL },
						{ NULL, NULL } };

	if (!mq_export_adapters(e, names, v))
		return mq_bad(err,
			      "--train lora: PEFT has no adapters of %s; ask with targets of its names: q_proj k_proj "
			      "v_proj o_proj gate_proj up_proj down_proj",
			      e->tuning.targets);
	if (e->tuning.base && e->tuning.base + 1 != MQ_FROZEN_NF4)
		return mq_bad(err, "--train %s: PEFT holds no frozen base so; give base=dtype or nf4",
			      e->train->tuning);
	if (e->tuning.kind == MQ_TUNE_LORA && (!e->dir || e->shape.pp > 1 || !e->model->stack))
		return mq_bad(
			err, "--train lora: its adapters stand in train.py, not in ds_config.json; give -o DIR, a plan "
			     "without pipeline stages and a model of Hugging Face's");
	return MQ_OK;
}

static enum mq_status put_script(struct mq_template *v, const struct mq_export *e, struct mq_err *err)
{
	const char *text;

	mq_template_set(v, "head", "%s", mq_export_head_lines(e, "# "));
	mq_template_set(v, "seq", "%u", e->model->seq);
	mq_template_set(v, "where", "%s", /* ZeRO-3: each rank creates its shards, not the whole model in host memory */
			e->shape.sync == MQ_SYNC_ZERO3 ? "deepspeed.zero.Init(config_dict_or_path=\"ds_config.json\")" :
							 "contextlib.nullcontext()");
	mq_template_set(v, "attention", "%s", e->model->stack->fused ? "flash_attention_2" : "eager");
	mq_template_set(v, "dtype", "%s", e->train->dtype == MQ_BF16 ? "bfloat16" : "float16");
	mq_template_set(v, "quantized", "%s", e->tuning.base ? "yes" : "");
	mq_template_set(v, "recompute", "%s", e->shape.recompute == MQ_RECOMPUTE_FULL ? "yes" : "");
	MQ_TRY(mq_template_text(v, "platforms/launch", "ds_train.py.in", &text, err));
	return mq_export_put(e, "train.py", text, err);
}

/* ZeRO++: weights in 8 bits, gradients in 4, a second copy within a group. */
static enum mq_status check_quantised(const struct mq_export *e, struct mq_err *err)
{
	const struct mq_software *s = e->software;

	if ((s->zero_quantized_weights_B > 0 && s->zero_quantized_weights_B != 1) ||
	    (s->zero_quantized_gradients_B > 0 && s->zero_quantized_gradients_B != .5))
		return mq_bad(
			err,
			"zero_quantized_weights_B %g, zero_quantized_gradients_B %g: DeepSpeed gathers weights in 1 byte and reduces gradients in "
			".5, or both in their types (0)",
			s->zero_quantized_weights_B, s->zero_quantized_gradients_B);
	return MQ_OK;
}

static enum mq_status config_of(const struct mq_export *e, const char **text, struct mq_err *err)
{
	struct mq_template v = { .arena = e->arena };
	const struct mq_train *train = e->train;
	const struct mq_software *w = e->software;
	const struct mq_shape *s = &e->shape;
	/* ZeRO's engine offloads the optimizer, even with one replica */
	int stage = s->sync >= MQ_SYNC_ZERO1 ? s->sync - MQ_SYNC_ZERO1 + 1 : e->resolved.offload_optimizer;
	bool half = train->dtype == MQ_FP16 || train->dtype == MQ_BF16;

	mq_template_set(&v, "batch", "%.0f", train->batch);
	mq_template_set(&v, "micro_batch", "%u", e->micro_batch);
	mq_template_set(&v, "rounds", "%u", s->micro_batches);
	mq_template_set(&v, "momentum", "%s",
			train->optimizer == MQ_OPTIMIZER_ADAM ? "" :
			train->optimizer == MQ_OPTIMIZER_SGD  ? "0.0" :
								"0.9");
	mq_template_set(&v, "half", "%s", half ? mq_dtype_name(train->dtype) : "");
	mq_template_set(&v, "gradients", "%s",
			train->grad_dtype != train->dtype ? mq_dtype_name(train->grad_dtype) : "");
	mq_template_set(&v, "tp", s->tp > 1 ? "%u" : "", s->tp);
	mq_template_set(&v, "pp", s->pp > 1 ? "%u" : "", s->pp);
	mq_template_set(&v, "interval", "%u", s->recompute == MQ_RECOMPUTE_FULL); /* 0 recomputes nothing */
	mq_template_set(&v, "stage", "%d", stage);
	mq_template_set(&v, "overlap", "%s", e->resolved.overlap_grads ? "true" : "false");
	mq_template_set(&v, "bucket", e->resolved.bucket_B > 0 ? "%.0f" : "", /* in elements */
			e->resolved.bucket_B / mq_dtype_size(train->dtype));
	mq_template_set(&v, "offload", e->resolved.offload_optimizer ? "yes" : "");
	mq_template_set(&v, "weights", stage == 3 && w->zero_quantized_weights_B > 0 ? "yes" : "");
	mq_template_set(&v, "quantized", stage == 3 && w->zero_quantized_gradients_B > 0 ? "yes" : "");
	mq_template_set(&v, "partition", stage == 3 && w->zero_hpz_partition_size ? "%u" : "",
			w->zero_hpz_partition_size);
	return mq_template_text(&v, "platforms/launch", "ds_config.json.in", text, err);
}

static enum mq_status put_folder(struct mq_template *v, const struct mq_export *e, struct mq_err *err)
{
	const char *config;

	/* for other models only DeepSpeed's settings are written; the user's program builds them */
	if (!e->model->stack || e->model->stack->post_norm)
		return put_hostfile(e, err);
	MQ_TRY(mq_export_huggingface(e, &config, err)); /* complete before any file is written */
	MQ_TRY(mq_export_put(e, "config.json", config, err));
	if (e->shape.pp == 1)
		MQ_TRY(put_script(v, e, err));
	return put_hostfile(e, err);
}

enum mq_status mq_export_deepspeed(const struct mq_export *e, const char **text, struct mq_err *err)
{
	struct mq_template v = { .arena = e->arena };

	MQ_TRY(check_quantised(e, err));
	MQ_TRY(set_adapters(&v, e, err));
	MQ_TRY(config_of(e, text, err));
	return e->dir ? put_folder(&v, e, err) : MQ_OK;
}
