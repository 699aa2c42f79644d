/*
 * file.c - the bytes that a target is given, as a file: in memory where the machine has /dev/shm, and written
 * over in place, because targets that only read are as fast as this is. And a folder of the process's own.
 * SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

enum { MAX_NAMES = 8 };

static struct {
	char path[128];
	int fd;
} file[MAX_NAMES];
static uint32_t n_files;
static char folder[64];
static pid_t owner; /* a fork of a target leaves the files alone */

static void fail(const char *what)
{
	fprintf(stderr, "cannot write %s: %m\n", what);
	_exit(1);
}

static void clean(void)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	if (getpid() == owner && system(command))
		fprintf(stderr, "left: %s\n", folder);
}

const char *fuzz_folder(void)
{
	if (*folder)
		return folder;
	strcpy(folder, access("/dev/shm", W_OK) ? "/tmp/fuzz-XXXXXX" : "/dev/shm/fuzz-XXXXXX");
	if (!mkdtemp(folder))
		fail(folder);
	owner = getpid();
	atexit(clean);
	return folder;
}

const char *fuzz_file(const uint8_t *data, size_t size, const char *name)
{
	char path[128];
	uint32_t i = 0;

	snprintf(path, sizeof(path), "%s/%s%s", fuzz_folder(), *name && *name != '.' ? "" : "input", name);
	while (i < n_files && strcmp(file[i].path, path))
		i++;
	if (i == n_files) {
		strcpy(file[i].path, path);
		file[i].fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (++n_files > MAX_NAMES || file[i].fd < 0)
			fail(path);
	}
	if (pwrite(file[i].fd, data, size, 0) != (ssize_t)size || ftruncate(file[i].fd, (off_t)size))
		fail(path);
	return file[i].path;
}
