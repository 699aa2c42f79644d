/*
 * bound.c - a step time that no plan of a model on a cluster can beat. See lower.h.
 *
 * Every FLOP of the model has to be done once (a quarter of them where Winograd's algorithm applies, see
 * cost.c), and no device does them faster than its peak; profiled ops take at least their least measured time. Communication, launches and bubbles are left out, so that it
 * holds for any plan.
 */
#include <math.h>

#include "lower/lower.h"

static double profiled_s(const struct mq_model *m, const struct mq_train *train)
{
	const struct mq_profile *p = &m->profile;
	double sum = 0;

	for (uint32_t op = 0; op < m->n_ops; op++) {
		double forward = INFINITY, backward = INFINITY;

		if (m->op[op].kind != MQ_OP_PROFILED || !p->n_types ||
		    (train->infer && m->op[op].phase == MQ_BACKWARD))
			continue;
		for (uint32_t t = 0; t < p->n_types; t++) {
			forward = fmin(forward, p->forward_s[(size_t)op * p->n_types + t]);
			if (p->backward_s)
				backward = fmin(backward, p->backward_s[(size_t)op * p->n_types + t]);
		}
		sum += isfinite(forward) ? forward : 0;
		sum += isfinite(backward) && !train->infer ? backward : 0;
	}
	return sum * train->batch;
}

/* FLOPs of one sample that cannot be avoided. */
static double least_flop(const struct mq_model *m, const struct mq_train *train)
{
	double sum = 0;

	for (uint32_t op = 0; op < m->n_ops; op++) {
		const struct mq_op *o = &m->op[op];
		double flop = o->phase == MQ_FORWARD ? o->flop : 0;

		if (!train->infer)
			flop += o->phase == MQ_FORWARD ? o->flop_bwd : o->flop;
		if (train->dtype == MQ_FP32 && o->winograd > 0)
			flop *= fmin(1, o->winograd / 4);
		sum += flop;
	}
	return sum;
}

double mq_lower_bound(const struct mq_question *q)
{
	const struct mq_cluster *cluster = q->cluster;
	double flop = least_flop(q->model, q->train), peak = 0;

	for (uint32_t d = 0; d < cluster->n_devices; d++)
		if (cluster->device[d].calib != MQ_NONE)
			peak += q->calib->device[cluster->device[d].calib].peak_flops[q->train->dtype];
	double bound = profiled_s(q->model, q->train) / cluster->n_devices;
	return peak > 0 ? fmax(bound, flop * q->train->batch / peak) : bound;
}
