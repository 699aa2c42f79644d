/*
 * trace.c - the table of events: see trace.h.
 */
#include "trace/trace.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "core/map.h"
#include "core/rng.h"

const char *mq_trace_intern(struct mq_trace *t, const char *text, size_t size)
{
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
	        {"float", MQ_FP32, 4},      {"float32", MQ_FP32, 4},     {"f32", MQ_FP32, 4},
	        {"double", MQ_FP64, 8},     {"float64", MQ_FP64, 8},     {"f64", MQ_FP64, 8},
	        {"half", MQ_FP16, 2},       {"float16", MQ_FP16, 2},     {"f16", MQ_FP16, 2},
	        {"bfloat16", MQ_BF16, 2},   {"bf16", MQ_BF16, 2},        {"__nv_bfloat16", MQ_BF16, 2},
	        {"float8_e4m3fn", MQ_FP8, 1}, {"float8_e5m2", MQ_FP8, 1}, {"f8e4m3", MQ_FP8, 1},
	        {"f8e5m2", MQ_FP8, 1},      {"long", MQ_N_DTYPES, 8},    {"long int", MQ_N_DTYPES, 8},
	        {"int64", MQ_N_DTYPES, 8},  {"int", MQ_N_DTYPES, 4},     {"int32", MQ_N_DTYPES, 4},
	        {"short", MQ_N_DTYPES, 2},  {"byte", MQ_N_DTYPES, 1},    {"char", MQ_N_DTYPES, 1},
	        {"unsigned char", MQ_N_DTYPES, 1}, {"signed char", MQ_N_DTYPES, 1},
	        {"uint8", MQ_N_DTYPES, 1},  {"int8", MQ_N_DTYPES, 1},    {"int8_t", MQ_N_DTYPES, 1},
	        {"bool", MQ_N_DTYPES, 1},   {"i8", MQ_N_DTYPES, 1},      {"u8", MQ_N_DTYPES, 1},
	        {"i32", MQ_N_DTYPES, 4},    {"i64", MQ_N_DTYPES, 8},     {"u32", MQ_N_DTYPES, 4},
	        {"u64", MQ_N_DTYPES, 8},    {"uint8_t", MQ_N_DTYPES, 1}, {"int32_t", MQ_N_DTYPES, 4},
	        {"int64_t", MQ_N_DTYPES, 8}, {"uint32_t", MQ_N_DTYPES, 4},
	        {"uint64_t", MQ_N_DTYPES, 8},
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

bool mq_trace_probe(const char *path)
{
	gzFile file = gzopen(path, "rb");
	char head[64] = "";

	if (!file)
		return false;
	int n = gzread(file, head, sizeof(head) - 1);
	gzclose(file);
	for (int i = 0; i < n; i++)
		if (!isspace((unsigned char)head[i]))
			return head[i] == '{' || head[i] == '[';
	return false;
}

static int by_start(const void *a, const void *b)
{
	const struct mq_event *x = a, *y = b;

	if (x->start_us < y->start_us || x->start_us > y->start_us)
		return x->start_us < y->start_us ? -1 : 1;
	/* What contains comes before what it contains; then any fixed order. */
	if (x->dur_us < y->dur_us || x->dur_us > y->dur_us)
		return x->dur_us > y->dur_us ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->external != y->external)
		return x->external < y->external ? -1 : 1;
	return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

enum mq_status mq_trace_load(const char *path, struct mq_arena *arena, struct mq_trace *t,
                             struct mq_err *err)
{
	*t = (struct mq_trace){.path = path, .arena = arena, .rank = MQ_NONE};
	t->names_map = mq_arena_array(arena, 1, struct mq_map);
	mq_map_init(t->names_map, arena, 4096);
	MQ_TRY(mq_kineto_read(t, err));
	if (!t->n_read)
		return mq_fail(err, MQ_EINPUT, "%s: no \"traceEvents\": is it a trace of PyTorch's "
		               "profiler?", path);
	if (t->n)
		qsort(t->event, t->n, sizeof(*t->event), by_start);
	for (uint32_t i = 0; i < t->n; i++)
		if (t->event[i].kind == MQ_EVENT_KERNEL)
			return MQ_OK;
	return mq_fail(err, MQ_EINPUT,
	               "%s: %.0f events and not one kernel of a GPU: profile with "
	               "ProfilerActivity.CUDA",
	               path, (double)t->n_read);
}
