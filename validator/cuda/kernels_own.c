/* kernels_own.c - own kernels (kernels.cu), compiled at run time by NVRTC if present, loaded and launched through the
 * driver. They move the schedule's bytes. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cuda/parts.h"

enum { THREADS = 256, WARPS = THREADS / 32, BLOCKS_PER_SM = 32, LOG_B = 160, USUAL_ROW_B = 4096 };

#define NARROW_QUADS 256 /* most words of 16 bytes in a row that a warp holds */
#define TEXT_(x)     #x
#define TEXT(x)      TEXT_(x)
static const char source[] = "#define NARROW_QUADS " TEXT(NARROW_QUADS) "\n"
#include "kernels.cu.inc"
	;

static enum mq_status compile(struct cuda *c, char **cubin, struct mq_err *err)
{
	const struct mq_toolkit *k = &c->kit;
	int major = 0, minor = 0;
	char arch[40], log[LOG_B] = "";
	const char *const options[] = { arch };
	nvrtcProgram program;
	size_t size = 0;

	CUDA_TRY(c, cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, c->device));
	CUDA_TRY(c, cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, c->device));
	snprintf(arch, sizeof(arch), "--gpu-architecture=sm_%d%d", major, minor);
	int bad = (int)k->nvrtcCreateProgram(&program, source, "maquette.cu", 0, NULL, NULL);
	if (bad)
		return mq_fail(err, MQ_ENODEV, "NVRTC cannot start (status %d)", bad);
	bad = (int)k->nvrtcCompileProgram(program, 1, options);
	if (bad && !k->nvrtcGetProgramLogSize(program, &size) && size) {
		char *all = mq_arena_alloc(c->session->arena, size);

		if (!k->nvrtcGetProgramLog(program, all))
			snprintf(log, sizeof(log), "%.*s", (int)strcspn(all, "\n"), all);
	}
	if (!bad)
		bad = (int)k->nvrtcGetCUBINSize(program, &size);
	*cubin = bad ? NULL : mq_arena_alloc(c->session->arena, size);
	if (!bad)
		bad = (int)k->nvrtcGetCUBIN(program, *cubin);
	k->nvrtcDestroyProgram(&program);
	if (!bad)
		return MQ_OK;
	k->nvrtcVersion(&major, &minor);
	return mq_fail(
		err, MQ_ENODEV,
		"NVRTC %d.%d cannot compile for this GPU (%s, status %d): %s; take a newer one (MAQUETTE_NVRTC=FILE), "
		"or MAQUETTE_NVRTC=off to sweep memory by cuBLAS",
		major, minor, arch, bad, log);
}

enum mq_status cuda_own_open(struct cuda *c, struct mq_err *err)
{
	static const char *const names[CUDA_N_OWN] = { "sweep", "rows", "narrow", "adam", "gather" };
	char *cubin = NULL;

	MQ_TRY(compile(c, &cubin, err));
	int bad = (int)c->kit.cuModuleLoadData(&c->own_module, cubin);
	for (int i = 0; i < CUDA_N_OWN && !bad; i++)
		bad = (int)c->kit.cuModuleGetFunction(&c->own[i], c->own_module, names[i]);
	return bad ? mq_fail(err, MQ_ENODEV,
			     "rank %u: the driver does not load what NVRTC compiled (error %d): "
			     "MAQUETTE_NVRTC=FILE names another one, =off does without",
			     c->ranks->rank, bad) :
		     MQ_OK;
}

/* Launches `blocks` blocks, or as many as fill the device: grid-stride loops do the rest. */
static enum mq_status launch(struct cuda *c, enum cuda_own which, double blocks, void **arguments, cudaStream_t stream,
			     struct mq_err *err)
{
	double most = BLOCKS_PER_SM * (c->sms > 0 ? c->sms : 1);
	unsigned int grid = (unsigned int)fmin(fmax(ceil(blocks), 1), most);
	int bad = (int)c->kit.cuLaunchKernel(c->own[which], grid, 1, 1, THREADS, 1, 1, 0, stream, arguments, NULL);

	return bad ? mq_fail(err, MQ_ENODEV, "rank %u: a kernel of our own does not start (error %d)", c->ranks->rank,
			     bad) :
		     MQ_OK;
}

static enum mq_status sweep(struct cuda *c, double bytes, cudaStream_t stream, struct mq_err *err)
{
	unsigned long long n = (unsigned long long)fmax(1, llround(bytes / 48));
	const void *x = cuda_pool_in(&c->pool, CUDA_WORDS, 16 * n), *y = cuda_pool_in(&c->pool, CUDA_WORDS, 16 * n);
	void *z = cuda_pool_out(&c->pool, 16 * n);
	void *arguments[] = { (void *)&x, (void *)&y, &z, &n };

	return launch(c, CUDA_OWN_SWEEP, (double)n / THREADS, arguments, stream, err);
}

/* Rows with fewer words than a warp has threads are widened to that: frameworks do not launch mostly idle warps. */
static enum mq_status rows(struct cuda *c, double bytes, double width_B, cudaStream_t stream, struct mq_err *err)
{
	unsigned long long width = (unsigned long long)fmax(32, llround(width_B / 16));
	unsigned long long n = (unsigned long long)fmax(1, llround(bytes / (32 * (double)width)));
	const void *x = cuda_pool_in(&c->pool, CUDA_WORDS, 16 * n * width);
	void *y = cuda_pool_out(&c->pool, 16 * n * width);
	void *arguments[] = { (void *)&x, &y, &n, &width };
	bool narrow = width <= NARROW_QUADS;

	return launch(c, narrow ? CUDA_OWN_NARROW : CUDA_OWN_ROWS, narrow ? (double)n / WARPS : (double)n, arguments,
		      stream, err);
}

static enum mq_status adam(struct cuda *c, double bytes, cudaStream_t stream, struct mq_err *err)
{
	unsigned long long n = (unsigned long long)fmax(1, llround(bytes / 112));
	const void *g = cuda_pool_in(&c->pool, CUDA_WORDS, 16 * n);
	void *p = cuda_pool_out(&c->pool, 16 * n), *m = cuda_pool_out(&c->pool, 16 * n),
	     *v = cuda_pool_out(&c->pool, 16 * n);
	void *arguments[] = { (void *)&g, &p, &m, &v, &n };

	return launch(c, CUDA_OWN_ADAM, (double)n / THREADS, arguments, stream, err);
}

/* Looks up rows in a table of a quarter of the pool. */
static enum mq_status gather(struct cuda *c, double bytes, double width_B, cudaStream_t stream, struct mq_err *err)
{
	unsigned long long width = (unsigned long long)fmax(1, llround(fmin(width_B, (double)c->pool.size / 8) / 16));
	unsigned long long n = (unsigned long long)fmax(1, llround(bytes / (32 * (double)width)));
	unsigned long long height = c->pool.size / 4 / (16 * width);
	const void *index = cuda_pool_in(&c->pool, CUDA_WORDS, 4 * n),
		   *table = cuda_pool_in(&c->pool, CUDA_WORDS, 16 * width * height);
	void *out = cuda_pool_out(&c->pool, 16 * width * n);
	void *arguments[] = { (void *)&index, (void *)&table, &out, &n, &width, &height };

	return launch(c, CUDA_OWN_GATHER, (double)n / WARPS, arguments, stream, err);
}

/* Runs the kernel in its number of launches, in more if one would not fit the pool (adam has most operands there,
 * three). */
enum mq_status cuda_own_enqueue(struct cuda *c, const struct mq_kernel *k, cudaStream_t stream, struct mq_err *err)
{
	double launches = fmax(k->launches, 1), most = (double)c->pool.size;
	double parts = fmax(launches, ceil(k->bytes / most)), part = k->bytes / parts;
	double row_B = k->n * mq_dtype_size((enum mq_dtype)k->dtype);

	for (double i = 0; i < parts; i++) {
		if (k->kind == MQ_KERNEL_OPTIMIZER)
			MQ_TRY(adam(c, part, stream, err));
		else if (k->kind == MQ_KERNEL_EMBEDDING)
			MQ_TRY(gather(c, part, row_B > 0 ? row_B : USUAL_ROW_B, stream, err));
		else if (k->n > 0)
			MQ_TRY(rows(c, part, fmin(row_B, most / 2), stream, err));
		else
			MQ_TRY(sweep(c, part, stream, err));
	}
	return MQ_OK;
}
