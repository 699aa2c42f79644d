/*
 * test_overlap.c - what tensor-parallel and expert communication costs when it runs beside compute, against
 * closed forms, on ideal devices whose kernels have no shape effects.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "folding/fold.h"
#include "simulated.h"

struct question {
	const char *model;
	struct mq_shape shape;
	double batch;
	bool tp, experts; /* the plan's overlap */
};

struct answer {
	struct mq_lowered low;
	struct mq_timeline timeline;
	enum mq_verdict verdict;
	char invalid[256];
};

static bool ask(struct simulated *s, const struct question *q, struct answer *a)
{
	struct mq_train *train = mq_arena_alloc(&s->arena, sizeof(*train));
	const struct mq_model_request request = { .spec = q->model, .train = train };
	struct mq_err err = MQ_ERR_INIT;
	struct mq_plan plan;
	struct mq_model *model;

	*train = (struct mq_train){ .batch = q->batch, .dtype = MQ_FP16, .grad_dtype = MQ_FP16 };
	memset(a, 0, sizeof(*a));
	if (mq_model_load(&request, &s->arena, &model, &err) ||
	    mq_plan_from_shape(&q->shape, model, s->cluster, &s->arena, &plan, &err))
		goto failed;
	plan.explicit = MQ_EXPLICIT_ALL;
	plan.overlap_grads = false;
	plan.overlap_tp = q->tp;
	plan.overlap_experts = q->experts;
	const struct mq_question asked = { .model = model, .cluster = s->cluster, .calib = s->calib, .train = train };
	struct mq_lower_request rq = { .q = &asked, .plan = &plan };
	if (mq_lower(&rq, &s->arena, &a->low, &err))
		goto failed;
	snprintf(a->invalid, sizeof(a->invalid), "%s", a->low.message);
	if (a->low.verdict != MQ_VERDICT_OK)
		return false;
	struct mq_exec_request ex = {
		.view.schedule = a->low.schedule, .cluster = s->cluster, .calib = s->calib, .timeout_s = INFINITY
	};
	if (!mq_schedule_check(a->low.schedule, NULL, &err) &&
	    !mq_execute_simgrid(&ex, &s->arena, &a->timeline, &a->verdict, &err) && a->verdict == MQ_VERDICT_OK)
		return true;
failed:
	s->failures++;
	fprintf(stderr, "%s: %s\n", q->model, err.text);
	return false;
}

/* ---- tensor parallelism ------------------------------------------------------------------------------- */

/* Compute tasks of device 0 that begin with op `compute` in a phase, and collectives of what `sender` made. */
struct span {
	uint32_t n_compute, n_comm;
	double first_s, last_s;    /* starts of the first and the last compute task */
	double shortest_s;         /* a compute task of nothing else than a part */
	double comm_s, comm_end_s; /* of the last collective */
};

static struct span look(const struct answer *a, const char *compute, const char *sender, enum mq_phase phase)
{
	const struct mq_schedule *s = a->low.schedule;
	struct span span = { .first_s = INFINITY, .shortest_s = INFINITY };

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		double start = a->timeline.start_s[i], finish = a->timeline.finish_s[i];

		if (t->device != 0 || t->phase != phase || t->op == MQ_NONE)
			continue;
		if (t->kind == MQ_TASK_COMPUTE && !strcmp(s->op_name[t->op], compute)) {
			span.n_compute++;
			span.first_s = fmin(span.first_s, start);
			span.last_s = fmax(span.last_s, start);
			span.shortest_s = fmin(span.shortest_s, finish - start);
		} else if (t->kind == MQ_TASK_COLLECTIVE && !strcmp(s->op_name[t->op], sender)) {
			span.n_comm++;
			span.comm_s = finish - start;
			span.comm_end_s = fmax(span.comm_end_s, finish);
		}
	}
	return span;
}

enum { RANKS = 4 };

/* n parts of g behind n - 1 calls of c, the first of them there already: max(n g, (n - 1) c + g). n parts of g
 * with a call of c behind each: n max(g, c) + min(g, c). */
static void tensor_parallel(struct simulated *s)
{
	const struct question q = {
		.model = "llama:layers=1,hidden=1024,heads=16,kv_heads=16,ffn=4096,seq=512,vocab=1024",
		.shape = { .tp = RANKS, .micro_batches = 1, .sequence_parallel = true },
		.batch = 4,
		.tp = true,
	};
	struct question plain = q;
	struct answer a, b;

	plain.tp = false;
	if (!ask(s, &q, &a) || !ask(s, &plain, &b))
		return;
	struct span in = look(&a, "layer0.up", "layer0.norm2", MQ_FORWARD);
	double g = in.shortest_s, c = in.comm_s;
	EXPECT(s, in.n_compute == RANKS && in.n_comm == RANKS - 1);
	EXPECT_NEAR(s, in.last_s + g - in.first_s, fmax(RANKS * g, (RANKS - 1) * c + g), 1e-9);
	struct span out = look(&a, "layer0.proj", "layer0.proj", MQ_FORWARD);
	g = out.shortest_s, c = out.comm_s;
	/* the first part ends the task of attention */
	EXPECT(s, out.n_compute == RANKS - 1 && out.n_comm == RANKS);
	EXPECT_NEAR(s, out.comm_end_s - (out.first_s - g), RANKS * fmax(g, c) + fmin(g, c), 1e-9);
	/* All of it at once: one call, then one product. */
	struct span one = look(&b, "layer0.up", "layer0.norm2", MQ_FORWARD);
	EXPECT(s, one.n_compute <= 1 && one.n_comm == 1);
	EXPECT(s, a.timeline.step_time_s < b.timeline.step_time_s);
	/* The model's work is the same, whether in parts or not. */
	EXPECT_NEAR(s, a.low.model_flop, b.low.model_flop, 1e-12);
}

/* ---- experts -------------------------------------------------------------------------------------------- */

static double longest_call(const struct answer *a, enum mq_stream stream, uint32_t *n)
{
	const struct mq_schedule *s = a->low.schedule;
	double most = 0;

	*n = 0;
	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].device == 0 && s->task[i].stream == stream) {
			most = fmax(most, a->timeline.finish_s[i] - a->timeline.start_s[i]);
			++*n;
		}
	return most;
}

/* Four calls of c for each layer and micro-batch. Where every segment of compute is longer than a call, only
 * the first forward and the last backward pass wait for theirs: 4 c L (m - 1) are saved. */
static void experts(struct simulated *s)
{
	enum { LAYERS = 2, MICRO_BATCHES = 5 };
	struct question q = {
		.model = "moe:layers=2,hidden=512,heads=8,kv_heads=8,ffn=2048,experts=4,top_k=2,seq=256,vocab=512",
		.shape = { .dp = 2, .ep = 2, .micro_batches = MICRO_BATCHES },
		.batch = 2 * MICRO_BATCHES,
	};
	struct answer a, b;
	uint32_t n;

	if (!ask(s, &q, &a))
		return;
	q.experts = true;
	if (!ask(s, &q, &b))
		return;
	double c = longest_call(&b, MQ_STREAM_EXPERT, &n);
	EXPECT(s, n == 4 * LAYERS * MICRO_BATCHES);
	EXPECT_NEAR(s, longest_call(&a, MQ_STREAM_COMM, &n), c, 1e-9);
	EXPECT_NEAR(s, a.timeline.step_time_s - b.timeline.step_time_s, 4 * c * LAYERS * (MICRO_BATCHES - 1), 1e-6);
	/* One more micro-batch is in flight. */
	EXPECT(s, b.low.memory[0].activation_B > 1.5 * a.low.memory[0].activation_B);
}

static double computed(const struct answer *a, uint32_t device)
{
	const struct mq_schedule *s = a->low.schedule;
	double sum = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].device == device && s->task[i].kind == MQ_TASK_COMPUTE)
			sum += a->timeline.finish_s[i] - a->timeline.start_s[i];
	return sum;
}

/* An interleaved pipeline stays free of deadlock, and gains; every pass runs once. */
static void pipeline(struct simulated *s)
{
	struct question q = {
		.model = "moe:layers=8,hidden=512,heads=8,kv_heads=8,ffn=2048,experts=4,top_k=2,seq=256,vocab=512",
		.shape = { .dp = 2,
			   .ep = 2,
			   .pp = 2,
			   .virtual = 2,
			   .micro_batches = 8,
			   .pipeline = MQ_PIPE_INTERLEAVED },
		.batch = 16,
	};
	struct answer a, b;

	if (!ask(s, &q, &a))
		return;
	q.experts = true;
	if (!ask(s, &q, &b))
		return;
	EXPECT(s, a.low.schedule->n_tasks == b.low.schedule->n_tasks);
	EXPECT(s, b.timeline.step_time_s < a.timeline.step_time_s);
	for (uint32_t d = 0; d < RANKS; d++)
		EXPECT_NEAR(s, computed(&a, d), computed(&b, d), 1e-9);
}

/* What cannot hold is refused, and says what to change. */
static void refusals(struct simulated *s)
{
	struct question q = {
		.model = "moe:layers=4,hidden=512,heads=8,kv_heads=8,ffn=2048,experts=4,top_k=2,seq=256,vocab=512",
		.shape = { .dp = 2, .ep = 2, .pp = 2, .micro_batches = 4, .pipeline = MQ_PIPE_1F1B },
		.batch = 8,
		.experts = true,
	};
	struct answer a;

	EXPECT(s, !ask(s, &q, &a) && strstr(a.invalid, "interleaved schedule with virtual"));
	q.shape.pp = 1;
	q.shape.pipeline = MQ_PIPE_GPIPE;
	EXPECT(s, !ask(s, &q, &a) && strstr(a.invalid, "gpipe"));
	q.shape.pipeline = MQ_PIPE_1F1B;
	q.shape.ep = 1;
	EXPECT(s, !ask(s, &q, &a) && strstr(a.invalid, "give ep above 1"));
	q.shape.ep = 2;
	q.shape.micro_batches = 1;
	EXPECT(s, !ask(s, &q, &a) && strstr(a.invalid, "a single one"));
	q.experts = false;
	q.tp = true;
	EXPECT(s, !ask(s, &q, &a) && strstr(a.invalid, "give tp above 1"));
}

static void fast_links(void **state)
{
	const struct simulated_platform p = { .n = RANKS, .bw_Bps = 400e9, .lat_s = 1e-7 };

	(void)state;
	assert_true(simulated_run(&p, tensor_parallel));
	assert_true(simulated_run(&p, experts));
}

static void slow_links(void **state)
{
	const struct simulated_platform p = { .n = RANKS, .bw_Bps = 5e9, .lat_s = 1e-7 };

	(void)state;
	assert_true(simulated_run(&p, tensor_parallel));
}

static void pipelines(void **state)
{
	const struct simulated_platform p = { .n = RANKS, .bw_Bps = 100e9, .lat_s = 1e-7 };

	(void)state;
	assert_true(simulated_run(&p, pipeline));
	assert_true(simulated_run(&p, refusals));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fast_links),
		cmocka_unit_test(slow_links),
		cmocka_unit_test(pipelines),
	};

	return cmocka_run_group_tests_name("overlap", tests, NULL, NULL);
}
