/* portfolio.c - several engines and local search within one budget, with one incumbent.
 *
 * Engines take turns; the first of the list gets most turns at the start. Every judged plan is a starting point of
 * local search (lib/moves/refine.h). The next turn goes to the least handicap: how far the engine's best is from the
 * incumbent, times its turns since it last improved it. An engine that refuses the question, has nothing left to
 * propose, or proposes only known plans (DRY x SKIPS in a row), drops out with a message.
 *
 * No evaluation is spent on a plan with a known result, even under another form (mq_plan_effect), nor on one that the
 * memory check finds too large: its engine gets the verdict at once.
 *
 * The plans that users of the software know (portfolio/usual.h) come before those of the engines if they fit, else after
 * the first plan that was proposed; if none fits, another that does, as the engines' first plans can take seconds.
 *
 * --seconds: engines start at their first turn; each start and turn gets a fraction of the time left.
 *
 * Differs from running several engines (-e A,B): there each has its own budget. The engines are plug-ins next to this
 * one, named with '+' between, options in brackets with ';' between: portfolio:engines=hybrid(keep=500;screens=9)+mcmc.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "maquette/engine.h"
#include "maquette/loader.h"
#include "portfolio/usual.h"
#include "lib/plans.h"
#include "lib/plugin_file.h"
#include "lib/moves/refine.h"

/* SKIPS: known plans that an engine may propose in one turn; after DRY such turns it is dropped: a chance below 1e-4
 * even if one plan in a hundred is new (0.99^1024). Budgets up to FEW_EVALS skip the usual plans. */
enum { MAX_CHILDREN = 32, RING = 64, SKIPS = 64, DRY = 16, REFINE = MAX_CHILDREN, USUAL, FEW_EVALS = 16 };

struct child {
	const struct mq_engine *engine;
	const char *name, *options;
	void *state;
	struct portfolio *owner;
	struct mq_problem problem;
	struct mq_rng rng;
	bool started, done, waiting; /* waiting: its proposal has no result yet */
	double best_s, until_s;      /* until_s: seconds left at the end of its time slice */
	uint64_t turns, idle;        /* proposals; turns since its last new incumbent */
	uint32_t dry;                /* consecutive turns with known plans only */
};

struct portfolio {
	const char *engines;
	uint32_t trial;
	const struct mq_problem *problem;
	struct child child[MAX_CHILDREN];
	uint32_t n;
	double best_s;
	uint64_t refined, refine_idle, skipped;
	struct mq_usual usual;
	struct mq_refine refine;
	const char *left_out, *reason; /* engines that refused, and the reason of the last */
	struct mq_map known;           /* mq_plan_effect of plans with a result */
	struct mq_result *result;
	uint32_t room;
	uint32_t asked[RING]; /* who made each proposal without a result */
	uint32_t n_asked, heard;
};

extern const struct mq_engine mq_engine_portfolio;

static const struct mq_opt opts[] = {
	MQ_STR(struct portfolio, engines, "hybrid(moves=0)+expert+screen(block=64)+data-parallel+piper+dpl+mcmc",
	       "names with + between"),
	MQ_U32(struct portfolio, trial, 4, 1, 1e6,
	       "turns of every engine; fewer with small budgets, four times as many for the first"),
	MQ_END
};

/* ---- callbacks of child engines --------------------------------------------------------------------- */

static double left_s(const struct mq_problem *problem)
{
	return problem->left_s ? problem->left_s(problem->tick_context) : (double)INFINITY;
}

static bool child_tick(void *context, double done, const char *what)
{
	struct child *c = context;
	const struct mq_problem *problem = c->owner->problem;

	if (!mq_tick(problem, done, what))
		return false;
	return left_s(problem) > c->until_s;
}

static double child_left_s(void *context)
{
	struct child *c = context;

	return left_s(c->owner->problem) - c->until_s;
}

/* Gives the engine this fraction of the time left. */
static void give_slice(struct child *c, double part)
{
	double left = left_s(c->owner->problem);

	c->until_s = isfinite(left) ? left * (1 - part) : -(double)INFINITY;
}

/* ---- start ------------------------------------------------------------------------------------------ */

/* Splits "name(key=value;key=value)" into name and "key=value,key=value". */
static enum mq_status read_options(char *item, const char **options, struct mq_err *err)
{
	char *open = strchr(item, '('), *close = strchr(item, ')');

	*options = "";
	if (!open && !close)
		return MQ_OK;
	if (!open || !close || close < open || close[1])
		return mq_bad(err, "engine 'portfolio': '%s' is no engine; write NAME or NAME(key=value;...)", item);
	*open = *close = '\0';
	*options = open + 1;
	for (char *p = open + 1; *p; p++)
		if (*p == ';')
			*p = ',';
	return MQ_OK;
}

/* Reports engines that refused for the same reason in one line; each reason begins with "engine 'NAME' ". */
static void report_refusals(struct portfolio *s)
{
	if (s->left_out)
		mq_say(s->problem, "portfolio: without %s: %s%s", s->left_out, strchr(s->left_out, ',') ? "each " : "",
		       s->reason);
	s->left_out = NULL;
}

static void add_refusal(struct portfolio *s, const char *name, const char *why)
{
	size_t n = strlen(name) + strlen("engine '' ");
	const char *reason = !strncmp(why, "engine '", 8) && strlen(why) > n ? why + n : why;
	bool same = s->left_out && !strcmp(s->reason, reason);

	if (!same)
		report_refusals(s);
	s->left_out = same ? mq_arena_printf(s->problem->arena, "%s, %s", s->left_out, name) : name;
	s->reason = mq_arena_strdup(s->problem->arena, reason);
}

static enum mq_status open_child(struct portfolio *s, const struct mq_problem *problem, const char *dir, char *item,
				 struct mq_err *err)
{
	struct child *c = &s->child[s->n];
	struct mq_err why = MQ_ERR_INIT;
	char what[64];

	if (s->n == MAX_CHILDREN)
		return mq_bad(err, "engine 'portfolio': more than %d engines", MAX_CHILDREN);
	MQ_TRY(read_options(item, &c->options, err));
	if (!strcmp(item, "portfolio"))
		return mq_bad(err, "engine 'portfolio': cannot run itself; name others");
	MQ_TRY(mq_engine_open(dir, item, problem->arena, &c->engine, err));
	c->name = c->engine->name;
	c->owner = s;
	c->state = mq_arena_alloc(problem->arena, c->engine->state_size);
	c->rng = mq_rng_split(problem->rng, s->n);
	c->problem = *problem;
	c->problem.rng = &c->rng;
	c->problem.tick = child_tick;
	c->problem.left_s = child_left_s;
	c->problem.tick_context = c;
	c->best_s = INFINITY;
	mq_opt_defaults(c->engine->opts, c->state);
	snprintf(what, sizeof(what), "engine 'portfolio': %.40s", c->name);
	MQ_TRY(mq_opt_parse(c->engine->opts, c->state, what, c->options, problem->arena, err));
	if (mq_limits_refuse(problem->limits, c->name, c->engine->lacks, &why) != MQ_OK ||
	    mq_space_refuse(problem->q, c->name, c->engine->lacks, &why) != MQ_OK) {
		add_refusal(s, c->name, why.text);
		return MQ_OK;
	}
	s->n++;
	return MQ_OK;
}

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct portfolio *s = state;
	char *list = mq_arena_strdup(problem->arena, s->engines ? s->engines : ""), *rest = list, *item;
	const char *dir = NULL;

	s->problem = problem;
	s->best_s = INFINITY;
	MQ_TRY(mq_plugin_folder(&mq_engine_portfolio, problem->arena, &dir, err));
	while ((item = strsep(&rest, "+")))
		if (*item)
			MQ_TRY(open_child(s, problem, dir, item, err));
	report_refusals(s);
	if (!s->n)
		return mq_bad(err, "engine 'portfolio': none of the engines '%s' takes this question", s->engines);
	mq_refine_init(&s->refine, problem);
	mq_map_init(&s->known, problem->arena, 512);
	return MQ_OK;
}

/* ---- turns ------------------------------------------------------------------------------------------ */

static void end_child(struct child *c, const char *why)
{
	c->done = true;
	if (c->started && c->engine->stop)
		c->engine->stop(c->state, &c->problem);
	c->started = false;
	char text[48] = "none that fits";

	if (isfinite(c->best_s))
		snprintf(text, sizeof(text), "best %.9g s", c->best_s);
	mq_say(c->owner->problem, "portfolio: %s %s after %llu plans, %s", c->name, why, (unsigned long long)c->turns,
	       text);
}

static bool start_child(struct child *c)
{
	struct mq_err why = MQ_ERR_INIT;

	give_slice(c, c == c->owner->child ? 0.5 : 0.1);
	c->started = c->engine->start(c->state, &c->problem, &why) == MQ_OK;
	if (c->started)
		return true;
	c->done = true;
	mq_say(c->owner->problem, "portfolio: without %s: %s", c->name, why.text);
	return false;
}

/* Trial turns of engine i before engines are compared: fewer on small budgets. */
static uint64_t trial(const struct portfolio *s, uint32_t i)
{
	uint64_t evals = s->problem->evals, each = s->trial;

	if (evals / 50 < each)
		each = evals / 50;
	return i ? each : evals < 8 * s->trial ? evals / 2 + 1 : 4 * (uint64_t)s->trial;
}

/* Trial turns come first, in order, with two turns of local search for each of the second and later engines. Then the
 * least handicap wins: turns since the last success, times the cube of best / incumbent. Local search starts from the
 * incumbent, and its handicap counts a third. */
static uint32_t choose(struct portfolio *s, bool refine)
{
	uint32_t best = MQ_NONE;
	double least = INFINITY;
	uint64_t others = 0;

	for (uint32_t i = 1; i < s->n; i++)
		others += s->child[i].turns;

	for (uint32_t i = 0; i < s->n; i++) {
		struct child *c = &s->child[i];
		double far = isfinite(c->best_s) && c->best_s > 0 ? c->best_s / s->best_s : 4;
		double handicap = (1.0 + (double)c->idle) * far * far * far;

		if (c->done || c->waiting)
			continue;
		if (c->turns < trial(s, i))
			return i && refine && isfinite(s->best_s) && s->refined < 2 * others ? REFINE : i;
		if (handicap < least)
			least = handicap, best = i;
	}
	if (refine && isfinite(s->best_s) && (1.0 + (double)s->refine_idle) / 3 <= least)
		return REFINE;
	return best;
}

/* Answers a plan that is known or too large without an evaluation: passes the verdict to the engine. */
static bool answer_known(struct portfolio *s, struct child *c, const struct mq_plan *plan)
{
	uint32_t i = mq_map_find(&s->known, mq_plan_effect(&s->refine.space, plan, &s->refine.scratch));
	const struct mq_costs *costs = s->problem->costs;
	struct mq_result screened;

	if (i != MQ_NONE) {
		if (c->engine->observe)
			c->engine->observe(c->state, &c->problem, plan, &s->result[i]);
		if (s->result[i].verdict == MQ_VERDICT_OK)
			c->best_s = fmin(c->best_s, s->result[i].step_time_s);
		return true;
	}
	if (!isfinite(s->best_s) || !costs->fits || !costs->fits(costs->screen_context, plan, &screened) ||
	    screened.verdict != MQ_VERDICT_OOM)
		return false;
	if (c->engine->observe)
		c->engine->observe(c->state, &c->problem, plan, &screened);
	return true;
}

/* Asks the engine for a new plan; false: none in this turn. */
static bool ask(struct portfolio *s, struct child *c, struct mq_arena *arena, struct mq_plan *plan)
{
	if (!c->started && !start_child(c))
		return false;
	give_slice(c, 0.1);
	for (uint32_t skips = 0; skips < SKIPS; skips++) {
		struct mq_err why = MQ_ERR_INIT;
		struct mq_arena_mark mark = mq_arena_mark(arena);
		enum mq_status status = c->engine->propose(c->state, &c->problem, arena, plan, &why);

		if (status != MQ_OK) {
			if (status != MQ_DONE)
				mq_say(s->problem, "portfolio: %s", why.text);
			end_child(c, "finished");
			return false;
		}
		c->turns++;
		mq_limits_apply(s->problem->limits, plan, s->problem->q->train);
		if (!answer_known(s, c, plan)) {
			c->dry = 0;
			return true;
		}
		mq_arena_rewind(arena, mark);
		s->skipped++;
		if (!child_tick(c, (double)NAN, c->name))
			break;
	}
	c->idle++;
	/* an engine that does not end, although its space is exhausted */
	if (++c->dry == DRY)
		end_child(c, "proposes known plans alone");
	return false;
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct portfolio *s = state;
	bool refine = problem->costs->screen != NULL, ran = isfinite(s->best_s);
	bool found = (problem->evals > FEW_EVALS && mq_usual_next(&s->usual, problem, ran, arena, plan)) ||
		     (s->n_asked && mq_usual_unfit(&s->usual, arena, plan));
	uint32_t who = USUAL;

	while (!found) {
		who = choose(s, refine);
		if (!mq_tick(problem, (double)NAN, "portfolio"))
			return MQ_DONE;
		if (who == MQ_NONE && !mq_usual_unfit(&s->usual, arena, plan))
			return MQ_DONE;
		if (who == MQ_NONE)
			found = true, who = USUAL;
		else if (who == REFINE)
			found = refine = mq_refine_next(&s->refine, arena, plan);
		else
			found = ask(s, &s->child[who], arena, plan);
	}
	if (who == REFINE)
		s->refined++;
	else if (who != USUAL)
		s->child[who].waiting = true;
	s->asked[s->n_asked++ % RING] = who;
	return MQ_OK;
}

static void observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		    const struct mq_result *result)
{
	struct portfolio *s = state;
	uint32_t who = s->asked[s->heard++ % RING];
	struct child *c = who >= MAX_CHILDREN ? NULL : &s->child[who];
	bool fits = result->verdict == MQ_VERDICT_OK, best = fits && result->step_time_s < s->best_s;
	uint64_t *idle = c ? &c->idle : &s->refine_idle;
	uint32_t before = s->known.n;
	uint32_t at = mq_map_add(&s->known, mq_plan_effect(&s->refine.space, plan, &s->refine.scratch));

	if (at == before)
		MQ_PUSH(s->problem->arena, s->result, at, s->room, *result);
	if (c) {
		c->waiting = false;
		if (!c->done && c->engine->observe)
			c->engine->observe(c->state, &c->problem, plan, result);
		if (fits)
			c->best_s = fmin(c->best_s, result->step_time_s);
		mq_refine_offer(&s->refine, plan, result);
	} else if (who == USUAL) {
		mq_refine_offer(&s->refine, plan, result);
	} else {
		mq_refine_hear(&s->refine, plan, result);
	}
	*idle = best ? 0 : *idle + 1;
	if (best)
		s->best_s = result->step_time_s;
	if (best && c) /* a new starting point */
		s->refine_idle = 0;
}

static void stop(void *state, const struct mq_problem *problem)
{
	struct portfolio *s = state;

	for (uint32_t i = 0; i < s->n; i++)
		if (s->child[i].started)
			end_child(&s->child[i], "ends");
	mq_say(problem, "portfolio: %llu plans by moves; %llu known or too large, not judged again",
	       (unsigned long long)s->refined, (unsigned long long)s->skipped);
	mq_refine_fini(&s->refine);
}

MQ_ENGINE(portfolio) = {
	MQ_ENGINE_HEAD("portfolio"),
	.summary = "several engines in turn within one budget, and moves on the best of them",
	MQ_ENGINE_OWN(struct portfolio),
	.parts = true,
	.proves = true, /* if its engines do */
	.observe = observe,
	.stop = stop,
};
