/* placement_data.h - for tests: the public placement graphs and splits, read with jansson alone.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_PLACEMENT_DATA_H
#define MQ_TESTS_PLACEMENT_DATA_H

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "lib/place/place.h"

#define PLACEMENT_FOLDER "../shared/data/dnn-partitioning"

/* Types: 0 = accelerators, 1 = CPUs. Node i of the problem is the i-th of the file. */
struct placement_graph {
	struct mq_place place;
	uint32_t *id; /* [n_nodes] the file's own numbers */
};

static inline uint32_t placement_find(const struct placement_graph *g, json_int_t id)
{
	for (uint32_t i = 0; i < g->place.n_nodes; i++)
		if ((json_int_t)g->id[i] == id)
			return i;
	return MQ_NONE;
}

static inline double placement_number(json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

static inline bool placement_true(json_t *value)
{
	return json_is_true(value) || json_number_value(value) > 0;
}

static inline void placement_nodes(json_t *nodes, struct mq_arena *arena, struct placement_graph *g)
{
	uint32_t n = g->place.n_nodes;
	double *time = mq_arena_array(arena, 2 * n, double), *size = mq_arena_array(arena, n, double);
	uint32_t *color = mq_arena_array(arena, n, uint32_t);
	bool *backward = mq_arena_array(arena, n, bool);

	for (uint32_t i = 0; i < n; i++) {
		json_t *node = json_array_get(nodes, i), *c = json_object_get(node, "colorClass");

		g->id[i] = (uint32_t)placement_number(node, "id");
		time[2 * i] = placement_true(json_object_get(node, "supportedOnFpga")) ?
				      placement_number(node, "fpgaLatency") :
				      (double)INFINITY;
		time[2 * i + 1] = placement_number(node, "cpuLatency");
		size[i] = placement_number(node, "size");
		color[i] = c ? (uint32_t)json_number_value(c) : MQ_NONE;
		backward[i] = placement_true(json_object_get(node, "isBackwardNode"));
	}
	g->place.time = time;
	g->place.size = size;
	g->place.color = color;
	g->place.backward = backward;
}

/* False where the file is not there. */
static inline bool placement_load(const char *path, struct mq_arena *arena, struct placement_graph *g)
{
	json_t *root = json_load_file(path, 0, NULL);

	if (!root)
		return false;
	json_t *nodes = json_object_get(root, "nodes"), *edges = json_object_get(root, "edges");
	struct mq_place_type *type = mq_arena_array(arena, 2, struct mq_place_type);

	*g = (struct placement_graph){ .place = { .n_nodes = (uint32_t)json_array_size(nodes),
						  .n_edges = (uint32_t)json_array_size(edges),
						  .n_types = 2,
						  .type = type } };
	type[0] = (struct mq_place_type){ (uint32_t)placement_number(root, "maxFPGAs"),
					  placement_number(root, "maxSizePerFPGA"), true };
	type[1] = (struct mq_place_type){ (uint32_t)placement_number(root, "maxCPUs"), INFINITY, false };
	g->id = mq_arena_array(arena, g->place.n_nodes, uint32_t);
	placement_nodes(nodes, arena, g);
	struct mq_place_edge *edge = mq_arena_array(arena, g->place.n_edges, struct mq_place_edge);
	double *out = mq_arena_array(arena, g->place.n_nodes, double);

	for (uint32_t e = 0; e < g->place.n_edges; e++) {
		json_t *one = json_array_get(edges, e);

		edge[e].src = placement_find(g, json_integer_value(json_object_get(one, "sourceId")));
		edge[e].dst = placement_find(g, json_integer_value(json_object_get(one, "destId")));
		out[edge[e].src] = placement_number(one, "cost");
	}
	g->place.edge = edge;
	g->place.out_cost = out;
	json_decref(root);
	return true;
}

#endif
