/*
 * search_limits.c - does a plan keep --fix and --max; cost queries that count their screens.
 */
#include <math.h>
#include <stdio.h>

#include "core/search.h"

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

bool mq_limits_hold(const struct mq_limits *l, const struct mq_plan *plan,
		    const struct mq_train *train, char *message, size_t size)
{
	struct mq_degrees d = mq_plan_degrees(plan);

	if (differs(l->fix_dp, d.dp, "dp", message, size) ||
	    differs(l->fix_tp, d.tp, "tp", message, size) ||
	    differs(l->fix_pp, d.pp, "pp", message, size) ||
	    differs(l->fix_cp, d.cp, "cp", message, size) ||
	    differs(l->fix_ep, d.ep, "ep", message, size) ||
	    differs(l->fix_virtual, plan->virtual, "virtual", message, size) ||
	    exceeds(l->max_dp, d.dp, "dp", message, size) ||
	    exceeds(l->max_tp, d.tp, "tp", message, size) ||
	    exceeds(l->max_pp, d.pp, "pp", message, size) ||
	    exceeds(l->max_devices, d.n_devices, "devices", message, size) ||
	    enum_differs(l->fix_pipeline, plan->pipeline, "schedule", message, size))
		return false;
	for (uint32_t i = 0; i < plan->n_configs; i++)
		if (enum_differs(l->fix_recompute, plan->config[i].recompute, "recompute", message,
				 size) ||
		    enum_differs(l->fix_sync, plan->config[i].sync, "sync", message, size))
			return false;
	if (l->fix_mbs) {
		double mbs = train->batch / plan->micro_batches / (d.dp ? d.dp : 1);

		if (fabs(mbs - l->fix_mbs) > 1e-9) {
			snprintf(message, size, "has %g samples per micro-batch, --fix mbs asks for %u",
				 mbs, l->fix_mbs);
			return false;
		}
	}
	return true;
}

/* ---- counting --------------------------------------------------------------------------------- */

static double op_time(void *context, uint32_t op, enum mq_phase phase, uint32_t device,
		      const uint32_t split[MQ_N_DIMS], double samples)
{
	const struct mq_costs *inner = ((struct mq_counted_costs *)context)->inner;

	return inner->op_time(inner->context, op, phase, device, split, samples);
}

static void op_memory(void *context, uint32_t op, const uint32_t split[MQ_N_DIMS], double samples,
		      enum mq_sync sync, uint32_t dp, enum mq_recompute recompute, double *static_B,
		      double *activation_B)
{
	const struct mq_costs *inner = ((struct mq_counted_costs *)context)->inner;

	inner->op_memory(inner->context, op, split, samples, sync, dp, recompute, static_B,
			 activation_B);
}

static bool reshard(void *context, uint32_t edge, const struct mq_config *from,
		    const struct mq_config *to, double samples, double *forward_s,
		    double *backward_s)
{
	const struct mq_costs *inner = ((struct mq_counted_costs *)context)->inner;

	return inner->reshard(inner->context, edge, from, to, samples, forward_s, backward_s);
}

static bool collective(void *context, const struct mq_coll_request *request, double *seconds)
{
	const struct mq_costs *inner = ((struct mq_counted_costs *)context)->inner;

	return inner->collective(inner->context, request, seconds);
}

static bool transfer(void *context, uint32_t src, uint32_t dst, double bytes, double *seconds)
{
	const struct mq_costs *inner = ((struct mq_counted_costs *)context)->inner;

	return inner->transfer(inner->context, src, dst, bytes, seconds);
}

static bool screen(void *context, const struct mq_plan *plan, struct mq_result *result)
{
	struct mq_counted_costs *counted = context;
	const struct mq_search *s = counted->search;

	counted->screens++;
	if (s->screen)
		return s->screen(s->screen_context, plan, result);
	return s->costs->screen(s->costs->context, plan, result);
}

void mq_costs_count(struct mq_counted_costs *counted, const struct mq_search *search)
{
	*counted = (struct mq_counted_costs){
		.costs = { .context = counted, .op_time = op_time, .op_memory = op_memory,
			   .reshard = reshard, .collective = collective, .transfer = transfer,
			   .screen = search->screen || search->costs->screen ? screen : NULL },
		.inner = search->costs,
		.search = search,
	};
}
