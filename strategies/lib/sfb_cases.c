/* sfb_cases.c - explicit instances of the sufficient-factor problem; see sfb.h. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "maquette/types.h"
#include "lib/json_in.h"
#include "lib/sfb.h"

bool mq_sfb_cases_probe(const char *path)
{
	static const char *const words[] = { "\"gradients\"", "\"replicas\"", "\"not_duplicable\"", NULL };

	return mq_json_in_sniff(path, words);
}

struct terms {
	double replicas, bandwidth, alpha;
	uint32_t n;
};

static uint32_t op_index(struct mq_json_in *in, json_t *value, const char *where, uint32_t n)
{
	double number = mq_json_in_value(in, value, where);

	if (in->status == MQ_OK && !(number >= 0 && number < n && number == (uint32_t)number))
		mq_json_in_fail(in, where, "names an op that is not there");
	return in->status == MQ_OK ? (uint32_t)number : 0;
}

static void read_costs(struct mq_json_in *in, json_t *object, const char *where, const struct terms *t, double *cost)
{
	json_t *time = mq_json_in_array(in, object, where, "time_us");
	json_t *gradients = mq_json_in_array(in, object, where, "gradients");

	if (in->status == MQ_OK && json_array_size(time) != t->n)
		mq_json_in_fail(in, where, "needs 'n' times in time_us");
	for (uint32_t i = 0; i < t->n && in->status == MQ_OK; i++)
		cost[i] = (t->replicas - 1) * mq_json_in_value(in, json_array_get(time, i), where) + t->alpha;
	for (size_t g = 0; g < json_array_size(gradients) && in->status == MQ_OK; g++) {
		json_t *gradient = json_array_get(gradients, g);
		uint32_t op = op_index(in, json_array_get(gradient, 0), where, t->n);
		double size = mq_json_in_value(in, json_array_get(gradient, 1), where);

		cost[op] -= 2 * (t->replicas - 1) / t->replicas * size / t->bandwidth;
	}
}

static void read_edges(struct mq_json_in *in, json_t *object, const char *where, const struct terms *t,
		       struct mq_sfb_edge *edge)
{
	json_t *edges = mq_json_in_array(in, object, where, "edges");

	for (size_t e = 0; e < json_array_size(edges) && in->status == MQ_OK; e++) {
		json_t *row = json_array_get(edges, e);
		double size = mq_json_in_value(in, json_array_get(row, 2), where);

		edge[e].src = op_index(in, json_array_get(row, 0), where, t->n);
		edge[e].dst = op_index(in, json_array_get(row, 1), where, t->n);
		edge[e].cost = t->replicas * (t->replicas - 1) * size / t->bandwidth;
		if (in->status == MQ_OK && size < 0)
			mq_json_in_fail(in, where, "an edge has a negative size");
	}
}

static void read_case(struct mq_json_in *in, json_t *object, uint32_t index, struct mq_arena *arena,
		      struct mq_sfb_problem *problem)
{
	char where[64];
	struct terms t;

	snprintf(where, sizeof(where), "cases[%u]", index);
	t.n = mq_json_in_index(in, object, where, "n");
	t.replicas = mq_json_in_number(in, object, where, "replicas");
	t.bandwidth = mq_json_in_number(in, object, where, "bandwidth");
	t.alpha = mq_json_in_number(in, object, where, "alpha");
	json_t *fixed = mq_json_in_array(in, object, where, "not_duplicable");
	json_t *edges = mq_json_in_array(in, object, where, "edges");
	json_t *time = mq_json_in_array(in, object, where, "time_us");

	if (in->status == MQ_OK && !(t.replicas >= 1 && t.bandwidth > 0))
		mq_json_in_fail(in, where, "needs replicas >= 1 and bandwidth > 0");
	if (in->status == MQ_OK && json_array_size(time) != t.n)
		mq_json_in_fail(in, where, "needs 'n' times in time_us");
	if (in->status != MQ_OK)
		return;
	double *cost = mq_arena_array(arena, t.n, double);
	bool *forbidden = mq_arena_array(arena, t.n, bool);
	struct mq_sfb_edge *edge = mq_arena_array(arena, json_array_size(edges), struct mq_sfb_edge);

	read_costs(in, object, where, &t, cost);
	read_edges(in, object, where, &t, edge);
	for (size_t i = 0; i < json_array_size(fixed) && in->status == MQ_OK; i++)
		forbidden[op_index(in, json_array_get(fixed, i), where, t.n)] = true;
	*problem = (struct mq_sfb_problem){ .n_ops = t.n,
					    .n_edges = (uint32_t)json_array_size(edges),
					    .cost = cost,
					    .forbidden = forbidden,
					    .edge = edge };
}

enum mq_status mq_sfb_cases_load(const char *path, struct mq_arena *arena, struct mq_sfb_cases *cases,
				 struct mq_err *err)
{
	struct mq_json_in in;

	*cases = (struct mq_sfb_cases){ 0 };
	MQ_TRY(mq_json_in_open(&in, path, err));
	json_t *list = json_is_array(in.root) ? in.root : mq_json_in_array(&in, in.root, "the top level", "cases");

	cases->n = (uint32_t)json_array_size(list);
	cases->id = mq_arena_array(arena, cases->n, uint32_t);
	cases->problem = mq_arena_array(arena, cases->n, struct mq_sfb_problem);
	if (in.status == MQ_OK && cases->n == 0)
		mq_json_in_fail(&in, "the top level", "has no cases");
	for (uint32_t i = 0; i < cases->n && in.status == MQ_OK; i++) {
		json_t *object = json_array_get(list, i);
		char where[64];

		snprintf(where, sizeof(where), "cases[%u]", i);
		cases->id[i] = mq_json_in_index(&in, object, where, "id");
		if (in.status == MQ_OK)
			read_case(&in, object, i, arena, &cases->problem[i]);
	}
	mq_json_in_close(&in);
	return in.status;
}
