/* megatron.c - flags of Megatron-LM, with its own sharding or Megatron-FSDP's, from a plan.
 *
 * The order of ranks is Megatron's tp-cp-ep-dp-pp, or, with all stages of a replica first, that of
 * --use-tp-pp-dp-mapping. Uneven layers become --pipeline-model-parallel-layout ("Et*3|t*4|t*3L": E embedding, t a
 * layer, L head and loss, | between stages, chunks of the interleaved schedule in model order), of a hybrid model '|' in
 * --hybrid-layer-pattern. Data, tokenizer and learning rate are DATA_ARGS, by default mock data to measure the step. The
 * script is platforms/launch/megatron.sh.in, its flags of the model megatron_model.in.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/shell.h"
#include "base/template.h"
#include "base/text.h"
#include "export/export.h"
#include "model/formats/lib/megatron.h"

enum { BUCKET = 40000000 }; /* parameters, by default */

static bool is_even(const struct mq_shape *s, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		if (s->stage_layers[i] != s->stage_layers[0])
			return false;
	return true;
}

/* "Et*3|t*4|t*3L", see above. */
static const char *layout_of(const struct mq_export *e, uint32_t n)
{
	const char *text = "E";

	for (uint32_t i = 0; i < n; i++) {
		text = mq_arena_printf(e->arena, "%s%s", text, i ? "|" : "");
		if (e->shape.stage_layers[i])
			text = mq_arena_printf(e->arena, "%st*%u", text, e->shape.stage_layers[i]);
	}
	for (uint32_t i = 0; i < e->model->stack->mtp; i++)
		text = mq_arena_printf(e->arena, "%sm", text);
	return mq_arena_printf(e->arena, "%sL", text);
}

/* A hybrid model's pattern with '|' between stages; without pipes, Megatron divides layers evenly over one chunk each. */
static const char *piped(const struct mq_export *e, const char *pattern)
{
	const struct mq_shape *s = &e->shape;
	uint32_t n = s->pp * s->virtual;
	const char *text = "";

	if (s->virtual == 1 && is_even(s, n))
		return pattern;
	for (uint32_t i = 0; i < n; pattern += s->stage_layers[i++])
		text = mq_arena_printf(e->arena, "%s%s%.*s", text, i ? "|" : "", (int)s->stage_layers[i], pattern);
	return text;
}

const char *const mq_megatron_sharding[MQ_N_SYNCS] = {
	[MQ_SYNC_ALLREDUCE] = "no_shard",
	[MQ_SYNC_ZERO1] = "optim",
	[MQ_SYNC_ZERO2] = "optim_grads",
	[MQ_SYNC_ZERO3] = "optim_grads_params",
};

static bool is_fsdp(const struct mq_export *e)
{
	return e->fsdp || (e->shape.sync == MQ_SYNC_ZERO3 && e->shape.dp * e->shape.cp > 1);
}

/* Before Blackwell, arguments.py wants one hardware queue under tensor or context parallelism, which puts collectives
 * before the GEMMs they overlap; FSDP and the overlap of experts want several. */
static const char *connections(const struct mq_export *e)
{
	const struct mq_device_calib *d = &e->calib->device[e->cluster->device[e->rank[0]].calib];
	const struct mq_shape *s = &e->shape;

	if (is_fsdp(e) || d->compute_capability >= 100)
		return "";
	if (e->resolved.overlap_experts && s->ep > 1)
		return "CUDA_DEVICE_MAX_CONNECTIONS=32 ";
	return s->tp > 1 || s->cp > 1 ? "CUDA_DEVICE_MAX_CONNECTIONS=1 " : "";
}

static void set_launch(struct mq_template *v, const struct mq_export *e)
{
	struct mq_export_node *node;
	uint32_t n = mq_export_nodes(e, &node);
	bool equal = true;

	for (uint32_t i = 1; i < n; i++)
		equal = equal && node[i].n == node[0].n;
	mq_template_set(v, "head", "%s", mq_export_head_lines(e, "# "));
	mq_template_set(v, "several", "%s", n > 1 ? "yes" : "");
	mq_template_set(v, "nodes", "%u", n);
	/* else of this machine, see the lines of the head */
	mq_template_set(v, "each", equal ? "%u" : "$PROCESSES", node[0].n);
	mq_template_set(v, "environment", "%s%s%s", connections(e),
			e->train->dtype == MQ_TF32 ? "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 " : "", mq_export_nccl(e));
	mq_template_set(v, "program", "%s", e->model->stack->pattern ? "pretrain_hybrid.py" : "pretrain_gpt.py");
}

static void set_degrees(struct mq_template *v, const struct mq_export *e)
{
	const struct mq_shape *s = &e->shape;
	uint32_t n = s->pp * s->virtual;
	bool even = is_even(s, n), flags = !e->model->stack->pattern;

	mq_template_set(v, "tp", "%u", s->tp);
	mq_template_set(v, "pp", "%u", s->pp);
	mq_template_set(v, "cp", s->cp > 1 ? "%u" : "", s->cp);
	mq_template_set(v, "all_to_all", s->ulysses > 1 && s->ulysses == s->cp ? "yes" : "");
	mq_template_set(v, "all_to_all_in", s->ulysses > 1 && s->ulysses < s->cp ? "%u" : "", s->ulysses);
	mq_template_set(v, "rings_of", "%u", s->cp / mq_or_1(s->ulysses));
	mq_template_set(v, "ep", s->ep > 1 ? "%u" : "", s->ep);
	mq_template_set(v, "etp", s->etp && s->etp != s->tp ? "%u" : "", s->etp);
	mq_template_set(v, "replica_major", e->replica_major ? "yes" : "");
	mq_template_set(v, "layout", "%s", even || !flags ? "" : layout_of(e, n));
	mq_template_set(v, "virtual", even && flags && s->virtual > 1 ? "%u" : "", s->virtual);
	mq_template_set(v, "micro_batch", "%u", e->micro_batch);
	mq_template_set(v, "batch", "%.0f", e->train->batch);
}

static bool holds_fp8(const struct mq_export *e)
{
	return mq_train_gemm_dtype(e->train) == MQ_FP8 && e->software->fp8_params;
}

/* arguments.py requires this checkpoint format and the distributed optimizer under FSDP. */
static void set_switches(struct mq_template *v, const struct mq_export *e)
{
	const struct mq_shape *s = &e->shape;
	const struct mq_plan *p = &e->resolved;
	uint32_t same = s->dp * s->cp;
	double bucket = p->bucket_B / mq_dtype_size(e->train->grad_dtype);
	bool sized = bucket > 0 && (e->plan->explicit & MQ_EXPLICIT_BUCKET || bucket != BUCKET);
	bool zero1 = s->sync == MQ_SYNC_ZERO1, fsdp = is_fsdp(e), held = holds_fp8(e);

	mq_template_set(v, "sequence_parallel", s->sequence_parallel && s->tp > 1 ? "yes" : "");
	mq_template_set(v, "fsdp", "%s", fsdp ? mq_megatron_sharding[s->sync] : "");
	mq_template_set(v, "unfused", s->sync >= MQ_SYNC_ZERO2 ? " --no-gradient-accumulation-fusion" : "");
	mq_template_set(v, "distributed_optimizer", !fsdp && (zero1 || p->offload_optimizer || held) ? "yes" : "");
	mq_template_set(v, "instances", p->zero_group && p->zero_group < same ? "%u" : "",
			same / mq_or_1(p->zero_group));
	mq_template_set(v, "offload_optimizer", p->offload_optimizer ? "yes" : "");
	mq_template_set(v, "offload_layers", p->offload_layers ? "%u" : "", p->offload_layers);
	mq_template_set(v, "overlap_grads", p->overlap_grads ? "yes" : "");
	mq_template_set(v, "overlap_param_gather", p->overlap_param_gather && zero1 ? "yes" : "");
	mq_template_set(v, "overlap_tp", p->overlap_tp && s->tp > 1 ? "yes" : "");
	mq_template_set(v, "overlap_experts", p->overlap_experts && s->ep > 1 ? "yes" : "");
	mq_template_set(v, "bucket", sized ? "%.0f" : "", bucket);
}

static void set_recompute(struct mq_template *v, const struct mq_export *e)
{
	bool selective = e->shape.recompute == MQ_RECOMPUTE_SELECTIVE;
	bool named = selective && e->software->selective == MQ_SELECTIVE_NAMED;
	const char *unknown;
	uint32_t layers;

	mq_template_set(v, "recompute_method", "%s", mq_export_recompute(e, &layers));
	mq_template_set(v, "recompute_layers", e->shape.recompute == MQ_RECOMPUTE_FULL ? "%u" : "", layers);
	mq_template_set(v, "selective", selective ? "yes" : "");
	mq_template_set(v, "modules", "%s", named ? mq_export_modules(e, &unknown) : "");
}

/* Megatron-Bridge's fp8 recipes set their own bf16 layers. */
static void set_software(struct mq_template *v, const struct mq_export *e)
{
	const struct mq_software *s = e->software;
	bool kept = mq_train_casts(e->train) && (s->num_layers_at_start_in_bf16 || s->num_layers_at_end_in_bf16);

	mq_template_set(v, "bf16_at_start", kept ? "%u" : "", s->num_layers_at_start_in_bf16);
	mq_template_set(v, "bf16_at_end", kept ? "%u" : "", s->num_layers_at_end_in_bf16);
	mq_template_set(v, "deferral_limit", s->defer_embedding_wgrad_compute && e->shape.pp > 1 ? "%u" : "",
			s->wgrad_deferral_limit);
}

static void set_types(struct mq_template *v, const struct mq_export *e)
{
	const struct mq_train *t = e->train;
	bool half = t->dtype == MQ_FP16 || t->dtype == MQ_BF16, capacity = t->experts.capacity > 0 && e->model->experts;

	mq_template_set(v, "momentum",
			t->optimizer == MQ_OPTIMIZER_ADAM ? "" :
			t->optimizer == MQ_OPTIMIZER_SGD  ? "0.0" :
							    "0.9");
	mq_template_set(v, "half", "%s", half ? mq_dtype_name(t->dtype) : "");
	mq_template_set(v, "gradients",
			half && t->grad_dtype == MQ_FP32 ? "accumulate-allreduce-grads-in-fp32" :
			t->grad_dtype == MQ_BF16         ? "grad-reduce-in-bf16" :
							   "");
	mq_template_set(v, "fp8",
			mq_train_gemm_dtype(t) != MQ_FP8 ? "" :
			t->gemm_dtype == MQ_GEMM_MXFP8   ? "mxfp8" :
							   "tensorwise");
	mq_template_set(v, "fp8_params", "%s", holds_fp8(e) ? "yes" : "");
	mq_template_set(v, "fp4", mq_train_gemm_dtype(t) == MQ_FP4 ? "yes" : "");
	mq_template_set(v, "capacity", capacity ? "%.9g" : "", t->experts.capacity);
	mq_template_set(v, "pad", capacity && t->experts.pad ? "yes" : "");
	mq_template_set(v, "flags", "%s", e->software->flags);
}

static void set_layers(struct mq_template *v, const struct mq_transformer *t)
{
	const char *predicted = "";
	uint32_t dense = t->dense_layers;

	for (uint32_t i = 0; i < t->mtp; i++)
		predicted = mq_arena_printf(v->arena, "%s%s", predicted, t->experts ? "/*E" : "/*-");
	mq_template_set(v, "predicted", "%s", predicted);
	mq_template_set(v, "mamba", t->pattern && strchr(t->pattern, 'M') ? "yes" : "");
	if (t->moe_every > 1 && !t->pattern) /* as a Python list: 1 = experts */
		mq_template_set(v, "expert_layers", "([0]*%u+[1]*1)*%u", t->moe_every - 1, t->layers / t->moe_every);
	else
		mq_template_set(v, "expert_layers", dense && !t->pattern ? "([0]*%u+[1]*%u)" : "", dense,
				t->layers > dense ? t->layers - dense : 0);
}

static void set_rope(struct mq_template *v, const struct mq_transformer *t)
{
	const char *kind = t->rotary && t->rope.kind ? t->rope.kind : "";
	bool yarn = !strcmp(kind, "yarn");

	mq_template_set(v, "position", "%s",
			yarn && !t->kv_rank ? "yarn" :
			t->rotary           ? "rope" :
			t->positions        ? "learned_absolute" :
					      "none");
	mq_template_set(v, "positions", "%u", t->positions > t->seq ? t->positions : t->seq);
	mq_template_set(v, "base", t->rotary && t->rope_theta > 0 ? "%.0f" : "", t->rope_theta);
	mq_template_set(v, "llama3", strcmp(kind, "llama3") ? "" : "yes");
	mq_template_set(v, "linear", strcmp(kind, "linear") ? "" : "%.0f", t->rope.factor);
	mq_template_set(v, "latent_rope", !t->kv_rank || !t->rotary ? "" : yarn ? "yarn" : "rope");
	mq_template_set(v, "yarn", yarn ? "yes" : "");
}

/* Do experts exchange tokens by DeepEP, which takes no capacity? Exports to FlagScale have no software. */
static bool deepep(const struct mq_export *e)
{
	return e->software && e->software->deepep && e->shape.ep > 1 && !(e->train->experts.capacity > 0);
}

/* Settings without a flag are left out: check_said compares. GPT-OSS clamps its gates at 7 and adds 1 to the linear
 * half. */
static void set_model(struct mq_template *v, const struct mq_export *e)
{
	struct mq_transformer t = *e->model->stack;
	bool outer = t.experts && (t.dense_layers || t.moe_every > 1) && t.dense_ffn;

	if (!t.rotary)
		t.rope_part = 0;
	if (t.kv_rank) { /* these have no flags in latent attention */
		t.window = t.rope.length = 0;
		t.rope.fast = t.rope.slow = 0;
		t.rope.unrounded = false;
	}
	if (!t.experts) {
		t.expert_groups = t.shared_ffn = t.latent = t.dense_layers = t.moe_every = 0;
		t.router_scale = 0;
		t.sigmoid_router = false;
	}
	if (t.biases)
		t.qkv_bias = false;
	if (t.pattern && e->form.shaped && e->shape.pp > 1)
		t.pattern = piped(e, t.pattern);
	mq_export_fields(v, &t, "yes", "");
	mq_template_set(v, "dispatcher", "%s", deepep(e) ? "flex --moe-flex-dispatcher-backend deepep" : "alltoall");
	set_layers(v, &t);
	set_rope(v, &t);
	mq_template_set(v, "outer_ffn", "%u", outer ? t.dense_ffn : t.ffn);
	mq_template_set(v, "groups", t.kv_heads != t.heads ? "%u" : "", t.kv_heads);
	mq_template_set(v, "window", t.window && t.window < t.seq ? "%u" : "", t.window - 1);
	mq_template_set(v, "untied", t.tied ? "" : "yes");
	mq_template_set(v, "norm", t.rms ? "RMSNorm" : "LayerNorm");
	mq_template_set(v, "eps", t.norm_eps > 0 ? "%g" : "", t.norm_eps);
	mq_template_set(v, "activation", "%s",
			t.clamp ? " \\\n  --quick-geglu --glu-linear-offset 1.0 --activation-func-clamp-value 7.0 "
				  "--softmax-type learnable" :
			t.gated ? " \\\n  --swiglu" :
			t.relu  ? " \\\n  --squared-relu" :
				  "");
	mq_template_set(v, "unbiased", t.biases ? "" : "yes");
	mq_template_set(v, "share", t.dropout ? "0.1" : "0.0");
	mq_template_set(v, "unfused", t.fused ? "" : "yes");
}

/* Reads the flags back and reports a part of the model that they lack. */
static enum mq_status check_said(const struct mq_export *e, const char *flags, struct mq_err *err)
{
	struct mq_transformer said;
	struct mq_script script;

	MQ_TRY(mq_shell_read(flags, e->arena, &script, err));
	MQ_TRY(mq_megatron_read(script.word, e->arena, &said, err));
	MQ_TRY(mq_transformer_check(&said, "megatron", err));
	const char *differs = mq_export_differs(e, &said, "the flags");
	return differs ?
		       mq_bad(err, "Megatron-LM has no flags for all of model '%s': its %s", e->model->name, differs) :
		       MQ_OK;
}

enum mq_status mq_export_megatron_model(const struct mq_export *e, const char **flags, struct mq_err *err)
{
	struct mq_template v = { .arena = e->arena };
	const char *text;

	if (!e->model->stack)
		return mq_bad(err,
			      "model '%s' is not one stack of blocks of one width; Megatron-LM's flags describe "
			      "such alone",
			      e->model->name);
	if (e->train->infer)
		return mq_bad(err, "--mode infer: these are settings of training");
	set_model(&v, e);
	MQ_TRY(mq_template_text(&v, "platforms/launch", "megatron_model.in", &text, err));
	*flags = mq_arena_printf(e->arena, "%.*s", (int)(strlen(text) - strlen(" \\\n")), text);
	return check_said(e, *flags, err);
}

/* Megatron's stages send whole tensors, or with --sequence-parallel each rank its part, without gathering. */
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
	if (mq_train_casts(e->train) && (*e->software->bf16_ops || *e->software->mxfp8_ops))
		return mq_bad(err,
			      "bf16_ops '%s', mxfp8_ops '%s': Megatron-LM reads them in a file of "
			      "--te-precision-config-file, which is not written",
			      e->software->bf16_ops, e->software->mxfp8_ops);
	return MQ_OK;
}

enum mq_status mq_export_megatron_values(const struct mq_export *e, struct mq_template *v, struct mq_err *err)
{
	MQ_TRY(check_switches(e, err));
	set_launch(v, e);
	set_degrees(v, e);
	set_switches(v, e);
	set_recompute(v, e);
	set_types(v, e);
	set_software(v, e);
	return MQ_OK;
}

enum mq_status mq_export_megatron(const struct mq_export *e, const char **text, struct mq_err *err)
{
	struct mq_template v = { .arena = e->arena };
	const struct mq_software *w = e->software;
	bool ends = w->overlap_param_gather_with_optimizer_step && e->resolved.overlap_param_gather;
	const char *model;

	if (*w->cuda_graph_scope)
		return mq_bad(err,
			      "cuda_graph_scope '%s': no flags of Megatron-LM are written for it; --to "
			      "megatron-bridge has whole steps ('*')",
			      w->cuda_graph_scope);
	if (w->fp8_attention && mq_train_gemm_dtype(e->train) == MQ_FP8)
		return mq_bad(err, "fp8_attention: Megatron-LM has no flag for it; --to megatron-bridge has");
	MQ_TRY(mq_export_megatron_model(e, &model, err));
	MQ_TRY(mq_export_megatron_values(e, &v, err));
	mq_template_set(&v, "with_optimizer", "%s",
			ends && e->shape.virtual > 1 && e->shape.sync == MQ_SYNC_ZERO1 ? "yes" : "");
	mq_template_set(&v, "model", "%s", model);
	return mq_template_text(&v, "platforms/launch", "megatron.sh.in", text, err);
}
