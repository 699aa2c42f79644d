/* switches.c - decisions of the whole plan as moves: see switches.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/moves/switches.h"

#include <math.h>

#include "maquette/engine.h"
#include "lib/plans.h"

/* MQ_NEEDS_... flags (decisions.h) that the plan meets. */
static uint32_t properties(const struct mq_plan *plan)
{
	uint32_t has = mq_plan_properties(plan) | MQ_NEEDS_GROUP;

	for (uint32_t i = 0; i < plan->n_configs; i++) {
		const struct mq_config *c = &plan->config[i];

		has |= c->split[MQ_DIM_BATCH] > 1 ? MQ_NEEDS_REPLICAS : 0;
		has |= c->stage > 0 ? MQ_NEEDS_STAGES : 0;
		has |= c->sync == MQ_SYNC_ZERO1 || c->sync == MQ_SYNC_ZERO2 ? MQ_NEEDS_ZERO12 : 0;
		has |= c->recompute == MQ_RECOMPUTE_FULL ? MQ_NEEDS_RECOMPUTE : 0;
	}
	return has;
}

/* Devices of the machine of the plan's first device. */
static uint32_t node_size(const struct mq_problem *problem, const struct mq_plan *plan)
{
	const struct mq_cluster *cluster = problem->q->cluster;
	uint32_t node = cluster->device[plan->config[0].device[0]].node, n = 0;

	for (uint32_t d = 0; d < cluster->n_devices; d++)
		n += cluster->device[d].node == node;
	return n;
}

static bool is_sharded(const struct mq_plan *plan)
{
	for (uint32_t i = 0; i < plan->n_configs; i++)
		if (plan->config[i].sync >= MQ_SYNC_ZERO1 && plan->config[i].sync <= MQ_SYNC_ZERO3)
			return true;
	return false;
}

static double current_value(const struct mq_problem *problem, const struct mq_plan *plan, enum mq_decision_id id)
{
	return mq_plan_leaves(plan, id) ? mq_software_default(mq_software_of(problem), id) : mq_plan_value(plan, id);
}

/* Candidate values of a decision; the current one may be among them. */
static uint32_t candidates(const struct mq_problem *problem, const struct mq_plan *plan, enum mq_decision_id id,
			   double value[MQ_SWITCH_VALUES])
{
	double now = current_value(problem, plan, id), node;
	uint32_t n = 0;

	if (mq_decision(id)->kind == MQ_DECIDES_BOOL) {
		value[n++] = now == 0;
		return n;
	}
	switch (id) {
	case MQ_DECISION_ALGO:
		for (int i = 0; i < mq_decision(id)->n_names && n < MQ_SWITCH_VALUES; i++)
			value[n++] = i;
		break;
	case MQ_DECISION_ZERO_GROUP:
		node = node_size(problem, plan);
		for (int i = -1; i <= 2 && is_sharded(plan); i++)
			value[n++] = i < 0 ? 0 : node * (1 << i);
		break;
	case MQ_DECISION_RECOMPUTE_NUM_LAYERS:
		for (uint32_t i = 0; i < 4; i++)
			value[n++] = floor(problem->q->model->n_layers / mq_plan_stage_count(plan) * i / 4.0);
		for (double fewer = 1; fewer <= 4 && fewer < now;
		     fewer *= 2) /* a little less recomputation, in case memory allows */
			value[n++] = now - fewer;
		break;
	case MQ_DECISION_BUCKET:
		value[n++] = 0;
		value[n++] = now > 0 ? now * 4 : 25e6;
		value[n++] = now > 0 ? now / 4 : 100e6;
		break;
	default: /* NCCL chooses protocols; offloaded layers are the move OFFLOAD */
		break;
	}
	return n;
}

uint32_t mq_switch_values(const struct mq_problem *problem, const struct mq_plan *plan, enum mq_decision_id id,
			  double value[MQ_SWITCH_VALUES])
{
	const struct mq_decision *d = mq_decision(id);
	uint32_t lacks = ~properties(plan), n, kept = 0;
	double all[MQ_SWITCH_VALUES], now = current_value(problem, plan, id);

	if (problem->q->train->infer || (d->matters | d->needs) & lacks ||
	    !(mq_software_of(problem)->runs.switches & d->bit))
		return 0;
	n = candidates(problem, plan, id, all);
	for (uint32_t i = 0; i < n; i++)
		if (all[i] != now)
			value[kept++] = all[i];
	return kept;
}

void mq_switch_set(const struct mq_problem *problem, struct mq_plan *plan, enum mq_decision_id id, double value)
{
	const struct mq_decision *d = mq_decision(id);

	mq_plan_set_value(plan, id, value);
	if (d->zero_is_open)
		return;
	/* a value equal to the software's default is stored as unset */
	if (value == mq_software_default(mq_software_of(problem), id)) {
		plan->explicit &= ~d->bit;
		mq_plan_set_value(plan, id, 0);
	} else {
		plan->explicit |= d->bit;
	}
}

void mq_switches_like(const struct mq_problem *problem, struct mq_plan *plan, const struct mq_plan *other)
{
	for (uint32_t d = 0; d < MQ_N_DECISIONS; d++) {
		enum mq_decision_id id = (enum mq_decision_id)d;
		double value[MQ_SWITCH_VALUES];

		if (mq_switch_values(problem, plan, id, value))
			mq_switch_set(problem, plan, id, current_value(problem, other, id));
	}
}
