/* conductor.c - see conductor.h. SPDX-License-Identifier: Apache-2.0 */
#include "executors/simgrid/conductor.h"

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/link.h>
#include <xbt/config.h>

#include "hardware/platform/platform.h"

enum { CONDUCTOR_STACK_KIB = 16 * 1024, LANE_STACK_KIB = 64 };

struct conductor {
	void (*body)(void *data);
	void *data;
};

static void run_body(int argc, char **argv)
{
	struct conductor *c = sg_actor_self_get_data();

	(void)argc;
	(void)argv;
	/* Lanes get small stacks by the default, since sg_actor_set_stacksize of SimGrid 3.32 crashes. */
	sg_cfg_set_int("contexts/stack-size", LANE_STACK_KIB);
	c->body(c->data);
}

void mq_conduct(const struct mq_cluster *cluster, void (*body)(void *data), void *data)
{
	struct conductor c = { body, data };

	sg_cfg_set_int("contexts/stack-size", CONDUCTOR_STACK_KIB);
	sg_actor_t actor = sg_actor_init("conductor", mq_platform_host(cluster, 0));
	sg_actor_set_data(actor, &c);
	sg_actor_start_(actor, run_body, 0, NULL);
	simgrid_run();
}

void mq_conduct_bind(const struct mq_cluster *cluster)
{
	for (uint32_t l = 0; l < cluster->n_links; l++) {
		sg_link_t link = mq_platform_link(cluster, l);
		double usable_Bps = mq_link_usable_Bps(&cluster->link[l]);

		if (link && sg_link_get_bandwidth(link) != usable_Bps)
			sg_link_set_bandwidth(link, usable_Bps);
	}
}
