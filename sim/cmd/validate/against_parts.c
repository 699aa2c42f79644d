/* against_parts.c - see against.h. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/validate/against.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "maquette/cost.h"
#include "schedule/columns.h"

uint32_t mq_against_device(const struct mq_trace *trace)
{
	return trace->rank == MQ_NONE ? 0 : trace->rank;
}

/* ---- communicators --------------------------------------------------------------------------- */

struct row {
	const char *members; /* "0-4", or NULL: not told by all */
	uint32_t ranks, kind;
	double predicted_n, predicted_B, predicted_s;
	double measured_n, measured_B, measured_s, alone_s;
};

struct table {
	struct row *row;
	uint32_t n, room;
	struct mq_arena *arena;
	bool by_members;
};

static struct row *row_of(struct table *t, const char *members, uint32_t ranks, uint32_t kind)
{
	/* Messages are of pairs, whatever the group that they are told of. */
	if (kind == MQ_TRACE_SENDRECV) {
		members = NULL;
		ranks = 2;
	}
	for (uint32_t i = 0; i < t->n; i++)
		if (t->row[i].kind == kind && t->row[i].ranks == ranks &&
		    (members ? t->row[i].members && !strcmp(members, t->row[i].members) : !t->row[i].members))
			return &t->row[i];
	struct row row = { .members = members, .ranks = ranks, .kind = kind };
	MQ_PUSH(t->arena, t->row, t->n, t->room, row);
	return &t->row[t->n - 1];
}

MQ_COMPARE(by_number, uint32_t, MQ_ORDER(*a, *b))

static const char *text_of(uint32_t *rank, uint32_t n, struct mq_arena *arena)
{
	const char *text = "";

	qsort(rank, n, sizeof(*rank), by_number);
	for (uint32_t i = 0; i < n; i++)
		text = mq_arena_printf(arena, "%s%s%u", text, i ? "-" : "", rank[i]);
	return text;
}

/* "[0, 4]" -> "0-4"; NULL: no list of ranks. */
static const char *members_in(const char *group, struct mq_arena *arena)
{
	uint32_t *rank = NULL, n = 0, room = 0;

	if (!group || *group != '[')
		return NULL;
	for (const char *p = group; *p && *p != ']';) {
		char *end;
		unsigned long x = strtoul(p + 1, &end, 10);

		if (end == p + 1)
			return NULL;
		uint32_t one = (uint32_t)x;
		MQ_PUSH(arena, rank, n, room, one);
		p = end + strspn(end, " ");
	}
	return n ? text_of(rank, n, arena) : NULL;
}

static bool all_tell_members(const struct mq_traces *t, struct mq_arena *arena)
{
	for (uint32_t i = 0; i < t->n; i++)
		for (uint32_t c = 0; c < t->n_calls[i]; c++)
			if (t->call[i][c].kind != MQ_TRACE_SENDRECV && !members_in(t->call[i][c].group, arena))
				return false;
	return true;
}

static void add_measured(struct table *table, const struct mq_traces *traces, uint32_t which)
{
	const struct mq_trace *t = &traces->trace[which];
	struct mq_trace_list steps = mq_trace_steps(t, table->arena);
	double share = 1.0 / (fmax(steps.n, 1) * traces->n);

	for (uint32_t i = 0; i < traces->n_calls[which]; i++) {
		const struct mq_trace_call *c = &traces->call[which][i];

		if (!mq_trace_in_step(t, &steps, &t->event[c->event]))
			continue;
		struct row *r =
			row_of(table, table->by_members ? members_in(c->group, table->arena) : NULL, c->ranks, c->kind);
		r->measured_n += share;
		r->measured_B += share * c->bytes;
		r->measured_s += share * c->own_s;
		r->alone_s += share * c->least_s;
	}
}

static void add_predicted(struct table *table, const struct mq_validated *p, uint32_t device, double share)
{
	const struct mq_schedule *s = p->schedule;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		bool coll = t->kind == MQ_TASK_COLLECTIVE;
		const char *members = NULL;
		uint32_t ranks = 2;

		if (t->device != device || !(coll || t->kind == MQ_TASK_SEND || t->kind == MQ_TASK_RECV))
			continue;
		if (coll) {
			const struct mq_comm *comm = &s->comm[t->comm];
			uint32_t *rank = mq_arena_array(table->arena, comm->n, uint32_t);

			memcpy(rank, comm->rank, comm->n * sizeof(*rank));
			ranks = comm->n;
			members = table->by_members ? text_of(rank, ranks, table->arena) : NULL;
		}
		struct row *r = row_of(table, members, ranks, coll ? t->coll : MQ_TRACE_SENDRECV);
		r->predicted_n += share;
		r->predicted_B += share * t->bytes;
		r->predicted_s += share * (p->predicted.finish_s[i] - p->predicted.start_s[i]);
	}
}

static const char *name_of(const struct row *r, struct mq_arena *arena)
{
	return r->kind == MQ_TRACE_SENDRECV ? "messages" :
	       r->members                   ? mq_arena_printf(arena, "ranks %s", r->members) :
	       r->ranks                     ? mq_arena_printf(arena, "%u ranks", r->ranks) :
					      "not told";
}

enum mq_status mq_against_calls(const struct mq_validated *p, const struct mq_traces *traces, const char *dir,
				struct mq_arena *arena, struct mq_err *err)
{
	struct table table = { .arena = arena, .by_members = all_tell_members(traces, arena) };
	struct mq_csv_writer w;

	MQ_TRY(mq_table_create(&w, MQ_TABLE_against_calls, dir, arena, err));
	for (uint32_t i = 0; i < traces->n; i++) {
		add_predicted(&table, p, mq_against_device(&traces->trace[i]), 1.0 / traces->n);
		add_measured(&table, traces, i);
	}
	if (table.n)
		printf("%-14s %-15s %31s   %31s %13s\n", "communicator", "per step", "predicted calls, MB, ms",
		       "measured calls, MB, ms", "no waiting");
	for (uint32_t i = 0; i < table.n; i++) {
		const struct row *r = &table.row[i];
		const char *name = name_of(r, arena), *kind = mq_trace_call_name(r->kind);

		printf("%-14s %-15s %8.1f %10.3f %11.3f   %8.1f %10.3f %11.3f %10.3f ms\n", name, kind, r->predicted_n,
		       1e-6 * r->predicted_B, 1e3 * r->predicted_s, r->measured_n, 1e-6 * r->measured_B,
		       1e3 * r->measured_s, 1e3 * r->alone_s);
		mq_csv_row(&w, "%s,%s,%g,%g,%g,%g,%g,%g,%g", name, kind, r->predicted_n, r->predicted_B, r->predicted_s,
			   r->measured_n, r->measured_B, r->measured_s, r->alone_s);
	}
	return mq_csv_close(&w, err);
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* A task's time goes to its kernels as they cost alone. */
static void add_forward(const struct mq_validated *p, uint32_t device, double share, double *seconds, uint32_t n)
{
	const struct mq_schedule *s = p->schedule;
	const struct mq_device_calib *d =
		&p->session->calib->device[p->session->cluster->device[s->device[device]].calib];

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		const struct mq_work *w = t->kind == MQ_TASK_COMPUTE ? &s->work[t->work] : NULL;
		double sum = 0;

		if (!w || t->device != device)
			continue;
		for (uint32_t k = 0; k < w->n_kernels; k++)
			sum += mq_cost_kernel(d, &w->kernel[k]);
		for (uint32_t k = 0; sum > 0 && k < w->n_kernels; k++) {
			const struct mq_kernel *kernel = &w->kernel[k];
			uint32_t layer = kernel->op < s->n_ops ? mq_trace_layer(s->op_name[kernel->op]) : MQ_NONE;

			if (kernel->phase == MQ_FORWARD && layer < n)
				seconds[layer] += share * mq_cost_kernel(d, kernel) / sum *
						  (p->predicted.finish_s[i] - p->predicted.start_s[i]);
		}
	}
}

enum mq_status mq_against_layers(const struct mq_validated *p, const struct mq_traces *traces, const char *dir,
				 struct mq_arena *arena, struct mq_err *err)
{
	uint32_t n = 0, both = 0, worst = 0;
	double **measured = mq_arena_array(arena, traces->n, double *), sum[2] = { 0, 0 };
	uint32_t *count = mq_arena_array(arena, traces->n, uint32_t);

	for (uint32_t i = 0; i < traces->n; i++) {
		count[i] = mq_trace_layers(&traces->trace[i], arena, &measured[i]);
		n = count[i] > n ? count[i] : n;
	}
	if (!n)
		return MQ_OK;
	double *said = mq_arena_array(arena, n, double), *seen = mq_arena_array(arena, n, double);
	for (uint32_t i = 0; i < traces->n; i++) {
		add_forward(p, mq_against_device(&traces->trace[i]), 1.0 / traces->n, said, n);
		for (uint32_t l = 0; l < count[i]; l++)
			seen[l] += measured[i][l] / traces->n;
	}
	struct mq_csv_writer w;
	MQ_TRY(mq_table_create(&w, MQ_TABLE_against_layers, dir, arena, err));
	for (uint32_t l = 0; l < n; l++) {
		if (!(seen[l] > 0 || said[l] > 0))
			continue;
		mq_csv_row(&w, "%u,%g,%g", l, said[l], seen[l]);
		if (!(seen[l] > 0 && said[l] > 0))
			continue;
		sum[0] += said[l];
		sum[1] += seen[l];
		if (!both++ || fabs(said[l] - seen[l]) > fabs(said[worst] - seen[worst]))
			worst = l;
	}
	if (both)
		printf("%u layers, forward: %.3f ms predicted, %.3f ms measured; most off is layer %u: %.3f and %.3f ms\n",
		       both, 1e3 * sum[0], 1e3 * sum[1], worst, 1e3 * said[worst], 1e3 * seen[worst]);
	else
		printf("the trace names layers, and the model has none of their numbers\n");
	return mq_csv_close(&w, err);
}
