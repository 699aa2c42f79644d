/* import_torchtitan.c - a plan from a recipe of `export --to torchtitan`.
 *
 * A recipe is a program; its settings "name = value" and "name=value" with a number, a text, True, False or None are
 * read, so users may edit them. Computed values are not read. SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* The text after the first "name =" whose value is a number, a text, True, False or None; NULL: none. */
static const char *find_setting(const char *text, const char *name)
{
	size_t n = strlen(name);

	for (const char *c = text; (c = strstr(c, name)); c += n) {
		const char *after = c + n + strspn(c + n, " ");

		if ((c > text && is_name(c[-1])) || is_name(c[n]) || *after != '=' || after[1] == '=')
			continue;
		after += 1 + strspn(after + 1, " ");
		if (isdigit((unsigned char)*after) || *after == '"' || !strncmp(after, "True", 4) ||
		    !strncmp(after, "False", 5) || !strncmp(after, "None", 4))
			return after;
	}
	return NULL;
}

static double number(const char *text, const char *name, double otherwise)
{
	const char *at = find_setting(text, name);

	if (!at || *at == '"' || *at == 'N')
		return otherwise;
	return *at == 'T' ? 1 : *at == 'F' ? 0 : strtod(at, NULL);
}

static uint32_t whole(const char *text, const char *name, uint32_t otherwise)
{
	double x = number(text, name, otherwise);

	return x >= 0 && x < 4e9 ? (uint32_t)x : 0;
}

static bool says(const char *text, const char *name, const char *value)
{
	const char *at = find_setting(text, name);

	return at && *at == '"' && !strncmp(at + 1, value, strlen(value)) && at[1 + strlen(value)] == '"';
}

enum mq_status mq_titan_read_model(const char *text, struct mq_arena *arena, struct mq_transformer *t,
				   struct mq_err *err)
{
	static const char *const wanted[] = { "n_layers", "dim", "vocab_size", "n_heads", "hidden_dim", "max_seq_len" };

	(void)arena;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
		if (!whole(text, wanted[i], 0))
			return mq_bad(err,
				      "the recipe has no %s = NUMBER; give one as `export --to torchtitan` "
				      "writes them",
				      wanted[i]);
	*t = (struct mq_transformer){
#define X(field, name, read, otherwise) .field = read(text, #name, otherwise),
#include "export/torchtitan_model.def"
#undef X
		.sigmoid_router = says(text, "score_func", "sigmoid"),
		.rms = true,
		.gated = true,
		.rotary = true,
		.causal = true,
		.fused = true,
	};
	if (says(text, "scaling", "yarn"))
		t->rope = (struct mq_rope){ .kind = "yarn",
					    .factor = number(text, "rope_factor", 1),
					    .length = whole(text, "original_seq_len", 4096),
					    .fast = number(text, "beta_fast", 32),
					    .slow = number(text, "beta_slow", 1),
					    .unrounded = !number(text, "truncate", 1),
					    .mscale = number(text, "mscale", 1),
					    .mscale_all = number(text, "mscale", 1) };
	else if (says(text, "scaling", "llama"))
		t->rope = (struct mq_rope){ .kind = "llama3",
					    .factor = number(text, "scaling_factor", 8),
					    .length = whole(text, "original_max_position_embeddings", 8192),
					    .low = number(text, "low_freq_factor", 1),
					    .high = number(text, "high_freq_factor", 4) };
	t->ffn = t->experts ? whole(text, "moe_hidden_dim", 0) : t->dense_ffn;
	return MQ_OK;
}

/* Layers of each part of module_fqns_per_model_part; NULL: the recipe has none. */
static const uint32_t *read_parts(const char *text, struct mq_arena *arena, uint32_t *n)
{
	const char *c = strstr(text, "module_fqns_per_model_part=["), *end = c ? strstr(c, "\n        ],") : NULL;
	uint32_t *layers;

	if (!end)
		return NULL;
	layers = mq_arena_array(arena, (size_t)(end - c), uint32_t);
	for (*n = 0, c = strchr(c, '[') + 1; c < end; c++) {
		if (*c == ']')
			++*n;
		else if (!strncmp(c, "\"layers.", 8))
			layers[*n]++;
	}
	return layers;
}

static enum mq_status read_shape(const struct mq_export *e, const char *text, struct mq_shape *s, uint32_t *group,
				 double *batch, struct mq_err *err)
{
	uint32_t copies = whole(text, "data_parallel_replicate_degree", 1), parts = 0;
	uint32_t shards = whole(text, "data_parallel_shard_degree", 1);
	double samples = number(text, "global_batch_size", 0), local = number(text, "local_batch_size", samples);

	*s = (struct mq_shape){
		.dp = copies * shards,
		.tp = whole(text, "tensor_parallel_degree", 1),
		.cp = whole(text, "context_parallel_degree", 1),
		.ep = whole(text, "expert_parallel_degree", 1),
		.pp = whole(text, "pipeline_parallel_degree", 1),
		.virtual = 1,
		.sync = shards == 1                                       ? MQ_SYNC_ALLREDUCE :
			says(text, "fsdp_reshard_after_forward", "never") ? MQ_SYNC_ZERO2 :
									    MQ_SYNC_ZERO3,
		.recompute = strstr(text, "FullAC.Config()")      ? MQ_RECOMPUTE_FULL :
			     strstr(text, "SelectiveAC.Config()") ? MQ_RECOMPUTE_SELECTIVE :
								    MQ_RECOMPUTE_NONE,
		.pipeline = MQ_PIPE_1F1B,
	};
	s->etp = s->ep > 1 && s->tp * s->cp > 1 ? 1 : 0;
	s->vocab_parallel = s->tp > 1;
	s->sequence_parallel = s->tp > 1 && whole(text, "enable_sequence_parallel", 1);
	if (!s->dp || !s->tp || !s->cp || !s->ep || !s->pp)
		return mq_bad(err, "the recipe's degrees are from 1");
	MQ_TRY(mq_import_batch(e, samples, batch, err));
	if (samples != *batch || number(text, "seq_len", 0) != e->model->seq)
		return mq_bad(err,
			      "global_batch_size=%.0f and seq_len=%.0f, but --batch and the sequence are %.0f and %u",
			      samples, number(text, "seq_len", 0), *batch, e->model->seq);
	double rounds = samples / s->dp / (s->pp > 1 ? number(text, "pipeline_parallel_microbatch_size", 1) : local);
	if (!(rounds >= 1) || rounds != floor(rounds) || rounds > 1e9)
		return mq_bad(err, "its micro-batches do not divide the samples of a step over %u replicas", s->dp);
	s->micro_batches = (uint32_t)rounds;
	s->stage_layers = s->pp > 1 ? read_parts(text, e->arena, &parts) : NULL;
	if (s->stage_layers && (!parts || parts % s->pp))
		return mq_bad(err, "module_fqns_per_model_part has %u parts for %u stages", parts, s->pp);
	for (const struct mq_torch_schedule *known = mq_torch_schedules; s->pp > 1 && known->name; known++)
		if (says(text, "pipeline_parallel_schedule", known->name)) {
			s->pipeline = known->pipeline;
			s->virtual = known->chunks;
		}
	if (s->stage_layers)
		s->virtual = parts / s->pp;
	*group = copies > 1 && shards > 1 ? shards * s->cp : 0;
	return MQ_OK;
}

enum mq_status mq_import_torchtitan(const struct mq_export *e, const char *text, struct mq_plan *plan,
				    struct mq_import_notes *notes, struct mq_err *err)
{
	struct mq_transformer said;
	struct mq_shape shape;
	struct mq_plan like;
	const char *differs;

	mq_plan_init(&like, e->arena, e->model->n_ops);
	MQ_TRY(mq_titan_read_model(text, e->arena, &said, err));
	MQ_TRY(mq_transformer_check(&said, "its model", err));
	if ((differs = mq_export_differs(e, &said, "the recipe")))
		return mq_bad(err, "the recipe's model is another than -m: %s", differs);
	MQ_TRY(read_shape(e, text, &shape, &like.zero_group, &notes->batch, err));
	like.explicit = whole(text, "enable_async_tensor_parallel", 0) ? MQ_EXPLICIT_OVERLAP_TP : 0;
	like.overlap_tp = like.explicit;
	return mq_export_build(e, &shape, &like, plan, err);
}
