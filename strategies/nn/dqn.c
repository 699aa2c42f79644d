/* dqn.c - see dqn.h. SPDX-License-Identifier: Apache-2.0 */
#include "nn/dqn.h"

#include <math.h>

enum { NO_ACTION = -1 };

static void init_net(struct nn_dqn_net *net, const struct nn_dqn *d, struct mq_rng *rng)
{
	uint32_t w = d->o.width;

	nn_params_init(&net->params, d->arena);
	nn_mlp_init(&net->body, &net->params, (uint32_t[]){ d->n_state, w, w }, 2, NN_RELU, rng);
	nn_mlp_init(&net->value, &net->params, (uint32_t[]){ w, w, 1 }, 2, NN_RELU, rng);
	nn_mlp_init(&net->gain, &net->params, (uint32_t[]){ w, w, d->n_actions }, 2, NN_RELU, rng);
}

void nn_dqn_init(struct nn_dqn *d, struct mq_arena *arena, const struct nn_dqn_options *options, uint32_t n_state,
		 uint32_t n_actions, struct mq_rng *rng)
{
	*d = (struct nn_dqn){ .o = *options, .arena = arena, .n_state = n_state, .n_actions = n_actions, .most = 1 };
	init_net(&d->net, d, rng);
	init_net(&d->target, d, rng);
	nn_params_copy(&d->target.params, &d->net.params);
	nn_adam_init(&d->adam, options->rate, 10);
	d->step = mq_arena_array(arena, options->replay, struct nn_step);
}

void nn_dqn_fini(struct nn_dqn *d)
{
	mq_arena_fini(&d->pass);
}

/* Q(s, a) = V(s) + A(s, a) - mean A(s, .), one row per state. */
static struct nn_var q_values(struct nn_tape *t, const struct nn_dqn_net *net, struct nn_mat states)
{
	struct nn_var h = nn_relu(t, nn_mlp(t, &net->body, nn_constant(t, states)));
	struct nn_var a = nn_mlp(t, &net->gain, h);
	uint32_t n = nn_value(t, a)->cols;
	struct nn_mat share = nn_mat_new(t->arena, n, 1);

	for (uint32_t i = 0; i < n; i++)
		share.data[i] = 1.0 / n;
	struct nn_var mean = nn_matmul(t, a, nn_constant(t, share));
	return nn_add(t, nn_sub(t, a, mean), nn_mlp(t, &net->value, h));
}

static uint32_t best(const double *q, const bool *mask, uint32_t n)
{
	int at = NO_ACTION;

	for (uint32_t a = 0; a < n; a++)
		if (mask[a] && (at == NO_ACTION || q[a] > q[at]))
			at = (int)a;
	mq_assert(at != NO_ACTION);
	return (uint32_t)at;
}

uint32_t nn_dqn_act(struct nn_dqn *d, const double *state, const bool *mask, double epsilon, struct mq_rng *rng)
{
	if (mq_rng_unit(rng) < epsilon) {
		uint32_t n = 0, pick;

		for (uint32_t a = 0; a < d->n_actions; a++)
			n += mask[a];
		mq_assert(n);
		pick = mq_rng_below(rng, n);
		for (uint32_t a = 0;; a++)
			if (mask[a] && !pick--)
				return a;
	}
	struct nn_mat row = { 1, d->n_state, NULL };
	struct nn_tape t;

	nn_forget(&d->pass);
	row.data = mq_arena_array(&d->pass, d->n_state, double);
	memcpy(row.data, state, d->n_state * sizeof(double));
	nn_tape_begin(&t, &d->pass);
	struct nn_var q = q_values(&t, &d->net, row);
	return best(nn_value(&t, q)->data, mask, d->n_actions);
}

void nn_dqn_remember(struct nn_dqn *d, const double *state, uint32_t action, double reward, const double *next,
		     const bool *next_mask)
{
	struct nn_step *s = &d->step[d->at];

	if (!s->state) {
		s->state = mq_arena_array(d->arena, d->n_state, double);
		s->next = mq_arena_array(d->arena, d->n_state, double);
		s->next_mask = mq_arena_array(d->arena, d->n_actions, bool);
	}
	memcpy(s->state, state, d->n_state * sizeof(double));
	s->last = !next;
	if (next) {
		memcpy(s->next, next, d->n_state * sizeof(double));
		memcpy(s->next_mask, next_mask, d->n_actions);
	}
	s->action = action;
	s->reward = reward;
	s->weight = d->most;
	d->at = (d->at + 1) % d->o.replay;
	d->n_steps += d->n_steps < d->o.replay;
}

struct drawn {
	uint32_t *index;
	double *weight; /* importance correction, largest 1 */
};

static struct drawn draw_batch(struct nn_dqn *d, struct mq_rng *rng)
{
	struct drawn b = { mq_arena_array(&d->pass, d->o.batch, uint32_t),
			   mq_arena_array(&d->pass, d->o.batch, double) };
	double *sum = mq_arena_array(&d->pass, d->n_steps + 1, double), most = 0;

	for (uint32_t i = 0; i < d->n_steps; i++)
		sum[i + 1] = sum[i] + d->step[i].weight;
	for (uint32_t k = 0; k < d->o.batch; k++) {
		double u = mq_rng_unit(rng) * sum[d->n_steps];
		uint32_t lo = 0, hi = d->n_steps - 1;

		while (lo < hi) {
			uint32_t mid = (lo + hi) / 2;

			if (sum[mid + 1] > u)
				hi = mid;
			else
				lo = mid + 1;
		}
		b.index[k] = lo;
		b.weight[k] = pow(d->n_steps * (sum[lo + 1] - sum[lo]) / sum[d->n_steps], -d->o.beta);
		most = fmax(most, b.weight[k]);
	}
	for (uint32_t k = 0; k < d->o.batch; k++)
		b.weight[k] /= most;
	return b;
}

/* Targets: r + gamma Q_target(s', argmax Q(s', .)). */
static double *targets(struct nn_dqn *d, const struct drawn *b)
{
	double *y = mq_arena_array(&d->pass, d->o.batch, double);
	struct nn_mat next = nn_mat_new(&d->pass, d->o.batch, d->n_state);
	struct nn_tape t;

	for (uint32_t k = 0; k < d->o.batch; k++)
		memcpy(next.data + (size_t)k * d->n_state, d->step[b->index[k]].next, d->n_state * sizeof(double));
	nn_tape_begin(&t, &d->pass);
	struct nn_var own = q_values(&t, &d->net, next);
	struct nn_var other = q_values(&t, &d->target, next);
	for (uint32_t k = 0; k < d->o.batch; k++) {
		const struct nn_step *s = &d->step[b->index[k]];
		size_t row = (size_t)k * d->n_actions;

		y[k] = s->reward;
		if (!s->last)
			y[k] += d->o.gamma *
				nn_value(&t, other)
					->data[row + best(nn_value(&t, own)->data + row, s->next_mask, d->n_actions)];
	}
	return y;
}

double nn_dqn_learn(struct nn_dqn *d, struct mq_rng *rng)
{
	if (d->n_steps < d->o.batch)
		return NAN;
	nn_forget(&d->pass);
	struct drawn b = draw_batch(d, rng);
	struct nn_mat y = { d->o.batch, 1, targets(d, &b) }, w = { d->o.batch, 1, b.weight };
	struct nn_mat states = nn_mat_new(&d->pass, d->o.batch, d->n_state);
	uint32_t *action = mq_arena_array(&d->pass, d->o.batch, uint32_t);
	struct nn_tape t;

	for (uint32_t k = 0; k < d->o.batch; k++) {
		memcpy(states.data + (size_t)k * d->n_state, d->step[b.index[k]].state, d->n_state * sizeof(double));
		action[k] = d->step[b.index[k]].action;
	}
	nn_tape_begin(&t, &d->pass);
	struct nn_var q = nn_pick(&t, q_values(&t, &d->net, states), action);
	struct nn_var error = nn_sub(&t, q, nn_constant(&t, y));
	struct nn_var loss = nn_mean(&t, nn_mul(&t, nn_mul(&t, error, error), nn_constant(&t, w)));
	for (uint32_t k = 0; k < d->o.batch; k++) {
		double p = pow(fabs(nn_value(&t, error)->data[k]) + 1e-3, d->o.alpha);

		d->step[b.index[k]].weight = p;
		d->most = fmax(d->most, p);
	}
	nn_backward(&t, loss);
	double value = nn_value(&t, loss)->data[0];
	nn_adam_step(&d->adam, &d->net.params);
	if (++d->learnt % d->o.copy_every == 0)
		nn_params_copy(&d->target.params, &d->net.params);
	return value;
}
