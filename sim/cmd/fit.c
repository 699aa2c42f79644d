/*
 * fit.c - `maquette fit TABLE... --free NAME -o DIR`: parameters of calibrations and of training
 * software from the step times of measured runs, all tables at once, and how well each table is
 * predicted when it has no say. See fit_runs.h for how.
 */
#include "cmd/cmd.h"

#include <errno.h>
#include <string.h>

#include "cmd/fit_runs.h"

enum { KEY_FREE = 3100, KEY_SET, KEY_PLATFORMS, KEY_EXECUTOR, KEY_ONLY, KEY_ROW_SECONDS, KEY_ROUNDS,
       KEY_DRAWS, KEY_SEED };

struct options {
	struct mq_score_options score;
	struct mq_list tables, free;
	uint64_t jobs, rounds, draws, seed;
	struct mq_err *err;
};

static const struct argp_option option_rows[] = {
	{ "free", KEY_FREE, "NAME[,NAME]", 0,
	  "what is fitted: ENTRY.FIELD of a calibration (A100*.sustained: the same value for all that "
	  "the pattern fits; ib.bw_share) or stack:NAME.COLUMN of stacks.csv; repeatable", 0 },
	{ "set", KEY_SET, "NAME=VALUE", 0, "a fixed value, or the start of a free one; repeatable", 0 },
	{ "output", 'o', "DIR", 0,
	  "folder for parameters.csv, correlation.csv, rows.csv and tables.csv", 0 },
	{ "rounds", KEY_ROUNDS, "N", 0, "steps of the search at most (default 3)", 0 },
	{ "draws", KEY_DRAWS, "N", 0, "of the bootstrap for intervals (default 200)", 0 },
	{ "seed", KEY_SEED, "N", 0, "of the draws (default 1)", 0 },
	{ "platforms", KEY_PLATFORMS, "DIR", 0,
	  "systems.csv, models.csv, stacks.csv and calib/ (default: the shipped ones)", 0 },
	{ "executor", KEY_EXECUTOR, "NAME", 0, "simgrid (default) or analytic", 0 },
	{ "only", KEY_ONLY, "TEXT", 0, "rows whose id or model contains it", 0 },
	{ "row-seconds", KEY_ROW_SECONDS, "S", 0,
	  "processor time that one row may take (default 30); a row above it is left out", 0 },
	{ "jobs", 'j', "N", 0, "worker processes (default 1)", 0 },
	{ 0 },
};

/* A comma list, as many times as wanted. */
static int push_names(struct options *o, char *arg)
{
	for (char *name = strtok(arg, ","); name; name = strtok(NULL, ",")) {
		int bad = mq_arg_push("--free", &o->free, name, o->err);

		if (bad)
			return bad;
	}
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case KEY_FREE:
		return push_names(o, arg);
	case KEY_SET:
		return mq_arg_push("--set", &o->score.set, arg, o->err);
	case 'o':
		o->score.out = arg;
		return 0;
	case KEY_ROUNDS:
		return mq_arg_u64("--rounds", arg, 1, 100, &o->rounds, o->err);
	case KEY_DRAWS:
		return mq_arg_u64("--draws", arg, 10, 100000, &o->draws, o->err);
	case KEY_SEED:
		return mq_arg_u64("--seed", arg, 0, UINT32_MAX, &o->seed, o->err);
	case KEY_PLATFORMS:
		o->score.platforms = arg;
		return 0;
	case KEY_EXECUTOR:
		return mq_score_executor(&o->score, arg, o->err);
	case KEY_ONLY:
		o->score.only = arg;
		return 0;
	case KEY_ROW_SECONDS:
		return mq_arg_f64("--row-seconds", arg, .001, 1e6, &o->score.row_seconds, o->err);
	case 'j':
		return mq_arg_u64("-j", arg, 1, 1024, &o->jobs, o->err);
	case ARGP_KEY_ARG:
		return mq_arg_push("TABLE", &o->tables, arg, o->err);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = option_rows,
	.parser = parse,
	.args_doc = "TABLE...",
	.doc = "Fits parameters of calibrations and training software to the step times of measured runs, "
	       "all tables at once and each with the same weight, and tells how each table is predicted "
	       "when it is left out.\vA table is a CSV file as for `maquette score`. Shipped files are "
	       "not changed: put the values found there, with their source.",
};

static enum mq_status fit(struct options *o, struct mq_err *err)
{
	struct mq_runs_fit f = { .options = &o->score, .rounds = (uint32_t)o->rounds,
				 .n_draws = (uint32_t)o->draws, .seed = o->seed };

	if (!o->tables.n)
		return mq_fail(err, MQ_EINPUT, "no table; give CSV files of measured runs");
	if (!o->free.n)
		return mq_fail(err, MQ_EINPUT, "--free is missing: which parameters? See --help");
	if (!o->score.out)
		return mq_fail(err, MQ_EINPUT, "-o DIR is missing: where results go");
	o->score.jobs = (uint32_t)o->jobs;
	MQ_TRY(mq_score_open(&o->score, err));
	MQ_TRY(mq_make_dir(o->score.out, err));
	MQ_TRY(mq_runs_fit_open(&f, &o->tables, &o->free, err));
	MQ_TRY(mq_runs_fit_solve(&f, err));
	bool *own = mq_arena_array(o->score.arena, (size_t)f.n_tables * f.n_params, bool);
	MQ_TRY(mq_runs_fit_leave_out(&f, own, err));
	return mq_runs_fit_report(&f, own, err);
}

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct options o = {
		.score = { .executor = "simgrid", .row_seconds = 30, .arena = &arena },
		.jobs = 1,
		.rounds = 3,
		.draws = 200,
		.seed = 1,
		.err = err,
	};
	enum mq_status status = mq_args_parse(&argp, argc, argv, &o, err);

	if (status == MQ_OK)
		status = fit(&o, err);
	mq_arena_fini(&arena);
	return status;
}

const struct mq_command mq_command_fit = {
	.name = "fit",
	.summary = "fit parameters to tables of measured runs",
	.run = run,
};
