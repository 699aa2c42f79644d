/* transformer.c - see transformer.h. Decoder stacks (GPT, Llama, mixtures of experts) and BERT's encoder share it: they
 * differ in norms, biases, masks, embeddings and heads. SPDX-License-Identifier: Apache-2.0 */
#include "model/builders/lib/transformer.h"

#include <math.h>
#include <string.h>

static enum mq_status check_pattern(const struct mq_transformer *t, const char *what, struct mq_err *err)
{
	const struct mq_mamba *m = &t->mamba;

	if (strlen(t->pattern) != t->layers || strspn(t->pattern, "M*-E") != t->layers)
		return mq_bad(err, "%s: pattern '%.200s' is not a letter of M * - E for each of %u layers", what,
			      t->pattern, t->layers);
	if (strchr(t->pattern, 'E') && !t->experts)
		return mq_bad(err, "%s: pattern '%.200s' has experts; give experts= and top_k=", what, t->pattern);
	if (strchr(t->pattern, 'M') && (!m->groups || m->heads % m->groups))
		return mq_bad(err, "%s: mamba_heads=%u is not a multiple of groups=%u", what, m->heads, m->groups);
	return MQ_OK;
}

static enum mq_status check_letters(const struct mq_transformer *t, const char *what, struct mq_err *err)
{
	const struct {
		const char *name, *letters, *known;
	} rows[] = { { "mixers", t->mixers, "*WIMHDLC." }, { "feeds", t->feeds, "-E." } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].letters &&
		    (strlen(rows[i].letters) != t->layers || strspn(rows[i].letters, rows[i].known) != t->layers))
			return mq_bad(err, "%s: %s '%.200s' is not a letter of %s for each of %u layers", what,
				      rows[i].name, rows[i].letters, rows[i].known, t->layers);
	return MQ_OK;
}

/* Does any layer have one of these mixers? */
static bool mixes_with(const struct mq_transformer *t, const char *letters)
{
	return (t->mixers && strpbrk(t->mixers, letters)) || (t->pattern && strpbrk(t->pattern, letters));
}

static enum mq_status check_mixers(const struct mq_transformer *t, const char *what, struct mq_err *err)
{
	const struct mq_linear *l = &t->linear;
	const struct mq_mamba *m = &t->mamba;

	if (t->pattern)
		MQ_TRY(check_pattern(t, what, err));
	MQ_TRY(check_letters(t, what, err));
	if (mixes_with(t, "DL") && !(l->key_heads && l->key_dim && l->value_heads && l->value_dim))
		return mq_bad(err, "%s: linear attention needs heads and widths of keys and values", what);
	if (mixes_with(t, "DC") && !l->kernel)
		return mq_bad(err, "%s: convolutions need a kernel", what);
	if (mixes_with(t, "MH") && !(m->heads && m->head_dim && m->state && m->kernel && (m->rank || m->chunk)))
		return mq_bad(err, "%s: Mamba layers need heads, their width, state, kernel and chunk", what);
	if (mixes_with(t, "I") && !(t->kv_rank && t->index_heads && t->index_dim && t->index_keys))
		return mq_bad(err, "%s: an indexer needs latent attention, heads, their width and top keys", what);
	if ((t->local_heads ? t->local_heads : t->heads) % (t->local_kv_heads ? t->local_kv_heads : t->kv_heads))
		return mq_bad(err, "%s: heads of windowed layers are not a multiple of theirs of keys", what);
	return MQ_OK;
}

enum mq_status mq_transformer_check(struct mq_transformer *t, const char *what, struct mq_err *err)
{
	const struct {
		const char *name;
		uint32_t value, max;
	} dims[] = {
		{ "layers", t->layers, 10000 },   { "hidden", t->hidden, 10000000 }, { "heads", t->heads, 1000000 },
		{ "vocab", t->vocab, 100000000 }, { "seq", t->seq, 100000000 },
	};

	for (size_t i = 0; i < sizeof(dims) / sizeof(*dims); i++)
		if (!dims[i].value || dims[i].value > dims[i].max)
			return mq_bad(err, "%s: %s=%u is out of range; give 1 to %u", what, dims[i].name, dims[i].value,
				      dims[i].max);
	if (!t->head_dim && t->hidden % t->heads)
		return mq_bad(err, "%s: hidden=%u is not a multiple of heads=%u; change one, or give head_dim", what,
			      t->hidden, t->heads);
	if (!t->head_dim)
		t->head_dim = t->hidden / t->heads;
	if (!t->kv_heads)
		t->kv_heads = t->heads;
	if (t->kv_heads > t->heads || t->heads % t->kv_heads)
		return mq_bad(err, "%s: heads=%u is not a multiple of kv_heads=%u", what, t->heads, t->kv_heads);
	if (!t->ffn)
		t->ffn = 4 * t->hidden;
	if (t->kv_rank && !(t->value_dim && t->nope_dim + t->rope_dim))
		return mq_bad(err, "%s: latent attention needs the widths of its heads", what);
	MQ_TRY(check_mixers(t, what, err));
	if (t->predictions > t->seq)
		return mq_bad(err, "%s: predictions=%u exceed the sequence of %u", what, t->predictions, t->seq);
	if (t->experts && (!t->top_k || t->top_k > t->experts))
		return mq_bad(err, "%s: top_k=%u is out of range; give 1 to experts=%u", what, t->top_k, t->experts);
	if (t->positions && t->seq > t->positions)
		return mq_bad(err, "%s: a sequence of %u exceeds the %u learned positions; give a shorter --seq", what,
			      t->seq, t->positions);
	return MQ_OK;
}

/* DeepSeek-V3.2's lightning indexer: queries from the compressed Q, one key for all heads and a weight per head;
 * scores of all pairs (GEMMs, ReLU and weighted sum over heads: deep_gemm's fp8_mqa_logits writes 32 bits per pair), of
 * which a top-k pass keeps t->index_keys. Every tensor-parallel rank computes all of it. */
static uint32_t index_keys(struct mq_net *net, const struct mq_transformer *t, uint32_t input, uint32_t compressed)
{
	double pairs = net->rows * net->rows, heads = t->index_heads, dim = t->index_dim;
	double from = t->q_rank ? t->q_rank : t->hidden;
	uint32_t parts[] = { mq_net_gemm_whole(net, "index.q", compressed, from, heads * dim),
			     mq_net_gemm_whole(net, "index.k", input, t->hidden, dim),
			     mq_net_gemm_whole(net, "index.weights", input, t->hidden, heads) };
	const double widths[] = { heads * dim, dim, heads };
	uint32_t id = mq_net_add(net, MQ_OP_BMM, "index.scores"),
		 best = mq_net_add(net, MQ_OP_ELEMENTWISE, "index.top");
	struct mq_op *op = mq_net_at(net, id), *top = mq_net_at(net, best);

	op->m = op->n = net->rows;
	op->k = dim;
	op->count = heads;
	op->flop = 2 * pairs * dim * heads;
	op->flop_bwd = 2 * op->flop;
	op->read = net->rows * (heads * dim + dim + heads);
	op->write = op->output = 2 * pairs;
	op->moved_bwd = 2 * (op->read + op->write);
	op->saved = op->read;
	op->param = 2 * dim; /* the norm of keys */
	top->read = 2 * pairs;
	top->write = top->output = net->rows * fmin(net->rows, t->index_keys);
	top->flop = pairs;
	top->splits &= ~(1u << MQ_DIM_SEQ);
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		mq_net_join(net, parts[i], id, widths[i]);
	mq_net_join(net, id, best, net->rows);
	return best;
}

/* Multi-head latent attention (DeepSeek-V2, 2024) in its training form: low-rank projections with norms make Q,
 * and K and V; every tensor-parallel rank computes them in full. Each head's K includes the rotary part of K,
 * which all heads share. */
static uint32_t latent_block(struct mq_net *net, const struct mq_transformer *t, uint32_t input, bool indexed)
{
	double k = (double)t->nope_dim + t->rope_dim, heads = t->heads;
	double narrow = (double)t->q_rank + t->kv_rank;
	const struct mq_attention a = {
		.heads = heads,
		.kv_heads = heads,
		.head_dim = k,
		.value_dim = t->value_dim,
		.keys = net->rows,
		.causal = t->causal,
		.fused = t->fused,
		.rotary = t->rotary,
		.window = t->index_keys, /* the best of the earlier keys: as many pairs as in a window */
	};
	uint32_t down = mq_net_gemm_whole(net, "latent", input, t->hidden, narrow + t->rope_dim);
	uint32_t norm = mq_net_norm(net, "latent.norm", down, narrow);
	uint32_t q = mq_net_gemm(net, "q", t->q_rank ? norm : input, t->q_rank ? t->q_rank : t->hidden, heads * k);
	uint32_t kv = mq_net_gemm(net, "kv", norm, t->kv_rank, heads * ((double)t->nope_dim + t->value_dim));
	uint32_t attention = mq_net_attention(net, "attention", mq_net_by_head(net, q, heads, false),
					      mq_net_by_head(net, kv, heads, false), &a);
	if (indexed) {
		mq_net_join(net, index_keys(net, t, input, norm), attention, t->index_keys);
		mq_net_no_grad(net); /* indices have none */
	}
	return mq_net_gemm(net, "proj", attention, heads * t->value_dim, t->hidden);
}

/* Does the layer's attention have the sliding window? */
static bool is_local(const struct mq_transformer *t, uint32_t layer)
{
	if (layer == MQ_NONE || !t->window)
		return false;
	return t->mixers ? t->mixers[layer] == 'W' : !t->full_every || (layer + 1) % t->full_every;
}

static double either(uint32_t local, uint32_t otherwise)
{
	return local ? local : otherwise;
}

/* Attention output times sigmoid(gate): two kernels, which read the gate, its sigmoid and the output. */
static uint32_t gate_output(struct mq_net *net, uint32_t attention, uint32_t qkv, double width, double heads)
{
	/* saved: the sigmoid, and the input of proj */
	uint32_t id = mq_net_step(net, "attention.gate", attention, width, &(struct mq_step){ 5, 10, 3, 2, 7, 2 });

	mq_net_at(net, id)->kernels = 2;
	mq_net_by_head(net, id, heads, false);
	mq_net_join(net, qkv, id, width);
	return id;
}

/* Attention that stores scores computes all of them, despite the window. */
static uint32_t attention_block(struct mq_net *net, const struct mq_transformer *t, uint32_t input)
{
	bool local = is_local(t, net->layer), biases = net->biases, dropout = net->dropout;
	double value_dim = local ? either(t->local_value_dim, t->value_dim) : t->value_dim;
	struct mq_attention a = {
		.heads = local ? either(t->local_heads, t->heads) : t->heads,
		.kv_heads = local ? either(t->local_kv_heads, t->kv_heads) : t->kv_heads,
		.head_dim = local ? either(t->local_head_dim, t->head_dim) : t->head_dim,
		.keys = net->rows,
		.causal = t->causal,
		.fused = t->fused,
		.rotary = t->rotary,
		.window = local && t->fused ? t->window : 0,
		.chunked = t->chunked,
	};
	a.value_dim = value_dim > 0 ? value_dim : a.head_dim;
	double q = a.heads * a.head_dim, out = a.heads * a.value_dim, gate = t->output_gate ? out : 0;
	double kv = a.kv_heads * (a.head_dim + (t->shared_kv && !local ? 0 : a.value_dim));

	net->biases = biases || t->qkv_bias;
	uint32_t qkv = mq_net_by_head(net, mq_net_gemm(net, "qkv", input, t->hidden, q + kv + gate), a.heads, false);
	net->dropout = dropout && !t->undropped;
	uint32_t attention = mq_net_attention(net, "attention", qkv, MQ_NONE, &a);
	net->dropout = dropout;
	if (t->rope_part > 0)
		mq_net_at(net, attention)->rotated *= t->rope_part;
	mq_net_at(net, attention)->scaled = t->rotary && t->yarn;
	mq_net_at(net, attention)->param = t->relative * a.heads;
	if (t->qk_norm) {
		mq_net_at(net, attention)->param += 2.0 * a.head_dim;
		mq_net_at(net, attention)->kernels += 2;
	}
	if (t->output_gate)
		attention = gate_output(net, attention, qkv, out, a.heads);
	net->biases = biases || t->proj_bias;
	uint32_t proj = mq_net_gemm(net, "proj", attention, out, t->hidden);
	net->biases = biases;
	return proj;
}

static enum mq_activation activation_of(const struct mq_transformer *t)
{
	return t->gated ? MQ_ACT_GATED : t->relu ? MQ_ACT_RELU : MQ_ACT_GELU;
}

static uint32_t dense_block(struct mq_net *net, const struct mq_transformer *t, uint32_t input, double ffn)
{
	uint32_t up = mq_net_gemm(net, "up", input, t->hidden, t->gated ? 2 * ffn : ffn);
	uint32_t act = mq_net_activation(net, "activation", up, ffn, activation_of(t));

	return mq_net_gemm(net, "down", act, ffn, t->hidden);
}

static uint32_t expert_block(struct mq_net *net, const struct mq_transformer *t, uint32_t input)
{
	double taken = t->capacity ? t->capacity * (double)t->experts / net->rows : t->top_k;
	const struct mq_experts e = { .hidden = t->hidden,
				      .ffn = t->ffn,
				      .experts = t->experts,
				      .top_k = fmin(t->top_k, taken),
				      .latent = t->latent,
				      .activation = activation_of(t),
				      .clamp = t->clamp };
	uint32_t routed = mq_net_experts(net, input, &e);
	const char *prefix = net->prefix;
	bool dropout = net->dropout;

	if (!t->shared_ffn)
		return routed;
	net->prefix = mq_arena_printf(net->arena, "%sshared.", prefix);
	uint32_t shared = dense_block(net, t, input, t->shared_ffn);
	net->prefix = prefix;
	net->dropout = false;
	uint32_t sum = mq_net_residual(net, "experts.sum", shared, routed, t->hidden);
	net->dropout = dropout;
	return sum;
}

static bool has_experts(const struct mq_transformer *t, uint32_t layer)
{
	if (t->feeds && layer != MQ_NONE)
		return t->feeds[layer] == 'E';
	if (!t->experts || (layer != MQ_NONE && layer < t->dense_layers))
		return false;
	return layer == MQ_NONE || !t->moe_every || (layer + 1) % t->moe_every == 0;
}

/* Mamba and attention in parallel: both read one norm, their sum enters the residual stream (Falcon-H1). */
static uint32_t mamba_beside(struct mq_net *net, const struct mq_transformer *t, uint32_t x)
{
	uint32_t a = attention_block(net, t, x), b = mq_net_mamba(net, x, t->hidden, &t->mamba);
	bool dropout = net->dropout;

	net->dropout = false;
	uint32_t sum = mq_net_residual(net, "mixers.sum", a, b, t->hidden);
	net->dropout = dropout;
	return sum;
}

static uint32_t mixing_block(struct mq_net *net, const struct mq_transformer *t, uint32_t x)
{
	char usual = t->index_heads ? 'I' : '*';
	char letter = t->mixers && net->layer != MQ_NONE ? t->mixers[net->layer] : usual;

	switch (letter) {
	case 'M':
		return mq_net_mamba(net, x, t->hidden, &t->mamba);
	case 'H':
		return mamba_beside(net, t, x);
	case 'D':
		return mq_net_delta(net, x, t->hidden, &t->linear);
	case 'L':
		return mq_net_lightning(net, x, t->hidden, &t->linear);
	case 'C':
		return mq_net_short_conv(net, x, t->hidden, &t->linear);
	default:
		return t->kv_rank ? latent_block(net, t, x, letter == 'I') : attention_block(net, t, x);
	}
}

static uint32_t feed_forward(struct mq_net *net, const struct mq_transformer *t, uint32_t x)
{
	if (has_experts(t, net->layer))
		return expert_block(net, t, x);
	return dense_block(net, t, x, t->experts && t->dense_ffn ? t->dense_ffn : t->ffn);
}

static uint32_t parallel_block(struct mq_net *net, const struct mq_transformer *t, uint32_t stream)
{
	uint32_t x = mq_net_norm(net, "norm1", stream, t->hidden);
	uint32_t a = mixing_block(net, t, x);
	uint32_t b = feed_forward(net, t, t->one_norm ? x : mq_net_norm(net, "norm2", stream, t->hidden));

	stream = mq_net_residual(net, "residual1", a, stream, t->hidden);
	return mq_net_residual(net, "residual2", b, stream, t->hidden);
}

uint32_t mq_transformer_part(struct mq_net *net, const struct mq_transformer *t, uint32_t stream, bool feeds,
			     const char *index)
{
	bool before = !t->post_norm && !t->no_input_norms;
	const char *norm = mq_arena_printf(net->arena, "norm%s", index);
	uint32_t x = before ? mq_net_norm(net, norm, stream, t->hidden) : stream;

	x = feeds ? feed_forward(net, t, x) : mixing_block(net, t, x);
	if (t->output_norms)
		x = mq_net_norm(net, feeds ? "ffn.norm" : "attention.norm", x, t->hidden);
	stream = mq_net_residual(net, mq_arena_printf(net->arena, "residual%s", index), x, stream, t->hidden);
	return t->post_norm ? mq_net_norm(net, norm, stream, t->hidden) : stream;
}

static uint32_t block(struct mq_net *net, const struct mq_transformer *t, uint32_t stream)
{
	bool inside = net->layer != MQ_NONE;

	if (t->parallel)
		return parallel_block(net, t, stream);
	if (!inside || !t->mixers || t->mixers[net->layer] != '.')
		stream = mq_transformer_part(net, t, stream, false, "1");
	if (!inside || !t->feeds || t->feeds[net->layer] != '.')
		stream = mq_transformer_part(net, t, stream, true, "2");
	return stream;
}

uint32_t mq_transformer_layer(struct mq_net *net, const struct mq_transformer *t, char letter, uint32_t stream)
{
	if (!letter)
		return block(net, t, stream);
	uint32_t x = mq_net_norm(net, "norm", stream, t->hidden);

	switch (letter) {
	case 'M':
		x = mq_net_mamba(net, x, t->hidden, &t->mamba);
		break;
	case '*':
		x = attention_block(net, t, x);
		break;
	case 'E':
		x = expert_block(net, t, x);
		break;
	default:
		x = dense_block(net, t, x, t->experts && t->dense_ffn ? t->dense_ffn : t->ffn);
		break;
	}
	return mq_net_residual(net, "residual", x, stream, t->hidden);
}

static uint32_t parts_of(const struct mq_transformer *t)
{
	uint32_t parts = mixes_with(t, "MH") ? 1u << (t->mamba.rank ? MQ_PART_MAMBA1 : MQ_PART_MAMBA2) : 0;

	parts |= mixes_with(t, "D") ? 1u << MQ_PART_DELTA_NET : 0;
	parts |= mixes_with(t, "L") ? 1u << MQ_PART_LIGHTNING : 0;
	parts |= mixes_with(t, "C") ? 1u << MQ_PART_SHORT_CONV : 0;
	parts |= t->index_heads ? 1u << MQ_PART_INDEXER : 0;
	return parts | (t->towers ? 1u << MQ_PART_TOWER : 0);
}

void mq_transformer_describe(struct mq_model *m, const struct mq_transformer *t, uint32_t layers)
{
	m->n_layers = layers;
	m->tokens_per_sample = t->seq;
	m->hidden = t->hidden;
	m->heads = t->heads;
	m->kv_heads = t->kv_heads;
	m->head_dim = t->head_dim;
	m->ffn = t->ffn;
	m->vocab = t->vocab;
	m->seq = t->seq;
	m->experts = t->experts;
	m->top_k = t->top_k;
	m->expert_groups = t->expert_groups;
	m->group_limit = t->group_limit;
	m->tied_embeddings = t->tied;
	m->parts = parts_of(t);
}

uint32_t mq_transformer_blocks(struct mq_net *net, const struct mq_transformer *t, uint32_t first, uint32_t stream)
{
	const char *prefix = net->prefix;

	for (uint32_t i = 0; i < t->layers; i++) {
		net->layer = first == MQ_NONE ? MQ_NONE : first + i;
		net->prefix = mq_arena_printf(net->arena, "%slayer%u.", prefix, i);
		stream = mq_transformer_layer(net, t, t->pattern ? t->pattern[i] : 0, stream);
	}
	net->layer = MQ_NONE;
	net->prefix = prefix;
	return stream;
}
