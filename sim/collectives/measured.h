/* measured.h - measured cost of whole communication calls: see measured.c. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_COLLECTIVES_MEASURED_H
#define MQ_COLLECTIVES_MEASURED_H

#include "maquette/calib.h"

/* Latency and time per bytes of a call (enum mq_coll_kind or MQ_CALL_P2P) among n ranks. False where
 * the class has no measured pieces for it (`link` may be NULL). */
MQ_API bool mq_call_measured(const struct mq_link_calib *link, uint32_t call, uint32_t n, double bytes,
			     double *latency_s, double *busy_s);

#endif
