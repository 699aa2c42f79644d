/*
 * test_trace.c - traces of PyTorch's profiler as the years wrote them: collectives' kind, size and time, shapes, the
 * shares of a step. Values are worked out by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "trace/trace.h"

static struct mq_arena arena = MQ_ARENA_INIT;

static const char *write_file(const char *text)
{
	static int n;
	const char *path = mq_arena_printf(&arena, "/tmp/mq-trace-%d-%d.json", (int)getpid(), n++);
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	return path;
}

static struct mq_trace *load(const char *text)
{
	const char *path = write_file(text);
	struct mq_trace *t = mq_arena_array(&arena, 1, struct mq_trace);
	struct mq_err err = MQ_ERR_INIT;
	enum mq_status status = mq_trace_load(path, &arena, t, &err);

	unlink(path);
	if (status)
		fail_msg("%s", err.text);
	return t;
}

static void refused(const char *text, const char *why)
{
	const char *path = write_file(text);
	struct mq_trace t;
	struct mq_err err = MQ_ERR_INIT;

	assert_int_equal(mq_trace_load(path, &arena, &t, &err), MQ_EINPUT);
	unlink(path);
	if (!strstr(err.text, why))
		fail_msg("'%s' does not say '%s'", err.text, why);
}

static struct mq_trace_call one_call(const char *text)
{
	struct mq_trace *t = load(text);
	struct mq_trace_call *call;
	struct mq_err err = MQ_ERR_INIT;
	uint32_t n;

	assert_int_equal(mq_trace_calls(t, &arena, &call, &n, &err), MQ_OK);
	assert_int_equal(n, 1);
	return call[0];
}

#define TRACE(events) "{\"schemaVersion\": 1, \"traceEvents\": [" events "]}"
#define WORLD(events)                                                                     \
	"{\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 1, \"world_size\": 8}, " \
	"\"traceEvents\": [" events "]}"

/* PyTorch 1.8: capital categories, "external id", streams by name, an annotation with shapes. */
static void year_2021(void **state)
{
	struct mq_trace_call c = one_call(WORLD(
		"{\"ph\":\"X\",\"cat\":\"Operator\",\"name\":\"nccl:all_reduce\",\"pid\":7,\"tid\":\"9\",\"ts\":100,\"dur\":50,"
		"\"args\":{\"Device\":7,\"External id\":5,\"Input dims\":[[1000, 25]],\"Input type\":[\"float\"]}},"
		"{\"ph\":\"X\",\"cat\":\"Runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":7,\"tid\":\"9\",\"ts\":120,\"dur\":5,"
		"\"args\":{\"cbid\":211,\"correlation\":77,\"external id\":5}},"
		"{\"ph\":\"X\",\"cat\":\"Kernel\",\"name\":\"ncclAllReduceRingLLKernel_sum_f32(ncclColl)\",\"pid\":0,"
		"\"tid\":\"stream 20\",\"ts\":140,\"dur\":36.5,\"args\":{\"device\":0,\"stream\":20,\"correlation\":77,"
		"\"external id\":5}}"));

	assert_int_equal(c.kind, MQ_COLL_ALL_REDUCE);
	assert_true(c.bytes == 1000 * 25 * 4);
	assert_int_equal(c.ranks, 8);
	assert_true(fabs(c.own_s - 36.5e-6) < 1e-12);
}

/* 1.12: record_param_comms with a list of tensors, halves; the kernel's id is another's, its launch tells. */
static void year_2022(void **state)
{
	struct mq_trace_call c = one_call(WORLD(
		"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"record_param_comms\",\"pid\":7,\"tid\":9,\"ts\":100,\"dur\":50,"
		"\"args\":{\"External id\":5,\"Input Dims\":[[[2048], [512]], [], []],\"Input type\":"
		"[\"GenericList[Tensor(c10::Half)]\",\"Scalar\",\"\"]}},"
		"{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":7,\"tid\":9,\"ts\":120,\"dur\":5,"
		"\"args\":{\"correlation\":77}},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclKernel_AllReduce_RING_LL_Sum_half(ncclWorkElem)\",\"pid\":0,"
		"\"tid\":20,\"ts\":140,\"dur\":36.5,\"args\":{\"device\":0,\"stream\":20,\"correlation\":77,\"External id\":6}}"));

	assert_true(c.bytes == 2560 * 2);
}

/* 2.1: element counts in record_param_comms, an all-gather of bytes. */
static void year_2023(void **state)
{
	struct mq_trace_call c = one_call(TRACE(
		"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"record_param_comms\",\"pid\":7,\"tid\":9,\"ts\":100,\"dur\":50,"
		"\"args\":{\"External id\":5,\"In msg nelems\":300,\"Out msg nelems\":1200,\"Group size\":4,\"dtype\":"
		"\"BFloat16\",\"Collective name\":\"_allgather_base\",\"Process Group Name\":\"3\"}},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, "
		"ncclWork*)\",\"pid\":0,\"tid\":20,\"ts\":140,\"dur\":36.5,\"args\":{\"device\":0,\"stream\":20,"
		"\"correlation\":77,\"External id\":5}}"));

	assert_int_equal(c.kind, MQ_COLL_ALL_GATHER);
	assert_true(c.bytes == 1200 * 2);
	assert_int_equal(c.ranks, 4);
	assert_string_equal(c.group, "3");
}

/* 2.2 and on: the kernel tells itself. */
static void year_2024(void **state)
{
	struct mq_trace_call c = one_call(TRACE(
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevComm*, unsigned "
		"long, ncclWork*)\",\"pid\":0,\"tid\":20,\"ts\":140.25,\"dur\":36.5,\"args\":{\"device\":0,\"stream\":20,"
		"\"correlation\":77,\"External id\":5,\"Collective name\":\"_reduce_scatter_base\",\"In msg nelems\":1200,"
		"\"Out msg nelems\":150,\"Group size\":8,\"dtype\":\"BFloat16\",\"In split size\":\"[]\","
		"\"Process Group Name\":\"12\",\"Process Group Ranks\":\"[0, 1, 2, 3, 4, 5, 6, 7]\"}}"));

	assert_string_equal(c.group, "[0, 1, 2, 3, 4, 5, 6, 7]");
	assert_int_equal(c.kind, MQ_COLL_REDUCE_SCATTER);
	assert_true(c.bytes == 1200 * 2);
	assert_int_equal(c.ranks, 8);
}

#define NOTE(category, name, args)                                \
	"{\"ph\":\"X\",\"cat\":\"" category "\",\"name\":\"" name \
	"\",\"pid\":7,\"tid\":9,\"ts\":100,\"dur\":50,\"args\":{" args "}},"
#define LAUNCHED(kernel)                                                                                                 \
	"{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":7,\"tid\":9,\"ts\":120,\"dur\":5," \
	"\"args\":{\"correlation\":77}},{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" kernel                             \
	"\",\"pid\":0,\"tid\":20,\"ts\":140,"                                                                            \
	"\"dur\":36.5,\"args\":{\"device\":0,\"stream\":20,\"correlation\":77}}"

/* Sizes by shapes, on 8 ranks: of what goes in (annotations, record_param_comms), or of what comes out too (c10d::). */
static void by_shapes(void **state)
{
	static const struct {
		const char *text;
		double bytes;
	} cases[] = {
		{ WORLD(NOTE("user_annotation", "nccl:_all_gather_base",
			     "\"Input Dims\":[[100]],\"Input type\":[\"float\"]")
				LAUNCHED("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)")),
		  8 * 100 * 4 },
		{ WORLD(NOTE("cpu_op", "record_param_comms",
			     "\"Input Dims\":[[[100], [28]], []],\"Input type\":[\"TensorList\",\"\"],"
			     "\"dtype\":\"Half\"") LAUNCHED("ncclKernel_AllGather_RING_LL_Sum_int8_t(x)")),
		  8 * 128 * 2 },
		{ WORLD(NOTE("cpu_op", "c10d::_allgather_base_",
			     "\"Input Dims\":[[80, 10], [10, 10], []],\"Input type\":"
			     "[\"c10::BFloat16\",\"c10::BFloat16\",\"\"]")
				LAUNCHED("ncclDevKernel_AllGather_RING_LL(x)")),
		  800 * 2 },
		{ WORLD(NOTE("cpu_op", "c10d::allgather_",
			     "\"Input Dims\":[[[[10], [10], [10], [10], [10], [10], [10], [10]]], [[10]]],"
			     "\"Input type\":[\"float\",\"float\"]") LAUNCHED("ncclDevKernel_AllGather_RING_LL(x)")),
		  80 * 4 },
		{ WORLD(NOTE("user_annotation", "nccl:_reduce_scatter_base",
			     "\"Input Dims\":[[800]],\"Input type\":[\"float\"]")
				LAUNCHED("ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclWorkElem)")),
		  800 * 4 },
		{ WORLD(NOTE("cpu_op", "c10d::_reduce_scatter_base_",
			     "\"Input Dims\":[[100], [800]],\"Input type\":[\"float\",\"float\"]")
				LAUNCHED("ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclWorkElem)")),
		  800 * 4 },
		{ WORLD(NOTE("user_annotation", "nccl:all_to_all",
			     "\"Input Dims\":[[64, 5]],\"Input type\":[\"float\"]")
				LAUNCHED("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)")),
		  320 * 4 },
		{ WORLD(NOTE("cpu_op", "c10d::alltoall_base_",
			     "\"Input Dims\":[[64, 5], [64, 5], []],\"Input type\":[\"float\",\"float\",\"\"]")
				LAUNCHED("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)")),
		  320 * 4 },
		{ WORLD(NOTE("cpu_op", "nccl:broadcast", "\"Input Dims\":[[7, 3]],\"Input type\":[\"long int\"]")
				LAUNCHED("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)")),
		  21 * 8 },
		{ WORLD(NOTE("cpu_op", "nccl:reduce", "\"Input Dims\":[[7, 3]],\"Input type\":[\"double\"]")
				LAUNCHED("ncclKernel_Reduce_RING_LL_Sum_double(ncclWorkElem)")),
		  21 * 8 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mq_trace_call c = one_call(cases[i].text);

		if (c.bytes != cases[i].bytes || c.ranks != 8)
			fail_msg("case %zu: %g bytes of %u ranks instead of %g of 8", i, c.bytes, c.ranks,
				 cases[i].bytes);
	}
	/* A part of how many? */
	assert_true(isnan(one_call(TRACE(NOTE("user_annotation", "nccl:_all_gather_base",
					      "\"Input Dims\":[[100]],\"Input type\":[\"float\"]")
						 LAUNCHED("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)")))
				  .bytes));
}

/* 2.4 and on: times are counted from a base, in microseconds with three decimals; older files of merging tools have
 * them as texts. Ranks of a group are a text or a list. */
static void times_and_ranks(void **state)
{
	static const char *const ranks[] = { "\"[0, 2, 4]\"", "[0, 2, 4]" };
	static const char *const times[] = { "\"ts\": 5768310843012.125, \"dur\": 36.531",
					     "\"ts\": \"5768310843012.125\", \"dur\": \"36.531\"",
					     "\"ts\": 5.768310843012125e12, \"dur\": 3.6531e1" };

	for (int i = 0; i < 3; i++) {
		struct mq_trace *t = load(mq_arena_printf(
			&arena,
			"{\"schemaVersion\": 1, \"baseTimeNanoseconds\": 1712345678000000000, \"displayTimeUnit\": \"ms\", "
			"\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)\","
			"%s,\"args\":{\"Collective name\":\"allreduce\",\"In msg nelems\":9,\"dtype\":\"BFloat16\","
			"\"Process Group Ranks\": %s, \"In split size\": \"[]\", \"Process Group Name\": \"5\", \"Group size\": 3}}]}",
			times[i], ranks[i % 2]));
		struct mq_trace_call *call;
		struct mq_err err = MQ_ERR_INIT;
		uint32_t n;

		assert_true(t->event[0].start_us == 5768310843012.125);
		assert_int_equal(mq_trace_calls(t, &arena, &call, &n, &err), MQ_OK);
		assert_true(n == 1 && call[0].bytes == 18 && call[0].ranks == 3 &&
			    fabs(call[0].own_s - 36.531e-6) < 1e-15);
		assert_string_equal(call[0].group, "[0, 2, 4]");
	}
}

/* Messages: an all-to-all's and a pipeline's have the same kernel. */
static void messages(void **state)
{
	struct mq_trace_call c = one_call(TRACE(
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)\",\"pid\":0,"
		"\"tid\":20,\"ts\":1,\"dur\":9,\"args\":{\"device\":0,\"stream\":20,\"Collective name\":\"alltoallv\","
		"\"In msg nelems\":64,\"Out msg nelems\":64,\"Group size\":8,\"dtype\":\"Float\"}}"));

	assert_int_equal(c.kind, MQ_COLL_ALL_TO_ALL);
	assert_true(c.bytes == 256);
	c = one_call(TRACE(
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)\",\"pid\":0,"
		"\"tid\":20,\"ts\":1,\"dur\":9,\"args\":{\"device\":0,\"stream\":20,\"Collective name\":\"send\","
		"\"In msg nelems\":10,\"dtype\":\"Half\",\"Group size\":2}}"));
	assert_int_equal(c.kind, MQ_TRACE_SENDRECV);
	assert_true(c.bytes == 20);
}

/* Nothing tells the size: it is not invented. A bare list of events is read too. */
static void not_told(void **state)
{
	struct mq_trace_call c = one_call(
		"[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)\",\"pid\":0,"
		"\"tid\":20,\"ts\":1,\"dur\":9,\"args\":{}}]");

	assert_int_equal(c.kind, MQ_COLL_BROADCAST);
	assert_true(isnan(c.bytes));
	assert_int_equal(c.ranks, 0);
}

#define CALL(ts, dur)                                                                               \
	"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)\"," \
	"\"tid\":20,\"ts\":" #ts ",\"dur\":" #dur ",\"args\":{\"device\":0,\"Collective name\":"    \
	"\"allreduce\",\"In msg nelems\":256,\"dtype\":\"Float\",\"Group size\":2}}"

/* Of two ranks the one that comes last has the call's own time. */
static void waiting(void **state)
{
	struct mq_trace *t[2] = { load(TRACE(CALL(0, 50) "," CALL(100, 21) "," CALL(200, 80))),
				  load(TRACE(CALL(5, 20) "," CALL(90, 40) "," CALL(205, 22))) };
	struct mq_trace_call *call[2];
	struct mq_trace_row *row;
	struct mq_err err = MQ_ERR_INIT;
	uint32_t n[2];

	for (int i = 0; i < 2; i++)
		assert_int_equal(mq_trace_calls(t[i], &arena, &call[i], &n[i], &err), MQ_OK);
	assert_int_equal(mq_trace_align(call, n, 2), 6);
	assert_int_equal(mq_trace_rows(call, n, 2, &arena, &row), 1);
	assert_int_equal(row[0].count, 6);
	assert_true(row[0].bytes == 1024);
	assert_true(fabs(row[0].least_median_s - 21e-6) < 1e-12);
	assert_true(fabs(row[0].median_s - 31e-6) < 1e-12); /* 20 21 22 40 50 80 */
	/* One rank alone: its shortest. */
	assert_int_equal(mq_trace_calls(t[0], &arena, &call[0], &n[0], &err), MQ_OK);
	assert_int_equal(mq_trace_rows(call, n, 1, &arena, &row), 1);
	assert_true(fabs(row[0].least_median_s - 21e-6) < 1e-12);
}

/* Products and sweeps by their operators' shapes. */
static void shapes(void **state)
{
	const struct mq_trace *t = load(TRACE(
		"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::addmm\",\"tid\":9,\"ts\":1,\"dur\":9,\"args\":{\"External id\":3,"
		"\"Input Dims\":[[64],[128,32],[32,64],[],[]],\"Input type\":[\"c10::Half\",\"c10::Half\",\"c10::Half\",\"Scalar\","
		"\"Scalar\"]}},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ampere_fp16_s16816gemm_fp16_128x64\",\"tid\":7,\"ts\":11,\"dur\":5,"
		"\"args\":{\"External id\":3}},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"splitKreduce_kernel\",\"tid\":7,\"ts\":16,\"dur\":2,"
		"\"args\":{\"External id\":3}},"
		"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::add_\",\"tid\":9,\"ts\":20,\"dur\":9,\"args\":{\"External id\":4,"
		"\"Input Dims\":[[100,10],[100,10],[]],\"Input type\":[\"float\",\"float\",\"Scalar\"]}},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"vectorized_elementwise_kernel\",\"tid\":7,\"ts\":22,\"dur\":3,"
		"\"args\":{\"External id\":4}},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"vectorized_elementwise_kernel\",\"tid\":7,\"ts\":32,\"dur\":3,"
		"\"args\":{\"External id\":99}}"));
	struct mq_trace_work *work;
	struct mq_err err = MQ_ERR_INIT;
	uint64_t without;
	uint32_t n;

	assert_int_equal(mq_trace_works(&t, 1, &arena, &work, &n, &without, &err), MQ_OK);
	assert_int_equal(n, 2);
	assert_int_equal(without, 1);
	assert_int_equal(work[0].kernel.kind, MQ_KERNEL_GEMM);
	assert_int_equal(work[0].kernel.dtype, MQ_FP16);
	assert_true(work[0].kernel.m == 128 && work[0].kernel.n == 64 && work[0].kernel.k == 32);
	assert_true(fabs(work[0].median_s - 7e-6) < 1e-12); /* both of its kernels */
	assert_true(work[1].kernel.bytes == 3 * 4000);      /* two read, one written */
}

/* 100 us: a product 10..40, a call 30..60 with its end uncovered, a sweep 80..90 whose launch ended at 75. */
static void shares(void **state)
{
	const struct mq_trace *t = load(TRACE(
		"{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#2\",\"tid\":9,\"ts\":0,\"dur\":100},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"sm80_gemm\",\"tid\":7,\"ts\":10,\"dur\":30,\"args\":{\"device\":0}},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclKernel_AllReduce\",\"tid\":20,\"ts\":30,\"dur\":30,\"args\":{\"device\":0}},"
		"{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"tid\":9,\"ts\":70,\"dur\":5,\"args\":"
		"{\"correlation\":8}},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"add_kernel\",\"tid\":7,\"ts\":80,\"dur\":10,\"args\":{\"device\":0,"
		"\"correlation\":8}}"));
	struct mq_trace_shares s;
	const struct {
		enum mq_trace_class class;
		double us;
	} want[] = { { MQ_CLASS_GEMM, 30 },           { MQ_CLASS_COMM, 30 },
		     { MQ_CLASS_EXPOSED, 20 },        { MQ_CLASS_ELEMENTWISE, 10 },
		     { MQ_CLASS_IDLE_HOST, 10 + 15 }, { MQ_CLASS_IDLE_WAIT, 5 + 10 },
		     { MQ_CLASS_STEP, 100 },          { MQ_CLASS_CONV, 0 } };

	mq_trace_shares(t, &arena, &s);
	assert_true(s.marked);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		if (fabs(1e6 * s.share_s[want[i].class] - want[i].us) > 1e-6)
			fail_msg("%s: %g us instead of %g", mq_trace_class_name(want[i].class),
				 1e6 * s.share_s[want[i].class], want[i].us);
}

static void bad_files(void **state)
{
	refused("{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":1},",
		"cut short after byte");
	refused("{\"traceEvents\": [}]}", "not JSON near byte");
	refused("{\"events\": []}", "no \"traceEvents\"");
	refused("{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":1}]}",
		"not one kernel");
	refused("", "cut short");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(year_2021), cmocka_unit_test(year_2022), cmocka_unit_test(year_2023),
		cmocka_unit_test(year_2024), cmocka_unit_test(by_shapes), cmocka_unit_test(times_and_ranks),
		cmocka_unit_test(messages),  cmocka_unit_test(not_told),  cmocka_unit_test(waiting),
		cmocka_unit_test(shapes),    cmocka_unit_test(shares),    cmocka_unit_test(bad_files),
	};

	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	mq_arena_fini(&arena);
	return failed;
}
