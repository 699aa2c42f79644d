/* shape.c - the plan of a row: degrees, micro-batches, stages, schedule, sync and recomputation.
 *
 * Values that follow from others need no column: the data-parallel degree from the number of GPUs, micro-batches from
 * batch and accumulation. A word may be followed by a remark in brackets, which is ignored. An empty cell is the
 * software's default. SPDX-License-Identifier: Apache-2.0 */
#include "score/row.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ----------------------------------------------------------------------------------------- */

/* The words of a column and their values: names separated by blanks, in lower case, without '-', '_' and blanks. */
struct word {
	const char *names;
	int value;
};

enum { MOST_NAMES = 32 };

/* The value of a cell's word, without remark, or NULL; `name` gets all known names. */
static const int *find_word(const char *cell, const struct word *words, const char *name[MOST_NAMES],
			    struct mq_arena *arena)
{
	char *text = mq_arena_strdup(arena, cell), *end = text;
	const int *found = NULL;
	uint32_t n = 0;

	for (const char *p = cell; *p && *p != '('; p++)
		if (!strchr(" -_", *p))
			*end++ = (char)tolower((unsigned char)*p);
	*end = '\0';
	for (; words->names; words++)
		for (const char *p = words->names; *p; p += strspn(p, " ")) {
			size_t length = strcspn(p, " ");

			if (length == strlen(text) && !strncmp(p, text, length))
				found = &words->value;
			if (n + 1 < MOST_NAMES)
				name[n++] = mq_arena_printf(arena, "%.*s", (int)length, p);
			p += length;
		}
	name[n] = NULL;
	return found;
}

/* The value of a non-empty cell. Text after a known word that is no remark is reported as unread. */
static enum mq_status word_of(struct mq_case *c, const char *column, const char *cell, const struct word *words,
			      int *value, struct mq_err *err)
{
	const char *name[MOST_NAMES];
	const int *found = find_word(cell, words, name, c->arena);
	const char *first = mq_arena_printf(c->arena, "%.*s", (int)strcspn(cell, " ,"), cell);

	if (!found && (found = find_word(first, words, name, c->arena)))
		mq_case_assume(c, "%s '%s' read as %s", column, cell, first);
	if (!found)
		return mq_run_unknown(column, cell, name, err);
	*value = *found;
	return MQ_OK;
}

static enum mq_status sync_of(struct mq_case *c, struct mq_err *err)
{
	static const struct word words[] = {
		{ "allreduce none no 0 zero0 ddp", MQ_SYNC_ALLREDUCE },
		{ "zero1 1 distributedoptimizer", MQ_SYNC_ZERO1 },
		{ "zero2 2 fsdpshardgradop", MQ_SYNC_ZERO2 },
		{ "zero3 3 fsdp fsdp2 hsdp fsdpfullshard fsdphybridshard", MQ_SYNC_ZERO3 },
		{ NULL, 0 },
	};
	const char *cell = c->run->zero, *number;
	uint32_t group = 0, ranks = c->shape.dp * c->shape.cp;
	int sync = (int)c->software.software.sync;
	const char *name[MOST_NAMES];

	/* "zero3 8", "HSDP 4x8": number of ranks that shard, if not all */
	number = strpbrk(cell, " ");
	while (number && !isdigit((unsigned char)number[1]))
		number = strpbrk(number + 1, " ");
	if (number && !find_word(cell, words, name, c->arena)) {
		const char *times = strchr(number, 'x');

		group = (uint32_t)strtoul(times ? times + 1 : number, NULL, 10);
		cell = mq_arena_printf(c->arena, "%.*s", (int)(number - cell), cell);
	}
	if (*cell)
		MQ_TRY(word_of(c, "zero", cell, words, &sync, err));
	if (!group && (mq_contains(cell, "hsdp") || mq_contains(cell, "hybrid")))
		group = c->n_parts ? c->part[0].per_node / c->shape.tp : 0;
	if (group && ranks % group)
		mq_case_assume(c, "zero '%s' read without its %u ranks, which do not divide %u", c->run->zero, group,
			       ranks);
	c->shape.sync = (uint8_t)(ranks == 1 ? MQ_SYNC_ALLREDUCE : sync);
	c->zero_group = group < c->shape.dp && group > 1 && ranks % group == 0 ? group : 0;
	return MQ_OK;
}

static enum mq_status schedule_of(struct mq_case *c, struct mq_err *err)
{
	static const struct word words[] = {
		{ "1f1b none", MQ_PIPE_1F1B },
		{ "interleaved interleaved1f1b", MQ_PIPE_INTERLEAVED },
		{ "gpipe", MQ_PIPE_GPIPE },
		{ "zbh1 zerobubble", MQ_PIPE_ZB_H1 },
		{ "zbv", MQ_PIPE_ZBV },
		{ "dualpipev", MQ_PIPE_DUALPIPE_V },
		{ NULL, 0 },
	};
	struct mq_shape *s = &c->shape;
	int pipeline = s->virtual > 1 ? MQ_PIPE_INTERLEAVED : MQ_PIPE_1F1B;

	if (*c->run->schedule)
		MQ_TRY(word_of(c, "schedule", c->run->schedule, words, &pipeline, err));
	if (s->pp > 1 && isnan(c->run->vp) && pipeline == MQ_PIPE_INTERLEAVED) {
		s->virtual = c->software.software.chunks;
		if (s->virtual < 2)
			return mq_run_lacks(c->run, "vp", "it says the chunks of an interleaved schedule", err);
	}
	/* one chunk is always 1F1B, several are interleaved */
	if (pipeline == MQ_PIPE_INTERLEAVED || pipeline == MQ_PIPE_1F1B)
		pipeline = s->virtual > 1 ? MQ_PIPE_INTERLEAVED : MQ_PIPE_1F1B;
	s->pipeline = (uint8_t)pipeline;
	if (s->pp > 1 && s->virtual == 1)
		s->virtual = mq_pipeline_kind((enum mq_pipeline)pipeline)->least_chunks;
	return MQ_OK;
}

static enum mq_status recompute_of(struct mq_case *c, struct mq_err *err)
{
	static const struct word words[] = {
		{ "none no false 0", MQ_RECOMPUTE_NONE },
		{ "selective", MQ_RECOMPUTE_SELECTIVE },
		{ "full yes true 1", MQ_RECOMPUTE_FULL },
		{ NULL, 0 },
	};
	int recompute = (int)c->software.software.recompute;

	if (*c->run->recompute)
		MQ_TRY(word_of(c, "recompute", c->run->recompute, words, &recompute, err));
	c->shape.recompute = (uint8_t)recompute;
	return MQ_OK;
}

/* ---- degrees ---------------------------------------------------------------------------------------- */

static enum mq_status degrees(struct mq_case *c, struct mq_err *err)
{
	const struct mq_run *r = c->run;
	struct mq_shape *s = &c->shape;
	double model_parallel;

	s->tp = mq_run_degree(r->tp);
	s->pp = mq_run_degree(r->pp);
	s->cp = mq_run_degree(r->cp);
	s->ulysses = mq_run_degree(r->ulysses);
	s->ep = mq_run_degree(r->ep);
	if (s->ep > 1 && (double)s->tp * s->cp > 1)
		s->etp = c->software.software.expert_tp;
	s->virtual = mq_run_degree(r->vp);
	model_parallel = (double)s->tp * s->pp * s->cp;
	s->dp = (uint32_t)(r->gpus / model_parallel);
	MQ_TRY(mq_case_degrees(c, err));
	if (!s->stage_tp && s->dp * model_parallel != r->gpus)
		return mq_bad(err, "%g GPUs are not a multiple of tp %u x pp %u x cp %u", r->gpus, s->tp, s->pp, s->cp);
	if (!isnan(r->dp) && r->dp != s->dp)
		return mq_bad(err, "dp %g does not follow from %g GPUs, tp %u, pp %u, cp %u", r->dp, r->gpus, s->tp,
			      s->pp, s->cp);
	return MQ_OK;
}

enum { MOST_MICRO_BATCHES = 1 << 24 };

static enum mq_status micro_batches(struct mq_case *c, struct mq_err *err)
{
	const struct mq_run *r = c->run;
	double per_replica = r->gbs / c->shape.dp, n = r->accum;
	bool open = r->table && (mq_csv_column(r->table, "mbs") != UINT32_MAX ||
				 mq_csv_column(r->table, "grad_accum") != UINT32_MAX);

	if (isnan(n) && !isnan(r->mbs))
		n = per_replica / r->mbs;
	if (isnan(n) && open) /* the table has the columns: an empty cell means not known */
		return mq_run_lacks(r, "mbs", "give it, or grad_accum", err);
	if (isnan(n)) { /* assumed: no accumulation without a pipeline, the smallest micro-batches with one */
		const char *word = c->shape.pp > 1 ? "micro-batches of 1" : "no accumulation";

		n = c->shape.pp > 1 ? per_replica : 1;
		mq_case_assume(c, "%s", word);
	}
	if (n == 1 && c->software.software.split_batch && c->shape.pp > 1 && fmod(per_replica, c->shape.pp) == 0)
		n = c->shape.pp;
	if (n < 1 || fabs(n - round(n)) > 1e-6)
		return mq_bad(err, "batch %g does not divide into micro-batches of %g on %u replicas", r->gbs, r->mbs,
			      c->shape.dp);
	if (n > MOST_MICRO_BATCHES)
		return mq_bad(err, "%g micro-batches; at most %d are simulated", n, MOST_MICRO_BATCHES);
	c->shape.micro_batches = (uint32_t)round(n);
	return MQ_OK;
}

/* ---- layers of stages ---------------------------------------------------------------------------------- */

/* Reads a list "7/9/9/9" into stage[most]; returns its length, 0: no such list. */
static uint32_t read_list(const char *text, uint32_t *stage, uint32_t most)
{
	uint32_t n = 0;

	for (const char *p = text; *p;) {
		char *end;
		unsigned long value = strtoul(p, &end, 10);

		if (end == p || n == most || (*end && *end != '/') || value > UINT16_MAX)
			return 0;
		stage[n++] = (uint32_t)value;
		p = end + (*end == '/');
	}
	return n;
}

/* Splits layers of pipeline ranks into layers of their chunks. If they do not divide, chunks at the ends, with
 * embedding and head, have fewer: the first ones of the first rank, the last ones of the others. */
static void deal_chunks(const struct mq_shape *shape, const uint32_t *rank, uint32_t *stage)
{
	uint32_t chunks = shape->virtual;

	for (uint32_t r = 0; r < shape->pp; r++) {
		uint32_t each = (rank[r] + chunks - 1) / chunks, lacks = each * chunks - rank[r];

		for (uint32_t k = 0; k < chunks; k++) {
			bool less = r ? k >= chunks - lacks : k < lacks;

			stage[mq_pipeline_stage((enum mq_pipeline)shape->pipeline, shape->pp, r, k)] = each - less;
		}
	}
}

/* Subtracts items before and after the layers from the first and last stages. */
static void drop_items(uint32_t *stage, uint32_t n, double items, double layers)
{
	double before = floor((items - layers) / 2), at = 0;

	for (uint32_t s = 0; s < n; s++) {
		double first = fmax(at, before), last = fmin(at + stage[s], before + layers);

		at += stage[s];
		stage[s] = last > first ? (uint32_t)(last - first) : 0;
	}
}

/* Layers of each stage; with several chunks per rank, of each chunk or each pipeline rank. "7/9/9/9" may also count
 * items before and after the layers (embedding, head): the surplus is subtracted half from the first items, half from
 * the last. Of final stages without layers the first has head and loss, the others idle. */
static enum mq_status listed_stages(struct mq_case *c, double layers, struct mq_err *err)
{
	const char *text = c->run->stage_layers;
	uint32_t want = c->shape.pp * c->shape.virtual, *listed = mq_arena_array(c->arena, want, uint32_t);
	uint32_t *stage = listed, n = read_list(text, listed, want), busy = 1;
	double items = 0;

	for (uint32_t s = 0; s < n; s++)
		items += listed[s];
	if ((n != want && n != c->shape.pp) || items < layers)
		return mq_bad(err, "stage_layers '%s' do not make %g layers in %u stages", text, layers, c->shape.pp);
	if (n < want) {
		if (items > layers)
			return mq_bad(err, "stage_layers '%s' have %g layers, the model %g", text, items, layers);
		stage = mq_arena_array(c->arena, want, uint32_t);
		deal_chunks(&c->shape, listed, stage);
		c->shape.stage_layers = stage;
		return MQ_OK;
	}
	drop_items(stage, n, items, layers);
	for (uint32_t s = 0; s < n; s++) {
		if (!stage[s])
			continue;
		if (s > busy)
			return mq_bad(err, "stage_layers '%s' leave a stage without a layer", text);
		busy = s + 1;
	}
	busy += busy < n;
	if (busy < n && c->shape.virtual > 1)
		return mq_bad(err, "stage_layers '%s' leave chunks without a layer", text);
	c->shape.pp = busy / c->shape.virtual;
	c->shape.stage_layers = stage;
	return MQ_OK;
}

/* Megatron splits layers evenly over all chunks. If they do not divide but would with the embedding, the head or both
 * counted as a layer each (--account-for-embedding-in-pipeline-split, --account-for-loss-in-pipeline-split), the run
 * used these flags: first and last chunk have one layer less. Explicit layouts count a third item in the last chunk,
 * for a multi-token-prediction block or a wide vocabulary (Megatron-Bridge's of DeepSeek-V3 and Kimi K2, 61 layers: 4 x
 * 15 + 1, and 1 + 2 x 30 + 0). */
static void chunks(struct mq_case *c, uint32_t layers)
{
	uint32_t n = c->shape.pp * c->shape.virtual, ends = 0;

	while (ends <= 3 && (layers + ends) % n)
		ends++;
	if (!ends || ends > 3)
		return;
	uint32_t each = (layers + ends) / n;
	uint32_t behind = ends < 3 ? 1 : each < 3 ? each : 3; /* the head before the embedding: more work */
	uint32_t *stage = mq_arena_array(c->arena, n, uint32_t);
	for (uint32_t s = 0; s < n; s++)
		stage[s] = each;
	stage[n - 1] -= behind;
	stage[0] -= ends - behind;
	c->shape.stage_layers = stage;
}

/* Fills shape.stage_layers, layers per stage or chunk (NULL = even): from the row's list, else by the rule of its
 * software, without idle stages. MQ_EINPUT: the row's list does not fit. */
static enum mq_status layers_of_stages(struct mq_case *c, struct mq_err *err)
{
	const struct mq_software *s = &c->software.software;
	uint32_t layers = c->model->n_layers, n = c->shape.pp;

	if (*c->run->stage_layers)
		return listed_stages(c, layers, err);
	if (n == 1)
		return MQ_OK;
	if (c->shape.virtual > 1 || (layers % n && s->partition == MQ_STAGES_EVEN))
		chunks(c, layers);
	else
		c->shape.pp = mq_software_stages(s, c->model, c->arena, &c->shape);
	return MQ_OK;
}

enum mq_status mq_case_shape(struct mq_case *c, struct mq_err *err)
{
	MQ_TRY(degrees(c, err));
	MQ_TRY(micro_batches(c, err));
	MQ_TRY(schedule_of(c, err));
	MQ_TRY(recompute_of(c, err));
	MQ_TRY(sync_of(c, err));
	c->shape.sequence_parallel = c->software.software.sequence_parallel && c->shape.tp > 1;
	c->shape.vocab_parallel = c->software.software.vocab_parallel;
	if (c->model->n_layers)
		MQ_TRY(layers_of_stages(c, err));
	if (c->software.software.use_tp_pp_dp_mapping && !c->shape.stage_tp)
		c->shape.device = mq_shape_replica_major(&c->shape, c->arena);
	return MQ_OK;
}
