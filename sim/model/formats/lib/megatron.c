/* megatron.c - see megatron.h. SPDX-License-Identifier: Apache-2.0 */
#include "model/formats/lib/megatron.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"
#include "base/text.h"

enum { MAX_LAYERS = 10000 };

/* Defaults; Megatron has no flags for YaRN's lengths in latent attention and for Llama 3's wavelengths. */
static const struct mq_rope
	latent_rope = { .kind = "yarn", .factor = 40, .length = 4096, .fast = 32, .slow = 1, .mscale = 1 },
	yarn_rope = { .kind = "yarn", .factor = 1, .length = 4096, .fast = 32, .slow = 1, .mscale = 1 },
	llama3_rope = { .kind = "llama3", .factor = 8, .length = 8192, .low = 1, .high = 4 };

struct read {
	struct mq_transformer t;
	double attention_dropout, hidden_dropout, window_skip;
	uint32_t ffn, expert_ffn, max_positions, groups;
	uint32_t interval;
	bool deepspeed;
	double interpolation, llama3_factor;
	struct mq_rope rope;
	bool group_query, untied, swiglu, squared, geglu, no_bias, latent, qk_norm, llama3, unread, rotary;
	const char *mlp;
	const char *unread_text, *rope_type, *position, *norm, *window, *layers, *pattern, *score, *backend, *other,
		*provider, *spec;
};

#define X(name, kind, field) { name, MQ_FLAG_##kind, offsetof(struct read, field) },
static const struct mq_flag flags[] = {
#include "model/formats/lib/megatron_flags.def"
	{ NULL, 0, 0 }
};
#undef X

const struct mq_flag *mq_flag_find(const struct mq_flag *list, const char *word)
{
	size_t n = strcspn(word, "=");

	while (list->name && (strlen(list->name) != n || strncmp(list->name, word, n)))
		list++;
	return list->name ? list : NULL;
}

enum mq_status mq_flag_take(const struct mq_flag *flag, const char *const **word, void *to, struct mq_arena *arena,
			    struct mq_err *err)
{
	const char *equals = strchr(**word, '='), *value = equals ? equals + 1 : NULL;
	uint32_t kind = flag->kind & ~MQ_FLAG_BESIDE;
	uint64_t number = 0;

	to = (char *)to + flag->offset;
	if (kind == MQ_FLAG_SWITCH) {
		*(bool *)to = true;
		return MQ_OK;
	}
	if (!value && !(value = (*word)[1] ? *++*word : NULL))
		return mq_bad(err, "%s: its value is missing", flag->name);
	if (kind == MQ_FLAG_REAL)
		return mq_parse_f64(value, to) && *(double *)to >= 0 ?
			       MQ_OK :
			       mq_bad(err, "%s %s: give a number", flag->name, value);
	if (kind == MQ_FLAG_NUMBER || kind == MQ_FLAG_DEGREE) {
		if (!mq_parse_u64(value, &number) || number > UINT32_MAX || number < (kind == MQ_FLAG_DEGREE))
			return mq_bad(err, "%s %s: give a whole number%s", flag->name, value,
				      kind == MQ_FLAG_DEGREE ? " from 1" : "");
		*(uint32_t *)to = (uint32_t)number;
		return MQ_OK;
	}
	while (kind == MQ_FLAG_WORDS && (*word)[1] && strncmp((*word)[1], "--", 2) && strlen(value) < 500)
		value = mq_arena_printf(arena, "%s %s", value, *++*word);
	*(const char **)to = value;
	return MQ_OK;
}

bool mq_megatron_describes(const char *flag, bool *has_value)
{
	const struct mq_flag *found = mq_flag_find(flags, flag);

	*has_value = found && found->kind != MQ_FLAG_SWITCH;
	return found;
}

bool mq_megatron_has_model(const char *const *word)
{
	for (; *word; word++)
		if (!strncmp(*word, "--hidden-size", 13))
			return true;
	return false;
}

/* A Python list expression: sums of [0,1,...] and (...), each with an optional factor; NULL: not such an expression. */
static const char *evaluate(const char *c, char *out, uint32_t *n)
{
	for (;;) {
		uint32_t first = *n;

		c += strspn(c, " ");
		if (*c == '(') {
			c = evaluate(c + 1, out, n);
			if (!c || *c != ')')
				return NULL;
		} else if (*c == '[') {
			while (*++c && *c != ']')
				if ((*c == '0' || *c == '1') && *n < MAX_LAYERS)
					out[(*n)++] = *c;
				else if (!strchr(" ,", *c))
					return NULL;
		}
		if (*c != ']' && *c != ')')
			return NULL;
		c += 1 + strspn(c + 1, " ");
		if (*c == '*') {
			char *end;
			unsigned long times = strtoul(c + 1, &end, 10), each = *n - first;

			if (end == c + 1 || times > MAX_LAYERS || first + times * each > MAX_LAYERS)
				return NULL;
			for (unsigned long i = 1; i < times; i++, *n += (uint32_t)each)
				memcpy(out + *n, out + first, each);
			if (!times)
				*n = first;
			c = end + strspn(end, " ");
		}
		if (*c != '+')
			return c;
		c++;
	}
}

/* Dense first layers, or experts in every n-th layer, as a description has them. */
static enum mq_status read_layers(struct read *r, struct mq_err *err)
{
	struct mq_transformer *t = &r->t;
	char layer[MAX_LAYERS + 1];
	uint32_t n = 0, dense = 0;
	uint64_t every;

	if (!r->layers || !strcmp(r->layers, "1"))
		return MQ_OK;
	const char *end = mq_parse_u64(r->layers, &every) ? NULL : evaluate(r->layers, layer, &n);
	if (!end || *end || n != t->layers)
		return mq_bad(err, "--moe-layer-freq %.60s: give 1, or a list of 0 and 1 for each of %u layers",
			      r->layers, t->layers);
	while (dense < n && layer[dense] == '0')
		dense++;
	uint32_t period = dense + 1;
	bool first = true, last = true;
	for (uint32_t i = 0; i < n; i++) {
		first = first && (layer[i] == '1') == (i >= dense);
		last = last && (layer[i] == '1') == ((i + 1) % period == 0);
	}
	if (first)
		t->dense_layers = dense;
	else if (last)
		t->moe_every = period;
	else
		return mq_bad(err,
			      "--moe-layer-freq %.60s: only first layers without experts, or experts in "
			      "the last of every so many layers, can be read",
			      r->layers);
	return MQ_OK;
}

static enum mq_status read_pattern(struct read *r, struct mq_arena *arena, struct mq_err *err)
{
	struct mq_transformer *t = &r->t;
	char *main, *to;

	if (!r->pattern)
		return MQ_OK;
	main = to = mq_arena_strdup(arena, r->pattern);
	for (const char *c = r->pattern; *c && *c != '/'; c++)
		if (*c != '|')
			*to++ = *c;
	*to = '\0';
	for (const char *c = strchr(r->pattern, '/'); c && !t->mtp; c = strchr(c + 1, '/'))
		t->mtp += 1;
	t->pattern = main;
	if (strchr(main, 'M')) { /* arguments.py */
		t->mamba.head_dim = t->mamba.head_dim ? t->mamba.head_dim : 64;
		t->mamba.groups = t->mamba.groups ? t->mamba.groups : 8;
		t->mamba.state = t->mamba.state ? t->mamba.state : 128;
		t->mamba.heads = t->mamba.heads ? t->mamba.heads : 2 * t->hidden / t->mamba.head_dim;
	}
	if (!t->layers)
		t->layers = (uint32_t)strlen(main);
	if (strlen(main) == t->layers && strspn(main, "M*-E") == t->layers)
		return MQ_OK;
	return mq_bad(err, "--hybrid-layer-pattern %.60s: give a letter of M * - E for each of %u layers", r->pattern,
		      t->layers);
}

static enum mq_status read_window(struct read *r, struct mq_err *err)
{
	const char *c = r->window ? r->window + strspn(r->window, "([") : NULL;
	uint32_t keys = c ? (uint32_t)strtoul(c, NULL, 10) : 0;

	if (!c)
		return MQ_OK;
	if (keys < 1 || !strchr(c, ','))
		return mq_bad(err, "--window-size %.40s: give the keys before and behind a query, as 127,0", r->window);
	r->t.window = keys + 1;
	r->t.full_every = (uint32_t)r->window_skip;
	return MQ_OK;
}

static void settle_rope(struct read *r, const char *position)
{
	struct mq_rope *rope = &r->t.rope;
	const struct mq_rope said = r->rope;

	r->t.rotary = !strcmp(position, "rope") || !strcmp(position, "yarn");
	r->t.yarn = !strcmp(position, "yarn");
	if (r->latent && r->t.rotary && (!r->rope_type || !strcmp(r->rope_type, "yarn"))) {
		*rope = latent_rope;
		r->t.yarn = fabs(mq_told(said.mscale, rope->mscale) - said.mscale_all) > 1e-9;
	} else if (r->t.yarn) {
		*rope = yarn_rope;
	} else if (r->llama3) {
		*rope = llama3_rope;
		rope->factor = mq_told(r->llama3_factor, rope->factor);
		return;
	} else if (r->interpolation > 0) {
		*rope = (struct mq_rope){ .kind = "linear", .factor = r->interpolation };
		return;
	}
	*rope = (struct mq_rope){ .kind = rope->kind,
				  .factor = mq_told(said.factor, rope->factor),
				  .length = said.length ? said.length : rope->length,
				  .fast = mq_told(said.fast, rope->fast),
				  .slow = mq_told(said.slow, rope->slow),
				  .unrounded = said.unrounded,
				  .mscale = mq_told(said.mscale, rope->mscale),
				  .mscale_all = mq_told(said.mscale_all, rope->mscale_all) };
}

static void settle(struct read *r)
{
	struct mq_transformer *t = &r->t;
	const char *position = r->position ? r->position : r->rotary ? "rope" : "learned_absolute";

	t->kv_heads = r->group_query ? (r->groups ? r->groups : 1) : t->heads;
	settle_rope(r, position);
	t->positions = !strcmp(position, "learned_absolute") ? r->max_positions : 0;
	t->rms = r->norm && !strcasecmp(r->norm, "RMSNorm"); /* NeMo: rmsnorm */
	t->gated = r->swiglu || r->geglu;
	t->clamp = r->geglu;
	t->relu = t->squared = r->squared;
	t->biases = !r->no_bias;
	t->tied = !r->untied;
	t->dropout = r->attention_dropout > 0 || r->hidden_dropout > 0;
	t->fused = !r->backend || (strcmp(r->backend, "unfused") && strcmp(r->backend, "local"));
	t->qk_norm = r->qk_norm && !r->latent;
	t->sigmoid_router = r->score && !strcmp(r->score, "sigmoid");
	/* gated: 8/3 of the hidden size in steps of 64, as in arguments.py */
	if (!r->ffn)
		r->ffn = t->gated ? (uint32_t)(4.0 * t->hidden * 2 / 3 / 64) * 64 : 4 * t->hidden;
	t->ffn = t->experts && r->expert_ffn ? r->expert_ffn : r->ffn;
	t->dense_ffn = t->experts ? r->ffn : 0;
	if (!r->latent)
		t->q_rank = t->kv_rank = t->nope_dim = t->rope_dim = t->value_dim = 0;
	t->causal = true;
}

/* Megatron-DeepSpeed has experts in every n-th layer (--expert-interval), Megatron core in all. */
static enum mq_status read_deepspeed(struct read *r, struct mq_err *err)
{
	struct mq_transformer *t = &r->t;

	if (!t->top_k)
		t->top_k = r->deepspeed ? 1 : 2;
	if (!r->deepspeed || t->experts < 2)
		return MQ_OK;
	if (r->mlp && strcmp(r->mlp, "standard") != 0)
		return mq_bad(err, "--mlp-type %.40s: experts beside a dense layer are not modelled; give standard",
			      r->mlp);
	t->moe_every = r->interval ? r->interval : 2;
	return MQ_OK;
}

enum mq_status mq_megatron_read(const char *const *word, struct mq_arena *arena, struct mq_transformer *t,
				struct mq_err *err)
{
	struct read r = { .attention_dropout = .1, .hidden_dropout = .1 };

	/* defaults of MLA and Mamba; Megatron has no flags for 4 taps and chunks of 128 */
	r.t = (struct mq_transformer){
		.kv_rank = 32, .nope_dim = 128, .rope_dim = 64, .value_dim = 128, .mamba = { 0, 64, 8, 128, 4, 128 }
	};
	for (; *word; word++) {
		const struct mq_flag *flag = mq_flag_find(flags, *word);

		if (flag && flag->offset == offsetof(struct read, other))
			return mq_bad(err, "%s: such models are not read of Megatron-LM; give -m as a config.json",
				      *word);
		if (flag)
			MQ_TRY(mq_flag_take(flag, &word, &r, arena, err));
	}
	if (r.spec && strcmp(r.spec, "local") != 0 && strncmp(r.spec, "megatron.core.", 14) != 0)
		return mq_bad(err, "--spec %.60s: layers of a spec of one's own are not read; give -m as a config.json",
			      r.spec);
	if (r.provider && !mq_text_has_word("gpt hybrid mamba", r.provider))
		return mq_bad(
			err,
			"--model-provider %.60s: such models are not read of Megatron-LM; give -m as a config.json",
			r.provider);
	MQ_TRY(read_pattern(&r, arena, err));
	MQ_TRY(read_deepspeed(&r, err));
	settle(&r);
	MQ_TRY(read_layers(&r, err));
	MQ_TRY(read_window(&r, err));
	*t = r.t;
	return MQ_OK;
}
