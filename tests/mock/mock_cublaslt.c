/*
 * mock_cublaslt.c - fp8 products of cublasLt: see mock.h. Descriptors mean something: operands in fp8 along the depth, A
 * transposed, sixteens, scales in device memory, a result in bf16, the workspace that was asked for.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "mock.h"
#include "planted.h"

struct desc {
	int compute, scale_type;
	int32_t transposed[2];
	const float *scale[2];
	int8_t fast;
};
struct layout {
	cudaDataType type;
	uint64_t rows, cols;
	int64_t ld, stride;
	int32_t count;
};
enum { WORKSPACE_B = 4 << 20, ALGORITHM = 21 };

MOCK_API size_t cublasLtGetVersion(void)
{
	return 130100;
}

MOCK_API cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
	*handle = calloc(1, 1);
	return (cublasStatus_t)0;
}

MOCK_API cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
	free(handle);
	return (cublasStatus_t)0;
}

MOCK_API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
						 cudaDataType scale)
{
	struct desc *d = calloc(1, sizeof(*d));

	d->compute = (int)compute;
	d->scale_type = (int)scale;
	*desc = (cublasLtMatmulDesc_t)(void *)d;
	return (cublasStatus_t)0;
}

static cublasStatus_t put(void *to, size_t want, const void *value, size_t size)
{
	if (size != want)
		return (cublasStatus_t)7;
	memcpy(to, value, size);
	return (cublasStatus_t)0;
}

MOCK_API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
						       cublasLtMatmulDescAttributes_t attribute, const void *value,
						       size_t size)
{
	struct desc *d = (void *)desc;

	switch ((int)attribute) {
	case CUBLASLT_MATMUL_DESC_TRANSA:
	case CUBLASLT_MATMUL_DESC_TRANSB:
		return put(&d->transposed[(int)attribute == CUBLASLT_MATMUL_DESC_TRANSB], sizeof(int32_t), value, size);
	case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
	case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
		return put(&d->scale[(int)attribute == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER], sizeof(float *), value,
			   size);
	case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
		return put(&d->fast, sizeof(int8_t), value, size);
	default:
		return (cublasStatus_t)7;
	}
}

MOCK_API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
						   uint64_t cols, int64_t ld)
{
	struct layout *l = calloc(1, sizeof(*l));

	*l = (struct layout){ .type = type, .rows = rows, .cols = cols, .ld = ld, .count = 1 };
	*layout = (cublasLtMatrixLayout_t)(void *)l;
	return (cublasStatus_t)0;
}

MOCK_API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
							 cublasLtMatrixLayoutAttribute_t attribute, const void *value,
							 size_t size)
{
	struct layout *l = (void *)layout;

	if ((int)attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
		return put(&l->count, sizeof(l->count), value, size);
	if ((int)attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
		return put(&l->stride, sizeof(l->stride), value, size);
	return (cublasStatus_t)7;
}

MOCK_API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
	*preference = calloc(1, sizeof(uint64_t));
	return (cublasStatus_t)0;
}

MOCK_API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
	free(preference);
	return (cublasStatus_t)0;
}

MOCK_API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
							     cublasLtMatmulPreferenceAttributes_t attribute,
							     const void *value, size_t size)
{
	return (int)attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ?
		       put(preference, sizeof(uint64_t), value, size) :
		       (cublasStatus_t)7;
}

static int is_fp8(const struct layout *l)
{
	return (int)l->type == CUDA_R_8F_E4M3 || (int)l->type == CUDA_R_8F_E5M2;
}

/* What the real library runs; 15: it has no kernel for it. */
static int supported(const struct desc *d, const struct layout *a, const struct layout *b, const struct layout *c)
{
	int shapes = a->rows == b->rows && c->rows == a->cols && c->cols == b->cols && a->count == b->count &&
		     a->count == c->count;
	int types = is_fp8(a) && is_fp8(b) && (int)c->type == CUDA_R_16BF &&
		    !((int)a->type == CUDA_R_8F_E5M2 && (int)b->type == CUDA_R_8F_E5M2);

	return d->compute == CUBLAS_COMPUTE_32F && d->scale_type == CUDA_R_32F && d->transposed[0] == CUBLAS_OP_T &&
	       d->transposed[1] == CUBLAS_OP_N && shapes && types && a->rows % 16 == 0 && a->cols % 16 == 0 &&
	       b->cols % 16 == 0;
}

MOCK_API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
						       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
						       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
						       cublasLtMatmulPreference_t preference, int asked,
						       cublasLtMatmulHeuristicResult_t *result, int *found)
{
	*found = 0;
	if (c != d || !supported((void *)desc, (void *)a, (void *)b, (void *)d) ||
	    *(uint64_t *)(void *)preference < WORKSPACE_B)
		return (cublasStatus_t)15;
	memset(result, 0, sizeof(*result));
	result->algo.data[0] = ALGORITHM;
	result->workspaceSize = WORKSPACE_B;
	*found = 1;
	return (cublasStatus_t)0;
}

static void check_operand(const void *at, const struct layout *l, double size, const char *what)
{
	if (l->ld < (int64_t)l->rows)
		mock_wrong("%s: leading dimension %ld of %lu rows", what, (long)l->ld, (unsigned long)l->rows);
	if (l->count > 1 && l->stride < l->ld * (int64_t)l->cols)
		mock_wrong("%s: products of a batch lie %ld apart", what, (long)l->stride);
	mock_extent(
		at,
		size * ((double)l->ld * (double)(l->cols - 1) + (double)l->rows + (double)l->stride * (l->count - 1)),
		what);
}

MOCK_API cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
				       const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
				       cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
				       cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
				       const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_B,
				       cudaStream_t stream)
{
	const struct layout *la = (void *)a_layout, *lb = (void *)b_layout, *ld = (void *)d_layout;
	const struct desc *m = (void *)desc;

	if (!supported(m, la, lb, ld) || algo->data[0] != ALGORITHM)
		mock_wrong("an fp8 product that cublasLt has not");
	if (workspace_B < WORKSPACE_B)
		mock_wrong("an fp8 product without its workspace");
	mock_extent(workspace, WORKSPACE_B, "workspace of an fp8 product");
	check_operand(a, la, 1, "A of an fp8 product");
	check_operand(b, lb, 1, "B of an fp8 product");
	check_operand(d, ld, 2, "D of an fp8 product");
	mock_numbers(a, 4, 3, "A of an fp8 product");
	mock_numbers(b, (int)lb->type == CUDA_R_8F_E5M2 ? 5 : 4, (int)lb->type == CUDA_R_8F_E5M2 ? 2 : 3,
		     "B of an fp8 product");
	for (int i = 0; i < 2; i++) {
		const float *scale = m->scale[i] ? mock_data(m->scale[i], sizeof(float)) : NULL;

		if (!scale || *scale != 1)
			mock_wrong("operand %d of an fp8 product has no scale in device memory", i);
	}
	mock_log(stream, "lt %s %s %lu %lu %lu %d%s", (int)la->type == CUDA_R_8F_E4M3 ? "e4m3" : "e5m2",
		 (int)lb->type == CUDA_R_8F_E4M3 ? "e4m3" : "e5m2", (unsigned long)lb->cols, (unsigned long)la->cols,
		 (unsigned long)la->rows, la->count, m->fast ? " fast" : "");
	struct mq_device_calib truth = planted();
	mock_enqueue(stream,
		     (struct mock_op){ .kind = MOCK_WORK,
				       .seconds = mq_cost_gemm(&truth, MQ_FP8, (double)lb->cols, (double)la->cols,
							       (double)la->rows, la->count) });
	return (cublasStatus_t)0;
}
