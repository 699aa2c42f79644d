/* trust.c - see trust.h. SPDX-License-Identifier: Apache-2.0 */
#include "session/trust.h"

#include <math.h>
#include <string.h>

#include "session/pages/page.h"

enum mq_status mq_session_trust_open(struct mq_session *s, struct mq_err *err)
{
	MQ_TRY(mq_trust_open(&s->asked->trust_with, &s->arena, &s->trust, err));
	if (!s->trust)
		fprintf(stderr, "note: no index of errors (results/accuracy/trust.csv): answers come without trust\n");
	return MQ_OK;
}

/* The network that leaves a machine; "unknown" where no port says its kind. */
static const char *network_of(const struct mq_cluster *c)
{
	for (uint32_t i = 0; i < c->n_links; i++)
		if (c->link[i].class == MQ_LINK_NIC && c->link[i].fabric != MQ_FABRIC_NONE)
			return mq_fabric_name(c->link[i].fabric);
	return "unknown";
}

/* Machines and device types of the plan, and devices of its fullest machine. */
static void note_devices(const struct mq_session *s, const struct mq_plan *plan, struct mq_trust_view *view,
			 struct mq_arena *scratch)
{
	const struct mq_cluster *c = s->cluster;
	bool *used = mq_arena_array(scratch, c->n_devices, bool);
	uint32_t *of_node = mq_arena_array(scratch, c->n_nodes + 1, uint32_t);

	for (uint32_t i = 0; i < plan->n_configs; i++)
		for (uint32_t k = 0; k < plan->config[i].n_devices; k++)
			used[plan->config[i].device[k]] = true;
	for (uint32_t i = 0; i < c->n_devices; i++) {
		bool again = false;

		if (!used[i])
			continue;
		uint32_t in = ++of_node[c->device[i].node];
		view->nodes += in == 1;
		view->per_node = in > view->per_node ? in : view->per_node;
		for (uint32_t k = 0; k < i && !again; k++)
			again = used[k] && !strcmp(c->device[k].type, c->device[i].type);
		view->kinds += !again;
		if (!view->device && c->device[i].calib != MQ_NONE)
			view->device = &s->calib->device[c->device[i].calib];
	}
}

struct mq_session_trust mq_session_trust(const struct mq_session *s, const struct mq_plan *plan,
					 const struct mq_result *result, struct mq_arena *arena)
{
	struct mq_session_trust trust = { .step_s = result->step_time_s };
	struct mq_trust_view view = { .model = s->model,
				      .train = &s->train,
				      .software = &s->software,
				      .plan = plan,
				      .result = result,
				      .network = network_of(s->cluster) };

	if (!s->trust || !(result->step_time_s > 0) || !plan->n_configs)
		return trust;
	note_devices(s, plan, &view, arena);
	mq_trust_point_of(&view, &trust.point);
	mq_trust_ask(s->trust, &trust.point, &(struct mq_trust_without){ NULL, NULL }, arena, &trust.answer);
	trust.known = trust.answer.low_80_s > 0;
	trust.memory_high_B = result->peak_memory_B * mq_trust_memory(s->trust, "device", arena, &trust.memory_runs);
	trust.memory_limit_B = result->memory_limit_B;
	return trust;
}

struct mq_trust_point mq_session_point(const struct mq_session *s, struct mq_arena *arena)
{
	const struct mq_result none = mq_result_none(MQ_VERDICT_OK);
	struct mq_config all = { .n_devices = s->cluster->n_devices,
				 .device = mq_arena_array(arena, s->cluster->n_devices, uint32_t),
				 .split = MQ_UNSPLIT };
	const struct mq_plan plan = { .n_configs = 1, .config = &all, .micro_batches = 1, .virtual = 1 };
	struct mq_trust_view view = { .model = s->model,
				      .train = &s->train,
				      .software = &s->software,
				      .plan = &plan,
				      .result = &none,
				      .network = network_of(s->cluster) };
	struct mq_trust_point point;

	for (uint32_t i = 0; i < all.n_devices; i++)
		all.device[i] = i;
	note_devices(s, &plan, &view, arena);
	mq_trust_point_of(&view, &point);
	return point;
}

static void put_interval(FILE *f, double low_s, double high_s)
{
	char low[32], high[32];

	fprintf(f, "%s to %s", mq_text_s(low_s, low), mq_text_s(high_s, high));
}

void mq_trust_print(const struct mq_session_trust *t, FILE *f)
{
	const struct mq_trust_answer *a = &t->answer;
	char text[32], limit[32];

	if (!t->known)
		return;
	if (a->like)
		fprintf(f,
			"trust: %u measured run%s like this (%s): prediction%s of such runs %s %.0f %% off in the median; ",
			a->like, a->like > 1 ? "s" : "", a->described, a->like > 1 ? "s" : "",
			a->like > 1 ? "were" : "was", 100 * a->like_error);
	else
		fprintf(f, "trust: no measured run is like this (the nearest: %s); ", a->described);
	fprintf(f, "step %s, 80 %% within ", mq_text_s(t->step_s, text));
	put_interval(f, a->low_80_s, a->high_80_s);
	fprintf(f, ", 50 %% within ");
	put_interval(f, a->low_50_s, a->high_50_s);
	fprintf(f, "\n");
	if (*a->beyond)
		fprintf(f, "       beyond what was measured: %s\n", a->beyond);
	if (t->memory_high_B > 0 && t->memory_limit_B > 0)
		fprintf(f,
			"       memory: nine of ten of %u measured runs would take at most %s of the device's %s%s\n",
			t->memory_runs, mq_text_B(t->memory_high_B, text), mq_text_B(t->memory_limit_B, limit),
			t->memory_high_B > t->memory_limit_B ? ": it may not fit" : "");
}

void mq_trust_json(const struct mq_session_trust *t, FILE *f)
{
	const struct mq_trust_answer *a = &t->answer;

	if (!t->known) {
		fputs("null", f);
		return;
	}
	fprintf(f, "{\"runs\": %u", a->like);
	mq_json_add_text(f, "like", a->described);
	mq_json_add_f64(f, "error", a->like_error);
	mq_json_add_f64(f, "low_80_s", a->low_80_s);
	mq_json_add_f64(f, "high_80_s", a->high_80_s);
	mq_json_add_f64(f, "low_50_s", a->low_50_s);
	mq_json_add_f64(f, "high_50_s", a->high_50_s);
	mq_json_add_text(f, "beyond", a->beyond);
	fprintf(f, ", \"memory_runs\": %u", t->memory_runs);
	mq_json_add_f64(f, "memory_high_90_B", t->memory_high_B);
	putc('}', f);
}

double mq_session_faster(const struct mq_session *s, const struct mq_session_trust *a, const struct mq_session_trust *b)
{
	return a->known && b->known ?
		       mq_trust_faster(s->trust, &a->point, &b->point, &(struct mq_trust_without){ NULL, NULL }) :
		       (double)NAN;
}

const char *mq_faster_text(double p, const char *a, const char *b, struct mq_arena *arena)
{
	double surer = fmax(p, 1 - p);

	if (surer < MQ_TRUST_CLOSE)
		return mq_arena_printf(arena, "%s or %s: too close to call (%s is faster with %.0f %%)", a, b,
				       p >= .5 ? a : b, 100 * surer);
	return mq_arena_printf(arena,
			       "%s is faster with %.0f %%, as pairs of measured runs that differ in plan alone say",
			       p >= .5 ? a : b, 100 * surer);
}
