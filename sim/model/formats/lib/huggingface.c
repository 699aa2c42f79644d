/*
 * huggingface.c - see huggingface.h. Defaults of absent keys are those of the transformers
 * library.
 *
 * Not modelled: chunked attention of Llama 4 (all keys are seen), the one-column gate of Qwen-MoE's shared
 * expert, multi-token prediction of DeepSeek and GLM (not part of their configurations' training), norms of
 * OLMo 2 over whole queries and keys (they are counted by head).
 */
#include "model/formats/lib/huggingface.h"

#include <string.h>

static const double MAX = 1e8;

/* A dimension; required unless the family has a default, which *value then is. */
static enum mq_status dim(const struct mq_json_at *at, const char *key, double min, uint32_t *value, struct mq_err *err)
{
	const struct mq_json_range range = { min, MAX, true, true }, optional = { min, MAX, true, false };
	double x;

	x = *value;
	MQ_TRY(mq_json_number(at, key, *value ? &optional : &range, &x, err));
	*value = (uint32_t)x;
	return MQ_OK;
}

/* Whether one of the dropout rates is above zero; `absent` stands for a key that is not there. */
static enum mq_status dropout(const struct mq_json_at *at, const char *const *keys, double absent, bool *value,
			      struct mq_err *err)
{
	const struct mq_json_range range = { .max = 1 };

	for (; *keys; keys++) {
		double rate = absent;

		MQ_TRY(mq_json_number(at, *keys, &range, &rate, err));
		*value = *value || rate > 0;
	}
	return MQ_OK;
}

static enum mq_status read_gpt2(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				struct mq_err *err)
{
	static const char *const rates[] = { "resid_pdrop", "embd_pdrop", "attn_pdrop", NULL };

	t->tied = t->biases = t->causal = true;
	MQ_TRY(dim(at, "n_embd", 1, &t->hidden, err));
	MQ_TRY(dim(at, "n_layer", 1, &t->layers, err));
	MQ_TRY(dim(at, "n_head", 1, &t->heads, err));
	MQ_TRY(dim(at, "vocab_size", 1, &t->vocab, err));
	MQ_TRY(dim(at, "n_positions", 1, positions, err));
	MQ_TRY(mq_json_u32(at, "n_inner", 1, MAX, &t->ffn, err));
	MQ_TRY(mq_json_bool(at, "tie_word_embeddings", &t->tied, err));
	t->positions = *positions;
	return dropout(at, rates, .1, &t->dropout, err);
}

static enum mq_status read_common(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				  struct mq_err *err)
{
	MQ_TRY(dim(at, "hidden_size", 1, &t->hidden, err));
	MQ_TRY(dim(at, "num_hidden_layers", 1, &t->layers, err));
	MQ_TRY(dim(at, "num_attention_heads", 1, &t->heads, err));
	MQ_TRY(dim(at, "intermediate_size", 1, &t->ffn, err));
	MQ_TRY(dim(at, "vocab_size", 1, &t->vocab, err));
	return mq_json_u32(at, "max_position_embeddings", 1, MAX, positions, err);
}

static enum mq_status read_bert(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				struct mq_err *err)
{
	static const char *const rates[] = { "hidden_dropout_prob", "attention_probs_dropout_prob", NULL };

	t->biases = t->tied = t->post_norm = t->pretrain_heads = true;
	t->token_types = 2;
	*positions = 512;
	MQ_TRY(read_common(at, t, positions, err));
	MQ_TRY(mq_json_u32(at, "type_vocab_size", 0, MAX, &t->token_types, err));
	t->positions = *positions;
	return dropout(at, rates, .1, &t->dropout, err);
}

/* YaRN scales by .1 ln(factor) + 1, unless `mscale` and `mscale_all_dim` cancel (DeepSeek). */
static void read_yarn(const json_t *scaling, struct mq_transformer *t)
{
	const char *new = json_string_value(json_object_get(scaling, "rope_type"));
	const char *type = new ? new : json_string_value(json_object_get(scaling, "type"));
	const json_t *here = json_object_get(scaling, "mscale"), *all = json_object_get(scaling, "mscale_all_dim");

	if (type)
		t->yarn = !strcmp(type, "yarn") && !(here && all && json_equal(here, all));
}

/* What the costs do not ask for, and the part of a head that is turned. */
static enum mq_status read_rope(const struct mq_json_at *at, struct mq_transformer *t, struct mq_err *err)
{
	const struct mq_json_range some = { .max = 1e12 }, part = { .max = 1 };
	struct mq_json_at inner = { at->path, "rope_parameters", json_object_get(at->object, "rope_parameters") };

	for (const struct mq_json_at *from = at; from;
	     from = from == at && json_is_object(inner.object) ? &inner : NULL) {
		MQ_TRY(mq_json_number(from, "rope_theta", &some, &t->rope_theta, err));
		MQ_TRY(mq_json_number(from, "partial_rotary_factor", &part, &t->rope_part, err));
	}
	read_yarn(inner.object, t);
	read_yarn(json_object_get(at->object, "rope_scaling"), t);
	MQ_TRY(mq_json_number(at, "rms_norm_eps", &part, &t->norm_eps, err));
	return mq_json_number(at, "layer_norm_eps", &part, &t->norm_eps, err);
}

static enum mq_status read_llama(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				 struct mq_err *err)
{
	static const char *const rates[] = { "attention_dropout", NULL };
	bool bias = false;

	t->gated = t->rms = t->rotary = t->causal = true;
	*positions = 2048;
	MQ_TRY(read_common(at, t, positions, err));
	MQ_TRY(read_rope(at, t, err));
	MQ_TRY(mq_json_u32(at, "num_key_value_heads", 1, MAX, &t->kv_heads, err));
	MQ_TRY(mq_json_u32(at, "head_dim", 1, MAX, &t->head_dim, err));
	MQ_TRY(mq_json_bool(at, "tie_word_embeddings", &t->tied, err));
	MQ_TRY(mq_json_bool(at, "mlp_bias", &bias, err));
	if (bias)
		return mq_fail(err, MQ_EINPUT, "%s: \"mlp_bias\" is true; only products without bias are read",
			       at->path);
	MQ_TRY(mq_json_bool(at, "attention_bias", &t->qkv_bias, err));
	t->proj_bias = t->qkv_bias;
	return dropout(at, rates, 0, &t->dropout, err);
}

/* Mistral and Phi-3: all layers look through one window, where there is one. */
static enum mq_status read_windowed(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				    struct mq_err *err)
{
	MQ_TRY(read_llama(at, t, positions, err));
	return mq_json_u32(at, "sliding_window", 1, MAX, &t->window, err);
}

/* The gate is a GELU, a norm stands before and behind each part. */
static enum mq_status read_gemma2(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				  struct mq_err *err)
{
	t->gelu = t->tied = t->output_norms = t->softcap = true;
	t->layers = 26, t->hidden = 2304, t->heads = 8, t->kv_heads = 4, t->head_dim = 256, t->ffn = 9216;
	t->vocab = t->vocab ? t->vocab : 256000; /* Gemma 3 has another */
	t->window = 4096, t->full_every = 2;
	MQ_TRY(read_llama(at, t, positions, err));
	*positions = 8192;
	MQ_TRY(mq_json_u32(at, "max_position_embeddings", 1, MAX, positions, err));
	return mq_json_u32(at, "sliding_window", 1, MAX, &t->window, err);
}

static enum mq_status read_gemma3(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				  struct mq_err *err)
{
	uint32_t every = 6;

	t->vocab = 262208;
	MQ_TRY(read_gemma2(at, t, positions, err));
	MQ_TRY(mq_json_u32(at, "sliding_window_pattern", 1, MAX, &every, err));
	t->full_every = every;
	t->softcap = false;
	return MQ_OK;
}

static enum mq_status read_gemma(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				 struct mq_err *err)
{
	t->gelu = t->tied = true;
	return read_llama(at, t, positions, err);
}

static enum mq_status read_olmo2(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				 struct mq_err *err)
{
	t->output_norms = t->no_input_norms = true;
	return read_llama(at, t, positions, err);
}

static enum mq_status read_gpt_neox(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				    struct mq_err *err)
{
	static const char *const rates[] = { "hidden_dropout", "attention_dropout", NULL };
	const struct mq_json_range part = { .max = 1 };

	t->biases = t->rotary = t->causal = t->parallel = true;
	t->rope_part = .25;
	*positions = 2048;
	MQ_TRY(read_common(at, t, positions, err));
	MQ_TRY(read_rope(at, t, err));
	MQ_TRY(mq_json_number(at, "rotary_pct", &part, &t->rope_part, err));
	MQ_TRY(mq_json_bool(at, "use_parallel_residual", &t->parallel, err));
	MQ_TRY(mq_json_bool(at, "tie_word_embeddings", &t->tied, err));
	return dropout(at, rates, 0, &t->dropout, err);
}

static enum mq_status read_opt(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
			       struct mq_err *err)
{
	static const char *const rates[] = { "dropout", NULL };
	bool before = true;
	uint32_t narrow;

	t->biases = t->causal = t->tied = t->relu = true;
	*positions = 2048;
	t->vocab = 50272;
	MQ_TRY(dim(at, "ffn_dim", 1, &t->ffn, err));
	MQ_TRY(read_common(at, t, positions, err));
	narrow = t->hidden;
	MQ_TRY(mq_json_u32(at, "word_embed_proj_dim", 1, MAX, &narrow, err));
	MQ_TRY(mq_json_bool(at, "do_layer_norm_before", &before, err));
	if (!before || narrow != t->hidden)
		return mq_fail(
			err, MQ_EINPUT,
			"%s: \"do_layer_norm_before\" false or another "
			"\"word_embed_proj_dim\" than %u: of OPT only stacks with norms before each part are read",
			at->path, t->hidden);
	MQ_TRY(mq_json_bool(at, "tie_word_embeddings", &t->tied, err));
	t->positions = *positions + 2; /* two rows are never looked up */
	return dropout(at, rates, .1, &t->dropout, err);
}

static enum mq_status read_mixtral(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				   struct mq_err *err)
{
	t->experts = 8;
	t->top_k = 2;
	MQ_TRY(read_llama(at, t, positions, err));
	MQ_TRY(mq_json_u32(at, "num_local_experts", 1, 1e5, &t->experts, err));
	return mq_json_u32(at, "num_experts_per_tok", 1, 1e5, &t->top_k, err);
}

static enum mq_status read_qwen_moe(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				    struct mq_err *err)
{
	uint32_t step = 1;

	MQ_TRY(read_llama(at, t, positions, err));
	t->dense_ffn = t->ffn;
	MQ_TRY(dim(at, "num_experts", 1, &t->experts, err));
	MQ_TRY(dim(at, "num_experts_per_tok", 1, &t->top_k, err));
	t->ffn = 0;
	MQ_TRY(dim(at, "moe_intermediate_size", 1, &t->ffn, err));
	MQ_TRY(mq_json_u32(at, "shared_expert_intermediate_size", 0, MAX, &t->shared_ffn, err));
	MQ_TRY(mq_json_u32(at, "decoder_sparse_step", 1, MAX, &step, err));
	if (json_array_size(json_object_get(at->object, "mlp_only_layers")))
		return mq_fail(err, MQ_EINPUT,
			       "%s: \"mlp_only_layers\" names layers without experts; only those that "
			       "\"decoder_sparse_step\" leaves out are read",
			       at->path);
	t->moe_every = step > 1 ? step : 0;
	return MQ_OK;
}

/* Experts as DeepSeek names them: first layers without, and some that every token visits. */
static enum mq_status read_routed(const struct mq_json_at *at, struct mq_transformer *t, struct mq_err *err)
{
	uint32_t step = 1, shared = 0;

	t->dense_ffn = t->ffn;
	MQ_TRY(dim(at, "n_routed_experts", 1, &t->experts, err));
	MQ_TRY(dim(at, "num_experts_per_tok", 1, &t->top_k, err));
	t->ffn = 0;
	MQ_TRY(dim(at, "moe_intermediate_size", 1, &t->ffn, err));
	MQ_TRY(mq_json_u32(at, "n_shared_experts", 0, 1000, &shared, err));
	MQ_TRY(mq_json_u32(at, "first_k_dense_replace", 0, MAX, &t->dense_layers, err));
	MQ_TRY(mq_json_u32(at, "moe_layer_freq", 1, MAX, &step, err));
	MQ_TRY(mq_json_u32(at, "n_group", 1, 1e5, &t->expert_groups, err));
	MQ_TRY(mq_json_u32(at, "topk_group", 1, 1e5, &t->group_limit, err));
	if (t->expert_groups <= 1 || t->group_limit >= t->expert_groups)
		t->expert_groups = t->group_limit = 0;
	if (step != 1)
		return mq_fail(err, MQ_EINPUT, "%s: \"moe_layer_freq\" is %u; only experts in every layer are read",
			       at->path, step);
	if ((double)shared * t->ffn > MAX)
		return mq_fail(err, MQ_EINPUT, "%s: \"n_shared_experts\" is %u; give fewer", at->path, shared);
	t->shared_ffn = shared * t->ffn;
	return MQ_OK;
}

/* DeepSeek-V2 and V3: latent attention. */
static enum mq_status read_deepseek(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				    struct mq_err *err)
{
	MQ_TRY(read_llama(at, t, positions, err));
	t->kv_heads = t->heads;
	MQ_TRY(mq_json_u32(at, "q_lora_rank", 1, MAX, &t->q_rank, err)); /* null in the Lite model */
	MQ_TRY(dim(at, "kv_lora_rank", 1, &t->kv_rank, err));
	MQ_TRY(dim(at, "qk_nope_head_dim", 1, &t->nope_dim, err));
	MQ_TRY(dim(at, "qk_rope_head_dim", 1, &t->rope_dim, err));
	MQ_TRY(dim(at, "v_head_dim", 1, &t->value_dim, err));
	return read_routed(at, t, err);
}

static enum mq_status read_deepseek_v3(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				       struct mq_err *err)
{
	t->sigmoid_router = true;
	return read_deepseek(at, t, positions, err);
}

static enum mq_status read_glm4_moe(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				    struct mq_err *err)
{
	t->sigmoid_router = true;
	t->rope_part = .5;
	MQ_TRY(read_llama(at, t, positions, err));
	t->proj_bias = false; /* attention_bias is that of Q, K and V */
	MQ_TRY(mq_json_bool(at, "use_qk_norm", &t->qk_norm, err));
	return read_routed(at, t, err);
}

/* GPT-OSS: biases, clamped gates, every second layer looks through a window. */
static enum mq_status read_gpt_oss(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				   struct mq_err *err)
{
	t->layers = 36, t->hidden = t->ffn = 2880, t->heads = 64, t->kv_heads = 8, t->head_dim = 64;
	t->vocab = 201088, t->experts = 128, t->top_k = 4, t->window = 128, t->full_every = 2;
	t->yarn = true;
	MQ_TRY(read_llama(at, t, positions, err));
	t->biases = t->clamp = true;
	MQ_TRY(mq_json_u32(at, "num_local_experts", 1, 1e5, &t->experts, err));
	MQ_TRY(mq_json_u32(at, "experts_per_token", 1, 1e5, &t->top_k, err));
	MQ_TRY(mq_json_u32(at, "num_experts_per_tok", 1, 1e5, &t->top_k, err));
	return mq_json_u32(at, "sliding_window", 1, MAX, &t->window, err);
}

/* Llama 4: one expert that every token visits beside the routed ones; Maverick's every second layer has any. */
static enum mq_status read_llama4(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				  struct mq_err *err)
{
	uint32_t step = 1;

	t->layers = 48, t->hidden = 5120, t->heads = 40, t->kv_heads = 8, t->head_dim = 128, t->ffn = 8192;
	t->vocab = 202048, t->experts = 16, t->top_k = 1, t->dense_ffn = 16384;
	MQ_TRY(read_llama(at, t, positions, err));
	MQ_TRY(mq_json_u32(at, "num_local_experts", 1, 1e5, &t->experts, err));
	MQ_TRY(mq_json_u32(at, "num_experts_per_tok", 1, 1e5, &t->top_k, err));
	MQ_TRY(mq_json_u32(at, "intermediate_size_mlp", 1, MAX, &t->dense_ffn, err));
	MQ_TRY(mq_json_u32(at, "interleave_moe_layer_step", 1, MAX, &step, err));
	t->moe_every = step > 1 ? step : 0;
	t->shared_ffn = t->ffn;
	t->sigmoid_router = true;
	return MQ_OK;
}

/* Mamba-2: nothing but state-space layers. */
static enum mq_status read_mamba2(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				  struct mq_err *err)
{
	struct mq_mamba *m = &t->mamba;

	t->rms = t->causal = true;
	*positions = 8192;
	t->hidden = 4096, t->layers = 64, t->vocab = 32768, t->heads = 1;
	*m = (struct mq_mamba){ .heads = 128, .head_dim = 64, .groups = 8, .state = 128, .kernel = 4, .chunk = 256 };
	MQ_TRY(dim(at, "hidden_size", 1, &t->hidden, err));
	MQ_TRY(dim(at, "num_hidden_layers", 1, &t->layers, err));
	MQ_TRY(dim(at, "vocab_size", 1, &t->vocab, err));
	MQ_TRY(mq_json_bool(at, "tie_word_embeddings", &t->tied, err));
	MQ_TRY(mq_json_u32(at, "num_heads", 1, MAX, &m->heads, err));
	MQ_TRY(mq_json_u32(at, "head_dim", 1, MAX, &m->head_dim, err));
	MQ_TRY(mq_json_u32(at, "n_groups", 1, MAX, &m->groups, err));
	MQ_TRY(mq_json_u32(at, "state_size", 1, MAX, &m->state, err));
	MQ_TRY(mq_json_u32(at, "conv_kernel", 1, 1000, &m->kernel, err));
	MQ_TRY(mq_json_u32(at, "chunk_size", 1, 1e5, &m->chunk, err));
	t->pattern = "M"; /* of every layer */
	return MQ_OK;
}

/* The first Qwen names its dimensions in its own way; intermediate_size counts both matrices going
 * up. */
static enum mq_status read_qwen1(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				 struct mq_err *err)
{
	t->gated = t->rms = t->rotary = t->causal = true;
	*positions = 8192;
	MQ_TRY(read_common(at, t, positions, err));
	MQ_TRY(mq_json_u32(at, "kv_channels", 1, MAX, &t->head_dim, err));
	MQ_TRY(mq_json_bool(at, "tie_word_embeddings", &t->tied, err));
	t->ffn /= 2;
	return MQ_OK;
}

/* Nemotron-H and Nemotron 3: a letter per layer, squared ReLU, attention without positions. */
static enum mq_status read_nemotron_h(const struct mq_json_at *at, struct mq_transformer *t, uint32_t *positions,
				      struct mq_err *err)
{
	struct mq_mamba *m = &t->mamba;
	uint32_t experts = 0;

	t->rms = t->relu = t->squared = t->causal = t->mtp_shared = true;
	*positions = 4096;
	*m = (struct mq_mamba){ .heads = 128, .head_dim = 64, .groups = 8, .state = 128, .kernel = 4, .chunk = 128 };
	MQ_TRY(read_common(at, t, positions, err));
	MQ_TRY(read_rope(at, t, err));
	MQ_TRY(mq_json_text(at, "hybrid_override_pattern", &t->pattern, err));
	if (!t->pattern)
		return mq_fail(err, MQ_EINPUT, "%s: \"hybrid_override_pattern\" is missing", at->path);
	MQ_TRY(mq_json_u32(at, "num_key_value_heads", 1, MAX, &t->kv_heads, err));
	MQ_TRY(mq_json_u32(at, "head_dim", 1, MAX, &t->head_dim, err));
	MQ_TRY(mq_json_bool(at, "tie_word_embeddings", &t->tied, err));
	MQ_TRY(mq_json_u32(at, "mamba_num_heads", 1, MAX, &m->heads, err));
	MQ_TRY(mq_json_u32(at, "mamba_head_dim", 1, MAX, &m->head_dim, err));
	MQ_TRY(mq_json_u32(at, "n_groups", 1, MAX, &m->groups, err));
	MQ_TRY(mq_json_u32(at, "ssm_state_size", 1, MAX, &m->state, err));
	MQ_TRY(mq_json_u32(at, "conv_kernel", 1, 1000, &m->kernel, err));
	MQ_TRY(mq_json_u32(at, "chunk_size", 1, 1e5, &m->chunk, err));
	MQ_TRY(mq_json_u32(at, "n_routed_experts", 1, 1e5, &experts, err));
	if (!strchr(t->pattern, 'E'))
		return MQ_OK;
	t->experts = experts;
	MQ_TRY(dim(at, "num_experts_per_tok", 1, &t->top_k, err));
	t->ffn = 0;
	MQ_TRY(dim(at, "moe_intermediate_size", 1, &t->ffn, err));
	MQ_TRY(mq_json_u32(at, "moe_shared_expert_intermediate_size", 0, MAX, &t->shared_ffn, err));
	MQ_TRY(mq_json_u32(at, "moe_latent_size", 1, MAX, &t->latent, err)); /* null in Nano */
	return mq_json_u32(at, "num_nextn_predict_layers", 0, 100, &t->mtp, err);
}

const struct mq_hf_family mq_hf_families[] = {
	{ "gpt2", "GPT2", read_gpt2, false, false },
	{ "llama", "Llama", read_llama, false, false },
	{ "mistral", "Mistral", read_windowed, false, false },
	{ "mixtral", "Mixtral", read_mixtral, false, false },
	{ "qwen", "QWen", read_qwen1, true, false },
	{ "qwen2", "Qwen2For", read_llama, true, false },
	{ "qwen3", "Qwen3For", read_llama, false, true },
	{ "qwen2_moe", "Qwen2Moe", read_qwen_moe, true, false },
	{ "qwen3_moe", "Qwen3Moe", read_qwen_moe, false, true },
	{ "deepseek_v2", "DeepseekV2", read_deepseek, false, false },
	{ "deepseek_v3", "DeepseekV3", read_deepseek_v3, false, false },
	{ "nemotron_h", "NemotronH", read_nemotron_h, false, false },
	{ "bert", "Bert", read_bert, false, false },
	{ "gemma", "GemmaFor", read_gemma, false, false },
	{ "gemma2", "Gemma2", read_gemma2, false, false },
	{ "gemma3_text", "Gemma3For", read_gemma3, false, true },
	{ "phi3", "Phi3", read_windowed, false, false },
	{ "phi4", "Phi4", read_windowed, false, false },
	{ "gpt_oss", "GptOss", read_gpt_oss, false, false },
	{ "llama4_text", "Llama4", read_llama4, false, false },
	{ "olmo2", "Olmo2", read_olmo2, false, true },
	{ "glm4_moe", "Glm4Moe", read_glm4_moe, false, false },
	{ "mamba2", "Mamba2", read_mamba2, false, false },
	{ "gpt_neox", "GPTNeoX", read_gpt_neox, false, false },
	{ "opt", "OPT", read_opt, false, false },
	{ NULL, NULL, NULL, false, false },
};

static bool has_llama_keys(const json_t *object)
{
	static const char *const keys[] = { "hidden_size",         "num_hidden_layers", "num_attention_heads",
					    "num_key_value_heads", "intermediate_size", "vocab_size",
					    "rms_norm_eps" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (!json_is_number(json_object_get(object, keys[i])))
			return false;
	return true;
}

const struct mq_hf_family *mq_hf_family_of(const struct mq_json_at *at, const char *type, bool *guessed)
{
	const char *architecture = json_string_value(json_array_get(json_object_get(at->object, "architectures"), 0));
	const struct mq_hf_family *f = mq_hf_families;

	for (; f->model_type; f++)
		if (type ? !strcmp(type, f->model_type) :
			   architecture && !strncmp(architecture, f->architecture, strlen(f->architecture)))
			return f;
	*guessed = has_llama_keys(at->object);
	return *guessed ? &mq_hf_families[1] : NULL;
}
