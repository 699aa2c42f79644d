/* trust.h - trust in a session's answers: asks the index of errors, prints a line or a member of JSON.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_TRUST_H
#define MQ_SESSION_TRUST_H

#include <stdio.h>

#include "session/session.h"
#include "trust/trust.h"

/* The index's answer about a plan's step; lives in the arena. known = false: no index, or no step time. */
struct mq_session_trust {
	bool known;
	double step_s;
	struct mq_trust_point point;
	struct mq_trust_answer answer;
};
struct mq_session_trust mq_session_trust(const struct mq_session *session, const struct mq_plan *plan,
					 const struct mq_result *result, struct mq_arena *arena);
/* The question without a plan, on all its devices; a plan's numbers are NaN. */
struct mq_trust_point mq_session_point(const struct mq_session *session, struct mq_arena *arena);
/* "trust: 43 measured runs like this ..." and "       beyond what was measured: ..."; nothing if unknown. */
void mq_trust_print(const struct mq_session_trust *trust, FILE *file);
/* A clause on the error of predicted memory, which explains why a plan is tight. */
const char *mq_session_memory_text(const struct mq_session *session, struct mq_arena *arena);
/* Prints a JSON object whose members are named as the columns of mq_trust_put_answer; null if unknown. */
void mq_trust_json(const struct mq_session_trust *trust, FILE *file);

/* Probability that plan `a` is faster than `b`; NaN: unknown. mq_faster_text words it: "A is faster with 93 %" or "too
 * close to call". */
double mq_session_faster(const struct mq_session *session, const struct mq_session_trust *a,
			 const struct mq_session_trust *b);
const char *mq_faster_text(double p, const char *a, const char *b, struct mq_arena *arena);

#endif
