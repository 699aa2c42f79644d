/* json.h - JSON with errors that name file, place, value and remedy.
 *
 * A place is text like "nodes[3]"; values of the wrong type or out of range are MQ_EINPUT.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMATS_LIB_JSON_H
#define MQ_MODEL_FORMATS_LIB_JSON_H

#include <jansson.h>

#include "model/formats/lib/file.h"

/* Where a value is looked for. */
struct mq_json_at {
	const char *path;  /* file, for messages */
	const char *place; /* of `object` in the file; "" = the top */
	const json_t *object;
};

/* Reads a file whose top is an object; the caller gives the reference back with json_decref. `python`: Infinity is the
 * largest number, and NaN a text that no number's place takes; otherwise they are errors. */
enum mq_status mq_json_load(const char *path, bool python, struct mq_arena *arena, json_t **json, struct mq_err *err);

/* A number in [min, max]; a key that is absent (or null) leaves *value as it is, unless it is
 * `required`. Booleans count as 0 and 1. */
struct mq_json_range {
	double min, max;
	bool whole, required;
};
enum mq_status mq_json_number(const struct mq_json_at *at, const char *key, const struct mq_json_range *range,
			      double *value, struct mq_err *err);
enum mq_status mq_json_u32(const struct mq_json_at *at, const char *key, double min, double max, uint32_t *value,
			   struct mq_err *err);
enum mq_status mq_json_bool(const struct mq_json_at *at, const char *key, bool *value, struct mq_err *err);
/* A text, borrowed from the JSON value; NULL where the key is absent (or null). */
enum mq_status mq_json_text(const struct mq_json_at *at, const char *key, const char **value, struct mq_err *err);

#endif
