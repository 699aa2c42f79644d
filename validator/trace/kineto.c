/* kineto.c - reads traces that PyTorch's profiler writes: Chrome's trace events, as JSON, plain or gzipped.
 *
 * Formats of all versions are read: categories ("Kernel" and "kernel", "Operator" and "cpu_op"), the letter case of
 * argument names, streams and threads as numbers or "stream 7", collectives described by the kernel (2.1 and later), by
 * record_param_comms with element counts (2.1 and later) or operands' shapes (before), by "nccl:..." annotations, or
 * not at all; a bare list of events (torch.autograd.profiler).
 *
 * A stream parser (yajl) reads the file once; unused events are not kept. SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yajl/yajl_parse.h>
#include <zlib.h>

#include "maquette/rng.h"
#include "trace/trace.h"

enum { BLOCK_B = 1 << 18, NAME_B = 512, KEY_B = 40 };
/* Traces compress by 10 to 30; a large file that compresses by more is malicious. */
enum { MOST_PACKED = 100, SMALL_B = 16 << 20 };

/* The object of a value. */
enum place { NOWHERE, IN_EVENT, IN_ARGS, IN_DEVICE, IN_WORLD };

struct text {
	char at[NAME_B];
	size_t n;
};

struct reader {
	struct mq_trace *trace;
	int level, events_level, device_level, world_level, args_level;
	char root_key[KEY_B], key[KEY_B];
	/* The current event. */
	struct mq_event event;
	struct mq_trace_note note;
	struct mq_trace_shape shape;
	struct text name, cat, pid;
	bool complete, has_note, has_ranks, has_shape;
	struct mq_map shapes; /* index by content, since steps repeat their shapes */
	/* Inside "Input Dims" or "Input type". */
	int list_level;
	bool in_dims, in_types, nested;
	int ranks_level;   /* inside "Process Group Ranks" as a list */
	struct text ranks; /* as a text: "[0, 1]" */
	uint32_t type_at;
	struct mq_tensor tensor;
};

/* ---- one event ------------------------------------------------------------------------------- */

static void begin_event(struct reader *r)
{
	r->event = (struct mq_event){ .start_us = NAN, .device = MQ_NONE, .shape = MQ_NONE, .note = MQ_NONE };
	r->note = (struct mq_trace_note){ .in_n = NAN, .out_n = NAN };
	r->name.n = r->cat.n = r->pid.n = 0;
	r->name.at[0] = r->cat.at[0] = r->pid.at[0] = '\0';
	r->complete = r->has_note = r->has_ranks = r->has_shape = false;
}

static bool is_any(const char *text, const char *const *of)
{
	for (; *of; of++)
		if (!strcasecmp(text, *of))
			return true;
	return false;
}

/* The kind of the current event, or -1. */
static int kind_of(const struct reader *r)
{
	static const char *const copies[] = { "gpu_memcpy", "gpu_memset", "memcpy", "memset", NULL };
	static const char *const launches[] = {
		"cuda_runtime", "runtime", "cuda_driver", "driver", "hip_runtime", NULL
	};
	static const char *const ops[] = { "cpu_op", "operator", "user_annotation", "python_function", "", NULL };
	const char *name = r->name.at;

	if (!strcasecmp(r->cat.at, "kernel") || (!r->cat.n && mq_trace_starts(r->pid.at, "CUDA")))
		return MQ_EVENT_KERNEL;
	if (is_any(r->cat.at, copies))
		return MQ_EVENT_COPY;
	if (is_any(r->cat.at, launches))
		return r->event.correlation && strcasestr(name, "launch") ? MQ_EVENT_LAUNCH : -1;
	if (!is_any(r->cat.at, ops))
		return -1;
	if (!strcmp(name, "record_param_comms") || mq_trace_starts(name, "nccl:") || mq_trace_starts(name, "c10d::"))
		return MQ_EVENT_NOTE;
	if (mq_trace_starts(name, "ProfilerStep"))
		return MQ_EVENT_STEP;
	if (r->has_shape || strstr(name, "Optimizer.step") || strstr(name, "convolution"))
		return MQ_EVENT_OP;
	/* Operators are many and never layers: skip the search. */
	return strcasecmp(r->cat.at, "cpu_op") && strcasecmp(r->cat.at, "operator") && mq_trace_layer(name) != MQ_NONE ?
		       MQ_EVENT_LAYER :
		       -1;
}

static void end_event(struct reader *r)
{
	struct mq_trace *t = r->trace;
	int kind;

	t->n_read++;
	if (!r->complete || isnan(r->event.start_us) || (kind = kind_of(r)) < 0)
		return;
	r->event.kind = (uint8_t)kind;
	r->event.name = mq_trace_intern(t, r->name.at, r->name.n);
	if (r->has_shape && (kind == MQ_EVENT_OP || kind == MQ_EVENT_NOTE)) {
		/* Unused fields are zero, so equal shapes have equal bytes. */
		r->event.shape = mq_map_add(&r->shapes, mq_hash(MQ_HASH_INIT, &r->shape, sizeof(r->shape)));
		if (r->event.shape == t->n_shapes)
			MQ_PUSH(t->arena, t->shape, t->n_shapes, t->shape_room, r->shape);
	}
	mq_trace_add(t, r->event, kind == MQ_EVENT_NOTE || (kind == MQ_EVENT_KERNEL && r->has_note) ? &r->note : NULL);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void put_text(struct text *to, const char *text, size_t n)
{
	to->n = n < NAME_B ? n : NAME_B - 1;
	memcpy(to->at, text, to->n);
	to->at[to->n] = '\0';
}

/* A number, or the digits of "stream 7". */
static double number_in(const char *text, size_t n)
{
	char copy[64];
	size_t from = 0;

	while (from < n && !isdigit((unsigned char)text[from]) && text[from] != '-')
		from++;
	n = n - from < sizeof(copy) - 1 ? n - from : sizeof(copy) - 1;
	memcpy(copy, text + from, n);
	copy[n] = '\0';
	return n ? strtod(copy, NULL) : (double)NAN;
}

static uint32_t small_in(const char *text, size_t n)
{
	double x = number_in(text, n);

	return x >= 0 && x < 4e9 ? (uint32_t)x : MQ_NONE;
}

static uint64_t id_in(const char *text, size_t n)
{
	double x = number_in(text, n);

	return x > 0 && x < 1e18 ? (uint64_t)x : 0;
}

static void take_event(struct reader *r, const char *text, size_t n)
{
	if (!strcmp(r->key, "name"))
		put_text(&r->name, text, n);
	else if (!strcmp(r->key, "cat"))
		put_text(&r->cat, text, n);
	else if (!strcmp(r->key, "ph"))
		r->complete = n == 1 && *text == 'X';
	else if (!strcmp(r->key, "ts"))
		r->event.start_us = number_in(text, n);
	else if (!strcmp(r->key, "dur"))
		r->event.dur_us = number_in(text, n);
	else if (!strcmp(r->key, "pid"))
		put_text(&r->pid, text, n);
	else if (!strcmp(r->key, "tid"))
		r->event.thread = small_in(text, n);
}

static void take_note(struct reader *r, const char *text, size_t n)
{
	if (!strcasecmp(r->key, "Collective name") && n)
		r->note.collective = mq_trace_intern(r->trace, text, n);
	else if (!strcasecmp(r->key, "In msg nelems"))
		r->note.in_n = number_in(text, n);
	else if (!strcasecmp(r->key, "Out msg nelems"))
		r->note.out_n = number_in(text, n);
	else if (!strcasecmp(r->key, "Group size"))
		r->note.ranks = small_in(text, n);
	else if (!strcasecmp(r->key, "dtype"))
		r->note.element_B = mq_trace_type(text, n, NULL);
	else if (!strcasecmp(r->key, "Process Group Name") && !r->has_ranks)
		r->note.group = mq_trace_intern(r->trace, text, n);
	else if (!strcasecmp(r->key, "Process Group Ranks") && n > 2) {
		/* Group names are counted per rank; the list of members is the same on all. */
		r->note.group = mq_trace_intern(r->trace, text, n);
		r->has_ranks = true;
	} else
		return;
	r->has_note = true;
}

static void put_ranks(struct reader *r, const char *text, size_t n)
{
	struct text *to = &r->ranks;

	if (to->n + n + 3 > NAME_B)
		return;
	if (to->n)
		to->at[to->n++] = ',', to->at[to->n++] = ' ';
	memcpy(to->at + to->n, text, n);
	to->n += n;
}

static void take_args(struct reader *r, const char *text, size_t n)
{
	if (!strcasecmp(r->key, "External id"))
		r->event.external = id_in(text, n);
	else if (!strcasecmp(r->key, "correlation"))
		r->event.correlation = id_in(text, n);
	else if (!strcasecmp(r->key, "device"))
		r->event.device = small_in(text, n);
	else
		take_note(r, text, n);
}

static void take_device(struct reader *r, const char *text, size_t n)
{
	struct mq_trace *t = r->trace;

	if (!strcmp(r->key, "name"))
		t->gpu = mq_trace_intern(t, text, n);
	else if (!strcmp(r->key, "totalGlobalMem"))
		t->memory_B = number_in(text, n);
	else if (!strcmp(r->key, "numSms"))
		t->sms = number_in(text, n);
	else if (!strcmp(r->key, "computeMajor"))
		t->compute_capability += 10 * number_in(text, n);
	else if (!strcmp(r->key, "computeMinor"))
		t->compute_capability += number_in(text, n);
}

static enum place place_of(const struct reader *r)
{
	if (r->args_level && r->level == r->args_level)
		return IN_ARGS;
	if (r->events_level && r->level == r->events_level + 1)
		return IN_EVENT;
	if (r->device_level && r->level == r->device_level + 1)
		return r->trace->gpus == 1 ? IN_DEVICE : NOWHERE;
	if (r->world_level && r->level == r->world_level)
		return IN_WORLD;
	return NOWHERE;
}

static void take(struct reader *r, const char *text, size_t n)
{
	switch (place_of(r)) {
	case IN_EVENT:
		take_event(r, text, n);
		break;
	case IN_ARGS:
		take_args(r, text, n);
		break;
	case IN_DEVICE:
		take_device(r, text, n);
		break;
	case IN_WORLD:
		if (!strcmp(r->key, "rank"))
			r->trace->rank = small_in(text, n);
		else if (!strcmp(r->key, "world_size"))
			r->trace->world = small_in(text, n);
		break;
	case NOWHERE:
		break;
	}
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static void push_tensor(struct reader *r)
{
	if (r->shape.n < MQ_TRACE_TENSORS)
		r->shape.tensor[r->shape.n++] = r->tensor;
	r->tensor = (struct mq_tensor){ 0 };
}

static void begin_list(struct reader *r)
{
	if (r->list_level) {
		r->nested |= r->in_dims && r->level == r->list_level + 2;
		r->tensor = (struct mq_tensor){ 0 };
		return;
	}
	r->in_dims = !strcasecmp(r->key, "Input Dims");
	r->in_types = !strcasecmp(r->key, "Input type") || !strcasecmp(r->key, "Input types");
	if (!r->in_dims && !r->in_types)
		return;
	r->list_level = r->level;
	r->type_at = 0;
	r->nested = false;
	if (!r->has_shape) {
		memset(&r->shape, 0, sizeof(r->shape)); /* with the padding: see intern_shape */
		for (int i = 0; i < MQ_TRACE_TENSORS; i++)
			r->shape.dtype[i] = MQ_N_DTYPES;
	}
	if (r->in_dims)
		r->shape.n = 0;
	r->has_shape = true;
}

/* Ends a list at its level; a list of tensors has tensors one level deeper. */
static void end_list(struct reader *r)
{
	if (r->level == r->list_level) {
		r->list_level = 0;
		r->in_dims = r->in_types = false;
	} else if (r->in_dims && r->level == r->list_level + 2) {
		push_tensor(r);
	} else if (r->in_dims && r->level == r->list_level + 1) {
		if (!r->nested)
			push_tensor(r);
		r->nested = false;
	}
}

/* ---- callbacks of the parser ------------------------------------------------------------------- */

static int on_value(struct reader *r, const char *text, size_t n, bool number)
{
	if (number && r->in_dims) {
		if (r->tensor.n_dims < MQ_TRACE_DIMS)
			r->tensor.dim[r->tensor.n_dims++] = number_in(text, n);
	} else if (!number && r->in_types) {
		if (r->level == r->list_level && r->type_at < MQ_TRACE_TENSORS) {
			r->shape.size_B[r->type_at] = mq_trace_type(text, n, &r->shape.dtype[r->type_at]);
			r->type_at++;
		}
	} else if (r->ranks_level) {
		put_ranks(r, text, n);
	} else if (!r->list_level) {
		take(r, text, n);
	}
	return 1;
}

static int on_number(void *context, const char *text, size_t n)
{
	return on_value(context, text, n, true);
}

static int on_string(void *context, const unsigned char *text, size_t n)
{
	return on_value(context, (const char *)text, n, false);
}

static int on_key(void *context, const unsigned char *text, size_t n)
{
	struct reader *r = context;
	char *to = r->level == 1 ? r->root_key : r->key;

	n = n < KEY_B ? n : KEY_B - 1;
	memcpy(to, text, n);
	to[n] = '\0';
	return 1;
}

static int on_map(void *context)
{
	struct reader *r = context;

	r->level++;
	if (r->events_level && r->level == r->events_level + 1)
		begin_event(r);
	else if (r->events_level && r->level == r->events_level + 2 && !strcmp(r->key, "args"))
		r->args_level = r->level;
	else if (r->device_level && r->level == r->device_level + 1)
		r->trace->gpus++;
	else if (r->level == 2 && !strcmp(r->root_key, "distributedInfo"))
		r->world_level = r->level;
	return 1;
}

static int on_map_end(void *context)
{
	struct reader *r = context;

	if (r->events_level && r->level == r->events_level + 1)
		end_event(r);
	if (r->level == r->args_level)
		r->args_level = 0;
	if (r->level == r->world_level)
		r->world_level = 0;
	r->level--;
	return 1;
}

static int on_array(void *context)
{
	struct reader *r = context;

	r->level++;
	if (r->level == 1 || (r->level == 2 && !strcmp(r->root_key, "traceEvents")))
		r->events_level = r->level;
	else if (r->level == 2 && !strcmp(r->root_key, "deviceProperties"))
		r->device_level = r->level;
	else if (r->args_level && r->level == r->args_level + 1 && !strcasecmp(r->key, "Process Group Ranks")) {
		r->ranks_level = r->level;
		r->ranks.n = 0;
	} else if (r->args_level && r->level > r->args_level)
		begin_list(r);
	return 1;
}

static int on_array_end(void *context)
{
	struct reader *r = context;

	if (r->list_level)
		end_list(r);
	if (r->ranks_level && r->level == r->ranks_level) {
		char all[NAME_B + 3];
		int n = snprintf(all, sizeof(all), "[%.*s]", (int)r->ranks.n, r->ranks.at);

		r->ranks_level = 0;
		take_note(r, all, (size_t)n);
	}
	if (r->level == r->events_level)
		r->events_level = 0;
	if (r->level == r->device_level)
		r->device_level = 0;
	r->level--;
	return 1;
}

/* ---- the file -------------------------------------------------------------------------------- */

static enum mq_status parse(struct reader *r, yajl_handle parser, gzFile file, struct mq_err *err)
{
	unsigned char *block = mq_arena_alloc(r->trace->arena, BLOCK_B);
	double at = 0;
	int n;

	while ((n = gzread(file, block, BLOCK_B)) > 0) {
		if (yajl_parse(parser, block, (size_t)n) != yajl_status_ok)
			return mq_bad(err, "%s: not JSON near byte %.0f (unpacked)", r->trace->path,
				      at + (double)yajl_get_bytes_consumed(parser));
		at += n;
		if (at > SMALL_B && at > MOST_PACKED * (double)gzoffset(file))
			return mq_bad(
				err,
				"%s: unpacks to more than %d times its size: no trace does; unpack it (gunzip) and "
				"look at it",
				r->trace->path, MOST_PACKED);
	}
	if (n < 0)
		return mq_bad(err, "%s: cannot be unpacked after byte %.0f: is the file whole?", r->trace->path, at);
	if (yajl_complete_parse(parser) != yajl_status_ok || r->level)
		return mq_bad(err,
			      "%s: cut short after byte %.0f (unpacked): copy the whole file, or have the profiler end "
			      "before the program does",
			      r->trace->path, at);
	return MQ_OK;
}

enum mq_status mq_kineto_read(struct mq_trace *trace, struct mq_err *err)
{
	static const yajl_callbacks calls = { .yajl_number = on_number,
					      .yajl_string = on_string,
					      .yajl_start_map = on_map,
					      .yajl_map_key = on_key,
					      .yajl_end_map = on_map_end,
					      .yajl_start_array = on_array,
					      .yajl_end_array = on_array_end };
	struct reader *r = mq_arena_array(trace->arena, 1, struct reader);
	gzFile file = gzopen(trace->path, "rb");

	if (!file)
		return mq_bad(err, "%s: cannot open the trace: %s", trace->path, strerror(errno));
	r->trace = trace;
	mq_map_init(&r->shapes, trace->arena, 256);
	gzbuffer(file, BLOCK_B);
	yajl_handle parser = yajl_alloc(&calls, NULL, r);
	yajl_config(parser, yajl_dont_validate_strings, 1);
	enum mq_status status = parse(r, parser, file, err);
	yajl_free(parser);
	gzclose(file);
	return status;
}
