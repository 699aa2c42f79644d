/*
 * score_case.c - one row of measurements as a question: model, training options, plan.
 *
 * What a row leaves open comes from the tables (score_tables.h) or follows from the rest: data-parallel
 * degree from the number of GPUs, micro-batches from batch and accumulation, layers from the number
 * of parameters (a multiple of the stages). What cannot be had is a refusal with its reason.
 */
#include "cmd/score/score_runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/score/score_tables.h"
#include "platform/platform_generate.h"

static uint32_t degree(double value)
{
	return isnan(value) || value < 1 ? 1 : (uint32_t)value;
}

static bool has(const char *text, const char *part)
{
	return strcasestr(text, part) != NULL;
}

/* ---- may the row be scored at all ---------------------------------------------------------------- */

/* It would follow from a throughput and its batch (see mq_run_complete): which of them is missing? */
static enum mq_status no_step_time(const struct mq_run *r, struct mq_err *err)
{
	if (isnan(r->value) || !strstr(r->unit, "/s"))
		return mq_fail(err, MQ_EINPUT, "no step time: neither step_time_s nor a throughput");
	if (isnan(r->gbs))
		return mq_fail(err, MQ_EINPUT, "no step time: %s without the global batch (gbs)",
			       r->unit);
	return mq_fail(err, MQ_EINPUT, "no step time: it does not follow from '%s'%s", r->unit,
		       isnan(r->seq) ? " without the sequence length (seq)" : "");
}

static enum mq_status check_row(const struct mq_score_tables *t, const struct mq_run *r,
				struct mq_err *err)
{
	if (!strcmp(r->provenance, "memory"))
		return mq_fail(err, MQ_EINPUT, "unverified source (provenance 'memory')");
	if (!strcmp(r->status, "failed"))
		return mq_fail(err, MQ_EINPUT, "the run failed for an unknown cause");
	if (!strcmp(r->status, "suspect"))
		return mq_fail(err, MQ_EINPUT, "marked as suspect");
	if (isnan(r->step_time_s) && strcmp(r->status, "oom")) {
		struct mq_known_model known;

		MQ_TRY(mq_known_model(t, r, &known, err)); /* a model that is refused says why */
		return no_step_time(r, err);
	}
	if (isnan(r->gpus) || r->gpus < 1)
		return mq_fail(err, MQ_EINPUT, "no number of GPUs");
	if (isnan(r->gbs) || r->gbs < 1)
		return mq_fail(err, MQ_EINPUT, "no global batch");
	if (has(r->notes, "LoRA") || has(r->locator, "LoRA"))
		return mq_fail(err, MQ_EINPUT, "low-rank adaptation is not modelled");
	return MQ_OK;
}

/* ---- model --------------------------------------------------------------------------------------- */

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
	double stages = degree(r->pp) * degree(r->vp);

	if (!isnan(r->layers))
		return r->layers;
	if (isnan(r->params_b) || isnan(r->hidden))
		return NAN;
	return stages * fmax(1, round(r->params_b * 1e9 / (12 * r->hidden * r->hidden) / stages));
}

/* Software may pad the vocabulary, so that tensor cores get aligned shares on every tensor rank; where it
 * does not, the shares are whole numbers all the same. */
static double whole_shares(const struct mq_case *c, double vocab)
{
	double tp = c->stack.vocab_parallel ? degree(c->run->tp) : 1;
	double unit = c->stack.vocab_multiple * tp;

	return unit > 0 ? ceil(vocab / unit) * unit : fmax(floor(vocab / tp), 1) * tp;
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
					strtoul(digits, NULL, 10) * degree(r->tp), times + 3);
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

/* A cell that is a specification says all itself; only the attention kernel is the software's. */
static const char *own_spec(const char *model, const struct mq_format *format, bool fused,
			    struct mq_arena *arena)
{
	if (!takes(format, "fused_attention") || strstr(model, "fused_attention="))
		return mq_arena_strdup(arena, model);
	return mq_arena_printf(arena, "%s%sfused_attention=%s", model, strchr(model, ':') ? "," : ":",
			       fused ? "true" : "false");
}

static enum mq_status model_spec(const struct mq_score_tables *t, struct mq_case *c,
				 struct mq_arena *arena, struct mq_err *err)
{
	const struct mq_run *r = c->run;
	struct mq_known_model known;
	char spec[512] = "";
	/* a rounded vocabulary ("250k") gives way to the exact one */
	double vocab = r->vocab, exact;

	MQ_TRY(mq_known_model(t, r, &known, err));
	if (known.own) {
		c->image = takes(known.own, "image");
		c->seq = isnan(r->seq) || !takes(known.own, "seq") ? 0 : (uint32_t)r->seq;
		c->spec = own_spec(r->model, known.own, c->stack.fused_attention, arena);
		return MQ_OK;
	}
	if (!isnan(mq_given_value(known.given, "image"))) { /* its size says all */
		c->image = true;
		c->spec = mq_arena_printf(arena, "%s:%s", known.builder, known.given);
		return MQ_OK;
	}
	if (strstr(known.given, "depth=")) { /* stages of its own, which the row's columns cannot say */
		c->spec = mq_arena_printf(arena, "%s:%s,fused_attention=%s", known.builder,
					  per_rank(r, known.given, arena),
					  c->stack.fused_attention ? "true" : "false");
		return MQ_OK;
	}
	exact = mq_given_value(known.given, "vocab");
	if (!isnan(exact) && (isnan(vocab) || fmod(vocab, 10000) == 0))
		vocab = exact;
	if (!isnan(vocab))
		vocab = whole_shares(c, vocab);
	put(spec, sizeof(spec), "layers", layers_of(r));
	put(spec, sizeof(spec), "hidden", r->hidden);
	put(spec, sizeof(spec), "heads", r->heads);
	put(spec, sizeof(spec), "kv_heads", r->kv_heads);
	put(spec, sizeof(spec), "ffn", r->ffn);
	put(spec, sizeof(spec), "vocab", vocab);
	put(spec, sizeof(spec), "seq", r->seq);
	put_given(spec, sizeof(spec), known.given);
	if (isnan(mq_given_value(spec, "layers")) && !strstr(spec, "size="))
		return mq_fail(err, MQ_EINPUT, "the layers of '%s' are not given", r->model);
	if (isnan(mq_given_value(spec, "hidden")) && !strstr(spec, "size="))
		return mq_fail(err, MQ_EINPUT, "the width of '%s' is not given", r->model);
	if (isnan(mq_given_value(spec, "heads")) && !strstr(spec, "size="))
		return mq_fail(err, MQ_EINPUT, "the attention heads of '%s' are not given", r->model);
	if (isnan(r->seq))
		return mq_fail(err, MQ_EINPUT, "no sequence length");
	c->seq = 0;
	c->spec = mq_arena_printf(arena, "%s:%s,fused_attention=%s", known.builder, spec,
				  c->stack.fused_attention ? "true" : "false");
	return MQ_OK;
}

/* ---- training options ---------------------------------------------------------------------------- */

/* The type that a row's precision names; where it names none, the 16-bit type that all devices have. */
static enum mq_status dtype_of(struct mq_case *c, bool bf16, struct mq_err *err)
{
	static const struct {
		const char *word;
		enum mq_dtype dtype;
	} known[] = {
		{ "fp8", MQ_BF16 }, { "fp4", MQ_BF16 }, { "float8", MQ_BF16 }, { "bf16", MQ_BF16 }, { "bfloat16", MQ_BF16 },
		{ "fp16", MQ_FP16 }, { "float16", MQ_FP16 }, { "tf32", MQ_TF32 }, { "fp32", MQ_FP32 },
		{ "float32", MQ_FP32 },
	};
	const char *p = *c->run->precision ? c->run->precision : c->stack.precision;

	c->train.products = has(p, "fp4") ? MQ_FP4 : MQ_FP8;
	if (has(p, "fp4"))
		c->train.cast_B = mq_cast_B(MQ_FP4);
	else if (has(p, "fp8") || has(p, "float8"))
		c->train.cast_B = has(p, "mx") ? c->stack.mx_cast_B : c->stack.fp8_cast_B;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (has(p, known[i].word)) {
			c->train.dtype = known[i].dtype;
			return MQ_OK;
		}
	c->train.dtype = bf16 ? MQ_BF16 : MQ_FP16;
	return *p ? mq_fail(err, MQ_EINPUT, "precision '%s' is not known", p) : MQ_OK;
}

static enum mq_status training(struct mq_case *c, const struct mq_calib *calib, struct mq_err *err)
{
	const struct mq_device_calib *device[MQ_CASE_MAX_PARTS];
	bool bf16 = true, tf32 = true;

	for (uint32_t i = 0; i < c->n_parts; i++) {
		device[i] = mq_calib_device(calib, c->part[i].system.device);
		if (!device[i])
			return mq_fail(err, MQ_EINPUT, "no calibration of '%s'",
				       c->part[i].system.device);
		bf16 &= device[i]->peak_flops[MQ_BF16] > 0;
		tf32 &= device[i]->peak_flops[MQ_TF32] > 0;
	}
	c->train = (struct mq_train){ .batch = c->run->gbs, .optimizer = MQ_OPTIMIZER_ADAM };
	if (c->image) /* as image networks are trained everywhere */
		c->train.optimizer = MQ_OPTIMIZER_MOMENTUM;
	c->train.merge_copies = c->stack.merge_copies;
	c->train.repeat_kv = c->stack.repeat_kv;
	c->train.fused_experts = c->stack.fused_experts;
	c->train.fp8_attention = c->stack.fp8_attention;
	MQ_TRY(dtype_of(c, bf16, err));
	if (c->train.dtype == MQ_FP32 && c->stack.tf32 && tf32)
		c->train.dtype = MQ_TF32;
	for (uint32_t i = 0; i < c->n_parts; i++) {
		enum mq_dtype need = c->train.cast_B > 0 ? c->train.products : c->train.dtype;

		if (!(device[i]->peak_flops[need] > 0))
			return mq_fail(err, MQ_EINPUT, "%s has no %s", device[i]->name,
				       mq_dtype_name(need));
	}
	c->train.grad_dtype = c->stack.grad_as_dtype ? c->train.dtype : c->stack.grad_dtype;
	if (has(c->run->notes, "fp32 gradient accumulation"))
		c->train.grad_dtype = MQ_FP32;
	return MQ_OK;
}

/* ---- plan ---------------------------------------------------------------------------------------- */

static enum mq_status degrees(const struct mq_score_tables *tables, struct mq_case *c,
			      struct mq_arena *arena, struct mq_err *err)
{
	const struct mq_run *r = c->run;
	struct mq_shape *s = &c->shape;
	double model_parallel;

	s->tp = degree(r->tp);
	s->pp = degree(r->pp);
	s->cp = degree(r->cp);
	s->ep = degree(r->ep);
	s->virtual = degree(r->vp);
	model_parallel = (double)s->tp * s->pp * s->cp;
	s->dp = (uint32_t)(r->gpus / model_parallel);
	MQ_TRY(mq_case_degrees(tables, c, arena, err));
	if (!s->stage_tp && s->dp * model_parallel != r->gpus)
		return mq_fail(err, MQ_EINPUT, "%g GPUs are not a multiple of tp %u x pp %u x cp %u",
			       r->gpus, s->tp, s->pp, s->cp);
	if (!isnan(r->dp) && r->dp != s->dp)
		return mq_fail(err, MQ_EINPUT, "dp %g does not follow from %g GPUs, tp %u, pp %u, "
			       "cp %u", r->dp, r->gpus, s->tp, s->pp, s->cp);
	return MQ_OK;
}

static enum mq_status micro_batches(struct mq_case *c, struct mq_err *err)
{
	const struct mq_run *r = c->run;
	double per_replica = r->gbs / c->shape.dp, n = r->accum;

	if (isnan(n) && (!isnan(r->mbs) || c->stack.mbs > 0))
		n = per_replica / (isnan(r->mbs) ? c->stack.mbs : r->mbs);
	if (isnan(n))
		return mq_fail(err, MQ_EINPUT, "neither micro-batch nor accumulation is given");
	if (n == 1 && c->stack.split_batch && c->shape.pp > 1 &&
	    fmod(per_replica, c->shape.pp) == 0)
		n = c->shape.pp;
	if (n < 1 || fabs(n - round(n)) > 1e-6)
		return mq_fail(err, MQ_EINPUT, "batch %g does not divide into micro-batches of %g on "
			       "%u replicas", r->gbs, r->mbs, c->shape.dp);
	c->shape.micro_batches = (uint32_t)round(n);
	return MQ_OK;
}

/* Ranks that parameters are sharded over where that is not all that hold the same: "ZeRO-1 within 8 GPUs";
 * hybrid shards ("HSDP 4x8": 4 copies of 8 shards), by default those of a machine; "FSDP 8" on more
 * replicas than 8. 0 = all. */
static uint32_t sharding_group(const struct mq_case *c)
{
	const char *z = c->run->zero, *within = strstr(z, "within ");
	const char *number = z + strcspn(z, "0123456789"), *times = strchr(number, 'x');
	bool hybrid = has(z, "hsdp") || has(z, "hybrid");
	uint32_t group = 0, ranks = c->shape.dp * c->shape.cp;

	if (within)
		return (uint32_t)strtoul(within + 7, NULL, 10);
	if (times && strtoul(times + 1, NULL, 10) > 0)
		group = (uint32_t)strtoul(times + 1, NULL, 10);
	else if (hybrid && !*number && c->part[0].per_node > c->shape.tp)
		group = c->part[0].per_node / c->shape.tp;
	else if (has(z, "fsdp") || hybrid)
		group = *number ? (uint32_t)strtoul(number, NULL, 10) : 0;
	/* "FSDP2 64" is the second FSDP */
	if (has(z, "fsdp2") && *number && !times)
		group = (uint32_t)strtoul(number + 1, NULL, 10);
	return group < c->shape.dp && group > 1 && ranks % group == 0 ? group : 0;
}

static void sync_of(struct mq_case *c)
{
	const char *z = c->run->zero;

	c->shape.sync = (uint8_t)c->stack.sync;
	if (has(z, "zero-1"))
		c->shape.sync = MQ_SYNC_ZERO1;
	else if (has(z, "zero-2") || has(z, "shard_grad_op"))
		c->shape.sync = MQ_SYNC_ZERO2;
	else if (has(z, "zero-3") || has(z, "fsdp") || has(z, "hsdp") || has(z, "hybrid"))
		c->shape.sync = MQ_SYNC_ZERO3;
	c->zero_group = sharding_group(c);
	if (c->shape.dp * c->shape.cp == 1)
		c->shape.sync = MQ_SYNC_ALLREDUCE;
}

static enum mq_status schedule_of(struct mq_case *c, struct mq_err *err)
{
	const char *s = c->run->schedule, *r = c->stack.own_recompute ? "" : c->run->recompute;

	if (has(s, "interleaved") && isnan(c->run->vp) && c->shape.pp > 1 && c->stack.chunks)
		c->shape.virtual = c->stack.chunks;
	c->shape.pipeline = c->shape.virtual > 1 ? MQ_PIPE_INTERLEAVED : MQ_PIPE_1F1B;
	if (has(s, "gpipe"))
		c->shape.pipeline = MQ_PIPE_GPIPE;
	else if (has(s, "zb") || has(s, "zero bubble"))
		c->shape.pipeline = MQ_PIPE_ZB_H1;
	else if (has(s, "interleaved") && c->shape.virtual == 1 && c->shape.pp > 1 &&
		 isnan(c->run->vp))
		return mq_fail(err, MQ_EINPUT, "interleaved schedule without the number of chunks");
	c->shape.recompute = (uint8_t)c->stack.recompute;
	if (has(r, "full"))
		c->shape.recompute = MQ_RECOMPUTE_FULL;
	else if (has(r, "selective"))
		c->shape.recompute = MQ_RECOMPUTE_SELECTIVE;
	else if (has(r, "none"))
		c->shape.recompute = MQ_RECOMPUTE_NONE;
	return MQ_OK;
}

/* Layers per stage, or per chunk where there are several to a stage. "7/9/9/9" may count further items before and behind the layers (embedding, head):
 * what is over is taken half from the first items, half from the last. */
static enum mq_status listed_stages(struct mq_case *c, double layers, struct mq_arena *arena,
				    struct mq_err *err)
{
	const char *text = c->run->stage_layers;
	uint32_t want = c->shape.pp * c->shape.virtual, n = 0;
	uint32_t *stage = mq_arena_array(arena, want, uint32_t);
	double items = 0, before, at = 0;

	for (const char *p = text; *p;) {
		char *end;
		unsigned long value = strtoul(p, &end, 10);

		if (end == p || n == want || (*end && *end != '/'))
			return mq_fail(err, MQ_EINPUT, "stage_layers '%s' do not list %u stages",
				       text, want);
		stage[n++] = (uint32_t)value;
		items += (double)value;
		p = end + (*end == '/');
	}
	if (n != want || items < layers)
		return mq_fail(err, MQ_EINPUT, "stage_layers '%s' do not make %g layers in %u stages",
			       text, layers, want);
	before = floor((items - layers) / 2);
	for (uint32_t s = 0; s < n; s++) {
		double first = fmax(at, before), last = fmin(at + stage[s], before + layers);

		at += stage[s];
		stage[s] = last > first ? (uint32_t)(last - first) : 0;
		if (!stage[s] && s && s + 1 < n)
			return mq_fail(err, MQ_EINPUT, "stage_layers '%s' leave a stage without a "
				       "layer", text);
	}
	c->shape.stage_layers = stage;
	return MQ_OK;
}

/* Megatron deals layers out evenly to all chunks or not at all. Where they do not divide but would with the
 * embedding, the head or both counted as a layer each (--account-for-embedding-in-pipeline-split,
 * --account-for-loss-in-pipeline-split), so they were: the first and last chunk have one layer less. A third
 * item is what explicit layouts give the last chunk for a further token's block, or for a wide vocabulary
 * (Megatron-Bridge's of DeepSeek-V3 and Kimi K2, 61 layers: 4 x 15 + 1, and 1 + 2 x 30 + 0). */
static void chunks(struct mq_case *c, uint32_t layers, struct mq_arena *arena)
{
	uint32_t n = c->shape.pp * c->shape.virtual, ends = 0;

	while (ends <= 3 && (layers + ends) % n)
		ends++;
	if (!ends || ends > 3)
		return;
	uint32_t each = (layers + ends) / n;
	uint32_t behind = ends < 3 ? 1 : each < 3 ? each : 3; /* the head before the embedding: more work */
	uint32_t *stage = mq_arena_array(arena, n, uint32_t);
	for (uint32_t s = 0; s < n; s++)
		stage[s] = each;
	stage[n - 1] -= behind;
	stage[0] -= ends - behind;
	c->shape.stage_layers = stage;
}

enum mq_status mq_case_stages(struct mq_case *c, uint32_t total, struct mq_arena *arena,
			      struct mq_err *err)
{
	uint32_t n = c->shape.pp;

	if (*c->run->stage_layers)
		return listed_stages(c, total, arena, err);
	if (n == 1)
		return MQ_OK;
	if (c->shape.virtual > 1 || (total % n && !c->stack.full_first)) {
		chunks(c, total, arena);
		return MQ_OK;
	}
	bool ends = has(c->run->notes, "embedding counted as a layer") && (total + 2) % n == 0;
	if (!ends && (total % n == 0 || !c->stack.full_first))
		return MQ_OK;
	uint32_t *stage = mq_arena_array(arena, n, uint32_t);
	uint32_t most = (total + n - 1) / n, left = total;
	for (uint32_t s = 0; s < n; s++) {
		if (ends)
			stage[s] = (total + 2) / n - (s == 0) - (s == n - 1);
		else
			stage[s] = most < left ? most : left;
		left -= ends ? 0 : stage[s];
		if (!stage[s])
			return MQ_OK; /* too few layers for that rule: even */
	}
	c->shape.stage_layers = stage;
	return MQ_OK;
}

/* Products of tensor parallelism beside their collectives, as torchtitan calls it. */
static bool says_async_tp(const char *notes)
{
	return has(notes, "async TP") || has(notes, "async-TP") || has(notes, "asyncTP") ||
	       has(notes, "asynchronous tensor");
}

static enum mq_status plan(const struct mq_score_tables *tables, struct mq_case *c,
			   struct mq_arena *arena, struct mq_err *err)
{
	MQ_TRY(degrees(tables, c, arena, err));
	MQ_TRY(micro_batches(c, err));
	MQ_TRY(schedule_of(c, err));
	sync_of(c);
	c->shape.sequence_parallel = c->stack.sequence_parallel && c->shape.tp > 1;
	c->shape.vocab_parallel = c->stack.vocab_parallel;
	c->stack.overlap_tp |= says_async_tp(c->run->notes);
	double layers = mq_given_value(strchr(c->spec, ':') + 1, "layers");
	return isnan(layers) ? MQ_OK : mq_case_stages(c, (uint32_t)layers, arena, err);
}

/* What the software moves beside the least: it depends on the type and on the accumulation. */
static void put_traffic(struct mq_case *c)
{
	const struct mq_stack *s = &c->stack;

	if (c->image)
		return;
	c->train.score_traffic = s->scores / s->traffic;
	c->train.update_B = s->update_B + (c->shape.dp * c->shape.cp > 1 ? s->reduce_B : 0);
	c->train.update_calls = s->update_calls;
	c->train.param_B = mq_dtype_size(c->train.dtype) < 4 ? s->cast_B : 0;
	if (c->shape.micro_batches > 1)
		c->train.param_B += s->accum_B;
}

enum mq_status mq_case_flop(const struct mq_score_tables *tables, const struct mq_run *run,
			    struct mq_arena *arena, double *flop, struct mq_err *err)
{
	struct mq_case c = { .run = run };
	struct mq_train train = { .batch = run->gbs, .dtype = MQ_BF16, .grad_dtype = MQ_BF16 };
	struct mq_model *model;

	MQ_TRY(mq_stack_find(tables, run, arena, &c.stack, err));
	MQ_TRY(model_spec(tables, &c, arena, err));
	const struct mq_model_request request = { c.spec, &train, c.seq };
	MQ_TRY(mq_model_load(&request, arena, &model, err));
	*flop = 0;
	for (uint32_t i = 0; i < model->n_ops; i++) {
		const struct mq_op *op = &model->op[i];
		bool product = op->kind == MQ_OP_GEMM || op->kind == MQ_OP_CONV ||
			       op->kind == MQ_OP_BMM || op->kind == MQ_OP_ATTENTION;

		if (product)
			*flop += (op->flop + op->flop_bwd) *
				 (op->causal && c.stack.half_attention ? .5 : 1);
	}
	return MQ_OK;
}

enum mq_status mq_case_build(const struct mq_score_tables *tables, const struct mq_calib *calib,
			     const struct mq_run *run, struct mq_arena *arena, struct mq_case *c,
			     struct mq_err *err)
{
	struct mq_platform_spec spec;

	*c = (struct mq_case){ .run = run };
	MQ_TRY(check_row(tables, run, err));
	c->n_devices = (uint32_t)run->gpus;
	MQ_TRY(mq_case_machines(tables, c, arena, err));
	MQ_TRY(mq_stack_find(tables, run, arena, &c->stack, err));
	MQ_TRY(model_spec(tables, c, arena, err));
	MQ_TRY(training(c, calib, err));
	MQ_TRY(plan(tables, c, arena, err));
	put_traffic(c);
	MQ_TRY(mq_case_place(tables, c, arena, err));
	/* here, so that machines that do not go together refuse the row and not the table */
	return mq_case_platform(c, &spec, arena, err);
}
