/* against.c - `validate DIR --against TRACE...`: compares the trace of a real step with the predicted step of the best
 * plan, class by class.
 *
 * Rank n of a trace is device n of the plan. Several traces are averaged. Predicted kernels include the time in which
 * they wait for the host, so idle time is compared as a whole. Traces without start times have no exposed and idle
 * time. Communicators match by their ranks if all calls have them, else by size; layers by number. The comparison
 * assumes, without a check, that the plan is the one that ran. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/validate/plans.h"
#include "cmd/validate/traces.h"
#include "maquette/cost.h"
#include "schedule/columns.h"

static enum mq_trace_class class_of(const struct mq_kernel *k)
{
	switch ((enum mq_kernel_kind)k->kind) {
	case MQ_KERNEL_GEMM:
	case MQ_KERNEL_RECURRENT:
		return MQ_CLASS_GEMM;
	case MQ_KERNEL_CONV:
		return MQ_CLASS_CONV;
	case MQ_KERNEL_ATTENTION:
		return MQ_CLASS_ATTENTION;
	case MQ_KERNEL_OPTIMIZER:
	case MQ_KERNEL_HOST_UPDATE:
		return MQ_CLASS_OPTIMIZER;
	default:
		return MQ_CLASS_ELEMENTWISE;
	}
}

/* Divides a task's time among its kernels in proportion to their times alone; seconds. */
static const double *times_of(const struct mq_validated *p, uint32_t task, struct mq_arena *arena)
{
	const struct mq_schedule *s = p->schedule;
	const struct mq_work *w = &s->work[s->task[task].work];
	uint32_t device = s->device[s->task[task].device];
	const struct mq_device_calib *d = &p->session->calib->device[p->session->cluster->device[device].calib];
	double *seconds = mq_arena_array(arena, w->n_kernels + 1, double), sum = 0;

	for (uint32_t k = 0; k < w->n_kernels; k++)
		sum += seconds[k] = mq_cost_kernel(d, &w->kernel[k]);
	for (uint32_t k = 0; sum > 0 && k < w->n_kernels; k++)
		seconds[k] *= (p->predicted.finish_s[task] - p->predicted.start_s[task]) / sum;
	return seconds;
}

static void add_predicted(const struct mq_validated *p, uint32_t device, struct mq_arena *arena, double *share)
{
	const struct mq_schedule *s = p->schedule;
	const double *exposed = mq_timeline_exposed(s, &p->predicted, arena);
	double busy = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		double seconds = p->predicted.finish_s[i] - p->predicted.start_s[i];

		if (t->device != device)
			continue;
		if (t->kind == MQ_TASK_COMPUTE) {
			const double *kernel_s = times_of(p, i, arena);

			for (uint32_t k = 0; k < s->work[t->work].n_kernels; k++)
				share[class_of(&s->work[t->work].kernel[k])] += kernel_s[k];
			busy += seconds;
			continue;
		}
		share[t->kind == MQ_TASK_COPY ? MQ_CLASS_COPY : MQ_CLASS_COMM] += seconds;
		share[MQ_CLASS_EXPOSED] += exposed[i];
		busy += exposed[i];
	}
	share[MQ_CLASS_IDLE_WAIT] += fmax(0, p->predicted.step_time_s - busy);
	share[MQ_CLASS_STEP] += p->predicted.step_time_s;
}

struct line {
	const char *name;
	double predicted_s, measured_s;
};

/* Leaves out classes that are empty in both. */
static uint32_t lines_of(const double *predicted, const double *measured, struct line *line)
{
	uint32_t n = 0;

	for (int c = 0; c < MQ_N_CLASSES; c++) {
		struct line l = { mq_trace_class_name((enum mq_trace_class)c), predicted[c], measured[c] };

		if (c == MQ_CLASS_IDLE_WAIT)
			continue;
		if (c == MQ_CLASS_IDLE_HOST)
			l = (struct line){ "idle", predicted[MQ_CLASS_IDLE_HOST] + predicted[MQ_CLASS_IDLE_WAIT],
					   measured[MQ_CLASS_IDLE_HOST] + measured[MQ_CLASS_IDLE_WAIT] };
		if (l.predicted_s > 0 || l.measured_s > 0)
			line[n++] = l;
	}
	return n;
}

/* Collectives are in their exposed part and the step in all: neither is a cause. */
static void tell_lines(const struct line *line, uint32_t n, const double *measured, struct mq_csv_writer *w)
{
	uint32_t worst = MQ_NONE;

	printf("%-22s %14s %14s %8s\n", "per step", "predicted", "measured", "ratio");
	for (uint32_t i = 0; i < n; i++) {
		bool whole = !strcmp(line[i].name, "step") || !strcmp(line[i].name, "collectives");

		mq_csv_row(w, "%s,%g,%g", line[i].name, line[i].predicted_s, line[i].measured_s);
		printf("%-22s %11.3f ms %11.3f ms", line[i].name, 1e3 * line[i].predicted_s, 1e3 * line[i].measured_s);
		if (line[i].predicted_s > 0 && line[i].measured_s > 0)
			printf(" %8.3f", line[i].predicted_s / line[i].measured_s);
		putchar('\n');
		if (!whole && (worst == MQ_NONE || fabs(line[i].predicted_s - line[i].measured_s) >
							   fabs(line[worst].predicted_s - line[worst].measured_s)))
			worst = i;
	}
	if (measured[MQ_CLASS_STEP] > 0)
		printf("of the idle time measured, %.3f ms are a host late with its launches\n",
		       1e3 * measured[MQ_CLASS_IDLE_HOST]);
	if (worst != MQ_NONE)
		printf("most is off in %s: %.3f ms predicted, %.3f ms measured\n", line[worst].name,
		       1e3 * line[worst].predicted_s, 1e3 * line[worst].measured_s);
}

static uint32_t device_of(const struct mq_trace *trace)
{
	return trace->rank == MQ_NONE ? 0 : trace->rank;
}

/* ---- communicators --------------------------------------------------------------------------- */

struct row {
	const char *members; /* "0-4"; NULL: some call lacks them */
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
	/* Messages are between pairs, whatever group the trace gives. */
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
	struct mq_trace_list steps = mq_trace_of_kind(t, MQ_EVENT_STEP, table->arena);
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

static void add_calls(struct table *table, const struct mq_validated *p, uint32_t device, double share)
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

static enum mq_status against_calls(const struct mq_validated *p, const struct mq_traces *traces, const char *dir,
				    struct mq_arena *arena, struct mq_err *err)
{
	struct table table = { .arena = arena, .by_members = all_tell_members(traces, arena) };
	struct mq_csv_writer w;

	MQ_TRY(mq_table_create(&w, MQ_TABLE_against_calls, dir, arena, err));
	for (uint32_t i = 0; i < traces->n; i++) {
		add_calls(&table, p, device_of(&traces->trace[i]), 1.0 / traces->n);
		add_measured(&table, traces, i);
	}
	if (table.n)
		printf("%-14s %-15s %31s   %31s %13s\n", "communicator", "per step", "predicted calls, MB, ms",
		       "measured calls, MB, ms", "no waiting");
	for (uint32_t i = 0; i < table.n; i++) {
		const struct row *r = &table.row[i];
		const char *kind = mq_trace_call_name(r->kind);
		const char *name = r->kind == MQ_TRACE_SENDRECV ? "messages" :
				   r->members                   ? mq_arena_printf(arena, "ranks %s", r->members) :
				   r->ranks                     ? mq_arena_printf(arena, "%u ranks", r->ranks) :
								  "not told";

		printf("%-14s %-15s %8.1f %10.3f %11.3f   %8.1f %10.3f %11.3f %10.3f ms\n", name, kind, r->predicted_n,
		       1e-6 * r->predicted_B, 1e3 * r->predicted_s, r->measured_n, 1e-6 * r->measured_B,
		       1e3 * r->measured_s, 1e3 * r->alone_s);
		mq_csv_row(&w, "%s,%s,%g,%g,%g,%g,%g,%g,%g", name, kind, r->predicted_n, r->predicted_B, r->predicted_s,
			   r->measured_n, r->measured_B, r->measured_s, r->alone_s);
	}
	return mq_csv_close(&w, err);
}

/* ---- layers ---------------------------------------------------------------------------------- */

static void add_forward(const struct mq_validated *p, uint32_t device, double share, struct mq_arena *arena,
			double *seconds, uint32_t n)
{
	const struct mq_schedule *s = p->schedule;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		if (s->task[i].kind != MQ_TASK_COMPUTE || s->task[i].device != device)
			continue;
		const struct mq_work *w = &s->work[s->task[i].work];
		const double *kernel_s = times_of(p, i, arena);

		for (uint32_t k = 0; k < w->n_kernels; k++) {
			const struct mq_kernel *kernel = &w->kernel[k];
			uint32_t layer = kernel->op < s->n_ops ? mq_trace_layer(s->op_name[kernel->op]) : MQ_NONE;

			if (kernel->phase == MQ_FORWARD && layer < n)
				seconds[layer] += share * kernel_s[k];
		}
	}
}

static enum mq_status against_layers(const struct mq_validated *p, const struct mq_traces *traces, const char *dir,
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
		add_forward(p, device_of(&traces->trace[i]), 1.0 / traces->n, arena, said, n);
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

/* ---- comparison -------------------------------------------------------------------------------- */

enum mq_status mq_validation_against(struct mq_validation *v, const char *const *path, uint32_t n, const char *dir,
				     struct mq_err *err)
{
	struct mq_traces traces;
	struct mq_validated *p = &v->plan[0];
	double predicted[MQ_N_CLASSES] = { 0 }, measured[MQ_N_CLASSES] = { 0 };
	struct line line[MQ_N_CLASSES];
	bool untimed = false;

	MQ_TRY(mq_traces_load(path, n, mq_arena_printf(&v->arena, "%s/calls.csv", dir), &v->arena, &traces, err));
	MQ_TRY(mq_validation_predict(p->schedule, p->session->cluster, p->session->calib, &v->arena, &p->predicted,
				     err));
	for (uint32_t i = 0; i < n; i++) {
		const struct mq_trace *t = &traces.trace[i];
		uint32_t device = device_of(t);
		struct mq_trace_shares shares;

		if (device >= p->schedule->n_devices)
			return mq_bad(err, "%s is of rank %u, the plan has %u devices: search with as many as were run",
				      t->path, device, p->schedule->n_devices);
		mq_trace_shares(t, &v->arena, &shares);
		if (!shares.marked)
			printf("%s: no steps are marked: the whole trace counts as one\n", t->path);
		untimed |= t->untimed;
		add_predicted(p, device, &v->arena, predicted);
		for (int c = 0; c < MQ_N_CLASSES; c++)
			measured[c] += shares.share_s[c];
	}
	for (int c = 0; c < MQ_N_CLASSES; c++) {
		predicted[c] /= n;
		measured[c] /= n;
	}
	if (untimed) {
		puts("durations are told and starts are not: exposed communication, idle time and the step are left out");
		for (int c = MQ_CLASS_EXPOSED; c < MQ_N_CLASSES; c++)
			predicted[c] = measured[c] = 0;
	}
	uint32_t n_lines = lines_of(predicted, measured, line);
	printf("plan: %s\n", p->plan_text);
	struct mq_csv_writer w;
	MQ_TRY(mq_table_create(&w, MQ_TABLE_against, dir, &v->arena, err));
	tell_lines(line, n_lines, measured, &w);
	MQ_TRY(mq_csv_close(&w, err));
	MQ_TRY(against_calls(p, &traces, dir, &v->arena, err));
	return against_layers(p, &traces, dir, &v->arena, err);
}
