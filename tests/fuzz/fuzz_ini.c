/*
 * fuzz_ini.c - job files: what is read, written again and read again is the same. Keys are the program's own
 * words: of others only the values are.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <stdlib.h>

#include "base/ini.h"

#define WORD "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

struct lines {
	FILE *file; /* NULL: none is written */
	const struct mq_ini_item *want;
	uint32_t n;
	struct mq_ini_item item[64];
};

static enum mq_status take(void *context, const struct mq_ini_item *item, struct mq_err *err)
{
	struct lines *l = context;

	mq_assert(item->key && item->value && item->section);
	if (l->want) {
		mq_assert(!strcmp(item->key, l->want[l->n].key));
		mq_assert(!strcmp(item->value, l->want[l->n].value));
	}
	if (l->n == sizeof(l->item) / sizeof(*l->item))
		return MQ_DONE;
	l->item[l->n++] = *item;
	return MQ_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct lines lines = { .n = 0 }, again = { .want = lines.item };
	struct mq_err err = MQ_ERR_INIT;
	char *text = NULL;
	size_t written = 0;
	enum mq_status status = mq_ini_read(fuzz_file(data, size, ".ini"), &arena, take, &lines, &err);

	if (status != MQ_DONE)
		fuzz_refused(status, &err);
	if (status == MQ_OK) {
		FILE *f = open_memstream(&text, &written);

		for (uint32_t i = 0; i < lines.n; i++) {
			if (strspn(lines.item[i].key, WORD) != strlen(lines.item[i].key))
				lines.item[i].key = "key";
			mq_ini_put(f, lines.item[i].key, lines.item[i].value);
		}
		fclose(f);
		const char *path = fuzz_file((const uint8_t *)text, written, ".ini");
		mq_assert(mq_ini_read(path, &arena, take, &again, &err) == MQ_OK && again.n == lines.n);
		free(text);
	}
	mq_arena_fini(&arena);
	return 0;
}
