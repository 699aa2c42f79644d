/* transfer.c - plans the transfers of tensors between the layouts of producers and consumers. See program.h;
 * transfer_emit.c emits their tasks.
 *
 * Consumers that need the same layout on the same devices share one transfer. Forward, a transfer starts as soon as its
 * tensor is computed. Backward, the gradients of all consumers with the same layout are summed first, so that one
 * reduction serves them all (qkv, gate and up, residual branches).
 *
 * A boundary between devices with equal splits is a set of pairs; if both sides are replicated along one factor, each
 * replica sends its part and the receivers gather (Megatron's scatter/gather, Narayanan et al. 2021, section 4.1). The
 * same holds if partial sums or replicas on one side become parts of the sequence or the features on the other (an
 * embedding alone on its stage under sequence parallelism): parts are sent, after a reduction of the senders or before
 * a gather of the receivers. All other boundaries send the intersections of both sides' parts, from the replica with
 * the receiver's index.
 *
 * In a graph with explicit backward ops, a forward tensor that a backward op needs on other devices is sent as soon as
 * it is computed, if the consumer's stage is not before its own: the consumer's forward pass receives it. Earlier
 * stages have finished their forward pass by then: their backward pass receives it from the producer's.
 *
 * Not modelled: combining small messages of different tensors. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "lowering/program.h"

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

/* Do the steps only reduce partial sums? */
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

/* Messages from position to position, if possible: fills `sent`, `share` and `gather`. */
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
	t->share = 1; /* the part of the tensor at a position */
	for (uint32_t i = 0; i < t->sent.n_factors; i++)
		if (t->sent.role[i] != MQ_ROLE_REPLICA)
			t->share /= t->sent.size[i];
	return true;
}

/* The way of a transfer, and its only step, if it has just one. Shares are equal if even, or the same uneven ones. */
static enum mq_way way_of(const struct mq_low *low, struct mq_transfer *t)
{
	const struct mq_config *a = &low->plan->config[t->from_config];
	const struct mq_config *b = &low->plan->config[t->to_config];

	if (low->num.devset_of[t->from_config] == low->num.devset_of[t->to_config]) {
		struct mq_conversion c = mq_layout_convert(&t->from, &t->to);

		if (!c.possible || !same_shares(a, b))
			return MQ_WAY_BOXES;
		if (c.n_steps == 1)
			t->only = c.step[0];
		return MQ_WAY_STEPS;
	}
	return pair_up(low, t) ? MQ_WAY_PAIRS : MQ_WAY_BOXES;
}

/* The replica factor along which the receivers can gather, if there is exactly one. */
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

/* Number of machines of the first expert-parallel group. */
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

/* Number of `places`, over which the experts are divided evenly in order, that a token visits: with balanced routing to
 * k experts p (1 - (1 - 1/p)^k). If the k lie in g of G groups (DeepSeek-V2, -V3: node-limited routing), a place with
 * q = G/p groups has j of the chosen ones with hypergeometric probability, and is then visited with 1 - (1 - j/g)^k; a
 * place with a part of a group likewise. */
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

/* The share of a token's copies that is sent: one per rank that it visits; between machines one per
 * machine, forwarded inside. */
static double merged(const struct mq_low *low, const struct mq_config *c)
{
	double ep = c->split[MQ_DIM_EXPERT], k = low->model->top_k, machines;

	if (!low->software->deepep || !(ep > 1 && k > 1))
		return 1;
	machines = machines_of_experts(low, c);
	if (machines > 1)
		ep = machines;
	return visited(low->model, ep) / k;
}

/* Elements of an edge on the wire: to experts, those of the fullest rank. */
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

/* Plans the transfers of an op's output; consumers share those already planned. */
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

/* Number of tensor-parallel reductions of this GEMM's input gradient: gate and up are one GEMM here, but software may
 * have two and reduce for each. */
static double sums(const struct mq_low *low, uint32_t product, const struct mq_transfer *t)
{
	const struct mq_model *m = low->model;
	struct mq_conversion c = mq_layout_convert(&t->from, &t->to);

	if (!low->software->separate_input_grad_reduce || c.n_steps != 1 || c.step[0].kind != MQ_COLL_ALL_REDUCE)
		return 1;
	MQ_EACH_OUT(m, product, e)
		if (m->op[e->dst].gated)
			return 2;
	return 1;
}

/* Plans the transfers of an op's output gradient; consumers with the same layout of dX sum their gradients first. */
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

enum { MOST_PARTS = 64 }; /* most tensor-parallel ranks for which software splits a GEMM */

/* Is the op a GEMM of a layer, which the software splits? */
static bool splits(const struct mq_low *low, uint32_t op)
{
	return low->model->op[op].kind == MQ_OP_GEMM && low->model->op[op].layer != MQ_NONE &&
	       mq_duplicates(low, op) == 1;
}

/* Does the op multiply quantized operands? */
static bool quantizes(const struct mq_low *low, uint32_t op)
{
	return mq_op_gemm_dtype(&low->model->op[op], low->train) != MQ_GEMM_AS_DTYPE &&
	       low->software->save_quantized_operands && splits(low, op);
}

/* Are all consumers of a transfer such ops; backward the op whose output gradient it is? */
static bool all_takers(const struct mq_low *low, uint32_t transfer, bool such(const struct mq_low *low, uint32_t op))
{
	const struct mq_transfer *t = &low->moves.transfer[transfer];

	MQ_EACH_OUT(low->model, t->op, e)
		if (!t->channel && low->moves.edge_forward[e - low->model->edge] == transfer && !such(low, e->dst))
			return false;
	return !t->channel || such(low, t->op);
}

/* Is the transfer exactly this collective? */
static bool is_only(const struct mq_transfer *t, enum mq_coll_kind kind)
{
	return t->only.size && t->from_stage == t->to_stage && t->only.kind == kind;
}

static bool gathers_sequence(const struct mq_transfer *t)
{
	return is_only(t, MQ_COLL_ALL_GATHER) && t->only.role == MQ_ROLE_SEQ;
}

bool mq_transfer_gathers_sequence(const struct mq_moves *moves, uint32_t transfer)
{
	return !moves->transfer[transfer].channel && gathers_sequence(&moves->transfer[transfer]);
}

bool mq_transfer_sums(const struct mq_moves *moves, uint32_t transfer)
{
	return moves->transfer[transfer].channel && is_only(&moves->transfer[transfer], MQ_COLL_ALL_REDUCE);
}

bool mq_transfer_here(const struct mq_low *low, uint32_t transfer)
{
	return low->moves.transfer[transfer].serial == low->emit.serial;
}

/* An input is gathered from n ranks in n - 1 calls: each brings 1/(n - 1) of the others' data while the GEMM runs
 * on the present part, its own first, so that of n equal parts all except the first wait for one call each. An
 * output is scattered in n calls, each after its part of the GEMM; backward the weight gradient overlaps the
 * scattering, see passes.c. */
static uint32_t parts_of(const struct mq_low *low, uint32_t transfer)
{
	const struct mq_transfer *t = &low->moves.transfer[transfer];
	bool only = low->moves.out_first[t->op + 1] == low->moves.out_first[t->op] + 1;
	bool parts = (is_only(t, MQ_COLL_ALL_GATHER) && all_takers(low, transfer, splits)) ||
		     (is_only(t, MQ_COLL_REDUCE_SCATTER) && !t->channel && only && splits(low, t->op));

	return parts && t->only.size <= MOST_PARTS ? t->only.size : 1;
}

/* Bytes of an element on the wire. Inputs read only by quantized GEMMs are gathered along the sequence in the GEMM's
 * type, if the software does so (Transformer Engine: gather_along_first_dim of the outputs of norms and casts; norms
 * that adapters read too write 16 bits, return_layernorm_output_gathered). */
static double elem_B(const struct mq_low *low, uint32_t transfer)
{
	const struct mq_transfer *t = &low->moves.transfer[transfer];
	bool few = gathers_sequence(t) && all_takers(low, transfer, quantizes);

	MQ_EACH_OUT(low->model, t->op, e)
		few &= t->channel || !low->model->op[e->dst].adapter;
	return mq_operand_B(few ? low->train->gemm_dtype : MQ_GEMM_AS_DTYPE, low->train->dtype);
}

uint32_t mq_transfer_parts(const struct mq_moves *moves, uint32_t transfer, bool gather)
{
	const struct mq_transfer *t = &moves->transfer[transfer];

	return is_only(t, gather ? MQ_COLL_ALL_GATHER : MQ_COLL_REDUCE_SCATTER) ? t->parts : 1;
}

void mq_transfers_plan(struct mq_low *low)
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
	for (uint32_t t = 0; t < low->moves.n; t++) {
		low->moves.transfer[t].parts = low->plan->overlap_tp ? parts_of(low, t) : 1;
		low->moves.transfer[t].elem_B = elem_B(low, t);
	}
}
