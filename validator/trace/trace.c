/*
 * trace.c - the table of events: see trace.h.
 */
#include "trace/trace.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "maquette/map.h"
#include "maquette/rng.h"

const char *mq_trace_intern(struct mq_trace *t, const char *text, size_t size)
{
	size = strnlen(text, size); /* a name may have \u0000 in it */
	uint64_t key = mq_hash(MQ_HASH_INIT, text, size);

	for (;; key = mq_map_mix(key, 1)) {
		uint32_t i = mq_map_add(t->names_map, key);

		if (i == t->n_names) {
			const char *name = mq_arena_printf(t->arena, "%.*s", (int)size, text);

			MQ_PUSH(t->arena, t->names, t->n_names, t->name_room, name);
		}
		if (!strncmp(t->names[i], text, size) && !t->names[i][size])
			return t->names[i];
	}
}

/* c10::, torch. and the like say nothing of the type. */
static const char *base_of(const char *name, size_t *size)
{
	const char *from = name;

	for (size_t i = 0; i < *size; i++)
		if (name[i] == ':' || name[i] == '.' || name[i] == '(' || name[i] == '[')
			from = name + i + 1;
	*size -= (size_t)(from - name);
	while (*size && (from[*size - 1] == ')' || from[*size - 1] == ']' || from[*size - 1] == ' '))
		--*size;
	return from;
}

double mq_trace_type(const char *name, size_t size, uint8_t *dtype)
{
	static const struct {
		const char *name;
		uint8_t dtype;
		double size_B;
	} types[] = {
		{ "float", MQ_FP32, 4 },
		{ "float32", MQ_FP32, 4 },
		{ "f32", MQ_FP32, 4 },
		{ "double", MQ_FP64, 8 },
		{ "float64", MQ_FP64, 8 },
		{ "f64", MQ_FP64, 8 },
		{ "half", MQ_FP16, 2 },
		{ "float16", MQ_FP16, 2 },
		{ "f16", MQ_FP16, 2 },
		{ "bfloat16", MQ_BF16, 2 },
		{ "bf16", MQ_BF16, 2 },
		{ "__nv_bfloat16", MQ_BF16, 2 },
		{ "float8_e4m3fn", MQ_FP8, 1 },
		{ "float8_e5m2", MQ_FP8, 1 },
		{ "f8e4m3", MQ_FP8, 1 },
		{ "f8e5m2", MQ_FP8, 1 },
		{ "long", MQ_N_DTYPES, 8 },
		{ "long int", MQ_N_DTYPES, 8 },
		{ "int64", MQ_N_DTYPES, 8 },
		{ "int", MQ_N_DTYPES, 4 },
		{ "int32", MQ_N_DTYPES, 4 },
		{ "short", MQ_N_DTYPES, 2 },
		{ "byte", MQ_N_DTYPES, 1 },
		{ "char", MQ_N_DTYPES, 1 },
		{ "unsigned char", MQ_N_DTYPES, 1 },
		{ "signed char", MQ_N_DTYPES, 1 },
		{ "uint8", MQ_N_DTYPES, 1 },
		{ "int8", MQ_N_DTYPES, 1 },
		{ "int8_t", MQ_N_DTYPES, 1 },
		{ "bool", MQ_N_DTYPES, 1 },
		{ "i8", MQ_N_DTYPES, 1 },
		{ "u8", MQ_N_DTYPES, 1 },
		{ "i32", MQ_N_DTYPES, 4 },
		{ "i64", MQ_N_DTYPES, 8 },
		{ "u32", MQ_N_DTYPES, 4 },
		{ "u64", MQ_N_DTYPES, 8 },
		{ "uint8_t", MQ_N_DTYPES, 1 },
		{ "int32_t", MQ_N_DTYPES, 4 },
		{ "int64_t", MQ_N_DTYPES, 8 },
		{ "uint32_t", MQ_N_DTYPES, 4 },
		{ "uint64_t", MQ_N_DTYPES, 8 },
	};
	const char *base = base_of(name, &size);

	if (dtype)
		*dtype = MQ_N_DTYPES;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strlen(types[i].name) == size && !strncasecmp(types[i].name, base, size)) {
			if (dtype)
				*dtype = types[i].dtype;
			return types[i].size_B;
		}
	return 0;
}

/* ---- names of ranges ------------------------------------------------------------------------- */

static bool starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

uint32_t mq_trace_layer(const char *name)
{
	static const char *const words[] = { "layer", "block", "h." };

	for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++)
		for (const char *p = name; (p = strcasestr(p, words[w])); p++) {
			const char *digit = p + strlen(words[w]);

			if (w == 2 && p > name && isalnum((unsigned char)p[-1]))
				continue;
			digit += *digit == 's';
			digit += *digit && strchr(" ._-:#[", *digit) ? 1 : 0;
			if (isdigit((unsigned char)*digit))
				return (uint32_t)strtoul(digit, NULL, 10);
		}
	return MQ_NONE;
}

/* "ProfilerStep#5", "step 5", "iteration5", "train_step": a word, and perhaps its number. */
static bool is_step(const char *name)
{
	static const char *const words[] = { "ProfilerStep", "train_step", "training_step", "iteration", "step" };

	for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
		size_t n = strlen(words[w]);

		if (!strncasecmp(name, words[w], n) && strspn(name + n, " ._-:#0123456789") == strlen(name + n))
			return true;
	}
	return false;
}

int mq_trace_range_kind(const char *name)
{
	if (!strcmp(name, "record_param_comms") || starts(name, "nccl:") || starts(name, "c10d::") ||
	    (starts(name, "nccl") && isupper((unsigned char)name[4])))
		return MQ_EVENT_NOTE;
	if (is_step(name))
		return MQ_EVENT_STEP;
	if (strstr(name, "Optimizer.step"))
		return MQ_EVENT_OP;
	return mq_trace_layer(name) != MQ_NONE ? MQ_EVENT_LAYER : -1;
}

/* ---- files ----------------------------------------------------------------------------------- */

const char *mq_trace_file(const char *path, struct mq_arena *arena, uint32_t *device)
{
	const char *at = strrchr(path, '@');

	if (!at || !at[1] || at[1 + strspn(at + 1, "0123456789")] || !access(path, F_OK))
		return path;
	*device = (uint32_t)strtoul(at + 1, NULL, 10);
	return mq_arena_printf(arena, "%.*s", (int)(at - path), path);
}
