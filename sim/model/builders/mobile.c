/*
 * mobile.c - image networks of inverted residual blocks: EfficientNet B0 to B7 (Tan and Le 2019; `wide`:
 * NVIDIA's "widese") and GPUNet (Wang et al. 2022, the configurations that NVIDIA publishes with it).
 * A block is a `layer`. Not modelled: stochastic depth, the teacher of distilled GPUNets, moving
 * averages of the weights.
 */
#include <string.h>

#include "model/builders/lib/mbconv.h"

struct options {
	uint32_t image, classes;
	bool wide;
};

static const struct mq_opt opts[] = {
	MQ_U32(struct options, image, 0, 1, 1e5, "height and width; default: as published"),
	MQ_U32(struct options, classes, 1000, 1, 1e8, "classes"),
	MQ_BOOL(struct options, wide, 0, "efficientnet: squeeze to a quarter of the widened channels"), MQ_END
};

/* ---- efficientnet ---------------------------------------------------------------------------- */

static const uint32_t efficientnet_images[8] = { 224, 240, 260, 300, 380, 456, 528, 600 };

static void efficientnet(struct mq_cnn *net, struct mq_map x, uint32_t version, const struct options *o)
{
	uint32_t width = mq_efficientnet_width(version, 1280);

	x = mq_cnn_efficientnet(net, x, version, o->wide, NULL);
	mq_cnn_layer(net, MQ_NONE, "");
	x = mq_cnn_conv(net, "head", x, MQ_SQUARE(width, 1, 1));
	x = mq_cnn_norm_act(net, "head", x, true);
	x = mq_cnn_dropout(net, "dropout", mq_cnn_global_pool(net, "pool", x));
	mq_cnn_loss(net, "loss", mq_cnn_linear(net, "classifier", x, o->classes));
}

/* ---- gpunet ---------------------------------------------------------------------------------- */

#define CONV(k, s, f, n)                                              \
	{                                                             \
		MQ_MB_CONV, k, s, 1, f, false, false, n, false, false \
	}
#define FUSED(k, s, e, f, se, swish, n)                             \
	{                                                           \
		MQ_MB_FUSED, k, s, e, f, se, swish, n, false, false \
	}
#define BLOCK(k, s, e, f, se, swish, n)                             \
	{                                                           \
		MQ_MB_BLOCK, k, s, e, f, se, swish, n, false, false \
	}
/* of the distilled networks: not rounded, ReLU, no squeeze */
#define PLAIN(k, s, e, f, n)                                          \
	{                                                             \
		MQ_MB_BLOCK, k, s, e, f, false, false, n, true, false \
	}

struct gpunet {
	const char *name;
	uint32_t image, stem, stem_convs, head, tail;
	bool swish; /* in the stem */
	struct mq_mbconv stage[24];
};

static const struct gpunet gpunets[] = {
	{ "gpunet_0",
	  320,
	  32,
	  1,
	  0,
	  1280,
	  true,
	  { CONV(3, 1, 32, 2), FUSED(3, 2, 5, 32, 0, 0, 2), FUSED(3, 2, 5, 64, 0, 0, 3), BLOCK(3, 2, 5, 256, 0, 1, 3),
	    BLOCK(3, 2, 5, 704, 1, 0, 2) } },
	{ "gpunet_1",
	  288,
	  24,
	  1,
	  0,
	  1280,
	  true,
	  { CONV(3, 1, 24, 1), FUSED(3, 2, 4, 64, 0, 1, 2), FUSED(3, 2, 4, 96, 0, 1, 2), BLOCK(3, 2, 2, 160, 1, 1, 1),
	    BLOCK(3, 1, 5, 288, 0, 0, 4), BLOCK(3, 2, 4, 448, 1, 0, 4) } },
	{ "gpunet_2",
	  384,
	  32,
	  1,
	  0,
	  1280,
	  true,
	  { CONV(3, 1, 32, 3), FUSED(5, 2, 6, 32, 1, 1, 1), FUSED(3, 2, 3, 112, 0, 1, 3), BLOCK(3, 2, 6, 144, 0, 1, 6),
	    BLOCK(5, 1, 3, 160, 0, 0, 4), BLOCK(3, 2, 3, 224, 1, 1, 8), BLOCK(5, 1, 2, 832, 0, 0, 7) } },
	{ "gpunet_p0",
	  224,
	  32,
	  1,
	  0,
	  1984,
	  false,
	  { CONV(3, 1, 32, 2), CONV(3, 2, 64, 1), BLOCK(3, 2, 8, 96, 0, 0, 1), BLOCK(3, 1, 7.67, 96, 0, 0, 2),
	    BLOCK(3, 2, 7.67, 256, 0, 0, 1), BLOCK(5, 1, 4.25, 256, 0, 0, 1), BLOCK(3, 1, 4.75, 256, 0, 0, 1),
	    BLOCK(3, 2, 8, 704, 0, 0, 1), BLOCK(5, 1, 3.82, 704, 0, 0, 1), BLOCK(3, 1, 3.36, 704, 0, 0, 1),
	    BLOCK(3, 1, 2.55, 704, 0, 0, 1), BLOCK(3, 2, 5.73, 704, 0, 0, 1) } },
	{ "gpunet_p1",
	  224,
	  32,
	  1,
	  0,
	  1984,
	  false,
	  { CONV(3, 1, 32, 2), CONV(5, 2, 64, 1), BLOCK(3, 1, 8, 64, 0, 0, 2), BLOCK(5, 2, 8, 96, 0, 0, 2),
	    BLOCK(5, 2, 8, 256, 0, 0, 1), BLOCK(5, 1, 7.5, 256, 0, 0, 1), BLOCK(3, 1, 7.88, 256, 0, 0, 1),
	    BLOCK(5, 2, 7.88, 704, 0, 0, 1), BLOCK(5, 1, 8, 704, 0, 0, 1), BLOCK(3, 1, 7.41, 704, 0, 0, 1),
	    BLOCK(5, 1, 8, 704, 0, 0, 1), BLOCK(5, 2, 7.95, 704, 0, 0, 1) } },
	{ "gpunet_d1",
	  456,
	  33,
	  1,
	  1152,
	  1984,
	  false,
	  { PLAIN(3, 1, 1, 33, 1), PLAIN(3, 2, 3, 44, 1), PLAIN(5, 1, 4, 44, 1), PLAIN(3, 1, 3, 44, 1),
	    PLAIN(5, 2, 4, 67, 2), PLAIN(3, 1, 6, 67, 1), PLAIN(5, 1, 3, 67, 1), PLAIN(7, 2, 6, 134, 1),
	    PLAIN(5, 1, 6, 134, 1), PLAIN(3, 1, 3, 134, 1), PLAIN(5, 1, 4, 134, 1), PLAIN(3, 1, 6, 190, 1),
	    PLAIN(5, 1, 6, 190, 1), PLAIN(7, 1, 6, 190, 1), PLAIN(3, 1, 4, 190, 1), PLAIN(3, 2, 6, 268, 1),
	    PLAIN(3, 1, 6, 268, 1), PLAIN(5, 1, 6, 268, 1), PLAIN(3, 1, 3, 268, 3) } },
	{ "gpunet_d2", 528, 48, 3, 1152, 1984, false, { PLAIN(3, 1, 1, 48, 1),  PLAIN(3, 2, 3, 64, 1),
							PLAIN(5, 1, 4, 64, 1),  PLAIN(3, 1, 3, 64, 1),
							PLAIN(5, 2, 4, 96, 2),  PLAIN(3, 1, 6, 96, 1),
							PLAIN(5, 1, 3, 96, 1),  PLAIN(7, 2, 6, 192, 1),
							PLAIN(5, 1, 6, 192, 1), PLAIN(3, 1, 3, 192, 1),
							PLAIN(5, 1, 4, 192, 2), PLAIN(3, 1, 6, 272, 1),
							PLAIN(5, 1, 6, 272, 1), PLAIN(7, 1, 6, 272, 1),
							PLAIN(5, 1, 6, 272, 1), PLAIN(3, 1, 4, 272, 1),
							PLAIN(3, 2, 6, 384, 1), PLAIN(3, 1, 6, 384, 1),
							PLAIN(5, 1, 6, 384, 1), PLAIN(3, 1, 3, 384, 4) } },
};

static void gpunet(struct mq_cnn *net, struct mq_map x, const struct gpunet *g, const struct options *o)
{
	uint32_t layer = 0;

	for (uint32_t i = 0; i < g->stem_convs; i++) {
		const char *name = mq_arena_printf(net->arena, "stem%u", i + 1);

		x = mq_cnn_conv(net, name, x, MQ_SQUARE(g->stem, 3, i ? 1 : 2));
		x = mq_cnn_norm_act(net, name, x, g->swish);
	}
	for (const struct mq_mbconv *b = g->stage; b->repeat; b++)
		x = mq_cnn_mbconvs(net, x, b, &layer);
	mq_cnn_layer(net, MQ_NONE, "");
	x = mq_cnn_conv(net, "head", x, MQ_SQUARE(g->head ? g->head : g->tail, 1, 1));
	x = mq_cnn_norm_act(net, "head", x, false);
	x = mq_cnn_global_pool(net, "pool", x);
	if (g->head)
		x = mq_cnn_relu(net, "tail.relu", mq_cnn_conv(net, "tail", x, MQ_SQUARE(g->tail, 1, 1)));
	x = mq_cnn_dropout(net, "dropout", x);
	mq_cnn_loss(net, "loss", mq_cnn_linear(net, "classifier", x, o->classes));
}

/* ---- names ----------------------------------------------------------------------------------- */

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	const char *what = mq_arena_printf(arena, "model '%s'", name);
	const struct gpunet *g = NULL;
	uint32_t version = (uint32_t)(name[strlen(name) - 1] - '0');
	struct options o;
	struct mq_cnn net;

	mq_opt_defaults(opts, &o);
	MQ_TRY(mq_opt_parse(opts, &o, what, options, arena, err));
	for (size_t i = 0; i < sizeof(gpunets) / sizeof(*gpunets); i++)
		if (!strcmp(gpunets[i].name, name))
			g = &gpunets[i];
	if (g && o.wide)
		return mq_fail(err, MQ_EINPUT, "%s: wide= belongs to the EfficientNets; leave it out", what);
	if (!o.image)
		o.image = g ? g->image : efficientnet_images[version];
	const char *full = options && *options ? mq_arena_printf(arena, "%s:%s", name, options) : name;
	struct mq_map images = mq_cnn_begin(&net, full, request, arena, o.image);
	if (g)
		gpunet(&net, images, g, &o);
	else
		efficientnet(&net, images, version, &o);
	return mq_cnn_finish(&net, what, model, err);
}

const struct mq_format mq_format_mobile = {
	.name = "mobile",
	.summary = "efficientnet, gpunet: image networks of inverted residual blocks",
	.names = (const char *const[]){ "efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3",
					"efficientnet_b4", "efficientnet_b5", "efficientnet_b6", "efficientnet_b7",
					"gpunet_0", "gpunet_1", "gpunet_2", "gpunet_d1", "gpunet_d2", "gpunet_p0",
					"gpunet_p1", NULL },
	.opts = opts,
	.build = build,
};
