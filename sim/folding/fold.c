/* fold.c - representatives for each pipeline rank, where that changes no answer. See fold.h.
 *
 * The first position of a block stands for all positions of it. That is exact if
 *   1. all devices of a block are of one type and do the same work (equal shares, one device list per
 *      stage, stages of equal size that exchange tensors position by position);
 *   2. the communications of the representatives have replicas under translation of all members inside their
 *      blocks that cover these blocks, and all replicas take the same time.
 * Then by induction every position sees what its representative sees, as long as replicas that meet others on their
 * links go on ending together. That is the executor's business (it knows who meets): where they do not, it reports that
 * the folded time may differ. Anything else is refused.
 *
 * Such a run tells which positions differed (mq_folding_apart), and so does a proof that fails. The views that follow
 * keep these apart: where every second machine of a sharding group is unlike the first, or the port lies nearer to one
 * half of a machine, two blocks stand for those of all groups and machines.
 *
 * A block is the whole stage at best. Where the stage lies over machines in such a way that its positions differ (half
 * of it in one NVLink domain), or where replicas have shares or devices of their own, smaller blocks still are alike:
 * those of tensor parallelism, which lies innermost. SPDX-License-Identifier: Apache-2.0 */
#include "folding/fold.h"

#include <math.h>
#include <stdio.h>

#include "costing/clocks.h"
#include "costing/launch_overhead.h"
#include "folding/fuse.h"
#include "folding/equivalence_classes.h"

enum { MOST_TOLD = 8 }; /* communications that one view tells to be unlike in different places */

struct mq_folding {
	struct mq_low *low; /* NULL: there is no other view */
	bool fold, keep_tasks;
	uint32_t n_kept, size,
		period; /* the last view's: representatives of a stage, and see mq_fold; n_kept 0: none */
	uint32_t n_runs, runs_room;
	const double **apart_s; /* [n_runs] see mq_folding_apart */
	struct mq_lowered *lowered;
	struct mq_arena *arena;
	char why[128]; /* the largest blocks that the next view might have had were refused */
};

static bool refuse(struct mq_folding *f, const char *why)
{
	if (!*f->why)
		snprintf(f->why, sizeof(f->why), "%s", why);
	return false;
}

/* ---- before the templates: who is simulated ---------------------------------------------------------- */

/* The position that stands for another. */
static uint32_t representative(const struct mq_folding *f, uint32_t p)
{
	return p % f->period - p % f->period % f->size;
}

static bool even_configs(struct mq_folding *f)
{
	const struct mq_low *low = f->low;
	double samples = low->train->batch / low->plan->micro_batches;
	uint32_t n = mq_low_config(low, 0)->n_devices, newest = MQ_NONE;

	for (uint32_t op = 0; op < low->model->n_ops; op++) {
		const struct mq_config *c = mq_low_config(low, op);
		uint32_t first = low->num.stage_op[low->num.stage_first[low->num.stage_of[op]]];
		uint32_t devset = low->num.devset_of[low->plan->config_of[op]];

		if (c->n_devices != n || devset != low->num.devset_of[low->plan->config_of[first]])
			return refuse(f, "ops of a stage, or stages, differ in their devices");
		bool uneven = c->share || fmod(samples, c->split[MQ_DIM_BATCH]) != 0;
		if (uneven && (f->period < n || n / c->split[MQ_DIM_BATCH] % f->size)) /* outermost of the mesh */
			return refuse(f, "batch shares are uneven");
		for (uint32_t d = 1; d < n && devset != newest; d++)
			if (low->q.cluster->device[c->device[d]].calib !=
			    low->q.cluster->device[c->device[representative(f, d)]].calib)
				return refuse(f, "a stage has devices of different speed");
		newest = devset;
	}
	return true;
}

/* Did runs, or the proof of a view, say that some position is not like its representative? */
static bool is_known_apart(const struct mq_folding *f)
{
	uint32_t n = mq_low_config(f->low, 0)->n_devices;

	for (uint32_t i = 0; i < f->n_runs; i++)
		for (uint32_t p = 0; p < n; p++) {
			double a = f->apart_s[i][p], b = f->apart_s[i][representative(f, p)];

			if (mq_equivalence_differ(fmin(a, b), fmax(a, b)))
				return true;
		}
	return false;
}

/* The next sizes of blocks and periods that nothing speaks against yet; false: there are none. Blocks stand for others
 * only where runs told who is alike. */
static bool next_blocks(struct mq_folding *f)
{
	uint32_t n = mq_low_config(f->low, 0)->n_devices;

	do {
		if (f->n_kept && f->n_runs && f->size > 1) {
			f->size--;
		} else {
			f->n_kept++;
			f->size = n / f->n_kept;
		}
		f->period = f->size * f->n_kept;
		if (f->n_kept >= n)
			return false;
	} while (n % f->period || is_known_apart(f) || !even_configs(f));
	return true;
}

/* Picks the devices that are simulated, each for as many as can be; NULL: folding is not asked for or plainly not
 * exact. */
static struct mq_fold *decide(struct mq_folding *f, const bool **active)
{
	struct mq_low *low = f->low;
	const struct mq_cluster *cluster = low->q.cluster;
	uint32_t n = mq_low_config(low, 0)->n_devices, n_active = 0;

	if (!f->fold || f->n_kept >= n)
		return NULL;
	for (uint32_t t = 0; t < low->moves.n; t++)
		if (low->moves.transfer[t].way == MQ_WAY_BOXES) {
			refuse(f, "tensors change their layout between devices");
			return NULL;
		}
	if (!next_blocks(f))
		return NULL;
	bool *picked = mq_arena_array(f->arena, cluster->n_devices, bool);
	struct mq_fold *fold = mq_arena_alloc(f->arena, sizeof(*fold));
	fold->n_positions = n;
	fold->size = f->size;
	fold->period = f->period;
	fold->position = mq_arena_array(f->arena, cluster->n_devices, uint32_t);
	fold->device = mq_arena_array(f->arena, low->num.n_ranks, const uint32_t *);
	fold->rank_of = low->num.rank_of_device;
	for (uint32_t stage = 0; stage < low->num.n_stages; stage++) { /* whose ops have the same devices */
		const struct mq_config *c = mq_low_config(low, low->num.stage_op[low->num.stage_first[stage]]);

		fold->device[mq_low_rank(low, stage)] = c->device;
		for (uint32_t p = 0; p < n; p++)
			fold->position[c->device[p]] = p;
		for (uint32_t p = 0; p < f->period; p += f->size)
			picked[c->device[p]] = true;
	}
	for (uint32_t d = 0; d < cluster->n_devices; d++)
		n_active += picked[d];
	fold->weight = mq_arena_array(f->arena, n_active, double);
	for (uint32_t i = 0; i < n_active; i++)
		fold->weight[i] = n / f->n_kept;
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
					 t->bytes, t->dtype, t->algo, t->proto };
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
	uint32_t n_runs = f->n_runs;

	for (uint32_t i = 0; i < v->n_requests && *same; i++)
		if (!mq_replica_flows_count(v->replica_flows, v->request[i]))
			*same = refuse(f, "groups are not translations of each other");
	if (*same)
		MQ_TRY(mq_replica_flows_zones(v->replica_flows, v->request, v->n_requests, err));
	if (*same)
		MQ_TRY(mq_replica_flows_uncontended(v->replica_flows, v->request, v->n_requests, err));
	for (uint32_t i = 0; i < v->n_requests && f->n_runs - n_runs < MOST_TOLD && (*same || f->n_runs > n_runs);
	     i++) {
		struct mq_replica_flow_times times;

		MQ_TRY(mq_replica_flows_times(v->replica_flows, v->request[i], &times, err));
		if (times.same)
			continue;
		double *apart_s = mq_arena_array(f->arena, mq_low_config(f->low, 0)->n_devices, double);

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

enum mq_status mq_folding_begin(const struct mq_fold_request *request, struct mq_arena *arena,
				struct mq_lowered *lowered, struct mq_folding **folding, struct mq_err *err)
{
	struct mq_folding *f = *folding = mq_arena_alloc(arena, sizeof(*f));

	*f = (struct mq_folding){
		.fold = request->fold, .keep_tasks = request->keep_tasks, .lowered = lowered, .arena = arena
	};
	return mq_low_begin(&request->lower, arena, lowered, &f->low, err);
}

void mq_folding_apart(struct mq_folding *f, const double *apart_s)
{
	MQ_PUSH(f->arena, f->apart_s, f->n_runs, f->runs_room, apart_s);
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

/* The schedule of the templates; no view follows one that has none. */
static void string(struct mq_folding *f, const struct mq_fold *fold, struct mq_view *view)
{
	const char *otherwise = f->fold ? "; use fewer micro-batches" : MQ_LOW_FOLD;

	if (*f->why)
		otherwise = mq_arena_printf(
			f->arena, ", and identical ranks cannot be folded (%s); use fewer micro-batches", f->why);
	struct mq_schedule *schedule = mq_low_string(f->low, otherwise);

	*view = (struct mq_view){ .schedule = schedule, .fold = fold };
	if (schedule && fold)
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
	while ((fold = decide(f, &active))) {
		bool exact;

		if (!make_templates(f, active))
			return MQ_OK;
		MQ_TRY(verify(f, fold, &exact, err));
		if (exact) {
			string(f, fold, view);
			return MQ_OK;
		}
	}
	if (make_templates(f, NULL))
		string(f, NULL, view);
	return MQ_OK;
}

enum mq_status mq_lower(const struct mq_lower_request *request, struct mq_arena *arena, struct mq_lowered *lowered,
			struct mq_err *err)
{
	const struct mq_fold_request all = { .lower = *request };
	struct mq_folding *folding;
	struct mq_view whole;
	enum mq_status status = mq_folding_begin(&all, arena, lowered, &folding, err);

	if (status == MQ_OK)
		status = mq_folding_next(folding, &whole, err);
	mq_folding_end(folding);
	return status;
}
