/* numbering.c - numbers the parts of a plan: stages and pipeline ranks, units of layers, device lists; and queries
 * about them. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "lowering/program.h"

uint32_t mq_low_rank(const struct mq_low *low, uint32_t stage)
{
	return mq_pipeline_rank(low->plan->pipeline, low->num.n_ranks, stage);
}

uint32_t mq_low_stage(const struct mq_low *low, uint32_t rank, uint32_t chunk)
{
	return mq_pipeline_stage(low->plan->pipeline, low->num.n_ranks, rank, chunk);
}

/* In a V schedule each chunk has its own streams, separate for gradients and activations. In other schedules messages
 * that skip stages use the second streams: they arrive long before their receiver needs them, and must not block
 * messages to the next stage. */
enum mq_stream mq_low_stream(const struct mq_low *low, const struct mq_transfer *t, enum mq_task_kind kind)
{
	static const enum mq_stream of[2][2][2] = {
		{ { MQ_STREAM_SEND, MQ_STREAM_SEND_BACK }, { MQ_STREAM_SEND_2, MQ_STREAM_SEND_BACK_2 } },
		{ { MQ_STREAM_RECV, MQ_STREAM_RECV_BACK }, { MQ_STREAM_RECV_2, MQ_STREAM_RECV_BACK_2 } },
	};
	bool receives = kind == MQ_TASK_RECV;

	if (mq_pipeline_is_v(low->plan->pipeline))
		return of[receives][(receives ? t->to_stage : t->from_stage) >= low->num.n_ranks][t->channel != 0];
	return of[receives][t->from_stage > t->to_stage + 1 || t->to_stage > t->from_stage + 1][0];
}

bool mq_low_keeps_one(const struct mq_low *low)
{
	return low->software->checkpoint_except_last && low->plan->pipeline == MQ_PIPE_GPIPE;
}

uint32_t mq_low_deferred(const struct mq_low *low, uint32_t op)
{
	const struct mq_software *s = low->software;
	const struct mq_model *m = low->model;
	uint32_t first = m->out_first[op], n = low->plan->micro_batches;

	if (!s->defer_embedding_wgrad_compute || low->num.n_ranks < 2 || low->num.explicit_backward ||
	    m->op[op].kind != MQ_OP_GEMM || m->op[op].layer != MQ_NONE || m->op[op].frozen != MQ_TRAINED ||
	    first == m->out_first[op + 1] || m->op[m->edge[first].dst].kind != MQ_OP_LOSS ||
	    mq_pipeline_splits(low->plan->pipeline) || mq_duplicates(low, op) > 1 ||
	    mq_reduces_always(low, mq_low_config(low, op)))
		return 0;
	return s->wgrad_deferral_limit && s->wgrad_deferral_limit < n ? s->wgrad_deferral_limit : n;
}

double mq_low_part(const struct mq_low *low, const struct mq_config *config, uint32_t batch_coordinate)
{
	return low->num.samples[config - low->plan->config][batch_coordinate];
}

double mq_low_samples(const struct mq_low *low, const struct mq_config *config, uint32_t position)
{
	return mq_low_part(low, config, mq_mesh_coordinate(config, position, MQ_DIM_BATCH));
}

void mq_low_units(const struct mq_low *low, uint32_t *unit_of)
{
	const struct mq_op *op = low->model->op;
	const uint32_t *stage = low->num.stage_of;
	bool uniform = low->plan->recompute_num_layers && low->plan->recompute_method == MQ_RECOMPUTE_UNIFORM;
	uint32_t unit = 0, layers = 1; /* of the unit, so far */

	for (uint32_t i = 0; i < low->model->n_ops; i++) {
		bool joins = i && uniform && op[i].layer != MQ_NONE && op[i - 1].layer != MQ_NONE &&
			     stage[i] == stage[i - 1] && layers < low->plan->recompute_num_layers;

		if (i && op[i].layer != op[i - 1].layer) {
			unit += !joins;
			layers = joins ? layers + 1 : 1;
		}
		unit_of[i] = unit;
	}
}

static void number_stages(struct mq_low *low)
{
	uint32_t n = low->model->n_ops;

	low->num.stage_of = mq_arena_array(&low->scratch, n, uint32_t);
	for (uint32_t op = 0; op < n; op++) {
		low->num.stage_of[op] = mq_low_config(low, op)->stage;
		if (low->num.stage_of[op] + 1 > low->num.n_stages)
			low->num.n_stages = low->num.stage_of[op] + 1;
	}
	low->num.n_ranks = low->num.n_stages / low->plan->virtual;
	mq_csr_make(&low->scratch, low->num.n_stages, n, low->num.stage_of, NULL, sizeof(*low->num.stage_of),
		    &low->num.stage_first, &low->num.stage_op);
}

static void number_devsets(struct mq_low *low)
{
	struct mq_index *index = mq_index_new(low->arena);
	uint32_t n = 0;

	low->num.devset_of = mq_arena_array(&low->scratch, low->plan->n_configs, uint32_t);
	for (uint32_t i = 0; i < low->plan->n_configs; i++) {
		const struct mq_config *c = &low->plan->config[i];
		bool found;

		low->num.devset_of[i] = mq_index_put(index, c->device, c->n_devices * sizeof(*c->device), n, &found);
		n += !found;
	}
}

static void number_samples(struct mq_low *low)
{
	low->num.samples = mq_arena_array(&low->scratch, low->plan->n_configs, double *);
	for (uint32_t i = 0; i < low->plan->n_configs; i++) {
		const struct mq_config *c = &low->plan->config[i];

		low->num.samples[i] = mq_arena_array(&low->scratch, c->split[MQ_DIM_BATCH], double);
		mq_plan_samples(low->plan, c, low->train, &low->scratch, low->num.samples[i]);
	}
}

/* Messages of a V schedule go from a chunk to the next. One that skips chunks would block those behind it, and with
 * them the micro-batches that its receiver waits for. */
static bool skips_no_chunk(struct mq_low *low)
{
	const struct mq_model *m = low->model;

	for (uint32_t e = 0; e < m->n_edges && mq_pipeline_is_v(low->plan->pipeline); e++) {
		uint32_t from = low->num.stage_of[m->edge[e].src], to = low->num.stage_of[m->edge[e].dst];

		if (m->op[m->edge[e].src].kind == MQ_OP_INPUT || (from <= to + 1 && to <= from + 1))
			continue;
		low->out->verdict = MQ_VERDICT_INVALID;
		snprintf(
			low->out->message, sizeof(low->out->message),
			"the %s schedule passes tensors from a stage to the next, and '%.80s' in stage %u needs '%.80s' of "
			"stage %u",
			mq_pipeline_name((enum mq_pipeline)low->plan->pipeline), m->op[m->edge[e].dst].name, to,
			m->op[m->edge[e].src].name, from);
		return false;
	}
	return true;
}

/* Every device belongs to one pipeline rank. */
static void number_devices(struct mq_low *low)
{
	const struct mq_cluster *cluster = low->q.cluster;
	struct mq_lowered *out = low->out;
	uint32_t *rank_of_set = mq_arena_none(&low->scratch, low->plan->n_configs);

	low->num.rank_of_device = mq_arena_none(low->arena, cluster->n_devices);
	for (uint32_t op = 0; op < low->model->n_ops; op++) {
		const struct mq_config *c = mq_low_config(low, op);
		uint32_t r = mq_low_rank(low, low->num.stage_of[op]);
		uint32_t *of_set = &rank_of_set[low->num.devset_of[low->plan->config_of[op]]];

		if (*of_set == r)
			continue;
		*of_set = r;
		for (uint32_t i = 0; i < c->n_devices; i++) {
			uint32_t *mine = &low->num.rank_of_device[c->device[i]];

			if (*mine != MQ_NONE && *mine != r) {
				out->verdict = MQ_VERDICT_REFUSED;
				snprintf(out->message, sizeof(out->message),
					 "device %u works for pipeline ranks %u and %u; give stages "
					 "devices of their own",
					 c->device[i], *mine, r);
				return;
			}
			out->n_devices += *mine == MQ_NONE;
			*mine = r;
		}
	}
	out->device = mq_arena_array(low->arena, out->n_devices, uint32_t);
	out->memory = mq_arena_array(low->arena, out->n_devices, struct mq_memory);
	uint32_t n = 0;
	for (uint32_t d = 0; d < cluster->n_devices; d++)
		if (low->num.rank_of_device[d] != MQ_NONE)
			out->device[n++] = d;
}

void mq_low_number(struct mq_low *low)
{
	number_stages(low);
	number_samples(low);
	low->num.unit_of = mq_arena_array(&low->scratch, low->model->n_ops, uint32_t);
	mq_low_units(low, low->num.unit_of);
	low->num.explicit_backward = mq_model_explicit_backward(low->model);
	number_devsets(low);
	if (skips_no_chunk(low))
		number_devices(low);
}
