/* timeline_file.c - timelines as a table (CSV) and as a Chrome / Perfetto trace (JSON).
 *
 * Trace: one process per device and executor, one thread per stream, complete events ("X") in microseconds, arrows
 * ("s", "f") from sends to recvs. Opens in ui.perfetto.dev and chrome://tracing. SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "schedule/columns.h"
#include "schedule/events.h"
#include "schedule/timeline.h"

static const char *op_of(const struct mq_schedule *s, const struct mq_task *t)
{
	return t->op == MQ_NONE ? "" : s->op_name[t->op];
}

static double flop_of(const struct mq_schedule *s, const struct mq_task *t)
{
	return t->kind == MQ_TASK_COMPUTE ? s->work[t->work].flop : 0;
}

static double bytes_of(const struct mq_schedule *s, const struct mq_task *t)
{
	return t->kind == MQ_TASK_COMPUTE ? s->work[t->work].bytes : t->bytes;
}

/* Chooses a device's `most` earliest tasks. */
static void choose_first(const struct mq_schedule *s, const struct mq_timeline *tl, uint32_t device, uint64_t most,
			 bool *show)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	const uint32_t *order = mq_arena_order(&scratch, tl->start_s, s->n_tasks);

	for (uint32_t i = 0; i < s->n_tasks && most; i++)
		if (s->task[order[i]].device == device) {
			show[order[i]] = true;
			most--;
		}
}

uint32_t mq_timeline_choose(const struct mq_schedule *s, const struct mq_timeline *tl, uint64_t most, bool *show)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	uint64_t *count = mq_arena_array(&scratch, s->n_devices + 1, uint64_t), left = most;
	bool *whole = mq_arena_array(&scratch, s->n_devices + 1, bool);
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		count[s->task[i].device]++;
		show[i] = false;
	}
	for (uint32_t k = 0; k < s->n_devices; k++) {
		uint32_t d = k == 0 ? 0 : k == 1 ? s->n_devices - 1 : k - 1;

		if (count[d] > left)
			break;
		whole[d] = true;
		left -= count[d];
		n += count[d] > 0;
	}
	for (uint32_t i = 0; i < s->n_tasks; i++)
		show[i] = whole[s->task[i].device];
	if (!n && s->n_devices) {
		choose_first(s, tl, 0, most, show);
		n = 1;
	}
	return n;
}

enum mq_status mq_timeline_save(const struct mq_schedule *s, const struct mq_timeline *tl, const bool *show,
				const char *path, struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_csv_create(&w, path, mq_table[MQ_TABLE_timeline].header, err));
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		const char *kind = t->kind == MQ_TASK_COLLECTIVE ? mq_coll_name(t->coll) : mq_task_kind_name(t->kind);

		if (!show || show[i])
			mq_csv_row(&w, "%u,%s,%s,%s,%s,%g,%g,%g,%g,%s", i, s->device_name[t->device],
				   mq_stream_name(t->stream), kind, op_of(s, t), tl->start_s[i], tl->finish_s[i],
				   bytes_of(s, t), flop_of(s, t), tl->executor);
	}
	return mq_csv_close(&w, err);
}

/* ---- trace ----------------------------------------------------------------------------------- */

static void put_name(FILE *f, const struct mq_schedule *s, const struct mq_task *t)
{
	char text[200];
	const char *what = t->kind == MQ_TASK_COLLECTIVE ? mq_coll_name(t->coll) : mq_task_kind_name(t->kind);

	if (t->kind == MQ_TASK_COMPUTE)
		what = mq_phase_name(t->phase);
	if (t->micro_batch != MQ_NONE)
		snprintf(text, sizeof(text), "%s %" PRIu32 "%s%s", what, t->micro_batch, t->op == MQ_NONE ? "" : ": ",
			 op_of(s, t));
	else
		snprintf(text, sizeof(text), "%s%s%s", what, t->op == MQ_NONE ? "" : ": ", op_of(s, t));
	mq_json_put_text(f, text);
}

static void put_heads(FILE *f, const struct mq_schedule *s, const struct mq_timeline *tl, uint32_t pid_first, bool *any)
{
	for (uint32_t d = 0; d < s->n_devices; d++) {
		char name[300];
		snprintf(name, sizeof(name), "%s (%s, %s)", s->device_name[d], s->device_type[d], tl->executor);
		fprintf(f,
			"%s\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":", *any ? "," : "",
			pid_first + d);
		mq_json_put_text(f, name);
		fprintf(f,
			"}},\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%u}}",
			pid_first + d, pid_first + d);
		for (int q = 0; q < MQ_N_STREAMS; q++)
			fprintf(f,
				",\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%d,\"name\":\"thread_name\","
				"\"args\":{\"name\":\"%s\"}}",
				pid_first + d, q, mq_stream_name(q));
		*any = true;
	}
}

static void put_slice(FILE *f, const struct mq_schedule *s, const struct mq_timeline *tl, uint32_t pid_first,
		      uint32_t id)
{
	const struct mq_task *t = &s->task[id];

	fprintf(f, ",\n{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.4f,\"dur\":%.4f,\"cat\":\"%s\",\"name\":",
		pid_first + t->device, t->stream, tl->start_s[id] * 1e6, (tl->finish_s[id] - tl->start_s[id]) * 1e6,
		mq_task_kind_name(t->kind));
	put_name(f, s, t);
	fprintf(f, ",\"args\":{\"task\":%u,\"stage\":%u,\"bytes\":%.9g,\"flop\":%.9g", id, t->stage, bytes_of(s, t),
		flop_of(s, t));
	if (t->kind == MQ_TASK_COLLECTIVE)
		fprintf(f, ",\"communicator\":%u", t->comm);
	fputs("}}", f);
}

/* An arrow is drawn between two slices if its ends lie inside them. */
static void put_arrow(FILE *f, const struct mq_schedule *s, const struct mq_timeline *tl, uint32_t pid_first,
		      uint32_t send, uint32_t recv)
{
	const struct mq_task *a = &s->task[send], *b = &s->task[recv];

	fprintf(f,
		",\n{\"ph\":\"s\",\"id\":%u,\"pid\":%u,\"tid\":%u,\"ts\":%.4f,\"cat\":\"message\","
		"\"name\":\"message\"}",
		pid_first * 131 + send, pid_first + a->device, a->stream, tl->start_s[send] * 1e6);
	fprintf(f,
		",\n{\"ph\":\"f\",\"bp\":\"e\",\"id\":%u,\"pid\":%u,\"tid\":%u,\"ts\":%.4f,"
		"\"cat\":\"message\",\"name\":\"message\"}",
		pid_first * 131 + send, pid_first + b->device, b->stream, tl->finish_s[recv] * 1e6);
}

void mq_timeline_trace(const struct mq_schedule *s, const struct mq_timeline *const *timelines, uint32_t n,
		       const bool *show, FILE *f)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_events ev;
	bool any = false, arrows = mq_events_build(s, NULL, &scratch, &ev, NULL) == MQ_OK;

	fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", f);
	for (uint32_t k = 0; k < n; k++) {
		uint32_t pid_first = 1 + k * s->n_devices;

		put_heads(f, s, timelines[k], pid_first, &any);
		for (uint32_t i = 0; i < s->n_tasks; i++) {
			if (show && !show[i])
				continue;
			put_slice(f, s, timelines[k], pid_first, i);
			if (arrows && s->task[i].kind == MQ_TASK_SEND && (!show || show[ev.match[i]]))
				put_arrow(f, s, timelines[k], pid_first, i, ev.match[i]);
		}
	}
	fputs("\n]}\n", f);
}
