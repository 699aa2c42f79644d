/*
 * test_score_words.c - what a row says in words: its training software where it names none, sharding, schedule,
 * recomputation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "score_rows.h"

/* A framework that a row names anywhere is its software; which Megatron follows from what is younger than its core. */
static void test_software(void **state)
{
	static const struct {
		const char *source, *zero, *model, *gpu, *software;
	} want[] = {
		{ "DeepSpeed, a blog", "ZeRO-3", "GPT", "A100", "deepspeed" },
		{ "Megatron-DeepSpeed on a cluster", "", "GPT", "A100", "megatron-deepspeed" },
		{ "Megatron-Core MoE", "", "Mixtral 8x7B", "A100", "megatron-core" },
		{ "somebody's Megatron-LM", "", "GPT", "H100", "megatron-core" },
		{ "somebody's Megatron-LM", "", "LLaMA-7B", "A100", "megatron-core" },
		{ "somebody's Megatron-LM", "", "GPT", "V100", "megatron-lm-2021" },
		{ "a blog", "FSDP FULL_SHARD", "LLaMA-7B", "A100", "fsdp" },
		{ "FSDP with torch.compile", "", "LLaMA-7B", "A100", "fsdp-compiled" },
		{ "MXNet gluon-nlp", "", "BERT", "V100", "mxnet" },
		{ "PaddlePaddle", "", "BERT", "V100", "paddle" },
		{ "TensorFlow benchmarks", "", "ResNet-50", "V100", "tensorflow" },
		{ "TensorFlow 2 with XLA", "", "BERT", "V100", "tensorflow-xla" },
		{ "PyTorch, examples", "", "ResNet-50", "V100", "ddp" },
		{ "a blog", "timm", "ViT-L", "A100", "torchvision" },
		{ "a blog", "Hugging Face Trainer", "Llama 2 7B", "A100", "transformers" },
		{ "a blog", "Hugging Face Trainer", "Llama 2 7B", "V100", "ddp" },
		{ "a cluster", "", "GPT", "V100", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		struct mq_run r = gpt();

		r.software = "";
		r.source = want[i].source;
		r.zero = want[i].zero;
		r.model = want[i].model;
		r.gpu = want[i].gpu;
		assert_string_equal(published(&r)->software, want[i].software);
		r.software = "generic"; /* its own column wins */
		assert_string_equal(published(&r)->software, "generic");
	}
}

static void test_sharding(void **state)
{
	static const struct {
		const char *zero;
		unsigned sync;
	} want[] = {
		{ "ZeRO-0", MQ_SYNC_ALLREDUCE },
		{ "none", MQ_SYNC_ALLREDUCE },
		{ "DDP", MQ_SYNC_ALLREDUCE },
		{ "0", MQ_SYNC_ALLREDUCE },
		{ "ZeRO-1", MQ_SYNC_ZERO1 },
		{ "1", MQ_SYNC_ZERO1 },
		{ "zero1", MQ_SYNC_ZERO1 },
		{ "ZeRO stage 2", MQ_SYNC_ZERO2 },
		{ "stage 2", MQ_SYNC_ZERO2 },
		{ "ZeRO-3", MQ_SYNC_ZERO3 },
		{ "3", MQ_SYNC_ZERO3 },
		{ "ZeRO 3", MQ_SYNC_ZERO3 },
		{ "FSDP FULL_SHARD", MQ_SYNC_ZERO3 },
		{ "FSDP SHARD_GRAD_OP", MQ_SYNC_ZERO2 },
		{ "HSDP 2x2", MQ_SYNC_ZERO3 },
		{ "distributed optimizer", MQ_SYNC_ZERO1 },
	};
	struct mq_run r = gpt();
	struct mq_case c;

	(void)state;
	r.software = "generic";
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		r.zero = want[i].zero;
		build(&r, &c);
		if (c.shape.sync != want[i].sync || c.guess)
			fail_msg("'%s' is taken for %s", r.zero, mq_sync_name((enum mq_sync)c.shape.sync));
		assert_false(c.plan.offload_optimizer);
	}
	r.zero = "half of it"; /* as the software does, and told */
	build(&r, &c);
	assert_true(c.shape.sync == c.software.software.sync);
	assert_non_null(strstr(c.guess, "half of it"));
	r.zero = "ZeRO-Offload";
	build(&r, &c);
	assert_int_equal(c.shape.sync, MQ_SYNC_ZERO2);
	assert_true(c.plan.offload_optimizer && c.plan.says & MQ_EXPLICIT_OFFLOAD);
}

static void test_schedule(void **state)
{
	static const struct {
		const char *schedule;
		unsigned pipeline, chunks;
	} want[] = {
		{ "", MQ_PIPE_1F1B, 1 },       { "1F1B (DeepSpeed)", MQ_PIPE_1F1B, 1 },
		{ "GPipe", MQ_PIPE_GPIPE, 1 }, { "zero bubble", MQ_PIPE_ZB_H1, 1 },
		{ "ZBV", MQ_PIPE_ZBV, 2 },     { "DualPipeV", MQ_PIPE_DUALPIPE_V, 2 },
	};
	struct mq_run r = gpt();
	struct mq_case c;

	(void)state;
	r.software = "generic";
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		r.schedule = want[i].schedule;
		build(&r, &c);
		assert_int_equal(c.shape.pipeline, want[i].pipeline);
		assert_int_equal(c.shape.virtual, want[i].chunks);
		assert_null(c.guess);
	}
	r.schedule = "a new one";
	build(&r, &c);
	assert_non_null(strstr(c.guess, "a new one"));
}

static void test_recompute(void **state)
{
	static const struct {
		const char *recompute;
		unsigned kind;
	} want[] = {
		{ "full (as it says)", MQ_RECOMPUTE_FULL },
		{ "yes", MQ_RECOMPUTE_FULL },
		{ "True", MQ_RECOMPUTE_FULL },
		{ "selective", MQ_RECOMPUTE_SELECTIVE },
		{ "no", MQ_RECOMPUTE_NONE },
		{ "None", MQ_RECOMPUTE_NONE },
		{ "0", MQ_RECOMPUTE_NONE },
	};
	struct mq_run r = gpt();
	struct mq_case c;

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		r.recompute = want[i].recompute;
		build(&r, &c);
		assert_int_equal(c.shape.recompute, want[i].kind);
		assert_null(c.guess);
	}
	r.recompute = "sometimes";
	build(&r, &c);
	assert_true(c.shape.recompute == (unsigned)c.software.software.recompute);
	assert_non_null(strstr(c.guess, "sometimes"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_software, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_sharding, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_schedule, load_tables, teardown),
		cmocka_unit_test_setup_teardown(test_recompute, load_tables, teardown),
	};

	return cmocka_run_group_tests_name("score words", tests, NULL, NULL);
}
