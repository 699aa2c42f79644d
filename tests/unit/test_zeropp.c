/* test_zeropp.c - few bits on the wire: ZeRO-3, which may have a second copy of parameters nearby, and sequence
 * parallelism of GEMMs in fp8: bytes, ranks, memory by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lowered.h"
#include "models.h"

static const char GPT[] = "gpt:layers=2,hidden=64,heads=4,seq=32,vocab=128";

static struct mq_schedule *ask(struct lowered *w)
{
	struct mq_schedule *s =
		lowered_shape(w, &(struct mq_shape){ .dp = 8, .micro_batches = 2, .sync = MQ_SYNC_ZERO3 });

	assert_non_null(s);
	return s;
}

static double gathered(const struct mq_schedule *s, enum mq_phase phase, uint32_t *ranks)
{
	double bytes = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].kind == MQ_TASK_COLLECTIVE && s->task[i].coll == MQ_COLL_ALL_GATHER &&
		    s->task[i].phase == phase) {
			bytes += s->task[i].bytes;
			*ranks = s->comm[s->task[i].comm].n;
		}
	return bytes;
}

static void the_wire_carries_fewer_bytes(void **state)
{
	struct lowered w;
	uint32_t ranks;

	lowered_open(&w, GPT, 8, 16);
	struct mq_schedule *s = ask(&w);
	double forward = gathered(s, MQ_FORWARD, &ranks);
	double reduced = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_REDUCE_SCATTER, -1).bytes;
	assert_int_equal(ranks, 8);
	w.software.zero_quantized_weights_B = 1;
	w.software.zero_quantized_gradients_B = .5;
	s = ask(&w);
	assert_near(gathered(s, MQ_FORWARD, &ranks), forward / 2);
	assert_near(lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_REDUCE_SCATTER, -1).bytes, reduced / 4);
	/* 2 x (1 + 2) bytes to unpack parameters twice, 2 + 2 x .5 for gradients, of each in every micro-batch */
	double copies = 0;
	for (uint32_t i = 0; i < s->n_tasks; i++)
		for (uint32_t k = 0; s->task[i].kind == MQ_TASK_COMPUTE && k < s->work[s->task[i].work].n_kernels; k++)
			if (s->work[s->task[i].work].kernel[k].kind == MQ_KERNEL_COPY)
				copies += s->work[s->task[i].work].kernel[k].bytes;
	assert_near(copies, 8 * 2 * 9 * mq_model_totals(w.model).parameters);
	lowered_close(&w);
}

static void backward_gathers_nearby(void **state)
{
	struct lowered w;
	uint32_t ranks;

	lowered_open(&w, GPT, 8, 16);
	struct mq_schedule *s = ask(&w);
	double backward = gathered(s, MQ_BACKWARD, &ranks), parameters = w.low.memory[0].parameter_B;
	w.software.zero_hpz_partition_size = 4;
	s = ask(&w);
	gathered(s, MQ_FORWARD, &ranks);
	assert_int_equal(ranks, 8);
	assert_near(gathered(s, MQ_BACKWARD, &ranks), backward);
	assert_int_equal(ranks, 4);
	assert_near(w.low.memory[0].parameter_B, parameters * (1 + 8 / 4.0)); /* an eighth, and a quarter */
	w.software.zero_hpz_partition_size = 3;                               /* no part of 8: none */
	ask(&w);
	assert_near(w.low.memory[0].parameter_B, parameters);
	lowered_close(&w);
}

/* Of GEMMs in fp8 whose copies are kept the operands travel as they are multiplied, forward and backward: one byte and
 * not two; what the head takes and what is scattered stays whole. */
static void kept_copies_are_gathered(void **state)
{
	const struct mq_shape shape = { .tp = 2, .micro_batches = 1, .sequence_parallel = true };
	const double activation = 16.0 * 32 * 64;
	struct lowered w;
	double at[2][2], scattered[2];

	lowered_open(&w, GPT, 8, 16);
	w.calib->device[0].peak_flops[MQ_FP8] = 1e12;
	w.train.gemm_dtype = MQ_GEMM_FP8;
	for (int kept = 0; kept < 2; kept++) {
		w.software.save_quantized_operands = kept;
		struct mq_schedule *s = lowered_shape(&w, &shape);

		at[kept][0] = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, MQ_FORWARD).bytes;
		at[kept][1] = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, MQ_BACKWARD).bytes;
		scattered[kept] = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_REDUCE_SCATTER, -1).bytes;
	}
	assert_within(at[0][0], 2 * (2 * 2 + 1) * 2 * activation, 1e-6); /* ranks, GEMMs of layers and the head */
	assert_within(at[0][0] - at[1][0], 2 * 2 * 2 * activation, 1e-6);
	/* gradients of what two row-parallel GEMMs of a layer give, and what the others took, once more */
	assert_within(at[0][1] - at[1][1], 2 * 4 * 2 * activation, 1e-6);
	assert_within(scattered[0], scattered[1], 1e-6);
	lowered_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_wire_carries_fewer_bytes),
		cmocka_unit_test(kept_copies_are_gathered),
		cmocka_unit_test(backward_gathers_nearby),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
