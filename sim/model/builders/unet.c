/*
 * unet.c - networks that segment images: `unet` (Ronneberger et al. 2015: convolutions without padding,
 * 572 pixels in, 388 out) and `unet3d` (as NVIDIA's TensorFlow example and nnU-Net, Isensee et al.
 * 2018: cubes of 128 voxels, six resolutions of 32 to 320 channels, instance norm). A resolution on
 * the way down or up is a `layer`.
 */
#include <string.h>

#include "model/builders/lib/cnn.h"

struct options {
	uint32_t image, channels, classes, up;
};

static const struct mq_opt opts[] = {
	MQ_U32(struct options, image, 0, 1, 1e4, "side in pixels, voxels; default 572, unet3d: 128"),
	MQ_U32(struct options, channels, 0, 1, 1e4, "of the image; default 1, unet3d: 4"),
	MQ_U32(struct options, classes, 0, 1, 1e6, "default 2, unet3d: 4"),
	MQ_U32(struct options, up, 2, 2, 3,
	       "unet: window of transposed convolutions; 3 has a ReLU behind it, as NVIDIA's has"),
	MQ_END
};

/* ---- unet ------------------------------------------------------------------------------------ */

static struct mq_map conv_relu(struct mq_cnn *net, const char *name, struct mq_map x, uint32_t filters)
{
	const struct mq_kernel_shape k = { filters, 3, 3, 1, 0, 0, true, 1 };

	x = mq_cnn_conv(net, name, x, &k);
	return mq_cnn_relu(net, mq_arena_printf(net->arena, "%s.relu", name), x);
}

static struct mq_map two_convs(struct mq_cnn *net, struct mq_map x, uint32_t filters)
{
	return conv_relu(net, "conv2", conv_relu(net, "conv1", x, filters), filters);
}

/* Twice the size, half the channels, beside the middle of what came down. */
static struct mq_map up(struct mq_cnn *net, struct mq_map x, struct mq_map skip, uint32_t size)
{
	const struct mq_window w = {
		.in = x.shape,
		.out = { x.shape.c / 2, 2 * x.shape.h, 2 * x.shape.w },
		.kh = size,
		.kw = size,
		.stride = 2,
		.groups = 1,
		.bias = true,
	};
	struct mq_map both[2];

	x = mq_cnn_transposed(net, "up", x, &w);
	if (size == 3)
		x = mq_cnn_relu(net, "up.relu", x);
	both[0] = x;
	both[1] = mq_cnn_copy(net, "crop", skip, &(struct mq_plane){ skip.shape.c, x.shape.h, x.shape.w });
	return mq_cnn_concat(net, "concat", both, 2);
}

static void unet(struct mq_cnn *net, struct mq_map x, const struct options *o)
{
	struct mq_map skip[4];

	for (uint32_t i = 0; i < 4; i++) {
		mq_cnn_layer(net, i, mq_arena_printf(net->arena, "down%u.", i + 1));
		skip[i] = two_convs(net, x, 64u << i);
		x = mq_cnn_pool(net, "pool", skip[i], (uint32_t[]){ 2, 2, 0 }, true);
	}
	mq_cnn_layer(net, 4, "bottom.");
	x = mq_cnn_dropout(net, "dropout", two_convs(net, x, 1024));
	for (uint32_t i = 4; i-- > 0;) {
		mq_cnn_layer(net, 8 - i, mq_arena_printf(net->arena, "up%u.", i + 1));
		x = two_convs(net, up(net, x, skip[i], o->up), 64u << i);
	}
	mq_cnn_layer(net, MQ_NONE, "");
	const struct mq_kernel_shape last = { o->classes, 1, 1, 1, 0, 0, true, 1 };
	mq_cnn_loss(net, "loss", mq_cnn_conv(net, "classes", x, &last));
}

/* ---- unet3d ---------------------------------------------------------------------------------- */

static const uint32_t widths[] = { 32, 64, 128, 256, 320, 320 };
enum { LEVELS = sizeof(widths) / sizeof(*widths) };

/* The width of a plane holds both further axes. */
static struct mq_map conv3d(struct mq_cnn *net, const char *name, struct mq_map x, uint32_t filters, uint32_t step,
			    bool bias)
{
	const struct mq_window w = {
		.in = x.shape,
		.out = { filters, x.shape.h / step, x.shape.w / step / step },
		.kh = 3,
		.kw = 9,
		.stride = step,
		.groups = 1,
		.bias = bias,
	};

	x = mq_cnn_window(net, name, x, &w);
	net->b.model->op[x.op].volume = true;
	return x;
}

static struct mq_map unit3d(struct mq_cnn *net, const char *name, struct mq_map x, uint32_t filters, uint32_t step)
{
	x = conv3d(net, name, x, filters, step, false);
	x = mq_cnn_batch_norm(net, mq_arena_printf(net->arena, "%s.norm", name), x);
	return mq_cnn_relu(net, mq_arena_printf(net->arena, "%s.relu", name), x);
}

static struct mq_map up3d(struct mq_cnn *net, struct mq_map x, struct mq_map skip)
{
	const struct mq_window w = {
		.in = x.shape,
		.out = { skip.shape.c, skip.shape.h, skip.shape.w },
		.kh = 2,
		.kw = 4,
		.stride = 2,
		.groups = 1,
		.bias = true,
	};
	const struct mq_map both[] = { mq_cnn_transposed(net, "up", x, &w), skip };

	return mq_cnn_concat(net, "concat", both, 2);
}

static void unet3d(struct mq_cnn *net, struct mq_map x, const struct options *o)
{
	struct mq_map skip[LEVELS];

	for (uint32_t i = 0; i < LEVELS; i++) {
		mq_cnn_layer(net, i, mq_arena_printf(net->arena, "down%u.", i));
		x = unit3d(net, "conv1", x, widths[i], i ? 2 : 1);
		skip[i] = x = unit3d(net, "conv2", x, widths[i], 1);
	}
	for (uint32_t i = LEVELS - 1; i-- > 0;) {
		mq_cnn_layer(net, 2 * LEVELS - 2 - i, mq_arena_printf(net->arena, "up%u.", i));
		x = up3d(net, x, skip[i]);
		x = unit3d(net, "conv1", x, widths[i], 1);
		x = unit3d(net, "conv2", x, widths[i], 1);
	}
	mq_cnn_layer(net, MQ_NONE, "");
	mq_cnn_loss(net, "loss", conv3d(net, "classes", x, o->classes, 1, true));
}

/* ---- names ----------------------------------------------------------------------------------- */

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	const char *what = mq_arena_printf(arena, "model '%s'", name);
	bool cubes = !strcmp(name, "unet3d");
	struct options o;
	struct mq_cnn net;

	mq_opt_defaults(opts, &o);
	MQ_TRY(mq_opt_parse(opts, &o, what, options, arena, err));
	o.image = o.image ? o.image : cubes ? 128 : 572;
	o.channels = o.channels ? o.channels : cubes ? 4 : 1;
	o.classes = o.classes ? o.classes : cubes ? 4 : 2;
	if (cubes && o.image % 32)
		return mq_fail(err, MQ_EINPUT,
			       "%s: image=%u is not a multiple of 32; it is halved "
			       "five times",
			       what, o.image);
	if (!cubes && (o.image < 188 || (o.image - 188) % 16))
		return mq_fail(err, MQ_EINPUT,
			       "%s: image=%u does not halve evenly four times; give "
			       "188 and a multiple of 16 more, as 572",
			       what, o.image);
	const char *full = options && *options ? mq_arena_printf(arena, "%s:%s", name, options) : name;
	const struct mq_plane shape = { o.channels, o.image, (cubes ? o.image : 1.) * o.image };
	struct mq_map images = mq_cnn_begin_with(&net, full, request, arena, &shape);
	(cubes ? unet3d : unet)(&net, images, &o);
	return mq_cnn_finish(&net, what, model, err);
}

const struct mq_format mq_format_unet = {
	.name = "unet",
	.summary = "unet, unet3d: segmentation of images and volumes",
	.names = (const char *const[]){ "unet", "unet3d", NULL },
	.opts = opts,
	.build = build,
};
