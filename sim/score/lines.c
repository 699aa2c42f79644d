/* lines.c - options, tables to read, patterns and devices that they name, and lines of summaries to write: see score.h,
 * row.h. SPDX-License-Identifier: Apache-2.0 */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/paths.h"
#include "base/text.h"
#include "score/set.h"
#include "trust/trust.h"

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct mq_score_options, field, __VA_ARGS__)
const struct mq_arg mq_score_args[] = {
	ROW(TEXT, "output", out, "DIR", "folder for the tables", .letter = 'o'),
	ROW(LIST, "set", set, "NAME=VALUE",
	    "replace a value of the calibrations, ENTRY.FIELD=VALUE (A100*.gemm_eff=0.9, ib.bw_share=0.9), or of "
	    "training software, software:NAME.FIELD=VALUE (also a word); repeatable"),
	ROW(LIST, "trust-with", trust_with, "FILE",
	    "runs of your own machine for the intervals: a trust.csv of `score` or `validate`; repeatable"),
	ROW(TEXT, "software", software, "NAME[,KEY=VALUE...]",
	    "training software for rows without one (default: generic)"),
	ROW(TEXT, "platforms", platforms, "DIR",
	    "models.csv, fitted.csv, software/ and calib/ (default: the shipped ones)"),
	ROW(CHOICE, "executor", executor, "NAME", "executor that simulates", .words = "simgrid|analytic",
	    .text = "simgrid"),
	ROW(TEXT, "only", only, "TEXT", "rows whose id or model contains it"),
	ROW(F64, "row-tasks", row_tasks, "N", "most tasks in the simulation of one row; larger rows are refused",
	    .initial = 4e6, .min = 1, .max = 16e6),
	ROW(INT, "jobs", jobs, "N", "worker processes (default: the processors)", .letter = 'j', .min = 1, .max = 1024,
	    .flags = MQ_ARG_OWN_DEFAULT),
	{ .type = MQ_ARG_END },
};

void mq_score_options_init(struct mq_score_options *options, struct mq_arena *arena)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	*options = (struct mq_score_options){ .threshold = INFINITY, .arena = arena };
	mq_args_defaults(mq_score_args, options);
	options->jobs = cpus > 0 ? (uint32_t)cpus : 1;
}

enum mq_status mq_score_files(const char *input, struct mq_arena *arena, const char ***files, struct mq_err *err)
{
	struct stat st;

	if (stat(input, &st))
		return mq_bad(err, "%s: cannot open: %m; give a CSV table or a folder of them", input);
	if (!S_ISDIR(st.st_mode)) {
		*files = mq_arena_array(arena, 2, const char *);
		(*files)[0] = input;
		return MQ_OK;
	}
	uint32_t n;
	*files = mq_folder_names(input, "", ".csv", arena, &n);
	if (!*files)
		return mq_bad(err, "%s: cannot read the folder: %m", input);
	uint32_t kept = 0;
	for (uint32_t i = 0; i < n; i++)
		if (strcmp((*files)[i], "TEMPLATE.csv") != 0)
			(*files)[kept++] = mq_arena_printf(arena, "%s/%s", input, (*files)[i]);
	(*files)[kept] = NULL;
	return kept ? MQ_OK : mq_bad(err, "%s: no *.csv file in this folder", input);
}

const char *mq_score_stem(const char *path, struct mq_arena *arena)
{
	char *name = mq_arena_strdup(arena, basename(path)), *dot = strrchr(name, '.');

	if (dot && dot != name)
		*dot = '\0';
	return name;
}

static void print_cell(double value, double scale, int width, int digits)
{
	if (isnan(value))
		printf(" %*s", width, "-");
	else
		printf(" %*.*f", width, digits, value * scale);
}

void mq_score_put_line(struct mq_csv_writer *w, const struct mq_score_line *line, const char *shown)
{
	const struct mq_errors *e = &line->stats;

	mq_csv_row(w, "%s,%s,%u,%u,%g,%g,%g,%g,%g,%g", line->kind, line->table, e->n, line->refused, e->mean, e->median,
		   e->p90, e->bias, line->spearman, line->regret);
	printf("%-40s %6u %8u", shown ? shown : line->table, e->n, line->refused);
	print_cell(e->mean, 100, 7, 2);
	print_cell(e->median, 100, 7, 2);
	print_cell(e->p90, 100, 7, 2);
	print_cell(e->bias, 100, 7, 2);
	print_cell(line->spearman, 1, 6, 2);
	print_cell(line->regret, 1, 7, 3);
	printf("\n");
}

void mq_score_put_errors(struct mq_csv_writer *w, const char *kind, const char *table, uint32_t refused,
			 const struct mq_errors *errors)
{
	const struct mq_score_line line = { kind, table, refused, *errors, NAN, NAN };

	mq_score_put_line(w, &line, NULL);
}

enum mq_status mq_score_open_summary(const struct mq_score_options *o, struct mq_csv_writer *w, struct mq_err *err)
{
	MQ_TRY(mq_csv_create(w, mq_arena_printf(o->arena, "%s/summary.csv", o->out),
			     "kind,table,rows,refused,mean,median,p90,bias,spearman,regret", err));
	printf("%-40s %6s %8s %7s %7s %7s %7s %6s %7s\n", "table", "rows", "refused", "mean%", "median%", "p90%",
	       "bias%", "rank", "regret");
	return MQ_OK;
}

uint32_t mq_score_same(const char *const *text, uint32_t n, uint32_t i)
{
	uint32_t same = 0;

	for (uint32_t k = 0; text[i] && k < n; k++) {
		same += text[k] && !strcmp(text[k], text[i]);
		if (same && k < i)
			return 0;
	}
	return same;
}

void mq_score_print_refused(const char *const *why, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t rows = mq_score_same(why, n, i);

		if (rows)
			printf("%u rows refused: %s\n", rows, why[i]);
	}
}

void mq_score_unused(const struct mq_csv *csv, const char *needed, const char *known)
{
	const char *before = "columns not used:";

	for (uint32_t c = 0; c < csv->n_columns; c++)
		if (!mq_text_has_word(needed, csv->header[c]) && !mq_text_has_word(known, csv->header[c]) &&
		    !mq_text_has_word("source note", csv->header[c])) {
			if (*before == 'c')
				printf("%s: ", csv->path);
			printf("%s %s", before, csv->header[c]);
			before = ",";
		}
	if (*before == ',')
		putchar('\n');
}

bool mq_pattern_fits(const char *patterns, const char *text)
{
	return !*patterns || mq_text_fits(patterns, ';', text, FNM_CASEFOLD);
}

enum mq_status mq_score_open(struct mq_score_options *o, struct mq_err *err)
{
	if (!o->platforms)
		MQ_TRY(mq_find_dir("platforms", o->arena, &o->platforms, err));
	o->calib = mq_calib_new(o->arena);
	return mq_calib_load_dir(o->calib, mq_arena_printf(o->arena, "%s/calib", o->platforms), err);
}

enum mq_status mq_score_open_runs(struct mq_score_options *o, struct mq_err *err)
{
	struct mq_software_record known;

	MQ_TRY(mq_csv_load(mq_arena_printf(o->arena, "%s/models.csv", o->platforms), o->arena, &o->models, err));
	o->software_dir = mq_arena_printf(o->arena, "%s/software", o->platforms);
	if (!o->trust)
		MQ_TRY(mq_trust_open(&o->trust_with, o->arena, &o->trust, err));
	if (o->software)
		MQ_TRY(mq_software_load(o->software_dir, o->software, o->arena, &known, err));
	return mq_score_set_check(o, err);
}

enum mq_status mq_score_device(const struct mq_calib *calib, const char *gpu, const char **type, struct mq_err *err)
{
	const struct mq_device_calib *known = mq_calib_type_in(calib, gpu, false);

	if (!known)
		MQ_TRY(mq_calib_type_get(calib, "gpu", gpu, &known, err));
	*type = known->name;
	return MQ_OK;
}
