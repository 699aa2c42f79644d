/* flow.h - flows with a rate cap, which SimGrid's C interface lacks. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_EXECUTORS_SIMGRID_FLOW_H
#define MQ_EXECUTORS_SIMGRID_FLOW_H

#include <stdint.h>

#include <simgrid/forward.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts a flow of `bytes` (not rounded) from this actor's host to the host of the mailbox's receiver; returns at once.
 * rate_Bps: cap, +inf = none. */
void mq_flow_start(sg_mailbox_t mailbox, double bytes, double rate_Bps);
/* Receives one flow, present or to come, from each of n >= 1 mailboxes; blocks until all have ended. */
void mq_flow_receive(const sg_mailbox_t *mailbox, uint32_t n);
/* Drops flows that were not received. */
void mq_flow_clear(sg_mailbox_t mailbox);

#ifdef __cplusplus
}
#endif

#endif
