/*
 * score_set.c - see score_set.h.
 */
#include "cmd/score/score_set.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/score/score_tables.h"
#include "core/opt.h"

#define STACK_MOST 1e6 /* of a number in stacks.csv */
static const char stack_prefix[] = "stack:";

/* "ENTRY.FIELD" or "ENTRY.FIELD=VALUE" in its parts; value is "" where there is none. */
struct parts {
	char *entry, *field;
	const char *value;
	bool stack;
};

static enum mq_status split(const char *text, struct mq_arena *arena, struct parts *p,
			    struct mq_err *err)
{
	char *copy = mq_arena_strdup(arena, text);
	char *equals = strchr(copy, '=');

	p->value = equals ? equals + 1 : "";
	if (equals)
		*equals = '\0';
	p->stack = !strncmp(copy, stack_prefix, strlen(stack_prefix));
	p->entry = copy + (p->stack ? strlen(stack_prefix) : 0);
	char *dot = strrchr(p->entry, '.');
	if (!dot || dot == p->entry || !dot[1])
		return mq_fail(err, MQ_EINPUT, "'%s': give ENTRY.FIELD, as in A100*.sustained, "
			       "ib.bw_share or stack:megatron.traffic", text);
	*dot = '\0';
	p->field = dot + 1;
	return MQ_OK;
}

static const struct mq_calib_field *field_named(const struct mq_calib_field *f, const char *name)
{
	for (; f->name; f++)
		if (!strcmp(f->name, name))
			return f;
	return NULL;
}

static double *number_of(const struct mq_calib_field *f, void *entry)
{
	return (double *)(void *)((char *)entry + f->offset);
}

/* ---- one entry after another ---------------------------------------------------------------------- */

/* The numbers of all entries that a name fits: what they are called, and where they are. */
struct found {
	double **number;     /* of a calibration */
	uint32_t *row;       /* of stacks.csv */
	uint32_t n, room;
	const struct mq_calib_field *field;
	bool link;
};

static enum mq_status find_in_stacks(const struct mq_csv *stacks, const struct parts *p,
				     struct mq_arena *arena, struct found *found, struct mq_err *err)
{
	uint32_t at = mq_csv_column(stacks, "stack");
	uint32_t room = 0;

	if (mq_csv_column(stacks, p->field) == UINT32_MAX)
		return mq_fail(err, MQ_EINPUT, "'%s%s.%s': %s has no such column", stack_prefix,
			       p->entry, p->field, stacks->path);
	for (uint32_t r = 0; r < stacks->n_rows; r++)
		if (!fnmatch(p->entry, mq_csv_text(stacks, r, at), 0))
			MQ_PUSH(arena, found->row, found->n, room, r);
	if (!found->n)
		return mq_fail(err, MQ_EINPUT, "'%s%s': no such software in %s", stack_prefix,
			       p->entry, stacks->path);
	return MQ_OK;
}

static enum mq_status find_in_calib(struct mq_calib *calib, const struct parts *p,
				    struct mq_arena *arena, struct found *found, struct mq_err *err)
{
	const struct mq_calib_field *device = field_named(mq_calib_device_fields(), p->field);
	const struct mq_calib_field *link = field_named(mq_calib_link_fields(), p->field);
	bool entry = false;

	for (uint32_t i = 0; i < calib->n_devices; i++) {
		if (fnmatch(p->entry, calib->device[i].name, 0))
			continue;
		entry = true;
		found->field = device;
		if (device)
			MQ_PUSH(arena, found->number, found->n, found->room,
				number_of(device, &calib->device[i]));
	}
	for (uint32_t i = 0; i < calib->n_links && !found->n; i++) {
		if (fnmatch(p->entry, calib->link[i].name, 0))
			continue;
		entry = found->link = true;
		found->field = link;
		for (; link && i < calib->n_links; i++)
			if (!fnmatch(p->entry, calib->link[i].name, 0))
				MQ_PUSH(arena, found->number, found->n, found->room,
					number_of(link, &calib->link[i]));
	}
	if (!entry)
		return mq_fail(err, MQ_EINPUT, "'%s': no such device type or class of links "
			       "(platforms/calib has them; software is stack:NAME)", p->entry);
	if (!found->n)
		return mq_fail(err, MQ_EINPUT, "'%s.%s': no such field; score --parameters lists them",
			       p->entry, p->field);
	return MQ_OK;
}

/* ---- what others ask for -------------------------------------------------------------------------- */

enum mq_status mq_score_knob_find(const struct mq_calib *calib, const struct mq_csv *stacks,
				  const char *name, struct mq_arena *arena,
				  struct mq_score_knob *knob, struct mq_err *err)
{
	struct found found = { 0 };
	struct parts p;

	MQ_TRY(split(name, arena, &p, err));
	*knob = (struct mq_score_knob){ .name = name, .stack = p.stack };
	if (p.stack) {
		MQ_TRY(find_in_stacks(stacks, &p, arena, &found, err));
		MQ_TRY(mq_table_f64(stacks, found.row[0], p.field, 1, &knob->value, err));
		for (uint32_t i = 1; i < found.n; i++) {
			double other;

			MQ_TRY(mq_table_f64(stacks, found.row[i], p.field, 1, &other, err));
			knob->differ |= other < knob->value || other > knob->value;
		}
		knob->unit = "1";
		knob->max = STACK_MOST;
	} else {
		struct mq_calib copy = *calib; /* read only: the entries themselves are shared */

		MQ_TRY(find_in_calib(&copy, &p, arena, &found, err));
		knob->value = *found.number[0];
		for (uint32_t i = 1; i < found.n; i++)
			knob->differ |= *found.number[i] < knob->value ||
					*found.number[i] > knob->value;
		knob->unit = found.field->unit;
		knob->min = found.field->min;
		knob->max = found.field->max;
		knob->link = found.link;
	}
	knob->n_entries = found.n;
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
	if (knob->stack)
		return entry_fits(knob->name + strlen(stack_prefix), c->stack.name);
	for (uint32_t i = 0; i < c->n_parts; i++)
		if (entry_fits(knob->name, c->part[i].system.device))
			return true;
	return false;
}

enum mq_status mq_score_set(struct mq_calib *calib, struct mq_csv *stacks, const char *text,
			    struct mq_arena *arena, struct mq_err *err)
{
	struct found found = { 0 };
	struct parts p;
	double value;

	MQ_TRY(split(text, arena, &p, err));
	if (!(p.stack ? stacks != NULL : calib != NULL))
		return MQ_OK;
	MQ_TRY(p.stack ? find_in_stacks(stacks, &p, arena, &found, err) :
			 find_in_calib(calib, &p, arena, &found, err));
	double min = p.stack ? 0 : found.field->min, max = p.stack ? STACK_MOST : found.field->max;
	if (!mq_parse_f64(p.value, &value) || !(value >= min && value <= max))
		return mq_fail(err, MQ_EINPUT, "--set %s: give =VALUE, a number from %g to %g", text, min,
			       max);
	for (uint32_t i = 0; i < found.n; i++) {
		if (!p.stack)
			*found.number[i] = value;
		else
			stacks->cell[(size_t)found.row[i] * stacks->n_columns +
				     mq_csv_column(stacks, p.field)] = p.value;
	}
	return MQ_OK;
}
