/* trust.c - see trust.h. SPDX-License-Identifier: Apache-2.0 */
#include "session/trust.h"

#include <math.h>
#include <string.h>

#include "session/pages/page.h"

/* The network between machines; "unknown": no port states its kind. */
static const char *network_of(const struct mq_cluster *c)
{
	for (uint32_t i = 0; i < c->n_links; i++)
		if (c->link[i].class == MQ_LINK_NIC && c->link[i].fabric != MQ_FABRIC_NONE)
			return mq_fabric_name(c->link[i].fabric);
	return "unknown";
}

/* The question with a plan and its result; counts the machines and device types of the plan's devices. */
static struct mq_trust_view view_of(const struct mq_session *s, const struct mq_plan *plan,
				    const struct mq_result *result, struct mq_arena *scratch)
{
	const struct mq_cluster *c = s->cluster;
	struct mq_trust_view view = { .model = s->model,
				      .train = &s->train,
				      .software = &s->software,
				      .plan = plan,
				      .result = result,
				      .network = network_of(c) };
	bool *used = mq_arena_array(scratch, c->n_devices, bool);
	uint32_t *of_node = mq_arena_array(scratch, c->n_nodes + 1, uint32_t);

	for (uint32_t i = 0; i < plan->n_configs; i++)
		for (uint32_t k = 0; k < plan->config[i].n_devices; k++)
			used[plan->config[i].device[k]] = true;
	for (uint32_t i = 0; i < c->n_devices; i++) {
		if (!used[i])
			continue;
		uint32_t in = ++of_node[c->device[i].node];
		view.nodes += in == 1;
		view.per_node = in > view.per_node ? in : view.per_node;
		view.kinds += mq_first_of_type(c, i, used);
		if (!view.device && c->device[i].calib != MQ_NONE)
			view.device = &s->calib->device[c->device[i].calib];
	}
	return view;
}

struct mq_session_trust mq_session_trust(const struct mq_session *s, const struct mq_plan *plan,
					 const struct mq_result *result, struct mq_arena *arena)
{
	struct mq_session_trust trust = { .step_s = result->step_time_s };
	struct mq_trust *index = result->step_time_s > 0 && plan->n_configs ? s->trust : NULL;

	if (index) {
		const struct mq_trust_view view = view_of(s, plan, result, arena);

		mq_trust_point_of(&view, &trust.point);
	}
	mq_trust_ask(index, &trust.point, NULL, arena, &trust.answer);
	trust.known = trust.answer.low_80_s > 0;
	return trust;
}

struct mq_trust_point mq_session_point(const struct mq_session *s, struct mq_arena *arena)
{
	const struct mq_result none = mq_result_none(MQ_VERDICT_OK);
	struct mq_config all = { .n_devices = s->cluster->n_devices,
				 .device = mq_arena_array(arena, s->cluster->n_devices, uint32_t),
				 .split = MQ_UNSPLIT };
	const struct mq_plan plan = { .n_configs = 1, .config = &all, .micro_batches = 1, .virtual = 1 };
	struct mq_trust_point point;

	for (uint32_t i = 0; i < all.n_devices; i++)
		all.device[i] = i;
	const struct mq_trust_view view = view_of(s, &plan, &none, arena);
	mq_trust_point_of(&view, &point);
	return point;
}

void mq_trust_print(const struct mq_session_trust *t, FILE *f)
{
	const struct mq_trust_answer *a = &t->answer;
	char step[32], low[32], high[32], low_50[32], high_50[32];

	if (!t->known)
		return;
	if (a->like)
		fprintf(f, "trust: %u measured run%s like this (%s): %s %.0f %% off%s", a->like, a->like > 1 ? "s" : "",
			a->described, a->like > 1 ? "predictions of such runs were" : "its prediction was",
			100 * a->like_error, a->like > 1 ? " in the median" : "");
	else
		fprintf(f, "trust: no measured run is like this (the nearest: %s)", a->described);
	fprintf(f, "; step %s, 80 %% within %s to %s, 50 %% within %s to %s\n", mq_text_s(t->step_s, step),
		mq_text_s(a->low_80_s, low), mq_text_s(a->high_80_s, high), mq_text_s(a->low_50_s, low_50),
		mq_text_s(a->high_50_s, high_50));
	if (*a->beyond)
		fprintf(f, "       beyond what was measured: %s\n", a->beyond);
}

const char *mq_session_memory_text(const struct mq_session *s, struct mq_arena *arena)
{
	struct mq_trust_memory m = mq_trust_memory(s->trust, NULL);

	return m.n ? mq_arena_printf(arena,
				     "of %u measured runs one in ten took more than %.2f times the %s memory predicted",
				     m.n, m.high, m.basis) :
		     mq_arena_printf(arena, "measured runs take up to %.2f times the memory predicted",
				     mq_question_memory_high(&s->q));
}

void mq_trust_json(const struct mq_session_trust *t, FILE *f)
{
	const struct mq_trust_answer *a = &t->answer;

	if (!t->known) {
		fputs("null", f);
		return;
	}
	mq_json_put_after(f, "{\"like\": ", a->described);
	mq_json_add_f64(f, "low_80_s", a->low_80_s);
	mq_json_add_f64(f, "high_80_s", a->high_80_s);
	mq_json_add_f64(f, "low_50_s", a->low_50_s);
	mq_json_add_f64(f, "high_50_s", a->high_50_s);
	mq_json_add_f64(f, "like_runs", a->like);
	mq_json_add_f64(f, "like_error", a->like_error);
	mq_json_add_text(f, "beyond", a->beyond);
	putc('}', f);
}

double mq_session_faster(const struct mq_session *s, const struct mq_session_trust *a, const struct mq_session_trust *b)
{
	return a->known && b->known ? mq_trust_faster(s->trust, &a->point, &b->point, NULL) : (double)NAN;
}

const char *mq_faster_text(double p, const char *a, const char *b, struct mq_arena *arena)
{
	const char *first = p >= .5 ? a : b;
	double surer = fmax(p, 1 - p);

	return surer < MQ_TRUST_CLOSE ?
		       mq_arena_printf(arena, "%s or %s: too close to call (%s is faster with %.0f %%)", a, b, first,
				       100 * surer) :
		       mq_arena_printf(
			       arena,
			       "%s is faster with %.0f %%, as pairs of measured runs that differ in plan alone say",
			       first, 100 * surer);
}
