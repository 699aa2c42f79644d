/*
 * mock_cudnn.c - convolutions of cuDNN: see mock.h. Descriptors mean something: sizes that belong together, one format and
 * type, the algorithm and the workspace that were asked for, operands inside their memory.
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
