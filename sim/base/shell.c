/* shell.c - see shell.h. SPDX-License-Identifier: Apache-2.0 */
#include "base/shell.h"

#include <ctype.h>
#include <string.h>

#include "maquette/types.h"

enum { MAX_BYTES = 1 << 20 };

struct words {
	const char **word;
	uint32_t n, room;
};

struct variable {
	const char *name;
	struct words value; /* one, or those of an array */
};

struct shell {
	struct mq_arena *arena;
	struct variable *variable;
	uint32_t n, room;
	size_t bytes; /* made so far */
	bool full;
};

/* Text that grows; beyond the limit nothing is added and the shell is full. */
struct text {
	char *c;
	size_t n, room;
};

static void put(struct shell *s, struct text *t, const char *from, size_t n)
{
	if (s->bytes + n > MAX_BYTES) {
		s->full = true;
		return;
	}
	if (t->n + n + 1 > t->room) {
		size_t room = 2 * (t->n + n) + 32;
		char *c = mq_arena_alloc(s->arena, room);

		if (t->n)
			memcpy(c, t->c, t->n);
		t->c = c;
		t->room = room;
	}
	memcpy(t->c + t->n, from, n);
	t->n += n;
	t->c[t->n] = '\0';
	s->bytes += n;
}

static void push(struct shell *s, struct words *out, const char *word)
{
	s->bytes++; /* empty words count too */
	if (s->bytes > MAX_BYTES)
		s->full = true;
	else
		MQ_PUSH(s->arena, out->word, out->n, out->room, word);
}

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static size_t name_length(const char *c)
{
	size_t n = 0;

	while (!isdigit((unsigned char)*c) && is_name(c[n]))
		n++;
	return n;
}

static struct variable *find(struct shell *s, const char *name, size_t n)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (strlen(s->variable[i].name) == n && !strncmp(s->variable[i].name, name, n))
			return &s->variable[i];
	return NULL;
}

/* The end of "$...", whatever it is: a name, or what brackets enclose. */
static const char *behind_dollar(const char *c, const char *end)
{
	char open = c[1], close = open == '{' ? '}' : ')';
	int depth = 0;

	if (open != '{' && open != '(') {
		size_t n = name_length(c + 1);
		return c + 1 + (n ? n : c + 1 < end);
	}
	for (c++; c < end; c++) {
		depth += *c == open;
		if (*c == close && !--depth)
			return c + 1;
	}
	return end;
}

/* What "$NAME", "${NAME}", "${NAME[@]}" or "${NAME:-otherwise}" stands for; NULL: not known. */
static const struct words *value_of(struct shell *s, const char *c, const char *end, struct words *otherwise)
{
	bool braces = c[1] == '{';
	const char *name = c + 1 + braces, *rest, *last = braces ? end - 1 : end;
	size_t n = name_length(name);
	const struct variable *v = n ? find(s, name, n) : NULL;

	rest = name + n;
	if (!n || c[1] == '(')
		return NULL;
	if (rest == last || (last - rest == 3 && (!strncmp(rest, "[@]", 3) || !strncmp(rest, "[*]", 3))))
		return v ? &v->value : NULL;
	if (last - rest >= 1 && (*rest == '-' || (*rest == ':' && rest[1] == '-'))) {
		if (v)
			return &v->value;
		rest += *rest == ':' ? 2 : 1;
		push(s, otherwise, mq_arena_printf(s->arena, "%.*s", (int)(last - rest), rest));
		return otherwise->n ? otherwise : NULL;
	}
	return NULL;
}

static void put_value(struct shell *s, struct text *to, const struct words *value)
{
	for (uint32_t i = 0; i < value->n; i++) {
		put(s, to, " ", i > 0);
		put(s, to, value->word[i], strlen(value->word[i]));
	}
}

/* A raw word without its quotes, its names replaced. */
static const char *plain(struct shell *s, const char *c, const char *end)
{
	struct text to = { NULL, 0, 0 };
	char quote = 0;

	put(s, &to, "", 0);
	while (c < end) {
		if (*c == '$' && quote != '\'' && c + 1 < end) {
			const char *next = behind_dollar(c, end);
			struct words otherwise = { NULL, 0, 0 };
			const struct words *value = value_of(s, c, next, &otherwise);

			if (value)
				put_value(s, &to, value);
			else
				put(s, &to, c, (size_t)(next - c));
			c = next;
			continue;
		}
		if (quote ? *c == quote : *c == '"' || *c == '\'') {
			quote = quote ? 0 : *c;
		} else if (*c == '\\' && quote != '\'' && c + 1 < end) {
			c++;
			put(s, &to, c, *c != '\n');
		} else {
			put(s, &to, c, 1);
		}
		c++;
	}
	return to.c ? to.c : "";
}

/* The end of the raw word that begins here; `close` ends it too. */
static const char *word_end(const char *c, char close)
{
	char quote = 0;

	for (; *c && (quote || (!isspace((unsigned char)*c) && *c != ';' && *c != close)); c++) {
		if (quote ? *c == quote : *c == '"' || *c == '\'') {
			quote = quote ? 0 : *c;
		} else if (*c == '$' && quote != '\'' && (c[1] == '{' || c[1] == '(')) {
			c = behind_dollar(c, c + strlen(c)) - 1;
		} else if (*c == '\\' && quote != '\'' && c[1]) {
			if (!quote && c[1] == '\n')
				break;
			c++;
		}
	}
	return c;
}

static void split(struct shell *s, const struct words *value, struct words *out)
{
	for (uint32_t i = 0; i < value->n; i++)
		for (const char *c = value->word[i]; *c;) {
			size_t blank = strspn(c, " \t\r\n"), n = strcspn(c + blank, " \t\r\n");

			if (n)
				push(s, out, mq_arena_printf(s->arena, "%.*s", (int)n, c + blank));
			c += blank + n;
		}
}

static const char *read_words(struct shell *s, const char *c, char close, struct words *out);

/* NAME=..., NAME+=..., NAME=( ... ): where it ends; NULL: this is none. */
static const char *assign(struct shell *s, const char *c)
{
	size_t n = name_length(c);
	const char *equals = c + n + (c[n] == '+');
	struct words value = { NULL, 0, 0 };

	if (!n || *equals != '=')
		return NULL;
	const char *from = equals + 1, *end;
	if (*from == '(') {
		end = read_words(s, from + 1, ')', &value);
	} else {
		end = word_end(from, '\0');
		push(s, &value, plain(s, from, end));
	}
	struct variable *old = find(s, c, n);
	if (old && equals[-1] == '+' && *from == '(') {
		for (uint32_t i = 0; i < value.n; i++)
			push(s, &old->value, value.word[i]);
	} else if (old && equals[-1] == '+' && old->value.n) {
		uint32_t last = old->value.n - 1;
		old->value.word[last] =
			mq_arena_printf(s->arena, "%s%s", old->value.word[last], value.n ? value.word[0] : "");
		s->bytes += strlen(old->value.word[last]);
	} else if (old) {
		old->value = value;
	} else {
		const struct variable v = { mq_arena_printf(s->arena, "%.*s", (int)n, c), value };
		MQ_PUSH(s->arena, s->variable, s->n, s->room, v);
	}
	return end;
}

static void take_word(struct shell *s, const char *c, const char *end, struct words *out)
{
	bool quoted = *c == '"' && end - c > 2 && end[-1] == '"';
	const char *from = c + quoted, *to = end - quoted;
	struct words otherwise = { NULL, 0, 0 };

	if (*from == '$' && behind_dollar(from, to) == to) {
		const struct words *value = value_of(s, from, to, &otherwise);
		bool all = to - from > 4 && !strncmp(to - 4, "[@]}", 4);

		if (value && all) {
			for (uint32_t i = 0; i < value->n; i++)
				push(s, out, value->word[i]);
			return;
		}
		if (value && !quoted) {
			split(s, value, out);
			return;
		}
	}
	push(s, out, plain(s, c, end));
}

/* Words up to `close` (or the end); returns what stands behind it. */
static const char *read_words(struct shell *s, const char *c, char close, struct words *out)
{
	while (!s->full) {
		while (isspace((unsigned char)*c) || *c == ';' || (*c == '\\' && (c[1] == '\n' || c[1] == '\r')))
			c++;
		if (*c == '#') {
			c += strcspn(c, "\n");
			continue;
		}
		if (!*c || *c == close)
			return *c ? c + 1 : c;
		const char *end = close ? NULL : assign(s, c);
		if (!end) {
			end = word_end(c, close);
			take_word(s, c, end, out);
		}
		c = end;
	}
	return c + strlen(c);
}

enum mq_status mq_shell_words(const char *text, struct mq_arena *arena, const char ***word, struct mq_err *err)
{
	struct shell s = { .arena = arena };
	struct words out = { NULL, 0, 0 };

	read_words(&s, text, '\0', &out);
	if (s.full)
		return mq_fail(err, MQ_EINPUT,
			       "its words come to more than %d bytes once names are replaced; give "
			       "the flags themselves",
			       MAX_BYTES);
	MQ_PUSH(arena, out.word, out.n, out.room, NULL);
	*word = out.word;
	return MQ_OK;
}
