/* predict.h - what one task takes, alone on an idle machine: the one predictor that simulations, fits and validation
 * share.
 *
 * It remembers nothing, so the calibration may change from question to question, as fits change it;
 * folding/view_costing.h asks each distinct question of a view once. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_COSTING_PREDICT_H
#define MQ_COSTING_PREDICT_H

#include "maquette/calib.h"
#include "maquette/cluster.h"
#include "maquette/collective.h"
#include "maquette/schedule.h"

struct mq_predictor {
	const struct mq_cluster *cluster; /* bound to calib */
	const struct mq_calib *calib;
	struct mq_arena *arena; /* of what is returned */
};

/* A communication, that is a collective or a send and its recv: what its flows are and how long it takes alone. */
struct mq_communication {
	const struct mq_task *task; /* one that asked for it */
	uint32_t n;                 /* members */
	const uint32_t *rank;       /* [n] cluster ranks */
	double latency_s, alone_s;  /* alone_s: latency and flows with nobody else about (folded: but
				       for the replicas of the communication itself) */
	double bound_s;             /* latency and the bound of the flows; NaN until asked */
	uint32_t channels;          /* of a collective, see mq_coll_flows */
	double memory_Bps;          /* of a collective, through a member's memory while it runs alone */
	uint32_t n_flows;
	const struct mq_flow *flow; /* folded: NULL, see folding/replica_flows.h; so is rank */
};

/* `members`: of a collective, everyone; else not read. bound_s is NaN. */
enum mq_status mq_predict_communication(const struct mq_predictor *p, const struct mq_schedule *schedule,
					const struct mq_task *task, const struct mq_members *members,
					struct mq_communication *communication, struct mq_err *err);

/* What such a collective moves through the memory of the member that receives most, B/s: flows among n members, in
 * so many seconds. */
double mq_predict_memory_Bps(const struct mq_task *task, const struct mq_flow *flow, uint32_t n_flows, uint32_t n,
			     double seconds);

/* Cluster ranks of a communicator of a schedule that is not partial, in the arena. */
struct mq_members mq_predict_members(const struct mq_schedule *schedule, uint32_t comm, struct mq_arena *arena);

/* The calibration of a schedule's device, at its clock. */
struct mq_device_calib mq_predict_device(const struct mq_cluster *cluster, const struct mq_calib *calib,
					 const struct mq_schedule *schedule, uint32_t device);

/* Seconds of any task; the arena is left as it was. */
enum mq_status mq_predict_task(const struct mq_predictor *p, const struct mq_schedule *schedule, uint32_t task,
			       double *seconds, struct mq_err *err);

#endif
