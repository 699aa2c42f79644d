/*
 * memory.c - what each device must hold at the worst moment of a step.
 *
 * Static: parameters, gradients, optimizer state (mixed precision Adam: fp32 master and two moments, so
 * 16 bytes per parameter with 16-bit gradients and 18 with fp32 ones; Rajbhandari et al. 2020), each over
 * the ZeRO shards that hold it. Dynamic: kept activations of the micro-batches in flight, walked through
 * the rank's own pipeline order, plus the working set of the layer that is being recomputed, the gathered
 * parameters of two layers under ZeRO-3, and receive buffers of the stage boundaries. The device's
 * calibration adds the reserve of context and libraries, and multiplies what is dynamic by its
 * fragmentation.
 *
 * Not modelled: temporary workspaces of single kernels; activations are freed per micro-batch, not per op.
 */
#include <math.h>
#include <stdio.h>

#include "lower/program.h"

/* What one position of a stage holds; activations per micro-batch. */
struct holding {
	double parameter_B, gradient_B, optimizer_B;
	double activation_B;     /* kept from forward to backward, one micro-batch */
	double working_B;        /* largest layer's recomputation, or gathered parameters */
	double boundary_B;       /* largest tensor received */
};

static double state_bytes(const struct mq_train *train)
{
	static const double moments[MQ_N_OPTIMIZERS] = { [MQ_OPTIMIZER_ADAM] = 2,
							 [MQ_OPTIMIZER_SGD] = 0,
							 [MQ_OPTIMIZER_MOMENTUM] = 1 };
	double master = mq_dtype_size(train->dtype) < 4 ? 4 : 0;

	return master + 4 * moments[train->optimizer];
}

static void add_parameters(const struct mq_low *low, uint32_t op, const double split[MQ_N_DIMS],
			   struct holding *h, double *gathered)
{
	const struct mq_config *c = mq_low_config(low, op);
	const struct mq_op *o = &low->model->op[op];
	uint32_t tied = o->tied;
	double elems = mq_op_param_shard(o, split), shard = mq_shard_of(low, op);

	/* A stage that uses another stage's parameters holds a copy of its own. */
	if (tied != MQ_NONE && low->stage_of[tied] != low->stage_of[op])
		elems += mq_op_param_shard(&low->model->op[tied], split);
	double bytes = elems * mq_dtype_size(low->train->dtype);
	h->parameter_B += c->sync == MQ_SYNC_ZERO3 ? bytes / shard : bytes;
	if (low->train->infer)
		return;
	if (c->sync == MQ_SYNC_ZERO3)
		*gathered += bytes;
	double grads = elems * mq_dtype_size(low->train->grad_dtype);
	bool sharded = c->sync == MQ_SYNC_ZERO2 || c->sync == MQ_SYNC_ZERO3;
	h->gradient_B += sharded ? grads / shard : grads;
	if (!low->plan->offload_optimizer)
		h->optimizer_B += elems * state_bytes(low->train) / shard;
}

/* Activations that an op keeps; `again` is what recomputation holds for the moment. */
static double kept(const struct mq_low *low, uint32_t op, const struct mq_share *share, double *again)
{
	const struct mq_op *o = &low->model->op[op];
	double size = mq_dtype_size(low->train->dtype);
	double all = mq_op_saved_shard(o, share, false) * size;
	uint8_t recompute = mq_low_config(low, op)->recompute;

	if (low->train->infer)
		return 0;
	if (recompute == MQ_RECOMPUTE_FULL && o->layer != MQ_NONE) {
		*again += all;
		return 0;
	}
	if (recompute == MQ_RECOMPUTE_SELECTIVE) {
		double rest = mq_op_saved_shard(o, share, true) * size;

		*again += all - rest;
		return rest;
	}
	return all;
}

/* The tensors that enter a layer are what full recomputation keeps of it. */
static double layer_input(const struct mq_low *low, uint32_t op, const struct mq_share *share)
{
	const struct mq_model *m = low->model;
	double elems = 0;

	if (mq_low_config(low, op)->recompute != MQ_RECOMPUTE_FULL || m->op[op].layer == MQ_NONE ||
	    low->train->infer)
		return 0;
	for (uint32_t i = m->in_first[op]; i < m->in_first[op + 1]; i++) {
		const struct mq_edge *e = &m->edge[m->in_edge[i]];

		if (m->op[e->src].layer != m->op[op].layer && m->op[e->src].kind != MQ_OP_INPUT)
			elems = fmax(elems, e->elems);
	}
	return elems * share->samples / fmax(1, share->split[MQ_DIM_SEQ]) *
	       mq_dtype_size(low->train->dtype);
}

static double received(const struct mq_low *low, uint32_t op, const struct mq_share *share)
{
	const struct mq_model *m = low->model;
	double most = 0;

	for (uint32_t i = m->in_first[op]; i < m->in_first[op + 1]; i++) {
		const struct mq_edge *e = &m->edge[m->in_edge[i]];

		if (low->stage_of[e->src] != low->stage_of[op])
			most = fmax(most, e->elems * share->samples *
						  mq_dtype_size(low->train->dtype));
	}
	return most;
}

static struct holding hold(const struct mq_low *low, uint32_t stage, uint32_t rank)
{
	struct holding h = { 0 };
	double again = 0, gathered = 0, entry = 0;
	uint32_t unit = MQ_NONE;

	for (uint32_t i = low->stage_first[stage]; i < low->stage_first[stage + 1]; i++) {
		uint32_t op = low->stage_op[i], p = 0;
		const struct mq_config *c = mq_low_config(low, op);
		struct mq_share share = { 0 };

		while (p < c->n_devices && c->device[p] != rank)
			p++;
		if (p == c->n_devices)
			continue;
		if (low->unit_of[op] != unit) {
			h.activation_B += entry;
			unit = low->unit_of[op];
			again = gathered = entry = 0;
		}
		share.samples = mq_low_samples(low, c, p);
		for (int d = 0; d < MQ_N_DIMS; d++)
			share.split[d] = c->split[d];
		add_parameters(low, op, share.split, &h, &gathered);
		if (low->model->profile.memory_B) /* measured models: all that the op holds */
			h.parameter_B += low->model->profile.memory_B[op];
		h.activation_B += kept(low, op, &share, &again);
		entry = fmax(entry, layer_input(low, op, &share));
		h.working_B = fmax(h.working_B, again + 2 * gathered);
		h.boundary_B = fmax(h.boundary_B, received(low, op, &share));
	}
	h.activation_B += entry;
	return h;
}

/* Walks the order of the device's pipeline rank; several chunks add up. */
static double peak_activations(struct mq_low *low, uint32_t rank, const struct holding *h)
{
	char message[256];
	uint32_t n, release = low->plan->pipeline == MQ_PIPE_ZB_H1 ? MQ_PASS_W : MQ_PASS_B;
	double now = 0, peak = 0;
	struct mq_slot *slot = mq_pipeline_order(low->plan, low->n_ranks, rank, low->train->infer,
						 &low->scratch, &n, message);

	for (uint32_t i = 0; slot && i < n; i++) {
		if (slot[i].pass == MQ_PASS_F)
			now += h[slot[i].chunk].activation_B;
		peak = fmax(peak, now);
		if (slot[i].pass == release)
			now -= h[slot[i].chunk].activation_B;
	}
	return peak;
}

static struct mq_memory device_memory(struct mq_low *low, uint32_t rank, uint32_t device)
{
	uint32_t chunks = low->n_stages / low->n_ranks;
	struct holding *h = mq_arena_array(&low->scratch, chunks, struct holding);
	struct mq_memory m = { 0 };
	double working = 0, boundary = 0;

	for (uint32_t k = 0; k < chunks; k++) {
		h[k] = hold(low, k * low->n_ranks + rank, device);
		m.parameter_B += h[k].parameter_B;
		m.gradient_B += h[k].gradient_B;
		m.optimizer_B += h[k].optimizer_B;
		working = fmax(working, h[k].working_B);
		boundary = fmax(boundary, h[k].boundary_B);
	}
	m.activation_B = peak_activations(low, rank, h) + working;
	m.buffer_B = 2 * boundary;
	uint32_t calib = low->rq->cluster->device[device].calib;
	double fragmentation = 1;
	if (calib != MQ_NONE) {
		m.reserve_B = low->rq->calib->device[calib].reserve_B;
		fragmentation = low->rq->calib->device[calib].fragmentation;
	}
	m.peak_B = m.parameter_B + m.gradient_B + m.optimizer_B + m.reserve_B +
		   fragmentation * (m.activation_B + m.buffer_B);
	return m;
}

/* All devices of a rank hold the same where every op of its stages splits evenly over the same devices. */
static bool uniform(const struct mq_low *low, uint32_t rank)
{
	uint32_t devset = MQ_NONE, type = MQ_NONE;

	for (uint32_t op = 0; op < low->model->n_ops; op++) {
		const struct mq_config *c = mq_low_config(low, op);
		uint32_t n = c->split[MQ_DIM_BATCH];

		if (low->stage_of[op] % low->n_ranks != rank)
			continue;
		if (c->share || fmod(low->train->batch / low->plan->micro_batches, n) != 0)
			return false;
		if (devset == MQ_NONE) {
			devset = low->devset_of[low->plan->config_of[op]];
			for (uint32_t d = 0; d < c->n_devices; d++) {
				uint32_t calib = low->rq->cluster->device[c->device[d]].calib;

				if (d && calib != type)
					return false;
				type = calib;
			}
		}
		if (low->devset_of[low->plan->config_of[op]] != devset)
			return false;
	}
	return true;
}

static void largest(const struct mq_memory *m, const char **name, double *bytes)
{
	const struct {
		const char *name;
		double bytes;
	} parts[] = { { "parameters", m->parameter_B },   { "gradients", m->gradient_B },
		      { "optimizer state", m->optimizer_B }, { "activations", m->activation_B },
		      { "buffers", m->buffer_B },         { "reserve", m->reserve_B } };

	*bytes = -1;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (parts[i].bytes > *bytes) {
			*bytes = parts[i].bytes;
			*name = parts[i].name;
		}
}

static void judge(struct mq_low *low)
{
	struct mq_lowered *out = low->out;
	const struct mq_cluster *cluster = low->rq->cluster;
	double worst = -1;

	for (uint32_t i = 0; i < out->n_devices; i++) {
		double limit = cluster->device[out->device[i]].memory_B;
		double load = limit > 0 ? out->memory[i].peak_B / limit : 0;

		if (load > worst) {
			worst = load;
			out->worst = i;
		}
	}
	if (worst <= 1)
		return;
	const struct mq_memory *m = &out->memory[out->worst];
	const struct mq_device *d = &cluster->device[out->device[out->worst]];
	const char *name = "";
	double bytes;
	largest(m, &name, &bytes);
	out->verdict = MQ_VERDICT_OOM;
	snprintf(out->message, sizeof(out->message),
		 "device %u (%s) needs %.2f GB of its %.2f GB; largest: %s %.2f GB",
		 out->device[out->worst], d->name, m->peak_B / 1e9, d->memory_B / 1e9, name,
		 bytes / 1e9);
}

enum mq_status mq_low_memory(struct mq_low *low)
{
	struct mq_lowered *out = low->out;
	uint32_t *first = mq_arena_array(&low->scratch, low->n_ranks, uint32_t);
	bool *even = mq_arena_array(&low->scratch, low->n_ranks, bool);

	for (uint32_t r = 0; r < low->n_ranks; r++) {
		first[r] = MQ_NONE;
		even[r] = uniform(low, r);
	}
	for (uint32_t i = 0; i < out->n_devices; i++) {
		uint32_t r = low->rank_of_device[out->device[i]];

		if (even[r] && first[r] != MQ_NONE) {
			out->memory[i] = out->memory[first[r]];
			continue;
		}
		out->memory[i] = device_memory(low, r, out->device[i]);
		first[r] = i;
	}
	judge(low);
	return MQ_OK;
}
