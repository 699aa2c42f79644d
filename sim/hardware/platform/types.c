/* types.c - the device types that a platform file names, read without loading it: what a question leaves open is
 * decided before SimGrid has the file. Text that is no <prop id="mq_type" value="..."/> is passed over; a file that is
 * broken says so when it is loaded. SPDX-License-Identifier: Apache-2.0 */
#include "hardware/platform/generate.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The value of an attribute of the tag that begins at `tag`; NULL = it has none. */
static const char *attribute(const char *tag, const char *end, const char *name, struct mq_arena *arena)
{
	size_t n = strlen(name);

	for (const char *c = tag; c + n + 2 < end; c++) {
		if (c[-1] != ' ' || strncmp(c, name, n) || c[n] != '=' || (c[n + 1] != '"' && c[n + 1] != '\''))
			continue;
		const char *value = c + n + 2, *close = memchr(value, c[n + 1], (size_t)(end - value));

		return close ? mq_arena_printf(arena, "%.*s", (int)(close - value), value) : NULL;
	}
	return NULL;
}

const char *const *mq_platform_types(const char *path, struct mq_arena *arena)
{
	const char **type = NULL;
	uint32_t n = 0, room = 0;
	char line[4096];
	struct stat about;
	FILE *file = stat(path, &about) || !S_ISREG(about.st_mode) ? NULL : fopen(path, "r");

	while (file && fgets(line, sizeof(line), file))
		for (char *tag = strstr(line, "<prop "), *end; tag; tag = strstr(end, "<prop ")) {
			end = strchr(tag, '>');
			if (!end)
				break;
			const char *id = attribute(tag + 1, end, "id", arena);
			const char *value =
				id && !strcmp(id, "mq_type") ? attribute(tag + 1, end, "value", arena) : NULL;
			bool known = !value;

			for (uint32_t i = 0; i < n && !known; i++)
				known = !strcmp(type[i], value);
			if (!known)
				MQ_PUSH(arena, type, n, room, value);
		}
	if (file)
		fclose(file);
	MQ_PUSH(arena, type, n, room, NULL);
	return type;
}
