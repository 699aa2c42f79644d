/* trust.c - the index of errors and how often its intervals hold, see score.h. SPDX-License-Identifier: Apache-2.0 */
#include "trust/trust.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/paths.h"
#include "score/score.h"

/* The kinds of runs in the report: a word of the point, or a class of its size. */
static const char *size_of(const struct mq_trust_point *p)
{
	double gpus = p->number[MQ_TRUST_gpus];

	return gpus <= 1 ? "1 GPU" : gpus <= 64 ? "2 to 64 GPUs" : gpus <= 1024 ? "65 to 1,024 GPUs" : "more GPUs";
}

static const char *class_of(const struct mq_trust_row *r, int by)
{
	return by == 0 ? "all" :
	       by == 1 ? r->point.word[MQ_TRUST_kind] :
	       by == 2 ? r->point.word[MQ_TRUST_family] :
	       by == 3 ? size_of(&r->point) :
			 r->table;
}

/* Quality of the intervals of one kind of run; half-widths and errors are shares of the prediction. */
static void put_kind(const struct mq_trust *t, const struct mq_trust_answer *a, int by, const char *name,
		     struct mq_csv_writer *w, struct mq_arena *arena)
{
	double *half_80 = mq_arena_array(arena, t->n, double), *half_50 = mq_arena_array(arena, t->n, double),
	       *error = mq_arena_array(arena, t->n, double);
	uint32_t n = 0, in_80 = 0, in_50 = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		const struct mq_trust_row *r = &t->row[i];
		double step_s = r->point.number[MQ_TRUST_step_s];

		if (strcmp(class_of(r, by), name) != 0)
			continue;
		in_80 += r->measured_s >= a[i].low_80_s && r->measured_s <= a[i].high_80_s;
		in_50 += r->measured_s >= a[i].low_50_s && r->measured_s <= a[i].high_50_s;
		half_80[n] = (a[i].high_80_s - a[i].low_80_s) / 2 / step_s;
		half_50[n] = (a[i].high_50_s - a[i].low_50_s) / 2 / step_s;
		error[n++] = fabs(r->measured_s / step_s - 1);
	}
	const double rank = mq_spearman(half_80, error, n, arena); /* before the quantiles sort both arrays */
	const double value[] = { (double)in_80 / n,           (double)in_50 / n,         mq_quantile(half_80, n, .5),
				 mq_quantile(half_50, n, .5), mq_quantile(error, n, .5), rank };

	mq_csv_row(w, "%s,%u,%g,%g,%g,%g,%g,%g", name, n, value[0], value[1], value[2], value[3], value[4], value[5]);
	if (by < 4)
		printf("%-20s %6u %7.1f %7.1f %8.1f %8.1f %8.1f %6.2f\n", name, n, 100 * value[0], 100 * value[1],
		       100 * value[2], 100 * value[3], 100 * value[4], value[5]);
}

static enum mq_status write_kinds(const struct mq_trust *t, const struct mq_trust_answer *a, const char *path,
				  struct mq_arena *arena, struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_csv_create(&w, path, "runs,rows,in_80,in_50,half_80,half_50,error,spearman", err));
	printf("%-20s %6s %7s %7s %8s %8s %8s %6s\n", "runs", "rows", "80 %", "50 %", "half 80", "half 50", "error",
	       "rank");
	for (int by = 0; by < 5; by++)
		for (uint32_t i = 0; i < t->n; i++) {
			bool again = false;

			for (uint32_t k = 0; k < i && !again; k++)
				again = !strcmp(class_of(&t->row[k], by), class_of(&t->row[i], by));
			if (!again)
				put_kind(t, a, by, class_of(&t->row[i], by), &w, arena);
		}
	return mq_csv_close(&w, err);
}

static enum mq_status write_intervals(const struct mq_trust *t, const struct mq_trust_answer *a, const char *path,
				      struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_csv_create(&w, path, mq_arena_printf(t->arena, "table,row_id,left_out_s,%s", mq_trust_answer_columns),
			     err));
	for (uint32_t i = 0; i < t->n; i++) {
		mq_csv_put(&w, "%s,%s,%g", t->row[i].table, t->row[i].id, t->row[i].point.number[MQ_TRUST_step_s]);
		mq_trust_put_answer(&w, &a[i]);
		mq_csv_end(&w);
	}
	return mq_csv_close(&w, err);
}

/* All points except those that an earlier run left at `own`. */
static enum mq_status read_folder(struct mq_trust *t, const char *folder, const char *own, struct mq_arena *arena,
				  struct mq_err *err)
{
	uint32_t n;
	const char **name = mq_folder_names(folder, "", "", arena, &n);

	if (!name)
		return mq_bad(err, "%s: cannot read the folder: %m", folder);
	for (; *name; name++) {
		const char *path = mq_arena_printf(arena, "%s/%s/trust.csv", folder, *name);

		if (strcmp(path, own) != 0 && !access(path, F_OK))
			MQ_TRY(mq_trust_add(t, path, false, err));
	}
	return t->n ? MQ_OK :
		      mq_bad(err,
			     "%s: no folder in it has a trust.csv; `maquette score TABLE --left-out -o %s/TABLE` makes one",
			     folder, folder);
}

/* Over pairs of runs that differ in plan alone, at most SAMPLE per publisher: how often the plan predicted faster was
 * faster, by the stated confidence. */
static enum mq_status write_pairs(struct mq_trust *t, const char *path, struct mq_err *err)
{
	enum { SAMPLE = 60, BINS = 5 };
	static const double from[BINS] = { .5, .6, .7, .8, .9 };
	uint32_t n, right[BINS] = { 0 }, called[BINS] = { 0 };
	const struct mq_trust_pair *pair = mq_trust_pairs(t, &n);
	uint32_t *seen = mq_arena_array(t->arena, t->n_words, uint32_t);
	struct mq_csv_writer w;

	for (uint32_t i = 0; i < n; i++) {
		const struct mq_trust_row *a = &t->row[pair[i].a], *b = &t->row[pair[i].b];
		uint64_t all = t->pairs_of[a->source], kept = all < SAMPLE ? all : SAMPLE, at = seen[a->source]++;

		if (at * kept / all == (at + 1) * kept / all)
			continue;
		double p =
			mq_trust_faster(t, &a->point, &b->point, &(struct mq_trust_without){ a->table, a->publisher });
		int bin = BINS - 1;
		while (bin && fmax(p, 1 - p) < from[bin])
			bin--;
		called[bin]++;
		right[bin] += pair[i].right;
	}
	MQ_TRY(mq_csv_create(&w, path, "called_from,pairs,right", err));
	for (int i = 0; i < BINS; i++) {
		mq_csv_row(&w, "%g,%u,%g", from[i], called[i], called[i] ? (double)right[i] / called[i] : (double)NAN);
		printf("called with %.0f %% and more: %u pairs, right %.1f %%\n", 100 * from[i], called[i],
		       called[i] ? 100. * right[i] / called[i] : (double)NAN);
	}
	return mq_csv_close(&w, err);
}

enum mq_status mq_score_trust_index(const char *folder, const char *dir, struct mq_arena *arena, struct mq_err *err)
{
	struct mq_trust *t = mq_trust_new(arena);

	const char *index = mq_arena_printf(arena, "%s/trust.csv", dir);

	MQ_TRY(read_folder(t, folder, index, arena, err));
	mq_trust_score(t);
	MQ_TRY(mq_trust_save(t, index, err));
	struct mq_trust_answer *a = mq_arena_array(arena, t->n, struct mq_trust_answer);
	for (uint32_t i = 0; i < t->n; i++) {
		const struct mq_trust_without without = { t->row[i].table, t->row[i].publisher };

		mq_trust_ask(t, &t->row[i].point, &without, arena, &a[i]);
	}
	MQ_TRY(write_intervals(t, a, mq_arena_printf(arena, "%s/intervals.csv", dir), err));
	MQ_TRY(write_pairs(t, mq_arena_printf(arena, "%s/trust_pairs.csv", dir), err));
	return write_kinds(t, a, mq_arena_printf(arena, "%s/trust_kinds.csv", dir), arena, err);
}
