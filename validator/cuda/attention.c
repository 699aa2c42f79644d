/* attention.c - fused attention, forward and backward, by cuDNN's graph API (9.10 or newer).
 *
 * The graph is written as cuDNN's engines look for it (NVIDIA/cudnn-frontend, its node of flash attention): GEMMs, the
 * parts of softmax and the causal mask, with virtual tensors between them. The batch is part of the heads: query head i
 * reads key head i / (heads / kv_heads) in either case. The forward pass writes the logarithms of the softmax sums for
 * the backward pass, which has fp32 buffers for row sums and the gradient of Q. Windows and packed documents (fewer
 * pairs than queries x keys) are not supported. Plans that ask for another library's kernels get these, too, and their
 * timelines say so. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cuda/parts.h"

enum {
	OLDEST = 91000 /* first version that clears the sum of dQ and accepts -inf in a mask */,
	MOST_OPS = 32,
	MOST_REAL = 16,
	CONFIGS = 8
};

typedef cudnnBackendDescriptor_t descriptor;

struct cuda_attention {
	descriptor plan;
	uint32_t n;
	int64_t id[MOST_REAL];
	size_t bytes[MOST_REAL];
	enum role { HOST, IN, OUT } role[MOST_REAL];
	float value[MOST_REAL]; /* HOST: passed by value */
};

struct graph {
	struct cuda *c;
	struct cuda_attention *a;
	cudnnDataType_t io;
	int64_t heads, kv_heads, queries, keys, width;
	uint32_t n_ops;
	descriptor op[MOST_OPS];
	int bad; /* the first status other than success */
	bool causal;
};

/* ---- attributes of descriptors ------------------------------------------------------------ */

static descriptor make(struct graph *g, cudnnBackendDescriptorType_t type)
{
	descriptor d = NULL;

	if (!g->bad)
		g->bad = (int)g->c->kit.cudnnBackendCreateDescriptor(type, &d);
	return d;
}

struct attribute {
	cudnnBackendAttributeName_t name;
	cudnnBackendAttributeType_t type;
	int64_t n; /* 0: not set */
	const void *value;
};
#define ALL(name, type, n, value)                              \
	{                                                      \
		CUDNN_ATTR_##name, CUDNN_TYPE_##type, n, value \
	}
#define ONE(name, type, value) ALL(name, type, 1, &(value))
#define PART(name, value)      ALL(name, BACKEND_DESCRIPTOR, (value) != NULL, &(value))

static descriptor describe(struct graph *g, cudnnBackendDescriptorType_t type, const struct attribute *a, size_t n)
{
	descriptor d = make(g, type);

	for (size_t i = 0; i < n && !g->bad; i++)
		if (a[i].n)
			g->bad = (int)g->c->kit.cudnnBackendSetAttribute(d, a[i].name, a[i].type, a[i].n, a[i].value);
	if (!g->bad)
		g->bad = (int)g->c->kit.cudnnBackendFinalize(d);
	return d;
}
/* Makes a descriptor of a type with its attributes. */
#define DESCRIBE(g, type, ...)                                                                    \
	describe(g, CUDNN_BACKEND_##type##_DESCRIPTOR, (const struct attribute[]){ __VA_ARGS__ }, \
		 sizeof((const struct attribute[]){ __VA_ARGS__ }) / sizeof(struct attribute))

/* [1, heads, rows, columns]; _T: with the strides of the transpose. */
enum shape { QUERIES, KEYS, KEYS_T, ALL_KEYS, SCORES, SCORES_T, ROWS, SCALAR };

static void shape_of(const struct graph *g, enum shape shape, int64_t dim[4], int64_t stride[4])
{
	bool own = shape == KEYS || shape == KEYS_T, transposed = shape == KEYS_T || shape == SCORES_T;
	const int64_t rows[] = { g->queries, g->keys, g->width, g->keys, g->queries, g->keys, g->queries, 1 };
	const int64_t columns[] = { g->width, g->width, g->keys, g->width, g->keys, g->queries, 1, 1 };
	int64_t heads = own ? g->kv_heads : shape == SCALAR ? 1 : g->heads, r = rows[shape], c = columns[shape];

	dim[0] = 1;
	dim[1] = heads;
	dim[2] = r;
	dim[3] = c;
	stride[0] = heads * r * c;
	stride[1] = r * c;
	stride[2] = transposed ? 1 : c;
	stride[3] = transposed ? r : 1;
}

static descriptor tensor(struct graph *g, enum shape shape, cudnnDataType_t type, int64_t id, bool by_value)
{
	int64_t dim[4], stride[4], alignment = 16;
	bool is_virtual = id > MOST_REAL;

	shape_of(g, shape, dim, stride);
	return DESCRIBE(g, TENSOR, ONE(TENSOR_UNIQUE_ID, INT64, id), ONE(TENSOR_DATA_TYPE, DATA_TYPE, type),
			ALL(TENSOR_DIMENSIONS, INT64, 4, dim), ALL(TENSOR_STRIDES, INT64, 4, stride),
			ONE(TENSOR_BYTE_ALIGNMENT, INT64, alignment), ONE(TENSOR_IS_VIRTUAL, BOOLEAN, is_virtual),
			ONE(TENSOR_IS_BY_VALUE, BOOLEAN, by_value));
}

/* A tensor in memory. */
static descriptor real(struct graph *g, enum shape shape, cudnnDataType_t type, enum role role)
{
	struct cuda_attention *a = g->a;
	int64_t dim[4], stride[4];

	shape_of(g, shape, dim, stride);
	a->id[a->n] = a->n + 1;
	a->role[a->n] = role;
	a->bytes[a->n] = (size_t)stride[0] * (type == CUDNN_DATA_FLOAT ? 4 : 2);
	return tensor(g, shape, type, a->id[a->n++], false);
}

static descriptor number(struct graph *g, double value)
{
	struct cuda_attention *a = g->a;

	a->id[a->n] = a->n + 1;
	a->role[a->n] = HOST;
	a->value[a->n] = (float)value;
	return tensor(g, SCALAR, CUDNN_DATA_FLOAT, a->id[a->n++], true);
}

/* ---- operations: each writes `y`; NULL = a new virtual tensor ------------- */

/* A virtual tensor, numbered as the operation that writes it. */
static descriptor result(struct graph *g, enum shape shape, cudnnDataType_t type)
{
	return tensor(g, shape, type, MOST_REAL + 1 + g->n_ops, false);
}

static descriptor matmul(struct graph *g, descriptor a, descriptor b, descriptor y, enum shape shape,
			 cudnnDataType_t type)
{
	cudnnDataType_t sums = CUDNN_DATA_FLOAT;
	descriptor how = DESCRIBE(g, MATMUL, ONE(MATMUL_COMP_TYPE, DATA_TYPE, sums));

	y = y ? y : result(g, shape, type);
	g->op[g->n_ops++] =
		DESCRIBE(g, OPERATION_MATMUL, PART(OPERATION_MATMUL_ADESC, a), PART(OPERATION_MATMUL_BDESC, b),
			 PART(OPERATION_MATMUL_CDESC, y), PART(OPERATION_MATMUL_DESC, how));
	return y;
}

struct pointwise {
	cudnnPointwiseMode_t mode;
	descriptor x, b, t, y;
	enum shape shape;
	cudnnDataType_t type;
	int64_t axis;
};

static descriptor pointwise(struct graph *g, struct pointwise p)
{
	cudnnDataType_t math = p.mode == CUDNN_POINTWISE_CMP_GE ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT;
	descriptor how = DESCRIBE(g, POINTWISE, ONE(POINTWISE_MODE, POINTWISE_MODE, p.mode),
				  ONE(POINTWISE_MATH_PREC, DATA_TYPE, math),
				  ALL(POINTWISE_AXIS, INT64, p.mode == CUDNN_POINTWISE_GEN_INDEX, &p.axis));
	descriptor y = p.y ? p.y : result(g, p.shape, p.type);

	g->op[g->n_ops++] = DESCRIBE(g, OPERATION_POINTWISE, PART(OPERATION_POINTWISE_PW_DESCRIPTOR, how),
				     PART(OPERATION_POINTWISE_XDESC, p.x), PART(OPERATION_POINTWISE_YDESC, y),
				     PART(OPERATION_POINTWISE_BDESC, p.b), PART(OPERATION_POINTWISE_TDESC, p.t));
	return y;
}

/* Pointwise x MODE b in fp32; without b: MODE of x. */
static descriptor combined(struct graph *g, cudnnPointwiseMode_t mode, descriptor x, descriptor b, enum shape shape)
{
	return pointwise(g, (struct pointwise){ .mode = mode, .x = x, .b = b, .shape = shape });
}

static descriptor reduce(struct graph *g, cudnnReduceTensorOp_t mode, descriptor x, descriptor y, enum shape shape)
{
	cudnnDataType_t sums = CUDNN_DATA_FLOAT;
	descriptor how = DESCRIBE(g, REDUCTION, ONE(REDUCTION_COMP_TYPE, DATA_TYPE, sums),
				  ONE(REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, mode));

	y = y ? y : result(g, shape, CUDNN_DATA_FLOAT);
	g->op[g->n_ops++] = DESCRIBE(g, OPERATION_REDUCTION, PART(OPERATION_REDUCTION_DESC, how),
				     PART(OPERATION_REDUCTION_XDESC, x), PART(OPERATION_REDUCTION_YDESC, y));
	return y;
}

/* The transpose of x, for the next GEMM. */
static descriptor transpose(struct graph *g, descriptor x, enum shape shape)
{
	descriptor y = result(g, shape, g->io);

	g->op[g->n_ops++] =
		DESCRIBE(g, OPERATION_RESHAPE, PART(OPERATION_RESHAPE_XDESC, x), PART(OPERATION_RESHAPE_YDESC, y));
	return y;
}

/* ---- the graphs ------------------------------------------------------------------------------ */

/* Causal mask: scores of keys after the query become -inf. */
static descriptor masked(struct graph *g, descriptor scores)
{
	if (!g->causal)
		return scores;
	struct pointwise index = { CUDNN_POINTWISE_GEN_INDEX, scores, .shape = SCORES, .type = CUDNN_DATA_INT32 };
	descriptor below = number(g, -(double)INFINITY);

	index.axis = 2;
	descriptor row = pointwise(g, index);
	index.axis = 3;
	descriptor column = pointwise(g, index);
	descriptor seen = pointwise(g, (struct pointwise){ CUDNN_POINTWISE_CMP_GE, row, column, .shape = SCORES,
							   .type = CUDNN_DATA_BOOLEAN });
	return pointwise(g, (struct pointwise){ CUDNN_POINTWISE_BINARY_SELECT, scores, below, seen, .shape = SCORES });
}

static void forward(struct graph *g)
{
	descriptor q = real(g, QUERIES, g->io, IN), kt = real(g, KEYS_T, g->io, IN), v = real(g, KEYS, g->io, IN);
	descriptor o = real(g, QUERIES, g->io, OUT), stats = real(g, ROWS, CUDNN_DATA_FLOAT, OUT);
	descriptor scale = number(g, 1 / sqrt((double)g->width));

	descriptor s = matmul(g, q, kt, NULL, SCORES, CUDNN_DATA_FLOAT);
	s = masked(g, combined(g, CUDNN_POINTWISE_MUL, s, scale, SCORES));
	descriptor most = reduce(g, CUDNN_REDUCE_TENSOR_MAX, s, NULL, ROWS);
	descriptor e =
		combined(g, CUDNN_POINTWISE_EXP, combined(g, CUDNN_POINTWISE_SUB, s, most, SCORES), NULL, SCORES);
	descriptor sum = reduce(g, CUDNN_REDUCE_TENSOR_ADD, e, NULL, ROWS);
	descriptor logarithm = combined(g, CUDNN_POINTWISE_LOG, sum, NULL, ROWS);
	pointwise(g, (struct pointwise){ CUDNN_POINTWISE_ADD, most, logarithm, .y = stats });
	descriptor p = pointwise(g, (struct pointwise){ CUDNN_POINTWISE_DIV, e, sum, .shape = SCORES, .type = g->io });
	matmul(g, p, v, o, QUERIES, g->io);
}

/* left^T x right for all query heads, summed over those that share a key head. */
static void gradient_of_keys(struct graph *g, descriptor left, descriptor right, descriptor y)
{
	descriptor turned = transpose(g, left, SCORES_T);

	if (g->heads == g->kv_heads)
		matmul(g, turned, right, y, KEYS, g->io);
	else
		reduce(g, CUDNN_REDUCE_TENSOR_ADD, matmul(g, turned, right, NULL, ALL_KEYS, g->io), y, KEYS);
}

static void backward(struct graph *g)
{
	descriptor q = real(g, QUERIES, g->io, IN), kt = real(g, KEYS_T, g->io, IN), vt = real(g, KEYS_T, g->io, IN);
	descriptor o = real(g, QUERIES, g->io, IN), d_o = real(g, QUERIES, g->io, IN);
	descriptor stats = real(g, ROWS, CUDNN_DATA_FLOAT, IN);
	descriptor dq = real(g, QUERIES, g->io, OUT), dk = real(g, KEYS, g->io, OUT), dv = real(g, KEYS, g->io, OUT);
	descriptor sums = real(g, ROWS, CUDNN_DATA_FLOAT, OUT), dq_sum = real(g, QUERIES, CUDNN_DATA_FLOAT, OUT);
	descriptor scale = number(g, 1 / sqrt((double)g->width)), one = number(g, 1);

	descriptor row = combined(g, CUDNN_POINTWISE_MUL, d_o, o, QUERIES);
	row = reduce(g, CUDNN_REDUCE_TENSOR_ADD, row, NULL, ROWS);
	pointwise(g, (struct pointwise){ CUDNN_POINTWISE_MUL, row, one, .y = sums });
	descriptor s = matmul(g, q, kt, NULL, SCORES, CUDNN_DATA_FLOAT);
	s = combined(g, CUDNN_POINTWISE_MUL, s, scale, SCORES);
	s = masked(g, combined(g, CUDNN_POINTWISE_SUB, s, stats, SCORES));
	descriptor p = combined(g, CUDNN_POINTWISE_EXP, s, NULL, SCORES);
	gradient_of_keys(g, p, d_o, dv);
	descriptor dp = matmul(g, d_o, vt, NULL, SCORES, CUDNN_DATA_FLOAT);
	dp = combined(g, CUDNN_POINTWISE_SUB, dp, sums, SCORES);
	dp = combined(g, CUDNN_POINTWISE_MUL, dp, p, SCORES);
	descriptor ds = combined(g, CUDNN_POINTWISE_MUL, dp, scale, SCORES);
	gradient_of_keys(g, ds, q, dk);
	matmul(g, ds, transpose(g, kt, KEYS), dq_sum, QUERIES, CUDNN_DATA_FLOAT);
	pointwise(g, (struct pointwise){ CUDNN_POINTWISE_IDENTITY, dq_sum, .y = dq });
}

/* ---- interface of the executor -------------------------------------------------------------------- */

/* Number of key heads, from the bytes of all tensors without the softmax sums; 0: it does not divide the query heads,
 * or pairs are left out. */
static double kv_heads_of(const struct mq_kernel *k)
{
	double all = k->phase == MQ_BACKWARD ? 4 : 2, q = k->m * k->k * k->count, pairs = 2 * all * k->n * q;
	double kv = (k->bytes / mq_dtype_size((enum mq_dtype)k->dtype) - all * q) / (all * k->n * k->k);
	double group = round(k->count / kv);

	return k->flop > .99 * pairs && k->steps <= 0 && group >= 1 && fmod(k->count, group) == 0 ? k->count / group :
												    0;
}

bool cuda_attention_runs(const struct mq_kernel *k)
{
	return k->kind == MQ_KERNEL_ATTENTION && (k->dtype == MQ_FP16 || k->dtype == MQ_BF16) && kv_heads_of(k) > 0;
}

size_t cuda_attention_need(const struct mq_kernel *k)
{
	double q = k->m * k->k * k->count, kv = k->n * k->k * k->count;

	return cuda_attention_runs(k) ? (size_t)(2 * (4 * q + 4 * kv) + 4 * (q + 2 * k->m * k->count)) + 65536 : 0;
}

/* Takes the first engine of cuDNN's heuristics that accepts the graph. */
static void plan(struct graph *g, size_t *workspace_B)
{
	cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
	int64_t found = 0, n, size = 0;
	descriptor config[CONFIGS];
	descriptor graph = DESCRIBE(g, OPERATIONGRAPH, ONE(OPERATIONGRAPH_HANDLE, HANDLE, g->c->dnn),
				    ALL(OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, g->n_ops, g->op));
	descriptor heuristics =
		DESCRIBE(g, ENGINEHEUR, PART(ENGINEHEUR_OPERATION_GRAPH, graph), ONE(ENGINEHEUR_MODE, HEUR_MODE, mode));

	for (int i = 0; i < CONFIGS; i++)
		config[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
	if (!g->bad)
		g->bad =
			(int)g->c->kit.cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
								CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGS, &found, config);
	for (int i = 0; i < found && i < CONFIGS && !g->a->plan && !g->bad; i++) {
		struct graph one = *g; /* an engine may refuse */
		descriptor p = DESCRIBE(&one, EXECUTION_PLAN, ONE(EXECUTION_PLAN_HANDLE, HANDLE, g->c->dnn),
					PART(EXECUTION_PLAN_ENGINE_CONFIG, config[i]));

		g->a->plan = one.bad ? NULL : p;
	}
	if (g->a->plan && !g->bad)
		g->bad = (int)g->c->kit.cudnnBackendGetAttribute(g->a->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
								 CUDNN_TYPE_INT64, 1, &n, &size);
	*workspace_B = (size_t)size;
}

static enum mq_status failed(const struct cuda *c, const struct mq_kernel *k, int status, struct mq_err *err)
{
	return mq_bad(err,
		      "cuDNN %zu has no fused attention on this GPU for %.0f heads of %.0f queries, %.0f keys and %.0f "
		      "wide in %s (%s, status %d): MAQUETTE_CUDNN=off runs its products alone",
		      c->kit.cudnnGetVersion(), k->count, k->m, k->n, k->k, mq_dtype_name((enum mq_dtype)k->dtype),
		      status ? c->kit.cudnnGetErrorString((cudnnStatus_t)status) : "no engine takes it", status);
}

enum mq_status cuda_attention_prepare(struct cuda *c, const struct mq_kernel *k, struct cuda_attention **attention,
				      size_t *workspace_B, struct mq_err *err)
{
	struct cuda_attention *a = mq_arena_array(c->session->arena, 1, struct cuda_attention);
	struct graph g = { .c = c,
			   .a = a,
			   .io = k->dtype == MQ_FP16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16,
			   .heads = (int64_t)k->count,
			   .kv_heads = (int64_t)kv_heads_of(k),
			   .queries = (int64_t)k->m,
			   .keys = (int64_t)k->n,
			   .width = (int64_t)k->k,
			   .causal = k->causal };

	if (c->kit.cudnnGetVersion() < OLDEST)
		return mq_fail(
			err, MQ_ENODEV,
			"cuDNN %zu is too old for fused attention: 9.10 or newer is needed, or MAQUETTE_CUDNN=off, "
			"which runs its products alone",
			c->kit.cudnnGetVersion());
	if (!c->dnn)
		g.bad = (int)c->kit.cudnnCreate(&c->dnn);
	(k->phase == MQ_BACKWARD ? backward : forward)(&g);
	plan(&g, workspace_B);
	*attention = a;
	return g.bad || !a->plan ? failed(c, k, g.bad, err) : MQ_OK;
}

enum mq_status cuda_attention_enqueue(struct cuda *c, const struct cuda_attention *a, const struct mq_kernel *k,
				      void *workspace, cudaStream_t stream, struct mq_err *err)
{
	struct graph g = { .c = c, .bad = (int)c->kit.cudnnSetStream(c->dnn, stream) };
	void *data[MOST_REAL];

	for (uint32_t i = 0; i < a->n; i++)
		data[i] = a->role[i] == HOST ? (void *)(uintptr_t)&a->value[i] :
			  a->role[i] == IN   ? cuda_pool_in(&c->pool, cuda_operand_of(k->dtype), a->bytes[i]) :
					       cuda_pool_out(&c->pool, a->bytes[i]);
	descriptor pack = DESCRIBE(&g, VARIANT_PACK, ALL(VARIANT_PACK_UNIQUE_IDS, INT64, a->n, a->id),
				   ALL(VARIANT_PACK_DATA_POINTERS, VOID_PTR, a->n, data),
				   ONE(VARIANT_PACK_WORKSPACE, VOID_PTR, workspace));

	if (!g.bad)
		g.bad = (int)c->kit.cudnnBackendExecute(c->dnn, a->plan, pack);
	if (pack)
		c->kit.cudnnBackendDestroyDescriptor(pack);
	return g.bad ? failed(c, k, g.bad, err) : MQ_OK;
}
