/*
 * detection.c - networks that find objects: `ssd300` (Liu et al. 2016, on ResNet-50 up to its third
 * stage, as in MLPerf and NVIDIA's examples), `mask_rcnn` (He et al. 2017, on ResNet-50 with a feature
 * pyramid, Lin et al. 2017) and `efficientdet_d0` to `_d7` (Tan et al. 2020). A block of the backbone,
 * and what follows it as one, is a `layer`.
 *
 * Not modelled: which boxes there are. Mask R-CNN always samples as many regions as it may; the best of its
 * proposals are found in one memory-bound op over all anchors, which on the host has to compare each
 * with each (suppression=host, as in TensorFlow).
 */
#include <string.h>

#include "model/builders/lib/mbconv.h"

struct options {
	uint32_t image, width, classes, regions;
	uint32_t suppression; /* 0 on the device, 1 on the host */
};

static const struct mq_opt opts[] = {
	MQ_U32(struct options, image, 0, 1, 1e5, "height; default 300, mask_rcnn: 832, efficientdet: as published"),
	MQ_U32(struct options, width, 0, 1, 1e5, "mask_rcnn: width; default 1344"),
	MQ_U32(struct options, classes, 0, 1, 1e6,
	       "with background; default 81, mask_rcnn: 91; efficientdet without: 90"),
	MQ_U32(struct options, regions, 512, 4, 1e5, "mask_rcnn: regions sampled in an image"),
	MQ_CHOICE(struct options, suppression, 0, "device|host", "mask_rcnn: where overlapping boxes are dropped"),
	MQ_END
};

static struct mq_map conv_bias(struct mq_cnn *net, const char *name, struct mq_map x, uint32_t filters, uint32_t size)
{
	struct mq_kernel_shape k = *MQ_SQUARE(filters, size, 1);

	k.bias = true;
	return mq_cnn_conv(net, name, x, &k);
}

/* The stages of a ResNet-50 behind its stem; `taps` (or NULL) are their outputs. */
static struct mq_map stages(struct mq_cnn *net, struct mq_map x, uint32_t n, uint32_t halvings, struct mq_map *taps)
{
	static const uint32_t blocks[] = { 3, 4, 6, 3 };
	uint32_t layer = 0;

	for (uint32_t s = 0; s < n; s++) {
		for (uint32_t i = 0; i < blocks[s]; i++) {
			const struct mq_bottleneck b = { 64u << s, 64u << s, 1, s && !i && s <= halvings ? 2 : 1, 0 };

			mq_cnn_layer(net, layer++, mq_arena_printf(net->arena, "stage%u.block%u.", s + 1, i));
			x = mq_cnn_bottleneck(net, x, &b);
		}
		if (taps)
			taps[s] = x;
		net->frozen = false;
	}
	mq_cnn_layer(net, layer, "");
	return x;
}

static struct mq_map stem(struct mq_cnn *net, struct mq_map x)
{
	x = mq_cnn_unit(net, "stem", x, MQ_SQUARE(64, 7, 2));
	return mq_cnn_pool(net, "stem.pool", x, (uint32_t[]){ 3, 2, 1 }, true);
}

/* ---- ssd300 ---------------------------------------------------------------------------------- */

enum { SSD_MAPS = 6 };

/* Maps of 38, 19, 10, 5, 3 and 1 squared: the last two by convolutions without padding. */
static void ssd300(struct mq_cnn *net, struct mq_map x, const struct options *o)
{
	static const uint32_t middle[] = { 256, 256, 128, 128, 128 };
	static const uint32_t filters[] = { 512, 512, 256, 256, 256 };
	static const uint32_t boxes[SSD_MAPS] = { 4, 6, 6, 6, 4, 4 };
	struct mq_map place[SSD_MAPS], kind[SSD_MAPS];

	x = stages(net, stem(net, x), 3, 1, NULL);
	for (uint32_t i = 0; i < SSD_MAPS; i++) {
		place[i] = conv_bias(net, mq_arena_printf(net->arena, "map%u.boxes", i), x, 4 * boxes[i], 3);
		kind[i] = conv_bias(net, mq_arena_printf(net->arena, "map%u.classes", i), x, o->classes * boxes[i], 3);
		if (i + 1 == SSD_MAPS)
			break;
		const char *name = mq_arena_printf(net->arena, "extra%u", i + 1);
		struct mq_kernel_shape k = *MQ_SQUARE(filters[i], 3, i < 3 ? 2 : 1);
		if (i >= 3)
			k.ph = k.pw = 0;
		x = mq_cnn_unit(net, mq_arena_printf(net->arena, "%s.1", name), x, MQ_SQUARE(middle[i], 1, 1));
		x = mq_cnn_unit(net, mq_arena_printf(net->arena, "%s.2", name), x, &k);
	}
	/* a tensor's channels are what is beside one another: boxes have 4, classes as many as there
	 * are, each a row of its own */
	for (uint32_t i = 0; i < SSD_MAPS; i++) {
		place[i].shape = (struct mq_plane){ place[i].shape.c * place[i].shape.h * place[i].shape.w, 1, 1 };
		kind[i].shape = (struct mq_plane){ kind[i].shape.c * kind[i].shape.h * kind[i].shape.w, 1, 1 };
	}
	mq_cnn_layer(net, MQ_NONE, "");
	mq_cnn_loss(net, "boxes.loss", mq_cnn_concat(net, "boxes", place, SSD_MAPS));
	mq_cnn_loss(net, "classes.loss", mq_cnn_concat(net, "classes", kind, SSD_MAPS));
}

/* ---- mask_rcnn ------------------------------------------------------------------------------- */

enum { PYRAMID = 5, ANCHORS = 3, FPN = 256 };

/* Lin et al.: 1x1 over the stages, down from the smallest, 3x3; the fifth map is every second pixel of
 * the fourth. */
static void pyramid(struct mq_cnn *net, const struct mq_map stage[4], struct mq_map map[PYRAMID])
{
	struct mq_map x = stage[3];

	for (uint32_t i = 4; i-- > 0;) {
		struct mq_map side = conv_bias(net, mq_arena_printf(net->arena, "fpn%u.side", i + 2), stage[i], FPN, 1);

		if (i < 3) {
			x = mq_cnn_copy(net, mq_arena_printf(net->arena, "fpn%u.up", i + 2), x, &side.shape);
			side = mq_cnn_add(net, mq_arena_printf(net->arena, "fpn%u.add", i + 2), x, side);
		}
		x = side;
		map[i] = conv_bias(net, mq_arena_printf(net->arena, "fpn%u", i + 2), x, FPN, 3);
	}
	map[4] = mq_cnn_pool(net, "fpn6", map[3], (uint32_t[]){ 1, 2, 0 }, true);
}

/* Of the best 2,000 boxes of a map each is held against each before it; a share of overlap takes 16
 * operations (four extremes, two differences, three areas of three, sum, difference, quotient). */
static double suppression_flop(const struct mq_map map[PYRAMID])
{
	double flop = 0;

	for (uint32_t i = 0; i < PYRAMID; i++) {
		double boxes = ANCHORS * map[i].shape.h * map[i].shape.w;
		double best = boxes < 2000 ? boxes : 2000;

		flop += 16 * best * best / 2;
	}
	return flop;
}

/* The same three convolutions over each map; all scores and boxes in one list. */
static struct mq_map proposals(struct mq_cnn *net, const struct mq_map map[PYRAMID])
{
	static const char *const names[] = { "rpn", "rpn.scores", "rpn.boxes" };
	struct mq_map first[3] = { { 0 } }, all[2 * PYRAMID];

	for (uint32_t i = 0; i < PYRAMID; i++) {
		struct mq_map x = map[i];

		for (uint32_t k = 0; k < 3; k++) {
			const char *name = mq_arena_printf(net->arena, "%s%u", names[k], i + 2);
			struct mq_map y = conv_bias(net, name, x,
						    k == 0 ? FPN :
						    k == 1 ? ANCHORS :
							     4 * ANCHORS,
						    k == 0 ? 3 : 1);

			if (i)
				mq_cnn_share(net, y, first[k]);
			else
				first[k] = y;
			if (k == 0)
				x = mq_cnn_relu(net, mq_arena_printf(net->arena, "%s.relu", name), y);
			else
				all[2 * i + k - 1] = y;
		}
	}
	for (uint32_t i = 0; i < 2 * PYRAMID; i++)
		all[i].shape = (struct mq_plane){ all[i].shape.c * all[i].shape.h * all[i].shape.w, 1, 1 };
	return mq_cnn_concat(net, "rpn.all", all, 2 * PYRAMID);
}

/* `n` regions of size x size cells, each the mean of 2x2 points between 4 pixels. */
static struct mq_map regions(struct mq_cnn *net, const char *name, const struct mq_map map[PYRAMID], double n,
			     double size)
{
	struct mq_map x = mq_cnn_concat(net, name, map, PYRAMID);
	struct mq_op *op = &net->b.model->op[x.op];

	x.shape = (struct mq_plane){ FPN, n * size, size };
	op->write = op->output = FPN * n * size * size;
	op->read = 16 * op->output;
	op->moved_bwd = 17 * op->output;
	op->splits = 1u << MQ_DIM_BATCH;
	return x;
}

static void mask_head(struct mq_cnn *net, struct mq_map x, uint32_t classes)
{
	for (uint32_t i = 1; i <= 4; i++) {
		const char *name = mq_arena_printf(net->arena, "mask.conv%u", i);

		x = mq_cnn_relu(net, mq_arena_printf(net->arena, "%s.relu", name), conv_bias(net, name, x, FPN, 3));
	}
	const struct mq_window w = { .in = x.shape,
				     .out = { FPN, 2 * x.shape.h, 2 * x.shape.w },
				     .kh = 2,
				     .kw = 2,
				     .stride = 2,
				     .groups = 1,
				     .bias = true };
	x = mq_cnn_relu(net, "mask.up.relu", mq_cnn_transposed(net, "mask.up", x, &w));
	mq_cnn_loss(net, "mask.loss", conv_bias(net, "mask.classes", x, classes, 1));
}

/* The stem and the first stage are not trained, and no batch norm is. */
static void mask_rcnn(struct mq_cnn *net, struct mq_map x, const struct options *o)
{
	struct mq_map stage[4], map[PYRAMID];
	uint32_t n = o->regions;

	net->fixed_norms = true;
	net->frozen = net->train;
	x = stem(net, x);
	stages(net, x, 4, 3, stage);
	pyramid(net, stage, map);
	struct mq_map boxes = proposals(net, map);
	if (o->suppression)
		net->b.model->op[boxes.op].host_flop = suppression_flop(map);
	mq_cnn_loss(net, "rpn.loss", boxes);
	x = regions(net, "regions", map, n, 7);
	x = mq_cnn_relu(net, "box.fc1.relu", mq_cnn_dense(net, "box.fc1", x, n, 1024));
	x = mq_cnn_relu(net, "box.fc2.relu", mq_cnn_dense(net, "box.fc2", x, n, 1024));
	mq_cnn_loss(net, "box.class.loss", mq_cnn_dense(net, "box.class", x, n, o->classes));
	mq_cnn_loss(net, "box.loss", mq_cnn_dense(net, "box.place", x, n, 4 * o->classes));
	mask_head(net, regions(net, "mask.regions", map, n / 4, 14), o->classes);
	mq_cnn_layer(net, MQ_NONE, "");
}

/* ---- efficientdet ---------------------------------------------------------------------------- */

enum { LEVELS = 5, DET_ANCHORS = 9 };

static const struct det {
	uint32_t backbone, image, width, cells, repeats;
} dets[8] = {
	{ 0, 512, 64, 3, 3 },   { 1, 640, 88, 4, 3 },   { 2, 768, 112, 5, 3 },  { 3, 896, 160, 6, 4 },
	{ 4, 1024, 224, 7, 4 }, { 5, 1280, 288, 7, 4 }, { 6, 1280, 384, 8, 5 }, { 6, 1536, 384, 8, 5 },
};

/* Depthwise 3x3, then 1x1 with bias; of `owner` (two maps) where that is given. */
static struct mq_map separable(struct mq_cnn *net, const char *name, struct mq_map x, uint32_t filters,
			       struct mq_map owner[2], bool share)
{
	struct mq_kernel_shape k = *MQ_SQUARE((uint32_t)x.shape.c, 3, 1);

	k.groups = k.filters;
	struct mq_map y = mq_cnn_conv(net, mq_arena_printf(net->arena, "%s.depthwise", name), x, &k);
	struct mq_map z = conv_bias(net, mq_arena_printf(net->arena, "%s.pointwise", name), y, filters, 1);
	if (share) {
		mq_cnn_share(net, y, owner[0]);
		mq_cnn_share(net, z, owner[1]);
	} else if (owner) {
		owner[0] = y;
		owner[1] = z;
	}
	return z;
}

/* To the width of the pyramid. */
static struct mq_map to_width(struct mq_cnn *net, const char *name, struct mq_map x, uint32_t width)
{
	if (x.shape.c == width)
		return x;
	x = conv_bias(net, name, x, width, 1);
	return mq_cnn_batch_norm(net, mq_arena_printf(net->arena, "%s.bn", name), x);
}

/* To the next level down or up. */
static struct mq_map resized(struct mq_cnn *net, const char *name, struct mq_map x, const struct mq_plane *to)
{
	if (to->h > x.shape.h)
		return mq_cnn_copy(net, mq_arena_printf(net->arena, "%s.up", name), x,
				   &(struct mq_plane){ x.shape.c, to->h, to->w });
	return mq_cnn_pool(net, mq_arena_printf(net->arena, "%s.down", name), x, (uint32_t[]){ 3, 2, 1 }, true);
}

/* A weighted sum of maps, swish, separable convolution, batch norm. */
static struct mq_map joint(struct mq_cnn *net, const char *name, const struct mq_map *in, uint32_t n, uint32_t width)
{
	struct mq_map x = in[0];

	for (uint32_t i = 1; i < n; i++) {
		x = mq_cnn_add(net, mq_arena_printf(net->arena, "%s.add%u", name, i), x, in[i]);
		net->b.model->op[x.op].param = i == 1 ? 2 : 1; /* the weights of the sum */
	}
	x = mq_cnn_swish(net, mq_arena_printf(net->arena, "%s.swish", name), x);
	x = separable(net, name, x, width, NULL, false);
	return mq_cnn_batch_norm(net, mq_arena_printf(net->arena, "%s.bn", name), x);
}

/* One cell: down from the smallest map, then up again; each level hears itself and its neighbour. */
static void bifpn(struct mq_cnn *net, struct mq_map level[LEVELS], uint32_t width)
{
	struct mq_map down[LEVELS], in[3];
	const struct mq_map *given = level;

	down[LEVELS - 1] = level[LEVELS - 1];
	for (uint32_t i = LEVELS - 1; i-- > 0;) {
		const char *name = mq_arena_printf(net->arena, "down%u", i + 3);

		in[0] = to_width(net, mq_arena_printf(net->arena, "%s.width", name), given[i], width);
		in[1] = resized(net, name, down[i + 1], &given[i].shape);
		down[i] = joint(net, name, in, 2, width);
	}
	level[0] = down[0];
	for (uint32_t i = 1; i < LEVELS; i++) {
		const char *name = mq_arena_printf(net->arena, "up%u", i + 3);
		uint32_t n = 0;

		in[n++] = to_width(net, mq_arena_printf(net->arena, "%s.width", name), given[i], width);
		if (i + 1 < LEVELS)
			in[n++] = down[i];
		in[n++] = resized(net, name, level[i - 1], &given[i].shape);
		level[i] = joint(net, name, in, n, width);
	}
}

/* One of the two heads: the convolutions are shared by the levels, the norms are not. */
static struct mq_map head(struct mq_cnn *net, const char *what, const struct mq_map level[LEVELS], const struct det *d,
			  uint32_t filters)
{
	struct mq_map owner[6][2], out[LEVELS];

	for (uint32_t i = 0; i < LEVELS; i++) {
		struct mq_map x = level[i];

		for (uint32_t r = 0; r <= d->repeats; r++) {
			const char *name = mq_arena_printf(net->arena, "%s%u.conv%u", what, i + 3, r);
			bool last = r == d->repeats;

			x = separable(net, name, x, last ? filters : d->width, owner[r], i > 0);
			if (!last)
				x = mq_cnn_norm_act(net, name, x, true);
		}
		out[i] = x;
		out[i].shape = (struct mq_plane){ x.shape.c * x.shape.h * x.shape.w, 1, 1 };
	}
	return mq_cnn_concat(net, what, out, LEVELS);
}

static void efficientdet(struct mq_cnn *net, struct mq_map x, const struct det *d, const struct options *o)
{
	struct mq_map taps[5], level[LEVELS];

	mq_cnn_efficientnet(net, x, d->backbone, false, taps);
	uint32_t layer = net->layer;
	memcpy(level, taps + 2, 3 * sizeof(*level));
	x = to_width(net, "p6", taps[4], d->width);
	level[3] = mq_cnn_pool(net, "p6.down", x, (uint32_t[]){ 3, 2, 1 }, true);
	level[4] = mq_cnn_pool(net, "p7.down", level[3], (uint32_t[]){ 3, 2, 1 }, true);
	for (uint32_t c = 0; c < d->cells; c++) {
		mq_cnn_layer(net, ++layer, mq_arena_printf(net->arena, "cell%u.", c));
		bifpn(net, level, d->width);
	}
	mq_cnn_layer(net, MQ_NONE, "");
	mq_cnn_loss(net, "class.loss", head(net, "class", level, d, DET_ANCHORS * o->classes));
	mq_cnn_loss(net, "box.loss", head(net, "box", level, d, DET_ANCHORS * 4));
}

/* ---- names ----------------------------------------------------------------------------------- */

static void defaults(struct options *o, const char *name)
{
	bool ssd = !strcmp(name, "ssd300"), rcnn = !strcmp(name, "mask_rcnn");

	if (!o->image)
		o->image = ssd ? 300 : rcnn ? 832 : dets[name[strlen(name) - 1] - '0'].image;
	if (!o->width)
		o->width = rcnn ? 1344 : o->image;
	if (!o->classes)
		o->classes = ssd ? 81 : rcnn ? 91 : 90;
}

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	const char *what = mq_arena_printf(arena, "model '%s'", name);
	bool ssd = !strcmp(name, "ssd300"), rcnn = !strcmp(name, "mask_rcnn");
	struct options o;
	struct mq_cnn net;

	mq_opt_defaults(opts, &o);
	MQ_TRY(mq_opt_parse(opts, &o, what, options, arena, err));
	defaults(&o, name);
	double multiple = rcnn ? 32 : ssd ? 1 : 128;
	if ((uint32_t)(o.image / multiple) * multiple != o.image ||
	    (uint32_t)(o.width / multiple) * multiple != o.width)
		return mq_fail(err, MQ_EINPUT,
			       "%s: %u x %u is not a multiple of %g pixels, which its "
			       "pyramid needs",
			       what, o.image, o.width, multiple);
	if (!rcnn && o.width != o.image)
		return mq_fail(err, MQ_EINPUT, "%s: width= belongs to mask_rcnn; leave it out", what);
	const char *full = options && *options ? mq_arena_printf(arena, "%s:%s", name, options) : name;
	struct mq_map images = mq_cnn_begin_with(&net, full, request, arena, &(struct mq_plane){ 3, o.image, o.width });
	if (ssd)
		ssd300(&net, images, &o);
	else if (rcnn)
		mask_rcnn(&net, images, &o);
	else
		efficientdet(&net, images, &dets[name[strlen(name) - 1] - '0'], &o);
	return mq_cnn_finish(&net, what, model, err);
}

const struct mq_format mq_format_detection = {
	.name = "detection",
	.summary = "ssd300, mask_rcnn, efficientdet: object detection",
	.names = (const char *const[]){ "efficientdet_d0", "efficientdet_d1", "efficientdet_d2", "efficientdet_d3",
					"efficientdet_d4", "efficientdet_d5", "efficientdet_d6", "efficientdet_d7",
					"mask_rcnn", "ssd300", NULL },
	.opts = opts,
	.build = build,
};
