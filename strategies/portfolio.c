/*
 * portfolio.c - several engines within one budget, with one incumbent.
 *
 * Engines are asked in turn; the cache of judged plans is the search's own, so equal proposals cost
 * nothing twice. A turn goes to the engine whose proposals are worth most: its best so far counts,
 * and each turn without a new best of all makes it wait longer. An engine that has brought nothing
 * new for `patience` turns, once it had `trial` turns, is stopped; one that refuses the question,
 * or has no more to propose, drops out and says so.
 *
 * Differs from running engines side by side (-e A,B): there each has its own budget.
 * The engines are plug-ins beside this one, named with '+' between: portfolio:engines=hybrid+mcmc.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

#include "core/engine.h"
#include "core/loader.h"
#include "lib/plans.h"

enum { MAX_CHILDREN = 32 };

struct child {
	const struct mq_engine *engine;
	void *state;
	struct mq_problem problem;
	struct mq_rng rng;
	bool running;
	double best_s;
	uint64_t turns, idle; /* proposals; those since its last new best of all */
};

struct portfolio {
	const char *engines;
	uint32_t patience, trial;
	struct child child[MAX_CHILDREN];
	uint32_t n, asked; /* asked: whose proposal is being judged */
	double best_s;
};

static const struct mq_opt opts[] = {
        MQ_STR(struct portfolio, engines, "hybrid+expert+data-parallel+piper+pase+dpl+mcmc",
               "names with + between"),
        MQ_U32(struct portfolio, trial, 4, 1, 1e6, "turns that every engine gets"),
        MQ_U32(struct portfolio, patience, 24, 1, 1e9,
               "turns without a new best before it is stopped"),
        MQ_END};

/* The folder that this plug-in was loaded from. */
static enum mq_status engine_dir(struct mq_arena *arena, const char **dir, struct mq_err *err)
{
	Dl_info info;
	char *slash;

	if (!dladdr(opts, &info) || !info.dli_fname)
		return mq_fail(err, MQ_EBUG, "engine 'portfolio' cannot find its own folder");
	char *path = mq_arena_strdup(arena, info.dli_fname);

	slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
	*dir = slash ? path : ".";
	return MQ_OK;
}

static enum mq_status open_child(struct portfolio *s, const struct mq_problem *problem,
                                 const char *dir, const char *name, struct mq_err *err)
{
	struct child *c = &s->child[s->n];
	struct mq_err why = MQ_ERR_INIT;

	if (!strcmp(name, "portfolio"))
		return mq_fail(err, MQ_EINPUT,
		               "engine 'portfolio': cannot run itself; name others");
	if (s->n == MAX_CHILDREN)
		return mq_fail(err, MQ_EINPUT, "engine 'portfolio': more than %d engines",
		               MAX_CHILDREN);
	MQ_TRY(mq_engine_open(dir, name, problem->arena, &c->engine, err));
	c->state = mq_arena_alloc(problem->arena, c->engine->state_size);
	c->rng = mq_rng_split(problem->rng, s->n);
	c->problem = *problem;
	c->problem.rng = &c->rng;
	c->best_s = INFINITY;
	mq_opt_defaults(c->engine->opts, c->state);
	if (mq_limits_refuse(problem->limits, name, c->engine->lacks, &why) != MQ_OK ||
	    mq_space_refuse(problem->q, name, c->engine->lacks, &why) != MQ_OK ||
	    c->engine->start(c->state, &c->problem, &why) != MQ_OK) {
		mq_say(problem, "portfolio: without %s: %s", name, why.text);
		return MQ_OK;
	}
	c->running = true;
	s->n++;
	return MQ_OK;
}

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct portfolio *s = state;
	char *list = mq_arena_strdup(problem->arena, s->engines ? s->engines : ""), *rest = list,
	     *name;
	const char *dir = NULL;

	s->best_s = INFINITY;
	MQ_TRY(engine_dir(problem->arena, &dir, err));
	while ((name = strsep(&rest, "+")))
		if (*name)
			MQ_TRY(open_child(s, problem, dir, name, err));
	if (!s->n)
		return mq_fail(err, MQ_EINPUT,
		               "engine 'portfolio': none of the engines '%s' takes this "
		               "question",
		               s->engines);
	return MQ_OK;
}

static void end_child(struct portfolio *s, struct child *c, const struct mq_problem *problem,
                      const char *why)
{
	c->running = false;
	if (c->engine->stop)
		c->engine->stop(c->state, &c->problem);
	mq_say(problem, "portfolio: %s %s after %llu plans, best %.9g s", c->engine->name, why,
	       (unsigned long long)c->turns, c->best_s);
}

/* Everybody's trial turns first, in order; then the least handicap: turns since the last success,
 * weighted with how far its best is from the best of all. */
static struct child *choose(struct portfolio *s)
{
	struct child *best = NULL;
	double least = INFINITY;

	for (uint32_t i = 0; i < s->n; i++) {
		struct child *c = &s->child[i];
		double far = isfinite(c->best_s) && c->best_s > 0 ? c->best_s / s->best_s : 4;
		double handicap = c->turns < s->trial ? -1.0 * (s->trial - c->turns)
		                                      : (1.0 + (double)c->idle) * far;

		if (c->running && handicap < least)
			least = handicap, best = c;
	}
	return best;
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
                              struct mq_plan *plan, struct mq_err *err)
{
	struct portfolio *s = state;

	for (;;) {
		struct child *c = choose(s);
		struct mq_err why = MQ_ERR_INIT;

		if (!c)
			return MQ_DONE;
		if (c->turns >= s->trial && c->idle >= s->patience) {
			end_child(s, c, problem, "stopped");
			continue;
		}
		enum mq_status status =
		        c->engine->propose(c->state, &c->problem, arena, plan, &why);

		if (status == MQ_OK) {
			s->asked = (uint32_t)(c - s->child);
			c->turns++;
			return MQ_OK;
		}
		if (status != MQ_DONE)
			mq_say(problem, "portfolio: %s", why.text);
		end_child(s, c, problem, "finished");
	}
}

static void observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
                    const struct mq_result *result)
{
	struct portfolio *s = state;
	struct child *c = &s->child[s->asked];
	bool fits = result->verdict == MQ_VERDICT_OK;

	if (c->engine->observe)
		c->engine->observe(c->state, &c->problem, plan, result);
	if (fits)
		c->best_s = fmin(c->best_s, result->step_time_s);
	c->idle++;
	if (fits && result->step_time_s < s->best_s) {
		s->best_s = result->step_time_s;
		c->idle = 0;
	}
}

static void stop(void *state, const struct mq_problem *problem)
{
	struct portfolio *s = state;

	for (uint32_t i = 0; i < s->n; i++)
		if (s->child[i].running)
			end_child(s, &s->child[i], problem, "ends");
}

MQ_ENGINE(portfolio) = {
        MQ_ENGINE_HEAD("portfolio"),
        .summary = "several engines in turn within one budget; what does not improve is stopped",
        .opts = opts,
        .state_size = sizeof(struct portfolio),
        .heuristic = true,
        .proves = true, /* as far as its engines do */
        .start = start,
        .propose = propose,
        .observe = observe,
        .stop = stop,
};
