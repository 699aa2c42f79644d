/* cnn.c - see cnn.h. */
#include "model/builders/lib/cnn.h"

#include <math.h>

static double elems_of(struct mq_map t)
{
	return t.shape.c * t.shape.h * t.shape.w;
}

static struct mq_op *at(struct mq_cnn *net, uint32_t op)
{
	return &net->b.model->op[op];
}

static uint32_t add(struct mq_cnn *net, enum mq_op_kind kind, const char *name, uint8_t traits)
{
	uint32_t id = mq_model_add(&net->b, kind, mq_arena_printf(net->arena, "%s%s", net->prefix, name));

	at(net, id)->layer = net->layer;
	if (net->frozen)
		traits = 0;
	MQ_PUSH(net->arena, net->traits, net->n_traits, net->traits_room, traits);
	return id;
}

/* A frozen op has no backward pass. */
static struct mq_map made(struct mq_cnn *net, struct mq_map out)
{
	if (net->frozen)
		at(net, out.op)->flop_bwd = at(net, out.op)->moved_bwd = 0;
	return out;
}

/* Nothing before this op is trained, so that no gradient flows back to it. */
static bool is_input(const struct mq_cnn *net, uint32_t op)
{
	const struct mq_op *o = &net->b.model->op[op];

	return o->kind == MQ_OP_INPUT || (net->train && o->flop > 0 && o->flop_bwd <= 0);
}

static void join(struct mq_cnn *net, struct mq_map in, uint32_t op)
{
	mq_model_connect(&net->b, in.op, op, elems_of(in));
	net->b.model->edge[net->b.model->n_edges - 1].no_grad = is_input(net, in.op);
}

static void split_like_image(struct mq_op *op, const struct mq_plane *shape)
{
	if (shape->h < 1 || shape->c < 1)
		return; /* mq_cnn_finish reports it */
	op->splits |= 1u << MQ_DIM_SPATIAL | 1u << MQ_DIM_OUT;
	op->extent[MQ_DIM_SPATIAL] = shape->h;
	op->extent[MQ_DIM_OUT] = shape->c;
}

struct mq_map mq_cnn_begin_with(struct mq_cnn *net, const char *name, const struct mq_model_request *request,
				struct mq_arena *arena, const struct mq_plane *shape)
{
	*net = (struct mq_cnn){
		.arena = arena, .layer = MQ_NONE, .prefix = "", .train = !request->train || !request->train->infer
	};
	mq_model_begin(&net->b, arena, name);
	net->b.model->unit = "image";
	net->b.model->image = true;
	const struct mq_map images = { add(net, MQ_OP_INPUT, "images", 0), *shape };
	at(net, images.op)->output = elems_of(images);
	split_like_image(at(net, images.op), &images.shape);
	return images;
}

struct mq_map mq_cnn_begin(struct mq_cnn *net, const char *name, const struct mq_model_request *request,
			   struct mq_arena *arena, uint32_t image)
{
	return mq_cnn_begin_with(net, name, request, arena, &(struct mq_plane){ 3, image, image });
}

static double window(double in, uint32_t size, uint32_t stride, uint32_t pad)
{
	return fmax(floor((in + 2.0 * pad - size) / stride) + 1, 0);
}

struct mq_map mq_cnn_window(struct mq_cnn *net, const char *name, struct mq_map in, const struct mq_window *window)
{
	const struct mq_map out = { add(net, MQ_OP_CONV, name, MQ_NEEDS_INPUT), window->out };
	struct mq_window w = *window;

	w.input_grad = !is_input(net, in.op);
	mq_amounts_conv(at(net, out.op), &w);
	join(net, in, out.op);
	return made(net, out);
}

struct mq_map mq_cnn_transposed(struct mq_cnn *net, const char *name, struct mq_map in, const struct mq_window *window)
{
	const struct mq_map out = { add(net, MQ_OP_CONV, name, MQ_NEEDS_INPUT), window->out };
	struct mq_window w = *window;

	w.input_grad = !is_input(net, in.op);
	mq_amounts_conv_transposed(at(net, out.op), &w);
	join(net, in, out.op);
	return made(net, out);
}

struct mq_map mq_cnn_conv(struct mq_cnn *net, const char *name, struct mq_map in, const struct mq_kernel_shape *k)
{
	const struct mq_window w = {
		.in = in.shape,
		.out = { k->filters, window(in.shape.h, k->kh, k->stride, k->ph),
			 window(in.shape.w, k->kw, k->stride, k->pw) },
		.kh = k->kh,
		.kw = k->kw,
		.stride = k->stride,
		.groups = k->groups ? k->groups : 1,
		.bias = k->bias,
	};

	return mq_cnn_window(net, name, in, &w);
}

void mq_cnn_share(struct mq_cnn *net, struct mq_map op, struct mq_map owner)
{
	at(net, op.op)->tied = owner.op;
	at(net, op.op)->param = 0;
}

struct mq_map mq_cnn_batch_norm(struct mq_cnn *net, const char *name, struct mq_map in)
{
	const struct mq_map out = { add(net, MQ_OP_NORM, name, MQ_NEEDS_INPUT), in.shape };

	mq_amounts_norm(at(net, out.op), &in.shape, 4, net->train && !net->fixed_norms);
	if (net->fixed_norms)
		at(net, out.op)->moved_bwd = 2 * elems_of(in);
	at(net, out.op)->param = 2 * in.shape.c; /* scale, shift; averages are not trained */
	join(net, in, out.op);
	return made(net, out);
}

struct mq_map mq_cnn_relu(struct mq_cnn *net, const char *name, struct mq_map in)
{
	const struct mq_map out = { add(net, MQ_OP_ELEMENTWISE, name, MQ_NEEDS_OUTPUT), in.shape };

	mq_amounts_elementwise(at(net, out.op), elems_of(in), 1, 1);
	split_like_image(at(net, out.op), &in.shape);
	join(net, in, out.op);
	return made(net, out);
}

struct mq_map mq_cnn_swish(struct mq_cnn *net, const char *name, struct mq_map in)
{
	const struct mq_map out = { add(net, MQ_OP_ELEMENTWISE, name, MQ_NEEDS_INPUT), in.shape };

	mq_amounts_elementwise(at(net, out.op), elems_of(in), 1, 5);
	split_like_image(at(net, out.op), &in.shape);
	join(net, in, out.op);
	return made(net, out);
}

/* x times one factor per channel. Backwards: the product with the factors (gradient in and out), the
 * factors' gradient (gradient and x in), and the sum of x's two gradients. */
static struct mq_map gated(struct mq_cnn *net, const char *name, struct mq_map x, struct mq_map gate)
{
	const struct mq_map out = { add(net, MQ_OP_ELEMENTWISE, name, MQ_NEEDS_INPUT), x.shape };
	struct mq_op *op = at(net, out.op);

	mq_amounts_elementwise(op, elems_of(x), 1, 1);
	op->moved_bwd = 7 * elems_of(x);
	split_like_image(op, &x.shape);
	join(net, x, out.op);
	join(net, gate, out.op);
	return made(net, out);
}

struct mq_map mq_cnn_squeeze(struct mq_cnn *net, const char *name, struct mq_map in, uint32_t reduced, bool swish)
{
	const char *text = mq_arena_printf(net->arena, "%s.reduce", name);
	struct mq_map x = mq_cnn_global_pool(net, mq_arena_printf(net->arena, "%s.pool", name), in);

	x = mq_cnn_linear(net, text, x, reduced);
	x = (swish ? mq_cnn_swish : mq_cnn_relu)(net, mq_arena_printf(net->arena, "%s.act", text), x);
	x = mq_cnn_linear(net, mq_arena_printf(net->arena, "%s.expand", name), x, (uint32_t)in.shape.c);
	x = mq_cnn_relu(net, mq_arena_printf(net->arena, "%s.sigmoid", name), x); /* costs as much */
	return gated(net, name, in, x);
}

struct mq_map mq_cnn_unit(struct mq_cnn *net, const char *name, struct mq_map in, const struct mq_kernel_shape *k)
{
	struct mq_map x = mq_cnn_conv(net, name, in, k);

	x = mq_cnn_batch_norm(net, mq_arena_printf(net->arena, "%s.bn", name), x);
	return mq_cnn_relu(net, mq_arena_printf(net->arena, "%s.relu", name), x);
}

static struct mq_map pool(struct mq_cnn *net, const char *name, struct mq_map in, const struct mq_window *w, bool max)
{
	const struct mq_map out = { add(net, MQ_OP_POOL, name, 0), w->out };

	mq_amounts_pool(at(net, out.op), w, max && net->train);
	join(net, in, out.op);
	return made(net, out);
}

struct mq_map mq_cnn_pool(struct mq_cnn *net, const char *name, struct mq_map in, const uint32_t size_stride_pad[3],
			  bool max)
{
	uint32_t size = size_stride_pad[0], stride = size_stride_pad[1], pad = size_stride_pad[2];
	const struct mq_window w = {
		.in = in.shape,
		.out = { in.shape.c, window(in.shape.h, size, stride, pad), window(in.shape.w, size, stride, pad) },
		.kh = size,
		.kw = size,
		.stride = stride,
	};

	return pool(net, name, in, &w, max);
}

struct mq_map mq_cnn_global_pool(struct mq_cnn *net, const char *name, struct mq_map in)
{
	const struct mq_window w = {
		.in = in.shape, .out = { in.shape.c, 1, 1 }, .kh = in.shape.h, .kw = in.shape.w, .stride = in.shape.h
	};

	return pool(net, name, in, &w, false);
}

struct mq_map mq_cnn_add(struct mq_cnn *net, const char *name, struct mq_map a, struct mq_map b)
{
	const struct mq_map out = { add(net, MQ_OP_ELEMENTWISE, name, 0), a.shape };

	mq_amounts_elementwise(at(net, out.op), elems_of(a), 2, 1);
	split_like_image(at(net, out.op), &a.shape);
	join(net, a, out.op);
	join(net, b, out.op);
	return made(net, out);
}

struct mq_map mq_cnn_concat(struct mq_cnn *net, const char *name, const struct mq_map *in, uint32_t n)
{
	struct mq_map out = { add(net, MQ_OP_RESHAPE, name, 0), in[0].shape };

	out.shape.c = 0;
	for (uint32_t i = 0; i < n; i++) {
		out.shape.c += in[i].shape.c;
		join(net, in[i], out.op);
	}
	mq_amounts_copy(at(net, out.op), elems_of(out), elems_of(out));
	split_like_image(at(net, out.op), &out.shape);
	return made(net, out);
}

struct mq_map mq_cnn_copy(struct mq_cnn *net, const char *name, struct mq_map in, const struct mq_plane *shape)
{
	const struct mq_map out = { add(net, MQ_OP_RESHAPE, name, 0), *shape };

	mq_amounts_copy(at(net, out.op), elems_of(in), elems_of(out));
	split_like_image(at(net, out.op), &out.shape);
	join(net, in, out.op);
	return made(net, out);
}

struct mq_map mq_cnn_bottleneck(struct mq_cnn *net, struct mq_map in, const struct mq_bottleneck *b)
{
	struct mq_map skip = in;
	struct mq_map x = mq_cnn_unit(net, "conv1", in, MQ_SQUARE(b->width, 1, 1));
	struct mq_kernel_shape middle = *MQ_SQUARE(b->width, 3, b->stride);

	middle.groups = b->groups;
	x = mq_cnn_unit(net, "conv2", x, &middle);
	x = mq_cnn_conv(net, "conv3", x, MQ_SQUARE(4 * b->base, 1, 1));
	x = mq_cnn_batch_norm(net, "conv3.bn", x);
	if (b->squeeze)
		x = mq_cnn_squeeze(net, "squeeze", x, b->squeeze, false);
	if (b->stride != 1 || in.shape.c != 4 * b->base) {
		skip = mq_cnn_conv(net, "skip", in, MQ_SQUARE(4 * b->base, 1, b->stride));
		skip = mq_cnn_batch_norm(net, "skip.bn", skip);
	}
	return mq_cnn_relu(net, "relu", mq_cnn_add(net, "add", x, skip));
}

void mq_cnn_layer(struct mq_cnn *net, uint32_t layer, const char *prefix)
{
	net->layer = layer;
	net->prefix = mq_arena_printf(net->arena, "%s", prefix);
	if (layer != MQ_NONE)
		net->b.model->n_layers = layer + 1;
}

struct mq_map mq_cnn_dense(struct mq_cnn *net, const char *name, struct mq_map in, double rows, uint32_t width)
{
	const struct mq_map out = { add(net, MQ_OP_GEMM, name, MQ_NEEDS_INPUT), { width, rows, 1 } };

	mq_amounts_gemm(at(net, out.op), (double[]){ rows, width, elems_of(in) / rows }, true, true);
	join(net, in, out.op);
	return out;
}

struct mq_map mq_cnn_linear(struct mq_cnn *net, const char *name, struct mq_map in, uint32_t width)
{
	struct mq_map out = mq_cnn_dense(net, name, in, 1, width);

	out.shape = (struct mq_plane){ width, 1, 1 };
	return out;
}

struct mq_map mq_cnn_dropout(struct mq_cnn *net, const char *name, struct mq_map in)
{
	if (!net->train)
		return in;
	const struct mq_map out = { add(net, MQ_OP_ELEMENTWISE, name, 0), in.shape };

	mq_amounts_dropout(at(net, out.op), elems_of(in), true);
	at(net, out.op)->splits |= 1u << MQ_DIM_OUT;
	at(net, out.op)->extent[MQ_DIM_OUT] = in.shape.c;
	join(net, in, out.op);
	return out;
}

void mq_cnn_loss(struct mq_cnn *net, const char *name, struct mq_map logits)
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

enum mq_status mq_cnn_finish(struct mq_cnn *net, const char *what, struct mq_model **model, struct mq_err *err)
{
	const struct mq_model *m = net->b.model;

	for (uint32_t i = 0; i < m->n_ops; i++)
		if (!(m->op[i].output >= 1))
			return mq_fail(err, MQ_EINPUT,
				       "%s: the image is too small, nothing is left of it at '%s'; give "
				       "a larger image=",
				       what, m->op[i].name);
	mq_replica_flow_keep(net->b.model, net->traits, net->arena);
	return mq_model_finish(&net->b, model, err);
}
