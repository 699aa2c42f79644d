/* test_lower.c - what lowering makes of plans: counts, bytes and order that can be worked out by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lowered.h"
#include "maquette/rng.h"

enum { LAYERS = 4, HIDDEN = 64, HEADS = 4, SEQ = 32, VOCAB = 128 };

static int make_world(void **state)
{
	static struct lowered w;

	lowered_open(&w, "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=128", 16, 16);
	*state = &w;
	return 0;
}

/* One device, one micro-batch: forward and backward are one task each, the update a third. */
static void one_device_is_three_tasks(void **state)
{
	struct lowered *w = *state;
	struct mq_schedule *s = lowered_shape(w, &(struct mq_shape){ .micro_batches = 1 });

	assert_int_equal(s->n_devices, 1);
	assert_int_equal(s->n_tasks, 3);
	assert_within(lowered_model_flop(s), w->low.model_flop, 1e-9 * w->low.model_flop);
}

/* Megatron: per layer two all-reduces forward and two backward, of one activation each. With the vocabulary
 * split, the embedding adds one forward, the head one backward; the loss is counted apart (fp32). */
static void tensor_parallel_reduces_twice_per_layer(void **state)
{
	struct lowered *w = *state;
	struct mq_schedule *s = lowered_shape(w, &(struct mq_shape){ .tp = 2, .micro_batches = 1 });
	double activation = 16.0 * SEQ * HIDDEN * 2;
	struct lowered_sum f = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_REDUCE, MQ_FORWARD);
	struct lowered_sum b = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_REDUCE, MQ_BACKWARD);

	assert_int_equal(f.tasks, 2 * 2 * LAYERS);
	assert_int_equal(b.tasks, 2 * 2 * LAYERS);
	assert_within(f.bytes, 2 * 2 * LAYERS * activation, 1e-6);
	assert_within(b.bytes, 2 * 2 * LAYERS * activation, 1e-6);
}

static double forward_bytes(const struct mq_schedule *s)
{
	double sum = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].kind == MQ_TASK_COMPUTE && s->task[i].phase == MQ_FORWARD)
			sum += s->work[s->task[i].work].bytes;
	return sum;
}

/* A loss of whole logits: these are gathered in place of the three sums of a token. Each of two ranks copies all of
 * them twice (2 x 4 bytes) and passes over them (6); before, over its half. */
static void whole_logits_are_gathered(void **state)
{
	struct lowered *w = *state;
	const struct mq_shape shape = { .tp = 2, .micro_batches = 1, .vocab_parallel = true };
	struct mq_schedule *s = lowered_shape(w, &shape);
	double logits = 16.0 * SEQ * VOCAB, bytes = forward_bytes(s);
	uint32_t sums = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_REDUCE, MQ_FORWARD).tasks;

	assert_int_equal(lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, -1).tasks, 0);
	w->software.gather_logits = true;
	s = lowered_shape(w, &shape);
	assert_int_equal(lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, MQ_FORWARD).tasks, 2);
	assert_within(lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, -1).bytes, 2 * 2 * logits, 1e-6);
	assert_int_equal(lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_REDUCE, MQ_FORWARD).tasks, sums - 2);
	assert_within(forward_bytes(s) - bytes, 2 * (8 + 6 - 3) * logits, 1e-6 * bytes);
	w->software.gather_logits = false;
}

/* Sequence parallelism: all-gather and reduce-scatter in place of each all-reduce. */
static void sequence_parallel_gathers_and_scatters(void **state)
{
	struct lowered *w = *state;
	struct mq_schedule *s =
		lowered_shape(w, &(struct mq_shape){ .tp = 2, .micro_batches = 1, .sequence_parallel = true });
	struct lowered_sum ag = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, MQ_FORWARD);
	struct lowered_sum rs = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_REDUCE_SCATTER, MQ_FORWARD);

	/* Every gather feeds a column-parallel GEMM; the head works on the whole sequence too. */
	assert_int_equal(ag.tasks, 2 * (2 * LAYERS + 1));
	assert_int_equal(rs.tasks, 2 * 2 * LAYERS);
	/* In the backward pass what a GEMM took is gathered once more for its weights, unless it is kept. */
	ag = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, MQ_BACKWARD);
	w->software.regather_in_backward = false;
	s = lowered_shape(w, &(struct mq_shape){ .tp = 2, .micro_batches = 1, .sequence_parallel = true });
	w->software.regather_in_backward = true;
	assert_int_equal(ag.tasks - lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, MQ_BACKWARD).tasks,
			 2 * (2 * LAYERS + 1));
}

/* Data parallelism: one all-reduce of all parameters, in the gradient's type. */
static void data_parallel_reduces_all_parameters_once(void **state)
{
	struct lowered *w = *state;
	struct mq_schedule *s = lowered_shape(w, &(struct mq_shape){ .dp = 4, .micro_batches = 2 });
	struct lowered_sum c = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_REDUCE, -1);
	double parameters = mq_model_totals(w->model).parameters;

	assert_int_equal(c.tasks, 4);
	assert_within(c.bytes, 4 * parameters * 2, 1e-6 * parameters);
	assert_within(lowered_model_flop(s), w->low.model_flop, 1e-9 * w->low.model_flop);
}

/* A pipeline sends one activation per boundary and micro-batch, and one gradient back. */
static void pipeline_sends_activations_and_gradients(void **state)
{
	struct lowered *w = *state;

	for (int p = MQ_PIPE_GPIPE; p <= MQ_PIPE_ZB_H1; p++) {
		if (p == MQ_PIPE_INTERLEAVED)
			continue;
		struct mq_schedule *s =
			lowered_shape(w, &(struct mq_shape){ .pp = 4, .micro_batches = 8, .pipeline = (uint8_t)p });
		struct lowered_sum sends = lowered_count(s, MQ_TASK_SEND, -1, -1);
		double message = 16.0 / 8 * SEQ * HIDDEN * 2;

		assert_int_equal(sends.tasks, 3 * 8 * 2);
		assert_within(sends.bytes, 3 * 8 * 2 * message, 1e-6);
		assert_within(lowered_model_flop(s), w->low.model_flop, 1e-9 * w->low.model_flop);
	}
}

/* Sufficient factors are gathered whether weights have a pass of their own or not, and as many gradients formed. */
static void factors_are_gathered_in_every_schedule(void **state)
{
	struct lowered *w = *state;
	double bytes = 0, flop = 0;

	for (int p = MQ_PIPE_1F1B; p <= MQ_PIPE_ZB_H1; p++) {
		if (p == MQ_PIPE_INTERLEAVED)
			continue;
		struct mq_schedule *s = lowered_shape(w, &(struct mq_shape){ .dp = 2,
									     .pp = 2,
									     .micro_batches = 4,
									     .sync = MQ_SYNC_DUPLICATE,
									     .pipeline = (uint8_t)p });
		struct lowered_sum gathers = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, -1);

		assert_true(gathers.bytes > 0);
		if (bytes > 0) {
			assert_within(gathers.bytes, bytes, 1e-9 * bytes);
			assert_within(lowered_model_flop(s), flop, 1e-9 * flop);
		}
		bytes = gathers.bytes;
		flop = lowered_model_flop(s);
	}
}

static void interleaved_walks_every_chunk(void **state)
{
	struct lowered *w = *state;
	struct mq_schedule *s = lowered_shape(
		w, &(struct mq_shape){ .pp = 2, .virtual = 2, .micro_batches = 4, .pipeline = MQ_PIPE_INTERLEAVED });

	assert_int_equal(lowered_count(s, MQ_TASK_SEND, -1, -1).tasks, 3 * 4 * 2);
	assert_within(lowered_model_flop(s), w->low.model_flop, 1e-9 * w->low.model_flop);
}

/* Where the V turns round nothing is sent. */
static void v_schedules_turn_on_one_rank(void **state)
{
	struct lowered *w = *state;

	for (int p = MQ_PIPE_ZBV; p <= MQ_PIPE_DUALPIPE_V; p++) {
		struct mq_schedule *s = lowered_shape(
			w, &(struct mq_shape){ .pp = 2, .virtual = 2, .micro_batches = 4, .pipeline = (uint8_t)p });

		assert_int_equal(lowered_count(s, MQ_TASK_SEND, -1, -1).tasks, 2 * 4 * 2);
		assert_within(lowered_model_flop(s), w->low.model_flop, 1e-9 * w->low.model_flop);
	}
}

/* Two stages on the same devices, cut behind a row-parallel product: one pass adds its partial sums up, another
 * waits for them. */
static void a_turn_waits_for_what_it_sums(void **state)
{
	struct lowered *w = *state;
	const struct mq_shape shape = { .tp = 2, .micro_batches = 2 };
	uint32_t cut = 0, waits = 0, i = 0;

	assert_int_equal(mq_plan_from_shape(&shape, w->model, w->cluster, &w->arena, &w->plan, &w->err), MQ_OK);
	while (w->plan.config[w->plan.config_of[cut]].split[MQ_DIM_IN] == 1)
		cut++;
	for (uint32_t c = 0, n = w->plan.n_configs; c < n; c++) {
		uint32_t copy = mq_plan_add_config(&w->plan, &w->arena, 2);

		w->plan.config[copy] = w->plan.config[c];
		w->plan.config[copy].stage = 1;
		for (uint32_t op = cut + 1; op < w->model->n_ops; op++)
			if (w->plan.config_of[op] == c)
				w->plan.config_of[op] = copy;
	}
	w->plan.virtual = 2;
	w->plan.pipeline = MQ_PIPE_ZBV;
	struct mq_schedule *s = lowered_plan(w);
	while (i < s->n_tasks && !(s->task[i].stage == 1 && s->task[i].kind == MQ_TASK_COMPUTE))
		i++;
	assert_true(i < s->n_tasks);
	for (uint32_t d = 0; d < s->task[i].n_deps; d++) {
		const struct mq_task *before = &s->task[s->dep[s->task[i].dep_first + d]];

		waits += before->stage == 0 && before->kind == MQ_TASK_COLLECTIVE && before->coll == MQ_COLL_ALL_REDUCE;
	}
	assert_int_equal(waits, 1);
}

/* The embedding alone on the first stage (Megatron counts it as a layer), its vocabulary split, behind it a
 * layer split along the sequence: partial sums are scattered before they cross, gradients gathered behind. */
static void bare_embedding_sends_parts(void **state)
{
	static const uint32_t layers[] = { 0, LAYERS, 0 };
	struct lowered *w = *state;
	struct mq_schedule *s = lowered_shape(w, &(struct mq_shape){ .tp = 2,
								     .pp = 3,
								     .micro_batches = 4,
								     .sequence_parallel = true,
								     .vocab_parallel = true,
								     .pipeline = MQ_PIPE_1F1B,
								     .stage_layers = layers });
	double activation = 16.0 / 4 * SEQ * HIDDEN * 2;
	struct lowered_sum sends = lowered_count(s, MQ_TASK_SEND, -1, -1), rs = { 0 }, ag = { 0 };

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];

		if (t->stage || t->kind != MQ_TASK_COLLECTIVE || t->micro_batch == MQ_NONE)
			continue;
		rs.tasks += t->coll == MQ_COLL_REDUCE_SCATTER;
		rs.bytes += t->coll == MQ_COLL_REDUCE_SCATTER ? t->bytes : 0;
		ag.tasks += t->coll == MQ_COLL_ALL_GATHER;
		ag.bytes += t->coll == MQ_COLL_ALL_GATHER ? t->bytes : 0;
	}
	assert_int_equal(s->n_devices, 6);
	assert_int_equal(sends.tasks, 2 * 2 * 2 * 4); /* boundaries, ways, halves, micro-batches */
	assert_within(sends.bytes, 2 * 2 * 4 * activation, 1e-6);
	assert_int_equal(rs.tasks, 2 * 4);
	assert_within(rs.bytes, 2 * 4 * activation, 1e-6);
	assert_int_equal(ag.tasks, 2 * 4);
	assert_within(ag.bytes, 2 * 4 * activation, 1e-6);
	assert_within(lowered_model_flop(s), w->low.model_flop, 1e-9 * w->low.model_flop);

	static const uint32_t hole[] = { 2, 0, 2 };
	struct mq_shape shape = { .pp = 3, .micro_batches = 4, .stage_layers = hole };
	assert_int_equal(mq_plan_from_shape(&shape, w->model, w->cluster, &w->arena, &w->plan, &w->err), MQ_EINPUT);
	assert_non_null(strstr(w->err.text, "stage 1 without a layer"));
}

static void zero_shards_what_it_says(void **state)
{
	struct lowered *w = *state;
	double parameters = mq_model_totals(w->model).parameters * 2;

	for (int sync = MQ_SYNC_ZERO1; sync <= MQ_SYNC_ZERO3; sync++) {
		struct mq_schedule *s =
			lowered_shape(w, &(struct mq_shape){ .dp = 4, .micro_batches = 2, .sync = (uint8_t)sync });
		struct lowered_sum rs = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_REDUCE_SCATTER, -1);
		struct lowered_sum ag = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, -1);
		double times_rs = sync == MQ_SYNC_ZERO1 ? 1 : 2, times_ag = sync == MQ_SYNC_ZERO3 ? 4 : 1;

		assert_within(rs.bytes, 4 * times_rs * parameters, 1e-6 * parameters);
		assert_within(ag.bytes, 4 * times_ag * parameters, 1e-6 * parameters);
		double held = w->low.memory[0].parameter_B;
		assert_within(held, sync == MQ_SYNC_ZERO3 ? parameters / 4 : parameters, 1e-6 * parameters);
		assert_within(w->low.memory[0].optimizer_B, parameters * 6 / 4, 1e-6 * parameters);
	}
}

/* ZeRO-1 of software that sums gradients on all ranks: twice the bytes of a scattering, and parts gathered. */
static void zero_may_reduce_whole_gradients(void **state)
{
	struct lowered *w = *state;
	double parameters = mq_model_totals(w->model).parameters * 2;

	w->software.zero1_allreduce = true;
	struct mq_schedule *s =
		lowered_shape(w, &(struct mq_shape){ .dp = 4, .micro_batches = 2, .sync = MQ_SYNC_ZERO1 });
	w->software.zero1_allreduce = false;
	assert_int_equal(lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_REDUCE_SCATTER, -1).tasks, 0);
	assert_within(lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_REDUCE, -1).bytes, 4 * parameters,
		      1e-6 * parameters);
	assert_within(lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, -1).bytes, 4 * parameters,
		      1e-6 * parameters);
}

static void full_recomputation_runs_forward_again(void **state)
{
	struct lowered *w = *state;
	double flop = 0;
	struct mq_schedule *s =
		lowered_shape(w, &(struct mq_shape){ .micro_batches = 1, .recompute = MQ_RECOMPUTE_FULL });

	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].kind == MQ_TASK_COMPUTE)
			flop += s->work[s->task[i].work].flop - s->work[s->task[i].work].model_flop;
	double layers = 0;
	for (uint32_t op = 0; op < w->model->n_ops; op++)
		if (w->model->op[op].layer != MQ_NONE)
			layers += w->model->op[op].flop * w->train.batch;
	/* What is counted apart is the second forward, and the optimizer, which has no model FLOPs. */
	assert_true(flop >= layers * (1 - 1e-9));
	assert_true(flop < layers * 1.5);
}

static void context_parallel_gathers_keys(void **state)
{
	struct lowered *w = *state;
	struct mq_schedule *s = lowered_shape(w, &(struct mq_shape){ .cp = 2, .micro_batches = 1 });
	struct lowered_sum ag = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, MQ_FORWARD);

	assert_int_equal(ag.tasks, 2 * LAYERS);
	assert_within(ag.bytes, 2.0 * LAYERS * 16 * SEQ * 2 * HIDDEN * 2, 1e-6);
}

static double attention_flop(const struct mq_schedule *s, uint32_t *remote)
{
	double flop = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		for (uint32_t k = 0; s->task[i].kind == MQ_TASK_COMPUTE && k < s->work[s->task[i].work].n_kernels;
		     k++) {
			const struct mq_kernel *kernel = &s->work[s->task[i].work].kernel[k];

			if (kernel->kind != MQ_KERNEL_ATTENTION)
				continue;
			flop += kernel->flop;
			*remote += kernel->steps == 1;
		}
	return flop;
}

/* A ring's steps do the work of one call, and all but the first of them wait for others' keys. With shared
 * heads of keys repeated for each head of queries, four times as much goes around. */
static void context_parallel_takes_steps(void **state)
{
	struct lowered *w = *state;
	struct mq_model_request rq = {
		.spec = "llama:layers=2,hidden=64,heads=8,kv_heads=2,ffn=64,seq=32,vocab=128",
		.train = &w->train,
	};
	struct mq_model *gpt = w->model;
	uint32_t none = 0, remote = 0;

	assert_int_equal(mq_model_load(&rq, &w->arena, &w->model, &w->err), MQ_OK);
	double one = attention_flop(lowered_shape(w, &(struct mq_shape){ .micro_batches = 1 }), &none);
	struct mq_schedule *s = lowered_shape(w, &(struct mq_shape){ .cp = 2, .micro_batches = 1 });
	assert_within(attention_flop(s, &remote), one, 1e-6 * one);
	assert_int_equal(none, 0);
	assert_int_equal(remote, 2 * 2 * 2); /* devices, layers, passes */
	double shared = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, MQ_FORWARD).bytes;
	w->software.repeat_kv = MQ_REPEAT_ATTENTION;
	s = lowered_shape(w, &(struct mq_shape){ .cp = 2, .micro_batches = 1 });
	assert_within(lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, MQ_FORWARD).bytes, 4 * shared, 1e-6);
	w->software.repeat_kv = MQ_REPEAT_NONE;
	w->train.gemm_dtype = MQ_GEMM_FP8; /* attention in fp8 sends half of it */
	w->software.fp8_attention = true;
	s = lowered_shape(w, &(struct mq_shape){ .cp = 2, .micro_batches = 1 });
	assert_within(lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_GATHER, MQ_FORWARD).bytes, shared / 2, 1e-6);
	w->software.fp8_attention = false;
	w->train.gemm_dtype = MQ_GEMM_AS_DTYPE;
	w->model = gpt;
}

/* A stage of four devices in pairs behind one of two single devices: whole replicas all the same. */
static void stages_of_unequal_tensor_parallelism(void **state)
{
	struct lowered *w = *state;
	const uint32_t tp[] = { 1, 2 };
	struct mq_schedule *s =
		lowered_shape(w, &(struct mq_shape){ .dp = 2, .pp = 2, .tp = 2, .stage_tp = tp, .micro_batches = 2 });
	struct lowered_sum ar = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_REDUCE, MQ_FORWARD);
	uint32_t none = 0;
	double flop = attention_flop(s, &none);

	assert_int_equal(s->n_devices, 6);
	/* only the second stage's layers reduce: two pairs, twice a layer and micro-batch */
	assert_int_equal(ar.tasks, 4 * 2 * LAYERS / 2 * 2);
	s = lowered_shape(w, &(struct mq_shape){ .micro_batches = 2 });
	assert_within(flop, attention_flop(s, &none), 1e-6 * flop);
}

/* A tensor that both of a pair hold whole is sent by one of them, by turns; where the receiver is one of the two,
 * by nobody. */
static void one_of_the_replicas_sends(void **state)
{
	struct lowered *w = *state;
	const uint32_t tp[] = { 2, 1 };
	double activation = (double)w->train.batch / 2 * SEQ * HIDDEN * 2; /* of a replica's micro-batch */
	struct mq_schedule *s =
		lowered_shape(w, &(struct mq_shape){ .dp = 2, .pp = 2, .tp = 2, .stage_tp = tp, .micro_batches = 1 });

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];

		if (t->kind != MQ_TASK_SEND || t->phase != MQ_FORWARD)
			continue;
		assert_within(t->bytes, activation, 1e-6);
		assert_int_equal(s->device[t->device], s->device[t->peer] == 4 ? 0 : 3);
	}
	assert_int_equal(lowered_count(s, MQ_TASK_SEND, -1, MQ_FORWARD).tasks, 2);

	(void)lowered_shape(w, &(struct mq_shape){ .tp = 2, .micro_batches = 1 });
	uint32_t alone = mq_plan_add_config(&w->plan, &w->arena, 1), op = w->model->n_ops;
	w->plan.config[alone].device[0] = 1;
	while (op-- > 0 && w->model->op[op].layer == MQ_NONE)
		w->plan.config_of[op] = alone;
	s = lowered_plan(w);
	assert_int_equal(lowered_count(s, MQ_TASK_SEND, -1, MQ_FORWARD).tasks, 0);
	assert_int_equal(lowered_count(s, MQ_TASK_SEND, -1, MQ_BACKWARD).tasks,
			 1); /* its gradient, to the other of the pair */
}

/* A token goes to its 2 of 4 experts, on 2 devices: two copies, or where they are merged 1.5 on average; there
 * and back, forward and backward. Scores and indices of the router go with them. */
static void experts_exchange_copies(void **state)
{
	struct lowered *w = *state;
	struct mq_model_request rq = {
		.spec = "moe:layers=1,hidden=64,heads=4,kv_heads=4,ffn=64,experts=4,top_k=2,seq=32,"
			"vocab=128",
		.train = &w->train,
	};
	const struct mq_shape shape = { .dp = 2, .ep = 2, .micro_batches = 1 };
	struct mq_model *gpt = w->model;
	double bytes[2];

	for (int merge = 0; merge < 2; merge++) {
		w->software.deepep = merge;
		assert_int_equal(mq_model_load(&rq, &w->arena, &w->model, &w->err), MQ_OK);
		struct lowered_sum a2a =
			lowered_count(lowered_shape(w, &shape), MQ_TASK_COLLECTIVE, MQ_COLL_ALL_TO_ALL, -1);
		bytes[merge] = a2a.bytes;
	}
	w->model = gpt;
	w->software.deepep = false;
	/* 4 exchanges by 2 devices of 8 samples of 32 tokens of 64 elements of 2 bytes */
	assert_within(bytes[0] - bytes[1], 4 * 2 * (2 - 1.5) * 8 * 32 * 64 * 2, 1e-6);
	assert_true(bytes[0] >= 4 * 2 * 2.0 * 8 * 32 * 64 * 2);
}

/* Routing limited to groups of experts: of 4 groups on 2 ranks both experts of a token lie in g of them. */
static void experts_in_groups_visit_fewer(void **state)
{
	struct lowered *w = *state;
	struct mq_model_request rq = {
		.spec = "moe:layers=1,hidden=64,heads=4,kv_heads=4,ffn=64,experts=4,top_k=2,seq=32,"
			"vocab=128",
		.train = &w->train,
	};
	const struct mq_shape shape = { .dp = 2, .ep = 2, .micro_batches = 1 };
	/* anywhere 2 (1 - 1/4); one group one rank; two of four groups: with 4 in 6 one on each rank, both
	 * visited in 2 of 4 cases, so that (2 * 1 + 4 * 1.5) / 6 are on average */
	const double visits[3] = { 1.5, 1, 8.0 / 6 };
	struct mq_model *gpt = w->model;
	double bytes[3];

	w->software.deepep = true;
	for (uint32_t limit = 0; limit < 3; limit++) {
		assert_int_equal(mq_model_load(&rq, &w->arena, &w->model, &w->err), MQ_OK);
		w->model->expert_groups = limit ? 4 : 0;
		w->model->group_limit = limit;
		bytes[limit] =
			lowered_count(lowered_shape(w, &shape), MQ_TASK_COLLECTIVE, MQ_COLL_ALL_TO_ALL, -1).bytes;
	}
	w->model = gpt;
	w->software.deepep = false;
	for (uint32_t limit = 1; limit < 3; limit++)
		assert_within(bytes[0] - bytes[limit], 4 * 2 * (visits[0] - visits[limit]) * 8 * 32 * 64 * 2, 1e-6);
}

static void uneven_shares_keep_the_batch(void **state)
{
	struct lowered *w = *state;
	double share[3] = { 5, 2, 1 };
	struct mq_schedule *s = lowered_shape(w, &(struct mq_shape){ .dp = 3, .micro_batches = 2, .share = share });

	assert_within(lowered_model_flop(s), w->low.model_flop, 1e-9 * w->low.model_flop);
}

/* The replica that has three quarters of a micro-batch sends three quarters of its bytes. */
static void uneven_shares_send_unevenly(void **state)
{
	struct lowered *w = *state;
	double share[2] = { 3, 1 }, sent[2] = { 0 }, message = 16.0 / 2 * SEQ * HIDDEN * 2;
	struct mq_schedule *s = lowered_shape(
		w,
		&(struct mq_shape){ .dp = 2, .pp = 2, .micro_batches = 2, .pipeline = MQ_PIPE_1F1B, .share = share });

	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].kind == MQ_TASK_SEND && s->task[i].phase == MQ_FORWARD)
			sent[s->device[s->task[i].device] % 2] += s->task[i].bytes;
	assert_within(sent[0], 2 * message * 3 / 4, 1e-6);
	assert_within(sent[1], 2 * message / 4, 1e-6);
}

/* Of each token its maximum, the sum of its exponentials and the logit of its target, in fp32. */
static void split_vocabulary_reduces_three_numbers(void **state)
{
	struct lowered *w = *state;
	struct mq_shape shape = { .tp = 2, .micro_batches = 1 };
	double apart =
		lowered_count(lowered_shape(w, &shape), MQ_TASK_COLLECTIVE, MQ_COLL_ALL_REDUCE, MQ_FORWARD).bytes;

	shape.vocab_parallel = true;
	double split =
		lowered_count(lowered_shape(w, &shape), MQ_TASK_COLLECTIVE, MQ_COLL_ALL_REDUCE, MQ_FORWARD).bytes;
	double embedding = 16.0 * SEQ * HIDDEN * 2;
	assert_within(split - apart, 2 * (embedding + 16.0 * SEQ * 3 * 4), 1e-6);
}

/* ZeRO-1 in groups of two of four: shards are summed between the groups, and each rank updates half. */
static void zero_groups_agree_on_shards(void **state)
{
	struct lowered *w = *state;
	struct mq_shape shape = { .dp = 4, .micro_batches = 2, .sync = MQ_SYNC_ZERO1 };
	double parameters = mq_model_totals(w->model).parameters, updated[2] = { 0 };

	lowered_shape(w, &shape);
	for (int grouped = 0; grouped < 2; grouped++) {
		w->plan.zero_group = grouped ? 2 : 0;
		struct mq_schedule *s = lowered_plan(w);

		for (uint32_t i = 0; i < s->n_tasks; i++)
			for (uint32_t k = 0;
			     s->task[i].kind == MQ_TASK_COMPUTE && k < s->work[s->task[i].work].n_kernels; k++)
				if (s->work[s->task[i].work].kernel[k].phase == MQ_UPDATE)
					updated[grouped] += s->work[s->task[i].work].kernel[k].bytes;
		struct lowered_sum sums = lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_REDUCE, -1);
		assert_within(sums.bytes, grouped ? 4 * parameters * 2 / 2 : 0, 1e-6 * parameters);
	}
	assert_true(updated[0] > 0);
	assert_within(updated[1], 2 * updated[0], 1e-6 * updated[0]);
}

/* Gradients go down, parameters come up, both by shard; no optimizer state stays on the device. */
static void offload_copies_shards(void **state)
{
	struct lowered *w = *state;
	struct mq_shape shape = { .dp = 4, .micro_batches = 2, .sync = MQ_SYNC_ZERO1 };

	assert_int_equal(mq_plan_from_shape(&shape, w->model, w->cluster, &w->arena, &w->plan, &w->err), MQ_OK);
	w->plan.explicit |= MQ_EXPLICIT_OFFLOAD_OPTIMIZER;
	w->plan.offload_optimizer = true;
	struct mq_schedule *s = lowered_plan(w);
	struct lowered_sum copies = lowered_count(s, MQ_TASK_COPY, -1, -1);
	double parameters = mq_model_totals(w->model).parameters;
	assert_int_equal(copies.tasks, 2 * 4);
	assert_within(copies.bytes, 2 * parameters * 2, 1e-6 * parameters);
	assert_within(w->low.memory[0].optimizer_B, 0, 0);

	/* The host updates, and nothing else: copies of weights in fp8 are cast where they are multiplied. */
	uint32_t updates[2] = { 0 }, casts = 0;

	w->train.gemm_dtype = MQ_GEMM_FP8;
	w->software.fp8_cast_B = 3;
	for (int kept = 0; kept < 2; kept++) {
		w->software.save_quantized_operands = kept;
		s = lowered_plan(w);
		for (uint32_t i = 0; i < s->n_works; i++)
			for (uint32_t k = 0; k < s->work[i].n_kernels; k++) {
				const struct mq_kernel *kernel = &s->work[i].kernel[k];

				updates[kept] += kernel->kind == MQ_KERNEL_HOST_UPDATE;
				casts += kept && kernel->phase == MQ_UPDATE && kernel->kind == MQ_KERNEL_COPY;
			}
	}
	assert_true(updates[0] > 0 && updates[1] == updates[0] && casts > 0);
}

/* Every op on the device (index mod 3): tensors cross as send/recv, nothing is lost. */
static void placement_crosses_devices(void **state)
{
	struct lowered *w = *state;
	uint32_t *device = mq_arena_array(&w->arena, w->model->n_ops, uint32_t);

	for (uint32_t op = 0; op < w->model->n_ops; op++)
		device[op] = op % 3;
	mq_plan_from_placement(device, w->model, &w->arena, &w->plan);
	w->plan.micro_batches = 2;
	for (int recompute = MQ_RECOMPUTE_NONE; recompute < MQ_N_RECOMPUTES; recompute++) {
		for (uint32_t c = 0; c < w->plan.n_configs; c++)
			w->plan.config[c].recompute = (uint8_t)recompute;
		struct mq_schedule *s = lowered_plan(w);
		assert_non_null(s);
		assert_within(lowered_model_flop(s), w->low.model_flop, 1e-9 * w->low.model_flop);
		assert_int_equal(lowered_count(s, MQ_TASK_SEND, -1, -1).tasks,
				 lowered_count(s, MQ_TASK_RECV, -1, -1).tasks);
	}
}

/* A graph with backward ops of its own over three devices, one stage each: a chain forward, the same
 * chain back, and two skips: a1 is needed by the backward op of stage 2 (its producer's stage comes
 * before), c1 by that of stage 0 (its producer's stage comes after). */
enum { A1, B1, C1, C2, B2, A2, N_SKIP_OPS };

static const struct skip_edge {
	uint32_t src, dst;
	double elems;
} skip_edge[] = { { A1, B1, 11 }, { B1, C1, 12 }, { C1, C2, 13 }, { C2, B2, 14 },
		  { B2, A2, 15 }, { A1, C2, 11 }, { C1, A2, 13 } };

static void make_skips(struct lowered *w)
{
	static const char *const name[] = { "a1", "b1", "c1", "c2", "b2", "a2" };
	struct mq_model_builder b = { 0 };
	static const char *type[] = { "ideal" };
	double *forward_s, *backward_s;

	mq_model_begin(&b, &w->arena, "skips");
	for (uint32_t op = 0; op < N_SKIP_OPS; op++) {
		uint32_t id = mq_model_add(&b, MQ_OP_PROFILED, name[op]);
		struct mq_op *o = &b.model->op[id];

		o->phase = op < C2 ? MQ_FORWARD : MQ_BACKWARD;
		o->splits = 1u << MQ_DIM_BATCH;
		o->extent[MQ_DIM_BATCH] = 1;
	}
	for (size_t e = 0; e < sizeof(skip_edge) / sizeof(*skip_edge); e++) {
		mq_model_connect(&b, skip_edge[e].src, skip_edge[e].dst, skip_edge[e].elems);
		b.model->op[skip_edge[e].src].output = skip_edge[e].elems;
	}
	forward_s = mq_arena_array(&w->arena, N_SKIP_OPS, double);
	backward_s = mq_arena_array(&w->arena, N_SKIP_OPS, double);
	for (uint32_t op = 0; op < N_SKIP_OPS; op++)
		forward_s[op] = 1;
	b.model->profile =
		(struct mq_profile){ .n_types = 1, .type = type, .forward_s = forward_s, .backward_s = backward_s };
	if (mq_model_finish(&b, &w->model, &w->err) != MQ_OK)
		fail_msg("%s", w->err.text);
}

static uint32_t op_named(const struct mq_model *model, const char *name)
{
	for (uint32_t op = 0; op < model->n_ops; op++)
		if (!strcmp(model->op[op].name, name))
			return op;
	fail_msg("no op %s", name);
	return 0;
}

/* How many micro-batches carry the tensor of an op from one device to another on a channel. */
static uint32_t carried(const struct lowered *w, const char *op, uint32_t src, uint32_t dst, uint32_t channel)
{
	const struct mq_schedule *s = w->low.schedule;
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];

		n += t->kind == MQ_TASK_SEND && t->op == op_named(w->model, op) && s->device[t->device] == src &&
		     s->device[t->peer] == dst && t->channel == channel;
	}
	return n;
}

/* The compute task of a backward op must wait for the skip's arrival, or for a later one on that stream. */
static void assert_waits(const struct lowered *w, const char *op, uint32_t device, const char *tensor)
{
	const struct mq_schedule *s = w->low.schedule;
	uint32_t newest = MQ_NONE, found = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];

		if (s->device[t->device] != device)
			continue;
		if (t->kind == MQ_TASK_RECV && t->op == op_named(w->model, tensor))
			newest = i;
		if (t->kind != MQ_TASK_COMPUTE || t->op != op_named(w->model, op))
			continue;
		bool waits = false;
		for (uint32_t k = 0; k < t->n_deps; k++) {
			uint32_t d = s->dep[t->dep_first + k];

			waits |= s->task[d].kind == MQ_TASK_RECV && d >= newest;
		}
		assert_true(waits);
		found++;
	}
	assert_int_equal(found, 4);
}

static void backward_ops_receive_skips(void **state)
{
	struct lowered *w = *state;
	static const enum mq_pipeline order[] = { MQ_PIPE_1F1B, MQ_PIPE_GPIPE };

	make_skips(w);
	mq_plan_init(&w->plan, &w->arena, N_SKIP_OPS);
	for (uint32_t stage = 0; stage < 3; stage++) {
		uint32_t c = mq_plan_add_config(&w->plan, &w->arena, 1);

		w->plan.config[c].device[0] = stage;
		w->plan.config[c].stage = stage;
	}
	for (uint32_t op = 0; op < N_SKIP_OPS; op++)
		w->plan.config_of[op] = w->model->op[op].name[0] - 'a';
	w->plan.micro_batches = 4;
	for (size_t i = 0; i < 2; i++) {
		w->plan.pipeline = (uint8_t)order[i];
		assert_non_null(lowered_plan(w));
		assert_int_equal(carried(w, "a1", 0, 1, 0), 4);
		assert_int_equal(carried(w, "a1", 0, 2, 0), 4); /* forward to forward pass */
		assert_int_equal(carried(w, "c1", 2, 0, 1), 4); /* backward to backward pass */
		assert_int_equal(carried(w, "c2", 2, 1, 1), 4);
		assert_int_equal(lowered_count(w->low.schedule, MQ_TASK_SEND, -1, -1).tasks, 6 * 4);
		assert_waits(w, "c2", 2, "a1");
		assert_waits(w, "a2", 0, "c1");
	}
}

/* A seed-driven walk over shapes: whatever is accepted is free of deadlock and does all the work. */
static void random_shapes_hold(void **state)
{
	struct lowered *w = *state;
	struct mq_rng rng;
	uint32_t accepted = 0;

	mq_rng_seed(&rng, 20);
	for (int i = 0; i < 300; i++) {
		static const uint32_t degree[] = { 1, 2, 4 };
		struct mq_shape shape = {
			.dp = degree[mq_rng_below(&rng, 3)],
			.tp = degree[mq_rng_below(&rng, 3)],
			.pp = degree[mq_rng_below(&rng, 3)],
			.cp = degree[mq_rng_below(&rng, 2)],
			.micro_batches = degree[mq_rng_below(&rng, 3)],
			.pipeline = (uint8_t)mq_rng_below(&rng, MQ_N_PIPELINES),
			.sync = (uint8_t)mq_rng_below(&rng, MQ_N_SYNCS),
			.recompute = (uint8_t)mq_rng_below(&rng, MQ_N_RECOMPUTES),
			.sequence_parallel = mq_rng_below(&rng, 2),
			.vocab_parallel = mq_rng_below(&rng, 2),
		};

		if ((shape.pipeline == MQ_PIPE_INTERLEAVED && shape.pp == 2) || mq_pipeline_is_v(shape.pipeline))
			shape.virtual = 2;
		if (mq_plan_from_shape(&shape, w->model, w->cluster, &w->arena, &w->plan, &w->err) != MQ_OK)
			continue;
		w->plan.explicit = MQ_EXPLICIT_ALL;
		w->plan.overlap_grads = mq_rng_below(&rng, 2);
		w->plan.scatter_gather = mq_rng_below(&rng, 2);
		w->plan.overlap_tp = shape.tp > 1 && mq_rng_below(&rng, 2);
		struct mq_schedule *s = lowered_plan(w);
		if (!s)
			continue;
		accepted++;
		/* Replicated work (norms under plain tensor parallelism) may add, never lack. */
		assert_true(lowered_model_flop(s) >= w->low.model_flop * (1 - 1e-9));
	}
	assert_true(accepted > 150);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_device_is_three_tasks),
		cmocka_unit_test(tensor_parallel_reduces_twice_per_layer),
		cmocka_unit_test(whole_logits_are_gathered),
		cmocka_unit_test(sequence_parallel_gathers_and_scatters),
		cmocka_unit_test(data_parallel_reduces_all_parameters_once),
		cmocka_unit_test(pipeline_sends_activations_and_gradients),
		cmocka_unit_test(factors_are_gathered_in_every_schedule),
		cmocka_unit_test(interleaved_walks_every_chunk),
		cmocka_unit_test(v_schedules_turn_on_one_rank),
		cmocka_unit_test(a_turn_waits_for_what_it_sums),
		cmocka_unit_test(bare_embedding_sends_parts),
		cmocka_unit_test(zero_shards_what_it_says),
		cmocka_unit_test(zero_may_reduce_whole_gradients),
		cmocka_unit_test(full_recomputation_runs_forward_again),
		cmocka_unit_test(context_parallel_gathers_keys),
		cmocka_unit_test(context_parallel_takes_steps),
		cmocka_unit_test(stages_of_unequal_tensor_parallelism),
		cmocka_unit_test(one_of_the_replicas_sends),
		cmocka_unit_test(experts_exchange_copies),
		cmocka_unit_test(experts_in_groups_visit_fewer),
		cmocka_unit_test(uneven_shares_keep_the_batch),
		cmocka_unit_test(uneven_shares_send_unevenly),
		cmocka_unit_test(split_vocabulary_reduces_three_numbers),
		cmocka_unit_test(zero_groups_agree_on_shards),
		cmocka_unit_test(offload_copies_shards),
		cmocka_unit_test(placement_crosses_devices),
		cmocka_unit_test(random_shapes_hold),
		cmocka_unit_test(backward_ops_receive_skips),
	};

	return cmocka_run_group_tests(tests, make_world, lowered_free);
}
