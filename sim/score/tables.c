/* tables.c - what stands behind the rows of a table: models.csv, calibrations, software; patterns in tables. */
#include "score/tables.h"

#include <fnmatch.h>
#include <string.h>

#include "session/session.h"
#include "score/set.h"

bool mq_pattern_fits(const char *patterns, const char *text)
{
	char one[256];

	if (!*patterns)
		return true;
	while (*patterns) {
		size_t n = strcspn(patterns, ";");

		if (n < sizeof(one)) {
			memcpy(one, patterns, n);
			one[n] = '\0';
			if (!fnmatch(one, text, FNM_CASEFOLD))
				return true;
		}
		patterns += n + (patterns[n] == ';');
	}
	return false;
}

const char *mq_table_text(const struct mq_csv *csv, uint32_t row, const char *name)
{
	return mq_csv_text(csv, row, mq_csv_column(csv, name));
}

enum mq_status mq_score_open(struct mq_score_options *o, struct mq_err *err)
{
	if (!o->platforms)
		MQ_TRY(mq_find_dir("platforms", o->arena, &o->platforms, err));
	o->calib = mq_calib_new(o->arena);
	return mq_calib_load_dir(o->calib, mq_arena_printf(o->arena, "%s/calib", o->platforms), err);
}

enum mq_status mq_score_tables_load(const struct mq_score_options *o, struct mq_score_tables *t, struct mq_err *err)
{
	MQ_TRY(mq_csv_load(mq_arena_printf(o->arena, "%s/models.csv", o->platforms), o->arena, &t->models, err));
	t->calib = o->calib;
	t->software_dir = mq_arena_printf(o->arena, "%s/software", o->platforms);
	if (o->software) {
		struct mq_software_record known;

		MQ_TRY(mq_software_load(t->software_dir, o->software, o->arena, &known, err));
	}
	return mq_score_set_check(o, t->software_dir, err);
}

enum mq_status mq_score_device(const struct mq_score_options *o, const char *gpu, const char **type, struct mq_err *err)
{
	const struct mq_device_calib *known = mq_calib_type_in(o->calib, gpu, false);

	if (!known)
		MQ_TRY(mq_calib_type_get(o->calib, "gpu", gpu, &known, err));
	*type = known->name;
	return MQ_OK;
}
