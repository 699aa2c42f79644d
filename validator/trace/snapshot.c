/* snapshot.c - see trace.h.
 *
 * The trace of torch.cuda.memory._snapshot() is replayed from its first event: blocks freed or live at the end without
 * an allocation event existed before. The Python frames (innermost first) of an allocation tell its purpose: an
 * optimizer, a gradient buffer, construction of modules, or a forward pass. No Python frame means autograd's thread:
 * the backward pass. SPDX-License-Identifier: Apache-2.0 */
#include "trace/trace.h"

#include <string.h>

#include "base/index.h"
#include "base/pickle.h"

/* Parts of names and their purposes, first match: of maquette's own snapshots, then of functions and files. */
static const struct {
	const char *part; /* of a frame's name or file */
	enum mq_snapshot_purpose purpose;
} signs[] = {
	{ "optim/", MQ_SNAPSHOT_OPTIMIZER },
	{ "optimizer", MQ_SNAPSHOT_OPTIMIZER },
	{ "param_and_grad_buffer", MQ_SNAPSHOT_GRADIENTS },
	{ "grad_buffer", MQ_SNAPSHOT_GRADIENTS },
	{ "main_grad", MQ_SNAPSHOT_GRADIENTS },
	{ "accumulate_grad", MQ_SNAPSHOT_GRADIENTS },
	{ "reset_parameters", MQ_SNAPSHOT_PARAMETERS },
	{ "_apply", MQ_SNAPSHOT_PARAMETERS },
	{ "empty_parameters", MQ_SNAPSHOT_PARAMETERS },
	{ "__init__", MQ_SNAPSHOT_PARAMETERS },
	{ "forward", MQ_SNAPSHOT_ACTIVATIONS },
	{ "backward", MQ_SNAPSHOT_ACTIVATIONS },
};

static enum mq_snapshot_purpose own_purpose(const char *name)
{
	static const char *const names[] = { "parameters", "gradients", "optimizer" };
	int i = 0;

	while (i < 3 && strcmp(name, names[i]))
		i++;
	return (enum mq_snapshot_purpose)i; /* all others are activations and buffers */
}

static enum mq_snapshot_purpose purpose_of(const struct mq_pickle *frames)
{
	uint32_t n = mq_pickle_items(frames);
	bool python = false;

	for (size_t s = 0; s < sizeof(signs) / sizeof(*signs); s++)
		for (uint32_t i = 0; i < n; i++) {
			const char *name = mq_pickle_text(frames->item[i], "name", "");
			const char *file = mq_pickle_text(frames->item[i], "filename", "");

			if (!strcmp(file, "maquette"))
				return own_purpose(name);
			size_t length = strlen(file);

			python |= length > 3 && !strcmp(file + length - 3, ".py");
			if (strstr(name, signs[s].part) || strstr(file, signs[s].part))
				return signs[s].purpose;
		}
	return n && !python ? MQ_SNAPSHOT_ACTIVATIONS : MQ_SNAPSHOT_OTHER;
}

/* ---- replaying a trace ------------------------------------------------------------------------------------- */

struct block {
	double size;
	uint8_t purpose;
	bool live;
};

struct play {
	struct mq_arena *arena;
	struct mq_index *index; /* address -> block */
	double now[MQ_N_SNAPSHOT_PURPOSES];
};

static struct block *block_at(struct play *p, double address)
{
	bool found;

	return mq_index_value(p->index, &address, sizeof(address), sizeof(struct block), &found);
}

static void take(struct play *p, double address, double size, enum mq_snapshot_purpose purpose)
{
	struct block *b = block_at(p, address);

	*b = (struct block){ size, (uint8_t)purpose, true };
	p->now[purpose] += size;
}

/* Bytes of an event; 0: not an event. */
static double size_of(const struct mq_pickle *event)
{
	double size = mq_pickle_number(event, "size", 0);

	return size > 0 && size < 1e15 ? size : 0;
}

static bool is(const struct mq_pickle *event, const char *action)
{
	return !strcmp(mq_pickle_text(event, "action", ""), action);
}

/* Finds blocks that existed before the trace: freed, or live at the end, without an allocation event. */
static void find_first(struct play *p, const struct mq_pickle *trace, const struct mq_pickle *segments, uint32_t device)
{
	struct play seen = { .arena = p->arena, .index = mq_index_new(p->arena) };

	for (uint32_t i = 0; i < mq_pickle_items(trace); i++) {
		const struct mq_pickle *e = trace->item[i];
		double address = mq_pickle_number(e, "addr", 0);

		if (is(e, "alloc")) {
			take(&seen, address, size_of(e), MQ_SNAPSHOT_OTHER);
		} else if (is(e, "free_completed")) {
			struct block *b = block_at(&seen, address);

			if (!b->live && !b->size)
				take(p, address, size_of(e), MQ_SNAPSHOT_BEFORE);
			b->live = false;
			b->size = 1; /* seen */
		}
	}
	for (uint32_t i = 0; i < mq_pickle_items(segments); i++) {
		const struct mq_pickle *s = segments->item[i], *blocks = mq_pickle_get(s, "blocks");
		double address = mq_pickle_number(s, "address", 0);

		if (mq_pickle_number(s, "device", 0) != device)
			continue;
		for (uint32_t k = 0; k < mq_pickle_items(blocks); k++) {
			const struct mq_pickle *b = blocks->item[k];
			double at = mq_pickle_number(b, "address", address);

			address = at + size_of(b);
			if (!strncmp(mq_pickle_text(b, "state", ""), "active", 6) && !block_at(&seen, at)->live) {
				enum mq_snapshot_purpose purpose = purpose_of(mq_pickle_get(b, "frames"));

				take(p, at, size_of(b), purpose == MQ_SNAPSHOT_OTHER ? MQ_SNAPSHOT_BEFORE : purpose);
			}
		}
	}
}

static double sum(const double of[MQ_N_SNAPSHOT_PURPOSES])
{
	double all = 0;

	for (int p = 0; p < MQ_N_SNAPSHOT_PURPOSES; p++)
		all += of[p];
	return all;
}

static void keep_peak(const struct play *p, struct mq_snapshot *snapshot)
{
	if (sum(p->now) <= snapshot->allocated_B)
		return;
	memcpy(snapshot->of_B, p->now, sizeof(p->now));
	snapshot->allocated_B = sum(p->now);
}

static void play(struct play *p, const struct mq_pickle *trace, struct mq_snapshot *snapshot)
{
	keep_peak(p, snapshot);
	for (uint32_t i = 0; i < mq_pickle_items(trace); i++) {
		const struct mq_pickle *e = trace->item[i];
		double address = mq_pickle_number(e, "addr", 0);

		if (is(e, "alloc")) {
			take(p, address, size_of(e), purpose_of(mq_pickle_get(e, "frames")));
			keep_peak(p, snapshot);
		} else if (is(e, "free_completed")) {
			struct block *b = block_at(p, address);

			p->now[b->purpose] -= b->live ? b->size : 0;
			b->live = false;
		}
	}
}

/* The trace with most events, and its device. */
static const struct mq_pickle *longest(const struct mq_pickle *traces, uint32_t *device)
{
	const struct mq_pickle *most = NULL;

	for (uint32_t d = 0; d < mq_pickle_items(traces); d++)
		if (mq_pickle_items(traces->item[d]) > mq_pickle_items(most)) {
			most = traces->item[d];
			*device = d;
		}
	return most;
}

enum { MOST_DEVICES = 64 }; /* of a process */

/* Sums the segments of each device; returns the device with most. */
static uint32_t fullest(const struct mq_pickle *segments, double size_B[MOST_DEVICES])
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < mq_pickle_items(segments); i++) {
		double device = mq_pickle_number(segments->item[i], "device", 0);
		double total = mq_pickle_number(segments->item[i], "total_size", 0);

		if (device >= 0 && device < MOST_DEVICES && total > 0 && total < 1e15)
			size_B[(uint32_t)device] += total;
	}
	for (uint32_t d = 1; d < MOST_DEVICES; d++)
		most = size_B[d] > size_B[most] ? d : most;
	return most;
}

enum mq_status mq_snapshot_load(const char *path, struct mq_arena *arena, struct mq_snapshot *snapshot,
				struct mq_err *err)
{
	struct play p = { .arena = arena, .index = mq_index_new(arena) };
	double size_B[MOST_DEVICES] = { 0 };
	struct mq_pickle *root;

	*snapshot = (struct mq_snapshot){ 0 };
	MQ_TRY(mq_pickle_load(path, arena, &root, err));
	const struct mq_pickle *segments = mq_pickle_get(root, "segments");
	if (!segments || segments->type != MQ_PICKLE_LIST)
		return mq_bad(
			err,
			"%s: no memory snapshot: it lacks 'segments'; write one with torch.cuda.memory._dump_snapshot",
			path);
	const struct mq_pickle *trace = longest(mq_pickle_get(root, "device_traces"), &snapshot->device);
	uint32_t most = fullest(segments, size_B);
	if (!trace)
		snapshot->device = most;
	snapshot->n_events = mq_pickle_items(trace);
	snapshot->reserved_B = snapshot->device < MOST_DEVICES ? size_B[snapshot->device] : 0;
	find_first(&p, trace, segments, snapshot->device);
	play(&p, trace, snapshot);
	if (!(snapshot->allocated_B > 0))
		return mq_bad(err, "%s: a snapshot of no memory: record before the step that is dumped", path);
	return MQ_OK;
}
