/* pickle.c - see pickle.h. SPDX-License-Identifier: Apache-2.0 */
#include "base/pickle.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* ---- reading ------------------------------------------------------------------------------------------ */

struct stack {
	struct mq_pickle **value;
	uint32_t n, room;
};

struct reader {
	const char *path;
	const unsigned char *byte;
	size_t at, size;
	struct mq_arena *arena;
	struct stack stack, memo;
	uint32_t *mark, n_marks, mark_room;
	struct mq_err *err;
};

/* The effect of an opcode on the stack of values. */
enum does {
	NUMBER, /* an integer of `n` bytes, signed if four */
	LONG,   /* an integer whose length is a number of `n` bytes */
	REAL,   /* eight bytes, big endian */
	TEXT,   /* a text whose length is a number of `n` bytes */
	LINE,   /* a number or a text up to the end of the line */
	VALUE,  /* a new value, of truth `n` */
	SKIP,   /* skips `n` bytes */
	MARK,
	GATHER, /* the last `n` values, or (0) those since the last mark, go into a new list or dict, */
	EXTEND, /* or into the one before them, */
	DROP,   /* or away */
	TWICE,
	PUT, /* the last value becomes the memo's: its number has `n` bytes, LINE_LONG digits, or (0) is the next */
	GET,
};
enum { LINE_LONG = 9 };

static const struct opcode {
	unsigned char code;
	uint8_t does, n, type;
} opcodes[] = { { 'K', NUMBER, 1, 0 },
		{ 'M', NUMBER, 2, 0 },
		{ 'J', NUMBER, 4, 0 },
		{ 0x8a, LONG, 1, 0 },
		{ 0x8b, LONG, 4, 0 },
		{ 'G', REAL, 8, 0 },
		{ 'X', TEXT, 4, 0 },
		{ 'T', TEXT, 4, 0 },
		{ 'B', TEXT, 4, 0 },
		{ 'U', TEXT, 1, 0 },
		{ 'C', TEXT, 1, 0 },
		{ 0x8c, TEXT, 1, 0 },
		{ 0x8d, TEXT, 8, 0 },
		{ 0x8e, TEXT, 8, 0 },
		{ 'I', LINE, 0, MQ_PICKLE_INT },
		{ 'L', LINE, 0, MQ_PICKLE_INT },
		{ 'F', LINE, 0, MQ_PICKLE_F64 },
		{ 'V', LINE, 0, MQ_PICKLE_TEXT },
		{ 'S', LINE, 0, MQ_PICKLE_TEXT },
		{ 'N', VALUE, 0, MQ_PICKLE_NONE },
		{ 0x88, VALUE, 1, MQ_PICKLE_BOOL },
		{ 0x89, VALUE, 0, MQ_PICKLE_BOOL },
		{ ']', VALUE, 0, MQ_PICKLE_LIST },
		{ ')', VALUE, 0, MQ_PICKLE_LIST },
		{ '}', VALUE, 0, MQ_PICKLE_DICT },
		{ 0x80, SKIP, 1, 0 },
		{ 0x95, SKIP, 8, 0 },
		{ '(', MARK, 0, 0 },
		{ 'l', GATHER, 0, MQ_PICKLE_LIST },
		{ 't', GATHER, 0, MQ_PICKLE_LIST },
		{ 'd', GATHER, 0, MQ_PICKLE_DICT },
		{ 0x85, GATHER, 1, MQ_PICKLE_LIST },
		{ 0x86, GATHER, 2, MQ_PICKLE_LIST },
		{ 0x87, GATHER, 3, MQ_PICKLE_LIST },
		{ 'e', EXTEND, 0, MQ_PICKLE_LIST },
		{ 'u', EXTEND, 0, MQ_PICKLE_DICT },
		{ 'a', EXTEND, 1, MQ_PICKLE_LIST },
		{ 's', EXTEND, 2, MQ_PICKLE_DICT },
		{ '0', DROP, 1, 0 },
		{ '1', DROP, 0, 0 },
		{ '2', TWICE, 1, 0 },
		{ 0x94, PUT, 0, 0 },
		{ 'q', PUT, 1, 0 },
		{ 'r', PUT, 4, 0 },
		{ 'p', PUT, LINE_LONG, 0 },
		{ 'h', GET, 1, 0 },
		{ 'j', GET, 4, 0 },
		{ 'g', GET, LINE_LONG, 0 } };

/* Those that are no plain data, and their names in pickletools. */
static const char refused[] = "cRbioPQ\x81\x82\x83\x84\x8f\x90\x91\x92\x93\x96\x97\x98";
static const char *const refused_names[] = { "GLOBAL",       "REDUCE",     "BUILD",       "INST",           "OBJ",
					     "PERSID",       "BINPERSID",  "NEWOBJ",      "EXT1",           "EXT2",
					     "EXT4",         "EMPTY_SET",  "ADDITEMS",    "FROZENSET",      "NEWOBJ_EX",
					     "STACK_GLOBAL", "BYTEARRAY8", "NEXT_BUFFER", "READONLY_BUFFER" };

static enum mq_status bad(struct reader *r, const char *what)
{
	return mq_bad(r->err, "%s: byte %zu: %s; give a snapshot of torch.cuda.memory._dump_snapshot", r->path, r->at,
		      what);
}

/* The next n bytes. */
static enum mq_status take(struct reader *r, uint64_t n, const unsigned char **bytes)
{
	if (n > r->size - r->at)
		return bad(r, "the file ends inside a value");
	*bytes = r->byte + r->at;
	r->at += n;
	return MQ_OK;
}

/* The next n bytes as a little-endian number. */
static enum mq_status take_number(struct reader *r, uint32_t n, uint64_t *value)
{
	const unsigned char *bytes = NULL;

	MQ_TRY(take(r, n, &bytes));
	for (*value = 0; n-- > 0;)
		*value = *value << 8 | bytes[n];
	return MQ_OK;
}

static struct mq_pickle *push(struct reader *r, uint8_t type)
{
	struct mq_pickle *v = mq_arena_array(r->arena, 1, struct mq_pickle);

	v->type = type;
	MQ_PUSH(r->arena, r->stack.value, r->stack.n, r->stack.room, v);
	return v;
}

static enum mq_status push_text(struct reader *r, const unsigned char *bytes, uint64_t n)
{
	if (n > UINT32_MAX - 1)
		return bad(r, "a text of more than 4 GB");
	struct mq_pickle *v = push(r, MQ_PICKLE_TEXT);
	char *text = mq_arena_alloc(r->arena, n + 1);
	memcpy(text, bytes, n);
	text[n] = '\0';
	v->n = (uint32_t)n;
	v->text = text;
	return MQ_OK;
}

/* An integer of up to eight bytes, signed; a ninth may be zero. */
static enum mq_status read_long(struct reader *r, uint64_t n)
{
	uint64_t v = 0, top = 0;

	if (n > 9)
		return bad(r, "an integer of more than 64 bits");
	MQ_TRY(take_number(r, n > 8 ? 8 : (uint32_t)n, &v));
	MQ_TRY(take_number(r, n > 8, &top));
	if (top)
		return bad(r, "an integer of more than 64 bits");
	if (n && n < 8 && v >> (8 * n - 1))
		v |= UINT64_MAX << 8 * n;
	push(r, MQ_PICKLE_INT)->i = (int64_t)v;
	return MQ_OK;
}

static enum mq_status read_real(struct reader *r)
{
	const unsigned char *bytes = NULL;
	uint64_t bits = 0;

	MQ_TRY(take(r, 8, &bytes));
	for (int i = 0; i < 8; i++)
		bits = bits << 8 | bytes[i];
	memcpy(&push(r, MQ_PICKLE_F64)->f, &bits, sizeof(bits));
	return MQ_OK;
}

/* The rest of a line, without its end; it lives in the arena. */
static enum mq_status take_line(struct reader *r, const char **text)
{
	const unsigned char *end = memchr(r->byte + r->at, '\n', r->size - r->at), *bytes = NULL;
	size_t n = end ? (size_t)(end - (r->byte + r->at)) + 1 : r->size - r->at + 1;

	MQ_TRY(take(r, n, &bytes));
	*text = mq_arena_printf(r->arena, "%.*s", (int)(n - 1), bytes);
	return MQ_OK;
}

static enum mq_status read_line(struct reader *r, const struct opcode *o)
{
	const char *text;

	MQ_TRY(take_line(r, &text));
	if (o->type == MQ_PICKLE_F64)
		push(r, MQ_PICKLE_F64)->f = strtod(text, NULL);
	else if (o->type == MQ_PICKLE_TEXT)
		return push_text(r, (const unsigned char *)text, strlen(text));
	else if (o->code == 'I' && (!strcmp(text, "00") || !strcmp(text, "01")))
		push(r, MQ_PICKLE_BOOL)->i = text[1] == '1';
	else
		push(r, MQ_PICKLE_INT)->i = strtoll(text, NULL, 10);
	return MQ_OK;
}

/* The index of the first of the last n values, after any mark; n = 0: of those since the last mark, and removes it. */
static enum mq_status lasts(struct reader *r, uint32_t n, uint32_t *first)
{
	uint32_t mark = r->n_marks ? r->mark[r->n_marks - 1] : 0;

	if (!n && (!r->n_marks || mark > r->stack.n))
		return bad(r, "a list or dict ends that has not begun");
	if (n && (r->stack.n < n || r->stack.n - n < mark))
		return bad(r, "a value is missing");
	r->n_marks -= !n;
	*first = n ? r->stack.n - n : mark;
	return MQ_OK;
}

/* Moves values from `first` on into a new list or dict, or into the one before them. */
static enum mq_status gather(struct reader *r, const struct opcode *o, uint32_t first)
{
	struct mq_pickle *to = o->does == GATHER            ? mq_arena_array(r->arena, 1, struct mq_pickle) :
			       first && first <= r->stack.n ? r->stack.value[first - 1] :
							      NULL;

	if (to && o->does == GATHER)
		to->type = o->type;
	if (!to || to->type != o->type || (o->type == MQ_PICKLE_DICT && (r->stack.n - first) % 2))
		return bad(r, "items for what is no list, or a key without a value");
	for (uint32_t i = first; i < r->stack.n; i++) {
		if (to->n == UINT32_MAX)
			return bad(r, "a list without end");
		MQ_PUSH(r->arena, to->item, to->n, to->room, r->stack.value[i]);
	}
	r->stack.n = first;
	if (o->does == GATHER)
		MQ_PUSH(r->arena, r->stack.value, r->stack.n, r->stack.room, to);
	return MQ_OK;
}

static enum mq_status memorise(struct reader *r, const struct opcode *o)
{
	uint64_t index = r->memo.n;
	const char *digits;
	uint32_t first;

	if (o->n == LINE_LONG) {
		MQ_TRY(take_line(r, &digits));
		index = strtoull(digits, NULL, 10);
	} else if (o->n) {
		MQ_TRY(take_number(r, o->n, &index));
	}
	if (o->does == GET) {
		if (index >= r->memo.n || !r->memo.value[index])
			return bad(r, "a memo entry that is not there");
		MQ_PUSH(r->arena, r->stack.value, r->stack.n, r->stack.room, r->memo.value[index]);
		return MQ_OK;
	}
	MQ_TRY(lasts(r, 1, &first));
	if (index > (uint64_t)r->memo.n + 1)
		return bad(r, "memo entries that are not in order");
	while (r->memo.n <= index)
		MQ_PUSH(r->arena, r->memo.value, r->memo.n, r->memo.room, NULL);
	r->memo.value[index] = r->stack.value[first];
	return MQ_OK;
}

static enum mq_status run_opcode(struct reader *r, const struct opcode *o)
{
	const unsigned char *bytes = NULL;
	uint32_t first = 0;
	uint64_t n = 0;

	if (o->does == NUMBER || o->does == LONG || o->does == TEXT)
		MQ_TRY(take_number(r, o->n, &n));
	if (o->does == GATHER || o->does == EXTEND || o->does == DROP || o->does == TWICE)
		MQ_TRY(lasts(r, o->n, &first));
	switch ((enum does)o->does) {
	case NUMBER:
		push(r, MQ_PICKLE_INT)->i = o->n == 4 ? (int32_t)n : (int64_t)n;
		return MQ_OK;
	case LONG:
		return read_long(r, n);
	case REAL:
		return read_real(r);
	case TEXT:
		MQ_TRY(take(r, n, &bytes));
		return push_text(r, bytes, n);
	case LINE:
		return read_line(r, o);
	case VALUE:
		push(r, o->type)->i = o->n;
		return MQ_OK;
	case SKIP:
		return take(r, o->n, &bytes);
	case MARK:
		MQ_PUSH(r->arena, r->mark, r->n_marks, r->mark_room, r->stack.n);
		return MQ_OK;
	case GATHER:
	case EXTEND:
		return gather(r, o, first);
	case DROP:
		r->stack.n = first;
		return MQ_OK;
	case TWICE:
		MQ_PUSH(r->arena, r->stack.value, r->stack.n, r->stack.room, r->stack.value[first]);
		return MQ_OK;
	case PUT:
	case GET:
		break;
	}
	return memorise(r, o);
}

static enum mq_status refuse(struct reader *r, unsigned char code)
{
	const char *at = code ? strchr(refused, code) : NULL;

	return bad(r, at ? mq_arena_printf(r->arena, "%s: not plain data, and nothing is run",
					   refused_names[at - refused]) :
			   mq_arena_printf(r->arena, "%#x is no opcode of a pickle", code));
}

/* Reads the whole file, which ends with '.' and leaves one value. */
static enum mq_status run(struct reader *r, struct mq_pickle **value)
{
	const struct opcode *of[256] = { NULL };

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(*opcodes); i++)
		of[opcodes[i].code] = &opcodes[i];
	while (r->at < r->size) {
		unsigned char code = r->byte[r->at++];

		if (code == '.') {
			if (r->stack.n != 1 || r->n_marks)
				return bad(r, "it ends with no value, or with several");
			*value = r->stack.value[0];
			return MQ_OK;
		}
		if (!of[code])
			return refuse(r, code);
		MQ_TRY(run_opcode(r, of[code]));
	}
	return bad(r, "the file ends before the pickle does");
}

enum mq_status mq_pickle_load(const char *path, struct mq_arena *arena, struct mq_pickle **value, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct reader r = { .path = path, .arena = arena, .err = err };
	char *bytes;

	MQ_TRY(mq_bytes_read(path, MQ_PICKLE_MOST_MB, &scratch, &bytes, &r.size, err));
	r.byte = (const unsigned char *)bytes;
	return run(&r, value);
}

const struct mq_pickle *mq_pickle_get(const struct mq_pickle *dict, const char *key)
{
	if (!dict || dict->type != MQ_PICKLE_DICT)
		return NULL;
	for (uint32_t i = dict->n; i >= 2; i -= 2)
		if (dict->item[i - 2]->type == MQ_PICKLE_TEXT && !strcmp(dict->item[i - 2]->text, key))
			return dict->item[i - 1];
	return NULL;
}

double mq_pickle_number(const struct mq_pickle *dict, const char *key, double missing)
{
	const struct mq_pickle *v = mq_pickle_get(dict, key);

	return !v ? missing : v->type == MQ_PICKLE_F64 ? v->f : v->type == MQ_PICKLE_INT ? (double)v->i : missing;
}

const char *mq_pickle_text(const struct mq_pickle *dict, const char *key, const char *missing)
{
	const struct mq_pickle *v = mq_pickle_get(dict, key);

	return v && v->type == MQ_PICKLE_TEXT ? v->text : missing;
}

uint32_t mq_pickle_items(const struct mq_pickle *list)
{
	return list && list->type == MQ_PICKLE_LIST ? list->n : 0;
}

/* ---- writing ------------------------------------------------------------------------------------------ */

static void put_little(FILE *f, uint64_t value, uint32_t n)
{
	for (; n > 0; n--, value >>= 8)
		fputc((int)(value & 0xff), f);
}

static void put_number(FILE *f, uint64_t value)
{
	if (value <= INT32_MAX) {
		fputc('J', f);
		put_little(f, value, 4);
		return;
	}
	fputs("\x8a\x09", f); /* nine bytes, the last with the sign */
	put_little(f, value, 8);
	fputc(0, f);
}

static void put_text(FILE *f, const char *text)
{
	size_t n = strlen(text);

	fputc('X', f);
	put_little(f, n, 4);
	fwrite(text, 1, n, f);
}

void mq_pickle_put(FILE *f, const char *format, ...)
{
	static const char *const plain[128] = {
		['<'] = "\x80\x02", ['>'] = ".", ['{'] = "}(", ['}'] = "u", ['['] = "](", [']'] = "e", [' '] = ""
	};
	va_list values;

	va_start(values, format);
	for (; *format; format++)
		if (*format == 't')
			put_text(f, va_arg(values, const char *));
		else if (*format == 'u')
			put_number(f, va_arg(values, uint64_t));
		else if (*format == 'i')
			put_number(f, va_arg(values, uint32_t));
		else if (*format == 'b')
			fputc(va_arg(values, int) ? 0x88 : 0x89, f);
		else
			fputs(plain[(unsigned char)*format], f);
	va_end(values);
}
