/* paths.c - shipped platforms by name, output folders, numbers with units for people.
 * SPDX-License-Identifier: Apache-2.0 */
#include "session/session.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "maquette/loader.h"

enum mq_status mq_find_platform(const char *name, struct mq_arena *arena, const char **path, struct mq_err *err)
{
	const char *dir, **names, *near;

	*path = name;
	if (!access(name, F_OK))
		return MQ_OK;
	if (strchr(name, '/') || (strstr(name, ".xml") && !strstr(name, ".xml")[4]))
		return mq_bad(err, "%s: cannot open the platform: %s; see `maquette list platforms`", name,
			      strerror(errno));
	MQ_TRY(mq_find_dir("platforms", arena, &dir, err));
	*path = mq_arena_printf(arena, "%s/%s.xml", dir, name);
	if (!access(*path, F_OK))
		return MQ_OK;
	MQ_TRY(mq_plugin_names(dir, ".xml", arena, &names, err));
	for (uint32_t i = 0; names[i]; i++) /* '-' and '_' are equal */
		if (!strcmp(names[i], name)) {
			char *file = mq_arena_strdup(arena, name);

			for (char *c = file; *c; c++)
				*c = *c == '-' ? '_' : *c;
			*path = mq_arena_printf(arena, "%s/%s.xml", dir, file);
			return MQ_OK;
		}
	near = mq_nearest(name, names);
	return mq_bad(
		err,
		"no platform '%s'%s%s%s; give a file, a name of `maquette list platforms`, devices as 64xH100 or machines as 2xp5.48xlarge",
		name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

enum mq_status mq_output_apart(const char *option, const char *output, const char *const *input, uint32_t n,
			       struct mq_err *err)
{
	struct stat out, in;

	if (!output || stat(output, &out) || !(S_ISREG(out.st_mode) || S_ISDIR(out.st_mode)))
		return MQ_OK;
	for (uint32_t i = 0; i < n; i++)
		if (input[i] && !stat(input[i], &in) && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
			return mq_bad(err, "%s %s would overwrite %s, which is read; choose another", option, output,
				      input[i]);
	return MQ_OK;
}

enum mq_status mq_make_dir(const char *path, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	char *copy = mq_arena_strdup(&arena, path);
	int failed = 0;

	for (char *c = copy + 1; *c && !failed; c++)
		if (*c == '/') {
			*c = '\0';
			failed = mkdir(copy, 0777) && errno != EEXIST;
			*c = '/';
		}
	if (!failed)
		failed = mkdir(copy, 0777) && errno != EEXIST;
	int reason = errno;
	if (!failed && !mq_is_dir(path)) {
		failed = 1;
		reason = ENOTDIR;
	}
	if (failed)
		return mq_bad(err, "-o %s: cannot make the folder: %s", path, strerror(reason));
	return MQ_OK;
}

const char *mq_text_s(double s, char text[32])
{
	if (fabs(s) < 1e-12)
		snprintf(text, 32, "0");
	else if (s < 1e-3)
		snprintf(text, 32, "%.4g us", s * 1e6);
	else if (s < 1)
		snprintf(text, 32, "%.4g ms", s * 1e3);
	else
		snprintf(text, 32, "%.4g s", s);
	return text;
}

const char *mq_text_usd(double usd, char text[32])
{
	if (usd < 1e6)
		snprintf(text, 32, usd < 1e3 ? "$%.4g" : "$%.0f", usd);
	else
		snprintf(text, 32, "$%.4g %sillion", usd / (usd < 1e9 ? 1e6 : 1e9), usd < 1e9 ? "m" : "b");
	return text;
}

const char *mq_text_B(double bytes, char text[32])
{
	if (bytes < 1e6)
		snprintf(text, 32, "%.4g kB", bytes / 1e3);
	else if (bytes < 1e9)
		snprintf(text, 32, "%.4g MB", bytes / 1e6);
	else
		snprintf(text, 32, "%.4g GB", bytes / 1e9);
	return text;
}
