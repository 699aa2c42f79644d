/* plugin.c - finds an executor: PLUGINS/NAME.so, its symbol, its ABI. Not found is an error that lists what exists; a
 * plug-in whose vendor library is missing says which. SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/paths.h"
#include "replay/replay.h"

enum mq_status replay_load_executor(const char *folder, const char *name, struct mq_arena *arena,
				    const struct mq_replay_executor **executor, struct mq_err *err)
{
	const char *path = mq_arena_printf(arena, "%s/%s.so", folder, name);

	if (strchr(name, '/') || access(path, R_OK)) {
		const char *known = "none";
		uint32_t n;
		const char **file = mq_folder_names(folder, "", ".so", arena, &n);

		for (uint32_t i = 0; i < n; i++)
			known = mq_arena_printf(arena, "%s%s%.*s", i ? known : "", i ? ", " : "",
						(int)strlen(file[i]) - 3, file[i]);
		return mq_fail(err, MQ_EINPUT, "--executor %s: no such executor in %s (there are: %s)", name, folder,
			       known);
	}
	/* The ranks' MPI resolves symbols of its own plug-ins globally. */
	void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!library)
		return mq_fail(err, MQ_ENODEV, "executor '%s' cannot be loaded: %s", name, dlerror());
	char *symbol = mq_arena_printf(arena, "mq_executor_%s", name);
	for (char *c = symbol; *c; c++)
		if (*c == '-')
			*c = '_';
	const struct mq_replay_executor *found = dlsym(library, symbol);
	if (!found)
		return mq_fail(err, MQ_EINPUT, "%s exports no symbol %s", path, symbol);
	if (found->abi != MQ_ABI)
		return mq_fail(err, MQ_EINPUT,
			       "%s was built for another version of maquette-replay (headers %016" PRIx64
			       ", this program's are %016" PRIx64 "): rebuild it",
			       path, found->abi, MQ_ABI);
	if (strcmp(found->name, name) || !found->check || !found->open || !found->run || !found->close ||
	    !found->describe || !found->memory || !found->in_use || !found->allocate || !found->release ||
	    (found->launcher == MQ_LAUNCH_MPIRUN && !found->ranks))
		return mq_fail(err, MQ_EINPUT, "%s lacks a required function", path);
	*executor = found;
	return MQ_OK;
}
