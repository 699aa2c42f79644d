/*
 * mock_cudart.c - streams, events and memory of a GPU that does not exist: see mock.h.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mock.h"

struct CUevent_st {
	double at_s;
	uint64_t recorded, resolved; /* how often enqueued, how often reached */
};

struct item {
	struct mock_op op;
	uint64_t turn;     /* RECORD, WAIT: which recording of the event */
	double enqueued_s; /* real time: not before */
};

struct CUstream_st {
	struct item *item;
	size_t first, n, room;
	double free_s;
};

enum { MAX_STREAMS = 64 };
/* Once the program has told of host memory of its own that copies will meet (cudaHostRegister), a
 * CPU takes part, whose time is the machine's: then so is ours. */
static int real_time;
static struct CUstream_st streams[MAX_STREAMS];
static size_t n_streams;
static size_t allocated;
enum { MAX_BLOCKS = 4096 };
static struct block {
	void *at;
	size_t size;
} blocks[MAX_BLOCKS];
static size_t n_blocks;
static uint64_t noise_state;

static double noise(uint64_t *state)
{
	const char *text = getenv("MOCK_NOISE");
	double deviation = text ? atof(text) : 0, sum = 0;

	for (int i = 0; i < 12 && deviation > 0; i++) {
		*state ^= *state << 13;
		*state ^= *state >> 7;
		*state ^= *state << 17;
		sum += (double)(*state >> 11) * 0x1p-53;
	}
	return deviation > 0 ? exp(deviation * (sum - 6)) : 1;
}

static uint64_t seed(void)
{
	const char *text = getenv("MOCK_SEED");

	return text ? (uint64_t)atoll(text) : 0;
}

double mock_noise(uint64_t key)
{
	uint64_t state = (key + 1 + (seed() << 40)) * 0x9e3779b97f4a7c15u | 1;

	noise(&state); /* small keys differ in few bits: let them spread */
	return noise(&state);
}

static double own_noise(void)
{
	if (!noise_state)
		noise_state = 88172645463325252u ^ seed() << 32;
	return noise(&noise_state);
}

/* ---- the clock ------------------------------------------------------------------------------- */

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The host's clock of a rank, where this library is preloaded. A loop that reads it and does nothing
 * else waits for a time: from the first thousands of reads in a row on it ticks. All ranks' clocks
 * begin at the same time, tick alike, and wait for the same starts, so they stay together. */
enum { READS_OF_WORK = 4096 };
#define HOST_BEGIN_S 1000.
#define HOST_TICK_S  0x1p-26
static int host_reads; /* since the last call of this library */
static double host_s = HOST_BEGIN_S;

static int is_virtual_rank(void)
{
	static int known = -1;

	if (known < 0)
		known = getenv("MAQUETTE_RANK") != NULL;
	return known && !real_time;
}

MOCK_API int clock_gettime(clockid_t clock, struct timespec *t)
{
	if (clock != CLOCK_MONOTONIC || !is_virtual_rank())
		return (int)syscall(SYS_clock_gettime, clock, t);
	if (++host_reads > READS_OF_WORK)
		host_s += HOST_TICK_S;
	t->tv_sec = (time_t)host_s;
	t->tv_nsec = (long)(1e9 * (host_s - (double)t->tv_sec));
	return 0;
}

/* Nor does a hypervisor take anything of virtual time. */
MOCK_API FILE *fopen(const char *path, const char *mode)
{
	FILE *(*next)(const char *, const char *);

	*(void **)&next = dlsym(RTLD_NEXT, "fopen");
	return next(is_virtual_rank() && !strcmp(path, "/proc/stat") ? "/dev/null" : path, mode);
}

/* In virtual time all that was reached is over. */
static int is_over(double at_s)
{
	return !real_time || now_s() >= at_s;
}

static int all_empty(void)
{
	for (size_t i = 0; i < n_streams; i++)
		if (streams[i].first < streams[i].n)
			return 0;
	return 1;
}

/* One operation at the head of a stream; 0 if it has to wait. */
static int step(struct CUstream_st *s)
{
	struct item *it = &s->item[s->first];
	struct CUevent_st *event = it->op.event;
	double last_s;

	s->free_s = fmax(s->free_s, it->enqueued_s);
	switch (it->op.kind) {
	case MOCK_WORK:
		s->free_s += it->op.seconds;
		break;
	case MOCK_RECORD:
		event->at_s = s->free_s;
		event->resolved = it->turn;
		break;
	case MOCK_WAIT:
		if (event->resolved < it->turn)
			return 0;
		s->free_s = fmax(s->free_s, event->at_s);
		break;
	case MOCK_CALL:
		if (!it->op.arrived(it->op.call, s->free_s, &last_s))
			return 0;
		s->free_s = fmax(s->free_s, last_s) + it->op.seconds;
		break;
	}
	if (++s->first == s->n)
		s->first = s->n = 0;
	return 1;
}

static void progress(void)
{
	int moved = 1;

	host_reads = 0;
	while (moved) {
		moved = 0;
		for (size_t i = 0; i < n_streams; i++)
			while (streams[i].first < streams[i].n && step(&streams[i]))
				moved = 1;
	}
}

void mock_enqueue(cudaStream_t stream, struct mock_op op)
{
	struct CUstream_st *s = stream;
	struct CUevent_st *event = op.event;
	struct item it = {.op = op, .enqueued_s = real_time ? now_s() : 0};

	host_reads = 0;
	if (op.kind == MOCK_RECORD)
		it.turn = ++event->recorded;
	if (op.kind == MOCK_WAIT)
		it.turn = event->recorded;
	it.op.seconds *= op.kind == MOCK_WORK ? own_noise() : 1;
	if (s->n == s->room) {
		s->room = s->room ? 2 * s->room : 256;
		s->item = realloc(s->item, s->room * sizeof(*s->item));
		if (!s->item)
			abort();
	}
	s->item[s->n++] = it;
}

/* ---- the interface --------------------------------------------------------------------------- */

MOCK_API cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = 13000;
	return cudaSuccess;
}

MOCK_API cudaError_t cudaDriverGetVersion(int *version)
{
	*version = 13000;
	return cudaSuccess;
}

MOCK_API cudaError_t cudaGetDeviceCount(int *count)
{
	const char *driver = getenv("MOCK_DRIVER"), *devices = getenv("MOCK_DEVICES");

	if (driver && !strcmp(driver, "none"))
		return cudaErrorInsufficientDriver; /* count is not written */
	if (driver && !strcmp(driver, "stub"))
		return cudaErrorStubLibrary;
	if (driver && !strcmp(driver, "nodevice"))
		return cudaErrorNoDevice;
	*count = devices ? atoi(devices) : 2;
	return cudaSuccess;
}

MOCK_API cudaError_t cudaSetDevice(int device)
{
	return cudaSuccess;
}

MOCK_API cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
	*value = attribute == cudaDevAttrMultiProcessorCount      ? (int)MOCK_SMS
	         : attribute == cudaDevAttrComputeCapabilityMajor ? 9
	                                                          : 0;
	return cudaSuccess;
}

MOCK_API cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device)
{
	snprintf(text, (size_t)size, "0000:%02X:00.0", 16 + device);
	return cudaSuccess;
}

MOCK_API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	*can = !getenv("MOCK_NO_PEERS");
	return cudaSuccess;
}

MOCK_API const char *cudaGetErrorString(cudaError_t error)
{
	return error == cudaErrorMemoryAllocation ? "out of memory" : "a mock's error";
}

static size_t memory(void)
{
	const char *text = getenv("MOCK_MEMORY_B");

	return text ? (size_t)atof(text) : (size_t)80e9;
}

/* Only the size is real: nothing reads or writes device memory. */
MOCK_API cudaError_t cudaMalloc(void **pointer, size_t size)
{
	static uintptr_t next = 1ull << 40;

	if (MOCK_CONTEXT_B + allocated + size > memory() || n_blocks == MAX_BLOCKS)
		return cudaErrorMemoryAllocation;
	allocated += size;
	*pointer = (void *)next;
	blocks[n_blocks++] = (struct block){*pointer, size};
	next += (size + 4095) / 4096 * 4096;
	return cudaSuccess;
}

MOCK_API cudaError_t cudaFree(void *pointer)
{
	for (size_t i = 0; i < n_blocks; i++)
		if (blocks[i].at == pointer) {
			allocated -= blocks[i].size;
			blocks[i] = blocks[--n_blocks];
			break;
		}
	return cudaSuccess;
}

MOCK_API cudaError_t cudaMallocHost(void **pointer, size_t size)
{
	*pointer = malloc(size);
	return *pointer ? cudaSuccess : cudaErrorMemoryAllocation;
}

MOCK_API cudaError_t cudaFreeHost(void *pointer)
{
	free(pointer);
	return cudaSuccess;
}

MOCK_API cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned int flags)
{
	real_time = 1;
	return cudaSuccess;
}

MOCK_API cudaError_t cudaHostUnregister(void *pointer)
{
	return cudaSuccess;
}

MOCK_API cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
	return cudaSuccess;
}

MOCK_API cudaError_t cudaMemset(void *pointer, int value, size_t size)
{
	return cudaSuccess;
}

MOCK_API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size,
                                     enum cudaMemcpyKind kind, cudaStream_t stream)
{
	const char *text = getenv("MOCK_COPY_BPS");
	double own = kind == cudaMemcpyDeviceToDevice
	                     ? 2 * (double)size / (MOCK_MEM_BPS * MOCK_SWEEP_SHARE)
	                     : (double)size / (text ? atof(text) : MOCK_COPY_BPS);

	mock_enqueue(stream, (struct mock_op){.kind = MOCK_WORK, .seconds = own + MOCK_LAUNCH_S});
	return cudaSuccess;
}

MOCK_API cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
	*total = memory();
	*available = *total > MOCK_CONTEXT_B + allocated ? *total - allocated - MOCK_CONTEXT_B : 0;
	return cudaSuccess;
}

MOCK_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
	if (n_streams == MAX_STREAMS)
		return cudaErrorMemoryAllocation;
	*stream = &streams[n_streams++];
	return cudaSuccess;
}

MOCK_API cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	free(stream->item);
	memset(stream, 0, sizeof(*stream));
	return cudaSuccess;
}

MOCK_API cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	progress();
	return stream->first < stream->n || !is_over(stream->free_s) ? cudaErrorNotReady
	                                                             : cudaSuccess;
}

MOCK_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	mock_enqueue(stream, (struct mock_op){.kind = MOCK_WAIT, .event = event});
	return cudaSuccess;
}

MOCK_API cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	*event = calloc(1, sizeof(**event));
	return *event ? cudaSuccess : cudaErrorMemoryAllocation;
}

MOCK_API cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	free(event);
	return cudaSuccess;
}

MOCK_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	for (size_t i = 0; !real_time && all_empty() && i < n_streams; i++)
		streams[i].free_s = 0;
	mock_enqueue(stream, (struct mock_op){.kind = MOCK_RECORD, .event = event});
	return cudaSuccess;
}

MOCK_API cudaError_t cudaEventQuery(cudaEvent_t event)
{
	progress();
	return event->resolved < event->recorded || !is_over(event->at_s) ? cudaErrorNotReady
	                                                                  : cudaSuccess;
}

MOCK_API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	*ms = (float)(1e3 * (end->at_s - start->at_s));
	return cudaSuccess;
}
