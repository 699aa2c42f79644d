/* plan_check.c - the rules for all plans of a model on a cluster. See plan.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/plan.h"

static enum mq_status check_devices(const struct mq_config *c, uint32_t index, uint32_t *seen,
				    const struct mq_cluster *cluster, struct mq_err *err)
{
	if (!c->n_devices)
		return mq_bad(err, "config %u has no devices; name at least one", index);
	for (uint32_t d = 0; d < c->n_devices; d++) {
		uint32_t rank = c->device[d];

		if (rank >= cluster->n_devices)
			return mq_bad(err, "config %u names device %u, but the platform has %u (0 to %u)", index, rank,
				      cluster->n_devices, cluster->n_devices - 1);
		if (seen[rank] == index + 1)
			return mq_bad(err, "config %u names device %u twice", index, rank);
		seen[rank] = index + 1;
	}
	return MQ_OK;
}

static enum mq_status check_degrees(const struct mq_plan *plan, const struct mq_config *c, uint32_t index,
				    const struct mq_train *train, struct mq_arena *scratch, struct mq_err *err)
{
	double product = 1;

	for (int d = 0; d < MQ_N_DIMS; d++) {
		if (!c->split[d])
			return mq_bad(err, "config %u: split %s=0; degrees start at 1", index, mq_dim_name(d));
		product *= c->split[d];
	}
	if (product > c->n_devices || fmod(c->n_devices, product) != 0)
		return mq_bad(err, "config %u splits into %.0f parts, which does not divide its %u devices", index,
			      product, c->n_devices);
	for (uint32_t i = 0; c->share && i < c->split[MQ_DIM_BATCH]; i++)
		if (!isfinite(c->share[i]) || c->share[i] <= 0)
			return mq_bad(err, "config %u: share %u is %g; shares are positive numbers", index, i,
				      c->share[i]);
	double *samples = mq_arena_array(scratch, c->split[MQ_DIM_BATCH], double);

	mq_plan_samples(plan, c, train, scratch, samples);
	for (uint32_t i = 0; i < c->split[MQ_DIM_BATCH]; i++)
		if (samples[i] < 1)
			return mq_bad(err,
				      "config %u: batch coordinate %u of %u gets no sample of a "
				      "micro-batch of %g; use fewer micro-batches or batch splits",
				      index, i, c->split[MQ_DIM_BATCH], train->batch / plan->micro_batches);
	if (c->sync >= MQ_N_SYNCS || c->recompute >= MQ_N_RECOMPUTES)
		return mq_bad(err, "config %u: unknown sync or recompute", index);
	return MQ_OK;
}

static enum mq_status check_global(const struct mq_plan *plan, const struct mq_model *model,
				   const struct mq_train *train, struct mq_err *err)
{
	if (plan->n_ops != model->n_ops)
		return mq_bad(err, "the plan is for %u ops, the model '%s' has %u: it belongs to another model",
			      plan->n_ops, model->name, model->n_ops);
	if (!plan->micro_batches || plan->micro_batches > train->batch || fmod(train->batch, plan->micro_batches) != 0)
		return mq_bad(
			err,
			"micro_batches=%u does not divide the batch of %g samples; give a divisor of it, or another --batch",
			plan->micro_batches, train->batch);
	if (plan->pipeline >= MQ_N_PIPELINES || plan->algo >= MQ_N_ALGOS || plan->proto >= MQ_N_PROTOS ||
	    !plan->virtual)
		return mq_bad(err, "unknown schedule, algorithm or protocol");
	return mq_pipeline_chunks(plan->pipeline, plan->virtual, err);
}

/* ZeRO's groups must be equal parts of the replicas of some config; a plan without ZeRO has no use for them. */
static enum mq_status check_zero_group(const struct mq_plan *plan, struct mq_err *err)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < plan->n_configs && plan->zero_group; i++) {
		const uint32_t *split = plan->config[i].split;
		uint32_t same = split[MQ_DIM_BATCH] * split[MQ_DIM_SEQ] * split[MQ_DIM_SPATIAL];

		if (plan->config[i].sync < MQ_SYNC_ZERO1)
			continue;
		if (same % plan->zero_group == 0)
			return MQ_OK;
		most = same > most ? same : most;
	}
	if (!most)
		return MQ_OK;
	return mq_bad(err, "zero_group: %u ranks do not divide the %u with the same parameters; give a divisor, or 0",
		      plan->zero_group, most);
}

/* Decisions without what they need in the plan. */
static enum mq_status check_decisions(const struct mq_plan *plan, const struct mq_train *train, uint32_t stages,
				      struct mq_err *err)
{
	uint32_t has = mq_plan_properties(plan);

	MQ_TRY(check_zero_group(plan, err));
	for (int d = 0; d < MQ_N_DECISIONS; d++) {
		const struct mq_decision *row = mq_decision(d);
		uint32_t lacks = mq_plan_value(plan, d) ? row->needs & ~has : 0;

		if (lacks & MQ_NEEDS_TENSOR)
			return mq_bad(err,
				      "%s: no op is split along its features or heads; set it to false or give tp "
				      "above 1",
				      row->name);
		if (lacks & MQ_NEEDS_EXPERTS)
			return mq_bad(err, "%s: no op is split along experts; set it to false or give ep above 1",
				      row->name);
		if (row->needs & MQ_NEEDS_TURNS && mq_plan_value(plan, d) && (train->infer || plan->micro_batches < 2))
			return mq_bad(err,
				      "%s: takes a forward and a backward pass of different micro-batches, not %s; set "
				      "it to false",
				      row->name, train->infer ? "inference" : "a single one");
		if (lacks & MQ_NEEDS_TURNS)
			return mq_bad(
				err,
				"%s: a %s pipeline of %u stages in %u chunks per device leaves no two passes that "
				"can take turns; use a single stage, dualpipe-v, or the interleaved schedule with "
				"virtual above 1",
				row->name, mq_pipeline_name(plan->pipeline), stages, plan->virtual);
	}
	return MQ_OK;
}

static enum mq_status check_op(const struct mq_plan *plan, const struct mq_model *model, uint32_t op,
			       struct mq_err *err)
{
	const struct mq_op *o = &model->op[op];

	if (plan->config_of[op] >= plan->n_configs)
		return mq_bad(err, "op '%s' has config %u, but there are %u", o->name, plan->config_of[op],
			      plan->n_configs);
	const struct mq_config *c = &plan->config[plan->config_of[op]];
	for (int d = 0; d < MQ_N_DIMS; d++) {
		if (c->split[d] == 1 || d == MQ_DIM_BATCH)
			continue;
		if (!(o->splits & 1u << d))
			return mq_bad(err, "op '%s' cannot be split along %s", o->name, mq_dim_name(d));
		if (o->extent[d] < c->split[d])
			return mq_bad(err, "op '%s' has %g along %s: too few for %u parts", o->name, o->extent[d],
				      mq_dim_name(d), c->split[d]);
	}
	if (c->split[MQ_DIM_BATCH] > 1 && !(o->splits & 1u << MQ_DIM_BATCH))
		return mq_bad(err, "op '%s' cannot be split along batch", o->name);
	MQ_EACH_IN(model, op, edge) {
		const struct mq_op *u = &model->op[edge->src];

		/* Explicit backward ops traverse the stages in reverse. */
		if (u->phase != o->phase)
			continue;
		uint32_t from = plan->config[plan->config_of[edge->src]].stage;
		bool backward = o->phase == MQ_BACKWARD;
		if (backward ? from < c->stage : from > c->stage)
			return mq_bad(err, "op '%s' (stage %u) comes before its input '%s' (stage %u)", o->name,
				      c->stage, u->name, from);
	}
	return MQ_OK;
}

static enum mq_status check_colors(const struct mq_plan *plan, const struct mq_model *model, struct mq_arena *scratch,
				   struct mq_err *err)
{
	uint32_t n = 0;

	for (uint32_t op = 0; op < model->n_ops; op++)
		if (model->op[op].color != MQ_NONE && model->op[op].color >= n)
			n = model->op[op].color + 1;
	uint32_t *first = mq_arena_array(scratch, n, uint32_t); /* op + 1 */
	for (uint32_t op = 0; op < model->n_ops; op++) {
		uint32_t color = model->op[op].color;

		if (color == MQ_NONE)
			continue;
		if (!first[color])
			first[color] = op + 1;
		const struct mq_config *a = &plan->config[plan->config_of[first[color] - 1]];
		const struct mq_config *b = &plan->config[plan->config_of[op]];
		bool same = a->n_devices == b->n_devices;
		for (uint32_t d = 0; same && d < a->n_devices; d++)
			same = a->device[d] == b->device[d];
		if (!same)
			return mq_bad(err, "ops '%s' and '%s' must share their devices (colour %u)",
				      model->op[first[color] - 1].name, model->op[op].name, color);
	}
	return MQ_OK;
}

static enum mq_status check_all(const struct mq_plan *plan, const struct mq_model *model,
				const struct mq_cluster *cluster, const struct mq_train *train,
				struct mq_arena *scratch, struct mq_err *err)
{
	uint32_t *seen = mq_arena_array(scratch, cluster->n_devices, uint32_t);
	uint32_t stages = 0;

	MQ_TRY(check_global(plan, model, train, err));
	for (uint32_t i = 0; i < plan->n_configs; i++) {
		MQ_TRY(check_devices(&plan->config[i], i, seen, cluster, err));
		MQ_TRY(check_degrees(plan, &plan->config[i], i, train, scratch, err));
	}
	for (uint32_t op = 0; op < model->n_ops; op++) {
		MQ_TRY(check_op(plan, model, op, err));
		uint32_t stage = plan->config[plan->config_of[op]].stage;
		if (stage + 1 > stages)
			stages = stage + 1;
	}
	bool *used = mq_arena_array(scratch, stages, bool);
	for (uint32_t op = 0; op < model->n_ops; op++)
		used[plan->config[plan->config_of[op]].stage] = true;
	for (uint32_t s = 0; s < stages; s++)
		if (!used[s])
			return mq_bad(err, "stage %u of %u has no ops", s, stages);
	if (stages % plan->virtual)
		return mq_bad(err, "%u stages cannot be dealt out in %u chunks per device", stages, plan->virtual);
	MQ_TRY(check_decisions(plan, train, stages, err));
	return check_colors(plan, model, scratch, err);
}

enum mq_status mq_plan_check(const struct mq_plan *plan, const struct mq_model *model, const struct mq_cluster *cluster,
			     const struct mq_train *train, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	return check_all(plan, model, cluster, train, &scratch, err);
}
