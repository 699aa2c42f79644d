/* json_file.c - see json_file.h. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/json_file.h"

#include "base/text.h"

enum { MOST_MB = 512 };

enum mq_status mq_json_file_load(const char *path, json_t **root, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	json_error_t where;
	char *text;
	size_t size;

	*root = NULL;
	MQ_TRY(mq_text_read(path, MOST_MB, &arena, &text, &size, err));
	*root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
	if (!*root)
		return mq_bad(err, "%s:%d: %s", path, where.line > 0 ? where.line : 0, where.text);
	return MQ_OK;
}
