/* tables.c - see tables.h. SPDX-License-Identifier: Apache-2.0 */
#include "pase/tables.h"

#include <stdio.h>
#include <string.h>

#include "maquette/types.h"
#include "lib/json_in.h"

bool mq_pase_tables_probe(const char *path)
{
	static const char *const words[] = { "\"vertices\"", "\"edges\"", "\"configs\"", NULL };

	return mq_json_in_sniff(path, words);
}

/* The batch is dimension 0, except for layer types with other dimensions before it. */
static uint32_t batch_dimension(const char *type, uint32_t n_dims)
{
	if (strcmp(type, "LSTM") == 0)
		return 2;
	if ((strcmp(type, "Einsum") == 0 && n_dims == 6) || strcmp(type, "Stack") == 0 || strcmp(type, "Unstack") == 0)
		return 1;
	return 0;
}

/* The configuration that splits only the batch, into most parts; MQ_NONE: there is none. */
static uint32_t read_configs(struct mq_json_in *in, json_t *configs, const char *type, const char *where)
{
	uint32_t best = MQ_NONE;
	double most = 0;

	for (size_t c = 0; c < json_array_size(configs) && in->status == MQ_OK; c++) {
		json_t *config = json_array_get(configs, c);
		uint32_t n_dims = (uint32_t)json_array_size(config);
		uint32_t batch = batch_dimension(type, n_dims);
		bool only = batch < n_dims;
		double degree = 0;

		for (uint32_t d = 0; d < n_dims; d++) {
			double split = mq_json_in_value(in, json_array_get(config, d), where);

			if (in->status == MQ_OK && split < 1)
				mq_json_in_fail(in, where, "a configuration splits less than once");
			if (d == batch)
				degree = split;
			else
				only = only && split == 1;
		}
		if (only && degree > most)
			most = degree, best = (uint32_t)c;
	}
	return best;
}

static double *read_row(struct mq_json_in *in, json_t *row, size_t n, double *out, const char *where)
{
	if (json_array_size(row) != n) {
		mq_json_in_fail(in, where, "has %zu numbers, expected %zu (one per configuration)",
				json_array_size(row), n);
		return out;
	}
	for (size_t i = 0; i < n; i++)
		out[i] = mq_json_in_value(in, json_array_get(row, i), where);
	return out;
}

struct loader {
	struct mq_json_in *in;
	struct mq_arena *arena;
	struct mq_pase_tables *tables;
	uint32_t *n_choices;
	json_int_t *id;
	const double **cost;
	struct mq_elim_pair *pair;
};

static void read_vertices(struct loader *l, json_t *vertices)
{
	struct mq_elim_problem *p = &l->tables->problem;

	p->n_vars = (uint32_t)json_array_size(vertices);
	l->n_choices = mq_arena_array(l->arena, p->n_vars, uint32_t);
	l->id = mq_arena_array(l->arena, p->n_vars, json_int_t);
	l->cost = mq_arena_array(l->arena, p->n_vars, const double *);
	l->tables->data_parallel = mq_arena_array(l->arena, p->n_vars, uint32_t);
	for (uint32_t v = 0; v < p->n_vars && l->in->status == MQ_OK; v++) {
		json_t *vertex = json_array_get(vertices, v);
		const char *type = json_string_value(json_object_get(vertex, "type"));
		char where[64];

		snprintf(where, sizeof(where), "vertices[%u]", v);
		mq_json_in_read(l->in, vertex, where, "{s:I}", "id", &l->id[v]);
		for (uint32_t w = 0; w < v && l->in->status == MQ_OK; w++)
			if (l->id[w] == l->id[v])
				mq_json_in_fail(l->in, where, "its id is taken by an earlier vertex");
		json_t *configs = mq_json_in_array(l->in, vertex, where, "configs");
		json_t *cost = mq_json_in_array(l->in, vertex, where, "cost");

		l->n_choices[v] = (uint32_t)json_array_size(cost);
		if (l->in->status == MQ_OK && (l->n_choices[v] == 0 || l->n_choices[v] != json_array_size(configs)))
			mq_json_in_fail(l->in, where, "needs as many costs as configs, at least one");
		if (l->in->status != MQ_OK)
			return;
		l->cost[v] = read_row(l->in, cost, l->n_choices[v], mq_arena_array(l->arena, l->n_choices[v], double),
				      where);
		l->tables->data_parallel[v] = read_configs(l->in, configs, type ? type : "", where);
	}
	p->n_choices = l->n_choices;
	p->cost = l->cost;
}

static uint32_t find_vertex(struct loader *l, json_int_t id, const char *where)
{
	for (uint32_t v = 0; v < l->tables->problem.n_vars; v++)
		if (l->id[v] == id)
			return v;
	mq_json_in_fail(l->in, where, "names a vertex that the file does not have");
	return 0;
}

static void read_edges(struct loader *l, json_t *edges)
{
	struct mq_elim_problem *p = &l->tables->problem;

	p->n_pairs = (uint32_t)json_array_size(edges);
	p->pair = l->pair = mq_arena_array(l->arena, p->n_pairs, struct mq_elim_pair);
	for (uint32_t i = 0; i < p->n_pairs && l->in->status == MQ_OK; i++) {
		json_t *edge = json_array_get(edges, i);
		char where[64];

		snprintf(where, sizeof(where), "edges[%u]", i);
		json_t *rows = mq_json_in_array(l->in, edge, where, "cost");
		json_int_t src, dst;

		if (!mq_json_in_read(l->in, edge, where, "{s:I, s:I}", "src", &src, "dst", &dst))
			return;
		uint32_t a = find_vertex(l, src, where), b = find_vertex(l, dst, where);

		if (l->in->status == MQ_OK && a == b)
			mq_json_in_fail(l->in, where, "joins a vertex with itself");
		if (l->in->status == MQ_OK && json_array_size(rows) != l->n_choices[a])
			mq_json_in_fail(l->in, where, "needs one row per configuration of src");
		if (l->in->status != MQ_OK)
			return;
		size_t width = l->n_choices[b];
		double *cost = mq_arena_array(l->arena, l->n_choices[a] * width, double);

		for (uint32_t r = 0; r < l->n_choices[a]; r++)
			read_row(l->in, json_array_get(rows, r), width, cost + r * width, where);
		l->pair[i] = (struct mq_elim_pair){ a, b, cost };
	}
}

enum mq_status mq_pase_tables_load(const char *path, struct mq_arena *arena, struct mq_pase_tables *tables,
				   struct mq_err *err)
{
	struct mq_json_in in;
	struct loader l = { .in = &in, .arena = arena, .tables = tables };

	*tables = (struct mq_pase_tables){ 0 };
	MQ_TRY(mq_json_in_open(&in, path, err));
	json_t *vertices = mq_json_in_array(&in, in.root, "the top level", "vertices");
	json_t *edges = mq_json_in_array(&in, in.root, "the top level", "edges");

	if (in.status == MQ_OK && json_array_size(vertices) == 0)
		mq_json_in_fail(&in, "vertices", "is empty: nothing to solve");
	if (in.status == MQ_OK)
		read_vertices(&l, vertices);
	if (in.status == MQ_OK)
		read_edges(&l, edges);
	mq_json_in_close(&in);
	return in.status;
}
