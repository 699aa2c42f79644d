/* test_allocator.c - sequences of requests whose blocks and segments are worked out by hand from the allocator's rules.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "schedule/allocator.h"
#include "maquette/types.h"

static const uint64_t KiB = 1 << 10, MiB = 1 << 20;

static int make(void **state)
{
	static struct mq_arena arena;

	arena = (struct mq_arena)MQ_ARENA_INIT;
	*state = &arena;
	return 0;
}

static int unmake(void **state)
{
	mq_arena_fini(*state);
	return 0;
}

static void assert_use(const struct mq_allocator *a, uint64_t live, uint64_t reserved)
{
	const struct mq_allocator_use use = mq_allocator_used(a);

	assert_int_equal(use.live, live);
	assert_int_equal(use.reserved, reserved);
}

static uint32_t take(struct mq_allocator *a, uint64_t bytes)
{
	return mq_allocator_take(a, MQ_POOL_COMPUTE, bytes);
}

static void requests_are_rounded(void **state)
{
	struct mq_allocator *a = mq_allocator_new(*state, UINT64_MAX);

	take(a, 1);
	assert_use(a, 512, 2 * MiB);
	take(a, 513);
	assert_use(a, 1536, 2 * MiB);
	take(a, MiB); /* the last small one: it fits behind the others */
	assert_use(a, 1536 + MiB, 2 * MiB);
	take(a, MiB); /* it no longer does */
	assert_use(a, 1536 + 2 * MiB, 4 * MiB);
	take(a, MiB + 1);
	assert_use(a, 2048 + 3 * MiB, 24 * MiB);
	take(a, 10 * MiB - 1); /* in the same 20 MiB */
	assert_use(a, 2048 + 13 * MiB, 24 * MiB);
	take(a, 10 * MiB); /* no longer: a segment of its own */
	assert_use(a, 2048 + 23 * MiB, 34 * MiB);
	take(a, 11 * MiB + 1); /* rounded up to 12 MiB; less than 1 MiB behind it is not split off */
	assert_use(a, 2048 + 35 * MiB, 46 * MiB);
}

static void rests_are_split_above_a_mebibyte(void **state)
{
	struct mq_allocator *a = mq_allocator_new(*state, UINT64_MAX);
	uint32_t x = take(a, 30 * MiB);

	mq_allocator_give(a, x, false);
	assert_use(a, 0, 30 * MiB);
	x = take(a, 29 * MiB); /* a rest of exactly 1 MiB stays with it */
	assert_use(a, 30 * MiB, 30 * MiB);
	mq_allocator_give(a, x, false);
	x = take(a, 28 * MiB); /* 2 MiB are a block of their own */
	assert_use(a, 28 * MiB, 30 * MiB);
	uint32_t y = take(a, 2 * MiB);
	assert_use(a, 30 * MiB, 30 * MiB);
	mq_allocator_give(a, x, false);
	mq_allocator_give(a, y, false); /* both join again */
	take(a, 30 * MiB);
	assert_use(a, 30 * MiB, 30 * MiB);
}

static void the_smallest_that_fits_serves(void **state)
{
	struct mq_allocator *a = mq_allocator_new(*state, UINT64_MAX);
	uint32_t large = take(a, 64 * MiB), small = take(a, 32 * MiB);

	mq_allocator_give(a, large, false);
	mq_allocator_give(a, small, false);
	take(a, 30 * MiB); /* from the 32 */
	take(a, 64 * MiB); /* so the 64 are still whole */
	assert_use(a, 94 * MiB, 96 * MiB);
	take(a, 2 * MiB); /* what the 30 left */
	assert_use(a, 96 * MiB, 96 * MiB);
}

static void neighbours_join_on_both_sides(void **state)
{
	struct mq_allocator *a = mq_allocator_new(*state, UINT64_MAX);

	mq_allocator_give(a, take(a, 60 * MiB), false);
	uint32_t x = take(a, 20 * MiB), y = take(a, 20 * MiB), z = take(a, 20 * MiB);
	mq_allocator_give(a, x, false);
	mq_allocator_give(a, z, false);
	mq_allocator_give(a, y, false);
	assert_int_equal(take(a, 60 * MiB) != MQ_NONE, true);
	assert_use(a, 60 * MiB, 60 * MiB);
}

static void only_whole_segments_go_back(void **state)
{
	struct mq_allocator *a = mq_allocator_new(*state, 100 * MiB);
	uint32_t x = take(a, 60 * MiB);

	mq_allocator_give(a, x, false);
	uint32_t pin = take(a, 2 * MiB);              /* the front of the 60 */
	assert_int_equal(take(a, 59 * MiB), MQ_NONE); /* 58 free in one block, 40 left on the device */
	assert_use(a, 2 * MiB, 60 * MiB);
	assert_int_equal(mq_allocator_used(a).returned, 1);
	mq_allocator_give(a, pin, false);
	assert_int_equal(take(a, 80 * MiB) != MQ_NONE, true); /* the 60 are whole again and go back */
	assert_use(a, 80 * MiB, 80 * MiB);
	assert_int_equal(mq_allocator_used(a).returned, 2);
	assert_int_equal(mq_allocator_used(a).peak_reserved, 80 * MiB);
}

static void late_blocks_wait_for_the_device(void **state)
{
	struct mq_allocator *a = mq_allocator_new(*state, 50 * MiB);
	uint32_t x = take(a, 20 * MiB);

	mq_allocator_give(a, x, true);
	x = take(a, 20 * MiB); /* the first is not free yet */
	assert_use(a, 40 * MiB, 40 * MiB);
	mq_allocator_pass(a, 0);
	assert_use(a, 20 * MiB, 40 * MiB);
	mq_allocator_give(a, take(a, 20 * MiB), true);
	assert_use(a, 40 * MiB, 40 * MiB);
	take(a, 30 * MiB); /* the allocator waits for it, and gives it back */
	assert_use(a, 50 * MiB, 50 * MiB);
	mq_allocator_give(a, x, false);
	assert_use(a, 30 * MiB, 50 * MiB);
}

static void late_blocks_are_passed_in_order(void **state)
{
	struct mq_allocator *a = mq_allocator_new(*state, UINT64_MAX);
	uint32_t x = take(a, 20 * MiB), y = take(a, 30 * MiB);

	mq_allocator_give(a, x, true);
	mq_allocator_give(a, y, true);
	mq_allocator_pass(a, 1); /* the device has come to the 30 */
	assert_use(a, 30 * MiB, 50 * MiB);
	mq_allocator_pass(a, 1);
	assert_use(a, 30 * MiB, 50 * MiB);
	mq_allocator_pass(a, 0);
	assert_use(a, 0, 50 * MiB);
}

static void small_blocks_stay_in_their_pool(void **state)
{
	struct mq_allocator *a = mq_allocator_new(*state, UINT64_MAX);

	mq_allocator_give(a, take(a, 64 * MiB), false);
	uint32_t x = take(a, 512 * KiB); /* not from the 64 MiB */
	assert_use(a, 512 * KiB, 66 * MiB);
	mq_allocator_give(a, x, false);
	take(a, 2 * MiB); /* nor this from the free segment of small ones */
	assert_use(a, 2 * MiB, 66 * MiB);
	assert_int_equal(mq_allocator_used(a).peak_live, 64 * MiB);
}

static void streams_share_no_blocks(void **state)
{
	struct mq_allocator *a = mq_allocator_new(*state, 100 * MiB);

	mq_allocator_give(a, take(a, 64 * MiB), false);
	uint32_t x = mq_allocator_take(a, MQ_POOL_GATHER, 30 * MiB); /* not from the 64 of another stream */
	assert_use(a, 30 * MiB, 94 * MiB);
	take(a, 70 * MiB); /* which go back all the same */
	assert_use(a, 100 * MiB, 100 * MiB);
	mq_allocator_give(a, x, false);
	assert_int_equal(take(a, 30 * MiB) != MQ_NONE, true); /* as this one does */
	assert_use(a, 100 * MiB, 100 * MiB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(requests_are_rounded, make, unmake),
		cmocka_unit_test_setup_teardown(rests_are_split_above_a_mebibyte, make, unmake),
		cmocka_unit_test_setup_teardown(the_smallest_that_fits_serves, make, unmake),
		cmocka_unit_test_setup_teardown(neighbours_join_on_both_sides, make, unmake),
		cmocka_unit_test_setup_teardown(only_whole_segments_go_back, make, unmake),
		cmocka_unit_test_setup_teardown(late_blocks_wait_for_the_device, make, unmake),
		cmocka_unit_test_setup_teardown(late_blocks_are_passed_in_order, make, unmake),
		cmocka_unit_test_setup_teardown(small_blocks_stay_in_their_pool, make, unmake),
		cmocka_unit_test_setup_teardown(streams_share_no_blocks, make, unmake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
