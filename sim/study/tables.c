/* tables.c - answers from a study's rows: scaling, losses, the Pareto front of time and cost, and sentences about all
 * tables.
 *
 * Points are compared within a *series*: the points that differ on one axis alone. Scaling: efficiency = samples/s per
 * device of the cluster, relative to the smallest cluster of its series. Loss: step time relative to the series'
 * unchanged point (a factor of 1, a spread of 0; else the first value). SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "study/study.h"
#include "base/quantity.h"
#include "schedule/columns.h"

struct tables {
	struct mq_arena arena;
	const struct mq_study *study;
	const char *dir;
	FILE *words;
	struct mq_csv csv;           /* whatif.csv */
	uint32_t *index;             /* [n_points * n_axes] value of a point on an axis */
	double *rate, *step_s, *usd; /* [n_points] columns */
	double *size, *efficiency;   /* [n_points], if scaling is asked: devices of the cluster, and per device */
	struct mq_err *err;
};

static uint32_t at(const struct tables *t, uint32_t point, uint32_t axis)
{
	return t->index[(size_t)point * t->study->n_axes + axis];
}

static const char *value(const struct tables *t, uint32_t point, uint32_t axis)
{
	return t->study->axis[axis].value[at(t, point, axis)];
}

/* "batch = 32, gpu = A100": the point's values on axes of several values, `without` some. */
static const char *point_name(struct tables *t, uint32_t point, bool (*without)(const char *key))
{
	const char *s = "";

	for (uint32_t a = 0; a < t->study->n_axes; a++)
		if (t->study->axis[a].n > 1 && !(without && without(t->study->axis[a].key)))
			s = mq_arena_printf(&t->arena, "%s%s%s = %s", s, *s ? ", " : "", t->study->axis[a].key,
					    value(t, point, a));
	return *s ? s : "the only point";
}

static const char *path_of(struct tables *t, const char *name)
{
	return mq_arena_printf(&t->arena, "%s/%s", t->dir, name);
}

/* ---- scaling ------------------------------------------------------------------------------------------ */

static bool is_size(const char *key)
{
	return !strcmp(key, "platform.nodes") || !strcmp(key, "platform.gpus");
}

/* Devices of a point's cluster: as it is built, or else as the study's keys say. */
static double read_size(struct tables *t, uint32_t p)
{
	MQ_CLOSED struct mq_session s = { .model = NULL };
	struct mq_err refused = MQ_ERR_INIT;
	struct mq_point point;

	if (mq_study_point(t->study, p, &t->arena, &point, &refused) != MQ_OK)
		return 0;
	double size = mq_study_size(t->study, point.value);
	return size > 0 && mq_session_open(&s, &point.asked, t->study->shipped, &refused) == MQ_OK ?
		       s.cluster->n_devices :
		       size;
}

static bool same_series(const struct tables *t, uint32_t p, uint32_t q, bool (*without)(const char *))
{
	for (uint32_t a = 0; a < t->study->n_axes; a++)
		if (!without(t->study->axis[a].key) && at(t, p, a) != at(t, q, a))
			return false;
	return true;
}

/* Scaling efficiency of a point relative to the smallest cluster of its series that has a plan (may be itself). */
static double efficiency(struct tables *t, uint32_t point)
{
	uint32_t ref = point;

	for (uint32_t q = 0; q < t->study->n_points; q++)
		if (same_series(t, point, q, is_size) && !isnan(t->rate[q]) &&
		    (isnan(t->rate[ref]) || t->size[q] < t->size[ref]))
			ref = q;
	return t->rate[point] / t->size[point] / (t->rate[ref] / t->size[ref]);
}

/* Says, for the series of `first`, up to which cluster size the efficiency stays above the study's. */
static void say_scaling(struct tables *t, uint32_t first)
{
	uint32_t last_good = MQ_NONE, bad = MQ_NONE;

	for (uint32_t q = 0; q < t->study->n_points; q++)
		if (same_series(t, first, q, is_size) && t->efficiency[q] < t->study->efficiency &&
		    (bad == MQ_NONE || t->size[q] < t->size[bad]))
			bad = q;
	for (uint32_t q = 0; q < t->study->n_points; q++)
		if (same_series(t, first, q, is_size) && !isnan(t->efficiency[q]) &&
		    (bad == MQ_NONE || t->size[q] < t->size[bad]) &&
		    (last_good == MQ_NONE || t->size[q] > t->size[last_good]))
			last_good = q;
	fprintf(t->words, "scaling (%s): ", point_name(t, first, is_size));
	if (last_good == MQ_NONE) {
		fprintf(t->words, "no cluster has a plan\n");
		return;
	}
	fprintf(t->words, "%.0f devices at %.1f %% efficiency", t->size[last_good], 100 * t->efficiency[last_good]);
	if (bad != MQ_NONE)
		fprintf(t->words, "; falls under %.0f %% at %.0f devices (%.1f %%)\n", 100 * t->study->efficiency,
			t->size[bad], 100 * t->efficiency[bad]);
	else
		fprintf(t->words, "; stays above %.0f %% to the largest cluster that has a plan\n",
			100 * t->study->efficiency);
}

static enum mq_status scaling(struct tables *t)
{
	struct mq_csv_writer w;
	double most = 0;

	t->size = mq_arena_array(&t->arena, t->study->n_points, double);
	for (uint32_t p = 0; p < t->study->n_points; p++)
		most = fmax(most, t->size[p] = read_size(t, p));
	if (!(most > 0))
		return mq_bad(t->err, "%s: scaling needs a list of platform.nodes or platform.gpus", t->study->path);
	t->efficiency = mq_arena_array(&t->arena, t->study->n_points, double);
	for (uint32_t p = 0; p < t->study->n_points; p++)
		t->efficiency[p] = efficiency(t, p);
	MQ_TRY(mq_table_create(&w, MQ_TABLE_scaling, t->dir, &t->arena, t->err));
	for (uint32_t p = 0; p < t->study->n_points; p++)
		mq_csv_row(&w, "%u,%s,%g,%g,%g,%g", p, point_name(t, p, is_size), t->size[p], t->step_s[p], t->rate[p],
			   t->efficiency[p]);
	MQ_TRY(mq_csv_close(&w, t->err));
	for (uint32_t p = 0; p < t->study->n_points; p++) {
		bool first = true;

		for (uint32_t q = 0; q < p && first; q++)
			first = !same_series(t, p, q, is_size);
		if (first)
			say_scaling(t, p);
	}
	return MQ_OK;
}

/* ---- losses: the same question with one change ------------------------------------------------------ */

static bool is_loss(const char *key)
{
	return !strncmp(key, "rank.", 5) || !strncmp(key, "spread.", 7) || !strncmp(key, "link.", 5) ||
	       !strncmp(key, "linkname.", 9) || !strncmp(key, "device.", 7);
}

/* The index of the axis's unchanged value. */
static uint32_t unchanged_value(const struct mq_axis *axis)
{
	double want = !strncmp(axis->key, "spread.", 7) ? 0 : 1, v;

	for (uint32_t i = 0; i < axis->n; i++)
		if (mq_parse_f64(axis->value[i], &v) && v == want)
			return i;
	return 0;
}

/* The point that has value `to` on `axis`, else the values of `point`. */
static uint32_t point_at(const struct tables *t, uint32_t point, uint32_t axis, uint32_t to)
{
	uint32_t stride = 1;

	for (uint32_t a = t->study->n_axes; --a > axis;)
		stride *= t->study->axis[a].with ? 1 : t->study->axis[a].n;
	return point + stride * to - stride * at(t, point, axis);
}

static void put_losses(struct tables *t, uint32_t axis, struct mq_csv_writer *w)
{
	const struct mq_axis *x = &t->study->axis[axis];
	double worst = 0;
	uint32_t worst_point = MQ_NONE;

	for (uint32_t p = 0; p < t->study->n_points; p++) {
		uint32_t ref = point_at(t, p, axis, unchanged_value(x));
		double loss = t->step_s[p] / t->step_s[ref] - 1;

		if (p == ref)
			continue;
		mq_csv_row(w, "%u,%s,%s,%s,%g,%g", p, x->key, value(t, p, axis), value(t, ref, axis), t->step_s[p],
			   loss);
		if (worst_point == MQ_NONE || loss > worst) {
			worst = loss;
			worst_point = p;
		}
	}
	if (worst_point != MQ_NONE && !isnan(worst))
		fprintf(t->words, "loss: %s changes step time by %+.2f %% at worst (%s)\n", x->key, 100 * worst,
			point_name(t, worst_point, NULL));
}

static enum mq_status losses(struct tables *t)
{
	struct mq_csv_writer w = { 0 };

	for (uint32_t a = 0; a < t->study->n_axes; a++) {
		/* axes that vary together have no losses of their own */
		if (t->study->axis[a].n < 2 || !is_loss(t->study->axis[a].key) || mq_study_joined(t->study, a))
			continue;
		if (!w.file)
			MQ_TRY(mq_table_create(&w, MQ_TABLE_losses, t->dir, &t->arena, t->err));
		put_losses(t, a, &w);
	}
	return mq_csv_close(&w, t->err);
}

/* ---- time and cost --------------------------------------------------------------------------------- */

enum { MOST_SAID = 6 };

static double *column(struct tables *t, const char *name)
{
	double *v = mq_arena_array(&t->arena, t->csv.n_rows, double);

	for (uint32_t r = 0; r < t->csv.n_rows; r++)
		v[r] = mq_csv_number(&t->csv, r, name);
	return v;
}

/* Seconds and $ of a thousand samples, since batches differ. */
static double time_of(const struct tables *t, uint32_t p)
{
	return 1000 / t->rate[p];
}

static double cost_of(const struct tables *t, uint32_t p)
{
	return t->usd[p] * 1000 / (t->rate[p] * t->step_s[p]);
}

static bool on_front(const struct tables *t, uint32_t p)
{
	for (uint32_t q = 0; q < t->study->n_points; q++)
		if ((time_of(t, q) < time_of(t, p) && cost_of(t, q) <= cost_of(t, p)) ||
		    (time_of(t, q) <= time_of(t, p) && cost_of(t, q) < cost_of(t, p)))
			return false;
	return true;
}

static const char *unlike(const struct tables *t, uint32_t p)
{
	bool judged = *mq_csv_word(&t->csv, p, "low_80_s"), like = *mq_csv_word(&t->csv, p, "like_runs");

	return judged && !like ? "; no measured run is like it" : "";
}

/* Says the fastest point, the cheapest of known price, which it returns, and the points without a price. */
static uint32_t say_prices(struct tables *t)
{
	uint32_t fastest = MQ_NONE, cheapest = MQ_NONE, unknown = 0;
	const char *list = "";

	for (uint32_t p = 0; p < t->study->n_points; p++) {
		if (isnan(t->rate[p]))
			continue;
		if (fastest == MQ_NONE || time_of(t, p) < time_of(t, fastest))
			fastest = p;
		if (isnan(cost_of(t, p)) && unknown++ < 3)
			list = mq_arena_printf(&t->arena, "%s%s%s", list, *list ? "; " : "", point_name(t, p, NULL));
		else if (!isnan(cost_of(t, p)) && (cheapest == MQ_NONE || cost_of(t, p) < cost_of(t, cheapest)))
			cheapest = p;
	}
	fprintf(t->words, "fastest: %s: %.4g samples/s", point_name(t, fastest, NULL), t->rate[fastest]);
	if (isnan(cost_of(t, fastest)))
		fprintf(t->words, ", at a price that is not known%s\n", unlike(t, fastest));
	else
		fprintf(t->words, " at $%.4g per 1000%s\n", cost_of(t, fastest), unlike(t, fastest));
	fprintf(t->words, "cheapest%s: %s: %.4g samples/s at $%.4g per 1000%s\n",
		unknown ? " of those with a price" : "", point_name(t, cheapest, NULL), t->rate[cheapest],
		cost_of(t, cheapest), unlike(t, cheapest));
	if (unknown)
		fprintf(t->words, "no price is known of %u point%s (%s%s); device.TYPE.price_per_h = N gives one\n",
			unknown, unknown > 1 ? "s" : "", list, unknown > 3 ? "; ..." : "");
	return cheapest;
}

/* Says how many of n points were not listed after the first MOST_SAID. */
static void say_left_out(struct tables *t, const char *what, uint32_t n)
{
	if (n > MOST_SAID)
		fprintf(t->words, "%s: %u more point%s not listed; whatif.csv has them all\n", what, n - MOST_SAID,
			n - MOST_SAID > 1 ? "s are" : " is");
}

/* Says the device price at which each point would cost as much per sample as the cheapest point. */
static void say_price_ties(struct tables *t, uint32_t cheapest)
{
	double *devices = column(t, "devices");
	uint32_t said = 0;

	for (uint32_t p = 0; p < t->study->n_points; p++) {
		double price = 3600 * t->usd[p] / (t->step_s[p] * devices[p]),
		       least = 3600 * t->usd[cheapest] / (t->step_s[cheapest] * devices[cheapest]),
		       share = cost_of(t, cheapest) / cost_of(t, p);
		bool same = devices[p] == devices[cheapest] && fabs(price / least - 1) < 1e-6;

		if (p == cheapest || isnan(share) || same || said++ >= MOST_SAID)
			continue;
		fprintf(t->words,
			"break-even price: %s costs as much per sample as the cheapest at $%.4g a device and hour, not $%.4g\n",
			point_name(t, p, NULL), price * share, price);
	}
	say_left_out(t, "break-even price", said);
}

/* Says the time and cost of an epoch, and the point of fewest devices (then lowest cost) within the limits asked
 * for. */
static void say_epoch(struct tables *t)
{
	const struct mq_study *s = t->study;
	double *seconds = column(t, "epoch_s"), *usd = column(t, "usd_per_epoch"), *devices = column(t, "devices"),
	       *fast = column(t, "low_80_s"), *slow_s = column(t, "high_80_s");
	uint32_t best = MQ_NONE, said = 0;
	char money[32];

	for (uint32_t p = 0; p < s->n_points; p++) {
		double days = seconds[p] / 86400;
		if (isnan(days) || said++ >= MOST_SAID)
			continue;
		fprintf(t->words, "an epoch: %s: %.4g days", point_name(t, p, NULL), days);
		if (fast[p] > 0)
			fprintf(t->words, ", 80 %% within %.4g to %.4g", days * fast[p] / t->step_s[p],
				days * slow_s[p] / t->step_s[p]);
		if (!isnan(usd[p]))
			fprintf(t->words, ", %s", mq_text_usd(usd[p], money));
		fprintf(t->words, "%s\n", unlike(t, p));
	}
	say_left_out(t, "an epoch", said);
	if (!(s->epoch_days > 0) && !(s->epoch_usd > 0))
		return;
	for (uint32_t p = 0; p < s->n_points; p++) {
		bool slow = !(seconds[p] <= (s->epoch_days > 0 ? 86400 * s->epoch_days : (double)INFINITY));
		bool dear = s->epoch_usd > 0 && !(usd[p] <= s->epoch_usd);

		if (!slow && !dear &&
		    (best == MQ_NONE || devices[p] < devices[best] ||
		     (devices[p] == devices[best] && usd[p] < usd[best])))
			best = p;
	}
	if (best == MQ_NONE) {
		fputs("an epoch: no point takes as little as was asked for\n", t->words);
		return;
	}
	fprintf(t->words, "an epoch, fewest devices: %s: %.0f devices, %.4g days", point_name(t, best, NULL),
		devices[best], seconds[best] / 86400);
	if (!isnan(usd[best]))
		fprintf(t->words, ", %s", mq_text_usd(usd[best], money));
	fputc('\n', t->words);
}

static enum mq_status pareto(struct tables *t)
{
	struct mq_csv_writer w;
	uint32_t n = 0, unpriced = 0;

	for (uint32_t p = 0; p < t->study->n_points; p++) {
		n += !isnan(cost_of(t, p));
		unpriced += !isnan(t->rate[p]) && isnan(cost_of(t, p));
	}
	if (!n || n + unpriced < 2)
		return MQ_OK;
	MQ_TRY(mq_table_create(&w, MQ_TABLE_pareto, t->dir, &t->arena, t->err));
	for (uint32_t p = 0; p < t->study->n_points; p++) {
		char *label = mq_arena_strdup(&t->arena, point_name(t, p, NULL));
		for (char *c = label; (c = strchr(c, ',')); c++) /* to gnuplot every comma ends a column */
			*c = ';';
		if (!isnan(cost_of(t, p)))
			mq_csv_row(&w, "%u,%g,%g,%u,%s", p, time_of(t, p), cost_of(t, p), on_front(t, p), label);
	}
	MQ_TRY(mq_csv_close(&w, t->err));
	say_price_ties(t, say_prices(t));
	return MQ_OK;
}

/* ---- words --------------------------------------------------------------------------------------------- */

/* Says for each point the hardware upgrade that shortens its step most. */
static enum mq_status say_upgrades(struct tables *t)
{
	struct mq_csv s;

	MQ_TRY(mq_csv_load(path_of(t, "sensitivity.csv"), &t->arena, &s, t->err));
	for (uint32_t p = 0; p < t->study->n_points; p++) {
		const char *best = NULL, *id = mq_arena_printf(&t->arena, "%u", p);
		double gain = 0, factor = 1;

		if (isnan(t->step_s[p]))
			continue;
		for (uint32_t r = 0; r < s.n_rows; r++) {
			const char *target = mq_csv_word(&s, r, "target");
			double g = 1 - mq_csv_number(&s, r, "step_time_s") / t->step_s[p];

			/* An upgrade is a factor above 1, of latency below 1; the batch is not hardware. */
			if (strcmp(mq_csv_word(&s, r, "point"), id) || !strcmp(target, "batch") ||
			    (strstr(target, ".latency") != NULL) != (mq_csv_number(&s, r, "factor") < 1) || !(g > gain))
				continue;
			best = target;
			gain = g;
			factor = mq_csv_number(&s, r, "factor");
		}
		if (best)
			fprintf(t->words, "upgrade (%s): %g times %s buys most: step time %.2f %% shorter\n",
				point_name(t, p, NULL), factor, best, 100 * gain);
		else
			fprintf(t->words, "upgrade (%s): nothing alone makes the plan faster\n",
				point_name(t, p, NULL));
	}
	return MQ_OK;
}

/* Says for each point what failures cost, and how often to save; or the step that half, nine tenths, ... keep. */
static void say_times(struct tables *t)
{
	double *goodput = column(t, "goodput"), *interval_s = column(t, "checkpoint_interval_s"),
	       *save_s = column(t, "checkpoint_s"), *mtbf_s = column(t, "mtbf_s"), *p50_s = column(t, "step_p50_s"),
	       *p90_s = column(t, "step_p90_s"), *p99_s = column(t, "step_p99_s");
	char half[32], most[32], all[32];
	uint32_t said = 0;

	for (uint32_t p = 0; p < t->csv.n_rows; p++) {
		if ((isnan(goodput[p]) && isnan(p50_s[p])) || said++ >= MOST_SAID)
			continue;
		if (!isnan(goodput[p]))
			fprintf(t->words,
				"failures (%s): one in %.4g h; %.4g %% of the time is progress, saving every %.4g min, "
				"for %.3g s\n",
				point_name(t, p, NULL), mtbf_s[p] / 3600, 100 * goodput[p], interval_s[p] / 60,
				save_s[p]);
		if (!isnan(p50_s[p]))
			fprintf(t->words, "jitter (%s): half of the steps take at most %s, 90 %% %s, 99 %% %s\n",
				point_name(t, p, NULL), mq_text_s(p50_s[p], half), mq_text_s(p90_s[p], most),
				mq_text_s(p99_s[p], all));
	}
	say_left_out(t, "failures, jitter", said);
}

static enum mq_status say_breakeven(struct tables *t)
{
	struct mq_csv b;

	MQ_TRY(mq_csv_load(path_of(t, "breakeven.csv"), &t->arena, &b, t->err));
	for (uint32_t r = 0; r < b.n_rows; r++) {
		uint32_t p = (uint32_t)mq_csv_number(&b, r, "point");

		fprintf(t->words, "break-even (%s): %s\n", point_name(t, p, NULL), mq_csv_word(&b, r, "answer"));
	}
	return MQ_OK;
}

/* "jobs (oversub = 4): big 1.2 % slower, small 2.0 %; ..." */
static enum mq_status say_jobs(struct tables *t)
{
	struct mq_csv jobs;

	MQ_TRY(mq_csv_load(path_of(t, "jobs.csv"), &t->arena, &jobs, t->err));
	for (uint32_t p = 0; p < t->study->n_points; p++) {
		const char *link = "";

		fprintf(t->words, "jobs (%s):", point_name(t, p, NULL));
		if (strcmp(mq_csv_word(&t->csv, p, "verdict"), "ok"))
			fprintf(t->words, " %s: %s", mq_csv_word(&t->csv, p, "verdict"),
				mq_csv_word(&t->csv, p, "message"));
		for (uint32_t r = 0, n = 0; r < jobs.n_rows; r++) {
			double slower = mq_csv_number(&jobs, r, "slowdown") - 1;

			if (mq_csv_number(&jobs, r, "point") != p)
				continue;
			fprintf(t->words, "%s %s ", n++ ? "," : "", mq_csv_word(&jobs, r, "job"));
			if (fabs(slower) < 5e-7)
				fputs("as alone", t->words);
			else
				fprintf(t->words, "%.3g %% %s", 100 * fabs(slower), slower > 0 ? "slower" : "faster");
			if (!*link)
				link = mq_csv_word(&jobs, r, "busiest_link");
		}
		if (mq_csv_number(&t->csv, p, "shared_links") > 0)
			fprintf(t->words, "; they share %s links, most of all %s",
				mq_csv_word(&t->csv, p, "shared_links"), link);
		else if (!strcmp(mq_csv_word(&t->csv, p, "verdict"), "ok"))
			fputs("; they share no link", t->words);
		fputc('\n', t->words);
	}
	return MQ_OK;
}

/* Says each distinct text of a column once; column "plan": the reasons why points have no plan. */
static void say_once(struct tables *t, const char *column)
{
	bool none = !strcmp(column, "plan");

	for (uint32_t p = 0; p < t->csv.n_rows; p++) {
		const char *text = mq_csv_word(&t->csv, p, column);
		uint32_t before = 0, after = 0;

		for (uint32_t k = 0; k < t->csv.n_rows && !before; k++)
			if (k != p && !strcmp(text, mq_csv_word(&t->csv, k, column)))
				*(k < p ? &before : &after) += 1;
		if (!*text || (none && !isnan(t->rate[p])) || before)
			continue;
		if (none)
			fprintf(t->words, "no plan: %s: %s: ", point_name(t, p, NULL),
				mq_csv_word(&t->csv, p, "verdict"));
		fprintf(t->words, "%s%s", none ? "" : "assumed: ", text);
		if (none && after)
			fprintf(t->words, "; and %u more point%s", after, after > 1 ? "s" : "");
		fputc('\n', t->words);
	}
}

static enum mq_status all_answers(struct tables *t)
{
	const struct mq_study *s = t->study;

	MQ_TRY(mq_csv_load(path_of(t, "whatif.csv"), &t->arena, &t->csv, t->err));
	if (t->csv.n_rows != s->n_points)
		return mq_bad(t->err, "%s: %u rows, the study has %u points", t->csv.path, t->csv.n_rows, s->n_points);
	t->index = mq_arena_array(&t->arena, (size_t)s->n_points * s->n_axes, uint32_t);
	for (uint32_t p = 0; p < s->n_points; p++)
		mq_study_values(s, p, &t->index[(size_t)p * s->n_axes]);
	if (s->n_jobs)
		return say_jobs(t);
	t->rate = column(t, "samples_per_s");
	t->step_s = column(t, "step_time_s");
	t->usd = column(t, "usd_per_step");
	say_once(t, "plan");
	say_once(t, "assumed");
	if (s->efficiency > 0)
		MQ_TRY(scaling(t));
	MQ_TRY(losses(t));
	MQ_TRY(pareto(t));
	if (s->epoch > 0)
		say_epoch(t);
	if (s->fails || s->jitters)
		say_times(t);
	if (s->sensitivity > 0)
		MQ_TRY(say_upgrades(t));
	return s->breakeven_target ? say_breakeven(t) : MQ_OK;
}

enum mq_status mq_study_answers(const struct mq_study *study, const char *dir, FILE *words, struct mq_err *err)
{
	struct tables t = { .study = study, .dir = dir, .words = words, .err = err };
	enum mq_status status = all_answers(&t);

	mq_arena_fini(&t.arena);
	return status;
}
