/* passes.c - forward and backward of one stage, op by op. See program.h.
 *
 * Recomputation follows Megatron-LM: `full` recomputes a whole layer (its collectives too) before the layer's backward;
 * `selective` recomputes the attention core (Korthikanti et al. 2022).
 *
 * Context parallelism gathers keys and values during the compute of the local block, as ring attention and Megatron's
 * all-gather variant do: 1/c of the work needs no gather, the rest waits for it. Backward gathers again and scatters
 * the gradients of keys and values.
 *
 * Under a SPATIAL split a window reaches into the rows of the ranks above and below: they exchange halos before the op,
 * and back the gradients of these. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "lowering/program.h"

static struct mq_piece piece_of(const struct mq_low *low, uint32_t op, uint32_t p, enum mq_phase phase)
{
	uint32_t config = low->plan->config_of[op];

	return (struct mq_piece){
		.op = op,
		.config = config,
		.phase = (uint8_t)phase,
		.samples = mq_low_samples(low, &low->plan->config[config], p),
		.scale = 1,
	};
}

/* ---- collectives inside an op ----------------------------------------------------------------------- */

struct inner {
	enum mq_coll_kind kind;
	uint32_t mask; /* dimensions of the group */
	double elems;  /* per sample, as nccl-tests counts */
	enum mq_dtype dtype;
	const char *purpose;
	enum mq_phase phase;
	bool awaited; /* the next compute task waits for it */
};

static void emit_inner(struct mq_low *low, uint32_t op, const struct inner *inner)
{
	const struct mq_config *c = mq_low_config(low, op);
	const struct mq_groups *groups =
		mq_groups_of(low, &(struct mq_group_request){ .config = c,
							      .mask = inner->mask,
							      .stride = 1,
							      .size = mq_mesh_group_size(c, inner->mask),
							      .purpose = inner->purpose });
	const struct mq_seats *seats = mq_low_seats(low, c);
	uint32_t *done = mq_arena_array(&low->scratch, seats->n, uint32_t);
	struct mq_ids *after = mq_arena_array(&low->scratch, seats->n, struct mq_ids);

	for (uint32_t k = 0; k < groups->n; k++) {
		const struct mq_group *g = &groups->group[k];

		for (uint32_t i = 0; i < g->n_seats; i++) {
			uint32_t device = seats->device[g->seat[i]];

			after[i] = (struct mq_ids){ 0 };
			mq_ids_add(low, &after[i], mq_emit_seal(low, device));
			mq_ids_join(low, &after[i], &low->emit.pending[device]);
		}
		struct mq_coll_call call = { .kind = inner->kind,
					     .stream = MQ_STREAM_COMM,
					     .seats = seats,
					     .bytes = inner->elems *
						      mq_low_samples(low, c, seats->position[g->seat[0]]) *
						      mq_dtype_size(inner->dtype),
					     .dtype = inner->dtype,
					     .op = op,
					     .phase = inner->phase };
		mq_emit_collective(low, &call, g, after, done);
		for (uint32_t i = 0; i < g->n_seats && inner->awaited; i++)
			mq_ids_add(low, &low->emit.pending[seats->device[g->seat[i]]], done[i]);
	}
}

/* Elements of keys and values on one tensor-parallel rank, per sample. */
static double kv_elems(const struct mq_low *low, uint32_t op)
{
	const struct mq_model *m = low->model;
	const struct mq_op *o = &m->op[op];
	double heads = mq_low_config(low, op)->split[MQ_DIM_HEAD];
	double queries = o->m * o->k * o->count;
	double kv = o->read > queries && o->fused ? o->read - queries : 2 * o->n * m->kv_heads * m->head_dim;

	if (low->software->repeat_kv)
		kv = fmax(kv, 2 * o->n * o->k * o->count);
	return kv / heads;
}

static uint32_t context_degree(const struct mq_low *low, uint32_t op)
{
	return low->model->op[op].kind == MQ_OP_ATTENTION ? mq_low_config(low, op)->split[MQ_DIM_SEQ] : 1;
}

/* Emits the exchange of keys and values, or of their gradients, among context-parallel ranks: in fp8 if attention
 * runs in fp8. */
static void move_kv(struct mq_low *low, uint32_t op, enum mq_coll_kind kind, enum mq_phase phase)
{
	const struct mq_op *o = &low->model->op[op];
	bool fp8 = low->software->fp8_attention && mq_train_casts(low->train) && o->fused && !o->own_gemm;

	emit_inner(low, op,
		   &(struct inner){ .kind = kind,
				    .mask = 1u << MQ_DIM_SEQ,
				    .elems = kv_elems(low, op),
				    .dtype = fp8 ? MQ_FP8 : low->train->dtype,
				    .purpose = "cp",
				    .phase = phase,
				    .awaited = true });
}

/* Each rank sends a halo to one or two neighbours: as a gather that moves as much on each port, for which all wait. */
static void exchange_halos(struct mq_low *low, uint32_t op, enum mq_phase phase)
{
	const struct mq_config *c = mq_low_config(low, op);
	struct inner swap = { .kind = MQ_COLL_ALL_GATHER, .mask = 1u << MQ_DIM_SPATIAL, .purpose = "halo" };
	double n = c->split[MQ_DIM_SPATIAL];
	bool needed = phase == MQ_FORWARD;

	MQ_EACH_IN(low->model, op, e)
		needed = needed || !e->no_grad;
	if (n == 1 || !(low->model->op[op].halo > 0) || !needed)
		return;
	swap.elems = low->model->op[op].halo / c->split[MQ_DIM_IN] * fmin(n - 1, 2) * n / (n - 1);
	swap.dtype = low->train->dtype;
	swap.phase = phase;
	swap.awaited = true;
	emit_inner(low, op, &swap);
}

/* Vocabulary-parallel cross-entropy: reduces maximum, sum of exponentials and target logit of each token, in fp32; or
 * gathers the logits of all ranks. */
static void reduce_loss(struct mq_low *low, uint32_t op)
{
	const struct mq_op *o = &low->model->op[op];
	double tokens = o->extent[MQ_DIM_SEQ] > 0 ? o->extent[MQ_DIM_SEQ] : 1;
	bool whole = low->software->gather_logits;

	if (o->kind != MQ_OP_LOSS || mq_low_config(low, op)->split[MQ_DIM_OUT] == 1)
		return;
	emit_inner(low, op,
		   &(struct inner){ .kind = whole ? MQ_COLL_ALL_GATHER : MQ_COLL_ALL_REDUCE,
				    .mask = 1u << MQ_DIM_OUT,
				    .elems = (whole ? o->read : 3 * tokens) / mq_low_config(low, op)->split[MQ_DIM_SEQ],
				    .dtype = whole ? low->train->dtype : MQ_FP32,
				    .purpose = "tp",
				    .phase = MQ_FORWARD,
				    .awaited = true });
}

/* ---- one op -------------------------------------------------------------------------------------------- */

struct visit {
	enum mq_phase phase;
	uint8_t only;
	bool again; /* recomputation: stays inside the layer */
};

/* Compute on every device of the op; waits: the transfers of its inputs. */
static void compute(struct mq_low *low, uint32_t op, const struct visit *v, const uint32_t *waits, uint32_t n_waits)
{
	const struct mq_seats *seats = mq_low_seats(low, mq_low_config(low, op));
	uint32_t cp = v->only == 2 ? 1 : context_degree(low, op);

	/* First the local block, then the others with the gathered keys and values. The gather was issued before, and
	 * is waited for only now. */
	for (uint32_t ring = cp > 1; ring <= (cp > 1 ? 2 : 0); ring++)
		for (uint32_t s = 0; s < seats->n; s++) {
			struct mq_piece piece = piece_of(low, op, seats->position[s], v->phase);
			struct mq_ids deps = { 0 };

			for (uint32_t i = 0; i < n_waits && ring < 2; i++)
				mq_transfer_arrival(low, waits[i], s, &deps);
			piece.only = v->only;
			piece.again = v->again;
			piece.scale = (ring == 2 ? cp - 1.0 : 1.0) / cp;
			piece.ring = (uint8_t)ring;
			mq_emit_compute(low, seats->device[s], &piece,
					ring == 2 ? &low->emit.kv[seats->device[s]] : &deps);
		}
}

static void issue_kv(struct mq_low *low, uint32_t op, enum mq_phase phase)
{
	for (uint32_t d = 0; d < low->prog.schedule->n_devices; d++)
		low->emit.kv[d].n = 0;
	if (context_degree(low, op) == 1)
		return;
	move_kv(low, op, MQ_COLL_ALL_GATHER, phase);
	/* Move the wait from the next compute task to the one after the local block. */
	for (uint32_t d = 0; d < low->prog.schedule->n_devices; d++) {
		struct mq_ids t = low->emit.kv[d];

		low->emit.kv[d] = low->emit.pending[d];
		low->emit.pending[d] = t;
	}
}

/* Does the forward pass, or its recomputation, emit this transfer? */
static bool goes(const struct mq_moves *moves, uint32_t transfer, const struct visit *v)
{
	const struct mq_transfer *t = &moves->transfer[transfer];

	return v->again ? t->inside && t->from_stage == t->to_stage : t->channel == v->phase;
}

/* A GEMM in equal parts of its rows. Each part waits for its part of the gathered `in` (MQ_NONE = local), or starts the
 * transfer of its part of `out` (MQ_NONE = none). */
static void compute_parts(struct mq_low *low, uint32_t op, const struct visit *v, uint32_t in, uint32_t out)
{
	const struct mq_seats *seats = mq_low_seats(low, mq_low_config(low, op));
	uint32_t parts = low->moves.transfer[in != MQ_NONE ? in : out].parts;

	for (uint32_t k = 0; k < parts; k++) {
		for (uint32_t s = 0; s < seats->n; s++) {
			struct mq_piece piece = piece_of(low, op, seats->position[s], v->phase);
			struct mq_ids deps = { 0 };

			if (in != MQ_NONE)
				mq_ids_add(low, &deps, mq_transfer_part(low, in, s, k));
			piece.only = v->only;
			piece.again = v->again;
			piece.parts = (uint8_t)parts;
			mq_emit_compute(low, seats->device[s], &piece, &deps);
		}
		if (out != MQ_NONE)
			mq_transfer_emit_part(low, out, k);
	}
}

/* The transfer that splits this forward GEMM; MQ_NONE = none. */
static uint32_t splitter(const struct mq_low *low, uint32_t op, const struct visit *v, const uint32_t *waits,
			 uint32_t n_waits, bool gather)
{
	if (low->model->op[op].kind != MQ_OP_GEMM)
		return MQ_NONE;
	for (uint32_t i = 0; gather && n_waits == 1 && i < 1; i++)
		if (mq_transfer_parts(&low->moves, waits[i], true) > 1)
			return waits[i];
	for (uint32_t t = low->moves.out_first[op]; !gather && t < low->moves.out_first[op + 1]; t++)
		if (goes(&low->moves, t, v) && mq_transfer_parts(&low->moves, t, false) > 1)
			return t;
	return MQ_NONE;
}

static void forward_op(struct mq_low *low, uint32_t op, const struct visit *v)
{
	const struct mq_model *m = low->model;
	uint32_t first = m->in_first[op], n = m->in_first[op + 1] - first, n_waits = 0;

	if (m->op[op].kind == MQ_OP_INPUT)
		return;
	uint32_t *waits = mq_arena_array(&low->scratch, n, uint32_t);
	for (uint32_t i = 0; i < n; i++)
		if (low->moves.edge_forward[m->in_edge[first + i]] != MQ_NONE)
			waits[n_waits++] = low->moves.edge_forward[m->in_edge[first + i]];
	uint32_t in = splitter(low, op, v, waits, n_waits, true), out = MQ_NONE;
	if (in == MQ_NONE && !n_waits)
		out = splitter(low, op, v, waits, n_waits, false);
	issue_kv(low, op, v->phase);
	exchange_halos(low, op, v->phase);
	if (in != MQ_NONE || out != MQ_NONE)
		compute_parts(low, op, v, in, out);
	else
		compute(low, op, v, waits, n_waits);
	reduce_loss(low, op);
	for (uint32_t t = low->moves.out_first[op]; t < low->moves.out_first[op + 1]; t++)
		if (t != out && goes(&low->moves, t, v))
			mq_transfer_emit(low, t);
}

/* Sufficient factors: gathers inputs and output gradients of all replicas; each computes the weight gradient of the
 * whole batch. */
static void whole_gradient(struct mq_low *low, uint32_t op)
{
	const struct mq_config *c = mq_low_config(low, op);
	const struct mq_seats *seats = mq_low_seats(low, c);
	const struct mq_op *o = &low->model->op[op];
	uint32_t n = mq_duplicates(low, op);
	double in = c->split[MQ_DIM_IN], out = c->split[MQ_DIM_OUT];

	emit_inner(low, op,
		   &(struct inner){ .kind = MQ_COLL_ALL_GATHER,
				    .mask = mq_grad_mask,
				    .elems = n * (o->read / in + o->write / out) / c->split[MQ_DIM_SEQ],
				    .dtype = low->train->dtype,
				    .purpose = "dp",
				    .phase = MQ_BACKWARD,
				    .awaited = true });
	for (uint32_t s = 0; s < seats->n; s++) {
		struct mq_piece piece = piece_of(low, op, seats->position[s], MQ_BACKWARD);

		piece.only = 2;
		piece.samples = low->train->batch / low->plan->micro_batches;
		mq_emit_compute(low, seats->device[s], &piece, NULL);
	}
}

/* Starts the transfers of the op's input gradients whose summands are complete. */
static void emit_gradients(struct mq_low *low, uint32_t op)
{
	const struct mq_model *m = low->model;

	MQ_EACH_IN(m, op, e) {
		uint32_t t = low->moves.edge_backward[e - m->edge];

		if (t != MQ_NONE && --low->moves.transfer[t].waits == 0)
			mq_transfer_emit(low, t);
	}
}

static bool trains_weights(const struct mq_low *low, uint32_t op)
{
	return low->model->op[op].frozen == MQ_TRAINED;
}

/* Inputs of a GEMM that were gathered along the sequence and saved as shards are gathered again for the weight
 * gradient, during the input gradient (Korthikanti et al. 2022, section 4.2.2). */
static uint32_t gather_again(struct mq_low *low, uint32_t op, uint32_t *waits)
{
	const struct mq_model *m = low->model;
	uint32_t n = 0;

	if (!low->software->regather_in_backward || m->op[op].kind != MQ_OP_GEMM || !trains_weights(low, op) ||
	    m->op[op].adapter)
		return 0; /* an adapter saves its input after dropout, unsharded */
	MQ_EACH_IN(m, op, e) {
		uint32_t t = low->moves.edge_forward[e - m->edge];

		if (t == MQ_NONE || !mq_transfer_gathers_sequence(&low->moves, t))
			continue;
		if (!mq_transfer_here(low, t))
			mq_transfer_emit_again(low, t);
		waits[n++] = t;
	}
	return n;
}

/* A GEMM with separate gradients: first of its input, under overlap_tp in parts if the output gradient is gathered,
 * then of its weights during the transfer of the former. only 1: weight gradients have a separate pass. again: inputs
 * gathered for them. */
static void backward_beside(struct mq_low *low, uint32_t op, uint8_t only, const uint32_t *waits, uint32_t n_waits,
			    const uint32_t *again, uint32_t n_again)
{
	struct visit inputs = { MQ_BACKWARD, 1, false }, weights = { MQ_BACKWARD, 2, false };

	if (n_waits == 1 && mq_transfer_parts(&low->moves, waits[0], true) > 1)
		compute_parts(low, op, &inputs, waits[0], MQ_NONE);
	else
		compute(low, op, &inputs, waits, n_waits);
	emit_gradients(low, op);
	if (only == 0 && trains_weights(low, op))
		compute(low, op, &weights, again, n_again);
}

/* Is the input gradient of this GEMM a separate, earlier task, so that communication overlaps the weight gradient? Yes
 * if collectives overlap the GEMM (overlap_tp), or if the ranks of its stage reduce the input gradient meanwhile
 * (Megatron-LM's LinearWithGradAccumulationAndAsyncCommunication). */
static bool goes_apart(const struct mq_low *low, uint32_t op)
{
	const struct mq_model *m = low->model;

	if (m->op[op].kind != MQ_OP_GEMM || mq_duplicates(low, op) > 1)
		return false;
	if (low->plan->overlap_tp && m->op[op].layer != MQ_NONE && !m->op[op].adapter)
		return true;
	MQ_EACH_IN(m, op, e) {
		uint32_t t = low->moves.edge_backward[e - m->edge];

		if (low->software->async_allreduce && t != MQ_NONE && mq_transfer_sums(&low->moves, t))
			return true;
	}
	return false;
}

static void backward_op(struct mq_low *low, uint32_t op, uint8_t only)
{
	const struct mq_model *m = low->model;
	uint32_t first = m->out_first[op], n = m->out_first[op + 1] - first, n_waits = 0;

	if (m->op[op].kind == MQ_OP_INPUT || !mq_op_goes_back(&m->op[op]))
		return;
	uint32_t *waits = mq_arena_array(&low->scratch, n, uint32_t);
	for (uint32_t e = first; e < first + n; e++)
		if (low->moves.edge_backward[e] != MQ_NONE)
			waits[n_waits++] = low->moves.edge_backward[e];
	uint32_t *again = mq_arena_array(&low->scratch, m->in_first[op + 1] - m->in_first[op], uint32_t);
	uint32_t n_again = only == 0 && mq_duplicates(low, op) == 1 ? gather_again(low, op, again) : 0;
	if (n_again || goes_apart(low, op)) {
		backward_beside(low, op, only, waits, n_waits, again, n_again);
		return;
	}
	issue_kv(low, op, MQ_BACKWARD);
	if (mq_low_config(low, op)->recompute == MQ_RECOMPUTE_SELECTIVE &&
	    (m->op[op].saved_selective > 0 ||
	     (m->op[op].kind == MQ_OP_ATTENTION && low->software->selective == MQ_SELECTIVE_CORE_ATTN)))
		compute(low, op, &(struct visit){ MQ_FORWARD, 0, true }, waits, n_waits);
	if (only == 0 && mq_duplicates(low, op) > 1) {
		compute(low, op, &(struct visit){ MQ_BACKWARD, 1, false }, waits, n_waits);
		whole_gradient(low, op);
	} else {
		compute(low, op, &(struct visit){ MQ_BACKWARD, only, false }, waits, n_waits);
	}
	if (context_degree(low, op) > 1)
		move_kv(low, op, MQ_COLL_REDUCE_SCATTER, MQ_BACKWARD);
	if (only != 2)
		exchange_halos(low, op, MQ_BACKWARD);
	emit_gradients(low, op);
}

/* ---- passes of a stage ------------------------------------------------------------------------------- */

static uint32_t op_at(const struct mq_numbering *num, uint32_t stage, uint32_t i)
{
	return num->stage_op[num->stage_first[stage] + i];
}

static uint32_t n_ops_of(const struct mq_numbering *num, uint32_t stage)
{
	return num->stage_first[stage + 1] - num->stage_first[stage];
}

void mq_pass_forward(struct mq_low *low, uint32_t stage, enum mq_pass pass)
{
	uint32_t unit = MQ_NONE;

	mq_template_begin(low, stage, pass);
	mq_transfer_receive(low, stage, pass);
	for (uint32_t i = 0; i < n_ops_of(&low->num, stage); i++) {
		uint32_t op = op_at(&low->num, stage, i);

		if (low->model->op[op].phase == MQ_BACKWARD)
			continue;
		if (low->num.unit_of[op] != unit) {
			mq_sync_gather(low, stage, unit = low->num.unit_of[op], MQ_FORWARD);
			mq_offload_leave(low, stage, unit);
		}
		if (pass == MQ_PASS_F_FIRST)
			mq_sync_before(low, op);
		forward_op(low, op, &(struct visit){ MQ_FORWARD, 0, false });
	}
	if (unit != MQ_NONE)
		mq_offload_leave(low, stage, MQ_NONE);
	mq_template_end(low);
}

/* The last GEMM among first .. i, i + 1 if there is none: recomputation may stop before it, since the backward pass
 * needs no output of it or of later ops, except cheap ones. */
static uint32_t last_product(const struct mq_low *low, uint32_t stage, uint32_t first, uint32_t i)
{
	for (uint32_t k = i + 1; k-- > first;)
		if (low->model->op[op_at(&low->num, stage, k)].kind == MQ_OP_GEMM)
			return k;
	return i + 1;
}

/* Recomputes ops i .. of a unit of this stage before its backward, if `again`. */
static void enter_unit(struct mq_low *low, uint32_t stage, uint32_t i, bool again)
{
	uint32_t unit = low->num.unit_of[op_at(&low->num, stage, i)], first = i;

	if (low->software->backward_prefetch && i + 1 < n_ops_of(&low->num, stage))
		mq_sync_gathered(low);
	else
		mq_sync_gather(low, stage, unit, MQ_BACKWARD);
	while (first > 0 && low->num.unit_of[op_at(&low->num, stage, first - 1)] == unit)
		first--;
	if (low->software->backward_prefetch && first > 0)
		mq_sync_gather_ahead(low, stage, low->num.unit_of[op_at(&low->num, stage, first - 1)]);
	uint32_t end = low->plan->early_stop ? last_product(low, stage, first, i) : i + 1;
	for (uint32_t k = first; again && k < end; k++) {
		uint32_t op = op_at(&low->num, stage, k);

		if (mq_low_config(low, op)->recompute == MQ_RECOMPUTE_FULL && low->model->op[op].layer != MQ_NONE)
			forward_op(low, op, &(struct visit){ MQ_FORWARD, 0, true });
	}
}

static void explicit_backward(struct mq_low *low, uint32_t stage)
{
	/* Outputs of this stage's forward pass that backward ops of earlier stages need. */
	for (uint32_t i = 0; i < n_ops_of(&low->num, stage); i++) {
		uint32_t op = op_at(&low->num, stage, i);

		for (uint32_t t = low->moves.out_first[op]; t < low->moves.out_first[op + 1]; t++)
			if (low->moves.transfer[t].channel && low->model->op[op].phase == MQ_FORWARD)
				mq_transfer_emit(low, t);
	}
	for (uint32_t i = 0; i < n_ops_of(&low->num, stage); i++) {
		uint32_t op = op_at(&low->num, stage, i);

		if (low->model->op[op].phase == MQ_BACKWARD)
			forward_op(low, op, &(struct visit){ MQ_BACKWARD, 0, false });
	}
}

void mq_pass_backward(struct mq_low *low, uint32_t stage, enum mq_pass pass)
{
	bool split = mq_pipeline_splits(low->plan->pipeline);
	bool kept = mq_low_keeps_one(low) && (pass == MQ_PASS_B_FIRST || low->plan->micro_batches == 1);
	uint32_t unit = MQ_NONE;

	mq_template_begin(low, stage, pass);
	mq_transfer_receive(low, stage, pass);
	for (uint32_t t = 0; t < low->moves.n; t++)
		if (low->moves.transfer[t].channel && low->moves.transfer[t].from_stage == stage)
			low->moves.transfer[t].waits = low->moves.transfer[t].n_waits;
	if (low->num.explicit_backward)
		explicit_backward(low, stage);
	for (uint32_t i = n_ops_of(&low->num, stage); i-- > 0;) {
		uint32_t op = op_at(&low->num, stage, i);

		if (!low->num.explicit_backward && low->num.unit_of[op] != unit) {
			mq_offload_return(low, stage, low->num.unit_of[op]);
			enter_unit(low, stage, i, !kept);
			unit = low->num.unit_of[op];
		}
		uint32_t later = mq_low_deferred(low, op);
		bool now = !later || pass == MQ_PASS_B || (pass == MQ_PASS_B_LAST && later < low->plan->micro_batches);
		if (!low->num.explicit_backward)
			backward_op(low, op, split || !now ? 1 : 0);
		if (!split)
			mq_sync_after(low, op, pass == MQ_PASS_B_LAST);
	}
	mq_template_end(low);
}

void mq_pass_reduce(struct mq_low *low, uint32_t stage)
{
	mq_template_begin(low, stage, MQ_PASS_REDUCE);
	for (uint32_t i = 0; i < n_ops_of(&low->num, stage); i++)
		for (uint32_t n = mq_low_deferred(low, op_at(&low->num, stage, i)); n > 0; n--)
			compute(low, op_at(&low->num, stage, i), &(struct visit){ MQ_BACKWARD, 2, false }, NULL, 0);
	mq_sync_reduce(low, stage);
	mq_template_end(low);
}

void mq_pass_weights(struct mq_low *low, uint32_t stage, enum mq_pass pass)
{
	mq_template_begin(low, stage, pass);
	for (uint32_t i = n_ops_of(&low->num, stage); i-- > 0;) {
		uint32_t op = op_at(&low->num, stage, i);

		if (mq_duplicates(low, op) > 1)
			whole_gradient(low, op);
		else if (!trains_weights(low, op))
			continue;
		else if (low->model->op[op].kind == MQ_OP_GEMM || low->model->op[op].kind == MQ_OP_CONV ||
			 low->model->op[op].kind == MQ_OP_ROUTER)
			compute(low, op, &(struct visit){ MQ_BACKWARD, 2, false }, NULL, 0);
		mq_sync_after(low, op, pass == MQ_PASS_W_LAST);
	}
	mq_template_end(low);
}
