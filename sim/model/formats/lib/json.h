/* json.h - reads JSON values, with errors that name file, place, value and remedy.
 *
 * A place is text like "nodes[3]"; values of the wrong type or out of range are MQ_EINPUT.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMATS_LIB_JSON_H
#define MQ_MODEL_FORMATS_LIB_JSON_H

#include <jansson.h>

#include "model/formats/lib/file.h"

/* An object of a file, to look values up in. */
struct mq_json_at {
	const char *path;  /* file, for messages */
	const char *place; /* place of `object` in the file; "" = the top */
	const json_t *object;
};

/* Reads a file whose top is an object; the caller releases it with json_decref. python: Infinity is read as the largest
 * number and NaN as a text, which no number accepts; otherwise they are errors. */
enum mq_status mq_json_load(const char *path, bool python, struct mq_arena *arena, json_t **json, struct mq_err *err);

/* A number in [min, max]; an absent or null key leaves *value unchanged, unless `required`. Booleans are 0 and 1. */
struct mq_json_range {
	double min, max;
	bool whole, required;
};
enum mq_status mq_json_number(const struct mq_json_at *at, const char *key, const struct mq_json_range *range,
			      double *value, struct mq_err *err);
enum mq_status mq_json_u32(const struct mq_json_at *at, const char *key, double min, double max, uint32_t *value,
			   struct mq_err *err);
enum mq_status mq_json_bool(const struct mq_json_at *at, const char *key, bool *value, struct mq_err *err);
/* A text, borrowed from the JSON value; NULL if the key is absent or null. */
enum mq_status mq_json_text(const struct mq_json_at *at, const char *key, const char **value, struct mq_err *err);

#endif
