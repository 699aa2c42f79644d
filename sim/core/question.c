/* question.c - see question.h. */
#include "core/question.h"

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

struct mq_question mq_question_for(const struct mq_question *q, const struct mq_plan *plan,
				   struct mq_arena *arena)
{
	struct mq_question own = *q;
	uint32_t op = mq_model_vocab_op(q->model);

	own.software = mq_question_software(q);
	if (op != MQ_NONE && plan->n_ops == q->model->n_ops && plan->config_of[op] < plan->n_configs) {
		uint32_t parts = plan->config[plan->config_of[op]].split[MQ_DIM_OUT];

		own.model = mq_model_pad_vocab(q->model, own.software->vocab_multiple, parts ? parts : 1, arena);
	}
	return own;
}
