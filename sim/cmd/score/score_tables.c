/*
 * score_tables.c - systems.csv, models.csv, stacks.csv (recipes.csv on top): what a row of measurements leaves
 * open, found by patterns (fnmatch, alternatives separated by ';'); the first row that fits wins.
 */
#include "cmd/score/score_runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/common.h"
#include "cmd/score/score_set.h"
#include "cmd/score/score_tables.h"
#include "core/opt.h"

static enum mq_status load(const struct mq_score_options *o, const char *name, struct mq_csv *csv,
			   struct mq_err *err)
{
	const char *dir = o->platforms;

	if (!dir)
		MQ_TRY(mq_find_dir("platforms", o->arena, &dir, err));
	return mq_csv_load(mq_arena_printf(o->arena, "%s/%s", dir, name), o->arena, csv, err);
}

enum mq_status mq_score_tables_load(const struct mq_score_options *o, struct mq_score_tables *t,
				    struct mq_err *err)
{
	MQ_TRY(load(o, "systems.csv", &t->systems, err));
	MQ_TRY(load(o, "models.csv", &t->models, err));
	MQ_TRY(load(o, "stacks.csv", &t->stacks, err));
	MQ_TRY(load(o, "recipes.csv", &t->recipes, err));
	for (uint32_t i = 0; i < o->set.n; i++)
		MQ_TRY(mq_score_set(NULL, &t->stacks, o->set.item[i], o->arena, err));
	return MQ_OK;
}

enum mq_status mq_score_open(struct mq_score_options *o, struct mq_err *err)
{
	if (!o->platforms)
		MQ_TRY(mq_find_dir("platforms", o->arena, &o->platforms, err));
	o->calib = mq_calib_new(o->arena);
	MQ_TRY(mq_calib_load_dir(o->calib, mq_arena_printf(o->arena, "%s/calib", o->platforms), err));
	for (uint32_t i = 0; i < o->set.n; i++)
		MQ_TRY(mq_score_set(o->calib, NULL, o->set.item[i], o->arena, err));
	return MQ_OK;
}

static enum mq_status read_system(const struct mq_csv *csv, uint32_t row, struct mq_system *s,
				  struct mq_err *err)
{
	double domain;

	*s = (struct mq_system){ .name = mq_table_text(csv, row, "name"),
				 .device = mq_table_text(csv, row, "device"),
				 .platform = mq_table_text(csv, row, "platform") };
	MQ_TRY(mq_table_f64(csv, row, "domain", 0, &domain, err));
	s->domain = (uint32_t)domain;
	return mq_table_f64(csv, row, "host", 1, &s->host, err);
}

enum mq_status mq_system_find(const struct mq_score_tables *t, const struct mq_run *run,
			      struct mq_system *system, struct mq_err *err)
{
	const struct mq_csv *csv = &t->systems;
	char per_node[32] = "";

	if (!isnan(run->gpus_per_node))
		snprintf(per_node, sizeof(per_node), "%g", run->gpus_per_node);
	for (uint32_t r = 0; r < csv->n_rows; r++)
		if (mq_name_fits(mq_table_text(csv, r, "gpu"), run->gpu) &&
		    mq_pattern_fits(mq_table_text(csv, r, "gpus_per_node"), per_node) &&
		    mq_pattern_fits(mq_table_text(csv, r, "intra_link"), run->intra) &&
		    mq_pattern_fits(mq_table_text(csv, r, "inter_link"), run->inter) &&
		    mq_pattern_fits(mq_table_text(csv, r, "locator"), run->locator))
			return read_system(csv, r, system, err);
	return mq_fail(err, MQ_EINPUT, "no system for gpu '%s'; add a row to systems.csv", run->gpu);
}

enum mq_status mq_score_device(const struct mq_score_options *options, const char *gpu,
			       const char **type, struct mq_err *err)
{
	const struct mq_run run = { .gpu = gpu, .intra = "", .inter = "", .locator = "",
				    .gpus_per_node = NAN };
	struct mq_score_tables t;
	struct mq_system system;

	MQ_TRY(load(options, "systems.csv", &t.systems, err));
	if (mq_calib_device(options->calib, gpu)) { /* already a calibrated type */
		*type = gpu;
		return MQ_OK;
	}
	MQ_TRY(mq_system_find(&t, &run, &system, err));
	*type = system.device;
	return MQ_OK;
}

static enum mq_status read_flag(const struct mq_csv *csv, uint32_t row, const char *name, bool *flag,
				struct mq_err *err)
{
	double value;

	MQ_TRY(mq_table_f64(csv, row, name, 0, &value, err));
	*flag = value > 0;
	return MQ_OK;
}

static enum mq_status read_name(const struct mq_csv *csv, uint32_t row, const char *name,
				const char *(*name_of)(int), int n, int *index, struct mq_err *err)
{
	*index = mq_enum_find(name_of, n, mq_table_text(csv, row, name));
	if (*index < n)
		return MQ_OK;
	return mq_fail(err, MQ_EINPUT, "%s:%u: %s '%s' is not known", csv->path, csv->line[row], name,
		       mq_table_text(csv, row, name));
}
#define READ_NAME(csv, row, name, name_of, n, index, err) \
	read_name(csv, row, name, (const char *(*)(int))(name_of), n, index, err)

static enum mq_status read_memory(const struct mq_csv *csv, uint32_t row, struct mq_stack *s,
				  struct mq_err *err)
{
	double reserve_GB, comm_GB, flat_M;

	MQ_TRY(mq_table_f64(csv, row, "loss_B", 12, &s->loss_B, err));
	MQ_TRY(read_flag(csv, row, "grads_twice", &s->grads_twice, err));
	MQ_TRY(read_flag(csv, row, "saves_casts", &s->saves_casts, err));
	MQ_TRY(read_flag(csv, row, "frees_outputs", &s->frees_outputs, err));
	MQ_TRY(mq_table_f64(csv, row, "reserve_GB", 1, &reserve_GB, err));
	s->reserve_B = reserve_GB * 1e9;
	MQ_TRY(mq_table_f64(csv, row, "comm_GB", 0, &comm_GB, err));
	s->comm_B = comm_GB * 1e9;
	MQ_TRY(mq_table_f64(csv, row, "flat_M", 0, &flat_M, err));
	s->flat_elems = flat_M * 1e6;
	return MQ_OK;
}

/* What a framework moves beyond the least. */
static enum mq_status read_extra(const struct mq_csv *csv, uint32_t row, struct mq_stack *s,
				 struct mq_err *err)
{
	MQ_TRY(mq_table_f64(csv, row, "traffic", 1, &s->traffic, err));
	MQ_TRY(mq_table_f64(csv, row, "traffic_32", 1, &s->traffic_32, err));
	MQ_TRY(mq_table_f64(csv, row, "scores", s->traffic, &s->scores, err));
	MQ_TRY(mq_table_f64(csv, row, "cast_B", 0, &s->cast_B, err));
	MQ_TRY(mq_table_f64(csv, row, "accum_B", 0, &s->accum_B, err));
	MQ_TRY(mq_table_f64(csv, row, "update_B", 0, &s->update_B, err));
	MQ_TRY(mq_table_f64(csv, row, "reduce_B", 0, &s->reduce_B, err));
	MQ_TRY(mq_table_f64(csv, row, "update_calls", 1, &s->update_calls, err));
	return read_flag(csv, row, "tf32", &s->tf32, err);
}

static enum mq_status read_images(const struct mq_csv *csv, uint32_t row, struct mq_image_stack *s,
				  struct mq_err *err)
{
	static const char *const layouts[] = { [MQ_FIRST_NONE] = "", [MQ_FIRST_32] = "32",
					       [MQ_FIRST_32_VOLUMES] = "32+volumes",
					       [MQ_FIRST_ALL] = "all" };
	const char *text = mq_table_text(csv, row, "channels_first");
	double step_ms, sync_ms;

	for (s->channels_first = MQ_FIRST_ALL; s->channels_first >= 0; s->channels_first--)
		if (!strcmp(text, layouts[s->channels_first]))
			break;
	if (s->channels_first < 0)
		return mq_fail(err, MQ_EINPUT, "%s:%u: channels_first '%s' is not known; give 32, "
			       "32+volumes, all or nothing (tensors whose channels lie first)",
			       csv->path, csv->line[row], text);
	MQ_TRY(mq_table_f64(csv, row, "conv_passes", 0, &s->conv_passes, err));
	MQ_TRY(mq_table_f64(csv, row, "image_traffic", 1, &s->traffic, err));
	MQ_TRY(mq_table_f64(csv, row, "step_ms", 0, &step_ms, err));
	MQ_TRY(mq_table_f64(csv, row, "sync_ms", 0, &sync_ms, err));
	s->step_s = step_ms / 1e3;
	s->sync_s = sync_ms / 1e3;
	return MQ_OK;
}

static enum mq_status read_stack(const struct mq_csv *csv, uint32_t row, struct mq_stack *s,
				 struct mq_err *err)
{
	double bucket_MB, chunks, multiple;
	int index;

	*s = (struct mq_stack){ .name = mq_table_text(csv, row, "stack") };
	MQ_TRY(read_flag(csv, row, "fused_attention", &s->fused_attention, err));
	MQ_TRY(read_flag(csv, row, "sequence_parallel", &s->sequence_parallel, err));
	MQ_TRY(read_flag(csv, row, "vocab_parallel", &s->vocab_parallel, err));
	MQ_TRY(read_flag(csv, row, "overlap_grads", &s->overlap_grads, err));
	MQ_TRY(read_flag(csv, row, "scatter_gather", &s->scatter_gather, err));
	MQ_TRY(read_flag(csv, row, "broadcast_params", &s->broadcast_params, err));
	MQ_TRY(read_flag(csv, row, "early_stop", &s->early_stop, err));
	MQ_TRY(mq_table_f64(csv, row, "bucket_MB", 0, &bucket_MB, err));
	s->bucket_B = bucket_MB * 1e6;
	MQ_TRY(mq_table_f64(csv, row, "vocab_multiple", 0, &multiple, err));
	s->vocab_multiple = (uint32_t)multiple;
	s->grad_as_dtype = !strcmp(mq_table_text(csv, row, "grad_dtype"), "dtype");
	if (!s->grad_as_dtype) {
		MQ_TRY(READ_NAME(csv, row, "grad_dtype", mq_dtype_name, MQ_N_DTYPES, &index, err));
		s->grad_dtype = (enum mq_dtype)index;
	}
	MQ_TRY(READ_NAME(csv, row, "sync", mq_sync_name, MQ_N_SYNCS, &index, err));
	s->sync = (enum mq_sync)index;
	MQ_TRY(READ_NAME(csv, row, "recompute", mq_recompute_name, MQ_N_RECOMPUTES, &index, err));
	s->recompute = (enum mq_recompute)index;
	MQ_TRY(read_flag(csv, row, "own_recompute", &s->own_recompute, err));
	s->selective_ops = !strcmp(mq_table_text(csv, row, "selective"), "ops");
	s->full_first = !strcmp(mq_table_text(csv, row, "partition"), "ceil");
	MQ_TRY(mq_table_f64(csv, row, "chunks", 0, &chunks, err));
	s->chunks = (uint32_t)chunks;
	MQ_TRY(read_flag(csv, row, "split_batch", &s->split_batch, err));
	MQ_TRY(mq_table_f64(csv, row, "attention", 1, &s->attention, err));
	MQ_TRY(mq_table_f64(csv, row, "host", 1, &s->host, err));
	MQ_TRY(read_flag(csv, row, "launch_waits", &s->launch_waits, err));
	MQ_TRY(mq_table_f64(csv, row, "fp8_cast_B", 4, &s->fp8_cast_B, err));
	MQ_TRY(mq_table_f64(csv, row, "mx_cast_B", s->fp8_cast_B, &s->mx_cast_B, err));
	MQ_TRY(read_flag(csv, row, "fused_experts", &s->fused_experts, err));
	MQ_TRY(read_flag(csv, row, "fp8_attention", &s->fp8_attention, err));
	MQ_TRY(read_flag(csv, row, "merge_copies", &s->merge_copies, err));
	MQ_TRY(read_flag(csv, row, "repeat_kv", &s->repeat_kv, err));
	MQ_TRY(mq_table_f64(csv, row, "ring", 1, &s->ring, err));
	MQ_TRY(read_flag(csv, row, "overlap_experts", &s->overlap_experts, err));
	MQ_TRY(read_flag(csv, row, "overlap_tp", &s->overlap_tp, err));
	MQ_TRY(read_flag(csv, row, "half_attention", &s->half_attention, err));
	MQ_TRY(mq_table_f64(csv, row, "mbs", 0, &s->mbs, err));
	s->recompute_ops = mq_table_text(csv, row, "recompute_ops");
	s->precision = mq_table_text(csv, row, "precision");
	MQ_TRY(read_extra(csv, row, s, err));
	MQ_TRY(read_images(csv, row, &s->images, err));
	return read_memory(csv, row, s, err);
}

/* A copy of one row, to be changed. */
static struct mq_csv one_row(const struct mq_csv *csv, uint32_t row, struct mq_arena *arena)
{
	struct mq_csv one = *csv;

	one.n_rows = 1;
	one.line = &csv->line[row];
	one.cell = mq_arena_array(arena, csv->n_columns, const char *);
	memcpy(one.cell, csv->cell + (size_t)row * csv->n_columns,
	       csv->n_columns * sizeof(*one.cell));
	return one;
}

enum mq_status mq_stack_find(const struct mq_score_tables *t, const struct mq_run *run,
			     struct mq_arena *arena, struct mq_stack *stack, struct mq_err *err)
{
	const struct mq_csv *csv = &t->stacks;

	for (uint32_t r = 0; r < csv->n_rows; r++) {
		bool fits = *run->stack ?
			!strcmp(run->stack, mq_table_text(csv, r, "stack")) :
			mq_pattern_fits(mq_table_text(csv, r, "source"), run->source) &&
				mq_pattern_fits(mq_table_text(csv, r, "notes"), run->notes) &&
				mq_pattern_fits(mq_table_text(csv, r, "release"), run->locator) &&
				mq_pattern_fits(mq_table_text(csv, r, "type"), run->precision);

		if (!fits)
			continue;
		struct mq_csv row = one_row(csv, r, arena);
		MQ_TRY(mq_recipe_apply(t, run, &row, arena, err));
		return read_stack(&row, 0, stack, err);
	}
	return mq_fail(err, MQ_EINPUT, "no training software '%s'; add a row to stacks.csv",
		       *run->stack ? run->stack : run->source);
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

enum mq_status mq_known_model(const struct mq_score_tables *t, const struct mq_run *run,
			      struct mq_known_model *known, struct mq_err *err)
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
			return mq_fail(err, MQ_EINPUT, "model '%s': %s", run->model,
				       mq_table_text(csv, r, "about"));
		return MQ_OK;
	}
	return mq_fail(err, MQ_EINPUT, "model '%s' is not known; add a row to models.csv, or give it as -m "
		       "takes it (gpt:layers=24,hidden=2048,heads=16)", run->model);
}

double mq_given_value(const char *given, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = given; *p; p += strcspn(p, ","), p += *p == ',')
		if (!strncmp(p, key, n) && p[n] == '=')
			return strtod(p + n + 1, NULL);
	return NAN;
}
