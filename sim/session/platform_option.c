/* platform_option.c - resolves -p to a file that SimGrid loads: a path, a shipped platform, or keys of `platform
 * generate`, from which a file is made in a new temporary folder. Folders that a killed command left are removed by the
 * next one. SPDX-License-Identifier: Apache-2.0 */
#include "session/session.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/csv.h"
#include "hardware/platform/platform.h"

static const char *const names[] = { "platform.xml", "platform.keys", "platform.calib.json", "accelerator.json",
				     "cpu.json" };
enum { KEYS = 1, N_NAMES = sizeof(names) / sizeof(*names), PREFIX_B = 19 };
static const char prefix[PREFIX_B + 1] = ".maquette-platform-";

static void remove_folder(const char *dir)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;

	for (int i = 0; i < N_NAMES; i++)
		unlink(mq_arena_printf(&scratch, "%s/%s", dir, names[i]));
	rmdir(dir);
}

/* Opens a folder and locks it until the process ends. -1: another process has it. */
static int lock_folder(const char *dir)
{
	struct stat here, held;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	/* Between mkdtemp and the lock another process may have removed it as left behind. */
	if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &held) && held.st_uid == geteuid() &&
	    !stat(dir, &here) && here.st_ino == held.st_ino)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Removes folders that killed commands left. */
static void remove_abandoned(const char *tmp)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	DIR *dir = opendir(tmp);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, prefix, PREFIX_B) || strlen(entry->d_name) != PREFIX_B + 6)
			continue;
		const char *path = mq_arena_printf(&scratch, "%s/%s", tmp, entry->d_name);
		int fd = lock_folder(path);

		if (fd >= 0) {
			remove_folder(path);
			close(fd);
		}
	}
	if (dir)
		closedir(dir);
}

enum mq_status mq_platform_folder(struct mq_arena *arena, struct mq_platform_file *file, struct mq_err *err)
{
	const char *tmp = getenv("TMPDIR");

	*file = (struct mq_platform_file){ .held = -1 };
	tmp = tmp && *tmp ? tmp : "/tmp";
	remove_abandoned(tmp);
	while (file->held < 0) {
		char *dir = mq_arena_printf(arena, "%s/%sXXXXXX", tmp, prefix);

		if (!mkdtemp(dir))
			return mq_bad(err, "%s: cannot make a folder: %s", dir, strerror(errno));
		file->dir = dir;
		file->held = lock_folder(dir);
		if (file->held < 0 && !access(dir, F_OK)) /* a file system without locks */
			break;
	}
	file->path = mq_arena_printf(arena, "%s/%s", file->dir, names[0]);
	return MQ_OK;
}

/* ---- "64xH100", "8 x p5.48xlarge" ----------------------------------------------------------------- */

/* "ND H100 v5": do several words stand in the series that a machine's source begins with, "Azure ND H100 v5: ..."?
 * Names of machines lack some (Standard_ND96asr_v4 is ND A100 v4, Standard_ND96amsr_A100_v4 is NDm A100 v4). */
static bool is_of_series(const char *words, const char *source)
{
	static const char between[] = " ._-";
	size_t n = strlen(words), end = strcspn(source, ":");

	if (!strpbrk(words, between) || !source[end])
		return false;
	for (size_t at = 0; at + n <= end; at++) {
		const char *here = source + at;
		size_t i = 0;

		while (i < n && (strncasecmp(here + i, words + i, 1) == 0 ||
				 (strchr(between, here[i]) && strchr(between, words[i]))))
			i++;
		if (i == n && (!at || here[-1] == ' ') && (here[n] == ' ' || here[n] == ':'))
			return true;
	}
	return false;
}

/* The keys of a machine of platforms/machines.csv, or (without gpu=) of a device type's usual machine. *keys = NULL: no
 * such name; an error if the name must be a machine's and looks like one. */
static enum mq_status machine_keys(const char *name, bool must, struct mq_arena *arena, const char **keys,
				   struct mq_err *err)
{
	const char *dir, **known, *near;
	struct mq_csv csv;

	*keys = NULL;
	MQ_TRY(mq_find_dir("platforms", arena, &dir, err));
	MQ_TRY(mq_csv_load_of(mq_arena_printf(arena, "%s/machines.csv", dir), "machine,keys,source", arena, &csv, err));
	known = mq_arena_array(arena, csv.n_rows + 1, const char *);
	for (uint32_t r = 0; r < csv.n_rows && !*keys; r++) {
		known[r] = mq_csv_word(&csv, r, "machine");
		if (!strcasecmp(known[r], name))
			*keys = mq_csv_word(&csv, r, "keys");
	}
	const char *series = "", *one = NULL;
	for (uint32_t r = 0; r < csv.n_rows && !*keys && must; r++)
		if (is_of_series(name, mq_csv_word(&csv, r, "source"))) {
			series = mq_arena_printf(arena, "%s%s%s", series, *series ? ", " : "", known[r]);
			one = strchr(series, ',') ? NULL : mq_csv_word(&csv, r, "keys");
		}
	if (*series && !one)
		return mq_bad(err, "platform: '%s': which one? %s", name, series);
	*keys = one ? one : *keys;
	if (*keys || !must || (!strpbrk(name, "._") && !strstr(name, "gpu-") && !strstr(name, "standard-")))
		return MQ_OK;
	near = mq_nearest(name, known);
	return mq_bad(err, "platform: no machine '%s' in %s/machines.csv%s%s%s; write gpu=TYPE nodes=N gpus=N", name,
		      dir, near ? ", but '" : "", near ? near : "", near ? "'" : "");
}

static bool is_machine(const char *keys)
{
	return !strncmp(keys, "gpu=", 4);
}

enum mq_status mq_platform_words(const char *text, struct mq_arena *arena, const char **keys, struct mq_err *err)
{
	const char *machine;
	char name[128] = "";
	uint32_t n = 0;
	int end = 0;

	*keys = text;
	if (sscanf(text, " gpu=%127[^*@+,; ]%n", name, &end) == 1 && !strspn(text + end, "*@+")) {
		MQ_TRY(machine_keys(name, false, arena, &machine, err));
		if (machine) /* gpu=p3.8xlarge: its type and number of GPUs */
			*keys = mq_arena_printf(arena, "%s %s%s%s", machine,
						is_machine(machine) ? "" : "gpu=", is_machine(machine) ? "" : name,
						text + end);
		return MQ_OK;
	}
	if (sscanf(text, " %9u %*1[xX] %127[^=,;]%n", &n, name, &end) < 2 || !n || n > 1e9 || !access(text, F_OK))
		return MQ_OK;
	if (text[end] == '=') /* the last word is a key: the rest are further keys */
		while (*name && !isspace((unsigned char)text[end - 1]))
			name[strlen(name) - 1] = '\0', end--;
	while (*name && isspace((unsigned char)name[strlen(name) - 1]))
		name[strlen(name) - 1] = '\0';
	if (!*name)
		return MQ_OK;
	const char *more = text + end, *plus = strchr(name, '+');
	uint32_t second;

	if (plus && sscanf(plus + 1, " %9u %1[xX]", &second, (char[2]){ "" }) == 2)
		return mq_bad(err,
			      "platform '%s': several kinds are keys, TYPE*MACHINESxGPUS@PORT: "
			      "\"gpu=A100-80GB*2x8@25Gb/s+L40S*4x4@25Gb/s network=eth\"",
			      text);
	struct mq_platform_spec spec;

	MQ_TRY(machine_keys(name, true, arena, &machine, err));
	if (machine && is_machine(machine))
		return *keys = mq_arena_printf(arena, "%s nodes=%u%s%s", machine, n, *more ? " " : "", more), MQ_OK;
	more = machine ? mq_arena_printf(arena, "%s %s", machine, more) : more;
	mq_platform_spec_init(&spec);
	MQ_TRY(mq_platform_spec_parse(more, &spec, arena, err));
	uint32_t each = n < spec.gpus ? n : spec.gpus;
	if (n % each)
		return mq_bad(err, "platform '%s': %u devices are no machines of %u; add gpus=N", text, n, each);
	*keys = mq_arena_printf(arena, "gpu=%s nodes=%u %s gpus=%u", name, n / each, more, each);
	return MQ_OK;
}

enum mq_status mq_platform_open(const char *text, const struct mq_calib *calib, struct mq_arena *arena,
				struct mq_platform_file *file, struct mq_err *err)
{
	struct mq_platform_spec spec;

	*file = (struct mq_platform_file){ .path = NULL };
	MQ_TRY(mq_platform_words(text, arena, &text, err));
	if (!mq_platform_spec_is(text))
		return mq_find_platform(text, arena, &file->path, err);
	mq_platform_spec_init(&spec);
	MQ_TRY(mq_platform_spec_parse(text, &spec, arena, err));
	MQ_TRY(mq_platform_folder(arena, file, err));
	bool built = mq_platform_is_built(&spec);
	if (built)
		file->path = mq_arena_printf(arena, "%s/%s", file->dir, names[KEYS]);
	MQ_TRY(mq_platform_generate(&spec, calib, built ? text : NULL, file->path, err));
	file->type = mq_platform_spec_types(&spec, calib, arena);
	return MQ_OK;
}

void mq_platform_file_close(const struct mq_platform_file *file)
{
	if (!file->dir)
		return;
	remove_folder(file->dir);
	if (file->held >= 0)
		close(file->held);
}
