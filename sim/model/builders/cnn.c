/* cnn.c - the built-in image networks: ResNet (He et al. 2015; the stride in the 3x3 convolution, as in torchvision),
 * ResNeXt 32x4d (Xie et al. 2016), VGG (Simonyan and Zisserman 2014). A block (a VGG convolution, a bottleneck) is a
 * `layer`, for pipelines.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "model/builders/lib/image.h"
#include "model/builders/lib/preset.h"

struct options {
	uint32_t image, classes;
	bool batch_norm;
};

static const struct mq_opt opts[] = { MQ_U32(struct options, image, 224, 1, 1e5, "height and width"),
				      MQ_U32(struct options, classes, 1000, 1, 1e8, "classes"),
				      MQ_BOOL(struct options, batch_norm, 0, "vgg: batch norm behind each convolution"),
				      MQ_END };

/* A tensor: the op that made it and its shape. */
struct tensor {
	uint32_t op;
	struct mq_plane shape;
};

struct net {
	struct mq_model_builder b;
	struct mq_arena *arena;
	uint8_t *traits; /* per op, see image.h */
	uint32_t n_traits, traits_room;
	uint32_t layer; /* of the ops added next; MQ_NONE outside the blocks */
	const char *prefix;
	bool train;
};

/* Square, padded so that the image keeps its size, divided by the step. */
struct kernel {
	uint32_t filters, size, stride, groups;
	bool bias;
};
#define SQUARE(filters, size, step) (&(struct kernel){ filters, size, step, 1, false })

/* A bottleneck of residual networks: `width` channels in `groups` groups, four times `base` out. */
struct bottleneck {
	uint32_t base, width, groups, stride;
};

/* ---- layers, chained: each takes a tensor and gives the next -------------------------------------- */

static double elems_of(struct tensor t)
{
	return t.shape.c * t.shape.h * t.shape.w;
}

static struct mq_op *at(struct net *net, uint32_t op)
{
	return &net->b.model->op[op];
}

static uint32_t add(struct net *net, enum mq_op_kind kind, const char *name, uint8_t traits)
{
	uint32_t id = mq_model_add(&net->b, kind, mq_arena_printf(net->arena, "%s%s", net->prefix, name));

	at(net, id)->layer = net->layer;
	MQ_PUSH(net->arena, net->traits, net->n_traits, net->traits_room, traits);
	return id;
}

static void join(struct net *net, struct tensor in, uint32_t op)
{
	mq_model_connect(&net->b, in.op, op, elems_of(in));
	net->b.model->edge[net->b.model->n_edges - 1].no_grad = at(net, in.op)->kind == MQ_OP_INPUT;
}

static void split_like_image(struct mq_op *op, const struct mq_plane *shape)
{
	if (shape->h < 1 || shape->c < 1)
		return; /* finish reports it */
	op->splits |= 1u << MQ_DIM_SPATIAL | 1u << MQ_DIM_OUT;
	op->extent[MQ_DIM_SPATIAL] = shape->h;
	op->extent[MQ_DIM_OUT] = shape->c;
}

/* Begins with an input op; returns the tensor of the images. */
static struct tensor begin(struct net *net, const char *name, const struct mq_model_request *request,
			   struct mq_arena *arena, double image)
{
	*net = (struct net){
		.arena = arena, .layer = MQ_NONE, .prefix = "", .train = !request->train || !request->train->infer
	};
	mq_model_begin(&net->b, arena, name);
	net->b.model->unit = "image";
	net->b.model->image = true;
	const struct tensor images = { add(net, MQ_OP_INPUT, "images", 0), { 3, image, image } };
	at(net, images.op)->output = elems_of(images);
	split_like_image(at(net, images.op), &images.shape);
	return images;
}

static double window(double in, uint32_t size, uint32_t stride, uint32_t pad)
{
	return fmax(floor((in + 2.0 * pad - size) / stride) + 1, 0);
}

static struct tensor conv(struct net *net, const char *name, struct tensor in, const struct kernel *k)
{
	const struct mq_window w = {
		.in = in.shape,
		.out = { k->filters, window(in.shape.h, k->size, k->stride, k->size / 2),
			 window(in.shape.w, k->size, k->stride, k->size / 2) },
		.kh = k->size,
		.kw = k->size,
		.stride = k->stride,
		.groups = k->groups,
		.bias = k->bias,
		.input_grad = at(net, in.op)->kind != MQ_OP_INPUT,
	};
	const struct tensor out = { add(net, MQ_OP_CONV, name, MQ_NEEDS_INPUT), w.out };

	mq_amounts_conv(at(net, out.op), &w);
	join(net, in, out.op);
	return out;
}

static struct tensor batch_norm(struct net *net, const char *name, struct tensor in)
{
	const struct tensor out = { add(net, MQ_OP_NORM, name, MQ_NEEDS_INPUT), in.shape };

	mq_amounts_norm(at(net, out.op), &in.shape, 4, net->train);
	at(net, out.op)->param = 2 * in.shape.c; /* scale, shift; averages are not trained */
	join(net, in, out.op);
	return out;
}

static struct tensor relu(struct net *net, const char *name, struct tensor in)
{
	const struct tensor out = { add(net, MQ_OP_ELEMENTWISE, name, MQ_NEEDS_OUTPUT), in.shape };

	mq_amounts_elementwise(at(net, out.op), elems_of(in), 1, 1);
	split_like_image(at(net, out.op), &in.shape);
	join(net, in, out.op);
	return out;
}

/* Convolution without bias, batch norm, ReLU ("NAME", "NAME.bn", "NAME.relu"). */
static struct tensor unit(struct net *net, const char *name, struct tensor in, const struct kernel *k)
{
	struct tensor x = conv(net, name, in, k);

	x = batch_norm(net, mq_arena_printf(net->arena, "%s.bn", name), x);
	return relu(net, mq_arena_printf(net->arena, "%s.relu", name), x);
}

static struct tensor pool_over(struct net *net, const char *name, struct tensor in, const struct mq_window *w, bool max)
{
	const struct tensor out = { add(net, MQ_OP_POOL, name, 0), w->out };

	mq_amounts_pool(at(net, out.op), w, max && net->train);
	join(net, in, out.op);
	return out;
}

/* Max pooling with a square window. */
static struct tensor max_pool(struct net *net, const char *name, struct tensor in, uint32_t size, uint32_t pad)
{
	const struct mq_window w = {
		.in = in.shape,
		.out = { in.shape.c, window(in.shape.h, size, 2, pad), window(in.shape.w, size, 2, pad) },
		.kh = size,
		.kw = size,
		.stride = 2,
	};

	return pool_over(net, name, in, &w, true);
}

/* Average over the whole image. */
static struct tensor global_pool(struct net *net, const char *name, struct tensor in)
{
	const struct mq_window w = {
		.in = in.shape, .out = { in.shape.c, 1, 1 }, .kh = in.shape.h, .kw = in.shape.w, .stride = in.shape.h
	};

	return pool_over(net, name, in, &w, false);
}

static struct tensor residual(struct net *net, const char *name, struct tensor a, struct tensor b)
{
	const struct tensor out = { add(net, MQ_OP_ELEMENTWISE, name, 0), a.shape };

	mq_amounts_elementwise(at(net, out.op), elems_of(a), 2, 1);
	split_like_image(at(net, out.op), &a.shape);
	join(net, a, out.op);
	join(net, b, out.op);
	return out;
}

/* Fully connected, over all elements of the tensor. */
static struct tensor linear(struct net *net, const char *name, struct tensor in, uint32_t width)
{
	const struct tensor out = { add(net, MQ_OP_GEMM, name, MQ_NEEDS_INPUT), { width, 1, 1 } };

	mq_amounts_gemm(at(net, out.op), (double[]){ 1, width, elems_of(in) }, true, true);
	join(net, in, out.op);
	return out;
}

static struct tensor bottleneck(struct net *net, struct tensor in, const struct bottleneck *b)
{
	struct tensor skip = in;
	struct tensor x = unit(net, "conv1", in, SQUARE(b->width, 1, 1));
	struct kernel middle = *SQUARE(b->width, 3, b->stride);

	middle.groups = b->groups;
	x = unit(net, "conv2", x, &middle);
	x = conv(net, "conv3", x, SQUARE(4 * b->base, 1, 1));
	x = batch_norm(net, "conv3.bn", x);
	if (b->stride != 1 || in.shape.c != 4 * b->base) {
		skip = conv(net, "skip", in, SQUARE(4 * b->base, 1, b->stride));
		skip = batch_norm(net, "skip.bn", skip);
	}
	return relu(net, "relu", residual(net, "add", x, skip));
}

/* "layer" of what is added next, and the prefix of its names; MQ_NONE: outside the blocks. */
static void enter(struct net *net, uint32_t layer, const char *prefix)
{
	net->layer = layer;
	net->prefix = mq_arena_printf(net->arena, "%s", prefix);
	if (layer != MQ_NONE)
		net->b.model->n_layers = layer + 1;
}

static struct tensor dropout(struct net *net, const char *name, struct tensor in)
{
	if (!net->train)
		return in;
	const struct tensor out = { add(net, MQ_OP_ELEMENTWISE, name, 0), in.shape };

	mq_amounts_dropout(at(net, out.op), elems_of(in), true);
	at(net, out.op)->splits |= 1u << MQ_DIM_OUT;
	at(net, out.op)->extent[MQ_DIM_OUT] = in.shape.c;
	join(net, in, out.op);
	return out;
}

/* Softmax cross-entropy over all elements of the tensor; in inference nothing. */
static void loss(struct net *net, const char *name, struct tensor logits)
{
	if (!net->train)
		return;
	uint32_t id = add(net, MQ_OP_LOSS, name, MQ_NEEDS_OUTPUT);
	struct mq_op *op = at(net, id);
	double classes = elems_of(logits);

	mq_amounts_softmax(op, classes);
	op->splits |= 1u << MQ_DIM_OUT;
	op->extent[MQ_DIM_OUT] = classes;
	op->kernels = 3;
	join(net, logits, id);
}

/* MQ_EINPUT: an image too small for the network; `what` names the model. */
static enum mq_status finish(struct net *net, const char *what, struct mq_model **model, struct mq_err *err)
{
	const struct mq_model *m = net->b.model;

	for (uint32_t i = 0; i < m->n_ops; i++)
		if (!(m->op[i].output >= 1))
			return mq_bad(err,
				      "%s: the image is too small, nothing is left of it at '%s'; give "
				      "a larger image=",
				      what, m->op[i].name);
	mq_replica_flow_keep(net->b.model, net->traits, net->arena);
	return mq_model_finish(&net->b, model, err);
}

/* ---- networks ---- */

static void classify(struct net *net, struct tensor x, uint32_t classes)
{
	loss(net, "loss", linear(net, "classifier", x, classes));
}

/* ---- resnet ---------------------------------------------------------------------------------- */

/* blocks[4]: channels of each of 32 groups in the first stage (ResNeXt); 0 = one group of 64. */
static void resnet(struct net *net, struct tensor x, const uint32_t blocks[5], uint32_t classes)
{
	uint32_t layer = 0, groups = blocks[4] ? 32 : 1, width = blocks[4] ? 32 * blocks[4] : 64;

	x = unit(net, "stem", x, SQUARE(64, 7, 2));
	x = max_pool(net, "stem.pool", x, 3, 1);
	for (uint32_t stage = 0; stage < 4; stage++)
		for (uint32_t i = 0; i < blocks[stage]; i++) {
			const struct bottleneck b = { 64u << stage, width << stage, groups, stage && !i ? 2 : 1 };

			enter(net, layer++, mq_arena_printf(net->arena, "stage%u.block%u.", stage + 1, i));
			x = bottleneck(net, x, &b);
		}
	enter(net, MQ_NONE, "");
	classify(net, global_pool(net, "pool", x), classes);
}

/* ---- vgg ------------------------------------------------------------------------------------- */

static void vgg(struct net *net, struct tensor x, const uint32_t blocks[5], const struct options *o)
{
	static const uint32_t width[] = { 64, 128, 256, 512, 512 };
	uint32_t layer = 0;

	for (uint32_t b = 0; b < 5; b++) {
		for (uint32_t i = 0; i < blocks[b]; i++) {
			struct kernel k = *SQUARE(width[b], 3, 1);

			k.bias = true;
			enter(net, layer++, mq_arena_printf(net->arena, "block%u.", b + 1));
			const char *name = mq_arena_printf(net->arena, "conv%u", i + 1);
			x = conv(net, name, x, &k);
			if (o->batch_norm)
				x = batch_norm(net, mq_arena_printf(net->arena, "%s.bn", name), x);
			x = relu(net, mq_arena_printf(net->arena, "%s.relu", name), x);
		}
		x = max_pool(net, "pool", x, 2, 0);
	}
	enter(net, MQ_NONE, "");
	for (uint32_t i = 1; i <= 2; i++) {
		const char *name = mq_arena_printf(net->arena, "fc%u", i);

		x = relu(net, mq_arena_printf(net->arena, "%s.relu", name), linear(net, name, x, 4096));
		x = dropout(net, mq_arena_printf(net->arena, "%s.dropout", name), x);
	}
	classify(net, x, o->classes);
}

/* ---- names ----------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	uint32_t blocks[5];
} sizes[] = {
	{ "resnet50", { 3, 4, 6, 3 } },     { "resnet101", { 3, 4, 23, 3 } },     { "resnet152", { 3, 8, 36, 3 } },
	{ "resnext50", { 3, 4, 6, 3, 4 } }, { "resnext101", { 3, 4, 23, 3, 4 } }, { "vgg11", { 1, 1, 2, 2, 2 } },
	{ "vgg13", { 2, 2, 2, 2, 2 } },     { "vgg16", { 2, 2, 3, 3, 3 } },       { "vgg19", { 2, 2, 4, 4, 4 } },
};

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	const char *what = mq_arena_printf(arena, "model '%s'", name);
	struct options o;
	struct net net;

	mq_opt_defaults(opts, &o);
	MQ_TRY(mq_opt_parse(opts, &o, what, options, arena, err));
	struct tensor images = begin(&net, mq_builtin_name(name, options, arena), request, arena, o.image);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		if (strcmp(sizes[i].name, name))
			continue;
		if (*name == 'v')
			vgg(&net, images, sizes[i].blocks, &o);
		else
			resnet(&net, images, sizes[i].blocks, o.classes);
	}
	return finish(&net, what, model, err);
}

const struct mq_format mq_format_cnn = {
	.name = "cnn",
	.summary = "vgg, resnet, resnext: image networks",
	.names = (const char *const[]){ "resnet101", "resnet152", "resnet50", "resnext101", "resnext50", "vgg11",
					"vgg13", "vgg16", "vgg19", NULL },
	.opts = opts,
	.build = build,
};
