/* answers.c - what a plan's time depends on: judges the best plan of a point again with one change. The plan stays the
 * same, so an elasticity measures the hardware, not the search.
 *
 * Sensitivity: every link class and device type of the platform, at the factors 1 - s and 1 + s; elasticity = relative
 * change of the step time / relative change of the target (-1: twice the bandwidth halves the time, to first order).
 * The batch changes by whole micro-batches, so its factors differ. Break-even: the factor at which two plans take the
 * same time, by a scan from 1/32 to 32 for a change of sign, then bisection of log(factor); of several crossings the
 * one at the lowest factor. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "study/study.h"
#include "base/csv.h"

/* Judges plans under the point's question with one more change; batch 0 = unchanged. */
static enum mq_status judge_changed(const struct mq_answering *a, const char *change, double batch,
				    const struct mq_plan *const *plan, uint32_t n, struct mq_result *result)
{
	struct mq_asked q = a->point->asked;
	struct mq_session s;

	if (change && q.change.n == MQ_MAX_LIST)
		return mq_bad(a->err, "more than %d changes of the hardware", MQ_MAX_LIST);
	if (change)
		q.change.item[q.change.n++] = change;
	if (batch > 0)
		q.train.batch = batch;
	MQ_TRY(mq_session_open(&s, &q, a->study->shipped, a->err));
	enum mq_status status = mq_session_judge(&s, plan, n, result, a->err);
	mq_session_close(&s);
	for (uint32_t i = 0; i < n && status == MQ_OK; i++) {
		mq_result_round(&result[i]);
		if (result[i].verdict == MQ_VERDICT_CRASH)
			status = mq_fail(a->err, MQ_ETIME, "%s", result[i].message);
	}
	return status;
}

/* ---- sensitivity --------------------------------------------------------------------------------------- */

static void put_sensitivity(const struct mq_answering *a, const char *target, double factor, const struct mq_result *r)
{
	double base_s = a->outcome.best[0].result.step_time_s;
	double elasticity = (r->step_time_s / base_s - 1) / (factor - 1) + 0.0; /* + 0.0 turns -0 into 0 */
	struct mq_csv_writer w = { .file = a->row->file, .path = "row" };

	fputs("\nS,", w.file);
	mq_csv_put(&w, "%s,%g,%g,%g,%s", target, factor, r->verdict == MQ_VERDICT_OK ? r->step_time_s : (double)NAN,
		   r->verdict == MQ_VERDICT_OK ? elasticity : (double)NAN, mq_verdict_name(r->verdict));
}

static enum mq_status ask_target(const struct mq_answering *a, const char *target)
{
	const double factor[2] = { 1 - a->study->sensitivity, 1 + a->study->sensitivity };
	const struct mq_plan *plan = a->outcome.best[0].plan;
	char change[256];

	for (int i = 0; i < 2; i++) {
		struct mq_result result;

		snprintf(change, sizeof(change), "%s=%.12g", target, factor[i]);
		MQ_TRY(judge_changed(a, change, 0, &plan, 1, &result));
		put_sensitivity(a, target, factor[i], &result);
	}
	return MQ_OK;
}

/* Changes the number of micro-batches by the share s (at least by one), at equal samples per micro-batch. */
static enum mq_status ask_batch(const struct mq_answering *a)
{
	const struct mq_plan *best = a->outcome.best[0].plan;
	uint32_t m = best->micro_batches;
	uint32_t step = (uint32_t)fmax(1, round(m * a->study->sensitivity));

	for (int sign = -1; sign <= 1; sign += 2) {
		struct mq_plan changed = *best;
		const struct mq_plan *plan = &changed;
		struct mq_result result;

		if (sign < 0 && step >= m)
			continue;
		changed.micro_batches = sign < 0 ? m - step : m + step;
		double factor = (double)changed.micro_batches / m;
		MQ_TRY(judge_changed(a, NULL, a->point->asked.train.batch * factor, &plan, 1, &result));
		put_sensitivity(a, "batch", factor, &result);
	}
	return MQ_OK;
}

enum mq_status mq_study_sensitivity(const struct mq_answering *a)
{
	static const char *const of_link[] = { "bw", "latency" }, *const of_device[] = { "flops", "mem_bw", "memory" };
	const struct mq_cluster *cluster = a->session.cluster;
	bool present[MQ_N_LINK_CLASSES] = { false };
	char target[192];

	for (uint32_t l = 0; l < cluster->n_links; l++)
		present[cluster->link[l].class] = true;
	for (int c = 0; c < MQ_N_LINK_CLASSES; c++)
		for (int i = 0; present[c] && i < 2; i++) {
			snprintf(target, sizeof(target), "link.%s.%s", mq_link_class_name(c), of_link[i]);
			MQ_TRY(ask_target(a, target));
		}
	for (uint32_t d = 0; d < cluster->n_devices; d++)
		for (int i = 0; mq_first_of_type(cluster, d, NULL) && i < 3; i++) {
			snprintf(target, sizeof(target), "device.%s.%s", cluster->device[d].type, of_device[i]);
			MQ_TRY(ask_target(a, target));
		}
	return ask_batch(a);
}

/* ---- break-even ------------------------------------------------------------------------------------------ */

struct contest {
	struct mq_answering *a;
	const struct mq_plan *plan[2];
	double time_s[2]; /* step times at the newest factor */
};

/* *gap < 0: plan A is faster. */
static enum mq_status ask_gap(struct contest *c, double log_factor, double *gap)
{
	struct mq_result result[2];
	char change[256];

	snprintf(change, sizeof(change), "%s=%.12g", c->a->study->breakeven_target, exp2(log_factor));
	MQ_TRY(judge_changed(c->a, change, 0, c->plan, 2, result));
	for (int i = 0; i < 2; i++) {
		if (result[i].verdict != MQ_VERDICT_OK)
			return mq_bad(c->a->err, "break-even: plan %c at %s: %s: %s", 'A' + i, change,
				      mq_verdict_name(result[i].verdict), result[i].message);
		c->time_s[i] = result[i].step_time_s;
	}
	*gap = c->time_s[0] - c->time_s[1];
	return MQ_OK;
}

static const char *winner(double gap)
{
	return gap < 0 ? "A" : gap > 0 ? "B" : "tie";
}

/* Finds the first interval of the scan in which the winner changes; *found = false: none. */
static enum mq_status scan(struct contest *c, double at[2], double gap[2], bool *found, char ends[2][8])
{
	double before = 0, g;

	*found = false;
	for (int k = -5; k <= 5; k++) {
		MQ_TRY(ask_gap(c, k, &g));
		if (k == -5)
			snprintf(ends[0], sizeof(ends[0]), "%s", winner(g));
		if (k > -5 && !*found && (before < 0) != (g < 0)) {
			*found = true;
			at[0] = k - 1;
			at[1] = k;
			gap[0] = before;
			gap[1] = g;
		}
		before = g;
	}
	snprintf(ends[1], sizeof(ends[1]), "%s", winner(g));
	return MQ_OK;
}

static enum mq_status find_contest_plans(struct contest *c)
{
	const struct mq_study *study = c->a->study;
	const struct mq_search_outcome *outcome = &c->a->outcome;
	struct mq_session *s = &c->a->session;

	if (!study->breakeven_plan[0]) {
		if (outcome->n_best < 2)
			return mq_bad(c->a->err, "break-even: the search found one plan only; name two with "
						 "breakeven.plan_a and breakeven.plan_b");
		c->plan[0] = outcome->best[0].plan;
		c->plan[1] = outcome->best[1].plan;
		return MQ_OK;
	}
	for (int i = 0; i < 2; i++) {
		struct mq_plan *plan = mq_arena_alloc(&s->arena, sizeof(*plan));

		MQ_TRY(mq_plan_load(study->breakeven_plan[i], s->model, s->cluster, &s->arena, plan, c->a->err));
		MQ_TRY(mq_plan_check(plan, s->model, s->cluster, &s->train, c->a->err));
		c->plan[i] = plan;
	}
	return MQ_OK;
}

static enum mq_status find_tie(struct contest *c, double *factor, char ends[2][8])
{
	double at[2], gap[2];
	bool found;

	MQ_TRY(scan(c, at, gap, &found, ends));
	*factor = (double)NAN;
	if (!found)
		return MQ_OK;
	while (at[1] - at[0] > 1e-6) {
		double middle = (at[0] + at[1]) / 2, g;

		MQ_TRY(ask_gap(c, middle, &g));
		at[(g < 0) != (gap[0] < 0)] = middle;
	}
	*factor = exp2((at[0] + at[1]) / 2);
	return ask_gap(c, (at[0] + at[1]) / 2, &gap[0]);
}

/* If a plan cannot run at a factor, the row says so. */
enum mq_status mq_study_breakeven(struct mq_answering *a)
{
	struct contest c = { .a = a, .time_s = { (double)NAN, (double)NAN } };
	struct mq_csv_writer w = { .file = a->row->file, .path = "row" };
	const char *target = a->study->breakeven_target;
	char ends[2][8] = { "", "" }, answer[600];
	const char *plan[2];
	double factor = (double)NAN;
	enum mq_status status = find_contest_plans(&c);

	if (status == MQ_OK)
		status = find_tie(&c, &factor, ends);
	if (status != MQ_OK)
		snprintf(answer, sizeof(answer), "%s", a->err->text);
	else if (isnan(factor) && (!strcmp(ends[0], "tie") || !strcmp(ends[1], "tie")))
		snprintf(answer, sizeof(answer), "A and B take the same time at %s of 1/32 to 32 times %s",
			 strcmp(ends[0], ends[1]) ? "one end" : "both ends", target);
	else if (isnan(factor))
		snprintf(answer, sizeof(answer), "%s is faster from 1/32 to 32 times %s", ends[0], target);
	else
		snprintf(answer, sizeof(answer), "%s is faster below %.4g times %s, %s above", ends[0], factor, target,
			 strcmp(ends[0], "A") ? "A" : "B");
	fputs("\nB,", w.file);
	for (int i = 0; i < 2; i++) {
		plan[i] = c.plan[i] ? mq_plan_describe(c.plan[i], a->session.cluster, &a->session.arena) : "";
		c.time_s[i] = isnan(factor) ? (double)NAN : c.time_s[i];
	}
	mq_csv_put(&w, "%s,%g,%g,%g,%s,%s,%s,%s,%s", target, factor, c.time_s[0], c.time_s[1], ends[0], ends[1],
		   plan[0], plan[1], answer);
	return MQ_OK;
}
