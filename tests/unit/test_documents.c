/* test_documents.c - packed documents: what is left of attention, and who waits for whom, by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lowered.h"
#include "models.h"

static struct mq_sequence_packing bound(const char *text, double seq, double batch)
{
	struct mq_sequence_packing d = { .seed = 3 };
	struct mq_err err = MQ_ERR_INIT;

	assert_int_equal(mq_sequence_packing_read("--sequence-packing", text, &arena, &d, &err), MQ_OK);
	assert_int_equal(mq_sequence_packing_bind(&d, seq, batch, &arena, &err), MQ_OK);
	return d;
}

/* Sequences of 8 tokens. Documents of 6 lie as 6 2, 4 4, 2 6, and so on: 40, 32 and 40 of 64. */
static const double SIXES = (40 + 32 + 40) / (3 * 64.0);

static void squares_of_lengths_count(void **state)
{
	assert_near(bound("8", 8, 5).work, 1);
	assert_near(bound("16", 8, 5).work, 1);
	assert_near(bound("4", 8, 5).work, .5);
	assert_near(bound("1", 8, 5).work, 1 / 8.0);
	assert_near(bound("6", 8, 3).work, SIXES);
	assert_near(bound("6", 8, 6).work, SIXES);
}

/* Parts of 2 tokens; rank 0 has the first and the last. Documents of 4 leave both ranks 4 + 12 of 64; of 6 and 2,
 * rank 0 has 4 + 4 and rank 1 12 + 20, so that the micro-batch takes 2 x 32/64. */
static void ranks_wait_for_the_fullest(void **state)
{
	const struct mq_sequence_packing whole = bound("8", 8, 1), fours = bound("4", 8, 1), sixes = bound("6", 8, 1);
	struct mq_sequence_packing_plan p = { 1, 2, 1, 1, 1, 1, false, true };

	assert_near(mq_sequence_packing_work(&whole, &p), 1);
	assert_near(mq_sequence_packing_work(&fours, &p), .5);
	assert_near(mq_sequence_packing_work(&sixes, &p), 1);
	p.ranks = 4;
	assert_near(mq_sequence_packing_work(&whole, &p), 1);
	/* not causal: 6 + 2 tokens that see 6 or 2: 12 + 4 of rank 0, 12 + 12 of rank 1 */
	p.ranks = 2;
	p.causal = false;
	assert_near(mq_sequence_packing_work(&whole, &p), 1);
	assert_near(mq_sequence_packing_work(&sixes, &p), 2 * 24 / 64.0);
}

static void replicas_wait_for_the_fullest(void **state)
{
	const struct mq_sequence_packing d = bound("6", 8, 6); /* .625 .5 .625 .625 .5 .625 */
	struct mq_sequence_packing_plan p = {
		.replicas = 2, .ranks = 1, .stages = 1, .chunks = 1, .micro_batches = 3, .samples = 1, .causal = true
	};

	/* both have .625 + .5 + .625, but never .5 at the same time */
	assert_near(mq_sequence_packing_work(&d, &p), 1.75 / 3);
	p.meet = true;
	assert_near(mq_sequence_packing_work(&d, &p), .625);
	p.meet = false;
	p.stages = 2;
	assert_near(mq_sequence_packing_work(&d, &p), (1.75 + .625) / 4);
	p.chunks = 2;
	assert_near(mq_sequence_packing_work(&d, &p), (1.75 + .625 / 2) / 3.5);
	/* three replicas of one micro-batch of two: .5625, .625, .5625 */
	p = (struct mq_sequence_packing_plan){
		.replicas = 3, .ranks = 1, .stages = 1, .chunks = 1, .micro_batches = 1, .samples = 2, .causal = true
	};
	assert_near(mq_sequence_packing_work(&d, &p), .625);
}

static void lengths_are_drawn_from_the_seed(void **state)
{
	const struct mq_sequence_packing a = bound("lognormal:40:1", 1000, 200), b = bound("lognormal:40:1", 1000, 200);
	const struct mq_sequence_packing list = bound("1,3", 1000, 200);

	assert_true(a.work == b.work && a.first[200] == b.first[200]);
	/* E l^2 / (E l S) but for what is cut at the ends: 40 e / 1000, and (1 + 9) / (2 x 2 x 1000) */
	assert_true(fabs(a.work / (40 * exp(1) / 1000) - 1) < .15);
	assert_true(fabs(list.work / .0025 - 1) < .02);
}

static void texts_come_back(void **state)
{
	const char *const texts[] = { "1000", "lognormal:1000:1.25", "300,2000,120" };
	struct mq_err err = MQ_ERR_INIT;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct mq_sequence_packing d = { .seed = 1 };

		assert_int_equal(mq_sequence_packing_read("x", texts[i], &arena, &d, &err), MQ_OK);
		assert_string_equal(mq_sequence_packing_text(&d, &arena), texts[i]);
	}
	assert_string_equal(mq_sequence_packing_text(&(struct mq_sequence_packing){ 0 }, &arena), "");
	const char *const bad[] = { "0", "lognormal:1000", "lognormal:x:1", "lognormal:0.5:1", "/no/such/file", "5,0" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct mq_sequence_packing d = { 0 };

		assert_int_equal(mq_sequence_packing_read("--sequence-packing", bad[i], &arena, &d, &err), MQ_EINPUT);
		assert_non_null(strstr(err.text, "--sequence-packing"));
	}
}

/* Attention has the documents' work in both passes, all else is as before; memory too. */
static void attention_alone_has_less(void **state)
{
	const struct mq_shape shape = { .dp = 2, .cp = 2, .pp = 2, .micro_batches = 2, .pipeline = MQ_PIPE_1F1B };
	struct lowered w;

	lowered_open(&w, "llama:layers=2,hidden=64,heads=4,kv_heads=4,seq=32,vocab=128", 8, 8);
	assert_non_null(lowered_shape(&w, &shape));
	double forward = lowered_flop(&w, "attention", MQ_FORWARD),
	       backward = lowered_flop(&w, "attention", MQ_BACKWARD);
	double other = lowered_flop(&w, "down", MQ_FORWARD), peak = w.low.memory[0].peak_B;

	w.train.sequence_packing = bound("24", 32, 8);
	const struct mq_sequence_packing_plan p = { 2, 2, 2, 1, 2, 2, false, true };
	double work = mq_sequence_packing_work(&w.train.sequence_packing, &p);
	assert_true(work > w.train.sequence_packing.work && work < 1);
	assert_non_null(lowered_plan(&w));
	assert_near(lowered_flop(&w, "attention", MQ_FORWARD), work * forward);
	assert_near(lowered_flop(&w, "attention", MQ_BACKWARD), work * backward);
	assert_near(lowered_flop(&w, "down", MQ_FORWARD), other);
	assert_near(w.low.memory[0].peak_B, peak);
	lowered_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(squares_of_lengths_count),
		cmocka_unit_test(ranks_wait_for_the_fullest),
		cmocka_unit_test(replicas_wait_for_the_fullest),
		cmocka_unit_test(lengths_are_drawn_from_the_seed),
		cmocka_unit_test(texts_come_back),
		cmocka_unit_test(attention_alone_has_less),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
