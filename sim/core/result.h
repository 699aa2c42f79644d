/*
 * result.h - what is known of a plan once it was judged.
 */
#ifndef MQ_CORE_RESULT_H
#define MQ_CORE_RESULT_H

#include "core/types.h"

/* Peak memory of one device, by what it is for; bytes. */
struct mq_memory {
	double parameter_B, gradient_B, optimizer_B, activation_B, buffer_B;
	double fragmentation_B;  /* what the allocator loses, or keeps of an earlier phase */
	double reserve_B;        /* context, libraries, communicators */
	double peak_B;           /* the sum */
};

struct mq_result {
	enum mq_verdict verdict;
	double step_time_s;      /* rounded to 9 significant digits; NaN unless the verdict is ok, or oom where
				    such plans are timed too (mq_judge) */
	double samples_per_s, mfu;
	double peak_memory_B;    /* of the device nearest its limit */
	struct mq_memory memory; /* of that device, by purpose; all 0 where nothing was lowered */
	struct mq_memory first;  /* likewise of the plan's first device, whose log many runs print */
	double memory_limit_B;   /* of that device */
	uint32_t memory_device;  /* cluster rank */
	uint32_t n_simulated;    /* devices with tasks of their own: fewer than the plan's where identical
				    ranks were folded; 0 unless the verdict is ok */
	double compute_s, exposed_comm_s, bubble_s, lower_bound_s;
	double link_s[16];       /* exposed communication by enum mq_link_class, seconds */
	char bottleneck[160];    /* in words */
	char message[256];       /* why the verdict is not ok */
};

/* 9 significant digits: what engines, caches and tables see. */
MQ_API double mq_round9(double value);

#endif
