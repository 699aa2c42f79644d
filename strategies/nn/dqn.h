/* dqn.h - deep Q-learning: double (van Hasselt et al. 2016), dueling (Wang et al. 2016), with prioritized replay
 * (Schaul et al. 2016): Rainbow without noisy nets, distributional and n-step returns.
 *
 * Episodes are sequences of discrete actions; a mask gives the valid actions of a state.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef STRATEGIES_NN_DQN_H
#define STRATEGIES_NN_DQN_H

#include "nn/nn.h"

struct nn_dqn_options {
	uint32_t width, batch, replay,
		copy_every; /* hidden width; steps per batch; replay size; gradient steps per target copy */
	double rate, gamma, alpha,
		beta; /* Adam's step size; discount; exponents of priority and of importance correction */
};

struct nn_step {
	double *state, *next; /* [n_state]; next: unused if `last` */
	bool *next_mask;      /* [n_actions] */
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
/* The valid action with the largest Q or, with probability epsilon, a random valid one. */
uint32_t nn_dqn_act(struct nn_dqn *dqn, const double *state, const bool *mask, double epsilon, struct mq_rng *rng);
/* Stores a step in the replay memory; `next` NULL: the episode ends. */
void nn_dqn_remember(struct nn_dqn *dqn, const double *state, uint32_t action, double reward, const double *next,
		     const bool *next_mask);
/* One gradient step on a batch sampled by priority; returns its loss. NaN, and no step, while the memory holds less
 * than a batch. */
double nn_dqn_learn(struct nn_dqn *dqn, struct mq_rng *rng);
void nn_dqn_fini(struct nn_dqn *dqn);

#endif
