/* nsys.c - reads reports of Nsight Systems that were exported to SQLite (`nsys export --type sqlite`).
 *
 * Kernels, copies, the calls that launched them, and NVTX ranges: NCCL's and the framework's collectives, optimizers,
 * layers, steps. Columns are those of NVIDIA's schema reference; where versions differ, each is tried. A report may
 * have the ranks of a whole machine: NAME.sqlite@N is its device N. Its times are in ns.
 *
 * Not read: the sizes of NCCL's calls, which its ranges have in a private format.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdarg.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "trace/trace.h"

struct reader {
	struct mq_trace *trace;
	sqlite3 *base;
	const char *file; /* path without @N */
	double size_B;    /* of it */
	uint32_t device;  /* MQ_NONE = not given */
	int64_t process;  /* of the device's kernels: globalPid, 0 = unknown */
	double zero_ns;
	enum mq_event_kind kind; /* of the device events being read */
	struct mq_err *err;
};

/* ---- asking ---------------------------------------------------------------------------------- */

/* Does the statement compile, and (`row`) give a row? An unknown column does not compile. */
static bool answers(struct reader *r, const char *sql, bool row)
{
	sqlite3_stmt *statement = NULL;
	bool there = sqlite3_prepare_v2(r->base, sql, -1, &statement, NULL) == SQLITE_OK &&
		     (!row || sqlite3_step(statement) == SQLITE_ROW);

	sqlite3_finalize(statement);
	return there;
}

/* Is it a table? A view might give rows without end. */
static bool is_table(struct reader *r, const char *name)
{
	static const char ask[] = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND name = '%s'";

	return answers(r, mq_arena_printf(r->trace->arena, ask, name), true);
}

static bool has(struct reader *r, const char *table, const char *column)
{
	return is_table(r, table) &&
	       answers(r, mq_arena_printf(r->trace->arena, "SELECT %s FROM %s LIMIT 0", column, table), false);
}

typedef void row_taker(struct reader *r, sqlite3_stmt *statement);

/* Calls `take` for every row of a statement, a printf format. */
__attribute__((format(printf, 3, 4))) static enum mq_status ask(struct reader *r, row_taker *take, const char *format,
								...)
{
	sqlite3_stmt *statement = NULL;
	char sql[512];
	va_list args;

	va_start(args, format);
	vsnprintf(sql, sizeof(sql), format, args);
	va_end(args);
	int status = sqlite3_prepare_v2(r->base, sql, -1, &statement, NULL);
	while (status == SQLITE_OK || status == SQLITE_ROW) {
		status = sqlite3_step(statement);
		if (status == SQLITE_ROW && (double)++r->trace->n_read > r->size_B) {
			sqlite3_finalize(statement);
			return mq_bad(
				r->err,
				"%s: says more rows than it has bytes (%.0f): identifiers of strings are not unique in it",
				r->file, r->size_B);
		}
		if (status == SQLITE_ROW)
			take(r, statement);
	}
	enum mq_status result = status == SQLITE_DONE ? MQ_OK :
							mq_bad(r->err, "%s: %s: is the export whole?", r->file,
							       sqlite3_errmsg(r->base));
	sqlite3_finalize(statement);
	return result;
}

static const char *text(sqlite3_stmt *statement, int column)
{
	const unsigned char *t = sqlite3_column_text(statement, column);

	return t ? (const char *)t : "";
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* An event from columns 0 and 1, start and end in ns. */
static struct mq_event event_of(struct reader *r, sqlite3_stmt *statement, enum mq_event_kind kind, const char *name)
{
	double start = (double)sqlite3_column_int64(statement, 0), end = (double)sqlite3_column_int64(statement, 1);

	if (!(r->zero_ns > 0))
		r->zero_ns = start;
	return (struct mq_event){ .start_us = 1e-3 * (start - r->zero_ns),
				  .dur_us = fmax(0, 1e-3 * (end - start)),
				  .name = mq_trace_intern(r->trace, name, strlen(name)),
				  .device = MQ_NONE,
				  .shape = MQ_NONE,
				  .note = MQ_NONE,
				  .kind = (uint8_t)kind };
}

/* Columns: start, end, device, stream, correlation, and the name of a kernel or the bytes of a copy */
static void take_device_event(struct reader *r, sqlite3_stmt *statement)
{
	struct mq_event e = event_of(r, statement, r->kind, r->kind == MQ_EVENT_KERNEL ? text(statement, 5) : "copy");

	e.device = (uint32_t)sqlite3_column_int64(statement, 2);
	e.stream = (uint32_t)sqlite3_column_int64(statement, 3);
	e.correlation = (uint64_t)sqlite3_column_int64(statement, 4);
	if (r->kind == MQ_EVENT_COPY)
		e.bytes = (double)sqlite3_column_int64(statement, 5);
	mq_trace_add(r->trace, e, NULL);
}

/* Columns: start, end, thread, correlation, name */
static void take_launch(struct reader *r, sqlite3_stmt *statement)
{
	struct mq_event e = event_of(r, statement, MQ_EVENT_LAUNCH, text(statement, 4));

	e.thread = (uint32_t)(sqlite3_column_int64(statement, 2) & 0xffffff);
	e.correlation = (uint64_t)sqlite3_column_int64(statement, 3);
	if (e.correlation && strcasestr(e.name, "launch"))
		mq_trace_add(r->trace, e, NULL);
}

/* Columns: start, end, thread, text */
static void take_range(struct reader *r, sqlite3_stmt *statement)
{
	const char *name = text(statement, 3);
	int kind = mq_trace_range_kind(name);

	if (kind < 0)
		return;
	struct mq_event e = event_of(r, statement, (enum mq_event_kind)kind, name);

	e.thread = (uint32_t)(sqlite3_column_int64(statement, 2) & 0xffffff);
	const struct mq_trace_note note = { .in_n = NAN, .out_n = NAN, .collective = e.name };
	mq_trace_add(r->trace, e, kind == MQ_EVENT_NOTE ? &note : NULL);
}

static void take_device(struct reader *r, sqlite3_stmt *statement)
{
	struct mq_trace *t = r->trace;
	const char *name = text(statement, 0);

	t->gpu = mq_trace_intern(t, name, strlen(name));
	t->memory_B = (double)sqlite3_column_int64(statement, 1);
	t->sms = (double)sqlite3_column_int64(statement, 2);
	t->compute_capability =
		10 * (double)sqlite3_column_int64(statement, 3) + (double)sqlite3_column_int64(statement, 4);
}

/* Columns: device, process, number of kernels; takes the device asked for, if there are several. */
static void take_which(struct reader *r, sqlite3_stmt *statement)
{
	uint32_t device = (uint32_t)sqlite3_column_int64(statement, 0);

	r->trace->world++;
	if (r->device == MQ_NONE || r->device == device) {
		r->trace->rank = device;
		r->process = sqlite3_column_int64(statement, 1);
	}
}

/* ---- the report ------------------------------------------------------------------------------ */

static enum mq_status choose_device(struct reader *r)
{
	const char *process = has(r, "CUPTI_ACTIVITY_KIND_KERNEL", "globalPid") ? "globalPid" : "0";

	if (!has(r, "CUPTI_ACTIVITY_KIND_KERNEL", "start"))
		return mq_bad(r->err,
			      "%s: no table of kernels: profile with `nsys profile --trace=cuda,nvtx` and export with "
			      "`nsys export --type sqlite`",
			      r->file);
	MQ_TRY(ask(r, take_which,
		   "SELECT deviceId, max(%s) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY deviceId ORDER BY deviceId",
		   process));
	if (r->device != MQ_NONE && r->trace->rank != r->device)
		return mq_bad(r->err, "%s: no kernel ran on device %u", r->file, r->device);
	if (r->device == MQ_NONE && r->trace->world > 1)
		return mq_bad(r->err,
			      "%s holds the kernels of %u devices: say of which it is the trace, as %s@0 for device 0",
			      r->file, r->trace->world, r->file);
	if (r->device == MQ_NONE) /* one device is one rank of an unknown number */
		r->trace->rank = MQ_NONE;
	if (r->trace->rank == MQ_NONE)
		r->trace->world = 0;
	return MQ_OK;
}

static enum mq_status read_device_side(struct reader *r)
{
	static const char *const copies[] = { "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET" };
	const char *where =
		r->device == MQ_NONE ? "" : mq_arena_printf(r->trace->arena, " WHERE x.deviceId = %u", r->device);

	r->kind = MQ_EVENT_KERNEL;
	MQ_TRY(ask(r, take_device_event,
		   "SELECT x.start, x.end, x.deviceId, x.streamId, x.correlationId, s.value FROM "
		   "CUPTI_ACTIVITY_KIND_KERNEL x LEFT JOIN StringIds s ON s.id = x.demangledName%s",
		   where));
	r->kind = MQ_EVENT_COPY;
	for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++)
		if (has(r, copies[i], "bytes"))
			MQ_TRY(ask(
				r, take_device_event,
				"SELECT x.start, x.end, x.deviceId, x.streamId, x.correlationId, x.bytes FROM %s x%s",
				copies[i], where));
	return MQ_OK;
}

/* Reads launches and ranges of the device's process; identifiers hold process and thread, 24 bits each. */
static enum mq_status read_host_side(struct reader *r)
{
	const char *own = r->process ? mq_arena_printf(r->trace->arena, " AND x.globalTid / 0x1000000 = %lld",
						       (long long)(r->process / 0x1000000)) :
				       "";
	bool id = has(r, "NVTX_EVENTS", "textId");

	if (has(r, "CUPTI_ACTIVITY_KIND_RUNTIME", "nameId"))
		MQ_TRY(ask(r, take_launch,
			   "SELECT x.start, x.end, x.globalTid, x.correlationId, s.value FROM "
			   "CUPTI_ACTIVITY_KIND_RUNTIME x LEFT JOIN StringIds s ON s.id = x.nameId WHERE 1%s",
			   own));
	if (has(r, "NVTX_EVENTS", "text"))
		MQ_TRY(ask(
			r, take_range,
			"SELECT x.start, x.end, x.globalTid, coalesce(x.text, %s) FROM NVTX_EVENTS x%s WHERE x.end > x.start%s",
			id ? "s.value" : "''", id ? " LEFT JOIN StringIds s ON s.id = x.textId" : "", own));
	if (has(r, "TARGET_INFO_GPU", "smCount") && has(r, "TARGET_INFO_GPU", "computeMajor"))
		MQ_TRY(ask(
			r, take_device,
			"SELECT name, totalMemory, smCount, computeMajor, computeMinor FROM TARGET_INFO_GPU WHERE id = %u",
			r->device == MQ_NONE ? 0 : r->device));
	return MQ_OK;
}

static enum mq_status read_report(struct reader *r)
{
	if (sqlite3_open_v2(r->file, &r->base, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
		return mq_bad(r->err, "%s: cannot open the report: %s", r->file,
			      r->base ? sqlite3_errmsg(r->base) : "no memory");
	if (!is_table(r, "StringIds"))
		return mq_bad(r->err, "%s: no table of strings: is it an export of Nsight Systems?", r->file);
	MQ_TRY(choose_device(r));
	MQ_TRY(read_device_side(r));
	return read_host_side(r);
}

enum mq_status mq_nsys_read(struct mq_trace *trace, struct mq_err *err)
{
	struct reader r = { .trace = trace, .device = MQ_NONE, .err = err };
	struct stat st;

	r.file = mq_trace_file(trace->path, trace->arena, &r.device);
	r.size_B = stat(r.file, &st) ? 0 : (double)st.st_size;
	enum mq_status status = read_report(&r);
	sqlite3_close(r.base);
	return status;
}
