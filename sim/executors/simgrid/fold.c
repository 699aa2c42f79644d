/* fold.c - flows of a folded schedule: one flow for each class of equal flows of all ranks
 * (folding/equivalence_classes.h).
 *
 * SimGrid has no flow that counts several times on a link, so schedule/fluid.h computes the rates, as SimGrid's model
 * CM02 would; SimGrid keeps the clock. When a flow begins or ends, new rates are computed for the flows that share
 * links with it, directly or through other flows; no other rate changes. Lanes then wait anew, as for compute that is
 * slowed (lanes.c).
 *
 * A communication whose replicas do not end together makes the run inexact: the representative differs from ranks it
 * stands for, and another view must be run. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "executors/simgrid/impl.h"
#include "folding/equivalence_classes.h"

#define RESOLUTION_S 1e-12 /* of SimGrid's clock, as mq_platform_start sets it */

enum { COPIES = 2 }; /* of a communication that may overlap itself: on two streams, or in a group */

struct mq_folded_flows {
	struct mq_equivalence q;
	uint32_t *slot_of;       /* [communications] its index in q; MQ_NONE: not simulated as flows */
	uint32_t *copies;        /* [communications] successive indices that it has in q */
	bool *busy;              /* [q.n_communications] running */
	double *cap_Bps;         /* [flows] caps without slowness */
	double *left_B, *done_s; /* [flows] bytes left at time at_s; end time */
	double *at_s;
	bool *runs;
	struct lane **lane; /* [flows] the lane that runs it */
	uint32_t n_wake;
	struct lane **wake; /* [flows] signalled lanes whose semaphores have yet to be released */
	/* Running flows of each link: a linked list of indices into net.link (CSR), stored + 1; 0 = end. */
	uint32_t *head;          /* [links] */
	uint32_t *next, *before; /* [places] */
	uint32_t *flow_at;       /* [places] its flow */
	/* Flows that a change affects, and the links through which it does. */
	uint32_t n_affected, *affected, n_reached, *reached;
	bool *is_affected, *is_reached;
	double *before_Bps; /* [affected] rates before the change */
	double rated;       /* rates computed so far */
	/* The first communication whose replicas did not end together; done_s is frozen then. */
	const struct mq_task *apart;
	uint32_t apart_slot;
	double apart_start_s;
};

/* Clock seconds to compute one flow's rate, on one core of 2026; within a factor of three. */
static const double RATE_S = 1e-7;

bool mq_sim_folded_dear(const struct sim *sim)
{
	double limit_s = sim->request->simulation_s;

	return limit_s > 0 && sim->folded && sim->folded->rated * RATE_S > limit_s;
}

/* Is the run inexact or too long? Then it has no result. */
static bool is_given_up(const struct sim *sim)
{
	return sim->costing.uneven || mq_sim_folded_dear(sim);
}

static enum mq_status add_communications(struct sim *sim, struct mq_folded_flows *f, struct mq_err *err)
{
	const struct mq_sharing *sharing = &sim->sharing;
	const struct mq_task **task =
		mq_arena_array(sim->arena, COPIES * sim->costing.n_communications, const struct mq_task *);
	uint32_t n = 0;

	for (uint32_t e = 0; e < sim->ev.n; e++) {
		uint32_t m = sharing->communication[e];
		if (!sharing->flows[e] || f->slot_of[m] != MQ_NONE)
			continue;
		f->slot_of[m] = n;
		f->copies[m] = sharing->mixed[sharing->user_of[m]] ? COPIES : 1;
		for (uint32_t k = 0; k < f->copies[m]; k++)
			task[n++] = sim->costing.communication[m].task;
	}
	return mq_equivalence_build(sim->request->view.fold->replica_flows, task, n, sim->arena, &f->q, err);
}

enum mq_status mq_sim_folded_init(struct sim *sim, struct mq_err *err)
{
	struct mq_folded_flows *f = mq_arena_array(sim->arena, 1, struct mq_folded_flows);
	uint32_t n_communications = sim->costing.n_communications;

	sim->folded = f;
	f->slot_of = mq_arena_none(sim->arena, n_communications);
	f->copies = mq_arena_array(sim->arena, n_communications, uint32_t);
	MQ_TRY(add_communications(sim, f, err));
	uint32_t n = f->q.net.n_flows;
	f->busy = mq_arena_array(sim->arena, f->q.n_communications, bool);
	f->cap_Bps = mq_arena_array(sim->arena, n, double);
	memcpy(f->cap_Bps, f->q.net.cap_Bps, n * sizeof(*f->cap_Bps));
	f->left_B = mq_arena_array(sim->arena, n, double);
	f->at_s = mq_arena_array(sim->arena, n, double);
	f->done_s = mq_arena_array(sim->arena, n, double);
	f->runs = mq_arena_array(sim->arena, n, bool);
	f->lane = mq_arena_array(sim->arena, n, struct lane *);
	f->wake = mq_arena_array(sim->arena, n, struct lane *);
	f->affected = mq_arena_array(sim->arena, n, uint32_t);
	f->is_affected = mq_arena_array(sim->arena, n, bool);
	f->before_Bps = mq_arena_array(sim->arena, n, double);
	f->head = mq_arena_array(sim->arena, f->q.net.n_links, uint32_t);
	f->reached = mq_arena_array(sim->arena, f->q.net.n_links, uint32_t);
	f->is_reached = mq_arena_array(sim->arena, f->q.net.n_links, bool);
	f->next = mq_arena_array(sim->arena, f->q.net.first[n], uint32_t);
	f->before = mq_arena_array(sim->arena, f->q.net.first[n], uint32_t);
	f->flow_at = mq_arena_array(sim->arena, f->q.net.first[n], uint32_t);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = f->q.net.first[i]; k < f->q.net.first[i + 1]; k++)
			f->flow_at[k] = i;
	return MQ_OK;
}

/* Subtracts the bytes that a flow moved since at_s. */
static void advance(const struct sim *sim, uint32_t i)
{
	struct mq_folded_flows *f = sim->folded;

	f->left_B[i] -= f->q.net.rate_Bps[i] * (sim->now_s - f->at_s[i]);
	f->at_s[i] = sim->now_s;
}

/* Marks the links of a flow that begins or ends, or whose rate may change. */
static void mark_links(struct mq_folded_flows *f, uint32_t i)
{
	for (uint32_t k = f->q.net.first[i]; k < f->q.net.first[i + 1]; k++) {
		uint32_t l = f->q.net.link[k];

		if (!f->is_reached[l])
			f->reached[f->n_reached++] = l;
		f->is_reached[l] = true;
	}
}

static void add_affected(const struct sim *sim, uint32_t i)
{
	struct mq_folded_flows *f = sim->folded;

	if (f->is_affected[i])
		return;
	f->is_affected[i] = true;
	f->affected[f->n_affected++] = i;
	advance(sim, i);
	mark_links(f, i);
}

static void start_flow(const struct sim *sim, uint32_t i)
{
	struct mq_folded_flows *f = sim->folded;

	f->runs[i] = true;
	f->left_B[i] = f->q.bytes[i];
	f->at_s[i] = sim->now_s;
	f->q.net.rate_Bps[i] = 0;
	for (uint32_t k = f->q.net.first[i]; k < f->q.net.first[i + 1]; k++) {
		uint32_t *head = &f->head[f->q.net.link[k]];

		f->next[k] = *head;
		f->before[k] = 0;
		if (*head)
			f->before[*head - 1] = k + 1;
		*head = k + 1;
	}
	add_affected(sim, i);
}

static void end_flow(const struct sim *sim, uint32_t i)
{
	struct mq_folded_flows *f = sim->folded;

	f->runs[i] = false;
	if (!f->apart)
		f->done_s[i] = sim->now_s;
	for (uint32_t k = f->q.net.first[i]; k < f->q.net.first[i + 1]; k++) {
		if (f->before[k])
			f->next[f->before[k] - 1] = f->next[k];
		else
			f->head[f->q.net.link[k]] = f->next[k];
		if (f->next[k])
			f->before[f->next[k] - 1] = f->before[k];
	}
	mark_links(f, i);
}

/* Flows of lane `by` began or ended: computes the rates of affected flows and signals other lanes whose ends moved.
 * Released lanes may run and call this at once, so all lanes to signal are known before the first release. */
static void set_rates(const struct lane *by)
{
	struct mq_folded_flows *f = by->sim->folded;

	for (uint32_t r = 0; r < f->n_reached; r++)
		for (uint32_t k = f->head[f->reached[r]]; k; k = f->next[k - 1])
			add_affected(by->sim, f->flow_at[k - 1]);
	for (uint32_t r = 0; r < f->n_affected; r++)
		f->before_Bps[r] = f->q.net.rate_Bps[f->affected[r]];
	f->rated += f->n_affected;
	if (!is_given_up(by->sim))
		mq_fluid_rates(&f->q.net, f->affected, f->n_affected);
	for (uint32_t r = 0; r < f->n_affected; r++) {
		uint32_t i = f->affected[r];
		struct lane *lane = f->lane[i];

		f->is_affected[i] = false;
		if (f->q.net.rate_Bps[i] == f->before_Bps[r] || lane == by || !lane->running || lane->signalled)
			continue;
		lane->signalled = true;
		f->wake[f->n_wake++] = lane;
	}
	for (uint32_t r = 0; r < f->n_reached; r++)
		f->is_reached[f->reached[r]] = false;
	f->n_affected = f->n_reached = 0;
	while (f->n_wake)
		sg_sem_release(f->wake[--f->n_wake]->changed);
}

static void begin(struct lane *lane, uint32_t slot, double slowness)
{
	struct mq_folded_flows *f = lane->sim->folded;

	f->busy[slot] = true;
	for (uint32_t i = f->q.flow_first[slot]; i < f->q.flow_first[slot + 1]; i++) {
		f->q.net.cap_Bps[i] = slowness < 1 ? fmin(f->cap_Bps[i], f->q.way_Bps[i]) * slowness : f->cap_Bps[i];
		f->lane[i] = lane;
		start_flow(lane->sim, i);
	}
	set_rates(lane);
}

/* Ends the flows of a lane that have ended by now; `least_s`: time left of the first to end. True: a flow ended. */
static bool end_flows(const struct sim *sim, uint32_t slot, double least_s)
{
	struct mq_folded_flows *f = sim->folded;
	bool any = false;

	for (uint32_t i = f->q.flow_first[slot]; i < f->q.flow_first[slot + 1]; i++)
		if (f->runs[i] && f->left_B[i] / f->q.net.rate_Bps[i] <= least_s + RESOLUTION_S) {
			end_flow(sim, i);
			any = true;
		}
	return any;
}

/* Seconds until the first of a lane's flows ends; +inf: all have ended. */
static double next_end(const struct sim *sim, uint32_t slot)
{
	struct mq_folded_flows *f = sim->folded;
	double least_s = INFINITY;

	for (uint32_t i = f->q.flow_first[slot]; i < f->q.flow_first[slot + 1]; i++) {
		if (!f->runs[i])
			continue;
		advance(sim, i);
		least_s = fmin(least_s, f->left_B[i] / f->q.net.rate_Bps[i]);
	}
	return fmax(least_s, 0);
}

/* After a communication: marks the run inexact if its replicas did not end together. */
static void check_replicas(struct sim *sim, uint32_t communication, uint32_t slot, double start_s)
{
	struct mq_folded_flows *f = sim->folded;

	if (is_given_up(sim) || mq_equivalence_together(&f->q, slot, start_s, f->done_s))
		return;
	sim->costing.uneven = true;
	f->apart = sim->costing.communication[communication].task;
	f->apart_slot = slot;
	f->apart_start_s = start_s;
}

enum mq_status mq_sim_folded_apart(struct sim *sim, double **apart_s, struct mq_err *err)
{
	const struct mq_fold *fold = sim->request->view.fold;
	const struct mq_folded_flows *f = sim->folded;

	if (!f || !f->apart)
		return MQ_OK;
	*apart_s = mq_arena_array(sim->arena, fold->n_positions, double);
	return mq_equivalence_positions(&f->q, f->apart_slot, f->apart, f->apart_start_s, f->done_s,
					fold->replica_flows, *apart_s, err);
}

void mq_sim_folded_run(struct lane *lane, uint32_t communication, double slowness)
{
	struct sim *sim = lane->sim;
	struct mq_folded_flows *f = sim->folded;
	uint32_t slot = f->slot_of[communication], last = slot + f->copies[communication] - 1;
	double start_s = sim->now_s, least_s;

	while (f->busy[slot] && slot < last)
		slot++;
	if (f->busy[slot]) {
		sim->costing.uneven = true; /* more overlap than COPIES: inexact */
		return;
	}
	if (!lane->changed)
		lane->changed = sg_sem_init(0);
	lane->running = true;
	begin(lane, slot, slowness);
	while (!is_given_up(sim) && (least_s = next_end(sim, slot), isfinite(least_s))) {
		bool over = least_s <= RESOLUTION_S;
		double end_s = sim->now_s + least_s;

		sim->steps->taken += !over;
		if (!over)
			over = sg_sem_acquire_timeout(lane->changed, least_s);
		if (over)
			mq_sim_reached(sim, end_s);
		lane->signalled = lane->signalled && over;
		if (over && end_flows(sim, slot, next_end(sim, slot)))
			set_rates(lane);
	}
	if (is_given_up(sim)) /* the rest takes no time */
		(void)end_flows(sim, slot, INFINITY);
	lane->running = false;
	f->busy[slot] = false;
	if (lane->signalled) { /* a signal that came with the end */
		sg_sem_acquire(lane->changed);
		lane->signalled = false;
	}
	check_replicas(sim, communication, slot, start_s);
}
