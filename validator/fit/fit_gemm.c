/*
 * fit_gemm.c - see fit_gemm.h.
 *
 * The model (core/cost.c) has ceilings and a minimum over tiles, so it has no useful derivatives: the
 * Nelder-Mead simplex (GSL nmsimplex2) on the logarithms of the parameters, restarted from its own
 * result with steps of alternating sign until a restart gains nothing. The loss is robust: mean of
 * |ln(predicted/measured)|, so that a wrong kernel choice of the library weighs little.
 */
#include "fit/fit_gemm.h"

#include <math.h>

#include <gsl/gsl_multimin.h>

#include "core/cost.h"

enum { N_PARAMETERS = 7, RESTARTS = 6, ITERATIONS = 500 };

struct problem {
	const struct mq_gemm_sample *sample;
	uint32_t n, held_out;
	struct mq_device_calib device;
};

static double *parameter(struct mq_device_calib *d, int i)
{
	double *const p[N_PARAMETERS] = { &d->gemm_eff,      &d->gemm_kt,     &d->gemm_a0,  &d->gemm_q,
					  &d->gemm_bw_share, &d->gemm_corner, &d->gemm_t0_s };

	return p[i];
}

/* Outside these the parameters lose their meaning. */
static bool sound(const struct mq_device_calib *d)
{
	return d->gemm_eff <= 1 && d->gemm_q <= 1 && d->gemm_bw_share <= 1.2 && d->gemm_corner <= 50 &&
	       d->gemm_a0 <= 500 && d->gemm_kt <= 1000;
}

double mq_gemm_loop_s(const struct mq_device_calib *device, const struct mq_gemm_sample *s)
{
	return fmax(mq_cost_gemm(device, s->dtype, s->m, s->n, s->k, 1), device->host_launch_s);
}

static double loss(const gsl_vector *x, void *context)
{
	struct problem *p = context;
	double sum = 0;
	uint32_t used = 0;

	for (int i = 0; i < N_PARAMETERS; i++)
		*parameter(&p->device, i) = exp(gsl_vector_get(x, (size_t)i));
	if (!sound(&p->device))
		return 1e3;
	for (uint32_t i = 0; i < p->n; i++) {
		const struct mq_gemm_sample *s = &p->sample[i];

		if (s->fold == p->held_out)
			continue;
		double e = fabs(log(mq_gemm_loop_s(&p->device, s) / s->time_s));
		sum += e;
		used++;
	}
	return sum / used;
}

static void search(struct problem *p, gsl_multimin_fminimizer *simplex)
{
	gsl_multimin_function f = { loss, N_PARAMETERS, p };
	gsl_vector *x = gsl_vector_alloc(N_PARAMETERS), *step = gsl_vector_alloc(N_PARAMETERS);
	double best = INFINITY;

	for (int i = 0; i < N_PARAMETERS; i++)
		gsl_vector_set(x, (size_t)i, log(fmax(*parameter(&p->device, i), 1e-9)));
	for (int r = 0; r < RESTARTS; r++) {
		gsl_vector_set_all(step, r % 2 ? -.3 : .4);
		gsl_multimin_fminimizer_set(simplex, &f, x, step);
		for (int i = 0; i < ITERATIONS; i++)
			if (gsl_multimin_fminimizer_iterate(simplex) || gsl_multimin_fminimizer_size(simplex) < 1e-4)
				break;
		gsl_vector_memcpy(x, simplex->x);
		if (simplex->fval > best * (1 - 1e-4))
			break;
		best = simplex->fval;
	}
	for (int i = 0; i < N_PARAMETERS; i++)
		*parameter(&p->device, i) = exp(gsl_vector_get(x, (size_t)i));
	gsl_vector_free(x);
	gsl_vector_free(step);
}

enum mq_status mq_fit_gemm(const struct mq_gemm_sample *sample, uint32_t n, uint32_t held_out,
			   struct mq_device_calib *device, struct mq_err *err)
{
	struct problem p = { sample, n, held_out, *device };
	uint32_t used = 0;

	p.device.gemm_q_train = 0; /* the samples are products by themselves */
	for (uint32_t i = 0; i < n; i++) {
		if (!(sample[i].time_s > 0) || !isfinite(sample[i].time_s))
			return mq_fail(err, MQ_EINPUT,
				       "GEMM sample %u has time %g s; times must be "
				       "positive",
				       i, sample[i].time_s);
		used += sample[i].fold != held_out;
	}
	if (used < 30)
		return mq_fail(err, MQ_EINPUT,
			       "%u GEMM samples are too few for %d parameters; give "
			       "30 or more",
			       used, N_PARAMETERS);
	gsl_multimin_fminimizer *simplex =
		gsl_multimin_fminimizer_alloc(gsl_multimin_fminimizer_nmsimplex2, N_PARAMETERS);
	if (!simplex)
		return mq_fail(err, MQ_EBUG, "no memory for the simplex");
	search(&p, simplex);
	gsl_multimin_fminimizer_free(simplex);
	for (int i = 0; i < N_PARAMETERS; i++)
		*parameter(device, i) = *parameter(&p.device, i);
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
