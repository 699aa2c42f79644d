/* search_limits.c - --fix and --max: does a plan keep them; cost queries that count their screens.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "search/search.h"

const char *const mq_objectives[] = { "step-time", "max-load", "latency", "cost", "energy", NULL };

static bool differs(uint32_t wanted, uint32_t found, const char *name, char *message, size_t size)
{
	if (!wanted || wanted == found)
		return false;
	snprintf(message, size, "has %s %u, --fix asks for %u", name, found, wanted);
	return true;
}

static bool exceeds(uint32_t limit, uint32_t found, const char *name, char *message, size_t size)
{
	if (!limit || found <= limit)
		return false;
	snprintf(message, size, "has %s %u, --max allows %u", name, found, limit);
	return true;
}

static bool enum_differs(int wanted, int found, const char *name, char *message, size_t size)
{
	if (wanted < 0 || wanted == found)
		return false;
	snprintf(message, size, "differs from --fix %s", name);
	return true;
}

/* Degrees of a plan of any shape: over its stages, the least and the most. */
struct spread {
	uint32_t least_dp, most_dp, least_tp, most_tp, pp, cp, ep;
};

static struct spread spread_of(const struct mq_plan *plan)
{
	struct mq_degrees d = mq_plan_degrees(plan);
	struct spread s = { d.dp, d.dp, d.tp, d.tp, d.pp, d.cp, d.ep };
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	uint32_t stages = mq_plan_stage_count(plan);

	if (d.dp)
		return s;
	s = (struct spread){ UINT32_MAX, 0, UINT32_MAX, 0, stages / plan->virtual, 1, 1 };
	uint32_t *dp = mq_arena_array(&scratch, stages, uint32_t);
	uint32_t *tp = mq_arena_array(&scratch, stages, uint32_t);
	for (uint32_t op = 0; op < plan->n_ops; op++) {
		const struct mq_config *c = &plan->config[plan->config_of[op]];
		uint32_t batch = c->split[MQ_DIM_EXPERT] > 1 ? 1 : c->split[MQ_DIM_BATCH];
		uint32_t tensor = c->split[MQ_DIM_HEAD] * c->split[MQ_DIM_OUT] * c->split[MQ_DIM_IN];

		dp[c->stage] = batch > dp[c->stage] ? batch : dp[c->stage];
		tp[c->stage] = tensor > tp[c->stage] ? tensor : tp[c->stage];
		s.ep = c->split[MQ_DIM_EXPERT] > s.ep ? c->split[MQ_DIM_EXPERT] : s.ep;
	}
	for (uint32_t i = 0; i < stages; i++) {
		s.least_dp = dp[i] < s.least_dp ? dp[i] : s.least_dp;
		s.most_dp = dp[i] > s.most_dp ? dp[i] : s.most_dp;
		s.least_tp = tp[i] < s.least_tp ? tp[i] : s.least_tp;
		s.most_tp = tp[i] > s.most_tp ? tp[i] : s.most_tp;
	}
	return s;
}

/* Of the stages' ops, the most: ranks that exchange heads about attention (its heads are in more parts than the
 * stage has tensor-parallel ranks), and the tensor-parallel degree of experts, that of all else where these are not
 * dealt out. */
static void find_inner(const struct mq_plan *plan, uint32_t tp, uint32_t *ulysses, uint32_t *etp)
{
	uint32_t experts = 0;

	*ulysses = 1;
	for (uint32_t i = 0; i < plan->n_configs; i++) {
		const uint32_t *split = plan->config[i].split;
		uint32_t tensor = split[MQ_DIM_OUT] * split[MQ_DIM_IN];

		if (split[MQ_DIM_HEAD] / mq_or_1(tp) > *ulysses)
			*ulysses = split[MQ_DIM_HEAD] / mq_or_1(tp);
		if (split[MQ_DIM_EXPERT] > 1 && tensor > experts)
			experts = tensor;
	}
	*etp = experts ? experts : tp;
}

static bool inner_hold(const struct mq_limits *l, const struct mq_plan *plan, uint32_t tp, char *message, size_t size)
{
	uint32_t ulysses, etp;

	if (!l->fix_ulysses && !l->fix_etp)
		return true;
	find_inner(plan, tp, &ulysses, &etp);
	return !differs(l->fix_ulysses, ulysses, "ulysses", message, size) &&
	       !differs(l->fix_etp, etp, "etp", message, size);
}

static bool degrees_hold(const struct mq_limits *l, const struct mq_plan *plan, const struct spread *d, char *message,
			 size_t size)
{
	uint32_t n_devices = mq_plan_degrees(plan).n_devices;

	return !(
		differs(l->fix_dp, d->least_dp, "dp", message, size) ||
		differs(l->fix_dp, d->most_dp, "dp", message, size) ||
		differs(l->fix_tp, d->least_tp, "tp", message, size) ||
		differs(l->fix_tp, d->most_tp, "tp", message, size) || differs(l->fix_pp, d->pp, "pp", message, size) ||
		differs(l->fix_cp, d->cp, "cp", message, size) || differs(l->fix_ep, d->ep, "ep", message, size) ||
		differs(l->fix_virtual, plan->virtual, "virtual", message, size) ||
		exceeds(l->max_dp, d->most_dp, "dp", message, size) ||
		exceeds(l->max_tp, d->most_tp, "tp", message, size) || exceeds(l->max_pp, d->pp, "pp", message, size) ||
		exceeds(l->max_devices, n_devices, "devices", message, size));
}

bool mq_limits_hold(const struct mq_limits *l, const struct mq_plan *plan, const struct mq_train *train, char *message,
		    size_t size)
{
	static const struct mq_limits none = { .fix_pipeline = -1, .fix_recompute = -1, .fix_sync = -1 };

	if (!memcmp(l, &none, offsetof(struct mq_limits, max_usd)))
		return true;
	struct spread d = spread_of(plan);

	if (!degrees_hold(l, plan, &d, message, size) || !inner_hold(l, plan, d.most_tp, message, size) ||
	    enum_differs(l->fix_pipeline, plan->pipeline, "schedule", message, size))
		return false;
	for (uint32_t i = 0; i < plan->n_configs; i++)
		if (enum_differs(l->fix_recompute, plan->config[i].recompute, "recompute", message, size) ||
		    enum_differs(l->fix_sync, plan->config[i].sync, "sync", message, size))
			return false;
	if (l->fix_mbs) {
		double most = train->batch / plan->micro_batches / d.least_dp;
		double least = train->batch / plan->micro_batches / d.most_dp;

		if (fabs(most - l->fix_mbs) > 1e-9 || fabs(least - l->fix_mbs) > 1e-9) {
			snprintf(message, size, "has %g samples per micro-batch, --fix mbs asks for %u",
				 fabs(most - l->fix_mbs) > 1e-9 ? most : least, l->fix_mbs);
			return false;
		}
	}
	return true;
}

void mq_limits_apply(const struct mq_limits *l, struct mq_plan *plan, const struct mq_train *train)
{
	if (l->fix_pipeline >= 0 && mq_pipeline_takes((enum mq_pipeline)l->fix_pipeline, plan->virtual))
		plan->pipeline = (uint8_t)l->fix_pipeline;
	for (uint32_t i = 0; i < plan->n_configs; i++) {
		if (l->fix_recompute >= 0)
			plan->config[i].recompute = (uint8_t)l->fix_recompute;
		if (l->fix_sync >= 0)
			plan->config[i].sync = (uint8_t)l->fix_sync;
	}
	if (!l->fix_mbs)
		return;
	struct spread d = spread_of(plan);
	double m = train->batch / l->fix_mbs / d.most_dp;
	if (d.least_dp == d.most_dp && m >= 1 && m == floor(m) && m <= UINT32_MAX)
		plan->micro_batches = (uint32_t)m;
}

enum mq_status mq_limits_refuse(const struct mq_limits *l, const char *engine, uint32_t lacks, struct mq_err *err)
{
	const struct {
		uint32_t flag, fixed;
		const char *key, *what;
	} rows[] = {
		{ MQ_LACKS_DP, l->fix_dp, "dp", "data parallelism" },
		{ MQ_LACKS_TP, l->fix_tp, "tp", "tensor parallelism" },
		{ MQ_LACKS_PP, l->fix_pp, "pp", "pipeline stages" },
		{ MQ_LACKS_CP, l->fix_cp, "cp", "context parallelism" },
		{ MQ_LACKS_EP, l->fix_ep, "ep", "expert parallelism" },
		{ MQ_LACKS_TP, l->fix_etp, "etp", "tensor parallelism" },
		{ MQ_LACKS_CP, l->fix_ulysses, "ulysses", "context parallelism" },
		{ MQ_LACKS_VIRTUAL, l->fix_virtual, "virtual", "several stages per device" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (lacks & rows[i].flag && rows[i].fixed > 1)
			return mq_bad(err,
				      "engine '%s' has no %s in its plans: --fix %s=%u leaves none; relax "
				      "it or take another engine",
				      engine, rows[i].what, rows[i].key, rows[i].fixed);
	return MQ_OK;
}

/* Devices of the largest machine. */
static uint32_t largest_machine(const struct mq_cluster *c)
{
	uint32_t n = 0, most = 0;

	for (uint32_t i = 0; i < c->n_devices; i++) {
		n = i && c->device[i].node == c->device[i - 1].node ? n + 1 : 1;
		most = n > most ? n : most;
	}
	return most;
}

enum mq_status mq_limits_possible(const struct mq_limits *l, const struct mq_question *q, struct mq_err *err)
{
	const struct mq_model *m = q->model;
	double ranks = (double)mq_or_1(l->fix_dp) * mq_or_1(l->fix_tp) * mq_or_1(l->fix_pp) * mq_or_1(l->fix_cp);
	bool placed = !q->software || q->software->runs.placement;
	uint32_t tp = mq_or_1(l->fix_tp), most = largest_machine(q->cluster);

	if (ranks > q->cluster->n_devices)
		return mq_bad(err, "--fix dp=%u tp=%u pp=%u cp=%u: %.0f ranks, but '%s' has %u devices; fix less",
			      mq_or_1(l->fix_dp), tp, mq_or_1(l->fix_pp), mq_or_1(l->fix_cp), ranks, q->cluster->name,
			      q->cluster->n_devices);
	if (l->fix_dp > q->train->batch)
		return mq_bad(err, "--fix dp=%u: a step has %g samples; fix dp=%g or less, or give a larger --batch",
			      l->fix_dp, q->train->batch, q->train->batch);
	if (l->fix_cp > 1 && m->seq % l->fix_cp)
		return mq_bad(err,
			      "--fix cp=%u does not divide the %u tokens of a sequence; fix a divisor of them, or "
			      "give another --seq",
			      l->fix_cp, m->seq);
	if (tp > 1 && m->heads % tp && (!placed || m->hidden % tp))
		return mq_bad(err, "--fix tp=%u does not divide the %u heads of '%s'; fix a divisor of them", tp,
			      m->heads, m->name);
	if (!placed && tp > most)
		return mq_bad(err,
			      "--fix tp=%u: tensor-parallel groups stay inside a machine, and those of '%s' have %u "
			      "devices at most; fix tp=%u or less",
			      tp, q->cluster->name, most, most);
	return MQ_OK;
}

enum mq_status mq_space_refuse(const struct mq_question *q, const char *engine, uint32_t lacks, struct mq_err *err)
{
	const struct mq_software *s = q->software;
	char why[256] = "";

	if (!s || s->runs.placement)
		return MQ_OK;
	if (!mq_software_runs_model(s, q, why, sizeof(why)))
		return mq_bad(err, "%s", why);
	if ((lacks & MQ_LACKS_ALL) == MQ_LACKS_ALL)
		return mq_bad(err,
			      "engine '%s' proposes placements of single ops, which %s does not "
			      "run; use --software generic or another engine",
			      engine, s->file);
	if (lacks & MQ_LACKS_SHAPES && !s->runs.unequal_degrees)
		return mq_bad(err,
			      "engine '%s' proposes plans that are not dp x tp x pp of one kind, "
			      "which %s does not run; use --software generic or another engine",
			      engine, s->file);
	return MQ_OK;
}

/* Sums a price per hour or a power over the devices that ops run on. */
static double sum_devices(const struct mq_cluster *cluster, const struct mq_plan *plan, bool price)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	bool *seen = mq_arena_array(&scratch, cluster->n_devices, bool);
	double sum = 0;

	for (uint32_t op = 0; op < plan->n_ops; op++) {
		const struct mq_config *c = &plan->config[plan->config_of[op]];

		for (uint32_t i = 0; i < c->n_devices; i++) {
			const struct mq_device *d = &cluster->device[c->device[i]];

			if (seen[c->device[i]])
				continue;
			seen[c->device[i]] = true;
			sum += price ? d->price_per_h : d->power_W;
		}
	}
	return sum;
}

double mq_step_usd(const struct mq_cluster *cluster, const struct mq_plan *plan, double step_time_s)
{
	return sum_devices(cluster, plan, true) * step_time_s / 3600;
}

double mq_step_kWh(const struct mq_cluster *cluster, const struct mq_plan *plan, double step_time_s)
{
	return sum_devices(cluster, plan, false) * step_time_s / 3.6e6;
}

bool mq_budget_holds(const struct mq_limits *l, const struct mq_cluster *cluster, const struct mq_plan *plan,
		     const struct mq_result *r, char *message, size_t size)
{
	const struct {
		double limit, value;
		const char *what, *option, *unit;
	} budget[] = {
		{ l->max_usd, l->max_usd > 0 ? mq_step_usd(cluster, plan, r->step_time_s) : 0, "a step costs", "cost",
		  "$" },
		{ l->max_kWh, l->max_kWh > 0 ? mq_step_kWh(cluster, plan, r->step_time_s) : 0, "a step takes", "energy",
		  "kWh" },
		{ l->max_step_s, r->step_time_s, "a step takes", "step-time", "s" },
		{ l->max_memory_B / 1e9, r->peak_memory_B / 1e9, "a device holds", "memory", "GB" },
	};

	for (size_t i = 0; i < sizeof(budget) / sizeof(*budget); i++)
		if (budget[i].limit > 0 && isnan(budget[i].value)) {
			snprintf(message, size,
				 "what %s is not known: --max %s needs price_per_h and power_W of every type "
				 "(--change device.TYPE.price_per_h=N)",
				 budget[i].what, budget[i].option);
			return false;
		} else if (budget[i].limit > 0 && !(budget[i].value <= budget[i].limit)) {
			snprintf(message, size, "%s %.6g %s, --max %s allows %.6g", budget[i].what, budget[i].value,
				 budget[i].unit, budget[i].option, budget[i].limit);
			return false;
		}
	return true;
}

/* ---- counting --------------------------------------------------------------------------------- */

typedef bool screen_fn(void *context, const struct mq_plan *plan, struct mq_result *result);

/* Asks about what will be judged. */
static bool ask(const struct mq_counted_costs *counted, screen_fn *screen, const struct mq_plan *plan,
		struct mq_result *result)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_plan fixed;

	mq_plan_copy(&fixed, plan, &scratch);
	mq_limits_apply(counted->search->limits, &fixed, counted->q->train);
	bool known = screen(counted->screen_context, &fixed, result);
	if (known && counted->looked_at)
		counted->looked_at(counted->looker, &fixed, result);
	return known;
}

static bool screen(void *context, const struct mq_plan *plan, struct mq_result *result)
{
	struct mq_counted_costs *counted = context;

	counted->screens++;
	return ask(counted, counted->search->screen, plan, result);
}

static void screen_times(void *context, const struct mq_plan *const *plan, uint32_t n, struct mq_result *result)
{
	struct mq_counted_costs *counted = context;
	const struct mq_search *s = counted->search;
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	const struct mq_plan **asked = mq_arena_array(&scratch, n, const struct mq_plan *);
	struct mq_plan *fixed = mq_arena_array(&scratch, n, struct mq_plan);

	for (uint32_t i = 0; i < n && !s->screen_times; i++)
		if (!screen(context, plan[i], &result[i]))
			result[i].verdict = MQ_N_VERDICTS;
	if (!s->screen_times)
		return;
	for (uint32_t i = 0; i < n; i++) {
		mq_plan_copy(&fixed[i], plan[i], &scratch);
		mq_limits_apply(s->limits, &fixed[i], counted->q->train);
		asked[i] = &fixed[i];
	}
	s->screen_times(counted->screen_context, asked, n, result);
	counted->screens += n;
}

static bool fits(void *context, const struct mq_plan *plan, struct mq_result *result)
{
	const struct mq_search *s = ((const struct mq_counted_costs *)context)->search;

	return s->fits ? ask(context, s->fits, plan, result) : screen(context, plan, result);
}

void mq_costs_count(struct mq_counted_costs *counted, const struct mq_search *search, const struct mq_search_part *part,
		    void (*looked_at)(void *looker, struct mq_plan *plan, const struct mq_result *result), void *looker)
{
	*counted = (struct mq_counted_costs){ .costs = part ? *part->costs : *search->costs,
					      .search = search,
					      .q = part ? &part->q : search->q,
					      .screen_context = part ? part->screen_context : search->screen_context,
					      .looked_at = part ? NULL : looked_at, /* a part is no plan of the whole */
					      .looker = looker };
	counted->costs.screen_context = counted;
	counted->costs.screen = search->screen ? screen : NULL;
	counted->costs.screen_times = search->screen ? screen_times : NULL;
	counted->costs.fits = search->screen ? fits : NULL;
}
