/* huggingface.c - see huggingface.h: reads a configuration by the tables that huggingface_keys.c reads.
 * SPDX-License-Identifier: Apache-2.0 */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "model/formats/lib/huggingface_keys.h"

static bool is_array_of_one(const json_t *value, json_t **one)
{
	size_t i;

	*one = json_array_get(value, 0);
	for (i = 0; i < json_array_size(value) && json_equal(json_array_get(value, i), *one); i++)
		;
	return i > 1 && i == json_array_size(value) && json_is_number(*one);
}

/* A number, or an array with one equal number per layer. null is none; an "auto" rank follows from other keys. */
static enum mq_status read_number(const struct mq_json_at *at, const struct mq_hf_key *k, double *x, struct mq_err *err)
{
	const struct mq_json_range range = { k->min, k->max, k->type == MQ_HF_NUMBER, false };
	json_t *v = json_object_get(at->object, k->name), *one;

	if (json_is_array(v) && k->type == MQ_HF_NUMBER && (mq_hf_layer_key(k->name) || is_array_of_one(v, &one))) {
		if (is_array_of_one(v, &one) && json_number_value(one) >= k->min && json_number_value(one) <= k->max)
			*x = json_number_value(one);
		return MQ_OK;
	}
	if (json_is_null(v) && k->type == MQ_HF_NUMBER && k->offset != offsetof(struct mq_hf_config, positions))
		*x = 0;
	bool rank = k->offset == offsetof(struct mq_hf_config, t.mamba.rank);
	if (json_is_string(v) && ((rank && !strcmp(json_string_value(v), "auto")) || mq_hf_layer_key(k->name)))
		return MQ_OK;
	return mq_json_number(at, k->name, &range, x, err);
}

static enum mq_status read_keys(const struct mq_hf_key *keys, const struct mq_json_at *at, uint32_t dialects,
				struct mq_hf_config *c, struct mq_err *err)
{
	for (const struct mq_hf_key *k = keys; k->name; k++) {
		void *to = (char *)c + k->offset;
		uint32_t *number = to;
		double x = k->type == MQ_HF_NUMBER ? *number : k->type == MQ_HF_REAL ? *(double *)to : c->rate;

		if (!(k->reads & dialects))
			continue;
		if (k->type == MQ_HF_FLAG)
			MQ_TRY(mq_json_bool(at, k->name, to, err));
		else
			MQ_TRY(read_number(at, k, &x, err));
		if (k->type == MQ_HF_NUMBER)
			*number = (uint32_t)x;
		else if (k->type == MQ_HF_REAL)
			*(double *)to = x;
		else if (k->type == MQ_HF_RATE)
			c->t.dropout |= x > 0;
	}
	return MQ_OK;
}

/* MQ_EINPUT: a key is missing that the family's files always have, under any name, and that has no default. */
static enum mq_status check_given(const struct mq_hf_family *f, const struct mq_json_at *at, struct mq_err *err)
{
	for (const struct mq_hf_key *k = f->keys; k->name; k++) {
		const uint32_t *start = (const void *)((const char *)&f->start + k->offset);
		bool given = !(k->writes & GIVEN && k->writes & f->dialects) || !*start;

		for (const struct mq_hf_key *other = f->keys; other->name && !given; other++)
			given = other->offset == k->offset && json_object_get(at->object, other->name);
		if (!given)
			return mq_bad(err, "%s: \"%s\" is missing; give a whole number from %.9g to %.9g", at->path,
				      k->name, k->min, k->max);
	}
	return MQ_OK;
}

/* Scaling of rotary embeddings. YaRN scales Q and K by .1 ln(factor) + 1, unless `mscale` and `mscale_all_dim` are
 * equal and cancel (DeepSeek). */
static enum mq_status read_rope(const struct mq_hf_key *keys, const struct mq_json_at *at, const char *name,
				struct mq_hf_config *c, struct mq_arena *arena, struct mq_err *err)
{
	const struct mq_json_at rope = { at->path, name, json_object_get(at->object, name) };
	const char *new = json_string_value(json_object_get(rope.object, "rope_type"));
	const char *type = new ? new : json_string_value(json_object_get(rope.object, "type"));
	struct mq_transformer *t = &c->t;

	if (!json_is_object(rope.object))
		return MQ_OK;
	MQ_TRY(read_keys(keys, &rope, SCALING, c, err));
	if (!type)
		return MQ_OK;
	t->rope.kind = strcmp(type, "default") != 0 && strcmp(type, "mrope") != 0 ? mq_arena_strdup(arena, type) : NULL;
	t->rope.unrounded = json_is_false(json_object_get(rope.object, "truncate"));
	if (fabs(t->rope.attention - (.1 * log(fmax(1, t->rope.factor)) + 1)) < 1e-6 && !(t->rope.mscale > 0))
		t->rope.attention = 0; /* explicit, but equal to what follows from `factor` */
	t->yarn = !strcmp(type, "yarn") && !(t->rope.mscale > 0 && fabs(t->rope.mscale - t->rope.mscale_all) < 1e-9);
	return MQ_OK;
}

static void read_activation(const struct mq_json_at *at, struct mq_transformer *t)
{
	static const char *const names[] = { "hidden_act", "hidden_activation", "activation_function", "activation",
					     "mlp_hidden_act" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *act = json_string_value(json_object_get(at->object, names[i]));

		if (!act)
			continue;
		t->relu = !t->gated && !strncmp(act, "relu", 4);
		t->squared = t->relu && act[4] == '2';
		t->gelu = t->gated && strstr(act, "gelu");
	}
}

/* ---- combinations of keys ------------------------------------------------------------------------- */

enum mq_status mq_hf_refuse_parts(const struct mq_hf_family *family, const struct mq_json_at *at, struct mq_err *err)
{
	const struct mq_csv *others = family->others;

	for (uint32_t i = 0; i < others->n_rows; i++) {
		const char *key = mq_csv_word(others, i, "key"), *what = mq_csv_word(others, i, "not_modelled");
		const json_t *v = *what ? json_object_get(at->object, key) : NULL;

		if (v && !mq_hf_is_off(v))
			return mq_bad(err, "%s: %s%s\"%s\": %s are not modelled", at->path, at->place,
				      *at->place ? ": " : "", key, what);
	}
	return MQ_OK;
}

/* transformers 5 writes what differs in some layers ("05": {"head_dim": 512}): in Gemma 4 those of full attention. */
static enum mq_status read_layers_apart(const struct mq_json_at *at, struct mq_hf_config *c, struct mq_err *err)
{
	json_t *layers = json_object_get(at->object, "per_layer_config"), *layer, *first = NULL;
	bool alike = c->global_dim;
	const char *key;

	json_object_foreach(layers, key, layer) {
		first = first ? first : layer;
		alike = alike && json_equal(layer, first);
	}
	if (!first)
		return MQ_OK;
	const struct mq_json_at part = { at->path, "per_layer_config", first };
	size_t read = !!json_object_get(first, "head_dim") + (size_t) !!json_object_get(first, "num_key_value_heads");
	if (!alike || !read || json_object_size(first) != read)
		return mq_bad(err, "%s: \"per_layer_config\": only wider heads of full attention are read", at->path);
	c->global_dim = c->t.head_dim;
	MQ_TRY(mq_json_u32(&part, "head_dim", 1, 1e8, &c->global_dim, err));
	return mq_json_u32(&part, "num_key_value_heads", 1, 1e8, &c->global_kv_heads, err);
}

static enum mq_status settle_attention(const struct mq_json_at *at, struct mq_hf_config *c, struct mq_err *err)
{
	struct mq_transformer *t = &c->t;
	const char *positions = json_string_value(json_object_get(at->object, "position_embedding_type"));

	if (c->mlp_bias && !c->attention_bias && !t->biases)
		return mq_bad(err,
			      "%s: \"mlp_bias\" is true without \"attention_bias\"; only products without bias, or all "
			      "with one, are read",
			      at->path);
	t->biases |= c->mlp_bias;
	t->qkv_bias |= c->attention_bias || c->bias;
	t->proj_bias |= (c->attention_bias && !c->qkv_only) || c->bias;
	if (c->multi_query && !c->many_query)
		t->kv_heads = 1;
	if (c->many_query || !t->parallel)
		t->one_norm = false;
	if (t->kv_rank)
		t->kv_heads = t->heads, t->head_dim = 0;
	if (t->kv_rank && t->hidden % t->heads)
		t->head_dim = t->value_dim;
	if (!t->kv_rank && c->other != 'W' && !t->local_value_dim && t->value_dim == t->head_dim)
		t->value_dim = 0;
	if (c->alibi)
		t->rotary = c->learned = false;
	if (positions && (!strncmp(positions, "ro", 2) || !strcmp(positions, "nope") || !strcmp(positions, "alibi"))) {
		t->rotary = *positions == 'r';
		c->learned = false;
	}
	t->causal &= !json_is_false(json_object_get(at->object, "is_causal")) &&
		     !json_is_true(json_object_get(at->object, "use_bidirectional_attention"));
	MQ_TRY(read_layers_apart(at, c, err));
	if (c->rotary_dim && t->heads)
		t->rope_part = (double)c->rotary_dim / (t->head_dim ? t->head_dim : t->hidden / t->heads);
	if (t->rope_part > 1)
		return mq_bad(err, "%s: \"rotary_dim\" is %u, more than a head is wide", at->path, c->rotary_dim);
	if (c->global_dim) { /* the plain keys describe the local layers */
		t->local_head_dim = t->head_dim;
		t->local_kv_heads = t->kv_heads;
		t->head_dim = c->global_dim;
		t->kv_heads = c->global_kv_heads && t->shared_kv ? c->global_kv_heads : t->kv_heads;
	}
	if (t->linear.rank) { /* Kimi: as many heads of keys as of values */
		t->linear.key_heads = t->linear.value_heads;
		t->linear.key_dim = t->linear.rank = t->linear.value_dim;
	}
	if (c->other == 'L')
		t->linear = (struct mq_linear){ t->heads, t->head_dim ? t->head_dim : t->hidden / t->heads,
						t->heads, t->head_dim ? t->head_dim : t->hidden / t->heads,
						0,        0 };
	if (c->other == 'H' && !t->mamba.heads)
		return mq_bad(err, "%s: \"mamba_n_heads\" is missing", at->path);
	return MQ_OK;
}

static enum mq_status settle_widths(const struct mq_json_at *at, struct mq_hf_config *c, struct mq_err *err)
{
	struct mq_transformer *t = &c->t;

	if (c->two_halves)
		t->ffn /= 2;
	if (c->two_thirds && c->ffn_multiple)
		t->ffn = (2 * t->ffn / 3 + c->ffn_multiple - 1) / c->ffn_multiple * c->ffn_multiple;
	if (!t->experts && t->shared_ffn) { /* only the shared MLP (Granite 4) */
		t->ffn = t->shared_ffn;
		t->shared_ffn = 0;
	}
	if (!t->experts) {
		t->top_k = t->dense_layers = t->expert_groups = t->group_limit = 0;
		return MQ_OK;
	}
	t->dense_ffn = c->dense_ffn;
	if (c->beside)
		t->shared_ffn = t->ffn;
	if (c->moe_ffn) {
		t->dense_ffn = c->dense_ffn ? c->dense_ffn : t->ffn;
		t->ffn = c->moe_ffn;
	}
	if ((double)c->shared * t->ffn > 1e8)
		return mq_bad(err, "%s: \"n_shared_experts\" is %u; give fewer", at->path, c->shared);
	if (!t->shared_ffn)
		t->shared_ffn = c->shared * t->ffn;
	if (t->expert_groups <= 1 || t->group_limit >= t->expert_groups)
		t->expert_groups = t->group_limit = 0;
	return MQ_OK;
}

static enum mq_status settle_mamba(const struct mq_json_at *at, const struct mq_hf_family *f, struct mq_hf_config *c,
				   struct mq_err *err)
{
	struct mq_mamba *m = &c->t.mamba;
	/* in a Mamba-only model intermediate_size is the number of channels, despite `expand` (Falcon Mamba) */
	double inner = f->start.t.pattern && c->t.ffn ? c->t.ffn : (double)c->expand * c->t.hidden;

	if (!(f->dialects & MAMBA1))
		return MQ_OK;
	if (inner > 1e8)
		return mq_bad(err, "%s: \"expand\" is %u; give less", at->path, c->expand);
	*m = (struct mq_mamba){ .heads = 1,
				.head_dim = (uint32_t)inner,
				.groups = 1,
				.state = m->state,
				.kernel = m->kernel,
				.rank = m->rank ? m->rank : (c->t.hidden + 15) / 16,
				.norms = m->norms };
	return MQ_OK;
}

static enum mq_status settle(const struct mq_hf_family *f, const struct mq_json_at *at, struct mq_hf_config *c,
			     struct mq_arena *arena, struct mq_err *err)
{
	bool before = true;

	MQ_TRY(mq_hf_refuse_parts(f, at, err));
	MQ_TRY(mq_json_bool(at, "do_layer_norm_before", &before, err));
	if (!before || (c->narrow && c->narrow != c->t.hidden))
		return mq_bad(err,
			      "%s: \"do_layer_norm_before\" false or another \"word_embed_proj_dim\" than %u: of OPT "
			      "only stacks with norms before each part are read",
			      at->path, c->t.hidden);
	if (!c->t.heads)
		return mq_bad(err, "%s: %s%snot a number of attention heads", at->path, at->place,
			      *at->place ? ": " : "");
	MQ_TRY(settle_attention(at, c, err));
	MQ_TRY(settle_mamba(at, f, c, err));
	MQ_TRY(mq_hf_layers(f, at, c, arena, err));
	MQ_TRY(settle_widths(at, c, err));
	if (c->learned)
		c->t.positions = c->positions + c->positions_more;
	c->positions -= c->positions > c->positions_less ? c->positions_less : 0;
	return MQ_OK;
}

struct mq_hf_config mq_hf_unsettle(const struct mq_hf_family *f, const struct mq_transformer *t)
{
	struct mq_hf_config c = f->start;
	bool own = f->dialects & (LOCAL | LLAMA4);

	c.t = *t;
	c.positions = t->positions > c.positions_more ? t->positions - c.positions_more : t->seq;
	c.moe_ffn = t->ffn;
	c.dense_ffn = t->dense_ffn ? t->dense_ffn : t->ffn;
	c.t.ffn = t->experts && !own ? c.dense_ffn : t->ffn;
	c.t.ffn *= c.two_halves ? 2 : 1;
	c.shared = t->experts ? t->shared_ffn / t->ffn : 0;
	c.step = t->moe_every ? t->moe_every : 1;
	c.interval = t->full_every;
	c.attention_bias = t->biases || t->proj_bias || (t->qkv_bias && f->start.qkv_only);
	return c;
}

/* ---- reading -------------------------------------------------------------------------------------- */

const char *const *mq_hf_types(const struct mq_hf_family *families, struct mq_arena *arena)
{
	const char **list = NULL;
	uint32_t n = 0, room = 0;

	for (const struct mq_hf_family *f = families; f->model_type; f++)
		MQ_PUSH(arena, list, n, room, f->model_type);
	MQ_PUSH(arena, list, n, room, NULL);
	return list;
}

enum mq_status mq_hf_read(const struct mq_hf_family *f, const struct mq_json_at *at, struct mq_transformer *t,
			  uint32_t *positions, struct mq_arena *arena, struct mq_err *err)
{
	static const struct {
		const char *key;
		uint32_t dialects;
	} inner[] = { { "attn_config", DMODEL }, { "ffn_config", DMODEL }, { "linear_attn_config", KIMI } };
	struct mq_hf_config c = f->start;

	c.t.name = t->name;
	c.t.fused = t->fused;
	c.t.seq = t->seq;
	MQ_TRY(read_keys(f->keys, at, f->dialects, &c, err));
	if (!*at->place && !json_object_get(at->object, "layers_block_type"))
		MQ_TRY(check_given(f, at, err));
	for (size_t i = 0; i < sizeof(inner) / sizeof(*inner); i++) {
		const struct mq_json_at part = { at->path, inner[i].key, json_object_get(at->object, inner[i].key) };

		if (json_is_object(part.object))
			MQ_TRY(read_keys(f->keys, &part, inner[i].dialects, &c, err));
	}
	MQ_TRY(read_rope(f->keys, at, "rope_parameters", &c, arena, err));
	MQ_TRY(read_rope(f->keys, at, "rope_scaling", &c, arena, err));
	read_activation(at, &c.t);
	MQ_TRY(settle(f, at, &c, arena, err));
	*t = c.t;
	*positions = c.positions;
	return MQ_OK;
}

/* ---- unread keys ---------------------------------------------------------------------------------- */

/* A blank before and behind each. */
static const char llama_keys[] =
	" hidden_size num_hidden_layers num_attention_heads num_key_value_heads intermediate_size vocab_size rms_norm_eps ";
/* Is a key without effect on what is modelled? */
static bool is_inert(const struct mq_csv *others, const char *key)
{
	for (uint32_t i = 0; i < others->n_rows; i++)
		if (!*mq_csv_word(others, i, "not_modelled") && !fnmatch(mq_csv_word(others, i, "key"), key, 0))
			return true;
	return false;
}

bool mq_hf_is_off(const json_t *value)
{
	return json_is_null(value) || json_is_false(value) || (json_is_number(value) && !json_number_value(value)) ||
	       (json_is_string(value) && !*json_string_value(value)) ||
	       (json_is_array(value) && !json_array_size(value)) || (json_is_object(value) && !json_object_size(value));
}

static bool is_read(const struct mq_hf_family *family, const char *key)
{
	static const char others[] = " activation_function activation mlp_hidden_act attn_config ffn_config "
				     "linear_attn_config do_layer_norm_before vision_config audio_config text_config ";

	for (const struct mq_hf_key *k = family->keys; k->name; k++)
		if (!strcmp(key, k->name) && k->reads & family->dialects)
			return true;
	return mq_text_has_word(others, key) || mq_hf_layer_key(key);
}

/* An activation that Llama does not have: the MLP may not be gated. */
static bool is_other_activation(const char *key, const json_t *value)
{
	const char *act = json_string_value(value);

	return !strncmp(key, "hidden_act", 10) && act && strcmp(act, "silu") && strcmp(act, "swish");
}

const char *mq_hf_unread_keys(const struct mq_hf_family *family, bool as_llama, const json_t *object,
			      struct mq_arena *arena)
{
	const char *list = "", *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, key, value) {
		bool known = as_llama ? (is_inert(family->others, key) && !is_other_activation(key, value)) ||
						mq_text_has_word(llama_keys, key) :
					is_inert(family->others, key) || is_read(family, key);

		if (!known && !mq_hf_is_off(value) && strlen(list) < 250)
			list = mq_arena_printf(arena, "%s%s%.40s", list, *list ? " " : "", key);
	}
	return list;
}

/* Is it the family's model_type, or that without the "_text" of a multimodal model's text part? */
static bool is_type(const struct mq_hf_family *f, const char *type)
{
	size_t n = strlen(type);

	return !strncmp(type, f->model_type, n) && (!f->model_type[n] || !strcmp(f->model_type + n, "_text"));
}

const struct mq_hf_family *mq_hf_family_of(const struct mq_hf_family *families, const struct mq_json_at *at,
					   const char *type, bool *guessed)
{
	const char *architecture = json_string_value(json_array_get(json_object_get(at->object, "architectures"), 0));
	const struct mq_hf_family *found = NULL;
	size_t longest = 0;
	char key[40];

	for (const struct mq_hf_family *f = families; f->model_type; f++) {
		size_t n = strlen(f->architecture);

		if (type && is_type(f, type))
			return f;
		if (!type && architecture && n > longest && !strncmp(architecture, f->architecture, n)) {
			found = f;
			longest = n;
		}
	}
	if (found)
		return found;
	/* an unknown family with all of Llama's keys may be a Llama */
	for (const char *k = llama_keys; sscanf(k, " %39s", key) == 1; k = strchr(k + 1, ' '))
		if (!json_is_number(json_object_get(at->object, key)))
			return NULL;
	*guessed = true;
	while (families->model_type && strcmp(families->model_type, "llama"))
		families++;
	return families->model_type ? families : NULL;
}
