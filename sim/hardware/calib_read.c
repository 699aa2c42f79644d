/* calib_read.c - calibration files into a set of entries: see calib.h.
 *
 * All files are parsed before entries are resolved, so an entry may inherit from a later one of its kind; the set
 * changes only if all entries are valid. SPDX-License-Identifier: Apache-2.0 */
#include "hardware/calib_fields.h"
#include "maquette/calib.h"

#include <jansson.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/paths.h"
#include "maquette/json_file.h"
#include "maquette/opt.h"
#include "hardware/libraries.h"

enum state { WAITING, OPEN, DONE };

/* An entry between JSON and the set. */
struct item {
	const char *path;
	json_t *object; /* borrowed from the root of its file */
	const char *name, *source;
	bool is_link;
	enum state state;
	struct mq_device_calib *device; /* one of these is set once `state` is DONE */
	struct mq_link_calib *link;
};

struct reading {
	struct mq_calib *calib;
	json_t *roots; /* an array of all parsed files */
	struct item *item;
	uint32_t n, room;
};

static enum mq_status set_field(const struct mq_calib_field *f, void *entry, const json_t *value, const char *path,
				struct mq_err *err)
{
	if (json_is_object(value)) {
		const char *unit = json_string_value(json_object_get(value, "unit"));

		if (unit && strcmp(unit, f->unit))
			return mq_bad(err, "%s: %s is in '%s'; give it in '%s'", path, f->name, unit, f->unit);
		value = json_object_get(value, "value");
	}
	if (json_is_null(value)) {
		*mq_calib_at(f, entry) = f->initial;
		return MQ_OK;
	}
	if (!json_is_number(value))
		return mq_bad(err, "%s: %s has no number; give {\"value\": x}", path, f->name);

	double x = json_number_value(value);
	if (!(x >= f->min && x <= f->max))
		return mq_bad(err, "%s: %s = %g is outside %g .. %g %s", path, f->name, x, f->min, f->max, f->unit);
	*mq_calib_at(f, entry) = x;
	return MQ_OK;
}

/* Overwrites the entry's values with those of `values`. */
static enum mq_status set_fields(const struct mq_calib_field *fields, void *entry, json_t *values, const char *path,
				 struct mq_err *err)
{
	const char *key;
	json_t *value;

	json_object_foreach(values, key, value) {
		const struct mq_calib_field *f = mq_calib_find(fields, key);

		if (!f)
			return mq_bad(err, "%s: unknown parameter '%s'; `maquette list parameters` has them", path,
				      key);
		MQ_TRY(set_field(f, entry, value, path, err));
	}
	for (const struct mq_calib_field *f = fields; f->name; f++)
		/* for these two, absence has a meaning */
		if (isnan(*mq_calib_at(f, entry)) && strcmp(f->name, "price_per_h") && strcmp(f->name, "power_W"))
			return mq_bad(err, "%s: '%s' (%s) is missing; add it to \"values\"", path, f->name, f->help);
	return MQ_OK;
}

/* The array of words under `key`; NULL: none. */
static enum mq_status read_words(struct mq_arena *arena, const struct item *item, const json_t *object, const char *key,
				 const char *const **words, struct mq_err *err)
{
	json_t *array = json_object_get(object, key), *word;
	const char **list;
	size_t i;

	*words = NULL;
	if (!array)
		return MQ_OK;
	list = mq_arena_array(arena, json_array_size(array) + 1, const char *);
	json_array_foreach(array, i, word) {
		const char *text = json_string_value(word);

		if (!text || !*text)
			return mq_bad(err, "%s: \"%s\" of '%s': entry %zu is no name", item->path, key, item->name,
				      i + 1);
		list[i] = mq_arena_strdup(arena, text);
	}
	if (!json_is_array(array))
		return mq_bad(err, "%s: \"%s\" of '%s' is no list; write [\"NAME\", ...]", item->path, key, item->name);
	*words = list;
	return MQ_OK;
}

static enum mq_status work_out(struct reading *r, struct item *item, struct mq_err *err);

static enum mq_status unknown_parent(const struct reading *r, const struct item *item, const char *parent,
				     struct mq_err *err)
{
	const struct mq_calib *calib = r->calib;
	const char **names = mq_arena_array(calib->arena, r->n + calib->n_devices + calib->n_links + 1, const char *);
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->n; i++)
		if (r->item[i].is_link == item->is_link && &r->item[i] != item)
			names[n++] = r->item[i].name;
	for (uint32_t i = 0; i < calib->n_devices && !item->is_link; i++)
		names[n++] = calib->device[i].name;
	for (uint32_t i = 0; i < calib->n_links && item->is_link; i++)
		names[n++] = calib->link[i].name;
	const char *near = mq_nearest(parent, names);
	return mq_bad(err,
		      "%s: '%s' inherits '%s', and there is no such %s%s%s%s; name "
		      "one of this file or folder, or of one loaded before",
		      item->path, item->name, parent, item->is_link ? "link class" : "device",
		      near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* The entry that this one inherits from: resolved, from the files being read; else (*other NULL) one loaded before. */
static enum mq_status find_parent(struct reading *r, const struct item *item, const char *parent, struct item **other,
				  struct mq_err *err)
{
	*other = NULL;
	for (uint32_t i = 0; i < r->n && strcmp(parent, item->name); i++)
		if (r->item[i].is_link == item->is_link && !strcmp(r->item[i].name, parent))
			*other = &r->item[i];
	if (!*other)
		return MQ_OK;
	if ((*other)->state == OPEN)
		return mq_bad(err,
			      "%s: '%s' inherits '%s', which inherits from it in turn; let "
			      "one of them say its values itself",
			      item->path, item->name, parent);
	return work_out(r, *other, err);
}

/* The name under "inherits"; NULL: none. */
static enum mq_status parent_of(const struct item *item, const char **parent, struct mq_err *err)
{
	json_t *inherits = json_object_get(item->object, "inherits");

	*parent = json_string_value(inherits);
	if (inherits && !*parent)
		return mq_bad(err, "%s: \"inherits\" of '%s' is no name", item->path, item->name);
	return MQ_OK;
}

/* Source and date of a price: prices change, data sheets do not. */
static const char *price_source(const json_t *values, struct mq_arena *arena)
{
	const json_t *price = json_object_get(values, "price_per_h");
	const char *source = json_string_value(json_object_get(price, "source"));
	const char *date = json_string_value(json_object_get(price, "date"));

	return source ? mq_arena_printf(arena, "%s%s%s", source, date ? "; " : "", date ? date : "") : NULL;
}

static enum mq_status read_device(struct reading *r, struct item *item, struct mq_err *err)
{
	const char *kind = json_string_value(json_object_get(item->object, "device_kind"));
	json_t *serial = json_object_get(item->object, "serial_comm");
	struct mq_device_calib *entry = item->device = mq_arena_array(r->calib->arena, 1, struct mq_device_calib);
	const char *parent;

	MQ_TRY(parent_of(item, &parent, err));
	if (parent) {
		const struct mq_device_calib *found;
		struct item *other;

		MQ_TRY(find_parent(r, item, parent, &other, err));
		found = other ? other->device : mq_calib_device(r->calib, parent);
		if (!found)
			return unknown_parent(r, item, parent, err);
		*entry = *found;
		if (strcmp(parent, item->name)) { /* prices are not inherited from a sibling */
			entry->price_per_h = NAN;
			entry->price_source = NULL;
		}
	} else {
		mq_calib_defaults(mq_calib_device_fields(), entry);
		entry->kind = MQ_GPU;
	}
	entry->name = item->name;
	entry->source = item->source;
	MQ_TRY(read_words(r->calib->arena, item, item->object, "aliases", &entry->alias, err));
	MQ_TRY(read_words(r->calib->arena, item, item->object, "reported", &entry->reported, err));
	MQ_TRY(read_words(r->calib->arena, item, item->object, "asks", &entry->asks, err));
	/* The calibration of one machine keeps the names of its type. */
	const struct mq_device_calib *before = mq_calib_device(r->calib, item->name);
	if (before && !entry->alias && !entry->reported) {
		entry->alias = before->alias;
		entry->asks = before->asks;
		entry->reported = before->reported;
	}
	const char *assumed = json_string_value(json_object_get(item->object, "assumed"));
	entry->assumed = assumed ? mq_arena_strdup(r->calib->arena, assumed) : NULL;
	MQ_TRY(set_fields(mq_calib_device_fields(), entry, json_object_get(item->object, "values"), item->path, err));
	if (json_object_get(json_object_get(item->object, "values"), "price_per_h"))
		entry->price_source = price_source(json_object_get(item->object, "values"), r->calib->arena);
	if (kind && strcmp(kind, "gpu") && strcmp(kind, "cpu"))
		return mq_bad(err, "%s: device_kind '%s' is neither gpu nor cpu", item->path, kind);
	if (kind)
		entry->kind = !strcmp(kind, "cpu") ? MQ_CPU : MQ_GPU;
	if (serial)
		entry->serial_comm = json_is_true(serial);
	for (int i = 0; i < MQ_N_DTYPES; i++)
		if (entry->peak_flops[i] > 0)
			return MQ_OK;
	return mq_bad(err, "%s: no peak speed; give peak_fp32_flops, peak_fp16_flops or another", item->path);
}

/* Copies the class that this one inherits from, with values and the tables they were fitted to; else the defaults. */
static enum mq_status start_link(struct reading *r, struct item *item, struct mq_err *err)
{
	const struct mq_link_calib *found;
	const char *parent;
	struct item *other;

	MQ_TRY(parent_of(item, &parent, err));
	if (!parent) {
		mq_calib_defaults(mq_calib_link_fields(), item->link);
		return MQ_OK;
	}
	MQ_TRY(find_parent(r, item, parent, &other, err));
	found = other ? other->link : mq_calib_link(r->calib, parent);
	if (!found)
		return unknown_parent(r, item, parent, err);
	*item->link = *found;
	return MQ_OK;
}

/* A link class, and the tables that each value was fitted to. */
static enum mq_status read_link(struct reading *r, struct item *item, struct mq_err *err)
{
	const struct mq_calib_field *fields = mq_calib_link_fields();
	json_t *values = json_object_get(item->object, "values");
	struct mq_arena *arena = r->calib->arena;
	const char *const *const *inherited;
	size_t n = 0;

	while (fields[n].name)
		n++;
	item->link = mq_arena_array(arena, 1, struct mq_link_calib);
	MQ_TRY(start_link(r, item, err));
	inherited = item->link->fitted;
	item->link->name = item->name;
	item->link->source = item->source;
	item->link->fitted = mq_arena_array(arena, n, const char *const *);
	MQ_TRY(read_words(arena, item, item->object, "siblings", &item->link->sibling, err));
	for (size_t f = 0; f < n; f++) {
		json_t *own = json_object_get(values, fields[f].name);

		MQ_TRY(read_words(arena, item, own, "fitted", &item->link->fitted[f], err));
		if (!own && inherited)
			item->link->fitted[f] = inherited[f];
	}
	return set_fields(fields, item->link, values, item->path, err);
}

static enum mq_status work_out(struct reading *r, struct item *item, struct mq_err *err)
{
	if (item->state == DONE)
		return MQ_OK;
	item->state = OPEN;
	MQ_TRY(item->is_link ? read_link(r, item, err) : read_device(r, item, err));
	item->state = DONE;
	return MQ_OK;
}

static enum mq_status add_item(struct reading *r, json_t *object, const char *path, struct mq_err *err)
{
	const char *kind = json_string_value(json_object_get(object, "kind"));
	const char *name = json_string_value(json_object_get(object, "name"));
	const char *source = json_string_value(json_object_get(object, "source"));

	if (!name || !*name)
		return mq_bad(err, "%s: an entry has no \"name\"", path);
	if (strchr(name, '/')) /* the name becomes a file name */
		return mq_bad(err, "%s: '%s': a name has no '/'", path, name);
	if (!json_is_object(json_object_get(object, "values")))
		return mq_bad(err, "%s: '%s' has no object \"values\"", path, name);
	if (!kind || (strcmp(kind, "device") && strcmp(kind, "link")))
		return mq_bad(err, "%s: '%s' has kind '%s'; it must be device or link", path, name,
			      kind ? kind : "(none)");
	struct item item = { .path = path,
			     .object = object,
			     .is_link = !strcmp(kind, "link"),
			     .name = mq_arena_strdup(r->calib->arena, name),
			     .source = mq_arena_strdup(r->calib->arena, source ? source : "") };
	MQ_PUSH(r->calib->arena, r->item, r->n, r->room, item);
	return MQ_OK;
}

static enum mq_status read_file(struct reading *r, const char *path, struct mq_err *err)
{
	json_t *root, *entries, *entry;
	size_t i;

	MQ_TRY(mq_json_file_load(path, &root, err));
	json_array_append_new(r->roots, root);
	entries = json_object_get(root, "entries");
	if (!json_is_array(entries))
		return add_item(r, root, path, err);
	json_array_foreach(entries, i, entry)
		MQ_TRY(add_item(r, entry, path, err));
	return MQ_OK;
}

/* Another device of the set than `but` that has the alias too. */
static const char *other_owner(const struct mq_calib *calib, const char *alias, const char *but)
{
	for (uint32_t i = 0; i < calib->n_devices; i++)
		for (const char *const *a = calib->device[i].alias; a && *a; a++)
			if (!strcasecmp(*a, alias) && strcmp(calib->device[i].name, but))
				return calib->device[i].name;
	return NULL;
}

/* An alias of two devices is an error, since its meaning would depend on the order of files. */
static enum mq_status check_aliases(const struct reading *r, struct mq_err *err)
{
	for (uint32_t i = 0; i < r->n; i++) {
		const struct item *item = &r->item[i];

		for (const char *const *a = item->is_link ? NULL : item->device->alias; a && *a; a++) {
			const char *other = other_owner(r->calib, *a, item->name);

			if (other)
				return mq_bad(err,
					      "%s: '%s' has the alias '%s', which is an alias "
					      "of '%s'; take it out of one",
					      item->path, item->name, *a, other);
		}
	}
	return MQ_OK;
}

/* Adds all parsed entries to the set, in order. */
static enum mq_status finish(struct reading *r, struct mq_err *err)
{
	struct mq_calib *calib = r->calib;

	for (uint32_t i = 0; i < r->n; i++)
		MQ_TRY(work_out(r, &r->item[i], err));
	for (uint32_t i = 0; i < r->n; i++) {
		const struct mq_link_calib *old = r->item[i].is_link ? mq_calib_link(calib, r->item[i].name) : NULL;

		if (old)
			calib->link[old - calib->link] = *r->item[i].link;
		else if (r->item[i].is_link)
			MQ_PUSH(calib->arena, calib->link, calib->n_links, calib->link_room, *r->item[i].link);
		else
			mq_calib_put_device(calib, r->item[i].device);
	}
	return check_aliases(r, err);
}

enum mq_status mq_calib_load(struct mq_calib *calib, const char *path, struct mq_err *err)
{
	json_auto_t *roots = json_array();
	struct reading r = { .calib = calib, .roots = roots };

	MQ_TRY(read_file(&r, path, err));
	return finish(&r, err);
}

static const char nccl[] = "nccl.json"; /* constants of a library, no device or link */

static enum mq_status load_libraries(struct mq_calib *calib, const char *dir, struct mq_err *err)
{
	return access(mq_arena_printf(calib->arena, "%s/%s", dir, nccl), F_OK) ?
		       MQ_OK :
		       mq_libraries_load(calib->libraries, dir, calib->arena, err);
}

enum mq_status mq_calib_load_dir(struct mq_calib *calib, const char *dir, struct mq_err *err)
{
	uint32_t n;
	const char **file = mq_folder_names(dir, "", ".json", calib->arena, &n);
	json_auto_t *roots = json_array();
	struct reading r = { .calib = calib, .roots = roots };

	if (!file)
		return mq_bad(err, "%s: cannot read the folder of calibrations: %m", dir);
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(file[i], nccl))
			MQ_TRY(read_file(&r, mq_arena_printf(calib->arena, "%s/%s", dir, file[i]), err));
	MQ_TRY(finish(&r, err));
	return load_libraries(calib, dir, err);
}

static enum mq_status read_once(struct reading *r, const char *dir, const char *name, struct mq_err *err)
{
	for (uint32_t i = 0; i < r->n; i++)
		if (!strcmp(r->item[i].name, name))
			return MQ_OK;
	return read_file(r, mq_arena_printf(r->calib->arena, "%s/%s.json", dir, name), err);
}

static enum mq_status read_types(struct reading *r, const char *dir, const char *const *type, struct mq_err *err)
{
	const char *parent;

	MQ_TRY(read_once(r, dir, "links", err));
	for (; *type; type++)
		MQ_TRY(read_once(r, dir, *type, err));
	for (uint32_t i = 0; i < r->n; i++) {
		MQ_TRY(parent_of(&r->item[i], &parent, err));
		if (parent)
			MQ_TRY(read_once(r, dir, parent, err));
	}
	return finish(r, err);
}

enum mq_status mq_calib_load_types(struct mq_calib *calib, const char *dir, const char *const *type, struct mq_err *err)
{
	json_auto_t *roots = json_array();
	struct reading r = { .calib = calib, .roots = roots };
	struct mq_err none = MQ_ERR_INIT;
	bool enough = read_types(&r, dir, type, &none) == MQ_OK;

	for (; *type; type++)
		enough = enough && mq_calib_device(calib, *type);
	return enough ? load_libraries(calib, dir, err) : mq_calib_load_dir(calib, dir, err);
}
