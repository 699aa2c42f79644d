/* deepspeed.c - a plan as a folder for DeepSpeed: ds_config.json, hostfile, the model as Hugging Face's config.json,
 * and train.py, which switches on what the JSON file cannot (recomputation; without pipelines).
 *
 * Without a folder only ds_config.json is written, to the screen. Layers of a pipeline are the user's PipelineModule:
 * DeepSpeed builds none from a model. SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "export/export.h"
#include "maquette/fine_tune.h"
#include "model/formats/lib/huggingface.h"

static enum mq_status open_file(const struct mq_export *e, const char *name, FILE **f, const char **path,
				struct mq_err *err)
{
	*path = mq_arena_printf(e->arena, "%s/%s", e->dir, name);
	return mq_file_open(*path, f, err);
}

/* "NODE slots=N" of the nodes that the plan uses, in rank order. */
static enum mq_status put_hostfile(const struct mq_export *e, struct mq_err *err)
{
	struct mq_export_node *node;
	uint32_t n = mq_export_nodes(e, &node);
	const char *path;
	FILE *f;

	MQ_TRY(open_file(e, "hostfile", &f, &path, err));
	mq_export_put_nodes(e, "# ", f);
	for (uint32_t i = 0; i < n; i++)
		fprintf(f, "node%u slots=%u\n", node[i].node, node[i].n);
	return mq_file_close(f, path, err);
}

static enum mq_status put_model(const struct mq_export *e, const char *text, struct mq_err *err)
{
	const char *path;
	FILE *f;

	MQ_TRY(open_file(e, "config.json", &f, &path, err));
	fputs(text, f);
	return mq_file_close(f, path, err);
}

/* PEFT's names of the modules with an adapter, each in quotes; NULL where it has none for one of them. */
static const char *peft_modules(const struct mq_export *e, const struct mq_tuning *tuning)
{
	static const char *const own[] = {
		"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"
	};
	const char *list = "", *rest = tuning->targets;

	for (size_t n; (n = strcspn(rest, "+")) > 0; rest += n + (rest[n] == '+')) {
		const char *word = mq_arena_printf(e->arena, "%.*s", (int)n, rest), *found = NULL;

		for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
			found = strcmp(own[i], word) ? found : own[i];
		if (!found)
			return NULL;
		list = mq_arena_printf(e->arena, "%s%s\"%s\"", list, *list ? ", " : "", found);
	}
	return list;
}

static enum mq_status check_adapters(const struct mq_export *e, const struct mq_tuning *tuning, struct mq_err *err)
{
	static const char *const base[] = { "dtype", "fp8", "mxfp8", "nvfp4", "nf4" };

	if (!peft_modules(e, tuning))
		return mq_fail(err, MQ_EINPUT,
			       "--train lora: PEFT has no adapters of %s; ask with targets of its names: q_proj k_proj "
			       "v_proj o_proj gate_proj up_proj down_proj",
			       tuning->targets);
	if (tuning->base && strcmp(base[tuning->base], "nf4") != 0)
		return mq_fail(err, MQ_EINPUT, "--train lora: PEFT holds no frozen base in %s; give base=dtype or nf4",
			       base[tuning->base]);
	return MQ_OK;
}

/* The model, with adapters of PEFT where they are what is trained (QLoRA: on a base of bitsandbytes). */
static void put_loading(const struct mq_export *e, const struct mq_tuning *tuning, FILE *f)
{
	const char *attention = e->model->stack->fused ? "flash_attention_2" : "eager";

	fprintf(f, "seq_length = %u\nconfig = AutoConfig.from_pretrained(\".\")\n", e->model->seq);
	if (tuning->base)
		fprintf(f,
			"from transformers import BitsAndBytesConfig\n"
			"quantized = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=\"nf4\", "
			"bnb_4bit_use_double_quant=True,\n                               "
			"bnb_4bit_compute_dtype=torch.%s, bnb_4bit_quant_storage=torch.%s)\n"
			"model = AutoModelForCausalLM.from_pretrained(\".\", quantization_config=quantized, "
			"attn_implementation=\"%s\")\n",
			e->train->dtype == MQ_BF16 ? "bfloat16" : "float16",
			e->train->dtype == MQ_BF16 ? "bfloat16" : "float16", attention);
	else
		fprintf(f, "model = AutoModelForCausalLM.from_config(config, attn_implementation=\"%s\")\n", attention);
	if (tuning->kind == MQ_TUNE_LORA)
		fprintf(f,
			"from peft import LoraConfig, get_peft_model\n"
			"model = get_peft_model(model, LoraConfig(r=%u, lora_alpha=%u, lora_dropout=%g, task_type=\"CAUSAL_LM\",\n"
			"                                         target_modules=[%s]))\n",
			tuning->rank, tuning->alpha, tuning->dropout, peft_modules(e, tuning));
}

static enum mq_status put_script(const struct mq_export *e, const struct mq_tuning *tuning, struct mq_err *err)
{
	const char *path;
	FILE *f;

	MQ_TRY(open_file(e, "train.py", &f, &path, err));
	fputs("\"\"\"deepspeed --hostfile hostfile train.py: put your data where `batches` is.\"\"\"\n"
	      "import deepspeed\nimport torch\nfrom transformers import AutoConfig, AutoModelForCausalLM\n\n",
	      f);
	put_loading(e, tuning, f);
	if (e->shape.recompute == MQ_RECOMPUTE_FULL)
		fputs("model.gradient_checkpointing_enable()\n", f);
	fputs("engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(),\n"
	      "                                       config=\"ds_config.json\")\n"
	      "rows = engine.train_micro_batch_size_per_gpu()\n"
	      "batches = (torch.randint(config.vocab_size, (rows, seq_length)) for _ in range(1000))\n"
	      "for tokens in batches:\n"
	      "    tokens = tokens.to(engine.device)\n"
	      "    loss = engine(input_ids=tokens, labels=tokens).loss\n"
	      "    engine.backward(loss)\n"
	      "    engine.step()\n",
	      f);
	return mq_file_close(f, path, err);
}

/* ZeRO++: weights in 8 bits, gradients in 4, a second copy within a group. */
static enum mq_status check_quantised(const struct mq_export *e, struct mq_err *err)
{
	const struct mq_software *s = e->software;

	if ((s->zero_quantized_weights_B > 0 && s->zero_quantized_weights_B != 1) ||
	    (s->zero_quantized_gradients_B > 0 && s->zero_quantized_gradients_B != .5))
		return mq_fail(
			err, MQ_EINPUT,
			"zero_quantized_weights_B %g, zero_quantized_gradients_B %g: DeepSpeed gathers weights in 1 byte and reduces gradients in "
			".5, or both in their types (0)",
			s->zero_quantized_weights_B, s->zero_quantized_gradients_B);
	return MQ_OK;
}

static void put_quantised(const struct mq_export *e, FILE *f)
{
	const struct mq_software *s = e->software;

	if (s->zero_quantized_weights_B > 0)
		fputs(", \"zero_quantized_weights\": true", f);
	if (s->zero_quantized_gradients_B > 0)
		fputs(", \"zero_quantized_gradients\": true", f);
	if (s->zero_hpz_partition_size)
		fprintf(f, ", \"zero_hpz_partition_size\": %u", s->zero_hpz_partition_size);
}

static void put_zero(const struct mq_export *e, FILE *f)
{
	const struct mq_shape *s = &e->shape;
	const struct mq_plan *p = &e->resolved;
	/* the optimizer is offloaded by ZeRO's engine, on one replica too */
	int stage = s->sync >= MQ_SYNC_ZERO1 ? s->sync - MQ_SYNC_ZERO1 + 1 : p->offload_optimizer;

	fprintf(f, "  \"zero_optimization\": {\"stage\": %d, \"overlap_comm\": %s", stage,
		p->overlap_grads ? "true" : "false");
	if (p->bucket_B > 0) /* in elements */
		fprintf(f, ", \"reduce_bucket_size\": %.0f", p->bucket_B / mq_dtype_size(e->train->dtype));
	if (p->offload_optimizer)
		fputs(", \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}", f);
	if (stage == 3)
		put_quantised(e, f);
	fputs("}\n}\n", f);
}

static void put_optimizer(const struct mq_train *train, FILE *f)
{
	if (train->optimizer == MQ_OPTIMIZER_ADAM)
		fputs("  \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.0001}},\n", f);
	else
		fprintf(f, "  \"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 0.0001, \"momentum\": %s}},\n",
			train->optimizer == MQ_OPTIMIZER_SGD ? "0.0" : "0.9");
}

static void put_config(const struct mq_export *e, FILE *f)
{
	const struct mq_shape *s = &e->shape;

	fprintf(f,
		"{\n  \"train_batch_size\": %.0f,\n  \"train_micro_batch_size_per_gpu\": %u,\n"
		"  \"gradient_accumulation_steps\": %u,\n",
		e->train->batch, e->micro_batch, s->micro_batches);
	put_optimizer(e->train, f);
	if (e->train->dtype == MQ_FP16 || e->train->dtype == MQ_BF16)
		fprintf(f, "  \"%s\": {\"enabled\": true},\n", mq_dtype_name(e->train->dtype));
	if (e->train->grad_dtype != e->train->dtype)
		fprintf(f, "  \"communication_data_type\": \"%s\",\n", mq_dtype_name(e->train->grad_dtype));
	if (s->tp > 1)
		fprintf(f, "  \"tensor_parallel\": {\"autotp_size\": %u},\n", s->tp);
	if (s->pp > 1) /* an interval of 0 recomputes nothing */
		fprintf(f,
			"  \"pipeline\": {\"stages\": %u, \"partition\": \"uniform\", \"activation_checkpoint_interval\": "
			"%u},\n",
			s->pp, s->recompute == MQ_RECOMPUTE_FULL);
	put_zero(e, f);
}

/* The model as text, before any file is touched. */
static enum mq_status describe(const struct mq_export *e, char **text, struct mq_err *err)
{
	size_t size;
	FILE *f = open_memstream(text, &size);

	mq_assert(f);
	enum mq_status status = mq_hf_write(e->model->stack, f, err);
	fclose(f);
	if (status != MQ_OK)
		free(*text);
	return status;
}

static enum mq_status put_folder(const struct mq_export *e, const struct mq_tuning *tuning, struct mq_err *err)
{
	char *text;

	/* other models have settings of DeepSpeed's alone: the user's program builds them */
	if (!e->model->stack || e->model->stack->post_norm)
		return put_hostfile(e, err);
	MQ_TRY(describe(e, &text, err));
	enum mq_status status = put_model(e, text, err);
	free(text);
	MQ_TRY(status);
	if (e->shape.pp == 1)
		MQ_TRY(put_script(e, tuning, err));
	return put_hostfile(e, err);
}

enum mq_status mq_export_deepspeed(const struct mq_export *e, FILE *f, struct mq_err *err)
{
	struct mq_tuning tuning;

	MQ_TRY(check_quantised(e, err));
	MQ_TRY(mq_tuning_read("--train", e->train->tuning, e->arena, &tuning, err));
	if (tuning.kind == MQ_TUNE_LORA)
		MQ_TRY(check_adapters(e, &tuning, err));
	if (tuning.kind == MQ_TUNE_LORA && (!e->dir || e->shape.pp > 1 || !e->model->stack))
		return mq_fail(
			err, MQ_EINPUT,
			"--train lora: its adapters stand in train.py, not in ds_config.json; give -o DIR, a plan "
			"without pipeline stages and a model of Hugging Face's");
	put_config(e, f);
	return e->dir ? put_folder(e, &tuning, err) : MQ_OK;
}
