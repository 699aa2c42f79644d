/* test_autocast_memory.c - what norms and the GEMMs behind them keep under torch.autocast.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lowered.h"

enum { LAYERS = 2, HIDDEN = 64, SEQ = 32 };

static int make_world(void **state)
{
	static struct lowered w;

	lowered_open(&w, "llama:layers=2,hidden=64,heads=4,kv_heads=4,ffn=128,seq=32,vocab=2048", 1, 8);
	w.software.allocator = MQ_ALLOCATOR_OTHER;
	*state = &w;
	return 0;
}

/* An RMS norm of one kernel keeps its input in 4 bytes, not 2, and each module behind it casts an operand of 2 of its
 * own: queries, keys and values; gate and up; the head. Op by op it keeps 4 bytes of a product too. */
static void norms_are_wide(void **state)
{
	struct lowered *w = *state;
	struct mq_shape shape = { .micro_batches = 8, .pipeline = MQ_PIPE_1F1B };
	double kept[3], elems = SEQ * HIDDEN;

	w->software.separate_projections = true;
	for (int i = 0; i < 3; i++) {
		w->software.autocast = i > 0;
		w->software.norm = i == 2 ? MQ_EAGER : MQ_FUSED;
		assert_non_null(lowered_shape(w, &shape));
		kept[i] = w->low.memory[0].activation_B;
	}
	assert_true(kept[1] == kept[0] + 2 * elems * (LAYERS * (3 + 2) + 1));
	assert_true(kept[2] == kept[1] + 4 * elems * (2 * LAYERS + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(norms_are_wide) };

	return cmocka_run_group_tests(tests, make_world, lowered_free);
}
