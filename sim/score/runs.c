/*
 * runs.c - `score RUNS.csv`: step times and peak memory of measured runs against the
 * simulation, file by file.
 *
 * Every row is scored or refused with its reason. Rank correlation and regret are taken inside groups
 * of rows that differ only in plan (groups.h).
 */
#include "score/row.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "score/fitted.h"
#include "score/groups.h"
#include "score/judge.h"
#include "score/set.h"
#include "score/tables.h"

static bool is_oom_row(const struct mq_run *r)
{
	return !strcmp(r->status, "oom");
}

static double error_of(const struct mq_judged_table *t, uint32_t i)
{
	return t->step_s[i] / t->run[i].step_time_s - 1;
}

static enum mq_status write_rows(const struct mq_judged_table *t, struct mq_csv_writer *w, struct mq_err *err)
{
	for (uint32_t i = 0; i < t->n; i++) {
		const struct mq_case *c = &t->c[i];
		const struct mq_run *r = &t->run[i];

		if (t->verdict[i] == MQ_N_VERDICTS)
			continue;
		mq_csv_put_text(w, r->id);
		mq_csv_put_text(w, t->tight[i] ? "tight" : mq_verdict_name(t->verdict[i]));
		mq_csv_put_f64(w, t->step_s[i] > 0 ? t->step_s[i] : (double)NAN);
		mq_csv_put_f64(w, r->step_time_s);
		mq_csv_put_f64(w, mq_table_scored(t, i) ? error_of(t, i) : (double)NAN);
		mq_csv_put_f64(w, t->peak_B[i] > 0 ? t->peak_B[i] / 1e9 : (double)NAN);
		mq_csv_put_f64(w, r->max_mem_GB);
		mq_csv_put_text(w, c->platform ? c->platform : "");
		mq_csv_put_text(w, c->job.software ? c->job.software : "");
		mq_csv_put_text(w, c->network ? c->network : "");
		mq_csv_put_f64(w, c->vocab > 0 ? c->vocab : (double)NAN);
		MQ_TRY(mq_csv_end_row(w, err));
	}
	return MQ_OK;
}

/* What the predicted memory is made of, and what the device has: a row per row that was judged. */
static enum mq_status write_memory(const struct mq_judged_table *t, struct mq_csv_writer *w, struct mq_err *err)
{
	for (uint32_t i = 0; i < t->n; i++) {
		const struct mq_memory *m = &t->memory[i];
		const double part_B[] = { m->parameter_B, m->gradient_B,      m->optimizer_B, m->activation_B,
					  m->buffer_B,    m->fragmentation_B, m->reserve_B,   m->peak_B };

		if (!(t->peak_B[i] > 0))
			continue;
		mq_csv_put_text(w, t->run[i].id);
		mq_csv_put_text(w, t->run[i].status);
		mq_csv_put_text(w, t->tight[i] ? "tight" : mq_verdict_name(t->verdict[i]));
		for (size_t k = 0; k < sizeof(part_B) / sizeof(*part_B); k++)
			mq_csv_put_f64(w, part_B[k] / 1e9);
		mq_csv_put_f64(w, t->limit_B[i] / 1e9);
		mq_csv_put_f64(w, t->run[i].max_mem_GB);
		MQ_TRY(mq_csv_end_row(w, err));
	}
	return MQ_OK;
}

/* Neither predicted nor a run out of memory judged so. */
static bool left_out(const struct mq_judged_table *t, uint32_t i)
{
	return !mq_table_scored(t, i) && t->verdict[i] != MQ_VERDICT_OK && t->verdict[i] != MQ_N_VERDICTS;
}

static enum mq_status write_refused(const struct mq_judged_table *t, struct mq_csv_writer *w, struct mq_err *err)
{
	for (uint32_t i = 0; i < t->n; i++) {
		if (!left_out(t, i))
			continue;
		mq_csv_put_text(w, t->run[i].id);
		mq_csv_put_text(w, mq_verdict_name(t->verdict[i]));
		mq_csv_put_text(w, t->message[i]);
		MQ_TRY(mq_csv_end_row(w, err));
	}
	return MQ_OK;
}

/* Each distinct reason once, with its rows. */
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

/* One of the things that rows were given, each once with its rows: "software megatron-core (3)". */
static void print_given(const struct mq_judged_table *t, const char *label,
			const char *(*of)(const struct mq_judged_table *, uint32_t), struct mq_arena *arena)
{
	bool *told = mq_arena_array(arena, t->n, bool), any = false;

	for (uint32_t i = 0; i < t->n; i++) {
		const char *text = t->ready[i] ? of(t, i) : NULL;
		uint32_t n = 0;

		if (!text || told[i])
			continue;
		for (uint32_t k = i; k < t->n; k++) {
			const char *other = t->ready[k] ? of(t, k) : NULL;

			if (other && !strcmp(other, text)) {
				told[k] = true;
				n++;
			}
		}
		printf("%s%s (%u)", any ? "; " : label, text, n);
		any = true;
	}
	if (any)
		printf("\n");
}

static const char *software_of(const struct mq_judged_table *t, uint32_t i)
{
	return t->c[i].software.software.file;
}

/* Each thing that was assumed once, with its rows: a row's are separated by "; ". */
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

/* What was assumed of a table's rows: told once, and row by row in score.csv. */
static void print_assumed(const struct mq_judged_table *t, struct mq_arena *arena)
{
	const char *unread = t->n ? mq_runs_unread(t->run[0].table, arena) : NULL;

	print_given(t, "  software: ", software_of, arena);
	print_assumptions(t, arena);
	if (unread)
		printf("  columns not read: %s\n", unread);
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

/* Peak memory where the source prints it; rows that ran out of memory count as right or wrong. */
static struct mq_score_line memory_line(const struct mq_score_options *o, const struct mq_judged_table *t)
{
	struct mq_score_line line = { .kind = "memory", .spearman = NAN, .regret = NAN };
	double *error = mq_arena_array(o->arena, t->n, double);
	uint32_t n = 0, oom = 0, oom_right = 0, oom_wrong = 0, oom_tight = 0, tight = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		if (t->verdict[i] == MQ_N_VERDICTS)
			continue;
		oom += is_oom_row(&t->run[i]);
		oom_right += is_oom_row(&t->run[i]) && t->verdict[i] == MQ_VERDICT_OOM;
		oom_wrong += !is_oom_row(&t->run[i]) && t->verdict[i] == MQ_VERDICT_OOM;
		oom_tight += is_oom_row(&t->run[i]) && t->tight[i];
		tight += !is_oom_row(&t->run[i]) && t->tight[i];
		if (t->peak_B[i] > 0 && t->run[i].max_mem_GB > 0)
			error[n++] = t->peak_B[i] / 1e9 / t->run[i].max_mem_GB - 1;
	}
	line.table = mq_arena_printf(o->arena, "%s memory", t->stem);
	line.stats = mq_errors_of(error, n, o->arena);
	if (oom || oom_wrong)
		printf("  out of memory: %u of %u such runs judged so, %u more tight; %u runs that fitted judged "
		       "not to, %u tight\n",
		       oom_right, oom, oom_tight, oom_wrong, tight);
	return line;
}

static enum mq_status put_line(struct mq_csv_writer *w, const struct mq_score_line *line, struct mq_err *err)
{
	mq_score_print_line(line);
	mq_score_put_line(w, line);
	return mq_csv_end_row(w, err);
}

struct outputs {
	struct mq_csv_writer rows, memory, refused, summary, groups;
	struct mq_csv_writer fitted; /* with --left-out */
};

static enum mq_status open_outputs(const struct mq_score_options *o, struct outputs *f, struct mq_err *err)
{
	MQ_TRY(mq_csv_open(&f->rows, mq_arena_printf(o->arena, "%s/score.csv", o->out), "w", err));
	MQ_TRY(mq_csv_put_header(&f->rows,
				 "row_id,verdict,predicted_s,measured_s,error,"
				 "predicted_mem_GB,measured_mem_GB,platform,software,network,vocab",
				 err));
	MQ_TRY(mq_csv_open(&f->memory, mq_arena_printf(o->arena, "%s/memory.csv", o->out), "w", err));
	MQ_TRY(mq_csv_put_header(&f->memory,
				 "row_id,status,verdict,parameter_GB,gradient_GB,optimizer_GB,"
				 "activation_GB,buffer_GB,fragmentation_GB,reserve_GB,peak_GB,limit_GB,"
				 "measured_GB",
				 err));
	MQ_TRY(mq_csv_open(&f->refused, mq_arena_printf(o->arena, "%s/refused.csv", o->out), "w", err));
	MQ_TRY(mq_csv_put_header(&f->refused, "row_id,verdict,reason", err));
	MQ_TRY(mq_csv_open(&f->groups, mq_arena_printf(o->arena, "%s/groups.csv", o->out), "w", err));
	MQ_TRY(mq_csv_put_header(&f->groups, mq_score_groups_header, err));
	MQ_TRY(mq_csv_open(&f->summary, mq_arena_printf(o->arena, "%s/summary.csv", o->out), "w", err));
	return mq_csv_put_header(&f->summary, mq_score_summary_header, err);
}

static enum mq_status report(const struct mq_score_options *o, const struct mq_judged_table *t, struct outputs *f,
			     struct mq_score_line *line, struct mq_err *err)
{
	struct mq_score_groups groups = mq_score_groups(t, o->arena);
	struct mq_score_line memory;

	MQ_TRY(write_rows(t, &f->rows, err));
	MQ_TRY(write_memory(t, &f->memory, err));
	MQ_TRY(write_refused(t, &f->refused, err));
	MQ_TRY(mq_score_put_groups(&groups, &f->groups, err));
	*line = summarise(o, t, "step-time", &groups);
	MQ_TRY(put_line(&f->summary, line, err));
	memory = memory_line(o, t);
	if (memory.stats.n)
		MQ_TRY(put_line(&f->summary, &memory, err));
	mq_score_print_groups(&groups);
	print_assumed(t, o->arena);
	print_refused(t, mq_arena_array(o->arena, t->n, bool));
	return MQ_OK;
}

/* A software's children are softwares of their own: what is set of a parent is not set of them. */
static void print_unused(const struct mq_score_options *o, const bool *used)
{
	for (uint32_t i = 0; i < o->set.n; i++)
		if (!used[i])
			printf("--set %s changes nothing: no row runs with that; score.csv has the software and "
			       "platform of each\n",
			       o->set.item[i]);
}

/* ---- with its source left out ---------------------------------------------------------------------- */

static enum mq_status put_fitted(const struct mq_ledger *ledger, const struct mq_judged_table *t,
				 struct mq_csv_writer *w, struct mq_err *err)
{
	for (uint32_t i = 0; i < ledger->n; i++) {
		const struct mq_fitted *f = &ledger->line[i];
		uint32_t rows = mq_ledger_rows(f, t);

		if (!rows)
			continue;
		mq_csv_put_text(w, t->stem);
		mq_csv_put_text(w, f->value);
		mq_csv_put_f64(w, f->knob.value);
		mq_csv_put_f64(w, f->stand_in);
		mq_csv_put_u64(w, rows);
		MQ_TRY(mq_csv_end_row(w, err));
	}
	return MQ_OK;
}

/* Each part of the table whose models the ledger names, with what the table's other rows give in place of the
 * values: the rows are left as so judged. */
static enum mq_status leave_out_models(const struct mq_score_options *o, const struct mq_score_tables *tables,
				       const struct mq_ledger *ledger, struct mq_judged_table *t, struct outputs *f,
				       struct mq_err *err)
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
		MQ_TRY(mq_table_renew(&without, tables, t, err));
		MQ_TRY(mq_table_judge(&without, t, wanted, err));
	}
	if (!parts)
		return MQ_OK;
	struct mq_score_groups groups = mq_score_groups(t, o->arena);
	struct mq_score_line line = summarise(o, t, "model-left-out", &groups);
	line.table = mq_arena_printf(o->arena, "%s models left out", t->stem);
	mq_score_print_line(&line);
	line.table = t->stem;
	mq_score_put_line(&f->summary, &line);
	return mq_csv_end_row(&f->summary, err);
}

/* The table again, with what stands in for the values that rest on it. Its rows are left as so judged. */
static enum mq_status leave_out(const struct mq_score_options *o, const struct mq_score_tables *tables,
				const struct mq_ledger *ledger, struct mq_judged_table *t, struct outputs *f,
				struct mq_err *err)
{
	struct mq_score_options without = *o;
	struct mq_score_line line;

	MQ_TRY(put_fitted(ledger, t, &f->fitted, err));
	MQ_TRY(leave_out_models(o, tables, ledger, t, f, err));
	MQ_TRY(mq_ledger_without(ledger, t->stem, "", o->arena, &without.stand_in, err));
	if (!without.stand_in.n) {
		printf("  nothing is fitted to this table\n");
		return MQ_OK;
	}
	MQ_TRY(mq_table_renew(&without, tables, t, err));
	MQ_TRY(mq_table_judge(&without, t, NULL, err));
	struct mq_score_groups groups = mq_score_groups(t, o->arena);
	line = summarise(o, t, "left-out", &groups);
	line.table = mq_arena_printf(o->arena, "%s left out", t->stem);
	mq_score_print_line(&line);
	line.table = t->stem;
	mq_score_put_line(&f->summary, &line);
	printf("  left out:");
	for (uint32_t i = 0; i < without.stand_in.n; i++)
		printf(" %s", without.stand_in.item[i]);
	printf("\n");
	return mq_csv_end_row(&f->summary, err);
}

static enum mq_status open_ledger(const struct mq_score_options *o, const struct mq_score_tables *tables,
				  struct mq_ledger *ledger, struct outputs *f, struct mq_err *err)
{
	MQ_TRY(mq_ledger_load(o, tables->software_dir, ledger, err));
	MQ_TRY(mq_csv_open(&f->fitted, mq_arena_printf(o->arena, "%s/fitted.csv", o->out), "w", err));
	return mq_csv_put_header(&f->fitted, "table,value,fitted,stand_in,rows", err);
}

enum mq_status mq_score_runs(const struct mq_score_options *o, double *mean, struct mq_err *err)
{
	struct mq_score_tables tables;
	struct outputs f;
	const char **files;
	struct mq_ledger ledger;
	bool used[MQ_MAX_LIST] = { false };
	double sum = 0, n = 0;

	MQ_TRY(mq_score_files(o->input, o->arena, &files, err));
	MQ_TRY(mq_score_tables_load(o, &tables, err));
	MQ_TRY(open_outputs(o, &f, err));
	if (o->left_out)
		MQ_TRY(open_ledger(o, &tables, &ledger, &f, err));
	mq_score_print_header();
	for (; *files; files++) {
		struct mq_judged_table t = { .path = *files };
		struct mq_score_line line;

		MQ_TRY(mq_table_load(o, &tables, &t, err));
		if (o->write_jobs)
			MQ_TRY(mq_table_write_jobs(o, &t, o->write_jobs, err));
		MQ_TRY(mq_table_judge(o, &t, NULL, err));
		MQ_TRY(report(o, &t, &f, &line, err));
		if (line.stats.n) {
			sum += line.stats.mean * line.stats.n;
			n += line.stats.n;
		}
		for (uint32_t i = 0; i < t.n; i++)
			if (t.ready[i])
				MQ_TRY(mq_score_set_mark(o, &t.c[i], used, err));
		if (o->left_out)
			MQ_TRY(leave_out(o, &tables, &ledger, &t, &f, err));
	}
	print_unused(o, used);
	*mean = n > 0 ? sum / n : (double)NAN;
	MQ_TRY(mq_csv_close(&f.rows, err));
	MQ_TRY(mq_csv_close(&f.memory, err));
	MQ_TRY(mq_csv_close(&f.refused, err));
	MQ_TRY(mq_csv_close(&f.groups, err));
	if (o->left_out)
		MQ_TRY(mq_csv_close(&f.fitted, err));
	return mq_csv_close(&f.summary, err);
}
