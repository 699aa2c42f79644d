/*
 * score.c - `maquette score TABLE -o DIR`: predictions against tables of published measurements.
 *
 * Step times of training runs (default), --collectives, --kernels, or --gemm. Output: DIR/score.csv with a row
 * per measurement, DIR/summary.csv with a line per table, DIR/groups.csv with one per set of runs that differ
 * only in plan, a printed summary.
 */
#include "cmd/cmd.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "session/pages/tables.h"
#include "score/row.h"

enum { KEY_GEMM = 3000, KEY_COLLECTIVES, KEY_KERNELS, KEY_FIT, KEY_LEFT_OUT, KEY_THRESHOLD, KEY_WRITE_JOBS, KEY_JSON };

struct options {
	struct mq_score_options score;
	bool gemm, collectives, kernels, json;
};

static const struct argp_option option_rows[] = {
	{ "gemm", KEY_GEMM, NULL, 0, "the table holds GEMM timings", 0 },
	{ "collectives", KEY_COLLECTIVES, NULL, 0, "the table holds timings of collectives", 0 },
	{ "kernels", KEY_KERNELS, NULL, 0,
	  "the table holds timings or peak memory of norms, activations, losses, attention ...", 0 },
	{ "fit", KEY_FIT, NULL, 0, "with --gemm, --kernels: estimate the device's parameters first", 0 },
	{ "left-out", KEY_LEFT_OUT, NULL, 0,
	  "each table again with its source left out: for the values that were fitted to it stands in what "
	  "fitted.csv of the platforms says; with --collectives: each system with its links' classes as their siblings",
	  0 },
	{ "threshold", KEY_THRESHOLD, "E", 0, "exit with 5 if the mean error is above (0.05 = 5 %)", 0 },
	{ "json", KEY_JSON, NULL, 0, "print the tables as JSON, and words to standard error", 0 },
	{ "write-jobs", KEY_WRITE_JOBS, "DIR", 0,
	  "the job file of each row, ROW.ini and ROW.plan.json, for `maquette run`", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->score;
		return 0;
	case KEY_JSON:
		o->json = true;
		return 0;
	case KEY_GEMM:
		o->gemm = true;
		return 0;
	case KEY_COLLECTIVES:
		o->collectives = true;
		return 0;
	case KEY_KERNELS:
		o->kernels = true;
		return 0;
	case KEY_FIT:
		o->score.fit = true;
		return 0;
	case KEY_LEFT_OUT:
		o->score.left_out = true;
		return 0;
	case KEY_THRESHOLD:
		return mq_arg_f64("--threshold", arg, 0, 1e6, &o->score.threshold, o->score.err);
	case KEY_WRITE_JOBS:
		o->score.write_jobs = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (o->score.input)
			return ARGP_ERR_UNKNOWN;
		o->score.input = arg;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = { { &mq_score_argp, 0, NULL, 0 }, { 0 } };
static const struct argp argp = {
	.options = option_rows,
	.parser = parse,
	.children = children,
	.args_doc = "TABLE",
	.doc = "Holds predictions against a table of measurements (a CSV file, or a folder of them): "
	       "step times of training runs, or with --gemm, --kernels or --collectives those of products, kernels "
	       "and collectives. A row of runs says its model (as -m takes it, or a name of models.csv), its platform "
	       "(as -p takes it, or gpu, gpus, gpus_per_node and nodes, with the network usual for the device), its software "
	       "(otherwise generic) and its plan, each in columns: results/published/README.md lists them. A row of mixed "
	       "machines says so in gpu (\"12x V100 + 4x T4\") or, stage by stage, in "
	       "placement (\"V100xTP2|T4xTP2 ; ...\"). A step time that is not given follows from value and unit "
	       "(tokens/s, sequences/s, images/s, or these per GPU) with gbs and seq. Rows that cannot be scored are listed with the reason. DIR gets score.csv, "
	       "memory.csv, refused.csv, summary.csv, and groups.csv: for runs that differ only in plan how well "
	       "their order is predicted, and the measured time of the plan ranked first over the best (regret).",
};

static enum mq_status check(struct options *o, struct mq_err *err)
{
	if (!o->score.input)
		return mq_fail(err, MQ_EINPUT, "no table; give a CSV file or a folder of them");
	if (!o->score.out)
		return mq_fail(err, MQ_EINPUT, "-o DIR is missing: where results go");
	if (o->gemm + o->collectives + o->kernels > 1)
		return mq_fail(err, MQ_EINPUT, "--gemm, --collectives and --kernels exclude each other");
	if (o->score.fit && !o->gemm && !o->kernels)
		return mq_fail(err, MQ_EINPUT, "--fit goes with --gemm or --kernels");
	if (o->score.set.n && (o->gemm || o->collectives || o->kernels))
		return mq_fail(
			err, MQ_EINPUT,
			"--set %s: it is for runs, not for --gemm, --collectives and --kernels; change a copy of "
			"the platforms' folder and give that with --platforms",
			o->score.set.item[0]);
	if (o->score.left_out && (o->gemm || o->kernels))
		return mq_fail(err, MQ_EINPUT, "--left-out is for runs and collectives, not for --gemm and --kernels");
	return mq_score_open(&o->score, err);
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
	MQ_TRY(mq_make_dir(o->score.out, err));
	int saved = mq_json_begin(o->json);
	enum mq_status status = hold(o, &mean, err);
	mq_json_done(saved);
	MQ_TRY(status);
	if (o->json)
		mq_tables_json(o->score.out, shown, stdout);
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
	struct mq_arena arena = MQ_ARENA_INIT;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct options o = {
		.score = { MQ_SCORE_DEFAULTS, .jobs = cpus > 0 ? (uint32_t)cpus : 1, .arena = &arena, .err = err },
	};
	enum mq_status status = mq_args_parse(&argp, argc, argv, &o, err);

	if (status == MQ_OK)
		status = score(&o, err);
	mq_arena_fini(&arena);
	return status;
}

const struct mq_command mq_command_score = {
	.name = "score",
	.summary = "hold predictions against a table of measured runs",
	.run = run,
};
