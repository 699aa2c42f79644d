/* fit_gemm.c - see fit.h.
 *
 * The model (kernels/cost.c) has ceilings and a minimum over tiles, so it has no useful derivatives: the Nelder-Mead
 * simplex (GSL nmsimplex2) on the logarithms of the parameters, first of each device, then of the shared ones, repeated
 * until nothing is gained. The loss is robust: mean of |ln(predicted/measured)|, so that a library's wrong kernel
 * choice weighs little; every device has equal weight. SPDX-License-Identifier: Apache-2.0 */
#include "fit/fit.h"

#include <math.h>

#include <gsl/gsl_multimin.h>

#include "maquette/cost.h"

enum { N_OWN = 3, N_SHARED = 4, N_MOST = 4, TURNS = 20, ITERATIONS = 300 };

struct problem {
	const struct mq_gemm_sample *sample;
	uint32_t n, held_out;
	struct mq_device_calib *device;
	uint32_t n_devices;
	uint32_t moving; /* device whose parameters are fitted; MQ_NONE = the shared ones */
};

/* The i-th parameter being fitted: a device's own, or a shared one. */
static double *param(const struct problem *p, struct mq_device_calib *d, size_t i)
{
	double *const own[N_OWN] = { &d->gemm_eff, &d->gemm_bw_share, &d->gemm_t0_s };
	double *const shared[N_SHARED] = { &d->gemm_kt, &d->gemm_a0, &d->gemm_q, &d->gemm_corner };

	return p->moving == MQ_NONE ? shared[i] : own[i];
}

static double value(const struct problem *p, size_t i)
{
	return *param(p, &p->device[p->moving == MQ_NONE ? 0 : p->moving], i);
}

static void set(struct problem *p, size_t i, double x)
{
	for (uint32_t d = 0; d < p->n_devices; d++)
		if (p->moving == MQ_NONE || p->moving == d)
			*param(p, &p->device[d], i) = x;
}

/* Are the parameters within their meaningful ranges? */
static bool sound(const struct mq_device_calib *d)
{
	return d->gemm_eff <= 1 && d->gemm_q <= 1 && d->gemm_bw_share <= 1 && d->gemm_corner <= 50 &&
	       d->gemm_a0 <= 500 && d->gemm_kt <= 1000;
}

double mq_gemm_loop_s(const struct mq_device_calib *device, const struct mq_gemm_sample *s)
{
	double size_B = mq_dtype_size(s->dtype);
	const struct mq_kernel gemm = {
		.kind = MQ_KERNEL_GEMM,
		.dtype = (uint8_t)s->dtype,
		.scaling = s->scaling,
		.m = s->m,
		.n = s->n,
		.k = s->k,
		.count = 1,
		.flop = 2 * s->m * s->n * s->k,
		.bytes = (s->m * s->k + s->k * s->n) * size_B + s->m * s->n * fmax(size_B, 2),
		.graphed = s->to > 0,
	};

	const struct mq_draw cast = { .other_s = s->cast_s, .other_J = s->cast_s * mq_power_sweep_W(device) };

	if (s->to > 0)
		return mq_power_loop_s(device, &gemm, &cast, s->from, s->to);
	return fmax(mq_cost_kernel(device, &gemm), device->host_launch_s);
}

static double loss_of(const struct problem *p, uint32_t device)
{
	double sum = 0;
	uint32_t used = 0;

	for (uint32_t i = 0; i < p->n; i++) {
		const struct mq_gemm_sample *s = &p->sample[i];

		if (s->fold == p->held_out || s->device != device)
			continue;
		sum += fabs(log(mq_gemm_loop_s(&p->device[device], s) / s->time_s));
		used++;
	}
	return sum / used;
}

static double total_loss(const struct problem *p)
{
	double sum = 0;

	for (uint32_t d = 0; d < p->n_devices; d++)
		sum += loss_of(p, d) / p->n_devices;
	return sum;
}

static double loss(const gsl_vector *x, void *context)
{
	struct problem *p = context;

	for (size_t i = 0; i < x->size; i++)
		set(p, i, exp(gsl_vector_get(x, i)));
	for (uint32_t d = 0; d < p->n_devices; d++)
		if (!sound(&p->device[d]))
			return 1e3;
	return p->moving == MQ_NONE ? total_loss(p) : loss_of(p, p->moving);
}

/* Runs one simplex over the parameters being fitted, from their values. */
static enum mq_status search(struct problem *p, double step, struct mq_err *err)
{
	gsl_multimin_function f = { loss, p->moving == MQ_NONE ? N_SHARED : N_OWN, p };
	gsl_multimin_fminimizer *simplex = gsl_multimin_fminimizer_alloc(gsl_multimin_fminimizer_nmsimplex2, f.n);
	double room[2][N_MOST];
	gsl_vector_view x = gsl_vector_view_array(room[0], f.n), steps = gsl_vector_view_array(room[1], f.n);

	if (!simplex)
		return mq_fail(err, MQ_EBUG, "no memory for the simplex");
	for (size_t i = 0; i < f.n; i++)
		gsl_vector_set(&x.vector, i, log(fmax(value(p, i), 1e-9)));
	gsl_vector_set_all(&steps.vector, step);
	gsl_multimin_fminimizer_set(simplex, &f, &x.vector, &steps.vector);
	for (int i = 0; i < ITERATIONS; i++)
		if (gsl_multimin_fminimizer_iterate(simplex) || gsl_multimin_fminimizer_size(simplex) < 1e-4)
			break;
	for (size_t i = 0; i < f.n; i++)
		set(p, i, exp(gsl_vector_get(simplex->x, i)));
	gsl_multimin_fminimizer_free(simplex);
	return MQ_OK;
}

static enum mq_status check(const struct problem *p, struct mq_err *err)
{
	for (uint32_t d = 0; d < p->n_devices; d++) {
		uint32_t used = 0;

		for (uint32_t i = 0; i < p->n; i++)
			used += p->sample[i].device == d && p->sample[i].fold != p->held_out;
		if (used < 30)
			return mq_bad(err, "%s: %u GEMM samples are too few for %d parameters; give 30 or more",
				      p->device[d].name, used, N_OWN + N_SHARED);
	}
	for (uint32_t i = 0; i < p->n; i++)
		if (!(p->sample[i].time_s > 0) || !isfinite(p->sample[i].time_s))
			return mq_bad(err, "GEMM sample %u has time %g s; times must be positive", i,
				      p->sample[i].time_s);
	return MQ_OK;
}

enum mq_status mq_fit_gemm(const struct mq_gemm_sample *sample, uint32_t n, uint32_t held_out,
			   struct mq_device_calib *device, uint32_t n_devices, struct mq_err *err)
{
	struct problem p = { sample, n, held_out, device, n_devices, MQ_NONE };
	double best = INFINITY;

	MQ_TRY(check(&p, err));
	for (size_t i = 0; i < N_SHARED; i++) /* all start with the first device's */
		set(&p, i, value(&p, i));
	for (int turn = 0; turn < TURNS; turn++) {
		double step = turn % 2 ? -.3 : .4;

		for (p.moving = 0; p.moving < n_devices; p.moving++)
			MQ_TRY(search(&p, step, err));
		p.moving = MQ_NONE;
		MQ_TRY(search(&p, step, err));
		double now = total_loss(&p);
		if (turn % 2 && now > best * (1 - 1e-4))
			break;
		best = fmin(best, now);
	}
	return MQ_OK;
}

uint32_t mq_gemm_fold(double n, double k, uint32_t folds)
{
	uint64_t x = (uint64_t)n * 0x9e3779b97f4a7c15u ^ (uint64_t)k * 0xc2b2ae3d27d4eb4fu;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 32;
	return (uint32_t)(x % folds);
}
