/* shell.c - words: quotes, names, arithmetic; see shell.h. SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/shell_parts.h"

enum { MAX_DEPTH = 64, MOST_VARIABLES = 2000 };

/* Appends to a growing text; beyond the limit it adds nothing and marks the shell as full. */
struct text {
	char *c;
	size_t n, room;
};

static void put(struct mq_shell *s, struct text *t, const char *from, size_t n)
{
	if (s->bytes + n > MQ_SHELL_BYTES) {
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

void mq_shell_push(struct mq_shell *s, struct mq_shell_list *out, const char *word)
{
	s->bytes++; /* empty words count too */
	if (s->bytes > MQ_SHELL_BYTES)
		s->full = true;
	else
		MQ_PUSH(s->arena, out->word, out->n, out->room, word);
}

size_t mq_shell_name(const char *c)
{
	size_t n = 0;

	while (!isdigit((unsigned char)*c) && (isalnum((unsigned char)c[n]) || c[n] == '_'))
		n++;
	return n;
}

struct mq_shell_variable *mq_shell_find(struct mq_shell *s, const char *name, size_t n)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (strlen(s->variable[i].name) == n && !strncmp(s->variable[i].name, name, n))
			return &s->variable[i];
	return NULL;
}

/* The end of "$..."; `end` NULL: of the text. */
static const char *behind_dollar(const char *c, const char *end)
{
	char open = c[1], close = open == '{' ? '}' : ')';
	int depth = 0;

	if (open != '{' && open != '(') {
		size_t n = mq_shell_name(c + 1);
		return c + 1 + (n ? n : c[1] && c + 1 != end);
	}
	for (c++; *c && c != end; c++) {
		depth += *c == open;
		if (*c == close && !--depth)
			return c + 1;
	}
	return c;
}

const char *mq_shell_word_end(const char *c)
{
	char quote = 0;

	for (; *c && (quote || (!isspace((unsigned char)*c) && !strchr(";&|()<>", *c))); c++) {
		if (quote ? *c == quote : *c == '"' || *c == '\'' || *c == '`') {
			quote = quote ? 0 : *c;
		} else if (*c == '$' && quote != '\'' && (c[1] == '{' || c[1] == '(')) {
			c = behind_dollar(c, NULL) - 1;
		} else if (*c == '\\' && quote != '\'' && c[1]) {
			if (!quote && c[1] == '\n')
				break;
			c++;
		}
	}
	return c;
}

/* ---- arithmetic -------------------------------------------------------------------------------------------- */

struct sum {
	struct mq_shell *s;
	const char *c;
	uint32_t depth;
	bool bad;
};

static const struct operator
{
	const char *sign;
	int rank;
}
operators[] = { { "**", 6 }, { "||", 1 }, { "&&", 2 }, { "==", 3 }, { "!=", 3 }, { "<=", 3 }, { ">=", 3 },
		{ "<", 3 },  { ">", 3 },  { "+", 4 },  { "-", 4 },  { "*", 5 },  { "/", 5 },  { "%", 5 } };

static int64_t apply(struct sum *x, const char *sign, int64_t a, int64_t b)
{
	int64_t result = 0;

	switch (*sign) {
	case '+':
		x->bad |= __builtin_add_overflow(a, b, &result);
		return result;
	case '-':
		x->bad |= __builtin_sub_overflow(a, b, &result);
		return result;
	case '*':
		for (result = sign[1] ? 1 : a; sign[1] && b > 0 && !x->bad && result; b--)
			x->bad |= __builtin_mul_overflow(result, a, &result) || b > MQ_SHELL_BYTES;
		if (!sign[1])
			x->bad |= __builtin_mul_overflow(a, b, &result);
		return result;
	case '/':
	case '%':
		x->bad |= !b || (a == INT64_MIN && b == -1);
		return x->bad ? 0 : *sign == '/' ? a / b : a % b;
	case '<':
		return sign[1] ? a <= b : a < b;
	case '>':
		return sign[1] ? a >= b : a > b;
	case '&':
		return a && b;
	case '|':
		return a || b;
	default:
		return *sign == '=' ? a == b : a != b;
	}
}

static int64_t sum_of(struct sum *x, int rank);

static int64_t operand(struct sum *x)
{
	char *end;
	size_t n;
	int64_t value = 0;

	x->c += strspn(x->c, " \t\n");
	if (x->depth++ > MAX_DEPTH) {
		x->bad = true;
	} else if (*x->c == '(') {
		x->c++;
		value = sum_of(x, 1);
		x->c += strspn(x->c, " \t\n");
		x->bad |= *x->c != ')';
		x->c += *x->c == ')';
	} else if (*x->c == '-' || *x->c == '+' || *x->c == '!') {
		char sign = *x->c++;
		value = operand(x);
		value = sign == '!' ? !value : sign == '-' ? apply(x, "-", 0, value) : value;
	} else if ((n = mq_shell_name(x->c))) {
		struct mq_shell_variable *v = mq_shell_find(x->s, x->c, n);
		x->bad |= !v || v->unsure || v->value.n != 1 || !mq_shell_number(x->s, v->value.word[0], &value);
		x->c += n;
	} else {
		value = strtoll(x->c, &end, 0);
		x->bad |= end == x->c || value == INT64_MAX || value == INT64_MIN;
		x->c = end;
	}
	x->depth--;
	return value;
}

static int64_t sum_of(struct sum *x, int rank)
{
	int64_t value = operand(x);

	while (!x->bad) {
		const struct operator* o = operators, *end = operators + sizeof(operators) / sizeof(*operators);

		x->c += strspn(x->c, " \t\n");
		while (o < end && strncmp(x->c, o->sign, strlen(o->sign)))
			o++;
		if (o == end || o->rank < rank)
			return value;
		x->c += strlen(o->sign);
		value = apply(x, o->sign, value, sum_of(x, o->rank + 1));
	}
	return value;
}

bool mq_shell_number(struct mq_shell *s, const char *text, int64_t *value)
{
	struct sum x = { s, text, 0, false };

	if (s->depth > MAX_DEPTH)
		return false;
	s->depth++;
	*value = sum_of(&x, 1);
	s->depth--;
	return !x.bad && !x.c[strspn(x.c, " \t\n")];
}

/* ---- values of names --------------------------------------------------------------------------------------- */

static bool as_number(struct mq_shell *s, const char *c, const char *end, struct mq_shell_list *v)
{
	int64_t value;

	if (!mq_shell_number(s, mq_shell_text(s, c, end), &value))
		return false;
	mq_shell_push(s, v, mq_arena_printf(s->arena, "%lld", (long long)value));
	return true;
}

/* Evaluates "$((1 + 2))", "$(expr 1 + 2)"; the output of other commands is unknown. */
static bool substituted(struct mq_shell *s, const char *c, const char *end, struct mq_shell_list *v)
{
	if (c[2] == '(' && end - c > 5 && end[-2] == ')')
		return as_number(s, c + 3, end - 2, v);
	c += 2 + strspn(c + 2, " ");
	return !strncmp(c, "expr ", 5) && as_number(s, c + 5, end - 1, v);
}

/* The value of a function's argument or a variable; NULL: none. */
static const struct mq_shell_list *look_up(struct mq_shell *s, const char *name, size_t n, struct mq_shell_list *room,
					   bool *unsure)
{
	static const struct mq_shell_list nothing = { NULL, 0, 0 };

	*unsure = false;
	if (*name == '@' || *name == '*')
		return s->args ? s->args : &nothing;
	if (*name == '#') {
		mq_shell_push(s, room, mq_arena_printf(s->arena, "%u", s->args ? s->args->n : 0));
		return room;
	}
	if (isdigit((unsigned char)*name)) {
		unsigned long i = strtoul(name, NULL, 10);
		if (!s->args || !i || i > s->args->n)
			return NULL;
		mq_shell_push(s, room, s->args->word[i - 1]);
		return room;
	}
	const struct mq_shell_variable *v = mq_shell_find(s, name, n);
	if (!v || !v->unsure)
		return v ? &v->value : NULL;
	for (uint32_t i = 0; i < v->value.n; i++)
		for (const char *c = v->value.word[i]; *c && !s->full;) {
			size_t blank = strspn(c, " \t\r\n"), length = strcspn(c + blank, " \t\r\n");

			if (length)
				mq_shell_push(s, &s->doubt, mq_arena_printf(s->arena, "%.*s", (int)length, c + blank));
			s->bytes += length;
			c += blank + length;
		}
	*unsure = true;
	return NULL;
}

static void take(struct mq_shell *s, const struct mq_shell_list *from, struct mq_shell_list *to)
{
	for (uint32_t i = 0; i < from->n; i++)
		mq_shell_push(s, to, from->word[i]);
}

/* Applies the operator after the name in "${NAME...}", up to `last`. */
static bool operate(struct mq_shell *s, const char *name, size_t n, const struct mq_shell_list *have, bool unsure,
		    const char *rest, const char *last, struct mq_shell_list *v)
{
	bool colon = *rest == ':', unset = !have || (colon && (!have->n || (have->n == 1 && !*have->word[0])));
	char sign = rest[colon];
	int64_t index;

	if (strchr("-=+?", sign) && sign && !unsure) {
		if (sign == '+' ? !unset : unset && sign != '?')
			mq_shell_expand(s, rest + colon + 1, last, false, v);
		else if (!unset && have)
			take(s, have, v);
		if (sign == '=' && unset && !s->skip)
			mq_shell_assign(s, name, n, v, false);
		return sign != '?' || !unset;
	}
	if (*rest == '[' && last[-1] == ']' && have &&
	    mq_shell_number(s, mq_shell_text(s, rest + 1, last - 1), &index) && index >= 0 && index < have->n) {
		mq_shell_push(s, v, have->word[index]);
		return true;
	}
	if (have && have->n == 1 && last - rest == 2 && (!strncmp(rest, ",,", 2) || !strncmp(rest, "^^", 2))) {
		char *text = mq_arena_strdup(s->arena, have->word[0]);
		for (char *t = text; *t; t++)
			*t = (char)(*rest == ',' ? tolower((unsigned char)*t) : toupper((unsigned char)*t));
		mq_shell_push(s, v, text);
		return true;
	}
	return false;
}

/* The value of "$..."; false: unknown. all: its words stay separate in quotes. */
static bool value_of(struct mq_shell *s, const char *c, const char *end, struct mq_shell_list *v, bool *all)
{
	bool braces = c[1] == '{', count = braces && c[2] == '#' && end - c > 4, unsure;
	const char *name = c + 1 + braces + count, *last = braces ? end - 1 : end;
	size_t n = mq_shell_name(name);
	struct mq_shell_list room = { NULL, 0, 0 };

	*all = false;
	if (c[1] == '(')
		return substituted(s, c, end, v);
	if (!n && isdigit((unsigned char)*name))
		n = braces ? strspn(name, "0123456789") : 1;
	else if (!n && name < last && strchr("@*#", *name))
		n = 1;
	if (!n || name + n > last)
		return false;
	const char *rest = name + n;
	const struct mq_shell_list *have = look_up(s, name, n, &room, &unsure);
	bool whole = last - rest == 3 && (!strncmp(rest, "[@]", 3) || !strncmp(rest, "[*]", 3));
	*all = (whole && rest[1] == '@') || *name == '@';
	if (count && (rest == last || whole) && have) {
		size_t size = whole ? have->n : have->n ? strlen(have->word[0]) : 0;
		mq_shell_push(s, v, mq_arena_printf(s->arena, "%zu", size));
		return true;
	}
	if (rest == last || whole) {
		if (have)
			take(s, have, v);
		if (have && !whole && !*all && have->n > 1 && *name != '*')
			v->n = 1; /* an array's name alone is its first element */
		return have;
	}
	return operate(s, name, n, have, unsure, rest, last, v);
}

/* ---- words -------------------------------------------------------------------------------------------------- */

struct field {
	struct text text;
	bool begun;
};

static void flush(struct mq_shell *s, struct field *f, struct mq_shell_list *out)
{
	if (f->begun)
		mq_shell_push(s, out, f->text.c ? f->text.c : "");
	*f = (struct field){ { NULL, 0, 0 }, false };
}

static void add(struct mq_shell *s, struct field *f, const char *c, size_t n)
{
	put(s, &f->text, c, n);
	f->begun = true;
}

/* Inserts a value into a word; unquoted, it is split into words. */
static void add_value(struct mq_shell *s, struct field *f, const struct mq_shell_list *v, bool quoted, bool all,
		      bool split, struct mq_shell_list *out)
{
	for (uint32_t i = 0; i < v->n; i++) {
		const char *c = v->word[i];

		if (i && split && (all || !quoted))
			flush(s, f, out);
		else if (i)
			add(s, f, " ", 1);
		if (quoted || !split)
			add(s, f, c, strlen(c));
		while (!quoted && split && *c) {
			size_t blank = strspn(c, " \t\r\n"), n = strcspn(c + blank, " \t\r\n");

			if (blank)
				flush(s, f, out);
			if (n)
				add(s, f, c + blank, n);
			c += blank + n;
		}
	}
}

void mq_shell_expand(struct mq_shell *s, const char *c, const char *end, bool split, struct mq_shell_list *out)
{
	struct field f = { { NULL, 0, 0 }, !split };
	bool quoted = false, none = false; /* none: "$@" without arguments gives no word */

	if (s->depth > MAX_DEPTH) {
		s->full = true;
		return;
	}
	s->depth++;
	while (c < end && !s->full) {
		const char *next = c + 1;

		if (*c == '\'' && !quoted) {
			for (next = c + 1; next < end && *next != '\'';)
				next++;
			add(s, &f, c + 1, (size_t)(next - c - 1));
			next += next < end;
		} else if (*c == '"') {
			quoted = !quoted;
			f.begun |= !quoted && !none;
			none = false;
		} else if (*c == '\\' && next < end) {
			if (quoted && !strchr("$`\"\\\n", *next))
				add(s, &f, c, 1);
			add(s, &f, next, *next != '\n');
			next++;
		} else if (*c == '$' && !quoted && next < end && strchr("'\"", *next)) {
			/* $'...': the quote follows */
		} else if (*c == '$' && next < end && (next = behind_dollar(c, end)) > c + 1) {
			struct mq_shell_list v = { NULL, 0, 0 };
			bool all;

			bool known = value_of(s, c, next, &v, &all);
			if (known)
				add_value(s, &f, &v, quoted, all, split, out);
			else
				add(s, &f, c, (size_t)(next - c));
			none = known && all && !v.n;
		} else if (*c == '`') {
			const char *close = memchr(c + 1, '`', (size_t)(end - c - 1));
			next = close ? close + 1 : end;
			add(s, &f, c, (size_t)(next - c));
		} else {
			add(s, &f, c, 1);
		}
		c = next;
	}
	flush(s, &f, out);
	s->depth--;
}

const char *mq_shell_text(struct mq_shell *s, const char *c, const char *end)
{
	struct mq_shell_list one = { NULL, 0, 0 };

	mq_shell_expand(s, c, end, false, &one);
	return one.n ? one.word[0] : "";
}

static bool same(const struct mq_shell_list *a, const struct mq_shell_list *b)
{
	bool same = a->n == b->n;

	for (uint32_t i = 0; same && i < a->n; i++)
		same = !strcmp(a->word[i], b->word[i]);
	return same;
}

void mq_shell_assign(struct mq_shell *s, const char *name, size_t n, const struct mq_shell_list *value, bool append)
{
	struct mq_shell_variable *v = mq_shell_find(s, name, n);
	struct mq_shell_list now = { NULL, 0, 0 };

	s->full |= s->n > MOST_VARIABLES;
	if (!v) {
		const struct mq_shell_variable fresh = { .name = mq_arena_printf(s->arena, "%.*s", (int)n, name) };

		MQ_PUSH(s->arena, s->variable, s->n, s->room, fresh);
		v = &s->variable[s->n - 1];
	} else if (append) {
		take(s, &v->value, &now);
	}
	take(s, value, &now);
	if (!s->unsure) {
		v->value = now;
		v->unsure = v->unsure && append;
	} else if (v->unsure || !same(&v->value, &now)) {
		take(s, value, &v->value); /* all its possible values */
		v->unsure = true;
	}
}
