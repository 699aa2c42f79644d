/* test_offload.c - activations that wait on the host: what is copied, and what waits for it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lowered.h"

enum { LAYERS = 4 };
/* Bytes that a layer keeps of one sample (Korthikanti et al. 2022, with flash attention's row sums). */
static const double LAYER = 34.0 * 32 * 64 + 4.0 * 4 * 32;

static int make_world(void **state)
{
	static struct lowered w;

	lowered_open(&w, "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=256", 4, 4);
	*state = &w;
	return 0;
}

static struct mq_schedule *schedule_of(struct lowered *w, struct mq_shape shape, uint32_t layers)
{
	shape.pipeline = MQ_PIPE_1F1B;
	assert_int_equal(mq_plan_from_shape(&shape, w->model, w->cluster, &w->arena, &w->plan, &w->err), MQ_OK);
	w->plan.explicit |= MQ_EXPLICIT_OFFLOAD_LAYERS;
	w->plan.offload_layers = layers;
	struct mq_schedule *s = lowered_plan(w);
	assert_non_null(s);
	return s;
}

/* Out in the forward pass and back in the backward pass, of each micro-batch, what the first layers keep. */
static void what_is_kept_travels(void **state)
{
	struct lowered *w = *state;

	for (uint32_t layers = 0; layers <= LAYERS + 1; layers++) {
		const struct mq_schedule *s = schedule_of(w, (struct mq_shape){ .micro_batches = 4 }, layers);
		uint32_t n = 4 * (layers < LAYERS ? layers : LAYERS);

		for (int phase = MQ_FORWARD; phase <= MQ_BACKWARD; phase++) {
			struct lowered_sum copies = lowered_count(s, MQ_TASK_COPY, -1, phase);

			assert_int_equal(copies.tasks, n);
			assert_within(copies.bytes, n * LAYER, 1e-6);
		}
	}
}

/* Of each stage the first; halves of what tensor-parallel ranks keep are theirs. */
static void each_stage_has_its_own(void **state)
{
	struct lowered *w = *state;
	const struct mq_schedule *s = schedule_of(w, (struct mq_shape){ .pp = 2, .micro_batches = 2 }, 1);

	assert_int_equal(lowered_count(s, MQ_TASK_COPY, -1, MQ_FORWARD).tasks, 2 * 2);
	s = schedule_of(w, (struct mq_shape){ .tp = 2, .micro_batches = 1, .sequence_parallel = true }, 1);
	assert_int_equal(lowered_count(s, MQ_TASK_COPY, -1, MQ_FORWARD).tasks, 2);
	assert_within(lowered_count(s, MQ_TASK_COPY, -1, MQ_FORWARD).bytes, 4 * LAYER, 1e-6);
}

/* With everything computed again it is the layer's input alone. */
static void recomputed_layers_send_their_input(void **state)
{
	struct lowered *w = *state;
	const struct mq_schedule *s =
		schedule_of(w, (struct mq_shape){ .micro_batches = 4, .recompute = MQ_RECOMPUTE_FULL }, 2);

	assert_within(lowered_count(s, MQ_TASK_COPY, -1, MQ_BACKWARD).bytes, 4 * 2 * 2.0 * 32 * 64, 1e-6);
}

/* Compute does not wait for the copy of the layer before it, but for that of the layer before that; a layer's backward
 * waits until its activations are back. */
static void compute_is_a_layer_ahead(void **state)
{
	struct lowered *w = *state;
	const struct mq_schedule *s = schedule_of(w, (struct mq_shape){ .micro_batches = 1 }, LAYERS);
	uint32_t waits[2] = { 0 }, copies = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		copies += s->task[i].kind == MQ_TASK_COPY;
		for (uint32_t k = 0; s->task[i].kind == MQ_TASK_COMPUTE && k < s->task[i].n_deps; k++) {
			const struct mq_task *from = &s->task[s->dep[s->task[i].dep_first + k]];

			waits[from->phase] += from->kind == MQ_TASK_COPY;
		}
	}
	assert_int_equal(copies, 2 * LAYERS);
	assert_int_equal(waits[MQ_FORWARD], LAYERS - 1); /* the last one leaves while nothing is left to compute */
	assert_int_equal(waits[MQ_BACKWARD], LAYERS);
}

/* The first of four layers has until the last one begins, and sets out when that has gone back. */
static void one_layer_has_three_to_leave(void **state)
{
	struct lowered *w = *state;
	const struct mq_schedule *s = schedule_of(w, (struct mq_shape){ .micro_batches = 1 }, 1);
	uint32_t seen = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		for (uint32_t k = 0; k < s->task[i].n_deps; k++) {
			const struct mq_task *task = &s->task[i], *from = &s->task[s->dep[task->dep_first + k]];
			bool back = task->phase == MQ_BACKWARD;

			if (task->kind == MQ_TASK_COPY) { /* the compute beside it begins at: */
				assert_int_equal(w->model->op[s->task[i + 1].op].layer, back ? 2 : 1);
			} else if (from->kind == MQ_TASK_COPY) {
				assert_int_equal(from->phase, task->phase);
				assert_int_equal(w->model->op[task->op].layer, back ? 0 : 3);
			} else {
				continue;
			}
			seen++;
		}
	assert_int_equal(seen, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_kept_travels),
		cmocka_unit_test(each_stage_has_its_own),
		cmocka_unit_test(recomputed_layers_send_their_input),
		cmocka_unit_test(compute_is_a_layer_ahead),
		cmocka_unit_test(one_layer_has_three_to_leave),
	};

	return cmocka_run_group_tests(tests, make_world, lowered_free);
}
