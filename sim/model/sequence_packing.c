/* sequence_packing.c - see sequence_packing.h. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/sequence_packing.h"

#include <math.h>
#include <string.h>

#include "base/quantity.h"
#include "maquette/rng.h"

enum { MAX_LENGTHS = 10 * 1000 * 1000, MAX_SEQUENCES = 65536, MAX_DOCUMENTS = 16 * 1000 * 1000 };

/* ---- lengths of documents ------------------------------------------------------------------------------- */

static enum mq_status read_lognormal(const char *what, const char *text, struct mq_arena *arena,
				     struct mq_sequence_packing *d, struct mq_err *err)
{
	const char *mean = strchr(text, ':') + 1, *colon = strchr(mean, ':');

	if (colon && mq_parse_f64(mq_arena_printf(arena, "%.*s", (int)(colon - mean), mean), &d->mean) &&
	    mq_parse_f64(colon + 1, &d->sigma) && d->mean >= 1 && d->mean <= 1e12 && d->sigma >= 0 && d->sigma <= 10)
		return MQ_OK;
	return mq_bad(err,
		      "%s %s: write lognormal:MEAN:SIGMA, tokens from 1 and the deviation of their "
		      "logarithm from 0 to 10",
		      what, text);
}

enum mq_status mq_sequence_packing_read(const char *what, const char *text, struct mq_arena *arena,
					struct mq_sequence_packing *d, struct mq_err *err)
{
	double *length;

	*d = (struct mq_sequence_packing){ .seed = d->seed };
	if (!strncmp(text, "lognormal:", 10))
		return read_lognormal(what, text, arena, d, err);
	MQ_TRY(mq_numbers_read(what, text, MAX_LENGTHS, arena, &length, &d->n, err));
	for (uint32_t i = 0; i < d->n; i++)
		if (!(length[i] >= 1))
			return mq_bad(err, "%s %s: a document of %g tokens; each has one at least", what, text,
				      length[i]);
	d->length = length;
	if (d->n > 1)
		return MQ_OK;
	d->n = 0;
	d->mean = length[0];
	d->length = NULL;
	return MQ_OK;
}

const char *mq_sequence_packing_text(const struct mq_sequence_packing *d, struct mq_arena *arena)
{
	if (d->n)
		return mq_numbers_text(d->length, d->n, arena);
	if (!mq_sequence_packing_said(d))
		return "";
	const char *mean = mq_numbers_text(&d->mean, 1, arena);
	return d->sigma > 0 ? mq_arena_printf(arena, "lognormal:%s:%s", mean, mq_numbers_text(&d->sigma, 1, arena)) :
			      mean;
}

/* Whole tokens. */
static double draw(const struct mq_sequence_packing *d, struct mq_rng *rng)
{
	double length = d->mean;

	if (d->n)
		length = d->length[mq_rng_below(rng, d->n)];
	else if (d->sigma > 0)
		length = d->mean * exp(d->sigma * mq_rng_normal(rng) - d->sigma * d->sigma / 2);
	return fmax(1, round(length));
}

/* Sum of the squares of the document lengths over the square of the sequence length. */
static double squares(const struct mq_sequence_packing *d, uint32_t sequence)
{
	double sum = 0, begin = 0;

	for (uint32_t i = d->first[sequence]; i < d->first[sequence + 1]; i++) {
		sum += (d->end[i] - begin) * (d->end[i] - begin);
		begin = d->end[i];
	}
	return sum / (d->seq * d->seq);
}

enum mq_status mq_sequence_packing_bind(struct mq_sequence_packing *d, double seq, double batch, struct mq_arena *arena,
					struct mq_err *err)
{
	uint32_t n = (uint32_t)fmin(fmax(1, ceil(batch)), MAX_SEQUENCES), n_ends = 0, room = 0;
	uint32_t *first = mq_arena_array(arena, n + 1, uint32_t);
	double *end = NULL, left = 0, sum = 0;
	struct mq_rng rng;

	mq_rng_seed(&rng, d->seed);
	for (uint32_t s = 0; s < n; s++) {
		first[s] = n_ends;
		for (double at = 0; at < seq;) {
			if (!(left > 0))
				left = draw(d, &rng);
			double part = fmin(left, seq - at);

			if (n_ends == MAX_DOCUMENTS)
				return mq_bad(err,
					      "documents: more than %d in a batch of %g sequences of %g "
					      "tokens; make them longer or the batch smaller",
					      MAX_DOCUMENTS, batch, seq);
			at += part;
			left -= part;
			MQ_PUSH(arena, end, n_ends, room, at);
		}
	}
	first[n] = n_ends;
	d->seq = seq;
	d->n_sequences = n;
	d->first = first;
	d->end = end;
	for (uint32_t s = 0; s < n; s++)
		sum += squares(d, s);
	d->work = sum / n;
	return MQ_OK;
}

/* ---- work per rank ---------------------------------------------------------------------------------------- */

/* Attention work of tokens `lo` to `hi` of a packed sequence over that of a whole sequence of one document. */
static double of_tokens(const struct mq_sequence_packing *d, uint32_t sequence, double lo, double hi, bool causal)
{
	double sum = 0, begin = 0;

	for (uint32_t i = d->first[sequence]; i < d->first[sequence + 1] && begin < hi; i++) {
		double from = fmax(lo, begin), to = fmin(hi, d->end[i]), length = d->end[i] - begin;

		if (to > from && causal)
			sum += (to - begin) * (to - begin) - (from - begin) * (from - begin);
		else if (to > from)
			sum += (to - from) * length;
		begin = d->end[i];
	}
	return sum / (d->seq * d->seq);
}

/* Work of a replica's fullest rank in a micro-batch over the mean share of whole sequences. */
static double of_micro_batch(const struct mq_sequence_packing *d, const struct mq_sequence_packing_plan *p,
			     uint32_t replica, uint32_t m)
{
	double number = ((double)m * p->replicas + replica) * p->samples, most = 0;
	uint32_t first = (uint32_t)fmod(floor(number), d->n_sequences), n = (uint32_t)fmax(1, round(p->samples));

	for (uint32_t r = 0; r < p->ranks; r++) {
		double part = d->seq / (2 * p->ranks), sum = 0;
		double lo[2] = { r * part, (2 * p->ranks - 1 - r) * part };

		for (uint32_t i = 0; i < n; i++) {
			uint32_t s = (first + i) % d->n_sequences;

			if (p->ranks == 1)
				sum += squares(d, s);
			for (int k = 0; k < 2 && p->ranks > 1; k++)
				sum += of_tokens(d, s, lo[k], lo[k] + part, p->causal);
		}
		most = fmax(most, sum * p->ranks / n);
	}
	return most;
}

/* Work of the micro-batches of a pipeline: total and largest. */
struct shop {
	double sum, largest;
};

static void add(struct shop *s, double work)
{
	s->sum += work;
	s->largest = fmax(s->largest, work);
}

double mq_sequence_packing_work(const struct mq_sequence_packing *d, const struct mq_sequence_packing_plan *p)
{
	double behind = (p->stages - 1.0) / p->chunks, most = 0;
	struct shop all = { 0 };

	for (uint32_t m = 0; p->meet && m < p->micro_batches; m++) {
		double fullest = 0;

		for (uint32_t r = 0; r < p->replicas; r++)
			fullest = fmax(fullest, of_micro_batch(d, p, r, m));
		add(&all, fullest);
	}
	if (p->meet)
		return (all.sum + behind * all.largest) / (p->micro_batches + behind);
	for (uint32_t r = 0; r < p->replicas; r++) {
		struct shop own = { 0 };

		for (uint32_t m = 0; m < p->micro_batches; m++)
			add(&own, of_micro_batch(d, p, r, m));
		most = fmax(most, own.sum + behind * own.largest);
	}
	return most / (p->micro_batches + behind);
}
