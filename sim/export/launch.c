/* launch.c - see export.h. Files of keys (YAML, JSON and TOML, "--a.b value" of torchtitan) become flags by one table,
 * platforms/software/launch_keys.csv, with a row per key of a program and its flag. Programs with Megatron's arguments
 * as keys (NeMo, Megatron-Bridge, FlagScale) need no row if the key is the flag with underscores.
 *
 * Of referenced files torchtitan's --job.config_file and DeepSpeed's are read, hydra's defaults are not.
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/csv.h"
#include "base/shell.h"
#include "base/text.h"
#include "export/export.h"
#include "model/formats/lib/megatron.h"
#include "model/formats/lib/settings.h"

enum { MOST_KEYS = 3000 };

/* The flags that import_megatron.c reads. */
#define X(name, kind, field) { name, kind, 0 },
static const struct mq_flag plan_flags[] = {
#include "export/launch_flags.def"
	{ NULL, 0, 0 }
};
#undef X

/* ---- keys ------------------------------------------------------------------------------------------------------- */

/* Sections and `key = value`, the part of TOML that recipes use. Lists stay text. */
static void read_toml(struct mq_settings *k, const char *text)
{
	const char *section = "";

	for (const char *c = text; *c; c += strcspn(c, "\n"), c += *c == '\n') {
		size_t n;

		c += strspn(c, " \t\r");
		if (*c == '[') {
			c += 1 + strspn(c + 1, "[ ");
			section = mq_arena_printf(k->arena, "%.*s.", (int)strcspn(c, " ]\r\n"), c);
		}
		n = strspn(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.");
		const char *value = c + n + strspn(c + n, " \t");
		if (!n || *value != '=')
			continue;
		value += 1 + strspn(value + 1, " \t");
		size_t quote = *value == '"' || *value == '\'';
		const char *end = quote ? strchr(value + 1, *value) : value + strcspn(value, "#\r\n");
		while (end && !quote && end > value && isspace((unsigned char)end[-1]))
			end--;
		if (end)
			mq_settings_add(
				k, mq_arena_printf(k->arena, "%s%.*s", section, (int)n, c),
				mq_arena_printf(k->arena, "%.*s", (int)(end - value - (long)quote), value + quote));
	}
}

/* "--parallelism.tensor_parallel_degree 4"; `plain`: "--per_device_train_batch_size 4" too, or with '-' for '_'. */
static void read_overrides(struct mq_settings *k, const char *const *word, bool plain)
{
	for (; *word; word++) {
		size_t n = strcspn(*word, "=");

		if (strncmp(*word, "--", 2) || (!plain && !memchr(*word, '.', n)))
			continue;
		char *path = mq_arena_printf(k->arena, "%.*s", (int)(n - 2), *word + 2);
		for (char *c = path; plain && *c; c++)
			*c = *c == '-' ? '_' : *c;
		if ((*word)[n])
			mq_settings_add(k, path, *word + n + 1);
		else if (word[1] && strncmp(word[1], "--", 2))
			mq_settings_add(k, path, *++word);
		else
			mq_settings_add(k, path, "true");
	}
}

/* ---- flags ------------------------------------------------------------------------------------------------------ */

struct writing {
	struct mq_settings *keys;
	/* launch_keys.csv, rows of the keys of a `program` (its name, one that a row `names`, or any). `key`: the last
	 * parts of its path; `when`: a word of its value (empty: any; "absent": the file defines a plan without the
	 * key). The key is then the `flag` with the `value` ("*": the key's; empty: a switch), defines nothing (no
	 * flag), or is `refused`, with the reason. `names`: the program of a file that has the key. */
	struct mq_csv rows;
	struct mq_launch *launch;
	uint32_t n, room;
};

static void put_flag(struct writing *w, const char *flag, const char *value)
{
	struct mq_arena *arena = w->keys->arena;

	if (!strcasecmp(value, "false"))
		return;
	MQ_PUSH(arena, w->launch->word, w->n, w->room, flag);
	if (*value && strcasecmp(value, "true"))
		MQ_PUSH(arena, w->launch->word, w->n, w->room, value);
}

/* Does the value mean that nothing is chosen? */
static bool is_null(const char *value)
{
	return !*value || !strcasecmp(value, "null") || !strcasecmp(value, "none") || !strcmp(value, "~");
}

/* Does the row belong to the program of the file? */
static bool is_of(const struct writing *w, const char *program, uint32_t row)
{
	const char *of = mq_csv_word(&w->rows, row, "program");

	return !strcmp(of, "any") || !strcmp(of, program) || !strcmp(of, w->launch->program);
}

static bool is_named(const struct writing *w, const struct mq_setting *key, uint32_t row)
{
	const char *name = mq_csv_word(&w->rows, row, "key"), *item = strrchr(key->path, '.');
	/* Does the row only identify the program? */
	bool sign = !*mq_csv_word(&w->rows, row, "flag") && *mq_csv_word(&w->rows, row, "names");

	if (sign || mq_setting_is(key->path, name))
		return !sign;
	return *mq_csv_word(&w->rows, row, "when") && item && item[1] && !item[1 + strspn(item + 1, "0123456789")] &&
	       mq_setting_is(mq_arena_printf(w->keys->arena, "%.*s", (int)(item - key->path), key->path), name);
}

static bool has_word(const char *value, const char *word, struct mq_arena *arena)
{
	const char *one;

	while ((one = mq_text_next(&value, " ,", arena)))
		if (!strcasecmp(one, word))
			return true;
	return false;
}

/* The text of a file named in another: by its path, or below one of the folders around that file. */
static enum mq_status read_named(struct mq_settings *k, const char *name, char **text, struct mq_err *err)
{
	const char *path = name, *below = name + strspn(name, "./");
	size_t n = strlen(k->file), size;

	while (n && *name != '/' && access(path, R_OK)) {
		while (n && k->file[n - 1] != '/')
			n--;
		path = mq_arena_printf(k->arena, "%.*s%s", (int)n, k->file, below);
		n -= n > 0;
	}
	return mq_text_read(path, 1, k->arena, text, &size, err) == MQ_OK ? MQ_OK : mq_wrap(err, "%s", k->file);
}

/* Adds the keys of DeepSpeed's file, but those that the trainer decides ("auto"). */
static enum mq_status read_deepspeed(struct mq_settings *k, const char *name, struct mq_err *err)
{
	uint32_t before = k->n;
	char *text;

	MQ_TRY(read_named(k, name, &text, err));
	if (mq_settings_yaml(k, text, err) != MQ_OK)
		return mq_wrap(err, "%s", name);
	for (uint32_t i = before; i < k->n; i++)
		if (!strcmp(k->setting[i].value, "auto"))
			k->setting[i].value = "";
	return MQ_OK;
}

static enum mq_status put_key(struct writing *w, const char *program, const struct mq_setting *key, struct mq_err *err)
{
	const char *value = mq_settings_value(w->keys, key->value), *last = strrchr(key->path, '.');
	const struct mq_csv *rows = &w->rows;
	struct mq_arena *arena = w->keys->arena;
	bool known = false, takes;

	if (w->keys->n > MOST_KEYS)
		return mq_bad(err, "%s: %u keys; launch settings have at most %d", w->keys->file, w->keys->n,
			      MOST_KEYS);
	last = last ? last + 1 : key->path;
	if (is_null(value))
		return MQ_OK;
	for (uint32_t i = 0; i < rows->n_rows; i++) {
		const char *when = mq_csv_word(rows, i, "when"), *refused = mq_csv_word(rows, i, "refused");
		const char *flag = mq_csv_word(rows, i, "flag"), *is = mq_csv_word(rows, i, "value");

		if (!is_of(w, program, i) || !is_named(w, key, i))
			continue;
		known = true;
		if (*when && !has_word(value, when, arena))
			continue;
		if (*refused)
			return mq_bad(err, "%s: %s: %.60s %s", w->keys->file, key->path, value, refused);
		if (!strcmp(flag, "--deepspeed_config"))
			return read_deepspeed(w->keys, value, err);
		if (*flag)
			put_flag(w, flag, *is == '*' ? value : is);
		return MQ_OK;
	}
	char *flag = mq_arena_printf(arena, "--%s", last);
	for (char *c = flag; *c; c++)
		*c = *c == '_' ? '-' : *c;
	if (!known &&
	    (mq_flag_find(plan_flags, flag) || (!strcmp(program, "megatron") && mq_megatron_describes(flag, &takes))))
		put_flag(w, flag, value);
	else if (!(known && has_word("false no off 0", value, arena)) && strlen(w->launch->unread) < 2000)
		w->launch->unread =
			mq_arena_printf(arena, known ? "%s %s=%.60s" : "%s %s", w->launch->unread, key->path, value);
	return MQ_OK;
}

/* Layers of FlagScale's stages, unless they equal the even split of other keys. */
static enum mq_status check_layers(const struct mq_settings *k, struct mq_err *err)
{
	const struct mq_setting *first = mq_settings_find(k, "hetero_pipeline_layer_split.0");

	for (uint32_t i = 0; i < k->n && first; i++)
		if (strstr(k->setting[i].path, "hetero_pipeline_layer_split.") &&
		    strcmp(k->setting[i].value, first->value))
			return mq_bad(err, "%s: %s: stages of %s and %s layers are not read back", k->file,
				      k->setting[i].path, first->value, k->setting[i].value);
	return MQ_OK;
}

/* Finds the program of the keys, which decides their meaning. */
static enum mq_status put_keys(struct mq_settings *k, struct mq_launch *launch, struct mq_err *err)
{
	struct writing w = { .keys = k, .launch = launch };
	const char *program = NULL, *dir;

	MQ_TRY(mq_find_dir("platforms/software", k->arena, &dir, err));
	MQ_TRY(mq_csv_load_of(mq_arena_printf(k->arena, "%s/launch_keys.csv", dir),
			      "program,key,when,flag,value,names,refused", k->arena, &w.rows, err));
	for (uint32_t i = 0; i < w.rows.n_rows && !program; i++)
		if (*mq_csv_word(&w.rows, i, "names") && mq_settings_find(k, mq_csv_word(&w.rows, i, "key"))) {
			program = mq_csv_word(&w.rows, i, "program");
			launch->program = mq_csv_word(&w.rows, i, "names");
		}
	if (!program)
		return MQ_OK;
	launch->word = NULL;
	MQ_TRY(check_layers(k, err));
	for (uint32_t i = 0; i < k->n; i++)
		MQ_TRY(put_key(&w, program, &k->setting[i], err));
	for (uint32_t i = 0; i < w.rows.n_rows && w.n; i++) {
		const struct mq_setting *key = mq_settings_find(k, mq_csv_word(&w.rows, i, "key"));

		if (!strcmp(mq_csv_word(&w.rows, i, "when"), "absent") && is_of(&w, program, i) &&
		    (!key || is_null(key->value)))
			put_flag(&w, mq_csv_word(&w.rows, i, "flag"), mq_csv_word(&w.rows, i, "value"));
	}
	MQ_PUSH(k->arena, launch->word, w.n, w.room, NULL);
	return MQ_OK;
}

/* A command line: Megatron-LM's unchanged, torchtitan's and Hugging Face Trainer's as keys. */
static enum mq_status read_words(struct mq_settings *k, const struct mq_script *script, struct mq_launch *launch,
				 struct mq_err *err)
{
	const struct mq_setting *config;
	bool trainer = false;

	for (const char *const *word = script->word; *word; word++) {
		trainer |= mq_text_fits("--per?device?train?batch?size*", '|', *word, 0);
		if (!strncmp(*word, "per_device_batch_size=", 22)) /* MaxText's have no dashes */
			mq_settings_add(k, "per_device_batch_size", *word + 22);
	}
	read_overrides(k, script->word, trainer);
	if (!trainer && (config = mq_settings_find(k, "job.config_file"))) {
		char *text;

		MQ_TRY(read_named(k, config->value, &text, err));
		k->n = 0; /* keys of the command line take precedence */
		read_toml(k, text);
		read_overrides(k, script->word, false);
	}
	return put_keys(k, launch, err);
}

enum mq_status mq_launch_read(const char *path, struct mq_arena *arena, struct mq_launch *launch, struct mq_err *err)
{
	static const char *nothing[] = { NULL };
	struct mq_settings k = { .arena = arena, .file = path };
	struct mq_script script;
	size_t size;
	char *text;

	MQ_TRY(mq_text_read(path, 1, arena, &text, &size, err));
	*launch = (struct mq_launch){ path, text, "", nothing, nothing, "" };
	const char *first = text + strspn(text, " \t\r\n");
	/* GPT-NeoX's YAML may look like DeepSpeed's JSON. */
	bool yaml = mq_text_fits("*.yaml|*.yml", '|', path, FNM_CASEFOLD);
	if (strstr(text, "torchtitan") && strstr(text, "import "))
		launch->program = "torchtitan recipe";
	else if (*first == '{' && !yaml &&
		 (strstr(text, "\"zero_optimization\"") || strstr(text, "\"train_batch_size\"") ||
		  strstr(text, "\"train_micro_batch_size_per_gpu\"")))
		launch->program = "DeepSpeed";
	if (*launch->program)
		return MQ_OK;
	if (mq_text_fits("*.toml", '|', path, FNM_CASEFOLD)) {
		read_toml(&k, text);
		return put_keys(&k, launch, err);
	}
	if (*first == '{' || (yaml && !strstr(text, " --num-layers:"))) {
		MQ_TRY(mq_settings_yaml(&k, text, err));
		return put_keys(&k, launch, err);
	}
	MQ_TRY(mq_shell_read(text, arena, &script, err));
	launch->program = "Megatron-LM";
	launch->word = script.word;
	launch->doubt = script.doubt;
	return read_words(&k, &script, launch, err);
}

static const char *const *find_flag(const struct mq_launch *launch, const char *flag)
{
	const char *const *word = launch->word;
	size_t n = strlen(flag);

	while (*word && (strncmp(*word, flag, n) || ((*word)[n] && (*word)[n] != '=')))
		word++;
	return *word ? word : NULL;
}

bool mq_launch_has(const struct mq_launch *launch, const char *flag)
{
	return find_flag(launch, flag);
}

double mq_launch_number(const struct mq_launch *launch, const char *flag)
{
	const char *const *word = find_flag(launch, flag);
	const char *equals = word ? strchr(*word, '=') : NULL;

	return equals ? strtod(equals + 1, NULL) : word && word[1] ? strtod(word[1], NULL) : 0;
}
