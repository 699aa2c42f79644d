/* score.c - `maquette score TABLE -o DIR`: compares predictions with tables of published measurements.
 *
 * Step times of training runs (default), --collectives, --kernels, or --gemm. Output: DIR/score.csv with a row per
 * measurement, DIR/summary.csv with a line per table, DIR/groups.csv with one per set of runs that differ only in plan,
 * a printed summary. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <math.h>

#include "session/pages/page.h"
#include "score/row.h"

struct options {
	struct mq_score_options score;
	bool gemm, collectives, kernels, json, check;
};

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct options, field, __VA_ARGS__)
static const struct mq_arg rows[] = {
	ROW(TEXT, "TABLE", score.input, NULL, NULL, .flags = MQ_ARG_POSITIONAL),
	ROW(FLAG, "gemm", gemm, NULL, "the table holds GEMM timings"),
	ROW(FLAG, "collectives", collectives, NULL, "the table holds timings of collectives"),
	ROW(FLAG, "kernels", kernels, NULL,
	    "the table holds timings or peak memory of norms, activations, losses, attention ..."),
	ROW(FLAG, "fit", score.fit, NULL, "with --gemm, --kernels: estimate the device's parameters first"),
	ROW(FLAG, "left-out", score.left_out, NULL,
	    "also score each table with its source left out: values fitted to it are replaced by those of fitted.csv; "
	    "with --collectives: each system's link classes are replaced by their siblings"),
	ROW(F64, "threshold", score.threshold, "E", "exit with 5 if the mean error is above (0.05 = 5 %)",
	    .initial = INFINITY, .max = 1e6),
	ROW(FLAG, "check", check, NULL, "print what each row lacks, without simulating"),
	ROW(FLAG, "json", json, NULL, "print the tables as JSON; text goes to standard error"),
	ROW(TEXT, "write-jobs", score.write_jobs, "DIR",
	    "write the job of each row, ROW.ini and ROW.plan.json, for `maquette run`"),
	{ .type = MQ_ARG_END },
};

static const char doc[] =
	"Compares predictions with a table of measurements (a CSV file, or a folder of them): step times of training "
	"runs, or with --gemm, --kernels or --collectives times of GEMMs, kernels and collectives. Columns of a row of "
	"runs give its model (as for -m, or a name of models.csv), its platform (as for -p, or gpu, gpus, "
	"gpus_per_node and nodes, with the device's usual network), its software (default generic) and its plan; "
	"results/published/README.md lists them. A row of mixed machines gives them in gpu (\"12x V100 + 4x T4\") or, "
	"stage by stage, in placement (\"V100xTP2|T4xTP2 ; ...\"). A missing step time follows from value and unit "
	"(tokens/s, sequences/s, images/s, or these per GPU) with gbs and seq. Rows that cannot be scored are listed "
	"with the reason. DIR gets score.csv, memory.csv, refused.csv, summary.csv, and groups.csv: for runs that "
	"differ only in plan the rank correlation of prediction and measurement, and the measured time of the plan "
	"ranked first over that of the best (regret).";

static enum mq_status check(struct options *o, struct mq_err *err)
{
	if (!o->score.input)
		return mq_bad(err, "no table; give a CSV file or a folder of them");
	if (o->check && (o->gemm || o->collectives || o->kernels))
		return mq_bad(err, "--check is for runs, not for --gemm, --collectives and --kernels");
	if (!o->score.out && !o->check)
		return mq_bad(err, "-o DIR is missing: where results go");
	if (o->gemm + o->collectives + o->kernels > 1)
		return mq_bad(err, "--gemm, --collectives and --kernels exclude each other");
	if (o->score.fit && !o->gemm && !o->kernels)
		return mq_bad(err, "--fit goes with --gemm or --kernels");
	if (o->score.set.n && (o->gemm || o->collectives || o->kernels))
		return mq_bad(err,
			      "--set %s: it is for runs, not for --gemm, --collectives and --kernels; change a copy of "
			      "the platforms' folder and give that with --platforms",
			      o->score.set.item[0]);
	if (o->score.left_out && (o->gemm || o->kernels))
		return mq_bad(err, "--left-out is for runs and collectives, not for --gemm and --kernels");
	MQ_TRY(mq_score_open(&o->score, err));
	return o->gemm || o->kernels || o->collectives ? MQ_OK : mq_score_open_runs(&o->score, err);
}

static const struct mq_shown_table shown[] = {
	{ "summary.csv", "Tables", NULL },
	{ "score.csv", "Rows", "row_id" },
	{ "groups.csv", "Runs that differ only in plan", NULL },
	{ "memory.csv", "Memory", NULL },
	{ "refused.csv", "Refused", NULL },
	{ NULL, NULL, NULL },
};

static enum mq_status hold(struct options *o, double *mean, struct mq_err *err)
{
	if (o->gemm)
		return mq_score_gemm(&o->score, mean, err);
	if (o->kernels)
		return mq_score_kernels(&o->score, mean, err);
	return (o->collectives ? mq_score_collectives : mq_score_runs)(&o->score, mean, err);
}

static enum mq_status score(struct options *o, struct mq_err *err)
{
	double mean = NAN;

	MQ_TRY(check(o, err));
	if (o->check)
		return mq_score_check(&o->score, err);
	MQ_TRY(mq_make_dir(o->score.out, err));
	int saved = mq_json_begin(o->json);
	enum mq_status status = hold(o, &mean, err);
	mq_json_done(saved, o->score.out, status == MQ_OK ? shown : NULL);
	MQ_TRY(status);
	MQ_TRY(mq_tables_page(
		o->score.out,
		mq_arena_printf(o->score.arena, "Predictions and %s", mq_score_stem(o->score.input, o->score.arena)),
		shown, NULL, err));
	if (mean > o->score.threshold)
		return mq_fail(err, MQ_ETHRESHOLD, "mean error %.2f %% is above %.2f %%", 100 * mean,
			       100 * o->score.threshold);
	return MQ_OK;
}

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct options o = { .json = false };
	const struct mq_args args = { .table = { { mq_score_args, &o.score }, { rows, &o } },
				      .args_doc = "TABLE",
				      .doc = doc };

	mq_score_options_init(&o.score, &arena);
	MQ_TRY(mq_args_parse(&args, argc, argv, err));
	return score(&o, err);
}

MQ_DEFINE_COMMAND(score, "compare predictions with a table of measured runs");
