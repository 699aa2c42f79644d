/* transformer_fields.c - where two descriptions of a stack differ: what writers of settings check themselves with, by
 * reading back what they wrote. SPDX-License-Identifier: Apache-2.0 */
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

#define NUMBER(field)                                    \
	{                                                \
#field, (double)a.field, (double)b.field \
	}

struct row {
	const char *name;
	double a, b;
};

const char *mq_transformer_compare(const struct mq_transformer *first, const struct mq_transformer *second, uint32_t *n,
				   char text[96])
{
	const struct mq_transformer a = used(first), b = used(second);
	const struct row rows[] = {
		NUMBER(layers),
		NUMBER(hidden),
		NUMBER(heads),
		NUMBER(kv_heads),
		NUMBER(head_dim),
		NUMBER(ffn),
		NUMBER(vocab),
		NUMBER(seq),
		NUMBER(positions),
		NUMBER(token_types),
		NUMBER(experts),
		NUMBER(top_k),
		NUMBER(expert_groups),
		NUMBER(group_limit),
		NUMBER(shared_ffn),
		NUMBER(dense_layers),
		NUMBER(dense_ffn),
		NUMBER(moe_every),
		NUMBER(q_rank),
		NUMBER(kv_rank),
		NUMBER(nope_dim),
		NUMBER(rope_dim),
		NUMBER(value_dim),
		NUMBER(mamba.heads),
		NUMBER(mamba.head_dim),
		NUMBER(mamba.groups),
		NUMBER(mamba.state),
		NUMBER(mamba.kernel),
		NUMBER(mamba.chunk),
		NUMBER(latent),
		NUMBER(mtp),
		NUMBER(mtp_shared),
		NUMBER(predictions),
		NUMBER(biases),
		NUMBER(qkv_bias),
		NUMBER(proj_bias),
		NUMBER(qk_norm),
		NUMBER(gated),
		NUMBER(gelu),
		NUMBER(relu),
		NUMBER(squared),
		NUMBER(rms),
		NUMBER(clamp),
		NUMBER(window),
		NUMBER(full_every),
		NUMBER(tied),
		NUMBER(headless),
		NUMBER(causal),
		NUMBER(fused),
		NUMBER(rotary),
		NUMBER(rope_part),
		NUMBER(yarn),
		NUMBER(dropout),
		NUMBER(undropped),
		NUMBER(post_norm),
		NUMBER(output_norms),
		NUMBER(no_input_norms),
		NUMBER(parallel),
		NUMBER(softcap),
		NUMBER(sigmoid_router),
		NUMBER(pretrain_heads),
		NUMBER(span_head),
		NUMBER(mamba.rank),
		NUMBER(mamba.norms),
		NUMBER(mamba.ungated),
		NUMBER(linear.key_heads),
		NUMBER(linear.key_dim),
		NUMBER(linear.value_heads),
		NUMBER(linear.value_dim),
		NUMBER(linear.kernel),
		NUMBER(linear.rank),
		NUMBER(index_heads),
		NUMBER(index_dim),
		NUMBER(index_keys),
		NUMBER(local_heads),
		NUMBER(local_kv_heads),
		NUMBER(local_head_dim),
		NUMBER(local_value_dim),
		NUMBER(one_norm),
		NUMBER(output_gate),
		NUMBER(shared_kv),
		NUMBER(chunked),
		NUMBER(embedding_norm),
	};
	const struct {
		const char *name, *a, *b;
	} letters[] = { { "pattern", a.pattern, b.pattern },
			{ "mixers", a.mixers, b.mixers },
			{ "feeds", a.feeds, b.feeds } };

	const bool known[] = { a.rope_theta > 0, a.norm_eps > 0 };
	const struct row reals[] = { NUMBER(rope_theta), NUMBER(norm_eps) };
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
