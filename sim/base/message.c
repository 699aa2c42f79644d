/* message.c - see message.h. SPDX-License-Identifier: Apache-2.0 */
#include "base/message.h"

#include <string.h>

void mq_message_put(struct mq_message *m, const void *bytes, size_t size)
{
	uint32_t room = (uint32_t)m->room;

	if (m->n + size > m->room) {
		m->at = mq_arena_grow(m->arena, m->at, 1, m->n, m->n + size, &room);
		m->room = room;
	}
	if (size)
		memcpy(m->at + m->n, bytes, size);
	m->n += size;
}

void *mq_message_take(struct mq_message *m, size_t size)
{
	if (size > m->room - m->n)
		return NULL;
	void *copy = mq_arena_alloc(m->arena, size + 1);
	memcpy(copy, m->at + m->n, size);
	m->n += size;
	return copy;
}
