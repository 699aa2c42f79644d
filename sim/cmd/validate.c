/*
 * validate.c - `maquette validate DIR...`: replays the best plans of searches on real hardware and
 * tells how far the predictions were off, and whether they would have chosen the right plan.
 *
 * The very schedules that were simulated are written to files, run by maquette-replay (here, or on
 * another node with --schedule-only and --from), and joined with the prediction task by task.
 */
#include "session/pages/tables.h"
#include "cmd/cmd.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "cmd/validate/plans.h"
#include "maquette/opt.h"

struct validate {
	const char *executor, *out, *from;
	struct mq_list dirs, question, against;
	uint64_t top, reps, warmup, launches, cores, draws, seed;
	double deadline_s, threshold;
	bool json;
	bool recalibrate, schedule_only, dry_run, share_gpu, oversubscribe;
	struct mq_err *err;
};

enum {
	OPT_EXECUTOR = 'x',
	OPT_TOP = 256,
	OPT_REPS,
	OPT_WARMUP,
	OPT_LAUNCHES,
	OPT_CORES,
	OPT_DRAWS,
	OPT_SEED,
	OPT_DEADLINE,
	OPT_THRESHOLD,
	OPT_RECALIBRATE,
	OPT_ONLY,
	OPT_DRY,
	OPT_FROM,
	OPT_AGAINST,
	OPT_JSON,
	OPT_SHARE,
	OPT_OVER,
	OPT_CALIB,
	OPT_SOFTWARE
};

static const struct argp_option options[] = {
	{ "top", OPT_TOP, "K", 0, "plans of each folder (default 5)", 0 },
	{ "executor", OPT_EXECUTOR, "NAME", 0, "host or cuda (default: by the devices of the plans)", 0 },
	{ "output", 'o', "DIR", 0, "where results go (default: FIRST-FOLDER/validate)", 0 },
	{ "platform", 'p', "FILE", 0, "instead of the platform that was searched", 0 },
	{ "calib", OPT_CALIB, "FILE", 0, "calibration to add to those of the search; repeatable", 0 },
	{ "software", OPT_SOFTWARE, "NAME", 0, "training software instead of that of the search", 0 },
	{ "recalibrate", OPT_RECALIBRATE, NULL, 0,
	  "fit the calibration to half of the plans, tell the error on the other half before and after, "
	  "and write DIR/calib.json if it falls (else exit with 5)",
	  0 },
	{ "threshold", OPT_THRESHOLD, "PERCENT", 0, "exit with 5 if the median error is above this", 0 },
	{ "dry-run", OPT_DRY, NULL, 0, "say what would run and what it needs; run nothing", 0 },
	{ "schedule-only", OPT_ONLY, NULL, 0,
	  "write the schedules and the command line for another "
	  "node",
	  0 },
	{ "from", OPT_FROM, "DIR", 0, "samples that were measured before or elsewhere", 0 },
	{ "against", OPT_AGAINST, "TRACE", 0,
	  "instead of a replay: the best plan's prediction beside a trace of a real step (PyTorch, Nsight Systems, Chakra), "
	  "class by class; one per rank, repeatable",
	  0 },
	{ "json", OPT_JSON, NULL, 0, "print the tables as JSON, and words to standard error", 0 },
	{ "launches", OPT_LAUNCHES, "N", 0, "process launches (default 2)", 0 },
	{ "reps", OPT_REPS, "N", 0, "repetitions per launch (default 10)", 0 },
	{ "warmup", OPT_WARMUP, "N", 0, "warm-up repetitions per launch (default 2)", 0 },
	{ "cores", OPT_CORES, "N", 0, "host: CPU cores per device", 0 },
	{ "draws", OPT_DRAWS, "N", 0, "draws for the intervals (default 100)", 0 },
	{ "seed", OPT_SEED, "N", 0, "of order, data and draws (default 1)", 0 },
	{ "deadline", OPT_DEADLINE, "S", 0, "longest wait for anything (default 60)", 0 },
	{ "oversubscribe", OPT_OVER, NULL, 0, "host: allow more devices than cores", 0 },
	{ "share-gpu", OPT_SHARE, NULL, 0, "cuda: several ranks on one GPU, for correctness only", 0 },
	{ 0 }
};

/* -p, --calib and --software are passed on to the question of every folder. */
static error_t pass_on(struct validate *v, const char *option, char *arg)
{
	int bad = mq_arg_push(option, &v->question, option, v->err);

	return bad ? bad : mq_arg_push(option, &v->question, arg, v->err);
}

static error_t parse_flag(int key, char *arg, struct validate *v)
{
	switch (key) {
	case OPT_EXECUTOR:
		v->executor = arg;
		return 0;
	case 'o':
		v->out = arg;
		return 0;
	case 'p':
		return pass_on(v, "--platform", arg);
	case OPT_CALIB:
		return pass_on(v, "--calib", arg);
	case OPT_SOFTWARE:
		return pass_on(v, "--software", arg);
	case OPT_RECALIBRATE:
		v->recalibrate = true;
		return 0;
	case OPT_JSON:
		v->json = true;
		return 0;
	case OPT_ONLY:
		v->schedule_only = true;
		return 0;
	case OPT_DRY:
		v->dry_run = true;
		return 0;
	case OPT_FROM:
		v->from = arg;
		return 0;
	case OPT_SHARE:
		v->share_gpu = true;
		return 0;
	case OPT_OVER:
		v->oversubscribe = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct validate *v = state->input;

	switch (key) {
	case OPT_TOP:
		return mq_arg_u64("--top", arg, 1, 1000, &v->top, v->err);
	case OPT_REPS:
		return mq_arg_u64("--reps", arg, 1, 100000, &v->reps, v->err);
	case OPT_WARMUP:
		return mq_arg_u64("--warmup", arg, 0, 100000, &v->warmup, v->err);
	case OPT_LAUNCHES:
		return mq_arg_u64("--launches", arg, 1, 100, &v->launches, v->err);
	case OPT_CORES:
		return mq_arg_u64("--cores", arg, 1, 4096, &v->cores, v->err);
	case OPT_DRAWS:
		return mq_arg_u64("--draws", arg, 2, 10000, &v->draws, v->err);
	case OPT_SEED:
		return mq_arg_u64("--seed", arg, 0, 1000000, &v->seed, v->err);
	case OPT_AGAINST:
		return mq_arg_push("--against", &v->against, arg, v->err);
	case OPT_DEADLINE:
		return mq_arg_quantity("--deadline", arg, "s", .1, 86400, &v->deadline_s, v->err);
	case OPT_THRESHOLD:
		return mq_arg_f64("--threshold", arg, 0, 1e6, &v->threshold, v->err);
	case ARGP_KEY_ARG:
		return mq_arg_push("DIR", &v->dirs, arg, v->err);
	case ARGP_KEY_NO_ARGS:
		mq_fail(v->err, MQ_EINPUT, "validate: give the folder of a search; see --help");
		return EINVAL;
	default:
		return parse_flag(key, arg, v);
	}
}

/* ---- the steps ------------------------------------------------------------------------------- */

static enum mq_status open_all(const struct validate *o, struct mq_validation *v, struct mq_err *err)
{
	char **argv = mq_arena_array(&v->arena, o->question.n + 1, char *);

	for (uint32_t i = 0; i < o->question.n; i++)
		argv[i] = mq_arena_strdup(&v->arena, o->question.item[i]);
	v->n_dirs = o->dirs.n;
	v->asked = mq_arena_array(&v->arena, v->n_dirs, struct mq_asked);
	v->session = mq_arena_array(&v->arena, v->n_dirs, struct mq_session);
	for (uint32_t i = 0; i < v->n_dirs; i++)
		MQ_TRY(mq_validation_add(v, o->dirs.item[i], (uint32_t)o->top, (int)o->question.n, argv, err));
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

/* A CPU device beside GPUs has the cores that its calibration was measured with. */
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

static enum mq_status write_schedules(struct mq_validation *v, const char *dir, const char **name, struct mq_err *err)
{
	MQ_TRY(mq_make_dir(dir, err));
	for (uint32_t i = 0; i < v->n_plans; i++) {
		name[i] = v->plan[i].name;
		MQ_TRY(mq_schedule_save(v->plan[i].schedule, mq_arena_printf(&v->arena, "%s/%s.jsonl", dir, name[i]),
					err));
	}
	return MQ_OK;
}

static void say_dry(const struct mq_validation *v, const struct mq_replay_call *call)
{
	uint32_t devices = 0;

	for (uint32_t i = 0; i < v->n_plans; i++) {
		const struct mq_validated *p = &v->plan[i];
		char memory[32];

		devices = p->schedule->n_devices > devices ? p->schedule->n_devices : devices;
		printf("%-26s %2u devices %6u tasks, %s on the fullest: %s\n", p->name, p->schedule->n_devices,
		       p->schedule->n_tasks, mq_text_B(p->memory_B, memory), p->plan_text);
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
			return mq_fail(err, MQ_EINPUT, "%s: no samples of %s (launch-K/%s.timeline.csv)", dir, p->name,
				       p->name);
		if (p->measured->schedule->plan_hash != p->schedule->plan_hash ||
		    p->measured->schedule->n_tasks != p->schedule->n_tasks)
			return mq_fail(err, MQ_EINPUT, "%s: %s.jsonl is of another plan than the search's", dir,
				       p->name);
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
	MQ_TRY(mq_validation_predict_all(v, (uint32_t)o->draws, o->seed, err));
	if (o->recalibrate)
		MQ_TRY(mq_validation_recalibrate(v, dir, err));
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
	const char **name = mq_arena_array(&v->arena, v->n_plans, const char *);
	bool gpu = any_gpu(v);
	struct mq_replay_call call = { .executor = o->executor ? o->executor :
						   gpu         ? "cuda" :
								 "host",
				       .dir = o->from ? o->from : dir,
				       .launches = (uint32_t)o->launches,
				       .warmup = (uint32_t)o->warmup,
				       .reps = (uint32_t)o->reps,
				       .cores = o->cores ? (uint32_t)o->cores :
						gpu      ? calibrated_cores(v) :
							   0,
				       .first_launch = 1,
				       .seed = o->seed,
				       .deadline_s = o->deadline_s,
				       .cpu_types = gpu ? cpu_types(v) : "",
				       .share_gpu = o->share_gpu,
				       .oversubscribe = o->oversubscribe,
				       .n_names = v->n_plans,
				       .name = name };

	if (o->dry_run) {
		say_dry(v, &call);
		return MQ_OK;
	}
	MQ_TRY(mq_make_dir(dir, err));
	if (!o->from)
		MQ_TRY(write_schedules(v, dir, name, err));
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
	mq_json_done(saved);
	if (o->json)
		mq_tables_json(dir, shown, stdout);
	return status;
}

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	static const struct argp argp = { options,
					  parse,
					  "DIR...",
					  "Replay the best plans of searches on "
					  "real hardware and compare.",
					  NULL,
					  NULL,
					  NULL };
	struct validate o = { .top = 5,
			      .reps = 10,
			      .warmup = 2,
			      .launches = 2,
			      .draws = 100,
			      .seed = 1,
			      .deadline_s = 60,
			      .threshold = NAN,
			      .err = err };
	struct mq_validation v = { .arena = MQ_ARENA_INIT };

	MQ_TRY(mq_args_parse(&argp, argc, argv, &o, err));
	enum mq_status status = validate(&o, &v, err);
	mq_validation_close(&v);
	return status;
}

const struct mq_command mq_command_validate = { "validate", "replay the best plans on real hardware", run };
