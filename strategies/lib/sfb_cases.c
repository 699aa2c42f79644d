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

static bool is_op(struct mq_json_in *in, json_int_t op, const char *where, uint32_t n)
{
	if (in->status == MQ_OK && (op < 0 || op >= n))
		mq_json_in_fail(in, where, "names an op that is not there");
	return in->status == MQ_OK;
}

static void read_costs(struct mq_json_in *in, json_t *object, const char *where, const struct terms *t, double *cost)
{
	json_t *time = mq_json_in_array(in, object, where, "time_us"), *gradient;
	json_t *gradients = mq_json_in_array(in, object, where, "gradients");
	size_t g;

	for (uint32_t i = 0; i < t->n && in->status == MQ_OK; i++)
		cost[i] = (t->replicas - 1) * mq_json_in_value(in, json_array_get(time, i), where) + t->alpha;
	json_array_foreach(gradients, g, gradient) {
		double size;
		json_int_t op;

		if (!mq_json_in_read(in, gradient, where, "[IF]", &op, &size) || !is_op(in, op, where, t->n))
			return;
		cost[op] -= 2 * (t->replicas - 1) / t->replicas * size / t->bandwidth;
	}
}

static void read_edges(struct mq_json_in *in, json_t *edges, const char *where, const struct terms *t,
		       struct mq_sfb_edge *edge)
{
	for (size_t e = 0; e < json_array_size(edges); e++) {
		json_int_t src, dst;
		double size;

		if (!mq_json_in_read(in, json_array_get(edges, e), where, "[IIF]", &src, &dst, &size) ||
		    !is_op(in, src, where, t->n) || !is_op(in, dst, where, t->n))
			return;
		edge[e] = (struct mq_sfb_edge){ (uint32_t)src, (uint32_t)dst,
						t->replicas * (t->replicas - 1) * size / t->bandwidth };
		if (size < 0)
			mq_json_in_fail(in, where, "an edge has a negative size");
	}
}

static void read_case(struct mq_json_in *in, json_t *object, uint32_t index, struct mq_arena *arena,
		      struct mq_sfb_cases *cases)
{
	struct terms t;
	char where[64];
	json_int_t id, n;

	snprintf(where, sizeof(where), "cases[%u]", index);
	json_t *fixed = mq_json_in_array(in, object, where, "not_duplicable"), *op;
	json_t *edges = mq_json_in_array(in, object, where, "edges");
	json_t *time = mq_json_in_array(in, object, where, "time_us");
	size_t i;

	if (!mq_json_in_read(in, object, where, "{s:I, s:I, s:F, s:F, s:F}", "id", &id, "n", &n, "replicas",
			     &t.replicas, "bandwidth", &t.bandwidth, "alpha", &t.alpha))
		return;
	if (!(t.replicas >= 1 && t.bandwidth > 0) || id < 0 || id >= MQ_NONE || n < 0 ||
	    json_array_size(time) != (size_t)n) {
		mq_json_in_fail(in, where, "needs replicas >= 1, bandwidth > 0 and 'n' times in time_us");
		return;
	}
	t.n = (uint32_t)n;
	double *cost = mq_arena_array(arena, t.n, double);
	bool *forbidden = mq_arena_array(arena, t.n, bool);
	struct mq_sfb_edge *edge = mq_arena_array(arena, json_array_size(edges), struct mq_sfb_edge);

	read_costs(in, object, where, &t, cost);
	read_edges(in, edges, where, &t, edge);
	json_array_foreach(fixed, i, op) {
		json_int_t number;

		if (mq_json_in_read(in, op, where, "I", &number) && is_op(in, number, where, t.n))
			forbidden[number] = true;
	}
	cases->id[index] = (uint32_t)id;
	cases->problem[index] = (struct mq_sfb_problem){ .n_ops = t.n,
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
	for (uint32_t i = 0; i < cases->n && in.status == MQ_OK; i++)
		read_case(&in, json_array_get(list, i), i, arena, cases);
	mq_json_in_close(&in);
	return in.status;
}
