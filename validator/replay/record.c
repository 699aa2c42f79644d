/* record.c - the measured timeline: the columns of a simulated one, plus the sample, the involuntary context switches
 * during the task and the time they took, and marks that make a sample unfit for fitting.
 *
 * Rows are written with stdio's buffer (a run has 1e5 of them) and checked when the file is closed.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "replay/replay.h"

enum mq_status replay_record_open(struct replay_record *record, const char *path, struct mq_err *err)
{
	record->path = path;
	MQ_TRY(mq_file_open(path, &record->file, err));
	fputs("task,device,stream,kind,op,start_s,finish_s,bytes,flop,executor,sample,switches,steal_s,throttled,lost_s\n",
	      record->file);
	return MQ_OK;
}

static void put_quoted(FILE *file, const char *text)
{
	if (!strpbrk(text, ",\"\n")) {
		fputs(text, file);
		return;
	}
	fputc('"', file);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', file);
		fputc(*text, file);
	}
	fputc('"', file);
}

/* "compute", or "compute~conv+optimizer" where kernels run as something else. */
static void put_kind(FILE *f, const struct mq_schedule *schedule, const struct mq_task *task,
		     const struct mq_replay_executor *executor, uint32_t found)
{
	const char *said[8];
	uint32_t n = 0;

	fputs(mq_task_kind_name(task->kind), f);
	if (task->kind != MQ_TASK_COMPUTE || !executor->imitates)
		return;
	const struct mq_work *work = &schedule->work[task->work];
	for (uint32_t k = 0; k < work->n_kernels; k++) {
		const char *name = executor->imitates(&work->kernel[k], found);
		uint32_t known = 0;

		while (name && known < n && said[known] != name)
			known++;
		if (!name || known < n || n == sizeof(said) / sizeof(said[0]))
			continue;
		fprintf(f, "%c%s", n ? '+' : '~', name);
		said[n++] = name;
	}
}

void replay_record_sample(struct replay_record *record, const struct mq_schedule *schedule,
			  const struct mq_replay_executor *const *owner, uint32_t sample,
			  const struct mq_replay_sample *values)
{
	FILE *f = record->file;

	for (uint32_t i = 0; i < schedule->n_tasks; i++) {
		const struct mq_task *t = &schedule->task[i];
		double flop = t->kind == MQ_TASK_COMPUTE ? schedule->work[t->work].flop : 0;
		double bytes = t->kind == MQ_TASK_COMPUTE ? schedule->work[t->work].bytes : t->bytes;

		fprintf(f, "%u,", i);
		put_quoted(f, schedule->device_name[t->device]);
		fprintf(f, ",%s,", mq_stream_name(t->stream));
		put_kind(f, schedule, t, owner[t->device], record->found[t->device]);
		fputc(',', f);
		put_quoted(f, t->op < schedule->n_ops       ? schedule->op_name[t->op] :
			      t->kind == MQ_TASK_COLLECTIVE ? mq_coll_name(t->coll) :
							      "");
		fprintf(f, ",%.9g,%.9g,%.9g,%.9g,%s,%u,%.0f,%.3g,%d,%.3g\n", values->start_s[i], values->finish_s[i],
			bytes, flop, owner[t->device]->name, sample, values->switches[i], values->steal_s,
			values->throttled, values->lost_s[i]);
	}
}

enum mq_status replay_record_close(struct replay_record *record, struct mq_err *err)
{
	FILE *file = record->file;

	record->file = NULL;
	return mq_file_close(file, record->path, err);
}

const char *replay_record_path(const struct replay_job *job, uint32_t index, struct mq_arena *arena)
{
	const struct replay_settings *set = job->set;
	const char *path = set->path[index], *base = strrchr(path, '/');
	struct stat st;

	if (set->n_paths == 1 && (stat(set->out, &st) || !S_ISDIR(st.st_mode)))
		return set->out;
	base = base ? base + 1 : path;
	size_t n = strcspn(base, ".");
	return mq_arena_printf(arena, "%s/%.*s.timeline.csv", set->out, (int)n, base);
}
