/* plugin_file.c - see plugin_file.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/plugin_file.h"

#include <dlfcn.h>
#include <unistd.h>

enum mq_status mq_plugin_folder(const struct mq_engine *engine, struct mq_arena *arena, const char **folder,
				struct mq_err *err)
{
	Dl_info where;

	if (!dladdr(engine, &where) || !where.dli_fname)
		return mq_fail(err, MQ_EBUG, "engine '%s': the plug-in that it is in is not known", engine->name);
	char *path = mq_arena_strdup(arena, where.dli_fname), *slash = strrchr(path, '/');

	if (slash)
		*slash = '\0';
	*folder = slash ? path : ".";
	return MQ_OK;
}

enum mq_status mq_plugin_file(const struct mq_engine *engine, const char *name, struct mq_arena *arena,
			      const char **path, struct mq_err *err)
{
	const char *folder;

	MQ_TRY(mq_plugin_folder(engine, arena, &folder, err));
	*path = mq_arena_printf(arena, "%s/%s", folder, name);
	if (access(*path, R_OK))
		return mq_bad(err, "engine '%s': %s is missing; build or install again", engine->name, *path);
	return MQ_OK;
}
