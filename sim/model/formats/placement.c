/* placement.c - the device placement data set's graphs (Tarnawski et al., NeurIPS 2020, msr-fiddle/dnn-partitioning):
 * measured ops, explicit backward nodes and abstract devices.
 *
 * The place of each value of the file (time_unit_s is 1: all times are in the file's own unit):
 *   node  fpgaLatency     profile.forward_s[2 op], type "accelerator"; +inf if not supportedOnFpga
 *         cpuLatency      profile.forward_s[2 op + 1], type "cpu"
 *         size            profile.memory_B[op], bytes
 *         isBackwardNode  op.phase; the only forward and only backward op of a colour are mates
 *         colorClass      op.color, as in the file; MQ_NONE where absent
 *   edge  cost            edge.elems, a time; op.output is the largest cost that leaves the op:
 *                         the time to move its output between two memories (c_v)
 *   file  maxFPGAs, maxCPUs, maxSizePerFPGA: devices.n_accelerators, n_cpus, memory_B; bw_Bps is 0
 * Ops are renumbered topologically, ties by file order. Edge sizes and layer ids are not used. backward_s is absent:
 * backward nodes are separate ops. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/formats/lib/json.h"

enum { ACCELERATOR, CPU, N_TYPES };

static const double MAX_TIME = 1e15, MAX_SIZE = 1e18, MAX_ID = 9e15;

/* A node's id in the file and its op, sorted by id. */
struct node {
	double id;
	uint32_t op;
};

struct reader {
	const char *path;
	struct mq_arena *arena;
	struct mq_model_builder b;
	struct node *node;
	uint32_t n_nodes;
};

MQ_COMPARE(by_id, struct node, MQ_ORDER(a->id, b->id))

static enum mq_status read_array(const json_t *json, const char *key, const char *path, json_t **array,
				 struct mq_err *err)
{
	*array = json_object_get(json, key);
	if (!json_is_array(*array))
		return mq_bad(err, "%s: \"%s\" is missing or no array; give a list", path, key);
	return MQ_OK;
}

static enum mq_status read_devices(struct reader *r, const json_t *json, struct mq_err *err)
{
	struct mq_model_devices *d = &r->b.model->devices;
	const struct mq_json_at at = { .path = r->path, .place = "", .object = json };
	const struct mq_json_range size = { .max = MAX_SIZE, .required = true };

	MQ_TRY(mq_json_u32(&at, "maxFPGAs", 0, 1e5, &d->n_accelerators, err));
	MQ_TRY(mq_json_u32(&at, "maxCPUs", 0, 1e5, &d->n_cpus, err));
	MQ_TRY(mq_json_number(&at, "maxSizePerFPGA", &size, &d->memory_B, err));
	d->time_unit_s = 1;
	if (!d->n_accelerators && !d->n_cpus)
		return mq_bad(err, "%s: \"maxFPGAs\" and \"maxCPUs\" give no device; give at least one", r->path);
	return MQ_OK;
}

static enum mq_status read_node(struct reader *r, uint32_t i, const json_t *json, struct mq_err *err)
{
	const struct mq_json_at at = { r->path, mq_arena_printf(r->arena, "nodes[%u]", i), json };
	const struct mq_json_range time = { .max = MAX_TIME, .required = true };
	const struct mq_json_range id = { -MAX_ID, MAX_ID, true, true };
	const struct mq_json_range size = { .max = MAX_SIZE }, flag = { .max = 1, .whole = true };
	struct mq_profile *p = &r->b.model->profile;
	double supported = 1, backward = 0, color = -1;
	const char *name;

	if (!json_is_object(json))
		return mq_bad(err, "%s: nodes[%u] is no object; give {\"id\": ...}", r->path, i);
	MQ_TRY(mq_json_number(&at, "id", &id, &r->node[i].id, err));
	MQ_TRY(mq_json_text(&at, "name", &name, err));
	MQ_TRY(mq_json_number(&at, "fpgaLatency", &time, &p->forward_s[i * N_TYPES + ACCELERATOR], err));
	MQ_TRY(mq_json_number(&at, "cpuLatency", &time, &p->forward_s[i * N_TYPES + CPU], err));
	MQ_TRY(mq_json_number(&at, "size", &size, &p->memory_B[i], err));
	MQ_TRY(mq_json_number(&at, "supportedOnFpga", &flag, &supported, err));
	MQ_TRY(mq_json_number(&at, "isBackwardNode", &flag, &backward, err));
	MQ_TRY(mq_json_number(&at, "colorClass", &(struct mq_json_range){ -1, UINT32_MAX - 1.0, true, false }, &color,
			      err));
	if (supported == 0)
		p->forward_s[i * N_TYPES + ACCELERATOR] = (double)INFINITY;
	if (!name || !*name)
		name = mq_arena_printf(r->arena, "node%.0f", r->node[i].id);
	r->node[i].op = mq_model_add(&r->b, MQ_OP_PROFILED, name);
	struct mq_op *op = &r->b.model->op[r->node[i].op];
	op->phase = backward != 0 ? MQ_BACKWARD : MQ_FORWARD;
	op->color = color < 0 ? MQ_NONE : (uint32_t)color;
	return MQ_OK;
}

static enum mq_status read_nodes(struct reader *r, const json_t *array, struct mq_err *err)
{
	static const char *const types[] = { "accelerator", "cpu" };
	struct mq_profile *p = &r->b.model->profile;
	size_t n = json_array_size(array);

	if (!n)
		return mq_bad(err, "%s: \"nodes\" is empty; give at least one", r->path);
	p->n_types = N_TYPES;
	p->type = mq_arena_array(r->arena, N_TYPES, const char *);
	memcpy(p->type, types, sizeof(types));
	p->forward_s = mq_arena_array(r->arena, n * N_TYPES, double);
	p->memory_B = mq_arena_array(r->arena, n, double);
	r->node = mq_arena_array(r->arena, n, struct node);
	r->n_nodes = (uint32_t)n;
	for (uint32_t i = 0; i < n; i++)
		MQ_TRY(read_node(r, i, json_array_get(array, i), err));
	qsort(r->node, n, sizeof(*r->node), by_id);
	for (uint32_t i = 1; i < n; i++)
		if (r->node[i - 1].id == r->node[i].id)
			return mq_bad(err, "%s: two nodes have the id %.0f; ids must differ", r->path, r->node[i].id);
	return MQ_OK;
}

static enum mq_status find_end(const struct reader *r, const struct mq_json_at *at, const char *key, uint32_t *op,
			       struct mq_err *err)
{
	const struct mq_json_range id = { -MAX_ID, MAX_ID, true, true };
	struct node wanted = { 0 };

	MQ_TRY(mq_json_number(at, key, &id, &wanted.id, err));
	const struct node *n = bsearch(&wanted, r->node, r->n_nodes, sizeof(*r->node), by_id);
	if (!n)
		return mq_bad(err, "%s: %s: \"%s\" is %.0f, but no node has that id", r->path, at->place, key,
			      wanted.id);
	*op = n->op;
	return MQ_OK;
}

static enum mq_status read_edges(struct reader *r, const json_t *array, struct mq_err *err)
{
	const struct mq_json_range time = { .max = MAX_TIME, .required = true };

	for (uint32_t i = 0; i < json_array_size(array); i++) {
		const json_t *json = json_array_get(array, i);
		char place[32];
		uint32_t src = 0, dst = 0;
		double cost = 0;

		snprintf(place, sizeof(place), "edges[%u]", i);
		const struct mq_json_at at = { r->path, place, json };
		if (!json_is_object(json))
			return mq_bad(err, "%s: %s is no object; give {\"sourceId\": ...}", r->path, place);
		MQ_TRY(find_end(r, &at, "sourceId", &src, err));
		MQ_TRY(find_end(r, &at, "destId", &dst, err));
		MQ_TRY(mq_json_number(&at, "cost", &time, &cost, err));
		mq_model_connect(&r->b, src, dst, cost);
		r->b.model->op[src].output = fmax(r->b.model->op[src].output, cost);
	}
	return MQ_OK;
}

/* The ops of a colour with exactly one forward and one backward op are mates. */
static void find_mates(struct mq_model *m, struct mq_arena *arena)
{
	double *color = mq_arena_array(arena, m->n_ops, double);

	for (uint32_t i = 0; i < m->n_ops; i++)
		color[i] = m->op[i].color;
	const uint32_t *op = mq_arena_order(arena, color, m->n_ops);
	for (uint32_t i = 0, end; i < m->n_ops; i = end) {
		for (end = i + 1; end < m->n_ops && color[op[end]] == color[op[i]];)
			end++;
		if (end - i != 2 || color[op[i]] == MQ_NONE || m->op[op[i]].phase == m->op[op[i + 1]].phase)
			continue;
		m->op[op[i]].mate = op[i + 1];
		m->op[op[i + 1]].mate = op[i];
	}
}

static enum mq_status read_graph(struct reader *r, const json_t *json, struct mq_model **model, struct mq_err *err)
{
	json_t *nodes, *edges;

	MQ_TRY(read_array(json, "nodes", r->path, &nodes, err));
	MQ_TRY(read_array(json, "edges", r->path, &edges, err));
	MQ_TRY(read_devices(r, json, err));
	MQ_TRY(read_nodes(r, nodes, err));
	MQ_TRY(read_edges(r, edges, err));
	find_mates(r->b.model, r->arena);
	return mq_model_finish(&r->b, model, err) == MQ_OK ? MQ_OK : mq_wrap(err, "%s", r->path);
}

static enum mq_status load(const char *path, const struct mq_model_request *request, struct mq_arena *arena,
			   struct mq_model **model, struct mq_err *err)
{
	struct reader r = { .path = path, .arena = arena };
	json_auto_t *json = NULL;

	if (mq_file_options(path, request))
		return mq_bad(err, "%s: placement files take no options ('%s' given)", path,
			      mq_file_options(path, request));
	MQ_TRY(mq_json_load(path, false, arena, &json, err));
	mq_model_begin(&r.b, arena, mq_file_stem(path, arena));
	return read_graph(&r, json, model, err);
}

static bool probe(const char *path, const char *head, size_t size)
{
	static const char *const keys[] = { "\"maxSizePerFPGA\"",  "\"maxFPGAs\"",   "\"fpgaLatency\"",
					    "\"supportedOnFpga\"", "\"colorClass\"", NULL };

	return mq_file_has(head, keys);
}

const struct mq_format mq_format_placement = {
	.name = "placement",
	.summary = "placement data set JSON (nodes with fpgaLatency and cpuLatency)",
	.probe = probe,
	.load = load,
};
