/* export_shape.c - a plan read back into stages and a shape; see export.h. */
#include "cmd/export/export.h"

#include <math.h>
#include <string.h>

static uint32_t stages_of(const struct mq_plan *plan)
{
	uint32_t n = 0;

	for (uint32_t op = 0; op < plan->n_ops; op++)
		if (plan->config[plan->config_of[op]].stage >= n)
			n = plan->config[plan->config_of[op]].stage + 1;
	return n;
}

static uint32_t tensor_degree(const struct mq_config *c)
{
	return c->split[MQ_DIM_HEAD] * c->split[MQ_DIM_OUT] * c->split[MQ_DIM_IN];
}

static enum mq_status check_devices(const struct mq_config *c, uint32_t stage, struct mq_err *err)
{
	for (uint32_t i = 1; i < c->n_devices; i++)
		if (c->device[i] != c->device[0] + i)
			return mq_fail(err, MQ_EINPUT,
				       "stage %u: its devices are not consecutive ranks (%u is followed by %u); "
				       "launchers number ranks in order",
				       stage, c->device[i - 1], c->device[i]);
	for (uint32_t i = 0; c->share && i < c->split[MQ_DIM_BATCH]; i++)
		if (c->share[i] != c->share[0])
			return mq_fail(err, MQ_EINPUT,
				       "stage %u: replicas get uneven shares of the batch; no launcher has a "
				       "setting for that", stage);
	if (c->sync == MQ_SYNC_PS || c->sync == MQ_SYNC_DUPLICATE)
		return mq_fail(err, MQ_EINPUT, "stage %u: gradient sync '%s' is in no launcher; use "
			       "allreduce, zero1, zero2 or zero3", stage, mq_sync_name(c->sync));
	if (c->split[MQ_DIM_SPATIAL] > 1)
		return mq_fail(err, MQ_EINPUT, "stage %u: a spatial split is in no launcher", stage);
	return MQ_OK;
}

static enum mq_status add_config(const struct mq_export *e, struct mq_export_stage *s,
				 const struct mq_config *c, struct mq_err *err)
{
	uint32_t dp = c->split[MQ_DIM_BATCH] * c->split[MQ_DIM_EXPERT], tp = tensor_degree(c);

	MQ_TRY(check_devices(c, c->stage, err));
	if (!s->n_devices) {
		s->first_device = c->device[0];
		s->n_devices = c->n_devices;
		s->dp = dp;
		s->sync = c->sync;
		s->recompute = c->recompute;
		s->type = e->cluster->device[c->device[0]].type;
		for (uint32_t i = 1; i < c->n_devices; i++)
			if (strcmp(s->type, e->cluster->device[c->device[i]].type))
				return mq_fail(err, MQ_EINPUT,
					       "stage %u mixes %s and %s; launchers want one device type "
					       "per stage", c->stage, s->type,
					       e->cluster->device[c->device[i]].type);
	}
	if (c->device[0] != s->first_device || c->n_devices != s->n_devices || dp != s->dp ||
	    c->sync != s->sync || c->recompute != s->recompute)
		return mq_fail(err, MQ_EINPUT,
			       "stage %u: its ops differ in devices, data-parallel degree, gradient sync or "
			       "recomputation; launchers set these per stage", c->stage);
	s->tp = tp > s->tp ? tp : s->tp;
	s->ep = c->split[MQ_DIM_EXPERT] > s->ep ? c->split[MQ_DIM_EXPERT] : s->ep;
	return MQ_OK;
}

enum mq_status mq_export_stages(const struct mq_export *e, struct mq_export_stage **stage, uint32_t *n,
				struct mq_err *err)
{
	uint32_t *last = mq_arena_array(e->arena, e->model->n_layers + 1, uint32_t);

	*n = stages_of(e->plan);
	*stage = mq_arena_array(e->arena, *n, struct mq_export_stage);
	for (uint32_t op = 0; op < e->plan->n_ops; op++) {
		const struct mq_config *c = &e->plan->config[e->plan->config_of[op]];
		uint32_t layer = e->model->op[op].layer;

		MQ_TRY(add_config(e, &(*stage)[c->stage], c, err));
		if (layer == MQ_NONE)
			continue;
		if (last[layer] && last[layer] != c->stage + 1)
			return mq_fail(err, MQ_EINPUT,
				       "layer %u is cut between stages %u and %u; launchers cut between "
				       "layers", layer, last[layer] - 1, c->stage);
		if (!last[layer])
			(*stage)[c->stage].layers++;
		last[layer] = c->stage + 1;
	}
	for (uint32_t s = 0; s < *n; s++) {
		struct mq_export_stage *x = &(*stage)[s];

		if (!x->n_devices || x->n_devices % (x->dp * x->tp))
			return mq_fail(err, MQ_EINPUT, "stage %u: %u devices are no multiple of dp %u x tp %u",
				       s, x->n_devices, x->dp, x->tp);
		x->cp = x->n_devices / (x->dp * x->tp);
	}
	return MQ_OK;
}

enum mq_status mq_export_build(const struct mq_export *e, const struct mq_shape *shape,
			       const struct mq_plan *like, struct mq_plan *plan, struct mq_err *err)
{
	MQ_TRY(mq_plan_from_shape(shape, e->model, e->cluster, e->arena, plan, err));
	plan->says = like->says;
	plan->algo = like->algo;
	plan->proto = like->proto;
	plan->overlap_grads = like->overlap_grads;
	plan->scatter_gather = like->scatter_gather;
	plan->offload_optimizer = like->offload_optimizer;
	plan->broadcast_params = like->broadcast_params;
	plan->early_stop = like->early_stop;
	plan->overlap_experts = like->overlap_experts;
	plan->overlap_tp = like->overlap_tp;
	plan->bucket_B = like->bucket_B;
	plan->zero_group = like->zero_group;
	return MQ_OK;
}

enum mq_status mq_export_one_width(const struct mq_export *e, const char *target, struct mq_err *err)
{
	if (e->model->hidden)
		return MQ_OK;
	return mq_fail(err, MQ_EINPUT, "%s: the layers of '%s' are not of one width, and its flags have one for "
		       "all; --to deepspeed or chakra says such plans", target, e->model->name);
}

enum mq_status mq_export_shape(const struct mq_export *e, struct mq_shape *shape, struct mq_err *err)
{
	struct mq_export_stage *s;
	uint32_t n, *layers, chunks;

	if (!e->model->n_layers)
		return mq_fail(err, MQ_EINPUT, "'%s' has no repeated layers; launchers are for "
			       "transformers", e->model->name);
	MQ_TRY(mq_export_stages(e, &s, &n, err));
	chunks = e->plan->virtual ? e->plan->virtual : 1;
	layers = mq_arena_array(e->arena, n, uint32_t);
	for (uint32_t i = 0; i < n; i++) {
		layers[i] = s[i].layers;
		if (s[i].dp != s[0].dp || s[i].tp != s[0].tp || s[i].cp != s[0].cp)
			return mq_fail(err, MQ_EINPUT,
				       "stage %u has dp %u tp %u, stage 0 dp %u tp %u; this target has one "
				       "degree for all (flagscale can differ per device type)",
				       i, s[i].dp, s[i].tp, s[0].dp, s[0].tp);
	}
	*shape = (struct mq_shape){ .dp = s[0].dp, .tp = s[0].tp, .pp = n / chunks, .cp = s[0].cp,
				    .virtual = chunks, .micro_batches = e->plan->micro_batches,
				    .pipeline = e->plan->pipeline, .sync = s[0].sync,
				    .recompute = s[0].recompute, .stage_layers = layers };
	for (uint32_t i = 0; i < n; i++)
		shape->ep = s[i].ep > shape->ep ? s[i].ep : shape->ep;
	uint64_t want = mq_plan_hash(e->plan);
	for (int flags = 3; flags >= 0; flags--) {
		struct mq_plan again;

		shape->sequence_parallel = flags & 1;
		shape->vocab_parallel = flags & 2;
		MQ_TRY(mq_export_build(e, shape, e->plan, &again, err));
		if (mq_plan_hash(&again) == want)
			return MQ_OK;
	}
	return mq_fail(err, MQ_EINPUT,
		       "the plan is not dp x tp x pp of one kind: ops are split, or devices numbered, "
		       "otherwise than Megatron's rules for dp %u tp %u pp %u cp %u ep %u do",
		       shape->dp, shape->tp, shape->pp, shape->cp, shape->ep);
}

enum mq_status mq_export_micro_batch(const struct mq_export *e, uint32_t dp, uint32_t *samples,
				     struct mq_err *err)
{
	double each = e->train->batch / e->plan->micro_batches / dp;

	if (!(each >= 1) || each != floor(each))
		return mq_fail(err, MQ_EINPUT,
			       "a batch of %g in %u micro-batches over %u replicas is %g samples each; "
			       "launchers want whole ones", e->train->batch, e->plan->micro_batches, dp, each);
	*samples = (uint32_t)each;
	return MQ_OK;
}
