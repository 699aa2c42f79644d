/* dqn.h - deep Q-learning: double (van Hasselt et al. 2016), duelling (Wang et al. 2016), with prioritised replay
 * (Schaul et al. 2016); Rainbow without its noisy nets, distributions and n-step returns.
 *
 * Episodes of discrete choices; a mask says which actions a state has. Nothing here knows what they mean.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STRATEGIES_NN_DQN_H
#define STRATEGIES_NN_DQN_H

#include "nn/nn.h"

struct nn_dqn_options {
	uint32_t width, batch, replay, copy_every; /* hidden width; replayed per step; kept; target copies */
	double rate, gamma, alpha, beta;           /* Adam; discount; priority and correction exponents */
};

struct nn_step {
	double *state, *next; /* [state size]; next unused where `last` */
	bool *next_mask;      /* [actions] */
	uint32_t action;
	double reward, weight; /* weight: priority to the power alpha */
	bool last;
};

struct nn_dqn {
	struct nn_dqn_options o;
	struct mq_arena *arena, pass;
	uint32_t n_state, n_actions;
	struct nn_dqn_net {
		struct nn_params params;
		struct nn_mlp body, value, gain; /* state -> width; width -> 1; width -> actions */
	} net, target;
	struct nn_adam adam;
	struct nn_step *step;
	uint32_t n_steps, at;
	uint64_t learnt;
	double most; /* largest weight so far */
};

void nn_dqn_init(struct nn_dqn *dqn, struct mq_arena *arena, const struct nn_dqn_options *options, uint32_t n_state,
		 uint32_t n_actions, struct mq_rng *rng);
/* The action with the largest Q among the possible ones, or with probability epsilon any of them. */
uint32_t nn_dqn_act(struct nn_dqn *dqn, const double *state, const bool *mask, double epsilon, struct mq_rng *rng);
/* Remembers a step; `next` NULL where the episode ends. */
void nn_dqn_remember(struct nn_dqn *dqn, const double *state, uint32_t action, double reward, const double *next,
		     const bool *next_mask);
/* One gradient step on a batch drawn by priority; its loss. NaN, and nothing done, while fewer steps are known than
 * a batch. */
double nn_dqn_learn(struct nn_dqn *dqn, struct mq_rng *rng);
void nn_dqn_fini(struct nn_dqn *dqn);

#endif
