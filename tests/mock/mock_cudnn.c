/*
 * mock_cudnn.c - convolutions and fused attention of cuDNN: see mock.h. Descriptors mean something: sizes that belong
 * together, one format and type, the algorithm and the workspace that were asked for, operands inside their memory. A graph
 * is attention if its products, masks and softmax are those of a forward or a backward pass and every tensor between them
 * is written before it is read.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mock.h"
#include "planted.h"

struct tensor {
	int format, type, n, c, h, w; /* of a filter: k, c, h, w */
};
struct conv {
	int pad[2], stride[2], dilation[2], mode, compute, groups, math;
};
enum pass { FORWARD, DATA, FILTER };
#define WORKSPACE_B ((size_t)8 << 20)
#define ALGORITHM   1 /* the one that runs */
#define TOO_LARGE   4 /* wants more memory than anybody has */

static cudaStream_t current;

MOCK_API size_t cudnnGetVersion(void)
{
	return 91900;
}

MOCK_API const char *cudnnGetErrorString(cudnnStatus_t status)
{
	return "a mock's error";
}

MOCK_API cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
	*handle = calloc(1, 1);
	return (cudnnStatus_t)0;
}

MOCK_API cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
	free(handle);
	return (cudnnStatus_t)0;
}

MOCK_API cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
	current = stream;
	return (cudnnStatus_t)0;
}

MOCK_API cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *tensor)
{
	*tensor = calloc(1, sizeof(struct tensor));
	return (cudnnStatus_t)0;
}

MOCK_API cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *filter)
{
	*filter = calloc(1, sizeof(struct tensor));
	return (cudnnStatus_t)0;
}

MOCK_API cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *conv)
{
	*conv = calloc(1, sizeof(struct conv));
	return (cudnnStatus_t)0;
}

MOCK_API cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
						  cudnnDataType_t type, int n, int c, int h, int w)
{
	*(struct tensor *)(void *)tensor = (struct tensor){ (int)format, (int)type, n, c, h, w };
	return (cudnnStatus_t)(n < 1 || c < 1 || h < 1 || w < 1 ? 2000 : 0);
}

MOCK_API cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
						  cudnnTensorFormat_t format, int k, int c, int h, int w)
{
	*(struct tensor *)(void *)filter = (struct tensor){ (int)format, (int)type, k, c, h, w };
	return (cudnnStatus_t)(k < 1 || c < 1 || h < 1 || w < 1 ? 2000 : 0);
}

MOCK_API cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t conv, int pad_h, int pad_w,
						       int stride_h, int stride_w, int dilation_h, int dilation_w,
						       cudnnConvolutionMode_t mode, cudnnDataType_t compute)
{
	*(struct conv *)(void *)conv = (struct conv){ .pad = { pad_h, pad_w },
						      .stride = { stride_h, stride_w },
						      .dilation = { dilation_h, dilation_w },
						      .mode = (int)mode,
						      .compute = (int)compute,
						      .groups = 1 };
	return (cudnnStatus_t)(pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1 ? 2000 : 0);
}

MOCK_API cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t conv, int groups)
{
	((struct conv *)(void *)conv)->groups = groups;
	return (cudnnStatus_t)0;
}

MOCK_API cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv, cudnnMathType_t math)
{
	((struct conv *)(void *)conv)->math = (int)math;
	return (cudnnStatus_t)0;
}

static int out_of(const struct conv *v, int axis, int in, int window)
{
	return (in + 2 * v->pad[axis] - window) / v->stride[axis] + 1;
}

/* Do the sizes, formats and types belong together? */
static int fits(const struct tensor *x, const struct tensor *w, const struct conv *v, const struct tensor *y)
{
	int types = x->type == w->type && x->type == y->type && x->format == w->format && x->format == y->format;
	int wide = x->type == CUDNN_DATA_DOUBLE;

	return types && v->compute == (wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT) &&
	       v->mode == CUDNN_CROSS_CORRELATION && v->dilation[0] == 1 && v->dilation[1] == 1 && x->n == y->n &&
	       w->n == y->c && w->c * v->groups == x->c && w->n % v->groups == 0 && y->h == out_of(v, 0, x->h, w->h) &&
	       y->w == out_of(v, 1, x->w, w->w);
}

/* Of three algorithms the first wants too much memory. */
#define FIND(result_type, x_, w_, y_)                                                         \
	if (!fits((void *)x_, (void *)w_, (void *)conv, (void *)y_))                          \
		return (cudnnStatus_t)2000;                                                   \
	for (int i = 0; i < 3 && i < asked; i++)                                              \
		result[i] = (result_type){ .algo = i == 1 ? ALGORITHM : TOO_LARGE,            \
					   .memory = i ? WORKSPACE_B : (size_t)1 << 40,       \
					   .mathType = ((struct conv *)(void *)conv)->math }; \
	*found = asked < 3 ? asked : 3;                                                       \
	return (cudnnStatus_t)0;

MOCK_API cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
	cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv,
	cudnnTensorDescriptor_t y, int asked, int *found,
	cudnnConvolutionFwdAlgoPerf_t *result){ FIND(cudnnConvolutionFwdAlgoPerf_t, x, w, y) }

MOCK_API cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
	cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
	cudnnTensorDescriptor_t dx, int asked, int *found,
	cudnnConvolutionBwdDataAlgoPerf_t *result){ FIND(cudnnConvolutionBwdDataAlgoPerf_t, dx, w, dy) }

MOCK_API cudnnStatus_t
	cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
						      cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
						      cudnnFilterDescriptor_t dw, int asked, int *found,
						      cudnnConvolutionBwdFilterAlgoPerf_t *result)
{
	FIND(cudnnConvolutionBwdFilterAlgoPerf_t, x, dw, dy)
}

static double size_of(int type)
{
	return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}

static enum mq_dtype dtype_of(int type, int math)
{
	return type == CUDNN_DATA_HALF     ? MQ_FP16 :
	       type == CUDNN_DATA_BFLOAT16 ? MQ_BF16 :
	       type == CUDNN_DATA_DOUBLE   ? MQ_FP64 :
	       math == CUDNN_FMA_MATH      ? MQ_FP32 :
					     MQ_TF32;
}

static double elements(const struct tensor *t)
{
	return (double)t->n * t->c * t->h * t->w;
}

struct run {
	enum pass pass;
	const struct tensor *x, *w, *y;
	const struct conv *conv;
	const void *at[3]; /* of x, w, y */
	int algorithm;
	const void *workspace;
	size_t workspace_B;
};

static cudnnStatus_t run(const struct run *r)
{
	static const char *const names[] = { "forward", "data", "filter" };
	double size = size_of(r->x->type), pixels = (double)r->y->n * r->y->h * r->y->w, groups = r->conv->groups;
	double depth = (double)r->w->c * r->w->h * r->w->w, filters = r->w->n / groups;
	struct mq_device_calib truth = planted();

	if (!fits(r->x, r->w, r->conv, r->y))
		mock_wrong("a convolution of sizes that do not belong together");
	if (r->algorithm != ALGORITHM || r->workspace_B < WORKSPACE_B)
		mock_wrong("a convolution by an algorithm that was not chosen, or without its workspace");
	mock_extent(r->workspace, WORKSPACE_B, "workspace of a convolution");
	mock_extent(r->at[0], size * elements(r->x), "image of a convolution");
	mock_extent(r->at[1], size * elements(r->w), "filters of a convolution");
	mock_extent(r->at[2], size * elements(r->y), "output of a convolution");
	const double bytes[] = { size * elements(r->x), size * elements(r->w), size * elements(r->y) };
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < i; j++)
			if ((double)((const char *)r->at[i] - (const char *)r->at[j]) < bytes[j] &&
			    (double)((const char *)r->at[j] - (const char *)r->at[i]) < bytes[i])
				mock_wrong("operands %d and %d of a convolution lie over each other", j, i);
	enum mq_dtype dtype = dtype_of(r->x->type, r->conv->math);
	mock_log(current, "conv %s %s %s x %d %d %d %d w %d %d %d %d stride %d %d pad %d %d groups %d", names[r->pass],
		 mq_dtype_name(dtype), r->x->format == CUDNN_TENSOR_NHWC ? "nhwc" : "nchw", r->x->n, r->x->c, r->x->h,
		 r->x->w, r->w->n, r->w->c, r->w->h, r->w->w, r->conv->stride[0], r->conv->stride[1], r->conv->pad[0],
		 r->conv->pad[1], r->conv->groups);
	struct mq_kernel k = { .kind = MQ_KERNEL_CONV,
			       .dtype = (uint8_t)dtype,
			       .m = r->pass == FILTER ? depth : pixels,
			       .n = filters,
			       .k = r->pass == FILTER ? pixels : depth,
			       .count = groups,
			       .launches = 1,
			       .bytes = size * (elements(r->x) + elements(r->w) + elements(r->y)) };
	k.flop = 2 * k.m * k.n * k.k * k.count;
	mock_enqueue(current, (struct mock_op){ .kind = MOCK_WORK, .seconds = mq_cost_kernel(&truth, &k) });
	return (cudnnStatus_t)0;
}

MOCK_API cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x_desc,
					       const void *x, cudnnFilterDescriptor_t w_desc, const void *w,
					       cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algo,
					       void *workspace, size_t workspace_B, const void *beta,
					       cudnnTensorDescriptor_t y_desc, void *y)
{
	return run(&(struct run){ FORWARD,
				  (void *)x_desc,
				  (void *)w_desc,
				  (void *)y_desc,
				  (void *)conv,
				  { x, w, y },
				  (int)algo,
				  workspace,
				  workspace_B });
}

MOCK_API cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
						    cudnnFilterDescriptor_t w_desc, const void *w,
						    cudnnTensorDescriptor_t dy_desc, const void *dy,
						    cudnnConvolutionDescriptor_t conv,
						    cudnnConvolutionBwdDataAlgo_t algo, void *workspace,
						    size_t workspace_B, const void *beta,
						    cudnnTensorDescriptor_t dx_desc, void *dx)
{
	return run(&(struct run){ DATA,
				  (void *)dx_desc,
				  (void *)w_desc,
				  (void *)dy_desc,
				  (void *)conv,
				  { dx, w, dy },
				  (int)algo,
				  workspace,
				  workspace_B });
}

MOCK_API cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
						      cudnnTensorDescriptor_t x_desc, const void *x,
						      cudnnTensorDescriptor_t dy_desc, const void *dy,
						      cudnnConvolutionDescriptor_t conv,
						      cudnnConvolutionBwdFilterAlgo_t algo, void *workspace,
						      size_t workspace_B, const void *beta,
						      cudnnFilterDescriptor_t dw_desc, void *dw)
{
	return run(&(struct run){ FILTER,
				  (void *)x_desc,
				  (void *)dw_desc,
				  (void *)dy_desc,
				  (void *)conv,
				  { x, dw, dy },
				  (int)algo,
				  workspace,
				  workspace_B });
}

/* ---- graphs ---------------------------------------------------------------------------------- */

enum { MOST_ATTRIBUTES = 12, MOST_BYTES = 512 };

struct backend {
	int type, finished, n;
	struct {
		int name, type;
		int64_t n;
		char data[MOST_BYTES];
	} attribute[MOST_ATTRIBUTES];
};

static size_t width_of(int type)
{
	switch (type) {
	case CUDNN_TYPE_BOOLEAN:
		return 1;
	case CUDNN_TYPE_DATA_TYPE:
	case CUDNN_TYPE_HEUR_MODE:
	case CUDNN_TYPE_POINTWISE_MODE:
	case CUDNN_TYPE_REDUCTION_OPERATOR_TYPE:
		return 4;
	default:
		return 8;
	}
}

MOCK_API cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
						    cudnnBackendDescriptor_t *descriptor)
{
	struct backend *b = calloc(1, sizeof(*b));

	b->type = (int)type;
	*descriptor = b;
	return (cudnnStatus_t)0;
}

MOCK_API cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
	free(descriptor);
	return (cudnnStatus_t)0;
}

MOCK_API cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
						cudnnBackendAttributeType_t type, int64_t n, const void *value)
{
	struct backend *b = descriptor;
	size_t bytes = width_of((int)type) * (size_t)n;

	if (b->finished || b->n == MOST_ATTRIBUTES || bytes > MOST_BYTES)
		return (cudnnStatus_t)2000;
	b->attribute[b->n].name = (int)name;
	b->attribute[b->n].type = (int)type;
	b->attribute[b->n].n = n;
	memcpy(b->attribute[b->n++].data, value, bytes);
	return (cudnnStatus_t)0;
}

/* The attribute's data, NULL where it was not set. */
static const void *given(const struct backend *b, int name, int64_t *n)
{
	for (int i = 0; i < b->n; i++)
		if (b->attribute[i].name == name) {
			if (n)
				*n = b->attribute[i].n;
			return b->attribute[i].data;
		}
	return NULL;
}

static struct backend *linked(const struct backend *b, int name)
{
	struct backend *const *at = given(b, name, NULL);

	return at ? *at : NULL;
}

static int64_t number_of(const struct backend *b, int name, int64_t place)
{
	const int64_t *at = given(b, name, NULL);

	return at ? at[place] : -1;
}

static int word_of(const struct backend *b, int name)
{
	const int *at = given(b, name, NULL);

	return at ? *at : -1;
}

static int flag_of(const struct backend *b, int name)
{
	const char *at = given(b, name, NULL);

	return at && *at;
}

MOCK_API cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
	struct backend *b = descriptor;

	for (int i = 0; i < b->n; i++) /* what it is made of is finished, but for the engine that heuristics wrote */
		for (int64_t j = 0; b->attribute[i].type == CUDNN_TYPE_BACKEND_DESCRIPTOR && j < b->attribute[i].n; j++)
			if (!((struct backend **)(void *)b->attribute[i].data)[j]->finished)
				return (cudnnStatus_t)2000;
	if (b->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
	    !linked(b, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->n) /* the first engine takes no graph */
		return (cudnnStatus_t)3000;
	b->finished = 1;
	return (cudnnStatus_t)0;
}

/* Two engines, of which the second takes the graph; the size of the workspace. */
MOCK_API cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
						cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
						int64_t most, int64_t *n, void *value)
{
	struct backend *b = descriptor, **engine = value;

	*n = 1;
	if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
		*(int64_t *)value = (int64_t)WORKSPACE_B;
		return (cudnnStatus_t)0;
	}
	if (name != CUDNN_ATTR_ENGINEHEUR_RESULTS || most < 2 || !b->finished)
		return (cudnnStatus_t)2000;
	*n = 2;
	engine[0]->finished = engine[1]->finished = 1;
	engine[1]->n = 1;
	engine[1]->attribute[0].name = CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH;
	*(struct backend **)(void *)engine[1]->attribute[0].data = linked(b, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
	return (cudnnStatus_t)0;
}

struct attention {
	int products, exponentials, maxima, sums, masks, transposes;
	const struct backend *query, *key; /* operands of the first product: [., heads, rows, columns] */
	int type;
};

static int64_t dim(const struct backend *tensor, int axis)
{
	return number_of(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, axis);
}

/* [., h, m, k] [., g, k, n] = [., h, m, n], g heads shared by h. */
static void check_product(const struct backend *a, const struct backend *b, const struct backend *c)
{
	if (dim(a, 3) != dim(b, 2) || dim(a, 2) != dim(c, 2) || dim(b, 3) != dim(c, 3) || dim(a, 1) != dim(c, 1) ||
	    dim(a, 1) % dim(b, 1))
		mock_wrong("a product in a graph whose sizes do not belong together");
}

static const int operands[] = { CUDNN_ATTR_OPERATION_MATMUL_ADESC,    CUDNN_ATTR_OPERATION_MATMUL_BDESC,
				CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
				CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
				CUDNN_ATTR_OPERATION_RESHAPE_XDESC };
static const int results[] = { CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
			       CUDNN_ATTR_OPERATION_REDUCTION_YDESC, CUDNN_ATTR_OPERATION_RESHAPE_YDESC };

static void take_op(const struct backend *op, struct attention *a)
{
	const struct backend *how;

	switch (op->type) {
	case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
		check_product(linked(op, operands[0]), linked(op, operands[1]), linked(op, results[0]));
		if (!a->products++) {
			a->query = linked(op, operands[0]);
			a->key = linked(op, operands[1]);
		}
		break;
	case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
		how = linked(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
		a->exponentials += word_of(how, CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_EXP;
		a->masks += word_of(how, CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_BINARY_SELECT;
		break;
	case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
		how = linked(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
		*(word_of(how, CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_MAX ? &a->maxima : &a->sums) += 1;
		break;
	default:
		a->transposes++;
		break;
	}
}

/* Where the pack has a tensor. */
static const void *place_of(const struct backend *pack, int64_t id)
{
	int64_t n = 0;
	const int64_t *ids = given(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &n);
	void *const *at = given(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, NULL);

	for (int64_t i = 0; i < n; i++)
		if (ids[i] == id)
			return at[i];
	return NULL;
}

static void check_tensor(const struct backend *t, const struct backend *pack, int is_result, char *written)
{
	int64_t id = number_of(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
	int type = word_of(t, CUDNN_ATTR_TENSOR_DATA_TYPE);
	double size = type == CUDNN_DATA_FLOAT ? 4 : 2,
	       bytes = size * (double)dim(t, 0) * (double)dim(t, 1) * (double)dim(t, 2) * (double)dim(t, 3);

	if (id < 0 || id > 100)
		mock_wrong("a tensor of a graph without a number");
	if (flag_of(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL) && !is_result && !written[id])
		mock_wrong("a graph reads tensor %d before it is written", (int)id);
	written[id] = (char)(written[id] | is_result);
	if (flag_of(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL))
		return;
	const void *at = place_of(pack, id);
	if (flag_of(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE) ? !at || is_result : 0)
		mock_wrong("a number of a graph without a value");
	if (!flag_of(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE))
		mock_extent(at, bytes, "a tensor of a graph");
}

MOCK_API cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
					   cudnnBackendDescriptor_t pack)
{
	const struct backend *engine = linked(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
	const struct backend *graph = linked(engine, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
	struct attention a = { 0 };
	char written[101] = { 0 };
	int64_t n = 0;
	struct backend *const *op = given(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, &n);

	for (int64_t i = 0; i < n; i++) {
		for (size_t j = 0; j < sizeof(operands) / sizeof(operands[0]); j++)
			if (linked(op[i], operands[j]))
				check_tensor(linked(op[i], operands[j]), pack, 0, written);
		for (size_t j = 0; j < sizeof(results) / sizeof(results[0]); j++)
			if (linked(op[i], results[j]))
				check_tensor(linked(op[i], results[j]), pack, 1, written);
		take_op(op[i], &a);
	}
	mock_extent(*(void *const *)given(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, NULL), WORKSPACE_B,
		    "workspace of a graph");
	int back = a.products == 5, shared = a.query && dim(a.query, 1) != dim(a.key, 1);
	if (!(back ? a.exponentials == 1 && !a.maxima && a.sums == 1 + 2 * shared && a.transposes == 3 :
		     a.products == 2 && a.exponentials == 1 && a.maxima == 1 && a.sums == 1 && !a.transposes) ||
	    a.masks > 1)
		mock_wrong("a graph that is no attention");
	double heads = (double)dim(a.query, 1), m = (double)dim(a.query, 2), k = (double)dim(a.query, 3);
	double keys = (double)dim(a.key, 3), flop = (back ? 10 : 4) * heads * m * keys * k / (1 + a.masks);
	mock_log(current, "attention %s %s %d of %d heads %d %d %d%s", back ? "backward" : "forward",
		 word_of(a.query, CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_HALF ? "fp16" : "bf16", (int)heads,
		 (int)dim(a.key, 1), (int)m, (int)keys, (int)k, a.masks ? " causal" : "");
	mock_enqueue(current, (struct mock_op){ .kind = MOCK_WORK,
						.seconds = MOCK_LAUNCH_S + flop / (MOCK_PEAK * MOCK_ATTENTION_EFF) });
	return (cudnnStatus_t)0;
}
