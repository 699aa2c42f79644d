/*
 * scored.h - what the targets of published tables stand on: the shipped platforms, read once.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_SCORED_H
#define MQ_TESTS_SCORED_H

#include "fuzz.h"

#include "score/row.h"

/* Lives as long as the process; arena, input and out are the caller's to set in a copy. */
static inline const struct mq_score_options *scored_platforms(void)
{
	static struct mq_arena lasting = MQ_ARENA_INIT;
	static struct mq_score_options known;
	struct mq_err err = MQ_ERR_INIT;

	if (!known.arena) {
		mq_score_options_init(&known, &lasting);
		known.platforms = "platforms";
		mq_assert(mq_score_open(&known, &err) == MQ_OK && mq_score_open_runs(&known, &err) == MQ_OK);
	}
	return &known;
}

/* The bytes as a table that each of these functions scores whole or refuses. */
typedef enum mq_status scored_table(const struct mq_score_options *options, double *mean, struct mq_err *err);

static inline void scored_whole(const uint8_t *data, size_t size, scored_table *const *score, size_t n)
{
	struct mq_score_options options = *scored_platforms();
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	double mean;

	options.arena = &arena;
	options.input = fuzz_file(data, size, ".csv");
	options.out = fuzz_folder();
	for (size_t i = 0; i < n; i++)
		fuzz_refused(score[i](&options, &mean, &err), &err);
	mq_arena_fini(&arena);
}

#endif
