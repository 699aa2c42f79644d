/* load.c - a trace by what its file begins with, see trace.h: the reader of that format, then the events in order.
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "trace/trace.h"

enum format { NO_TRACE, JSON, SQLITE, CHAKRA };

static enum format format_of(const char *path)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	uint32_t device;
	size_t length = strlen(path);
	gzFile file = gzopen(mq_trace_file(path, &arena, &device), "rb");
	char head[64] = "";
	int n = file ? gzread(file, head, sizeof(head) - 1) : 0;

	if (!file)
		return NO_TRACE;
	gzclose(file);
	if (n >= 15 && !strncmp(head, "SQLite format 3", 15))
		return SQLITE;
	if (length > 3 && !strcmp(path + length - 3, ".et"))
		return CHAKRA;
	for (int i = 0; i < n; i++)
		if (!isspace((unsigned char)head[i]))
			return head[i] == '{' || head[i] == '[' ? JSON : NO_TRACE;
	return NO_TRACE;
}

bool mq_trace_probe(const char *path)
{
	return format_of(path) != NO_TRACE;
}

static int by_start(const void *a, const void *b)
{
	const struct mq_event *x = a, *y = b;

	if (x->start_us < y->start_us || x->start_us > y->start_us)
		return x->start_us < y->start_us ? -1 : 1;
	/* What contains comes before what it contains; then any fixed order. */
	if (x->dur_us < y->dur_us || x->dur_us > y->dur_us)
		return x->dur_us > y->dur_us ? -1 : 1;
	return MQ_ORDER(x->kind, y->kind)                 ?:
		       MQ_ORDER(x->external, y->external) ?:
							    MQ_ORDER(x->correlation, y->correlation);
}

enum mq_status mq_trace_load(const char *path, struct mq_arena *arena, struct mq_trace *t, struct mq_err *err)
{
	*t = (struct mq_trace){ .path = path, .arena = arena, .rank = MQ_NONE };
	t->names_map = mq_arena_array(arena, 1, struct mq_map);
	mq_map_init(t->names_map, arena, 4096);
	enum format format = format_of(path);
	if (format == SQLITE)
		MQ_TRY(mq_nsys_read(t, err));
	else if (format == CHAKRA)
		MQ_TRY(mq_chakra_read(t, err));
	else
		MQ_TRY(mq_kineto_read(t, err));
	if (!t->n_read)
		return mq_fail(err, MQ_EINPUT, "%s: no \"traceEvents\": is it a trace of PyTorch's profiler?", path);
	if (t->n)
		qsort(t->event, t->n, sizeof(*t->event), by_start);
	for (uint32_t i = 0; i < t->n; i++)
		if (t->event[i].kind == MQ_EVENT_KERNEL)
			return MQ_OK;
	return mq_fail(err, MQ_EINPUT,
		       "%s: %.0f events and not one kernel of a GPU: profile with ProfilerActivity.CUDA", path,
		       (double)t->n_read);
}
