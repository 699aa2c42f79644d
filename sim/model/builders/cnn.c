/*
 * cnn.c - the built-in image networks: ResNet (He et al. 2015; the stride in the 3x3 convolution,
 * as in torchvision), ResNeXt 32x4d (Xie et al. 2016) and the same with
 * squeeze and excitation (Hu et al. 2018), AlexNet, VGG (Simonyan and Zisserman 2014),
 * Inception v3 (Szegedy et al. 2015, torchvision's layers). A block (a VGG convolution, a
 * bottleneck, an inception module) is a `layer`, for pipelines.
 */
#include <string.h>

#include "model/builders/lib/cnn.h"

struct options {
	uint32_t image, classes;
	uint32_t aux; /* 0 auto, 1 false, 2 true */
	bool batch_norm;
};

static const struct mq_opt opts[] = {
	MQ_U32(struct options, image, 0, 1, 1e5, "height and width; default 224, inception_v3: 299"),
	MQ_U32(struct options, classes, 1000, 1, 1e8, "classes"),
	MQ_CHOICE(struct options, aux, 0, "auto|false|true", "inception_v3: auxiliary classifier; auto: in training"),
	MQ_BOOL(struct options, batch_norm, 0, "vgg: batch norm behind each convolution"), MQ_END
};

static void classify(struct mq_cnn *net, struct mq_map x, uint32_t classes)
{
	mq_cnn_loss(net, "loss", mq_cnn_linear(net, "classifier", x, classes));
}

/* ---- resnet ---------------------------------------------------------------------------------- */

/* blocks[4]: channels of each of 32 groups in the first stage (ResNeXt); 0 = one group of 64.
 * blocks[5]: by what squeeze and excitation divide a block's channels; 0 = none. */
static void resnet(struct mq_cnn *net, struct mq_map x, const uint32_t blocks[6], uint32_t classes)
{
	uint32_t layer = 0, groups = blocks[4] ? 32 : 1, width = blocks[4] ? 32 * blocks[4] : 64;

	x = mq_cnn_unit(net, "stem", x, MQ_SQUARE(64, 7, 2));
	x = mq_cnn_pool(net, "stem.pool", x, (uint32_t[]){ 3, 2, 1 }, true);
	for (uint32_t stage = 0; stage < 4; stage++)
		for (uint32_t i = 0; i < blocks[stage]; i++) {
			const struct mq_bottleneck b = { 64u << stage, width << stage, groups, stage && !i ? 2 : 1,
							 blocks[5] ? (256u << stage) / blocks[5] : 0 };

			mq_cnn_layer(net, layer++, mq_arena_printf(net->arena, "stage%u.block%u.", stage + 1, i));
			x = mq_cnn_bottleneck(net, x, &b);
		}
	mq_cnn_layer(net, MQ_NONE, "");
	classify(net, mq_cnn_global_pool(net, "pool", x), classes);
}

/* ---- vgg ------------------------------------------------------------------------------------- */

static void vgg(struct mq_cnn *net, struct mq_map x, const uint32_t blocks[6], const struct options *o)
{
	static const uint32_t width[] = { 64, 128, 256, 512, 512 };
	uint32_t layer = 0;

	for (uint32_t b = 0; b < 5; b++) {
		for (uint32_t i = 0; i < blocks[b]; i++) {
			struct mq_kernel_shape k = *MQ_SQUARE(width[b], 3, 1);

			k.bias = true;
			mq_cnn_layer(net, layer++, mq_arena_printf(net->arena, "block%u.", b + 1));
			const char *name = mq_arena_printf(net->arena, "conv%u", i + 1);
			x = mq_cnn_conv(net, name, x, &k);
			if (o->batch_norm)
				x = mq_cnn_batch_norm(net, mq_arena_printf(net->arena, "%s.bn", name), x);
			x = mq_cnn_relu(net, mq_arena_printf(net->arena, "%s.relu", name), x);
		}
		x = mq_cnn_pool(net, "pool", x, (uint32_t[]){ 2, 2, 0 }, true);
	}
	mq_cnn_layer(net, MQ_NONE, "");
	for (uint32_t i = 1; i <= 2; i++) {
		const char *name = mq_arena_printf(net->arena, "fc%u", i);

		x = mq_cnn_relu(net, mq_arena_printf(net->arena, "%s.relu", name), mq_cnn_linear(net, name, x, 4096));
		x = mq_cnn_dropout(net, mq_arena_printf(net->arena, "%s.dropout", name), x);
	}
	classify(net, x, o->classes);
}

/* ---- alexnet --------------------------------------------------------------------------------- */

/* "One weird trick" (Krizhevsky 2014): one tower, without local response normalisation. */
static void alexnet(struct mq_cnn *net, struct mq_map x, uint32_t classes)
{
	static const struct mq_kernel_shape convs[] = {
		{ 64, 11, 11, 4, 2, 2, true, 1 }, { 192, 5, 5, 1, 2, 2, true, 1 }, { 384, 3, 3, 1, 1, 1, true, 1 },
		{ 256, 3, 3, 1, 1, 1, true, 1 },  { 256, 3, 3, 1, 1, 1, true, 1 },
	};

	for (uint32_t i = 0; i < 5; i++) {
		mq_cnn_layer(net, i, mq_arena_printf(net->arena, "block%u.", i + 1));
		x = mq_cnn_relu(net, "relu", mq_cnn_conv(net, "conv", x, &convs[i]));
		if (i < 2 || i == 4)
			x = mq_cnn_pool(net, "pool", x, (uint32_t[]){ 3, 2, 0 }, true);
	}
	mq_cnn_layer(net, MQ_NONE, "");
	for (uint32_t i = 1; i <= 2; i++) {
		const char *name = mq_arena_printf(net->arena, "fc%u", i);

		x = mq_cnn_dropout(net, mq_arena_printf(net->arena, "%s.dropout", name), x);
		x = mq_cnn_relu(net, mq_arena_printf(net->arena, "%s.relu", name), mq_cnn_linear(net, name, x, 4096));
	}
	classify(net, x, classes);
}

/* ---- inception v3 ---------------------------------------------------------------------------- */

/* A chain of convolution units described by text: "1x1:64 3x3:96 3x3s2:96". A side of 3 or more is
 * padded to keep the size ("p0": not padded); "s2" halves it. */
static struct mq_map chain(struct mq_cnn *net, const char *name, struct mq_map x, const char *text)
{
	uint32_t n = 1;

	while (*text) {
		struct mq_kernel_shape k = { .stride = 1 };
		bool padded = true;

		k.kh = (uint32_t)(*text++ - '0');
		k.kw = (uint32_t)(*++text - '0');
		for (text++; *text != ':'; text += 2)
			if (*text == 's')
				k.stride = (uint32_t)(text[1] - '0');
			else
				padded = false;
		for (text++; *text >= '0' && *text <= '9'; text++)
			k.filters = 10 * k.filters + (uint32_t)(*text - '0');
		text += *text == ' ';
		k.ph = padded ? (k.kh - 1) / 2 : 0;
		k.pw = padded ? (k.kw - 1) / 2 : 0;
		x = mq_cnn_unit(net, mq_arena_printf(net->arena, "%s%u", name, n++), x, &k);
	}
	return x;
}

static struct mq_map pooled(struct mq_cnn *net, struct mq_map x, const char *text)
{
	x = mq_cnn_pool(net, "pool", x, (uint32_t[]){ 3, 1, 1 }, false);
	return chain(net, "d", x, text);
}

struct module {
	const char *name;
	const char *a, *b, *c; /* branches; each text as in chain() */
	const char *pool;      /* behind an average pooling; NULL: a bare max pooling, stride 2 */
	bool fork;             /* b and c end in a 1x3 and a 3x1 convolution side by side */
};

static const struct module modules[] = {
	{ "mixed5b", "1x1:64", "1x1:48 5x5:64", "1x1:64 3x3:96 3x3:96", "1x1:32", false },
	{ "mixed5c", "1x1:64", "1x1:48 5x5:64", "1x1:64 3x3:96 3x3:96", "1x1:64", false },
	{ "mixed5d", "1x1:64", "1x1:48 5x5:64", "1x1:64 3x3:96 3x3:96", "1x1:64", false },
	{ "mixed6a", "3x3s2p0:384", "1x1:64 3x3:96 3x3s2p0:96", NULL, NULL, false },
	{ "mixed6b", "1x1:192", "1x1:128 1x7:128 7x1:192", "1x1:128 7x1:128 1x7:128 7x1:128 1x7:192", "1x1:192",
	  false },
	{ "mixed6c", "1x1:192", "1x1:160 1x7:160 7x1:192", "1x1:160 7x1:160 1x7:160 7x1:160 1x7:192", "1x1:192",
	  false },
	{ "mixed6d", "1x1:192", "1x1:160 1x7:160 7x1:192", "1x1:160 7x1:160 1x7:160 7x1:160 1x7:192", "1x1:192",
	  false },
	{ "mixed6e", "1x1:192", "1x1:192 1x7:192 7x1:192", "1x1:192 7x1:192 1x7:192 7x1:192 1x7:192", "1x1:192",
	  false },
	{ "mixed7a", "1x1:192 3x3s2p0:320", "1x1:192 1x7:192 7x1:192 3x3s2p0:192", NULL, NULL, false },
	{ "mixed7b", "1x1:320", "1x1:384", "1x1:448 3x3:384", "1x1:192", true },
	{ "mixed7c", "1x1:320", "1x1:384", "1x1:448 3x3:384", "1x1:192", true },
};

static struct mq_map inception_module(struct mq_cnn *net, struct mq_map in, const struct module *m)
{
	struct mq_map out[8];
	uint32_t n = 0;

	out[n++] = chain(net, "a", in, m->a);
	for (int branch = 0; branch < 2; branch++) {
		const char *text = branch ? m->c : m->b, *name = branch ? "c" : "b";

		if (!text)
			continue;
		struct mq_map x = chain(net, name, in, text);
		if (m->fork) {
			out[n++] = chain(net, mq_arena_printf(net->arena, "%s.row", name), x, "1x3:384");
			x = chain(net, mq_arena_printf(net->arena, "%s.column", name), x, "3x1:384");
		}
		out[n++] = x;
	}
	if (m->pool)
		out[n++] = pooled(net, in, m->pool);
	else
		out[n++] = mq_cnn_pool(net, "pool", in, (uint32_t[]){ 3, 2, 0 }, true);
	return mq_cnn_concat(net, "concat", out, n);
}

static void auxiliary(struct mq_cnn *net, struct mq_map x, uint32_t classes)
{
	x = mq_cnn_pool(net, "pool", x, (uint32_t[]){ 5, 3, 0 }, false);
	x = chain(net, "conv", x, "1x1:128 5x5p0:768");
	x = mq_cnn_global_pool(net, "global_pool", x);
	mq_cnn_loss(net, "loss", mq_cnn_linear(net, "classifier", x, classes));
}

static void inception_v3(struct mq_cnn *net, struct mq_map x, const struct options *o)
{
	bool aux = o->aux ? o->aux == 2 : net->train;

	x = chain(net, "stem.a", x, "3x3s2p0:32 3x3p0:32 3x3:64");
	x = mq_cnn_pool(net, "stem.a.pool", x, (uint32_t[]){ 3, 2, 0 }, true);
	x = chain(net, "stem.b", x, "1x1:80 3x3p0:192");
	x = mq_cnn_pool(net, "stem.b.pool", x, (uint32_t[]){ 3, 2, 0 }, true);
	for (uint32_t i = 0; i < sizeof(modules) / sizeof(*modules); i++) {
		mq_cnn_layer(net, i, mq_arena_printf(net->arena, "%s.", modules[i].name));
		x = inception_module(net, x, &modules[i]);
		if (aux && !strcmp(modules[i].name, "mixed6e")) {
			mq_cnn_layer(net, i, "aux.");
			auxiliary(net, x, o->classes);
		}
	}
	mq_cnn_layer(net, MQ_NONE, "");
	x = mq_cnn_global_pool(net, "pool", x);
	classify(net, mq_cnn_dropout(net, "dropout", x), o->classes);
}

/* ---- names ----------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	uint32_t blocks[6];
} sizes[] = {
	{ "resnet50", { 3, 4, 6, 3 } },       { "resnet101", { 3, 4, 23, 3 } },
	{ "resnet152", { 3, 8, 36, 3 } },     { "resnext50", { 3, 4, 6, 3, 4 } },
	{ "resnext101", { 3, 4, 23, 3, 4 } }, { "se_resnext101", { 3, 4, 23, 3, 4, 16 } },
	{ "vgg11", { 1, 1, 2, 2, 2 } },       { "vgg13", { 2, 2, 2, 2, 2 } },
	{ "vgg16", { 2, 2, 3, 3, 3 } },       { "vgg19", { 2, 2, 4, 4, 4 } },
};

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	const char *what = mq_arena_printf(arena, "model '%s'", name);
	bool inception = !strcmp(name, "inception_v3");
	struct options o;
	struct mq_cnn net;

	mq_opt_defaults(opts, &o);
	MQ_TRY(mq_opt_parse(opts, &o, what, options, arena, err));
	if (!o.image)
		o.image = inception ? 299 : 224;
	const char *full = options && *options ? mq_arena_printf(arena, "%s:%s", name, options) : name;
	struct mq_map images = mq_cnn_begin(&net, full, request, arena, o.image);
	if (inception)
		inception_v3(&net, images, &o);
	if (!strcmp(name, "alexnet"))
		alexnet(&net, images, o.classes);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		if (strcmp(sizes[i].name, name))
			continue;
		if (*name == 'v')
			vgg(&net, images, sizes[i].blocks, &o);
		else
			resnet(&net, images, sizes[i].blocks, o.classes);
	}
	return mq_cnn_finish(&net, what, model, err);
}

const struct mq_format mq_format_cnn = {
	.name = "cnn",
	.summary = "alexnet, vgg, resnet, resnext, inception_v3: image networks",
	.names = (const char *const[]){ "alexnet", "inception_v3", "resnet101", "resnet152", "resnet50", "resnext101",
					"resnext50", "se_resnext101", "vgg11", "vgg13", "vgg16", "vgg19", NULL },
	.opts = opts,
	.build = build,
};
