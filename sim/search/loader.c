/* loader.c - see loader.h. Loaded objects stay loaded: their code may be on a stack at exit.
 * SPDX-License-Identifier: Apache-2.0 */
#include "maquette/loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/paths.h"
#include "base/text.h"

static void swap_char(char *text, char from, char to)
{
	for (; *text; text++)
		if (*text == from)
			*text = to;
}

enum mq_status mq_plugin_names(const char *dir, const char *suffix, struct mq_arena *arena, const char ***names,
			       struct mq_err *err)
{
	uint32_t n;

	*names = mq_folder_names(dir, "", suffix, arena, &n);
	if (!*names)
		return mq_bad(err, "%s: cannot open the folder: %s", dir, strerror(errno));
	for (uint32_t i = 0; i < n; i++) {
		char *name = mq_arena_printf(arena, "%.*s", (int)(strlen((*names)[i]) - strlen(suffix)), (*names)[i]);

		swap_char(name, '_', '-');
		(*names)[i] = name;
	}
	if (n)
		qsort(*names, n, sizeof(**names), mq_by_text);
	return MQ_OK;
}

static enum mq_status no_such(const char *dir, const char *name, struct mq_arena *arena, struct mq_err *err)
{
	const char **names, *near;
	char list[360] = "";
	size_t used = 0;

	MQ_TRY(mq_plugin_names(dir, ".so", arena, &names, err));
	near = mq_nearest(name, names);
	for (uint32_t i = 0; names[i] && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, " %s", names[i]);
	if (near)
		return mq_bad(err, "no engine '%s'; did you mean '%s'? There are:%s", name, near, list);
	return mq_bad(err, "no engine '%s'; there are:%s", name, list);
}

enum mq_status mq_engine_check(const struct mq_engine *e, const char *name, struct mq_err *err)
{
	if (e->abi != MQ_ABI)
		return mq_bad(err,
			      "engine '%s' was built for another version of maquette (headers %016" PRIx64
			      ", this program's are %016" PRIx64 "): rebuild it",
			      name, e->abi, MQ_ABI);
	if (!e->name || strcmp(e->name, name))
		return mq_bad(err, "engine '%s' calls itself '%s'; the names must agree", name, e->name ? e->name : "");
	if (!e->summary || (!e->propose && !e->solve))
		return mq_bad(err, "engine '%s' lacks a summary, or both propose and solve", name);
	return MQ_OK;
}

static enum mq_status no_start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	return MQ_OK;
}

static enum mq_status no_propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
				 struct mq_plan *plan, struct mq_err *err)
{
	return MQ_DONE;
}

static void no_observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		       const struct mq_result *result)
{
}

static void no_stop(void *state, const struct mq_problem *problem)
{
}

enum mq_status mq_engine_open(const char *dir, const char *name, struct mq_arena *arena,
			      const struct mq_engine **engine, struct mq_err *err)
{
	char *file = mq_arena_strdup(arena, name);

	swap_char(file, '-', '_');
	if (!*name || strchr(name, '/') || strchr(name, '_'))
		return no_such(dir, name, arena, err);
	const char *path = mq_arena_printf(arena, "%s/%s.so", dir, file);
	FILE *there = fopen(path, "r");
	if (!there)
		return no_such(dir, name, arena, err);
	fclose(there);
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return mq_fail(err, MQ_ENODEV, "engine '%s' cannot be loaded: %s", name, dlerror());
	const char *symbol = mq_arena_printf(arena, "mq_engine_%s", file);
	const struct mq_engine *found = dlsym(handle, symbol);
	if (!found)
		return mq_bad(err, "%s: exports no %s; see strategies/README.md", path, symbol);
	MQ_TRY(mq_engine_check(found, name, err));
	struct mq_engine *copy = mq_arena_alloc(arena, sizeof(*copy));
	*copy = *found;
	copy->start = copy->start ? copy->start : no_start;
	copy->propose = copy->propose ? copy->propose : no_propose;
	copy->observe = copy->observe ? copy->observe : no_observe;
	copy->stop = copy->stop ? copy->stop : no_stop;
	copy->batch = copy->batch ? copy->batch : 1;
	*engine = copy;
	return MQ_OK;
}
