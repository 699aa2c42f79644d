/* kernels_parts.c - rows of parts of layers: norms, rotary embedding, gates, losses, embeddings, and layers around
 * them.
 *
 * A row gives the kernels of platforms/kernels/parts.csv (part, make), the number of elements, and the rest of its
 * benchmark: existing tensors, whether gradients accumulate, whether "backward" includes the forward pass.
 * results/README.md has the columns; tests/kernel-timings writes them.
 *
 * triton's do_bench clears 256 MB between its events, while the host runs ahead; if the host takes longer than that and
 * the kernels, host time is what was measured. SPDX-License-Identifier: Apache-2.0 */
#include "score/kernels.h"

#include <math.h>
#include <string.h>

#include "kernels/kernel_table.h"
#include "maquette/cost.h"

enum { CLEARED_B = 256 << 20 };
/* Host time in launches: of an op of eager PyTorch forward, of one backward, of a call of autograd's engine. */
enum { FORWARD_OPS = 2, BACKWARD_OPS = 3, ENGINE_OPS = 6 };

enum layer { PART, MLP, HEAD, HEAD_CHUNKED, EXPERTS, EXPERTS_LOOP };
static const char *const layers[] = { "", "mlp", "head", "head-chunked", "experts", "experts-loop", NULL };
enum gradient { GIVEN, RANDOM, SUM }; /* gradient of the output: given; by randn_like; of y.sum() */
static const char *const gradients[] = { "", "random", "sum", NULL };
enum loop { CLEARED, HOST, KERNEL };
static const char *const loops[] = { "cleared", "host", "kernel", NULL };

/* Numbers of a row; 0 = empty. */
enum number {
	HIDDEN,
	EXPERTS_OF,
	TOP_K,
	Q_HEADS,
	KV_HEADS,
	BOTH,       /* "backward" includes the forward pass */
	HELD,       /* tensors allocated before (x, dy, x.grad): elements per element */
	ADDED,      /* elements moved to accumulate gradients, per element, backward */
	ADDED_FULL, /* the same in `full` alone */
	BACK_MADE,  /* further tensors of the benchmark's backward pass */
	EXTRA,      /* further elements moved forward: residual, weights */
	EXTRA_MADE,
	N_NUMBERS
};
static const char *const number_columns[N_NUMBERS] = { "hidden",     "experts",   "top_k", "q_heads",
						       "kv_heads",   "both",      "held",  "added",
						       "added_full", "back_made", "extra", "extra_made" };

/* ---- time -------------------------------------------------------------------------------------------- */

struct times {
	double device_s, ops; /* of the host, in launches */
};

struct setting {
	const struct mq_device_calib *d;
	const struct mq_part_kernels *kernels;
	struct mq_part_call call;
	double size_B, bw;
	int layer, gradient, loop;
	double of[N_NUMBERS]; /* see number_columns */
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
	double m = s->call.elements / s->call.width, n = s->call.width, k = s->of[HIDDEN];

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

static void head_in(const struct setting *s, struct times *t, bool backward, double chunks)
{
	double m = s->call.elements / s->call.width / chunks, n = s->call.width, k = s->of[HIDDEN];

	if (!backward) {
		t->device_s += chunks * product_s(s, m, n, k, 1);
	} else {
		t->device_s += chunks * (product_s(s, m, k, n, 1) + product_s(s, n, k, m, 1));
		t->device_s += 3 * n * k * s->size_B / s->bw;
	}
	t->ops += chunks * 2;
}

static void head(const struct setting *s, struct times *t, bool backward)
{
	head_in(s, t, backward, 1);
}

/* Number of Liger's chunks: about vocabulary over hidden size, with a power of two of rows each. */
static double chunks_of(const struct setting *s)
{
	double rows = s->call.elements / s->call.width;
	double factor = ceil(s->call.width / s->of[HIDDEN]);

	return ceil(rows / exp2(ceil(log2(ceil(rows / factor)))));
}

/* Liger computes loss and gradients chunk by chunk in the forward pass: logits times alpha, and the sum of the weights'
 * gradient, which each chunk reads and writes. */
static void head_chunked(const struct setting *s, struct times *t, bool backward)
{
	double chunks = chunks_of(s), k = s->of[HIDDEN];

	if (backward) {
		t->device_s += 3 * s->call.width * k * s->size_B / s->bw;
		t->ops += 12;
		return;
	}
	head_in(s, t, false, chunks);
	head_in(s, t, true, chunks);
	stream(s, t, 2);
	t->device_s += chunks * 2 * s->call.width * k * s->size_B / s->bw;
	t->ops += chunks * 14;
}

/* Speed of Triton's GEMMs relative to the library's: on Hopper they use Ampere's instructions. */
static double grouped_share(const struct setting *s)
{
	return s->layer == EXPERTS && s->d->compute_capability >= 90 ? .6 : 1;
}

static void experts(const struct setting *s, struct times *t, bool backward)
{
	double e = s->of[EXPERTS_OF], h = s->of[HIDDEN], n = s->call.width;
	double m = s->call.elements / n / e, moved = s->call.elements / n * h, products;

	if (!backward) {
		products = product_s(s, m, 2 * n, h, e) + product_s(s, m, h, n, e);
		t->device_s += products / grouped_share(s);
		t->device_s += (moved + moved / s->of[TOP_K]) * s->size_B / s->bw; /* sum over K */
		t->ops += 60;
		return;
	}
	products = product_s(s, m, n, h, e) + product_s(s, m, h, 2 * n, e);  /* of inputs */
	products += product_s(s, n, h, m, e) + product_s(s, h, 2 * n, m, e); /* of weights */
	t->device_s += products / grouped_share(s);
	/* zeros for the weights' gradients, the script's factor .02, accumulation */
	t->device_s += (1 + 2 + 3) * 3 * n * h * e * s->size_B / s->bw;
	t->device_s += 2 * moved * s->size_B / s->bw;
	t->ops += 80;
}

/* One expert after the other: each look-up of an expert's weights makes and adds a full gradient of zeros. */
static void experts_loop(const struct setting *s, struct times *t, bool backward)
{
	double e = s->of[EXPERTS_OF], weights = 3 * s->call.width * s->of[HIDDEN] * e;

	experts(s, t, backward);
	if (backward)
		t->device_s += e * 4 * weights * s->size_B / s->bw;
	t->ops += e * (backward ? 14 : 23);
}

static void add_products(const struct setting *s, struct times *t, bool backward)
{
	static void (*const products[])(const struct setting *s, struct times *t, bool backward) = {
		[MLP] = mlp,
		[HEAD] = head,
		[HEAD_CHUNKED] = head_chunked,
		[EXPERTS] = experts,
		[EXPERTS_LOOP] = experts_loop,
	};

	if (s->layer != PART)
		products[s->layer](s, t, backward);
}

static struct times forward(const struct setting *s)
{
	struct mq_part_cost c = mq_part_cost(s->d, s->kernels->forward, &s->call);
	struct times t = { c.time_s, c.launches };

	stream(s, &t, s->of[EXTRA]);
	add_products(s, &t, false);
	t.ops = t.ops * FORWARD_OPS + c.held;
	return t;
}

static struct times backward(const struct setting *s, bool full)
{
	struct mq_part_cost c = mq_part_cost(s->d, s->kernels->backward, &s->call);
	struct times t = { c.time_s, c.launches };

	stream(s, &t, s->of[ADDED]);
	stream(s, &t, full ? s->of[ADDED_FULL] : 0);
	if (s->gradient == SUM || (full && s->gradient == RANDOM))
		stream(s, &t, 1);
	if (s->call.weights > 0) /* the table's gradient accumulates */
		t.device_s += 3 * s->call.weights * s->size_B / s->bw;
	add_products(s, &t, true);
	t.ops = t.ops * BACKWARD_OPS + c.held + ENGINE_OPS;
	return t;
}

static double time_of(const struct setting *s, const char *mode, const char **bound)
{
	bool full = !strcmp(mode, "full"), back = !strcmp(mode, "backward");
	struct times t = { 0 }, part;

	if (!back || s->of[BOTH]) {
		t = forward(s);
	}
	if (full || back) {
		part = backward(s, full);
		t.device_s += part.device_s;
		t.ops += part.ops;
	}
	double cleared = s->loop == CLEARED ? CLEARED_B / s->bw : 0;
	double host = s->loop == KERNEL ? 0 : t.ops * s->d->host_launch_s - cleared;
	*bound = host > t.device_s ? "host" : s->layer ? "compute" : "memory";
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
	double m = s->call.elements / s->call.width, h = s->of[HIDDEN];
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
	double rows = s->call.elements / s->call.width, h = s->of[HIDDEN];
	double weights = s->call.width * h * s->size_B, logits = s->call.elements * s->size_B;

	if (s->layer == HEAD)
		return 3 * weights + 2 * rows * h * s->size_B + 3 * logits + 2 * library_B(s);
	return 4 * weights + 3 * rows * h * s->size_B + 4 * logits / chunks_of(s) + 2 * library_B(s);
}

/* The script's weights are .02 times a leaf; leaf and both gradients stay allocated. The loop saves all tensors of each
 * expert and the one-hot mask in int64; each look-up of weights ends in a full gradient of zeros. */
static double experts_memory(const struct setting *s, bool forward_only)
{
	double e = s->of[EXPERTS_OF], h = s->of[HIDDEN], k = s->of[TOP_K];
	double n = s->call.width, copies = s->call.elements / n, tokens = copies / k, size = s->size_B;
	double weights = 3 * n * h * e * size, outer = 2 * tokens * h * size;
	double kept = copies * (3 * n + h) * size + outer, there = 2 * weights + 2 * library_B(s);

	if (s->layer == EXPERTS_LOOP) {
		kept = copies * (4 * n + 3 * h) * size + outer + copies * e * 8;
		return there + kept + (forward_only ? 0 : 2 * weights + weights * 2 / 3);
	}
	if (forward_only)
		return there + kept;
	return there + 2 * weights +
	       fmax(kept + copies * 3 * n * size, /* all saved tensors; or one gradient times .02 */
		    weights / 3 + outer + copies * h * size);
}

static double memory_of(struct setting *s, const char *mode)
{
	struct mq_part_cost f = mq_part_cost(s->d, s->kernels->forward, &s->call);
	struct mq_part_cost r = mq_part_cost(s->d, s->kernels->backward, &s->call);
	double held = s->of[HELD] * s->call.elements * s->size_B;

	if (s->layer == MLP)
		return mlp_memory(s, !strcmp(mode, "forward"));
	if (s->layer == HEAD || s->layer == HEAD_CHUNKED)
		return head_memory(s);
	if (s->layer != PART)
		return experts_memory(s, !strcmp(mode, "forward"));
	held += s->of[EXTRA_MADE] * s->call.elements * s->size_B;
	if (s->call.weights > 0) /* the table and its gradient */
		held += 2 * s->call.weights * s->size_B;
	r.peak_B += ((s->gradient == RANDOM) + s->of[BACK_MADE]) * s->call.elements * s->size_B;
	if (s->kernels->part == MQ_PART_ROPE ||
	    s->kernels->part == MQ_PART_ROPE_COMPLEX) { /* Q first, then K; cos and sin */
		double keys = s->of[KV_HEADS], q = s->of[Q_HEADS];

		r.peak_B = (r.peak_B * q + s->call.elements * s->size_B * keys) / (q + keys);
		held += library_B(s) + 2 * s->call.elements * s->size_B / (q + keys);
	}
	return held + fmax(f.peak_B, f.left_B + r.peak_B);
}

/* ---- rows -------------------------------------------------------------------------------------------- */

static enum mq_status predict(struct setting *s, struct mq_kernel_row *row, struct mq_err *err)
{
	const struct mq_kernel_column columns[] = { { "width", &s->call.width },
						    { "elements", &s->call.elements },
						    { "table", &s->call.weights },
						    { NULL, NULL } };
	const char *types[MQ_N_DTYPES + 1] = { NULL };
	int dtype;

	for (int n = 0; n < N_NUMBERS; n++)
		MQ_TRY(mq_csv_range(row->csv, row->i, number_columns[n], 0, 0, MQ_KERNEL_MOST, &s->of[n], err));
	for (int t = 0; t < MQ_N_DTYPES; t++)
		types[t] = mq_dtype_name((enum mq_dtype)t);
	MQ_TRY(mq_kernel_word(row, "dtype", types, &dtype, err));
	MQ_TRY(mq_kernel_word(row, "layer", layers, &s->layer, err));
	MQ_TRY(mq_kernel_word(row, "gradient", gradients, &s->gradient, err));
	MQ_TRY(mq_kernel_word(row, "loop", loops, &s->loop, err));
	MQ_TRY(mq_kernel_numbers(row, columns, err));
	s->call.dtype = (enum mq_dtype)dtype;
	s->size_B = mq_dtype_size(s->call.dtype);
	row->predicted = row->memory ? memory_of(s, row->mode) : time_of(s, row->mode, &row->bound);
	if (row->memory && row->measured < s->call.elements * s->size_B)
		row->refused = "less memory than its input alone: not of this shape";
	return MQ_OK;
}

static enum mq_status part_row(const struct mq_device_calib *d, struct mq_arena *arena, struct mq_kernel_row *row,
			       struct mq_err *err)
{
	int part = MQ_ENUM_FIND(mq_part_name, MQ_N_PARTS, mq_kernel_text(row, "part"));
	int make = MQ_ENUM_FIND(mq_make_name, MQ_N_MAKES, mq_kernel_text(row, "make"));
	struct setting s = { .d = d, .bw = d->mem_bw_Bps * d->elementwise_bw_share };

	row->kernel = mq_kernel_text(row, "kernel");
	row->memory = *mq_kernel_text(row, "memory_B") != '\0';
	MQ_TRY(mq_csv_range(row->csv, row->i, row->memory ? "memory_B" : "time_us", NAN, 1e-6, MQ_KERNEL_MOST,
			    &row->measured, err));
	row->measured *= row->memory ? 1 : 1e-6;
	if (part < MQ_N_PARTS && make < MQ_N_MAKES && d->libraries)
		s.kernels = mq_part_kernels(d->libraries, (enum mq_part)part, (enum mq_make)make);
	if (!s.kernels)
		row->refused = mq_arena_printf(arena, "nobody has counted %s of %s", row->implementation, row->kernel);
	else if (strcmp(row->mode, "forward") && strcmp(row->mode, "backward") && strcmp(row->mode, "full"))
		row->refused = mq_arena_printf(arena, "mode '%s'", row->mode);
	else if (!*mq_kernel_text(row, "elements"))
		row->refused = "the table does not give its shape";
	else
		return predict(&s, row, err);
	return MQ_OK;
}

const struct mq_kernel_format mq_kernel_parts = {
	"gpu kernel implementation mode dtype part make elements width",
	"layer gradient loop table time_us memory_B hidden experts top_k q_heads kv_heads both held added added_full "
	"back_made extra extra_made refused",
	part_row
};
