/* test_linkage.c - what a split implies, followed by hand through a transformer. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "automap/linkage.h"
#include "lowered.h"
#include "lowering/mesh.h"

static uint32_t op_named(const struct mq_model *m, const char *name)
{
	for (uint32_t op = 0; op < m->n_ops; op++)
		if (!strcmp(m->op[op].name, name))
			return op;
	fail_msg("no op %s", name);
	return 0;
}

static uint32_t var_of(const struct mq_linkage *l, uint32_t op)
{
	for (uint32_t v = 0; v < l->n; v++)
		for (uint32_t i = 0; i < l->var[v].n; i++)
			if (l->var[v].op[i] == op)
				return v;
	fail_msg("op %u is no variable", op);
	return 0;
}

/* The group of a weight, as "name:dimension" of each op in order of their numbers. */
static void expect(const struct mq_model *m, const struct mq_linkage *l, const char *weight, uint32_t dim,
		   const char *want)
{
	static const char *const name[MQ_N_DIMS] = { [MQ_DIM_HEAD] = "head", [MQ_DIM_OUT] = "out", [MQ_DIM_IN] = "in" };
	const struct mq_linkage_group *g = &l->var[var_of(l, op_named(m, weight))].group[dim];
	char text[1024] = "";

	assert_true(g->possible);
	for (uint32_t op = 0; op < m->n_ops; op++)
		for (uint32_t i = 0; i < g->n; i++)
			if (g->op[i] == op)
				snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s:%s", *text ? " " : "",
					 m->op[op].name, name[g->dim[i]]);
	assert_string_equal(text, want);
}

enum { COLUMNS, ROWS };

static void splits_follow_the_features(void **state)
{
	struct lowered w;
	struct mq_linkage l;

	(void)state;
	lowered_open(&w, "gpt:layers=2,hidden=64,heads=2,vocab=512,seq=32", 2, 4);
	mq_linkage_make(w.model, false, &w.arena, &l);
	expect(w.model, &l, "layer0.qkv", COLUMNS, "layer0.qkv:out layer0.attention:head layer0.proj:in");
	expect(w.model, &l, "layer1.proj", ROWS, "layer1.qkv:out layer1.attention:head layer1.proj:in");
	expect(w.model, &l, "layer1.up", COLUMNS, "layer1.up:out layer1.activation:out layer1.down:in");
	expect(w.model, &l, "layer1.up", ROWS, "layer1.up:in"); /* its norm gives whole features */
	expect(w.model, &l, "layer0.proj", COLUMNS,             /* all that adds to the residual stream */
	       "layer0.proj:out layer0.residual1:out layer0.down:out layer0.residual2:out "
	       "layer1.proj:out layer1.residual1:out layer1.down:out layer1.residual2:out");
	lowered_close(&w);
}

static void decisions_agree(void **state)
{
	struct lowered w;
	struct mq_linkage l;

	(void)state;
	lowered_open(&w, "gpt:layers=2,hidden=64,heads=2,vocab=512,seq=32", 2, 4);
	mq_linkage_make(w.model, true, &w.arena, &l);
	uint32_t *split = mq_arena_array(&w.arena, w.model->n_ops, uint32_t);
	uint32_t qkv = op_named(w.model, "layer1.qkv"), proj = op_named(w.model, "layer1.proj");

	for (uint32_t op = 0; op < w.model->n_ops; op++)
		split[op] = MQ_NONE;
	for (uint32_t v = 1; v < l.n; v++) /* largest first */
		assert_true(l.var[v - 1].group[0].n + l.var[v - 1].group[1].n > 0);
	assert_true(mq_linkage_decide(&l, var_of(&l, op_named(w.model, "layer0.qkv")), COLUMNS, split));
	assert_int_equal(split[qkv], MQ_DIM_OUT); /* tied: all layers at once */
	assert_int_equal(split[proj], MQ_DIM_IN);
	assert_false(mq_linkage_decide(&l, var_of(&l, proj), COLUMNS, split));
	assert_int_equal(split[proj], MQ_DIM_IN);
	assert_true(mq_linkage_decide(&l, var_of(&l, proj), MQ_LINKAGE_DIMS, split)); /* nothing is open */
	assert_int_equal(split[proj], MQ_DIM_IN);
	lowered_close(&w);
}

/* A product split by heads needs its whole input and sums what it gives back, as one split by columns does. */
static void heads_of_a_product_are_columns(void **state)
{
	struct lowered w;
	struct mq_config by = { .n_devices = 2 };

	(void)state;
	lowered_open(&w, "gpt:layers=1,hidden=64,heads=2,vocab=512,seq=32", 2, 4);
	const struct mq_op *qkv = &w.model->op[op_named(w.model, "layer0.qkv")];

	for (int t = MQ_TENSOR_OUT; t <= MQ_TENSOR_DY; t++) {
		struct mq_layout layout[2];

		for (int heads = 0; heads < 2; heads++) {
			for (int d = 0; d < MQ_N_DIMS; d++)
				by.split[d] = 1;
			by.split[heads ? MQ_DIM_HEAD : MQ_DIM_OUT] = 2;
			layout[heads] = mq_layout_of(qkv, &by, (enum mq_tensor)t);
		}
		assert_int_equal(layout[0].role[0], layout[1].role[0]);
	}
	lowered_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(splits_follow_the_features),
		cmocka_unit_test(decisions_agree),
		cmocka_unit_test(heads_of_a_product_are_columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
