/* write.c - writes a calibration file with the uncertainty of each value.
 *
 * {"entries": [device, link]}; mq_calib_load reads the values and ignores the rest: "fit" holds, per group of
 * parameters, the number of observations, errors on all and on held-out shapes, the spread of the residuals, the valid
 * range, the fitted values, and the bootstrap draws (one line of text each, parameters in order).
 * SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "fit/fit.h"
#include "hardware/calib_fields.h"

static const struct mq_fit_param *fitted_param(const struct mq_calibration *c, const char *name,
					       const struct mq_fitted **group)
{
	for (uint32_t i = 0; i < c->n_fitted; i++)
		for (uint32_t p = 0; p < c->fitted[i].n_params; p++)
			if (!strcmp(c->fitted[i].param[p].name, name)) {
				*group = &c->fitted[i];
				return &c->fitted[i].param[p];
			}
	return NULL;
}

/* Sets a number; leaves out one that is not finite, which JSON lacks. */
static void set_number(json_t *object, const char *key, double x)
{
	json_object_set_new(object, key, json_real(x));
}

static json_t *values_of(const struct mq_calibration *c, const struct mq_calib_field *fields, const void *entry)
{
	json_t *values = json_object();

	for (; fields->name; fields++) {
		double x = *mq_calib_at(fields, entry);
		const struct mq_fitted *group = NULL;
		const struct mq_fit_param *p = fitted_param(c, fields->name, &group);

		/* Zero means "not measured" in fields with default 0. */
		if (!isfinite(x) || (x <= 0 && fields->initial <= 0 && fields->min <= 0))
			continue;
		json_t *value = json_object();
		set_number(value, "value", x);
		json_object_set_new(value, "unit", json_string(fields->unit));
		if (p) {
			set_number(value, "low", p->low);
			set_number(value, "high", p->high);
			json_object_set_new(value, "source", json_string("fitted"));
		} else {
			json_object_set_new(
				value, "source",
				json_string(x == fields->initial ? "default" : "measured or known of this machine"));
		}
		json_object_set_new(values, fields->name, value);
	}
	return values;
}

static void put_errors(json_t *object, const char *prefix, const struct mq_errors *e)
{
	const char *const names[] = { "median_error", "p90_error", "bias" };
	const double value[] = { e->median, e->p90, e->bias };
	char key[64];

	for (int i = 0; e->n && i < 3; i++) {
		snprintf(key, sizeof(key), "%s_%s", prefix, names[i]);
		set_number(object, key, value[i]);
	}
}

static json_t *group_of(const struct mq_fitted *f)
{
	json_t *names = json_array(), *draws = json_array(), *fitted = json_array();
	json_t *group = json_pack("{s:s, s:i}", "group", f->name, "observations", (int)f->n_obs);

	put_errors(group, "all", &f->error);
	put_errors(group, "held_out", &f->held_out);
	set_number(group, "sigma", f->sigma);
	set_number(group, "valid_from", f->least);
	set_number(group, "valid_to", f->most);
	for (uint32_t p = 0; p < f->n_params; p++) {
		json_array_append_new(names, json_string(f->param[p].name));
		json_array_append_new(fitted, json_real(*f->param[p].value));
	}
	for (uint32_t d = 0; d < f->n_draws; d++) {
		char text[512];
		size_t used = 0;

		for (uint32_t p = 0; p < f->n_params; p++)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%.6g", p ? " " : "",
						 f->draws[(size_t)d * f->n_params + p]);
		json_array_append_new(draws, json_string(text));
	}
	json_object_set_new(group, "parameters", names);
	json_object_set_new(group, "fitted", fitted);
	json_object_set_new(group, "draws", draws);
	return group;
}

static json_t *groups_of(const struct mq_calibration *c, bool link)
{
	json_t *groups = json_array();

	for (uint32_t i = 0; i < c->n_fitted; i++)
		if (c->fitted[i].link == link)
			json_array_append_new(groups, group_of(&c->fitted[i]));
	return groups;
}

static void add_entries(json_t *entries, const struct mq_calibration *c)
{
	const struct mq_device_calib *d = &c->device;

	if (c->has_device)
		json_array_append_new(entries,
				      json_pack("{s:s, s:s, s:s, s:b, s:s, s:o, s:o}", "kind", "device", "name",
						d->name, "device_kind", d->kind == MQ_CPU ? "cpu" : "gpu",
						"serial_comm", (int)d->serial_comm, "source", d->source, "values",
						values_of(c, mq_calib_device_fields(), d), "fit", groups_of(c, false)));
	if (c->has_link)
		json_array_append_new(entries, json_pack("{s:s, s:s, s:s, s:o, s:o}", "kind", "link", "name",
							 c->link.name, "source", c->link.source, "values",
							 values_of(c, mq_calib_link_fields(), &c->link), "fit",
							 groups_of(c, true)));
}

enum mq_status mq_calibration_save(const struct mq_calibration *c, uint32_t n, const char *path, struct mq_err *err)
{
	json_t *entries = json_array();
	json_auto_t *root = json_pack("{s:o}", "entries", entries);
	FILE *file;

	for (uint32_t i = 0; i < n; i++)
		add_entries(entries, &c[i]);
	MQ_TRY(mq_file_open(path, &file, err));
	json_dumpf(root, file, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	fputc('\n', file);
	return mq_file_close(file, path, err);
}
