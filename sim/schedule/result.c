/* result.c - see result.h. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The one table of verdicts. */
static const struct {
	const char *name;
	enum mq_status status;
} verdicts[MQ_N_VERDICTS] = {
	[MQ_VERDICT_OK] = { "ok", MQ_OK },
	[MQ_VERDICT_OOM] = { "oom", MQ_ENOPLAN },
	[MQ_VERDICT_DEADLOCK] = { "deadlock", MQ_ENOPLAN },
	[MQ_VERDICT_TIMEOUT] = { "timeout", MQ_ENOPLAN },
	/* a failure of this machine, not of the plan */
	[MQ_VERDICT_CRASH] = { "crash", MQ_ETIME },
	[MQ_VERDICT_INVALID] = { "invalid", MQ_EINPUT },
	[MQ_VERDICT_REFUSED] = { "refused", MQ_ENOPLAN },
};

const char *mq_verdict_name(enum mq_verdict v)
{
	return (unsigned)v < MQ_N_VERDICTS ? verdicts[v].name : "?";
}

enum mq_status mq_verdict_status(enum mq_verdict v)
{
	mq_assert((unsigned)v < MQ_N_VERDICTS);
	return verdicts[v].status;
}

bool mq_result_tight(const struct mq_result *r)
{
	return r->verdict == MQ_VERDICT_OK && r->memory_limit_B > 0 && r->memory_high_B > r->memory_limit_B;
}

const char *mq_result_verdict(const struct mq_result *r)
{
	return mq_result_tight(r) ? "tight" : mq_verdict_name(r->verdict);
}

bool mq_verdict_runs(const char *word)
{
	return !strcmp(word, "ok") || !strcmp(word, "tight");
}

/* Rounds through decimal text, so that tables, caches and their readers have equal values. */
double mq_round9(double value)
{
	char text[40];

	if (!isfinite(value))
		return value;
	snprintf(text, sizeof(text), "%.8e", value);
	return strtod(text, NULL);
}

struct mq_result mq_result_none(enum mq_verdict verdict)
{
	struct mq_result r = { .verdict = verdict, .memory_device = MQ_NONE };

#define MQ_RESULT(name, unit, about) r.name = NAN;
#include "maquette/result.def"
	r.memory_high_B = 0;
	return r;
}

void mq_result_round(struct mq_result *r)
{
#define MQ_RESULT(name, unit, about) r->name = mq_round9(r->name);
#include "maquette/result.def"
	for (size_t i = 0; i < sizeof(r->link_s) / sizeof(*r->link_s); i++)
		r->link_s[i] = mq_round9(r->link_s[i]);
}
