/* trust.h - how far a session's answers are to be trusted: asked of the index of errors, printed as a line and as a
 * member of JSON. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_TRUST_H
#define MQ_SESSION_TRUST_H

#include <stdio.h>

#include "session/session.h"
#include "trust/trust.h"

/* What the index says of a plan's step. `known` is false where there is no index, or no step. Lives in the
 * arena. */
struct mq_session_trust {
	bool known;
	double step_s;
	struct mq_trust_point point;
	struct mq_trust_answer answer;
};
struct mq_session_trust mq_session_trust(const struct mq_session *session, const struct mq_plan *plan,
					 const struct mq_result *result, struct mq_arena *arena);
/* The question alone, without a plan, on all of its devices: numbers of a plan are NaN. */
struct mq_trust_point mq_session_point(const struct mq_session *session, struct mq_arena *arena);
/* "trust: 43 measured runs like this ..." and "       beyond what was measured: ..."; nothing where not known. */
void mq_trust_print(const struct mq_session_trust *trust, FILE *file);
/* How far predicted memory may be off, as a clause: why a plan is tight. */
const char *mq_session_memory_text(const struct mq_session *session, struct mq_arena *arena);
/* The object alone, the members named as the columns of mq_trust_put_answer; or null. */
void mq_trust_json(const struct mq_session_trust *trust, FILE *file);

/* P that the first of two plans is faster; NaN where not known. Its sentence: "A is faster with 93 %" or "too close to
 * call". */
double mq_session_faster(const struct mq_session *session, const struct mq_session_trust *a,
			 const struct mq_session_trust *b);
const char *mq_faster_text(double p, const char *a, const char *b, struct mq_arena *arena);

#endif
