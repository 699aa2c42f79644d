/*
 * common_platform.c - what -p names, as a file that SimGrid loads: a file, a shipped platform, or keys of
 * `platform generate`, of which a file is made in a folder that nobody can guess.
 */
#include "cmd/common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/platform_generate.h"

enum mq_status mq_platform_folder(struct mq_arena *arena, struct mq_platform_file *file, struct mq_err *err)
{
	const char *tmp = getenv("TMPDIR");
	char *dir = mq_arena_printf(arena, "%s/maquette-XXXXXX", tmp && *tmp ? tmp : "/tmp");

	*file = (struct mq_platform_file){ .path = NULL };
	if (!mkdtemp(dir))
		return mq_fail(err, MQ_EINPUT, "%s: cannot make a folder: %s", dir, strerror(errno));
	file->dir = dir;
	file->path = mq_arena_printf(arena, "%s/platform.xml", dir);
	return MQ_OK;
}

enum mq_status mq_platform_open(const char *text, const struct mq_calib *calib, struct mq_arena *arena,
				struct mq_platform_file *file, struct mq_err *err)
{
	struct mq_platform_spec spec;

	*file = (struct mq_platform_file){ .path = NULL };
	if (!mq_platform_spec_is(text))
		return mq_find_platform(text, arena, &file->path, err);
	mq_platform_spec_init(&spec);
	MQ_TRY(mq_platform_spec_parse(text, &spec, arena, err));
	MQ_TRY(mq_platform_folder(arena, file, err));
	MQ_TRY(mq_platform_generate(&spec, calib, file->path, err));
	file->assumed = mq_platform_assumed(&spec, calib, arena);
	return MQ_OK;
}

void mq_platform_file_close(const struct mq_platform_file *file)
{
	static const char *const names[] = { "platform.xml", "platform.calib.json", "accelerator.json", "cpu.json" };
	struct mq_arena scratch = MQ_ARENA_INIT;

	for (size_t i = 0; file->dir && i < sizeof(names) / sizeof(*names); i++)
		unlink(mq_arena_printf(&scratch, "%s/%s", file->dir, names[i]));
	if (file->dir)
		rmdir(file->dir);
	mq_arena_fini(&scratch);
}
