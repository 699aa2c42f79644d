/* simgrid.c - simulates a schedule with SimGrid (Casanova et al., "Versatile, scalable, and accurate simulation of
 * distributed applications and platforms", 2014), with its fluid, max-min fair network.
 *
 * Only flows that meet others on a link, and compute and communication that slow each other, are simulated. All other
 * events last a time that is known beforehand and cost no activity (share.c decides, lanes.c runs). One process runs
 * many schedules; SimGrid's clock only grows, so times are relative to the start. Between two powers of two, doubles
 * are evenly spaced: schedules that start there, at multiples of a coarser spacing, see the same rounding and take the
 * same time to the last bit. That matters: where many flows share links, 1e-13 s can become 1e-7 s.
 *
 * Not modelled: packets, congestion control, adaptive routing; clocks of a device that heats up; a host that is late in
 * issuing work (but see mq_cost_work). SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "executors/simgrid/flow.h"
#include "executors/simgrid/impl.h"
#include "hardware/platform/platform.h"

enum {
	MOST_ROUNDS = 4, /* runs that simulate only the flows that met */
	MANY = 4,        /* if one neighbour in so many met, all that may are simulated */
};

/* ---- lanes ------------------------------------------------------------------------------------- */

/* Needs an actor. */
static bool needs_actor(const struct sim *sim, uint32_t event)
{
	return sim->sharing.flows[event] || sim->sharing.slowed[event];
}

/* Assigns lanes: one for each stream, and one for each member of a group on one stream, because they run together. */
static uint32_t *lanes_of_tasks(struct sim *sim)
{
	const struct mq_schedule *s = sim->s;
	uint32_t *lane_of = mq_arena_array(sim->arena, s->n_tasks, uint32_t);
	uint32_t *last = mq_arena_none(sim->arena, s->n_devices * MQ_N_STREAMS);
	uint32_t *nth = mq_arena_array(sim->arena, s->n_tasks, uint32_t);
	struct mq_map map;

	mq_map_init(&map, sim->arena, 64);
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		uint32_t queue = t->device * MQ_N_STREAMS + t->stream, before = last[queue];
		uint64_t in_group = 0;

		last[queue] = i;
		lane_of[i] = MQ_NONE;
		if (t->group && before != MQ_NONE && s->task[before].group == t->group)
			in_group = nth[i] = nth[before] + 1;
		if (!needs_actor(sim, sim->ev.of[i]))
			continue;
		lane_of[i] = mq_map_add(&map, in_group << 32 | queue);
		if (lane_of[i] == sim->n_lanes) {
			struct lane *lane = mq_arena_array(sim->arena, 1, struct lane);

			*lane = (struct lane){
				.sim = sim, .id = sim->n_lanes, .device = t->device, .waits_for = MQ_NONE
			};
			MQ_PUSH(sim->arena, sim->lane, sim->n_lanes, sim->lane_room, lane);
		}
	}
	return lane_of;
}

/* ---- flows by position -------------------------------------------------------------------------- */

static struct roles *roles_of(const struct mq_communication *m, struct mq_arena *arena)
{
	struct roles *r = mq_arena_array(arena, 1, struct roles);

	mq_csr_make(arena, m->n, m->n_flows, &m->flow->src, NULL, sizeof(*m->flow), &r->out_first, &r->out);
	mq_csr_make(arena, m->n, m->n_flows, &m->flow->dst, NULL, sizeof(*m->flow), &r->in_first, &r->in);
	return r;
}

/* One mailbox per pair of lanes, whose flows come and go in order. All are made before the run, because SimGrid may run
 * other actors while it makes one. */
static void add_mailbox(struct sim *sim, uint32_t from, uint32_t to)
{
	uint32_t index = mq_map_add(&sim->mailbox_of, (uint64_t)from << 32 | to);
	char name[24];

	if (index < sim->n_mailboxes)
		return;
	snprintf(name, sizeof(name), "mq%u", index);
	sg_mailbox_t mailbox = sg_mailbox_by_name(name);
	MQ_PUSH(sim->arena, sim->mailbox, sim->n_mailboxes, sim->mailbox_room, mailbox);
}

/* For each event with flows: the lane at each position, the leader, and the number of flows. */
static void place_members(struct sim *sim, const uint32_t *lane_of)
{
	const struct mq_schedule *s = sim->s;
	uint32_t *position_of = mq_arena_array(sim->arena, sim->request->cluster->n_devices, uint32_t);
	size_t n_places = 0;

	for (uint32_t e = 0; e < sim->ev.n; e++)
		if (sim->sharing.flows[e]) {
			sim->place[e] = (uint32_t)n_places;
			n_places += sim->costing.communication[sim->sharing.communication[e]].n;
		}
	mq_assert(n_places < UINT32_MAX);
	sim->lane_at = mq_arena_array(sim->arena, n_places, uint32_t);
	for (uint32_t e = 0; e < sim->ev.n; e++) {
		if (!sim->sharing.flows[e])
			continue;
		uint32_t index = sim->sharing.communication[e];
		const struct mq_communication *m = &sim->costing.communication[index];
		for (uint32_t p = 0; p < m->n; p++)
			position_of[m->rank[p]] = p;
		for (uint32_t t = sim->ev.first[e]; t != MQ_NONE; t = sim->ev.next[t]) {
			sim->position[t] = position_of[s->device[s->task[t].device]];
			sim->lane_at[sim->place[e] + sim->position[t]] = lane_of[t];
		}
		if (!sim->roles[index])
			sim->roles[index] = roles_of(m, sim->arena);
		for (uint32_t f = 0; f < m->n_flows; f++) {
			uint32_t from = sim->lane_at[sim->place[e] + m->flow[f].src];
			add_mailbox(sim, from, sim->lane_at[sim->place[e] + m->flow[f].dst]);
			sim->flows_left[e]++;
			if (sim->leader[e] == MQ_NONE)
				sim->leader[e] = from;
		}
	}
}

/* ---- tasks of lanes ---------------------------------------------------------------------------- */

static bool has_role(const struct roles *r, uint32_t p)
{
	return r->out_first[p] < r->out_first[p + 1] || r->in_first[p] < r->in_first[p + 1];
}

/* Lists the lanes' tasks in order, which is stream order: members with flows; else an event's first, which leads it. */
static void list_tasks(struct sim *sim, uint32_t *lane_of)
{
	for (uint32_t t = 0; t < sim->s->n_tasks; t++) {
		uint32_t e = sim->ev.of[t];
		bool flows = sim->sharing.flows[e] && !sim->folded;

		if (!needs_actor(sim, e) ||
		    !(flows ? has_role(sim->roles[sim->sharing.communication[e]], sim->position[t]) :
			      t == sim->ev.first[e]))
			lane_of[t] = MQ_NONE;
		else if (!flows)
			sim->leader[e] = lane_of[t];
	}
	mq_csr_make(sim->arena, sim->n_lanes, sim->s->n_tasks, lane_of, NULL, sizeof(*lane_of), &sim->task_first,
		    &sim->task);
}

/* ---- running ------------------------------------------------------------------------------------ */

static void prepare(struct sim *sim)
{
	const struct mq_exec_request *r = sim->request;
	uint32_t n = sim->ev.n;

	sim->leader = mq_arena_none(sim->arena, n);
	if (!sim->sharing.n_flows && !sim->sharing.n_slowed)
		return;
	sim->roles = mq_arena_array(sim->arena, sim->costing.n_communications, struct roles *);
	sim->place = mq_arena_array(sim->arena, n, uint32_t);
	sim->flows_left = mq_arena_array(sim->arena, n, uint32_t);
	sim->known = mq_arena_array(sim->arena, n, bool);
	sim->go = mq_arena_array(sim->arena, n, bool);
	sim->slowness = mq_arena_array(sim->arena, n, double);
	for (uint32_t e = 0; e < n; e++)
		sim->slowness[e] = 1;
	sim->device = mq_arena_array(sim->arena, sim->s->n_devices, struct device_state);
	for (uint32_t d = 0; d < sim->s->n_devices; d++)
		sim->device[d] = (struct device_state){
			.calib = &r->calib->device[r->cluster->device[sim->s->device[d]].calib],
			.ended_s = -INFINITY,
		};
	mq_map_init(&sim->mailbox_of, sim->arena, 64);
	uint32_t *lane_of = lanes_of_tasks(sim);
	sim->position = mq_arena_array(sim->arena, sim->s->n_tasks, uint32_t);
	if (!sim->folded)
		place_members(sim, lane_of);
	list_tasks(sim, lane_of);
}

static void start_actors(struct sim *sim)
{
	const char *const argv[] = { "lane", NULL };

	for (uint32_t l = 0; l < sim->n_lanes; l++) {
		struct lane *lane = sim->lane[l];
		if (sim->task_first[l] == sim->task_first[l + 1])
			continue;
		lane->alive = true;
		sim->n_alive++;
		lane->actor =
			sg_actor_init("lane", mq_platform_host(sim->request->cluster, sim->s->device[lane->device]));
		sg_actor_set_data(lane->actor, lane);
		sg_actor_start_(lane->actor, mq_sim_lane, 1, argv);
	}
}

/* After a timeout: ends all actors, which still use this simulation. */
static void kill_actors(struct sim *sim)
{
	for (uint32_t l = 0; l < sim->n_lanes; l++)
		if (sim->lane[l]->alive)
			sg_actor_kill(sim->lane[l]->actor);
	sg_actor_yield();
	for (uint32_t i = 0; i < sim->n_mailboxes; i++)
		mq_flow_clear(sim->mailbox[i]);
}

/* Doubles are 2.3e-13 s apart between FIRST_S and 2 FIRST_S. */
enum { FIRST_S = 1024, WORN_S = FIRST_S + FIRST_S / 2, STARTS_PER_S = 1024 };

bool mq_simgrid_is_worn(void)
{
	return simgrid_get_clock() > WORN_S;
}

static void simulate(struct sim *sim, enum mq_verdict *verdict)
{
	double timeout_s = sim->request->timeout_s, clock_s = simgrid_get_clock();

	/* Sleep to a start time at which rounding equals that of every other schedule. */
	if (clock_s < FIRST_S)
		sg_actor_sleep_until(FIRST_S);
	else if (ceil(clock_s * STARTS_PER_S) > clock_s * STARTS_PER_S)
		sg_actor_sleep_until(ceil(clock_s * STARTS_PER_S) / STARTS_PER_S);
	sim->t0_s = simgrid_get_clock();
	sim->now_s = 0;
	mq_sim_drain(sim);
	start_actors(sim);
	if (sim->n_alive) {
		bool late = false;
		sim->done = sg_sem_init(0);
		if (isfinite(timeout_s))
			late = sg_sem_acquire_timeout(sim->done, timeout_s);
		else
			sg_sem_acquire(sim->done);
		if (late) {
			*verdict = MQ_VERDICT_TIMEOUT;
			kill_actors(sim);
		}
		sg_sem_destroy(sim->done);
		for (uint32_t l = 0; l < sim->n_lanes; l++) {
			if (sim->lane[l]->changed)
				sg_sem_destroy(sim->lane[l]->changed);
			if (sim->lane[l]->woken)
				sg_sem_destroy(sim->lane[l]->woken);
		}
	}
	mq_assert(*verdict == MQ_VERDICT_TIMEOUT || sim->walk.n_done == sim->ev.n);
}

/* Forgets a run in which communications of fixed length did meet others. */
static void reset_run(struct sim *sim, struct mq_arena_mark mark)
{
	mq_arena_rewind(sim->arena, mark);
	sim->n_lanes = sim->lane_room = sim->n_mailboxes = sim->mailbox_room = 0;
	sim->lane = NULL;
	sim->mailbox = NULL;
	sim->done = NULL;
	sim->folded = NULL;
}

/* Waits of lanes per event simulated as flows, and per other event that may be slowed; within a factor of two
 * (tests/unit/test_fold.c). */
static const double FLOW_STEPS = 3.4, SLOWED_STEPS = 2.4;
/* Clock seconds on one core of 2026, within a factor of two, per task of the schedule, per wait, and per flow of a
 * schedule that is not folded. */
static const double TASK_S = 1e-6, STEP_S = 1.5e-6, FLOW_S = 1.2e-5;

static double steps_of(const struct sim *sim)
{
	double steps = 0;

	for (uint32_t e = 0; e < sim->ev.n; e++)
		steps += sim->sharing.flows[e] ? FLOW_STEPS : sim->sharing.slowed[e] ? SLOWED_STEPS : 0;
	return steps;
}

/* Is the estimated time of the next run and those before it, *spent_s, over the limit? Estimated from counts, so that all
 * machines agree. */
static bool over_limit(const struct sim *sim, double *spent_s, struct mq_err *err)
{
	const struct mq_sharing *sharing = &sim->sharing;
	double limit_s = sim->request->simulation_s, flows = 0, takes_s;

	for (uint32_t e = 0; e < sim->ev.n && sharing->n_flows; e++)
		if (sharing->flows[e] && !sim->request->view.fold)
			flows += sim->costing.communication[sharing->communication[e]].n_flows;
	takes_s = *spent_s + sim->s->n_tasks * TASK_S + steps_of(sim) * STEP_S + flows * FLOW_S;
	*spent_s = takes_s;
	if (!(limit_s > 0) || takes_s <= limit_s)
		return false;
	(void)mq_bad(
		err,
		"its simulation takes about %.2g s (%u tasks and %.0f flows of %u ranks), --simulation-time allows %.3g; raise "
		"it",
		takes_s, sim->s->n_tasks, flows, sim->s->n_devices, limit_s);
	return true;
}

/* Runs with every communication at its fixed length, then again with those that met others as flows, until no more
 * meet. If many meet, or after MOST_ROUNDS, all that may ever meet are simulated as flows, which needs no check. */
static enum mq_status run_rounds(struct sim *sim, enum mq_verdict *verdict, struct mq_err *err)
{
	struct mq_sharing *sharing = &sim->sharing;
	struct mq_arena_mark mark = mq_arena_mark(sim->arena);
	bool sure = sim->request->all_flows;
	double spent_s = 0;

	if (sure)
		mq_sharing_all(sharing);
	for (uint32_t round = 0;; round++) {
		if (over_limit(sim, &spent_s, err)) {
			*verdict = MQ_VERDICT_REFUSED;
			return MQ_OK;
		}
		sim->steps->expected += steps_of(sim);
		mq_walk_init(&sim->walk, &sim->ev, sim->arena);
		if (sim->request->view.fold && sharing->n_flows) /* the marked communications and all their replicas */
			MQ_TRY(mq_sim_folded_init(sim, err));
		prepare(sim);
		simulate(sim, verdict);
		if (sim->costing.uneven)
			return MQ_OK;
		if (mq_sim_folded_dear(sim)) {
			*verdict = MQ_VERDICT_REFUSED;
			(void)mq_bad(err,
				     "its simulation takes more than the %.3g s of --simulation-time: many flows share "
				     "links, and end one after another; raise it",
				     sim->request->simulation_s);
			return MQ_OK;
		}
		if (sure || *verdict != MQ_VERDICT_OK ||
		    !mq_sharing_contended(sharing, sim->walk.start_s, sim->walk.finish_s))
			return MQ_OK;
		reset_run(sim, mark);
		if (round + 1 == MOST_ROUNDS || sharing->n_flows > sharing->n_neighbours / MANY) {
			mq_sharing_may_contend(sharing);
			sure = true;
			mark = mq_arena_mark(sim->arena);
		}
	}
}

enum mq_status mq_execute_simgrid(const struct mq_exec_request *request, struct mq_arena *arena,
				  struct mq_timeline *timeline, enum mq_verdict *verdict, struct mq_err *err)
{
	struct mq_sim_steps steps;

	return mq_execute_simgrid_counted(request, arena, timeline, verdict, &steps, err);
}

enum mq_status mq_execute_simgrid_counted(const struct mq_exec_request *request, struct mq_arena *arena,
					  struct mq_timeline *timeline, enum mq_verdict *verdict,
					  struct mq_sim_steps *steps, struct mq_err *err)
{
	struct sim *sim = mq_arena_array(arena, 1, struct sim);
	struct mq_arena_mark mark;

	*timeline = (struct mq_timeline){ .executor = "simgrid" };
	*verdict = MQ_VERDICT_OK;
	*steps = (struct mq_sim_steps){ 0 };
	*sim = (struct sim){ .request = request, .s = request->view.schedule, .arena = arena, .steps = steps };
	MQ_TRY(mq_events_build(sim->s, request->view.rounds, arena, &sim->ev, err));
	mark = mq_arena_mark(arena);
	if (mq_events_order(&sim->ev, arena, mq_arena_array(arena, sim->ev.n, uint32_t)) < sim->ev.n) {
		*verdict = MQ_VERDICT_DEADLOCK;
		return MQ_OK;
	}
	mq_arena_rewind(arena, mark);
	sim->costing = (struct mq_costing){ .view = request->view,
					    .cluster = request->cluster,
					    .calib = request->calib,
					    .jitter = request->jitter,
					    .times_only = request->times_only };
	mq_costing_init(&sim->costing, arena);
	if (!mq_costing_possible(&sim->costing, err)) {
		*verdict = MQ_VERDICT_INVALID;
		return MQ_OK;
	}
	MQ_TRY(mq_sharing_init(&sim->sharing, &sim->costing, &sim->ev, err));
	if (request->interference) {
		mq_sharing_find_slowed(&sim->sharing);
		MQ_TRY(mq_sharing_mark_paced(&sim->sharing, err));
	}
	MQ_TRY(run_rounds(sim, verdict, err));
	timeline->inexact = sim->costing.uneven; /* a rank left out differs from its representative */
	if (timeline->inexact)
		return mq_sim_folded_apart(sim, &timeline->apart_s, err);
	if (*verdict != MQ_VERDICT_OK)
		return MQ_OK;
	MQ_TRY(mq_costing_timeline(&sim->costing, &sim->ev, sim->walk.start_s, sim->walk.finish_s, timeline, err));
	if (!timeline->inexact && timeline->step_time_s > request->timeout_s)
		*verdict = MQ_VERDICT_TIMEOUT;
	return MQ_OK;
}
