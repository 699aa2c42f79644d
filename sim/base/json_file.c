/* json_file.c - see json_file.h. */
#include "maquette/json_file.h"

#include "base/text.h"

enum { MOST_MB = 512 };

enum mq_status mq_json_file_load(const char *path, json_t **root, struct mq_err *err)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	json_error_t where;
	char *text;
	size_t size;
	enum mq_status status = mq_text_read(path, MOST_MB, &arena, &text, &size, err);

	*root = NULL;
	if (status == MQ_OK && !(*root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where)))
		status = mq_fail(err, MQ_EINPUT, "%s:%d: %s", path, where.line > 0 ? where.line : 0, where.text);
	mq_arena_fini(&arena);
	return status;
}
