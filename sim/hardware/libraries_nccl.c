/* libraries_nccl.c - see libraries.h: the constants of NCCL's tuning, platforms/calib/nccl.json.
 *
 * Values are objects of objects by names (algorithm, protocol, kind of link, generation), or arrays by position; null
 * stands for no limit. "older" lists, newest first, what versions before one had in the place of a value: each entry
 * holds for those before it too. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "maquette/json_file.h"
#include "hardware/libraries.h"

static MQ_NAMES(link_name, int, MQ_N_NCCL_LINKS, "nvlink", "pcie", "net")

static MQ_NAMES(arch_name, int, MQ_N_ARCHS, "volta", "ampere", "hopper", "blackwell")

/* One axis of a value: positions by name, or (NULL) by array index. */
struct axis {
	int n;
	const char *(*name)(int);
	bool shorter; /* the array may be shorter; the rest is 0 */
};

#define NAMED(count, names)                                         \
	{                                                           \
		.n = (count), .name = (const char *(*)(int))(names) \
	}
#define PLACES(count)        \
	{                    \
		.n = (count) \
	}
#define UP_TO(count)                          \
	{                                     \
		.n = (count), .shorter = true \
	}
#define ALGOS  NAMED(MQ_N_ALGOS, mq_algo_name)
#define PROTOS NAMED(MQ_N_PROTOS, mq_proto_name)
#define ARCHS  NAMED(MQ_N_ARCHS, arch_name)
#define LINKS  NAMED(MQ_N_NCCL_LINKS, link_name)
#define SPEEDS UP_TO(MQ_NCCL_SPEEDS)
#define CONSTANT(field, ...)                                   \
	{                                                      \
#field, offsetof(struct mq_nccl, field), true, \
		{                                              \
			__VA_ARGS__                            \
		}                                              \
	}

struct field {
	const char *name;
	size_t at;
	bool whole;          /* every name is mandatory */
	struct axis axis[4]; /* ended by one without positions */
};

static const struct field release_fields[] = {
	{ "base_us", offsetof(struct mq_nccl_release, base), false, { ALGOS, PROTOS } },
	{ "step_us", offsetof(struct mq_nccl_release, step), false, { LINKS, ALGOS, PROTOS } },
	{ "ring_ll128_max", offsetof(struct mq_nccl_release, ring_ll128_max), false, { ARCHS, PLACES(3) } },
	{ .name = "work_us", .at = offsetof(struct mq_nccl_release, work) },
	{ .name = NULL },
};

static const struct field fields[] = {
	CONSTANT(ll_max, ARCHS),
	CONSTANT(ll_max_net, PLACES(2)),
	CONSTANT(tree_ll128_max, ARCHS, PLACES(3)),
	CONSTANT(tree_max, ARCHS, PLACES(3)),
	CONSTANT(nvls_tree_max, ARCHS, PLACES(3)),
	CONSTANT(intra_speeds, ARCHS, SPEEDS),
	CONSTANT(inter_speeds, ARCHS, SPEEDS),
	CONSTANT(nvlink, UP_TO(MQ_NCCL_NVLINKS), PLACES(3)),
	{ "tree_factor", offsetof(struct mq_nccl, tree_factor), false, { PROTOS, PLACES(MQ_NCCL_SIZES) } },
	{ .name = NULL },
};

static enum mq_status fill(json_t *json, const struct field *field, const struct axis *axis, double *out,
			   const char *where, struct mq_err *err)
{
	int stride = 1, given = 0;
	const char *key;
	json_t *item;
	char path[160];

	if (!axis->n) {
		*out = json_is_null(json) ? (double)INFINITY : json_number_value(json);
		return json_is_null(json) || (json_is_number(json) && *out >= 0 && *out <= 1e15) ?
			       MQ_OK :
			       mq_bad(err, "%s is not a number from 0 to 1e15, or null for no limit", where);
	}
	for (const struct axis *a = axis + 1; a->n; a++)
		stride *= a->n;
	if (!axis->name) {
		size_t n = json_array_size(json);

		if (axis->shorter ? !n || n >= (size_t)axis->n : n != (size_t)axis->n)
			return mq_bad(err, "%s is not an array of %s %d values", where,
				      axis->shorter ? "1 to less than" : "exactly", axis->n);
		for (size_t i = 0; i < n; i++) {
			snprintf(path, sizeof(path), "%s[%zu]", where, i);
			MQ_TRY(fill(json_array_get(json, i), field, axis + 1, out + i * (size_t)stride, path, err));
		}
		return MQ_OK;
	}
	if (!json_is_object(json))
		return mq_bad(err, "%s is not an object by names", where);
	json_object_foreach(json, key, item) {
		int i = mq_enum_find(axis->name, axis->n, key);

		if (i >= axis->n)
			return mq_bad(err, "%s: '%s' is unknown; one is '%s'", where, key, axis->name(axis->n - 1));
		snprintf(path, sizeof(path), "%s.%s", where, key);
		MQ_TRY(fill(item, field, axis + 1, out + i * stride, path, err));
		given++;
	}
	return given == axis->n || !field->whole ?
		       MQ_OK :
		       mq_bad(err, "%s has %d of %d names; restore the others", where, given, axis->n);
}

static enum mq_status fill_all(json_t *root, const struct field *list, bool all, void *out, const char *path,
			       struct mq_err *err)
{
	char where[160];

	for (const struct field *f = list; f->name; f++) {
		json_t *json = json_object_get(root, f->name);

		if (!json && !all)
			continue;
		snprintf(where, sizeof(where), "%s: %s", path, f->name);
		MQ_TRY(fill(json, f, f->axis, (double *)(void *)((char *)out + f->at), where, err));
	}
	return MQ_OK;
}

static bool known_key(const char *key, const struct field *list)
{
	if (mq_text_has_word("kind source version before older", key))
		return true;
	for (const struct field *f = list; f->name; f++)
		if (!strcmp(f->name, key))
			return true;
	return false;
}

static enum mq_status check_keys(json_t *root, const struct field *list, const struct field *more, const char *path,
				 struct mq_err *err)
{
	const char *key;
	json_t *item;

	json_object_foreach(root, key, item)
		if (!known_key(key, list) && !known_key(key, more))
			return mq_bad(err, "%s: '%s' is unknown; see platforms/calib/README.md", path, key);
	return MQ_OK;
}

static enum mq_status version(json_t *root, const char *key, const char *path, uint32_t *out, struct mq_err *err)
{
	const char *text = json_string_value(json_object_get(root, key));
	unsigned major = 0, minor = 0, patch = 0;

	if (!text || sscanf(text, "%u.%u.%u", &major, &minor, &patch) < 2)
		return mq_bad(err, "%s: \"%s\" is not a version as \"2.28.9\"", path, key);
	*out = major * 10000 + minor * 100 + patch;
	return MQ_OK;
}

static enum mq_status read_root(json_t *root, const char *path, struct mq_nccl *nccl, struct mq_err *err)
{
	json_t *older = json_object_get(root, "older"), *entry;
	size_t i;

	MQ_TRY(check_keys(root, fields, release_fields, path, err));
	MQ_TRY(version(root, "version", path, &nccl->newest, err));
	MQ_TRY(fill_all(root, fields, true, nccl, path, err));
	MQ_TRY(fill_all(root, release_fields, true, &nccl->release[0], path, err));
	nccl->before[0] = UINT32_MAX;
	nccl->n_versions = 1;
	if (json_array_size(older) >= MQ_NCCL_VERSIONS)
		return mq_bad(err, "%s: \"older\" has more than %d versions", path, MQ_NCCL_VERSIONS - 1);
	json_array_foreach(older, i, entry) {
		uint32_t n = nccl->n_versions++;

		MQ_TRY(check_keys(entry, release_fields, release_fields, path, err));
		MQ_TRY(version(entry, "before", path, &nccl->before[n], err));
		if (nccl->before[n] >= nccl->before[n - 1])
			return mq_bad(err, "%s: \"older\" is out of order; the newest comes first", path);
		nccl->release[n] = nccl->release[n - 1];
		MQ_TRY(fill_all(entry, release_fields, false, &nccl->release[n], path, err));
	}
	return MQ_OK;
}

enum mq_status mq_libraries_load_nccl(struct mq_nccl *nccl, const char *path, struct mq_err *err)
{
	json_auto_t *root = NULL;

	MQ_TRY(mq_json_file_load(path, &root, err));
	return read_root(root, path, nccl, err);
}
