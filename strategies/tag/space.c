/* space.c - see space.h. SPDX-License-Identifier: Apache-2.0 */
#include "tag/space.h"

#include <math.h>

#include "lib/classes.h"
#include "lib/partition.h"

enum { FEW = 4 };

/* ---- devices --------------------------------------------------------------------------------------------- */

/* Number of machines in rank order; a machine with two kinds of devices counts as two. */
static uint32_t count_machines(const struct mq_tag_space *s, const struct mq_cluster *c)
{
	const uint32_t *rank = s->coarse.tasks.space.device;
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->coarse.tasks.n_devices; i++)
		n += !i || c->device[rank[i]].node != c->device[rank[i - 1]].node ||
		     !mq_devices_alike(&c->device[rank[i]], &c->device[rank[i - 1]]);
	return n;
}

static void add_device(struct mq_tag_space *s, const struct mq_problem *p, uint32_t group, uint32_t rank)
{
	struct mq_tag_devices *d = &s->device[group];

	if (group == s->n_devices) {
		s->n_devices++;
		d->rank = mq_arena_array(p->arena, p->q->cluster->n_devices, uint32_t);
		d->memory_B = p->q->cluster->device[rank].memory_B;
	}
	d->rank[d->n++] = rank;
}

/* Groups devices: by machine if these are few; equal machines into FEW runs; else by kind. */
static enum mq_status group_devices(struct mq_tag_space *s, const struct mq_problem *p, struct mq_err *err)
{
	const struct mq_cluster *c = p->q->cluster;
	const uint32_t *rank = s->coarse.tasks.space.device;
	uint32_t n = s->coarse.tasks.n_devices, machines = count_machines(s, c), machine = 0;
	bool equal = true;

	for (uint32_t i = 1; i < n; i++)
		equal = equal && mq_devices_alike(&c->device[rank[i]], &c->device[rank[0]]);
	for (uint32_t i = 0; i < n; i++) {
		const struct mq_device *d = &c->device[rank[i]];
		uint32_t g = 0;

		machine +=
			i && (d->node != c->device[rank[i - 1]].node || !mq_devices_alike(d, &c->device[rank[i - 1]]));
		if (machines <= FEW)
			g = machine;
		else if (equal)
			g = machine * FEW / machines;
		while (machines > FEW && !equal && g < s->n_devices &&
		       !mq_devices_alike(&c->device[s->device[g].rank[0]], d))
			g++;
		if (g == MQ_TAG_MAX_GROUPS)
			return mq_bad(
				err,
				"engine 'tag': more than %d kinds of devices on '%s'; 2^kinds x 3 actions would be "
				"too many",
				MQ_TAG_MAX_GROUPS, c->name);
		add_device(s, p, g, rank[i]);
	}
	return MQ_OK;
}

/* Speeds on this model, relative to the fastest group. */
static void measure_speeds(struct mq_tag_space *s)
{
	const struct mq_tasks *t = &s->coarse.tasks;
	double time_s[MQ_TAG_MAX_GROUPS] = { 0 }, least_s = INFINITY, speed = 0;

	for (uint32_t g = 0; g < s->n_devices; g++) {
		uint32_t d = 0;

		while (t->space.device[d] != s->device[g].rank[0])
			d++;
		for (uint32_t v = 0; v < t->n; v++) /* an op that the device cannot run counts as slow */
			time_s[g] += fmin(t->time[(size_t)v * t->n_devices + d], 100 * mq_tasks_mean_time(t, v));
		least_s = fmin(least_s, time_s[g]);
	}
	for (uint32_t g = 0; g < s->n_devices; g++) {
		s->device[g].speed = least_s / fmax(time_s[g], 1e-300);
		speed += s->device[g].n * s->device[g].speed;
	}
	s->whole_s = fmax(least_s / speed, 1e-300);
}

static void measure_links(struct mq_tag_space *s, const struct mq_problem *p)
{
	uint32_t n = s->n_devices;

	s->bw = mq_arena_array(p->arena, n * n, double);
	for (uint32_t a = 0; a < n; a++)
		for (uint32_t b = 0; b < n; b++) {
			const struct mq_tag_devices *x = &s->device[a], *y = &s->device[b];
			uint32_t to = a == b ? y->rank[y->n > 1] : y->rank[0];

			double seconds;

			if (x->rank[0] != to && p->costs->transfer(p->costs->context, x->rank[0], to, 64e6, &seconds) &&
			    seconds > 0)
				s->bw[a * n + b] = 64e6 / seconds;
		}
	double fastest = 1e-300;
	s->slowest_Bps = INFINITY;
	for (uint32_t i = 0; i < n * n; i++) {
		fastest = fmax(fastest, s->bw[i]);
		s->slowest_Bps = s->bw[i] > 0 ? fmin(s->slowest_Bps, s->bw[i]) : s->slowest_Bps;
	}
	for (uint32_t a = 0; a < n; a++) {
		if (!(s->bw[a * n + a] > 0)) /* one device: no transfer */
			s->bw[a * n + a] = fastest;
		s->device[a].bw_Bps = s->bw[a * n + a];
	}
	if (!isfinite(s->slowest_Bps))
		s->slowest_Bps = 1e12;
}

/* ---- actions ------------------------------------------------------------------------------------------------ */

static bool allowed(const struct mq_tag_space *s, const struct mq_problem *p, bool heterog,
		    const struct mq_tag_action *a)
{
	bool one_group = !(a->mask & (a->mask - 1)), all = a->mask == (1u << s->n_devices) - 1;

	if ((a->n_devices == 1 && a->how != MQ_TAG_SERVER) ||
	    (a->how != MQ_TAG_MODEL && a->n_devices > p->q->train->batch / s->fit.micro_batches))
		return false;
	return !heterog || one_group || (all && a->how != MQ_TAG_MODEL);
}

/* Lists the actions, all devices with all-reduce first if allowed: the baseline is action 0. */
static void list_actions(struct mq_tag_space *s, const struct mq_problem *p, bool heterog)
{
	uint32_t subsets = 1u << s->n_devices;

	s->n_actions = s->model = 0;
	s->action = mq_arena_array(p->arena, subsets * MQ_TAG_N_HOWS, struct mq_tag_action);
	for (uint32_t mask = subsets - 1; mask > 0; mask--) {
		struct mq_tag_action a = { .mask = mask };

		for (uint32_t g = 0; g < s->n_devices; g++)
			a.n_devices += mask & 1u << g ? s->device[g].n : 0;
		for (a.how = 0; a.how < MQ_TAG_N_HOWS; a.how++)
			if (allowed(s, p, heterog, &a))
				s->action[s->n_actions++] = a;
	}
	while (s->model + 1 < s->n_actions && s->action[s->model].how != MQ_TAG_MODEL)
		s->model++;
}

/* ---- features ------------------------------------------------------------------------------------------------- */

/* log10 x / 4 clamped to -1 .. 1. */
static double scaled(double x)
{
	return log10(fmin(fmax(x, 1e-4), 1e4)) / 4;
}

/* Bytes relative to what the slowest link moves in the step's compute time, scaled. */
static double scaled_bytes(const struct mq_tag_space *s, double bytes)
{
	return scaled(bytes / s->slowest_Bps / s->whole_s);
}

static void describe_ops(struct mq_tag_space *s, const struct mq_problem *p)
{
	const struct mq_tasks *t = &s->coarse.tasks;
	double *gain_s = mq_arena_array(p->arena, s->n, double); /* [n] negative time of each group */
	double total_s = 0, params = 1e-300, outputs = 1e-300, most_B = 1e-300;
	double grad_B = mq_dtype_size(p->q->train->grad_dtype), value_B = mq_dtype_size(p->q->train->dtype);

	s->op_feature = mq_arena_array(p->arena, s->n * MQ_TAG_OP_FEATURES, double);
	for (uint32_t g = 0; g < s->n_devices; g++)
		most_B = fmax(most_B, s->device[g].memory_B);
	for (uint32_t v = 0; v < t->n; v++) {
		gain_s[s->coarse.group_of[v]] -= mq_tasks_mean_time(t, v);
		s->op_feature[s->coarse.group_of[v] * MQ_TAG_OP_FEATURES + 1] += t->memory[v];
		total_s += mq_tasks_mean_time(t, v);
	}
	for (uint32_t op = 0; op < p->q->model->n_ops; op++) {
		double *f = s->op_feature + s->coarse.group_of[t->space.group_of[op]] * MQ_TAG_OP_FEATURES;

		f[2] += p->q->model->op[op].param;
		f[3] += p->q->model->op[op].output * p->q->train->batch;
		params += p->q->model->op[op].param;
		outputs += p->q->model->op[op].output * p->q->train->batch;
	}
	for (uint32_t g = 0; g < s->n; g++) {
		double *f = s->op_feature + g * MQ_TAG_OP_FEATURES;

		f[0] = scaled(-gain_s[g] / fmax(total_s, 1e-300) * s->n);
		f[1] = scaled(f[1] / most_B);
		f[4] = f[2] / params;
		f[5] = f[3] / outputs;
		f[2] = scaled_bytes(s, f[2] * grad_B);
		f[3] = scaled_bytes(s, f[3] * value_B);
	}
	s->order = mq_arena_order(p->arena, gain_s, s->n);
}

static double gradient_bytes(const struct mq_problem *p)
{
	return mq_model_totals(p->q->model).parameters * mq_dtype_size(p->q->train->grad_dtype);
}

static void describe_devices(struct mq_tag_space *s, const struct mq_problem *p)
{
	const struct mq_tasks *t = &s->coarse.tasks;
	double memory = 1e-300, bw = 1e-300, speed = 1e-300;

	for (uint32_t g = 0; g < s->n_devices; g++) {
		memory = fmax(memory, s->device[g].memory_B);
		bw = fmax(bw, s->device[g].bw_Bps);
		speed += s->device[g].n * s->device[g].speed;
	}
	s->device_feature = mq_arena_array(p->arena, s->n_devices * MQ_TAG_DEVICE_FEATURES, double);
	s->place = mq_arena_array(p->arena, s->n * s->n_devices, double);
	for (uint32_t g = 0; g < s->n_devices; g++) {
		double *f = s->device_feature + g * MQ_TAG_DEVICE_FEATURES;
		uint32_t d = 0;

		f[0] = s->device[g].n / 8.0;
		f[1] = s->device[g].memory_B / memory;
		f[2] = s->device[g].speed;
		f[3] = s->device[g].n * s->device[g].speed / speed;
		f[4] = scaled(s->device[g].bw_Bps / bw);
		f[5] = scaled(gradient_bytes(p) / s->device[g].bw_Bps / s->whole_s);
		while (t->space.device[d] != s->device[g].rank[0])
			d++;
		for (uint32_t v = 0; v < t->n; v++)
			s->place[s->coarse.group_of[v] * s->n_devices + g] +=
				fmin(t->time[(size_t)v * t->n_devices + d], 100 * mq_tasks_mean_time(t, v));
	}
	for (uint32_t i = 0; i < s->n * s->n_devices; i++)
		s->place[i] = scaled(s->place[i] / s->whole_s);
}

static void describe_actions(struct mq_tag_space *s, const struct mq_problem *p)
{
	double speed = 1e-300, devices = 0, best = 1e-300, params_B = 4 * gradient_bytes(p);

	for (uint32_t g = 0; g < s->n_devices; g++) {
		speed += s->device[g].n * s->device[g].speed;
		devices += s->device[g].n;
	}
	s->action_feature = mq_arena_array(p->arena, s->n_actions * MQ_TAG_ACTION_FEATURES, double);
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t a = 0; a < s->n_actions; a++) {
			double *f = s->action_feature + a * MQ_TAG_ACTION_FEATURES, slowest = 1, sum = 0;
			double link = INFINITY, room_B = INFINITY;
			uint32_t mask = s->action[a].mask;

			for (uint32_t g = 0; g < s->n_devices; g++) {
				if (!(mask >> g & 1))
					continue;
				slowest = fmin(slowest, s->device[g].speed);
				sum += s->device[g].n * s->device[g].speed;
				room_B = fmin(room_B, s->device[g].memory_B);
				for (uint32_t h = 0; h < s->n_devices; h++)
					if (mask >> h & 1)
						link = fmin(link, s->bw[g * s->n_devices + h]);
			}
			double rate = s->action[a].n_devices * slowest; /* with equal shares */
			best = fmax(best, rate);
			f[s->action[a].how] = 1;
			f[3] = s->action[a].n_devices / devices;
			f[4] = sum / speed;
			f[5] = slowest;
			f[6] = rate / best;
			f[7] = scaled(gradient_bytes(p) / fmax(link, 1) / s->whole_s);
			f[8] = scaled(params_B / room_B);
		}
}

static void describe_edges(struct mq_tag_space *s, const struct mq_problem *p)
{
	const struct mq_tasks *t = &s->coarse.tasks;

	s->src = mq_arena_array(p->arena, t->n_edges, uint32_t);
	s->dst = mq_arena_array(p->arena, t->n_edges, uint32_t);
	s->edge = mq_arena_array(p->arena, t->n_edges, double);
	for (uint32_t e = 0; e < t->n_edges; e++) {
		uint32_t a = s->coarse.group_of[t->edge[e].src], b = s->coarse.group_of[t->edge[e].dst];
		uint32_t k = 0;

		if (a == b)
			continue;
		while (k < s->n_edges && (s->src[k] != a || s->dst[k] != b))
			k++;
		s->src[k] = a;
		s->dst[k] = b;
		s->edge[k] += t->edge[e].bytes;
		s->n_edges += k == s->n_edges;
	}
	for (uint32_t k = 0; k < s->n_edges; k++)
		s->edge[k] = scaled_bytes(s, s->edge[k]);
}

/* Groups ops by METIS (loosely balanced, as in the paper). */
static enum mq_status group_ops(struct mq_tag_space *s, const struct mq_problem *p, const struct mq_tag_options *o,
				struct mq_err *err)
{
	struct mq_partition how = { .parts = o->groups, .seed = 1, .tolerance = 5 };
	struct mq_coarse *c = &s->coarse;

	MQ_TRY(mq_tasks_make(p, "tag", &c->tasks, err));
	c->group_of = mq_arena_count(p->arena, c->tasks.n);
	if (o->groups < c->tasks.n && !mq_partition_tasks(&c->tasks, &how, p->arena, c->group_of, NULL))
		return mq_fail(err, MQ_EBUG, "engine 'tag': METIS refused a graph of %u vertices", c->tasks.n);
	return mq_coarse_finish(p, "tag", c, err);
}

/* Finds micro-batches and recomputation that fit on all devices: data-parallel, else model-parallel. */
static enum mq_status find_fit(struct mq_tag_space *s, const struct mq_problem *p, bool heterog, struct mq_err *err)
{
	uint32_t *action = mq_arena_array(p->arena, s->n, uint32_t);
	struct mq_fit plain = { .micro_batches = 1, .fits = true }, fit[2];
	struct mq_plan plan;

	for (int k = 0; k < 2; k++) {
		for (uint32_t g = 0; g < s->n; g++)
			action[g] = k ? s->model : 0;
		s->fit = plain;
		MQ_TRY(mq_tag_plan(s, action, p, p->arena, &plan, err));
		/* at least one sample per replica and micro-batch, if that fits */
		fit[k] = mq_fit_find(p, &plan, p->q->train->batch / s->action[0].n_devices);
		if (fit[k].fits && fit[k].micro_batches == 1 && !fit[k].recompute)
			return MQ_OK;
	}
	if (!fit[0].fits && !fit[1].fits)
		fit[1] = mq_fit_find(p, &plan, p->q->train->batch);
	s->fit = fit[0].fits || !fit[1].fits ? fit[0] : fit[1];
	list_actions(s, p, heterog); /* actions whose replicas each have a sample */
	return MQ_OK;
}

enum mq_status mq_tag_space_make(const struct mq_problem *p, const struct mq_tag_options *options,
				 struct mq_tag_space *s, struct mq_err *err)
{
	*s = (struct mq_tag_space){ .fit.micro_batches = 1 };
	MQ_TRY(group_ops(s, p, options, err));
	s->n = s->coarse.n;
	MQ_TRY(group_devices(s, p, err));
	measure_speeds(s);
	measure_links(s, p);
	list_actions(s, p, options->heterog);
	if (!s->n_actions)
		return mq_bad(err, "engine 'tag': no choice is possible with batch %g", p->q->train->batch);
	MQ_TRY(find_fit(s, p, options->heterog, err));
	describe_ops(s, p);
	describe_devices(s, p);
	describe_actions(s, p);
	describe_edges(s, p);
	return MQ_OK;
}

/* ---- plans ----------------------------------------------------------------------------------- */

void mq_tag_devices_of(const struct mq_tag_space *s, const struct mq_tag_action *a, uint32_t *device)
{
	uint32_t n = 0;

	for (uint32_t g = 0; g < s->n_devices; g++)
		for (uint32_t i = 0; (a->mask & 1u << g) && i < s->device[g].n; i++)
			device[n++] = s->device[g].rank[i];
}

/* Places the ops of a model-parallel group on its devices in topological order, equal time per device. */
static void place_group(const struct mq_tag_space *s, uint32_t group, const struct mq_tag_action *a,
			struct mq_arena *arena, uint32_t *rank_of_task)
{
	const struct mq_tasks *t = &s->coarse.tasks;
	uint32_t *device = mq_arena_array(arena, a->n_devices, uint32_t);
	double total = 0, sum = 0;

	mq_tag_devices_of(s, a, device);
	for (uint32_t v = 0; v < t->n; v++)
		total += s->coarse.group_of[v] == group ? mq_tasks_mean_time(t, v) : 0;
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t v = t->order[i];

		if (s->coarse.group_of[v] != group)
			continue;
		double time_s = mq_tasks_mean_time(t, v);
		double at = total > 0 ? (sum + time_s / 2) / total * a->n_devices : 0;

		rank_of_task[v] = device[(uint32_t)fmin(at, a->n_devices - 1)];
		sum += time_s;
	}
}

enum mq_status mq_tag_plan(const struct mq_tag_space *s, const uint32_t *action, const struct mq_problem *p,
			   struct mq_arena *arena, struct mq_plan *plan, struct mq_err *err)
{
	const struct mq_tasks *t = &s->coarse.tasks;
	uint32_t *device = mq_arena_array(arena, p->q->cluster->n_devices, uint32_t);
	uint32_t *rank = mq_arena_array(arena, t->n, uint32_t);

	mq_plan_init(plan, arena, p->q->model->n_ops);
	for (uint32_t g = 0; g < s->n; g++)
		if (s->action[action[g]].how == MQ_TAG_MODEL)
			place_group(s, g, &s->action[action[g]], arena, rank);
	for (uint32_t op = 0; op < p->q->model->n_ops; op++) {
		uint32_t task = t->space.group_of[op], a = action[s->coarse.group_of[task]];
		const struct mq_tag_action *how = &s->action[a];
		struct mq_config c = { .n_devices = 1, .device = &rank[task], .split = MQ_UNSPLIT };

		if (how->how != MQ_TAG_MODEL) {
			mq_tag_devices_of(s, how, device);
			c.device = device;
			c.n_devices = c.split[MQ_DIM_BATCH] = how->n_devices;
			c.sync = s->duplicate && s->duplicate[a] && s->duplicate[a][op] ? MQ_SYNC_DUPLICATE :
				 how->how == MQ_TAG_SERVER                              ? MQ_SYNC_PS :
											  MQ_SYNC_ALLREDUCE;
		}
		plan->config_of[op] = mq_plan_intern(plan, &c, arena);
	}
	if (s->fit.micro_batches > 1 || s->fit.recompute)
		mq_fit_apply(&s->fit, plan);
	return mq_plan_check(plan, p->q->model, p->q->cluster, p->q->train, err);
}
