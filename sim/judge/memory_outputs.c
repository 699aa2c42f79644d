/* memory_outputs.c - see outputs.h.
 *
 * A snapshot has the shape of torch.cuda.memory._snapshot() (torch/cuda/memory.py, _memory_viz.py): segments with their
 * blocks as they are at the end, and the trace of all events of two steps. Frames, which are lines of Python there, are
 * the tensor, its operator and its purpose; of a tensor that is freed, before these, the operator that ran then. Times
 * are numbers of events, as the replay has no clock.
 * SPDX-License-Identifier: Apache-2.0 */
#include "judge/outputs.h"

#include <stdlib.h>

#include "base/pickle.h"
#include "base/text.h"
#include "folding/fold.h"
#include "schedule/allocation_log.h"
#include "schedule/columns.h"

/* Limit on rows of memory_timeline.csv; of the events that share a row it shows the one with the most memory. */
enum { MOST_ROWS = 2000 };

/* ---- a snapshot ---------------------------------------------------------------------------------------- */

static const char *op_name(const struct mq_question *q, uint32_t op)
{
	return op == MQ_NONE ? "" : q->model->op[op].name;
}

static void put_frame(FILE *f, const char *name, const char *filename)
{
	mq_pickle_put(f, "{tt tt ti}", "name", name, "filename", filename, "line", 0);
}

static void put_frames(FILE *f, const struct mq_question *q, const struct mq_allocation_event *e)
{
	mq_pickle_put(f, "t[", "frames");
	if (e && e->event != MQ_BLOCK_TAKEN)
		put_frame(f, "freed", op_name(q, e->by));
	if (e) {
		put_frame(f, e->what, op_name(q, e->op));
		put_frame(f, mq_purpose_name(e->purpose), "maquette");
	}
	mq_pickle_put(f, "]");
}

MQ_COMPARE(by_address, struct mq_allocation_event, MQ_ORDER(a->address, b->address))

/* The events of `log` that take a block (or segment) that is never given back, sorted by address. */
static struct mq_allocation_event *unreleased(const struct mq_allocation_log *log, enum mq_allocator_event taken,
					      enum mq_allocator_event given, struct mq_arena *arena, uint32_t *n)
{
	struct mq_allocation_event *list = mq_arena_array(arena, log->n + 1, struct mq_allocation_event);
	bool *gone = mq_arena_array(arena, log->n + 1, bool);

	*n = 0;
	for (uint32_t i = 0; i < log->n; i++)
		if (log->event[i].event == given)
			gone[log->event[i].taken] = true;
	for (uint32_t i = 0; i < log->n; i++)
		if (log->event[i].event == taken && !gone[i])
			list[(*n)++] = log->event[i];
	qsort(list, *n, sizeof(*list), by_address);
	return list;
}

static void put_block(FILE *f, const struct mq_question *q, uint64_t address, uint64_t size,
		      const struct mq_allocation_event *e)
{
	mq_pickle_put(f, "{tu tu tu tt", "address", address, "size", size, "requested_size", size, "state",
		      e ? "active_allocated" : "inactive");
	put_frames(f, q, e);
	mq_pickle_put(f, "}");
}

/* Writes a segment and the blocks from block[*k] on that lie in it. */
static void put_segment(FILE *f, const struct mq_question *q, const struct mq_allocation_event *segment,
			const struct mq_allocation_event *block, uint32_t n, uint32_t *k)
{
	uint64_t at = segment->address, end = at + segment->size, live = 0;

	for (uint32_t i = *k; i < n && block[i].address < end; i++)
		live += block[i].size;
	mq_pickle_put(f, "{ti tu tu tu tu tu ti tt tb", "device", 0, "address", at, "total_size", segment->size,
		      "allocated_size", live, "active_size", live, "requested_size", live, "stream", segment->stream,
		      "segment_type", segment->size > 2 << 20 ? "large" : "small", "is_expandable", false);
	put_frames(f, q, NULL);
	mq_pickle_put(f, "t[", "blocks");
	for (; *k < n && block[*k].address < end; ++*k) {
		if (block[*k].address > at)
			put_block(f, q, at, block[*k].address - at, NULL);
		put_block(f, q, block[*k].address, block[*k].size, &block[*k]);
		at = block[*k].address + block[*k].size;
	}
	if (at < end)
		put_block(f, q, at, end - at, NULL);
	mq_pickle_put(f, "]}");
}

static void put_segments(FILE *f, const struct mq_question *q, const struct mq_allocation_log *log)
{
	uint32_t n_segments, n_blocks, k = 0;
	const struct mq_allocation_event *segment =
		unreleased(log, MQ_SEGMENT_TAKEN, MQ_SEGMENT_GIVEN, log->arena, &n_segments);
	const struct mq_allocation_event *block = unreleased(log, MQ_BLOCK_TAKEN, MQ_BLOCK_FREE, log->arena, &n_blocks);

	mq_pickle_put(f, "t[", "segments");
	for (uint32_t i = 0; i < n_segments; i++)
		put_segment(f, q, &segment[i], block, n_blocks, &k);
	mq_pickle_put(f, "]");
}

static void put_trace(FILE *f, const struct mq_question *q, const struct mq_allocation_log *log)
{
	static const char *const action[] = { [MQ_BLOCK_TAKEN] = "alloc",
					      [MQ_BLOCK_GIVEN] = "free_requested",
					      [MQ_BLOCK_FREE] = "free_completed",
					      [MQ_SEGMENT_TAKEN] = "segment_alloc",
					      [MQ_SEGMENT_GIVEN] = "segment_free" };

	mq_pickle_put(f, "t[[", "device_traces");
	for (uint32_t i = 0; i < log->n; i++) {
		const struct mq_allocation_event *e = &log->event[i];

		mq_pickle_put(f, "{tt tu tu ti ti", "action", action[e->event], "addr", e->address, "size", e->size,
			      "stream", e->stream, "time_us", i);
		put_frames(f, q, e->event <= MQ_BLOCK_FREE ? e : NULL);
		mq_pickle_put(f, "}");
	}
	mq_pickle_put(f, "]]");
}

static enum mq_status write_snapshot(const struct mq_question *q, const struct mq_allocation_log *log, const char *path,
				     struct mq_err *err)
{
	FILE *f;

	MQ_TRY(mq_file_open(path, &f, err));
	mq_pickle_put(f, "<{");
	put_segments(f, q, log);
	put_trace(f, q, log);
	mq_pickle_put(f, "t{} t[]}>", "allocator_settings", "external_annotations");
	return mq_file_close(f, path, err);
}

/* ---- the timeline ---------------------------------------------------------------------------------------- */

struct rows {
	const struct mq_question *q;
	const struct mq_allocation_log *log;
	struct mq_csv_writer w;
	uint32_t first, each; /* index of the second step's first event; events per row */
	uint32_t n, event;    /* of the open row: events so far, and the one with the most memory */
	struct mq_memory_now fullest;
};

static double live_of(const struct mq_memory_now *now)
{
	double live = 0;

	for (int p = 0; p < MQ_N_PURPOSES; p++)
		live += now->of[p];
	return live;
}

static void put_row(struct rows *r)
{
	const struct mq_allocation_event *e = &r->log->event[r->event];
	const double *of = r->fullest.of;

	mq_csv_row(&r->w, "%u,%s,%s,%g,%g,%g,%g,%g,%g,%g,%g", r->event - r->first, op_name(r->q, e->op),
		   e->what ? e->what : "", of[MQ_FOR_PARAMETERS], of[MQ_FOR_GRADIENTS], of[MQ_FOR_OPTIMIZER],
		   of[MQ_FOR_ACTIVATIONS], of[MQ_FOR_BUFFERS], r->fullest.reserved, r->log->reserve_B,
		   r->q->cluster->device[r->log->device].memory_B);
	r->n = 0;
}

/* Writes the second step alone: by then the optimizer holds all its state. */
static void keep_fullest(void *context, uint32_t event, const struct mq_memory_now *now)
{
	struct rows *r = context;

	if (event < r->first)
		return;
	if (!r->n++ || live_of(now) > live_of(&r->fullest)) {
		r->event = event;
		r->fullest = *now;
	}
	if (r->n == r->each || event + 1 == r->log->n)
		put_row(r);
}

static enum mq_status write_timeline(const struct mq_question *q, const struct mq_allocation_log *log, const char *dir,
				     struct mq_err *err)
{
	struct rows r = { .q = q, .log = log };

	MQ_TRY(mq_table_create(&r.w, MQ_TABLE_memory_timeline, dir, log->arena, err));
	while (r.first < log->n && !log->event[r.first].step)
		r.first++;
	r.each = (log->n - r.first) / MOST_ROWS + 1;
	mq_allocation_log_walk(log, keep_fullest, &r);
	return mq_csv_close(&r.w, err);
}

/* ---- both ------------------------------------------------------------------------------------------------ */

enum mq_status mq_memory_outputs(const struct mq_question *q, const struct mq_plan *plan,
				 const struct mq_memory_files *outputs, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_allocation_log log = { .arena = &arena };
	const struct mq_lower_request request = { .q = q, .plan = plan, .memory_only = true, .log = &log };
	struct mq_lowered lowered;

	log.device = outputs->device ? mq_cluster_find(q->cluster, outputs->device) : MQ_NONE;
	if (outputs->device && log.device == MQ_NONE)
		return mq_bad(err, "--snapshot-device %s: no device of %s; memory.csv names them", outputs->device,
			      q->cluster->name);
	MQ_TRY(mq_lower(&request, &arena, &lowered, err));
	if (!log.played && !outputs->snapshot)
		return MQ_OK;
	if (!log.played)
		return mq_bad(err, "--memory-snapshot: %s",
			      outputs->device ?
				      "the device takes no part in the plan, or is no GPU in training; give another" :
				      "only of GPUs in training, and not of models that were profiled");
	if (outputs->dir)
		MQ_TRY(write_timeline(q, &log, outputs->dir, err));
	return outputs->snapshot ? write_snapshot(q, &log, outputs->snapshot, err) : MQ_OK;
}
