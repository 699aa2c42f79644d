/* test_once.c - ZeRO under pipeline stages: in every micro-batch, or once a step; new parameters that are gathered
 * beside the next step; and gradients that are added up.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lowered.h"
#include "models.h"

static const char GPT[] = "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=128";
enum { MICRO_BATCHES = 4 };

static struct mq_schedule *ask(struct lowered *w, enum mq_sync sync, bool once, uint32_t pp)
{
	const struct mq_shape shape = {
		.dp = 2, .pp = pp, .micro_batches = MICRO_BATCHES, .pipeline = MQ_PIPE_1F1B, .sync = (uint8_t)sync
	};

	w->software.zero_once_per_step = once;
	struct mq_schedule *s = lowered_shape(w, &shape);
	assert_non_null(s);
	return s;
}

static double bytes(const struct mq_schedule *s, enum mq_coll_kind kind)
{
	return lowered_count(s, MQ_TASK_COLLECTIVE, kind, -1).bytes;
}

/* A replica's parameters pass the wire in every micro-batch, forward and backward, or once. The tied embedding's
 * all-reduce between the stages is another's. */
static void gathers_and_reductions_are_counted(void **state)
{
	struct lowered w;

	lowered_open(&w, GPT, 4, 16);
	double each = bytes(ask(&w, MQ_SYNC_ZERO3, false, 2), MQ_COLL_REDUCE_SCATTER);
	double gathered = bytes(w.low.schedule, MQ_COLL_ALL_GATHER);
	double once = bytes(ask(&w, MQ_SYNC_ZERO3, true, 2), MQ_COLL_REDUCE_SCATTER);
	assert_near(each, MICRO_BATCHES * once);
	assert_near(gathered, 2 * MICRO_BATCHES * bytes(w.low.schedule, MQ_COLL_ALL_GATHER));
	assert_near(bytes(ask(&w, MQ_SYNC_ZERO2, false, 2), MQ_COLL_REDUCE_SCATTER), each);
	assert_near(bytes(ask(&w, MQ_SYNC_ZERO2, true, 2), MQ_COLL_REDUCE_SCATTER), once);
	/* without stages nothing changes */
	double plain = bytes(ask(&w, MQ_SYNC_ZERO3, false, 1), MQ_COLL_ALL_GATHER);
	assert_near(bytes(ask(&w, MQ_SYNC_ZERO3, true, 1), MQ_COLL_ALL_GATHER), plain);
	lowered_close(&w);
}

/* Kept copies in fp8 are of all parameters of a rank wherever these lie whole: layers' four products and biases, 3 bytes
 * each, or 2 where the optimizer writes them in fp8 and they are only transposed. */
static void whole_parameters_are_cast(void **state)
{
	static const enum mq_sync syncs[] = { MQ_SYNC_ALLREDUCE, MQ_SYNC_ZERO1, MQ_SYNC_ZERO3 };
	struct lowered w;

	lowered_open(&w, GPT, 4, 16);
	w.train.gemm_dtype = MQ_GEMM_FP8;
	w.software.fp8_cast_B = 3;
	w.software.save_quantized_operands = true;
	for (int i = 0; i < 6; i++) {
		w.software.fp8_params = i >= 3;
		const struct mq_schedule *s = ask(&w, syncs[i % 3], true, 2);
		double cast_B = 0;

		for (uint32_t t = 0; t < s->n_tasks; t++) {
			const struct mq_work *work = &s->work[s->task[t].work];
			for (uint32_t k = 0; s->task[t].kind == MQ_TASK_COMPUTE && k < work->n_kernels; k++)
				cast_B += work->kernel[k].phase == MQ_UPDATE && work->kernel[k].kind == MQ_KERNEL_COPY ?
						  work->kernel[k].bytes :
						  0;
		}
		assert_near(cast_B, 2 * 4 * (i < 3 ? 3 : 2) * (12 * 64 * 64 + 9 * 64));
	}
	lowered_close(&w);
}

/* Parameters and gradients lie whole; the optimizer's state stays in shards. */
static void memory_is_that_of_whole_gradients(void **state)
{
	struct lowered w;

	lowered_open(&w, GPT, 4, 16);
	ask(&w, MQ_SYNC_ALLREDUCE, false, 2);
	struct mq_memory whole = w.low.memory[0];
	ask(&w, MQ_SYNC_ZERO3, true, 2);
	assert_near(w.low.memory[0].parameter_B, whole.parameter_B);
	assert_near(w.low.memory[0].gradient_B, whole.gradient_B);
	assert_near(w.low.memory[0].optimizer_B, whole.optimizer_B / 2);
	ask(&w, MQ_SYNC_ZERO3, false, 2);
	assert_near(w.low.memory[0].parameter_B, whole.parameter_B / 2);
	assert_near(w.low.memory[0].gradient_B, whole.gradient_B / 2);
	lowered_close(&w);
}

/* accum_B bytes a parameter more in every backward pass where gradients stay whole; none where they are reduced
 * in each. */
static double copied(const struct lowered *w)
{
	const struct mq_schedule *s = w->low.schedule;
	double sum = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		for (uint32_t k = 0; s->task[i].kind == MQ_TASK_COMPUTE && k < s->work[s->task[i].work].n_kernels;
		     k++) {
			const struct mq_kernel *kernel = &s->work[s->task[i].work].kernel[k];

			if (kernel->kind == MQ_KERNEL_COPY && kernel->phase == MQ_BACKWARD)
				sum += kernel->bytes;
		}
	return sum;
}

static void whole_gradients_are_added_up(void **state)
{
	struct lowered w;

	lowered_open(&w, GPT, 4, 16);
	w.software.accum_B = 6;
	double parameters = mq_model_totals(w.model).parameters;
	ask(&w, MQ_SYNC_ALLREDUCE, false, 1);
	assert_near(copied(&w), 2 * MICRO_BATCHES * 6 * parameters);
	ask(&w, MQ_SYNC_ZERO1, false, 1);
	assert_near(copied(&w), 2 * MICRO_BATCHES * 6 * parameters);
	ask(&w, MQ_SYNC_ZERO2, false, 1);
	assert_near(copied(&w), 0);
	ask(&w, MQ_SYNC_ZERO3, true, 2);
	assert_near(copied(&w), 2 * MICRO_BATCHES * 6 * parameters);
	lowered_close(&w);
}

/* Bytes of all-gathers, before the last micro-batch and behind it, and optimizer steps that wait for none. */
struct gathered {
	double first_B, other_B, behind_B;
};

static struct gathered gathered(const struct mq_schedule *s)
{
	struct gathered g = { 0 };

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];

		if (t->kind != MQ_TASK_COLLECTIVE || t->coll != MQ_COLL_ALL_GATHER)
			continue;
		*(t->micro_batch == MQ_NONE ? &g.behind_B : t->micro_batch ? &g.other_B : &g.first_B) += t->bytes;
	}
	return g;
}

/* Each device's first compute task waits for a gathering: of the whole stage's parameters, in one bucket. */
static void expect_waits(const struct mq_schedule *s)
{
	for (uint32_t d = 0; d < s->n_devices; d++) {
		uint32_t i = 0;
		bool waits = false;

		while (s->task[i].device != d || s->task[i].kind != MQ_TASK_COMPUTE)
			i++;
		for (uint32_t k = 0; k < s->task[i].n_deps; k++)
			waits |= s->task[s->dep[s->task[i].dep_first + k]].coll == MQ_COLL_ALL_GATHER;
		assert_true(waits);
	}
}

/* Behind the optimizer step, or beside the first micro-batch's forward pass: the same bytes. */
static void new_parameters_come_beside_the_next_pass(void **state)
{
	struct lowered w;
	struct gathered behind, beside;

	lowered_open(&w, GPT, 4, 16);
	behind = gathered(ask(&w, MQ_SYNC_ZERO1, false, 1));
	assert_near(behind.behind_B, 2 * 2 * mq_model_totals(w.model).parameters);
	assert_near(behind.first_B + behind.other_B, 0);
	w.software.overlap_param_gather = true;
	beside = gathered(ask(&w, MQ_SYNC_ZERO1, false, 1));
	expect_waits(w.low.schedule);
	assert_near(beside.first_B, behind.behind_B);
	assert_near(beside.other_B + beside.behind_B, 0);
	/* without shards there is nothing to gather */
	assert_near(gathered(ask(&w, MQ_SYNC_ALLREDUCE, false, 1)).first_B, 0);
	w.software.broadcast_params = true;
	w.software.zero_once_per_step = false;
	const struct mq_shape shape = { .dp = 2, .micro_batches = 4, .sync = MQ_SYNC_ZERO1 };
	assert_null(lowered_shape(&w, &shape));
	assert_non_null(strstr(w.low.message, "ask for one of them"));
	lowered_close(&w);
}

/* Two chunks to a device: the first's parameters are gathered while the second's optimizer step runs. */
static void parameters_of_first_chunks_come_beside_the_step(void **state)
{
	struct mq_shape shape = { .dp = 2,
				  .pp = 2,
				  .micro_batches = MICRO_BATCHES,
				  .virtual = 2,
				  .pipeline = MQ_PIPE_INTERLEAVED,
				  .sync = MQ_SYNC_ZERO1 };
	struct lowered w;

	lowered_open(&w, GPT, 4, 16);
	w.software.overlap_param_gather = true;
	assert_non_null(lowered_shape(&w, &shape));
	double all = gathered(w.low.schedule).first_B;
	assert_near(gathered(w.low.schedule).behind_B, 0);
	w.software.overlap_param_gather_with_optimizer_step = true;
	assert_non_null(lowered_shape(&w, &shape));
	struct gathered g = gathered(w.low.schedule);
	/* layers 0 and 1, and the embeddings: two of four stages */
	const struct mq_op *op = w.model->op;
	double first = 0;
	for (uint32_t i = 0; i < w.model->n_ops; i++)
		first += op[i].layer == MQ_NONE ? i < w.model->n_ops / 2 ? op[i].param : 0 :
			 op[i].layer < 2        ? op[i].param :
						  0;
	assert_near(g.behind_B, 2 * 2 * first);
	assert_near(g.first_B, all - 2 * 2 * first);
	lowered_close(&w);
}

/* Weights of GEMMs that are held in fp8 travel so; embeddings, norms and biases in 16 bits. */
static void weights_in_fp8_are_gathered_in_fp8(void **state)
{
	struct lowered w;
	double weights = 0, all;

	lowered_open(&w, GPT, 4, 16);
	all = mq_model_totals(w.model).parameters;
	for (uint32_t i = 0; i < w.model->n_ops; i++)
		if (w.model->op[i].kind == MQ_OP_GEMM && w.model->op[i].layer != MQ_NONE)
			weights += w.model->op[i].k * w.model->op[i].n;
	w.train.gemm_dtype = MQ_GEMM_FP8;
	assert_near(gathered(ask(&w, MQ_SYNC_ZERO1, false, 1)).behind_B, 2 * 2 * all);
	w.software.fp8_params = true;
	assert_near(gathered(ask(&w, MQ_SYNC_ZERO1, false, 1)).behind_B, 2 * (2 * all - weights));
	lowered_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gathers_and_reductions_are_counted),
		cmocka_unit_test(whole_parameters_are_cast),
		cmocka_unit_test(memory_is_that_of_whole_gradients),
		cmocka_unit_test(whole_gradients_are_added_up),
		cmocka_unit_test(new_parameters_come_beside_the_next_pass),
		cmocka_unit_test(parameters_of_first_chunks_come_beside_the_step),
		cmocka_unit_test(weights_in_fp8_are_gathered_in_fp8),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
