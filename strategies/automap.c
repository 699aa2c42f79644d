/* automap.c - operator partitioning, pipeline cuts and data parallelism decided step by step by deep Q-learning (Wang,
 * Zhang, Tian, Chu, Chang, Yang, "Auto-MAP: A DQN Framework for Exploring Distributed Execution Plans for DNN
 * Workloads", arXiv 2007.04069, 2020).
 *
 * A plan is a sequence of choices, one action each:
 *     stages, tensor-parallel degree                                   (mode=hybrid)
 *     sequence split of the inputs; the rest splits their batch        (mode=adp and hybrid)
 *     micro-batches, recomputation                                     (all but mode=opp)
 *     unsplit, or split by columns or by rows, for each weight         (mode=opp and hybrid)
 *     device at which each stage begins                                (mode=pp)
 *     shift of each stage boundary from its share of the layers, -r .. r layers   (mode=pp and hybrid)
 * The linkage group of a weight and a dimension is every split that this one implies, found by propagation through the
 * graph (automap/linkage.h): a split by columns splits what follows by features, up to the next weight, which it splits
 * by rows. One decision fixes its whole group; contradicting actions are masked. Weights are decided in order of group
 * size, largest first. With `tie`, equal weights of all layers are one decision. Devices form a line: a stage may begin
 * within `cuts` of a machine boundary (of an even cut on a single machine), and its layers follow its share of the
 * devices.
 *
 * Q-network: double, dueling, prioritized replay (nn/dqn.h); epsilon falls from 1 to 0.1 over `explore` episodes. The
 * state holds all choices made so far and which one is next. Reward at the end of an episode: log(T_first / T), -1 if
 * the plan does not fit; with reward=count, as in the paper, +0.4 for every weight that a decision splits and +0.1 for
 * every one that it leaves unsplit, times decisions / weights, and -1 for a conflict. engine_objective is then the
 * number of weights that a plan splits.
 *
 * Differences from the paper: it searches HLO graphs, three kinds of decision separately, with counts or a pipeline
 * formula as reward; here the graph is the model's, the three combine, and the simulator scores. The discount is 0.95
 * by default (0.6 there), because the reward comes at the end. In mode=hybrid all stages have equally many devices.
 * Inputs may be split by batch and sequence, not by height and width.
 *
 * An episode costs O(decisions) passes through a network of two hidden layers. Refuses models with more than
 * MAX_CHOICES decisions. No guarantee of optimality.
 *
 * link: openblas
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "maquette/engine.h"
#include "automap/linkage.h"
#include "lib/plans.h"
#include "nn/dqn.h"

enum { BATCH = 4, MAX_CHOICES = 512, MAX_ACTIONS = 32, NOTE_EVERY = 16 };
enum mode { OPP, PP, HYBRID, ADP };
enum kind { STAGES, TENSOR, CONTEXT, MICRO, RECOMPUTE, WEIGHT, CUT, SHIFT };

struct choice {
	uint8_t kind;
	uint32_t n, value[MAX_ACTIONS]; /* value of each action */
	uint32_t var;                   /* WEIGHT: linkage variable; values are its dimensions */
};

struct episode {
	uint32_t action[MAX_CHOICES];
};

struct automap {
	/* options */
	uint32_t mode, stages, radius, cuts, explore, reward;
	bool tie;
	uint32_t width, replay_batch, replay, copy_every;
	double rate, gamma, alpha, beta;
	/* the decisions */
	struct mq_devices devices;
	uint32_t n_choices;
	struct choice *choice;
	struct mq_linkage linkage;
	uint32_t *split; /* [n_ops] splits implied so far: mq_linkage_decide */
	uint32_t whole;  /* mode=opp: the tensor degree */
	/* learning */
	struct nn_dqn dqn;
	uint32_t n_state;
	double *state, *next;
	bool mask[MAX_ACTIONS];
	struct episode pending[BATCH];
	uint32_t n_proposed, n_observed, n_split_best, most_weights, most_at;
	double first_s, best_s;
};

static const struct mq_opt opts[] = {
	MQ_CHOICE(struct automap, mode, HYBRID, "opp|pp|hybrid|adp",
		  "operator partitioning over all devices, pipeline cuts, all together, or the dimensions of data "
		  "parallelism"),
	MQ_U32(struct automap, stages, 2, 2, 1024, "mode=pp: number of stages (K)"),
	MQ_U32(struct automap, radius, 2, 0, 7, "layers by which a boundary may move from its share"),
	MQ_U32(struct automap, cuts, 3, 0, 8, "mode=pp: devices by which a stage may begin off a machine's first"),
	MQ_BOOL(struct automap, tie, 1, "equal layers decide together"),
	MQ_U32(struct automap, explore, 300, 1, 1000000, "episodes over which epsilon falls to 0.1"),
	MQ_CHOICE(struct automap, reward, 0, "score|count", "step time, or the paper's counts of splits"),
	MQ_U32(struct automap, width, 128, 8, 1024, "width of the hidden layers"),
	MQ_U32(struct automap, replay_batch, 64, 4, 4096, "steps replayed at a time"),
	MQ_U32(struct automap, replay, 10000, 64, 1000000, "steps remembered"),
	MQ_U32(struct automap, copy_every, 100, 1, 1000000, "gradient steps between copies of the target"),
	MQ_F64(struct automap, rate, 5e-4, 1e-6, 1, "step size of Adam"),
	MQ_F64(struct automap, gamma, 0.95, 0, 1, "discount"),
	MQ_F64(struct automap, alpha, 0.2, 0, 1, "exponent of the priorities"),
	MQ_F64(struct automap, beta, 0.6, 0, 1, "exponent of the importance correction"),
	MQ_END
};

/* ---- choices --------------------------------------------------------------------------------------------------- */

static struct choice *add_choice(struct automap *s, enum kind kind)
{
	struct choice *c = &s->choice[s->n_choices++];

	c->kind = (uint8_t)kind;
	return c;
}

static void add_divisors(struct choice *c, uint32_t of, uint32_t most)
{
	for (uint32_t d = 1; d <= of && d <= most && c->n < MAX_ACTIONS; d++)
		if (of % d == 0)
			c->value[c->n++] = d;
}

/* Devices at which a stage may begin: near the first of a machine, or near an even cut on a single machine. */
static void add_cuts(const struct automap *s, const struct mq_problem *p, struct choice *c)
{
	const struct mq_cluster *cluster = p->q->cluster;
	uint32_t n = s->devices.n, *rank = s->devices.rank;

	for (uint32_t d = 1; d < n && c->n < MAX_ACTIONS; d++) {
		bool near = false;

		for (uint32_t k = 1; k < n && !near; k++) {
			bool even = cluster->n_nodes < 2 && k * s->stages % n < s->stages;
			bool first = cluster->device[rank[k]].node != cluster->device[rank[k - 1]].node;

			near = (first || even) && (k > d ? k - d : d - k) <= s->cuts;
		}
		if (near)
			c->value[c->n++] = d;
	}
}

static bool has_sequence(const struct mq_model *m)
{
	for (uint32_t op = 0; op < m->n_ops; op++)
		if (m->op[op].splits >> MQ_DIM_SEQ & 1 && m->op[op].extent[MQ_DIM_SEQ] > 1)
			return true;
	return false;
}

static enum mq_status list_choices(struct automap *s, const struct mq_problem *p, struct mq_err *err)
{
	const struct mq_model *m = p->q->model;
	uint32_t devices = s->devices.n, boundaries;

	boundaries = s->mode == PP ? s->stages - 1 : s->mode == HYBRID && m->n_layers ? 7 : 0;
	if (s->linkage.n + 2 * boundaries + 5 > MAX_CHOICES)
		return mq_bad(err, "engine 'automap': %u decisions, more than %d; use tie=true",
			      s->linkage.n + 2 * boundaries + 5, MAX_CHOICES);
	s->choice = mq_arena_array(p->arena, MAX_CHOICES, struct choice);
	if (s->mode == HYBRID) {
		add_divisors(add_choice(s, STAGES), devices, m->n_layers ? (m->n_layers < 8 ? m->n_layers : 8) : 1);
		add_divisors(add_choice(s, TENSOR), devices, 64);
	}
	if ((s->mode == HYBRID || s->mode == ADP) && has_sequence(m))
		add_divisors(add_choice(s, CONTEXT), devices, 64);
	if (s->mode != OPP) {
		struct choice *c = add_choice(s, MICRO);

		for (uint32_t k = 1; k <= p->q->train->batch && c->n < MAX_ACTIONS; k *= 2)
			if (fmod(p->q->train->batch, k) == 0)
				c->value[c->n++] = k;
		c = add_choice(s, RECOMPUTE);
		for (uint32_t r = 0; r < MQ_N_RECOMPUTES; r++)
			c->value[c->n++] = r;
	}
	for (uint32_t v = 0; (s->mode == OPP || s->mode == HYBRID) && v < s->linkage.n; v++) {
		struct choice *c = add_choice(s, WEIGHT);

		c->var = v;
		for (uint32_t d = 0; d <= MQ_LINKAGE_DIMS; d++)
			c->value[c->n++] = d;
	}
	for (uint32_t b = 0; s->mode == PP && b < boundaries; b++)
		add_cuts(s, p, add_choice(s, CUT));
	for (uint32_t b = 0; b < boundaries; b++) {
		struct choice *c = add_choice(s, SHIFT);

		for (uint32_t k = 0; k <= 2 * s->radius && c->n < MAX_ACTIONS; k++)
			c->value[c->n++] = k;
	}
	return MQ_OK;
}

/* The largest tensor degree that divides the devices and every op (heads above all); the rest is data-parallel. */
static uint32_t largest_degree(const struct mq_problem *p, uint32_t devices)
{
	uint32_t split[MQ_N_DIMS];

	for (uint32_t t = devices; t > 1; t--) {
		bool all = devices % t == 0;

		for (uint32_t op = 0; all && op < p->q->model->n_ops; op++)
			all = mq_tensor_split(p->q->model, op, t, false, true, split);
		if (all)
			return t;
	}
	return 1;
}

static enum mq_status start(void *state, const struct mq_problem *p, struct mq_err *err)
{
	struct automap *s = state;

	s->devices = mq_devices_usable(p, p->arena);
	if (s->mode == PP && (p->q->model->n_layers < s->stages || s->devices.n < s->stages))
		return mq_bad(err, "engine 'automap': stages=%u needs as many layers (there are %u) and devices (%u)",
			      s->stages, p->q->model->n_layers, s->devices.n);
	mq_linkage_make(p->q->model, s->tie, p->arena, &s->linkage);
	s->split = mq_arena_array(p->arena, p->q->model->n_ops, uint32_t);
	s->whole = largest_degree(p, s->devices.n);
	MQ_TRY(list_choices(s, p, err));
	if (!s->n_choices)
		return mq_bad(err, "engine 'automap': '%s' has no weight that mode=opp can split", p->q->model->name);
	s->n_state = 2 * s->n_choices;
	s->state = mq_arena_array(p->arena, s->n_state, double);
	s->next = mq_arena_array(p->arena, s->n_state, double);
	struct nn_dqn_options o = { s->width, s->replay_batch, s->replay, s->copy_every,
				    s->rate,  s->gamma,        s->alpha,  s->beta };
	nn_dqn_init(&s->dqn, p->arena, &o, s->n_state, MAX_ACTIONS, p->rng);
	s->first_s = s->best_s = NAN;
	return MQ_OK;
}

/* ---- plans ----------------------------------------------------------------------------------- */

struct decided {
	uint32_t stages, tensor, context, micro, recompute;
	uint32_t *split; /* [n_ops] enum mq_dim; MQ_N_DIMS or more: unsplit */
	int *shift;      /* [boundaries] layers */
	uint32_t n_shifts;
	uint32_t *first, n_cuts; /* [stages + 1] mode=pp: first device of each stage, then the number of devices */
};

static struct decided read_episode(const struct automap *s, const struct episode *e, const struct mq_problem *p,
				   struct mq_arena *arena)
{
	struct decided d = { .stages = s->mode == PP ? s->stages : 1,
			     .tensor = s->mode == OPP ? s->whole : 1,
			     .context = 1,
			     .micro = 1,
			     .split = mq_arena_array(arena, p->q->model->n_ops, uint32_t),
			     .shift = mq_arena_array(arena, s->n_choices, int),
			     .first = mq_arena_array(arena, s->n_choices + 2, uint32_t) };

	uint32_t *const degree[] = { &d.stages, &d.tensor, &d.context, &d.micro, &d.recompute }; /* enum kind */

	for (uint32_t op = 0; op < p->q->model->n_ops; op++)
		d.split[op] = MQ_NONE;
	for (uint32_t i = 0; i < s->n_choices; i++) {
		const struct choice *c = &s->choice[i];
		uint32_t v = c->value[e->action[i]];

		switch ((enum kind)c->kind) {
		case STAGES:
		case TENSOR:
		case CONTEXT:
		case MICRO:
		case RECOMPUTE:
			*degree[c->kind] = v;
			break;
		case WEIGHT:
			mq_assert(mq_linkage_decide(&s->linkage, c->var, v, d.split)); /* contradictions are masked */
			break;
		case CUT:
			d.first[++d.n_cuts] = v;
			break;
		case SHIFT:
			d.shift[d.n_shifts++] = (int)v - (int)s->radius;
			break;
		}
	}
	d.first[d.n_cuts + 1] = s->devices.n;
	return d;
}

/* Stage boundaries by share of devices, plus shifts; false: a stage would be empty. */
static bool cut_layers(const struct decided *d, uint32_t layers, uint32_t *count)
{
	uint32_t devices = d->first[d->n_cuts + 1];
	int last = 0;

	for (uint32_t k = 0; k < d->stages; k++) {
		int even = d->n_cuts ? (int)((2 * (uint64_t)d->first[k + 1] * layers + devices) / devices / 2) :
				       (int)(((uint64_t)k + 1) * layers / d->stages);
		int end = k + 1 == d->stages ? (int)layers : even + (k < d->n_shifts ? d->shift[k] : 0);

		if (end <= last)
			return false;
		count[k] = (uint32_t)(end - last);
		last = end;
	}
	return true;
}

/* A pipeline of replicated stages over a line of devices: made with one device per stage, then widened. */
static enum mq_status make_pipeline(const struct automap *s, const struct decided *d, const struct mq_problem *p,
				    struct mq_arena *arena, struct mq_plan *plan, struct mq_err *err)
{
	uint32_t *layers = mq_arena_array(arena, d->stages, uint32_t);
	struct mq_shape shape = { .pp = d->stages,
				  .micro_batches = d->micro,
				  .pipeline = MQ_PIPE_1F1B,
				  .recompute = (uint8_t)d->recompute,
				  .stage_layers = layers };

	for (uint32_t k = 0; k < d->stages; k++)
		if (d->first[k + 1] <= d->first[k])
			return mq_bad(err, "a stage without devices");
	if (!cut_layers(d, p->q->model->n_layers, layers))
		return mq_bad(err, "an empty stage");
	MQ_TRY(mq_plan_from_shape(&shape, p->q->model, p->q->cluster, arena, plan, err));
	for (uint32_t c = 0; c < plan->n_configs; c++) {
		struct mq_config *config = &plan->config[c];
		uint32_t begin = d->first[config->stage], n = d->first[config->stage + 1] - begin;

		config->device = s->devices.rank + begin;
		config->n_devices = config->split[MQ_DIM_BATCH] = n;
	}
	return mq_plan_check(plan, p->q->model, p->q->cluster, p->q->train, err);
}

/* Does every stage split some op? Otherwise its tensor-parallel ranks would repeat the same work. */
static bool every_stage_splits(const struct decided *d, const struct mq_plan *plan, struct mq_arena *arena)
{
	bool *any = mq_arena_array(arena, d->stages, bool), all = true;

	for (uint32_t op = 0; op < plan->n_ops; op++)
		any[plan->config[plan->config_of[op]].stage] |= d->split[op] < MQ_N_DIMS;
	for (uint32_t k = 0; k < d->stages; k++)
		all = all && any[k];
	return all;
}

/* The plan of the shape with each op's features split as its linkage group implies. */
static enum mq_status make_plan(const struct automap *s, const struct decided *d, const struct mq_problem *p,
				struct mq_arena *arena, struct mq_plan *plan, struct mq_err *err)
{
	uint32_t per = s->devices.n / d->stages, inner = d->tensor * d->context;
	uint32_t *layers = mq_arena_array(arena, d->stages, uint32_t);
	struct mq_shape shape = { .dp = per / inner,
				  .tp = d->tensor,
				  .cp = d->context,
				  .pp = d->stages,
				  .micro_batches = d->micro,
				  .pipeline = MQ_PIPE_1F1B,
				  .recompute = (uint8_t)d->recompute,
				  .device = s->devices.rank,
				  .vocab_parallel = mq_software_of(p)->vocab_parallel };

	if (s->mode == PP)
		return make_pipeline(s, d, p, arena, plan, err);
	if (per % inner)
		return mq_bad(err, "tensor degree and parts of the sequence do not divide a stage");
	if (p->q->model->n_layers && !cut_layers(d, p->q->model->n_layers, layers))
		return mq_bad(err, "an empty stage");
	shape.stage_layers = p->q->model->n_layers ? layers : NULL;
	MQ_TRY(mq_plan_from_shape(&shape, p->q->model, p->q->cluster, arena, plan, err));
	if (s->mode == HYBRID && d->tensor > 1 && !every_stage_splits(d, plan, arena))
		return mq_bad(err, "a stage of tensor degree %u splits nothing", d->tensor);
	for (uint32_t op = 0; op < p->q->model->n_ops && d->tensor > 1; op++) {
		struct mq_config c = plan->config[plan->config_of[op]];

		c.split[MQ_DIM_HEAD] = c.split[MQ_DIM_OUT] = c.split[MQ_DIM_IN] = 1;
		if (d->split[op] < MQ_N_DIMS)
			c.split[d->split[op]] = d->tensor;
		plan->config_of[op] = mq_plan_intern(plan, &c, arena);
	}
	return mq_plan_check(plan, p->q->model, p->q->cluster, p->q->train, err);
}

/* ---- episodes -------------------------------------------------------------------------------- */

/* State: all choices so far (0 = open), then a one-hot of the next. */
static void fill_state(const struct automap *s, const struct episode *e, uint32_t at, double *state)
{
	memset(state, 0, s->n_state * sizeof(double));
	for (uint32_t i = 0; i < at; i++)
		state[i] = (e->action[i] + 1.0) / s->choice[i].n;
	state[s->n_choices + at] = 1;
}

/* Applies a choice to `split`. */
static void apply_choice(struct automap *s, const struct episode *e, uint32_t at)
{
	const struct choice *c = &s->choice[at];

	if (c->kind == WEIGHT)
		mq_assert(mq_linkage_decide(&s->linkage, c->var, c->value[e->action[at]], s->split));
}

/* Masks actions: cuts ascend and leave room for the cuts that follow; splits agree with those decided. */
static void fill_mask(struct automap *s, const struct episode *e, uint32_t at)
{
	const struct choice *c = &s->choice[at];
	uint32_t low = 0, high = c->n;

	if (c->kind == CUT) {
		if (at && s->choice[at - 1].kind == CUT)
			low = e->action[at - 1] + 1;
		for (uint32_t k = at + 1; k < s->n_choices && s->choice[k].kind == CUT && high > low + 1; k++)
			high--;
	}
	for (uint32_t a = 0; a < MAX_ACTIONS; a++)
		s->mask[a] = a >= low && a < high &&
			     (c->kind != WEIGHT || mq_linkage_agrees(&s->linkage, c->var, c->value[a], s->split));
	if (low >= high) /* no cut left: the episode ends in conflict */
		s->mask[c->n - 1] = true;
}

static double epsilon_now(const struct automap *s)
{
	return fmax(0.1, 1 - 0.9 * s->n_proposed / s->explore);
}

/* The next choice from `at` on that earlier ones leave open; n_choices: none. */
static uint32_t next_open(const struct automap *s, uint32_t at)
{
	for (; at < s->n_choices && s->choice[at].kind == WEIGHT; at++) {
		const struct mq_linkage_var *v = &s->linkage.var[s->choice[at].var];

		for (uint32_t i = 0; i < v->n; i++)
			if (s->split[v->op[i]] == MQ_NONE)
				return at;
	}
	return at;
}

static uint32_t begin(struct automap *s, const struct mq_problem *p)
{
	for (uint32_t op = 0; op < p->q->model->n_ops; op++)
		s->split[op] = MQ_NONE;
	return next_open(s, 0);
}

static void play_episode(struct automap *s, const struct mq_problem *p, struct episode *e)
{
	double epsilon = epsilon_now(s);

	for (uint32_t i = 0; i < s->n_choices; i++) /* default of choices that earlier ones decide */
		e->action[i] = s->choice[i].n - 1;
	for (uint32_t i = begin(s, p); i < s->n_choices; i = next_open(s, i + 1)) {
		fill_state(s, e, i, s->state);
		fill_mask(s, e, i);
		e->action[i] = nn_dqn_act(&s->dqn, s->state, s->mask, epsilon, p->rng);
		apply_choice(s, e, i);
	}
}

/* Number of weights whose features the plan splits. */
static uint32_t weights_split(const struct automap *s, const struct mq_plan *plan)
{
	uint32_t n = 0;

	for (uint32_t op = 0; op < plan->n_ops; op++) {
		const uint32_t *split = plan->config[plan->config_of[op]].split;

		n += s->linkage.weight[op] && split[MQ_DIM_OUT] * split[MQ_DIM_IN] > 1;
	}
	return n;
}

/* Number of weights decided so far as split, or as unsplit. */
static uint32_t weights_with(const struct automap *s, const struct mq_model *m, bool split)
{
	uint32_t n = 0;

	for (uint32_t op = 0; op < m->n_ops; op++)
		n += s->linkage.weight[op] && (split ? s->split[op] < MQ_N_DIMS : s->split[op] == MQ_N_DIMS);
	return n;
}

static void remember(struct automap *s, const struct mq_problem *p, const struct episode *e, double score)
{
	uint32_t n_split = 0, n_whole = 0;

	for (uint32_t i = begin(s, p), next; i < s->n_choices; i = next) {
		apply_choice(s, e, i);
		next = next_open(s, i + 1);
		bool last = next >= s->n_choices;
		uint32_t split = weights_with(s, p->q->model, true), whole = weights_with(s, p->q->model, false);
		double reward = last && !(s->reward && score > -1) ? score : 0;

		if (s->reward) /* for each weight decided, see above */
			reward += (0.4 * (split - n_split) + 0.1 * (whole - n_whole)) * s->n_choices /
				  fmax(s->linkage.n_weights, 1);
		n_split = split;
		n_whole = whole;
		fill_state(s, e, i, s->state);
		if (!last) {
			fill_state(s, e, next, s->next);
			fill_mask(s, e, next);
		}
		nn_dqn_remember(&s->dqn, s->state, e->action[i], reward, last ? NULL : s->next, s->mask);
	}
	double loss = NAN;
	for (uint32_t i = 0; i < 4; i++)
		loss = nn_dqn_learn(&s->dqn, p->rng);
	if (s->n_observed % NOTE_EVERY == 0 && !isnan(loss)) {
		mq_note(p, "td_loss", loss);
		mq_note(p, "epsilon", epsilon_now(s));
	}
}

/* Episodes without a valid plan are conflicts: they get -1 and no simulation. */
static enum mq_status propose(void *state, const struct mq_problem *p, struct mq_arena *arena, struct mq_plan *plan,
			      struct mq_err *err)
{
	struct automap *s = state;
	struct episode *e = &s->pending[s->n_proposed % BATCH];
	enum mq_status status = MQ_EINPUT;

	for (uint32_t tries = 0; tries < 100 && status != MQ_OK; tries++) {
		play_episode(s, p, e);
		struct decided d = read_episode(s, e, p, arena);
		status = make_plan(s, &d, p, arena, plan, err);
		if (status != MQ_OK)
			remember(s, p, e, -1);
	}
	if (s->reward && status == MQ_OK) {
		uint32_t split = weights_split(s, plan);

		plan->engine_objective = split;
		plan->engine_unit = "weights split";
		if (split > s->most_weights) {
			s->most_weights = split;
			s->most_at = s->n_proposed + 1;
		}
	}
	s->n_proposed++;
	return status == MQ_OK ? MQ_OK : MQ_DONE;
}

static void observe(void *state, const struct mq_problem *p, const struct mq_plan *plan, const struct mq_result *result)
{
	struct automap *s = state;
	const struct episode *e = &s->pending[s->n_observed++ % BATCH];
	double score = -1;

	if (result->verdict == MQ_VERDICT_OK) {
		if (isnan(s->first_s))
			s->first_s = result->step_time_s;
		score = log(s->first_s / result->step_time_s);
		if (!(result->step_time_s >= s->best_s)) {
			s->best_s = result->step_time_s;
			s->n_split_best = weights_split(s, plan);
		}
	}
	remember(s, p, e, score);
}

static void stop(void *state, const struct mq_problem *p)
{
	struct automap *s = state;

	if (isfinite(s->best_s))
		mq_say(p, "automap: %u decisions, %u weights, %u of them split in the best plan (%.9g s)", s->n_choices,
		       s->linkage.n_weights, s->n_split_best, s->best_s);
	else
		mq_say(p, "automap: %u decisions, %u weights; no plan that fits was met", s->n_choices,
		       s->linkage.n_weights);
	if (s->reward)
		mq_say(p, "automap: at most %u of %u weights split in a plan, first in plan %u", s->most_weights,
		       s->linkage.n_weights, s->most_at);
	nn_dqn_fini(&s->dqn);
}

MQ_ENGINE(automap) = {
	MQ_ENGINE_HEAD("automap"),
	.summary = "operator partitioning and pipeline cuts by deep Q-learning (Auto-MAP)",
	.paper = "Wang et al., arXiv 2007.04069, 2020",
	MQ_ENGINE_OWN(struct automap),
	.batch = BATCH,
	.lacks = MQ_LACKS_SHAPES,
	.observe = observe,
	.stop = stop,
};
