/* args.c - options that `score` and `fit` share, see score.h. SPDX-License-Identifier: Apache-2.0 */
#include "score/score.h"

#include <math.h>
#include <unistd.h>

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct mq_score_options, field, __VA_ARGS__)
const struct mq_arg mq_score_args[] = {
	ROW(TEXT, "output", out, "DIR", "folder for the tables", .letter = 'o'),
	ROW(LIST, "set", set, "NAME=VALUE",
	    "in place of the calibration's: ENTRY.FIELD=VALUE (A100*.gemm_eff=0.9, ib.bw_share=0.9) or "
	    "software:NAME.FIELD=VALUE of the software, words too; repeatable"),
	ROW(LIST, "trust-with", trust_with, "FILE",
	    "runs of one's own machine that intervals are to rest on: a trust.csv that `score` or `validate` left; repeatable"),
	ROW(TEXT, "software", software, "NAME[,KEY=VALUE...]",
	    "training software of rows that name none, in place of generic"),
	ROW(TEXT, "platforms", platforms, "DIR",
	    "models.csv, fitted.csv, software/ and calib/ (default: the shipped ones)"),
	ROW(CHOICE, "executor", executor, "NAME", "what simulates", .words = "simgrid|analytic", .text = "simgrid"),
	ROW(TEXT, "only", only, "TEXT", "rows whose id or model contains it"),
	ROW(F64, "row-tasks", row_tasks, "N",
	    "tasks that the simulation of one row may have; a row above it is refused", .initial = 4e6, .min = 1,
	    .max = 16e6),
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
