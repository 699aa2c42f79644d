/* search_page.c - a search's outcome as report.html (one file that loads nothing) and as JSON.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "session/trust.h"
#include "session/pages/page.h"
#include "session/search_run.h"

/* ---- JSON ------------------------------------------------------------------------------------------- */

static void put_plan(const struct mq_session *s, const struct mq_search_outcome *out, uint32_t rank, FILE *f)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	const struct mq_candidate *c = &out->best[rank - 1];
	const struct mq_degrees d = mq_plan_degrees(c->plan);
	const struct mq_result *r = &c->result;

	fprintf(f, "%s\n    {\"rank\": %u", rank > 1 ? "," : "", rank);
	mq_json_add_text(f, "engine", c->engine);
	fprintf(f, ", \"plan_hash\": \"%016" PRIx64 "\"", c->hash);
	mq_json_add_text(f, "plan", mq_plan_describe(c->plan, s->cluster, &scratch));
	mq_json_add_text(f, "runs_in", c->runs_in ? c->runs_in : "");
	mq_json_add_text(f, "why_not_first", mq_why_not_first(c, out, s->cluster, &scratch));
	mq_json_add_text(f, "bottleneck", r->bottleneck);
	mq_json_add_numbers(f, MQ_TABLE_search_json, "step_time_s", r);
	mq_json_add_f64(f, "tokens_per_s_per_device", mq_tokens_per_s_device(s, c->plan, r));
	mq_json_add_f64(f, "tflops_per_device", mq_tflops_per_device(s, c->plan, r));
	mq_json_add_numbers(f, MQ_TABLE_search_json, "mfu", r);
	mq_json_add_f64(f, "objective", c->objective);
	fprintf(f,
		", \"devices\": %u, \"dp\": %u, \"tp\": %u, \"pp\": %u, \"cp\": %u, \"ep\": %u, \"virtual\": %u, "
		"\"micro_batches\": %u, \"like\": %u}",
		d.n_devices, d.dp, d.tp, d.pp, d.cp, d.ep, c->plan->virtual, c->plan->micro_batches, c->like);
}

/* Writes named plans; rank: null if the plan is not among the best. */
static void put_named(const struct mq_session *s, const struct mq_search_outcome *out, const char *key,
		      const struct mq_named_candidate *named, uint32_t n, FILE *f)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	const char *comma = "";

	for (uint32_t i = 0; i < n; i++) {
		const struct mq_candidate *c = &named[i].best;
		uint32_t rank = c->plan ? mq_rank_of(out, c->hash) : 0;

		if (!c->plan)
			continue;
		fprintf(f, "%s\n    {\"%s\": ", comma, key);
		mq_json_put_text(f, named[i].name);
		fprintf(f, ", \"plan_hash\": \"%016" PRIx64 "\"", c->hash);
		mq_json_add_text(f, "plan", mq_plan_describe(c->plan, s->cluster, &scratch));
		mq_json_add_text(f, "verdict", mq_result_verdict(&c->result));
		mq_json_add_f64(f, "step_time_s", c->result.step_time_s);
		mq_json_add_text(f, "why_not_first", mq_why_not_first(c, out, s->cluster, &scratch));
		mq_json_add_f64(f, "rank", rank ? rank : NAN);
		fputc('}', f);
		comma = ",";
	}
}

/* Writes the trust in plan 1, and the probability that it is faster than plan 2. */
static void put_trust(const struct mq_session *s, const struct mq_search_outcome *out, FILE *f)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_session_trust a = { .known = false }, b = a;

	if (out->n_best > 0)
		a = mq_session_trust(s, out->best[0].plan, &out->best[0].result, &scratch);
	if (out->n_best > 1)
		b = mq_session_trust(s, out->best[1].plan, &out->best[1].result, &scratch);
	fputs("  \"trust\": ", f);
	mq_trust_json(&a, f);
	mq_json_add_f64(f, "probability_first_is_faster", mq_session_faster(s, &a, &b));
	fputs(",\n", f);
}

/* Writes the reason why there is no plan, as printed, and the nearest plan. */
static void put_reason(const struct mq_session *s, const struct mq_search_outcome *out, FILE *f)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	MQ_FREED struct mq_words memory = { NULL, 0 };
	const struct mq_result *r = &out->nearest.result;
	FILE *words = mq_words_open(&memory);

	mq_search_nothing(s, out, words);
	fclose(words);
	mq_json_put_after(f, "  \"reason\": ", memory.text);
	if (out->have_nearest) {
		mq_json_put_after(
			f, ", \"nearest\": {\"plan\": ", mq_plan_describe(out->nearest.plan, s->cluster, &scratch));
		mq_json_add_f64(f, "peak_memory_B", r->peak_memory_B);
		mq_json_add_f64(f, "memory_limit_B", r->memory_limit_B);
		fputc('}', f);
	}
	fputs(",\n", f);
}

void mq_search_json(const struct mq_session *s, const struct mq_search_outcome *out, FILE *f)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;

	mq_json_put_after(f, "{\"model\": ", s->model->name);
	mq_json_add_text(f, "platform", s->cluster->name);
	fprintf(f,
		", \"devices\": %u, \"batch\": %.0f, \"proposals\": %" PRIu64 ", \"feasible\": %" PRIu64
		",\n  \"plans\": [",
		s->cluster->n_devices, s->train.batch, out->proposals, out->feasible);
	for (uint32_t i = 0; i < out->n_best; i++)
		put_plan(s, out, i + 1, f);
	mq_json_put_after(f, "],\n  \"flop_convention\": ", mq_flop_convention(s->q.software));
	mq_json_add_text(f, "assumed", mq_session_assumed(s, out->n_best ? &out->best[0].result : NULL, &scratch));
	fputs(",\n", f);
	if (!out->n_best)
		put_reason(s, out, f);
	put_trust(s, out, f);
	fputs("  \"usual\": [", f);
	put_named(s, out, "name", out->usual, out->n_usual, f);
	fputs("],\n  \"software\": [", f);
	put_named(s, out, "software", out->software, out->n_software, f);
	fputs("],\n  \"engines\": [", f);
	for (uint32_t i = 0; i < out->n_reports; i++) {
		const struct mq_engine_report *r = &out->report[i];

		fprintf(f, "%s\n    {\"engine\": ", i ? "," : "");
		mq_json_put_text(f, r->engine);
		fprintf(f, ", \"plans\": %" PRIu64 ", \"feasible\": %" PRIu64 ", \"screens\": %" PRIu64, r->proposals,
			r->feasible, r->screens);
		mq_json_add_f64(f, "best_step_time_s", r->best_step_time_s);
		mq_json_add_text(f, "stopped", r->stopped);
		fputc('}', f);
	}
	fputs("]}\n", f);
}

/* ---- the page --------------------------------------------------------------------------------------- */

static void put_ranking(struct mq_page *p, const struct mq_session *s, const struct mq_search_outcome *out)
{
	static const char *const heads[] = { "rank",          "step",    "samples/s",     "TFLOP/s/GPU", "MFU %",
					     "memory",        "compute", "exposed comm.", "bubble",      "engine",
					     "why not first", "plan",    "runs in",       "bottleneck",  NULL };
	char a[32];

	fputs("<h2>Plans</h2>\n", p->f);
	mq_page_table_begin(p, "plans", heads);
	for (uint32_t i = 0; i < out->n_best; i++) {
		const struct mq_candidate *c = &out->best[i];
		const struct mq_result *r = &c->result;
		double tflops = mq_tflops_per_device(s, c->plan, r);

		fprintf(p->f, "<tr><td class=\"n\">%u</td>", i + 1);
		mq_page_number(p, r->step_time_s, mq_text_s(r->step_time_s, a));
		mq_page_number(p, r->samples_per_s, mq_arena_printf(&p->arena, "%.2f", r->samples_per_s));
		mq_page_number(p, tflops, mq_arena_printf(&p->arena, "%.1f", tflops));
		mq_page_number(p, r->mfu, mq_arena_printf(&p->arena, "%.1f", 100 * r->mfu));
		mq_page_number(p, r->peak_memory_B,
			       mq_arena_printf(&p->arena, "%s%s", mq_result_tight(r) ? "~" : "",
					       mq_text_B(r->peak_memory_B, a)));
		mq_page_number(p, r->compute_s, mq_text_s(r->compute_s, a));
		mq_page_number(p, r->exposed_comm_s, mq_text_s(r->exposed_comm_s, a));
		mq_page_number(p, r->bubble_s, mq_text_s(r->bubble_s, a));
		mq_page_cell(p, c->engine);
		mq_page_cell(p, mq_why_not_first(c, out, s->cluster, &p->arena));
		mq_page_cell(p, mq_row_text(c, s->cluster, &p->arena));
		mq_page_cell(p, c->runs_in ? c->runs_in : "");
		mq_page_cell(p, r->bottleneck);
		fputs("</tr>\n", p->f);
	}
	mq_page_table_end(p);
}

/* Plots all plans that fit, from candidates.csv; the best are labelled with their rank. */
static enum mq_status put_plot(struct mq_page *page, const struct mq_search_outcome *out, struct mq_err *err)
{
	struct mq_arena *arena = &page->arena;
	struct mq_csv csv;
	uint32_t n = 0;

	MQ_TRY(mq_csv_load(mq_arena_printf(arena, "%s/candidates.csv", page->dir), arena, &csv, err));
	struct mq_page_point *point = mq_arena_array(arena, csv.n_rows + 1, struct mq_page_point);
	for (uint32_t i = 0; i < csv.n_rows; i++) {
		struct mq_page_point *p = &point[n];
		char hash[24];

		if (!mq_verdict_runs(mq_csv_word(&csv, i, "verdict")) ||
		    !mq_csv_f64(&csv, i, mq_csv_column(&csv, "step_time_s"), NAN, &p->x) ||
		    !mq_csv_f64(&csv, i, mq_csv_column(&csv, "peak_memory_B"), NAN, &p->y) || !isfinite(p->x + p->y))
			continue;
		p->y /= 1e9;
		for (uint32_t k = 0; k < out->n_best; k++) {
			snprintf(hash, sizeof(hash), "%016" PRIx64, out->best[k].hash);
			if (!strcmp(hash, mq_csv_word(&csv, i, "plan_hash")))
				p->label = mq_arena_printf(arena, "%u", k + 1);
		}
		p->tip = mq_arena_printf(arena, "%s: %.4g s, %.4g GB, %s", mq_csv_word(&csv, i, "engine"), p->x, p->y,
					 mq_csv_word(&csv, i, "plan"));
		n++;
	}
	mq_page_put_plot(page, &(struct mq_page_plot){
				       .title = "Step time and memory of all plans that fit",
				       .x = { "step time", "s" },
				       .y = { "memory of the fullest device", "GB" },
				       .point = point,
				       .n = n,
				       .limit = out->n_best ? out->best[0].result.memory_limit_B / 1e9 : 0,
			       });
	return MQ_OK;
}

enum mq_status mq_search_page(struct mq_session *s, const struct mq_search_outcome *out, const char *dir,
			      struct mq_err *err)
{
	MQ_FREED struct mq_words memory = { NULL, 0 };
	char title[512];
	struct mq_page p;

	snprintf(title, sizeof(title), "%s on %s", s->model->name, s->cluster->name);
	mq_page_open(&p, dir, title);
	FILE *words = mq_words_open(&memory);
	(out->n_best ? mq_search_explain : mq_search_print)(s, out, words);
	fclose(words);
	fprintf(p.f, "<p>%" PRIu64 " plans tried, %" PRIu64 " fit; a step is %.0f %ss on up to %u devices.</p>\n",
		out->proposals, out->feasible, s->train.batch, s->model->unit, s->cluster->n_devices);
	put_ranking(&p, s, out);
	enum mq_status status = put_plot(&p, out, err);
	if (status == MQ_OK && out->n_best) {
		fputs("<h2>Plan 1</h2>\n", p.f);
		status = mq_page_put_best(&p, s, out->best[0].plan, err);
	}
	fputs("<h2>In words</h2>\n", p.f);
	mq_page_words(&p, memory.text);
	mq_page_put_sources(&p, s);
	mq_page_command(&p);
	return mq_page_close(&p, status, err);
}
