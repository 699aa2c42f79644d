/* node.h - machines and leaves of a generated platform. Private to the generator.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_NODE_H
#define MQ_HARDWARE_PLATFORM_NODE_H

#include "hardware/platform/spec.h"

const struct mq_gen_group *mq_gen_group_of(const struct mq_gen *gen, uint32_t node);
double mq_gen_node_GBps(const struct mq_gen_group *group); /* all ports of a machine, one direction */
/* A duplex link, named as by printf. */
void mq_gen_link(struct mq_gen *gen, double GBps, double us, const char *class, const char *name, ...)
	__attribute__((format(printf, 5, 6)));
void mq_gen_node_links(struct mq_gen *gen, uint32_t node);
void mq_gen_node_hosts(struct mq_gen *gen, uint32_t node);
/* The routes between two devices of a machine; from a device to the network, port last; from the network to it. In
 * machines outside their leaf's zone, the widest link ("ports") belongs to the fabric. */
void mq_gen_path(struct mq_gen *gen, uint32_t node, uint32_t a, uint32_t b);
void mq_gen_path_out(struct mq_gen *gen, uint32_t node, uint32_t i);
void mq_gen_path_in(struct mq_gen *gen, uint32_t node, uint32_t i);
void mq_gen_leaf(struct mq_gen *gen, uint32_t leaf);        /* as a zone "leafN", gateway "leafNgw" */
void mq_gen_leaf_inside(struct mq_gen *gen, uint32_t leaf); /* its contents alone */

#endif
