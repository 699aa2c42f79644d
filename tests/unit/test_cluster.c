/* test_cluster.c - clusters without SimGrid: routes, their cache, and the invariants.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "maquette/cluster.h"

static void flat_routes(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_cluster *c = mq_cluster_flat(&arena, 300, "X", 1e12, 1e9, 3e9, 2e-6);
	const struct mq_route *r, *again;

	assert_int_equal(mq_cluster_check(c, &err), MQ_OK);
	for (uint32_t a = 0; a < 300; a++)
		for (uint32_t b = 0; b < 300; b++) {
			if (a == b)
				continue;
			assert_int_equal(mq_cluster_route(c, a, b, &r, &err), MQ_OK);
			assert_int_equal(r->n_links, 2);
			assert_int_equal(r->link[0], 2 * a);
			assert_int_equal(r->link[1], 2 * b + 1);
			assert_true(r->lat_s == 4e-6 && r->bw_Bps == 3e9);
		}
	assert_int_equal(mq_cluster_route(c, 7, 299, &r, &err), MQ_OK);
	assert_int_equal(mq_cluster_route(c, 7, 299, &again, &err), MQ_OK);
	assert_ptr_equal(r, again);
	assert_int_equal(mq_cluster_route(c, 7, 7, &r, &err), MQ_EINPUT);
	assert_int_equal(mq_cluster_route(c, 0, 300, &r, &err), MQ_EINPUT);
	assert_int_equal(mq_cluster_find(c, "d299"), 299);
	assert_int_equal(mq_cluster_find(c, "d300"), MQ_NONE);
	mq_arena_fini(&arena);
}

static void invariants(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_cluster *c = mq_cluster_flat(&arena, 3, "X", 1e12, 1e9, 3e9, 2e-6);

	c->device[1].speed_flops = NAN;
	assert_int_equal(mq_cluster_check(c, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "'d1'"));
	c->device[1].speed_flops = 1;
	c->link[4].bw_Bps = 0;
	assert_int_equal(mq_cluster_check(c, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "l2_UP"));
	c->link[4].bw_Bps = 1;
	c->link[3].lat_s = -1e-9;
	assert_int_equal(mq_cluster_check(c, &err), MQ_EINPUT);
	c->link[3].lat_s = 0;
	c->device[2].name = "d0";
	assert_int_equal(mq_cluster_check(c, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "twice"));
	c->device[2].name = "d2";
	c->device[0].node = 1;
	assert_int_equal(mq_cluster_check(c, &err), MQ_EINPUT);
	c->device[0].node = 0;
	assert_int_equal(mq_cluster_check(c, &err), MQ_OK);
	c->n_devices = 0;
	assert_int_equal(mq_cluster_check(c, &err), MQ_EINPUT);
	mq_arena_fini(&arena);
}

static enum mq_status nowhere(void *context, uint32_t src, uint32_t dst, struct mq_route *route, struct mq_err *err)
{
	return MQ_OK;
}

static void no_route_is_an_error(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_cluster *c = mq_cluster_flat(&arena, 3, "X", 1e12, 1e9, 3e9, 2e-6);
	const struct mq_route *r;

	c->resolve = nowhere;
	assert_int_equal(mq_cluster_route(c, 0, 2, &r, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "no route from 'd0' to 'd2'"));
	mq_arena_fini(&arena);
}

static void names(void **state)
{
	assert_string_equal(mq_link_class_name(MQ_LINK_PCIE_SWITCH), "pcie-switch");
	assert_string_equal(mq_fabric_name(MQ_FABRIC_ROCE), "roce");
	for (int i = 0; i < MQ_N_LINK_CLASSES; i++)
		assert_non_null(mq_link_class_name((enum mq_link_class)i));
	for (int i = 0; i < MQ_N_FABRICS; i++)
		assert_non_null(mq_fabric_name((enum mq_fabric)i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flat_routes),
		cmocka_unit_test(invariants),
		cmocka_unit_test(no_route_is_an_error),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
