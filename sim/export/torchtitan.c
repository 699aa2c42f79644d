/* torchtitan.c - a plan as a recipe of torchtitan: a Python module with a function that returns the whole
 * configuration, as torchtitan/config/README.md asks for (TOML files and flags are gone or going).
 *
 * The model is built of torchtitan's own parts (models/llama3, qwen3, deepseek_v3); data, tokenizer and learning rate
 * are those of its debug configuration, for the user to replace. Its reductions are in float32 alone.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "export/torchtitan.h"

enum mq_titan_family mq_titan_family(const struct mq_transformer *t)
{
	if (t->kv_rank)
		return MQ_TITAN_DEEPSEEK;
	return t->experts || t->qk_norm ? MQ_TITAN_QWEN3 : MQ_TITAN_LLAMA3;
}

static const struct {
	const char *module, *prefix, *rope;
} families[] = {
	[MQ_TITAN_LLAMA3] = { "llama3", "Llama3", "ComplexRoPE" },
	[MQ_TITAN_QWEN3] = { "qwen3", "Qwen3", "CosSinRoPE" },
	[MQ_TITAN_DEEPSEEK] = { "deepseek_v3", "DeepSeekV3", "ComplexRoPE" },
};

/* ---- the model -------------------------------------------------------------------------------------- */

static const char HELPERS[] =
	"\n\ndef norm(width: int) -> RMSNorm.Config:\n"
	"    return RMSNorm.Config(normalized_shape=width, eps=norm_eps, param_init={\"weight\": nn.init.ones_})\n"
	"\n\ndef ffn(width: int):\n"
	"    return make_ffn_config(dim=dim, hidden_dim=width, w1_param_init=init, w2w3_param_init=init)\n";

static const char MOE[] =
	"\n\ndef moe():\n"
	"    weights = {name: init[\"weight\"] for name in (\"w1_EFD\", \"w2_EDF\", \"w3_EFD\")}\n"
	"    return make_moe_config(\n"
	"        num_experts=num_experts,\n"
	"        router=make_router_config(\n"
	"            dim=dim, num_experts=num_experts, gate_param_init=init, top_k=top_k, score_func=score_func,\n"
	"            route_norm=True, num_expert_groups=num_expert_groups, num_limited_groups=num_limited_groups,\n"
	"        ),\n"
	"        routed_experts=make_routed_experts_config(\n"
	"            dim=dim, hidden_dim=moe_hidden_dim, num_experts=num_experts, top_k=top_k, param_init=weights,\n"
	"            comm_backend=\"standard\",\n"
	"        ),\n"
	"        shared_experts=ffn(shared_hidden_dim) if shared_hidden_dim else None,\n"
	"    )\n";

static const char GQA[] =
	"\n\ndef attention(layer_id: int):\n"
	"    return make_gqa_config(\n"
	"        dim=dim, n_heads=n_heads, n_kv_heads=n_kv_heads, head_dim=head_dim, wqkv_param_init=init,\n"
	"        wo_param_init=init, inner_attention=get_attention_config(\"flex\"), fuse_qkv=True, rope=rope,\n"
	"        qk_norm=norm(head_dim) if qk_norm else None,\n"
	"    )\n";

static const char MLA[] =
	"\n\ndef attention(layer_id: int):\n"
	"    return make_mla_attention_config(\n"
	"        layer_id=layer_id, dim=dim, n_heads=n_heads, q_lora_rank=q_lora_rank, kv_lora_rank=kv_lora_rank,\n"
	"        qk_nope_head_dim=qk_nope_head_dim, qk_rope_head_dim=qk_rope_head_dim, v_head_dim=v_head_dim,\n"
	"        attn_backend=\"flex\", linear_init=init, norm_init={\"weight\": nn.init.ones_},\n"
	"        depth_init=lambda layer_id: init, rope=rope,\n"
	"    )\n";

static void put_imports(const struct mq_export *e, FILE *f)
{
	const struct mq_transformer *t = e->model->stack;
	enum mq_titan_family family = mq_titan_family(t);
	const char *module = families[family].module, *prefix = families[family].prefix;

	fputs("from functools import partial\n\nimport torch.nn as nn\n\n"
	      "from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss\n",
	      f);
	if (t->experts)
		fputs("from torchtitan.components.optimizer import register_moe_load_balancing_hook\n", f);
	fputs("from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig\n"
	      "from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC\n"
	      "from torchtitan.distributed.pipeline_parallel import pipeline_llm\n",
	      f);
	fprintf(f,
		"from torchtitan.models.common import %s, Embedding, Linear, RMSNorm\n"
		"from torchtitan.models.common.config_utils import (\n    get_attention_config,\n    make_ffn_config,\n"
		"    make_gqa_config,\n    make_moe_config,\n    make_routed_experts_config,\n    make_router_config,\n)\n",
		families[family].rope);
	if (family == MQ_TITAN_DEEPSEEK)
		fputs("from torchtitan.models.deepseek_v3 import make_mla_attention_config\n", f);
	fprintf(f,
		"from torchtitan.models.%s.config_registry import %s_debugmodel\n"
		"from torchtitan.models.%s.model import %sModel, %sTransformerBlock\n"
		"from torchtitan.models.%s.parallelize import parallelize_%s\n",
		module, module, module, prefix, prefix, module,
		family == MQ_TITAN_LLAMA3 ? "llama" :
		family == MQ_TITAN_QWEN3  ? "qwen3" :
					    "deepseekv3");
	if (mq_train_gemm_dtype(e->train) == MQ_FP8)
		fprintf(f, "from torchtitan.components.quantization import %s\n",
			e->train->gemm_dtype == MQ_GEMM_MXFP8 ? "MXFP8LinearConverter" : "Float8LinearConverter");
	fputs("from torchtitan.protocols.model_spec import ModelSpec\nfrom torchtitan.trainer import Trainer\n\n", f);
}

static void put_dims(const struct mq_transformer *t, FILE *f)
{
	bool outer = t->experts && (t->dense_layers || t->moe_every > 1);

	fprintf(f, "n_layers = %u\ndim = %u\nvocab_size = %u\nn_heads = %u\n", t->layers, t->hidden, t->vocab,
		t->heads);
	if (t->kv_rank)
		fprintf(f,
			"q_lora_rank = %u\nkv_lora_rank = %u\nqk_nope_head_dim = %u\nqk_rope_head_dim = %u\n"
			"v_head_dim = %u\n",
			t->q_rank, t->kv_rank, t->nope_dim, t->rope_dim, t->value_dim);
	else
		fprintf(f, "n_kv_heads = %u\nhead_dim = %u\nqk_norm = %s\n", t->kv_heads, t->head_dim,
			t->qk_norm ? "True" : "False");
	fprintf(f, "hidden_dim = %u\n", outer ? t->dense_ffn : t->ffn);
	if (t->experts) {
		fprintf(f,
			"moe_hidden_dim = %u\nnum_experts = %u\ntop_k = %u\nshared_hidden_dim = %u\n"
			"n_dense_layers = %u\nmoe_every = %u\nscore_func = \"%s\"\n",
			t->ffn, t->experts, t->top_k, t->shared_ffn, t->dense_layers, t->moe_every ? t->moe_every : 1,
			t->sigmoid_router ? "sigmoid" : "softmax");
		if (t->expert_groups)
			fprintf(f, "num_expert_groups = %u\nnum_limited_groups = %u\n", t->expert_groups,
				t->group_limit);
		else
			fputs("num_expert_groups = None\nnum_limited_groups = None\n", f);
	}
	fprintf(f, "norm_eps = %g\nenable_weight_tying = %s\n", t->norm_eps > 0 ? t->norm_eps : 1e-5,
		t->tied ? "True" : "False");
	fprintf(f, "rope = %s.Config(dim=%s, max_context_length=%u, theta=%.1f)\n", families[mq_titan_family(t)].rope,
		t->kv_rank ? "qk_rope_head_dim" : "head_dim", t->seq, t->rope_theta > 0 ? t->rope_theta : 10000.);
	fputs("init = {\"weight\": partial(nn.init.trunc_normal_, std=0.02), \"bias\": nn.init.zeros_}\n", f);
}

static const char *converter(const struct mq_train *train)
{
	if (mq_train_gemm_dtype(train) != MQ_FP8)
		return "";
	return train->gemm_dtype == MQ_GEMM_MXFP8 ?
		       "    model = MXFP8LinearConverter.Config(model_compile_enabled=True).build().convert(model)\n" :
		       "    model = Float8LinearConverter.Config(model_compile_enabled=True).build().convert(model)\n";
}

static void put_model(const struct mq_export *e, FILE *f)
{
	const struct mq_transformer *t = e->model->stack;
	enum mq_titan_family family = mq_titan_family(t);
	const char *prefix = families[family].prefix;

	put_dims(t, f);
	fputs(HELPERS, f);
	fputs(t->kv_rank ? MLA : GQA, f);
	if (t->experts)
		fputs(MOE, f);
	fprintf(f,
		"\n\ndef block(layer_id: int):\n%s    return %sTransformerBlock.Config(\n"
		"        attention_norm=norm(dim), ffn_norm=norm(dim), attention=attention(layer_id),\n%s    )\n",
		t->experts ? "    sparse = layer_id >= n_dense_layers and (layer_id + 1) % moe_every == 0\n" : "",
		prefix,
		t->experts ?
			"        moe=moe() if sparse else None, feed_forward=None if sparse else ffn(hidden_dim),\n" :
			"        feed_forward=ffn(hidden_dim),\n");
	fprintf(f,
		"\n\ndef model_spec() -> ModelSpec:\n    model = %sModel.Config(\n"
		"        dim=dim, vocab_size=vocab_size, enable_weight_tying=enable_weight_tying, norm=norm(dim),\n"
		"        tok_embeddings=Embedding.Config(num_embeddings=vocab_size, embedding_dim=dim, param_init=init),\n"
		"        lm_head=Linear.Config(in_features=dim, out_features=vocab_size, param_init=init),\n"
		"        layers=[block(layer_id) for layer_id in range(n_layers)],\n    )\n%s"
		"    return ModelSpec(\n        name=\"%s\", flavor=\"planned\", model=model, parallelize_fn=parallelize_%s,\n"
		"        pipelining_fn=pipeline_llm, post_optimizer_build_fn=%s,\n        state_dict_adapter=None,\n    )\n",
		prefix, converter(e->train), families[family].module,
		family == MQ_TITAN_LLAMA3 ? "llama" :
		family == MQ_TITAN_QWEN3  ? "qwen3" :
					    "deepseekv3",
		t->experts ? "register_moe_load_balancing_hook" : "None");
}

/* ---- the plan --------------------------------------------------------------------------------------- */

static void put_parts(const struct mq_shape *s, FILE *f)
{
	uint32_t layer = 0, n = s->pp * s->virtual;

	fputs("        module_fqns_per_model_part=[\n", f);
	for (uint32_t i = 0; i < n; i++) {
		const char *comma = "";

		fputs("            [", f);
		if (!i) {
			fputs("\"tok_embeddings\"", f);
			comma = ", ";
		}
		for (uint32_t k = 0; k < s->stage_layers[i]; k++, comma = ", ")
			fprintf(f, "%s\"layers.%u\"", comma, layer++);
		fprintf(f, "%s],\n", i + 1 < n ? "" : *comma ? ", \"norm\", \"lm_head\"" : "\"norm\", \"lm_head\"");
	}
	fputs("        ],\n", f);
}

static const char *schedule_name(const struct mq_shape *s)
{
	if (s->pipeline == MQ_PIPE_GPIPE)
		return "GPipe";
	if (s->pipeline == MQ_PIPE_ZBV)
		return "ZBVZeroBubble";
	if (s->pipeline == MQ_PIPE_DUALPIPE_V)
		return "DualPipeV";
	return s->virtual > 1 ? "Interleaved1F1B" : "1F1B";
}

/* Copies and shards: HSDP where ZeRO shards over groups, plain copies where it does not at all. Shards
 * lie over replicas and the parts of a sequence; torchtitan counts replicas. */
static void put_parallelism(const struct mq_export *e, FILE *f)
{
	const struct mq_shape *s = &e->shape;
	bool sharded = s->sync >= MQ_SYNC_ZERO1;
	uint32_t shards = sharded ? s->dp : 1;

	if (sharded && e->resolved.zero_group && e->resolved.zero_group < s->dp * s->cp)
		shards = e->resolved.zero_group / s->cp;
	fprintf(f,
		"    config.parallelism = ParallelismConfig(\n        data_parallel_replicate_degree=%u,\n"
		"        data_parallel_shard_degree=%u,\n",
		s->dp / shards, shards);
	if (sharded)
		fprintf(f, "        fsdp_reshard_after_forward=\"%s\",\n",
			s->sync != MQ_SYNC_ZERO3 ? "never" :
			s->pp > 1                ? "default" :
						   "always");
	fprintf(f, "        tensor_parallel_degree=%u,\n", s->tp);
	if (s->tp > 1)
		fprintf(f, "        enable_sequence_parallel=%s,\n", s->sequence_parallel ? "True" : "False");
	fprintf(f,
		"        context_parallel_degree=%u,\n        expert_parallel_degree=%u,\n"
		"        pipeline_parallel_degree=%u,\n",
		s->cp, s->ep, s->pp);
	if (s->pp > 1) {
		fprintf(f, "        pipeline_parallel_schedule=\"%s\",\n        num_pp_microbatches=%u,\n",
			schedule_name(s), s->micro_batches);
		put_parts(s, f);
	}
	fputs("    )\n", f);
}

static void put_training(const struct mq_export *e, FILE *f)
{
	double seq = e->model->seq;

	if (e->train->grad_dtype == MQ_BF16)
		fputs("    # planned with gradients reduced in bfloat16; torchtitan has float32 alone (--grad-dtype fp32)\n",
		      f);
	fprintf(f,
		"    config.training = TrainingConfig(\n        num_tokens_per_microbatch_per_dp_rank=%.0f,\n"
		"        num_tokens_per_train_step=%.0f,\n        max_context_length=%.0f,\n"
		"        mixed_precision_param=\"%s\",\n        mixed_precision_reduce=\"float32\",\n"
		"        disable_cuda_graphs=True,\n    )\n",
		e->micro_batch * seq, e->train->batch * seq, seq, e->train->dtype == MQ_BF16 ? "bfloat16" : "float32");
}

static void put_config(const struct mq_export *e, FILE *f)
{
	const struct mq_shape *s = &e->shape;
	const char *module = families[mq_titan_family(e->model->stack)].module;

	fprintf(f,
		"\n\ndef planned() -> Trainer.Config:\n"
		"    config = %s_debugmodel()  # its data, tokenizer and learning rate: put yours here\n"
		"    config.model_spec = model_spec()\n"
		"    config.loss = ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(global_vocab_size=vocab_size))\n",
		module);
	put_training(e, f);
	put_parallelism(e, f);
	fprintf(f, "    config.activation_checkpoint = %s\n",
		s->recompute == MQ_RECOMPUTE_FULL      ? "FullAC.Config()" :
		s->recompute == MQ_RECOMPUTE_SELECTIVE ? "SelectiveAC.Config()" :
							 "None");
	fprintf(f, "    config.compile = CompileConfig(enable=%s, enable_async_tensor_parallel=%s)\n",
		strcmp(e->software->flags, "eager") ? "True" : "False",
		e->resolved.overlap_tp && s->tp > 1 ? "True" : "False");
	fputs("    return config\n", f);
}

static enum mq_status check_options(const struct mq_export *e, struct mq_err *err)
{
	const struct mq_shape *s = &e->shape;

	if (e->train->optimizer != MQ_OPTIMIZER_ADAM)
		return mq_fail(err, MQ_EINPUT,
			       "torchtitan: --optimizer other than adam is not exported; its recipes use AdamW");
	if (s->recompute == MQ_RECOMPUTE_SELECTIVE && e->software->selective == MQ_SELECTIVE_LAYERS)
		return mq_fail(err, MQ_EINPUT,
			       "torchtitan: recomputation of every other layer is no setting of it any more; "
			       "its SelectiveAC chooses by operator");
	return MQ_OK;
}

static void put_recipe(const struct mq_export *e, FILE *f)
{
	const char *nccl = mq_export_nccl(e);
	struct mq_export_node *node;
	uint32_t n = mq_export_nodes(e, &node);

	if (n == 1) /* run_train.sh starts all its processes on one machine */
		fprintf(f,
			"\"\"\"A recipe for torchtitan: NGPU=%u MODULE=this.file CONFIG=planned %s./run_train.sh\"\"\"\n",
			e->n_ranks, nccl);
	else
		fprintf(f,
			"\"\"\"A recipe for torchtitan, on each of %u machines (srun -N %u --ntasks-per-node=1):\n\n"
			"    %storchrun --nnodes %u --nproc_per_node %u --rdzv_backend c10d --rdzv_id planned \\\\\n"
			"        --rdzv_endpoint ${HOST_OF_RANK_0}:29500 -m torchtitan.train --module this.file --config "
			"planned\n\"\"\"\n",
			n, n, nccl, n, node[0].n);
	mq_export_put_nodes(e, "# ", f);
	put_imports(e, f);
	put_model(e, f);
	put_config(e, f);
}

/* What was written is read back: a part of the model that it does not say is named. */
static enum mq_status check_said(const struct mq_export *e, const char *text, struct mq_err *err)
{
	struct mq_transformer said;
	const char *field;
	char values[96];

	MQ_TRY(mq_titan_read_model(text, e->arena, &said, err));
	MQ_TRY(mq_transformer_check(&said, "torchtitan", err));
	field = mq_transformer_differs(e->model->stack, &said, values);
	if (!field)
		return MQ_OK;
	return mq_fail(err, MQ_EINPUT,
		       "torchtitan has no parts for all of model '%s': its %s (the model's and the recipe's: %s)",
		       e->model->name, field, values);
}

enum mq_status mq_export_torchtitan(const struct mq_export *e, FILE *f, struct mq_err *err)
{
	char *text;
	size_t size;
	FILE *memory;

	MQ_TRY(check_options(e, err));
	memory = open_memstream(&text, &size);
	mq_assert(memory);
	put_recipe(e, memory);
	fclose(memory);
	enum mq_status status = check_said(e, text, err);
	if (status == MQ_OK)
		fputs(text, f);
	free(text);
	return status;
}
