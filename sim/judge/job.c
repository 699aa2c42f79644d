/* job.c - see job.h. SPDX-License-Identifier: Apache-2.0 */
#include "judge/job.h"

#include <math.h>
#include <string.h>

#include "base/paths.h"

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct mq_job, field, __VA_ARGS__)
static const struct mq_arg rows[] = {
	ROW(TEXT, "software_dir", software_dir, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(FLAG, "analytic", analytic, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(FLAG, "times_only", times_only, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(FLAG, "any_memory", any_memory, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(F64, "max_tasks", max_tasks, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(F64, "memory_high", memory_high, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(F64, "jitter.device", jitter.device, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(F64, "jitter.kernel", jitter.kernel, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(F64, "jitter.stragglers", jitter.stragglers, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(F64, "jitter.slowdown", jitter.slowdown, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(INT, "jitter.draws", jitter.draws, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(INT, "jitter.draw", jitter.draw, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(INT, "jitter.seed", jitter.seed, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(TEXT, "outputs.dir", outputs.dir, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(TEXT, "outputs.trace", outputs.trace, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(TEXT, "outputs.schedule", outputs.schedule, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(INT, "outputs.timeline", outputs.timeline, NULL, NULL, .flags = MQ_ARG_PLAN),
	ROW(F64, "outputs.max_B", outputs.max_B, NULL, NULL, .flags = MQ_ARG_PLAN),
	{ .type = MQ_ARG_END },
};
/* At least the rows of both argument tables together. */
enum { MOST_ARGS = 128 };

static void init_plan(struct mq_job *job)
{
	mq_asked_init(&job->asked);
	job->asked.software = NULL;
	job->asked.train.dtype = MQ_FP32;
	job->asked.timeout_s = INFINITY;
	mq_args_defaults(rows, job);
}

void mq_job_init(struct mq_job *job)
{
	*job = (struct mq_job){ .wall_s = 600 };
	init_plan(job);
}

static uint32_t encode(const struct mq_job *job, struct mq_arena *arena, char **argv)
{
	const uint32_t flags = MQ_ARG_PLAN | MQ_ARG_MACHINE;
	uint32_t n = mq_args_encode(rows, job, flags, arena, argv);

	n += mq_args_encode(mq_question_args, &job->asked, flags, arena, argv + n);
	mq_assert(n <= MOST_ARGS);
	return n;
}

char **mq_job_encode(const struct mq_job *j, struct mq_arena *a, int *argc)
{
	uint32_t n_types = 0;

	while (j->type && j->type[n_types])
		n_types++;
	char **argv = mq_arena_array(a, MOST_ARGS + j->n_calib + n_types + j->n_change, char *);
	uint32_t n = encode(j, a, argv);

	for (uint32_t i = 0; i < j->n_calib; i++)
		argv[n++] = mq_arena_printf(a, "calib=%s", j->calib[i]);
	for (uint32_t i = 0; i < n_types; i++)
		argv[n++] = mq_arena_printf(a, "type=%s", j->type[i]);
	for (uint32_t i = 0; i < j->n_change; i++)
		argv[n++] = mq_arena_printf(a, "change=%s", j->change[i]);
	*argc = (int)n;
	return argv;
}

void *mq_job_pack(const struct mq_job *job, const struct mq_plan *plan, struct mq_arena *arena, size_t *size)
{
	char *argv[MOST_ARGS];
	uint32_t n = encode(job, arena, argv), args_size = 0;
	size_t plan_size;
	const void *packed = mq_plan_pack(plan, arena, &plan_size);

	for (uint32_t i = 0; i < n; i++)
		args_size += (uint32_t)strlen(argv[i]) + 1;
	*size = sizeof(args_size) + args_size + plan_size;
	char *bytes = mq_arena_alloc(arena, *size), *at = mempcpy(bytes, &args_size, sizeof(args_size));
	for (uint32_t i = 0; i < n; i++)
		at = stpcpy(at, argv[i]) + 1;
	memcpy(at, packed, plan_size);
	return bytes;
}

enum mq_status mq_job_parts(const void *bytes, size_t size, struct mq_job_parts *p, struct mq_err *err)
{
	*p = (struct mq_job_parts){ .args = (const char *)bytes + sizeof(p->args_size) };
	if (size > sizeof(p->args_size))
		memcpy(&p->args_size, bytes, sizeof(p->args_size));
	if (!p->args_size || p->args_size > size - sizeof(p->args_size) || p->args[p->args_size - 1])
		return mq_fail(err, MQ_EBUG, "a question cut short");
	p->plan = p->args + p->args_size;
	p->plan_size = size - sizeof(p->args_size) - p->args_size;
	return MQ_OK;
}

static enum mq_status set(struct mq_job *job, const char *text, struct mq_err *err)
{
	bool known;

	MQ_TRY(mq_args_decode(rows, job, text, &known, err));
	if (!known)
		MQ_TRY(mq_args_decode(mq_question_args, &job->asked, text, &known, err));
	return known ? MQ_OK :
		       mq_bad(err, "bad argument '%s'; this command is started by the others and not meant to be typed",
			      text);
}

enum mq_status mq_job_unpack(const struct mq_job_parts *parts, struct mq_arena *arena, struct mq_job *job,
			     struct mq_err *err)
{
	const char *args = memcpy(mq_arena_alloc(arena, parts->args_size), parts->args, parts->args_size);

	init_plan(job);
	for (const char *at = args; at < args + parts->args_size; at += strlen(at) + 1)
		MQ_TRY(set(job, at, err));
	return MQ_OK;
}

enum mq_status mq_job_decode(int argc, char **argv, struct mq_arena *arena, struct mq_job *job, struct mq_err *err)
{
	const char **calib = mq_arena_array(arena, argc + 1, const char *);
	const char **change = mq_arena_array(arena, argc + 1, const char *);
	const char **type = mq_arena_array(arena, argc + 1, const char *);
	uint32_t n_types = 0;

	mq_job_init(job);
	job->calib = calib;
	job->change = change;
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "calib=", 6))
			calib[job->n_calib++] = argv[i] + 6;
		else if (!strncmp(argv[i], "type=", 5))
			type[n_types++] = argv[i] + 5;
		else if (!strncmp(argv[i], "change=", 7))
			change[job->n_change++] = argv[i] + 7;
		else
			MQ_TRY(set(job, argv[i], err));
	job->type = n_types ? type : NULL;
	if (!job->asked.platform)
		return mq_bad(err, "no platform; this command is started by the others and not meant to be typed");
	return MQ_OK;
}

enum mq_status mq_job_question(const struct mq_job *job, struct mq_arena *arena, struct mq_question *q,
			       struct mq_err *err)
{
	struct mq_software_record *record = mq_arena_array(arena, 1, struct mq_software_record);
	struct mq_train *train = mq_arena_array(arena, 1, struct mq_train);
	struct mq_model *model = NULL;

	*q = (struct mq_question){ .train = train, .software = mq_software_plain(), .memory_high = job->memory_high };
	if (job->asked.software) {
		MQ_TRY(mq_software_load(job->software_dir, job->asked.software, arena, record, err));
		q->software = &record->software;
	}
	MQ_TRY(mq_asked_train(&job->asked, q->software, arena, train, err));
	const struct mq_model_request ask = { job->asked.model, train, job->asked.seq, q->software };
	if (job->asked.model)
		MQ_TRY(mq_model_load(&ask, arena, &model, err));
	q->model = model;
	if (!model || !mq_sequence_packing_said(&train->sequence_packing))
		return MQ_OK;
	return mq_sequence_packing_bind(&train->sequence_packing, model->seq, train->batch, arena, err);
}

enum mq_status mq_job_calib(const struct mq_job *job, uint32_t first, struct mq_calib *calib, struct mq_err *err)
{
	for (uint32_t i = first; i < job->n_calib; i++)
		MQ_TRY((mq_is_dir(job->calib[i]) ? mq_calib_load_dir : mq_calib_load)(calib, job->calib[i], err));
	return MQ_OK;
}
