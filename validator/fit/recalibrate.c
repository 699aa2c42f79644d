/* recalibrate.c - corrects a calibration by measured plans: one scale per kind of speed.
 *
 * A plan's tasks are too similar to refit a GEMM's shape parameters, but they determine scales: of GEMMs, convolutions,
 * attention, memory-bound work and kernel launches, fitted jointly to whole compute tasks (which mix kernels) without
 * overlap; of latency and bandwidth of calls, fitted jointly; and the share of compute lost to communication, the
 * median over overlapped tasks after the other corrections. Tasks with convolutions or attention that the replay
 * replaced are left out. A scale that no observation depends on, or whose effect equals another's, is not fitted.
 *
 * On devices whose communication needs the core (serial_comm) most calls in a plan wait for a peer's computation: there
 * bandwidth is the lower quartile of the ratios of large calls, latency that of small ones.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "costing/predict.h"
#include "fit/fit.h"
#include "hardware/calib_fields.h"

struct scale {
	const char *name;
	double factor;
	double *value[2]; /* values that it multiplies (of times: divides) */
	bool time;
	double start[2], min[2], max[2]; /* the range of a calibration file's fields */
};

struct context {
	struct mq_recalibration *r;
	const struct mq_observed **obs;
	double *measured;
	uint32_t n_obs, n_scales;
	struct scale scale[6];
	struct mq_predictor predictor;
	struct mq_calib *calib;
	struct mq_cluster *cluster;
	double call_start[MQ_N_CALLS][MQ_CALL_KNOTS];
	bool comm;
};

static const char LATENCY[] = "latency of calls", BANDWIDTH[] = "bandwidth of calls";

static double factor_of(const struct context *c, const char *name)
{
	for (uint32_t i = 0; i < c->n_scales; i++)
		if (c->scale[i].name == name)
			return c->scale[i].factor;
	return 1;
}

static void apply(struct context *c)
{
	struct mq_link_calib *link = c->r->link;
	struct mq_err ignored;

	for (uint32_t i = 0; i < c->n_scales; i++)
		for (int v = 0; v < 2; v++)
			if (c->scale[i].value[v]) {
				const struct scale *s = &c->scale[i];
				double value = s->time ? s->start[v] / s->factor : s->start[v] * s->factor;

				*s->value[v] = fmin(fmax(value, s->min[v]), s->max[v]);
			}
	if (!c->comm)
		return;
	/* The least size's time is latency, the further time of larger ones is bandwidth. */
	double latency = factor_of(c, LATENCY), bandwidth = factor_of(c, BANDWIDTH);
	for (uint32_t k = 0; k < MQ_N_CALLS; k++)
		for (int j = 0; j < MQ_CALL_KNOTS; j++)
			link->call_s[k][j] =
				c->call_start[k][0] / latency + (c->call_start[k][j] - c->call_start[k][0]) / bandwidth;
	if (mq_calib_bind(c->calib, c->cluster, &ignored) != MQ_OK)
		mq_assert(!"a cluster that was bound before binds again");
}

static void predict(void *context, double *predicted)
{
	struct context *c = context;
	struct mq_err ignored;

	apply(c);
	for (uint32_t i = 0; i < c->n_obs; i++)
		if (mq_predict_task(&c->predictor, c->obs[i]->schedule, c->obs[i]->task, &predicted[i], &ignored) !=
		    MQ_OK)
			predicted[i] = NAN;
}

/* Adds a scale of the values a and b (or NULL) of `entry`, which has these fields. */
static void add_scale(struct context *c, const char *name, bool time, const struct mq_calib_field *fields, void *entry,
		      double *a, double *b)
{
	struct scale s = { .name = name, .factor = 1, .value = { a, b }, .time = time, .start = { *a, b ? *b : 0 } };

	for (const struct mq_calib_field *f = fields; f->name; f++)
		for (int v = 0; v < 2; v++)
			if (s.value[v] == mq_calib_at(f, entry)) {
				s.min[v] = f->min;
				s.max[v] = f->max;
			}
	c->scale[c->n_scales++] = s;
}

/* A task overlapped by communication for less than this share of its time counts as not overlapped. */
#define APART .1

enum company { ALONE, OVERLAPPED, ANY };

/* Chooses the observations on this device type or link, computations by their overlap. */
static void choose(struct context *c, const struct mq_observed *observed, uint32_t n, enum company company,
		   struct mq_arena *arena)
{
	c->obs = mq_arena_array(arena, n, const struct mq_observed *);
	c->measured = mq_arena_array(arena, n, double);
	c->n_obs = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct mq_task *t = &observed[i].schedule->task[observed[i].task];
		bool comm = t->kind != MQ_TASK_COMPUTE && t->kind != MQ_TASK_COPY;
		const char *type = observed[i].schedule->device_type[t->device];

		if (comm != c->comm || t->kind == MQ_TASK_COPY || !(observed[i].time.median > 0))
			continue;
		if (!comm && (strcmp(type, c->r->device->name) || observed[i].imitated & MQ_IMITATES_GEMMS ||
			      (company != ANY && (observed[i].overlapped > APART) != (company == OVERLAPPED))))
			continue;
		c->obs[c->n_obs] = &observed[i];
		c->measured[c->n_obs++] = observed[i].time.median;
	}
}

/* Cosine between two scales' effects on the predictions. */
static double likeness(const double *a, const double *b, uint32_t n)
{
	double ab = 0, aa = 0, bb = 0;

	for (uint32_t i = 0; i < n; i++) {
		ab += a[i] * b[i];
		aa += a[i] * a[i];
		bb += b[i] * b[i];
	}
	return ab / sqrt(aa * bb);
}

#define PARALLEL .98 /* above this two scales cannot be separated */

/* Drops scales that change every prediction by less than 1 % of their own change, or whose effect equals an earlier
 * scale's. */
static void drop_idle(struct context *c, struct mq_arena *arena)
{
	double *base = mq_arena_array(arena, c->n_obs, double), *effect[6];
	uint32_t kept = 0;

	predict(c, base);
	for (uint32_t i = 0; i < c->n_scales; i++) {
		double most = 0;
		bool told = false;

		effect[kept] = mq_arena_array(arena, c->n_obs, double);
		c->scale[i].factor = 1.1;
		predict(c, effect[kept]);
		c->scale[i].factor = 1;
		apply(c);
		for (uint32_t o = 0; o < c->n_obs; o++) {
			effect[kept][o] = effect[kept][o] / base[o] - 1;
			most = fmax(most, fabs(effect[kept][o]));
		}
		for (uint32_t k = 0; k < kept; k++)
			told |= likeness(effect[k], effect[kept], c->n_obs) > PARALLEL;
		if (most > 1e-3 && !told)
			c->scale[kept++] = c->scale[i];
	}
	c->n_scales = kept;
}

static void report(struct mq_recalibration *r, const char *name, double *value)
{
	mq_assert(r->n_fitted < sizeof(r->param) / sizeof(r->param[0]));
	r->param[r->n_fitted++] =
		(struct mq_fit_param){ .name = name, .value = value, .min = .02, .max = 50, .low = NAN, .high = NAN };
}

enum { SMALL_CALL_B = 4096, LARGE_CALL_B = 65536, CALLS_MIN = 8, OVERLAPPED_MIN = 8 };

/* Measured / predicted speed of calls between `least` and `most` bytes, by the quartile that waited least. */
static bool quartile(const struct context *c, const double *predicted, double least, double most,
		     struct mq_arena *arena, double *factor)
{
	double *ratio = mq_arena_array(arena, c->n_obs, double);
	uint32_t kept = 0;

	for (uint32_t i = 0; i < c->n_obs; i++) {
		const struct mq_task *t = &c->obs[i]->schedule->task[c->obs[i]->task];

		if (t->bytes >= least && t->bytes <= most && isfinite(predicted[i]) && predicted[i] > 0)
			ratio[kept++] = c->measured[i] / predicted[i];
	}
	if (kept < CALLS_MIN)
		return false;
	*factor = 1 / mq_quantile(ratio, kept, .25);
	return true;
}

static enum mq_status scale_serial(struct context *c, const struct mq_observed *observed, uint32_t n,
				   struct mq_arena *arena)
{
	double *predicted = mq_arena_array(arena, n, double);

	choose(c, observed, n, ALONE, arena);
	predict(c, predicted);
	for (uint32_t s = 0; s < c->n_scales; s++) {
		bool small = c->scale[s].name == LATENCY;

		if (quartile(c, predicted, small ? 0 : LARGE_CALL_B, small ? SMALL_CALL_B : (double)INFINITY, arena,
			     &c->scale[s].factor))
			report(c->r, c->scale[s].name, &c->scale[s].factor);
	}
	apply(c);
	return MQ_OK;
}

static enum mq_status fit_scales(struct context *c, const struct mq_observed *observed, uint32_t n,
				 struct mq_arena *arena, struct mq_err *err)
{
	struct mq_recalibration *r = c->r;
	uint32_t first = r->n_fitted;

	choose(c, observed, n, ALONE, arena);
	if (c->n_obs < 3) /* nearly all are overlapped: include them */
		choose(c, observed, n, ANY, arena);
	drop_idle(c, arena);
	while (c->n_obs < 3 * c->n_scales) /* the first scales are the largest parts of a step */
		c->n_scales--;
	if (!c->n_scales)
		return MQ_OK;
	for (uint32_t i = 0; i < c->n_scales; i++)
		report(r, c->scale[i].name, &c->scale[i].factor);
	struct mq_fit fit = { .n_obs = c->n_obs,
			      .n_params = c->n_scales,
			      .measured = c->measured,
			      .param = r->param + first,
			      .predict = predict,
			      .context = c };
	MQ_TRY(mq_fit_solve(&fit, arena, err));
	apply(c);
	return MQ_OK;
}

/* A task of T seconds, of which communication overlaps a share s, does the work of T - s T loss seconds; so with
 * corrected speeds loss = (T - predicted) / (s T). */
static void fit_overlap(struct context *c, const struct mq_observed *observed, uint32_t n, struct mq_arena *arena)
{
	double *predicted = mq_arena_array(arena, n, double), *loss = mq_arena_array(arena, n, double);
	uint32_t alone, kept = 0;

	choose(c, observed, n, ALONE, arena);
	alone = c->n_obs;
	choose(c, observed, n, OVERLAPPED, arena);
	if (c->r->device->serial_comm || alone < OVERLAPPED_MIN)
		return;
	predict(c, predicted);
	for (uint32_t i = 0; i < c->n_obs; i++)
		if (isfinite(predicted[i]))
			loss[kept++] = (c->measured[i] - predicted[i]) / (c->measured[i] * c->obs[i]->overlapped);
	if (kept < OVERLAPPED_MIN)
		return;
	c->r->device->overlap_compute = fmin(fmax(mq_quantile(loss, kept, .5), 0), 1);
	report(c->r, "overlap, share of compute lost beside communication", &c->r->device->overlap_compute);
}

enum mq_status mq_recalibrate(struct mq_recalibration *r, struct mq_calib *calib, struct mq_cluster *cluster,
			      const struct mq_observed *observed, uint32_t n, struct mq_arena *arena,
			      struct mq_err *err)
{
	struct mq_device_calib *d = r->device;
	struct context *compute = mq_arena_array(arena, 1, struct context);
	struct context *comm = mq_arena_array(arena, 1, struct context);

	*compute =
		(struct context){ .r = r, .calib = calib, .cluster = cluster, .predictor = { cluster, calib, arena } };
	*comm = *compute;
	comm->comm = true;
	r->n_fitted = 0;
	const struct mq_calib_field *f = mq_calib_device_fields();
	add_scale(compute, "matrix products", false, f, d, &d->gemm_eff, &d->gemm_bw_share);
	add_scale(compute, "convolutions", false, f, d, &d->conv_eff, &d->conv_eff_simt);
	add_scale(compute, "attention", false, f, d, &d->attention_scale, NULL);
	add_scale(compute, "memory-bound kernels", false, f, d, &d->elementwise_bw_share, NULL);
	add_scale(compute, "launch of kernels", true, f, d, &d->launch_s, &d->gemm_t0_s);
	MQ_TRY(fit_scales(compute, observed, n, arena, err));
	fit_overlap(compute, observed, n, arena);
	if (!r->link)
		return MQ_OK;
	memcpy(comm->call_start, r->link->call_s, sizeof(comm->call_start));
	f = mq_calib_link_fields();
	add_scale(comm, BANDWIDTH, false, f, r->link, &r->link->bw_share, NULL);
	add_scale(comm, LATENCY, true, f, r->link, &r->link->latency_scale, &r->link->p2p_latency_s);
	if (d->serial_comm)
		return scale_serial(comm, observed, n, arena);
	return fit_scales(comm, observed, n, arena, err);
}
