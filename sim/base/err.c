/* err.c - see err.h. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum mq_status mq_fail(struct mq_err *err, enum mq_status status, const char *format, ...)
{
	if (err) {
		va_list ap;

		va_start(ap, format);
		vsnprintf(err->text, sizeof(err->text), format, ap);
		va_end(ap);
		err->status = status;
		for (char *c = err->text; *c; c++) /* one line per error, for any input */
			if ((unsigned char)*c < ' ')
				*c = ' ';
	}
	return status;
}

enum mq_status mq_wrap(struct mq_err *err, const char *format, ...)
{
	char head[sizeof(err->text)];
	char tail[sizeof(err->text)];
	va_list ap;

	va_start(ap, format);
	vsnprintf(head, sizeof(head), format, ap);
	va_end(ap);
	memcpy(tail, err->text, sizeof(tail));
	return mq_fail(err, err->status, "%s: %s", head, tail);
}

void mq_bug(const char *condition, const char *file, int line)
{
	fprintf(stderr, "maquette: bug: %s:%d: %s does not hold; please report it\n", file, line, condition);
	exit(MQ_EBUG);
}
