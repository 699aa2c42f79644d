/* against.c - `validate DIR --against TRACE...`: a real step, as its trace tells it, beside the predicted one of the
 * best plan, class by class.
 *
 * The rank of a trace is the plan's device of that number. Several traces: means over them. In a prediction the host's
 * lateness is in the kernels that wait for it, so idle time is compared as a whole. Where a trace has no starts, what
 * is exposed and idle is left out. The comparison assumes that the plan is the one
 * that was run; this is not checked. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/validate/against.h"
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

/* A task's time goes to its kernels as they cost alone. */
static void add_work(const struct mq_device_calib *d, const struct mq_work *work, double seconds, double *share)
{
	double sum = 0;

	for (uint32_t i = 0; i < work->n_kernels; i++)
		sum += mq_cost_kernel(d, &work->kernel[i]);
	for (uint32_t i = 0; sum > 0 && i < work->n_kernels; i++)
		share[class_of(&work->kernel[i])] += seconds * mq_cost_kernel(d, &work->kernel[i]) / sum;
}

static void add_predicted(const struct mq_validated *p, uint32_t device, struct mq_arena *arena, double *share)
{
	const struct mq_schedule *s = p->schedule;
	const struct mq_cluster *cluster = p->session->cluster;
	const struct mq_device_calib *d = &p->session->calib->device[cluster->device[s->device[device]].calib];
	const double *exposed = mq_timeline_exposed(s, &p->predicted, arena);
	double busy = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		double seconds = p->predicted.finish_s[i] - p->predicted.start_s[i];

		if (t->device != device)
			continue;
		if (t->kind == MQ_TASK_COMPUTE) {
			add_work(d, &s->work[t->work], seconds, share);
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

enum { MAX_LINES = MQ_N_CLASSES };

/* Classes that both have nothing of are left out. */
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

static enum mq_status write_lines(const struct line *line, uint32_t n, const char *dir, struct mq_arena *arena,
				  struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_table_create(&w, MQ_TABLE_against, dir, arena, err));
	for (uint32_t i = 0; i < n; i++)
		mq_csv_row(&w, "%s,%g,%g", line[i].name, line[i].predicted_s, line[i].measured_s);
	return mq_csv_close(&w, err);
}

/* Collectives are in their exposed part and the step in all: neither is a cause. */
static void print_lines(const struct line *line, uint32_t n, const double *measured)
{
	uint32_t worst = MQ_NONE;

	printf("%-22s %14s %14s %8s\n", "per step", "predicted", "measured", "ratio");
	for (uint32_t i = 0; i < n; i++) {
		bool whole = !strcmp(line[i].name, "step") || !strcmp(line[i].name, "collectives");

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

enum mq_status mq_validation_against(struct mq_validation *v, const char *const *path, uint32_t n, const char *dir,
				     struct mq_err *err)
{
	struct mq_traces traces;
	struct mq_validated *p = &v->plan[0];
	double predicted[MQ_N_CLASSES] = { 0 }, measured[MQ_N_CLASSES] = { 0 };
	struct line line[MAX_LINES];
	bool untimed = false;

	MQ_TRY(mq_traces_load(path, n, mq_arena_printf(&v->arena, "%s/calls.csv", dir), &v->arena, &traces, err));
	MQ_TRY(mq_validation_predict(p->schedule, p->session->cluster, p->session->calib, &v->arena, &p->predicted,
				     err));
	for (uint32_t i = 0; i < n; i++) {
		const struct mq_trace *t = &traces.trace[i];
		uint32_t device = mq_against_device(t);
		struct mq_trace_shares shares;

		if (device >= p->schedule->n_devices)
			return mq_fail(err, MQ_EINPUT,
				       "%s is of rank %u, the plan has %u devices: search with as many as were run",
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
	print_lines(line, n_lines, measured);
	MQ_TRY(write_lines(line, n_lines, dir, &v->arena, err));
	MQ_TRY(mq_against_calls(p, &traces, dir, &v->arena, err));
	return mq_against_layers(p, &traces, dir, &v->arena, err);
}
