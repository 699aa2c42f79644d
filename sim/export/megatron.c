/* megatron.c - flags of Megatron-LM, with its own sharding or Megatron-FSDP's, from a plan.
 *
 * The order of ranks is Megatron's tp-cp-ep-dp-pp. Uneven layers become --pipeline-model-parallel-layout
 * ("Et*3|t*4|t*3L": E embedding, t a layer, L head and loss, | between stages, chunks of the interleaved schedule in
 * model order). Ranks that go through a replica's stages first are --use-tp-pp-dp-mapping. Data, tokenizer and learning
 * rate are DATA_ARGS, which as written measure the step on mock data. SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "export/export.h"
#include "base/shell.h"
#include "base/text.h"
#include "model/formats/lib/megatron.h"

/* Megatron keeps gradients in fp32: its buckets count parameters, of which there are 40 M by default. */
enum { GRAD_BYTES = 4, BUCKET_B = 160000000 };

static bool is_even(const struct mq_shape *s, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		if (s->stage_layers[i] != s->stage_layers[0])
			return false;
	return true;
}

static void put_layout(const struct mq_export *e, uint32_t n, FILE *f)
{
	const struct mq_shape *s = &e->shape;

	fputs(" \\\n  --pipeline-model-parallel-layout \"E", f);
	for (uint32_t i = 0; i < n; i++) {
		fputs(i ? "|" : "", f);
		if (s->stage_layers[i])
			fprintf(f, "t*%u", s->stage_layers[i]);
	}
	for (uint32_t i = 0; i < e->model->stack->mtp; i++)
		fputs("m", f);
	fputs("L\"", f);
}

static void put_types(const struct mq_export *e, FILE *f)
{
	const struct mq_train *t = e->train;
	bool half = t->dtype == MQ_FP16 || t->dtype == MQ_BF16;

	if (t->optimizer != MQ_OPTIMIZER_ADAM)
		fprintf(f, " \\\n  --optimizer sgd --sgd-momentum %s",
			t->optimizer == MQ_OPTIMIZER_SGD ? "0.0" : "0.9");
	if (half)
		fprintf(f, " \\\n  --%s", mq_dtype_name(t->dtype));
	if (half && t->grad_dtype == MQ_FP32)
		fputs(" \\\n  --accumulate-allreduce-grads-in-fp32", f);
	else if (t->grad_dtype == MQ_BF16)
		fputs(" \\\n  --grad-reduce-in-bf16", f);
	if (mq_train_gemm_dtype(t) == MQ_FP8)
		fprintf(f, " \\\n  --fp8-format hybrid --fp8-recipe %s",
			t->gemm_dtype == MQ_GEMM_MXFP8 ? "mxfp8" : "tensorwise");
	else if (mq_train_gemm_dtype(t) == MQ_FP4)
		fputs(" \\\n  --fp4-format e2m1 --fp4-recipe nvfp4", f);
}

static void put_capacity(const struct mq_export *e, FILE *f)
{
	const struct mq_expert_load *l = &e->train->experts;

	if (!(l->capacity > 0) || !e->model->experts)
		return;
	fprintf(f, " \\\n  --moe-expert-capacity-factor %.9g%s", l->capacity,
		l->pad ? " --moe-pad-expert-input-to-capacity" : "");
}

static void put_overlap(const struct mq_export *e, FILE *f)
{
	const struct mq_plan *p = &e->resolved;

	if (p->overlap_grads)
		fputs(" \\\n  --overlap-grad-reduce", f);
	if (p->overlap_param_gather && e->shape.sync == MQ_SYNC_ZERO1)
		fputs(" \\\n  --overlap-param-gather", f);
	if (p->overlap_tp && e->shape.tp > 1)
		fputs(" \\\n  --tp-comm-overlap", f);
	if (p->overlap_experts && e->shape.ep > 1)
		fputs(" \\\n  --overlap-moe-expert-parallel-comm", f);
	if (p->bucket_B > 0 && (e->plan->explicit & MQ_EXPLICIT_BUCKET || p->bucket_B != BUCKET_B))
		fprintf(f, " \\\n  --ddp-bucket-size %.0f", p->bucket_B / GRAD_BYTES);
}

const char *const mq_megatron_sharding[MQ_N_SYNCS] = {
	[MQ_SYNC_ALLREDUCE] = "no_shard",
	[MQ_SYNC_ZERO1] = "optim",
	[MQ_SYNC_ZERO2] = "optim_grads",
	[MQ_SYNC_ZERO3] = "optim_grads_params",
};

/* arguments.py asks for that format of checkpoints, and for the distributed optimizer. */
static void put_fsdp(const struct mq_shape *s, FILE *f)
{
	fprintf(f,
		" \\\n  --use-megatron-fsdp --use-distributed-optimizer --ckpt-format fsdp_dtensor"
		" \\\n  --data-parallel-sharding-strategy %s",
		mq_megatron_sharding[s->sync]);
	if (s->sync >= MQ_SYNC_ZERO2)
		fputs(" --no-gradient-accumulation-fusion", f);
}

static void put_switches(const struct mq_export *e, FILE *f)
{
	const struct mq_shape *s = &e->shape;
	uint32_t same = s->dp * s->cp;

	if (s->sequence_parallel && s->tp > 1)
		fputs(" \\\n  --sequence-parallel", f);
	if (e->fsdp)
		put_fsdp(s, f);
	else if (s->sync == MQ_SYNC_ZERO1 || e->resolved.offload_optimizer)
		fputs(" \\\n  --use-distributed-optimizer", f);
	if (e->resolved.zero_group && e->resolved.zero_group < same)
		fprintf(f, " \\\n  --num-distributed-optimizer-instances %u", same / e->resolved.zero_group);
	if (e->resolved.offload_optimizer)
		fputs(" \\\n  --optimizer-cpu-offload --use-precision-aware-optimizer", f);
	if (e->resolved.offload_layers)
		fprintf(f, " \\\n  --cpu-offloading-num-layers %u", e->resolved.offload_layers);
	put_overlap(e, f);
}

static void put_recompute(const struct mq_export *e, FILE *f)
{
	const char *text, *unknown;
	uint32_t layers;

	if (e->shape.recompute == MQ_RECOMPUTE_FULL) {
		text = mq_export_recompute(e, &layers);
		fprintf(f, " \\\n  --recompute-granularity full --recompute-method %s --recompute-num-layers %u", text,
			layers);
	}
	if (e->shape.recompute != MQ_RECOMPUTE_SELECTIVE)
		return;
	fputs(" \\\n  --recompute-granularity selective", f);
	if (e->software->selective == MQ_SELECTIVE_NAMED)
		fprintf(f, " --recompute-modules %s", mq_export_modules(e, &unknown));
}

static void put_launch(const struct mq_export *e, FILE *f)
{
	struct mq_export_node *node;
	uint32_t n = mq_export_nodes(e, &node);
	bool equal = true;

	fprintf(f,
		"#!/bin/bash\n%s"
		"# Put your data, tokenizer and learning rate here; mock data measures the step at once.\n"
		"DATA_ARGS=(--mock-data --tokenizer-type NullTokenizer --train-iters 20 --eval-iters 0 --lr 1e-5 --min-lr 1e-6\n"
		"  --log-interval 1 --log-throughput)\n",
		mq_export_head_lines(e, "# "));
	if (n > 1)
		fprintf(f, "# On each of %u machines; under Slurm: srun -N %u --ntasks-per-node=1 bash THIS_FILE\n", n,
			n);
	for (uint32_t i = 1; i < n; i++)
		equal = equal && node[i].n == node[0].n;
	fprintf(f, "%s%storchrun --nnodes %u --nproc-per-node ",
		e->train->dtype == MQ_TF32 ? "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 " : "", mq_export_nccl(e), n);
	if (equal)
		fprintf(f, "%u", node[0].n);
	else
		fputs("$PROCESSES", f); /* of this machine, as the lines above have them */
	if (n > 1)
		fputs(" --node-rank ${NODE_RANK:-${SLURM_NODEID:-0}} --master-addr ${MASTER_ADDR:-HOST_OF_RANK_0} "
		      "--master-port 29500 \\\n ",
		      f);
	fprintf(f, " %s", mq_megatron_program(e->model->stack));
}

/* What the flags say is read back: a part of the model that they lack, or have no words for, is named. */
static enum mq_status check_said(const struct mq_export *e, const char *flags, struct mq_err *err)
{
	const struct mq_transformer *t = e->model->stack;
	struct mq_transformer said;
	struct mq_script script;
	const char **word, *field;
	char text[96];

	MQ_TRY(mq_shell_read(flags, e->arena, &script, err));
	word = script.word;
	MQ_TRY(mq_megatron_read(word, e->arena, &said, err));
	MQ_TRY(mq_transformer_check(&said, "megatron", err));
	field = mq_transformer_differs(t, &said, text);
	if (!field)
		return MQ_OK;
	return mq_bad(err,
		      "Megatron-LM has no flags for all of model '%s': its %s (the model's and that of the flags: %s)",
		      e->model->name, field, text);
}

enum mq_status mq_export_megatron_model(const struct mq_export *e, const char **flags, struct mq_err *err)
{
	MQ_FREED struct mq_words memory = { NULL, 0 };

	if (!e->model->stack)
		return mq_bad(err,
			      "model '%s' is not one stack of blocks of one width; Megatron-LM's flags describe "
			      "such alone",
			      e->model->name);
	if (e->train->infer)
		return mq_bad(err, "--mode infer: these are settings of training");
	FILE *f = mq_words_open(&memory);
	mq_megatron_write(e->model->stack, f);
	fclose(f);
	*flags = mq_arena_strdup(e->arena, memory.text);
	return check_said(e, *flags, err);
}

/* Megatron's stages pass whole tensors, or with --sequence-parallel each rank its part: nothing is gathered. */
static enum mq_status check_switches(const struct mq_export *e, struct mq_err *err)
{
	const struct mq_shape *s = &e->shape;
	const char *unknown = "";

	if (e->plan->explicit & MQ_EXPLICIT_SCATTER_GATHER && e->plan->scatter_gather && s->tp > 1 && s->pp > 1 &&
	    !s->sequence_parallel)
		return mq_bad(err, "scatter_gather: Megatron-LM no longer scatters tensors between stages; "
				   "leave it out, or split along the sequence");
	if (s->recompute == MQ_RECOMPUTE_SELECTIVE && e->software->selective == MQ_SELECTIVE_NAMED &&
	    !mq_export_modules(e, &unknown))
		return mq_bad(err,
			      "recompute_ops '%s': no module of Megatron's --recompute-modules begins so; importing a "
			      "script with that flag says the ops of its modules",
			      unknown);
	if (e->model->stack->pattern && s->stage_layers && !is_even(s, s->pp * s->virtual))
		return mq_bad(err, "stages of unequal layers: a hybrid pattern has no layout flag");
	return MQ_OK;
}

static void put_degrees(const struct mq_export *e, FILE *f)
{
	const struct mq_shape *s = &e->shape;
	uint32_t n = s->pp * s->virtual;

	fprintf(f, " \\\n  --tensor-model-parallel-size %u --pipeline-model-parallel-size %u", s->tp, s->pp);
	if (s->cp > 1)
		fprintf(f, " \\\n  --context-parallel-size %u", s->cp);
	if (s->ulysses > 1 && s->ulysses == s->cp)
		fputs(" --cp-comm-type a2a", f);
	else if (s->ulysses > 1)
		fprintf(f, " --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes %u %u", s->ulysses,
			s->cp / s->ulysses);
	if (s->ep > 1)
		fprintf(f, " \\\n  --expert-model-parallel-size %u", s->ep);
	if (s->ep > 1 && s->etp && s->etp != s->tp)
		fprintf(f, " --expert-tensor-parallel-size %u", s->etp);
	if (e->replica_major)
		fputs(" \\\n  --use-tp-pp-dp-mapping", f);
	if (!is_even(s, n))
		put_layout(e, n, f);
	else if (s->virtual > 1)
		fprintf(f, " \\\n  --num-virtual-stages-per-pipeline-rank %u", s->virtual);
	fprintf(f, " \\\n  --micro-batch-size %u --global-batch-size %.0f", e->micro_batch, e->train->batch);
}

enum mq_status mq_export_megatron(const struct mq_export *e, FILE *f, struct mq_err *err)
{
	const char *model;

	MQ_TRY(mq_export_megatron_model(e, &model, err));
	MQ_TRY(check_switches(e, err));
	put_launch(e, f);
	put_degrees(e, f);
	put_switches(e, f);
	put_recompute(e, f);
	fputs(model, f);
	put_types(e, f);
	put_capacity(e, f);
	if (*e->software->flags)
		fprintf(f, " \\\n  %s", e->software->flags);
	fputs(" \\\n  \"${DATA_ARGS[@]}\"\n", f);
	return MQ_OK;
}
