/* hsdag.c - placement by a graph network that learns its own clusters ("A structure-aware framework for learning device
 * placements on computation graphs", NeurIPS 2024, arXiv 2405.14185).
 *
 * 1. Chains of the task graph (a node and its only successor, which has no other predecessor) are merged.
 * 2. Features: kinds of the merged ops (mean of one-hot vectors), degrees, output size, sinusoidal position,
 *    fractal dimension (slope of log |ball(v, r)| against log r), share of the compute time.
 * 3. MLP (2 x width), two GCN layers with residual and layer norm, edge scores s_uv = sigmoid(MLP(h_u h_v)).
 *    Parsing: every node keeps its best edge if it scores above 1/2; kept edges are merged best first, so the
 *    number of clusters is learned.
 * 4. Clusters are pooled (mean of h weighted by the scores of the kept edges) into the nodes of a coarser graph,
 *    which is scored and parsed again (with a GCN of its own) until nothing merges, or `levels` times; an MLP and
 *    a softmax over the devices place the final clusters.
 * 5. `episode` placements are sampled per parse; REINFORCE on 1 / step time with a running baseline and an entropy
 *    bonus, one Adam step per episode. A running mean of the embeddings of a node's clusters is added to the
 *    node's embedding in later episodes; `feedback=false` turns this off.
 *
 * Differences from the paper and its code: single-device placements are allowed and proposed first (the released code
 * counts them as failures), and the best of them is reported; the features that the released code leaves out are used;
 * a baseline and clipping stabilize REINFORCE; the simulated step time is the reward; a placement that does not fit
 * earns less, the more memory it lacks. The even spread of lib/coarse.h comes second; if it does not fit, all plans
 * accumulate micro-batches or recompute (lib/fit.h). Objective: step time. A forward pass costs O((nodes + edges)
 * width^2). It cannot split tensors or cut pipelines and guarantees no optimum.
 *
 * link: openblas
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/engine.h"
#include "lib/coarse.h"
#include "lib/plans.h"
#include "nn/nn.h"

enum { POSITIONS = 8, FEATURES = MQ_N_OP_KINDS + POSITIONS + 5, MAX_EPISODE = 64, RADII = 4, BATCH = 4 };

/* A graph whose nodes are placed as a whole. */
struct level {
	uint32_t n, n_edges, *src, *dst;
	bool *possible; /* [n * devices] */
};

struct hsdag {
	/* options */
	uint32_t groups, width, episode, levels;
	bool feedback;
	double rate, entropy, dropout;
	/* the graph, merged */
	struct mq_coarse coarse;
	struct level base;
	uint32_t *node_of; /* [coarse.n] */
	struct nn_mat feature;
	struct nn_mat memory; /* [nodes * width] running mean of cluster embeddings */
	/* the network */
	struct nn_params params;
	struct nn_mlp encode, score, place;
	struct nn_dense gcn[2], gcn_coarse;
	struct nn_norm norm[2], norm_coarse;
	struct nn_adam adam;
	struct mq_arena pass; /* memory of one forward pass */
	struct nn_tape tape;  /* of the current episode */
	struct nn_var out;    /* log probabilities, clusters x devices */
	/* the episode */
	uint32_t n_clusters, *cluster_of; /* [base.n] */
	uint32_t n_levels;
	bool *cluster_possible; /* [n_clusters * devices] */
	double *log_p;          /* [n_clusters * devices] */
	uint32_t n_drawn, n_seen;
	uint32_t tried, n_baselines;             /* `next` of mq_coarse_baseline; baselines not yet observed */
	uint32_t *choice;                        /* [(episode + BATCH) * base.n] devices by cluster */
	double *time_s, *excess;                 /* [episode + BATCH] step time; see mq_fit_excess */
	double baseline, best_single_s, worst_s; /* worst: feasible time, 0 = none yet */
	uint32_t best_single;
	uint64_t n_rewards;
};

static const struct mq_opt opts[] = {
	MQ_U32(struct hsdag, groups, 0, 0, 100000, "groups of ops before chain merging (0: no limit)"),
	MQ_U32(struct hsdag, width, 128, 4, 1024, "width of the network"),
	MQ_U32(struct hsdag, levels, 4, 1, 32, "most times that the graph is coarsened"),
	MQ_BOOL(struct hsdag, feedback, 1, "embeddings of clusters go back to their nodes"),
	MQ_U32(struct hsdag, episode, 20, 2, MAX_EPISODE, "placements per gradient step"),
	MQ_F64(struct hsdag, rate, 1e-3, 1e-6, 1, "step size of Adam"),
	MQ_F64(struct hsdag, entropy, 0.01, 0, 10, "weight of the entropy bonus"),
	MQ_F64(struct hsdag, dropout, 0.2, 0, 0.9, "share dropped between GCN layers while learning"),
	MQ_END
};

/* ---- the merged graph ------------------------------------------------------------------------------------ */

static void add_distinct(struct level *g, uint32_t a, uint32_t b)
{
	for (uint32_t k = 0; k < g->n_edges; k++)
		if (g->src[k] == a && g->dst[k] == b)
			return;
	if (a == b)
		return;
	g->src[g->n_edges] = a;
	g->dst[g->n_edges++] = b;
}

static void merge_chains(struct hsdag *s, struct mq_arena *arena)
{
	uint32_t n = s->coarse.n;
	uint32_t *out = mq_arena_array(arena, n, uint32_t), *in = mq_arena_array(arena, n, uint32_t);
	uint32_t *parent = mq_arena_count(arena, n);
	const struct mq_tasks *t = &s->coarse.tasks;
	struct level g = { .n = n, /* graph of the coarse groups */
			   .src = mq_arena_array(arena, t->n_edges, uint32_t),
			   .dst = mq_arena_array(arena, t->n_edges, uint32_t) };

	for (uint32_t e = 0; e < t->n_edges; e++)
		add_distinct(&g, s->coarse.group_of[t->edge[e].src], s->coarse.group_of[t->edge[e].dst]);
	for (uint32_t e = 0; e < g.n_edges; e++) {
		out[g.src[e]]++;
		in[g.dst[e]]++;
	}
	for (uint32_t e = 0; e < g.n_edges; e++)
		if (out[g.src[e]] == 1 && in[g.dst[e]] == 1)
			parent[mq_root(parent, g.dst[e])] = mq_root(parent, g.src[e]);
	s->node_of = mq_arena_none(arena, n);
	for (uint32_t v = 0; v < n; v++) {
		uint32_t *root = &s->node_of[mq_root(parent, v)];

		if (*root == MQ_NONE)
			*root = s->base.n++;
		s->node_of[v] = *root;
	}
	s->base.src = mq_arena_array(arena, g.n_edges, uint32_t);
	s->base.dst = mq_arena_array(arena, g.n_edges, uint32_t);
	for (uint32_t e = 0; e < g.n_edges; e++)
		add_distinct(&s->base, s->node_of[g.src[e]], s->node_of[g.dst[e]]);
	s->base.possible = mq_arena_array(arena, (size_t)s->base.n * s->coarse.n_devices, bool);
	memset(s->base.possible, true, (size_t)s->base.n * s->coarse.n_devices);
	for (uint32_t v = 0; v < n; v++)
		for (uint32_t d = 0; d < s->coarse.n_devices; d++)
			s->base.possible[s->node_of[v] * s->coarse.n_devices + d] &=
				s->coarse.possible[v * s->coarse.n_devices + d];
}

/* ---- features ----------------------------------------------------------------------------------------------- */

/* Number of nodes within each radius of v, ignoring edge directions. */
static void count_balls(const struct hsdag *s, uint32_t v, uint32_t *distance, double ball[RADII])
{
	for (uint32_t u = 0; u < s->base.n; u++)
		distance[u] = u == v ? 0 : MQ_NONE;
	for (uint32_t r = 1; r <= RADII; r++) {
		for (uint32_t e = 0; e < s->base.n_edges; e++) {
			uint32_t a = s->base.src[e], b = s->base.dst[e];

			if (distance[a] == r - 1 && distance[b] == MQ_NONE)
				distance[b] = r;
			if (distance[b] == r - 1 && distance[a] == MQ_NONE)
				distance[a] = r;
		}
		ball[r - 1] = 0;
		for (uint32_t u = 0; u < s->base.n; u++)
			ball[r - 1] += distance[u] <= r;
	}
}

/* Least-squares slope of log ball against log radius. */
static double fractal_dimension(const double ball[RADII])
{
	double sx = 0, sy = 0, sxx = 0, sxy = 0;

	for (int r = 0; r < RADII; r++) {
		double x = log(r + 1.0), y = log(ball[r]);

		sx += x;
		sy += y;
		sxx += x * x;
		sxy += x * y;
	}
	return (RADII * sxy - sx * sy) / (RADII * sxx - sx * sx);
}

static void make_features(struct hsdag *s, const struct mq_problem *problem)
{
	const struct mq_model *m = problem->q->model;
	double *ops = mq_arena_array(problem->arena, s->base.n, double);
	uint32_t *distance = mq_arena_array(problem->arena, s->base.n, uint32_t);
	double total = 0;

	s->feature = nn_mat_new(problem->arena, s->base.n, FEATURES);
	for (uint32_t op = 0; op < m->n_ops; op++) {
		uint32_t v = s->node_of[s->coarse.group_of[s->coarse.tasks.space.group_of[op]]];
		double *f = s->feature.data + (size_t)v * FEATURES;

		ops[v]++;
		f[m->op[op].kind]++;
		f[MQ_N_OP_KINDS + POSITIONS] = fmax(f[MQ_N_OP_KINDS + POSITIONS], log1p(m->op[op].output) / 20);
	}
	for (uint32_t t = 0; t < s->coarse.tasks.n; t++)
		total += mq_tasks_mean_time(&s->coarse.tasks, t);
	for (uint32_t t = 0; t < s->coarse.tasks.n; t++)
		s->feature.data[(size_t)s->node_of[s->coarse.group_of[t]] * FEATURES + MQ_N_OP_KINDS + POSITIONS + 1] +=
			mq_tasks_mean_time(&s->coarse.tasks, t) / total;
	for (uint32_t e = 0; e < s->base.n_edges; e++) {
		s->feature.data[(size_t)s->base.src[e] * FEATURES + MQ_N_OP_KINDS + POSITIONS + 2] += 0.25;
		s->feature.data[(size_t)s->base.dst[e] * FEATURES + MQ_N_OP_KINDS + POSITIONS + 3] += 0.25;
	}
	for (uint32_t v = 0; v < s->base.n; v++) {
		double *f = s->feature.data + (size_t)v * FEATURES, ball[RADII];

		for (int k = 0; k < MQ_N_OP_KINDS; k++)
			f[k] /= ops[v];
		for (int k = 0; k < POSITIONS; k++) {
			double angle = v / pow(10000, (k / 2 * 2.0) / POSITIONS);

			f[MQ_N_OP_KINDS + k] = k % 2 ? cos(angle) : sin(angle);
		}
		count_balls(s, v, distance, ball);
		f[MQ_N_OP_KINDS + POSITIONS + 4] = fractal_dimension(ball) / 2;
	}
}

/* ---- the network --------------------------------------------------------------------------------------------- */

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct hsdag *s = state;
	struct mq_arena *arena = problem->arena;

	MQ_TRY(mq_coarse_make(problem, "hsdag", s->groups, &s->coarse, err));
	mq_fit_say(problem, "hsdag", MQ_COARSE_EVEN, &s->coarse.fit);
	merge_chains(s, arena);
	make_features(s, problem);
	uint32_t w = s->width, d = s->coarse.n_devices;
	nn_params_init(&s->params, arena);
	nn_mlp_init(&s->encode, &s->params, (uint32_t[]){ FEATURES, w, w }, 2, NN_RELU, problem->rng);
	for (int i = 0; i < 2; i++) {
		nn_dense_init(&s->gcn[i], &s->params, w, w, NN_RELU, problem->rng);
		nn_norm_init(&s->norm[i], &s->params, w);
	}
	nn_dense_init(&s->gcn_coarse, &s->params, w, w, NN_RELU, problem->rng);
	nn_norm_init(&s->norm_coarse, &s->params, w);
	s->memory = nn_mat_new(arena, s->base.n, w);
	nn_mlp_init(&s->score, &s->params, (uint32_t[]){ w, w, 1 }, 2, NN_RELU, problem->rng);
	nn_mlp_init(&s->place, &s->params, (uint32_t[]){ w, w, d }, 2, NN_RELU, problem->rng);
	nn_adam_init(&s->adam, s->rate, 1);
	s->cluster_of = mq_arena_array(arena, s->base.n, uint32_t);
	s->cluster_possible = mq_arena_array(arena, (size_t)s->base.n * d, bool);
	s->log_p = mq_arena_array(arena, (size_t)s->base.n * d, double);
	s->choice = mq_arena_array(arena, (size_t)(s->episode + BATCH) * s->base.n, uint32_t);
	s->time_s = mq_arena_array(arena, s->episode + BATCH, double);
	s->excess = mq_arena_array(arena, s->episode + BATCH, double);
	s->best_single_s = INFINITY;
	return MQ_OK;
}

/* Edges sorted by score, the *n kept ones first: each node keeps its best edge if it scores above 1/2. */
static uint32_t *list_kept(const struct level *g, const double *score, struct mq_arena *arena, uint32_t *n)
{
	uint32_t *best = mq_arena_none(arena, g->n);
	double *key = mq_arena_array(arena, g->n_edges, double); /* 0: not kept */

	for (uint32_t e = 0; e < g->n_edges; e++) {
		uint32_t end[2] = { g->src[e], g->dst[e] };

		for (int k = 0; k < 2; k++)
			if (best[end[k]] == MQ_NONE || score[e] > score[best[end[k]]])
				best[end[k]] = e;
	}
	for (uint32_t v = 0; v < g->n; v++)
		if (best[v] != MQ_NONE && score[best[v]] > 0.5) {
			*n += key[best[v]] == 0;
			key[best[v]] = -score[best[v]];
		}
	return mq_arena_order(arena, key, g->n_edges);
}

/* Merges the ends of kept edges, best first, into clusters with a common possible device. `of`: cluster of each node,
 * `kept`: edges inside clusters; returns the graph of the clusters. */
static struct level parse(const struct level *g, uint32_t d_n, const double *score, struct mq_arena *arena, bool *kept,
			  uint32_t *of)
{
	uint32_t *parent = mq_arena_count(arena, g->n), *number = mq_arena_array(arena, g->n, uint32_t);
	struct level out = { .possible = mq_arena_array(arena, (size_t)g->n * d_n, bool) };
	bool *may = mq_arena_array(arena, (size_t)g->n * d_n, bool);
	uint32_t n = 0, *list = list_kept(g, score, arena, &n);

	memcpy(may, g->possible, (size_t)g->n * d_n);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t e = list[i], a = mq_root(parent, g->src[e]), b = mq_root(parent, g->dst[e]);
		bool common = false;

		for (uint32_t d = 0; d < d_n; d++)
			common |= may[a * d_n + d] && may[b * d_n + d];
		if (a == b || !common)
			continue;
		kept[e] = true;
		parent[b] = a;
		for (uint32_t d = 0; d < d_n; d++)
			may[a * d_n + d] &= may[b * d_n + d];
	}
	for (uint32_t v = 0; v < g->n; v++) {
		uint32_t root = mq_root(parent, v);

		if (!number[root]) {
			memcpy(out.possible + (size_t)out.n * d_n, may + (size_t)root * d_n, d_n);
			number[root] = ++out.n;
		}
		of[v] = number[root] - 1;
	}
	out.src = mq_arena_array(arena, g->n_edges, uint32_t);
	out.dst = mq_arena_array(arena, g->n_edges, uint32_t);
	for (uint32_t e = 0; e < g->n_edges; e++)
		add_distinct(&out, of[g->src[e]], of[g->dst[e]]);
	return out;
}

/* A cluster's mean embedding, weighted by the scores of its kept edges. */
static struct nn_var pool(struct nn_tape *t, const struct level *g, struct nn_var h, struct nn_var score,
			  const bool *kept, const uint32_t *of, uint32_t n)
{
	struct nn_mat one = nn_mat_new(t->arena, g->n, 1), on = nn_mat_new(t->arena, g->n_edges, 1);

	for (uint32_t v = 0; v < g->n; v++)
		one.data[v] = 1;
	for (uint32_t e = 0; e < g->n_edges; e++)
		on.data[e] = kept[e];
	score = nn_mul(t, score, nn_constant(t, on));
	struct nn_var weight =
		nn_add(t, nn_constant(t, one),
		       nn_add(t, nn_group_sum(t, score, g->src, g->n), nn_group_sum(t, score, g->dst, g->n)));
	return nn_group_mean(t, nn_mul(t, h, weight), of, n);
}

/* One step of coarsening; false, without change: nothing merges, or everything does. */
static bool coarsen(struct hsdag *s, struct nn_tape *t, struct level *g, struct nn_var *h)
{
	uint32_t *of = mq_arena_array(t->arena, g->n, uint32_t);
	bool *kept = mq_arena_array(t->arena, g->n_edges, bool);

	if (!g->n_edges)
		return false;
	struct nn_var both = nn_mul(t, nn_rows(t, *h, g->src, g->n_edges), nn_rows(t, *h, g->dst, g->n_edges));
	struct nn_var score = nn_sigmoid(t, nn_mlp(t, &s->score, both));
	struct level next = parse(g, s->coarse.n_devices, nn_value(t, score)->data, t->arena, kept, of);

	if (next.n == g->n || next.n == 1)
		return false;
	*h = pool(t, g, *h, score, kept, of, next.n);
	*g = next;
	for (uint32_t v = 0; v < s->base.n; v++)
		s->cluster_of[v] = of[s->cluster_of[v]];
	return true;
}

/* Forward pass from features to log probabilities of devices per cluster; parses on the way. */
static struct nn_var forward(struct hsdag *s, struct nn_tape *t)
{
	struct level level = s->base;
	struct nn_graph g = { level.n, level.n_edges, level.src, level.dst };
	struct nn_var h = nn_mlp(t, &s->encode, nn_constant(t, s->feature));

	if (s->feedback)
		h = nn_add(t, h, nn_constant(t, s->memory));
	for (int i = 0; i < 2; i++) {
		struct nn_var next = nn_dropout(t, nn_gcn(t, &s->gcn[i], &g, h), s->dropout);

		h = nn_layer_norm(t, &s->norm[i], nn_add(t, h, next));
	}
	for (uint32_t v = 0; v < level.n; v++)
		s->cluster_of[v] = v;
	s->n_levels = 0;
	while (s->n_levels < s->levels && coarsen(s, t, &level, &h)) {
		if (++s->n_levels == s->levels)
			break;
		g = (struct nn_graph){ level.n, level.n_edges, level.src, level.dst };
		h = nn_layer_norm(t, &s->norm_coarse, nn_add(t, h, nn_gcn(t, &s->gcn_coarse, &g, h)));
	}
	s->n_clusters = level.n;
	memcpy(s->cluster_possible, level.possible, (size_t)level.n * s->coarse.n_devices);
	for (uint32_t v = 0; s->feedback && v < s->base.n; v++)
		for (uint32_t k = 0; k < s->width; k++) {
			double *kept = &s->memory.data[(size_t)v * s->width + k];

			*kept += (nn_value(t, h)->data[(size_t)s->cluster_of[v] * s->width + k] - *kept) / 2;
		}
	return nn_log_softmax(t, nn_mlp(t, &s->place, h), s->cluster_possible);
}

/* One forward pass serves a whole episode, sampling and learning: parameters do not change in between, and both see the
 * same dropout. */
static void begin_episode(struct hsdag *s, const struct mq_problem *problem)
{
	nn_forget(&s->pass);
	nn_tape_begin(&s->tape, &s->pass);
	s->tape.training = true;
	s->tape.rng = problem->rng;
	s->out = forward(s, &s->tape);
	memcpy(s->log_p, nn_value(&s->tape, s->out)->data,
	       (size_t)s->n_clusters * s->coarse.n_devices * sizeof(double));
	s->n_drawn = s->n_seen = 0;
}

/* Reward: 1 / step time; less than any feasible one for a placement that does not fit, falling with the excess. */
static double reward(const struct hsdag *s, uint32_t k)
{
	double worst_s = s->worst_s > 0 ? s->worst_s : 1;

	return s->excess[k] > 0 ? 1 / (worst_s * (1 + s->excess[k])) : 1 / s->time_s[k];
}

/* loss = - mean_k A_k sum_c log p(choice_kc) - entropy bonus. */
static void learn(struct hsdag *s)
{
	struct nn_tape *t = &s->tape;
	struct nn_var p = s->out;
	uint32_t d_n = s->coarse.n_devices;
	double scale = 0;
	struct nn_mat weight = nn_mat_new(&s->pass, s->n_clusters, d_n);
	for (uint32_t k = 0; k < s->n_seen; k++)
		scale = fmax(scale, fabs(reward(s, k) - s->baseline));
	for (uint32_t k = 0; k < s->n_seen && scale > 0; k++)
		for (uint32_t c = 0; c < s->n_clusters; c++)
			weight.data[c * d_n + s->choice[(size_t)k * s->base.n + c]] -=
				(reward(s, k) - s->baseline) / scale / s->n_seen;
	struct nn_var loss = nn_sum(t, nn_mul(t, nn_clamp(t, p, -50, 1), nn_constant(t, weight)));
	struct nn_var plogp = nn_mul(t, nn_exp(t, p), nn_clamp(t, p, -50, 1));
	loss = nn_add(t, loss, nn_scale(t, nn_sum(t, plogp), s->entropy / s->n_clusters));
	nn_backward(t, loss);
	nn_adam_step(&s->adam, &s->params);
}

/* ---- hooks ----------------------------------------------------------------------------------- */

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct hsdag *s = state;
	uint32_t *device = mq_arena_array(arena, s->coarse.n, uint32_t), d_n = s->coarse.n_devices;

	if (mq_coarse_baseline(&s->coarse, &s->tried, device)) {
		s->n_baselines++;
		mq_coarse_plan(&s->coarse, device, problem, arena, plan);
		return MQ_OK;
	}
	/* an episode ends with the batch that fills it, when all its scores are known */
	if (s->n_drawn >= s->episode && s->n_seen == s->n_drawn) {
		for (uint32_t k = 0; k < s->n_seen; k++) { /* running mean over about two episodes */
			s->n_rewards++;
			s->baseline += (reward(s, k) - s->baseline) / fmin((double)s->n_rewards, 2.0 * s->episode);
		}
		mq_note(problem, "mean_reward_per_s", s->baseline);
		mq_note(problem, "clusters", s->n_clusters);
		mq_note(problem, "levels", s->n_levels);
		learn(s);
	}
	if (s->n_seen == s->n_drawn && (!s->n_drawn || s->n_drawn >= s->episode))
		begin_episode(s, problem);
	mq_assert(s->n_drawn < s->episode + BATCH);
	uint32_t *choice = s->choice + (size_t)s->n_drawn++ * s->base.n;
	for (uint32_t c = 0; c < s->n_clusters; c++)
		choice[c] = nn_sample(s->log_p + (size_t)c * d_n, d_n, problem->rng);
	for (uint32_t g = 0; g < s->coarse.n; g++)
		device[g] = choice[s->cluster_of[s->node_of[g]]];
	mq_coarse_plan(&s->coarse, device, problem, arena, plan);
	return MQ_OK;
}

static void observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		    const struct mq_result *result)
{
	struct hsdag *s = state;
	double excess = mq_fit_excess(result);

	if (!(excess > 0)) {
		if (!(s->worst_s > 0)) /* rewards had no scale so far */
			s->n_rewards = 0;
		s->worst_s = fmax(s->worst_s, result->step_time_s);
	}
	if (s->n_baselines) { /* baselines were proposed first */
		s->n_baselines--;
		if (!(excess > 0) && plan->n_configs == 1 && result->step_time_s < s->best_single_s) {
			s->best_single_s = result->step_time_s;
			s->best_single = plan->config[0].device[0];
		}
		return;
	}
	s->excess[s->n_seen] = excess;
	s->time_s[s->n_seen++] = result->step_time_s;
}

static void stop(void *state, const struct mq_problem *problem)
{
	struct hsdag *s = state;

	if (isfinite(s->best_single_s)) {
		mq_say(problem, "hsdag: best single device %s: %.9g s",
		       problem->q->cluster->device[s->best_single].name, s->best_single_s);
		mq_say(problem, "hsdag: %u nodes after chain merging, %u clusters at the end", s->base.n,
		       s->n_clusters);
	}
	mq_arena_fini(&s->pass);
}

MQ_ENGINE(hsdag) = {
	MQ_ENGINE_HEAD("hsdag"),
	.summary = "placement by a graph network that learns its clusters, REINFORCE",
	.paper = "arXiv 2405.14185, NeurIPS 2024",
	MQ_ENGINE_OWN(struct hsdag),
	.batch = BATCH,
	.lacks = MQ_LACKS_ALL,
	.observe = observe,
	.stop = stop,
};
