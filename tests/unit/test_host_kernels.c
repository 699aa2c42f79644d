/*
 * test_host_kernels.c - what the kernels of executor host compute: products are the products of their
 * operands, and memory-bound kernels touch as many bytes as the schedule states.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "host/kernels.c"

enum { POOL_B = 32 << 20 };

static int n_polls;

static void polled(void *context)
{
	n_polls++;
}

static struct host_pool new_pool(void)
{
	struct host_pool pool = { 0 };
	struct mq_err err = MQ_ERR_INIT;

	assert_int_equal(host_pool_init(&pool, POOL_B, 7, &err), MQ_OK);
	return pool;
}

/* Bytes of the results' pool that are no longer zero, of words that a kernel would not write as zero. */
static size_t written_B(const struct host_pool *pool)
{
	size_t n = 0;

	for (size_t i = 0; i < pool->size / 4; i++)
		n += ((const uint32_t *)(const void *)pool->out)[i] != 0;
	return 4 * n;
}

static void run(struct host_pool *pool, struct mq_kernel kernel)
{
	struct mq_err err = MQ_ERR_INIT;

	kernel.count = kernel.count > 0 ? kernel.count : 1;
	assert_int_equal(host_kernel_check(&kernel, &err), MQ_OK);
	host_kernel_run(pool, &kernel, polled, NULL);
}

/* The first result lies at the pool's start, its operands at the start of theirs. */
static void products(void **state)
{
	enum { M = 5, N = 7, K = 11 };
	struct host_pool pool = new_pool();
	const float *a = (const float *)(const void *)pool.in;
	const float *b = (const float *)(const void *)(pool.in + (4 * M * K + SKEW + LINE - 1) / LINE * LINE);
	const float *c = (const float *)(const void *)pool.out;

	run(&pool, (struct mq_kernel){ .kind = MQ_KERNEL_GEMM, .m = M, .n = N, .k = K });
	for (int i = 0; i < M; i++)
		for (int j = 0; j < N; j++) {
			double sum = 0;

			for (int k = 0; k < K; k++)
				sum += (double)a[i * K + k] * (double)b[k * N + j];
			assert_true(fabs(sum - (double)c[i * N + j]) < 1e-4);
		}
	assert_int_equal(written_B(&pool), 4 * M * N);
	host_pool_fini(&pool);
}

static void batched_products(void **state)
{
	struct host_pool pool = new_pool();

	n_polls = 0;
	run(&pool, (struct mq_kernel){ .kind = MQ_KERNEL_GEMM, .m = 6, .n = 10, .k = 3, .count = 37 });
	assert_int_equal(written_B(&pool), 37 * 4 * 6 * 10);
	assert_int_equal(n_polls, 2); /* communication moves on every 16 */
	host_pool_fini(&pool);
	pool = new_pool();
	run(&pool, (struct mq_kernel){ .kind = MQ_KERNEL_GEMM, .dtype = MQ_FP64, .m = 6, .n = 10, .k = 3 });
	assert_int_equal(written_B(&pool), 8 * 6 * 10);
	host_pool_fini(&pool);
}

/* 48 steps of [rows x 16][16 x 32], rows from the FLOPs. */
static void recurrent(void **state)
{
	struct host_pool pool = new_pool();

	run(&pool, (struct mq_kernel){
			   .kind = MQ_KERNEL_RECURRENT, .m = 48, .n = 32, .k = 16, .flop = 48. * 2 * 9 * 32 * 16 });
	assert_int_equal(written_B(&pool), 48 * 4 * 9 * 32);
	host_pool_fini(&pool);
}

static void streams(void **state)
{
	static const struct {
		uint8_t kind;
		double bytes;
		size_t written;
	} cases[] = {
		{ MQ_KERNEL_MEMORY, 8e6, 4000000 },       { MQ_KERNEL_SCAN, 2e6, 1000000 },
		{ MQ_KERNEL_OPTIMIZER, 2.8e6, 1200000 },  { MQ_KERNEL_HOST_UPDATE, 2.8e6, 1200000 },
		{ MQ_KERNEL_EMBEDDING, 4096e3, 2048000 }, { MQ_KERNEL_COPY, 6e6, 3000000 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct host_pool pool = new_pool();

		run(&pool, (struct mq_kernel){ .kind = cases[i].kind, .bytes = cases[i].bytes });
		assert_int_equal(written_B(&pool), cases[i].written);
		host_pool_fini(&pool);
	}
}

/* More than the pool holds is walked in parts, communication polled between them. */
static void long_stream(void **state)
{
	struct host_pool pool = new_pool();

	n_polls = 0;
	run(&pool, (struct mq_kernel){ .kind = MQ_KERNEL_MEMORY, .bytes = 5.5 * POOL_B });
	assert_int_equal(n_polls, 10);
	host_pool_fini(&pool);
}

static void host_copy(void **state)
{
	struct host_pool pool = new_pool();

	host_copy_run(&pool, 1234567 * 4);
	assert_int_equal(written_B(&pool), 1234567 * 4);
	assert_memory_equal(pool.in, pool.out, 1234567 * 4);
	host_pool_fini(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products), cmocka_unit_test(batched_products), cmocka_unit_test(recurrent),
		cmocka_unit_test(streams),  cmocka_unit_test(long_stream),      cmocka_unit_test(host_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
