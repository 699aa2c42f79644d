/* transformer_fields.c - the fields of a description by name, and the differences of two descriptions: exports check
 * themselves with them by reading back what they wrote. SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "model/builders/lib/transformer.h"

/* Sets the fields that no layer uses to zero. */
static struct mq_transformer used(const struct mq_transformer *t)
{
	struct mq_transformer u = *t;
	bool latent = t->kv_rank > 0, window = t->window && t->causal && t->window < t->seq;
	bool experts = t->experts > 0, every = experts && !t->dense_layers && t->moe_every <= 1;

	u.name = NULL;
	if (latent)
		u.kv_heads = u.head_dim = 0;
	if (!window)
		u.window = 0;
	if (!u.window)
		u.full_every = u.chunked = 0;
	if (!u.window || !u.local_heads || u.local_heads == u.heads)
		u.local_heads = 0;
	if (!u.parallel)
		u.one_norm = false;
	if (!experts || every)
		u.dense_ffn = 0;
	if (u.moe_every == 1)
		u.moe_every = 0;
	if (!experts)
		u.dense_layers = u.moe_every = u.top_k = u.expert_groups = u.group_limit = 0;
	if (!u.expert_groups)
		u.group_limit = 0;
	if (experts && !every && !u.dense_ffn)
		u.dense_ffn = u.ffn;
	if (u.biases)
		u.qkv_bias = u.proj_bias = false;
	if (!u.rotary)
		u.rope_theta = u.rope_part = 0, u.rope = (struct mq_rope){ NULL };
	if (u.rope_part == 1)
		u.rope_part = 0;
	if (!u.relu)
		u.squared = false;
	if (!u.gated)
		u.gelu = false;
	if (!(u.pattern && strchr(u.pattern, 'M')) && !(u.mixers && strpbrk(u.mixers, "MH")))
		memset(&u.mamba, 0, sizeof(u.mamba));
	if (!u.mixers || !strpbrk(u.mixers, "DLC"))
		memset(&u.linear, 0, sizeof(u.linear));
	if (!u.mtp)
		u.mtp_shared = false;
	if (!u.pretrain_heads)
		u.predictions = 0;
	if (!experts)
		u.sigmoid_router = false, u.router_scale = 0;
	return u;
}

/* The fields of a description, in the order of comparison. */
/* clang-format off */
#define FIELDS(X) \
	X(layers) X(hidden) X(heads) X(kv_heads) X(head_dim) X(ffn) X(vocab) X(seq) X(positions) \
	X(token_types) X(experts) X(top_k) X(expert_groups) X(group_limit) X(shared_ffn) X(dense_layers) \
	X(dense_ffn) X(moe_every) X(q_rank) X(kv_rank) X(nope_dim) X(rope_dim) X(value_dim) X(mamba.heads) \
	X(mamba.head_dim) X(mamba.groups) X(mamba.state) X(mamba.kernel) X(mamba.chunk) X(latent) X(mtp) \
	X(mtp_shared) X(predictions) X(biases) X(qkv_bias) X(proj_bias) X(qk_norm) X(gated) X(gelu) X(relu) \
	X(squared) X(rms) X(clamp) X(window) X(full_every) X(tied) X(headless) X(causal) X(fused) X(rotary) \
	X(rope_part) X(yarn) X(dropout) X(undropped) X(post_norm) X(output_norms) X(no_input_norms) \
	X(parallel) X(softcap) X(sigmoid_router) X(pretrain_heads) X(span_head) X(mamba.rank) X(mamba.norms) \
	X(mamba.ungated) X(linear.key_heads) X(linear.key_dim) X(linear.value_heads) X(linear.value_dim) \
	X(linear.kernel) X(linear.rank) X(index_heads) X(index_dim) X(index_keys) X(local_heads) \
	X(local_kv_heads) X(local_head_dim) X(local_value_dim) X(one_norm) X(output_gate) X(shared_kv) \
	X(chunked) X(embedding_norm) X(pattern) X(mixers) X(feeds) X(rope_theta) X(norm_eps) X(contrast) \
	X(rope.kind) X(rope.factor) X(rope.length) X(rope.fast) X(rope.slow) X(rope.unrounded) X(rope.mscale) X(rope.mscale_all) \
	X(rope.attention) X(rope.low) X(rope.high) X(router_scale)
/* clang-format on */

const struct mq_field *mq_field_find(const struct mq_field *fields, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(fields[i].name, name))
			return &fields[i];
	return NULL;
}

const struct mq_field *mq_transformer_fields(size_t *n)
{
#define PLACE(field) MQ_FIELD(struct mq_transformer, field),
	static const struct mq_field fields[] = { FIELDS(PLACE) };

	*n = sizeof(fields) / sizeof(*fields);
	return fields;
}

/* The value of a field that is no text. */
static double number_of(const struct mq_field *f, const void *of)
{
	const void *at = (const char *)of + f->offset;

	return f->type == 'n' ? *(const uint32_t *)at : f->type == 'd' ? *(const double *)at : *(const bool *)at;
}

/* Do the two differ in a field? `text` gets both values. */
static bool differs_in(const struct mq_field *f, const struct mq_transformer *a, const struct mq_transformer *b,
		       char text[96])
{
	if (f->type == 's') {
		const char *x = *(const char *const *)(const void *)((const char *)a + f->offset);
		const char *y = *(const char *const *)(const void *)((const char *)b + f->offset);

		snprintf(text, 96, "%.40s and %.40s", x ? x : "none", y ? y : "none");
		return strcmp(x ? x : "none", y ? y : "none") != 0;
	}
	double x = number_of(f, a), y = number_of(f, b);
	bool unknown = (f->type == 'd' && f->offset != offsetof(struct mq_transformer, rope_part)) ||
		       f->offset == offsetof(struct mq_transformer, rope.length);

	snprintf(text, 96, "%.9g and %.9g", x, y);
	return (x < y || x > y) && (x > 0 || !unknown);
}

const char *mq_transformer_compare(const struct mq_transformer *first, const struct mq_transformer *second, uint32_t *n,
				   char text[96])
{
	const struct mq_transformer a = used(first), b = used(second);
	size_t n_fields;
	const struct mq_field *fields = mq_transformer_fields(&n_fields), *differs = NULL;
	char values[96];

	*n = 0;
	for (size_t i = 0; i < n_fields; i++)
		if (differs_in(&fields[i], &a, &b, values) && !(*n)++) {
			memcpy(text, values, sizeof(values));
			differs = &fields[i];
		}
	return differs ? differs->name : NULL;
}

const char *mq_transformer_differs(const struct mq_transformer *a, const struct mq_transformer *b, char text[96])
{
	uint32_t n;

	return mq_transformer_compare(a, b, &n, text);
}
