/* flow.h - what SimGrid's C interface lacks: rate-capped flows, a cheap block and wake.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_EXECUTORS_SIMGRID_FLOW_H
#define MQ_EXECUTORS_SIMGRID_FLOW_H

#include <stdint.h>

#include <simgrid/forward.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Start a flow of `bytes` (not rounded) from this actor's host to that of whoever receives from the
 * mailbox; returns at once. rate_Bps: cap, +inf = none. */
void mq_flow_start(sg_mailbox_t mailbox, double bytes, double rate_Bps);
/* Take the flows that n >= 1 mailboxes hold, or will hold, and block until all their bytes have come. */
void mq_flow_receive(const sg_mailbox_t *mailbox, uint32_t n);
/* Throw away flows that nobody received. */
void mq_flow_clear(sg_mailbox_t mailbox);

#ifdef __cplusplus
}
#endif

#endif
