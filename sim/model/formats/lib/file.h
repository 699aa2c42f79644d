/* file.h - helpers of the readers: a whole file in memory, and options after its name.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_FORMATS_LIB_FILE_H
#define MQ_MODEL_FORMATS_LIB_FILE_H

#include "base/text.h"
#include "model/format.h"

struct mq_bytes {
	char *data; /* in the arena, followed by a NUL */
	size_t size;
};

/* A regular file of at most `max` bytes. MQ_EINPUT: missing, a folder, empty, too large. */
enum mq_status mq_file_read(const char *path, size_t max, struct mq_arena *arena, struct mq_bytes *bytes,
			    struct mq_err *err);

/* The "key=value,..." part of "PATH:key=value,...", or NULL. */
const char *mq_file_options(const char *path, const struct mq_model_request *request);

/* Is the head of a file JSON that contains one of these words? */
bool mq_file_has(const char *head, const char *const *words);

#endif
