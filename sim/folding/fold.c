/* fold.c - picks representatives of each pipeline rank where that changes no result. See fold.h.
 *
 * A position is a place in a stage's device list. The first position of a class stands for all of it. That is exact if
 *   1. all devices of a class are of one type and do the same work (as many samples, one device list per stage, stages
 *      of equal size that exchange tensors position by position);
 *   2. the communications of the representatives have replicas under translation of all members inside their classes
 *      that cover these classes, and all replicas take the same time.
 * Then by induction every position takes its representative's times, as long as replicas that share links with other
 * communications still end together. Only a run shows that; if they do not, it reports mq_timeline.inexact.
 *
 * A proof that fails, or such a run, tells which positions differed (mq_folding_apart), and the next view splits their
 * classes: where half of a machine lies nearer to the port, or the first and last machine of a group send less, a few
 * positions still stand for those of all machines.
 *
 * At first all positions of equal work are one class. Where groups are not translations of each other within a class (a
 * stage lies across NVLink domains in several ways), the stage is cut into two, three, ... blocks of neighbours, each
 * with its own classes: ranks of one tensor-parallel group stay alike. SPDX-License-Identifier: Apache-2.0 */
#include "folding/fold.h"

#include <math.h>
#include <stdio.h>

#include "costing/costing.h"
#include "costing/predict.h"
#include "folding/equivalence_classes.h"

enum {
	MOST_APART = 8, /* communications by which one failed proof splits classes */
	MOST_FINER = 8, /* successive views that only split the classes of the one before */
	SHORT = 4,      /* ranks of a pipeline whose periods are short */
	SOON = 3,       /* periods until most pipelines are full, one more where they are short; */
	SLOWLY = 24,    /* until nearly all are (chosen) */
};

struct mq_folding {
	struct mq_low *low; /* NULL: no view is left */
	bool fold, keep_tasks, steady, screen;
	/* Of the last view: [positions] representatives, their number, blocks of a stage; number of classes when the
	 * blocks were cut, and views since; how many of apart_s[] have split it. */
	uint32_t *like, n_classes, n_blocks, most_classes, n_finer, n_applied;
	bool finer; /* a class of the next view is split already */
	uint32_t n_apart, apart_room;
	const double **apart_s; /* [n_apart][positions] see mq_folding_apart */
	struct mq_lowered *lowered;
	struct mq_arena *arena;
	struct mq_view last;
	bool unsteady;    /* it was */
	uint32_t filling; /* periods until the pipeline is full, as mq_low_schedule assumed */
	char why[128];    /* why the coarsest classes of the next view were refused */
};

static bool refuse(struct mq_folding *f, const char *why)
{
	if (!*f->why)
		snprintf(f->why, sizeof(f->why), "%s", why);
	return false;
}

/* ---- before the templates: the simulated devices ---------------------------------------------------------- */

static uint32_t n_positions(const struct mq_folding *f)
{
	return mq_low_config(f->low, 0)->n_devices;
}

static bool one_device_list(struct mq_folding *f)
{
	const struct mq_low *low = f->low;

	for (uint32_t op = 0; op < low->model->n_ops; op++) {
		uint32_t first = low->num.stage_op[low->num.stage_first[low->num.stage_of[op]]];

		if (mq_low_config(low, op)->n_devices != n_positions(f) ||
		    low->num.devset_of[low->plan->config_of[op]] != low->num.devset_of[low->plan->config_of[first]])
			return refuse(f, "ops of a stage, or stages, differ in their devices");
	}
	return true;
}

/* Splits classes by a key: a position joins the first one of its class with an equal key, or represents itself. True: a
 * class was split. */
static bool split(struct mq_folding *f, const double *key)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	uint32_t n = n_positions(f), *next = mq_arena_none(&scratch, n);
	bool any = false;

	for (uint32_t p = 0; p < n; p++) {
		uint32_t q = f->like[p];

		while (mq_equivalence_differ(fmin(key[q], key[p]), fmax(key[q], key[p])) && next[q] != MQ_NONE)
			q = next[q];
		if (mq_equivalence_differ(fmin(key[q], key[p]), fmax(key[q], key[p]))) {
			q = next[q] = p;
			any = true;
		}
		f->like[p] = q;
	}
	return any;
}

/* Splits classes by device type and number of samples, in every stage. */
static void split_by_work(struct mq_folding *f)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	const struct mq_low *low = f->low;
	double *calib = mq_arena_array(&scratch, n_positions(f), double);
	double *samples = mq_arena_array(&scratch, n_positions(f), double);

	for (uint32_t i = 0; i < low->plan->n_configs; i++) {
		const struct mq_config *c = &low->plan->config[i];

		for (uint32_t p = 0; p < n_positions(f); p++) {
			calib[p] = low->q.cluster->device[c->device[p]].calib;
			samples[p] = mq_low_samples(low, c, p);
		}
		split(f, calib);
		split(f, samples);
	}
}

static uint32_t count_classes(const struct mq_folding *f)
{
	uint32_t count = 0;

	for (uint32_t p = 0; p < n_positions(f); p++)
		count += f->like[p] == p;
	return count;
}

/* Splits the last view's classes by the communications found apart since; if that splits nothing, or every class to
 * single positions, takes smaller blocks. False: no position stands for another. */
static bool next_classes(struct mq_folding *f)
{
	uint32_t n = n_positions(f);

	for (; f->n_applied < f->n_apart; f->n_applied++)
		f->finer |= split(f, f->apart_s[f->n_applied]);
	if (f->finer)
		f->n_classes = count_classes(f);
	while ((!f->finer || f->n_classes >= n || f->n_finer > MOST_FINER) && f->n_blocks < n) {
		do
			f->n_blocks++;
		while (n % f->n_blocks);
		for (uint32_t p = 0; p < n; p++)
			f->like[p] = p - p % (n / f->n_blocks);
		split_by_work(f);
		for (uint32_t i = 0; i < f->n_apart; i++)
			split(f, f->apart_s[i]);
		f->n_classes = count_classes(f);
		f->finer = f->n_classes > f->most_classes;
		f->most_classes = f->n_classes;
		f->n_finer = 0;
	}
	f->n_finer++;
	f->finer = false;
	return f->n_classes < n;
}

/* Lists the positions of each class. */
static void list_alike(const struct mq_folding *f, struct mq_fold *fold)
{
	uint32_t n = n_positions(f), *pool = mq_arena_array(f->arena, n, uint32_t);
	struct mq_alike *alike = mq_arena_array(f->arena, n, struct mq_alike);

	fold->alike = mq_arena_array(f->arena, n, const struct mq_alike *);
	for (uint32_t p = 0; p < n; p++)
		alike[f->like[p]].n++;
	for (uint32_t p = 0; p < n; p++) {
		alike[p].position = pool;
		pool += alike[p].n;
		alike[p].n = 0;
	}
	for (uint32_t p = 0; p < n; p++) {
		struct mq_alike *a = &alike[f->like[p]];

		a->position[a->n++] = p;
		fold->alike[p] = a;
	}
}

/* Picks the devices to simulate, one for each class; NULL: folding is not asked for, or plainly not exact. */
static struct mq_fold *choose_devices(struct mq_folding *f, const bool **active)
{
	struct mq_low *low = f->low;
	const struct mq_cluster *cluster = low->q.cluster;
	uint32_t n = n_positions(f), n_active = 0;

	if (!f->fold || f->n_classes >= n)
		return NULL;
	for (uint32_t t = 0; t < low->moves.n; t++)
		if (low->moves.transfer[t].way == MQ_WAY_BOXES) {
			refuse(f, "tensors change their layout between devices");
			return NULL;
		}
	if (!f->like)
		f->like = mq_arena_array(f->arena, n, uint32_t);
	if (!one_device_list(f) || !next_classes(f))
		return NULL;
	bool *picked = mq_arena_array(f->arena, cluster->n_devices, bool);
	struct mq_fold *fold = mq_arena_alloc(f->arena, sizeof(*fold));
	fold->n_positions = n;
	list_alike(f, fold);
	fold->position = mq_arena_array(f->arena, cluster->n_devices, uint32_t);
	fold->device = mq_arena_array(f->arena, low->num.n_ranks, const uint32_t *);
	fold->rank_of = low->num.rank_of_device;
	for (uint32_t stage = 0; stage < low->num.n_stages; stage++) { /* all ops of a stage have the same devices */
		const struct mq_config *c = mq_low_config(low, low->num.stage_op[low->num.stage_first[stage]]);

		fold->device[mq_low_rank(low, stage)] = c->device;
		for (uint32_t p = 0; p < n; p++) {
			fold->position[c->device[p]] = p;
			picked[c->device[p]] = f->like[p] == p;
		}
	}
	fold->weight = mq_arena_array(f->arena, (size_t)low->num.n_ranks * f->n_classes, double);
	for (uint32_t d = 0; d < cluster->n_devices; d++)
		if (picked[d])
			fold->weight[n_active++] = fold->alike[fold->position[d]]->n;
	*active = picked;
	return fold;
}

/* ---- after the templates: is it exact? ------------------------------------------------------------------ */

struct verify {
	struct mq_folding *f;
	struct mq_arena *arena;
	struct mq_replica_flows *replica_flows;
	uint32_t n_requests, room;
	const struct mq_task **request; /* every distinct communication of the templates */
};

static void list_requests(struct verify *v)
{
	const struct mq_low *low = v->f->low;
	struct mq_index *seen = mq_index_new(v->arena);

	for (uint32_t i = 0; i < low->num.n_stages * MQ_N_PASSES; i++)
		for (uint32_t k = 0; k < low->prog.pass[i].n_tasks; k++) {
			const struct mq_task *t = &low->prog.pass[i].task[k].task;
			const struct mq_communication_key key = mq_communication_key(t);
			bool found;

			if (t->kind != MQ_TASK_SEND && t->kind != MQ_TASK_COLLECTIVE)
				continue;
			mq_index_put(seen, &key, sizeof(key), 0, &found);
			if (!found)
				MQ_PUSH(v->arena, v->request, v->n_requests, v->room, t);
		}
}

/* Checks that replicas take equal times; where they differ, later views keep those positions apart. */
static enum mq_status check_replicas(struct verify *v, bool *same, struct mq_err *err)
{
	struct mq_folding *f = v->f;
	uint32_t n_apart = f->n_apart;

	for (uint32_t i = 0; i < v->n_requests; i++)
		if (!mq_replica_flows_count(v->replica_flows, v->request[i])) {
			*same = refuse(f, "groups are not translations of each other");
			if (f->n_apart) { /* a group that met the classes' splits differs from one that did not */
				double *shape = mq_arena_array(v->arena, n_positions(f), double);

				mq_replica_flows_shapes(v->replica_flows, v->request[i], shape);
				f->finer |= split(f, shape);
			}
		}
	if (*same)
		MQ_TRY(mq_replica_flows_zones(v->replica_flows, v->request, v->n_requests, err));
	if (*same)
		MQ_TRY(mq_replica_flows_uncontended(v->replica_flows, v->request, v->n_requests, err));
	for (uint32_t i = 0; i < v->n_requests && f->n_apart - n_apart < MOST_APART && (*same || f->n_apart > n_apart);
	     i++) {
		struct mq_replica_flow_times times;

		MQ_TRY(mq_replica_flows_times(v->replica_flows, v->request[i], &times, err));
		if (times.same)
			continue;
		double *apart_s = mq_arena_array(f->arena, n_positions(f), double);

		MQ_TRY(mq_replica_flows_positions(v->replica_flows, v->request[i], apart_s, err));
		mq_folding_apart(f, apart_s);
		*same = refuse(f, v->request[i]->kind == MQ_TASK_SEND ?
					  "equal messages take different times in different places" :
					  "equal collectives take different times in different places");
	}
	return MQ_OK;
}

/* Proves that the fold is exact; if so, fuses runs of tasks. */
static enum mq_status verify(struct mq_folding *f, struct mq_fold *fold, bool *exact, struct mq_err *err)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct verify v = { .f = f, .arena = &arena };
	const struct mq_view view = { .schedule = f->low->prog.schedule, .fold = fold };
	enum mq_status status;

	*exact = true;
	fold->comm = f->low->prog.member;
	v.replica_flows = fold->replica_flows =
		mq_replica_flows_new(f->low->q.cluster, f->low->q.calib, &view, f->arena);
	list_requests(&v);
	status = check_replicas(&v, exact, err);
	mq_arena_fini(&arena);
	if (status == MQ_OK && *exact && !f->keep_tasks)
		status = mq_fold_fuse(f->low, fold, f->screen, err);
	return status;
}

/* ---- views ------------------------------------------------------------------------------------------------ */

struct mq_folding *mq_folding_begin(const struct mq_fold_request *request, struct mq_arena *arena,
				    struct mq_lowered *lowered)
{
	struct mq_folding *f = mq_arena_alloc(arena, sizeof(*f));

	*f = (struct mq_folding){
		.fold = request->fold,
		.keep_tasks = request->keep_tasks,
		.screen = request->screen,
		.steady = request->steady,
		.lowered = lowered,
		.arena = arena,
	};
	f->low = mq_low_begin(&request->lower, arena, lowered);
	return f;
}

void mq_folding_apart(struct mq_folding *f, const double *apart_s)
{
	MQ_PUSH(f->arena, f->apart_s, f->n_apart, f->apart_room, apart_s);
}

void mq_folding_unsteady(struct mq_folding *f)
{
	f->unsteady = true;
}

void mq_folding_end(struct mq_folding *f)
{
	if (f->low)
		mq_low_end(f->low);
	f->low = NULL;
}

/* False: the verdict forbids more views. */
static bool make_templates(struct mq_folding *f, const bool *active)
{
	if (!mq_low_templates(f->low, active)) {
		mq_folding_end(f);
		return false;
	}
	mq_launch_overhead_apply(f->low);
	mq_clocks_apply(f->low);
	return true;
}

/* Periods that the first view leaves for the pipeline to fill. */
static uint32_t soon(const struct mq_folding *f)
{
	return f->low->num.n_ranks <= SHORT ? SOON + 1 : SOON;
}

/* Makes a view's schedule of the templates. It is the last view if there is no schedule (too many tasks), or if it has
 * all devices and micro-batches. */
static void make_schedule(struct mq_folding *f, const struct mq_fold *fold, uint32_t filling, struct mq_view *view)
{
	const char *otherwise = f->fold ? "; use fewer micro-batches" : MQ_LOW_FOLD;
	const struct mq_steady *steady;

	if (*f->why)
		otherwise = mq_arena_printf(
			f->arena, ", and identical ranks cannot be folded (%s); use fewer micro-batches", f->why);
	struct mq_schedule *schedule = mq_low_schedule(f->low, otherwise, f->steady ? filling : 0, &steady);

	*view = f->last = (struct mq_view){ .schedule = schedule, .fold = fold, .steady = steady };
	f->filling = filling;
	f->unsteady = false;
	if (schedule && (fold || steady))
		return;
	f->lowered->schedule = schedule;
	if (schedule && f->low->rq.held)
		mq_low_held(f->low);
	mq_folding_end(f);
}

enum mq_status mq_folding_next(struct mq_folding *f, struct mq_view *view, struct mq_err *err)
{
	const bool *active;
	struct mq_fold *fold;

	*view = (struct mq_view){ 0 };
	*f->why = '\0';
	if (!f->low)
		return MQ_OK;
	if (f->unsteady) { /* allow longer for the pipeline to fill */
		make_schedule(f, f->last.fold, f->filling < SLOWLY ? SLOWLY : 0, view);
		return MQ_OK;
	}
	while ((fold = choose_devices(f, &active))) {
		bool exact;

		if (!make_templates(f, active))
			return MQ_OK;
		MQ_TRY(verify(f, fold, &exact, err));
		if (exact) {
			make_schedule(f, fold, soon(f), view);
			return MQ_OK;
		}
	}
	if (make_templates(f, NULL))
		make_schedule(f, NULL, soon(f), view);
	return MQ_OK;
}

enum mq_status mq_lower(const struct mq_lower_request *request, struct mq_arena *arena, struct mq_lowered *lowered,
			struct mq_err *err)
{
	const struct mq_fold_request all = { .lower = *request };
	struct mq_folding *folding = mq_folding_begin(&all, arena, lowered);
	struct mq_view whole;
	enum mq_status status = mq_folding_next(folding, &whole, err);

	mq_folding_end(folding);
	return status;
}
