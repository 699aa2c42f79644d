/* xml.h - reads XML tag by tag with expat. Refuses entities that a file defines (they may expand to gigabytes) and
 * reads no other files. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_XML_H
#define MQ_HARDWARE_PLATFORM_XML_H

#include <stddef.h>
#include <stdint.h>

#include "maquette/err.h"

struct mq_xml_tag {
	const char *name;             /* valid until the reader returns */
	const char *const *attribute; /* key, value, key, value, ..., NULL */
	const char *path;
	uint32_t line, depth; /* the root's depth is 0 */
};

/* Callbacks at the start and the end of each element, the latter with `attribute` NULL. One may be NULL. */
struct mq_xml_reader {
	enum mq_status (*open)(void *context, const struct mq_xml_tag *tag, struct mq_err *err);
	enum mq_status (*close)(void *context, const struct mq_xml_tag *tag, struct mq_err *err);
	void *context;
};

/* The value of an attribute; "": absent. */
const char *mq_xml_attribute(const struct mq_xml_tag *tag, const char *key);
/* Parses a whole text. MQ_EINPUT: not well-formed (with file and line), nested more than 256 deep, with its own
 * entities; or the error of a callback. */
enum mq_status mq_xml_read(const char *text, size_t size, const char *path, const struct mq_xml_reader *reader,
			   struct mq_err *err);

#endif
