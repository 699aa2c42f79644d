/* gzip.c - see gzip.h. fopencookie puts zlib behind an ordinary FILE, so that writers need not know.
 * SPDX-License-Identifier: Apache-2.0 */
#include "judge/gzip.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

static ssize_t put(void *gz, const char *bytes, size_t n)
{
	return n ? gzwrite(gz, bytes, (unsigned)n) : 0;
}

static int finish(void *gz)
{
	return gzclose(gz) == Z_OK ? 0 : EOF;
}

enum mq_status mq_file_create(const char *path, FILE **file, struct mq_err *err)
{
	size_t n = strlen(path);

	if (n < 4 || strcmp(path + n - 3, ".gz"))
		return mq_file_open(path, file, err);
	gzFile gz = gzopen(path, "wb");
	*file = gz ? fopencookie(gz, "w", (cookie_io_functions_t){ .write = put, .close = finish }) : NULL;
	return *file ? MQ_OK : mq_bad(err, "%s: cannot write: %s", path, strerror(errno));
}
