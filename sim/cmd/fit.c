/*
 * fit.c - `maquette fit TABLE... --free NAME -o DIR`: parameters of calibrations and of training
 * software from the step times of measured runs, all tables at once, and how well each table is
 * predicted when it has no say. See fit/runs.h for how.
 */
#include "cmd/cmd.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "session/pages/tables.h"
#include "score/fit/runs.h"

enum { KEY_FREE = 3000, KEY_ROUNDS, KEY_DRAWS, KEY_SEED, KEY_JSON };

struct options {
	struct mq_score_options score;
	struct mq_list tables, free;
	uint64_t rounds, draws, seed;
	bool json;
};

static const struct mq_shown_table shown[] = {
	{ "parameters.csv", "Parameters", NULL },
	{ "tables.csv", "Tables", NULL },
	{ "correlation.csv", "Correlation", NULL },
	{ "without.csv", "Left out", NULL },
	{ NULL, NULL, NULL },
};

static const struct argp_option option_rows[] = {
	{ "free", KEY_FREE, "NAME[,NAME]", 0,
	  "what is fitted: ENTRY.FIELD of a calibration (A100-SXM*.sustained: the same value for all that "
	  "the pattern fits; ib.bw_share) or software:NAME.FIELD; repeatable",
	  0 },
	{ "rounds", KEY_ROUNDS, "N", 0, "steps of the search at most (default 3)", 0 },
	{ "draws", KEY_DRAWS, "N", 0, "of the bootstrap for intervals (default 200)", 0 },
	{ "json", KEY_JSON, NULL, 0, "print the tables as JSON, and words to standard error", 0 },
	{ "seed", KEY_SEED, "N", 0, "of the draws (default 1)", 0 },
	{ 0 },
};

/* A comma list, as many times as wanted. */
static int push_names(struct options *o, char *arg)
{
	for (char *name = strtok(arg, ","); name; name = strtok(NULL, ",")) {
		int bad = mq_arg_push("--free", &o->free, name, o->score.err);

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
	case KEY_JSON:
		o->json = true;
		return 0;
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->score;
		return 0;
	case KEY_ROUNDS:
		return mq_arg_u64("--rounds", arg, 1, 100, &o->rounds, o->score.err);
	case KEY_DRAWS:
		return mq_arg_u64("--draws", arg, 10, 100000, &o->draws, o->score.err);
	case KEY_SEED:
		return mq_arg_u64("--seed", arg, 0, UINT32_MAX, &o->seed, o->score.err);
	case ARGP_KEY_ARG:
		return mq_arg_push("TABLE", &o->tables, arg, o->score.err);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &mq_score_argp, 0, NULL, 0 }, { 0 } };
static const struct argp argp = {
	.options = option_rows,
	.parser = parse,
	.children = children,
	.args_doc = "TABLE...",
	.doc = "Fits parameters of calibrations and training software to the step times of measured runs, "
	       "all tables at once and each with the same weight, and tells how each table is predicted "
	       "when it is left out.\vA table is a CSV file as for `maquette score`. Shipped files are "
	       "not changed: put the values found there, with their source. --set of a free parameter is "
	       "its start. DIR gets parameters.csv, correlation.csv, rows.csv, tables.csv and "
	       "without.csv: the values where one table has no say.",
};

static enum mq_status fit(struct options *o, struct mq_err *err)
{
	struct mq_runs_fit f = {
		.options = &o->score, .rounds = (uint32_t)o->rounds, .n_draws = (uint32_t)o->draws, .seed = o->seed
	};

	if (!o->tables.n)
		return mq_fail(err, MQ_EINPUT, "no table; give CSV files of measured runs");
	if (!o->free.n)
		return mq_fail(err, MQ_EINPUT, "--free is missing: which parameters? See --help");
	if (!o->score.out)
		return mq_fail(err, MQ_EINPUT, "-o DIR is missing: where results go");
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
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct options o = {
		.score = { MQ_SCORE_DEFAULTS, .jobs = cpus > 0 ? (uint32_t)cpus : 1, .arena = &arena, .err = err },
		.rounds = 3,
		.draws = 200,
		.seed = 1,
	};
	enum mq_status status = mq_args_parse(&argp, argc, argv, &o, err);

	int saved = mq_json_begin(o.json);
	if (status == MQ_OK)
		status = fit(&o, err);
	mq_json_done(saved);
	if (status == MQ_OK && o.json)
		mq_tables_json(o.score.out, shown, stdout);
	mq_arena_fini(&arena);
	return status;
}

const struct mq_command mq_command_fit = {
	.name = "fit",
	.summary = "fit parameters to tables of measured runs",
	.run = run,
};
