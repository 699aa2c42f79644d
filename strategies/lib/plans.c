/* plans.c - see plans.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/plans.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void mq_devices_limit(const struct mq_problem *problem, struct mq_devices *devices, struct mq_arena *arena)
{
	uint32_t limit = problem->limits ? problem->limits->max_devices : 0;
	uint32_t n = devices->n;
	double *seconds = mq_arena_array(arena, n, double);
	bool *taken = mq_arena_array(arena, n, bool);

	if (!limit || limit >= n)
		return;
	for (uint32_t i = 0; i < n; i++)
		seconds[i] = mq_model_s(problem, devices->rank[i]);
	const uint32_t *order = mq_arena_order(arena, seconds, n);
	for (uint32_t i = 0; i < limit; i++)
		taken[order[i]] = true;
	devices->n = 0;
	for (uint32_t i = 0; i < n; i++)
		if (taken[i])
			devices->rank[devices->n++] = devices->rank[i];
}

struct mq_devices mq_devices_usable(const struct mq_problem *problem, struct mq_arena *arena)
{
	const struct mq_cluster *cluster = problem->q->cluster;
	struct mq_devices devices = { 0, mq_arena_array(arena, cluster->n_devices, uint32_t) };
	enum mq_device_kind kind = MQ_CPU;

	for (uint32_t i = 0; i < cluster->n_devices; i++)
		if (cluster->device[i].kind == MQ_GPU)
			kind = MQ_GPU;
	for (uint32_t i = 0; i < cluster->n_devices; i++)
		if (cluster->device[i].kind == kind)
			devices.rank[devices.n++] = i;
	mq_devices_limit(problem, &devices, arena);
	return devices;
}

/* Number of consecutive devices from i on that are on one machine. */
static uint32_t same_machine(const struct mq_cluster *cluster, const struct mq_devices *devices, uint32_t i)
{
	uint32_t n = 1;

	while (i + n < devices->n &&
	       cluster->device[devices->rank[i + n]].node == cluster->device[devices->rank[i]].node)
		n++;
	return n;
}

uint32_t mq_devices_per_machine(const struct mq_cluster *cluster, const struct mq_devices *devices)
{
	uint32_t most = 0;

	for (uint32_t i = 0, n; i < devices->n; i += n) {
		n = same_machine(cluster, devices, i);
		most = n > most ? n : most;
	}
	return most;
}

struct mq_devices mq_devices_in_blocks(const struct mq_cluster *cluster, const struct mq_devices *devices,
				       uint32_t block, struct mq_arena *arena)
{
	struct mq_devices out = { 0, mq_arena_array(arena, devices->n, uint32_t) };

	for (uint32_t from = 0; out.n < devices->n; from += block)
		for (uint32_t i = 0, n; i < devices->n; i += n) {
			n = same_machine(cluster, devices, i);
			for (uint32_t k = from; k < n && k < from + block; k++)
				out.rank[out.n++] = devices->rank[i + k];
		}
	return out;
}

uint32_t mq_data_parallel_degree(const struct mq_problem *problem, const struct mq_devices *devices)
{
	const struct mq_limits *limits = problem->limits;
	double n = fmin(devices->n, floor(problem->q->train->batch));

	if (limits && limits->max_dp)
		n = fmin(n, limits->max_dp);
	if (limits && limits->fix_dp)
		n = fmin(n, limits->fix_dp);
	return n < 1 ? 1 : (uint32_t)n;
}

uint32_t mq_devices_least_per_machine(const struct mq_cluster *cluster, const uint32_t *rank, uint32_t n)
{
	uint32_t least = n, run = 1;

	for (uint32_t i = 1; i <= n; i++, run++) {
		if (i < n && cluster->device[rank[i]].node == cluster->device[rank[i - 1]].node)
			continue;
		least = run < least ? run : least;
		run = 0;
	}
	return least;
}

struct mq_stage_limits mq_stage_limits(const struct mq_limits *l, uint32_t n)
{
	struct mq_stage_limits out = { .devices = n };
	uint32_t stages;

	if (!l)
		return out;
	out = (struct mq_stage_limits){ l->fix_dp, l->max_dp, l->fix_tp, l->max_tp, 0, n };
	stages = l->fix_pp ? l->fix_pp : l->max_pp < n ? l->max_pp : 0;
	if (stages && n >= stages) {
		out.width = n / stages;
		if (l->fix_dp && l->fix_dp <= out.width)
			out.width = out.width / l->fix_dp * l->fix_dp;
		out.devices = out.width * stages;
	}
	return out;
}

/* Can the op be split into `parts` along one of the dimensions in `mask`? */
static bool can_split(const struct mq_op *op, uint32_t mask, uint32_t parts, double samples)
{
	double most = 1;

	for (int d = 0; d < MQ_N_DIMS; d++)
		if (op->splits & mask & 1u << d)
			most = fmax(most, d == MQ_DIM_BATCH ? samples : op->extent[d]);
	return most >= parts;
}

bool mq_split_allowed(const struct mq_limits *l, const struct mq_op *op, double samples,
		      const uint32_t split[MQ_N_DIMS])
{
	const uint32_t tensor = 1u << MQ_DIM_HEAD | 1u << MQ_DIM_OUT | 1u << MQ_DIM_IN;
	uint32_t dp = split[MQ_DIM_BATCH] * split[MQ_DIM_EXPERT];
	uint32_t tp = split[MQ_DIM_HEAD] * split[MQ_DIM_OUT] * split[MQ_DIM_IN];

	if (!l)
		return true;
	if ((l->max_dp && dp > l->max_dp) || (l->max_tp && tp > l->max_tp))
		return false;
	if (l->fix_dp && dp != (can_split(op, 1u << MQ_DIM_BATCH, l->fix_dp, samples) ? l->fix_dp : 1))
		return false;
	return !l->fix_tp || tp == (can_split(op, tensor, l->fix_tp, samples) ? l->fix_tp : 1);
}

void mq_plan_data_parallel(const struct mq_problem *problem, const struct mq_devices *devices, uint32_t n,
			   struct mq_arena *arena, struct mq_plan *plan)
{
	const struct mq_model *model = problem->q->model;

	mq_plan_init(plan, arena, model->n_ops);
	for (uint32_t op = 0; op < model->n_ops; op++) {
		struct mq_config c = { .n_devices = n, .device = devices->rank, .split = MQ_UNSPLIT };

		c.split[MQ_DIM_BATCH] = model->op[op].splits & 1u << MQ_DIM_BATCH ? n : 1;
		plan->config_of[op] = mq_plan_intern(plan, &c, arena);
	}
}

void mq_plan_put(struct mq_plan *plan, const struct mq_problem *problem, uint32_t op, const struct mq_spot *spot,
		 struct mq_arena *arena)
{
	struct mq_config c = { .n_devices = spot->n_devices,
			       .device = spot->device,
			       .stage = spot->stage,
			       .sync = spot->sync,
			       .recompute = spot->recompute };

	mq_tensor_split(problem->q->model, op, spot->tp, spot->sequence_parallel,
			mq_software_of(problem)->vocab_parallel, c.split);
	c.split[MQ_DIM_BATCH] = problem->q->model->op[op].splits & 1u << MQ_DIM_BATCH ? spot->n_devices / spot->tp : 1;
	plan->config_of[op] = mq_plan_intern(plan, &c, arena);
}

void mq_plan_compact(struct mq_plan *plan, struct mq_arena *arena)
{
	uint32_t *to = mq_arena_none(arena, plan->n_configs), n = 0;

	for (uint32_t op = 0; op < plan->n_ops; op++)
		to[plan->config_of[op]] = 0;
	for (uint32_t i = 0; i < plan->n_configs; i++)
		if (to[i] != MQ_NONE) {
			plan->config[n] = plan->config[i];
			to[i] = n++;
		}
	plan->n_configs = n;
	for (uint32_t op = 0; op < plan->n_ops; op++)
		plan->config_of[op] = to[plan->config_of[op]];
}

void mq_plan_rename(struct mq_plan *plan, const uint32_t *to, struct mq_arena *arena)
{
	for (uint32_t i = 0; i < plan->n_configs; i++) {
		struct mq_config *c = &plan->config[i];
		uint32_t *device = mq_arena_array(arena, c->n_devices, uint32_t);

		for (uint32_t d = 0; d < c->n_devices; d++)
			device[d] = to[c->device[d]];
		c->device = device;
	}
}

bool mq_context_pays(const struct mq_problem *problem)
{
	return problem->limits->fix_cp > 1 || problem->limits->fix_ulysses > 1 || problem->q->model->seq >= 8192;
}

bool mq_selective_saves(const struct mq_problem *problem)
{
	const struct mq_model *m = problem->q->model;

	if (mq_software_of(problem)->selective > MQ_SELECTIVE_CORE_ATTN)
		return true;
	for (uint32_t op = 0; op < m->n_ops; op++)
		if (m->op[op].saved_selective > 0)
			return true;
	return false;
}

void mq_show_bound(const struct mq_problem *problem, const struct mq_bound *bound)
{
	if (problem->bound && isfinite(bound->bound))
		problem->bound(problem->host, bound);
}

void mq_say(const struct mq_problem *problem, const char *format, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	problem->say(problem->host, line);
}

void mq_note(const struct mq_problem *problem, const char *quantity, double value)
{
	if (problem->note)
		problem->note(problem->host, quantity, value);
}

bool mq_tick(const struct mq_problem *problem, double done, const char *what)
{
	return !problem->tick || problem->tick(problem->tick_context, done, what);
}

bool mq_tick_hook(void *context, double done, const char *what)
{
	return mq_tick(*(const struct mq_problem *const *)context, done, what);
}

double mq_screen(const struct mq_problem *problem, const struct mq_plan *plan)
{
	struct mq_result result;

	return problem->costs->screen(problem->costs->screen_context, plan, &result) &&
			       result.verdict == MQ_VERDICT_OK ?
		       result.step_time_s :
		       (double)INFINITY;
}

double mq_passes_s(const struct mq_problem *p, uint32_t op, uint32_t device, const uint32_t split[MQ_N_DIMS],
		   double samples)
{
	double s = p->costs->op_time(p->costs->context, op, MQ_FORWARD, device, split, samples);

	return p->q->train->infer ? s :
				    s + p->costs->op_time(p->costs->context, op, MQ_BACKWARD, device, split, samples);
}

double mq_model_s(const struct mq_problem *problem, uint32_t device)
{
	static const uint32_t whole[MQ_N_DIMS] = MQ_UNSPLIT;
	double sum = 0;

	for (uint32_t op = 0; op < problem->q->model->n_ops; op++)
		sum += mq_passes_s(problem, op, device, whole, 1);
	return sum;
}

bool mq_collective_s(const struct mq_problem *problem, enum mq_coll_kind kind, const uint32_t *rank, uint32_t n,
		     double elems, enum mq_dtype dtype, double *seconds)
{
	const struct mq_coll_request request = {
		.kind = kind, .n = n, .rank = rank, .dtype = dtype, .bytes = elems * mq_dtype_size(dtype)
	};

	return problem->costs->collective(problem->costs->context, &request, seconds);
}

bool mq_transfer_line(const struct mq_problem *problem, uint32_t a, uint32_t b, double bytes, double *latency_s,
		      double *per_byte_s)
{
	const struct mq_costs *costs = problem->costs;

	if (!costs->transfer(costs->context, a, b, 0, latency_s) ||
	    !costs->transfer(costs->context, a, b, bytes, per_byte_s))
		return false;
	*per_byte_s = fmax(0, *per_byte_s - *latency_s) / bytes;
	return true;
}

double mq_room_B(const struct mq_problem *problem, uint32_t rank)
{
	const struct mq_device *device = &problem->q->cluster->device[rank];
	const struct mq_calib *calib = problem->q->calib;
	double memory_B = device->memory_B > 0 ? device->memory_B : (double)INFINITY;

	if (!calib || device->calib >= calib->n_devices)
		return memory_B;
	return (memory_B - mq_reserve_B(problem->q, rank)) / fmax(1, calib->device[device->calib].fragmentation);
}

bool mq_fits(const struct mq_problem *problem, const struct mq_plan *plan)
{
	struct mq_result result;

	return problem->costs->fits && problem->costs->fits(problem->costs->screen_context, plan, &result) &&
	       result.verdict == MQ_VERDICT_OK;
}

uint32_t mq_powers_dividing(double n, double most, uint32_t power[24])
{
	uint32_t count = 0;

	for (double p = 1; p <= n && p <= most && count < 24; p *= 2)
		if (fmod(n, p) == 0)
			power[count++] = (uint32_t)p;
	return count;
}

enum mq_status mq_micro_batch_rounds(const struct mq_problem *problem, const char *engine, uint32_t asked, double most,
				     uint32_t rounds[24], uint32_t *n, struct mq_err *err)
{
	double batch = floor(problem->q->train->batch);

	if (asked > batch)
		return mq_bad(err, "engine '%s': %u micro-batches of a batch of %g: use at most one per sample", engine,
			      asked, problem->q->train->batch);
	if (!rounds)
		return MQ_OK;
	rounds[0] = asked;
	*n = asked ? 1 : mq_powers_dividing(batch, most, rounds);
	return MQ_OK;
}
