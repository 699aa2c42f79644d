/* interval.c - see trust.h: intervals of a predicted step from the measured runs near its question.
 *
 * A conformal method (Vovk, Gammerman & Shafer 2005; Lei et al. 2018, Distribution-free predictive inference). The
 * spread about a point is the geometric mean of the errors of other publishers' runs, weighted by exp(-distance) and
 * widened with their mean distance. Errors of one publisher are correlated, so its n runs weigh as sqrt(n). Every run
 * of the index has a score: its error in units of the spread about it, made without its publisher. An interval reaches
 * to both sides by the scores' quantile times the point's spread (symmetric: the signs of other publishers' errors do
 * not predict a new one's). So it holds as often as such intervals held for runs of unseen publishers.
 *
 * A user's own run (--trust-with) at distance 0 weighs OWN_WEIGHT times all published ones together.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trust/trust.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double OWN_WEIGHT = 5;
static const double NEARNESS = .1;      /* exponent per distance for scores, where errors have 1 */
static const double WIDENING = .1;      /* of log(spread), per unit of the neighbours' mean distance */
static const double BIAS = .5;          /* share of the neighbours' mean error by which the interval is shifted */
static const double LEAST_SPREAD = .01; /* about a machine's own run-to-run variation */

bool mq_trust_asked(const struct mq_trust_row *r, const struct mq_trust_without *without)
{
	return r->own || !without ||
	       ((!without->table || strcmp(r->table, without->table) != 0) &&
		strcmp(r->publisher, without->publisher) != 0);
}

/* Centre and spread of log(measured / predicted) among a place's neighbours. */
struct spread {
	double middle, spread;
};

/* Weighted sums over the rows, published or own. */
struct sums {
	double weight, error, deviation, distance; /* deviation: sum of log |error - middle| */
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
			s->deviation +=
				t->row[i].share * exp(-d[i]) * log(LEAST_SPREAD + fabs(t->row[i].error - middle));
}

/* Distances to all rows, d[n] in the arena. */
static double *distances(const struct mq_trust *t, const struct mq_trust_place *place, struct mq_arena *arena)
{
	double *d = mq_arena_array(arena, t->n, double);

	for (uint32_t i = 0; i < t->n; i++)
		d[i] = mq_trust_distance(place, &t->row[i].place);
	return d;
}

static void spread_of(const struct mq_trust *t, const double *d, const struct mq_trust_without *without,
		      struct spread *out)
{
	struct sums all, own;

	*out = (struct spread){ .spread = NAN, .middle = NAN };
	add_up(t, d, without, false, BIAS, &all);
	add_up(t, d, without, true, 1, &own);
	if (!(all.weight > 0))
		return;
	out->middle = BIAS * all.error / all.weight;
	out->spread = exp((WIDENING * all.distance + all.deviation) / all.weight);
	if (!own.n || !(own.weight > 0))
		return;
	double part = OWN_WEIGHT * own.weight / (1 + OWN_WEIGHT * own.weight);
	double seen = exp(own.deviation / own.weight) * sqrt((own.n + 1.) / fmax(own.n - 1., 1));

	out->middle += part * (own.error / own.weight - out->middle);
	out->spread += part * (seen - out->spread);
}

void mq_trust_score(struct mq_trust *t)
{
	mq_trust_sort(t);
	for (uint32_t i = 0; i < t->n; i++) {
		MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
		struct mq_trust_row *r = &t->row[i];
		struct spread s;

		spread_of(t, distances(t, &r->place, &scratch), &(struct mq_trust_without){ r->table, r->publisher },
			  &s);
		r->score = isfinite(s.spread) ? fabs(r->error - s.middle) / s.spread : 0;
	}
	mq_trust_sort(t);
}

/* The quantile `share` of the published rows' scores, near rows weighing more. */
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

/* ---- description of near rows ---------------------------------------------------------------------------------- */

/* "all on A", "12 on A", "none on A": how many of the rows have the place's word. */
static const char *shared_words(const struct mq_trust *t, const uint32_t *row, uint32_t n,
				const struct mq_trust_place *p, int word, const char *text, struct mq_arena *arena)
{
	uint32_t found = 0;

	for (uint32_t k = 0; k < n; k++)
		found += mq_trust_same(&t->row[row[k]].place, p, word);
	return found && found < n ? mq_arena_printf(arena, "%u %s", found, text) :
				    mq_arena_printf(arena, "%s %s", found ? "all" : "none", text);
}

/* ", 16 to 512 GPUs": range over the rows in which the number is above 0. */
static const char *range_words(const struct mq_trust *t, const uint32_t *row, uint32_t n, int number, const char *text,
			       const char *behind, struct mq_arena *arena)
{
	double least = INFINITY, most = 0;

	for (uint32_t k = 0; k < n; k++) {
		double value = t->row[row[k]].point.number[number];

		least = value > 0 ? fmin(least, value) : least;
		most = fmax(most, value);
	}
	return !(most > 0)  ? "" :
	       least < most ? mq_arena_printf(arena, ", %.0f to %.0f %ss%s", least, most, text, behind) :
			      mq_arena_printf(arena, ", %.0f %s%s%s", most, text, most > 1 ? "s" : "", behind);
}

/* Describes the n nearest rows in words; row[0] is the nearest. */
static const char *describe(const struct mq_trust *t, const uint32_t *row, uint32_t n, const struct mq_trust_point *p,
			    const struct mq_trust_place *place, struct mq_arena *arena)
{
	const struct mq_trust_row *nearest = &t->row[row[0]];
	const char *const *w = n > 1 ? p->word : nearest->point.word;
	const char *on = mq_arena_printf(arena, "on %s", w[MQ_TRUST_device]),
		   *with = mq_arena_printf(arena, "with %s", w[MQ_TRUST_software]),
		   *kind = mq_arena_printf(arena, "of kind %s", w[MQ_TRUST_kind]);

	if (n > 1) {
		on = shared_words(t, row, n, place, MQ_TRUST_device, on, arena);
		with = shared_words(t, row, n, place, MQ_TRUST_software, mq_arena_printf(arena, "%s or its kin", with),
				    arena);
		if (!strcmp(w[MQ_TRUST_software], "generic")) /* the question names no software; note_beyond says so */
			with = "with software of their own";
		kind = shared_words(t, row, n, place, MQ_TRUST_kind, kind, arena);
	}
	return mq_arena_printf(arena, "%s, %s, %s%s%s; %s%s of %s", on, with, kind,
			       range_words(t, row, n, MQ_TRUST_gpus, "GPU", "", arena),
			       range_words(t, row, n, MQ_TRUST_seq, "token", " a sample", arena),
			       n > 1 ? "the nearest is " : "", nearest->id, nearest->table);
}

MQ_COMPARE(rising, double, MQ_ORDER(*a, *b))

static void note_like(const struct mq_trust *t, const double *d, const struct mq_trust_point *p,
		      const struct mq_trust_place *place, const struct mq_trust_without *without,
		      struct mq_arena *arena, struct mq_trust_answer *a)
{
	uint32_t *row = mq_arena_array(arena, t->n + 1, uint32_t), nearest = MQ_NONE;
	double *error = mq_arena_array(arena, t->n + 1, double);

	for (uint32_t i = 0; i < t->n; i++) {
		const struct mq_trust_row *r = &t->row[i];

		if (!mq_trust_asked(r, without))
			continue;
		bool nearer = nearest == MQ_NONE || d[i] < d[nearest];
		if (d[i] <= MQ_TRUST_LIKE) {
			row[a->like] = nearer ? row[0] : i;
			error[a->like++] = fabs(r->point.number[MQ_TRUST_step_s] / r->measured_s - 1);
		}
		if (nearer)
			row[0] = nearest = i;
	}
	qsort(error, a->like, sizeof(*error), rising);
	a->like_error = a->like ? (error[(a->like - 1) / 2] + error[a->like / 2]) / 2 : (double)NAN;
	a->described = nearest == MQ_NONE ? "" : describe(t, row, a->like ? a->like : 1, p, place, arena);
}

/* ---- values beyond all measured runs --------------------------------------------------------------------- */

static bool any_has(const struct mq_trust *t, const struct mq_trust_place *p, const struct mq_trust_without *without,
		    int word, int other)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (mq_trust_asked(&t->row[i], without) && mq_trust_same(&t->row[i].place, p, word) &&
		    mq_trust_same(&t->row[i].place, p, other))
			return true;
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

/* Notes a word that no run has, or none of the same device generation. */
static void note_word(const struct mq_trust *t, const struct mq_trust_point *p, const struct mq_trust_place *place,
		      const struct mq_trust_without *without, int word, const char *before, const char *behind,
		      struct mq_arena *arena, struct mq_trust_answer *a)
{
	const char *text = *p->word[word] ? p->word[word] : "unknown";
	bool family = any_has(t, place, without, MQ_TRUST_family, MQ_TRUST_family);

	if (word == MQ_TRUST_software && !strcmp(text, "generic"))
		behind = " (--software names one)";
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
		      { MQ_TRUST_kind, "kind ", "" },
		      { MQ_TRUST_precision, "", " operands" },
		      { MQ_TRUST_network, "network ", "" } };
	static const struct {
		int number;
		double unit;
		const char *name;
	} numbers[] = { { MQ_TRUST_gpus, 1, "GPUs" },
			{ MQ_TRUST_kinds, 1, "device types" },
			{ MQ_TRUST_tp, 1, "ranks of tensor parallelism" },
			{ MQ_TRUST_pp, 1, "pipeline stages" },
			{ MQ_TRUST_cp, 1, "ranks of context parallelism" },
			{ MQ_TRUST_ep, 1, "ranks of expert parallelism" },
			{ MQ_TRUST_tp_nodes, 1, "machines of a tensor-parallel group" },
			{ MQ_TRUST_seq, 1, "tokens a sample" },
			{ MQ_TRUST_params, 1e9, "billion parameters" } };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		note_word(t, p, place, without, words[i].word, words[i].before, words[i].behind, arena, a);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		double most = most_of(t, without, numbers[i].number), value = p->number[numbers[i].number];

		if (value > 1.0001 * most) /* the index is rounded to five digits */
			add_beyond(a, arena, "%.7g %s (%.7g measured)", value / numbers[i].unit, numbers[i].name,
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
	/* Publishers are exchangeable, not runs: the question's is one more beside the n (conformal correction). */
	double n = t ? t->n_sources : 0, more = (n + 1) / fmax(n, 1);
	struct spread spread;
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
	note_like(t, d, point, &place, without, arena, a);
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
