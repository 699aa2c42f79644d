/* snapshot.c - `validate --memory`: a plan's memory beside what a real rank held (trace/snapshot.h).
 *
 * Tensors that were there before the recording began are parameters, gradients and optimizer state, which nothing tells
 * apart: then these three are compared together. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "cmd/validate/plans.h"
#include "schedule/columns.h"
#include "trace/snapshot.h"

struct line {
	const char *purpose;
	double predicted_B, measured_B; /* measured: NaN = the snapshot does not tell */
};
enum { MOST_LINES = 7 };

static uint32_t lines_of(const struct mq_memory *m, const struct mq_snapshot *s, struct line *line)
{
	const double *of = s->of_B;
	uint32_t n = 0;

	if (of[MQ_SNAPSHOT_BEFORE] > 0.01 * s->allocated_B) {
		line[n++] = (struct line){ "parameters, gradients, optimizer",
					   m->parameter_B + m->gradient_B + m->optimizer_B,
					   of[MQ_SNAPSHOT_BEFORE] + of[MQ_SNAPSHOT_PARAMETERS] +
						   of[MQ_SNAPSHOT_GRADIENTS] + of[MQ_SNAPSHOT_OPTIMIZER] };
	} else {
		line[n++] = (struct line){ "parameters", m->parameter_B,
					   of[MQ_SNAPSHOT_PARAMETERS] + of[MQ_SNAPSHOT_BEFORE] };
		line[n++] = (struct line){ "gradients", m->gradient_B, of[MQ_SNAPSHOT_GRADIENTS] };
		line[n++] = (struct line){ "optimizer", m->optimizer_B, of[MQ_SNAPSHOT_OPTIMIZER] };
	}
	line[n++] =
		(struct line){ "activations and buffers", m->activation_B + m->buffer_B, of[MQ_SNAPSHOT_ACTIVATIONS] };
	if (of[MQ_SNAPSHOT_OTHER] > 0)
		line[n++] = (struct line){ "of no known purpose", 0, of[MQ_SNAPSHOT_OTHER] };
	line[n++] = (struct line){ "allocated", mq_memory_allocated_B(m), s->allocated_B };
	line[n++] = (struct line){ "reserved", mq_memory_reserved_B(m), s->reserved_B };
	return n;
}

/* The purpose that differs most; the last two lines are sums. */
static const struct line *most_off(const struct line *line, uint32_t n)
{
	const struct line *most = line;

	for (uint32_t i = 0; i + 2 < n; i++)
		if (fabs(line[i].predicted_B - line[i].measured_B) > fabs(most->predicted_B - most->measured_B))
			most = &line[i];
	return most;
}

enum mq_status mq_validation_snapshot(struct mq_validation *v, const char *path, const char *dir, struct mq_err *err)
{
	const struct mq_validated *p = &v->plan[0];
	const struct mq_memory *m = &p->memory[p->worst];
	struct mq_snapshot s;
	struct line line[MOST_LINES];
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
	const struct line *most = most_off(line, n);
	printf("most off: %s, predicted %.3f GB too %s\n", most->purpose,
	       fabs(most->predicted_B - most->measured_B) / 1e9,
	       most->predicted_B > most->measured_B ? "much" : "little");
	if (!s.n_events)
		puts("the snapshot has no trace: what is live at its end is compared, not the peak; call "
		     "torch.cuda.memory._record_memory_history() before the step");
	return mq_csv_close(&w, err);
}
