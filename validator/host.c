/*
 * host.c - executor "host": devices are groups of CPU cores, one MPI rank each; OpenBLAS computes,
 * Open MPI communicates. On several machines it is the same command under mpirun.
 *
 * Each rank is pinned to its cores, which its BLAS threads share. Clocks of ranks on other machines
 * are aligned to rank 0's by the round trip with the least delay (Cristian, 1989); ranks on one
 * machine share a clock. See host/run.c for the order in which one core runs the streams of a
 * device.
 *
 * link: ompi-c openblas
 */
#include <cblas.h>
#include <errno.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/script.h"

enum { POOL_MIN_B = 192 << 20, CLOCK_ROUNDS = 200, TASK_VALUES = 4 };

struct host {
	struct host_rank rank;
	struct host_script *script; /* [n_schedules] */
	uint32_t n_scripts, cores;
	void *reserved;
	size_t reserved_B;
	double *packed, *all; /* gathering: TASK_VALUES numbers per task of a rank */
	int *counts, *places;
	bool started;
};

static uint32_t usable_cores(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 1 : (uint32_t)CPU_COUNT(&set);
}

static enum mq_status check(const struct mq_replay_session *session, uint32_t *devices,
                            char text[256], struct mq_err *err)
{
	const struct mq_replay_options *o = session->options;
	uint32_t cores = usable_cores(), per = o->cores ? o->cores : 1, here = cores / per;

	if (devices)
		*devices = here;
	snprintf(text, 256, "%u CPU cores on this machine, %u per device", cores,
	         o->cores ? o->cores
	                  : (session->n_devices && here >= session->n_devices
	                             ? cores / session->n_devices
	                             : 1));
	if (!o->oversubscribe && session->n_devices > here)
		return mq_fail(
		        err, MQ_ENODEV,
		        "%u devices of %u cores are needed, this machine has %u "
		        "cores: use fewer devices, other machines (mpirun), or --oversubscribe",
		        session->n_devices, per, cores);
	return MQ_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Did whoever started the ranks give each one cores of its own? Then those are kept. */
static bool bound_apart(MPI_Comm node, int locals, struct mq_arena *arena)
{
	cpu_set_t mine, both, *all = mq_arena_array(arena, locals, cpu_set_t);

	sched_getaffinity(0, sizeof(mine), &mine);
	MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, all, sizeof(mine), MPI_BYTE, node);
	for (int i = 0; i < locals; i++)
		for (int j = i + 1; j < locals; j++) {
			CPU_AND(&both, &all[i], &all[j]);
			if (CPU_COUNT(&both))
				return false;
		}
	return locals > 1;
}

static enum mq_status pin(struct host *h, const struct mq_replay_options *o, struct mq_err *err)
{
	cpu_set_t all, mine;
	MPI_Comm node;
	int local, locals, seen = 0;
	uint32_t have = usable_cores();

	MPI_Comm_split_type(h->rank.world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Comm_rank(node, &local);
	MPI_Comm_size(node, &locals);
	if (bound_apart(node, locals, h->rank.arena)) {
		MPI_Comm_free(&node);
		h->cores = have;
		openblas_set_num_threads((int)have);
		return MQ_OK;
	}
	MPI_Comm_free(&node);
	h->cores = o->cores ? o->cores : have / (uint32_t)locals;
	if (!h->cores)
		h->cores = 1;
	h->rank.yield = (uint32_t)locals * h->cores > have;
	if (h->rank.yield && !o->oversubscribe)
		return mq_fail(err, MQ_ENODEV,
		               "%d ranks of %u cores on a machine with %u cores: use "
		               "fewer, or --oversubscribe",
		               locals, h->cores, have);
	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&mine);
	for (int c = 0; c < CPU_SETSIZE; c++) {
		if (!CPU_ISSET(c, &all))
			continue;
		uint32_t index = (uint32_t)seen++;
		if (index / h->cores == (uint32_t)local % (have / h->cores ? have / h->cores : 1))
			CPU_SET(c, &mine);
	}
	if (sched_setaffinity(0, sizeof(mine), &mine))
		return mq_fail(err, MQ_ENODEV, "cannot pin rank %u: %s", h->rank.rank,
		               strerror(errno));
	openblas_set_num_threads((int)h->cores);
	return MQ_OK;
}

/* Offset of this rank's clock: half way through the fastest of many round trips with rank 0. */
static void align_clock(struct host_rank *r)
{
	double best = INFINITY, theirs, sent, back;
	char here[256] = "", there[256];

	gethostname(here, sizeof(here) - 1);
	memcpy(there, here, sizeof(there));
	MPI_Bcast(there, sizeof(there), MPI_CHAR, 0, r->world);
	int apart = strcmp(here, there) != 0, any;
	for (uint32_t peer = 1; peer < r->size; peer++) {
		any = apart;
		MPI_Bcast(&any, 1, MPI_INT, (int)peer, r->world);
		for (int i = 0; any && i < CLOCK_ROUNDS; i++) {
			if (!r->rank) {
				MPI_Recv(&sent, 1, MPI_DOUBLE, (int)peer, 1, r->world,
				         MPI_STATUS_IGNORE);
				theirs = host_now(r);
				MPI_Send(&theirs, 1, MPI_DOUBLE, (int)peer, 2, r->world);
			} else if (r->rank == peer) {
				sent = host_now(r) - r->clock.offset_s;
				MPI_Send(&sent, 1, MPI_DOUBLE, 0, 1, r->world);
				MPI_Recv(&theirs, 1, MPI_DOUBLE, 0, 2, r->world, MPI_STATUS_IGNORE);
				back = host_now(r) - r->clock.offset_s;
				if (back - sent < best) {
					best = back - sent;
					r->clock.offset_s = theirs - (sent + back) / 2;
				}
			}
		}
	}
}

static enum mq_status reserve(struct host *h, double bytes, struct mq_err *err)
{
	if (bytes <= 0)
		return MQ_OK;
	h->reserved_B = (size_t)bytes;
	h->reserved = mmap(NULL, h->reserved_B, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	                   -1, 0);
	if (h->reserved == MAP_FAILED) {
		h->reserved = NULL;
		return mq_fail(err, MQ_ENODEV,
		               "rank %u: out of memory: %.0f B cannot be reserved (%s)",
		               h->rank.rank, bytes, strerror(errno));
	}
	memset(h->reserved, 1, h->reserved_B);
	return MQ_OK;
}

static enum mq_status make_room(struct host *h, const struct mq_replay_session *session,
                                struct mq_err *err)
{
	uint32_t most = 1;

	for (uint32_t i = 0; i < session->n_schedules; i++)
		if (session->schedule[i]->n_tasks > most)
			most = session->schedule[i]->n_tasks;
	h->packed = mq_arena_array(session->arena, TASK_VALUES * (size_t)most, double);
	h->all = mq_arena_array(session->arena, h->rank.rank ? 1 : TASK_VALUES * (size_t)most, double);
	h->counts = mq_arena_array(session->arena, h->rank.size, int);
	h->places = mq_arena_array(session->arena, h->rank.size, int);
	h->script = mq_arena_array(session->arena, session->n_schedules, struct host_script);
	MQ_TRY(reserve(h, session->options->memory_B, err));
	return host_pool_init(&h->rank.pool,
	                      mq_replay_room(session, host_kernel_need, true, POOL_MIN_B),
	                      session->options->seed + h->rank.rank, err);
}

static enum mq_status open_host(void *state, const struct mq_replay_session *session,
                                struct mq_err *err)
{
	struct host *h = state;
	struct host_rank *r = &h->rank;
	int given, rank, size;

	MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);
	h->started = true;
	MPI_Comm_dup(MPI_COMM_WORLD, &r->world);
	MPI_Comm_rank(r->world, &rank);
	MPI_Comm_size(r->world, &size);
	r->rank = (uint32_t)rank;
	r->size = (uint32_t)size;
	r->deadline_s = session->options->deadline_s;
	r->arena = session->arena;
	if (r->rank != session->options->rank)
		return mq_fail(err, MQ_EINPUT,
		               "rank %d of MPI was told to be rank %u: is maquette-replay "
		               "started by the mpirun of the MPI it was built with?",
		               rank, session->options->rank);
	MQ_TRY(pin(h, session->options, err));
	align_clock(r);
	MQ_TRY(make_room(h, session, err));
	h->n_scripts = session->n_schedules;
	for (uint32_t i = 0; i < h->n_scripts; i++)
		MQ_TRY(host_script_build(r, session->schedule[i], &h->script[i], err));
	return MQ_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static double steal_now(void)
{
	unsigned long long v[8] = {0};
	FILE *file = fopen("/proc/stat", "r");
	int n = file ? fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1],
	                      &v[2], &v[3], &v[4], &v[5], &v[6], &v[7])
	             : 0;

	if (file)
		fclose(file);
	return n == 8 ? (double)v[7] / (double)sysconf(_SC_CLK_TCK) : 0;
}

/* Rank 0 collects the tasks of all ranks. */
static void gather(struct host *h, const struct host_script *script,
                   struct mq_replay_sample *sample)
{
	const struct mq_schedule *s = script->schedule;
	int n = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		if (s->task[i].device != script->device)
			continue;
		h->packed[n++] = sample->start_s[i];
		h->packed[n++] = sample->finish_s[i];
		h->packed[n++] = sample->switches[i];
		h->packed[n++] = sample->lost_s[i];
	}
	memset(h->counts, 0, h->rank.size * sizeof(int));
	for (uint32_t i = 0; i < s->n_tasks; i++)
		h->counts[s->task[i].device] += TASK_VALUES;
	for (uint32_t r = 1; r < h->rank.size; r++)
		h->places[r] = h->places[r - 1] + h->counts[r - 1];
	MPI_Gatherv(h->packed, n, MPI_DOUBLE, h->all, h->counts, h->places, MPI_DOUBLE, 0,
	            h->rank.world);
	if (h->rank.rank)
		return;
	sample->step_time_s = 0;
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const double *from = h->all + h->places[s->task[i].device];

		h->places[s->task[i].device] += TASK_VALUES;
		sample->start_s[i] = from[0];
		sample->finish_s[i] = from[1];
		sample->switches[i] = from[2];
		sample->lost_s[i] = from[3];
		sample->step_time_s = fmax(sample->step_time_s, from[1]);
	}
	h->places[0] = 0;
}

static enum mq_status run(void *state, uint32_t index, struct mq_replay_sample *sample,
                          struct mq_err *err)
{
	struct host *h = state;
	double steal = h->rank.rank ? 0 : steal_now(), start_s;

	MPI_Barrier(h->rank.world);
	start_s = host_now(&h->rank) + 30e-6;
	MPI_Bcast(&start_s, 1, MPI_DOUBLE, 0, h->rank.world);
	MQ_TRY(host_script_run(&h->rank, &h->script[index], start_s, sample, err));
	gather(h, &h->script[index], sample);
	if (!h->rank.rank)
		sample->steal_s = steal_now() - steal;
	return MQ_OK;
}

/* ---- closing and describing ------------------------------------------------------------------ */

static void close_host(void *state, bool failed)
{
	struct host *h = state;

	host_pool_fini(&h->rank.pool);
	if (h->reserved)
		munmap(h->reserved, h->reserved_B);
	if (!h->started || failed)
		return; /* the process ends with an error status: mpirun stops the other ranks */
	for (uint32_t i = 0; i < h->rank.comms.n; i++)
		if (h->rank.comms.entry[i].comm != MPI_COMM_NULL)
			MPI_Comm_free(&h->rank.comms.entry[i].comm);
	MPI_Comm_free(&h->rank.world);
	MPI_Finalize();
}

static void describe(void *state, char *text, size_t size)
{
	const struct host *h = state;
	char library[MPI_MAX_LIBRARY_VERSION_STRING], line[256], cpu[128] = "unknown";
	int n;
	FILE *file = fopen("/proc/cpuinfo", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "model name : %127[^\n]", cpu) == 1)
			break;
	if (file)
		fclose(file);
	MPI_Get_library_version(library, &n);
	library[strcspn(library, ",\n")] = '\0';
	double buffers_B = 2 * (double)h->rank.pool.size + (double)h->reserved_B;
	snprintf(text, size,
	         "cpu=%s\ncores_per_device=%u\nranks=%u\nbuffers_B=%.0f\nblas=%s\n"
	         "blas_core=%s\nmpi=%s\n",
	         cpu, h->cores, h->rank.size, buffers_B, openblas_get_config(),
	         openblas_get_corename(), library);
}

static double memory(void *state)
{
	char line[256];
	double kB = 0;
	FILE *file = fopen("/proc/self/status", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmHWM: %lf kB", &kB) == 1)
			break;
	if (file)
		fclose(file);
	return 1024 * kB;
}

MQ_REPLAY_EXECUTOR(host) = {
        MQ_REPLAY_HEAD("host"),
        .summary = "CPU cores: OpenBLAS computes, Open MPI communicates",
        .launcher = MQ_LAUNCH_MPIRUN,
        .state_size = sizeof(struct host),
        .check = check,
        .open = open_host,
        .run = run,
        .close = close_host,
        .describe = describe,
        .memory = memory,
};
