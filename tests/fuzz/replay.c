/*
 * replay.c - runs a fuzz target over a corpus: `fuzz_NAME FILE|DIR... [rounds]`. Each file is tried as it
 * is, cut at several lengths, and with `rounds` (default 60) seeded mutations: flipped bits, overwritten
 * numbers, removed and repeated pieces. The same corpus gives the same inputs on every machine.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "maquette/rng.h"
#include "fuzz.h"

enum { MAX_FILES = 4096 };

static uint8_t *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "r");
	struct stat st;

	if (!f || fstat(fileno(f), &st)) {
		fprintf(stderr, "cannot read %s\n", path);
		exit(1);
	}
	uint8_t *data = malloc((size_t)st.st_size + 1);
	*size = fread(data, 1, (size_t)st.st_size, f);
	fclose(f);
	return data;
}

/* One to four changes of a copy, which has room for twice the size. */
static size_t mutate(struct mq_rng *rng, uint8_t *data, size_t size)
{
	static const char *const pieces[] = { "-1",      "1e999", "nan", "0",    "4294967296",
					      "\"",      "}",     "[",   "null", "999999999999999999999",
					      "\\u0000", "," };

	for (uint32_t changes = 1 + mq_rng_below(rng, 4); changes && size > 1; changes--) {
		size_t at = mq_rng_below(rng, (uint32_t)size), rest = size - at;
		size_t piece = 1 + mq_rng_below(rng, (uint32_t)(rest < 64 ? rest : 64));
		const char *text = pieces[mq_rng_below(rng, 12)];
		size_t length = strlen(text) < rest ? strlen(text) : rest;

		switch (mq_rng_below(rng, 4)) {
		case 0:
			data[at] ^= (uint8_t)(1u << mq_rng_below(rng, 8));
			break;
		case 1:
			memcpy(data + at, text, length);
			break;
		case 2:
			memmove(data + at, data + at + piece, rest - piece);
			size -= piece;
			break;
		default:
			memmove(data + at + piece, data + at, rest);
			size += piece;
		}
	}
	return size;
}

static void try_file(fuzz_target *target, const char *path, uint32_t rounds)
{
	size_t size;
	uint8_t *data = read_file(path, &size);
	uint8_t *copy = malloc(size + 512);
	struct mq_rng rng;

	mq_rng_seed(&rng, mq_hash(MQ_HASH_INIT, data, size));
	target(data, size);
	for (size_t part = 1; part < 8; part++)
		target(data, size * part / 8);
	for (uint32_t i = 0; i < rounds && size > 1; i++) {
		memcpy(copy, data, size);
		target(copy, mutate(&rng, copy, size));
	}
	free(copy);
	free(data);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static uint32_t try_path(fuzz_target *target, const char *path, uint32_t rounds)
{
	char *name[MAX_FILES];
	uint32_t n = 0;
	struct dirent *entry;
	DIR *dir = opendir(path);

	if (!dir) {
		try_file(target, path, rounds);
		return 1;
	}
	while ((entry = readdir(dir)) && n < MAX_FILES)
		if (entry->d_name[0] != '.' && asprintf(&name[n], "%s/%s", path, entry->d_name) > 0)
			n++;
	closedir(dir);
	qsort(name, n, sizeof(*name), by_name);
	for (uint32_t i = 0; i < n; i++) {
		try_file(target, name[i], rounds);
		free(name[i]);
	}
	return n;
}

int fuzz_replay(fuzz_target *target, int argc, char **argv)
{
	uint32_t rounds = 60, n = 0;

	if (argc > 2 && strspn(argv[argc - 1], "0123456789") == strlen(argv[argc - 1]))
		rounds = (uint32_t)strtoul(argv[--argc], NULL, 10);
	for (int i = 1; i < argc; i++)
		n += try_path(target, argv[i], rounds);
	printf("%u files, %u mutations each\n", n, rounds);
	return n == 0;
}
