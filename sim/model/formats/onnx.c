/* onnx.c - models in ONNX files, read with protobuf-c and the schema that libonnx-dev installs.
 *
 * Shapes are inferred here (onnx_shape.c), so files need no value_info; weights may be absent, external or replaced by
 * ConstantOfShape. A symbolic first axis of an input is the batch and counts as 1; another symbolic axis takes --seq.
 * Amounts are per sample of the batch in the file. Constant parts of the graph are folded away.
 *
 * Not read: control flow (If, Loop), quantised operators, functions, sparse initializers.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/index.h"
#include "model/formats/lib/file.h"
#include "model/formats/lib/onnx.h"
#include "onnx.pb-c.h"

enum {
	TYPE_FLOAT = 1,
	TYPE_INT32 = 6,
	TYPE_INT64 = 7,
	TYPE_BOOL = 9,
	TYPE_FLOAT16 = 10,
	TYPE_DOUBLE = 11,
	TYPE_BFLOAT16 = 16
};
enum { MAX_DEPTH = 32 };

static const size_t MAX_BYTES = (size_t)1 << 31; /* protobuf's own limit */

struct reader {
	struct mq_onnx g;
	struct mq_index *names;
	struct mq_onnx_tensor **tensor; /* by the ids of their names */
	uint32_t n_tensors, tensor_room;
	uint32_t seq;
	bool has_batch;
	uint32_t first_rank;
};

/* ---- nesting --------------------------------------------------------------------------------- */

static bool read_varint(const uint8_t **p, const uint8_t *end, uint64_t *value)
{
	*value = 0;
	for (uint32_t shift = 0; shift < 64 && *p < end; shift += 7) {
		uint8_t byte = *(*p)++;

		*value |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return true;
	}
	return false;
}

/* Is the file nested at most `depth` messages deep? The parser recurses once per level and could exhaust the stack. The
 * parser reports broken encodings. */
static bool shallow(const ProtobufCMessageDescriptor *type, const uint8_t *p, const uint8_t *end, uint32_t depth)
{
	uint64_t tag, length;

	if (!depth)
		return false;
	while (p < end && read_varint(&p, end, &tag)) {
		if ((tag & 7) == 0) {
			if (!read_varint(&p, end, &length))
				return true;
			continue;
		}
		if ((tag & 7) == 1 || (tag & 7) == 5) {
			size_t size = (tag & 7) == 1 ? 8 : 4;

			if ((size_t)(end - p) < size)
				return true;
			p += size;
			continue;
		}
		if ((tag & 7) != 2 || !read_varint(&p, end, &length) || length > (size_t)(end - p))
			return true;
		const ProtobufCFieldDescriptor *field =
			tag >> 3 <= UINT32_MAX ? protobuf_c_message_descriptor_get_field(type, (unsigned)(tag >> 3)) :
						 NULL;
		if (field && field->type == PROTOBUF_C_TYPE_MESSAGE &&
		    !shallow(field->descriptor, p, p + length, depth - 1))
			return false;
		p += length;
	}
	return true;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* NULL: no tensor has that name. */
static struct mq_onnx_tensor *find(struct reader *r, const char *name)
{
	bool known;
	uint32_t i = mq_index_put(r->names, name, strlen(name) + 1, MQ_NONE, &known);

	return i == MQ_NONE ? NULL : r->tensor[i];
}

/* A new tensor; NULL: the name is taken. */
static struct mq_onnx_tensor *add(struct reader *r, const char *name)
{
	struct mq_onnx_tensor *t;
	bool known;

	mq_index_put(r->names, name, strlen(name) + 1, r->n_tensors, &known);
	if (known)
		return NULL;
	t = mq_arena_array(r->g.arena, 1, struct mq_onnx_tensor);
	t->name = mq_arena_strdup(r->g.arena, name);
	t->producer = MQ_NONE;
	MQ_PUSH(r->g.arena, r->tensor, r->n_tensors, r->tensor_room, t);
	return t;
}

static bool is_float(int32_t type)
{
	return type == TYPE_FLOAT || type == TYPE_FLOAT16 || type == TYPE_DOUBLE || type == TYPE_BFLOAT16;
}

/* Element i of an integer tensor, from any field that holds values; false: missing. */
static bool read_integer(const Onnx__TensorProto *p, size_t i, double *value)
{
	if (p->data_type == TYPE_INT64 && p->has_raw_data) {
		int64_t v;

		if ((i + 1) * sizeof(v) > p->raw_data.len)
			return false;
		/* little-endian, as this machine is */
		memcpy(&v, p->raw_data.data + i * sizeof(v), sizeof(v));
		*value = (double)v;
	} else if (p->data_type == TYPE_INT32 && p->has_raw_data) {
		int32_t v;

		if ((i + 1) * sizeof(v) > p->raw_data.len)
			return false;
		memcpy(&v, p->raw_data.data + i * sizeof(v), sizeof(v));
		*value = v;
	} else if (p->data_type == TYPE_INT64 && i < p->n_int64_data) {
		*value = (double)p->int64_data[i];
	} else if (p->data_type == TYPE_INT32 && i < p->n_int32_data) {
		*value = p->int32_data[i];
	} else {
		return false;
	}
	return true;
}

/* Small float tensors need values too, as sizes (the scales of Resize). */
static bool read_float(const Onnx__TensorProto *p, size_t i, double *value)
{
	float v;

	if (p->data_type != TYPE_FLOAT)
		return false;
	if (i < p->n_float_data) {
		*value = (double)p->float_data[i];
		return true;
	}
	if (!p->has_raw_data || (i + 1) * sizeof(v) > p->raw_data.len)
		return false;
	memcpy(&v, p->raw_data.data + i * sizeof(v), sizeof(v));
	*value = (double)v;
	return true;
}

static enum mq_status read_tensor(struct reader *r, const Onnx__TensorProto *p, const char *what,
				  struct mq_onnx_tensor *t, struct mq_err *err)
{
	double elems = 1;

	if (p->n_dims > MQ_ONNX_RANK)
		return mq_bad(err, "%s: %s '%.80s' has %zu axes; at most %d are read", r->g.path, what, t->name,
			      p->n_dims, MQ_ONNX_RANK);
	t->rank = (uint32_t)p->n_dims;
	for (uint32_t d = 0; d < t->rank; d++) {
		t->dim[d] = (double)p->dims[d];
		elems *= t->dim[d];
		if (p->dims[d] < 0 || elems > 1e13)
			return mq_bad(err, "%s: %s '%.80s': axis %u has the size %lld; give 0 to 1e13 elements",
				      r->g.path, what, t->name, d, (long long)p->dims[d]);
	}
	t->known = t->constant = true;
	t->integer = !is_float(p->data_type);
	if (elems > MQ_ONNX_VALUES || (!t->integer && t->rank != 1))
		return MQ_OK;
	t->value = mq_arena_array(r->g.arena, (size_t)elems, double);
	t->valued = true;
	for (size_t i = 0; i < (size_t)elems && t->valued; i++)
		t->valued = t->integer ? read_integer(p, i, &t->value[i]) : read_float(p, i, &t->value[i]);
	return MQ_OK;
}

static enum mq_status read_axis(struct reader *r, const Onnx__TensorShapeProto__Dimension *p, struct mq_onnx_tensor *t,
				uint32_t d, struct mq_err *err)
{
	bool sized = p->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
	bool open = !sized || p->dim_value <= 0; /* some exporters write -1 */
	const char *name = p->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM ? p->dim_param : NULL;

	if (!open && p->dim_value <= (int64_t)1e10)
		t->dim[d] = (double)p->dim_value;
	else if (!d && open) /* the batch */
		t->dim[d] = 1;
	else if (open && r->seq)
		t->dim[d] = r->seq;
	else if (open)
		return mq_bad(err,
			      "%s: axis %u of input '%.80s'%s%.60s is left open; give --seq N, which is put there, or "
			      "export the model with fixed sizes",
			      r->g.path, d, t->name, name ? ", " : "", name ? name : "");
	else
		return mq_bad(err, "%s: axis %u of input '%.80s' has the size %lld; give 1 to 1e10", r->g.path, d,
			      t->name, (long long)p->dim_value);
	return MQ_OK;
}

static enum mq_status read_graph_input(struct reader *r, const Onnx__ValueInfoProto *p, struct mq_err *err)
{
	const char *name = p->name ? p->name : "";
	const Onnx__TypeProto__Tensor *type =
		p->type && p->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? p->type->tensor_type : NULL;

	struct mq_onnx_tensor *t = add(r, name);
	if (!t) /* old files list their initializers as inputs too */
		return MQ_OK;
	if (!type || !type->shape || type->shape->n_dim > MQ_ONNX_RANK)
		return mq_bad(err, "%s: input '%.80s' has no tensor shape of up to %d axes; export it with one",
			      r->g.path, name, MQ_ONNX_RANK);
	t->rank = (uint32_t)type->shape->n_dim;
	for (uint32_t d = 0; d < t->rank; d++)
		MQ_TRY(read_axis(r, type->shape->dim[d], t, d, err));
	t->known = true;
	t->integer = !is_float(type->elem_type);
	if (!r->has_batch && t->rank) {
		r->g.batch = t->dim[0];
		r->has_batch = true;
		r->first_rank = t->rank;
		if (t->integer && t->rank == 2)
			r->g.b.model->tokens_per_sample = t->dim[1];
	}
	return MQ_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static enum mq_status read_attribute(struct reader *r, const Onnx__AttributeProto *p, struct mq_onnx_attribute *a,
				     struct mq_err *err)
{
	a->name = mq_arena_strdup(r->g.arena, p->name ? p->name : "");
	a->number = p->has_i ? (double)p->i : p->has_f ? (double)p->f : 0;
	if (p->has_s)
		a->text = mq_arena_printf(r->g.arena, "%.*s", (int)(p->s.len & 255),
					  p->s.data ? (const char *)p->s.data : "");
	a->n = (uint32_t)(p->n_ints ? p->n_ints : p->n_floats);
	if (a->n) {
		a->list = mq_arena_array(r->g.arena, a->n, double);
		for (uint32_t i = 0; i < a->n; i++)
			a->list[i] = p->n_ints ? (double)p->ints[i] : (double)p->floats[i];
	}
	if (p->t) {
		struct mq_onnx_tensor *t = mq_arena_array(r->g.arena, 1, struct mq_onnx_tensor);

		t->name = a->name;
		MQ_TRY(read_tensor(r, p->t, "attribute", t, err));
		a->tensor = t;
	}
	return MQ_OK;
}

static enum mq_status read_node(struct reader *r, size_t index, const Onnx__NodeProto *p, struct mq_err *err)
{
	struct mq_arena *arena = r->g.arena;
	struct mq_onnx_node n = {
		.type = p->op_type ? p->op_type : "",
		.name = p->name ? p->name : "",
		.n_in = (uint32_t)p->n_input,
		.n_out = (uint32_t)p->n_output,
		.n_attributes = (uint32_t)p->n_attribute,
	};

	n.in = mq_arena_array(arena, n.n_in, struct mq_onnx_tensor *);
	n.out = mq_arena_array(arena, n.n_out, struct mq_onnx_tensor *);
	n.attribute = mq_arena_array(arena, n.n_attributes, struct mq_onnx_attribute);
	for (uint32_t i = 0; i < n.n_in; i++) {
		if (!p->input[i] || !*p->input[i])
			continue;
		n.in[i] = find(r, p->input[i]);
		if (!n.in[i] || !n.in[i]->known)
			return mq_bad(err,
				      "%s: node %zu (%.40s) uses '%.80s' before any node makes it; nodes "
				      "must be in order, without cycles",
				      r->g.path, index, n.type, p->input[i]);
	}
	for (uint32_t i = 0; i < n.n_out; i++) {
		if (!p->output[i] || !*p->output[i])
			continue;
		n.out[i] = add(r, p->output[i]);
		if (!n.out[i])
			return mq_bad(err, "%s: node %zu (%.40s) makes '%.80s' a second time; names must be unique",
				      r->g.path, index, n.type, p->output[i]);
	}
	for (uint32_t i = 0; i < n.n_attributes; i++)
		MQ_TRY(read_attribute(r, p->attribute[i], &n.attribute[i], err));
	return mq_onnx_add_node(&r->g, &n, err);
}

static enum mq_status read_graph(struct reader *r, const Onnx__GraphProto *p, struct mq_err *err)
{
	for (size_t i = 0; i < p->n_initializer; i++) {
		const char *name = p->initializer[i]->name ? p->initializer[i]->name : "";
		struct mq_onnx_tensor *t = add(r, name);

		if (!t)
			return mq_bad(err, "%s: two initializers are called '%.80s'", r->g.path, name);
		MQ_TRY(read_tensor(r, p->initializer[i], "initializer", t, err));
		t->weight = !t->integer;
	}
	for (size_t i = 0; i < p->n_input; i++)
		MQ_TRY(read_graph_input(r, p->input[i], err));
	for (size_t i = 0; i < p->n_node; i++)
		MQ_TRY(read_node(r, i, p->node[i], err));
	r->g.b.model->unit = r->first_rank == 4 ? "image" : "sample";
	r->g.b.model->image = r->first_rank == 4;
	return MQ_OK;
}

static void proto_free(Onnx__ModelProto **proto)
{
	if (*proto)
		onnx__model_proto__free_unpacked(*proto, NULL);
}

static enum mq_status load(const char *path, const struct mq_model_request *request, struct mq_arena *arena,
			   struct mq_model **model, struct mq_err *err)
{
	struct reader r = {
		.g = { .path = path, .arena = arena, .batch = 1, .train = !request->train || !request->train->infer },
		.seq = request->seq
	};
	MQ_SCOPED struct mq_arena file = MQ_ARENA_INIT;
	struct mq_bytes bytes;

	if (mq_file_options(path, request))
		return mq_bad(err, "%s: ONNX files take no options ('%s' given)", path, mq_file_options(path, request));
	MQ_TRY(mq_file_read(path, MAX_BYTES, &file, &bytes, err));
	const uint8_t *data = (const uint8_t *)bytes.data;
	if (!shallow(&onnx__model_proto__descriptor, data, data + bytes.size, MAX_DEPTH))
		return mq_bad(err, "%s: nested deeper than %d levels; no ONNX model is", path, MAX_DEPTH);
	__attribute__((cleanup(proto_free))) Onnx__ModelProto *proto =
		onnx__model_proto__unpack(NULL, bytes.size, data);
	if (!proto || !proto->graph || !proto->graph->n_node)
		return mq_bad(err, "%s: not a complete ONNX model; export it again", path);
	mq_model_begin(&r.g.b, arena, mq_file_stem(path, arena));
	r.names = mq_index_new(arena);
	MQ_TRY(read_graph(&r, proto->graph, err));
	mq_amounts_saved(r.g.b.model, r.g.traits, arena);
	return mq_model_finish(&r.g.b, model, err) == MQ_OK ? MQ_OK : mq_wrap(err, "%s", path);
}

static bool probe(const char *path, const char *head, size_t size)
{
	const char *dot = strrchr(path, '.');

	/* field 1 (ir_version), a small number, then producer name, its version or the graph */
	return (dot && !strcmp(dot, ".onnx")) || (size > 3 && head[0] == 8 && head[1] > 0 && head[1] < 32 &&
						  (head[2] == 0x12 || head[2] == 0x1a || head[2] == 0x3a));
}

const struct mq_format mq_format_onnx = {
	.name = "onnx",
	.summary = "ONNX models",
	.probe = probe,
	.load = load,
};
