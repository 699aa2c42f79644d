/* gzip.h - files that are written compressed where their names end in ".gz". */
#ifndef MQ_JUDGE_GZIP_H
#define MQ_JUDGE_GZIP_H

#include <stdio.h>

#include "maquette/err.h"

/* A new file to write to. MQ_EINPUT: cannot be written. */
enum mq_status mq_file_create(const char *path, FILE **file, struct mq_err *err) MQ_MUST_CHECK;
/* MQ_EINPUT: what was written did not all arrive (a full disk). */
enum mq_status mq_file_close(FILE *file, const char *path, struct mq_err *err) MQ_MUST_CHECK;

#endif
