/* rng.c - see rng.h. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/rng.h"

#include <math.h>

static uint64_t splitmix(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void mq_rng_seed(struct mq_rng *rng, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		rng->s[i] = splitmix(&seed);
}

static uint64_t rotate(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

uint64_t mq_rng_next(struct mq_rng *rng)
{
	uint64_t *s = rng->s;
	uint64_t result = rotate(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate(s[3], 45);
	return result;
}

double mq_rng_unit(struct mq_rng *rng)
{
	return (double)(mq_rng_next(rng) >> 11) * 0x1p-53;
}

uint32_t mq_rng_below(struct mq_rng *rng, uint32_t n)
{
	mq_assert(n > 0);
	uint64_t limit = UINT64_MAX - UINT64_MAX % n;
	uint64_t draw;

	do
		draw = mq_rng_next(rng);
	while (draw >= limit);
	return (uint32_t)(draw % n);
}

double mq_rng_normal(struct mq_rng *rng)
{
	double u = 1 - mq_rng_unit(rng); /* in (0, 1]: the logarithm is finite */
	double v = mq_rng_unit(rng);

	return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

struct mq_rng mq_rng_split(const struct mq_rng *rng, uint64_t index)
{
	struct mq_rng part;
	uint64_t seed = mq_hash(MQ_HASH_INIT, rng->s, sizeof(rng->s));

	mq_rng_seed(&part, mq_hash(seed, &index, sizeof(index)));
	return part;
}

uint64_t mq_hash(uint64_t hash, const void *bytes, uint64_t size)
{
	const unsigned char *b = bytes;

	for (uint64_t i = 0; i < size; i++)
		hash = (hash ^ b[i]) * 0x100000001b3u;
	return hash;
}
