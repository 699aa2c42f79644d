/* calls.c - lists the collectives of a trace with their sizes.
 *
 * The data of an NCCL kernel come from its arguments, else from the note (record_param_comms, an annotation) around its
 * launch, found by the launch's correlation and thread, or by the external id. Sizes come from element counts, else
 * from the shapes of the note's operands. Bytes are counted as in nccl-tests: the output of an all-gather, the input of
 * a reduce-scatter and an all-to-all. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fit/fit.h"
#include "trace/trace.h"

const char *mq_trace_call_name(uint32_t kind)
{
	return kind < MQ_N_COLL_KINDS    ? mq_coll_name((enum mq_coll_kind)kind) :
	       kind == MQ_TRACE_SENDRECV ? "sendrecv" :
					   "other";
}

/* ---- which collective ------------------------------------------------------------------------ */

static uint32_t kind_in(const char *name)
{
	/* Longest first: "reduce" is part of two others. */
	static const struct {
		const char *name;
		uint32_t kind;
	} names[] = {
		{ "reducescatter", MQ_COLL_REDUCE_SCATTER },
		{ "allreduce", MQ_COLL_ALL_REDUCE },
		{ "allgather", MQ_COLL_ALL_GATHER },
		{ "alltoall", MQ_COLL_ALL_TO_ALL },
		{ "broadcast", MQ_COLL_BROADCAST },
		{ "sendrecv", MQ_TRACE_SENDRECV },
		{ "reduce", MQ_COLL_REDUCE },
		{ "send", MQ_TRACE_SENDRECV },
		{ "recv", MQ_TRACE_SENDRECV },
	};
	char letters[128];
	size_t n = 0;

	/* Letters only, in lower case: "_allgather_base", "all_gather_into_tensor", "ncclKernel_AllGather_RING". */
	for (; *name && *name != '(' && n + 1 < sizeof(letters); name++)
		if (*name != '_' && *name != ' ' && *name != '-')
			letters[n++] = (char)(*name >= 'A' && *name <= 'Z' ? *name + 32 : *name);
	letters[n] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strstr(letters, names[i].name))
			return names[i].kind;
	return MQ_TRACE_OTHER_CALL;
}

/* ncclKernel_AllReduce_RING_LL_Sum_float(...), ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...),
 * ncclAllReduceRingLLKernel_sum_f32(...): the type is one of the words. Kernels of calls that only move data have bytes
 * as type, which tells nothing. */
static double element_in(const char *kernel, uint32_t kind)
{
	char word[32];

	if (kind != MQ_COLL_ALL_REDUCE && kind != MQ_COLL_REDUCE && kind != MQ_COLL_REDUCE_SCATTER)
		return 0;
	for (const char *p = kernel; *p && *p != '(';) {
		size_t n = strcspn(p, "_(");
		double size_B = mq_trace_type(p, n, NULL);

		if (size_B > 0)
			return size_B;
		/* int8_t is two words. */
		if (n + 2 < sizeof(word) && !strncmp(p + n, "_t", 2)) {
			memcpy(word, p, n);
			memcpy(word + n, "_t", 3);
			size_B = mq_trace_type(word, n + 2, NULL);
			if (size_B > 0)
				return size_B;
		}
		p += n + (p[n] == '_');
	}
	return 0;
}

/* ---- notes ----------------------------------------------------------------------------------- */

struct finder {
	const struct mq_trace *trace;
	struct mq_trace_named launches, external; /* external: notes */
	struct mq_trace_list note;
};

/* Worth of a note: has it sizes, or shapes? */
static int worth(const struct mq_trace *t, const struct mq_event *e)
{
	const struct mq_trace_note *n = e->note == MQ_NONE ? NULL : &t->note[e->note];

	if (n && !isnan(n->in_n) && n->element_B > 0)
		return 3;
	if (e->shape != MQ_NONE && t->shape[e->shape].n && t->shape[e->shape].tensor[0].n_dims)
		return 2;
	return 1;
}

enum { LOOK_BACK = 256 };

/* The note of highest worth around a launch on its thread. */
static const struct mq_event *note_around(const struct finder *f, const struct mq_event *launch)
{
	const struct mq_trace *t = f->trace;
	const struct mq_event *best = NULL;
	uint32_t low = mq_trace_begun(t, &f->note, launch->start_us);

	for (uint32_t back = 0; low-- > 0 && back < LOOK_BACK; back++) {
		const struct mq_event *e = &t->event[f->note.event[low]];

		if (e->thread != launch->thread || e->start_us + e->dur_us < launch->start_us)
			continue;
		if (!best || worth(t, e) > worth(t, best))
			best = e;
	}
	return best;
}

static const struct mq_event *note_of(const struct finder *f, const struct mq_event *kernel)
{
	const struct mq_event *launch = mq_trace_of_name(&f->launches, kernel);
	const struct mq_event *around = launch ? note_around(f, launch) : NULL;
	const struct mq_event *named = mq_trace_of_name(&f->external, kernel);

	if (!around || (named && worth(f->trace, named) >= worth(f->trace, around)))
		return named;
	return around;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Elements of a call from its note's operands. NCCL's annotations and record_param_comms have the inputs: of an
 * all-gather a rank's part. The framework's operators (c10d::) also have the outputs: the whole and the part, or in
 * lists of tensors only parts. NAN: unknown number of ranks. */
static double of_shape(const struct mq_trace_shape *s, const struct mq_trace_call *c, bool both)
{
	bool gathers = c->kind == MQ_COLL_ALL_GATHER, scatters = c->kind == MQ_COLL_REDUCE_SCATTER;
	double sum = 0, most = 0, least = INFINITY, ranks = c->ranks ? c->ranks : (double)NAN;

	for (uint32_t i = 0; i < s->n; i++) {
		double n = mq_tensor_elements(&s->tensor[i]);

		sum += n;
		most = fmax(most, n);
		least = n > 0 ? fmin(least, n) : least;
	}
	if (both && (gathers || scatters))
		return most > least ? most : most * ranks;
	if (both && c->kind == MQ_COLL_ALL_TO_ALL)
		return sum / 2;
	return gathers ? sum * ranks : sum;
}

static void add_note(const struct mq_trace *t, const struct mq_event *e, struct mq_trace_call *c)
{
	const struct mq_trace_note *n = e->note == MQ_NONE ? NULL : &t->note[e->note];
	const struct mq_trace_shape *s = e->shape == MQ_NONE ? NULL : &t->shape[e->shape];
	double count = NAN;

	if (c->kind == MQ_TRACE_OTHER_CALL || c->kind == MQ_TRACE_SENDRECV) {
		/* A send/recv kernel may be an all-to-all's; a generic kernel tells nothing. */
		uint32_t told = kind_in(n && n->collective ? n->collective : e->name);

		c->kind = told != MQ_TRACE_OTHER_CALL ? told : c->kind;
	}
	if (n && n->ranks && n->ranks != MQ_NONE)
		c->ranks = n->ranks;
	if (n && n->group)
		c->group = n->group;
	if (n && n->element_B > 0)
		c->element_B = n->element_B;
	else if (!(c->element_B > 0) && s)
		c->element_B = s->size_B[0];
	if (n && !isnan(n->in_n))
		count = c->kind == MQ_COLL_ALL_GATHER || c->kind == MQ_COLL_REDUCE_SCATTER || !(n->in_n > 0) ?
				fmax(n->in_n, n->out_n) :
				n->in_n;
	else if (s)
		count = of_shape(s, c, !strncmp(e->name, "c10d::", 6));
	if (count > 0 && c->element_B > 0)
		c->bytes = count * c->element_B;
}

/* ---- the list -------------------------------------------------------------------------------- */

static uint64_t like(const struct mq_trace_call *c)
{
	uint64_t key = mq_map_mix(c->kind, (uint64_t)(isnan(c->bytes) ? 0 : c->bytes) + 1);

	return c->group ? mq_hash(key, c->group, strlen(c->group)) : key;
}

enum mq_status mq_trace_calls(const struct mq_trace *t, struct mq_arena *arena, struct mq_trace_call **call,
			      uint32_t *n, struct mq_err *err)
{
	struct finder f = { .trace = t, .note = mq_trace_of_kind(t, MQ_EVENT_NOTE, arena) };
	struct mq_map seen;
	uint32_t room = 0, *count = NULL, n_counts = 0, count_room = 0;

	mq_trace_name(&f.launches, t, MQ_EVENT_LAUNCH, arena);
	mq_trace_name(&f.external, t, MQ_EVENT_NOTE, arena);
	mq_map_init(&seen, arena, 256);
	*call = NULL;
	*n = 0;
	for (uint32_t i = 0; i < t->n; i++) {
		const struct mq_event *e = &t->event[i];

		if (e->kind != MQ_EVENT_KERNEL ||
		    !(strstr(e->name, "nccl") || strstr(e->name, "rccl") || strstr(e->name, "Nccl")))
			continue;
		struct mq_trace_call c = { .event = i,
					   .kind = kind_in(e->name),
					   .bytes = NAN,
					   .own_s = 1e-6 * e->dur_us,
					   .least_s = 1e-6 * e->dur_us };
		const struct mq_event *note = e->note != MQ_NONE ? e : note_of(&f, e);

		c.element_B = element_in(e->name, c.kind);
		c.ranks = t->world != MQ_NONE ? t->world : 0;
		if (note)
			add_note(t, note, &c);
		uint32_t at = mq_map_add(&seen, like(&c)), zero = 0;
		if (at == n_counts)
			MQ_PUSH(arena, count, n_counts, count_room, zero);
		c.index = count[at]++;
		MQ_PUSH(arena, *call, *n, room, c);
	}
	return MQ_OK;
}

uint32_t mq_trace_align(struct mq_trace_call *const *call, const uint32_t *n, uint32_t n_traces)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_map map;
	struct met {
		double least_s;
		uint32_t traces;
	} *met = NULL;
	uint32_t n_met = 0, room = 0, aligned = 0;

	mq_map_init(&map, &arena, 4096);
	for (uint32_t t = 0; t < n_traces; t++)
		for (uint32_t i = 0; i < n[t]; i++) {
			const struct mq_trace_call *c = &call[t][i];
			uint32_t at = mq_map_add(&map, mq_map_mix(like(c), c->index + 1));
			struct met first = { c->own_s, 0 };

			if (at == n_met)
				MQ_PUSH(&arena, met, n_met, room, first);
			met[at].least_s = fmin(met[at].least_s, c->own_s);
			met[at].traces++;
		}
	for (uint32_t t = 0; t < n_traces; t++)
		for (uint32_t i = 0; i < n[t]; i++) {
			struct mq_trace_call *c = &call[t][i];
			uint32_t at = mq_map_find(&map, mq_map_mix(like(c), c->index + 1));

			c->least_s = met[at].least_s;
			aligned += met[at].traces == n_traces;
		}
	return aligned;
}

/* ---- the table ------------------------------------------------------------------------------- */

static int by_row(const void *a, const void *b)
{
	const struct mq_trace_call *x = *(struct mq_trace_call *const *)a, *y = *(struct mq_trace_call *const *)b;
	double p = isnan(x->bytes) ? -1 : x->bytes, q = isnan(y->bytes) ? -1 : y->bytes;

	return MQ_ORDER(x->kind, y->kind) ?: MQ_ORDER(x->ranks, y->ranks) ?: MQ_ORDER(p, q);
}

uint32_t mq_trace_rows(struct mq_trace_call *const *call, const uint32_t *n, uint32_t n_traces, struct mq_arena *arena,
		       struct mq_trace_row **row)
{
	uint32_t total = 0, n_rows = 0, room = 0, at = 0;

	for (uint32_t t = 0; t < n_traces; t++)
		total += n[t];
	struct mq_trace_call **all = mq_arena_array(arena, total, struct mq_trace_call *);
	double *own = mq_arena_array(arena, total, double), *least = mq_arena_array(arena, total, double);
	for (uint32_t t = 0; t < n_traces; t++)
		for (uint32_t i = 0; i < n[t]; i++)
			all[at++] = &call[t][i];
	qsort(all, total, sizeof(*all), by_row);
	*row = NULL;
	for (uint32_t first = 0, last; first < total; first = last) {
		struct mq_trace_row r = { all[first]->kind, all[first]->ranks, 0, all[first]->bytes, 0, 0, 0, 0 };

		for (last = first; last < total && !by_row(&all[first], &all[last]); last++) {
			own[last - first] = all[last]->own_s;
			least[last - first] = all[last]->least_s;
		}
		r.count = last - first;
		struct mq_median m = mq_median_of(least, r.count);
		r.median_s = mq_quantile(own, r.count, .5);
		/* With one rank alone: the call that waited least. */
		r.least_median_s = n_traces > 1 ? m.median : least[0];
		r.low_s = m.low;
		r.high_s = m.high;
		MQ_PUSH(arena, *row, n_rows, room, r);
	}
	return n_rows;
}
