/* solve.c - `maquette solve FILE`: solves an engine's optimisation problem from explicit tables. The first engine, by
 * name, that knows the file's format solves it. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "session/search_run.h"
#include "maquette/loader.h"
#include "maquette/opt.h"

struct options {
	const char *path, *engine, *engine_options;
	uint64_t seed;
	double seconds, begin_s;
};

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct options, field, __VA_ARGS__)
static const struct mq_arg rows[] = {
	ROW(TEXT, "FILE", path, NULL, NULL, .flags = MQ_ARG_POSITIONAL),
	ROW(TEXT, "engine", engine, "NAME[:key=value,...]",
	    "engine that solves it (default: the first that knows the file's format)", .letter = 'e'),
	ROW(INT, "seed", seed, "N", "seed of all randomness", .initial = 1, .max = 0x1p64),
	ROW(F64, "seconds", seconds, "S", "time limit", .unit = "s", .initial = INFINITY, .min = 1e-3, .max = 1e9),
	{ .type = MQ_ARG_END },
};

static bool tick(void *context, double done, const char *what)
{
	const struct options *o = context;

	return mq_now_s() - o->begin_s < o->seconds;
}

static void say(void *context, const char *text)
{
	puts(text);
}

static enum mq_status find_engine(struct options *o, struct mq_arena *arena, const struct mq_engine **engine,
				  struct mq_err *err)
{
	const char *dir, **names;

	MQ_TRY(mq_find_dir("engines", arena, &dir, err));
	if (o->engine) {
		char *name = mq_arena_strdup(arena, o->engine), *colon = strchr(name, ':');

		if (colon) {
			*colon = '\0';
			o->engine_options = colon + 1;
		}
		MQ_TRY(mq_engine_open(dir, name, arena, engine, err));
		if (!(*engine)->solve)
			return mq_bad(err, "engine '%s' solves no files", name);
		return MQ_OK;
	}
	MQ_TRY(mq_plugin_names(dir, ".so", arena, &names, err));
	for (; *names; names++) {
		struct mq_err why = MQ_ERR_INIT;

		if (mq_engine_open(dir, *names, arena, engine, &why) == MQ_OK && (*engine)->solve &&
		    (*engine)->accepts && (*engine)->accepts(o->path))
			return MQ_OK;
	}
	return mq_bad(err,
		      "%s: no engine knows this kind of file; see strategies/README.md for those that solve tables",
		      o->path);
}

static enum mq_status solve(struct options *o, struct mq_arena *arena, struct mq_err *err)
{
	const struct mq_engine *engine;
	struct mq_rng rng;
	char what[96];

	MQ_TRY(find_engine(o, arena, &engine, err));
	mq_rng_seed(&rng, o->seed);
	struct mq_problem problem = { .objective = "solve",
				      .rng = &rng,
				      .arena = arena,
				      .evals = UINT64_MAX,
				      .seconds = o->seconds,
				      .tick = tick,
				      .tick_context = o,
				      .say = say };
	void *state = mq_arena_alloc(arena, engine->state_size);
	snprintf(what, sizeof(what), "engine '%s'", engine->name);
	mq_opt_defaults(engine->opts, state);
	MQ_TRY(mq_opt_parse(engine->opts, state, what, o->engine_options, arena, err));
	return engine->solve(state, o->path, &problem, err);
}

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	struct options o = { .begin_s = mq_now_s() };
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	const struct mq_args args = { .table = { { rows, &o } },
				      .args_doc = "FILE",
				      .doc = "Solves an explicit optimisation problem and prints its optimum." };

	mq_args_defaults(rows, &o);
	MQ_TRY(mq_args_parse(&args, argc, argv, err));
	if (!o.path)
		return mq_bad(err, "give a file to solve");
	if (access(o.path, R_OK))
		return mq_bad(err, "%s: cannot open the file: %s", o.path, strerror(errno));
	return solve(&o, &arena, err);
}

MQ_DEFINE_COMMAND(solve, "an engine's own problem from explicit tables");
