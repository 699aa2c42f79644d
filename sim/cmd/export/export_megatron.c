/*
 * export_megatron.c - Megatron-Core flags from a plan, and back.
 *
 * The order of ranks is Megatron's tp-cp-ep-dp-pp. Uneven layers become --pipeline-model-parallel-layout
 * ("Et*3|t*4|t*3L": E embedding, t a layer, L head and loss, | between stages, chunks of the interleaved
 * schedule in model order). Not said: data, tokenizer, learning rate.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/export/export.h"
#include "core/opt.h"

/* Megatron keeps gradients in fp32: its buckets count parameters. */
enum { GRAD_BYTES = 4, OWN_BUCKET = 40000000 }; /* its default of --ddp-bucket-size, in parameters */

static enum mq_status refuse(const struct mq_export *e, const struct mq_shape *s, struct mq_err *err)
{
	const struct mq_plan *p = e->plan;

	MQ_TRY(mq_export_one_width(e, "megatron", err));
	if (s->pp > 1 && p->pipeline != MQ_PIPE_1F1B && p->pipeline != MQ_PIPE_INTERLEAVED)
		return mq_fail(err, MQ_EINPUT, "megatron: has the schedules 1f1b and interleaved, not %s",
			       mq_pipeline_name(p->pipeline));
	if (s->sync != MQ_SYNC_ALLREDUCE && s->sync != MQ_SYNC_ZERO1)
		return mq_fail(err, MQ_EINPUT, "megatron: its distributed optimizer is zero1; %s is not "
			       "exported", mq_sync_name(s->sync));
	if (p->algo != MQ_ALGO_AUTO || p->proto != MQ_PROTO_AUTO)
		return mq_fail(err, MQ_EINPUT, "megatron: a forced collective algorithm (%s, %s) is no flag "
			       "of it; it is NCCL's environment", mq_algo_name(p->algo),
			       mq_proto_name(p->proto));
	if (s->tp > 1 && !s->vocab_parallel)
		return mq_fail(err, MQ_EINPUT, "megatron: always splits the vocabulary over tp; this plan "
			       "does not");
	if (p->broadcast_params)
		return mq_fail(err, MQ_EINPUT, "megatron: gathers parameters, it does not broadcast them");
	if (p->early_stop && s->recompute == MQ_RECOMPUTE_FULL)
		return mq_fail(err, MQ_EINPUT, "megatron: recomputes whole layers, early_stop is not its");
	if (p->overlap_tp && !s->sequence_parallel)
		return mq_fail(err, MQ_EINPUT, "megatron: overlaps tensor parallelism only with sequence "
			       "parallelism, which this plan lacks");
	if (p->offload_optimizer && s->sync != MQ_SYNC_ZERO1)
		return mq_fail(err, MQ_EINPUT, "megatron: offloads the optimizer only when distributed (zero1)");
	if (p->zero_group && (s->dp * s->cp) % p->zero_group)
		return mq_fail(err, MQ_EINPUT, "megatron: zero_group %u does not divide dp x cp = %u",
			       p->zero_group, s->dp * s->cp);
	if (fmod(p->bucket_B, GRAD_BYTES) != 0)
		return mq_fail(err, MQ_EINPUT, "megatron: buckets count parameters of %d bytes; bucket_B = %g",
			       GRAD_BYTES, p->bucket_B);
	return MQ_OK;
}

static bool is_even(const struct mq_shape *s, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		if (s->stage_layers[i] != s->stage_layers[0])
			return false;
	return true;
}

static void put_layout(const struct mq_shape *s, uint32_t n, FILE *f)
{
	fputs(" \\\n  --pipeline-model-parallel-layout \"E", f);
	for (uint32_t i = 0; i < n; i++) {
		fputs(i ? "|" : "", f);
		if (s->stage_layers[i])
			fprintf(f, "t*%u", s->stage_layers[i]);
	}
	fputs("L\"", f);
}

static void put_model(const struct mq_export *e, FILE *f)
{
	const struct mq_model *m = e->model;

	fprintf(f, " \\\n  --num-layers %u --hidden-size %u --num-attention-heads %u --ffn-hidden-size %u",
		m->n_layers, m->hidden, m->heads, m->ffn);
	if (m->kv_heads && m->kv_heads != m->heads)
		fprintf(f, " \\\n  --group-query-attention --num-query-groups %u", m->kv_heads);
	fprintf(f, " \\\n  --seq-length %u --max-position-embeddings %u", m->seq, m->seq);
	if (m->experts)
		fprintf(f, " \\\n  --num-experts %u --moe-router-topk %u", m->experts, m->top_k);
	if (!m->tied_embeddings)
		fputs(" \\\n  --untie-embeddings-and-output-weights", f);
	if (e->train->dtype == MQ_FP16 || e->train->dtype == MQ_BF16)
		fprintf(f, " \\\n  --%s", mq_dtype_name(e->train->dtype));
}

static void put_switches(const struct mq_export *e, const struct mq_shape *s, FILE *f)
{
	const struct mq_plan *p = e->plan;

	if (s->sequence_parallel && s->tp > 1)
		fputs(" \\\n  --sequence-parallel", f);
	if (s->sync == MQ_SYNC_ZERO1)
		fputs(" \\\n  --use-distributed-optimizer", f);
	if (p->zero_group)
		fprintf(f, " \\\n  --num-distributed-optimizer-instances %u", s->dp * s->cp / p->zero_group);
	if (p->offload_optimizer)
		fputs(" \\\n  --optimizer-cpu-offload --use-precision-aware-optimizer", f);
	if (p->overlap_grads)
		fputs(" \\\n  --overlap-grad-reduce", f);
	if (p->overlap_tp)
		fputs(" \\\n  --tp-comm-overlap", f);
	if (p->overlap_experts)
		fputs(" \\\n  --overlap-moe-expert-parallel-comm", f);
	if (p->bucket_B > 0 && p->bucket_B != OWN_BUCKET * GRAD_BYTES)
		fprintf(f, " \\\n  --ddp-bucket-size %.0f", p->bucket_B / GRAD_BYTES);
	if (!p->scatter_gather)
		fputs(" \\\n  --no-scatter-gather-tensors-in-pipeline", f);
	if (s->recompute == MQ_RECOMPUTE_FULL)
		fputs(" \\\n  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
		      f);
	if (s->recompute == MQ_RECOMPUTE_SELECTIVE)
		fputs(" \\\n  --recompute-granularity selective", f);
}

enum mq_status mq_export_megatron(const struct mq_export *e, FILE *f, struct mq_err *err)
{
	uint32_t mbs, n, nodes = 1, devices;
	struct mq_shape s;

	MQ_TRY(mq_export_shape(e, &s, err));
	MQ_TRY(refuse(e, &s, err));
	MQ_TRY(mq_export_micro_batch(e, s.dp, &mbs, err));
	n = s.pp * s.virtual;
	devices = s.dp * s.tp * s.cp * s.pp;
	for (uint32_t d = 1; d < devices; d++)
		nodes += e->cluster->device[d].node != e->cluster->device[d - 1].node;
	if (devices % nodes)
		return mq_fail(err, MQ_EINPUT, "megatron: %u devices do not fill %u nodes evenly", devices,
			       nodes);
	fprintf(f, "torchrun --nnodes %u --nproc-per-node %u pretrain_gpt.py", nodes, devices / nodes);
	fprintf(f, " \\\n  --tensor-model-parallel-size %u --pipeline-model-parallel-size %u", s.tp, s.pp);
	if (s.cp > 1)
		fprintf(f, " \\\n  --context-parallel-size %u", s.cp);
	if (s.ep > 1)
		fprintf(f, " \\\n  --expert-model-parallel-size %u", s.ep);
	if (!is_even(&s, n))
		put_layout(&s, n, f);
	else if (s.virtual > 1)
		fprintf(f, " \\\n  --num-virtual-stages-per-pipeline-rank %u", s.virtual);
	fprintf(f, " \\\n  --micro-batch-size %u --global-batch-size %.0f", mbs, e->train->batch);
	put_switches(e, &s, f);
	put_model(e, f);
	fputc('\n', f);
	return MQ_OK;
}

/* ---- import ---------------------------------------------------------------------------------------------- */

struct flags {
	const struct mq_export *e;
	struct mq_err *err;
	uint32_t world, nodes, per_node, tp, pp, cp, ep, vpp, layers_per_chunk, mbs, gbs, layers;
	uint32_t instances, bucket;
	bool sequence, zero1, overlap, selective, full, offload, no_scatter, count_embedding, count_loss;
	bool overlap_tp, overlap_experts;
	const char *layout, *skipped;
};

/* One word of a shell line: quotes, backslashes at line ends. NULL at the end. */
static const char *next_word(const char **text, struct mq_arena *arena)
{
	const char *c = *text;
	char *word, *to;

	while (isspace((unsigned char)*c) || (*c == '\\' && (c[1] == '\n' || c[1] == '\r')))
		c++;
	if (!*c)
		return NULL;
	word = to = mq_arena_alloc(arena, strlen(c) + 1);
	for (char quote = 0; *c && (quote || !isspace((unsigned char)*c)); c++) {
		if (quote ? *c == quote : *c == '"' || *c == '\'')
			quote = quote ? 0 : *c;
		else if (!(*c == '\\' && c[1] == '\n'))
			*to++ = *c;
	}
	*text = c;
	return word;
}

/* "--name value" and "--name=value". */
static enum mq_status take_number(struct flags *x, const char *name, const char *value, uint32_t *to)
{
	uint64_t v;

	if (!value || !mq_parse_u64(value, &v) || !v || v > UINT32_MAX)
		return mq_fail(x->err, MQ_EINPUT, "%s %s: give a whole number from 1", name,
			       value ? value : "");
	*to = (uint32_t)v;
	return MQ_OK;
}

struct row {
	const char *name;
	uint32_t *number;
	bool *set;
	const char **text;
};

static const struct row *find_row(const struct row *rows, const char *name)
{
	for (; rows->name; rows++)
		if (!strcmp(rows->name, name))
			return rows;
	return NULL;
}

static enum mq_status take_granularity(struct flags *x, const char *value)
{
	x->full = value && !strcmp(value, "full");
	x->selective = value && !strcmp(value, "selective");
	if (x->full || x->selective)
		return MQ_OK;
	return mq_fail(x->err, MQ_EINPUT, "--recompute-granularity %s: give full or selective",
		       value ? value : "");
}

static enum mq_status read_flags(struct flags *x, const char *text)
{
	const char *granularity = NULL;
	const struct row rows[] = {
		{ "--nnodes", &x->nodes, NULL, NULL },
		{ "--nproc-per-node", &x->per_node, NULL, NULL },
		{ "--nproc_per_node", &x->per_node, NULL, NULL },
		{ "--world-size", &x->world, NULL, NULL },
		{ "--tensor-model-parallel-size", &x->tp, NULL, NULL },
		{ "--pipeline-model-parallel-size", &x->pp, NULL, NULL },
		{ "--context-parallel-size", &x->cp, NULL, NULL },
		{ "--expert-model-parallel-size", &x->ep, NULL, NULL },
		{ "--num-virtual-stages-per-pipeline-rank", &x->vpp, NULL, NULL },
		{ "--num-layers-per-virtual-pipeline-stage", &x->layers_per_chunk, NULL, NULL },
		{ "--num-distributed-optimizer-instances", &x->instances, NULL, NULL },
		{ "--ddp-bucket-size", &x->bucket, NULL, NULL },
		{ "--micro-batch-size", &x->mbs, NULL, NULL },
		{ "--global-batch-size", &x->gbs, NULL, NULL },
		{ "--num-layers", &x->layers, NULL, NULL },
		{ "--sequence-parallel", NULL, &x->sequence, NULL },
		{ "--use-distributed-optimizer", NULL, &x->zero1, NULL },
		{ "--overlap-grad-reduce", NULL, &x->overlap, NULL },
		{ "--tp-comm-overlap", NULL, &x->overlap_tp, NULL },
		{ "--overlap-moe-expert-parallel-comm", NULL, &x->overlap_experts, NULL },
		{ "--recompute-activations", NULL, &x->selective, NULL },
		{ "--optimizer-cpu-offload", NULL, &x->offload, NULL },
		{ "--no-scatter-gather-tensors-in-pipeline", NULL, &x->no_scatter, NULL },
		{ "--account-for-embedding-in-pipeline-split", NULL, &x->count_embedding, NULL },
		{ "--account-for-loss-in-pipeline-split", NULL, &x->count_loss, NULL },
		{ "--pipeline-model-parallel-layout", NULL, NULL, &x->layout },
		{ "--recompute-granularity", NULL, NULL, &granularity },
		{ NULL, NULL, NULL, NULL },
	};

	for (const char *word; (word = next_word(&text, x->e->arena));) {
		char *name = mq_arena_strdup(x->e->arena, word), *equals = strchr(name, '=');
		const char *value = equals ? equals + 1 : NULL;

		if (equals && !strncmp(name, "--", 2))
			*equals = '\0';
		const struct row *row = find_row(rows, name);
		if (!row) {
			if (!strncmp(name, "--", 2))
				x->skipped = mq_arena_printf(x->e->arena, "%s %s", x->skipped, name);
			continue;
		}
		if (!value && !row->set)
			value = next_word(&text, x->e->arena);
		if (row->set)
			*row->set = true;
		else if (row->text)
			*row->text = value;
		else
			MQ_TRY(take_number(x, name, value, row->number));
	}
	return granularity ? take_granularity(x, granularity) : MQ_OK;
}

/* A layout of E, t, L, groups "( )", "*N", "|" and ",": layers per stage. */
static enum mq_status expand(struct flags *x, const char **c, char *out, size_t room)
{
	size_t n = 0, item;

	for (item = 0; **c && **c != ')'; (*c)++) {
		if (**c == '*') {
			char *end;
			unsigned long times = strtoul(*c + 1, &end, 10);
			size_t length = n - item;

			if (end == *c + 1 || !times || n + length * (times - 1) + 1 >= room)
				return mq_fail(x->err, MQ_EINPUT, "--pipeline-model-parallel-layout: '*' needs "
					       "a number, and at most %zu symbols in all", room);
			for (unsigned long i = 1; i < times; i++, n += length)
				memmove(out + n, out + item, length);
			*c = end - 1;
			item = n;
		} else if (**c == '(') {
			item = n;
			(*c)++;
			MQ_TRY(expand(x, c, out + n, room - n));
			if (**c != ')')
				return mq_fail(x->err, MQ_EINPUT, "--pipeline-model-parallel-layout: a '(' "
					       "without ')'");
			n += strlen(out + n);
		} else if (strchr("EtL|", **c)) {
			item = n;
			if (n + 2 >= room)
				return mq_fail(x->err, MQ_EINPUT, "--pipeline-model-parallel-layout: too long");
			out[n++] = **c;
		} else if (**c != ',') {
			return mq_fail(x->err, MQ_EINPUT,
				       "--pipeline-model-parallel-layout: '%c' is not one of E t L | , ( ) *N",
				       **c);
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

	MQ_TRY(expand(x, &c, all, room));
	end = strlen(all);
	if (*c || end < 2 || all[0] != 'E' || all[end - 1] != 'L')
		return mq_fail(x->err, MQ_EINPUT,
			       "--pipeline-model-parallel-layout %s: begin with E (embedding), end with L "
			       "(loss)", x->layout);
	*layers = mq_arena_array(x->e->arena, end, uint32_t);
	*n = 1;
	for (size_t i = 0; i < end; i++) {
		if (all[i] == '|')
			++*n;
		else if (all[i] == 't')
			(*layers)[*n - 1]++;
		else if (i && i != end - 1)
			return mq_fail(x->err, MQ_EINPUT, "--pipeline-model-parallel-layout %s: E is first and "
				       "L is last", x->layout);
	}
	return MQ_OK;
}

/* The embedding, the loss or both count as a layer each. */
static enum mq_status count_ends(struct flags *x, struct mq_shape *s)
{
	uint32_t layers = x->e->model->n_layers, total = layers + x->count_embedding + x->count_loss;
	uint64_t stages = (uint64_t)s->pp * s->virtual;

	if (total % stages)
		return mq_fail(x->err, MQ_EINPUT, "--account-for-...-in-pipeline-split: %u layers with those "
			       "counted are no multiple of %llu stages", total, (unsigned long long)stages);
	uint32_t n = (uint32_t)stages, *each = mq_arena_array(x->e->arena, n, uint32_t);
	for (uint32_t i = 0; i < n; i++)
		each[i] = total / n;
	each[0] -= x->count_embedding;
	each[n - 1] -= x->count_loss;
	s->stage_layers = each;
	return MQ_OK;
}

/* Chunks per rank and layers per chunk. */
static enum mq_status cut_stages(struct flags *x, struct mq_shape *s)
{
	uint32_t n = 0, *layers = NULL;

	if (x->layers_per_chunk) {
		uint64_t each = (uint64_t)s->pp * x->layers_per_chunk;
		uint32_t total = x->e->model->n_layers + x->count_embedding + x->count_loss;

		if (total % each)
			return mq_fail(x->err, MQ_EINPUT, "--num-layers-per-virtual-pipeline-stage %u: %u layers "
				       "are no multiple of %llu", x->layers_per_chunk, total,
				       (unsigned long long)each);
		s->virtual = (uint32_t)(total / each);
	}
	if (x->layout && (x->count_embedding || x->count_loss))
		return mq_fail(x->err, MQ_EINPUT, "--pipeline-model-parallel-layout excludes "
			       "--account-for-...-in-pipeline-split");
	if (s->pp > 1 && (x->count_embedding || x->count_loss))
		MQ_TRY(count_ends(x, s));
	if (x->layout) {
		MQ_TRY(read_layout(x, &layers, &n));
		if (n % s->pp)
			return mq_fail(x->err, MQ_EINPUT, "--pipeline-model-parallel-layout: %u stages are no "
				       "multiple of pipeline size %u", n, s->pp);
		s->virtual = n / s->pp;
		s->stage_layers = layers;
	}
	s->pipeline = s->virtual > 1 ? MQ_PIPE_INTERLEAVED : MQ_PIPE_1F1B;
	return MQ_OK;
}

static uint32_t or_1(uint32_t v)
{
	return v ? v : 1;
}

static enum mq_status read_shape(struct flags *x, struct mq_shape *s)
{
	const struct mq_export *e = x->e;
	uint64_t ranks = x->per_node ? (uint64_t)or_1(x->nodes) * x->per_node : x->world;
	uint32_t world = (uint32_t)ranks;

	if (ranks > UINT32_MAX)
		return mq_fail(x->err, MQ_EINPUT, "%u nodes of %u ranks are more than there can be", x->nodes,
			       x->per_node);
	world = world ? world : e->cluster->n_devices;
	*s = (struct mq_shape){ .tp = or_1(x->tp), .pp = or_1(x->pp), .cp = or_1(x->cp), .ep = or_1(x->ep),
				.virtual = or_1(x->vpp), .vocab_parallel = x->tp > 1,
				.sequence_parallel = x->sequence && x->tp > 1,
				.sync = x->zero1 ? MQ_SYNC_ZERO1 : MQ_SYNC_ALLREDUCE,
				.recompute = x->full ? MQ_RECOMPUTE_FULL :
					     x->selective ? MQ_RECOMPUTE_SELECTIVE : MQ_RECOMPUTE_NONE };
	double each = (double)s->tp * s->pp * s->cp; /* of flags that may say anything */
	if (each > world || fmod(world, each) > 0)
		return mq_fail(x->err, MQ_EINPUT, "%u ranks are no multiple of tp %u x pp %u x cp %u", world,
			       s->tp, s->pp, s->cp);
	s->dp = world / (s->tp * s->pp * s->cp);
	if (x->layers && x->layers != e->model->n_layers)
		return mq_fail(x->err, MQ_EINPUT, "--num-layers %u, but the model of -m has %u", x->layers,
			       e->model->n_layers);
	if (x->gbs && x->gbs != e->train->batch)
		return mq_fail(x->err, MQ_EINPUT, "--global-batch-size %u, but --batch is %g", x->gbs,
			       e->train->batch);
	double rounds = e->train->batch / s->dp / or_1(x->mbs);
	if (!(rounds >= 1) || rounds != floor(rounds))
		return mq_fail(x->err, MQ_EINPUT, "--micro-batch-size %u x dp %u does not divide the batch of %g",
			       or_1(x->mbs), s->dp, e->train->batch);
	s->micro_batches = (uint32_t)rounds;
	return cut_stages(x, s);
}

enum mq_status mq_import_megatron(const struct mq_export *e, const char *text, struct mq_plan *plan,
				  const char **skipped, struct mq_err *err)
{
	struct flags x = { .e = e, .err = err, .skipped = "" };
	struct mq_shape shape;
	struct mq_plan like;

	MQ_TRY(read_flags(&x, text));
	MQ_TRY(read_shape(&x, &shape));
	mq_plan_init(&like, e->arena, e->model->n_ops);
	/* a switch that is not given is off; without a size buckets are the software's */
	like.says = MQ_SAYS_OVERLAP_GRADS | MQ_SAYS_OVERLAP_TP | MQ_SAYS_OVERLAP_EXPERTS |
		    MQ_SAYS_SCATTER_GATHER | MQ_SAYS_OFFLOAD | (x.bucket ? MQ_SAYS_BUCKET : 0);
	like.overlap_grads = x.overlap;
	like.overlap_tp = x.overlap_tp;
	like.overlap_experts = x.overlap_experts;
	like.scatter_gather = !x.no_scatter;
	like.offload_optimizer = x.offload;
	like.bucket_B = (double)x.bucket * GRAD_BYTES;
	if (x.instances) {
		if (shape.dp * shape.cp % x.instances)
			return mq_fail(err, MQ_EINPUT, "--num-distributed-optimizer-instances %u does not divide "
				       "dp x cp = %u", x.instances, shape.dp * shape.cp);
		like.zero_group = shape.dp * shape.cp / x.instances;
	}
	*skipped = x.skipped;
	return mq_export_build(e, &shape, &like, plan, err);
}
