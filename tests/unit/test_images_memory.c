/* test_images_memory.c - what image networks keep beside what their ops count. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lowered.h"

static int make_world(void **state)
{
	static struct lowered w;

	lowered_open(&w, "vgg11", 1, 8);
	w.software.allocator = MQ_ALLOCATOR_OTHER;
	*state = &w;
	return 0;
}

static double activation_B(struct lowered *w)
{
	assert_non_null(lowered_plan(w));
	return w->low.memory[0].activation_B;
}

/* VGG-11 pools 224 x 224 x 64, 112 x 112 x 128, 56 x 56 x 256, 28 x 28 x 512 and 14 x 14 x 512 to quarters. */
static void places_and_batch(void **state)
{
	struct lowered *w = *state;
	struct mq_shape shape = { .micro_batches = 8, .pipeline = MQ_PIPE_1F1B };
	double pooled = 64 * 112 * 112 + 128 * 56 * 56 + 256 * 28 * 28 + 512 * (14 * 14 + 7 * 7);

	assert_non_null(lowered_shape(w, &shape));
	double bytes = activation_B(w); /* a place is a byte */
	w->software.aten_image_kernels = true;
	assert_true(activation_B(w) == bytes + 7 * pooled);
	w->software.autocast = true;
	assert_true(activation_B(w) == bytes + 7 * pooled + 4 * 3 * 224 * 224);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(places_and_batch) };

	return cmocka_run_group_tests(tests, make_world, lowered_free);
}
