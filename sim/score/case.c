/* case.c - turns a row of measurements into a job: checks that it can be scored, reads training options, combines all
 * parts. A row that cannot be scored is refused with a reason. SPDX-License-Identifier: Apache-2.0 */
#include "score/row.h"

#include <math.h>
#include <string.h>

#include "base/text.h"
#include "score/set.h"
#include "trust/trust.h"

enum { MAX_GPUS = 1 << 20, MACHINES = 3, DEGREES = 7 /* columns of counts: in this order, then dimensions */ };

/* The missing one of rate and batch, from which a step time would follow. */
static enum mq_status check_step(const struct mq_run *r, struct mq_err *err)
{
	if (!isnan(r->step_time_s) || !strcmp(r->status, "oom"))
		return MQ_OK;
	if (isnan(r->value) || !strstr(r->unit, "/s"))
		return mq_run_lacks(r, "step_time_s", "or a rate in value and unit", err);
	if (isnan(r->gbs))
		return mq_run_lacks(r, "gbs", "the step time follows from the rate and the global batch", err);
	if (isnan(r->seq))
		return mq_run_lacks(r, "seq", "the step time follows from the rate and the tokens of a batch", err);
	return mq_bad(err, "no step time: it does not follow from '%s'", r->unit);
}

/* Checks that machines and degrees (at most MAX_GPUS) and dimensions of the model are counts. */
static enum mq_status check_counts(const struct mq_run *r, struct mq_err *err)
{
	const struct {
		const char *column;
		double value;
	} counts[] = {
		{ "gpus", r->gpus },     { "gpus_per_node", r->gpus_per_node },
		{ "nodes", r->nodes },   { "tp", r->tp },
		{ "pp", r->pp },         { "dp", r->dp },
		{ "vp", r->vp },         { "cp", r->cp },
		{ "ep", r->ep },         { "ulysses", r->ulysses },
		{ "layers", r->layers }, { "hidden", r->hidden },
		{ "ffn", r->ffn },       { "heads", r->heads },
		{ "seq", r->seq },       { "kv_heads", r->kv_heads },
		{ "vocab", r->vocab },
	};

	if (r->gpus > MAX_GPUS)
		return mq_bad(err, "%g GPUs are more than the %d that are simulated", r->gpus, MAX_GPUS);
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		double least = i < MACHINES ? 1 : 0, value = counts[i].value; /* a degree of 0 means none */
		double most = i < MACHINES + DEGREES ? MAX_GPUS : 1e9;

		if (!isnan(value) && (value < least || value > most || value != floor(value)))
			return mq_bad(err, "%s %g is no whole number from %g to %.0f", counts[i].column, value, least,
				      most);
	}
	return MQ_OK;
}

/* `known` begins with "", the empty cell. */
static enum mq_status one_of(const char *column, const char *text, const char *const *known, struct mq_err *err)
{
	for (const char *const *k = known; *k; k++)
		if (!strcmp(*k, text))
			return MQ_OK;
	return mq_run_unknown(column, text, known + 1, err);
}

static enum mq_status check_words(const struct mq_run *r, struct mq_err *err)
{
	static const char *const modes[] = { "", "train", "backward", "infer", NULL };
	static const char *const bases[] = { "", "device", "reserved", "allocated", NULL };
	static const char *const states[] = { "", "ok", "oom", "failed", "suspect", NULL };
	static const char *const ranks[] = { "", "first", NULL };

	MQ_TRY(one_of("mode", r->mode, modes, err));
	MQ_TRY(one_of("status", r->status, states, err));
	if (strcasestr(r->model, "lora") && strncmp(r->tuning, "lora", 4) != 0)
		return mq_bad(err, "model '%s' says LoRA, the column train '%s': give lora:rank=N,targets=... there",
			      r->model, r->tuning);
	MQ_TRY(one_of("memory_basis", r->memory_basis, bases, err));
	return one_of("memory_rank", r->memory_rank, ranks, err);
}

static enum mq_status check_state(const struct mq_run *r, struct mq_err *err)
{
	if (r->bad)
		return mq_bad(err, "%s; write digits with a decimal point and no unit, as 3.9", r->bad);
	if (!strcmp(r->provenance, "memory"))
		return mq_bad(err, "unverified source (provenance 'memory')");
	if (!strcmp(r->status, "failed"))
		return mq_bad(err, "the run failed for an unknown cause");
	if (!strcmp(r->status, "suspect"))
		return mq_bad(err, "marked as suspect");
	return MQ_OK;
}

static enum mq_status check_gpus(const struct mq_run *r, struct mq_err *err)
{
	return isnan(r->gpus) || r->gpus < 1 ? mq_run_lacks(r, "gpus", "it says the number of devices", err) : MQ_OK;
}

static enum mq_status check_batch(const struct mq_run *r, struct mq_err *err)
{
	return isnan(r->gbs) || r->gbs < 1 ? mq_run_lacks(r, "gbs", "it says the samples of a step", err) : MQ_OK;
}

typedef enum mq_status check_fn(const struct mq_run *r, struct mq_err *err);
static check_fn *const checks[] = { check_state, check_words, check_step, check_gpus, check_batch, check_counts };
enum { N_CHECKS = sizeof(checks) / sizeof(*checks) };

/* ---- training options ---------------------------------------------------------------------------- */

/* The data type of a row's precision ("bf16", "mixed fp16", "MXFP8"); if empty, that of its devices (MQ_N_DTYPES). */
static enum mq_status dtype_of(struct mq_case *c, struct mq_err *err)
{
	static const struct {
		const char *word;
		enum mq_dtype dtype;
	} known[] = {
		{ "fp8", MQ_BF16 },      { "fp4", MQ_BF16 },     { "float8", MQ_BF16 },  { "bf16", MQ_BF16 },
		{ "bfloat16", MQ_BF16 }, { "fp16", MQ_FP16 },    { "float16", MQ_FP16 }, { "tf32", MQ_TF32 },
		{ "fp32", MQ_FP32 },     { "float32", MQ_FP32 },
	};
	const char *p = c->run->precision;

	if (mq_contains(p, "fp4")) {
		c->train.gemm_dtype = MQ_GEMM_FP4;
	} else if (mq_contains(p, "fp8") || mq_contains(p, "float8")) {
		c->train.gemm_dtype = mq_contains(p, "mx") ? MQ_GEMM_MXFP8 : MQ_GEMM_FP8;
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (mq_contains(p, known[i].word)) {
			c->train.dtype = known[i].dtype;
			return MQ_OK;
		}
	c->train.dtype = MQ_N_DTYPES;
	return *p ? mq_bad(err, "precision '%s' is not known", p) : MQ_OK;
}

static enum mq_status training(struct mq_case *c, const struct mq_calib *calib, struct mq_err *err)
{
	const char *type[MQ_CASE_MAX_PARTS + 1] = { NULL };

	c->train = (struct mq_train){ .batch = c->run->gbs,
				      .optimizer =
					      !strcmp(c->run->mode, "backward") ? MQ_OPTIMIZER_NONE : MQ_OPTIMIZER_ADAM,
				      .infer = !strcmp(c->run->mode, "infer"),
				      .tuning = *c->run->tuning ? c->run->tuning : NULL };
	MQ_TRY(dtype_of(c, err));
	for (uint32_t i = 0; i < c->n_parts; i++)
		type[i] = c->part[i].device;
	c->train.dtype = mq_software_dtype(&c->software.software, calib, type, c->train.dtype);
	for (uint32_t i = 0; i < c->n_parts; i++) {
		const struct mq_device_calib *d = mq_calib_device(calib, type[i]);

		if (d && !mq_cost_multiplies(d, &c->train))
			return mq_bad(err, "%s has no %s", d->name, mq_train_gemm_name(&c->train));
	}
	c->train.grad_dtype = mq_software_grad_dtype(&c->software.software, c->train.dtype);
	return MQ_OK;
}

/* ---- job and plan ---------------------------------------------------------------------------------- */

static enum mq_status load_model(struct mq_case *c, struct mq_err *err)
{
	const struct mq_model_request request = { c->spec, &c->train, c->seq, &c->software.software };

	MQ_TRY(mq_model_load(&request, c->arena, &c->model, err));
	c->image = c->model->image;
	c->vocab = c->model->vocab;
	if (c->image) /* as image networks are trained everywhere */
		c->train.optimizer = MQ_OPTIMIZER_MOMENTUM;
	return MQ_OK;
}

static enum mq_status make_plan(struct mq_case *c, struct mq_err *err)
{
	/* Only the number of devices of the cluster is used. */
	struct mq_cluster cluster = { .name = c->platform };

	for (uint32_t i = 0; i < c->n_parts; i++)
		cluster.n_devices = c->part[i].first + c->part[i].nodes * c->part[i].per_node;
	if (cluster.n_devices < c->n_devices)
		cluster.n_devices = c->n_devices;
	MQ_TRY(mq_plan_from_shape(&c->shape, c->model, &cluster, c->arena, &c->plan, err));
	c->plan.zero_group = c->zero_group;
	return MQ_OK;
}

/* The row's changes of the hardware, "KEY=VALUE;...", in the form of --change. */
static enum mq_status own_changes(const struct mq_case *c, struct mq_score_changes *to, struct mq_err *err)
{
	const char *rest = c->run->change, *change;

	while ((change = mq_text_next(&rest, ";", c->arena))) {
		if (to->n == MQ_CASE_MAX_CHANGES)
			return mq_bad(err, "change: more than %d changes", MQ_CASE_MAX_CHANGES);
		to->change[to->n++] = change;
	}
	return MQ_OK;
}

static enum mq_status make_job(const struct mq_score_options *o, struct mq_case *c, struct mq_err *err)
{
	struct mq_score_changes to = { mq_arena_array(o->arena, MQ_CASE_MAX_CHANGES, const char *), 0,
				       c->software.software.name };
	const struct mq_trust_without own = { NULL, mq_trust_publisher(c->run->source, o->arena) };

	MQ_TRY(own_changes(c, &to, err));
	MQ_TRY(mq_score_change(o, c, &to, err));
	mq_job_init(&c->job);
	c->job.asked.model = c->spec;
	c->job.asked.seq = c->seq;
	c->job.asked.train = c->train;
	c->job.asked.grad_given = true;
	c->job.asked.software = to.software;
	c->job.software_dir = o->software_dir;
	c->job.asked.platform = c->platform;
	c->job.change = to.change;
	c->job.n_change = to.n;
	c->job.asked.timeout_s = 1e7;
	c->job.analytic = !strcmp(o->executor, "analytic");
	c->job.max_tasks = o->row_tasks;
	c->job.memory_high = mq_trust_memory(o->trust, &own).high;
	c->job.asked.time_oom = c->run->step_time_s > 0; /* it fitted: time it even if the model says OOM */
	return MQ_OK;
}

uint32_t mq_case_lacks(const struct mq_score_options *o, const struct mq_run *run, const char *why[MQ_CASE_MAX_LACKS],
		       const char **assumed)
{
	struct mq_case c = { .run = run,
			     .options = o,
			     .arena = o->arena,
			     .n_devices = run->gpus >= 1 && run->gpus <= MAX_GPUS ? (uint32_t)run->gpus : 1 };
	struct mq_err err = MQ_ERR_INIT;
	uint32_t n = 0;

	for (int i = 0; i < N_CHECKS && !(n && run->bad); i++) /* later checks would call a bad cell empty */
		if (checks[i](run, &err) != MQ_OK)
			why[n++] = mq_arena_strdup(o->arena, err.text);
	if (run->bad)
		return n;
	if (!n && mq_case_build(o, run, &c, &err) == MQ_OK)
		return *assumed = c.assumed, 0;
	c = (struct mq_case){ .run = run, .options = o, .arena = o->arena, .n_devices = c.n_devices };
	if (*run->gpu || *run->platform ? mq_case_machines(&c, &err) != MQ_OK :
					  mq_run_lacks(run, "gpu", "or platform; they say the machines", &err) != MQ_OK)
		why[n++] = mq_arena_strdup(o->arena, err.text);
	if (mq_case_model(&c, &err) != MQ_OK)
		why[n++] = mq_arena_strdup(o->arena, err.text);
	if (!n && mq_case_build(o, run, &c, &err) != MQ_OK)
		why[n++] = mq_arena_strdup(o->arena, err.text);
	return n;
}

enum mq_status mq_case_build(const struct mq_score_options *o, const struct mq_run *run, struct mq_case *c,
			     struct mq_err *err)
{
	*c = (struct mq_case){ .run = run, .options = o, .arena = o->arena };
	for (int i = 0; i < N_CHECKS; i++)
		MQ_TRY(checks[i](run, err));
	c->n_devices = (uint32_t)run->gpus;
	MQ_TRY(mq_case_machines(c, err));
	MQ_TRY(mq_case_model(c, err));
	MQ_TRY(training(c, o->calib, err));
	MQ_TRY(load_model(c, err));
	MQ_TRY(mq_case_shape(c, err));
	MQ_TRY(mq_case_place(c, err));
	MQ_TRY(make_plan(c, err));
	return make_job(o, c, err);
}
