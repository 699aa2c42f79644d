/* test_moves.c - neighbours of plans, plans of equal effect, device classes, and the bound of any plan, with
 * values worked out by hand. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "maquette/rng.h"
#include "costing/costing.h"
#include "lib/moves/moves.h"
#include "lib/moves/stages.h"
#include "lib/moves/switches.h"
#include "lib/plans.h"
#include "lib/shapes.h"
#include "libraries.h"

struct question {
	struct mq_arena arena;
	struct mq_model *model;
	struct mq_cluster *cluster;
	struct mq_calib *calib;
	struct mq_train train;
	struct mq_limits limits;
	struct mq_rng rng;
	struct mq_question asked;
	struct mq_problem problem;
	struct mq_move_space space;
};

/* Eight equal devices, of which `odd` is slower if it is below eight. */
static void ask_of(const char *spec, struct question *q, uint32_t odd)
{
	struct mq_model_request request = { .spec = spec, .train = &q->train, .seq = 64 };
	struct mq_err err = MQ_ERR_INIT;

	*q = (struct question){ .train = { .batch = 32, .dtype = MQ_FP16 } };
	assert_int_equal(mq_model_load(&request, &q->arena, &q->model, &err), MQ_OK);
	q->cluster = mq_cluster_flat(&q->arena, 8, "fast", 3e13, 16e9, 1e10, 1e-6);
	if (odd < 8)
		q->cluster->device[odd].type = "slow";
	q->calib = bare_calib(&q->arena);
	mq_calib_add_ideal(q->calib, "fast", 3e13, 3e12, 16e9);
	mq_calib_add_ideal(q->calib, "slow", 1e13, 1e12, 16e9);
	assert_int_equal(mq_calib_bind(q->calib, q->cluster, &err), MQ_OK);
	q->limits.fix_pipeline = q->limits.fix_recompute = q->limits.fix_sync = -1;
	mq_rng_seed(&q->rng, 1);
	q->asked =
		(struct mq_question){ .model = q->model, .cluster = q->cluster, .calib = q->calib, .train = &q->train };
	q->problem = (struct mq_problem){ .q = &q->asked,
					  .costs = mq_costs_new(&q->asked, &q->arena),
					  .limits = &q->limits,
					  .objective = "step-time",
					  .rng = &q->rng,
					  .arena = &q->arena };
	mq_move_space_make(&q->problem, &q->space);
}

static void ask(struct question *q, uint32_t odd)
{
	ask_of("gpt:layers=8,hidden=256,heads=4,vocab=512", q, odd);
}

static void shape(struct question *q, struct mq_shape s, struct mq_plan *plan)
{
	struct mq_err err = MQ_ERR_INIT;

	assert_int_equal(mq_plan_from_shape(&s, q->model, q->cluster, &q->arena, plan, &err), MQ_OK);
}

/* A plan of a part, made as large as the whole, is the shape's plan with as many more replicas: of every division of
 * up to four devices, stages or replicas first, and experts. Devices of no order do not grow. */
static void a_part_grows_to_the_whole(void **state)
{
	struct question q;
	struct mq_model_request request = {
		.spec = "moe:layers=4,hidden=64,heads=4,kv_heads=4,ffn=64,experts=4,vocab=64",
		.train = &q.train,
		.seq = 64
	};
	struct mq_err err = MQ_ERR_INIT;
	uint32_t grown = 0;

	ask(&q, 8);
	assert_int_equal(mq_model_load(&request, &q.arena, &q.model, &err), MQ_OK);
	for (uint32_t i = 0; i < 2 * 3 * 2 * 2 * 2; i++) {
		struct mq_shape s = { .dp = 1 + i / 2 % 3, /* one, two, four */
				      .tp = 1u << i / 6 % 2,
				      .pp = 1u << i / 12 % 2,
				      .ep = 1u << i / 24 % 2,
				      .micro_batches = 2,
				      .pipeline = MQ_PIPE_1F1B,
				      .sync = MQ_SYNC_ZERO1 };
		struct mq_plan small, large, got;

		s.dp += s.dp == 3;
		s.sequence_parallel = s.tp > 1;
		if (s.dp * s.tp * s.pp > 4 || s.dp % s.ep || (i % 2 && s.dp == 1)) /* one replica has no order */
			continue;
		s.device = i % 2 ? mq_shape_replica_major(&s, &q.arena) : NULL;
		shape(&q, s, &small);
		s.dp *= 2;
		s.device = i % 2 ? mq_shape_replica_major(&s, &q.arena) : NULL;
		shape(&q, s, &large);
		mq_switch_set(&q.problem, &small, MQ_DECISION_OFFLOAD_OPTIMIZER, 1);
		mq_switch_set(&q.problem, &large, MQ_DECISION_OFFLOAD_OPTIMIZER, 1);
		assert_true(mq_plan_times(&small, q.model, 2, &q.arena, &got));
		assert_int_equal(mq_plan_hash(&got), mq_plan_hash(&large));
		grown++;
	}
	assert_int_equal(grown, 20);
	struct mq_plan odd, got;
	shape(&q, (struct mq_shape){ .dp = 4, .micro_batches = 1, .device = (const uint32_t[]){ 0, 2, 1, 3 } }, &odd);
	assert_false(mq_plan_times(&odd, q.model, 2, &q.arena, &got));
	mq_arena_fini(&q.arena);
}

/* All neighbours are sound; those of a pipeline of two stages of four layers have one of (3, 5), one whose embedding
 * alone is divided by what it puts out, and those of four replicas of eight samples, one three times as slow, one in
 * which it has a sample less. */
static void neighbours_are_plans(void **state)
{
	struct question q;
	struct mq_plan plan;
	struct mq_move *move;
	struct mq_err err = MQ_ERR_INIT;
	bool cut = false, dealt = false, divided = false;

	ask(&q, 0);
	shape(&q, (struct mq_shape){ .dp = 4, .pp = 2, .micro_batches = 1, .pipeline = MQ_PIPE_1F1B }, &plan);
	uint32_t n = mq_moves_list(&q.space, &plan, &q.arena, &move), applied = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct mq_plan_stage *stage;
		struct mq_plan other;
		uint32_t stages;

		if (!mq_move_apply(&q.space, &plan, &move[i], &q.arena, &other))
			continue;
		applied++;
		assert_int_equal(mq_plan_check(&other, q.model, q.cluster, &q.train, &err), MQ_OK);
		if (mq_plan_stages(&other, q.model, &q.arena, &stage, &stages, &err) != MQ_OK) {
			uint32_t split = 0;

			for (uint32_t op = 0; op < q.model->n_ops; op++)
				split += other.config[other.config_of[op]].split[MQ_DIM_OUT] == 4;
			divided = divided || (split == 1 && other.config[other.config_of[1]].split[MQ_DIM_OUT] == 4);
			continue;
		}
		cut = cut || (stages == 2 && stage[0].layers == 3 && stage[1].layers == 5);
		const struct mq_config *c = &other.config[other.config_of[0]];

		if (c->share && c->split[MQ_DIM_BATCH] == 4) {
			double samples[4];

			mq_plan_samples(&other, c, &q.train, &q.arena, samples);
			dealt = dealt || samples[0] == 7;
		}
	}
	assert_true(applied > 20);
	assert_true(cut);
	assert_true(dealt);
	assert_true(divided);
	mq_arena_fini(&q.arena);
}

/* Of a forward pass on one device, any run of ops of a power of two may go to any other. */
static void runs_of_ops_have_devices(void **state)
{
	struct question q;
	struct mq_plan plan, other;
	struct mq_move *move;
	uint32_t n_seen = 0;

	ask(&q, 8);
	shape(&q, (struct mq_shape){ .micro_batches = 1 }, &plan);
	for (int infer = 0; infer < 2; infer++) {
		q.train.infer = infer;
		for (uint32_t i = 0, n = mq_moves_list(&q.space, &plan, &q.arena, &move); i < n; i++) {
			if (!mq_move_apply(&q.space, &plan, &move[i], &q.arena, &other) || other.n_configs != 2)
				continue;
			uint32_t away = 0;

			for (uint32_t op = 0; op < plan.n_ops; op++)
				away += (other.config[other.config_of[op]].device[0] == 5) == (op >= 8 && op < 12);
			n_seen += away == plan.n_ops;
		}
		assert_int_equal(n_seen, infer);
	}
	mq_arena_fini(&q.arena);
}

/* What comes before the layers goes to the first device of the first stage, the others share the samples; not where
 * the stage has one device, or replicas of several. */
static void an_embedding_has_a_stage(void **state)
{
	static const struct mq_shape shapes[] = { { .dp = 4, .pp = 2 }, { .dp = 1, .pp = 4 }, { .dp = 2, .tp = 2 } };
	struct mq_plan plan, other;
	struct question q;

	ask(&q, 8);
	for (int i = 0; i < 3; i++) {
		struct mq_shape s = shapes[i];

		s.micro_batches = 2;
		shape(&q, s, &plan);
		assert_int_equal(mq_move_apply(&q.space, &plan, &mq_move_alone, &q.arena, &other), i == 0);
		for (uint32_t op = 0; op < plan.n_ops && i == 0; op++) {
			const struct mq_config *was = &plan.config[plan.config_of[op]];
			const struct mq_config *is = &other.config[other.config_of[op]];
			bool before = was->stage == 0 && q.model->op[op].layer == MQ_NONE;

			assert_int_equal(is->stage, before ? 0 : was->stage + 1);
			assert_int_equal(is->n_devices, before ? 1 : was->stage ? 4 : 3);
			assert_int_equal(is->device[0], before ? 0 : was->stage ? 4 : 1);
		}
	}
	mq_arena_fini(&q.arena);
}

/* Has the plan stages of so many devices each, with so many layers in order? */
static bool has_stages(const struct question *q, const struct mq_plan *plan, const uint32_t *devices,
		       const uint32_t *layers, uint32_t n)
{
	uint32_t stage = 0, first = 0;
	bool is = mq_plan_stage_count(plan) == n;

	for (uint32_t op = 0; op < plan->n_ops && is; op++) {
		uint32_t layer = q->model->op[op].layer;
		const struct mq_config *c = &plan->config[plan->config_of[op]];

		while (layer != MQ_NONE && stage < n && layer >= first + layers[stage])
			first += layers[stage++];
		is = stage < n && c->stage == stage && c->n_devices == devices[stage];
	}
	return is;
}

/* Half of a stage's replicas take half of its layers; two stages become one: layers follow the devices, 16 samples of a
 * micro-batch being 8 on each of two and 4 on each of four. */
static void stages_divide_and_merge(void **state)
{
	static const uint32_t devices[][3] = { { 2, 2, 4 }, { 4, 2, 2 }, { 2, 4, 2 } };
	struct question q;

	ask(&q, 8);
	for (int i = 0; i < 3; i++) {
		struct mq_shape s = { .dp = i ? 2 : 4, .pp = i ? 4 : 2, .micro_batches = 2 };
		struct mq_plan plan, other;
		struct mq_move *move;
		uint32_t n, found = 0;

		shape(&q, s, &plan);
		n = mq_moves_list(&q.space, &plan, &q.arena, &move);
		for (uint32_t k = 0; k < n; k++)
			found += mq_move_reshapes(&move[k]) &&
				 mq_move_apply(&q.space, &plan, &move[k], &q.arena, &other) &&
				 has_stages(&q, &other, devices[i], devices[i], 3);
		assert_int_equal(found, 1);
	}
	mq_arena_fini(&q.arena);
}

/* No move is listed twice. */
static void moves_are_distinct(void **state)
{
	struct mq_shape s = { .dp = 2, .pp = 4, .micro_batches = 2 };
	struct mq_plan plan;
	struct mq_move *move;
	struct question q;

	ask(&q, 8);
	shape(&q, s, &plan);
	uint32_t n = mq_moves_list(&q.space, &plan, &q.arena, &move);

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = i + 1; k < n; k++)
			assert_memory_not_equal(&move[i], &move[k], sizeof(*move));
	mq_arena_fini(&q.arena);
}

/* One fast device and seven slow ones, each a machine: all, the fast one, and the slow ones alone; tensor-parallel
 * groups are whole machines, up to eight devices. */
static void slow_devices_are_a_set(void **state)
{
	struct shape_space space = { .n_sets = 0 };
	struct mq_err err = MQ_ERR_INIT;
	struct question q;
	bool slow = false;

	ask(&q, 8);
	for (uint32_t d = 0; d < 8; d++) {
		q.cluster->device[d].node = d;
		q.cluster->device[d].type = d == 2 ? "fast" : "slow";
	}
	q.cluster->n_nodes = 8;
	assert_int_equal(mq_calib_bind(q.calib, q.cluster, &err), MQ_OK);
	q.problem.costs = mq_costs_new(&q.asked, &q.arena);
	assert_int_equal(shapes_init(&space, &q.problem, &err), MQ_OK);
	assert_int_equal(space.set[0].n, 8);
	for (uint32_t s = 1; s < space.n_sets; s++) {
		slow = slow || (space.set[s].n == 7 && !space.set[s].mixed);
		assert_true(space.set[s].device[0] == 2 || space.set[s].n == 7);
	}
	assert_true(slow);
	struct shape_point p = { .dp = 2, .tp = 4, .pp = 1, .cp = 1, .ep = 1, .virtual = 1, .micro_batches = 1 };

	p.pipeline = MQ_PIPE_1F1B;
	assert_true(shapes_valid(&space, &p));
	space.set[0].per_node = 3;
	assert_false(shapes_valid(&space, &p));
	mq_arena_fini(&q.arena);
}

/* Of however many types, as many devices as degrees are fixed for, and one device, are sets. */
static void many_types_leave_room(void **state)
{
	enum { TYPES = 12, DP = 3 };
	struct shape_space space = { .n_sets = 0 };
	struct mq_err err = MQ_ERR_INIT;
	struct question q;
	uint32_t few = 0;

	ask(&q, 8);
	q.cluster = mq_cluster_flat(&q.arena, TYPES, "fast", 3e13, 16e9, 1e10, 1e-6);
	q.asked.cluster = q.cluster;
	for (uint32_t d = 0; d < TYPES; d++) {
		q.cluster->device[d].type = mq_arena_printf(&q.arena, "type%u", d);
		mq_calib_add_ideal(q.calib, q.cluster->device[d].type, 3e13 * pow(1.1, d), 3e12 * pow(1.1, d), 16e9);
	}
	assert_int_equal(mq_calib_bind(q.calib, q.cluster, &err), MQ_OK);
	q.problem.costs = mq_costs_new(&q.asked, &q.arena);
	q.limits.fix_dp = DP;
	assert_int_equal(shapes_init(&space, &q.problem, &err), MQ_OK);
	assert_true(space.n_sets <= SHAPES_MAX_SETS);
	for (uint32_t s = 0; s < space.n_sets; s++)
		few += space.set[s].n == DP || space.set[s].n == 1;
	assert_int_equal(few, 2);
	mq_arena_fini(&q.arena);
}

static uint32_t others(struct question *q, const struct mq_plan *plan, enum mq_decision_id id)
{
	double value[MQ_SWITCH_VALUES];

	return mq_switch_values(&q->problem, plan, id, value);
}

/* A switch is tried where the software has a setting for it and the plan has what it acts on; set to what the software
 * does anyway, it leaves the plan that it was. */
static void switches_are_moves(void **state)
{
	struct mq_software few = *mq_software_plain();
	struct mq_plan plan, other;
	struct question q;

	ask(&q, 8);
	shape(&q, (struct mq_shape){ .dp = 8, .micro_batches = 2, .pipeline = MQ_PIPE_1F1B, .sync = MQ_SYNC_ZERO1 },
	      &plan);
	assert_int_equal(others(&q, &plan, MQ_DECISION_OVERLAP_GRADS), 1);
	assert_int_equal(others(&q, &plan, MQ_DECISION_OFFLOAD_OPTIMIZER), 1);
	assert_int_equal(others(&q, &plan, MQ_DECISION_BUCKET), 2);
	assert_int_equal(others(&q, &plan, MQ_DECISION_OVERLAP_TP), 0); /* no tensor parallelism */
	assert_int_equal(others(&q, &plan, MQ_DECISION_EARLY_STOP), 0); /* nothing is computed again */
	few.runs.switches = MQ_EXPLICIT_OVERLAP_GRADS;
	q.asked.software = &few;
	assert_int_equal(others(&q, &plan, MQ_DECISION_OVERLAP_GRADS), 1);
	assert_int_equal(others(&q, &plan, MQ_DECISION_OFFLOAD_OPTIMIZER), 0);
	for (int now = 0; now < 2; now++) {
		bool same = now == mq_software_default(&few, MQ_DECISION_OVERLAP_GRADS);

		mq_plan_copy(&other, &plan, &q.arena);
		mq_switch_set(&q.problem, &other, MQ_DECISION_OVERLAP_GRADS, now);
		assert_true(same == mq_plan_leaves(&other, MQ_DECISION_OVERLAP_GRADS));
		assert_true(same == (mq_plan_hash(&other) == mq_plan_hash(&plan)));
	}
	mq_arena_fini(&q.arena);
}

/* A plan takes over how often another exchanges what, not where it runs; what changes nothing there it leaves. */
static void decisions_go_over(void **state)
{
	struct mq_plan other, plan, got;
	struct question q;

	ask(&q, 8);
	shape(&q,
	      (struct mq_shape){
		      .dp = 4, .pp = 2, .micro_batches = 4, .pipeline = MQ_PIPE_1F1B, .sync = MQ_SYNC_ZERO2 },
	      &other);
	mq_switch_set(&q.problem, &other, MQ_DECISION_BUCKET, 1e7);
	shape(&q, (struct mq_shape){ .dp = 8, .micro_batches = 1, .sync = MQ_SYNC_ZERO1 }, &plan);
	assert_true(mq_move_like(&q.space, &plan, &other, &q.arena, &got));
	assert_int_equal(got.micro_batches, 4);
	assert_int_equal(mq_plan_stage_count(&got), 1);
	for (uint32_t i = 0; i < got.n_configs; i++)
		assert_true(got.config[i].n_devices == 8 && got.config[i].sync == MQ_SYNC_ZERO2);
	assert_true(mq_plan_value(&got, MQ_DECISION_BUCKET) == 1e7);
	shape(&q, (struct mq_shape){ .tp = 4, .micro_batches = 1 }, &plan);
	assert_true(mq_move_like(&q.space, &plan, &other, &q.arena, &got));
	assert_int_equal(got.config[0].sync, MQ_SYNC_ALLREDUCE);
	assert_true(mq_plan_leaves(&got, MQ_DECISION_BUCKET));
	other.micro_batches = 8; /* four samples each: too few for eight replicas */
	shape(&q, (struct mq_shape){ .dp = 8, .micro_batches = 1 }, &plan);
	assert_false(mq_move_like(&q.space, &plan, &other, &q.arena, &got));
	mq_arena_fini(&q.arena);
}

/* The largest remainder has what is left over, the first of equals. */
static void samples_are_dealt_out(void **state)
{
	static double uneven[] = { 1, 3, 1, 2 }, equal[] = { 2, 2, 2, 2 };
	static const struct {
		double batch, *share, samples[4];
	} cases[] = {
		{ 10, NULL, { 3, 3, 2, 2 } },   { 10, equal, { 3, 3, 2, 2 } },  { 10, uneven, { 2, 4, 1, 3 } },
		{ 12, uneven, { 2, 5, 2, 3 } }, { 14, uneven, { 2, 6, 2, 4 } }, { 3, uneven, { 1, 1, 0, 1 } },
	};
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_plan plan = { .micro_batches = 2 };
	double samples[4];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct mq_train train = { .batch = 2 * cases[i].batch };
		struct mq_config c = { .share = cases[i].share, .split = { [MQ_DIM_BATCH] = 4 } };

		mq_plan_samples(&plan, &c, &train, &arena, samples);
		assert_memory_equal(samples, cases[i].samples, sizeof(samples));
	}
	mq_arena_fini(&arena);
}

/* Beside a plan that computes all again are those that let all layers but one, or half of them, wait on the host;
 * beside these one with fewer. That none does and that nothing is said of it is no difference. */
static void hosts_take_what_is_computed_again(void **state)
{
	struct question q;
	struct mq_plan plan, away = { 0 }, other;
	struct mq_move *move;
	uint32_t seen = 0;

	ask(&q, 8);
	shape(&q, (struct mq_shape){ .dp = 8, .micro_batches = 1, .recompute = MQ_RECOMPUTE_FULL }, &plan);
	for (uint32_t i = 0, n = mq_moves_list(&q.space, &plan, &q.arena, &move); i < n; i++)
		if (mq_move_apply(&q.space, &plan, &move[i], &q.arena, &other) && other.offload_layers) {
			assert_int_equal(other.config[0].recompute, MQ_RECOMPUTE_NONE);
			assert_int_equal(other.offload_layers, seen ? 4 : 7);
			away = other;
			seen++;
		}
	assert_int_equal(seen, 2);
	for (uint32_t i = 0, n = mq_moves_list(&q.space, &away, &q.arena, &move); i < n; i++)
		if (mq_move_apply(&q.space, &away, &move[i], &q.arena, &other) && other.offload_layers == 2)
			seen++;
	assert_int_equal(seen, 3);
	mq_plan_copy(&other, &plan, &q.arena);
	other.explicit |= MQ_EXPLICIT_OFFLOAD_LAYERS;
	assert_true(mq_plan_effect(&q.space, &other, &q.arena) == mq_plan_effect(&q.space, &plan, &q.arena));
	other.offload_layers = 1;
	assert_true(mq_plan_effect(&q.space, &other, &q.arena) != mq_plan_effect(&q.space, &plan, &q.arena));
	mq_arena_fini(&q.arena);
}

/* Between two stages that part encoder from decoder, layers move both ways: the ops between, such as the encoder's norm,
 * follow the decoder's first layer. */
static void layers_move_between_encoder_and_decoder(void **state)
{
	struct question q;
	struct mq_plan plan, other;
	struct mq_move *move;
	struct mq_stages v;
	uint32_t most = 0, least = MQ_NONE;

	ask_of("t5:layers=4,hidden=64,heads=4,vocab=512", &q, 8);
	shape(&q,
	      (struct mq_shape){ .dp = 1, .tp = 1, .pp = 2, .micro_batches = 4, .stage_layers = (uint32_t[]){ 4, 4 } },
	      &plan);
	for (uint32_t i = 0, n = mq_moves_list(&q.space, &plan, &q.arena, &move); i < n; i++) {
		if (!mq_move_deals(&move[i]))
			continue;
		assert_true(mq_move_apply(&q.space, &plan, &move[i], &q.arena, &other));
		mq_stages_look(&q.space, &other, &q.arena, &v);
		most = v.layers[0] > most ? v.layers[0] : most;
		least = v.layers[0] < least ? v.layers[0] : least;
	}
	assert_int_equal(most, 6);
	assert_int_equal(least, 2);
	mq_arena_fini(&q.arena);
}

/* Memory of a toy: what replicas hold counts 4, 3, 2, 1 units by ZeRO stage, large buckets one more, layers whose
 * activations are held a unit each, divided by the micro-batches. */
static bool within_units(void *context, const struct mq_plan *plan, struct mq_result *result)
{
	const uint32_t state[MQ_N_SYNCS] = { 4, 4, 4, 3, 2, 1 };
	uint32_t again = plan->config[0].recompute != MQ_RECOMPUTE_FULL ? 0 :
			 plan->recompute_num_layers                     ? plan->recompute_num_layers :
									  8;
	uint32_t units = state[plan->config[0].sync] + !plan->bucket_B +
			 (8 - plan->offload_layers - again) / plan->micro_batches;

	result->verdict = units <= *(const uint32_t *)context ? MQ_VERDICT_OK : MQ_VERDICT_OOM;
	return true;
}

/* Of a plan that does not fit, variants that do: with small buckets, more micro-batches (at most four times as many), the
 * fewest layers on the host or computed again (not all), of every sharding above its own; two ranks of a stage that split its tensors have no states in common. */
static void memory_is_saved(void **state)
{
	/* units that fit: layers on the host (one at least) by ZeRO stage, 0 = none suffice */
	static const uint32_t cases[][5] = { { 12, 1, 1, 1, 1 }, { 9, 4, 3, 2, 1 }, { 4, 0, 0, 7, 6 } };
	static const uint32_t batches[][4] = { { 2, 2, 2, 2 }, { 2, 2, 2, 2 }, { 0, 0, 0, 4 } };
	struct question q;
	struct mq_plan plan, other;
	uint32_t units;

	ask(&q, 8);
	struct mq_costs costs = *q.problem.costs;

	costs.fits = within_units;
	costs.screen_context = &units;
	q.problem.costs = &costs;
	shape(&q, (struct mq_shape){ .dp = 8, .micro_batches = 1 }, &plan);
	for (uint32_t i = 0; i < 3; i++)
		for (uint32_t zero = 0; zero < 4; zero++) {
			uint32_t layers = cases[i][1 + zero];

			units = cases[i][0];
			assert_int_equal(mq_move_relieve(&q.space, &plan, 5 * zero + 2, &q.arena, &other),
					 batches[i][zero] > 0);
			assert_true(!batches[i][zero] || other.micro_batches == batches[i][zero]);
			assert_int_equal(mq_move_relieve(&q.space, &plan, 5 * zero + 3, &q.arena, &other), layers > 0);
			assert_int_equal(layers ? other.offload_layers : layers, layers);
			assert_int_equal(mq_move_relieve(&q.space, &plan, 5 * zero + 4, &q.arena, &other), layers > 0);
			assert_int_equal(layers ? other.recompute_num_layers : layers, layers);
			assert_true(!layers || other.config[0].sync == (zero ? MQ_SYNC_ZERO1 + zero - 1 : 0));
		}
	units = 12;
	assert_true(mq_move_relieve(&q.space, &plan, 1, &q.arena, &other) && other.bucket_B > 0);
	assert_true(mq_move_relieve(&q.space, &plan, 5, &q.arena, &other) && other.config[0].sync == MQ_SYNC_ZERO1);
	assert_false(mq_move_relieve(&q.space, &other, 5, &q.arena, &plan)); /* it is sharded so */
	shape(&q, (struct mq_shape){ .dp = 1, .tp = 2, .pp = 4, .micro_batches = 4 }, &plan);
	assert_false(mq_move_relieve(&q.space, &plan, 5, &q.arena, &other));
	units = 100;
	assert_true(mq_move_relieve(&q.space, &plan, 3, &q.arena, &other) && other.offload_layers == 1);
	shape(&q, (struct mq_shape){ .dp = 4, .tp = 2, .micro_batches = 1 }, &plan);
	assert_true(mq_move_relieve(&q.space, &plan, 5, &q.arena, &other));
	q.train.infer = true;
	assert_false(mq_move_relieve(&q.space, &plan, 3, &q.arena, &other));
	mq_arena_fini(&q.arena);
}

/* Two ranks that split tensors become two replicas; the optimizer stays on the host. */
static void other_degrees_keep_decisions(void **state)
{
	struct question q;
	struct mq_plan plan, other;
	struct mq_move *move;
	uint32_t seen = 0;

	ask(&q, 8);
	shape(&q, (struct mq_shape){ .dp = 4, .tp = 2, .micro_batches = 1 }, &plan);
	mq_switch_set(&q.problem, &plan, MQ_DECISION_OFFLOAD_OPTIMIZER, 1);
	for (uint32_t i = 0, n = mq_moves_list(&q.space, &plan, &q.arena, &move); i < n; i++)
		if (mq_move_apply(&q.space, &plan, &move[i], &q.arena, &other) &&
		    other.config[0].split[MQ_DIM_BATCH] == 8 && other.n_configs == 1) {
			assert_true(other.offload_optimizer);
			seen++;
		}
	assert_true(seen > 0);
	mq_arena_fini(&q.arena);
}

/* Long samples are divided where tensors were, by the same devices; short ones are not. An embedding that is split by
 * its width beside them makes no tensor parallelism of it. */
static void samples_are_cut_where_tensors_were(void **state)
{
	struct question q;
	struct mq_plan plan, other, apart;
	struct mq_move *move;

	for (uint32_t seq = 4096; seq <= 8192; seq *= 2) {
		uint32_t cut = 0;

		ask(&q, 8);
		q.model->seq = seq;
		shape(&q, (struct mq_shape){ .dp = 1, .tp = 2, .pp = 4, .micro_batches = 4 }, &plan);
		for (uint32_t i = 0, n = mq_moves_list(&q.space, &plan, &q.arena, &move); i < n; i++)
			if (mq_move_apply(&q.space, &plan, &move[i], &q.arena, &other) &&
			    other.config[0].split[MQ_DIM_SEQ] == 2 && mq_plan_stage_count(&other) == 4) {
				const struct mq_move wide = mq_move_apart(&q.space);

				assert_int_equal(other.config[0].device[1], 1);
				assert_int_equal(mq_plan_degrees(&other).cp, 2);
				assert_true(mq_move_apply(&q.space, &other, &wide, &q.arena, &apart));
				assert_int_equal(mq_plan_degrees(&apart).dp, 0);
				cut++;
			}
		assert_int_equal(cut > 0, seq == 8192);
		mq_arena_fini(&q.arena);
	}
}

/* Sync without replicas and schedules without stages are no difference; micro-batches are. */
static void effects_are_told_apart(void **state)
{
	struct question q;
	struct mq_plan a, b, c, d;

	ask(&q, 8);
	shape(&q, (struct mq_shape){ .micro_batches = 2, .pipeline = MQ_PIPE_1F1B }, &a);
	shape(&q, (struct mq_shape){ .micro_batches = 2, .pipeline = MQ_PIPE_GPIPE, .sync = MQ_SYNC_ZERO1 }, &b);
	shape(&q, (struct mq_shape){ .micro_batches = 4, .pipeline = MQ_PIPE_1F1B }, &c);
	shape(&q, (struct mq_shape){ .dp = 4, .micro_batches = 2, .sync = MQ_SYNC_ZERO1 }, &d);
	uint64_t effect = mq_plan_effect(&q.space, &d, &q.arena);

	assert_true(mq_plan_hash(&a) != mq_plan_hash(&b));
	assert_true(mq_plan_effect(&q.space, &a, &q.arena) == mq_plan_effect(&q.space, &b, &q.arena));
	assert_true(mq_plan_effect(&q.space, &a, &q.arena) != mq_plan_effect(&q.space, &c, &q.arena));
	for (uint32_t i = 0; i < d.n_configs; i++)
		d.config[i].sync = MQ_SYNC_ALLREDUCE;
	assert_true(mq_plan_effect(&q.space, &d, &q.arena) != effect);
	mq_arena_fini(&q.arena);
}

/* The plan after devices a and b, and those that follow each, have been exchanged. */
static uint64_t effect_after(struct question *q, const struct mq_plan *plan, uint32_t a, uint32_t b, uint32_t n)
{
	uint32_t to[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	struct mq_plan other;

	for (uint32_t i = 0; i < n; i++)
		to[a + i] = b + i, to[b + i] = a + i;
	mq_plan_copy(&other, plan, &q->arena);
	mq_plan_rename(&other, to, &q->arena);
	return mq_plan_effect(&q->space, &other, &q->arena);
}

/* Two machines of four devices, the first of them slower; two stages, one on each machine. */
static void like_devices_may_be_exchanged(void **state)
{
	for (uint32_t odd = 0; odd <= 8; odd += 8) {
		struct question q;
		struct mq_plan plan;

		ask(&q, odd);
		q.cluster->n_nodes = 2;
		for (uint32_t d = 0; d < 8; d++)
			q.cluster->device[d].node = d / 4, q.cluster->device[d].local = d % 4;
		mq_move_space_make(&q.problem, &q.space);
		shape(&q, (struct mq_shape){ .dp = 4, .pp = 2, .micro_batches = 1, .pipeline = MQ_PIPE_1F1B }, &plan);
		uint64_t effect = mq_plan_effect(&q.space, &plan, &q.arena);

		assert_true(effect_after(&q, &plan, 1, 2, 1) == effect);
		assert_true(effect_after(&q, &plan, 4, 7, 1) == effect);
		/* whole machines, where none of their devices differs */
		assert_int_equal(effect_after(&q, &plan, 0, 4, 4) == effect, odd == 8);
		/* not a slow device, nor one of a machine for one of another */
		assert_int_equal(effect_after(&q, &plan, 0, 1, 1) == effect, odd == 8);
		assert_true(effect_after(&q, &plan, 1, 5, 1) != effect);
		mq_arena_fini(&q.arena);
	}
}

/* Two pairs behind an uplink each: devices of a pair are alike, and so are the pairs. */
static void an_uplink_makes_pairs(void **state)
{
	struct question q;
	struct mq_plan plan;

	ask(&q, 8);
	const struct mq_route *route;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_link *link = mq_arena_array(&q.arena, q.cluster->n_links + 4, struct mq_link);

	memcpy(link, q.cluster->link, q.cluster->n_links * sizeof(*link));
	for (uint32_t i = 0; i < 4; i++)
		link[q.cluster->n_links + i] = link[0];
	q.cluster->link = link;
	for (uint32_t a = 0; a < 8; a++)
		for (uint32_t b = 0; b < 8; b++) {
			if (a == b || a / 2 == b / 2)
				continue;
			assert_int_equal(mq_cluster_route(q.cluster, a, b, &route, &err), MQ_OK);
			uint32_t *way = mq_arena_array(&q.arena, 4, uint32_t);

			way[0] = route->link[0], way[1] = q.cluster->n_links + a / 2;
			way[2] = q.cluster->n_links + b / 2, way[3] = route->link[1];
			*(struct mq_route *)(uintptr_t)route = (struct mq_route){
				.n_links = 4, .link = way, .lat_s = route->lat_s, .bw_Bps = route->bw_Bps
			};
		}
	q.cluster->n_links += 4;
	mq_move_space_make(&q.problem, &q.space);
	shape(&q, (struct mq_shape){ .dp = 2, .pp = 4, .micro_batches = 1, .pipeline = MQ_PIPE_1F1B }, &plan);
	uint64_t effect = mq_plan_effect(&q.space, &plan, &q.arena);

	assert_true(effect_after(&q, &plan, 2, 3, 1) == effect);
	assert_true(effect_after(&q, &plan, 0, 4, 2) == effect);
	assert_true(effect_after(&q, &plan, 1, 2, 1) != effect);
	mq_arena_fini(&q.arena);
}

static void a_slow_device_is_a_class(void **state)
{
	struct question q;

	ask(&q, 8);
	assert_int_equal(q.space.classes.n, 1);
	mq_arena_fini(&q.arena);
	ask(&q, 5);
	assert_int_equal(q.space.classes.n, 2);
	for (uint32_t d = 0; d < 8; d++)
		assert_int_equal(q.space.classes.of[d], d == 5);
	assert_int_equal(q.space.classes.first[1], 5);
	mq_arena_fini(&q.arena);
}

/* Op i takes 2 s a sample on fast devices, and 3 on the one slow device where i is even, else 9. */
static double made_up(void *context, uint32_t op, enum mq_phase phase, uint32_t device, const uint32_t split[MQ_N_DIMS],
		      double samples)
{
	double parts = 1;

	for (int d = 0; d < MQ_N_DIMS; d++)
		parts *= split[d];
	if (phase == MQ_BACKWARD)
		return 0;
	return (device ? 2 : op % 2 ? 9 : 3) * samples / parts;
}

/* n ops on seven devices of speed 1/(2n) and one of 1/(3e + 9o): weights as speeds. */
static void bound_of_any_plan(void **state)
{
	struct question q;
	double even = 0, odd = 0;

	ask(&q, 0);
	/* neighbours in the graph differ in kind, so that the parity of the id tells them apart */
	for (uint32_t op = 0; op < q.model->n_ops; op++) {
		q.model->op[op].flop = op;
		*(op % 2 ? &odd : &even) += 1;
	}
	double fast = 1 / (2 * (even + odd)), slow = 1 / (3 * even + 9 * odd), all = 7 * fast + slow;
	double want = 32 * (even * fmin(2 * fast, 3 * slow) + odd * fmin(2 * fast, 9 * slow)) / all;

	assert_true(fabs(mq_busy_bound(&q.asked, made_up, NULL) / want - 1) < 1e-6);
	mq_arena_fini(&q.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_part_grows_to_the_whole),
					    cmocka_unit_test(neighbours_are_plans),
					    cmocka_unit_test(runs_of_ops_have_devices),
					    cmocka_unit_test(an_embedding_has_a_stage),
					    cmocka_unit_test(stages_divide_and_merge),
					    cmocka_unit_test(moves_are_distinct),
					    cmocka_unit_test(slow_devices_are_a_set),
					    cmocka_unit_test(many_types_leave_room),
					    cmocka_unit_test(switches_are_moves),
					    cmocka_unit_test(hosts_take_what_is_computed_again),
					    cmocka_unit_test(effects_are_told_apart),
					    cmocka_unit_test(like_devices_may_be_exchanged),
					    cmocka_unit_test(an_uplink_makes_pairs),
					    cmocka_unit_test(a_slow_device_is_a_class),
					    cmocka_unit_test(bound_of_any_plan),
					    cmocka_unit_test(samples_are_dealt_out),
					    cmocka_unit_test(decisions_go_over),
					    cmocka_unit_test(memory_is_saved),
					    cmocka_unit_test(layers_move_between_encoder_and_decoder),
					    cmocka_unit_test(other_degrees_keep_decisions),
					    cmocka_unit_test(samples_are_cut_where_tensors_were) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
