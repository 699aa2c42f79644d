/* xml.c - see xml.h. SPDX-License-Identifier: Apache-2.0 */
#include "hardware/platform/xml.h"

#include <limits.h>
#include <string.h>

#include <expat.h>

enum { MOST_DEPTH = 256 };

struct reading {
	const struct mq_xml_reader *reader;
	const char *path;
	XML_Parser parser;
	uint32_t depth;
	enum mq_status status;
	struct mq_err *err;
};

const char *mq_xml_attribute(const struct mq_xml_tag *tag, const char *key)
{
	for (const char *const *a = tag->attribute; a && *a; a += 2)
		if (!strcmp(*a, key))
			return a[1];
	return "";
}

static struct mq_xml_tag tag_of(const struct reading *r, const char *name, const char *const *attribute)
{
	return (struct mq_xml_tag){ name, attribute, r->path, (uint32_t)XML_GetCurrentLineNumber(r->parser), r->depth };
}

static void end_with(struct reading *r, enum mq_status status)
{
	if (r->status == MQ_OK)
		r->status = status;
	if (r->status != MQ_OK)
		XML_StopParser(r->parser, XML_FALSE);
}

static void XMLCALL open_tag(void *context, const char *name, const char **attribute)
{
	struct reading *r = context;
	struct mq_xml_tag tag = tag_of(r, name, attribute);

	if (r->depth++ == MOST_DEPTH)
		end_with(r, mq_bad(r->err, "%s:%u: nested more than %d deep", r->path, tag.line, MOST_DEPTH));
	else if (r->reader->open && r->status == MQ_OK)
		end_with(r, r->reader->open(r->reader->context, &tag, r->err));
}

static void XMLCALL close_tag(void *context, const char *name)
{
	struct reading *r = context;

	r->depth--;
	struct mq_xml_tag tag = tag_of(r, name, NULL);
	if (r->reader->close && r->status == MQ_OK)
		end_with(r, r->reader->close(r->reader->context, &tag, r->err));
}

/* The part of a <!DOCTYPE> between [ and ]: entities and more, on which readers disagree. */
static void XMLCALL doctype(void *context, const char *name, const char *system, const char *public, int has_subset)
{
	struct reading *r = context;

	(void)system, (void)public;
	if (has_subset)
		end_with(r,
			 mq_bad(r->err, "%s:%lu: the <!DOCTYPE %.40s [...]> makes entities of its own; write them out",
				r->path, (unsigned long)XML_GetCurrentLineNumber(r->parser), name));
}

enum mq_status mq_xml_read(const char *text, size_t size, const char *path, const struct mq_xml_reader *reader,
			   struct mq_err *err)
{
	XML_Parser parser = XML_ParserCreate(NULL);
	struct reading r = { reader, path, parser, 0, MQ_OK, err };
	enum XML_Status good;

	mq_assert(parser);
	XML_SetUserData(parser, &r);
	XML_SetElementHandler(parser, open_tag, close_tag);
	XML_SetStartDoctypeDeclHandler(parser, doctype);
	do { /* expat counts in int */
		int part = size > INT_MAX / 2 ? INT_MAX / 2 : (int)size;

		size -= (size_t)part;
		good = XML_Parse(parser, text, part, !size);
		text += part;
	} while (good == XML_STATUS_OK && size);
	if (good != XML_STATUS_OK && r.status == MQ_OK)
		r.status = mq_bad(err, "%s:%lu: the XML is cut or broken: %s", path,
				  (unsigned long)XML_GetCurrentLineNumber(parser),
				  XML_ErrorString(XML_GetErrorCode(parser)));
	XML_ParserFree(parser);
	return r.status;
}
