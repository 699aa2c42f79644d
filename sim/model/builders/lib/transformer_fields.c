/* transformer_fields.c - the fields of a description by name, and where two descriptions differ: what writers of settings
 * check themselves with, by reading back what they wrote. SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "model/builders/lib/transformer.h"

/* A description in which what no layer uses is zero. */
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
		u.rope_theta = u.rope_part = 0;
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
		u.sigmoid_router = false;
	return u;
}

/* Numbers and flags of a description, in the order in which a difference is told. */
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
	X(chunked) X(embedding_norm)
/* clang-format on */
#define NUMBER(field) { #field, (double)a.field, (double)b.field },

struct row {
	const char *name;
	double a, b;
};

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
	static const struct mq_field fields[] = { FIELDS(PLACE) PLACE(rope_theta) PLACE(norm_eps) PLACE(pattern)
							  PLACE(contrast) };

	*n = sizeof(fields) / sizeof(*fields);
	return fields;
}

const char *mq_transformer_compare(const struct mq_transformer *first, const struct mq_transformer *second, uint32_t *n,
				   char text[96])
{
	const struct mq_transformer a = used(first), b = used(second);
	const struct row rows[] = { FIELDS(NUMBER) };
	const struct {
		const char *name, *a, *b;
	} letters[] = { { "pattern", a.pattern, b.pattern },
			{ "mixers", a.mixers, b.mixers },
			{ "feeds", a.feeds, b.feeds } };
	const bool known[] = { a.rope_theta > 0, a.norm_eps > 0 };
	const struct row reals[] = { NUMBER(rope_theta) NUMBER(norm_eps) };
	const char *differs = NULL;

	*n = 0;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if ((rows[i].a < rows[i].b || rows[i].a > rows[i].b) && !(*n)++) {
			snprintf(text, 96, "%.9g and %.9g", rows[i].a, rows[i].b);
			differs = rows[i].name;
		}
	for (size_t i = 0; i < sizeof(letters) / sizeof(*letters); i++) {
		const char *x = letters[i].a ? letters[i].a : "none", *y = letters[i].b ? letters[i].b : "none";

		if (strcmp(x, y) && !(*n)++) {
			snprintf(text, 96, "%.40s and %.40s", x, y);
			differs = letters[i].name;
		}
	}
	for (size_t i = 0; i < sizeof(reals) / sizeof(*reals); i++)
		if (known[i] && (reals[i].a < reals[i].b || reals[i].a > reals[i].b) && !(*n)++) {
			snprintf(text, 96, "%.9g and %.9g", reals[i].a, reals[i].b);
			differs = reals[i].name;
		}
	return differs;
}

const char *mq_transformer_differs(const struct mq_transformer *a, const struct mq_transformer *b, char text[96])
{
	uint32_t n;

	return mq_transformer_compare(a, b, &n, text);
}
