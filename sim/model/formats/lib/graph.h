/* graph.h - Maquette's own model format: JSON lines, the first for the model, one more for each op.
 *
 * {"format":"maquette-graph","summary":"...","unit":"image","parameters":{"image":300},"layers":16}
 * {"name":"stem","kind":"conv","inputs":["images"],"m":22500,"n":64,"k":147,...}
 *
 * Keys are the fields of struct mq_model and struct mq_op; zeros are left out. An input is the name of an earlier op,
 * or {"from":...,"elems":...,"no_grad":true} for a part of its output. An amount is a number, or [a,b,c] for a + b seq
 * + c seq^2. An op with "mode":"train" or "infer" belongs to that mode alone. "frozen":true: the op's parameters are
 * not trained, its backward amounts are those that remain. "like" names an earlier op with the same fields, except
 * name, inputs, layer, color, tied and mate. "extent" has the sizes along which an op may be split; those in "whole"
 * may not. Shipped graphs are platforms/models/NAME.jsonl; NAME.VARIANT.jsonl holds the graph of other "parameters".
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMATS_LIB_GRAPH_H
#define MQ_MODEL_FORMATS_LIB_GRAPH_H

#include "model/formats/lib/json.h"

/* Fields by their keys; the last has no name. */
struct mq_graph_field {
	const char *name;
	size_t offset;
};
extern const struct mq_graph_field mq_graph_flags[]; /* bool, of struct mq_op */
extern const struct mq_graph_field mq_graph_sizes[]; /* uint32_t, of struct mq_model */

/* Finds the shipped file with the options of NAME[:key=value,...] and `seq` (0 = any); *path is NULL if no file has
 * that name. MQ_EINPUT: no graph has these options. */
enum mq_status mq_graph_find(const char *spec, uint32_t seq, struct mq_arena *arena, const char **path,
			     struct mq_err *err);
/* The shipped files of a model (NULL: of all models), NULL-terminated. */
const char **mq_graph_files(const char *name, struct mq_arena *arena);
/* The first line of a file; NULL: no graph. The caller releases the reference. */
json_t *mq_graph_head(const char *path);
/* Splits the first "key=value" off "key=value,..."; false at the end. A key without value is true. */
bool mq_graph_option(const char **text, struct mq_arena *arena, const char **key, const char **value);
/* The "parameters" of a graph as "key=value,...". */
const char *mq_graph_parameters(const json_t *head, struct mq_arena *arena);

#endif
