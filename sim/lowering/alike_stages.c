/* alike_stages.c - finds equal stages (model chunks) of a pipeline rank, so that their templates are made once.
 *
 * Two stages of a rank are alike if they run the same ops (mq_model.like) under the same decisions, with the same
 * decisions in the stages before and after. Forward passes use the templates of the first such stage, all others those
 * of the last: templates are made in the order in which messages travel, so senders come before receivers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lowering/program.h"

struct key {
	struct mq_low *low;
	const uint32_t *config; /* [n_configs] the first that is equal except for its stage */
	uint32_t n, room, *word;
};

/* Do tensors pass only between neighbouring stages, and does nothing else distinguish stages? */
static bool comparable(const struct mq_low *low)
{
	const struct mq_model *m = low->model;

	if (!low->rq.alike || low->plan->virtual == 1 || low->plan->offload_layers || low->num.explicit_backward)
		return false;
	for (uint32_t op = 0; op < m->n_ops; op++)
		if (m->op[op].tied != MQ_NONE && (m->op[op].layer != MQ_NONE || m->op[m->op[op].tied].layer != MQ_NONE))
			return false;
	for (uint32_t e = 0; e < m->n_edges; e++) {
		uint32_t from = low->num.stage_of[m->edge[e].src], to = low->num.stage_of[m->edge[e].dst];

		if (m->op[m->edge[e].src].kind != MQ_OP_INPUT && (from > to + 1 || to > from + 1))
			return false;
	}
	return true;
}

static uint32_t *number_configs(struct mq_low *low)
{
	struct mq_index *index = mq_index_new(&low->scratch);
	uint32_t *number = mq_arena_array(&low->scratch, low->plan->n_configs, uint32_t);

	for (uint32_t i = 0; i < low->plan->n_configs; i++) {
		const struct mq_config *c = &low->plan->config[i];
		/* parameter servers take the buckets of all stages in turn, so stages differ */
		bool apart = c->share || c->sync == MQ_SYNC_PS, found;
		uint32_t word[4 + MQ_N_DIMS] = { low->num.devset_of[i], c->sync, c->recompute, apart ? i : MQ_NONE };

		memcpy(word + 4, c->split, sizeof(c->split));
		number[i] = mq_index_put(index, word, sizeof(word), i, &found);
	}
	return number;
}

static void add(struct key *k, uint32_t word)
{
	MQ_PUSH(&k->low->scratch, k->word, k->n, k->room, word);
}

/* Adds the other end of an edge, if in another stage. */
static void add_end(struct key *k, uint32_t stage, uint32_t op)
{
	uint32_t there = k->low->num.stage_of[op];

	if (there == stage)
		return;
	add(k, there - stage);
	add(k, mq_low_rank(k->low, there));
	add(k, k->config[k->low->plan->config_of[op]]);
}

static void add_stage(struct key *k, uint32_t stage)
{
	const struct mq_low *low = k->low;
	uint32_t at = low->num.stage_first[stage];

	k->n = 0;
	add(k, mq_low_rank(low, stage));
	add(k, mq_sync_gathers_first(low, stage));
	for (uint32_t i = at; i < low->num.stage_first[stage + 1]; i++) {
		uint32_t op = low->num.stage_op[i], first = low->num.stage_op[at];

		add(k, low->model->like[op]);
		add(k, op - first);
		add(k, low->num.unit_of[op] - low->num.unit_of[first]);
		add(k, k->config[low->plan->config_of[op]]);
		MQ_EACH_IN(low->model, op, e)
			add_end(k, stage, e->src);
		MQ_EACH_OUT(low->model, op, e)
			add_end(k, stage, e->dst);
	}
}

static uint32_t first_op(const struct mq_low *low, uint32_t stage)
{
	return low->num.stage_op[low->num.stage_first[stage]];
}

/* Sets `like` of the transfers of an edge between stages: the corresponding transfers of the stages whose templates
 * send the messages. */
static void find_senders(struct mq_low *low, uint32_t edge)
{
	const struct mq_model *m = low->model;
	uint32_t src = m->edge[edge].src, dst = m->edge[edge].dst, k = 0;
	uint32_t from = low->num.stage_of[src], to = low->num.stage_of[dst];
	uint32_t forward = low->moves.edge_forward[edge], backward = low->moves.edge_backward[edge];

	if (from == to)
		return;
	uint32_t other = src + first_op(low, low->num.like[0][from]) - first_op(low, from);
	if (forward != MQ_NONE)
		low->moves.transfer[forward].like =
			low->moves.edge_forward[m->out_first[other] + edge - m->out_first[src]];
	other = dst + first_op(low, low->num.like[1][to]) - first_op(low, to);
	while (m->in_edge[m->in_first[dst] + k] != edge)
		k++;
	if (!low->train->infer && backward != MQ_NONE)
		low->moves.transfer[backward].like = low->moves.edge_backward[m->in_edge[m->in_first[other] + k]];
}

void mq_low_alike_stages(struct mq_low *low)
{
	uint32_t n = low->num.n_stages, *first = mq_arena_count(&low->scratch, n),
		 *last = mq_arena_count(&low->scratch, n);
	struct mq_index *index = mq_index_new(&low->scratch);

	low->num.like[0] = first;
	low->num.like[1] = last;
	for (uint32_t t = 0; t < low->moves.n; t++)
		low->moves.transfer[t].like = t;
	if (!comparable(low))
		return;
	struct key k = { .low = low, .config = number_configs(low) };
	for (uint32_t s = 0; s < n; s++) {
		bool found;

		add_stage(&k, s);
		first[s] = mq_index_put(index, k.word, k.n * sizeof(*k.word), s, &found);
		last[first[s]] = s;
	}
	for (uint32_t s = 0; s < n; s++)
		last[s] = last[first[s]];
	for (uint32_t e = 0; e < low->model->n_edges; e++)
		find_senders(low, e);
}
