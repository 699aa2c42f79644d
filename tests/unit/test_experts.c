/* test_experts.c - tokens that visit experts unevenly: loads by hand, and what they ask of time and memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

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
	assert_near(mq_expert_load(&stated, 1), 1);  /* one rank has all tokens, which are the mean */
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
	double experts = lowered_flop(&w, "experts.up", MQ_FORWARD), back = lowered_flop(&w, "experts.down", MQ_BACKWARD);
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
	const struct mq_op *act = op_of(w.model, "layer0.experts.activation"), *down = op_of(w.model, "layer0.experts.down");
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
	struct mq_lower_request rq = { .q = &q, .plan = &w.plan, .fold = true, .keep_tasks = true };
	assert_int_equal(mq_lower(&rq, &w.arena, &w.low, &w.err), MQ_OK);
	assert_non_null(w.low.schedule);
	assert_int_equal(w.low.folded, 16);
	assert_near(lowered_count(w.low.schedule, MQ_TASK_COLLECTIVE, -1, -1).bytes * 16, whole);
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
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
