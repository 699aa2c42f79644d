/* main.c - maquette-replay: runs schedule files on real devices and writes what was measured.
 *
 * Stands alone: no SimGrid, no GSL, so it can be copied to a node with its executors/ folder. Started by hand it
 * launches its own ranks (mpirun, or --local); started by mpirun, srun or torchrun it is one.
 * SPDX-License-Identifier: Apache-2.0 */
#include <argp.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "maquette/opt.h"
#include "base/quantity.h"
#include "replay/replay.h"
#include "version.h"

enum {
	OPT_WARMUP = 256,
	OPT_REPS,
	OPT_LOCAL,
	OPT_CORES,
	OPT_SEED,
	OPT_DEADLINE,
	OPT_MEMORY,
	OPT_DRY,
	OPT_OVER,
	OPT_SHARE,
	OPT_ORDER,
	OPT_HOLD,
	OPT_LIST,
	OPT_PLUGINS,
	OPT_RENDEZVOUS,
	OPT_CPU,
	OPT_END
};

static const struct argp_option options[] = {
	{ "executor", 'x', "NAME", 0, "host (CPU cores: OpenBLAS, MPI) or cuda (GPUs: cuBLAS, NCCL); default host", 0 },
	{ "output", 'o', "FILE|DIR", 0, "timeline of one schedule, or a folder for several", 0 },
	{ "warmup", OPT_WARMUP, "N", 0, "repetitions that are not written (default 3)", 0 },
	{ "reps", OPT_REPS, "N", 0, "repetitions that are written (default 10)", 0 },
	{ "dry-run", OPT_DRY, NULL, 0, "say what would run, devices and memory needed; run nothing", 0 },
	{ "deadline", OPT_DEADLINE, "S", 0, "longest wait for anything, seconds (default 60)", 0 },
	{ "local", OPT_LOCAL, "N", 0,
	  "start N ranks on this machine, without MPI (default: as many as devices; host: by mpirun)", 0 },
	{ "cores", OPT_CORES, "N", 0, "host: CPU cores per device (default: all, divided evenly)", 0 },
	{ "oversubscribe", OPT_OVER, NULL, 0, "host: allow more devices than cores", 0 },
	{ "share-gpu", OPT_SHARE, NULL, 0,
	  "cuda: several ranks on one GPU; for correctness, the times are marked and never fitted", 0 },
	{ "memory", OPT_MEMORY, "BYTES", 0, "reserve and touch this much on every device", 0 },
	{ "cpu-types", OPT_CPU, "TYPE,...", 0,
	  "device types that are CPUs: they run on executor host, beside the others", 0 },
	{ "hold", OPT_HOLD, NULL, 0,
	  "cuda: a message or collective begins when all of it is enqueued, so that launching it is not in its time "
	  "(what calibrate asks for); plans are replayed without",
	  0 },
	{ "in-order", OPT_ORDER, NULL, 0, "do not shuffle the schedules between repetitions", 0 },
	{ "seed", OPT_SEED, "N", 0, "of data and order (default 1)", 0 },
	{ "rendezvous", OPT_RENDEZVOUS, "file:PATH|tcp:HOST:PORT", 0, "where ranks meet that no mpirun started", 0 },
	{ "list-devices", OPT_LIST, NULL, 0, "say how many devices the executor has here, and stop", 0 },
	{ "plugins", OPT_PLUGINS, "DIR", 0, "folder of the executors (default: beside this program)", 0 },
	{ 0 }
};

/* Where each option goes: whole numbers first, then numbers above 0, flags, texts. */
static const struct {
	size_t offset;
	uint32_t least;
} field[OPT_END - OPT_WARMUP] = {
#define FIELD(option, member, ...) [option - OPT_WARMUP] = { offsetof(struct replay_settings, member), __VA_ARGS__ }
	FIELD(OPT_WARMUP, warmup, 0),
	FIELD(OPT_REPS, reps, 1),
	FIELD(OPT_LOCAL, local_ranks, 1),
	FIELD(OPT_CORES, options.cores, 1),
	FIELD(OPT_SEED, options.seed, 0),
	FIELD(OPT_DEADLINE, options.deadline_s, 0),
	FIELD(OPT_MEMORY, options.memory_B, 0),
	FIELD(OPT_DRY, dry_run, 0),
	FIELD(OPT_OVER, options.oversubscribe, 0),
	FIELD(OPT_SHARE, options.share_gpu, 0),
	FIELD(OPT_ORDER, in_order, 0),
	FIELD(OPT_HOLD, options.hold, 0),
	FIELD(OPT_LIST, list, 0),
	FIELD(OPT_PLUGINS, plugins, 0),
	FIELD(OPT_RENDEZVOUS, options.rendezvous, 0),
	FIELD(OPT_CPU, options.cpu_types, 0),
};

static void set_field(struct argp_state *state, int key, const char *text)
{
	void *at = (char *)state->input + field[key - OPT_WARMUP].offset;
	uint32_t least = field[key - OPT_WARMUP].least, i = 0;
	uint64_t count;

	while (options[i].key != key)
		i++;
	if (key < OPT_DEADLINE) {
		if (!mq_parse_u64(text, &count) || count < least || count > 1000000)
			argp_error(state, "--%s %s: a whole number from %u to 1000000 is needed", options[i].name, text,
				   least);
		*(uint32_t *)at = (uint32_t)count;
	} else if (key < OPT_DRY) {
		if (!mq_parse_f64(text, at) || *(double *)at <= 0)
			argp_error(state, "--%s %s: a number above 0 is needed", options[i].name, text);
	} else if (key < OPT_PLUGINS) {
		*(bool *)at = true;
	} else {
		*(const char **)at = text;
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct replay_settings *set = state->input;

	switch (key) {
	case 'x':
		set->executor = arg;
		return 0;
	case 'o':
		set->out = arg;
		return 0;
	case ARGP_KEY_ARGS:
		set->path = state->argv + state->next;
		set->n_paths = (uint32_t)(state->argc - state->next);
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (!set->list)
			argp_error(state, "a schedule file is needed (maquette validate --schedule-only writes some)");
		return 0;
	default:
		if (key < OPT_WARMUP || key >= OPT_END)
			return ARGP_ERR_UNKNOWN;
		set_field(state, key, arg);
		return 0;
	}
}

static enum mq_status load_schedules(struct replay_job *job, struct mq_err *err)
{
	struct mq_replay_session *s = &job->session;
	struct mq_schedule **list = mq_arena_array(s->arena, job->set->n_paths, struct mq_schedule *);

	for (uint32_t i = 0; i < job->set->n_paths; i++) {
		MQ_TRY(mq_schedule_load(job->set->path[i], s->arena, &list[i], err));
		if (mq_schedule_check(list[i], NULL, err))
			return mq_wrap(err, "%s", job->set->path[i]);
		if (list[i]->n_devices > s->n_devices)
			s->n_devices = list[i]->n_devices;
	}
	s->schedule = list;
	s->n_schedules = job->set->n_paths;
	return MQ_OK;
}

/* A record in place of a schedule would be the end of it. */
static enum mq_status keep_schedules(const struct replay_job *job, struct mq_err *err)
{
	struct stat out, in;

	for (uint32_t i = 0; i < job->set->n_paths; i++) {
		const char *path = replay_record_path(job, i, job->session.arena);

		if (stat(path, &out) || !S_ISREG(out.st_mode))
			continue;
		for (uint32_t k = 0; k < job->set->n_paths; k++)
			if (!stat(job->set->path[k], &in) && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
				return mq_fail(err, MQ_EINPUT,
					       "-o %s would overwrite the schedule %s; choose another file",
					       job->set->out, job->set->path[k]);
	}
	return MQ_OK;
}

/* What would run: tasks by kind, and the largest operands, which size the executors' buffers. */
static void say_dry(const struct replay_job *job, const char *text)
{
	printf("executor %s: %s\n", job->set->executor, text);
	for (uint32_t i = 0; i < job->session.n_schedules; i++) {
		const struct mq_schedule *s = job->session.schedule[i];
		uint32_t n[MQ_N_TASK_KINDS] = { 0 };
		double flop = 0, largest = 0;

		for (uint32_t t = 0; t < s->n_tasks; t++) {
			n[s->task[t].kind]++;
			if (s->task[t].kind == MQ_TASK_COMPUTE)
				flop += s->work[s->task[t].work].flop;
			else
				largest = fmax(largest, s->task[t].bytes);
		}
		printf("%s: %u devices, %u compute, %u send, %u recv, %u collective, %u copy tasks, %.4g TFLOP, "
		       "largest message %.0f B\n",
		       job->set->path[i], s->n_devices, n[MQ_TASK_COMPUTE], n[MQ_TASK_SEND], n[MQ_TASK_RECV],
		       n[MQ_TASK_COLLECTIVE], n[MQ_TASK_COPY], flop * 1e-12, largest);
	}
	printf("%u devices needed, %.0f B reserved on each, %u + %u repetitions\n", job->session.n_devices,
	       job->set->options.memory_B, job->set->warmup, job->set->reps);
}

/* Each executor of the run: are its devices and libraries there? `text`: what they say of them. */
static enum mq_status check_all(const struct replay_job *job, char text[256], struct mq_err *err)
{
	const struct mq_replay_session *all = &job->session;
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < all->n_devices; i++) {
		struct mq_replay_session own = *all;
		char part[256] = "";

		if (i && all->owner[i] == all->owner[i - 1])
			continue;
		own.n_own = 0;
		for (uint32_t j = 0; j < all->n_devices; j++)
			own.n_own += all->owner[j] == all->owner[i];
		MQ_TRY(all->owner[i]->check(&own, NULL, part, err));
		if (used < 255)
			used += (size_t)snprintf(text + used, 256 - used, "%s%s%s%s", used ? "; " : "",
						 i ? all->owner[i]->name : "", i ? ": " : "", part);
	}
	return MQ_OK;
}

static enum mq_status replay(struct replay_job *job, char **argv, struct mq_err *err)
{
	struct replay_settings *set = job->set;
	struct mq_replay_options *o = &set->options;
	char text[256];
	uint32_t n;
	bool is_rank = replay_rank_from_environment(&o->rank, &o->size, &o->local);

	MQ_TRY(load_schedules(job, err));
	MQ_TRY(replay_assign(job, err));
	if (set->list) {
		MQ_TRY(job->executor->check(&job->session, &n, text, err));
		printf("%u\t%s\n", n, text);
		return MQ_OK;
	}
	if (set->dry_run) { /* works without the devices: their absence is part of the answer */
		struct mq_err why = MQ_ERR_INIT;

		if (check_all(job, text, &why) != MQ_OK)
			snprintf(text, sizeof(text), "cannot run here: %.230s", why.text);
		say_dry(job, text);
		return MQ_OK;
	}
	if (!set->out)
		return mq_fail(err, MQ_EINPUT, "-o is missing: where should the timeline go?");
	MQ_TRY(keep_schedules(job, err));
	if (is_rank && o->size < job->session.n_devices)
		return mq_fail(err, MQ_ENODEV, "%u ranks were started, the schedule needs %u devices", o->size,
			       job->session.n_devices);
	if (is_rank) {
		replay_take_rank(job, o->rank);
		return replay_measure(job, err);
	}
	if (set->local_ranks && set->local_ranks < job->session.n_devices)
		return mq_fail(err, MQ_ENODEV, "--local %u: the schedule needs %u devices", set->local_ranks,
			       job->session.n_devices);
	MQ_TRY(check_all(job, text, err));
	return replay_launch(job, argv, err);
}

/* Where the executors are: the folder next to the program. */
static const char *plugin_folder(struct mq_arena *arena)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		return "executors";
	self[n] = '\0';
	char *slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	const char *folder = mq_arena_printf(arena, "%s/executors", self);
	/* Installed: PREFIX/bin and PREFIX/lib/maquette. */
	return access(folder, R_OK) ? mq_arena_printf(arena, "%s/../lib/maquette/executors", self) : folder;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		options,
		parse,
		"SCHEDULE...",
		"Run schedules on real devices and write the measured timelines.\vExit status: 0 done, 2 bad input, "
		"3 missing device or library or too few devices, 4 time-out or dead rank.",
		NULL,
		NULL,
		NULL
	};
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	const char *meet = getenv("MAQUETTE_RENDEZVOUS");
	struct replay_settings set = {
		.executor = "host",
		.warmup = 3,
		.reps = 10,
		.plugins = plugin_folder(&arena),
		.options = { .deadline_s = 60, .seed = 1, .cpu_types = "", .rendezvous = meet ? meet : "" }
	};
	struct replay_job job = { .set = &set, .session = { .options = &set.options, .arena = &arena } };

	argp_err_exit_status = MQ_EINPUT;
	argp_program_version = "maquette-replay " MQ_VERSION_TEXT;
	/* The BLAS of an executor reads this when it is loaded; the executor then sets the true count. */
	signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is an error of the write */
	setenv("OPENBLAS_NUM_THREADS", "1", 0);
	argp_parse(&argp, argc, argv, 0, NULL, &set);
	enum mq_status status = replay(&job, argv, &err);
	if (status != MQ_OK)
		fprintf(stderr, "maquette-replay: %s\n", err.text);
	fflush(stderr);
	if (fflush(stdout) && status == MQ_OK)
		status = MQ_EINPUT;
	if (status == MQ_ETIME)
		_exit((int)status); /* exit handlers of libraries would wait for work that never ends */
	return (int)status;
}
