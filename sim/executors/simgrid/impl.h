/* impl.h - shared by the files of the simgrid executor alone.
 *
 *   simgrid.c set-up, rounds, verdict
 *   lanes.c  the actors
 *   share.c  which events are simulated, by the times of a run
 *   window.c the same, by order alone
 *   slow.c   which of those that compute slows are flows
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
#include "maquette/map.h"

/* A communication's flows by position: out[out_first[p] .. out_first[p + 1] - 1] leave position p, in[] enter it. */
struct roles {
	uint32_t *out_first, *out, *in_first, *in;
};

/* One actor: a stream of a device, or a member of groups whose tasks run together on that stream. */
struct lane {
	struct sim *sim;
	sg_actor_t actor; /* valid while alive */
	uint32_t id;
	uint32_t device;    /* schedule index */
	uint32_t waits_for; /* event that the actor waits for, or MQ_NONE */
	sg_sem_t woken;     /* semaphore of that wait, or NULL */
	sg_sem_t changed;   /* semaphore that tells a running activity of a new speed, or NULL */
	bool running, signalled, alive;
};

/* The activities on a device, now, that slow each other. */
struct device_state {
	const struct mq_device_calib *calib;
	uint32_t n_comm;   /* communications that interfere */
	uint32_t channels; /* sum over these */
	double memory_Bps; /* sum over these */
	bool computes;
	struct lane *compute_lane;            /* lane of a running compute task that may be slowed */
	struct lane *comm_lane[MQ_N_STREAMS]; /* leaders of the running communications */
	double began_s, ended_s;              /* start and end of the newest compute task */
};

struct sim {
	const struct mq_exec_request *request;
	const struct mq_schedule *s;
	struct mq_arena *arena;
	struct mq_costing costing;
	struct mq_events ev;
	struct mq_sharing sharing;
	struct mq_walk walk;
	double t0_s;  /* SimGrid's clock when this schedule started */
	double now_s; /* time since then, from the times lanes wait for: SimGrid's clock rounds more */

	uint32_t n_lanes, lane_room;
	struct lane **lane;
	uint32_t *task_first, *task; /* CSR: tasks that each lane runs, in order */
	uint32_t *position;          /* [tasks] place among the members of its communication */
	struct roles **roles;        /* [communications]; NULL: not simulated as flows */
	uint32_t *leader;            /* [events] lane that starts it; MQ_NONE: event of fixed length */
	uint32_t *place;             /* [events] index of its position 0 in lane_at[] */
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
	struct mq_folded_flows *folded; /* flows of a folded schedule; NULL: none are simulated */
};

/* An actor woke at the time for which it had waited. */
static inline void mq_sim_reached(struct sim *sim, double time_s)
{
	if (sim->now_s < time_s)
		sim->now_s = time_s;
}

/* Finishes all events of fixed length that may start, and wakes the leaders of the others. */
void mq_sim_drain(struct sim *sim);
/* Folded: builds the network of the communications that are marked as flows. */
enum mq_status mq_sim_folded_init(struct sim *sim, struct mq_err *err);
/* Folded: runs the flows of a communication after its latency until the last has ended. Sets costing.uneven if its
 * replicas do not end together; the rest of the run then takes no time. */
void mq_sim_folded_run(struct lane *lane, uint32_t communication, double slowness);
/* Has the run computed more rates than simulation_s allows? It is refused then. Counted, not clocked, so that all
 * machines agree. */
bool mq_sim_folded_dear(const struct sim *sim);
/* Sets *apart_s (struct mq_timeline) after an uneven run; leaves it if no communication's replicas differed. */
enum mq_status mq_sim_folded_apart(struct sim *sim, double **apart_s, struct mq_err *err);
/* The actor's code; its data is its lane. */
void mq_sim_lane(int argc, char **argv);

#endif
