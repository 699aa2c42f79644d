/* file.c - see file.h. SPDX-License-Identifier: Apache-2.0 */
#include "model/formats/lib/file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum mq_status mq_file_read(const char *path, size_t max, struct mq_arena *arena, struct mq_bytes *bytes,
			    struct mq_err *err)
{
	struct stat st;

	if (stat(path, &st))
		return mq_bad(err, "cannot open '%s': %s; give a file that exists", path, strerror(errno));
	if (!S_ISREG(st.st_mode)) /* reading a pipe or a terminal could block for ever */
		return mq_bad(err, "'%s' is not a regular file; give a model file", path);
	if (!st.st_size)
		return mq_bad(err, "'%s' is empty; give a model file", path);
	if ((uint64_t)st.st_size > max)
		return mq_bad(err, "'%s' has %lld bytes; model files may have %zu", path, (long long)st.st_size, max);
	return mq_bytes_read(path, (max >> 20) + 1, arena, &bytes->data, &bytes->size, err);
}

const char *mq_file_options(const char *path, const struct mq_model_request *request)
{
	size_t n = strlen(path);

	if (!request->spec || strncmp(request->spec, path, n) || request->spec[n] != ':')
		return NULL;
	return request->spec + n + 1;
}

bool mq_file_has(const char *head, const char *const *words)
{
	for (; *head == '{' && *words; words++)
		if (strstr(head, *words))
			return true;
	return false;
}
