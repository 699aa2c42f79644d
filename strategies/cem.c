/* cem.c - placement by cross-entropy steps alone, the first half of Post (Gao, Chen, Li, "Post: Device Placement with
 * Cross-Entropy Minimization and Proximal Policy Optimization", NeurIPS 2018). Method, objective and differences from
 * the paper: lib/post.h. One evaluation costs O(groups x devices) besides the simulation. It cannot split tensors or
 * cut pipelines, learns nothing that carries over to another graph, and promises no optimum.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lib/post.h"

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct mq_post *post = state;

	post->cross_entropy = true;
	return mq_post_start(post, "cem", problem, err);
}

MQ_ENGINE(cem) = {
	MQ_ENGINE_HEAD("cem"),
	.summary = "placement by cross-entropy minimisation alone",
	MQ_POST_ENGINE,
};
