/*
 * test_platform_show.c - a platform in numbers and as a drawing: the junctions that routes imply, the
 * bisection of a permutation, hints about unlikely values.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "cmd/platform/words.h"
#include "hardware/platform/graph.h"

static const char *all_of(FILE *file, struct mq_arena *arena)
{
	long size = ftell(file);
	char *text = mq_arena_alloc(arena, (size_t)size + 1);

	rewind(file);
	assert_int_equal(fread(text, 1, (size_t)size, file), size);
	fclose(file);
	return text;
}

static uint32_t count(const char *text, const char *word)
{
	uint32_t n = 0;

	for (; (text = strstr(text, word)); text += strlen(word))
		n++;
	return n;
}

static void a_star_has_one_junction(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_cluster *c = mq_cluster_flat(&arena, 5, "X\"1", 1e12, 1e9, 3e9, 2e-6);
	FILE *file = tmpfile();

	assert_non_null(file);
	assert_int_equal(mq_platform_graph(c, file, &err), MQ_OK);
	const char *text = all_of(file, &arena);
	assert_int_equal(count(text, "shape=box"), 5);
	assert_int_equal(count(text, "shape=ellipse"), 1);
	assert_int_equal(count(text, " -- "), 5);
	assert_int_equal(count(text, "X\\\"1"), 5);
	assert_int_equal(count(text, "label=\"3\""), 5);
	assert_int_equal(count(text, "{"), count(text, "}"));
	mq_arena_fini(&arena);
}

/* Devices 0,1 and 2,3 share a link each: an end that two devices use is no device. */
static enum mq_status resolve_shared(void *context, uint32_t src, uint32_t dst, struct mq_route *route,
				     struct mq_err *err)
{
	struct mq_cluster *c = context;
	uint32_t *link = mq_arena_array(c->arena, 2, uint32_t);

	link[0] = 2 * (src / 2);
	link[1] = 2 * (dst / 2) + 1;
	route->n_links = src / 2 == dst / 2 ? 1 : 2;
	route->link = link;
	return MQ_OK;
}

static void a_shared_port_is_a_junction(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_cluster *c = mq_cluster_flat(&arena, 4, "X", 1e12, 1e9, 3e9, 2e-6);
	FILE *file = tmpfile();

	c->resolve = resolve_shared;
	c->link[0].class = c->link[1].class = MQ_LINK_NIC;
	assert_int_equal(mq_platform_graph(c, file, &err), MQ_OK);
	const char *text = all_of(file, &arena);
	assert_int_equal(count(text, "style=dotted"), 4);
	mq_arena_fini(&arena);
}

static void tables(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_cluster *c = mq_cluster_flat(&arena, 6, "X", 2e12, 5e9, 3e9, 2e-6);
	FILE *file = tmpfile();

	c->link[4].bw_Bps = 1e9; /* device 2 up */
	c->link[4].class = MQ_LINK_NIC;
	c->device[5].type = "Y";
	assert_int_equal(mq_platform_tables(c, file, &err), MQ_OK);
	const char *text = all_of(file, &arena);
	assert_non_null(strstr(text, "flat: 6 devices on 1 machine, 12 links"));
	assert_non_null(strstr(text, "X                         5        1            2          5"));
	assert_non_null(strstr(text, "nic                       1                1"));
	/* 2 -> 5 takes a second per GB: three such pairs at once carry 3 GB/s */
	assert_non_null(strstr(text, "half to half, all at once: 3 GB/s each way, limited by l2_UP (nic)"));
	mq_arena_fini(&arena);
}

static void an_odd_device_has_no_partner(void **state)
{
	bool heard[7] = { false };

	for (uint32_t i = 0; i < 6; i++)
		heard[mq_platform_partner(7, i)] = true;
	for (uint32_t i = 0; i < 6; i++)
		assert_true(heard[i] && mq_platform_partner(7, i) != i);
	assert_false(heard[6]);
	assert_int_equal(mq_platform_partner(8, 1), 5);
	assert_int_equal(mq_platform_partner(8, 5), 1);
}

static void doubts(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_cluster *c = mq_cluster_flat(&arena, 2, "X", 2e12, 5e9, 3e9, 2e-6);
	FILE *file = tmpfile();

	for (uint32_t i = 0; i < 4; i++)
		c->link[i].class = MQ_LINK_PCIE;
	assert_int_equal(mq_platform_doubts(c, file), 0);
	c->link[1].bw_Bps = 50; /* "50Bps" for "50GBps" */
	c->link[2].lat_s = 5;
	c->device[0].speed_flops = 1e3;
	c->device[1].memory_B = 16;
	assert_int_equal(mq_platform_doubts(c, file), 4);
	const char *text = all_of(file, &arena);
	assert_int_equal(count(text, "hint: "), 4);
	assert_non_null(strstr(text, "l0_DOWN"));
	mq_arena_fini(&arena);
}

static void samples_reach_every_level(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_cluster *c = mq_cluster_flat(&arena, 4096, "X", 2e12, 5e9, 3e9, 2e-6);
	struct mq_platform_sample s;

	mq_platform_sample(c, &arena, &s);
	assert_false(s.all);
	assert_true(s.n < 300 && s.device[0] == 0 && s.device[s.n - 1] == 4095);
	for (uint32_t i = 1; i < s.n; i++)
		assert_true(s.device[i] > s.device[i - 1]);
	c->n_devices = 100;
	mq_platform_sample(c, &arena, &s);
	assert_true(s.all && s.n == 100);
	c->n_devices = 1;
	mq_platform_sample(c, &arena, &s);
	assert_int_equal(s.n, 1);
	mq_arena_fini(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_star_has_one_junction),
		cmocka_unit_test(a_shared_port_is_a_junction),
		cmocka_unit_test(tables),
		cmocka_unit_test(an_odd_device_has_no_partner),
		cmocka_unit_test(doubts),
		cmocka_unit_test(samples_reach_every_level),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
