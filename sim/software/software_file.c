/* software_file.c - files of training software: reading, inheritance, list of all. See software.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/paths.h"
#include "base/text.h"
#include "maquette/json_file.h"
#include "software/software_impl.h"

enum { MAX_ANCESTORS = 16 };

/* Software files already read, for those that inherit from them. */
struct kept {
	struct mq_software_record *record;
	uint32_t n, room;
};

struct reader {
	const char *dir;
	struct mq_arena *arena;
	struct mq_software_record *record;
	const char *chain[MAX_ANCESTORS]; /* the requested software and its ancestors so far */
	uint32_t n_chain;
	struct kept *kept;       /* or NULL */
	const char *path, *name; /* of the file being read */
	struct mq_err *err;
};

/* ---- what there is --------------------------------------------------------------------------------- */

enum mq_status mq_software_names(const char *dir, struct mq_arena *arena, const char ***names, struct mq_err *err)
{
	uint32_t n;

	*names = mq_folder_names(dir, "", ".json", arena, &n);
	if (!*names)
		return mq_bad(err, "%s: cannot read the folder of training software: %m", dir);
	for (uint32_t i = 0; i < n; i++)
		(*names)[i] = mq_arena_printf(arena, "%.*s", (int)strlen((*names)[i]) - 5, (*names)[i]);
	qsort(*names, n, sizeof(**names), mq_by_text);
	return MQ_OK;
}

static enum mq_status unknown(const struct reader *r, const char *name)
{
	static const char *const others[][2] = {
#define X(name, described_by) { name, described_by },
#include "software/software_other_names.def"
#undef X
	};
	const char **names;
	char list[320] = "";
	size_t used = 0;

	MQ_TRY(mq_software_names(r->dir, r->arena, &names, r->err));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (!strcasecmp(others[i][0], name))
			return mq_bad(r->err, "no training software '%s': %s%s", name,
				      others[i][1] ? "its runs are described by " :
						     "its kernels are not described here",
				      others[i][1] ? others[i][1] : "; `maquette list software` has all");
	const char *near = mq_nearest(name, names);
	if (near)
		return mq_bad(r->err, "no training software '%s'; did you mean '%s'? `maquette list software` has all",
			      name, near);
	for (; *names && used + strlen(*names) + 2 < sizeof(list); names++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, " %s", *names);
	return mq_bad(r->err, "no training software '%s'; there are:%s%s", name, list, *names ? " ..." : "");
}

/* ---- values ----------------------------------------------------------------------------------------- */

static enum mq_status bad(const struct reader *r, const char *key, const char *remedy)
{
	return mq_bad(r->err, "%s: '%s' %s", r->path, key, remedy);
}

/* The text of a number, word or boolean; NULL: another type. */
static const char *text_of(const json_t *value, struct mq_arena *arena)
{
	if (json_is_string(value))
		return mq_arena_strdup(arena, json_string_value(value));
	if (json_is_boolean(value))
		return json_is_true(value) ? "1" : "0";
	if (json_is_number(value))
		return mq_arena_printf(arena, "%.17g", json_number_value(value));
	return NULL;
}

static const char *copied(const struct reader *r, const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? mq_arena_strdup(r->arena, text) : NULL;
}

static enum mq_status read_note(const struct reader *r, const char *key, const json_t *object,
				struct mq_software_note *note)
{
	const json_t *interval = json_object_get(object, "interval");
	const char *from = json_string_value(json_object_get(object, "from"));

	*note = (struct mq_software_note){
		.evidence = (enum mq_evidence)MQ_ENUM_FIND(mq_evidence_name, MQ_N_EVIDENCE, from ? from : ""),
		.source = copied(r, object, "source"),
		.rows = copied(r, object, "rows"),
		.low = json_number_value(json_array_get(interval, 0)),
		.high = json_number_value(json_array_get(interval, 1)),
		.file = r->name,
	};
	if (!json_is_array(interval))
		note->low = note->high = NAN;
	if (note->evidence == MQ_ASSUMED || note->evidence >= MQ_N_EVIDENCE)
		return bad(r, key, "does not say where it is from; give \"from\": documented, counted or fitted");
	if (!note->source || !*note->source)
		return bad(r, key, "has no \"source\"");
	bool pair = json_array_size(interval) == 2 && json_is_number(json_array_get(interval, 0)) &&
		    json_is_number(json_array_get(interval, 1)) && note->low <= note->high;
	if ((interval && !pair) || (note->evidence == MQ_FITTED && !(note->rows && pair)))
		return bad(r, key, "is fitted: give its \"rows\" and \"interval\": [low, high]");
	return MQ_OK;
}

static enum mq_status read_value(const struct reader *r, const char *key, const json_t *object)
{
	const char *text = text_of(json_object_get(object, "value"), r->arena);
	uint32_t field;

	if (!text)
		return bad(r, key, "has no \"value\" that is a number, a word, true or false");
	MQ_TRY(mq_software_set_one(&r->record->software, r->path, key, text, r->arena, r->err));
	field = mq_software_field_find(key);
	return read_note(r, key, object, &r->record->note[field]);
}

/* ---- plans it runs ----------------------------------------------------------------------------------- */

struct list {
	const char *key;
	uint32_t *bits;
	const char *(*name_of)(int);
	int n;
};

static enum mq_status read_list(const struct reader *r, const struct list *list, const json_t *value)
{
	const json_t *item;
	size_t i;

	if (!json_is_array(value))
		return bad(r, list->key, "in \"runs\" is not a list");
	*list->bits = 0;
	json_array_foreach(value, i, item) {
		const char *word = json_string_value(item);
		int at = mq_enum_find(list->name_of, list->n, word ? word : "");

		if (at == list->n)
			return mq_bad(r->err, "%s: \"runs\": %s has no '%s'", r->path, list->key,
				      word ? word : "(not a word)");
		*list->bits |= 1u << at;
	}
	return MQ_OK;
}

static enum mq_status read_devices(const struct reader *r, const json_t *value)
{
	struct mq_software_space *s = &r->record->software.runs;
	const json_t *item;
	size_t i;

	s->gpu = s->cpu = false;
	json_array_foreach(value, i, item) {
		const char *word = json_string_value(item);

		if (word && !strcmp(word, "gpu"))
			s->gpu = true;
		else if (word && !strcmp(word, "cpu"))
			s->cpu = true;
		else
			return bad(r, "devices", "in \"runs\" are gpu and cpu");
	}
	return s->gpu || s->cpu ? MQ_OK : bad(r, "devices", "in \"runs\" is a list of gpu and cpu");
}

typedef const char *name_fn(int);

static const char *no_or_yes(int i)
{
	return i ? "yes" : "no"; /* MQ_WHOLE, MQ_SPLIT */
}

/* MQ_EINPUT for an unknown key, with the known ones. */
static enum mq_status no_rule(const struct reader *r, const char *key, const struct list *lists, size_t n)
{
	char known[480];
	size_t used = 0;

	for (size_t i = 0; i < n; i++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s ", lists[i].key);
	used += (size_t)snprintf(known + used, sizeof(known) - used, "devices models");
	for (const struct mq_space_flag *f = mq_space_flags(); f->name; f++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, " %s", f->name);
	mq_assert(used < sizeof(known));
	return mq_bad(r->err, "%s: '%s' in \"runs\" is unknown; there are %s", r->path, key, known);
}

static enum mq_status read_rule(const struct reader *r, const char *key, const json_t *value)
{
	struct mq_software_space *s = &r->record->software.runs;
	const struct list lists[] = {
		{ "schedules", &s->schedules, (name_fn *)mq_pipeline_name, MQ_N_PIPELINES },
		{ "sync", &s->syncs, (name_fn *)mq_sync_name, MQ_N_SYNCS },
		{ "sync_split", &s->sync_split, (name_fn *)mq_sync_name, MQ_N_SYNCS },
		{ "recompute", &s->recomputes, (name_fn *)mq_recompute_name, MQ_N_RECOMPUTES },
		{ "dtypes", &s->dtypes, (name_fn *)mq_dtype_name, MQ_N_DTYPES },
		{ "switches", &s->switches, (name_fn *)mq_switch_name, MQ_N_SWITCHES },
		{ "sequence_parallel", &s->sequence, no_or_yes, 2 },
		{ "vocab_parallel", &s->vocab, no_or_yes, 2 },
		{ "parts", &s->parts, (name_fn *)mq_model_part_name, MQ_N_MODEL_PARTS },
	};
	enum { N_LISTS = sizeof(lists) / sizeof(*lists) };

	if (!strcmp(key, "devices"))
		return read_devices(r, value);
	if (!strcmp(key, "models")) {
		const char *word = json_string_value(value);

		s->models = (uint32_t)MQ_ENUM_FIND(mq_models_name, MQ_N_MODELS, word ? word : "");
		return s->models < MQ_N_MODELS ? MQ_OK :
						 bad(r, key, "in \"runs\" is any, layers, one-width or llama-like");
	}
	for (size_t i = 0; i < N_LISTS; i++)
		if (!strcmp(key, lists[i].key))
			return read_list(r, &lists[i], value);
	for (const struct mq_space_flag *f = mq_space_flags(); f->name; f++)
		if (!strcmp(key, f->name)) {
			*(bool *)((char *)s + f->offset) = json_is_true(value);
			return json_is_boolean(value) ? MQ_OK : bad(r, key, "in \"runs\" is true or false");
		}
	return no_rule(r, key, lists, N_LISTS);
}

/* ---- files ------------------------------------------------------------------------------------------- */

static enum mq_status read_file(struct reader *r, const char *name);

static enum mq_status read_parent(struct reader *r, const json_t *root)
{
	const char *parent = copied(r, root, "inherits"), *path = r->path, *name = r->name;

	if (!parent && json_object_get(root, "inherits"))
		return bad(r, "inherits", "is not the name of a software");
	r->record->inherits = parent;
	if (!parent)
		return MQ_OK;
	for (uint32_t i = 0; i < r->n_chain; i++)
		if (!strcmp(r->chain[i], parent))
			return mq_bad(r->err, "%s: inherits '%s', which inherits it: a loop", path, parent);
	if (r->n_chain == MAX_ANCESTORS)
		return mq_bad(r->err, "%s: more than %d generations", path, MAX_ANCESTORS);
	if (read_file(r, parent) != MQ_OK) /* of several ancestors the message names the last */
		return name == r->chain[0] ? mq_wrap(r->err, "%s: inherits '%s'", path, parent) : r->err->status;
	r->record->inherits = parent;
	r->path = path;
	r->name = name;
	return MQ_OK;
}

static enum mq_status read_keys(struct reader *r, json_t *root)
{
	const char *key, *rule;
	json_t *value, *said;

	json_object_foreach(root, key, value) {
		if (mq_text_has_word("maquette_software inherits about listed target release log_flop flags", key))
			continue;
		if (strcmp(key, "runs")) {
			MQ_TRY(read_value(r, key, value));
			continue;
		}
		if (!json_is_object(value))
			return bad(r, key, "is not an object");
		json_object_foreach(value, rule, said)
			MQ_TRY(read_rule(r, rule, said));
	}
	return MQ_OK;
}

static enum mq_status read_root(struct reader *r, json_t *root)
{
	const char *about = copied(r, root, "about");

	if (json_integer_value(json_object_get(root, "maquette_software")) != 1)
		return mq_bad(r->err, "%s: no training software; it begins with \"maquette_software\": 1", r->path);
	if (!about)
		return bad(r, "about", "is missing: a line that says what it is");
	MQ_TRY(read_parent(r, root));
	r->record->software.about = about;
	r->record->listed = json_is_true(json_object_get(root, "listed"));
	if (json_object_get(root, "target"))
		r->record->software.target = copied(r, root, "target");
	if (json_object_get(root, "release"))
		r->record->software.release = copied(r, root, "release");
	if (r->record->software.target && !r->record->software.release)
		return bad(r, "release", "is missing: of the framework whose settings --to TARGET writes");
	if (json_object_get(root, "log_flop"))
		r->record->software.halves_causal = !strcmp(copied(r, root, "log_flop"), "causal");
	if (json_object_get(root, "flags"))
		r->record->software.flags = copied(r, root, "flags");
	if (!r->record->software.flags)
		return bad(r, "flags", "is no text");
	return read_keys(r, root);
}

/* A file by its path, or by its name in the folder. */
static bool is_path(const char *name)
{
	size_t n = strlen(name);

	return strchr(name, '/') || (n > 5 && !strcmp(name + n - 5, ".json"));
}

static enum mq_status read_file(struct reader *r, const char *name)
{
	const char *path = is_path(name) ? name : mq_arena_printf(r->arena, "%s/%s.json", r->dir, name);
	json_t *root;

	for (uint32_t i = 0; r->kept && i < r->kept->n; i++)
		if (!strcmp(r->kept->record[i].software.file, name)) {
			*r->record = r->kept->record[i];
			return MQ_OK;
		}
	if (!is_path(name) && access(path, R_OK))
		return unknown(r, name);
	MQ_TRY(mq_json_file_load(path, &root, r->err));
	r->chain[r->n_chain++] = name;
	r->path = path;
	r->name = name;
	enum mq_status status = read_root(r, root);
	json_decref(root);
	if (status == MQ_OK && r->kept) {
		r->record->software.file = name;
		MQ_PUSH(r->arena, r->kept->record, r->kept->n, r->kept->room, *r->record);
	}
	return status;
}

/* A value set by an option has no source file. */
static void note_options(struct mq_software_record *record, const char *options, struct mq_arena *arena)
{
	for (char *item; (item = mq_text_next(&options, ",;", arena));) {
		item[strcspn(item, "=")] = '\0';
		uint32_t field = mq_software_field_find(item);
		if (field != UINT32_MAX)
			record->note[field] =
				(struct mq_software_note){ .source = "an option", .low = NAN, .high = NAN };
	}
}

static enum mq_status load(const char *dir, const char *text, struct kept *kept, struct mq_arena *arena,
			   struct mq_software_record *record, struct mq_err *err)
{
	const char *name = *text ? mq_text_next(&text, ",;", arena) : text;
	struct reader r = { .dir = dir, .arena = arena, .record = record, .kept = kept, .err = err };

	*record = (struct mq_software_record){ .software = *mq_software_plain() };
	for (uint32_t i = 0; i < MQ_N_SOFTWARE_FIELDS; i++)
		record->note[i].low = record->note[i].high = NAN;
	MQ_TRY(read_file(&r, name));
	record->software.name = record->software.file = name;
	note_options(record, text, arena);
	return mq_software_set(&record->software, mq_arena_printf(arena, "--software %s", name), text, arena, err);
}

enum mq_status mq_software_load(const char *dir, const char *text, struct mq_arena *arena,
				struct mq_software_record *record, struct mq_err *err)
{
	return load(dir, text, NULL, arena, record, err);
}

enum mq_status mq_software_load_all(const char *dir, struct mq_arena *arena, struct mq_software_record **record,
				    uint32_t *n, struct mq_err *err)
{
	struct kept kept = { .n = 0 };
	const char **names;

	MQ_TRY(mq_software_names(dir, arena, &names, err));
	for (*n = 0; names[*n];)
		++*n;
	*record = mq_arena_array(arena, *n, struct mq_software_record);
	for (uint32_t i = 0; i < *n; i++)
		MQ_TRY(load(dir, names[i], &kept, arena, &(*record)[i], err));
	return MQ_OK;
}
