/* onnx.h - an ONNX graph without protobuf: tensors with inferred shapes, nodes, attributes.
 *
 * onnx.c reads the file into them, node by node in file order. onnx_shape.c and onnx_window.c infer the shapes of a
 * node's outputs, and the values of small integer tensors, from which exporters compute shapes. onnx_ops.c has the
 * table of operators and adds the model's ops. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMATS_LIB_ONNX_H
#define MQ_MODEL_FORMATS_LIB_ONNX_H

#include "model/builders/lib/image.h"

enum { MQ_ONNX_RANK = 8, MQ_ONNX_VALUES = 1024 };

struct mq_onnx_tensor {
	const char *name;
	bool known;                    /* has a shape */
	bool constant;                 /* does not depend on the graph's inputs */
	bool weight;                   /* floating-point constant from an initializer: a parameter */
	bool counted;                  /* as a parameter of an op already */
	struct mq_onnx_tensor *origin; /* the weight of which this is a view; NULL = none */
	bool grad;                     /* a gradient flows through it */
	bool integer;
	uint32_t rank;
	double dim[MQ_ONNX_RANK];
	bool valued; /* `value` holds all elements: integers, at most MQ_ONNX_VALUES */
	double *value;
	uint32_t producer; /* op of the model, or MQ_NONE */
};

struct mq_onnx_attribute {
	const char *name;
	double number;    /* of an integer or float */
	const char *text; /* of a string */
	uint32_t n;
	double *list; /* [n] of integers */
	const struct mq_onnx_tensor *tensor;
};

struct mq_onnx_node {
	const char *type, *name;
	uint32_t n_in, n_out, n_attributes;
	struct mq_onnx_tensor **in, **out; /* NULL where an optional one is absent */
	struct mq_onnx_attribute *attribute;
};

struct mq_onnx {
	const char *path;
	struct mq_arena *arena;
	struct mq_model_builder b;
	double batch; /* samples in the shapes */
	bool train;
	uint8_t *traits; /* [model->n_ops] */
	uint32_t n_traits, traits_room;
};

/* ---- shapes ---------------------------------------------------------------------------------- */

/* The caller checks that the mandatory inputs, with their minimum ranks, and the first output are present. */
typedef enum mq_status mq_onnx_infer(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err);
mq_onnx_infer mq_onnx_same, mq_onnx_broadcast, mq_onnx_conv, mq_onnx_pool, mq_onnx_global_pool, mq_onnx_gemm,
	mq_onnx_matmul, mq_onnx_concat, mq_onnx_reshape, mq_onnx_flatten, mq_onnx_transpose, mq_onnx_squeeze,
	mq_onnx_unsqueeze, mq_onnx_reduce, mq_onnx_gather, mq_onnx_split, mq_onnx_slice, mq_onnx_pad, mq_onnx_shape,
	mq_onnx_constant, mq_onnx_fill, mq_onnx_expand, mq_onnx_resize, mq_onnx_recurrent, mq_onnx_conv_transpose,
	mq_onnx_range, mq_onnx_tile, mq_onnx_blocks;

double mq_onnx_elems(const struct mq_onnx_tensor *t);
/* Sets the shape of one tensor, or of every output of a node; MQ_EINPUT: an impossible shape. */
enum mq_status mq_onnx_set(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_onnx_tensor *t,
			   const struct mq_onnx_tensor *shape, struct mq_err *err);
enum mq_status mq_onnx_set_all(struct mq_onnx *g, const struct mq_onnx_node *node, const struct mq_onnx_tensor *shape,
			       struct mq_err *err);

/* Numbers of an attribute or, in later opsets, of a constant input. */
struct mq_onnx_list {
	uint32_t n;
	const double *v;
	bool given;
};
struct mq_onnx_list mq_onnx_list(const struct mq_onnx_node *node, const char *name, uint32_t input);
double mq_onnx_entry(const struct mq_onnx_list *list, uint32_t i, double otherwise);
/* MQ_EINPUT with file, node and the message. */
enum mq_status mq_onnx_fail(const struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err,
			    const char *format, ...) __attribute__((format(printf, 4, 5)));
const struct mq_onnx_attribute *mq_onnx_attribute(const struct mq_onnx_node *node, const char *name);
double mq_onnx_number(const struct mq_onnx_node *node, const char *name, double otherwise);
/* Input i: present, with a shape of at least `rank` axes. */
enum mq_status mq_onnx_input(const struct mq_onnx *g, const struct mq_onnx_node *node, uint32_t i, uint32_t rank,
			     struct mq_err *err);

/* ---- operators ------------------------------------------------------------------------------- */

/* Infers a node's outputs and adds its op, unless all of it is constant. */
enum mq_status mq_onnx_add_node(struct mq_onnx *g, const struct mq_onnx_node *node, struct mq_err *err);

#endif
