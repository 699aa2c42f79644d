/*
 * mbconv.h - inverted residual blocks (Sandler et al. 2018, MobileNet v2), as in the
 * EfficientNets, EfficientDet and GPUNet.
 */
#ifndef MQ_MODEL_BUILDERS_LIB_MBCONV_H
#define MQ_MODEL_BUILDERS_LIB_MBCONV_H

#include "model/builders/lib/cnn.h"

enum mq_mbconv_kind {
	MQ_MB_CONV,  /* a convolution, batch norm and activation */
	MQ_MB_FUSED, /* widening by the k x k convolution itself */
	MQ_MB_BLOCK, /* 1x1 to `expansion` times the channels, depthwise k x k, 1x1 to `filters` */
};

/* `repeat` blocks alike; of these the first alone has the stride, and no shortcut where the shape
 * changes. */
struct mq_mbconv {
	enum mq_mbconv_kind kind;
	uint32_t kernel, stride;
	double expansion;
	uint32_t filters;
	bool squeeze; /* a quarter of the block's input channels wide */
	bool swish;
	uint32_t repeat;
	bool exact; /* the widened channels are not rounded to multiples of 8 */
	bool wide;  /* squeeze: a quarter of the widened channels */
};

/* Batch norm and ReLU or swish. */
struct mq_map mq_cnn_norm_act(struct mq_cnn *net, const char *name, struct mq_map x, bool swish);
/* Channels as a multiple of 8, not more than a tenth below `channels`. */
uint32_t mq_channels_of_8(double channels);
/* One block; the layer and the prefix of names are the caller's. */
struct mq_map mq_cnn_mbconv(struct mq_cnn *net, struct mq_map x, const struct mq_mbconv *b, uint32_t stride);
/* All blocks of `b`, each a layer of its own from *layer on. */
struct mq_map mq_cnn_mbconvs(struct mq_cnn *net, struct mq_map x, const struct mq_mbconv *b, uint32_t *layer);

/* EfficientNet-B<version> (Tan and Le 2019) without its head; taps[5] (or NULL) are its maps at 1/2 to
 * 1/32 of the image. */
struct mq_map mq_cnn_efficientnet(struct mq_cnn *net, struct mq_map images, uint32_t version, bool wide,
				  struct mq_map taps[5]);
/* A width as that version scales it. */
uint32_t mq_efficientnet_width(uint32_t version, double channels);

#endif
