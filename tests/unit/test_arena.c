/* test_arena.c - orders by a key, and compressed rows.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "maquette/arena.h"

static void orders(void **state)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	const double key[] = { 3, -1, 3, -INFINITY, 0., -0., -1 };
	const uint32_t *order = mq_arena_order(&arena, key, 7);

	(void)state;
	assert_memory_equal(order, ((uint32_t[]){ 3, 1, 6, 4, 5, 0, 2 }), 7 * sizeof(*order));
	assert_non_null(mq_arena_order(&arena, key, 0));
	assert_int_equal(mq_arena_order(&arena, key, 1)[0], 0);
}

static void rows(void **state)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	/* rows 0 and 3 are empty; keys of 4 and more, MQ_NONE among them, belong to no row */
	static const struct {
		uint32_t value, key;
		double other;
	} item[] = { { 70, 2, 0 }, { 71, 1, 0 }, { 72, UINT32_MAX, 0 }, { 73, 2, 0 }, { 74, 4, 0 }, { 75, 1, 0 } };
	uint32_t *first, *list;

	(void)state;
	mq_csr_make(&arena, 4, 6, &item->key, &item->value, sizeof(*item), &first, &list);
	assert_memory_equal(first, ((uint32_t[]){ 0, 0, 2, 4, 4 }), 5 * sizeof(*first));
	assert_memory_equal(list, ((uint32_t[]){ 71, 75, 70, 73 }), 4 * sizeof(*list));
	mq_csr_make(&arena, 4, 6, &item->key, NULL, sizeof(*item), &first, &list);
	assert_memory_equal(list, ((uint32_t[]){ 1, 5, 0, 3 }), 4 * sizeof(*list));
}

static void no_rows(void **state)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	const uint32_t key[] = { 0, 1 };
	uint32_t *first, *list;

	(void)state;
	mq_csr_make(&arena, 0, 2, key, NULL, sizeof(*key), &first, &list);
	assert_int_equal(first[0], 0);
	mq_csr_make(&arena, 2, 0, key, NULL, sizeof(*key), &first, &list);
	assert_memory_equal(first, ((uint32_t[]){ 0, 0, 0 }), 3 * sizeof(*first));
	assert_non_null(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(orders),
		cmocka_unit_test(rows),
		cmocka_unit_test(no_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
