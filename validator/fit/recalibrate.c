/*
 * recalibrate.c - corrects a calibration from plans that were run: one scale per kind of speed.
 *
 * Tasks of a plan are too alike to fix the shape parameters of a GEMM again, but they fix how fast
 * the machine is in each respect: a scale for matrix products, convolutions, attention and
 * memory-bound work, fitted jointly to whole compute tasks (a task mixes kernels), and one for
 * communication, fitted to its calls. A scale that no observation depends on is left alone.
 *
 * On devices whose communication needs the core (serial_comm) a call in a plan may wait for a
 * partner's computation, so most are longer than the call alone: there the scale is the lower
 * quartile of the ratios of large calls.
 */
#include <math.h>
#include <string.h>

#include "core/cost.h"
#include "fit/fit.h"

struct scale {
	const char *name;
	double factor;
	double *value[2]; /* what it multiplies */
	double start[2], min[2], max[2]; /* within what a calibration file may say */
};

struct context {
	struct mq_recalibration *r;
	const struct mq_observed **obs;
	double *measured;
	uint32_t n_obs, n_scales;
	struct scale scale[5];
	struct mq_predictor predictor;
	struct mq_calib *calib;
	struct mq_cluster *cluster;
	double call_start[MQ_N_CALLS][MQ_CALL_KNOTS];
	bool comm;
};

static double within(const struct scale *s, int v)
{
	return fmin(fmax(s->start[v] * s->factor, s->min[v]), s->max[v]);
}

static void apply(struct context *c)
{
	struct mq_link_calib *link = c->r->link;
	struct mq_err ignored;

	for (uint32_t i = 0; i < c->n_scales; i++)
		for (int v = 0; v < 2; v++)
			if (c->scale[i].value[v])
				*c->scale[i].value[v] = within(&c->scale[i], v);
	if (!c->comm)
		return;
	/* Speeds are scaled: times go the other way. */
	for (uint32_t k = 0; k < MQ_N_CALLS; k++)
		for (int j = 0; j < MQ_CALL_KNOTS; j++)
			link->call_s[k][j] = c->call_start[k][j] / c->scale[0].factor;
	if (mq_calib_bind(c->calib, c->cluster, &ignored) != MQ_OK)
		mq_assert(!"a cluster that was bound before binds again");
}

static void predict(void *context, double *predicted)
{
	struct context *c = context;
	struct mq_err ignored;

	apply(c);
	for (uint32_t i = 0; i < c->n_obs; i++)
		if (mq_predict_task(&c->predictor, c->obs[i]->schedule, c->obs[i]->task,
		                    &predicted[i], &ignored) != MQ_OK)
			predicted[i] = NAN;
}

/* `fields` are those of `entry`, which a and b (or NULL) are values of. */
static void add_scale(struct context *c, const char *name, const struct mq_calib_field *fields,
                      void *entry, double *a, double *b)
{
	struct scale s = {.name = name, .factor = 1, .value = {a, b}, .start = {*a, b ? *b : 0}};

	for (const struct mq_calib_field *f = fields; f->name; f++)
		for (int v = 0; v < 2; v++)
			if ((char *)s.value[v] == (char *)entry + f->offset) {
				s.min[v] = f->min;
				s.max[v] = f->max;
			}
	c->scale[c->n_scales++] = s;
}

/* Observations of the kind at hand on this device type or link. */
static void choose(struct context *c, const struct mq_observed *observed, uint32_t n,
                   struct mq_arena *arena)
{
	c->obs = mq_arena_array(arena, n, const struct mq_observed *);
	c->measured = mq_arena_array(arena, n, double);
	for (uint32_t i = 0; i < n; i++) {
		const struct mq_task *t = &observed[i].schedule->task[observed[i].task];
		bool comm = t->kind != MQ_TASK_COMPUTE && t->kind != MQ_TASK_COPY;
		const char *type = observed[i].schedule->device_type[t->device];

		if (comm != c->comm || t->kind == MQ_TASK_COPY || !(observed[i].time.median > 0))
			continue;
		if (!comm && strcmp(type, c->r->device->name))
			continue;
		c->obs[c->n_obs] = &observed[i];
		c->measured[c->n_obs++] = observed[i].time.median;
	}
}

/* Leaves out scales that change no prediction by at least a hundredth of their own change. */
static void drop_idle(struct context *c, struct mq_arena *arena)
{
	double *base = mq_arena_array(arena, c->n_obs, double);
	double *moved = mq_arena_array(arena, c->n_obs, double);
	uint32_t kept = 0;

	predict(c, base);
	for (uint32_t i = 0; i < c->n_scales; i++) {
		double most = 0;

		c->scale[i].factor = 1.1;
		predict(c, moved);
		c->scale[i].factor = 1;
		apply(c);
		for (uint32_t o = 0; o < c->n_obs; o++)
			most = fmax(most, fabs(moved[o] / base[o] - 1));
		if (most > 1e-3)
			c->scale[kept++] = c->scale[i];
	}
	c->n_scales = kept;
}

enum { LARGE_CALL_B = 65536, CALLS_MIN = 8 };

static enum mq_status scale_serial(struct context *c, const struct mq_observed *observed,
                                   uint32_t n, struct mq_arena *arena)
{
	double *predicted = mq_arena_array(arena, n, double),
	       *ratio = mq_arena_array(arena, n, double);
	uint32_t kept = 0;

	choose(c, observed, n, arena);
	predict(c, predicted);
	for (uint32_t i = 0; i < c->n_obs; i++) {
		const struct mq_task *t = &c->obs[i]->schedule->task[c->obs[i]->task];

		if (t->bytes >= LARGE_CALL_B && isfinite(predicted[i]) && predicted[i] > 0)
			ratio[kept++] = c->measured[i] / predicted[i];
	}
	if (kept < CALLS_MIN)
		return MQ_OK;
	c->scale[0].factor = 1 / mq_quantile(ratio, kept, .25);
	apply(c);
	c->r->param[c->r->n_fitted++] = (struct mq_fit_param){.name = c->scale[0].name,
	                                                      .value = &c->scale[0].factor,
	                                                      .min = .02,
	                                                      .max = 50,
	                                                      .low = NAN,
	                                                      .high = NAN};
	return MQ_OK;
}

static enum mq_status fit_scales(struct context *c, const struct mq_observed *observed, uint32_t n,
                                 struct mq_arena *arena, struct mq_err *err)
{
	struct mq_recalibration *r = c->r;
	uint32_t first = r->n_fitted;

	choose(c, observed, n, arena);
	drop_idle(c, arena);
	if (c->n_obs < 3 * c->n_scales || !c->n_scales)
		return MQ_OK;
	for (uint32_t i = 0; i < c->n_scales; i++)
		r->param[r->n_fitted++] = (struct mq_fit_param){.name = c->scale[i].name,
		                                                .value = &c->scale[i].factor,
		                                                .min = .02,
		                                                .max = 50,
		                                                .low = NAN,
		                                                .high = NAN};
	struct mq_fit fit = {.n_obs = c->n_obs,
	                     .n_params = c->n_scales,
	                     .measured = c->measured,
	                     .param = r->param + first,
	                     .predict = predict,
	                     .context = c};
	MQ_TRY(mq_fit_solve(&fit, arena, err));
	apply(c);
	return MQ_OK;
}

enum mq_status mq_recalibrate(struct mq_recalibration *r, struct mq_calib *calib,
                              struct mq_cluster *cluster, const struct mq_observed *observed,
                              uint32_t n, struct mq_arena *arena, struct mq_err *err)
{
	struct mq_device_calib *d = r->device;
	struct context *compute = mq_arena_array(arena, 1, struct context);
	struct context *comm = mq_arena_array(arena, 1, struct context);

	*compute = (struct context){
	        .r = r, .calib = calib, .cluster = cluster, .predictor = {cluster, calib, arena}};
	*comm = *compute;
	comm->comm = true;
	r->n_fitted = 0;
	const struct mq_calib_field *f = mq_calib_device_fields();
	add_scale(compute, "matrix products", f, d, &d->gemm_eff, &d->gemm_bw_share);
	add_scale(compute, "convolutions", f, d, &d->conv_eff, &d->conv_eff_simt);
	add_scale(compute, "attention", f, d, &d->attention_eff, NULL);
	add_scale(compute, "memory-bound kernels", f, d, &d->elementwise_bw_share, NULL);
	MQ_TRY(fit_scales(compute, observed, n, arena, err));
	if (!r->link)
		return MQ_OK;
	memcpy(comm->call_start, r->link->call_s, sizeof(comm->call_start));
	add_scale(comm, "communication", mq_calib_link_fields(), r->link, &r->link->bw_share,
	          NULL);
	if (d->serial_comm)
		return scale_serial(comm, observed, n, arena);
	return fit_scales(comm, observed, n, arena, err);
}
