/* sample.c - a sample of device pairs that represents a platform. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/platform/words.h"

enum { ALL_PAIRS = 128 }; /* up to this number of devices, all pairs */

/* All devices of a small platform; else devices at equal steps, the first ones, and those at 1, 2, 4, ... from both
 * ends, which covers every level of a regular fabric. */
void mq_platform_sample(const struct mq_cluster *cluster, struct mq_arena *arena, struct mq_platform_sample *sample)
{
	uint32_t n = cluster->n_devices;
	uint32_t step = n <= ALL_PAIRS ? 1 : (n + ALL_PAIRS - 1) / ALL_PAIRS;
	bool *taken = mq_arena_array(arena, n, bool);

	sample->all = n <= ALL_PAIRS;
	sample->n = 0;
	sample->device = mq_arena_array(arena, n, uint32_t);
	for (uint32_t i = 0; i < n; i += step)
		taken[i] = true;
	for (uint32_t i = 0; i < n && i < ALL_PAIRS / 2; i++)
		taken[i] = true;
	for (uint32_t i = 1; i < n; i *= 2)
		taken[i] = taken[n - 1 - i] = true;
	taken[n - 1] = true;
	for (uint32_t i = 0; i < n; i++)
		if (taken[i])
			sample->device[sample->n++] = i;
}

uint32_t mq_platform_partner(uint32_t n, uint32_t rank)
{
	return (rank + n / 2) % (n - n % 2);
}
