/* model.c - the model and the training software of a row, as specifications for -m and --software.
 *
 * The model comes from model_spec, from the model cell, from models.csv, or is a family with the row's dimensions;
 * columns of the row fill in what it leaves open. SPDX-License-Identifier: Apache-2.0 */
#include "score/row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/format.h"

/* A specification under construction: "key=value,..." of a built-in model. */
struct spec {
	struct mq_builtin is; /* name NULL: not known yet */
	const char *keys;
	bool card; /* from models.csv: the row's columns take precedence */
};

/* The value of KEY in "key=value,..."; NULL = absent. */
static const char *value_of(const char *keys, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = keys; *p; p += strcspn(p, ","), p += *p == ',')
		if (!strncmp(p, key, n) && p[n] == '=')
			return p + n + 1;
	return NULL;
}

static bool takes(const struct spec *spec, const char *option)
{
	for (const struct mq_opt *o = spec->is.opts; o && o->type != MQ_OPT_END; o++)
		if (!strcmp(o->name, option))
			return true;
	for (const char **keys = spec->is.made; keys && *keys; keys++)
		if (value_of(*keys, option))
			return true;
	return false;
}

static bool take_spec(const char *text, struct spec *spec, struct mq_arena *arena)
{
	const char *colon = strchr(text, ':');

	spec->keys = colon ? colon + 1 : "";
	if (!mq_model_builtin(text, arena, &spec->is))
		spec->is.name = NULL;
	return spec->is.name != NULL;
}

/* A model without card is a llama if its dimensions are (grouped queries, or an MLP width other than four times the
 * hidden size), else a GPT. */
static enum mq_status by_dimensions(struct mq_case *c, struct spec *spec, struct mq_err *err)
{
	const struct mq_run *r = c->run;
	bool gated = (!isnan(r->ffn) && fabs(r->ffn / r->hidden - 4) > .01) || r->kv_heads < r->heads;
	const char *near = mq_nearest(r->model, mq_model_names(c->arena));

	if (isnan(r->layers) || isnan(r->hidden) || isnan(r->heads) || isnan(r->vocab))
		return mq_bad(err,
			      "model '%s' is not known%s%s%s; give its layers, hidden, heads and vocab, or the model "
			      "as -m takes it in model_spec (gpt:layers=24,hidden=2048,heads=16, or a file)",
			      r->model, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
	take_spec(gated ? "llama" : "gpt", spec, c->arena);
	mq_case_assume(c, "model '%s' taken for a %s by its dimensions", r->model, spec->is.name);
	return MQ_OK;
}

/* A GPT block has 12 h^2 parameters (sizes in names exclude embeddings). */
static double layers_of(struct mq_case *c)
{
	const struct mq_run *r = c->run;
	double stages = mq_run_degree(r->pp) * mq_run_degree(r->vp), layers;

	if (!isnan(r->layers) || isnan(r->params_b) || isnan(r->hidden))
		return r->layers;
	layers = stages * fmax(1, round(r->params_b * 1e9 / (12 * r->hidden * r->hidden) / stages));
	mq_case_assume(c, "%g layers, as params_b and hidden make", layers);
	return layers;
}

/* Heads of 128 elements, or the next larger size that divides the width and suits the tensor-parallel degree. */
static double heads_of(struct mq_case *c)
{
	const struct mq_run *r = c->run;
	double tp = mq_run_degree(r->tp);

	if (!isnan(r->heads) || isnan(r->hidden))
		return r->heads;
	for (double size = 128; size <= 256; size++)
		if (fmod(r->hidden, size * tp) == 0) {
			mq_case_assume(c, "%g heads of %g", r->hidden / size, size);
			return r->hidden / size;
		}
	return NAN;
}

/* Appends columns of the row to the keys of the specification. */
static enum mq_status put_columns(struct mq_case *c, struct spec *spec, struct mq_err *err)
{
	const struct mq_run *r = c->run;
	const bool whole = takes(spec, "size") && value_of(spec->keys, "size");
	const bool sized = takes(spec, "layers") && takes(spec, "hidden") && !whole;
	const struct {
		const char *key;
		double value;
	} column[] = {
		{ "layers", sized && !value_of(spec->keys, "layers") ? layers_of(c) : r->layers },
		{ "hidden", r->hidden },
		{ "heads", sized && !value_of(spec->keys, "heads") ? heads_of(c) : r->heads },
		{ "kv_heads", r->kv_heads },
		{ "ffn", r->ffn },
		{ "vocab", r->vocab },
		{ "seq", r->seq },
	};

	for (size_t i = 0; i < sizeof(column) / sizeof(*column); i++) {
		const char *key = column[i].key, *own = value_of(spec->keys, key);

		if (isnan(column[i].value))
			continue;
		if (!takes(spec, key)) {
			mq_case_assume(c, "%s not read: a model %s has none", key, spec->is.name);
			continue;
		}
		if (own && !spec->card && fabs(strtod(own, NULL) - column[i].value) > .5)
			return mq_bad(err, "%s is %g in the column %s and %.*s in the model '%s:%s'", key,
				      column[i].value, key, (int)strcspn(own, ","), own, spec->is.name, spec->keys);
		if (!own || spec->card)
			spec->keys = mq_arena_printf(c->arena, "%s%s%s=%.0f", spec->keys, *spec->keys ? "," : "", key,
						     column[i].value);
	}
	return MQ_OK;
}

/* Mandatory dimensions, unless the model cell gives the whole model. */
static enum mq_status check_spec(const struct mq_run *r, const struct spec *spec, struct mq_err *err)
{
	static const char *const needed[] = { "layers", "hidden", "heads", "seq" };
	bool sized = takes(spec, "size") && value_of(spec->keys, "size");

	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
		if (takes(spec, needed[i]) && !value_of(spec->keys, needed[i]) && !(sized && strcmp(needed[i], "seq")))
			return mq_run_lacks(r, needed[i], "or give it in model_spec", err);
	return MQ_OK;
}

static enum mq_status model_spec(struct mq_case *c, struct mq_err *err)
{
	const struct mq_run *r = c->run;
	const char *text = *r->model_spec ? r->model_spec : r->model;
	struct spec spec = { .keys = "" };
	bool own = take_spec(text, &spec, c->arena);

	if (!own && *text && !access(text, R_OK)) { /* a file for -m */
		c->seq = isnan(r->seq) ? 0 : (uint32_t)r->seq;
		c->spec = mq_arena_strdup(c->arena, text);
		if (!isnan(r->layers) || !isnan(r->hidden) || !isnan(r->heads))
			mq_case_assume(c, "dimensions as the model's file says, not as the columns");
		return MQ_OK;
	}
	if (!own && *r->model_spec)
		return mq_bad(err, "model_spec '%s' is no file and no builder; `maquette list models` has them", text);
	for (uint32_t row = 0; !spec.is.name && row < c->options->models.n_rows; row++)
		if (mq_pattern_fits(mq_csv_word(&c->options->models, row, "model"), text)) {
			spec.card = true;
			if (!take_spec(mq_csv_word(&c->options->models, row, "spec"), &spec, c->arena))
				return mq_bad(err, "%s:%u: spec '%s' names no builder", c->options->models.path,
					      c->options->models.line[row],
					      mq_csv_word(&c->options->models, row, "spec"));
		}
	if (!spec.is.name)
		MQ_TRY(by_dimensions(c, &spec, err));
	MQ_TRY(put_columns(c, &spec, err));
	if (!own || *r->model_spec)
		MQ_TRY(check_spec(r, &spec, err));
	if (takes(&spec, "vocab") && !value_of(spec.keys, "vocab") && !value_of(spec.keys, "size"))
		mq_case_assume(c, "vocabulary of the builder '%s'", spec.is.name);
	c->spec = mq_arena_printf(c->arena, "%s%s%s", spec.is.name, *spec.keys ? ":" : "", spec.keys);
	return MQ_OK;
}

/* ---- software --------------------------------------------------------------------------------------- */

/* The row's options, with names of before version 0.3 replaced by the present ones. */
static const char *options_now(struct mq_case *c)
{
	const char *now = "";

	for (const char *item = c->run->options; *item; item += *item != '\0') {
		size_t n = strcspn(item, ",;"), k = strcspn(item, "=,;");
		const char *old = mq_arena_printf(c->arena, "%.*s", (int)k, item), *name = mq_software_renamed(old);

		if (name && strcmp(old, "bucket_copies") != 0) /* its meaning is now the opposite: refused */
			mq_case_assume(c, "'%s' of software is now '%s'", old, name);
		else
			name = old;
		now = mq_arena_printf(c->arena, "%s%s%s%.*s", now, *now ? ";" : "", name, (int)(n - k), item + k);
		item += n;
	}
	return now;
}

enum mq_status mq_case_model(struct mq_case *c, struct mq_err *err)
{
	const struct mq_run *r = c->run;
	const char *software = mq_arena_printf(c->arena, "%s%s%s", *r->software ? r->software : "generic",
					       *r->options ? "," : "", options_now(c));

	if (!*r->software)
		mq_case_assume(c, "software generic: the row names none");
	MQ_TRY(mq_software_load(c->options->software_dir, software, c->arena, &c->software, err));
	return model_spec(c, err);
}
