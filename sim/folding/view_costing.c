/* view_costing.c - see view_costing.h. SPDX-License-Identifier: Apache-2.0 */
#include "folding/view_costing.h"

#include <math.h>

#include "folding/equivalence_classes.h"

/* Finds the distinct speeds: devices of one type and clock share one. */
static void find_speeds(struct mq_costing *c)
{
	const struct mq_schedule *s = c->view.schedule;
	struct mq_index *seen = mq_index_new(c->arena);
	uint32_t room = 0;

	c->speed_of = mq_arena_array(c->arena, s->n_devices, uint32_t);
	for (uint32_t d = 0; d < s->n_devices; d++) {
		const double key[] = { c->cluster->device[s->device[d]].calib, s->clock ? s->clock[d] : 1 };
		bool found;

		c->speed_of[d] = mq_index_put(seen, key, sizeof(key), c->n_speeds, &found);
		if (!found) {
			const struct mq_device_calib one = mq_predict_device(c->cluster, c->calib, s, d);
			MQ_PUSH(c->arena, c->speed, c->n_speeds, room, one);
		}
	}
}

void mq_costing_init(struct mq_costing *c, struct mq_arena *arena)
{
	const struct mq_schedule *s = c->view.schedule;

	*c = (struct mq_costing){ .view = c->view,
				  .cluster = c->cluster,
				  .calib = c->calib,
				  .jitter = c->jitter,
				  .times_only = c->times_only,
				  .arena = arena };
	find_speeds(c);
	c->parts = mq_arena_array(arena, (size_t)s->n_works * c->n_speeds, struct mq_cost_parts);
	c->alone_s = mq_arena_array(arena, (size_t)s->n_works * c->n_speeds, double);
	c->known = mq_arena_array(arena, (size_t)s->n_works * c->n_speeds, bool);
	struct mq_members *comm = mq_arena_array(arena, s->n_comms + 1, struct mq_members); /* + 1: not empty */
	for (uint32_t k = 0; k < s->n_comms && !c->view.fold; k++)
		comm[k] = mq_predict_members(s, k, arena);
	c->comm = c->view.fold ? c->view.fold->comm : comm;
	c->asked = mq_index_new(arena);
}

static const struct mq_device_calib *calib_of(const struct mq_costing *c, uint32_t device)
{
	return &c->speed[c->speed_of[device]];
}

/* sqrt(sum t^2) / sum t over a work's kernels: the task's relative jitter is this times a kernel's. */
static double spread_of(const struct mq_device_calib *d, const struct mq_work *work)
{
	double sum = 0, squares = 0;

	for (uint32_t i = 0; i < work->n_kernels; i++) {
		double t = mq_cost_kernel(d, &work->kernel[i]);

		sum += t;
		squares += t * t;
	}
	return sum > 0 ? sqrt(squares) / sum : 0;
}

/* The parts of a compute task in the current jitter sample: kernels vary, the host that launches them does not. */
static struct mq_cost_parts varied(const struct mq_costing *c, const struct mq_task *t)
{
	const struct mq_schedule *s = c->view.schedule;
	const struct mq_jitter *j = c->jitter;
	const struct mq_device_calib *d = calib_of(c, t->device);
	struct mq_cost_parts parts = mq_cost_parts(d, &s->work[t->work]);
	uint32_t rank = s->device[t->device];
	double factor = mq_jitter_device(j, rank);

	if (j->kernel > 0)
		factor *= mq_jitter_task(j, rank, (uint32_t)(t - s->task), spread_of(d, &s->work[t->work]));
	parts.products_s *= factor;
	parts.arithmetic_s *= factor;
	parts.memory_s *= factor;
	return parts;
}

/* The index of a compute task's work in parts[] and alone_s[]; fills both there. */
static size_t place_of(struct mq_costing *c, const struct mq_task *t)
{
	size_t at = (size_t)t->work * c->n_speeds + c->speed_of[t->device];

	if (!c->known[at]) {
		const struct mq_fused *fused = mq_view_fused(&c->view, t);

		c->parts[at] = fused ? (struct mq_cost_parts){ .host_s = fused->seconds } :
				       mq_cost_parts(calib_of(c, t->device), &c->view.schedule->work[t->work]);
		c->alone_s[at] = mq_cost_beside(&c->parts[at], (struct mq_cost_taken){ 0 });
		c->known[at] = true;
	}
	return at;
}

double mq_costing_task(struct mq_costing *c, const struct mq_task *t)
{
	if (t->kind == MQ_TASK_COMPUTE && !c->jitter)
		return c->alone_s[place_of(c, t)];
	struct mq_cost_parts parts = mq_costing_parts(c, t);

	return mq_cost_beside(&parts, (struct mq_cost_taken){ 0 });
}

struct mq_cost_parts mq_costing_parts(struct mq_costing *c, const struct mq_task *t)
{
	if (t->kind == MQ_TASK_COPY)
		return (struct mq_cost_parts){ .host_s = mq_cost_copy(calib_of(c, t->device), t->bytes) };
	if (c->jitter && !mq_view_fused(&c->view, t))
		return varied(c, t);
	return c->parts[place_of(c, t)];
}

/* The text of `err` names the task's first kernel that its device cannot run. */
static void refuse(struct mq_costing *c, const struct mq_task *t, struct mq_err *err)
{
	const struct mq_schedule *s = c->view.schedule;
	const struct mq_work *work = &s->work[t->work];
	const char *device = s->device_name[t->device], *type = s->device_type[t->device];
	uint32_t i = 0;

	while (i < work->n_kernels && isfinite(mq_cost_kernel(calib_of(c, t->device), &work->kernel[i])))
		i++;
	const struct mq_kernel *k = i < work->n_kernels ? &work->kernel[i] : NULL;
	uint32_t op = k && k->op < s->n_ops ? k->op : t->op;
	const char *name = op == MQ_NONE ? "a task" : s->op_name[op];

	if (!k || k->kind == MQ_KERNEL_TIMED) /* of a profile, which has no time of it there */
		(void)mq_fail(err, MQ_OK, "%s (%s) cannot run %s", device, type, name);
	else
		(void)mq_fail(err, MQ_OK, "%s (%s) cannot run %s in %s; give other devices, --dtype or --gemm-dtype",
			      device, type, name,
			      k->scaling == MQ_SCALING_MX ? "mxfp8" : mq_dtype_name((enum mq_dtype)k->dtype));
}

bool mq_costing_possible(struct mq_costing *c, struct mq_err *err)
{
	const struct mq_schedule *s = c->view.schedule;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		if (t->kind != MQ_TASK_COMPUTE || isfinite(mq_costing_task(c, t)))
			continue;
		refuse(c, t, err);
		return false;
	}
	return true;
}

/* Folded: the representative's flows, with their times while all replicas use the links. */
static enum mq_status expand_folded(struct mq_costing *c, const struct mq_task *t, struct mq_communication *m,
				    struct mq_err *err)
{
	struct mq_replica_flows *replicas = c->view.fold->replica_flows;
	struct mq_replica_flow_times times;
	struct mq_replica_flow replica;

	*m = (struct mq_communication){ .task = t, .bound_s = NAN };
	MQ_TRY(mq_replica_flows_times(replicas, t, &times, err));
	MQ_TRY(mq_replica_flows_get(replicas, t, 0, &replica, err));
	c->uneven |= !times.same;
	m->latency_s = times.latency_s;
	m->alone_s = times.alone_s;
	m->bound_s = times.bound_s;
	m->n_flows = replica.n_all;
	m->channels = replica.channels;
	m->memory_Bps = mq_predict_memory_Bps(t, replica.all, replica.n_all, replica.n, times.own_s);
	return MQ_OK;
}

static enum mq_status expand(struct mq_costing *c, const struct mq_task *t, struct mq_communication *m,
			     struct mq_err *err)
{
	const struct mq_predictor p = { c->cluster, c->calib, c->arena };

	if (c->view.fold)
		return expand_folded(c, t, m, err);
	return mq_predict_communication(&p, c->view.schedule, t, &c->comm[t->kind == MQ_TASK_COLLECTIVE ? t->comm : 0],
					m, err);
}

enum mq_status mq_costing_communication(struct mq_costing *c, const struct mq_task *t, uint32_t *index,
					struct mq_err *err)
{
	const struct mq_communication_key key = mq_communication_key(t);
	struct mq_communication m;
	bool found;

	*index = mq_index_put(c->asked, &key, sizeof(key), c->n_communications, &found);
	if (found)
		return MQ_OK;
	MQ_TRY(expand(c, t, &m, err));
	MQ_PUSH(c->arena, c->communication, c->n_communications, c->room, m);
	return MQ_OK;
}

enum mq_status mq_costing_bound(struct mq_costing *c, uint32_t index, struct mq_err *err)
{
	struct mq_communication *m = &c->communication[index];
	double flows_s = 0;

	if (!isnan(m->bound_s))
		return MQ_OK;
	if (m->n_flows)
		MQ_TRY(mq_flows_bound(c->cluster, m->rank, m->flow, m->n_flows, c->arena, &flows_s, err));
	/* fmin: the bound's sums round differently, and it must not exceed alone_s. */
	m->bound_s = fmin(m->latency_s + flows_s, m->alone_s);
	return MQ_OK;
}

enum mq_status mq_costing_links(struct mq_costing *c, const struct mq_communication *m, bool all,
				mq_replica_flows_see *see, void *data, struct mq_err *err)
{
	if (c->view.fold)
		return mq_replica_flows_links(c->view.fold->replica_flows, m->task, all, see, data, err);
	for (uint32_t f = 0; f < m->n_flows; f++) {
		const struct mq_route *route;

		MQ_TRY(mq_cluster_route(c->cluster, m->rank[m->flow[f].src], m->rank[m->flow[f].dst], &route, err));
		for (uint32_t l = 0; l < route->n_links; l++)
			if (all || !c->cluster->link[route->link[l]].fatpipe)
				see(route->link[l], 0, m->flow[f].bytes, data);
	}
	return MQ_OK;
}

/* ---- timeline -------------------------------------------------------------------------------- */

struct loader {
	double *bytes, calls;
};

static void add_bytes(uint32_t link, uint32_t replica, double bytes, void *data)
{
	struct loader *to = data;

	(void)replica;
	to->bytes[link] += to->calls * bytes;
}

static enum mq_status load_links(struct mq_costing *c, const double *calls, double *bytes, struct mq_err *err)
{
	const struct mq_replica_flows *replicas = c->view.fold ? c->view.fold->replica_flows : NULL;

	for (uint32_t i = 0; i < c->n_communications; i++) {
		struct loader to = { bytes, calls[i] };

		if (calls[i] > 0)
			MQ_TRY(mq_costing_links(c, &c->communication[i], true, add_bytes, &to, err));
	}
	for (uint32_t l = 0; replicas && replicas->home && l < c->cluster->n_links; l++)
		bytes[l] = bytes[replicas->home[l]];
	return MQ_OK;
}

/* Fills the bytes that each link carried. */
static enum mq_status find_link_loads(struct mq_costing *c, const struct mq_events *ev, struct mq_timeline *tl,
				      struct mq_err *err)
{
	const struct mq_schedule *s = c->view.schedule;

	/* A run that ended in a deadlock has not met all communications: this may add some. */
	uint32_t *communication = mq_arena_array(c->arena, ev->n, uint32_t);
	for (uint32_t e = 0; e < ev->n - ev->n_barriers; e++) {
		const struct mq_task *t = &s->task[ev->first[e]];

		communication[e] = MQ_NONE;
		if (t->kind != MQ_TASK_COMPUTE && t->kind != MQ_TASK_COPY)
			MQ_TRY(mq_costing_communication(c, t, &communication[e], err));
	}
	double *calls = mq_arena_array(c->arena, c->n_communications, double);
	const double *repeats = mq_timeline_repeats(tl, c->arena);
	for (uint32_t e = 0; e < ev->n - ev->n_barriers; e++)
		if (communication[e] != MQ_NONE)
			calls[communication[e]] += 1 + (repeats ? repeats[ev->first[e]] : 0);
	tl->n_links = c->cluster->n_links;
	tl->link_busy_B = mq_arena_array(c->arena, tl->n_links, double);
	return load_links(c, calls, tl->link_busy_B, err);
}

static void folded_times(struct mq_costing *c, struct mq_timeline *tl)
{
	const struct mq_schedule *s = c->view.schedule;

	tl->weight = c->view.fold->weight;
	if (!c->view.fold->fused)
		return;
	double *inner = mq_arena_array(c->arena, s->n_tasks, double);
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_fused *fused = mq_view_fused(&c->view, &s->task[i]);

		for (uint32_t k = 0; fused && k < fused->n_calls; k++)
			inner[i] += fused->call[k].exposed_s;
	}
	tl->inner_comm_s = inner;
}

/* What the micro-batches add that are left out: as many times what a period took as there are periods of them. */
static void add_left_out(const struct mq_steady *steady, struct mq_timeline *tl)
{
	static const double rounding = 1e-12; /* of the time since the step began */
	double period_s = NAN;

	for (uint32_t r = 0; r < steady->n; r++)
		for (uint32_t i = steady->period[r].first, n = steady->period[r].n, end = i + n; i < end; i++) {
			double each_s = (tl->finish_s[i] - tl->finish_s[i - 2 * n]) / 2,
			       most = rounding * tl->finish_s[i];

			period_s = isnan(period_s) ? each_s : period_s;
			tl->unsteady |= fabs(tl->finish_s[i] - tl->finish_s[i - n] - period_s) > most ||
					fabs(each_s - period_s) > most;
		}
	tl->unsteady |= isnan(period_s);
	tl->inexact |= tl->unsteady;
	tl->step_time_s += steady->periods * period_s;
}

enum mq_status mq_costing_timeline(struct mq_costing *c, const struct mq_events *ev, const double *start_s,
				   const double *finish_s, struct mq_timeline *tl, struct mq_err *err)
{
	const struct mq_schedule *s = c->view.schedule;

	struct mq_events *kept = mq_arena_array(c->arena, 1, struct mq_events);

	*kept = *ev;
	tl->events = kept;
	tl->n_tasks = s->n_tasks;
	tl->start_s = mq_arena_array(c->arena, s->n_tasks, double);
	tl->finish_s = mq_arena_array(c->arena, s->n_tasks, double);
	tl->step_time_s = 0;
	tl->steady = c->view.steady;
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		tl->start_s[i] = start_s[ev->of[i]];
		tl->finish_s[i] = finish_s[ev->of[i]];
		tl->step_time_s = fmax(tl->step_time_s, tl->finish_s[i]);
	}
	if (!c->times_only)
		MQ_TRY(find_link_loads(c, ev, tl, err));
	if (c->view.fold)
		folded_times(c, tl);
	if (c->view.steady)
		add_left_out(c->view.steady, tl);
	return MQ_OK;
}
