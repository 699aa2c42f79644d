/*
 * mock_cublas.c - products and sweeps that last as the planted parameters say: see mock.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "mock.h"
#include "planted.h"

static cudaStream_t current;

static enum mq_dtype dtype_of(cudaDataType type, cublasComputeType_t compute)
{
	if (compute == CUBLAS_COMPUTE_32F_FAST_TF32)
		return MQ_TF32;
	switch ((int)type) {
	case CUDA_R_16F:
		return MQ_FP16;
	case CUDA_R_16BF:
		return MQ_BF16;
	case CUDA_R_64F:
		return MQ_FP64;
	default:
		return MQ_FP32;
	}
}

struct operand {
	const void *at;
	cudaDataType type;
	int ld;
	long long stride;
	cublasOperation_t op;
};

static double size_of(cudaDataType type)
{
	return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

/* count matrices of rows x cols, column-major, before or after they are transposed. */
static void check_operand(const struct operand *o, int rows, int cols, int count, const char *what)
{
	if (o->op == CUBLAS_OP_T) {
		int swap = rows;

		rows = cols;
		cols = swap;
	}
	double one = (double)o->ld * (cols - 1) + rows;

	if (o->ld < rows)
		mock_wrong("%s: leading dimension %d of %d rows", what, o->ld, rows);
	mock_extent(o->at, size_of(o->type) * (one + (double)o->stride * (count - 1)), what);
}

static void check_numbers(const struct operand *o, const char *what)
{
	if (o->type == CUDA_R_16F)
		mock_numbers(o->at, 5, 10, what);
	else if (o->type == CUDA_R_16BF)
		mock_numbers(o->at, 8, 7, what);
}

static cublasStatus_t product(const struct operand op[3], cublasComputeType_t compute, int m, int n, int k, int count)
{
	struct mq_device_calib d = planted();
	enum mq_dtype dtype = dtype_of(op[0].type, compute);

	check_operand(&op[0], m, k, count, "A of a product");
	check_operand(&op[1], k, n, count, "B of a product");
	check_operand(&op[2], m, n, count, "C of a product");
	check_numbers(&op[0], "A of a product");
	check_numbers(&op[1], "B of a product");
	/* Results of batched products may not overlap. */
	if (count > 1 && op[2].stride < (long long)op[2].ld * n)
		mock_wrong("C of a product: stride %lld of %d x %d", op[2].stride, m, n);
	mock_log(current, "gemm %s %d %d %d %d", mq_dtype_name(dtype), n, m, k, count);
	/* Row-major products come with m and n swapped. */
	double seconds = mq_cost_gemm(&d, dtype, n, m, k, count);

	mock_enqueue(current, (struct mock_op){ .kind = MOCK_WORK, .seconds = seconds });
	return (cublasStatus_t)0;
}

MOCK_API cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
	*handle = (cublasHandle_t)(void *)&current;
	return (cublasStatus_t)0;
}

MOCK_API cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
	return (cublasStatus_t)0;
}

MOCK_API cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version)
{
	*version = 10000 * mock_major((void *)(intptr_t)cublasGetVersion_v2, "libcublas.so.") + 100;
	return (cublasStatus_t)0;
}

MOCK_API cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
	current = stream;
	return (cublasStatus_t)0;
}

MOCK_API cublasStatus_t cublasSaxpy_v2(cublasHandle_t handle, int n, const float *alpha, const float *x, int incx,
				       float *y, int incy)
{
	double seconds = 12.0 * n / (MOCK_MEM_BPS * MOCK_SWEEP_SHARE) + MOCK_LAUNCH_S;

	mock_extent(x, 4. * n, "x of an axpy");
	mock_extent(y, 4. * n, "y of an axpy");
	mock_log(current, "sweep %d", n);
	mock_enqueue(current, (struct mock_op){ .kind = MOCK_WORK, .seconds = seconds });
	return (cublasStatus_t)0;
}

MOCK_API cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
				     int k, const void *alpha, const void *a, cudaDataType ta_type, int lda,
				     const void *b, cudaDataType tb_type, int ldb, const void *beta, void *c,
				     cudaDataType tc_type, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
	const struct operand op[3] = { { a, ta_type, lda, 0, ta },
				       { b, tb_type, ldb, 0, tb },
				       { c, tc_type, ldc, 0, CUBLAS_OP_N } };

	return product(op, compute, m, n, k, 1);
}

MOCK_API cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
						   int m, int n, int k, const void *alpha, const void *a,
						   cudaDataType ta_type, int lda, long long int stride_a, const void *b,
						   cudaDataType tb_type, int ldb, long long int stride_b,
						   const void *beta, void *c, cudaDataType tc_type, int ldc,
						   long long int stride_c, int count, cublasComputeType_t compute,
						   cublasGemmAlgo_t algo)
{
	const struct operand op[3] = { { a, ta_type, lda, stride_a, ta },
				       { b, tb_type, ldb, stride_b, tb },
				       { c, tc_type, ldc, stride_c, CUBLAS_OP_N } };

	return product(op, compute, m, n, k, count);
}

/* Groups of one product each: whose operands lie in device memory, as their addresses do; no two results overlap. */
MOCK_API cublasStatus_t cublasGemmGroupedBatchedEx(cublasHandle_t handle, const cublasOperation_t ta[],
						   const cublasOperation_t tb[], const int m[], const int n[],
						   const int k[], const void *alpha, const void *const a[],
						   cudaDataType ta_type, const int lda[], const void *const b[],
						   cudaDataType tb_type, const int ldb[], const void *beta,
						   void *const c[], cudaDataType tc_type, const int ldc[], int groups,
						   const int size[], cublasComputeType_t compute)
{
	size_t bytes = (size_t)groups * sizeof(void *);
	const void *const *at[3] = { mock_data(a, bytes), mock_data(b, bytes), mock_data(c, bytes) };
	enum mq_dtype dtype = dtype_of(ta_type, compute);
	struct mq_device_calib d = planted();
	char text[8192] = "";
	double seconds = 0;
	int used = 0;

	for (int i = 0; i < groups && at[0] && at[1] && at[2]; i++) {
		const struct operand op[3] = { { at[0][i], ta_type, lda[i], 0, ta[i] },
					       { at[1][i], tb_type, ldb[i], 0, tb[i] },
					       { at[2][i], tc_type, ldc[i], 0, CUBLAS_OP_N } };
		double one = ta_type == CUDA_R_64F ? ((const double *)alpha)[i] : (double)((const float *)alpha)[i];
		double zero = ta_type == CUDA_R_64F ? ((const double *)beta)[i] : (double)((const float *)beta)[i];

		check_operand(&op[0], m[i], k[i], 1, "A of a group");
		check_operand(&op[1], k[i], n[i], 1, "B of a group");
		check_operand(&op[2], m[i], n[i], 1, "C of a group");
		check_numbers(&op[0], "A of a group");
		check_numbers(&op[1], "B of a group");
		for (int o = 0; o < 3; o++)
			if ((uintptr_t)at[o][i] % 16)
				mock_wrong("a group's operand %d lies at no multiple of 16", o);
		for (int j = 0; j < i; j++)
			if ((const char *)at[2][i] <
				    (const char *)at[2][j] + (size_t)(size_of(tc_type) * m[j] * n[j]) &&
			    (const char *)at[2][j] < (const char *)at[2][i] + (size_t)(size_of(tc_type) * m[i] * n[i]))
				mock_wrong("results of groups %d and %d overlap", j, i);
		if (size[i] != 1 || one != 1 || zero != 0)
			mock_wrong("group %d: %d products, alpha %g, beta %g", i, size[i], one, zero);
		if ((size_t)used < sizeof(text))
			used += snprintf(text + used, sizeof(text) - (size_t)used, " %dx%dx%d", n[i], m[i], k[i]);
		seconds += mq_cost_gemm(&d, dtype, n[i], m[i], k[i], 1) - d.gemm_t0_s;
	}
	if (!at[0] || !at[1] || !at[2])
		mock_wrong("addresses of grouped products are not in device memory");
	mock_log(current, "grouped %s%s", mq_dtype_name(dtype), text);
	mock_enqueue(current, (struct mock_op){ .kind = MOCK_WORK, .seconds = seconds + d.gemm_t0_s });
	return (cublasStatus_t)0;
}
