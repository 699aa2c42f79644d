/* recommend.c - `maquette recommend`: the fewest machines of each device type that train a number of tokens in time,
 * and their cost.
 *
 * The question is a study (DIR/study.ini, which whatif reads too) with the axes platform.gpu and platform.nodes and an
 * epoch of the tokens; only the points that the answer needs are searched. A feasible point that is too slow gives a
 * lower bound on the number of machines, since speed-up is at most linear; below a count that is fast enough, smaller
 * counts are tried until one is not. Counts are 1 to 8, then four between each power of two and the next. Not searched:
 * counts below one that cannot divide the batch. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/csv.h"
#include "base/quantity.h"
#include "session/pages/page.h"
#include "study/study.h"

enum { MOST_MACHINES = 4096, MOST_COUNTS = 64 };

/* The default --simulation-time: points are many, and those that do not divide the batch evenly take long. */
static const double MOST_SIMULATION_S = 10;

struct recommend {
	struct mq_arena arena;
	struct mq_asked asked;
	struct mq_search_options search;
	const char *gpus, *target, *dir;
	double budget_usd; /* +inf: none */
	bool json;

	double days, amount; /* time for the amount */
	bool tokens, rate;   /* rate: the amount is per day */
	struct mq_study study;
	uint32_t count[MOST_COUNTS], n_counts;
	FILE *rows; /* of all searched points */
	struct mq_words words;
	struct mq_csv tried;
	double said_s;   /* time of the last progress line */
	const char *why; /* how close the too slow counts came, or why no count is feasible */
};

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct recommend, field, __VA_ARGS__)
static const struct mq_arg rows[] = {
	{ .type = MQ_ARG_GROUP, .name = "What is wanted:" },
	ROW(TEXT, "gpu", gpus, "LIST",
	    "device types to compare, separated by commas; further keys of `platform generate` after a colon: "
	    "'H100:network=roce nics=4'"),
	ROW(TEXT, "target", target, "TARGET",
	    "'tokens/day=2e11' or 'days=30 tokens=15e12'; samples for models without tokens"),
	ROW(F64, "budget", budget_usd, "USD", "upper limit on the cost of the tokens, or of a day's", .unit = "$",
	    .initial = INFINITY, .min = 1e-9, .max = 1e15),
	{ .type = MQ_ARG_GROUP, .name = "Output:" },
	ROW(TEXT, "output", dir, "DIR", "folder for recommend.csv, tried.csv, study.ini, report.html", .letter = 'o'),
	ROW(FLAG, "json", json, NULL, "print the rows as JSON; text goes to standard error"),
	{ .type = MQ_ARG_END },
};

/* ---- the question ------------------------------------------------------------------------------------- */

static enum mq_status read_target(struct recommend *r, struct mq_err *err)
{
	static const char *const keys[] = { "days", "tokens", "samples", "tokens/day", "samples/day" };
	double value[5] = { 0 };
	char *save = NULL;

	for (char *word = strtok_r(mq_arena_strdup(&r->arena, r->target), " ,", &save); word;
	     word = strtok_r(NULL, " ,", &save)) {
		char *equals = strchr(word, '=');
		int k = 0;

		while (k < 5 &&
		       (!equals || strncmp(word, keys[k], strlen(keys[k])) || word + strlen(keys[k]) != equals))
			k++;
		if (k == 5 || !mq_parse_f64(equals + 1, &value[k]) || !(value[k] > 0))
			return mq_bad(err, "--target: '%s': write tokens/day=N, or days=N tokens=N", word);
	}
	r->tokens = value[1] > 0 || value[3] > 0;
	r->rate = value[3] > 0 || value[4] > 0;
	r->days = value[0] > 0 ? value[0] : 1;
	r->amount = fmax(fmax(value[1], value[2]), fmax(value[3], value[4]));
	if ((value[1] > 0) + (value[2] > 0) + (value[3] > 0) + (value[4] > 0) != 1 || r->rate == (value[0] > 0))
		return mq_bad(err, "--target '%s': give tokens/day=N, or both of days=N tokens=N", r->target);
	return MQ_OK;
}

static void put_limits(const char *key, const struct mq_list *list, FILE *file)
{
	for (uint32_t i = 0; i < list->n; i++)
		fprintf(file, "%s%s%s%s", i ? " " : key, i ? "" : " = ", list->item[i], i + 1 < list->n ? "" : "\n");
}

static enum mq_status write_study(struct recommend *r, struct mq_err *err)
{
	MQ_FREED struct mq_words memory = { NULL, 0 };
	FILE *file = mq_words_open(&memory);
	const char *path = mq_arena_printf(&r->arena, "%s/study.ini", r->dir);
	struct mq_asked q = r->asked;

	/* Options left open stay open: each device type has its defaults. */
	q.change.n = q.fix.n = q.max.n = 0;
	mq_args_print(mq_question_args, &q, MQ_ARG_OWN_DEFAULT, file);
	for (uint32_t i = 0; i < r->asked.change.n; i++)
		fprintf(file, "%s\n", r->asked.change.item[i]);
	put_limits("fix", &r->asked.fix, file);
	put_limits("max", &r->asked.max, file);
	if (q.batch_given)
		fprintf(file, "batch = %.9g\n", q.train.batch);
	if (q.dtype_given)
		fprintf(file, "dtype = %s\n", mq_dtype_name(q.train.dtype));
	if (q.grad_given)
		fprintf(file, "grad-dtype = %s\n", mq_dtype_name(q.train.grad_dtype));
	mq_args_print(mq_search_args, &r->search, 0, file);
	fprintf(file, "epoch = %.9g%s\nplatform.gpu = %s\n", r->amount, r->tokens ? " tokens" : "", r->gpus);
	for (uint32_t n = 1, step = 1; n <= MOST_MACHINES; n += step) {
		step = n >= 8 && !(n & (n - 1)) ? n / 4 : step;
		fprintf(file, "%s%u", n > 1 ? ", " : "platform.nodes = ", n);
		r->count[r->n_counts++] = n;
	}
	fputc('\n', file);
	fclose(file);
	MQ_TRY(mq_text_write(path, memory.text, strlen(memory.text), err));
	return mq_study_load(path, false, &r->arena, &r->study, err);
}

/* ---- its points --------------------------------------------------------------------------------------- */

/* Searches a point; *row: its row in r->tried, MQ_NONE: no such cluster, or the job was stopped. */
static enum mq_status ask(struct recommend *r, uint32_t index, uint32_t *row, struct mq_err *err)
{
	const char *path = mq_arena_printf(&r->arena, "%s/tried.csv", r->dir), *text;
	struct mq_point point;
	enum mq_status status = mq_study_point(&r->study, index, &r->arena, &point, err);

	*row = MQ_NONE;
	if (status != MQ_OK && index % r->n_counts) { /* one machine exists, so the number is too large */
		r->why = mq_arena_printf(&r->arena, "%s%s%s", r->why ? r->why : "", r->why ? "; " : "", err->text);
		return MQ_OK;
	}
	MQ_TRY(status);
	point.asked.jobs = r->asked.jobs;
	status = mq_study_run(&r->study, &point, NULL, &r->arena, &text, err);
	if (mq_job_stopped())
		return MQ_OK;
	MQ_TRY(status);
	fprintf(r->rows, "%.*s\n", (int)strcspn(text, "\n"), text);
	fflush(r->rows);
	MQ_TRY(mq_text_write(path, r->words.text, r->words.size, err));
	MQ_TRY(mq_csv_load(path, &r->arena, &r->tried, err));
	*row = r->tried.n_rows - 1;
	return MQ_OK;
}

static double of(const struct recommend *r, uint32_t row, const char *column)
{
	return mq_csv_number(&r->tried, row, column);
}

/* Prints progress at most every EVERY_S: the result of a count of machines. */
static void tell(struct recommend *r, uint32_t machines, double days)
{
	static const double EVERY_S = 20;
	double now = mq_now_s();

	if (now - r->said_s < EVERY_S)
		return;
	r->said_s = now;
	if (isnan(days))
		fprintf(stderr, "platform.nodes = %u: no plan\n", machines);
	else
		fprintf(stderr, "platform.nodes = %u: %.4g days\n", machines, days);
}

/* The row of the fewest machines of a device type that are fast enough; MQ_NONE: none. If WORSE counts in a row are not
 * faster than fewer machines, larger ones are not searched: the batch is too small for them. */
static enum mq_status fewest(struct recommend *r, uint32_t gpu, uint32_t *best, struct mq_err *err)
{
	enum { WORSE = 4 };                                 /* to the next power of two, which divides better */
	uint32_t fails = 0, does = r->n_counts + 1, at = 1; /* counts from 1 on; 0 fails */
	uint32_t worse = 0;
	double nearest = INFINITY, wanted = 0; /* machines, by the fastest so far */

	*best = MQ_NONE;
	r->why = NULL;
	while (does - fails > 1 && worse < WORSE) {
		uint32_t row;

		MQ_TRY(ask(r, gpu * r->n_counts + at - 1, &row, err));
		if (mq_job_stopped()) {
			*best = MQ_NONE;
			return MQ_OK;
		}
		double days = row == MQ_NONE ? (double)NAN : of(r, row, "epoch_s") / 86400; /* NaN: no plan */
		tell(r, r->count[at - 1], days);
		if (days <= r->days) {
			*best = row;
			does = at--;
			worse = 0;
			continue;
		}
		fails = at;
		if (days < nearest || isinf(nearest))
			wanted = r->count[at - 1] * (isnan(days) ? 2 : days / r->days);
		if (days < nearest)
			r->why = mq_arena_printf(&r->arena, "%u machine%s %.4g days", r->count[at - 1],
						 r->count[at - 1] > 1 ? "s take" : " takes", days);
		else if (row != MQ_NONE && isinf(nearest))
			r->why = mq_csv_word(&r->tried, row, "plan");
		worse = days >= nearest && *best == MQ_NONE ? worse + 1 : 0;
		nearest = fmin(nearest, days);
		while (at < does - 1 && (at == fails || r->count[at - 1] < wanted))
			at++;
	}
	/* Fewer machines would do if each were as fast as those of the best: it is their plans that are worse. */
	if (*best != MQ_NONE && isfinite(nearest) &&
	    r->count[does - 2] * r->days >= r->count[does - 1] * of(r, *best, "epoch_s") / 86400)
		r->why = mq_arena_printf(&r->arena, "%s by worse plans per device: --evals %.0f may find better",
					 r->why, 4.0 * (double)r->search.evals);
	if (worse == WORSE)
		r->why = mq_arena_printf(&r->arena, "%s, the next %d counts tried no less", r->why, WORSE);
	return MQ_OK;
}

/* ---- the answer --------------------------------------------------------------------------------------- */

static void say(const struct recommend *r, const char *gpu, uint32_t row, FILE *file)
{
	if (row == MQ_NONE) {
		fprintf(file, "%s: no: %s\n", gpu, r->why);
		return;
	}
	double days = of(r, row, "epoch_s") / 86400, usd = of(r, row, "usd_per_epoch"), devices = of(r, row, "devices"),
	       step_s = of(r, row, "step_time_s"), fast = of(r, row, "low_80_s") / step_s,
	       slow = of(r, row, "high_80_s") / step_s;
	char money[32];
	const char *unit = !r->rate ? "days" : r->tokens ? "tokens a day" : "samples a day";

	fprintf(file, "%s: %.0f device%s, platform.nodes = %s: %.4g %s", gpu, devices, devices > 1 ? "s" : "",
		mq_csv_word(&r->tried, row, "platform.nodes"), r->rate ? r->amount / days : days, unit);
	if (fast > 0)
		fprintf(file, ", 80 %% within %.4g to %.4g%s", r->rate ? r->amount / (days * slow) : days * fast,
			r->rate ? r->amount / (days * fast) : days * slow,
			*mq_csv_word(&r->tried, row, "like_runs") ? "" : ", no measured run is like it");
	if (isnan(usd))
		fputs("; no price is known, device.TYPE.price_per_h by --change gives one", file);
	else
		fprintf(file, "; %s at $%.4g a device and hour%s", mq_text_usd(usd, money), usd / (24 * days * devices),
			usd > r->budget_usd ? ", over the budget" : "");
	const char *assumed = mq_csv_word(&r->tried, row, "assumed");
	fprintf(file, "; %s%s%s%s%s\n", mq_csv_word(&r->tried, row, "plan"), *assumed ? "; assumed: " : "", assumed,
		r->why ? "; nearest of the others: " : "", r->why ? r->why : "");
}

/* With one device type, rows do not repeat it. */
static const char *name_of(const struct recommend *r, const struct mq_axis *gpu, uint32_t row)
{
	return gpu->n > 1 ? mq_csv_word(&r->tried, row, gpu->key) : gpu->value[0];
}

/* Stopped: of those device types that were searched to the end, without a comparison. */
static enum mq_status answer(struct recommend *r, const struct mq_axis *gpu, uint32_t *best, FILE *said,
			     struct mq_err *err)
{
	struct mq_csv_writer w;
	uint32_t fewest_row = MQ_NONE, cheapest = MQ_NONE;

	MQ_TRY(mq_csv_create(&w, mq_arena_printf(&r->arena, "%s/recommend.csv", r->dir),
			     mq_study_header(&r->study, &r->arena), err));
	for (uint32_t g = 0; g < gpu->n; g++) {
		uint32_t b = best[g];
		double usd = b == MQ_NONE ? (double)NAN : of(r, b, "usd_per_epoch");

		for (uint32_t c = 0; b != MQ_NONE && c < r->tried.n_columns; c++)
			mq_csv_put_text(&w, mq_csv_text(&r->tried, b, c));
		if (b != MQ_NONE)
			mq_csv_end(&w);
		if (b == MQ_NONE || (isfinite(r->budget_usd) && !(usd <= r->budget_usd)))
			continue;
		double more = fewest_row == MQ_NONE ? -1 : of(r, b, "devices") - of(r, fewest_row, "devices");
		if (more < 0 || (more == 0 && usd < of(r, fewest_row, "usd_per_epoch")))
			fewest_row = b;
		if (!isnan(usd) && (cheapest == MQ_NONE || usd < of(r, cheapest, "usd_per_epoch")))
			cheapest = b;
	}
	MQ_TRY(mq_csv_close(&w, err));
	if (mq_job_stopped()) {
		printf("%s/tried.csv: %u points\n", r->dir, r->tried.n_rows);
		return MQ_OK;
	}
	if (fewest_row == MQ_NONE)
		return mq_fail(err, MQ_ENOPLAN, "no device type keeps %s%s", r->target,
			       isfinite(r->budget_usd) ? " within the budget" : "");
	const char *line = mq_arena_printf(&r->arena, "fewest devices: %s%s%s\n", name_of(r, gpu, fewest_row),
					   cheapest != MQ_NONE ? "; least money: " : "",
					   cheapest != MQ_NONE ? name_of(r, gpu, cheapest) : "");
	fputs(line, stdout);
	fputs(line, said);
	return MQ_OK;
}

static enum mq_status recommend(struct recommend *r, struct mq_err *err)
{
	static const struct mq_shown_table shown[] = { { "recommend.csv", "What does", NULL },
						       { "tried.csv", "All that was tried", NULL },
						       { NULL, NULL, NULL } };
	const struct mq_axis *gpu = NULL;

	static const char *const others[] = { "run.ini", "whatif.csv" };

	MQ_TRY(read_target(r, err));
	MQ_TRY(mq_make_dir(r->dir, err));
	for (int i = 0; i < 2; i++)
		if (!access(mq_arena_printf(&r->arena, "%s/%s", r->dir, others[i]), F_OK))
			return mq_bad(err, "%s/%s: results of another command; choose another -o", r->dir, others[i]);
	MQ_TRY(write_study(r, err));
	for (uint32_t a = 0; a < r->study.n_axes; a++)
		if (!strcmp(r->study.axis[a].key, "platform.gpu"))
			gpu = &r->study.axis[a];
	if (r->study.n_points != gpu->n * r->n_counts)
		return mq_bad(err, "%s: lists are for --gpu alone", r->study.path);
	uint32_t *best = mq_arena_array(&r->arena, gpu->n, uint32_t);

	memset(best, 0xff, gpu->n * sizeof(*best)); /* MQ_NONE */
	MQ_FREED struct mq_words memory = { NULL, 0 };
	FILE *said = mq_words_open(&memory);

	r->rows = mq_words_open(&r->words);
	fprintf(r->rows, "%s\n", mq_study_header(&r->study, &r->arena));
	int saved = mq_json_begin(r->json);
	enum mq_status status = MQ_OK;
	mq_job_stops("a new run begins anew\n");
	for (uint32_t g = 0; g < gpu->n && status == MQ_OK && !mq_job_stopped(); g++) {
		status = fewest(r, g, &best[g], err);
		for (int i = 0; i < 2 && status == MQ_OK && !mq_job_stopped(); i++)
			say(r, gpu->value[g], best[g], i ? said : stdout);
	}
	fclose(r->rows);
	if (status == MQ_OK)
		status = answer(r, gpu, best, said, err);
	if (status == MQ_ENOPLAN)
		fprintf(said, "%s\n", err->text);
	fclose(said);
	mq_json_done(saved, r->dir, shown);
	if (status != MQ_OK && status != MQ_ENOPLAN)
		return status;
	const struct mq_err answer_err = *err;
	MQ_TRY(mq_tables_page(r->dir, r->target, shown, memory.text, err));
	*err = answer_err;
	return status;
}

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	struct recommend r = { .arena = MQ_ARENA_INIT, .said_s = mq_now_s() };
	const struct mq_args args = {
		.table = { { mq_question_args, &r.asked }, { mq_search_args, &r.search }, { rows, &r } },
		.doc = "Finds the fewest devices of each type that train a number of tokens in time, and their cost: "
		       "a study of which only the necessary points are searched (default: 8 plans per point).",
	};

	mq_asked_init(&r.asked);
	mq_args_defaults(mq_search_args, &r.search);
	mq_args_defaults(rows, &r);
	MQ_TRY(mq_args_parse(&args, argc, argv, err));
	r.search.evals = r.search.evals ? r.search.evals : 8;
	r.asked.simulation_s = isinf(r.asked.simulation_s) ? MOST_SIMULATION_S : r.asked.simulation_s;
	if (r.asked.platform)
		return mq_bad(err,
			      "-p: recommend compares the devices of --gpu; keys of their machines follow a colon, as "
			      "H100:network=roce");
	bool gpus = r.gpus && r.gpus[strspn(r.gpus, " ,")];
	if (!gpus || !r.target || !r.dir)
		return mq_bad(err,
			      "%s is missing: maquette recommend -m MODEL --batch N --gpu 'H100, H200' --target "
			      "tokens/day=2e11 -o DIR",
			      !gpus     ? "--gpu" :
			      !r.target ? "--target" :
					  "-o");
	enum mq_status status = recommend(&r, err);
	free(r.words.text);
	mq_arena_fini(&r.arena);
	mq_job_end_stopped();
	return status;
}

MQ_DEFINE_COMMAND(recommend, "the fewest devices for a deadline or a rate, and their cost");
