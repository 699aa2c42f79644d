/*
 * test_score_words.c - the words of a row's columns: sharding, schedule, recomputation.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "score_rows.h"

static void test_sharding(void **state)
{
	static const struct {
		const char *zero;
		unsigned sync;
	} want[] = {
		{ "ZeRO-0", MQ_SYNC_ALLREDUCE },
		{ "none", MQ_SYNC_ALLREDUCE },
		{ "DDP", MQ_SYNC_ALLREDUCE },
		{ "0", MQ_SYNC_ALLREDUCE },
		{ "ZeRO-1", MQ_SYNC_ZERO1 },
		{ "1", MQ_SYNC_ZERO1 },
		{ "zero1", MQ_SYNC_ZERO1 },
		{ "zero2", MQ_SYNC_ZERO2 },
		{ "ZeRO-1 (over all)", MQ_SYNC_ZERO1 },
		{ "ZeRO-3", MQ_SYNC_ZERO3 },
		{ "3", MQ_SYNC_ZERO3 },
		{ "ZeRO 3", MQ_SYNC_ZERO3 },
		{ "FSDP FULL_SHARD", MQ_SYNC_ZERO3 },
		{ "FSDP SHARD_GRAD_OP", MQ_SYNC_ZERO2 },
		{ "HSDP 2x2", MQ_SYNC_ZERO3 },
		{ "distributed optimizer", MQ_SYNC_ZERO1 },
	};
	struct mq_run r = gpt();
	struct mq_case c;

	(void)state;
	r.software = "generic";
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		r.zero = want[i].zero;
		build(&r, &c);
		if (c.shape.sync != want[i].sync)
			fail_msg("'%s' is taken for %s", r.zero, mq_sync_name((enum mq_sync)c.shape.sync));
	}
	r.zero = ""; /* as the software does */
	build(&r, &c);
	assert_true(c.shape.sync == c.software.software.sync);
}

static void test_schedule(void **state)
{
	static const struct {
		const char *schedule;
		unsigned pipeline, chunks;
	} want[] = {
		{ "", MQ_PIPE_1F1B, 1 },       { "1F1B (DeepSpeed)", MQ_PIPE_1F1B, 1 },
		{ "GPipe", MQ_PIPE_GPIPE, 1 }, { "zero bubble", MQ_PIPE_ZB_H1, 1 },
		{ "ZBV", MQ_PIPE_ZBV, 2 },     { "DualPipeV", MQ_PIPE_DUALPIPE_V, 2 },
	};
	struct mq_run r = gpt();
	struct mq_case c;

	(void)state;
	r.software = "generic";
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		r.schedule = want[i].schedule;
		build(&r, &c);
		assert_int_equal(c.shape.pipeline, want[i].pipeline);
		assert_int_equal(c.shape.virtual, want[i].chunks);
	}
}

static void test_recompute(void **state)
{
	static const struct {
		const char *recompute;
		unsigned kind;
	} want[] = {
		{ "full (as it says)", MQ_RECOMPUTE_FULL },
		{ "yes", MQ_RECOMPUTE_FULL },
		{ "True", MQ_RECOMPUTE_FULL },
		{ "selective", MQ_RECOMPUTE_SELECTIVE },
		{ "no", MQ_RECOMPUTE_NONE },
		{ "None", MQ_RECOMPUTE_NONE },
		{ "0", MQ_RECOMPUTE_NONE },
	};
	struct mq_run r = gpt();
	struct mq_case c;

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		r.recompute = want[i].recompute;
		build(&r, &c);
		assert_int_equal(c.shape.recompute, want[i].kind);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sharding, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_schedule, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_recompute, load_tables, teardown),
	};

	return cmocka_run_group_tests_name("score words", tests, NULL, NULL);
}
