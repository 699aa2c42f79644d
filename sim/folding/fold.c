/* fold.c - representatives for each pipeline rank, where that changes no answer. See fold.h.
 *
 * Positions of a stage are classes, and the first of a class stands for all of it. That is exact if
 *   1. all devices of a class are of one type and do the same work (as many samples, one device list per stage, stages
 *      of equal size that exchange tensors position by position);
 *   2. the communications of the representatives have replicas under translation of all members inside their classes
 *      that cover these classes, and all replicas take the same time.
 * Then by induction every position sees what its representative sees, as long as replicas that meet others on their
 * links go on ending together. That is the executor's business (it knows who meets): where they do not, it reports that
 * the folded time may differ. Anything else is refused.
 *
 * A proof that fails, or such a run, tells which positions differed (mq_folding_apart), and the next view's classes are
 * those of the last one without that: where the port lies nearer to one half of a machine, or the first and the last
 * machine of a group have less to send, a few positions still stand for those of all machines.
 *
 * All positions of equal work are one class at first. Where groups are no translations of each other in them (a stage
 * that lies over NVLink domains in many ways), they are divided in blocks of neighbours, of two, three, ... of a stage:
 * those of tensor parallelism, which lies innermost, still are alike. SPDX-License-Identifier: Apache-2.0 */
#include "folding/fold.h"

#include <math.h>
#include <stdio.h>

#include "costing/clocks.h"
#include "costing/launch_overhead.h"
#include "folding/fuse.h"
#include "folding/equivalence_classes.h"

enum {
	MOST_TOLD = 8,  /* communications that one view tells to be unlike in different places */
	MOST_FINER = 8, /* views that are like the one before without what it told */
	SOON = 3,
	SLOWLY = 24, /* periods in which pipelines fill: most, and nearly all (chosen) */
};

struct mq_folding {
	struct mq_low *low; /* NULL: there is no other view */
	bool fold, keep_tasks, steady;
	/* Of the last view: who stands for each position of a stage; in how many blocks those that are alike were looked
	 * for, which made so many classes, and how many views of these there were; how much of what was told it heard. */
	uint32_t *like, n_classes, n_blocks, most_classes, n_finer, n_heard;
	bool finer; /* the next view's classes are, already */
	uint32_t n_told, told_room;
	const double **told_s; /* [n_told][positions] see mq_folding_apart */
	struct mq_lowered *lowered;
	struct mq_arena *arena;
	struct mq_view last;
	uint32_t filling; /* periods of it, see mq_low_steady */
	char why[128];    /* the first classes that the next view might have had were refused */
};

static bool refuse(struct mq_folding *f, const char *why)
{
	if (!*f->why)
		snprintf(f->why, sizeof(f->why), "%s", why);
	return false;
}

/* ---- before the templates: who is simulated ---------------------------------------------------------- */

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

/* Keeps apart what differs in a key: each goes to the first of those it was with that has the same, or to itself. */
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

/* Positions are alike that have devices of one type, and as many samples, in all stages. */
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

/* Those that are alike in the last view without what it told, or, where that is nothing, or every position, those of
 * smaller blocks. False: no position stands for another. */
static bool next_classes(struct mq_folding *f)
{
	uint32_t n = n_positions(f);

	for (; f->n_heard < f->n_told; f->n_heard++)
		f->finer |= split(f, f->told_s[f->n_heard]);
	if (f->finer)
		f->n_classes = count_classes(f);
	while ((!f->finer || f->n_classes >= n || f->n_finer > MOST_FINER) && f->n_blocks < n) {
		do
			f->n_blocks++;
		while (n % f->n_blocks);
		for (uint32_t p = 0; p < n; p++)
			f->like[p] = p - p % (n / f->n_blocks);
		split_by_work(f);
		for (uint32_t i = 0; i < f->n_told; i++)
			split(f, f->told_s[i]);
		f->n_classes = count_classes(f);
		f->finer = f->n_classes > f->most_classes;
		f->most_classes = f->n_classes;
		f->n_finer = 0;
	}
	f->n_finer++;
	f->finer = false;
	return f->n_classes < n;
}

/* Positions by who stands for them. */
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

/* Picks the devices that are simulated, each for as many as can be; NULL: folding is not asked for or plainly not
 * exact. */
static struct mq_fold *decide(struct mq_folding *f, const bool **active)
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
	for (uint32_t stage = 0; stage < low->num.n_stages; stage++) { /* whose ops have the same devices */
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
			double key[] = { t->kind,  t->coll,  t->comm, t->device, t->peer,
					 t->bytes, t->dtype, t->algo, t->proto,  t->root };
			bool found;

			if (t->kind != MQ_TASK_SEND && t->kind != MQ_TASK_COLLECTIVE)
				continue;
			if (t->kind == MQ_TASK_COLLECTIVE) /* of every member, the same */
				key[3] = key[4] = 0;
			mq_index_put(seen, key, sizeof(key), 0, &found);
			if (!found)
				MQ_PUSH(v->arena, v->request, v->n_requests, v->room, t);
		}
}

/* Where replicas differ, views that follow are told which. */
static enum mq_status check_replicas(struct verify *v, bool *same, struct mq_err *err)
{
	struct mq_folding *f = v->f;
	uint32_t n_told = f->n_told;

	for (uint32_t i = 0; i < v->n_requests; i++)
		if (!mq_replica_flows_count(v->replica_flows, v->request[i])) {
			*same = refuse(f, "groups are not translations of each other");
			if (f->n_told) { /* a group of some that are unlike others is unlike theirs */
				double *shape = mq_arena_array(v->arena, n_positions(f), double);

				mq_replica_flows_shapes(v->replica_flows, v->request[i], shape);
				f->finer |= split(f, shape);
			}
		}
	if (*same)
		MQ_TRY(mq_replica_flows_zones(v->replica_flows, v->request, v->n_requests, err));
	if (*same)
		MQ_TRY(mq_replica_flows_uncontended(v->replica_flows, v->request, v->n_requests, err));
	for (uint32_t i = 0; i < v->n_requests && f->n_told - n_told < MOST_TOLD && (*same || f->n_told > n_told);
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

/* Proves that the fold is exact; then fuses what can be. */
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
		status = mq_fold_fuse(f->low, fold, err);
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
		.steady = request->steady,
		.lowered = lowered,
		.arena = arena,
	};
	f->low = mq_low_begin(&request->lower, arena, lowered);
	return f;
}

void mq_folding_apart(struct mq_folding *f, const double *apart_s)
{
	MQ_PUSH(f->arena, f->told_s, f->n_told, f->told_room, apart_s);
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

/* The schedule of the templates; no view follows one that has none, or is of all devices and micro-batches. */
static void string(struct mq_folding *f, const struct mq_fold *fold, uint32_t filling, struct mq_view *view)
{
	const char *otherwise = f->fold ? "; use fewer micro-batches" : MQ_LOW_FOLD;
	const struct mq_steady *steady;

	if (*f->why)
		otherwise = mq_arena_printf(
			f->arena, ", and identical ranks cannot be folded (%s); use fewer micro-batches", f->why);
	struct mq_schedule *schedule = mq_low_string(f->low, otherwise, f->steady ? filling : 0, &steady);

	*view = f->last = (struct mq_view){ .schedule = schedule, .fold = fold, .steady = steady };
	f->filling = filling;
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
	if (f->last.steady) { /* the pipeline was not full yet */
		string(f, f->last.fold, f->filling < SLOWLY ? SLOWLY : 0, view);
		return MQ_OK;
	}
	while ((fold = decide(f, &active))) {
		bool exact;

		if (!make_templates(f, active))
			return MQ_OK;
		MQ_TRY(verify(f, fold, &exact, err));
		if (exact) {
			string(f, fold, SOON, view);
			return MQ_OK;
		}
	}
	if (make_templates(f, NULL))
		string(f, NULL, SOON, view);
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
