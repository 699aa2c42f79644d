/* megatron.c - see megatron.h. SPDX-License-Identifier: Apache-2.0 */
#include "model/formats/lib/megatron.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"
#include "base/text.h"

enum { MAX_LAYERS = 10000 };

/* GPT-OSS clamps its gates at 7 and adds 1 to the linear half. */
static const char CLAMP_FLAGS[] = " \\\n  --quick-geglu --glu-linear-offset 1.0 --activation-func-clamp-value 7.0 "
				  "--softmax-type learnable";

/* Defaults; Megatron has no flags for YaRN's lengths in latent attention and for Llama 3's wavelengths. */
static const struct mq_rope
	latent_rope = { .kind = "yarn", .factor = 40, .length = 4096, .fast = 32, .slow = 1, .mscale = 1 },
	yarn_rope = { .kind = "yarn", .factor = 1, .length = 4096, .fast = 32, .slow = 1, .mscale = 1 },
	llama3_rope = { .kind = "llama3", .factor = 8, .length = 8192, .low = 1, .high = 4 };

static bool is_kind(const struct mq_transformer *t, const char *kind)
{
	return t->rotary && t->rope.kind && !strcmp(t->rope.kind, kind);
}

/* ---- writing ------------------------------------------------------------------------------------- */

static void put_attention(const struct mq_transformer *t, FILE *f)
{
	if (t->kv_rank) {
		fprintf(f,
			" \\\n  --multi-latent-attention --qk-layernorm --kv-lora-rank %u --qk-head-dim %u "
			"--qk-pos-emb-head-dim %u --v-head-dim %u",
			t->kv_rank, t->nope_dim, t->rope_dim, t->value_dim);
		if (t->q_rank)
			fprintf(f, " --q-lora-rank %u", t->q_rank);
		return;
	}
	fprintf(f, " \\\n  --kv-channels %u", t->head_dim);
	if (t->kv_heads != t->heads)
		fprintf(f, " --group-query-attention --num-query-groups %u", t->kv_heads);
	if (t->qk_norm)
		fputs(" --qk-layernorm", f);
	if (t->qkv_bias && !t->biases)
		fputs(" --add-qkv-bias", f);
	if (t->window && t->window < t->seq)
		fprintf(f, " \\\n  --window-size %u,0", t->window - 1);
	if (t->window && t->window < t->seq && t->full_every)
		fprintf(f, " --window-attn-skip-freq %u", t->full_every);
}

static void put_real(FILE *f, const char *flag, double value)
{
	if (value > 0)
		fprintf(f, " %s %.9g", flag, value);
}

static void put_rope(const struct mq_transformer *t, FILE *f)
{
	const struct mq_rope *r = &t->rope;

	if (is_kind(t, "llama3"))
		fprintf(f, " \\\n  --use-rope-scaling --rope-scaling-factor %.9g", r->factor);
	if (is_kind(t, "linear"))
		fprintf(f, " \\\n  --rotary-seq-len-interpolation-factor %.0f", r->factor);
	if (t->kv_rank && t->rotary)
		fprintf(f, " \\\n  --rope-type %s", is_kind(t, "yarn") ? "yarn" : "rope");
	if (!is_kind(t, "yarn"))
		return;
	fputs(" \\\n ", f);
	put_real(f, "--rotary-scaling-factor", r->factor);
	put_real(f, "--mscale", r->mscale);
	put_real(f, "--mscale-all-dim", r->mscale_all);
	if (t->kv_rank)
		return;
	put_real(f, "--yarn-original-max-position-embeddings", (double)r->length);
	put_real(f, "--yarn-beta-fast", r->fast);
	put_real(f, "--yarn-beta-slow", r->slow);
	if (r->unrounded)
		fputs(" --no-yarn-correction-range-round-to-int", f);
}

static void put_positions(const struct mq_transformer *t, FILE *f)
{
	uint32_t most = t->positions > t->seq ? t->positions : t->seq;

	fprintf(f, " \\\n  --seq-length %u --max-position-embeddings %u --position-embedding-type %s", t->seq, most,
		is_kind(t, "yarn") && !t->kv_rank ? "yarn" :
		t->rotary                         ? "rope" :
		t->positions                      ? "learned_absolute" :
						    "none");
	if (t->rotary && t->rope_theta > 0)
		fprintf(f, " --rotary-base %.0f", t->rope_theta);
	if (t->rotary && t->rope_part > 0)
		fprintf(f, " --rotary-percent %.9g", t->rope_part);
	put_rope(t, f);
}

/* Layers with experts as a Python list: 1 = experts. */
static void put_layers(const struct mq_transformer *t, FILE *f)
{
	if (t->moe_every > 1)
		fprintf(f, " \\\n  --moe-layer-freq \"([0]*%u+[1]*1)*%u\"", t->moe_every - 1, t->layers / t->moe_every);
	else if (t->dense_layers)
		fprintf(f, " \\\n  --moe-layer-freq \"([0]*%u+[1]*%u)\"", t->dense_layers,
			t->layers > t->dense_layers ? t->layers - t->dense_layers : 0);
}

static void put_experts(const struct mq_transformer *t, FILE *f)
{
	if (!t->experts)
		return;
	fprintf(f,
		" \\\n  --num-experts %u --moe-router-topk %u --moe-ffn-hidden-size %u --moe-grouped-gemm "
		"--moe-token-dispatcher-type alltoall",
		t->experts, t->top_k, t->ffn);
	if (t->expert_groups)
		fprintf(f, " \\\n  --moe-router-num-groups %u --moe-router-group-topk %u", t->expert_groups,
			t->group_limit);
	if (t->sigmoid_router)
		fputs(" \\\n  --moe-router-score-function sigmoid --moe-router-enable-expert-bias", f);
	if (t->router_scale > 0)
		fprintf(f, " \\\n  --moe-router-topk-scaling-factor %.9g", t->router_scale);
	if (t->shared_ffn)
		fprintf(f, " \\\n  --moe-shared-expert-intermediate-size %u", t->shared_ffn);
	if (t->latent)
		fprintf(f, " \\\n  --moe-latent-size %u", t->latent);
	if (!t->pattern)
		put_layers(t, f);
}

static void put_hybrid(const struct mq_transformer *t, FILE *f)
{
	const struct mq_mamba *m = &t->mamba;

	fprintf(f, " \\\n  --hybrid-layer-pattern \"%s", t->pattern);
	for (uint32_t i = 0; i < t->mtp; i++)
		fputs(t->experts ? "/*E" : "/*-", f);
	fputs("\"", f);
	if (strchr(t->pattern, 'M'))
		fprintf(f, " \\\n  --mamba-num-heads %u --mamba-head-dim %u --mamba-num-groups %u --mamba-state-dim %u",
			m->heads, m->head_dim, m->groups, m->state);
}

static void put_activation(const struct mq_transformer *t, FILE *f)
{
	if (t->clamp)
		fputs(CLAMP_FLAGS, f);
	else if (t->gated)
		fputs(" \\\n  --swiglu", f);
	else if (t->relu)
		fputs(" \\\n  --squared-relu", f);
}

void mq_megatron_write(const struct mq_transformer *t, FILE *f)
{
	bool outer = t->experts && (t->dense_layers || t->moe_every > 1) && t->dense_ffn;

	fprintf(f, " \\\n  --num-layers %u --hidden-size %u --num-attention-heads %u --ffn-hidden-size %u", t->layers,
		t->hidden, t->heads, outer ? t->dense_ffn : t->ffn);
	put_attention(t, f);
	put_positions(t, f);
	fprintf(f, " \\\n  --vocab-size %u", t->vocab);
	if (!t->tied)
		fputs(" --untie-embeddings-and-output-weights", f);
	fprintf(f, " \\\n  --normalization %s", t->rms ? "RMSNorm" : "LayerNorm");
	if (t->norm_eps > 0)
		fprintf(f, " --norm-epsilon %g", t->norm_eps);
	put_activation(t, f);
	if (!t->biases)
		fputs(" --disable-bias-linear", f);
	fputs(t->dropout ? " \\\n  --attention-dropout 0.1 --hidden-dropout 0.1" :
			   " \\\n  --attention-dropout 0.0 --hidden-dropout 0.0",
	      f);
	if (!t->fused)
		fputs(" \\\n  --attention-backend unfused", f);
	put_experts(t, f);
	if (t->pattern)
		put_hybrid(t, f);
	if (t->mtp)
		fprintf(f, " \\\n  --mtp-num-layers %u", t->mtp);
	if (t->mtp && t->mtp_shared)
		fputs(" --mtp-use-repeated-layer", f);
}

const char *mq_megatron_program(const struct mq_transformer *t)
{
	return t->pattern ? "pretrain_hybrid.py" : "pretrain_gpt.py";
}

/* ---- reading ------------------------------------------------------------------------------------- */

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
		*provider;
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
	if (!t->layers)
		t->layers = (uint32_t)strlen(main);
	if (strlen(main) == t->layers && strspn(main, "M*-E") == t->layers)
		return MQ_OK;
	return mq_bad(err, "--hybrid-layer-pattern %.60s: give a letter of M * - E for each of %u layers", r->pattern,
		      t->layers);
}

static enum mq_status read_window(struct read *r, struct mq_err *err)
{
	const char *c = r->window ? r->window + (*r->window == '(') : NULL;
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
