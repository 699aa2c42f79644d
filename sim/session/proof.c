/* proof.c - lower bounds that engines proved, compared with the search's best plan; see search_run.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "session/search_run.h"

#include <math.h>

#include "schedule/columns.h"

/* Lower bound of the step time of any plan on the cluster (costing/costing.h). */
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

/* Calls `each` with every bound: the engines', then that of any plan. A bound without a best plan of its engine is
 * compared with the search's best. */
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

/* Relative gap between best and bound; NaN: no best. */
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

static void keep_violation(void *context, const char *engine, const struct mq_bound *b)
{
	struct broken *first = context;

	if (!first->found && gap_of(b) < -1e-9)
		*first = (struct broken){ engine, *b, true };
}

enum mq_status mq_proof_check(const struct mq_search_outcome *out, struct mq_err *err)
{
	struct broken first = { .found = false };

	walk(out, keep_violation, &first);
	if (!first.found)
		return MQ_OK;
	return mq_fail(err, MQ_EBUG,
		       "--proof: %s says that no %s has %s below %.9g %s, and one has %.9g: its bound is wrong",
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

static void put(void *context, const char *engine, const struct mq_bound *b)
{
	mq_csv_row(context, "%s,%s,%g,%g,%g,%s,%s", engine, b->quantity, b->best, b->bound, gap_of(b), b->unit,
		   b->scope);
}

enum mq_status mq_proof_write(const struct mq_search_outcome *out, const char *dir, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_csv_writer w;
	enum mq_status status = mq_table_create(&w, MQ_TABLE_proof, dir, &scratch, err);

	if (status == MQ_OK) {
		walk(out, put, &w);
		status = mq_csv_close(&w, err);
	}
	return status;
}
