/* classes.h - classes of devices with the same calibration, memory and links. Engines ask speeds by class, not by type
 * name: one device of a type may run at half its clock (`--change rank.5.clock=0.5`), have less memory, or a slower
 * link. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_CLASSES_H
#define MQ_STRATEGIES_LIB_CLASSES_H

#include <string.h>

#include "maquette/engine.h"

struct mq_classes {
	uint32_t n;
	uint32_t *of;    /* [cluster devices] class of each, numbered by first device */
	uint32_t *first; /* [n] lowest rank of each class */
};

/* Same type, calibration and memory, whatever their links? */
static inline bool mq_devices_alike(const struct mq_device *a, const struct mq_device *b)
{
	return a->calib == b->calib && a->memory_B == b->memory_B && !strcmp(a->type, b->type);
}

/* Same kind, bandwidth and latency? */
bool mq_links_alike(const struct mq_link *a, const struct mq_link *b);

/* Classes compare the largest bandwidth inside the machine (to the 16 nearest ranks) and that to the next machine.
 * O(devices); the cluster caches routes. */
void mq_classes_make(const struct mq_cluster *cluster, struct mq_arena *arena, struct mq_classes *classes);
/* Are two devices interchangeable: of one class, price and power? */
bool mq_classes_exchange(const struct mq_cluster *cluster, const struct mq_classes *classes, uint32_t a, uint32_t b);

#endif
