/* failures.c - see failures.h. SPDX-License-Identifier: Apache-2.0 */
#include "schedule/failures.h"

#include <math.h>

const struct mq_opt mq_failures_opts[] = {
	MQ_F64(struct mq_failures, mtbf_h, 0, 1e-3, 1e12, "mean time between failures of one device, hours"),
	MQ_F64(struct mq_failures, restart_s, 300, 0, 1e7, "from a failure to reading the checkpoint, seconds"),
	MQ_F64(struct mq_failures, checkpoint_GBps, 10, 1e-6, 1e9, "of the storage, all devices together, GB/s"),
	MQ_F64(struct mq_failures, blocking, 1, 0, 1, "part of a save that training waits for"),
	MQ_F64(struct mq_failures, interval_s, 0, 0, 1e9, "training between saves, seconds; 0 = the best"),
	MQ_END
};

struct machine {
	double mtbf_s, save_s, restart_s; /* M, delta, R */
};

static double goodput(const struct machine *m, double interval_s)
{
	double saved = expm1((interval_s + m->save_s) / m->mtbf_s);

	return interval_s / (m->mtbf_s * exp(m->restart_s / m->mtbf_s) * saved);
}

/* Daly's estimate. */
static double best_interval(const struct machine *m)
{
	double x = m->save_s / (2 * m->mtbf_s);

	if (x >= 1)
		return m->mtbf_s;
	return sqrt(2 * m->save_s * m->mtbf_s) * (1 + sqrt(x) / 3 + x / 9) - m->save_s;
}

struct mq_goodput mq_goodput(const struct mq_failures *f, uint32_t devices, double step_s, double checkpoint_B)
{
	double write_s = checkpoint_B / (f->checkpoint_GBps * 1e9), beside_s = write_s * (1 - f->blocking);
	const struct machine m = { .mtbf_s = f->mtbf_h * 3600 / devices,
				   .save_s = write_s * f->blocking,
				   .restart_s = f->restart_s + write_s + beside_s };
	double wanted = fmax(f->interval_s > 0 ? f->interval_s : best_interval(&m), beside_s);
	double steps = fmax(1, floor(wanted / step_s));

	/* One step more if saves would else overlap, or if goodput is better so. */
	if (steps * step_s < beside_s ||
	    (!(f->interval_s > 0) && goodput(&m, (steps + 1) * step_s) > goodput(&m, steps * step_s)))
		steps++;
	return (struct mq_goodput){
		.goodput = goodput(&m, steps * step_s),
		.interval_s = steps * step_s,
		.mtbf_s = m.mtbf_s,
		.checkpoint_B = checkpoint_B,
		.checkpoint_s = write_s,
	};
}

double mq_checkpoint_B(const struct mq_model *model, const struct mq_train *train, double master_B, double moment_B)
{
	double state_B = mq_train_state_B(train, master_B, moment_B);

	return mq_model_totals(model).parameters * (mq_dtype_size(train->dtype) + state_B);
}
