/* json_in.c - see json_in.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/json_in.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "maquette/json_file.h"
#include "maquette/types.h"

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
		in->status = mq_fail(in->err, MQ_EINPUT, "%s: %s: %s", in->path, where, what);
}

static json_t *member(struct mq_json_in *in, json_t *object, const char *where, const char *key)
{
	json_t *value = json_object_get(object, key);

	if (!value)
		mq_json_in_fail(in, where, "needs a member '%s'", key);
	return value;
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

double mq_json_in_number(struct mq_json_in *in, json_t *object, const char *where, const char *key)
{
	json_t *value = member(in, object, where, key);
	char place[160];

	if (!value)
		return 0.0;
	snprintf(place, sizeof(place), "%s.%s", where, key);
	return mq_json_in_value(in, value, place);
}

uint32_t mq_json_in_index(struct mq_json_in *in, json_t *object, const char *where, const char *key)
{
	double number = mq_json_in_number(in, object, where, key);

	if (in->status != MQ_OK)
		return MQ_NONE;
	if (number < 0 || number >= (double)UINT32_MAX || number != floor(number)) {
		mq_json_in_fail(in, where, "'%s' is %g: expected a whole number from 0", key, number);
		return MQ_NONE;
	}
	return (uint32_t)number;
}

json_t *mq_json_in_array(struct mq_json_in *in, json_t *object, const char *where, const char *key)
{
	json_t *value = member(in, object, where, key);

	if (value && !json_is_array(value)) {
		mq_json_in_fail(in, where, "'%s' must be an array", key);
		return NULL;
	}
	return value;
}

bool mq_json_in_sniff(const char *path, const char *const *words)
{
	enum { WINDOW = 1 << 16, MOST_WINDOWS = 1 << 13 }; /* 512 MB: /dev/zero has no end */
	static const size_t keep = 64;                     /* a word may lie across two windows */
	bool seen[8] = { false };
	size_t n = 0, held = 0;
	char buffer[WINDOW + 1];
	FILE *file = fopen(path, "rb");

	if (!file)
		return false;
	while (n < 8 && words[n])
		n++;
	for (int window = 0; window < MOST_WINDOWS; window++) {
		size_t got = fread(buffer + held, 1, WINDOW - held, file);
		size_t missing = 0;

		buffer[held + got] = '\0';
		for (size_t i = 0; i < n; i++) {
			seen[i] = seen[i] || memmem(buffer, held + got, words[i], strlen(words[i]));
			missing += !seen[i];
		}
		if (!missing || held + got < WINDOW)
			break;
		memmove(buffer, buffer + WINDOW - keep, keep);
		held = keep;
	}
	fclose(file);
	for (size_t i = 0; i < n; i++)
		if (!seen[i])
			return false;
	return true;
}
