/* test_gathered_flat.c - ZeRO-1 whose new parameters come in one flat gather and are taken apart: calls, host, memory,
 * by hand; and collectives of one protocol. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lowered.h"
#include "models.h"

static const char GPT[] = "gpt:layers=2,hidden=64,heads=4,seq=32,vocab=128";

static struct mq_schedule *ask(struct lowered *w, enum mq_sync sync)
{
	struct mq_schedule *s = lowered_shape(w, &(struct mq_shape){ .dp = 8, .micro_batches = 2, .sync = sync });

	assert_non_null(s);
	return s;
}

/* Kernels of one kind in the optimizer steps of device 0. */
struct sum {
	uint32_t n;
	double bytes, time_s;
};

static struct sum in_update(const struct mq_schedule *s, enum mq_kernel_kind kind)
{
	struct sum sum = { 0 };

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_work *work = &s->work[s->task[i].work];

		if (s->task[i].kind != MQ_TASK_COMPUTE || s->task[i].device != 0)
			continue;
		for (uint32_t k = 0; k < work->n_kernels; k++)
			if (work->kernel[k].kind == kind && work->kernel[k].phase == MQ_UPDATE) {
				sum.n++;
				sum.bytes += work->kernel[k].bytes;
				sum.time_s += work->kernel[k].time_s;
			}
	}
	return sum;
}

static void tensors_are_taken_apart(void **state)
{
	struct lowered w;

	lowered_open(&w, GPT, 8, 16);
	assert_int_equal(in_update(ask(&w, MQ_SYNC_ZERO1), MQ_KERNEL_COPY).n, 0);
	assert_int_equal(in_update(ask(&w, MQ_SYNC_ZERO1), MQ_KERNEL_CALL).n, 0);
	w.software.unflatten_us = 5;
	w.software.allgather_flat_copies = 2;
	struct mq_schedule *s = ask(&w, MQ_SYNC_ZERO1);
	struct sum steps = in_update(s, MQ_KERNEL_OPTIMIZER), calls = in_update(s, MQ_KERNEL_CALL);
	assert_int_equal(calls.n, steps.n);
	assert_near(calls.time_s, steps.n * 8 * 5e-6);
	/* two copies in 16 bits, each written and read, of all parameters */
	assert_near(in_update(s, MQ_KERNEL_COPY).bytes, 2 * 2 * 2 * mq_model_totals(w.model).parameters);
	/* nothing is gathered where nothing is sharded, and ZeRO-3's are gathered layer by layer */
	assert_int_equal(in_update(ask(&w, MQ_SYNC_ALLREDUCE), MQ_KERNEL_CALL).n, 0);
	assert_int_equal(in_update(ask(&w, MQ_SYNC_ZERO3), MQ_KERNEL_CALL).n, 0);
	lowered_close(&w);
}

/* Layers that are alike share a work, but not where one stage keeps whole gradients and the next, on device 0, parts. */
static void alike_layers_keep_their_shards(void **state)
{
	static const uint32_t last_first[] = { 2, 3, 0, 1 };
	struct lowered w;

	lowered_open(&w, "gpt:layers=8,hidden=64,heads=4,seq=32,vocab=128", 4, 16);
	w.software.unflatten_us = 5;
	lowered_shape(&w, &(struct mq_shape){ .dp = 2, .pp = 2, .sync = MQ_SYNC_ZERO1, .device = last_first });
	for (uint32_t i = 0; i < w.plan.n_configs; i++)
		if (w.plan.config[i].device[0] == 2)
			w.plan.config[i].sync = MQ_SYNC_ALLREDUCE;
	for (int alike = 0; alike < 2; alike++) {
		const struct mq_question q = lowered_question(&w);
		const struct mq_lower_request rq = { .q = &q, .plan = &w.plan, .alike = alike };

		assert_int_equal(mq_lower(&rq, &w.arena, &w.low, &w.err), MQ_OK);
		struct sum steps = in_update(w.low.schedule, MQ_KERNEL_OPTIMIZER);
		assert_true(steps.n > 0);
		assert_near(in_update(w.low.schedule, MQ_KERNEL_CALL).time_s, steps.n * 2 * 5e-6);
	}
	lowered_close(&w);
}

static double peak_B(struct lowered *w)
{
	ask(w, MQ_SYNC_ZERO1);
	return w->low.memory[0].peak_B;
}

/* A GPT whose parameters outweigh its activations: the copies are the peak. */
static void copies_take_memory(void **state)
{
	struct lowered w;

	lowered_open(&w, "gpt:layers=2,hidden=1024,heads=8,seq=8,vocab=128", 8, 16);
	w.software.allocator = MQ_ALLOCATOR_EXPANDABLE; /* what is live */
	w.software.allgather_flat_copies = 1;
	double one = peak_B(&w), bytes = 2 * mq_model_totals(w.model).parameters;
	w.software.allgather_flat_copies = 3;
	assert_near(peak_B(&w), one + 2 * bytes);
	/* PyTorch's allocator: the last copy is one block of its own, those before are of a rank's part each */
	w.software.allocator = MQ_ALLOCATOR_PYTORCH;
	w.software.allgather_flat_copies = 0;
	double none = peak_B(&w);
	w.software.allgather_flat_copies = 1;
	one = peak_B(&w);
	assert_true(one >= none && one <= none + bytes + 2 * (1 << 20));
	w.software.allgather_flat_copies = 2;
	assert_true(peak_B(&w) > one);
	lowered_close(&w);
}

static void one_protocol(void **state)
{
	struct lowered w;

	lowered_open(&w, GPT, 8, 16);
	struct mq_schedule *s = ask(&w, MQ_SYNC_ZERO1);
	assert_true(lowered_count(s, MQ_TASK_COLLECTIVE, -1, -1).tasks > 0);
	for (uint32_t i = 0; i < s->n_tasks; i++)
		assert_int_equal(s->task[i].proto, MQ_PROTO_AUTO);
	w.software.nccl_proto = MQ_PROTO_SIMPLE;
	s = ask(&w, MQ_SYNC_ZERO1);
	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].kind == MQ_TASK_COLLECTIVE)
			assert_int_equal(s->task[i].proto, MQ_PROTO_SIMPLE);
	lowered_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tensors_are_taken_apart),
		cmocka_unit_test(alike_layers_keep_their_shards),
		cmocka_unit_test(copies_take_memory),
		cmocka_unit_test(one_protocol),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
