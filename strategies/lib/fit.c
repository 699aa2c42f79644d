/* fit.c - see fit.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/fit.h"

#include <math.h>

#include "maquette/engine.h"
#include "lib/plans.h"

double mq_fit_excess(const struct mq_result *r)
{
	if (r->verdict == MQ_VERDICT_OK)
		return 0;
	if (r->verdict != MQ_VERDICT_OOM || !(r->memory_limit_B > 0) || !isfinite(r->peak_memory_B))
		return MQ_FIT_FAILED;
	return fmin(fmax(r->peak_memory_B / r->memory_limit_B, 1), MQ_FIT_FAILED);
}

void mq_fit_apply(const struct mq_fit *fit, struct mq_plan *plan)
{
	plan->micro_batches = fit->micro_batches;
	for (uint32_t c = 0; c < plan->n_configs; c++)
		plan->config[c].recompute = fit->recompute;
}

/* Judges the plan with one setting, with or without its time; false: not allowed, or it cannot be judged. */
static bool judge(const struct mq_problem *p, const struct mq_plan *plan, const struct mq_fit *fit, bool timed,
		  struct mq_result *r)
{
	bool (*ask)(void *, const struct mq_plan *, struct mq_result *) = timed ? p->costs->screen : p->costs->fits;
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_err lost;
	struct mq_plan copy;
	char why[256];

	mq_plan_copy(&copy, plan, &scratch);
	mq_fit_apply(fit, &copy);
	bool known = mq_plan_check(&copy, p->q->model, p->q->cluster, p->q->train, &lost) == MQ_OK &&
		     (!p->limits || mq_limits_hold(p->limits, &copy, p->q->train, why, sizeof(why))) &&
		     ask(p->costs->screen_context, &copy, r);
	return known;
}

struct mq_fit mq_fit_find(const struct mq_problem *p, const struct mq_plan *plan, double most)
{
	struct mq_fit plain = { .micro_batches = plan->micro_batches, .fits = true, .least = 1 }, best;
	struct mq_result r;
	double fastest_s = (double)INFINITY;

	if (plan->n_configs)
		plain.recompute = plan->config[0].recompute;
	if (!p->costs->screen || !judge(p, plan, &plain, false, &r) || r.verdict != MQ_VERDICT_OOM)
		return plain;
	best = plain;
	best.fits = false;
	best.least = mq_fit_excess(&r);
	for (uint32_t m = 1; m <= most; m *= 2)
		for (uint32_t k = 0; k < (p->q->train->infer ? 1 : MQ_N_RECOMPUTES); k++) {
			struct mq_fit now = { .micro_batches = m, .recompute = (uint8_t)k };

			if (!p->tick(p->tick_context, NAN, "making room"))
				return best;
			if (!judge(p, plan, &now, true, &r))
				continue;
			now.least = mq_fit_excess(&r);
			now.fits = r.verdict == MQ_VERDICT_OK;
			if (now.fits && r.step_time_s < fastest_s) {
				fastest_s = r.step_time_s;
				best = now;
			} else if (!best.fits && r.verdict == MQ_VERDICT_OOM && now.least < best.least) {
				best = now;
			}
		}
	return best;
}

void mq_fit_say(const struct mq_problem *p, const char *engine, const char *space, const struct mq_fit *fit)
{
	if (!fit->fits)
		mq_say(p,
		       "%s: %s does not fit, not even with %u micro-batches and recompute %s (needs %.2f times the "
		       "memory); the search goes on from there. Engines with stages, or more devices, have more room",
		       engine, space, fit->micro_batches, mq_recompute_name(fit->recompute), fit->least);
	else if (fit->micro_batches > 1 || fit->recompute)
		mq_say(p,
		       "%s: the whole batch at once does not fit; every plan accumulates %u micro-batches, recompute "
		       "%s",
		       engine, fit->micro_batches, mq_recompute_name(fit->recompute));
}
