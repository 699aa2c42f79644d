/* gemm.c - `score --gemm`: the cost model against published GEMM timings, and its fit.
 *
 * results/README.md has the columns. The cast of an operand is subtracted from times that include it, if the row gives
 * it; else it is predicted too. Kernels under 20 us are not scored: the published tables have a resolution of 1 us.
 * Rows with a `loop`, in a CUDA graph, run at the clock that the board's power limit allows in such a loop. Others run
 * at full clock and, since a host may launch one GEMM after the other, take at least its host_launch_s.
 * SPDX-License-Identifier: Apache-2.0 */
#include "score/score.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernel_table.h"
#include "score/kernels.h"
#include "fit/fit.h"

#define LEAST_TIME_S 20e-6
enum { FOLDS = 3 };

struct gemm_row {
	const char *table, *gpu, *type;
	uint32_t line;
	struct mq_gemm_sample s;
	const struct mq_product_kernels *kernels; /* of its library; NULL: operands without scales */
	bool with_cast;                           /* the time includes the cast of an operand */
	const char *scaling, *loop;
	double predicted_s;
};

struct gemm_rows {
	struct gemm_row *row;
	uint32_t n, room, skipped;
	const char **refused; /* why */
	uint32_t n_refused, refused_room;
};

/* The scaling of a row, its library's kernels, and the cast of the first operand from bf16. */
static enum mq_status read_scaling(const struct mq_csv *csv, uint32_t i, const struct mq_device_calib *d,
				   struct gemm_row *row, struct mq_err *err)
{
	const char *library = mq_csv_word(csv, i, "library");
	double gpu = d->compute_capability;

	row->scaling = mq_csv_word(csv, i, "scaling");
	if (!*row->scaling)
		return MQ_OK;
	int scaling = MQ_ENUM_FIND(mq_scaling_name, MQ_N_SCALINGS, row->scaling);
	if (scaling == MQ_N_SCALINGS)
		return mq_bad(err, "%s:%u: scaling '%s' is unknown; give tensor, token, block, mx or nvfp4", csv->path,
			      csv->line[i], row->scaling);
	const struct mq_library_row *own = mq_library_row(d->libraries, MQ_ROWS_PRODUCTS, library, scaling, gpu);
	if (!own)
		own = mq_library_row(d->libraries, MQ_ROWS_PRODUCTS, "any", scaling, gpu);
	if (!own)
		return mq_bad(err, "platforms/kernels/products.csv: no row of 'any' with scaling '%s'; restore it",
			      row->scaling);
	const struct mq_product_kernels *k = &own->product;
	double cast_s =
		fmax(k->cast_B / (d->mem_bw_Bps * d->elementwise_bw_share), k->cast_work / mq_device_int_rate(d));

	row->s.scaling = (uint8_t)scaling;
	row->kernels = k;
	row->s.cast_s = row->s.m * (row->s.k * cast_s + k->row_s) + k->casts * d->launch_s;
	row->with_cast = !*mq_csv_word(csv, i, "cast_us");
	return MQ_OK;
}

/* short: `calls` GEMMs three times and three replays of their graph, then six timed replays; 1s: replays for 1 s. */
static enum mq_status read_loop(const struct mq_csv *csv, uint32_t i, struct gemm_row *row, struct mq_err *err)
{
	double calls;

	MQ_TRY(mq_csv_range(csv, i, "calls", 6, 1, MQ_KERNEL_MOST, &calls, err));
	row->loop = mq_csv_word(csv, i, "loop");
	if (!strcmp(row->loop, "short")) {
		row->s.from = 6 * calls;
		row->s.to = 12 * calls;
	} else if (!strcmp(row->loop, "1s")) {
		row->s.to = INFINITY;
	} else if (*row->loop) {
		return mq_bad(err, "%s:%u: loop '%s' is unknown; give short or 1s, or leave it out", csv->path,
			      csv->line[i], row->loop);
	}
	return MQ_OK;
}

static enum mq_status read_row(const struct mq_score_options *o, const struct mq_csv *csv, uint32_t i,
			       struct gemm_row *row, const char **refused, struct mq_err *err)
{
	static const char *const columns[] = { "m", "n", "k", "time_us" };
	double number[4], cast_us;
	int dtype = MQ_ENUM_FIND(mq_dtype_name, MQ_N_DTYPES, mq_csv_word(csv, i, "dtype"));

	*refused = dtype < MQ_N_DTYPES ? NULL : "their dtype is not modelled (fp32 tf32 fp16 bf16 fp8 fp4 fp64 are)";
	if (*refused)
		return MQ_OK;
	MQ_TRY(mq_csv_range(csv, i, "cast_us", 0, 0, MQ_KERNEL_MOST, &cast_us, err));
	for (int c = 0; c < 4; c++)
		MQ_TRY(mq_csv_range(csv, i, columns[c], NAN, 1e-6, MQ_KERNEL_MOST, &number[c], err));
	if (!(number[3] > cast_us))
		return mq_bad(err, "%s:%u: cast_us %g is not less than time_us", csv->path, csv->line[i], cast_us);
	number[3] -= cast_us;
	*row = (struct gemm_row){
		.table = csv->path,
		.gpu = mq_csv_word(csv, i, "gpu"),
		.line = csv->line[i],
		.s = { .dtype = (enum mq_dtype)dtype,
		       .m = number[0],
		       .n = number[1],
		       .k = number[2],
		       .time_s = number[3] * 1e-6,
		       .fold = mq_gemm_fold(number[1], number[2], FOLDS) },
	};
	MQ_TRY(read_loop(csv, i, row, err));
	if (mq_score_device(o->calib, row->gpu, &row->type, err) != MQ_OK)
		return mq_wrap(err, "%s:%u", csv->path, csv->line[i]);
	const struct mq_device_calib *d = mq_calib_device(o->calib, row->type);
	if (!(d->peak_flops[dtype] > 0))
		*refused = "their GPU has no peak for their dtype (platforms/calib)";
	MQ_TRY(read_scaling(csv, i, d, row, err));
	if (!row->with_cast)
		row->s.cast_s = cast_us * 1e-6;
	return MQ_OK;
}

static enum mq_status read_table(const struct mq_score_options *o, const char *path, struct gemm_rows *rows,
				 struct mq_err *err)
{
	static const char needed[] = "gpu dtype m n k time_us";
	struct mq_csv csv;
	const char *lacks;

	MQ_TRY(mq_csv_load(path, o->arena, &csv, err));
	if (!mq_csv_has(&csv, needed, &lacks))
		return mq_bad(err, "%s: no column '%.*s'; a GEMM table has %s", path, (int)strcspn(lacks, " "), lacks,
			      needed);
	mq_score_unused(&csv, needed, "library scaling cast_us loop calls");
	for (uint32_t i = 0; i < csv.n_rows; i++) {
		struct gemm_row row;
		const char *refused;

		MQ_TRY(read_row(o, &csv, i, &row, &refused, err));
		if (refused)
			MQ_PUSH(o->arena, rows->refused, rows->n_refused, rows->refused_room, refused);
		else if (row.s.time_s < LEAST_TIME_S)
			rows->skipped++;
		else
			MQ_PUSH(o->arena, rows->row, rows->n, rows->room, row);
	}
	return MQ_OK;
}

/* Kernels that go through tiles column by column read the first operand once per column of tiles, from memory if it
 * exceeds the L2 cache. */
static double row_time(const struct mq_device_calib *d, const struct gemm_row *r)
{
	struct mq_device_calib own = *d;
	double rows_B = r->s.m * r->s.k * mq_dtype_size(r->s.dtype), again_s = 0;

	if (!r->kernels)
		return mq_gemm_loop_s(d, &r->s);
	own.gemm_eff *= r->kernels->share;
	if (r->kernels->column > 0 && d->l2_B > 0 && rows_B > d->l2_B)
		again_s = ceil(r->s.n / r->kernels->column) * rows_B / (d->mem_bw_Bps * d->gemm_bw_share);
	return fmax(mq_gemm_loop_s(&own, &r->s), again_s) + (r->with_cast ? r->s.cast_s : 0);
}

/* Error summary of the rows of one device type, without a fit. */
static struct mq_errors stats_of(const struct mq_score_options *o, const struct gemm_rows *rows, const char *type)
{
	double *error = mq_arena_array(o->arena, rows->n, double);
	uint32_t n = 0;

	for (uint32_t i = 0; i < rows->n; i++)
		if (!type || !strcmp(rows->row[i].type, type))
			error[n++] = rows->row[i].predicted_s / rows->row[i].s.time_s - 1;
	return mq_errors_of(error, n, o->arena);
}

/* Prints the errors on held-out shapes, a third at a time, and saves the fit to all rows in OUT/TYPE.json. */
static enum mq_status fit(const struct mq_score_options *o, struct gemm_rows *rows, const char **types,
			  uint32_t n_types, struct mq_err *err)
{
	struct mq_gemm_sample *sample = mq_arena_array(o->arena, rows->n, struct mq_gemm_sample);
	struct mq_device_calib *device = mq_arena_array(o->arena, n_types, struct mq_device_calib);

	for (uint32_t i = 0; i < rows->n; i++) {
		sample[i] = rows->row[i].s;
		while (strcmp(types[sample[i].device], rows->row[i].type))
			sample[i].device++;
	}
	for (uint32_t fold = 0; fold <= FOLDS; fold++) { /* the last fold holds nothing out */
		for (uint32_t t = 0; t < n_types; t++)
			device[t] = *mq_calib_device(o->calib, types[t]);
		MQ_TRY(mq_fit_gemm(sample, rows->n, fold < FOLDS ? fold : MQ_NONE, device, n_types, err));
		for (uint32_t i = 0; i < rows->n; i++)
			if (sample[i].fold == fold)
				rows->row[i].predicted_s = row_time(&device[sample[i].device], &rows->row[i]);
	}
	printf("of all types: kt %.4g a0 %.4g q %.4g corner %.4g\n", device->gemm_kt, device->gemm_a0, device->gemm_q,
	       device->gemm_corner);
	for (uint32_t t = 0; t < n_types; t++) {
		const struct mq_device_calib *d = &device[t];
		struct mq_device_calib *base =
			&o->calib->device[mq_calib_device(o->calib, types[t]) - o->calib->device];
		struct mq_errors held = stats_of(o, rows, types[t]);

		printf("%s: held out by shape %.2f %% median, %.2f %% p90; fitted to all: eff %.4g bw %.4g t0 %.3g us\n",
		       types[t], 100 * held.median, 100 * held.p90, d->gemm_eff, d->gemm_bw_share, d->gemm_t0_s * 1e6);
		*base = *d;
		MQ_TRY(mq_calib_save_device(base, mq_arena_printf(o->arena, "%s/%s.json", o->out, types[t]), err));
	}
	return MQ_OK;
}

static enum mq_status write_rows(const struct mq_score_options *o, const struct gemm_rows *rows, struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_csv_create(&w, mq_arena_printf(o->arena, "%s/score.csv", o->out),
			     "table,line,gpu,dtype,scaling,loop,m,n,k,predicted_s,measured_s,error", err));
	for (uint32_t i = 0; i < rows->n; i++) {
		const struct gemm_row *r = &rows->row[i];

		mq_csv_row(&w, "%s,%u,%s,%s,%s,%s,%g,%g,%g,%g,%g,%g", mq_score_stem(r->table, o->arena), r->line,
			   r->gpu, mq_dtype_name(r->s.dtype), r->scaling, r->loop, r->s.m, r->s.n, r->s.k,
			   r->predicted_s, r->s.time_s, r->predicted_s / r->s.time_s - 1);
	}
	return mq_csv_close(&w, err);
}

static enum mq_status write_summary(const struct mq_score_options *o, const struct gemm_rows *rows, const char **types,
				    uint32_t n_types, struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_score_open_summary(o, &w, err));
	for (uint32_t t = 0; t <= n_types; t++) {
		struct mq_errors e = stats_of(o, rows, t < n_types ? types[t] : NULL);

		mq_score_put_errors(&w, "gemm", t < n_types ? types[t] : "all",
				    t < n_types ? 0 : rows->skipped + rows->n_refused, &e);
	}
	mq_score_print_refused(rows->refused, rows->n_refused);
	printf("%u rows under %g us not scored: the tables' resolution is 1 us\n", rows->skipped, LEAST_TIME_S * 1e6);
	return mq_csv_close(&w, err);
}

enum mq_status mq_score_gemm(const struct mq_score_options *o, double *mean, struct mq_err *err)
{
	struct gemm_rows rows = { 0 };
	const char **files, **types = NULL;
	uint32_t n_types = 0, type_room = 0;

	MQ_TRY(mq_score_files(o->input, o->arena, &files, err));
	for (; *files; files++)
		MQ_TRY(read_table(o, *files, &rows, err));
	if (!rows.n)
		return mq_bad(err, "%s: no GEMM of %g us or more to score", o->input, LEAST_TIME_S * 1e6);
	const char **type = mq_arena_array(o->arena, rows.n, const char *);
	for (uint32_t i = 0; i < rows.n; i++)
		type[i] = rows.row[i].type;
	for (uint32_t i = 0; i < rows.n; i++)
		if (mq_score_same(type, rows.n, i))
			MQ_PUSH(o->arena, types, n_types, type_room, type[i]);
	if (o->fit)
		MQ_TRY(fit(o, &rows, types, n_types, err));
	for (uint32_t t = 0; t < n_types; t++) {
		const struct mq_device_calib *d = mq_calib_device(o->calib, types[t]);

		for (uint32_t i = 0; i < rows.n; i++)
			if (!strcmp(rows.row[i].type, types[t]))
				rows.row[i].predicted_s = row_time(d, &rows.row[i]);
	}
	MQ_TRY(write_rows(o, &rows, err));
	MQ_TRY(write_summary(o, &rows, types, n_types, err));
	*mean = stats_of(o, &rows, NULL).mean;
	return MQ_OK;
}
