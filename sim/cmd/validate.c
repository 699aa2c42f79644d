/* validate.c - `maquette validate DIR...`: replays the best plans of searches on real hardware and reports the errors
 * of the predictions, and whether they rank the plans correctly.
 *
 * The simulated schedules themselves are written to files, run by maquette-replay (here, or on another node with
 * --schedule-only and --from), and compared with the prediction task by task. SPDX-License-Identifier: Apache-2.0 */
#include "session/pages/page.h"
#include "cmd/cmd.h"

#include <math.h>
#include <string.h>

#include "cmd/validate/plans.h"

struct validate {
	struct mq_replay_call call;
	const char *out, *from, *platform, *software, *snapshot;
	struct mq_list dirs, against, calib;
	uint32_t top, draws;
	double threshold;
	bool json, recalibrate, schedule_only, dry_run;
};

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct validate, field, __VA_ARGS__)
static const struct mq_arg rows[] = {
	ROW(LIST, "DIR", dirs, NULL, NULL, .flags = MQ_ARG_POSITIONAL),
	ROW(INT, "top", top, "K", "plans of each folder", .initial = 5, .min = 1, .max = 1000),
	ROW(TEXT, "executor", call.executor, "NAME", "host or cuda (default: by the devices of the plans)",
	    .letter = 'x'),
	ROW(TEXT, "output", out, "DIR", "folder for results (default: FIRST-FOLDER/validate)", .letter = 'o'),
	ROW(TEXT, "platform", platform, "FILE", "platform instead of that of the search", .letter = 'p'),
	ROW(LIST, "calib", calib, "FILE", "calibration to add to those of the search; repeatable"),
	ROW(TEXT, "software", software, "NAME", "training software instead of that of the search"),
	ROW(FLAG, "recalibrate", recalibrate, NULL,
	    "fit the calibration to half of the plans, print the error on the other half before and after, and write "
	    "DIR/calib.json if it falls (else exit with 5)"),
	ROW(F64, "threshold", threshold, "PERCENT", "exit with 5 if the median error is above this", .initial = NAN,
	    .max = 1e6),
	ROW(FLAG, "dry-run", dry_run, NULL, "print what would run and what it needs, without running"),
	ROW(FLAG, "schedule-only", schedule_only, NULL, "write the schedules and the command line for another node"),
	ROW(TEXT, "from", from, "DIR", "samples measured before or elsewhere"),
	ROW(LIST, "against", against, "TRACE",
	    "instead of a replay: compare the best plan's prediction with a trace of a real step (PyTorch, Nsight "
	    "Systems, Chakra), class by class; one per rank, repeatable"),
	ROW(TEXT, "memory", snapshot, "FILE.pickle",
	    "instead of a replay: compare the best plan's memory with a snapshot of a real rank (torch.cuda.memory."
	    "_dump_snapshot), by purpose at its peak"),
	ROW(FLAG, "json", json, NULL, "print the tables as JSON; text goes to standard error"),
	ROW(INT, "launches", call.launches, "N", "process launches", .initial = 2, .min = 1, .max = 100),
	ROW(INT, "reps", call.reps, "N", "repetitions per launch", .initial = 10, .min = 1, .max = 100000),
	ROW(INT, "warmup", call.warmup, "N", "warm-up repetitions per launch", .initial = 2, .max = 100000),
	ROW(F64, "settle", call.settle_s, "S",
	    "GPUs: time that a plan runs before each repetition, so that its own power sets the clock", .unit = "s",
	    .initial = .15, .max = 60),
	ROW(INT, "cores", call.cores, "N", "host: CPU cores per device", .min = 1, .max = 4096),
	ROW(INT, "draws", draws, "N", "bootstrap samples for the intervals", .initial = 100, .min = 2, .max = 10000),
	ROW(INT, "seed", call.seed, "N", "seed of order, data and bootstrap", .initial = 1, .max = 1000000),
	ROW(F64, "deadline", call.deadline_s, "S", "longest wait for a process of the replay", .unit = "s",
	    .initial = 60, .min = .1, .max = 86400),
	ROW(FLAG, "oversubscribe", call.oversubscribe, NULL, "host: allow more devices than cores"),
	ROW(FLAG, "share-gpu", call.share_gpu, NULL, "cuda: several ranks on one GPU, for correctness only"),
	{ .type = MQ_ARG_END },
};

/* ---- the steps ------------------------------------------------------------------------------- */

static enum mq_status open_all(const struct validate *o, struct mq_validation *v, struct mq_err *err)
{
	struct mq_argv argv = { .arena = &v->arena };

	if (o->platform)
		mq_argv_add(&argv, "--platform=%s", o->platform);
	if (o->software)
		mq_argv_add(&argv, "--software=%s", o->software);
	for (uint32_t i = 0; i < o->calib.n; i++)
		mq_argv_add(&argv, "--calib=%s", o->calib.item[i]);
	v->n_dirs = o->dirs.n;
	v->replays = !o->from && !o->against.n && !o->snapshot && !o->dry_run && !o->schedule_only &&
		     (!o->call.executor || !strcmp(o->call.executor, "cuda"));
	v->asked = mq_arena_array(&v->arena, v->n_dirs, struct mq_asked);
	v->session = mq_arena_array(&v->arena, v->n_dirs, struct mq_session);
	for (uint32_t i = 0; i < v->n_dirs; i++)
		MQ_TRY(mq_validation_add(v, o->dirs.item[i], o->top, (int)argv.n, argv.word, err));
	mq_session_note(&v->session[0], stderr);
	return MQ_OK;
}

static bool any_gpu(const struct mq_validation *v)
{
	for (uint32_t i = 0; i < v->n_plans; i++) {
		const struct mq_schedule *s = v->plan[i].schedule;

		for (uint32_t d = 0; d < s->n_devices; d++)
			if (v->plan[i].session->cluster->device[s->device[d]].kind == MQ_GPU)
				return true;
	}
	return false;
}

/* Types of CPU devices, for mixed plans. */
static const char *cpu_types(struct mq_validation *v)
{
	const char *list = "";

	for (uint32_t i = 0; i < v->n_open; i++)
		for (uint32_t d = 0; d < v->session[i].cluster->n_devices; d++) {
			const struct mq_device *device = &v->session[i].cluster->device[d];

			if (device->kind == MQ_CPU && !strstr(list, device->type))
				list = mq_arena_printf(&v->arena, "%s%s%s", list, *list ? "," : "", device->type);
		}
	return list;
}

/* A CPU device beside GPUs has as many cores as in its calibration. */
static uint32_t calibrated_cores(const struct mq_validation *v)
{
	for (uint32_t i = 0; i < v->n_open; i++)
		for (uint32_t d = 0; d < v->session[i].cluster->n_devices; d++) {
			const struct mq_device *device = &v->session[i].cluster->device[d];

			if (device->kind == MQ_CPU)
				return (uint32_t)v->session[i].calib->device[device->calib].sm_count;
		}
	return 0;
}

static void say_dry(const struct mq_validation *v, const struct mq_replay_call *call)
{
	uint32_t devices = 0;

	for (uint32_t i = 0; i < v->n_plans; i++) {
		const struct mq_validated *p = &v->plan[i];
		char memory[32];

		devices = p->schedule->n_devices > devices ? p->schedule->n_devices : devices;
		printf("%-26s %2u devices %6u tasks, %s on the fullest: %s\n", p->name, p->schedule->n_devices,
		       p->schedule->n_tasks, mq_text_B(p->memory[p->worst].peak_B, memory), p->plan_text);
	}
	printf("executor %s, %u devices, %u launches of %u + %u repetitions\n", call->executor, devices, call->launches,
	       call->warmup, call->reps);
}

static enum mq_status join(struct mq_validation *v, const char *dir, struct mq_err *err)
{
	struct mq_samples samples;

	MQ_TRY(mq_samples_load(dir, &v->arena, &samples, err));
	for (uint32_t i = 0; i < v->n_plans; i++) {
		struct mq_validated *p = &v->plan[i];

		for (uint32_t s = 0; s < samples.n; s++)
			if (!strcmp(samples.name[s], p->name))
				p->measured = &samples.measured[s];
		if (!p->measured || !p->measured->n_samples)
			return mq_bad(
				err,
				"%s: no samples of %s (launch-K/%s.timeline.csv); --top takes only the first plans",
				dir, p->name, p->name);
		if (p->measured->schedule->plan_hash != p->schedule->plan_hash ||
		    p->measured->schedule->n_tasks != p->schedule->n_tasks)
			return mq_bad(err, "%s: %s.jsonl is of another plan than the search's", dir, p->name);
		p->step = mq_measured_step(p->measured, &v->arena, &p->n_dropped, &p->weak);
	}
	return mq_validation_read_memory(v, dir, err);
}

static const struct mq_shown_table shown[] = {
	{ "plans.csv", "Plans", "name" },
	{ "memory.csv", "Memory", NULL },
	{ "intervals.csv", "Intervals", NULL },
	{ "validate.csv", "Tasks", NULL },
	{ NULL, NULL, NULL },
};

static enum mq_status judge(const struct validate *o, struct mq_validation *v, const char *dir, struct mq_err *err)
{
	MQ_TRY(mq_validation_predict_all(v, o->draws, o->call.seed, err));
	mq_validation_drift(v, o->draws, o->call.seed);
	if (o->recalibrate)
		MQ_TRY(mq_validation_recalibrate(v, dir, err));
	MQ_TRY(mq_validation_trust(v, dir, err));
	MQ_TRY(mq_validation_write(v, dir, err));
	double error = 100 * mq_validation_print(v);
	MQ_TRY(mq_validation_memory(v, dir, err));
	MQ_TRY(mq_tables_page(dir, mq_arena_printf(&v->arena, "Replayed: %s", o->dirs.item[0]), shown, NULL, err));
	if (v->refused)
		return mq_fail(err, MQ_ETHRESHOLD, "%s", v->refused);
	if (!isnan(o->threshold) && !(error <= o->threshold))
		return mq_fail(err, MQ_ETHRESHOLD, "median error %.1f %% is above --threshold %g %%", error,
			       o->threshold);
	return MQ_OK;
}

static enum mq_status validate(const struct validate *o, struct mq_validation *v, struct mq_err *err)
{
	MQ_TRY(open_all(o, v, err));
	const char *dir = o->out ? o->out : mq_arena_printf(&v->arena, "%s/validate", o->dirs.item[0]);
	if (o->against.n) {
		MQ_TRY(mq_make_dir(dir, err));
		return mq_validation_against(v, o->against.item, o->against.n, dir, err);
	}
	if (o->snapshot) {
		MQ_TRY(mq_make_dir(dir, err));
		return mq_validation_snapshot(v, o->snapshot, dir, err);
	}
	const char **name = mq_arena_array(&v->arena, v->n_plans, const char *);
	bool gpu = any_gpu(v);
	struct mq_replay_call call = o->call;

	call.executor = call.executor ? call.executor : gpu ? "cuda" : "host";
	call.dir = o->from ? o->from : dir;
	call.cores = call.cores || !gpu ? call.cores : calibrated_cores(v);
	call.first_launch = 1;
	call.settle_s = gpu ? call.settle_s : 0;
	call.cpu_types = gpu ? cpu_types(v) : "";
	call.n_names = v->n_plans;
	call.name = name;
	if (o->dry_run) {
		say_dry(v, &call);
		return MQ_OK;
	}
	MQ_TRY(mq_make_dir(dir, err));
	for (uint32_t i = 0; i < v->n_plans && !o->from; i++) {
		name[i] = v->plan[i].name;
		MQ_TRY(mq_schedule_save(v->plan[i].schedule, mq_arena_printf(&v->arena, "%s/%s.jsonl", dir, name[i]),
					err));
	}
	if (o->schedule_only && !o->from) {
		mq_replay_print(&call);
		printf("then: maquette validate %s ... --from %s\n", o->dirs.item[0], dir);
		return MQ_OK;
	}
	int saved = mq_json_begin(o->json);
	enum mq_status status = o->from ? MQ_OK : mq_replay_measure(&call, err);
	if (status == MQ_OK)
		status = join(v, call.dir, err);
	if (status == MQ_OK)
		status = judge(o, v, dir, err);
	mq_json_done(saved, dir, shown);
	return status;
}

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	struct validate o = { .out = NULL };
	struct mq_validation v = { .arena = MQ_ARENA_INIT };
	const struct mq_args args = { .table = { { rows, &o } },
				      .args_doc = "DIR...",
				      .doc = "Replays the best plans of searches on real hardware and compares times "
					     "with the predictions." };

	mq_args_defaults(rows, &o);
	MQ_TRY(mq_args_parse(&args, argc, argv, err));
	if (!o.dirs.n)
		return mq_bad(err, "validate: give the folder of a search; see --help");
	enum mq_status status = validate(&o, &v, err);
	mq_validation_close(&v);
	return status;
}

MQ_DEFINE_COMMAND(validate, "replay the best plans on real hardware");
