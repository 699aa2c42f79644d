/* fuzz_kernels.c - tables of timed kernels in each of their formats, scored whole.
 * SPDX-License-Identifier: Apache-2.0 */
#include "scored.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	scored_whole(data, size, (scored_table *[]){ mq_score_kernels }, 1);
	return 0;
}
