/* plans_recalibrate.c - corrects the calibration by every second plan and predicts the others with it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/validate/plans.h"

/* The class of the links between the first two devices of some plan, or NULL. */
static struct mq_link_calib *link_entry(const struct mq_validation *v, struct mq_err *err)
{
	for (uint32_t i = 0; i < v->n_plans; i++) {
		const struct mq_validated *p = &v->plan[i];
		const struct mq_cluster *cluster = p->session->cluster;
		const struct mq_route *route;

		if (p->schedule->n_devices < 2 ||
		    mq_cluster_route(cluster, p->schedule->device[0], p->schedule->device[1], &route, err) != MQ_OK ||
		    !route->n_links)
			continue;
		const char *class = mq_calib_link_class(&cluster->link[route->link[0]]);
		const struct mq_calib *calib = v->session[0].calib;
		/* As for sends: a CPU has no compute capability. */
		uint32_t one = cluster->device[p->schedule->device[0]].calib;
		uint32_t other = cluster->device[p->schedule->device[1]].calib;
		const struct mq_link_calib *entry =
			class ? mq_calib_link_for(calib, class,
						  fmin(calib->device[one].compute_capability,
						       calib->device[other].compute_capability)) :
				NULL;
		if (entry)
			return &calib->link[entry - calib->link];
	}
	return NULL;
}

static struct mq_device_calib *device_entry(const struct mq_calib *calib, const char *type)
{
	const struct mq_device_calib *d = mq_calib_device(calib, type);

	return d ? &calib->device[d - calib->device] : NULL;
}

static enum mq_status gather(struct mq_validation *v, struct mq_observations *observed, struct mq_err *err)
{
	for (uint32_t i = 0; i < v->n_plans; i++) {
		uint32_t first = observed->n;

		v->plan[i].held_out = i % 2;
		if (i % 2)
			continue;
		MQ_TRY(mq_measured_calls(v->plan[i].measured, &v->arena, observed, err));
		mq_measured_overlap(v->plan[i].measured, observed->call + first, observed->n - first, &v->arena);
	}
	return MQ_OK;
}

/* Copies the corrected entries into the calibrations of the other sessions. */
static enum mq_status spread(struct mq_validation *v, const struct mq_recalibration *r, struct mq_err *err)
{
	for (uint32_t s = 0; s < v->n_open; s++) {
		struct mq_calib *calib = v->session[s].calib;
		struct mq_device_calib *device = device_entry(calib, r->device->name);

		if (device && device != r->device)
			*device = *r->device;
		for (uint32_t l = 0; r->link && l < calib->n_links; l++)
			if (!strcmp(calib->link[l].name, r->link->name) && &calib->link[l] != r->link)
				calib->link[l] = *r->link;
		MQ_TRY(mq_calib_bind(calib, v->session[s].cluster, err));
	}
	return MQ_OK;
}

enum { MAX_TYPES = 8 };

/* Device types of the plans, CPUs first: calls with a CPU wait for its computations. */
static uint32_t find_types(const struct mq_validation *v, struct mq_device_calib *type[MAX_TYPES])
{
	struct mq_calib *calib = v->session[0].calib;
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->n_plans; i++)
		for (uint32_t d = 0; d < v->plan[i].schedule->n_devices; d++) {
			struct mq_device_calib *entry = device_entry(calib, v->plan[i].schedule->device_type[d]);
			uint32_t known = 0;

			while (known < n && type[known] != entry)
				known++;
			if (!entry || known < n || n == MAX_TYPES)
				continue;
			type[n++] = entry;
			if (entry->kind == MQ_CPU) {
				type[n - 1] = type[0];
				type[0] = entry;
			}
		}
	return n;
}

static enum mq_status save(struct mq_validation *v, struct mq_device_calib *const *type, uint32_t n,
			   const struct mq_link_calib *link, const char *dir, struct mq_err *err)
{
	struct mq_calibration *c = mq_arena_array(&v->arena, n, struct mq_calibration);

	for (uint32_t i = 0; i < n; i++) {
		c[i] = (struct mq_calibration){ .device = *type[i], .has_device = true };
		c[i].device.source = "recalibrated by maquette validate";
	}
	if (link) {
		c[0].link = *link;
		c[0].link.source = c[0].device.source;
		c[0].has_link = true;
	}
	return mq_calibration_save(c, n, mq_arena_printf(&v->arena, "%s/calib.json", dir), err);
}

/* Samples of a busy machine measure other programs. */
static enum mq_status check_load(const struct mq_validation *v, struct mq_err *err)
{
	uint32_t dropped = 0, samples = 0;

	for (uint32_t i = 0; i < v->n_plans; i++) {
		dropped += v->plan[i].n_dropped;
		samples += v->plan[i].measured->n_samples;
	}
	if (2 * dropped <= samples)
		return MQ_OK;
	return mq_fail(
		err, MQ_ETIME,
		"--recalibrate: %u of %u samples were disturbed (other programs, steal time, throttled clocks): measure again on "
		"a quiet machine, with more --reps, or with fewer --cores",
		dropped, samples);
}

/* Median error of the held-out plans. */
static double held_error(struct mq_validation *v, bool recalibrated)
{
	double *predicted, *measured;
	uint32_t n = mq_validation_steps(v, recalibrated, true, &predicted, &measured);

	return mq_errors_against(predicted, measured, n, &v->arena).median;
}

enum mq_status mq_validation_recalibrate(struct mq_validation *v, const char *dir, struct mq_err *err)
{
	struct mq_session *first = &v->session[0];
	struct mq_observations observed = { 0 };

	if (v->n_plans < 4)
		return mq_bad(err,
			      "--recalibrate needs at least 4 plans (half are kept to "
			      "judge it), there are %u: use --top or more folders",
			      v->n_plans);
	MQ_TRY(check_load(v, err));
	struct mq_device_calib *type[MAX_TYPES];
	struct mq_link_calib *link = link_entry(v, err);
	uint32_t n_types = find_types(v, type);

	mq_assert(n_types);
	MQ_TRY(gather(v, &observed, err));
	for (uint32_t t = 0; t < n_types; t++) {
		struct mq_recalibration r = { .link = t ? NULL : link, .device = type[t] };

		MQ_TRY(mq_recalibrate(&r, first->calib, first->cluster, observed.call, observed.n, &v->arena, err));
		MQ_TRY(spread(v, &r, err));
		for (uint32_t p = 0; p < r.n_fitted; p++)
			printf("recalibrated%s%s: %s %s%.3f\n", n_types > 1 ? ", " : "",
			       n_types > 1 ? type[t]->name : "", r.param[p].name,
			       r.param[p].value == &r.device->overlap_compute ? "" : "x ", *r.param[p].value);
	}
	for (uint32_t i = 0; i < v->n_plans; i++) {
		struct mq_validated *p = &v->plan[i];
		struct mq_timeline timeline;

		MQ_TRY(mq_validation_predict(p->schedule, p->session->cluster, p->session->calib, &v->arena, &timeline,
					     err));
		p->recalibrated_s = timeline.step_time_s;
	}
	double before = held_error(v, false), after = held_error(v, true);
	if (after < before)
		return save(v, type, n_types, link, dir, err);
	v->refused = mq_arena_printf(&v->arena,
				     "the corrected calibration was not written: on the plans held out the median "
				     "error would go from %.1f %% to %.1f %%",
				     100 * before, 100 * after);
	return MQ_OK;
}
