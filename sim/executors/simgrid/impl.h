/* impl.h - what the files of the simgrid executor share; nobody else includes it.
 *
 *   simgrid.c        set-up, conductor, verdict
 *   lanes.c  the actors
 *   share.c  which events need the simulator, by what happened
 *   window.c the same, by what may happen
 *   fold.c   flows of a folded schedule
 *   flow.cpp what SimGrid's C interface lacks SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_EXECUTORS_SIMGRID_IMPL_H
#define MQ_EXECUTORS_SIMGRID_IMPL_H

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include <simgrid/semaphore.h>

#include "executors/simgrid/steps.h"
#include "folding/view_costing.h"
#include "executors/execute.h"
#include "executors/simgrid/share.h"
#include "executors/walk.h"

/* A communication's flows by position: out[out_first[p] .. out_first[p+1]-1] leave position p. */
struct roles {
	uint32_t *out_first, *out, *in_first, *in;
};

/* One actor: a stream of a device, or one of several tasks that run together on it (a group). */
struct lane {
	struct sim *sim;
	sg_actor_t actor; /* valid while alive */
	uint32_t id;
	uint32_t device;    /* schedule index */
	uint32_t first, n;  /* into item[] */
	uint32_t waits_for; /* event whose flag this actor is blocked on, or MQ_NONE */
	sg_sem_t woken;     /* what it is blocked with, or NULL */
	sg_sem_t changed;   /* speed changed: wakes an activity whose speed may change; or NULL */
	bool running, signalled, alive;
};

/* What a lane does, in stream order. */
struct item {
	uint32_t event, position;
};

/* What runs on a device right now, of the things that change each other's speed. */
struct device_state {
	const struct mq_device_calib *calib;
	uint32_t n_comm;   /* communications that interfere */
	uint32_t channels; /* of all of them together */
	double memory_Bps; /* likewise */
	bool computes;
	struct lane *compute_lane;            /* of the compute that runs, where it may be slowed */
	struct lane *comm_lane[MQ_N_STREAMS]; /* leaders of the communications that run */
	double began_s, ended_s;              /* the last compute task to do so */
};

struct sim {
	const struct mq_exec_request *request;
	const struct mq_schedule *s;
	struct mq_arena *arena;
	struct mq_costing costing;
	struct mq_events ev;
	struct mq_sharing sharing;
	struct mq_walk walk;
	double t0_s;  /* the simulator's clock when this schedule started */
	double now_s; /* since then: what was waited for, not what the clock made of it. The
				   clock only grows from schedule to schedule, and with it its rounding */

	uint32_t n_lanes, lane_room, n_items;
	struct lane **lane;
	struct item *item;
	struct roles **roles;        /* [communications], NULL where no flows are simulated */
	uint32_t *leader;            /* [events] lane that starts it, MQ_NONE for events of fixed length */
	uint32_t *place;             /* [events] where its positions' lanes begin in lane_at[] */
	uint32_t *lane_at;           /* lane of each position */
	uint32_t *flows_left;        /* [events] */
	bool *known, *go;            /* [events] start time is known; flows may start */
	double *slowness;            /* [events] factor on the rates of its flows */
	struct device_state *device; /* [n_devices] */
	struct mq_map mailbox_of;    /* (sending lane, receiving lane) */
	sg_mailbox_t *mailbox;
	uint32_t n_mailboxes, mailbox_room;
	uint32_t n_alive;
	sg_sem_t done;
	struct mq_sim_steps *steps;
	struct mq_folded_flows *folded; /* flows of a folded schedule, NULL where none are simulated */
};

/* An actor woke at a time that it had chosen. */
static inline void mq_sim_reached(struct sim *sim, double time_s)
{
	if (sim->now_s < time_s)
		sim->now_s = time_s;
}

/* Finish all events of fixed length that can be, and wake who leads the others. */
void mq_sim_drain(struct sim *sim);
/* Folded: the network of the communications that are marked as flows. */
enum mq_status mq_sim_folded_init(struct sim *sim, struct mq_err *err);
/* Folded: the flows of a communication, whose latency is over, until the last has ended. Sets costing.uneven
 * where the replicas of the communication do not end together; what is left of the run takes no time then. */
void mq_sim_folded_run(struct lane *lane, uint32_t communication, double slowness);
/* Have rates been found so often that the run has taken longer than it may? It is refused then. Counted, not clocked:
 * the same on every machine. */
bool mq_sim_folded_dear(const struct sim *sim);
/* The timeline's apart_s of a run that was uneven, NULL where no communication's replicas were. */
enum mq_status mq_sim_folded_apart(struct sim *sim, double **apart_s, struct mq_err *err);
/* The actor's code; its data is its lane. */
void mq_sim_lane(int argc, char **argv);

#endif
