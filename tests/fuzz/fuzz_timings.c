/* fuzz_timings.c - tables of measured collectives and of measured matrix products, scored whole.
 * SPDX-License-Identifier: Apache-2.0 */
#include "scored.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	scored_whole(data, size, (scored_table *[]){ mq_score_collectives, mq_score_gemm }, 2);
	return 0;
}
