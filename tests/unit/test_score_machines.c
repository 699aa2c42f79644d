/*
 * test_score_machines.c - the machines behind a row of measurements, what runs where on them, and the shape of its
 * plan: degrees, micro-batches, stages, sharding.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "score_rows.h"

/* A device by its name and by what others call it; names are whole words. */
static void test_devices(void **state)
{
	static const struct {
		const char *gpu, *device;
	} want[] = {
		{ "L40S", "L40S" },
		{ "L4", "L4" },
		{ "NVIDIA L40", "L40" },
		{ "NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB" },
		{ "A100-SXM4-40GB", "A100-SXM4-40GB" },
		{ "A100-PCIE-40GB", "A100-PCIE-40GB" },
		{ "NVIDIA A100 80GB PCIe", "A100-PCIE-80GB" },
		{ "Tesla V100-SXM2-16GB", "V100-SXM2-16GB" },
		{ "V100S-PCIE-32GB", "V100S-PCIE-32GB" },
		{ "Tesla P100-SXM2-16GB", "P100-SXM2-16GB" },
		{ "GeForce RTX 3090", "RTX-3090" },
		{ "RTX 4090D", "RTX-4090D" },
		{ "RTX4090", "RTX-4090" },
		{ "RTX A6000", "RTX-A6000" },
		{ "H800", "H800-SXM-80GB" },
		{ "H20", "H20-96GB" },
		{ "AMD Instinct MI300X", "MI300X" },
	};
	struct mq_run r = gpt();
	struct mq_case c;

	(void)state;
	r.precision = "";
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		r.gpu = want[i].gpu;
		build(&r, &c);
		assert_string_equal(c.part[0].device, want[i].device);
	}
}

/* Rows of one model and batch are ranked together, whatever their plans, but not those of another network. */
static void test_group(void **state)
{
	struct mq_run r = gpt();
	struct mq_case one, other;

	r.platform = "gpu=A100-SXM4-80GB nodes=4 gpus=8 nics=4 nic_GBps=12.5 network=omnipath";
	build(&r, &one);
	r.platform = "gpu=A100-SXM4-80GB nodes=4 gpus=8 nics=4 nic_GBps=12.5 network=roce";
	build(&r, &other);
	assert_string_not_equal(mq_run_group(&one, &arena), mq_run_group(&other, &arena));
	r.platform = "gpu=A100-SXM4-80GB nodes=8 gpus=4 nics=4 nic_GBps=12.5 network=roce";
	r.tp = 2;
	r.mbs = 1;
	build(&r, &one);
	assert_string_equal(mq_run_group(&one, &arena), mq_run_group(&other, &arena));
}

/* Megatron's chunks are even, or the embedding and the loss count as layers. */
static void test_chunks(void **state)
{
	struct mq_run r = gpt();
	struct mq_case c;

	(void)state;
	r.gpus = 64;
	r.tp = 1;
	r.pp = 4;
	r.vp = 3;
	build(&r, &c); /* 24 layers in 12 chunks */
	assert_null(c.shape.stage_layers);
	r.layers = 10; /* and the two ends */
	build(&r, &c);
	for (int s = 0; s < 12; s++)
		assert_int_equal(c.shape.stage_layers[s], s > 0 && s < 11);
	r.layers = 23;
	build(&r, &c);
	for (int s = 0; s < 12; s++)
		assert_int_equal(c.shape.stage_layers[s], s < 11 ? 2 : 1);
	r.layers = 45; /* explicit layouts: three items less behind, as far as there are so many */
	build(&r, &c);
	for (int s = 0; s < 12; s++)
		assert_int_equal(c.shape.stage_layers[s], s < 11 ? 4 : 1);
	r.layers = 21;
	build(&r, &c);
	for (int s = 0; s < 12; s++)
		assert_int_equal(c.shape.stage_layers[s], s == 0 ? 1 : s < 11 ? 2 : 0);
	r.layers = 23;
	r.stage_layers = "1/2/2/2/2/2/2/2/2/2/2/2"; /* by the row, one list entry per chunk */
	build(&r, &c);
	for (int s = 0; s < 12; s++)
		assert_int_equal(c.shape.stage_layers[s], s ? 2 : 1);
	r.stage_layers = "5/6/6/6"; /* by rank: the first chunk of the first has one less */
	build(&r, &c);
	for (int s = 0; s < 12; s++)
		assert_int_equal(c.shape.stage_layers[s], s ? 2 : 1);
	r.stage_layers = "6/6/6/5"; /* the last chunk of the last */
	build(&r, &c);
	for (int s = 0; s < 12; s++)
		assert_int_equal(c.shape.stage_layers[s], s < 11 ? 2 : 1);
	r.layers = 12;
	r.stage_layers = "3/3/3/3"; /* a layer each */
	build(&r, &c);
	for (int s = 0; s < 12; s++)
		assert_int_equal(c.shape.stage_layers[s], 1);
	struct mq_err err = MQ_ERR_INIT;
	r.stage_layers = "4/3/3/3";
	assert_int_equal(mq_case_build(&options, &r, &c, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "have 13 layers, the model 12"));
	r.stage_layers = "";
	r.layers = 20; /* no such way: first chunks get what is over */
	build(&r, &c);
	assert_null(c.shape.stage_layers);
}

/* Two kinds of machines: ranks in the order of the cell, whole machines first. */
static void test_mixed_machines(void **state)
{
	const char *const written[] = { "12x V100-16GB + 4x T4", "V100-16GB:12;T4:4", "12 V100-16GB; 4 T4" };
	struct mq_run r = gpt();
	struct mq_case c;

	r.gpus = 16;
	r.gpus_per_node = 4;
	r.precision = "";
	for (size_t i = 0; i < sizeof(written) / sizeof(*written); i++) {
		r.gpu = written[i];
		build(&r, &c);
		assert_string_equal(c.platform, "gpu=V100-SXM2-16GB*3x4+T4*1x4");
	}
	assert_int_equal(c.n_parts, 2);
	assert_int_equal(c.part[0].nodes, 3);
	assert_int_equal(c.part[1].first, 12);
	assert_int_equal(c.train.dtype, MQ_FP16); /* neither has bf16 */
	assert_null(c.shape.device);
	r.gpu = "V100-16GB:13;T4:3";
	build(&r, &c);
	assert_string_equal(c.platform, "gpu=V100-SXM2-16GB*3x4+V100-SXM2-16GB*1x1+T4*1x3");
	r.platform = "gpu=V100-SXM2-16GB*3x4@1.25+T4*1x4@6.25";
	build(&r, &c);
	assert_int_equal(c.n_parts, 2);
	assert_string_equal(c.part[1].device, "T4");
	assert_int_equal(c.part[1].first, 12);
}

/* Stages and replicas on devices as the placement lists them. */
static void test_placement(void **state)
{
	/* 2 stages x 2 replicas x tp 2: ranks 0-3 are RTX-3090, 4-7 TITAN-RTX */
	const uint32_t want[] = { 0, 1, 4, 5, 6, 7, 2, 3 };
	struct mq_run r = gpt();
	struct mq_case c;

	r.gpu = "mixed";
	r.gpus = 8;
	r.gpus_per_node = 4;
	r.tp = r.pp = 2;
	r.placement = "RTX-3090xTP2|Titan-RTXxTP2 ; Titan-RTXxTP2|RTX-3090xTP2";
	build(&r, &c);
	assert_int_equal(c.n_parts, 2);
	assert_memory_equal(c.shape.device, want, sizeof(want));

	r.placement = "RTX-3090xTP2|Titan-RTXxTP2";
	build(&r, &c); /* one stage stands for all */
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(c.shape.device[i], i % 4 < 2 ? i / 4 * 2 + i % 4 : 4 + i / 4 * 2 + i % 4 - 2);
	/* of one kind it says nothing, whatever it calls it */
	struct mq_run one = r;
	one.gpu = "GH200-96GB";
	one.placement = "GH-96xTP2|GH-96xTP2";
	build(&one, &c);
	assert_null(c.shape.device);
	assert_non_null(strstr(c.assumed, "placement not read"));

	/* stages of different tensor-parallel degree: what the row says of tp and dp does not matter */
	r.gpus = 6;
	r.tp = NAN;
	r.placement = "RTX-3090xTP1|RTX-3090xTP1 ; Titan-RTXxTP2|Titan-RTXxTP2";
	build(&r, &c);
	assert_int_equal(c.shape.dp, 2);
	assert_int_equal(c.shape.stage_tp[0], 1);
	assert_int_equal(c.shape.stage_tp[1], 2);
	assert_int_equal(c.shape.device[1], 1);
	assert_int_equal(c.shape.device[2], c.part[1].first);
}

/* What a row says of sharding: over all replicas, or over fewer ranks. */
static void test_sharding(void **state)
{
	static const struct {
		const char *zero;
		uint32_t group;
	} want[] = {
		{ "FSDP 32", 0 },  { "FSDP2 32", 0 },          { "FSDP FULL_SHARD", 0 },
		{ "FSDP 16", 16 }, { "FSDP2 8", 8 },           { "HSDP 4x8", 8 },
		{ "HSDP", 8 },     { "FSDP HYBRID_SHARD", 8 }, { "ZeRO-1 within 4 GPUs", 4 },
		{ "FSDP 5", 0 },
	};
	struct mq_run r = gpt();
	struct mq_case c;
	(void)state;

	r.tp = r.pp = 1;
	r.gbs = 64;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		r.zero = want[i].zero;
		build(&r, &c);
		assert_int_equal(c.shape.dp, 32);
		assert_int_equal(c.zero_group, want[i].group);
		assert_int_equal(c.shape.sync, strstr(r.zero, "ZeRO") ? MQ_SYNC_ZERO1 : MQ_SYNC_ZERO3);
	}
}

/* Software that by itself cuts a replica's batch into as many micro-batches as it has stages, and an
 * interleaved stage in two. */
static void test_pipeline_defaults(void **state)
{
	struct mq_run r = gpt();
	struct mq_case c;
	(void)state;

	r.software = "torchtitan-eager";
	r.zero = "FSDP 2";
	r.schedule = "Interleaved 1F1B";
	r.layers = 24;
	r.gpus = 16;
	r.tp = 2;
	r.pp = 4;
	r.dp = 2;
	r.gbs = 32;
	r.mbs = 16;
	r.accum = NAN;
	r.vp = NAN;
	build(&r, &c);
	assert_int_equal(c.shape.micro_batches, 4);
	assert_int_equal(c.shape.virtual, 2);
	assert_int_equal(c.shape.pipeline, MQ_PIPE_INTERLEAVED);
	r.mbs = 2; /* said otherwise */
	r.vp = 3;
	build(&r, &c);
	assert_int_equal(c.shape.micro_batches, 8);
	assert_int_equal(c.shape.virtual, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_devices, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_group, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_chunks, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_pipeline_defaults, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_sharding, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_mixed_machines, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_placement, load_tables, teardown),
	};

	return cmocka_run_group_tests_name("score machines", tests, NULL, NULL);
}
