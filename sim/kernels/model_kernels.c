/* model_kernels.c - what one device does for a split op: its kernels, parameters, kept activations.
 *
 * With S samples and degrees q (seq), p (spatial), e (expert), h (head), o (out), i (in), the rows of an op's GEMM view
 * are m S / (q p). What else a split divides:
 *   GEMM, CONV, ROUTER  o, h: columns n, parameters, write. i: depth k, weights (not the bias),
 *                       read. e: the number of expert matrices `count`, and with it everything.
 *                       In a grouped convolution o divides the groups, and so the read too.
 *   ATTENTION           h: `count`. q: the queries; the keys stay whole, since ring attention passes every
 *                       block of keys and values to every rank. `keys` of the share selects the first
 *                       step (this rank's keys) or, with `remote`, all later steps together.
 *   EMBEDDING           i: the rows on this rank (the output is a partial sum); o: the width.
 *   all others          o, h, e: everything.
 * The degree e divides the experts of a group; `samples` are then all samples of that group, so each device computes
 * 1/e of the group's tokens, as many as before the all-to-all; with uneven routing, those of the fullest rank
 * (experts.h).
 *
 * Backward of Y = X W: dX = dY W' is [m x n][n x k], dW = X' dY is [k x m][m x n]. A convolution's dX is a GEMM too:
 * its window gathers dY, [m x n window][n window x k / window]. An op with backward FLOPs of at most 1.5 times the
 * forward ones (its input needs no gradient) has dW alone, an op with frozen weights dX alone, one without backward
 * FLOPs neither. Unfused attention is S = Q K' (batched), a memory-bound softmax with dropout, O = P V; backward two
 * batched GEMMs for each of the two. Fused attention counts 2x the forward FLOPs backward: recomputing the scores
 * inside the kernel is part of its efficiency, not of the model FLOPs.
 *
 * Frozen quantized weights are dequantized before each GEMM that cannot read them (mq_op_dequantizes). An adapter
 * (LoRA) multiplies in the training data type. NeMo's ParallelLinearAdapter and PEFT also run dropout of its input,
 * with a mask of a byte; a scaling of its output as a separate pass; the sum with the adapted output; and backward the
 * sum of the two gradients of that input.
 *
 * If layers multiply in fp8 or fp4, each pass first casts its new operands: forward the input and those weights that
 * are cast for every GEMM (casts_once), backward the output's gradient (it reuses the copies of the forward pass).
 *
 * platforms/kernels/parts.csv lists what a framework moves beyond the one fused kernel that an op counts (norms,
 * dropout, activations, biases, stored scores, copies of heads); fields of the software select the implementation.
 *
 * RECURRENT: m steps of a GEMM [samples x k][k x n]; see recurrent_kernels.
 *
 * Not modelled: padding of uneven shares (they are fractions). SPDX-License-Identifier: Apache-2.0 */

#include <math.h>
#include <string.h>

#include "kernels/model_chains.h"
#include "kernels/model_work.h"

/* Host time to cast one expert's operand in the library's loop, in launches: each round makes two Python objects, the
 * tensor and a copy of its quantizer (Transformer Engine's bulk_allocate_mxfp8_tensors). Fitted to four host-bound rows
 * of NeMo on B200. */
#define LOOPED_CAST 2.5

static void add_bias(struct mq_op_work *w, bool backward)
{
	const struct mq_op *op = w->op;

	if (!(op->param > op->k * op->n * fmax(op->count, 1)))
		return;
	if (op->kind == MQ_OP_GEMM)
		mq_work_as(w, MQ_PART_BIAS, w->software->bias, op->write * w->scale.write, backward);
	else if (op->kind == MQ_OP_CONV && w->software->aten_image_kernels)
		mq_work_made(w, MQ_PART_BIAS, MQ_MAKE_NATIVE, op->write * w->scale.write, backward);
}

static uint32_t modules_of(const struct mq_op_work *w)
{
	return mq_software_modules(w->software, w->model, w->blank.op);
}

/* Does a GEMM read the residual stream through a norm, or an activation of its type? */
static bool reads_stream(const struct mq_op_work *w)
{
	const struct mq_model *m = w->model;
	uint32_t first = m->in_first[w->blank.op];

	if (m->image || w->op->kind != MQ_OP_GEMM || first == m->in_first[w->blank.op + 1])
		return false;
	const struct mq_op *from = &m->op[m->edge[m->in_edge[first]].src];
	return from->kind == MQ_OP_NORM || (from->gelu && w->software->unfused_gelu);
}

/* A pass over `elems` elements that reads and writes each so often. */
static void add_pass(struct mq_op_work *w, double elems, double bytes_each)
{
	mq_work_pass(w, MQ_KERNEL_MEMORY, elems * bytes_each, mq_work_calls(w));
}

static void add_adapter(struct mq_op_work *w, bool backward)
{
	const struct mq_op *op = w->op;
	double read = op->read * w->scale.read, size_B = w->size_B;

	if (op->adapter == MQ_ADAPTER_IN && op->dropout)
		add_pass(w, read, 2 * size_B + 1);
	if (op->adapter == MQ_ADAPTER_IN && backward && op->flop_bwd > 1.5 * op->flop)
		add_pass(w, read, 3 * size_B);
	if (op->adapter == MQ_ADAPTER_OUT)
		add_pass(w, op->write * w->scale.write, 2 * size_B);
}

static void dequantize(struct mq_op_work *w)
{
	if (w->dequantized_B)
		mq_work_pass(w, MQ_KERNEL_COPY, w->weights * w->dequantized_B, modules_of(w) * mq_work_calls(w));
}

/* Whose kernels run a depthwise convolution: in PyTorch (use_cudnn_depthwise, Convolution.cpp) cuDNN's channels last
 * and, for most shapes, in fp16, else its own; TensorFlow's channels last, or first. */
static enum mq_make depthwise_make(const struct mq_op_work *w)
{
	bool first = mq_channels_first(w->model, w->software, w->dtype);

	if (!w->software->aten_image_kernels)
		return first ? MQ_MAKE_XLA : MQ_MAKE_TENSORFLOW;
	return !first ? MQ_MAKE_FUSED : w->dtype == MQ_FP16 ? MQ_MAKE_FUSED_OLD : MQ_MAKE_NATIVE;
}

/* Counts the tensor that a convolution reads right after it was written, which the L2 may still hold: forward its
 * input, backward its output's gradient; and the instructions of a depthwise one, which has a filter per channel. */
static void hand_over(struct mq_op_work *w, double elems)
{
	struct mq_kernel *k = &w->kernel[w->n - 1];

	if (k->kind != MQ_KERNEL_CONV)
		return;
	k->reuse_B = k->handed_B = elems * w->size_B;
	if (w->op->n != 1 || w->op->k != w->op->window)
		return;
	const struct mq_part_kernels *own = mq_part_kernels(w->libraries, MQ_PART_DEPTHWISE, depthwise_make(w));
	k->work = k->flop / 2 * (k->phase == MQ_BACKWARD ? own->backward : own->forward)[k->of_weights].work;
}

static void gemm_kernels(struct mq_op_work *w, bool backward)
{
	const struct mq_op *op = w->op;
	double m = op->m * w->scale.rows, n = op->n * w->scale.cols, k = op->k * w->scale.depth;
	double elems = op->read * w->scale.read + op->write * w->scale.write + w->weights;
	double window = op->window > 0 ? op->window : 1;
	uint32_t modules = modules_of(w);

	if (!backward) {
		mq_work_gemm(w, (double[]){ m, n, k }, op->flop * w->scale.flop, elems);
		w->kernel[w->n - 1].launches += (modules - 1) + (w->in_parts[MQ_FORWARD] ? 2 : 0);
		hand_over(w, op->read * w->scale.read);
		add_bias(w, backward);
		if (reads_stream(w))
			mq_work_inputs(w, op->read * w->scale.read, modules, backward);
		add_adapter(w, backward);
		dequantize(w);
		mq_work_cast(w, op->read * w->scale.read + (w->ready ? 0 : w->weights), w->ready ? 1 : 2);
		return;
	}
	if (op->flop_bwd <= 0) /* neither its input nor its weights get a gradient */
		return;
	bool frozen = op->frozen != MQ_TRAINED;
	double flop = op->flop_bwd * w->scale.flop;
	if (op->flop_bwd > 1.5 * op->flop || frozen) {
		flop /= frozen ? 1 : 2;
		mq_work_gemm(w, (double[]){ m, k / window, n * window }, flop, elems);
		w->kernel[w->n - 1].of_input = op->kind == MQ_OP_CONV;
		hand_over(w, op->write * w->scale.write);
		w->kernel[w->n - 1].launches += (modules - 1) + (w->in_parts[MQ_BACKWARD] ? 2 : 0);
	}
	if (!frozen) {
		mq_work_gemm(w, (double[]){ k, n, m }, flop, elems);
		w->kernel[w->n - 1].of_weights = true;
		hand_over(w, op->write * w->scale.write);
		w->kernel[w->n - 1].launches += modules - 1;
		add_bias(w, backward);
		add_adapter(w, backward);
	}
	if (w->ready && w->software->disable_parameter_transpose_cache)
		add_pass(w, w->weights, 2 * mq_dtype_size(w->blank.dtype));
	dequantize(w);
	if (reads_stream(w))
		mq_work_inputs(w, op->read * w->scale.read, modules, backward);
	mq_work_cast(w, op->write * w->scale.write, 1);
}

static void bmm_kernels(struct mq_op_work *w, bool backward)
{
	const struct mq_op *op = w->op;
	double m = op->m * w->scale.rows, n = op->n * w->scale.cols, k = op->k;
	double elems = op->read * w->scale.read + op->write * w->scale.write;

	if (!backward) {
		mq_work_gemm(w, (double[]){ m, n, k }, op->flop * w->scale.flop, elems);
		return;
	}
	double flop = op->flop_bwd * w->scale.flop / 2;
	mq_work_gemm(w, (double[]){ m, k, n }, flop, elems);
	mq_work_gemm(w, (double[]){ k, n, m }, flop, elems);
	w->kernel[w->n - 1].of_weights = true;
}

/* The part of the kernel table that a norm or element-wise op is, and its implementation; MQ_N_PARTS: none. */
static enum mq_part part_of(const struct mq_op_work *w, uint32_t *fusion)
{
	const struct mq_op *op = w->op;
	const struct mq_software *sw = w->software;

	*fusion = op->kind == MQ_OP_NORM ? sw->norm : op->gated || op->gelu ? sw->activation : sw->dropout;
	if (op->kind == MQ_OP_NORM)
		return op->rms ? MQ_PART_RMS : MQ_PART_LAYER_NORM;
	return op->gated ? MQ_PART_GATE : op->gelu ? MQ_PART_GELU : op->dropout ? MQ_PART_DROPOUT_ADD : MQ_N_PARTS;
}

/* Does the op add a branch to the residual stream? */
static bool adds_to_stream(const struct mq_op *op)
{
	return op->kind == MQ_OP_ELEMENTWISE && !op->gated && !op->gelu && !op->adapter && op->layer != MQ_NONE &&
	       op->read == 2 * op->output;
}

/* Instructions of PyTorch's pooling kernels, which visit each element of each window, a FLOP of the op each; a global
 * pool is a sum over rows. */
static double pool_work(const struct mq_op_work *w, bool backward)
{
	enum { WHOLE = 16 };
	const struct mq_op *op = w->op;

	if (op->kind != MQ_OP_POOL || !w->software->aten_image_kernels || op->read > WHOLE * op->output)
		return 0;
	return op->read * w->scale.read * mq_part_work(w->libraries, MQ_PART_POOL, MQ_MAKE_NATIVE, backward) +
	       op->flop * w->scale.flop * mq_part_work(w->libraries, MQ_PART_POOL_TAP, MQ_MAKE_NATIVE, backward);
}

/* Bytes that a max pool moves beyond its op's, which counts half an element for each output's place of the maximum:
 * PyTorch writes and reads the place in 8 bytes; cuDNN writes none, and looks for it again in input and output. */
static double pool_more_B(const struct mq_op_work *w, bool backward)
{
	enum { INDEX_B = 8 };
	const struct mq_op *op = w->op;
	double outputs = op->masks * w->scale.write, counted_B = outputs * w->size_B / 2;

	if (op->kind != MQ_OP_POOL || !(op->masks > 0))
		return 0;
	if (w->software->aten_image_kernels)
		return outputs * INDEX_B - counted_B;
	return (backward ? (op->read * w->scale.read + outputs) * w->size_B : 0) - counted_B;
}

/* Appends what the framework moves beyond the fused kernel that a norm or element-wise op counts. */
static void add_framework(struct mq_op_work *w, bool backward)
{
	double elems = w->op->output * w->scale.write;
	uint32_t fusion;
	enum mq_part part = part_of(w, &fusion);

	if (w->model->image)
		return;
	if (w->stream != w->dtype && adds_to_stream(w->op))
		mq_work_made(w, w->op->dropout ? MQ_PART_DROPOUT_ADD : MQ_PART_ADD, MQ_MAKE_AUTOCAST, elems, backward);
	else if (part == MQ_PART_LAYER_NORM && fusion == MQ_EAGER)
		mq_work_made(w, part, MQ_MAKE_NATIVE, elems, backward);
	else if (part == MQ_PART_GELU && w->software->unfused_gelu)
		mq_work_made(w, part, MQ_MAKE_COMPOSITE, elems, backward);
	else if (part != MQ_N_PARTS)
		mq_work_as(w, part, fusion, elems, backward);
}

/* Number of kernels of a fused norm or element-wise op, from the table, which also has those that sum the gradients of
 * a norm's weights. */
static double least_launches(const struct mq_op_work *w, bool backward)
{
	uint32_t fusion;
	enum mq_part part = part_of(w, &fusion);
	const struct mq_part_kernels *fused =
		part == MQ_N_PARTS ? NULL : mq_part_kernels(w->libraries, part, MQ_MAKE_FUSED);

	if (w->model->image || !fused)
		return w->op->kernels;
	struct mq_part_sum sum = mq_part_sum(backward ? fused->backward : fused->forward, w->dtype);
	return sum.streamed.launches + sum.worked.launches;
}

/* Bytes of an element-wise op / the bytes that it counts; a loss counts 6 elements per logit over both passes. Software
 * fields give the bytes in 16 bits; 32 bits save two casts of 6 bytes. */
static double more_moved(const struct mq_op_work *w)
{
	enum { ELEMENTS = 6, CASTS_B = 12 };
	double moved_B = w->software->loss_moved_B;

	if (w->op->adapter) /* counted already, never fused */
		return 1;
	if (w->op->kind != MQ_OP_LOSS || w->model->image)
		return w->traffic;
	if (w->size_B >= 4)
		return fmax(1, (moved_B - CASTS_B) / (ELEMENTS * w->size_B));
	return moved_B / (ELEMENTS * w->size_B);
}

/* Counts what the L2 may still hold in image networks. Forward, a norm reads its input twice, for the statistics and to
 * normalize; backward it reads its input and the gradient twice, the input first from memory. Norms without statistics
 * of the batch (frozen ones) and element-wise ops read once what the op before wrote. Not modelled: transformers, whose
 * kernels are from a table. */
static void add_rereads(const struct mq_op_work *w, bool backward, struct mq_kernel *k)
{
	const struct mq_op *op = w->op;
	bool twice = op->kind == MQ_OP_NORM && (backward ? op->moved_bwd > 3 * op->output : op->read > op->output);

	if (!w->model->image || (op->kind != MQ_OP_NORM && op->kind != MQ_OP_ELEMENTWISE))
		return;
	k->reuse_B = op->output * w->scale.write * w->size_B;
	k->reread_B = twice && !backward ? k->reuse_B : 0;
	k->handed_B = (twice && backward ? 3 : 1) * k->reuse_B;
}

/* Channels last, PyTorch's batch norms go over 256 pixels of 32 channels (or the power of two below) in a block, in at
 * most 128 blocks for each channel (flexible_launch_configs, Normalization.cuh); a thread loads four pixels at once, so
 * that two blocks keep an SM as busy as four of other kernels. Lanes beyond the last channel idle. */
static void spread_norm(struct mq_op_work *w)
{
	enum { LANES = 32, PIXELS = 256, MOST = 128, AHEAD = 2 };
	double channels = fmax(1, w->op->extent[MQ_DIM_OUT]), wide = fmin(LANES, exp2(floor(log2(channels))));
	double columns = ceil(channels / wide), pixels = w->op->output * w->scale.write / channels;

	for (uint32_t i = 0; i < w->n; i++) {
		w->kernel[i].blocks = AHEAD * columns * fmin(MOST, ceil(pixels / PIXELS));
		w->kernel[i].work *= columns * wide / channels;
	}
}

/* Adds PyTorch's kernels of image networks: of batch norms in bf16 (else cuDNN's), and of products with a number for
 * each channel, the small one of two inputs. false: it is neither. */
static bool add_listed(struct mq_op_work *w, bool backward)
{
	const struct mq_op *op = w->op;
	bool first = mq_channels_first(w->model, w->software, w->dtype), scales = false;

	MQ_EACH_IN(w->model, w->blank.op, e)
		scales = scales ||
			 (op->kind == MQ_OP_ELEMENTWISE && e->elems < op->output && op->moved_bwd > 4 * op->output);
	if (!w->model->image || !w->software->aten_image_kernels ||
	    !(scales || (op->kind == MQ_OP_NORM && w->dtype == MQ_BF16)))
		return false;
	mq_work_made(w, scales ? MQ_PART_CHANNEL_SCALE : MQ_PART_BATCH_NORM, first ? MQ_MAKE_APART : MQ_MAKE_NATIVE,
		     op->output * w->scale.write, backward);
	if (!scales && !first)
		spread_norm(w);
	return true;
}

static void memory_kernels(struct mq_op_work *w, bool backward, enum mq_kernel_kind kind)
{
	const struct mq_op *op = w->op;
	double elems = backward ? op->moved_bwd * fmax(w->scale.read, w->scale.write) :
				  op->read * w->scale.read + op->write * w->scale.write;
	double flop = (backward ? op->flop_bwd : op->flop) * w->scale.flop;
	double less = mq_chain_spares(w->model, w->blank.op, w->software, w->dtype, backward) *
		      (backward ? fmax(w->scale.read, w->scale.write) : w->scale.write);

	if (op->host_flop > 0 && !backward)
		mq_work_add(w, MQ_KERNEL_TIMED)->time_s = op->host_flop / MQ_HOST_FLOPS;
	if ((elems <= 0 && flop <= 0) || (less > 0 && less >= elems))
		return;
	elems -= less;
	if (add_listed(w, backward))
		return;
	if (op->silu && !backward && w->model->image && w->software->aten_image_kernels) /* in place, of a copy */
		add_pass(w, op->write * w->scale.write, 2 * w->size_B);
	struct mq_kernel *k = mq_work_add(w, kind);
	k->bytes = (elems + w->weights) * w->size_B * (kind == MQ_KERNEL_MEMORY ? more_moved(w) : 1);
	k->bytes += pool_more_B(w, backward);
	k->work = pool_work(w, backward);
	if (!(less > 0))
		add_rereads(w, backward, k);
	k->flop = flop;
	k->launches = least_launches(w, backward) * mq_work_calls(w);
	k->n = op->kind == MQ_OP_NORM || op->kind == MQ_OP_EMBEDDING ? w->model->hidden : 0;
	if (op->gated && w->software->activation_func_fp8_input_store)
		add_pass(w, op->read * w->scale.read, w->size_B + 1); /* cast to fp8, or back */
	add_framework(w, backward);
}

/* Permutation of tokens for experts and back. Each pass reads or writes each token once and each copy once. Unless one
 * fused kernel runs exchange and experts, copies are also
 *   sorted by expert after the exchange, and back before the next      a read and a write each, in both passes
 *   read again for the gradient of the routing weights                 a read, backward, on the way back
 *   padded to whole blocks of an fp8 GEMM, and unpadded                a read and a write each, in both passes
 * (Megatron core: sort_chunks_by_idxs, unpermute, Fp8Padding).
 * Eager experts instead find their tokens by a mask, each: a cast, nonzero (3 kernels) and the gather, then nonzero and
 * the scatter into all tokens. Backward the gradient of all tokens is copied and the expert's part cleared and gathered
 * (4 kernels); the gather's is scattered by sorting (8) into zeros and added to the other experts'. Those go over all
 * tokens for each expert (transformers 4.38, SwitchTransformersSparseMLP, on PyTorch 2's autograd). */
static void exchange_kernels(struct mq_op_work *w, bool backward)
{
	enum { FOUND = 5, PUT = 4, PUT_BACK = 4, FOUND_BACK = 10, COPIED = 2, ADDED = 4 };
	const struct mq_op *op = w->op;
	double scale = fmax(w->scale.read, w->scale.write);
	bool out = op->kind == MQ_OP_DISPATCH;
	double tokens = out ? op->read : op->write, copies = (out ? op->write : op->read) * w->load;
	double elems = tokens + copies, looped = 0;

	if (w->software->eager_experts) {
		looped = w->model->experts * w->scale.count;
		elems += backward ? tokens * looped * (out ? ADDED : COPIED) : 0;
		looped *= backward ? out ? FOUND_BACK : PUT_BACK : out ? FOUND : PUT;
	} else if (!w->software->fused_experts) {
		elems += 2 * copies;
		elems += backward && op->kind == MQ_OP_COMBINE ? copies : 0;
		elems += w->fp8 ? 2 * copies : 0;
	}
	struct mq_kernel *k = mq_work_add(w, MQ_KERNEL_MEMORY);
	k->bytes = elems * scale * w->size_B * w->traffic;
	k->flop = (backward ? op->flop_bwd : op->flop) * w->scale.flop;
	k->launches = op->kernels + looped;
}

static void add_steps(struct mq_op_work *w, const double mnk[3], double flop, double elems)
{
	struct mq_kernel *k = mq_work_add(w, MQ_KERNEL_RECURRENT);

	k->m = mnk[0];
	k->n = mnk[1];
	k->k = mnk[2];
	k->count = 1;
	k->flop = flop;
	k->bytes = elems * w->size_B;
	k->launches = w->op->kernels;
}

/* cuDNN multiplies the inputs of all steps by their weights in one GEMM; only the GEMM with the previous step's state
 * is serial: m steps of [samples x hidden][hidden x n]. Backward the gradients of inputs and of all weights are single
 * GEMMs too. Weights are read once per pass, as if they stayed on chip between steps. */
static void recurrent_kernels(struct mq_op_work *w, bool backward)
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
			mq_work_gemm(w, (double[]){ m, inputs, n }, flop * part, gates + in + weights * part);
		mq_work_gemm(w, (double[]){ op->k, n, m }, flop, gates + in + out + weights);
		add_steps(w, (double[]){ op->m, hidden, n }, flop * (1 - part),
			  2 * out + 2 * gates + weights * (1 - part));
	} else {
		if (inputs > 0)
			mq_work_gemm(w, (double[]){ m, n, inputs }, flop * part, in + gates + weights * part);
		add_steps(w, (double[]){ op->m, n, hidden }, flop * (1 - part), 2 * gates + out + weights * (1 - part));
	}
	for (uint32_t i = 0; i < w->n; i++) /* samples are rows here, not matrices */
		w->kernel[i].count = 1;
}

static void profiled_kernel(struct mq_op_work *w, const struct mq_profile *p, uint32_t id, enum mq_phase phase,
			    const char *type)
{
	const double *table = p->forward_s;
	double time_s = (double)INFINITY; /* a device type without a measurement cannot run the op */

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
	struct mq_kernel *k = mq_work_add(w, MQ_KERNEL_TIMED);
	k->time_s = time_s * w->scale.rows;
	k->launches = 0;
}

/* Bytes that one optimizer step moves per parameter. It reads the gradient in the type of its reduction. In 16-bit
 * training it reads and writes the master copy and each moment and writes the 16-bit parameter; in fp32, or without a
 * master copy, it reads and writes the parameter and the moments. */
static double update_bytes(const struct mq_train *train, double master_B, double moment_B)
{
	double size = mq_dtype_size(train->dtype), n = mq_optimizer_moments(train->optimizer);
	double grad = mq_dtype_size(train->grad_dtype);

	if (size < 4)
		return grad + (master_B > 0 ? 1 : 2) * size + 2 * master_B + 2 * moment_B * n;
	return grad + 2 * size + 2 * size * n;
}

static void forward_or_backward(struct mq_op_work *w, bool backward)
{
	enum mq_op_kind kind = w->op->kind;

	switch (kind) {
	case MQ_OP_GEMM:
	case MQ_OP_CONV:
	case MQ_OP_ROUTER:
		gemm_kernels(w, backward);
		return;
	case MQ_OP_BMM:
		bmm_kernels(w, backward);
		return;
	case MQ_OP_ATTENTION:
		mq_work_attention(w, backward);
		return;
	case MQ_OP_RECURRENT:
		recurrent_kernels(w, backward);
		return;
	case MQ_OP_DISPATCH:
	case MQ_OP_COMBINE:
		exchange_kernels(w, backward);
		return;
	default:
		break;
	}
	if (w->gathered && !backward) /* copy of the gathered buffer to one tensor per rank, then their concatenation */
		mq_work_pass(w, MQ_KERNEL_COPY, 2 * 2 * w->op->read * w->scale.read * w->size_B, 2);
	if (!w->software->fused_experts || kind != MQ_OP_ELEMENTWISE || !mq_op_of_experts(w->op))
		memory_kernels(w, backward,
			       kind == MQ_OP_EMBEDDING ? MQ_KERNEL_EMBEDDING :
			       kind == MQ_OP_SCAN      ? MQ_KERNEL_SCAN :
			       kind == MQ_OP_RESHAPE   ? MQ_KERNEL_COPY :
							 MQ_KERNEL_MEMORY);
}

/* Appends the kernels on weights and gradients of every micro-batch, whatever its size; last, see mq_work_cast. */
static void param_kernel(struct mq_op_work *w, double bytes)
{
	if (!(bytes > 0) || w->op->frozen != MQ_TRAINED)
		return;
	bool casts = w->stream != w->dtype && w->op->kind == MQ_OP_GEMM, biased = w->op->param > w->op->k * w->op->n;
	/* to and from, for weights and biases */
	mq_work_pass(w, MQ_KERNEL_COPY, bytes, casts ? 2 * modules_of(w) * (biased ? 2 : 1) : 1);
}

static void update_kernel(struct mq_op_work *w, const struct mq_train *train, const struct mq_share *share)
{
	const struct mq_software *s = w->software;
	double param = mq_op_param_shard(w->op, share->split);

	if (!mq_op_trained(w->op) || train->optimizer == MQ_OPTIMIZER_NONE)
		return;
	struct mq_kernel *k = mq_work_add(w, MQ_KERNEL_OPTIMIZER);
	k->bytes = param * (update_bytes(train, s->master_B, s->moment_B) + s->update_B +
			    (share->reduced ? s->reduce_B : 0) + s->grads_B * (share->shards > 1 ? share->shards : 1));
	k->launches = (s->optimizer_kernels + (share->reduced ? s->reduce_kernels : 0)) * modules_of(w);
	k->awaited = s->optimizer_waits;
	k->listed = s->foreach;
}

/* Parameters that are gathered into a flat buffer: the buffer is written and read, the tensors are written, and the
 * host splits them. `bytes` counts the shards of all ranks; the optimizer's own traffic counts one shard. */
static void gather_kernels(struct mq_op_work *w, const struct mq_share *share)
{
	const struct mq_software *s = w->software;
	double param = mq_op_param_shard(w->op, share->split);

	if (share->shards <= 1 || !mq_op_trained(w->op))
		return;
	if (s->allgather_flat_copies > 0)
		mq_work_pass(w, MQ_KERNEL_COPY, param * share->shards * w->size_B * 2 * s->allgather_flat_copies, 0);
	if (s->unflatten_us > 0)
		mq_work_add(w, MQ_KERNEL_CALL)->time_s = s->unflatten_us * 1e-6 * share->shards;
}

/* Bytes moved per parameter in every micro-batch: casts of weights and gradients; accumulation outside the GEMM;
 * dequantization of parameters that are gathered quantized, forward and backward; quantization and dequantization of
 * gradients (each rank quantizes its parts and sums those it receives, as many as it sent). */
static double param_B(const struct mq_op_work *w, const struct mq_share *share)
{
	const struct mq_software *s = w->software;
	double bytes = (w->size_B < 4 ? s->cast_B : 0) + (share->accumulates ? s->accum_B : 0);

	if (share->gathered && s->zero_quantized_weights_B > 0)
		bytes += 2 * (s->zero_quantized_weights_B + w->size_B);
	if (share->gathered && s->zero_quantized_gradients_B > 0)
		bytes += w->size_B + 2 * s->zero_quantized_gradients_B;
	return bytes;
}

/* The share with the tokens of the fullest rank's experts. What of an exchange are copies is told apart later. */
static struct mq_share loaded(const struct mq_op *op, const struct mq_share *share, double load)
{
	struct mq_share own = *share;

	if (mq_op_of_experts(op) && op->kind != MQ_OP_DISPATCH && op->kind != MQ_OP_COMBINE)
		own.samples *= load;
	return own;
}

/* Quantized copies of weights are kept over micro-batches (is_first_microbatch, which Megatron core's schedules set for
 * frozen weights too): they are made once a step from all ranks' parameters, counted with the update. Frozen quantized
 * weights are such copies, or are dequantized for each GEMM. Weights stored in fp8 alone (fp8_params) are cast by each
 * rank's optimizer and gathered as such; each rank then transposes them (read 1, write 1). Blackwell's GEMMs need no
 * transpose; the model counts it all the same. */
static bool casts_once(const struct mq_op_work *w, const struct mq_train *train, const struct mq_share *share)
{
	const struct mq_software *s = w->software;

	return !train->infer && s->save_quantized_operands && !s->quantize_weights_again &&
	       !s->disable_parameter_transpose_cache && !share->gathered && w->op->param > 0 &&
	       w->op->frozen <= MQ_FROZEN_AS_DTYPE;
}

uint32_t mq_op_kernels(const struct mq_question *q, uint32_t id, enum mq_phase phase, const struct mq_share *asked,
		       const char *type, struct mq_kernel *kernel)
{
	const struct mq_op *op = &q->model->op[id];
	const struct mq_train *train = q->train;
	double load = mq_op_of_experts(op) ? mq_expert_load(&train->experts, asked->split[MQ_DIM_EXPERT]) : 1;
	struct mq_share own = loaded(op, asked, load), *share = &own;
	const struct mq_software *software = mq_question_software(q);
	/* ranks that hold a part of the vocabulary each */
	bool gathered = op->kind == MQ_OP_LOSS && software->gather_logits && asked->split[MQ_DIM_OUT] > 1;

	if (gathered)
		own.split[MQ_DIM_OUT] = 1;
	struct mq_op_work w = {
		.op = op,
		.scale = mq_op_scale_of(op, share),
		.size_B = mq_dtype_size(train->dtype),
		.blank = { .op = id,
			   .phase = (uint8_t)phase,
			   .dtype = (uint8_t)train->dtype,
			   .causal = op->causal,
			   .graphed = mq_software_graphs(software, q->model, id) },
		.dtype = train->dtype,
		.stream = q->model->image ? train->dtype : mq_software_stream(software, train->dtype),
		.software = software,
		.libraries = q->calib->libraries,
		.model = q->model,
		.traffic = q->model->image ? 1 : software->traffic, /* an image graph has every kernel */
		.fp8 = mq_train_casts(train) && op->own_gemm != 1 + MQ_GEMM_AS_DTYPE,
		.mx = train->gemm_dtype == MQ_GEMM_MXFP8,
		.strips = mq_degree(share->split, MQ_DIM_SPATIAL),
		.load = load,
		.documents = train->sequence_packing.work > 0 ? train->sequence_packing.work : 1,
		.gathered = gathered,
		.exchanged = share->exchanged,
		.ring = share->remote ? mq_degree(share->split, MQ_DIM_SEQ) : 0,
		.kernel = kernel,
	};

	if (software->split_allgather_gemm && software->sequence_parallel && op->kind == MQ_OP_GEMM) {
		w.in_parts[MQ_FORWARD] = share->split[MQ_DIM_OUT] > 1 || share->split[MQ_DIM_HEAD] > 1;
		w.in_parts[MQ_BACKWARD] = share->split[MQ_DIM_IN] > 1;
	}
	const enum mq_gemm_dtype gemm = mq_op_gemm_dtype(op, train);
	const bool cast_once = casts_once(&w, train, share);
	w.ready = cast_once || (op->frozen > MQ_FROZEN_AS_DTYPE && !mq_op_dequantizes(op, train));
	w.dequantized_B = mq_op_dequantizes(op, train) ? mq_op_param_B(op, train) + w.size_B : 0;
	if (gemm != MQ_GEMM_AS_DTYPE) {
		w.cast_B = mq_software_cast_B(software, gemm);
		w.blank.dtype = (uint8_t)mq_operand_dtype(gemm, train->dtype);
		w.blank.scaling = gemm == MQ_GEMM_MXFP8 ? MQ_SCALING_MX :
				  gemm == MQ_GEMM_FP4   ? MQ_SCALING_NV :
							  MQ_SCALING_TENSOR;
	} else if (w.fp8 && op->kind == MQ_OP_ATTENTION && software->fp8_attention) {
		w.cast_B = train->gemm_dtype == MQ_GEMM_MXFP8 ? software->mxfp8_cast_B : software->fp8_cast_B;
	}
	if (op->kind == MQ_OP_INPUT || (train->infer && phase != MQ_FORWARD))
		return 0;
	if (phase == MQ_UPDATE) {
		update_kernel(&w, train, share);
		gather_kernels(&w, share);
		if (software->fp8_params && train->gemm_dtype == MQ_GEMM_FP8 && op->frozen == MQ_TRAINED)
			w.cast_B = fmin(w.cast_B, 2);
		if (cast_once)
			mq_work_cast(&w, mq_op_param_shard(op, share->split) * fmax(share->shards, 1), 1);
		return w.n;
	}
	if (share->samples <= 0)
		return 0;
	if (op->kind == MQ_OP_PROFILED) {
		profiled_kernel(&w, &q->model->profile, id, phase, type);
		return w.n;
	}
	if (op->kind == MQ_OP_GEMM || op->kind == MQ_OP_CONV || op->kind == MQ_OP_ROUTER ||
	    op->kind == MQ_OP_RECURRENT) {
		struct mq_op with = *op; /* a tied op multiplies by weights of another op */

		with.param = fmax(op->param, op->k * op->n * (op->count > 0 ? op->count : 1));
		w.weights = mq_op_param_shard(&with, share->split);
	} else if (op->kind != MQ_OP_EMBEDDING) { /* an embedding reads only the rows it looks up */
		w.weights = mq_op_param_shard(op, share->split);
	}
	if (phase == MQ_BACKWARD && !mq_op_goes_back(op))
		return 0;
	forward_or_backward(&w, phase == MQ_BACKWARD);
	if (phase == MQ_BACKWARD)
		param_kernel(&w, mq_op_param_shard(op, share->split) * param_B(&w, share) + op->fixed_bwd * w.size_B);
	double calls = software->looped_experts && mq_op_of_experts(op) ? mq_work_calls(&w) : 1;
	for (uint32_t i = 0; i < w.n; i++) {
		double cost = kernel[i].kind == MQ_KERNEL_GEMM ? 1 : LOOPED_CAST, host = software->host;

		kernel[i].looped = kernel[i].launches >= calls && host > cost ?
					   kernel[i].launches * (1 - 1 / calls) * (host - cost) / (host - 1) :
					   0;
	}
	return w.n;
}
