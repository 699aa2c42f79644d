/* calibration.c - fits a device type and a link class to observed calls.
 *
 * Parameters are fitted in groups that the data can separate, each with the earlier groups fixed: GEMMs, their other
 * element types, convolutions, attention, memory-bound kernels, copies, then each communication call at sizes 8^k
 * (collectives/measured.c). Peaks and bandwidths are those of the best observation. Errors are stated for held-out
 * shapes (every second one), then all shapes are fitted. Each group has joint bootstrap draws, because its parameters
 * are correlated.
 *
 * Not fitted: the device's energy (flop_J), the training software's overheads. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "maquette/cost.h"
#include "fit/fit.h"
#include "hardware/calib_fields.h"

struct group {
	const struct mq_calibration_request *request;
	struct mq_calibration *calibration;
	struct mq_arena *arena;
	const char *name;
	uint32_t n_obs, n_params;
	const struct mq_observed **obs; /* [n_obs] */
	double *measured, *weight;      /* [n_obs] */
	uint32_t *shape;                /* [n_obs] resampling unit */
	struct mq_fit_param param[MQ_CALL_KNOTS];
	uint32_t call;      /* of a link group */
	const double *line; /* [2] a call lasts line[0] + size * line[1]; NULL: by knots */
};

static double knot_size(uint32_t knot)
{
	return pow(8, knot + 1);
}

static const struct mq_work *work_of(const struct mq_observed *o)
{
	const struct mq_task *t = &o->schedule->task[o->task];

	return t->kind == MQ_TASK_COMPUTE ? &o->schedule->work[t->work] : NULL;
}

/* The kernel of a task that runs only one, once or repeatedly; else NULL. */
static const struct mq_kernel *kernel_of(const struct mq_observed *o)
{
	const struct mq_work *w = work_of(o);

	if (!w || !w->n_kernels)
		return NULL;
	for (uint32_t i = 1; i < w->n_kernels; i++)
		if (memcmp(&w->kernel[i], &w->kernel[0], sizeof(w->kernel[0])))
			return NULL;
	return &w->kernel[0];
}

static const struct mq_task *task_of(const struct mq_observed *o)
{
	return &o->schedule->task[o->task];
}

/* Least numbers of shapes to fit a bandwidth, the speed of GEMMs, one factor. */
enum { SWEEPS_MIN = 6, GEMMS_MIN = 8, SHARE_MIN = 4 };

/* ---- choosing observations ------------------------------------------------------------------- */

enum choice { KERNEL, GEMM, ALIGNED_GEMM, MISALIGNED_GEMM, ODD_GEMM, SWEEP, COPY, CALL };

static bool rows_at(const struct mq_kernel *k, double bytes)
{
	return mq_cost_rows_at((double[]){ k->m, k->n, k->k }, k->of_weights, mq_dtype_size(k->dtype), bytes);
}

/* Is it an observation of the choice? `of`: the kind of kernel, the element type of a GEMM, or the call. Kernels that
 * were replaced by another kind are left out. */
static bool is(const struct mq_observed *o, enum choice choice, uint32_t of)
{
	const struct mq_kernel *k = kernel_of(o);
	const struct mq_task *t = task_of(o);
	bool gemm = k && k->kind == MQ_KERNEL_GEMM && !o->imitated && k->dtype == of && k->count <= 1;

	switch (choice) {
	case KERNEL:
		return k && k->kind == of && !o->imitated;
	case GEMM:
		return gemm;
	case ALIGNED_GEMM:
		return gemm && rows_at(k, 16);
	case MISALIGNED_GEMM:
		return gemm && rows_at(k, 4) && !rows_at(k, 16);
	case ODD_GEMM:
		return gemm && !rows_at(k, 4);
	case SWEEP: /* memory-bound, but for the empty probe's kernels */
		return k && k->bytes > 0 && k->kind == MQ_KERNEL_MEMORY;
	case COPY:
		return t->kind == MQ_TASK_COPY;
	case CALL:
		break;
	}
	if (of == MQ_CALL_P2P)
		return t->kind == MQ_TASK_SEND || t->kind == MQ_TASK_RECV;
	return t->bytes > 4 && /* smaller ones synchronise the ranks: hundreds of one size */
	       t->kind == MQ_TASK_COLLECTIVE && t->coll == of && o->schedule->comm[t->comm].n == o->schedule->n_devices;
}

/* The shape of an observation: equal work is one shape on any device, each message is its own. */
static uint32_t shape_of(const struct mq_observed *o)
{
	const struct mq_task *t = task_of(o);

	return t->kind == MQ_TASK_COMPUTE ? t->work : o->task;
}

static void take(struct group *g, const struct mq_observed *o, uint32_t shape)
{
	g->obs[g->n_obs] = o;
	/* Kernels use means, since a step is a sum of them: medians of times, which have a long upper tail, add up to
	 * less. Calls between ranks wait for each other, so they use the median. */
	g->measured[g->n_obs] = kernel_of(o) ?
					(o->time.mean > 0 ? o->time.mean : o->time.median) / work_of(o)->n_kernels :
					o->time.median;
	/* Longer kernels weigh more, but less than in proportion. */
	g->weight[g->n_obs] = kernel_of(o) ? sqrt(g->measured[g->n_obs]) : 1;
	g->shape[g->n_obs++] = shape;
}

static void make_room(struct group *g, uint32_t n)
{
	g->obs = mq_arena_array(g->arena, n, const struct mq_observed *);
	g->measured = mq_arena_array(g->arena, n, double);
	g->weight = mq_arena_array(g->arena, n, double);
	g->shape = mq_arena_array(g->arena, n, uint32_t);
	g->n_obs = 0;
}

static void choose(struct group *g, enum choice choice, uint32_t of)
{
	uint32_t n = g->request->n_observed, next = 0;
	uint32_t *name = mq_arena_array(g->arena, n, uint32_t);

	make_room(g, n);
	for (uint32_t i = 0; i < n; i++) {
		const struct mq_observed *o = &g->request->observed[i];
		uint32_t known = 0;

		if (!is(o, choice, of) || !(o->time.median > 0))
			continue;
		while (known < next && name[known] != shape_of(o))
			known++;
		if (known == next)
			name[next++] = shape_of(o);
		take(g, o, known);
	}
}

static void add_param(struct group *g, const char *name, double *value, double start, double min, double max)
{
	mq_assert(g->n_params < MQ_CALL_KNOTS);
	*value = start;
	g->param[g->n_params++] =
		(struct mq_fit_param){ .name = name, .value = value, .min = min, .max = max, .low = NAN, .high = NAN };
}

/* ---- predicting ------------------------------------------------------------------------------ */

static double predict_one(const struct group *g, const struct mq_observed *o)
{
	const struct mq_kernel *k = kernel_of(o);
	double latency, busy;

	if (k)
		return mq_cost_kernel(&g->calibration->device, k);
	if (task_of(o)->kind == MQ_TASK_COPY)
		return mq_cost_copy(&g->calibration->device, task_of(o)->bytes);
	if (!mq_call_measured(&g->calibration->link, g->call, o->schedule->n_devices, task_of(o)->bytes, &latency,
			      &busy))
		return NAN;
	return latency + busy;
}

static void predict_all(void *context, double *predicted)
{
	const struct group *g = context;

	for (uint32_t k = 0; g->line && k < MQ_CALL_KNOTS; k++)
		g->calibration->link.call_s[g->call][k] = g->line[0] + g->line[1] * knot_size(k);

	for (uint32_t i = 0; i < g->n_obs; i++)
		predicted[i] = predict_one(g, g->obs[i]);
}

/* ---- fitting a group ------------------------------------------------------------------------- */

static struct group half(const struct group *g, uint32_t parity)
{
	struct group part = *g;

	make_room(&part, g->n_obs);
	for (uint32_t i = 0; i < g->n_obs; i++) {
		if (g->shape[i] % 2 != parity)
			continue;
		take(&part, g->obs[i], g->shape[i]);
		part.weight[part.n_obs - 1] = g->weight[i];
	}
	return part;
}

static struct mq_fit fit_of(struct group *g)
{
	return (struct mq_fit){ .n_obs = g->n_obs,
				.n_params = g->n_params,
				.measured = g->measured,
				.weight = g->weight,
				.group = g->shape,
				.param = g->param,
				.predict = predict_all,
				.context = g };
}

static struct mq_errors error_of(const struct group *g, double *sigma)
{
	double *predicted = mq_arena_array(g->arena, g->n_obs, double);
	double *size = mq_arena_array(g->arena, g->n_obs, double);
	struct group copy = *g;

	predict_all(&copy, predicted);
	for (uint32_t i = 0; i < g->n_obs; i++)
		size[i] = fabs(log(predicted[i] / g->measured[i]));
	if (sigma)
		*sigma = 1.4826 * mq_quantile(size, g->n_obs, .5);
	return mq_errors_against(predicted, g->measured, g->n_obs, g->arena);
}

/* The bytes or FLOP of an observation. */
static double amount_of(const struct mq_observed *o)
{
	const struct mq_kernel *k = kernel_of(o);
	bool memory = k && k->bytes > 0 &&
		      (k->kind == MQ_KERNEL_MEMORY || k->kind == MQ_KERNEL_OPTIMIZER ||
		       k->kind == MQ_KERNEL_EMBEDDING || k->kind == MQ_KERNEL_COPY);

	return !k ? task_of(o)->bytes : memory ? k->bytes : k->flop;
}

static enum mq_status fit_group(struct group *g, struct mq_err *err)
{
	struct mq_fitted *f = &g->calibration->fitted[g->calibration->n_fitted++];
	struct group train = half(g, 0), test = half(g, 1);
	struct mq_fit fit = fit_of(&train);
	struct mq_rng rng;
	double start[MQ_CALL_KNOTS];

	*f = (struct mq_fitted){ .name = g->name,
				 .n_params = g->n_params,
				 .n_obs = g->n_obs,
				 .n_draws = g->request->n_draws,
				 .least = INFINITY };
	for (uint32_t p = 0; p < g->n_params; p++)
		start[p] = *g->param[p].value;
	if (train.n_obs >= 2 * g->n_params && test.n_obs) {
		MQ_TRY(mq_fit_solve(&fit, g->arena, err));
		f->held_out = error_of(&test, NULL);
	}
	for (uint32_t p = 0; p < g->n_params; p++)
		*g->param[p].value = start[p];
	fit = fit_of(g);
	if (mq_fit_solve(&fit, g->arena, err))
		return mq_wrap(err, "fit of %s", g->name);
	f->error = error_of(g, &f->sigma);
	mq_rng_seed(&rng, g->request->seed);
	f->draws = mq_arena_array(g->arena, (size_t)f->n_draws * g->n_params, double);
	MQ_TRY(mq_fit_bootstrap(&fit, f->n_draws, &rng, g->arena, f->draws, err));
	f->param = mq_arena_array(g->arena, g->n_params, struct mq_fit_param);
	memcpy(f->param, g->param, g->n_params * sizeof(*f->param));
	for (uint32_t i = 0; i < g->n_obs; i++) {
		f->least = fmin(f->least, amount_of(g->obs[i]));
		f->most = fmax(f->most, amount_of(g->obs[i]));
	}
	return MQ_OK;
}

/* A new group for the request of `any`. */
static struct group group_named(const struct group *any, const char *name)
{
	return (struct group){
		.request = any->request, .calibration = any->calibration, .arena = any->arena, .name = name
	};
}

/* ---- device ---------------------------------------------------------------------------------- */

static double best_rate(const struct group *g)
{
	double best = 0;

	for (uint32_t i = 0; i < g->n_obs; i++)
		best = fmax(best, amount_of(g->obs[i]) / g->measured[i]);
	return best;
}

/* Rounds up to two digits: a peak is a round number, the efficiency takes the rest. */
static double two_digits_up(double x)
{
	double unit = pow(10, floor(log10(x)) - 1);

	return ceil(x / unit) * unit;
}

/* Fits one factor if there are enough measurements. */
static enum mq_status fit_share(const struct group *any, const char *name, enum choice choice, uint32_t of,
				double *value, struct mq_err *err)
{
	struct group g = group_named(any, name);

	choose(&g, choice, of);
	if (g.n_obs < SHARE_MIN)
		return MQ_OK;
	add_param(&g, name, value, *value, .05, 4);
	return fit_group(&g, err);
}

static enum mq_status fit_gemms(const struct group *any, struct mq_err *err)
{
	static const char *const names[MQ_N_DTYPES] = { "peak_fp32_flops", "peak_tf32_flops", "peak_fp16_flops",
							"peak_bf16_flops", "peak_fp8_flops",  "peak_fp64_flops" };
	struct mq_device_calib *d = &any->calibration->device;
	struct group g = group_named(any, "gemm");
	bool cpu = any->request->kind == MQ_CPU;
	uint32_t main = MQ_N_DTYPES, most = 0;

	for (uint32_t t = 0; t < MQ_N_DTYPES; t++) {
		choose(&g, GEMM, t);
		if (g.n_obs)
			d->peak_flops[t] = two_digits_up(best_rate(&g));
		if (g.n_obs > most) {
			most = g.n_obs;
			main = t;
		}
	}
	if (main == MQ_N_DTYPES)
		return MQ_OK;
	choose(&g, ALIGNED_GEMM, main);
	bool whole = g.n_obs >= GEMMS_MIN;
	if (!whole)
		choose(&g, GEMM, main);
	add_param(&g, "gemm_eff", &d->gemm_eff, .95, .05, 2);
	add_param(&g, "gemm_kt", &d->gemm_kt, 20, .01, 1e4);
	add_param(&g, "gemm_a0", &d->gemm_a0, 10, .01, 1e4);
	d->gemm_t0_s = d->launch_s; /* a CPU's is that of any call (launch_s) */
	if (cpu) {
		add_param(&g, "gemm_b0", &d->gemm_b0, 20, .01, 1e4);
	} else {
		add_param(&g, "gemm_t0_s", &d->gemm_t0_s, 4e-6, 1e-9, 1e-3);
		add_param(&g, "gemm_q", &d->gemm_q, .3, .01, 1);
		add_param(&g, "gemm_bw_share", &d->gemm_bw_share, .8, .05, 1.5);
	}
	MQ_TRY(fit_group(&g, err));
	if (whole) {
		MQ_TRY(fit_share(any, "gemm_misaligned", MISALIGNED_GEMM, main, &d->gemm_misaligned, err));
		MQ_TRY(fit_share(any, "gemm_odd", ODD_GEMM, main, &d->gemm_odd, err));
	}
	for (uint32_t t = 0; t < MQ_N_DTYPES; t++) {
		struct group other = group_named(any, names[t]);

		/* The cost of misaligned rows is fitted for the main type alone. */
		choose(&other, ALIGNED_GEMM, t);
		if (other.n_obs < 4)
			choose(&other, GEMM, t);
		if (t == main || other.n_obs < 4)
			continue;
		/* One speed for all shapes, though small ones use other kernels: weigh by time, to be right for long
		 * ones. */
		for (uint32_t i = 0; i < other.n_obs; i++)
			other.weight[i] = other.measured[i];
		add_param(&other, names[t], &d->peak_flops[t], d->peak_flops[t], 1e6, 1e18);
		MQ_TRY(fit_group(&other, err));
	}
	if (main == MQ_FP32 && cpu)
		d->peak_flops[MQ_TF32] = d->peak_flops[MQ_FP32]; /* the same routine */
	return MQ_OK;
}

static enum mq_status fit_shares(const struct group *any, struct mq_err *err)
{
	struct group conv = group_named(any, "conv"), attention = group_named(any, "attention");
	struct mq_device_calib *d = &any->calibration->device;

	choose(&conv, KERNEL, MQ_KERNEL_CONV);
	if (conv.n_obs >= 4) {
		/* Convolutions are measured in one type; fp32 on a GPU with tensor cores has its own share. */
		bool plain = d->kind == MQ_GPU && kernel_of(conv.obs[0])->dtype == MQ_FP32 &&
			     d->peak_flops[MQ_FP16] > 2 * d->peak_flops[MQ_FP32];

		add_param(&conv, plain ? "conv_eff_simt" : "conv_eff", plain ? &d->conv_eff_simt : &d->conv_eff,
			  d->gemm_eff, .01, 1.5);
		MQ_TRY(fit_group(&conv, err));
	}
	choose(&attention, KERNEL, MQ_KERNEL_ATTENTION);
	if (attention.n_obs < 6)
		return MQ_OK;
	add_param(&attention, "attention_scale", &d->attention_scale, 1, .001, 10);
	add_param(&attention, "attention_bwd", &d->attention_bwd, 1, .01, 10);
	if (d->kind == MQ_CPU)
		add_param(&attention, "attention_score", &d->attention_score, 50, 1e-3, 1e4);
	return fit_group(&attention, err);
}

static enum mq_status fit_memory(const struct group *any, struct mq_err *err)
{
	struct mq_device_calib *d = &any->calibration->device;
	struct group g = group_named(any, "memory"), copy = group_named(any, "copy");

	choose(&g, SWEEP, 0);
	if (g.n_obs < SWEEPS_MIN)
		return mq_bad(err, "%u measurements of memory-bound kernels: at least 6 are needed to fix a bandwidth",
			      g.n_obs);
	d->mem_bw_Bps = two_digits_up(best_rate(&g));
	add_param(&g, "elementwise_bw_share", &d->elementwise_bw_share, .7, .001, 1.2);
	add_param(&g, "launch_s", &d->launch_s, d->kind == MQ_CPU ? 5e-7 : 3e-6, 1e-9, 1e-3);
	MQ_TRY(fit_group(&g, err));
	MQ_TRY(fit_share(any, "optimizer_share", KERNEL, MQ_KERNEL_OPTIMIZER, &d->optimizer_share, err));
	choose(&copy, COPY, 0);
	if (copy.n_obs < 4)
		return MQ_OK;
	add_param(&copy, "copy_bw_Bps", &d->copy_bw_Bps, best_rate(&copy), 1e3, 1e15);
	return fit_group(&copy, err);
}

/* ---- links ----------------------------------------------------------------------------------- */

const char *const mq_call_name[MQ_N_CALLS] = { "all_reduce", "all_gather", "reduce_scatter", "broadcast",
					       "reduce",     "alltoall",   "sendrecv" };

/* Start value of a knot: median of the observations nearest to its size, scaled to it. */
static double start_knot(const struct group *g, double size)
{
	enum { NEAREST = 5 };
	double *far = mq_arena_array(g->arena, g->n_obs, double), value[NEAREST];
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_obs; i++)
		far[i] = fabs(log(amount_of(g->obs[i]) / size));
	const uint32_t *near = mq_arena_order(g->arena, far, g->n_obs);
	for (; n < g->n_obs && n < NEAREST; n++) {
		double bytes = amount_of(g->obs[near[n]]), t = g->measured[near[n]];

		value[n] = size > bytes && bytes > 4096 ? t * size / bytes : t;
	}
	return mq_quantile(value, n, .5);
}

enum { LINE_SIZES = 2 };

/* Converts a line and its draws to knots. */
static void line_to_knots(struct mq_fitted *f, double *knot, struct mq_arena *arena)
{
	double *draws = mq_arena_array(arena, (size_t)f->n_draws * MQ_CALL_KNOTS, double);
	struct mq_fit_param *param = mq_arena_array(arena, MQ_CALL_KNOTS, struct mq_fit_param);
	const double *a = f->param[0].value, *b = f->param[1].value;

	for (uint32_t k = 0; k < MQ_CALL_KNOTS; k++) {
		double *sorted = mq_arena_array(arena, f->n_draws, double);

		for (uint32_t d = 0; d < f->n_draws; d++)
			sorted[d] = draws[(size_t)d * MQ_CALL_KNOTS + k] =
				f->draws[2 * (size_t)d] + f->draws[2 * (size_t)d + 1] * knot_size(k);
		knot[k] = *a + *b * knot_size(k);
		param[k] = (struct mq_fit_param){ .name = mq_arena_printf(arena, "%s_t%u_s", f->name, k + 1),
						  .value = &knot[k],
						  .min = 1e-9,
						  .max = 1e4,
						  .low = mq_quantile(sorted, f->n_draws, .025),
						  .high = mq_quantile(sorted, f->n_draws, .975) };
	}
	f->param = param;
	f->draws = draws;
	f->n_params = MQ_CALL_KNOTS;
}

/* Few sizes: fits a + S/b, starting from the least and the largest. */
static enum mq_status fit_line(struct group *g, struct mq_err *err)
{
	struct mq_calibration *c = g->calibration;
	double *line = mq_arena_array(g->arena, 2, double);
	uint32_t least = 0, most = 0;

	for (uint32_t i = 0; i < g->n_obs; i++) {
		least = amount_of(g->obs[i]) < amount_of(g->obs[least]) ? i : least;
		most = amount_of(g->obs[i]) > amount_of(g->obs[most]) ? i : most;
	}
	if (g->n_obs < LINE_SIZES || amount_of(g->obs[most]) < 2 * amount_of(g->obs[least]))
		return MQ_OK;
	/* A ring's all-reduce has twice the steps of others, so no call's latency exceeds twice the shortest call of
	 * the same ranks, however long other calls waited. */
	double shortest = INFINITY;
	for (uint32_t i = 0; i < g->request->n_observed; i++)
		if (!kernel_of(&g->request->observed[i]) && task_of(&g->request->observed[i])->kind != MQ_TASK_COPY)
			shortest = fmin(shortest, g->request->observed[i].time.median);
	double per_B = g->measured[most] / amount_of(g->obs[most]);
	g->line = line;
	add_param(g, "latency", &line[0], shortest / 2, 1e-9, 2 * shortest);
	add_param(g, "seconds per byte", &line[1], per_B, 1e-15, 1);
	MQ_TRY(fit_group(g, err));
	c->fitted[c->n_fitted - 1].link = true;
	line_to_knots(&c->fitted[c->n_fitted - 1], c->link.call_s[g->call], g->arena);
	return MQ_OK;
}

static enum mq_status fit_call(const struct group *any, uint32_t call, struct mq_err *err)
{
	struct mq_calibration *c = any->calibration;
	struct group g = group_named(any, mq_call_name[call]);

	g.call = call;
	choose(&g, CALL, call);
	if (!g.n_obs)
		return MQ_OK;
	if (any->request->partial && g.n_obs < 2 * MQ_CALL_KNOTS)
		return fit_line(&g, err);
	if (g.n_obs < MQ_CALL_KNOTS)
		return mq_bad(err, "%s: %u sizes measured, at least %d are needed (nccl-tests: -b 8 -e 128M -f 4)",
			      g.name, g.n_obs, MQ_CALL_KNOTS);
	for (uint32_t k = 0; k < MQ_CALL_KNOTS; k++)
		add_param(&g, mq_arena_printf(g.arena, "%s_t%u_s", g.name, k + 1), &c->link.call_s[call][k],
			  start_knot(&g, knot_size(k)), 1e-9, 1e4);
	MQ_TRY(fit_group(&g, err));
	c->fitted[c->n_fitted - 1].link = true;
	return MQ_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Seconds that a GEMM loses to a collective that overlaps it, per second of the collective. */
static double overlap_loss(const struct mq_calibration_request *r)
{
	enum { OVERLAPPED, ALONE, CALL_ALONE, N };
	double sum[N] = { 0 };
	uint32_t n[N] = { 0 };

	for (uint32_t i = 0; i < r->n_observed; i++) {
		const struct mq_observed *o = &r->observed[i];
		const struct mq_task *t = task_of(o);
		uint32_t block = 2 * o->schedule->n_devices;

		if (!o->schedule->model || strcmp(o->schedule->model, "probe-overlap"))
			continue;
		bool together = o->task / block % 2;
		int which = t->kind != MQ_TASK_COMPUTE ? CALL_ALONE : together ? OVERLAPPED : ALONE;

		if (which == CALL_ALONE && together)
			continue;
		sum[which] += o->time.median;
		n[which]++;
	}
	if (!n[OVERLAPPED] || !n[ALONE] || !n[CALL_ALONE])
		return NAN;
	return fmin(1, fmax(0, (sum[OVERLAPPED] / n[OVERLAPPED] - sum[ALONE] / n[ALONE]) /
				       (sum[CALL_ALONE] / n[CALL_ALONE])));
}

static void start_device(const struct mq_calibration_request *r, struct mq_device_calib *d)
{
	mq_calib_defaults(mq_calib_device_fields(), d);
	d->name = r->type;
	d->source = r->source;
	d->kind = r->kind;
	d->libraries = r->libraries;
	if (r->known) {
		d->power_W = r->known->power_W;
		d->power_idle = r->known->power_idle;
		d->power_s = r->known->power_s;
		d->flop_J = r->known->flop_J;
		d->flop_fp8 = r->known->flop_fp8;
		d->flop_fp4 = r->known->flop_fp4;
		d->memory_J = r->known->memory_J;
	}
	d->memory_B = r->memory_B > 0 ? r->memory_B : 1e9; /* unknown in samples of another node */
	d->sm_count = r->cores > 0 ? r->cores : d->sm_count;
	d->gemm_misaligned = d->gemm_odd = d->bmm_misaligned = 1;
	d->copy_bw_Bps = 1e9;
	if (r->kind == MQ_GPU && r->compute_capability > 0)
		d->compute_capability = r->compute_capability;
	if (r->kind == MQ_CPU) {
		d->compute_capability = 0;
		d->serial_comm = true;
		d->host_launch_s = 0;
		d->gemm_q = 0;
		d->gemm_bw_share = 1.5; /* packing covers the traffic; see kernels/cost.c */
		d->gemm_corner = 0;
		d->reserve_B = 5e7;
		d->fragmentation = 1;
	} else if (r->launch_interval_s > 0)
		d->host_launch_s = r->launch_interval_s;
	if (r->reserve_B > 0)
		d->reserve_B = r->reserve_B;
}

/* Does the request lack data for a device's bandwidth or its GEMMs? */
static bool lacks_device(const struct mq_calibration_request *r)
{
	uint32_t sweeps = 0, gemms[MQ_N_DTYPES] = { 0 }, most = 0;

	for (uint32_t i = 0; i < r->n_observed; i++) {
		sweeps += is(&r->observed[i], SWEEP, 0);
		for (uint32_t t = 0; t < MQ_N_DTYPES; t++)
			gemms[t] += is(&r->observed[i], GEMM, t);
	}
	for (uint32_t t = 0; t < MQ_N_DTYPES; t++)
		most = gemms[t] > most ? gemms[t] : most;
	return r->partial && (sweeps < SWEEPS_MIN || most < GEMMS_MIN);
}

enum mq_status mq_calibration_fit(const struct mq_calibration_request *request, struct mq_arena *arena,
				  struct mq_calibration *c, struct mq_err *err)
{
	const struct group any = { .request = request, .calibration = c, .arena = arena };

	memset(c, 0, sizeof(*c));
	c->fitted = mq_arena_array(arena, 2 * MQ_N_DTYPES + MQ_N_CALLS + 8, struct mq_fitted);
	start_device(request, &c->device);
	mq_calib_defaults(mq_calib_link_fields(), &c->link);
	c->link.name = request->link_class;
	c->link.source = request->source;
	c->link.bw_share = 1;
	c->link.measured_ranks = 0;
	c->n_observed = request->n_observed;
	for (uint32_t i = 0; i < request->n_observed; i++) {
		const struct mq_observed *o = &request->observed[i];
		uint8_t kind = task_of(o)->kind;

		c->n_dropped += o->n_dropped;
		c->n_weak += o->weak;
		c->has_device |= kernel_of(o) != NULL;
		if (kind == MQ_TASK_COLLECTIVE || kind == MQ_TASK_SEND)
			c->link.measured_ranks = o->schedule->n_devices;
	}
	c->has_device &= !lacks_device(request);
	if (c->has_device) { /* false: logs of collectives */
		MQ_TRY(fit_memory(&any, err));
		MQ_TRY(fit_gemms(&any, err));
		MQ_TRY(fit_shares(&any, err));
		/* Variation of whole runs: no parameter, but part of every interval. At least 3 %, since a few launches
		 * within a minute say little about the next hour (shared machines varied by 5 to 10 %). */
		c->fitted[c->n_fitted++] =
			(struct mq_fitted){ .name = "run",
					    .sigma = request->run_sigma > .03 ? request->run_sigma : .03,
					    .n_obs = c->n_observed };
	}
	double loss = overlap_loss(request);
	if (!isnan(loss))
		c->device.overlap_compute = loss;
	c->has_link = c->link.measured_ranks > 1;
	for (uint32_t call = 0; call < MQ_N_CALLS && c->has_link; call++)
		MQ_TRY(fit_call(&any, call, err));
	return MQ_OK;
}
