/*
 * common_plans_recalibrate.c - corrects the calibration from every second plan and tells how the
 * others are predicted then.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/common_plans.h"

/* The class of the links between the first two devices of some plan, or NULL. */
static struct mq_link_calib *link_entry(const struct mq_validation *v, struct mq_err *err)
{
	for (uint32_t i = 0; i < v->n_plans; i++) {
		const struct mq_validated *p = &v->plan[i];
		const struct mq_cluster *cluster = p->session->cluster;
		const struct mq_route *route;

		if (p->schedule->n_devices < 2 ||
		    mq_cluster_route(cluster, p->schedule->device[0], p->schedule->device[1],
		                     &route, err) != MQ_OK ||
		    !route->n_links)
			continue;
		const char *class = mq_calib_link_class(&cluster->link[route->link[0]]);
		const struct mq_calib *calib = v->session[0].calib;
		uint32_t type = cluster->device[p->schedule->device[0]].calib;
		const struct mq_link_calib *entry =
		        class ? mq_calib_link_for(calib, class,
		                                  calib->device[type].compute_capability)
		              : NULL;
		if (entry)
			return &calib->link[entry - calib->link];
	}
	return NULL;
}

static struct mq_device_calib *device_entry(const struct mq_calib *calib, const char *type)
{
	for (uint32_t d = 0; d < calib->n_devices; d++)
		if (!strcmp(calib->device[d].name, type))
			return &calib->device[d];
	return NULL;
}

static enum mq_status gather(struct mq_validation *v, struct mq_observed **observed, uint32_t *n,
                             struct mq_err *err)
{
	uint32_t total = 0;

	for (uint32_t i = 0; i < v->n_plans; i++)
		total += v->plan[i].schedule->n_tasks;
	*observed = mq_arena_array(&v->arena, total, struct mq_observed);
	*n = 0;
	for (uint32_t i = 0; i < v->n_plans; i++) {
		struct mq_observed *part;
		uint32_t count;

		v->plan[i].held_out = i % 2;
		if (i % 2)
			continue;
		MQ_TRY(mq_measured_calls(v->plan[i].measured, &v->arena, &part, &count, err));
		memcpy(*observed + *n, part, count * sizeof(*part));
		*n += count;
	}
	return MQ_OK;
}

/* The other sessions have calibrations of their own: give them the corrected entries. */
static enum mq_status spread(struct mq_validation *v, const struct mq_recalibration *r,
                             struct mq_err *err)
{
	for (uint32_t s = 0; s < v->n_open; s++) {
		struct mq_calib *calib = v->session[s].calib;
		struct mq_device_calib *device = device_entry(calib, r->device->name);

		if (device && device != r->device)
			*device = *r->device;
		for (uint32_t l = 0; r->link && l < calib->n_links; l++)
			if (!strcmp(calib->link[l].name, r->link->name) &&
			    &calib->link[l] != r->link)
				calib->link[l] = *r->link;
		MQ_TRY(mq_calib_bind(calib, v->session[s].cluster, err));
	}
	return MQ_OK;
}

static enum mq_status save(struct mq_validation *v, const struct mq_recalibration *r,
                           const char *dir, struct mq_err *err)
{
	struct mq_calibration c = {.device = *r->device, .has_device = true};

	c.device.source = "recalibrated by maquette validate";
	if (r->link) {
		c.link = *r->link;
		c.link.source = c.device.source;
		c.has_link = true;
	}
	return mq_calibration_save(&c, 1, mq_arena_printf(&v->arena, "%s/calib.json", dir), err);
}

enum mq_status mq_validation_recalibrate(struct mq_validation *v, const char *dir,
                                         struct mq_err *err)
{
	struct mq_session *first = &v->session[0];
	struct mq_observed *observed;
	uint32_t n;

	if (v->n_plans < 4)
		return mq_fail(err, MQ_EINPUT,
		               "--recalibrate needs at least 4 plans (half are kept to "
		               "judge it), there are %u: use --top or more folders",
		               v->n_plans);
	struct mq_recalibration r = {
	        .link = link_entry(v, err),
	        .device = device_entry(first->calib, v->plan[0].schedule->device_type[0])};
	mq_assert(r.device);
	MQ_TRY(gather(v, &observed, &n, err));
	MQ_TRY(mq_recalibrate(&r, first->calib, first->cluster, observed, n, &v->arena, err));
	MQ_TRY(spread(v, &r, err));
	for (uint32_t p = 0; p < r.n_fitted; p++)
		printf("recalibrated: %s x %.3f\n", r.param[p].name, *r.param[p].value);
	for (uint32_t i = 0; i < v->n_plans; i++) {
		struct mq_validated *p = &v->plan[i];
		struct mq_timeline timeline;

		MQ_TRY(mq_validation_predict(p->schedule, p->session->cluster, p->session->calib,
		                             &v->arena, &timeline, err));
		p->recalibrated_s = timeline.step_time_s;
	}
	return save(v, &r, dir, err);
}
