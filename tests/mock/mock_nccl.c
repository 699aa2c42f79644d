/*
 * mock_nccl.c - communicators whose calls last a + S/b from the arrival of the last rank: see
 * mock.h.
 *
 * Ranks meet in a file under /dev/shm that the unique id names: how many have joined, and for each
 * call of the communicator who has arrived and when, in virtual time.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "mock.h"

enum { MAX_RANKS = 16, MAX_CALLS = 1 << 16 };

struct meeting {
	atomic_uint arrived;
	double at_s[MAX_RANKS];
};

struct shared {
	atomic_uint joined, left;
	struct meeting call[MAX_CALLS];
};

struct ncclComm {
	struct shared *shared;
	char path[128];
	int n, rank;
	unsigned next;
	int failed;
};

struct call {
	struct ncclComm *comm;
	unsigned index;
	int posted, never;
};

static int n_calls, in_group;
static struct {
	struct ncclComm *comm;
	cudaStream_t stream;
	double bytes;
} pending[256];
static int n_pending;

/* ---- planted faults -------------------------------------------------------------------------- */

static int fault(const char *kind, int call)
{
	const char *text = getenv("MOCK_FAIL"), *rank = getenv("MAQUETTE_RANK");
	char wanted[32];
	int who, at;

	if (!text || sscanf(text, "%31[a-z-]:%d:%d", wanted, &who, &at) != 3 ||
	    strcmp(wanted, kind))
		return 0;
	return atoi(rank ? rank : "0") == who && (call < 0 || call == at);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int arrived(void *opaque, double own_s, double *last_s)
{
	struct call *c = opaque;
	struct meeting *m = &c->comm->shared->call[c->index % MAX_CALLS];

	if (c->never)
		return 0;
	if (!c->posted) {
		m->at_s[c->comm->rank] = own_s;
		atomic_fetch_add(&m->arrived, 1);
		c->posted = 1;
	}
	if (atomic_load(&m->arrived) < (unsigned)c->comm->n)
		return 0;
	*last_s = 0;
	for (int i = 0; i < c->comm->n; i++)
		*last_s = fmax(*last_s, m->at_s[i]);
	free(c);
	return 1;
}

/* A call ends on all its ranks at once, so its noise is one for all of them. */
static double lasts_s(const struct call *c, double bytes)
{
	uint64_t key = (uint64_t)c->comm->n << 32 | c->index;

	return (MOCK_CALL_A_S + bytes / MOCK_CALL_BPS) * mock_noise(key);
}

static void issue(struct ncclComm *comm, cudaStream_t stream, double bytes)
{
	struct call *c = calloc(1, sizeof(*c));
	int call = n_calls++;

	if (!c)
		abort();
	if (fault("die", call))
		raise(SIGKILL);
	if (fault("error", call))
		comm->failed = 1;
	c->comm = comm;
	c->index = comm->next++;
	c->never = fault("hang", call) || comm->failed;
	mock_enqueue(stream, (struct mock_op){.kind = MOCK_CALL,
	                                      .arrived = arrived,
	                                      .call = c,
	                                      .seconds = lasts_s(c, bytes)});
}

/* Inside a group the messages of one communicator are one call. */
static ncclResult_t message(struct ncclComm *comm, cudaStream_t stream, double bytes, int counts)
{
	if (!in_group) {
		issue(comm, stream, bytes);
		return ncclSuccess;
	}
	for (int i = 0; i < n_pending; i++)
		if (pending[i].comm == comm) {
			pending[i].bytes += counts ? bytes : 0;
			return ncclSuccess;
		}
	pending[n_pending].comm = comm;
	pending[n_pending].stream = stream;
	pending[n_pending++].bytes = bytes;
	return ncclSuccess;
}

static double size_of(ncclDataType_t type)
{
	switch ((int)type) {
	case ncclFloat64:
		return 8;
	case ncclFloat32:
		return 4;
	case ncclFloat16:
	case ncclBfloat16:
		return 2;
	default:
		return 1;
	}
}

/* ---- the interface --------------------------------------------------------------------------- */

MOCK_API ncclResult_t ncclGetVersion(int *version)
{
	const char *text = getenv("MOCK_NCCL_VERSION");

	*version = text ? atoi(text) : 22809;
	return ncclSuccess;
}

MOCK_API ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	static int n;
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	memset(id, 0, sizeof(*id));
	snprintf(id->internal, sizeof(id->internal), "/dev/shm/mock-nccl-%d-%ld-%d", (int)getpid(),
	         (long)t.tv_nsec, n++);
	return ncclSuccess;
}

/* As NCCL_TOPO_DUMP_FILE has it: all devices behind one socket, joined by an NVSwitch. */
static void dump_topology(void)
{
	const char *path = getenv("NCCL_TOPO_DUMP_FILE"), *devices = getenv("MOCK_DEVICES");
	FILE *file = path ? fopen(path, "w") : NULL;

	if (!file)
		return;
	fputs("<system version=\"1\">\n  <cpu numaid=\"0\">\n", file);
	for (int i = 0; i < (devices ? atoi(devices) : 2); i++)
		fprintf(file,
		        "    <pci busid=\"0000:%02x:00.0\" class=\"0x030200\" link_speed=\"32.0 "
		        "GT/s "
		        "PCIe\" link_width=\"16\">\n      <gpu dev=\"%d\" sm=\"90\" rank=\"%d\" "
		        "gdr=\"1\"><nvlink target=\"0000:f0:00.0\" count=\"18\" "
		        "tclass=\"0x068000\"/></gpu>\n    </pci>\n",
		        16 + i, i, i);
	fputs("  </cpu>\n</system>\n", file);
	fclose(file);
}

MOCK_API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank,
                                             ncclConfig_t *config)
{
	const struct mq_nccl_config *prefix = (const void *)config;
	struct ncclComm *c = calloc(1, sizeof(*c));
	int fd = open(id.internal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (!c || fd < 0 || n > MAX_RANKS || prefix->magic != 0xcafebeef || prefix->blocking)
		return (ncclResult_t)5; /* invalid usage */
	if (ftruncate(fd, sizeof(struct shared)))
		return (ncclResult_t)2;
	c->shared = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	snprintf(c->path, sizeof(c->path), "%.127s", id.internal);
	c->n = n;
	c->rank = rank;
	c->failed = fault("init-error", -1);
	if (!rank)
		dump_topology();
	if (!fault("init-hang", -1))
		atomic_fetch_add(&c->shared->joined, 1);
	*comm = c;
	return ncclInProgress;
}

MOCK_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	if (comm->failed)
		*error = (ncclResult_t)2; /* system error */
	else
		*error = atomic_load(&comm->shared->joined) < (unsigned)comm->n ? ncclInProgress
		                                                                : ncclSuccess;
	return ncclSuccess;
}

MOCK_API ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	return ncclSuccess;
}

MOCK_API ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	if (atomic_fetch_add(&comm->shared->left, 1) + 1 == (unsigned)comm->n)
		unlink(comm->path);
	munmap(comm->shared, sizeof(struct shared));
	free(comm);
	return ncclSuccess;
}

MOCK_API ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	unlink(comm->path); /* the mapping stays: queues may still look at it */
	return ncclSuccess;
}

MOCK_API const char *ncclGetErrorString(ncclResult_t result)
{
	return (int)result == 2 ? "unhandled system error" : "a mock's error";
}

MOCK_API const char *ncclGetLastError(ncclComm_t comm)
{
	return comm && comm->failed ? "planted by the mock" : "";
}

/* NVIDIA's header declares these two without saying (void). */
MOCK_API ncclResult_t ncclGroupStart(void);
MOCK_API ncclResult_t ncclGroupEnd(void);

MOCK_API ncclResult_t ncclGroupStart(void)
{
	in_group++;
	return ncclSuccess;
}

MOCK_API ncclResult_t ncclGroupEnd(void)
{
	if (--in_group)
		return ncclSuccess;
	for (int i = 0; i < n_pending; i++)
		issue(pending[i].comm, pending[i].stream, pending[i].bytes);
	n_pending = 0;
	return ncclSuccess;
}

MOCK_API ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer,
                               ncclComm_t comm, cudaStream_t stream)
{
	return message(comm, stream, (double)count * size_of(type), 1);
}

MOCK_API ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer,
                               ncclComm_t comm, cudaStream_t stream)
{
	return message(comm, stream, (double)count * size_of(type), 0);
}

static ncclResult_t collective(ncclComm_t comm, cudaStream_t stream, double bytes)
{
	issue(comm, stream, bytes);
	return ncclSuccess;
}

MOCK_API ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                                    ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	return collective(comm, stream, (double)count * size_of(type));
}

MOCK_API ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                                    ncclComm_t comm, cudaStream_t stream)
{
	return collective(comm, stream, (double)count * size_of(type) * comm->n);
}

MOCK_API ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count,
                                        ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                        cudaStream_t stream)
{
	return collective(comm, stream, (double)count * size_of(type) * comm->n);
}

MOCK_API ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type,
                                    int root, ncclComm_t comm, cudaStream_t stream)
{
	return collective(comm, stream, (double)count * size_of(type));
}

MOCK_API ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                                 ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
	return collective(comm, stream, (double)count * size_of(type));
}
