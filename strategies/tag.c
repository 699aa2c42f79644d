/* tag.c - all-reduce, parameter-server and model parallelism over sets of unequal devices by tree search with a graph
 * network as prior ("Expediting distributed DNN training with device topology-aware graph deployment", TAG, IEEE TPDS
 * 2023, arXiv 2302.06126).
 *
 * METIS groups the ops; devices are grouped by machine or kind; each op group gets a non-empty set of device groups and
 * one of {all-reduce, parameter server, model parallel}. The baseline is all devices with all-reduce; if that does not
 * fit, all devices model-parallel; if neither does, micro-batches or recomputation make them fit (lib/fit.h). Value of
 * a strategy: T_base / T - 1, above 1 its fourth root; out of memory -2 + memory available / needed, so that less
 * excess is better.
 *
 * Search: nodes are the actions of the first k groups (largest compute time first); undecided groups copy the first
 * action. select argmax Q + c P sqrt(N_parent) / (1 + n), c = sqrt(children / 10); the leaf itself is evaluated, and
 * its value is backed up as a running mean. Pending proposals of a batch count as visits.
 *
 * Prior: the graph network of tag/net.h. Its weights were trained over several models and random topologies
 * (tag.weights next to the engine; `tests/tag_prior/train.sh` makes them again) and keep learning: every `learn`
 * playouts, by cross-entropy to the visit counts of well-visited nodes. `weights` starts from another file, or `none`;
 * `save` writes them. `records` appends the visit counts at the end, and `maquette solve RECORDS -e tag:save=FILE`
 * trains on them.
 *
 * Sufficient factors: which all-reduced GEMMs gather activations instead of gradients is decided by a minimum cut
 * (lib/sfb_model.h) per device set. The baseline gathers none; `sfb=false` turns it off.
 *
 * Differences from the paper: device groups are machines only if there are at most four, else devices of a kind (a
 * type, or its slow ones), or four runs of equal machines; the network is narrower by default (32 instead of 256) and
 * sees features of the choices (share of speed, slowest member and link); feedback of the parent's simulation is that
 * of the whole plan (speed-up, compute, waiting, idle, memory), not per op; ops of a model-parallel group go to its
 * devices in turn. `heterog` restricts the actions to HeteroG's (CoNEXT 2020): one device group, or all, and no model
 * parallelism over several.
 *
 * Complexity: a playout walks <= groups levels of <= 3 (2^device groups - 1) children. No pipeline, no tensor
 * parallelism, no guarantee of optimality.
 *
 * link: igraph openblas -lmetis
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>

#include "maquette/engine.h"
#include "lib/plugin_file.h"
#include "lib/plans.h"
#include "lib/sfb_model.h"
#include "tag/net.h"

enum { BATCH = 4, MAX_RECORDS = 10, RECORD_VISITS = 24, ALPHA_US = 1 };

struct node {
	uint32_t parent, action, depth;
	uint32_t child, n_children; /* children are contiguous; 0 = not expanded */
	uint32_t visits;            /* pending ones included */
	double value, prior;        /* value: running mean of backed-up values */
	uint32_t n_values;
	double feedback[MQ_TAG_FEEDBACK];
};

struct tag {
	/* options */
	uint32_t groups, width, learn, epochs;
	double rate;
	bool gnn, sfb, heterog;
	const char *weights, *save, *records;
	/* the question */
	struct mq_tag_space space;
	double base_s, best_s;
	uint32_t n_proposed, n_observed;
	uint32_t pending[BATCH]; /* nodes without a result yet */
	/* the tree */
	struct node *node;
	uint32_t n_nodes, node_room;
	/* the network */
	struct mq_tag_net net;
	struct nn_adam adam;
	struct mq_arena pass;
	uint32_t since_learnt;
};

extern const struct mq_engine mq_engine_tag;

static const struct mq_opt opts[] = {
	MQ_U32(struct tag, groups, 40, 1, 1000, "op groups"),
	MQ_U32(struct tag, width, 32, 8, 512, "width of the network (the paper: 256)"),
	MQ_U32(struct tag, learn, 64, 0, 1000000, "playouts between learning steps, 0 = none"),
	MQ_F64(struct tag, rate, 1e-3, 1e-6, 1, "step size of Adam"),
	MQ_BOOL(struct tag, gnn, 1, "graph network as prior; false = uniform"),
	MQ_BOOL(struct tag, sfb, 1, "gather sufficient factors by minimum cut"),
	MQ_BOOL(struct tag, heterog, 0, "HeteroG's action space"),
	MQ_STR(struct tag, weights, NULL, "network to start from: a file, or none (default: as shipped)"),
	MQ_STR(struct tag, save, NULL, "file that receives the weights at the end"),
	MQ_STR(struct tag, records, NULL, "file to append the search's result to, for training"),
	MQ_U32(struct tag, epochs, 12, 1, 10000, "solve: passes over the records"),
	MQ_END
};

/* ---- sufficient factors --------------------------------------------------------------------------------------- */

/* Finds the cut of each device set that the strategy all-reduces over, once per set. */
static enum mq_status find_duplicates(struct tag *s, const struct mq_problem *p, const uint32_t *action,
				      struct mq_err *err)
{
	for (uint32_t g = 0; g < s->space.n && s->space.duplicate; g++) {
		const struct mq_tag_action *a = &s->space.action[action[g]];
		uint32_t *rank = mq_arena_array(p->arena, a->n_devices, uint32_t);
		struct mq_sfb_group replicas = { a->n_devices, rank, ALPHA_US };
		struct mq_sfb_result result;

		if (a->how != MQ_TAG_ALL_REDUCE || s->space.duplicate[action[g]])
			continue;
		mq_tag_devices_of(&s->space, a, rank);
		MQ_TRY(mq_sfb_of_group(p, &replicas, p->arena, &result, err));
		s->space.duplicate[action[g]] = result.duplicate;
	}
	return MQ_OK;
}

/* ---- the network ------------------------------------------------------------------------------------------------- */

static enum mq_status make_network(struct tag *s, const struct mq_problem *p, struct mq_err *err)
{
	const char *path = s->weights;

	mq_tag_net_init(&s->net, s->width, p->arena, p->rng);
	nn_adam_init(&s->adam, s->rate, 0.6);
	if (!s->gnn || (path && !strcmp(path, "none")))
		return MQ_OK;
	if (!path)
		MQ_TRY(mq_plugin_file(&mq_engine_tag, "tag.weights", p->arena, &path, err));
	if (nn_params_load(&s->net.params, path, err) != MQ_OK)
		return mq_wrap(err, "engine 'tag': weights=none starts without training");
	return MQ_OK;
}

/* The actions on the path to a node, by op group; undecided groups take the first action. */
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

static void view_of(const struct tag *s, uint32_t id, struct mq_arena *arena, struct mq_tag_view *view)
{
	uint32_t *action = mq_arena_array(arena, s->space.n, uint32_t);

	actions_of(s, id, action);
	mq_tag_view_make(&s->space, action, s->node[id].depth, s->node[id].feedback, arena, view);
}

/* Log probability of every action at a node, a row. */
static struct nn_var prior(struct tag *s, struct nn_tape *t, uint32_t id)
{
	struct mq_tag_view view;

	view_of(s, id, t->arena, &view);
	return mq_tag_net_run(&s->net, t, &view);
}

static double value_of(const struct tag *s, const struct mq_result *r)
{
	double excess = mq_fit_excess(r);

	if (excess > 0 || isnan(s->base_s))
		return excess > 0 ? -2 + 1 / excess : 0;
	double v = s->base_s / r->step_time_s - 1;
	return v > 1 ? pow(v, 0.25) : v;
}

static void note_feedback(const struct tag *s, const struct mq_result *r, double *f)
{
	bool ok = r->verdict == MQ_VERDICT_OK;

	f[0] = 1;
	f[1] = ok && s->base_s > 0 ? fmax(-2, fmin(2, log2(s->base_s / r->step_time_s))) / 2 : -1;
	f[2] = ok ? r->compute_s / r->step_time_s : 0;
	f[3] = ok ? r->exposed_comm_s / r->step_time_s : 0;
	f[4] = ok ? r->bubble_s / r->step_time_s : 0;
	f[5] = r->memory_limit_B > 0 ? fmin(2, r->peak_memory_B / r->memory_limit_B) : 0;
	for (int i = 0; i < MQ_TAG_FEEDBACK; i++)
		f[i] = isfinite(f[i]) ? f[i] : 0;
}

/* ---- the tree -------------------------------------------------------------------------------- */

static void expand(struct tag *s, const struct mq_problem *p, uint32_t id)
{
	uint32_t n = s->space.n_actions;
	struct nn_tape t;
	const double *log_p = NULL;

	if (s->node[id].depth == s->space.n)
		return;
	nn_forget(&s->pass);
	if (s->gnn) {
		nn_tape_begin(&t, &s->pass);
		struct nn_var prob = prior(s, &t, id);
		log_p = nn_value(&t, prob)->data;
	}
	s->node[id].child = s->n_nodes;
	s->node[id].n_children = n;
	for (uint32_t a = 0; a < n; a++) {
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
			/* a node is expanded at its second visit, after its own evaluation */
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

/* ---- learning from visit counts -------------------------------------------------------------- */

/* Share of visits of each action at a node. */
static void visits_of(const struct tag *s, uint32_t id, double *share)
{
	const struct node *v = &s->node[id];
	double sum = 0;

	for (uint32_t k = v->child; k < v->child + v->n_children; k++)
		sum += s->node[k].visits;
	for (uint32_t k = v->child; k < v->child + v->n_children; k++)
		share[s->node[k].action] = s->node[k].visits / sum;
}

static void learn(struct tag *s, const struct mq_problem *p)
{
	uint32_t done = 0;
	double sum = 0;

	for (uint32_t id = 0; id < s->n_nodes && done < 8; id++) {
		const struct node *v = &s->node[id];

		if (!v->n_children || v->visits < s->learn / 2)
			continue;
		struct nn_tape t;
		struct nn_mat target = nn_mat_new(&s->pass, 1, s->space.n_actions);

		visits_of(s, id, target.data);
		nn_tape_begin(&t, &s->pass);
		struct nn_var loss =
			nn_scale(&t, nn_sum(&t, nn_mul(&t, prior(s, &t, id), nn_constant(&t, target))), -1);
		nn_backward(&t, loss);
		sum += nn_value(&t, loss)->data[0];
		done++;
	}
	if (done) {
		nn_adam_step(&s->adam, &s->net.params);
		mq_note(p, "cross_entropy_nats", sum / done);
	}
	nn_forget(&s->pass);
}

static enum mq_status write_records(const struct tag *s, const struct mq_problem *p, struct mq_err *err)
{
	struct mq_tag_record record[MAX_RECORDS];
	uint32_t n = 0;
	const char *name[2] = { p->q->model->name, p->q->cluster->name };
	uint64_t question = mq_hash(mq_hash(MQ_HASH_INIT, name[0], strlen(name[0])), name[1], strlen(name[1]));

	for (uint32_t id = 0; id < s->n_nodes && n < MAX_RECORDS; id++) {
		if (!s->node[id].n_children || s->node[id].visits < RECORD_VISITS)
			continue;
		record[n].question = question;
		record[n].target = mq_arena_array(p->arena, s->space.n_actions, double);
		visits_of(s, id, record[n].target);
		view_of(s, id, p->arena, &record[n++].view);
	}
	return mq_tag_records_append(s->records, record, n, err);
}

/* ---- the engine ------------------------------------------------------------------------------ */

/* Fails early if a file cannot be written at the end. */
static enum mq_status check_writable(const char *path, struct mq_err *err)
{
	FILE *f = path ? fopen(path, "a") : NULL;

	if (path && !f)
		return mq_bad(err, "engine 'tag': cannot write %s: %s", path, strerror(errno));
	if (f)
		fclose(f);
	return MQ_OK;
}

static enum mq_status start(void *state, const struct mq_problem *p, struct mq_err *err)
{
	struct tag *s = state;
	struct mq_tag_options options = { .groups = s->groups, .heterog = s->heterog };
	struct node root = { 0 };

	MQ_TRY(check_writable(s->save, err));
	MQ_TRY(check_writable(s->records, err));
	MQ_TRY(mq_tag_space_make(p, &options, &s->space, err));
	mq_fit_say(p, "tag", "the model on all devices, data- or model-parallel,", &s->space.fit);
	MQ_TRY(make_network(s, p, err));
	if (s->sfb && !p->q->train->infer)
		s->space.duplicate = mq_arena_array(p->arena, s->space.n_actions, bool *);
	s->base_s = s->best_s = NAN;
	MQ_PUSH(p->arena, s->node, s->n_nodes, s->node_room, root);
	return MQ_OK;
}

/* The first batch are baselines: all groups on one action, first all-reduce, then model parallelism on all devices. */
static enum mq_status propose(void *state, const struct mq_problem *p, struct mq_arena *arena, struct mq_plan *plan,
			      struct mq_err *err)
{
	struct tag *s = state;
	uint32_t *action = mq_arena_array(arena, s->space.n, uint32_t), leaf = 0;

	if (s->n_proposed < BATCH) {
		/* baselines; the tree search begins with a known baseline */
		uint32_t a = s->n_proposed == 1 ? s->space.model : s->n_proposed % s->space.n_actions;

		for (uint32_t g = 0; g < s->space.n; g++)
			action[g] = a;
	} else {
		leaf = select_leaf(s, p);
		actions_of(s, leaf, action);
	}
	MQ_TRY(find_duplicates(s, p, action, err));
	struct mq_tag_space plain = s->space;
	if (!s->n_proposed) /* the baseline gathers no factors */
		plain.duplicate = NULL;
	s->pending[s->n_proposed++ % BATCH] = leaf;
	return mq_tag_plan(&plain, action, p, arena, plan, err);
}

static void observe(void *state, const struct mq_problem *p, const struct mq_plan *plan, const struct mq_result *result)
{
	struct tag *s = state;
	uint32_t i = s->n_observed++;

	if (result->verdict == MQ_VERDICT_OK) {
		s->best_s = fmin(result->step_time_s, s->best_s);
		if (isnan(s->base_s)) /* the baseline, or else the first plan that fits */
			s->base_s = result->step_time_s;
	}
	if (!i)
		note_feedback(s, result, s->node[0].feedback);
	if (i < BATCH)
		return;
	note_feedback(s, result, s->node[s->pending[i % BATCH]].feedback);
	double v = value_of(s, result);
	for (uint32_t at = s->pending[i % BATCH];; at = s->node[at].parent) {
		s->node[at].value += (v - s->node[at].value) / ++s->node[at].n_values;
		if (!at)
			break;
	}
	if (s->gnn && s->learn && ++s->since_learnt == s->learn) {
		s->since_learnt = 0;
		learn(s, p);
	}
}

static void stop(void *state, const struct mq_problem *p)
{
	struct tag *s = state;
	struct mq_err err = MQ_ERR_INIT;

	char gain[96] = "no plan that fits was met";
	if (isfinite(s->best_s) && isfinite(s->base_s))
		snprintf(gain, sizeof(gain), "baseline %.9g s, best %.9g s: %.3g x", s->base_s, s->best_s,
			 s->base_s / s->best_s);
	else if (isfinite(s->best_s))
		snprintf(gain, sizeof(gain), "best %.9g s, the baseline does not fit", s->best_s);
	mq_say(p, "tag: %u op groups, %u device groups, %u tree nodes; %s", s->space.n, s->space.n_devices, s->n_nodes,
	       gain);
	if (s->save && nn_params_save(&s->net.params, s->save, &err) != MQ_OK)
		mq_say(p, "tag: weights not saved: %s", err.text);
	if (s->records && write_records(s, p, &err) != MQ_OK)
		mq_say(p, "tag: no records kept: %s", err.text);
	mq_arena_fini(&s->pass);
}

/* ---- training on the records of many searches ------------------------------------------------ */

static enum mq_status solve(void *state, const char *path, const struct mq_problem *p, struct mq_err *err)
{
	struct tag *s = state;
	struct mq_tag_training how = { .epochs = s->epochs, .batch = 8, .rate = s->rate };
	struct mq_tag_record *record;
	uint32_t n;

	if (!s->save)
		return mq_bad(err, "engine 'tag': training needs save=FILE for the weights");
	MQ_TRY(check_writable(s->save, err));
	MQ_TRY(mq_tag_records_load(path, p->arena, &n, &record, err));
	mq_tag_net_init(&s->net, s->width, p->arena, p->rng);
	if (s->weights && strcmp(s->weights, "none"))
		MQ_TRY(nn_params_load(&s->net.params, s->weights, err));
	mq_say(p, "%u records, network of %u numbers", n, nn_params_size(&s->net.params));
	MQ_TRY(mq_tag_net_train(&s->net, &how, p, record, n, err));
	nn_params_round(&s->net.params, 5);
	return nn_params_save(&s->net.params, s->save, err);
}

MQ_ENGINE(tag) = {
	MQ_ENGINE_HEAD("tag"),
	.summary = "replication over device sets by tree search with a graph network as prior (TAG)",
	.paper = "TAG, IEEE TPDS 2023, arXiv 2302.06126",
	MQ_ENGINE_OWN(struct tag),
	.batch = BATCH,
	.lacks = MQ_LACKS_SPLITS | MQ_LACKS_PP | MQ_LACKS_SHAPES,
	.observe = observe,
	.stop = stop,
	.solve = solve,
	.accepts = mq_tag_records_probe,
};
