/* gzip.h - files that are written compressed where their names end in ".gz". SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_JUDGE_GZIP_H
#define MQ_JUDGE_GZIP_H

#include "base/text.h"

/* mq_file_open of such a file too; mq_file_close ends it. */
enum mq_status mq_file_create(const char *path, FILE **file, struct mq_err *err);

#endif
