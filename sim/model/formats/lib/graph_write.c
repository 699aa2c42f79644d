/* graph_write.c - writes a model as a graph, see graph.h.
 *
 * The model is built for both modes; ops that are equal in both are written once. A model with sequences is built at
 * one, two, three and five times their length: the first three give each amount's polynomial in the length. If the
 * fourth does not fit it in some amount, the graph is for the one length alone. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "model/formats/lib/graph.h"

enum { LENGTHS = 4 };

/* A model in one mode at all lengths; if `any_seq` is false, at the first alone. */
struct family {
	struct mq_model *m[LENGTHS];
	bool any_seq;
	struct mq_index *seen; /* ops by the fields that "like" covers */
};

static json_t *number(double x)
{
	return x == floor(x) && fabs(x) < 9e15 ? json_integer((json_int_t)x) : json_real(x);
}

/* A coefficient without rounding errors where it should be zero. */
static double clean(double coefficient, double scale, double amount)
{
	return fabs(coefficient * scale) < 1e-12 * fabs(amount) ? 0 : coefficient;
}

static json_t *amount(struct family *f, const double v[LENGTHS])
{
	double s = f->m[0]->seq;

	if (!f->any_seq || (v[0] == v[1] && v[1] == v[2] && v[2] == v[3]))
		return number(v[0]);
	double c = clean((v[2] - 2 * v[1] + v[0]) / (2 * s * s), s * s, v[2]);
	double b = clean((v[1] - v[0]) / s - 3 * s * c, s, v[1]);
	double a = clean(v[0] - s * (b + s * c), 1, v[0]);
	if (!(fabs(a + 5 * s * (b + 5 * s * c) - v[3]) <= 1e-11 * v[3]))
		f->any_seq = false;
	return json_pack("[o,o,o]", number(a), number(b), number(c));
}

/* Puts the amount at an offset of struct mq_op, from all lengths, unless it is zero. */
static void put(struct family *f, json_t *to, const char *key, uint32_t op, size_t offset)
{
	double v[LENGTHS];

	for (int i = 0; i < LENGTHS; i++)
		v[i] = *(const double *)((const char *)&f->m[i]->op[op] + offset);
	if (v[0] > 0 || v[1] > 0)
		json_object_set_new(to, key, amount(f, v));
}

static json_t *inputs(struct family *f, uint32_t op)
{
	const struct mq_model *m = f->m[0];
	json_t *list = json_array();

	MQ_EACH_IN(m, op, e) {
		double elems[LENGTHS];
		bool whole = true;

		for (int k = 0; k < LENGTHS; k++) {
			elems[k] = f->m[k]->edge[e - m->edge].elems;
			whole = whole && elems[k] == f->m[k]->op[e->src].output;
		}
		json_t *from = json_pack("{s:s}", "from", m->op[e->src].name);
		if (!whole)
			json_object_set_new(from, "elems", amount(f, elems));
		if (e->no_grad)
			json_object_set_new(from, "no_grad", json_true());
		json_array_append_new(list, whole && !e->no_grad ? json_string(m->op[e->src].name) : json_incref(from));
		json_decref(from);
	}
	return list;
}

static void put_extents(struct family *f, json_t *to, uint32_t op)
{
	json_auto_t *extent = json_object(), *whole = json_array();

	for (int d = MQ_DIM_BATCH + 1; d < MQ_N_DIMS; d++) {
		put(f, extent, mq_dim_name(d), op, offsetof(struct mq_op, extent) + (size_t)d * sizeof(double));
		if (f->m[0]->op[op].extent[d] > 0 && !(f->m[0]->op[op].splits >> d & 1))
			json_array_append_new(whole, json_string(mq_dim_name(d)));
	}
	if (json_object_size(extent))
		json_object_set(to, "extent", extent);
	if (json_array_size(whole))
		json_object_set(to, "whole", whole);
}

/* The fields that an op shares with those that name it by "like". */
static json_t *common_object(struct family *f, uint32_t id)
{
	const struct mq_op *op = &f->m[0]->op[id];
	const struct mq_conv_image *i = &op->image;
	json_t *o = json_object();

	for (const struct mq_op_amount *a = mq_op_amounts; a->name; a++)
		put(f, o, a->name, id, a->offset);
	for (const struct mq_graph_field *g = mq_graph_flags; g->name; g++)
		if (*(const bool *)((const char *)op + g->offset))
			json_object_set_new(o, g->name, json_true());
	put_extents(f, o, id);
	if (i->h)
		json_object_set_new(o, "pixels",
				    json_pack("[i,i,i,i,i,i,i,i]", i->h, i->w, i->out_h, i->out_w, i->kh, i->kw,
					      i->stride_h, i->stride_w));
	if (op->phase == MQ_BACKWARD)
		json_object_set_new(o, "backward", json_true());
	if (op->frozen != MQ_TRAINED)
		json_object_set_new(o, "frozen", json_true());
	return o;
}

static json_t *op_object(struct family *f, uint32_t id)
{
	const struct mq_model *m = f->m[0];
	const struct mq_op *op = &m->op[id];
	json_t *o = json_pack("{s:s,s:s}", "name", op->name, "kind", mq_op_kind_name(op->kind));
	json_t *common = common_object(f, id);
	char *text = json_dumps(common, JSON_COMPACT);
	bool found;
	uint32_t like = mq_index_put(f->seen, text, strlen(text), id, &found);

	if (m->in_first[id] < m->in_first[id + 1])
		json_object_set_new(o, "inputs", inputs(f, id));
	if (found)
		json_object_set_new(o, "like", json_string(m->op[like].name));
	else
		json_object_update(o, common);
	json_decref(common);
	free(text);
	if (op->layer != MQ_NONE)
		json_object_set_new(o, "layer", json_integer(op->layer));
	if (op->color != MQ_NONE)
		json_object_set_new(o, "color", json_integer(op->color));
	if (op->tied != MQ_NONE)
		json_object_set_new(o, "tied", json_string(m->op[op->tied].name));
	if (op->mate != MQ_NONE)
		json_object_set_new(o, "mate", json_string(m->op[op->mate].name));
	return o;
}

static json_t *head_object(struct family *f, const struct mq_model_request *request, struct mq_arena *arena)
{
	const struct mq_model *m = f->m[0];
	const char *options = strchr(request->spec, ':'), *key, *value;
	json_t *o = json_pack("{s:s,s:s,s:s}", "format", "maquette-graph", "summary", m->name, "unit", m->unit);
	json_t *parameters = json_object();
	double tokens[LENGTHS];

	for (options = options ? options + 1 : ""; mq_graph_option(&options, arena, &key, &value);) {
		char *end;
		double x = strtod(value, &end);

		json_object_set_new(parameters, key, *end ? json_string(value) : number(x));
	}
	json_object_set_new(o, "parameters", parameters);
	for (const struct mq_graph_field *g = mq_graph_sizes; g->name; g++)
		if (*(const uint32_t *)((const char *)m + g->offset))
			json_object_set_new(o, g->name, json_integer(*(const uint32_t *)((const char *)m + g->offset)));
	for (int i = 0; i < LENGTHS; i++)
		tokens[i] = f->m[i]->tokens_per_sample;
	if (m->tokens_per_sample > 0)
		json_object_set_new(o, "tokens_per_sample", amount(f, tokens));
	if (m->tied_embeddings)
		json_object_set_new(o, "tied_embeddings", json_true());
	if (m->image)
		json_object_set_new(o, "image", json_true());
	return o;
}

static bool alike(const struct mq_model *a, const struct mq_model *b)
{
	if (a->n_ops != b->n_ops || a->n_edges != b->n_edges)
		return false;
	for (uint32_t i = 0; i < a->n_ops; i++)
		if (strcmp(a->op[i].name, b->op[i].name))
			return false;
	for (uint32_t i = 0; i < a->n_edges; i++)
		if (a->edge[i].src != b->edge[i].src || a->edge[i].dst != b->edge[i].dst)
			return false;
	return true;
}

static enum mq_status load(struct family *f, const struct mq_model_request *request, bool infer, struct mq_arena *arena,
			   struct mq_err *err)
{
	static const uint32_t times[LENGTHS] = { 1, 2, 3, 5 };
	struct mq_train train = request->train ? *request->train : (struct mq_train){ .batch = 1 };
	struct mq_model_request ask = *request;
	struct mq_err none;

	train.infer = infer;
	ask.train = &train;
	MQ_TRY(mq_model_load(&ask, arena, &f->m[0], err));
	if (f->m[0]->profile.n_types)
		return mq_bad(err, "model '%s' has measured times; a graph has amounts, so keep its file as it is",
			      f->m[0]->name);
	f->any_seq = f->m[0]->seq > 0;
	for (int i = 1; i < LENGTHS && f->any_seq; i++) {
		ask.seq = times[i] * f->m[0]->seq;
		f->any_seq = mq_model_load(&ask, arena, &f->m[i], &none) == MQ_OK && f->m[i]->seq == ask.seq &&
			     alike(f->m[0], f->m[i]);
	}
	return MQ_OK;
}

static void append(json_t *lines, json_t *op, const char *mode)
{
	if (mode)
		json_object_set_new(op, "mode", json_string(mode));
	json_array_append_new(lines, op);
}

/* Ops in training order; inference-only ops come last. */
static json_t *lines_of(struct family *train, struct family *infer, const struct mq_model_request *request,
			struct mq_arena *arena)
{
	json_t *lines = json_array(), *head = head_object(train, request, arena), *left = json_object(), *op;
	const char *name;

	train->seen = mq_index_new(arena);
	infer->seen = mq_index_new(arena);
	json_array_append_new(lines, head);
	for (uint32_t i = 0; i < infer->m[0]->n_ops; i++)
		json_object_set_new(left, infer->m[0]->op[i].name, op_object(infer, i));
	for (uint32_t i = 0; i < train->m[0]->n_ops; i++) {
		json_t *own = op_object(train, i);

		name = train->m[0]->op[i].name;
		op = json_incref(json_object_get(left, name));
		if (op && json_equal(op, own)) {
			append(lines, own, NULL);
			json_decref(op);
		} else {
			append(lines, own, "train");
			if (op)
				append(lines, op, "infer");
		}
		json_object_del(left, name);
	}
	json_object_foreach(left, name, op)
		append(lines, json_incref(op), "infer");
	json_decref(left);
	if (train->any_seq && infer->any_seq)
		json_object_set_new(head, "any_seq", json_true());
	return lines;
}

static enum mq_status write_lines(const json_t *lines, const char *path, struct mq_err *err)
{
	FILE *file = fopen(path, "w");
	const json_t *line;
	size_t i;
	bool failed = !file;

	json_array_foreach(lines, i, line)
		if (!failed) {
			failed = json_dumpf(line, file, JSON_COMPACT | JSON_REAL_PRECISION(17)) != 0;
			fputc('\n', file);
		}
	if (file && fclose(file))
		failed = true;
	return failed ? mq_bad(err, "cannot write '%s'; check folder and disk", path) : MQ_OK;
}

enum mq_status mq_graph_write(const struct mq_model_request *request, const char *path, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct family train, infer;
	json_auto_t *lines = NULL;
	enum mq_status status = load(&train, request, false, &arena, err);

	if (status == MQ_OK)
		status = load(&infer, request, true, &arena, err);
	for (bool again = status == MQ_OK; again;) { /* writing may find an amount that is no polynomial */
		bool any = train.any_seq && infer.any_seq;

		for (int i = 1; i < LENGTHS && !any; i++)
			train.m[i] = train.m[0], infer.m[i] = infer.m[0];
		train.any_seq = infer.any_seq = any;
		json_decref(lines);
		lines = lines_of(&train, &infer, request, &arena);
		again = any && !(train.any_seq && infer.any_seq);
	}
	return status == MQ_OK ? write_lines(lines, path, err) : status;
}
