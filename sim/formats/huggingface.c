/*
 * huggingface.c - transformers described by a Hugging Face config.json: GPT-2, Llama, Mistral,
 * Mixtral, Qwen (1 to 3, dense and mixture of experts), DeepSeek (V2, V3), Nemotron-H and BERT families.
 * Defaults of absent keys are those of the transformers library.
 *
 * max_position_embeddings of newer models is far beyond what they are trained with: without --seq a
 * sequence has 4096 tokens, or max_position_embeddings where that is less.
 *
 * Not modelled: sliding windows (attention sees all keys), the one-column gate of Qwen-MoE's shared
 * expert, DeepSeek's multi-token prediction, layers that alternate between dense and sparse
 * (refused).
 */
#include <string.h>

#include "core/opt.h"
#include "formats/common_json.h"
#include "formats/common_transformer.h"

enum { DEFAULT_SEQ = 4096 };

struct options {
	bool fused_attention;
};

static const struct mq_opt opts[] = {
	MQ_BOOL(struct options, fused_attention, 1,
		"attention that never stores its scores (flash)"),
	MQ_END
};

struct family {
	const char *model_type;
	const char *architecture; /* prefix of architectures[0], for files without model_type */
	enum mq_status (*read)(const struct mq_json_at *at, struct mq_transformer *t,
			       uint32_t *positions, struct mq_err *err);
	bool qkv_bias, qk_norm;
};

static const double MAX = 1e8;

static enum mq_status dim(const struct mq_json_at *at, const char *key, double min, uint32_t *value,
			  struct mq_err *err)
{
	const struct mq_json_range range = { min, MAX, true, true };
	double x = 0;

	MQ_TRY(mq_json_number(at, key, &range, &x, err));
	*value = (uint32_t)x;
	return MQ_OK;
}

/* Whether one of the dropout rates is above zero; `absent` stands for a key that is not there. */
static enum mq_status dropout(const struct mq_json_at *at, const char *const *keys, double absent,
			      bool *value, struct mq_err *err)
{
	const struct mq_json_range range = { .max = 1 };

	for (; *keys; keys++) {
		double rate = absent;

		MQ_TRY(mq_json_number(at, *keys, &range, &rate, err));
		*value = *value || rate > 0;
	}
	return MQ_OK;
}

static enum mq_status read_gpt2(const struct mq_json_at *at, struct mq_transformer *t,
				uint32_t *positions, struct mq_err *err)
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

static enum mq_status read_common(const struct mq_json_at *at, struct mq_transformer *t,
				  uint32_t *positions, struct mq_err *err)
{
	MQ_TRY(dim(at, "hidden_size", 1, &t->hidden, err));
	MQ_TRY(dim(at, "num_hidden_layers", 1, &t->layers, err));
	MQ_TRY(dim(at, "num_attention_heads", 1, &t->heads, err));
	MQ_TRY(dim(at, "intermediate_size", 1, &t->ffn, err));
	MQ_TRY(dim(at, "vocab_size", 1, &t->vocab, err));
	return mq_json_u32(at, "max_position_embeddings", 1, MAX, positions, err);
}

static enum mq_status read_bert(const struct mq_json_at *at, struct mq_transformer *t,
				uint32_t *positions, struct mq_err *err)
{
	static const char *const rates[] = { "hidden_dropout_prob", "attention_probs_dropout_prob",
					     NULL };

	t->biases = t->tied = t->post_norm = t->pretrain_heads = true;
	t->token_types = 2;
	*positions = 512;
	MQ_TRY(read_common(at, t, positions, err));
	MQ_TRY(mq_json_u32(at, "type_vocab_size", 0, MAX, &t->token_types, err));
	t->positions = *positions;
	return dropout(at, rates, .1, &t->dropout, err);
}

static enum mq_status read_llama(const struct mq_json_at *at, struct mq_transformer *t,
				 uint32_t *positions, struct mq_err *err)
{
	static const char *const rates[] = { "attention_dropout", NULL };
	bool bias = false;

	t->gated = t->rms = t->rotary = t->causal = true;
	*positions = 2048;
	MQ_TRY(read_common(at, t, positions, err));
	MQ_TRY(mq_json_u32(at, "num_key_value_heads", 1, MAX, &t->kv_heads, err));
	MQ_TRY(mq_json_u32(at, "head_dim", 1, MAX, &t->head_dim, err));
	MQ_TRY(mq_json_bool(at, "tie_word_embeddings", &t->tied, err));
	MQ_TRY(mq_json_bool(at, "mlp_bias", &bias, err));
	if (bias)
		return mq_fail(err, MQ_EINPUT,
			       "%s: \"mlp_bias\" is true; only products without bias are read",
			       at->path);
	MQ_TRY(mq_json_bool(at, "attention_bias", &t->qkv_bias, err));
	t->proj_bias = t->qkv_bias;
	return dropout(at, rates, 0, &t->dropout, err);
}

static enum mq_status read_mixtral(const struct mq_json_at *at, struct mq_transformer *t,
				   uint32_t *positions, struct mq_err *err)
{
	t->experts = 8;
	t->top_k = 2;
	MQ_TRY(read_llama(at, t, positions, err));
	MQ_TRY(mq_json_u32(at, "num_local_experts", 1, 1e5, &t->experts, err));
	return mq_json_u32(at, "num_experts_per_tok", 1, 1e5, &t->top_k, err);
}

static enum mq_status read_qwen_moe(const struct mq_json_at *at, struct mq_transformer *t,
				    uint32_t *positions, struct mq_err *err)
{
	uint32_t step = 1;

	MQ_TRY(read_llama(at, t, positions, err));
	MQ_TRY(dim(at, "num_experts", 1, &t->experts, err));
	MQ_TRY(dim(at, "num_experts_per_tok", 1, &t->top_k, err));
	MQ_TRY(dim(at, "moe_intermediate_size", 1, &t->ffn, err));
	MQ_TRY(mq_json_u32(at, "shared_expert_intermediate_size", 0, MAX, &t->shared_ffn, err));
	MQ_TRY(mq_json_u32(at, "decoder_sparse_step", 1, MAX, &step, err));
	if (step != 1 || json_array_size(json_object_get(at->object, "mlp_only_layers")))
		return mq_fail(
			err, MQ_EINPUT,
			"%s: \"decoder_sparse_step\" or \"mlp_only_layers\" makes dense and sparse "
			"layers alternate; only models with experts in every layer are read",
			at->path);
	return MQ_OK;
}

/* DeepSeek-V2 and V3: latent attention, first layers dense, experts that every token visits. */
static enum mq_status read_deepseek(const struct mq_json_at *at, struct mq_transformer *t,
				    uint32_t *positions, struct mq_err *err)
{
	uint32_t step = 1, shared = 0;

	MQ_TRY(read_llama(at, t, positions, err));
	t->kv_heads = t->heads;
	t->dense_ffn = t->ffn;
	MQ_TRY(mq_json_u32(at, "q_lora_rank", 1, MAX, &t->q_rank,
			   err)); /* null in the Lite model */
	MQ_TRY(dim(at, "kv_lora_rank", 1, &t->kv_rank, err));
	MQ_TRY(dim(at, "qk_nope_head_dim", 1, &t->nope_dim, err));
	MQ_TRY(dim(at, "qk_rope_head_dim", 1, &t->rope_dim, err));
	MQ_TRY(dim(at, "v_head_dim", 1, &t->value_dim, err));
	MQ_TRY(dim(at, "n_routed_experts", 1, &t->experts, err));
	MQ_TRY(dim(at, "num_experts_per_tok", 1, &t->top_k, err));
	MQ_TRY(dim(at, "moe_intermediate_size", 1, &t->ffn, err));
	MQ_TRY(mq_json_u32(at, "n_shared_experts", 0, 1000, &shared, err));
	MQ_TRY(mq_json_u32(at, "first_k_dense_replace", 0, MAX, &t->dense_layers, err));
	MQ_TRY(mq_json_u32(at, "moe_layer_freq", 1, MAX, &step, err));
	if (step != 1)
		return mq_fail(err, MQ_EINPUT,
			       "%s: \"moe_layer_freq\" is %u; only experts in every layer are read",
			       at->path, step);
	if ((double)shared * t->ffn > MAX)
		return mq_fail(err, MQ_EINPUT, "%s: \"n_shared_experts\" is %u; give fewer",
			       at->path, shared);
	t->shared_ffn = shared * t->ffn;
	return MQ_OK;
}

/* The first Qwen names its dimensions in its own way; intermediate_size counts both matrices going
 * up. */
static enum mq_status read_qwen1(const struct mq_json_at *at, struct mq_transformer *t,
				 uint32_t *positions, struct mq_err *err)
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
static enum mq_status read_nemotron_h(const struct mq_json_at *at, struct mq_transformer *t,
				      uint32_t *positions, struct mq_err *err)
{
	struct mq_mamba *m = &t->mamba;
	uint32_t experts = 0;

	t->rms = t->relu = t->causal = t->mtp_shared = true;
	*positions = 4096;
	*m = (struct mq_mamba){ .heads = 128, .head_dim = 64, .groups = 8, .state = 128, .kernel = 4,
				.chunk = 128 };
	MQ_TRY(read_common(at, t, positions, err));
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
	MQ_TRY(dim(at, "moe_intermediate_size", 1, &t->ffn, err));
	MQ_TRY(mq_json_u32(at, "moe_shared_expert_intermediate_size", 0, MAX, &t->shared_ffn, err));
	MQ_TRY(mq_json_u32(at, "moe_latent_size", 1, MAX, &t->latent, err)); /* null in Nano */
	return mq_json_u32(at, "num_nextn_predict_layers", 0, 100, &t->mtp, err);
}

static const struct family families[] = {
	{ "gpt2", "GPT2", read_gpt2, false, false },
	{ "llama", "Llama", read_llama, false, false },
	{ "mistral", "Mistral", read_llama, false, false },
	{ "mixtral", "Mixtral", read_mixtral, false, false },
	{ "qwen", "QWen", read_qwen1, true, false },
	{ "qwen2", "Qwen2For", read_llama, true, false },
	{ "qwen3", "Qwen3For", read_llama, false, true },
	{ "qwen2_moe", "Qwen2Moe", read_qwen_moe, true, false },
	{ "qwen3_moe", "Qwen3Moe", read_qwen_moe, false, true },
	{ "deepseek_v2", "DeepseekV2", read_deepseek, false, false },
	{ "deepseek_v3", "DeepseekV3", read_deepseek, false, false },
	{ "nemotron_h", "NemotronH", read_nemotron_h, false, false },
	{ "bert", "Bert", read_bert, false, false },
};

static enum mq_status find_family(const struct mq_json_at *at, const struct family **found,
				  struct mq_err *err)
{
	const char *type, *architecture;

	MQ_TRY(mq_json_text(at, "model_type", &type, err));
	architecture =
		json_string_value(json_array_get(json_object_get(at->object, "architectures"), 0));
	for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++) {
		const struct family *f = &families[i];

		if (type ? !strcmp(type, f->model_type) :
			   architecture && !strncmp(architecture, f->architecture,
						    strlen(f->architecture))) {
			*found = f;
			return MQ_OK;
		}
	}
	if (!type)
		type = architecture ? architecture : "missing";
	return mq_fail(
		err, MQ_EINPUT,
		"%s: \"model_type\" is %.60s; the families read are gpt2 llama mistral mixtral "
		"qwen qwen2 qwen3 qwen2_moe qwen3_moe deepseek_v2 deepseek_v3 nemotron_h bert",
		at->path, type);
}

static enum mq_status read_config(const struct mq_json_at *at, struct mq_transformer *t,
				  struct mq_err *err)
{
	const struct family *family = NULL;
	uint32_t positions = 0;

	MQ_TRY(find_family(at, &family, err));
	MQ_TRY(family->read(at, t, &positions, err));
	t->qkv_bias = t->qkv_bias || family->qkv_bias;
	t->qk_norm = family->qk_norm;
	t->seq = positions < DEFAULT_SEQ ? positions : DEFAULT_SEQ;
	return MQ_OK;
}

static enum mq_status load(const char *path, const struct mq_model_request *request,
			   struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	struct mq_transformer t = { .name = mq_file_stem(path, arena) };
	struct options o;
	json_t *json;

	mq_opt_defaults(opts, &o);
	MQ_TRY(mq_opt_parse(opts, &o, path, mq_file_options(path, request), arena, err));
	t.fused = o.fused_attention;
	MQ_TRY(mq_json_load(path, arena, &json, err));
	const struct mq_json_at at = { .path = path, .place = "", .object = json };
	enum mq_status status = read_config(&at, &t, err);
	const char *name = json_string_value(json_object_get(json, "model_type"));
	if (name)
		t.name = mq_arena_strdup(arena, name);
	if (status == MQ_OK)
		status = mq_transformer_build(&t, path, request, arena, model, err);
	json_decref(json);
	return status;
}

static bool probe(const char *path, const char *head, size_t size)
{
	static const char *const keys[] = { "\"model_type\"", "\"architectures\"",
					    "\"hidden_size\"", "\"n_embd\"" };
	const char *slash = strrchr(path, '/');

	if (*head != '{')
		return false;
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (strstr(head, keys[i]))
			return true;
	return !strcmp(slash ? slash + 1 : path, "config.json");
}

const struct mq_format mq_format_huggingface = {
	.name = "huggingface",
	.summary = "Hugging Face config.json (FILE[:fused_attention=false])",
	.opts = opts,
	.probe = probe,
	.load = load,
};
