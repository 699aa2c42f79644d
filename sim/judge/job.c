/* job.c - see job.h. */
#include "judge/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "maquette/opt.h"
#include "base/quantity.h"

void mq_job_init(struct mq_job *job)
{
	*job = (struct mq_job){ .fold = true, .interference = true, .timeout_s = INFINITY, .wall_s = 600 };
	job->train = (struct mq_train){ .batch = 1 };
}

/* What may differ from plan to plan in one pool. */
static int encode_question(const struct mq_job *j, struct mq_arena *a, char **argv)
{
	int n = 0;

	if (j->model)
		argv[n++] = mq_arena_printf(a, "model=%s", j->model);
	if (j->software) {
		argv[n++] = mq_arena_printf(a, "software_dir=%s", j->software_dir);
		argv[n++] = mq_arena_printf(a, "software=%s", j->software);
	}
	argv[n++] = mq_arena_printf(a, "seq=%u", j->seq);
	argv[n++] = mq_arena_printf(a, "batch=%.17g", j->train.batch);
	argv[n++] = mq_arena_printf(a, "dtype=%d", (int)j->train.dtype);
	argv[n++] = mq_arena_printf(a, "grad_dtype=%d", (int)j->train.grad_dtype);
	argv[n++] = mq_arena_printf(a, "products=%d", (int)j->train.products);
	argv[n++] = mq_arena_printf(a, "mx=%d", j->train.mx);
	argv[n++] = mq_arena_printf(a, "expert_capacity=%.17g", j->train.experts.capacity);
	argv[n++] = mq_arena_printf(a, "expert_pad=%d", j->train.experts.pad);
	if (*mq_expert_load_text(&j->train.experts, a))
		argv[n++] = mq_arena_printf(a, "expert_load=%s", mq_expert_load_text(&j->train.experts, a));
	if (mq_sequence_packing_said(&j->train.documents)) {
		argv[n++] = mq_arena_printf(a, "documents_seed=%llu", (unsigned long long)j->train.documents.seed);
		argv[n++] = mq_arena_printf(a, "documents=%s", mq_sequence_packing_text(&j->train.documents, a));
	}
	if (j->jitter.draws)
		argv[n++] = mq_arena_printf(a, "jitter=%.17g,%.17g,%.17g,%.17g,%u,%u,%llu", j->jitter.device,
					    j->jitter.kernel, j->jitter.stragglers, j->jitter.slowdown, j->jitter.draws,
					    j->jitter.draw, (unsigned long long)j->jitter.seed);
	argv[n++] = mq_arena_printf(a, "optimizer=%d", (int)j->train.optimizer);
	argv[n++] = mq_arena_printf(a, "infer=%d", j->train.infer);
	argv[n++] = mq_arena_printf(a, "fold=%d", j->fold);
	argv[n++] = mq_arena_printf(a, "interference=%d", j->interference);
	argv[n++] = mq_arena_printf(a, "time_oom=%d", j->time_oom);
	argv[n++] = mq_arena_printf(a, "analytic=%d", j->analytic);
	argv[n++] = mq_arena_printf(a, "max_tasks=%.17g", j->max_tasks);
	if (isfinite(j->timeout_s))
		argv[n++] = mq_arena_printf(a, "timeout=%.17g", j->timeout_s);
	return n;
}
enum { QUESTION_ARGS = 26 };

char **mq_job_encode(const struct mq_job *j, struct mq_arena *a, int *argc)
{
	char **argv = mq_arena_array(a, QUESTION_ARGS + 4 + j->n_calib + j->n_change, char *);
	int n = encode_question(j, a, argv);

	argv[n++] = mq_arena_printf(a, "platform=%s", j->platform);
	if (j->devices)
		argv[n++] = mq_arena_printf(a, "devices=%s", j->devices);
	for (uint32_t i = 0; i < j->n_calib; i++)
		argv[n++] = mq_arena_printf(a, "calib=%s", j->calib[i]);
	argv[n++] = mq_arena_printf(a, "seed=%llu", (unsigned long long)j->seed);
	for (uint32_t i = 0; i < j->n_change; i++)
		argv[n++] = mq_arena_printf(a, "change=%s", j->change[i]);
	*argc = n;
	return argv;
}

char *mq_job_pack(const struct mq_job *job, struct mq_arena *arena, uint32_t *size)
{
	char *argv[QUESTION_ARGS], *bytes, *at;
	int n = encode_question(job, arena, argv);

	*size = 0;
	for (int i = 0; i < n; i++)
		*size += (uint32_t)strlen(argv[i]) + 1;
	at = bytes = mq_arena_alloc(arena, *size);
	for (int i = 0; i < n; i++)
		at = stpcpy(at, argv[i]) + 1;
	return bytes;
}

static bool whole(const char *text, uint64_t below, uint64_t *value)
{
	return mq_parse_u64(text, value) && *value < below;
}

static bool read_load(struct mq_job *j, const char *text, struct mq_arena *arena)
{
	struct mq_err lost = MQ_ERR_INIT;

	return mq_expert_load_read("expert_load", text, arena, &j->train.experts, &lost) == MQ_OK;
}

static bool read_documents(struct mq_job *j, const char *text, struct mq_arena *arena)
{
	struct mq_err lost = MQ_ERR_INIT;

	return mq_sequence_packing_read("documents", text, arena, &j->train.documents, &lost) == MQ_OK;
}

static bool read_jitter(struct mq_jitter *j, const char *text)
{
	unsigned long long seed;
	bool good = sscanf(text, "%lf,%lf,%lf,%lf,%u,%u,%llu", &j->device, &j->kernel, &j->stragglers, &j->slowdown,
			   &j->draws, &j->draw, &seed) == 7;

	j->seed = seed;
	return good;
}

static bool set(struct mq_job *j, const char *key, size_t n, const char *text, struct mq_arena *arena)
{
#define IS(name) (n == sizeof(name) - 1 && !strncmp(key, name, n))
	uint64_t v = 0;
	bool good = true;

	if (IS("model"))
		j->model = text;
	else if (IS("platform"))
		j->platform = text;
	else if (IS("devices"))
		j->devices = text;
	else if (IS("batch"))
		good = mq_parse_f64(text, &j->train.batch);
	else if (IS("software"))
		j->software = text;
	else if (IS("software_dir"))
		j->software_dir = text;
	else if (IS("mx") && (good = whole(text, 2, &v)))
		j->train.mx = v;
	else if (IS("expert_capacity"))
		good = mq_parse_f64(text, &j->train.experts.capacity);
	else if (IS("expert_pad") && (good = whole(text, 2, &v)))
		j->train.experts.pad = v;
	else if (IS("documents_seed"))
		good = mq_parse_u64(text, &j->train.documents.seed);
	else if (IS("documents"))
		good = read_documents(j, text, arena);
	else if (IS("jitter"))
		good = read_jitter(&j->jitter, text);
	else if (IS("expert_load"))
		good = read_load(j, text, arena);
	else if (IS("analytic") && (good = whole(text, 2, &v)))
		j->analytic = v;
	else if (IS("time_oom") && (good = whole(text, 2, &v)))
		j->time_oom = v;
	else if (IS("max_tasks"))
		good = mq_parse_f64(text, &j->max_tasks);
	else if (IS("timeout"))
		good = mq_parse_f64(text, &j->timeout_s);
	else if (IS("seq") && (good = whole(text, MQ_NONE, &v)))
		j->seq = (uint32_t)v;
	else if (IS("dtype") && (good = whole(text, MQ_N_DTYPES, &v)))
		j->train.dtype = (enum mq_dtype)v;
	else if (IS("grad_dtype") && (good = whole(text, MQ_N_DTYPES, &v)))
		j->train.grad_dtype = (enum mq_dtype)v;
	else if (IS("products") && (good = whole(text, MQ_N_DTYPES, &v)))
		j->train.products = (enum mq_dtype)v;
	else if (IS("optimizer") && (good = whole(text, MQ_N_OPTIMIZERS, &v)))
		j->train.optimizer = (enum mq_optimizer)v;
	else if (IS("seed") && (good = mq_parse_u64(text, &v)))
		j->seed = v;
	else if (IS("infer") && (good = whole(text, 2, &v)))
		j->train.infer = v;
	else if (IS("fold") && (good = whole(text, 2, &v)))
		j->fold = v;
	else if (IS("interference") && (good = whole(text, 2, &v)))
		j->interference = v;
	else
		return false;
	return good;
#undef IS
}

enum mq_status mq_job_unpack(const char *bytes, uint32_t size, struct mq_arena *arena, struct mq_job *job,
			     struct mq_err *err)
{
	const char *end = bytes + size;

	if (!size || end[-1])
		return mq_fail(err, MQ_EBUG, "a question cut short");
	for (const char *at = bytes; at < end; at += strlen(at) + 1) {
		const char *equals = strchr(at, '=');

		if (!equals || !set(job, at, (size_t)(equals - at), mq_arena_strdup(arena, equals + 1), arena))
			return mq_fail(err, MQ_EBUG, "a question with '%s'", at);
	}
	return MQ_OK;
}

enum mq_status mq_job_decode(int argc, char **argv, struct mq_arena *arena, struct mq_job *job, struct mq_err *err)
{
	const char **calib = mq_arena_array(arena, argc + 1, const char *);
	const char **change = mq_arena_array(arena, argc + 1, const char *);

	mq_job_init(job);
	job->calib = calib;
	job->change = change;
	for (int i = 0; i < argc; i++) {
		const char *equals = strchr(argv[i], '=');
		size_t n = equals ? (size_t)(equals - argv[i]) : 0;
		if (n == 5 && !strncmp(argv[i], "calib", 5))
			calib[job->n_calib++] = equals + 1;
		else if (n == 6 && !strncmp(argv[i], "change", 6))
			change[job->n_change++] = equals + 1;
		else if (!equals || !set(job, argv[i], n, equals + 1, arena))
			return mq_fail(err, MQ_EINPUT,
				       "bad argument '%s'; this command is "
				       "started by the others and not meant to be typed",
				       argv[i]);
	}
	if (!job->platform)
		return mq_fail(err, MQ_EINPUT,
			       "no platform; this command is started by the "
			       "others and not meant to be typed");
	return MQ_OK;
}

enum mq_status mq_job_question(const struct mq_job *job, struct mq_arena *arena, struct mq_question *q,
			       struct mq_err *err)
{
	struct mq_software_record *record = mq_arena_array(arena, 1, struct mq_software_record);
	struct mq_model *model = NULL;

	*q = (struct mq_question){ .train = &job->train, .software = mq_software_plain() };
	if (job->software) {
		MQ_TRY(mq_software_load(job->software_dir, job->software, arena, record, err));
		q->software = &record->software;
	}
	const struct mq_model_request ask = { job->model, &job->train, job->seq, q->software };
	if (job->model)
		MQ_TRY(mq_model_load(&ask, arena, &model, err));
	q->model = model;
	if (!model || !mq_sequence_packing_said(&job->train.documents))
		return MQ_OK;
	struct mq_train *train = mq_arena_array(arena, 1, struct mq_train);
	*train = job->train;
	q->train = train;
	return mq_sequence_packing_bind(&train->documents, model->seq, train->batch, arena, err);
}

enum mq_status mq_job_calib(const struct mq_job *job, struct mq_arena *arena, struct mq_calib **calib,
			    struct mq_err *err)
{
	*calib = mq_calib_new(arena);
	for (uint32_t i = 0; i < job->n_calib; i++) {
		struct stat about;
		if (!stat(job->calib[i], &about) && S_ISDIR(about.st_mode))
			MQ_TRY(mq_calib_load_dir(*calib, job->calib[i], err));
		else
			MQ_TRY(mq_calib_load(*calib, job->calib[i], err));
	}
	return MQ_OK;
}
