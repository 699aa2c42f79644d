/* megatron_settings.c - the settings of a model that Megatron logs ("num_layers ..... 32"), or that NeMo and Megatron
 * Bridge keep beside a checkpoint ("num_layers: 32"), as flags. SPDX-License-Identifier: Apache-2.0 */
#include <fnmatch.h>
#include <string.h>
#include <strings.h>

#include "model/formats/lib/settings.h"
#include "base/text.h"
#include "model/formats/lib/megatron.h"

static const struct row {
	char where;
	const char *name, *value, *flag;
} rows[] = {
#define X(where, name, value, flag) { where, name, value, flag },
#include "model/formats/lib/megatron_settings.def"
#undef X
};

/* Adds "--flag=value". MQ_EINPUT: the flag has another value already. */
static enum mq_status add(struct mq_argv *argv, const char *flag, const char *value, struct mq_err *err)
{
	const char *word = strchr(flag, '=') ? flag : mq_arena_printf(argv->arena, "%s=%s", flag, value);

	for (uint32_t i = 0; i < argv->n; i++)
		if (!strncmp(argv->word[i], word, strcspn(word, "=") + 1) && strcasecmp(argv->word[i], word))
			return mq_bad(err, "%s and %s: give the settings of one model", argv->word[i], word);
	mq_argv_add(argv, "%s", word);
	return MQ_OK;
}

/* Adds what a setting says of the model. */
static enum mq_status take(struct mq_argv *argv, bool logged, const char *name, const char *value, struct mq_err *err)
{
	const struct row *r = rows, *last = rows + sizeof(rows) / sizeof(*rows) - 1;
	bool takes;

	while (r < last && (r->where == (logged ? 'y' : 'l') || fnmatch(r->name, name, 0) ||
			    fnmatch(r->value, value, FNM_CASEFOLD)))
		r++;
	if (!r->flag)
		return mq_bad(err, "%s: %s: only stacks of GPT's blocks are read of settings", name, value);
	char *flag = mq_arena_printf(argv->arena, "%s%s", r->flag, strcmp(r->flag, "--") ? "" : name);
	for (char *c = flag; (c = strchr(c, '_'));)
		*c = '-';
	if (!*flag || (r->flag[2] == '\0' && !mq_megatron_describes(flag, &takes)))
		return MQ_OK;
	MQ_TRY(add(argv, flag, value, err));
	return logged || strcmp(name, "num_query_groups") ? MQ_OK : add(argv, "--group-query-attention", "true", err);
}

/* Settings that Megatron logs: "[default0]:  num_layers ........ 32". */
static void read_log(struct mq_settings *s, const char *text)
{
	char *line, *end;

	while ((line = mq_text_next(&text, "\n", s->arena)))
		if ((end = strstr(line, " .."))) {
			char *value = end + 1 + strspn(end + 1, " .");

			value[strcspn(value, strchr("[(", *value) ? "\"'" : " \"'#\t\r")] = '\0';
			*end = '\0';
			mq_settings_add(s, strrchr(line, ' ') ? strrchr(line, ' ') + 1 : line, value);
		}
}

static const char *last_part(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot ? dot + 1 : path;
}

/* A setting's own name, and its value; items of a list are gathered to "[0,1,1]", *at is then the last. */
static const char *gather(const struct mq_settings *s, uint32_t *at, const char **value)
{
	const char *path = s->setting[*at].path, *part = last_part(path);
	const int n = (int)(part - path); /* letters of the list's path and the dot */

	*value = mq_settings_value(s, s->setting[*at].value);
	if (!n || strcmp(part, "0"))
		return part;
	for (; *at + 1 < s->n; ++*at) {
		const struct mq_setting *next = &s->setting[*at + 1];

		if (strncmp(next->path, path, (size_t)n) || strchr(next->path + n, '.'))
			break;
		*value = mq_arena_printf(s->arena, "%s,%s", *value, next->value);
	}
	*value = mq_arena_printf(s->arena, "[%s]", *value);
	return last_part(mq_arena_printf(s->arena, "%.*s", n - 1, path));
}

enum mq_status mq_megatron_settings(const char *path, const char *text, struct mq_arena *arena,
				    const char *const **word, struct mq_err *err)
{
	struct mq_argv argv = { .arena = arena };
	struct mq_settings s = { .arena = arena, .file = path };
	const char *value, *name;
	bool logged = !mq_text_fits("*.yaml|*.yml", '|', path, FNM_CASEFOLD);

	if (logged)
		read_log(&s, text);
	else
		MQ_TRY(mq_settings_yaml(&s, text, err));
	for (uint32_t i = 0; i < s.n; i++) {
		name = gather(&s, &i, &value);
		if (!(mq_setting_is(name, "vocab_size") && mq_settings_find(&s, "padded_vocab_size")) &&
		    !(mq_setting_is(name, "seq_length") && mq_settings_find(&s, "encoder_seq_length")) &&
		    take(&argv, logged, name, value, err) != MQ_OK)
			return mq_wrap(err, "%s", path);
	}
	*word = (const char *const *)mq_argv_end(&argv);
	return MQ_OK;
}
