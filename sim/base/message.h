/* message.h - bytes for another process of this program on this machine: structs are copied as they are.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_BASE_MESSAGE_H
#define MQ_BASE_MESSAGE_H

#include "maquette/arena.h"

/* { .arena = arena } writes a message, { arena, bytes, 0, size } reads one. */
struct mq_message {
	struct mq_arena *arena;
	char *at;
	size_t n, room; /* n: bytes put or taken so far */
};

void mq_message_put(struct mq_message *message, const void *bytes, size_t size);
/* An aligned copy of the next bytes, with a zero byte behind it; NULL: fewer are left. */
void *mq_message_take(struct mq_message *message, size_t size);

#endif
