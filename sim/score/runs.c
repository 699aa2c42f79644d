/* runs.c - `score RUNS.csv`: compares step times and peak memory of measured runs with the simulation, file by file.
 *
 * Every row is scored, or refused with a reason. Rank correlation and regret are computed within groups of rows that
 * differ only in plan (judge.h). SPDX-License-Identifier: Apache-2.0 */
#include "score/row.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "score/fitted.h"
#include "score/judge.h"
#include "score/set.h"
#include "trust/trust.h"

static bool is_oom_row(const struct mq_run *r)
{
	return !strcmp(r->status, "oom");
}

static double error_of(const struct mq_judged_table *t, uint32_t i)
{
	return t->step_s[i] / t->run[i].step_time_s - 1;
}

/* A row's prediction as a point of the index of errors. */
static void point_of(const struct mq_score_options *o, const struct mq_judged_table *t, uint32_t i,
		     struct mq_trust_point *point)
{
	const struct mq_case *c = &t->c[i];
	struct mq_trust_view view = { c->model, &c->train, &c->software, &c->plan, &t->result[i], NULL, c->fabric, 1,
				      0,        0 };

	for (uint32_t k = 0; k < c->n_parts; k++) {
		bool again = false;

		for (uint32_t b = 0; b < k; b++)
			again |= !strcmp(c->part[b].device, c->part[k].device);
		view.kinds += !again;
		view.nodes += c->part[k].nodes;
		view.per_node = c->part[k].per_node > view.per_node ? c->part[k].per_node : view.per_node;
	}
	view.device = c->n_parts ? mq_calib_device(o->calib, c->part[0].device) : NULL;
	mq_trust_point_of(&view, point);
}

static void write_trust(const struct mq_score_options *o, const struct mq_judged_table *t, struct mq_csv_writer *w)
{
	struct mq_trust_point point;

	for (uint32_t i = 0; i < t->n; i++) {
		if (!mq_table_scored(t, i) || !strcmp(t->run[i].provenance, "predictor"))
			continue;
		point_of(o, t, i, &point);
		mq_csv_put(w, "%s,%s,%s,%s", t->stem, t->run[i].id, mq_run_group(&t->c[i], o->arena),
			   mq_trust_publisher(t->run[i].source, o->arena));
		mq_trust_put(w, &point);
		mq_csv_row(w, "%g,%s,%g,%g,", t->run[i].step_time_s, t->run[i].memory_basis,
			   t->run[i].max_mem_GB > 0 ? t->peak_B[i] / 1e9 : (double)NAN, t->run[i].max_mem_GB);
	}
}

/* The row's interval, from other tables and publishers; all NaN if there is none. */
static struct mq_trust_answer answer_of(const struct mq_score_options *o, const struct mq_judged_table *t, uint32_t i)
{
	struct mq_trust_answer a;
	struct mq_trust_point point;

	if (t->step_s[i] > 0)
		point_of(o, t, i, &point);
	mq_trust_ask(t->step_s[i] > 0 ? o->trust : NULL, &point,
		     &(struct mq_trust_without){ t->stem, mq_trust_publisher(t->run[i].source, o->arena) }, o->arena,
		     &a);
	return a;
}

static void write_rows(const struct mq_score_options *o, const struct mq_judged_table *t, struct mq_csv_writer *w)
{
	for (uint32_t i = 0; i < t->n; i++) {
		const struct mq_case *c = &t->c[i];
		const struct mq_run *r = &t->run[i];

		if (t->verdict[i] == MQ_N_VERDICTS)
			continue;
		struct mq_trust_answer a = answer_of(o, t, i);

		mq_csv_put(w, "%s,%s,%g,%g,%g,%g,%g,%s,%s,%s,%g", r->id, mq_table_verdict(t, i),
			   t->step_s[i] > 0 ? t->step_s[i] : (double)NAN, r->step_time_s,
			   mq_table_scored(t, i) ? error_of(t, i) : (double)NAN,
			   t->peak_B[i] > 0 ? t->peak_B[i] / 1e9 : (double)NAN, r->max_mem_GB, c->platform,
			   c->job.asked.software, c->network, c->vocab > 0 ? c->vocab : (double)NAN);
		mq_trust_put_answer(w, &a);
		mq_csv_end(w);
	}
}

/* memory.csv: the parts of the predicted memory and the device's memory, for each judged row. */
static void write_memory(const struct mq_judged_table *t, struct mq_csv_writer *w)
{
	for (uint32_t i = 0; i < t->n; i++) {
		const struct mq_memory *m = mq_table_memory(t, i);

		if (t->peak_B[i] > 0)
			mq_csv_row(w, "%s,%s,%s,%g,%g,%g,%g,%g,%g,%g,%g,%g,%g,%g,%g,%s", t->run[i].id, t->run[i].status,
				   mq_table_verdict(t, i), m->parameter_B / 1e9, m->gradient_B / 1e9,
				   m->optimizer_B / 1e9, m->activation_B / 1e9, m->buffer_B / 1e9,
				   m->fragmentation_B / 1e9, m->reserve_B / 1e9, m->peak_B / 1e9,
				   t->result[i].memory_limit_B / 1e9, t->run[i].max_mem_GB,
				   mq_memory_allocated_B(m) / 1e9, mq_memory_reserved_B(m) / 1e9,
				   *t->run[i].memory_basis ? t->run[i].memory_basis : "device");
	}
}

/* Is the row without prediction, and not an OOM run judged as OOM? */
static bool left_out(const struct mq_judged_table *t, uint32_t i)
{
	return !mq_table_scored(t, i) && t->verdict[i] != MQ_VERDICT_OK && t->verdict[i] != MQ_N_VERDICTS;
}

/* Prints each distinct reason once, with its rows. */
static void print_refused(const struct mq_judged_table *t, bool *told)
{
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t n = 0;

		if (told[i] || !left_out(t, i) || (t->verdict[i] == MQ_VERDICT_OOM && is_oom_row(&t->run[i])))
			continue;
		for (uint32_t k = i; k < t->n; k++)
			if (t->verdict[k] == t->verdict[i] && t->message[k] && !strcmp(t->message[k], t->message[i])) {
				told[k] = true;
				n++;
			}
		printf("  %s %s%s: %s\n", mq_verdict_name(t->verdict[i]), t->run[i].id, n > 1 ? " and others" : "",
		       t->message[i]);
		if (n > 1)
			printf("    (%u rows)\n", n);
	}
}

/* Each software with its number of rows: "megatron-core (3)". */
static void print_software(const struct mq_judged_table *t, struct mq_arena *arena)
{
	const char **file = mq_arena_array(arena, t->n, const char *), *before = "  software: ";
	uint32_t n;

	for (uint32_t i = 0; i < t->n; i++)
		file[i] = t->ready[i] ? t->c[i].software.software.file : NULL;
	for (uint32_t i = 0; i < t->n; i++)
		if ((n = mq_score_same(file, t->n, i))) {
			printf("%s%s (%u)", before, file[i], n);
			before = "; ";
		}
	if (*before == ';')
		printf("\n");
}

/* Prints each assumption once, with its rows; a row's assumptions are separated by "; ". */
static void print_assumptions(const struct mq_judged_table *t, struct mq_arena *arena)
{
	const char *told = "", *separator = "  assumed: ";

	for (uint32_t i = 0; i < t->n; i++)
		for (const char *p = t->ready[i] ? t->c[i].assumed : NULL; p && *p;) {
			const char *next = strstr(p, "; ");
			const char *piece = mq_arena_printf(arena, "%.*s", (int)(next ? next - p : (long)strlen(p)), p);
			uint32_t n = 0;

			p = next ? next + 2 : NULL;
			if (strstr(told, piece))
				continue;
			told = mq_arena_printf(arena, "%s%s\n", told, piece);
			for (uint32_t k = i; k < t->n; k++)
				n += t->ready[k] && t->c[k].assumed && strstr(t->c[k].assumed, piece);
			printf("%s%s (%u)", separator, piece, n);
			separator = "; ";
		}
	if (*told)
		printf("\n");
}

static struct mq_score_line summarise(const struct mq_score_options *o, const struct mq_judged_table *t,
				      const char *kind, const struct mq_score_groups *groups)
{
	struct mq_score_line line = {
		.kind = kind, .table = t->stem, .spearman = groups->spearman, .regret = groups->regret
	};
	double *error = mq_arena_array(o->arena, t->n, double);
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		if (mq_table_scored(t, i))
			error[n++] = error_of(t, i);
		else
			line.refused += t->verdict[i] != MQ_N_VERDICTS && !is_oom_row(&t->run[i]);
	}
	line.stats = mq_errors_of(error, n, o->arena);
	return line;
}

/* Errors of peak memory, where the source has it; OOM rows count as right or wrong. */
static struct mq_score_line memory_line(const struct mq_score_options *o, const struct mq_judged_table *t)
{
	struct mq_score_line line = { .kind = "memory", .spearman = NAN, .regret = NAN };
	double *error = mq_arena_array(o->arena, t->n, double);
	/* Of runs that fitted, and of those that ran out of memory. */
	uint32_t n = 0, rows[2] = { 0 }, judged[2] = { 0 }, tight[2] = { 0 };

	for (uint32_t i = 0; i < t->n; i++) {
		bool oom = is_oom_row(&t->run[i]);

		if (t->verdict[i] == MQ_N_VERDICTS)
			continue;
		rows[oom]++;
		judged[oom] += t->verdict[i] == MQ_VERDICT_OOM;
		tight[oom] += mq_result_tight(&t->result[i]);
		if (t->peak_B[i] > 0 && t->run[i].max_mem_GB > 0)
			error[n++] = t->peak_B[i] / 1e9 / t->run[i].max_mem_GB - 1;
	}
	line.table = mq_arena_printf(o->arena, "%s memory", t->stem);
	line.stats = mq_errors_of(error, n, o->arena);
	if (rows[1] || judged[0])
		printf("  out of memory: %u of %u such runs judged so, %u more tight; %u runs that fitted judged "
		       "not to, %u tight\n",
		       judged[1], rows[1], tight[1], judged[0], tight[0]);
	return line;
}

enum { ROWS, MEMORY, REFUSED, GROUPS, TRUST, FITTED, SUMMARY, N_OUTPUTS };

static enum mq_status open_outputs(const struct mq_score_options *o, struct mq_csv_writer *w, struct mq_err *err)
{
	const struct {
		const char *name, *header;
	} table[SUMMARY] = {
		[ROWS] = { "score.csv",
			   mq_arena_printf(
				   o->arena,
				   "row_id,verdict,predicted_s,measured_s,error,predicted_mem_GB,measured_mem_GB,platform,"
				   "software,network,vocab,%s",
				   mq_trust_answer_columns) },
		[MEMORY] = { "memory.csv",
			     "row_id,status,verdict,parameter_GB,gradient_GB,optimizer_GB,activation_GB,buffer_GB,fragmentation_GB,"
			     "reserve_GB,peak_GB,limit_GB,measured_GB,allocated_GB,reserved_GB,compared" },
		[REFUSED] = { "refused.csv", "row_id,verdict,reason" },
		[GROUPS] = { "groups.csv", mq_score_groups_header },
		[TRUST] = { "trust.csv", mq_arena_printf(o->arena, "%s%s%s", mq_trust_columns, mq_trust_header,
							 mq_trust_columns_behind) },
		[FITTED] = { "fitted.csv", "table,value,fitted,stand_in,rows" },
	};

	for (int i = 0; i < SUMMARY; i++)
		if (i != FITTED || o->left_out)
			MQ_TRY(mq_csv_create(&w[i], mq_arena_printf(o->arena, "%s/%s", o->out, table[i].name),
					     table[i].header, err));
	return MQ_OK;
}

static void report(const struct mq_score_options *o, const struct mq_judged_table *t, struct mq_csv_writer *w,
		   struct mq_score_line *line)
{
	struct mq_score_groups groups = mq_score_groups(t, o->arena);
	struct mq_score_line memory;

	write_rows(o, t, &w[ROWS]);
	if (!o->left_out)
		write_trust(o, t, &w[TRUST]);
	write_memory(t, &w[MEMORY]);
	for (uint32_t i = 0; i < t->n; i++)
		if (left_out(t, i))
			mq_csv_row(&w[REFUSED], "%s,%s,%s", t->run[i].id, mq_verdict_name(t->verdict[i]),
				   t->message[i]);
	*line = summarise(o, t, "step-time", &groups);
	mq_score_put_line(&w[SUMMARY], line, NULL);
	memory = memory_line(o, t);
	if (memory.stats.n)
		mq_score_put_line(&w[SUMMARY], &memory, NULL);
	mq_score_put_groups(&groups, &w[GROUPS]);
	const char *unread = t->n ? mq_runs_unread(t->run[0].table, o->arena) : NULL;
	print_software(t, o->arena);
	print_assumptions(t, o->arena);
	if (unread)
		printf("  columns not read: %s\n", unread);
	print_refused(t, mq_arena_array(o->arena, t->n, bool));
}

/* ---- with its source left out ---------------------------------------------------------------------- */

/* Judges each part of the table that the ledger lists by models, with values fitted to the other rows,
 * into the rows. */
static enum mq_status leave_out_models(const struct mq_score_options *o, const struct mq_ledger *ledger,
				       struct mq_judged_table *t, struct mq_csv_writer *w, struct mq_err *err)
{
	bool *wanted = mq_arena_array(o->arena, t->n, bool);
	uint32_t parts = 0;

	for (uint32_t i = 0; i < ledger->n; i++) {
		const char *models = mq_ledger_part(ledger, i, t->stem);
		struct mq_score_options without = *o;

		if (!models)
			continue;
		parts++;
		for (uint32_t k = 0; k < t->n; k++)
			wanted[k] = t->ready[k] && mq_pattern_fits(models, t->run[k].model);
		MQ_TRY(mq_ledger_without(ledger, t->stem, models, o->arena, &without.stand_in, err));
		MQ_TRY(mq_table_renew(&without, t, err));
		MQ_TRY(mq_table_judge(&without, t, wanted, err));
	}
	if (!parts)
		return MQ_OK;
	struct mq_score_groups groups = mq_score_groups(t, o->arena);
	struct mq_score_line line = summarise(o, t, "model-left-out", &groups);
	mq_score_put_line(&w[SUMMARY], &line, mq_arena_printf(o->arena, "%s models left out", t->stem));
	return MQ_OK;
}

/* Judges the table with substitutes for the values fitted to it. The rows keep these results. */
static enum mq_status leave_out(const struct mq_score_options *o, const struct mq_ledger *ledger,
				struct mq_judged_table *t, struct mq_csv_writer *w, struct mq_err *err)
{
	struct mq_score_options without = *o;
	struct mq_score_line line;

	for (uint32_t i = 0; i < ledger->n; i++) {
		const struct mq_fitted *l = &ledger->line[i];
		uint32_t rows = mq_ledger_rows(l, t);

		if (rows)
			mq_csv_row(&w[FITTED], "%s,%s,%g,%g,%u", t->stem, l->value, l->knob.value, l->stand_in, rows);
	}
	MQ_TRY(leave_out_models(o, ledger, t, w, err));
	MQ_TRY(mq_ledger_without(ledger, t->stem, "", o->arena, &without.stand_in, err));
	if (!without.stand_in.n) {
		printf("  nothing is fitted to this table\n");
		write_trust(o, t, &w[TRUST]);
		return MQ_OK;
	}
	MQ_TRY(mq_table_renew(&without, t, err));
	MQ_TRY(mq_table_judge(&without, t, NULL, err));
	write_trust(o, t, &w[TRUST]);
	struct mq_score_groups groups = mq_score_groups(t, o->arena);
	line = summarise(o, t, "left-out", &groups);
	mq_score_put_line(&w[SUMMARY], &line, mq_arena_printf(o->arena, "%s left out", t->stem));
	printf("  left out:");
	for (uint32_t i = 0; i < without.stand_in.n; i++)
		printf(" %s", without.stand_in.item[i]);
	printf("\n");
	return MQ_OK;
}

/* ---- --check ---------------------------------------------------------------------------------------- */

static uint32_t check_table(const struct mq_score_options *o, const char *path, const struct mq_run *run, uint32_t n)
{
	const char *why[MQ_CASE_MAX_LACKS], *unread = n ? mq_runs_unread(run[0].table, o->arena) : NULL;
	uint32_t bad = 0;

	for (uint32_t i = 0; i < n; i++) {
		const char *assumed = NULL;
		uint32_t lacks = mq_case_lacks(o, &run[i], why, &assumed);

		printf("%s:%u: %s: %s\n", path, run[i].line, run[i].id, lacks ? "cannot be scored" : "complete");
		for (uint32_t k = 0; k < lacks; k++)
			printf("  %s\n", why[k]);
		if (assumed)
			printf("  assumed: %s\n", assumed);
		uint32_t first = 0;
		while (strcmp(run[first].id, run[i].id))
			first++;
		if (first < i)
			printf("  row_id is that of line %u too: give each row its own\n", run[first].line);
		if (!*run[i].source)
			printf("  no source: say the repository or paper with its commit, so that others can check it\n");
		bad += lacks > 0;
	}
	if (unread)
		printf("%s: columns not read: %s\n", path, unread);
	printf("%s: %u of %u rows can be scored\n", path, n - bad, n);
	return bad;
}

enum mq_status mq_score_check(const struct mq_score_options *o, struct mq_err *err)
{
	const char **files;
	uint32_t bad = 0;

	MQ_TRY(mq_score_files(o->input, o->arena, &files, err));
	for (; *files; files++) {
		struct mq_run *run;
		uint32_t n;

		MQ_TRY(mq_runs_load(*files, o->arena, &run, &n, err));
		bad += check_table(o, *files, run, n);
	}
	return bad ? mq_bad(err, "%u rows cannot be scored: mend what stands under each", bad) : MQ_OK;
}

enum mq_status mq_score_runs(const struct mq_score_options *o, double *mean, struct mq_err *err)
{
	struct mq_csv_writer w[N_OUTPUTS] = { { 0 } };
	const char **files;
	struct mq_ledger ledger;
	bool used[MQ_MAX_LIST] = { false };
	double sum = 0, n = 0;

	MQ_TRY(mq_score_files(o->input, o->arena, &files, err));
	if (!o->trust)
		fputs(mq_trust_missing, stderr);
	MQ_TRY(open_outputs(o, w, err));
	if (o->left_out)
		MQ_TRY(mq_ledger_load(o, &ledger, err));
	MQ_TRY(mq_score_open_summary(o, &w[SUMMARY], err));
	for (; *files; files++) {
		struct mq_judged_table t = { .path = *files };
		struct mq_score_line line;

		MQ_TRY(mq_table_load(o, &t, err));
		if (o->write_jobs)
			MQ_TRY(mq_table_write_jobs(o, &t, o->write_jobs, err));
		MQ_TRY(mq_table_judge(o, &t, NULL, err));
		report(o, &t, w, &line);
		if (line.stats.n) {
			sum += line.stats.mean * line.stats.n;
			n += line.stats.n;
		}
		for (uint32_t i = 0; i < t.n; i++)
			if (t.ready[i])
				MQ_TRY(mq_score_set_mark(o, &t.c[i], used, err));
		if (o->left_out)
			MQ_TRY(leave_out(o, &ledger, &t, w, err));
	}
	/* A software's children are softwares of their own: what is set of a parent is not set of them. */
	for (uint32_t i = 0; i < o->set.n; i++)
		if (!used[i])
			printf("--set %s changes nothing: no row runs with that; score.csv has the software and platform of each\n",
			       o->set.item[i]);
	*mean = n > 0 ? sum / n : (double)NAN;
	for (int i = 0; i < N_OUTPUTS; i++)
		MQ_TRY(mq_csv_close(&w[i], err));
	return MQ_OK;
}
