/*
 * test_change.c - what-if changes of the hardware: each target does what it says and no more; wrong
 * targets and factors are refused with what there is.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "hardware/change.h"
#include "libraries.h"

struct fixture {
	struct mq_arena arena;
	struct mq_cluster *cluster;
	struct mq_calib *calib;
	struct mq_err err;
};

static void open_fixture(struct fixture *f)
{
	*f = (struct fixture){ .arena = MQ_ARENA_INIT };
	f->cluster = mq_cluster_flat(&f->arena, 4, "ideal", 1e12, 16e9, 10e9, 2e-6);
	f->calib = bare_calib(&f->arena);
	mq_calib_add_ideal(f->calib, "ideal", 1e12, 100e9, 16e9);
	assert_int_equal(mq_calib_bind(f->calib, f->cluster, &f->err), MQ_OK);
}

static enum mq_status apply(struct fixture *f, const char *change)
{
	return mq_change_apply(change, 7, f->cluster, f->calib, &f->err);
}

static void test_links(void **state)
{
	struct fixture f;

	open_fixture(&f);
	assert_int_equal(apply(&f, "link.all.bw=1.5"), MQ_OK);
	assert_int_equal(apply(&f, "link.all.latency=0.25"), MQ_OK);
	for (uint32_t l = 0; l < f.cluster->n_links; l++) {
		assert_true(f.cluster->link[l].bw_Bps == 15e9);
		assert_true(f.cluster->link[l].lat_s == 0.5e-6);
	}
	char change[128];
	snprintf(change, sizeof(change), "linkname.%s.bw=0.5", f.cluster->link[0].name);
	assert_int_equal(apply(&f, change), MQ_OK);
	assert_true(f.cluster->link[0].bw_Bps == 7.5e9);
	assert_true(f.cluster->link[f.cluster->n_links - 1].bw_Bps == 15e9);
	mq_arena_fini(&f.arena);
}

/* What a class of links gives, and a port at most, reaches the links of a cluster that is bound already. */
static void test_shares(void **state)
{
	struct fixture f;

	open_fixture(&f);
	struct mq_link_calib *entry = mq_arena_alloc(&f.arena, sizeof(*entry));

	f.cluster->link[0].class = MQ_LINK_NIC;
	const char *class = mq_calib_link_class(&f.cluster->link[0]);
	*entry = (struct mq_link_calib){ .name = class, .bw_share = .5 };
	f.calib->link = entry;
	f.calib->n_links = 1;
	assert_int_equal(mq_calib_bind(f.calib, f.cluster, &f.err), MQ_OK);
	assert_true(f.cluster->link[0].share == .5);
	char change[128];
	snprintf(change, sizeof(change), "linkcalib.%s.bw_share=0.75", class);
	assert_int_equal(apply(&f, change), MQ_OK);
	assert_true(f.cluster->link[0].share == .75);
	snprintf(change, sizeof(change), "linkcalib.%s.port_Bps=5e9", class);
	assert_int_equal(apply(&f, change), MQ_OK);
	assert_true(f.cluster->link[0].share == .5);
	/* twice as fast, the port gives no more */
	snprintf(change, sizeof(change), "linkname.%s.bw=2", f.cluster->link[0].name);
	assert_int_equal(apply(&f, change), MQ_OK);
	assert_true(f.cluster->link[0].share == .25);
	mq_arena_fini(&f.arena);
}

static void test_devices(void **state)
{
	struct fixture f;

	open_fixture(&f);
	assert_int_equal(apply(&f, "device.ideal.memory=2"), MQ_OK);
	assert_true(f.cluster->device[3].memory_B == 32e9);
	assert_int_equal(apply(&f, "device.all.flops=3"), MQ_OK);
	const struct mq_device_calib *shared = &f.calib->device[f.cluster->device[0].calib];
	assert_true(shared->peak_flops[MQ_FP16] == 3e12); /* once, though four devices share it */
	assert_true(shared->mem_bw_Bps == 100e9);
	f.calib->device[f.cluster->device[0].calib].flop_J = 2e-12;
	assert_int_equal(apply(&f, "rank.2.clock=0.5"), MQ_OK);
	shared = &f.calib->device[f.cluster->device[0].calib];
	const struct mq_device_calib *slow = &f.calib->device[f.cluster->device[2].calib];
	assert_true(slow->peak_flops[MQ_FP16] == 1.5e12 && slow->mem_bw_Bps == 50e9);
	assert_true(fabs(slow->flop_J / 2e-12 - pow(.5, 1.2)) < 1e-9 && shared->flop_J == 2e-12);
	assert_true(f.calib->device[f.cluster->device[1].calib].peak_flops[MQ_FP16] == 3e12);
	/* memory at full speed draws 20 W: the same if it is faster, half at half the clock */
	static const struct {
		const char *change;
		double W;
	} power[] = { { "rank.0.mem_bw=2", 20 }, { "rank.1.clock=2", 20 }, { "rank.3.clock=0.5", 10 } };
	for (int i = 0; i < 3; i++) {
		uint32_t rank = (uint32_t)power[i].change[5] - '0';

		f.calib->device[f.cluster->device[rank].calib].memory_J = 20 / 100e9;
		assert_int_equal(apply(&f, power[i].change), MQ_OK);
		const struct mq_device_calib *d = &f.calib->device[f.cluster->device[rank].calib];
		assert_true(fabs(d->memory_J * d->mem_bw_Bps - power[i].W) < 1e-9);
	}
	mq_arena_fini(&f.arena);
}

/* The same seed draws the same devices; a deviation of 0 changes nothing. */
static void test_spread(void **state)
{
	struct fixture f, g;
	bool differ = false;

	open_fixture(&f);
	open_fixture(&g);
	assert_int_equal(apply(&f, "spread.clock=0.1"), MQ_OK);
	assert_int_equal(apply(&g, "spread.clock=0.1"), MQ_OK);
	for (uint32_t i = 0; i < 4; i++) {
		double a = f.calib->device[f.cluster->device[i].calib].peak_flops[MQ_FP16];

		assert_true(a == g.calib->device[g.cluster->device[i].calib].peak_flops[MQ_FP16]);
		assert_true(fabs(log(a / 1e12)) < 0.6);
		differ |= a != f.calib->device[f.cluster->device[0].calib].peak_flops[MQ_FP16];
	}
	assert_true(differ);
	mq_arena_fini(&g.arena);
	open_fixture(&g);
	assert_int_equal(apply(&g, "spread.clock=0"), MQ_OK);
	assert_true(g.calib->device[g.cluster->device[3].calib].peak_flops[MQ_FP16] == 1e12);
	mq_arena_fini(&f.arena);
	mq_arena_fini(&g.arena);
}

static void test_calib(void **state)
{
	struct fixture f;

	open_fixture(&f);
	assert_int_equal(apply(&f, "calib.ideal.gemm_eff=0.625"), MQ_OK);
	assert_true(f.calib->device[f.cluster->device[0].calib].gemm_eff == 0.625);
	/* a device's own values too */
	assert_int_equal(apply(&f, "calib.ideal.power_W=300"), MQ_OK);
	assert_int_equal(apply(&f, "calib.ideal.memory_B=5e9"), MQ_OK);
	assert_true(f.cluster->device[1].power_W == 300 && f.cluster->device[3].memory_B == 5e9);
	mq_arena_fini(&f.arena);
}

static void test_refused(void **state)
{
	static const struct {
		const char *change, *says;
	} bad[] = {
		{ "", "TARGET=NUMBER" },
		{ "link.nvlink.bw", "TARGET=NUMBER" },
		{ "link=2", "TARGET=NUMBER" },
		{ "link.all.bw=fast", "give a factor" },
		{ "link.all.bw=nan", "give a factor" },
		{ "link.all.bw=0", "must be positive" },
		{ "link.all.bw=-1", "must be positive" },
		{ "link.nic.bw=2", "classes:" },
		{ "link.all.colour=2", "bw and latency" },
		{ "linkname.none.bw=2", "no link named" },
		{ "device.V100.flops=2", "no device of type" },
		{ "device.ideal.colour=2", "flops, mem_bw" },
		{ "rank.4.clock=2", "0 to 3" },
		{ "rank.x.clock=2", "0 to 3" },
		{ "spread.flops=0.1", "0 to 1" },
		{ "spread.clock=2", "0 to 1" },
		{ "calib.ideal.colour=2", "no calibration field" },
		{ "calib.V100.gemm_eff=0.5", "no calibration of" },
		{ "planet.earth.mass=2", "is not one of" },
	};
	struct fixture f;

	open_fixture(&f);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		if (apply(&f, bad[i].change) != MQ_EINPUT || !strstr(f.err.text, bad[i].says))
			fail_msg("'%s': '%s', expected '%s'", bad[i].change, f.err.text, bad[i].says);
	}
	mq_arena_fini(&f.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_links),  cmocka_unit_test(test_shares), cmocka_unit_test(test_devices),
		cmocka_unit_test(test_spread), cmocka_unit_test(test_calib),  cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
