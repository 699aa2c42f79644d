/* export.c - `maquette export`: writes a plan as launch settings or as a trace for other simulators, and imports plans
 * from flags of Megatron-LM, a ds_config.json or a torchtitan recipe. A plan that the target cannot express is refused
 * with the reason. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"
#include "base/text.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "executors/execute.h"
#include "export/export.h"
#include "model/formats/lib/megatron.h"
#include "judge/pool.h"
#include "session/search_run.h"
#include "session/trust.h"

/* A target: settings by `write`, for software whose file has `settings`, or a trace (NULL). */
static const struct target {
	const char *name;
	const char *software; /* the default; FlagScale starts Megatron */
	const char *settings;
	enum mq_status (*write)(const struct mq_export *e, const char **text, struct mq_err *err);
	bool adapters;    /* supports --train lora */
	const char *file; /* -o is a folder; the settings are this file in it */
} targets[] = {
	{ "megatron", "megatron-core", "megatron", mq_export_megatron, false, NULL },
	{ "megatron-fsdp", "megatron-fsdp", "megatron-fsdp", mq_export_megatron, false, NULL },
	{ "megatron-bridge", "megatron-bridge", "megatron-bridge", mq_export_megatron_bridge, true, "train.py" },
	{ "deepspeed", "deepspeed", "deepspeed", mq_export_deepspeed, true, "ds_config.json" },
	{ "torchtitan", "torchtitan", "torchtitan", mq_export_torchtitan, true, NULL },
	{ "flagscale", "megatron-core", "megatron", mq_export_flagscale, false, NULL },
	{ "chakra", "generic", NULL, NULL, false, NULL },
	{ "astra-sim", "generic", NULL, NULL, false, NULL },
};

struct options {
	struct mq_asked asked;
	const struct target *target;
	const char *plan, *to, *import, *out;
	bool batch_given; /* else an import takes the batch of the launch */
};

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct options, field, __VA_ARGS__)
static const struct mq_arg rows[] = {
	ROW(TEXT, "PLAN.json", plan, NULL, NULL, .flags = MQ_ARG_POSITIONAL),
	{ .type = MQ_ARG_GROUP, .name = "What and where to:" },
	ROW(CHOICE, "to", to, "TARGET", "what to write",
	    .words = "megatron|megatron-fsdp|megatron-bridge|deepspeed|torchtitan|flagscale|chakra|astra-sim"),
	ROW(TEXT, "import", import, "FILE",
	    "a launch script of Megatron-LM, a ds_config.json or a torchtitan recipe to read; writes a plan"),
	ROW(TEXT, "output", out, "PATH",
	    "file (default: the screen); megatron-bridge, deepspeed, chakra, astra-sim: folder for all their files",
	    .letter = 'o'),
	{ .type = MQ_ARG_END },
};

static const char doc[] = "Writes a plan as launch settings, or reads launch settings as a plan:\n"
			  "maquette export PLAN.json -m MODEL -p PLATFORM --to megatron\n"
			  "(open decisions are those of --software; default: the target's software)\n"
			  "maquette export --import FLAGS.sh -m MODEL -p PLATFORM -o PLAN.json\n"
			  "(with --software, decisions equal to its defaults are left open)";

/* Builds the whole text before writing, so that a refusal leaves no file. */
static enum mq_status write_settings(const struct options *o, struct mq_export *e, struct mq_err *err)
{
	enum mq_tuning_kind kind = e->tuning.kind;
	const char *path = o->out, *text;

	if (e->train->optimizer == MQ_OPTIMIZER_NONE)
		return mq_bad(err, "--optimizer none: these are settings of training; say adam, sgd or momentum");
	if (kind == MQ_TUNE_FROZEN || (kind == MQ_TUNE_LORA && !o->target->adapters))
		return mq_bad(err, "--to %s: it has no settings for --train %s; %s", o->to, e->train->tuning,
			      kind == MQ_TUNE_LORA ? "megatron-bridge, deepspeed (with PEFT) and torchtitan have" :
						     "set requires_grad in your program");
	if (path && o->target->file) {
		MQ_TRY(mq_make_dir(path, err));
		e->dir = path;
		path = mq_arena_printf(e->arena, "%s/%s", path, o->target->file);
	}
	MQ_TRY(o->target->write(e, &text, err));
	if (path)
		return mq_file_put(path, text, err);
	fputs(text, stdout);
	return MQ_OK;
}

static enum mq_status write_trace(const struct options *o, struct mq_session *s, const struct mq_plan *plan,
				  struct mq_err *err)
{
	struct mq_schedule *schedule;
	struct mq_timeline timeline;
	struct mq_result result;
	enum mq_verdict verdict;

	if (!o->out)
		return mq_bad(err, "-o is missing: %s writes a file per device; give a folder", o->to);
	MQ_TRY(mq_make_dir(o->out, err));
	const char *path = mq_arena_printf(&s->arena, "%s/schedule.jsonl", o->out);
	const struct mq_outputs outputs = { .schedule = path };
	MQ_TRY(mq_pool_detail(s->pool, false, plan, &outputs, &result, err));
	if (result.verdict != MQ_VERDICT_OK)
		return mq_fail(err, mq_verdict_status(result.verdict), "%s: the plan does not run: %s: %s", o->to,
			       mq_verdict_name(result.verdict), result.message);
	MQ_TRY(mq_schedule_load(path, &s->arena, &schedule, err));
	const struct mq_exec_request request = {
		.view.schedule = schedule, .cluster = s->cluster, .calib = s->calib, .timeout_s = INFINITY
	};
	MQ_TRY(mq_execute_analytic(&request, &s->arena, &timeline, &verdict, err));
	struct mq_export_run run = { .schedule = schedule, .timeline = &timeline, .dir = o->out };
	if (!strcmp(o->to, "astra-sim"))
		return mq_export_astra_sim(&run, s->cluster, result.step_time_s, stdout, err);
	run.number = mq_arena_array(&s->arena, schedule->n_devices, uint32_t);
	for (uint32_t d = 0; d < schedule->n_devices; d++)
		run.number[d] = d;
	return mq_export_chakra(&run, err);
}

/* A header for readers of the settings: plan, target, prediction and its confidence. */
static enum mq_status write_head(struct mq_session *s, struct mq_export *e, struct mq_err *err)
{
	const struct mq_plan *list[1] = { e->plan };
	const char *release = s->q.software->release;
	struct mq_result r;
	MQ_FREED struct mq_words memory = { NULL, 0 };

	MQ_TRY(mq_session_judge(s, list, 1, &r, err));
	struct mq_session_trust trust = mq_session_trust(s, e->plan, &r, e->arena);
	FILE *f = mq_words_open(&memory);
	fprintf(f, "plan: %s\n", mq_plan_describe(e->plan, s->cluster, e->arena));
	fprintf(f, "%s on %s, batch %.0f, %u tokens per sample; settings of %s\n", s->model->name, s->cluster->name,
		s->train.batch, s->model->seq, release);
	if (r.verdict == MQ_VERDICT_OK)
		fprintf(f, "predicted: %.4g s a step, %.4g TFLOP/s per device (%s), memory %.1f of %.1f GB\n",
			r.step_time_s, mq_tflops_per_device(s, e->plan, &r), mq_flop_convention(s->q.software),
			r.peak_memory_B / 1e9, r.memory_limit_B / 1e9);
	else
		fprintf(f, "predicted: %s: %s\n", mq_verdict_name(r.verdict), r.message);
	mq_trust_print(&trust, f);
	fclose(f);
	e->head = mq_arena_strdup(e->arena, memory.text);
	return MQ_OK;
}

static enum mq_status open_plan(const struct options *o, const struct mq_session *s, struct mq_export *e,
				struct mq_err *err)
{
	const struct mq_software *software = s->q.software;

	if (!software->target || !mq_text_has_word(software->target, o->target->settings))
		return mq_bad(err,
			      "--to %s: these are not the settings of --software %s; leave it out (%s), or "
			      "give one that `maquette list software NAME` says is exported so",
			      o->to, software->name, o->target->software);
	if (strcmp(o->to, "flagscale"))
		return mq_export_open(e, &s->q, err);
	mq_plan_form(&s->q, e->plan, e->arena, &e->form);
	mq_software_apply_defaults(software, e->model, e->plan, e->arena, &e->resolved);
	return MQ_OK;
}

static enum mq_status export_plan(const struct options *o, struct mq_session *s, struct mq_err *err)
{
	struct mq_plan *plan = mq_arena_alloc(&s->arena, sizeof(*plan));
	struct mq_export e = { .model = s->model,
			       .cluster = s->cluster,
			       .train = &s->train,
			       .plan = plan,
			       .arena = &s->arena,
			       .fsdp = !strcmp(o->to, "megatron-fsdp") };

	MQ_TRY(mq_tuning_read("--train", s->train.tuning, e.arena, &e.tuning, err));
	MQ_TRY(mq_plan_load(o->plan, s->model, s->cluster, &s->arena, plan, err));
	MQ_TRY(mq_plan_check(plan, s->model, s->cluster, &s->train, err));
	if (!o->target->write)
		return write_trace(o, s, plan, err);
	enum mq_status status = open_plan(o, s, &e, err);
	if (status == MQ_OK)
		status = write_head(s, &e, err);
	if (status == MQ_OK)
		status = write_settings(o, &e, err);
	if (status == MQ_OK && !o->out && !strcmp(o->to, "deepspeed") && e.shape.recompute == MQ_RECOMPUTE_FULL &&
	    e.shape.pp == 1)
		fputs("note: recompute full is switched on by the program (model.gradient_checkpointing_enable()), "
		      "not by ds_config.json; with -o DIR both are written\n",
		      stderr);
	return status == MQ_OK ? MQ_OK : mq_wrap(err, "%s", o->plan);
}

static enum mq_status import_launch(const struct mq_launch *launch, const struct mq_export *e, struct mq_plan *plan,
				    struct mq_import_notes *notes, struct mq_err *err)
{
	if (launch->text)
		MQ_TRY(mq_export_check_tuning(e, launch->path, launch->text, err));
	if (!strcmp(launch->program, "DeepSpeed"))
		return mq_import_deepspeed(e, launch->path, plan, notes, err);
	if (!strcmp(launch->program, "torchtitan recipe"))
		return mq_import_torchtitan(e, launch->text, plan, notes, err);
	return mq_import_megatron(e, launch, plan, notes, err);
}

/* Sequence length and model come from the launch unless given. */
static void ask_as_launched(struct options *o, const struct mq_launch *launch)
{
	double seq = mq_launch_number(launch, "--seq-length");

	if (!o->asked.model && !strcmp(launch->program, "Megatron-LM") && mq_megatron_has_model(launch->word))
		o->asked.model = launch->path;
	if (!o->asked.seq && seq >= 1 && seq <= 1e9 && o->asked.model && strcmp(o->asked.model, launch->path)) {
		o->asked.seq = (uint32_t)seq;
		printf("--seq %.0f, as %s says\n", seq, launch->path);
	}
}

/* Leaves open the decisions that equal the defaults of --software. */
static void leave_to_software(struct mq_session *s, struct mq_plan *plan)
{
	struct mq_plan silent = *plan, resolved;

	silent.explicit = 0;
	mq_software_apply_defaults(s->q.software, s->model, &silent, &s->arena, &resolved);
	for (int d = 0; d < MQ_N_DECISIONS; d++)
		if (fabs(mq_plan_value(plan, d) - mq_plan_value(&resolved, d)) < 1)
			plan->explicit &= ~mq_decision(d)->bit;
}

static enum mq_status import_plan(const struct options *o, struct mq_session *s, const struct mq_launch *launch,
				  struct mq_err *err)
{
	struct mq_export e = { .model = s->model,
			       .cluster = s->cluster,
			       .train = &s->train,
			       .software = s->q.software,
			       .arena = &s->arena };
	struct mq_import_notes notes = { "", "", 0 };
	struct mq_plan plan;

	if (!o->batch_given)
		s->train.batch = 0; /* taken from the launch */
	if (import_launch(launch, &e, &plan, &notes, err) != MQ_OK)
		return strstr(err->text, o->import) ? err->status : mq_wrap(err, "%s", o->import);
	s->train.batch = notes.batch;
	if (!o->batch_given)
		printf("--batch %.0f, as %s says\n", notes.batch, launch->path);
	if (strcmp(o->asked.software, "generic"))
		leave_to_software(s, &plan);
	MQ_TRY(mq_plan_check(&plan, s->model, s->cluster, &s->train, err));
	MQ_TRY(mq_plan_save(&plan, s->model, s->cluster, o->out, err));
	printf("%s: %s\n", o->out, mq_plan_describe(&plan, s->cluster, &s->arena));
	uint32_t used = mq_plan_degrees(&plan).n_devices;
	if (used < s->cluster->n_devices)
		printf("uses devices 0 to %u of %u; --devices RANKS gives others\n", used - 1, s->cluster->n_devices);
	if (*notes.question)
		printf("part of the question, which has it otherwise: give%s\n", notes.question);
	if (*notes.skipped)
		printf("not read:%s\n", notes.skipped);
	return MQ_OK;
}

static enum mq_status check_options(const struct options *o, struct mq_err *err)
{
	if (o->import && (o->plan || o->to))
		return mq_bad(err, "--import writes a plan: leave out PLAN.json and --to");
	if (o->import && !o->out)
		return mq_bad(err, "-o is missing: give a file for the plan");
	if (!o->import && !o->plan)
		return mq_bad(err, "give a plan: maquette export PLAN.json --to TARGET, or --import");
	if (!o->import && !o->to)
		return mq_bad(err, "--to is missing: give one that `maquette export --help` lists");
	return MQ_OK;
}

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct options o = { .plan = NULL };
	MQ_CLOSED struct mq_session session = { .model = NULL };
	struct mq_launch launch;
	const struct mq_args args = { .table = { { mq_question_args, &o.asked }, { rows, &o } },
				      .args_doc = "PLAN.json",
				      .doc = doc };

	mq_asked_init(&o.asked);
	MQ_TRY(mq_args_parse_plan(&args, &o, sizeof(o), &o.asked, &o.plan, argc, argv, &arena, err));
	if (o.plan && !strcmp(o.plan, "-"))
		o.plan = "/dev/stdin";
	MQ_TRY(check_options(&o, err));
	const char *const read[] = { o.plan, o.import, o.asked.model, o.asked.platform };
	MQ_TRY(mq_output_apart("-o", o.out, read, sizeof(read) / sizeof(*read), err));
	for (size_t i = 0; o.to && i < sizeof(targets) / sizeof(*targets); i++)
		if (!strcmp(targets[i].name, o.to))
			o.target = &targets[i];
	if (o.target && !strcmp(o.asked.software, "generic")) /* generic has no settings */
		o.asked.software = o.target->software;
	if (o.import) {
		MQ_TRY(mq_launch_read(o.import, &arena, &launch, err));
		ask_as_launched(&o, &launch);
		o.batch_given = o.asked.batch_given || o.asked.tokens_per_batch;
		o.asked.batch_given |= !o.batch_given;
	}
	MQ_TRY(mq_session_open(&session, &o.asked, NULL, err));
	return o.import ? import_plan(&o, &session, &launch, err) : export_plan(&o, &session, err);
}

MQ_DEFINE_COMMAND(export, "a plan as launch settings, or launch settings as a plan");
