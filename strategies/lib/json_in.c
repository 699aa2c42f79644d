/* json_in.c - see json_in.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/json_in.h"

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "maquette/json_file.h"

enum mq_status mq_json_in_open(struct mq_json_in *in, const char *path, struct mq_err *err)
{
	*in = (struct mq_json_in){ .path = path, .err = err };
	return in->status = mq_json_file_load(path, &in->root, err);
}

void mq_json_in_close(struct mq_json_in *in)
{
	json_decref(in->root);
	in->root = NULL;
}

void mq_json_in_fail(struct mq_json_in *in, const char *where, const char *format, ...)
{
	char what[160];
	va_list list;

	va_start(list, format);
	vsnprintf(what, sizeof(what), format, list);
	va_end(list);
	if (in->status == MQ_OK)
		in->status = mq_bad(in->err, "%s: %s: %s", in->path, where, what);
}

double mq_json_in_value(struct mq_json_in *in, json_t *value, const char *where)
{
	double number = json_number_value(value);

	if (!json_is_number(value) || !isfinite(number)) {
		mq_json_in_fail(in, where, "expected a finite number");
		return 0.0;
	}
	return number;
}

bool mq_json_in_read(struct mq_json_in *in, json_t *value, const char *where, const char *format, ...)
{
	json_error_t why;
	va_list list;

	if (in->status != MQ_OK)
		return false;
	va_start(list, format);
	if (json_vunpack_ex(value, &why, 0, format, list))
		mq_json_in_fail(in, where, "%s", why.text);
	va_end(list);
	return in->status == MQ_OK;
}

json_t *mq_json_in_array(struct mq_json_in *in, json_t *object, const char *where, const char *key)
{
	json_t *value = NULL;

	/* the key twice: checks that it is an array, then fetches it */
	return mq_json_in_read(in, object, where, "{s:[], s:o}", key, key, &value) ? value : NULL;
}

bool mq_json_in_sniff(const char *path, const char *const *words)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat file;
	bool all = fd >= 0 && !fstat(fd, &file) && S_ISREG(file.st_mode) && file.st_size > 0;
	size_t size = all ? (size_t)file.st_size : 0;
	void *text = all ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;

	all = text != MAP_FAILED;
	for (; all && *words; words++)
		all = memmem(text, size, *words, strlen(*words)) != NULL;
	if (text != MAP_FAILED)
		munmap(text, size);
	if (fd >= 0)
		close(fd);
	return all;
}
