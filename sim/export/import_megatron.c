/* import_megatron.c - a plan from the flags of a Megatron-LM launch script.
 *
 * If the script describes the model too, it must equal that of -m. --no-scatter-gather-tensors-in-pipeline belongs to
 * older versions. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "base/quantity.h"
#include "base/text.h"
#include "model/formats/lib/megatron.h"

struct flags {
	const struct mq_export *e;
	struct mq_err *err;
	uint32_t world, nodes, per_node, tp, pp, cp, ulysses, ep, etp, vpp, layers_per_chunk, mbs, gbs, layers;
	uint32_t instances, bucket, first_layers, last_layers, offload_layers, recompute_layers;
	uint32_t accumulation, local_batch, copies, pipeline_micro_batch; /* flags of other programs, see launch.c */
	bool sequence, zero1, overlap, selective, full, offload, no_scatter, count_embedding, count_loss;
	bool overlap_param_gather, overlap_tp, overlap_experts, replica_major, bf16, fp16, grads_bf16, grads_fp32;
	bool ends_bf16, deferred, fp8_params, fsdp2, deepep, with_optimizer;
	uint32_t bf16_at_start, bf16_at_end, deferral_limit;
	double batch; /* of a step */
	const char *layout, *layout_flag, *skipped, *modules, *granularity, *sharding, *comm, *method;
	const char *deepspeed_config, *zero_stage, *shards, *schedule, *fp8, *recipe, *fp4, *selective_every, *option,
		*dispatcher, *token_dispatcher;
	uint8_t sync, method_is;
};

#define X(name, kind, field) { name, kind, offsetof(struct flags, field) },
static const struct mq_flag rows[] = {
#include "export/launch_flags.def"
	{ NULL, 0, 0 }
};
#undef X

static enum mq_status take_recompute(struct flags *x)
{
	const char *granularity = x->granularity, *method = x->method;
	const struct mq_software *s = x->e->software;
	const char *unknown, *ops;

	x->full |= granularity && !strcmp(granularity, "full");
	x->selective = granularity ? !strcmp(granularity, "selective") : x->selective;
	if (granularity && !x->full && !x->selective)
		return mq_bad(x->err, "--recompute-granularity %s: give full or selective", granularity);
	x->method_is = method && !strcmp(method, "block") ? MQ_RECOMPUTE_BLOCK : MQ_RECOMPUTE_UNIFORM;
	if (method && strcmp(method, mq_recompute_method_name(x->method_is)) != 0)
		return mq_bad(x->err, "--recompute-method %s: give block or uniform", method);
	if (x->recompute_layers == 1 && x->method_is == MQ_RECOMPUTE_UNIFORM)
		x->recompute_layers = 0;
	if (x->selective && x->selective_every && strcmp(x->selective_every, "op") != 0)
		return mq_bad(
			x->err,
			"selective_ac_option %.20s: a plan recomputes parts of all layers (op) or whole layers, not "
			"one of so many; give op, or mode full",
			x->selective_every);
	if (!x->modules || !x->selective || !strcmp(x->modules, "core_attn"))
		return MQ_OK;
	ops = mq_import_modules(x->modules, x->e->arena, &unknown);
	if (!ops)
		return mq_bad(x->err, "--recompute-modules %s: '%s' is none that is known", x->modules, unknown);
	if (s->selective != MQ_SELECTIVE_NAMED || strcmp(s->recompute_ops, ops) != 0)
		return mq_bad(x->err,
			      "--recompute-modules %s: a plan does not say parts of layers; give "
			      "--software '%s,selective=named,recompute_ops=%s'",
			      x->modules, s->file, ops);
	return MQ_OK;
}

/* DeepSpeed's ZeRO stage, or "hybrid": sharded inside a machine, replicated between machines. */
static enum mq_status take_stage(struct flags *x)
{
	static const uint8_t sync[] = { MQ_SYNC_ALLREDUCE, MQ_SYNC_ZERO1, MQ_SYNC_ZERO2, MQ_SYNC_ZERO3 };
	const char *stage = x->zero_stage;

	if (x->deepspeed_config && !stage)
		return mq_bad(
			x->err,
			"--deepspeed_config %.80s: that file says ZeRO's stage, and is not read; add --zero-stage N",
			x->deepspeed_config);
	if (stage && !strcmp(stage, "hybrid"))
		x->sync = MQ_SYNC_ZERO3;
	else if (stage && *stage >= '0' && *stage <= '3' && !stage[1])
		x->sync = sync[*stage - '0'];
	else if (stage)
		return mq_bad(x->err, "ZeRO's stage '%s': give 0, 1, 2 or 3", stage);
	else if (x->shards && strcmp(x->shards, "1") != 0)
		x->sync = MQ_SYNC_ZERO3;
	return MQ_OK;
}

static enum mq_status take_sharding(struct flags *x)
{
	const char *value = x->sharding;

	x->sync = x->fsdp2 ? MQ_SYNC_ZERO3 : x->zero1 ? MQ_SYNC_ZERO1 : MQ_SYNC_ALLREDUCE;
	for (uint8_t i = 0; i < MQ_N_SYNCS && value; i++)
		if (mq_megatron_sharding[i] && !strcmp(mq_megatron_sharding[i], value)) {
			x->sync = i;
			return MQ_OK;
		}
	MQ_TRY(take_stage(x));
	if (!value)
		return MQ_OK;
	return mq_bad(x->err,
		      "--data-parallel-sharding-strategy %s: give no_shard, optim, optim_grads or optim_grads_params",
		      value);
}

/* Lists unread flags, each once, at most a screen of them. */
static void skip(struct flags *x, const char *word)
{
	const char *name = mq_arena_printf(x->e->arena, "%.*s", (int)strcspn(word, "="), word);

	if (strlen(x->skipped) < 2000 && !mq_text_has_word(x->skipped, name))
		x->skipped = mq_arena_printf(x->e->arena, "%s %s", x->skipped, name);
}

/* "--nnodes $SLURM_NNODES", "--nproc_per_node gpu": not in the script, so taken from the platform. */
static bool left_to_platform(const struct mq_flag *row, const char *const *word)
{
	const char *equals = strchr(*word, '='), *value = equals ? equals + 1 : word[1];
	bool machines = row->offset == offsetof(struct flags, nodes) ||
			row->offset == offsetof(struct flags, per_node) || row->offset == offsetof(struct flags, world);

	return machines && value && (*value == '$' || !strcmp(value, "gpu") || !strcmp(value, "auto"));
}

/* The stages of a hybrid pattern with '|', "M*|M-", as a layout: "Ett|ttL". */
static const char *layout_of(const char *pattern, struct mq_arena *arena)
{
	char *text = mq_arena_printf(arena, "E%.*sL", (int)strcspn(pattern, "/"), pattern);

	for (char *c = text + 1; c[1]; c++)
		*c = *c == '|' ? '|' : 't';
	return strchr(text, '|') ? text : NULL;
}

static enum mq_status read_flags(struct flags *x, const struct mq_launch *launch)
{
	bool plans = false, left = false, takes;

	for (const char *const *word = launch->word; *word; word++) {
		const struct mq_flag *row = mq_flag_find(rows, *word);
		const char *name = *word;

		if (row && left_to_platform(row, word)) {
			left = true;
			word += !strchr(name, '=');
		} else if (row) {
			MQ_TRY(mq_flag_take(row, &word, x, x->e->arena, x->err));
		} else if (mq_megatron_describes(name, &takes)) {
			if (!strncmp(name, "--hybrid-layer-pattern", 22) && (name[22] || word[1])) {
				x->layout = layout_of(name[22] ? name + 23 : word[1], x->e->arena);
				x->layout_flag = "--hybrid-layer-pattern";
			}
			word += takes && !strchr(name, '=') && word[1];
		} else if (!strncmp(name, "--", 2) && name[2]) {
			skip(x, name);
		}
		plans |= row && !(row->kind & MQ_FLAG_BESIDE);
	}
	if (left)
		x->nodes = x->per_node = x->world = 0;
	for (const char *const *word = launch->doubt; *word; word++)
		if (mq_flag_find(rows, *word))
			return mq_bad(x->err,
				      "%s stands in a branch or loop that the script does not decide; give a script "
				      "with the one that is meant",
				      *word);
	if (!plans)
		return mq_bad(
			x->err,
			"no launch settings in this file: no flag of Megatron-LM as "
			"--tensor-model-parallel-size, nor a key of NeMo, FlagScale, torchtitan, DeepSpeed, "
			"accelerate, axolotl, LLaMA-Factory, torchtune, nanotron or GPT-NeoX that says how training is divided");
	MQ_TRY(take_sharding(x));
	if (x->comm && !strcmp(x->comm, "a2a"))
		x->ulysses = x->cp;
	else if (!x->comm || strcmp(x->comm, "a2a+p2p"))
		x->ulysses = 1;
	return take_recompute(x);
}

enum { MAX_DEPTH = 16 };

/* A layout of E, t, L, groups "( )", "*N", "|" and ",": layers per stage. */
static enum mq_status expand(struct flags *x, const char **c, uint32_t depth, char *out, size_t room)
{
	size_t n = 0, item;

	for (item = 0; **c && **c != ')'; (*c)++) {
		if (**c == '*') {
			char *end;
			unsigned long times = strtoul(*c + 1, &end, 10);
			size_t length = n - item;

			if (end == *c + 1 || !times || times > room || n + length * (times - 1) + 1 >= room)
				return mq_bad(x->err, "'*' needs a number, and at most %zu symbols in all", room);
			for (unsigned long i = 1; i < times; i++, n += length)
				memmove(out + n, out + item, length);
			*c = end - 1;
			item = n;
		} else if (**c == '(') {
			item = n;
			(*c)++;
			if (depth == MAX_DEPTH)
				return mq_bad(x->err, "more than %d '(' in each other", MAX_DEPTH);
			MQ_TRY(expand(x, c, depth + 1, out + n, room - n));
			if (**c != ')')
				return mq_bad(x->err, "a '(' without ')'");
			n += strlen(out + n);
		} else if (strchr("EtmL|", **c)) {
			item = n;
			if (n + 2 >= room)
				return mq_bad(x->err, "too long");
			out[n++] = **c;
		} else if (**c != ',') {
			return mq_bad(x->err, "'%c' is not one of E t m L | , ( ) *N", **c);
		}
	}
	out[n] = '\0';
	return MQ_OK;
}

static enum mq_status read_layout(struct flags *x, uint32_t **layers, uint32_t *n)
{
	size_t room = 65536;
	char *all = mq_arena_alloc(x->e->arena, room);
	const char *c = x->layout;
	size_t end;

	if (expand(x, &c, 0, all, room) != MQ_OK)
		return mq_wrap(x->err, "%s", x->layout_flag);
	end = strlen(all);
	if (*c || end < 2 || all[0] != 'E' || all[end - 1] != 'L')
		return mq_bad(x->err, "%s %s: begin with E (embedding), end with L (loss)", x->layout_flag, x->layout);
	*layers = mq_arena_array(x->e->arena, end, uint32_t);
	*n = 1;
	for (size_t i = 0; i < end; i++) {
		if (all[i] == '|')
			++*n;
		else if (all[i] == 't')
			(*layers)[*n - 1]++;
		else if (i && i != end - 1 && all[i] != 'm') /* m: a multi-token-prediction layer */
			return mq_bad(x->err, "%s %s: E is first and L is last", x->layout_flag, x->layout);
	}
	return MQ_OK;
}

/* The embedding, the loss or both count as a layer each. */
static enum mq_status count_ends(struct flags *x, struct mq_shape *s)
{
	uint32_t layers = x->e->model->n_layers, total = layers + x->count_embedding + x->count_loss;
	uint64_t stages = (uint64_t)s->pp * s->virtual;

	if (total % stages)
		return mq_bad(x->err,
			      "--account-for-...-in-pipeline-split: %u layers with those "
			      "counted are no multiple of %llu stages",
			      total, (unsigned long long)stages);
	uint32_t n = (uint32_t)stages, *each = mq_arena_array(x->e->arena, n, uint32_t);
	for (uint32_t i = 0; i < n; i++)
		each[i] = total / n;
	each[0] -= x->count_embedding;
	each[n - 1] -= x->count_loss;
	s->stage_layers = each;
	return MQ_OK;
}

/* The first or last stage, or both, have an explicit number of layers; the others share the rest. */
static enum mq_status own_ends(struct flags *x, struct mq_shape *s)
{
	uint32_t layers = x->e->model->n_layers;
	uint64_t given = (uint64_t)x->first_layers + x->last_layers;
	uint32_t rest = s->pp - (x->first_layers > 0) - (x->last_layers > 0);
	uint32_t *each = mq_arena_array(x->e->arena, s->pp, uint32_t);

	if (s->pp < 2 || s->virtual > 1 || x->layout || given > layers ||
	    (rest ? (layers - given) % rest : layers != given))
		return mq_bad(x->err,
			      "--decoder-first/last-pipeline-num-layers %u and %u leave the "
			      "others of %u layers to %u stages of one chunk: that does not divide",
			      x->first_layers, x->last_layers, layers, rest);
	for (uint32_t i = 0; i < s->pp; i++)
		each[i] = rest ? (layers - (uint32_t)given) / rest : 0;
	each[0] = x->first_layers ? x->first_layers : each[0];
	each[s->pp - 1] = x->last_layers ? x->last_layers : each[s->pp - 1];
	s->stage_layers = each;
	return MQ_OK;
}

/* Schedules by PyTorch's names; those with several stages per rank have two. */
static enum mq_status take_schedule(struct flags *x, struct mq_shape *s)
{
	for (const struct mq_torch_schedule *known = mq_torch_schedules; known->name; known++)
		if (!strcasecmp(known->name, x->schedule)) {
			s->pipeline = known->pipeline;
			s->virtual = known->chunks == 1 ? 1 : s->virtual > 1 ? s->virtual : known->chunks;
			return MQ_OK;
		}
	return mq_bad(x->err, "schedule '%s' is none of 1F1B, GPipe, Interleaved1F1B, ZBVZeroBubble, DualPipeV",
		      x->schedule);
}

/* Chunks per rank and layers per chunk. */
static enum mq_status cut_stages(struct flags *x, struct mq_shape *s)
{
	uint32_t n = 0, *layers = NULL;

	if (x->layers_per_chunk) {
		uint64_t each = (uint64_t)s->pp * x->layers_per_chunk;
		uint32_t total = x->e->model->n_layers + x->count_embedding + x->count_loss;

		if (total % each)
			return mq_bad(x->err,
				      "--num-layers-per-virtual-pipeline-stage %u: %u layers are no multiple of %llu",
				      x->layers_per_chunk, total, (unsigned long long)each);
		s->virtual = (uint32_t)(total / each);
	}
	if (x->layout && (x->count_embedding || x->count_loss))
		return mq_bad(x->err, "%s excludes --account-for-...-in-pipeline-split", x->layout_flag);
	if (s->pp > 1 && (x->count_embedding || x->count_loss))
		MQ_TRY(count_ends(x, s));
	if (x->first_layers || x->last_layers)
		MQ_TRY(own_ends(x, s));
	if (x->layout) {
		MQ_TRY(read_layout(x, &layers, &n));
		if (n % s->pp)
			return mq_bad(x->err, "%s: %u stages are no multiple of pipeline size %u", x->layout_flag, n,
				      s->pp);
		s->virtual = n / s->pp;
		s->stage_layers = layers;
	}
	s->pipeline = s->virtual > 1 ? MQ_PIPE_INTERLEAVED : MQ_PIPE_1F1B;
	return x->schedule && s->pp > 1 ? take_schedule(x, s) : MQ_OK;
}

/* Micro-batches, by size or number. A batch per replica, as in torchtitan, is only split by its pipeline. */
static enum mq_status cut_batch(struct flags *x, struct mq_shape *s)
{
	double batch, said = x->gbs;

	if (x->local_batch)
		x->mbs = s->pp > 1 ? mq_or_1(x->pipeline_micro_batch) : x->local_batch;
	if (!x->gbs && x->local_batch)
		said = (double)x->local_batch * s->dp;
	else if (!x->gbs && x->accumulation && x->mbs)
		said = (double)x->mbs * x->accumulation * s->dp;
	MQ_TRY(mq_import_batch(x->e, said, &batch, x->err));
	x->batch = batch;
	if (said > 0 && said != batch)
		return mq_bad(x->err, "%s %.0f, but --batch is %g",
			      x->gbs ? "--global-batch-size" : "its batches on all replicas come to", said, batch);
	double rounds = x->accumulation && !x->mbs ? x->accumulation : batch / s->dp / mq_or_1(x->mbs);
	if (!(rounds >= 1) || rounds != floor(rounds) || rounds > 1e9)
		return mq_bad(x->err, "--micro-batch-size %u x dp %u does not divide the batch of %g", mq_or_1(x->mbs),
			      s->dp, batch);
	s->micro_batches = (uint32_t)rounds;
	return MQ_OK;
}

/* Ranks that share one copy of the sharded state; 0: all. */
static enum mq_status shard_group(struct flags *x, const struct mq_shape *s, uint32_t *group)
{
	const struct mq_cluster *c = x->e->cluster;
	uint32_t ranks = s->dp * s->cp, copies = x->instances ? x->instances : mq_or_1(x->copies), here = x->per_node;
	uint64_t shards;

	for (uint32_t i = 0; i < c->n_devices && !x->per_node; i++)
		here += c->device[i].node == c->device[0].node;
	if (x->zero_stage && !strcmp(x->zero_stage, "hybrid"))
		copies = here && here < ranks ? ranks * s->tp / here : 1;
	if (!copies || ranks % copies)
		return mq_bad(x->err, "%u copies of the sharded state do not divide dp x cp = %u", copies, ranks);
	if (x->shards && mq_parse_u64(x->shards, &shards) && shards && shards * mq_or_1(x->copies) != s->dp)
		return mq_bad(x->err, "%s shards x %u copies are not dp %u: give %.0f devices", x->shards,
			      mq_or_1(x->copies), s->dp, (double)shards * mq_or_1(x->copies) * s->tp * s->cp * s->pp);
	*group = copies > 1 && x->sync != MQ_SYNC_ALLREDUCE ? ranks / copies : 0;
	return MQ_OK;
}

/* Flags that differ from the question, as options: " --dtype bf16 --grad-dtype bf16"; "" if it has no types. */
static const char *types(const struct flags *x)
{
	const struct mq_train *t = x->e->train;
	struct mq_arena *arena = x->e->arena;
	enum mq_dtype dtype = x->bf16 ? MQ_BF16 : x->fp16 ? MQ_FP16 : MQ_FP32;
	enum mq_dtype grads = x->grads_bf16 ? MQ_BF16 : MQ_FP32;
	enum mq_gemm_dtype gemm = x->fp4                                  ? MQ_GEMM_FP4 :
				  !x->fp8                                 ? MQ_GEMM_AS_DTYPE :
				  x->recipe && strstr(x->recipe, "mxfp8") ? MQ_GEMM_MXFP8 :
									    MQ_GEMM_FP8;
	static const char *const gemms[] = { "dtype", "fp8", "mxfp8", "fp4" };
	const char *text = "";

	if (!x->bf16 && !x->fp16 && !x->fp8 && !x->fp4 && !x->grads_bf16 && !x->grads_fp32)
		return text;
	if ((x->bf16 || x->fp16) && dtype != t->dtype)
		text = mq_arena_printf(arena, " --dtype %s", mq_dtype_name(dtype));
	if (gemm != t->gemm_dtype)
		text = mq_arena_printf(arena, "%s --gemm-dtype %s", text, gemms[gemm]);
	if ((x->grads_bf16 || x->grads_fp32) && grads != t->grad_dtype)
		text = mq_arena_printf(arena, "%s --grad-dtype %s", text, mq_dtype_name(grads));
	return text;
}

/* Flags that differ from the software's defaults. */
static const char *software(const struct flags *x)
{
	const struct mq_software *s = x->e->software;
	struct mq_arena *arena = x->e->arena;
	uint32_t start = x->ends_bf16 ? x->bf16_at_start : 0, end = x->ends_bf16 ? x->bf16_at_end : 0;
	uint32_t limit = x->deferred ? x->deferral_limit : 0;
	const char *text = "";

	if ((x->fp8 || x->fp4) && (start != s->num_layers_at_start_in_bf16 || end != s->num_layers_at_end_in_bf16))
		text = mq_arena_printf(arena, ",num_layers_at_start_in_bf16=%u,num_layers_at_end_in_bf16=%u", start,
				       end);
	if (x->fp8 && x->fp8_params != s->fp8_params)
		text = mq_arena_printf(arena, "%s,fp8_params=%u", text, x->fp8_params);
	if (x->pp > 1 && (x->deferred != s->defer_embedding_wgrad_compute || limit != s->wgrad_deferral_limit))
		text = mq_arena_printf(arena, "%s,defer_embedding_wgrad_compute=%u,wgrad_deferral_limit=%u", text,
				       x->deferred, limit);
	bool flex = x->token_dispatcher && !strcmp(x->token_dispatcher, "flex"); /* its backend is DeepEP by default */
	if (x->ep > 1 && (x->deepep || x->dispatcher || flex) && !s->deepep)
		text = mq_arena_printf(arena, "%s,deepep=1", text);
	if (x->with_optimizer && !s->overlap_param_gather_with_optimizer_step)
		text = mq_arena_printf(arena, "%s,overlap_param_gather_with_optimizer_step=1", text);
	if (x->option && !strstr(s->name, x->option))
		text = mq_arena_printf(arena, "%s,%s", text, x->option);
	return *text ? mq_arena_printf(arena, " --software %s%s", s->file, text) : "";
}

static enum mq_status read_shape(struct flags *x, struct mq_shape *s)
{
	const struct mq_export *e = x->e;
	uint64_t ranks = x->per_node ? (uint64_t)mq_or_1(x->nodes) * x->per_node : x->world;
	uint32_t world = (uint32_t)ranks;

	if (ranks > UINT32_MAX)
		return mq_bad(x->err, "%u nodes of %u ranks are more than there can be", x->nodes, x->per_node);
	world = world ? world : e->cluster->n_devices;
	*s = (struct mq_shape){ .tp = mq_or_1(x->tp),
				.pp = mq_or_1(x->pp),
				.cp = mq_or_1(x->cp),
				.ep = mq_or_1(x->ep),
				.virtual = mq_or_1(x->vpp),
				.vocab_parallel = x->tp > 1,
				.sequence_parallel = x->sequence && x->tp > 1,
				.sync = x->sync,
				.recompute = x->full      ? MQ_RECOMPUTE_FULL :
					     x->selective ? MQ_RECOMPUTE_SELECTIVE :
							    MQ_RECOMPUTE_NONE };
	double each = (double)s->tp * s->pp * s->cp; /* double: flags may have any value */
	if (each > world || fmod(world, each) > 0)
		return mq_bad(x->err, "%u ranks are no multiple of tp %u x pp %u x cp %u", world, s->tp, s->pp, s->cp);
	if (s->ep > 1 && !e->model->experts)
		return mq_bad(x->err, "its expert parallelism is %u, but the model of -m has no experts", s->ep);
	s->dp = world / (s->tp * s->pp * s->cp);
	s->ulysses = x->ulysses;
	if (s->ep > 1 && (s->dp % s->ep || (x->etp && x->etp != s->tp)))
		s->etp = x->etp ? x->etp : s->tp;
	if (x->layers && x->layers != e->model->n_layers)
		return mq_bad(x->err, "--num-layers %u, but the model of -m has %u", x->layers, e->model->n_layers);
	MQ_TRY(cut_batch(x, s));
	return cut_stages(x, s);
}

/* Keys missing in a recipe have the defaults of its model class, not Megatron's: taken from -m. */
static void leave_unsaid(const struct mq_launch *launch, const struct mq_transformer *is, struct mq_transformer *said)
{
	double groups = mq_launch_number(launch, "--num-query-groups");

	said->kv_heads = groups >= 1 && groups < 1e6 ? (uint32_t)groups : is->kv_heads;
	if (!mq_launch_has(launch, "--position-embedding-type")) {
		said->rotary = is->rotary;
		said->positions = is->positions;
		said->yarn = is->yarn;
	}
	if (!mq_launch_has(launch, "--normalization"))
		said->rms = is->rms;
	if (!mq_launch_has(launch, "--swiglu") && !mq_launch_has(launch, "--squared-relu")) {
		said->gated = is->gated;
		said->relu = is->relu;
		said->squared = is->squared;
		said->clamp = is->clamp;
	}
	said->ffn = mq_launch_has(launch, "--ffn-hidden-size") ? said->ffn : is->ffn;
	said->biases = is->biases && !mq_launch_has(launch, "--disable-bias-linear");
	said->tied = is->tied && !mq_launch_has(launch, "--untie-embeddings-and-output-weights");
	said->qkv_bias = is->qkv_bias;
	said->qk_norm = is->qk_norm;
	if (!mq_launch_has(launch, "--attention-dropout") && !mq_launch_has(launch, "--hidden-dropout"))
		said->dropout = is->dropout;
}

/* MQ_EINPUT: the script's model differs from -m, except in what costs nothing or what the tokenizer decides. */
static enum mq_status check_model(const struct flags *x, const struct mq_launch *launch, bool recipe)
{
	const struct mq_transformer *is = x->e->model->stack;
	struct mq_transformer said;

	if (!is || !mq_megatron_has_model(launch->word) || mq_launch_has(launch, "--spec"))
		return MQ_OK;
	MQ_TRY(mq_megatron_read(launch->word, x->e->arena, &said, x->err));
	if (recipe)
		leave_unsaid(launch, is, &said);
	/* a config.json has the padded vocabulary */
	if (!said.vocab || (said.vocab < is->vocab && is->vocab - said.vocab < 128 * mq_or_1(x->tp)))
		said.vocab = is->vocab;
	said.seq = said.seq ? said.seq : is->seq;
	said.rope_theta = is->rope_theta;
	said.rope_part = is->rope_part;
	said.rope = is->rope;
	said.router_scale = is->router_scale;
	said.norm_eps = is->norm_eps;
	said.fused = is->fused;
	said.sigmoid_router = is->sigmoid_router;
	said.positions = said.positions ? is->positions : 0;
	MQ_TRY(mq_transformer_check(&said, "its model", x->err));
	const char *differs = mq_export_differs(x->e, &said, "the flags");
	return differs ? mq_bad(x->err, "its flags describe another model than -m: %s", differs) : MQ_OK;
}

/* Missing flags of Megatron are off; buckets have a default, and only old scripts say how stages send. Missing settings
 * of other programs are left to the software. */
static void decide(const struct flags *x, bool megatron, struct mq_plan *like)
{
	like->explicit = x->offload ? MQ_EXPLICIT_OFFLOAD_OPTIMIZER : 0;
	like->explicit |= x->overlap_tp ? MQ_EXPLICIT_OVERLAP_TP : 0;
	if (megatron)
		like->explicit |=
			(MQ_EXPLICIT_OVERLAP_GRADS | MQ_EXPLICIT_OFFLOAD_OPTIMIZER | MQ_EXPLICIT_OVERLAP_EXPERTS |
			 MQ_EXPLICIT_OVERLAP_PARAM_GATHER | MQ_EXPLICIT_OVERLAP_TP | MQ_EXPLICIT_OFFLOAD_LAYERS);
	like->explicit |= x->no_scatter ? MQ_EXPLICIT_SCATTER_GATHER : 0;
	like->explicit |= x->bucket ? MQ_EXPLICIT_BUCKET : 0;
	if (x->full) {
		like->explicit |= MQ_EXPLICIT_RECOMPUTE_NUM_LAYERS | MQ_EXPLICIT_RECOMPUTE_METHOD;
		like->recompute_num_layers = x->recompute_layers;
		like->recompute_method = x->recompute_layers ? x->method_is : MQ_RECOMPUTE_BLOCK;
	}
	like->overlap_grads = x->overlap;
	like->overlap_param_gather = x->overlap_param_gather;
	like->overlap_tp = x->overlap_tp;
	like->overlap_experts = x->overlap_experts;
	like->scatter_gather = !x->no_scatter;
	like->offload_optimizer = x->offload;
	like->offload_layers = x->offload_layers;
	like->bucket_B = x->bucket * mq_dtype_size(x->e->train->grad_dtype); /* Megatron counts parameters */
}

enum mq_status mq_import_megatron(const struct mq_export *e, const struct mq_launch *launch, struct mq_plan *plan,
				  struct mq_import_notes *notes, struct mq_err *err)
{
	bool nemo = !strncmp(launch->program, "NeMo", 4), megatron = nemo || !strcmp(launch->program, "Megatron-LM");
	bool titan = !strcmp(launch->program, "torchtitan");
	struct flags x = { .e = e,
			   .err = err,
			   .skipped = launch->unread,
			   .layout_flag = "--pipeline-model-parallel-layout",
			   .sequence = titan, /* its tensor parallelism splits the sequence too */
			   .shards = titan ? "-1" : NULL,
			   .bf16_at_start = 1,
			   .bf16_at_end = 1 };
	struct mq_shape shape;
	struct mq_plan like;

	MQ_TRY(read_flags(&x, launch));
	if (megatron)
		MQ_TRY(check_model(&x, launch, nemo));
	MQ_TRY(read_shape(&x, &shape));
	mq_plan_init(&like, e->arena, e->model->n_ops);
	decide(&x, megatron, &like);
	MQ_TRY(shard_group(&x, &shape, &like.zero_group));
	if (x.replica_major)
		shape.device = mq_shape_replica_major(&shape, e->arena);
	*notes = (struct mq_import_notes){ x.skipped, mq_arena_printf(e->arena, "%s%s", types(&x), software(&x)),
					   x.batch };
	return mq_export_build(e, &shape, &like, plan, err);
}
