/*
 * images_impl.h - what the files of images.h share; nobody else includes it.
 *
 *   images.c    which images there are, what they ask for, which links never fill up
 *   quotient.c  the small network of some meetings
 */
#ifndef MQ_LOWER_IMAGES_IMPL_H
#define MQ_LOWER_IMAGES_IMPL_H

#include "lower/images.h"

struct mq_bases {
	bool known;
	uint32_t n;
	uint32_t *base; /* translations of the group, 0 first */
};

struct mq_images {
	const struct mq_cluster *cluster;
	const struct mq_calib *calib;
	const struct mq_schedule *schedule;
	const struct mq_fold *fold;
	struct mq_arena *arena;
	struct mq_bases *bases;    /* [comms] */
	bool *slack;               /* [links] cannot fill up */
	struct mq_index *expanded; /* calls by kind and by where their members sit -> flows[] */
	uint32_t n_flows, flows_room;
	struct mq_coll_flows *flows;
	struct mq_index *known; /* requests -> times[] */
	uint32_t n_times, times_room;
	struct mq_image_times *times;
	uint32_t *rank;     /* of the image asked for last */
	struct mq_flow one; /* of the send asked for last */
};

#endif
