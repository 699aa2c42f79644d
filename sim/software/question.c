/* question.c - see question.h. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/question.h"

double mq_reserve_B(const struct mq_question *q, uint32_t device)
{
	const struct mq_device *d = &q->cluster->device[device];
	const struct mq_software *s = mq_question_software(q);

	if (d->calib == MQ_NONE)
		return 0;
	/* measured models hold all that they hold */
	if (d->kind == MQ_CPU || q->model->profile.n_types)
		return q->calib->device[d->calib].reserve_B;
	return (s->reserve_GB + (q->cluster->nvlink ? s->comm_GB : 0)) * 1e9;
}

/* Does any config exchange gradients, parameters or tokens in every micro-batch? */
static bool meets(const struct mq_plan *plan)
{
	for (uint32_t i = 0; i < plan->n_configs; i++)
		if (plan->config[i].sync == MQ_SYNC_ZERO2 || plan->config[i].sync == MQ_SYNC_ZERO3 ||
		    plan->config[i].split[MQ_DIM_EXPERT] > 1)
			return true;
	return false;
}

/* The training options with the attention work of the slowest rank under this plan (sequence packing). Replicas with
 * uneven shares count as even. */
static const struct mq_train *with_sequence_packing(const struct mq_question *q, const struct mq_plan *plan,
						    struct mq_arena *arena)
{
	struct mq_train *own = mq_arena_array(arena, 1, struct mq_train);
	uint32_t op = 0;

	while (op < q->model->n_ops && q->model->op[op].kind != MQ_OP_ATTENTION)
		op++;
	if (op == q->model->n_ops || plan->n_ops != q->model->n_ops || plan->config_of[op] >= plan->n_configs)
		return q->train;
	const struct mq_config *c = &plan->config[plan->config_of[op]];
	const struct mq_sequence_packing_plan who = {
		.replicas = c->split[MQ_DIM_BATCH],
		.ranks = c->split[MQ_DIM_SEQ],
		.chunks = plan->virtual,
		.stages = mq_plan_stage_count(plan) / plan->virtual,
		.micro_batches = plan->micro_batches,
		.samples = q->train->batch / plan->micro_batches / c->split[MQ_DIM_BATCH],
		.meet = meets(plan),
		.causal = q->model->op[op].causal,
	};
	*own = *q->train;
	own->sequence_packing.work = mq_sequence_packing_work(&q->train->sequence_packing, &who);
	return own;
}

struct mq_question mq_question_for(const struct mq_question *q, const struct mq_plan *plan, struct mq_arena *arena)
{
	struct mq_question own = *q;
	uint32_t op = mq_model_vocab_op(q->model);

	own.software = mq_question_software(q);
	if (q->train->sequence_packing.seq > 0)
		own.train = with_sequence_packing(q, plan, arena);
	if (op != MQ_NONE && plan->n_ops == q->model->n_ops && plan->config_of[op] < plan->n_configs) {
		uint32_t parts = plan->config[plan->config_of[op]].split[MQ_DIM_OUT];

		own.model = mq_model_pad_vocab(q->model, own.software->vocab_multiple, parts ? parts : 1, arena);
	}
	return own;
}
