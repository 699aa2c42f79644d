/* dir.c - see dir.h. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/validate/dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session/session.h"
#include "maquette/spawn.h"

/* ---- running the replay ---------------------------------------------------------------------- */

struct words {
	struct mq_arena *arena;
	char **word;
	uint32_t n, room;
};

static void add_word(struct words *w, const char *text)
{
	char *copy = text ? mq_arena_strdup(w->arena, text) : NULL;

	MQ_PUSH(w->arena, w->word, w->n, w->room, copy);
}

static void add_option(struct words *w, const char *option, double value)
{
	add_word(w, option);
	add_word(w, mq_arena_printf(w->arena, "%.9g", value));
}

static struct words replay_words(const struct mq_replay_call *c, uint32_t launch, struct mq_arena *arena)
{
	struct words w = { .arena = arena };

	add_word(&w, mq_find_program("maquette-replay", arena));
	add_word(&w, "--executor");
	add_word(&w, c->executor);
	add_option(&w, "--warmup", c->warmup);
	add_option(&w, "--reps", c->reps);
	add_option(&w, "--seed", (double)(c->seed + launch));
	add_option(&w, "--deadline", c->deadline_s);
	if (c->cores)
		add_option(&w, "--cores", c->cores);
	if (c->settle_s > 0)
		add_option(&w, "--settle", c->settle_s);
	if (c->memory_B > 0)
		add_option(&w, "--memory", c->memory_B);
	if (c->oversubscribe)
		add_word(&w, "--oversubscribe");
	if (c->share_gpu)
		add_word(&w, "--share-gpu");
	if (c->hold)
		add_word(&w, "--hold");
	if (c->local)
		add_option(&w, "--local", c->local);
	if (c->cpu_types && c->cpu_types[0]) {
		add_word(&w, "--cpu-types");
		add_word(&w, c->cpu_types);
	}
	add_word(&w, "-o");
	add_word(&w, mq_arena_printf(arena, "%s/launch-%u%s", c->dir, launch,
				     c->n_names == 1 ? mq_arena_printf(arena, "/%s.timeline.csv", c->name[0]) : ""));
	for (uint32_t i = 0; i < c->n_names; i++)
		add_word(&w, mq_arena_printf(arena, "%s/%s.jsonl", c->dir, c->name[i]));
	add_word(&w, NULL);
	return w;
}

void mq_replay_print(const struct mq_replay_call *call)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;

	for (uint32_t l = 0; l < call->launches; l++) {
		struct words w = replay_words(call, call->first_launch + l, &arena);

		printf("mkdir -p %s/launch-%u && maquette-replay", call->dir, call->first_launch + l);
		for (uint32_t i = 1; w.word[i]; i++)
			printf(" %s", w.word[i]);
		putchar('\n');
	}
}

/* Runs the replay; what it says comes back as text, and where it fails as the error. */
static enum mq_status run_replay(char **argv, char *text, size_t size, struct mq_err *err)
{
	FILE *said = tmpfile();
	int status = 0;
	pid_t pid;

	if (!said)
		return mq_fail(err, MQ_EBUG, "no temporary file: %s", strerror(errno));
	const struct mq_spawn program = { .path = argv[0],
					  .argv = argv,
					  .on_death = SIGTERM,
					  .n_fds = 2,
					  .fd = { { fileno(said), STDOUT_FILENO }, { fileno(said), STDERR_FILENO } } };
	int bad = mq_spawn(&program, &pid);
	bool lost = !bad && waitpid(pid, &status, 0) != pid;
	rewind(said);
	text[fread(text, 1, size - 1, said)] = '\0';
	fclose(said);
	if (bad)
		return mq_fail(err, MQ_ENODEV, "%s cannot be started: %s", argv[0], strerror(bad));
	if (lost)
		return mq_fail(err, MQ_EBUG, "%s was lost: %s", argv[0], strerror(errno));
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : MQ_ETIME;
	const char *ours = strstr(text, "maquette-replay: ");
	bool known = code <= MQ_ETHRESHOLD || code == MQ_EBUG;
	ours = ours ? ours + strlen("maquette-replay: ") : text;
	return code ? mq_fail(err, known && code >= MQ_EINPUT ? (enum mq_status)code : MQ_ETIME, "%.*s",
			      (int)strcspn(ours, "\n"), ours) :
		      MQ_OK;
}

enum mq_status mq_replay_measure(const struct mq_replay_call *call, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	char text[4096];

	for (uint32_t l = 0; l < call->launches; l++) {
		uint32_t launch = call->first_launch + l;
		struct words w = replay_words(call, launch, &arena);

		MQ_TRY(mq_make_dir(mq_arena_printf(&arena, "%s/launch-%u", call->dir, launch), err));
		MQ_TRY(run_replay(w.word, text, sizeof(text), err));
	}
	return MQ_OK;
}

enum mq_status mq_replay_devices(const char *executor, struct mq_arena *arena, uint32_t *n, const char **text,
				 struct mq_err *err)
{
	struct words w = { .arena = arena };
	char out[2048];

	add_word(&w, mq_find_program("maquette-replay", arena));
	add_word(&w, "--executor");
	add_word(&w, executor);
	add_word(&w, "--list-devices");
	add_word(&w, NULL);
	MQ_TRY(run_replay(w.word, out, sizeof(out), err));
	char *tab = strchr(out, '\t');
	*n = (uint32_t)atoi(out);
	*text = mq_arena_strdup(arena, tab ? tab + 1 : "");
	((char *)(uintptr_t)*text)[strcspn(*text, "\n")] = '\0';
	return MQ_OK;
}

/* ---- reading samples back -------------------------------------------------------------------- */

static const char *read_text(const char *path, struct mq_arena *arena)
{
	FILE *file = fopen(path, "r");
	char *text = mq_arena_alloc(arena, 8192);

	if (!file)
		return "";
	text[fread(text, 1, 8191, file)] = '\0';
	fclose(file);
	return text;
}

static enum mq_status load_one(const char *dir, const char *name, const char *const *launch, uint32_t n_launches,
			       struct mq_measured *measured, struct mq_arena *arena, struct mq_err *err)
{
	struct mq_schedule *schedule;

	MQ_TRY(mq_schedule_load(mq_arena_printf(arena, "%s/%s.jsonl", dir, name), arena, &schedule, err));
	measured->schedule = schedule;
	for (uint32_t l = 0; l < n_launches; l++) {
		const char *path = mq_arena_printf(arena, "%s/%s/%s.timeline.csv", dir, launch[l], name);

		if (!access(path, R_OK))
			MQ_TRY(mq_measured_add(measured, path, arena, err));
	}
	return MQ_OK;
}

enum mq_status mq_samples_load(const char *dir, struct mq_arena *arena, struct mq_samples *samples, struct mq_err *err)
{
	uint32_t n_launches;
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
		MQ_TRY(load_one(dir, name, launch, n_launches, &samples->measured[i], arena, err));
	}
	for (uint32_t l = 0; l < n_launches && !samples->environment[0]; l++)
		samples->environment =
			read_text(mq_arena_printf(arena, "%s/%s/environment.txt", dir, launch[l]), arena);
	return MQ_OK;
}

enum mq_status mq_samples_calls(const struct mq_samples *samples, struct mq_arena *arena, struct mq_observed **observed,
				uint32_t *n, struct mq_err *err)
{
	uint32_t room = 0;

	*observed = NULL;
	*n = 0;
	for (uint32_t i = 0; i < samples->n; i++) {
		struct mq_observed *part;
		uint32_t count;

		MQ_TRY(mq_measured_calls(&samples->measured[i], arena, &part, &count, err));
		for (uint32_t k = 0; k < count; k++)
			MQ_PUSH(arena, *observed, *n, room, part[k]);
	}
	return MQ_OK;
}
