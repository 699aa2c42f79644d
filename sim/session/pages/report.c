/* report.c - a search's outcome as text and tables. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "session/trust.h"
#include "session/search_run.h"

double mq_tokens_per_s_device(const struct mq_session *session, const struct mq_plan *plan, const struct mq_result *r)
{
	double tokens = session->model->tokens_per_sample;

	return tokens > 0 ? r->samples_per_s * tokens / mq_plan_degrees(plan).n_devices : (double)NAN;
}

double mq_tflops_per_device(const struct mq_session *session, const struct mq_plan *plan, const struct mq_result *r)
{
	double flop = mq_sample_flop(session->model, &session->train, session->q.software);

	return flop > 0 ? flop * r->samples_per_s / mq_plan_degrees(plan).n_devices / 1e12 : (double)NAN;
}

/* ---- two plans, term by term -------------------------------------------------------------------- */

struct term {
	char name[64];
	double first, second; /* seconds */
	int link;             /* class of the links; MQ_LINK_OTHER: none */
};

static void sort_terms(struct term *term, int n)
{
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0; j--) {
			struct term t = term[j];

			if (fabs(t.second - t.first) <= fabs(term[j - 1].second - term[j - 1].first))
				break;
			term[j] = term[j - 1];
			term[j - 1] = t;
		}
}

static int collect_terms(const struct mq_result *a, const struct mq_result *b, struct term *term)
{
	int n = 0;
	double listed_a = 0, listed_b = 0;

	term[n++] = (struct term){ "compute", a->compute_s, b->compute_s, MQ_LINK_OTHER };
	term[n++] = (struct term){ "bubble", a->bubble_s, b->bubble_s, MQ_LINK_OTHER };
	for (int c = 0; c < MQ_N_LINK_CLASSES; c++) {
		if (!(a->link_s[c] > 0) && !(b->link_s[c] > 0))
			continue;
		snprintf(term[n].name, sizeof(term[n].name), "exposed communication, %s", mq_link_class_name(c));
		term[n].link = c;
		term[n].first = a->link_s[c];
		term[n++].second = b->link_s[c];
		listed_a += a->link_s[c];
		listed_b += b->link_s[c];
	}
	double rest_a = a->exposed_comm_s - listed_a, rest_b = b->exposed_comm_s - listed_b;
	if (fabs(rest_a) > 1e-6 * a->step_time_s || fabs(rest_b) > 1e-6 * b->step_time_s)
		term[n++] = (struct term){ "exposed communication, other", rest_a, rest_b, MQ_LINK_OTHER };
	sort_terms(term, n);
	return n;
}

void mq_explain(const struct mq_scored *a, const struct mq_scored *b, const struct mq_cluster *cluster, FILE *file)
{
	struct term term[MQ_N_LINK_CLASSES + 4];
	char x[32], y[32], z[32];

	fprintf(file, "    %-34s %12s  %12s  %12s\n", "", a->name, b->name, "difference");
	if (a->result->verdict == MQ_VERDICT_OK && b->result->verdict == MQ_VERDICT_OK) {
		int n = collect_terms(a->result, b->result, term);

		for (int i = 0; i < n; i++) {
			double d = term[i].second - term[i].first;

			double least = 1e-9 * a->result->step_time_s; /* less is rounding */

			if (!(term[i].first > least) && !(term[i].second > least))
				continue;
			fprintf(file, "    %-34s %12s  %12s  %c%11s\n", term[i].name, mq_text_s(term[i].first, x),
				mq_text_s(term[i].second, y), d < 0 ? '-' : '+', mq_text_s(fabs(d), z));
		}
		double d = b->result->step_time_s - a->result->step_time_s;
		fprintf(file, "    %-34s %12s  %12s  %c%11s\n", "step", mq_text_s(a->result->step_time_s, x),
			mq_text_s(b->result->step_time_s, y), d < 0 ? '-' : '+', mq_text_s(fabs(d), z));
	} else {
		fprintf(file, "    %-34s %12s  %12s\n", "verdict", mq_verdict_name(a->result->verdict),
			mq_verdict_name(b->result->verdict));
	}
	fprintf(file, "    %-34s %12s  %12s\n", "memory of the fullest device", mq_text_B(a->result->peak_memory_B, x),
		mq_text_B(b->result->peak_memory_B, y));
}

/* ---- the whole report --------------------------------------------------------------------------- */

static void number(FILE *file, double value, int digits, int width)
{
	if (isnan(value))
		fprintf(file, " %*s", width, "-");
	else
		fprintf(file, " %*.*f", width, digits, value);
}

/* Explains the plans that the table marks as tight. */
static void print_tight(const struct mq_session *session, const struct mq_search_outcome *out, FILE *file)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	uint32_t n = 0;

	for (uint32_t i = 0; i < out->n_best; i++)
		n += mq_result_tight(&out->best[i].result);
	if (n)
		fprintf(file, "~ tight: it fits, and would not where memory is as far off as in one of ten runs: %s\n",
			mq_session_memory_text(session, &scratch));
}

/* The value of an objective other than the step time; NULL: it is the step time. */
static const char *objective_text(const struct mq_candidate *c, const char *objective, char text[32])
{
	if (!objective || !strcmp(objective, "step-time"))
		return NULL;
	if (!isfinite(c->objective))
		return "not known";
	if (!strcmp(objective, "cost"))
		snprintf(text, 32, "$%.4g", c->objective);
	else if (!strcmp(objective, "energy"))
		snprintf(text, 32, "%.4g kWh", c->objective);
	else if (c->plan->engine_unit && !strncmp(c->plan->engine_unit, "per sample", 10))
		snprintf(text, 32, "%.6g", c->objective); /* in the plan file's unit */
	else
		mq_text_s(c->objective, text);
	return text;
}

/* For a ranking by cost (or energy): each device type's price (or power) with source and date. A type without one is
 * named, since it makes its plans' cost unknown. */
static void print_prices(const struct mq_session *s, const struct mq_search_outcome *out, FILE *file)
{
	bool cost = (out->objective && !strcmp(out->objective, "cost")) || s->limits.max_usd > 0;
	bool energy = (out->objective && !strcmp(out->objective, "energy")) || s->limits.max_kWh > 0;
	const struct mq_cluster *c = s->cluster;

	for (uint32_t i = 0; (cost || energy) && i < c->n_devices; i++) {
		const struct mq_device *d = &c->device[i];
		const char *source = d->calib == MQ_NONE ? NULL : s->calib->device[d->calib].price_source;

		if (!mq_first_of_type(c, i, NULL))
			continue;
		if (cost && !isnan(d->price_per_h))
			fprintf(file, "%s: %.4g $/h (%s)\n", d->type, d->price_per_h,
				source ? source : "as its platform or calibration says");
		if (cost && isnan(d->price_per_h))
			fprintf(file, "no price of %s is known: plans on it are ranked last\n", d->type);
		if (energy && isnan(d->power_W))
			fprintf(file,
				"no power of %s is known: plans on it are ranked last; give power_W=W to the platform\n",
				d->type);
	}
	if (cost)
		fputs("another price: --change device.TYPE.price_per_h=N\n", file);
}

const char *mq_row_text(const struct mq_candidate *c, const struct mq_cluster *cluster, struct mq_arena *arena)
{
	const char *text = mq_plan_describe(c->plan, cluster, arena);

	return c->like ? mq_arena_printf(arena, "%s; and %u like it", text, c->like) : text;
}

uint32_t mq_rank_of(const struct mq_search_outcome *out, uint64_t hash)
{
	for (uint32_t i = 0; i < out->n_best; i++)
		if (out->best[i].hash == hash)
			return i + 1;
	return 0;
}

/* Does a tensor-parallel group (neighbouring ranks) span several machines? */
static bool tensor_leaves_machine(const struct mq_plan *plan, const struct mq_cluster *cluster)
{
	for (uint32_t i = 0; i < plan->n_configs; i++) {
		const struct mq_config *c = &plan->config[i];
		uint32_t tp = c->split[MQ_DIM_HEAD] * c->split[MQ_DIM_OUT] * c->split[MQ_DIM_IN];

		for (uint32_t d = 0; d < c->n_devices; d++)
			if (cluster->device[c->device[d]].node != cluster->device[c->device[d - d % tp]].node)
				return true;
	}
	return false;
}

/* "12", or "1.5". */
static const char *percent(double share, struct mq_arena *arena)
{
	return mq_arena_printf(arena, "%.*f", fabs(share) < 0.0995, 100 * share);
}

static const double SAME = 5e-4; /* steps with a smaller relative difference get no reason */

const char *mq_why_not_first(const struct mq_candidate *c, const struct mq_search_outcome *out,
			     const struct mq_cluster *cluster, struct mq_arena *arena)
{
	const struct mq_candidate *first = out->n_best ? &out->best[0] : NULL;
	const struct mq_result *r = &c->result;
	struct term term[MQ_N_LINK_CLASSES + 4], *most = term;
	char text[32];

	if (r->verdict == MQ_VERDICT_OOM)
		return mq_arena_printf(arena, "oom by %s", mq_text_B(r->peak_memory_B - r->memory_limit_B, text));
	if (r->verdict != MQ_VERDICT_OK)
		return mq_verdict_name(r->verdict);
	if (!first || c->hash == first->hash)
		return "";
	if (!isfinite(c->objective))
		return mq_arena_printf(arena, "%s not known", out->objective);
	if (out->objective && strcmp(out->objective, "step-time"))
		return c->objective > first->objective ?
			       mq_arena_printf(arena, "+%s %% %s", percent(c->objective / first->objective - 1, arena),
					       out->objective) :
			       "";
	double step_s = first->result.step_time_s;
	int n = collect_terms(&first->result, r, term);

	if (!(r->step_time_s > step_s))
		return "";
	if (r->step_time_s < step_s * (1 + SAME))
		return "within 0.05 %";
	for (int i = 1; i < n; i++)
		if (term[i].second - term[i].first > most->second - most->first)
			most = &term[i];
	bool network = most->link == MQ_LINK_NIC || most->link == MQ_LINK_FABRIC;

	if (!strcmp(most->name, "bubble"))
		return mq_arena_printf(arena, "bubble %s %%", percent(r->bubble_s / r->step_time_s, arena));
	if (network && tensor_leaves_machine(c->plan, cluster))
		return mq_arena_printf(arena, "tp over %s", mq_link_class_name(most->link));
	return mq_arena_printf(arena, "+%s %% %s", percent((most->second - most->first) / step_s, arena),
			       most->name + (strncmp(most->name, "exposed ", 8) ? 0 : 8));
}

static const char WHY[] = "why not first";

static void widen(int *width, const char *text)
{
	int n = (int)strlen(text);

	*width = n > *width ? n : *width;
}

/* Prints plans that are shown whatever their rank. All are judged as the question's software runs them. */
static void print_named(const struct mq_session *session, const struct mq_search_outcome *out, const char *head,
			const char *about, const struct mq_named_candidate *named, uint32_t n, FILE *file)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	bool first = true;
	int why = (int)strlen(WHY);

	for (uint32_t i = 0; i < n; i++)
		if (named[i].best.plan)
			widen(&why, mq_why_not_first(&named[i].best, out, session->cluster, &scratch));
	for (uint32_t i = 0; i < n; i++) {
		const struct mq_candidate *c = &named[i].best;
		char time[32], rank[16] = "-";

		if (!c->plan)
			continue;
		if (first)
			fprintf(file, "\n%-28s %11s %5s  %-*s  %s\n", head, "step", "rank", why, WHY, about);
		first = false;
		if (mq_rank_of(out, c->hash))
			snprintf(rank, sizeof(rank), "%u", mq_rank_of(out, c->hash));
		fprintf(file, "%-28s %11s %5s  %-*s  %s\n", named[i].name,
			c->result.verdict == MQ_VERDICT_OK ? mq_text_s(c->result.step_time_s, time) : "-", rank, why,
			mq_why_not_first(c, out, session->cluster, &scratch),
			mq_plan_describe(c->plan, session->cluster, &scratch));
	}
}

static void print_table(const struct mq_session *session, const struct mq_search_outcome *out, FILE *file)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	bool tokens = session->model->tokens_per_sample > 0;
	char goal[32];
	bool other = objective_text(&out->best[0], out->objective, goal);
	int width = 4, why = (int)strlen(WHY);

	for (uint32_t i = 0; i < out->n_best; i++) {
		widen(&width, mq_row_text(&out->best[i], session->cluster, &scratch));
		widen(&why, mq_why_not_first(&out->best[i], out, session->cluster, &scratch));
	}
	fprintf(file, "%4s ", "rank");
	if (other)
		fprintf(file, "%14s ", out->objective);
	fprintf(file, "%11s %10s %12s %12s %6s %10s  %-14s %-*s  %-*s  %s\n", "step", "samples/s",
		tokens ? "tokens/s/GPU" : "-", "TFLOP/s/GPU", "MFU %", "memory", "engine", why, WHY, width, "plan",
		"runs in");
	for (uint32_t i = 0; i < out->n_best; i++) {
		const struct mq_candidate *c = &out->best[i];
		const char *mark = mq_result_tight(&c->result) ? "~" : "";
		char time[32], memory[32], marked[40];

		snprintf(marked, sizeof(marked), "%s%s", mark, mq_text_B(c->result.peak_memory_B, memory));
		fprintf(file, "%4u ", i + 1);
		if (other)
			fprintf(file, "%14s ", objective_text(c, out->objective, goal));
		fprintf(file, "%11s", mq_text_s(c->result.step_time_s, time));
		number(file, c->result.samples_per_s, 2, 10);
		number(file, mq_tokens_per_s_device(session, c->plan, &c->result), 0, 12);
		number(file, mq_tflops_per_device(session, c->plan, &c->result), 1, 12);
		number(file, 100 * c->result.mfu, 1, 6);
		fprintf(file, " %10s  %-14s %-*s  %-*s  %s\n", marked, c->engine, why,
			mq_why_not_first(c, out, session->cluster, &scratch), width,
			mq_row_text(c, session->cluster, &scratch), c->runs_in);
	}
}

/* Engines without a plan, whose best time is NaN, come last. */
typedef const struct mq_engine_report *report_ref;
MQ_COMPARE(by_best, report_ref,
	   MQ_ORDER(fmin((*a)->best_step_time_s, (double)INFINITY), fmin((*b)->best_step_time_s, (double)INFINITY)) ?:
		   strcmp((*a)->engine, (*b)->engine))

static void print_engines(const struct mq_search_outcome *out, FILE *file)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	const struct mq_engine_report **order =
		mq_arena_array(&scratch, out->n_reports, const struct mq_engine_report *);

	for (uint32_t i = 0; i < out->n_reports; i++)
		order[i] = &out->report[i];
	qsort(order, out->n_reports, sizeof(*order), by_best);
	fprintf(file, "\n%-16s %9s %9s %11s %9s\n", "engine", "plans", "feasible", "best step", "screens");
	for (uint32_t i = 0; i < out->n_reports; i++) {
		const struct mq_engine_report *r = order[i];
		char best[32] = "-";

		if (!isnan(r->best_step_time_s))
			mq_text_s(r->best_step_time_s, best);
		fprintf(file, "%-16s %9llu %9llu %11s %9llu  %s\n", r->engine, (unsigned long long)r->proposals,
			(unsigned long long)r->feasible, best, (unsigned long long)r->screens,
			r->stopped[0] ? r->stopped :
			r->finished   ? "finished" :
					"budget spent");
	}
}

/* Do two plans have the same description? Comparing them would read like comparing a plan with itself. */
static bool same_words(const struct mq_plan *a, const struct mq_plan *b, const struct mq_cluster *cluster)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	bool same = !strcmp(mq_plan_describe(a, cluster, &scratch), mq_plan_describe(b, cluster, &scratch));

	return same;
}

/* The plan to compare the winner with: the best of another engine, else the best with other degrees, else the next with
 * another description; NULL: none is slower. */
static const struct mq_candidate *plan_to_compare(const struct mq_search_outcome *out, const struct mq_cluster *cluster)
{
	const struct mq_candidate *first = &out->best[0], *found = NULL;
	struct mq_degrees w = mq_plan_degrees(first->plan);

	for (uint32_t i = 0; i < out->n_reports; i++) {
		const struct mq_candidate *c = &out->report[i].best;

		if (c->plan && c->hash != first->hash && strcmp(c->engine, first->engine) &&
		    (!found || c->result.step_time_s < found->result.step_time_s) &&
		    !same_words(first->plan, c->plan, cluster))
			found = c;
	}
	for (uint32_t i = 1; i < out->n_best && !found; i++) {
		struct mq_degrees d = mq_plan_degrees(out->best[i].plan);

		if (d.dp != w.dp || d.tp != w.tp || d.pp != w.pp || d.n_devices != w.n_devices)
			found = &out->best[i];
	}
	for (uint32_t i = 1; i < out->n_best && !found; i++) /* else by description */
		if (!same_words(first->plan, out->best[i].plan, cluster))
			found = &out->best[i];
	return found && found->result.step_time_s > first->result.step_time_s ? found : NULL;
}

/* Options of this software that reduce the plan's memory. */
static const char *remedies(const struct mq_session *s, const struct mq_plan *plan, struct mq_arena *arena)
{
	const struct mq_software *w = &s->software.software;
	bool full = plan->n_configs && plan->config[0].recompute == MQ_RECOMPUTE_FULL;
	bool offloads = w->runs.switches & MQ_EXPLICIT_OFFLOAD_OPTIMIZER && !w->offload_optimizer && !s->train.infer;
	bool wide = mq_dtype_size(s->train.dtype) > 2 && w->runs.dtypes & 1u << MQ_BF16;

	return mq_arena_printf(arena, "%s%s%s",
			       !full && w->runs.recomputes & 1u << MQ_RECOMPUTE_FULL ? "--fix recompute=full, " : "",
			       offloads ? mq_arena_printf(arena, "--software %s,offload_optimizer=yes, ", w->file) : "",
			       wide ? "--dtype bf16, " : "");
}

enum { MOST_TIMES = 64 };

/* Limits the search to plans of least memory: otherwise it would try thousands that need more first. */
static void ask_least_memory(struct mq_session *s)
{
	struct mq_limits *l = &s->limits;

	if (l->fix_recompute < 0 && !s->train.infer && s->software.software.runs.recomputes & 1u << MQ_RECOMPUTE_FULL)
		l->fix_recompute = MQ_RECOMPUTE_FULL;
	if (!l->fix_mbs)
		l->fix_mbs = 1;
}

/* Asks the same question on 2, 4, ... times as many machines until engine `expert` finds a plan that fits. */
static void print_least_devices(const struct mq_session *s, FILE *file)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_search_options options;
	struct mq_asked more = *s->asked;
	struct mq_err lost = MQ_ERR_INIT;
	uint32_t before = s->cluster->n_devices;

	mq_args_defaults(mq_search_args, &options);
	options.engines = (struct mq_list){ .n = 1, .item = { "expert" } };
	options.evals = 2;
	for (uint32_t times = 2; s->own_platform && !s->asked->devices && times <= MOST_TIMES; times *= 2) {
		struct mq_session larger;
		struct mq_search_outcome out = { .n_best = 0 };

		more.platform =
			mq_arena_printf(&scratch, "%s nodes=%u", s->asked->platform, times * s->cluster->n_nodes);
		if (mq_session_open(&larger, &more, s->shipped, &lost) != MQ_OK)
			return;
		ask_least_memory(&larger);
		uint32_t n = larger.cluster->n_devices;
		bool done =
			n <= before || mq_search_session(&larger, &options, NULL, &out, &lost) != MQ_OK || out.n_best;
		if (out.n_best)
			fprintf(file, "%u devices do, where %u do not: %s needs %.3g of %.3g GB\n", n, before,
				mq_plan_describe(out.best[0].plan, larger.cluster, &scratch),
				out.best[0].result.peak_memory_B / 1e9, out.best[0].result.memory_limit_B / 1e9);
		mq_session_close(&larger);
		before = n;
		if (done)
			return;
	}
}

void mq_search_nothing(const struct mq_session *session, const struct mq_search_outcome *out, FILE *file)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	char need[32], have[32];

	if (out->have_nearest) {
		fprintf(file, "nearest: %s needs %s on %s, which has %s; try %smore devices or a smaller --batch\n",
			mq_plan_describe(out->nearest.plan, session->cluster, &scratch),
			mq_text_B(out->nearest.result.peak_memory_B, need),
			session->cluster->device[out->nearest.result.memory_device].name,
			mq_text_B(out->nearest.result.memory_limit_B, have),
			remedies(session, out->nearest.plan, &scratch));
		print_least_devices(session, file);
	}
	if (out->have_refused)
		fprintf(file, "%s: %s: %s\n", mq_plan_describe(out->refused.plan, session->cluster, &scratch),
			mq_verdict_name(out->refused.result.verdict), out->refused.result.message);
}

/* Prints the trust in plan 1's step, and whether it is faster than plan 2. */
static void print_trust(const struct mq_session *session, const struct mq_search_outcome *out, FILE *file)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_session_trust a = mq_session_trust(session, out->best[0].plan, &out->best[0].result, &scratch), b;

	mq_trust_print(&a, file);
	if (out->n_best < 2)
		return;
	b = mq_session_trust(session, out->best[1].plan, &out->best[1].result, &scratch);
	double p = mq_session_faster(session, &a, &b);
	if (!isnan(p))
		fprintf(file, "%s\n", mq_faster_text(p, "plan 1", "plan 2", &scratch));
}

void mq_search_explain(const struct mq_session *session, const struct mq_search_outcome *out, FILE *file)
{
	print_tight(session, out, file);
	print_prices(session, out, file);
	uint32_t used = mq_plan_degrees(out->best[0].plan).n_devices, all = session->cluster->n_devices;
	if (used < all)
		fprintf(file, "\nplan 1 uses %u of %u devices; %u are left idle\n", used, all, all - used);
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	const char *host = mq_session_host_memory(&out->best[0].result, &scratch);
	if (*host)
		fprintf(file, "\nplan 1 keeps %s\n", host);
	print_named(session, out, "usual plan", "plan", out->usual, out->n_usual, file);
	print_named(session, out, "software", "best plan that it can run", out->software, out->n_software, file);
	const struct mq_candidate *first = &out->best[0], *second = plan_to_compare(out, session->cluster);
	if (second) {
		struct mq_scored a = { "plan 1", &first->result };
		struct mq_scored b = { "the other", &second->result };

		fprintf(file, "\nwhy plan 1 wins over %s's best, %s:\n", second->engine,
			mq_plan_describe(second->plan, session->cluster, &scratch));
		mq_explain(&a, &b, session->cluster, file);
	}
	if (first->result.bottleneck[0])
		fprintf(file, "\nbottleneck of plan 1: %s\n", first->result.bottleneck);
	print_trust(session, out, file);
	print_engines(out, file);
}

void mq_search_print(const struct mq_session *session, const struct mq_search_outcome *out, FILE *file)
{
	for (uint32_t e = 0; e < out->n_reports; e++)
		for (uint32_t i = 0; i < out->report[e].n_said; i++)
			fprintf(file, "%s\n", out->report[e].said[i]);
	fprintf(file, "%s on %s: %llu plans, %llu feasible, %llu simulated, %llu known already\n", session->model->name,
		session->cluster->name, (unsigned long long)out->proposals, (unsigned long long)out->feasible,
		(unsigned long long)out->judged, (unsigned long long)out->cached);
	if (!out->n_best) {
		mq_search_nothing(session, out, file);
		print_named(session, out, "usual plan", "plan", out->usual, out->n_usual, file);
		print_engines(out, file);
		return;
	}
	print_table(session, out, file);
	mq_search_explain(session, out, file);
}
