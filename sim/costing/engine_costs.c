/*
 * engine_costs.c - the cost queries that engines ask (engine.h), answered from the cost models, without
 * contention and one question at a time. Answers about communication are remembered by content.
 */
#include "costing/engine_costs.h"

#include <math.h>
#include <string.h>

#include "maquette/collective.h"
#include "maquette/cost.h"
#include "base/index.h"
#include "costing/bound.h"
#include "lowering/mesh.h"

enum { PADDED = 65 };

struct asked {
	struct mq_question q;
	struct mq_arena *arena;
	const struct mq_model
		*padded[PADDED]; /* by parts of the vocabulary, as lowering pads it; made when asked for */
	struct mq_index *index;  /* request -> answer */
	uint32_t n_answers, room;
	double *answer; /* seconds, NaN = none */
};

/* The model as a plan has it that splits this op so. */
static const struct mq_model *model_of(struct asked *a, uint32_t op, const uint32_t split[MQ_N_DIMS])
{
	const struct mq_op *o = &a->q.model->op[op];
	uint32_t parts = split[o->kind == MQ_OP_EMBEDDING ? MQ_DIM_IN : MQ_DIM_OUT];

	if (o->layer != MQ_NONE || !parts || parts >= PADDED)
		return a->q.model;
	if (!a->padded[parts])
		a->padded[parts] =
			mq_model_pad_vocab(a->q.model, mq_question_software(&a->q)->vocab_multiple, parts, a->arena);
	return a->padded[parts];
}

/* `host`: time per launch / the machine's. */
static double op_cost(struct asked *a, uint32_t op, enum mq_phase phase, uint32_t device,
		      const uint32_t split[MQ_N_DIMS], double samples, double host, bool waits)
{
	struct mq_kernel kernel[MQ_MAX_KERNELS_PER_OP];
	struct mq_share share = { .samples = samples, .reduced = split[MQ_DIM_BATCH] > 1 };
	const struct mq_device *d = &a->q.cluster->device[device];
	struct mq_question q = a->q;

	q.model = model_of(a, op, split);
	for (int i = 0; i < MQ_N_DIMS; i++)
		share.split[i] = split[i];
	struct mq_work work = { .kernel = kernel, .host = host, .waits = waits };
	work.n_kernels = mq_op_kernels(&q, op, phase, &share, d->type, kernel);
	return d->calib == MQ_NONE ? (double)INFINITY : mq_cost_work(&a->q.calib->device[d->calib], &work);
}

static double op_time(void *context, uint32_t op, enum mq_phase phase, uint32_t device, const uint32_t split[MQ_N_DIMS],
		      double samples)
{
	struct asked *a = context;
	const struct mq_software *s = mq_question_software(&a->q);

	return op_cost(a, op, phase, device, split, samples, s->host, s->cuda_launch_blocking);
}

/* Launches that take no time: of a factor, 0 means 1. */
static double op_busy(void *context, uint32_t op, enum mq_phase phase, uint32_t device, const uint32_t split[MQ_N_DIMS],
		      double samples)
{
	return op_cost(context, op, phase, device, split, samples, 1e-9, false);
}

static double least_s(void *context)
{
	struct asked *a = context;

	return fmax(mq_peak_bound(&a->q), mq_busy_bound(&a->q, op_busy, a));
}

static void op_memory(void *context, uint32_t op, const uint32_t split[MQ_N_DIMS], double samples, enum mq_sync sync,
		      uint32_t dp, enum mq_recompute recompute, double *static_B, double *activation_B)
{
	struct asked *a = context;
	const struct mq_op *o = &a->q.model->op[op];
	double load = mq_op_of_experts(o) ? mq_expert_load(&a->q.train->experts, split[MQ_DIM_EXPERT]) : 1;
	struct mq_share share = { .samples = samples * load };
	double size = mq_dtype_size(a->q.train->dtype), n = dp ? dp : 1;

	for (int i = 0; i < MQ_N_DIMS; i++)
		share.split[i] = split[i];
	double elems = mq_op_param_shard(o, share.split);
	double weights = elems * size, grads = elems * mq_dtype_size(a->q.train->grad_dtype);
	const struct mq_software *s = mq_question_software(&a->q);
	double state = elems * mq_train_state_B(a->q.train, s->master_B, s->moment_B);
	if (sync >= MQ_SYNC_ZERO1)
		state /= n;
	if (sync >= MQ_SYNC_ZERO2)
		grads /= n;
	if (sync == MQ_SYNC_ZERO3)
		weights /= n;
	*static_B = a->q.train->infer ? weights : weights + grads + state;
	*activation_B = mq_op_saved_B(o, &share, recompute == MQ_RECOMPUTE_SELECTIVE, a->q.train);
	if (recompute == MQ_RECOMPUTE_FULL && o->layer != MQ_NONE) {
		/* The layer's input alone is kept: counted with the ops that read it from outside. */
		*activation_B = 0;
		for (uint32_t i = a->q.model->in_first[op]; i < a->q.model->in_first[op + 1]; i++) {
			const struct mq_edge *e = &a->q.model->edge[a->q.model->in_edge[i]];

			if (a->q.model->op[e->src].layer != o->layer && o->kind == MQ_OP_NORM)
				*activation_B = e->elems * samples / fmax(1, split[MQ_DIM_SEQ]) * size;
		}
	}
	if (a->q.train->infer)
		*activation_B = 0;
}

/* The answer's slot for a question's bytes; *known says whether it holds one. */
static double *slot(struct asked *a, const void *key, size_t size, bool *known)
{
	uint32_t at = mq_index_put(a->index, key, size, a->n_answers, known);

	if (!*known)
		MQ_PUSH(a->arena, a->answer, a->n_answers, a->room, NAN);
	return &a->answer[at];
}

static bool collective(void *context, const struct mq_coll_request *rq, double *seconds)
{
	struct asked *a = context;
	struct mq_arena scratch = MQ_ARENA_INIT;
	size_t head = 6 * sizeof(double), size = head + rq->n * sizeof(uint32_t);
	unsigned char *key = mq_arena_alloc(&scratch, size);
	double fields[6] = { rq->kind, rq->bytes, rq->dtype, rq->algo, rq->proto, rq->root };
	bool known;

	memcpy(key, fields, head);
	memcpy(key + head, rq->rank, rq->n * sizeof(uint32_t));
	double *answer = slot(a, key, size, &known);
	if (!known) {
		struct mq_coll_flows flows;
		struct mq_err err = MQ_ERR_INIT;

		if (mq_collective_expand(a->q.cluster, a->q.calib, rq, &scratch, &flows, &err) == MQ_OK)
			*answer = flows.alone_s;
	}
	mq_arena_fini(&scratch);
	*seconds = *answer;
	return !isnan(*answer);
}

static bool transfer(void *context, uint32_t src, uint32_t dst, double bytes, double *seconds)
{
	struct asked *a = context;
	struct {
		double bytes;
		uint32_t src, dst;
	} key = { bytes, src, dst };
	bool known;

	*seconds = 0;
	if (src == dst)
		return true;
	double *answer = slot(a, &key, sizeof(key), &known);
	if (!known) {
		double latency, rate, alone;
		struct mq_err err = MQ_ERR_INIT;

		if (mq_p2p_expand(a->q.cluster, a->q.calib, src, dst, bytes, &latency, &rate, &alone, &err) == MQ_OK)
			*answer = alone;
	}
	*seconds = *answer;
	return !isnan(*answer);
}

static bool same_devices(const struct mq_config *a, const struct mq_config *b)
{
	return a->n_devices == b->n_devices && !memcmp(a->device, b->device, a->n_devices * sizeof(*a->device));
}

/* Seconds of one direction: collectives of the first group of each step, or messages between sets. */
static bool move(struct asked *a, const struct mq_layout *from, const struct mq_layout *to, const struct mq_config *cf,
		 const struct mq_config *ct, double bytes, double *seconds)
{
	struct mq_layout goal = same_devices(cf, ct) ? *to : mq_layout_reduced(from);
	struct mq_conversion c = mq_layout_convert(from, &goal);
	uint32_t member[4096];

	*seconds = 0;
	for (uint32_t i = 0; i < c.n_steps; i++) {
		double s;
		struct mq_coll_request rq = { .kind = c.step[i].kind,
					      .n = c.step[i].size,
					      .rank = member,
					      .bytes = bytes * c.step[i].fraction,
					      .dtype = a->q.train->dtype };

		if (rq.n > sizeof(member) / sizeof(*member))
			return false;
		for (uint32_t k = 0; k < rq.n; k++)
			member[k] = cf->device[k * c.step[i].stride];
		if (!collective(a, &rq, &s))
			return false;
		*seconds += s;
	}
	if (same_devices(cf, ct))
		return c.possible;
	/* The receiver that needs most, from the senders in turn. */
	double part = 1;
	for (uint32_t i = 0; i < to->n_factors; i++)
		if (to->role[i] != MQ_ROLE_REPLICA && to->role[i] != MQ_ROLE_PARTIAL)
			part /= to->size[i];
	double worst = 0;
	for (uint32_t q = 0; q < ct->n_devices; q++) {
		double s;

		if (!transfer(a, cf->device[q % cf->n_devices], ct->device[q], bytes * part, &s))
			return false;
		worst = fmax(worst, s);
	}
	*seconds += worst;
	return true;
}

static bool reshard(void *context, uint32_t edge, const struct mq_config *from, const struct mq_config *to,
		    double samples, double *forward_s, double *backward_s)
{
	struct asked *a = context;
	const struct mq_edge *e = &a->q.model->edge[edge];
	const struct mq_op *u = &a->q.model->op[e->src], *v = &a->q.model->op[e->dst];
	double bytes = e->elems * samples * mq_dtype_size(a->q.train->dtype);

	if (mq_edge_to_experts(a->q.model, e))
		bytes *= mq_expert_load(&a->q.train->experts,
					fmax(from->split[MQ_DIM_EXPERT], to->split[MQ_DIM_EXPERT]));
	*forward_s = *backward_s = 0;
	if (u->kind == MQ_OP_INPUT)
		return true;
	struct mq_layout out = mq_layout_of(u, from, MQ_TENSOR_OUT);
	struct mq_layout in = mq_layout_of(v, to, MQ_TENSOR_IN);
	if (!move(a, &out, &in, from, to, bytes, forward_s))
		return false;
	if (e->no_grad || a->q.train->infer)
		return true;
	struct mq_layout dx = mq_layout_of(v, to, MQ_TENSOR_DX);
	struct mq_layout dy = mq_layout_of(u, from, MQ_TENSOR_DY);
	return move(a, &dx, &dy, to, from, bytes, backward_s);
}

struct mq_costs *mq_costs_new(const struct mq_question *q, struct mq_arena *arena)
{
	struct mq_costs *costs = mq_arena_alloc(arena, sizeof(*costs));
	struct asked *a = mq_arena_alloc(arena, sizeof(*a));

	*a = (struct asked){ .q = *q, .arena = arena, .index = mq_index_new(arena) };
	*costs = (struct mq_costs){ .context = a,
				    .op_time = op_time,
				    .op_busy = op_busy,
				    .least_s = least_s,
				    .op_memory = op_memory,
				    .reshard = reshard,
				    .collective = collective,
				    .transfer = transfer };
	return costs;
}
