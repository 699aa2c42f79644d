/* software.c - see software.h. Reader, options, columns of tables of runs and documentation all come from one
 * table with a row per field. SPDX-License-Identifier: Apache-2.0 */
#include "software/software_impl.h"

#include <stddef.h>
#include <string.h>

#include "maquette/rng.h"
#include "base/text.h"

static const struct mq_software_field fields[] = {
#define MQ_NUM(group, field, unit, initial, min, max, help) \
	{ MQ_F64(struct mq_software, field, initial, min, max, help), unit, MQ_SW_##group },
#define MQ_INT(group, field, unit, initial, min, max, help) \
	{ MQ_U32(struct mq_software, field, initial, min, max, help), unit, MQ_SW_##group },
#define MQ_YES(group, field, initial, help) { MQ_BOOL(struct mq_software, field, initial, help), "0/1", MQ_SW_##group },
#define MQ_WORD(group, field, initial, words, help) \
	{ MQ_CHOICE(struct mq_software, field, initial, words, help), "word", MQ_SW_##group },
#define MQ_TEXT(group, field, initial, help) \
	{ MQ_STR(struct mq_software, field, initial, help), "text", MQ_SW_##group },
#include "maquette/software_fields.def"
	{ .opt = MQ_END }
};
enum { N_FIELDS = sizeof(fields) / sizeof(*fields) - 1 };

const struct mq_software_field *mq_software_fields(void)
{
	return fields;
}

uint32_t mq_software_field_find(const char *name)
{
	for (uint32_t i = 0; i < N_FIELDS; i++)
		if (!strcmp(fields[i].opt.name, name))
			return i;
	return UINT32_MAX;
}

MQ_NAMES(mq_software_group_name, enum mq_software_group, MQ_N_SW_GROUPS, "kernels", "host", "communication", "memory",
	 "defaults")

const struct mq_space_flag *mq_space_flags(void)
{
#define FLAG(key, initial) { #key, offsetof(struct mq_software_space, key) },
	static const struct mq_space_flag flags[] = { MQ_SPACE_FLAGS(FLAG){ NULL, 0 } };
#undef FLAG

	return flags;
}

MQ_NAMES(mq_models_name, enum mq_models, MQ_N_MODELS, "any", "layers", "one-width", "llama-like")

const char *mq_switch_name(uint32_t i)
{
	for (int d = 0; d < MQ_N_DECISIONS; d++)
		if (mq_decision(d)->bit == 1u << i)
			return mq_decision(d)->setting ? mq_decision(d)->setting : mq_decision(d)->name;
	return "?";
}

MQ_NAMES(mq_evidence_name, enum mq_evidence, MQ_N_EVIDENCE, "assumed", "documented", "counted", "fitted")

/* Every plan. */
#define MQ_SPACE_INITIAL(key, initial) .key = initial,
#define MQ_SPACE_ALL                                                                                           \
	{                                                                                                      \
		.schedules = UINT32_MAX, .recomputes = UINT32_MAX, .dtypes = UINT32_MAX, .syncs = UINT32_MAX,  \
		.sync_split = UINT32_MAX, .switches = UINT32_MAX, .sequence = UINT32_MAX, .vocab = UINT32_MAX, \
		.parts = UINT32_MAX, .models = MQ_MODELS_ANY, .gpu = true, .cpu = true,                        \
		MQ_SPACE_FLAGS(MQ_SPACE_INITIAL)                                                               \
	}

const struct mq_software *mq_software_plain(void)
{
	static const struct mq_software plain = {
		.name = "plain",
		.file = "plain",
		.about = "",
		.flags = "",
		.runs = MQ_SPACE_ALL,
#define MQ_NUM(group, field, unit, initial, ...) .field = initial,
#define MQ_INT(group, field, unit, initial, ...) .field = initial,
#define MQ_YES(group, field, initial, ...)       .field = initial,
#define MQ_WORD(group, field, initial, ...)      .field = initial,
#define MQ_TEXT(group, field, initial, ...)      .field = initial,
#include "maquette/software_fields.def"
	};

	return &plain;
}

uint64_t mq_software_hash(const struct mq_software *s, uint64_t hash)
{
	static const size_t size[] = {
		[MQ_OPT_U32] = sizeof(uint32_t),
		[MQ_OPT_F64] = sizeof(double),
		[MQ_OPT_BOOL] = sizeof(bool),
		[MQ_OPT_CHOICE] = sizeof(uint32_t),
		[MQ_OPT_STR] = 0,
	};
	const struct mq_software_space *runs = &s->runs;

	for (uint32_t i = 0; i < N_FIELDS; i++) {
		const void *at = (const char *)s + fields[i].opt.offset;

		if (fields[i].opt.type == MQ_OPT_STR)
			hash = mq_hash(hash, *(const char *const *)at, strlen(*(const char *const *)at) + 1);
		else
			hash = mq_hash(hash, at, size[fields[i].opt.type]);
	}
	return mq_hash(hash, runs, offsetof(struct mq_software_space, placement) + sizeof(runs->placement));
}

const char *mq_software_renamed(const char *old)
{
	static const char *const names[][2] = {
#define X(old, name) { old, name },
#include "software/software_renamed.def"
#undef X
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(old, names[i][0]))
			return names[i][1];
	return NULL;
}

enum mq_status mq_software_set_one(struct mq_software *software, const char *what, const char *key, const char *value,
				   struct mq_arena *arena, struct mq_err *err)
{
	uint32_t i = mq_software_field_find(key);

	if (i < N_FIELDS) {
		const struct mq_opt one[] = { fields[i].opt, MQ_END };

		return mq_opt_set(one, software, what, key, value, arena, err);
	}
	if (mq_software_renamed(key))
		return mq_bad(err, "%s: '%s' of software is now '%s'%s", what, key, mq_software_renamed(key),
			      strcmp(key, "bucket_copies") ? "" : ", its opposite");
	const char *names[N_FIELDS + 1] = { NULL };
	for (uint32_t k = 0; k < N_FIELDS; k++)
		names[k] = fields[k].opt.name;
	const char *near = mq_nearest(key, names);
	return mq_bad(err, "%s: software has no '%s'%s%s%s; `maquette list software NAME` prints all", what, key,
		      near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

enum mq_status mq_software_set(struct mq_software *software, const char *what, const char *options,
			       struct mq_arena *arena, struct mq_err *err)
{
	char *item;

	while ((item = mq_text_next(&options, ",;", arena))) {
		char *value = strchr(item, '=');
		if (!*item)
			continue;
		if (!value)
			return mq_bad(err, "%s: '%s' is not KEY=VALUE", what, item);
		*value++ = '\0';
		MQ_TRY(mq_software_set_one(software, what, item, value, arena, err));
		software->name = mq_arena_printf(arena, "%s,%s=%s", software->name, item, value);
	}
	return MQ_OK;
}
