/* transfer_emit.c - emits the messages and collectives of the transfers that transfer.c plans.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "lowering/program.h"

static const struct mq_seats *seats_from(const struct mq_low *low, const struct mq_transfer *t)
{
	return mq_low_seats(low, &low->plan->config[t->from_config]);
}

static struct mq_ids *arrivals(struct mq_low *low, struct mq_transfer *t)
{
	uint32_t n = mq_low_seats(low, &low->plan->config[t->to_config])->n;

	if (!t->arrival)
		t->arrival = mq_arena_array(&low->scratch, n, struct mq_ids);
	for (uint32_t s = 0; s < n && t->serial != low->emit.serial; s++)
		t->arrival[s].n = 0;
	t->serial = low->emit.serial;
	return t->arrival;
}

static double micro_batch_samples(const struct mq_low *low)
{
	return low->train->batch / low->plan->micro_batches;
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

/* One collective step over all groups along its factor; state: the tasks that each seat waits for. */
static void emit_step(struct mq_low *low, const struct mq_transfer *t, const struct mq_step *step,
		      const struct mq_config *c, struct mq_ids *state)
{
	/* Tokens on their way to experts and back, beside another micro-batch, are in nobody's way. */
	bool beside = low->plan->overlap_experts && step->kind == MQ_COLL_ALL_TO_ALL && step->role == MQ_ROLE_EXPERT;
	const struct mq_groups *groups = mq_groups_of(low, &(struct mq_group_request){ .config = c,
										       .stride = step->stride,
										       .size = step->size,
										       .apart = beside,
										       .purpose = purpose_of(step) });
	const struct mq_seats *seats = mq_low_seats(low, c);
	uint32_t *done = mq_arena_array(&low->scratch, seats->n, uint32_t);
	struct mq_ids *after = mq_arena_array(&low->scratch, seats->n, struct mq_ids);

	for (uint32_t k = 0; k < groups->n; k++) {
		const struct mq_group *g = &groups->group[k];
		struct mq_coll_call call = {
			.kind = step->kind,
			.stream = beside ? MQ_STREAM_EXPERT : MQ_STREAM_COMM,
			.seats = seats,
			.bytes = step->fraction * t->elems * micro_batch_samples(low) * g->fullest * t->elem_B,
			.dtype = low->train->dtype,
			.op = t->op,
			.phase = t->channel || t->again ? MQ_BACKWARD : MQ_FORWARD,
		};

		for (uint32_t i = 0; i < g->n_seats; i++)
			after[i] = state[g->seat[i]];
		mq_emit_collective(low, &call, g, after, done);
		for (uint32_t i = 0; i < g->n_seats; i++) {
			struct mq_ids fresh = { 0 };

			mq_ids_add(low, &fresh, done[i]);
			state[g->seat[i]] = fresh;
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
	struct mq_step step = t->only;
	struct mq_ids *arrival = arrivals(low, t);
	uint32_t seats = seats_from(low, t)->n;
	struct mq_ids *done = mq_arena_array(&low->scratch, seats, struct mq_ids);

	for (uint32_t s = 0; s < seats; s++)
		done[s] = state[s];
	step.fraction /= n;
	emit_step(low, t, &step, &low->plan->config[t->from_config], done);
	for (uint32_t s = 0; s < seats; s++)
		mq_ids_join(low, &arrival[s], &done[s]);
}

/* The last compute task of each seat; later pieces start new tasks. */
static struct mq_ids *seal(struct mq_low *low, const struct mq_transfer *t)
{
	const struct mq_seats *seats = seats_from(low, t);
	struct mq_ids *state = mq_arena_array(&low->scratch, seats->n, struct mq_ids);

	for (uint32_t s = 0; s < seats->n; s++)
		mq_ids_add(low, &state[s], mq_emit_seal(low, seats->device[s]));
	return state;
}

void mq_transfer_emit_part(struct mq_low *low, uint32_t transfer, uint32_t k)
{
	struct mq_transfer *t = &low->moves.transfer[transfer];

	if (k == 0) /* recomputation makes a new tensor */
		t->serial = 0;
	emit_part(low, t, seal(low, t), t->parts);
}

uint32_t mq_transfer_part(struct mq_low *low, uint32_t transfer, uint32_t seat, uint32_t k)
{
	const struct mq_ids *a = &arrivals(low, &low->moves.transfer[transfer])[seat];

	return k > 0 && k <= a->n ? a->id[k - 1] : MQ_NONE;
}

/* The message's task on its sender, or on its receiver. */
static uint32_t emit_end(struct mq_low *low, const struct mq_message *m, enum mq_task_kind kind,
			 const struct mq_ids *after)
{
	const struct mq_transfer *t = &low->moves.transfer[m->transfer];
	bool sends = kind == MQ_TASK_SEND;
	struct mq_task task = mq_task_of(kind, sends ? m->src : m->dst, mq_low_stream(low, t, kind), t->op,
					 t->channel ? MQ_BACKWARD : MQ_FORWARD);

	task.peer = sends ? m->dst : m->src;
	task.dtype = (uint8_t)low->train->dtype;
	task.channel = t->channel;
	task.bytes = m->bytes;
	low->emit.owed_s[task.device] += low->software->handshake_ms / 1e3;
	return mq_emit(low, &task, after);
}

static void gather(struct mq_low *low, struct mq_transfer *t)
{
	if (t->gather.size > 1)
		emit_step(low, t, &t->gather, &low->plan->config[t->to_config], arrivals(low, t));
}

/* The current pass. */
static enum mq_pass pass_now(const struct mq_low *low)
{
	return (enum mq_pass)((uint32_t)(low->emit.t - low->prog.pass) % MQ_N_PASSES);
}

/* Transfers repeated by recomputation are received in the backward pass. */
static bool same_template(const struct mq_low *low, const struct mq_transfer *t)
{
	return (uint32_t)(low->emit.t - low->prog.pass) / MQ_N_PASSES == t->to_stage &&
	       (mq_pass_kind(pass_now(low)) == t->pass || !low->num.explicit_backward);
}

/* A message from a seat of the producers to position q of the consumers. */
static void emit_message(struct mq_low *low, uint32_t transfer, const struct mq_ids *after, uint32_t from, uint32_t q,
			 double bytes)
{
	struct mq_transfer *t = &low->moves.transfer[transfer];
	const struct mq_seats *to = mq_low_seats(low, &low->plan->config[t->to_config]);
	struct mq_message m = { seats_from(low, t)->device[from], MQ_NONE, transfer, to->at[q], bytes };

	if (m.seat != MQ_NONE)
		m.dst = to->device[m.seat];
	if (m.dst == MQ_NONE || m.src == m.dst)
		return;
	emit_end(low, &m, MQ_TASK_SEND, after);
	if (same_template(low, t))
		mq_ids_add(low, &arrivals(low, t)[m.seat], emit_end(low, &m, MQ_TASK_RECV, NULL));
	else if (mq_pass_kind(pass_now(low)) == pass_now(low)) /* the same for all micro-batches */
		MQ_PUSH(&low->scratch, low->moves.message, low->moves.n_messages, low->moves.message_room, m);
}

static void emit_pairs(struct mq_low *low, uint32_t transfer, const struct mq_ids *state)
{
	const struct mq_transfer *t = &low->moves.transfer[transfer];
	const struct mq_config *c = &low->plan->config[t->from_config];
	const struct mq_seats *seats = seats_from(low, t);
	double part_B = t->share * t->elems * micro_batch_samples(low) * mq_dtype_size(low->train->dtype);

	for (uint32_t s = 0; s < seats->n; s++) {
		uint32_t p = seats->position[s], n = c->split[MQ_DIM_BATCH];
		/* Uneven batch shares: this position's samples / the mean. */
		double share = n == 1 ? 1 : mq_low_samples(low, c, p) * n / micro_batch_samples(low);

		emit_message(low, transfer, &state[s], s, p, part_B * share);
	}
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

	if (box->n_batch < n) /* the tensor is not split along the batch here */
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

struct part { /* a part of a tensor */
	struct mq_box box;
	struct interval samples;
};

/* The part of each position of a layout. */
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
		uint32_t mine = MQ_NONE; /* no message if the receiver has a replica */

		for (uint32_t p = 0; p < from.n && mine == MQ_NONE; p++)
			if (a->device[p] == b->device[q])
				mine = have[p].box.replica;
		if (mine == MQ_NONE)
			mine = q % replicas;
		for (uint32_t p = 0; p < from.n; p++) {
			if (have[p].box.replica != mine)
				continue;
			double bytes = unit * elems_in_both(&need[q], &have[p]);
			if (bytes > unit * 1e-9) /* without folding all have seats */
				emit_message(low, transfer, &state[p], p, q, bytes);
		}
	}
}

void mq_transfer_emit(struct mq_low *low, uint32_t transfer)
{
	struct mq_transfer *t = &low->moves.transfer[transfer];
	uint32_t seats = seats_from(low, t)->n;
	struct mq_ids *state = seal(low, t);

	if (mq_transfer_parts(&low->moves, transfer, true) > 1) {
		t->serial = 0;
		for (uint32_t k = 1; k < t->parts; k++)
			emit_part(low, t, state, t->parts - 1);
		return;
	}
	/* Made by the forward pass, which this template only knows to be over. */
	if (t->pass == MQ_PASS_B && low->model->op[t->op].phase == MQ_FORWARD && low->num.explicit_backward)
		for (uint32_t s = 0; s < seats; s++)
			mq_ids_add(low, &state[s], MQ_DEP_STREAM(MQ_STREAM_COMPUTE));
	if (t->way == MQ_WAY_STEPS) {
		emit_steps(low, t, &t->to, state);
		struct mq_ids *arrival = arrivals(low, t);
		for (uint32_t s = 0; s < seats; s++)
			arrival[s] = state[s];
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
	/* [sending transfer] the received one, which uses its messages */
	uint32_t *comes = mq_arena_none(&low->scratch, low->moves.n);

	for (uint32_t i = 0; i < low->moves.n; i++) {
		const struct mq_transfer *t = &low->moves.transfer[i];

		if (t->to_stage == stage && t->pass == mq_pass_kind(pass))
			comes[t->like] = i;
	}
	for (uint32_t i = 0; i < low->moves.n_messages; i++) {
		struct mq_message m = low->moves.message[i];
		uint32_t sent = m.transfer;

		m.transfer = comes[sent];
		if (m.transfer == MQ_NONE)
			continue;
		struct mq_transfer *t = &low->moves.transfer[m.transfer];
		mq_ids_add(low, &arrivals(low, t)[m.seat], emit_end(low, &m, MQ_TASK_RECV, NULL));
		bool last = i + 1 == low->moves.n_messages || low->moves.message[i + 1].transfer != sent;
		if (last)
			gather(low, t);
	}
}

void mq_transfer_arrival(struct mq_low *low, uint32_t transfer, uint32_t seat, struct mq_ids *ids)
{
	struct mq_transfer *t = &low->moves.transfer[transfer];

	/* Received in the forward pass: waits for all messages of that pass. */
	if (low->num.explicit_backward && mq_pass_kind(pass_now(low)) == MQ_PASS_B && t->pass == MQ_PASS_F) {
		if (t->way != MQ_WAY_STEPS)
			mq_ids_add(low, ids, MQ_DEP_STREAM(mq_low_stream(low, t, MQ_TASK_RECV)));
		if (t->way == MQ_WAY_STEPS || t->gather.size > 1)
			mq_ids_add(low, ids, MQ_DEP_STREAM(MQ_STREAM_COMM));
		return;
	}
	if (t->way == MQ_WAY_STEPS && t->from_stage != t->to_stage) {
		/* Two stages on the same devices, as at the bottom of a V schedule: another template has made it. */
		mq_ids_add(low, ids, MQ_DEP_STREAM(MQ_STREAM_COMM));
		if (low->plan->overlap_experts)
			mq_ids_add(low, ids, MQ_DEP_STREAM(MQ_STREAM_EXPERT));
		return;
	}
	mq_ids_join(low, ids, &arrivals(low, t)[seat]);
}
