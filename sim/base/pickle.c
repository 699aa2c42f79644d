/* pickle.c - see pickle.h. SPDX-License-Identifier: Apache-2.0 */
#include "base/pickle.h"

#include <stdlib.h>
#include <string.h>

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

/* Opcodes that are not plain data, by their names in pickletools. */
static const struct {
	unsigned char code;
	const char *name;
} refused[] = {
	{ 'c', "GLOBAL" },
	{ 'R', "REDUCE" },
	{ 'b', "BUILD" },
	{ 'i', "INST" },
	{ 'o', "OBJ" },
	{ 'P', "PERSID" },
	{ 'Q', "BINPERSID" },
	{ 0x81, "NEWOBJ" },
	{ 0x82, "EXT1" },
	{ 0x83, "EXT2" },
	{ 0x84, "EXT4" },
	{ 0x8f, "EMPTY_SET" },
	{ 0x90, "ADDITEMS" },
	{ 0x91, "FROZENSET" },
	{ 0x92, "NEWOBJ_EX" },
	{ 0x93, "STACK_GLOBAL" },
	{ 0x96, "BYTEARRAY8" },
	{ 0x97, "NEXT_BUFFER" },
	{ 0x98, "READONLY_BUFFER" },
};

static enum mq_status bad(struct reader *r, const char *what)
{
	return mq_fail(r->err, MQ_EINPUT, "%s: byte %zu: %s; give a snapshot of torch.cuda.memory._dump_snapshot",
		       r->path, r->at, what);
}

static bool has(const struct reader *r, uint64_t n)
{
	return n <= r->size - r->at;
}

static uint64_t little(const unsigned char *b, uint32_t n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | b[n];
	return v;
}

static struct mq_pickle *value_of(struct reader *r, enum mq_pickle_type type)
{
	struct mq_pickle *v = mq_arena_array(r->arena, 1, struct mq_pickle);

	v->type = (uint8_t)type;
	return v;
}

static enum mq_status push(struct reader *r, struct mq_pickle *v)
{
	MQ_PUSH(r->arena, r->stack.value, r->stack.n, r->stack.room, v);
	return MQ_OK;
}

static enum mq_status push_int(struct reader *r, int64_t i)
{
	struct mq_pickle *v = value_of(r, MQ_PICKLE_INT);

	v->i = i;
	return push(r, v);
}

static enum mq_status push_f64(struct reader *r, double f)
{
	struct mq_pickle *v = value_of(r, MQ_PICKLE_F64);

	v->f = f;
	return push(r, v);
}

/* An integer of up to eight bytes, signed. */
static enum mq_status read_long(struct reader *r, uint64_t n)
{
	if (!has(r, n))
		return bad(r, "the file ends inside a number");
	if (n > 9 || (n == 9 && r->byte[r->at + 8]))
		return bad(r, "an integer of more than 64 bits");
	uint64_t v = little(r->byte + r->at, n > 8 ? 8 : (uint32_t)n);
	if (n && n < 8 && r->byte[r->at + n - 1] & 0x80)
		v |= UINT64_MAX << 8 * n;
	r->at += n;
	return push_int(r, (int64_t)v);
}

static enum mq_status read_f64(struct reader *r)
{
	uint64_t bits = 0;
	double f;

	if (!has(r, 8))
		return bad(r, "the file ends inside a number");
	for (int i = 0; i < 8; i++) /* big endian */
		bits = bits << 8 | r->byte[r->at++];
	memcpy(&f, &bits, sizeof(f));
	return push_f64(r, f);
}

static enum mq_status push_text(struct reader *r, uint64_t n)
{
	if (!has(r, n) || n > UINT32_MAX - 1)
		return bad(r, "the file ends inside a text");
	struct mq_pickle *v = value_of(r, MQ_PICKLE_TEXT);
	char *text = mq_arena_alloc(r->arena, n + 1);
	memcpy(text, r->byte + r->at, n);
	text[n] = '\0';
	v->n = (uint32_t)n;
	v->text = text;
	r->at += n;
	return push(r, v);
}

/* A text whose length stands in `width` bytes before it. */
static enum mq_status read_text(struct reader *r, uint32_t width)
{
	if (!has(r, width))
		return bad(r, "the file ends before a length");
	uint64_t n = little(r->byte + r->at, width);
	r->at += width;
	return push_text(r, n);
}

/* The rest of a line, without its end. */
static enum mq_status line_of(struct reader *r, const char **text)
{
	const unsigned char *end = memchr(r->byte + r->at, '\n', r->size - r->at);

	if (!end)
		return bad(r, "the file ends inside a line");
	size_t n = (size_t)(end - (r->byte + r->at));
	char *line = mq_arena_alloc(r->arena, n + 1);
	memcpy(line, r->byte + r->at, n);
	line[n] = '\0';
	r->at += n + 1;
	*text = line;
	return MQ_OK;
}

static enum mq_status read_line(struct reader *r, unsigned char code)
{
	const char *text;

	MQ_TRY(line_of(r, &text));
	if (code == 'F')
		return push_f64(r, strtod(text, NULL));
	if (code == 'I' && (!strcmp(text, "00") || !strcmp(text, "01"))) {
		struct mq_pickle *v = value_of(r, MQ_PICKLE_BOOL);

		v->i = text[1] == '1';
		return push(r, v);
	}
	if (code == 'I' || code == 'L')
		return push_int(r, strtoll(text, NULL, 10));
	struct mq_pickle *v = value_of(r, MQ_PICKLE_TEXT);
	v->text = text;
	v->n = (uint32_t)strlen(text);
	return push(r, v);
}

static enum mq_status add(struct reader *r, struct mq_pickle *to, struct mq_pickle *v)
{
	if (to->n == UINT32_MAX)
		return bad(r, "a list without end");
	MQ_PUSH(r->arena, to->item, to->n, to->room, v);
	return MQ_OK;
}

static enum mq_status pop_mark(struct reader *r, uint32_t *first)
{
	if (!r->n_marks || r->mark[r->n_marks - 1] > r->stack.n)
		return bad(r, "a list or dict ends that has not begun");
	*first = r->mark[--r->n_marks];
	return MQ_OK;
}

/* Values from `first` on go into a new list or dict. */
static enum mq_status gather(struct reader *r, enum mq_pickle_type type, uint32_t first)
{
	struct mq_pickle *v = value_of(r, type);

	if (type == MQ_PICKLE_DICT && (r->stack.n - first) % 2)
		return bad(r, "a key without a value");
	for (uint32_t i = first; i < r->stack.n; i++)
		MQ_TRY(add(r, v, r->stack.value[i]));
	r->stack.n = first;
	return push(r, v);
}

/* Values from `first` on go into the list or dict before them. */
static enum mq_status extend(struct reader *r, enum mq_pickle_type type, uint32_t first)
{
	struct mq_pickle *to = first && first <= r->stack.n ? r->stack.value[first - 1] : NULL;

	if (!to || to->type != type || (type == MQ_PICKLE_DICT && (r->stack.n - first) % 2))
		return bad(r, "items for what is no list, or a key without a value");
	for (uint32_t i = first; i < r->stack.n; i++)
		MQ_TRY(add(r, to, r->stack.value[i]));
	r->stack.n = first;
	return MQ_OK;
}

/* The last `n` values; outside any mark. */
static enum mq_status lasts(struct reader *r, uint32_t n, uint32_t *first)
{
	uint32_t least = r->n_marks ? r->mark[r->n_marks - 1] : 0;

	if (r->stack.n < n || r->stack.n - n < least)
		return bad(r, "a value is missing");
	*first = r->stack.n - n;
	return MQ_OK;
}

static enum mq_status remember(struct reader *r, uint64_t index)
{
	uint32_t first = 0;

	MQ_TRY(lasts(r, 1, &first));
	if (index > (uint64_t)r->memo.n + 1)
		return bad(r, "memo entries that are not in order");
	while (r->memo.n <= index)
		MQ_PUSH(r->arena, r->memo.value, r->memo.n, r->memo.room, NULL);
	r->memo.value[index] = r->stack.value[first];
	return MQ_OK;
}

static enum mq_status recall(struct reader *r, uint64_t index)
{
	if (index >= r->memo.n || !r->memo.value[index])
		return bad(r, "a memo entry that is not there");
	return push(r, r->memo.value[index]);
}

static enum mq_status memo_by_width(struct reader *r, uint32_t width, bool put)
{
	if (!has(r, width))
		return bad(r, "the file ends before a memo's number");
	uint64_t index = little(r->byte + r->at, width);
	r->at += width;
	return put ? remember(r, index) : recall(r, index);
}

static enum mq_status memo_by_line(struct reader *r, bool put)
{
	const char *text;

	MQ_TRY(line_of(r, &text));
	return put ? remember(r, strtoull(text, NULL, 10)) : recall(r, strtoull(text, NULL, 10));
}

static enum mq_status skip(struct reader *r, uint64_t n)
{
	if (!has(r, n))
		return bad(r, "the file ends inside a header");
	r->at += n;
	return MQ_OK;
}

static enum mq_status number_op(struct reader *r, unsigned char code)
{
	const uint32_t width = code == 'K' ? 1 : code == 'M' ? 2 : 4;

	if (code == 'G')
		return read_f64(r);
	if (code == 0x8a || code == 0x8b) {
		if (!has(r, code == 0x8a ? 1 : 4))
			return bad(r, "the file ends before a length");
		uint64_t n = little(r->byte + r->at, code == 0x8a ? 1 : 4);
		r->at += code == 0x8a ? 1 : 4;
		return read_long(r, n);
	}
	if (!has(r, width))
		return bad(r, "the file ends inside a number");
	uint64_t v = little(r->byte + r->at, width);
	r->at += width;
	return push_int(r, code == 'J' ? (int32_t)v : (int64_t)v);
}

static enum mq_status container_op(struct reader *r, unsigned char code)
{
	uint32_t first = 0;

	switch (code) {
	case '(':
		MQ_PUSH(r->arena, r->mark, r->n_marks, r->mark_room, r->stack.n);
		return MQ_OK;
	case ']':
	case ')':
		return push(r, value_of(r, MQ_PICKLE_LIST));
	case '}':
		return push(r, value_of(r, MQ_PICKLE_DICT));
	case 'l':
	case 't':
	case 'd':
		MQ_TRY(pop_mark(r, &first));
		return gather(r, code == 'd' ? MQ_PICKLE_DICT : MQ_PICKLE_LIST, first);
	case 0x85:
	case 0x86:
	case 0x87:
		MQ_TRY(lasts(r, code - 0x84u, &first));
		return gather(r, MQ_PICKLE_LIST, first);
	case 'e':
	case 'u':
		MQ_TRY(pop_mark(r, &first));
		return extend(r, code == 'u' ? MQ_PICKLE_DICT : MQ_PICKLE_LIST, first);
	case 'a':
	case 's':
		MQ_TRY(lasts(r, code == 'a' ? 1 : 2, &first));
		return extend(r, code == 's' ? MQ_PICKLE_DICT : MQ_PICKLE_LIST, first);
	case '0':
		MQ_TRY(lasts(r, 1, &first));
		r->stack.n--;
		return MQ_OK;
	default: /* '1' */
		MQ_TRY(pop_mark(r, &first));
		r->stack.n = first;
		return MQ_OK;
	}
}

static enum mq_status other_op(struct reader *r, unsigned char code)
{
	char text[64];

	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		if (refused[i].code == code) {
			snprintf(text, sizeof(text), "%s: not plain data, and nothing is run", refused[i].name);
			return bad(r, text);
		}
	snprintf(text, sizeof(text), "%#x is no opcode of a pickle", code);
	return bad(r, text);
}

static enum mq_status op(struct reader *r, unsigned char code)
{
	struct mq_pickle *v;
	uint32_t first = 0;

	if (strchr("KMJG\x8a\x8b", code))
		return number_op(r, code);
	if (strchr("(])}ltd\x85\x86\x87"
		   "euas01",
		   code) &&
	    code != '{')
		return container_op(r, code);
	switch (code) {
	case 0x80:
		return skip(r, 1);
	case 0x95:
		return skip(r, 8);
	case 'N':
		return push(r, value_of(r, MQ_PICKLE_NONE));
	case 0x88:
	case 0x89:
		v = value_of(r, MQ_PICKLE_BOOL);
		v->i = code == 0x88;
		return push(r, v);
	case 'X':
	case 'T':
	case 'B':
		return read_text(r, 4);
	case 'U':
	case 'C':
	case 0x8c:
		return read_text(r, 1);
	case 0x8d:
	case 0x8e:
		return read_text(r, 8);
	case 'I':
	case 'L':
	case 'F':
	case 'V':
	case 'S':
		return read_line(r, code);
	case 0x94:
		return remember(r, r->memo.n);
	case 'q':
	case 'r':
		return memo_by_width(r, code == 'q' ? 1 : 4, true);
	case 'h':
	case 'j':
		return memo_by_width(r, code == 'h' ? 1 : 4, false);
	case 'p':
	case 'g':
		return memo_by_line(r, code == 'p');
	case '2':
		MQ_TRY(lasts(r, 1, &first));
		return push(r, r->stack.value[first]);
	default:
		return other_op(r, code);
	}
}

/* The whole file; it ends with '.' and leaves one value. */
static enum mq_status run(struct reader *r, struct mq_pickle **value)
{
	while (r->at < r->size) {
		unsigned char code = r->byte[r->at++];

		if (code == '.') {
			if (r->stack.n != 1 || r->n_marks)
				return bad(r, "it ends with no value, or with several");
			*value = r->stack.value[0];
			return MQ_OK;
		}
		if (!code)
			return other_op(r, code);
		MQ_TRY(op(r, code));
	}
	return bad(r, "the file ends before the pickle does");
}

enum mq_status mq_pickle_load(const char *path, struct mq_arena *arena, struct mq_pickle **value, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct reader r = { .path = path, .arena = arena, .err = err };
	FILE *file = fopen(path, "rb");
	unsigned char *bytes = NULL;
	size_t room = 0, most = (size_t)MQ_PICKLE_MOST_MB << 20;

	if (!file)
		return mq_fail(err, MQ_EINPUT, "%s: cannot open: %m", path);
	while (!feof(file) && !ferror(file) && r.size <= most) {
		if (r.size == room) {
			unsigned char *more = mq_arena_alloc(&scratch, room = room ? 2 * room : 1 << 16);

			if (r.size)
				memcpy(more, bytes, r.size);
			bytes = more;
		}
		r.size += fread(bytes + r.size, 1, room - r.size, file);
	}
	bool failed = ferror(file) != 0;
	fclose(file);
	if (failed)
		return mq_fail(err, MQ_EINPUT, "%s: cannot read: %m", path);
	if (r.size > most)
		return mq_fail(err, MQ_EINPUT, "%s: more than %d MB; record fewer events (max_entries)", path,
			       MQ_PICKLE_MOST_MB);
	r.byte = bytes;
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

void mq_pickle_begin(FILE *f)
{
	fputs("\x80\x02", f);
}

void mq_pickle_end(FILE *f)
{
	fputc('.', f);
}

void mq_pickle_open_dict(FILE *f)
{
	fputs("}(", f);
}

void mq_pickle_close_dict(FILE *f)
{
	fputc('u', f);
}

void mq_pickle_open_list(FILE *f)
{
	fputs("](", f);
}

void mq_pickle_close_list(FILE *f)
{
	fputc('e', f);
}

static void put_little(FILE *f, uint64_t value, uint32_t n)
{
	for (; n > 0; n--, value >>= 8)
		fputc((int)(value & 0xff), f);
}

void mq_pickle_put_u64(FILE *f, uint64_t value)
{
	if (value <= INT32_MAX) {
		fputc('J', f);
		put_little(f, value, 4);
		return;
	}
	fputs("\x8a\x09", f); /* nine bytes: the sign is in the last */
	put_little(f, value, 8);
	fputc(0, f);
}

void mq_pickle_put_bool(FILE *f, bool value)
{
	fputc(value ? 0x88 : 0x89, f);
}

void mq_pickle_put_text(FILE *f, const char *text)
{
	size_t n = strlen(text);

	fputc('X', f);
	put_little(f, n, 4);
	fwrite(text, 1, n, f);
}
