/* solve.c - robust nonlinear least squares in log space.
 *
 * Residuals are log(predicted) - log(measured), so relative errors weigh equally from microseconds to seconds;
 * parameters are positive, so their logarithms are fitted. GSL's trust-region solver has no robust loss: it is run in a
 * loop with Huber weights from the last residuals (Holland and Welsch, "Robust regression using iteratively reweighted
 * least-squares", 1977). Intervals come from a bootstrap over groups of observations (shapes), each draw a fit of its
 * own that starts from the full one. SPDX-License-Identifier: Apache-2.0 */
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>

#include "fit/fit.h"

enum { REWEIGHTS = 4, REWEIGHTS_DRAW = 2, ITERATIONS = 60, ITERATIONS_DRAW = 12 };
const double mq_fit_huber = 1.345;

struct solver {
	struct mq_fit *fit;
	gsl_multifit_nlinear_workspace *work;
	gsl_vector *start, *weight;
	double *predicted, *residual, *scratch; /* [n_obs] */
	const double *multiplicity;             /* [n_obs] of this bootstrap draw, or NULL */
};

static void set_params(struct mq_fit *fit, const gsl_vector *x)
{
	for (uint32_t i = 0; i < fit->n_params; i++) {
		struct mq_fit_param *p = &fit->param[i];
		double value = exp(fmin(fmax(gsl_vector_get(x, i), -80), 80));

		*p->value = fmin(fmax(value, p->min), p->max);
	}
}

static int residuals(const gsl_vector *x, void *params, gsl_vector *f)
{
	struct solver *s = params;

	set_params(s->fit, x);
	s->fit->predict(s->fit->context, s->predicted);
	for (uint32_t i = 0; i < s->fit->n_obs; i++) {
		double r = log(s->predicted[i]) - log(s->fit->measured[i]);

		gsl_vector_set(f, i, isfinite(r) ? r : 50);
	}
	return GSL_SUCCESS;
}

static void reweigh(struct solver *s, bool first)
{
	double scale;

	for (uint32_t i = 0; i < s->fit->n_obs; i++)
		s->scratch[i] = fabs(s->residual[i]);
	scale = first ? 0 : fmax(1.4826 * mq_quantile(s->scratch, s->fit->n_obs, .5), 1e-6);
	for (uint32_t i = 0; i < s->fit->n_obs; i++) {
		double w = (s->multiplicity ? s->multiplicity[i] : 1) * (s->fit->weight ? s->fit->weight[i] : 1);

		if (!first && fabs(s->residual[i]) > mq_fit_huber * scale)
			w *= mq_fit_huber * scale / fabs(s->residual[i]);
		gsl_vector_set(s->weight, i, w);
	}
}

/* Computes the residuals with the present parameters. */
static void take_residuals(struct solver *s)
{
	s->fit->predict(s->fit->context, s->predicted);
	for (uint32_t i = 0; i < s->fit->n_obs; i++)
		s->residual[i] = log(s->predicted[i]) - log(s->fit->measured[i]);
}

static void iterate(struct solver *s, uint32_t reweights, size_t iterations)
{
	gsl_multifit_nlinear_fdf fdf = { .f = residuals, .n = s->fit->n_obs, .p = s->fit->n_params, .params = s };
	int info;

	for (uint32_t round = 0; round < reweights; round++) {
		reweigh(s, !round && !s->multiplicity);
		if (gsl_multifit_nlinear_winit(s->start, s->weight, &fdf, s->work) != GSL_SUCCESS)
			return;
		/* Incomplete convergence is fine: the point reached is kept. */
		gsl_multifit_nlinear_driver(iterations, 1e-6, 1e-8, 1e-8, NULL, NULL, &info, s->work);
		gsl_vector_memcpy(s->start, gsl_multifit_nlinear_position(s->work));
		set_params(s->fit, s->start);
		take_residuals(s);
	}
}

static enum mq_status solver_init(struct solver *s, struct mq_fit *fit, struct mq_arena *arena, struct mq_err *err)
{
	gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();

	gsl_set_error_handler_off();
	*s = (struct solver){ .fit = fit };
	if (fit->n_obs < fit->n_params || !fit->n_params)
		return mq_bad(err, "%u measurements cannot fix %u parameters ('%s', ...): measure more shapes",
			      fit->n_obs, fit->n_params, fit->n_params ? fit->param[0].name : "none");
	s->predicted = mq_arena_array(arena, fit->n_obs, double);
	s->residual = mq_arena_array(arena, fit->n_obs, double);
	s->scratch = mq_arena_array(arena, fit->n_obs, double);
	parameters.trs = gsl_multifit_nlinear_trs_lm;
	parameters.h_df = 1e-5;
	s->work = gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &parameters, fit->n_obs, fit->n_params);
	s->start = gsl_vector_alloc(fit->n_params);
	s->weight = gsl_vector_alloc(fit->n_obs);
	for (uint32_t i = 0; i < fit->n_params; i++)
		gsl_vector_set(s->start, i, log(*fit->param[i].value));
	return MQ_OK;
}

static void solver_fini(struct solver *s)
{
	gsl_multifit_nlinear_free(s->work);
	gsl_vector_free(s->start);
	gsl_vector_free(s->weight);
}

enum mq_status mq_fit_solve(struct mq_fit *fit, struct mq_arena *arena, struct mq_err *err)
{
	struct solver s;

	MQ_TRY(solver_init(&s, fit, arena, err));
	iterate(&s, REWEIGHTS, ITERATIONS);
	solver_fini(&s);
	for (uint32_t i = 0; i < fit->n_params; i++)
		fit->param[i].low = fit->param[i].high = NAN;
	return MQ_OK;
}

enum mq_status mq_fit_bootstrap(struct mq_fit *fit, uint32_t n_draws, struct mq_rng *rng, struct mq_arena *arena,
				double *draws, struct mq_err *err)
{
	uint32_t n_groups = 0;

	for (uint32_t i = 0; i < fit->n_obs; i++)
		n_groups = fit->group && fit->group[i] < n_groups ? n_groups : (fit->group ? fit->group[i] : i) + 1;
	double *times = mq_arena_array(arena, n_groups, double);
	double *multiplicity = mq_arena_array(arena, fit->n_obs, double);
	double *best = mq_arena_array(arena, fit->n_params, double);

	for (uint32_t p = 0; p < fit->n_params; p++)
		best[p] = *fit->param[p].value;
	for (uint32_t d = 0; d < n_draws; d++) {
		struct solver s;

		memset(times, 0, n_groups * sizeof(double));
		for (uint32_t g = 0; g < n_groups; g++)
			times[mq_rng_below(rng, n_groups)]++;
		for (uint32_t i = 0; i < fit->n_obs; i++)
			multiplicity[i] = times[fit->group ? fit->group[i] : i];
		for (uint32_t p = 0; p < fit->n_params; p++)
			*fit->param[p].value = best[p];
		MQ_TRY(solver_init(&s, fit, arena, err));
		take_residuals(&s);
		s.multiplicity = multiplicity;
		iterate(&s, REWEIGHTS_DRAW, ITERATIONS_DRAW);
		solver_fini(&s);
		for (uint32_t p = 0; p < fit->n_params; p++)
			draws[(size_t)d * fit->n_params + p] = *fit->param[p].value;
	}
	double *value = mq_arena_array(arena, n_draws, double);
	for (uint32_t p = 0; p < fit->n_params; p++) {
		*fit->param[p].value = best[p];
		for (uint32_t d = 0; d < n_draws; d++)
			value[d] = draws[(size_t)d * fit->n_params + p];
		fit->param[p].low = mq_quantile(value, n_draws, .025);
		fit->param[p].high = mq_quantile(value, n_draws, .975);
	}
	return MQ_OK;
}
