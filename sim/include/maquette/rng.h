/* rng.h - the one source of randomness: seeded, passed down, never global.
 *
 * xoshiro256** (Blackman & Vigna, 2018), seeded through splitmix64. The same seed gives the same numbers on every
 * machine. Statistics and distributions beyond these belong to GSL. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_RNG_H
#define MAQUETTE_RNG_H

#include <stdint.h>

#include "maquette/err.h"

struct mq_rng {
	uint64_t s[4];
};

MQ_API void mq_rng_seed(struct mq_rng *rng, uint64_t seed);
MQ_API uint64_t mq_rng_next(struct mq_rng *rng);
/* Uniform in [0, 1), 53 bits. */
MQ_API double mq_rng_unit(struct mq_rng *rng);
/* Uniform in 0 .. n-1, unbiased; n > 0. */
MQ_API uint32_t mq_rng_below(struct mq_rng *rng, uint32_t n);
/* Standard normal (Box-Muller, one value per call). */
MQ_API double mq_rng_normal(struct mq_rng *rng);
/* A separate generator for part `index` of a run; does not depend on how much the parent was used. */
MQ_API struct mq_rng mq_rng_split(const struct mq_rng *rng, uint64_t index);

/* Puts the n items of a list in random order. */
#define MQ_SHUFFLE(rng, list, n)                               \
	for (uint32_t left_ = (n); left_ > 1; left_--) {       \
		uint32_t pick_ = mq_rng_below((rng), left_);   \
		__typeof__(*(list)) keep_ = (list)[left_ - 1]; \
		(list)[left_ - 1] = (list)[pick_];             \
		(list)[pick_] = keep_;                         \
	}

/* 64-bit FNV-1a over bytes; start with MQ_HASH_INIT. */
#define MQ_HASH_INIT 0xcbf29ce484222325u
MQ_API uint64_t mq_hash(uint64_t hash, const void *bytes, uint64_t size);

#endif
