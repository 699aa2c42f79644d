/* graph.h - Maquette's own format of models: JSON lines, the first of which describes the model, each other an op.
 *
 * {"format":"maquette-graph","summary":"...","unit":"image","parameters":{"image":300},"layers":16}
 * {"name":"stem","kind":"conv","inputs":["images"],"m":22500,"n":64,"k":147,...}
 *
 * Keys are the fields of struct mq_model and struct mq_op; what is zero is left out. An input is the name of an op that
 * stands before, or {"from":...,"elems":...,"no_grad":true} where the tensor is not its whole output. An amount is a
 * number, or [a,b,c] for a + b seq + c seq^2. An op with "mode":"train" or "infer" is part of that mode alone.
 * "frozen":true says that an op's parameters are not trained; its amounts of the backward pass are what is left of it.
 * "like" names an op before it that has the same fields, but for name, inputs, layer, color, tied and mate.
 * "extent" has the sizes along which an op may be split; those in "whole" may not.
 * Shipped graphs are platforms/models/NAME.jsonl; what other "parameters" make stands in NAME.VARIANT.jsonl.
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

/* Finds the shipped file that has the options of NAME[:key=value,...] and `seq` (0 = any); *path is NULL where no file
 * has that name. MQ_EINPUT: there is no graph for these options. */
enum mq_status mq_graph_find(const char *spec, uint32_t seq, struct mq_arena *arena, const char **path,
			     struct mq_err *err);
/* The shipped files of a model (NULL: of all), NULL-terminated. */
const char **mq_graph_files(const char *name, struct mq_arena *arena);
/* The first line of a file; NULL: it is no graph. The caller gives the reference back. */
json_t *mq_graph_head(const char *path);
/* Takes "key=value" off the front of "key=value,..."; false at the end. A bare key is true. */
bool mq_graph_option(const char **text, struct mq_arena *arena, const char **key, const char **value);
/* Its "parameters" as "key=value,...". */
const char *mq_graph_parameters(const json_t *head, struct mq_arena *arena);

#endif
