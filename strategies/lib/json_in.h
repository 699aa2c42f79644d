/* json_in.h - reads the engines' own problem files (JSON) with messages that name file and field.
 *
 * Every getter fails through mq_fail with the path of the file, the name of the field and what was expected. The first
 * failure is kept, so callers may read several fields and check the status once. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_JSON_IN_H
#define MQ_STRATEGIES_LIB_JSON_IN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "maquette/err.h"

struct mq_json_in {
	const char *path; /* borrowed: for messages */
	json_t *root;     /* owned */
	struct mq_err *err;
	enum mq_status status; /* the first failure, else MQ_OK */
};

enum mq_status mq_json_in_open(struct mq_json_in *in, const char *path, struct mq_err *err);
void mq_json_in_close(struct mq_json_in *in);

/* Records a failure at `where` ("edges[3].cost"). */
void mq_json_in_fail(struct mq_json_in *in, const char *where, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Unpacks a value by jansson's format; `where` names it in messages. False after any failure: ignore the outputs. */
bool mq_json_in_read(struct mq_json_in *in, json_t *value, const char *where, const char *format, ...);
/* An array member of an object; NULL after any failure. */
json_t *mq_json_in_array(struct mq_json_in *in, json_t *object, const char *where, const char *key);
/* A finite number; else 0 and a failure. */
double mq_json_in_value(struct mq_json_in *in, json_t *value, const char *where);

/* Does the file contain all the words? For `accepts` hooks: cheap, silent. */
bool mq_json_in_sniff(const char *path, const char *const *words);

#endif
