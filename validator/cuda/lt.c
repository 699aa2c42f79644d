/* lt.c - GEMMs in fp8, by cublasLt: operands in e4m3, the gradient of a backward GEMM in e5m2, each with a scale in
 * device memory; sums in fp32, results in bf16.
 *
 * cublasLt needs the rows of both operands along the depth (A transposed, B not), in multiples of 16; frameworks keep a
 * transposed copy for that. Forward GEMMs use fast accumulation, like Transformer Engine.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cuda/parts.h"

enum { LT_WORKSPACE_B = 32 << 20 };

struct cuda_lt {
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t a, b, d;
	cublasLtMatmulAlgo_t algo;
	size_t a_B, b_B, d_B, workspace_B;
};

#define LT(call)                                                                                                      \
	do {                                                                                                          \
		int bad_ = (int)c->kit.call;                                                                          \
		if (bad_)                                                                                             \
			return mq_fail(err, MQ_ENODEV, "%s failed for an fp8 GEMM of %.0f x %.0f x %.0f (status %d)", \
				       #call, k->m, k->n, k->k, bad_);                                                \
	} while (0)

static enum mq_status layout(struct cuda *c, const struct mq_kernel *k, cublasLtMatrixLayout_t *at, cudaDataType type,
			     double rows, double cols, struct mq_err *err)
{
	int32_t count = (int32_t)fmax(1, k->count);
	int64_t stride = (int64_t)(rows * cols);

	LT(cublasLtMatrixLayoutCreate(at, type, (uint64_t)rows, (uint64_t)cols, (int64_t)rows));
	if (count == 1)
		return MQ_OK;
	LT(cublasLtMatrixLayoutSetAttribute(*at, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)));
	LT(cublasLtMatrixLayoutSetAttribute(*at, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)));
	return MQ_OK;
}

static enum mq_status describe(struct cuda *c, const struct mq_kernel *k, struct cuda_lt *lt, struct mq_err *err)
{
	bool backward = k->phase == MQ_BACKWARD;
	int32_t ta = CUBLAS_OP_T, tb = CUBLAS_OP_N;
	int8_t fast = !backward;
	const float *scale = c->scale;

	LT(cublasLtMatmulDescCreate(&lt->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
	LT(cublasLtMatmulDescSetAttribute(lt->desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof(ta)));
	LT(cublasLtMatmulDescSetAttribute(lt->desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof(tb)));
	LT(cublasLtMatmulDescSetAttribute(lt->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &scale, sizeof(scale)));
	LT(cublasLtMatmulDescSetAttribute(lt->desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &scale, sizeof(scale)));
	LT(cublasLtMatmulDescSetAttribute(lt->desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof(fast)));
	/* Row-major [m x k][k x n] is column-major [n x k][k x m]. */
	MQ_TRY(layout(c, k, &lt->a, CUDA_R_8F_E4M3, k->k, k->n, err));
	MQ_TRY(layout(c, k, &lt->b, backward ? CUDA_R_8F_E5M2 : CUDA_R_8F_E4M3, k->k, k->m, err));
	return layout(c, k, &lt->d, CUDA_R_16BF, k->n, k->m, err);
}

static enum mq_status choose(struct cuda *c, const struct mq_kernel *k, struct cuda_lt *lt, struct mq_err *err)
{
	cublasLtMatmulHeuristicResult_t result;
	cublasLtMatmulPreference_t preference;
	uint64_t most = LT_WORKSPACE_B;
	int found = 0;

	LT(cublasLtMatmulPreferenceCreate(&preference));
	LT(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
						sizeof(most)));
	int bad = (int)c->kit.cublasLtMatmulAlgoGetHeuristic(c->lt_handle, lt->desc, lt->a, lt->b, lt->d, lt->d,
							     preference, 1, &result, &found);
	c->kit.cublasLtMatmulPreferenceDestroy(preference);
	if (bad || !found)
		return mq_bad(
			err,
			"cublasLt has no fp8 kernel on this GPU for %.0f x %.0f x %.0f (status %d): it wants compute "
			"capability 8.9 or above and multiples of 16",
			k->m, k->n, k->k, bad);
	lt->algo = result.algo;
	lt->workspace_B = result.workspaceSize;
	return MQ_OK;
}

enum mq_status cuda_lt_prepare(struct cuda *c, const struct mq_kernel *k, struct cuda_lt **plan, size_t *workspace_B,
			       struct mq_err *err)
{
	struct cuda_lt *lt = mq_arena_array(c->session->arena, 1, struct cuda_lt);
	static const float one = 1;
	double count = fmax(1, k->count);

	if (!c->lt_handle)
		LT(cublasLtCreate(&c->lt_handle));
	if (!c->scale) {
		CUDA_TRY(c, cudaMalloc((void **)&c->scale, sizeof(one)));
		CUDA_TRY(c, cudaMemcpy(c->scale, &one, sizeof(one), cudaMemcpyHostToDevice));
	}
	MQ_TRY(describe(c, k, lt, err));
	MQ_TRY(choose(c, k, lt, err));
	lt->a_B = (size_t)(count * k->k * k->n);
	lt->b_B = (size_t)(count * k->k * k->m);
	lt->d_B = (size_t)(count * 2 * k->m * k->n);
	*workspace_B = lt->workspace_B;
	*plan = lt;
	return MQ_OK;
}

enum mq_status cuda_lt_enqueue(struct cuda *c, const struct cuda_lt *lt, const struct mq_kernel *k, void *workspace,
			       cudaStream_t stream, struct mq_err *err)
{
	static const float one = 1, zero = 0;
	const void *a = cuda_pool_in(&c->pool, CUDA_E4M3, lt->a_B);
	const void *b = cuda_pool_in(&c->pool, k->phase == MQ_BACKWARD ? CUDA_E5M2 : CUDA_E4M3, lt->b_B);
	void *d = cuda_pool_out(&c->pool, lt->d_B);

	LT(cublasLtMatmul(c->lt_handle, lt->desc, &one, a, lt->a, b, lt->b, &zero, d, lt->d, d, lt->d, &lt->algo,
			  workspace, lt->workspace_B, stream));
	return MQ_OK;
}
