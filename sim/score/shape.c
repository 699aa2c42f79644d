/*
 * shape.c - the plan of a row: degrees, micro-batches, stages.
 *
 * What follows from the rest is not asked of the row: the data-parallel degree from the number of GPUs,
 * micro-batches from batch and accumulation.
 */
#include "score/row.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "score/tables.h"

static enum mq_status degrees(const struct mq_score_tables *tables, struct mq_case *c, struct mq_arena *arena,
			      struct mq_err *err)
{
	const struct mq_run *r = c->run;
	struct mq_shape *s = &c->shape;
	double model_parallel;

	s->tp = mq_run_degree(r->tp);
	s->pp = mq_run_degree(r->pp);
	s->cp = mq_run_degree(r->cp);
	s->ep = mq_run_degree(r->ep);
	if (s->ep > 1 && (double)s->tp * s->cp > 1)
		s->etp = c->software.software.expert_tp;
	s->virtual = mq_run_degree(r->vp);
	model_parallel = (double)s->tp * s->pp * s->cp;
	s->dp = (uint32_t)(r->gpus / model_parallel);
	MQ_TRY(mq_case_degrees(tables, c, arena, err));
	if (!s->stage_tp && s->dp * model_parallel != r->gpus)
		return mq_fail(err, MQ_EINPUT, "%g GPUs are not a multiple of tp %u x pp %u x cp %u", r->gpus, s->tp,
			       s->pp, s->cp);
	if (!isnan(r->dp) && r->dp != s->dp)
		return mq_fail(err, MQ_EINPUT,
			       "dp %g does not follow from %g GPUs, tp %u, pp %u, "
			       "cp %u",
			       r->dp, r->gpus, s->tp, s->pp, s->cp);
	return MQ_OK;
}

enum { MOST_MICRO_BATCHES = 1 << 24 };

static enum mq_status micro_batches(struct mq_case *c, struct mq_arena *arena, struct mq_err *err)
{
	const struct mq_run *r = c->run;
	double per_replica = r->gbs / c->shape.dp, n = r->accum;

	if (isnan(n) && !isnan(r->mbs))
		n = per_replica / r->mbs;
	if (isnan(n) && r->open_batches)
		return mq_fail(err, MQ_EINPUT, "neither micro-batch nor accumulation is given");
	if (isnan(n)) { /* nobody accumulates for nothing; a pipeline's micro-batches are as small as they can be */
		const char *word = c->shape.pp > 1 ? "micro-batches of 1" : "no accumulation";

		n = c->shape.pp > 1 ? per_replica : 1;
		mq_case_assume(c, arena, "%s", word);
	}
	if (n == 1 && c->software.software.split_batch && c->shape.pp > 1 && fmod(per_replica, c->shape.pp) == 0)
		n = c->shape.pp;
	if (n < 1 || fabs(n - round(n)) > 1e-6)
		return mq_fail(err, MQ_EINPUT,
			       "batch %g does not divide into micro-batches of %g on "
			       "%u replicas",
			       r->gbs, r->mbs, c->shape.dp);
	if (n > MOST_MICRO_BATCHES)
		return mq_fail(err, MQ_EINPUT, "%g micro-batches; at most %d are simulated", n, MOST_MICRO_BATCHES);
	c->shape.micro_batches = (uint32_t)round(n);
	return MQ_OK;
}

/* Layers per stage, or per chunk where there are several to a stage. "7/9/9/9" may count further items before and
 * behind the layers (embedding, head): what is over is taken half from the first items, half from the last. Of stages
 * at the end without layers the first has head and loss, the others idle. */
static enum mq_status listed_stages(struct mq_case *c, double layers, struct mq_arena *arena, struct mq_err *err)
{
	const char *text = c->run->stage_layers;
	uint32_t want = c->shape.pp * c->shape.virtual, n = 0;
	uint32_t *stage = mq_arena_array(arena, want, uint32_t);
	double items = 0, before, at = 0;
	uint32_t busy = 1;

	for (const char *p = text; *p;) {
		char *end;
		unsigned long value = strtoul(p, &end, 10);

		if (end == p || n == want || (*end && *end != '/'))
			return mq_fail(err, MQ_EINPUT, "stage_layers '%s' do not list %u stages", text, want);
		stage[n++] = (uint32_t)value;
		items += (double)value;
		p = end + (*end == '/');
	}
	if (n != want || items < layers)
		return mq_fail(err, MQ_EINPUT, "stage_layers '%s' do not make %g layers in %u stages", text, layers,
			       want);
	before = floor((items - layers) / 2);
	for (uint32_t s = 0; s < n; s++) {
		double first = fmax(at, before), last = fmin(at + stage[s], before + layers);

		at += stage[s];
		stage[s] = last > first ? (uint32_t)(last - first) : 0;
		if (!stage[s])
			continue;
		if (s > busy)
			return mq_fail(err, MQ_EINPUT, "stage_layers '%s' leave a stage without a layer", text);
		busy = s + 1;
	}
	busy += busy < n;
	if (busy < n && c->shape.virtual > 1)
		return mq_fail(err, MQ_EINPUT, "stage_layers '%s' leave chunks without a layer", text);
	c->shape.pp = busy / c->shape.virtual;
	c->shape.stage_layers = stage;
	return MQ_OK;
}

/* Megatron deals layers out evenly to all chunks or not at all. Where they do not divide but would with the
 * embedding, the head or both counted as a layer each (--account-for-embedding-in-pipeline-split,
 * --account-for-loss-in-pipeline-split), so they were: the first and last chunk have one layer less. A third
 * item is what explicit layouts give the last chunk for a further token's block, or for a wide vocabulary
 * (Megatron-Bridge's of DeepSeek-V3 and Kimi K2, 61 layers: 4 x 15 + 1, and 1 + 2 x 30 + 0). */
static void chunks(struct mq_case *c, uint32_t layers, struct mq_arena *arena)
{
	uint32_t n = c->shape.pp * c->shape.virtual, ends = 0;

	while (ends <= 3 && (layers + ends) % n)
		ends++;
	if (!ends || ends > 3)
		return;
	uint32_t each = (layers + ends) / n;
	uint32_t behind = ends < 3 ? 1 : each < 3 ? each : 3; /* the head before the embedding: more work */
	uint32_t *stage = mq_arena_array(arena, n, uint32_t);
	for (uint32_t s = 0; s < n; s++)
		stage[s] = each;
	stage[n - 1] -= behind;
	stage[0] -= ends - behind;
	c->shape.stage_layers = stage;
}

/* Layers of each stage or chunk in shape.stage_layers, NULL = even: as the row lists them; where it does not, as
 * its software deals them out, without the stages that it leaves idle. MQ_EINPUT: the row's list does not fit. */
static enum mq_status layers_of_stages(struct mq_case *c, struct mq_arena *arena, struct mq_err *err)
{
	const struct mq_software *s = &c->software.software;
	uint32_t layers = c->model->n_layers, n = c->shape.pp;

	if (*c->run->stage_layers)
		return listed_stages(c, layers, arena, err);
	if (n == 1)
		return MQ_OK;
	if (c->shape.virtual > 1 || (layers % n && s->partition == MQ_STAGES_EVEN))
		chunks(c, layers, arena);
	else
		c->shape.pp = mq_software_stages(s, c->model, arena, &c->shape);
	return MQ_OK;
}

enum mq_status mq_case_shape(const struct mq_score_tables *tables, struct mq_case *c, struct mq_arena *arena,
			     struct mq_err *err)
{
	MQ_TRY(degrees(tables, c, arena, err));
	MQ_TRY(micro_batches(c, arena, err));
	MQ_TRY(mq_case_words(c, arena, err));
	c->shape.sequence_parallel = c->software.software.sequence_parallel && c->shape.tp > 1;
	c->shape.vocab_parallel = c->software.software.vocab_parallel;
	return c->model->n_layers ? layers_of_stages(c, arena, err) : MQ_OK;
}
