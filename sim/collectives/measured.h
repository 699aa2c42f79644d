/* measured.h - cost of calls measured on the machine: see measured.c. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_COLLECTIVES_MEASURED_H
#define MQ_COLLECTIVES_MEASURED_H

#include "maquette/calib.h"

/* Latency and further time of a call (enum mq_coll_kind or MQ_CALL_P2P) among n ranks. False: the link class (may be
 * NULL) has no such measurement. */
MQ_API bool mq_call_measured(const struct mq_link_calib *link, uint32_t call, uint32_t n, double bytes,
			     double *latency_s, double *busy_s);

#endif
