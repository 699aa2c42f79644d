/* json_file.h - loads a JSON file, of bounded size, with jansson. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_JSON_FILE_H
#define MAQUETTE_JSON_FILE_H

#include <jansson.h>

#include "maquette/err.h"

/* *root is the caller's. MQ_EINPUT: it cannot be read, has more than 512 MB, is no JSON, or has a key twice; the
 * message names file and line. */
MQ_API enum mq_status mq_json_file_load(const char *path, json_t **root, struct mq_err *err);

#endif
