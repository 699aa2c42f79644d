/* schedule_file.c - schedules as JSON lines: what maquette-replay runs on another machine.
 *
 * Line 1 is the header:
 *   {"maquette_schedule":1,"model":NAME,"plan_hash":HEX,"model_hash":HEX,
 *    "devices":[{"rank":R,"name":N,"type":T,"clock":SHARE}],"comms":[{"id":0,"purpose":P,"ranks":[...]}],
 *    "ops":[NAMES],"works":[{"flop":F,"bytes":B,"model_flop":M,"host":H,"waits":W,"kernels":[{...}]}],
 *    "held":[{"device":D,"stage":S,...}],"tasks":N}
 * and each further line one task. Compute tasks point at a work of the header, so that a kernel list is written once
 * for all micro-batches. Numbers are "%.17g": load(save(s)) is s, bit for bit. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/text.h"
#include "maquette/schedule.h"

/* ---- writing --------------------------------------------------------------------------------- */

/* Limits of amounts and times, since executors turn them into 32-bit counts of rows and 64-bit sizes. */
static const double most_amount = 1e18, most_seconds = 1e9;

/* The numbers of a kernel. `missing`: value if the file lacks it. */
static const struct {
	const char *name;
	size_t offset;
	double most, missing;
	bool always; /* written even where it is 0 */
} kernel_number[] = {
#define MQ_AMOUNT(field, ...) { #field, offsetof(struct mq_kernel, field), __VA_ARGS__ },
#define MQ_FLAG(field)
#include "maquette/kernel.def"
};
enum { N_KERNEL_NUMBERS = sizeof(kernel_number) / sizeof(kernel_number[0]) };

static void put_numbers(FILE *f, const struct mq_kernel *k, bool always)
{
	for (int i = 0; i < N_KERNEL_NUMBERS; i++) {
		double x = *(const double *)(const void *)((const char *)k + kernel_number[i].offset);

		if (kernel_number[i].always == always && (always || x > 0))
			fprintf(f, ",\"%s\":%.17g", kernel_number[i].name, x);
	}
}

struct member {
	const char *name;
	size_t offset;
};
static const struct member kernel_flag[] = {
#define MQ_AMOUNT(...)
#define MQ_FLAG(field) { #field, offsetof(struct mq_kernel, field) },
#include "maquette/kernel.def"
};
enum { N_KERNEL_FLAGS = sizeof(kernel_flag) / sizeof(kernel_flag[0]) };

static void put_kernel(FILE *f, const struct mq_kernel *k)
{
	fprintf(f, "{\"kind\":\"%s\",\"phase\":\"%s\",\"dtype\":\"%s\"", mq_kernel_kind_name(k->kind),
		mq_phase_name(k->phase), mq_dtype_name(k->dtype));
	if (k->op != MQ_NONE)
		fprintf(f, ",\"op\":%" PRIu32, k->op);
	if (k->kind == MQ_KERNEL_ATTENTION)
		fprintf(f, ",\"attention\":\"%s\"", mq_attention_name(k->attention));
	if (k->scaling)
		fprintf(f, ",\"scaling\":\"%s\"", mq_scaling_name(k->scaling));
	put_numbers(f, k, false);
	for (int i = 0; i < N_KERNEL_FLAGS; i++)
		if (*(const bool *)((const char *)k + kernel_flag[i].offset))
			fprintf(f, ",\"%s\":true", kernel_flag[i].name);
	if (k->image.h)
		fprintf(f, ",\"image\":[%u,%u,%u,%u,%u,%u,%u,%u]", k->image.h, k->image.w, k->image.out_h,
			k->image.out_w, k->image.kh, k->image.kw, k->image.stride_h, k->image.stride_w);
	put_numbers(f, k, true);
	if (k->time_s != 0) /* +inf, of an op that the device cannot run, is no JSON number */
		fprintf(f, isfinite(k->time_s) ? ",\"time_s\":%.17g" : ",\"time_s\":\"never\"", k->time_s);
	fputc('}', f);
}

#define HELD(field) { #field, offsetof(struct mq_held, field) },
static const struct member held_field[] = { MQ_HELD(HELD) };
enum { N_HELD_FIELDS = sizeof(held_field) / sizeof(held_field[0]) };

static double *held_value(struct mq_held *h, int field)
{
	return (double *)(void *)((char *)h + held_field[field].offset);
}

static void put_held(FILE *f, const struct mq_schedule *s)
{
	if (!s->n_held)
		return;
	fputs(",\"held\":[", f);
	for (uint32_t i = 0; i < s->n_held; i++) {
		struct mq_held *h = &s->held[i];

		fprintf(f, "%s{\"device\":%" PRIu32 ",\"stage\":%" PRIu32, i ? "," : "", h->device, h->stage);
		for (int k = 0; k < N_HELD_FIELDS; k++)
			fprintf(f, ",\"%s\":%.17g", held_field[k].name, *held_value(h, k));
		fputc('}', f);
	}
	fputc(']', f);
}

static void put_header(FILE *f, const struct mq_schedule *s)
{
	mq_json_put_after(f, "{\"maquette_schedule\":1,\"model\":", s->model);
	fprintf(f, ",\"plan_hash\":\"%016" PRIx64 "\",\"model_hash\":\"%016" PRIx64 "\",\"devices\":[", s->plan_hash,
		s->model_hash);
	for (uint32_t d = 0; d < s->n_devices; d++) {
		fprintf(f, "%s{\"rank\":%" PRIu32 ",\"name\":", d ? "," : "", s->device[d]);
		mq_json_put_text(f, s->device_name[d]);
		mq_json_put_after(f, ",\"type\":", s->device_type[d]);
		if (s->clock && s->clock[d] < 1)
			fprintf(f, ",\"clock\":%.17g", s->clock[d]);
		fputc('}', f);
	}
	fputs("],\"comms\":[", f);
	for (uint32_t c = 0; c < s->n_comms; c++) {
		fprintf(f, "%s{\"id\":%" PRIu32 ",\"purpose\":", c ? "," : "", c);
		mq_json_put_text(f, s->comm[c].purpose);
		fputs(",\"ranks\":[", f);
		for (uint32_t i = 0; i < s->comm[c].n; i++)
			fprintf(f, "%s%" PRIu32, i ? "," : "", s->comm[c].rank[i]);
		fputs("]}", f);
	}
	fputs("],\"ops\":[", f);
	for (uint32_t o = 0; o < s->n_ops; o++) {
		if (o)
			fputc(',', f);
		mq_json_put_text(f, s->op_name[o]);
	}
	fputs("],\"works\":[", f);
	for (uint32_t w = 0; w < s->n_works; w++) {
		const struct mq_work *work = &s->work[w];
		fprintf(f,
			"%s{\"flop\":%.17g,\"bytes\":%.17g,\"model_flop\":%.17g,\"host\":%.17g,"
			"\"waits\":%s,\"kernels\":[",
			w ? "," : "", work->flop, work->bytes, work->model_flop, work->host,
			work->waits ? "true" : "false");
		for (uint32_t k = 0; k < work->n_kernels; k++) {
			if (k)
				fputc(',', f);
			put_kernel(f, &work->kernel[k]);
		}
		fputs("]}", f);
	}
	fputc(']', f);
	put_held(f, s);
	fprintf(f, ",\"tasks\":%" PRIu32 "}\n", s->n_tasks);
}

static void put_task(FILE *f, const struct mq_schedule *s, uint32_t id)
{
	const struct mq_task *t = &s->task[id];

	fprintf(f, "{\"id\":%" PRIu32 ",\"device\":%" PRIu32 ",\"stream\":\"%s\",\"kind\":\"%s\"", id, t->device,
		mq_stream_name(t->stream), mq_task_kind_name(t->kind));
	if (t->n_deps) {
		fputs(",\"deps\":[", f);
		for (uint32_t d = 0; d < t->n_deps; d++)
			fprintf(f, "%s%" PRIu32, d ? "," : "", s->dep[t->dep_first + d]);
		fputc(']', f);
	}
	if (t->group)
		fprintf(f, ",\"group\":%" PRIu32, t->group);
	if (t->op != MQ_NONE)
		fprintf(f, ",\"op\":%" PRIu32, t->op);
	if (t->kind == MQ_TASK_COMPUTE)
		fprintf(f, ",\"work\":%" PRIu32 ",\"flop\":%.17g", t->work, s->work[t->work].flop);
	fprintf(f, ",\"dtype\":\"%s\",\"bytes\":%.17g", mq_dtype_name(t->dtype), t->bytes);
	if (t->kind == MQ_TASK_SEND || t->kind == MQ_TASK_RECV)
		fprintf(f, ",\"peer\":%" PRIu32 ",\"channel\":%u", t->peer, t->channel);
	if (t->kind == MQ_TASK_COPY)
		fprintf(f, ",\"to_host\":%s", t->to_host ? "true" : "false");
	if (t->kind == MQ_TASK_COLLECTIVE)
		fprintf(f, ",\"comm\":%" PRIu32 ",\"coll\":\"%s\",\"algo\":\"%s\",\"proto\":\"%s\",\"root\":%" PRIu32,
			t->comm, mq_coll_name(t->coll), mq_algo_name(t->algo), mq_proto_name(t->proto), t->root);
	if (t->micro_batch != MQ_NONE)
		fprintf(f, ",\"micro_batch\":%" PRIu32, t->micro_batch);
	fprintf(f, ",\"stage\":%u,\"phase\":\"%s\"}\n", t->stage, mq_phase_name(t->phase));
}

enum mq_status mq_schedule_save(const struct mq_schedule *s, const char *path, struct mq_err *err)
{
	FILE *f;

	if (s->partial)
		return mq_fail(err, MQ_EBUG, "%s: a schedule of some devices alone is never saved", path);
	MQ_TRY(mq_file_open(path, &f, err));
	put_header(f, s);
	for (uint32_t i = 0; i < s->n_tasks; i++)
		put_task(f, s, i);
	return mq_file_close(f, path, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reader {
	const char *path;
	uint32_t line, n_tasks; /* n_tasks: as given by the header */
	struct mq_arena *arena;
	struct mq_schedule *s;
	struct mq_err *err;
	enum mq_status status; /* of the first failure; getters then return defaults */
};

static void wrong(struct reader *r, const char *key, const char *want)
{
	if (!r->status)
		r->status = mq_bad(r->err, "%s:%u: \"%s\" must be %s", r->path, r->line, key, want);
}

static double get_number(struct reader *r, json_t *object, const char *key, double missing)
{
	json_t *v = json_object_get(object, key);

	if (!v && !isnan(missing))
		return missing;
	if (!json_is_number(v)) {
		wrong(r, key, "a number");
		return 0;
	}
	return json_number_value(v);
}

static double get_between(struct reader *r, json_t *object, const char *key, double missing, const double range[2])
{
	double x = get_number(r, object, key, missing);

	if (!(x >= range[0] && x <= range[1])) {
		char want[48];

		snprintf(want, sizeof(want), "a number from %g to %g", range[0], range[1]);
		wrong(r, key, want);
		return 0;
	}
	return x;
}

static double get_size(struct reader *r, json_t *object, const char *key, double missing, double most)
{
	return get_between(r, object, key, missing, (const double[]){ 0, most });
}

/* Seconds of a kernel; of a call they may be negative: time by which its host was ahead. */
static double get_time(struct reader *r, json_t *v, enum mq_kernel_kind kind)
{
	json_t *time = json_object_get(v, "time_s");
	bool call = kind == MQ_KERNEL_CALL;

	if (json_is_string(time) && !strcmp(json_string_value(time), "never"))
		return INFINITY;
	return get_between(r, v, "time_s", 0,
			   (const double[]){ call ? -most_seconds : 0, call ? most_seconds : most_amount });
}

static uint32_t get_u32(struct reader *r, json_t *object, const char *key, uint32_t missing)
{
	json_t *v = json_object_get(object, key);

	if (!v && missing != MQ_NONE - 1)
		return missing;
	if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= MQ_NONE) {
		wrong(r, key, "an integer from 0 to 4294967294");
		return 0;
	}
	return (uint32_t)json_integer_value(v);
}
#define REQUIRED (MQ_NONE - 1) /* for get_u32: no default */

static const char *get_text(struct reader *r, json_t *object, const char *key)
{
	json_t *v = json_object_get(object, key);

	if (!json_is_string(v)) {
		wrong(r, key, "a text");
		return "";
	}
	return mq_arena_strdup(r->arena, json_string_value(v));
}

static uint8_t get_name(struct reader *r, json_t *object, const char *key, const char *(*name_of)(int), int n,
			uint8_t missing)
{
	json_t *v = json_object_get(object, key);

	if (!v && missing != UINT8_MAX)
		return missing;
	int found = json_is_string(v) ? mq_enum_find(name_of, n, json_string_value(v)) : n;
	if (found >= n) {
		wrong(r, key, "a known name");
		return 0;
	}
	return (uint8_t)found;
}
#define NAME(r, object, key, fn, n, missing) get_name(r, object, key, (const char *(*)(int))(fn), n, missing)

static uint64_t get_hash(struct reader *r, json_t *object, const char *key)
{
	const char *text = get_text(r, object, key);
	char *end;
	uint64_t hash = strtoull(text, &end, 16);

	if (!*text || *end)
		wrong(r, key, "16 hexadecimal digits");
	return hash;
}

static json_t *get_array(struct reader *r, json_t *object, const char *key, uint32_t *n)
{
	json_t *v = json_object_get(object, key);

	*n = 0;
	if (!json_is_array(v)) {
		wrong(r, key, "a list");
		return NULL;
	}
	*n = (uint32_t)json_array_size(v);
	return v;
}

/* [h, w, out_h, out_w, kh, kw, stride_h, stride_w], each at least 1; zeroes if it is missing. */
static struct mq_conv_image get_image(struct reader *r, json_t *kernel)
{
	json_t *list = json_object_get(kernel, "image");
	double x[8];

	if (!list)
		return (struct mq_conv_image){ 0 };
	for (size_t i = 0; i < 8; i++) {
		json_t *value = json_array_get(list, i);

		x[i] = json_is_integer(value) ? (double)json_integer_value(value) : 0;
		if (json_array_size(list) != 8 || !(x[i] >= 1) || x[i] > (i < 4 ? UINT16_MAX : UINT8_MAX)) {
			wrong(r, "image", "[h, w, out_h, out_w, kh, kw, stride_h, stride_w], whole numbers from 1");
			return (struct mq_conv_image){ 0 };
		}
	}
	return (struct mq_conv_image){ .h = (uint16_t)x[0],
				       .w = (uint16_t)x[1],
				       .out_h = (uint16_t)x[2],
				       .out_w = (uint16_t)x[3],
				       .kh = (uint8_t)x[4],
				       .kw = (uint8_t)x[5],
				       .stride_h = (uint8_t)x[6],
				       .stride_w = (uint8_t)x[7] };
}

static void get_kernel(struct reader *r, json_t *v, struct mq_kernel *k)
{
	k->kind = NAME(r, v, "kind", mq_kernel_kind_name, MQ_N_KERNEL_KINDS, UINT8_MAX);
	k->phase = NAME(r, v, "phase", mq_phase_name, MQ_N_PHASES, MQ_FORWARD);
	k->dtype = NAME(r, v, "dtype", mq_dtype_name, MQ_N_DTYPES, MQ_FP32);
	k->op = get_u32(r, v, "op", MQ_NONE);
	for (int i = 0; i < N_KERNEL_FLAGS; i++)
		*(bool *)((char *)k + kernel_flag[i].offset) = json_is_true(json_object_get(v, kernel_flag[i].name));
	if (k->kind == MQ_KERNEL_ATTENTION)
		k->attention = NAME(r, v, "attention", mq_attention_name, MQ_N_ATTENTIONS, MQ_ATTENTION_FLASH2);
	k->scaling = NAME(r, v, "scaling", mq_scaling_name, MQ_N_SCALINGS, MQ_SCALING_TENSOR);
	k->image = get_image(r, v);
	for (int i = 0; i < N_KERNEL_NUMBERS; i++)
		*(double *)(void *)((char *)k + kernel_number[i].offset) =
			get_size(r, v, kernel_number[i].name, kernel_number[i].missing, kernel_number[i].most);
	k->time_s = get_time(r, v, k->kind);
}

static void get_devices(struct reader *r, json_t *root)
{
	struct mq_schedule *s = r->s;
	json_t *list = get_array(r, root, "devices", &s->n_devices);

	s->device = mq_arena_array(r->arena, s->n_devices, uint32_t);
	s->device_name = mq_arena_array(r->arena, s->n_devices, const char *);
	s->device_type = mq_arena_array(r->arena, s->n_devices, const char *);
	s->clock = mq_arena_array(r->arena, s->n_devices, double);
	for (uint32_t d = 0; d < s->n_devices; d++) {
		json_t *v = json_array_get(list, d);

		s->clock[d] = get_between(r, v, "clock", 1, (const double[]){ 0.01, 1 });
		s->device[d] = get_u32(r, v, "rank", REQUIRED);
		s->device_name[d] = get_text(r, v, "name");
		s->device_type[d] = get_text(r, v, "type");
	}
}

static void get_held(struct reader *r, json_t *root)
{
	struct mq_schedule *s = r->s;

	if (!json_object_get(root, "held"))
		return;
	json_t *list = get_array(r, root, "held", &s->n_held);
	s->held = mq_arena_array(r->arena, s->n_held, struct mq_held);
	for (uint32_t i = 0; i < s->n_held; i++) {
		json_t *v = json_array_get(list, i);

		s->held[i].device = get_u32(r, v, "device", REQUIRED);
		s->held[i].stage = get_u32(r, v, "stage", REQUIRED);
		if (s->held[i].device >= s->n_devices)
			wrong(r, "device", "an index into \"devices\"");
		for (int k = 0; k < N_HELD_FIELDS; k++) {
			double x = get_number(r, v, held_field[k].name, 0);

			if (!(x >= 0 && x < 1e18))
				wrong(r, held_field[k].name, "a number of bytes");
			*held_value(&s->held[i], k) = x;
		}
	}
}

static void get_comms(struct reader *r, json_t *root)
{
	struct mq_schedule *s = r->s;
	json_t *list = get_array(r, root, "comms", &s->n_comms);

	s->comm_room = s->n_comms;
	s->comm = mq_arena_array(r->arena, s->n_comms, struct mq_comm);
	for (uint32_t c = 0; c < s->n_comms; c++) {
		json_t *v = json_array_get(list, c);
		json_t *ranks = get_array(r, v, "ranks", &s->comm[c].n);
		s->comm[c].purpose = get_text(r, v, "purpose");
		s->comm[c].rank = mq_arena_array(r->arena, s->comm[c].n, uint32_t);
		for (uint32_t i = 0; i < s->comm[c].n; i++) {
			json_t *rank = json_array_get(ranks, i);
			if (!json_is_integer(rank) || json_integer_value(rank) < 0 ||
			    json_integer_value(rank) >= s->n_devices)
				wrong(r, "ranks", "a list of indices into \"devices\"");
			s->comm[c].rank[i] = (uint32_t)json_integer_value(rank);
		}
	}
}

static void get_works(struct reader *r, json_t *root)
{
	struct mq_schedule *s = r->s;
	json_t *list = get_array(r, root, "works", &s->n_works);

	s->work_room = s->n_works;
	s->work = mq_arena_array(r->arena, s->n_works, struct mq_work);
	for (uint32_t w = 0; w < s->n_works; w++) {
		json_t *v = json_array_get(list, w);
		struct mq_work *work = &s->work[w];
		json_t *kernels = get_array(r, v, "kernels", &work->n_kernels);
		work->flop = get_size(r, v, "flop", NAN, 1e3 * most_amount);
		work->bytes = get_size(r, v, "bytes", NAN, most_amount);
		work->model_flop = get_size(r, v, "model_flop", NAN, 1e3 * most_amount);
		work->host = get_size(r, v, "host", 0, 1e6);
		work->waits = json_is_true(json_object_get(v, "waits"));
		work->kernel = mq_arena_array(r->arena, work->n_kernels, struct mq_kernel);
		for (uint32_t k = 0; k < work->n_kernels; k++)
			get_kernel(r, json_array_get(kernels, k), &work->kernel[k]);
	}
}

static void get_header(struct reader *r, json_t *root)
{
	struct mq_schedule *s = r->s;
	json_t *ops = get_array(r, root, "ops", &s->n_ops);

	if (get_u32(r, root, "maquette_schedule", REQUIRED) != 1)
		wrong(r, "maquette_schedule", "1, the version that this program reads");
	s->model = get_text(r, root, "model");
	s->plan_hash = get_hash(r, root, "plan_hash");
	s->model_hash = get_hash(r, root, "model_hash");
	s->op_name = mq_arena_array(r->arena, s->n_ops, const char *);
	for (uint32_t o = 0; o < s->n_ops; o++) {
		const char *name = json_string_value(json_array_get(ops, o));
		if (!name)
			wrong(r, "ops", "a list of names");
		s->op_name[o] = mq_arena_strdup(r->arena, name ? name : "");
	}
	get_devices(r, root);
	get_held(r, root);
	get_comms(r, root);
	get_works(r, root);
	r->n_tasks = get_u32(r, root, "tasks", REQUIRED);
}

static void get_deps(struct reader *r, json_t *root, struct mq_task *t)
{
	struct mq_schedule *s = r->s;
	json_t *list = json_object_get(root, "deps"), *v;
	size_t i;

	t->dep_first = s->n_deps;
	if (list && !json_is_array(list))
		wrong(r, "deps", "a list of task ids");
	json_array_foreach(list, i, v) {
		if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= r->n_tasks) {
			wrong(r, "deps", "a list of task ids below \"tasks\"");
			return;
		}
		MQ_PUSH(r->arena, s->dep, s->n_deps, s->dep_room, (uint32_t)json_integer_value(v));
		t->n_deps++;
	}
}

static void get_task(struct reader *r, json_t *root)
{
	struct mq_schedule *s = r->s;

	/* Grown line by line: the header's number may be wrong. */
	MQ_PUSH(r->arena, s->task, s->n_tasks, s->task_room, (struct mq_task){ 0 });
	struct mq_task *t = &s->task[s->n_tasks - 1];
	if (get_u32(r, root, "id", REQUIRED) != s->n_tasks - 1)
		wrong(r, "id", "the number of the task lines before it");
	t->device = get_u32(r, root, "device", REQUIRED);
	t->kind = NAME(r, root, "kind", mq_task_kind_name, MQ_N_TASK_KINDS, UINT8_MAX);
	t->stream = NAME(r, root, "stream", mq_stream_name, MQ_N_STREAMS, UINT8_MAX);
	t->dtype = NAME(r, root, "dtype", mq_dtype_name, MQ_N_DTYPES, MQ_FP32);
	t->phase = NAME(r, root, "phase", mq_phase_name, MQ_N_PHASES, MQ_FORWARD);
	t->coll = NAME(r, root, "coll", mq_coll_name, MQ_N_COLL_KINDS, 0);
	t->algo = NAME(r, root, "algo", mq_algo_name, MQ_N_ALGOS, MQ_ALGO_AUTO);
	t->proto = NAME(r, root, "proto", mq_proto_name, MQ_N_PROTOS, MQ_PROTO_AUTO);
	t->op = get_u32(r, root, "op", MQ_NONE);
	t->micro_batch = get_u32(r, root, "micro_batch", MQ_NONE);
	t->group = get_u32(r, root, "group", 0);
	t->root = get_u32(r, root, "root", 0);
	t->bytes = get_size(r, root, "bytes", 0, most_amount);
	uint32_t stage = get_u32(r, root, "stage", 0);
	if (stage > UINT16_MAX)
		wrong(r, "stage", "at most 65535");
	t->stage = (uint16_t)stage;
	if (t->kind == MQ_TASK_COMPUTE)
		t->work = get_u32(r, root, "work", REQUIRED);
	if (t->kind == MQ_TASK_COPY)
		t->to_host = json_is_true(json_object_get(root, "to_host"));
	if (t->kind == MQ_TASK_COLLECTIVE)
		t->comm = get_u32(r, root, "comm", REQUIRED);
	if (t->kind == MQ_TASK_SEND || t->kind == MQ_TASK_RECV) {
		uint32_t channel = get_u32(r, root, "channel", 0);
		t->peer = get_u32(r, root, "peer", REQUIRED);
		if (channel > UINT8_MAX)
			wrong(r, "channel", "at most 255");
		t->channel = (uint8_t)channel;
	}
	get_deps(r, root, t);
}

static void read_line(struct reader *r, const char *text, size_t size)
{
	json_error_t error;
	json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);

	if (!root || !json_is_object(root)) {
		r->status = mq_bad(r->err, "%s:%u: not a JSON object: %s", r->path, r->line,
				   root ? "another kind of value" : error.text);
	} else if (r->line == 1) {
		get_header(r, root);
	} else if (r->s->n_tasks >= r->n_tasks) {
		wrong(r, "tasks", "the number of task lines; there are more");
	} else {
		get_task(r, root);
	}
	json_decref(root);
}

enum mq_status mq_schedule_load(const char *path, struct mq_arena *arena, struct mq_schedule **schedule,
				struct mq_err *err)
{
	struct reader r = { .path = path, .arena = arena, .err = err };
	FILE *f = fopen(path, "r");
	struct stat st;
	char *text = NULL;
	size_t room = 0;
	ssize_t size;

	if (!f)
		return mq_bad(err, "%s: cannot open: %s", path, strerror(errno));
	if (fstat(fileno(f), &st) || !S_ISREG(st.st_mode)) {
		fclose(f);
		return mq_bad(err, "%s: not a regular file; give a schedule's", path);
	}
	r.s = mq_arena_array(arena, 1, struct mq_schedule);
	r.s->arena = arena;
	while (!r.status && (size = getline(&text, &room, f)) >= 0) {
		r.line++;
		read_line(&r, text, (size_t)size);
	}
	bool broken = ferror(f);
	free(text);
	fclose(f);
	if (!r.status && broken)
		r.status = mq_bad(err, "%s: cannot read", path);
	if (!r.status && !r.line)
		r.status = mq_bad(err, "%s: empty; a schedule starts with a header line", path);
	if (!r.status && r.s->n_tasks != r.n_tasks)
		r.status = mq_bad(err, "%s: cut short: %u of %u tasks", path, r.s->n_tasks, r.n_tasks);
	if (!r.status)
		r.status = mq_schedule_check(r.s, NULL, err) ? mq_wrap(err, "%s", path) : MQ_OK;
	*schedule = r.status ? NULL : r.s;
	return r.status;
}
