/* shell_run.c - runs the commands of a script; see shell.h. Recursive descent over the part of Bash's grammar that
 * launch scripts use. SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

#include "base/shell_parts.h"
#include "base/text.h"

enum { MAX_NESTING = 48, MOST_FUNCTIONS = 500, MOST_TESTED = 1000 };

/* The result of a command: a test may depend on unknown values. */
enum truth { NO, YES, MAYBE };

static const char *run_list(struct mq_shell *s, const char *c, const char *const *ends, enum truth *last);
static void run_text(struct mq_shell *s, const char *text);

/* ---- between words ---------------------------------------------------------------------------------------- */

/* Skips a here-document, or runs it if it is a script; its names may be escaped from the shell that writes it. */
static const char *take_document(struct mq_shell *s, const char *c)
{
	const char *body = c, *line = c;
	bool quoted = strchr("'\"\\", s->heredoc[-1]), runs = s->heredoc_runs, ends = false;

	while (*c && !ends) {
		size_t indent = strspn(c, "\t"), n = strcspn(c, "\n");

		ends = n == indent + s->heredoc_n && !strncmp(c + indent, s->heredoc, s->heredoc_n);
		line = c;
		c += n + (c[n] == '\n');
	}
	s->heredoc = NULL;
	s->heredoc_runs = false;
	if (!runs || !ends)
		return c;
	char *script = mq_arena_printf(s->arena, "%.*s", (int)(line - body), body), *to = script;
	for (const char *from = script; *from; *to++ = *from++)
		from += !quoted && *from == '\\' && from[1] && strchr("$`\\", from[1]);
	*to = '\0';
	s->bytes += strlen(script);
	run_text(s, script);
	return c;
}

/* Skips blanks and comments; after a line with <<WORD, its here-document. */
static const char *skip_blank(struct mq_shell *s, const char *c, bool lines)
{
	for (;;) {
		while (*c == ' ' || *c == '\t' || *c == '\r' || (*c == '\\' && (c[1] == '\n' || c[1] == '\r')))
			c += 1 + (*c == '\\' && c[1] == '\n');
		if (*c == '#')
			c += strcspn(c, "\n");
		if (*c != '\n' || !lines)
			return c;
		c++;
		if (s->heredoc)
			c = take_document(s, c);
	}
}

static size_t keyword(const char *c, const char *word)
{
	size_t n = strlen(word);

	return !strncmp(c, word, n) && (!c[n] || isspace((unsigned char)c[n]) || strchr(";&|()", c[n])) ? n : 0;
}

static size_t one_of(const char *c, const char *const *words)
{
	size_t n = 0;

	for (; words && *words && !n; words++)
		n = keyword(c, *words);
	return n;
}

static const char *expect(struct mq_shell *s, const char *c, const char *word)
{
	c = skip_blank(s, c, true);
	if (*c == ';' && strcmp(word, ";;") != 0)
		c = skip_blank(s, c + 1, true);
	return c + keyword(c, word);
}

/* ---- conditions ------------------------------------------------------------------------------------------- */

static bool known(const char *word)
{
	return !strpbrk(word, "$`");
}

static enum truth not(enum truth t) { return t == MAYBE ? MAYBE : t == YES ? NO : YES; }

/* A word of a test; a variable without assignment is empty, since the script runs without arguments in an empty
 * environment. NULL: unknown. */
static const char *resolved(struct mq_shell *s, const char *word)
{
	bool braces = word[0] == '$' && word[1] == '{';
	const char *name = word + 1 + braces;
	size_t n = known(word) ? 0 : mq_shell_name(name);

	if (known(word))
		return word;
	if (!n && isdigit((unsigned char)*name))
		n = 1;
	if (*word != '$' || !n || strcmp(name + n, braces ? "}" : ""))
		return NULL;
	return mq_shell_find(s, name, n) ? NULL : "";
}

static enum truth is_unset(struct mq_shell *s, const char *word)
{
	word = resolved(s, word);
	return !word ? MAYBE : *word ? NO : YES;
}

static enum truth compare(struct mq_shell *s, const char *a, const char *sign, const char *b)
{
	static const char *const orders[] = { "-eq", "-ne", "-lt", "-le", "-gt", "-ge" };
	int64_t x, y;

	a = resolved(s, a);
	b = resolved(s, b);
	if (!a || !b)
		return MAYBE;
	if (!strcmp(sign, "=") || !strcmp(sign, "=="))
		return fnmatch(b, a, 0) ? NO : YES;
	if (!strcmp(sign, "!="))
		return fnmatch(b, a, 0) ? YES : NO;
	for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++)
		if (!strcmp(sign, orders[i])) {
			if (!mq_shell_number(s, a, &x) || !mq_shell_number(s, b, &y))
				return MAYBE;
			const bool is[] = { x == y, x != y, x<y, x <= y, x> y, x >= y };
			return is[i] ? YES : NO;
		}
	return MAYBE;
}

/* Words of `test`, up to "-o", "||", "-a" or "&&" of each rank. */
static enum truth test(struct mq_shell *s, const char *const *word, uint32_t n)
{
	static const char *const joints[2][2] = { { "-o", "||" }, { "-a", "&&" } };

	if (n > MOST_TESTED)
		return MAYBE;
	for (int rank = 0; rank < 2; rank++)
		for (uint32_t i = 1; i + 1 < n; i++)
			if (!strcmp(word[i], joints[rank][0]) || !strcmp(word[i], joints[rank][1])) {
				enum truth a = test(s, word, i), b = test(s, word + i + 1, n - i - 1);
				enum truth wins = rank ? NO : YES;

				return a == wins || b == wins ? wins : a == MAYBE || b == MAYBE ? MAYBE : not(wins);
			}
	if (n > 1 && !strcmp(word[0], "!"))
		return not(test(s, word + 1, n - 1));
	if (n == 1)
		return not(is_unset(s, word[0]));
	if (n == 2 && !strcmp(word[0], "-z"))
		return is_unset(s, word[1]);
	if (n == 2 && !strcmp(word[0], "-n"))
		return not(is_unset(s, word[1]));
	return n == 3 ? compare(s, word[0], word[1], word[2]) : n ? MAYBE : NO;
}

/* "[[ ... ]]", with && and || as words. */
static const char *double_test(struct mq_shell *s, const char *c, enum truth *last)
{
	struct mq_shell_list word = { NULL, 0, 0 };

	for (c = skip_blank(s, c, true); *c && !keyword(c, "]]"); c = skip_blank(s, c, true)) {
		const char *end = mq_shell_word_end(c);
		struct mq_shell_list one = { NULL, 0, 0 };

		if (end == c) /* && || ( ) < > */
			end += 1 + (c[1] == c[0] && strchr("&|", *c));
		mq_shell_expand(s, c, end, false, &one);
		mq_shell_push(s, &word, one.n ? one.word[0] : "");
		c = end;
	}
	*last = test(s, word.word, word.n);
	return c + (*c ? 2 : 0);
}

/* "(( ... ))": an assignment, or a condition. */
static const char *double_sum(struct mq_shell *s, const char *c, enum truth *last)
{
	const char *end = strstr(c, "))");
	size_t n = mq_shell_name(c + 2 + strspn(c + 2, " "));
	int64_t value;

	if (!end)
		return c + strlen(c);
	const char *name = c + 2 + strspn(c + 2, " "), *equals = name + n + strspn(name + n, " ");
	bool assigns = n && *equals == '=' && equals[1] != '=';
	const char *text = mq_shell_text(s, assigns ? equals + 1 : c + 2, end);
	bool good = mq_shell_number(s, text, &value);
	*last = !good ? MAYBE : value ? YES : NO;
	if (assigns && !s->skip) {
		struct mq_shell_list one = { NULL, 0, 0 };
		mq_shell_push(s, &one, good ? mq_arena_printf(s->arena, "%lld", (long long)value) : text);
		mq_shell_assign(s, name, n, &one, false);
	}
	return end + 2;
}

/* ---- compound commands ------------------------------------------------------------------------------------- */

/* A branch: taken, skipped, or undecided. */
static const char *branch(struct mq_shell *s, const char *c, const char *const *ends, enum truth taken)
{
	enum truth last;

	s->skip += taken == NO;
	s->unsure += taken == MAYBE;
	c = run_list(s, c, ends, &last);
	s->skip -= taken == NO;
	s->unsure -= taken == MAYBE;
	return c;
}

static const char *run_if(struct mq_shell *s, const char *c)
{
	static const char *const then[] = { "then", NULL }, *const more[] = { "elif", "else", "fi", NULL };
	enum truth before = NO, now; /* was an earlier branch taken? */

	for (;;) {
		s->skip += before == YES;
		c = run_list(s, c, then, &now);
		s->skip -= before == YES;
		c = expect(s, c, "then");
		c = branch(s, c, more, before == YES ? NO : before == MAYBE && now == YES ? MAYBE : now);
		before = before == YES || now == YES ? (before == MAYBE ? MAYBE : YES) : before == MAYBE ? MAYBE : now;
		c = skip_blank(s, c, true);
		if (keyword(c, "elif")) {
			c += 4;
			continue;
		}
		if (keyword(c, "else"))
			c = branch(s, c + 4, more, not(before));
		return expect(s, c, "fi");
	}
}

static const char *run_loop(struct mq_shell *s, const char *c, bool until)
{
	static const char *const go[] = { "do", NULL }, *const ends[] = { "done", NULL };
	enum truth now;

	c = run_list(s, c, go, &now);
	c = expect(s, c, "do");
	now = until ? not(now) : now;
	c = branch(s, c, ends, now == NO ? NO : MAYBE);
	return expect(s, c, "done");
}

/* The body of a loop runs once: over one word for certain, over several in doubt, with any of them as the value. */
static const char *run_for(struct mq_shell *s, const char *c)
{
	static const char *const ends[] = { "done", NULL };
	struct mq_shell_list word = { NULL, 0, 0 };
	const char *name = c = skip_blank(s, c, true);
	size_t n = mq_shell_name(c);

	c = skip_blank(s, c + n, true);
	if (!n) { /* for ((i = 0; ...)) */
		const char *end = strstr(c, "))");
		c = end ? end + 2 : c + strlen(c);
	} else if (keyword(c, "in")) {
		for (c = skip_blank(s, c + 2, false); *c && *c != '\n' && *c != ';'; c = skip_blank(s, c, false)) {
			const char *end = mq_shell_word_end(c);

			mq_shell_expand(s, c, end, true, &word);
			c = end + (end == c);
		}
	}
	c = expect(s, c, "do");
	bool one = word.n == 1 && known(word.word[0]);
	s->unsure += !one;
	if (word.n && !s->skip)
		mq_shell_assign(s, name, n, &word, false);
	s->unsure -= !one;
	c = branch(s, c, ends, one ? YES : n && !word.n ? NO : MAYBE);
	return expect(s, c, "done");
}

static const char *run_case(struct mq_shell *s, const char *c)
{
	static const char *const ends[] = { "esac", NULL };
	const char *from = skip_blank(s, c, true), *end = mq_shell_word_end(from);
	const char *word = resolved(s, mq_shell_text(s, from, end));
	enum truth before = NO;

	c = expect(s, end, "in");
	for (c = skip_blank(s, c, true); *c && !keyword(c, "esac"); c = skip_blank(s, c, true)) {
		enum truth now = NO;

		for (c += *c == '('; *c && *c != ')'; c += *c == '|') {
			c = skip_blank(s, c, true);
			end = mq_shell_word_end(c);
			const char *pattern = mq_shell_text(s, c, end);
			if (word && !fnmatch(pattern, word, 0))
				now = YES;
			else if (!word)
				now = MAYBE;
			c = skip_blank(s, end == c && *c != '|' && *c != ')' ? c + (*c != '\0') : end, true);
		}
		c = branch(s, c + (*c == ')'), ends, before == YES ? NO : before == MAYBE && now == YES ? MAYBE : now);
		before = before == YES || now == YES ? YES : before == MAYBE ? MAYBE : now;
		while (*c == ';' || *c == '&')
			c++;
	}
	return expect(s, c, "esac");
}

static const char *run_group(struct mq_shell *s, const char *c, const char *close)
{
	const char *const ends[] = { close, NULL };
	enum truth last;

	if (++s->depth > MAX_NESTING)
		s->full = true;
	else
		c = run_list(s, c, ends, &last);
	s->depth--;
	return *c == *close ? c + 1 : c;
}

/* Stores a function without running it. */
static const char *skip_function(struct mq_shell *s, const char *name, size_t n, const char *body)
{
	body = skip_blank(s, body, true);
	const struct mq_shell_function f = { mq_arena_printf(s->arena, "%.*s", (int)n, name), body };
	if (!s->skip && s->n_functions < MOST_FUNCTIONS)
		MQ_PUSH(s->arena, s->function, s->n_functions, s->function_room, f);
	s->skip++;
	const char *end = *body == '{' ? run_group(s, body + 1, "}") :
			  *body == '(' ? run_group(s, body + 1, ")") :
					 body;
	s->skip--;
	return end;
}

/* ---- simple commands ----------------------------------------------------------------------------------------- */

/* The end of NAME=..., NAME+=..., NAME=( ... ); NULL: no assignment. */
static const char *assign(struct mq_shell *s, const char *c)
{
	size_t n = mq_shell_name(c);
	bool append = c[n] == '+', list;
	const char *from = c + n + append + 1, *end;
	struct mq_shell_list value = { NULL, 0, 0 };

	if (!n || from[-1] != '=')
		return NULL;
	list = *from == '(';
	if (list) {
		for (end = skip_blank(s, from + 1, true); *end && *end != ')'; end = skip_blank(s, end, true)) {
			const char *next = mq_shell_word_end(end);

			mq_shell_expand(s, end, next, true, &value);
			end = next + (next == end);
		}
		end += *end == ')';
	} else {
		const struct mq_shell_variable *old = append ? mq_shell_find(s, c, n) : NULL;
		const char *text;

		end = mq_shell_word_end(from);
		text = mq_shell_text(s, from, end);
		if (old && old->value.n && !old->unsure)
			text = mq_arena_printf(s->arena, "%s%s", old->value.word[0], text);
		s->bytes += strlen(text);
		mq_shell_push(s, &value, text);
	}
	if (!s->skip)
		mq_shell_assign(s, c, n, &value, append && list);
	return end;
}

/* Runs a whole text, skipping unmatched closing words. */
static void run_text(struct mq_shell *s, const char *text)
{
	enum truth last;

	if (++s->depth > MAX_NESTING)
		s->full = true;
	for (const char *c = text; *c && !s->full; c += *c != '\0')
		c = run_list(s, c, NULL, &last);
	s->depth--;
}

static bool call(struct mq_shell *s, const struct mq_shell_list *word)
{
	const struct mq_shell_list *before = s->args;
	const struct mq_shell_list args = { word->word + 1, word->n - 1, 0 };

	for (uint32_t i = s->n_functions; i-- > 0;) {
		const char *body = s->function[i].body;

		if (strcmp(s->function[i].name, word->word[0]))
			continue;
		s->args = &args;
		if (++s->depth > MAX_NESTING)
			s->full = true;
		else
			run_group(s, body + 1, *body == '(' ? ")" : "}");
		s->depth--;
		s->args = before;
		return true;
	}
	return false;
}

static bool is_shell(const char *word)
{
	return mq_text_has_word("bash sh", basename(word));
}

/* Does the command read a script from its standard input: "sbatch -N 2", "srun -l bash -s"? */
static bool reads_script(const struct mq_shell_list *word)
{
	uint32_t last = word->n - 1;

	if (!strcmp(word->word[0], "sbatch"))
		return true;
	while (last && *word->word[last] == '-')
		last--;
	return is_shell(word->word[last]);
}

/* The script in the words of "... bash -c SCRIPT"; NULL: none. */
static const char *inner_script(const struct mq_shell_list *word)
{
	for (uint32_t i = 0; i < word->n; i++)
		for (uint32_t k = i + 1; is_shell(word->word[i]) && k + 1 < word->n && *word->word[k] == '-'; k++)
			if (word->word[k][1] != '-' && strchr(word->word[k], 'c'))
				return word->word[k + 1];
	return NULL;
}

/* Runs a command: tests, functions, eval and inner shells; the words of all others are collected. */
static enum truth execute(struct mq_shell *s, const struct mq_shell_list *word)
{
	static const char *const fails[] = { "false", "read", "getopts", NULL };
	const char *name = word->n ? word->word[0] : ":", *script, *all = "";

	if (s->skip || !word->n)
		return YES;
	s->full |= ++s->bytes > MQ_SHELL_BYTES; /* steps count as well */
	if (!strcmp(name, "[") || !strcmp(name, "test"))
		return test(s, word->word + 1, word->n - 1 - (*name == '['));
	if (one_of(name, fails))
		return NO;
	if (call(s, word))
		return YES;
	if (!strcmp(name, "eval")) {
		for (uint32_t i = 1; i < word->n; i++)
			all = mq_arena_printf(s->arena, "%s %s", all, word->word[i]);
		s->bytes += strlen(all);
		run_text(s, all);
		return YES;
	}
	script = inner_script(word);
	for (uint32_t i = 0; i < word->n && word->word[i] != script; i++)
		mq_shell_push(s, s->unsure ? &s->doubt : &s->out, word->word[i]);
	if (script)
		run_text(s, script);
	s->heredoc_runs |= s->heredoc && reads_script(word);
	return YES;
}

/* "2>&1", "> FILE", "<<EOF": skipped; c if this is none. */
static const char *redirect(struct mq_shell *s, const char *c)
{
	const char *at = c + strspn(c, "0123456789&");
	bool document;

	if (*at != '<' && *at != '>')
		return c;
	document = at[0] == '<' && at[1] == '<' && at[2] != '<';
	at += strspn(at, "<>&|-");
	at = skip_blank(s, at, false);
	const char *end = mq_shell_word_end(at);
	if (document) {
		s->heredoc = at + strspn(at, "'\"\\");
		s->heredoc_n = strcspn(s->heredoc, "'\" \t\r\n;|&)");
	}
	return *at == '(' ? run_group(s, at + 1, ")") : end;
}

static bool ends_command(const char *c)
{
	return !*c || strchr("\n;|)", *c) || (*c == '&' && c[1] != '>');
}

static const char *run_simple(struct mq_shell *s, const char *c, enum truth *last)
{
	static const char *const declares[] = { "export", "declare", "local", "readonly", "typeset", "env", NULL };
	struct mq_shell_list word = { NULL, 0, 0 };
	bool leads = true, declares_now = false; /* assignments are allowed here; options of `export` */

	for (c = skip_blank(s, c, false); !ends_command(c) && !s->full; c = skip_blank(s, c, false)) {
		const char *end = redirect(s, c);
		size_t n = mq_shell_name(c);

		if (end != c) {
			c = end;
			continue;
		}
		if (!word.n && n && c[n] == '(' && c[n + 1] == ')')
			return skip_function(s, c, n, c + n + 2);
		if (leads && (end = assign(s, c))) {
			c = end;
			continue;
		}
		end = mq_shell_word_end(c);
		if (!word.n && one_of(c, declares)) { /* not part of the words, nor are its options */
			declares_now = true;
		} else if (!declares_now || word.n || *c != '-') {
			mq_shell_expand(s, c, end, true, &word);
			leads = false;
		}
		c = end + (end == c);
	}
	*last = execute(s, &word);
	return c;
}

static const char *run_command(struct mq_shell *s, const char *c, enum truth *last)
{
	*last = YES;
	if (keyword(c, "if"))
		return run_if(s, c + 2);
	if (keyword(c, "while") || keyword(c, "until"))
		return run_loop(s, c + 5, *c == 'u');
	if (keyword(c, "for") || keyword(c, "select"))
		return run_for(s, c + (*c == 'f' ? 3 : 6));
	if (keyword(c, "case"))
		return run_case(s, c + 4);
	if (keyword(c, "function")) {
		const char *name = skip_blank(s, c + 8, false), *end = name + strcspn(name, " \t\n({");
		const char *body = skip_blank(s, end, true);
		return skip_function(s, name, (size_t)(end - name), !strncmp(body, "()", 2) ? body + 2 : body);
	}
	if (keyword(c, "[["))
		return double_test(s, c + 2, last);
	if (!strncmp(c, "((", 2))
		return double_sum(s, c, last);
	if (*c == '(')
		return run_group(s, c + 1, ")");
	if (*c == '{' && isspace((unsigned char)c[1]))
		return run_group(s, c + 1, "}");
	return run_simple(s, c, last);
}

/* Runs commands up to one of the words `ends`, ";;", ")" or the end. Commands other than tests count as successful. */
static const char *run_list(struct mq_shell *s, const char *c, const char *const *ends, enum truth *last)
{
	*last = YES;
	s->full |= ++s->nesting > MAX_NESTING;
	while (!s->full) {
		const char *from = c = skip_blank(s, c, true);
		enum truth before = *last;
		char joint[3] = { 0 };
		bool negated;

		if (!*c || *c == ')' || !strncmp(c, ";;", 2) || one_of(c, ends)) {
			s->nesting--;
			return c;
		}
		for (; *c && strchr(";&|", *c); c++)
			if (c[1] == c[0] || (c > from && c[-1] == c[0]))
				joint[0] = *c;
		if (c > from && !joint[0])
			continue;
		c = joint[0] ? skip_blank(s, c, true) : c;
		/* operands of && and ||: run, skipped, or undecided */
		bool skip = joint[0] && before == (joint[0] == '&' ? NO : YES), unsure = joint[0] && before == MAYBE;
		s->skip += skip;
		s->unsure += unsure;
		for (negated = false; keyword(c, "!"); c = skip_blank(s, c + 1, false))
			negated = !negated;
		c = run_command(s, c, last);
		*last = negated ? not(*last) : *last;
		s->skip -= skip;
		s->unsure -= unsure;
		if (skip)
			*last = before;
		else if (unsure)
			*last = MAYBE;
		c += c == from && *c; /* skips what is not understood */
	}
	s->nesting--;
	return c + strlen(c);
}

/* ---- a script ------------------------------------------------------------------------------------------------ */

/* "#SBATCH --nodes=2": sets the variables that Slurm would set. */
static void take_slurm(struct mq_shell *s, const char *text)
{
	static const struct {
		const char *option, *name;
	} sets[] = {
		{ "--nodes|-N", "SLURM_NNODES" },
		{ "--nodes|-N", "SLURM_JOB_NUM_NODES" },
		{ "--ntasks|-n", "SLURM_NTASKS" },
		{ "--ntasks-per-node", "SLURM_NTASKS_PER_NODE" },
		{ "--gpus-per-node", "SLURM_GPUS_PER_NODE" },
		{ "--gpus-per-node", "SLURM_GPUS_ON_NODE" },
		{ "--gpus", "SLURM_GPUS" },
	};

	for (const char *c = text; (c = strstr(c, "#SBATCH")); c++) {
		const char *option = c + 7 + strspn(c + 7, " \t");
		size_t n = strcspn(option, "= \t\r\n");
		const char *value = option + n + strspn(option + n, "= \t");

		option = mq_arena_printf(s->arena, "%.*s", (int)n, option);
		for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
			struct mq_shell_list one = { NULL, 0, 0 };

			if (!mq_text_fits(sets[i].option, '|', option, 0) || (c > text && c[-1] != '\n'))
				continue;
			const char *word = mq_arena_printf(s->arena, "%.*s", (int)strcspn(value, " \t\r\n#"), value);
			word = strrchr(word, ':') ? strrchr(word, ':') + 1 : word; /* --gpus-per-node=h100:8 */
			mq_shell_push(s, &one, word);
			mq_shell_assign(s, sets[i].name, strlen(sets[i].name), &one, false);
		}
	}
}

/* "--num-layers: 24" in lines of YAML, as in Megatron-LM's tests; false: no such line. */
static bool take_keys(struct mq_shell *s, const char *text)
{
	bool any = false;

	for (const char *c = text; *c; c += strcspn(c, "\n"), c += *c == '\n') {
		c += strspn(c, " \t");
		size_t n = strspn(c, "abcdefghijklmnopqrstuvwxyz0123456789_-");
		if (strncmp(c, "--", 2) || c[n] != ':')
			continue;
		any = true;
		const char *value = c + n + 1 + strspn(c + n + 1, " \t");
		bool list = *value == '[' && isalpha((unsigned char)value[1]);
		size_t quote = *value == '"' || *value == '\'' || list;
		char close = list ? ']' : *value;
		int end = (int)strcspn(value + quote, quote ? (const char[]){ close, '\n', 0 } : "#\r\n");
		while (!quote && end && isspace((unsigned char)value[end - 1]))
			end--;
		const char *text_of = mq_arena_printf(s->arena, "%.*s", end, value + quote);
		if (!strcmp(text_of, "false"))
			continue;
		mq_shell_push(s, &s->out, mq_arena_printf(s->arena, "%.*s", (int)n, c));
		if (*text_of && strcmp(text_of, "true"))
			mq_shell_push(s, &s->out, text_of);
	}
	return any;
}

static bool has_flags(const struct mq_shell_list *words)
{
	for (uint32_t i = 0; i < words->n; i++)
		if (!strncmp(words->word[i], "--", 2) || strstr(words->word[i], " --"))
			return true;
	return false;
}

/* A file for `source` assigns flags and runs nothing: MODEL_ARGS=(--num-layers 32 ...), or the same in a string. */
static void take_assigned(struct mq_shell *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		const struct mq_shell_list *v = &s->variable[i].value;

		if (!has_flags(v))
			continue;
		for (uint32_t k = 0; k < v->n && v->n > 1; k++)
			mq_shell_push(s, &s->out, v->word[k]);
		const char *text = v->n == 1 ? *v->word : "", *word;
		while ((word = mq_text_next(&text, " \t\n", s->arena)))
			if (*word)
				mq_shell_push(s, &s->out, word);
	}
}

enum mq_status mq_shell_read(const char *text, struct mq_arena *arena, struct mq_script *script, struct mq_err *err)
{
	struct mq_shell s = { .arena = arena };

	take_slurm(&s, text);
	if (!take_keys(&s, text))
		run_text(&s, text);
	if (!has_flags(&s.out) && !has_flags(&s.doubt))
		take_assigned(&s);
	if (s.full)
		return mq_bad(err,
			      "its words come to more than %d bytes once names are replaced, or it nests too deep; "
			      "give the flags themselves",
			      MQ_SHELL_BYTES);
	MQ_PUSH(arena, s.out.word, s.out.n, s.out.room, NULL);
	MQ_PUSH(arena, s.doubt.word, s.doubt.n, s.doubt.room, NULL);
	*script = (struct mq_script){ s.out.word, s.doubt.word };
	return MQ_OK;
}
