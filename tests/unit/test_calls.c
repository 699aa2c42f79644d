/*
 * test_calls.c - what hosts do beside launching: agree on collectives, wait for the headers of messages, reduce
 * in more calls than need be. Counts and times that can be worked out by hand.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "lowered.h"

static int make_world(void **state)
{
	static struct lowered w;

	lowered_open(&w, "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=128", 16, 16);
	*state = &w;
	return 0;
}

static uint32_t collectives(const struct mq_schedule *s, uint32_t device)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		n += s->task[i].kind == MQ_TASK_COLLECTIVE && s->task[i].device == device;
	return n;
}

/* Seconds of one kind of kernel on a device. */
static double delays(const struct mq_schedule *s, uint32_t device, enum mq_kernel_kind kind)
{
	double sum = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_work *work = &s->work[s->task[i].work];

		if (s->task[i].kind != MQ_TASK_COMPUTE || s->task[i].device != device)
			continue;
		for (uint32_t k = 0; k < work->n_kernels; k++)
			sum += work->kernel[k].kind == kind ? work->kernel[k].time_s : 0;
	}
	return sum;
}

/* Each tensor that a stage sends or receives holds it up once. */
static void stages_shake_hands(void **state)
{
	struct lowered *w = *state;

	w->software.handshake_ms = 3;
	struct mq_schedule *s = lowered_shape(w, &(struct mq_shape){ .pp = 4, .micro_batches = 8 });
	w->software.handshake_ms = 0;
	assert_within(delays(s, 0, MQ_KERNEL_WAIT), 8 * 2 * 3e-3, 1e-12);
	assert_within(delays(s, 1, MQ_KERNEL_WAIT), 8 * 4 * 3e-3, 1e-12);
	assert_within(delays(s, 3, MQ_KERNEL_WAIT), 8 * 2 * 3e-3, 1e-12);
}

/* Hosts that agree on each collective of tensor parallelism: what is less than the devices' work and collectives
 * is hidden, all that is more is lost. */
static void hosts_agree_on_collectives(void **state)
{
	struct lowered *w = *state;
	double call_s[3];
	uint32_t calls = 0;

	for (int i = 0; i < 3; i++) {
		w->software.check_us = i == 0 ? 1e-6 : i * 1e4;
		struct mq_schedule *s = lowered_shape(w, &(struct mq_shape){ .tp = 2, .micro_batches = 1 });
		calls = collectives(s, 0);
		call_s[i] = delays(s, 0, MQ_KERNEL_CALL);
	}
	w->software.check_us = 0;
	assert_within(call_s[0], 0, 0);
	assert_within(call_s[2] - call_s[1], calls * 2 * 1e-2, 1e-9);
}

static double reduced_B(const struct mq_schedule *s)
{
	double sum = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].kind == MQ_TASK_COLLECTIVE && s->task[i].coll == MQ_COLL_ALL_REDUCE &&
		    s->task[i].phase == MQ_BACKWARD)
			sum += s->task[i].bytes;
	return sum;
}

/* Gate and up as two products: what they take is reduced twice in each layer, if it is not scattered. */
static void two_products_reduce_apart(void **state)
{
	struct lowered *w = *state;
	struct mq_model *gpt = w->model;
	struct mq_model_request rq = { .spec = "llama:layers=4,hidden=64,heads=4,kv_heads=4,ffn=128,seq=32,vocab=128",
				       .train = &w->train };
	const struct mq_shape shape = { .tp = 2, .micro_batches = 1 };

	assert_int_equal(mq_model_load(&rq, &w->arena, &w->model, &w->err), MQ_OK);
	double once_B = reduced_B(lowered_shape(w, &shape));
	w->software.reduces_apart = true;
	assert_within(reduced_B(lowered_shape(w, &shape)) - once_B, 2 * 4 * 16.0 * 32 * 64 * 2, 1e-6);
	w->model = gpt;
	assert_within(reduced_B(lowered_shape(w, &shape)), 2 * 2 * 4 * 16.0 * 32 * 64 * 2, 1e-6);
	w->software.reduces_apart = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stages_shake_hands),
		cmocka_unit_test(hosts_agree_on_collectives),
		cmocka_unit_test(two_products_reduce_apart),
	};

	return cmocka_run_group_tests(tests, make_world, lowered_free);
}
