/* load.c - a trace read by what its file begins with: see trace.h. SPDX-License-Identifier: Apache-2.0 */
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum format { NO_TRACE, JSON, SQLITE, CHAKRA };

static enum format format_of(const char *path)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	uint32_t device;
	size_t length = strlen(path);
	gzFile file = gzopen(mq_trace_file(path, &arena, &device), "rb");
	char head[64] = "";
	int n = file ? gzread(file, head, sizeof(head) - 1) : 0; /* the rest stays 0 */

	if (!file)
		return NO_TRACE;
	gzclose(file);
	if (n >= 15 && !strncmp(head, "SQLite format 3", 15))
		return SQLITE;
	if (length > 3 && !strcmp(path + length - 3, ".et"))
		return CHAKRA;
	const char *at = head + strspn(head, " \t\r\n");
	/* "[1,0]<stdout>:" is what mpirun puts before each line of a log. */
	bool list = *at == '[' && strchr("{]", at[1 + strspn(at + 1, " \t\r\n")]);
	return (*at == '{' || list) && !strstr(head, "\"numCycle\"") ? JSON : NO_TRACE; /* that is rccl-tests' list */
}

bool mq_trace_probe(const char *path)
{
	return format_of(path) != NO_TRACE;
}

/* By start; an event comes before those within it. The rest only fixes the order. */
MQ_COMPARE(by_start, struct mq_event,
	   MQ_ORDER(a->start_us, b->start_us)         ?:
		   MQ_ORDER(b->dur_us, a->dur_us)     ?:
		   MQ_ORDER(a->kind, b->kind)         ?:
		   MQ_ORDER(a->external, b->external) ?:
							MQ_ORDER(a->correlation, b->correlation))

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
		return mq_bad(err, "%s: no \"traceEvents\": is it a trace of PyTorch's profiler?", path);
	if (t->n)
		qsort(t->event, t->n, sizeof(*t->event), by_start);
	for (uint32_t i = 0; i < t->n; i++)
		if (t->event[i].kind == MQ_EVENT_KERNEL)
			return MQ_OK;
	return mq_bad(err, "%s: %.0f events and not one kernel of a GPU: profile with ProfilerActivity.CUDA", path,
		      (double)t->n_read);
}
