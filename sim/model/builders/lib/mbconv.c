/* mbconv.c - see mbconv.h. */
#include "model/builders/lib/mbconv.h"

#include <math.h>

struct mq_map mq_cnn_norm_act(struct mq_cnn *net, const char *name, struct mq_map x, bool swish)
{
	x = mq_cnn_batch_norm(net, mq_arena_printf(net->arena, "%s.bn", name), x);
	if (swish)
		return mq_cnn_swish(net, mq_arena_printf(net->arena, "%s.swish", name), x);
	return mq_cnn_relu(net, mq_arena_printf(net->arena, "%s.relu", name), x);
}

uint32_t mq_channels_of_8(double channels)
{
	double rounded = fmax(8, floor((channels + 4) / 8) * 8);

	if (rounded < .9 * channels)
		rounded += 8;
	return (uint32_t)rounded;
}

static struct mq_map conv_act(struct mq_cnn *net, const char *name, struct mq_map x, const struct mq_kernel_shape *k,
			      bool swish)
{
	return mq_cnn_norm_act(net, name, mq_cnn_conv(net, name, x, k), swish);
}

struct mq_map mq_cnn_mbconv(struct mq_cnn *net, struct mq_map in, const struct mq_mbconv *b, uint32_t stride)
{
	double wide = in.shape.c * b->expansion;
	uint32_t middle = b->exact ? (uint32_t)wide : mq_channels_of_8(wide);
	struct mq_kernel_shape k = *MQ_SQUARE(middle, b->kernel, stride);
	struct mq_map x = in;

	if (b->kind == MQ_MB_CONV) {
		k.filters = b->filters;
		return conv_act(net, "conv", x, &k, b->swish);
	}
	if (b->kind == MQ_MB_BLOCK) {
		if (b->expansion > 1 || b->exact)
			x = conv_act(net, "expand", x, MQ_SQUARE(middle, 1, 1), b->swish);
		k.groups = middle;
		x = conv_act(net, "depthwise", x, &k, b->swish);
	} else {
		x = conv_act(net, "expand", x, &k, b->swish);
	}
	if (b->squeeze)
		x = mq_cnn_squeeze(net, "squeeze", x, (uint32_t)fmax(1, round((b->wide ? middle : in.shape.c) / 4)),
				   b->swish);
	x = mq_cnn_conv(net, "project", x, MQ_SQUARE(b->filters, 1, 1));
	x = mq_cnn_batch_norm(net, "project.bn", x);
	return stride == 1 && in.shape.c == b->filters ? mq_cnn_add(net, "add", x, in) : x;
}

struct mq_map mq_cnn_mbconvs(struct mq_cnn *net, struct mq_map x, const struct mq_mbconv *b, uint32_t *layer)
{
	for (uint32_t i = 0; i < b->repeat; i++) {
		mq_cnn_layer(net, *layer, mq_arena_printf(net->arena, "block%u.", *layer));
		x = mq_cnn_mbconv(net, x, b, i ? 1 : b->stride);
		(*layer)++;
	}
	return x;
}

/* ---- efficientnet ---------------------------------------------------------------------------- */

static const struct mq_mbconv stages[] = {
	{ MQ_MB_BLOCK, 3, 1, 1, 16, true, true, 1, false, false },
	{ MQ_MB_BLOCK, 3, 2, 6, 24, true, true, 2, false, false },
	{ MQ_MB_BLOCK, 5, 2, 6, 40, true, true, 2, false, false },
	{ MQ_MB_BLOCK, 3, 2, 6, 80, true, true, 3, false, false },
	{ MQ_MB_BLOCK, 5, 1, 6, 112, true, true, 3, false, false },
	{ MQ_MB_BLOCK, 5, 2, 6, 192, true, true, 4, false, false },
	{ MQ_MB_BLOCK, 3, 1, 6, 320, true, true, 1, false, false },
};

/* Factors on width and depth. */
static const double scales[8][2] = {
	{ 1, 1 }, { 1, 1.1 }, { 1.1, 1.2 }, { 1.2, 1.4 }, { 1.4, 1.8 }, { 1.6, 2.2 }, { 1.8, 2.6 }, { 2, 3.1 },
};

uint32_t mq_efficientnet_width(uint32_t version, double channels)
{
	return mq_channels_of_8(scales[version][0] * channels);
}

struct mq_map mq_cnn_efficientnet(struct mq_cnn *net, struct mq_map x, uint32_t version, bool wide,
				  struct mq_map taps[5])
{
	uint32_t layer = 0, level = 0;

	x = conv_act(net, "stem", x, MQ_SQUARE(mq_efficientnet_width(version, 32), 3, 2), true);
	for (size_t i = 0; i < sizeof(stages) / sizeof(*stages); i++) {
		struct mq_mbconv b = stages[i];

		if (taps && b.stride == 2)
			taps[level++] = x;
		b.filters = mq_efficientnet_width(version, b.filters);
		b.repeat = (uint32_t)ceil(scales[version][1] * b.repeat);
		b.wide = wide;
		x = mq_cnn_mbconvs(net, x, &b, &layer);
	}
	if (taps)
		taps[level] = x;
	return x;
}
