/*
 * tag.c - data, server and model parallelism over sets of unequal devices by tree search with a graph network
 * as prior ("Expediting distributed DNN training with device topology-aware graph deployment", TAG, IEEE TPDS
 * 2023, arXiv 2302.06126).
 *
 * Ops form groups, devices of one type another; each op group takes a non-empty set of device groups and one of
 * {all-reduce, parameter server, model parallel}. The baseline is all devices with all-reduce; where that does
 * not fit, all devices model-parallel. Value of a strategy: T_base / T - 1, -1 out of memory, above 1 its
 * fourth root.
 *
 * Search: nodes are the actions of the first k groups (largest compute time first); undecided groups copy the
 * first action. select argmax Q + c P sqrt(N_parent) / (1 + n), c = sqrt(children / 10); the leaf itself is
 * evaluated, its value is backed up as a running mean. Proposals of one batch see each other as visits.
 *
 * Prior: heterogeneous graph attention over op and device groups (edges prev, succ, link, place with features),
 * then an MLP over (device embeddings weighted by the action's set, next op group, one-hot kind) and a softmax
 * over the actions. It learns while searching: every `learn` playouts, cross-entropy towards the visit counts
 * of the most visited nodes (Adam, clipped). `weights` loads a network trained before, `save` writes it.
 *
 * Sufficient factors: which all-reduced GEMMs gather activations instead of gradients is the minimum cut of
 * lib/sfb.h, solved once for the baseline; `sfb=false` leaves it out.
 *
 * Differences from the paper: op groups are runs of the graph (it uses METIS); the network is smaller by
 * default (64 wide instead of 256) and has no feedback features of the last simulation; it is trained on the
 * question at hand rather than over random topologies. `heterog` restricts the actions to HeteroG's (CoNEXT
 * 2020): one device group, or all, and no model parallelism over several.
 *
 * Complexity: a playout walks <= groups levels of <= 3 (2^device groups - 1) children. No pipeline, no tensor
 * parallelism; promises no optimum.
 *
 * link: igraph openblas
 */
#include <math.h>

#include "core/engine.h"
#include "lib/plans.h"
#include "lib/sfb.h"
#include "lib/tag_space.h"
#include "nn/nn.h"

enum { BATCH = 4, EDGE_KINDS = 4, LAYERS = 4 };

struct node {
	uint32_t parent, action, depth;
	uint32_t child, n_children; /* children are contiguous; 0 = not expanded */
	uint32_t visits;            /* those under way count */
	double value, prior;        /* running mean of what came back */
	uint32_t n_values;
};

struct tag {
	/* options */
	uint32_t groups, width, learn;
	double rate;
	bool gnn, sfb, heterog;
	const char *weights, *save;
	/* the question */
	struct mq_tag_space space;
	double base_s, best_s;
	uint32_t n_proposed, n_observed;
	uint32_t pending[BATCH];    /* nodes whose score is to come */
	/* the tree */
	struct node *node;
	uint32_t n_nodes, node_room;
	/* the network */
	struct nn_params params;
	struct nn_dense op_in, device_in, edge_in;
	struct nn_gat gat[LAYERS];
	struct nn_mlp device_out, score;
	struct nn_adam adam;
	struct mq_arena pass;
	uint32_t since_learnt;
};

static const struct mq_opt opts[] = {
	MQ_U32(struct tag, groups, 40, 1, 1000, "op groups"),
	MQ_U32(struct tag, width, 64, 8, 512, "width of the network (the paper: 256)"),
	MQ_U32(struct tag, learn, 64, 1, 1000000, "playouts between learning steps"),
	MQ_F64(struct tag, rate, 1e-3, 1e-6, 1, "step size of Adam"),
	MQ_BOOL(struct tag, gnn, 1, "graph network as prior; false = uniform"),
	MQ_BOOL(struct tag, sfb, 1, "gather sufficient factors where the minimum cut says so"),
	MQ_BOOL(struct tag, heterog, 0, "HeteroG's action space"),
	MQ_STR(struct tag, weights, NULL, "file of network weights to start from"),
	MQ_STR(struct tag, save, NULL, "file that receives the weights at the end"),
	MQ_END
};

/* ---- sufficient factors --------------------------------------------------------------------------------------- */

/* Cost of duplicating op i on M replicas against reducing its gradient, in seconds (lib/sfb.h). Only GEMMs are
 * lowered as duplicates; their inputs are gathered, so the cut is over single ops. */
static enum mq_status find_duplicates(struct tag *s, const struct mq_problem *p, struct mq_err *err)
{
	const struct mq_model *m = p->model;
	struct mq_tag_action all = s->space.action[0];
	double *cost = mq_arena_array(p->arena, m->n_ops, double);
	bool *forbidden = mq_arena_array(p->arena, m->n_ops, bool);
	uint32_t split[MQ_N_DIMS] = { 1, 1, 1, 1, 1, 1, 1 };
	uint32_t *rank = mq_arena_array(p->arena, all.n_devices, uint32_t), n = 0;
	struct mq_sfb_result result;

	for (uint32_t g = 0; g < s->space.n_devices; g++)
		for (uint32_t i = 0; i < s->space.device[g].n; i++)
			rank[n++] = s->space.device[g].rank[i];
	for (uint32_t op = 0; op < m->n_ops; op++) {
		double own = p->train->batch / n, reduce = 0, gather = 0, size;
		struct mq_coll_request rq = { .n = n, .rank = rank, .dtype = p->train->grad_dtype };

		forbidden[op] = m->op[op].kind != MQ_OP_GEMM || n < 2 || m->op[op].param <= 0;
		if (forbidden[op])
			continue;
		rq.kind = MQ_COLL_ALL_REDUCE;
		rq.bytes = m->op[op].param * mq_dtype_size(p->train->grad_dtype);
		p->costs->collective(p->costs->context, &rq, &reduce);
		size = (m->op[op].read + m->op[op].write) * p->train->batch;
		rq.kind = MQ_COLL_ALL_GATHER;
		rq.bytes = size * mq_dtype_size(p->train->dtype);
		p->costs->collective(p->costs->context, &rq, &gather);
		double whole = p->costs->op_time(p->costs->context, op, MQ_BACKWARD, rank[0], split,
						 p->train->batch);
		double part = p->costs->op_time(p->costs->context, op, MQ_BACKWARD, rank[0], split, own);
		cost[op] = gather + (whole - part) / 2 - reduce; /* half of the backward is dW */
	}
	struct mq_sfb_problem cut = { .n_ops = m->n_ops, .cost = cost, .forbidden = forbidden };
	MQ_TRY(mq_sfb_solve(&cut, p->arena, &result, err));
	s->space.duplicate = result.duplicate;
	return MQ_OK;
}

/* ---- the network ------------------------------------------------------------------------------------------------- */

static void make_network(struct tag *s, const struct mq_problem *p)
{
	uint32_t w = s->width;

	nn_params_init(&s->params, p->arena);
	nn_dense_init(&s->op_in, &s->params, MQ_TAG_OP_FEATURES + MQ_TAG_N_HOWS + 2, w, NN_TANH, p->rng);
	nn_dense_init(&s->device_in, &s->params, MQ_TAG_DEVICE_FEATURES, w, NN_TANH, p->rng);
	nn_dense_init(&s->edge_in, &s->params, EDGE_KINDS + 1, 16, NN_TANH, p->rng);
	for (int i = 0; i < LAYERS; i++)
		nn_gat_init(&s->gat[i], &s->params, w, 16, w, 4, p->rng);
	nn_mlp_init(&s->device_out, &s->params, (uint32_t[]){ w + 1, w, w }, 2, NN_TANH, p->rng);
	nn_mlp_init(&s->score, &s->params, (uint32_t[]){ 2 * w + MQ_TAG_N_HOWS, w, 1 }, 2, NN_TANH, p->rng);
	nn_adam_init(&s->adam, s->rate, 0.6);
}

/* The actions on the way to a node, by group in order of decision; the first one fills the rest. */
static void actions_of(const struct tag *s, uint32_t id, uint32_t *action)
{
	uint32_t first = 0;

	for (uint32_t at = id; at; at = s->node[at].parent)
		if (s->node[at].depth == 1)
			first = s->node[at].action;
	for (uint32_t g = 0; g < s->space.n; g++)
		action[g] = first;
	for (uint32_t at = id; at; at = s->node[at].parent)
		action[s->space.order[s->node[at].depth - 1]] = s->node[at].action;
}

struct links {
	uint32_t n, *src, *dst;
	struct nn_mat feature;
};

static void add_link(struct links *l, uint32_t src, uint32_t dst, uint32_t kind, double value)
{
	l->src[l->n] = src;
	l->dst[l->n] = dst;
	l->feature.data[l->n * (EDGE_KINDS + 1) + kind] = 1;
	l->feature.data[l->n++ * (EDGE_KINDS + 1) + EDGE_KINDS] = value;
}

/* Op groups are nodes 0 .. n-1, device groups follow. */
static struct links make_links(const struct tag *s, const uint32_t *action, struct mq_arena *arena)
{
	const struct mq_tag_space *sp = &s->space;
	uint32_t d_n = sp->n_devices, most = 2 * sp->n_edges + d_n * d_n + 2 * sp->n * d_n + sp->n + d_n;
	struct links l = { 0, mq_arena_array(arena, most, uint32_t), mq_arena_array(arena, most, uint32_t),
			   nn_mat_new(arena, most, EDGE_KINDS + 1) };
	double fastest = 1e-300;

	for (uint32_t i = 0; i < d_n * d_n; i++)
		fastest = fmax(fastest, sp->bw[i]);
	for (uint32_t e = 0; e < sp->n_edges; e++) {
		add_link(&l, sp->src[e], sp->dst[e], 0, sp->edge[e]);
		add_link(&l, sp->dst[e], sp->src[e], 1, sp->edge[e]);
	}
	for (uint32_t a = 0; a < d_n; a++)
		for (uint32_t b = 0; b < d_n; b++)
			add_link(&l, sp->n + a, sp->n + b, 2, sp->bw[a * d_n + b] / fastest);
	for (uint32_t g = 0; g < sp->n; g++)
		for (uint32_t d = 0; d < d_n; d++) {
			double placed = (sp->action[action[g]].mask >> d & 1) != 0;

			add_link(&l, g, sp->n + d, 3, placed);
			add_link(&l, sp->n + d, g, 3, placed);
		}
	l.feature.rows = l.n;
	return l;
}

/* log probability of every action at a node: a row. */
static struct nn_var prior(struct tag *s, struct nn_tape *t, uint32_t id)
{
	const struct mq_tag_space *sp = &s->space;
	uint32_t width = MQ_TAG_OP_FEATURES + MQ_TAG_N_HOWS + 2, d_n = sp->n_devices, n = sp->n + d_n;
	uint32_t *action = mq_arena_array(t->arena, sp->n, uint32_t), depth = s->node[id].depth;
	struct nn_mat op = nn_mat_new(t->arena, n, width), dev = nn_mat_new(t->arena, n, MQ_TAG_DEVICE_FEATURES);
	struct nn_mat is_op = nn_mat_new(t->arena, n, 1), is_device = nn_mat_new(t->arena, n, 1);

	actions_of(s, id, action);
	for (uint32_t i = 0; i < sp->n; i++) {
		double *f = op.data + (size_t)sp->order[i] * width;

		memcpy(f, sp->op_feature + sp->order[i] * MQ_TAG_OP_FEATURES,
		       MQ_TAG_OP_FEATURES * sizeof(double));
		f[MQ_TAG_OP_FEATURES + sp->action[action[sp->order[i]]].how] = 1;
		f[width - 2] = i < depth;
		f[width - 1] = i == depth;
		is_op.data[sp->order[i]] = 1;
	}
	for (uint32_t d = 0; d < d_n; d++) {
		memcpy(dev.data + (size_t)(sp->n + d) * MQ_TAG_DEVICE_FEATURES,
		       sp->device_feature + d * MQ_TAG_DEVICE_FEATURES,
		       MQ_TAG_DEVICE_FEATURES * sizeof(double));
		is_device.data[sp->n + d] = 1;
	}
	struct nn_var h = nn_add(t, nn_mul(t, nn_dense(t, &s->op_in, nn_constant(t, op)),
					   nn_constant(t, is_op)),
				 nn_mul(t, nn_dense(t, &s->device_in, nn_constant(t, dev)),
					nn_constant(t, is_device)));
	struct links l = make_links(s, action, t->arena);
	struct nn_graph g = { n, l.n, l.src, l.dst };
	struct nn_var edge = nn_dense(t, &s->edge_in, nn_constant(t, l.feature));
	for (int i = 0; i < LAYERS; i++)
		h = nn_add(t, h, nn_tanh(t, nn_gat(t, &s->gat[i], &g, h, h, edge)));
	/* Candidates: the mean over device groups of MLP(embedding, in the set?), the next op group, the kind. */
	uint32_t rows = sp->n_actions * d_n, *which = mq_arena_array(t->arena, rows, uint32_t);
	uint32_t *candidate = mq_arena_array(t->arena, rows, uint32_t);
	uint32_t *next = mq_arena_array(t->arena, sp->n_actions, uint32_t);
	struct nn_mat in = nn_mat_new(t->arena, rows, 1), kind = nn_mat_new(t->arena, sp->n_actions, MQ_TAG_N_HOWS);
	for (uint32_t a = 0; a < sp->n_actions; a++) {
		for (uint32_t d = 0; d < d_n; d++) {
			which[a * d_n + d] = sp->n + d;
			candidate[a * d_n + d] = a;
			in.data[a * d_n + d] = (sp->action[a].mask >> d & 1) != 0;
		}
		next[a] = sp->order[depth < sp->n ? depth : sp->n - 1];
		kind.data[a * MQ_TAG_N_HOWS + sp->action[a].how] = 1;
	}
	struct nn_var each = nn_concat(t, nn_rows(t, h, which, rows), nn_constant(t, in));
	struct nn_var sets = nn_group_mean(t, nn_mlp(t, &s->device_out, each), candidate, sp->n_actions);
	struct nn_var all = nn_concat(t, nn_concat(t, nn_tanh(t, sets), nn_rows(t, h, next, sp->n_actions)),
				      nn_constant(t, kind));
	return nn_log_softmax(t, nn_transpose(t, nn_mlp(t, &s->score, all)), NULL);
}

/* ---- the tree -------------------------------------------------------------------------------------------------------- */

static bool allowed(const struct tag *s, const struct mq_tag_action *a)
{
	bool one = !(a->mask & (a->mask - 1)), all = a->mask == (1u << s->space.n_devices) - 1;

	return !s->heterog || (a->how == MQ_TAG_MODEL ? one : one || all);
}

static void expand(struct tag *s, const struct mq_problem *p, uint32_t id)
{
	uint32_t n = 0;
	struct nn_tape t;
	const double *log_p = NULL;

	if (s->node[id].depth == s->space.n)
		return;
	mq_arena_fini(&s->pass);
	if (s->gnn) {
		nn_tape_begin(&t, &s->pass);
		struct nn_var prob = prior(s, &t, id);
		log_p = nn_value(&t, prob)->data;
	}
	for (uint32_t a = 0; a < s->space.n_actions; a++)
		n += allowed(s, &s->space.action[a]);
	s->node[id].child = s->n_nodes;
	s->node[id].n_children = n;
	for (uint32_t a = 0; a < s->space.n_actions; a++) {
		if (!allowed(s, &s->space.action[a]))
			continue;
		struct node child = { .parent = id,
				      .action = a,
				      .depth = s->node[id].depth + 1,
				      .prior = log_p ? exp(log_p[a]) : 1.0 / n };
		MQ_PUSH(p->arena, s->node, s->n_nodes, s->node_room, child);
	}
}

static uint32_t best_child(const struct tag *s, uint32_t id)
{
	const struct node *v = &s->node[id];
	double c = sqrt(v->n_children / 10.0), best = -INFINITY;
	uint32_t at = v->child;

	for (uint32_t k = v->child; k < v->child + v->n_children; k++) {
		double u = s->node[k].value + c * s->node[k].prior * sqrt(v->visits) / (1 + s->node[k].visits);

		if (u > best) {
			best = u;
			at = k;
		}
	}
	return at;
}

static uint32_t select_leaf(struct tag *s, const struct mq_problem *p)
{
	uint32_t id = 0;

	s->node[0].visits++;
	for (;;) {
		if (!s->node[id].n_children) {
			/* A node is expanded when it is met again, after its own evaluation. */
			if (id && s->node[id].visits == 1)
				return id;
			expand(s, p, id);
			if (!s->node[id].n_children)
				return id;
		}
		id = best_child(s, id);
		s->node[id].visits++;
	}
}

/* ---- learning: towards the visits of well-known nodes --------------------------------------------------------------- */

static void learn(struct tag *s)
{
	uint32_t done = 0;

	for (uint32_t id = 0; id < s->n_nodes && done < 8; id++) {
		const struct node *v = &s->node[id];

		if (!v->n_children || v->visits < s->learn / 2)
			continue;
		struct nn_tape t;
		struct nn_mat target = nn_mat_new(&s->pass, 1, s->space.n_actions);
		double sum = 0;

		for (uint32_t k = v->child; k < v->child + v->n_children; k++)
			sum += s->node[k].visits;
		for (uint32_t k = v->child; k < v->child + v->n_children; k++)
			target.data[s->node[k].action] = -s->node[k].visits / sum;
		nn_tape_begin(&t, &s->pass);
		struct nn_var loss = nn_sum(&t, nn_mul(&t, prior(s, &t, id), nn_constant(&t, target)));
		nn_backward(&t, loss);
		done++;
	}
	if (done)
		nn_adam_step(&s->adam, &s->params);
	mq_arena_fini(&s->pass);
}

/* ---- the engine --------------------------------------------------------------------------------------------------------- */

static enum mq_status start(void *state, const struct mq_problem *p, struct mq_err *err)
{
	struct tag *s = state;
	struct node root = { 0 };

	MQ_TRY(mq_tag_space_make(p, s->groups, &s->space, err));
	make_network(s, p);
	if (s->weights)
		MQ_TRY(nn_params_load(&s->params, s->weights, err));
	if (s->sfb && !p->train->infer)
		MQ_TRY(find_duplicates(s, p, err));
	s->base_s = s->best_s = NAN;
	MQ_PUSH(p->arena, s->node, s->n_nodes, s->node_room, root);
	return MQ_OK;
}

/* The first two proposals are the baselines: all devices with all-reduce, and with model parallelism. */
static enum mq_status propose(void *state, const struct mq_problem *p, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct tag *s = state;
	uint32_t *action = mq_arena_array(arena, s->space.n, uint32_t), leaf = 0, fallback = 0;

	while (fallback + 1 < s->space.n_actions && s->space.action[fallback].how != MQ_TAG_MODEL)
		fallback++;
	if (s->n_proposed < 2) {
		for (uint32_t g = 0; g < s->space.n; g++)
			action[g] = s->n_proposed ? fallback : 0;
	} else {
		leaf = select_leaf(s, p);
		actions_of(s, leaf, action);
	}
	struct mq_tag_space plain = s->space;
	if (!s->n_proposed) /* the baseline gathers no factors */
		plain.duplicate = NULL;
	s->pending[s->n_proposed++ % BATCH] = leaf;
	return mq_tag_plan(&plain, action, p, arena, plan, err);
}

static double value_of(const struct tag *s, const struct mq_result *r)
{
	if (r->verdict != MQ_VERDICT_OK || isnan(s->base_s))
		return -1;
	double v = s->base_s / r->step_time_s - 1;
	return v > 1 ? pow(v, 0.25) : v;
}

static void observe(void *state, const struct mq_problem *p, const struct mq_plan *plan,
		    const struct mq_result *result)
{
	struct tag *s = state;
	uint32_t i = s->n_observed++;

	if (result->verdict == MQ_VERDICT_OK)
		s->best_s = fmin(result->step_time_s, s->best_s);
	if (i < 2) {
		if (result->verdict == MQ_VERDICT_OK && isnan(s->base_s))
			s->base_s = result->step_time_s;
		return;
	}
	if (isnan(s->base_s) && result->verdict == MQ_VERDICT_OK) /* neither baseline fits */
		s->base_s = result->step_time_s;
	double v = value_of(s, result);
	for (uint32_t at = s->pending[i % BATCH];; at = s->node[at].parent) {
		s->node[at].value += (v - s->node[at].value) / ++s->node[at].n_values;
		if (!at)
			break;
	}
	if (s->gnn && ++s->since_learnt == s->learn) {
		s->since_learnt = 0;
		learn(s);
	}
}

static void stop(void *state, const struct mq_problem *p)
{
	struct tag *s = state;
	struct mq_err err = MQ_ERR_INIT;

	mq_say(p, "tag: %u op groups, %u device groups, %u tree nodes; baseline %.9g s, best %.9g s: %.3g x",
	       s->space.n, s->space.n_devices, s->n_nodes, s->base_s, s->best_s, s->base_s / s->best_s);
	if (s->save && nn_params_save(&s->params, s->save, &err) != MQ_OK)
		mq_say(p, "tag: weights not saved: %s", err.text);
	mq_arena_fini(&s->pass);
}

MQ_ENGINE(tag) = {
	MQ_ENGINE_HEAD("tag"),
	.summary = "replication over device sets by tree search with a graph network as prior (TAG)",
	.paper = "TAG, IEEE TPDS 2023, arXiv 2302.06126",
	.opts = opts,
	.state_size = sizeof(struct tag),
	.batch = BATCH,
	.heuristic = true,
	.lacks = MQ_LACKS_SPLITS | MQ_LACKS_PP,
	.start = start,
	.propose = propose,
	.observe = observe,
	.stop = stop,
};
