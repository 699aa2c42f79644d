/*
 * cnn.h - layers of image networks, chained: each takes a tensor and gives the next.
 */
#ifndef MQ_MODEL_BUILDERS_LIB_CNN_H
#define MQ_MODEL_BUILDERS_LIB_CNN_H

#include "model/builders/lib/image.h"

/* A tensor: the op that made it (MQ_NONE = the images) and its shape. */
struct mq_map {
	uint32_t op;
	struct mq_plane shape;
};

struct mq_cnn {
	struct mq_model_builder b;
	struct mq_arena *arena;
	uint8_t *traits; /* per op, see image.h */
	uint32_t n_traits, traits_room;
	uint32_t layer; /* of the ops added next; MQ_NONE outside the blocks */
	const char *prefix;
	bool train;
	bool frozen;      /* the ops added next are not trained, nor any before them */
	bool fixed_norms; /* batch norms use averages of earlier training: a scale and a shift */
};

struct mq_kernel_shape {
	uint32_t filters, kh, kw, stride, ph, pw;
	bool bias;
	uint32_t groups; /* 0 = 1 */
};

/* Begins with an input op; returns the tensor of the images. */
struct mq_map mq_cnn_begin(struct mq_cnn *net, const char *name, const struct mq_model_request *request,
			   struct mq_arena *arena, uint32_t image);
/* The same with any number of channels, and sides of their own (h, and w = all further axes). */
struct mq_map mq_cnn_begin_with(struct mq_cnn *net, const char *name, const struct mq_model_request *request,
				struct mq_arena *arena, const struct mq_plane *shape);
struct mq_map mq_cnn_conv(struct mq_cnn *net, const char *name, struct mq_map in, const struct mq_kernel_shape *k);
/* The same over a window that the caller describes whole (three axes: h, and w = both others). */
struct mq_map mq_cnn_window(struct mq_cnn *net, const char *name, struct mq_map in, const struct mq_window *w);
/* Transposed convolution to the shape w->out. */
struct mq_map mq_cnn_transposed(struct mq_cnn *net, const char *name, struct mq_map in, const struct mq_window *w);
/* The op uses the weights of `owner`, an op of the same shape of weights. */
void mq_cnn_share(struct mq_cnn *net, struct mq_map op, struct mq_map owner);
struct mq_map mq_cnn_batch_norm(struct mq_cnn *net, const char *name, struct mq_map in);
struct mq_map mq_cnn_relu(struct mq_cnn *net, const char *name, struct mq_map in);
/* x sigmoid(x). */
struct mq_map mq_cnn_swish(struct mq_cnn *net, const char *name, struct mq_map in);
/* Squeeze and excitation (Hu et al. 2018): channels are weighed by two linear layers, `reduced` wide
 * between them, over their averages. */
struct mq_map mq_cnn_squeeze(struct mq_cnn *net, const char *name, struct mq_map in, uint32_t reduced, bool swish);
/* Convolution without bias, batch norm, ReLU ("NAME", "NAME.bn", "NAME.relu"). */
struct mq_map mq_cnn_unit(struct mq_cnn *net, const char *name, struct mq_map in, const struct mq_kernel_shape *k);
/* Max or average pooling with a square window. */
struct mq_map mq_cnn_pool(struct mq_cnn *net, const char *name, struct mq_map in, const uint32_t size_stride_pad[3],
			  bool max);
/* Average over the whole image. */
struct mq_map mq_cnn_global_pool(struct mq_cnn *net, const char *name, struct mq_map in);
struct mq_map mq_cnn_add(struct mq_cnn *net, const char *name, struct mq_map a, struct mq_map b);
struct mq_map mq_cnn_concat(struct mq_cnn *net, const char *name, const struct mq_map *in, uint32_t n);
/* Nearest-neighbour resize, crop: the output's elements are copied. */
struct mq_map mq_cnn_copy(struct mq_cnn *net, const char *name, struct mq_map in, const struct mq_plane *out);
/* A bottleneck of residual networks: `width` channels in `groups` groups, four times `base` out; 0 or
 * the width between the linear layers of its squeeze and excitation. */
struct mq_bottleneck {
	uint32_t base, width, groups, stride, squeeze;
};
struct mq_map mq_cnn_bottleneck(struct mq_cnn *net, struct mq_map in, const struct mq_bottleneck *b);
/* "layer" of what is added next, and the prefix of its names; MQ_NONE: outside the blocks. */
void mq_cnn_layer(struct mq_cnn *net, uint32_t layer, const char *prefix);
/* Fully connected over `rows` equal parts of the tensor (regions of an image), to `width` each. */
struct mq_map mq_cnn_dense(struct mq_cnn *net, const char *name, struct mq_map in, double rows, uint32_t width);
/* Fully connected, over all elements of the tensor. */
struct mq_map mq_cnn_linear(struct mq_cnn *net, const char *name, struct mq_map in, uint32_t width);
struct mq_map mq_cnn_dropout(struct mq_cnn *net, const char *name, struct mq_map in);
/* Softmax cross-entropy over all elements of the tensor; in inference nothing. */
void mq_cnn_loss(struct mq_cnn *net, const char *name, struct mq_map logits);
/* MQ_EINPUT: an image too small for the network; `what` names the model. */
enum mq_status mq_cnn_finish(struct mq_cnn *net, const char *what, struct mq_model **model,
			     struct mq_err *err) MQ_MUST_CHECK;

/* A square kernel of `filters` that keeps the image's size, divided by the step. */
#define MQ_SQUARE(filters, size, step) \
	(&(struct mq_kernel_shape){ filters, size, size, step, (size) / 2, (size) / 2, false, 1 })

#endif
