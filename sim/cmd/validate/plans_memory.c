/* plans_memory.c - compares predicted memory with the memory of the replay, by purpose.
 *
 * The replay allocates parameters, gradients, optimizer state and buffers as predicted: their ratio shows what the
 * allocator adds. It allocates and frees activations in schedule order: their ratio also shows whether the number of
 * micro-batches in flight is right. The reserve (context, libraries, communicators) is compared with the replay's
 * process without its pools of operands; a framework takes more, so the compared peak excludes it. A replay has no
 * fragmentation, unlike a framework's allocator. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/validate/plans.h"
#include "schedule/columns.h"
#include "trace/trace.h"

enum {
	N_FIELDS = sizeof(struct mq_held_bytes) / sizeof(double),
	TENSORS = 4, /* the first purposes: tensors of the plan */
	PURPOSES = 6
};

static const char *const field[N_FIELDS] = { "process", "parameters", "gradients", "optimizer", "peak", "full" };

/* ---- reading --------------------------------------------------------------------------------- */

static void take_row(struct mq_validation *v, const struct mq_csv *csv, uint32_t row)
{
	struct mq_validated *p = NULL;
	const char *device = mq_csv_word(csv, row, "device");
	const char *purpose = mq_csv_word(csv, row, "purpose");
	double bytes;

	for (uint32_t i = 0; i < v->n_plans && !p; i++)
		p = strcmp(v->plan[i].name, mq_csv_word(csv, row, "schedule")) ? NULL : &v->plan[i];
	if (!p || !mq_csv_f64(csv, row, mq_csv_column(csv, "bytes"), NAN, &bytes))
		return;
	if (!p->held) {
		p->held = mq_arena_array(&v->arena, p->schedule->n_devices, struct mq_held_bytes);
		for (uint32_t d = 0; d < p->schedule->n_devices; d++)
			for (int f = 0; f < N_FIELDS; f++)
				((double *)&p->held[d])[f] = INFINITY;
	}
	for (uint32_t d = 0; d < p->schedule->n_devices; d++)
		for (int f = 0; f < N_FIELDS && !strcmp(p->schedule->device_name[d], device); f++)
			if (!strcmp(field[f], purpose))
				((double *)&p->held[d])[f] = fmin(((double *)&p->held[d])[f], bytes);
}

static enum mq_status read_file(struct mq_validation *v, const char *path, struct mq_err *err)
{
	static const char *const needed[] = { "schedule", "device", "purpose", "bytes" };
	MQ_SCOPED struct mq_arena own = MQ_ARENA_INIT;
	struct mq_csv csv;

	MQ_TRY(mq_csv_load(path, &own, &csv, err));
	for (int i = 0; i < 4; i++)
		if (mq_csv_column(&csv, needed[i]) == UINT32_MAX)
			return mq_bad(err, "%s: the columns schedule, device, purpose and bytes are needed", path);
	for (uint32_t row = 0; row < csv.n_rows; row++)
		take_row(v, &csv, row);
	return MQ_OK;
}

enum mq_status mq_validation_read_memory(struct mq_validation *v, const char *samples, struct mq_err *err)
{
	uint32_t n = 0, m = 0;
	const char **launch = mq_folder_names(samples, "launch-", "", &v->arena, &n);

	for (uint32_t l = 0; l < n; l++) {
		const char *dir = mq_arena_printf(&v->arena, "%s/%s", samples, launch[l]);
		const char **file = mq_folder_names(dir, "", "memory.csv", &v->arena, &m);

		for (uint32_t f = 0; f < m; f++)
			MQ_TRY(read_file(v, mq_arena_printf(&v->arena, "%s/%s", dir, file[f]), err));
	}
	return MQ_OK;
}

/* ---- comparing ------------------------------------------------------------------------------- */

struct pair {
	const char *purpose;
	double predicted_B, measured_B; /* measured: NaN = not comparable */
};

static void pairs_of(const struct mq_validated *p, uint32_t d, struct pair pair[PURPOSES])
{
	const struct mq_memory *said = &p->memory[d];
	const struct mq_held_bytes *seen = &p->held[d];

	pair[0] = (struct pair){ "parameters", said->parameter_B, seen->parameters };
	pair[1] = (struct pair){ "gradients", said->gradient_B, seen->gradients };
	pair[2] = (struct pair){ "optimizer", said->optimizer_B, seen->optimizer };
	pair[3] = (struct pair){ "activations and buffers", said->activation_B + said->buffer_B,
				 seen->peak - seen->parameters - seen->gradients - seen->optimizer };
	pair[4] = (struct pair){ "reserve", said->reserve_B, seen->process };
	pair[5] = (struct pair){ "fragmentation", said->fragmentation_B, NAN };
}

void mq_validated_memory(const struct mq_validated *p, double *predicted_B, double *measured_B)
{
	struct pair pair[PURPOSES];

	*predicted_B = *measured_B = NAN;
	if (!p->held || !isfinite(p->held[p->worst].peak) || p->held[p->worst].full > 0)
		return;
	*predicted_B = *measured_B = 0;
	pairs_of(p, p->worst, pair);
	for (int i = 0; i < TENSORS; i++) {
		*predicted_B += pair[i].predicted_B;
		*measured_B += pair[i].measured_B;
	}
}

static void put_device(struct mq_csv_writer *w, const struct mq_validated *p, uint32_t d)
{
	struct pair pair[PURPOSES];
	bool full = p->held[d].full > 0;

	pairs_of(p, d, pair);
	for (int i = 0; i < PURPOSES; i++) {
		double ratio = pair[i].predicted_B / pair[i].measured_B;

		mq_csv_row(w, "%s,%s,%s,%g,%g,%g", p->name, p->schedule->device_name[d], pair[i].purpose,
			   pair[i].predicted_B, full ? (double)NAN : pair[i].measured_B,
			   pair[i].measured_B > 0 && !full ? ratio : (double)NAN);
	}
}

/* Sums over all devices of all plans by purpose, and each plan's fullest device. */
static void print_memory(struct mq_validation *v)
{
	struct pair sum[PURPOSES] = { { 0 } }, pair[PURPOSES];
	double *predicted = mq_arena_array(&v->arena, v->n_plans, double);
	double *measured = mq_arena_array(&v->arena, v->n_plans, double);
	uint32_t n = 0, full = 0;

	for (uint32_t i = 0; i < v->n_plans; i++) {
		const struct mq_validated *p = &v->plan[i];

		mq_validated_memory(p, &predicted[n], &measured[n]);
		n += !isnan(measured[n]);
		for (uint32_t d = 0; p->held && d < p->schedule->n_devices; d++) {
			full += p->held[d].full > 0;
			pairs_of(p, d, pair);
			for (int k = 0; k < PURPOSES; k++) {
				sum[k].purpose = pair[k].purpose;
				sum[k].predicted_B += pair[k].predicted_B;
				sum[k].measured_B += pair[k].measured_B;
			}
		}
	}
	if (full)
		printf("memory: on %u devices a plan's tensors could not be had beside the replay's own pools\n", full);
	if (!n)
		return;
	struct mq_errors e = mq_errors_against(predicted, measured, n, &v->arena);
	printf("peak memory of a plan's tensors on its fullest device: %u plans, median error %.1f %%, p90 %.1f %%\n  "
	       "predicted / measured, all devices:",
	       n, 100 * e.median, 100 * e.p90);
	for (int k = 0; k < PURPOSES; k++)
		if (sum[k].measured_B > 0)
			printf("%s %s %.3f", k ? "," : "", sum[k].purpose, sum[k].predicted_B / sum[k].measured_B);
	puts(" (of the replay's process: a framework takes more)");
}

enum mq_status mq_validation_memory(struct mq_validation *v, const char *dir, struct mq_err *err)
{
	struct mq_csv_writer w;
	bool any = false;

	for (uint32_t i = 0; i < v->n_plans; i++)
		any |= v->plan[i].held != NULL;
	if (!any)
		return MQ_OK;
	MQ_TRY(mq_table_create(&w, MQ_TABLE_plans_memory, dir, &v->arena, err));
	for (uint32_t i = 0; i < v->n_plans; i++)
		for (uint32_t d = 0; v->plan[i].held && d < v->plan[i].schedule->n_devices; d++)
			put_device(&w, &v->plan[i], d);
	print_memory(v);
	return mq_csv_close(&w, err);
}

/* ---- against the snapshot of a real rank (trace/snapshot.c) --------------------------------------
 *
 * Tensors from before the recording are parameters, gradients and optimizer state, without distinction: these three are
 * then compared together. */

enum { MOST_LINES = 7 };

static uint32_t lines_of(const struct mq_memory *m, const struct mq_snapshot *s, struct pair *line)
{
	const double *of = s->of_B;
	uint32_t n = 0;

	if (of[MQ_SNAPSHOT_BEFORE] > 0.01 * s->allocated_B) {
		line[n++] = (struct pair){ "parameters, gradients, optimizer",
					   m->parameter_B + m->gradient_B + m->optimizer_B,
					   of[MQ_SNAPSHOT_BEFORE] + of[MQ_SNAPSHOT_PARAMETERS] +
						   of[MQ_SNAPSHOT_GRADIENTS] + of[MQ_SNAPSHOT_OPTIMIZER] };
	} else {
		line[n++] = (struct pair){ "parameters", m->parameter_B,
					   of[MQ_SNAPSHOT_PARAMETERS] + of[MQ_SNAPSHOT_BEFORE] };
		line[n++] = (struct pair){ "gradients", m->gradient_B, of[MQ_SNAPSHOT_GRADIENTS] };
		line[n++] = (struct pair){ "optimizer", m->optimizer_B, of[MQ_SNAPSHOT_OPTIMIZER] };
	}
	line[n++] =
		(struct pair){ "activations and buffers", m->activation_B + m->buffer_B, of[MQ_SNAPSHOT_ACTIVATIONS] };
	if (of[MQ_SNAPSHOT_OTHER] > 0)
		line[n++] = (struct pair){ "of no known purpose", 0, of[MQ_SNAPSHOT_OTHER] };
	line[n++] = (struct pair){ "allocated", mq_memory_allocated_B(m), s->allocated_B };
	line[n++] = (struct pair){ "reserved", mq_memory_reserved_B(m), s->reserved_B };
	return n;
}

enum mq_status mq_validation_snapshot(struct mq_validation *v, const char *path, const char *dir, struct mq_err *err)
{
	const struct mq_validated *p = &v->plan[0];
	const struct mq_memory *m = &p->memory[p->worst];
	struct mq_snapshot s;
	struct pair line[MOST_LINES];
	struct mq_csv_writer w;

	MQ_TRY(mq_snapshot_load(path, &v->arena, &s, err));
	uint32_t n = lines_of(m, &s, line);
	MQ_TRY(mq_table_create(&w, MQ_TABLE_plans_memory, dir, &v->arena, err));
	printf("%s on %s, at the peak of %u events of device %u\n%-34s %12s %12s %8s\n", p->name,
	       p->schedule->device_name[p->worst], s.n_events, s.device, "GB", "predicted", "measured", "ratio");
	for (uint32_t i = 0; i < n; i++) {
		double ratio = line[i].measured_B > 0 ? line[i].predicted_B / line[i].measured_B : (double)NAN;

		printf("%-34s %12.3f %12.3f %8.3f\n", line[i].purpose, line[i].predicted_B / 1e9,
		       line[i].measured_B / 1e9, ratio);
		mq_csv_row(&w, "%s,%s,%s,%g,%g,%g", p->name, p->schedule->device_name[p->worst], line[i].purpose,
			   line[i].predicted_B, line[i].measured_B, ratio);
	}
	const struct pair *most = line;
	for (uint32_t i = 0; i + 2 < n; i++) /* the last two are sums */
		if (fabs(line[i].predicted_B - line[i].measured_B) > fabs(most->predicted_B - most->measured_B))
			most = &line[i];
	printf("most off: %s, predicted %.3f GB too %s\n", most->purpose,
	       fabs(most->predicted_B - most->measured_B) / 1e9,
	       most->predicted_B > most->measured_B ? "much" : "little");
	if (!s.n_events)
		puts("the snapshot has no trace: what is live at its end is compared, not the peak; call "
		     "torch.cuda.memory._record_memory_history() before the step");
	return mq_csv_close(&w, err);
}
