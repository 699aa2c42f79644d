/*
 * transfer.c - tensors on the move between the layouts of producers and consumers. See program.h.
 *
 * Consumers that need the same layout on the same devices share one transfer. Forward, a tensor leaves as
 * soon as it is made. Backward, the gradients of all consumers with the same layout are summed first, so
 * that one reduction serves them all (qkv, gate and up, residual branches).
 *
 * A boundary between devices that split alike is a set of pairs; where both sides hold copies along one
 * factor, each copy sends its part and the receivers gather them (Megatron's scatter/gather, Narayanan et
 * al. 2021, section 4.1). So it is where the sides differ in that partial sums or copies on one become parts
 * of the sequence or the features on the other (an embedding alone on its stage under sequence
 * parallelism): parts travel, the senders reduce to them or the receivers gather them. Anything else goes by
 * intersection of what each side holds, from the copy with the receiver's own index.
 *
 * In a graph with backward ops of its own, a forward tensor that a backward op needs on other devices
 * leaves as soon as it is made, if its consumer's stage does not come before its own: then the consumer's
 * forward pass receives it. Stages that come before have run their forward pass by then: their backward
 * pass receives it from the producer's.
 *
 * Not modelled: combining small messages of different tensors.
 */
#include <math.h>

#include "lower/program.h"

static bool same_shares(const struct mq_config *a, const struct mq_config *b)
{
	if (!a->share && !b->share)
		return true;
	if (a->split[MQ_DIM_BATCH] != b->split[MQ_DIM_BATCH])
		return false;
	for (uint32_t i = 0; i < a->split[MQ_DIM_BATCH]; i++)
		if ((a->share ? a->share[i] : 1) != (b->share ? b->share[i] : 1))
			return false;
	return true;
}

static bool same_layout(const struct mq_layout *a, const struct mq_layout *b)
{
	if (a->n != b->n || a->n_factors != b->n_factors)
		return false;
	for (uint32_t i = 0; i < a->n_factors; i++)
		if (a->size[i] != b->size[i] || a->role[i] != b->role[i])
			return false;
	return true;
}

/* Are partial sums all that the steps deal with? */
static bool only_reduces(const struct mq_conversion *c)
{
	for (uint32_t i = 0; i < c->n_steps; i++)
		if (c->step[i].kind != MQ_COLL_ALL_REDUCE && c->step[i].kind != MQ_COLL_REDUCE_SCATTER)
			return false;
	return true;
}

static bool same_samples(const struct mq_config *a, const struct mq_config *b)
{
	return same_shares(a, b) && a->split[MQ_DIM_BATCH] == b->split[MQ_DIM_BATCH] &&
	       a->split[MQ_DIM_EXPERT] == b->split[MQ_DIM_EXPERT];
}

/* The part of the whole that a position holds. */
static double part_of(const struct mq_layout *layout)
{
	double part = 1;

	for (uint32_t i = 0; i < layout->n_factors; i++)
		if (layout->role[i] != MQ_ROLE_REPLICA)
			part /= layout->size[i];
	return part;
}

/* Position to position, where that can be: fills `sent`, `share` and `gather`. */
static bool pair_up(const struct mq_low *low, struct mq_transfer *t)
{
	const struct mq_config *a = &low->plan->config[t->from_config];
	const struct mq_config *b = &low->plan->config[t->to_config];
	struct mq_layout whole = mq_layout_reduced(&t->from);
	struct mq_conversion c = mq_layout_convert(&t->from, &t->to);
	struct mq_conversion rest = mq_layout_convert(&whole, &t->to);

	if (!c.possible || !same_shares(a, b))
		return false;
	if (rest.identity || (same_samples(a, b) && only_reduces(&c))) {
		t->sent = t->to;
	} else if (same_samples(a, b) && c.n_steps == 1 && !c.n_slices && c.step[0].kind == MQ_COLL_ALL_GATHER) {
		t->sent = t->from;
		t->gather = c.step[0];
	} else {
		return false;
	}
	t->share = part_of(&t->sent);
	return true;
}

/* How the tensor gets there. Equal shares are even ones or the very same uneven ones. */
static enum mq_way way_of(const struct mq_low *low, struct mq_transfer *t)
{
	const struct mq_config *a = &low->plan->config[t->from_config];
	const struct mq_config *b = &low->plan->config[t->to_config];

	if (low->num.devset_of[t->from_config] == low->num.devset_of[t->to_config]) {
		struct mq_conversion c = mq_layout_convert(&t->from, &t->to);

		return c.possible && same_shares(a, b) ? MQ_WAY_STEPS : MQ_WAY_BOXES;
	}
	return pair_up(low, t) ? MQ_WAY_PAIRS : MQ_WAY_BOXES;
}

/* The one replica factor along which the receivers can gather, if there is just one. */
static struct mq_step gather_step(const struct mq_layout *to)
{
	struct mq_step g = { .kind = MQ_COLL_ALL_GATHER, .fraction = 1 };
	uint32_t stride = to->n, found = 0;

	for (uint32_t i = 0; i < to->n_factors; i++) {
		stride /= to->size[i];
		if (to->role[i] == MQ_ROLE_REPLICA) {
			g.stride = stride;
			g.size = to->size[i];
			found++;
		} else {
			g.fraction /= to->size[i];
		}
	}
	if (found != 1)
		g.size = 0;
	return g;
}

static uint32_t add_transfer(struct mq_low *low, const struct mq_transfer *like)
{
	struct mq_transfer t = *like;

	t.way = (uint8_t)way_of(low, &t);
	if (t.way == MQ_WAY_PAIRS && low->plan->scatter_gather && !t.gather.size) {
		t.gather = gather_step(&t.to);
		if (t.gather.size > 1)
			t.share /= t.gather.size;
	}
	t.arrival = mq_arena_array(&low->scratch, t.to.n, struct mq_ids);
	MQ_PUSH(&low->scratch, low->moves.transfer, low->moves.n, low->moves.room, t);
	return low->moves.n - 1;
}

static bool no_op(const struct mq_low *low, const struct mq_transfer *t)
{
	struct mq_conversion c;

	if (low->num.devset_of[t->from_config] != low->num.devset_of[t->to_config] ||
	    !same_shares(&low->plan->config[t->from_config], &low->plan->config[t->to_config]))
		return false;
	c = mq_layout_convert(&t->from, &t->to);
	return c.possible && !c.n_steps;
}

/* The machines that the ranks of the first group of experts lie on. */
static uint32_t machines_of_experts(const struct mq_low *low, const struct mq_config *c)
{
	uint32_t ep = c->split[MQ_DIM_EXPERT], batch = c->split[MQ_DIM_BATCH], n = 1;
	uint32_t stride = c->n_devices / (ep * (batch ? batch : 1));
	const struct mq_device *device = low->q.cluster->device;

	for (uint32_t i = 1; i < ep && i * stride < c->n_devices; i++)
		n += device[c->device[i * stride]].node != device[c->device[(i - 1) * stride]].node;
	return n;
}

static double choose(double n, double k)
{
	return k < 0 || k > n ? 0 : exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1));
}

/*
 * How many of `places`, among which the experts are divided evenly in order, a token visits: with balanced
 * routing of k experts p (1 - (1 - 1/p)^k). Where the k lie in g of G groups (DeepSeek-V2, -V3: node-limited
 * routing), a place that holds q = G/p groups has j of those chosen with hypergeometric probability, and is
 * visited with 1 - (1 - j/g)^k then; one that holds a part of a group likewise.
 */
static double visited(const struct mq_model *m, double places)
{
	double k = m->top_k, groups = m->expert_groups, limit = m->group_limit;
	double q = groups / places, mean = 0;

	if (!(groups > 0))
		return places * (1 - pow(1 - 1 / places, k));
	if (q < 1 || q != floor(q))
		return places * limit / groups * (1 - pow(1 - fmin(q, 1) / limit, k));
	for (double j = 1; j <= fmin(q, limit); j++)
		mean += choose(q, j) * choose(groups - q, limit - j) / choose(groups, limit) *
			(1 - pow(1 - j / limit, k));
	return places * mean;
}

/* The part of a token's copies that travels: once to each rank that it visits. Between machines it goes once
 * to each, and is passed on inside. */
static double merged(const struct mq_low *low, const struct mq_config *c)
{
	double ep = c->split[MQ_DIM_EXPERT], k = low->model->top_k, machines;

	if (!low->software->merge_copies || !(ep > 1 && k > 1))
		return 1;
	machines = machines_of_experts(low, c);
	if (machines > 1)
		ep = machines;
	return visited(low->model, ep) / k;
}

/* Elements of an edge as they travel: to experts, as many as the fullest rank gets. */
static double travelling(const struct mq_low *low, const struct mq_edge *e)
{
	if (!mq_edge_to_experts(low->model, e))
		return e->elems;
	uint32_t op = low->model->op[e->src].kind == MQ_OP_COMBINE ? e->src : e->dst;
	const struct mq_config *c = &low->plan->config[low->plan->config_of[op]];

	double part = low->model->op[e->src].kind == MQ_OP_ROUTER ? 1 : merged(low, c);

	return e->elems * part * mq_expert_load(&low->train->experts, c->split[MQ_DIM_EXPERT]);
}

static struct mq_transfer forward_transfer(const struct mq_low *low, const struct mq_edge *e)
{
	const struct mq_op *u = &low->model->op[e->src], *v = &low->model->op[e->dst];
	uint32_t from = low->plan->config_of[e->src], to = low->plan->config_of[e->dst];
	bool back = v->phase == MQ_BACKWARD &&
		    (u->phase == MQ_BACKWARD || low->num.stage_of[e->src] > low->num.stage_of[e->dst]);

	return (struct mq_transfer){
		.op = e->src,
		.from_config = from,
		.to_config = to,
		.from = mq_layout_of(u, &low->plan->config[from], MQ_TENSOR_OUT),
		.to = mq_layout_of(v, &low->plan->config[to], MQ_TENSOR_IN),
		.channel = back,
		.inside = u->layer != MQ_NONE && u->layer == v->layer,
		.elems = travelling(low, e),
		.from_stage = low->num.stage_of[e->src],
		.to_stage = low->num.stage_of[e->dst],
		.pass = back ? MQ_PASS_B : MQ_PASS_F,
	};
}

/* Transfers of one op's output: consumers are compared with the ones already planned. */
static void plan_forward(struct mq_low *low, uint32_t op)
{
	uint32_t first = low->moves.n;

	low->moves.out_first[op] = first;
	for (uint32_t e = low->model->out_first[op]; e < low->model->out_first[op + 1]; e++) {
		low->moves.edge_forward[e] = MQ_NONE;
		if (low->model->op[op].kind == MQ_OP_INPUT)
			continue;
		struct mq_transfer t = forward_transfer(low, &low->model->edge[e]);
		uint32_t k = first;

		if (no_op(low, &t))
			continue;
		while (k < low->moves.n &&
		       (low->num.devset_of[low->moves.transfer[k].to_config] != low->num.devset_of[t.to_config] ||
			low->moves.transfer[k].to_stage != t.to_stage || low->moves.transfer[k].pass != t.pass ||
			!same_layout(&low->moves.transfer[k].to, &t.to) ||
			!same_shares(&low->plan->config[low->moves.transfer[k].to_config],
				     &low->plan->config[t.to_config])))
			k++;
		if (k == low->moves.n)
			add_transfer(low, &t);
		low->moves.transfer[k].inside = low->moves.transfer[k].inside && t.inside;
		low->moves.transfer[k].elems = fmax(low->moves.transfer[k].elems, t.elems);
		low->moves.edge_forward[e] = k;
	}
}

/* How often the gradient of what this product takes is summed over tensor-parallel ranks: gate and up are one
 * product here, where software may have two and sum for each. */
static double sums(const struct mq_low *low, uint32_t product, const struct mq_transfer *t)
{
	const struct mq_model *m = low->model;
	struct mq_conversion c = mq_layout_convert(&t->from, &t->to);

	if (!low->software->reduces_apart || c.n_steps != 1 || c.step[0].kind != MQ_COLL_ALL_REDUCE)
		return 1;
	for (uint32_t e = m->out_first[product]; e < m->out_first[product + 1]; e++)
		if (m->op[m->edge[e].dst].gated)
			return 2;
	return 1;
}

/* Gradients of one op's output: consumers with the same layout of dX are summed first. */
static void plan_backward(struct mq_low *low, uint32_t op)
{
	uint32_t first = low->moves.n;

	for (uint32_t e = low->model->out_first[op]; e < low->model->out_first[op + 1]; e++) {
		const struct mq_edge *edge = &low->model->edge[e];
		uint32_t from = low->plan->config_of[edge->dst], to = low->plan->config_of[op];
		struct mq_transfer t = {
			.op = op,
			.from_config = from,
			.to_config = to,
			.from = mq_layout_of(&low->model->op[edge->dst], &low->plan->config[from], MQ_TENSOR_DX),
			.to = mq_layout_of(&low->model->op[op], &low->plan->config[to], MQ_TENSOR_DY),
			.channel = 1,
			.from_stage = low->num.stage_of[edge->dst],
			.elems = travelling(low, edge),
			.to_stage = low->num.stage_of[op],
			.pass = MQ_PASS_B,
		};
		uint32_t k = first;

		low->moves.edge_backward[e] = MQ_NONE;
		if (low->num.explicit_backward || edge->no_grad || low->model->op[op].kind == MQ_OP_INPUT ||
		    no_op(low, &t))
			continue;
		while (k < low->moves.n &&
		       (low->num.devset_of[low->moves.transfer[k].from_config] != low->num.devset_of[from] ||
			low->moves.transfer[k].from_stage != t.from_stage ||
			!same_layout(&low->moves.transfer[k].from, &t.from)))
			k++;
		if (k == low->moves.n)
			add_transfer(low, &t);
		low->moves.transfer[k].elems = fmax(low->moves.transfer[k].elems, t.elems * sums(low, edge->dst, &t));
		low->moves.transfer[k].n_waits++;
		low->moves.edge_backward[e] = k;
	}
}

/* ---- in parts --------------------------------------------------------------------------------------- */

enum { MOST_PARTS = 64 }; /* ranks of a tensor-parallel group that software splits a product for */

/* Is this op a product of a layer, which the software splits? */
static bool splits(const struct mq_low *low, uint32_t op)
{
	return low->model->op[op].kind == MQ_OP_GEMM && low->model->op[op].layer != MQ_NONE &&
	       mq_duplicates(low, op) == 1;
}

/* All ops that a forward transfer leads to. */
static bool all_takers_split(const struct mq_low *low, uint32_t transfer)
{
	uint32_t op = low->moves.transfer[transfer].op;

	for (uint32_t e = low->model->out_first[op]; e < low->model->out_first[op + 1]; e++)
		if (low->moves.edge_forward[e] == transfer && !splits(low, low->model->edge[e].dst))
			return false;
	return true;
}

bool mq_transfer_gathers_sequence(const struct mq_moves *moves, uint32_t transfer)
{
	const struct mq_transfer *t = &moves->transfer[transfer];
	struct mq_conversion c = mq_layout_convert(&t->from, &t->to);

	return !t->channel && t->way == MQ_WAY_STEPS && t->from_stage == t->to_stage && c.n_steps == 1 &&
	       c.step[0].kind == MQ_COLL_ALL_GATHER && c.step[0].role == MQ_ROLE_SEQ;
}

bool mq_transfer_here(const struct mq_low *low, uint32_t transfer)
{
	return low->moves.transfer[transfer].serial == low->emit.serial;
}

/* An input is gathered from n ranks in n - 1 calls: each brings 1/(n - 1) of what the others hold while the
 * product runs on what is there, its own part first, so that of n equal parts all but the first wait for
 * one call each. An output is scattered in n calls, each behind its part of the product. */
static uint32_t parts_of(const struct mq_low *low, uint32_t transfer)
{
	const struct mq_transfer *t = &low->moves.transfer[transfer];
	struct mq_conversion c = mq_layout_convert(&t->from, &t->to);
	bool gathered, only = t->channel || low->moves.out_first[t->op + 1] == low->moves.out_first[t->op] + 1;

	if (t->way != MQ_WAY_STEPS || t->from_stage != t->to_stage || c.n_steps != 1 || c.step[0].size > MOST_PARTS)
		return 1;
	gathered = t->channel ? splits(low, t->op) : all_takers_split(low, transfer);
	if (c.step[0].kind == MQ_COLL_ALL_GATHER && gathered)
		return c.step[0].size;
	/* backwards the weight gradient runs beside the scattering, see passes.c */
	if (c.step[0].kind == MQ_COLL_REDUCE_SCATTER && !t->channel && only && splits(low, t->op))
		return c.step[0].size;
	return 1;
}

uint32_t mq_transfer_parts(const struct mq_moves *moves, uint32_t transfer, bool gather)
{
	const struct mq_transfer *t = &moves->transfer[transfer];
	struct mq_conversion c;

	if (t->parts == 1)
		return 1;
	c = mq_layout_convert(&t->from, &t->to);
	return (c.step[0].kind == MQ_COLL_ALL_GATHER) == gather ? t->parts : 1;
}

enum mq_status mq_transfers_plan(struct mq_low *low)
{
	const struct mq_model *m = low->model;

	low->moves.edge_forward = mq_arena_array(&low->scratch, m->n_edges, uint32_t);
	low->moves.edge_backward = mq_arena_array(&low->scratch, m->n_edges, uint32_t);
	low->moves.out_first = mq_arena_array(&low->scratch, m->n_ops + 1, uint32_t);
	for (uint32_t op = 0; op < m->n_ops; op++)
		plan_forward(low, op);
	low->moves.out_first[m->n_ops] = low->moves.n;
	for (uint32_t op = 0; op < m->n_ops && !low->train->infer; op++)
		plan_backward(low, op);
	for (uint32_t t = 0; t < low->moves.n; t++)
		low->moves.transfer[t].parts = low->plan->overlap_tp ? parts_of(low, t) : 1;
	return MQ_OK;
}

/* ---- on its way ------------------------------------------------------------------------------------ */

static struct mq_ids *arrivals(struct mq_low *low, struct mq_transfer *t)
{
	if (t->serial != low->emit.serial) {
		t->serial = low->emit.serial;
		for (uint32_t p = 0; p < t->to.n; p++)
			t->arrival[p].n = 0;
	}
	return t->arrival;
}

static double micro_batch_samples(const struct mq_low *low)
{
	return low->train->batch / low->plan->micro_batches;
}

/* Uneven batch shares: this position's samples over the mean. */
static double unevenness(const struct mq_low *low, const struct mq_config *c, uint32_t p)
{
	uint32_t n = c->split[MQ_DIM_BATCH];

	return n == 1 ? 1 : mq_low_samples(low, c, p) * n / micro_batch_samples(low);
}

static const char *purpose_of(const struct mq_step *step)
{
	switch (step->role) {
	case MQ_ROLE_EXPERT:
		return "ep";
	case MQ_ROLE_BATCH:
		return "dp";
	default:
		return "tp";
	}
}

/* Tokens on their way to experts and back, beside another micro-batch, hold up nothing else. */
static enum mq_stream stream_of(const struct mq_low *low, const struct mq_step *step)
{
	return low->plan->overlap_experts && step->kind == MQ_COLL_ALL_TO_ALL && step->role == MQ_ROLE_EXPERT ?
		       MQ_STREAM_EXPERT :
		       MQ_STREAM_COMM;
}

/* One collective step over all groups along its factor; `state` holds what each position waits for. */
static void emit_step(struct mq_low *low, const struct mq_transfer *t, const struct mq_step *step,
		      const struct mq_config *c, struct mq_ids *state)
{
	uint32_t *member = mq_arena_array(&low->scratch, step->size, uint32_t);
	uint32_t *done = mq_arena_array(&low->scratch, step->size, uint32_t);
	struct mq_ids *after = mq_arena_array(&low->scratch, step->size, struct mq_ids);

	for (uint32_t p = 0; p < c->n_devices; p++) {
		uint32_t mine = p / step->stride % step->size, leader = p - mine * step->stride;
		bool first = mq_low_device(low, c, p) != MQ_NONE;

		/* The first simulated member speaks for its group. */
		for (uint32_t i = 0; first && i < mine; i++)
			first = mq_low_device(low, c, leader + i * step->stride) == MQ_NONE;
		if (!first)
			continue;
		double uneven = 0;
		for (uint32_t i = 0; i < step->size; i++) {
			uint32_t q = leader + i * step->stride;

			member[i] = c->device[q];
			after[i] = state[q];
			uneven = fmax(uneven, unevenness(low, c, q));
		}
		struct mq_coll_call call = {
			.kind = step->kind,
			.stream = stream_of(low, step),
			.member = member,
			.n = step->size,
			.bytes = step->fraction * t->elems * micro_batch_samples(low) * uneven *
				 mq_dtype_size(low->train->dtype),
			.dtype = low->train->dtype,
			.purpose = purpose_of(step),
			.op = t->op,
			.phase = t->channel || t->again ? MQ_BACKWARD : MQ_FORWARD,
		};
		mq_emit_collective(low, &call, after, done);
		for (uint32_t i = 0; i < step->size; i++) {
			struct mq_ids fresh = { 0 };

			mq_ids_add(low, &fresh, done[i]);
			state[leader + i * step->stride] = fresh;
		}
	}
}

static void emit_steps(struct mq_low *low, const struct mq_transfer *t, const struct mq_layout *to,
		       struct mq_ids *state)
{
	struct mq_conversion c = mq_layout_convert(&t->from, to);

	for (uint32_t i = 0; i < c.n_steps; i++)
		emit_step(low, t, &c.step[i], &low->plan->config[t->from_config], state);
}

/* One of `n` equal calls that make the only step of a transfer; its tasks join the arrivals. */
static void emit_part(struct mq_low *low, struct mq_transfer *t, const struct mq_ids *state, uint32_t n)
{
	const struct mq_config *c = &low->plan->config[t->from_config];
	struct mq_step step = mq_layout_convert(&t->from, &t->to).step[0];
	struct mq_ids *arrival = arrivals(low, t);
	struct mq_ids *done = mq_arena_array(&low->scratch, c->n_devices, struct mq_ids);

	for (uint32_t p = 0; p < c->n_devices; p++)
		done[p] = state[p];
	step.fraction /= n;
	emit_step(low, t, &step, c, done);
	for (uint32_t p = 0; p < c->n_devices; p++)
		for (uint32_t i = 0; i < done[p].n; i++)
			mq_ids_add(low, &arrival[p], done[p].id[i]);
}

/* What each position has computed so far; later pieces start new tasks. */
static struct mq_ids *seal(struct mq_low *low, const struct mq_transfer *t)
{
	const struct mq_config *c = &low->plan->config[t->from_config];
	struct mq_ids *state = mq_arena_array(&low->scratch, c->n_devices, struct mq_ids);

	for (uint32_t p = 0; p < c->n_devices; p++) {
		uint32_t device = mq_low_device(low, c, p);

		if (device != MQ_NONE)
			mq_ids_add(low, &state[p], mq_emit_seal(low, device));
	}
	return state;
}

void mq_transfer_emit_part(struct mq_low *low, uint32_t transfer, uint32_t k)
{
	struct mq_transfer *t = &low->moves.transfer[transfer];

	if (k == 0) /* recomputation makes the tensor anew */
		t->serial = 0;
	emit_part(low, t, seal(low, t), t->parts);
}

uint32_t mq_transfer_part(struct mq_low *low, uint32_t transfer, uint32_t p, uint32_t k)
{
	const struct mq_ids *a = &arrivals(low, &low->moves.transfer[transfer])[p];

	return k > 0 && k <= a->n ? a->id[k - 1] : MQ_NONE;
}

static uint32_t emit_receive(struct mq_low *low, const struct mq_message *m)
{
	const struct mq_transfer *t = &low->moves.transfer[m->transfer];
	struct mq_task task = { .device = m->dst,
				.kind = MQ_TASK_RECV,
				.stream = mq_low_receive(low, t->channel),
				.dtype = (uint8_t)low->train->dtype,
				.comm = MQ_NONE,
				.peer = m->src,
				.channel = t->channel,
				.op = t->op,
				.micro_batch = MQ_NONE,
				.phase = t->channel ? MQ_BACKWARD : MQ_FORWARD,
				.bytes = m->bytes };

	low->emit.owed_s[m->dst] += low->software->handshake_ms / 1e3;
	return mq_emit(low, &task, NULL);
}

static void gather(struct mq_low *low, struct mq_transfer *t)
{
	if (t->gather.size > 1)
		emit_step(low, t, &t->gather, &low->plan->config[t->to_config], arrivals(low, t));
}

/* The pass being built; that of the last micro-batch counts as any other. */
static uint32_t pass_now(const struct mq_low *low)
{
	uint32_t pass = (uint32_t)(low->emit.t - low->prog.pass) % MQ_N_PASSES;

	return pass == MQ_PASS_B_LAST ? MQ_PASS_B : pass;
}

/* What recomputation moves in the backward pass is received there too. */
static bool same_template(const struct mq_low *low, const struct mq_transfer *t)
{
	return (uint32_t)(low->emit.t - low->prog.pass) / MQ_N_PASSES == t->to_stage &&
	       (pass_now(low) == t->pass || !low->num.explicit_backward);
}

/* A message from position p of the producers to position q of the consumers. */
static void emit_message(struct mq_low *low, uint32_t transfer, const struct mq_ids *after, uint32_t p, uint32_t q,
			 double bytes)
{
	struct mq_transfer *t = &low->moves.transfer[transfer];
	const struct mq_config *from = &low->plan->config[t->from_config];
	const struct mq_config *to = &low->plan->config[t->to_config];
	struct mq_message m = { mq_low_device(low, from, p), mq_low_device(low, to, q), transfer, q, bytes };

	if (from->device[p] == to->device[q] || m.src == MQ_NONE || m.dst == MQ_NONE)
		return;
	struct mq_task task = { .device = m.src,
				.kind = MQ_TASK_SEND,
				.stream = mq_low_send(low, t->channel),
				.dtype = (uint8_t)low->train->dtype,
				.comm = MQ_NONE,
				.peer = m.dst,
				.channel = t->channel,
				.op = t->op,
				.micro_batch = MQ_NONE,
				.phase = t->channel ? MQ_BACKWARD : MQ_FORWARD,
				.bytes = bytes };
	low->emit.owed_s[m.src] += low->software->handshake_ms / 1e3;
	mq_emit(low, &task, after);
	if (same_template(low, t))
		mq_ids_add(low, &arrivals(low, t)[q], emit_receive(low, &m));
	else if ((uint32_t)(low->emit.t - low->prog.pass) % MQ_N_PASSES != MQ_PASS_B_LAST)
		MQ_PUSH(&low->scratch, low->moves.message, low->moves.n_messages, low->moves.message_room, m);
}

static void emit_pairs(struct mq_low *low, uint32_t transfer, const struct mq_ids *state)
{
	const struct mq_transfer *t = &low->moves.transfer[transfer];
	const struct mq_config *c = &low->plan->config[t->from_config];
	double part_B = t->share * t->elems * micro_batch_samples(low) * mq_dtype_size(low->train->dtype);

	for (uint32_t p = 0; p < t->to.n; p++)
		if (mq_low_device(low, c, p) != MQ_NONE)
			emit_message(low, transfer, &state[p], p, p, part_B * unevenness(low, c, p));
}

struct interval {
	double lo, hi;
};

/* Samples of a box, as an interval of the micro-batch. */
static struct interval samples_of(const struct mq_low *low, const struct mq_config *c, const struct mq_box *box)
{
	uint32_t n = c->split[MQ_DIM_BATCH];
	uint32_t per = box->n_batch > n ? box->n_batch / n : 1;
	double lo = 0, width;

	if (box->n_batch < n) /* the tensor is not divided along the batch here */
		return (struct interval){ 0, micro_batch_samples(low) };
	for (uint32_t i = 0; i < box->batch / per; i++)
		lo += mq_low_part(low, c, i);
	width = mq_low_part(low, c, box->batch / per) / per;
	lo += box->batch % per * width;
	return (struct interval){ lo, lo + width };
}

static double overlap(double a_lo, double a_hi, double b_lo, double b_hi)
{
	return fmax(0, fmin(a_hi, b_hi) - fmax(a_lo, b_lo));
}

struct part { /* of a tensor */
	struct mq_box box;
	struct interval samples;
};

/* What each position of a layout has. */
static struct part *held_of(struct mq_low *low, const struct mq_config *c, const struct mq_layout *layout)
{
	struct part *part = mq_arena_array(&low->scratch, layout->n, struct part);

	for (uint32_t p = 0; p < layout->n; p++) {
		part[p].box = mq_layout_box(layout, p);
		part[p].samples = samples_of(low, c, &part[p].box);
	}
	return part;
}

static double elems_in_both(const struct part *a, const struct part *b)
{
	return overlap(a->samples.lo, a->samples.hi, b->samples.lo, b->samples.hi) *
	       overlap(a->box.seq_lo, a->box.seq_hi, b->box.seq_lo, b->box.seq_hi) *
	       overlap(a->box.feature_lo, a->box.feature_hi, b->box.feature_lo, b->box.feature_hi);
}

static void emit_boxes(struct mq_low *low, uint32_t transfer, const struct mq_ids *state)
{
	const struct mq_transfer *t = &low->moves.transfer[transfer];
	const struct mq_config *a = &low->plan->config[t->from_config];
	const struct mq_config *b = &low->plan->config[t->to_config];
	struct mq_layout from = mq_layout_reduced(&t->from);
	uint32_t replicas = mq_layout_replicas(&from);
	double unit = t->elems * mq_dtype_size(low->train->dtype);
	const struct part *have = held_of(low, a, &from), *need = held_of(low, b, &t->to);

	for (uint32_t q = 0; q < t->to.n; q++) {
		uint32_t mine = MQ_NONE; /* a copy on the receiver itself spares the message */

		for (uint32_t p = 0; p < from.n && mine == MQ_NONE; p++)
			if (a->device[p] == b->device[q])
				mine = have[p].box.replica;
		if (mine == MQ_NONE)
			mine = q % replicas;
		for (uint32_t p = 0; p < from.n; p++) {
			if (have[p].box.replica != mine)
				continue;
			double bytes = unit * elems_in_both(&need[q], &have[p]);
			if (bytes > unit * 1e-9)
				emit_message(low, transfer, &state[p], p, q, bytes);
		}
	}
}

void mq_transfer_emit(struct mq_low *low, uint32_t transfer)
{
	struct mq_transfer *t = &low->moves.transfer[transfer];
	const struct mq_config *c = &low->plan->config[t->from_config];
	struct mq_ids *state = seal(low, t);

	if (mq_transfer_parts(&low->moves, transfer, true) > 1) {
		t->serial = 0;
		for (uint32_t k = 1; k < t->parts; k++)
			emit_part(low, t, state, t->parts - 1);
		return;
	}
	for (uint32_t p = 0; p < c->n_devices; p++) {
		uint32_t device = mq_low_device(low, c, p);

		/* Made by the forward pass, of which this template sees only that it is over. */
		if (device != MQ_NONE && t->pass == MQ_PASS_B && low->model->op[t->op].phase == MQ_FORWARD &&
		    low->num.explicit_backward)
			mq_ids_add(low, &state[p], MQ_DEP_STREAM(MQ_STREAM_COMPUTE));
	}
	if (t->way == MQ_WAY_STEPS) {
		emit_steps(low, t, &t->to, state);
		struct mq_ids *arrival = arrivals(low, t);
		for (uint32_t p = 0; p < c->n_devices; p++)
			arrival[p] = state[p];
		return;
	}
	struct mq_layout whole = mq_layout_reduced(&t->from);
	emit_steps(low, t, t->way == MQ_WAY_PAIRS ? &t->sent : &whole, state);
	arrivals(low, t);
	if (t->way == MQ_WAY_PAIRS)
		emit_pairs(low, transfer, state);
	else
		emit_boxes(low, transfer, state);
	if (same_template(low, t))
		gather(low, t);
}

void mq_transfer_emit_again(struct mq_low *low, uint32_t transfer)
{
	low->moves.transfer[transfer].again = true;
	mq_transfer_emit(low, transfer);
	low->moves.transfer[transfer].again = false;
}

void mq_transfer_receive(struct mq_low *low, uint32_t stage, enum mq_pass pass)
{
	uint8_t want = pass == MQ_PASS_B_LAST ? MQ_PASS_B : (uint8_t)pass;

	for (uint32_t i = 0; i < low->moves.n_messages; i++) {
		const struct mq_message *m = &low->moves.message[i];
		struct mq_transfer *t = &low->moves.transfer[m->transfer];

		if (t->to_stage != stage || t->pass != want)
			continue;
		mq_ids_add(low, &arrivals(low, t)[m->position], emit_receive(low, m));
		bool last = i + 1 == low->moves.n_messages || low->moves.message[i + 1].transfer != m->transfer;
		if (last)
			gather(low, t);
	}
}

void mq_transfer_arrival(struct mq_low *low, uint32_t transfer, uint32_t p, struct mq_ids *ids)
{
	struct mq_transfer *t = &low->moves.transfer[transfer];

	/* Received in the forward pass, perhaps for it too: all that came then must be there. */
	if (low->num.explicit_backward && pass_now(low) == MQ_PASS_B && t->pass == MQ_PASS_F) {
		if (t->way != MQ_WAY_STEPS)
			mq_ids_add(low, ids, MQ_DEP_STREAM(mq_low_receive(low, t->channel)));
		if (t->way == MQ_WAY_STEPS || t->gather.size > 1)
			mq_ids_add(low, ids, MQ_DEP_STREAM(MQ_STREAM_COMM));
		return;
	}
	if (t->way == MQ_WAY_STEPS && t->from_stage != t->to_stage) {
		/* Two stages on the same devices, as where a V schedule turns round: another template has made it. */
		mq_ids_add(low, ids, MQ_DEP_STREAM(MQ_STREAM_COMM));
		if (low->plan->overlap_experts)
			mq_ids_add(low, ids, MQ_DEP_STREAM(MQ_STREAM_EXPERT));
		return;
	}
	const struct mq_ids *a = &arrivals(low, t)[p];

	for (uint32_t i = 0; i < a->n; i++)
		mq_ids_add(low, ids, a->id[i]);
}
