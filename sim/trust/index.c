/* index.c - see trust.h: reading and writing the index of errors. SPDX-License-Identifier: Apache-2.0 */
#include "trust/trust.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/index.h"
#include "base/paths.h"

const char mq_trust_columns[] = "table,row_id,group,source";
const char mq_trust_columns_behind[] = ",measured_s,memory_basis,predicted_GB,measured_GB,score";

enum { MAX_ROWS = 100000 };

static uint32_t number_of(struct mq_trust *t, const void *bytes, size_t size)
{
	bool found;
	uint32_t number = mq_index_put(t->words, bytes, size, t->n_words, &found);

	t->n_words += !found;
	return number;
}

static uint32_t word_of(struct mq_trust *t, const char *text)
{
	return number_of(t, text, strlen(text));
}

const char *mq_trust_publisher(const char *source, struct mq_arena *arena)
{
	const char *blank = strchr(source, ' '), *start = blank ? blank + 1 : source;
	size_t n = strcspn(start, "/-");

	return strchr(start, '/') ? mq_arena_printf(arena, "%.*s", (int)n, start) : source;
}

static float octaves(double x)
{
	return x > 0 ? (float)log2(x) : 0;
}

static float fifths(double share)
{
	return (float)(share > 0 ? fmin(share, .6) / .2 : 0);
}

void mq_trust_place_of(struct mq_trust *t, const struct mq_trust_point *p, struct mq_trust_place *place)
{
	const double *n = p->number;
	const float x[MQ_TRUST_SCALED] = { octaves(n[MQ_TRUST_step_s]) / 4,
					   octaves(fmin(fmax(n[MQ_TRUST_mfu], .01), 1)),
					   fifths(n[MQ_TRUST_comm_share]),
					   fifths(n[MQ_TRUST_bubble_share]),
					   n[MQ_TRUST_tp_nodes] > 1,
					   n[MQ_TRUST_kinds] > 1,
					   !strcmp(p->word[MQ_TRUST_kind], "mixture"),
					   !strcmp(p->word[MQ_TRUST_kind], "fine-tuning"),
					   !strcmp(p->word[MQ_TRUST_kind], "inference") };

	memcpy(place->x, x, sizeof(x));
	for (int i = 0; i < MQ_N_TRUST_WORDS; i++)
		place->word[i] = word_of(t, p->word[i]);
	if (!strcmp(p->word[MQ_TRUST_parent], "generic")) /* every software inherits it, so it makes no kin */
		place->word[MQ_TRUST_parent] = place->word[MQ_TRUST_software];
}

bool mq_trust_same(const struct mq_trust_place *a, const struct mq_trust_place *b, int word)
{
	const uint32_t *u = a->word, *v = b->word;

	return u[word] == v[word] || (word == MQ_TRUST_software && (u[MQ_TRUST_parent] == v[MQ_TRUST_parent] ||
								    u[MQ_TRUST_software] == v[MQ_TRUST_parent] ||
								    u[MQ_TRUST_parent] == v[MQ_TRUST_software]));
}

double mq_trust_distance(const struct mq_trust_place *a, const struct mq_trust_place *b)
{
	const uint32_t *u = a->word, *v = b->word;
	double sum = (u[MQ_TRUST_device] != v[MQ_TRUST_device]) + 3 * (u[MQ_TRUST_family] != v[MQ_TRUST_family]) +
		     (u[MQ_TRUST_precision] != v[MQ_TRUST_precision]) + (u[MQ_TRUST_network] != v[MQ_TRUST_network]);

	if (u[MQ_TRUST_software] != v[MQ_TRUST_software])
		sum += mq_trust_same(a, b, MQ_TRUST_software) ? .5 : 1;
	for (int i = 0; i < MQ_TRUST_SCALED; i++)
		sum += (double)fabsf(a->x[i] - b->x[i]);
	return sum;
}

/* ---- reading -------------------------------------------------------------------------------------------- */

/* Columns in the index's order; a table must have the first N_NEEDED. */
enum {
	TABLE,
	ID,
	GROUP,
	SOURCE,
	WORD,
	NUMBER = WORD + MQ_N_TRUST_WORDS,
	MEASURED = NUMBER + MQ_N_TRUST_NUMBERS,
	N_NEEDED,
	BASIS = N_NEEDED,
	PREDICTED_GB,
	MEASURED_GB,
	SCORE,
	N_COLUMNS
};

static enum mq_status find_columns(const struct mq_csv *csv, uint32_t at[N_COLUMNS], struct mq_arena *arena,
				   struct mq_err *err)
{
	const char *name = mq_arena_printf(arena, "%s%s%s", mq_trust_columns, mq_trust_header, mq_trust_columns_behind);

	for (int i = 0; i < N_COLUMNS; i++, name += strcspn(name, ",") + 1) {
		const char *one = mq_arena_printf(arena, "%.*s", (int)strcspn(name, ","), name);

		at[i] = mq_csv_column(csv, one);
		if (at[i] == UINT32_MAX && i < N_NEEDED)
			return mq_bad(err,
				      "%s: no column '%s': it is no index of errors; give a trust.csv that `maquette "
				      "score` or `validate` left in its folder",
				      csv->path, one);
	}
	return MQ_OK;
}

static enum mq_status number(const struct mq_csv *csv, uint32_t row, uint32_t at, double *value, struct mq_err *err)
{
	if (mq_csv_f64(csv, row, at, NAN, value) && (isnan(*value) || isfinite(*value)))
		return MQ_OK;
	return mq_bad(err, "%s:%u: '%s' is not a number in column %s", csv->path, csv->line[row],
		      mq_csv_text(csv, row, at), csv->header[at]);
}

static enum mq_status read_row(struct mq_trust *t, const struct mq_csv *csv, uint32_t row, const uint32_t *c, bool own,
			       struct mq_err *err)
{
	struct mq_trust_row r = { .table = mq_csv_text(csv, row, c[TABLE]),
				  .id = mq_csv_text(csv, row, c[ID]),
				  .memory_basis = mq_csv_text(csv, row, c[BASIS]),
				  .own = own };
	double step_s;

	for (int i = 0; i < MQ_N_TRUST_WORDS; i++)
		r.point.word[i] = mq_csv_text(csv, row, c[WORD + i]);
	for (int i = 0; i < MQ_N_TRUST_NUMBERS; i++)
		MQ_TRY(number(csv, row, c[NUMBER + i], &r.point.number[i], err));
	MQ_TRY(number(csv, row, c[MEASURED], &r.measured_s, err));
	MQ_TRY(number(csv, row, c[PREDICTED_GB], &r.predicted_GB, err));
	MQ_TRY(number(csv, row, c[MEASURED_GB], &r.measured_GB, err));
	MQ_TRY(number(csv, row, c[SCORE], &r.score, err));
	step_s = r.point.number[MQ_TRUST_step_s];
	if (!(step_s > 0) || !(r.measured_s > 0))
		return mq_bad(err, "%s:%u: step_s and measured_s are to be above 0", csv->path, csv->line[row]);
	r.error = fmin(fmax(log(r.measured_s / step_s), -1), 1);
	r.publisher = mq_csv_text(csv, row, c[SOURCE]);
	r.source = word_of(t, r.publisher);
	mq_trust_place_of(t, &r.point, &r.place);
	/* Texts and these ids share one index of bytes: ids have zero bytes, texts have none. */
	const uint32_t group[] = { word_of(t, r.table), r.place.word[MQ_TRUST_software],
				   word_of(t, mq_csv_text(csv, row, c[GROUP])) };
	r.group = number_of(t, group, sizeof(group));
	if (t->n == MAX_ROWS)
		return mq_bad(err, "%s: more than %d rows", csv->path, MAX_ROWS);
	MQ_PUSH(t->arena, t->row, t->n, t->room, r);
	return MQ_OK;
}

enum mq_status mq_trust_add(struct mq_trust *t, const char *path, bool own, struct mq_err *err)
{
	uint32_t c[N_COLUMNS];
	struct mq_csv csv;

	MQ_TRY(mq_csv_load(path, t->arena, &csv, err));
	MQ_TRY(find_columns(&csv, c, t->arena, err));
	for (uint32_t r = 0; r < csv.n_rows; r++)
		MQ_TRY(read_row(t, &csv, r, c, own, err));
	return MQ_OK;
}

void mq_trust_sort(struct mq_trust *t)
{
	uint32_t *runs = mq_arena_array(t->arena, t->n_words, uint32_t);
	double *score = mq_arena_array(t->arena, t->n, double);

	t->n_sources = 0;
	for (uint32_t i = 0; i < t->n; i++) {
		t->n_sources += !t->row[i].own && !runs[t->row[i].source]++;
		score[i] = t->row[i].score;
	}
	for (uint32_t i = 0; i < t->n; i++)
		t->row[i].share = t->row[i].own ? 1 : 1 / sqrt(runs[t->row[i].source]);
	t->by_score = mq_arena_order(t->arena, score, t->n);
}

struct mq_trust *mq_trust_new(struct mq_arena *arena)
{
	struct mq_trust *t = mq_arena_array(arena, 1, struct mq_trust);

	*t = (struct mq_trust){ .arena = arena, .words = mq_index_new(arena) };
	return t;
}

const char mq_trust_missing[] = "note: no index of errors (results/accuracy/trust.csv): answers come without trust\n";

const char *mq_trust_path(struct mq_arena *arena)
{
	struct mq_err none = MQ_ERR_INIT;
	const char *dir, *path;

	if (mq_find_dir("results/accuracy", arena, &dir, &none) != MQ_OK)
		return NULL;
	path = mq_arena_printf(arena, "%s/trust.csv", dir);
	return access(path, F_OK) ? NULL : path;
}

/* Loads the shipped index, whose rows must have scores. */
static enum mq_status load(struct mq_trust *t, const char *path, struct mq_err *err)
{
	MQ_TRY(mq_trust_add(t, path, false, err));
	for (uint32_t i = 0; i < t->n; i++)
		if (!(t->row[i].score >= 0))
			return mq_bad(err, "%s: row %s has no score: damaged; install again, or run `make accuracy`",
				      path, t->row[i].id);
	return t->n ? MQ_OK : mq_bad(err, "%s: no row: damaged; install again, or run `make accuracy`", path);
}

enum mq_status mq_trust_open(const struct mq_list *own, struct mq_arena *arena, struct mq_trust **trust,
			     struct mq_err *err)
{
	const char *path = mq_trust_path(arena);

	*trust = NULL;
	if (!path)
		return own->n ?
			       mq_bad(err,
				      "--trust-with %s: there is no index of errors to add it to; install again, or run "
				      "`make accuracy` for results/accuracy/trust.csv",
				      own->item[0]) :
			       MQ_OK;
	struct mq_trust *t = mq_trust_new(arena);
	MQ_TRY(load(t, path, err));
	for (uint32_t i = 0; i < own->n; i++)
		MQ_TRY(mq_trust_add(t, own->item[i], true, err));
	mq_trust_sort(t);
	*trust = t;
	return MQ_OK;
}

/* ---- writing -------------------------------------------------------------------------------------------- */

/* Rounds to five digits: enough for intervals, half the file size. */
static double five_digits(double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%.5g", value);
	return strtod(text, NULL);
}

enum mq_status mq_trust_save(const struct mq_trust *t, const char *path, struct mq_err *err)
{
	struct mq_csv_writer w;
	uint32_t *number = mq_arena_array(t->arena, t->n_words, uint32_t), groups = 0;

	MQ_TRY(mq_csv_create(
		&w, path,
		mq_arena_printf(t->arena, "%s%s%s", mq_trust_columns, mq_trust_header, mq_trust_columns_behind), err));
	for (uint32_t i = 0; i < t->n; i++) {
		const struct mq_trust_row *r = &t->row[i];

		if (!number[r->group])
			number[r->group] = ++groups;
		mq_csv_put(&w, "%s,%s,%u,%s", r->table, r->id, number[r->group], r->publisher);
		for (int k = 0; k < MQ_N_TRUST_WORDS; k++)
			mq_csv_put_text(&w, r->point.word[k]);
		for (int k = 0; k < MQ_N_TRUST_NUMBERS; k++)
			mq_csv_put_f64(&w, five_digits(r->point.number[k]));
		mq_csv_row(&w, "%g,%s,%g,%g,%g", five_digits(r->measured_s), r->memory_basis,
			   five_digits(r->predicted_GB), five_digits(r->measured_GB), five_digits(r->score));
	}
	return mq_csv_close(&w, err);
}
