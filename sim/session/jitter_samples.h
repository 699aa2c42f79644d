/* jitter_samples.h - jitter samples of a plan's step (schedule/jitter.h) and its goodput under failures, for printing.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_JITTER_SAMPLES_H
#define MQ_SESSION_JITTER_SAMPLES_H

#include "session/session.h"
#include "schedule/failures.h"
#include "schedule/jitter.h"
#include "search/search.h"

/* Step times of jitter->draws samples, as drawn and sorted. none: a sample has no step time; `refused` has its verdict,
 * and the status is MQ_OK. The seed is the session's. All lives in the session's arena. */
struct mq_jitter_samples {
	uint32_t n;
	double *step_s, *sorted_s;
	double p50_s, p90_s, p99_s, mean_s;
	bool none;
	struct mq_result refused;
};
enum mq_status mq_session_jitter_sample(struct mq_session *session, const struct mq_plan *plan,
					const struct mq_jitter *jitter, bool analytic, struct mq_jitter_samples *draws,
					struct mq_err *err);

/* Goodput under failures of a plan with this result. */
struct mq_goodput mq_session_goodput(const struct mq_session *session, const struct mq_plan *plan,
				     const struct mq_result *result, const struct mq_failures *failures);

#endif
