/* judge.c - judges one plan: lower, memory verdict, run, and the result's figures from the timeline.
 *
 * MFU = model FLOPs (no recomputation) / (step time x sum of the peaks of the devices used). Exposed communication is
 * booked on the class of the slowest link that its flows cross. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "search/search.h"
#include "costing/costing.h"
#include "judge/judge.h"

static void say(struct mq_result *r, enum mq_verdict verdict, const char *message)
{
	r->verdict = verdict;
	snprintf(r->message, sizeof(r->message), "%.250s", message);
}

static void note_memory(const struct mq_judge *j, const struct mq_lowered *low, struct mq_result *r)
{
	if (j->any_memory || !low->memory || low->worst >= low->n_devices)
		return;
	r->memory_device = low->device[low->worst];
	r->memory = low->memory[low->worst];
	r->first = low->memory[0];
	r->peak_memory_B = r->memory.peak_B;
	r->allocated_memory_B = mq_memory_allocated_B(&r->memory);
	r->reserved_memory_B = mq_memory_reserved_B(&r->memory);
	r->host_memory_B = low->host_B;
	r->host_limit_B = low->host_limit_B;
	if (!j->q->model->profile.n_types)
		r->memory_high_B = mq_question_memory_high(j->q) * (r->peak_memory_B - r->memory.spare_B);
	r->memory_limit_B = j->q->cluster->device[r->memory_device].memory_B;
}

/* Runs one view; sets the verdict. */
static enum mq_status run(const struct mq_judge *j, struct mq_arena *arena, struct mq_judged *out, struct mq_err *err)
{
	struct mq_exec_request request = { .view = out->view,
					   .cluster = j->q->cluster,
					   .calib = j->q->calib,
					   .timeout_s = j->timeout_s,
					   .simulation_s = j->simulation_s,
					   .interference = j->interference,
					   .times_only = j->times_only ||
							 ((out->view.fold || out->view.steady) && !j->keep_tasks),
					   .jitter = j->jitter.draws ? &j->jitter : NULL };
	struct mq_err said = MQ_ERR_INIT;

	MQ_TRY(j->execute(&request, arena, &out->timeline, &out->result.verdict, &said) == MQ_OK ?
		       MQ_OK :
		       mq_fail(err, said.status, "%s", said.text));
	/* The executor found the deadlock when it ordered the events; mq_schedule_check words it. */
	if (out->result.verdict == MQ_VERDICT_DEADLOCK && mq_schedule_check(out->view.schedule, NULL, &said) != MQ_OK)
		say(&out->result, MQ_VERDICT_DEADLOCK, said.text);
	if (out->result.verdict == MQ_VERDICT_INVALID || out->result.verdict == MQ_VERDICT_REFUSED)
		say(&out->result, out->result.verdict, said.text);
	if (out->result.verdict == MQ_VERDICT_TIMEOUT)
		snprintf(out->result.message, sizeof(out->result.message),
			 "the step takes more than %.9g simulated seconds", j->timeout_s);
	return MQ_OK;
}

/* Runs the plan's views in turn, until a run shows that the ranks its view folds together do behave alike. */
static enum mq_status run_views(const struct mq_judge *j, struct mq_folding *folding, struct mq_arena *arena,
				struct mq_judged *out, struct mq_err *err)
{
	do {
		if (out->timeline.apart_s)
			mq_folding_apart(folding, out->timeline.apart_s);
		if (out->timeline.unsteady)
			mq_folding_unsteady(folding);
		MQ_TRY(mq_folding_next(folding, &out->view, err));
		say(&out->result, out->lowered.verdict, out->lowered.message);
		if (!out->view.schedule)
			return MQ_OK;
		MQ_TRY(run(j, arena, out, err));
	} while (out->result.verdict == MQ_VERDICT_OK && (out->view.fold || out->view.steady) && out->timeline.inexact);
	return MQ_OK;
}

static enum mq_status lower_and_run(const struct mq_judge *j, const struct mq_plan *plan, struct mq_arena *arena,
				    struct mq_judged *out, struct mq_err *err)
{
	const struct mq_fold_request ask = { .lower = { .q = j->q,
							.plan = plan,
							.past_memory = j->time_oom,
							.any_memory = j->any_memory,
							.max_tasks = j->max_tasks,
							.simulation_s = j->simulation_s,
							.memory_only = !j->execute,
							.fits_only = j->times_only,
							.replays = j->replays,
							.alike = !j->keep_tasks,
							.first_tasks = j->first_tasks },
					     .fold = j->fold && !j->jitter.draws,
					     .steady = (!j->keep_tasks || j->first_tasks > 0) && !j->jitter.draws,
					     .keep_tasks = j->keep_tasks,
					     .screen = j->times_only && j->execute == mq_execute_analytic };
	struct mq_folding *folding = mq_folding_begin(&ask, arena, &out->lowered);

	note_memory(j, &out->lowered, &out->result);
	enum mq_status status = run_views(j, folding, arena, out, err);
	mq_folding_end(folding);
	return status;
}

static enum mq_status measure(const struct mq_judge *j, struct mq_judged *out, struct mq_arena *arena,
			      struct mq_err *err)
{
	struct mq_result *r = &out->result;
	const struct mq_device *device = j->q->cluster->device;
	const uint32_t *rank = out->lowered.device;
	/* Host time of a GPU step outside all kernels: the training loop reads the loss. */
	bool waits = j->q->software && device[rank[0]].kind != MQ_CPU;
	double peak = 0, host_s = waits ? j->q->software->step_ms / 1e3 : 0;

	for (uint32_t i = 0; i < out->lowered.n_devices; i++)
		peak += mq_cost_train_peak(&j->q->calib->device[device[rank[i]].calib], j->q->train);
	/* Derived figures use the step time as it is printed (9 digits). */
	r->step_time_s = mq_round9(out->timeline.step_time_s + host_s);
	r->samples_per_s = r->step_time_s > 0 ? j->q->train->batch / r->step_time_s : (double)NAN;
	r->mfu = peak > 0 && r->step_time_s > 0 ? out->lowered.model_flop / (r->step_time_s * peak) : (double)NAN;
	r->n_simulated = out->view.schedule->n_devices;
	if (j->times_only)
		return MQ_OK;
	struct mq_breakdown b = mq_timeline_account(out->view.schedule, &out->timeline, arena, &out->exposed_s);

	r->compute_s = b.compute_s;
	r->exposed_comm_s = b.exposed_comm_s;
	r->bubble_s = b.bubble_s + host_s;
	return mq_judge_causes(j, out, arena, err);
}

enum mq_status mq_judge_full(const struct mq_judge *j, const struct mq_plan *plan, struct mq_arena *arena,
			     struct mq_judged *out, struct mq_err *err)
{
	memset(out, 0, sizeof(*out));
	out->result = mq_result_none(MQ_VERDICT_OK);
	MQ_TRY(lower_and_run(j, plan, arena, out, err));
	out->result.lower_bound_s = mq_peak_bound(j->q);
	if (out->result.verdict == MQ_VERDICT_OK && j->execute)
		MQ_TRY(measure(j, out, arena, err));
	if (out->result.verdict == MQ_VERDICT_OK) /* a plan past memory that was timed on request keeps OOM */
		say(&out->result, out->lowered.verdict, out->lowered.message);
	mq_result_round(&out->result);
	return MQ_OK;
}

enum mq_status mq_judge_plan(const struct mq_judge *j, const struct mq_plan *plan, struct mq_arena *arena,
			     struct mq_result *result, struct mq_err *err)
{
	struct mq_judged out;

	MQ_TRY(mq_judge_full(j, plan, arena, &out, err));
	*result = out.result;
	return MQ_OK;
}
