/*
 * tables.c - systems.csv, models.csv, publishers.csv, overlay.csv: what a row of measurements leaves open,
 * found by patterns (fnmatch, alternatives separated by ';'). Of the first three the first row that fits wins;
 * of the overlay every row that fits adds its part, in order.
 */
#include "score/row.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/session.h"
#include "score/set.h"
#include "score/tables.h"
#include "base/opt.h"

/* "column=value|column=value" into the row; the first that is no such thing, or NULL. */
static const char *put_columns(struct mq_run *run, const char *list, bool force, struct mq_arena *arena)
{
	const char *bad = NULL;

	while (*list) {
		size_t n = strcspn(list, "|"), k = strcspn(list, "=");
		bool put = k < n &&
			   mq_run_put(run, mq_arena_printf(arena, "%.*s", (int)k, list),
				      mq_arena_printf(arena, "%.*s", (int)(n - k - 1), list + k + 1), force, arena);

		if (!put && !bad)
			bad = mq_arena_printf(arena, "%.*s", (int)n, list);
		list += n + (list[n] == '|');
	}
	return bad;
}

/* What the lines of a table put into rows are columns of rows. */
static enum mq_status check_columns(const struct mq_csv *csv, struct mq_arena *arena, struct mq_err *err)
{
	static const char *const lists[] = { "fill", "force" };

	for (uint32_t r = 0; r < csv->n_rows; r++)
		for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
			struct mq_run run = { .options = "" };
			const char *bad = put_columns(&run, mq_table_text(csv, r, lists[i]), true, arena);

			if (bad)
				return mq_fail(
					err, MQ_EINPUT,
					"%s:%u: %s: '%s' is not COLUMN=VALUE, with a column of rows or a field of software; '|' stands between",
					csv->path, csv->line[r], lists[i], bad);
		}
	return MQ_OK;
}

static enum mq_status load(const struct mq_score_options *o, const char *name, struct mq_csv *csv, struct mq_err *err)
{
	const char *dir = o->platforms;

	if (!dir)
		MQ_TRY(mq_find_dir("platforms", o->arena, &dir, err));
	return mq_csv_load(mq_arena_printf(o->arena, "%s/%s", dir, name), o->arena, csv, err);
}

enum mq_status mq_score_tables_load(const struct mq_score_options *o, struct mq_score_tables *t, struct mq_err *err)
{
	MQ_TRY(load(o, "systems.csv", &t->systems, err));
	MQ_TRY(load(o, "models.csv", &t->models, err));
	MQ_TRY(load(o, "publishers.csv", &t->publishers, err));
	MQ_TRY(load(o, "overlay.csv", &t->overlay, err));
	MQ_TRY(check_columns(&t->publishers, o->arena, err));
	MQ_TRY(check_columns(&t->overlay, o->arena, err));
	t->calib = o->calib;
	t->software_dir = mq_arena_printf(o->arena, "%s/software", o->platforms);
	if (o->software) {
		struct mq_software_record known;

		MQ_TRY(mq_software_load(t->software_dir, o->software, o->arena, &known, err));
	}
	return mq_score_set_check(o, t->software_dir, err);
}

enum mq_status mq_score_open(struct mq_score_options *o, struct mq_err *err)
{
	if (!o->platforms)
		MQ_TRY(mq_find_dir("platforms", o->arena, &o->platforms, err));
	o->calib = mq_calib_new(o->arena);
	return mq_calib_load_dir(o->calib, mq_arena_printf(o->arena, "%s/calib", o->platforms), err);
}

static enum mq_status read_system(const struct mq_csv *csv, uint32_t row, struct mq_system *s, struct mq_err *err)
{
	double domain;

	*s = (struct mq_system){ .name = mq_table_text(csv, row, "name"),
				 .device = mq_table_text(csv, row, "device"),
				 .platform = mq_table_text(csv, row, "platform") };
	MQ_TRY(mq_table_f64(csv, row, "domain", 0, &domain, err));
	s->domain = (uint32_t)domain;
	return mq_table_f64(csv, row, "host", 1, &s->host, err);
}

/* The GPU without its maker and line ("NVIDIA Tesla V100"). */
static const char *bare_gpu(const char *gpu)
{
	static const char *const word[] = { "NVIDIA", "AMD", "Tesla", "GeForce", "Instinct" };

	for (size_t i = 0; i < sizeof(word) / sizeof(*word); i++) {
		size_t n = strlen(word[i]);

		if (!strncasecmp(gpu, word[i], n) && (gpu[n] == ' ' || gpu[n] == '-'))
			gpu += n + 1;
	}
	return gpu;
}

enum mq_status mq_system_find(const struct mq_score_tables *t, const struct mq_run *run, struct mq_system *system,
			      struct mq_err *err)
{
	const char *gpu = bare_gpu(run->gpu);
	const struct mq_device_calib *type;
	const struct mq_csv *csv = &t->systems;
	char per_node[32] = "";

	if (!isnan(run->gpus_per_node))
		snprintf(per_node, sizeof(per_node), "%g", run->gpus_per_node);
	for (uint32_t r = 0; r < csv->n_rows; r++)
		if (mq_name_fits(mq_table_text(csv, r, "gpu"), gpu) &&
		    mq_pattern_fits(mq_table_text(csv, r, "gpus_per_node"), per_node) &&
		    mq_pattern_fits(mq_table_text(csv, r, "intra_link"), run->intra) &&
		    mq_pattern_fits(mq_table_text(csv, r, "inter_link"), run->inter)) {
			MQ_TRY(read_system(csv, r, system, err));
			system->network_said = *run->inter && strcmp(mq_table_text(csv, r, "inter_link"), "*");
			return MQ_OK;
		}
	type = mq_calib_type_in(t->calib, gpu, false);
	if (!type)
		return mq_fail(err, MQ_EINPUT,
			       "gpu '%s' is no known type; name one of platforms/calib, add a file there, or say what "
			       "it is in the column platform (gpu=NAME tflops=N ...)",
			       run->gpu);
	*system = (struct mq_system){ .name = type->name, .device = type->name, .platform = "", .host = 1 };
	return MQ_OK;
}

enum mq_status mq_score_device(const struct mq_score_options *options, const char *gpu, const char **type,
			       struct mq_err *err)
{
	const struct mq_run run = { .gpu = gpu, .intra = "", .inter = "", .gpus_per_node = NAN };
	struct mq_score_tables t;
	struct mq_system system;

	MQ_TRY(load(options, "systems.csv", &t.systems, err));
	t.calib = options->calib;
	if (mq_calib_device(options->calib, gpu)) { /* already a calibrated type */
		*type = gpu;
		return MQ_OK;
	}
	MQ_TRY(mq_system_find(&t, &run, &system, err));
	*type = system.device;
	return MQ_OK;
}

/* The number as written, for patterns; "" where the row has none. */
static bool number_fits(const char *patterns, double number)
{
	char text[32] = "";

	if (!isnan(number))
		snprintf(text, sizeof(text), "%g", number);
	return mq_pattern_fits(patterns, text);
}

static const struct mq_format *builder_of(const char *model)
{
	size_t n = strcspn(model, ":");

	for (const struct mq_format *const *f = mq_formats; *f; f++)
		for (const char *const *name = (*f)->names; (*f)->build && name && *name; name++)
			if (strlen(*name) == n && !strncmp(*name, model, n))
				return *f;
	return NULL;
}

/* Does this row of models.csv speak of such a run? */
static bool speaks_of(const struct mq_csv *csv, uint32_t row, const struct mq_run *run)
{
	return mq_name_fits(mq_table_text(csv, row, "model"), run->model) &&
	       mq_pattern_fits(mq_table_text(csv, row, "source"), run->source) &&
	       mq_pattern_fits(mq_table_text(csv, row, "locator"), run->locator) &&
	       mq_pattern_fits(mq_table_text(csv, row, "gpu"), run->gpu) &&
	       mq_pattern_fits(mq_table_text(csv, row, "precision"), run->precision) &&
	       number_fits(mq_table_text(csv, row, "gpus"), run->gpus) &&
	       number_fits(mq_table_text(csv, row, "seq"), run->seq);
}

enum mq_status mq_known_model(const struct mq_score_tables *t, const struct mq_run *run, struct mq_known_model *known,
			      struct mq_err *err)
{
	const struct mq_csv *csv = &t->models;

	*known = (struct mq_known_model){ .given = "", .batch = "", .own = builder_of(run->model) };
	if (known->own)
		return MQ_OK;
	for (uint32_t r = 0; r < csv->n_rows; r++) {
		if (!speaks_of(csv, r, run))
			continue;
		*known = (struct mq_known_model){ .builder = mq_table_text(csv, r, "builder"),
						  .given = mq_table_text(csv, r, "given"),
						  .batch = mq_table_text(csv, r, "batch") };
		if (!*known->builder)
			return mq_fail(err, MQ_EINPUT, "model '%s': %s", run->model, mq_table_text(csv, r, "about"));
		return MQ_OK;
	}
	return MQ_OK;
}

/* ---- what sources say in words ----------------------------------------------------------------------- */

static void add_options(struct mq_run *run, const char *options, struct mq_arena *arena)
{
	/* what the row says itself comes last, and so wins */
	if (*options)
		run->options = mq_arena_printf(arena, "%s%s%s", options, *run->options ? ";" : "", run->options);
}

static void overlay(const struct mq_csv *csv, struct mq_run *run, struct mq_arena *arena)
{
	for (uint32_t r = 0; r < csv->n_rows; r++) {
		if (!mq_pattern_fits(mq_table_text(csv, r, "source"), run->source) ||
		    !mq_pattern_fits(mq_table_text(csv, r, "row_id"), run->id) ||
		    !mq_pattern_fits(mq_table_text(csv, r, "notes"), run->notes) ||
		    !mq_pattern_fits(mq_table_text(csv, r, "locator"), run->locator) ||
		    !mq_pattern_fits(mq_table_text(csv, r, "recompute"), run->recompute) ||
		    !mq_pattern_fits(mq_table_text(csv, r, "schedule"), run->schedule) ||
		    !mq_pattern_fits(mq_table_text(csv, r, "model"), run->model) ||
		    !mq_pattern_fits(mq_table_text(csv, r, "gpu"), run->gpu) ||
		    !mq_pattern_fits(mq_table_text(csv, r, "precision"), run->precision) ||
		    !mq_pattern_fits(mq_table_text(csv, r, "zero"), run->zero))
			continue;
		add_options(run, mq_table_text(csv, r, "software_options"), arena);
		put_columns(run, mq_table_text(csv, r, "fill"), false, arena);
		put_columns(run, mq_table_text(csv, r, "force"), true, arena);
		if (*mq_table_text(csv, r, "refuse"))
			run->refused = mq_table_text(csv, r, "refuse");
	}
}

void mq_run_publish(const struct mq_score_tables *t, struct mq_run *run, struct mq_arena *arena)
{
	const struct mq_csv *csv = &t->publishers;
	const char *words = mq_arena_printf(arena, "%s|%s|%s|%s|%s", run->source, run->locator, run->notes, run->zero,
					    run->schedule);
	uint32_t r = 0;

	overlay(&t->overlay, run, arena);
	while (r < csv->n_rows && !(mq_pattern_fits(mq_table_text(csv, r, "source"), run->source) &&
				    mq_name_fits(mq_table_text(csv, r, "words"), words) &&
				    mq_pattern_fits(mq_table_text(csv, r, "notes"), run->notes) &&
				    mq_pattern_fits(mq_table_text(csv, r, "locator"), run->locator) &&
				    mq_pattern_fits(mq_table_text(csv, r, "precision"), run->precision) &&
				    mq_pattern_fits(mq_table_text(csv, r, "model"), run->model) &&
				    mq_pattern_fits(mq_table_text(csv, r, "gpu"), run->gpu)))
		r++;
	if (r == csv->n_rows)
		return;
	run->half_attention = *mq_table_text(csv, r, "half_attention");
	if (*run->software)
		return;
	run->software = mq_table_text(csv, r, "software");
	put_columns(run, mq_table_text(csv, r, "fill"), false, arena);
	put_columns(run, mq_table_text(csv, r, "force"), true, arena);
}

double mq_given_value(const char *given, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = given; *p; p += strcspn(p, ","), p += *p == ',')
		if (!strncmp(p, key, n) && p[n] == '=')
			return strtod(p + n + 1, NULL);
	return NAN;
}
