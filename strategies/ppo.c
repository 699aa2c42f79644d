/*
 * ppo.c - placement by proximal policy optimisation alone, the second half of Post
 * (Gao, Chen, Li, "Post: Device Placement with Cross-Entropy Minimization and Proximal Policy Optimization",
 * NeurIPS 2018). Method, objective and differences from the paper: lib/post.h. One evaluation costs
 * O(groups x devices) besides the simulation. It cannot split tensors or cut pipelines, learns nothing that
 * carries over to another graph, and promises no optimum.
 */
#include "core/engine.h"
#include "lib/post.h"

static const struct mq_opt opts[] = { MQ_POST_OPTS(struct mq_post), MQ_END };

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct mq_post *post = state;

	post->proximal = true;
	return mq_post_start(post, "ppo", problem, err);
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	return mq_post_propose(state, problem, arena, plan);
}

static void observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		    const struct mq_result *result)
{
	mq_post_observe(state, result);
}

MQ_ENGINE(ppo) = {
	MQ_ENGINE_HEAD("ppo"),
	.summary = "placement by proximal policy optimisation alone",
	.paper = "Gao, Chen, Li, NeurIPS 2018",
	.opts = opts,
	.state_size = sizeof(struct mq_post),
	.batch = MQ_POST_BATCH,
	.heuristic = true,
	.start = start,
	.propose = propose,
	.observe = observe,
};
