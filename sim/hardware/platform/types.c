/* types.c - reads the device types of a platform file without loading it, since defaults of a question depend on them.
 * Errors in the file are reported when it is loaded. SPDX-License-Identifier: Apache-2.0 */
#include "hardware/platform/generate.h"

#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "hardware/platform/xml.h"

struct types {
	struct mq_arena *arena;
	const char **type;
	uint32_t n, room;
};

static enum mq_status take_tag(void *context, const struct mq_xml_tag *tag, struct mq_err *err)
{
	struct types *t = context;
	const char *value = mq_xml_attribute(tag, "value");

	if (strcmp(tag->name, "prop") || strcmp(mq_xml_attribute(tag, "id"), "mq_type"))
		return MQ_OK;
	for (uint32_t i = 0; i < t->n; i++)
		if (!strcmp(t->type[i], value))
			return MQ_OK;
	MQ_PUSH(t->arena, t->type, t->n, t->room, mq_arena_strdup(t->arena, value));
	return MQ_OK;
}

const char *const *mq_platform_types(const char *path, struct mq_arena *arena)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct types t = { .arena = arena };
	const struct mq_xml_reader reader = { .open = take_tag, .context = &t };
	struct stat about;
	struct mq_err none;
	size_t size;
	char *text;

	if (stat(path, &about) || !S_ISREG(about.st_mode) ||
	    mq_text_read(path, 512, &scratch, &text, &size, &none) != MQ_OK ||
	    mq_xml_read(text, size, path, &reader, &none) != MQ_OK)
		t.n = 0; /* all types or none */
	MQ_PUSH(arena, t.type, t.n, t.room, NULL);
	return t.type;
}
