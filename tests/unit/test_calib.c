/*
 * test_calib.c - reading and writing calibrations: defaults, refusals, round trip, every file shipped.
 */
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

#include "core/calib.h"

static struct mq_arena arena = MQ_ARENA_INIT;
static char path[] = "/tmp/mq-calib-XXXXXX";

static enum mq_status load(struct mq_calib *calib, const char *text, struct mq_err *err)
{
	strcpy(path + strlen(path) - 6, "XXXXXX");
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	enum mq_status status = mq_calib_load(calib, path, err);
	unlink(path);
	return status;
}

#define HEAD "{\"kind\": \"device\", \"name\": \"x\", \"source\": \"s\", \"values\": {"
#define NEED "\"mem_bw_Bps\": 1e12, \"memory_B\": 1e10, \"peak_fp16_flops\": 1e14"

static void test_read(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_calib *calib = mq_calib_new(&arena);

	assert_int_equal(load(calib, HEAD NEED ", \"gemm_eff\": {\"value\": 0.75, \"unit\": \"1\","
			 " \"low\": 0.7, \"high\": 0.8}}}", &err), MQ_OK);
	const struct mq_device_calib *d = mq_calib_device(calib, "x");
	assert_non_null(d);
	assert_true(d->gemm_eff == .75 && d->mem_bw_Bps == 1e12 && d->peak_flops[MQ_FP16] == 1e14);
	assert_true(d->peak_flops[MQ_BF16] == 0 && isnan(d->power_W) && d->kind == MQ_GPU);
	assert_true(d->sustained == 1); /* a default */
	assert_null(mq_calib_device(calib, "y"));
	/* the same name replaces */
	assert_int_equal(load(calib, HEAD NEED ", \"gemm_eff\": 0.5}}", &err), MQ_OK);
	assert_int_equal(calib->n_devices, 1);
	assert_true(mq_calib_device(calib, "x")->gemm_eff == .5);
	assert_int_equal(load(calib, "{\"entries\": [{\"kind\": \"link\", \"name\": \"ib\", "
			 "\"values\": {\"bw_share\": 0.85}}]}", &err), MQ_OK);
	assert_true(mq_calib_link(calib, "ib")->bw_share == .85);
}

static void test_refuse(void **state)
{
	static const struct { const char *text, *says; } bad[] = {
		{ HEAD "\"memory_B\": 1e10, \"peak_fp16_flops\": 1e14}}", "mem_bw_Bps" },
		{ HEAD "\"memory_B\": 1e10, \"mem_bw_Bps\": 1e12}}", "no peak" },
		{ HEAD NEED ", \"gem_eff\": 1}}", "gem_eff" },
		{ HEAD NEED ", \"gemm_eff\": -1}}", "outside" },
		{ HEAD NEED ", \"gemm_eff\": \"fast\"}}", "no number" },
		{ HEAD NEED ", \"gemm_t0_s\": {\"value\": 5, \"unit\": \"us\"}}}", "'us'" },
		{ "{\"kind\": \"device\", \"name\": \"x\"}", "values" },
		{ "{\"kind\": \"device\", \"values\": {}}", "name" },
		{ "{\"kind\": \"chip\", \"name\": \"x\", \"values\": {}}", "chip" },
		{ "{\"kind\": ", "1" }, { "[]", "name" }, { "", "" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct mq_err err = MQ_ERR_INIT;
		struct mq_calib *calib = mq_calib_new(&arena);

		assert_int_equal(load(calib, bad[i].text, &err), MQ_EINPUT);
		if (!strstr(err.text, bad[i].says) || !strstr(err.text, path))
			fail_msg("case %zu: '%s' does not say '%s'", i, err.text, bad[i].says);
		assert_int_equal(calib->n_devices, 0);
	}
	struct mq_err err = MQ_ERR_INIT;
	assert_int_equal(mq_calib_load_dir(mq_calib_new(&arena), "/nowhere", &err), MQ_EINPUT);
}

static void test_round_trip(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_calib *calib = mq_calib_new(&arena), *again = mq_calib_new(&arena);
	struct mq_device_calib *d = mq_calib_add_ideal(calib, "a\"b", 1.25e13, 3e11, 5e9);

	d->gemm_q = .375;
	d->serial_comm = true;
	d->kind = MQ_CPU;
	strcpy(path + strlen(path) - 6, "XXXXXX");
	close(mkstemp(path));
	assert_int_equal(mq_calib_save_device(d, path, &err), MQ_OK);
	assert_int_equal(mq_calib_load(again, path, &err), MQ_OK);
	unlink(path);
	const struct mq_device_calib *e = mq_calib_device(again, "a\"b");
	assert_non_null(e);
	for (const struct mq_calib_field *f = mq_calib_device_fields(); f->name; f++) {
		double x, y;

		memcpy(&x, (const char *)d + f->offset, sizeof(x));
		memcpy(&y, (const char *)e + f->offset, sizeof(y));
		assert_true(x == y || (isnan(x) && isnan(y)));
	}
	assert_true(e->serial_comm && e->kind == MQ_CPU);
	assert_int_equal(mq_calib_save_device(d, "/dev/full", &err), MQ_EINPUT);
	assert_int_equal(mq_calib_save_device(d, "/nowhere/x.json", &err), MQ_EINPUT);
}

static void test_bind(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_calib *calib = mq_calib_new(&arena);
	struct mq_device device[3] = { { .name = "d0", .type = "b", .power_W = NAN },
				       { .name = "d1", .type = "a", .memory_B = 7e9, .power_W = 5 },
				       { .name = "d2", .type = "b" } };
	struct mq_link link[5] = { { .class = MQ_LINK_NIC, .fabric = MQ_FABRIC_ROCE, .bw_Bps = 5e9 },
				   { .class = MQ_LINK_NVSWITCH }, { .class = MQ_LINK_OTHER },
				   { .class = MQ_LINK_NIC, .fabric = MQ_FABRIC_ROCE, .bw_Bps = 20e9 },
				   { .class = MQ_LINK_FABRIC, .fabric = MQ_FABRIC_ROCE, .bw_Bps = 20e9 } };
	struct mq_cluster cluster = { .n_devices = 3, .device = device, .n_links = 5,
				      .link = link };

	assert_int_equal(load(calib, "{\"kind\": \"link\", \"name\": \"roce\", \"values\": "
			 "{\"bw_share\": 0.6, \"port_Bps\": 4e9}}", &err), MQ_OK);
	mq_calib_add_ideal(calib, "a", 1e12, 1e11, 1e9);
	assert_int_equal(mq_calib_bind(calib, &cluster, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "'b'"));
	assert_non_null(strstr(err.text, "known: a"));
	mq_calib_add_ideal(calib, "b", 2e12, 1e11, 3e9)->power_W = 250;
	assert_int_equal(mq_calib_bind(calib, &cluster, &err), MQ_OK);
	assert_int_equal(device[0].calib, 1);
	assert_int_equal(device[1].calib, 0);
	assert_int_equal(device[2].calib, 1);
	assert_true(device[0].memory_B == 3e9 && device[0].power_W == 250);
	assert_true(link[0].share == .6 && link[1].share == 1 && link[2].share == 1);
	assert_true(link[3].share == .2 && link[4].share == .6); /* a port's limit; not that of a trunk */
	assert_true(device[1].memory_B == 7e9 && device[1].power_W == 5);
}

/* Every file shipped loads, and says where its values come from. */
static void test_shipped(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_calib *calib = mq_calib_new(&arena);

	if (mq_calib_load_dir(calib, "platforms/calib", &err) != MQ_OK)
		fail_msg("%s", err.text);
	assert_true(calib->n_devices >= 29);
	for (uint32_t i = 0; i < calib->n_devices; i++) {
		const struct mq_device_calib *d = &calib->device[i];

		assert_true(*d->source);
		assert_true(d->kind == MQ_CPU || d->peak_flops[MQ_FP16] > 1e12);
	}
	assert_true(mq_calib_device(calib, "A100-SXM4-80GB")->peak_flops[MQ_BF16] == 312e12);
}

static int teardown(void **state)
{
	mq_arena_fini(&arena);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_read, teardown),
		cmocka_unit_test_teardown(test_refuse, teardown),
		cmocka_unit_test_teardown(test_round_trip, teardown),
		cmocka_unit_test_teardown(test_bind, teardown),
		cmocka_unit_test_teardown(test_shipped, teardown),
	};

	return cmocka_run_group_tests_name("calib", tests, NULL, NULL);
}
