/* fuse.c - see fold.h; the runs are those of runs.h.
 *
 * A collective that shares its links with no other communication lasts a fixed time, as a compute task does, and so
 * does a run of both. mq_fused_call keeps the collectives' exposed time and their part of the critical path. Time in
 * which a collective overlaps a send or recv counts as the collective's. SPDX-License-Identifier: Apache-2.0 */
#include "folding/fold.h"

#include <math.h>

#include "maquette/cost.h"
#include "costing/predict.h"
#include "folding/equivalence_classes.h"
#include "folding/runs.h"

/* Users of a link, replicas included. */
struct users {
	uint32_t n;       /* communicators and sender-receiver pairs before the optimizer step, gradients aside */
	uint32_t late[2]; /* 1 + up to two devices whose gradient or POST collectives use it */
	bool more;        /* a third one does */
};

struct fused {
	uint32_t work;
	struct mq_fused is;
};

struct fuser {
	struct mq_low *low;
	struct mq_fold *fold;
	bool screen;
	struct mq_err *err;
	struct mq_arena *arena;
	struct users *users;    /* [links] */
	struct mq_index *fixed; /* collectives -> their fixed time, NaN: they have none */
	uint32_t calib;         /* of the current device; MQ_NONE: none yet */
	struct mq_device_calib at;
	uint32_t n_works;
	double *work_s;            /* [n_works] duration on it, NaN until computed */
	struct mq_line_ends *ends; /* [schedule devices] */
	uint32_t n_fused, fused_room;
	struct fused *fused;
};

/* ---- collectives of fixed length ----------------------------------------------------------------- */

struct counter {
	struct fuser *f;
	const struct mq_task *task;
	bool late;
	uint32_t *stamp, user;
};

static void add_late(struct users *u, uint32_t device)
{
	for (int i = 0; i < 2; i++) {
		if (!u->late[i])
			u->late[i] = 1 + device;
		if (u->late[i] == 1 + device)
			return;
	}
	u->more = true;
}

static void count_link(uint32_t link, uint32_t replica, double bytes, void *data)
{
	struct counter *c = data;
	const struct mq_schedule *s = c->f->low->prog.schedule;
	const struct mq_comm *comm = &s->comm[c->task->comm];
	struct users *u = &c->f->users[link];

	(void)replica;
	(void)bytes;
	if (c->stamp[link] == c->user)
		return;
	c->stamp[link] = c->user;
	if (!c->late) {
		u->n++;
		return;
	}
	for (uint32_t i = 0; i < comm->n; i++)
		add_late(u, comm->rank[i]);
}

/* Counts the users of each link. A device's collectives of gradients, and those after its last micro-batch (POST), are
 * counted apart: they never overlap its own fused tasks, since mq_program.whole is used there. */
static enum mq_status count_users(struct fuser *f)
{
	struct mq_low *low = f->low;
	struct mq_index *seen = mq_index_new(f->arena);
	struct counter c = { .f = f };

	c.stamp = mq_arena_array(f->arena, low->q.cluster->n_links, uint32_t);
	for (uint32_t i = 0; i < low->num.n_stages * MQ_N_PASSES; i++)
		for (uint32_t k = 0; k < low->prog.pass[i].n_tasks; k++) {
			const struct mq_task *t = c.task = &low->prog.pass[i].task[k].task;
			bool pair = t->kind == MQ_TASK_SEND, found;

			if (!pair && t->kind != MQ_TASK_COLLECTIVE)
				continue;
			c.late = !pair && (t->stream == MQ_STREAM_GRAD || i % MQ_N_PASSES == MQ_PASS_POST);
			uint32_t key[] = { t->kind, pair ? t->device : t->comm, t->peer, pair ? 0 : t->stream, c.late };
			mq_index_put(seen, key, sizeof(key), 0, &found);
			c.user += !found;
			if (!found)
				MQ_TRY(mq_replica_flows_links(f->fold->replica_flows, t, false, count_link, &c,
							      f->err));
		}
	return MQ_OK;
}

struct sharing {
	const struct users *users;
	uint32_t device;
	bool shared;
};

static void check_link(uint32_t link, uint32_t replica, double bytes, void *data)
{
	struct sharing *l = data;
	const struct users *u = &l->users[link];

	(void)replica;
	(void)bytes;
	l->shared |= u->n > 1 || u->more;
	for (int i = 0; i < 2; i++)
		l->shared |= u->late[i] && u->late[i] != 1 + l->device;
}

static enum mq_status find_fixed(struct fuser *f, const struct mq_task *t, double *seconds)
{
	struct mq_low *low = f->low;
	struct sharing l = { .users = f->users, .device = t->device };
	struct mq_replica_flow_times times;
	struct mq_task any_root = *t;

	if (mq_coll_has_root(t->coll))
		any_root.root = MQ_NONE;
	*seconds = NAN;
	if (low->prog.schedule->comm[t->comm].n != 1) /* the other simulated members arrive at their own times */
		return MQ_OK;
	MQ_TRY(mq_replica_flows_links(f->fold->replica_flows, &any_root, false, check_link, &l, f->err));
	if (l.shared && !f->screen)
		return MQ_OK;
	MQ_TRY(mq_replica_flows_times(f->fold->replica_flows, &any_root, &times, f->err));
	if (times.any_root || any_root.root == t->root)
		*seconds = l.shared ? times.bound_s : times.alone_s;
	return MQ_OK;
}

/* Duration of a compute task, or of a collective that shares no link; NaN: it is not fixed. */
static enum mq_status known_time(struct fuser *f, const struct mq_task *t, double *seconds)
{
	const struct mq_communication_key key = mq_communication_key(t);
	bool found;

	*seconds = NAN;
	if (t->kind == MQ_TASK_COMPUTE) {
		if (isnan(f->work_s[t->work]))
			f->work_s[t->work] = mq_cost_work(&f->at, &f->low->prog.schedule->work[t->work]);
		*seconds = f->work_s[t->work];
		return MQ_OK;
	}
	if (t->kind != MQ_TASK_COLLECTIVE || t->group)
		return MQ_OK;
	double *fixed_s = mq_index_value(f->fixed, &key, sizeof(key), sizeof(*fixed_s), &found);
	if (!found)
		MQ_TRY(find_fixed(f, t, fixed_s));
	*seconds = *fixed_s;
	return MQ_OK;
}

/* ---- works --------------------------------------------------------------------------------------- */

static void add_call(struct fuser *f, struct mq_fused *fused, uint32_t *room, const struct mq_fused_call *call)
{
	for (uint32_t i = 0; i < fused->n_calls; i++)
		if (fused->call[i].comm == call->comm && fused->call[i].coll == call->coll) {
			fused->call[i].exposed_s += call->exposed_s;
			fused->call[i].path_s += call->path_s;
			return;
		}
	MQ_PUSH(f->low->arena, fused->call, fused->n_calls, *room, *call);
}

static struct mq_fused account(struct fuser *f, struct mq_lines *l, const struct mq_run *run)
{
	struct mq_fused fused = { .seconds = l->finish_s[run->to] };
	bool *on_path = mq_arena_array(f->arena, run->to - run->from + 1, bool);
	uint32_t room = 0;

	mq_lines_expose(l, run);
	for (uint32_t at = run->to; at != MQ_NONE; at = l->behind[at])
		on_path[at - run->from] = true;
	for (uint32_t at = run->from; at <= run->to; at++) {
		const struct mq_task *t = &l->t->task[l->task[at]].task;
		struct mq_fused_call call = { .comm = t->comm, .coll = t->coll };

		if (mq_lines_computes(l, at))
			continue;
		call.exposed_s = l->exposed_s[at];
		call.path_s = on_path[at - run->from] ? l->seconds[at] : 0;
		add_call(f, &fused, &room, &call);
	}
	return fused;
}

static uint32_t fused_work(struct fuser *f, struct mq_lines *l, const struct mq_run *run)
{
	struct mq_schedule *s = f->low->prog.schedule;
	struct mq_work w = { 0 };
	uint32_t room = 0;

	for (uint32_t at = run->from; at <= run->to && !f->screen; at++) {
		if (!mq_lines_computes(l, at))
			continue;
		const struct mq_work *p = &s->work[l->t->task[l->task[at]].task.work];
		for (uint32_t k = 0; k < p->n_kernels; k++)
			MQ_PUSH(f->low->arena, w.kernel, w.n_kernels, room, p->kernel[k]);
		w.flop += p->flop;
		w.bytes += p->bytes;
		w.model_flop += p->model_flop;
	}
	MQ_PUSH(f->low->arena, s->work, s->n_works, s->work_room, w);
	struct fused fused = { s->n_works - 1, { .seconds = l->finish_s[run->to] } };
	if (!f->screen)
		fused.is = account(f, l, run);
	MQ_PUSH(f->arena, f->fused, f->n_fused, f->fused_room, fused);
	return fused.work;
}

/* ---- templates ----------------------------------------------------------------------------------- */

struct fused_tasks {
	uint32_t *head; /* [tasks] first task of its run, MQ_NONE = in no run */
	uint32_t *work; /* [tasks] of a head: the fused work */
};

/* Makes `device` the one whose durations work_s[] caches. */
static void use_device(struct fuser *f, uint32_t device)
{
	const struct mq_low *low = f->low;
	const struct mq_schedule *s = low->prog.schedule;
	uint32_t calib = low->q.cluster->device[s->device[device]].calib;

	if (calib == f->calib && s->clock[device] == f->at.clock)
		return;
	f->calib = calib;
	f->at = mq_predict_device(low->q.cluster, low->q.calib, s, device);
	for (uint32_t i = 0; i < f->n_works; i++)
		f->work_s[i] = NAN;
}

static enum mq_status fuse_line(struct fuser *f, struct mq_lines *l, uint32_t device, struct fused_tasks *to)
{
	uint32_t at = l->first[device];
	struct mq_run run;

	if (at == l->first[device + 1])
		return MQ_OK;
	use_device(f, device);
	for (uint32_t i = at; i < l->first[device + 1]; i++)
		MQ_TRY(known_time(f, &l->t->task[l->task[i]].task, &l->seconds[i]));
	for (; mq_lines_run(l, device, &f->ends[device], at, &run); at = run.to + 1) {
		for (uint32_t k = run.from; k <= run.to; k++)
			to->head[l->task[k]] = l->task[run.from];
		to->work[l->task[run.from]] = fused_work(f, l, &run);
	}
	return MQ_OK;
}

/* Drops all tasks of a run but its first and renumbers; a task that waited for the run's last waits for the first. */
static void compact(struct mq_arena *arena, struct mq_template *t, const struct fused_tasks *in)
{
	struct mq_template old = *t;
	uint32_t *fresh = mq_arena_array(arena, t->n_tasks, uint32_t);

	t->n_tasks = t->n_deps = t->task_room = t->dep_room = 0;
	t->task = NULL;
	t->dep = NULL;
	for (uint32_t i = 0; i < old.n_tasks; i++) {
		struct mq_ttask task = old.task[i];

		if (in->head[i] != MQ_NONE && in->head[i] != i) {
			fresh[i] = fresh[in->head[i]];
			continue;
		}
		uint32_t first = t->n_deps;
		for (uint32_t k = 0; k < task.task.n_deps; k++) {
			uint32_t d = old.dep[task.task.dep_first + k];

			d = d >= MQ_DEP_STREAM(0) ? d : fresh[d];
			MQ_PUSH(arena, t->dep, t->n_deps, t->dep_room, d);
		}
		task.task.dep_first = first;
		if (in->head[i] == i)
			task.task.work = in->work[i];
		fresh[i] = t->n_tasks;
		MQ_PUSH(arena, t->task, t->n_tasks, t->task_room, task);
	}
}

static enum mq_status fuse_template(struct fuser *f, struct mq_lines *l, struct mq_template *t)
{
	struct fused_tasks in = { .head = mq_arena_array(f->arena, t->n_tasks, uint32_t),
				  .work = mq_arena_array(f->arena, t->n_tasks, uint32_t) };

	for (uint32_t i = 0; i < t->n_tasks; i++)
		in.head[i] = MQ_NONE;
	for (uint32_t d = 0; d < f->low->prog.schedule->n_devices; d++)
		MQ_TRY(fuse_line(f, l, d, &in));
	compact(&f->low->scratch, t, &in);
	return MQ_OK;
}

static bool reduces(const struct mq_template *t)
{
	for (uint32_t k = 0; k < t->n_tasks; k++)
		if (t->task[k].task.kind == MQ_TASK_COLLECTIVE && t->task[k].task.stream == MQ_STREAM_GRAD)
			return true;
	return false;
}

/* No task lasts a fixed time where every communication stops compute, or where expert all-to-alls overlap and slow
 * it. */
static bool has_fixed_times(const struct mq_low *low)
{
	for (uint32_t i = 0; i < low->prog.schedule->n_devices; i++) {
		uint32_t calib = low->q.cluster->device[low->prog.schedule->device[i]].calib;

		if (low->q.calib->device[calib].serial_comm)
			return false;
	}
	return !low->plan->overlap_experts;
}

/* Gradient collectives slow the compute of a run, and may share links with its collectives. So from its first gradient
 * collective on, and while it gathers new parameters, a device uses the unfused templates (mq_program.whole). Nothing
 * slows anything in a screen. */
static enum mq_status fuse_all(struct fuser *f)
{
	struct mq_low *low = f->low;
	uint32_t n = low->num.n_stages * MQ_N_PASSES;
	struct mq_lines *lines = mq_arena_array(f->arena, n, struct mq_lines);

	low->prog.whole = mq_arena_array(&low->scratch, n, struct mq_template);
	low->prog.reduces = mq_arena_array(&low->scratch, n, bool);
	memcpy(low->prog.whole, low->prog.pass, n * sizeof(*low->prog.whole));
	for (uint32_t i = 0; i < n; i++) {
		if (!low->prog.pass[i].n_tasks)
			continue;
		low->prog.reduces[i] = !f->screen && reduces(&low->prog.whole[i]);
		lines[i] = mq_lines_of(&low->prog.whole[i], low->prog.schedule->n_devices, f->arena);
		for (uint32_t d = 0; d < low->prog.schedule->n_devices; d++)
			mq_lines_ends(&lines[i], d, &f->ends[d]);
	}
	for (uint32_t i = 0; i < n; i++)
		if (low->prog.pass[i].n_tasks && i % MQ_N_PASSES < MQ_PASS_REDUCE && !low->prog.reduces[i])
			MQ_TRY(fuse_template(f, &lines[i], &low->prog.pass[i]));
	return MQ_OK;
}

enum mq_status mq_fold_fuse(struct mq_low *low, struct mq_fold *fold, bool screen, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct fuser f = { .low = low,
			   .fold = fold,
			   .screen = screen,
			   .err = err,
			   .arena = &arena,
			   .calib = MQ_NONE,
			   .n_works = low->prog.schedule->n_works,
			   .work_s = mq_arena_array(&arena, low->prog.schedule->n_works, double) };

	if (!has_fixed_times(low))
		return MQ_OK;
	f.users = mq_arena_array(&arena, low->q.cluster->n_links, struct users);
	f.fixed = mq_index_new(&arena);
	f.ends = mq_arena_array(&arena, low->prog.schedule->n_devices, struct mq_line_ends);
	MQ_TRY(count_users(&f));
	MQ_TRY(fuse_all(&f));
	if (f.n_fused)
		fold->fused = mq_arena_array(low->arena, low->prog.schedule->n_works, struct mq_fused);
	for (uint32_t i = 0; i < f.n_fused; i++)
		fold->fused[f.fused[i].work] = f.fused[i].is;
	return MQ_OK;
}
