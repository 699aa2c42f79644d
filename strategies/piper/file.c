/* file.c - Piper's published problem files; see dp.h. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "maquette/types.h"
#include "lib/json_in.h"
#include "piper/dp.h"

bool mq_piper_probe(const char *path)
{
	static const char *const words[] = { "\"TMPCs\"", "\"mbsInBatch\"", "\"communicationCost\"", NULL };

	return mq_json_in_sniff(path, words);
}

struct loader {
	struct mq_json_in *in;
	struct mq_arena *arena;
	struct mq_piper *p;
	json_int_t *id;
};

/* Collects the tensor degrees of all nodes, ascending. */
static void collect_degrees(struct loader *l, json_t *nodes)
{
	struct mq_piper *p = l->p;
	uint32_t room = 0;

	for (size_t v = 0; v < json_array_size(nodes); v++) {
		const char *key;
		json_t *value;

		json_object_foreach(json_object_get(json_array_get(nodes, v), "TMPCs"), key, value) {
			char *end;
			unsigned long degree = strtoul(key, &end, 10);
			uint32_t at = 0;

			if (*end || degree < 1 || degree > 10000) {
				mq_json_in_fail(l->in, "TMPCs", "its keys are tensor degrees, 1 .. 10000");
				return;
			}
			while (at < p->n_degrees && p->degree[at] < degree)
				at++;
			if (at < p->n_degrees && p->degree[at] == degree)
				continue;
			MQ_PUSH(l->arena, p->degree, p->n_degrees, room, 0);
			memmove(&p->degree[at + 1], &p->degree[at], (p->n_degrees - 1 - at) * sizeof(*p->degree));
			p->degree[at] = (uint32_t)degree;
		}
	}
}

static uint32_t find_node(struct loader *l, json_int_t id, const char *where)
{
	for (uint32_t v = 0; v < l->p->n_nodes; v++)
		if (l->id[v] == id)
			return v;
	mq_json_in_fail(l->in, where, "names a node that the file does not have");
	return 0;
}

static void read_edges(struct loader *l, json_t *edges)
{
	struct mq_piper *p = l->p;

	p->n_edges = (uint32_t)json_array_size(edges);
	p->edge = mq_arena_array(l->arena, p->n_edges, struct mq_piper_edge);
	for (uint32_t e = 0; e < p->n_edges; e++) {
		struct mq_piper_edge *edge = &p->edge[e];
		char where[64];
		json_int_t src, dst;

		snprintf(where, sizeof(where), "edges[%u]", e);
		if (!mq_json_in_read(l->in, json_array_get(edges, e), where, "{s:I, s:I, s:F}", "sourceId", &src,
				     "destId", &dst, "communicationCost", &edge->bytes))
			return;
		edge->src = find_node(l, src, where);
		edge->dst = find_node(l, dst, where);
		if (edge->bytes < 0 || edge->src == edge->dst)
			mq_json_in_fail(l->in, where, "joins a node with itself, or has a negative communicationCost");
	}
}

/* Extra bytes per edge: syncTimeFw by source of incoming edges, syncTimeBw by target of outgoing ones. */
static double *read_sync(struct loader *l, json_t *config, uint32_t v, const char *where)
{
	const struct mq_piper_node *node = &l->p->node[v];
	double *sync = mq_arena_array(l->arena, node->n_edges, double);

	for (uint32_t i = 0; i < node->n_edges; i++) {
		const struct mq_piper_edge *edge = &l->p->edge[node->edge[i]];
		bool incoming = edge->dst == v;
		char key[32];

		snprintf(key, sizeof(key), "%" JSON_INTEGER_FORMAT, l->id[incoming ? edge->src : edge->dst]);
		if (!mq_json_in_read(l->in, config, where, "{s:{s:F}}", incoming ? "syncTimeFw" : "syncTimeBw", key,
				     &sync[i]))
			break;
	}
	return sync;
}

static void read_choices(struct loader *l, json_t *list, uint32_t v, uint32_t degree)
{
	struct mq_piper_node *node = &l->p->node[v];
	char where[64];

	snprintf(where, sizeof(where), "nodes[%u].TMPCs.%u", v, l->p->degree[degree]);
	node->n_choices[degree] = (uint32_t)json_array_size(list);
	node->choice[degree] = mq_arena_array(l->arena, node->n_choices[degree], struct mq_piper_choice);
	for (uint32_t c = 0; c < node->n_choices[degree]; c++) {
		json_t *config = json_array_get(list, c);
		struct mq_piper_choice *choice = &node->choice[degree][c];

		if (!mq_json_in_read(l->in, config, where, "{s:F, s:F, s:F, s:F}", "timePerSample", &choice->time,
				     "parameterSize", &choice->parameters, "memoryUsageA", &choice->memory_a,
				     "memoryUsageB", &choice->memory_b))
			return;
		choice->sync = read_sync(l, config, v, where);
		if (choice->time < 0 || choice->parameters < 0 || choice->memory_a < 0 || choice->memory_b < 0)
			mq_json_in_fail(l->in, where, "has a negative time or size");
	}
}

static void read_nodes(struct loader *l, json_t *nodes)
{
	struct mq_piper *p = l->p;

	for (uint32_t v = 0; v < p->n_nodes && l->in->status == MQ_OK; v++) {
		json_t *node = json_array_get(nodes, v), *configs = json_object_get(node, "TMPCs");
		const char *name = json_string_value(json_object_get(node, "name"));

		p->node[v].name = mq_arena_strdup(l->arena, name ? name : "");
		p->node[v].n_choices = mq_arena_array(l->arena, p->n_degrees, uint32_t);
		p->node[v].choice = mq_arena_array(l->arena, p->n_degrees, struct mq_piper_choice *);
		for (uint32_t t = 0; t < p->n_degrees; t++) {
			char key[16];

			snprintf(key, sizeof(key), "%u", p->degree[t]);
			read_choices(l, json_object_get(configs, key), v, t);
		}
	}
}

static void read_all(struct loader *l)
{
	struct mq_json_in *in = l->in;
	struct mq_piper *p = l->p;
	json_t *nodes = mq_json_in_array(in, in->root, "the top level", "nodes");
	json_t *edges = mq_json_in_array(in, in->root, "the top level", "edges");
	json_int_t devices, micro_batches;

	if (!mq_json_in_read(in, in->root, "the top level", "{s:I, s:F, s:F, s:I}", "maxDevices", &devices,
			     "maxMemoryPerDevice", &p->memory, "bandwidth", &p->bandwidth, "mbsInBatch",
			     &micro_batches))
		return;
	if (devices < 1 || devices >= MQ_NONE || p->memory <= 0 || p->bandwidth <= 0 || micro_batches < 1 ||
	    micro_batches >= MQ_NONE || json_array_size(nodes) == 0) {
		mq_json_in_fail(in, "the top level",
				"needs nodes, and devices, memory, bandwidth and micro-batches above 0");
		return;
	}
	p->devices = (uint32_t)devices;
	p->micro_batches = (uint32_t)micro_batches;
	p->n_nodes = (uint32_t)json_array_size(nodes);
	p->node = mq_arena_array(l->arena, p->n_nodes, struct mq_piper_node);
	l->id = mq_arena_array(l->arena, p->n_nodes, json_int_t);
	for (uint32_t v = 0; v < p->n_nodes; v++)
		mq_json_in_read(in, json_array_get(nodes, v), "nodes", "{s:I}", "id", &l->id[v]);
	collect_degrees(l, nodes);
	if (in->status == MQ_OK)
		read_edges(l, edges);
	if (in->status != MQ_OK)
		return;
	for (uint32_t v = 0; v < p->n_nodes; v++) {
		uint32_t *list = mq_arena_array(l->arena, p->n_edges, uint32_t);

		p->node[v].edge = list;
		for (uint32_t e = 0; e < p->n_edges; e++)
			if (p->edge[e].src == v || p->edge[e].dst == v)
				list[p->node[v].n_edges++] = e;
	}
	read_nodes(l, nodes);
}

enum mq_status mq_piper_load(const char *path, struct mq_arena *arena, struct mq_piper *problem, struct mq_err *err)
{
	struct mq_json_in in;
	struct loader l = { .in = &in, .arena = arena, .p = problem };

	*problem = (struct mq_piper){ 0 };
	MQ_TRY(mq_json_in_open(&in, path, err));
	read_all(&l);
	mq_json_in_close(&in);
	return in.status;
}
