/* huggingface_keys.c - see huggingface_keys.h: reads two tables of platforms/models. huggingface_keys.csv has keys and
 * the fields that they fill, for all families, since names mean the same nearly everywhere; huggingface_families.json
 * has the families: the dialects of their files, values that all their models share, and the transformers library's
 * defaults of keys that nested configurations may leave out.
 *
 * Not modelled: the one-column gate of Qwen-MoE's shared expert, norms of OLMo 2 over whole queries and keys (counted
 * per head), attention sinks, multipliers and soft caps. SPDX-License-Identifier: Apache-2.0 */
#include "model/formats/lib/huggingface_keys.h"

#include <string.h>
#include <strings.h>

#include "base/csv.h"
#include "base/paths.h"
#include "maquette/json_file.h"

/* The field of struct mq_hf_config, or of its description, by name. */
static const struct mq_field *find_field(const char *name)
{
#define X(type, name) MQ_FIELD(struct mq_hf_config, name),
	static const struct mq_field own[] = {
#include "model/formats/lib/huggingface_config.def"
	};
#undef X
	_Static_assert(!offsetof(struct mq_hf_config, t), "a description's fields have their places in the whole, too");
	const struct mq_field *field = mq_field_find(own, sizeof(own) / sizeof(*own), name), *fields;
	size_t n;

	fields = mq_transformer_fields(&n);
	return field ? field : mq_field_find(fields, n, name);
}

/* The dialects in a list of words; after "!", all others. */
static bool find_dialects(const char *words, uint32_t *dialects)
{
#define NAME(name) #name,
	static const char *const names[] = { MQ_HF_DIALECTS(NAME) };
	bool others = *words == '!';
	char word[32];
	uint32_t bits = 0;
	int n, i;

	for (words += others; sscanf(words, "%31s%n", word, &n) == 1; words += n) {
		for (i = 0; i < MQ_HF_N_DIALECTS && strcasecmp(names[i], word); i++)
			;
		if (i == MQ_HF_N_DIALECTS)
			return false;
		bits |= 1u << i;
	}
	*dialects = others ? ~bits : bits;
	return true;
}

static enum mq_status read_keys(const char *path, struct mq_arena *arena, const struct mq_hf_key **keys,
				struct mq_err *err)
{
	struct mq_hf_key *list;
	struct mq_csv csv;

	MQ_TRY(mq_csv_load_of(path, "key,field,read_by,written_by,least,most", arena, &csv, err));
	*keys = list = mq_arena_array(arena, csv.n_rows + 1, struct mq_hf_key);
	for (uint32_t i = 0; i < csv.n_rows; i++) {
		const char *name = mq_csv_word(&csv, i, "field"), *readers = mq_csv_word(&csv, i, "read_by");
		const struct mq_field *field = find_field(name);
		struct mq_hf_key *k = &list[i];

		if (!field || !strchr("nbd", field->type) || !find_dialects(*readers ? readers : "!", &k->reads) ||
		    !find_dialects(mq_csv_word(&csv, i, "written_by"), &k->writes))
			return mq_bad(err, "%s:%u: no field '%s', or no dialect of such a name", path, csv.line[i],
				      name);
		k->name = mq_csv_word(&csv, i, "key");
		k->offset = field->offset;
		k->type = !strcmp(name, "dropout") ? MQ_HF_RATE :
			  field->type == 'b'       ? MQ_HF_FLAG :
			  field->type == 'd'       ? MQ_HF_REAL :
						     MQ_HF_NUMBER;
		MQ_TRY(mq_csv_range(&csv, i, "least", 0, 0, 1, &k->min, err));
		MQ_TRY(mq_csv_range(&csv, i, "most", 1, 1, 1e12, &k->max, err));
	}
	return MQ_OK;
}

/* Sets a field as a family's row says; false: no such field or value. */
static bool start_from(struct mq_hf_config *c, const char *name, const json_t *value, struct mq_arena *arena)
{
	const struct mq_field *field = find_field(name);
	char type = field ? field->type : 0;
	void *to = (char *)c + (field ? field->offset : 0);

	if (type == 'n' && json_is_integer(value) && json_integer_value(value) == (uint32_t)json_integer_value(value))
		*(uint32_t *)to = (uint32_t)json_integer_value(value);
	else if (type == 'd' && json_is_number(value))
		*(double *)to = json_number_value(value);
	else if (type == 'b' && json_is_boolean(value))
		*(bool *)to = json_is_true(value);
	else if (type == 'c' && json_is_string(value))
		*(char *)to = *json_string_value(value);
	else if (type == 's' && json_is_string(value))
		*(const char **)to = mq_arena_strdup(arena, json_string_value(value));
	else
		return false;
	return true;
}

static enum mq_status read_family(const char *path, const json_t *row, struct mq_hf_family *f, struct mq_arena *arena,
				  struct mq_err *err)
{
	const char *key, *type = json_string_value(json_object_get(row, "model_type"));
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)row, key, value) {
		const char *text = json_string_value(value), *words = text;
		char word[40];
		bool good = text;
		int n;

		if (!strcmp(key, "model_type") && text)
			f->model_type = mq_arena_strdup(arena, text);
		else if (!strcmp(key, "architecture") && text)
			f->architecture = mq_arena_strdup(arena, text);
		else if (!strcmp(key, "dialects") && text)
			good = find_dialects(text, &f->dialects);
		else if (!strcmp(key, "is") && text)
			for (; good && sscanf(words, "%39s%n", word, &n) == 1; words += n)
				good = start_from(&f->start, word, json_true(), arena);
		else
			good = start_from(&f->start, key, value, arena);
		if (!good)
			return mq_bad(err, "%s: %s: \"%s\": no such field, or no such value", path,
				      type ? type : "a family without model_type", key);
	}
	return f->model_type && f->architecture ? MQ_OK :
						  mq_bad(err, "%s: a family without model_type or architecture", path);
}

enum mq_status mq_hf_families(struct mq_arena *arena, const struct mq_hf_family **families, struct mq_err *err)
{
	const struct mq_hf_key *keys;
	struct mq_hf_family *list;
	struct mq_csv *others = mq_arena_array(arena, 1, struct mq_csv);
	const char *dir, *path;
	json_auto_t *rows = NULL;

	MQ_TRY(mq_find_dir("platforms/models", arena, &dir, err));
	MQ_TRY(read_keys(mq_arena_printf(arena, "%s/huggingface_keys.csv", dir), arena, &keys, err));
	MQ_TRY(mq_csv_load_of(mq_arena_printf(arena, "%s/huggingface_other_keys.csv", dir), "key,not_modelled", arena,
			      others, err));
	path = mq_arena_printf(arena, "%s/huggingface_families.json", dir);
	MQ_TRY(mq_json_file_load(path, &rows, err));
	if (!json_array_size(rows))
		return mq_bad(err, "%s: not a list of families", path);
	*families = list = mq_arena_array(arena, json_array_size(rows) + 1, struct mq_hf_family);
	for (size_t i = 0; i < json_array_size(rows); i++) {
		list[i].keys = keys;
		list[i].others = others;
		MQ_TRY(read_family(path, json_array_get(rows, i), &list[i], arena, err));
	}
	return MQ_OK;
}
