/* pickle.h - Python's pickles of plain data (numbers, texts, lists, tuples, dicts), as PyTorch's memory snapshots are.
 *
 * Reading runs nothing: an opcode that would import, call or build an object is refused by its name. Files of up to
 * MQ_PICKLE_MOST_MB are read, and each value takes a byte of them at least; memo entries must come in order, as Python
 * writes them. Format: Lib/pickletools.py of CPython. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_BASE_PICKLE_H
#define MQ_BASE_PICKLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "maquette/arena.h"
#include "maquette/err.h"

enum { MQ_PICKLE_MOST_MB = 512 };
enum mq_pickle_type {
	MQ_PICKLE_NONE,
	MQ_PICKLE_BOOL,
	MQ_PICKLE_INT,
	MQ_PICKLE_F64,
	MQ_PICKLE_TEXT,
	MQ_PICKLE_LIST,
	MQ_PICKLE_DICT
};
struct mq_pickle {
	uint8_t type;     /* enum mq_pickle_type; tuples and sets of bytes are lists and texts */
	uint32_t n, room; /* LIST: items; DICT: keys and values, twice as many as there are pairs; TEXT: bytes */
	union {
		int64_t i;
		double f;
		const char *text; /* ends with a NUL */
		struct mq_pickle **item;
	};
};
/* The value of a file, in the arena. Lists may contain themselves. MQ_EINPUT: no pickle of plain data, cut short or too
 * large; the message names the file, the place and what stands there. */
enum mq_status mq_pickle_load(const char *path, struct mq_arena *arena, struct mq_pickle **value, struct mq_err *err);
/* The value of a key, the last one that was set; NULL: there is none, or `dict` is no dict. */
const struct mq_pickle *mq_pickle_get(const struct mq_pickle *dict, const char *key);
/* The same as a number, or as a text; `missing` where it is none. */
double mq_pickle_number(const struct mq_pickle *dict, const char *key, double missing);
const char *mq_pickle_text(const struct mq_pickle *dict, const char *key, const char *missing);
/* Items of a list; 0 of what is none. */
uint32_t mq_pickle_items(const struct mq_pickle *list);

/* Writes in protocol 2, by a format of one letter each: '<' and '>' begin and end the pickle, '{' '}' a dict
 * (a key before each value), '[' ']' a list; 't' is a text, 'u' a uint64_t, 'i' a uint32_t, 'b' a bool.
 * Blanks mean nothing. */
void mq_pickle_put(FILE *file, const char *format, ...);

#endif
