/* paths.c - see paths.h. SPDX-License-Identifier: Apache-2.0 */
#include "base/paths.h"
#include "base/text.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *own_dir(struct mq_arena *arena)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0)
		return ".";
	path[n] = '\0';
	char *slash = strrchr(path, '/');
	if (slash && slash != path)
		*slash = '\0';
	return mq_arena_strdup(arena, path);
}

bool mq_is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

enum mq_status mq_find_dir(const char *kind, struct mq_arena *arena, const char **dir, struct mq_err *err)
{
	/* Beside the executable (build/engines), one to three folders up (build/, build/san-X/,
	 * build/san-X/tests/: the source tree), or in an installed tree. */
	static const char *const places[] = {
		"", "/..", "/../..", "/../lib/maquette", "/../share/maquette", "/../../.."
	};
	const char *base = own_dir(arena);
	/* The build folder holds plug-ins; its "plots" are figures. */
	bool built = !strcmp(kind, "engines") || !strcmp(kind, "executors");

	for (size_t i = built ? 0 : 1; i < sizeof(places) / sizeof(*places); i++) {
		const char *path = mq_arena_printf(arena, "%s%s/%s", base, places[i], kind);
		char *real;

		if (mq_is_dir(path) && (real = realpath(path, NULL))) {
			*dir = mq_arena_strdup(arena, real);
			free(real);
			return MQ_OK;
		}
	}
	return mq_bad(err,
		      "no folder '%s' beside %s or in ../lib/maquette, ../share/maquette; install "
		      "again or run from the build folder",
		      kind, base);
}

char *mq_find_program(const char *name, struct mq_arena *arena)
{
	return mq_arena_printf(arena, "%s/%s", own_dir(arena), name);
}

const char **mq_folder_names(const char *dir, const char *prefix, const char *suffix, struct mq_arena *arena,
			     uint32_t *n)
{
	size_t head = strlen(prefix), tail = strlen(suffix);
	const char **list = NULL;
	uint32_t room = 0;
	struct dirent *entry;
	DIR *d = opendir(dir);

	*n = 0;
	while (d && (entry = readdir(d))) {
		size_t length = strlen(entry->d_name);

		if (entry->d_name[0] != '.' && length >= head + tail && !strncmp(entry->d_name, prefix, head) &&
		    !strcmp(entry->d_name + length - tail, suffix))
			MQ_PUSH(arena, list, *n, room, mq_arena_strdup(arena, entry->d_name));
	}
	if (!d)
		return NULL;
	closedir(d);
	if (*n)
		qsort(list, *n, sizeof(*list), mq_by_text);
	MQ_PUSH(arena, list, *n, room, NULL);
	--*n;
	return list;
}
