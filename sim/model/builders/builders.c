/* builders.c - the table of builders: the files of this folder, in builders.inc, which is generated from their names.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/format.h"

#define MQ_BUILDER(name) extern const struct mq_builder mq_builder_##name;
#include "builders.inc"
#undef MQ_BUILDER

#define MQ_BUILDER(name) &mq_builder_##name,
const struct mq_builder *const mq_builders[] = {
#include "builders.inc"
	NULL
};

const struct mq_builder *mq_builder_find(const char *spec)
{
	size_t n = strcspn(spec, ":");

	for (const struct mq_builder *const *b = mq_builders; *b; b++)
		for (const char *const *name = (*b)->names; *name; name++)
			if (strlen(*name) == n && !strncmp(*name, spec, n))
				return *b;
	return NULL;
}
