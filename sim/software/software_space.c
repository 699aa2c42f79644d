/* software_space.c - the plans that a training software can run: the rules behind "runs" of its file, each with a
 * reason in words. See software.h.
 *
 * One table of rules serves verdicts, proposals of engines, `runs_in` and `export`: a plan that passes can be expressed
 * by the software's settings. Rules are checked in the order of a launch: model, kinds of devices, shape, degrees,
 * pipeline, sync, decisions of the plan, ranks.
 *
 * Not modelled: releases (a file describes one), limits that depend on the sizes of single kernels.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "maquette/question.h"

/* A check: the software, and the destination of the reason. */
struct ask {
	const struct mq_software *s;
	const struct mq_question *q;
	char *message;
	size_t size;
};

static bool no(const struct ask *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes "NAME <reason>" unless no reason is wanted (searches check millions of shapes); returns false. */
static bool no(const struct ask *a, const char *format, ...)
{
	va_list ap;
	int n;

	if (!a->message || !a->size)
		return false;
	n = snprintf(a->message, a->size, "%s ", a->s->file);
	if (n < 0 || (size_t)n >= a->size)
		return false;
	va_start(ap, format);
	vsnprintf(a->message + n, a->size - (size_t)n, format, ap);
	va_end(ap);
	return false;
}

/* "a, b or c": the names whose bits are set, last first. */
static const char *either(uint32_t bits, const char *(*name_of)(int), int n, char text[96])
{
	int left = 0;
	size_t used = 0;

	for (int i = 0; i < n; i++)
		left += (bits >> i & 1) != 0;
	text[0] = '\0';
	for (int i = n; i-- > 0;) {
		if (!(bits & 1u << i) || used >= 80)
			continue;
		used += (size_t)snprintf(text + used, 96 - used, "%s%s", name_of(i),
					 left == 1 ? "" :
					 left == 2 ? " or " :
						     ", ");
		left--;
	}
	return text;
}
#define EITHER(bits, name_of, n, text) either(bits, (const char *(*)(int))(name_of), n, text)

static bool has(uint32_t bits, unsigned i)
{
	return bits >> i & 1;
}

/* ---- the model ------------------------------------------------------------------------------------- */

/* Wide types are training types, the others types of GEMM operands. */
enum { TRAINING_DTYPES = 1u << MQ_FP32 | 1u << MQ_TF32 | 1u << MQ_FP16 | 1u << MQ_BF16 | 1u << MQ_FP64 };

static bool is_llama_like(const struct mq_model *m)
{
	for (uint32_t i = 0; i < m->n_ops; i++) {
		const struct mq_op *op = &m->op[i];

		if ((op->kind == MQ_OP_NORM && !op->rms) || (op->kind == MQ_OP_ATTENTION && !(op->rotated > 0)) ||
		    (op->kind == MQ_OP_GEMM && op->param > op->k * op->n * op->count))
			return false;
	}
	return true;
}

static bool model_runs(const struct ask *a)
{
	const struct mq_software_space *r = &a->s->runs;
	const struct mq_model *m = a->q->model;
	const struct mq_train *t = a->q->train;
	char text[96];

	if (r->models >= MQ_MODELS_LAYERS && !m->n_layers)
		return no(a, "runs no '%s': it has no repeated layers; try another --software", m->name);
	if (r->models >= MQ_MODELS_ONE_WIDTH && !m->hidden)
		return no(a, "runs no '%s': its layers are not of one width; try another --software", m->name);
	if (r->models == MQ_MODELS_LLAMA_LIKE && !is_llama_like(m))
		return no(a,
			  "runs no '%s': its models have RMS norms, rotary positions and GEMMs without biases; try "
			  "another --software",
			  m->name);
	for (unsigned i = 0; i < MQ_N_MODEL_PARTS; i++)
		if (has(m->parts & ~r->parts, i))
			return no(a, "trains no part '%s' of '%s'; try another --software",
				  mq_model_part_name((enum mq_model_part)i), m->name);
	if (!r->mixtures && m->experts)
		return no(a, "runs no mixtures of experts; try another --software");
	if (!r->expert_capacity && m->experts && t->experts.capacity > 0)
		return no(
			a,
			"has no setting for experts' capacity: none of its tokens is dropped; leave --expert-capacity out");
	if (!has(r->dtypes, t->dtype))
		return no(a, "trains in %s, not %s; ask with another --dtype",
			  EITHER(r->dtypes & TRAINING_DTYPES, mq_dtype_name, MQ_N_DTYPES, text),
			  mq_dtype_name(t->dtype));
	if (!has(r->dtypes, mq_train_gemm_dtype(t)))
		return no(a, "multiplies in %s, not %s; ask with another --gemm-dtype",
			  EITHER(r->dtypes, mq_dtype_name, MQ_N_DTYPES, text), mq_dtype_name(mq_train_gemm_dtype(t)));
	return true;
}

/* ---- one set of degrees ------------------------------------------------------------------------------ */

/* Have GEMMs of the experts biases? */
static bool biased_experts(const struct mq_model *m)
{
	for (uint32_t i = 0; i < m->n_ops; i++)
		if (m->op[i].kind == MQ_OP_GEMM && mq_op_of_experts(&m->op[i]))
			return m->op[i].param > m->op[i].k * m->op[i].n * m->op[i].count;
	return false;
}

/* The layout of experts. */
static bool experts_run(const struct ask *a, const struct mq_shape *p)
{
	const struct mq_software_space *r = &a->s->runs;
	uint32_t tp = mq_or_1(p->tp), cp = mq_or_1(p->cp), ep = mq_or_1(p->ep);

	if (tp > 1 && (ep == 1 || p->etp != 1) && !r->expert_bias && biased_experts(a->q->model))
		return no(a, "has no tensor parallelism of experts with biases (tp %u): set etp 1 with ep, or tp 1",
			  tp);
	if (ep == 1)
		return true;
	if (tp > 1 && (p->etp ? p->etp > 1 : true) && !r->expert_tensor)
		return no(
			a,
			"keeps experts whole on each rank under expert parallelism (ep %u); this plan splits them over "
			"tp %u too",
			ep, p->etp ? p->etp : tp);
	if (!r->expert_inside && tp * cp > 1 && (p->etp ? ep % (tp * cp) : cp > 1))
		return no(a, "deals experts out over all of tp x cp = %u, and replicas: ep %u is no multiple", tp * cp,
			  ep);
	if (p->etp && tp > 1 && !p->sequence_parallel)
		return no(a,
			  "deals experts out over tensor-parallel ranks only where these have parts of the sequence");
	return true;
}

static bool splits_run(const struct ask *a, const struct mq_shape *p)
{
	const struct mq_software_space *r = &a->s->runs;
	uint32_t tp = mq_or_1(p->tp), cp = mq_or_1(p->cp);

	if (tp > 1 && !r->tensor)
		return no(a, "has no tensor parallelism (tp %u)", tp);
	if (cp > 1 && !r->context)
		return no(a, "has no context parallelism (cp %u)", cp);
	if (mq_or_1(p->ulysses) > 1 && !r->ulysses)
		return no(a, "passes keys and values round a ring of all cp %u; this plan exchanges heads among %u", cp,
			  p->ulysses);
	if (mq_or_1(p->ep) > 1 && !r->expert)
		return no(a, "has no expert parallelism (ep %u)", p->ep);
	if (!experts_run(a, p))
		return false;
	if (cp > 1 && !r->placement && a->q->model->seq % (2 * cp))
		return no(a, "deals out a sequence in 2 x cp = %u parts, which do not divide %u tokens", 2 * cp,
			  a->q->model->seq);
	if (tp == 1)
		return true;
	if (!has(r->sequence, p->sequence_parallel))
		return no(a, p->sequence_parallel ?
				     "keeps norms whole under tensor parallelism; this plan splits them along "
				     "the sequence" :
				     "splits norms along the sequence under tensor parallelism; this plan does not");
	if (!has(r->vocab, p->vocab_parallel))
		return no(a, p->vocab_parallel ?
				     "keeps the vocabulary whole under tensor parallelism; this plan splits it" :
				     "splits the vocabulary over tensor parallelism; this plan does not");
	/* Megatron core and its derivatives refuse the combination: tokens would be routed several times. */
	if (a->q->model->experts && !p->sequence_parallel && !r->placement && r->sequence & MQ_SPLIT)
		return no(a, "runs mixtures under tensor parallelism only with norms split along the sequence");
	return true;
}

/* The first of n stages whose layers differ from the software's split; n = none. */
static uint32_t first_other(const struct mq_shape *p, const struct mq_shape *own, uint32_t layers, uint32_t n,
			    uint32_t *want)
{
	for (uint32_t i = 0; i < n; i++) {
		*want = own->stage_layers ? own->stage_layers[i] : layers / n + (i < layers % n);
		if (p->stage_layers[i] != *want)
			return i;
	}
	return n;
}

/* Is it the software's split of layers over more stages, of which the last ones idle? */
static bool run_of_more(const struct ask *a, const struct mq_shape *p, uint32_t n, struct mq_arena *scratch)
{
	uint32_t layers = a->q->model->n_layers, busy = n, want;

	for (struct mq_shape own = *p; busy <= n && own.pp <= layers + n;) {
		own.pp++;
		busy = mq_software_stages(a->s, a->q->model, scratch, &own);
		if (busy == n && first_other(p, &own, layers, n, &want) == n)
			return true;
	}
	return false;
}

/* Does each stage have the layers of the software's split? In a shape without layers: does each stage have work? */
static bool layers_run(const struct ask *a, const struct mq_shape *p, uint32_t n)
{
	uint32_t layers = a->q->model->n_layers, want = 0;
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_shape own = *p;
	bool fits = true;

	if (a->s->runs.uneven_stages)
		return true;
	uint32_t busy = mq_software_stages(a->s, a->q->model, &scratch, &own);
	uint32_t other = p->stage_layers && busy == n ? first_other(p, &own, layers, n, &want) : n;
	if ((busy < n || other < n) && p->stage_layers && run_of_more(a, p, n, &scratch))
		fits = true;
	else if (busy < n)
		fits = no(a, "leaves %u of %u stages without work", n - busy, n);
	else if (other < n)
		fits = no(a, "divides layers itself: stage %u has %u of %u, it would have %u", other,
			  p->stage_layers[other], layers, want);
	return fits;
}

static bool pipeline_runs(const struct ask *a, const struct mq_shape *p)
{
	const struct mq_software_space *r = &a->s->runs;
	uint32_t pp = mq_or_1(p->pp), chunks = mq_or_1(p->virtual);
	char text[96];

	if (pp == 1)
		return true;
	if (!r->pipeline)
		return no(a, "has no pipeline stages (pp %u)", pp);
	if (!r->placement && !a->q->model->n_layers)
		return no(a, "cuts between layers, and '%s' has none", a->q->model->name);
	/* one chunk per device, interleaved, is 1F1B */
	uint32_t pipeline = p->pipeline == MQ_PIPE_INTERLEAVED && chunks == 1 && has(r->schedules, MQ_PIPE_1F1B) ?
				    MQ_PIPE_1F1B :
				    p->pipeline;
	if (!has(r->schedules, pipeline))
		return no(a, "runs the schedules %s, not %s",
			  EITHER(r->schedules, mq_pipeline_name, MQ_N_PIPELINES, text), mq_pipeline_name(p->pipeline));
	if (!r->tensor_pipeline && mq_or_1(p->tp) > 1)
		return no(a, "has tensor parallelism (tp %u) or pipeline stages (pp %u), not both", p->tp, pp);
	if (!r->ragged_rounds && mq_pipeline_kind(p->pipeline)->rounds && chunks > 1 && mq_or_1(p->micro_batches) % pp)
		return no(a, "interleaves micro-batches in rounds of %u, the stages; %u are no multiple", pp,
			  p->micro_batches);
	return layers_run(a, p, pp * chunks);
}

/* Mixed precision may depend on what shards the parameters: torchtitan uses autocast only without FSDP, tensor and
 * pipeline parallelism (torchtitan/distributed/utils.py, maybe_enable_amp). */
static bool half_runs(const struct ask *a, const struct mq_shape *p, bool whole)
{
	uint32_t tp = mq_or_1(p->tp), pp = mq_or_1(p->pp);

	if (a->s->runs.unsharded_half || !whole || mq_dtype_size(a->q->train->dtype) >= 4 || (tp == 1 && pp == 1))
		return true;
	return no(a,
		  "trains in fp32 under tensor or pipeline parallelism (tp %u, pp %u) unless it shards parameters; "
		  "shard them or ask with --dtype fp32",
		  tp, pp);
}

static bool sync_runs(const struct ask *a, const struct mq_shape *p)
{
	const struct mq_software_space *r = &a->s->runs;
	bool split = mq_or_1(p->tp) > 1 || mq_or_1(p->cp) > 1 || mq_or_1(p->ep) > 1;
	char text[96];

	if (a->q->train->infer)
		return true;
	if (!has(r->recomputes, p->recompute))
		return no(a, "recomputes %s, not %s", EITHER(r->recomputes, mq_recompute_name, MQ_N_RECOMPUTES, text),
			  mq_recompute_name(p->recompute));
	bool alone = (uint64_t)mq_or_1(p->dp) * mq_or_1(p->cp) == 1;

	if (alone) /* nothing to sync */
		return half_runs(a, p, true);
	if (!has(r->syncs, p->sync) || (split && !has(r->sync_split, p->sync)))
		return no(a, "syncs gradients by %s%s, not %s",
			  EITHER(r->syncs & (split ? r->sync_split : UINT32_MAX), mq_sync_name, MQ_N_SYNCS, text),
			  split ? " beside tensor, context or expert parallelism" : "", mq_sync_name(p->sync));
	if (!r->zero_pipeline && mq_or_1(p->pp) > 1 && p->sync >= MQ_SYNC_ZERO2)
		return no(a, "has no %s beside pipeline stages", mq_sync_name(p->sync));
	return half_runs(a, p, p->sync == MQ_SYNC_ALLREDUCE);
}

/* All replicas need the same integer number of samples. */
static bool samples_run(const struct ask *a, const struct mq_shape *p)
{
	double each = a->q->train->batch / mq_or_1(p->micro_batches) / mq_or_1(p->dp);

	if (a->s->runs.shares || (each >= 1 && each == floor(each)))
		return true;
	return no(a,
		  "gives each replica the same number of samples; %g in %u micro-batches over %u replicas are %g each",
		  a->q->train->batch, mq_or_1(p->micro_batches), mq_or_1(p->dp), each);
}

static bool degrees_run(const struct ask *a, const struct mq_shape *p)
{
	return splits_run(a, p) && pipeline_runs(a, p) && sync_runs(a, p) && samples_run(a, p);
}

/* ---- decisions of a plan ----------------------------------------------------------------------- */

/* The MQ_NEEDS_... that a plan of these degrees meets. */
static uint32_t properties(const struct mq_shape *p)
{
	return ((uint64_t)p->dp * p->cp > 1 ? MQ_NEEDS_REPLICAS : 0) | (p->tp > 1 ? MQ_NEEDS_TENSOR : 0) |
	       (p->pp > 1 ? MQ_NEEDS_STAGES : 0) | (p->ep > 1 ? MQ_NEEDS_EXPERTS : 0) |
	       (p->sync == MQ_SYNC_ZERO1 || p->sync == MQ_SYNC_ZERO2 ? MQ_NEEDS_ZERO12 : 0) |
	       (p->recompute == MQ_RECOMPUTE_FULL ? MQ_NEEDS_RECOMPUTE : 0);
}

/* A decision of the plan, by default the software's. */
static double decided(const struct ask *a, const struct mq_plan *plan, enum mq_decision_id id)
{
	return mq_plan_leaves(plan, id) ? mq_software_default(a->s, id) : mq_plan_value(plan, id);
}

/* Checks the requirements of decisions on the rest of the plan. */
static bool needs_hold(const struct ask *a, const struct mq_plan *plan, const struct mq_shape *p)
{
	bool offload = decided(a, plan, MQ_DECISION_OFFLOAD_OPTIMIZER) > 0;
	double away = decided(a, plan, MQ_DECISION_OFFLOAD_LAYERS);
	uint32_t same = p->dp * p->cp;
	bool sharded = a->s->fp8_params && !a->s->runs.fp8_params_whole && !a->q->train->infer &&
		       mq_train_gemm_dtype(a->q->train) == MQ_FP8;

	if (sharded && same > 1 && p->sync < MQ_SYNC_ZERO1)
		return no(a, "keeps fp32 masters of fp8 weights only in a sharded optimizer: set sync zero1 or "
			     "fp8_params=0");
	if (sharded && offload)
		return no(a, "offloads no optimizer of fp8 weights: set offload_optimizer or fp8_params 0");
	if (offload && !(a->s->runs.switches & MQ_EXPLICIT_OFFLOAD_OPTIMIZER))
		return no(a, "has no setting that offloads the optimizer");
	if (offload && same > 1 && p->sync < MQ_SYNC_ZERO1)
		return no(a, "offloads the optimizer only where ZeRO shards it");
	if (away && !a->s->runs.offload_pipeline && p->pp > 1)
		return no(a, "offloads activations only without pipeline stages: set pp 1 or offload_layers 0");
	if (away && !a->s->runs.offload_recompute && p->recompute != MQ_RECOMPUTE_NONE)
		return no(a, "offloads activations only where nothing is computed again: set recompute none or "
			     "offload_layers 0");
	if (away && !a->s->runs.offload_all && away >= a->q->model->n_layers)
		return no(a, "offloads activations of fewer layers than the model's %u: set offload_layers %u or less",
			  a->q->model->n_layers, a->q->model->n_layers - 1);
	if (decided(a, plan, MQ_DECISION_OVERLAP_TP) && p->tp > 1 && !p->sequence_parallel)
		return no(a, "overlaps tensor parallelism only with sequence parallelism, which this plan lacks");
	if (plan->zero_group && (same % plan->zero_group || plan->zero_group % p->cp))
		return no(a, "shards over groups that divide dp x cp = %u and hold cp = %u; %u does not", same, p->cp,
			  plan->zero_group);
	return true;
}

/* Does the software have a setting for each decision that differs from its default? */
static bool decisions_run(const struct ask *a, const struct mq_plan *plan, const struct mq_shape *p)
{
	uint32_t bits = 0, lacks = ~properties(p);

	for (int d = 0; d < MQ_N_DECISIONS; d++)
		if (!(mq_decision(d)->matters & lacks) && decided(a, plan, d) != mq_software_default(a->s, d))
			bits |= mq_decision(d)->bit & ~a->s->runs.switches;
	for (uint32_t i = 0; i < MQ_N_SWITCHES; i++)
		if (has(bits, i))
			return no(a, "has no setting for %s, and the plan decides it", mq_switch_name(i));
	return needs_hold(a, plan, p);
}

/* ---- the form of a plan -------------------------------------------------------------------------------- */

/* In this order of ranks, are each machine's ranks contiguous, and no device used twice? */
struct walk {
	const struct mq_cluster *cluster;
	bool *seen_node, *seen_device;
	uint32_t last;
	bool good;
};

static void step(struct walk *w, uint32_t device)
{
	uint32_t node = w->cluster->device[device].node;

	w->good = w->good && !w->seen_device[device] && (node == w->last || !w->seen_node[node]);
	w->seen_device[device] = w->seen_node[node] = true;
	w->last = node;
}

static struct walk begin_walk(const struct mq_cluster *cluster, struct mq_arena *arena)
{
	uint32_t nodes = 0;

	for (uint32_t d = 0; d < cluster->n_devices; d++)
		if (cluster->device[d].node >= nodes)
			nodes = cluster->device[d].node + 1;
	return (struct walk){ cluster, mq_arena_array(arena, nodes, bool),
			      mq_arena_array(arena, cluster->n_devices, bool), MQ_NONE, true };
}

static void walk_devices(const struct mq_question *q, const struct mq_plan *plan, struct mq_arena *arena,
			 struct mq_plan_form *f)
{
	uint32_t pp = f->n_stages / plan->virtual, dp = f->stage[0].dp;
	struct walk stages = begin_walk(q->cluster, arena), replicas = begin_walk(q->cluster, arena);

	for (uint32_t s = 0; s < pp; s++)
		for (uint32_t d = 0; d < f->stage[s].n_devices; d++)
			step(&stages, f->stage[s].device[d]);
	f->stage_major = stages.good;
	if (!f->shaped)
		return;
	uint32_t width = f->stage[0].n_devices / dp;
	for (uint32_t r = 0; r < dp; r++)
		for (uint32_t s = 0; s < pp; s++)
			for (uint32_t i = 0; i < width; i++)
				step(&replicas, f->stage[s].device[r * width + i]);
	f->replica_major = replicas.good;
}

void mq_plan_form(const struct mq_question *q, const struct mq_plan *plan, struct mq_arena *arena,
		  struct mq_plan_form *f)
{
	struct mq_err why = MQ_ERR_INIT;

	*f = (struct mq_plan_form){ .n_stages = 0 };
	for (uint32_t i = 0; i < plan->n_configs; i++)
		for (uint32_t d = 0; d < plan->config[i].n_devices; d++) {
			enum mq_device_kind kind = q->cluster->device[plan->config[i].device[d]].kind;

			f->gpu |= kind == MQ_GPU;
			f->cpu |= kind == MQ_CPU;
		}
	if (mq_plan_stages(plan, q->model, arena, &f->stage, &f->n_stages, &why) != MQ_OK) {
		f->n_stages = 0;
	} else {
		f->shaped = mq_plan_to_shape(plan, q->model, q->cluster, f->stage, f->n_stages, arena, &f->shape,
					     &why) == MQ_OK;
		for (uint32_t s = 0; s < f->n_stages; s++)
			f->uneven |= f->stage[s].uneven;
		walk_devices(q, plan, arena, f);
	}
	snprintf(f->why, sizeof(f->why), "%.255s", why.text);
}

/* Stages with different degrees: checks each stage as a shape. */
static bool stages_run(const struct ask *a, const struct mq_plan *plan, const struct mq_plan_form *f)
{
	for (uint32_t i = 0; i < f->n_stages; i++) {
		const struct mq_plan_stage *s = &f->stage[i];
		struct mq_shape p = { .dp = s->dp,
				      .tp = s->tp,
				      .cp = s->cp,
				      .ep = mq_or_1(s->ep),
				      .pp = f->n_stages / plan->virtual,
				      .virtual = plan->virtual,
				      .micro_batches = plan->micro_batches,
				      .pipeline = plan->pipeline,
				      .sync = s->sync,
				      .recompute = s->recompute,
				      .sequence_parallel = a->s->sequence_parallel,
				      .vocab_parallel = a->s->vocab_parallel };

		if (!degrees_run(a, &p) || !decisions_run(a, plan, &p))
			return false;
	}
	return true;
}

/* Plans by op: checks sync and recomputation of each config. */
static bool configs_run(const struct ask *a, const struct mq_plan *plan)
{
	const struct mq_software_space *r = &a->s->runs;

	for (uint32_t i = 0; i < plan->n_configs; i++) {
		const struct mq_config *c = &plan->config[i];

		if (!has(r->syncs, c->sync))
			return no(a, "has no gradient sync '%s'", mq_sync_name(c->sync));
		if (!has(r->recomputes, c->recompute))
			return no(a, "has no recomputation '%s'", mq_recompute_name(c->recompute));
	}
	return has(r->schedules, plan->pipeline) || no(a, "has no schedule '%s'", mq_pipeline_name(plan->pipeline));
}

/* ---- the whole ------------------------------------------------------------------------------------------ */

bool mq_software_runs_form(const struct mq_software *s, const struct mq_question *q, const struct mq_plan *plan,
			   const struct mq_plan_form *f, char *message, size_t size)
{
	const struct mq_software_space *r = &s->runs;
	const struct ask a = { s, q, message, size };

	if (!model_runs(&a))
		return false;
	if ((f->gpu && !r->gpu) || (f->cpu && !r->cpu))
		return no(&a, "does not train on %ss", f->gpu && !r->gpu ? "GPU" : "CPU");
	if (r->placement)
		return configs_run(&a, plan);
	if (!f->n_stages || (!f->shaped && !r->unequal_degrees))
		return no(&a, "runs one dp x tp x pp for all: %s", f->why);
	if (f->uneven && !r->shares)
		return no(&a, "has no uneven shares of the batch");
	if (!f->shaped ? !stages_run(&a, plan, f) : !degrees_run(&a, &f->shape) || !decisions_run(&a, plan, &f->shape))
		return false;
	if (!r->any_order && !f->stage_major && !(f->replica_major && r->replica_major))
		return no(&a, "numbers ranks %s%s, machine by machine; this plan's devices are in another order",
			  "stage by stage", r->replica_major ? " or replica by replica" : "");
	return true;
}

static bool runs_everything(const struct mq_software_space *r)
{
	return r->placement && r->any_order && r->gpu && r->cpu && r->models == MQ_MODELS_ANY && r->mixtures &&
	       !~(r->schedules & r->syncs & r->recomputes & r->dtypes & r->switches);
}

bool mq_software_runs(const struct mq_software *s, const struct mq_question *q, const struct mq_plan *plan,
		      char *message, size_t size)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_plan_form form;

	if (!s || runs_everything(&s->runs))
		return true;
	mq_plan_form(q, plan, &scratch, &form);
	bool runs = mq_software_runs_form(s, q, plan, &form, message, size);
	return runs;
}

bool mq_software_runs_shape(const struct mq_software *s, const struct mq_question *q, const struct mq_shape *shape,
			    char *message, size_t size)
{
	const struct ask a = { s, q, message, size };
	uint32_t pp = mq_or_1(shape->pp);

	if (!s || runs_everything(&s->runs))
		return true;
	for (uint32_t i = 1; shape->stage_tp && i < pp; i++)
		if (shape->stage_tp[i] != shape->stage_tp[0] && !s->runs.unequal_degrees)
			return no(&a, "runs no stages of unequal tensor-parallel degree");
	for (uint32_t i = 1; shape->share && i < mq_or_1(shape->dp); i++)
		if (shape->share[i] != shape->share[0] && !s->runs.shares)
			return no(&a, "has no uneven shares of the batch");
	return degrees_run(&a, shape);
}

bool mq_software_runs_model(const struct mq_software *s, const struct mq_question *q, char *message, size_t size)
{
	const struct ask a = { s, q, message, size };

	return !s || model_runs(&a);
}

const char *mq_software_runs_in(const struct mq_software_record *record, uint32_t n, const struct mq_question *q,
				const struct mq_plan *plan, struct mq_arena *arena)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_plan_form form;
	const char *list = "";

	mq_plan_form(q, plan, &scratch, &form);
	for (uint32_t i = 0; i < n; i++)
		if (record[i].listed && mq_software_runs_form(&record[i].software, q, plan, &form, NULL, 0))
			list = mq_arena_printf(arena, "%s%s%s", list, *list ? " " : "", record[i].software.name);
	return *list ? list : "-";
}
