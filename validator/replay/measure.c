/*
 * measure.c - warm-up and repetitions of all schedules of a run.
 *
 * The schedules are interleaved and their order is shuffled anew for each repetition (seeded, the
 * same on every rank), so that drift of clocks and temperature hits all alike instead of the last
 * one. Rank 0 writes; "." lines on its standard output tell a launcher that the run is alive.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/rng.h"
#include "replay/replay.h"

struct measure {
	const struct replay_job *job;
	void *state;
	struct mq_replay_sample sample;
	struct replay_record *record; /* [n_schedules], rank 0 only */
	uint32_t *order;
	struct mq_rng rng;
	struct mq_arena arena;
	struct timespec beat;
};

static void shuffle(struct measure *m)
{
	uint32_t n = m->job->session.n_schedules;

	if (m->job->set->in_order)
		return;
	for (uint32_t i = n; i > 1; i--) {
		uint32_t j = mq_rng_below(&m->rng, i), swap = m->order[i - 1];

		m->order[i - 1] = m->order[j];
		m->order[j] = swap;
	}
}

static void heartbeat(struct measure *m)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec == m->beat.tv_sec || m->job->session.options->rank ||
	    !getenv("MAQUETTE_LAUNCHED")) /* nobody listens */
		return;
	m->beat = now;
	fputs(".\n", stdout);
	fflush(stdout);
}

static enum mq_status repetition(struct measure *m, uint32_t rep, struct mq_err *err)
{
	const struct replay_job *job = m->job;
	uint32_t warmup = job->set->warmup;

	shuffle(m);
	for (uint32_t i = 0; i < job->session.n_schedules; i++) {
		uint32_t s = m->order[i];

		MQ_TRY(job->executor->run(m->state, s, &m->sample, err));
		heartbeat(m);
		if (rep >= warmup && !job->session.options->rank)
			replay_record_sample(&m->record[s], job->session.schedule[s],
			                     job->executor->name, rep - warmup, &m->sample);
	}
	return MQ_OK;
}

static enum mq_status open_records(struct measure *m, struct mq_err *err)
{
	const struct replay_job *job = m->job;
	uint32_t n = job->session.n_schedules;

	if (n > 1 && mkdir(job->set->out, 0777) && errno != EEXIST)
		return mq_fail(err, MQ_EINPUT, "--output %s: cannot make the folder: %s",
		               job->set->out, strerror(errno));
	m->record = mq_arena_array(&m->arena, n, struct replay_record);
	for (uint32_t i = 0; i < n; i++)
		MQ_TRY(replay_record_open(&m->record[i], replay_record_path(job, i, &m->arena),
		                          err));
	return MQ_OK;
}

/* Facts on the machine go beside the timelines, not into them: those stay comparable byte for byte.
 */
static enum mq_status write_environment(struct measure *m, struct mq_err *err)
{
	const struct replay_settings *set = m->job->set;
	const char *first = replay_record_path(m->job, 0, &m->arena);
	const char *path = set->n_paths > 1
	                           ? mq_arena_printf(&m->arena, "%s/environment.txt", set->out)
	                           : mq_arena_printf(&m->arena, "%s.environment.txt", first);
	char text[8192] = "";
	FILE *file = fopen(path, "w");

	if (!file)
		return mq_fail(err, MQ_EINPUT, "%s: cannot write: %s", path, strerror(errno));
	m->job->executor->describe(m->state, text, sizeof(text));
	int bad = fprintf(file,
	                  "executor=%s\nwarmup=%u\nrepetitions=%u\nshared_device=%d\n"
	                  "memory_in_use_B=%.0f\n%s",
	                  set->executor, set->warmup, set->reps, set->options.share_gpu,
	                  m->job->executor->memory(m->state), text) < 0;
	if (fclose(file) || bad)
		return mq_fail(err, MQ_EINPUT, "%s: writing failed", path);
	return MQ_OK;
}

static enum mq_status repetitions(struct measure *m, struct mq_err *err)
{
	const struct replay_settings *set = m->job->set;

	if (!set->options.rank)
		MQ_TRY(open_records(m, err));
	for (uint32_t rep = 0; rep < set->warmup + set->reps; rep++)
		MQ_TRY(repetition(m, rep, err));
	return set->options.rank ? MQ_OK : write_environment(m, err);
}

static enum mq_status close_records(struct measure *m, enum mq_status status, struct mq_err *err)
{
	for (uint32_t i = 0; m->record && i < m->job->session.n_schedules; i++) {
		struct mq_err late = MQ_ERR_INIT;

		if (!m->record[i].file || replay_record_close(&m->record[i], &late) == MQ_OK)
			continue;
		if (status == MQ_OK) {
			*err = late;
			status = late.status;
		}
	}
	return status;
}

static void make_room(struct measure *m)
{
	uint32_t most = 1, n = m->job->session.n_schedules;

	for (uint32_t i = 0; i < n; i++)
		if (m->job->session.schedule[i]->n_tasks > most)
			most = m->job->session.schedule[i]->n_tasks;
	m->sample.start_s = mq_arena_array(&m->arena, most, double);
	m->sample.finish_s = mq_arena_array(&m->arena, most, double);
	m->sample.switches = mq_arena_array(&m->arena, most, double);
	m->sample.lost_s = mq_arena_array(&m->arena, most, double);
	m->order = mq_arena_array(&m->arena, n, uint32_t);
	for (uint32_t i = 0; i < n; i++)
		m->order[i] = i;
}

/* NCCL writes down what it finds of the machine, where nobody asked otherwise: calibrate makes a platform
 * of it. Executors without NCCL do not look at the variable. */
static void ask_for_topology(const struct replay_job *job)
{
	const struct replay_settings *set = job->set;

	if (set->options.rank || set->options.share_gpu || set->n_paths < 2)
		return;
	mkdir(set->out, 0777); /* a failure is told when the timelines are opened */
	setenv("NCCL_TOPO_DUMP_FILE",
	       mq_arena_printf(job->session.arena, "%s/topology.xml", set->out), 0);
}

enum mq_status replay_measure(const struct replay_job *job, struct mq_err *err)
{
	struct measure m = {.job = job, .arena = MQ_ARENA_INIT};

	mq_rng_seed(&m.rng, job->session.options->seed);
	make_room(&m);
	m.state = mq_arena_alloc(&m.arena, job->executor->state_size);
	ask_for_topology(job);
	enum mq_status status = job->executor->open(m.state, &job->session, err);
	if (status == MQ_OK)
		status = repetitions(&m, err);
	job->executor->close(m.state, status != MQ_OK);
	status = close_records(&m, status, err);
	mq_arena_fini(&m.arena);
	return status;
}
