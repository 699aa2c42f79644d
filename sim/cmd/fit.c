/* fit.c - `maquette fit TABLE... --free NAME -o DIR`: fits parameters of calibrations and training software to the step
 * times of measured runs, all tables at once, and predicts each table with it left out. See score/fit.c for the method.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <string.h>
#include <unistd.h>

#include "session/pages/page.h"
#include "score/score.h"

struct options {
	struct mq_score_options score;
	struct mq_score_fit ask;
	const char *trust;
	bool json;
};

static const struct mq_shown_table shown[] = {
	{ "parameters.csv", "Parameters", NULL },
	{ "tables.csv", "Tables", NULL },
	{ "correlation.csv", "Correlation", NULL },
	{ "without.csv", "Left out", NULL },
	{ NULL, NULL, NULL },
};

/* A repeatable comma list. */
static enum mq_status push_names(const struct mq_arg *row, void *target, const char *text, struct mq_err *err)
{
	struct options *o = target;
	char *names = mq_arena_strdup(o->score.arena, text);

	for (char *name = strtok(names, ","); name; name = strtok(NULL, ","))
		MQ_TRY(mq_arg_push("--free", &o->ask.free, name, err));
	return MQ_OK;
}

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct options, field, __VA_ARGS__)
static const struct mq_arg rows[] = {
	ROW(LIST, "TABLE", ask.tables, NULL, NULL, .flags = MQ_ARG_POSITIONAL),
	{ .type = MQ_ARG_READ,
	  .name = "free",
	  .value = "NAME[,NAME]",
	  .help = "parameter to fit: ENTRY.FIELD of a calibration (A100-SXM*.gemm_eff: one value for all matches; "
		  "ib.bw_share) or software:NAME.FIELD; repeatable",
	  .read = push_names },
	ROW(TEXT, "trust", trust, "FOLDER",
	    "instead: make the index of errors, DIR/trust.csv, from FOLDER/*/trust.csv of `score --left-out`, and "
	    "report the coverage of intervals"),
	ROW(INT, "rounds", ask.rounds, "N", "maximum steps of the search", .initial = 3, .min = 1, .max = 100),
	ROW(INT, "draws", ask.draws, "N", "bootstrap samples for intervals", .initial = 200, .min = 10, .max = 100000),
	ROW(FLAG, "json", json, NULL, "print the tables as JSON; text goes to standard error"),
	ROW(INT, "seed", ask.seed, "N", "seed of the bootstrap", .initial = 1, .max = UINT32_MAX),
	{ .type = MQ_ARG_END },
};

static const char doc[] =
	"Fits parameters of calibrations and training software to the step times of measured runs, all tables at once "
	"with equal weight, and predicts each table with parameters fitted to the others.\vA table is a CSV file as "
	"for `maquette score`. Shipped files are not changed: copy the fitted values to them, with their source. --set "
	"of a free parameter is its start value. DIR gets parameters.csv, correlation.csv, rows.csv, tables.csv and "
	"without.csv, the values fitted without each table.";

static enum mq_status fit(struct options *o, struct mq_err *err)
{
	if (o->trust && o->score.out) {
		MQ_TRY(mq_make_dir(o->score.out, err));
		return mq_score_trust_index(o->trust, o->score.out, o->score.arena, err);
	}
	if (!o->ask.tables.n && !o->trust)
		return mq_bad(err, "no table; give CSV files of measured runs");
	if (!o->ask.free.n && !o->trust)
		return mq_bad(err, "--free is missing: which parameters? See --help");
	if (!o->score.out)
		return mq_bad(err, "-o DIR is missing: where results go");
	MQ_TRY(mq_score_open(&o->score, err));
	MQ_TRY(mq_score_open_runs(&o->score, err));
	MQ_TRY(mq_make_dir(o->score.out, err));
	o->ask.options = &o->score;
	return mq_score_fit(&o->ask, err);
}

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct options o = { .json = false };
	const struct mq_args args = { .table = { { mq_score_args, &o.score }, { rows, &o } },
				      .args_doc = "TABLE...",
				      .doc = doc };

	mq_score_options_init(&o.score, &arena);
	mq_args_defaults(rows, &o);
	enum mq_status status = mq_args_parse(&args, argc, argv, err);

	int saved = mq_json_begin(o.json);
	if (status == MQ_OK)
		status = fit(&o, err);
	mq_json_done(saved, o.score.out, status == MQ_OK ? shown : NULL);
	return status;
}

MQ_DEFINE_COMMAND(fit, "fit parameters to tables of measured runs");
