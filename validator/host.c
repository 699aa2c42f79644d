/* host.c - executor "host": devices are groups of CPU cores, one rank each; OpenBLAS computes, Open MPI communicates.
 * On several machines run the same command under mpirun. In runs with other executors, and with --local, messages use
 * maquette-replay's wire, and no MPI is needed.
 *
 * Each rank is pinned to its cores, which its BLAS threads share; each rank of another executor on the machine keeps
 * one core for the thread that drives its device. See host/run.c for the order of a device's streams on one core.
 *
 * link: openblas
 * SPDX-License-Identifier: Apache-2.0 */
#include <cblas.h>
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/host.h"

enum { POOL_MIN_B = 192 << 20 };

struct host {
	struct host_rank rank;
	struct host_script *script; /* [n_schedules] */
	uint32_t n_scripts, cores;
	void *reserved;
	size_t reserved_B;
	bool talking;
};

static uint32_t usable_cores(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 1 : (uint32_t)CPU_COUNT(&set);
}

/* Number of cores for this executor: ranks of others on this machine need one each. */
static uint32_t own_cores(const struct mq_replay_session *session)
{
	uint32_t cores = usable_cores(), others = session->n_devices - session->n_own;

	return cores > others ? cores - others : session->options->oversubscribe ? 1 : 0;
}

static enum mq_status check(const struct mq_replay_session *session, uint32_t *devices, char text[256],
			    struct mq_err *err)
{
	const struct mq_replay_options *o = session->options;
	uint32_t cores = usable_cores(), per = o->cores ? o->cores : 1;
	uint32_t here = own_cores(session) / per, others = session->n_devices - session->n_own;

	if (devices)
		*devices = here;
	snprintf(text, 256, "%u CPU cores on this machine, %u per device", cores,
		 o->cores ? o->cores :
			    (session->n_own && here >= session->n_own ? own_cores(session) / session->n_own : 1));
	if (!o->oversubscribe && session->n_own > here && others)
		return mq_fail(
			err, MQ_ENODEV,
			"%u CPU devices of %u cores are needed beside %u other ranks, which take a core each; this "
			"machine has %u cores: use fewer devices, or --oversubscribe",
			session->n_own, per, others, cores);
	if (!o->oversubscribe && session->n_own > here)
		return mq_fail(err, MQ_ENODEV,
			       "%u devices of %u cores are needed, this machine has %u cores: use fewer devices, other "
			       "machines (mpirun), or --oversubscribe",
			       session->n_own, per, cores);
	return MQ_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Pins the rank to its cores, unless its launcher has. */
static enum mq_status pin(struct host *h, const struct mq_replay_session *session, struct mq_err *err)
{
	const struct mq_replay_options *o = session->options;
	uint32_t local, locals, have = own_cores(session);
	bool apart;

	h->rank.talk->place(h->rank.talk_state, &local, &locals, &apart);
	h->cores = apart ? usable_cores() : o->cores ? o->cores : have / locals;
	if (!h->cores)
		h->cores = 1;
	h->rank.yield = !apart && locals * h->cores > have;
	if (h->rank.yield && !o->oversubscribe)
		return mq_fail(err, MQ_ENODEV,
			       "%u ranks of %u cores on a machine with %u cores: use fewer, or --oversubscribe", locals,
			       h->cores, have);
	if (!apart) { /* `cores` of the usable ones, after those of lower `local` */
		uint32_t all = usable_cores(), places = all / h->cores ? all / h->cores : 1, seen = 0;
		cpu_set_t usable, mine;

		sched_getaffinity(0, sizeof(usable), &usable);
		CPU_ZERO(&mine);
		for (int c = 0; c < CPU_SETSIZE; c++)
			if (CPU_ISSET(c, &usable) && seen++ / h->cores == local % places)
				CPU_SET(c, &mine);
		if (sched_setaffinity(0, sizeof(mine), &mine))
			return mq_fail(err, MQ_ENODEV, "cannot pin rank %u: %s", h->rank.ranks->rank, strerror(errno));
	}
	openblas_set_num_threads((int)h->cores);
	return MQ_OK;
}

/* Opens host/mpi.so beside this library. */
static enum mq_status open_mpi(const struct host_talk **talk, struct mq_arena *arena, struct mq_err *err)
{
	Dl_info self;

	if (!dladdr(&host_talk_wire, &self) || !self.dli_fname)
		return mq_fail(err, MQ_EBUG, "executor host does not know where it is");
	int n = (int)(strrchr(self.dli_fname, '/') - self.dli_fname);
	const char *path = mq_arena_printf(arena, "%.*s/host/mpi.so", n, self.dli_fname);
	void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	*talk = library ? dlsym(library, "host_talk_mpi") : NULL;
	return *talk ? MQ_OK :
		       mq_fail(err, MQ_ENODEV, "no MPI (%s): install Open MPI, or use --local N, which needs none",
			       dlerror());
}

static enum mq_status allocate(void *state, size_t bytes, void **block, struct mq_err *err)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return mq_fail(err, MQ_ENODEV, "%zu B cannot be had: %s", bytes, strerror(errno));
	*block = memset(p, 1, bytes);
	return MQ_OK;
}

static enum mq_status make_room(struct host *h, const struct mq_replay_session *session, struct mq_err *err)
{
	double bytes = session->options->memory_B;

	h->script = mq_arena_array(session->arena, session->n_schedules, struct host_script);
	h->reserved_B = bytes > 0 ? (size_t)bytes : 0;
	if (h->reserved_B && allocate(h, h->reserved_B, &h->reserved, err))
		return mq_fail(err, MQ_ENODEV, "rank %u: out of memory: %.0f B cannot be reserved (%s)",
			       h->rank.ranks->rank, bytes, strerror(errno));
	return host_pool_init(&h->rank.pool, mq_replay_room(session, host_kernel_need, true, POOL_MIN_B),
			      session->options->seed + h->rank.ranks->rank, err);
}

static enum mq_status open_host(void *state, const struct mq_replay_session *session, struct mq_err *err)
{
	struct host *h = state;
	struct host_rank *r = &h->rank;

	r->deadline_s = session->options->deadline_s;
	r->arena = session->arena;
	r->session = session;
	r->ranks = session->ranks;
	r->talk = &host_talk_wire;
	if (session->joined)
		MQ_TRY(open_mpi(&r->talk, r->arena, err));
	r->talk_state = mq_arena_alloc(r->arena, r->talk->state_size);
	h->talking = true;
	MQ_TRY(r->talk->open(r->talk_state, session, err));
	MQ_TRY(pin(h, session, err));
	MQ_TRY(make_room(h, session, err));
	h->n_scripts = session->n_schedules;
	for (uint32_t i = 0; i < h->n_scripts; i++)
		MQ_TRY(host_script_build(r, session->schedule[i], &h->script[i], err));
	return MQ_OK;
}

static enum mq_status run(void *state, uint32_t index, double start_s, struct mq_replay_sample *sample,
			  struct mq_err *err)
{
	struct host *h = state;

	return host_script_run(&h->rank, &h->script[index], start_s, sample, err);
}

/* ---- closing and describing ------------------------------------------------------------------ */

static void close_host(void *state, bool failed)
{
	struct host *h = state;

	host_pool_fini(&h->rank.pool);
	if (h->reserved)
		munmap(h->reserved, h->reserved_B);
	if (h->talking && h->rank.talk->close)
		h->rank.talk->close(h->rank.talk_state, failed);
}

/* Copies the first line of a file that begins with `key`, or "". */
static void find_line(const char *path, const char *key, char line[256])
{
	FILE *file = fopen(path, "r");

	do
		line[0] = '\0';
	while (file && fgets(line, 256, file) && strncmp(line, key, strlen(key)));
	if (file)
		fclose(file);
}

static void describe(void *state, char *text, size_t size)
{
	const struct host *h = state;
	char talk[512], line[256], cpu[128] = "unknown";

	find_line("/proc/cpuinfo", "model name", line);
	sscanf(line, "model name : %127[^\n]", cpu);
	h->rank.talk->describe(talk, sizeof(talk));
	double buffers_B = 2 * (double)h->rank.pool.size + (double)h->reserved_B;
	snprintf(text, size,
		 "cpu=%s\ncores_per_device=%u\nranks=%u\nbuffers_B=%.0f\nmemory_total_B=%.0f\n"
		 "blas=%s\n"
		 "blas_core=%s\n%s",
		 cpu, h->cores, h->rank.ranks->size, buffers_B,
		 (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE), openblas_get_config(),
		 openblas_get_corename(), talk);
}

static double memory(void *state)
{
	char line[256];
	double kB = 0;

	find_line("/proc/self/status", "VmHWM:", line);
	sscanf(line, "VmHWM: %lf kB", &kB);
	return 1024 * kB;
}

static double in_use(void *state, double *buffers_B)
{
	const struct host *h = state;
	char line[256];
	long pages = 0;

	find_line("/proc/self/statm", "", line);
	sscanf(line, "%*d %ld", &pages);
	*buffers_B = 2 * (double)h->rank.pool.size + (double)h->reserved_B;
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void free_block(void *state, void *block, size_t bytes)
{
	munmap(block, bytes);
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
	.in_use = in_use,
	.allocate = allocate,
	.release = free_block,
};
