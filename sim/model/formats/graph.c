/* graph.c - models in Maquette's own format, shipped or written by `maquette model MODEL --graph FILE`: see graph.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/formats/lib/graph.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "base/paths.h"
#include "model/builders/lib/layers.h"

/* clang-format off */
#define OP(field)    { #field, offsetof(struct mq_op, field) }
#define MODEL(field) { #field, offsetof(struct mq_model, field) }
const struct mq_graph_field mq_graph_flags[] = {
	OP(volume), OP(causal), OP(fused), OP(scaled), OP(rms), OP(dropout), OP(gelu), OP(gated), OP(silu), { NULL, 0 }
};
const struct mq_graph_field mq_graph_sizes[] = {
	{ "layers", offsetof(struct mq_model, n_layers) }, MODEL(hidden), MODEL(heads), MODEL(kv_heads), MODEL(head_dim),
	MODEL(ffn), MODEL(vocab), MODEL(seq), MODEL(experts), MODEL(top_k), MODEL(expert_groups), MODEL(group_limit),
	{ NULL, 0 }
};
/* clang-format on */

struct reader {
	const char *path;
	double seq;
	bool infer;
	struct mq_model_builder b;
	struct mq_index *names;
	const json_t **line; /* [n_ops] */
	const char **place;  /* [n_ops] "line 12" */
	uint32_t n_lines, line_room, n_places, place_room;
};

/* ---- shipped graphs -------------------------------------------------------------------------- */

const char **mq_graph_files(const char *name, struct mq_arena *arena)
{
	const char *dir, **files = NULL;
	uint32_t n = 0, room = 0;
	glob_t found = { 0 };
	struct mq_err none;

	if (!(name && strpbrk(name, "/[?*\\")) && mq_find_dir("platforms/models", arena, &dir, &none) == MQ_OK) {
		glob(mq_arena_printf(arena, "%s/%s.jsonl", dir, name ? name : "*"), 0, NULL, &found);
		if (name)
			glob(mq_arena_printf(arena, "%s/%s.*.jsonl", dir, name), GLOB_APPEND, NULL, &found);
		for (size_t i = 0; i < found.gl_pathc; i++)
			MQ_PUSH(arena, files, n, room, mq_arena_strdup(arena, found.gl_pathv[i]));
		globfree(&found);
	}
	MQ_PUSH(arena, files, n, room, NULL);
	return files;
}

json_t *mq_graph_head(const char *path)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t room = 0;
	json_t *head = file && getline(&line, &room, file) > 0 ? json_loads(line, 0, NULL) : NULL;

	free(line);
	if (file)
		fclose(file);
	return head;
}

bool mq_graph_option(const char **text, struct mq_arena *arena, const char **key, const char **value)
{
	size_t n = strcspn(*text, ","), k = strcspn(*text, "=,");

	if (!n)
		return false;
	*key = mq_arena_printf(arena, "%.*s", (int)k, *text);
	*value = k < n ? mq_arena_printf(arena, "%.*s", (int)(n - k - 1), *text + k + 1) : "true";
	*text += n + ((*text)[n] == ',');
	return true;
}

/* The first option that the graph lacks; NULL: it has all. */
static const char *lacks(const json_t *head, const char *options, struct mq_arena *arena)
{
	const char *key, *value;

	while (options && mq_graph_option(&options, arena, &key, &value)) {
		const json_t *own = json_object_get(json_object_get(head, "parameters"), key);
		char *end = NULL;

		if (!strcmp(key, "seq") && json_is_true(json_object_get(head, "any_seq")))
			continue;
		if (json_is_string(own) ? strcmp(json_string_value(own), value) != 0 :
					  !json_is_number(own) || strtod(value, &end) != json_number_value(own) || *end)
			return mq_arena_printf(arena, "%s=%s", key, value);
	}
	return NULL;
}

const char *mq_graph_parameters(const json_t *head, struct mq_arena *arena)
{
	const char *text = "", *key;
	json_t *value;

	json_object_foreach(json_object_get(head, "parameters"), key, value) {
		text = mq_arena_printf(arena, "%s%s%s=", text, *text ? "," : "", key);
		text = json_is_string(value) ? mq_arena_printf(arena, "%s%s", text, json_string_value(value)) :
					       mq_arena_printf(arena, "%s%.15g", text, json_number_value(value));
	}
	return json_is_true(json_object_get(head, "any_seq")) ? mq_arena_printf(arena, "%s,seq=N", text) : text;
}

/* The first parameter in which a variant differs from the main graph without being asked for; `size` covers all. */
static const char *unasked(const json_t *head, const json_t *main, const char *options, struct mq_arena *arena)
{
	const char *all = mq_arena_printf(arena, ",%s,", options), *key;
	const json_t *own = json_object_get(head, "parameters"), *usual = json_object_get(main, "parameters");
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)own, key, value)
		if (!json_equal(value, json_object_get(usual, key)) && !strstr(all, ",size=") &&
		    !strstr(all, mq_arena_printf(arena, ",%s=", key)) &&
		    !strstr(all, mq_arena_printf(arena, ",%s,", key)))
			return mq_arena_printf(arena, "%s without %s", options, key);
	return NULL;
}

enum mq_status mq_graph_find(const char *spec, uint32_t seq, struct mq_arena *arena, const char **path,
			     struct mq_err *err)
{
	const char *name = mq_arena_printf(arena, "%.*s", (int)strcspn(spec, ":"), spec), *all = "", *lack = NULL;
	const char *options = strchr(spec, ':') ? strchr(spec, ':') + 1 : "";

	const char **file = mq_graph_files(name, arena);
	json_t *main = *file ? mq_graph_head(*file) : NULL;

	*path = NULL;
	for (; *file && !*path; file++) {
		json_t *head = mq_graph_head(*file);
		double own = json_number_value(json_object_get(head, "seq"));
		bool other = seq && own > 0 && own != seq && !json_is_true(json_object_get(head, "any_seq"));

		lack = other ? mq_arena_printf(arena, "seq=%u", seq) : lacks(head, options, arena);
		if (!lack)
			lack = unasked(head, main, options, arena);
		all = mq_arena_printf(arena, "%s%s%s", all, *all ? " or " : "", mq_graph_parameters(head, arena));
		json_decref(head);
		*path = lack ? NULL : *file;
	}
	json_decref(main);
	if (lack)
		return mq_bad(err, "model '%s': there is no graph for %s; give %s, or another graph or ONNX file", name,
			      lack, all);
	return MQ_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static enum mq_status wrong(const struct mq_json_at *at, const char *key, const char *remedy, struct mq_err *err)
{
	return mq_bad(err, "%s: %s: \"%s\" %s", at->path, at->place, key, remedy);
}

static enum mq_status amount(const struct reader *r, const struct mq_json_at *at, const char *key, double *value,
			     struct mq_err *err)
{
	const struct mq_json_range range = { .max = 1e30 };
	const json_t *v = json_object_get(at->object, key);

	if (!json_is_array(v))
		return mq_json_number(at, key, &range, value, err);
	*value = 0;
	for (size_t i = json_array_size(v); i-- > 0;) {
		if (i > 2 || !json_is_number(json_array_get(v, i)))
			return wrong(at, key, "is no list of three numbers; give [a,b,c] for a + b seq + c seq^2", err);
		*value = *value * r->seq + json_number_value(json_array_get(v, i));
	}
	if (!(*value >= 0 && *value <= range.max))
		return wrong(at, key, "is negative or huge at this sequence length; give amounts from 0 to 1e30", err);
	return MQ_OK;
}

/* The op named by a key; MQ_NONE: the key is absent. */
static enum mq_status op_named(const struct reader *r, const struct mq_json_at *at, const char *key, uint32_t *op,
			       struct mq_err *err)
{
	const char *name;
	bool known;

	MQ_TRY(mq_json_text(at, key, &name, err));
	if (!name)
		return MQ_OK;
	*op = mq_index_put(r->names, name, strlen(name) + 1, MQ_NONE, &known);
	return known && *op != MQ_NONE ? MQ_OK : wrong(at, key, "names no op of the graph", err);
}

static enum mq_status read_inputs(struct reader *r, const struct mq_json_at *at, uint32_t op, struct mq_err *err)
{
	const json_t *inputs = json_object_get(at->object, "inputs"), *in;
	struct mq_model *m = r->b.model;
	size_t i;

	json_array_foreach(inputs, i, in) {
		json_auto_t *named =
			json_is_string(in) ? json_pack("{s:O}", "from", in) : json_copy((json_t *)(uintptr_t)in);
		const struct mq_json_at from = { at->path, at->place, named };
		uint32_t src = MQ_NONE;
		bool no_grad = false;

		MQ_TRY(op_named(r, &from, "from", &src, err));
		if (src == MQ_NONE)
			return wrong(at, "inputs", "has an entry without \"from\"; give names of ops", err);
		double elems = m->op[src].output;
		MQ_TRY(amount(r, &from, "elems", &elems, err));
		MQ_TRY(mq_json_bool(&from, "no_grad", &no_grad, err));
		mq_model_connect(&r->b, src, op, elems);
		m->edge[m->n_edges - 1].no_grad = no_grad;
	}
	return MQ_OK;
}

static enum mq_status read_extents(struct reader *r, const struct mq_json_at *at, struct mq_op *op, struct mq_err *err)
{
	const struct mq_json_at extents = { at->path, at->place, json_object_get(at->object, "extent") };
	const json_t *whole = json_object_get(at->object, "whole"), *name;
	size_t i;

	for (int d = MQ_DIM_BATCH + 1; d < MQ_N_DIMS; d++) {
		if (!json_object_get(extents.object, mq_dim_name(d)))
			continue;
		MQ_TRY(amount(r, &extents, mq_dim_name(d), &op->extent[d], err));
		op->splits |= op->extent[d] > 0 ? 1u << d : 0;
		json_array_foreach(whole, i, name)
			if (json_is_string(name) && !strcmp(json_string_value(name), mq_dim_name(d)))
				op->splits &= ~(1u << d);
	}
	return MQ_OK;
}

static enum mq_status read_pixels(const struct mq_json_at *at, struct mq_conv_image *image, struct mq_err *err)
{
	const json_t *list = json_object_get(at->object, "pixels");
	double v[8] = { 0 };

	if (!list)
		return MQ_OK;
	for (size_t i = 0; i < 8; i++) {
		v[i] = json_number_value(json_array_get(list, i));
		if (!(v[i] >= 1 && v[i] <= (i < 4 ? UINT16_MAX : UINT8_MAX)))
			return wrong(at, "pixels",
				     "is no list of 8 sizes; give [h,w,out_h,out_w,kh,kw,stride_h,stride_w]", err);
	}
	*image = (struct mq_conv_image){ (uint16_t)v[0], (uint16_t)v[1], (uint16_t)v[2], (uint16_t)v[3],
					 (uint8_t)v[4],  (uint8_t)v[5],  (uint8_t)v[6],  (uint8_t)v[7] };
	return MQ_OK;
}

static enum mq_status read_amounts(struct reader *r, uint32_t id, struct mq_err *err)
{
	const struct mq_json_at at = { r->path, r->place[id], r->line[id] };
	struct mq_op *op = &r->b.model->op[id];
	uint32_t like = MQ_NONE;

	MQ_TRY(op_named(r, &at, "like", &like, err));
	if (like != MQ_NONE && like >= id)
		return wrong(&at, "like", "names an op that does not stand before", err);
	if (like != MQ_NONE) {
		const struct mq_op own = *op;

		*op = r->b.model->op[like];
		op->name = own.name;
		op->kind = own.kind;
		op->layer = op->color = op->tied = op->mate = MQ_NONE;
	}
	for (const struct mq_op_amount *a = mq_op_amounts; a->name; a++)
		MQ_TRY(amount(r, &at, a->name, (double *)((char *)op + a->offset), err));
	for (const struct mq_graph_field *f = mq_graph_flags; f->name; f++)
		MQ_TRY(mq_json_bool(&at, f->name, (bool *)((char *)op + f->offset), err));
	MQ_TRY(read_extents(r, &at, op, err));
	MQ_TRY(read_pixels(&at, &op->image, err));
	MQ_TRY(mq_json_u32(&at, "layer", 0, 1e9, &op->layer, err));
	MQ_TRY(mq_json_u32(&at, "color", 0, 1e9, &op->color, err));
	MQ_TRY(op_named(r, &at, "tied", &op->tied, err));
	MQ_TRY(op_named(r, &at, "mate", &op->mate, err));
	if (json_is_true(json_object_get(at.object, "backward")))
		op->phase = MQ_BACKWARD;
	if (json_is_true(json_object_get(at.object, "frozen")))
		op->frozen = MQ_FROZEN_AS_DTYPE;
	return MQ_OK;
}

/* Adds the op of a line, without its amounts; skips ops of the other mode. */
static enum mq_status add_op(struct reader *r, const struct mq_json_at *at, struct mq_err *err)
{
	const char *name, *kind, *mode;
	int k = 0;
	bool known;

	MQ_TRY(mq_json_text(at, "name", &name, err));
	MQ_TRY(mq_json_text(at, "kind", &kind, err));
	MQ_TRY(mq_json_text(at, "mode", &mode, err));
	if (mode && strcmp(mode, "train") && strcmp(mode, "infer"))
		return wrong(at, "mode", "is neither train nor infer", err);
	if (mode && r->infer != !strcmp(mode, "infer"))
		return MQ_OK;
	while (kind && k < MQ_OP_PROFILED && strcmp(kind, mq_op_kind_name(k)))
		k++;
	if (!name || !kind || k == MQ_OP_PROFILED)
		return wrong(at, name ? "kind" : "name", "is missing or not known; give name and kind of an op", err);
	uint32_t id = mq_model_add(&r->b, k, name);
	mq_index_put(r->names, name, strlen(name) + 1, id, &known);
	if (known)
		return wrong(at, "name", "stands for two ops; give each its own", err);
	MQ_PUSH(r->b.arena, r->line, r->n_lines, r->line_room, at->object);
	MQ_PUSH(r->b.arena, r->place, r->n_places, r->place_room, at->place);
	return MQ_OK;
}

static enum mq_status read_head(struct reader *r, const struct mq_json_at *at, const struct mq_model_request *request,
				const char *options, struct mq_err *err)
{
	struct mq_model *m = r->b.model;
	const char *unit, *lack = lacks(at->object, options, r->b.arena),
			  *seq = options ? strstr(options, "seq=") : NULL;
	uint32_t asked = request->seq ? request->seq : seq ? (uint32_t)strtoul(seq + 4, NULL, 10) : 0;
	bool any_seq = false;

	if (lack)
		return mq_bad(err, "%s: the graph was not made for %s; its parameters are: %s", r->path, lack,
			      mq_graph_parameters(at->object, r->b.arena));
	MQ_TRY(mq_json_text(at, "unit", &unit, err));
	if (unit)
		m->unit = mq_arena_strdup(r->b.arena, unit);
	for (const struct mq_graph_field *f = mq_graph_sizes; f->name; f++)
		MQ_TRY(mq_json_u32(at, f->name, 0, 1e9, (uint32_t *)((char *)m + f->offset), err));
	MQ_TRY(mq_json_bool(at, "any_seq", &any_seq, err));
	if (asked && m->seq && asked != m->seq && !any_seq)
		return mq_bad(err, "%s: the graph has sequences of %u tokens; write another for --seq %u", r->path,
			      m->seq, asked);
	if (asked && m->seq)
		m->seq = asked;
	r->seq = m->seq;
	MQ_TRY(amount(r, at, "tokens_per_sample", &m->tokens_per_sample, err));
	MQ_TRY(mq_json_bool(at, "tied_embeddings", &m->tied_embeddings, err));
	return mq_json_bool(at, "image", &m->image, err);
}

/* `lines` holds a JSON object for each line of the file. */
static enum mq_status read_lines(struct reader *r, const json_t *lines, const struct mq_model_request *request,
				 const char *options, struct mq_err *err)
{
	const struct mq_json_at head = { r->path, "line 1", json_array_get(lines, 0) };

	MQ_TRY(read_head(r, &head, request, options, err));
	for (size_t i = 1; i < json_array_size(lines); i++) {
		const char *place = mq_arena_printf(r->b.arena, "line %zu", i + 1);

		MQ_TRY(add_op(r, &(struct mq_json_at){ r->path, place, json_array_get(lines, i) }, err));
	}
	for (uint32_t i = 0; i < r->n_lines; i++)
		MQ_TRY(read_amounts(r, i, err));
	for (uint32_t i = 0; i < r->n_lines; i++)
		MQ_TRY(read_inputs(r, &(struct mq_json_at){ r->path, r->place[i], r->line[i] }, i, err));
	return MQ_OK;
}

static enum mq_status parse(const char *path, struct mq_arena *arena, json_t *lines, struct mq_err *err)
{
	struct mq_bytes bytes;
	json_error_t e;

	MQ_TRY(mq_file_read(path, (size_t)1 << 28, arena, &bytes, err));
	for (char *line = bytes.data, *end; *line; line = end + (*end == '\n')) {
		end = line + strcspn(line, "\n");
		json_t *object = json_loadb(line, (size_t)(end - line), 0, &e);

		if (!json_is_object(object)) {
			json_decref(object);
			return mq_bad(err, "%s:%zu: %s; each line must be a whole JSON object", path,
				      json_array_size(lines) + 1, object ? "no object" : e.text);
		}
		json_array_append_new(lines, object);
	}
	return MQ_OK;
}

static enum mq_status load(const char *path, const struct mq_model_request *request, struct mq_arena *arena,
			   struct mq_model **model, struct mq_err *err)
{
	bool shipped = strncmp(request->spec, path, strlen(path)) != 0;
	const char *colon = strchr(request->spec, ':');
	struct reader r = { .path = path, .infer = request->train && request->train->infer };
	MQ_SCOPED struct mq_arena file = MQ_ARENA_INIT;
	json_auto_t *lines = json_array();
	const char *options = !shipped ? mq_file_options(path, request) : colon ? colon + 1 : NULL;

	MQ_TRY(parse(path, &file, lines, err));
	r.names = mq_index_new(&file);
	mq_model_begin(&r.b, arena, shipped ? request->spec : mq_file_stem(path, arena));
	MQ_TRY(read_lines(&r, lines, request, options, err));
	for (uint32_t i = 0; i < r.b.model->n_ops; i++) {
		struct mq_op *op = &r.b.model->op[i];

		if (op->kind == MQ_OP_ATTENTION && op->fused && !mq_model_fuses(request, true))
			mq_op_store_scores(op);
	}
	return mq_model_finish(&r.b, model, err) == MQ_OK ? MQ_OK : mq_wrap(err, "%s", path);
}

static bool probe(const char *path, const char *head, size_t size)
{
	return *head == '{' && strstr(head, "\"maquette-graph\"");
}

const struct mq_format mq_format_graph = {
	.name = "graph",
	.summary = "graph of ops in JSON lines, as `maquette model MODEL --graph FILE` writes it",
	.probe = probe,
	.load = load,
};
