/* footprint.c - see footprint.h.
 *
 * Parameters, gradients, optimizer state: mixed-precision Adam holds an fp32 master copy and two moments, so 16 bytes
 * per parameter with 16-bit gradients and 18 with fp32 ones (Rajbhandari et al. 2020), each divided by its ZeRO shards.
 * Software that needs fp32 gradients (`grads_twice`) copies 16-bit gradients to fp32 for the step, 4 bytes per
 * parameter, sharded as the optimizer: Megatron-LM's table of its distributed optimizer over d ranks has 4 + 16/d bytes
 * with 16-bit gradients, 6 + 12/d with fp32 ones, which are never copied. DeepSpeed's bf16 optimizer also keeps the
 * 16-bit gradients of the backward pass beside accumulated fp32 ones (`yes`), 2 more bytes. PyTorch's `foreach`
 * optimizers allocate a list as large as a moment: AdamW roots of second moments, SGD gradients with decay; fused
 * optimizers and loops do not.
 *
 * Activations are summed unit by unit (a unit is a layer, or the ops before or after the layers):
 *   forward   saved activations of the units so far, and input and output of the running op;
 *   backward  saved activations that remain, recomputed ones of this unit, and the gradients of output and
 *             input of the running op. A weight gradient is a separate tensor until it is added to that of
 *             earlier micro-batches.
 * The output of a stage stays until its backward, as autograd needs it, unless the software frees its data once it is
 * sent (`deallocate_pipeline_outputs`). The input of an fp8 or fp4 GEMM is saved in 16 bits, or as the quantized copy
 * (`save_quantized_operands`: Transformer Engine; attention also saves its output in 16 bits). Such software also keeps
 * quantized copies of the weights, shared by all micro-batches: one by rows for forward and one by columns for dX,
 * unless a whole tensor has one scale and the device multiplies transposed fp8 operands (compute capability 10, 11 and
 * from 13 on). The weights are kept in 16 bits beside these copies, or as the copies alone (`fp8_params`). Tensors that
 * tensor-parallel ranks gather along the sequence are gathered again in backward (Korthikanti et al. 2022), or stay
 * whole (`regather_in_backward` = 0). Routing weights that multiply the experts' outputs need them for their gradient;
 * multiplied into the activations before (`probs_on_activation`) they need only what is saved anyway. Eager norms and
 * gated activations (`norm`, `activation` = eager) save more than input and output: the norm its input in fp32 and the
 * normalized value before its weight, the activation the activated gate. With `gather_logits` each rank holds the whole
 * logits. Layers with offloaded activations (`offload_layers`, the first ones of a stage) hold them while they run and,
 * during the copy, while later layers run: never more than at the end of a pass (offload.c). Attention that stores its
 * scores also holds them before softmax in forward, and two gradients of them in backward. Values that are a view of
 * the joint QKV GEMM's output (`joint_qkv`) keep all of it alive, beside the rotated queries and keys. A tensor read by
 * a collective on another stream (`record_stream`, c10d's) is freed at once, but its memory is reused only after the
 * device has run the collective: in a forward pass, outputs of row-parallel GEMMs before their reduce-scatter. The
 * allocator waits for them before it fails, so they count as reserved and never make a plan too large. 16-bit gradients
 * that wait for the end of their pass (`defer_grad_accumulation`) exist for all layers with finished backward.
 * Gradients that are reduced without shards in separate buckets (no `gradient_as_bucket_view`: PyTorch's DDP) exist
 * twice, in the type of the parameters. Cross-entropy holds `loss_B` bytes per logit at its peak. PyTorch has 12: the
 * fp32 log-softmax from forward to backward and two fp32 gradients; Megatron-LM 10: the 16-bit logit, its fp32 copy and
 * the exponential, backward in place; a fused kernel that writes gradients over 16-bit logits 2.
 *
 * If ZeRO gathers and reduces once a step (`zero_once_per_step`), parameters and gradients are whole, and the gradients
 * of one unit exist twice while they are sent.
 *
 * ZeRO-3: parameters of a unit are gathered together with those of the next (prefetch); the gradients of a unit exist
 * twice, as computed and as sent. Parameters outside the layers are gathered once and stay (FSDP's root). DeepSpeed has
 * `live_M` parameters and `flat_M` gradients at once (stage3_max_live_parameters, reduce_bucket_size).
 *
 * Not modelled: workspaces of single kernels, fp32 temporaries inside norms. SPDX-License-Identifier: Apache-2.0 */
#include "lowering/footprint.h"

#include <math.h>

enum { FP32_B = 4, HALF_B = 2 };

/* One unit of a stage on one device. */
struct unit {
	double kept_B;                /* from forward to backward */
	double entry_B;               /* largest input of the unit, if recomputation starts from it */
	double again_B;               /* recomputed in backward */
	double forward_B, backward_B; /* beyond saved activations, during the op with most */
	double gradient_B;            /* weight gradient of one op before accumulation */
	double gradients_B;           /* of all its ops, if they wait for the end of the pass */
	double loss_B;                /* beyond the unit's saved activations, forward and backward */
	double gathered_B, sent_B;    /* ZeRO-3: parameters; gradients as computed and as sent */
	bool root;                    /* outside the layers */
	bool away;                    /* its activations wait on the host */
};

/* A config on this device. */
struct seat {
	bool known, taken; /* looked up; the device belongs to the config */
	bool reduced;      /* gradients are reduced among devices */
	double shard;      /* see mq_shard_of */
	struct mq_share share;
};

/* An op on this device. */
struct here {
	const struct mq_low *low;
	const struct mq_op *op;
	const struct mq_config *config;
	const struct mq_device_calib *calib; /* NULL = the device has none */
	bool gpu;                            /* the software's fields apply only to GPUs */
	double loss_B;                       /* per logit; on a CPU that of eager cross-entropy */
	struct mq_share share;
	double shard;
	bool reduced;
	uint32_t id;
};

/* Bytes of `elems` weights of the op without sharding. */
static double weights_B(const struct here *at, double elems)
{
	const struct mq_train *train = at->low->train;
	const struct mq_software *s = at->low->software;
	enum mq_gemm_dtype gemm = mq_op_gemm_dtype(at->op, train);
	double whole_B = elems * mq_op_param_B(at->op, train), capability;
	double matrices = at->op->k * at->op->n * fmax(at->op->count, 1);

	if (!at->gpu || !at->calib || train->infer || gemm == MQ_GEMM_AS_DTYPE || !s->save_quantized_operands ||
	    s->quantize_weights_again || (at->op->frozen > MQ_FROZEN_AS_DTYPE && mq_op_dequantizes(at->op, train)))
		return whole_B;
	capability = at->calib->compute_capability;
	bool one = gemm == MQ_GEMM_FP8 && capability >= 100 && (capability < 120 || capability >= 130);
	if (matrices < at->op->param) /* the rest are biases */
		elems *= matrices / at->op->param;
	one |= at->op->frozen > MQ_FROZEN_AS_DTYPE && s->disable_parameter_transpose_cache;
	double copies_B = (one ? 1 : 2) * elems * mq_operand_B(gemm, train->dtype);
	if (at->op->frozen > MQ_FROZEN_AS_DTYPE) /* only in the type of the GEMM */
		return copies_B + whole_B - elems * mq_op_param_B(at->op, train);
	if (s->fp8_params && gemm != MQ_GEMM_FP4)
		whole_B -= elems * mq_dtype_size(train->dtype);
	return whole_B + copies_B;
}

static void add_parameters(const struct here *at, struct mq_op_use *use)
{
	const struct mq_low *low = at->low;
	const struct mq_software *s = at->gpu ? low->software : mq_software_plain();
	const struct mq_train *train = low->train;
	uint32_t tied = at->op->tied;
	double elems = mq_op_param_shard(at->op, at->share.split), shard = at->shard;
	bool once = mq_once(low), zero3 = at->config->sync == MQ_SYNC_ZERO3 && !once;

	/* A rank that uses another rank's tied parameters holds a copy. */
	if (tied != MQ_NONE && mq_low_rank(low, low->num.stage_of[tied]) != mq_low_rank(low, low->num.stage_of[at->id]))
		elems += mq_op_param_shard(&low->model->op[tied], at->share.split);
	double bytes = elems * mq_op_param_B(at->op, train);
	double grads = elems * mq_dtype_size(train->grad_dtype);
	use->parameter_B += zero3 ? bytes / shard : weights_B(at, elems);
	if (zero3 && !train->infer && mq_secondary(low, (uint32_t)shard) < shard)
		use->parameter_B += bytes / mq_secondary(low, (uint32_t)shard);
	use->gathered_B += zero3 ? bytes : 0;
	if (train->infer || at->op->frozen != MQ_TRAINED)
		return;
	use->gradient_B += zero3 || (at->config->sync == MQ_SYNC_ZERO2 && !once) ? grads / shard : grads;
	if (at->gpu && !low->software->gradient_as_bucket_view && at->reduced && at->config->sync == MQ_SYNC_ALLREDUCE)
		use->gradient_B += bytes;
	use->computed_B += zero3 ? bytes : once && shard > 1 ? grads : 0;
	use->sent_B += zero3 ? grads : 0;
	use->flat_B += zero3 ? 0 : grads;
	use->reduced_B += !zero3 && at->reduced ? grads : 0;
	use->formed_B = !zero3 && low->plan->micro_batches > 1 ? bytes : 0;
	use->waiting_B += at->gpu && low->software->defer_grad_accumulation && !zero3 ? bytes : 0;
	bool steps = train->optimizer != MQ_OPTIMIZER_NONE;
	if (at->gpu && steps && mq_gathers_new(at->config->sync) && shard > 1)
		use->fresh_B += bytes;
	double state_B = elems * mq_train_state_B(train, mq_software_master_B(s, train), s->moment_B) / shard;
	if (low->plan->offload_optimizer) /* gradients go there in fp32 (DeepSpeed: 16 bytes a parameter in all) */
		use->host_B += state_B + (steps ? FP32_B * elems / shard : 0);
	else
		use->optimizer_B += state_B;
	if (s->foreach && steps && !low->plan->offload_optimizer)
		use->list_B += elems * (mq_dtype_size(train->dtype) < FP32_B ? s->moment_B : FP32_B) / shard;
}

/* Gradients in both precisions, if the software keeps both. */
static void add_second_gradients(const struct here *at, struct mq_op_use *use)
{
	const struct mq_low *low = at->low;
	double elems = mq_op_param_shard(at->op, at->share.split);

	if (low->train->infer || !at->calib || at->op->frozen || mq_dtype_size(low->train->dtype) >= FP32_B ||
	    !at->gpu || low->software->grads_twice == MQ_GRADS_ONCE)
		return;
	if (mq_dtype_size(low->train->grad_dtype) >= FP32_B)
		use->gradient_B += low->software->grads_twice == MQ_GRADS_BOTH ? elems * HALF_B : 0;
	else if (!low->plan->offload_optimizer && low->train->optimizer != MQ_OPTIMIZER_NONE)
		use->step_B += elems * FP32_B / at->shard;
}

static bool recomputed(const struct mq_low *low, uint32_t op)
{
	return mq_low_config(low, op)->recompute == MQ_RECOMPUTE_FULL && low->model->op[op].layer != MQ_NONE;
}

/* Elements per sample that an op amid recomputed ones saves in addition: its output, from which their recomputation
 * starts; 0 if it is saved already. */
static double restart_elems(const struct here *at)
{
	const struct mq_model *m = at->low->model;

	if (recomputed(at->low, at->id) || at->op->layer == MQ_NONE || at->op->saved >= at->op->output)
		return 0;
	MQ_EACH_OUT(m, at->id, e)
		if (m->op[e->dst].layer == at->op->layer && recomputed(at->low, e->dst))
			return at->op->output;
	return 0;
}

/* Bytes on this device of elements per sample that are divided like the op's output. */
static double spread_B(const struct here *at, double elems)
{
	struct mq_op own = { .saved = elems };

	return mq_op_saved_shard(&own, &at->share, false) * mq_dtype_size(at->low->train->dtype);
}

/* Bytes of an op's inputs. Column-parallel GEMMs read the whole width, row-parallel ones a part. */
static double input_B(const struct here *at)
{
	const struct mq_model *m = at->low->model;
	struct mq_share share = at->share;
	struct mq_op own = { 0 };

	MQ_EACH_IN(m, at->id, e)
		own.saved += m->op[e->src].kind == MQ_OP_INPUT ? 0 : e->elems;
	if (at->op->kind == MQ_OP_GEMM || at->op->kind == MQ_OP_CONV)
		share.split[MQ_DIM_OUT] = share.split[MQ_DIM_HEAD] = 1;
	return mq_op_saved_shard(&own, &share, false) / fmax(1, share.split[MQ_DIM_IN]) *
	       mq_dtype_size(at->low->train->dtype);
}

/* Does an fp8 or fp4 GEMM read the op's output, and is the quantized copy saved, beside what the op saves (`own`)? A
 * GEMM of frozen weights needs none, but Transformer Engine (layernorm_linear.py) saves that of a norm's output that it
 * returns to an adapter. */
static bool feeds_cast(const struct here *at, bool *own)
{
	const struct mq_model *m = at->low->model;
	bool trained = false, frozen = false, adapter = false;

	if (!at->gpu || !at->low->software->save_quantized_operands || !mq_train_casts(at->low->train))
		return false;
	MQ_EACH_OUT(m, at->id, e) {
		const struct mq_op *to = &m->op[e->dst];

		if (to->kind == MQ_OP_GEMM && to->layer != MQ_NONE && to->own_gemm != 1 + MQ_GEMM_AS_DTYPE)
			*(to->adapter ? &adapter : to->frozen ? &frozen : &trained) = true;
	}
	*own = at->op->kind == MQ_OP_ATTENTION || !trained;
	return trained || (at->op->kind == MQ_OP_NORM && frozen && adapter);
}

/* Saved bytes of an adapter: its input after dropout, and the mask of a byte. */
static double dropped_B(const struct here *at)
{
	if (at->op->adapter != MQ_ADAPTER_IN || !at->op->dropout)
		return 0;
	return input_B(at) * (1 + 1 / mq_dtype_size(at->low->train->dtype));
}

/* Bytes spared by saving in fp8 instead of 16 bits: of all that fp8 attention saves but the statistics (Transformer
 * Engine's FusedAttnFunc), of the input of a gated activation. */
static double narrowed_B(const struct here *at)
{
	const struct mq_software *s = at->low->software;
	const struct mq_op *op = at->op;
	double elems = 0;

	if (!at->gpu || mq_dtype_size(at->low->train->dtype) != HALF_B)
		return 0;
	if (op->kind == MQ_OP_ATTENTION && op->fused && s->fp8_attention && mq_train_casts(at->low->train) &&
	    !op->own_gemm)
		elems = op->saved - 2 * op->m * op->count;
	else if (op->gated && s->activation_func_fp8_input_store && op->saved >= op->read)
		elems = op->read;
	return spread_B(at, fmax(elems, 0) / 2);
}

/* Saved bytes of a GEMM that keeps its gathered input, beyond its producers' shards, in the type of the GEMM. */
static double gathered_B(const struct here *at)
{
	const struct mq_low *low = at->low;
	const struct mq_model *m = low->model;
	double own = fmax(1, at->share.split[MQ_DIM_SEQ]), elems = 0;

	if (!at->gpu || low->software->regather_in_backward || at->op->kind != MQ_OP_GEMM)
		return 0;
	MQ_EACH_IN(m, at->id, e) {
		double parts = fmax(1, mq_low_config(low, e->src)->split[MQ_DIM_SEQ]);

		if (parts > own)
			elems += e->elems * (1 / own - 1 / parts);
	}
	enum mq_gemm_dtype gemm =
		low->software->save_quantized_operands ? mq_op_gemm_dtype(at->op, low->train) : MQ_GEMM_AS_DTYPE;
	return elems * at->share.samples * mq_operand_B(gemm, low->train->dtype);
}

/* The split of the logits in the loss. */
static struct mq_share loss_share(const struct here *at)
{
	struct mq_share share = at->share;

	if (at->gpu && at->low->software->gather_logits)
		share.split[MQ_DIM_OUT] = 1;
	return share;
}

/* Are stored scores fp32 between softmax and dropout? Then softmax's output is saved in fp32 and, without a dropout
 * whose output is saved anyway, the GEMM's 16-bit operand too. */
static bool wide_scores(const struct here *at)
{
	const struct mq_software *s = at->low->software;

	return at->op->kind == MQ_OP_ATTENTION && !at->op->fused && !at->low->model->image &&
	       (s->attention == MQ_ATTENTION_STORED || mq_software_casts_scores(s, at->low->train->dtype));
}

/* Number of GEMMs that read the op's output. */
static double products_of(const struct here *at)
{
	const struct mq_model *m = at->low->model;
	double n = 0;

	MQ_EACH_OUT(m, at->id, e)
		if (m->op[e->dst].kind == MQ_OP_GEMM)
			n += mq_software_modules(at->low->software, m, e->dst);
	return n;
}

/* Data type of the residual stream. */
static enum mq_dtype stream_of(const struct here *at)
{
	return at->gpu && !at->low->model->image ? mq_software_stream(at->low->software, at->low->train->dtype) :
						   at->low->train->dtype;
}

/* Additional saved bytes of eager ops. In fp32 nothing is cast, so only rotated and repeated heads add. Under autocast
 * a norm saves its input in fp32, op by op the product with 1 / rms too, and each GEMM behind it its 16-bit operand. */
static double eager_B(const struct here *at, bool selective)
{
	const struct mq_software *s = at->low->software;
	bool wide = stream_of(at) != at->low->train->dtype;
	double elems = 0;

	if (at->gpu && s->joint_qkv)
		elems += at->op->rotated;
	/* compilers recompute the copies of keys and values in the backward pass */
	if (at->gpu && s->repeat_kv != MQ_REPEAT_NONE && s->rope == MQ_EAGER && at->op->kind == MQ_OP_ATTENTION &&
	    at->op->fused)
		elems += fmax(0, (at->op->m + 2 * at->op->n) * at->op->k * at->op->count - at->op->read);
	if (!at->gpu || mq_dtype_size(at->low->train->dtype) >= FP32_B)
		return spread_B(at, elems);
	if (at->op->kind == MQ_OP_NORM && wide)
		elems += (products_of(at) + (at->op->rms && s->norm == MQ_EAGER ? 2 : 0)) * at->op->output;
	else if (at->op->rms && s->norm == MQ_EAGER)
		elems += 2 * at->op->output;
	else if (at->op->gelu && s->unfused_gelu)
		elems += (wide ? 6 : 3) * at->op->output;
	else if (at->op->gated && s->activation == MQ_EAGER)
		elems += at->op->output;
	else if (!selective && wide_scores(at))
		elems += (at->op->masks > 0 ? 1 : 2) * at->op->m * at->op->n * at->op->count;
	return spread_B(at, elems);
}

/* Saved bytes that ops of images do not count: PyTorch keeps the place of a pool's maximum in 8 bytes, not in one; under
 * autocast the batch stays in fp32 beside the copy that the first convolution saves. */
static double image_B(const struct here *at)
{
	double size_B = mq_dtype_size(at->low->train->dtype);
	bool cast = at->low->software->autocast && at->low->model->image && size_B < FP32_B;

	if (at->op->kind == MQ_OP_POOL && at->low->software->aten_image_kernels)
		return 7 * spread_B(at, at->op->masks) / size_B;
	return cast && at->op->kind == MQ_OP_INPUT ? FP32_B * spread_B(at, at->op->saved) / size_B : 0;
}

/* Saved bytes of an op. An in-place loss saves no more than its peak. */
static double kept_B(const struct here *at, bool selective)
{
	bool needs_own, loss = at->op->kind == MQ_OP_LOSS;
	struct mq_share share = loss ? loss_share(at) : at->share;
	double kept = mq_op_saved_B(at->op, &share, selective, at->low->train);
	struct mq_op logits = { .saved = at->op->read };

	if (at->op->kind == MQ_OP_COMBINE && at->gpu && at->low->software->probs_on_activation)
		return 0;
	if (feeds_cast(at, &needs_own)) {
		double whole_B = spread_B(at, at->op->output);
		double copy_B = whole_B * mq_dtype_size(mq_train_gemm_dtype(at->low->train)) /
				mq_dtype_size(at->low->train->dtype);

		if (needs_own || (at->op->saved >= at->op->output && kept >= whole_B))
			kept += needs_own ? copy_B : copy_B - whole_B;
	}
	if (!loss || !at->calib)
		return kept + image_B(at) + gathered_B(at) + eager_B(at, selective) + dropped_B(at) - narrowed_B(at);
	return fmin(kept, mq_op_saved_shard(&logits, &share, false) * at->loss_B);
}

/* Part of attention's saved bytes: queries, keys and values that their GEMMs recompute for backward. */
static double made_again_B(const struct here *at)
{
	double elems = 0;

	if (at->op->kind != MQ_OP_ATTENTION)
		return 0;
	MQ_EACH_IN(at->low->model, at->id, e)
		elems += recomputed(at->low, e->src) ? e->elems : 0;
	return spread_B(at, fmin(elems, at->op->saved - at->op->saved_selective));
}

/* Adds saved activations, and temporary ones of recomputation. */
static void add_kept(const struct here *at, struct mq_op_use *use)
{
	double all = kept_B(at, false);

	if (at->low->train->infer)
		return;
	if (recomputed(at->low, at->id)) {
		use->again_B += all;
	} else if (at->config->recompute == MQ_RECOMPUTE_SELECTIVE) {
		double rest = kept_B(at, true);

		use->again_B += all - rest;
		use->kept_B += rest;
	} else {
		double again = made_again_B(at);

		use->again_B += again;
		use->kept_B += all - again;
	}
	use->kept_B += spread_B(at, restart_elems(at));
}

/* Recomputation starts from tensors of other units. */
static void add_entry(const struct here *at, struct mq_op_use *use)
{
	const struct mq_model *m = at->low->model;
	const uint32_t *unit_of = at->low->num.unit_of;
	double size_B = at->share.samples / fmax(1, at->share.split[MQ_DIM_SEQ]) * mq_dtype_size(stream_of(at));

	if (at->low->train->infer || !recomputed(at->low, at->id))
		return;
	MQ_EACH_IN(m, at->id, e)
		if (unit_of[e->src] != unit_of[at->id] && m->op[e->src].kind != MQ_OP_INPUT)
			use->entry_B = fmax(use->entry_B, e->elems * size_B);
}

static void add_loss(const struct here *at, struct mq_op_use *use)
{
	struct mq_op logits = { .saved = at->op->read };
	struct mq_share share = loss_share(at);

	use->logit_B = at->calib ? mq_op_saved_shard(&logits, &share, false) : 0;
	use->loss_B = use->logit_B * at->loss_B;
	use->more_loss_B = fmax(use->loss_B - kept_B(at, false), 0);
	if (at->gpu && !at->low->train->infer)
		use->logits_B = use->logit_B * mq_dtype_size(at->low->train->dtype) * at->low->software->logits_buffers;
}

static bool makes_logits(const struct here *at)
{
	MQ_EACH_OUT(at->low->model, at->id, e)
		if (at->low->model->op[e->dst].kind == MQ_OP_LOSS)
			return true;
	return false;
}

/* Bytes of the op's output that exist at once: a part of the logits, if the loss holds fewer bytes per logit (`loss_B`)
 * than the logit has, since head and loss then process them in chunks. */
static double output_B(const struct here *at)
{
	double part = makes_logits(at) ? fmin(at->loss_B / mq_dtype_size(at->low->train->dtype), 1) : 1;

	return part * spread_B(at, at->op->output);
}

/* Inputs, as the op before made them, and gradients of outputs that are kept for the end. */
static double deferred_B(const struct here *at)
{
	double elems = 0;

	MQ_EACH_IN(at->low->model, at->id, e)
		elems += e->elems / fmax(1, mq_low_config(at->low, e->src)->split[MQ_DIM_SEQ]);
	return mq_low_deferred(at->low, at->id) *
	       (elems * at->share.samples * mq_dtype_size(at->low->train->dtype) + output_B(at));
}

/* Temporary bytes while the op runs. */
static void add_passing(const struct here *at, struct mq_op_use *use)
{
	const struct mq_op *op = at->op;
	double scores = op->kind == MQ_OP_ATTENTION && !op->fused ? op->m * op->n * op->count : 0;

	if (op->kind == MQ_OP_PROFILED || op->kind == MQ_OP_INPUT || at->low->model->profile.memory_B)
		return;
	if (op->kind == MQ_OP_LOSS) {
		add_loss(at, use);
		return;
	}
	double output = output_B(at), tensors = input_B(at);
	if (mq_op_dequantizes(op, at->low->train))
		tensors += mq_op_param_shard(op, at->share.split) * mq_dtype_size(at->low->train->dtype);
	use->logits_B = at->low->train->infer ? 0 : deferred_B(at);
	use->forward_B = tensors + output + spread_B(at, scores);
	/* gradients of logits overwrite what the loss saved */
	use->backward_B = tensors + (makes_logits(at) ? 0 : output) + spread_B(at, 2 * scores);
}

/* Output of a row-parallel GEMM before its reduce-scatter along the sequence. */
static double late_B(const struct here *at)
{
	const struct mq_low *low = at->low;

	if (!at->gpu || !low->software->record_stream || at->op->kind != MQ_OP_GEMM ||
	    !(at->share.split[MQ_DIM_IN] > 1))
		return 0;
	MQ_EACH_OUT(low->model, at->id, e)
		if (mq_low_config(low, e->dst)->split[MQ_DIM_SEQ] > at->share.split[MQ_DIM_SEQ])
			return spread_B(at, at->op->output);
	return 0;
}

/* What crosses the borders of the stage. */
static void add_borders(const struct here *at, struct mq_op_use *use)
{
	const struct mq_model *m = at->low->model;
	const uint32_t *stage = at->low->num.stage_of;
	double size = at->share.samples * mq_dtype_size(at->low->train->dtype), sent = 0;

	MQ_EACH_IN(m, at->id, e)
		if (stage[e->src] != stage[at->id])
			use->boundary_B = fmax(use->boundary_B, e->elems * size);
	MQ_EACH_OUT(m, at->id, e)
		if (stage[e->dst] != stage[at->id])
			sent = fmax(sent, e->elems);
	if (sent > 0 && !at->low->train->infer && !(at->gpu && at->low->software->deallocate_pipeline_outputs))
		use->kept_B += spread_B(at, sent);
}

static void fuller(struct mq_moment *most, double activation_B, double buffer_B)
{
	if (activation_B + buffer_B > most->activation_B + most->buffer_B)
		*most = (struct mq_moment){ activation_B, buffer_B };
}

/* The peaks of both passes over the units. */
static void walk(const struct mq_low *low, const struct unit *u, uint32_t n, struct mq_footprint *h)
{
	/* With a separate pass for weight gradients, activations stay until then. */
	bool apart = mq_pipeline_splits(low->plan->pipeline);
	double before = 0, all = 0, waiting = 0;

	for (uint32_t i = 0; i < n; i++) {
		waiting += u[i].gradients_B;
		all += u[i].away ? 0 : u[i].kept_B;
		h->away_B += u[i].away ? u[i].kept_B : 0;
		h->unit_B = fmax(h->unit_B, u[i].away ? 0 : u[i].kept_B);
	}
	for (uint32_t i = 0; i < n; i++) {
		double passing = i > 0 && u[i - 1].away ? u[i - 1].kept_B : 0; /* in copy to or from the host */
		double next = i + 1 < n && !u[i + 1].root ? u[i + 1].gathered_B : 0;
		double last = i > 0 && !u[i - 1].root ? u[i - 1].gathered_B : 0;
		double own = u[i].root ? 0 : u[i].gathered_B, after = before + u[i].kept_B;

		h->root_B += u[i].root ? u[i].gathered_B : 0;
		fuller(&h->forward, passing + fmax(before + u[i].forward_B, after + u[i].loss_B), own + next);
		if (!low->train->infer) {
			double there = passing + (apart ? all + (after - before) * u[i].away : after) + u[i].again_B;

			fuller(&h->backward, there + u[i].loss_B, own + last); /* before any weight gradient */
			fuller(&h->backward, there + u[i].backward_B,
			       own + last + (waiting > 0 ? waiting : u[i].gradient_B) + u[i].sent_B);
		}
		waiting -= u[i].gradients_B;
		before = u[i].away ? before : after;
	}
	h->kept_B = all;
}

static struct seat seat_of(const struct mq_low *low, uint32_t op, double samples)
{
	const struct mq_config *c = mq_low_config(low, op);
	struct seat seat = { .taken = true,
			     .shard = mq_shard_of(low, op),
			     .reduced = mq_mesh_group_size(c, mq_grad_mask) > 1,
			     .share.samples = samples };

	for (int d = 0; d < MQ_N_DIMS; d++)
		seat.share.split[d] = c->split[d];
	return seat;
}

static const struct seat *look_up(const struct mq_low *low, uint32_t op, uint32_t device, struct seat *seats)
{
	const struct mq_config *c = mq_low_config(low, op);
	struct seat *seat = &seats[low->plan->config_of[op]];
	uint32_t p = 0;

	if (seat->known)
		return seat;
	while (p < c->n_devices && c->device[p] != device)
		p++;
	if (p < c->n_devices)
		*seat = seat_of(low, op, mq_low_samples(low, c, p));
	seat->known = true;
	return seat;
}

static struct here here_of(const struct mq_low *low, uint32_t op, uint32_t device, const struct seat *seat)
{
	const struct mq_device *d = &low->q.cluster->device[device];
	struct here at = { .low = low,
			   .op = &low->model->op[op],
			   .id = op,
			   .config = mq_low_config(low, op),
			   .calib = d->calib == MQ_NONE ? NULL : &low->q.calib->device[d->calib],
			   .gpu = d->kind == MQ_GPU,
			   .loss_B = (d->kind == MQ_GPU ? low->software : mq_software_plain())->loss_B,
			   .share = seat->share,
			   .shard = seat->shard,
			   .reduced = seat->reduced };

	if (mq_op_of_experts(at.op)) /* of the rank with most tokens */
		at.share.samples *= mq_expert_load(&low->train->experts, at.share.split[MQ_DIM_EXPERT]);
	return at;
}

static void add_to_unit(struct unit *u, const struct mq_op_use *op)
{
	u->kept_B += op->kept_B;
	u->entry_B = fmax(u->entry_B, op->entry_B);
	u->again_B += op->again_B;
	u->forward_B = fmax(u->forward_B, op->forward_B);
	u->backward_B = fmax(u->backward_B, op->backward_B);
	u->gradient_B = fmax(u->gradient_B, op->formed_B);
	u->gradients_B += op->waiting_B;
	u->loss_B = fmax(u->loss_B, op->more_loss_B);
	u->gathered_B += op->gathered_B;
	u->sent_B += op->computed_B + op->sent_B;
}

static void add_to_stage(struct mq_footprint *h, const struct mq_op_use *op)
{
	h->parameter_B += op->parameter_B;
	h->gradient_B += op->gradient_B;
	h->optimizer_B += op->optimizer_B;
	h->reduced_B += op->reduced_B;
	h->flat_B += op->flat_B;
	h->boundary_B = fmax(h->boundary_B, op->boundary_B);
	h->late_B += op->late_B;
	h->logits_B += op->logits_B;
	h->step_B += op->step_B;
	h->list_B += op->list_B;
	h->host_B += op->host_B;
	h->fresh_B += op->fresh_B;
}

/* Time of messages inside a machine / over Ethernet: 20 us over TCP's loopback, 50 over Ethernet. */
#define LOCAL_MESSAGES .4

/* Share of the peak that large kernels reach: too rough as a cost, but enough to see whether device or
 * host is ahead. */
#define SHARE_OF_PEAK .6

/* Counts the launches of the op, for software that frees tensors late (record_stream). If hosts agree on each
 * collective (torch_distributed_debug_us), also fills the times of device and host: a tensor-parallel GEMM has one
 * collective forward, and two backward if it gathers its input again. */
static void add_launches(const struct here *at, enum mq_phase phase, struct mq_op_use *use)
{
	const struct mq_software *s = at->low->software;
	struct mq_kernel kernel[MQ_MAX_KERNELS_PER_OP];
	uint32_t n = 0, i = phase == MQ_BACKWARD;
	double ranks = use->output_late   ? at->share.split[MQ_DIM_IN] :
		       use->gradient_late ? at->share.split[MQ_DIM_OUT] :
					    0;

	if (at->calib && s->record_stream)
		n = mq_op_kernels(&at->low->q, at->id, phase, &at->share, at->calib->name, kernel);
	double messages = ranks * at->low->q.cluster->n_nodes <= at->low->q.cluster->n_devices ? LOCAL_MESSAGES : 1;
	for (uint32_t k = 0; k < n; k++) {
		double peak = at->calib->peak_flops[kernel[k].dtype], bytes_s = kernel[k].bytes / at->calib->mem_bw_Bps;

		use->launches[i] += kernel[k].launches;
		if (s->torch_distributed_debug_us > 0)
			use->busy_s[i] += fmax(peak > 0 ? kernel[k].flop / peak : 0, bytes_s) / SHARE_OF_PEAK;
	}
	if (n && s->torch_distributed_debug_us > 0)
		use->host_s[i] =
			use->launches[i] * at->calib->host_launch_s * s->host +
			ranks * messages * s->torch_distributed_debug_us * 1e-6 * (i && use->gradient_late ? 2 : 1);
}

/* Fills fields for the allocator replay alone. */
static void add_replayed(const struct here *at, struct mq_op_use *use)
{
	const struct mq_op *op = at->op;
	bool late = at->gpu && at->low->software->record_stream && op->kind == MQ_OP_GEMM;

	use->op = at->id;
	use->root = op->layer == MQ_NONE;
	use->again = recomputed(at->low, at->id);
	use->output_B = output_B(at);
	use->scores_B = op->kind == MQ_OP_ATTENTION && !op->fused ? spread_B(at, op->m * op->n * op->count) : 0;
	use->output_late = late && at->share.split[MQ_DIM_IN] > 1;
	use->gradient_late = late && at->share.split[MQ_DIM_OUT] > 1;
	add_launches(at, MQ_FORWARD, use);
	add_launches(at, MQ_BACKWARD, use);
	use->shards = (uint32_t)at->shard;
}

/* Marks the first layers of a stage as offloaded. */
static void send_away(const struct mq_low *low, struct unit *unit, uint32_t n, bool gpu)
{
	uint32_t away = 0;

	for (uint32_t i = 0; i < n; i++) {
		unit[i].kept_B += unit[i].entry_B;
		unit[i].away = gpu && !unit[i].root && away < low->plan->offload_layers;
		away += unit[i].away;
	}
}

/* ZeRO-3 within `live_M` and `flat_M`: gathered parameters, and the gradients of each unit, shrink in proportion. */
static void bound_gathered(const struct mq_low *low, struct unit *unit, uint32_t n, struct mq_op_use *use,
			   uint32_t filled)
{
	const struct mq_software *s = low->software;
	double type_B = mq_dtype_size(low->train->dtype), root = 0, most = 1;
	double live_B = s->live_M > 0 ? s->live_M * 1e6 * type_B : HUGE_VAL;
	double flat_B = s->flat_M > 0 ? s->flat_M * 1e6 * (type_B + mq_dtype_size(low->train->grad_dtype)) : HUGE_VAL;

	for (uint32_t i = 0; i < n; i++)
		if (unit[i].root)
			root += unit[i].gathered_B;
		else
			most = fmax(most, unit[i].gathered_B);
	double part = fmin(live_B / (root + 2 * most), 1);
	for (uint32_t i = 0; i < filled; i++) {
		double sent = fmin(flat_B / fmax(unit[use[i].unit].sent_B, 1), 1);

		use[i].gathered_B *= part;
		use[i].computed_B *= sent;
		use[i].sent_B *= sent;
	}
	for (uint32_t i = 0; i < n; i++) {
		unit[i].gathered_B *= part;
		unit[i].sent_B = fmin(unit[i].sent_B, flat_B);
	}
}

/* Fills what an op holds from before it runs until after it. */
static struct mq_op_use held_of(const struct here *at)
{
	struct mq_op_use use = { 0 };

	add_parameters(at, &use);
	add_second_gradients(at, &use);
	if (at->low->model->profile.memory_B) /* measured models give all memory of the op */
		use.parameter_B += at->low->model->profile.memory_B[at->id];
	add_kept(at, &use);
	add_entry(at, &use);
	return use;
}

struct mq_footprint mq_footprint_of(struct mq_low *low, uint32_t stage, uint32_t device, struct mq_op_use *use,
				    uint32_t *n_uses)
{
	uint32_t first = low->num.stage_first[stage], end = low->num.stage_first[stage + 1], n = 0, filled = 0;
	struct unit *unit = mq_arena_array(&low->scratch, (size_t)(end - first) + 1, struct unit);
	struct seat *seats = mq_arena_array(&low->scratch, low->plan->n_configs, struct seat);
	bool gpu = low->q.cluster->device[device].kind == MQ_GPU;
	struct mq_footprint h = { 0 };
	uint32_t last = MQ_NONE;

	for (uint32_t i = first; i < end; i++) {
		uint32_t op = low->num.stage_op[i];
		const struct seat *seat = look_up(low, op, device, seats);

		if (!seat->taken)
			continue;
		const struct here at = here_of(low, op, device, seat);
		struct mq_op_use own = held_of(&at);
		add_passing(&at, &own);
		add_borders(&at, &own);
		own.late_B = late_B(&at);
		if (low->num.unit_of[op] != last) {
			last = low->num.unit_of[op];
			unit[n++].root = at.op->layer == MQ_NONE;
		}
		own.unit = n - 1;
		own.first_entry_B = unit[n - 1].entry_B > 0 ? 0 : own.entry_B;
		add_to_stage(&h, &own);
		add_to_unit(&unit[n - 1], &own);
		if (use) {
			add_replayed(&at, &own);
			use[filled++] = own;
		}
	}
	send_away(low, unit, n, gpu);
	if (gpu)
		bound_gathered(low, unit, n, use, filled);
	for (uint32_t i = 0; i < filled; i++)
		use[i].away = unit[use[i].unit].away;
	if (use)
		*n_uses = filled;
	walk(low, unit, n, &h);
	return h;
}

struct mq_op_use mq_footprint_of_op(const struct mq_low *low, uint32_t op, uint32_t device, double samples)
{
	const struct seat seat = seat_of(low, op, samples);
	const struct here at = here_of(low, op, device, &seat);

	return held_of(&at);
}
