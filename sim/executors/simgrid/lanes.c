/* lanes.c - the actors of the simgrid executor, one per stream that needs the simulator's time.
 *
 * Time flows through the event graph (walk.h). An event of fixed length is finished as soon as its start is known,
 * whatever SimGrid's clock says. Any other event has a leader, an actor that sleeps until the start, waits for the
 * latency and lets every member start its flows; the last flow to arrive finishes the event. An actor finishes an event
 * at the event's own time, so all later starts lie in the future of the clock.
 *
 * Interference: a compute task and a communication that may slow each other are amounts of work whose speed is set anew
 * whenever one of them begins or ends on the device. While a gradient collective runs, compute has the multiprocessors
 * that the collective's channels leave (each channel is a thread block, which holds one while it moves data or waits)
 * and the memory bandwidth that its bytes leave (cost.h, view_costing.h); on a device whose cores carry the
 * communication, compute stops. So a slow network costs compute a few multiprocessors for longer, but no memory
 * bandwidth. A collective that contends for links takes longer than alone, but its memory bandwidth is taken as when
 * alone. A collective of fixed length runs at 1 - overlap_comm (of its slowest member) while compute runs; one
 * simulated as flows has its rates scaled by that factor once, at its start. Its links decide which of the two it is
 * (slow.c). SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "executors/simgrid/flow.h"
#include "executors/simgrid/impl.h"

#define RESOLUTION_S 1e-12 /* of SimGrid's clock, as mq_platform_start sets it */
#define SAME_TIME_S  1e-10 /* times that differ by less are equal up to rounding */

enum { SLOWEST_SHARE = 100 }; /* a communication keeps at least 1/100 of its speed */

static void sleep_until(struct sim *sim, double time_s)
{
	if (time_s - sim->now_s > RESOLUTION_S) {
		sim->steps->taken++;
		sg_actor_sleep_until(sim->t0_s + time_s);
	}
	mq_sim_reached(sim, time_s);
}

static void wait_for(struct lane *lane, const bool *flag, uint32_t event)
{
	/* A semaphore, since SimGrid would stop the flows of a suspended actor. */
	if (!flag[event] && !lane->woken)
		lane->woken = sg_sem_init(0);
	while (!flag[event]) {
		lane->waits_for = event;
		lane->sim->steps->taken++;
		sg_sem_acquire(lane->woken);
	}
}

static void wake(struct lane *lane, uint32_t event)
{
	if (lane->waits_for != event)
		return;
	lane->waits_for = MQ_NONE;
	sg_sem_release(lane->woken);
}

/* ---- speeds ------------------------------------------------------------------------------------ */

static double compute_speed(const struct device_state *d, const struct mq_cost_parts *parts)
{
	const struct mq_device_calib *c = d->calib;

	if (!d->n_comm)
		return 1;
	if (c->serial_comm)
		return 0;
	if (c->overlap_compute >= 0)
		return fmax(1 - c->overlap_compute, 0);
	const struct mq_cost_taken taken = {
		.products = d->channels * c->overlap_gemms / c->sm_count,
		.multiprocessors = d->channels / c->sm_count,
		.memory = d->memory_Bps / (c->mem_bw_Bps * c->elementwise_bw_share),
	};

	return mq_cost_beside(parts, (struct mq_cost_taken){ 0 }) / mq_cost_beside(parts, taken);
}

static const struct mq_task *task_of(const struct sim *sim, uint32_t event)
{
	return &sim->s->task[sim->ev.first[event]];
}

/* Speed of a communication: that of its slowest member. Of flows that start now, for their whole time: compute that ran
 * until now slows them, compute that begins at this same time does not, so the order in which SimGrid wakes actors does
 * not matter. */
static double comm_speed(const struct sim *sim, uint32_t event, bool flows)
{
	double speed = 1, before_s = sim->now_s - SAME_TIME_S;

	for (uint32_t t = sim->ev.first[event]; t != MQ_NONE; t = sim->ev.next[t]) {
		const struct device_state *d = &sim->device[sim->s->task[t].device];
		bool ran = d->ended_s > before_s || (d->computes && d->began_s < before_s);
		if ((flows ? ran : d->computes) && !d->calib->serial_comm &&
		    mq_task_interferes(d->calib, &sim->s->task[t]))
			speed = fmin(speed, 1 - d->calib->overlap_comm);
	}
	return fmax(speed, 1.0 / SLOWEST_SHARE);
}

static void signal_change(struct lane *lane)
{
	if (!lane->running || lane->signalled)
		return;
	lane->signalled = true;
	sg_sem_release(lane->changed);
}

/* Runs `work_s` seconds of work at a changing speed; `parts`: of a compute task, NULL for a communication. */
static void run_work(struct lane *lane, double work_s, uint32_t event, const struct mq_cost_parts *parts)
{
	struct sim *sim = lane->sim;
	double left_s = work_s;

	if (!lane->changed)
		lane->changed = sg_sem_init(0);
	lane->running = true;
	while (left_s > 0) {
		double speed = parts ? compute_speed(&sim->device[lane->device], parts) : comm_speed(sim, event, false);
		double since_s = sim->now_s;
		bool over = false;

		sim->steps->taken++;
		if (speed > 0)
			over = sg_sem_acquire_timeout(lane->changed, left_s / speed);
		else
			sg_sem_acquire(lane->changed);
		lane->signalled = lane->signalled && over;
		if (over)
			mq_sim_reached(sim, since_s + left_s / speed);
		left_s = over ? 0 : left_s - (sim->now_s - since_s) * speed;
		if (left_s < 1e-12 * work_s || left_s < RESOLUTION_S)
			left_s = 0; /* only rounding is left */
	}
	lane->running = false;
}

/* The communication that a lane leads begins or ends: updates its members' devices and tells their compute lanes. */
static void comm_changes(struct lane *lane, uint32_t event, bool begins)
{
	struct sim *sim = lane->sim;
	uint32_t communication = sim->sharing.communication[event];
	uint32_t channels = communication == MQ_NONE ? 0 : sim->costing.communication[communication].channels;
	double memory_Bps = communication == MQ_NONE ? 0 : sim->costing.communication[communication].memory_Bps;

	for (uint32_t t = sim->ev.first[event]; t != MQ_NONE; t = sim->ev.next[t]) {
		const struct mq_task *task = &sim->s->task[t];
		struct device_state *d = &sim->device[task->device];
		if (!mq_task_interferes(d->calib, task))
			continue;
		d->n_comm += begins ? 1 : UINT32_MAX;
		d->channels += begins ? channels : -channels;
		d->memory_Bps = d->n_comm ? d->memory_Bps + (begins ? memory_Bps : -memory_Bps) : 0;
		if (begins)
			d->comm_lane[task->stream] = lane;
		else if (d->comm_lane[task->stream] == lane)
			d->comm_lane[task->stream] = NULL;
		if (d->compute_lane)
			signal_change(d->compute_lane);
	}
}

/* Compute begins or ends on a device: tells its communications' lanes of their new speed. */
static void compute_changes(struct lane *lane, bool computes)
{
	struct device_state *d = &lane->sim->device[lane->device];

	d->computes = computes;
	*(computes ? &d->began_s : &d->ended_s) = lane->sim->now_s;
	d->compute_lane = computes ? lane : NULL;
	for (int q = 0; q < MQ_N_STREAMS; q++)
		if (d->comm_lane[q])
			signal_change(d->comm_lane[q]);
}

/* ---- events of a lane ------------------------------------------------------------------------------ */

static void finish(struct sim *sim, uint32_t event)
{
	mq_walk_finish(&sim->walk, event, sim->now_s);
	mq_sim_drain(sim);
}

/* Kernels may be slowed, the host's launches are not: the task ends when both are over. */
static void run_kernels(struct lane *lane, uint32_t event)
{
	struct sim *sim = lane->sim;
	const struct mq_device_calib *calib = sim->device[lane->device].calib;
	struct mq_cost_parts parts = mq_costing_parts(&sim->costing, task_of(sim, event));
	bool whole = parts.waits || calib->serial_comm || calib->overlap_compute >= 0;

	if (whole) {
		run_work(lane, mq_costing_task(&sim->costing, task_of(sim, event)), event, &parts);
		return;
	}
	double launched_s = sim->now_s + parts.host_s;

	parts.host_s = 0;
	run_work(lane, mq_cost_busy(&parts), event, &parts);
	sleep_until(sim, launched_s);
}

static void run_compute(struct lane *lane, uint32_t event)
{
	struct sim *sim = lane->sim;

	wait_for(lane, sim->known, event);
	sleep_until(sim, sim->walk.start_s[event]);
	compute_changes(lane, true);
	run_kernels(lane, event);
	compute_changes(lane, false);
	finish(sim, event);
}

/* Runs a communication that shares no links but may be slowed by compute. */
static void run_fixed(struct lane *lane, uint32_t event)
{
	struct sim *sim = lane->sim;
	const struct mq_communication *m = &sim->costing.communication[sim->sharing.communication[event]];

	wait_for(lane, sim->known, event);
	sleep_until(sim, sim->walk.start_s[event]);
	comm_changes(lane, event, true);
	run_work(lane, m->alone_s, event, NULL);
	comm_changes(lane, event, false);
	finish(sim, event);
}

/* Runs a communication of a folded schedule as flows: one lane acts for all members. */
static void run_folded(struct lane *lane, uint32_t event)
{
	struct sim *sim = lane->sim;
	uint32_t communication = sim->sharing.communication[event];
	bool slowed = sim->sharing.slowed[event];

	wait_for(lane, sim->known, event);
	sleep_until(sim, sim->walk.start_s[event]);
	if (slowed)
		comm_changes(lane, event, true);
	sleep_until(sim, sim->walk.start_s[event] + sim->costing.communication[communication].latency_s);
	mq_sim_folded_run(lane, communication, slowed ? comm_speed(sim, event, true) : 1);
	if (slowed)
		comm_changes(lane, event, false);
	finish(sim, event);
}

/* The leader waits for the start and the latency, then lets all members start their flows. */
static void lead(struct lane *lane, uint32_t event, const struct mq_communication *m)
{
	struct sim *sim = lane->sim;
	const uint32_t *lane_at = sim->lane_at + sim->place[event];

	wait_for(lane, sim->known, event);
	if (sim->sharing.slowed[event]) {
		sleep_until(sim, sim->walk.start_s[event]);
		comm_changes(lane, event, true);
	}
	sleep_until(sim, sim->walk.start_s[event] + m->latency_s);
	if (sim->sharing.slowed[event])
		sim->slowness[event] = comm_speed(sim, event, true);
	sim->go[event] = true;
	for (uint32_t p = 0; p < m->n; p++)
		wake(sim->lane[lane_at[p]], event);
}

static sg_mailbox_t mailbox(const struct sim *sim, uint32_t from, uint32_t to)
{
	return sim->mailbox[mq_map_find(&sim->mailbox_of, (uint64_t)from << 32 | to)];
}

/* Rate cap of a flow: below slowness 1 that factor times the least of its cap and its route's bandwidths. */
static double rate_of(const struct sim *sim, const struct mq_communication *m, const struct mq_flow *flow,
		      double slowness)
{
	const struct mq_route *route;
	double rate = flow->rate_Bps;

	if (slowness >= 1)
		return rate;
	if (mq_cluster_route(sim->request->cluster, m->rank[flow->src], m->rank[flow->dst], &route, NULL) == MQ_OK)
		for (uint32_t i = 0; i < route->n_links; i++)
			rate = fmin(rate, mq_link_usable_Bps(&sim->request->cluster->link[route->link[i]]));
	return rate * slowness;
}

/* Receives all flows that enter a position, all at once. */
static void receive(struct lane *lane, const struct mq_communication *m, const uint32_t *in, uint32_t n,
		    const uint32_t *lane_at)
{
	struct sim *sim = lane->sim;
	sg_mailbox_t few[8], *box = few;

	if (!n)
		return;
	if (n > sizeof(few) / sizeof(*few))
		box = mq_arena_array(sim->arena, n, sg_mailbox_t);
	for (uint32_t k = 0; k < n; k++)
		box[k] = mailbox(sim, lane_at[m->flow[in[k]].src], lane->id);
	mq_flow_receive(box, n);
}

static void run_flows(struct lane *lane, uint32_t task)
{
	struct sim *sim = lane->sim;
	uint32_t e = sim->ev.of[task], p = sim->position[task];
	const struct mq_communication *m = &sim->costing.communication[sim->sharing.communication[e]];
	const struct roles *r = sim->roles[sim->sharing.communication[e]];
	const uint32_t *lane_at = sim->lane_at + sim->place[e];
	uint32_t n_in = r->in_first[p + 1] - r->in_first[p];

	if (sim->leader[e] == lane->id)
		lead(lane, e, m);
	else if (r->out_first[p] < r->out_first[p + 1])
		wait_for(lane, sim->go, e);
	for (uint32_t k = r->out_first[p]; k < r->out_first[p + 1]; k++) {
		const struct mq_flow *flow = &m->flow[r->out[k]];
		mq_flow_start(mailbox(sim, lane->id, lane_at[flow->dst]), flow->bytes,
			      rate_of(sim, m, flow, sim->slowness[e]));
	}
	receive(lane, m, r->in + r->in_first[p], n_in, lane_at);
	mq_sim_reached(sim, simgrid_get_clock() - sim->t0_s); /* SimGrid's clock tells when flows end */
	if (n_in && !(sim->flows_left[e] -= n_in)) {
		if (sim->sharing.slowed[e])
			comm_changes(sim->lane[sim->leader[e]], e, false);
		finish(sim, e);
	}
}

void mq_sim_lane(int argc, char **argv)
{
	struct lane *lane = sg_actor_self_get_data();
	struct sim *sim = lane->sim;

	(void)argc;
	(void)argv;
	for (uint32_t i = sim->task_first[lane->id]; i < sim->task_first[lane->id + 1]; i++) {
		uint32_t event = sim->ev.of[sim->task[i]];
		if (sim->sharing.communication[event] == MQ_NONE)
			run_compute(lane, event);
		else if (sim->folded && sim->sharing.flows[event])
			run_folded(lane, event);
		else if (sim->sharing.flows[event])
			run_flows(lane, sim->task[i]);
		else
			run_fixed(lane, event);
	}
	lane->alive = false;
	/* The last actor's signal ends the simulation: no actor may touch it afterwards. */
	if (!--sim->n_alive)
		sg_sem_release(sim->done);
}

static double fixed_s(struct sim *sim, uint32_t event)
{
	if (sim->ev.first[event] == MQ_NONE)
		return 0;
	if (sim->sharing.communication[event] != MQ_NONE)
		return sim->costing.communication[sim->sharing.communication[event]].alone_s;
	return mq_costing_task(&sim->costing, task_of(sim, event));
}

void mq_sim_drain(struct sim *sim)
{
	for (uint32_t e; (e = mq_walk_next(&sim->walk)) != MQ_NONE;) {
		if (sim->leader[e] == MQ_NONE) {
			mq_walk_finish(&sim->walk, e, sim->walk.start_s[e] + fixed_s(sim, e));
			continue;
		}
		sim->known[e] = true;
		wake(sim->lane[sim->leader[e]], e);
	}
}
