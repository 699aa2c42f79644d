/* reinforce.c - placement by REINFORCE with a running mean as baseline, what Post is compared with (Gao, Chen, Li,
 * "Post: Device Placement with Cross-Entropy Minimization and Proximal Policy Optimization", NeurIPS 2018). Method,
 * objective and differences from the paper: lib/post.h. One evaluation costs O(groups x devices) besides the
 * simulation. It cannot split tensors or cut pipelines, learns nothing that carries over to another graph, and promises
 * no optimum. SPDX-License-Identifier: Apache-2.0 */
#include "lib/post.h"

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct mq_post *post = state;

	post->reinforce = true;
	return mq_post_start(post, "reinforce", problem, err);
}

MQ_ENGINE(reinforce) = {
	MQ_ENGINE_HEAD("reinforce"),
	.summary = "placement by plain policy gradient",
	MQ_POST_ENGINE,
};
