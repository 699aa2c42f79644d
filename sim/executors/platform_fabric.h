/*
 * platform_fabric.h - the two halves of the generator: machines and leaves (platform_generate.c), what
 * joins leaves (platform_fabric.c). Private to them.
 */
#ifndef MQ_EXECUTORS_PLATFORM_FABRIC_H
#define MQ_EXECUTORS_PLATFORM_FABRIC_H

#include "executors/platform_spec.h"

/* platform_generate.c */
const struct mq_gen_group *mq_gen_group_of(const struct mq_gen *gen, uint32_t node);
double mq_gen_node_GBps(const struct mq_gen_group *group); /* all ports of a machine, one direction */
void mq_gen_link(struct mq_gen *gen, const char *name, double GBps, double us, const char *class);
void mq_gen_leaf(struct mq_gen *gen, uint32_t leaf);        /* as a zone "leafN", gateway "leafNgw" */
void mq_gen_leaf_inside(struct mq_gen *gen, uint32_t leaf); /* its contents alone */

/* platform_fabric.c */
enum mq_status mq_gen_fabric_check(struct mq_gen *gen, struct mq_err *err) MQ_MUST_CHECK;
void mq_gen_hub(struct mq_gen *gen, const char *name); /* zone "NAMEswitch" of router "NAMEgw" */
const char *mq_gen_root_routing(const struct mq_gen *gen);
void mq_gen_fabric(struct mq_gen *gen); /* links, leaves and routes of the outermost zone */

#endif
