/* predict.h - the time of one task alone on an idle machine; simulations, fits and validation share this predictor.
 *
 * It caches nothing, so the calibration may change between calls, as fits change it; folding/view_costing.h asks each
 * distinct question of a view once. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_COSTING_PREDICT_H
#define MQ_COSTING_PREDICT_H

#include "maquette/calib.h"
#include "maquette/cluster.h"
#include "maquette/collective.h"
#include "maquette/schedule.h"

struct mq_predictor {
	const struct mq_cluster *cluster; /* bound to calib */
	const struct mq_calib *calib;
	struct mq_arena *arena; /* holds what is returned */
};

/* A collective, or a send and its recv: its flows and its time alone. */
struct mq_communication {
	const struct mq_task *task; /* one of its tasks */
	uint32_t n;                 /* members */
	const uint32_t *rank;       /* [n] cluster ranks */
	double latency_s, alone_s;  /* alone_s: latency and flows without other traffic (folded: with the
				       replicas of the communication itself) */
	double bound_s;             /* latency and the bound of the flows; NaN until asked */
	uint32_t channels;          /* of a collective, see mq_coll_flows */
	double memory_Bps;          /* of a collective alone: memory traffic of a member */
	uint32_t n_flows;
	const struct mq_flow *flow; /* folded: NULL, see folding/replica_flows.h; so is rank */
};

/* What a communication is; without padding. Those of one schedule with equal bytes here have equal flows and times. */
struct mq_communication_key {
	double bytes;
	uint32_t ends[2]; /* a message: sender and receiver; a collective: the communicator and MQ_NONE */
	uint8_t coll, dtype, algo, proto;
	uint32_t root;
};
struct mq_communication_key mq_communication_key(const struct mq_task *task);

/* members: all of a collective's; not read for a message. bound_s is set to NaN. */
enum mq_status mq_predict_communication(const struct mq_predictor *p, const struct mq_schedule *schedule,
					const struct mq_task *task, const struct mq_members *members,
					struct mq_communication *communication, struct mq_err *err);

/* Memory traffic, B/s, of the member that receives most in a collective of n members that takes `seconds`. */
double mq_predict_memory_Bps(const struct mq_task *task, const struct mq_flow *flow, uint32_t n_flows, uint32_t n,
			     double seconds);

/* Cluster ranks of a communicator of a schedule that is not partial, in the arena. */
struct mq_members mq_predict_members(const struct mq_schedule *schedule, uint32_t comm, struct mq_arena *arena);

/* The calibration of a device of the schedule, scaled to its clock. */
struct mq_device_calib mq_predict_device(const struct mq_cluster *cluster, const struct mq_calib *calib,
					 const struct mq_schedule *schedule, uint32_t device);

/* Seconds of any task; the arena is unchanged after it. */
enum mq_status mq_predict_task(const struct mq_predictor *p, const struct mq_schedule *schedule, uint32_t task,
			       double *seconds, struct mq_err *err);

#endif
