/* kernels.c - `score --kernels`: compares single kernels and parts of layers with published timings.
 *
 * results/README.md has the columns. Benchmarks of one kernel run at full clock. Rows below 50 us are predicted, but
 * not scored: launches dominate them, and the tables have a resolution of 1 us. SPDX-License-Identifier: Apache-2.0 */
#include "score/kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEAST_TIME_S 50e-6

static const struct mq_kernel_format *const formats[] = { &mq_kernel_parts, &mq_kernel_attention, &mq_kernel_experts,
							  &mq_kernel_exchange };
enum { N_FORMATS = sizeof(formats) / sizeof(formats[0]) };

struct rows {
	struct mq_kernel_row *row;
	uint32_t n, room;
};

static enum mq_status device_of(const struct mq_score_options *o, const char *gpu, const char **type,
				struct mq_device_calib *d, struct mq_err *err)
{
	const struct mq_device_calib *found = mq_calib_type(o->calib, gpu);

	*type = found ? found->name : NULL;
	if (!found)
		MQ_TRY(mq_score_device(o->calib, gpu, type, err));
	*d = *mq_calib_device(o->calib, *type);
	return MQ_OK;
}

static enum mq_status read_table(const struct mq_score_options *o, const char *path, struct rows *rows,
				 struct mq_err *err)
{
	const struct mq_kernel_format *format = NULL;
	const char *lacks;
	struct mq_device_calib d = { 0 };
	struct mq_csv *csv = mq_arena_array(o->arena, 1, struct mq_csv);

	MQ_TRY(mq_csv_load(path, o->arena, csv, err));
	for (int f = 0; f < N_FORMATS && !format; f++)
		format = mq_csv_has(csv, formats[f]->needed, &lacks) ? formats[f] : NULL;
	if (!format)
		return mq_bad(
			err,
			"%s: no timings of kernels: parts of layers have gpu, kernel, implementation, mode, dtype, "
			"part, make, elements, width; attention has gpu, implementation, mode, dtype, batch, heads, "
			"kv_heads, seq_q, seq_kv, head_dim, causal, time_us; experts have gpu, implementation, dtype, tokens, "
			"topk, copies, experts, hidden, ffn, ep, tp, time_us; token exchanges have gpu, implementation, "
			"mode, dtype, nodes, ranks, tokens, hidden, topk, experts, time_us; tests/kernel-timings writes them",
			path);
	mq_score_unused(csv, format->needed, format->known);
	for (uint32_t i = 0; i < csv->n_rows; i++) {
		struct mq_kernel_row row = { .format = format,
					     .csv = csv,
					     .i = i,
					     .line = csv->line[i],
					     .table = mq_score_stem(path, o->arena),
					     .gpu = mq_csv_word(csv, i, "gpu"),
					     .implementation = mq_csv_word(csv, i, "implementation"),
					     .mode = mq_csv_word(csv, i, "mode"),
					     .bound = "memory" };

		struct mq_err unknown = { 0 };
		bool known = device_of(o, row.gpu, &row.type, &d, &unknown) == MQ_OK;
		MQ_TRY(format->row(&d, o->arena, &row, err));
		if (*mq_kernel_text(&row, "refused"))
			row.refused = mq_kernel_text(&row, "refused");
		if (!known) {
			row.type = row.gpu;
			row.refused = mq_arena_printf(
				o->arena, "no device '%s' is known; add platforms/calib/TYPE.json", row.gpu);
		}
		MQ_PUSH(o->arena, rows->row, rows->n, rows->room, row);
	}
	return MQ_OK;
}

/* ---- output ------------------------------------------------------------------------------------------ */

static bool scored(const struct mq_kernel_row *r)
{
	return !r->refused && (r->memory || r->measured >= LEAST_TIME_S);
}

static bool same_group(const struct mq_kernel_row *a, const struct mq_kernel_row *b)
{
	return a->memory == b->memory && !strcmp(a->table, b->table) && !strcmp(a->kernel, b->kernel) &&
	       !strcmp(a->implementation, b->implementation);
}

/* Errors of the rows of one kind (memory or time) and one group (NULL: all). */
static struct mq_errors stats_of(const struct mq_score_options *o, const struct rows *rows,
				 const struct mq_kernel_row *group, bool memory, uint32_t *left_out)
{
	double *error = mq_arena_array(o->arena, rows->n, double);
	uint32_t n = 0;

	*left_out = 0;
	for (uint32_t i = 0; i < rows->n; i++) {
		const struct mq_kernel_row *r = &rows->row[i];

		if (r->memory != memory || (group && !same_group(r, group)))
			continue;
		if (scored(r))
			error[n++] = r->predicted / r->measured - 1;
		else
			++*left_out;
	}
	return mq_errors_of(error, n, o->arena);
}

static enum mq_status write_summary(const struct mq_score_options *o, const struct rows *rows, double *mean,
				    struct mq_err *err)
{
	static const char *const kinds[2] = { "kernels", "kernel-memory" };
	const char **why = mq_arena_array(o->arena, rows->n, const char *);
	struct mq_errors stats;
	struct mq_csv_writer w;
	uint32_t left_out;

	MQ_TRY(mq_score_open_summary(o, &w, err));
	for (uint32_t i = 0; i < rows->n; i++) {
		const struct mq_kernel_row *r = &rows->row[i];
		bool first = true;

		why[i] = r->refused;
		for (uint32_t j = 0; j < i && first; j++)
			first = !same_group(r, &rows->row[j]);
		if (!first)
			continue;
		stats = stats_of(o, rows, r, r->memory, &left_out);
		mq_score_put_errors(&w, kinds[r->memory],
				    mq_arena_printf(o->arena, "%s %s", r->kernel, r->implementation), left_out, &stats);
	}
	for (int memory = 0; memory <= 1; memory++) {
		stats = stats_of(o, rows, NULL, memory, &left_out);
		if (stats.n + left_out)
			mq_score_put_errors(&w, kinds[memory], "all", left_out, &stats);
		if (!memory || isnan(*mean))
			*mean = stats.mean;
	}
	mq_score_print_refused(why, rows->n);
	return mq_csv_close(&w, err);
}

static enum mq_status write_rows(const struct mq_score_options *o, const struct rows *rows, struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_csv_create(&w, mq_arena_printf(o->arena, "%s/score.csv", o->out),
			     "table,line,gpu,kernel,implementation,mode,unit,predicted,measured,error,bound,refused",
			     err));
	for (uint32_t i = 0; i < rows->n; i++) {
		const struct mq_kernel_row *r = &rows->row[i];
		const char *why = r->refused;

		mq_csv_row(&w, "%s,%u,%s,%s,%s,%s,%s,%g,%g,%g,%s,%s", r->table, r->line, r->gpu, r->kernel,
			   r->implementation, r->mode, r->memory ? "B" : "s", why ? (double)NAN : r->predicted,
			   r->measured, why ? (double)NAN : r->predicted / r->measured - 1, why ? "" : r->bound,
			   why       ? why :
			   scored(r) ? "" :
				       "under 50 us: not scored");
	}
	return mq_csv_close(&w, err);
}

/* ---- the fit ----------------------------------------------------------------------------------------- */

/* Mean error of the scored times of a device. */
static enum mq_status error_of(const struct mq_score_options *o, struct rows *rows, const char *type,
			       const struct mq_device_calib *d, double *mean, struct mq_err *err)
{
	double sum = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < rows->n; i++) {
		struct mq_kernel_row *r = &rows->row[i];

		if (strcmp(r->type, type))
			continue;
		MQ_TRY(r->format->row(d, o->arena, r, err));
		if (!r->memory && scored(r)) {
			sum += fmin(fabs(log(r->predicted / r->measured)), .5); /* outliers count as half */
			n++;
		}
	}
	*mean = n ? sum / n : (double)NAN;
	return MQ_OK;
}

/* Fits a device's bandwidth share and launch time to a table of kernels, on a grid finer than their intervals. */
static enum mq_status fit_type(const struct mq_score_options *o, struct rows *rows, const char *type, const char *gpu,
			       struct mq_err *err)
{
	struct mq_device_calib d = { 0 }, best = { 0 };
	double least = INFINITY, mean;
	const char *same;

	MQ_TRY(device_of(o, gpu, &same, &d, err));
	best = d;
	for (int share = 60; share <= 100; share++)
		for (int launch = 2; launch <= 12; launch++) {
			d.elementwise_bw_share = share / 100.;
			d.launch_s = launch * .5e-6;
			MQ_TRY(error_of(o, rows, type, &d, &mean, err));
			if (mean < least) {
				least = mean;
				best = d;
			}
		}
	if (isinf(least))
		return MQ_OK;
	printf("%s: elementwise_bw_share %.2f, launch_s %.1e\n", type, best.elementwise_bw_share, best.launch_s);
	return error_of(o, rows, type, &best, &mean, err);
}

static enum mq_status fit(const struct mq_score_options *o, struct rows *rows, struct mq_err *err)
{
	const char **type = mq_arena_array(o->arena, rows->n, const char *);

	for (uint32_t i = 0; i < rows->n; i++)
		type[i] = rows->row[i].type;
	for (uint32_t i = 0; i < rows->n; i++)
		if (mq_score_same(type, rows->n, i))
			MQ_TRY(fit_type(o, rows, type[i], rows->row[i].gpu, err));
	return MQ_OK;
}

enum mq_status mq_score_kernels(const struct mq_score_options *o, double *mean, struct mq_err *err)
{
	struct rows rows = { 0 };
	const char **files;

	MQ_TRY(mq_score_files(o->input, o->arena, &files, err));
	for (; *files; files++)
		MQ_TRY(read_table(o, *files, &rows, err));
	if (!rows.n)
		return mq_bad(err, "%s: no rows", o->input);
	if (o->fit)
		MQ_TRY(fit(o, &rows, err));
	*mean = NAN;
	MQ_TRY(write_rows(o, &rows, err));
	MQ_TRY(write_summary(o, &rows, mean, err));
	return MQ_OK;
}
