/* dir.c - see dir.h. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/validate/dir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "session/session.h"
#include "maquette/spawn.h"

/* ---- running the replay ---------------------------------------------------------------------- */

/* budget_s: for this launch. */
static char **replay_words(const struct mq_replay_call *c, uint32_t launch, double budget_s, struct mq_arena *arena)
{
	const struct {
		const char *option;
		double value;
		bool given;
	} numbers[] = { { "--warmup", c->warmup, true },
			{ "--reps", c->reps, true },
			{ "--seed", (double)(c->seed + launch), true },
			{ "--deadline", c->deadline_s, true },
			{ "--cores", c->cores, c->cores > 0 },
			{ "--settle", c->settle_s, c->settle_s > 0 },
			{ "--budget", budget_s, budget_s > 0 },
			{ "--local", c->local, c->local > 0 } };
	struct mq_argv w = { .arena = arena };

	mq_argv_add(&w, "%s", mq_find_program("maquette-replay", arena));
	mq_argv_add(&w, "--executor");
	mq_argv_add(&w, "%s", c->executor);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (numbers[i].given) {
			mq_argv_add(&w, "%s", numbers[i].option);
			mq_argv_add(&w, "%.9g", numbers[i].value);
		}
	if (c->oversubscribe)
		mq_argv_add(&w, "--oversubscribe");
	if (c->share_gpu)
		mq_argv_add(&w, "--share-gpu");
	if (c->hold)
		mq_argv_add(&w, "--hold");
	if (c->cpu_types && c->cpu_types[0]) {
		mq_argv_add(&w, "--cpu-types");
		mq_argv_add(&w, "%s", c->cpu_types);
	}
	mq_argv_add(&w, "-o");
	mq_argv_add(&w, "%s/launch-%u%s%s%s", c->dir, launch, c->n_names == 1 ? "/" : "",
		    c->n_names == 1 ? c->name[0] : "", c->n_names == 1 ? ".timeline.csv" : "");
	for (uint32_t i = 0; i < c->n_names; i++)
		mq_argv_add(&w, "%s/%s.jsonl", c->dir, c->name[i]);
	return mq_argv_end(&w);
}

void mq_replay_print(const struct mq_replay_call *call)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;

	for (uint32_t l = 0; l < call->launches; l++) {
		char **word = replay_words(call, call->first_launch + l, call->budget_s / call->launches, &arena);

		printf("mkdir -p %s/launch-%u && maquette-replay", call->dir, call->first_launch + l);
		while (*++word)
			printf(" %s", *word);
		putchar('\n');
	}
}

/* Runs the replay; returns its output as text, or its failure as the error. */
static enum mq_status run_replay(char **argv, struct mq_arena *arena, char **said, struct mq_err *err)
{
	const struct mq_spawn program = { .path = argv[0], .argv = argv, .on_death = SIGTERM };
	int status = 0, bad = mq_run(&program, true, arena, said, &status);

	if (bad)
		return mq_fail(err, MQ_ENODEV, "%s cannot be started: %s", argv[0], strerror(bad));
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : MQ_ETIME;
	const char *ours = strstr(*said, "maquette-replay: ");
	bool known = code <= MQ_ETHRESHOLD || code == MQ_EBUG;
	ours = ours ? ours + strlen("maquette-replay: ") : *said;
	return code ? mq_fail(err, known && code >= MQ_EINPUT ? (enum mq_status)code : MQ_ETIME, "%.*s",
			      (int)strcspn(ours, "\n"), ours) :
		      MQ_OK;
}

enum mq_status mq_replay_measure(const struct mq_replay_call *call, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	double end_s = mq_now_s() + call->budget_s;
	char *said;

	for (uint32_t l = 0; l < call->launches; l++) {
		uint32_t launch = call->first_launch + l, left = call->launches - l;
		/* a launch after the deadline starts nothing and has no samples */
		double own_s = call->budget_s > 0 ? fmax(1e-3, (end_s - mq_now_s()) / left) : 0;

		MQ_TRY(mq_make_dir(mq_arena_printf(&arena, "%s/launch-%u", call->dir, launch), err));
		MQ_TRY(run_replay(replay_words(call, launch, own_s, &arena), &arena, &said, err));
	}
	return MQ_OK;
}

enum mq_status mq_replay_devices(const char *executor, struct mq_arena *arena, uint32_t *n, const char **text,
				 struct mq_err *err)
{
	struct mq_argv w = { .arena = arena };
	char *out;

	mq_argv_add(&w, "%s", mq_find_program("maquette-replay", arena));
	mq_argv_add(&w, "--executor");
	mq_argv_add(&w, "%s", executor);
	mq_argv_add(&w, "--list-devices");
	MQ_TRY(run_replay(mq_argv_end(&w), arena, &out, err));
	const char *tab = strchr(out, '\t'), *type = tab ? tab + 1 : "";
	*n = (uint32_t)atoi(out);
	*text = mq_arena_printf(arena, "%.*s", (int)strcspn(type, "\n"), type);
	return MQ_OK;
}

/* ---- reading samples back -------------------------------------------------------------------- */

/* n_found: number of launches that tried the schedule. */
static enum mq_status load_one(const char *dir, const char *name, const char *const *launch, uint32_t n_launches,
			       struct mq_measured *measured, uint32_t *n_found, struct mq_arena *arena,
			       struct mq_err *err)
{
	struct mq_schedule *schedule;

	MQ_TRY(mq_schedule_load(mq_arena_printf(arena, "%s/%s.jsonl", dir, name), arena, &schedule, err));
	measured->schedule = schedule;
	*n_found = 0;
	for (uint32_t l = 0; l < n_launches; l++) {
		const char *path = mq_arena_printf(arena, "%s/%s/%s.timeline.csv", dir, launch[l], name);

		if (access(path, R_OK))
			continue;
		++*n_found;
		MQ_TRY(mq_measured_add(measured, path, arena, err));
	}
	return MQ_OK;
}

enum mq_status mq_samples_load(const char *dir, struct mq_arena *arena, struct mq_samples *samples, struct mq_err *err)
{
	uint32_t n_launches, n_found;
	const char **launch = mq_folder_names(dir, "launch-", "", arena, &n_launches);

	memset(samples, 0, sizeof(*samples));
	samples->name = mq_folder_names(dir, "", ".jsonl", arena, &samples->n);
	samples->environment = "";
	if (!samples->n || !n_launches)
		return mq_bad(err,
			      "%s: not a folder of samples: NAME.jsonl schedules and "
			      "launch-K/NAME.timeline.csv are needed",
			      dir);
	samples->measured = mq_arena_array(arena, samples->n, struct mq_measured);
	for (uint32_t i = 0; i < samples->n; i++) {
		char *name = mq_arena_strdup(arena, samples->name[i]);

		name[strlen(name) - 6] = '\0';
		samples->name[i] = name;
		MQ_TRY(load_one(dir, name, launch, n_launches, &samples->measured[i], &n_found, arena, err));
		samples->n_launches = n_found > samples->n_launches ? n_found : samples->n_launches;
	}
	for (uint32_t l = 0; l < n_launches && !samples->environment[0]; l++) {
		struct mq_err none = MQ_ERR_INIT;
		char *text;
		size_t size;

		if (mq_text_read(mq_arena_printf(arena, "%s/%s/environment.txt", dir, launch[l]), 1, arena, &text,
				 &size, &none) == MQ_OK)
			samples->environment = text;
	}
	return MQ_OK;
}
