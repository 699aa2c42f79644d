/* preset.c - see preset.h. SPDX-License-Identifier: Apache-2.0 */
#include "model/builders/lib/preset.h"

#include <string.h>

#include "base/paths.h"
#include "maquette/json_file.h"

static enum mq_status find_size(const json_t *sizes, const char *path, const char *model, const char *size,
				struct mq_arena *arena, const char **options, struct mq_err *err)
{
	const char *name, *list = "";
	json_t *value;

	json_object_foreach(json_object_get(sizes, model), name, value) {
		if (json_is_string(value) && (!size || !strcmp(name, size))) {
			*options = mq_arena_strdup(arena, json_string_value(value));
			return MQ_OK;
		}
		list = mq_arena_printf(arena, "%s%s%s", list, *list ? " " : "", name);
	}
	if (!size || !*list)
		return mq_bad(err, "%s: no sizes of model '%s'", path, model);
	return mq_bad(err, "model '%s': no size '%s'; it has: %s", model, size, list);
}

enum mq_status mq_preset_read(const struct mq_opt *opts, const char *model, const char *text, void *given, void *preset,
			      struct mq_arena *arena, struct mq_err *err)
{
	const char *dir, *path, *published = NULL;
	json_auto_t *sizes = NULL;

	mq_opt_defaults(opts, given);
	mq_opt_defaults(opts, preset);
	MQ_TRY(mq_opt_parse(opts, given, mq_arena_printf(arena, "model '%s'", model), text, arena, err));
	MQ_TRY(mq_find_dir("platforms/models", arena, &dir, err));
	path = mq_arena_printf(arena, "%s/sizes.json", dir);
	MQ_TRY(mq_json_file_load(path, &sizes, err));
	MQ_TRY(find_size(sizes, path, model, *(const char *const *)((char *)given + opts->offset), arena, &published,
			 err));
	return mq_opt_parse(opts, preset, path, published, arena, err);
}

void mq_preset_merge(const struct mq_opt *opts, void *given, const void *preset)
{
	for (const struct mq_opt *o = opts; o->type != MQ_OPT_END; o++) {
		void *to = (char *)given + o->offset;
		const void *from = (const char *)preset + o->offset;

		if (o->type == MQ_OPT_STR && !*(const char **)to)
			*(const char **)to = *(const char *const *)from;
		else if (o->type == MQ_OPT_BOOL && *(bool *)to == (o->initial > 0))
			*(bool *)to = *(const bool *)from;
		else if ((o->type == MQ_OPT_U32 || o->type == MQ_OPT_CHOICE) && *(uint32_t *)to == o->initial)
			*(uint32_t *)to = *(const uint32_t *)from;
	}
}

const char *mq_builtin_name(const char *model, const char *options, struct mq_arena *arena)
{
	return options && *options ? mq_arena_printf(arena, "%s:%s", model, options) : model;
}
