/*
 * test_hybrid.c - the estimates of the hybrid planner and the PaSE tables of a model, on a small
 * transformer and two device types, one three times as fast.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "maquette/rng.h"
#include "costing/costing.h"
#include "hybrid/cost.h"
#include "lib/pase_model.h"
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
};

static void say(void *context, const char *line)
{
}

/* Asked for, the floors are counted. */
static void take_bound(void *context, const struct mq_bound *bound)
{
}

static void ask(struct question *q)
{
	struct mq_model_request request = { .spec = "gpt:layers=8,hidden=256,heads=4,vocab=512,fused_attention=0",
					    .train = &q->train,
					    .seq = 64 };
	struct mq_err err = MQ_ERR_INIT;

	*q = (struct question){ .train = { .batch = 32, .dtype = MQ_FP16 } };
	if (mq_model_load(&request, &q->arena, &q->model, &err) != MQ_OK)
		fail_msg("%s", err.text);
	q->cluster = mq_cluster_flat(&q->arena, 8, "fast", 3e13, 16e9, 1e10, 1e-6);
	for (uint32_t d = 4; d < 8; d++)
		q->cluster->device[d].type = "slow";
	q->calib = bare_calib(&q->arena);
	mq_calib_add_ideal(q->calib, "fast", 3e13, 3e12, 16e9);
	mq_calib_add_ideal(q->calib, "slow", 1e13, 1e12, 16e9);
	if (mq_calib_bind(q->calib, q->cluster, &err) != MQ_OK)
		fail_msg("%s", err.text);
	q->limits.fix_pipeline = q->limits.fix_recompute = q->limits.fix_sync = -1;
	mq_rng_seed(&q->rng, 1);
	q->asked =
		(struct mq_question){ .model = q->model, .cluster = q->cluster, .calib = q->calib, .train = &q->train };
	q->problem = (struct mq_problem){ .q = &q->asked,
					  .costs = mq_costs_new(&q->asked, &q->arena),
					  .limits = &q->limits,
					  .objective = "step-time",
					  .rng = &q->rng,
					  .arena = &q->arena,
					  .evals = UINT64_MAX,
					  .seconds = (double)INFINITY,
					  .bound = take_bound,
					  .say = say };
}

/* A stage of the first `d` devices of a type. */
static struct mq_hybrid_stage stage_on(const struct mq_hybrid_cost *cost, uint32_t type, uint32_t d)
{
	const uint32_t *rank = cost->type[type].rank;
	struct mq_hybrid_stage stage = {
		.d = d, .t = 1, .n_shares = 1, .last_rank = rank[d - 1], .rank = rank, .stride = 1, .inner = 1
	};

	stage.share[0].type = type;
	stage.share[0].replicas = d;
	return stage;
}

/* One device does everything: the estimate is the sum of all ops, those that are recomputed once more, and updates. */
static void one_device_is_the_sum_of_its_ops(void **state)
{
	struct question q;
	struct mq_hybrid_cost cost;
	struct mq_err err = MQ_ERR_INIT;
	static const uint32_t whole[MQ_N_DIMS] = { 1, 1, 1, 1, 1, 1, 1 };
	uint32_t selective = 0;

	ask(&q);
	assert_int_equal(mq_hybrid_cost_init(&cost, &q.problem, &err), MQ_OK);
	assert_int_equal(cost.n_types, 2);
	struct mq_hybrid_candidate k = { .n_stages = 1, .micro_batches = 4 };

	k.stage[0] = stage_on(&cost, 1, 1); /* slow: device 4 */
	for (k.recompute = 0; k.recompute < MQ_N_RECOMPUTES; k.recompute++) {
		double want = 0;

		assert_true(mq_hybrid_estimate(&cost, &k));
		for (uint32_t i = 0; i < q.model->n_ops; i++) {
			const struct mq_op *op = &q.model->op[i];
			void *context = q.problem.costs->context;
			double forward_s = q.problem.costs->op_time(context, i, MQ_FORWARD, 4, whole, 8);
			bool again = op->layer != MQ_NONE && k.recompute != MQ_RECOMPUTE_NONE &&
				     (k.recompute == MQ_RECOMPUTE_FULL || op->saved_selective > 0);

			selective += again && k.recompute == MQ_RECOMPUTE_SELECTIVE;
			want += 4 * ((1 + again) * forward_s +
				     q.problem.costs->op_time(context, i, MQ_BACKWARD, 4, whole, 8));
			if (op->param > 0)
				want += q.problem.costs->op_time(context, i, MQ_UPDATE, 4, whole, 1);
		}
		assert_true(fabs(k.step_s / want - 1) < 1e-9);
	}
	assert_true(selective > 0);
	assert_int_equal(k.stage[0].layers, 8);
	assert_true(k.excess_B < 0);
	mq_hybrid_cost_fini(&cost);
	mq_arena_fini(&q.arena);
}

/* Every schedule, sync and recomputation of pipelines of one and two stages: the bound is below the
 * estimate, and close to it where layers can be dealt evenly; compute alone is below both. */
static void bounds_hold(struct mq_hybrid_cost *cost)
{
	for (uint32_t code = 0; code < 2 * 6 * MQ_N_PIPELINES * 4 * MQ_N_RECOMPUTES; code++) {
		uint32_t c = code, n = 1 + c % 2;
		struct mq_hybrid_candidate k = { .n_stages = n, .micro_batches = 1u << (c /= 2) % 6 };
		double bound, estimate;

		k.pipeline = (uint8_t)((c /= 6) % MQ_N_PIPELINES);
		k.sync = (uint8_t)(MQ_SYNC_ALLREDUCE + (c /= MQ_N_PIPELINES) % 4);
		k.recompute = (uint8_t)((c /= 4) % MQ_N_RECOMPUTES);
		for (uint32_t s = 0; s < n; s++)
			k.stage[s] = stage_on(cost, s, 2);
		if (!mq_hybrid_estimate(cost, &k))
			continue;
		estimate = k.step_s;
		bound = mq_hybrid_bound(cost, &k);
		assert_true(bound <= estimate);
		assert_true(k.floor_s > 0 && k.floor_s <= estimate);
		if (n == 1 && k.pipeline != MQ_PIPE_ZB_H1)
			assert_true(bound > 0.999 * estimate);
	}
}

/* Two stages, fast and slow: the fast one gets most layers, no deal of layers is better, and the
 * bound stays below. */
static void layers_follow_speed(void **state)
{
	struct question q;
	struct mq_hybrid_cost cost;
	struct mq_err err = MQ_ERR_INIT;

	ask(&q);
	assert_int_equal(mq_hybrid_cost_init(&cost, &q.problem, &err), MQ_OK);
	for (uint32_t m = 1; m <= 32; m *= 2) {
		struct mq_hybrid_candidate k = { .n_stages = 2, .micro_batches = m };

		for (uint32_t s = 0; s < 2; s++)
			k.stage[s] = stage_on(&cost, s, 1);
		assert_true(mq_hybrid_estimate(&cost, &k));
		assert_int_equal(k.stage[0].layers + k.stage[1].layers, 8);
		assert_true(k.stage[0].layers > k.stage[1].layers);
		assert_true(mq_hybrid_bound(&cost, &k) <= k.step_s);
	}
	bounds_hold(&cost);
	struct mq_hybrid_candidate none = { .n_stages = 1, .micro_batches = 32 };

	none.stage[0] = stage_on(&cost, 0, 4);
	assert_false(mq_hybrid_estimate(&cost, &none)); /* one sample for four replicas */
	mq_hybrid_cost_fini(&cost);
	mq_arena_fini(&q.arena);
}

/* One stage on the devices of both types, more than either type has: their gradients meet all the same, and without
 * gradients it is faster than on the fast ones alone. */
static void a_stage_may_mix_types(void **state)
{
	static const uint32_t rank[] = { 0, 1, 2, 3, 4, 5, 6, 7 };

	for (int infer = 0; infer < 2; infer++) {
		struct question q;
		struct mq_hybrid_cost cost;
		struct mq_err err = MQ_ERR_INIT;
		struct mq_hybrid_candidate few = { .n_stages = 1, .micro_batches = 1 }, all = few;

		ask(&q);
		q.train.infer = infer;
		assert_int_equal(mq_hybrid_cost_init(&cost, &q.problem, &err), MQ_OK);
		few.stage[0] = all.stage[0] = stage_on(&cost, 0, 4);
		all.stage[0].d = 8;
		all.stage[0].rank = rank;
		all.stage[0].n_shares = 2;
		all.stage[0].share[1].type = 1;
		all.stage[0].share[1].replicas = 4;
		assert_true(mq_hybrid_estimate(&cost, &few));
		assert_true(mq_hybrid_estimate(&cost, &all));
		if (infer)
			assert_true(all.step_s < few.step_s);
		mq_hybrid_cost_fini(&cost);
		mq_arena_fini(&q.arena);
	}
}

/* The solved choice costs no more than data parallelism, lowers to a valid plan, and fits the sums.
 */
static void pase_splits_are_plans(void **state)
{
	struct question q;
	struct mq_pase_model model;
	struct mq_elim_result r;
	struct mq_plan plan;
	struct mq_err err = MQ_ERR_INIT;
	uint32_t *choice;

	ask(&q);
	struct mq_devices devices = mq_devices_usable(&q.problem, &q.arena);

	assert_int_equal(devices.n, 8);
	assert_int_equal(mq_pase_from_problem(&q.problem, &devices, 2, &q.arena, &model, &err), MQ_OK);
	assert_int_equal(mq_elim_solve(&model.problem, &q.arena, &r, &err), MQ_OK);
	assert_true(fabs(mq_elim_cost(&model.problem, r.choice) / r.optimum - 1) < 1e-12);
	choice = mq_arena_array(&q.arena, q.model->n_ops, uint32_t);
	for (uint32_t op = 0; op < q.model->n_ops; op++) {
		for (uint32_t c = 0; c < model.problem.n_choices[op]; c++) {
			const uint32_t *split = model.split[op] + c * MQ_N_DIMS;
			uint32_t parts = 1;

			for (int d = 0; d < MQ_N_DIMS; d++)
				parts *= split[d];
			assert_int_equal(8 % parts, 0);
			if (split[MQ_DIM_BATCH] == 8)
				choice[op] = c;
		}
	}
	assert_true(r.optimum <= mq_elim_cost(&model.problem, choice));
	mq_pase_plan(&model, r.choice, &q.problem, &q.arena, &plan);
	if (mq_plan_check(&plan, q.model, q.cluster, &q.train, &err) != MQ_OK)
		fail_msg("%s", err.text);
	assert_true(mq_pase_memory(&model, r.choice) > 0);
	mq_arena_fini(&q.arena);
}

/* Machines of three and four devices: blocks of two, by hand. */
static void devices_come_in_blocks(void **state)
{
	static const uint32_t by_two[] = { 0, 1, 3, 4, 2, 5, 6 }, by_one[] = { 0, 3, 1, 4, 2, 5, 6 };
	struct question q;

	ask(&q);
	struct mq_devices devices = mq_devices_usable(&q.problem, &q.arena);

	devices.n = 7;
	for (uint32_t d = 0; d < 7; d++)
		q.cluster->device[d].node = d > 2;
	assert_int_equal(mq_devices_per_machine(q.cluster, &devices), 4);
	assert_memory_equal(mq_devices_in_blocks(q.cluster, &devices, 2, &q.arena).rank, by_two, sizeof(by_two));
	assert_memory_equal(mq_devices_in_blocks(q.cluster, &devices, 1, &q.arena).rank, by_one, sizeof(by_one));
	assert_memory_equal(mq_devices_in_blocks(q.cluster, &devices, 4, &q.arena).rank, devices.rank,
			    7 * sizeof(uint32_t));
	mq_arena_fini(&q.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_device_is_the_sum_of_its_ops),
		cmocka_unit_test(layers_follow_speed),
		cmocka_unit_test(a_stage_may_mix_types),
		cmocka_unit_test(pase_splits_are_plans),
		cmocka_unit_test(devices_come_in_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
