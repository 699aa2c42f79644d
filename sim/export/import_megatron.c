/* import_megatron.c - a plan from the flags of a Megatron-LM launch script.
 *
 * Where the script says the model too, it must be the one of -m. --no-scatter-gather-tensors-in-pipeline is of older
 * versions. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "maquette/opt.h"
#include "base/quantity.h"
#include "base/shell.h"
#include "model/formats/lib/megatron.h"

/* Megatron keeps gradients in fp32: its buckets count parameters. */
enum { GRAD_BYTES = 4 };

struct flags {
	const struct mq_export *e;
	struct mq_err *err;
	uint32_t world, nodes, per_node, tp, pp, cp, ulysses, ep, etp, vpp, layers_per_chunk, mbs, gbs, layers;
	uint32_t instances, bucket, first_layers, last_layers, offload_layers, recompute_layers;
	bool sequence, zero1, overlap, selective, full, offload, no_scatter, count_embedding, count_loss;
	bool overlap_tp, overlap_experts, replica_major;
	const char *layout, *skipped, *modules;
	uint8_t sync, method;
};

/* "--name value" and "--name=value". */
static enum mq_status take_number(struct flags *x, const char *name, const char *value, uint32_t *to)
{
	uint64_t v;

	if (!value || !mq_parse_u64(value, &v) || !v || v > UINT32_MAX)
		return mq_fail(x->err, MQ_EINPUT, "%s %s: give a whole number from 1", name, value ? value : "");
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
	return mq_fail(x->err, MQ_EINPUT, "--recompute-granularity %s: give full or selective", value ? value : "");
}

/* A plan says which layers are computed again; which parts of them, the software's options say. */
static enum mq_status take_recompute(struct flags *x, const char *granularity, const char *method)
{
	const struct mq_software *s = x->e->software;
	const char *unknown, *ops;

	if (granularity)
		MQ_TRY(take_granularity(x, granularity));
	x->method = method && !strcmp(method, "block") ? MQ_RECOMPUTE_BLOCK : MQ_RECOMPUTE_UNIFORM;
	if (method && strcmp(method, mq_recompute_method_name(x->method)) != 0)
		return mq_fail(x->err, MQ_EINPUT, "--recompute-method %s: give block or uniform", method);
	if (x->recompute_layers == 1 && x->method == MQ_RECOMPUTE_UNIFORM)
		x->recompute_layers = 0;
	if (!x->modules || !x->selective || !strcmp(x->modules, "core_attn"))
		return MQ_OK;
	ops = mq_import_modules(x->modules, x->e->arena, &unknown);
	if (!ops)
		return mq_fail(x->err, MQ_EINPUT, "--recompute-modules %s: '%s' is none that is known", x->modules,
			       unknown);
	if (s->selective != MQ_SELECTIVE_NAMED || strcmp(s->recompute_ops, ops) != 0)
		return mq_fail(x->err, MQ_EINPUT,
			       "--recompute-modules %s: a plan does not say parts of layers; give "
			       "--software '%s,selective=named,recompute_ops=%s'",
			       x->modules, s->file, ops);
	return MQ_OK;
}

static enum mq_status take_sharding(struct flags *x, const char *value)
{
	static const char *const names[] = { "no_shard", "optim", "optim_grads", "optim_grads_params" };
	static const uint8_t sync[] = { MQ_SYNC_ALLREDUCE, MQ_SYNC_ZERO1, MQ_SYNC_ZERO2, MQ_SYNC_ZERO3 };

	x->sync = x->zero1 ? MQ_SYNC_ZERO1 : MQ_SYNC_ALLREDUCE;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && value; i++)
		if (!strcmp(names[i], value)) {
			x->sync = sync[i];
			return MQ_OK;
		}
	if (value)
		return mq_fail(x->err, MQ_EINPUT,
			       "--data-parallel-sharding-strategy %s: give no_shard, optim, "
			       "optim_grads or optim_grads_params",
			       value);
	return MQ_OK;
}

static enum mq_status read_flags(struct flags *x, const char *const *word)
{
	const char *granularity = NULL, *sharding = NULL, *comm = NULL, *method = NULL;
	const struct row rows[] = {
		{ "--nnodes", &x->nodes, NULL, NULL },
		{ "--nproc-per-node", &x->per_node, NULL, NULL },
		{ "--nproc_per_node", &x->per_node, NULL, NULL },
		{ "--world-size", &x->world, NULL, NULL },
		{ "--tensor-model-parallel-size", &x->tp, NULL, NULL },
		{ "--pipeline-model-parallel-size", &x->pp, NULL, NULL },
		{ "--context-parallel-size", &x->cp, NULL, NULL },
		{ "--expert-model-parallel-size", &x->ep, NULL, NULL },
		{ "--expert-tensor-parallel-size", &x->etp, NULL, NULL },
		{ "--num-virtual-stages-per-pipeline-rank", &x->vpp, NULL, NULL },
		{ "--num-layers-per-virtual-pipeline-stage", &x->layers_per_chunk, NULL, NULL },
		{ "--num-distributed-optimizer-instances", &x->instances, NULL, NULL },
		{ "--ddp-bucket-size", &x->bucket, NULL, NULL },
		{ "--cpu-offloading-num-layers", &x->offload_layers, NULL, NULL },
		{ "--decoder-first-pipeline-num-layers", &x->first_layers, NULL, NULL },
		{ "--decoder-last-pipeline-num-layers", &x->last_layers, NULL, NULL },
		{ "--micro-batch-size", &x->mbs, NULL, NULL },
		{ "--global-batch-size", &x->gbs, NULL, NULL },
		{ "--num-layers", &x->layers, NULL, NULL },
		{ "--sequence-parallel", NULL, &x->sequence, NULL },
		{ "--use-distributed-optimizer", NULL, &x->zero1, NULL },
		{ "--overlap-grad-reduce", NULL, &x->overlap, NULL },
		{ "--tp-comm-overlap", NULL, &x->overlap_tp, NULL },
		{ "--overlap-moe-expert-parallel-comm", NULL, &x->overlap_experts, NULL },
		{ "--use-tp-pp-dp-mapping", NULL, &x->replica_major, NULL },
		{ "--recompute-activations", NULL, &x->selective, NULL },
		{ "--optimizer-cpu-offload", NULL, &x->offload, NULL },
		{ "--no-scatter-gather-tensors-in-pipeline", NULL, &x->no_scatter, NULL },
		{ "--account-for-embedding-in-pipeline-split", NULL, &x->count_embedding, NULL },
		{ "--account-for-loss-in-pipeline-split", NULL, &x->count_loss, NULL },
		{ "--pipeline-model-parallel-layout", NULL, NULL, &x->layout },
		{ "--recompute-granularity", NULL, NULL, &granularity },
		{ "--recompute-method", NULL, NULL, &method },
		{ "--recompute-num-layers", &x->recompute_layers, NULL, NULL },
		{ "--recompute-modules", NULL, NULL, &x->modules },
		{ "--cp-comm-type", NULL, NULL, &comm },
		{ "--hierarchical-context-parallel-sizes", &x->ulysses, NULL, NULL },
		{ "--data-parallel-sharding-strategy", NULL, NULL, &sharding },
		{ NULL, NULL, NULL, NULL },
	};

	for (; *word; word++) {
		char *name = mq_arena_strdup(x->e->arena, *word), *equals = strchr(name, '=');
		const char *value = equals ? equals + 1 : NULL;
		bool takes;

		if (equals && !strncmp(name, "--", 2))
			*equals = '\0';
		const struct row *row = find_row(rows, name);
		if (!row) {
			if (mq_megatron_describes(name, &takes))
				word += takes && !equals && word[1];
			else if (!strncmp(name, "--", 2))
				x->skipped = mq_arena_printf(x->e->arena, "%s %s", x->skipped, name);
			continue;
		}
		if (!value && !row->set && word[1])
			value = *++word;
		if (row->set)
			*row->set = true;
		else if (row->text)
			*row->text = value;
		if (row->text == &x->modules) /* as many words as follow */
			while (word[1] && strncmp(word[1], "--", 2) != 0)
				x->modules = mq_arena_printf(x->e->arena, "%s %s", x->modules, *++word);
		if (row->set || row->text)
			continue;
		MQ_TRY(take_number(x, name, value, row->number));
	}
	MQ_TRY(take_sharding(x, sharding));
	if (comm && !strcmp(comm, "a2a"))
		x->ulysses = x->cp;
	else if (!comm || strcmp(comm, "a2a+p2p"))
		x->ulysses = 1;
	return take_recompute(x, granularity, method);
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
				return mq_fail(x->err, MQ_EINPUT,
					       "--pipeline-model-parallel-layout: '*' needs "
					       "a number, and at most %zu symbols in all",
					       room);
			for (unsigned long i = 1; i < times; i++, n += length)
				memmove(out + n, out + item, length);
			*c = end - 1;
			item = n;
		} else if (**c == '(') {
			item = n;
			(*c)++;
			if (depth == MAX_DEPTH)
				return mq_fail(x->err, MQ_EINPUT,
					       "--pipeline-model-parallel-layout: more than %d '(' in each other",
					       MAX_DEPTH);
			MQ_TRY(expand(x, c, depth + 1, out + n, room - n));
			if (**c != ')')
				return mq_fail(x->err, MQ_EINPUT,
					       "--pipeline-model-parallel-layout: a '(' without ')'");
			n += strlen(out + n);
		} else if (strchr("EtmL|", **c)) {
			item = n;
			if (n + 2 >= room)
				return mq_fail(x->err, MQ_EINPUT, "--pipeline-model-parallel-layout: too long");
			out[n++] = **c;
		} else if (**c != ',') {
			return mq_fail(x->err, MQ_EINPUT,
				       "--pipeline-model-parallel-layout: '%c' is not one of E t m L | , ( ) *N", **c);
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

	MQ_TRY(expand(x, &c, 0, all, room));
	end = strlen(all);
	if (*c || end < 2 || all[0] != 'E' || all[end - 1] != 'L')
		return mq_fail(x->err, MQ_EINPUT,
			       "--pipeline-model-parallel-layout %s: begin with E (embedding), end with L (loss)",
			       x->layout);
	*layers = mq_arena_array(x->e->arena, end, uint32_t);
	*n = 1;
	for (size_t i = 0; i < end; i++) {
		if (all[i] == '|')
			++*n;
		else if (all[i] == 't')
			(*layers)[*n - 1]++;
		else if (i && i != end - 1 && all[i] != 'm') /* m: a layer that predicts further tokens */
			return mq_fail(x->err, MQ_EINPUT,
				       "--pipeline-model-parallel-layout %s: E is first and L is last", x->layout);
	}
	return MQ_OK;
}

/* The embedding, the loss or both count as a layer each. */
static enum mq_status count_ends(struct flags *x, struct mq_shape *s)
{
	uint32_t layers = x->e->model->n_layers, total = layers + x->count_embedding + x->count_loss;
	uint64_t stages = (uint64_t)s->pp * s->virtual;

	if (total % stages)
		return mq_fail(x->err, MQ_EINPUT,
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

/* The first, the last or both stages have layers of their own number; the others share the rest. */
static enum mq_status own_ends(struct flags *x, struct mq_shape *s)
{
	uint32_t layers = x->e->model->n_layers;
	uint64_t given = (uint64_t)x->first_layers + x->last_layers;
	uint32_t rest = s->pp - (x->first_layers > 0) - (x->last_layers > 0);
	uint32_t *each = mq_arena_array(x->e->arena, s->pp, uint32_t);

	if (s->pp < 2 || s->virtual > 1 || x->layout || given > layers ||
	    (rest ? (layers - given) % rest : layers != given))
		return mq_fail(x->err, MQ_EINPUT,
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

/* Chunks per rank and layers per chunk. */
static enum mq_status cut_stages(struct flags *x, struct mq_shape *s)
{
	uint32_t n = 0, *layers = NULL;

	if (x->layers_per_chunk) {
		uint64_t each = (uint64_t)s->pp * x->layers_per_chunk;
		uint32_t total = x->e->model->n_layers + x->count_embedding + x->count_loss;

		if (total % each)
			return mq_fail(x->err, MQ_EINPUT,
				       "--num-layers-per-virtual-pipeline-stage %u: %u layers are no multiple of %llu",
				       x->layers_per_chunk, total, (unsigned long long)each);
		s->virtual = (uint32_t)(total / each);
	}
	if (x->layout && (x->count_embedding || x->count_loss))
		return mq_fail(x->err, MQ_EINPUT,
			       "--pipeline-model-parallel-layout excludes --account-for-...-in-pipeline-split");
	if (s->pp > 1 && (x->count_embedding || x->count_loss))
		MQ_TRY(count_ends(x, s));
	if (x->first_layers || x->last_layers)
		MQ_TRY(own_ends(x, s));
	if (x->layout) {
		MQ_TRY(read_layout(x, &layers, &n));
		if (n % s->pp)
			return mq_fail(x->err, MQ_EINPUT,
				       "--pipeline-model-parallel-layout: %u stages are no "
				       "multiple of pipeline size %u",
				       n, s->pp);
		s->virtual = n / s->pp;
		s->stage_layers = layers;
	}
	s->pipeline = s->virtual > 1 ? MQ_PIPE_INTERLEAVED : MQ_PIPE_1F1B;
	return MQ_OK;
}

static enum mq_status read_shape(struct flags *x, struct mq_shape *s)
{
	const struct mq_export *e = x->e;
	uint64_t ranks = x->per_node ? (uint64_t)mq_or_1(x->nodes) * x->per_node : x->world;
	uint32_t world = (uint32_t)ranks;

	if (ranks > UINT32_MAX)
		return mq_fail(x->err, MQ_EINPUT, "%u nodes of %u ranks are more than there can be", x->nodes,
			       x->per_node);
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
	double each = (double)s->tp * s->pp * s->cp; /* of flags that may say anything */
	if (each > world || fmod(world, each) > 0)
		return mq_fail(x->err, MQ_EINPUT, "%u ranks are no multiple of tp %u x pp %u x cp %u", world, s->tp,
			       s->pp, s->cp);
	s->dp = world / (s->tp * s->pp * s->cp);
	s->ulysses = x->ulysses;
	if (s->ep > 1 && (s->dp % s->ep || (x->etp && x->etp != s->tp)))
		s->etp = x->etp ? x->etp : s->tp;
	if (x->layers && x->layers != e->model->n_layers)
		return mq_fail(x->err, MQ_EINPUT, "--num-layers %u, but the model of -m has %u", x->layers,
			       e->model->n_layers);
	if (x->gbs && x->gbs != e->train->batch)
		return mq_fail(x->err, MQ_EINPUT, "--global-batch-size %u, but --batch is %g", x->gbs, e->train->batch);
	double rounds = e->train->batch / s->dp / mq_or_1(x->mbs);
	if (!(rounds >= 1) || rounds != floor(rounds))
		return mq_fail(x->err, MQ_EINPUT, "--micro-batch-size %u x dp %u does not divide the batch of %g",
			       mq_or_1(x->mbs), s->dp, e->train->batch);
	s->micro_batches = (uint32_t)rounds;
	return cut_stages(x, s);
}

/* Ranks that go through a replica's stages first. */
static void go_by_replicas(struct flags *x, struct mq_shape *s)
{
	uint32_t width = s->cp * s->tp, n = 0;
	uint32_t *device = mq_arena_array(x->e->arena, (size_t)s->dp * s->pp * width, uint32_t);

	for (uint32_t stage = 0; stage < s->pp; stage++)
		for (uint32_t replica = 0; replica < s->dp; replica++)
			for (uint32_t k = 0; k < width; k++)
				device[n++] = (replica * s->pp + stage) * width + k;
	s->device = device;
}

/* A script that says the model says that of -m. What costs nothing, or what a tokenizer decides, may differ. */
static enum mq_status check_model(const struct flags *x, const char *const *word)
{
	const struct mq_transformer *is = x->e->model->stack;
	struct mq_transformer said;
	const char *field;
	char text[96];

	if (!is || !mq_megatron_has_model(word))
		return MQ_OK;
	MQ_TRY(mq_megatron_read(word, x->e->arena, &said, x->err));
	said.vocab = said.vocab ? said.vocab : is->vocab;
	said.seq = said.seq ? said.seq : is->seq;
	said.rope_theta = is->rope_theta;
	said.rope_part = is->rope_part;
	said.norm_eps = is->norm_eps;
	said.fused = is->fused;
	said.sigmoid_router = is->sigmoid_router;
	said.positions = said.positions ? is->positions : 0;
	MQ_TRY(mq_transformer_check(&said, "its model", x->err));
	field = mq_transformer_differs(is, &said, text);
	if (field)
		return mq_fail(x->err, MQ_EINPUT,
			       "its flags describe another model than -m: %s is %s (of -m, and of the flags)", field,
			       text);
	return MQ_OK;
}

enum mq_status mq_import_megatron(const struct mq_export *e, const char *text, struct mq_plan *plan,
				  const char **skipped, struct mq_err *err)
{
	struct flags x = { .e = e, .err = err, .skipped = "" };
	struct mq_shape shape;
	struct mq_plan like;
	const char **word;

	MQ_TRY(mq_shell_words(text, e->arena, &word, err));
	MQ_TRY(read_flags(&x, word));
	MQ_TRY(check_model(&x, word));
	MQ_TRY(read_shape(&x, &shape));
	mq_plan_init(&like, e->arena, e->model->n_ops);
	/* a flag that is not there is off; buckets have a default, and old scripts alone say how stages send */
	like.explicit = (MQ_EXPLICIT_OVERLAP_GRADS | MQ_EXPLICIT_OFFLOAD_OPTIMIZER | MQ_EXPLICIT_OVERLAP_EXPERTS |
			 MQ_EXPLICIT_OVERLAP_TP | MQ_EXPLICIT_OFFLOAD_LAYERS);
	like.explicit |= x.no_scatter ? MQ_EXPLICIT_SCATTER_GATHER : 0;
	like.explicit |= x.bucket ? MQ_EXPLICIT_BUCKET : 0;
	if (x.full) {
		like.explicit |= MQ_EXPLICIT_RECOMPUTE_NUM_LAYERS | MQ_EXPLICIT_RECOMPUTE_METHOD;
		like.recompute_num_layers = x.recompute_layers;
		like.recompute_method = x.recompute_layers ? x.method : MQ_RECOMPUTE_BLOCK;
	}
	like.overlap_grads = x.overlap;
	like.overlap_tp = x.overlap_tp;
	like.overlap_experts = x.overlap_experts;
	like.scatter_gather = !x.no_scatter;
	like.offload_optimizer = x.offload;
	like.offload_layers = x.offload_layers;
	like.bucket_B = (double)x.bucket * GRAD_BYTES;
	if (x.instances) {
		if (shape.dp * shape.cp % x.instances)
			return mq_fail(err, MQ_EINPUT,
				       "--num-distributed-optimizer-instances %u does not divide dp x cp = %u",
				       x.instances, shape.dp * shape.cp);
		like.zero_group = shape.dp * shape.cp / x.instances;
	}
	if (x.replica_major)
		go_by_replicas(&x, &shape);
	*skipped = x.skipped;
	return mq_export_build(e, &shape, &like, plan, err);
}
