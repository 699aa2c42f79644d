/* result.c - see result.h. */
#include "core/result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool mq_result_tight(const struct mq_result *r)
{
	return r->verdict == MQ_VERDICT_OK && r->memory_limit_B > 0 &&
	       r->needed_memory_B > (1 - MQ_MEMORY_ERROR) * r->memory_limit_B;
}

const char *mq_result_verdict(const struct mq_result *r)
{
	return mq_result_tight(r) ? "tight" : mq_verdict_name(r->verdict);
}

bool mq_verdict_runs(const char *word)
{
	return !strcmp(word, "ok") || !strcmp(word, "tight");
}

enum mq_status mq_verdict_status(enum mq_verdict verdict)
{
	switch (verdict) {
	case MQ_VERDICT_OK:
		return MQ_OK;
	case MQ_VERDICT_INVALID:
		return MQ_EINPUT;
	case MQ_VERDICT_CRASH: /* the machine's, not the plan's: asked again, it may have an answer */
		return MQ_ETIME;
	default:
		return MQ_ENOPLAN;
	}
}

/* Through decimal text: the one rounding that a table, a cache and a reader of either agree on. */
double mq_round9(double value)
{
	char text[40];

	if (!isfinite(value))
		return value;
	snprintf(text, sizeof(text), "%.8e", value);
	return strtod(text, NULL);
}
