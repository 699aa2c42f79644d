/*
 * mock_cudart.c - streams, events and memory of a GPU that does not exist: see mock.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
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
enum { REAL_B = 1 << 20, HEAD_B = 4096, ILLEGAL_ADDRESS = 700 };
static struct block {
	char *at;
	size_t size;
	int real;             /* at is memory of ours */
	unsigned char *head;  /* where it is not: the first HEAD_B that were copied to its begin; NULL: none were */
	unsigned int read_as; /* types, as bits of mantissas, whose numbers it was found to hold */
} blocks[MAX_BLOCKS];
static size_t n_blocks;
static uint64_t noise_state;
static int lost; /* the device, by an illegal access */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t host_thread;
static int host_threads;

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
	case MOCK_HOST:
		if (real_time)
			return 0; /* host_functions() takes it */
		it->op.function(it->op.data);
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

/* With the lock held. */
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

/* Real time: runs functions of the host when their streams have reached them. */
static void *host_functions(void *unused)
{
	for (;; usleep(1)) {
		pthread_mutex_lock(&lock);
		progress();
		for (size_t i = 0; i < n_streams; i++) {
			struct CUstream_st *s = &streams[i];
			struct mock_op op;

			if (s->first == s->n || s->item[s->first].op.kind != MOCK_HOST || now_s() < s->free_s)
				continue;
			op = s->item[s->first].op;
			pthread_mutex_unlock(&lock);
			op.function(op.data);
			pthread_mutex_lock(&lock);
			s->free_s = now_s();
			if (++s->first == s->n)
				s->first = s->n = 0;
		}
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

/* ---- meaning --------------------------------------------------------------------------------- */

static const struct block *block_of(const char *at, double bytes)
{
	for (size_t i = 0; i < n_blocks; i++)
		if (at >= blocks[i].at && (double)(at - blocks[i].at) + bytes <= (double)blocks[i].size)
			return &blocks[i];
	return NULL;
}

void mock_wrong(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	fputs("mock: ", stderr);
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	va_end(list);
	lost = 1;
}

void mock_extent(const void *pointer, double bytes, const char *what)
{
	if (!block_of(pointer, bytes))
		mock_wrong("%s: %.0f B from %p on are not inside one block", what, bytes, pointer);
}

void *mock_data(const void *pointer, size_t bytes)
{
	const struct block *b = block_of(pointer, (double)bytes);

	return b && b->real ? b->at + ((const char *)pointer - b->at) : NULL;
}

void mock_numbers(const void *pointer, int exponent, int mantissa, const char *what)
{
	struct block *b = (struct block *)(uintptr_t)block_of(pointer, 1);
	size_t size = (size_t)(1 + exponent + mantissa) / 8;
	double sum = 0;

	if (b && b->read_as & 1u << mantissa)
		return;
	for (size_t at = 0; b && b->head && at < HEAD_B; at += size) {
		unsigned int bits = 0, most = (1u << exponent) - 1;

		memcpy(&bits, b->head + at, size);
		unsigned int e = bits >> mantissa & most, fraction = bits & ((1u << mantissa) - 1);
		double x = ldexp(fraction + (e ? 1u << mantissa : 0), (int)(e ? e : 1) - (int)(most / 2) - mantissa);
		sum += x * x * (double)size / HEAD_B;
	}
	/* NaN and infinities of any of the types would make it large. */
	if (b && !b->real && (sum < .9 || sum > 1.1))
		mock_wrong("%s: numbers of %d exponent and %d mantissa bits have a mean square of %g", what, exponent,
			   mantissa, sum);
	else if (b)
		b->read_as |= 1u << mantissa;
}

void mock_log(cudaStream_t stream, const char *format, ...)
{
	static FILE *file;
	const char *dir = getenv("MOCK_LOG"), *rank = getenv("MAQUETTE_RANK");
	char path[4096];
	va_list list;

	if (!dir || !rank)
		return;
	snprintf(path, sizeof(path), "%s/rank-%s.log", dir, rank);
	if (!file)
		file = fopen(path, "w");
	if (!file)
		abort();
	fprintf(file, "%d ", stream ? (int)(stream - streams) : -1);
	va_start(list, format);
	vfprintf(file, format, list);
	va_end(list);
	fputc('\n', file);
	fflush(file);
}

/* ---- queues ---------------------------------------------------------------------------------- */

void mock_enqueue(cudaStream_t stream, struct mock_op op)
{
	struct CUstream_st *s = stream;
	struct CUevent_st *event = op.event;
	struct item it = { .op = op, .enqueued_s = real_time ? now_s() : 0 };

	pthread_mutex_lock(&lock);
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
	pthread_mutex_unlock(&lock);
}

/* ---- the interface --------------------------------------------------------------------------- */

/* The major version in the name under which a library was opened; 13 where there is none. */
int mock_major(const void *function, const char *library)
{
	Dl_info self;
	const char *name = dladdr(function, &self) ? strstr(self.dli_fname, library) : NULL;

	return name ? atoi(name + strlen(library)) : 13;
}

static int own_major(void)
{
	return mock_major((void *)(intptr_t)own_major, "libcudart.so.");
}

MOCK_API cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = 1000 * own_major();
	return cudaSuccess;
}

MOCK_API cudaError_t cudaDriverGetVersion(int *version)
{
	*version = 13000;
	return cudaSuccess;
}

/* MOCK_DRIVER=of-N: a driver of CUDA N. */
static int is_newer_than(const char *driver)
{
	return !strncmp(driver, "of-", 3) && own_major() > atoi(driver + 3);
}

MOCK_API cudaError_t cudaGetDeviceCount(int *count)
{
	const char *driver = getenv("MOCK_DRIVER"), *devices = getenv("MOCK_DEVICES");

	if (driver && (!strcmp(driver, "none") || is_newer_than(driver)))
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
	*value = attribute == cudaDevAttrMultiProcessorCount    ? (int)MOCK_SMS :
		 attribute == cudaDevAttrComputeCapabilityMajor ? 9 :
								  0;
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
	return error == cudaErrorMemoryAllocation ? "out of memory" :
	       (int)error == ILLEGAL_ADDRESS      ? "an illegal memory access was encountered" :
						    "a mock's error";
}

static size_t memory(void)
{
	const char *text = getenv("MOCK_MEMORY_B");

	return text ? (size_t)atof(text) : (size_t)80e9;
}

/* Of large blocks only the size is real. */
MOCK_API cudaError_t cudaMalloc(void **pointer, size_t size)
{
	static uintptr_t next = 1ull << 40;
	int real = size <= REAL_B;

	if (MOCK_CONTEXT_B + allocated + size > memory() || n_blocks == MAX_BLOCKS)
		return cudaErrorMemoryAllocation;
	allocated += size;
	*pointer = real ? calloc(1, size ? size : 1) : (void *)next;
	if (!*pointer)
		abort();
	blocks[n_blocks++] = (struct block){ .at = *pointer, .size = size, .real = real };
	next += (size + 4095) / 4096 * 4096;
	return cudaSuccess;
}

MOCK_API cudaError_t cudaFree(void *pointer)
{
	for (size_t i = 0; i < n_blocks; i++)
		if (blocks[i].at == pointer) {
			allocated -= blocks[i].size;
			free(blocks[i].real ? pointer : blocks[i].head);
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
	int down = kind == cudaMemcpyDeviceToHost, up = kind == cudaMemcpyHostToDevice;

	if (!up)
		mock_extent(from, (double)size, "cudaMemcpy's source");
	if (!down)
		mock_extent(to, (double)size, "cudaMemcpy's destination");
	if ((up || mock_data(from, size)) && (down || mock_data(to, size)))
		memmove(to, from, size);
	for (size_t i = 0; up && i < n_blocks; i++)
		if (blocks[i].at == to && !blocks[i].real && !blocks[i].head && size >= HEAD_B) {
			blocks[i].head = malloc(HEAD_B);
			memcpy(blocks[i].head, from, HEAD_B);
		}
	return cudaSuccess;
}

MOCK_API cudaError_t cudaMemset(void *pointer, int value, size_t size)
{
	const char *slow = getenv("MOCK_SLOW_S"); /* a pool that takes its time */

	if (slow)
		usleep((useconds_t)(1e6 * atof(slow)));
	mock_extent(pointer, (double)size, "cudaMemset");
	if (mock_data(pointer, size))
		memset(pointer, value, size);
	return cudaSuccess;
}

MOCK_API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
				     cudaStream_t stream)
{
	const char *text = getenv("MOCK_COPY_BPS");
	double own = kind == cudaMemcpyDeviceToDevice ? 2 * (double)size / (MOCK_MEM_BPS * MOCK_SWEEP_SHARE) :
							(double)size / (text ? atof(text) : MOCK_COPY_BPS);

	if (kind != cudaMemcpyHostToDevice)
		mock_extent(from, (double)size, "cudaMemcpyAsync's source");
	if (kind != cudaMemcpyDeviceToHost)
		mock_extent(to, (double)size, "cudaMemcpyAsync's destination");
	mock_log(stream, "copy %s %zu",
		 kind == cudaMemcpyDeviceToHost ? "down" :
		 kind == cudaMemcpyHostToDevice ? "up" :
						  "within",
		 size);
	mock_enqueue(stream, (struct mock_op){ .kind = MOCK_WORK, .seconds = own + MOCK_LAUNCH_S });
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

MOCK_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
	mock_enqueue(stream, (struct mock_op){ .kind = MOCK_HOST, .function = function, .data = data });
	if (real_time && !host_threads++ && pthread_create(&host_thread, NULL, host_functions, NULL))
		abort();
	return cudaSuccess;
}

static cudaError_t query(cudaStream_t stream)
{
	progress();
	if (lost)
		return (cudaError_t)ILLEGAL_ADDRESS;
	return stream->first < stream->n || !is_over(stream->free_s) ? cudaErrorNotReady : cudaSuccess;
}

MOCK_API cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	pthread_mutex_lock(&lock);
	cudaError_t state = query(stream);
	pthread_mutex_unlock(&lock);
	return state;
}

MOCK_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	mock_enqueue(stream, (struct mock_op){ .kind = MOCK_WAIT, .event = event });
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
	const char *real = getenv("MOCK_REAL_TIME"), *step = getenv("MOCK_STEP_S");
	static cudaEvent_t base; /* what a step records first */

	real_time |= real && *real == '1';
	base = base ? base : event;
	host_s += step && event == base ? atof(step) : 0;
	for (size_t i = 0; !real_time && all_empty() && i < n_streams; i++)
		streams[i].free_s = 0;
	mock_enqueue(stream, (struct mock_op){ .kind = MOCK_RECORD, .event = event });
	return cudaSuccess;
}

MOCK_API cudaError_t cudaEventQuery(cudaEvent_t event)
{
	pthread_mutex_lock(&lock);
	progress();
	int under_way = event->resolved < event->recorded || !is_over(event->at_s);
	pthread_mutex_unlock(&lock);
	return under_way ? cudaErrorNotReady : cudaSuccess;
}

MOCK_API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	*ms = (float)(1e3 * (end->at_s - start->at_s));
	return cudaSuccess;
}
