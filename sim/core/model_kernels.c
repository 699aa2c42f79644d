/*
 * model_kernels.c - what one device does for a split op: its kernels, parameters, kept activations.
 *
 * With S samples and degrees q (seq), p (spatial), e (expert), h (head), o (out), i (in), the rows
 * of an op's GEMM view are m S / (q p). What else a split divides:
 *   GEMM, CONV, ROUTER  o, h: columns n, parameters, write. i: depth k, weights (not the bias),
 *                       read. e: the number of expert matrices `count`, and with it everything.
 *                       In a grouped convolution o divides the groups, and so the read too.
 *   ATTENTION           h: `count`. q: the queries; the keys stay whole, because in ring attention
 *                       every block of keys and values passes by. `keys` of the share asks for the
 *                       first step (this rank's keys) or, `remote`, for all later ones together.
 *   EMBEDDING           i: the rows found here (the output is a partial sum); o: the width.
 *   all others          o, h, e: everything.
 * A split along the experts says into how many parts the experts of a group are divided; `samples`
 * are then all samples of that group, so each device works on 1/e of the group's tokens: as many
 * as it had before the all-to-all; where tokens do not visit all experts alike, on those of the fullest
 * rank (experts.h).
 *
 * Backward of Y = X W: dX = dY W' is [m x n][n x k], dW = X' dY is [k x m][m x n]. A convolution's dX
 * is one too: its window gathers dY, [m x n window][n window x k / window]. An op whose
 * backward FLOPs are not above 1.5 of the forward ones (its input needs no gradient) has dW alone; one
 * without backward FLOPs (frozen weights) has neither.
 * Unfused attention is S = Q K' (batched), a memory-bound softmax with dropout, O = P V; backwards
 * two batched products for each of the two. Fused attention counts 2x forward FLOPs backwards: the
 * recomputation of the scores inside the kernel is part of its efficiency, not of the model.
 *
 * Where layers multiply in fp8, each pass first makes the operands that are new to it: forward input and
 * weights, backward the output's gradient (the copies of the forward pass are kept for it).
 *
 * What a framework moves beyond the one fused kernel that an op counts (norms, dropout, activations, biases, stored
 * scores, copies of heads) is listed in kernel_table.c, by the words of the software.
 *
 * RECURRENT: m steps of a product [samples x k][k x n]; see recurrent_kernels.
 *
 * Not modelled: padding of uneven shares (they are fractions).
 */
#include "core/model.h"

#include <math.h>
#include <string.h>

#include "core/kernel_table.h"
#include "core/model_chains.h"
#include "core/question.h"

const char *mq_kernel_kind_name(enum mq_kernel_kind kind)
{
	static const char *const names[] = {
		"gemm", "conv",  "attention",   "memory", "embedding", "optimizer", "recurrent",
		"copy", "timed", "host-update", "scan",   "call",      "wait",
	};

	_Static_assert(sizeof(names) / sizeof(*names) == MQ_N_KERNEL_KINDS, "one name per kind");
	return (unsigned)kind < MQ_N_KERNEL_KINDS ? names[kind] : "?";
}

static bool is_gemm(const struct mq_op *op)
{
	return op->kind == MQ_OP_GEMM || op->kind == MQ_OP_CONV || op->kind == MQ_OP_ROUTER;
}

const char *mq_attention_name(enum mq_attention_kernel attention)
{
	static const char *const names[] = { "stored", "eager",   "xla",    "tensorflow", "fused-softmax",
					     "flash1", "triton1", "flash2", "flash3",     "te" };

	_Static_assert(sizeof(names) / sizeof(*names) == MQ_N_ATTENTIONS, "one name per implementation");
	return (unsigned)attention < MQ_N_ATTENTIONS ? names[attention] : "?";
}

/* What is left to one device of each amount, as factors on the per-sample numbers of the op. */
struct scale {
	double rows;  /* m: samples, sequence and space */
	double cols;  /* n */
	double depth; /* k */
	double count; /* matrices; for attention and batched products times the samples */
	double flop, read, write;
	double kv;   /* attention: keys and values, which a sequence split leaves whole */
	double keys; /* attention: their share that this call sees */
};

/* Heads of keys and values that fused attention reads: fewer than `count` with grouped queries. */
static double kv_heads(const struct mq_op *op)
{
	double head = 2 * op->n * op->k, keys = op->read - op->m * op->k * op->count;

	return head > 0 && keys > head ? keys / head : 1;
}

static struct scale scale_of(const struct mq_op *op, const struct mq_share *share)
{
	double e = mq_degree(share->split, MQ_DIM_EXPERT), h = mq_degree(share->split, MQ_DIM_HEAD);
	double o = mq_degree(share->split, MQ_DIM_OUT), i = mq_degree(share->split, MQ_DIM_IN);
	double space = mq_degree(share->split, MQ_DIM_SEQ) * mq_degree(share->split, MQ_DIM_SPATIAL);
	double rows = share->samples / space;
	struct scale s = { .rows = rows, .cols = 1, .depth = 1, .count = 1, .keys = 1 };

	switch (op->kind) {
	case MQ_OP_GEMM:
	case MQ_OP_CONV:
	case MQ_OP_ROUTER:
		s.depth = 1 / i;
		if (op->kind == MQ_OP_CONV && op->count > 1) { /* groups */
			s.count = 1 / (o * e);
			s.read = rows / (i * o * e);
		} else {
			s.cols = 1 / (o * h);
			s.count = 1 / e;
			s.read = rows / (i * e);
		}
		s.write = rows / (o * h * e);
		s.flop = rows / (o * h * e * i);
		return s;
	case MQ_OP_ATTENTION:
		s.rows = 1 / space;
		s.count = share->samples / h;
		s.keys = share->keys > 0 ? share->keys : 1;
		s.read = s.write = rows / h;
		s.flop = s.read * s.keys;
		/* a shared head is in many parts */
		s.kv = s.keys * share->samples / fmin(h, kv_heads(op));
		return s;
	case MQ_OP_BMM:
		s.rows = 1 / space;
		s.count = share->samples / (h * e);
		s.cols = 1 / o;
		s.read = s.write = s.flop = rows / (o * h * e);
		return s;
	case MQ_OP_EMBEDDING:
		s.read = rows / (i * o);
		s.write = rows / o;
		s.flop = rows / (i * o);
		return s;
	case MQ_OP_RECURRENT:
		s.cols = 1 / o;
		s.read = rows;
		s.write = s.flop = rows / o;
		return s;
	default:
		s.count = 1 / e;
		s.read = s.write = s.flop = rows / (o * h * e);
		return s;
	}
}

/* Everything that the kernels of one op share. */
struct work {
	const struct mq_op *op;
	struct scale scale;
	double size_B;       /* of one element */
	double weights;      /* parameter elements that the op multiplies with, tied ones too */
	double cast_B;       /* to make an element of an fp8 operand; 0 = no fp8 here */
	enum mq_dtype dtype; /* of what is not a product in fp8 */
	const struct mq_software *software;
	const struct mq_model *model;
	double traffic;   /* of element-wise kernels / their least */
	bool fp8, mx;     /* the layers' products are in fp8, in MXFP8 */
	double strips;    /* an image is cut into */
	double load;      /* copies of tokens of this rank's experts / the mean */
	double documents; /* work of attention / that over whole sequences */
	bool gathered;    /* a loss of whole logits that ranks have parts of */
	double ring;      /* ranks of the ring whose later steps are asked for; 0 = not these */
	struct mq_kernel blank;
	struct mq_kernel *kernel;
	uint32_t n;
};

static struct mq_kernel *add(struct work *w, enum mq_kernel_kind kind)
{
	mq_assert(w->n < MQ_MAX_KERNELS_PER_OP);
	w->kernel[w->n] = w->blank;
	w->kernel[w->n].kind = (uint8_t)kind;
	return &w->kernel[w->n++];
}

/* Experts are called one by one: a product each, on streams of their own, and what is done to the output of
 * each (ops that count them). */
static uint32_t calls(const struct work *w)
{
	bool each = w->op->kind == MQ_OP_GEMM || w->op->kind == MQ_OP_ELEMENTWISE;
	double experts = each ? w->op->count * w->scale.count : 1;

	return experts > 1 ? (uint32_t)ceil(experts) : 1;
}

static void add_gemm(struct work *w, const double mnk[3], double flop, double elems)
{
	struct mq_kernel *k = add(w, w->op->kind == MQ_OP_CONV ? MQ_KERNEL_CONV : MQ_KERNEL_GEMM);

	k->m = mnk[0];
	k->n = mnk[1];
	k->k = mnk[2];
	k->count = (w->op->count > 0 ? w->op->count : 1) * w->scale.count;
	k->flop = flop;
	k->bytes = elems * mq_dtype_size(k->dtype);
	k->launches = w->op->kernels * calls(w);
	k->winograd = w->op->winograd;
	k->volume = w->op->volume;
	k->depthwise = w->op->kind == MQ_OP_CONV && w->op->n == 1 && w->op->k == w->op->window;
	k->layout = w->op->kind == MQ_OP_CONV && mq_channels_first(w->model, w->software, w->dtype) ?
			    w->software->layout_passes :
			    0;
	k->image = mq_conv_image_part(w->op, w->strips);
}

/* The operands of a pass in fp8: comes after the products, whose places are known (see left_out in
 * lower/template.c). */
static void add_cast(struct work *w, double elems, uint32_t launches)
{
	if (!(w->cast_B > 0))
		return;
	struct mq_kernel *k = add(w, MQ_KERNEL_COPY);
	k->dtype = (uint8_t)w->dtype;
	k->bytes = elems * w->cast_B;
	k->launches = launches * calls(w);
}

/* What software that makes a part so moves beyond the one fused kernel that the op is counted as (nothing, where the
 * table has none), per element that comes out. */
static void add_made(struct work *w, enum mq_part part, enum mq_make make, double elems, bool backward)
{
	const struct mq_part_kernels *own = mq_part_kernels(part, make);
	const struct mq_part_kernels *fused = mq_part_kernels(part, MQ_MAKE_FUSED);
	struct mq_part_sum e = mq_part_sum(backward ? own->backward : own->forward, w->dtype), f = { 0 };

	if (fused)
		f = mq_part_sum(backward ? fused->backward : fused->forward, w->dtype);
	double more = e.streamed_B + e.worked_B - f.streamed_B;
	if (!(more > 0) && !(e.launches > f.launches))
		return;
	struct mq_kernel *k = add(w, MQ_KERNEL_MEMORY);

	k->bytes = elems * fmax(more, 0);
	k->work = elems * e.work;
	k->launches = fmax(e.launches - f.launches, 0);
}

static void add_eager(struct work *w, enum mq_part part, double elems, bool backward)
{
	add_made(w, part, MQ_MAKE_EAGER, elems, backward);
}

/* A part as a word of the software says it is made; FUSED is what the op counts. */
static void add_as(struct work *w, enum mq_part part, uint32_t fusion, double elems, bool backward)
{
	static const enum mq_make makes[] = { [MQ_EAGER] = MQ_MAKE_EAGER,
					      [MQ_APART] = MQ_MAKE_APART,
					      [MQ_XLA] = MQ_MAKE_XLA,
					      [MQ_TENSORFLOW] = MQ_MAKE_TENSORFLOW };

	if (fusion != MQ_FUSED && !w->model->image && mq_part_kernels(part, makes[fusion]))
		add_made(w, part, makes[fusion], elems, backward);
}

/* Queries, keys, values and what attention makes of them, copied so that the elements of a head lie together. */
static void add_heads(struct work *w, bool backward)
{
	const struct mq_op *op = w->op;
	double width = op->k * op->count * w->scale.count;
	double output = op->m * w->scale.rows * width, keys = 2 * op->n * w->scale.keys * width;

	if (w->model->image || w->software->copies_heads == MQ_HEADS_NONE)
		return;
	bool all = w->software->copies_heads == MQ_HEADS_ALL;
	add_made(w, MQ_PART_COPY, MQ_MAKE_NATIVE, all ? 2 * output + keys : output, backward);
	if (!all && backward) /* torch.split joins them */
		add_made(w, MQ_PART_COPY, MQ_MAKE_EAGER, output + keys, backward);
}

static void add_bias(struct work *w, bool backward)
{
	const struct mq_op *op = w->op;

	if (op->kind == MQ_OP_GEMM && op->param > op->k * op->n * fmax(op->count, 1))
		add_as(w, MQ_PART_BIAS, w->software->bias, op->write * w->scale.write, backward);
}

static void gemm_kernels(struct work *w, bool backward)
{
	const struct mq_op *op = w->op;
	double m = op->m * w->scale.rows, n = op->n * w->scale.cols, k = op->k * w->scale.depth;
	double elems = op->read * w->scale.read + op->write * w->scale.write + w->weights;
	double window = op->window > 0 ? op->window : 1;

	if (!backward) {
		add_gemm(w, (double[]){ m, n, k }, op->flop * w->scale.flop, elems);
		add_bias(w, backward);
		add_cast(w, op->read * w->scale.read + w->weights, 2);
		return;
	}
	if (op->flop_bwd <= 0) /* frozen: neither its input nor its weights get a gradient */
		return;
	double flop = op->flop_bwd * w->scale.flop;
	if (op->flop_bwd > 1.5 * op->flop) {
		flop /= 2;
		add_gemm(w, (double[]){ m, k / window, n * window }, flop, elems);
		w->kernel[w->n - 1].of_input = op->kind == MQ_OP_CONV;
	}
	add_gemm(w, (double[]){ k, n, m }, flop, elems);
	w->kernel[w->n - 1].over_window = op->kind == MQ_OP_CONV;
	add_bias(w, backward);
	add_cast(w, op->write * w->scale.write, 1);
}

static void bmm_kernels(struct work *w, bool backward)
{
	const struct mq_op *op = w->op;
	double m = op->m * w->scale.rows, n = op->n * w->scale.cols, k = op->k;
	double elems = op->read * w->scale.read + op->write * w->scale.write;

	if (!backward) {
		add_gemm(w, (double[]){ m, n, k }, op->flop * w->scale.flop, elems);
		return;
	}
	double flop = op->flop_bwd * w->scale.flop / 2;
	add_gemm(w, (double[]){ m, k, n }, flop, elems);
	add_gemm(w, (double[]){ k, n, m }, flop, elems);
}

/* Each later step of a ring adds to what the steps before it made. Forward: a partial output is read and
 * a sum in fp32 rescaled; backward: so are the gradients of Q, K and V. Where causal work is
 * balanced, one rank's first half of the queries needs nothing of the other's second half of the
 * keys: on average 3/4 of the queries take part. */
static void merge_steps(struct work *w, double elems, double keys, double steps)
{
	struct mq_kernel *k = add(w, MQ_KERNEL_MEMORY);

	k->bytes = steps * (.75 * elems + keys) * (w->size_B + 2 * 4) * w->traffic;
	k->launches = 4 * steps;
}

static void add_rope(struct work *w, bool backward)
{
	const struct mq_software *s = w->software;

	if (w->op->rotated > 0 && (s->rope == MQ_EAGER || (w->op->scaled && s->yarn == MQ_EAGER)))
		add_eager(w, MQ_PART_ROPE, w->op->rotated * w->scale.read, backward);
}

static void fused_attention(struct work *w, bool backward)
{
	const struct mq_op *op = w->op;
	struct mq_kernel *k = add(w, MQ_KERNEL_ATTENTION);
	double queries = op->m * op->k * op->count;
	double keys = op->read > queries ? op->read - queries : 0;

	k->m = op->m * w->scale.rows;
	k->n = op->n * w->scale.keys;
	k->k = op->k;
	k->count = op->count * w->scale.count;
	k->flop = (backward ? op->flop_bwd : op->flop) * w->scale.flop * w->documents;
	k->bytes = (queries + op->write) * w->scale.read + keys * w->scale.kv;
	if (backward) { /* Q, O, dO in, dQ out; K, V in, dK, dV out */
		double all = 2 * (queries + op->write) + 2 * keys;
		double here = 2 * (queries + op->write) * w->scale.read + 2 * keys * w->scale.kv;

		k->bytes = all > 0 ? op->moved_bwd * here / all : 0;
	}
	k->bytes *= w->size_B;
	if (w->software->fp8_attention && w->fp8) {
		k->dtype = MQ_FP8;
		k->mx = w->mx;
	}
	k->launches = backward ? 2 * op->kernels : op->kernels;
	k->steps = w->ring > 1 ? w->ring - 1 : 0;
	k->attention = (uint8_t)w->software->attention;
	if (!w->ring)
		add_rope(w, backward);
	if (w->ring > 1)
		merge_steps(w, op->write * w->scale.read, backward ? keys * w->scale.kv / (w->scale.keys * w->ring) : 0,
			    w->ring - 1);
	else if (backward) /* dO; Q, K and V were kept in fp8 */
		add_cast(w, op->write * w->scale.read, 1);
	else
		add_cast(w, queries * w->scale.read + keys * w->scale.kv, 3);
}

/* Softmax and dropout of stored scores. */
static void add_scores(struct work *w, double scores, bool backward)
{
	static const enum mq_make makes[] = {
		[MQ_ATTENTION_STORED] = MQ_MAKE_EAGER,
		[MQ_ATTENTION_EAGER] = MQ_MAKE_NATIVE,
		[MQ_ATTENTION_XLA] = MQ_MAKE_XLA,
		[MQ_ATTENTION_TENSORFLOW] = MQ_MAKE_TENSORFLOW,
	};
	uint32_t attention = w->software->attention;
	bool dropout = w->op->saved_selective > w->op->m * w->op->n * w->op->count;

	if (attention >= MQ_ATTENTION_FUSED_SOFTMAX || w->model->image)
		return;
	add_made(w, MQ_PART_SCORES, makes[attention], scores, backward);
	if (dropout && mq_part_kernels(MQ_PART_DROPOUT, makes[attention]))
		add_made(w, MQ_PART_DROPOUT, makes[attention], scores, backward);
}

static double score_traffic(const struct work *w)
{
	double wide = mq_dtype_size(w->dtype) >= 4 ? w->software->traffic_32 : 1;

	return w->model->image ? w->traffic : w->software->score_traffic * wide;
}

/* Scores are written and read: what the batched products move follows from their shapes, the rest
 * of the op's traffic is the softmax's. */
static void unfused_attention(struct work *w, bool backward)
{
	const struct mq_op *op = w->op;
	double m = op->m * w->scale.rows, n = op->n * w->scale.keys, k = op->k;
	double count = op->count * w->scale.count;
	double product = (m * k + n * k + m * n) * count;
	double flop = (backward ? op->flop_bwd / 4 : op->flop / 2) * w->scale.flop;
	uint32_t products = backward ? 4 : 2, first = w->n;
	double whole = (op->m * k + op->n * k + op->m * op->n) * op->count;
	double rest = (backward ? op->moved_bwd : op->read + op->write) - products * whole;
	const double shape[4][3] = { { m, n, k }, { m, k, n }, { n, k, m }, { n, k, m } };

	for (uint32_t i = 0; i < products; i++)
		add_gemm(w, shape[i], flop, product);
	for (uint32_t i = first; i < w->n; i++)
		w->kernel[i].launches = 1;
	struct mq_kernel *softmax = add(w, MQ_KERNEL_MEMORY);
	softmax->bytes = fmax(rest, 0) * w->scale.read * w->scale.keys * w->size_B * score_traffic(w);
	softmax->launches = fmax(op->kernels - 2, 1);
	softmax->n = n;
	add_scores(w, m * n * count, backward);
	add_heads(w, backward);
	add_rope(w, backward);
}

/* What the framework moves beside the fused kernel that a norm or element-wise op is counted as. */
static void add_framework(struct work *w, bool backward)
{
	const struct mq_op *op = w->op;
	const struct mq_software *sw = w->software;
	double elems = op->output * w->scale.write;

	if (op->kind == MQ_OP_NORM && op->rms)
		add_as(w, MQ_PART_RMS, sw->norm, elems, backward);
	else if (op->kind == MQ_OP_NORM && sw->norm == MQ_EAGER && !sw->autocast && !w->model->image)
		add_made(w, MQ_PART_LAYER_NORM, MQ_MAKE_NATIVE, elems, backward);
	else if (op->kind == MQ_OP_NORM)
		add_as(w, MQ_PART_LAYER_NORM, sw->norm, elems, backward);
	if (op->gated)
		add_as(w, MQ_PART_GATE, sw->activation, elems, backward);
	if (op->gelu)
		add_as(w, MQ_PART_GELU, sw->activation, elems, backward);
	if (op->dropout)
		add_as(w, MQ_PART_DROPOUT_ADD, sw->dropout, elems, backward);
}

/* Bytes of an element-wise op / those that it counts; a loss counts 12 per logit and both passes. */
static double more_moved(const struct work *w)
{
	return w->op->kind == MQ_OP_LOSS && !w->model->image ? w->software->loss_moved_B / 12 : w->traffic;
}

static void memory_kernels(struct work *w, bool backward, enum mq_kernel_kind kind)
{
	const struct mq_op *op = w->op;
	double elems = backward ? op->moved_bwd * fmax(w->scale.read, w->scale.write) :
				  op->read * w->scale.read + op->write * w->scale.write;
	double flop = (backward ? op->flop_bwd : op->flop) * w->scale.flop;
	double less = mq_chain_spares(w->model, w->blank.op, w->software, w->dtype, backward) *
		      (backward ? fmax(w->scale.read, w->scale.write) : w->scale.write);

	if (op->host_flop > 0 && !backward)
		add(w, MQ_KERNEL_TIMED)->time_s = op->host_flop / MQ_HOST_FLOPS;
	if ((elems <= 0 && flop <= 0) || (less > 0 && less >= elems))
		return;
	elems -= less;
	struct mq_kernel *k = add(w, kind);
	k->bytes = (elems + w->weights) * w->size_B * (kind == MQ_KERNEL_MEMORY ? more_moved(w) : 1);
	k->flop = flop;
	k->launches = op->kernels * calls(w);
	k->n = op->kind == MQ_OP_NORM || op->kind == MQ_OP_EMBEDDING ? w->model->hidden : 0;
	add_framework(w, backward);
}

/* Do ranks that have a part of the vocabulary each bring their logits together first? */
static bool gathers_logits(const struct mq_op *op, const struct mq_software *software, const struct mq_share *share)
{
	return op->kind == MQ_OP_LOSS && software->gathers_logits && share->split[MQ_DIM_OUT] > 1;
}

/* What brings gathered logits into one tensor: the library's buffer to a tensor for each rank, these joined. */
static void join_logits(struct work *w)
{
	struct mq_kernel *k = add(w, MQ_KERNEL_COPY);

	k->bytes = 2 * 2 * w->op->read * w->scale.read * w->size_B;
	k->launches = 2;
}

/* Is it an element-wise op between the products of experts? */
static bool op_of_experts(const struct mq_op *op)
{
	return op->kind == MQ_OP_ELEMENTWISE && mq_op_of_experts(op);
}

/*
 * Tokens to experts and back. At least each token is read or written once and each copy once, and backwards
 * the same. Where experts are not one fused kernel with their exchange, copies are also
 *   sorted by expert behind the wire, and back before it           a read and a write each, either pass
 *   kept beside the gradient of the routing weights, on the way back   a read, backward
 *   padded to whole blocks of an fp8 product, and cut again           a read and a write each, either pass
 * (Megatron core: sort_chunks_by_idxs, unpermute, Fp8Padding).
 */
static void exchange_kernels(struct work *w, bool backward)
{
	const struct mq_op *op = w->op;
	double scale = fmax(w->scale.read, w->scale.write);
	double copies = fmax(op->read, op->write) * w->load, elems = fmin(op->read, op->write) + copies;

	if (!w->software->fused_experts) {
		elems += 2 * copies;
		elems += backward && op->kind == MQ_OP_COMBINE ? copies : 0;
		elems += w->fp8 ? 2 * copies : 0;
	}
	struct mq_kernel *k = add(w, MQ_KERNEL_MEMORY);
	k->bytes = elems * scale * w->size_B * w->traffic;
	k->flop = (backward ? op->flop_bwd : op->flop) * w->scale.flop;
	k->launches = op->kernels;
}

static void add_steps(struct work *w, const double mnk[3], double flop, double elems)
{
	struct mq_kernel *k = add(w, MQ_KERNEL_RECURRENT);

	k->m = mnk[0];
	k->n = mnk[1];
	k->k = mnk[2];
	k->count = 1;
	k->flop = flop;
	k->bytes = elems * w->size_B;
	k->launches = w->op->kernels;
}

/* Libraries (cuDNN) multiply the inputs of all steps by their weights at once; only the product
 * with the state of the step before is serial: m steps of [samples x hidden][hidden x n]. Backwards
 * the gradients of inputs and of all weights are single products too. Weights count once per pass,
 * as if they stayed on chip between the steps. */
static void recurrent_kernels(struct work *w, bool backward)
{
	const struct mq_op *op = w->op;
	double hidden = op->m > 0 ? fmin(op->write / op->m, op->k) : op->k;
	double inputs = op->k - hidden, part = op->k > 0 ? inputs / op->k : 0;
	double m = op->m * w->scale.rows, n = op->n * w->scale.cols;
	double flop = op->flop * w->scale.flop, in = op->read * w->scale.read;
	double gates = m * n, out = op->write * w->scale.write, weights = w->weights;

	if (backward) {
		flop = op->flop_bwd * w->scale.flop / 2;
		if (inputs > 0)
			add_gemm(w, (double[]){ m, inputs, n }, flop * part, gates + in + weights * part);
		add_gemm(w, (double[]){ op->k, n, m }, flop, gates + in + out + weights);
		add_steps(w, (double[]){ op->m, hidden, n }, flop * (1 - part),
			  2 * out + 2 * gates + weights * (1 - part));
	} else {
		if (inputs > 0)
			add_gemm(w, (double[]){ m, n, inputs }, flop * part, in + gates + weights * part);
		add_steps(w, (double[]){ op->m, n, hidden }, flop * (1 - part), 2 * gates + out + weights * (1 - part));
	}
	for (uint32_t i = 0; i < w->n; i++) /* the samples are rows, not matrices */
		w->kernel[i].count = 1;
}

static void profiled_kernel(struct work *w, const struct mq_profile *p, uint32_t id, enum mq_phase phase,
			    const char *type)
{
	const double *table = p->forward_s;
	double time_s = (double)INFINITY; /* a type that was never measured cannot run it */

	if (w->op->phase == MQ_BACKWARD) {
		if (phase != MQ_BACKWARD)
			return;
	} else if (phase == MQ_BACKWARD) {
		table = p->backward_s;
	}
	if (!table)
		return;
	for (uint32_t t = 0; t < p->n_types; t++)
		if (!strcmp(p->type[t], "*") || (type && !strcmp(p->type[t], type)))
			time_s = table[(size_t)id * p->n_types + t];
	if (time_s == 0)
		return;
	struct mq_kernel *k = add(w, MQ_KERNEL_TIMED);
	k->time_s = time_s * w->scale.rows;
	k->launches = 0;
}

/* Bytes that one optimizer step moves per parameter. The gradient is read in the type it is reduced
 * in. With 16-bit training the fp32 master and each moment are read and written and
 * the 16-bit parameter is written; from fp32 on parameter and moments are read and written. */
static double update_bytes(const struct mq_train *train, double moment_B)
{
	double size = mq_dtype_size(train->dtype), n = mq_optimizer_moments(train->optimizer);
	double grad = mq_dtype_size(train->grad_dtype);

	if (size < 4)
		return grad + size + 8 + 2 * moment_B * n;
	return grad + 2 * size + 2 * size * n;
}

static void forward_or_backward(struct work *w, bool backward)
{
	switch (w->op->kind) {
	case MQ_OP_GEMM:
	case MQ_OP_CONV:
	case MQ_OP_ROUTER:
		gemm_kernels(w, backward);
		break;
	case MQ_OP_BMM:
		bmm_kernels(w, backward);
		break;
	case MQ_OP_ATTENTION:
		(w->op->fused ? fused_attention : unfused_attention)(w, backward);
		break;
	case MQ_OP_RECURRENT:
		recurrent_kernels(w, backward);
		break;
	case MQ_OP_EMBEDDING:
		memory_kernels(w, backward, MQ_KERNEL_EMBEDDING);
		break;
	case MQ_OP_SCAN:
		memory_kernels(w, backward, MQ_KERNEL_SCAN);
		break;
	case MQ_OP_RESHAPE:
		memory_kernels(w, backward, MQ_KERNEL_COPY);
		break;
	case MQ_OP_DISPATCH:
	case MQ_OP_COMBINE:
		exchange_kernels(w, backward);
		break;
	case MQ_OP_LOSS:
		if (w->gathered && !backward)
			join_logits(w);
		memory_kernels(w, backward, MQ_KERNEL_MEMORY);
		break;
	default:
		if (w->software->fused_experts && op_of_experts(w->op))
			break;
		memory_kernels(w, backward, MQ_KERNEL_MEMORY);
		break;
	}
}

/* What is done with weights and gradients in every micro-batch, whatever its size: comes last, see
 * add_cast. */
static void param_kernel(struct work *w, double bytes)
{
	if (!(bytes > 0))
		return;
	struct mq_kernel *k = add(w, MQ_KERNEL_COPY);
	k->dtype = (uint8_t)w->dtype;
	k->bytes = bytes;
	k->launches = 1;
}

/* Bytes that the software moves in element-wise kernels / their least. Of an image network the graph has every
 * kernel that runs, unless they are joined (model_chains.h). */
static double traffic_of(const struct mq_question *q, const struct mq_software *software)
{
	if (q->model->image)
		return 1;
	return software->traffic * (mq_dtype_size(q->train->dtype) >= 4 ? software->traffic_32 : 1);
}

static void update_kernel(struct work *w, const struct mq_train *train, const struct mq_share *share)
{
	const struct mq_software *s = w->software;
	double param = mq_op_param_shard(w->op, share->split);

	if (!(param > 0))
		return;
	struct mq_kernel *k = add(w, MQ_KERNEL_OPTIMIZER);
	k->bytes = param * (update_bytes(train, s->moment_B) + s->update_B + (share->reduced ? s->reduce_B : 0));
	k->launches = s->update_calls;
}

/* Parameters that are gathered flat: each copy is written and read, the tensors are written, and the host takes them
 * apart. `bytes` is of all ranks' parts, where the optimizer's own is of one. */
static void gather_kernels(struct work *w, const struct mq_share *share)
{
	const struct mq_software *s = w->software;
	double param = mq_op_param_shard(w->op, share->split);

	if (share->shards <= 1 || !(param > 0))
		return;
	if (s->gather_copies > 0) {
		struct mq_kernel *k = add(w, MQ_KERNEL_COPY);

		k->dtype = (uint8_t)w->dtype;
		k->bytes = param * share->shards * w->size_B * 2 * s->gather_copies;
	}
	if (s->gather_us > 0)
		add(w, MQ_KERNEL_CALL)->time_s = s->gather_us * 1e-6 * share->shards;
}

/* What makes parameters of few bits whole again, where they are gathered forward and backward, and gradients into
 * few bits and back: each rank makes its parts small and sums those that it gets, as many as it has made. */
static double quantised_B(const struct work *w)
{
	const struct mq_software *s = w->software;

	return (s->gather_B > 0 ? 2 * (s->gather_B + w->size_B) : 0) + (s->wire_B > 0 ? w->size_B + 2 * s->wire_B : 0);
}

/* Bytes moved per parameter in every micro-batch: casts of weights and gradients, a sum apart from the
 * product. */
static double param_B(const struct work *w, const struct mq_share *share)
{
	return (share->gathered ? quantised_B(w) : 0) + (mq_dtype_size(w->dtype) < 4 ? w->software->cast_B : 0) +
	       (share->accumulates ? w->software->accum_B : 0);
}

/* The share with the tokens of the fullest rank's experts. What of an exchange are copies is told apart later. */
static struct mq_share loaded(const struct mq_op *op, const struct mq_share *share, double load)
{
	struct mq_share own = *share;

	if (mq_op_of_experts(op) && op->kind != MQ_OP_DISPATCH && op->kind != MQ_OP_COMBINE)
		own.samples *= load;
	return own;
}

uint32_t mq_op_kernels(const struct mq_question *q, uint32_t id, enum mq_phase phase, const struct mq_share *asked,
		       const char *type, struct mq_kernel *kernel)
{
	const struct mq_op *op = &q->model->op[id];
	const struct mq_train *train = q->train;
	double load = mq_op_of_experts(op) ? mq_expert_load(&train->experts, asked->split[MQ_DIM_EXPERT]) : 1;
	struct mq_share own = loaded(op, asked, load), *share = &own;
	const struct mq_software *software = mq_question_software(q);
	bool gathered = gathers_logits(op, software, asked);

	if (gathered)
		own.split[MQ_DIM_OUT] = 1;
	struct work w = {
		.op = op,
		.scale = scale_of(op, share),
		.size_B = mq_dtype_size(train->dtype),
		.blank = { .op = id,
			   .phase = (uint8_t)phase,
			   .dtype = (uint8_t)train->dtype,
			   .causal = op->causal,
			   .graphed = mq_software_graphs(software, q->model, id) },
		.dtype = train->dtype,
		.software = software,
		.model = q->model,
		.traffic = traffic_of(q, software),
		.fp8 = mq_train_casts(train),
		.mx = train->mx,
		.strips = mq_degree(share->split, MQ_DIM_SPATIAL),
		.load = load,
		.documents = train->documents.work > 0 ? train->documents.work : 1,
		.gathered = gathered,
		.ring = share->remote ? mq_degree(share->split, MQ_DIM_SEQ) : 0,
		.kernel = kernel,
	};

	if (mq_train_casts(train) && op->kind == MQ_OP_GEMM && op->layer != MQ_NONE) {
		w.cast_B = mq_software_cast_B(software, train);
		w.blank.dtype = (uint8_t)train->products;
	} else if (mq_train_casts(train) && op->kind == MQ_OP_ATTENTION && software->fp8_attention) {
		w.cast_B = train->mx ? software->mxfp8_cast_B : software->fp8_cast_B;
	}
	if (op->kind == MQ_OP_INPUT || (train->infer && phase != MQ_FORWARD))
		return 0;
	if (phase == MQ_UPDATE) {
		update_kernel(&w, train, share);
		gather_kernels(&w, share);
		return w.n;
	}
	if (share->samples <= 0)
		return 0;
	if (op->kind == MQ_OP_PROFILED) {
		profiled_kernel(&w, &q->model->profile, id, phase, type);
		return w.n;
	}
	if (is_gemm(op) || op->kind == MQ_OP_RECURRENT) {
		struct mq_op with = *op; /* a tied op multiplies with weights it does not own */

		with.param = fmax(op->param, op->k * op->n * (op->count > 0 ? op->count : 1));
		w.weights = mq_op_param_shard(&with, share->split);
	} else if (op->kind != MQ_OP_EMBEDDING) { /* which reads only the rows it looks up */
		w.weights = mq_op_param_shard(op, share->split);
	}
	forward_or_backward(&w, phase == MQ_BACKWARD);
	if (phase == MQ_BACKWARD)
		param_kernel(&w, mq_op_param_shard(op, share->split) * param_B(&w, share) + op->fixed_bwd * w.size_B);
	return w.n;
}
