/* file.c - PipeDream's profiles (graph.txt); see dp.h. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "maquette/types.h"
#include "pipedream/dp.h"

bool mq_pipedream_probe(const char *path)
{
	char line[1024];
	FILE *f = fopen(path, "r");
	bool found =
		f && fgets(line, sizeof(line), f) && !strncmp(line, "node", 4) && strstr(line, "forward_compute_time=");

	if (f)
		fclose(f);
	return found;
}

struct node {
	const char *id, *about;
	double forward_ms, backward_ms, activation_B, parameter_B;
	bool dropped;
	uint32_t layer, n_out, n_in;
};

struct reader {
	const char *path;
	struct mq_arena *arena;
	uint32_t line, n_nodes, node_room, n_edges, edge_room;
	struct node *node;
	struct pair {
		uint32_t src, dst;
	} * edge;
	struct mq_err *err;
};

/* A number, or a list "[a; b; ...]" of the outputs of one layer, which are added up. */
static enum mq_status read_field(struct reader *r, const char *text, const char *key, double *value)
{
	const char *at = strstr(text, key);

	*value = 0;
	if (at) {
		bool list = at[strlen(key)] == '[';

		at += strlen(key) + list;
		for (;;) {
			char *end;
			double one = strtod(at, &end);

			if (end == at || !isfinite(one) || one < 0)
				break;
			*value += one;
			if (!list || *end == ']')
				return MQ_OK;
			if (*end != ';')
				break;
			at = end + 1;
		}
	}
	return mq_bad(r->err, "%s:%u: a node line needs %sNUMBER, from 0", r->path, r->line, key);
}

static uint32_t find(const struct reader *r, const char *id)
{
	for (uint32_t i = 0; i < r->n_nodes; i++)
		if (!strcmp(r->node[i].id, id))
			return i;
	return MQ_NONE;
}

/* "nodeN -- about -- forward_compute_time=..., ..." */
static enum mq_status read_node(struct reader *r, char *line)
{
	char *about = strstr(line, " -- "), *numbers = about ? strstr(about + 4, " -- ") : NULL;
	struct node node = { 0 };

	if (!numbers)
		return mq_bad(r->err, "%s:%u: expected 'nodeN -- description -- forward_compute_time=...'", r->path,
			      r->line);
	*about = *numbers = '\0';
	node.id = mq_arena_strdup(r->arena, line);
	node.about = mq_arena_strdup(r->arena, about + 4);
	if (find(r, node.id) != MQ_NONE)
		return mq_bad(r->err, "%s:%u: node '%s' comes twice", r->path, r->line, node.id);
	MQ_TRY(read_field(r, numbers + 4, "forward_compute_time=", &node.forward_ms));
	MQ_TRY(read_field(r, numbers + 4, "backward_compute_time=", &node.backward_ms));
	MQ_TRY(read_field(r, numbers + 4, "activation_size=", &node.activation_B));
	MQ_TRY(read_field(r, numbers + 4, "parameter_size=", &node.parameter_B));
	MQ_PUSH(r->arena, r->node, r->n_nodes, r->node_room, node);
	return MQ_OK;
}

/* "<tab>nodeA -- nodeB" */
static enum mq_status read_edge(struct reader *r, char *line)
{
	char *dash = strstr(line, " -- ");
	uint32_t src, dst;

	if (!dash)
		return mq_bad(r->err, "%s:%u: expected 'nodeA -- nodeB'", r->path, r->line);
	*dash = '\0';
	src = find(r, line);
	dst = find(r, dash + 4);
	if (src == MQ_NONE || dst == MQ_NONE)
		return mq_bad(r->err, "%s:%u: edge to a node that has no line", r->path, r->line);
	struct pair edge = { src, dst };

	MQ_PUSH(r->arena, r->edge, r->n_edges, r->edge_room, edge);
	return MQ_OK;
}

static enum mq_status read_lines(struct reader *r, FILE *f)
{
	char line[4096];

	while (fgets(line, sizeof(line), f)) {
		r->line++;
		line[strcspn(line, "\r\n")] = '\0';
		if (!*line)
			continue;
		if (line[0] == '\t')
			MQ_TRY(read_edge(r, line + 1));
		else
			MQ_TRY(read_node(r, line));
	}
	return MQ_OK;
}

/* Inputs hold data loading, and outputs called __getitem__ are not used: both go. */
static void drop(struct reader *r)
{
	for (uint32_t e = 0; e < r->n_edges; e++) {
		r->node[r->edge[e].src].n_out++;
		r->node[r->edge[e].dst].n_in++;
	}
	for (uint32_t v = 0; v < r->n_nodes; v++) {
		struct node *node = &r->node[v];

		node->dropped = (!node->n_in && !strncmp(node->about, "Input", 5)) ||
				(!node->n_out && !strncmp(node->about, "__getitem__", 11));
	}
}

static void fill(struct reader *r, struct mq_pipedream *p)
{
	struct mq_pipedream_layer *layer = mq_arena_array(r->arena, r->n_nodes, struct mq_pipedream_layer);
	uint32_t *src = mq_arena_array(r->arena, r->n_edges, uint32_t);
	uint32_t *dst = mq_arena_array(r->arena, r->n_edges, uint32_t);

	for (uint32_t v = 0; v < r->n_nodes; v++) {
		struct node *node = &r->node[v];

		if (node->dropped)
			continue;
		node->layer = p->n_layers;
		layer[p->n_layers++] =
			(struct mq_pipedream_layer){ node->about, (node->forward_ms + node->backward_ms) * 1e-3,
						     node->activation_B, node->parameter_B };
	}
	for (uint32_t e = 0; e < r->n_edges; e++) {
		const struct node *a = &r->node[r->edge[e].src], *b = &r->node[r->edge[e].dst];

		if (a->dropped || b->dropped)
			continue;
		src[p->n_edges] = a->layer;
		dst[p->n_edges++] = b->layer;
	}
	p->layer = layer;
	p->src = src;
	p->dst = dst;
}

enum mq_status mq_pipedream_load(const char *path, struct mq_arena *arena, struct mq_pipedream *p, struct mq_err *err)
{
	struct reader r = { .path = path, .arena = arena, .err = err };
	FILE *f = fopen(path, "r");

	*p = (struct mq_pipedream){ 0 };
	if (!f)
		return mq_bad(err, "%s: cannot be opened", path);
	enum mq_status status = read_lines(&r, f);

	fclose(f);
	MQ_TRY(status);
	drop(&r);
	fill(&r, p);
	if (!p->n_layers)
		return mq_bad(err, "%s: has no layers", path);
	return MQ_OK;
}
