/* pipeline.c - the order of a pipeline rank's passes over its micro-batches.
 *
 *   gpipe        all forwards, then all backwards (Huang et al. 2019)
 *   1f1b         PipeDream-flush (Narayanan et al. 2021): P-1-r forwards, then one of each
 *   interleaved  v chunks per rank, micro-batches in groups of P (Megatron-LM, Narayanan et al. 2021)
 *                If forward and backward passes alternate (overlap_experts), each rank is one forward pass
 *                further ahead, so that the two are of different micro-batches
 *   zb-h1        1f1b with separate weight gradients; rank r defers r of them, which keeps the number of
 *                micro-batches in flight at P and fills the last bubble (Qi et al. 2024)
 *   zbv          two chunks per rank in a V, with separate weight gradients. Rank r begins with
 *                2(P - r) - 1 forwards of its first chunk; then the chunks alternate, each backward followed
 *                by its weight gradients, until the drain (Qi et al. 2024, section 6)
 *   dualpipe-v   the same two chunks in the order of DeepSeek's DualPipe cut in half: in the steady state a
 *                forward of one chunk is next to a backward of the other, and alternates with it under
 *                overlap_experts; weight gradients are separate only where they fill a bubble
 *
 * Each order is free of deadlock if a pass only waits for its input and for the previous pass: tests check 1 to 64
 * ranks. So is the schedule, since messages add no wait: between two ranks, messages of one chunk and one direction
 * have their own stream at both ends (numbering.c), in the order of micro-batches at both.
 * SPDX-License-Identifier: Apache-2.0 */

#include "lowering/program.h"

struct list {
	struct mq_slot *slot;
	uint32_t n;
};

static void add(struct list *l, enum mq_pass pass, uint32_t chunk, uint32_t micro_batch)
{
	l->slot[l->n++] = (struct mq_slot){ (uint8_t)pass, false, chunk, micro_batch };
}

/* Under overlap_experts, the last added forward pass and the next backward pass alternate. */
static void take_turns(struct list *l, bool overlap)
{
	l->slot[l->n - 1].turns = overlap;
}

/* The k-th forward (or backward) of an interleaved rank, in Megatron's order: groups of P micro-batches pass
 * through all chunks. */
static void add_interleaved(struct list *l, enum mq_pass pass, uint32_t k, uint32_t p, uint32_t v)
{
	uint32_t chunk = k % (p * v) / p;

	add(l, pass, pass == MQ_PASS_F ? chunk : v - 1 - chunk, k / (p * v) * p + k % p);
}

static void interleaved(struct list *l, uint32_t p, uint32_t r, uint32_t v, uint32_t m, uint32_t ahead)
{
	uint32_t total = m * v, warm = (p - r - 1) * 2 + (v - 1) * p + ahead;

	if (warm > total)
		warm = total;
	for (uint32_t k = 0; k < warm; k++)
		add_interleaved(l, MQ_PASS_F, k, p, v);
	for (uint32_t k = warm; k < total; k++) {
		add_interleaved(l, MQ_PASS_F, k, p, v);
		take_turns(l, ahead);
		add_interleaved(l, MQ_PASS_B, k - warm, p, v);
	}
	for (uint32_t k = total - warm; k < total; k++)
		add_interleaved(l, MQ_PASS_B, k, p, v);
}

static void one_f_one_b(struct list *l, uint32_t p, uint32_t r, uint32_t m, bool zero_bubble, uint32_t ahead)
{
	uint32_t warm = p - 1 - r + ahead < m ? p - 1 - r + ahead : m, w = 0;

	for (uint32_t i = 0; i < warm; i++)
		add(l, MQ_PASS_F, 0, i);
	for (uint32_t i = 0; i < m; i++) {
		if (i + warm < m) {
			add(l, MQ_PASS_F, 0, i + warm);
			take_turns(l, ahead);
		}
		add(l, MQ_PASS_B, 0, i);
		if (zero_bubble && i >= r)
			add(l, MQ_PASS_W, 0, w++);
	}
	while (zero_bubble && w < m)
		add(l, MQ_PASS_W, 0, w++);
}

/* ---- V schedules: chunk 0 on the way there, chunk 1 on the way back --------------------------------- */

/* Progress of each pass of each chunk, and deferred weight gradients in order. */
struct v_counts {
	struct list *l;
	uint32_t m, f[2], b[2];
	struct mq_slot *later;
	uint32_t n_later, done_later;
};

/* Skips micro-batches that do not exist: short batches follow the order of long ones. */
static void v_add(struct v_counts *c, enum mq_pass pass, uint32_t chunk, uint32_t micro_batch)
{
	if (micro_batch < c->m)
		add(c->l, pass, chunk, micro_batch);
}

static void v_forward(struct v_counts *c, uint32_t chunk)
{
	v_add(c, MQ_PASS_F, chunk, c->f[chunk]++);
}

/* A backward with its weight gradients right after it, or deferred. */
static void v_backward(struct v_counts *c, uint32_t chunk, bool whole)
{
	uint32_t i = c->b[chunk]++;

	v_add(c, MQ_PASS_B, chunk, i);
	if (whole)
		v_add(c, MQ_PASS_W, chunk, i);
	else
		c->later[c->n_later++] = (struct mq_slot){ .chunk = chunk, .micro_batch = i };
}

/* The oldest deferred weight gradients. */
static void v_weights(struct v_counts *c)
{
	const struct mq_slot *w = &c->later[c->done_later++];

	v_add(c, MQ_PASS_W, w->chunk, w->micro_batch);
}

static void zbv(struct v_counts *c, uint32_t p, uint32_t r)
{
	uint32_t m = c->m > 2 * p - 1 ? c->m : 2 * p - 1;

	for (uint32_t i = 0; i < 2 * (p - r) - 1; i++)
		v_forward(c, 0);
	for (uint32_t i = 0; i < r; i++) {
		v_forward(c, 1);
		v_forward(c, 0);
	}
	for (uint32_t i = 0; i < p - r; i++) {
		v_forward(c, 1);
		v_backward(c, 1, true);
	}
	while (c->f[1] < m) {
		v_forward(c, 0);
		v_backward(c, 0, true);
		v_forward(c, 1);
		v_backward(c, 1, true);
	}
	uint32_t w[2] = { c->b[0], c->b[1] };
	for (uint32_t i = 0; i < r; i++) {
		v_backward(c, 0, false);
		v_backward(c, 1, false);
	}
	for (uint32_t i = 0; i < p - r; i++) {
		v_backward(c, 0, false);
		v_add(c, MQ_PASS_W, 0, w[0]++);
	}
	for (uint32_t chunk = 2; chunk--;)
		while (w[chunk] < c->b[chunk])
			v_add(c, MQ_PASS_W, chunk, w[chunk]++);
}

/* A forward of one chunk next to a whole backward of the other. */
static void v_pair(struct v_counts *c, uint32_t forward, bool turns)
{
	v_forward(c, forward);
	take_turns(c->l, turns);
	v_backward(c, !forward, true);
}

static void dualpipe_v(struct v_counts *c, uint32_t p, uint32_t r, bool turns)
{
	for (uint32_t i = 0; i < 2 * (p - r - 1); i++)
		v_forward(c, 0);
	for (uint32_t i = 0; i <= r; i++) {
		v_forward(c, 0);
		v_forward(c, 1);
	}
	for (uint32_t i = 0; i < p - r - 1; i++) {
		v_backward(c, 1, true);
		v_forward(c, 1);
	}
	for (uint32_t i = 0; i < c->m - 2 * p + r + 1; i++) {
		/* at the bottom of the V, the first two would wait for each other's tokens */
		v_pair(c, 0, turns && (i || r + 1 < p));
		v_pair(c, 1, turns);
	}
	for (uint32_t i = 0; i < p - r - 1; i++) {
		v_backward(c, 1, true);
		v_pair(c, 1, turns);
	}
	for (uint32_t i = 0; i <= r; i++) { /* the second half defers weight gradients to the drain */
		uint32_t k = 2 * i;

		v_backward(c, 1, k < r + 1);
		v_backward(c, 0, k + 1 < r + 1);
	}
	for (uint32_t i = 0; i < p - r - 1; i++) {
		v_weights(c);
		v_backward(c, 0, false);
	}
	while (c->done_later < c->n_later)
		v_weights(c);
}

/* ---- kinds -------------------------------------------------------------------------------------------- */

/* What one rank runs: `plan` on n_ranks of them. */
struct order {
	struct list l;
	struct v_counts v;
	const struct mq_plan *plan;
	uint32_t p, r;
};

static void order_gpipe(struct order *o)
{
	for (uint32_t i = 0; i < o->plan->micro_batches; i++)
		add(&o->l, MQ_PASS_F, 0, i);
	for (uint32_t i = 0; i < o->plan->micro_batches; i++)
		add(&o->l, MQ_PASS_B, 0, i);
}

static void order_1f1b(struct order *o)
{
	one_f_one_b(&o->l, o->p, o->r, o->plan->micro_batches, false, o->plan->overlap_experts);
}

static void order_interleaved(struct order *o)
{
	if (o->plan->virtual == 1)
		order_1f1b(o);
	else
		interleaved(&o->l, o->p, o->r, o->plan->virtual, o->plan->micro_batches, o->plan->overlap_experts);
}

static void order_zb_h1(struct order *o)
{
	one_f_one_b(&o->l, o->p, o->r, o->plan->micro_batches, true, o->plan->overlap_experts);
}

static void order_zbv(struct order *o)
{
	zbv(&o->v, o->p, o->r);
}

static void order_dualpipe_v(struct order *o)
{
	dualpipe_v(&o->v, o->p, o->r, o->plan->overlap_experts);
}

static void (*const order_of[MQ_N_PIPELINES])(struct order *) = {
	[MQ_PIPE_GPIPE] = order_gpipe, [MQ_PIPE_1F1B] = order_1f1b, [MQ_PIPE_INTERLEAVED] = order_interleaved,
	[MQ_PIPE_ZB_H1] = order_zb_h1, [MQ_PIPE_ZBV] = order_zbv,   [MQ_PIPE_DUALPIPE_V] = order_dualpipe_v,
};

/* Forward passes alone. */
static void order_infer(struct order *o)
{
	uint32_t v = o->plan->virtual;

	if (!mq_pipeline_is_v(o->plan->pipeline)) {
		for (uint32_t i = 0; i < o->plan->micro_batches * v; i++)
			add_interleaved(&o->l, MQ_PASS_F, i, v > 1 ? o->p : 1, v);
		return;
	}
	for (uint32_t i = 0; i < 2 * (o->p - o->r) - 1; i++) /* far enough ahead that the second chunk never waits */
		v_forward(&o->v, 0);
	while (o->v.f[1] < o->v.m) {
		v_forward(&o->v, 1);
		v_forward(&o->v, 0);
	}
}

struct mq_slot *mq_pipeline_order(const struct mq_plan *plan, uint32_t n_ranks, uint32_t rank, bool infer,
				  struct mq_arena *arena, uint32_t *n, char message[256])
{
	uint32_t m = plan->micro_batches;
	struct order o = { .plan = plan, .p = n_ranks, .r = rank };

	if (!mq_pipeline_deals(plan->pipeline, n_ranks, plan->virtual, m, infer, message))
		return NULL;
	o.l.slot = mq_arena_array(arena, (size_t)m * plan->virtual * 3, struct mq_slot);
	o.v = (struct v_counts){ .l = &o.l, .m = m };
	if (mq_pipeline_is_v(plan->pipeline))
		o.v.later = mq_arena_array(arena, (size_t)m * 2 + 2 * n_ranks, struct mq_slot);
	if (infer)
		order_infer(&o);
	else
		order_of[plan->pipeline](&o);
	*n = o.l.n;
	return o.l.slot;
}

/* ---- templates of a rank's passes ------------------------------------------------------------------ */

/* Index in mq_program.pass of a slot's template in a rank's order. */
static uint32_t template_of(const struct mq_low *low, const struct mq_slot *slot, uint32_t rank, uint32_t micro_batches)
{
	bool last = slot->micro_batch + 1 == micro_batches;
	uint32_t pass = slot->pass, stage = mq_low_stage(low, rank, slot->chunk);

	if (pass != MQ_PASS_F && last)
		pass = pass == MQ_PASS_B ? MQ_PASS_B_LAST : MQ_PASS_W_LAST;
	else if (pass == MQ_PASS_B && slot->micro_batch < low->prog.firsts[stage])
		pass = MQ_PASS_B_FIRST;
	else if (pass == MQ_PASS_F && slot->micro_batch == 0 && mq_sync_gathers_first(low, stage))
		pass = MQ_PASS_F_FIRST;
	return mq_low_template(low, stage, pass);
}

/* The template of a slot; called for a rank's slots in order. *reducing: a template so far overlaps compute with
 * gathering of parameters or reduction of gradients; false again after F_FIRST of the last chunk, which waits for the
 * last parameters. */
static const struct mq_template *template_at(const struct mq_low *low, const struct mq_slot *slot, uint32_t index,
					     bool *reducing)
{
	bool whole = *reducing || (low->prog.whole && low->prog.reduces[index]);

	*reducing = whole && !(index % MQ_N_PASSES == MQ_PASS_F_FIRST && slot->chunk + 1 == low->plan->virtual);
	return whole ? &low->prog.whole[index] : &low->prog.pass[index];
}

bool mq_low_order(struct mq_low *low, uint32_t rank, uint32_t micro_batches, struct mq_order *order, char message[256])
{
	struct mq_plan plan = *low->plan;
	bool reducing = false;

	plan.micro_batches = micro_batches;
	*order = (struct mq_order){ 0 };
	order->slot =
		mq_pipeline_order(&plan, low->num.n_ranks, rank, low->train->infer, &low->scratch, &order->n, message);
	order->t = mq_arena_array(&low->scratch, order->n, const struct mq_template *);
	for (uint32_t i = 0; order->slot && i < order->n; i++) {
		order->t[i] = template_at(low, &order->slot[i], template_of(low, &order->slot[i], rank, micro_batches),
					  &reducing);
		order->tasks += order->t[i]->n_tasks;
	}
	for (uint32_t k = 0; k < low->plan->virtual; k++) {
		uint32_t stage = mq_low_stage(low, rank, k);

		for (uint32_t pass = MQ_PASS_REDUCE; pass <= MQ_PASS_POST; pass++)
			order->tasks += low->prog.pass[mq_low_template(low, stage, pass)].n_tasks;
	}
	return order->slot != NULL;
}
