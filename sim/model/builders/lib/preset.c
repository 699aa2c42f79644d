/* preset.c - see preset.h. SPDX-License-Identifier: Apache-2.0 */
#include "model/builders/lib/preset.h"

#include <string.h>

enum mq_status mq_preset_find(const struct mq_presets *table, const struct mq_preset *wanted, struct mq_arena *arena,
			      uint32_t *row, struct mq_err *err)
{
	const char *list = "";

	for (size_t i = 0; i < table->n; i++) {
		const struct mq_preset *p = (const void *)((const char *)table->rows + i * table->stride);

		if (strcmp(p->model, wanted->model))
			continue;
		if (!wanted->size || !strcmp(p->size, wanted->size)) {
			*row = (uint32_t)i;
			return MQ_OK;
		}
		list = mq_arena_printf(arena, "%s%s%s", list, *list ? " " : "", p->size);
	}
	return mq_fail(err, MQ_EINPUT, "model '%s': no size '%s'; it has: %s", wanted->model, wanted->size, list);
}
