/* sfb.c - see sfb.h. Only this file includes igraph. SPDX-License-Identifier: Apache-2.0 */
#include "lib/sfb.h"

#include <igraph/igraph.h>

double mq_sfb_cost(const struct mq_sfb_problem *p, const bool *duplicate)
{
	double sum = 0;

	for (uint32_t i = 0; i < p->n_ops; i++)
		if (duplicate[i])
			sum += p->cost[i];
	for (uint32_t e = 0; e < p->n_edges; e++)
		if (duplicate[p->edge[e].dst] && !duplicate[p->edge[e].src])
			sum += p->edge[e].cost;
	return sum;
}

struct network {
	igraph_vector_int_t ends;
	igraph_vector_t capacity;
	igraph_error_t status;
};

static void add_arc(struct network *net, uint32_t from, uint32_t to, double capacity)
{
	if (capacity <= 0 || net->status != IGRAPH_SUCCESS)
		return;
	net->status = igraph_vector_int_push_back(&net->ends, from);
	if (net->status == IGRAPH_SUCCESS)
		net->status = igraph_vector_int_push_back(&net->ends, to);
	if (net->status == IGRAPH_SUCCESS)
		net->status = igraph_vector_push_back(&net->capacity, capacity);
}

/* Nodes 0 .. n-1 are ops, n the source (duplicated), n + 1 the sink (not duplicated). */
static void build(const struct mq_sfb_problem *p, struct network *net)
{
	uint32_t source = p->n_ops, sink = p->n_ops + 1;
	double everything = 1;

	for (uint32_t i = 0; i < p->n_ops; i++)
		everything += p->cost[i] < 0 ? -p->cost[i] : 0;
	for (uint32_t i = 0; i < p->n_ops; i++) {
		add_arc(net, source, i, -p->cost[i]);
		add_arc(net, i, sink, p->cost[i]);
		if (p->forbidden && p->forbidden[i]) /* costs more than all profit */
			add_arc(net, i, sink, everything);
	}
	for (uint32_t e = 0; e < p->n_edges; e++)
		add_arc(net, p->edge[e].dst, p->edge[e].src, p->edge[e].cost);
}

static igraph_error_t cut(struct network *net, uint32_t n_ops, bool *duplicate)
{
	igraph_t graph;
	igraph_vector_int_t side;
	igraph_real_t value;
	igraph_error_t status = igraph_create(&graph, &net->ends, (igraph_integer_t)n_ops + 2, IGRAPH_DIRECTED);

	if (status != IGRAPH_SUCCESS)
		return status;
	status = igraph_vector_int_init(&side, 0);
	if (status == IGRAPH_SUCCESS) {
		status =
			igraph_maxflow(&graph, &value, NULL, NULL, &side, NULL, n_ops, n_ops + 1, &net->capacity, NULL);
		for (igraph_integer_t i = 0; i < igraph_vector_int_size(&side); i++)
			if (VECTOR(side)[i] < (igraph_integer_t)n_ops)
				duplicate[VECTOR(side)[i]] = true;
		igraph_vector_int_destroy(&side);
	}
	igraph_destroy(&graph);
	return status;
}

enum mq_status mq_sfb_solve(const struct mq_sfb_problem *p, struct mq_arena *arena, struct mq_sfb_result *result,
			    struct mq_err *err)
{
	igraph_error_handler_t *before = igraph_set_error_handler(igraph_error_handler_ignore);
	struct network net;

	*result = (struct mq_sfb_result){ .duplicate = mq_arena_array(arena, p->n_ops, bool) };
	net.status = igraph_vector_int_init(&net.ends, 0);
	if (net.status == IGRAPH_SUCCESS) {
		net.status = igraph_vector_init(&net.capacity, 0);
		if (net.status == IGRAPH_SUCCESS) {
			build(p, &net);
			if (net.status == IGRAPH_SUCCESS)
				net.status = cut(&net, p->n_ops, result->duplicate);
			igraph_vector_destroy(&net.capacity);
		}
		igraph_vector_int_destroy(&net.ends);
	}
	igraph_set_error_handler(before);
	if (net.status != IGRAPH_SUCCESS)
		return mq_fail(err, MQ_EBUG, "minimum cut over %u ops: %s", p->n_ops, igraph_strerror(net.status));
	result->optimum = mq_sfb_cost(p, result->duplicate);
	return MQ_OK;
}
