/* spread.h - what `simulate` says beside one step time: quantiles over draws, and goodput.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_CMD_SIMULATE_SPREAD_H
#define MQ_CMD_SIMULATE_SPREAD_H

#include "session/jitter_samples.h"

struct mq_spread_asked {
	const char *jitter, *failures; /* --jitter, --failures: key=value,...; NULL = not asked */
	struct mq_jitter draw;         /* as read; draws, mtbf_h 0: not asked */
	struct mq_failures fail;
};
/* Reads both. MQ_EINPUT: an unknown key, a value out of range, failures without mtbf_h. */
enum mq_status mq_spread_read(struct mq_spread_asked *asked, struct mq_arena *arena, struct mq_err *err);

/* What was asked of a plan whose step time is there. `dir` (may be NULL) gets draws.csv; `words` the lines,
 * or, as JSON, members that begin with a comma each. */
struct mq_spread {
	struct mq_session *session;
	const struct mq_plan *plan;
	const struct mq_result *result;
	bool analytic, json;
	const char *dir;
};
enum mq_status mq_spread_say(const struct mq_spread *spread, const struct mq_spread_asked *asked, FILE *words,
			     struct mq_err *err);

#endif
