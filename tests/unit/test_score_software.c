/*
 * test_score_software.c - fields of a training software that fill in what a row of measured runs leaves open: with
 * another value the row is another plan, or another question.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "score_rows.h"

/* Whatever a field can change of a row: its plan, its type, its micro-batches. */
static uint64_t row_with(struct mq_run r, const char *fields)
{
	struct mq_case c;

	r.software = "generic";
	r.options = fields;
	build(&r, &c);
	return mq_plan_hash(&c.plan) ^ (uint64_t)c.train.dtype << 8;
}

static void expect_other(const struct mq_run *r, const char *a, const char *b)
{
	if (row_with(*r, a) == row_with(*r, b))
		fail_msg("%s and %s are the same row", a, b);
}

static void fields_fill_in_what_a_row_leaves_open(void **state)
{
	struct mq_run r = gpt();

	(void)state;
	expect_other(&r, "sync=allreduce", "sync=zero1");
	expect_other(&r, "recompute=none", "recompute=full");
	r.precision = "fp32";
	expect_other(&r, "tf32=0", "tf32=1");
	r = gpt();
	r.layers = 23;
	expect_other(&r, "partition=ceil", "partition=cost");
	r = gpt();
	r.schedule = "interleaved";
	expect_other(&r, "chunks=2", "chunks=3");
	r = gpt();
	r.mbs = 16; /* all of a replica at once */
	expect_other(&r, "split_batch=0", "split_batch=1");
	r = gpt();
	r.model_spec = "moe:experts=8,top_k=2";
	r.ep = 2;
	expect_other(&r, "expert_tp=0", "expert_tp=1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(fields_fill_in_what_a_row_leaves_open, load_tables, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
