/*
 * pipeline.c - in which order a pipeline rank runs the passes of its micro-batches.
 *
 *   gpipe        all forwards, then all backwards (Huang et al. 2019)
 *   1f1b         PipeDream-flush (Narayanan et al. 2021): P-1-r forwards, then one of each
 *   interleaved  v chunks per rank, micro-batches in groups of P (Megatron-LM, Narayanan et al. 2021)
 *                Where a forward and a backward pass take turns (overlap_experts), each rank is one
 *                forward pass further ahead, so that the two are of different micro-batches
 *   zb-h1        1f1b with weight gradients apart; rank r holds r of them back, which keeps the number of
 *                micro-batches in flight at P and fills the last bubble (Qi et al. 2024)
 */
#include <stdio.h>

#include "lower/program.h"

struct list {
	struct mq_slot *slot;
	uint32_t n;
};

static void add(struct list *l, enum mq_pass pass, uint32_t chunk, uint32_t micro_batch)
{
	l->slot[l->n++] = (struct mq_slot){ (uint8_t)pass, false, chunk, micro_batch };
}

/* The forward pass just added and the backward pass that comes next take turns, where the plan wants it. */
static void take_turns(struct list *l, bool overlap)
{
	l->slot[l->n - 1].turns = overlap;
}

/* The k-th forward (or backward) of an interleaved rank: Megatron's order, groups of P micro-batches
 * walk through all chunks. */
static void add_interleaved(struct list *l, enum mq_pass pass, uint32_t k, uint32_t p, uint32_t v)
{
	uint32_t chunk = k % (p * v) / p;

	add(l, pass, pass == MQ_PASS_F ? chunk : v - 1 - chunk, k / (p * v) * p + k % p);
}

static void interleaved(struct list *l, uint32_t p, uint32_t r, uint32_t v, uint32_t m,
			uint32_t ahead)
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

static void one_f_one_b(struct list *l, uint32_t p, uint32_t r, uint32_t m, bool zero_bubble,
			uint32_t ahead)
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

struct mq_slot *mq_pipeline_order(const struct mq_plan *plan, uint32_t n_ranks, uint32_t rank,
				  bool infer, struct mq_arena *arena, uint32_t *n, char message[256])
{
	uint32_t m = plan->micro_batches, v = plan->virtual;
	struct list l = { mq_arena_array(arena, (size_t)m * v * 3, struct mq_slot), 0 };

	if (plan->pipeline == MQ_PIPE_INTERLEAVED && v > 1 && m % n_ranks) {
		snprintf(message, 256,
			 "the interleaved schedule needs micro-batches (%u) in multiples of its %u "
			 "pipeline ranks",
			 m, n_ranks);
		return NULL;
	}
	if (infer) {
		for (uint32_t i = 0; i < m * v; i++)
			add_interleaved(&l, MQ_PASS_F, i, v > 1 ? n_ranks : 1, v);
	} else if (plan->pipeline == MQ_PIPE_GPIPE) {
		for (uint32_t i = 0; i < m; i++)
			add(&l, MQ_PASS_F, 0, i);
		for (uint32_t i = 0; i < m; i++)
			add(&l, MQ_PASS_B, 0, i);
	} else if (v > 1) {
		interleaved(&l, n_ranks, rank, v, m, plan->overlap_experts);
	} else {
		one_f_one_b(&l, n_ranks, rank, m, plan->pipeline == MQ_PIPE_ZB_H1,
			    plan->overlap_experts);
	}
	*n = l.n;
	return l.slot;
}
