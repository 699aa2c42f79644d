/*
 * fabric.h - what joins the leaves of a generated platform. Private to the generator.
 */
#ifndef MQ_PLATFORM_FABRIC_H
#define MQ_PLATFORM_FABRIC_H

#include "platform/spec.h"

enum mq_status mq_gen_fabric_check(struct mq_gen *gen, struct mq_err *err) MQ_MUST_CHECK;
void mq_gen_hub(struct mq_gen *gen, const char *name); /* zone "NAMEswitch" of router "NAMEgw" */
const char *mq_gen_root_routing(const struct mq_gen *gen);
void mq_gen_fabric(struct mq_gen *gen); /* links, leaves and routes of the outermost zone */

#endif
