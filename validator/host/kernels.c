/* kernels.c - runs a schedule's kernels on CPU cores: GEMMs by OpenBLAS, memory-bound kernels as streaming loops over
 * the schedule's bytes.
 *
 * Attention is run as its two GEMMs per head (five in the backward pass) with a softmax sweep between them;
 * convolutions as the implicit GEMM, without unfolding (im2col). Timed kernels (profiled models) spin for their time.
 *
 * Not supported: 16-bit and 8-bit types, for which OpenBLAS has no general routine.
 * SPDX-License-Identifier: Apache-2.0 */
#include <cblas.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "maquette/rng.h"
#include "host/host.h"

/* Vectorises loops for the machine's instruction set; -O2 alone would leave them scalar. */
#define STREAM __attribute__((optimize("O3"), target_clones("avx512f", "avx2", "default")))

enum { LINE = 64, SKEW = 320 /* keeps operands of equal size in different cache sets */, DRAWN = 8 << 20 };

/* ---- operands -------------------------------------------------------------------------------- */

enum mq_status host_pool_init(struct host_pool *pool, size_t size, uint64_t seed, struct mq_err *err)
{
	size_t drawn = size < DRAWN ? size : DRAWN;
	struct mq_rng rng;

	pool->size = size;
	for (int i = 0; i < 2; i++) {
		void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (pages == MAP_FAILED)
			return mq_fail(err, MQ_ENODEV, "2 x %zu B for operands cannot be had: %s", size,
				       strerror(errno));
		madvise(pages, size, MADV_HUGEPAGE);
		*(i ? &pool->out : &pool->in) = pages;
	}
	mq_rng_seed(&rng, seed);
	float *in = (float *)(void *)pool->in;
	for (size_t i = 0; i < drawn / sizeof(float); i += 2) {
		uint64_t bits = mq_rng_next(&rng);

		/* +-[0.25, 1): as pairs they are normal doubles too */
		in[i] = (float)(.25 + .75 * (double)(bits >> 40) * 0x1p-24) * (bits & 1 ? 1.f : -1.f);
		in[i + 1] = (float)(.25 + .75 * (double)(bits >> 16 & 0xffffff) * 0x1p-24) * (bits & 2 ? 1.f : -1.f);
	}
	for (size_t have = drawn; have < size; have *= 2) /* repeat the drawn ones: drawing all would take too long */
		memcpy(pool->in + have, pool->in, size - have < have ? size - have : have);
	memset(pool->out, 0, size);
	return MQ_OK;
}

void host_pool_fini(struct host_pool *pool)
{
	if (pool->in)
		munmap(pool->in, pool->size);
	if (pool->out)
		munmap(pool->out, pool->size);
	memset(pool, 0, sizeof(*pool));
}

void *host_pool_in(struct host_pool *pool, size_t bytes)
{
	mq_assert(bytes <= pool->size); /* host_kernel_need */
	return mq_pool_take(pool->in, &pool->in_at, pool->size, bytes, SKEW, LINE);
}

void *host_pool_out(struct host_pool *pool, size_t bytes)
{
	mq_assert(bytes <= pool->size); /* host_kernel_need */
	return mq_pool_take(pool->out, &pool->out_at, pool->size, bytes, SKEW, LINE);
}

/* ---- loops ----------------------------------------------------------------------------------- */

STREAM static void stream_scale(float *restrict y, const float *restrict x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] = x[i] * 1.0009765625f + 0.5f;
}

/* Adam: reads parameter, gradient and two moments, writes parameter and moments. */
STREAM static void stream_adam(float *restrict out, const float *restrict in, size_t n)
{
	const float *g = in + n, *m = in + 2 * n, *v = in + 3 * n;

	for (size_t i = 0; i < n; i++) {
		float m1 = .9f * m[i] + .1f * g[i], v1 = .999f * fabsf(v[i]) + .001f * g[i] * g[i];

		out[i] = in[i] - 1e-3f * m1 / (sqrtf(v1) + 1e-8f);
		out[n + i] = m1;
		out[2 * n + i] = v1;
	}
}

/* One softmax row without the library's exp: the classic (1 + x/256)^256, which vectorises. */
STREAM static void softmax_row(float *restrict row, size_t n)
{
	float sum = 0;

	for (size_t i = 0; i < n; i++) {
		float x = row[i] * (1.f / 16);

		x = x > 8 ? 8 : x < -8 ? -8 : x;
		float e = 1 + x * (1.f / 256);
		for (int k = 0; k < 8; k++)
			e *= e;
		row[i] = e;
		sum += e;
	}
	for (size_t i = 0; i < n; i++)
		row[i] *= 1 / sum;
}

static void gather_rows(struct host_pool *pool, size_t bytes, size_t row)
{
	size_t rows = bytes / 2 / row, span = pool->size / row, at = 1;
	char *out = host_pool_out(pool, rows * row);

	for (size_t i = 0; i < rows; i++) {
		at = (at * 1103515245u + 12345u) % span; /* random enough for token ids */
		memcpy(out + i * row, pool->in + at * row, row);
	}
}

/* ---- kernels --------------------------------------------------------------------------------- */

static blasint dim(double x)
{
	return x < 1 ? 1 : x > 1e9 ? 1000000000 : (blasint)llround(x);
}

static size_t stored_size(const struct mq_kernel *k)
{
	return k->dtype == MQ_FP64 ? 8 : 4;
}

static void gemm(const struct mq_kernel *k, blasint m, blasint n, blasint depth, const void *a, const void *b, void *c)
{
	if (k->dtype == MQ_FP64)
		cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, depth, 1, a, depth, b, n, 0, c, n);
	else
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, depth, 1, a, depth, b, n, 0, c, n);
}

static void run_gemm(struct host_pool *pool, const struct mq_kernel *k, void (*poll)(void *), void *context)
{
	blasint m = dim(k->m), n = dim(k->n), depth = dim(k->k), times = dim(k->count);
	size_t size = stored_size(k);

	for (blasint i = 0; i < times; i++) {
		const void *a = host_pool_in(pool, size * (size_t)m * (size_t)depth);
		const void *b = host_pool_in(pool, size * (size_t)depth * (size_t)n);

		gemm(k, m, n, depth, a, b, host_pool_out(pool, size * (size_t)m * (size_t)n));
		if ((i & 15) == 15)
			poll(context);
	}
}

/* Per head: scores = Q K^T, softmax, context = scores V; backward: the scores again and four more GEMMs. */
static void run_attention(struct host_pool *pool, const struct mq_kernel *k, void (*poll)(void *), void *context)
{
	blasint m = dim(k->m), n = dim(k->n), depth = dim(k->k), heads = dim(k->count);
	size_t size = stored_size(k), in = size * (size_t)depth;
	int pairs = k->phase == MQ_BACKWARD ? 2 : 1;

	for (blasint h = 0; h < heads; h++) {
		const void *q = host_pool_in(pool, in * (size_t)m), *kv = host_pool_in(pool, in * (size_t)n);
		float *scores = host_pool_out(pool, size * (size_t)m * (size_t)n);
		void *out = host_pool_out(pool, in * (size_t)(m > n ? m : n));

		gemm(k, m, n, depth, q, kv, scores);
		for (blasint r = 0; r < m; r++)
			softmax_row(scores + (size_t)r * (size_t)n, (size_t)n);
		for (int i = 0; i < pairs; i++) {
			gemm(k, m, depth, n, scores, kv, out);
			if (pairs == 2)
				gemm(k, n, depth, m, scores, q, out);
		}
		poll(context);
	}
}

/* Streams over bytes in parts of at most half a pool. */
static void run_stream(struct host_pool *pool, double bytes, bool adam, void (*poll)(void *), void *context)
{
	size_t left = (size_t)fmax(bytes, 0), part = pool->size / 2;

	while (left) {
		size_t now = left < part ? left : part;

		size_t n = now / (adam ? 28 : 8);

		if (adam) /* seven words moved per element, four of them read */
			stream_adam(host_pool_out(pool, 12 * n), host_pool_in(pool, 16 * n), n);
		else
			stream_scale(host_pool_out(pool, 4 * n), host_pool_in(pool, 4 * n), n);
		left -= now;
		if (left)
			poll(context);
	}
}

void host_kernel_run(struct host_pool *pool, const struct mq_kernel *k, void (*poll)(void *), void *context)
{
	struct mq_kernel step = *k;

	switch ((enum mq_kernel_kind)k->kind) {
	case MQ_KERNEL_GEMM:
	case MQ_KERNEL_CONV:
		run_gemm(pool, k, poll, context);
		break;
	case MQ_KERNEL_ATTENTION:
		run_attention(pool, k, poll, context);
		break;
	case MQ_KERNEL_RECURRENT: /* m serial steps of [rows x k][k x n]; the FLOPs give the rows */
		step.m = k->flop / (2.0 * dim(k->m) * dim(k->n) * dim(k->k));
		step.count = 1;
		for (blasint i = 0; i < dim(k->m); i++)
			run_gemm(pool, &step, poll, context);
		break;
	case MQ_KERNEL_MEMORY:
	case MQ_KERNEL_SCAN:
		run_stream(pool, k->bytes, false, poll, context);
		break;
	case MQ_KERNEL_OPTIMIZER:
	case MQ_KERNEL_HOST_UPDATE:
		run_stream(pool, k->bytes, true, poll, context);
		break;
	case MQ_KERNEL_EMBEDDING:
		for (double left = k->bytes; left > 0; left -= (double)pool->size / 2)
			gather_rows(pool, (size_t)fmin(left, (double)pool->size / 2), 2048);
		break;
	case MQ_KERNEL_COPY:
		host_copy_run(pool, k->bytes / 2);
		break;
	case MQ_KERNEL_TIMED:
		for (double end = mq_seconds(CLOCK_MONOTONIC) + k->time_s; mq_seconds(CLOCK_MONOTONIC) < end;)
			;
		break;
	case MQ_KERNEL_CALL: /* calls of other software; here the host makes its own */
	case MQ_KERNEL_WAIT:
		break;
	case MQ_N_KERNEL_KINDS:
		mq_assert(!"a kernel kind that exists");
	}
}

void host_copy_run(struct host_pool *pool, double bytes)
{
	for (double left = bytes; left > 0; left -= (double)pool->size / 2) {
		size_t n = (size_t)fmin(left, (double)pool->size / 2);

		memcpy(host_pool_out(pool, n), host_pool_in(pool, n), n);
	}
}

static bool is_math(const struct mq_kernel *k)
{
	return k->kind == MQ_KERNEL_GEMM || k->kind == MQ_KERNEL_CONV || k->kind == MQ_KERNEL_ATTENTION ||
	       k->kind == MQ_KERNEL_RECURRENT;
}

size_t host_kernel_need(const struct mq_kernel *k)
{
	double m = dim(k->m), n = dim(k->n), depth = dim(k->k);

	if (!is_math(k))
		return 4096; /* streamed in parts */
	if (k->kind == MQ_KERNEL_RECURRENT)
		m = dim(k->flop / (2 * m * n * depth));
	/* 1e18 bytes: the allocation fails and reports it. */
	return (size_t)fmin(stored_size(k) * (m * depth + depth * n + m * n), 1e18) + 4096;
}

enum mq_status host_kernel_check(const struct mq_kernel *k, struct mq_err *err)
{
	if (is_math(k) && k->dtype != MQ_FP32 && k->dtype != MQ_TF32 && k->dtype != MQ_FP64)
		return mq_bad(
			err,
			"executor host computes in fp32 and fp64, the schedule asks for %s: lower it with --dtype fp32",
			mq_dtype_name(k->dtype));
	if (k->kind == MQ_KERNEL_ATTENTION && k->dtype == MQ_FP64)
		return mq_bad(err, "executor host has attention in fp32 only");
	return MQ_OK;
}
