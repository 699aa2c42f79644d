/* trace.c - the table of events: see trace.h. SPDX-License-Identifier: Apache-2.0 */
#include "trace/trace.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "maquette/rng.h"

const char *mq_trace_intern(struct mq_trace *t, const char *text, size_t size)
{
	size = strnlen(text, size); /* a name may contain \u0000 */
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

void mq_trace_add(struct mq_trace *t, struct mq_event event, const struct mq_trace_note *note)
{
	if (note) {
		event.note = t->n_notes;
		MQ_PUSH(t->arena, t->note, t->n_notes, t->note_room, *note);
	}
	MQ_PUSH(t->arena, t->event, t->n, t->room, event);
}

double mq_tensor_elements(const struct mq_tensor *tensor)
{
	double n = tensor->n_dims > 0;

	for (uint32_t i = 0; i < tensor->n_dims; i++)
		n *= tensor->dim[i];
	return n;
}

/* Skips prefixes such as c10:: and torch. */
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
		const char *names; /* a '/' stands for a space in a name */
		uint8_t dtype;
		double size_B;
	} types[] = {
		{ "float float32 f32 fp32", MQ_FP32, 4 },
		{ "double float64 f64 fp64", MQ_FP64, 8 },
		{ "half float16 f16 fp16", MQ_FP16, 2 },
		{ "bfloat16 bf16 __nv_bfloat16", MQ_BF16, 2 },
		{ "float8_e4m3fn float8_e5m2 f8e4m3 f8e5m2 fp8_e4m3 fp8_e5m2 float8e4m3 float8e5m2", MQ_FP8, 1 },
		{ "byte char uint8 int8 int8_t bool i8 u8 uint8_t unsigned/char signed/char", MQ_N_DTYPES, 1 },
		{ "short", MQ_N_DTYPES, 2 },
		{ "int int32 i32 u32 int32_t uint32_t", MQ_N_DTYPES, 4 },
		{ "long int64 i64 u64 int64_t uint64_t long/int", MQ_N_DTYPES, 8 },
	};
	const char *base = base_of(name, &size);

	if (dtype)
		*dtype = MQ_N_DTYPES;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		for (const char *p = types[i].names; size && *p; p += strspn(p, " ")) {
			size_t n = strcspn(p, " "), same = 0;

			while (n == size && same < n &&
			       (tolower((unsigned char)base[same]) == p[same] || (base[same] == ' ' && p[same] == '/')))
				same++;
			if (same == size) {
				if (dtype)
					*dtype = types[i].dtype;
				return types[i].size_B;
			}
			p += n;
		}
	return 0;
}

/* ---- events of a list ------------------------------------------------------------------------- */

uint32_t mq_trace_begun(const struct mq_trace *t, const struct mq_trace_list *list, double time_us)
{
	uint32_t low = 0, high = list->n;

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (t->event[list->event[mid]].start_us <= time_us)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct mq_trace_list mq_trace_of_kind(const struct mq_trace *t, enum mq_event_kind kind, struct mq_arena *arena)
{
	struct mq_trace_list list = { 0 };

	for (uint32_t i = 0; i < t->n; i++)
		if (t->event[i].kind == kind)
			MQ_PUSH(arena, list.event, list.n, list.room, i);
	return list;
}

bool mq_trace_in_step(const struct mq_trace *t, const struct mq_trace_list *steps, const struct mq_event *event)
{
	for (uint32_t i = 0; i < steps->n; i++)
		if (mq_trace_holds(&t->event[steps->event[i]], event))
			return true;
	return !steps->n;
}

static uint64_t number_of(enum mq_event_kind kind, const struct mq_event *e)
{
	return kind == MQ_EVENT_LAUNCH ? e->correlation : e->external;
}

void mq_trace_name(struct mq_trace_named *named, const struct mq_trace *t, enum mq_event_kind kind,
		   struct mq_arena *arena)
{
	*named = (struct mq_trace_named){ .trace = t, .kind = kind };
	mq_map_init(&named->map, arena, 1024);
	for (uint32_t i = 0; i < t->n; i++)
		if (t->event[i].kind == kind && number_of(kind, &t->event[i]) &&
		    mq_map_add(&named->map, number_of(kind, &t->event[i])) == named->list.n)
			MQ_PUSH(arena, named->list.event, named->list.n, named->list.room, i);
}

const struct mq_event *mq_trace_of_name(const struct mq_trace_named *named, const struct mq_event *event)
{
	uint64_t number = number_of(named->kind, event);
	uint32_t at = number ? mq_map_find(&named->map, number) : MQ_NONE;

	return at == MQ_NONE ? NULL : &named->trace->event[named->list.event[at]];
}

/* ---- names of ranges ------------------------------------------------------------------------- */

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

/* "ProfilerStep#5", "step 5", "iteration5", "train_step": a word, with or without a number. */
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
	if (!strcmp(name, "record_param_comms") || mq_trace_starts(name, "nccl:") || mq_trace_starts(name, "c10d::") ||
	    (mq_trace_starts(name, "nccl") && isupper((unsigned char)name[4])))
		return MQ_EVENT_NOTE;
	if (is_step(name))
		return MQ_EVENT_STEP;
	if (strstr(name, "Optimizer.step"))
		return MQ_EVENT_OP;
	return mq_trace_layer(name) != MQ_NONE ? MQ_EVENT_LAYER : -1;
}

const char *mq_trace_file(const char *path, struct mq_arena *arena, uint32_t *device)
{
	const char *at = strrchr(path, '@');

	if (!at || !at[1] || at[1 + strspn(at + 1, "0123456789")] || !access(path, F_OK))
		return path;
	*device = (uint32_t)strtoul(at + 1, NULL, 10);
	return mq_arena_printf(arena, "%.*s", (int)(at - path), path);
}
