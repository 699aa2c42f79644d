/*
 * outputs.c - see outputs.h.
 *
 *   summary.csv  one row: step time, throughput, where the time went, the bottleneck in words
 *   timeline.csv one row per task (schedule/timeline.h)
 *   tasks.csv    what else is known of each task: stage, phase, micro-batch
 *   memory.csv   one row per device: bytes at the peak by purpose
 *   links.csv    one row per link: bytes carried, share of what it could have carried in the step
 */
#include "judge/judge.h"
#include "judge/outputs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/csv.h"
#include "judge/gzip.h"

struct table {
	const struct mq_judge *judge;
	const struct mq_judged *judged;
	const struct mq_result *result;
	const bool *show; /* [n_tasks] which tasks timeline.csv and tasks.csv have */
	struct mq_csv_writer w;
	struct mq_err *err;
};

typedef enum mq_status write_rows(struct table *t);

static enum mq_status summary_rows(struct table *t)
{
	const struct mq_result *r = t->result;

	mq_csv_put_f64(&t->w, r->step_time_s);
	mq_csv_put_f64(&t->w, r->samples_per_s);
	mq_csv_put_f64(&t->w, r->mfu);
	mq_csv_put_f64(&t->w, r->peak_memory_B);
	mq_csv_put_f64(&t->w, r->compute_s);
	mq_csv_put_f64(&t->w, r->exposed_comm_s);
	mq_csv_put_f64(&t->w, r->bubble_s);
	mq_csv_put_f64(&t->w, r->lower_bound_s);
	mq_csv_put_text(&t->w, r->verdict == MQ_VERDICT_OK ? r->bottleneck : r->message);
	return mq_csv_end_row(&t->w, t->err);
}

static enum mq_status memory_rows(struct table *t)
{
	const struct mq_lowered *low = &t->judged->lowered;

	for (uint32_t i = 0; i < low->n_devices && low->memory; i++) {
		const struct mq_device *d = &t->judge->q->cluster->device[low->device[i]];
		const struct mq_memory *m = &low->memory[i];
		mq_csv_put_text(&t->w, d->name);
		mq_csv_put_text(&t->w, d->type);
		mq_csv_put_f64(&t->w, m->parameter_B);
		mq_csv_put_f64(&t->w, m->gradient_B);
		mq_csv_put_f64(&t->w, m->optimizer_B);
		mq_csv_put_f64(&t->w, m->activation_B);
		mq_csv_put_f64(&t->w, m->buffer_B);
		mq_csv_put_f64(&t->w, m->fragmentation_B);
		mq_csv_put_f64(&t->w, m->reserve_B);
		mq_csv_put_f64(&t->w, m->peak_B);
		mq_csv_put_f64(&t->w, d->memory_B);
		MQ_TRY(mq_csv_end_row(&t->w, t->err));
	}
	return MQ_OK;
}

static enum mq_status link_rows(struct table *t)
{
	const struct mq_cluster *cluster = t->judge->q->cluster;
	const struct mq_timeline *tl = &t->judged->timeline;

	for (uint32_t l = 0; l < tl->n_links; l++) {
		const struct mq_link *link = &cluster->link[l];
		double could_B = mq_link_usable_Bps(link) * tl->step_time_s;
		mq_csv_put_text(&t->w, link->name);
		mq_csv_put_text(&t->w, mq_link_class_name(link->class));
		mq_csv_put_f64(&t->w, link->bw_Bps);
		mq_csv_put_f64(&t->w, tl->link_busy_B[l]);
		mq_csv_put_f64(&t->w, could_B > 0 ? tl->link_busy_B[l] / could_B : 0);
		MQ_TRY(mq_csv_end_row(&t->w, t->err));
	}
	return MQ_OK;
}

static enum mq_status task_rows(struct table *t)
{
	const struct mq_schedule *s = t->judged->view.schedule;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *task = &s->task[i];

		if (!t->show[i])
			continue;
		mq_csv_put_u64(&t->w, i);
		mq_csv_put_u64(&t->w, task->stage);
		mq_csv_put_text(&t->w, mq_phase_name(task->phase));
		if (task->micro_batch == MQ_NONE)
			mq_csv_put_empty(&t->w);
		else
			mq_csv_put_u64(&t->w, task->micro_batch);
		MQ_TRY(mq_csv_end_row(&t->w, t->err));
	}
	return MQ_OK;
}

static enum mq_status write_table(struct table *t, const char *dir, const char *name, const char *header,
				  write_rows *rows)
{
	struct mq_arena scratch = MQ_ARENA_INIT;
	const char *path = mq_arena_printf(&scratch, "%s/%s", dir, name);
	enum mq_status status = mq_csv_open(&t->w, path, "w", t->err);

	if (!status) {
		struct mq_err ignored;
		status = mq_csv_put_header(&t->w, header, t->err);
		if (!status)
			status = rows(t);
		enum mq_status closed = mq_csv_close(&t->w, status ? &ignored : t->err);
		status = status ? status : closed;
	}
	mq_arena_fini(&scratch);
	return status;
}

/* Bytes of a row of timeline.csv: long names of thousands of machines. */
#define ROW_B 128.

static uint32_t choose(const struct mq_judged *judged, double max_B, double task_B, bool *show)
{
	double most = fmin((max_B > 0 ? max_B : MQ_OUTPUTS_MAX_B) / task_B, (double)UINT32_MAX);

	return mq_timeline_choose(judged->view.schedule, &judged->timeline, (uint64_t)most, show);
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

static enum mq_status write_timeline(const struct mq_judged *judged, const bool *show, const char *dir,
				     struct mq_err *err)
{
	struct mq_arena scratch = MQ_ARENA_INIT;
	enum mq_status status = mq_timeline_save(judged->view.schedule, &judged->timeline, show,
						 mq_arena_printf(&scratch, "%s/timeline.csv", dir), err);

	mq_arena_fini(&scratch);
	return status;
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
	bool timed = t->judged->result.step_time_s > 0; /* also past memory, where that is asked for */

	MQ_TRY(write_table(t, out->dir, "summary.csv",
			   "step_time_s,samples_per_s,mfu,peak_memory_B,compute_s,"
			   "exposed_comm_s,bubble_s,lower_bound_s,bottleneck",
			   summary_rows));
	MQ_TRY(write_table(t, out->dir, "memory.csv",
			   "device,type,parameter_B,gradient_B,optimizer_B,activation_B,"
			   "buffer_B,fragmentation_B,reserve_B,peak_B,limit_B",
			   memory_rows));
	if (!timed)
		return MQ_OK;
	if (out->timeline != MQ_TIMELINE_NONE) {
		bool all = out->timeline == MQ_TIMELINE_ALL;

		result->n_shown = choose(t->judged, all ? (double)INFINITY : out->max_B, ROW_B, show);
		t->show = show;
		MQ_TRY(write_timeline(t->judged, show, out->dir, t->err));
		MQ_TRY(write_table(t, out->dir, "tasks.csv", "task,stage,phase,micro_batch", task_rows));
	}
	return write_table(t, out->dir, "links.csv", "link,class,bandwidth_Bps,bytes,utilisation", link_rows);
}

enum mq_status mq_simulate_outputs(const struct mq_judge *judge, const struct mq_judged *judged,
				   const struct mq_outputs *out, struct mq_result *result, struct mq_err *err)
{
	struct table t = { .judge = judge, .judged = judged, .result = result, .err = err };
	const struct mq_schedule *schedule = judged->view.schedule;
	struct mq_arena scratch = MQ_ARENA_INIT;
	bool *show = mq_arena_array(&scratch, schedule ? schedule->n_tasks + 1 : 1, bool);
	enum mq_status status = out->dir ? write_tables(&t, out, show, result) : MQ_OK;

	if (status == MQ_OK && out->schedule && schedule)
		status = mq_schedule_save(schedule, out->schedule, err);
	if (status == MQ_OK && out->trace && judged->result.step_time_s > 0)
		status = write_trace(judged, out, show, result, err);
	mq_arena_fini(&scratch);
	return status;
}
