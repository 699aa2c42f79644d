/* test_experts.c - tokens that visit experts unevenly: loads by hand, and what they ask of time and memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "folding/fold.h"
#include "lowered.h"
#include "models.h"

static const char MOE[] = "moe:layers=2,hidden=64,heads=4,kv_heads=4,ffn=64,experts=8,top_k=2,seq=32,vocab=128";

static struct mq_expert_load load_of(const char *text, double capacity)
{
	struct mq_expert_load l = { .capacity = capacity };
	struct mq_err err = MQ_ERR_INIT;

	assert_int_equal(mq_expert_load_read("--expert-load", text, &arena, &l, &err), MQ_OK);
	return l;
}

/* 8 experts with 10, 6, 4, 4, 2, 2, 2, 2 of 32 tokens: mean 4. */
static const char COUNTS[] = "10,6,4,4,2,2,2,2";

static void loads_follow_the_fullest_rank(void **state)
{
	const struct mq_expert_load none = { 0 }, stated = load_of("1.5", 0), counts = load_of(COUNTS, 0);

	assert_near(mq_expert_load(&none, 4), 1);
	assert_near(mq_expert_load(&stated, 4), 1.5);
	assert_near(mq_expert_load(&stated, 1), 1); /* one rank has all tokens, which are the mean */
	assert_near(mq_expert_load(&counts, 1), 1);
	assert_near(mq_expert_load(&counts, 2), 24 / 16.0);
	assert_near(mq_expert_load(&counts, 4), 16 / 8.0);
	assert_near(mq_expert_load(&counts, 8), 10 / 4.0);
}

static void capacity_drops_and_pads(void **state)
{
	struct mq_expert_load counts = load_of(COUNTS, 1.25), stated = load_of("1.5", 1.25);

	/* 5, 5, 4, 4, 2, 2, 2, 2 are left */
	assert_near(mq_expert_load(&counts, 1), 26 / 32.0);
	assert_near(mq_expert_load(&counts, 2), 18 / 16.0);
	assert_near(mq_expert_load(&counts, 8), 5 / 4.0);
	assert_near(mq_expert_load(&stated, 4), 1.25);
	counts.pad = true;
	assert_near(mq_expert_load(&counts, 1), 1.25);
	assert_near(mq_expert_load(&counts, 8), 1.25);
}

static void lists_come_from_files_and_go_back_to_text(void **state)
{
	char path[] = "/tmp/mq-experts-XXXXXX";
	int fd = mkstemp(path);
	const char text[] = "# tokens of each\n10 6, 4\n4\n2 2 2 2\n";
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	const struct mq_expert_load l = load_of(path, 0), third = load_of("1,.33333333333333331", 0);
	unlink(path);

	assert_int_equal(l.n, 8);
	assert_string_equal(mq_expert_load_text(&l, &arena), COUNTS);
	assert_string_equal(mq_expert_load_text(&third, &arena), "1,0.33333333333333331");
	assert_string_equal(mq_expert_load_text(&(struct mq_expert_load){ 0 }, &arena), "");
}

static void bad_loads_are_refused(void **state)
{
	const struct {
		const char *text, *part;
	} rows[] = {
		{ ".5", "no fewer tokens than the mean" },
		{ "0,0", "no expert has a token" },
		{ "3,-1", "'-1' is no number" },
		{ "/no/such/file", "/no/such/file" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct mq_expert_load l = { 0 };
		struct mq_err err = MQ_ERR_INIT;

		assert_int_equal(mq_expert_load_read("--expert-load", rows[i].text, &arena, &l, &err), MQ_EINPUT);
		if (!strstr(err.text, rows[i].part))
			fail_msg("'%s' does not say '%s'", err.text, rows[i].part);
	}
}

/* Four ranks with two experts each: products of experts and what travels to them grow with the fullest rank's
 * tokens, twice the mean, and nothing else does. Weights and their gradients' bytes do not. */
static void work_and_bytes_scale_with_the_load(void **state)
{
	struct lowered w;
	const struct mq_shape shape = { .dp = 4, .ep = 4, .micro_batches = 2 };

	lowered_open(&w, MOE, 4, 16);
	assert_non_null(lowered_shape(&w, &shape));
	double experts = lowered_flop(&w, "experts.up", MQ_FORWARD),
	       back = lowered_flop(&w, "experts.down", MQ_BACKWARD);
	double attention = lowered_flop(&w, "attention", MQ_FORWARD), router = lowered_flop(&w, "router", MQ_FORWARD);
	double sent = lowered_count(w.low.schedule, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_TO_ALL, -1).bytes;
	double reduced = lowered_count(w.low.schedule, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_REDUCE, -1).bytes;
	struct mq_memory even = w.low.memory[0];

	w.train.experts = load_of(COUNTS, 0);
	assert_non_null(lowered_shape(&w, &shape));
	assert_near(lowered_flop(&w, "experts.up", MQ_FORWARD), 2 * experts);
	assert_near(lowered_flop(&w, "experts.down", MQ_BACKWARD), 2 * back);
	assert_near(lowered_flop(&w, "attention", MQ_FORWARD), attention);
	assert_near(lowered_flop(&w, "router", MQ_FORWARD), router);
	assert_near(lowered_count(w.low.schedule, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_TO_ALL, -1).bytes, 2 * sent);
	assert_near(lowered_count(w.low.schedule, MQ_TASK_COLLECTIVE, MQ_COLL_ALL_REDUCE, -1).bytes, reduced);
	assert_true(w.low.memory[0].parameter_B == even.parameter_B);
	/* Kept of a micro-batch of two samples a rank, two layers in each: the experts' input, what goes into and
	 * comes out of their activation, and their output, for 2 x 32 tokens in 2 copies each, in 16 bits. */
	const struct mq_op *dispatch = op_of(w.model, "layer0.dispatch"), *up = op_of(w.model, "layer0.experts.up");
	const struct mq_op *act = op_of(w.model, "layer0.experts.activation"),
			   *down = op_of(w.model, "layer0.experts.down");
	const struct mq_op *combine = op_of(w.model, "layer0.combine");
	double kept = 2 * 2 * 2 * (dispatch->saved + up->saved + act->saved + down->saved + combine->saved);
	double more = w.low.memory[0].activation_B - even.activation_B;
	if (!(more >= kept))
		fail_msg("%g bytes more are less than the %g that experts keep", more, kept);
	lowered_close(&w);
}

/* Ranks stay alike: the folded schedule has the very tasks of the whole one's first device. */
static void folding_stays_exact(void **state)
{
	struct lowered w;

	lowered_open(&w, MOE, 16, 64);
	w.train.experts = load_of(COUNTS, 0);
	const struct mq_shape shape = { .dp = 16, .ep = 8, .micro_batches = 2 };
	assert_non_null(lowered_shape(&w, &shape));
	double whole = lowered_count(w.low.schedule, MQ_TASK_COLLECTIVE, -1, -1).bytes;
	const struct mq_question q = lowered_question(&w);
	const struct mq_fold_request rq = { .lower = { .q = &q, .plan = &w.plan }, .fold = true, .keep_tasks = true };
	struct mq_folding *folding = mq_folding_begin(&rq, &w.arena, &w.low);
	struct mq_view view;
	assert_int_equal(mq_folding_next(folding, &view, &w.err), MQ_OK);
	mq_folding_end(folding);
	assert_non_null(view.schedule);
	assert_int_equal(view.fold->alike[0]->n, 16);
	assert_near(lowered_count(view.schedule, MQ_TASK_COLLECTIVE, -1, -1).bytes * 16, whole);
	lowered_close(&w);
}

/* tp 4, dp 2, experts whole on each of 8 ranks: products of experts as with ep 8 alone, one all-to-all over all 8
 * each way, no all-gather and no reduce-scatter about the experts' products. */
static void experts_span_tensor_parallel_ranks(void **state)
{
	struct lowered w;
	struct mq_shape shape = { .dp = 2,
				  .tp = 4,
				  .ep = 8,
				  .etp = 1,
				  .micro_batches = 2,
				  .sequence_parallel = true,
				  .vocab_parallel = true };

	lowered_open(&w, MOE, 8, 16);
	const struct mq_schedule *s = lowered_shape(&w, &shape);
	assert_non_null(s);
	struct mq_degrees g = mq_plan_degrees(&w.plan);
	assert_true(g.dp == 2 && g.tp == 4 && g.ep == 8 && g.etp == 1 && g.cp == 1);
	double flop = lowered_flop(&w, "experts.up", MQ_FORWARD);
	uint32_t exchanges = 0, gathers = 0;
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];

		if (t->kind != MQ_TASK_COLLECTIVE || t->device != 0 || t->micro_batch != 0)
			continue;
		if (t->coll == MQ_COLL_ALL_TO_ALL) {
			assert_int_equal(s->comm[t->comm].n, 8);
			exchanges++;
		}
		gathers += t->coll == MQ_COLL_ALL_GATHER && strstr(w.model->op[t->op].name, "dispatch");
	}
	assert_true(exchanges >= 8); /* two layers, there and back, both passes; and the routing weights */
	assert_int_equal(gathers, 0);
	/* each rank has one expert of each layer, and no gradient of it to share */
	const struct mq_op *up = op_of(w.model, "layer0.experts.up");
	double split[MQ_N_DIMS] = { 1, 1, 1, 1, 1, 1, 1 };
	const struct mq_config *c = &w.plan.config[w.plan.config_of[up - w.model->op]];
	for (int d = 0; d < MQ_N_DIMS; d++)
		split[d] = c->split[d];
	assert_near(mq_op_param_shard(up, split), up->param / 8);

	/* the same products where nothing else is split */
	const struct mq_shape plain = { .dp = 8, .ep = 8, .micro_batches = 2 };
	assert_non_null(lowered_shape(&w, &plain));
	assert_near(lowered_flop(&w, "experts.up", MQ_FORWARD), flop);
	lowered_close(&w);
}

/* Shapes with experts of their own degree are read back as they were; ep may lie inside a tensor-parallel group. */
static void degrees_of_experts_come_back(void **state)
{
	const struct mq_shape shapes[] = {
		{ .dp = 2, .tp = 4, .ep = 8, .etp = 1 }, { .dp = 2, .tp = 4, .ep = 4, .etp = 1 },
		{ .dp = 2, .tp = 4, .ep = 2, .etp = 1 }, { .dp = 2, .tp = 4, .ep = 2, .etp = 2 },
		{ .dp = 4, .tp = 2, .ep = 4, .etp = 2 }, { .dp = 2, .tp = 2, .cp = 2, .ep = 8, .etp = 1 },
		{ .dp = 4, .cp = 2, .ep = 4, .etp = 1 }, { .dp = 4, .tp = 2, .ep = 2 },
	};
	struct lowered w;

	lowered_open(&w, MOE, 8, 16);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		struct mq_shape shape = shapes[i];

		shape.micro_batches = 2;
		shape.sequence_parallel = shape.tp > 1;
		shape.vocab_parallel = shape.tp > 1;
		const struct mq_shape back = lowered_shape_back(&w, &shape);

		assert_true(back.dp == mq_or_1(shape.dp) && back.tp == mq_or_1(shape.tp) && back.ep == shape.ep &&
			    back.cp == mq_or_1(shape.cp));
	}
	const struct mq_shape odd = { .dp = 3, .tp = 2, .ep = 4, .etp = 1, .micro_batches = 2 };
	assert_int_equal(mq_plan_from_shape(&odd, w.model, w.cluster, &w.arena, &w.plan, &w.err), MQ_EINPUT);
	assert_non_null(strstr(w.err.text, "ep 4 x etp 1"));
	const struct mq_shape many = { .dp = 8, .ep = 16 }, long_ring = { .cp = 8 };
	assert_int_equal(mq_plan_from_shape(&many, w.model, w.cluster, &w.arena, &w.plan, &w.err), MQ_EINPUT);
	assert_non_null(strstr(w.err.text, "ep=16 does not divide"));
	w.model->seq = 4;
	assert_int_equal(mq_plan_from_shape(&long_ring, w.model, w.cluster, &w.arena, &w.plan, &w.err), MQ_EINPUT);
	assert_non_null(strstr(w.err.text, "cp=8 is more than the 4 tokens"));
	lowered_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loads_follow_the_fullest_rank),
		cmocka_unit_test(capacity_drops_and_pads),
		cmocka_unit_test(lists_come_from_files_and_go_back_to_text),
		cmocka_unit_test(bad_loads_are_refused),
		cmocka_unit_test(work_and_bytes_scale_with_the_load),
		cmocka_unit_test(folding_stays_exact),
		cmocka_unit_test(experts_span_tensor_parallel_ranks),
		cmocka_unit_test(degrees_of_experts_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
