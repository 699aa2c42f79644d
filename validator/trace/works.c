/* works.c - lists GEMMs and memory-bound operators of a trace with recorded shapes (record_shapes=True), each with the
 * time of all kernels that the operator launched: a split GEMM has a kernel that adds the parts.
 *
 * Not listed: convolutions, whose output does not follow from the operands' shapes, and operators that launch kernels
 * of several kinds. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fit/fit.h"
#include "trace/trace.h"

struct sample {
	struct mq_kernel kernel;
	uint64_t key;
	double seconds;
	uint32_t order, n_kernels;
	bool mixed;
};

/* A GEMM [.., m x k] [.., k x n] from two successive operands. */
static bool gemm_of(const struct mq_trace_shape *s, uint32_t at, struct mq_kernel *k)
{
	if (at + 2 > s->n || s->dtype[at] == MQ_N_DTYPES)
		return false;
	const struct mq_tensor *a = &s->tensor[at], *b = &s->tensor[at + 1];
	uint32_t d = a->n_dims;

	if (d < 2 || b->n_dims != d || a->dim[d - 1] != b->dim[d - 2])
		return false;
	*k = (struct mq_kernel){ .op = MQ_NONE,
				 .kind = MQ_KERNEL_GEMM,
				 .dtype = s->dtype[at],
				 .m = a->dim[d - 2],
				 .n = b->dim[d - 1],
				 .k = a->dim[d - 1],
				 .count = d > 2 ? a->dim[0] : 1,
				 .launches = 1 };
	k->flop = 2 * k->m * k->n * k->k * k->count;
	k->bytes = (k->m * k->k + k->k * k->n + k->m * k->n) * k->count * mq_dtype_size((enum mq_dtype)k->dtype);
	return k->flop > 0;
}

/* An operator whose result has the size of its largest operand, all read and written once. */
static bool sweep_of(const char *name, const struct mq_trace_shape *s, struct mq_kernel *k)
{
	static const char *const names[] = { "add",       "add_",       "sub",     "mul",  "mul_",  "div",
					     "div_",      "relu",       "relu_",   "gelu", "silu",  "tanh",
					     "clamp_min", "clamp_min_", "sigmoid", "neg",  "copy_", NULL };
	bool in_place = *name && name[strlen(name) - 1] == '_', known = false;
	double bytes = 0, most = 0;

	for (const char *const *n = names; *n; n++)
		known |= !strcmp(name, *n);
	for (uint32_t i = 0; known && i < s->n; i++) {
		double size_B = mq_tensor_elements(&s->tensor[i]) * s->size_B[i];

		/* A copy only writes its first operand. */
		if (i || strcmp(name, "copy_"))
			bytes += size_B;
		most = fmax(most, size_B);
	}
	bytes += in_place ? s->size_B[0] * mq_tensor_elements(&s->tensor[0]) : most;
	*k = (struct mq_kernel){
		.op = MQ_NONE, .kind = MQ_KERNEL_MEMORY, .dtype = MQ_FP32, .count = 1, .launches = 1, .bytes = bytes
	};
	return known && most > 0;
}

static bool kernel_of(const struct mq_trace *t, const struct mq_event *op, struct mq_kernel *k)
{
	const struct mq_trace_shape *s = op->shape == MQ_NONE ? NULL : &t->shape[op->shape];
	const char *name = strncmp(op->name, "aten::", 6) ? NULL : op->name + 6;

	if (!s || !name)
		return false;
	if (!strcmp(name, "mm") || !strcmp(name, "bmm"))
		return gemm_of(s, 0, k);
	if (!strcmp(name, "addmm") || !strcmp(name, "baddbmm"))
		return gemm_of(s, 1, k);
	return sweep_of(name, s, k);
}

/* Adds a kernel to a sample; a GEMM of fp32 operands on tensor cores is tf32. */
static void add_kernel(struct sample *s, const struct mq_event *e)
{
	bool gemm = mq_trace_class_of(e->name, NULL) == MQ_CLASS_GEMM;

	s->seconds += 1e-6 * e->dur_us;
	s->n_kernels++;
	s->mixed |= gemm != (s->kernel.kind == MQ_KERNEL_GEMM);
	if (s->kernel.kind == MQ_KERNEL_GEMM && s->kernel.dtype == MQ_FP32 &&
	    (strcasestr(e->name, "tf32") || strstr(e->name, "s1688") || strstr(e->name, "s16816")))
		s->kernel.dtype = MQ_TF32;
}

MQ_COMPARE(by_key, struct sample, MQ_ORDER(a->key, b->key) ?: MQ_ORDER(a->order, b->order))

struct list {
	struct sample *sample;
	uint32_t n, room;
};

static void add_trace(const struct mq_trace *t, struct mq_arena *arena, struct list *list, uint64_t *without)
{
	struct mq_map ops;
	uint32_t *sample = NULL, n = 0, room = 0, first = list->n;

	mq_map_init(&ops, arena, 1024);
	for (uint32_t i = 0; i < t->n; i++) {
		struct sample s = { .order = i };

		if (t->event[i].kind != MQ_EVENT_OP || !t->event[i].external ||
		    !kernel_of(t, &t->event[i], &s.kernel) || mq_map_add(&ops, t->event[i].external) != n)
			continue;
		MQ_PUSH(arena, sample, n, room, list->n);
		MQ_PUSH(arena, list->sample, list->n, list->room, s);
	}
	for (uint32_t i = 0; i < t->n; i++) {
		const struct mq_event *e = &t->event[i];
		uint32_t at = e->external ? mq_map_find(&ops, e->external) : MQ_NONE;

		if (e->kind != MQ_EVENT_KERNEL)
			continue;
		if (at == MQ_NONE)
			++*without;
		else
			add_kernel(&list->sample[sample[at]], e);
	}
	for (uint32_t i = first; i < list->n; i++) {
		struct sample *s = &list->sample[i];
		double what[] = { s->kernel.kind, s->kernel.dtype, s->kernel.m,    s->kernel.n,
				  s->kernel.k,    s->kernel.count, s->kernel.bytes };

		s->key = s->mixed || !s->n_kernels ? 0 : mq_hash(MQ_HASH_INIT, what, sizeof(what)) | 1;
		s->order = i;
	}
}

static double size_of(const struct mq_trace_work *w)
{
	return w->kernel.flop + w->kernel.bytes;
}

MQ_COMPARE(by_size, struct mq_trace_work,
	   MQ_ORDER(a->kernel.kind, b->kernel.kind) ?:
		   MQ_ORDER(size_of(a), size_of(b)) ?:
						      MQ_ORDER(a->kernel.m, b->kernel.m))

enum mq_status mq_trace_works(const struct mq_trace *const *trace, uint32_t n_traces, struct mq_arena *arena,
			      struct mq_trace_work **work, uint32_t *n, uint64_t *without, struct mq_err *err)
{
	struct list list = { 0 };
	uint32_t room = 0;

	*work = NULL;
	*n = 0;
	*without = 0;
	for (uint32_t t = 0; t < n_traces; t++)
		add_trace(trace[t], arena, &list, without);
	if (!list.n)
		return MQ_OK;
	qsort(list.sample, list.n, sizeof(*list.sample), by_key);
	double *time = mq_arena_array(arena, list.n, double);
	for (uint32_t i = 0, last; i < list.n; i = last) {
		for (last = i; last < list.n && list.sample[last].key == list.sample[i].key; last++)
			time[last - i] = list.sample[last].seconds;
		if (!list.sample[i].key)
			continue;
		struct mq_median m = mq_median_of(time, last - i);
		struct mq_trace_work w = { list.sample[i].kernel, last - i, m.median, m.low, m.high };
		MQ_PUSH(arena, *work, *n, room, w);
	}
	if (*n)
		qsort(*work, *n, sizeof(**work), by_size);
	return MQ_OK;
}
