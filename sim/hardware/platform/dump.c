/* dump.c - serialises a cluster for a pipe between two processes of one program: the structs, with text pointers
 * replaced by offsets into a block of text at the end. SPDX-License-Identifier: Apache-2.0 */

#include "hardware/platform/platform.h"

enum { MAGIC = 0x3171636d };

struct dump_head {
	uint32_t magic, n_devices, n_links, n_nodes, nics_per_node, nvls, sharp, text_size;
	uint32_t name; /* offset */
};

struct text {
	char *at;
	size_t used;
};

static size_t text_size(const struct mq_cluster *cluster)
{
	size_t size = strlen(cluster->name) + 1;

	for (uint32_t i = 0; i < cluster->n_devices; i++)
		size += strlen(cluster->device[i].name) + strlen(cluster->device[i].type) + 2;
	for (uint32_t i = 0; i < cluster->n_links; i++)
		size += strlen(cluster->link[i].name) + 1;
	return size;
}

static size_t add_text(struct text *text, const char *word)
{
	size_t at = text->used, size = strlen(word) + 1;

	memcpy(text->at + at, word, size);
	text->used += size;
	return at;
}

void *mq_platform_dump(const struct mq_cluster *cluster, struct mq_arena *arena, size_t *size)
{
	size_t devices = cluster->n_devices * sizeof(struct mq_device);
	size_t links = cluster->n_links * sizeof(struct mq_link);
	size_t words = text_size(cluster);
	struct text text = { NULL, 0 };
	struct dump_head head = {
		MAGIC,
		cluster->n_devices,
		cluster->n_links,
		cluster->n_nodes,
		cluster->nics_per_node,
		cluster->nvls,
		cluster->sharp,
		(uint32_t)words,
		0,
	};

	*size = sizeof(head) + devices + links + words;
	char *bytes = mq_arena_alloc(arena, *size);
	text.at = bytes + sizeof(head) + devices + links;
	head.name = (uint32_t)add_text(&text, cluster->name);
	memcpy(bytes, &head, sizeof(head));
	for (uint32_t i = 0; i < cluster->n_devices; i++) {
		struct mq_device d = cluster->device[i];

		d.name = (const char *)(uintptr_t)add_text(&text, d.name);
		d.type = (const char *)(uintptr_t)add_text(&text, d.type);
		d.calib = MQ_NONE;
		memcpy(bytes + sizeof(head) + i * sizeof(d), &d, sizeof(d));
	}
	for (uint32_t i = 0; i < cluster->n_links; i++) {
		struct mq_link l = cluster->link[i];

		l.name = (const char *)(uintptr_t)add_text(&text, l.name);
		memcpy(bytes + sizeof(head) + devices + i * sizeof(l), &l, sizeof(l));
	}
	return bytes;
}

/* Turns an offset that was stored in a pointer back into a pointer to the text. */
static bool place(const char **word, const char *text, size_t size)
{
	size_t offset = (uintptr_t)*word;

	if (offset >= size)
		return false;
	*word = text + offset;
	return true;
}

enum mq_status mq_platform_restore(const void *bytes, size_t size, struct mq_arena *arena, struct mq_cluster **result,
				   struct mq_err *err)
{
	struct mq_cluster *cluster = mq_cluster_new(arena);
	struct dump_head head = { 0 };
	const char *at = bytes;
	bool sound = size >= sizeof(head);

	if (sound)
		memcpy(&head, bytes, sizeof(head));
	size_t devices = head.n_devices * sizeof(struct mq_device);
	size_t links = head.n_links * sizeof(struct mq_link);
	sound = sound && head.magic == MAGIC && size == sizeof(head) + devices + links + head.text_size &&
		head.text_size && !at[size - 1] && head.name < head.text_size;
	if (!sound)
		return mq_bad(err, "a platform came over the pipe broken (%zu bytes)", size);
	cluster->n_devices = head.n_devices;
	cluster->n_links = head.n_links;
	cluster->n_nodes = head.n_nodes;
	cluster->nics_per_node = head.nics_per_node;
	cluster->nvls = head.nvls;
	cluster->sharp = head.sharp;
	cluster->device = memcpy(mq_arena_alloc(arena, devices), at + sizeof(head), devices);
	cluster->link = memcpy(mq_arena_alloc(arena, links), at + sizeof(head) + devices, links);
	char *text = memcpy(mq_arena_alloc(arena, head.text_size), at + sizeof(head) + devices + links, head.text_size);
	cluster->name = text + head.name;
	for (uint32_t i = 0; i < head.n_devices; i++)
		sound = sound && place(&cluster->device[i].name, text, head.text_size) &&
			place(&cluster->device[i].type, text, head.text_size);
	for (uint32_t i = 0; i < head.n_links; i++)
		sound = sound && place(&cluster->link[i].name, text, head.text_size);
	if (!sound)
		return mq_bad(err, "a platform came over the pipe with broken names");
	*result = cluster;
	return MQ_OK;
}
