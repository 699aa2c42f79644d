/* simulate.c - `maquette simulate`: simulates one plan and reports time, memory, devices, links and, in words, the
 * bottleneck. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/validate/plans.h"
#include "session/pages/page.h"
#include "session/session.h"
#include "session/search_run.h"
#include "session/trust.h"
#include "judge/outputs.h"
#include "judge/pool.h"

struct options {
	struct mq_asked asked;
	const char *plan, *dir, *trace, *schedule, *snapshot, *snapshot_device;
	bool analytic, intervals, json;
	uint32_t timeline;
	double file_MB; /* 0 = no limit */
	struct mq_list against;
	const char *jitter_text, *failures_text; /* key=value,...; NULL = not given */
	struct mq_jitter jitter;                 /* parsed; draws, mtbf_h 0: not given */
	struct mq_failures failures;
};

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct options, field, __VA_ARGS__)
static const struct mq_arg options[] = {
	{ .type = MQ_ARG_GROUP, .name = "The plan and the output:" },
	ROW(TEXT, "plan", plan, "FILE", "plan to simulate (JSON); - reads standard input", .letter = 'P'),
	ROW(TEXT, "output", dir, "DIR",
	    "folder for summary.csv, timeline.csv, tasks.csv, memory.csv, links.csv, report.html, run.ini; without it "
	    "the result is printed only",
	    .letter = 'o', .flags = MQ_ARG_QUIET),
	ROW(WORD, "executor", analytic, "NAME", "executor that simulates", .words = "simgrid|analytic",
	    .flags = MQ_ARG_ALWAYS),
	ROW(TEXT, "jitter", jitter_text, "KEY=VALUE,...",
	    "quantiles of the step over samples: device and kernel (deviations of the logarithm of their time), "
	    "stragglers (share of the devices), slowdown (of stragglers, a factor), draws (samples, default 100)"),
	ROW(TEXT, "failures", failures_text, "KEY=VALUE,...",
	    "goodput with checkpoints: mtbf_h (of one device), restart_s, checkpoint_GBps, blocking, interval_s"),
	ROW(TEXT, "trace", trace, "FILE", "Chrome / Perfetto trace; compressed if FILE ends in .gz"),
	ROW(FLAG, "intervals", intervals, NULL,
	    "interval of the step time from the uncertainties in the --calib files"),
	ROW(LIST, "against", against, "PLAN", "with --intervals: probability that the plan beats this one; repeatable"),
	ROW(TEXT, "schedule", schedule, "FILE", "file for the lowered plan, for maquette-replay"),
	ROW(TEXT, "memory-snapshot", snapshot, "FILE",
	    "memory of a device over two steps, tensor by tensor, for pytorch.org/memory_viz: FILE.pickle"),
	ROW(TEXT, "snapshot-device", snapshot_device, "NAME",
	    "device of the snapshot (default: the one nearest its limit)"),
	ROW(F64, "file-size", file_MB, "SIZE",
	    "size limit of the trace and of timeline.csv, before compression: 50MB, 1GB, ... (default 50MB; 0: no "
	    "limit); whole devices are left out to meet it; from 78,000 devices on (50MB) memory.csv and links.csv "
	    "have one row for all equal ones",
	    .unit = "MB", .initial = MQ_OUTPUTS_MAX_B / 1e6, .max = 1e9, .flags = MQ_ARG_OWN_DEFAULT),
	ROW(WORD, "timeline", timeline, "WHICH",
	    "devices in timeline.csv and tasks.csv; folded: one device for all equal ones", .words = "folded|none|all"),
	ROW(FLAG, "json", json, NULL, "print the result as JSON", .flags = MQ_ARG_QUIET),
	{ .type = MQ_ARG_END },
};

static const char doc[] =
	"Simulates one plan and writes the events of a step. For plans on more than 8 devices, timeline, tasks and "
	"trace show one device for all that do the same at the same time; step time, memory and links cover all, and "
	"--timeline all shows every device.";

struct simulation {
	const struct options *options;
	struct mq_session *session;
	struct mq_plan plan;
	struct mq_result result;
	struct mq_session_trust trust;
	char *said; /* lines, or members of JSON, of further results; "" = none */
};

static void print_share(FILE *f, const char *name, double part_s, double step_s)
{
	char text[32];

	fprintf(f, "  %-24s %12s  %5.1f %%\n", name, mq_text_s(part_s, text), 100 * part_s / step_s);
}

static double most_B(const struct options *o)
{
	return o->file_MB > 0 ? 1e6 * o->file_MB : (double)INFINITY;
}

static void print_result(const struct simulation *s, FILE *f)
{
	const struct mq_result *r = &s->result;
	const struct mq_session *session = s->session;
	uint32_t n_devices = mq_plan_degrees(&s->plan).n_devices;
	char text[32], limit[32];

	fprintf(f, "%s\n", mq_plan_describe(&s->plan, s->session->cluster, &s->session->arena));
	fprintf(f, "step time %s, %.4g %ss/s", mq_text_s(r->step_time_s, text), r->samples_per_s, session->model->unit);
	if (session->model->tokens_per_sample > 0)
		fprintf(f, ", %.0f tokens/s/GPU", mq_tokens_per_s_device(session, &s->plan, r));
	if (!isnan(mq_tflops_per_device(session, &s->plan, r)))
		fprintf(f, ", %.1f TFLOP/s/GPU", mq_tflops_per_device(session, &s->plan, r));
	fprintf(f, ", MFU %.1f %%", 100 * r->mfu);
	if (session->q.software->release) /* its log prints these values */
		fprintf(f, " (%s, as by %s)", mq_flop_convention(session->q.software), session->q.software->release);
	fputc('\n', f);
	print_share(f, "compute", r->compute_s, r->step_time_s);
	print_share(f, "exposed communication", r->exposed_comm_s, r->step_time_s);
	print_share(f, "bubble", r->bubble_s, r->step_time_s);
	print_share(f, "(lower bound)", r->lower_bound_s, r->step_time_s);
	fprintf(f, "memory %s of %s on %s", mq_text_B(r->peak_memory_B, text), mq_text_B(r->memory_limit_B, limit),
		s->session->cluster->device[r->memory_device].name);
	fprintf(f, ", %s allocated", mq_text_B(r->allocated_memory_B, text));
	fprintf(f, ", %s reserved", mq_text_B(r->reserved_memory_B, text));
	if (r->host_limit_B > 0 && r->host_memory_B > 0)
		fprintf(f, "; %s of %s in the host memory of a machine", mq_text_B(r->host_memory_B, text),
			mq_text_B(r->host_limit_B, limit));
	else if (r->host_memory_B > 0)
		fprintf(f, "; %s", mq_session_host_memory(r, &s->session->arena));
	if (mq_result_tight(r))
		fprintf(f, ": tight, %s", mq_session_memory_text(session, &s->session->arena));
	fprintf(f, "\n");
	fprintf(f, "bottleneck: %s\n", r->bottleneck);
	mq_trust_print(&s->trust, f);
	fputs(s->said, f);
	if (s->options->dir && s->options->timeline != MQ_TIMELINE_NONE && r->n_simulated < n_devices)
		fprintf(f,
			"timeline.csv, tasks.csv and the trace have %u of %u devices, each for those like it "
			"(--timeline all: all)\n",
			r->n_simulated, n_devices);
	double most_rows = mq_outputs_rows(most_B(s->options));
	if (s->options->dir && (n_devices > most_rows || session->cluster->n_links > most_rows))
		fprintf(f,
			"of more than %.0f devices memory.csv has one for all like it, and of more links links.csv "
			"one for all of its class that carry as much (--file-size 0: all)\n",
			most_rows);
	if (r->n_shown && r->n_shown < r->n_simulated)
		fprintf(f, "timeline.csv and tasks.csv: %u of these, as many as have room in %g MB (--file-size)\n",
			r->n_shown, s->options->file_MB);
	if (r->n_traced && r->n_traced < r->n_simulated)
		fprintf(f, "the trace: %u of %u devices, as many as have room in %g MB (--file-size)\n", r->n_traced,
			r->n_simulated, s->options->file_MB);
}

static void print_json(const struct simulation *s)
{
	const struct mq_result *r = &s->result;
	const enum mq_table_id table = MQ_TABLE_simulate_json;

	mq_json_put_after(stdout, "{\"plan\": ", mq_plan_describe(&s->plan, s->session->cluster, &s->session->arena));
	mq_json_add_text(stdout, "verdict", mq_result_verdict(r));
	mq_json_add_text(stdout, "message", r->message);
	mq_json_add_text(stdout, "bottleneck", r->bottleneck);
	mq_json_add_numbers(stdout, table, "step_time_s", r);
	mq_json_add_f64(stdout, "tokens_per_s_per_device", mq_tokens_per_s_device(s->session, &s->plan, r));
	mq_json_add_f64(stdout, "tflops_per_device", mq_tflops_per_device(s->session, &s->plan, r));
	mq_json_add_numbers(stdout, table, "mfu", r);
	mq_json_add_text(stdout, "flop_convention", mq_flop_convention(s->session->q.software));
	mq_json_add_text(stdout, "assumed", mq_session_assumed(s->session, r, &s->session->arena));
	fputs(", \"trust\": ", stdout);
	mq_trust_json(&s->trust, stdout);
	printf("%s}\n", s->said);
}

/* ---- --jitter and --failures ------------------------------------------------------------------------------- */

static enum mq_status read_spread(struct options *o, struct mq_arena *arena, struct mq_err *err)
{
	if (o->jitter_text) {
		mq_opt_defaults(mq_jitter_opts, &o->jitter);
		MQ_TRY(mq_opt_parse(mq_jitter_opts, &o->jitter, "--jitter", o->jitter_text, arena, err));
	}
	if (!o->failures_text)
		return MQ_OK;
	mq_opt_defaults(mq_failures_opts, &o->failures);
	MQ_TRY(mq_opt_parse(mq_failures_opts, &o->failures, "--failures", o->failures_text, arena, err));
	if (!(o->failures.mtbf_h > 0))
		return mq_bad(err,
			      "--failures %s: mtbf_h is missing: give the mean time between failures of "
			      "one device, hours",
			      o->failures_text);
	return MQ_OK;
}

static enum mq_status write_draws(const struct simulation *s, const struct mq_jitter_samples *d, struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_table_create(&w, MQ_TABLE_draws, s->options->dir, &s->session->arena, err));
	for (uint32_t i = 0; i < d->n; i++)
		mq_csv_row(&w, "%u,%g", i, d->step_s[i]);
	return mq_csv_close(&w, err);
}

static enum mq_status say_draws(const struct simulation *s, FILE *words, struct mq_err *err)
{
	const struct options *o = s->options;
	char p50[32], p90[32], p99[32], mean[32];
	struct mq_jitter_samples d;

	MQ_TRY(mq_session_jitter_sample(s->session, &s->plan, &o->jitter, o->analytic, &d, err));
	if (d.none)
		return mq_fail(err, mq_verdict_status(d.refused.verdict),
			       "--jitter: every rank is simulated, and that is %s: %s",
			       mq_verdict_name(d.refused.verdict), d.refused.message);
	if (o->json)
		fprintf(words,
			", \"step_p50_s\": %.9g, \"step_p90_s\": %.9g, \"step_p99_s\": %.9g, \"step_mean_s\": %.9g",
			d.p50_s, d.p90_s, d.p99_s, mq_round9(d.mean_s));
	else
		fprintf(words, "step time over %u draws: p50 %s, p90 %s, p99 %s, mean %s (%+.1f %%)\n", d.n,
			mq_text_s(d.p50_s, p50), mq_text_s(d.p90_s, p90), mq_text_s(d.p99_s, p99),
			mq_text_s(d.mean_s, mean), 100 * (d.mean_s / s->result.step_time_s - 1));
	return o->dir ? write_draws(s, &d, err) : MQ_OK;
}

static void say_goodput(const struct simulation *s, FILE *words)
{
	struct mq_goodput g = mq_session_goodput(s->session, &s->plan, &s->result, &s->options->failures);
	char bytes[32], write[32];

	if (s->options->json)
		fprintf(words,
			", \"goodput\": %.9g, \"checkpoint_interval_s\": %.9g, \"mtbf_s\": %.9g, "
			"\"checkpoint_B\": %.9g, \"checkpoint_s\": %.9g",
			g.goodput, g.interval_s, g.mtbf_s, g.checkpoint_B, g.checkpoint_s);
	else
		fprintf(words, "goodput %.2f %%: a failure every %.4g h, %s saved in %s every %.4g min\n",
			100 * g.goodput, g.mtbf_s / 3600, mq_text_B(g.checkpoint_B, bytes),
			mq_text_s(g.checkpoint_s, write), g.interval_s / 60);
}

/* Further results of a simulated plan: lines, or members of JSON, each after a comma. */
static enum mq_status say_spread(struct simulation *s, struct mq_err *err)
{
	bool ran = s->result.verdict == MQ_VERDICT_OK;
	enum mq_status status = MQ_OK;
	size_t size;
	FILE *words = open_memstream(&s->said, &size);

	mq_assert(words);
	if (ran && s->options->jitter.draws)
		status = say_draws(s, words, err);
	if (ran && status == MQ_OK && s->options->failures.mtbf_h > 0)
		say_goodput(s, words);
	fclose(words);
	return status;
}

/* ---- the step ---------------------------------------------------------------------------------------------- */

static enum mq_status print_intervals(struct simulation *s, struct mq_err *err)
{
	const struct options *o = s->options;
	struct mq_arena *arena = &s->session->arena;
	struct mq_ranked *ranked = mq_arena_array(arena, o->against.n + 1, struct mq_ranked);

	ranked[0] = (struct mq_ranked){ o->plan, &s->plan, s->result.step_time_s };
	for (uint32_t i = 0; i < o->against.n; i++) {
		struct mq_plan *plan = mq_arena_array(arena, 1, struct mq_plan);
		const struct mq_plan *list[1] = { plan };
		struct mq_result result;

		mq_plan_init(plan, arena, s->session->model->n_ops);
		MQ_TRY(mq_plan_load(o->against.item[i], s->session->model, s->session->cluster, arena, plan, err));
		MQ_TRY(mq_session_judge(s->session, list, 1, &result, err));
		if (result.verdict != MQ_VERDICT_OK)
			return mq_fail(err, mq_verdict_status(result.verdict), "--against %s: %s: %s",
				       o->against.item[i], mq_verdict_name(result.verdict), result.message);
		ranked[i + 1] = (struct mq_ranked){ o->against.item[i], plan, result.step_time_s };
	}
	return mq_plans_intervals(s->session, ranked, o->against.n + 1, o->dir, err);
}

static enum mq_status write_results(struct simulation *s, const struct mq_outputs *outputs, struct mq_err *err)
{
	const struct options *o = s->options;
	const struct mq_memory_files memory = { o->snapshot, o->snapshot_device, o->dir };
	FILE *file;

	if (o->dir) {
		MQ_TRY(mq_job_begin(o->dir, "simulate", &file, err));
		mq_asked_print(s->session->asked, file);
		mq_args_print(options, o, 0, file);
		MQ_TRY(mq_job_end(file, o->dir, 0, err));
	}
	MQ_TRY(mq_pool_detail(s->session->pool, o->analytic, &s->plan, outputs, &s->result, err));
	if (s->result.peak_memory_B > 0 && (o->dir || o->snapshot))
		return mq_memory_outputs(&s->session->q, &s->plan, &memory, err);
	return MQ_OK;
}

static enum mq_status write_page(const struct simulation *s, struct mq_err *err)
{
	MQ_FREED struct mq_words memory = { NULL, 0 };
	FILE *words = mq_words_open(&memory);

	print_result(s, words);
	fclose(words);
	return mq_plan_page(
		s->options->dir,
		mq_arena_printf(&s->session->arena, "%s on %s", s->session->model->name, s->session->cluster->name),
		memory.text, err);
}

static enum mq_status write_in_folder(struct simulation *s, const struct mq_outputs *outputs, struct mq_err *err)
{
	struct mq_claim claim;

	MQ_TRY(mq_make_dir(outputs->dir, err));
	MQ_TRY(mq_job_claim(outputs->dir, "simulate", NULL, &claim, err));
	enum mq_status status = write_results(s, outputs, err);
	mq_job_release(&claim);
	return status;
}

static enum mq_status say(struct simulation *s, struct mq_err *err)
{
	const struct options *o = s->options;
	const struct mq_result *r = &s->result;

	if (o->json)
		print_json(s);
	else if (r->step_time_s > 0)
		print_result(s, stdout);
	if (o->dir && r->step_time_s > 0)
		MQ_TRY(write_page(s, err));
	if (r->verdict == MQ_VERDICT_OK)
		return o->intervals ? print_intervals(s, err) : MQ_OK;
	return mq_fail(err, mq_verdict_status(r->verdict), "%s: %s: %s", o->plan, mq_verdict_name(r->verdict),
		       r->message);
}

static enum mq_status run_simulation(const struct options *o, struct mq_session *session, struct mq_err *err)
{
	struct simulation s = { .options = o, .session = session };
	const struct mq_outputs outputs = { o->dir, o->trace, o->schedule, o->timeline, most_B(o) };

	MQ_TRY(mq_plan_load(o->plan, session->model, session->cluster, &session->arena, &s.plan, err));
	MQ_TRY((o->dir ? write_in_folder : write_results)(&s, &outputs, err));
	enum mq_status status = say_spread(&s, err);
	s.trust = mq_session_trust(session, &s.plan, &s.result, &session->arena);
	if (status == MQ_OK)
		status = say(&s, err);
	free(s.said);
	return status;
}

static enum mq_status check_outputs(const struct options *o, struct mq_err *err)
{
	const char *const read[] = { o->plan, o->asked.model, o->asked.platform, o->asked.start };
	const uint32_t n = sizeof(read) / sizeof(*read);

	MQ_TRY(mq_output_apart("--trace", o->trace, read, n, err));
	MQ_TRY(mq_output_apart("--trace", o->trace, o->asked.calib.item, o->asked.calib.n, err));
	MQ_TRY(mq_output_apart("--memory-snapshot", o->snapshot, read, n, err));
	MQ_TRY(mq_output_apart("--memory-snapshot", o->snapshot, o->asked.calib.item, o->asked.calib.n, err));
	MQ_TRY(mq_output_apart("--schedule", o->schedule, read, n, err));
	MQ_TRY(mq_output_apart("--schedule", o->schedule, o->asked.calib.item, o->asked.calib.n, err));
	if (o->trace && o->schedule && !strcmp(o->trace, o->schedule))
		return mq_bad(err, "--trace and --schedule are both %s; give two files", o->trace);
	return MQ_OK;
}

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct options o = { .plan = NULL };
	MQ_CLOSED struct mq_session session = { .model = NULL };
	const struct mq_args args = { .table = { { mq_question_args, &o.asked }, { options, &o } }, .doc = doc };

	mq_asked_init(&o.asked);
	mq_args_defaults(options, &o);
	MQ_TRY(mq_args_parse_plan(&args, &o, sizeof(o), &o.asked, &o.plan, argc, argv, &arena, err));
	if (!o.plan)
		return mq_bad(
			err,
			"-P is missing: give a plan file, as search writes (plan-1.json); search --fix dp=8 --evals 1 "
			"makes that of one shape, export --import FILE that of launch settings");
	o.plan = strcmp(o.plan, "-") ? o.plan : "/dev/stdin";
	MQ_TRY(check_outputs(&o, err));
	MQ_TRY(read_spread(&o, &arena, err));
	mq_asked_limit_simulation(&o.asked);
	MQ_TRY(mq_session_open(&session, &o.asked, NULL, err));
	mq_session_note(&session, stderr);
	return run_simulation(&o, &session, err);
}

MQ_DEFINE_COMMAND(simulate, "one plan: time, memory, timeline, trace, bottleneck");
