/* huggingface.c - see huggingface.h. A family is a row: the groups of keys that its configurations have, what it starts
 * from (defaults of absent keys are those of the transformers library), and what is settled behind the keys.
 *
 * Not modelled: chunked attention of Llama 4 (all keys are seen), the one-column gate of Qwen-MoE's shared expert,
 * multi-token prediction of DeepSeek and GLM (not part of their configurations' training), norms of OLMo 2 over whole
 * queries and keys (they are counted by head). SPDX-License-Identifier: Apache-2.0 */
#include "model/formats/lib/huggingface.h"

#include <string.h>

/* A configuration as it is read. */
struct config {
	struct mq_transformer t;
	uint32_t positions, moe_ffn, shared, narrow, step;
	double rate; /* of dropout, where its key is absent */
	bool mlp_bias, attention_bias;
};

/* Groups of keys; GIVEN marks those that must be there where the family has no default. */
enum {
	COMMON = 1 << 0,
	ROPE = 1 << 1,  /* with those of a "rope_parameters" */
	HEADS = 1 << 2, /* of keys and values, and their width */
	TIED = 1 << 3,
	LLAMA = 1 << 4,
	WINDOW = 1 << 5,
	GPT2 = 1 << 6,
	BERT = 1 << 7,
	NEOX = 1 << 8,
	OPT = 1 << 9,
	LOCAL = 1 << 10,  /* experts as Mixtral names them */
	QWEN = 1 << 11,   /* as Qwen does */
	ROUTED = 1 << 12, /* as DeepSeek does */
	LATENT = 1 << 13,
	LLAMA4 = 1 << 14,
	QWEN1 = 1 << 15,
	MAMBA = 1 << 16,
	NEMOTRON = 1 << 17,
	NEMOTRON_MOE = 1 << 18,
	GLM = 1 << 19,
	EPS = 1 << 20,
	GEMMA3 = 1 << 21,
	STACK = LLAMA | COMMON | ROPE | EPS | HEADS | TIED,
	GIVEN = 1 << 30
};

enum type { NUMBER, REAL, FLAG, RATE };

static const double MAX = 1e8;

#define AT(field) offsetof(struct config, field)

static const struct key {
	const char *name;
	int groups;
	enum type type;
	size_t offset;
	double min, max;
} keys[] = {
	{ "n_embd", GPT2 | GIVEN, NUMBER, AT(t.hidden), 1, MAX },
	{ "n_layer", GPT2 | GIVEN, NUMBER, AT(t.layers), 1, MAX },
	{ "n_head", GPT2 | GIVEN, NUMBER, AT(t.heads), 1, MAX },
	{ "n_positions", GPT2 | GIVEN, NUMBER, AT(positions), 1, MAX },
	{ "n_inner", GPT2, NUMBER, AT(t.ffn), 1, MAX },
	{ "ffn_dim", OPT | GIVEN, NUMBER, AT(t.ffn), 1, MAX },
	{ "hidden_size", COMMON | MAMBA | GIVEN, NUMBER, AT(t.hidden), 1, MAX },
	{ "num_hidden_layers", COMMON | MAMBA | GIVEN, NUMBER, AT(t.layers), 1, MAX },
	{ "num_attention_heads", COMMON | GIVEN, NUMBER, AT(t.heads), 1, MAX },
	{ "intermediate_size", COMMON | GIVEN, NUMBER, AT(t.ffn), 1, MAX },
	{ "vocab_size", COMMON | MAMBA | GPT2 | GIVEN, NUMBER, AT(t.vocab), 1, MAX },
	{ "max_position_embeddings", COMMON, NUMBER, AT(positions), 1, MAX },
	{ "rope_theta", ROPE, REAL, AT(t.rope_theta), 0, 1e12 },
	{ "partial_rotary_factor", ROPE, REAL, AT(t.rope_part), 0, 1 },
	{ "rms_norm_eps", EPS, REAL, AT(t.norm_eps), 0, 1 },
	{ "layer_norm_eps", EPS, REAL, AT(t.norm_eps), 0, 1 },
	{ "rotary_pct", NEOX, REAL, AT(t.rope_part), 0, 1 },
	{ "num_key_value_heads", HEADS, NUMBER, AT(t.kv_heads), 1, MAX },
	{ "head_dim", HEADS, NUMBER, AT(t.head_dim), 1, MAX },
	{ "kv_channels", QWEN1, NUMBER, AT(t.head_dim), 1, MAX },
	{ "tie_word_embeddings", TIED, FLAG, AT(t.tied), 0, 0 },
	{ "mlp_bias", LLAMA, FLAG, AT(mlp_bias), 0, 0 },
	{ "attention_bias", LLAMA, FLAG, AT(attention_bias), 0, 0 },
	{ "use_qk_norm", GLM, FLAG, AT(t.qk_norm), 0, 0 },
	{ "use_parallel_residual", NEOX, FLAG, AT(t.parallel), 0, 0 },
	{ "sliding_window", WINDOW, NUMBER, AT(t.window), 1, MAX },
	{ "sliding_window_pattern", GEMMA3, NUMBER, AT(t.full_every), 1, MAX },
	{ "type_vocab_size", BERT, NUMBER, AT(t.token_types), 0, MAX },
	{ "word_embed_proj_dim", OPT, NUMBER, AT(narrow), 1, MAX },
	{ "q_lora_rank", LATENT, NUMBER, AT(t.q_rank), 1, MAX }, /* null in the Lite model */
	{ "kv_lora_rank", LATENT | GIVEN, NUMBER, AT(t.kv_rank), 1, MAX },
	{ "qk_nope_head_dim", LATENT | GIVEN, NUMBER, AT(t.nope_dim), 1, MAX },
	{ "qk_rope_head_dim", LATENT | GIVEN, NUMBER, AT(t.rope_dim), 1, MAX },
	{ "v_head_dim", LATENT | GIVEN, NUMBER, AT(t.value_dim), 1, MAX },
	{ "num_local_experts", LOCAL | LLAMA4, NUMBER, AT(t.experts), 1, 1e5 },
	{ "num_experts", QWEN | GIVEN, NUMBER, AT(t.experts), 1, MAX },
	{ "n_routed_experts", ROUTED | NEMOTRON_MOE | GIVEN, NUMBER, AT(t.experts), 1, MAX },
	{ "experts_per_token", LOCAL, NUMBER, AT(t.top_k), 1, 1e5 },
	{ "num_experts_per_tok", LOCAL | LLAMA4 | QWEN | ROUTED | NEMOTRON_MOE | GIVEN, NUMBER, AT(t.top_k), 1, MAX },
	{ "moe_intermediate_size", QWEN | ROUTED | NEMOTRON_MOE | GIVEN, NUMBER, AT(moe_ffn), 1, MAX },
	{ "shared_expert_intermediate_size", QWEN, NUMBER, AT(t.shared_ffn), 0, MAX },
	{ "moe_shared_expert_intermediate_size", NEMOTRON_MOE, NUMBER, AT(t.shared_ffn), 0, MAX },
	{ "moe_latent_size", NEMOTRON_MOE, NUMBER, AT(t.latent), 1, MAX }, /* null in Nano */
	{ "num_nextn_predict_layers", NEMOTRON_MOE, NUMBER, AT(t.mtp), 0, 100 },
	{ "decoder_sparse_step", QWEN, NUMBER, AT(step), 1, MAX },
	{ "n_shared_experts", ROUTED, NUMBER, AT(shared), 0, 1000 },
	{ "first_k_dense_replace", ROUTED, NUMBER, AT(t.dense_layers), 0, MAX },
	{ "moe_layer_freq", ROUTED, NUMBER, AT(step), 1, MAX },
	{ "n_group", ROUTED, NUMBER, AT(t.expert_groups), 1, 1e5 },
	{ "topk_group", ROUTED, NUMBER, AT(t.group_limit), 1, 1e5 },
	{ "intermediate_size_mlp", LLAMA4, NUMBER, AT(t.dense_ffn), 1, MAX },
	{ "interleave_moe_layer_step", LLAMA4, NUMBER, AT(step), 1, MAX },
	{ "num_heads", MAMBA, NUMBER, AT(t.mamba.heads), 1, MAX },
	{ "head_dim", MAMBA, NUMBER, AT(t.mamba.head_dim), 1, MAX },
	{ "state_size", MAMBA, NUMBER, AT(t.mamba.state), 1, MAX },
	{ "mamba_num_heads", NEMOTRON, NUMBER, AT(t.mamba.heads), 1, MAX },
	{ "mamba_head_dim", NEMOTRON, NUMBER, AT(t.mamba.head_dim), 1, MAX },
	{ "ssm_state_size", NEMOTRON, NUMBER, AT(t.mamba.state), 1, MAX },
	{ "n_groups", MAMBA | NEMOTRON, NUMBER, AT(t.mamba.groups), 1, MAX },
	{ "conv_kernel", MAMBA | NEMOTRON, NUMBER, AT(t.mamba.kernel), 1, 1000 },
	{ "chunk_size", MAMBA | NEMOTRON, NUMBER, AT(t.mamba.chunk), 1, 1e5 },
	{ "resid_pdrop", GPT2, RATE, 0, 0, 1 },
	{ "embd_pdrop", GPT2, RATE, 0, 0, 1 },
	{ "attn_pdrop", GPT2, RATE, 0, 0, 1 },
	{ "hidden_dropout_prob", BERT, RATE, 0, 0, 1 },
	{ "attention_probs_dropout_prob", BERT, RATE, 0, 0, 1 },
	{ "hidden_dropout", NEOX, RATE, 0, 0, 1 },
	{ "attention_dropout", LLAMA | NEOX, RATE, 0, 0, 1 },
	{ "dropout", OPT, RATE, 0, 0, 1 },
};

static enum mq_status read_keys(const struct mq_json_at *at, int groups, struct config *c, struct mq_err *err)
{
	for (const struct key *k = keys; k < keys + sizeof(keys) / sizeof(*keys); k++) {
		void *to = (char *)c + k->offset;
		uint32_t *number = to;
		const struct mq_json_range range = { k->min, k->max, k->type == NUMBER,
						     k->type == NUMBER && k->groups & GIVEN && !*number };
		double x = k->type == NUMBER ? *number : k->type == REAL ? *(double *)to : c->rate;

		if (!(k->groups & groups))
			continue;
		if (k->type == FLAG)
			MQ_TRY(mq_json_bool(at, k->name, to, err));
		else
			MQ_TRY(mq_json_number(at, k->name, &range, &x, err));
		if (k->type == NUMBER)
			*number = (uint32_t)x;
		else if (k->type == REAL)
			*(double *)to = x;
		else if (k->type == RATE)
			c->t.dropout |= x > 0;
	}
	return MQ_OK;
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

/* ---- what is settled behind the keys ------------------------------------------------------------- */

static enum mq_status finish_positions(const struct mq_json_at *at, struct config *c, struct mq_err *err)
{
	c->t.positions = c->positions;
	return MQ_OK;
}

static enum mq_status finish_opt(const struct mq_json_at *at, struct config *c, struct mq_err *err)
{
	bool before = true;

	MQ_TRY(mq_json_bool(at, "do_layer_norm_before", &before, err));
	if (!before || (c->narrow && c->narrow != c->t.hidden))
		return mq_fail(
			err, MQ_EINPUT,
			"%s: \"do_layer_norm_before\" false or another "
			"\"word_embed_proj_dim\" than %u: of OPT only stacks with norms before each part are read",
			at->path, c->t.hidden);
	c->t.positions = c->positions + 2; /* two rows are never looked up */
	return MQ_OK;
}

/* Layers without experts are as wide as intermediate_size says, experts as another key. */
static void widths(struct config *c)
{
	c->t.dense_ffn = c->t.ffn;
	c->t.ffn = c->moe_ffn;
}

static enum mq_status finish_qwen_moe(const struct mq_json_at *at, struct config *c, struct mq_err *err)
{
	widths(c);
	if (json_array_size(json_object_get(at->object, "mlp_only_layers")))
		return mq_fail(err, MQ_EINPUT,
			       "%s: \"mlp_only_layers\" names layers without experts; only those that "
			       "\"decoder_sparse_step\" leaves out are read",
			       at->path);
	c->t.moe_every = c->step > 1 ? c->step : 0;
	return MQ_OK;
}

/* Experts as DeepSeek names them: first layers without, and some that every token visits. */
static enum mq_status finish_routed(const struct mq_json_at *at, struct config *c, struct mq_err *err)
{
	struct mq_transformer *t = &c->t;

	widths(c);
	if (t->kv_rank)
		t->kv_heads = t->heads;
	else
		t->proj_bias = false; /* GLM: attention_bias is that of Q, K and V */
	if (t->expert_groups <= 1 || t->group_limit >= t->expert_groups)
		t->expert_groups = t->group_limit = 0;
	if (c->step > 1)
		return mq_fail(err, MQ_EINPUT, "%s: \"moe_layer_freq\" is %u; only experts in every layer are read",
			       at->path, c->step);
	if ((double)c->shared * t->ffn > MAX)
		return mq_fail(err, MQ_EINPUT, "%s: \"n_shared_experts\" is %u; give fewer", at->path, c->shared);
	t->shared_ffn = c->shared * t->ffn;
	return MQ_OK;
}

/* Llama 4: one expert that every token visits beside the routed ones; Maverick's every second layer has any. */
static enum mq_status finish_llama4(const struct mq_json_at *at, struct config *c, struct mq_err *err)
{
	c->t.moe_every = c->step > 1 ? c->step : 0;
	c->t.shared_ffn = c->t.ffn;
	return MQ_OK;
}

/* The first Qwen's intermediate_size counts both matrices going up. */
static enum mq_status finish_qwen1(const struct mq_json_at *at, struct config *c, struct mq_err *err)
{
	c->t.ffn /= 2;
	return MQ_OK;
}

/* Nemotron-H and Nemotron 3: a letter per layer. */
static enum mq_status finish_nemotron_h(const struct mq_json_at *at, struct config *c, struct mq_err *err)
{
	MQ_TRY(mq_json_text(at, "hybrid_override_pattern", &c->t.pattern, err));
	if (!c->t.pattern)
		return mq_fail(err, MQ_EINPUT, "%s: \"hybrid_override_pattern\" is missing", at->path);
	if (!strchr(c->t.pattern, 'E'))
		return MQ_OK;
	MQ_TRY(read_keys(at, NEMOTRON_MOE, c, err));
	c->t.ffn = c->moe_ffn;
	return MQ_OK;
}

/* ---- families ------------------------------------------------------------------------------------ */

#define LLAMA_LIKE .gated = true, .rms = true, .rotary = true, .causal = true
#define GEMMA2_LIKE                                                                                             \
	LLAMA_LIKE, .gelu = true, .tied = true, .output_norms = true, .layers = 26, .hidden = 2304, .heads = 8, \
		    .kv_heads = 4, .head_dim = 256, .ffn = 9216, .window = 4096

struct mq_hf_family {
	const char *model_type, *architecture;
	int groups;
	uint32_t positions;
	struct mq_transformer start;
	enum mq_status (*finish)(const struct mq_json_at *at, struct config *c, struct mq_err *err);
	double rate;
};

#define FAMILY(type, class, keys, longest, ...)                                                              \
	{                                                                                                    \
		.model_type = type, .architecture = class, .groups = keys, .positions = longest, __VA_ARGS__ \
	}
#define LLAMAS(type, class, keys, ...) FAMILY(type, class, STACK | keys, 2048, .start = { LLAMA_LIKE, __VA_ARGS__ })
#define LLAMAS_BUT(type, class, keys, last, ...) \
	FAMILY(type, class, STACK | keys, 2048, .finish = last, .start = { LLAMA_LIKE, __VA_ARGS__ })
#define STATES(chunk) .rms = true, .causal = true, .mamba = { 128, 64, 8, 128, 4, chunk }

static const struct mq_hf_family families[] = {
	FAMILY("gpt2", "GPT2", GPT2 | TIED, 0, .start = { .tied = true, .biases = true, .causal = true },
	       .finish = finish_positions, .rate = .1),
	LLAMAS("llama", "Llama", 0, ),
	LLAMAS("mistral", "Mistral", WINDOW, ),
	LLAMAS("mixtral", "Mixtral", LOCAL, .experts = 8, .top_k = 2),
	FAMILY("qwen", "QWen", COMMON | TIED | QWEN1, 8192, .start = { LLAMA_LIKE, .qkv_bias = true },
	       .finish = finish_qwen1),
	LLAMAS("qwen2", "Qwen2For", 0, .qkv_bias = true),
	LLAMAS("qwen3", "Qwen3For", 0, .qk_norm = true),
	LLAMAS_BUT("qwen2_moe", "Qwen2Moe", QWEN, finish_qwen_moe, .qkv_bias = true),
	LLAMAS_BUT("qwen3_moe", "Qwen3Moe", QWEN, finish_qwen_moe, .qk_norm = true),
	LLAMAS_BUT("deepseek_v2", "DeepseekV2", LATENT | ROUTED, finish_routed, ),
	LLAMAS_BUT("deepseek_v3", "DeepseekV3", LATENT | ROUTED, finish_routed, .sigmoid_router = true),
	FAMILY("nemotron_h", "NemotronH", COMMON | ROPE | EPS | HEADS | TIED | NEMOTRON, 4096,
	       .start = { STATES(128), .relu = true, .squared = true, .mtp_shared = true },
	       .finish = finish_nemotron_h),
	FAMILY("bert", "Bert", COMMON | BERT, 512,
	       .start = { .biases = true, .tied = true, .post_norm = true, .pretrain_heads = true, .token_types = 2 },
	       .finish = finish_positions, .rate = .1),
	LLAMAS("gemma", "GemmaFor", 0, .gelu = true, .tied = true),
	FAMILY("gemma2", "Gemma2", STACK | WINDOW, 8192,
	       .start = { GEMMA2_LIKE, .softcap = true, .vocab = 256000, .full_every = 2 }),
	FAMILY("gemma3_text", "Gemma3For", STACK | WINDOW | GEMMA3, 8192,
	       .start = { GEMMA2_LIKE, .qk_norm = true, .vocab = 262208, .full_every = 6 }),
	LLAMAS("phi3", "Phi3", WINDOW, ),
	LLAMAS("phi4", "Phi4", WINDOW, ),
	/* biases and clamped gates, whatever attention_bias says */
	LLAMAS("gpt_oss", "GptOss", WINDOW | LOCAL, .biases = true, .clamp = true, .layers = 36, .hidden = 2880,
	       .ffn = 2880, .heads = 64, .kv_heads = 8, .head_dim = 64, .vocab = 201088, .experts = 128, .top_k = 4,
	       .window = 128, .full_every = 2, .yarn = true),
	LLAMAS_BUT("llama4_text", "Llama4", LLAMA4, finish_llama4, .layers = 48, .hidden = 5120, .heads = 40,
		   .kv_heads = 8, .head_dim = 128, .ffn = 8192, .vocab = 202048, .experts = 16, .top_k = 1,
		   .dense_ffn = 16384, .sigmoid_router = true),
	LLAMAS("olmo2", "Olmo2", 0, .output_norms = true, .no_input_norms = true, .qk_norm = true),
	LLAMAS_BUT("glm4_moe", "Glm4Moe", ROUTED | GLM, finish_routed, .sigmoid_router = true, .rope_part = .5),
	FAMILY("mamba2", "Mamba2", MAMBA | TIED, 8192,
	       .start = { STATES(256), .hidden = 4096, .layers = 64, .vocab = 32768, .heads = 1, .pattern = "M" }),
	FAMILY("gpt_neox", "GPTNeoX", COMMON | ROPE | EPS | NEOX | TIED, 2048,
	       .start = { .biases = true, .rotary = true, .causal = true, .parallel = true, .rope_part = .25 }),
	FAMILY("opt", "OPT", COMMON | OPT | TIED, 2048,
	       .start = { .biases = true, .causal = true, .tied = true, .relu = true, .vocab = 50272 },
	       .finish = finish_opt, .rate = .1),
};

enum { N_FAMILIES = sizeof(families) / sizeof(*families) };

const char *mq_hf_types(struct mq_arena *arena)
{
	const char *list = "";

	for (size_t i = 0; i < N_FAMILIES; i++)
		list = mq_arena_printf(arena, "%s %s", list, families[i].model_type);
	return list;
}

enum mq_status mq_hf_read(const struct mq_hf_family *f, const struct mq_json_at *at, struct mq_transformer *t,
			  uint32_t *positions, struct mq_err *err)
{
	struct config c = { .t = f->start, .positions = f->positions, .rate = f->rate };
	const struct mq_json_at inner = { at->path, "rope_parameters", json_object_get(at->object, "rope_parameters") };

	c.t.name = t->name;
	c.t.fused = t->fused;
	c.t.seq = t->seq;
	MQ_TRY(read_keys(at, f->groups, &c, err));
	if (f->groups & ROPE) {
		MQ_TRY(read_keys(&inner, json_is_object(inner.object) ? ROPE : 0, &c, err));
		read_yarn(inner.object, &c.t);
		read_yarn(json_object_get(at->object, "rope_scaling"), &c.t);
	}
	if (c.mlp_bias)
		return mq_fail(err, MQ_EINPUT, "%s: \"mlp_bias\" is true; only products without bias are read",
			       at->path);
	c.t.qkv_bias |= c.attention_bias;
	c.t.proj_bias = c.attention_bias;
	if (f->finish)
		MQ_TRY(f->finish(at, &c, err));
	*t = c.t;
	*positions = c.positions;
	return MQ_OK;
}

/* ---- families that are not known ----------------------------------------------------------------- */

static const char *const llama_keys[] = {
	"hidden_size",       "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
	"intermediate_size", "vocab_size",        "rms_norm_eps",        NULL,
};

/* Keys that change nothing of a Llama that is modelled, beside those whose names are_inert finds by their parts. */
static const char *const inert[] = {
	"model_type",
	"architectures",
	"auto_map",
	"transformers_version",
	"_name_or_path",
	"name_or_path",
	"use_cache",
	"initializer_range",
	"initializer_factor",
	"init_std",
	"pretraining_tp",
	"torchscript",
	"problem_type",
	"prefix",
	"task_specific_params",
	"id2label",
	"label2id",
	"return_dict",
	"hidden_act",
	"hidden_activation",
	"is_decoder",
	"mlp_bias",
	"attention_bias",
	"head_dim",
	"max_position_embeddings",
	"max_sequence_length",
	"seq_length",
	"max_window_layers",
	"partial_rotary_factor",
	"quantization_config",
	"compression_config",
	"unsloth_version",
	"unsloth_fixed",
	"model_max_length",
	"z_loss",
	"num_return_sequences",
	"temperature",
	"top_p",
	"top_k",
	"typical_p",
	"num_beams",
	"num_beam_groups",
	"length_penalty",
	"repetition_penalty",
	"max_length",
	"use_flash_attn",
	"use_flash_attention",
	"fused_qkv",
	"is_causal",
	"chunk_size_feed_forward",
	"save_model_name",
	"sequence_parallel",
	NULL,
};

static bool is_one_of(const char *key, const char *const *names)
{
	for (; *names; names++)
		if (!strcmp(key, *names))
			return true;
	return false;
}

static bool is_inert(const char *key)
{
	static const char *const parts[] = { "_token_id", "_token_ids", "_token_index", "dropout", "_pdrop",
					     "dtype",     NULL };
	static const char *const starts[] = { "rope_", "tie_", "output_", "attn_impl", "_attn_impl", NULL };

	for (const char *const *p = parts; *p; p++)
		if (strstr(key, *p))
			return true;
	for (const char *const *p = starts; *p; p++)
		if (!strncmp(key, *p, strlen(*p)))
			return true;
	return is_one_of(key, inert) || is_one_of(key, llama_keys);
}

/* null, false, 0, "" and what is empty switch a part off. */
static bool is_off(const json_t *value)
{
	return json_is_null(value) || json_is_false(value) || (json_is_number(value) && !json_number_value(value)) ||
	       (json_is_string(value) && !*json_string_value(value)) ||
	       (json_is_array(value) && !json_array_size(value)) || (json_is_object(value) && !json_object_size(value));
}

const char *mq_hf_unknown_keys(const json_t *object, struct mq_arena *arena)
{
	const char *list = "", *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, key,
			    value) if (!is_inert(key) && !is_off(value) && strlen(list) < 300) list =
		mq_arena_printf(arena, "%s%s%.40s", list, *list ? " " : "", key);
	return list;
}

const struct mq_hf_family *mq_hf_family_of(const struct mq_json_at *at, const char *type, bool *guessed)
{
	const char *architecture = json_string_value(json_array_get(json_object_get(at->object, "architectures"), 0));

	for (const struct mq_hf_family *f = families; f < families + N_FAMILIES; f++)
		if (type ? !strcmp(type, f->model_type) :
			   architecture && !strncmp(architecture, f->architecture, strlen(f->architecture)))
			return f;
	*guessed = true;
	for (const char *const *k = llama_keys; *k; k++)
		*guessed = *guessed && json_is_number(json_object_get(at->object, *k));
	return *guessed ? &families[1] : NULL;
}
