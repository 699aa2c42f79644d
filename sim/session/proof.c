/*
 * proof.c - what a search has shown: lower bounds of engines beside its best; see search_run.h.
 */
#include "session/search_run.h"

#include <math.h>

#include "base/csv.h"

/* The bounds that lowering gives: they hold for any plan on that cluster. */
static double any_plan_s(const struct mq_search_outcome *out)
{
	double bound = out->least_s;

	for (uint32_t i = 0; i < out->n_best; i++)
		bound = fmax(bound, out->best[i].result.lower_bound_s);
	return bound;
}

static double best_step_s(const struct mq_search_outcome *out)
{
	double best = INFINITY;

	for (uint32_t i = 0; i < out->n_reports; i++)
		if (!isnan(out->report[i].best_step_time_s))
			best = fmin(best, out->report[i].best_step_time_s);
	return best;
}

/* Calls `each` with every bound: the engines', then the one of any plan. A best that the engine left
 * open is the search's. */
static void walk(const struct mq_search_outcome *out,
		 void (*each)(void *context, const char *engine, const struct mq_bound *bound), void *context)
{
	double best = best_step_s(out);
	struct mq_bound any = { "step-time", best, any_plan_s(out), "s", "plan of any kind" };

	for (uint32_t i = 0; i < out->n_reports; i++)
		for (uint32_t k = 0; k < out->report[i].n_bounds; k++) {
			struct mq_bound b = out->report[i].bound[k];

			b.best = isnan(b.best) ? best : b.best;
			each(context, out->report[i].engine, &b);
		}
	if (out->n_best)
		each(context, "any", &any);
}

/* Relative distance of the best from the bound; NaN without a best. */
static double gap_of(const struct mq_bound *b)
{
	return isfinite(b->best) && b->best > 0 ? (b->best - b->bound) / b->best : (double)NAN;
}

static void print(void *context, const char *engine, const struct mq_bound *b)
{
	FILE *file = context;
	double gap = gap_of(b);

	fprintf(file, "proof: %s: no %s has %s below %.9g %s", engine, b->scope, b->quantity, b->bound, b->unit);
	if (isnan(gap))
		fputs("; no plan found that fits\n", file);
	else
		fprintf(file, "; best %.9g: gap %.3g %%\n", b->best, 100 * fmax(0, gap));
}

struct broken {
	const char *engine;
	struct mq_bound bound;
	bool found;
};

static void look(void *context, const char *engine, const struct mq_bound *b)
{
	struct broken *first = context;

	if (!first->found && gap_of(b) < -1e-9)
		*first = (struct broken){ engine, *b, true };
}

enum mq_status mq_proof_check(const struct mq_search_outcome *out, struct mq_err *err)
{
	struct broken first = { .found = false };

	walk(out, look, &first);
	if (!first.found)
		return MQ_OK;
	return mq_fail(err, MQ_EBUG,
		       "--proof: %s says that no %s has %s below %.9g %s, and one has %.9g: its bound "
		       "is wrong",
		       first.engine, first.bound.scope, first.bound.quantity, first.bound.bound, first.bound.unit,
		       first.bound.best);
}

void mq_proof_print(const struct mq_search_outcome *out, FILE *file)
{
	fputc('\n', file);
	walk(out, print, file);
	for (uint32_t i = 0; i < out->n_reports; i++)
		if (!out->report[i].n_bounds)
			fprintf(file, "proof: %s: has shown no lower bound\n", out->report[i].engine);
	fputs("A bound holds for what its line names, on this platform and by the costs that the simulator uses.\n",
	      file);
}

struct sink {
	struct mq_csv_writer writer;
	enum mq_status status; /* of the first row that failed, if any */
	struct mq_err *err;
};

static void put(void *context, const char *engine, const struct mq_bound *b)
{
	struct sink *sink = context;
	struct mq_csv_writer *w = &sink->writer;

	if (sink->status != MQ_OK)
		return;

	mq_csv_put_text(w, engine);
	mq_csv_put_text(w, b->quantity);
	mq_csv_put_f64(w, isfinite(b->best) ? b->best : (double)NAN);
	mq_csv_put_f64(w, b->bound);
	mq_csv_put_f64(w, gap_of(b));
	mq_csv_put_text(w, b->unit);
	mq_csv_put_text(w, b->scope);
	sink->status = mq_csv_end_row(w, sink->err);
}

enum mq_status mq_proof_write(const struct mq_search_outcome *out, const char *dir, struct mq_err *err)
{
	struct sink sink = { .status = MQ_OK, .err = err };
	struct mq_err late = MQ_ERR_INIT;
	char path[4096];

	snprintf(path, sizeof(path), "%s/proof.csv", dir);
	MQ_TRY(mq_csv_open(&sink.writer, path, "w", err));
	sink.status = mq_csv_put_header(&sink.writer, "engine,quantity,best,lower_bound,gap,unit,scope", err);
	walk(out, put, &sink);
	enum mq_status closed = mq_csv_close(&sink.writer, &late);
	if (sink.status == MQ_OK && closed != MQ_OK)
		*err = late;
	return sink.status != MQ_OK ? sink.status : closed;
}
