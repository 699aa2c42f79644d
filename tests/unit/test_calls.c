/*
 * test_calls.c - what hosts do beside launching: agree on collectives, wait for the headers of messages, reduce
 * in more calls than need be. Counts and times that can be worked out by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "maquette/cost.h"
#include "executors/execute.h"
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

static double flop_again(const struct mq_schedule *s)
{
	double sum = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].kind == MQ_TASK_COMPUTE)
			sum += s->work[s->task[i].work].flop - s->work[s->task[i].work].model_flop;
	return sum;
}

/* Megatron Core's selective recomputation runs fused attention again, two products of s s h in each of 4 layers; its
 * predecessor's spared it that. */
static void fused_attention_runs_again(void **state)
{
	const struct mq_shape shape = { .micro_batches = 8, .recompute = MQ_RECOMPUTE_SELECTIVE };
	struct lowered *w = *state;
	double without = flop_again(lowered_shape(w, &shape));

	w->software.selective = MQ_SELECTIVE_CORE_ATTN;
	assert_within(flop_again(lowered_shape(w, &shape)) - without, 4. * 16 * 2 * 2 * 32 * 32 * 64, 1);
	w->software.selective = MQ_SELECTIVE_ATTENTION;
}

/* A pass waits for the send before it where stages do; chunks of one device only where all do. */
static void passes_wait_for_sends(void **state)
{
	static const struct {
		uint32_t blocking_sends, chunks, waits;
	} cases[] = {
		{ MQ_SENDS_NONE, 1, 0 },  { MQ_SENDS_PLAIN, 1, 1 }, { MQ_SENDS_ALL, 1, 1 },
		{ MQ_SENDS_PLAIN, 2, 0 }, { MQ_SENDS_ALL, 2, 1 },
	};
	struct lowered *w = *state;

	for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
		uint32_t waits = 0, sends = 0;

		w->software.blocking_sends = cases[c].blocking_sends;
		struct mq_schedule *s = lowered_shape(
			w, &(struct mq_shape){ .pp = 2,
					       .virtual = cases[c].chunks,
					       .micro_batches = 8,
					       .pipeline = cases[c].chunks > 1 ? MQ_PIPE_INTERLEAVED : MQ_PIPE_1F1B });
		for (uint32_t i = 0; i < s->n_tasks; i++) {
			sends += s->task[i].kind == MQ_TASK_SEND;
			for (uint32_t k = 0; k < s->task[i].n_deps && s->task[i].kind == MQ_TASK_COMPUTE; k++)
				waits += s->task[s->dep[s->task[i].dep_first + k]].kind == MQ_TASK_SEND;
		}
		/* every send but each device's last has a pass behind it */
		assert_true(sends >= 16);
		assert_true(cases[c].waits ? waits >= sends - 2 : waits == 0);
	}
	w->software.blocking_sends = MQ_SENDS_NONE;
}

/* Hosts that agree on each collective of tensor parallelism: what is less than the devices' work and collectives
 * is hidden, all that is more is lost. */
static void hosts_agree_on_collectives(void **state)
{
	struct lowered *w = *state;
	double call_s[3];
	uint32_t calls = 0;

	for (int i = 0; i < 3; i++) {
		w->software.torch_distributed_debug_us = i == 0 ? 1e-6 : i * 1e4;
		struct mq_schedule *s = lowered_shape(w, &(struct mq_shape){ .tp = 2, .micro_batches = 1 });
		calls = collectives(s, 0);
		call_s[i] = delays(s, 0, MQ_KERNEL_CALL);
	}
	w->software.torch_distributed_debug_us = 0;
	assert_within(call_s[0], 0, 0);
	assert_within(call_s[2] - call_s[1], calls * 2 * 1e-2, 1e-9);
}

/* Of a device's passes but the optimizer's. */
struct passes {
	double takes_s, busy_s, launches;
	bool bound; /* a task whose launches alone take longer than its kernels */
};

static struct passes passes_of(const struct lowered *w, const struct mq_schedule *s, uint32_t device)
{
	const struct mq_device_calib *calib = &w->calib->device[0];
	struct passes p = { 0 };

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_work *work = &s->work[s->task[i].work];
		double launches = 0;

		if (s->task[i].kind != MQ_TASK_COMPUTE || s->task[i].device != device || s->task[i].phase == MQ_UPDATE)
			continue;
		struct mq_cost_parts parts = mq_cost_parts(calib, work);
		for (uint32_t k = 0; k < work->n_kernels; k++)
			launches += work->kernel[k].launches;
		p.takes_s += mq_cost_work(calib, work);
		p.busy_s += mq_cost_busy(&parts);
		p.launches += launches;
		p.bound |= launches * calib->host_launch_s > mq_cost_busy(&parts);
	}
	return p;
}

/* Hosts launch a pass of tensor parallelism without waiting for collectives: a task whose launches take longer than
 * its kernels costs nothing where the pass as a whole has more to compute; where hosts need more for the pass, every
 * launch counts, and a collective as two of them. */
static void hosts_run_ahead(void **state)
{
	struct lowered *w = *state;
	const struct mq_shape shape = { .tp = 2, .micro_batches = 1 };
	struct mq_device_calib *calib = &w->calib->device[0];
	struct passes late[2];

	struct mq_schedule *s = lowered_shape(w, &shape);
	const uint32_t calls = collectives(s, 0);
	const struct passes busy = passes_of(w, s, 0);
	assert_true(calls > 0);
	calib->host_launch_s = busy.busy_s / (3 * (busy.launches + 2 * calls));
	const struct passes ahead = passes_of(w, lowered_shape(w, &shape), 0);
	assert_true(ahead.bound);
	assert_within(ahead.takes_s, busy.takes_s, 1e-12);
	for (int i = 0; i < 2; i++) {
		calib->host_launch_s = 1e-2 * (i + 1);
		late[i] = passes_of(w, lowered_shape(w, &shape), 0);
	}
	calib->host_launch_s = 0;
	assert_within(late[1].takes_s - late[0].takes_s, (busy.launches + 2 * calls) * 1e-2, 1e-9);
}

/* Launches of the optimizer step on device 0. */
static double launches_of_update(const struct mq_schedule *s)
{
	double launches = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_work *work = &s->work[s->task[i].work];

		if (s->task[i].kind != MQ_TASK_COMPUTE || s->task[i].device || s->task[i].phase != MQ_UPDATE)
			continue;
		for (uint32_t k = 0; k < work->n_kernels; k++)
			launches += work->kernel[k].launches;
	}
	return launches;
}

/* Bytes that the passes move on device 0 in copies. */
static double copied_B(const struct mq_schedule *s)
{
	double bytes = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_work *work = &s->work[s->task[i].work];

		for (uint32_t k = 0; k < work->n_kernels && s->task[i].kind == MQ_TASK_COMPUTE && !s->task[i].device;
		     k++)
			bytes += work->kernel[k].kind == MQ_KERNEL_COPY ? work->kernel[k].bytes : 0;
	}
	return bytes;
}

/* Tasks behind the passes, and those that gather what is divided. */
static uint32_t tasks_of_step(const struct mq_schedule *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		n += s->task[i].kind == MQ_TASK_COLLECTIVE ? s->task[i].coll == MQ_COLL_ALL_GATHER :
							     s->task[i].phase == MQ_UPDATE;
	return n;
}

/* Without an optimizer nothing is updated, gathered or moved to the host, and each pass adds to the gradients of those
 * before it. */
static void passes_run_alone(void **state)
{
	struct lowered *w = *state;
	const struct mq_shape shape = { .micro_batches = 1 };
	const struct mq_shape zero1 = { .dp = 2, .micro_batches = 1, .sync = MQ_SYNC_ZERO1 };
	const enum mq_optimizer optimizer = w->train.optimizer;
	double param = 0, bytes[2];

	for (uint32_t op = 0; op < w->model->n_ops; op++)
		param += w->model->op[op].param;
	assert_true(launches_of_update(lowered_shape(w, &shape)) > 0);
	w->software.accum_B = 12;
	bytes[0] = copied_B(lowered_shape(w, &shape));
	w->train.optimizer = MQ_OPTIMIZER_NONE;
	struct mq_schedule *s = lowered_shape(w, &shape);
	bytes[1] = copied_B(s);
	for (uint32_t i = 0; i < 4; i++) {
		w->software.offload_optimizer = i % 2;
		w->software.overlap_param_gather = i / 2;
		w->train.optimizer = MQ_OPTIMIZER_NONE;
		assert_int_equal(tasks_of_step(lowered_shape(w, &zero1)), 0);
		w->train.optimizer = optimizer;
		assert_true(tasks_of_step(lowered_shape(w, &zero1)) > 0);
	}
	w->software.offload_optimizer = w->software.overlap_param_gather = false;
	w->software.accum_B = 0;
	assert_true(launches_of_update(s) == 0);
	assert_within(bytes[1] - bytes[0], 12 * param, 1e-6 * param);
}

/* A step by the analytic executor. */
static double step_s(struct lowered *w, const struct mq_schedule *s)
{
	const struct mq_exec_request rq = {
		.view = { .schedule = s }, .cluster = w->cluster, .calib = w->calib, .timeout_s = INFINITY
	};
	struct mq_timeline timeline;
	enum mq_verdict verdict;

	assert_int_equal(mq_execute_analytic(&rq, &w->arena, &timeline, &verdict, &w->err), MQ_OK);
	assert_int_equal(verdict, MQ_VERDICT_OK);
	return timeline.step_time_s;
}

/* Collectives beside kernels hide nothing of the host's time twice: where it is the host's, a pass takes what the host
 * needs for it, to the last digit. Sequence parallelism gathers and scatters beside products in the backward pass. */
static void a_pass_takes_what_its_host_needs(void **state)
{
	struct lowered *w = *state;
	const struct mq_shape shape = { .tp = 4, .micro_batches = 1, .sequence_parallel = true };
	struct mq_device_calib *calib = &w->calib->device[0];

	struct mq_schedule *s = lowered_shape(w, &shape);
	const struct passes busy = passes_of(w, s, 0);
	const double free_s = step_s(w, s), calls = collectives(s, 0);
	for (int i = 2; i <= 4; i++) { /* so slow that it is the host's in each pass */
		calib->host_launch_s = i * free_s / (busy.launches + 2 * calls);
		double bound_s = step_s(w, lowered_shape(w, &shape));
		double host_s = (busy.launches + 2 * calls) * calib->host_launch_s;
		double update_s = launches_of_update(s) * calib->host_launch_s;
		assert_within(bound_s, host_s + update_s, 1e-9 * host_s);
	}
	calib->host_launch_s = 0;
}

/* Launches on device 0 of kernels whose operation's name contains `part`. */
static double launches_of(const struct lowered *w, const struct mq_schedule *s, const char *part)
{
	double launches = 0;

	for (const struct mq_task *task = s->task; task < s->task + s->n_tasks; task++) {
		if (task->device != 0 || task->kind != MQ_TASK_COMPUTE)
			continue;
		const struct mq_work *work = &s->work[task->work];
		for (uint32_t k = 0; k < work->n_kernels; k++)
			if (work->kernel[k].op != MQ_NONE && strstr(w->model->op[work->kernel[k].op].name, part))
				launches += work->kernel[k].launches;
	}
	return launches;
}

/* What a graph launches costs hosts nothing, whole steps in graphs not even the calls between. */
static void graphs_launch(void **state)
{
	struct lowered *w = *state;
	const struct mq_shape shape = { .tp = 2, .micro_batches = 1 };
	struct mq_device_calib *calib = &w->calib->device[0];
	struct passes late[3];

	struct mq_schedule *s = lowered_shape(w, &shape);
	const uint32_t calls = collectives(s, 0);
	const struct passes busy = passes_of(w, s, 0);
	const double attention = launches_of(w, s, ".attention");
	assert_true(attention >= 2 * 4);
	calib->host_launch_s = 1e-2;
	late[0] = passes_of(w, lowered_shape(w, &shape), 0);
	w->software.cuda_graph_scope = "attention";
	late[1] = passes_of(w, lowered_shape(w, &shape), 0);
	w->software.cuda_graph_scope = "*";
	late[2] = passes_of(w, lowered_shape(w, &shape), 0);
	w->software.cuda_graph_scope = "";
	calib->host_launch_s = 0;
	assert_true(calls > 0);
	assert_within(late[0].takes_s - late[1].takes_s, attention * 1e-2, 1e-9);
	assert_within(late[2].takes_s, busy.takes_s, 1e-12);
}

/* Products in parts beside tensor-parallel communication are one call of the framework, in which a library launches and
 * sends the parts: only that call pays for the framework. */
static void parts_are_one_call(void **state)
{
	struct lowered *w = *state;
	const struct mq_shape shape = { .tp = 4, .micro_batches = 1, .sequence_parallel = true };
	struct mq_device_calib *calib = &w->calib->device[0];
	struct passes late[2];
	uint32_t inside = 0, outside = 0;

	w->software.overlap_tp = true;
	w->software.host = 10;
	const struct mq_schedule *s = lowered_shape(w, &shape);
	for (const struct mq_task *t = s->task; t < s->task + s->n_tasks; t++)
		if (t->device == 0 && t->kind == MQ_TASK_COLLECTIVE && t->phase != MQ_UPDATE)
			*(t->stream == MQ_STREAM_COMM ? &inside : &outside) += 1;
	assert_true(inside > 4 * 4 * 4);
	assert_within(launches_of(w, s, "layer1.up"), 4 * (1 / 4.0 + 1 / 10.0) + 3, 1e-12); /* back 2, update 1 */
	for (int i = 0; i < 2; i++) {
		calib->host_launch_s = 1e-2 * (i + 1);
		late[i] = passes_of(w, lowered_shape(w, &shape), 0);
	}
	calib->host_launch_s = 0;
	w->software.overlap_tp = false;
	w->software.host = 1;
	assert_within(late[1].takes_s - late[0].takes_s, (10 * late[0].launches + 2 * inside + 20 * outside) * 1e-2,
		      1e-7);
}

/* Hosts that wait for each collective are not ahead of the next kernels. */
static void hosts_wait_for_collectives(void **state)
{
	struct lowered *w = *state;
	const struct mq_shape shape = { .tp = 2, .micro_batches = 1 };
	struct mq_device_calib *calib = &w->calib->device[0];

	struct mq_schedule *s = lowered_shape(w, &shape);
	const struct passes busy = passes_of(w, s, 0);
	calib->host_launch_s = busy.busy_s / (3 * (busy.launches + 2 * collectives(s, 0)));
	w->software.blocking_wait = true;
	const struct passes waiting = passes_of(w, lowered_shape(w, &shape), 0);
	w->software.blocking_wait = false;
	calib->host_launch_s = 0;
	assert_true(waiting.bound);
	assert_true(waiting.takes_s > busy.takes_s);
}

/* Tokens go to experts once the host knows how many, unless each expert has room of a fixed size. */
static void hosts_wait_for_tokens(void **state)
{
	struct lowered *w = *state;
	struct mq_model *gpt = w->model;
	struct mq_device_calib *calib = &w->calib->device[0];
	double takes_s[3];

	lowered_model(w, "moe:layers=4,hidden=64,heads=4,seq=32,vocab=128,ffn=128,experts=4,top_k=2");
	for (int i = 0; i < 3; i++) {
		w->train.experts.pad = i < 2;
		const struct mq_shape shape = { .dp = 4, .ep = 4, .micro_batches = 1 };
		const struct passes p = passes_of(w, lowered_shape(w, &shape), 0);
		takes_s[i] = p.takes_s;
		calib->host_launch_s = p.busy_s / (4 * p.launches);
	}
	calib->host_launch_s = 0;
	w->train.experts.pad = false;
	w->model = gpt;
	assert_within(takes_s[1], takes_s[0], 1e-12);
	assert_true(takes_s[2] > takes_s[1] * 1.001);
}

/* Of a pipeline's stages the hosts' calls are messages. */
static void messages_are_calls(void **state)
{
	struct lowered *w = *state;
	struct mq_device_calib *calib = &w->calib->device[0];
	struct passes late[2];

	for (int i = 0; i < 2; i++) {
		calib->host_launch_s = 1e-2 * (i + 1);
		late[i] = passes_of(w, lowered_shape(w, &(struct mq_shape){ .pp = 4, .micro_batches = 8 }), 1);
	}
	calib->host_launch_s = 0;
	assert_within(late[1].takes_s - late[0].takes_s, (late[0].launches + 2 * 8 * 4) * 1e-2, 1e-9);
}

/* Launches of a layer of nanotron's, forward and back, as its source has them. Forward: norms 2; products in three parts 6
 * and whole 2; queries, keys, values permuted 1, keys and values joined and permuted 2, rotary positions 2; lengths from
 * masks 6, attention 1; silu and product 2, residuals 2. Back: norms with sums of their weights' gradients 6; products
 * 4 whole, 2 in three parts, 2 more whole, gradients added up 6; gate 3; attention 3, positions 2, copies 3; residuals 2. */
static void launches_are_those_of_the_source(void **state)
{
	struct lowered *w = *state;
	struct mq_model *gpt = w->model;
	const struct mq_software plain = w->software;
	struct mq_software_record record;
	double launches[2] = { 0 };

	assert_int_equal(
		mq_software_load("platforms/software", "nanotron,attention=flash2", &w->arena, &record, &w->err),
		MQ_OK);
	w->software = record.software;
	lowered_model(w, "llama:layers=4,hidden=64,heads=4,kv_heads=4,ffn=128,seq=32,vocab=128");
	const struct mq_schedule *s = lowered_shape(
		w,
		&(struct mq_shape){ .tp = 4, .micro_batches = 2, .sequence_parallel = true, .vocab_parallel = true });
	for (const struct mq_task *task = s->task; task < s->task + s->n_tasks; task++) {
		const struct mq_work *work = &s->work[task->work];

		if (task->device != 0 || task->kind != MQ_TASK_COMPUTE || task->micro_batch != 0 ||
		    task->phase == MQ_UPDATE)
			continue;
		for (uint32_t k = 0; k < work->n_kernels; k++)
			if (work->kernel[k].op != MQ_NONE &&
			    !strncmp(w->model->op[work->kernel[k].op].name, "layer2.", 7))
				launches[task->phase] += work->kernel[k].launches;
	}
	w->software = plain;
	w->model = gpt;
	assert_within(launches[MQ_FORWARD], 2 + 6 + 2 + 3 + 2 + 6 + 1 + 2 + 2, 0);
	assert_within(launches[MQ_BACKWARD], 6 + 4 + 2 * 3 + 2 + 6 + 3 + 3 + 2 + 3 + 2, 0);
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
	w->software.separate_input_grad_reduce = true;
	assert_within(reduced_B(lowered_shape(w, &shape)) - once_B, 2 * 4 * 16.0 * 32 * 64 * 2, 1e-6);
	w->model = gpt;
	assert_within(reduced_B(lowered_shape(w, &shape)), 2 * 2 * 4 * 16.0 * 32 * 64 * 2, 1e-6);
	w->software.separate_input_grad_reduce = false;
}

/* Bytes that device 0 moves around attention, forward. */
static double passes_of_attention(struct lowered *w, const struct mq_shape *shape)
{
	const struct mq_schedule *s = lowered_shape(w, shape);
	double bytes = 0;

	for (const struct mq_task *task = s->task; task < s->task + s->n_tasks; task++)
		for (uint32_t k = 0; task->kind == MQ_TASK_COMPUTE && k < s->work[task->work].n_kernels; k++) {
			const struct mq_kernel *kernel = &s->work[task->work].kernel[k];

			if (task->device == 0 && task->phase == MQ_FORWARD && kernel->op != MQ_NONE &&
			    kernel->kind == MQ_KERNEL_MEMORY && w->model->op[kernel->op].kind == MQ_OP_ATTENTION)
				bytes += kernel->bytes;
		}
	return bytes;
}

/* Steps of a ring brought together: of each step's output three quarters take part where a causal mask is balanced over
 * the ranks, all where there is none. */
static void rings_merge_what_takes_part(void **state)
{
	const double output = 16 * 32 / 2 * (64 + 4 * 2); /* a rank's half of 16 samples, with statistics of heads */
	struct lowered *w = *state;
	double bytes[2] = { 0 };

	for (int i = 0; i < 2; i++) {
		lowered_model(w, "gpt:layers=1,hidden=64,heads=4,seq=32,vocab=128");
		for (uint32_t op = 0; i && op < w->model->n_ops; op++)
			w->model->op[op].causal = false;
		bytes[i] = passes_of_attention(w, &(struct mq_shape){ .cp = 2, .micro_batches = 1 });
	}
	assert_true(bytes[0] > 0);
	assert_within(bytes[1] - bytes[0], 2 * (1 - .75) * 3 * output, 1e-12);
}

/* Keys and values of 1 head, copied for 4: 2 x 4 written and 2 read; before positions, 8 heads are turned and not 5. */
static void keys_are_copied_for_each_query_head(void **state)
{
	const double head = 16 * 32 * 16; /* elements of a head of 16 samples */
	struct lowered *w = *state;
	double bytes[3] = { 0 };

	lowered_model(w, "llama:layers=1,hidden=64,heads=4,kv_heads=1,ffn=128,seq=32,vocab=128");
	for (int how = MQ_REPEAT_NONE; how <= MQ_REPEAT_POSITIONS; how++) {
		w->software.repeat_kv = (uint8_t)how;
		bytes[how] = passes_of_attention(w, &(struct mq_shape){ .micro_batches = 1 });
	}
	w->software.repeat_kv = MQ_REPEAT_NONE;
	assert_within(bytes[MQ_REPEAT_ATTENTION] - bytes[MQ_REPEAT_NONE], 2 * (2 * 4 + 2) * head, 1e-12);
	assert_within(bytes[MQ_REPEAT_POSITIONS] - bytes[MQ_REPEAT_ATTENTION], 2 * 2 * 3 * head, 1e-12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stages_shake_hands),
		cmocka_unit_test(fused_attention_runs_again),
		cmocka_unit_test(passes_wait_for_sends),
		cmocka_unit_test(hosts_agree_on_collectives),
		cmocka_unit_test(hosts_run_ahead),
		cmocka_unit_test(graphs_launch),
		cmocka_unit_test(messages_are_calls),
		cmocka_unit_test(hosts_wait_for_collectives),
		cmocka_unit_test(a_pass_takes_what_its_host_needs),
		cmocka_unit_test(hosts_wait_for_tokens),
		cmocka_unit_test(two_products_reduce_apart),
		cmocka_unit_test(launches_are_those_of_the_source),
		cmocka_unit_test(parts_are_one_call),
		cmocka_unit_test(rings_merge_what_takes_part),
		cmocka_unit_test(keys_are_copied_for_each_query_head),
		cmocka_unit_test(passes_run_alone),
	};

	return cmocka_run_group_tests(tests, make_world, lowered_free);
}
