/* result.h - what is known of a plan once it was judged. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_RESULT_H
#define MAQUETTE_RESULT_H

#include "maquette/types.h"

/* Peak memory of one device, by what it is for; bytes. */
struct mq_memory {
	double parameter_B, gradient_B, optimizer_B, activation_B, buffer_B;
	double fragmentation_B; /* what the allocator loses, or keeps of an earlier phase */
	double spare_B;         /* the latter, which it gives back before it fails: part of fragmentation_B */
	double reserve_B;       /* context, libraries, communicators */
	double host_B;          /* not in the sum: offloaded tensors in the host's memory */
	double peak_B;          /* the sum: what the device holds, which the verdict is about */
};
/* Live tensors, what PyTorch's max_memory_allocated counts; with what its allocator holds beside them, what
 * max_memory_reserved counts. */
static inline double mq_memory_allocated_B(const struct mq_memory *m)
{
	return m->parameter_B + m->gradient_B + m->optimizer_B + m->activation_B + m->buffer_B;
}
static inline double mq_memory_reserved_B(const struct mq_memory *m)
{
	return m->peak_B - m->reserve_B;
}

struct mq_result {
	enum mq_verdict verdict;
	/* Numbers, rounded to 9 significant digits: maquette/result.def says what they are. */
#define MQ_RESULT(name, unit, about) double name;
#include "maquette/result.def"
	struct mq_memory memory;    /* of the device nearest its limit, by purpose; all 0 where nothing was lowered */
	struct mq_memory first;     /* likewise of the plan's first device, whose log many runs print */
	uint32_t memory_device;     /* cluster rank */
	uint32_t n_simulated;       /* devices with tasks of their own: fewer than the plan's where identical
				    ranks were folded; 0 unless the verdict is ok */
	uint32_t n_shown, n_traced; /* of these, the devices in timeline.csv and in the trace (mq_outputs) */
	double link_s[16];          /* exposed communication by enum mq_link_class, seconds */
	char bottleneck[160];       /* in words */
	char message[256];          /* why the verdict is not ok */
};

/* Does it fit, while memory_high_B would not? A tight plan is feasible and keeps the verdict ok wherever verdicts are
 * compared; what is written for people and tables says "tight", and of plans that are equal in what they are ranked by
 * one that is tight comes behind one that is not. A plan that misses by however little is oom. Models of measured memory
 * are exact, and nothing of theirs is tight. */
MQ_API bool mq_result_tight(const struct mq_result *result);
/* Its verdict in words: "tight", or the verdict's name. */
MQ_API const char *mq_result_verdict(const struct mq_result *result);
/* True for "ok" and "tight", the words of plans that run. */
MQ_API bool mq_verdict_runs(const char *word);

/* Exit status of a command whose only plan has this verdict; MQ_OK for ok. */
MQ_API enum mq_status mq_verdict_status(enum mq_verdict verdict);

/* A result of which nothing is known but its verdict: numbers are NaN, memory_high_B is 0. */
MQ_API struct mq_result mq_result_none(enum mq_verdict verdict);
/* Rounds all numbers of a result. */
MQ_API void mq_result_round(struct mq_result *result);
/* 9 significant digits: what engines, caches and tables see. */
MQ_API double mq_round9(double value);

#endif
