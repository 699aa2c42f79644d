/* tag_space.c - see tag_space.h. */
#include "lib/tag_space.h"

#include <math.h>
#include <stdlib.h>

/* ---- devices --------------------------------------------------------------------------------------------- */

static enum mq_status group_devices(struct mq_tag_space *s, const struct mq_problem *p, struct mq_err *err)
{
	const struct mq_cluster *c = p->cluster;
	const char *type[MQ_TAG_MAX_GROUPS];

	for (uint32_t i = 0; i < s->coarse.tasks.n_devices; i++) {
		uint32_t rank = s->coarse.tasks.space.device[i], g = 0;

		while (g < s->n_devices && strcmp(type[g], c->device[rank].type))
			g++;
		if (g == MQ_TAG_MAX_GROUPS)
			return mq_fail(err, MQ_EINPUT, "engine 'tag': more than %d types of devices on '%s'; "
				       "2^types x 3 actions would be too many", MQ_TAG_MAX_GROUPS, c->name);
		struct mq_tag_devices *d = &s->device[g];
		if (g == s->n_devices) {
			type[s->n_devices++] = c->device[rank].type;
			d->rank = mq_arena_array(p->arena, c->n_devices, uint32_t);
			d->memory_B = c->device[rank].memory_B;
		}
		d->rank[d->n++] = rank;
	}
	return MQ_OK;
}

static double bandwidth(const struct mq_problem *p, uint32_t a, uint32_t b)
{
	double seconds, bytes = 64e6;

	if (a == b || !p->costs->transfer(p->costs->context, a, b, bytes, &seconds) || seconds <= 0)
		return 0;
	return bytes / seconds;
}

static void measure_links(struct mq_tag_space *s, const struct mq_problem *p)
{
	uint32_t n = s->n_devices;

	s->bw = mq_arena_array(p->arena, n * n, double);
	for (uint32_t a = 0; a < n; a++)
		for (uint32_t b = 0; b < n; b++) {
			const struct mq_tag_devices *x = &s->device[a], *y = &s->device[b];
			uint32_t to = a == b ? y->rank[y->n > 1] : y->rank[0];

			s->bw[a * n + b] = bandwidth(p, x->rank[0], to);
		}
	for (uint32_t a = 0; a < n; a++)
		s->device[a].bw_Bps = s->bw[a * n + a];
}

/* ---- actions ------------------------------------------------------------------------------------------------ */

static void list_actions(struct mq_tag_space *s, const struct mq_problem *p)
{
	uint32_t subsets = 1u << s->n_devices;

	s->action = mq_arena_array(p->arena, subsets * MQ_TAG_N_HOWS, struct mq_tag_action);
	/* All devices and all-reduce first: the baseline is action 0. */
	for (uint32_t mask = subsets - 1; mask > 0; mask--) {
		uint32_t n = 0;

		for (uint32_t g = 0; g < s->n_devices; g++)
			n += mask & 1u << g ? s->device[g].n : 0;
		for (uint8_t how = 0; how < MQ_TAG_N_HOWS; how++) {
			bool alone = n == 1 && how != MQ_TAG_SERVER;
			bool too_many = how != MQ_TAG_MODEL && n > p->train->batch;

			if (!alone && !too_many)
				s->action[s->n_actions++] = (struct mq_tag_action){ mask, how, n };
		}
	}
}

/* ---- features ------------------------------------------------------------------------------------------------- */

struct keyed {
	double time_s;
	uint32_t group;
};

static int longest_first(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;

	if (x->time_s != y->time_s)
		return x->time_s > y->time_s ? -1 : 1;
	return x->group < y->group ? -1 : x->group > y->group;
}

static void describe_ops(struct mq_tag_space *s, const struct mq_problem *p)
{
	const struct mq_tasks *t = &s->coarse.tasks;
	struct keyed *key = mq_arena_array(p->arena, s->n, struct keyed);
	double *f, total = 0, biggest = 1e-300, largest = 1e-300;

	s->op_feature = mq_arena_array(p->arena, s->n * MQ_TAG_OP_FEATURES, double);
	for (uint32_t g = 0; g < s->n; g++)
		key[g].group = g;
	for (uint32_t v = 0; v < t->n; v++) {
		f = s->op_feature + s->coarse.group_of[v] * MQ_TAG_OP_FEATURES;
		key[s->coarse.group_of[v]].time_s += mq_tasks_mean_time(t, v);
		f[1] += t->memory[v];
		total += mq_tasks_mean_time(t, v);
	}
	for (uint32_t op = 0; op < p->model->n_ops; op++) {
		uint32_t g = s->coarse.group_of[t->space.group_of[op]];

		s->op_feature[g * MQ_TAG_OP_FEATURES + 2] += p->model->op[op].param;
		s->op_feature[g * MQ_TAG_OP_FEATURES + 3] += p->model->op[op].output * p->train->batch;
	}
	for (uint32_t g = 0; g < s->n; g++) {
		f = s->op_feature + g * MQ_TAG_OP_FEATURES;
		biggest = fmax(biggest, f[1]);
		largest = fmax(largest, fmax(f[2], f[3]));
	}
	for (uint32_t g = 0; g < s->n; g++) {
		f = s->op_feature + g * MQ_TAG_OP_FEATURES;
		f[0] = key[g].time_s / total * s->n;
		f[1] /= biggest;
		f[2] /= largest;
		f[3] /= largest;
	}
	qsort(key, s->n, sizeof(*key), longest_first);
	s->order = mq_arena_array(p->arena, s->n, uint32_t);
	for (uint32_t i = 0; i < s->n; i++)
		s->order[i] = key[i].group;
}

static void describe_rest(struct mq_tag_space *s, const struct mq_problem *p)
{
	const struct mq_tasks *t = &s->coarse.tasks;
	double memory = 1e-300, bw = 1e-300, bytes = 1e-300;

	for (uint32_t g = 0; g < s->n_devices; g++) {
		memory = fmax(memory, s->device[g].memory_B);
		bw = fmax(bw, s->device[g].bw_Bps);
	}
	s->device_feature = mq_arena_array(p->arena, s->n_devices * MQ_TAG_DEVICE_FEATURES, double);
	for (uint32_t g = 0; g < s->n_devices; g++) {
		double *f = s->device_feature + g * MQ_TAG_DEVICE_FEATURES;

		f[0] = s->device[g].n / 4.0;
		f[1] = s->device[g].memory_B / memory;
		f[2] = s->device[g].bw_Bps / bw;
	}
	s->src = mq_arena_array(p->arena, t->n_edges, uint32_t);
	s->dst = mq_arena_array(p->arena, t->n_edges, uint32_t);
	s->edge = mq_arena_array(p->arena, t->n_edges, double);
	for (uint32_t e = 0; e < t->n_edges; e++) {
		uint32_t a = s->coarse.group_of[t->edge[e].src], b = s->coarse.group_of[t->edge[e].dst];
		uint32_t k = 0;

		if (a == b)
			continue;
		while (k < s->n_edges && (s->src[k] != a || s->dst[k] != b))
			k++;
		s->src[k] = a;
		s->dst[k] = b;
		s->edge[k] += t->edge[e].bytes;
		s->n_edges += k == s->n_edges;
		bytes = fmax(bytes, s->edge[k]);
	}
	for (uint32_t k = 0; k < s->n_edges; k++)
		s->edge[k] /= bytes;
}

enum mq_status mq_tag_space_make(const struct mq_problem *p, uint32_t groups, struct mq_tag_space *s,
				 struct mq_err *err)
{
	*s = (struct mq_tag_space){ 0 };
	MQ_TRY(mq_coarse_make(p, "tag", groups, &s->coarse, err));
	s->n = s->coarse.n;
	MQ_TRY(group_devices(s, p, err));
	measure_links(s, p);
	list_actions(s, p);
	if (!s->n_actions)
		return mq_fail(err, MQ_EINPUT, "engine 'tag': no choice is possible with batch %g",
			       p->train->batch);
	describe_ops(s, p);
	describe_rest(s, p);
	return MQ_OK;
}

/* ---- plans --------------------------------------------------------------------------------------------------------- */

static void fill_devices(const struct mq_tag_space *s, const struct mq_tag_action *a, uint32_t *device)
{
	uint32_t n = 0;

	for (uint32_t g = 0; g < s->n_devices; g++)
		for (uint32_t i = 0; (a->mask & 1u << g) && i < s->device[g].n; i++)
			device[n++] = s->device[g].rank[i];
}

static uint32_t replicated_config(const struct mq_tag_space *s, const struct mq_tag_action *a, bool duplicate,
				  struct mq_arena *arena, struct mq_plan *plan)
{
	uint32_t c = mq_plan_add_config(plan, arena, a->n_devices);

	fill_devices(s, a, plan->config[c].device);
	plan->config[c].split[MQ_DIM_BATCH] = a->n_devices;
	plan->config[c].sync = duplicate ? MQ_SYNC_DUPLICATE :
			       a->how == MQ_TAG_SERVER ? MQ_SYNC_PS :
							 MQ_SYNC_ALLREDUCE;
	return c;
}

/* Ops of a model-parallel group go to its devices in turn, by equal shares of the group's time. */
static void place_group(const struct mq_tag_space *s, uint32_t group, const struct mq_tag_action *a,
			struct mq_arena *arena, uint32_t *rank_of_task)
{
	const struct mq_tasks *t = &s->coarse.tasks;
	uint32_t *device = mq_arena_array(arena, a->n_devices, uint32_t);
	double total = 0, sum = 0;

	fill_devices(s, a, device);
	for (uint32_t v = 0; v < t->n; v++)
		total += s->coarse.group_of[v] == group ? mq_tasks_mean_time(t, v) : 0;
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t v = t->order[i];

		if (s->coarse.group_of[v] != group)
			continue;
		double time_s = mq_tasks_mean_time(t, v);
		double at = total > 0 ? (sum + time_s / 2) / total * a->n_devices : 0;

		rank_of_task[v] = device[(uint32_t)fmin(at, a->n_devices - 1)];
		sum += time_s;
	}
}

enum mq_status mq_tag_plan(const struct mq_tag_space *s, const uint32_t *action,
			   const struct mq_problem *p, struct mq_arena *arena, struct mq_plan *plan,
			   struct mq_err *err)
{
	const struct mq_tasks *t = &s->coarse.tasks;
	uint32_t *config = mq_arena_array(arena, 2 * s->n_actions, uint32_t); /* + 1; by duplication */
	uint32_t *single = mq_arena_array(arena, p->cluster->n_devices, uint32_t);
	uint32_t *rank = mq_arena_array(arena, t->n, uint32_t);

	mq_plan_init(plan, arena, p->model->n_ops);
	for (uint32_t g = 0; g < s->n; g++)
		if (s->action[action[g]].how == MQ_TAG_MODEL)
			place_group(s, g, &s->action[action[g]], arena, rank);
	for (uint32_t op = 0; op < p->model->n_ops; op++) {
		uint32_t task = t->space.group_of[op], a = action[s->coarse.group_of[task]];

		if (s->action[a].how == MQ_TAG_MODEL) {
			uint32_t *c = &single[rank[task]];

			if (!*c) {
				*c = mq_plan_add_config(plan, arena, 1) + 1;
				plan->config[*c - 1].device[0] = rank[task];
			}
			plan->config_of[op] = *c - 1;
			continue;
		}
		bool duplicate = s->duplicate && s->duplicate[op] &&
				 s->action[a].how == MQ_TAG_ALL_REDUCE && s->action[a].n_devices > 1;
		uint32_t *c = &config[2 * a + duplicate];
		if (!*c)
			*c = replicated_config(s, &s->action[a], duplicate, arena, plan) + 1;
		plan->config_of[op] = *c - 1;
	}
	return mq_plan_check(plan, p->model, p->cluster, p->train, err);
}
