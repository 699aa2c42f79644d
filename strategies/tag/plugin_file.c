/* plugin_file.c - see plugin_file.h. */
#include "tag/plugin_file.h"

#include <dlfcn.h>
#include <unistd.h>

enum mq_status mq_plugin_file(const struct mq_engine *engine, const char *name, struct mq_arena *arena,
			      const char **path, struct mq_err *err)
{
	Dl_info where;

	if (!dladdr(engine, &where) || !where.dli_fname)
		return mq_fail(err, MQ_EBUG, "engine '%s': the plug-in that it is in is not known", engine->name);
	char *folder = mq_arena_strdup(arena, where.dli_fname), *slash = strrchr(folder, '/');

	if (slash)
		*slash = '\0';
	*path = mq_arena_printf(arena, "%s/%s", slash ? folder : ".", name);
	if (access(*path, R_OK))
		return mq_fail(err, MQ_EINPUT, "engine '%s': %s is missing; build or install again", engine->name,
			       *path);
	return MQ_OK;
}
