/* plan_form.c - converts a plan back into stages and a shape, for launchers with one degree of each kind. See plan.h.
 *
 * Such a launcher can express exactly the plans that mq_plan_from_shape builds. So the degrees are read off the plan,
 * the shape is built again, and both are compared op by op: no plan passes that would run as another one.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "maquette/plan.h"

/* ---- stages -------------------------------------------------------------------------------------- */

static enum mq_status take_config(struct mq_plan_stage *s, const struct mq_config *c, struct mq_err *err)
{
	uint32_t ep = c->split[MQ_DIM_EXPERT], dp = c->split[MQ_DIM_BATCH],
		 tp = c->split[MQ_DIM_OUT] * c->split[MQ_DIM_IN];

	if (c->split[MQ_DIM_SPATIAL] > 1)
		return mq_bad(err, "stage %u: a spatial split is in no launcher", c->stage);
	if (ep > 1) {
		s->ep = ep > s->ep ? ep : s->ep;
		s->etp = tp > s->etp ? tp : s->etp;
		dp = s->dp;
	}
	if (!s->n_devices) {
		s->device = c->device;
		s->n_devices = c->n_devices;
		s->sync = c->sync;
		s->recompute = c->recompute;
	}
	s->dp = s->dp ? s->dp : dp;
	if (c->n_devices != s->n_devices || (dp && dp != s->dp) || c->sync != s->sync || c->recompute != s->recompute ||
	    memcmp(c->device, s->device, c->n_devices * sizeof(*c->device)))
		return mq_bad(err,
			      "stage %u: its ops differ in devices, data-parallel degree, "
			      "gradient sync or recomputation; launchers set these per stage",
			      c->stage);
	for (uint32_t i = 1; c->share && i < c->split[MQ_DIM_BATCH]; i++)
		s->uneven |= c->share[i] != c->share[0];
	s->heads = c->split[MQ_DIM_HEAD] > s->heads ? c->split[MQ_DIM_HEAD] : s->heads;
	if (ep == 1)
		s->tp = tp > s->tp ? tp : s->tp;
	return MQ_OK;
}

/* Checks that each layer is in one stage; counts those of each stage. */
static enum mq_status take_layers(const struct mq_plan *plan, const struct mq_model *model, struct mq_plan_stage *stage,
				  struct mq_arena *arena, struct mq_err *err)
{
	uint32_t *in = mq_arena_array(arena, model->n_layers + 1, uint32_t); /* stage + 1 */

	for (uint32_t op = 0; op < plan->n_ops; op++) {
		uint32_t layer = model->op[op].layer, s = plan->config[plan->config_of[op]].stage;

		if (layer == MQ_NONE)
			continue;
		if (in[layer] && in[layer] != s + 1)
			return mq_bad(err, "layer %u is cut between stages %u and %u; launchers cut between layers",
				      layer, in[layer] - 1, s);
		stage[s].layers += !in[layer];
		in[layer] = s + 1;
	}
	return MQ_OK;
}

/* A first or last stage without layers may have nothing for tensor parallelism to split; its ranks then form the same
 * groups as those of other stages. */
static void fill_ends(struct mq_plan_stage *stage, uint32_t n)
{
	uint32_t like = 0;

	while (like < n && !stage[like].layers)
		like++;
	for (uint32_t i = 0; i < n && like < n; i++)
		if (!stage[i].layers && stage[i].dp == stage[like].dp && stage[i].n_devices == stage[like].n_devices)
			stage[i].tp = stage[like].tp;
}

enum mq_status mq_plan_stages(const struct mq_plan *plan, const struct mq_model *model, struct mq_arena *arena,
			      struct mq_plan_stage **stage, uint32_t *n, struct mq_err *err)
{
	bool *taken = mq_arena_array(arena, plan->n_configs + 1, bool);

	*n = 0;
	for (uint32_t op = 0; op < plan->n_ops; op++)
		if (plan->config[plan->config_of[op]].stage >= *n)
			*n = plan->config[plan->config_of[op]].stage + 1;
	*stage = mq_arena_array(arena, *n, struct mq_plan_stage);
	for (uint32_t op = 0; op < plan->n_ops; op++) {
		const struct mq_config *c = &plan->config[plan->config_of[op]];

		if (!taken[plan->config_of[op]])
			MQ_TRY(take_config(&(*stage)[c->stage], c, err));
		taken[plan->config_of[op]] = true;
	}
	MQ_TRY(take_layers(plan, model, *stage, arena, err));
	fill_ends(*stage, *n);
	for (uint32_t i = 0; i < *n; i++) {
		struct mq_plan_stage *s = &(*stage)[i];

		if (!s->n_devices || !s->dp || s->n_devices % (s->dp * s->tp))
			return mq_bad(err, "stage %u: %u devices are no multiple of dp %u x tp %u", i, s->n_devices,
				      s->dp, s->tp);
		s->cp = s->n_devices / (s->dp * s->tp);
	}
	return MQ_OK;
}

/* ---- shape --------------------------------------------------------------------------------------- */

static bool same_config(const struct mq_config *a, const struct mq_config *b)
{
	return a->stage == b->stage && a->n_devices == b->n_devices && a->sync == b->sync &&
	       a->recompute == b->recompute && !memcmp(a->split, b->split, sizeof(a->split)) &&
	       !memcmp(a->device, b->device, a->n_devices * sizeof(*a->device));
}

/* The first op with different configurations in the two plans, or MQ_NONE. */
static uint32_t first_difference(const struct mq_plan *a, const struct mq_plan *b, struct mq_arena *arena)
{
	uint32_t *same = mq_arena_array(arena, a->n_configs + 1, uint32_t); /* config of b, + 1 */

	for (uint32_t op = 0; op < a->n_ops; op++) {
		uint32_t x = a->config_of[op], y = b->config_of[op];

		if (same[x] == y + 1)
			continue;
		if (!same_config(&a->config[x], &b->config[y]))
			return op;
		same[x] = y + 1;
	}
	return MQ_NONE;
}

/* Sequence parallelism (1) and a split vocabulary (2), read off the splits. */
static int guess_flags(const struct mq_plan *plan, const struct mq_model *model, uint32_t cp)
{
	int flags = 0;

	for (uint32_t op = 0; op < plan->n_ops; op++) {
		const struct mq_config *c = &plan->config[plan->config_of[op]];
		enum mq_op_kind kind = model->op[op].kind;

		if (c->split[MQ_DIM_SEQ] > cp)
			flags |= 1;
		if ((kind == MQ_OP_EMBEDDING && c->split[MQ_DIM_IN] > 1) ||
		    (kind == MQ_OP_LOSS && c->split[MQ_DIM_OUT] > 1))
			flags |= 2;
	}
	return flags;
}

static enum mq_status one_degree(const struct mq_plan_stage *s, uint32_t n, struct mq_err *err)
{
	for (uint32_t i = 1; i < n; i++) {
		if (s[i].dp != s[0].dp || s[i].tp != s[0].tp || s[i].cp != s[0].cp)
			return mq_bad(err, "stage %u has dp %u tp %u cp %u, stage 0 dp %u tp %u cp %u", i, s[i].dp,
				      s[i].tp, s[i].cp, s[0].dp, s[0].tp, s[0].cp);
		if (s[i].sync != s[0].sync || s[i].recompute != s[0].recompute)
			return mq_bad(err, "stage %u differs from stage 0 in gradient sync or recomputation", i);
	}
	return MQ_OK;
}

static void read_shape(const struct mq_plan *plan, const struct mq_model *model, const struct mq_plan_stage *s,
		       uint32_t n, struct mq_arena *arena, struct mq_shape *shape)
{
	uint32_t pp = n / plan->virtual, *device = mq_arena_array(arena, (size_t)pp * s[0].n_devices, uint32_t);
	uint32_t *layers = mq_arena_array(arena, n, uint32_t);

	*shape = (struct mq_shape){ .dp = s[0].dp,
				    .tp = s[0].tp,
				    .pp = pp,
				    .cp = s[0].cp,
				    .ep = 1,
				    .virtual = plan->virtual,
				    .micro_batches = plan->micro_batches,
				    .pipeline = plan->pipeline,
				    .sync = s[0].sync,
				    .recompute = s[0].recompute,
				    .device = device,
				    .stage_layers = model->n_layers ? layers : NULL };
	for (uint32_t i = 0; i < n; i++) {
		uint32_t exchanged = s[i].heads > s[i].tp ? s[i].heads / s[i].tp : 1;

		shape->ulysses = exchanged > shape->ulysses ? exchanged : shape->ulysses;
		layers[i] = s[i].layers;
		shape->ep = s[i].ep > shape->ep ? s[i].ep : shape->ep;
	}
	for (uint32_t i = 0; i < pp; i++)
		memcpy(device + (size_t)i * s[0].n_devices, s[i].device, s[0].n_devices * sizeof(*device));
}

enum mq_status mq_plan_to_shape(const struct mq_plan *plan, const struct mq_model *model,
				const struct mq_cluster *cluster, const struct mq_plan_stage *stage, uint32_t n_stages,
				struct mq_arena *arena, struct mq_shape *shape, struct mq_err *err)
{
	uint32_t op = MQ_NONE;

	MQ_TRY(one_degree(stage, n_stages, err));
	read_shape(plan, model, stage, n_stages, arena, shape);
	int guess = guess_flags(plan, model, shape->cp);
	uint32_t etp = 0; /* tensor-parallel degree of experts, 0 = no experts */
	for (uint32_t i = 0; i < n_stages; i++)
		etp = stage[i].etp > etp ? stage[i].etp : etp;
	for (int other = 0; other < (etp ? 8 : 4); other++) { /* the guess first */
		struct mq_plan again;

		shape->sequence_parallel = (guess ^ other) & 1;
		shape->vocab_parallel = (guess ^ other) & 2;
		shape->etp = other & 4 ? etp : 0;
		if (!shape->etp && shape->dp % shape->ep) /* then they are dealt out over more than dp */
			continue;
		MQ_TRY(mq_plan_from_shape(shape, model, cluster, arena, &again, err));
		uint32_t differs = first_difference(plan, &again, arena);
		if (differs == MQ_NONE)
			return MQ_OK;
		op = op == MQ_NONE ? differs : op;
	}
	return mq_bad(err,
		      "the plan is not dp x tp x pp of one kind: op '%s' is split, or its "
		      "devices numbered, otherwise than Megatron's rules for dp %u tp %u pp %u cp %u ep %u do",
		      op == MQ_NONE ? "experts" : model->op[op].name, shape->dp, shape->tp, shape->pp, shape->cp,
		      shape->ep);
}
