/*
 * kernels_liger.c - rows in the format of Liger-Kernel's benchmarks, and of Vidur's profiles.
 *
 * What a row's time contains is its benchmark script's doing (benchmark/scripts/benchmark_KERNEL.py): which
 * tensors exist, whether gradients are added to those of the step before, whether "backward" has the
 * forward pass in it. All of that is in the table `benches`; the kernels are those of kernels/kernel_table.c.
 *
 * A peak of memory is of the whole process. The embedding's script compiles a module in each call; those of
 * earlier calls lie about until Python's collector comes by, which no count foretells: refused.
 *
 * triton's do_bench clears 256 MB between its events, during which the host runs ahead; where the host
 * needs longer than that and the kernels, it is what was measured.
 */
#include "score/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "maquette/cost.h"
#include "kernels/kernel_table.h"

enum { CLEARED_B = 256 << 20 };
/* Launches of the host that an op of eager PyTorch takes in Python, and one of autograd. */
enum { FORWARD_OPS = 2, BACKWARD_OPS = 3, ENGINE_OPS = 6 };

enum gradient { DY_GIVEN, DY_RANDOM, DY_SUM }; /* a tensor; made by randn_like; of y.sum() */
enum products { NO_PRODUCTS, MLP, HEAD, HEAD_CHUNKED, EXPERTS, EXPERTS_LOOP };

struct bench {
	const char *kernel, *implementation;
	const char *rows, *width, *weights; /* products of names of the configuration */
	enum mq_part part;
	enum mq_make make;
	const char *until; /* entries of older releases: rows dated before this */
	enum gradient dy;
	bool both;                /* "backward" has the forward pass in it */
	bool cleared;             /* do_bench clears between calls */
	double held;              /* tensors there before: elements of the type per element (x, dy, x.grad) */
	double added;             /* elements moved to add gradients to those there, per element, backward */
	double added_full;        /* the same in `full` alone */
	double back_made;         /* tensors that the script's backward pass makes beside the part */
	double extra, extra_made; /* moved and made forward beside the part: residual added, weights applied */
	enum products products;
	enum mq_dtype dtype; /* where the configuration says none */
	bool hoards;         /* compiles a module in each call, which Python keeps until its collector comes by */
};

static const struct bench benches[] = {
	{ "rms_norm", "huggingface", "M", "H", NULL, MQ_PART_RMS_WIDE, MQ_MAKE_EAGER, NULL, DY_GIVEN, .held = 3,
	  .cleared = true },
	{ "rms_norm", "liger", "M", "H", NULL, MQ_PART_RMS, MQ_MAKE_FUSED_OLD, "2024-10", DY_GIVEN, .held = 3,
	  .cleared = true },
	{ "rms_norm", "liger", "M", "H", NULL, MQ_PART_RMS, MQ_MAKE_FUSED, NULL, DY_GIVEN, .held = 3, .cleared = true },
	{ "layer_norm", "huggingface", "M", "N", NULL, MQ_PART_LAYER_NORM, MQ_MAKE_NATIVE, NULL, DY_GIVEN, .held = 3,
	  .cleared = true },
	{ "layer_norm", "torch", "M", "N", NULL, MQ_PART_LAYER_NORM, MQ_MAKE_NATIVE, NULL, DY_GIVEN, .held = 3,
	  .cleared = true },
	{ "layer_norm", "liger", "M", "N", NULL, MQ_PART_LAYER_NORM, MQ_MAKE_FUSED, NULL, DY_GIVEN, .held = 3,
	  .cleared = true },
	{ "fused_add_rms_norm", "huggingface", "M", "H", NULL, MQ_PART_ADD_RMS, MQ_MAKE_EAGER, NULL, DY_GIVEN,
	  .held = 6, .added = 5, .cleared = true },
	{ "fused_add_rms_norm", "liger_fused_add_rms_norm", "M", "H", NULL, MQ_PART_ADD_RMS, MQ_MAKE_FUSED, NULL,
	  DY_GIVEN, .held = 5, .added = 5, .back_made = 1, .cleared = true },
	{ "fused_add_rms_norm", "liger_rms_norm", "M", "H", NULL, MQ_PART_RMS, MQ_MAKE_FUSED, NULL, DY_GIVEN, .held = 6,
	  .added = 11, .extra = 5, .extra_made = 2, .back_made = 4, .cleared = true },
	{ "rope", "huggingface", "T", "H+", NULL, MQ_PART_ROPE, MQ_MAKE_EAGER, NULL, DY_GIVEN, .held = 2,
	  .cleared = true },
	{ "rope", "liger", "T", "H+", NULL, MQ_PART_ROPE, MQ_MAKE_FUSED, NULL, DY_GIVEN, .held = 2, .cleared = true },
	{ "llama4_rope", "huggingface", "T", "H+", NULL, MQ_PART_ROPE_COMPLEX, MQ_MAKE_EAGER, NULL, DY_GIVEN, .held = 2,
	  .cleared = true },
	{ "llama4_rope", "liger", "T", "H+", NULL, MQ_PART_ROPE_COMPLEX, MQ_MAKE_FUSED, NULL, DY_GIVEN, .held = 2,
	  .cleared = true },
	{ "relu_squared", "torch", "M", "N", NULL, MQ_PART_RELU_SQUARED, MQ_MAKE_EAGER, NULL, DY_RANDOM, .held = 2,
	  .cleared = true },
	{ "relu_squared", "liger", "M", "N", NULL, MQ_PART_RELU_SQUARED, MQ_MAKE_FUSED, NULL, DY_RANDOM, .held = 2,
	  .cleared = true },
	{ "cross_entropy", "huggingface", "B*T", "V", NULL, MQ_PART_LOSS, MQ_MAKE_EAGER, NULL, DY_GIVEN, .held = 2,
	  .added_full = 3, .cleared = true, .dtype = MQ_FP32 },
	{ "cross_entropy", "torch", "B*T", "V", NULL, MQ_PART_LOSS, MQ_MAKE_EAGER, NULL, DY_GIVEN, .held = 2,
	  .added_full = 3, .cleared = true, .dtype = MQ_FP32 },
	{ "cross_entropy", "liger", "B*T", "V", NULL, MQ_PART_LOSS, MQ_MAKE_FUSED, NULL, DY_GIVEN, .held = 1,
	  .added_full = 2, .cleared = true, .dtype = MQ_FP32 },
	{ "megatron_cross_entropy", "liger", "S*B", "V", NULL, MQ_PART_LOSS, MQ_MAKE_FUSED_OLD, NULL, DY_GIVEN,
	  .both = true, .held = 1, .dtype = MQ_BF16 },
	{ "megatron_cross_entropy", "megatron-fused", "S*B", "V", NULL, MQ_PART_LOSS, MQ_MAKE_COMPILED, NULL, DY_GIVEN,
	  .both = true, .held = 1, .dtype = MQ_BF16 },
	{ "megatron_cross_entropy", "megatron-unfused", "S*B", "V", NULL, MQ_PART_LOSS, MQ_MAKE_MEGATRON, NULL,
	  DY_GIVEN, .both = true, .held = 1, .dtype = MQ_BF16 },
	{ "megatron_rms_norm", "liger", "S*B", "H", NULL, MQ_PART_RMS, MQ_MAKE_FUSED, NULL, DY_SUM, .both = true,
	  .held = 2, .added = 1, .added_full = 3, .back_made = 2, .cleared = true, .dtype = MQ_BF16 },
	{ "megatron_rms_norm", "torch", "S*B", "H", NULL, MQ_PART_RMS, MQ_MAKE_NATIVE, NULL, DY_SUM, .both = true,
	  .held = 2, .added_full = 3, .added = 1, .back_made = 1, .cleared = true, .dtype = MQ_BF16 },
	{ "megatron_rms_norm", "megatron", "S*B", "H", NULL, MQ_PART_RMS, MQ_MAKE_MEGATRON, NULL, DY_SUM, .both = true,
	  .held = 2, .added_full = 3, .added = 1, .back_made = 1, .cleared = true, .dtype = MQ_BF16 },
	{ "megatron_swiglu", "torch", "S*B", "ffn_local", NULL, MQ_PART_GATE_JOINED, MQ_MAKE_EAGER, NULL, DY_SUM,
	  .both = true, .held = 2, .cleared = true, .dtype = MQ_BF16 },
	{ "megatron_swiglu", "megatron", "S*B", "ffn_local", NULL, MQ_PART_GATE_JOINED, MQ_MAKE_MEGATRON, NULL, DY_SUM,
	  .both = true, .held = 2, .cleared = true, .dtype = MQ_BF16 },
	{ "megatron_swiglu", "liger", "S*B", "ffn_local", NULL, MQ_PART_GATE_JOINED, MQ_MAKE_FUSED, NULL, DY_SUM,
	  .both = true, .held = 2, .cleared = true, .dtype = MQ_BF16 },
	{ "megatron_swiglu", "liger_in_place", "S*B", "ffn_local", NULL, MQ_PART_GATE_JOINED, MQ_MAKE_FUSED, NULL,
	  DY_SUM, .both = true, .held = 0, .cleared = true, .dtype = MQ_BF16 },
	{ "embedding", "huggingface", "B*T", "D", "V*D", MQ_PART_EMBEDDING, MQ_MAKE_EAGER, NULL, DY_RANDOM,
	  .cleared = true, .hoards = true },
	{ "embedding", "torch", "B*T", "D", "V*D", MQ_PART_EMBEDDING, MQ_MAKE_EAGER, NULL, DY_RANDOM, .cleared = true,
	  .hoards = true },
	{ "embedding", "torch_compile", "B*T", "D", "V*D", MQ_PART_EMBEDDING, MQ_MAKE_COMPILED, NULL, DY_RANDOM,
	  .cleared = true, .hoards = true },
	{ "embedding", "liger", "B*T", "D", "V*D", MQ_PART_EMBEDDING, MQ_MAKE_FUSED, NULL, DY_RANDOM, .cleared = true,
	  .hoards = true },
	{ "softmax", "torch", "M", "N", NULL, MQ_PART_SOFTMAX, MQ_MAKE_NATIVE, NULL, DY_GIVEN, .held = 3,
	  .cleared = true },
	{ "softmax", "liger", "M", "N", NULL, MQ_PART_SOFTMAX, MQ_MAKE_FUSED, NULL, DY_GIVEN, .held = 3,
	  .cleared = true },
	{ "geglu", "huggingface", "B*T", "I", NULL, MQ_PART_GATE, MQ_MAKE_EAGER, NULL, DY_RANDOM, .products = MLP,
	  .cleared = true },
	{ "geglu", "liger", "B*T", "I", NULL, MQ_PART_GATE, MQ_MAKE_FUSED, NULL, DY_RANDOM, .products = MLP,
	  .cleared = true },
	{ "swiglu", "huggingface", "B*T", "I", NULL, MQ_PART_GATE, MQ_MAKE_EAGER, NULL, DY_RANDOM, .products = MLP,
	  .cleared = true },
	{ "swiglu", "liger", "B*T", "I", NULL, MQ_PART_GATE, MQ_MAKE_FUSED, NULL, DY_RANDOM, .products = MLP,
	  .cleared = true },
	{ "fused_linear_cross_entropy", "huggingface", "BT", "V", NULL, MQ_PART_LOSS, MQ_MAKE_EAGER, NULL, DY_GIVEN,
	  .products = HEAD, .cleared = true },
	{ "fused_linear_cross_entropy", "liger", "BT", "V", NULL, MQ_PART_LOSS, MQ_MAKE_FUSED, NULL, DY_GIVEN,
	  .products = HEAD_CHUNKED, .cleared = true },
	{ "fused_moe", "huggingface", "T*K", "I", NULL, MQ_PART_GATE_JOINED, MQ_MAKE_EAGER, NULL, DY_RANDOM,
	  .products = EXPERTS_LOOP, .cleared = true },
	{ "fused_moe", "liger", "T*K", "I", NULL, MQ_PART_GATE_JOINED, MQ_MAKE_NATIVE, NULL, DY_RANDOM,
	  .products = EXPERTS, .cleared = true },
};
enum { N_BENCHES = sizeof(benches) / sizeof(benches[0]) };

/* ---- the configuration ------------------------------------------------------------------------------- */

struct config {
	const char *text, *x_name;
	double x;
};

/* The number behind "name": in a flat JSON object; NaN where there is none. */
static double cell(const char *text, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = text; (at = strstr(at, name)); at += n) {
		char *end;

		if (at == text || at[-1] != '"' || at[n] != '"' || at[n + 1] != ':')
			continue;
		double value = strtod(at + n + 2, &end);
		if (end != at + n + 2)
			return value;
	}
	return NAN;
}

static double named(const struct config *c, const char *name)
{
	static const char *const same[][3] = {
		{ "H", "hidden_size" }, { "T", "seq_len" },
		{ "B", "bsz" },         { "I", "intermediate_size", "intermediate_dim" },
		{ "V", "vocab_size" },
	};
	double value = strcmp(c->x_name, name) ? cell(c->text, name) : c->x;

	for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++)
		for (int k = 1; isnan(value) && !strcmp(same[i][0], name) && k < 3 && same[i][k]; k++)
			value = strcmp(c->x_name, same[i][k]) ? cell(c->text, same[i][k]) : c->x;
	return value;
}

/* "B*T"; a '+' behind a width of query heads adds those of keys. */
static double product(const struct config *c, const char *names)
{
	double value = 1;

	while (names && *names) {
		size_t n = strcspn(names, "*+");
		char name[32];

		memcpy(name, names, n);
		name[n] = '\0';
		value *= named(c, name);
		if (names[n] == '+')
			value *= 1 + named(c, "num_kv_heads") / named(c, "num_q_heads");
		names += n + (names[n] != '\0');
	}
	return value;
}

static enum mq_dtype dtype_of(const struct config *c, const struct bench *b)
{
	return strstr(c->text, "float32")  ? MQ_FP32 :
	       strstr(c->text, "bfloat16") ? MQ_BF16 :
	       strstr(c->text, "float16")  ? MQ_FP16 :
					     b->dtype;
}

/* ---- time -------------------------------------------------------------------------------------------- */

struct times {
	double device_s, ops; /* of the host, in launches */
};

struct setting {
	const struct bench *bench;
	const struct mq_device_calib *d;
	const struct config *config;
	const struct mq_part_kernels *kernels;
	struct mq_part_call call;
	double size_B, bw;
};

static double product_s(const struct setting *s, double m, double n, double k, double count)
{
	return mq_cost_gemm(s->d, s->call.dtype, m, n, k, count);
}

/* One pass that moves so much per element of the part. */
static void stream(const struct setting *s, struct times *t, double elements)
{
	if (!(elements > 0))
		return;
	t->device_s += elements * s->call.elements * s->size_B / s->bw + s->d->launch_s;
	t->ops += 1;
}

static void mlp(const struct setting *s, struct times *t, bool backward)
{
	double m = s->call.elements / s->call.width, n = s->call.width, k = named(s->config, "H");

	if (!backward) {
		t->device_s += 2 * product_s(s, m, n, k, 1) + product_s(s, m, k, n, 1);
		t->ops += 3;
		return;
	}
	t->device_s += product_s(s, m, n, k, 1) + 2 * product_s(s, m, k, n, 1); /* of inputs */
	t->device_s += product_s(s, n, k, m, 1) * 2 + product_s(s, k, n, m, 1); /* of weights */
	t->device_s += (3 * 3 * n * k + 3 * m * k) * s->size_B / s->bw;         /* gradients added, both ways to x */
	t->ops += 10;
}

static void head(const struct setting *s, struct times *t, bool backward, double chunks)
{
	double m = s->call.elements / s->call.width / chunks, n = s->call.width, k = named(s->config, "H");

	if (!backward) {
		t->device_s += chunks * product_s(s, m, n, k, 1);
	} else {
		t->device_s += chunks * (product_s(s, m, k, n, 1) + product_s(s, n, k, m, 1));
		t->device_s += 3 * n * k * s->size_B / s->bw;
	}
	t->ops += chunks * 2;
}

/* Liger's chunks: as many as the logits are wider than the hidden state, rows a power of two. */
static double chunks_of(const struct setting *s)
{
	double rows = s->call.elements / s->call.width;
	double factor = ceil(s->call.width / named(s->config, "H"));

	return ceil(rows / exp2(ceil(log2(ceil(rows / factor)))));
}

/* Loss and its gradients chunk by chunk in the forward pass: logits times alpha, the sum of the weights'
 * gradient, which each chunk reads and writes. */
static void head_chunked(const struct setting *s, struct times *t, bool backward)
{
	double chunks = chunks_of(s), k = named(s->config, "H");

	if (backward) {
		t->device_s += 3 * s->call.width * k * s->size_B / s->bw;
		t->ops += 12;
		return;
	}
	head(s, t, false, chunks);
	head(s, t, true, chunks);
	stream(s, t, 2);
	t->device_s += chunks * 2 * s->call.width * k * s->size_B / s->bw;
	t->ops += chunks * 14;
}

/* What Triton's products reach / the library's: on Hopper they issue Ampere's instructions. */
static double grouped_share(const struct setting *s)
{
	return s->bench->products == EXPERTS && s->d->compute_capability >= 90 ? .6 : 1;
}

static void experts(const struct setting *s, struct times *t, bool backward)
{
	double e = named(s->config, "E"), h = named(s->config, "H"), n = s->call.width;
	double m = s->call.elements / n / e, moved = s->call.elements / n * h, products;

	if (!backward) {
		products = product_s(s, m, 2 * n, h, e) + product_s(s, m, h, n, e);
		t->device_s += products / grouped_share(s);
		t->device_s += (moved + moved / named(s->config, "K")) * s->size_B / s->bw; /* sum over K */
		t->ops += 60;
		return;
	}
	products = product_s(s, m, n, h, e) + product_s(s, m, h, 2 * n, e);  /* of inputs */
	products += product_s(s, n, h, m, e) + product_s(s, h, 2 * n, m, e); /* of weights */
	t->device_s += products / grouped_share(s);
	/* zeros for the weights' gradients, their factor .02 of the script, the sum into those there */
	t->device_s += (1 + 2 + 3) * 3 * n * h * e * s->size_B / s->bw;
	t->device_s += 2 * moved * s->size_B / s->bw;
	t->ops += 80;
}

/* An expert after the other: each look-up of an expert's weights makes a whole gradient of zeros, which is
 * then added. */
static void experts_loop(const struct setting *s, struct times *t, bool backward)
{
	double e = named(s->config, "E"), weights = 3 * s->call.width * named(s->config, "H") * e;

	experts(s, t, backward);
	if (backward)
		t->device_s += e * 4 * weights * s->size_B / s->bw;
	t->ops += e * (backward ? 14 : 23);
}

static void add_products(const struct setting *s, struct times *t, bool backward)
{
	switch (s->bench->products) {
	case MLP:
		mlp(s, t, backward);
		break;
	case HEAD:
		head(s, t, backward, 1);
		break;
	case HEAD_CHUNKED:
		head_chunked(s, t, backward);
		break;
	case EXPERTS:
		experts(s, t, backward);
		break;
	case EXPERTS_LOOP:
		experts_loop(s, t, backward);
		break;
	case NO_PRODUCTS:
		break;
	}
}

static struct times forward(const struct setting *s)
{
	struct mq_part_cost c = mq_part_cost(s->d, s->kernels->forward, &s->call);
	struct times t = { c.time_s, c.launches };

	stream(s, &t, s->bench->extra);
	add_products(s, &t, false);
	t.ops = t.ops * FORWARD_OPS + c.held;
	return t;
}

static struct times backward(const struct setting *s, bool full)
{
	struct mq_part_cost c = mq_part_cost(s->d, s->kernels->backward, &s->call);
	struct times t = { c.time_s, c.launches };

	stream(s, &t, s->bench->added);
	stream(s, &t, full ? s->bench->added_full : 0);
	if (s->bench->dy == DY_SUM || (full && s->bench->dy == DY_RANDOM))
		stream(s, &t, 1);
	if (s->call.weights > 0) /* the table's gradient is added to the one there */
		t.device_s += 3 * s->call.weights * s->size_B / s->bw;
	add_products(s, &t, true);
	t.ops = t.ops * BACKWARD_OPS + c.held + ENGINE_OPS;
	return t;
}

static double time_of(const struct setting *s, const char *mode, const char **bound)
{
	bool full = !strcmp(mode, "full"), back = !strcmp(mode, "backward");
	struct times t = { 0 }, part;

	if (!back || s->bench->both) {
		t = forward(s);
	}
	if (full || back) {
		part = backward(s, full);
		t.device_s += part.device_s;
		t.ops += part.ops;
	}
	double cleared = s->bench->cleared ? CLEARED_B / s->bw : 0;
	double host = t.ops * s->d->host_launch_s - cleared;
	*bound = host > t.device_s ? "host" : s->bench->products ? "compute" : "memory";
	return fmax(t.device_s, host);
}

/* ---- memory ------------------------------------------------------------------------------------------ */

/* PyTorch's workspace of a cuBLAS handle: CUBLAS_WORKSPACE_CONFIG :4096:2:16:8, and 32 MiB on Hopper. */
static double library_B(const struct setting *s)
{
	return s->d->compute_capability >= 90 ? 32 << 20 : (4096 * 2 + 16 * 8) << 10;
}

static double mlp_memory(struct setting *s, bool forward_only)
{
	double m = s->call.elements / s->call.width, h = named(s->config, "H");
	double weights = 3 * s->call.width * h, inner = s->call.elements, outer = m * h;
	struct mq_part_cost f = mq_part_cost(s->d, s->kernels->forward, &s->call), b;
	double kept = 2 * inner * s->size_B + f.left_B;

	s->call.owns_gradient = true;
	b = mq_part_cost(s->d, s->kernels->backward, &s->call);
	if (forward_only)
		return (weights + 2 * outer) * s->size_B + kept + 2 * library_B(s);
	return (2 * weights + 4 * outer) * s->size_B + 2 * library_B(s) +
	       fmax(kept + inner * s->size_B + b.peak_B, kept + 3 * outer * s->size_B);
}

/* The script makes the modules of both implementations. */
static double head_memory(const struct setting *s)
{
	double rows = s->call.elements / s->call.width, h = named(s->config, "H");
	double weights = s->call.width * h * s->size_B, logits = s->call.elements * s->size_B;

	if (s->bench->products == HEAD)
		return 3 * weights + 2 * rows * h * s->size_B + 3 * logits + 2 * library_B(s);
	return 4 * weights + 3 * rows * h * s->size_B + 4 * logits / chunks_of(s) + 2 * library_B(s);
}

/* The script's weights are .02 times a leaf, which stays, and so do the gradients of both. In the loop all
 * that an expert makes is kept, and the mask of one-hot int64; each look-up of weights ends in a whole
 * gradient of zeros. */
static double experts_memory(const struct setting *s, bool forward_only)
{
	double e = named(s->config, "E"), h = named(s->config, "H"), k = named(s->config, "K");
	double n = s->call.width, copies = s->call.elements / n, tokens = copies / k, size = s->size_B;
	double weights = 3 * n * h * e * size, outer = 2 * tokens * h * size;
	double kept = copies * (3 * n + h) * size + outer, there = 2 * weights + 2 * library_B(s);

	if (s->bench->products == EXPERTS_LOOP) {
		kept = copies * (4 * n + 3 * h) * size + outer + copies * e * 8;
		return there + kept + (forward_only ? 0 : 2 * weights + weights * 2 / 3);
	}
	if (forward_only)
		return there + kept;
	return there + 2 * weights +
	       fmax(kept + copies * 3 * n * size, /* all that is made; or one gradient times .02 */
		    weights / 3 + outer + copies * h * size);
}

static double memory_of(struct setting *s, const char *mode)
{
	const struct bench *b = s->bench;
	struct mq_part_cost f = mq_part_cost(s->d, s->kernels->forward, &s->call);
	struct mq_part_cost r = mq_part_cost(s->d, s->kernels->backward, &s->call);
	double held = b->held * s->call.elements * s->size_B;

	switch (b->products) {
	case MLP:
		return mlp_memory(s, !strcmp(mode, "forward"));
	case HEAD:
	case HEAD_CHUNKED:
		return head_memory(s);
	case EXPERTS:
	case EXPERTS_LOOP:
		return experts_memory(s, !strcmp(mode, "forward"));
	case NO_PRODUCTS:
		break;
	}
	held += b->extra_made * s->call.elements * s->size_B;
	if (s->call.weights > 0) /* the table and its gradient */
		held += 2 * s->call.weights * s->size_B;
	r.peak_B += ((b->dy == DY_RANDOM) + b->back_made) * s->call.elements * s->size_B;
	if (b->part == MQ_PART_ROPE || b->part == MQ_PART_ROPE_COMPLEX) { /* Q first, then K; cos and sin */
		double keys = named(s->config, "num_kv_heads"), q = named(s->config, "num_q_heads");

		r.peak_B = (r.peak_B * q + s->call.elements * s->size_B * keys) / (q + keys);
		held += library_B(s) + 2 * s->call.elements * s->size_B / (q + keys);
	}
	return held + fmax(f.peak_B, f.left_B + r.peak_B);
}

/* ---- rows -------------------------------------------------------------------------------------------- */

static const struct bench *bench_of(const struct mq_csv *csv, uint32_t i, const struct mq_kernel_row *row)
{
	const char *source = mq_csv_text(csv, i, mq_csv_column(csv, "source")), *date = strrchr(source, '(');

	for (int b = 0; b < N_BENCHES; b++)
		if (!strcmp(benches[b].kernel, row->kernel) &&
		    !strcmp(benches[b].implementation, row->implementation) &&
		    (!benches[b].until || (date && strcmp(date + 1, benches[b].until) < 0)))
			return &benches[b];
	return NULL;
}

static bool mode_known(const struct mq_kernel_row *row)
{
	return !strcmp(row->mode, "forward") || !strcmp(row->mode, "backward") || !strcmp(row->mode, "full");
}

static void predict(const struct bench *b, const struct config *c, const struct mq_device_calib *d,
		    struct mq_kernel_row *row)
{
	double rows = product(c, b->rows), width = product(c, b->width);
	struct setting s = {
		.bench = b,
		.d = d,
		.config = c,
		.kernels = mq_part_kernels(d->libraries, b->part, b->make),
		.call = { rows * width, width, b->weights ? product(c, b->weights) : 0., dtype_of(c, b), false },
		.size_B = mq_dtype_size(dtype_of(c, b)),
		.bw = d->mem_bw_Bps * d->elementwise_bw_share,
	};

	mq_assert(s.kernels);
	if (!isfinite(s.call.elements) || !isfinite(s.call.weights)) {
		row->refused = "its config does not give the shape";
		return;
	}
	row->predicted = row->memory ? memory_of(&s, row->mode) : time_of(&s, row->mode, &row->bound);
	if (row->memory && b->hoards) /* those of its runs for time: 12,240 MB to the byte, tables and gradients */
		row->refused = "what its script compiled before was there still, or not, as Python's collector had it";
	if (row->memory && row->measured < s.call.elements * s.size_B)
		row->refused = "less memory than its input alone: not of this shape";
}

static enum mq_status liger_row(const struct mq_device_calib *d, struct mq_arena *arena, struct mq_kernel_row *row,
				struct mq_err *err)
{
	const struct mq_csv *csv = row->csv;
	uint32_t i = row->i;
	struct config c = { .text = mq_csv_text(csv, i, mq_csv_column(csv, "config")),
			    .x_name = mq_csv_text(csv, i, mq_csv_column(csv, "x_name")) };
	const struct bench *b;

	row->kernel = mq_csv_text(csv, i, mq_csv_column(csv, "kernel"));
	row->implementation = mq_csv_text(csv, i, mq_csv_column(csv, "implementation"));
	row->mode = mq_csv_text(csv, i, mq_csv_column(csv, "mode"));
	row->memory = !strcmp(mq_csv_text(csv, i, mq_csv_column(csv, "metric")), "memory");
	MQ_TRY(mq_kernel_number(csv, i, "x", &c.x, err));
	MQ_TRY(mq_kernel_number(csv, i, "median", &row->measured, err));
	row->measured *= row->memory ? 1 << 20 : 1e-3;
	b = bench_of(csv, i, row);
	if (!b)
		row->refused = mq_arena_printf(arena, "nobody has counted %s of %s", row->implementation, row->kernel);
	else if (!mode_known(row))
		row->refused = mq_arena_printf(arena, "mode '%s'", row->mode);
	else
		predict(b, &c, d, row);
	return MQ_OK;
}

static const char *const liger_columns[] = { "gpu",    "kernel", "implementation", "mode",   "metric",
					     "x_name", "x",      "median",         "config", NULL };
const struct mq_kernel_format mq_kernel_liger = { "liger", liger_columns, liger_row };

/* ---- Vidur: forward, 16 bit, time of the kernels alone ------------------------------------------------ */

struct profile {
	const char *op;
	enum mq_part part;
	enum mq_make make;
};
static const struct profile profiles[] = {
	{ "emb", MQ_PART_EMBEDDING, MQ_MAKE_EAGER },
	{ "input_layernorm", MQ_PART_RMS, MQ_MAKE_COMPILED },
	{ "post_attention_layernorm", MQ_PART_RMS, MQ_MAKE_COMPILED },
	{ "attn_rope", MQ_PART_ROPE, MQ_MAKE_NATIVE },
	{ "mlp_act", MQ_PART_GATE_JOINED, MQ_MAKE_NATIVE },
	{ "add", MQ_PART_ADD, MQ_MAKE_EAGER },
};

static enum mq_status elementwise_row(const struct mq_device_calib *d, struct mq_arena *arena,
				      struct mq_kernel_row *row, struct mq_err *err)
{
	const struct mq_csv *csv = row->csv;
	uint32_t i = row->i;
	const struct profile *p = NULL;
	double tokens, tp, hidden, ffn, heads, kv, vocab;

	MQ_TRY(mq_kernel_number(csv, i, "tokens", &tokens, err));
	MQ_TRY(mq_kernel_number(csv, i, "tp", &tp, err));
	MQ_TRY(mq_kernel_number(csv, i, "hidden", &hidden, err));
	MQ_TRY(mq_kernel_number(csv, i, "ffn", &ffn, err));
	MQ_TRY(mq_kernel_number(csv, i, "heads", &heads, err));
	MQ_TRY(mq_kernel_number(csv, i, "kv_heads", &kv, err));
	MQ_TRY(mq_kernel_number(csv, i, "vocab", &vocab, err));
	MQ_TRY(mq_kernel_number(csv, i, "time_us", &row->measured, err));
	row->measured *= 1e-6;
	row->kernel = mq_csv_text(csv, i, mq_csv_column(csv, "op"));
	row->implementation = "profiled";
	row->mode = "forward";
	for (size_t k = 0; k < sizeof(profiles) / sizeof(*profiles); k++)
		if (!strcmp(profiles[k].op, row->kernel))
			p = &profiles[k];
	if (!p) {
		row->refused = mq_arena_printf(arena, "nobody has counted op '%s'", row->kernel);
		return MQ_OK;
	}
	struct mq_part_call call = { .elements = tokens * hidden, .width = hidden, .dtype = MQ_FP16 };
	if (p->part == MQ_PART_ROPE)
		call.elements = tokens * hidden / heads * (heads + fmax(kv, tp)) / tp;
	if (p->part == MQ_PART_GATE_JOINED)
		call.elements = tokens * ffn / tp;
	if (p->part == MQ_PART_EMBEDDING)
		call.weights = vocab / tp * hidden;
	row->predicted = mq_part_cost(d, mq_part_kernels(d->libraries, p->part, p->make)->forward, &call).time_s;
	return MQ_OK;
}

static const char *const elementwise_columns[] = { "gpu",   "op",       "tokens", "tp",      "hidden", "ffn",
						   "heads", "kv_heads", "vocab",  "time_us", NULL };
const struct mq_kernel_format mq_kernel_elementwise = { "elementwise", elementwise_columns, elementwise_row };
