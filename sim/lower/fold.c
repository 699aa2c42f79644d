/*
 * fold.c - representatives for each pipeline rank, where that changes no answer. See fold.h.
 *
 * The first position of a block stands for all positions of it. That is exact if
 *   1. all devices of a block are of one type and do the same work (equal shares, one device list per
 *      stage, stages of equal size that exchange tensors position by position);
 *   2. the meetings of the representatives have images under translation of all members inside their
 *      blocks that cover these blocks, and all images take the same time.
 * Then by induction every position sees what its representative sees, as long as images that meet others on
 * their links go on ending together. That is the executor's business (it knows who meets): where they do
 * not, it reports that the folded time may differ. Anything else is refused.
 *
 * A block is the whole stage at best. Where the stage lies over machines in such a way that its positions
 * differ (half of it in one NVLink domain), or where replicas have shares or devices of their own, smaller
 * blocks still are alike: those of tensor parallelism, which lies innermost.
 */
#include "lower/fold.h"

#include <math.h>
#include <stdio.h>

#include "lower/images.h"
#include "lower/program.h"

static bool refuse(struct mq_low *low, const char *why)
{
	if (!*low->out->unfolded) /* of the largest blocks */
		snprintf(low->out->unfolded, sizeof(low->out->unfolded), "%s", why);
	return false;
}

/* ---- before the templates: who is simulated ---------------------------------------------------------- */

static bool even_configs(struct mq_low *low, uint32_t size)
{
	double samples = low->train->batch / low->plan->micro_batches;
	uint32_t n = mq_low_config(low, 0)->n_devices;

	for (uint32_t op = 0; op < low->model->n_ops; op++) {
		const struct mq_config *c = mq_low_config(low, op);
		uint32_t first = low->stage_op[low->stage_first[low->stage_of[op]]];

		if (c->n_devices != n ||
		    low->devset_of[low->plan->config_of[op]] != low->devset_of[low->plan->config_of[first]])
			return refuse(low, "ops of a stage, or stages, differ in their devices");
		bool uneven = c->share || fmod(samples, c->split[MQ_DIM_BATCH]) != 0;
		if (uneven && n / c->split[MQ_DIM_BATCH] % size) /* the batch is the mesh's outermost */
			return refuse(low, "batch shares are uneven");
		for (uint32_t d = 1; d < n; d++)
			if (low->q.cluster->device[c->device[d]].calib !=
			    low->q.cluster->device[c->device[d - d % size]].calib)
				return refuse(low, "a stage has devices of different speed");
	}
	return true;
}

/* The largest size of blocks below a limit that nothing speaks against yet; 1 = none. */
static uint32_t block_size(struct mq_low *low, uint32_t below)
{
	uint32_t n = mq_low_config(low, 0)->n_devices, size = n < below ? n : below - 1;

	while (size > 1 && (n % size || !even_configs(low, size)))
		size--;
	return size;
}

bool mq_fold_decide(struct mq_low *low, uint32_t below)
{
	const struct mq_cluster *cluster = low->q.cluster;
	uint32_t n = mq_low_config(low, 0)->n_devices, size, n_active = 0;
	struct mq_fold *fold;

	if (!low->rq->fold || below <= 1)
		return false;
	for (uint32_t t = 0; t < low->n_transfers; t++)
		if (low->transfer[t].way == MQ_WAY_BOXES)
			return refuse(low, "tensors change their layout between devices");
	size = block_size(low, below);
	if (size <= 1)
		return false;
	low->active = mq_arena_array(&low->scratch, cluster->n_devices, bool);
	fold = low->fold = mq_arena_alloc(low->arena, sizeof(*low->fold));
	fold->n_positions = n;
	fold->size = size;
	fold->position = mq_arena_array(low->arena, cluster->n_devices, uint32_t);
	fold->device = mq_arena_array(low->arena, low->n_ranks, const uint32_t *);
	fold->rank_of = low->rank_of_device;
	for (uint32_t op = 0; op < low->model->n_ops; op++) {
		const struct mq_config *c = mq_low_config(low, op);

		fold->device[mq_low_rank(low, low->stage_of[op])] = c->device;
		for (uint32_t p = 0; p < n; p++)
			fold->position[c->device[p]] = p;
		for (uint32_t p = 0; p < n; p += size)
			low->active[c->device[p]] = true;
	}
	for (uint32_t d = 0; d < cluster->n_devices; d++)
		n_active += low->active[d];
	fold->weight = mq_arena_array(low->arena, n_active, double);
	for (uint32_t i = 0; i < n_active; i++)
		fold->weight[i] = size;
	return true;
}

/* ---- after the templates: is it exact? ------------------------------------------------------------------ */

struct verify {
	struct mq_low *low;
	struct mq_arena *arena;
	struct mq_images *images;
	uint32_t n_requests, room;
	const struct mq_task **request; /* every distinct communication of the templates */
};

static void list_requests(struct verify *v)
{
	struct mq_low *low = v->low;
	struct mq_index *seen = mq_index_new(v->arena);

	for (uint32_t i = 0; i < low->n_stages * MQ_N_PASSES; i++)
		for (uint32_t k = 0; k < low->pass[i].n_tasks; k++) {
			const struct mq_task *t = &low->pass[i].task[k].task;
			double key[] = { t->kind, t->coll, t->comm, t->device, t->peer, t->bytes, t->dtype };
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

static enum mq_status check_images(struct verify *v, bool *same)
{
	for (uint32_t i = 0; i < v->n_requests && *same; i++)
		if (!mq_images_count(v->images, v->request[i]))
			*same = refuse(v->low, "groups are not translations of each other");
	if (*same)
		MQ_TRY(mq_images_find_slack(v->images, v->request, v->n_requests, v->low->err));
	for (uint32_t i = 0; i < v->n_requests && *same; i++) {
		struct mq_image_times times;

		MQ_TRY(mq_images_times(v->images, v->request[i], &times, v->low->err));
		if (!times.same)
			*same = refuse(v->low, v->request[i]->kind == MQ_TASK_SEND ?
						       "equal messages take different times in different places" :
						       "equal collectives take different times in different places");
	}
	return MQ_OK;
}

enum mq_status mq_fold_verify(struct mq_low *low, bool *exact)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct verify v = { .low = low, .arena = &arena };
	enum mq_status status;

	*exact = true;
	v.images = low->fold->images = mq_images_new(low->q.cluster, low->q.calib, low->schedule, low->arena);
	list_requests(&v);
	status = check_images(&v, exact);
	mq_arena_fini(&arena);
	if (status == MQ_OK && *exact && !low->rq->keep_tasks)
		status = mq_fold_fuse(low);
	return status;
}
