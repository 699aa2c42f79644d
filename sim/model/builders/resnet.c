/* resnet.c - the built-in image networks: ResNet (He et al. 2015; the stride in the 3x3 convolution, as in torchvision)
 * and ResNeXt 32x4d (Xie et al. 2016), for images of any size. A bottleneck is a `layer`, for pipelines.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "model/builders/lib/image.h"
#include "model/builders/lib/preset.h"

struct options {
	uint32_t image, classes;
};

static const struct mq_opt opts[] = { MQ_U32(struct options, image, 224, 1, 1e5, "height and width"),
				      MQ_U32(struct options, classes, 1000, 1, 1e8, "classes"), MQ_END };

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
	uint32_t layer; /* layer of the ops added next; MQ_NONE outside the blocks */
	const char *prefix;
	bool train;
};

/* A square window with "same" padding: the output is the image divided by the stride. */
struct kernel {
	uint32_t filters, size, stride, groups;
};
#define SQUARE(filters, size, step) (&(struct kernel){ filters, size, step, 1 })

/* A bottleneck of residual networks: `width` channels in `groups` groups, four times `base` out. */
struct bottleneck {
	uint32_t base, width, groups, stride;
};

/* ---- layers: each takes a tensor and returns the next --------------------------------------------- */

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

static struct mq_window window(struct tensor in, double channels, const struct kernel *k)
{
	double side = ceil(in.shape.h / k->stride);

	return (struct mq_window){ .in = in.shape,
				   .out = { channels, side, side },
				   .kh = k->size,
				   .kw = k->size,
				   .stride = k->stride,
				   .groups = k->groups };
}

static struct tensor conv(struct net *net, const char *name, struct tensor in, const struct kernel *k)
{
	struct mq_window w = window(in, k->filters, k);
	const struct tensor out = { add(net, MQ_OP_CONV, name, MQ_NEEDS_INPUT), w.out };

	w.input_grad = at(net, in.op)->kind != MQ_OP_INPUT;
	mq_amounts_conv(at(net, out.op), &w);
	join(net, in, out.op);
	return out;
}

static struct tensor batch_norm(struct net *net, const char *name, struct tensor in)
{
	const struct tensor out = { add(net, MQ_OP_NORM, name, MQ_NEEDS_INPUT), in.shape };

	mq_amounts_norm(at(net, out.op), &in.shape, 4, net->train);
	at(net, out.op)->param = 2 * in.shape.c; /* scale and shift; running averages are not trained */
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

/* Maximum or average over windows. */
static struct tensor pool(struct net *net, const char *name, struct tensor in, const struct kernel *k, bool max)
{
	const struct mq_window w = window(in, in.shape.c, k);
	const struct tensor out = { add(net, MQ_OP_POOL, name, 0), w.out };

	mq_amounts_pool(at(net, out.op), &w, max && net->train);
	join(net, in, out.op);
	return out;
}

static struct tensor residual(struct net *net, struct tensor a, struct tensor b)
{
	const struct tensor out = { add(net, MQ_OP_ELEMENTWISE, "add", 0), a.shape };

	mq_amounts_elementwise(at(net, out.op), elems_of(a), 2, 1);
	split_like_image(at(net, out.op), &a.shape);
	join(net, a, out.op);
	join(net, b, out.op);
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
	return relu(net, "relu", residual(net, x, skip));
}

/* A fully connected layer over the flattened tensor; in training also the softmax cross-entropy. */
static void classify(struct net *net, struct tensor in, uint32_t classes)
{
	const struct tensor logits = { add(net, MQ_OP_GEMM, "classifier", MQ_NEEDS_INPUT), { classes, 1, 1 } };

	mq_amounts_gemm(at(net, logits.op), (double[]){ 1, classes, elems_of(in) }, true, true);
	join(net, in, logits.op);
	if (!net->train)
		return;
	uint32_t id = add(net, MQ_OP_LOSS, "loss", MQ_NEEDS_OUTPUT);
	struct mq_op *op = at(net, id);
	mq_amounts_softmax(op, classes);
	op->splits |= 1u << MQ_DIM_OUT;
	op->extent[MQ_DIM_OUT] = classes;
	op->kernels = 3;
	join(net, logits, id);
}

/* blocks[4]: channels of each of 32 groups in the first stage (ResNeXt); 0 = one group of 64. */
static void resnet(struct net *net, struct tensor x, const uint32_t blocks[5], uint32_t classes)
{
	uint32_t groups = blocks[4] ? 32 : 1, width = blocks[4] ? 32 * blocks[4] : 64;

	x = unit(net, "stem", x, SQUARE(64, 7, 2));
	x = pool(net, "stem.pool", x, SQUARE(0, 3, 2), true);
	for (uint32_t stage = 0; stage < 4; stage++)
		for (uint32_t i = 0; i < blocks[stage]; i++) {
			const struct bottleneck b = { 64u << stage, width << stage, groups, stage && !i ? 2 : 1 };

			net->layer = net->b.model->n_layers++;
			net->prefix = mq_arena_printf(net->arena, "stage%u.block%u.", stage + 1, i);
			x = bottleneck(net, x, &b);
		}
	net->layer = MQ_NONE;
	net->prefix = "";
	uint32_t whole = (uint32_t)x.shape.h;
	classify(net, pool(net, "pool", x, SQUARE(0, whole, whole), false), classes);
}

static const struct {
	const char *name;
	uint32_t blocks[5];
} sizes[] = {
	{ "resnet50", { 3, 4, 6, 3 } },     { "resnet101", { 3, 4, 23, 3 } },     { "resnet152", { 3, 8, 36, 3 } },
	{ "resnext50", { 3, 4, 6, 3, 4 } }, { "resnext101", { 3, 4, 23, 3, 4 } },
};

static enum mq_status build(const char *name, const char *options, const struct mq_model_request *request,
			    struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	struct options o;
	struct net net;

	mq_opt_defaults(opts, &o);
	MQ_TRY(mq_opt_parse(opts, &o, mq_arena_printf(arena, "model '%s'", name), options, arena, err));
	struct tensor images = begin(&net, mq_builtin_name(name, options, arena), request, arena, o.image);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		if (!strcmp(sizes[i].name, name))
			resnet(&net, images, sizes[i].blocks, o.classes);
	mq_amounts_saved(net.b.model, net.traits, arena);
	return mq_model_finish(&net.b, model, err);
}

const struct mq_builder mq_builder_resnet = {
	.summary = "resnet, resnext: image networks",
	.names = (const char *const[]){ "resnet101", "resnet152", "resnet50", "resnext101", "resnext50", NULL },
	.opts = opts,
	.build = build,
};
