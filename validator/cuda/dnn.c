/* dnn.c - convolutions, by cuDNN: forward, gradient of the input, gradient of the weights, each by the first algorithm
 * of cuDNN's heuristics whose workspace is at most WORKSPACE_MOST_B (as PyTorch without cudnn.benchmark).
 *
 * A kernel has the numbers of its implicit GEMM and the image (struct mq_conv_image), which determine the rest:
 *   forward          m = images x out_h x out_w,  n = filters,   k = channels x window
 *   input's gradient m = the same,                n = channels,  k = filters x window
 *   weights'         m = channels x window,       n = filters,   k = images x out_h x out_w
 * each of a group, `count` of which there are. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cuda/parts.h"

enum { WORKSPACE_MOST_B = 256 << 20, ALGORITHMS = 8, LINE = 256 };

struct sizes {
	int images, channels, filters, groups, pad_h, pad_w;
};

struct cuda_dnn {
	cudnnTensorDescriptor_t x, y;
	cudnnFilterDescriptor_t w;
	cudnnConvolutionDescriptor_t conv;
	int algorithm;
	size_t x_B, y_B, w_B, workspace_B;
};

/* The padding that gives the output its size; -1: none. A stride may leave the image's last lines unread. */
static int pad_of(int in, int out, int window, int stride)
{
	int lack = (out - 1) * stride + window - in, pad = lack > 0 ? (lack + 1) / 2 : 0;

	return (in + 2 * pad - window) / stride + 1 == out ? pad : -1;
}

static bool sizes_of(const struct mq_kernel *k, struct sizes *s)
{
	const struct mq_conv_image *i = &k->image;
	double window = i->kh * i->kw, pixels = k->of_weights ? k->k : k->m;
	double channels = (k->of_input ? k->n : k->of_weights ? k->m / window : k->k / window);
	double filters = k->of_input ? k->k / window : k->n;

	if (k->kind != MQ_KERNEL_CONV || !i->h || k->volume)
		return false;
	double images = pixels / ((double)i->out_h * i->out_w);
	*s = (struct sizes){ .images = (int)fmax(1, fmin(round(images), 1e6)),
			     .channels = (int)fmin(round(channels * fmax(k->count, 1)), 1e6),
			     .filters = (int)fmin(round(filters * fmax(k->count, 1)), 1e6),
			     .groups = (int)fmax(1, round(k->count)),
			     .pad_h = pad_of(i->h, i->out_h, i->kh, i->stride_h),
			     .pad_w = pad_of(i->w, i->out_w, i->kw, i->stride_w) };
	return s->channels >= 1 && s->filters >= 1 && s->pad_h >= 0 && s->pad_w >= 0;
}

bool cuda_dnn_runs(const struct mq_kernel *k)
{
	struct sizes s;

	return sizes_of(k, &s);
}

static bool type_of(enum mq_dtype dtype, cudnnDataType_t *type, cudnnMathType_t *math)
{
	*math = dtype == MQ_FP32                     ? CUDNN_FMA_MATH :
		dtype == MQ_FP16 || dtype == MQ_BF16 ? CUDNN_TENSOR_OP_MATH :
						       CUDNN_DEFAULT_MATH;
	*type = dtype == MQ_FP16 ? CUDNN_DATA_HALF :
		dtype == MQ_BF16 ? CUDNN_DATA_BFLOAT16 :
		dtype == MQ_FP64 ? CUDNN_DATA_DOUBLE :
				   CUDNN_DATA_FLOAT;
	return dtype == MQ_FP32 || dtype == MQ_TF32 || dtype == MQ_FP16 || dtype == MQ_BF16 || dtype == MQ_FP64;
}

static void bytes_of(const struct mq_kernel *k, const struct sizes *s, struct cuda_dnn *d)
{
	const struct mq_conv_image *i = &k->image;
	double size = mq_dtype_size((enum mq_dtype)k->dtype);

	d->x_B = (size_t)(size * s->images * s->channels * i->h * i->w);
	d->y_B = (size_t)(size * s->images * s->filters * i->out_h * i->out_w);
	d->w_B = (size_t)(size * s->filters * s->channels / s->groups * i->kh * i->kw);
}

size_t cuda_dnn_need(const struct mq_kernel *k)
{
	struct cuda_dnn d;
	struct sizes s;

	if (!sizes_of(k, &s))
		return 0;
	bytes_of(k, &s, &d);
	return d.x_B + d.y_B + d.w_B;
}

#define DNN(call)                                                                                              \
	do {                                                                                                   \
		int bad_ = (int)c->kit.call;                                                                   \
		if (bad_)                                                                                      \
			return mq_fail(err, MQ_ENODEV, "rank %u: %.*s failed: %s (status %d)", c->ranks->rank, \
				       (int)strcspn(#call, "("), #call,                                        \
				       c->kit.cudnnGetErrorString((cudnnStatus_t)bad_), bad_);                 \
	} while (0)

static enum mq_status describe(struct cuda *c, const struct mq_kernel *k, const struct sizes *s, struct cuda_dnn *d,
			       struct mq_err *err)
{
	const struct mq_conv_image *i = &k->image;
	cudnnTensorFormat_t format = k->layout > 0 ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC;
	cudnnDataType_t type;
	cudnnMathType_t math;

	if (!type_of((enum mq_dtype)k->dtype, &type, &math))
		return mq_fail(err, MQ_EBUG, "unchecked element type");
	DNN(cudnnCreateTensorDescriptor(&d->x));
	DNN(cudnnCreateTensorDescriptor(&d->y));
	DNN(cudnnCreateFilterDescriptor(&d->w));
	DNN(cudnnCreateConvolutionDescriptor(&d->conv));
	DNN(cudnnSetTensor4dDescriptor(d->x, format, type, s->images, s->channels, i->h, i->w));
	DNN(cudnnSetTensor4dDescriptor(d->y, format, type, s->images, s->filters, i->out_h, i->out_w));
	DNN(cudnnSetFilter4dDescriptor(d->w, type, format, s->filters, s->channels / s->groups, i->kh, i->kw));
	DNN(cudnnSetConvolution2dDescriptor(d->conv, s->pad_h, s->pad_w, i->stride_h, i->stride_w, 1, 1,
					    CUDNN_CROSS_CORRELATION,
					    type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT));
	DNN(cudnnSetConvolutionGroupCount(d->conv, s->groups));
	DNN(cudnnSetConvolutionMathType(d->conv, math));
	return MQ_OK;
}

/* Takes the first algorithm, best first, that runs with little enough memory. */
#define TAKE_FIRST(result)                                                                    \
	for (int i = 0; i < found && d->algorithm < 0; i++)                                   \
		if ((int)(result)[i].status == 0 && (result)[i].memory <= WORKSPACE_MOST_B) { \
			d->algorithm = (int)(result)[i].algo;                                 \
			d->workspace_B = (result)[i].memory;                                  \
			math = (result)[i].mathType;                                          \
		}

static enum mq_status choose(struct cuda *c, const struct mq_kernel *k, struct cuda_dnn *d, struct mq_err *err)
{
	cudnnMathType_t math = CUDNN_DEFAULT_MATH;
	int found = 0;

	d->algorithm = -1;
	if (k->of_weights) {
		cudnnConvolutionBwdFilterAlgoPerf_t result[ALGORITHMS];
		DNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7(c->dnn, d->x, d->y, d->conv, d->w, ALGORITHMS, &found,
								  result));
		TAKE_FIRST(result)
	} else if (k->of_input) {
		cudnnConvolutionBwdDataAlgoPerf_t result[ALGORITHMS];
		DNN(cudnnGetConvolutionBackwardDataAlgorithm_v7(c->dnn, d->w, d->y, d->conv, d->x, ALGORITHMS, &found,
								result));
		TAKE_FIRST(result)
	} else {
		cudnnConvolutionFwdAlgoPerf_t result[ALGORITHMS];
		DNN(cudnnGetConvolutionForwardAlgorithm_v7(c->dnn, d->x, d->w, d->conv, d->y, ALGORITHMS, &found,
							   result));
		TAKE_FIRST(result)
	}
	if (d->algorithm < 0)
		return mq_bad(err,
			      "cuDNN has no algorithm within %d MB for a convolution of %u x %u by %u x %u in %s: "
			      "MAQUETTE_CUDNN=off runs convolutions as GEMMs",
			      WORKSPACE_MOST_B >> 20, k->image.h, k->image.w, k->image.kh, k->image.kw,
			      mq_dtype_name(k->dtype));
	DNN(cudnnSetConvolutionMathType(d->conv, math));
	return MQ_OK;
}

enum mq_status cuda_dnn_prepare(struct cuda *c, const struct mq_kernel *k, struct cuda_dnn **plan, size_t *workspace_B,
				struct mq_err *err)
{
	struct cuda_dnn *d = mq_arena_array(c->session->arena, 1, struct cuda_dnn);
	struct sizes s;

	if (!sizes_of(k, &s))
		return mq_fail(err, MQ_EBUG, "a convolution without its image");
	if (!c->dnn)
		DNN(cudnnCreate(&c->dnn));
	bytes_of(k, &s, d);
	MQ_TRY(describe(c, k, &s, d, err));
	MQ_TRY(choose(c, k, d, err));
	*workspace_B = d->workspace_B;
	*plan = d;
	return MQ_OK;
}

static size_t lines(size_t bytes)
{
	return (bytes + LINE - 1) / LINE * LINE;
}

enum mq_status cuda_dnn_enqueue(struct cuda *c, const struct cuda_dnn *d, const struct mq_kernel *k, void *workspace,
				cudaStream_t stream, struct mq_err *err)
{
	static const float one = 1, zero = 0;
	static const double one_d = 1, zero_d = 0;
	bool wide = k->dtype == MQ_FP64;
	const void *alpha = wide ? (const void *)&one_d : &one, *beta = wide ? (const void *)&zero_d : &zero;
	enum cuda_operand type = cuda_operand_of(k->dtype);

	bool weights = k->of_weights, data = k->of_input && !weights, forward = !weights && !data;
	/* Both inputs in one take: where the pool begins anew between two, they would lie over each other. */
	size_t x_B = data ? 0 : lines(d->x_B), w_B = weights ? 0 : lines(d->w_B), y_B = forward ? 0 : d->y_B;
	char *in = cuda_pool_in(&c->pool, type, x_B + w_B + y_B);
	void *out = cuda_pool_out(&c->pool, data ? d->x_B : weights ? d->w_B : d->y_B);
	void *x = data ? out : in, *w = weights ? out : in + x_B, *y = forward ? out : in + x_B + w_B;

	DNN(cudnnSetStream(c->dnn, stream));
	if (weights)
		DNN(cudnnConvolutionBackwardFilter(c->dnn, alpha, d->x, x, d->y, y, d->conv,
						   (cudnnConvolutionBwdFilterAlgo_t)d->algorithm, workspace,
						   d->workspace_B, beta, d->w, w));
	else if (data)
		DNN(cudnnConvolutionBackwardData(c->dnn, alpha, d->w, w, d->y, y, d->conv,
						 (cudnnConvolutionBwdDataAlgo_t)d->algorithm, workspace, d->workspace_B,
						 beta, d->x, x));
	else
		DNN(cudnnConvolutionForward(c->dnn, alpha, d->x, x, d->w, w, d->conv,
					    (cudnnConvolutionFwdAlgo_t)d->algorithm, workspace, d->workspace_B, beta,
					    d->y, y));
	return MQ_OK;
}
