/*
 * test_study.c - job files of studies: axes, ranges, the order of points, hashes, what is refused; and
 * the tables that follow from rows: scaling, losses, the front of time against cost.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "study/study.h"
#include "base/csv.h"
#include "folder.h"

static struct mq_arena arena = MQ_ARENA_INIT;
static struct mq_study load(const char *text)
{
	struct mq_study s;
	struct mq_err err = MQ_ERR_INIT;

	if (mq_study_load(put_file("s.ini", text), false, &arena, &s, &err) != MQ_OK)
		fail_msg("%s", err.text);
	return s;
}

static void expect_axis(const struct mq_study *s, uint32_t i, const char *key, const char *values)
{
	const char *got = "";

	assert_string_equal(s->axis[i].key, key);
	for (uint32_t v = 0; v < s->axis[i].n; v++)
		got = mq_arena_printf(&arena, "%s%s%s", got, v ? " " : "", s->axis[i].value[v]);
	assert_string_equal(got, values);
}

static void test_axes(void **state)
{
	struct mq_study s = load("model = gpt:layers=2,hidden=64, bert; llama\n"
				 "batch = 32..256*2\nlink.network.bw = 0.5..2+0.5\nseq = 10..12, 20\n"
				 "engine = expert, random\n[about]\ndate = yesterday, today\n");

	assert_int_equal(s.n_axes, 5);
	expect_axis(&s, 0, "model", "gpt:layers=2,hidden=64 bert llama");
	expect_axis(&s, 1, "batch", "32 64 128 256");
	expect_axis(&s, 2, "link.network.bw", "0.5 1 1.5 2");
	expect_axis(&s, 3, "seq", "10 11 12 20");
	expect_axis(&s, 4, "engine", "expert, random");
	assert_int_equal(s.n_points, 3 * 4 * 4 * 4);
	assert_memory_equal(mq_study_header(&s, &arena), "point,model,batch,link.network.bw,seq,verd", 42);
}

/* A list of software: what has '=' belongs to the software before it, whatever the separator. */
static void test_software_axis(void **state)
{
	struct mq_study s =
		load("software = generic, megatron-core, traffic=2;norm=eager; mine/x.json,host=2,generic\n"
		     "model = gpt\nplatform = dgx1_v100\njob.a.devices = 0\njob.a.software = fsdp,deepspeed\n");
	struct mq_point p;
	struct mq_err err;

	(void)state;
	assert_int_equal(s.axis[0].n, 4);
	assert_string_equal(s.axis[0].value[1], "megatron-core, traffic=2;norm=eager");
	assert_string_equal(s.axis[0].value[2], "mine/x.json,host=2");
	assert_string_equal(s.axis[0].value[3], "generic");
	assert_int_equal(s.axis[4].n, 2);
	assert_int_equal(mq_study_point(&s, 3, &arena, &p, &err), MQ_OK);
	assert_true(p.asked.simulation_s == 20 && p.job[0].asked.simulation_s == 20); /* who waits hears of it */
	assert_string_equal(p.asked.software, "megatron-core, traffic=2;norm=eager");
	assert_string_equal(p.job[0].asked.software, "deepspeed"); /* a job's own */
}

/* What the file of a software says counts, beside its name. */
static void test_software_files_count(void **state)
{
	const char *path = put_file("sw.json", "{}");
	struct mq_study s = load(mq_arena_printf(&arena, "model = gpt\nplatform = p\nsoftware = %s,host=2\n", path));
	struct mq_point a, b;
	struct mq_err err;

	(void)state;
	assert_int_equal(mq_study_point(&s, 0, &arena, &a, &err), MQ_OK);
	put_file("sw.json", "{ }");
	assert_int_equal(mq_study_point(&s, 0, &arena, &b, &err), MQ_OK);
	assert_true(a.hash != b.hash);
}

/* Tenths add up without drift: 0.1 .. 1 has ten values, the last is 1. */
static void test_range_rounding(void **state)
{
	struct mq_study s = load("a = 0.1..1+0.1\n");

	assert_int_equal(s.axis[0].n, 10);
	assert_string_equal(s.axis[0].value[9], "1");
}

static void test_points(void **state)
{
	struct mq_study s = load("model = gpt\nplatform = dgx1_v100\nbatch = 8, 16\nlink.all.bw = 1, 2\n"
				 "plan = p.json\n");
	struct mq_point p[4], again;
	struct mq_err err;

	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(mq_study_point(&s, i, &arena, &p[i], &err), MQ_OK);
	assert_true(p[0].asked.train.batch == 8 && p[2].asked.train.batch == 16);
	assert_string_equal(p[1].asked.change.item[0], "link.all.bw=2");
	assert_string_equal(p[3].plan, "p.json");
	assert_int_equal(p[3].asked.jobs, 1);
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < i; j++)
			assert_true(p[i].hash != p[j].hash);
	s.context++; /* another program: no old row holds */
	assert_int_equal(mq_study_point(&s, 0, &arena, &again, &err), MQ_OK);
	assert_true(again.hash != p[0].hash);
	s.context--;
	assert_int_equal(mq_study_point(&s, 0, &arena, &again, &err), MQ_OK);
	assert_true(again.hash == p[0].hash);
	s.sensitivity = 0.1; /* asks more of the point */
	assert_int_equal(mq_study_point(&s, 0, &arena, &again, &err), MQ_OK);
	assert_true(again.hash != p[0].hash);
}

/* A job has the study's options but for its own; devices are no axis, models may be one. */
static void test_jobs(void **state)
{
	struct mq_study s = load("model = gpt\nplatform = dgx1_v100\nbatch = 8\nlink.all.bw = 1, 2\n"
				 "job.a.devices = 0-1,4; 2-3\njob.a.batch = 16\njob.b.devices = 5\n"
				 "job.b.model = llama:layers=2,hidden=64\njob.b.begin = 0.5\njob.steps = 7\n");
	struct mq_point p, again;
	struct mq_err err;

	assert_int_equal(s.n_jobs, 2);
	assert_int_equal(s.job_steps, 7);
	assert_int_equal(s.n_points, 4);
	assert_int_equal(mq_study_point(&s, 2, &arena, &p, &err), MQ_OK);
	assert_string_equal(p.job[0].asked.devices, "0-1,4");
	assert_string_equal(p.job[0].asked.change.item[0], "link.all.bw=2");
	assert_string_equal(p.job[0].asked.model, "gpt");
	assert_true(p.job[0].asked.train.batch == 16 && p.job[1].asked.train.batch == 8);
	assert_string_equal(p.job[1].asked.model, "llama:layers=2,hidden=64");
	assert_string_equal(p.job[1].asked.devices, "5");
	assert_true(p.job[0].start_s == 0 && p.job[1].start_s == 0.5);
	assert_non_null(strstr(mq_study_header(&s, &arena), ",job.a.devices,verdict,jobs,worst_slowdown"));
	s.job_steps++;
	assert_int_equal(mq_study_point(&s, 2, &arena, &again, &err), MQ_OK);
	assert_true(again.hash != p.hash);
}

/* What a file holds counts, not only its name. */
static void test_contents_count(void **state)
{
	const char *path = put_file("plan.json", "{}");
	struct mq_study s = load(mq_arena_printf(&arena, "model = gpt\nplatform = p\nplan = %s\n", path));
	struct mq_point a, b;
	struct mq_err err;

	assert_int_equal(mq_study_point(&s, 0, &arena, &a, &err), MQ_OK);
	put_file("plan.json", "{ }");
	assert_int_equal(mq_study_point(&s, 0, &arena, &b, &err), MQ_OK);
	assert_true(a.hash != b.hash);
}

static void test_weak(void **state)
{
	struct mq_study s = load("model = gpt\nscaling = weak\nbatch = 16\nplatform.gpu = A100-80GB\n"
				 "platform.nodes = 2, 4\nplatform.gpus = 4, 8\n");
	const double batch[] = { 16, 32, 32, 64 };
	struct mq_point p;
	struct mq_err err;

	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(mq_study_point(&s, i, &arena, &p, &err), MQ_OK);
		assert_true(p.asked.train.batch == batch[i]);
	}
	assert_true(s.efficiency == 0.8);
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "batch = 1, , 2\n", "empty value" },
		{ "batch = 1..4*1\n", "never ends" },
		{ "batch = 1..4+0\n", "never ends" },
		{ "batch = 0..4*2\n", "never ends" },
		{ "batch = 1..1000000\n", "more than 10000 values" },
		{ "a = 1..1000\nb = 1..1001\n", "at most 1000000" },
		{ "batch = 1\nbatch = 2\n", "given twice" },
		{ "no equals sign\n", ":1: not `key = value`" },
		{ "[model]\nname = gpt\n", "section [model]" },
		{ "scaling = sideways\n", "strong or weak" },
		{ "scaling = weak\n", "give one batch" },
		{ "scaling = weak\nbatch = 1, 2\n", "give one batch" },
		{ "efficiency = 1.5\n", "between 0 and 1" },
		{ "sensitivity = no\n", "between 0 and 1" },
		{ "breakeven.target = link.nic.bw\nbreakeven.plan_a = x\n", "breakeven.plan_b" },
		{ "breakeven.plan_a = x\nbreakeven.plan_b = y\n", "needs breakeven.target" },
		{ "job.a.batch = 3\n", "job a has no devices" },
		{ "job.a.colour = red\n", "no key of a job" },
		{ "job.a = red\n", "no key of a job" },
		{ "job.a.platform = x\n", "the same for all jobs" },
		{ "job.steps = 0\n", "job.steps" },
		{ "epoch = 0\n", "give its samples" },
		{ "job.a.devices = 0\nscaling = strong\n", "asks about one job" },
	};
	static const struct {
		const char *text, *says;
	} bad_point[] = {
		{ "model = gpt\ncolour = red\n", "colour" },
		{ "model = gpt\nbatch = many\n", "batch" },
		{ "model = gpt\njob.a.devices = 0\njob.a.batch = many\n", "job a" },
		{ "model = gpt\njob.a.devices = 0\njob.a.begin = -1\n", "0 or more" },
		{ "model = gpt\nplatform.gpu = A100-80GB\nplatform.colour = red\n", "colour" },
		{ "model = gpt\nscaling = weak\nbatch = 8\n", "platform.nodes" },
	};
	struct mq_study s;
	struct mq_point p;
	struct mq_err err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		err = (struct mq_err)MQ_ERR_INIT;
		if (mq_study_load(put_file("s.ini", bad[i].text), false, &arena, &s, &err) != MQ_EINPUT ||
		    !strstr(err.text, bad[i].says))
			fail_msg("%s: '%s', expected '%s'", bad[i].text, err.text, bad[i].says);
	}
	for (size_t i = 0; i < sizeof(bad_point) / sizeof(*bad_point); i++) {
		err = (struct mq_err)MQ_ERR_INIT;
		s = load(bad_point[i].text);
		if (mq_study_point(&s, 0, &arena, &p, &err) != MQ_EINPUT || !strstr(err.text, bad_point[i].says))
			fail_msg("%s: '%s', expected '%s'", bad_point[i].text, err.text, bad_point[i].says);
	}
	static const char *const programs[] = {
		"engine = exec:rm\n",       "engine = expert, exec:rm\n", "engine = expert, e x ec : rm\n",
		"job.a.engine = exec:rm\n", "eng = \"exec:rm\"\n",        "; note\nengine: exec:rm\n",
	};
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		err = (struct mq_err)MQ_ERR_INIT;
		assert_int_equal(mq_study_load(put_file("s.ini", programs[i]), false, &arena, &s, &err), MQ_EINPUT);
		assert_non_null(strstr(err.text, "--allow-exec"));
	}
	assert_int_equal(mq_study_load(put_file("s.ini", programs[0]), true, &arena, &s, &err), MQ_OK);
	load("model = inexec:rm\n");
	assert_int_equal(mq_study_load("/nonexistent.ini", false, &arena, &s, &err), MQ_EINPUT);
}

static double cell(const char *file, uint32_t row, const char *column)
{
	struct mq_csv csv;
	struct mq_err err;
	double v = 0;

	assert_int_equal(mq_csv_load(mq_arena_printf(&arena, "%s/%s", dir, file), &arena, &csv, &err), MQ_OK);
	assert_true(row < csv.n_rows);
	assert_true(mq_csv_f64(&csv, row, mq_csv_column(&csv, column), (double)NAN, &v));
	return v;
}

/* Rows by hand: 8 devices give 10 samples/s, 16 give 18 (90 %), 32 give 24 (60 %); $1, $2, $4 a second. */
static void test_answers(void **state)
{
	struct mq_study s = load("platform.nodes = 1, 2, 4\nplatform.gpus = 8\nrank.0.clock = 1, 0.5\n"
				 "efficiency = 0.8\n");
	struct mq_err err;
	char *words;
	size_t size;
	FILE *f = open_memstream(&words, &size);

	put_file("whatif.csv", "point,platform.nodes,rank.0.clock,step_time_s,samples_per_s,usd_per_step\n"
			       "0,1,1,1,10,1\n1,1,0.5,1.5,6.6666666667,1.5\n"
			       "2,2,1,1,18,2\n3,2,0.5,1.25,14.4,2.5\n"
			       "4,4,1,1,24,4\n5,4,0.5,,,\n");
	if (mq_study_answers(&s, dir, f, &err) != MQ_OK)
		fail_msg("%s", err.text);
	fclose(f);
	assert_true(fabs(cell("scaling.csv", 0, "efficiency") - 1) < 1e-9);
	assert_true(fabs(cell("scaling.csv", 2, "efficiency") - 0.9) < 1e-9);
	assert_true(fabs(cell("scaling.csv", 4, "efficiency") - 0.6) < 1e-9);
	assert_true(isnan(cell("scaling.csv", 5, "efficiency")));
	assert_true(fabs(cell("losses.csv", 0, "loss") - 0.5) < 1e-9);
	assert_true(fabs(cell("losses.csv", 1, "loss") - 0.25) < 1e-9);
	assert_true(isnan(cell("losses.csv", 2, "loss")));
	assert_true(cell("pareto.csv", 0, "ksample_usd") == 100);
	assert_true(cell("pareto.csv", 0, "on_front") == 1);
	assert_true(cell("pareto.csv", 1, "on_front") == 0); /* dearer and slower than point 0 */
	assert_true(cell("pareto.csv", 4, "on_front") == 1);
	assert_non_null(strstr(words, "16 devices at 90.0 % efficiency; falls under 80 % at 32 devices"));
	assert_non_null(strstr(words, "loss: rank.0.clock changes step time by +50.00 % at worst"));
	free(words);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_axes),          cmocka_unit_test(test_range_rounding),
		cmocka_unit_test(test_points),        cmocka_unit_test(test_contents_count),
		cmocka_unit_test(test_weak),          cmocka_unit_test(test_refused),
		cmocka_unit_test(test_answers),       cmocka_unit_test(test_jobs),
		cmocka_unit_test(test_software_axis), cmocka_unit_test(test_software_files_count),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
