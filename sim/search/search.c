/* search.c - the loop around the engines; see search.h. SPDX-License-Identifier: Apache-2.0 */
#include "search/search.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* One engine while the loop runs. */
struct player {
	const struct mq_search_engine *spec;
	struct mq_engine_report *report;
	struct loop *loop;
	struct mq_problem problem;
	struct mq_counted_costs costs;
	struct mq_rng rng;
	void *state;
	uint64_t index;   /* of the next proposal */
	double best;      /* NaN until one is feasible */
	double used_s;    /* its share of the clock */
	double entered_s; /* when its hook was entered: for tick */
	bool started, done;
	bool deaf; /* a proposal of it was not judged: it hears of none after that */
	uint32_t said_room, bound_room;
};

/* One proposal of a round. */
struct entry {
	struct player *player;
	const struct mq_plan *proposed; /* as the engine knows it */
	struct mq_candidate candidate;
	bool judged; /* result is there */
	bool late;   /* there was no time for it */
};

/* For the first plan that is feasible, beyond --seconds. */
static const double GRACE_S = 0.5;

struct loop {
	const struct mq_search *search;
	struct mq_arena *arena;
	struct mq_arena round; /* lifetime: one round of proposals */
	struct mq_search_outcome *outcome;
	struct player *player;
	struct entry *entry;
	uint32_t n_entries, entry_room;
	struct mq_ranking ranking;
	struct mq_cache cache;
	struct mq_rows rows;
	struct mq_notes notes;
	bool gap; /* stopped before a proposal was judged: what was judged behind it is ranked, and has no row yet */
};

static double now(const struct loop *loop)
{
	return loop->search->now_s ? loop->search->now_s() : 0;
}

static bool stopped(const struct loop *loop)
{
	return loop->search->stopped && loop->search->stopped();
}

/* Seconds that an engine may use: what finished engines left is divided among the others. */
static double share_s(const struct loop *loop)
{
	double left = stopped(loop) ? 0 : loop->search->seconds;
	uint32_t active = 0;

	for (uint32_t i = 0; i < loop->search->n_engines; i++) {
		if (loop->player[i].done)
			left -= loop->player[i].used_s;
		else
			active++;
	}
	return left / (active ? active : 1);
}

/* ---- what an engine may call -------------------------------------------------------------------- */

static bool tick(void *context, double done, const char *what)
{
	struct player *p = context;
	const struct mq_search *s = p->loop->search;
	char text[96];

	if (s->progress) {
		snprintf(text, sizeof(text), "%s: %s", p->spec->label, what ? what : "searching");
		s->progress(s->progress_context, done, text);
	}
	return p->used_s + now(p->loop) - p->entered_s < share_s(p->loop);
}

static double left_s(void *context)
{
	struct player *p = context;

	return share_s(p->loop) - p->used_s - (now(p->loop) - p->entered_s);
}

static void say(void *context, const char *line)
{
	struct player *p = context;

	MQ_PUSH(p->loop->arena, p->report->said, p->report->n_said, p->said_room,
		mq_arena_strdup(p->loop->arena, line));
}

static void take_bound(void *context, const struct mq_bound *bound)
{
	struct player *p = context;
	struct mq_arena *arena = p->loop->arena;
	struct mq_bound copy = *bound;

	copy.quantity = mq_arena_strdup(arena, bound->quantity);
	copy.unit = mq_arena_strdup(arena, bound->unit);
	copy.scope = mq_arena_strdup(arena, bound->scope);
	MQ_PUSH(arena, p->report->bound, p->report->n_bounds, p->bound_room, copy);
}

static void note(void *context, const char *quantity, double value)
{
	struct player *p = context;

	mq_notes_add(&p->loop->notes, p->spec->label, p->report->proposals ? p->report->proposals - 1 : 0, quantity,
		     value);
}

static void enter(struct player *p)
{
	p->entered_s = now(p->loop);
}

static void leave(struct player *p)
{
	p->used_s += now(p->loop) - p->entered_s;
}

/* ---- plans that fail ----------------------------------------------------------------------------- */

/* Of the plans that do not fit, the one that exceeds its device's memory by the least factor; of those
 * that fail otherwise, the first. One that runs and only exceeds a budget is nearer than any of these. */
static void note_failure(struct loop *loop, const struct mq_candidate *c)
{
	struct mq_search_outcome *out = loop->outcome;
	const struct mq_result *old = &out->nearest.result, *r = &c->result;

	if (out->feasible || (out->have_refused && !isnan(out->refused.result.step_time_s)))
		return;
	if (r->verdict == MQ_VERDICT_REFUSED && !isnan(r->step_time_s)) {
		mq_candidate_keep(&out->refused, c, loop->arena);
		out->have_refused = true;
		out->have_nearest = false;
		return;
	}
	if (r->verdict != MQ_VERDICT_OOM && !out->have_refused) {
		mq_candidate_keep(&out->refused, c, loop->arena);
		out->have_refused = true;
	}
	if (r->verdict != MQ_VERDICT_OOM || !(r->memory_limit_B > 0))
		return;
	if (out->have_nearest && r->peak_memory_B / r->memory_limit_B >= old->peak_memory_B / old->memory_limit_B)
		return;
	mq_candidate_keep(&out->nearest, c, loop->arena);
	out->have_nearest = true;
}

/* ---- one round ---------------------------------------------------------------------------------- */

static void stop_player(struct player *p, const struct mq_err *why)
{
	p->done = true;
	if (why)
		snprintf(p->report->stopped, sizeof(p->report->stopped), "%s", why->text);
}

/* A whole batch, or where time is limited as many as there is time for, by the mean so far; one at first. */
static uint32_t batch_now(const struct loop *loop, const struct player *p)
{
	uint32_t batch = p->spec->engine->batch;
	uint64_t done = p->report->proposals;

	if (!isfinite(loop->search->seconds) || batch < 2)
		return batch;
	if (!done || !(p->used_s > 0))
		return 1;
	double room = (share_s(loop) - p->used_s) / (p->used_s / (double)done);

	return room < batch ? (uint32_t)fmax(1, room) : batch;
}

/* What the engine proposes next, with what the user fixed, and the plan of the whole cluster that it stands for: of a
 * part those are passed over that are of no order which goes on. */
static enum mq_status propose(struct loop *loop, struct player *p, struct mq_plan *proposed, struct mq_plan *plan,
			      struct mq_err *err)
{
	enum { MOST = 1000 };
	const struct mq_engine *engine = p->spec->engine;
	struct mq_result no = mq_result_none(MQ_VERDICT_INVALID);

	for (uint32_t i = 0; i < MOST; i++) {
		mq_plan_init(proposed, &loop->round, loop->search->q->model->n_ops);
		MQ_TRY(engine->propose(p->state, &p->problem, &loop->round, proposed, err));
		mq_limits_apply(loop->search->limits, proposed, p->problem.q->train);
		if (!p->problem.times) {
			*plan = *proposed;
			return MQ_OK;
		}
		if (mq_plan_times(proposed, loop->search->q->model, p->problem.times, &loop->round, plan))
			return MQ_OK;
		engine->observe(p->state, &p->problem, proposed, &no);
	}
	return MQ_DONE;
}

/* Takes up to a batch of proposals of one engine. */
static void collect(struct loop *loop, struct player *p)
{
	uint32_t batch = batch_now(loop, p);

	for (uint32_t i = 0; i < batch && !p->done; i++) {
		struct mq_err err = MQ_ERR_INIT;
		struct mq_plan *plan = mq_arena_array(&loop->round, 2, struct mq_plan);

		if (p->index >= loop->search->evals || !(p->used_s < share_s(loop))) {
			p->done = true;
			return;
		}
		enter(p);
		enum mq_status status = propose(loop, p, &plan[1], plan, &err);
		leave(p);
		if (stopped(loop)) { /* what it would have proposed with time is for the next run */
			p->done = true;
			return;
		}
		if (status != MQ_OK) {
			p->report->finished = status == MQ_DONE;
			stop_player(p, status == MQ_DONE ? NULL : &err);
			return;
		}
		struct entry e = { .player = p,
				   .proposed = p->problem.times ? &plan[1] : plan,
				   .candidate = { .engine = p->spec->label,
						  .index = p->index++,
						  .hash = mq_plan_hash(plan),
						  .plan = plan } };
		MQ_PUSH(&loop->round, loop->entry, loop->n_entries, loop->entry_room, e);
	}
}

/* Does a sound plan keep --fix and --max, and can the software run it? Broken ones are left to the judge. */
static bool allowed(const struct mq_search *s, const struct mq_plan *plan, char *message, size_t size)
{
	struct mq_err broken;

	if (!mq_limits_hold(s->limits, plan, s->q->train, message, size))
		return false;
	if (!s->q->software || s->q->software->runs.placement ||
	    mq_plan_check(plan, s->q->model, s->q->cluster, s->q->train, &broken) != MQ_OK)
		return true;
	return mq_software_runs(s->q->software, s->q, plan, message, size);
}

/* What engines only ask about counts for the nearest plan too. */
static void looked_at(void *looker, struct mq_plan *plan, const struct mq_result *result)
{
	struct loop *loop = looker;
	struct mq_candidate c = { .engine = "", .plan = plan, .runs_in = "", .result = *result };
	char message[sizeof(result->message)];

	if (result->verdict == MQ_VERDICT_OOM && !loop->outcome->feasible &&
	    allowed(loop->search, plan, message, sizeof(message)))
		note_failure(loop, &c);
}

/* A proposal that needs no judging: outside of what is allowed, or known. */
static bool settle(struct loop *loop, struct entry *e)
{
	struct mq_candidate *c = &e->candidate;
	const struct mq_result *known;
	char message[sizeof(c->result.message)] = "";

	if (e->judged)
		return true;
	if (!allowed(loop->search, c->plan, message, sizeof(message))) {
		memset(&c->result, 0, sizeof(c->result));
		c->result.verdict = MQ_VERDICT_INVALID;
		c->result.step_time_s = c->result.samples_per_s = c->result.mfu = NAN;
		c->result.peak_memory_B = NAN;
		memcpy(c->result.message, message, sizeof(message));
	} else if ((known = mq_cache_find(&loop->cache, c->hash))) {
		c->result = *known;
		loop->outcome->cached++;
	} else {
		return false;
	}
	return e->judged = true;
}

/* Seconds that the engines of some entries have left. Without any plan so far there are a few more. */
static double patience_s(const struct loop *loop, struct entry *const *of, uint32_t n)
{
	double most = 0;

	for (uint32_t i = 0; i < n; i++)
		most = fmax(most, share_s(loop) - of[i]->player->used_s);
	return loop->outcome->feasible ? most : fmax(most, GRACE_S);
}

/* Judges the first unsettled proposal from `first` on, and as many others as fit in a chunk. */
static enum mq_status judge(struct loop *loop, uint32_t first, struct mq_err *err)
{
	const struct mq_evaluator *ev = &loop->search->evaluator;
	uint32_t chunk = ev->chunk ? ev->chunk : 1, n = 0;
	const struct mq_plan **plan = mq_arena_array(&loop->round, chunk, const struct mq_plan *);
	struct entry **of = mq_arena_array(&loop->round, chunk, struct entry *);
	struct mq_result *result = mq_arena_array(&loop->round, chunk, struct mq_result);
	double begin = now(loop);

	for (uint32_t i = first; i < loop->n_entries && n < chunk; i++) {
		struct entry *e = &loop->entry[i];
		bool repeated = false;

		for (uint32_t j = 0; j < n; j++)
			repeated |= of[j]->candidate.hash == e->candidate.hash;
		if (repeated || settle(loop, e))
			continue;
		plan[n] = e->candidate.plan;
		of[n++] = e;
	}
	if (!n)
		return MQ_OK;
	if (ev->until && isfinite(loop->search->seconds))
		ev->until(ev->context, patience_s(loop, of, n));
	MQ_TRY(ev->evaluate(ev->context, plan, n, result, err));
	for (uint32_t i = 0; i < n; i++) {
		of[i]->player->used_s += (now(loop) - begin) / n;
		if (result[i].verdict == MQ_N_VERDICTS) {
			of[i]->player->done = of[i]->late = true;
			continue;
		}
		mq_result_round(&result[i]);
		of[i]->candidate.result = result[i];
		of[i]->judged = true;
		loop->outcome->judged++;
		MQ_TRY(mq_cache_add(&loop->cache, of[i]->candidate.hash, &result[i], err));
	}
	return MQ_OK;
}

static void keep_usual(struct loop *loop, const struct mq_candidate *c)
{
	struct mq_search_outcome *out = loop->outcome;

	if (!c->plan->usual || out->n_usual == MQ_MOST_USUAL)
		return;
	struct mq_named_candidate *usual = &out->usual[out->n_usual++];

	usual->name = c->plan->usual;
	mq_candidate_keep(&usual->best, c, loop->arena);
}

/* Row, report, ranking, observe: in order of engine and index. */
static enum mq_status settle_entry(struct loop *loop, struct entry *e, struct mq_err *err)
{
	struct player *p = e->player;
	struct mq_candidate *c = &e->candidate;

	loop->outcome->proposals++;
	p->report->proposals++;
	c->runs_in = "";
	if (loop->search->n_software) /* an invalid plan may name devices that there are not */
		c->runs_in = c->result.verdict == MQ_VERDICT_INVALID ?
				     "-" :
				     mq_software_runs_in(loop->search->software, loop->search->n_software,
							 loop->search->q, c->plan, &loop->round);
	if (c->result.verdict == MQ_VERDICT_OK &&
	    !mq_budget_holds(loop->search->limits, loop->search->q->cluster, c->plan, &c->result, c->result.message,
			     sizeof(c->result.message)))
		c->result.verdict = MQ_VERDICT_REFUSED;
	if (c->result.verdict == MQ_VERDICT_OK) {
		loop->outcome->feasible++;
		p->report->feasible++;
		mq_ranking_add(&loop->ranking, c);
		if (isnan(p->best) || c->result.step_time_s < p->best) {
			p->best = c->result.step_time_s;
			mq_candidate_keep(&p->report->best, c, loop->arena);
		}
	} else {
		loop->outcome->crashed += c->result.verdict == MQ_VERDICT_CRASH;
		note_failure(loop, c);
	}
	keep_usual(loop, c);
	p->report->best_step_time_s = p->best;
	if (loop->gap)
		return MQ_OK;
	if (loop->search->dir)
		MQ_TRY(mq_rows_add(&loop->rows, c, p->best, loop->search->q->cluster, err));
	if (p->deaf)
		return MQ_OK;
	enter(p);
	p->spec->engine->observe(p->state, &p->problem, e->proposed, &c->result);
	leave(p);
	return MQ_OK;
}

/* "120 plans, 90 feasible, best 0.3 s, 80 plans and 12 s left" */
static void budget_text(const struct loop *loop, double best, double left_s, char *text, size_t size)
{
	const struct mq_search *s = loop->search;
	uint64_t left = 0;
	int n = snprintf(text, size, "%" PRIu64 " plans, %" PRIu64 " feasible, best %.4g s", loop->outcome->proposals,
			 loop->outcome->feasible, best);

	for (uint32_t i = 0; i < s->n_engines; i++)
		if (!loop->player[i].done && s->evals != UINT64_MAX)
			left += s->evals - loop->player[i].index;
	if (s->evals != UINT64_MAX)
		n += snprintf(text + n, size - (size_t)n, ", %" PRIu64 " plans", left);
	if (isfinite(s->seconds))
		n += snprintf(text + n, size - (size_t)n, "%s %.0f s", s->evals != UINT64_MAX ? " and" : ",",
			      fmax(left_s, 0));
	if (s->evals != UINT64_MAX || isfinite(s->seconds))
		snprintf(text + n, size - (size_t)n, " left");
}

static void show(struct loop *loop)
{
	const struct mq_search *s = loop->search;
	double done = 0, best = NAN, left_s = s->seconds;
	char text[160];

	if (!s->progress)
		return;
	for (uint32_t i = 0; i < s->n_engines; i++) {
		const struct player *p = &loop->player[i];
		double part = p->done ? 1 : 0;

		if (!p->done && s->evals != UINT64_MAX)
			part = (double)p->index / (double)s->evals;
		if (!p->done && isfinite(s->seconds))
			part = fmax(part, p->used_s / share_s(loop));
		done += part / s->n_engines;
		best = fmin(best, p->best);
		left_s -= p->used_s;
	}
	budget_text(loop, best, left_s, text, sizeof(text));
	s->progress(s->progress_context, done, text);
}

static enum mq_status play_round(struct loop *loop, bool *more, struct mq_err *err)
{
	loop->entry = NULL;
	loop->n_entries = loop->entry_room = 0;
	for (uint32_t i = 0; i < loop->search->n_engines; i++)
		if (!loop->player[i].done)
			collect(loop, &loop->player[i]);
	for (uint32_t i = 0; i < loop->n_entries; i++) {
		struct entry *e = &loop->entry[i];

		if (!e->late && !settle(loop, e) && !stopped(loop))
			MQ_TRY(judge(loop, i, err));
		loop->gap |= stopped(loop) && !e->judged;
		if (loop->gap && !e->judged)
			continue;
		e->player->deaf |= e->late;
		if (!e->late)
			MQ_TRY(settle_entry(loop, e, err));
	}
	show(loop);
	*more = loop->n_entries > 0 && !stopped(loop);
	return MQ_OK;
}

/* ---- begin and end ------------------------------------------------------------------------------ */

static enum mq_status start_player(struct loop *loop, struct player *p, struct mq_err *err)
{
	const struct mq_search *s = loop->search;
	const struct mq_engine *engine = p->spec->engine;
	const struct mq_search_part *part = engine->parts ? s->part : NULL;
	struct mq_rng root;
	char what[64];

	p->state = mq_arena_alloc(loop->arena, engine->state_size);
	p->best = p->report->best_step_time_s = NAN;
	p->report->engine = p->spec->label;
	/* The same engine always has the same random numbers, whoever else takes part. */
	mq_rng_seed(&root, s->seed);
	p->rng = mq_rng_split(&root, mq_hash(MQ_HASH_INIT, p->spec->label, strlen(p->spec->label)));
	mq_costs_count(&p->costs, s, part, looked_at, p->loop);
	p->problem = (struct mq_problem){
		.q = part ? &part->q : s->q,
		.times = part ? part->times : 0,
		.costs = &p->costs.costs,
		.limits = s->limits,
		.start = s->start,
		.objective = s->objective,
		.rng = &p->rng,
		.arena = loop->arena,
		.evals = s->evals,
		.seconds = s->seconds / s->n_engines,
		.tick = tick,
		.left_s = left_s,
		.tick_context = p,
		.host = p,
		.say = say,
		.bound = s->proof ? take_bound : NULL,
		.note = note,
	};
	snprintf(what, sizeof(what), "engine '%s'", engine->name);
	mq_opt_defaults(engine->opts, p->state);
	MQ_TRY(mq_opt_parse(engine->opts, p->state, what, p->spec->options, loop->arena, err));
	enter(p);
	enum mq_status status = mq_limits_refuse(s->limits, engine->name, engine->lacks, err);
	if (status == MQ_OK)
		status = mq_space_refuse(s->q, engine->name, engine->lacks, err);
	if (status == MQ_OK)
		status = engine->start(p->state, &p->problem, err);
	leave(p);
	if (status != MQ_OK && stopped(p->loop))
		status = MQ_DONE;
	if (status == MQ_OK) {
		p->started = true;
		return MQ_OK;
	}
	if (status == MQ_DONE) {
		p->done = true;
		return MQ_OK;
	}
	if (p->spec->may_refuse) {
		stop_player(p, err);
		return MQ_OK;
	}
	return strncmp(err->text, "engine '", 8) ? mq_wrap(err, "engine '%s'", engine->name) : status;
}

static enum mq_status play(struct loop *loop, struct mq_err *err)
{
	const struct mq_search *s = loop->search;
	bool more = true;

	MQ_TRY(mq_limits_possible(s->limits, s->q, err));
	for (uint32_t i = 0; i < s->n_engines; i++)
		MQ_TRY(start_player(loop, &loop->player[i], err));
	while (more) {
		struct mq_arena_mark mark = mq_arena_mark(&loop->round);

		MQ_TRY(play_round(loop, &more, err));
		mq_arena_rewind(&loop->round, mark);
	}
	return MQ_OK;
}

static enum mq_status open_files(struct loop *loop, struct mq_err *err)
{
	const struct mq_search *s = loop->search;

	MQ_TRY(mq_cache_open(&loop->cache, s->dir, s->context, loop->arena, err));
	loop->rows.lenient = isfinite(s->seconds);
	loop->notes.path = s->dir ? mq_arena_printf(loop->arena, "%s/learning.csv", s->dir) : NULL;
	if (!s->dir)
		return MQ_OK;
	MQ_TRY(mq_rows_open(&loop->rows, s->dir, loop->arena, err));
	/* Files that the command names hold something else now, or the program does. */
	if (loop->rows.at < loop->rows.old_size && loop->cache.n_others && !loop->cache.map.n)
		return mq_bad(err,
			      "%s: its plans were judged with another model, platform, calibration, "
			      "software or program than are there now; choose another -o, or remove the folder",
			      s->dir);
	return MQ_OK;
}

enum mq_status mq_search_run(const struct mq_search *s, struct mq_arena *arena, struct mq_search_outcome *outcome,
			     struct mq_err *err)
{
	struct loop loop = { .search = s, .arena = arena, .outcome = outcome };
	struct mq_err later = MQ_ERR_INIT;

	mq_assert(s->n_engines > 0 && s->top > 0);
	*outcome = (struct mq_search_outcome){
		.objective = s->objective,
		.n_reports = s->n_engines,
		.report = mq_arena_array(arena, s->n_engines, struct mq_engine_report),
	};
	mq_ranking_init(&loop.ranking, s, arena);
	loop.player = mq_arena_array(arena, s->n_engines, struct player);
	for (uint32_t i = 0; i < s->n_engines; i++) {
		loop.player[i].spec = &s->engine[i];
		loop.player[i].report = &outcome->report[i];
		loop.player[i].loop = &loop;
	}
	enum mq_status status = open_files(&loop, err);
	if (status == MQ_OK)
		status = play(&loop, err);
	for (uint32_t i = 0; i < s->n_engines; i++) {
		struct player *p = &loop.player[i];

		if (p->started)
			p->spec->engine->stop(p->state, &p->problem);
		p->report->screens = p->costs.screens;
	}
	mq_ranking_finish(&loop.ranking, outcome);
	if (s->proof && s->costs->least_s)
		outcome->least_s = s->costs->least_s(s->costs->context);
	enum mq_status rows = status == MQ_OK ? mq_rows_close(&loop.rows, &later) : MQ_OK;
	if (loop.rows.file)
		fclose(loop.rows.file);
	enum mq_status cache = mq_cache_close(&loop.cache, rows == MQ_OK ? &later : NULL);
	enum mq_status notes = mq_notes_close(&loop.notes, rows == MQ_OK && cache == MQ_OK ? &later : NULL);
	mq_arena_fini(&loop.round);
	if (status == MQ_OK && (rows != MQ_OK || cache != MQ_OK || notes != MQ_OK))
		return *err = later, later.status;
	return status;
}
