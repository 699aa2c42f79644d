/*
 * common_cnn.h - layers of image networks, chained: each takes a tensor and gives the next.
 */
#ifndef MQ_FORMATS_COMMON_CNN_H
#define MQ_FORMATS_COMMON_CNN_H

#include "formats/common_image.h"

/* A tensor: the op that made it (MQ_NONE = the images) and its shape. */
struct mq_map {
	uint32_t op;
	struct mq_plane shape;
};

struct mq_cnn {
	struct mq_model_builder b;
	struct mq_arena *arena;
	uint8_t *traits;    /* per op, see common_image.h */
	uint32_t n_traits, traits_room;
	uint32_t layer;     /* of the ops added next; MQ_NONE outside the blocks */
	const char *prefix;
	bool train;
};

struct mq_kernel_shape {
	uint32_t filters, kh, kw, stride, ph, pw;
	bool bias;
	uint32_t groups; /* 0 = 1 */
};

/* Begins with an input op; returns the tensor of the images. */
struct mq_map mq_cnn_begin(struct mq_cnn *net, const char *name,
			   const struct mq_model_request *request, struct mq_arena *arena,
			   uint32_t image);
struct mq_map mq_cnn_conv(struct mq_cnn *net, const char *name, struct mq_map in,
			  const struct mq_kernel_shape *k);
struct mq_map mq_cnn_batch_norm(struct mq_cnn *net, const char *name, struct mq_map in);
struct mq_map mq_cnn_relu(struct mq_cnn *net, const char *name, struct mq_map in);
/* Convolution without bias, batch norm, ReLU ("NAME", "NAME.bn", "NAME.relu"). */
struct mq_map mq_cnn_unit(struct mq_cnn *net, const char *name, struct mq_map in,
			  const struct mq_kernel_shape *k);
/* Max or average pooling with a square window. */
struct mq_map mq_cnn_pool(struct mq_cnn *net, const char *name, struct mq_map in,
			  const uint32_t size_stride_pad[3], bool max);
/* Average over the whole image. */
struct mq_map mq_cnn_global_pool(struct mq_cnn *net, const char *name, struct mq_map in);
struct mq_map mq_cnn_add(struct mq_cnn *net, const char *name, struct mq_map a, struct mq_map b);
struct mq_map mq_cnn_concat(struct mq_cnn *net, const char *name, const struct mq_map *in,
			    uint32_t n);
/* Fully connected, over all elements of the tensor. */
struct mq_map mq_cnn_linear(struct mq_cnn *net, const char *name, struct mq_map in, uint32_t width);
struct mq_map mq_cnn_dropout(struct mq_cnn *net, const char *name, struct mq_map in);
/* Softmax cross-entropy over the classes; in inference nothing. */
void mq_cnn_loss(struct mq_cnn *net, const char *name, struct mq_map logits);
/* MQ_EINPUT: an image too small for the network; `what` names the model. */
enum mq_status mq_cnn_finish(struct mq_cnn *net, const char *what, struct mq_model **model,
			     struct mq_err *err) MQ_MUST_CHECK;

#endif
