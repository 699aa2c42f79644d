/* outputs.c - see outputs.h.
 *
 *   summary.csv  one row: step time, throughput, where the time went, the bottleneck in words
 *   timeline.csv one row per task (schedule/timeline.h)
 *   tasks.csv    stage, phase and micro-batch of each task
 *   memory.csv   one row per device: bytes at the peak by purpose
 *   links.csv    one row per link: bytes carried, and their share of usable bandwidth times step time
 *
 * memory.csv and links.csv of large clusters show one row for many that are equal, see mq_outputs_rows.
 * SPDX-License-Identifier: Apache-2.0 */
#include "judge/outputs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/index.h"
#include "schedule/columns.h"
#include "judge/gzip.h"

struct table {
	const struct mq_judge *judge;
	const struct mq_judged *judged;
	const struct mq_result *result;
	const bool *show; /* [n_tasks] tasks written to timeline.csv and tasks.csv */
	double most_rows; /* of memory.csv and links.csv */
	struct mq_arena arena;
	struct mq_csv_writer w;
	struct mq_err *err;
};

static void summary_rows(struct table *t)
{
	const struct mq_result *r = t->result;

	mq_table_put(&t->w, MQ_TABLE_summary, "step_time_s", r);
	mq_csv_put(&t->w, "%s", r->verdict == MQ_VERDICT_OK ? r->bottleneck : r->message);
	mq_csv_row(&t->w, "%g,%g,%g,%g,%g", r->allocated_memory_B, r->reserved_memory_B, r->host_memory_B,
		   r->host_limit_B, r->memory_high_B);
}

/* Estimated bytes of a row of timeline.csv, with device names as long as large clusters have. */
#define ROW_B 128.

double mq_outputs_rows(double max_B)
{
	return (max_B > 0 ? max_B : MQ_OUTPUTS_MAX_B) / 5 / ROW_B;
}

static void memory_rows(struct table *t)
{
	const struct mq_lowered *low = &t->judged->lowered;
	const struct mq_schedule *s = t->judged->view.schedule;
	bool all = low->n_devices <= t->most_rows || !s;
	bool *shown = mq_arena_array(&t->arena, t->judge->q->cluster->n_devices, bool);

	for (uint32_t i = 0; !all && i < s->n_devices; i++)
		shown[s->device[i]] = true;
	for (uint32_t i = 0; i < low->n_devices && low->memory; i++) {
		const struct mq_device *d = &t->judge->q->cluster->device[low->device[i]];
		const struct mq_memory *m = &low->memory[i];

		if (all || shown[low->device[i]])
			mq_csv_row(&t->w, "%s,%s,%g,%g,%g,%g,%g,%g,%g,%g,%g,%g,%g,%g", d->name, d->type, m->parameter_B,
				   m->gradient_B, m->optimizer_B, m->activation_B, m->buffer_B, m->fragmentation_B,
				   m->reserve_B, m->peak_B, d->memory_B, mq_memory_allocated_B(m),
				   mq_memory_reserved_B(m), m->host_B);
	}
}

/* Does the link get a row? With more than most_rows links, only the first of equal class, bandwidth and bytes does. */
static bool gets_row(struct table *t, struct mq_index *seen, uint32_t link)
{
	const struct mq_timeline *tl = &t->judged->timeline;
	const struct mq_link *l = &t->judge->q->cluster->link[link];
	const double key[] = { l->class, l->bw_Bps, mq_round9(tl->link_busy_B[link]) };
	bool found = false;

	if (tl->n_links > t->most_rows)
		mq_index_put(seen, key, sizeof(key), 0, &found);
	return !found;
}

static void link_rows(struct table *t)
{
	const struct mq_timeline *tl = &t->judged->timeline;
	struct mq_index *seen = mq_index_new(&t->arena);

	for (uint32_t l = 0; l < tl->n_links; l++) {
		const struct mq_link *link = &t->judge->q->cluster->link[l];
		double could_B = mq_link_usable_Bps(link) * tl->step_time_s;

		if (gets_row(t, seen, l))
			mq_csv_row(&t->w, "%s,%s,%g,%g,%g", link->name, mq_link_class_name(link->class), link->bw_Bps,
				   tl->link_busy_B[l], could_B > 0 ? tl->link_busy_B[l] / could_B : 0);
	}
}

static void task_rows(struct table *t)
{
	const struct mq_schedule *s = t->judged->view.schedule;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *task = &s->task[i];

		if (t->show[i])
			mq_csv_row(&t->w, "%u,%u,%s,%g", i, task->stage, mq_phase_name(task->phase),
				   task->micro_batch == MQ_NONE ? (double)NAN : task->micro_batch);
	}
}

static enum mq_status write_table(struct table *t, const char *dir, enum mq_table_id id, void (*rows)(struct table *t))
{
	MQ_TRY(mq_table_create(&t->w, id, dir, &t->arena, t->err));
	rows(t);
	return mq_csv_close(&t->w, t->err);
}

static double most_tasks(double max_B, double task_B)
{
	return fmin((max_B > 0 ? max_B : MQ_OUTPUTS_MAX_B) / task_B, (double)UINT32_MAX);
}

static uint32_t choose(const struct mq_judged *judged, double max_B, double task_B, bool *show)
{
	return mq_timeline_choose(judged->view.schedule, &judged->timeline, (uint64_t)most_tasks(max_B, task_B), show);
}

double mq_outputs_first_tasks(const struct mq_outputs *out)
{
	bool all = out->trace || out->schedule || out->timeline != MQ_TIMELINE_FOLDED;

	return all ? 0 : most_tasks(out->max_B, ROW_B);
}

bool mq_outputs_end_before(const struct mq_judged *judged, const struct mq_outputs *out)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;

	if (!judged->view.steady || !(judged->result.step_time_s > 0))
		return true;
	uint32_t n_tasks = judged->view.schedule->n_tasks, first = judged->view.steady->period[0].first;
	bool *show = mq_arena_array(&scratch, n_tasks, bool);

	choose(judged, out->max_B, ROW_B, show);
	return !memchr(show + first, true, n_tasks - first);
}

static enum mq_status write_trace(const struct mq_judged *judged, const struct mq_outputs *out, bool *show,
				  struct mq_result *result, struct mq_err *err)
{
	const struct mq_timeline *timeline = &judged->timeline;
	FILE *file;

	result->n_traced = choose(judged, out->max_B, MQ_TRACED_B, show);
	MQ_TRY(mq_file_create(out->trace, &file, err));
	mq_timeline_trace(judged->view.schedule, &timeline, 1, show, file);
	return mq_file_close(file, out->trace, err);
}

struct mq_judge mq_outputs_judge(const struct mq_judge *judge, const struct mq_plan *plan,
				 const struct mq_outputs *outputs)
{
	struct mq_judge j = *judge;

	j.fold = j.fold && !outputs->schedule && outputs->timeline != MQ_TIMELINE_ALL &&
		 mq_plan_degrees(plan).n_devices > MQ_OUTPUTS_WHOLE;
	j.keep_tasks = true;
	return j;
}

void mq_outputs_explain(const struct mq_judged *shown, struct mq_result *result)
{
	const struct mq_result *of = &shown->result;

	result->n_simulated = of->n_simulated;
	memcpy(result->link_s, of->link_s, sizeof(of->link_s));
	memcpy(result->bottleneck, of->bottleneck, sizeof(of->bottleneck));
	if (result->verdict == of->verdict)
		return;
	result->verdict = of->verdict;
	memcpy(result->message, of->message, sizeof(of->message));
}

static enum mq_status write_tables(struct table *t, const struct mq_outputs *out, bool *show, struct mq_result *result)
{
	bool timed = t->judged->result.step_time_s > 0; /* true also of a plan past memory that was timed on request */

	MQ_TRY(write_table(t, out->dir, MQ_TABLE_summary, summary_rows));
	MQ_TRY(write_table(t, out->dir, MQ_TABLE_memory, memory_rows));
	if (!timed)
		return MQ_OK;
	if (out->timeline != MQ_TIMELINE_NONE) {
		bool all = out->timeline == MQ_TIMELINE_ALL;

		result->n_shown = choose(t->judged, all ? (double)INFINITY : out->max_B, ROW_B, show);
		t->show = show;
		MQ_TRY(mq_timeline_save(t->judged->view.schedule, &t->judged->timeline, show,
					mq_arena_printf(&t->arena, "%s/timeline.csv", out->dir), t->err));
		MQ_TRY(write_table(t, out->dir, MQ_TABLE_tasks, task_rows));
	}
	return write_table(t, out->dir, MQ_TABLE_links, link_rows);
}

enum mq_status mq_simulate_outputs(const struct mq_judge *judge, const struct mq_judged *judged,
				   const struct mq_outputs *out, struct mq_result *result, struct mq_err *err)
{
	struct table t = {
		.judge = judge, .judged = judged, .result = result, .most_rows = mq_outputs_rows(out->max_B), .err = err
	};
	const struct mq_schedule *schedule = judged->view.schedule;
	bool *show = mq_arena_array(&t.arena, schedule ? schedule->n_tasks + 1 : 1, bool);
	enum mq_status status = out->dir ? write_tables(&t, out, show, result) : MQ_OK;

	if (status == MQ_OK && out->schedule && schedule)
		status = mq_schedule_save(schedule, out->schedule, err);
	if (status == MQ_OK && out->trace && judged->result.step_time_s > 0)
		status = write_trace(judged, out, show, result, err);
	mq_arena_fini(&t.arena);
	return status;
}
