/* set.c - see set.h. SPDX-License-Identifier: Apache-2.0 */
#include "score/set.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "maquette/opt.h"
#include "base/quantity.h"
#include "hardware/calib_fields.h"

static const char software_prefix[] = "software:";

/* The parts of "ENTRY.FIELD" or "ENTRY.FIELD=VALUE"; value "" = none. */
struct parts {
	char *entry, *field;
	const char *value;
	bool software;
};

static enum mq_status split(const char *text, struct mq_arena *arena, struct parts *p, struct mq_err *err)
{
	char *copy = mq_arena_strdup(arena, text);
	char *equals = strchr(copy, '=');

	p->value = equals ? equals + 1 : "";
	if (equals)
		*equals = '\0';
	p->software = !strncmp(copy, software_prefix, strlen(software_prefix));
	p->entry = copy + (p->software ? strlen(software_prefix) : 0);
	char *dot = strrchr(p->entry, '.');
	if (!dot || dot == p->entry || !dot[1])
		return mq_bad(err,
			      "'%s': give ENTRY.FIELD, as in A100*.gemm_eff, "
			      "ib.bw_share or software:megatron-lm-2021.traffic",
			      text);
	*dot = '\0';
	p->field = dot + 1;
	return MQ_OK;
}

/* ---- calibrations ---------------------------------------------------------------------------------- */

/* The values of all entries that match a name. */
struct found {
	const char *name[MQ_CASE_MAX_CHANGES]; /* of each entry */
	double value[MQ_CASE_MAX_CHANGES];
	uint32_t n;
	const struct mq_calib_field *field;
	bool link;
};

static void note(struct found *found, const char *name, double value)
{
	if (found->n == MQ_CASE_MAX_CHANGES)
		return;
	found->name[found->n] = name;
	found->value[found->n++] = value;
}

static enum mq_status find_in_calib(const struct mq_calib *calib, const struct parts *p, struct found *found,
				    struct mq_err *err)
{
	const struct mq_calib_field *device = mq_calib_find(mq_calib_device_fields(), p->field);
	const struct mq_calib_field *link = mq_calib_find(mq_calib_link_fields(), p->field);
	bool entry = false;

	for (uint32_t i = 0; i < calib->n_devices; i++) {
		if (fnmatch(p->entry, calib->device[i].name, 0))
			continue;
		entry = true;
		found->field = device;
		if (device)
			note(found, calib->device[i].name, *mq_calib_at(device, &calib->device[i]));
	}
	for (uint32_t i = 0; i < calib->n_links && (!entry || found->link); i++) {
		if (fnmatch(p->entry, calib->link[i].name, 0))
			continue;
		entry = found->link = true;
		found->field = link;
		if (link)
			note(found, calib->link[i].name, *mq_calib_at(link, &calib->link[i]));
	}
	if (!entry)
		return mq_bad(err,
			      "'%s': no such device type or class of links "
			      "(platforms/calib has them; software is software:NAME)",
			      p->entry);
	if (!found->n)
		return mq_bad(err, "'%s.%s': no such field; `maquette list parameters` has them", p->entry, p->field);
	return MQ_OK;
}

/* ---- software ---------------------------------------------------------------------------------------- */

static enum mq_status find_in_software(const struct mq_score_options *o, const struct parts *p, struct found *found,
				       struct mq_err *err)
{
	uint32_t field = mq_software_field_find(p->field);
	struct mq_software_record *record;
	uint32_t n;

	if (field == UINT32_MAX)
		return mq_bad(err, "'%s%s.%s': software has no such field; `maquette list software NAME` prints all",
			      software_prefix, p->entry, p->field);
	MQ_TRY(mq_software_load_all(o->software_dir, o->arena, &record, &n, err));
	const struct mq_opt *opt = &mq_software_fields()[field].opt;
	bool words = opt->type == MQ_OPT_CHOICE || opt->type == MQ_OPT_STR;
	for (uint32_t i = 0; i < n; i++)
		if (!fnmatch(p->entry, record[i].software.name, 0))
			note(found, record[i].software.name,
			     words ? (double)NAN : mq_opt_value(opt, &record[i].software));
	if (!found->n)
		return mq_bad(err, "'%s%s': no such software in %s", software_prefix, p->entry, o->software_dir);
	return MQ_OK;
}

/* ---- interface ------------------------------------------------------------------------------------ */

enum mq_status mq_score_knob_find(const struct mq_score_options *o, const char *name, struct mq_score_knob *knob,
				  struct mq_err *err)
{
	struct found found = { .n = 0 };
	struct parts p;

	MQ_TRY(split(name, o->arena, &p, err));
	MQ_TRY(p.software ? find_in_software(o, &p, &found, err) : find_in_calib(o->calib, &p, &found, err));
	*knob = (struct mq_score_knob){
		.name = name, .software = p.software, .link = found.link, .n_entries = found.n, .value = found.value[0]
	};
	if (isnan(knob->value))
		return mq_bad(err, "'%s' is a word, no number", name);
	for (uint32_t i = 1; i < found.n; i++)
		knob->differ |= found.value[i] < knob->value || found.value[i] > knob->value;
	const struct mq_software_field *f = p.software ? &mq_software_fields()[mq_software_field_find(p.field)] : NULL;
	knob->unit = f ? f->unit : found.field->unit;
	knob->min = f ? f->opt.min : found.field->min;
	knob->max = f ? f->opt.max : found.field->max;
	return MQ_OK;
}

/* `name` without its field fits? */
static bool entry_fits(const char *name, const char *entry)
{
	char pattern[256];
	const char *dot = strrchr(name, '.');

	snprintf(pattern, sizeof(pattern), "%.*s", (int)(dot - name), name);
	return !fnmatch(pattern, entry, 0);
}

bool mq_score_knob_concerns(const struct mq_score_knob *knob, const struct mq_case *c)
{
	if (knob->link)
		return true;
	if (knob->software)
		return entry_fits(knob->name + strlen(software_prefix), c->software.software.file);
	for (uint32_t i = 0; i < c->n_parts; i++)
		if (entry_fits(knob->name, c->part[i].device))
			return true;
	return !c->n_parts;
}

/* The file that sets a software's field; NULL = a default, or an option. */
static const char *file_of(const struct mq_case *c, const char *field)
{
	uint32_t f = mq_software_field_find(field);

	return f == UINT32_MAX || !c->software.software.name ? NULL : c->software.note[f].file;
}

bool mq_score_value_reaches(const struct mq_score_knob *knob, const struct mq_case *c)
{
	const char *file;

	if (!knob->software)
		return mq_score_knob_concerns(knob, c);
	file = file_of(c, strrchr(knob->name, '.') + 1);
	return file && entry_fits(knob->name + strlen(software_prefix), file);
}

enum mq_status mq_score_set_check(const struct mq_score_options *o, struct mq_err *err)
{
	for (uint32_t i = 0; i < o->set.n; i++) {
		const char *text = o->set.item[i];
		struct found found = { .n = 0 };
		struct mq_software any = *mq_software_plain();
		struct parts p;
		double value;

		MQ_TRY(split(text, o->arena, &p, err));
		if (p.software) {
			MQ_TRY(find_in_software(o, &p, &found, err));
			MQ_TRY(mq_software_set(&any, mq_arena_printf(o->arena, "--set %s", text),
					       mq_arena_printf(o->arena, "%s=%s", p.field, p.value), o->arena, err));
			continue;
		}
		MQ_TRY(find_in_calib(o->calib, &p, &found, err));
		if (!mq_parse_f64(p.value, &value) || !(value >= found.field->min && value <= found.field->max))
			return mq_bad(err, "--set %s: give =VALUE, a number from %g to %g", text, found.field->min,
				      found.field->max);
	}
	return MQ_OK;
}

static bool has_device(const struct mq_case *c, const char *type)
{
	for (uint32_t i = 0; i < c->n_parts; i++)
		if (!strcmp(c->part[i].device, type))
			return true;
	return !c->n_parts;
}

/* Applies one --set, or one substitute wherever its value is inherited, to a row. */
static enum mq_status change_row(const struct mq_score_options *o, const char *set, bool stand_in,
				 const struct mq_case *c, struct mq_score_changes *to, struct mq_err *err)
{
	struct found found = { .n = 0 };
	struct parts p;

	MQ_TRY(split(set, o->arena, &p, err));
	if (p.software) {
		const char *file = stand_in ? file_of(c, p.field) : c->software.software.file;

		if (file && !fnmatch(p.entry, file, 0))
			to->software = mq_arena_printf(o->arena, "%s,%s=%s", to->software, p.field, p.value);
		return MQ_OK;
	}
	MQ_TRY(find_in_calib(o->calib, &p, &found, err));
	for (uint32_t k = 0; k < found.n; k++) {
		if (!found.link && !has_device(c, found.name[k]))
			continue;
		if (to->n == MQ_CASE_MAX_CHANGES)
			return mq_bad(err, "--set means more than %d changes of one row", MQ_CASE_MAX_CHANGES);
		to->change[to->n++] = mq_arena_printf(o->arena, "%s.%s.%s=%s", found.link ? "linkcalib" : "calib",
						      found.name[k], p.field, p.value);
	}
	return MQ_OK;
}

enum mq_status mq_score_change(const struct mq_score_options *o, const struct mq_case *c, struct mq_score_changes *to,
			       struct mq_err *err)
{
	for (uint32_t i = 0; i < o->stand_in.n; i++)
		MQ_TRY(change_row(o, o->stand_in.item[i], true, c, to, err));
	for (uint32_t i = 0; i < o->set.n; i++)
		MQ_TRY(change_row(o, o->set.item[i], false, c, to, err));
	return MQ_OK;
}

enum mq_status mq_score_set_mark(const struct mq_score_options *o, const struct mq_case *c, bool *used,
				 struct mq_err *err)
{
	const char *change[MQ_CASE_MAX_CHANGES];

	for (uint32_t i = 0; i < o->set.n; i++) {
		struct mq_score_changes to = { change, 0, "" };

		MQ_TRY(change_row(o, o->set.item[i], false, c, &to, err));
		used[i] |= to.n || *to.software;
	}
	return MQ_OK;
}
