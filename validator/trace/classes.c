/* classes.c - breakdown of a trace's step: kernels by class, exposed communication, and idle time of the device,
 * because the host launched late or for another reason.
 *
 * A kernel's class comes from its name, an optimizer's from the range of its launch. The program's marks delimit steps;
 * the device lags behind the host by a time that is common to several steps. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "fit/fit.h"
#include "trace/trace.h"

MQ_NAMES(mq_trace_class_name, enum mq_trace_class, MQ_N_CLASSES, "matrix products", "convolutions", "attention",
	 "element-wise", "optimizer", "copies", "collectives", "exposed communication", "idle: host late",
	 "idle: waiting", "step")

enum mq_trace_class mq_trace_class_of(const char *kernel, const char *op)
{
	/* The first row with a word of the name counts. */
	static const struct {
		enum mq_trace_class class;
		const char *words[12];
	} known[] = {
		{ MQ_CLASS_COMM, { "nccl", "rccl" } },
		{ MQ_CLASS_OPTIMIZER, { "multi_tensor_apply", "adam", "lamb", "_sgd" } },
		{ MQ_CLASS_ATTENTION, { "fmha", "flash", "attention" } },
		{ MQ_CLASS_CONV,
		  { "fprop", "dgrad", "wgrad", "convolve", "winograd", "implicit_gemm", "scudnn", "conv2d", "conv3d",
		    "conv1d", "depthwise" } },
		{ MQ_CLASS_GEMM,
		  { "gemm", "gemv", "cutlass", "cublas", "wgmma", "nvjet", "xmma", "splitKreduce", "matmul" } },
	};
	enum mq_trace_class class = MQ_CLASS_ELEMENTWISE;

	for (size_t i = 0; i < sizeof(known) / sizeof(*known) && class == MQ_CLASS_ELEMENTWISE; i++)
		for (const char *const *word = known[i].words; *word; word++)
			if (strcasestr(kernel, *word))
				class = known[i].class;
	if (class != MQ_CLASS_COMM && op && strstr(op, "Optimizer.step"))
		return MQ_CLASS_OPTIMIZER;
	/* Some convolutions run as kernels with a GEMM's name. */
	return class == MQ_CLASS_GEMM && op && strstr(op, "convolution") ? MQ_CLASS_CONV : class;
}

struct launches {
	struct mq_trace_named all, ops;
	struct mq_trace_list range; /* of optimizers' steps */
};

static struct launches find_launches(const struct mq_trace *t, struct mq_arena *arena)
{
	struct launches l = { 0 };

	mq_trace_name(&l.all, t, MQ_EVENT_LAUNCH, arena);
	mq_trace_name(&l.ops, t, MQ_EVENT_OP, arena);
	for (uint32_t i = 0; i < t->n; i++)
		if (t->event[i].kind == MQ_EVENT_OP && strstr(t->event[i].name, "Optimizer.step"))
			MQ_PUSH(arena, l.range.event, l.range.n, l.range.room, i);
	return l;
}

static enum mq_trace_class class_of(const struct mq_trace *t, const struct launches *l, const struct mq_event *e,
				    const struct mq_event *launch)
{
	const struct mq_event *named = mq_trace_of_name(&l->ops, e);
	const char *op = named ? named->name : NULL;

	if (e->kind == MQ_EVENT_COPY)
		return MQ_CLASS_COPY;
	for (uint32_t i = 0; launch && i < l->range.n; i++) {
		const struct mq_event *r = &t->event[l->range.event[i]];

		if (r->thread == launch->thread && mq_trace_holds(r, launch))
			op = r->name;
	}
	return mq_trace_class_of(e->name, op);
}

struct sweep {
	double busy_us, compute_us, comm_us; /* end of each so far */
	double *share;                       /* [MQ_N_CLASSES] us */
};

/* Adds an event, in order of start. Communication is exposed while nothing else runs; a later event that overlaps it
 * reduces its exposed time. */
static void add_event(struct sweep *s, enum mq_trace_class class, double from, double to, const struct mq_event *launch)
{
	s->share[class] += to - from;
	if (from > s->busy_us) {
		double late = launch ?
				      fmin(fmax(launch->start_us + launch->dur_us - s->busy_us, 0), from - s->busy_us) :
				      from - s->busy_us;

		s->share[MQ_CLASS_IDLE_HOST] += late;
		s->share[MQ_CLASS_IDLE_WAIT] += from - s->busy_us - late;
	}
	s->busy_us = fmax(s->busy_us, to);
	if (class == MQ_CLASS_COMM) {
		double begin = fmax(from, fmax(s->compute_us, s->comm_us));

		s->share[MQ_CLASS_EXPOSED] += fmax(0, to - begin);
		s->comm_us = fmax(s->comm_us, to);
		return;
	}
	double begin = fmax(from, s->compute_us);
	s->share[MQ_CLASS_EXPOSED] -= fmax(0, fmin(to, s->comm_us) - begin);
	s->compute_us = fmax(s->compute_us, to);
}

/* Sums a step; false: the device is idle in it. */
static bool sum_step(const struct mq_trace *t, const struct launches *l, double from, double to, double *share)
{
	struct sweep s = { from, from, from, share };
	uint32_t device = MQ_NONE;

	memset(share, 0, MQ_N_CLASSES * sizeof(*share));
	for (uint32_t i = 0; i < t->n; i++) {
		const struct mq_event *e = &t->event[i];
		double begin = fmax(e->start_us, from), end = fmin(e->start_us + e->dur_us, to);

		if ((e->kind != MQ_EVENT_KERNEL && e->kind != MQ_EVENT_COPY) || end <= begin)
			continue;
		if (device == MQ_NONE)
			device = e->device;
		if (e->device != device)
			continue;
		const struct mq_event *launch = mq_trace_of_name(&l->all, e);
		add_event(&s, class_of(t, l, e, launch), begin, end, launch);
	}
	share[MQ_CLASS_IDLE_WAIT] += to - s.busy_us;
	share[MQ_CLASS_STEP] = to - from;
	return s.busy_us > from;
}

void mq_trace_shares(const struct mq_trace *t, struct mq_arena *arena, struct mq_trace_shares *out)
{
	struct launches l = find_launches(t, arena);
	double first = INFINITY, last = -INFINITY;
	uint32_t n = 0, room = mq_trace_of_kind(t, MQ_EVENT_STEP, arena).n + 1;
	double *value = mq_arena_array(arena, (size_t)room * MQ_N_CLASSES, double);
	double *one = mq_arena_array(arena, room, double);
	*out = (struct mq_trace_shares){ 0 };
	for (uint32_t i = 0; i < t->n; i++) {
		const struct mq_event *e = &t->event[i];

		if (e->kind == MQ_EVENT_KERNEL || e->kind == MQ_EVENT_COPY) {
			first = fmin(first, e->start_us);
			last = fmax(last, e->start_us + e->dur_us);
		}
		if (e->kind == MQ_EVENT_STEP)
			n += sum_step(t, &l, e->start_us, e->start_us + e->dur_us, value + (size_t)n * MQ_N_CLASSES);
	}
	out->marked = n > 0;
	if (!n)
		n += sum_step(t, &l, first, last, value);
	for (int c = 0; c < MQ_N_CLASSES && n; c++) {
		for (uint32_t i = 0; i < n; i++)
			one[i] = value[(size_t)i * MQ_N_CLASSES + c];
		out->share_s[c] = 1e-6 * mq_quantile(one, n, .5);
	}
}

/* ---- forward time of layers, if the program named ranges after them --------------------------------
 *
 * A kernel belongs to the innermost range around its launch, on the launching thread. The backward pass runs on another
 * thread, outside these ranges, and is not attributed. Collectives are not counted. */

enum { LOOK_BACK = 256, MOST_LAYERS = 4096 };

/* The ranges of layers. */
static struct mq_trace_list ranges(const struct mq_trace *t, struct mq_arena *arena)
{
	struct mq_trace_list list = { 0 };

	for (uint32_t i = 0; i < t->n; i++) {
		const struct mq_event *e = &t->event[i];

		if (e->kind == MQ_EVENT_LAYER && !strcasestr(e->name, "backward") && !strcasestr(e->name, "bwd") &&
		    mq_trace_layer(e->name) < MOST_LAYERS)
			MQ_PUSH(arena, list.event, list.n, list.room, i);
	}
	return list;
}

/* The latest range around a launch; events are sorted by start. */
static const struct mq_event *innermost(const struct mq_trace *t, const struct mq_trace_list *range,
					const struct mq_event *launch)
{
	uint32_t low = mq_trace_begun(t, range, launch->start_us);

	for (uint32_t back = 0; low-- > 0 && back < LOOK_BACK; back++) {
		const struct mq_event *e = &t->event[range->event[low]];

		if (e->thread == launch->thread && mq_trace_holds(e, launch))
			return e;
	}
	return NULL;
}

uint32_t mq_trace_layers(const struct mq_trace *t, struct mq_arena *arena, double **forward_s)
{
	struct mq_trace_list range = ranges(t, arena), steps = mq_trace_of_kind(t, MQ_EVENT_STEP, arena);
	struct mq_trace_named launches;
	uint32_t n = 0;

	mq_trace_name(&launches, t, MQ_EVENT_LAUNCH, arena);
	for (uint32_t i = 0; i < range.n; i++) {
		uint32_t layer = mq_trace_layer(t->event[range.event[i]].name);

		n = layer + 1 > n ? layer + 1 : n;
	}
	*forward_s = mq_arena_array(arena, n ? n : 1, double);
	for (uint32_t i = 0; n && i < t->n; i++) {
		const struct mq_event *e = &t->event[i];
		const struct mq_event *launch = e->kind == MQ_EVENT_KERNEL ? mq_trace_of_name(&launches, e) : NULL;

		if (!launch || mq_trace_class_of(e->name, NULL) == MQ_CLASS_COMM ||
		    !mq_trace_in_step(t, &steps, launch))
			continue;
		const struct mq_event *in = innermost(t, &range, launch);
		if (in)
			(*forward_s)[mq_trace_layer(in->name)] += 1e-6 * e->dur_us / fmax(steps.n, 1);
	}
	return n;
}
