/* result.h - the result of judging a plan. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_RESULT_H
#define MAQUETTE_RESULT_H

#include "maquette/types.h"

/* Peak memory of one device, by what it is for; bytes. */
struct mq_memory {
	double parameter_B, gradient_B, optimizer_B, activation_B, buffer_B;
	double fragmentation_B; /* lost by the allocator, or kept of an earlier phase */
	double spare_B;         /* part of fragmentation_B that the allocator returns before it fails */
	double reserve_B;       /* context, libraries, communicators */
	double host_B;          /* not in the sum: offloaded tensors in the host's memory */
	double peak_B;          /* the sum, which decides the verdict */
};
/* Live tensors, as PyTorch's max_memory_allocated counts; with the allocator's further memory, as max_memory_reserved
 * counts. */
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
	/* Numbers, rounded to 9 significant digits; described in maquette/result.def. */
#define MQ_RESULT(name, unit, about) double name;
#include "maquette/result.def"
	struct mq_memory memory; /* of the device nearest its limit, by purpose; all 0: not lowered */
	struct mq_memory first;  /* likewise of the plan's first device, whose memory many runs log */
	uint32_t memory_device;  /* cluster rank */
	uint32_t n_simulated; /* devices with their own tasks: fewer than the plan's if identical ranks were folded; 0
			       * unless the verdict is ok */
	uint32_t n_shown, n_traced; /* of these, the devices in timeline.csv and in the trace (mq_outputs) */
	double link_s[16];          /* exposed communication by enum mq_link_class, seconds */
	char bottleneck[160];       /* in words */
	char message[256];          /* why the verdict is not ok */
};

/* Does the plan fit although memory_high_B would not? Such a plan keeps the verdict ok wherever verdicts are compared;
 * texts and tables say "tight", and it ranks after an equally good plan that is not tight. A plan over the limit by any
 * amount is oom. Models of measured memory are exact: their plans are never tight. */
MQ_API bool mq_result_tight(const struct mq_result *result);
/* Its verdict in words: "tight", or the verdict's name. */
MQ_API const char *mq_result_verdict(const struct mq_result *result);
/* True for "ok" and "tight", the words of plans that run. */
MQ_API bool mq_verdict_runs(const char *word);

/* Exit status of a command whose only plan has this verdict; MQ_OK for ok. */
MQ_API enum mq_status mq_verdict_status(enum mq_verdict verdict);

/* A result of which only the verdict is known: numbers are NaN, memory_high_B is 0. */
MQ_API struct mq_result mq_result_none(enum mq_verdict verdict);
/* Rounds all numbers of a result. */
MQ_API void mq_result_round(struct mq_result *result);
/* Rounds to 9 significant digits, as engines, caches and tables see numbers. */
MQ_API double mq_round9(double value);

#endif
