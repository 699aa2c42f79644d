/*
 * images.h - the meetings of ranks that a folded schedule leaves out.
 *
 * A representative's meeting (a collective, or a send and its recv) has images: the same call among other
 * positions of its blocks, by translation of the device lists. All images happen at the same time. What
 * they do to the links of the whole cluster is told here, and put into a small network with the same
 * rates:
 *
 * Flows and links are coloured, and the colours refined until all flows of a colour cross equally many
 * links of each colour and all links of a colour are crossed by equally many flows of each colour (an
 * equitable partition; the refinement of Weisfeiler and Leman, 1968). Max-min fair rates are then equal
 * inside a colour, whichever meetings are under way: one flow per colour, one link per colour, and the
 * number of times that flows of a colour cross such a link as its weight (fluid.h), give the rates of
 * all. The representative's time is everybody's as long as all images of a meeting end together; who runs
 * the network must look at that.
 *
 * Links that cannot fill up, whatever happens, are left out.
 */
#ifndef MQ_LOWER_IMAGES_H
#define MQ_LOWER_IMAGES_H

#include "core/calib.h"
#include "core/cluster.h"
#include "core/collective/collective.h"
#include "core/fluid.h"
#include "core/schedule.h"

struct mq_images;

/* Borrows all of them; the schedule's communicators and devices and schedule->fold must be there. */
struct mq_images *mq_images_new(const struct mq_cluster *cluster, const struct mq_calib *calib,
				const struct mq_schedule *schedule, struct mq_arena *arena);

/* How many images a meeting has (a send, recv or collective); 0: the group's translations do not cover
 * the blocks that it has members in. */
uint32_t mq_images_count(struct mq_images *images, const struct mq_task *task);

struct mq_image {
	uint32_t n;
	const uint32_t *rank; /* [n] cluster ranks; valid until the next call */
	double latency_s;
	double alone_s;    /* of a collective: nothing else, no other image, is on the links */
	uint32_t channels; /* of a collective, see mq_coll_flows */
	uint32_t n_flows;
	const struct mq_flow *flow; /* valid until the next call; those of no bytes are no flows */
};
/* Image i of count; 0 is the representative's own. */
enum mq_status mq_images_get(struct mq_images *images, const struct mq_task *task, uint32_t i, struct mq_image *image,
			     struct mq_err *err) MQ_MUST_CHECK;

/* Times of a meeting whose images alone are on the links, asked once for each distinct request. */
struct mq_image_times {
	double latency_s, alone_s;
	double bound_s; /* latency, and no flow or link can be faster */
	bool same;      /* all images have this latency and end together */
};
enum mq_status mq_images_times(struct mq_images *images, const struct mq_task *task, struct mq_image_times *times,
			       struct mq_err *err) MQ_MUST_CHECK;

/* Calls `see` with every link that flows of any image cross and that can fill up (fatpipes cannot),
 * again for every crossing. */
typedef void mq_images_see(uint32_t link, double bytes, void *data);
enum mq_status mq_images_links(struct mq_images *images, const struct mq_task *task, mq_images_see *see, void *data,
			       struct mq_err *err) MQ_MUST_CHECK;
/* The same with those that cannot fill up. */
enum mq_status mq_images_all_links(struct mq_images *images, const struct mq_task *task, mq_images_see *see, void *data,
				   struct mq_err *err) MQ_MUST_CHECK;

/* Finds the links that these tasks, and they are all there are, cannot fill. Before that, every link
 * counts as one that can. */
enum mq_status mq_images_find_slack(struct mq_images *images, const struct mq_task *const *task, uint32_t n,
				    struct mq_err *err) MQ_MUST_CHECK;

/* The small network of some meetings. */
struct mq_quotient {
	struct mq_fluid net;     /* a flow per colour */
	double *bytes, *way_Bps; /* [net.n_flows] way: least usable bandwidth of the route */
	uint32_t n_meetings;
	uint32_t *flow_first;            /* [n_meetings + 1] flows of each meeting: a range */
	uint32_t *set_first;             /* [n_meetings + 1] kinds of its images: a range of sets */
	uint32_t *member_first, *member; /* CSR: flows of each set */
};
enum mq_status mq_quotient_build(struct mq_images *images, const struct mq_task *const *task, uint32_t n,
				 struct mq_arena *arena, struct mq_quotient *quotient,
				 struct mq_err *err) MQ_MUST_CHECK;

/* Have all images of a meeting ended at the same time? done_s: [net.n_flows] ends of the flows, which
 * began at start_s. */
bool mq_quotient_together(const struct mq_quotient *quotient, uint32_t meeting, double start_s, const double *done_s);

#endif
