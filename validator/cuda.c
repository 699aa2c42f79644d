/* cuda.c - executor "cuda": GPUs, one process each; compute by cuBLAS, cublasLt, cuDNN and own kernels, communication
 * by NCCL.
 *
 * Plain C on NVIDIA's libraries, opened at run time (cuda/libraries.c). Ranks come from mpirun, srun or torchrun, or
 * are spawned by maquette-replay. Several ranks on one GPU (share_gpu) get an NCCL_HOSTID each and communicate over
 * loopback sockets: that tests whether a plan runs, not its speed.
 *
 * Messages to ranks of other executors (a plan's CPUs), and collectives of groups with both, are staged in pinned host
 * memory: cuda/staged.c. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "maquette/rng.h"
#include "cuda/parts.h"

enum {
	POOL_MIN_B = 512 << 20,
	PINNED_B = 64 << 20,
	RANDOM_B = 1000016, /* not a multiple of a row's length, so rows differ */
};

/* ---- before any rank is started -------------------------------------------------------------- */

static bool name_gpu(struct mq_toolkit *kit, char *name, size_t size)
{
	void *handle = NULL;

	snprintf(name, size, "unknown GPU");
	cuda_open_nvml(kit);
	if (kit->nvmlInit_v2 && !kit->nvmlInit_v2() && !kit->nvmlDeviceGetHandleByIndex_v2(0, &handle))
		kit->nvmlDeviceGetName(handle, name, (unsigned int)size);
	return cuda_is_mig(kit, handle);
}

static enum mq_status check(const struct mq_replay_session *session, uint32_t *devices, char text[256],
			    struct mq_err *err)
{
	static struct mq_toolkit kit; /* too large for the stack under a sanitizer; filled anew each time */
	char name[96];
	int count;

	memset(&kit, 0, sizeof(kit));
	MQ_TRY(cuda_open_runtime(&kit, err));
	MQ_TRY(cuda_count(&kit, &count, err));
	bool mig = name_gpu(&kit, name, sizeof(name));
	if (devices)
		*devices = (uint32_t)count;
	snprintf(text, 256, "%s%s, %d on this machine", name, mig ? " (an instance, MIG)" : "", count);
	if (session->n_own > (uint32_t)count && !session->options->share_gpu)
		return mq_fail(
			err, MQ_ENODEV,
			"the schedule needs %u GPUs, this machine has %d: start the ranks on several machines, or "
			"use --share-gpu (correctness only)",
			session->n_own, count);
	if (session->n_own > 1 && mig)
		return mq_fail(err, MQ_ENODEV,
			       "GPU 0 is in MIG mode: a process sees one instance of it, and NCCL does not run between "
			       "instances; replay plans of one device, or turn MIG off (nvidia-smi -mig 0)");
	if (session->n_own > 1)
		MQ_TRY(cuda_open_nccl(&kit, err));
	return cuda_kernels_ask(&kit, session, err);
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum mq_status choose_gpu(struct cuda *c, struct mq_err *err)
{
	const struct mq_replay_options *o = c->session->options;
	char id[64];
	int count;

	MQ_TRY(cuda_open_runtime(&c->kit, err));
	MQ_TRY(cuda_count(&c->kit, &count, err));
	/* srun --gpus-per-task=1 and the like make only the rank's own GPU visible. */
	bool apart = count == 1 && getenv("CUDA_VISIBLE_DEVICES") && getenv("SLURM_STEP_ID");
	if (o->local >= (uint32_t)count && !o->share_gpu && !apart)
		return mq_fail(err, MQ_ENODEV, "rank %u would be on GPU %u of a machine with %d", o->rank, o->local,
			       count);
	c->device = (int)(o->local % (uint32_t)count);
	if (o->share_gpu) {
		snprintf(id, sizeof(id), "maquette-rank-%u", o->rank);
		setenv("NCCL_HOSTID", id, 1);
		setenv("NCCL_SOCKET_IFNAME", "lo", 1);
		setenv("NCCL_IB_DISABLE", "1", 1);
		setenv("NCCL_NVLS_ENABLE", "0", 1);
		setenv("NCCL_MNNVL_ENABLE", "0", 1);
		setenv("NCCL_MAX_CTAS", "2", 1);
	}
	CUDA_TRY(c, cudaSetDevice(c->device));
	cuda_open_nvml(&c->kit);
	if (!c->kit.nvmlInit_v2 || c->kit.nvmlInit_v2())
		return MQ_OK;
	/* NVML numbers all GPUs, CUDA those in CUDA_VISIBLE_DEVICES: match them by PCI bus id. */
	bool by_bus = c->kit.nvmlDeviceGetHandleByPciBusId_v2 &&
		      c->kit.cudaDeviceGetPCIBusId(id, sizeof(id), c->device) == cudaSuccess;
	if (by_bus ? c->kit.nvmlDeviceGetHandleByPciBusId_v2(id, &c->nvml) :
		     c->kit.nvmlDeviceGetHandleByIndex_v2((unsigned int)c->device, &c->nvml))
		c->nvml = NULL;
	return MQ_OK;
}

/* Encodes a number in a floating-point type. */
static uint64_t encoded(double x, int exponent_bits, int mantissa_bits)
{
	int bias = (1 << (exponent_bits - 1)) - 1, e;
	double half = frexp(fabs(x), &e); /* |x| = half 2^e, half from .5 on */
	int64_t magnitude =
		e + bias > 1 ? ((int64_t)(e - 1 + bias) << mantissa_bits) + llrint(ldexp(2 * half - 1, mantissa_bits)) :
			       llrint(ldexp(fabs(x), bias - 1 + mantissa_bits));

	return (uint64_t)(x < 0) << (exponent_bits + mantissa_bits) | (uint64_t)magnitude;
}

/* Fills a pool with nearly normal numbers (sums of four uniform ones), encoded for each type: a kernel's power depends
 * on how many bits change between operands. */
static enum mq_status fill_random(struct cuda *c, enum cuda_operand type, uint64_t seed, struct mq_err *err)
{
	static const struct {
		int exponent, mantissa;
	} bits[CUDA_N_OPERANDS] = {
		[CUDA_WORDS] = { 8, 7 }, [CUDA_FP16] = { 5, 10 }, [CUDA_E4M3] = { 4, 3 }, [CUDA_E5M2] = { 5, 2 }
	};
	size_t size = (size_t)(1 + bits[type].exponent + bits[type].mantissa) / 8;
	uint8_t *random = mq_arena_array(c->session->arena, RANDOM_B, uint8_t);
	struct mq_rng rng;

	mq_rng_seed(&rng, seed);
	for (size_t at = 0; at < RANDOM_B; at += size) {
		uint64_t r = mq_rng_next(&rng);
		double sum = (double)(r & 0xffff) + (double)(r >> 16 & 0xffff) + (double)(r >> 32 & 0xffff) +
			     (double)(r >> 48);
		uint64_t number = encoded(sqrt(3) * (sum / 0x10000 - 2), bits[type].exponent, bits[type].mantissa);

		memcpy(random + at, &number, size); /* GPUs and their hosts are little-endian */
	}
	CUDA_TRY(c, cudaMalloc((void **)&c->pool.in[type], c->pool.size));
	for (size_t at = 0; at < c->pool.size; at += RANDOM_B) {
		size_t left = c->pool.size - at;

		CUDA_TRY(c, cudaMemcpy(c->pool.in[type] + at, random, left < RANDOM_B ? left : RANDOM_B,
				       cudaMemcpyHostToDevice));
	}
	return MQ_OK;
}

static enum mq_status make_buffers(struct cuda *c, struct mq_err *err)
{
	const struct mq_replay_options *o = c->session->options;

	c->pool.size = mq_replay_room(c->session, cuda_kernel_need, false, POOL_MIN_B);
	c->pinned_B = PINNED_B;
	if (o->memory_B > 0) {
		CUDA_TRY(c, cudaMalloc(&c->reserved, (size_t)o->memory_B));
		CUDA_TRY(c, cudaMemset(c->reserved, 1, (size_t)o->memory_B));
	}
	uint32_t read = cuda_operands_read(c->session, c->ranks->rank);
	for (int type = 0; type < CUDA_N_OPERANDS; type++)
		if (read & 1u << type)
			MQ_TRY(fill_random(c, (enum cuda_operand)type, o->seed + o->rank, err));
	CUDA_TRY(c, cudaMalloc((void **)&c->pool.out, c->pool.size));
	CUDA_TRY(c, cudaMemset(c->pool.out, 0, c->pool.size));
	CUDA_TRY(c, cudaMallocHost(&c->pinned, c->pinned_B));
	memset(c->pinned, 1, c->pinned_B);
	return MQ_OK;
}

static enum mq_status make_streams(struct cuda *c, struct mq_err *err)
{
	struct mq_arena *arena = c->session->arena;

	for (int l = 0; l < MQ_N_STREAMS; l++)
		CUDA_TRY(c, cudaStreamCreateWithFlags(&c->stream[l], cudaStreamNonBlocking));
	c->begin = mq_arena_array(arena, c->n_events, cudaEvent_t);
	c->end = mq_arena_array(arena, c->n_events, cudaEvent_t);
	c->gate = mq_arena_array(arena, c->n_events, struct cuda_gate);
	CUDA_TRY(c, cudaEventCreate(&c->base));
	for (uint32_t i = 0; i < c->n_events; i++) {
		CUDA_TRY(c, cudaEventCreate(&c->begin[i]));
		CUDA_TRY(c, cudaEventCreate(&c->end[i]));
		c->gate[i].deadline_s = c->deadline_s;
	}
	MQ_TRY(cuda_open_blas(&c->kit, err));
	int bad = (int)c->kit.cublasCreate_v2(&c->blas);
	return bad ? mq_fail(err, MQ_ENODEV, "rank %u: cuBLAS cannot start on GPU %d (status %d)", c->ranks->rank,
			     c->device, bad) :
		     MQ_OK;
}

static enum mq_status open_cuda(void *state, const struct mq_replay_session *session, struct mq_err *err)
{
	struct cuda *c = state;

	c->session = session;
	c->ranks = session->ranks;
	c->deadline_s = session->options->deadline_s;
	MQ_TRY(choose_gpu(c, err));
	cuda_pin_near(c); /* before host memory is touched, whose pages are placed near the thread */
	MQ_TRY(make_buffers(c, err));
	MQ_TRY(cuda_comms_open(c, err));
	c->script = mq_arena_array(session->arena, session->n_schedules, struct cuda_script);
	for (uint32_t i = 0; i < session->n_schedules; i++)
		MQ_TRY(cuda_script_build(c, session->schedule[i], &c->script[i], err));
	MQ_TRY(cuda_staged_open(c, err));
	MQ_TRY(make_streams(c, err));
	MQ_TRY(cuda_kernels_ask(&c->kit, session, err));
	MQ_TRY(cuda_kernels_prepare(c, err));
	return cuda_calls_prove(c, err);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Is the device throttled by heat or a power brake? Idling, requested clocks, its own power limit and synchronised
 * clocks are normal operation. */
static bool throttled(const struct cuda *c)
{
	enum { IDLE = 0x1, APPLICATION = 0x2, POWER_CAP = 0x4, SYNC_BOOST = 0x10, DISPLAY = 0x100 };
	const unsigned long long usual = IDLE | APPLICATION | POWER_CAP | SYNC_BOOST | DISPLAY;
	unsigned long long reasons = 0;

	if (!c->nvml || c->kit.nvmlDeviceGetCurrentClocksThrottleReasons(c->nvml, &reasons))
		return false;
	return (reasons & ~usual) != 0;
}

static enum mq_status run(void *state, uint32_t index, double start_s, struct mq_replay_sample *sample,
			  struct mq_err *err)
{
	struct cuda *c = state;

	MQ_TRY(cuda_script_run(c, &c->script[index], start_s, sample, err));
	sample->throttled = throttled(c);
	return MQ_OK;
}

/* ---- closing and describing ------------------------------------------------------------------ */

static void release(struct cuda *c)
{
	cuda_staged_close(c);
	for (uint32_t i = 0; c->begin && i < c->n_events; i++) {
		CUDA_DROP(c, cudaEventDestroy, c->begin[i]);
		CUDA_DROP(c, cudaEventDestroy, c->end[i]);
	}
	CUDA_DROP(c, cudaEventDestroy, c->base);
	for (int l = 0; l < MQ_N_STREAMS; l++)
		CUDA_DROP(c, cudaStreamDestroy, c->stream[l]);
	CUDA_DROP(c, cublasDestroy_v2, c->blas);
	CUDA_DROP(c, cublasLtDestroy, c->lt_handle);
	CUDA_DROP(c, cudnnDestroy, c->dnn);
	for (int l = 0; l < MQ_N_STREAMS; l++)
		CUDA_DROP(c, cudaFree, c->workspace[l]);
	CUDA_DROP(c, cudaFree, c->scale);
	cuda_kernels_release(c);
	for (int type = 0; type < CUDA_N_OPERANDS; type++)
		CUDA_DROP(c, cudaFree, c->pool.in[type]);
	CUDA_DROP(c, cudaFree, c->pool.out);
	CUDA_DROP(c, cudaFree, c->reserved);
	CUDA_DROP(c, cudaFreeHost, c->pinned);
}

/* After a failure nothing is released, since that would wait for work that never ends; the process exits. */
static void close_cuda(void *state, bool failed)
{
	struct cuda *c = state;

	cuda_comms_close(c, failed);
	if (!failed)
		release(c);
}

/* Does the environment variable change how the libraries run? */
static bool is_setting(const char *variable)
{
	static const char *const prefixes[] = {
		"NCCL_",       "CUDA_",      "CUBLAS_",       "NVIDIA_",          "UCX_", "FI_", "OMP_", "SLURM_JOB_",
		"SLURM_STEP_", "OMPI_COMM_", "TORCHELASTIC_", "LD_LIBRARY_PATH=", NULL
	};

	for (const char *const *p = prefixes; *p; p++)
		if (!strncmp(variable, *p, strlen(*p)))
			return true;
	return false;
}

/* Bytes of the executor's own buffers. */
static double buffers(const struct cuda *c)
{
	double n = 1;

	for (int type = 0; type < CUDA_N_OPERANDS; type++)
		n += c->pool.in[type] != NULL;
	return n * (double)c->pool.size + c->session->options->memory_B;
}

static void describe(void *state, char *text, size_t size)
{
	struct cuda *c = state;
	unsigned int MHz = 0, celsius = 0, mW = 0;
	int runtime = 0, driver = 0, nccl = 0, blas = 0, sms = 0, major = 0, minor = 0;
	size_t available = 0, total = 0;
	char name[96] = "unknown";

	c->kit.cudaRuntimeGetVersion(&runtime);
	c->kit.cudaDriverGetVersion(&driver);
	c->kit.cudaMemGetInfo(&available, &total);
	c->kit.cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, c->device);
	c->kit.cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, c->device);
	c->kit.cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, c->device);
	c->kit.cublasGetVersion_v2(c->blas, &blas);
	if (c->kit.ncclGetVersion)
		c->kit.ncclGetVersion(&nccl);
	if (c->nvml) {
		c->kit.nvmlDeviceGetName(c->nvml, name, sizeof(name));
		c->kit.nvmlDeviceGetClockInfo(c->nvml, 1, &MHz);
		c->kit.nvmlDeviceGetTemperature(c->nvml, 0, &celsius);
		c->kit.nvmlDeviceGetPowerUsage(c->nvml, &mW);
	}
	int rtc_major = 0, rtc_minor = 0;
	if (c->own_module)
		c->kit.nvrtcVersion(&rtc_major, &rtc_minor);
	FILE *f = fmemopen(text, size, "w");
	if (!f)
		return;
	fprintf(f,
		"gpu=%s\nranks=%u\ncuda_runtime=%d\ncuda_driver=%d\ncublas=%d\n"
		"nccl=%d\nbuffers_B=%.0f\nmemory_total_B=%zu\nsm_count=%d\n"
		"compute_capability=%d\nsm_clock_MHz=%u\ntemperature_C=%u\npower_W=%.1f\n",
		name, c->ranks->size, runtime, driver, blas, nccl, buffers(c), total, sms, 10 * major + minor, MHz,
		celsius, mW / 1e3);
	fprintf(f, "cublaslt=%zu\ncudnn=%zu\nnvrtc=%d.%d\n", c->lt_handle ? c->kit.cublasLtGetVersion() : 0,
		c->dnn ? c->kit.cudnnGetVersion() : 0, rtc_major, rtc_minor);
	cpu_set_t cpus;
	if (!sched_getaffinity(0, sizeof(cpus), &cpus))
		fprintf(f, "mig=%d\ncpus=%d\n", cuda_is_mig(&c->kit, c->nvml), CPU_COUNT(&cpus));
	extern char **environ;
	for (char **e = environ; *e; e++)
		if (is_setting(*e))
			fprintf(f, "%s\n", *e);
	fclose(f);
	text[size - 1] = '\0'; /* truncate */
}

static double memory(void *state)
{
	struct cuda *c = state;
	size_t available = 0, total = 0;

	if (!c->kit.cudaMemGetInfo || c->kit.cudaMemGetInfo(&available, &total) != cudaSuccess)
		return 0;
	return (double)(total - available);
}

static double in_use(void *state, double *buffers_B)
{
	const struct cuda *c = state;

	*buffers_B = buffers(c);
	return memory(state);
}

static enum mq_status allocate(void *state, size_t bytes, void **block, struct mq_err *err)
{
	struct cuda *c = state;

	CUDA_TRY(c, cudaMalloc(block, bytes));
	CUDA_TRY(c, cudaMemset(*block, 1, bytes));
	return MQ_OK;
}

static void free_block(void *state, void *block, size_t bytes)
{
	struct cuda *c = state;

	c->kit.cudaFree(block);
}

MQ_REPLAY_EXECUTOR(cuda) = {
	MQ_REPLAY_HEAD("cuda"),
	.summary = "GPUs: cuBLAS and cuDNN compute, NCCL communicates",
	.launcher = MQ_LAUNCH_SPAWN,
	.state_size = sizeof(struct cuda),
	.check = check,
	.open = open_cuda,
	.run = run,
	.close = close_cuda,
	.describe = describe,
	.memory = memory,
	.in_use = in_use,
	.allocate = allocate,
	.release = free_block,
	.topology = cuda_topology,
	.found = cuda_found,
	.imitates = cuda_imitates,
};
