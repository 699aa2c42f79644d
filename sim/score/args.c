/*
 * args.c - options that `score` and `fit` share, see score.h.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "score/score.h"

enum { KEY_PLATFORMS = 3100, KEY_EXECUTOR, KEY_ONLY, KEY_ROW_TASKS, KEY_SET, KEY_SOFTWARE };

static const struct argp_option option_rows[] = {
	{ "output", 'o', "DIR", 0, "folder for the tables", 0 },
	{ "set", KEY_SET, "NAME=VALUE", 0,
	  "in place of the calibration's: ENTRY.FIELD=VALUE (A100*.sustained=0.9, ib.bw_share=0.9) or "
	  "software:NAME.FIELD=VALUE of the software, words too; repeatable",
	  0 },
	{ "software", KEY_SOFTWARE, "NAME[,KEY=VALUE...]", 0,
	  "training software of rows that name none, in place of generic", 0 },
	{ "platforms", KEY_PLATFORMS, "DIR", 0,
	  "models.csv, fitted.csv, software/ and calib/ (default: the shipped ones)", 0 },
	{ "executor", KEY_EXECUTOR, "NAME", 0, "simgrid (default) or analytic", 0 },
	{ "only", KEY_ONLY, "TEXT", 0, "rows whose id or model contains it", 0 },
	{ "row-tasks", KEY_ROW_TASKS, "N", 0,
	  "tasks that the simulation of one row may have (default 4 million); a row above it is refused", 0 },
	{ "jobs", 'j', "N", 0, "worker processes (default: the processors)", 0 },
	{ 0 },
};

static int parse_jobs(struct mq_score_options *o, const char *arg)
{
	uint64_t jobs;
	int bad = mq_arg_u64("-j", arg, 1, 1024, &jobs, o->err);

	if (!bad)
		o->jobs = (uint32_t)jobs;
	return bad;
}

static int parse_executor(struct mq_score_options *o, const char *arg)
{
	if (strcmp(arg, "simgrid") && strcmp(arg, "analytic")) {
		mq_fail(o->err, MQ_EINPUT, "--executor %s: give simgrid or analytic", arg);
		return EINVAL;
	}
	o->executor = arg;
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct mq_score_options *o = state->input;

	switch (key) {
	case 'o':
		o->out = arg;
		return 0;
	case KEY_SET:
		return mq_arg_push("--set", &o->set, arg, o->err);
	case KEY_SOFTWARE:
		o->software = arg;
		return 0;
	case KEY_PLATFORMS:
		o->platforms = arg;
		return 0;
	case KEY_EXECUTOR:
		return parse_executor(o, arg);
	case KEY_ONLY:
		o->only = arg;
		return 0;
	case KEY_ROW_TASKS:
		return mq_arg_f64("--row-tasks", arg, 1, 16e6, &o->row_tasks, o->err);
	case 'j':
		return parse_jobs(o, arg);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp mq_score_argp = { option_rows, parse, NULL, NULL, NULL, NULL, NULL };
