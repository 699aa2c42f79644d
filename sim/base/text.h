/* text.h - a text file in memory, of a size that is bounded: files come from others, /dev/zero has no end. */
#ifndef MQ_BASE_TEXT_H
#define MQ_BASE_TEXT_H

#include <stddef.h>

#include "maquette/arena.h"
#include "maquette/err.h"

/* Reads a file (or a pipe) to its end; *text is followed by a NUL. MQ_EINPUT: it cannot be read, has more than
 * `most_MB` megabytes, or zero bytes in it. */
enum mq_status mq_text_read(const char *path, size_t most_MB, struct mq_arena *arena, char **text, size_t *size,
			    struct mq_err *err) MQ_MUST_CHECK;

#endif
