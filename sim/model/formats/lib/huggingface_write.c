/* huggingface_write.c - a stack of blocks as a config.json. What was written is read back: a part of the model for
 * which its family has no key is named. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/formats/lib/huggingface.h"

static const char *experts_type(const struct mq_transformer *t)
{
	if (t->clamp)
		return "gpt_oss";
	if (t->dense_layers)
		return "glm4_moe";
	if (t->shared_ffn && t->sigmoid_router)
		return "llama4_text";
	if (t->qk_norm)
		return "qwen3_moe";
	return t->qkv_bias || t->shared_ffn || t->moe_every ? "qwen2_moe" : "mixtral";
}

static const char *type_of(const struct mq_transformer *t)
{
	if (t->pattern)
		return strspn(t->pattern, "M") == t->layers ? "mamba2" : "nemotron_h";
	if (t->post_norm)
		return "bert";
	if (t->kv_rank)
		return t->sigmoid_router ? "deepseek_v3" : "deepseek_v2";
	if (t->experts)
		return experts_type(t);
	if (t->output_norms)
		return t->no_input_norms ? "olmo2" : t->qk_norm ? "gemma3_text" : "gemma2";
	if (t->parallel)
		return "gpt_neox";
	if (t->positions)
		return t->relu ? "opt" : "gpt2";
	if (t->gelu)
		return "gemma";
	if (t->qk_norm)
		return "qwen3";
	if (t->window)
		return "mistral";
	return t->qkv_bias && !t->proj_bias ? "qwen2" : "llama";
}

static void put(json_t *o, const char *key, double value)
{
	json_object_set_new(o, key, json_integer((json_int_t)value));
}

static void put_if(json_t *o, const char *key, double value)
{
	if (value > 0)
		put(o, key, value);
}

static void put_flag(json_t *o, const char *key, bool value)
{
	json_object_set_new(o, key, json_boolean(value));
}

static void put_gpt2(const struct mq_transformer *t, json_t *o)
{
	static const char *const rates[] = { "resid_pdrop", "embd_pdrop", "attn_pdrop" };

	put(o, "n_embd", t->hidden);
	put(o, "n_layer", t->layers);
	put(o, "n_head", t->heads);
	put(o, "n_inner", t->ffn);
	put(o, "n_positions", t->positions);
	for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++)
		json_object_set_new(o, rates[i], json_real(t->dropout ? .1 : 0));
}

static void put_experts(const struct mq_transformer *t, const char *type, json_t *o)
{
	bool llama4 = !strcmp(type, "llama4_text"), own = llama4 || t->clamp || !strcmp(type, "mixtral");
	bool routed = t->kv_rank || !strcmp(type, "glm4_moe");

	put(o, "num_experts_per_tok", t->top_k);
	put(o, routed ? "n_routed_experts" : own ? "num_local_experts" : "num_experts", t->experts);
	put(o, "intermediate_size", own ? t->ffn : t->dense_ffn ? t->dense_ffn : t->ffn);
	if (!own)
		put(o, "moe_intermediate_size", t->ffn);
	if (llama4) {
		put(o, "intermediate_size_mlp", t->dense_ffn ? t->dense_ffn : t->ffn);
		put(o, "interleave_moe_layer_step", t->moe_every ? t->moe_every : 1);
	} else if (routed) {
		put(o, "first_k_dense_replace", t->dense_layers);
		put(o, "n_shared_experts", t->shared_ffn / t->ffn);
		put_if(o, "n_group", t->expert_groups);
		put_if(o, "topk_group", t->group_limit);
	} else if (!own) {
		put(o, "shared_expert_intermediate_size", t->shared_ffn);
		put(o, "decoder_sparse_step", t->moe_every ? t->moe_every : 1);
	}
}

static void put_mamba(const struct mq_transformer *t, json_t *o)
{
	const struct mq_mamba *m = &t->mamba;
	bool alone = strspn(t->pattern, "M") == t->layers;

	put(o, alone ? "num_heads" : "mamba_num_heads", m->heads);
	put(o, alone ? "head_dim" : "mamba_head_dim", m->head_dim);
	put(o, alone ? "state_size" : "ssm_state_size", m->state);
	put(o, "n_groups", m->groups);
	put(o, "conv_kernel", m->kernel);
	put(o, "chunk_size", m->chunk);
	if (alone)
		return;
	json_object_set_new(o, "hybrid_override_pattern", json_string(t->pattern));
	if (t->experts) {
		put(o, "n_routed_experts", t->experts);
		put(o, "num_experts_per_tok", t->top_k);
		put(o, "moe_intermediate_size", t->ffn);
		put(o, "moe_shared_expert_intermediate_size", t->shared_ffn);
		put_if(o, "moe_latent_size", t->latent);
		put(o, "num_nextn_predict_layers", t->mtp);
	}
}

static void put_common(const struct mq_transformer *t, const char *type, json_t *o)
{
	bool opt = !strcmp(type, "opt"), neox = !strcmp(type, "gpt_neox"), bert = t->post_norm;

	put(o, "hidden_size", t->hidden);
	put(o, "num_hidden_layers", t->layers);
	put(o, "num_attention_heads", t->heads);
	put(o, "intermediate_size", t->ffn);
	put(o, "max_position_embeddings", opt ? t->positions - 2 : t->positions > t->seq ? t->positions : t->seq);
	if (opt)
		put(o, "ffn_dim", t->ffn);
	if (t->kv_rank) {
		put_if(o, "q_lora_rank", t->q_rank);
		put(o, "kv_lora_rank", t->kv_rank);
		put(o, "qk_nope_head_dim", t->nope_dim);
		put(o, "qk_rope_head_dim", t->rope_dim);
		put(o, "v_head_dim", t->value_dim);
	} else if (!opt && !neox && !bert) {
		put(o, "num_key_value_heads", t->kv_heads);
		put(o, "head_dim", t->head_dim);
	}
	put_if(o, "sliding_window", t->window);
	if (t->window && !strcmp(type, "gemma3_text"))
		put(o, "sliding_window_pattern", t->full_every);
	if (t->rope_theta > 0)
		put(o, "rope_theta", t->rope_theta);
	if (t->yarn)
		json_object_set_new(o, "rope_scaling",
				    json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "yarn", "factor", 32.0,
					      "beta_fast", 32.0, "beta_slow", 1.0, "original_max_position_embeddings",
					      4096));
	else if (t->clamp)
		json_object_set_new(o, "rope_scaling", json_pack("{s:s}", "rope_type", "default"));
	if (t->rope_part > 0)
		json_object_set_new(o, neox ? "rotary_pct" : "partial_rotary_factor", json_real(t->rope_part));
	if (t->norm_eps > 0)
		json_object_set_new(o, t->rms ? "rms_norm_eps" : "layer_norm_eps", json_real(t->norm_eps));
	if (bert)
		put(o, "type_vocab_size", t->token_types);
	else if (!opt && !neox)
		put_flag(o, "attention_bias", t->biases || t->proj_bias || (t->qkv_bias && !strcmp(type, "glm4_moe")));
	json_object_set_new(o,
			    bert ? "hidden_dropout_prob" :
			    opt  ? "dropout" :
				   "attention_dropout",
			    json_real(t->dropout ? .1 : 0));
	if (bert)
		json_object_set_new(o, "attention_probs_dropout_prob", json_real(t->dropout ? .1 : 0));
	if (!strcmp(type, "glm4_moe"))
		put_flag(o, "use_qk_norm", t->qk_norm);
}

static json_t *config_of(const struct mq_transformer *t, const char *type)
{
	json_t *o = json_object();

	json_object_set_new(o, "model_type", json_string(type));
	put(o, "vocab_size", t->vocab);
	put_flag(o, "tie_word_embeddings", t->tied);
	if (!strcmp(type, "gpt2")) {
		put_gpt2(t, o);
		return o;
	}
	put_common(t, type, o);
	if (t->pattern)
		put_mamba(t, o);
	else if (t->experts)
		put_experts(t, type, o);
	return o;
}

static enum mq_status read_back(const json_t *config, const char *type, const struct mq_transformer *t,
				struct mq_transformer *said, struct mq_err *err)
{
	const struct mq_json_at at = { .path = "config.json", .place = "", .object = config };
	const struct mq_hf_family *family;
	uint32_t positions = 0;
	bool guessed = false;

	*said = (struct mq_transformer){ .fused = t->fused, .seq = t->seq };
	family = mq_hf_family_of(&at, type, &guessed);
	mq_assert(family && !guessed);
	MQ_TRY(mq_hf_read(family, &at, said, &positions, err));
	said->seq = t->seq;
	if (said->pattern && !said->pattern[1])
		said->pattern = t->pattern;
	return mq_transformer_check(said, "config.json", err);
}

enum mq_status mq_hf_write(const struct mq_transformer *t, FILE *file, struct mq_err *err)
{
	const char *type = type_of(t), *field;
	json_t *config = config_of(t, type);
	struct mq_transformer said;
	char values[96];

	enum mq_status status = read_back(config, type, t, &said, err);
	field = status == MQ_OK ? mq_transformer_differs(t, &said, values) : NULL;
	if (field)
		status = mq_fail(err, MQ_EINPUT,
				 "no family of Hugging Face's library has all of the model; the nearest is %s: "
				 "its %s (the model's and the family's: %s)",
				 type, field, values);
	if (status == MQ_OK) {
		json_dumpf(config, file, JSON_INDENT(2));
		fputc('\n', file);
	}
	json_decref(config);
	return status;
}
