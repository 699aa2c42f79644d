/* trust.c - replayed plans as rows of an index of errors, for --trust-with, and how far predictions of such plans are to
 * be trusted. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cmd/validate/plans.h"
#include "session/trust.h"

/* What a plan's replayed schedule was predicted to do. */
static struct mq_result result_of(const struct mq_validated *p, struct mq_arena *arena)
{
	struct mq_result r = mq_result_none(MQ_VERDICT_OK);
	struct mq_breakdown b = mq_timeline_breakdown(p->schedule, &p->predicted, arena);
	const struct mq_schedule *s = p->schedule;
	double flop = 0, peak = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].kind == MQ_TASK_COMPUTE)
			flop += s->work[s->task[i].work].flop;
	for (uint32_t d = 0; d < s->n_devices; d++) {
		uint32_t type = p->session->cluster->device[s->device[d]].calib;

		peak += type == MQ_NONE ? 0 : mq_calib_peak_flops(&p->session->calib->device[type]);
	}
	r.step_time_s = p->predicted.step_time_s;
	r.compute_s = b.compute_s;
	r.exposed_comm_s = b.exposed_comm_s;
	r.bubble_s = b.bubble_s;
	r.mfu = peak > 0 ? flop / peak / r.step_time_s : (double)NAN;
	return r;
}

enum mq_status mq_validation_trust(struct mq_validation *v, const char *dir, struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_csv_create(
		&w, mq_arena_printf(&v->arena, "%s/trust.csv", dir),
		mq_arena_printf(&v->arena, "%s%s%s", mq_trust_columns, mq_trust_header, mq_trust_columns_behind), err));
	for (uint32_t i = 0; i < v->n_open; i++)
		MQ_TRY(mq_session_trust_open(&v->session[i], err));
	for (uint32_t i = 0; i < v->n_plans; i++) {
		const struct mq_validated *p = &v->plan[i];
		const struct mq_result result = result_of(p, &v->arena);
		struct mq_session_trust t = mq_session_trust(p->session, &p->plan, &result, &v->arena);

		if (!t.known)
			continue;
		if (!i)
			mq_trust_print(&t, stdout);
		mq_csv_put(&w, "%s,%s,%s,%s", "replayed", p->name, p->session->asked->model, "own");
		mq_trust_put(&w, &t.point);
		mq_csv_row(&w, "%g,,,,", p->step.median);
	}
	return mq_csv_close(&w, err);
}
