/*
 * test_software_space.c - which plans a training software runs: each rule by itself with its reason, plans
 * read back into the shapes that built them, and that what runs is exported.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "export/export.h"
#include "maquette/question.h"
#include "maquette/rng.h"
#include "libraries.h"
#include "models.h"

enum { DEVICES = 16, PER_NODE = 8 };

static struct mq_cluster *cluster;
static struct mq_train train;
static struct mq_question q;

/* Two machines of 8, and gpt of 8 layers and 8 heads, batch 32 in bf16. */
static void ask(const char *spec)
{
	train = (struct mq_train){ .batch = 32, .dtype = MQ_BF16, .grad_dtype = MQ_FP32 };
	cluster = mq_cluster_flat(&arena, DEVICES, "ideal", 1e12, 1e12, 1e10, 0);
	for (uint32_t d = 0; d < DEVICES; d++) {
		cluster->device[d].node = d / PER_NODE;
		cluster->device[d].local = d % PER_NODE;
	}
	cluster->n_nodes = DEVICES / PER_NODE;
	struct mq_calib *calib = bare_calib(&arena);
	struct mq_err err = MQ_ERR_INIT;
	mq_calib_add_ideal(calib, "ideal", 1e12, 1e12, 1e12);
	assert_int_equal(mq_calib_bind(calib, cluster, &err), MQ_OK);
	q = (struct mq_question){ .model = load(spec, 0, &train), .cluster = cluster, .calib = calib, .train = &train };
}

static const struct mq_software *software(const char *text)
{
	struct mq_software_record *r = mq_arena_alloc(&arena, sizeof(*r));
	struct mq_err err = MQ_ERR_INIT;

	if (mq_software_load("platforms/software", text, &arena, r, &err) != MQ_OK)
		fail_msg("%s", err.text);
	return &r->software;
}

static struct mq_plan *plan_of(const struct mq_shape *shape)
{
	struct mq_plan *plan = mq_arena_alloc(&arena, sizeof(*plan));
	struct mq_err err = MQ_ERR_INIT;

	if (mq_plan_from_shape(shape, q.model, cluster, &arena, plan, &err) != MQ_OK ||
	    mq_plan_check(plan, q.model, cluster, &train, &err) != MQ_OK)
		fail_msg("%s", err.text);
	return plan;
}

/* `part` NULL: the plan runs; else the reason has it. */
static void expect_plan(const char *name, const struct mq_plan *plan, const char *part)
{
	char why[256] = "";
	bool runs = mq_software_runs(software(name), &q, plan, why, sizeof(why));

	if (runs != !part || (part && (!strstr(why, part) || strncmp(why, name, strcspn(name, ",")))))
		fail_msg("%s %s: '%s', wanted '%s'", name, runs ? "runs it" : "does not run it", why, part ? part : "");
}

static void expect(const char *name, struct mq_shape shape, const char *part)
{
	shape.micro_batches = shape.micro_batches ? shape.micro_batches : 4;
	shape.pipeline = shape.pipeline ? shape.pipeline : MQ_PIPE_1F1B;
	expect_plan(name, plan_of(&shape), part);
	/* engines ask of shapes before they build them; of the model once, of the order of devices never */
	if ((!part || !shape.device) && mq_software_runs_model(software(name), &q, NULL, 0))
		assert_int_equal(mq_software_runs_shape(software(name), &q, &shape, NULL, 0), !part);
}

#define SHAPE(...) ((struct mq_shape){ .vocab_parallel = true, __VA_ARGS__ })

/* ---- rules ------------------------------------------------------------------------------------------- */

static void rules_of_degrees(void **state)
{
	ask("llama:layers=8,hidden=256,heads=8,kv_heads=8,ffn=1024,vocab=512");
	expect("megatron-core", SHAPE(.dp = 8, .tp = 2), NULL);
	expect("fsdp", SHAPE(.dp = 8, .tp = 2, .sync = MQ_SYNC_ZERO3), "has no tensor parallelism (tp 2)");
	expect("ddp", SHAPE(.dp = 8, .pp = 2), "has no pipeline stages (pp 2)");
	expect("deepspeed", SHAPE(.dp = 4, .cp = 4), "has no context parallelism (cp 4)");
	expect("megatron-lm-2021", SHAPE(.dp = 8, .cp = 2), "has no context parallelism");
	expect("torchtitan", SHAPE(.dp = 8, .tp = 2, .sync = MQ_SYNC_ZERO3), "splits norms along the sequence");
	expect("torchtitan", SHAPE(.dp = 8, .tp = 2, .sync = MQ_SYNC_ZERO3, .sequence_parallel = true), NULL);
	expect("deepspeed", SHAPE(.dp = 8, .tp = 2), "keeps the vocabulary whole");
	struct mq_shape whole = { .dp = 8, .tp = 2 };
	expect("deepspeed", whole, NULL);
	expect("megatron-core", whole, "splits the vocabulary over tensor parallelism");
	whole.sequence_parallel = true;
	expect("deepspeed", whole, "keeps norms whole");
	expect("deepspeed", (struct mq_shape){ .dp = 4, .tp = 2, .pp = 2 }, "tensor parallelism (tp 2) or pipeline");
}

static void rules_of_pipelines(void **state)
{
	static const uint32_t uneven[] = { 1, 3, 3, 1 }, even[] = { 2, 2, 2, 2 };

	ask("llama:layers=8,hidden=256,heads=8,kv_heads=8,ffn=1024,vocab=512");
	expect("megatron-core", SHAPE(.dp = 4, .pp = 4, .pipeline = MQ_PIPE_ZB_H1),
	       "schedules interleaved or 1f1b, not zb-h1");
	expect("torchtitan", SHAPE(.dp = 4, .pp = 4, .pipeline = MQ_PIPE_ZB_H1, .sync = MQ_SYNC_ZERO3), "not zb-h1");
	expect("generic", SHAPE(.dp = 4, .pp = 4, .pipeline = MQ_PIPE_ZB_H1), NULL);
	expect("megatron-core", SHAPE(.dp = 4, .pp = 4, .stage_layers = uneven), NULL);
	expect("torchtitan", SHAPE(.dp = 4, .pp = 4, .stage_layers = uneven, .sync = MQ_SYNC_ZERO3), NULL);
	expect("deepspeed", SHAPE(.dp = 4, .pp = 4, .stage_layers = uneven), "stage 0 has 1 of 8, it would have 2");
	expect("deepspeed", SHAPE(.dp = 4, .pp = 4, .stage_layers = even), NULL);
	/* by cost a layer has 4 x 256 + 3 x 1024 rows, the head 512: 8 of 4096 and 512 in four parts of 8320 */
	static const uint32_t by_cost[] = { 3, 2, 2, 1 };
	expect("nanotron", SHAPE(.dp = 4, .pp = 4, .stage_layers = even), "stage 0 has 2 of 8, it would have 3");
	expect("nanotron", SHAPE(.dp = 4, .pp = 4, .stage_layers = by_cost), NULL);
	/* 8 parts of 4160: two layers pass the first, then each its own; the last has the head. Of 16 stages 9 have
	 * work. */
	static const uint32_t ends[] = { 2, 1, 1, 1, 1, 1, 1, 0 }, idle[] = { 1, 1, 1, 1, 1, 1, 1, 1, 0 };
	expect("nanotron", SHAPE(.dp = 2, .pp = 8, .stage_layers = ends), NULL);
	expect("nanotron", SHAPE(.pp = 9, .stage_layers = idle), NULL);
	expect("deepspeed", SHAPE(.dp = 4, .pp = 4, .sync = MQ_SYNC_ZERO2), "has no zero2 beside pipeline stages");
	expect("torchtitan", SHAPE(.dp = 4, .pp = 4, .sync = MQ_SYNC_ZERO2), NULL);
	expect("megatron-core",
	       SHAPE(.dp = 4, .pp = 4, .virtual = 2, .pipeline = MQ_PIPE_INTERLEAVED, .micro_batches = 2),
	       "in rounds of 4");
	expect("megatron-core", SHAPE(.dp = 4, .pp = 4, .virtual = 2, .pipeline = MQ_PIPE_INTERLEAVED), NULL);
	/* one chunk per device, interleaved, is 1F1B */
	expect("deepspeed", SHAPE(.dp = 4, .pp = 4, .pipeline = MQ_PIPE_INTERLEAVED), NULL);
	/* without stages all schedules are one */
	expect("deepspeed", SHAPE(.dp = 16, .micro_batches = 1, .pipeline = MQ_PIPE_ZB_H1), NULL);
}

static void rules_of_sync(void **state)
{
	ask("llama:layers=8,hidden=256,heads=8,kv_heads=8,ffn=1024,vocab=512");
	expect("megatron-core", SHAPE(.dp = 2, .cp = 4, .ulysses = 2), NULL);
	expect("torchtitan", SHAPE(.dp = 2, .cp = 4, .ulysses = 4, .sync = MQ_SYNC_ZERO3), "round a ring of all cp 4");
	expect("megatron-core", SHAPE(.dp = 8, .sync = MQ_SYNC_ZERO3),
	       "syncs gradients by zero1 or allreduce, not zero3");
	expect("megatron-core", SHAPE(.dp = 8, .sync = MQ_SYNC_PS), "not ps");
	expect("generic", SHAPE(.dp = 8, .sync = MQ_SYNC_PS), NULL);
	expect("torchtitan", SHAPE(.dp = 8, .sync = MQ_SYNC_ZERO1), "not zero1");
	expect("torchtitan", SHAPE(.dp = 8), NULL);
	expect("torchtitan", SHAPE(.dp = 8, .tp = 2, .sequence_parallel = true), "beside tensor, context or expert");
	expect("torchtitan", SHAPE(.dp = 1, .tp = 2, .sequence_parallel = true),
	       "trains in fp32 under tensor or pipeline");
	expect("torchtitan", SHAPE(.dp = 4, .pp = 4), "trains in fp32");
	expect("torchtitan", SHAPE(.dp = 4, .pp = 4, .sync = MQ_SYNC_ZERO3), NULL);
	train.dtype = MQ_FP32;
	expect("torchtitan", SHAPE(.dp = 1, .tp = 2, .sequence_parallel = true), NULL); /* nothing to sync */
	train.dtype = MQ_BF16;
	expect("deepspeed", SHAPE(.dp = 16, .micro_batches = 1, .recompute = MQ_RECOMPUTE_SELECTIVE),
	       "recomputes full or none, not selective");
	train.infer = true;
	expect("deepspeed", SHAPE(.dp = 16, .micro_batches = 1, .recompute = MQ_RECOMPUTE_SELECTIVE), NULL);
}

static void rules_of_the_model(void **state)
{
	ask("llama:layers=8,hidden=256,heads=8,kv_heads=8,ffn=1024,vocab=512");
	train.dtype = MQ_FP16;
	expect("torchtitan", SHAPE(.dp = 8), "trains in bf16 or fp32, not fp16; ask with another --dtype");
	train.dtype = MQ_BF16;
	train.gemm_dtype = MQ_GEMM_FP8;
	expect("deepspeed", SHAPE(.dp = 8), "not fp8; ask with another --gemm-dtype");
	expect("megatron-core", SHAPE(.dp = 8), NULL);
	train.gemm_dtype = MQ_GEMM_FP4;
	expect("torchtitan", SHAPE(.dp = 8), "not fp4");
	ask("resnet50");
	expect("megatron-core", SHAPE(.dp = 8), "runs no 'resnet50");
	expect("ddp", SHAPE(.dp = 8), NULL);
	expect("deepspeed", SHAPE(.dp = 8), NULL);
	ask("moe:layers=4,hidden=256,heads=8,experts=8,vocab=512");
	expect("megatron-lm-2021", SHAPE(.dp = 8), "runs no mixtures of experts");
	expect("deepspeed", SHAPE(.dp = 8, .ep = 4), "has no expert parallelism (ep 4)");
	expect("megatron-core", SHAPE(.dp = 8, .ep = 4), NULL);
	expect("megatron-core", SHAPE(.dp = 8, .tp = 2), "mixtures under tensor parallelism only with norms");
	expect("megatron-core", SHAPE(.dp = 8, .tp = 2, .ep = 2, .sequence_parallel = true), NULL);
	expect("megatron-core", SHAPE(.dp = 4, .tp = 2, .ep = 8, .etp = 1, .sequence_parallel = true), NULL);
	expect("megatron-core", SHAPE(.dp = 4, .tp = 4, .ep = 2, .etp = 1, .sequence_parallel = true), NULL);
	expect("torchtitan",
	       SHAPE(.dp = 4, .tp = 2, .ep = 8, .etp = 1, .sync = MQ_SYNC_ZERO3, .sequence_parallel = true), NULL);
	expect("torchtitan",
	       SHAPE(.dp = 4, .tp = 4, .ep = 2, .etp = 1, .sync = MQ_SYNC_ZERO3, .sequence_parallel = true),
	       "all of tp x cp = 4, and replicas: ep 2 is no multiple");
	expect("torchtitan", SHAPE(.dp = 8, .tp = 2, .ep = 2, .sync = MQ_SYNC_ZERO3, .sequence_parallel = true),
	       "splits them over tp 2 too");
}

/* Layers of the stages of a pipeline as a software deals them out; NULL = evenly. */
static const uint32_t *dealt(const struct mq_software *s, const struct mq_model *m, uint32_t stages, uint32_t *busy)
{
	struct mq_shape shape = { .pp = stages };

	*busy = mq_software_stages(s, m, &arena, &shape);
	return shape.stage_layers;
}

static const uint32_t *layers_dealt(const struct mq_software *s, uint32_t layers, uint32_t stages)
{
	const struct mq_model model = { .n_layers = layers };
	uint32_t busy;
	const uint32_t *layer = dealt(s, &model, stages, &busy);

	assert_int_equal(busy, stages);
	return layer;
}

static void layers_of_stages(void **state)
{
	struct mq_software s = *mq_software_plain();
	const uint32_t want[] = { 3, 3, 3, 1 }, ends[] = { 3, 4, 4, 3 };

	(void)state;
	assert_null(layers_dealt(&s, 10, 4)); /* evenly, the first ones more */
	s.partition = MQ_STAGES_CEIL;
	assert_memory_equal(layers_dealt(&s, 10, 4), want, sizeof(want));
	assert_null(layers_dealt(&s, 12, 4));
	assert_null(layers_dealt(&s, 5, 4)); /* 2 2 1 and none left for the fourth */
	s.partition = MQ_STAGES_ENDS;
	assert_null(layers_dealt(&s, 12, 4)); /* nor do 14 divide */
	assert_memory_equal(layers_dealt(&s, 14, 4), ends, sizeof(ends));
	assert_null(layers_dealt(&s, 14, 1));
}

/* Llama of 8 layers of 16 (4 x 2 x 1 x 2) parameters and a head of 3 of them: 11 in all. */
static void layers_by_cost(void **state)
{
	struct mq_software s = *mq_software_plain();
	const struct mq_model model = { .n_layers = 8, .hidden = 2, .heads = 2, .head_dim = 1, .vocab = 24 };
	/* a stage is full past 11/2, 11/4, 11/8 of them: the layer that crosses stays */
	const uint32_t two[] = { 6, 2 }, four[] = { 3, 3, 2, 0 }, eight[] = { 2, 1, 2, 1, 1, 1, 0, 0 };
	uint32_t busy;

	(void)state;
	s.partition = MQ_STAGES_COST;
	assert_null(dealt(&s, &model, 1, &busy));
	assert_memory_equal(dealt(&s, &model, 2, &busy), two, sizeof(two));
	assert_int_equal(busy, 2);
	assert_memory_equal(dealt(&s, &model, 4, &busy), four, sizeof(four));
	assert_int_equal(busy, 4);
	assert_memory_equal(dealt(&s, &model, 8, &busy), eight, sizeof(eight));
	assert_int_equal(busy, 7);
	/* a layer that fills its stage to the last parameter does not pass it: 31 of a part in 32 of 34.2 */
	const struct mq_model llama = {
		.n_layers = 32, .hidden = 4096, .heads = 32, .head_dim = 128, .ffn = 14336, .vocab = 131072
	};
	const uint32_t *many = dealt(&s, &llama, 32, &busy);
	assert_int_equal(busy, 30);
	assert_int_equal(many[28], 2);
	assert_int_equal(many[29], 0);
}

static void rules_of_devices(void **state)
{
	/* both machines, the other way round: a host file says that */
	static const uint32_t turned[] = { 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7 };
	/* stage by stage, replicas side by side: 0 1 of machine 0, ... */
	static const uint32_t major[] = { 0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15 };
	static const uint32_t torn[] = { 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15 };

	ask("llama:layers=8,hidden=256,heads=8,kv_heads=8,ffn=1024,vocab=512");
	expect("torchtitan", SHAPE(.dp = 8, .pp = 2, .sync = MQ_SYNC_ZERO3, .device = turned), NULL);
	expect("megatron-core", SHAPE(.dp = 8, .pp = 2, .device = major), NULL);
	expect("torchtitan", SHAPE(.dp = 8, .pp = 2, .sync = MQ_SYNC_ZERO3, .device = major),
	       "numbers ranks stage by stage, machine by machine");
	expect("megatron-core", SHAPE(.dp = 16, .micro_batches = 1, .device = torn),
	       "stage by stage or replica by replica");
	expect("ddp", SHAPE(.dp = 16, .micro_batches = 1, .device = torn), NULL);
	cluster->device[3].kind = MQ_CPU;
	expect_plan("ddp", plan_of(&SHAPE(.dp = 16, .micro_batches = 1, .pipeline = MQ_PIPE_1F1B)),
		    "does not train on CPUs");
	expect_plan("generic", plan_of(&SHAPE(.dp = 16, .micro_batches = 1, .pipeline = MQ_PIPE_1F1B)), NULL);
}

static void rules_of_shapes(void **state)
{
	static const double speed[] = { 3, 1, 1, 1 }, same[] = { 2, 2, 2, 2 };
	static const uint32_t degrees[] = { 1, 2 };

	ask("llama:layers=8,hidden=256,heads=8,kv_heads=8,ffn=1024,vocab=512");
	expect("megatron-core", SHAPE(.dp = 4, .share = speed, .micro_batches = 1),
	       "has no uneven shares of the batch");
	expect("megatron-core", SHAPE(.dp = 4, .share = same, .micro_batches = 1), NULL);
	expect("megatron-core", SHAPE(.dp = 4, .pp = 2, .stage_tp = degrees), "stage");
	expect("generic", SHAPE(.dp = 4, .pp = 2, .stage_tp = degrees), NULL);
	expect("megatron-core", SHAPE(.dp = 6, .micro_batches = 1), "the same number of samples");
	/* an op on fewer devices than its stage */
	struct mq_plan *plan = plan_of(&SHAPE(.dp = 4, .pipeline = MQ_PIPE_1F1B));
	uint32_t c = mq_plan_add_config(plan, &arena, 1);
	plan->config_of[5] = c;
	expect_plan("megatron-core", plan, "ops differ in devices");
	expect_plan("generic", plan, NULL);
	uint32_t *device = mq_arena_array(&arena, q.model->n_ops, uint32_t);
	for (uint32_t op = 0; op < q.model->n_ops; op++)
		device[op] = op % 2;
	mq_plan_from_placement(device, q.model, &arena, plan);
	expect_plan("megatron-core", plan, "one dp x tp x pp for all");
	expect_plan("generic", plan, NULL);
}

/* What a plan leaves to the software is no reason; what it decides otherwise needs a setting. */
static void rules_of_decisions(void **state)
{
	ask("llama:layers=8,hidden=256,heads=8,kv_heads=8,ffn=1024,vocab=512");
	struct mq_plan *plan = plan_of(&SHAPE(.dp = 8, .pipeline = MQ_PIPE_1F1B));
	plan->overlap_grads = false; /* not said: it is the software's */
	expect_plan("torchtitan", plan, NULL);
	plan->explicit = MQ_EXPLICIT_OVERLAP_GRADS;
	expect_plan("torchtitan", plan, "has no setting for overlap_grads");
	expect_plan("megatron-core", plan, NULL);
	plan->explicit = MQ_EXPLICIT_EARLY_STOP;
	plan->early_stop = true;
	expect_plan("megatron-core", plan, NULL); /* nothing is recomputed */
	for (uint32_t i = 0; i < plan->n_configs; i++)
		plan->config[i].recompute = MQ_RECOMPUTE_FULL;
	expect_plan("megatron-core", plan, "has no setting for early_stop");
	expect_plan("torchtitan", plan, "has no setting for early_stop");
	expect_plan("torchtitan-0.1", plan, NULL); /* its own way */
	plan->explicit = MQ_EXPLICIT_OFFLOAD_OPTIMIZER;
	plan->offload_optimizer = true;
	expect_plan("torchtitan", plan, "has no setting for offload_optimizer");
	expect_plan("deepspeed", plan, "only where ZeRO shards it");
	for (uint32_t i = 0; i < plan->n_configs; i++)
		plan->config[i].sync = MQ_SYNC_ZERO1;
	expect_plan("deepspeed", plan, NULL);
	plan->explicit = 0;
	for (uint32_t i = 0; i < plan->n_configs; i++)
		plan->config[i].sync = MQ_SYNC_ZERO3;
	expect_plan("torchtitan,offload_optimizer=1", plan, "has no setting that offloads");
	for (uint32_t i = 0; i < plan->n_configs; i++)
		plan->config[i].sync = MQ_SYNC_ZERO1;
	plan->explicit = MQ_EXPLICIT_OFFLOAD_LAYERS;
	plan->offload_layers = 2;
	for (uint32_t i = 0; i < plan->n_configs; i++)
		plan->config[i].recompute = MQ_RECOMPUTE_NONE;
	expect_plan("megatron-core", plan, NULL);
	expect_plan("generic", plan, NULL);
	expect_plan("deepspeed", plan, "has no setting for offload_layers");
	plan->offload_layers = 1000;
	expect_plan("megatron-core", plan, "offloads activations of fewer layers than the model's");
	plan->offload_layers = 2;
	for (uint32_t i = 0; i < plan->n_configs; i++)
		plan->config[i].recompute = MQ_RECOMPUTE_FULL;
	expect_plan("megatron-core", plan, "offloads activations only where nothing is computed again");
	expect_plan("generic", plan, NULL);
	plan->explicit = 0;
	plan->algo = MQ_ALGO_RING;
	expect_plan("megatron-core", plan, NULL);
	expect_plan("deepspeed", plan, "has no setting for algo");
	plan->algo = MQ_ALGO_AUTO;
	plan->zero_group = 3;
	expect_plan("megatron-core", plan, "shards over groups that divide");
	plan->zero_group = 4;
	expect_plan("megatron-core", plan, NULL);
	expect_plan("deepspeed", plan, "has no setting for zero_group");
}

/* A plan whose groups of ZeRO are no equal parts of its replicas is refused; without ZeRO they mean nothing. */
static void groups_of_zero_divide(void **state)
{
	struct mq_err err = MQ_ERR_INIT;

	ask("llama:layers=2,hidden=64,heads=2,vocab=512");
	for (uint8_t sync = MQ_SYNC_ALLREDUCE; sync <= MQ_SYNC_ZERO3; sync++)
		for (uint32_t dp = 1; dp <= 8; dp++) {
			struct mq_plan *plan = plan_of(&SHAPE(.dp = dp, .sync = sync, .pipeline = MQ_PIPE_1F1B));

			for (plan->zero_group = 0; plan->zero_group < 10; plan->zero_group++) {
				bool fits = sync < MQ_SYNC_ZERO1 || !plan->zero_group || dp % plan->zero_group == 0;

				assert_int_equal(mq_plan_check(plan, q.model, cluster, &train, &err) == MQ_OK, fits);
			}
		}
}

/* ---- names --------------------------------------------------------------------------------------------- */

/* Files that are read once for all that inherit from them say what each says alone. */
static void all_are_as_each_alone(void **state)
{
	struct mq_software_record *all;
	struct mq_err err = MQ_ERR_INIT;
	uint32_t n, listed = 0;

	assert_int_equal(mq_software_load_all("platforms/software", &arena, &all, &n, &err), MQ_OK);
	assert_true(n > 40);
	for (uint32_t i = 0; i < n; i++) {
		struct mq_software_record r;

		assert_int_equal(mq_software_load("platforms/software", all[i].software.name, &arena, &r, &err), MQ_OK);
		assert_int_equal(mq_software_hash(&all[i].software, 1), mq_software_hash(&r.software, 1));
		assert_string_equal(all[i].inherits ? all[i].inherits : "", r.inherits ? r.inherits : "");
		assert_int_equal(all[i].listed, r.listed);
		listed += r.listed;
	}
	assert_true(listed > 3 && listed < n);
}

static void names_those_that_run_it(void **state)
{
	static const char *const names[] = { "ddp",       "fsdp", "generic", "megatron-core", "megatron-core-0.8",
					     "torchtitan" };
	struct mq_software_record record[6];
	struct mq_err err = MQ_ERR_INIT;

	ask("llama:layers=8,hidden=256,heads=8,kv_heads=8,ffn=1024,vocab=512");
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(mq_software_load("platforms/software", names[i], &arena, &record[i], &err), MQ_OK);
	/* generic and releases are not listed */
	assert_string_equal(
		mq_software_runs_in(record, 6, &q, plan_of(&SHAPE(.dp = 8, .pipeline = MQ_PIPE_1F1B)), &arena),
		"ddp megatron-core torchtitan");
	assert_string_equal(mq_software_runs_in(record, 6, &q, plan_of(&SHAPE(.dp = 8, .sync = MQ_SYNC_ZERO3)), &arena),
			    "fsdp torchtitan");
	assert_string_equal(mq_software_runs_in(record, 6, &q, plan_of(&SHAPE(.dp = 8, .sync = MQ_SYNC_PS)), &arena),
			    "-");
	assert_string_equal(record[4].software.target, "megatron"); /* inherited */
	assert_false(record[4].listed);
	assert_null(record[2].software.target);
}

/* ---- random shapes -------------------------------------------------------------------------------------- */

static uint32_t power(struct mq_rng *rng, uint32_t most)
{
	return 1u << mq_rng_below(rng, most + 1);
}

static const uint32_t *random_order(struct mq_rng *rng, const struct mq_shape *s)
{
	uint32_t n = s->dp * s->tp * s->cp * s->pp, width = s->tp * s->cp, how = mq_rng_below(rng, 4);
	uint32_t *device = mq_arena_array(&arena, n, uint32_t), at = 0;

	for (uint32_t stage = 0; stage < s->pp; stage++)
		for (uint32_t replica = 0; replica < s->dp; replica++)
			for (uint32_t k = 0; k < width; k++, at++)
				device[at] = how == 1 ? (at + PER_NODE) % DEVICES :
					     how == 2 ? (replica * s->pp + stage) * width + k :
							at;
	for (uint32_t i = 0; how == 3 && i < n; i++) {
		uint32_t other = i + mq_rng_below(rng, n - i), kept = device[i];

		device[i] = device[other];
		device[other] = kept;
	}
	return how ? device : NULL;
}

static const uint32_t *random_layers(struct mq_rng *rng, uint32_t stages, uint32_t layers)
{
	uint32_t *each = mq_arena_array(&arena, stages, uint32_t);

	if (stages > layers || mq_rng_below(rng, 2))
		return NULL;
	for (uint32_t i = 0; i < layers; i++)
		each[i < stages ? i : mq_rng_below(rng, stages)]++;
	return each;
}

static struct mq_shape random_shape(struct mq_rng *rng)
{
	static const uint8_t syncs[] = { MQ_SYNC_ALLREDUCE, MQ_SYNC_ZERO1, MQ_SYNC_ZERO2, MQ_SYNC_ZERO3, MQ_SYNC_PS };
	struct mq_shape s = { .dp = power(rng, 4),
			      .tp = power(rng, 2),
			      .pp = power(rng, 2),
			      .cp = power(rng, 1),
			      .ep = 1,
			      .virtual = 1,
			      .micro_batches = power(rng, 4) };

	if (q.model->experts)
		s.ep = power(rng, 3);
	if (s.ep > 1 && s.tp * s.cp > 1 && mq_rng_below(rng, 2))
		s.etp = 1 + mq_rng_below(rng, 2);
	if (s.cp > 1 && mq_rng_below(rng, 2))
		s.ulysses = s.cp;
	s.pipeline = (uint8_t)mq_rng_below(rng, MQ_N_PIPELINES);
	if (mq_pipeline_is_v(s.pipeline))
		s.virtual = 2;
	if (s.pipeline == MQ_PIPE_INTERLEAVED && s.pp > 1)
		s.virtual = power(rng, 1);
	s.sync = syncs[mq_rng_below(rng, 5)];
	s.recompute = (uint8_t)mq_rng_below(rng, MQ_N_RECOMPUTES);
	s.sequence_parallel = s.tp > 1 && mq_rng_below(rng, 2);
	s.vocab_parallel = s.tp > 1 && mq_rng_below(rng, 2);
	if (s.dp * s.tp * s.pp * s.cp <= DEVICES)
		s.device = random_order(rng, &s);
	s.stage_layers = random_layers(rng, s.pp * s.virtual, q.model->n_layers);
	return s;
}

static bool writes(const char *target, const struct mq_software *s, const struct mq_plan *plan, char *why, size_t size)
{
	const struct mq_question own = {
		.model = q.model, .cluster = q.cluster, .calib = q.calib, .software = s, .train = q.train
	};
	struct mq_export e = { .model = q.model, .cluster = cluster, .train = &train, .plan = plan, .arena = &arena };
	struct mq_err err = MQ_ERR_INIT;
	const char *text = "";
	enum mq_status status = mq_export_open(&e, &own, &err);

	if (status == MQ_OK)
		status = !strncmp(target, "megatron", 8) ? mq_export_megatron(&e, &text, &err) :
			 !strcmp(target, "deepspeed")    ? mq_export_deepspeed(&e, &text, &err) :
							   mq_export_torchtitan(&e, &text, &err);
	assert_true(status != MQ_OK || *text);
	snprintf(why, size, "%.*s", (int)size - 1, err.text);
	return status == MQ_OK;
}

/* What runs is written; what does not is refused for the same reason; a shape is read back as it was. */
static void what_runs_is_exported(const char *spec)
{
	static const char *const names[] = {
		"megatron-core",  "torchtitan", "deepspeed", "megatron-core,overlap_tp=1", "torchtitan,shard_group=2",
		"megatron-bridge"
	};
	const struct mq_software *s[6];
	uint32_t runs[6] = { 0 };
	struct mq_rng rng;

	ask(spec);
	mq_rng_seed(&rng, 7);
	for (uint32_t k = 0; k < 6; k++)
		s[k] = software(names[k]);
	for (uint32_t i = 0; i < 4000; i++) {
		struct mq_arena_mark mark = mq_arena_mark(&arena);
		struct mq_shape shape = random_shape(&rng);
		struct mq_plan plan;
		struct mq_err err = MQ_ERR_INIT;

		if (mq_plan_from_shape(&shape, q.model, cluster, &arena, &plan, &err) == MQ_OK &&
		    mq_plan_check(&plan, q.model, cluster, &train, &err) == MQ_OK)
			for (uint32_t k = 0; k < 6; k++) {
				char why[256] = "", other[256] = "";
				bool can = mq_software_runs(s[k], &q, &plan, why, sizeof(why));

				runs[k] += can;
				if (writes(s[k]->target, s[k], &plan, other, sizeof(other)) != can ||
				    strncmp(why, other, strlen(why)) || (can && *other)) /* a remedy may follow */
					fail_msg("%s: runs %d, '%s' and '%s'", names[k], can, why, other);
				if (can && !mq_software_runs_shape(s[k], &q, &shape, why, sizeof(why)))
					fail_msg("%s: the plan runs, its shape does not: %s", names[k], why);
			}
		mq_arena_rewind(&arena, mark);
	}
	for (uint32_t k = 0; k < 6; k++)
		assert_true(runs[k] > 20);
}

static void what_runs_is_exported_llama(void **state)
{
	what_runs_is_exported("llama:layers=8,hidden=256,heads=8,kv_heads=8,ffn=1024,vocab=512");
}

static void what_runs_is_exported_moe(void **state)
{
	what_runs_is_exported("moe:layers=4,hidden=256,heads=8,experts=8,vocab=512");
}

static void shapes_are_read_back(void **state)
{
	struct mq_rng rng;
	uint32_t read = 0;

	ask("moe:layers=4,hidden=256,heads=8,experts=8,vocab=512");
	mq_rng_seed(&rng, 11);
	for (uint32_t i = 0; i < 2000; i++) {
		struct mq_shape shape = random_shape(&rng);
		struct mq_plan plan, again;
		struct mq_plan_form form;
		struct mq_err err = MQ_ERR_INIT;

		if (mq_plan_from_shape(&shape, q.model, cluster, &arena, &plan, &err) != MQ_OK ||
		    mq_plan_check(&plan, q.model, cluster, &train, &err) != MQ_OK)
			continue;
		mq_plan_form(&q, &plan, &arena, &form);
		if (!form.shaped)
			fail_msg("dp %u tp %u pp %u cp %u ep %u x%u: %s", shape.dp, shape.tp, shape.pp, shape.cp,
				 shape.ep, shape.virtual, form.why);
		assert_int_equal(mq_plan_from_shape(&form.shape, q.model, cluster, &arena, &again, &err), MQ_OK);
		assert_true(mq_plan_hash(&again) == mq_plan_hash(&plan));
		assert_int_equal(form.shape.ep, shape.ep);
		read++;
	}
	assert_true(read > 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_of_degrees),
		cmocka_unit_test(rules_of_pipelines),
		cmocka_unit_test(rules_of_sync),
		cmocka_unit_test(rules_of_the_model),
		cmocka_unit_test(layers_of_stages),
		cmocka_unit_test(layers_by_cost),
		cmocka_unit_test(rules_of_devices),
		cmocka_unit_test(rules_of_shapes),
		cmocka_unit_test(rules_of_decisions),
		cmocka_unit_test(groups_of_zero_divide),
		cmocka_unit_test(all_are_as_each_alone),
		cmocka_unit_test(names_those_that_run_it),
		cmocka_unit_test(what_runs_is_exported_llama),
		cmocka_unit_test(what_runs_is_exported_moe),
		cmocka_unit_test(shapes_are_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
