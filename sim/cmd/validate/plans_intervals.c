/* plans_intervals.c - `simulate --intervals`: the spread of a step time from what the calibration says about its own
 * values, and how likely one plan is to beat another.
 *
 * The draws are run by the analytic executor and give factors around the simulated step time.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "cmd/validate/plans.h"
#include "schedule/columns.h"
#include "folding/fold.h"

static enum mq_status spread_of(const struct mq_session *session, const struct mq_plan *plan,
				const struct mq_uncertainty *uncertainty, struct mq_arena *arena,
				struct mq_interval *interval, struct mq_err *err)
{
	struct mq_lower_request lower = { .q = &session->q, .plan = plan };
	struct mq_lowered lowered;
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_interval_request request = { .cluster = session->cluster,
					       .calib = session->calib,
					       .uncertainty = uncertainty,
					       .n_draws = MQ_INTERVAL_DRAWS,
					       .seed = session->asked->seed,
					       .run = mq_validation_run_draw,
					       .context = &scratch };

	MQ_TRY(mq_lower(&lower, arena, &lowered, err));
	if (lowered.verdict != MQ_VERDICT_OK)
		return mq_fail(err, MQ_ENOPLAN, "no interval: the plan is '%s': %s", mq_verdict_name(lowered.verdict),
			       lowered.message);
	return mq_interval_of(&request, lowered.schedule, arena, interval, err);
}

static enum mq_status write_table(const char *dir, const struct mq_ranked *plan, uint32_t n,
				  const struct mq_interval *interval, struct mq_arena *arena, struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_table_create(&w, MQ_TABLE_intervals, dir, arena, err));
	for (uint32_t i = 0; i < n; i++) {
		const double s = plan[i].step_time_s;
		double faster = i ? mq_probability_less(plan[0].step_time_s, interval[0].factor, s, interval[i].factor,
							MQ_INTERVAL_DRAWS) :
				    (double)NAN;

		mq_csv_row(&w, "%s,%g,%g,%g,%g", plan[i].path, s, s * interval[i].low, s * interval[i].high, faster);
	}
	return mq_csv_close(&w, err);
}

enum mq_status mq_plans_intervals(const struct mq_session *session, const struct mq_ranked *plan, uint32_t n,
				  const char *dir, struct mq_err *err)
{
	const struct mq_list *files = &session->asked->calib;
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_uncertainty uncertainty = { 0 };
	struct mq_interval *interval = mq_arena_array(&arena, n, struct mq_interval);
	char low[32], high[32];

	for (uint32_t f = 0; f < files->n; f++)
		MQ_TRY(mq_uncertainty_load(&uncertainty, files->item[f], &arena, err));
	if (!uncertainty.n)
		return mq_fail(err, MQ_EINPUT,
			       "--intervals: no calibration says how sure it is: give one "
			       "that maquette calibrate wrote (--calib FILE)");
	for (uint32_t i = 0; i < n; i++)
		MQ_TRY(spread_of(session, plan[i].plan, &uncertainty, &arena, &interval[i], err));
	for (uint32_t i = 0; i < n; i++) {
		printf("%s: step time between %s and %s (95 %%)\n", plan[i].path,
		       mq_text_s(plan[i].step_time_s * interval[i].low, low),
		       mq_text_s(plan[i].step_time_s * interval[i].high, high));
		if (interval[i].n_extrapolated)
			printf("  %u kernels are outside the sizes that were measured\n", interval[i].n_extrapolated);
		if (i)
			printf("  %s is faster with probability %.2f\n", plan[0].path,
			       mq_probability_less(plan[0].step_time_s, interval[0].factor, plan[i].step_time_s,
						   interval[i].factor, MQ_INTERVAL_DRAWS));
	}
	if (dir)
		MQ_TRY(write_table(dir, plan, n, interval, &arena, err));
	return MQ_OK;
}
