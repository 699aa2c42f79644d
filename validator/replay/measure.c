/* measure.c - warm-up and repetitions of all schedules of a run.
 *
 * The schedules are interleaved and their order is shuffled anew for each repetition (seeded, the same on every rank),
 * so that drift of clocks and temperature affects all equally. Rank 0 writes the files; its "." lines on standard
 * output tell a launcher that the run is alive. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/csv.h"
#include "base/text.h"
#include "maquette/rng.h"
#include "replay/replay.h"

enum { TASK_VALUES = 4, RANK_VALUES = 2, TRIES = 10, OPENING_MS = 50, OPENING_DEADLINES = 10 };
#define ALIGN_S 10. /* clocks drift by some 10 us per second: 100 us in this time, less than a rank may be late */
/* Lead between announcing the common start and the start: doubled while a rank is late, up to MARGIN_MOST_S. */
#define MARGIN_S      100e-6
#define MARGIN_MOST_S 4e-3
#define SPIN_S        150e-6
#define LATE_SHARE    .005  /* of the step */
#define LATE_S        10e-6 /* an undisturbed waiting thread is late by less than 1 us */

/* ---- the measured timeline -------------------------------------------------------------------
 *
 * The columns of a simulated one, plus the sample, the involuntary context switches during the task and the time they
 * took, and marks of samples unfit for fitting. Write errors are reported when the file is closed. */

struct record {
	struct mq_csv_writer csv;
	const uint32_t *found; /* [devices] mq_replay_executor.found of each */
	uint32_t n;            /* samples so far */
};

enum { KIND_B = 128 };

/* "compute", or "compute~conv+optimizer" if kernels are replaced by others. */
static void kind_of(const struct mq_schedule *schedule, const struct mq_task *task,
		    const struct mq_replay_executor *executor, uint32_t found, char text[KIND_B])
{
	const char *said[8];
	int at = snprintf(text, KIND_B, "%s", mq_task_kind_name(task->kind));
	uint32_t n = 0, n_kernels = task->kind == MQ_TASK_COMPUTE ? schedule->work[task->work].n_kernels : 0;

	for (uint32_t k = 0; k < n_kernels && executor->imitates; k++) {
		const char *name = executor->imitates(&schedule->work[task->work].kernel[k], found);
		uint32_t known = 0;

		while (name && known < n && said[known] != name)
			known++;
		if (!name || known < n || n == sizeof(said) / sizeof(said[0]))
			continue;
		at += snprintf(text + at, (size_t)(KIND_B - at), "%c%s", n ? '+' : '~', name);
		said[n++] = name;
	}
}

static void record_sample(struct record *record, const struct mq_schedule *schedule,
			  const struct mq_replay_executor *const *owner, uint32_t sample,
			  const struct mq_replay_sample *values)
{
	char kind[KIND_B];

	for (uint32_t i = 0; i < schedule->n_tasks; i++) {
		const struct mq_task *t = &schedule->task[i];
		double flop = t->kind == MQ_TASK_COMPUTE ? schedule->work[t->work].flop : 0;
		double bytes = t->kind == MQ_TASK_COMPUTE ? schedule->work[t->work].bytes : t->bytes;

		kind_of(schedule, t, owner[t->device], record->found[t->device], kind);
		mq_csv_row(&record->csv, "%u,%s,%s,%s,%s,%g,%g,%g,%g,%s,%u,%u,%g,%u,%g", i,
			   schedule->device_name[t->device], mq_stream_name(t->stream), kind,
			   t->op < schedule->n_ops       ? schedule->op_name[t->op] :
			   t->kind == MQ_TASK_COLLECTIVE ? mq_coll_name(t->coll) :
							   "",
			   values->start_s[i], values->finish_s[i], bytes, flop, owner[t->device]->name, sample,
			   (uint32_t)values->switches[i], values->steal_s, values->throttled, values->lost_s[i]);
	}
}

const char *replay_record_path(const struct replay_job *job, uint32_t index, struct mq_arena *arena)
{
	const struct replay_settings *set = job->set;
	struct stat st;

	if (set->n_paths == 1 && (stat(set->out, &st) || !S_ISDIR(st.st_mode)))
		return set->out;
	return mq_arena_printf(arena, "%s/%s.timeline.csv", set->out, mq_file_stem(job->set->path[index], arena));
}

/* ---- running --------------------------------------------------------------------------------- */

/* While an executor opens: see write_beats. */
struct opening {
	pthread_t thread;
	bool running;
	atomic_bool done;
	uint32_t most_ms;
};

struct measure {
	struct replay_job *job;
	void *state;
	struct replay_rendezvous rendezvous;
	struct mq_ranks ranks;
	struct mq_replay_sample sample;
	struct record *record;     /* [n_schedules], rank 0 only */
	uint32_t *order, *bytes;   /* bytes: [ranks] bytes that each sends to rank 0 */
	double *mine, *all;        /* gathering: TASK_VALUES per task and RANK_VALUES of a rank */
	uint32_t most;             /* tasks of a schedule */
	double margin_s, latest_s; /* latest_s: largest delay at the last start, on rank 0 */
	struct mq_rng rng;
	struct mq_arena arena;
	struct timespec beat;
	double aligned_s;          /* time of the last alignment of clocks */
	double begin_s, longest_s; /* begin of the whole; longest run of a schedule so far */
	struct opening opening;
};

static void heartbeat(struct measure *m)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now); /* coarse, since it is read after every step */
	if (now.tv_sec == m->beat.tv_sec || m->job->session.options->rank ||
	    !getenv("MAQUETTE_LAUNCHED")) /* no launcher reads it */
		return;
	m->beat = now;
	fputs(".\n", stdout);
	fflush(stdout);
}

/* Rank 0 unpacks the tasks of all ranks; if one was late, it doubles the lead of the next start. */
static void unpack(struct measure *m, const struct mq_schedule *s)
{
	struct mq_replay_sample *sample = &m->sample;
	uint32_t n = m->job->session.n_devices;
	const double **from = mq_arena_array(&m->arena, n, const double *);
	const double *at = m->all;
	double late_s = 0;

	for (uint32_t r = 0; r < n; r++) {
		from[r] = at;
		at += m->bytes[r] / sizeof(double);
	}
	sample->step_time_s = 0;
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const double *v = from[s->task[i].device];

		sample->start_s[i] = v[0];
		sample->finish_s[i] = v[1];
		sample->switches[i] = v[2];
		sample->lost_s[i] = v[3];
		sample->step_time_s = fmax(sample->step_time_s, v[1]);
		from[s->task[i].device] += TASK_VALUES;
	}
	for (uint32_t r = 0; r < n; r++) {
		sample->throttled |= from[r][0] > 0;
		late_s = fmax(late_s, from[r][1]);
	}
	m->latest_s = late_s;
	m->margin_s = late_s > LATE_S ? fmin(2 * m->margin_s, MARGIN_MOST_S) : fmax(.98 * m->margin_s, MARGIN_S);
}

static enum mq_status gather(struct measure *m, const struct mq_schedule *s, double late_s, struct mq_err *err)
{
	struct mq_arena_mark mark = mq_arena_mark(&m->arena);
	const struct mq_replay_sample *sample = &m->sample;
	uint32_t n = 0;

	for (uint32_t r = 0; r < m->ranks.size; r++)
		m->bytes[r] = RANK_VALUES * sizeof(double);
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		m->bytes[s->task[i].device] += TASK_VALUES * sizeof(double);
		if (s->task[i].device != m->ranks.rank)
			continue;
		m->mine[n++] = sample->start_s[i];
		m->mine[n++] = sample->finish_s[i];
		m->mine[n++] = sample->switches[i];
		m->mine[n++] = sample->lost_s[i];
	}
	m->mine[n++] = sample->throttled;
	m->mine[n] = late_s;
	MQ_TRY(m->ranks.gather(m->ranks.state, m->mine, m->all, m->bytes, err));
	if (!m->ranks.rank)
		unpack(m, s);
	mq_arena_rewind(&m->arena, mark);
	return MQ_OK;
}

static double steal_now(void)
{
	unsigned long long ticks = 0;
	FILE *file = fopen("/proc/stat", "r");

	if (file && fscanf(file, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks) != 1)
		ticks = 0;
	if (file)
		fclose(file);
	return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

/* Runs one schedule once on all ranks from a common start. The delay of a rank whose core was taken by others counts as
 * time lost of its first task. */
static enum mq_status run_once(struct measure *m, uint32_t index, struct mq_err *err)
{
	const struct mq_schedule *s = m->job->session.schedule[index];
	const struct mq_ranks *r = &m->ranks;
	double steal = r->rank ? 0 : steal_now(), start_s, late_s;
	uint32_t first = 0;

	MQ_TRY(r->barrier(r->state, err));
	start_s = r->now(r->state) + m->margin_s;
	MQ_TRY(r->broadcast(r->state, &start_s, sizeof(start_s), err));
	late_s = r->now(r->state) - start_s;
	/* Sleep through a long lead: a thread that spins loses its core when it needs it. */
	if (late_s < -2 * SPIN_S)
		usleep((useconds_t)(1e6 * (-late_s - SPIN_S)));
	m->sample.throttled = false;
	m->sample.late_s = 0;
	MQ_TRY(m->job->executor->run(m->state, index, start_s, &m->sample, err));
	while (first < s->n_tasks && s->task[first].device != r->rank)
		first++;
	late_s = fmax(late_s, m->sample.late_s);
	if (first < s->n_tasks && late_s > LATE_S) {
		m->sample.switches[first]++;
		m->sample.lost_s[first] += late_s;
	}
	MQ_TRY(gather(m, s, late_s, err));
	m->sample.steal_s = r->rank ? 0 : steal_now() - steal;
	return MQ_OK;
}

/* Runs a schedule repeatedly: to settle, until its steps have lasted settle_s; else until no rank is late by more than
 * a fit would notice. The last try counts, marked. */
static enum mq_status run_on(struct measure *m, uint32_t index, bool settle, struct mq_err *err)
{
	const struct mq_ranks *r = &m->ranks;
	double spent_s = 0, settle_s = m->job->set->settle_s;
	bool again = !settle || settle_s > 0;

	for (int tries = 1; again; tries++) {
		MQ_TRY(run_once(m, index, err));
		heartbeat(m);
		spent_s += m->sample.step_time_s;
		again = settle ? spent_s < settle_s && m->sample.step_time_s > 0 :
				 tries < TRIES && m->latest_s > LATE_S &&
					 m->latest_s > LATE_SHARE * m->sample.step_time_s;
		MQ_TRY(r->broadcast(r->state, &again, sizeof(again), err));
	}
	return MQ_OK;
}

/* Aligns the clocks between repetitions, when rank 0 decides so. */
static enum mq_status align_clocks(struct measure *m, struct mq_err *err)
{
	const struct mq_ranks *r = &m->ranks;
	double now_s = r->now(r->state);
	bool due = now_s > m->aligned_s + ALIGN_S;

	if (r->size == 1)
		return MQ_OK;
	MQ_TRY(r->broadcast(r->state, &due, sizeof(due), err));
	if (!due)
		return MQ_OK;
	m->aligned_s = now_s;
	return replay_rendezvous_align(&m->rendezvous, err);
}

static enum mq_status repetition(struct measure *m, uint32_t rep, bool *spent, struct mq_err *err)
{
	const struct replay_job *job = m->job;
	const struct mq_ranks *r = &m->ranks;
	uint32_t n = job->session.n_schedules;
	double budget_s = job->set->budget_s;

	MQ_TRY(align_clocks(m, err));
	if (!job->set->in_order)
		MQ_SHUFFLE(&m->rng, m->order, n)
	for (uint32_t i = 0; i < n; i++) {
		double from_s = mq_seconds(CLOCK_MONOTONIC);
		uint32_t s = m->order[i];
		struct record *record = r->rank ? NULL : &m->record[s];

		*spent = budget_s > 0 && from_s - m->begin_s + m->longest_s > budget_s; /* decided by rank 0 */
		if (budget_s > 0)
			MQ_TRY(r->broadcast(r->state, spent, sizeof(*spent), err));
		if (*spent)
			break;
		MQ_TRY(run_on(m, s, true, err));
		MQ_TRY(run_on(m, s, false, err));
		double took_s = mq_seconds(CLOCK_MONOTONIC) - from_s;
		m->longest_s = fmax(m->longest_s, took_s);
		/* No warm-up if a run takes more than a third of its schedule's share of the budget. */
		bool counts = rep >= job->set->warmup || (budget_s > 0 && 3 * n * took_s > budget_s);
		if (counts && record && record->n < job->set->reps)
			record_sample(record, job->session.schedule[s], job->session.owner, record->n++, &m->sample);
	}
	return MQ_OK;
}

static enum mq_status open_records(struct measure *m, struct mq_err *err)
{
	const struct replay_job *job = m->job;
	uint32_t n = job->session.n_schedules;

	if (n > 1 && mkdir(job->set->out, 0777) && errno != EEXIST)
		return mq_bad(err, "--output %s: cannot make the folder: %s", job->set->out, strerror(errno));
	m->record = mq_arena_array(&m->arena, n, struct record);
	uint32_t *found = mq_arena_array(&m->arena, job->session.n_devices, uint32_t);
	for (uint32_t d = 0; d < job->session.n_devices; d++) {
		const struct mq_replay_executor *executor = job->session.owner[d];

		if (d && executor == job->session.owner[d - 1])
			found[d] = found[d - 1];
		else if (executor->found)
			found[d] = executor->found();
	}
	for (uint32_t i = 0; i < n; i++) {
		m->record[i].found = found;
		MQ_TRY(mq_csv_create(
			&m->record[i].csv, replay_record_path(job, i, &m->arena),
			"task,device,stream,kind,op,start_s,finish_s,bytes,flop,executor,sample,switches,steal_s,throttled,lost_s",
			err));
	}
	return MQ_OK;
}

enum { TEXT_B = 8192 };

/* Is this the first rank of its executor, which describes it? */
static bool describes(const struct replay_job *job, uint32_t rank)
{
	for (uint32_t i = 0; i < rank && rank < job->session.n_devices; i++)
		if (job->session.owner[i] == job->session.owner[rank])
			return false;
	return rank < job->session.n_devices;
}

/* Rank 0 gets the descriptions of all executors, in rank order. */
static enum mq_status gather_text(struct measure *m, char **text, struct mq_err *err)
{
	const struct replay_job *job = m->job;
	char *mine = mq_arena_alloc(&m->arena, TEXT_B), *all;
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->ranks.size; i++) {
		m->bytes[i] = describes(job, i) ? TEXT_B : 0;
		n += m->bytes[i] > 0;
	}
	*text = all = mq_arena_alloc(&m->arena, (n + 1) * (size_t)TEXT_B);
	if (m->bytes[m->ranks.rank])
		job->executor->describe(m->state, mine, TEXT_B);
	char *raw = mq_arena_alloc(&m->arena, (n + 1) * (size_t)TEXT_B);
	MQ_TRY(m->ranks.gather(m->ranks.state, mine, raw, m->bytes, err));
	for (uint32_t i = 0; i < n && !m->ranks.rank; i++)
		all += snprintf(all, TEXT_B, "%s", raw + i * (size_t)TEXT_B);
	return MQ_OK;
}

/* Path of a file beside the timelines: DIR/NAME for several schedules, FILE.NAME for one. */
static const char *sibling(struct measure *m, const char *name)
{
	const struct replay_settings *set = m->job->set;

	return set->n_paths > 1 ? mq_arena_printf(&m->arena, "%s/%s", set->out, name) :
				  mq_arena_printf(&m->arena, "%s.%s", replay_record_path(m->job, 0, &m->arena), name);
}

/* Measures the memory of schedule `index`; rank 0 writes a row per device and purpose. */
static enum mq_status hold_one(struct measure *m, uint32_t index, FILE *file, struct mq_err *err)
{
	const struct mq_replay_session *s = &m->job->session;
	const struct mq_schedule *schedule = s->schedule[index];
	const char *name = mq_file_stem(m->job->set->path[index], &m->arena);
	double mine[REPLAY_HELD_VALUES];
	double *all = mq_arena_array(&m->arena, (size_t)m->ranks.size * REPLAY_HELD_VALUES, double);

	replay_hold(m->job->executor, m->state, schedule, m->ranks.rank, &m->arena, mine);
	for (uint32_t i = 0; i < m->ranks.size; i++)
		m->bytes[i] = sizeof(mine);
	MQ_TRY(m->ranks.gather(m->ranks.state, mine, all, m->bytes, err));
	for (uint32_t d = 0; d < schedule->n_devices && file; d++)
		for (int v = 0; v < REPLAY_HELD_VALUES && *schedule->device_name[d]; v++)
			fprintf(file, "%s,%s,%s,%s,%.0f\n", name, schedule->device_name[d], s->owner[d]->name,
				replay_held_name[v], all[d * REPLAY_HELD_VALUES + (uint32_t)v]);
	return MQ_OK;
}

static enum mq_status write_memory(struct measure *m, struct mq_err *err)
{
	const struct mq_replay_session *s = &m->job->session;
	const char *path = sibling(m, "memory.csv");
	enum mq_status status = MQ_OK;
	FILE *file = NULL;
	bool any = false;

	for (uint32_t i = 0; i < s->n_schedules; i++)
		any |= s->schedule[i]->n_held > 0;
	if (!any)
		return MQ_OK;
	if (!m->ranks.rank) {
		MQ_TRY(mq_file_open(path, &file, err));
		fputs("schedule,device,executor,purpose,bytes\n", file);
	}
	for (uint32_t i = 0; i < s->n_schedules && status == MQ_OK; i++) {
		struct mq_arena_mark mark = mq_arena_mark(&m->arena);

		if (s->schedule[i]->n_held)
			status = hold_one(m, i, file, err);
		heartbeat(m);
		mq_arena_rewind(&m->arena, mark);
	}
	struct mq_err late;
	enum mq_status closed = file ? mq_file_close(file, path, status == MQ_OK ? err : &late) : MQ_OK;
	return status == MQ_OK ? closed : status;
}

/* Facts about the machine are written beside the timelines, so that timelines can be compared byte by byte. */
static enum mq_status write_environment(struct measure *m, struct mq_err *err)
{
	const struct replay_settings *set = m->job->set;
	const char *path = sibling(m, "environment.txt");
	char *text;
	FILE *file;

	MQ_TRY(gather_text(m, &text, err));
	if (set->options.rank)
		return MQ_OK;
	MQ_TRY(mq_file_open(path, &file, err));
	fprintf(file,
		"executor=%s\nwarmup=%u\nrepetitions=%u\nshared_device=%d\n"
		"memory_in_use_B=%.0f\n%s",
		set->executor, set->warmup, set->reps, set->options.share_gpu, m->job->executor->memory(m->state),
		text);
	return mq_file_close(file, path, err);
}

static enum mq_status repetitions(struct measure *m, struct mq_err *err)
{
	const struct replay_settings *set = m->job->set;
	bool spent = false;

	if (!set->options.rank)
		MQ_TRY(open_records(m, err));
	/* Links between this machine's devices, from which calibrate makes a platform. */
	if (!set->options.rank && !set->options.share_gpu && set->n_paths > 1 && m->job->executor->topology)
		MQ_TRY(m->job->executor->topology(m->state, mq_arena_printf(&m->arena, "%s/topology.xml", set->out),
						  err));
	for (uint32_t rep = 0; rep < set->warmup + set->reps && !spent; rep++)
		MQ_TRY(repetition(m, rep, &spent, err));
	MQ_TRY(write_environment(m, err));
	return write_memory(m, err);
}

static enum mq_status close_records(struct measure *m, enum mq_status status, struct mq_err *err)
{
	for (uint32_t i = 0; m->record && i < m->job->session.n_schedules; i++) {
		struct mq_err late = MQ_ERR_INIT;

		if (!m->record[i].csv.file || mq_csv_close(&m->record[i].csv, &late) == MQ_OK || status != MQ_OK)
			continue;
		*err = late;
		status = late.status;
	}
	return status;
}

static void make_room(struct measure *m)
{
	uint32_t n = m->job->session.n_schedules, most = 1;

	for (uint32_t i = 0; i < n; i++)
		if (m->job->session.schedule[i]->n_tasks > most)
			most = m->job->session.schedule[i]->n_tasks;
	m->most = most;
	m->sample.start_s = mq_arena_array(&m->arena, most, double);
	m->sample.finish_s = mq_arena_array(&m->arena, most, double);
	m->sample.switches = mq_arena_array(&m->arena, most, double);
	m->sample.lost_s = mq_arena_array(&m->arena, most, double);
	m->mine = mq_arena_array(&m->arena, TASK_VALUES * (size_t)most + RANK_VALUES, double);
	m->order = mq_arena_count(&m->arena, n);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* A thread of rank 0 that writes "." lines, for a limited time, while pools are filled and communicators made, which
 * may take longer than any other wait. */
static void *write_beats(void *opaque)
{
	struct opening *o = opaque;

	for (uint32_t ms = 0; !atomic_load(&o->done) && ms < o->most_ms; ms += OPENING_MS) {
		if (ms % 1000 == 0)
			fputs(".\n", stdout), fflush(stdout);
		usleep(1000 * OPENING_MS);
	}
	return NULL;
}

/* Connects the ranks before their executors open. */
static enum mq_status join(struct measure *m, struct mq_err *err)
{
	struct replay_job *job = m->job;
	struct mq_replay_session *s = &job->session;
	bool wire = false;

	MQ_TRY(replay_rendezvous_open(&m->rendezvous, s->options, s->arena, err));
	m->ranks = replay_rendezvous_ranks(&m->rendezvous);
	s->ranks = &m->ranks;
	s->joined = !job->spawn;
	for (uint32_t i = 0; i < s->n_devices; i++)
		wire |= s->owner[i]->launcher == MQ_LAUNCH_MPIRUN && !s->joined;
	return wire && m->ranks.size > 1 ? replay_wire_open(&m->ranks, s->arena, &s->wire, err) : MQ_OK;
}

static enum mq_status open_executor(struct measure *m, struct mq_err *err)
{
	const struct replay_job *job = m->job;

	MQ_TRY(job->executor->open(m->state, &job->session, err));
	m->bytes = mq_arena_array(&m->arena, m->ranks.size, uint32_t);
	m->all = mq_arena_array(&m->arena,
				m->ranks.rank ? 1 : TASK_VALUES * (size_t)m->most + RANK_VALUES * (size_t)m->ranks.size,
				double);
	m->aligned_s = m->ranks.now(m->ranks.state);
	return m->ranks.barrier(m->ranks.state, err);
}

enum mq_status replay_measure(struct replay_job *job, struct mq_err *err)
{
	const struct replay_settings *set = job->set;
	struct measure m = {
		.job = job, .arena = MQ_ARENA_INIT, .margin_s = MARGIN_S, .begin_s = mq_seconds(CLOCK_MONOTONIC)
	};

	mq_rng_seed(&m.rng, job->session.options->seed);
	make_room(&m);
	m.state = mq_arena_alloc(&m.arena, job->executor->state_size);
	/* If an executor lacks the links between GPUs, NCCL's topology dump may have them: calibrate looks for both.
	 * Only NCCL reads the variable. Failure to make the folder is reported when the timelines are opened. */
	if (!set->options.rank && !set->options.share_gpu && set->n_paths > 1) {
		mkdir(set->out, 0777);
		setenv("NCCL_TOPO_DUMP_FILE", mq_arena_printf(job->session.arena, "%s/nccl-topology.xml", set->out), 0);
	}
	enum mq_status status = join(&m, err);
	bool met = status == MQ_OK;
	if (met) {
		struct opening *o = &m.opening;
		const struct mq_replay_options *options = job->session.options;

		o->most_ms = (uint32_t)fmin(1e9, OPENING_DEADLINES * 1e3 * options->deadline_s);
		o->running = !options->rank && getenv("MAQUETTE_LAUNCHED") &&
			     !pthread_create(&o->thread, NULL, write_beats, o);
		status = open_executor(&m, err);
		atomic_store(&o->done, true);
		if (o->running)
			pthread_join(o->thread, NULL);
	}
	if (status == MQ_OK)
		status = repetitions(&m, err);
	if (met)
		job->executor->close(m.state, status != MQ_OK);
	replay_wire_close(job->session.wire);
	replay_rendezvous_close(&m.rendezvous);
	status = close_records(&m, status, err);
	mq_arena_fini(&m.arena);
	return status;
}
