/* trust.h - how far a session's answers are to be trusted: asked of the index of errors, printed as a line and as a
 * member of JSON. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_TRUST_H
#define MQ_SESSION_TRUST_H

#include <stdio.h>

#include "session/session.h"
#include "trust/trust.h"

/* Reads the index and the files of --trust-with. Where there is no index, that is noted on standard error. MQ_EINPUT: it
 * is damaged. */
enum mq_status mq_session_trust_open(struct mq_session *session, struct mq_err *err) MQ_MUST_CHECK;

/* What the index says of a plan's step. `known` is false where no index was opened, or there is no step. Lives in the
 * arena. */
struct mq_session_trust {
	bool known;
	double step_s;
	struct mq_trust_point point;
	struct mq_trust_answer answer;
	/* Memory of the device nearest its limit: what nine of ten measured runs stay under, by basis. */
	double memory_high_B, memory_limit_B; /* NaN: no such run, or the plan's memory is not known */
	uint32_t memory_runs;
};
struct mq_session_trust mq_session_trust(const struct mq_session *session, const struct mq_plan *plan,
					 const struct mq_result *result, struct mq_arena *arena);
/* The question alone, without a plan, on all of its devices: numbers of a plan are NaN. */
struct mq_trust_point mq_session_point(const struct mq_session *session, struct mq_arena *arena);
/* "trust: 43 measured runs like this ..." and "       beyond what was measured: ..."; nothing where not known. */
void mq_trust_print(const struct mq_session_trust *trust, FILE *file);
/* The object alone: {"runs": ...} or null. */
void mq_trust_json(const struct mq_session_trust *trust, FILE *file);

/* P that the first of two plans is faster; NaN where not known. Its sentence: "A is faster with 93 %" or "too close to
 * call". */
double mq_session_faster(const struct mq_session *session, const struct mq_session_trust *a,
			 const struct mq_session_trust *b);
const char *mq_faster_text(double p, const char *a, const char *b, struct mq_arena *arena);

#endif
