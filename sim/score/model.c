/*
 * model.c - the model and the training software of a row: a specification as -m takes it, a software as
 * --software takes it.
 *
 * Layers that are not given follow from the number of parameters (a multiple of the stages). A model whose name
 * nobody knows is taken by its dimensions.
 */
#include "score/row.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "score/tables.h"

/* "key=value" of a row's cell, unless models.csv gives the key and the row does not. */
static void put(char *spec, size_t size, const char *key, double value)
{
	size_t used = strlen(spec);

	if (!isnan(value) && value > 0 && used < size)
		snprintf(spec + used, size - used, "%s%s=%.0f", used ? "," : "", key, value);
}

/* Drops from "a=1,b=2" the keys that `spec` already has, and appends the rest. */
static void put_given(char *spec, size_t size, const char *given)
{
	while (*given) {
		size_t n = strcspn(given, ","), k = strcspn(given, "=");
		char key[32] = ",";

		if (k + 3 < sizeof(key)) {
			memcpy(key + 1, given, k);
			strcpy(key + 1 + k, "=");
		}
		bool there = !strncmp(spec, key + 1, k + 1) || strstr(spec, key);
		size_t used = strlen(spec);
		if (!there && used + n + 2 < size) {
			if (used)
				spec[used++] = ',';
			memcpy(spec + used, given, n);
			spec[used + n] = '\0';
		}
		given += n + (given[n] == ',');
	}
}

/* Parameters of a GPT's blocks are 12 h^2 each (embeddings apart, as the sizes in names count). */
static double layers_of(const struct mq_run *r)
{
	double stages = mq_run_degree(r->pp) * mq_run_degree(r->vp);

	if (!isnan(r->layers))
		return r->layers;
	if (isnan(r->params_b) || isnan(r->hidden))
		return NAN;
	return stages * fmax(1, round(r->params_b * 1e9 / (12 * r->hidden * r->hidden) / stages));
}

/* "heads=4*tp" of models.csv: a value for each rank of a tensor-parallel group. */
static const char *per_rank(const struct mq_run *r, const char *given, struct mq_arena *arena)
{
	const char *times;

	while ((times = strstr(given, "*tp"))) {
		const char *digits = times;

		while (digits > given && digits[-1] >= '0' && digits[-1] <= '9')
			digits--;
		given = mq_arena_printf(arena, "%.*s%lu%s", (int)(digits - given), given,
					strtoul(digits, NULL, 10) * mq_run_degree(r->tp), times + 3);
	}
	return given;
}

static bool takes(const struct mq_format *format, const char *option)
{
	for (const struct mq_opt *o = format->opts; o && o->type != MQ_OPT_END; o++)
		if (!strcmp(o->name, option))
			return true;
	return false;
}

/* ---- a model that no table knows --------------------------------------------------------------------- */

/* Parameters of a stack of layers with tied embeddings counted once, as sizes in names count: a GPT's, or with
 * gated products between fewer heads of keys and values. */
static double parameters_of(const struct mq_run *r, bool gated)
{
	double h = r->hidden, ffn = isnan(r->ffn) ? 4 * h : r->ffn;
	double kv = isnan(r->kv_heads) || isnan(r->heads) ? 1 : r->kv_heads / r->heads;
	double attention = gated ? (2 + 2 * kv) * h * h : 4 * h * h;

	return r->layers * (attention + (gated ? 3 : 2) * h * ffn) + (gated ? 2 : 1) * h * r->vocab;
}

/* A row that gives its dimensions needs no name: which of the two families has the parameters it states; where
 * it states none, a width between the products that is not four times the model's is a gated one's. */
static enum mq_status by_dimensions(const struct mq_run *r, struct mq_known_model *known, struct mq_arena *arena,
				    const char **guess, struct mq_err *err)
{
	bool gated = !isnan(r->ffn) && fabs(r->ffn / r->hidden - 4) > .01;

	if (isnan(r->layers) || isnan(r->hidden) || isnan(r->heads) || isnan(r->vocab))
		return mq_fail(err, MQ_EINPUT,
			       "model '%s' is not known; give its layers, hidden, heads and vocab, "
			       "a row of models.csv, or the model as -m takes it "
			       "(gpt:layers=24,hidden=2048,heads=16, or a file)",
			       r->model);
	gated |= !isnan(r->kv_heads) && r->kv_heads < r->heads;
	if (!isnan(r->params_b))
		gated = fabs(log(parameters_of(r, true) / (r->params_b * 1e9))) <
			fabs(log(parameters_of(r, false) / (r->params_b * 1e9)));
	*known = (struct mq_known_model){ .builder = gated ? "llama" : "gpt", .given = "", .batch = "" };
	*guess = mq_arena_printf(arena, "model '%s' taken for a %s by its dimensions", r->model, known->builder);
	return MQ_OK;
}

/* A llama whose stated parameters, all its dimensions being stated too, have the embedding once and not twice: by 1 %
 * the one, and not by 2 the other. */
static bool counts_once(const struct mq_run *r, const char *builder)
{
	double untied = parameters_of(r, true), tied = untied - r->hidden * r->vocab, stated = r->params_b * 1e9;

	return !strcmp(builder, "llama") && fabs(tied / stated - 1) < .01 && fabs(untied / stated - 1) > .02;
}

/* ---- the specification ------------------------------------------------------------------------------ */

static bool gives(const char *spec, const char *key)
{
	return !isnan(mq_given_value(spec, key)) || strstr(spec, "size=") != NULL;
}

static enum mq_status check_spec(const struct mq_run *r, const char *spec, struct mq_err *err)
{
	static const char *const needed[] = { "layers", "hidden", "heads" };

	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
		if (!gives(spec, needed[i]))
			return mq_fail(err, MQ_EINPUT, "the %s of '%s' are not given", needed[i], r->model);
	if (isnan(r->seq))
		return mq_fail(err, MQ_EINPUT, "no sequence length");
	return MQ_OK;
}

static enum mq_status model_spec(const struct mq_score_tables *t, struct mq_case *c, struct mq_arena *arena,
				 struct mq_err *err)
{
	const struct mq_run *r = c->run;
	struct mq_known_model known;
	char spec[512] = "";
	/* a rounded vocabulary ("250k") gives way to the exact one */
	double vocab = r->vocab, exact;

	if (*r->model && !access(r->model, R_OK)) { /* a file, as -m takes it */
		c->seq = isnan(r->seq) ? 0 : (uint32_t)r->seq;
		c->spec = mq_arena_strdup(arena, r->model);
		return MQ_OK;
	}
	MQ_TRY(mq_known_model(t, r, &known, err));
	if (known.own) {
		c->seq = isnan(r->seq) || !takes(known.own, "seq") ? 0 : (uint32_t)r->seq;
		c->spec = mq_arena_strdup(arena, r->model);
		return MQ_OK;
	}
	if (!known.builder)
		MQ_TRY(by_dimensions(r, &known, arena, &c->guess, err));
	/* an image's size says all; so do stages of its own, which the row's columns cannot say */
	if (!isnan(mq_given_value(known.given, "image")) || strstr(known.given, "depth=")) {
		c->spec = mq_arena_printf(arena, "%s:%s", known.builder, per_rank(r, known.given, arena));
		return MQ_OK;
	}
	exact = mq_given_value(known.given, "vocab");
	if (!isnan(exact) && (isnan(vocab) || fmod(vocab, 10000) == 0))
		vocab = exact;
	put(spec, sizeof(spec), "layers", layers_of(r));
	put(spec, sizeof(spec), "hidden", r->hidden);
	put(spec, sizeof(spec), "heads", r->heads);
	put(spec, sizeof(spec), "kv_heads", r->kv_heads);
	put(spec, sizeof(spec), "ffn", r->ffn);
	put(spec, sizeof(spec), "vocab", vocab);
	put(spec, sizeof(spec), "seq", r->seq);
	put_given(spec, sizeof(spec), known.given);
	if (counts_once(r, known.builder))
		put_given(spec, sizeof(spec), "tied=true");
	MQ_TRY(check_spec(r, spec, err));
	if (isnan(vocab) && !strstr(spec, "size="))
		mq_case_assume(c, arena, "vocabulary of the builder '%s'", known.builder);
	c->spec = mq_arena_printf(arena, "%s:%s", known.builder, spec);
	return MQ_OK;
}

/* ---- software --------------------------------------------------------------------------------------- */

/* The row's own software and options, which mq_run_publish has filled in where it names none. */
static enum mq_status find_software(const struct mq_score_tables *t, struct mq_case *c, struct mq_arena *arena,
				    struct mq_err *err)
{
	const struct mq_run *r = c->run;
	const char *text = mq_arena_printf(arena, "%s%s%s", *r->software ? r->software : "generic",
					   *r->options ? "," : "", r->options);

	if (!*r->software)
		mq_case_assume(c, arena, "software generic: nobody knows this source");
	return mq_software_load(t->software_dir, text, arena, &c->software, err);
}

enum mq_status mq_case_model(const struct mq_score_tables *tables, struct mq_case *c, struct mq_arena *arena,
			     struct mq_err *err)
{
	MQ_TRY(find_software(tables, c, arena, err));
	return model_spec(tables, c, arena, err);
}

enum mq_status mq_case_flop(const struct mq_score_tables *tables, const struct mq_run *run, struct mq_arena *arena,
			    double *flop, struct mq_err *err)
{
	struct mq_case c = { .run = run };
	struct mq_train train = { .batch = run->gbs, .dtype = MQ_BF16, .grad_dtype = MQ_BF16 };
	struct mq_model *model;

	MQ_TRY(mq_case_model(tables, &c, arena, err));
	const struct mq_model_request request = { c.spec, &train, c.seq, &c.software.software };
	MQ_TRY(mq_model_load(&request, arena, &model, err));
	*flop = 0;
	for (uint32_t i = 0; i < model->n_ops; i++) {
		const struct mq_op *op = &model->op[i];
		bool product = op->kind == MQ_OP_GEMM || op->kind == MQ_OP_CONV || op->kind == MQ_OP_BMM ||
			       op->kind == MQ_OP_ATTENTION;

		if (product)
			*flop += (op->flop + op->flop_bwd) * (op->causal && run->half_attention ? .5 : 1);
	}
	return MQ_OK;
}
