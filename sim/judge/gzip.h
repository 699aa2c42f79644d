/* gzip.h - opens a file for writing; a name that ends in ".gz" is compressed. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_JUDGE_GZIP_H
#define MQ_JUDGE_GZIP_H

#include "base/text.h"

/* Like mq_file_open, and compresses where the path ends in ".gz"; close it by mq_file_close. */
enum mq_status mq_file_create(const char *path, FILE **file, struct mq_err *err);

#endif
