/* decisions.c - see decisions.h. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/plan.h"

#include <stddef.h>
#include <stdio.h>

#define MQ_KIND(field)                              \
	_Generic(((struct mq_plan *)0)->field, bool \
		 : MQ_DECIDES_BOOL, uint8_t         \
		 : MQ_DECIDES_NAME, uint32_t        \
		 : MQ_DECIDES_U32, double           \
		 : MQ_DECIDES_F64)

MQ_NAMES(mq_recompute_method_name, enum mq_recompute_method, MQ_N_RECOMPUTE_METHODS, "block", "uniform")

static const struct mq_decision rows[MQ_N_DECISIONS] = {
#define MQ_DECISION(id, nth, type, field, default_of, ...)                \
	[MQ_DECISION_##id] = { .name = #field,                            \
			       .offset = offsetof(struct mq_plan, field), \
			       .kind = MQ_KIND(field),                    \
			       .bit = 1u << (nth),                        \
			       __VA_ARGS__ },
#include "maquette/decisions.def"
};

const struct mq_decision *mq_decision(enum mq_decision_id id)
{
	return &rows[id];
}

double mq_plan_value(const struct mq_plan *plan, enum mq_decision_id id)
{
	const void *at = (const char *)plan + rows[id].offset;

	switch (rows[id].kind) {
	case MQ_DECIDES_BOOL:
		return *(const bool *)at;
	case MQ_DECIDES_NAME:
		return *(const uint8_t *)at;
	case MQ_DECIDES_U32:
		return *(const uint32_t *)at;
	case MQ_DECIDES_F64:
		break;
	}
	return *(const double *)at;
}

void mq_plan_set_value(struct mq_plan *plan, enum mq_decision_id id, double value)
{
	void *at = (char *)plan + rows[id].offset;

	switch (rows[id].kind) {
	case MQ_DECIDES_BOOL:
		*(bool *)at = value != 0;
		return;
	case MQ_DECIDES_NAME:
		*(uint8_t *)at = (uint8_t)(uint32_t)value;
		return;
	case MQ_DECIDES_U32:
		*(uint32_t *)at = (uint32_t)value;
		return;
	case MQ_DECIDES_F64:
		*(double *)at = value;
	}
}

const char *mq_plan_value_text(const struct mq_plan *plan, enum mq_decision_id id, char text[32])
{
	double value = mq_plan_value(plan, id);

	if (rows[id].kind == MQ_DECIDES_NAME)
		return rows[id].name_of((int)value);
	if (rows[id].kind == MQ_DECIDES_BOOL)
		return value ? "true" : "false";
	snprintf(text, 32, "%.17g", value);
	return text;
}

bool mq_plan_leaves(const struct mq_plan *plan, enum mq_decision_id id)
{
	return rows[id].zero_is_open ? mq_plan_value(plan, id) == 0 : !(plan->explicit & rows[id].bit);
}

void mq_plan_copy_decisions(struct mq_plan *to, const struct mq_plan *from)
{
	to->explicit = from->explicit;
	for (int d = 0; d < MQ_N_DECISIONS; d++)
		mq_plan_set_value(to, d, mq_plan_value(from, d));
}

uint32_t mq_plan_stage_count(const struct mq_plan *plan)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < plan->n_configs; i++)
		n = plan->config[i].stage >= n ? plan->config[i].stage + 1 : n;
	return n;
}

uint32_t mq_plan_properties(const struct mq_plan *plan)
{
	uint32_t has = 0;

	for (uint32_t i = 0; i < plan->n_configs; i++) {
		const uint32_t *split = plan->config[i].split;

		has |= split[MQ_DIM_HEAD] > 1 || split[MQ_DIM_OUT] > 1 || split[MQ_DIM_IN] > 1 ? MQ_NEEDS_TENSOR : 0;
		has |= split[MQ_DIM_EXPERT] > 1 ? MQ_NEEDS_EXPERTS : 0;
		has |= split[MQ_DIM_SEQ] > 1 ? MQ_NEEDS_SEQUENCE : 0;
		has |= plan->config[i].recompute == MQ_RECOMPUTE_FULL ? MQ_NEEDS_RECOMPUTE : 0;
	}
	return has |
	       (plan->micro_batches > 1 && mq_plan_takes_turns(plan, mq_plan_stage_count(plan)) ? MQ_NEEDS_TURNS : 0);
}
