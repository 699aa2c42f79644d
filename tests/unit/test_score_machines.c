/*
 * test_score_machines.c - the machines behind a row of measurements, what runs where on them, and the shape of its
 * plan: degrees, micro-batches, stages, sharding.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "score_rows.h"

/* What a row says on its network: rates and ports that no system has, words that nobody understands. */
static void test_network(void **state)
{
	static const struct {
		const char *words;
		double ports, GBps;
		const char *fabric;
	} want[] = {
		{ "1x EDR InfiniBand 100 Gb/s per node", 1, 12.5, "ib" },
		{ "1x EDR per node", 1, 12.5, "ib" },
		{ "400 Gb/s per node", 0, 50, NULL },
		{ "3200 Gb/s EFA", 0, 400, "efa" },
		{ "8x NDR", 8, 400, "ib" },
		{ "200 Gb/s RoCE per GPU", 0, 200, "roce" },
		{ "25 GbE", 0, 3.125, "eth" },
		{ "4x200G RoCE", 4, 100, "roce" },
		{ "8x400G NDR InfiniBand", 8, 400, "ib" },
		{ "100G Ethernet", 0, 12.5, "eth" },
	};
	struct mq_network_words got;
	struct mq_run r = gpt();
	struct mq_case c;

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		if (!mq_network_read(want[i].words, 8, &got))
			fail_msg("'%s' is not understood", want[i].words);
		near(got.node_GBps, want[i].GBps);
		near(got.ports, want[i].ports);
		if (want[i].fabric ? !got.fabric || strcmp(got.fabric, want[i].fabric) : !!got.fabric)
			fail_msg("'%s' is taken for %s", want[i].words, got.fabric);
	}
	assert_false(mq_network_read("a fast one", 8, &got));
	r.inter = "1x EDR InfiniBand per node";
	build(&r, &c);
	assert_true(platform_of(&c).nics == 1 && platform_of(&c).nic_GBps == 12.5);
	assert_string_equal(c.network, "row");
	r.inter = "a fast one";
	build(&r, &c);
	assert_string_equal(c.network, "assumed");
	assert_string_equal(c.unread, "a fast one");
	assert_true(platform_of(&c).nics == 8);
	r.inter = "";
	build(&r, &c);
	assert_string_equal(c.network, "assumed");
	assert_null(c.unread);
}

/* A device without a machine of its own in systems.csv is in one as its own file has it; names are whole words. */
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
		assert_string_equal(c.part[0].system.device, want[i].device);
	}
}

/* Rows of one model and batch are ranked together, whatever their plans, but not those of another system. */
static void test_group(void **state)
{
	struct mq_run r = gpt();
	struct mq_case omnipath, roce;

	r.inter = "4x OmniPath 100 Gb/s per node";
	build(&r, &omnipath);
	r.inter = "4x100 Gb/s RoCE";
	build(&r, &roce);
	assert_string_not_equal(omnipath.system.name, roce.system.name);
	assert_string_not_equal(mq_run_group(&omnipath, &arena), mq_run_group(&roce, &arena));
	r.tp = 2;
	r.mbs = 1;
	build(&r, &omnipath);
	assert_string_equal(mq_run_group(&omnipath, &arena), mq_run_group(&roce, &arena));
}

/* Jobs larger than an NVLink domain take the same number of GPUs of each (Slurm's segments). */
static void test_domains(void **state)
{
	static const struct {
		double gpus;
		uint32_t per_domain, domains;
	} want[] = {
		{ 8, 8, 1 },    { 72, 72, 1 }, /* one domain holds it */
		{ 128, 64, 2 }, { 256, 64, 4 }, { 512, 64, 8 },
		{ 576, 72, 8 }, { 108, 72, 2 }, /* 27 machines: three segments of 9, two to a domain */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct mq_run r = gpt();
		struct mq_case c;

		r.gpu = "GB200";
		r.gpus_per_node = 4;
		r.gpus = want[i].gpus;
		r.gbs = 16 * r.gpus;
		r.tp = r.pp = 1;
		build(&r, &c);
		assert_int_equal(c.part[0].per_node, want[i].per_domain);
		assert_int_equal(c.part[0].nodes, want[i].domains);
		assert_int_equal(platform_of(&c).domain, want[i].per_domain);
	}
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
	r.stage_layers = "5/6/6/6";
	struct mq_err err = MQ_ERR_INIT;
	assert_int_equal(mq_case_build(&options, &tables, &r, &c, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "12 stages"));
	r.stage_layers = "";
	r.layers = 20; /* no such way: first chunks get what is over */
	build(&r, &c);
	assert_null(c.shape.stage_layers);
}

/* Two kinds of machines: numbers from the cell or from the notes, ranks in the order of the cell. */
static void test_mixed_machines(void **state)
{
	struct mq_platform_spec spec;
	struct mq_run r = gpt();
	struct mq_case c;

	r.gpu = "12x V100 + 4x T4";
	r.gpus = 16;
	r.gpus_per_node = 4;
	r.inter = "10 Gb/s";
	r.precision = "";
	build(&r, &c);
	assert_int_equal(c.n_parts, 2);
	assert_int_equal(c.part[0].nodes, 3);
	assert_int_equal(c.part[1].first, 12);
	assert_int_equal(c.train.dtype, MQ_FP16); /* neither has bf16 */
	spec = platform_of(&c);
	assert_string_equal(spec.gpu, "V100-SXM2-16GB*3x4@1.25+T4*1x4@6.25");
	for (uint32_t i = 0; i < 16; i++)
		assert_int_equal(c.shape.device[i], i);

	r.gpu = "T4/V100";
	r.notes = "3x p3.8xlarge (4 V100 each) + 1x g4dn.12xlarge (4 T4)";
	build(&r, &c);
	assert_int_equal(c.part[0].gpus, 4);
	assert_int_equal(c.part[1].gpus, 12);
	r.notes = "4 T4, 12 V100";
	build(&r, &c);
	assert_int_equal(c.part[1].nodes, 3);
	r.notes = "3 p3.8xlarge (4 V100 each), 1 g4dn.12xlarge (4 T4)";
	build(&r, &c);
	assert_int_equal(c.part[1].gpus, 12);
	r.notes = "";
	const char *const written[] = { "V100 (12) and T4 (4)", "mixed: V100 x12, T4 x4", "3x V100 + 1x T4 nodes",
					"Mixed 12 V100/4 T4" };
	for (size_t i = 0; i < sizeof(written) / sizeof(*written); i++) {
		r.gpu = written[i];
		build(&r, &c);
		assert_int_equal(c.part[0].gpus, 12);
		assert_int_equal(c.part[1].gpus, 4);
	}
}

/* Kinds that differ in lanes take their devices'; those that differ in ports hang on the weakest network. */
static void test_joined_machines(void **state)
{
	struct mq_platform_spec spec;
	struct mq_run r = gpt();
	struct mq_case c;
	(void)state;

	r.gpu = "8x A100-80GB + 8x T4";
	r.gpus = 16;
	r.gpus_per_node = 8;
	r.precision = "";
	build(&r, &c);
	spec = platform_of(&c);
	assert_int_equal(spec.network, MQ_FABRIC_ETHERNET);
	assert_int_equal(spec.nics, 1);
	assert_true(spec.nvlink_GBps == 0 && spec.pcie_GBps == 0 && spec.intra == MQ_INTRA_AUTO);
	assert_string_equal(spec.gpu, "A100-SXM4-80GB*1x8@200+T4*1x8@12.5");
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
	r.notes = "placement Titan-RTXxTP2|Titan-RTXxTP2 ; RTX-3090xTP2|RTX-3090xTP2; 1 s";
	build(&r, &c); /* the notes list every stage */
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(c.shape.device[i], i);
	assert_string_equal(c.part[0].system.device, "TITAN-RTX");

	/* stages of different tensor-parallel degree: what the row says of tp and dp does not matter */
	r.notes = "";
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

	r.software = "";
	r.source = "github pytorch/torchtitan";
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
	build(published(&r), &c);
	assert_int_equal(c.shape.micro_batches, 4);
	assert_int_equal(c.shape.virtual, 2);
	assert_int_equal(c.shape.pipeline, MQ_PIPE_INTERLEAVED);
	assert_false(c.software.software.overlap_tp);
	r.notes = "torch.compile; async TP";
	r.mbs = 2; /* said otherwise */
	r.vp = 3;
	build(published(&r), &c);
	assert_int_equal(c.shape.micro_batches, 8);
	assert_int_equal(c.shape.virtual, 3);
	assert_true(c.software.software.overlap_tp);
	assert_string_equal(c.software.software.file, "torchtitan");
}

/* What a publisher's launcher set, by what a row says of its plan and its machines. */
static void test_launcher(void **state)
{
	struct mq_run r = gpt();
	struct mq_case c;

	r.source = "huggingface nanotron";
	r.software = "nanotron";
	r.schedule = "1F1B";
	r.locator = "hover text 1 node(s)";
	build(published(&r), &c);
	near(c.software.software.torch_distributed_debug_us, 0);
	assert_int_equal(c.software.software.nccl_proto, MQ_PROTO_SIMPLE); /* inferred from its launchers */
	r.locator = "hover text 16 node(s)";
	build(published(&r), &c);
	near(c.software.software.torch_distributed_debug_us, 200);
	r.schedule = ""; /* no stages */
	build(published(&r), &c);
	near(c.software.software.torch_distributed_debug_us, 0);
}

/* A network whose items are its own: the row's columns of layers and heads do not describe it, its stages
 * count its items, and each rank of a tensor-parallel group has the heads that models.csv says. */
static void test_items(void **state)
{
	struct mq_run r = gpt();
	struct mq_case c;

	r.model = "TransGAN-like";
	r.source = "AMP";
	r.software = "";
	r.gpu = "V100";
	r.tp = 2;
	r.pp = 4;
	r.gpus = 16;
	r.gpus_per_node = 4;
	r.inter = "10 Gb/s inter";
	r.gbs = 64;
	r.stage_layers = "12/32/5/7";
	build(published(&r), &c);
	assert_true(c.shape.stage_layers[0] == 12 && c.shape.stage_layers[1] == 32);
	assert_true(c.shape.stage_layers[2] == 5 && c.shape.stage_layers[3] == 7);
	assert_int_equal(c.model->n_layers, 56);
	assert_non_null(strstr(c.spec, "heads=8"));
	assert_int_equal(c.train.optimizer, MQ_OPTIMIZER_ADAM);
	assert_true(c.train.grad_dtype == MQ_FP32);
	/* CPUs of the machines, where systems.csv says so */
	assert_true(c.part[0].system.host == 1.25);
	r.gpu = "T4";
	build(published(&r), &c);
	assert_true(c.part[0].system.host == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_network, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_devices, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_group, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_launcher, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_items, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_domains, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_chunks, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_pipeline_defaults, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_sharding, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_mixed_machines, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_joined_machines, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_placement, load_tables, teardown),
	};

	return cmocka_run_group_tests_name("score machines", tests, NULL, NULL);
}
