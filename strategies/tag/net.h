/* net.h - TAG's graph network: log probabilities of the actions of the next op group, from a view of the question and
 * of the decisions so far; its records and training.
 *
 * Nodes are op groups and device groups; edges are prev, succ (tensors), link (between device groups) and place (op
 * group to device group and back). Layers of graph attention with edge features and residuals; an MLP scores an action
 * from (mean over device groups of MLP(embedding, in the set?), embedding of the op group, the action's features).
 *
 * A record is a view with the visit distribution at the end of a search. Training minimises the cross-entropy over
 * shuffled records; a tenth of the questions (not of the records) is held out for testing.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TAG_NET_H
#define MQ_TAG_NET_H

#include "nn/nn.h"
#include "tag/space.h"

enum {
	MQ_TAG_FEEDBACK = 6, /* known, speed-up, shares of compute, waiting, idle; memory */
	MQ_TAG_OP_INPUTS = MQ_TAG_OP_FEATURES + MQ_TAG_N_HOWS + 2 + MQ_TAG_FEEDBACK,
	MQ_TAG_EDGE_INPUTS = 4 + 2, /* kind one-hot; value, placed there */
	MQ_TAG_LAYERS = 4,
};

/* The network's input. Rows of `op` are op groups, of `device` device groups. */
struct mq_tag_view {
	uint32_t n_ops, n_devices, n_actions, n_edges;
	uint32_t next;       /* op group to decide */
	uint32_t *mask;      /* [n_actions] sets of device groups */
	uint32_t *src, *dst; /* [n_edges] nodes: op groups, then device groups */
	struct nn_mat op, device, edge, action;
};

/* The view in which the first `depth` op groups of the order are decided. `feedback` [MQ_TAG_FEEDBACK]: of a plan
 * simulated with these actions, zeroes = none. */
void mq_tag_view_make(const struct mq_tag_space *space, const uint32_t *action, uint32_t depth, const double *feedback,
		      struct mq_arena *arena, struct mq_tag_view *view);

struct mq_tag_net {
	struct nn_params params;
	struct nn_dense op_in, device_in, edge_in;
	struct nn_gat gat[MQ_TAG_LAYERS];
	struct nn_mlp device_out, score;
};
void mq_tag_net_init(struct mq_tag_net *net, uint32_t width, struct mq_arena *arena, struct mq_rng *rng);
/* Log probability of every action, a row. */
struct nn_var mq_tag_net_run(const struct mq_tag_net *net, struct nn_tape *tape, const struct mq_tag_view *view);

/* ---- training ------------------------------------------------------------------------------------------ */
struct mq_tag_record {
	uint64_t question; /* hash of model and cluster */
	struct mq_tag_view view;
	double *target; /* [n_actions] sums to 1 */
};
/* Appends text: several runs may write to one file, one after the other. */
enum mq_status mq_tag_records_append(const char *path, const struct mq_tag_record *record, uint32_t n,
				     struct mq_err *err);
bool mq_tag_records_probe(const char *path);
enum mq_status mq_tag_records_load(const char *path, struct mq_arena *arena, uint32_t *n, struct mq_tag_record **record,
				   struct mq_err *err);

struct mq_tag_training {
	uint32_t epochs, batch; /* batch: records per step of Adam */
	double rate;            /* decays to a tenth over the epochs */
};
/* Keeps the weights of the epoch with the least loss on held-out questions. Reports both losses after every epoch. */
enum mq_status mq_tag_net_train(struct mq_tag_net *net, const struct mq_tag_training *how,
				const struct mq_problem *problem, const struct mq_tag_record *record, uint32_t n,
				struct mq_err *err);

#endif
