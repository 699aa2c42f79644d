/* causes.c - why a step takes as long as it does: exposed communication by class of link, and the critical path in
 * words.
 *
 * A communication belongs to the class of the slowest link (least usable bandwidth) on the routes that its members use.
 * The sentence names the largest of compute, exposed communication and idle time (means over the devices), then what
 * the critical path consists of, largest first. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "judge/judge.h"

struct classes {
	const struct mq_judge *j;
	const struct mq_schedule *s;
	const struct mq_view *view;
	uint8_t *comm_class;   /* [n_comms], MQ_N_LINK_CLASSES = not yet known */
	const double *repeats; /* see mq_timeline_repeats */
};

static double times_of(const struct classes *c, uint32_t task)
{
	return c->repeats ? 1 + c->repeats[task] : 1;
}

/* Least usable bandwidth on the way from a to b, if less than *least. */
static enum mq_status find_slowest_link(const struct classes *c, uint32_t a, uint32_t b, double *least, uint8_t *class,
					struct mq_err *err)
{
	const struct mq_cluster *cluster = c->j->q->cluster;
	const struct mq_route *route;

	if (a == b)
		return MQ_OK;
	MQ_TRY(mq_cluster_route(cluster, a, b, &route, err));
	for (uint32_t i = 0; i < route->n_links; i++) {
		const struct mq_link *link = &cluster->link[route->link[i]];
		if (mq_link_usable_Bps(link) < *least) {
			*least = mq_link_usable_Bps(link);
			*class = (uint8_t)link->class;
		}
	}
	return MQ_OK;
}

static enum mq_status class_of_comm(const struct classes *c, uint32_t comm, uint8_t *class, struct mq_err *err)
{
	const struct mq_schedule *s = c->s;
	double least = INFINITY;

	*class = c->comm_class[comm];
	if (*class < MQ_N_LINK_CLASSES)
		return MQ_OK;
	*class = MQ_LINK_OTHER;
	/* In a folded schedule all members count, simulated or not; fold->comm holds their cluster ranks. */
	const struct mq_fold *fold = c->view->fold;
	uint32_t n = fold ? fold->comm[comm].n : s->comm[comm].n;
	const uint32_t *rank = fold ? fold->comm[comm].rank : s->comm[comm].rank;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t a = rank[i], b = rank[(i + 1) % n];
		MQ_TRY(find_slowest_link(c, fold ? a : s->device[a], fold ? b : s->device[b], &least, class, err));
	}
	c->comm_class[comm] = *class;
	return MQ_OK;
}

static enum mq_status class_of(const struct classes *c, const struct mq_task *t, uint8_t *class, struct mq_err *err)
{
	const struct mq_schedule *s = c->s;
	double least = INFINITY;

	*class = MQ_LINK_OTHER;
	if (t->kind == MQ_TASK_COPY)
		*class = MQ_LINK_HOST;
	if (t->kind == MQ_TASK_SEND)
		return find_slowest_link(c, s->device[t->device], s->device[t->peer], &least, class, err);
	if (t->kind == MQ_TASK_RECV)
		return find_slowest_link(c, s->device[t->peer], s->device[t->device], &least, class, err);
	return t->kind == MQ_TASK_COLLECTIVE ? class_of_comm(c, t->comm, class, err) : MQ_OK;
}

static enum mq_status add_exposed_time(const struct classes *c, struct mq_judged *out, struct mq_err *err)
{
	const struct mq_timeline *tl = &out->timeline;
	const double *exposed = out->exposed_s;
	double weight = 0;

	for (uint32_t d = 0; d < c->s->n_devices; d++)
		weight += tl->weight ? tl->weight[d] : 1;
	for (uint32_t i = 0; i < c->s->n_tasks; i++) {
		const struct mq_task *t = &c->s->task[i];
		double w = (tl->weight ? tl->weight[t->device] : 1) / weight * times_of(c, i);
		const struct mq_fused *fused = mq_view_fused(c->view, t);
		uint8_t class;
		for (uint32_t k = 0; fused && k < fused->n_calls; k++) {
			MQ_TRY(class_of_comm(c, fused->call[k].comm, &class, err));
			out->result.link_s[class] += w * fused->call[k].exposed_s;
		}
		if (!(exposed[i] > 0))
			continue;
		MQ_TRY(class_of(c, t, &class, err));
		out->result.link_s[class] += w * exposed[i];
	}
	return MQ_OK;
}

/* ---- critical path ------------------------------------------------------------------------------- */

/* A share of the critical path: compute on one device, or communication of one kind over one class of link. */
struct part {
	double seconds, order; /* order: `seconds` rounded, for sorting */
	uint32_t device;       /* compute: schedule index; else MQ_NONE */
	uint8_t kind, coll, class;
};

static struct part *find_part(struct part *part, uint32_t *n, const struct part *like)
{
	for (uint32_t i = 0; i < *n; i++)
		if (part[i].device == like->device && part[i].kind == like->kind && part[i].coll == like->coll &&
		    part[i].class == like->class)
			return &part[i];
	part[*n] = *like;
	return &part[(*n)++];
}

MQ_COMPARE(by_order, struct part,
	   MQ_ORDER(b->order, a->order)           ?:
		   MQ_ORDER(a->device, b->device) ?:
						    MQ_ORDER(a->kind * 256 + a->coll, b->kind * 256 + b->coll))

/* Adds the collectives of a fused task that lie on the critical path, `times` over, and subtracts their time from
 * *compute_s. */
static enum mq_status add_fused(const struct classes *c, const struct mq_fused *fused, double times, struct part *part,
				uint32_t *n, double *compute_s, struct mq_err *err)
{
	for (uint32_t k = 0; k < fused->n_calls; k++) {
		const struct mq_fused_call *call = &fused->call[k];
		struct part like = { .device = MQ_NONE, .kind = MQ_TASK_COLLECTIVE, .coll = call->coll };

		if (!(call->path_s > 0))
			continue;
		MQ_TRY(class_of_comm(c, call->comm, &like.class, err));
		find_part(part, n, &like)->seconds += times * call->path_s;
		*compute_s -= times * call->path_s;
	}
	return MQ_OK;
}

static enum mq_status list_parts(const struct classes *c, const struct mq_judged *out, struct mq_arena *arena,
				 struct part **part, uint32_t *n, struct mq_err *err)
{
	const struct mq_timeline *tl = &out->timeline;
	uint32_t *path, length = mq_timeline_critical_path(c->s, tl, arena, &path);
	uint32_t *slot =
		mq_arena_array(arena, c->s->n_devices, uint32_t); /* [device] 1 + index of its part; 0 = none yet */

	*n = 0;
	*part = mq_arena_array(arena, c->s->n_devices + MQ_N_TASK_KINDS * MQ_N_COLL_KINDS * MQ_N_LINK_CLASSES,
			       struct part);
	for (uint32_t i = 0; i < length; i++) {
		const struct mq_task *t = &c->s->task[path[i]];
		double times = times_of(c, path[i]), seconds = times * (tl->finish_s[path[i]] - tl->start_s[path[i]]);
		struct part like = { .device = MQ_NONE, .kind = t->kind };
		if (t->kind == MQ_TASK_COMPUTE) {
			const struct mq_fused *fused = mq_view_fused(c->view, t);
			if (fused)
				MQ_TRY(add_fused(c, fused, times, *part, n, &seconds, err));
			if (!slot[t->device]) {
				like.device = t->device;
				(*part)[*n] = like;
				slot[t->device] = ++*n;
			}
			(*part)[slot[t->device] - 1].seconds += seconds;
			continue;
		}
		if (t->kind == MQ_TASK_COLLECTIVE)
			like.coll = t->coll;
		if (t->kind == MQ_TASK_RECV)
			like.kind = MQ_TASK_SEND; /* the same transfer */
		MQ_TRY(class_of(c, t, &like.class, err));
		find_part(*part, n, &like)->seconds += seconds;
	}
	for (uint32_t i = 0; i < *n; i++)
		(*part)[i].order = round(1e6 * (*part)[i].seconds / out->result.step_time_s);
	qsort(*part, *n, sizeof(**part), by_order);
	return MQ_OK;
}

static const char *name_part(const struct classes *c, const struct part *p, struct mq_arena *arena)
{
	if (p->kind == MQ_TASK_COMPUTE)
		return mq_arena_printf(arena, "compute on %s (%s)", c->s->device_name[p->device],
				       c->s->device_type[p->device]);
	const char *what = p->kind == MQ_TASK_COLLECTIVE ? mq_coll_name(p->coll) : mq_task_kind_name(p->kind);
	return mq_arena_printf(arena, "%s over %s", what, mq_link_class_name(p->class));
}

static enum mq_status put_words(const struct classes *c, struct mq_judged *out, struct mq_arena *arena,
				struct mq_err *err)
{
	struct mq_result *r = &out->result;
	const char *most = "compute";
	double largest = r->compute_s, step = r->step_time_s;
	struct part *part;
	uint32_t n;

	if (!(step > 0)) {
		snprintf(r->bottleneck, sizeof(r->bottleneck), "nothing takes time");
		return MQ_OK;
	}
	if (r->exposed_comm_s > largest) {
		most = "communication";
		largest = r->exposed_comm_s;
	}
	if (r->bubble_s > largest) {
		most = "idle time (bubble)";
		largest = r->bubble_s;
	}
	MQ_TRY(list_parts(c, out, arena, &part, &n, err));
	int used = snprintf(r->bottleneck, sizeof(r->bottleneck), "%s %.0f %%; critical path:", most,
			    100 * largest / step);
	for (uint32_t i = 0; i < n && i < 4; i++) {
		const char *text = mq_arena_printf(arena, "%s %s %.0f %%", i ? "," : "", name_part(c, &part[i], arena),
						   100 * part[i].seconds / step);
		if (part[i].seconds < 0.005 * step || (size_t)used + strlen(text) >= sizeof(r->bottleneck))
			break;
		used += snprintf(r->bottleneck + used, sizeof(r->bottleneck) - (size_t)used, "%s", text);
	}
	return MQ_OK;
}

enum mq_status mq_judge_causes(const struct mq_judge *j, struct mq_judged *out, struct mq_arena *arena,
			       struct mq_err *err)
{
	struct classes c = { .j = j, .s = out->view.schedule, .view = &out->view };

	c.comm_class = mq_arena_array(arena, c.s->n_comms, uint8_t);
	memset(c.comm_class, MQ_N_LINK_CLASSES, c.s->n_comms);
	c.repeats = mq_timeline_repeats(&out->timeline, arena);
	MQ_TRY(add_exposed_time(&c, out, err));
	return put_words(&c, out, arena, err);
}
