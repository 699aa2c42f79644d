/* cost.c - see cost.h. SPDX-License-Identifier: Apache-2.0 */
#include "hybrid/cost.h"

#include <math.h>

#include "lib/classes.h"
#include "lib/plans.h"

/* ---- cache ------------------------------------------------------------------------------------- */

enum { N_ANSWERS = 10 };
/* Relative difference in speed up to which devices of a type are planned as equal. */
static const double SAME = 0.05;

/* The cached answer of a query, [N_ANSWERS] zeroes if new; *known: it was cached. */
static double *cached(struct mq_hybrid_cost *c, uint32_t kind, uint32_t a, uint32_t b, uint32_t d, uint64_t e,
		      bool *known)
{
	uint64_t key = mq_map_mix((uint64_t)kind << 60 | (uint64_t)a << 40 | (uint64_t)b << 20 | d, e);
	uint32_t before = c->asked.n, at = mq_map_add(&c->asked, key);

	*known = at < before;
	if (!*known) {
		double *answer = mq_arena_array(c->arena, N_ANSWERS, double);

		MQ_PUSH(c->arena, c->answer, at, c->answer_room, answer);
		at--;
	}
	return c->answer[at];
}

/* ---- cost queries ------------------------------------------------------------------------------- */

static double update_time(const struct mq_hybrid_cost *c, uint32_t block, uint32_t rank, uint32_t tp)
{
	double sum = 0;

	for (uint32_t i = c->blocks.first[block]; i < c->blocks.first[block + 1]; i++) {
		uint32_t op = c->blocks.op[i], split[MQ_N_DIMS];

		if (c->problem->q->train->infer || !mq_op_trained(&c->problem->q->model->op[op]))
			continue;
		mq_tensor_split(c->problem->q->model, op, tp, true, true, split);
		sum += c->problem->costs->op_time(c->problem->costs->context, op, MQ_UPDATE, rank, split, 1);
	}
	return sum;
}

/* Busy seconds of a block's kernels on one of tp ranks, without launches. */
static double busy_time(const struct mq_hybrid_cost *c, uint32_t block, uint32_t rank, uint32_t tp, uint32_t samples)
{
	const struct mq_costs *costs = c->problem->costs;
	double sum = 0;

	for (uint32_t i = c->blocks.first[block]; costs->op_busy && i < c->blocks.first[block + 1]; i++) {
		uint32_t op = c->blocks.op[i], split[MQ_N_DIMS];

		mq_tensor_split(c->problem->q->model, op, tp, true, true, split);
		sum += costs->op_busy(costs->context, op, MQ_FORWARD, rank, split, samples);
		if (!c->problem->q->train->infer)
			sum += costs->op_busy(costs->context, op, MQ_BACKWARD, rank, split, samples);
	}
	return sum;
}

/* Forward seconds of the block's ops that selective recomputation repeats. */
static double repeat_time(const struct mq_hybrid_cost *c, uint32_t block, uint32_t rank, uint32_t tp, uint32_t samples)
{
	const struct mq_problem *problem = c->problem;
	double sum = 0;

	for (uint32_t i = c->blocks.first[block]; i < c->blocks.first[block + 1]; i++) {
		uint32_t op = c->blocks.op[i], split[MQ_N_DIMS];

		if (!(problem->q->model->op[op].saved_selective > 0))
			continue;
		mq_tensor_split(problem->q->model, op, tp, false, true, split);
		sum += problem->costs->op_time(problem->costs->context, op, MQ_FORWARD, rank, split, samples);
	}
	return sum;
}

/* Seconds: [0] forward, [1] backward of a layer; both passes of [2] head, [3] tail; updates of [4] layer, [5] head, [6]
 * tail; [7] selective recomputation of a layer. */
static const double *query_work(struct mq_hybrid_cost *c, uint32_t type, uint32_t tp, uint32_t samples)
{
	bool known;
	double *value = cached(c, 1, type, tp, 0, samples, &known);
	const uint32_t *rank = c->type[type].rank;

	if (known)
		return value;
	for (uint32_t b = 0; b < c->blocks.n; b++) {
		double s[2], share = c->part[b] ? 1 : c->n_layers;

		mq_block_times(c->problem, &c->blocks, b, rank, tp, samples, s);
		if (c->part[b]) {
			value[1 + c->part[b]] += s[0] + s[1];
		} else {
			value[0] += s[0] / share;
			value[1] += s[1] / share;
			value[7] += repeat_time(c, b, rank[0], tp, samples) / share;
		}
		value[4 + c->part[b]] += update_time(c, b, rank[0], tp) / share;
	}
	return value;
}

/* Busy seconds of a layer, head and tail. `spread`: the least for these samples over shares of nearby sizes, as the
 * replicas of a stage may differ, and ranks with experts get the tokens of others. */
static const double *query_busy(struct mq_hybrid_cost *c, uint32_t type, uint32_t tp, uint32_t samples, bool spread)
{
	bool known;
	double *value = cached(c, 5, type, tp, spread, samples, &known);
	double experts = c->problem->q->model->experts ? 64 : 8, n = spread ? ceil(samples / 4.0) : samples;
	double last = spread ? experts * samples : samples, step = fmax(1, floor((last - n) / 64));

	if (known)
		return value;
	value[0] = value[1] = value[2] = INFINITY;
	for (; n <= last; n += step) {
		double sum[3] = { 0 };

		for (uint32_t b = 0; b < c->blocks.n; b++)
			sum[c->part[b]] += busy_time(c, b, c->type[type].rank[0], tp, (uint32_t)n) * samples / n;
		value[0] = fmin(value[0], sum[0] / c->n_layers);
		value[1] = fmin(value[1], sum[1]);
		value[2] = fmin(value[2], sum[2]);
	}
	return value;
}

/* Adds a block to the answer of query_memory. */
static void add_memory(const struct mq_hybrid_cost *c, enum mq_sync sync, enum mq_recompute recompute,
		       const struct mq_hybrid_stage *stage, uint32_t samples, uint32_t block, double *value)
{
	const struct mq_model *m = c->problem->q->model;
	uint32_t at = c->part[block];
	double weight = at ? 1 : 1.0 / c->n_layers;

	for (uint32_t i = c->blocks.first[block]; i < c->blocks.first[block + 1]; i++) {
		uint32_t op = c->blocks.op[i], split[MQ_N_DIMS];
		struct mq_op_memory memory;
		double share[MQ_N_DIMS];

		mq_tensor_split(m, op, stage->t, true, true, split);
		for (int d = 0; d < MQ_N_DIMS; d++)
			share[d] = split[d];
		c->problem->costs->op_memory(c->problem->costs->context, op, split, samples, sync, stage->d, recompute,
					     &memory);
		value[at] += (mq_op_static_B(&memory) - (c->host ? memory.optimizer_B : 0)) * weight;
		value[3 + at] += memory.kept_B * weight;
		value[9] += at ? 0 : memory.again_B * weight;
		if (mq_op_trained(&m->op[op]))
			value[6 + at] += mq_op_param_shard(&m->op[op], share) * weight;
	}
}

/* Bytes, each of layer, head, tail: [0-2] static, [3-5] activations; [6-8] parameters (elements); [9] recomputed
 * activations of a layer. */
static const double *query_memory(struct mq_hybrid_cost *c, enum mq_sync sync, enum mq_recompute recompute,
				  const struct mq_hybrid_stage *stage, uint32_t samples)
{
	const struct mq_costs *costs = c->problem->costs;
	bool known, by_layer = costs->memory_by_layer && costs->memory_by_layer(costs->context, recompute);
	double *value =
		cached(c, c->host ? 6 : 2, stage->t, sync, recompute, (uint64_t)stage->d << 32 | samples, &known);
	struct mq_arena_mark mark = mq_arena_mark(&c->scratch);
	double(*of)[N_ANSWERS] = known ? NULL : mq_arena_alloc(&c->scratch, c->blocks.n * sizeof(*of));

	for (uint32_t b = 0; b < c->blocks.n && !known; b++) {
		uint32_t like = by_layer ? b : c->blocks.like[b];

		if (like == b)
			add_memory(c, sync, recompute, stage, samples, b, of[b]);
		for (int i = 0; i < N_ANSWERS; i++)
			value[i] += of[like][i];
	}
	mq_arena_rewind(&c->scratch, mark);
	return value;
}

/* Latency and seconds per byte of the gradient all-reduce over a stage's replicas. */
static const double *query_sync(struct mq_hybrid_cost *c, const struct mq_hybrid_stage *stage)
{
	bool known;
	double *value =
		cached(c, 3, stage->rank[0], stage->t, stage->d, (uint64_t)stage->stride << 32 | stage->inner, &known);
	const double small = 1e5, large = 1e8;
	double small_s, large_s;

	if (known)
		return value;
	struct mq_arena_mark mark = mq_arena_mark(&c->scratch);
	uint32_t *member = mq_arena_array(&c->scratch, stage->d, uint32_t);

	for (uint32_t i = 0; i < stage->d; i++)
		member[i] = stage->rank[i / stage->inner * stage->stride + i % stage->inner * stage->t];
	enum mq_dtype dtype = c->problem->q->train->dtype;
	double width = mq_dtype_size(dtype);
	bool fine = mq_collective_s(c->problem, MQ_COLL_ALL_REDUCE, member, stage->d, small / width, dtype, &small_s) &&
		    mq_collective_s(c->problem, MQ_COLL_ALL_REDUCE, member, stage->d, large / width, dtype, &large_s);

	mq_arena_rewind(&c->scratch, mark);
	value[1] = fine ? fmax(0, (large_s - small_s) / (large - small)) : (double)INFINITY;
	value[0] = fine ? fmax(0, small_s - small * value[1]) : (double)INFINITY;
	return value;
}

static double transfer_s(struct mq_hybrid_cost *c, uint32_t src, uint32_t dst, double bytes)
{
	bool known;
	double *value = cached(c, 4, src, dst, 0, (uint64_t)bytes, &known);
	double seconds;

	if (!known)
		value[0] = c->problem->costs->transfer(c->problem->costs->context, src, dst, bytes, &seconds) ?
				   seconds :
				   (double)INFINITY;
	return value[0];
}

/* ---- stages ------------------------------------------------------------------------------------- */

struct stage_times {
	double layer;        /* s per micro-batch and layer */
	double layer_floor;  /* lower bound of `layer` for any plan of these stages; 0 unless --proof asks */
	double fixed_floor;  /* lower bound of `fixed` */
	double fixed;        /* s per micro-batch of head or tail */
	double most_samples; /* samples of the replica with most */
	double part; /* fraction of a sample per rank under context parallelism with less than one each; else 1 */
};

/* The stage with the ops after the last layer: in V schedules that of the first layers. */
static uint32_t tail_stage(const struct mq_hybrid_candidate *k)
{
	return mq_pipeline_is_v(k->pipeline) ? 0 : k->n_stages - 1;
}

static double layer_time(const struct mq_hybrid_candidate *k, const double *work)
{
	double again = k->recompute == MQ_RECOMPUTE_FULL      ? work[0] :
		       k->recompute == MQ_RECOMPUTE_SELECTIVE ? work[7] :
								0;

	return work[0] + again + work[1];
}

/* Seconds of context-parallel communication of a layer, without overlap: ring attention passes keys and values around,
 * and in the backward pass also their gradients; Ulysses exchanges heads for tokens by all-to-all, of queries, keys and
 * values, and back of the output. */
static double context_comm(struct mq_hybrid_cost *c, const struct mq_hybrid_stage *stage, double samples)
{
	const struct mq_model *m = c->problem->q->model;

	if (stage->inner < 2 || !m->heads)
		return 0;
	bool infer = c->problem->q->train->infer;
	double queries_B = samples * m->seq * m->hidden / stage->t * mq_dtype_size(c->problem->q->train->dtype);
	double keys_B = 2 * queries_B * (m->kv_heads ? m->kv_heads : m->heads) / m->heads,
	       dealt = stage->inner / stage->ring;
	uint32_t last = stage->rank[(stage->inner - 1) * stage->t], first = stage->rank[0]; /* the longest hop */
	double around_s = stage->ring > 1 ? transfer_s(c, last, first, floor(keys_B)) : 0;
	double deal_s = dealt > 1 ? transfer_s(c, last, first, floor((2 * queries_B + keys_B) * (1 - 1 / dealt))) : 0;

	return (infer ? 1 : 3) * (stage->ring - 1) * around_s + (infer ? 1 : 2) * deal_s;
}

/* Times of a stage. Samples follow speed on mixed devices unless the candidate is even: time = S / sum of speeds. */
static bool time_stage(struct mq_hybrid_cost *c, const struct mq_hybrid_candidate *k, uint32_t s, double samples,
		       struct stage_times *out)
{
	const struct mq_hybrid_stage *stage = &k->stage[s];
	double mean = ceil(samples / stage->d), speed = 0, slowest = 0, head = 0, tail = 0, fastest = 0, speed_ub = 0,
	       head_lb = INFINITY, tail_lb = INFINITY;

	out->part = fmin(1, samples / stage->d);
	c->could_part |= out->part < 1 && samples * stage->inner >= stage->d;
	if (out->part < 1 && (!c->parts || samples * stage->inner < stage->d))
		return false;
	for (uint32_t i = 0; i < stage->n_shares; i++) {
		const double *work = query_work(c, stage->share[i].type, stage->t, (uint32_t)mean);
		double layer = layer_time(k, work);

		slowest = fmax(slowest, layer);
		if (c->problem->bound) { /* only for --proof */
			const double *busy = query_busy(c, stage->share[i].type, stage->t, (uint32_t)mean,
							stage->n_shares > 1 || c->problem->q->model->experts);

			speed_ub += stage->share[i].replicas * mean / busy[0];
			head_lb = fmin(head_lb, busy[1]);
			tail_lb = fmin(tail_lb, busy[2]);
		}
		speed += stage->share[i].replicas * mean / layer;
		fastest = fmax(fastest, mean / layer);
		head = fmax(head, work[2]);
		tail = fmax(tail, work[3]);
	}
	out->layer = slowest;
	out->most_samples = mean;
	if (stage->n_shares > 1 && !k->even && out->part == 1) { /* shares are whole numbers of samples */
		out->layer = 0;
		out->most_samples = fmin(samples, ceil(samples * fastest / speed));
		for (uint32_t i = 0; i < stage->n_shares; i++) {
			const double *work = query_work(c, stage->share[i].type, stage->t, (uint32_t)mean);
			double one = layer_time(k, work) / mean;

			out->layer = fmax(out->layer, one * ceil(samples / (one * speed) - 1e-6));
		}
	}
	out->layer = out->layer * out->part + context_comm(c, stage, out->part * mean);
	out->fixed = out->part * ((s == 0 ? head : 0) + (s == tail_stage(k) ? tail : 0));
	out->layer_floor = speed_ub > 0 ? samples / speed_ub : 0; /* samples as divisible */
	out->fixed_floor = ((s == 0 ? head_lb : 0) + (s == tail_stage(k) ? tail_lb : 0)) / mean * samples / stage->d;
	return isfinite(out->layer) && out->layer > 0;
}

/* Balances layers over the stages: the least B with sum floor((B - fixed) / layer) >= L, by bisection. */
static bool balance_layers(const struct mq_hybrid_cost *c, struct mq_hybrid_candidate *k,
			   const struct stage_times *time)
{
	uint32_t left = c->n_layers;
	double low = 0, high = 0;

	if (k->n_stages > c->n_layers)
		return false;
	for (uint32_t s = 0; s < k->n_stages; s++) {
		k->stage[s].layers = k->even ? c->n_layers / k->n_stages + (s < c->n_layers % k->n_stages) : 1;
		high = fmax(high, time[s].fixed + c->n_layers * time[s].layer);
	}
	if (k->even)
		return true;
	for (int round = 0; round < 50; round++) {
		double middle = (low + high) / 2, room = 0;

		for (uint32_t s = 0; s < k->n_stages; s++)
			room += fmax(1, floor((middle - time[s].fixed) / time[s].layer));
		if (room >= c->n_layers)
			high = middle;
		else
			low = middle;
	}
	for (uint32_t s = 0; s < k->n_stages; s++)
		k->stage[s].layers = (uint32_t)fmax(1, floor((low - time[s].fixed) / time[s].layer));
	for (uint32_t s = 0; s < k->n_stages; s++)
		left -= k->stage[s].layers < left ? k->stage[s].layers : left;
	while (left) { /* the last few to where they cost least */
		uint32_t best = 0;
		double least = INFINITY;

		for (uint32_t s = 0; s < k->n_stages; s++) {
			double after = time[s].fixed + (k->stage[s].layers + 1) * time[s].layer;

			if (after < least)
				least = after, best = s;
		}
		k->stage[best].layers++;
		left--;
	}
	return true;
}

/* Most micro-batches in flight on a rank, weighted by its share of layers. Interleaved: the chunks that run before the
 * first backward pass (Megatron core); V: on every rank as many as on the first rank of 1F1B, as its weight gradients
 * wait for the end. */
static double in_flight(const struct mq_hybrid_candidate *k, uint32_t s)
{
	const struct mq_pipeline_kind *kind = mq_pipeline_kind(k->pipeline);
	double m = k->micro_batches, p = k->n_stages, chunks = k->chunks;

	if (kind->keeps_all)
		return m;
	if (mq_pipeline_is_v(k->pipeline))
		return fmin(m, p);
	return fmin(m, kind->rounds ? (2 * (p - s - 1) + (chunks - 1) * p + 1) / chunks : p - s);
}

/* Bytes by which a stage exceeds memory: a lower bound, without what lives only while an op runs, so that no plan that
 * fits is dropped. */
static double stage_excess(struct mq_hybrid_cost *c, const struct mq_hybrid_candidate *k, uint32_t s,
			   const struct stage_times *time)
{
	const struct mq_hybrid_stage *stage = &k->stage[s];
	const double *m = query_memory(c, k->sync, k->recompute, stage, (uint32_t)time->most_samples);
	bool first = s == 0, last = s == tail_stage(k), v = mq_pipeline_is_v(k->pipeline);
	double flight = in_flight(k, s), excess = -INFINITY;
	double away = fmin(stage->layers, mq_software_of(c->problem)->offload_layers);
	double held = stage->layers * m[0] + (first ? m[1] : 0) + (last ? m[2] : 0);
	double kept = flight * ((stage->layers - away) * m[3] + (first && !v ? m[4] : 0));
	if (last) /* tail activations are freed before the layer before them is recomputed; a V has one set */
		kept += (v ? 0 : flight - 1) * m[5] + fmax(m[5], m[9]);
	else
		kept += m[9];
	for (uint32_t i = 0; i < stage->n_shares; i++) {
		const struct mq_hybrid_type *type = &c->type[stage->share[i].type];

		excess = fmax(excess, held + type->fragmentation * time->part * kept - type->memory_B);
	}
	return excess;
}

/* Seconds of a stage's optimizer step. */
static double stage_update(struct mq_hybrid_cost *c, const struct mq_hybrid_candidate *k, uint32_t s,
			   const struct stage_times *time)
{
	const struct mq_hybrid_stage *stage = &k->stage[s];
	const double *work = query_work(c, stage->share[0].type, stage->t, (uint32_t)time->most_samples);
	double update = stage->layers * work[4] + (s == 0 ? work[5] : 0) + (s == tail_stage(k) ? work[6] : 0);

	if (c->problem->q->train->infer)
		return 0;
	return k->sync >= MQ_SYNC_ZERO1 ? update / stage->d : update;
}

/* Seconds of a stage's gradient and parameter collectives per step. *beside: compute that can overlap them, the last
 * backward pass for gradients, every pass with ZeRO-3; *after: exposed all-gather of new parameters. */
static double gradient_comm(struct mq_hybrid_cost *c, const struct mq_hybrid_candidate *k, uint32_t s,
			    const struct stage_times *time, double *beside, double *after)
{
	const struct mq_hybrid_stage *stage = &k->stage[s];
	const double *m = query_memory(c, k->sync, k->recompute, stage, (uint32_t)time->most_samples);
	double params = stage->layers * m[6] + (s == 0 ? m[7] : 0) + (s == tail_stage(k) ? m[8] : 0);
	const double *line = query_sync(c, stage);
	double once = line[0] + line[1] * params * mq_dtype_size(c->problem->q->train->grad_dtype);

	*after = 0;
	if (k->sync == MQ_SYNC_ZERO3) {
		*beside = k->micro_batches * stage->layers * time->layer;
		return 1.5 * k->micro_batches * once;
	}
	*beside = 2.0 / 3 * stage->layers * time->layer;
	if (k->sync == MQ_SYNC_ALLREDUCE)
		return once;
	*after = mq_software_of(c->problem)->overlap_param_gather ? 0 : once / 2; /* all-gather of new parameters */
	return once / 2;
}

/* Exposed gradient sync of a stage plus its optimizer step. With overlap, at least the last layer's part is exposed;
 * `least` counts no more than that. */
static double stage_sync(struct mq_hybrid_cost *c, const struct mq_hybrid_candidate *k, uint32_t s,
			 const struct stage_times *time, bool least)
{
	double update = stage_update(c, k, s, time), beside, after;

	if (c->problem->q->train->infer || k->stage[s].d == 1)
		return update;
	double all = gradient_comm(c, k, s, time, &beside, &after);

	if (k->sync != MQ_SYNC_ZERO3 && !mq_software_of(c->problem)->overlap_grads)
		return update + after + all;
	return update + after + fmax(all / c->n_layers, least ? 0 : all - beside);
}

void mq_hybrid_stage_times(struct mq_hybrid_cost *c, const struct mq_hybrid_candidate *candidate, bool first, bool last,
			   uint32_t d, uint32_t t, uint32_t layers, double *time_s)
{
	const struct mq_hybrid_type *type = &c->type[0];
	double samples = c->problem->q->train->batch / candidate->micro_batches;
	/* the stage is number 1 of three, or 0 or 1 of two */
	uint32_t s = first ? 0 : 1;
	struct mq_hybrid_candidate k = { .n_stages = first || last ? 2 : 3,
					 .micro_batches = candidate->micro_batches,
					 .chunks = 1,
					 .pipeline = candidate->pipeline,
					 .sync = candidate->sync,
					 .recompute = candidate->recompute };
	struct stage_times time;

	k.stage[s] =
		(struct mq_hybrid_stage){ .d = d, .t = t, .n_shares = 1, .rank = type->rank, .stride = t, .inner = 1 };
	k.stage[s].share[0].replicas = d;
	bool can = time_stage(c, &k, s, samples, &time);

	for (uint32_t l = 1; l <= layers; l++) {
		k.stage[s].layers = l;
		time_s[l] = can ? k.micro_batches * (time.fixed + l * time.layer) + stage_sync(c, &k, s, &time, false) :
				  (double)INFINITY;
	}
}

bool mq_hybrid_estimate(struct mq_hybrid_cost *c, struct mq_hybrid_candidate *k)
{
	struct stage_times time[MQ_HYBRID_MAX_STAGES];
	double samples = c->problem->q->train->batch / k->micro_batches, most = 0, sum = 0, sync = 0;
	double width = mq_dtype_size(c->problem->q->train->dtype), moves = c->problem->q->train->infer ? 1 : 2;

	if (k->n_stages > MQ_HYBRID_MAX_STAGES)
		return false;
	for (uint32_t s = 0; s < k->n_stages; s++)
		if (!time_stage(c, k, s, samples, &time[s]))
			return false;
	if (!balance_layers(c, k, time))
		return false;
	k->excess_B = -INFINITY;
	for (uint32_t s = 0; s < k->n_stages; s++) {
		double f = time[s].fixed + k->stage[s].layers * time[s].layer, move = 0;

		if (s + 1 < k->n_stages) {
			double bytes = c->boundary_elems * time[s].part * ceil(samples / k->stage[s].d) * width;

			move = moves * transfer_s(c, k->stage[s].last_rank, k->stage[s + 1].rank[0], bytes);
		}
		most = fmax(most, fmax(f, move));
		sum += f + move;
		sync = fmax(sync, stage_sync(c, k, s, &time[s], false));
		k->excess_B = fmax(k->excess_B, stage_excess(c, k, s, &time[s]));
	}
	k->step_s = k->micro_batches * most + mq_pipeline_bubble(k->pipeline, k->chunks) * (sum - most) + sync;
	return isfinite(k->step_s);
}

/* Lower bound of the step time of these stages, with layers divisible. A stage computes its M micro-batches after the
 * first one passed the stages before it, and the last one returns through them; of this bubble, zb-h1 can move weight
 * gradients and an interleaved schedule waits for one chunk: a share b remains; for a V, whose wait is a forward pass
 * of any length, b = 0. With w_s the time of a micro-batch in stage s, T >= M w_s + b sum of w_j before it; all hold
 * with equality for w_s = T/M (1 - b/M)^(s-1), and all layers must fit. */
static double step_floor(const struct mq_hybrid_candidate *k, const struct stage_times *time, uint32_t n_layers)
{
	double room = 0, busy = n_layers, m = k->micro_batches, share = 1;
	double b = mq_pipeline_is_v(k->pipeline) ? 0 : mq_pipeline_bubble(k->pipeline, k->chunks);

	for (uint32_t s = 0; s < k->n_stages; s++) {
		if (!(time[s].layer_floor > 0))
			return 0;
		room += share / time[s].layer_floor;
		busy += time[s].fixed_floor / time[s].layer_floor;
		share *= 1 - b / m;
	}
	return m * busy / room * (1 - 1e-8); /* step times are rounded to nine digits */
}

/* The estimate is (m - b) most + b sum + sync, b the bubble factor. For any division of the layers: no stage takes
 * longer than `most`, so sum of (most - fixed) / layer >= layers bounds `most`; `sum` has every layer at least at the
 * fastest stage's time; some stage has at least its even share of layers, whose gradients it exchanges. */
double mq_hybrid_bound(struct mq_hybrid_cost *c, struct mq_hybrid_candidate *k)
{
	struct stage_times time[MQ_HYBRID_MAX_STAGES];
	double samples = c->problem->q->train->batch / k->micro_batches, b = mq_pipeline_bubble(k->pipeline, k->chunks);
	double speed = 0, busy = c->n_layers, fixed = 0, fastest = INFINITY, sync = INFINITY;

	for (uint32_t s = 0; s < k->n_stages; s++) {
		if (!time_stage(c, k, s, samples, &time[s]))
			return INFINITY;
		speed += 1 / time[s].layer;
		busy += time[s].fixed / time[s].layer;
		fixed += time[s].fixed;
		fastest = fmin(fastest, time[s].layer);
		k->stage[s].layers = (c->n_layers + k->n_stages - 1) / k->n_stages;
		sync = fmin(sync, stage_sync(c, k, s, &time[s], k->n_stages > 1));
	}
	double most = busy / speed, sum = fmax(most, fixed + c->n_layers * fastest);
	double bound = (k->micro_batches - b) * most + b * sum + sync;

	k->floor_s = step_floor(k, time, c->n_layers);
	return bound * (1 - 1e-12); /* rounding must not drop ties */
}

/* ---- start -------------------------------------------------------------------------------------- */

/* Samples per second of the whole model on one device. */
static double speed_of(const struct mq_hybrid_cost *c, uint32_t rank)
{
	double sum = 0, s[2];

	for (uint32_t b = 0; b < c->blocks.n; b++) {
		mq_block_times(c->problem, &c->blocks, b, &rank, 1, 1, s);
		sum += s[0] + s[1];
	}
	return sum > 0 ? 1 / sum : 0;
}

/* The type of a device class: one of the same device type and nearly the same speed, else a new one. */
static uint32_t type_for(struct mq_hybrid_cost *c, uint32_t rank, uint32_t room)
{
	const struct mq_device *d = &c->problem->q->cluster->device[rank];
	const struct mq_calib *calib = c->problem->q->calib;
	bool whole = d->kind == MQ_GPU && mq_software_of(c->problem)->allocator != MQ_ALLOCATOR_OTHER;
	bool known = calib && d->calib < calib->n_devices;
	double speed = speed_of(c, rank), memory = d->memory_B > 0 ? d->memory_B : (double)INFINITY;

	memory -= known ? mq_reserve_B(c->problem->q, rank) : 0;

	for (uint32_t t = 0; t < c->n_types; t++) {
		struct mq_hybrid_type *to = &c->type[t];

		if (strcmp(to->name, d->type) || fabs(to->speed - speed) > SAME * fmax(to->speed, speed))
			continue;
		to->memory_B = fmin(to->memory_B, memory);
		to->speed = fmin(to->speed, speed);
		return t;
	}
	c->type[c->n_types] = (struct mq_hybrid_type){
		.name = d->type,
		.speed = speed,
		.memory_B = memory,
		.fragmentation = known && !whole ? calib->device[d->calib].fragmentation : 1,
		.rank = mq_arena_array(c->arena, room, uint32_t),
	};
	return c->n_types++;
}

static void collect_types(struct mq_hybrid_cost *c)
{
	const struct mq_cluster *cluster = c->problem->q->cluster;
	struct mq_devices devices = mq_devices_usable(c->problem, c->arena);
	struct mq_classes classes;

	mq_classes_make(cluster, c->arena, &classes);
	uint32_t *type_of_class = mq_arena_none(c->arena, classes.n);

	c->type = mq_arena_array(c->arena, classes.n, struct mq_hybrid_type);
	c->type_of = mq_arena_none(c->arena, cluster->n_devices);
	for (uint32_t i = 0; i < devices.n; i++) {
		uint32_t rank = devices.rank[i], *t = &type_of_class[classes.of[rank]];

		if (*t == MQ_NONE)
			*t = type_for(c, rank, devices.n);
		c->type_of[rank] = *t;
		c->type[*t].rank[c->type[*t].n++] = rank;
	}
	for (uint32_t t = 0; t < c->n_types; t++)
		c->type[t].per_node = mq_devices_least_per_machine(cluster, c->type[t].rank, c->type[t].n);
}

enum mq_status mq_hybrid_cost_init(struct mq_hybrid_cost *c, const struct mq_problem *problem, struct mq_err *err)
{
	*c = (struct mq_hybrid_cost){ .problem = problem,
				      .arena = problem->arena,
				      .n_layers = problem->q->model->n_layers };
	if (!c->n_layers)
		return mq_bad(err, "'%s' has no repeated layers to deal out", problem->q->model->name);
	mq_map_init(&c->asked, c->arena, 1024);
	mq_blocks_make(problem->q->model, c->arena, &c->blocks);
	c->part = mq_arena_array(c->arena, c->blocks.n, uint8_t);
	for (uint32_t b = 0, outside = 1; b < c->blocks.n; b++) {
		bool layer = problem->q->model->op[c->blocks.op[c->blocks.first[b]]].layer != MQ_NONE;

		outside = layer ? 2 : outside;
		c->part[b] = layer ? 0 : (uint8_t)outside;
	}
	for (uint32_t e = 0; e < c->blocks.n_edges; e++) {
		const struct mq_block_edge *edge = &c->blocks.edge[e];
		uint32_t a = c->blocks.op[c->blocks.first[edge->src]];
		uint32_t b = c->blocks.op[c->blocks.first[edge->dst]];

		if (problem->q->model->op[a].layer != MQ_NONE && problem->q->model->op[b].layer != MQ_NONE)
			c->boundary_elems = fmax(c->boundary_elems, edge->elems);
	}
	collect_types(c);
	return MQ_OK;
}

void mq_hybrid_cost_fini(struct mq_hybrid_cost *c)
{
	mq_arena_fini(&c->scratch);
}
