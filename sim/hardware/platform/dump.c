/* dump.c - serialises a cluster for a pipe between two processes of one program: counts, structs, then all names.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/message.h"
#include "hardware/platform/platform.h"

struct dump_head {
	uint32_t n_devices, n_links, n_nodes, nics_per_node, nvls, sharp;
};

static void put_text(struct mq_message *m, const char *text)
{
	mq_message_put(m, text, strlen(text) + 1);
}

/* Exact, since platforms of a million devices have hundreds of megabytes. */
static size_t size_of(const struct mq_cluster *c)
{
	size_t size = sizeof(struct dump_head) + strlen(c->name) + 1;

	for (uint32_t i = 0; i < c->n_devices; i++)
		size += sizeof(*c->device) + strlen(c->device[i].name) + strlen(c->device[i].type) + 2;
	for (uint32_t i = 0; i < c->n_links; i++)
		size += sizeof(*c->link) + strlen(c->link[i].name) + 1;
	return size;
}

void *mq_platform_dump(const struct mq_cluster *c, struct mq_arena *arena, size_t *size)
{
	const struct dump_head head = { c->n_devices, c->n_links, c->n_nodes, c->nics_per_node, c->nvls, c->sharp };
	struct mq_message m = { .arena = arena, .room = *size = size_of(c) };

	m.at = mq_arena_alloc(arena, m.room);
	mq_message_put(&m, &head, sizeof(head));
	for (uint32_t i = 0; i < c->n_devices; i++) { /* equal platforms have equal bytes: no pointers */
		struct mq_device d = c->device[i];

		d.name = d.type = NULL;
		d.calib = MQ_NONE;
		mq_message_put(&m, &d, sizeof(d));
	}
	for (uint32_t i = 0; i < c->n_links; i++) {
		struct mq_link l = c->link[i];

		l.name = NULL;
		mq_message_put(&m, &l, sizeof(l));
	}
	put_text(&m, c->name);
	for (uint32_t i = 0; i < c->n_devices; i++) {
		put_text(&m, c->device[i].name);
		put_text(&m, c->device[i].type);
	}
	for (uint32_t i = 0; i < c->n_links; i++)
		put_text(&m, c->link[i].name);
	return m.at;
}

/* The text at *at, which moves behind it; false: no text is left. */
static bool next(const char **at, const char *end, const char **text)
{
	*text = *at;
	if (*at >= end)
		return false;
	*at += strlen(*at) + 1;
	return true;
}

enum mq_status mq_platform_restore(const void *bytes, size_t size, struct mq_arena *arena, struct mq_cluster **result,
				   struct mq_err *err)
{
	struct mq_message m = { arena, (char *)(uintptr_t)bytes, 0, size };
	const struct dump_head *head = mq_message_take(&m, sizeof(*head));
	struct mq_cluster *c = mq_cluster_new(arena);

	if (head) {
		c->n_devices = head->n_devices;
		c->n_links = head->n_links;
		c->n_nodes = head->n_nodes;
		c->nics_per_node = head->nics_per_node;
		c->nvls = head->nvls;
		c->sharp = head->sharp;
	}
	c->device = mq_message_take(&m, c->n_devices * sizeof(*c->device));
	c->link = mq_message_take(&m, c->n_links * sizeof(*c->link));
	size_t left = m.room - m.n;
	const char *at = mq_message_take(&m, left), *end = at + left;
	bool sound = head && c->device && c->link && left && !end[-1] && next(&at, end, &c->name);
	for (uint32_t i = 0; i < c->n_devices && sound; i++)
		sound = next(&at, end, &c->device[i].name) && next(&at, end, &c->device[i].type);
	for (uint32_t i = 0; i < c->n_links && sound; i++)
		sound = next(&at, end, &c->link[i].name);
	if (!sound || at != end)
		return mq_bad(err, "a platform came over the pipe broken (%zu bytes)", size);
	*result = c;
	return MQ_OK;
}
