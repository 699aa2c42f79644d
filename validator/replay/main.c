/* main.c - maquette-replay: runs schedule files on real devices and writes the measurements.
 *
 * Needs neither SimGrid nor GSL, so it can be copied to a node with its executors/ folder. Started by hand it launches
 * its ranks (mpirun, or --local); started by mpirun, srun or torchrun it is a rank.
 * SPDX-License-Identifier: Apache-2.0 */
#include <argp.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/args.h"
#include "base/paths.h"
#include "replay/replay.h"
#include "version.h"

static enum mq_status read_path(const struct mq_arg *row, void *target, const char *text, struct mq_err *err)
{
	struct replay_settings *set = target;

	set->path[set->n_paths++] = text;
	return MQ_OK;
}

#define MOST                        1e6
#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct replay_settings, field, __VA_ARGS__)
static const struct mq_arg rows[] = {
	ROW(TEXT, "executor", executor, "NAME", "host (CPU cores: OpenBLAS, MPI) or cuda (GPUs: cuBLAS, NCCL)",
	    .letter = 'x', .text = "host"),
	ROW(TEXT, "output", out, "FILE|DIR", "timeline of one schedule, or a folder for several", .letter = 'o'),
	ROW(INT, "warmup", warmup, "N", "repetitions that are not written", .initial = 3, .max = MOST),
	ROW(INT, "reps", reps, "N", "repetitions that are written", .initial = 10, .min = 1, .max = MOST),
	ROW(FLAG, "dry-run", dry_run, NULL, "say what would run, devices and memory needed; run nothing"),
	ROW(F64, "deadline", options.deadline_s, "S", "longest wait for anything, seconds", .initial = 60, .min = 1e-9,
	    .max = INFINITY),
	ROW(INT, "local", local_ranks, "N",
	    "start N ranks on this machine, without MPI (default: as many as devices; host: by mpirun)", .min = 1,
	    .max = MOST),
	ROW(INT, "cores", options.cores, "N", "host: CPU cores per device (default: all, divided evenly)", .min = 1,
	    .max = MOST),
	ROW(FLAG, "oversubscribe", options.oversubscribe, NULL, "host: allow more devices than cores"),
	ROW(FLAG, "share-gpu", options.share_gpu, NULL,
	    "cuda: several ranks on one GPU; for correctness, the times are marked and never fitted"),
	ROW(F64, "memory", options.memory_B, "BYTES", "reserve and touch this much on every device", .min = 1e-9,
	    .max = INFINITY),
	ROW(TEXT, "cpu-types", options.cpu_types, "TYPE,...",
	    "device types that are CPUs: they run on executor host, beside the others", .text = "",
	    .flags = MQ_ARG_OWN_DEFAULT),
	ROW(FLAG, "hold", options.hold, NULL,
	    "cuda: a message or collective begins when all of it is enqueued, so that launching it is not in its time (what "
	    "calibrate asks for); plans are replayed without"),
	ROW(F64, "settle", settle_s, "S",
	    "a schedule runs on for S seconds before each repetition of it: clocks follow what it draws itself",
	    .max = INFINITY),
	ROW(F64, "budget", budget_s, "S",
	    "repetitions end before the one that would last past S seconds from the start (default: all are run)",
	    .max = INFINITY),
	ROW(FLAG, "in-order", in_order, NULL, "do not shuffle the schedules between repetitions"),
	ROW(INT, "seed", options.seed, "N", "of data and order", .initial = 1, .max = MOST),
	ROW(TEXT, "rendezvous", options.rendezvous, "file:PATH|tcp:HOST:PORT",
	    "where ranks meet (default: at torchrun's address, or by a file named after the job of mpirun or Slurm)"),
	ROW(FLAG, "list-devices", list, NULL, "say how many devices the executor has here, and stop"),
	ROW(TEXT, "plugins", plugins, "DIR", "folder of the executors (default: beside this program)"),
	ROW(READ, "SCHEDULE", path, NULL, "", .read = read_path, .flags = MQ_ARG_POSITIONAL),
	{ .type = MQ_ARG_END },
};

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

/* Refuses an output file that would overwrite a schedule. */
static enum mq_status keep_schedules(const struct replay_job *job, struct mq_err *err)
{
	struct stat out, in;

	for (uint32_t i = 0; i < job->set->n_paths; i++) {
		const char *path = replay_record_path(job, i, job->session.arena);

		if (stat(path, &out) || !S_ISREG(out.st_mode))
			continue;
		for (uint32_t k = 0; k < job->set->n_paths; k++)
			if (!stat(job->set->path[k], &in) && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
				return mq_bad(err, "-o %s would overwrite the schedule %s; choose another file",
					      job->set->out, job->set->path[k]);
	}
	return MQ_OK;
}

/* Prints what would run: tasks by kind, and the largest operands, which determine the executors' buffers. */
static void print_dry_run(const struct replay_job *job, const char *text)
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

/* Checks devices and libraries of each executor of the run; `text`: their lines. */
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

	if (!set->list && !set->n_paths)
		return mq_bad(err, "a schedule file is needed (maquette validate --schedule-only writes some)");
	MQ_TRY(load_schedules(job, err));
	MQ_TRY(replay_assign(job, err));
	if (set->list) {
		MQ_TRY(job->executor->check(&job->session, &n, text, err));
		printf("%u\t%s\n", n, text);
		return MQ_OK;
	}
	if (set->dry_run) { /* needs no devices: reports whether they are there */
		struct mq_err why = MQ_ERR_INIT;

		if (check_all(job, text, &why) != MQ_OK)
			snprintf(text, sizeof(text), "cannot run here: %.230s", why.text);
		print_dry_run(job, text);
		return MQ_OK;
	}
	if (!set->out)
		return mq_bad(err, "-o is missing: where should the timeline go?");
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

int main(int argc, char **argv)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	const char *meet = getenv("MAQUETTE_RENDEZVOUS");
	struct replay_settings set = { .path = mq_arena_array(&arena, argc, const char *) };
	struct replay_job job = { .set = &set, .session = { .options = &set.options, .arena = &arena } };
	const struct mq_args args = {
		.table = { { rows, &set } },
		.program = "maquette-replay",
		.args_doc = "SCHEDULE...",
		.doc = "Run schedules on real devices and write the measured timelines.\vExit status: 0 done, 2 bad input, "
		       "3 missing device or library or too few devices, 4 time-out or dead rank.",
	};

	argp_program_version = "maquette-replay " MQ_VERSION_TEXT;
	signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes then fails the write */
	/* An executor's BLAS reads this when loaded; the executor then sets the real number. */
	setenv("OPENBLAS_NUM_THREADS", "1", 0);
	mq_args_defaults(rows, &set);
	set.options.rendezvous = meet ? meet : "";
	enum mq_status status = mq_args_parse(&args, argc, argv, &err);
	if (status == MQ_OK && !set.plugins)
		status = mq_find_dir("executors", &arena, &set.plugins, &err);
	if (status == MQ_OK)
		status = replay(&job, argv, &err);
	if (status != MQ_OK)
		fprintf(stderr, "maquette-replay: %s\n", err.text);
	fflush(stderr);
	if (fflush(stdout) && status == MQ_OK)
		status = MQ_EINPUT;
	if (status == MQ_ETIME)
		_exit((int)status); /* exit handlers of libraries would wait for work that never ends */
	return (int)status;
}
