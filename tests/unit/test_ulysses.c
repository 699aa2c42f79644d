/* test_ulysses.c - context parallelism by exchanging heads, alone and about a ring: bytes by hand, and back to the shape.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lowered.h"
#include "models.h"

enum { SEQ = 64, HIDDEN = 64, LAYERS = 2 };
static const char MODEL[] = "llama:layers=2,hidden=64,heads=8,kv_heads=8,ffn=128,seq=64,vocab=128";

static struct lowered_sum of(const struct mq_schedule *s, enum mq_coll_kind kind, const char *purpose, int phase)
{
	struct lowered_sum c = { 0 };

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];

		if (t->kind == MQ_TASK_COLLECTIVE && t->coll == kind && t->device == 0 && (int)t->phase == phase &&
		    (!purpose || !strcmp(s->comm[t->comm].purpose, purpose))) {
			c.tasks++;
			c.bytes += t->bytes;
		}
	}
	return c;
}

/* Four ranks with a quarter of the sequence each exchange queries, keys and values of 3 h elements a token for a quarter of
 * the heads, and the output of h back; backward the same. Nothing is gathered. */
static void heads_are_exchanged_for_tokens(void **state)
{
	struct lowered w;

	lowered_open(&w, MODEL, 4, 4);
	const struct mq_schedule *s =
		lowered_shape(&w, &(struct mq_shape){ .cp = 4, .ulysses = 4, .micro_batches = 2 });
	assert_non_null(s);
	const double tokens = 2 * 2.0 * SEQ / 4; /* of one rank: two micro-batches of two samples */
	uint32_t copies = 0;
	struct lowered_sum f = of(s, MQ_COLL_ALL_TO_ALL, NULL, MQ_FORWARD),
			   b = of(s, MQ_COLL_ALL_TO_ALL, NULL, MQ_BACKWARD);
	assert_near(f.bytes, LAYERS * tokens * 4 * HIDDEN * 2);
	assert_near(b.bytes, f.bytes);
	assert_int_equal(of(s, MQ_COLL_ALL_GATHER, "cp", MQ_FORWARD).tasks, 0);
	/* each of the four tensors is copied before it travels and behind: read and written twice */
	for (uint32_t i = 0; i < s->n_works; i++)
		for (uint32_t k = 0; k < s->work[i].n_kernels; k++) {
			const struct mq_kernel *kernel = &s->work[i].kernel[k];

			if (w.model->op[kernel->op].kind != MQ_OP_ATTENTION || kernel->kind != MQ_KERNEL_MEMORY ||
			    kernel->launches != 8) /* the others are of stored scores */
				continue;
			assert_near(kernel->bytes, 4 * tokens / 2 * 4 * HIDDEN * 2);
			copies++;
		}
	assert_true(copies > 0);
	struct mq_degrees g = mq_plan_degrees(&w.plan);
	assert_true(g.dp == 1 && g.tp == 1 && g.cp == 4 && g.ulysses == 4);
	/* attention as much as in a ring, of a quarter of the heads instead of the queries */
	double flop = lowered_flop(&w, "attention", MQ_FORWARD);
	assert_non_null(lowered_shape(&w, &(struct mq_shape){ .cp = 4, .micro_batches = 2 }));
	assert_near(lowered_flop(&w, "attention", MQ_FORWARD), flop);
	assert_true(of(w.low.schedule, MQ_COLL_ALL_GATHER, "cp", MQ_FORWARD).tasks > 0);
	assert_int_equal(of(w.low.schedule, MQ_COLL_ALL_TO_ALL, NULL, MQ_FORWARD).tasks, 0);
	lowered_close(&w);
}

/* Two by two: pairs of neighbours exchange heads, and keys and values pass between the pairs, for half of the heads. */
static void a_ring_of_groups_passes_less(void **state)
{
	struct lowered w;

	lowered_open(&w, MODEL, 4, 4);
	assert_non_null(lowered_shape(&w, &(struct mq_shape){ .cp = 4, .micro_batches = 2 }));
	double whole = of(w.low.schedule, MQ_COLL_ALL_GATHER, "cp", MQ_FORWARD).bytes;
	const struct mq_schedule *s =
		lowered_shape(&w, &(struct mq_shape){ .cp = 4, .ulysses = 2, .micro_batches = 2 });
	assert_non_null(s);
	assert_near(of(s, MQ_COLL_ALL_GATHER, "cp", MQ_FORWARD).bytes, whole / 2);
	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].kind == MQ_TASK_COLLECTIVE && s->task[i].coll == MQ_COLL_ALL_TO_ALL) {
			const struct mq_comm *c = &s->comm[s->task[i].comm];

			assert_true(c->n == 2 && c->rank[1] == c->rank[0] + 1);
		}
	lowered_close(&w);
}

static void shapes_come_back(void **state)
{
	const struct mq_shape shapes[] = {
		{ .cp = 4, .ulysses = 4 },
		{ .cp = 4, .ulysses = 2 },
		{ .cp = 2, .tp = 2, .ulysses = 2 },
		{ .dp = 2, .cp = 2, .ulysses = 2 },
		{ .cp = 4 },
		{ .tp = 4 },
		{ .tp = 2, .cp = 2 },
	};
	struct lowered w;

	lowered_open(&w, MODEL, 4, 8);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		struct mq_shape shape = shapes[i];

		shape.micro_batches = 2;
		shape.sequence_parallel = shape.vocab_parallel = shape.tp > 1;
		const struct mq_shape back = lowered_shape_back(&w, &shape);

		assert_true(back.cp == mq_or_1(shape.cp) && back.tp == mq_or_1(shape.tp) &&
			    back.dp == mq_or_1(shape.dp));
		assert_int_equal(mq_or_1(back.ulysses), mq_or_1(shape.ulysses));
	}
	const struct mq_shape odd = { .cp = 4, .ulysses = 3, .micro_batches = 2 };
	assert_int_equal(mq_plan_from_shape(&odd, w.model, w.cluster, &w.arena, &w.plan, &w.err), MQ_EINPUT);
	lowered_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads_are_exchanged_for_tokens),
		cmocka_unit_test(a_ring_of_groups_passes_less),
		cmocka_unit_test(shapes_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
