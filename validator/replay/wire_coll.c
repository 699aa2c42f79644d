/* wire_coll.c - collectives on host memory as rings of transfers (Thakur, Rabenseifner and Gropp, 2005): reduce-scatter
 * and all-gather of n-1 steps each, all-reduce as both, rooted ones as a chain, all-to-all as n-1 exchanges: the cost
 * model's textbook ring.
 *
 * Each step has at most one send and one receive; the next begins when both are done. Reductions read the ring's memory
 * directly. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "maquette/wire.h"

#define STREAM __attribute__((optimize("O3")))

struct step {
	bool send, recv, add;
	uint32_t to, from; /* positions */
	const char *source;
	char *target;
	const char *addend; /* add: target = addend + received */
	size_t bytes;
};

size_t mq_wire_coll_part_B(enum mq_dtype dtype, double bytes, uint32_t n)
{
	double size = mq_dtype_size(dtype);

	return (size_t)(size * ceil(ceil(bytes / size) / n));
}

static uint32_t steps_of(const struct mq_wire_coll *c)
{
	switch (c->kind) {
	case MQ_COLL_ALL_REDUCE:
		return 2 * (c->n - 1);
	case MQ_COLL_BROADCAST:
	case MQ_COLL_REDUCE:
		return 2; /* receive and send, or one of them at the ends of the chain */
	default:
		return c->n - 1;
	}
}

/* Step s of a ring: sends part me-shift-s, receives the one before it. */
static struct step ring_step(const struct mq_wire_coll *c, uint32_t s, uint32_t shift, bool add, size_t part_B)
{
	uint32_t n = c->n, out = (c->me + 2 * n - shift - s) % n, in = (out + n - 1) % n;

	return (struct step){ .send = true,
			      .recv = true,
			      .add = add,
			      .to = (c->me + 1) % n,
			      .from = (c->me + n - 1) % n,
			      .source = (add && !s ? c->in : c->out) + out * part_B,
			      .target = c->out + in * part_B,
			      .addend = c->in + in * part_B,
			      .bytes = part_B };
}

/* Step of a chain: a broadcast runs away from the root, a reduction towards it. */
static struct step chain_step(const struct mq_wire_coll *c, uint32_t s, size_t bytes)
{
	uint32_t n = c->n, place = (c->me + n - c->root) % n;
	bool reduce = c->kind == MQ_COLL_REDUCE;
	bool first = place == (reduce ? n - 1 : 0), last = place == (reduce ? 0 : n - 1);
	uint32_t up = (c->me + 1) % n, down = (c->me + n - 1) % n;

	return (struct step){ .send = s && !last,
			      .recv = !s && !first,
			      .add = reduce,
			      .to = reduce ? down : up,
			      .from = reduce ? up : down,
			      .source = first ? c->in : c->out,
			      .target = c->out,
			      .addend = c->in,
			      .bytes = bytes };
}

static struct step step_of(const struct mq_wire_coll *c)
{
	size_t part_B = mq_wire_coll_part_B(c->dtype, c->bytes, c->n);
	uint32_t n = c->n, s = c->step;

	switch (c->kind) {
	case MQ_COLL_ALL_REDUCE:
		return s < n - 1 ? ring_step(c, s, 1, true, part_B) : ring_step(c, s - (n - 1), 0, false, part_B);
	case MQ_COLL_REDUCE_SCATTER:
		return ring_step(c, s, 1, true, part_B);
	case MQ_COLL_ALL_GATHER:
		return ring_step(c, s, 0, false, part_B);
	case MQ_COLL_ALL_TO_ALL: {
		uint32_t to = (c->me + 1 + s) % n, from = (c->me + n - 1 - s) % n;

		return (struct step){ .send = true,
				      .recv = true,
				      .to = to,
				      .from = from,
				      .source = c->in + to * part_B,
				      .target = c->out + from * part_B,
				      .bytes = part_B };
	}
	default:
		return chain_step(c, s, part_B * n);
	}
}

STREAM static void add_f32(float *restrict to, const float *restrict a, const float *restrict b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = a[i] + b[i];
}

STREAM static void add_f64(double *restrict to, const double *restrict a, const double *restrict b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = a[i] + b[i];
}

static void add(struct mq_wire *w, const struct mq_wire_coll *c, const struct step *step, struct mq_transfer *t)
{
	size_t n;
	void *at;

	while ((at = mq_wire_span(w, t, 0, &n))) {
		void *to = step->target + t->moved;
		const void *with = step->addend + t->moved;

		if (c->dtype == MQ_FP64)
			add_f64(to, with, at, n / sizeof(double));
		else
			add_f32(to, with, at, n / sizeof(float));
		mq_wire_advance(w, t, n);
	}
}

static void post(struct mq_wire *w, struct mq_wire_coll *c, const struct step *s)
{
	c->send = (struct mq_transfer){
		.peer = c->rank[s->to], .send = true, .done = !s->send, .tag = c->tag, .bytes = s->bytes
	};
	c->recv = (struct mq_transfer){ .peer = c->rank[s->from], .done = !s->recv, .tag = c->tag, .bytes = s->bytes };
	if (s->send)
		mq_wire_post(w, &c->send);
	if (s->recv)
		mq_wire_post(w, &c->recv);
	c->posted = true;
}

bool mq_wire_coll_run(struct mq_wire *w, struct mq_wire_coll *c)
{
	if (!c->step && !c->posted && !c->done) { /* copy the own part, which no step moves */
		size_t part_B = mq_wire_coll_part_B(c->dtype, c->bytes, c->n), own = c->me * part_B;

		if (c->kind == MQ_COLL_ALL_GATHER)
			memcpy(c->out + own, c->in, part_B);
		if (c->kind == MQ_COLL_ALL_TO_ALL)
			memcpy(c->out + own, c->in + own, part_B);
	}
	while (!c->done) {
		struct step s = step_of(c);

		if (c->step == steps_of(c)) {
			c->done = true;
			break;
		}
		if (!c->posted)
			post(w, c, &s);
		mq_wire_progress(w);
		if (!c->send.done) /* reads only */
			mq_wire_move(w, &c->send, (char *)(uintptr_t)s.source);
		if (!c->recv.done && s.add)
			add(w, c, &s, &c->recv);
		else if (!c->recv.done)
			mq_wire_move(w, &c->recv, s.target);
		if (!c->send.done || !c->recv.done)
			return false;
		c->step++;
		c->posted = false;
	}
	return true;
}
