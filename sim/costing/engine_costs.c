/* engine_costs.c - see costing.h. Each answer is for a kernel or collective alone on the machine. Answers about
 * communication are cached by the bytes of the request. SPDX-License-Identifier: Apache-2.0 */
#include "costing/costing.h"

#include <math.h>
#include <string.h>

#include "lowering/footprint.h"

enum { PADDED = 65 };

struct asked {
	struct mq_question q;
	struct mq_arena *arena;
	const struct mq_model *padded[PADDED]; /* by parts of the vocabulary, padded as in lowering; made on demand */
	struct mq_index *index;                /* request -> seconds, NaN = none */
	struct mq_index *memory_index;         /* request -> mq_op_memory */
	struct mq_low *stage[MQ_N_RECOMPUTES]; /* see stage_of */
	uint32_t device;                       /* the device of memory queries: the first GPU, else the first device */
};

/* The model with the vocabulary padding of a plan that splits this op so. */
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

/* host: time per launch / the machine's. bound: at full clock, the fastest of any plan; else at the clock of a device
 * that repeats this work alone. */
static double op_cost(struct asked *a, uint32_t op, enum mq_phase phase, uint32_t device,
		      const uint32_t split[MQ_N_DIMS], double samples, double host, bool waits, bool bound)
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
	if (d->calib == MQ_NONE)
		return (double)INFINITY;
	struct mq_device_calib at = a->q.calib->device[d->calib];
	struct mq_draw draw = { 0 };
	if (!bound) {
		mq_power_add(&at, &work, 1, &draw);
		at.clock = mq_clocks_of(&a->q, device, a->q.cluster->n_devices, &draw);
	}
	return mq_cost_work(&at, &work);
}

/* The slot of the answer to a request, by its bytes; *known: the answer is there. */
static double *slot(struct asked *a, const void *key, size_t size, bool *known)
{
	double *answer = mq_index_value(a->index, key, size, sizeof(*answer), known);

	if (!*known)
		*answer = NAN;
	return answer;
}

static double op_time(void *context, uint32_t op, enum mq_phase phase, uint32_t device, const uint32_t split[MQ_N_DIMS],
		      double samples)
{
	struct asked *a = context;
	const struct mq_software *s = mq_question_software(&a->q);
	double key[MQ_N_DIMS + 4] = { a->q.model->like[op], phase, device, samples };
	bool known;

	for (int d = 0; d < MQ_N_DIMS; d++)
		key[4 + d] = split[d];
	double *answer = slot(a, key, sizeof(key), &known);
	if (!known)
		*answer = op_cost(a, op, phase, device, split, samples, s->host, s->cuda_launch_blocking, false);
	return *answer;
}

/* The host factor 1e-9 leaves launches no time; 0 would mean 1. */
static double op_busy(void *context, uint32_t op, enum mq_phase phase, uint32_t device, const uint32_t split[MQ_N_DIMS],
		      double samples)
{
	return op_cost(context, op, phase, device, split, samples, 1e-9, false, true);
}

static double least_s(void *context)
{
	struct asked *a = context;

	return fmax(mq_peak_bound(&a->q), mq_busy_bound(&a->q, op_busy, a));
}

/* The model as one stage with one configuration for all ops, except for what the software chooses to recompute. */
static struct mq_low *stage_of(struct asked *a, enum mq_recompute recompute)
{
	struct mq_low *low = a->stage[recompute];
	struct mq_plan plan;

	if (low)
		return low;
	low = a->stage[recompute] = mq_arena_array(a->arena, 1, struct mq_low);
	low->resolved = mq_arena_array(a->arena, 1, struct mq_plan);
	low->plan = low->resolved;
	low->q = a->q;
	low->q.software = low->software = mq_question_software(&a->q);
	low->train = a->q.train;
	low->model = a->q.model;
	mq_plan_init(&plan, a->arena, a->q.model->n_ops);
	mq_plan_add_config(&plan, a->arena, 1);
	plan.config[0].recompute = (uint8_t)recompute;
	mq_software_apply_defaults(low->software, a->q.model, &plan, a->arena, low->resolved);
	low->resolved->zero_group = low->software->shard_group;
	low->num = (struct mq_numbering){ .n_stages = 1,
					  .n_ranks = 1,
					  .stage_of = mq_arena_array(a->arena, plan.n_ops, uint32_t),
					  .unit_of = mq_arena_array(a->arena, plan.n_ops, uint32_t) };
	mq_low_units(low, low->num.unit_of);
	return low;
}

/* Is the op the first of its unit with an input from outside the unit? */
static bool enters(const struct mq_model *m, const uint32_t *unit_of, uint32_t op)
{
	uint32_t first = op, unit = unit_of[op];

	while (first > 0 && unit_of[first - 1] == unit)
		first--;
	for (; first <= op; first++)
		MQ_EACH_IN(m, first, e)
			if (unit_of[e->src] != unit && m->op[e->src].kind != MQ_OP_INPUT)
				return first == op;
	return false;
}

static struct mq_op_memory find_memory(struct asked *a, struct mq_low *low, uint32_t op,
				       const uint32_t split[MQ_N_DIMS], double samples, enum mq_sync sync, uint32_t dp)
{
	low->model = low->q.model = model_of(a, op, split);
	for (uint32_t i = 0; i < low->resolved->n_configs; i++) {
		struct mq_config *c = &low->resolved->config[i];

		memcpy(c->split, split, sizeof(c->split));
		c->split[MQ_DIM_BATCH] = dp > split[MQ_DIM_BATCH] ? dp : split[MQ_DIM_BATCH];
		c->sync = (uint8_t)sync;
		c->n_devices = 1;
		for (int d = 0; d < MQ_N_DIMS; d++)
			c->n_devices *= c->split[d];
	}
	const struct mq_op_use use = mq_footprint_of_op(low, op, a->device, samples);
	return (struct mq_op_memory){
		.parameter_B = use.parameter_B,
		.gradient_B = use.gradient_B,
		.optimizer_B = use.optimizer_B,
		.kept_B = use.kept_B + (use.entry_B > 0 && enters(a->q.model, low->num.unit_of, op) ? use.entry_B : 0),
		.again_B = use.again_B,
	};
}

/* Do layers differ in saved activations, since they recompute different ops, or only some recompute or offload? */
static bool memory_by_layer(void *context, enum mq_recompute recompute)
{
	const struct mq_low *low = stage_of(context, recompute);

	return low->resolved->recompute_num_layers || low->resolved->offload_layers ||
	       (recompute == MQ_RECOMPUTE_SELECTIVE &&
		(low->software->selective == MQ_SELECTIVE_OPS || low->software->selective == MQ_SELECTIVE_LAYERS));
}

static void op_memory(void *context, uint32_t op, const uint32_t split[MQ_N_DIMS], double samples, enum mq_sync sync,
		      uint32_t dp, enum mq_recompute recompute, struct mq_op_memory *memory)
{
	struct asked *a = context;
	struct mq_low *low = stage_of(a, recompute);
	double key[MQ_N_DIMS + 5] = { memory_by_layer(a, recompute) ? op : a->q.model->like[op], samples, sync, dp,
				      recompute };
	bool known;

	for (int d = 0; d < MQ_N_DIMS; d++)
		key[5 + d] = split[d];
	struct mq_op_memory *answer = mq_index_value(a->memory_index, key, sizeof(key), sizeof(*answer), &known);
	if (!known)
		*answer = find_memory(a, low, op, split, samples, sync, dp);
	*memory = *answer;
}

static bool collective(void *context, const struct mq_coll_request *rq, double *seconds)
{
	struct asked *a = context;
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
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

/* Seconds of one direction: the collectives of each step's first group, or messages between sets of devices. */
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
	/* Receivers get their parts from the senders in turn; the slowest counts. */
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

	*a = (struct asked){
		.q = *q, .arena = arena, .index = mq_index_new(arena), .memory_index = mq_index_new(arena)
	};
	while (a->device < q->cluster->n_devices && q->cluster->device[a->device].kind != MQ_GPU)
		a->device++;
	a->device %= q->cluster->n_devices;
	*costs = (struct mq_costs){ .context = a,
				    .op_time = op_time,
				    .op_busy = op_busy,
				    .least_s = least_s,
				    .op_memory = op_memory,
				    .memory_by_layer = memory_by_layer,
				    .reshard = reshard,
				    .collective = collective,
				    .transfer = transfer };
	return costs;
}
