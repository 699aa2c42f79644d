/* megatron_settings.c - the settings of a model that Megatron logs ("num_layers ..... 32"), or that NeMo and Megatron
 * Bridge keep beside a checkpoint ("num_layers: 32"), as flags. SPDX-License-Identifier: Apache-2.0 */
#include <fnmatch.h>
#include <string.h>
#include <strings.h>

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

/* Takes a line apart; false: it is no setting. The items of a list are lines of their own: "- item". */
static bool split(char *line, const char **rest, const char **name, const char **value, struct mq_arena *arena)
{
	char *dots = strstr(line, " .."), *end = dots ? dots : strstr(line, ": "), *text, *next;
	const char *after = *rest, *items = "";

	if (!end && *line && line[strlen(line) - 1] == ':')
		end = line + strlen(line) - 1;
	if (!end || *line == '#')
		return false;
	text = end + 1 + strspn(end + 1, dots ? " ." : " \t\"'");
	text[strcspn(text, strchr("[(", *text) ? "\"'" : " \"'#\t\r")] = '\0';
	for (; !*text && (next = mq_text_next(&after, "\n", arena)) && !strncmp(next, "- ", 2); *rest = after)
		items = mq_arena_printf(arena, "%s%s%s", items, *items ? "," : "", next + 2);
	*value = *items ? mq_arena_printf(arena, "[%s]", items) : text;
	*end = '\0';
	text = strrchr(line, ' ');
	*name = text ? text + 1 : line;
	return true;
}

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

enum mq_status mq_megatron_settings(const char *text, struct mq_arena *arena, const char *const **word,
				    struct mq_err *err)
{
	struct mq_argv argv = { .arena = arena };
	const char *rest = text, *value, *name;
	char *line, *flag;
	bool takes;

	while ((line = mq_text_next(&rest, "\n", arena))) {
		const struct row *r = rows, *last = rows + sizeof(rows) / sizeof(*rows) - 1;
		bool logged = strstr(line, " ..");

		if (!split(line, &rest, &name, &value, arena))
			continue;
		while (r < last && (r->where == (logged ? 'y' : 'l') || fnmatch(r->name, name, 0) ||
				    fnmatch(r->value, value, FNM_CASEFOLD)))
			r++;
		if (!r->flag)
			return mq_bad(err, "%s: %s: only stacks of GPT's blocks are read of settings", name, value);
		flag = mq_arena_printf(arena, "%s%s", r->flag, strcmp(r->flag, "--") ? "" : name);
		for (char *c = flag; (c = strchr(c, '_'));)
			*c = '-';
		if (!*flag || (r->flag[2] == '\0' && !mq_megatron_describes(flag, &takes)) ||
		    (!strcmp(name, "vocab_size") && strstr(text, "padded_vocab_size")) ||
		    (!strcmp(name, "seq_length") && strstr(text, "encoder_seq_length")))
			continue;
		MQ_TRY(add(&argv, flag, value, err));
		if (!logged && !strcmp(name, "num_query_groups"))
			MQ_TRY(add(&argv, "--group-query-attention", "true", err));
	}
	*word = (const char *const *)mq_argv_end(&argv);
	return MQ_OK;
}
