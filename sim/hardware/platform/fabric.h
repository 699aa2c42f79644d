/* fabric.h - the network between the leaves of a generated platform. Private to the generator.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_FABRIC_H
#define MQ_HARDWARE_PLATFORM_FABRIC_H

#include "hardware/platform/spec.h"

enum mq_status mq_gen_fabric_check(struct mq_gen *gen, struct mq_err *err);
/* Is the fabric leaves around a core, with or without pods? Its routes need no table. */
bool mq_gen_is_star(const struct mq_platform_spec *spec);
void mq_gen_star_links(struct mq_gen *gen);
void mq_gen_hub(struct mq_gen *gen, const char *name); /* zone "NAMEswitch" of router "NAMEgw" */
const char *mq_gen_root_routing(const struct mq_gen *gen);
void mq_gen_fabric(struct mq_gen *gen); /* links, leaves and routes of the outermost zone */

#endif
