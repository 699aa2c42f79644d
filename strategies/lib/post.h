/* post.h - device placement by cross-entropy and proximal policy optimization (Gao, Chen, Li, "Post: Device Placement
 * with Cross-Entropy Minimization and Proximal Policy Optimization", NeurIPS 2018), and its parts alone: shared by the
 * engines post, cem, ppo and reinforce.
 *
 * f(d) = product over groups of softmax(u_m)[d_m]; minimise E[T(d)]. Placements are sampled from f. Every `every`
 * evaluations the policy takes `steps` gradient ascent steps on
 *     mean_k f(d_k) / f_old(d_k) (b - T(d_k)) / b - beta KL(f_old || f)
 * with b the running mean of T; every `samples` evaluations f becomes the closed-form maximum-likelihood fit to the
 * best `rho` of them, mixed with the uniform distribution: f <- (1 - eps) f + eps / D. REINFORCE ascends mean_k log
 * f(d_k) (b - T(d_k)) / b instead.
 *
 * Differences from the paper: sample sizes, rho, eps, beta and the step size were not published and are options; eps is
 * at most 2 / groups, or a placement of hundreds of groups would never be sampled whole; ratios are clipped at 10 and a
 * policy step moves the distribution of whole placements by at most `kl`, because both are products over all groups; an
 * infeasible placement costs the worst step time seen times 1 + memory needed / available, so that less excess is
 * better; the first proposals are mq_coarse_baseline's, so that the result is never worse than those (f does not learn
 * from them: the fastest few of a first round would be the single devices, whose fit is the uniform distribution
 * again); if the even one does not fit, all plans accumulate micro-batches or recompute (fit.h); groups are neighbours
 * in the graph (coarse.h).
 *
 * One evaluation costs O(groups x devices) besides the simulation. The engines cannot split tensors or cut pipelines,
 * learn nothing that transfers to another graph, and guarantee no optimum. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_POST_H
#define MQ_STRATEGIES_LIB_POST_H

#include "lib/coarse.h"

struct mq_post {
	/* options */
	uint32_t groups, samples, every, steps;
	double rho, eps, beta, rate, kl;
	/* the parts of the engine */
	struct mq_post_parts {
		bool cross_entropy, proximal, reinforce;
	} has;
	struct mq_coarse coarse;
	double *u, *f, *f_old; /* [groups * devices] logits, probabilities, probabilities that sampled the placements */
	double *u_old;         /* [groups * devices] before a gradient step */
	uint32_t baseline;     /* `next` of mq_coarse_baseline */
	uint32_t n_baselines;  /* baselines not yet observed */
	uint32_t n;            /* samples in the round */
	uint32_t *drawn;       /* [batch * groups] placements proposed and not yet observed */
	uint64_t first, next;  /* placements observed and proposed */
	double *time_s, *sorted;  /* [samples] time_s: 0 if excess > 0 */
	double *excess;           /* [samples] see mq_fit_excess */
	uint32_t *choice;         /* [samples * groups] */
	double worst_s;           /* worst feasible time; 0 = none yet */
	double sum_s, sum_excess; /* over all samples: times, 1 + excess of infeasible ones */
	uint64_t n_mean;
};

enum { MQ_POST_BATCH = 8 };

extern const struct mq_opt mq_post_opts[];

enum mq_status mq_post_start(struct mq_post *post, const char *engine, const struct mq_problem *problem,
			     struct mq_err *err);
/* Defines an engine's `start`: its name and its parts. */
#define MQ_POST_START(name, ...)                                                                       \
	static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err) \
	{                                                                                              \
		struct mq_post *post = state;                                                          \
		post->has = (struct mq_post_parts){ __VA_ARGS__ };                                     \
		return mq_post_start(post, name, problem, err);                                        \
	}
enum mq_status mq_post_propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			       struct mq_plan *plan, struct mq_err *err);
void mq_post_observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		     const struct mq_result *result);

/* Members of struct mq_engine that all four share. */
#define MQ_POST_ENGINE                                                                                      \
	.paper = "Gao, Chen, Li, NeurIPS 2018", .opts = mq_post_opts, .state_size = sizeof(struct mq_post), \
	.batch = MQ_POST_BATCH, .lacks = MQ_LACKS_ALL, .start = start, .propose = mq_post_propose,          \
	.observe = mq_post_observe

#endif
