/* memory.c - peak memory of each device over its pipeline's schedule.
 *
 * For each pass in the rank's order (pipeline.c): saved activations of the micro-batches in flight, plus the peak of
 * the running pass (footprint.c). A micro-batch's activations are freed by its backward, or by its weight gradients if
 * these are a separate pass. If a forward and a backward pass alternate layer by layer, one grows as the other shrinks:
 * together they hold the larger one's saved activations and one more layer. Added are two receive buffers for the
 * largest tensor from another stage, and buffers of the gradient reduction: two buckets, one filling while the other is
 * reduced, or a flat copy of as many gradients as the software takes at once (DeepSpeed: 500 million). The device's
 * calibration adds the reserve of context, libraries and communicators, and a fragmentation factor on dynamic memory.
 * Late-freed tensors (footprint.c) accumulate over forward passes while the host runs ahead, until the next backward
 * pass, for which it waits. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lowering/allocator_replay.h"
#include "maquette/map.h"

static void fuller(struct mq_moment *most, double activation_B, const struct mq_moment *pass)
{
	double now = activation_B + pass->activation_B;

	if (now + pass->buffer_B > most->activation_B + most->buffer_B)
		*most = (struct mq_moment){ now, pass->buffer_B };
}

/* An alternating forward and backward pass; others_B: activations of the other micro-batches. */
static void in_turns(struct mq_moment *most, double others_B, const struct mq_footprint *f,
		     const struct mq_footprint *b)
{
	const struct mq_moment both = {
		.activation_B = fmax(f->kept_B, b->kept_B) + fmax(f->unit_B, b->unit_B) +
				fmax(f->forward.activation_B - f->kept_B, 0) +
				fmax(b->backward.activation_B - b->kept_B, 0),
		.buffer_B = f->forward.buffer_B + b->backward.buffer_B,
	};

	fuller(most, others_B, &both);
}

static double all_of(double now, const struct mq_moment *pass)
{
	return now + pass->activation_B + pass->buffer_B;
}

/* The peak over the order of the device's pipeline rank, its chunks summed. *late_B: what late-freed tensors
 * add to it. */
static struct mq_moment fullest(struct mq_low *low, uint32_t rank, const struct mq_footprint *h, double *late_B)
{
	char message[256];
	uint32_t n, release = mq_pipeline_splits(low->plan->pipeline) ? MQ_PASS_W : MQ_PASS_B;
	double now = 0, waiting = 0, most = 0;
	struct mq_moment peak = { 0 };
	struct mq_arena_mark mark = mq_arena_mark(&low->scratch);
	struct mq_slot *slot =
		mq_pipeline_order(low->plan, low->num.n_ranks, rank, low->train->infer, &low->scratch, &n, message);

	for (uint32_t i = 0; slot && i < n; i++) {
		const struct mq_footprint *c = &h[slot[i].chunk];

		if (slot[i].turns) { /* with the next backward pass */
			const struct mq_footprint *b = &h[slot[i + 1].chunk];

			in_turns(&peak, now - b->kept_B, c, b);
			now += c->kept_B;
		} else if (slot[i].pass == MQ_PASS_F) {
			fuller(&peak, now, &c->forward);
			waiting += c->late_B;
			most = fmax(most, all_of(now, &c->forward) + waiting);
			now += c->kept_B;
		} else if (slot[i].pass == MQ_PASS_B && !(i && slot[i - 1].turns)) {
			fuller(&peak, now - c->kept_B, &c->backward);
			most = fmax(most, all_of(now - c->kept_B, &c->backward) + waiting);
			waiting = 0;
		}
		if (slot[i].pass == release)
			now -= c->kept_B;
	}
	mq_arena_rewind(&low->scratch, mark);
	*late_B = fmax(most - all_of(0, &peak), 0);
	return peak;
}

/* Peak of offloaded activations of the micro-batches in flight. */
static double most_away(struct mq_low *low, uint32_t rank, const struct mq_footprint *h)
{
	char message[256];
	uint32_t n, release = mq_pipeline_splits(low->plan->pipeline) ? MQ_PASS_W : MQ_PASS_B;
	double now = 0, most = 0;
	struct mq_arena_mark mark = mq_arena_mark(&low->scratch);
	const struct mq_slot *slot =
		low->plan->offload_layers && !low->train->infer ?
			mq_pipeline_order(low->plan, low->num.n_ranks, rank, false, &low->scratch, &n, message) :
			NULL;

	for (uint32_t i = 0; slot && i < n; i++) {
		double away_B = h[slot[i].chunk].away_B;

		now += slot[i].pass == MQ_PASS_F ? away_B : slot[i].pass == release ? -away_B : 0;
		most = fmax(most, now);
	}
	mq_arena_rewind(&low->scratch, mark);
	return most;
}

/* Memory that the optimizer step adds. */
static double step_of(const struct mq_low *low, const struct mq_footprint *h)
{
	return h->step_B + h->list_B + low->software->allgather_flat_copies * h->fresh_B;
}

/* Activations and buffers of the passes, or the optimizer step after them: the larger counts. The allocator keeps the
 * blocks of the other while there is room, and releases them before it fails; fragmentation cannot be released. list_B:
 * the part of step_B that a replay counts. late_B: freed, but not yet reusable. */
static void add_dynamic(struct mq_memory *m, double step_B, double list_B, double late_B, double fragmentation,
			double limit_B)
{
	double passes = m->activation_B + m->buffer_B, cached = fmin(passes, step_B - list_B) + late_B;

	if (step_B > passes) {
		m->activation_B = m->buffer_B = 0;
		m->optimizer_B += step_B;
	}
	m->fragmentation_B = (fragmentation - 1) * fmax(passes, step_B);
	m->peak_B = m->parameter_B + m->gradient_B + m->optimizer_B + m->activation_B + m->buffer_B +
		    m->fragmentation_B + m->reserve_B;
	if (limit_B > 0)
		cached = fmin(cached, fmax(limit_B - m->peak_B, 0));
	m->fragmentation_B += cached;
	m->spare_B = cached;
	m->peak_B += cached;
}

/* Buffers of the gradients of all chunks during their reduction. */
static double reduction_B(const struct mq_low *low, const struct mq_footprint *h, uint32_t chunks,
			  const struct mq_device *d)
{
	double most = low->software->flat_M * 1e6 * mq_dtype_size(low->train->grad_dtype), all = 0, flat = 0;

	for (uint32_t k = 0; k < chunks; k++) {
		all += h[k].reduced_B;
		flat += h[k].flat_B;
	}
	return fmin(all, 2 * low->plan->bucket_B) + (d->kind == MQ_GPU ? fmin(flat, most) : 0);
}

static void lose(struct mq_memory *m, double lost_B, double spare_B)
{
	m->fragmentation_B += lost_B;
	m->spare_B = spare_B;
	m->peak_B += lost_B;
}

struct replayed {
	bool fits;
	struct mq_allocator_use use;
};

static bool replay_fits(struct mq_low *low, const struct mq_allocator_replay *replay, double limit_B,
			struct mq_allocator_use *use)
{
	bool found;

	if (!low->rq.replays)
		return mq_allocator_replay_run(low, replay, limit_B, use);
	const struct {
		uint64_t hash[2];
		double limit_B;
	} key = { { mq_allocator_replay_hash(replay, 1), mq_allocator_replay_hash(replay, 2) }, limit_B };
	struct replayed *known = mq_index_value(low->rq.replays, &key, sizeof(key), sizeof(*known), &found);

	if (!found)
		known->fits = mq_allocator_replay_run(low, replay, limit_B, &known->use);
	*use = known->use;
	return known->fits;
}

/* Memory that PyTorch's allocator reserves beyond live tensors: as on a device of unlimited memory, or all of the
 * device if the step still runs. It releases surplus blocks before it fails: the surplus is spare if the step also runs
 * on a device smaller by the memory model's uncertainty. */
static void run_replay(struct mq_low *low, const struct mq_allocator_replay *replay, double limit_B,
		       struct mq_memory *m)
{
	struct mq_allocator_use use;
	double safe_B = limit_B / mq_question_memory_high(&low->q);

	if (low->rq.fits_only && m->peak_B <= limit_B && replay_fits(low, replay, limit_B - m->reserve_B, &use)) {
		lose(m, fmax((double)use.peak_reserved + m->reserve_B - m->peak_B, 0), 0);
		return;
	}
	replay_fits(low, replay, INFINITY, &use);
	double lost_B = fmax((double)use.peak_reserved + m->reserve_B - m->peak_B, 0), all_B = m->peak_B + lost_B;
	if (limit_B <= 0 || m->peak_B > limit_B || all_B <= safe_B) {
		lose(m, lost_B, 0);
		return;
	}
	if (replay_fits(low, replay, safe_B - m->reserve_B, &use)) {
		double held_B = fmin(all_B, limit_B);

		lose(m, held_B - m->peak_B, held_B - fmax(safe_B, m->peak_B));
	} else if (all_B <= limit_B || !replay_fits(low, replay, limit_B - m->reserve_B, &use)) {
		lose(m, lost_B, 0);
	} else {
		lose(m, limit_B - m->peak_B, 0);
	}
}

/* Are the tensors of a step known? */
static bool has_tensors(const struct mq_low *low, const struct mq_device *d)
{
	return d->kind == MQ_GPU && !low->train->infer && !low->model->profile.n_types;
}

/* A device's memory of its rank's stages. */
struct stages {
	struct mq_footprint *of; /* [n] */
	uint32_t n;
	double shared_B; /* receive buffers, and buffers of gradient reduction */
};

static struct stages stages_of(struct mq_low *low, uint32_t rank, uint32_t device)
{
	uint32_t n = low->num.n_stages / low->num.n_ranks;
	struct stages s = { mq_arena_array(&low->scratch, n, struct mq_footprint), n, 0 };
	double boundary_B = 0;

	for (uint32_t k = 0; k < n; k++) {
		s.of[k] = mq_footprint_of(low, mq_low_stage(low, rank, k), device, NULL, NULL);
		boundary_B = fmax(boundary_B, s.of[k].boundary_B);
	}
	s.shared_B = 2 * boundary_B + reduction_B(low, s.of, n, &low->q.cluster->device[device]);
	return s;
}

/* No replay if the tensors alone need this many times the device's memory: it would dominate searches
 * without feasible plans. */
#define HOPELESS 1.5

static struct mq_memory device_memory(struct mq_low *low, uint32_t rank, uint32_t device)
{
	const struct mq_device *dev = &low->q.cluster->device[device];
	const struct mq_device_calib *d = dev->calib == MQ_NONE ? NULL : &low->q.calib->device[dev->calib];
	const struct stages s = stages_of(low, rank, device);
	double root = 0, step = 0, list = 0, late = 0;
	struct mq_memory m = { 0 };

	for (uint32_t k = 0; k < s.n; k++) {
		m.parameter_B += s.of[k].parameter_B;
		m.gradient_B += s.of[k].gradient_B;
		m.optimizer_B += s.of[k].optimizer_B;
		root += s.of[k].root_B + s.of[k].logits_B;
		step += step_of(low, &s.of[k]);
		list += s.of[k].list_B;
		m.host_B += s.of[k].host_B;
	}
	m.host_B += most_away(low, rank, s.of);
	const struct mq_moment peak = fullest(low, rank, s.of, &late);
	m.activation_B = peak.activation_B;
	m.buffer_B = peak.buffer_B + root + s.shared_B;
	m.reserve_B = mq_reserve_B(&low->q, device);
	bool replay = has_tensors(low, dev) && low->software->allocator == MQ_ALLOCATOR_PYTORCH,
	     whole = dev->kind == MQ_GPU && low->software->allocator != MQ_ALLOCATOR_OTHER;
	add_dynamic(&m, step, replay ? list : 0, replay ? 0 : late, d && !whole ? d->fragmentation : 1, dev->memory_B);
	if (replay && !(m.peak_B > HOPELESS * dev->memory_B))
		run_replay(low, mq_allocator_replay_new(low, rank, device, s.shared_B), dev->memory_B, &m);
	return m;
}

/* A number for each device of the cluster: those with equal numbers hold the same, as their types, ranks and samples of
 * all configs are equal. */
static const uint64_t *kinds_of(struct mq_low *low)
{
	uint64_t *kind = mq_arena_array(&low->scratch, low->q.cluster->n_devices, uint64_t), bits;

	for (uint32_t d = 0; d < low->q.cluster->n_devices; d++) {
		const struct mq_device *device = &low->q.cluster->device[d];

		memcpy(&bits, &device->memory_B, sizeof(bits));
		kind[d] = mq_map_mix(mq_map_mix(bits, low->num.rank_of_device[d]),
				     (uint64_t)device->calib << 8 | device->kind);
	}
	for (uint32_t i = 0; i < low->plan->n_configs; i++)
		for (uint32_t p = 0; p < low->plan->config[i].n_devices; p++) {
			uint64_t *of = &kind[low->plan->config[i].device[p]];
			double samples = mq_low_samples(low, &low->plan->config[i], p);

			memcpy(&bits, &samples, sizeof(bits));
			*of = mq_map_mix(*of + i, bits);
		}
	return kind;
}

struct part {
	const char *name;
	double bytes;
};

static struct part largest(const struct mq_memory *m)
{
	const struct part part[] = { { "parameters", m->parameter_B },
				     { "gradients", m->gradient_B },
				     { "optimizer state", m->optimizer_B },
				     { "activations", m->activation_B },
				     { "buffers", m->buffer_B },
				     { "fragmentation", m->fragmentation_B },
				     { "reserve", m->reserve_B } };
	size_t most = 0;

	for (size_t i = 1; i < sizeof(part) / sizeof(*part); i++)
		most = part[i].bytes > part[most].bytes ? i : most;
	return part[most];
}

static void judge(struct mq_low *low)
{
	struct mq_lowered *out = low->out;
	const struct mq_cluster *cluster = low->q.cluster;
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
	const struct part most = largest(m);
	out->verdict = MQ_VERDICT_OOM;
	bool small = m->peak_B < 1e9; /* small devices of tests and tutorials */
	double unit_B = small ? 1e6 : 1e9;
	const char *unit = small ? "MB" : "GB";
	snprintf(out->message, sizeof(out->message), "device %u (%s) needs %.2f %s of its %.2f %s; largest: %s %.2f %s",
		 out->device[out->worst], d->name, m->peak_B / unit_B, unit, d->memory_B / unit_B, unit, most.name,
		 most.bytes / unit_B, unit);
}

/* Compares offloaded tensors with the host memory of each machine: a separate verdict, after that of the devices. */
static void judge_hosts(struct mq_low *low)
{
	struct mq_lowered *out = low->out;
	const struct mq_device *device = low->q.cluster->device;
	double *host_B = mq_arena_array(&low->scratch, low->q.cluster->n_nodes + 1, double), worst = -1;
	uint32_t machine = 0;

	for (uint32_t i = 0; i < out->n_devices; i++)
		host_B[device[out->device[i]].node] += out->memory[i].host_B;
	for (uint32_t i = 0; i < out->n_devices; i++) {
		const struct mq_device *d = &device[out->device[i]];
		double load = d->host_B > 0 ? host_B[d->node] / d->host_B : host_B[d->node] * 1e-30;

		if (load > worst) {
			worst = load;
			machine = d->node;
			out->host_B = host_B[machine];
			out->host_limit_B = d->host_B;
		}
	}
	if (worst <= 1 || out->verdict != MQ_VERDICT_OK)
		return;
	out->verdict = MQ_VERDICT_OOM;
	snprintf(
		out->message, sizeof(out->message),
		"the host memory of machine %u would have to hold %.2f GB of offloaded tensors, and is %.2f GB; offload "
		"less, or use more machines",
		machine, out->host_B / 1e9, out->host_limit_B / 1e9);
}

static void write_log(struct mq_low *low, struct mq_allocation_log *log)
{
	if (log->device == MQ_NONE)
		log->device = low->out->device[low->out->worst];
	uint32_t rank = low->num.rank_of_device[log->device];
	if (rank == MQ_NONE || !has_tensors(low, &low->q.cluster->device[log->device]))
		return;
	const struct stages s = stages_of(low, rank, log->device);
	log->reserve_B = mq_reserve_B(&low->q, log->device);
	mq_allocator_replay_log(low, mq_allocator_replay_new(low, rank, log->device, s.shared_B), log);
}

void mq_low_memory(struct mq_low *low)
{
	struct mq_lowered *out = low->out;
	const uint64_t *kind = kinds_of(low);
	uint32_t *first = mq_arena_array(&low->scratch, out->n_devices, uint32_t);
	struct mq_map kinds;

	mq_map_init(&kinds, &low->scratch, 16);
	for (uint32_t i = 0; i < out->n_devices; i++) {
		uint32_t device = out->device[i], before = kinds.n, at = mq_map_add(&kinds, kind[device]);

		if (at == before)
			first[at] = i;
		out->memory[i] = at < before ? out->memory[first[at]] :
					       device_memory(low, low->num.rank_of_device[device], device);
	}
	judge(low);
	judge_hosts(low);
	if (low->rq.log)
		write_log(low, low->rq.log);
}

static void hold_stages(struct mq_low *low, uint32_t index)
{
	struct mq_schedule *schedule = low->out->schedule;
	uint32_t device = low->out->device[index], rank = low->num.rank_of_device[device];
	const struct stages s = stages_of(low, rank, device);

	for (uint32_t k = 0; k < s.n; k++)
		schedule->held[schedule->n_held++] = (struct mq_held){
			.device = index,
			.stage = mq_low_stage(low, rank, k),
			.parameter_B = s.of[k].parameter_B,
			.gradient_B = s.of[k].gradient_B,
			.optimizer_B = s.of[k].optimizer_B,
			/* The part shared by all chunks is logged with the first. */
			.buffer_B = s.of[k].root_B + s.of[k].logits_B + (k ? 0 : s.shared_B),
			.kept_B = s.of[k].kept_B,
			.forward_B = s.of[k].forward.activation_B + s.of[k].forward.buffer_B,
			.backward_B = s.of[k].backward.activation_B + s.of[k].backward.buffer_B,
			.step_B = step_of(low, &s.of[k]),
		};
}

void mq_low_held(struct mq_low *low)
{
	struct mq_lowered *out = low->out;
	uint32_t chunks = low->num.n_stages / low->num.n_ranks;

	out->schedule->held = mq_arena_array(low->arena, (size_t)out->n_devices * chunks, struct mq_held);
	for (uint32_t i = 0; i < out->n_devices; i++)
		hold_stages(low, i);
}
