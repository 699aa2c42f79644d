/* json.c - see json.h. SPDX-License-Identifier: Apache-2.0 */
#include "model/formats/lib/json.h"

#include <math.h>

enum { MAX_BYTES = 1 << 28 };

/* Replaces Infinity, -Infinity and NaN, which Python's json writes and JSON lacks, by the largest number and an empty
 * text of equal length, so that lines and columns in messages stay right. */
static void replace_words(char *text)
{
	bool quoted = false;

	for (char *c = text; *c; c++) {
		if (quoted && *c == '\\' && c[1])
			c++;
		else if (*c == '"')
			quoted = !quoted;
		else if (!quoted && !strncmp(c, "Infinity", 8))
			memcpy(c, "1e308   ", 8);
		else if (!quoted && !strncmp(c, "NaN", 3))
			memcpy(c, "\"\" ", 3);
	}
}

enum mq_status mq_json_load(const char *path, bool python, struct mq_arena *arena, json_t **json, struct mq_err *err)
{
	struct mq_bytes bytes;
	json_error_t e;

	MQ_TRY(mq_file_read(path, MAX_BYTES, arena, &bytes, err));
	if (python)
		replace_words(bytes.data);
	*json = json_loadb(bytes.data, bytes.size, 0, &e);
	if (!*json)
		return mq_bad(err, "%s:%d:%d: %s; the file must be complete JSON", path, e.line, e.column, e.text);
	if (json_is_object(*json))
		return MQ_OK;
	json_decref(*json);
	*json = NULL;
	return mq_bad(err, "%s: the top of the file must be a JSON object", path);
}

static enum mq_status wrong(const struct mq_json_at *at, const char *key, const char *value, const char *remedy,
			    struct mq_err *err)
{
	return mq_bad(err, "%s: %s%s\"%s\" is %s; give %s", at->path, at->place, *at->place ? ": " : "", key, value,
		      remedy);
}

static const char *type_name(const json_t *value)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a text",
		[JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
		[JSON_FALSE] = "false",      [JSON_NULL] = "null",
	};

	return names[json_typeof(value)];
}

enum mq_status mq_json_number(const struct mq_json_at *at, const char *key, const struct mq_json_range *range,
			      double *value, struct mq_err *err)
{
	const json_t *v = json_object_get(at->object, key);
	char text[64], remedy[96];

	snprintf(remedy, sizeof(remedy), "a %snumber from %.9g to %.9g", range->whole ? "whole " : "", range->min,
		 range->max);
	if (!v || json_is_null(v))
		return range->required ? wrong(at, key, "missing", remedy, err) : MQ_OK;
	bool flag = range->whole && range->max == 1;
	if (!json_is_number(v) && !json_is_false(v) && !(flag && json_is_true(v)))
		return wrong(at, key, type_name(v), remedy, err);
	double x = json_is_true(v) ? 1 : json_number_value(v); /* false: 0 */
	snprintf(text, sizeof(text), "%.9g", x);
	if (!isfinite(x) || x < range->min || x > range->max || (range->whole && x != floor(x)))
		return wrong(at, key, text, remedy, err);
	*value = x;
	return MQ_OK;
}

enum mq_status mq_json_u32(const struct mq_json_at *at, const char *key, double min, double max, uint32_t *value,
			   struct mq_err *err)
{
	const struct mq_json_range range = { .min = min, .max = max, .whole = true };
	double x = *value;

	MQ_TRY(mq_json_number(at, key, &range, &x, err));
	*value = (uint32_t)x;
	return MQ_OK;
}

enum mq_status mq_json_bool(const struct mq_json_at *at, const char *key, bool *value, struct mq_err *err)
{
	const json_t *v = json_object_get(at->object, key);

	if (!v || json_is_null(v))
		return MQ_OK;
	if (!json_is_boolean(v))
		return wrong(at, key, type_name(v), "true or false", err);
	*value = json_is_true(v);
	return MQ_OK;
}

enum mq_status mq_json_text(const struct mq_json_at *at, const char *key, const char **value, struct mq_err *err)
{
	const json_t *v = json_object_get(at->object, key);

	*value = NULL;
	if (!v || json_is_null(v))
		return MQ_OK;
	if (!json_is_string(v))
		return wrong(at, key, type_name(v), "a text", err);
	*value = json_string_value(v);
	return MQ_OK;
}
