/*
 * simgrid_flow.h - what SimGrid's C interface lacks: rate-capped flows, a cheap block and wake.
 */
#ifndef MQ_EXECUTORS_SIMGRID_FLOW_H
#define MQ_EXECUTORS_SIMGRID_FLOW_H

#include <simgrid/forward.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Start a flow of `bytes` (not rounded) from this actor's host to that of whoever receives from the
 * mailbox; returns at once. rate_Bps: cap, +inf = none. */
void mq_flow_start(sg_mailbox_t mailbox, double bytes, double rate_Bps);
/* Take the flow that the mailbox holds, or will hold, and block until all its bytes have come. */
void mq_flow_receive(sg_mailbox_t mailbox);
/* Throw away flows that nobody received. */
void mq_flow_clear(sg_mailbox_t mailbox);

#ifdef __cplusplus
}
#endif

#endif
