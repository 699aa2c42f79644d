/*
 * score_worker.c - the process that simulates the rows of one platform for `score`.
 *
 * SimGrid allows one platform per process and answers routes only to actors, so `score` starts itself
 * once per platform: the platform file and the table are arguments, line numbers of rows arrive on
 * standard input, one line of result per row leaves on standard output. A row that breaks the
 * process costs that row alone: the parent starts again behind it.
 */
#include "cmd/score/score_runs.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "cmd/score/score_tables.h"
#include "executors/conductor.h"
#include "executors/executor.h"
#include "platform/platform.h"

#define TIMEOUT_S 1e7

struct worker {
	const struct mq_score_options *options;
	struct mq_score_tables tables;
	struct mq_cluster *cluster;
	struct mq_run *run;
	uint32_t n;
	enum mq_status status;
	struct mq_err *err;
};

static bool has_nvlink(const struct mq_cluster *cluster)
{
	for (uint32_t i = 0; i < cluster->n_links; i++)
		if (cluster->link[i].class == MQ_LINK_NVLINK ||
		    cluster->link[i].class == MQ_LINK_NVSWITCH)
			return true;
	return false;
}

/* What the software holds beside the model's own. Communicators over NVLink have tens of channels with
 * buffers for each neighbour, over PCIe a few. */
static void put_memory(struct mq_device_calib *d, const struct mq_stack *stack, bool nvlink)
{
	d->loss_B = stack->loss_B;
	d->grads_twice = stack->grads_twice;
	d->saves_casts = stack->saves_casts;
	d->frees_outputs = stack->frees_outputs;
	d->flat_elems = stack->flat_elems;
	d->reserve_B = stack->reserve_B + (nvlink ? stack->comm_B : 0);
}

/* The CPUs of the machines that hold these devices. */
static double host_of(const struct mq_case *c, const char *device)
{
	for (uint32_t i = 0; i < c->n_parts; i++)
		if (!strcmp(c->part[i].system.device, device))
			return c->part[i].system.host;
	return 1;
}

static bool has_volumes(const struct mq_model *model)
{
	for (uint32_t i = 0; i < model->n_ops; i++)
		if (model->op[i].volume)
			return true;
	return false;
}

/* Of an image network the graph has every kernel that runs, unless a compiler joins them. */
static void put_images(struct mq_device_calib *d, const struct mq_case *c,
		       const struct mq_model *model)
{
	const struct mq_image_stack *s = &c->stack.images;
	bool first = s->channels_first == MQ_FIRST_ALL ||
		     (s->channels_first >= MQ_FIRST_32 && mq_dtype_size(c->train.dtype) >= 4) ||
		     (s->channels_first == MQ_FIRST_32_VOLUMES && has_volumes(model));

	d->elementwise_traffic = s->traffic;
	d->conv_passes = first ? s->conv_passes : 0;
}

/* The calibration as this software uses the hardware. */
static struct mq_calib *calib_for(const struct mq_calib *shared, const struct mq_case *c,
				  const struct mq_model *model, const struct mq_cluster *cluster,
				  struct mq_arena *arena)
{
	struct mq_calib *calib = mq_arena_array(arena, 1, struct mq_calib);

	*calib = *shared;
	calib->device = mq_arena_array(arena, shared->n_devices, struct mq_device_calib);
	for (uint32_t i = 0; i < shared->n_devices; i++) {
		struct mq_device_calib *d = &calib->device[i];

		*d = shared->device[i];
		if (d->kind == MQ_CPU)
			continue;
		d->elementwise_traffic = c->stack.traffic;
		if (c->image)
			put_images(d, c, model);
		else if (mq_dtype_size(c->train.dtype) >= 4)
			d->elementwise_traffic *= c->stack.traffic_32;
		d->host_launch_s *= c->stack.host * host_of(c, d->name);
		d->launch_waits = c->stack.launch_waits;
		d->attention_eff *= c->stack.attention;
		d->attention_ring = c->stack.ring;
		put_memory(d, &c->stack, has_nvlink(cluster));
	}
	return calib;
}

/* Which ops of a layer are computed again. */
struct again {
	bool (*op)(const struct mq_model *model, uint32_t op, const char *patterns);
	const char *patterns;
};

/* Where a part of each stage is computed again: ops that `again` names get configs of their own. */
static void recompute_part(const struct mq_model *model, struct mq_plan *plan, struct mq_arena *arena,
			   const struct again *again)
{
	uint32_t old = plan->n_configs;
	struct mq_config *config = mq_arena_array(arena, 2 * (size_t)old, struct mq_config);

	memcpy(config, plan->config, old * sizeof(*config));
	for (uint32_t i = 0; i < old; i++) {
		config[i].recompute = MQ_RECOMPUTE_NONE;
		config[old + i] = config[i];
		config[old + i].recompute = MQ_RECOMPUTE_FULL;
	}
	plan->config = config;
	plan->n_configs = 2 * old;
	for (uint32_t op = 0; op < plan->n_ops; op++)
		if (model->op[op].layer != MQ_NONE && again->op(model, op, again->patterns))
			plan->config_of[op] += old;
}

/* "selective layer": every second layer. */
static bool second_layer(const struct mq_model *model, uint32_t op, const char *patterns)
{
	(void)patterns;
	return model->op[op].layer % 2 == 0;
}

/* "selective op", as torchtitan does it: attention and every second matrix product are kept. Of its seven
 * products a layer (q, k, v, output, gate, up, down) q, k, v are one here, and gate and up: so that each
 * of these is half kept, layers take turns in which half of their products they keep. */
static bool cheap_op(const struct mq_model *model, uint32_t op, const char *patterns)
{
	uint32_t products = model->op[op].layer;

	(void)patterns;
	if (model->op[op].kind == MQ_OP_ATTENTION)
		return false;
	if (model->op[op].kind != MQ_OP_GEMM)
		return true;
	for (uint32_t i = op; i-- > 0 && model->op[i].layer == model->op[op].layer;)
		products += model->op[i].kind == MQ_OP_GEMM;
	return products % 2 == 0;
}

/* Ops by their names inside a layer: "layer3.norm1" is "norm1". */
static bool named_op(const struct mq_model *model, uint32_t op, const char *patterns)
{
	const char *name = strchr(model->op[op].name, '.');

	return name && mq_pattern_fits(patterns, name + 1);
}

/* What the software overlaps, where this plan has it. */
static void set_overlap(const struct mq_case *c, struct mq_plan *plan)
{
	plan->overlap_tp = c->stack.overlap_tp && c->shape.tp > 1 && c->shape.sequence_parallel;
	plan->overlap_experts = c->stack.overlap_experts && c->shape.ep > 1 &&
				plan->micro_batches > 1 && (c->shape.pp == 1 || plan->virtual > 1);
}

static enum mq_status make_plan(const struct mq_case *c, const struct mq_model *model,
				const struct mq_cluster *cluster, struct mq_arena *arena,
				struct mq_plan *plan, struct mq_err *err)
{
	MQ_TRY(mq_plan_from_shape(&c->shape, model, cluster, arena, plan, err));
	plan->zero_group = c->zero_group;
	plan->overlap_grads = c->stack.overlap_grads;
	plan->bucket_B = c->stack.bucket_B;
	plan->broadcast_params = c->stack.broadcast_params;
	plan->early_stop = c->stack.early_stop;
	plan->scatter_gather = c->stack.scatter_gather && c->shape.tp > 1;
	set_overlap(c, plan);
	if (!strcmp(c->run->recompute, "selective layer"))
		recompute_part(model, plan, arena, &(struct again){ second_layer, NULL });
	else if (c->shape.recompute == MQ_RECOMPUTE_SELECTIVE && c->stack.selective_ops)
		recompute_part(model, plan, arena, &(struct again){ cheap_op, NULL });
	else if (!*c->run->recompute && *c->stack.recompute_ops)
		recompute_part(model, plan, arena,
			       &(struct again){ named_op, c->stack.recompute_ops });
	return MQ_OK;
}

/* The run did fit, whatever the memory model says: the verdict stands, but its time is wanted too. */
static enum mq_status time_anyway(const struct mq_judge *judge, const struct mq_plan *plan,
				  struct mq_cluster *cluster, struct mq_arena *arena,
				  struct mq_result *result, struct mq_err *err)
{
	struct mq_result roomy;

	for (uint32_t i = 0; i < cluster->n_devices; i++)
		cluster->device[i].memory_B *= 1024;
	enum mq_status status = mq_judge_plan(judge, plan, arena, &roomy, NULL, NULL, err);
	for (uint32_t i = 0; i < cluster->n_devices; i++)
		cluster->device[i].memory_B /= 1024;
	if (status == MQ_OK && roomy.verdict == MQ_VERDICT_OK)
		result->step_time_s = roomy.step_time_s;
	return status;
}

enum mq_status mq_case_judge(const struct mq_case *c, struct mq_cluster *cluster,
			     const struct mq_calib *shared, bool analytic, struct mq_arena *arena,
			     struct mq_result *result, struct mq_err *err)
{
	const struct mq_model_request request = { c->spec, &c->train, c->seq };
	struct mq_calib *calib;
	struct mq_case known = *c;
	struct mq_model *model;
	struct mq_plan plan;
	struct mq_judge judge = { .cluster = cluster, .train = &c->train,
				  .execute = analytic ? mq_execute_analytic : mq_execute_simgrid,
				  .fold = true, .interference = true, .timeout_s = TIMEOUT_S };

	MQ_TRY(mq_model_load(&request, arena, &model, err));
	judge.calib = calib = calib_for(shared, c, model, cluster, arena);
	judge.model = model;
	MQ_TRY(mq_calib_bind(calib, cluster, err));
	mq_conduct_bind(cluster);
	if (model->n_layers) /* a spec such as size=405b does not say how many */
		MQ_TRY(mq_case_stages(&known, model->n_layers, arena, err));
	MQ_TRY(make_plan(&known, model, cluster, arena, &plan, err));
	MQ_TRY(mq_judge_plan(&judge, &plan, arena, result, NULL, NULL, err));
	if (result->verdict == MQ_VERDICT_OOM && c->run->step_time_s > 0)
		MQ_TRY(time_anyway(&judge, &plan, cluster, arena, result, err));
	if (c->image)
		result->step_time_s += c->stack.images.step_s +
				       (c->n_devices > 1 ? c->stack.images.sync_s : 0);
	return MQ_OK;
}

/* "LINE verdict step_s peak_B limit_B message", to be read by the parent. */
static void answer(uint32_t line, enum mq_status status, const struct mq_result *r,
		   const struct mq_err *err)
{
	if (status != MQ_OK)
		printf("%u refused nan nan nan %s\n", line, err->text);
	else
		printf("%u %s %.9g %.9g %.9g %s\n", line, mq_verdict_name(r->verdict),
		       r->step_time_s, r->peak_memory_B, r->memory_limit_B,
		       r->verdict == MQ_VERDICT_OK ? r->bottleneck : r->message);
	fflush(stdout);
}

/* A row may use so much processor time; then the signal ends this process, and the parent says so. */
static void limit_time(double seconds)
{
	struct itimerval timer = { .it_value.tv_sec = (time_t)seconds,
				   .it_value.tv_usec = (suseconds_t)(fmod(seconds, 1) * 1e6) };

	setitimer(ITIMER_PROF, &timer, NULL);
}

static void judge_line(struct worker *w, uint32_t line)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_result result = { .step_time_s = NAN };
	enum mq_status status = MQ_EINPUT;

	for (uint32_t i = 0; i < w->n; i++) {
		struct mq_case c;

		if (w->run[i].line != line)
			continue;
		status = mq_case_build(&w->tables, w->options->calib, &w->run[i], &arena, &c, &err);
		if (status == MQ_OK)
			status = mq_case_judge(&c, w->cluster, w->options->calib,
					       !strcmp(w->options->executor, "analytic"), &arena,
					       &result, &err);
	}
	answer(line, status, &result, &err);
	mq_arena_fini(&arena);
}

static void serve(void *data)
{
	struct worker *w = data;
	char text[32];

	while (fgets(text, sizeof(text), stdin)) {
		limit_time(w->options->row_seconds);
		judge_line(w, (uint32_t)strtoul(text, NULL, 10));
	}
}

enum mq_status mq_score_work(const struct mq_score_options *options, const char *platform,
			     struct mq_err *err)
{
	struct worker w = { .options = options, .err = err };

	/* Rows come and go: keep their memory instead of giving it back and faulting it in again. */
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, INT32_MAX);
	mq_platform_start("maquette");
	MQ_TRY(mq_platform_load(platform, options->arena, &w.cluster, err));
	MQ_TRY(mq_score_tables_load(options, &w.tables, err));
	MQ_TRY(mq_runs_load(options->input, options->arena, &w.run, &w.n, err));
	for (uint32_t i = 0; i < w.n; i++)
		mq_run_complete(&w.tables, &w.run[i], options->arena);
	mq_conduct(w.cluster, serve, &w);
	return MQ_OK;
}
