/* template.h - texts with places for values: {{name}} is replaced; lines {{if name}}, {{else}} and {{end}}, each alone
 * on its line and none in another, keep what is between them where the value is not empty, or where it is. Within a line
 * [[name:text]] keeps the text, which may have values, where the value is not empty. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_BASE_TEMPLATE_H
#define MQ_BASE_TEMPLATE_H

#include "maquette/arena.h"
#include "maquette/err.h"

struct mq_template_value {
	const char *name, *text;
};

struct mq_template {
	struct mq_arena *arena;
	struct mq_template_value *value;
	uint32_t n, room;
};

void mq_template_set(struct mq_template *t, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* A shipped file, FOLDER/NAME (base/paths.h), with the values in it, in the arena. MQ_EINPUT: there is none, or it has
 * a place that has no value, or a condition without beginning or end; with file and line. */
enum mq_status mq_template_text(const struct mq_template *t, const char *folder, const char *name, const char **text,
				struct mq_err *err);

#endif
