/* slow.c - see share.h: communications that compute slows, on links with other users.
 *
 * At its fixed length, such a collective follows every change of its device's compute; as flows, it keeps the speed of
 * its start (lanes.c). The choice must not depend on which flows overlapped in one round of a run, nor on whether ranks
 * are folded. So the links alone decide: it runs as flows if one of its links ever has another user. Replicas of a
 * folded user count as users. SPDX-License-Identifier: Apache-2.0 */
#include "executors/simgrid/share.h"

#include "folding/replica_flows.h"

struct owners {
	struct mq_sharing *f;
	uint32_t *first;   /* [users] index of its first replica among all users' replicas */
	uint32_t *of_link; /* [links] 1 + first replica seen there */
	bool *shared;      /* [links] a second replica was seen */
	/* of the communication at hand */
	uint32_t user, n_shared, newest; /* replicas that have a shared link; the newest such one */
};

static uint32_t replicas_of(struct mq_sharing *f, uint32_t m)
{
	const struct mq_fold *fold = f->c->view.fold;

	return fold ? mq_replica_flows_count(fold->replica_flows, f->c->communication[m].task) : 1;
}

/* Notes a replica's link (fatpipes apart). */
static void note_link(uint32_t link, uint32_t replica, double bytes, void *data)
{
	struct owners *o = data;
	uint32_t own = 1 + o->first[o->user] + replica, *seen = &o->of_link[link];

	(void)bytes;
	if (o->f->c->cluster->link[link].fatpipe)
		return;
	if (*seen)
		o->shared[link] |= *seen != own;
	else
		*seen = own;
}

/* Counts a replica once if it has a shared link. */
static void count_link(uint32_t link, uint32_t replica, double bytes, void *data)
{
	struct owners *o = data;

	(void)bytes;
	if (!o->shared[link] || o->newest == replica)
		return;
	o->newest = replica;
	o->n_shared++;
}

/* Can compute slow this communication? */
static bool can_be_slowed(const struct mq_sharing *f, uint32_t event)
{
	const struct mq_costing *c = f->c;
	const struct mq_schedule *s = c->view.schedule;

	if (!f->slowed[event] || f->communication[event] == MQ_NONE)
		return false;
	for (uint32_t t = f->ev->first[event]; t != MQ_NONE; t = f->ev->next[t]) {
		const struct mq_device *d = &c->cluster->device[s->device[s->task[t].device]];
		const struct mq_device_calib *calib = &c->calib->device[d->calib];

		if (calib->overlap_comm > 0 && !calib->serial_comm && mq_task_interferes(calib, &s->task[t]))
			return true;
	}
	return false;
}

static void number_replicas(struct owners *o, struct mq_arena *scratch)
{
	struct mq_sharing *f = o->f;
	uint32_t *count = mq_arena_array(scratch, f->n_users, uint32_t), n = 0;

	o->first = mq_arena_array(scratch, f->n_users, uint32_t);
	for (uint32_t m = 0; m < f->c->n_communications; m++)
		count[f->user_of[m]] = replicas_of(f, m);
	for (uint32_t u = 0; u < f->n_users; u++) {
		o->first[u] = n;
		n += count[u];
	}
}

/* Marks as flows the events that compute can slow and that share links; uneven: only some replicas share links.
 * n_shared: [communications] MQ_NONE = not counted yet. */
static enum mq_status mark_paced(struct owners *o, const bool *paced, uint32_t *n_shared, struct mq_err *err)
{
	struct mq_sharing *f = o->f;

	for (uint32_t e = 0; e < f->ev->n; e++) {
		uint32_t m = f->communication[e];

		if (!paced[e])
			continue;
		if (n_shared[m] == MQ_NONE) {
			o->n_shared = 0;
			o->newest = MQ_NONE;
			MQ_TRY(mq_costing_links(f->c, &f->c->communication[m], true, count_link, o, err));
			n_shared[m] = o->n_shared;
		}
		if (n_shared[m] || f->mixed[f->user_of[m]])
			mq_sharing_mark(f, e);
		f->c->uneven |= n_shared[m] && n_shared[m] < replicas_of(f, m);
	}
	return MQ_OK;
}

enum mq_status mq_sharing_mark_paced(struct mq_sharing *f, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	uint32_t n_links = f->c->cluster->n_links;
	uint32_t *n_shared = mq_arena_none(&scratch, f->c->n_communications);
	struct owners o = { .f = f,
			    .of_link = mq_arena_array(&scratch, n_links, uint32_t),
			    .shared = mq_arena_array(&scratch, n_links, bool) };
	bool *paced = mq_arena_array(&scratch, f->ev->n, bool), any = false;

	for (uint32_t e = 0; e < f->ev->n; e++)
		any |= paced[e] = can_be_slowed(f, e);
	if (any) {
		number_replicas(&o, &scratch);
		for (uint32_t m = 0; m < f->c->n_communications; m++) {
			o.user = f->user_of[m];
			MQ_TRY(mq_costing_links(f->c, &f->c->communication[m], true, note_link, &o, err));
		}
		MQ_TRY(mark_paced(&o, paced, n_shared, err));
	}
	return MQ_OK;
}
