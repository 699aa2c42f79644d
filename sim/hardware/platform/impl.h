/* impl.h - the SimGrid objects of a cluster, at its `context`: private to this folder.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_IMPL_H
#define MQ_HARDWARE_PLATFORM_IMPL_H

#include <xbt/dynar.h>

#include "hardware/platform/on_demand.h"
#include "hardware/platform/platform.h"

struct mq_gen;

struct platform {
	sg_host_t *host;     /* [n_devices] in rank order; in a built cluster NULL until first used */
	sg_link_t *link;     /* [n_links] likewise */
	xbt_dynar_t scratch; /* for sg_host_get_route; lives as long as the process */
	struct mq_cluster *cluster;
	struct mq_gen *gen; /* of a built cluster; NULL = loaded from a file */
	struct mq_on_demand source;
	void *zone; /* of its hosts; NULL until one is used */
};

/* Sets class and fabric of a named link. class_word, fabric: from the platform file, or NULL; usual: the fabric of
 * network links without one. MQ_EINPUT: an unknown word. */
enum mq_status mq_platform_class(struct mq_link *link, const char *class_word, const char *fabric, enum mq_fabric usual,
				 struct mq_err *err);

/* The host of a rank of a built cluster, created on first use (build.c). */
sg_host_t mq_platform_built_host(struct platform *platform, uint32_t rank);

#endif
