/* interval.c - see trust.h: what the measured runs near a question say of its step.
 *
 * A conformal method (Vovk, Gammerman & Shafer 2005; Lei et al. 2018, Distribution-free predictive inference): the
 * spread about a point is the geometric mean of the errors of all other publishers' runs, each weighted by
 * exp(-distance), and widened with their mean distance. Errors of one publisher go together, so that n runs of one count
 * as the root of n. Every run of the index has such a spread, made without its publisher, and its error in units of it,
 * the score. An interval reaches as far to both sides as the scores' quantile times the point's spread: the sides that
 * other publishers' runs fell on say nothing of a stranger's. So it holds as often as intervals of runs held that were
 * judged by strangers' runs alone.
 *
 * The user's own runs (--trust-with) count OWN_WEIGHT times all published ones at distance 0.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trust/trust.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double OWN_WEIGHT = 5;
static const double NEARNESS = .1; /* of scores, as a share of that of errors */

bool mq_trust_asked(const struct mq_trust_row *r, const struct mq_trust_without *without)
{
	return r->own || !without ||
	       ((!without->table || strcmp(r->table, without->table) != 0) &&
		strcmp(r->publisher, without->publisher) != 0);
}

double mq_trust_distance(const struct mq_trust *t, const struct mq_trust_place *a, const struct mq_trust_place *b)
{
	float term[MQ_N_TRUST_TERMS], sum = 0;

	mq_trust_terms(a, b, term);
	for (int i = 0; i < MQ_N_TRUST_TERMS; i++)
		sum += t->weight[i] * term[i];
	return (double)sum;
}

/* Weighted sums over the rows, published or own. */
struct sums {
	double weight, error, deviation, distance; /* deviation: of logarithms of errors about the middle */
	uint32_t n;
};

static void add_up(const struct mq_trust *t, const double *d, const struct mq_trust_without *without, bool own,
		   double bias, struct sums *s)
{
	*s = (struct sums){ .n = 0 };
	for (uint32_t i = 0; i < t->n; i++)
		if (t->row[i].own == own && mq_trust_asked(&t->row[i], without)) {
			double k = t->row[i].share * exp(-d[i]);

			s->n++;
			s->weight += k;
			s->error += k * t->row[i].error;
			s->distance += k * d[i];
		}
	double middle = s->weight > 0 ? bias * s->error / s->weight : 0;
	for (uint32_t i = 0; i < t->n; i++)
		if (t->row[i].own == own && mq_trust_asked(&t->row[i], without))
			s->deviation += t->row[i].share * exp(-d[i]) *
					log(MQ_TRUST_LEAST_SPREAD + fabs(t->row[i].error - middle));
}

/* d[n] of all rows; arena scratch. */
static double *distances(const struct mq_trust *t, const struct mq_trust_place *place, struct mq_arena *arena)
{
	double *d = mq_arena_array(arena, t->n, double);

	for (uint32_t i = 0; i < t->n; i++)
		d[i] = mq_trust_distance(t, place, &t->row[i].place);
	return d;
}

static void spread_of(const struct mq_trust *t, const double *d, const struct mq_trust_without *without,
		      struct mq_trust_spread *out)
{
	struct sums all, own;

	*out = (struct mq_trust_spread){ .spread = NAN, .middle = NAN, .distance = NAN };
	add_up(t, d, without, false, t->bias, &all);
	add_up(t, d, without, true, 1, &own);
	if (!(all.weight > 0))
		return;
	out->distance = all.distance / all.weight;
	out->middle = t->bias * all.error / all.weight;
	out->spread = exp(t->widening * out->distance + all.deviation / all.weight);
	if (!own.n || !(own.weight > 0))
		return;
	double part = OWN_WEIGHT * own.weight / (1 + OWN_WEIGHT * own.weight);
	double seen = exp(own.deviation / own.weight) * sqrt((own.n + 1.) / fmax(own.n - 1., 1));

	out->middle += part * (own.error / own.weight - out->middle);
	out->spread += part * (seen - out->spread);
}

void mq_trust_spread_of(const struct mq_trust *t, const struct mq_trust_place *place,
			const struct mq_trust_without *without, struct mq_trust_spread *out)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;

	spread_of(t, distances(t, place, &scratch), without, out);
}

/* The score that a share of the published rows that are asked do not exceed, the near ones counting more. */
static double score_quantile(const struct mq_trust *t, const double *d, const struct mq_trust_without *without,
			     double share)
{
	double all = 0, seen = 0, score = NAN;

	for (uint32_t i = 0; i < t->n; i++)
		if (!t->row[i].own && mq_trust_asked(&t->row[i], without))
			all += exp(-NEARNESS * d[i]);
	for (uint32_t k = 0; k < t->n && !(seen >= share * all && seen > 0); k++) {
		uint32_t i = t->by_score[k];

		if (t->row[i].own || !mq_trust_asked(&t->row[i], without))
			continue;
		seen += exp(-NEARNESS * d[i]);
		score = t->row[i].score;
	}
	return score;
}

/* ---- the like rows in words ------------------------------------------------------------------------------ */

static bool seen_before(const struct mq_trust *t, const uint32_t *row, uint32_t k, int word)
{
	for (uint32_t b = 0; b < k; b++)
		if (t->row[row[b]].place.word[word] == t->row[row[k]].place.word[word])
			return true;
	return false;
}

/* "A", "A and B", or "4 kinds of software". */
static const char *named(const struct mq_trust *t, const uint32_t *row, uint32_t n, int word, const char *many,
			 struct mq_arena *arena)
{
	const char *text = "";
	uint32_t kinds = 0;

	for (uint32_t k = 0; k < n; k++)
		if (!seen_before(t, row, k, word)) {
			text = mq_arena_printf(arena, "%s%s%s", text, kinds ? " and " : "",
					       t->row[row[k]].point.word[word]);
			kinds++;
		}
	return kinds <= 2 ? text : mq_arena_printf(arena, "%u %s", kinds, many);
}

static const char *describe(const struct mq_trust *t, const uint32_t *row, uint32_t n, struct mq_arena *arena)
{
	double least = INFINITY, most = 0;

	for (uint32_t k = 0; k < n; k++) {
		least = fmin(least, t->row[row[k]].point.number[MQ_TRUST_gpus]);
		most = fmax(most, t->row[row[k]].point.number[MQ_TRUST_gpus]);
	}
	return mq_arena_printf(arena, least < most ? "%s, %s, %s, %.0f to %.0f GPUs" : "%s, %s, %s, %.0f GPUs",
			       named(t, row, n, MQ_TRUST_device, "device types", arena),
			       named(t, row, n, MQ_TRUST_software, "softwares", arena),
			       named(t, row, n, MQ_TRUST_kind, "kinds of models", arena), least, most);
}

MQ_COMPARE(rising, double, MQ_ORDER(*a, *b))

static void note_like(const struct mq_trust *t, const double *d, const struct mq_trust_without *without,
		      struct mq_arena *arena, struct mq_trust_answer *a)
{
	uint32_t *row = mq_arena_array(arena, t->n + 1, uint32_t), nearest = MQ_NONE;
	double *error = mq_arena_array(arena, t->n + 1, double);

	for (uint32_t i = 0; i < t->n; i++) {
		const struct mq_trust_row *r = &t->row[i];

		if (!mq_trust_asked(r, without))
			continue;
		nearest = nearest == MQ_NONE || d[i] < d[nearest] ? i : nearest;
		if (d[i] > MQ_TRUST_LIKE)
			continue;
		row[a->like] = i;
		error[a->like++] = fabs(r->point.number[MQ_TRUST_step_s] / r->measured_s - 1);
	}
	qsort(error, a->like, sizeof(*error), rising);
	a->like_error = a->like ? (error[(a->like - 1) / 2] + error[a->like / 2]) / 2 : (double)NAN;
	if (!a->like && nearest != MQ_NONE)
		row[0] = nearest;
	a->described = nearest == MQ_NONE ? "" : describe(t, row, a->like ? a->like : 1, arena);
}

/* ---- what lies beyond ------------------------------------------------------------------------------------ */

static bool any_has(const struct mq_trust *t, const struct mq_trust_place *p, const struct mq_trust_without *without,
		    int word, int other)
{
	for (uint32_t i = 0; i < t->n; i++) {
		const uint32_t *w = t->row[i].place.word;

		if (mq_trust_asked(&t->row[i], without) && w[word] == p->word[word] && w[other] == p->word[other])
			return true;
	}
	return false;
}

static double most_of(const struct mq_trust *t, const struct mq_trust_without *without, int number)
{
	double most = 0;

	for (uint32_t i = 0; i < t->n; i++)
		if (mq_trust_asked(&t->row[i], without) && t->row[i].point.number[number] > most)
			most = t->row[i].point.number[number];
	return most;
}

static void __attribute__((format(printf, 3, 4)))
add_beyond(struct mq_trust_answer *a, struct mq_arena *arena, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	const char *text = mq_arena_vprintf(arena, format, values);
	va_end(values);
	a->beyond = mq_arena_printf(arena, "%s%s%s", a->beyond, *a->beyond ? ", " : "", text);
}

/* A word that no run has, or none of the same generation. */
static void note_word(const struct mq_trust *t, const struct mq_trust_point *p, const struct mq_trust_place *place,
		      const struct mq_trust_without *without, int word, const char *before, const char *behind,
		      struct mq_arena *arena, struct mq_trust_answer *a)
{
	const char *text = *p->word[word] ? p->word[word] : "unknown";
	bool family = any_has(t, place, without, MQ_TRUST_family, MQ_TRUST_family);

	if (!any_has(t, place, without, word, word))
		add_beyond(a, arena, "%s%s%s", before, text, behind);
	else if (family && word != MQ_TRUST_software && !any_has(t, place, without, word, MQ_TRUST_family))
		add_beyond(a, arena, "%s%s%s on %s", before, text, behind, p->word[MQ_TRUST_family]);
}

static void note_beyond(const struct mq_trust *t, const struct mq_trust_point *p, const struct mq_trust_place *place,
			const struct mq_trust_without *without, struct mq_arena *arena, struct mq_trust_answer *a)
{
	static const struct {
		int word;
		const char *before, *behind;
	} words[] = { { MQ_TRUST_device, "", "" },
		      { MQ_TRUST_software, "software ", "" },
		      { MQ_TRUST_kind, "models of kind ", "" },
		      { MQ_TRUST_precision, "", " operands" },
		      { MQ_TRUST_network, "network ", "" } };
	static const struct {
		int number;
		double unit;
		const char *name;
	} numbers[] = { { MQ_TRUST_gpus, 1, "GPUs" },
			{ MQ_TRUST_tp, 1, "ranks of tensor parallelism" },
			{ MQ_TRUST_pp, 1, "pipeline stages" },
			{ MQ_TRUST_cp, 1, "ranks of context parallelism" },
			{ MQ_TRUST_ep, 1, "ranks of expert parallelism" },
			{ MQ_TRUST_tp_nodes, 1, "machines of a tensor-parallel group" },
			{ MQ_TRUST_params, 1e9, "billion parameters" } };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		note_word(t, p, place, without, words[i].word, words[i].before, words[i].behind, arena, a);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		double most = most_of(t, without, numbers[i].number), value = p->number[numbers[i].number];

		if (value > most)
			add_beyond(a, arena, "%.6g %s (%.6g measured)", value / numbers[i].unit, numbers[i].name,
				   most / numbers[i].unit);
	}
}

const char mq_trust_answer_columns[] = "low_80_s,high_80_s,low_50_s,high_50_s,like_runs,like_error,beyond";

void mq_trust_put_answer(struct mq_csv_writer *w, const struct mq_trust_answer *a)
{
	mq_csv_put(w, "%g,%g,%g,%g,%.0u,%g,%s", a->low_80_s, a->high_80_s, a->low_50_s, a->high_50_s, a->like,
		   a->like_error, a->beyond);
}

void mq_trust_ask(struct mq_trust *t, const struct mq_trust_point *point, const struct mq_trust_without *without,
		  struct mq_arena *arena, struct mq_trust_answer *a)
{
	/* Runs of one publisher go together: what is exchangeable is the n publishers, of whom a stranger is one more. */
	double n = t ? t->n_sources : 0, more = (n + 1) / fmax(n, 1);
	struct mq_trust_spread spread;
	struct mq_trust_place place;

	*a = (struct mq_trust_answer){ .like_error = NAN,
				       .low_80_s = NAN,
				       .high_80_s = NAN,
				       .low_50_s = NAN,
				       .high_50_s = NAN,
				       .described = "",
				       .beyond = "" };
	if (!t)
		return;
	const double step_s = point->number[MQ_TRUST_step_s];
	mq_trust_place_of(t, point, &place);
	const double *d = distances(t, &place, arena);
	spread_of(t, d, without, &spread);
	double reach_80 = spread.spread * score_quantile(t, d, without, fmin(.8 * more, 1));
	double reach_50 = spread.spread * score_quantile(t, d, without, fmin(.5 * more, 1));
	a->low_80_s = step_s * exp(spread.middle - reach_80);
	a->low_50_s = step_s * exp(spread.middle - reach_50);
	a->high_50_s = step_s * exp(spread.middle + reach_50);
	a->high_80_s = step_s * exp(spread.middle + reach_80);
	note_like(t, d, without, arena, a);
	note_beyond(t, point, &place, without, arena, a);
}

struct mq_trust_memory mq_trust_memory(const struct mq_trust *t, const struct mq_trust_without *without)
{
	static const char *const bases[] = { "device", "reserved", "allocated" };
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_trust_memory most = { .high = 0 };
	double *ratio = t ? mq_arena_array(&scratch, t->n + 1, double) : NULL;

	for (size_t b = 0; t && b < sizeof(bases) / sizeof(*bases); b++) {
		uint32_t n = 0;

		for (uint32_t i = 0; i < t->n; i++) {
			const struct mq_trust_row *r = &t->row[i];
			const char *basis = *r->memory_basis ? r->memory_basis : "device";

			if (mq_trust_asked(r, without) && !strcmp(basis, bases[b]) && r->predicted_GB > 0 &&
			    r->measured_GB > 0)
				ratio[n++] = r->measured_GB / r->predicted_GB;
		}
		qsort(ratio, n, sizeof(*ratio), rising);
		double high = n ? ceil(100 * ratio[(uint32_t)ceil(.9 * n) - 1]) / 100 : 0;
		if (high > most.high)
			most = (struct mq_trust_memory){ high, bases[b], n };
	}
	return most;
}
