/* uncertainty.c - uncertainty of predictions.
 *
 * Three sources, all from the calibration file: the variation of whole runs; the parameters (a joint bootstrap draw per
 * group); and the model's form (residuals of the fit: a log-normal error per draw for each distinct kernel shape and
 * kind of communication call, since a shape errs equally each time). A draw is the schedule with perturbed times, run
 * like any other. Draws are relative to the fitted value and scale the value in use, so an interval lies around its
 * prediction even after values were corrected or overridden.
 *
 * The machine's drift during a replay is added, so that intervals hold on a busy machine. Schedules take turns, so
 * sample i of all falls into the same seconds: its deviation from their medians that all have in common is the
 * machine's drift; a schedule's further deviation from launch to launch comes from memory, cores and neighbours. A
 * prediction is subject to both, since it was calibrated at another time and in other launches. With few samples both
 * are widened by Student's t.
 *
 * Not covered: changes slower than the replay, effects that no probe has, such as caches warm from the task before.
 * SPDX-License-Identifier: Apache-2.0 */
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_statistics.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "maquette/cost.h"
#include "maquette/map.h"
#include "costing/predict.h"
#include "fit/fit.h"
#include "hardware/calib_fields.h"

/* ---- reading --------------------------------------------------------------------------------- */

static double number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static void read_draws(struct mq_uncertain *u, const json_t *draws, struct mq_arena *arena)
{
	u->n_draws = (uint32_t)json_array_size(draws);
	u->draw = mq_arena_array(arena, (size_t)u->n_draws * u->n_params, double);
	for (uint32_t d = 0; d < u->n_draws; d++) {
		const char *text = json_string_value(json_array_get(draws, d));
		char *end = NULL;

		for (uint32_t p = 0; p < u->n_params; p++) {
			double x = text ? strtod(text, &end) : (double)NAN;

			u->draw[(size_t)d * u->n_params + p] = text && end != text ? x : (double)NAN;
			text = end;
		}
	}
}

static double median_draw(const struct mq_uncertain *u, uint32_t param, struct mq_arena *arena)
{
	double *sorted = mq_arena_array(arena, u->n_draws, double);
	uint32_t n = 0;

	for (uint32_t d = 0; d < u->n_draws; d++)
		if (isfinite(u->draw[(size_t)d * u->n_params + param]))
			sorted[n++] = u->draw[(size_t)d * u->n_params + param];
	return mq_quantile(sorted, n, .5);
}

/* Divides draws by the fitted value, or by their median if the file lacks it. Draws of a parameter fitted as 0 become
 * 1. */
static void make_relative(struct mq_uncertain *u, const json_t *fitted, struct mq_arena *arena)
{
	for (uint32_t p = 0; p < u->n_params; p++) {
		const json_t *value = json_array_get(fitted, p);
		double middle = json_is_number(value) ? json_number_value(value) : median_draw(u, p, arena);

		for (uint32_t d = 0; d < u->n_draws; d++) {
			double *x = &u->draw[(size_t)d * u->n_params + p];

			*x = middle > 0 ? *x / middle : 1;
		}
	}
}

static struct mq_uncertain *find_group(const struct mq_uncertainty *all, const char *entry, const char *group)
{
	for (uint32_t i = 0; i < all->n; i++)
		if (!strcmp(all->group[i].entry, entry) && !strcmp(all->group[i].group, group))
			return &all->group[i];
	return NULL;
}

static void read_group(struct mq_uncertainty *all, const char *entry, bool link, const json_t *group,
		       struct mq_arena *arena)
{
	const json_t *names = json_object_get(group, "parameters");
	const char *title = json_string_value(json_object_get(group, "group"));
	struct mq_uncertain u = { .entry = mq_arena_strdup(arena, entry),
				  .link = link,
				  .group = mq_arena_strdup(arena, title ? title : ""),
				  .sigma = number(group, "sigma"),
				  .least = number(group, "valid_from"),
				  .most = number(group, "valid_to"),
				  .n_params = (uint32_t)json_array_size(names) };

	u.param = mq_arena_array(arena, u.n_params, const char *);
	for (uint32_t p = 0; p < u.n_params; p++) {
		const char *name = json_string_value(json_array_get(names, p));

		u.param[p] = mq_arena_strdup(arena, name ? name : "");
	}
	read_draws(&u, json_object_get(group, "draws"), arena);
	make_relative(&u, json_object_get(group, "fitted"), arena);
	struct mq_uncertain *older = find_group(all, u.entry, u.group);
	if (older)
		*older = u;
	else
		MQ_PUSH(arena, all->group, all->n, all->room, u);
}

static void read_entry(struct mq_uncertainty *all, const json_t *entry, struct mq_arena *arena)
{
	const char *kind = json_string_value(json_object_get(entry, "kind"));
	const char *name = json_string_value(json_object_get(entry, "name"));
	const json_t *groups = json_object_get(entry, "fit");

	for (size_t i = 0; i < json_array_size(groups); i++)
		read_group(all, name ? name : "", kind && !strcmp(kind, "link"), json_array_get(groups, i), arena);
}

enum mq_status mq_uncertainty_load(struct mq_uncertainty *uncertainty, const char *path, struct mq_arena *arena,
				   struct mq_err *err)
{
	json_error_t where;
	json_auto_t *root = json_load_file(path, 0, &where);

	if (!root)
		return mq_bad(err, "%s:%d: %s", path, where.line, where.text);
	const json_t *entries = json_object_get(root, "entries");
	if (!json_is_array(entries))
		read_entry(uncertainty, root, arena);
	for (size_t i = 0; i < json_array_size(entries); i++)
		read_entry(uncertainty, json_array_get(entries, i), arena);
	return MQ_OK;
}

/* ---- perturbing ------------------------------------------------------------------------------ */

static const char *kernel_group(const struct mq_kernel *k)
{
	switch (k->kind) {
	case MQ_KERNEL_GEMM:
	case MQ_KERNEL_RECURRENT:
		return "gemm";
	case MQ_KERNEL_CONV:
		return "conv";
	case MQ_KERNEL_ATTENTION:
		return "attention";
	default:
		return "memory";
	}
}

static void scale_fields(const struct mq_calib_field *fields, void *entry, const struct mq_uncertain *u, uint32_t draw)
{
	for (; fields->name; fields++)
		for (uint32_t p = 0; p < u->n_params; p++) {
			double x = u->draw[(size_t)draw * u->n_params + p];
			double *value = mq_calib_at(fields, entry);

			if (!strcmp(fields->name, u->param[p]) && isfinite(x))
				*value = fmin(fmax(*value * x, fields->min), fields->max);
		}
}

static double error_factor(uint64_t seed, const char *entry, const void *key, size_t size, double sigma)
{
	struct mq_rng rng;

	if (!(sigma > 0))
		return 1;
	mq_rng_seed(&rng, mq_hash(mq_hash(seed, entry, strlen(entry)), key, size));
	return exp(sigma * mq_rng_normal(&rng));
}

static struct mq_calib *perturb_calib(const struct mq_interval_request *r, uint32_t draw, uint64_t seed,
				      struct mq_arena *arena)
{
	struct mq_calib *calib = mq_arena_array(arena, 1, struct mq_calib);

	*calib = *r->calib;
	calib->device = mq_arena_array(arena, calib->n_devices, struct mq_device_calib);
	calib->link = mq_arena_array(arena, calib->n_links, struct mq_link_calib);
	for (uint32_t d = 0; d < calib->n_devices; d++)
		calib->device[d] = r->calib->device[d];
	for (uint32_t l = 0; l < calib->n_links; l++)
		calib->link[l] = r->calib->link[l];
	for (uint32_t i = 0; i < r->uncertainty->n; i++) {
		const struct mq_uncertain *u = &r->uncertainty->group[i];

		for (uint32_t d = 0; !u->link && u->n_draws && d < calib->n_devices; d++)
			if (!strcmp(calib->device[d].name, u->entry))
				scale_fields(mq_calib_device_fields(), &calib->device[d], u, draw % u->n_draws);
		for (uint32_t l = 0; u->link && u->n_draws && l < calib->n_links; l++)
			if (!strcmp(calib->link[l].name, u->entry))
				scale_fields(mq_calib_link_fields(), &calib->link[l], u, draw % u->n_draws);
	}
	for (uint32_t l = 0; l < calib->n_links; l++)
		for (uint32_t c = 0; c < MQ_N_CALLS; c++) {
			const struct mq_uncertain *u = find_group(r->uncertainty, calib->link[l].name, mq_call_name[c]);
			double f = error_factor(seed, calib->link[l].name, &c, sizeof(c), u ? u->sigma : 0);

			for (int k = 0; k < MQ_CALL_KNOTS; k++)
				calib->link[l].call_s[c][k] *= f;
		}
	return calib;
}

/* Perturbed time of a work on a device type, each distinct shape with its own error. */
static double perturbed_cost(const struct mq_interval_request *r, const struct mq_device_calib *device,
			     const struct mq_work *work, uint64_t seed, uint32_t *outside)
{
	double busy = 0, host = 0, calls = 0;

	for (uint32_t i = 0; i < work->n_kernels; i++) {
		const struct mq_kernel *k = &work->kernel[i];
		const struct mq_uncertain *u = find_group(r->uncertainty, device->name, kernel_group(k));
		double shape[6] = { k->kind + 16.0 * k->phase, k->m, k->n, k->k, k->count, k->bytes };
		bool memory = !strcmp(kernel_group(k), "memory");
		double amount = memory ? k->bytes : k->flop;

		if (u && amount > 0 && (amount < u->least / 2 || amount > u->most * 2))
			++*outside;
		busy += mq_cost_kernel(device, k) *
			error_factor(seed, device->name, shape, sizeof(shape), u ? u->sigma : 0);
		host += k->launches * device->host_launch_s;
		calls += k->kind == MQ_KERNEL_CALL ? k->time_s : 0;
	}
	if (work->host > 0)
		host *= work->host;
	/* The error of the whole run, per device type. */
	const struct mq_uncertain *run = find_group(r->uncertainty, device->name, "run");
	return mq_cost_issued(busy, host + calls, work->waits) *
	       error_factor(seed, device->name, "run", 3, run ? run->sigma : 0);
}

/* A copy of the schedule whose works have perturbed times, one work for each device type and clock. */
static struct mq_schedule *priced(const struct mq_interval_request *r, const struct mq_schedule *s,
				  const struct mq_calib *calib, uint64_t seed, uint32_t *outside,
				  struct mq_arena *arena)
{
	struct mq_schedule *copy = mq_arena_array(arena, 1, struct mq_schedule);
	struct mq_map prices;

	mq_map_init(&prices, arena, s->n_works);
	*copy = *s;
	copy->arena = arena;
	copy->task = mq_arena_array(arena, s->n_tasks, struct mq_task);
	memcpy(copy->task, s->task, s->n_tasks * sizeof(*s->task));
	copy->work = NULL;
	copy->n_works = copy->work_room = 0;
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		if (s->task[i].kind != MQ_TASK_COMPUTE)
			continue;
		struct mq_work work = s->work[s->task[i].work];
		const struct mq_device_calib device = mq_predict_device(r->cluster, calib, s, s->task[i].device);
		const double key[] = { s->task[i].work, r->cluster->device[s->device[s->task[i].device]].calib,
				       device.clock };

		copy->task[i].work = mq_map_add(&prices, mq_hash(MQ_HASH_INIT, key, sizeof(key)));
		if (copy->task[i].work == copy->n_works) {
			double cost = perturbed_cost(r, &device, &work, seed, outside);

			work.kernel = mq_arena_array(arena, 1, struct mq_kernel);
			work.kernel[0] = (struct mq_kernel){ .op = MQ_NONE, .kind = MQ_KERNEL_TIMED, .time_s = cost };
			work.n_kernels = 1;
			MQ_PUSH(arena, copy->work, copy->n_works, copy->work_room, work);
		}
	}
	return copy;
}

/* Sets the interval to the middle 95 % of the draws. */
static void set_ends(struct mq_interval *interval, uint32_t n_draws, struct mq_arena *arena)
{
	double *sorted = mq_arena_array(arena, n_draws, double);
	uint32_t kept = 0;

	for (uint32_t d = 0; d < n_draws; d++)
		if (isfinite(interval->factor[d]))
			sorted[kept++] = interval->factor[d];
	interval->low = mq_quantile(sorted, kept, .025);
	interval->high = mq_quantile(sorted, kept, .975);
}

enum mq_status mq_interval_of(const struct mq_interval_request *r, const struct mq_schedule *schedule,
			      struct mq_arena *arena, struct mq_interval *interval, struct mq_err *err)
{
	double base = r->run(r->context, schedule, r->cluster, r->calib);
	uint32_t outside = 0;

	*interval = (struct mq_interval){ .factor = mq_arena_array(arena, r->n_draws, double) };
	if (!(base > 0))
		return mq_bad(err, "no step time to put an interval around");
	for (uint32_t d = 0; d < r->n_draws; d++) {
		struct mq_arena_mark mark = mq_arena_mark(arena);
		uint64_t seed = mq_hash(mq_hash(MQ_HASH_INIT, &r->seed, sizeof(r->seed)), &d, sizeof(d));

		outside = 0;
		struct mq_calib *calib = perturb_calib(r, d, seed, arena);
		struct mq_schedule *s = priced(r, schedule, calib, seed, &outside, arena);
		interval->factor[d] = r->run(r->context, s, r->cluster, calib) / base;
		mq_arena_rewind(arena, mark);
	}
	set_ends(interval, r->n_draws, arena);
	interval->n_extrapolated = outside;
	return MQ_OK;
}

double mq_probability_less(double a, const double *fa, double b, const double *fb, uint32_t n)
{
	double wins = 0;

	for (uint32_t i = 0; i < n; i++)
		wins += a * fa[i] < b * fb[i] ? 1 : a * fa[i] > b * fb[i] ? 0 : .5;
	return n ? wins / n : (double)NAN;
}

/* ---- drift ------------------------------------------------------------------------------------ */

/* log(step / median of the schedule), of an undisturbed sample; NaN: disturbed. */
static double deviation(const struct mq_measured *m, uint32_t sample, double median)
{
	return sample < m->n_samples && !m->disturbed[sample] && m->step_s[sample] > 0 ?
		       log(m->step_s[sample] / median) :
		       (double)NAN;
}

/* Median deviation of a launch's samples from the common deviation of all schedules. */
static double of_launch(const struct mq_measured *m, uint32_t launch, double median, const double *common,
			double *scratch)
{
	uint32_t n = 0;

	for (uint32_t s = 0; s < m->n_samples; s++) {
		double x = deviation(m, s, median) - common[s];

		if (m->launch[s] == launch && isfinite(x))
			scratch[n++] = x;
	}
	return mq_quantile(scratch, n, .5);
}

/* Student's t / normal quantile for n values. */
static double student(uint32_t n)
{
	return n > 1 ? gsl_cdf_tdist_Pinv(.975, fmin(n - 1, 1000)) / gsl_cdf_ugaussian_Pinv(.975) : 1;
}

struct mq_drift mq_drift_of(const struct mq_measured *const *measured, const double *median, uint32_t n,
			    struct mq_arena *scratch)
{
	struct mq_drift drift = { 0, 0, 0 };
	uint32_t samples = 0, launches = 0, slices = 0, pairs = 0;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t s = 0; s < measured[i]->n_samples; s++) {
			samples = s + 1 > samples ? s + 1 : samples;
			launches = measured[i]->launch[s] + 1 > launches ? measured[i]->launch[s] + 1 : launches;
		}
	double *common = mq_arena_array(scratch, samples + 1, double);
	double *value = mq_arena_array(scratch, (size_t)n * (launches + 1) + samples + 1, double);
	for (uint32_t s = 0; s < samples; s++) {
		uint32_t k = 0;

		for (uint32_t i = 0; i < n; i++) {
			double x = deviation(measured[i], s, median[i]);

			if (isfinite(x))
				value[k++] = x;
		}
		common[s] = k > 1 ? mq_quantile(value, k, .5) : 0; /* a single schedule has no common part */
		drift.common += common[s] * common[s];
		slices += k > 1;
	}
	drift.common = slices > 1 ? sqrt(drift.common / (slices - 1)) * student(launches + 2) :
				    0; /* samples of a launch are one value */
	double *own = value + samples + 1, *launch = mq_arena_array(scratch, launches + 1, double);
	for (uint32_t i = 0; i < n && launches > 1; i++) {
		uint32_t k = 0;

		for (uint32_t l = 0; l < launches; l++) {
			double x = of_launch(measured[i], l, median[i], common, value);

			if (isfinite(x))
				launch[k++] = x;
		}
		if (k > 1) /* so that its median is right */
			own[pairs++] = sqrt(gsl_stats_tss(launch, 1, k) / gsl_cdf_chisq_Pinv(.5, k - 1));
	}
	drift.own = pairs ? mq_quantile(own, pairs, .5) * student(pairs + 1) : 0;
	drift.launches = launches;
	return drift;
}

void mq_interval_widen(struct mq_interval *interval, uint32_t n_draws, const struct mq_drift *drift, uint64_t seed,
		       uint32_t plan, struct mq_arena *scratch)
{
	/* The common part has one term for the calibration, made at one time, and one for the replay's launches; the
	 * own part one for as many launches on both sides. */
	double launches = fmax(drift->launches, 1), common_s = sqrt(1 + 1 / launches) * drift->common,
	       own_s = sqrt(2 / launches) * drift->own;

	for (uint32_t d = 0; d < n_draws; d++) {
		const uint64_t both[2] = { seed, d };
		struct mq_rng rng;

		mq_rng_seed(&rng, mq_hash(MQ_HASH_INIT, both, sizeof(both)));
		double common = common_s * mq_rng_normal(&rng);
		mq_rng_seed(&rng, mq_hash(mq_hash(MQ_HASH_INIT, both, sizeof(both)), &plan, sizeof(plan)));
		interval->factor[d] *= exp(common + own_s * mq_rng_normal(&rng));
	}
	set_ends(interval, n_draws, scratch);
}
