/* bound.c - see costing.h.
 *
 * Some device must compute every FLOP of the model once (half of causal attention, a quarter of what Winograd's
 * algorithm applies to, see cost.c), at most at its peak, which boards that clock above their data sheet exceed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "costing/costing.h"

#include <math.h>
#include <string.h>

#include "maquette/cost.h"

static double profiled_s(const struct mq_model *m, const struct mq_train *train)
{
	const struct mq_profile *p = &m->profile;
	double sum = 0;

	for (uint32_t op = 0; op < m->n_ops; op++) {
		double forward = INFINITY, backward = INFINITY;

		if (m->op[op].kind != MQ_OP_PROFILED || !p->n_types || (train->infer && m->op[op].phase == MQ_BACKWARD))
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

/* Least FLOPs of one sample. */
static double least_flop(const struct mq_model *m, const struct mq_train *train)
{
	double sum = 0;

	for (uint32_t op = 0; op < m->n_ops; op++) {
		const struct mq_op *o = &m->op[op];
		double flop = o->phase == MQ_FORWARD ? o->flop : 0;

		if (!train->infer)
			flop += o->phase == MQ_FORWARD ? o->flop_bwd : o->flop;
		if (o->kind == MQ_OP_ATTENTION && train->sequence_packing.work > 0)
			flop *= fmin(1, train->sequence_packing.work);
		if (o->kind == MQ_OP_ATTENTION && o->causal) /* fused kernels skip what the mask hides */
			flop /= 2;
		if (mq_op_of_experts(o)) /* dropped tokens */
			flop *= fmin(1, mq_expert_load(&train->experts, 1));
		if (train->dtype == MQ_FP32 && o->winograd > 0)
			flop *= fmin(MQ_WINOGRAD_FUSED, o->winograd / 4);
		sum += flop;
	}
	return sum;
}

/* The most FLOPs that a device does in a second. Fused attention in fp32 runs three TF32 products in place of one. */
static double fastest_flops(const struct mq_device_calib *d, const struct mq_train *train)
{
	double peak = mq_cost_train_peak(d, train), best = fmax(d->gemm_eff, d->conv_eff);

	if (train->dtype == MQ_FP32) {
		peak = fmax(peak, d->peak_flops[MQ_TF32] / 3);
		best *= fmax(1, d->gemm_fp32);
	}
	return peak * fmax(1, best);
}

double mq_peak_bound(const struct mq_question *q)
{
	const struct mq_cluster *cluster = q->cluster;
	double flop = least_flop(q->model, q->train), peak = 0;

	for (uint32_t d = 0; d < cluster->n_devices; d++)
		if (cluster->device[d].calib != MQ_NONE)
			peak += fastest_flops(&q->calib->device[cluster->device[d].calib], q->train);
	double bound = profiled_s(q->model, q->train) / cluster->n_devices;
	return peak > 0 ? fmax(bound, flop * q->train->batch / peak) : bound;
}

/* ---- by the speeds of the calibration ------------------------------------------------------------- */

struct busy {
	const struct mq_question *q;
	double (*ask)(void *context, uint32_t op, enum mq_phase phase, uint32_t device, const uint32_t split[MQ_N_DIMS],
		      double samples);
	void *context;
};

/* Device seconds per sample of one pass of an op, whole or in parts along a dimension. */
static double pass_s(const struct busy *b, uint32_t op, enum mq_phase phase, uint32_t device, int dim, uint32_t parts,
		     double samples)
{
	uint32_t split[MQ_N_DIMS] = MQ_UNSPLIT;

	split[dim] = parts;
	return b->ask(b->context, op, phase, device, split, samples) * parts / samples;
}

/* The least over numbers of samples (any may fit the device best) and over splits. */
static double least_pass_s(const struct busy *b, uint32_t op, enum mq_phase phase, uint32_t device)
{
	const struct mq_op *o = &b->q->model->op[op];
	double least = INFINITY, batch = b->q->train->batch;

	for (double n = 1; n <= batch; n = n < 32 ? n + 1 : floor(n * 1.125)) {
		least = fmin(least, pass_s(b, op, phase, device, MQ_DIM_BATCH, 1, n));
		for (int d = 0; d < MQ_N_DIMS; d++)
			for (uint32_t parts = 2; parts <= 64 && d != MQ_DIM_BATCH && o->splits & 1u << d &&
						 o->extent[d] >= parts && fmod(n, 8) < 2;
			     parts *= 2)
				least = fmin(least, pass_s(b, op, phase, device, d, parts, n));
	}
	return fmin(least, pass_s(b, op, phase, device, MQ_DIM_BATCH, 1, batch));
}

/* Both passes; equal ops are asked once. */
static double least_op_s(const struct busy *b, uint32_t op, uint32_t device)
{
	const struct mq_op *o = &b->q->model->op[op];
	double s = least_pass_s(b, op, MQ_FORWARD, device);

	if (o->phase == MQ_BACKWARD)
		return b->q->train->infer ? 0 : s;
	return b->q->train->infer ? s : s + least_pass_s(b, op, MQ_BACKWARD, device);
}

static bool alike(const struct mq_op *a, const struct mq_op *b)
{
	struct mq_op x = *a, y = *b;

	x.name = y.name = NULL;
	x.layer = y.layer = x.color = y.color = x.mate = y.mate = 0;
	return !memcmp(&x, &y, sizeof(x));
}

/* For weights w_d >= 0 with sum 1 over the devices, T >= sum of w_d x (busy time of d), and each op costs at least the
 * minimum of w_d x time: the dual of assigning ops to devices. With equal ops, weights by speed are best. */
double mq_busy_bound(const struct mq_question *q,
		     double (*ask)(void *context, uint32_t op, enum mq_phase phase, uint32_t device,
				   const uint32_t split[MQ_N_DIMS], double samples),
		     void *context)
{
	const struct mq_model *m = q->model;
	const struct mq_cluster *cluster = q->cluster;
	struct busy b = { q, ask, context };
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	uint32_t *kind = mq_arena_array(&scratch, cluster->n_devices, uint32_t), n = 0; /* a device of each */
	double *count = mq_arena_array(&scratch, cluster->n_devices, double), speeds = 0, bound = 0;

	for (uint32_t d = 0; d < cluster->n_devices; d++) {
		uint32_t k = 0;

		while (k < n && cluster->device[kind[k]].calib != cluster->device[d].calib)
			k++;
		if (k == n)
			kind[n++] = d;
		count[k]++;
	}
	double *time = mq_arena_array(&scratch, (size_t)n * m->n_ops, double);
	double *speed = mq_arena_array(&scratch, n, double);

	for (uint32_t k = 0; k < n; k++) {
		double sum = 0;

		for (uint32_t op = 0; op < m->n_ops; op++) {
			double *t = &time[(size_t)k * m->n_ops + op];
			uint32_t back = op > 64 ? op - 64 : 0, same = op;

			while (same > back && !alike(&m->op[same - 1], &m->op[op]))
				same--;
			*t = same > back ? t[(ptrdiff_t)same - 1 - (ptrdiff_t)op] : least_op_s(&b, op, kind[k]);
			sum += isfinite(*t) ? *t : 0;
		}
		speed[k] = sum > 0 ? 1 / sum : 0;
		speeds += count[k] * speed[k];
	}
	for (uint32_t op = 0; op < m->n_ops && speeds > 0; op++) {
		double least = INFINITY;

		for (uint32_t k = 0; k < n; k++)
			if (isfinite(time[(size_t)k * m->n_ops + op]))
				least = fmin(least, speed[k] / speeds * time[(size_t)k * m->n_ops + op]);
		bound += isfinite(least) ? least : 0;
	}
	return bound * q->train->batch * (1 - 1e-8); /* step times are rounded to nine digits */
}
