/* kernels.c - runs the kernels of a schedule on a GPU by the libraries that frameworks use.
 *
 * GEMMs: cublasGemmEx, batched ones by their strided form, row-major operands by swapping A and B; in a forward pass
 * the second operand is transposed, like a layer's weights and the keys of attention (Hopper's tensor cores take tf32
 * in that layout alone). GEMMs of experts, with rows distributed as evenly as possible: cublasGemmEx for each if that
 * fills the GPU, else cublasGemmGroupedBatchedEx. fp8: cublasLt (lt.c), experts as a strided batch. Convolutions: cuDNN
 * (dnn.c); if the image is unknown, or cuDNN is off, the implicit GEMM. Memory-bound kernels, norms, softmaxes,
 * optimizers and embeddings: own kernels (kernels_own.c) with NVRTC; else y += a x over the given bytes (two thirds
 * read, one third written; cuBLAS axpy runs at memory speed), and copies. Packs: device-to-device copies. Attention:
 * cuDNN (attention.c); if that cannot run it, its two GEMMs per head (four in the backward pass) without the softmax.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cuda/parts.h"

struct types {
	cudaDataType stored;
	cublasComputeType_t compute;
	size_t size;
};

static bool types_of(enum mq_dtype dtype, struct types *t)
{
	static const struct types types[MQ_N_DTYPES] = { [MQ_FP32] = { CUDA_R_32F, CUBLAS_COMPUTE_32F, 4 },
							 [MQ_TF32] = { CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 4 },
							 [MQ_FP16] = { CUDA_R_16F, CUBLAS_COMPUTE_32F, 2 },
							 [MQ_BF16] = { CUDA_R_16BF, CUBLAS_COMPUTE_32F, 2 },
							 [MQ_FP64] = { CUDA_R_64F, CUBLAS_COMPUTE_64F, 8 } };

	*t = dtype < MQ_N_DTYPES ? types[dtype] : (struct types){ .size = 0 };
	return t->size > 0;
}

static int dim(double x)
{
	return x < 1 ? 1 : x > 1e9 ? 1000000000 : (int)llround(x);
}

static bool is_gemm(const struct mq_kernel *k)
{
	return k->kind == MQ_KERNEL_GEMM || k->kind == MQ_KERNEL_CONV || k->kind == MQ_KERNEL_ATTENTION ||
	       k->kind == MQ_KERNEL_RECURRENT;
}

/* Does cublasLt run the GEMM? */
static bool is_fp8(const struct mq_kernel *k)
{
	return k->kind == MQ_KERNEL_GEMM && k->dtype == MQ_FP8;
}

/* Is it a GEMM of experts that cuBLAS runs, in one call or one per expert (prepare_grouped)? */
static bool is_grouped(const struct mq_kernel *k)
{
	return k->kind == MQ_KERNEL_GEMM && k->grouped && k->count >= 1.5 && !is_fp8(k);
}

static bool is_swept(const struct mq_kernel *k)
{
	return k->kind == MQ_KERNEL_MEMORY || k->kind == MQ_KERNEL_OPTIMIZER || k->kind == MQ_KERNEL_EMBEDDING;
}

enum mq_status cuda_kernel_check(const struct mq_kernel *k, struct mq_err *err)
{
	struct types t;

	if (is_gemm(k) && !types_of(k->dtype, &t) && !is_fp8(k))
		return mq_bad(err,
			      "executor cuda multiplies fp32, tf32, fp16, bf16 and fp64, and fp8 in plain GEMMs; the "
			      "schedule asks for %s in %s kernels",
			      mq_dtype_name(k->dtype), mq_kernel_kind_name(k->kind));
	if (k->kind == MQ_KERNEL_HOST_UPDATE)
		return mq_bad(
			err,
			"executor cuda runs no optimizer on the host's CPU: replay plans without offload_optimizer");
	if (k->kind == MQ_KERNEL_TIMED)
		return mq_bad(
			err,
			"the schedule's kernels are known by profiled times only: there is nothing to run on a GPU");
	return MQ_OK;
}

static double rows_of(const struct mq_kernel *k)
{
	if (k->kind != MQ_KERNEL_RECURRENT)
		return fmax(k->m, 1);
	return fmin(fmax(1, k->flop / (2 * fmax(k->m, 1) * fmax(k->n, 1) * fmax(k->k, 1))), 1e9);
}

size_t cuda_kernel_need(const struct mq_kernel *k)
{
	struct types t;
	double m = rows_of(k), n = fmax(k->n, 1), depth = fmax(k->k, 1);
	bool batched = k->kind == MQ_KERNEL_GEMM || k->kind == MQ_KERNEL_ATTENTION;

	if (is_fp8(k))
		t.size = 2; /* of the result */
	else if (!is_gemm(k) || !types_of(k->dtype, &t))
		return 65536; /* streamed in parts */
	/* 1e18 bytes: the allocation fails and reports it. */
	return (size_t)fmin(fmax((double)t.size * (batched ? fmax(k->count, 1) : 1) * (m * depth + depth * n + m * n),
				 fmax((double)cuda_dnn_need(k), (double)cuda_attention_need(k))),
			    1e18) +
	       65536;
}

static enum mq_status blas_failed(int status, struct mq_err *err)
{
	return mq_fail(err, status == 3 ? MQ_ENODEV : MQ_EINPUT, "cuBLAS failed (status %d%s)", status,
		       status == 3  ? ": out of memory" :
		       status == 15 ? ": not supported here" :
				      "");
}

/* count x [m x k][k x n], row-major: column-major it is B^T A^T; in a forward pass B is stored as [n x k], in the
 * weights' gradient A as [k x m]. */
static enum mq_status gemm(struct cuda *c, const struct mq_kernel *kernel, double rows, double cols, double deep,
			   struct mq_err *err)
{
	static const float one = 1, zero = 0;
	static const double one_d = 1, zero_d = 0;
	int m = dim(rows), n = dim(cols), k = dim(deep), count = dim(kernel->count), bad;
	struct types t;

	if (!types_of(kernel->dtype, &t))
		return mq_fail(err, MQ_EBUG, "unchecked element type");
	bool wide = kernel->dtype == MQ_FP64;
	const void *alpha = wide ? (const void *)&one_d : &one, *beta = wide ? (const void *)&zero_d : &zero;
	size_t times = (size_t)count * t.size;
	enum cuda_operand type = cuda_operand_of(kernel->dtype);
	const void *a = cuda_pool_in(&c->pool, type, times * (size_t)m * (size_t)k);
	const void *b = cuda_pool_in(&c->pool, type, times * (size_t)k * (size_t)n);
	void *out = cuda_pool_out(&c->pool, times * (size_t)m * (size_t)n);
	bool forward = kernel->phase == MQ_FORWARD, weights = kernel->of_weights;
	cublasOperation_t of_b = forward ? CUBLAS_OP_T : CUBLAS_OP_N, of_a = weights ? CUBLAS_OP_T : CUBLAS_OP_N;
	int ld_b = forward ? k : n, ld_a = weights ? m : k;
	if (count == 1)
		bad = (int)c->kit.cublasGemmEx(c->blas, of_b, of_a, n, m, k, alpha, b, t.stored, ld_b, a, t.stored,
					       ld_a, beta, out, t.stored, n, t.compute, CUBLAS_GEMM_DEFAULT);
	else
		bad = (int)c->kit.cublasGemmStridedBatchedEx(c->blas, of_b, of_a, n, m, k, alpha, b, t.stored, ld_b,
							     (long long)k * n, a, t.stored, ld_a, (long long)m * k,
							     beta, out, t.stored, n, (long long)m * n, count, t.compute,
							     CUBLAS_GEMM_DEFAULT);
	return bad ? blas_failed(bad, err) : MQ_OK;
}

/* ---- GEMMs of experts ------------------------------------------------------------------------ */

enum {
	GROUPED_SETS = 4, /* of operands, that calls walk through */
	TILE = 128        /* rows and columns of a result that one multiprocessor works at */
};

/* Arrays of [n] experts, as cuBLAS takes them: column-major, so A and B are swapped. */
struct cuda_grouped {
	int n;
	uint32_t set;
	bool apart; /* a call for each expert */
	struct types type;
	cublasOperation_t *op_b, *op_a;
	int *cols, *rows, *deep, *ld_b, *ld_a, *one;
	void *alpha, *beta;
	void **operand; /* [GROUPED_SETS][B, A, result][n]; for one call of all on the device */
};

/* Rows (weight gradient: depth) of the first i experts. */
static size_t rows_before(const struct mq_kernel *k, int i)
{
	double experts = dim(k->count);

	return (size_t)floor(i * floor((k->of_weights ? k->k : k->m) * experts + .5) / experts);
}

/* Places the experts' operands one after another, in the order of their tokens. */
static void place_experts(struct cuda *c, const struct mq_kernel *k, const struct cuda_grouped *g, void **operand)
{
	enum cuda_operand type = cuda_operand_of(k->dtype);
	size_t n = (size_t)g->n, row = g->type.size * (size_t)g->cols[0], all = rows_before(k, g->n);
	size_t wide = g->type.size * (size_t)g->ld_a[0], high = (size_t)dim(k->of_weights ? k->m : k->k);
	char *b = cuda_pool_in(&c->pool, type, row * (k->of_weights ? all : n * high));
	char *a = cuda_pool_in(&c->pool, type, wide * all);
	char *out = cuda_pool_out(&c->pool, row * (k->of_weights ? n * high : all));

	for (size_t i = 0; i < n; i++) {
		size_t before = rows_before(k, (int)i);

		operand[i] = b + row * (k->of_weights ? before : i * high);
		operand[n + i] = a + wide * before;
		operand[2 * n + i] = out + row * (k->of_weights ? i * high : before);
	}
}

static enum mq_status prepare_grouped(struct cuda *c, const struct mq_kernel *k, struct cuda_grouped **plan,
				      struct mq_err *err)
{
	struct mq_arena *arena = c->session->arena;
	struct cuda_grouped *g = mq_arena_array(arena, 1, struct cuda_grouped);
	size_t n = (size_t)dim(k->count), bytes = 3 * n * GROUPED_SETS * sizeof(void *);
	int **list[] = { &g->cols, &g->rows, &g->deep, &g->ld_b, &g->ld_a, &g->one };
	void **operand = mq_arena_alloc(arena, bytes);

	if (!types_of(k->dtype, &g->type))
		return mq_fail(err, MQ_EBUG, "unchecked element type");
	g->n = (int)n;
	g->op_b = mq_arena_array(arena, n, cublasOperation_t);
	g->op_a = mq_arena_array(arena, n, cublasOperation_t);
	for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++)
		*list[i] = mq_arena_array(arena, n, int);
	g->alpha = mq_arena_array(arena, n, double);
	g->beta = mq_arena_array(arena, n, double);
	for (int i = 0; i < g->n; i++) {
		int own = (int)(rows_before(k, i + 1) - rows_before(k, i));

		g->op_b[i] = k->phase == MQ_FORWARD ? CUBLAS_OP_T : CUBLAS_OP_N;
		g->op_a[i] = k->of_weights ? CUBLAS_OP_T : CUBLAS_OP_N;
		g->cols[i] = dim(k->n);
		g->rows[i] = k->of_weights ? dim(k->m) : own;
		g->deep[i] = k->of_weights ? own : dim(k->k);
		g->ld_b[i] = dim(k->phase == MQ_FORWARD ? k->k : k->n);
		g->ld_a[i] = dim(k->of_weights ? k->m : k->k);
		g->one[i] = 1;
		if (k->dtype == MQ_FP64)
			((double *)g->alpha)[i] = 1;
		else
			((float *)g->alpha)[i] = 1;
	}
	for (size_t set = 0; set < GROUPED_SETS; set++)
		place_experts(c, k, g, operand + 3 * n * set);
	*plan = g;
	/* GEMMs that each fill the GPU take half the time of cuBLAS' grouped call (results/kernels_h200/grouped.csv);
	 * Transformer Engine calls it for each expert too. */
	g->apart = ceil(k->m / TILE) * ceil(k->n / TILE) >= c->sms;
	g->operand = operand;
	if (g->apart)
		return MQ_OK;
	CUDA_TRY(c, cudaMalloc((void **)&g->operand, bytes));
	CUDA_TRY(c, cudaMemcpy(g->operand, operand, bytes, cudaMemcpyHostToDevice));
	return MQ_OK;
}

static enum mq_status grouped(struct cuda *c, struct cuda_grouped *g, struct mq_err *err)
{
	void **at = g->operand + 3 * (size_t)g->n * (g->set++ % GROUPED_SETS);
	const void *const *b = (const void *const *)at, *const *a = b + g->n;
	cudaDataType type = g->type.stored;
	void **out = at + 2 * g->n;
	int bad = 0;

	for (int i = 0; g->apart && i < g->n && !bad; i++)
		bad = (int)c->kit.cublasGemmEx(c->blas, g->op_b[i], g->op_a[i], g->cols[i], g->rows[i], g->deep[i],
					       g->alpha, b[i], type, g->ld_b[i], a[i], type, g->ld_a[i], g->beta,
					       out[i], type, g->cols[i], g->type.compute, CUBLAS_GEMM_DEFAULT);
	if (!g->apart)
		bad = (int)c->kit.cublasGemmGroupedBatchedEx(c->blas, g->op_b, g->op_a, g->cols, g->rows, g->deep,
							     g->alpha, b, type, g->ld_b, a, type, g->ld_a, g->beta, out,
							     type, g->cols, g->n, g->one, g->type.compute);
	return bad ? blas_failed(bad, err) : MQ_OK;
}

/* Sweeps over `bytes` in the given number of launches, in more if one would not fit the pool. */
static enum mq_status sweep(struct cuda *c, double bytes, double launches, struct mq_err *err)
{
	static const float alpha = 1.0009765625f;
	double left = fmax(bytes / 12, fmax(launches, 1));
	double part = fmin(ceil(left / fmax(launches, 1)), (double)(c->pool.size / 8));

	for (; left >= 1; left -= part) {
		int n = (int)fmin(left, fmin(part, 1e9));
		const float *x = cuda_pool_in(&c->pool, CUDA_WORDS, 4 * (size_t)n);
		int bad =
			(int)c->kit.cublasSaxpy_v2(c->blas, n, &alpha, x, 1, cuda_pool_out(&c->pool, 4 * (size_t)n), 1);

		if (bad)
			return blas_failed(bad, err);
	}
	return MQ_OK;
}

static enum mq_status pack(struct cuda *c, double bytes, double launches, cudaStream_t stream, struct mq_err *err)
{
	double left = fmax(bytes / 2, 4 * fmax(launches, 1));
	double part = fmin(ceil(left / fmax(launches, 1)), (double)(c->pool.size / 2));

	for (; left >= 1; left -= part) {
		size_t n = (size_t)fmin(left, part);

		CUDA_TRY(c, cudaMemcpyAsync(cuda_pool_out(&c->pool, n), cuda_pool_in(&c->pool, CUDA_WORDS, n), n,
					    cudaMemcpyDeviceToDevice, stream));
	}
	return MQ_OK;
}

uint32_t cuda_found(void)
{
	struct mq_toolkit kit = { 0 };
	struct mq_err ignored;
	uint32_t found = cuda_is_off("MAQUETTE_CUDNN") ? 0 : CUDA_FOUND_DNN; /* an error if it is missing */

	if (cuda_open_runtime(&kit, &ignored) == MQ_OK && cuda_open_nvrtc(&kit))
		found |= CUDA_FOUND_NVRTC;
	return found;
}

const char *cuda_imitates(const struct mq_kernel *k, uint32_t found)
{
	switch ((enum mq_kernel_kind)k->kind) {
	case MQ_KERNEL_GEMM:
		return k->grouped && is_fp8(k) ? "grouped" : NULL;
	case MQ_KERNEL_CONV:
		return found & CUDA_FOUND_DNN && cuda_dnn_runs(k) ? NULL : "conv";
	case MQ_KERNEL_ATTENTION:
		return found & CUDA_FOUND_DNN && cuda_attention_runs(k) && k->attention == MQ_ATTENTION_TE ?
			       NULL :
			       "attention";
	case MQ_KERNEL_SCAN:
		return "scan";
	case MQ_KERNEL_OPTIMIZER:
		return found & CUDA_FOUND_NVRTC ? NULL : "optimizer";
	case MQ_KERNEL_EMBEDDING:
		return found & CUDA_FOUND_NVRTC ? NULL : "embedding";
	default:
		return NULL;
	}
}

/* ---- libraries and plans --------------------------------------------------------------------- */

/* Calls `visit` with each kernel of the executor's devices, or of one rank (MQ_NONE: all). */
static enum mq_status each_kernel(const struct mq_replay_session *session, uint32_t rank,
				  enum mq_status (*visit)(void *context, const struct mq_kernel *k,
							  enum mq_stream stream, struct mq_err *err),
				  void *context, struct mq_err *err)
{
	for (uint32_t i = 0; i < session->n_schedules; i++) {
		const struct mq_schedule *s = session->schedule[i];

		for (uint32_t t = 0; t < s->n_tasks; t++) {
			const struct mq_task *task = &s->task[t];
			bool here = rank == MQ_NONE ? !strcmp(session->owner[task->device]->name, "cuda") :
						      task->device == rank;

			if (task->kind != MQ_TASK_COMPUTE || !here)
				continue;
			for (uint32_t k = 0; k < s->work[task->work].n_kernels; k++)
				MQ_TRY(visit(context, &s->work[task->work].kernel[k], (enum mq_stream)task->stream,
					     err));
		}
	}
	return MQ_OK;
}

static enum mq_status note_operands(void *context, const struct mq_kernel *k, enum mq_stream stream, struct mq_err *err)
{
	*(uint32_t *)context |= is_gemm(k) ? 1u << cuda_operand_of(k->dtype) : 0;
	if (is_fp8(k) && k->phase == MQ_BACKWARD)
		*(uint32_t *)context |= 1u << CUDA_E5M2;
	return MQ_OK;
}

uint32_t cuda_operands_read(const struct mq_replay_session *session, uint32_t rank)
{
	uint32_t read = 1u << CUDA_WORDS;
	struct mq_err never;

	return each_kernel(session, rank, note_operands, &read, &never) == MQ_OK ? read : 0;
}

static bool is_dnn(const struct mq_kernel *k)
{
	return (cuda_dnn_runs(k) || cuda_attention_runs(k)) && !cuda_is_off("MAQUETTE_CUDNN");
}

static enum mq_status ask(void *context, const struct mq_kernel *k, enum mq_stream stream, struct mq_err *err)
{
	struct mq_toolkit *kit = context;

	if (is_fp8(k) && !kit->cublasLtCreate)
		MQ_TRY(cuda_open_lt(kit, err));
	if (is_dnn(k) && !kit->cudnnCreate)
		MQ_TRY(cuda_open_dnn(kit, err));
	if (is_grouped(k) && !kit->cublasCreate_v2)
		MQ_TRY(cuda_open_blas(kit, err));
	if (is_grouped(k) && !kit->cublasGemmGroupedBatchedEx)
		return mq_fail(
			err, MQ_ENODEV,
			"the plan multiplies experts in groups, and cuBLAS has no cublasGemmGroupedBatchedEx: CUDA "
			"12.5 or newer has (MAQUETTE_CUBLAS names another)");
	if (is_swept(k) && !kit->nvrtcCreateProgram)
		cuda_open_nvrtc(kit);
	return MQ_OK;
}

enum mq_status cuda_kernels_ask(struct mq_toolkit *kit, const struct mq_replay_session *session, struct mq_err *err)
{
	return each_kernel(session, MQ_NONE, ask, kit, err);
}

static enum mq_status prepare(void *context, const struct mq_kernel *k, enum mq_stream stream, struct mq_err *err)
{
	struct cuda *c = context;
	struct cuda_prepared p = { NULL };
	size_t workspace_B = 0;

	if (is_swept(k) && c->kit.cuLaunchKernel && !c->own_module)
		return cuda_own_open(c, err);
	if (!is_fp8(k) && !is_dnn(k) && !is_grouped(k))
		return MQ_OK;
	if (mq_map_add(&c->prepared_map, (uint64_t)(uintptr_t)k) != c->n_prepared)
		return MQ_OK;
	MQ_TRY(is_grouped(k)                  ? prepare_grouped(c, k, &p.grouped, err) :
	       is_fp8(k)                      ? cuda_lt_prepare(c, k, &p.lt, &workspace_B, err) :
	       k->kind == MQ_KERNEL_ATTENTION ? cuda_attention_prepare(c, k, &p.attention, &workspace_B, err) :
						cuda_dnn_prepare(c, k, &p.dnn, &workspace_B, err));
	MQ_PUSH(c->session->arena, c->prepared, c->n_prepared, c->prepared_room, p);
	if (workspace_B > c->workspace_B[stream])
		c->workspace_B[stream] = workspace_B;
	return MQ_OK;
}

enum mq_status cuda_kernels_prepare(struct cuda *c, struct mq_err *err)
{
	CUDA_TRY(c, cudaDeviceGetAttribute(&c->sms, cudaDevAttrMultiProcessorCount, c->device));
	mq_map_init(&c->prepared_map, c->session->arena, 256);
	MQ_TRY(each_kernel(c->session, c->ranks->rank, prepare, c, err));
	for (int l = 0; l < MQ_N_STREAMS; l++)
		if (c->workspace_B[l])
			CUDA_TRY(c, cudaMalloc(&c->workspace[l], c->workspace_B[l]));
	return MQ_OK;
}

void cuda_kernels_release(struct cuda *c)
{
	for (uint32_t i = 0; i < c->n_prepared; i++)
		if (c->prepared[i].grouped && !c->prepared[i].grouped->apart)
			CUDA_DROP(c, cudaFree, c->prepared[i].grouped->operand);
}

/* ---- enqueuing ------------------------------------------------------------------------------- */

static enum mq_status with_blas(struct cuda *c, const struct mq_kernel *k, cudaStream_t stream, struct mq_err *err)
{
	switch ((enum mq_kernel_kind)k->kind) {
	case MQ_KERNEL_GEMM:
	case MQ_KERNEL_CONV:
		return gemm(c, k, k->m, k->n, k->k, err);
	case MQ_KERNEL_ATTENTION:
		MQ_TRY(gemm(c, k, k->m, k->n, k->k, err));
		MQ_TRY(gemm(c, k, k->m, k->k, k->n, err));
		for (int i = 0; i < 2 && k->phase == MQ_BACKWARD; i++)
			MQ_TRY(gemm(c, k, k->n, k->k, k->m, err));
		return MQ_OK;
	case MQ_KERNEL_RECURRENT:
		for (double step = 0; step < fmax(k->m, 1); step++)
			MQ_TRY(gemm(c, k, rows_of(k), k->n, k->k, err));
		return MQ_OK;
	case MQ_KERNEL_MEMORY:
	case MQ_KERNEL_SCAN:
	case MQ_KERNEL_OPTIMIZER:
		return sweep(c, k->bytes, k->launches, err);
	case MQ_KERNEL_EMBEDDING:
	case MQ_KERNEL_COPY:
		return pack(c, k->bytes, k->launches, stream, err);
	case MQ_KERNEL_CALL: /* calls of other software; here the host makes its own */
	case MQ_KERNEL_WAIT:
		return MQ_OK;
	case MQ_KERNEL_HOST_UPDATE:
	case MQ_KERNEL_TIMED:
	case MQ_N_KERNEL_KINDS:
		break;
	}
	return mq_fail(err, MQ_EBUG, "a kernel that was checked cannot run");
}

enum mq_status cuda_kernel_enqueue(struct cuda *c, const struct mq_kernel *k, enum mq_stream on, struct mq_err *err)
{
	cudaStream_t stream = c->stream[on];
	bool made = is_fp8(k) || is_grouped(k) || k->kind == MQ_KERNEL_CONV || k->kind == MQ_KERNEL_ATTENTION;
	uint32_t at = made ? mq_map_find(&c->prepared_map, (uint64_t)(uintptr_t)k) : MQ_NONE;
	const struct cuda_prepared *p = at == MQ_NONE ? NULL : &c->prepared[at];
	int bad = (int)c->kit.cublasSetStream_v2(c->blas, stream);

	if (bad)
		return blas_failed(bad, err);
	/* Further launches of a GEMM (bias and the like) are of no size. Attention's backward pass launches three
	 * kernels, a call per expert one each, a grouped call one. */
	double own = p && p->grouped && p->grouped->apart         ? p->grouped->n :
		     p && p->attention && k->phase == MQ_BACKWARD ? 3 :
								    1;
	if (is_gemm(k) && k->launches > own)
		MQ_TRY(sweep(c, 0, k->launches - own, err));
	if (p && p->lt)
		return cuda_lt_enqueue(c, p->lt, k, c->workspace[on], stream, err);
	if (p && p->grouped)
		return grouped(c, p->grouped, err);
	if (p && p->dnn)
		return cuda_dnn_enqueue(c, p->dnn, k, c->workspace[on], stream, err);
	if (p && p->attention)
		return cuda_attention_enqueue(c, p->attention, k, c->workspace[on], stream, err);
	if (c->own_module && is_swept(k))
		return cuda_own_enqueue(c, k, stream, err);
	return with_blas(c, k, stream, err);
}
