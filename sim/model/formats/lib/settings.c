/* settings.c - see settings.h. SPDX-License-Identifier: Apache-2.0 */
#include "model/formats/lib/settings.h"

#include <string.h>

#include <yaml.h>

#include "base/quantity.h"
#include "base/text.h"

enum { MOST_DEPTH = 64 };

void mq_settings_add(struct mq_settings *k, const char *path, const char *value)
{
	const struct mq_setting fresh = { path, value };

	MQ_PUSH(k->arena, k->setting, k->n, k->room, fresh);
}

/* Reads the parts of a mapping or list after its start. Aliases stay unread, as keys without a value. */
static enum mq_status read_node(struct mq_settings *k, yaml_parser_t *y, const char *path, bool list, uint32_t depth,
				struct mq_err *err)
{
	const char *name = NULL;
	uint32_t item = 0;

	if (depth > MOST_DEPTH)
		return mq_bad(err, "%s: nested more than %d deep", k->file, MOST_DEPTH);
	for (;;) {
		yaml_event_t event;

		if (!yaml_parser_parse(y, &event))
			return mq_bad(err, "%s:%zu: broken YAML: %s", k->file, y->problem_mark.line + 1,
				      y->problem ? y->problem : "cut");
		yaml_event_type_t type = event.type;
		const char *text = type == YAML_SCALAR_EVENT ?
					   mq_arena_strdup(k->arena, (const char *)event.data.scalar.value) :
					   "";
		yaml_event_delete(&event);
		if (type == YAML_MAPPING_END_EVENT || type == YAML_SEQUENCE_END_EVENT || type == YAML_STREAM_END_EVENT)
			return MQ_OK;
		if (type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_START_EVENT ||
		    type == YAML_DOCUMENT_END_EVENT)
			continue;
		if (depth && !list && !name) {
			name = text;
			if (type == YAML_SCALAR_EVENT)
				continue;
		}
		const char *at = list   ? mq_arena_printf(k->arena, "%s.%u", path, item++) :
				 !depth ? "" :
				 *path  ? mq_arena_printf(k->arena, "%s.%s", path, name) :
					  name;
		if (strlen(at) > 4096)
			return mq_bad(err, "%s: a key of more than 4096 letters", k->file);
		if (type == YAML_SCALAR_EVENT)
			mq_settings_add(k, at, text);
		else if (type == YAML_MAPPING_START_EVENT || type == YAML_SEQUENCE_START_EVENT)
			MQ_TRY(read_node(k, y, at, type == YAML_SEQUENCE_START_EVENT, depth + 1, err));
		name = NULL;
	}
}

enum mq_status mq_settings_yaml(struct mq_settings *k, const char *text, struct mq_err *err)
{
	yaml_parser_t y;

	if (!yaml_parser_initialize(&y))
		return mq_fail(err, MQ_EBUG, "libyaml cannot start");
	yaml_parser_set_input_string(&y, (const unsigned char *)text, strlen(text));
	enum mq_status status = read_node(k, &y, "", false, 0, err);
	yaml_parser_delete(&y);
	return status;
}

bool mq_setting_is(const char *path, const char *key)
{
	size_t n = strlen(path), tail = strlen(key);

	return n >= tail && !strcmp(path + n - tail, key) && (n == tail || path[n - tail - 1] == '.');
}

const struct mq_setting *mq_settings_find(const struct mq_settings *k, const char *key)
{
	for (uint32_t i = 0; i < k->n; i++)
		if (mq_setting_is(k->setting[i].path, key))
			return &k->setting[i];
	return NULL;
}

/* "${.num_layers}", "${model.num_layers}": OmegaConf's reference to another key. */
static const char *refer(const struct mq_settings *k, const char *value)
{
	size_t n = strlen(value);

	for (int i = 0; i < 8 && n > 3 && !strncmp(value, "${", 2) && value[n - 1] == '}'; i++) {
		const char *name = mq_arena_printf(k->arena, "%.*s", (int)n - 3, value + 2), *dot;
		const struct mq_setting *key;

		name += strspn(name, ".");
		/* The first parts may be those of a configuration composed elsewhere. */
		while (!(key = mq_settings_find(k, name)) && (dot = strchr(name, '.')))
			name = dot + 1;
		if (!key)
			break;
		value = key->value;
		n = strlen(value);
	}
	return value;
}

/* 1_440 of YAML and TOML as 1440. */
static const char *plain_number(struct mq_arena *arena, const char *value)
{
	size_t n = strspn(value, "0123456789_");
	char *to, *text;

	if (!n || value[n] || *value == '_' || !strchr(value, '_'))
		return value;
	for (to = text = mq_arena_strdup(arena, value); *value; value++)
		if (*value != '_')
			*to++ = *value;
	*to = '\0';
	return text;
}

const char *mq_settings_value(const struct mq_settings *k, const char *value)
{
	double product = 1, number;

	value = refer(k, value);
	if (strncmp(value, "${multiply:", 11) || value[strlen(value) - 1] != '}')
		return plain_number(k->arena, value);
	const char *list = mq_arena_printf(k->arena, "%.*s", (int)strlen(value) - 12, value + 11);
	do {
		list += strspn(list, " ,");
		int n = (int)strcspn(list, " ,");
		const char *factor = refer(k, mq_arena_printf(k->arena, "%.*s", n, list));
		if (!mq_parse_f64(plain_number(k->arena, factor), &number))
			return value;
		product *= number;
		list += n;
	} while (*list);
	return mq_arena_printf(k->arena, "%.0f", product);
}
