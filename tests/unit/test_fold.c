/*
 * test_fold.c - views of plans: a few whose representatives, weights and members are worked out by hand, and a property
 * of random ones: folded and whole take the same time, to 1e-9, wherever folding is accepted and the run keeps what
 * it promises.
 *
 * Each platform draws its own plans from a seed that stands beside it, so a failure is met again by running that
 * test alone.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "maquette/rng.h"
#include "folding/fold.h"
#include "executors/simgrid/steps.h"
#include "judge/judge.h"
#include "hardware/platform/generate.h"
#include "lowered.h"
#include "shipped.h"
#include "simulated.h"
#include "libraries.h"
#include "sanitized.h"

/* ---- by hand ------------------------------------------------------------------------------------------ */

static const char *const SMALL = "gpt:layers=2,hidden=64,heads=4,seq=16,vocab=64";

static struct mq_folding *fold(struct lowered *w, const struct mq_shape *shape, const struct mq_question *q,
			       bool keep_tasks)
{
	const struct mq_fold_request rq = { .lower = { .q = q, .plan = &w->plan },
					    .fold = true,
					    .keep_tasks = keep_tasks };

	if (mq_plan_from_shape(shape, w->model, w->cluster, &w->arena, &w->plan, &w->err) != MQ_OK)
		fail_msg("%s", w->err.text);
	return mq_folding_begin(&rq, &w->arena, &w->low);
}

static struct mq_view next(struct lowered *w, struct mq_folding *folding)
{
	struct mq_view view;

	assert_int_equal(mq_folding_next(folding, &view, &w->err), MQ_OK);
	return view;
}

static double analytic_s(struct lowered *w, const struct mq_view *view, struct mq_timeline *timeline)
{
	const struct mq_exec_request rq = {
		.view = *view, .cluster = w->cluster, .calib = w->calib, .timeout_s = INFINITY
	};
	enum mq_verdict verdict;

	assert_int_equal(mq_execute_analytic(&rq, &w->arena, timeline, &verdict, &w->err), MQ_OK);
	assert_int_equal(verdict, MQ_VERDICT_OK);
	return timeline->step_time_s;
}

/* Eight equal replicas: one of them, then every fourth, every second, all; and no more. */
static void views_grow(void **state)
{
	struct lowered w;

	lowered_open(&w, SMALL, 8, 8);
	const struct mq_question q = lowered_question(&w);
	struct mq_folding *folding = fold(&w, &(struct mq_shape){ .dp = 8, .micro_batches = 1 }, &q, true);
	uint32_t tasks = 0;

	for (uint32_t size = 8; size > 1; size /= 2) {
		struct mq_view v = next(&w, folding);

		assert_int_equal(v.fold->alike[0]->n, size);
		assert_int_equal(v.schedule->n_devices, 8 / size);
		assert_true(v.schedule->partial && !v.rounds);
		for (uint32_t i = 0; i < 8 / size; i++) {
			assert_int_equal(v.schedule->device[i], i * size);
			assert_true(v.fold->weight[i] == size);
		}
		assert_int_equal(v.schedule->n_comms, 1); /* all eight, of whom some have tasks */
		assert_int_equal(v.schedule->comm[0].n, 8 / size);
		assert_int_equal(v.fold->comm[0].n, 8);
		for (uint32_t i = 0; i < 8; i++)
			assert_int_equal(v.fold->comm[0].rank[i], i);
		tasks = tasks ? tasks : v.schedule->n_tasks;
		assert_int_equal(v.schedule->n_tasks, 8 / size * tasks);
	}
	struct mq_view whole = next(&w, folding);
	assert_true(!whole.fold && !whole.schedule->partial);
	assert_int_equal(whole.schedule->n_tasks, 8 * tasks);
	assert_null(next(&w, folding).schedule);
	mq_folding_end(folding);
	lowered_close(&w);
}

/* Eight equal replicas of which a run said that they alternate: two stand for four each, then three for two, four and
 * two, and the step is that of all. */
static void views_keep_apart(void **state)
{
	static const double apart_s[] = { 1, 2, 1, 2, 1, 2, 1, 2 }, others_s[] = { 1, NAN, 1, NAN, 3, NAN, 3, NAN };
	struct mq_timeline timeline;
	struct lowered w;

	lowered_open(&w, SMALL, 8, 8);
	const struct mq_question q = lowered_question(&w);
	struct mq_folding *folding = fold(&w, &(struct mq_shape){ .dp = 8, .micro_batches = 1 }, &q, true);
	struct mq_view v = next(&w, folding);
	double step_s = analytic_s(&w, &v, &timeline);

	mq_folding_apart(folding, apart_s);
	v = next(&w, folding);
	assert_int_equal(v.schedule->n_devices, 2);
	for (uint32_t i = 0; i < 2; i++)
		assert_true(v.schedule->device[i] == i && v.fold->weight[i] == 4);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(v.fold->alike[i]->position[0], i % 2);
	assert_within(analytic_s(&w, &v, &timeline), step_s, 1e-12 * step_s);
	mq_folding_apart(folding, others_s); /* those of the first half from those of the second, too */
	v = next(&w, folding);
	assert_int_equal(v.schedule->n_devices, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(v.schedule->device[i] == i * i && v.fold->weight[i] == 2 + 2 * (i == 1));
	assert_within(analytic_s(&w, &v, &timeline), step_s, 1e-12 * step_s);
	mq_folding_end(folding);
	lowered_close(&w);
}

/* Four replicas of two ranks. One rank that is unlike the others makes its neighbour one of a kind too. */
static void neighbours_of_unlike(void **state)
{
	static const double apart_s[] = { 1, 2, 1, 1, 1, 1, 1, 1 };
	struct mq_timeline timeline;
	struct lowered w;

	lowered_open(&w, SMALL, 8, 8);
	const struct mq_question q = lowered_question(&w);
	struct mq_folding *folding = fold(&w, &(struct mq_shape){ .dp = 4, .tp = 2, .micro_batches = 1 }, &q, true);
	struct mq_view v = next(&w, folding);
	double step_s = analytic_s(&w, &v, &timeline);

	mq_folding_apart(folding, apart_s);
	v = next(&w, folding);
	assert_int_equal(v.schedule->n_devices, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(v.schedule->device[i] == i && v.fold->weight[i] == (i < 2 ? 1 : 3));
	assert_within(analytic_s(&w, &v, &timeline), step_s, 1e-12 * step_s);
	mq_folding_end(folding);
	lowered_close(&w);
}

/* Replicas with one and three quarters of the samples differ; the two ranks of each, which split its products, do
 * not, nor do replicas with as many. */
static void uneven_replicas(void **state)
{
	static const double share[] = { 1, 3, 1, 3 };
	struct lowered w;

	lowered_open(&w, SMALL, 8, 8);
	const struct mq_question q = lowered_question(&w);
	struct mq_shape shape = { .dp = 4, .tp = 2, .micro_batches = 1, .share = share };
	struct mq_folding *folding = fold(&w, &shape, &q, false);
	struct mq_view v = next(&w, folding);
	assert_int_equal(v.schedule->n_devices, 2);
	for (uint32_t i = 0; i < 2; i++)
		assert_true(v.schedule->device[i] == 2 * i && v.fold->weight[i] == 4);
	mq_folding_end(folding);
	shape.tp = 1;
	folding = fold(&w, &shape, &q, false);
	v = next(&w, folding);
	assert_int_equal(v.schedule->n_devices, 2);
	for (uint32_t i = 0; i < 2; i++)
		assert_true(v.schedule->device[i] == i && v.fold->weight[i] == 2);
	mq_folding_end(folding);
	lowered_close(&w);
}

/* Tensor parallelism over all four devices: their collectives meet nobody, so a pass is one task of fixed length
 * between the first and the last thing that others see. It takes as long as its parts, and its links carry as much as
 * when all four are run. */
static void fused_passes(void **state)
{
	struct mq_timeline timeline[3];
	struct mq_view v[3];
	double step_s[3];
	struct lowered w;

	lowered_open(&w, SMALL, 4, 8);
	const struct mq_question q = lowered_question(&w);
	const struct mq_shape shape = { .tp = 4, .micro_batches = 2 };
	for (int i = 0; i < 3; i++) {
		struct mq_folding *folding = fold(&w, &shape, &q, i > 0);

		do
			v[i] = next(&w, folding);
		while (i == 2 && v[i].fold);
		mq_folding_end(folding);
		step_s[i] = analytic_s(&w, &v[i], &timeline[i]);
	}
	assert_true(v[0].fold->fused && !v[1].fold->fused && !v[2].fold);
	assert_int_equal(4 * v[1].schedule->n_tasks, v[2].schedule->n_tasks);
	assert_true(v[0].schedule->n_tasks < v[1].schedule->n_tasks);
	assert_within(step_s[0], step_s[2], 1e-12 * step_s[2]);
	assert_within(step_s[1], step_s[2], 1e-12 * step_s[2]);
	for (uint32_t l = 0; l < w.cluster->n_links; l++)
		assert_within(timeline[1].link_busy_B[l], timeline[2].link_busy_B[l],
			      1e-12 * timeline[2].link_busy_B[l]);
	lowered_close(&w);
}

/* Nobody asked for folding: the whole schedule, and where it is too long the words say how it would be shorter. */
static void not_asked_for(void **state)
{
	struct mq_folding *folding;
	struct lowered w;

	lowered_open(&w, SMALL, 8, 8);
	const struct mq_question q = lowered_question(&w);
	assert_non_null(lowered_shape(&w, &(struct mq_shape){ .dp = 8, .micro_batches = 1 }));
	double tasks = w.low.schedule->n_tasks;
	struct mq_fold_request rq = { .lower = { .q = &q, .plan = &w.plan, .max_tasks = tasks - 1 } };
	for (int asked = 0; asked < 2; asked++) {
		rq.fold = asked;
		folding = mq_folding_begin(&rq, &w.arena, &w.low);
		struct mq_view v = next(&w, folding);
		assert_int_equal(w.low.verdict, asked ? MQ_VERDICT_OK : MQ_VERDICT_REFUSED);
		assert_true(asked ? v.fold->alike[0]->n == 8 : !v.schedule);
		if (!asked)
			assert_non_null(strstr(w.low.message, "let identical ranks be folded"));
		mq_folding_end(folding);
	}
	lowered_close(&w);
}

/* ---- random plans --------------------------------------------------------------------------------------- */

struct answer {
	struct mq_lowered low;
	struct mq_view view;
	struct mq_timeline timeline;
	enum mq_verdict verdict;
};

static void complain(struct simulated *s, const struct mq_err *err)
{
	s->failures++;
	fprintf(stderr, "%s\n", err->text);
}

/* Plans that fold exactly, on each platform with each model, of at most MOST times as many draws; ALL_KINDS: with a
 * stage without layers and with unequal shares among them, a quarter of those tried timed by a few micro-batches. */
enum { SHAPES = SANITIZED ? 3 : 10, MOST = 4, LEAST_PERCENT = SANITIZED ? 50 : 70, ALL_KINDS = !SANITIZED };

enum { MANY_STEPS = 100 };
static bool interference;   /* of the shape at hand */
static double overlap_comm; /* of every device of the platform at hand */
static bool unlike;         /* ranks of its machines differ, machines do not: those of one may stand for those of all */
static uint32_t repeated;   /* plans where they do */
static uint32_t seed;       /* of its plans */

/* The first view of a plan. */
static enum mq_status first_view(const struct mq_fold_request *request, struct mq_arena *arena, struct answer *out,
				 struct mq_err *err)
{
	struct mq_folding *folding = mq_folding_begin(request, arena, &out->low);
	enum mq_status status = mq_folding_next(folding, &out->view, err);

	mq_folding_end(folding);
	return status;
}

static bool run(struct simulated *s, const struct mq_fold_request *request, bool fold, struct mq_arena *arena,
		struct answer *out)
{
	struct mq_fold_request rq = *request;
	struct mq_err err = MQ_ERR_INIT;

	rq.fold = rq.lower.alike = fold;
	if (first_view(&rq, arena, out, &err)) {
		complain(s, &err);
		return false;
	}
	if (out->low.verdict != MQ_VERDICT_OK)
		return false;
	if (mq_schedule_check(out->view.schedule, NULL, &err)) {
		complain(s, &err);
		return false;
	}
	struct mq_exec_request ex = { .view = out->view,
				      .cluster = s->cluster,
				      .calib = s->calib,
				      .interference = interference,
				      .timeout_s = INFINITY };
	struct mq_sim_steps steps;

	if (mq_execute_simgrid_counted(&ex, arena, &out->timeline, &out->verdict, &steps, &err)) {
		complain(s, &err);
		return false;
	}
	/* What it has to do is known before. */
	if (steps.expected > MANY_STEPS && !out->timeline.inexact)
		EXPECT(s, steps.taken < 2 * steps.expected && steps.expected < 2 * steps.taken);
	return out->verdict == MQ_VERDICT_OK;
}

/* The embedding alone on the first stage, or the head on the last, or both; layers: 8. */
static void bare_ends(struct mq_rng *rng, struct mq_shape *shape, struct mq_arena *arena)
{
	uint32_t n = shape->pp * (shape->virtual ? shape->virtual : 1), left = 8;
	uint32_t *layers = mq_arena_array(arena, n, uint32_t);
	uint32_t first = mq_rng_below(rng, 2), last = n - (first ? mq_rng_below(rng, 2) : 1);

	for (uint32_t s = first; s < last; s++) {
		layers[s] = left / (last - s);
		left -= layers[s];
	}
	shape->stage_layers = layers;
}

static struct mq_shape random_shape(struct mq_rng *rng, struct mq_arena *arena)
{
	static const uint32_t degree[] = { 1, 2, 4 };
	static const uint8_t sync[] = { MQ_SYNC_ALLREDUCE, MQ_SYNC_ZERO1, MQ_SYNC_ZERO2, MQ_SYNC_ZERO3 };
	struct mq_shape shape = {
		.dp = degree[mq_rng_below(rng, 3)],
		.tp = degree[mq_rng_below(rng, 3)],
		.pp = degree[mq_rng_below(rng, 3)],
		.micro_batches = 4,
		.pipeline = (uint8_t)mq_rng_below(rng, MQ_N_PIPELINES),
		.sync = sync[mq_rng_below(rng, 4)],
		.recompute = (uint8_t)mq_rng_below(rng, MQ_N_RECOMPUTES),
		.sequence_parallel = mq_rng_below(rng, 2),
		.vocab_parallel = mq_rng_below(rng, 2),
	};

	shape.cp = mq_rng_below(rng, 3) ? 1 : 2;
	shape.ep = mq_rng_below(rng, 2) ? 1 : shape.dp;
	if ((shape.pipeline == MQ_PIPE_INTERLEAVED && shape.pp > 1) || mq_pipeline_is_v(shape.pipeline))
		shape.virtual = 2;
	if (shape.pp > 2 && mq_rng_below(rng, 2))
		bare_ends(rng, &shape, arena);
	if (shape.dp > 1 && shape.ep == 1 && mq_rng_below(rng, 3) == 0) {
		double *share = mq_arena_array(arena, shape.dp, double);

		for (uint32_t i = 0; i < shape.dp; i++)
			share[i] = 1 + i % 2 * 2;
		shape.share = share;
	}
	return shape;
}

static bool sharded(uint8_t sync)
{
	return sync == MQ_SYNC_ZERO1 || sync == MQ_SYNC_ZERO2;
}

struct tally {
	uint32_t tried, lowered, folded, exact;
	uint32_t many, few;    /* of many micro-batches; of them timed by a few */
	uint32_t bare, uneven; /* of the exact ones, with a stage without layers, with unequal shares */
};

/* Of a step. SimGrid takes events closer than 1e-9 s (surf/precision) as one, which chains of tasks add up. */
#define SAME 5e-9

/* Folded with no task fused: the same again, and all bytes of all links. */
static void unfused(struct simulated *s, const struct mq_fold_request *request, const struct answer *whole)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_fold_request rq = *request;
	struct answer c;

	rq.keep_tasks = true;
	EXPECT(s, run(s, &rq, true, &arena, &c) && c.view.fold && !c.timeline.inexact);
	EXPECT(s, !c.view.fold->fused);
	EXPECT_NEAR(s, c.timeline.step_time_s, whole->timeline.step_time_s, SAME);
	for (uint32_t l = 0; l < s->cluster->n_links; l++)
		EXPECT_NEAR(s, c.timeline.link_busy_B[l], whole->timeline.link_busy_B[l], 1e-9);
	mq_arena_fini(&arena);
}

/* What a report says of the step does not depend on what is fused. Between stages, or chunks of one, a message may be
 * under way beside a collective, and paths over different devices, or over replicas of equal shares, may be equally
 * long: which class of link such a moment is booked on, and whose device is named, are left open there. */
static void explained(struct simulated *s, const struct mq_fold_request *request, bool stages, bool ties)
{
	double link_s[2] = { 0, 0 };
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_judged out[2];

	for (int keep = 0; keep < 2; keep++) {
		struct mq_judge judge = { .q = request->lower.q,
					  .execute = mq_execute_simgrid,
					  .fold = true,
					  .interference = interference,
					  .keep_tasks = keep,
					  .timeout_s = INFINITY };

		if (mq_judge_full(&judge, request->lower.plan, &arena, &out[keep], &err))
			complain(s, &err);
	}
	const struct mq_result *a = &out[0].result, *b = &out[1].result;
	EXPECT_NEAR(s, a->step_time_s, b->step_time_s, 1e-9);
	EXPECT_NEAR(s, a->peak_memory_B, b->peak_memory_B, 0);
	EXPECT(s, fabs(a->compute_s - b->compute_s) <= 1e-9 * b->step_time_s);
	EXPECT(s, fabs(a->exposed_comm_s - b->exposed_comm_s) <= 1e-9 * b->step_time_s);
	EXPECT(s, fabs(a->bubble_s - b->bubble_s) <= 1e-9 * b->step_time_s);
	for (int i = 0; i < MQ_N_LINK_CLASSES; i++) {
		EXPECT(s, stages || fabs(a->link_s[i] - b->link_s[i]) <= 1e-9 * b->step_time_s);
		link_s[0] += a->link_s[i];
		link_s[1] += b->link_s[i];
	}
	EXPECT(s, fabs(link_s[0] - link_s[1]) <= 1e-8 * b->step_time_s); /* nine digits of each are left */
	EXPECT(s, !strncmp(a->bottleneck, b->bottleneck, ties ? strcspn(b->bottleneck, ";") : sizeof(b->bottleneck)));
	mq_arena_fini(&arena);
}

/* The first view did not keep its promise: one that follows takes as long as the whole schedule. */
static void later_views(struct simulated *s, const struct mq_fold_request *request, const struct answer *whole)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_judge judge = { .q = request->lower.q,
				  .execute = mq_execute_simgrid,
				  .fold = true,
				  .interference = interference,
				  .timeout_s = INFINITY };
	struct mq_judged out;

	if (mq_judge_full(&judge, request->lower.plan, &arena, &out, &err))
		complain(s, &err);
	EXPECT_NEAR(s, out.timeline.step_time_s, whole->timeline.step_time_s, SAME);
	mq_arena_fini(&arena);
}

/* The plan with two ranks in each other's place, of two machines where there are as many. */
static void exchange(struct mq_plan *plan, struct mq_arena *arena)
{
	for (uint32_t i = 0; i < plan->n_configs; i++) {
		struct mq_config *c = &plan->config[i];
		uint32_t *device = mq_arena_array(arena, c->n_devices, uint32_t);

		for (uint32_t d = 0; d < c->n_devices; d++)
			device[d] = c->device[d] == 1 ? 10 : c->device[d] == 10 ? 1 : c->device[d];
		c->device = device;
	}
}

/* A run that keeps tasks and leaves out micro-batches: the tasks before these, and the bytes of all. */
static void first_tasks(struct simulated *s, const struct mq_judged *few, const struct mq_judged *all)
{
	const struct mq_timeline *a = &few->timeline, *b = &all->timeline;
	uint32_t first = few->view.steady ? few->view.steady->period[0].first : a->n_tasks;

	EXPECT_NEAR(s, a->step_time_s, b->step_time_s, SAME * b->step_time_s);
	EXPECT(s, few->view.steady ? a->n_tasks < b->n_tasks : a->n_tasks == b->n_tasks);
	for (uint32_t i = 0; i < first && i < b->n_tasks; i++) {
		const struct mq_task *x = &few->view.schedule->task[i], *y = &all->view.schedule->task[i];

		EXPECT(s, x->device == y->device && x->op == y->op && x->micro_batch == y->micro_batch);
		EXPECT_NEAR(s, a->start_s[i], b->start_s[i], SAME * b->start_s[i]);
		EXPECT_NEAR(s, a->finish_s[i], b->finish_s[i], SAME * b->finish_s[i]);
	}
	EXPECT(s, a->n_links == b->n_links);
	for (uint32_t l = 0; l < a->n_links && l < b->n_links; l++)
		EXPECT_NEAR(s, a->link_busy_B[l], b->link_busy_B[l], SAME * b->link_busy_B[l]);
}

/* A plan of many micro-batches, all of them timed and a few. */
static void left_out(struct simulated *s, const struct mq_question *question, const struct mq_plan *plan,
		     mq_execute_fn *execute, struct tally *tally)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_train train = *question->train;
	struct mq_question q = *question;
	struct mq_plan many = *plan;
	struct mq_judge judge = { .q = &q,
				  .execute = execute,
				  .fold = true,
				  .interference = interference,
				  .keep_tasks = true,
				  .timeout_s = INFINITY };
	struct mq_judged all, few;
	struct mq_err err = MQ_ERR_INIT;

	many.micro_batches = 48 + 4 * (tally->tried * 13 % 64);
	train.batch = 4 * many.micro_batches;
	q.train = &train;
	if (mq_judge_full(&judge, &many, &arena, &all, &err)) {
		complain(s, &err);
	} else if (all.result.verdict == MQ_VERDICT_OK) {
		const struct mq_result *a = &few.result, *b = &all.result;

		judge.keep_tasks = false;
		if (mq_judge_full(&judge, &many, &arena, &few, &err))
			complain(s, &err);
		EXPECT(s, a->verdict == MQ_VERDICT_OK);
		EXPECT_NEAR(s, a->step_time_s, b->step_time_s, SAME * b->step_time_s);
		EXPECT_NEAR(s, a->peak_memory_B, b->peak_memory_B, 0);
		EXPECT(s, fabs(a->compute_s - b->compute_s) <= SAME * b->step_time_s);
		EXPECT(s, fabs(a->exposed_comm_s - b->exposed_comm_s) <= SAME * b->step_time_s);
		tally->many++;
		tally->few += few.view.steady != NULL;
		judge.keep_tasks = true;
		judge.first_tasks = 1;
		if (mq_judge_full(&judge, &many, &arena, &few, &err))
			complain(s, &err);
		else
			first_tasks(s, &few, &all);
	}
	mq_arena_fini(&arena);
}

/* One shape, folded and whole. */
static void compare(struct simulated *s, const struct mq_model *model, const struct mq_train *train, struct mq_rng *rng,
		    struct tally *tally)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_shape shape = random_shape(rng, &arena);
	struct mq_err err = MQ_ERR_INIT;
	struct mq_plan plan;
	const struct mq_question q = { .model = model, .cluster = s->cluster, .calib = s->calib, .train = train };
	const struct mq_fold_request rq = { .lower = { .q = &q, .plan = &plan } };
	struct answer a = { 0 }, b;
	bool overlap = mq_rng_below(rng, 2);

	interference = mq_rng_below(rng, 2);
	tally->tried++;
	if (mq_plan_from_shape(&shape, model, s->cluster, &arena, &plan, &err) == MQ_OK) {
		if (tally->tried % 7 == 0 && mq_plan_degrees(&plan).n_devices > 10)
			exchange(&plan, &arena);
		plan.explicit = MQ_EXPLICIT_ALL;
		plan.overlap_grads = overlap;
		plan.overlap_param_gather = tally->tried % 2;
		plan.broadcast_params = !plan.overlap_param_gather && sharded(shape.sync);
		/* refused where there is nothing to overlap: never where there is */
		plan.overlap_tp = shape.tp > 1 && tally->tried % 3 == 0;
		plan.overlap_experts = shape.ep > 1 && tally->tried % 2 == 0 &&
				       (shape.pp == 1 ? shape.pipeline == MQ_PIPE_1F1B : shape.virtual > 1);
		int before = s->failures;
		if (tally->tried % 3 == 0)
			left_out(s, &q, &plan, tally->tried % 2 ? mq_execute_analytic : mq_execute_simgrid, tally);
		if (run(s, &rq, true, &arena, &a)) {
			tally->lowered++;
			tally->folded += a.view.fold != NULL;
		}
		if (a.view.fold && a.timeline.inexact && run(s, &rq, false, &arena, &b))
			later_views(s, &rq, &b);
		else if (a.view.fold && run(s, &rq, false, &arena, &b)) {
			tally->exact++;
			tally->bare += shape.stage_layers != NULL;
			tally->uneven += shape.share != NULL;
			for (uint32_t p = 1; p < a.view.fold->n_positions; p++)
				if (a.view.fold->alike[p] == a.view.fold->alike[0] &&
				    a.view.fold->alike[p - 1] != a.view.fold->alike[0]) {
					repeated++;
					break;
				}
			EXPECT(s, a.view.schedule->n_tasks < b.view.schedule->n_tasks);
			EXPECT_NEAR(s, a.timeline.step_time_s, b.timeline.step_time_s, SAME);
			for (uint32_t l = 0; l < s->cluster->n_links; l++)
				if (!a.view.fold->fused)
					EXPECT_NEAR(s, a.timeline.link_busy_B[l], b.timeline.link_busy_B[l], 1e-9);
			unfused(s, &rq, &b);
			bool chunks = shape.pp > 1 || shape.virtual > 1;
			explained(s, &rq, chunks, chunks || shape.share);
		}
		if (s->failures > before)
			fprintf(stderr, "%s: %s, overlap: grads %d params %d tp %d experts %d, interference %d\n",
				model->name, mq_plan_describe(&plan, s->cluster, &arena), plan.overlap_grads,
				plan.overlap_param_gather, plan.overlap_tp, plan.overlap_experts, interference);
	}
	mq_arena_fini(&arena);
}

/* Until there are enough. */
static void compare_model(struct simulated *s, const char *spec, struct mq_rng *rng)
{
	struct mq_train train = { .batch = 64, .dtype = MQ_BF16, .grad_dtype = MQ_FP32 };
	struct mq_model_request mr = { .spec = spec, .train = &train };
	struct mq_err err = MQ_ERR_INIT;
	struct tally tally = { 0 };
	struct mq_model *model;
	bool enough = false;

	if (mq_model_load(&mr, &s->arena, &model, &err)) {
		complain(s, &err);
		return;
	}
	while (!enough && tally.tried < MOST * SHAPES) {
		compare(s, model, &train, rng, &tally);
		enough = tally.exact >= SHAPES && (!ALL_KINDS || (tally.bare && tally.uneven));
	}
	fprintf(stderr,
		"seed %u: of %u plans of %u %u folded, %u of them exactly; %u with a stage without layers, %u "
		"with unequal shares; %u of %u timed by a few micro-batches\n",
		seed, tally.lowered, tally.tried, tally.folded, tally.exact, tally.bare, tally.uneven, tally.few,
		tally.many);
	EXPECT(s, !ALL_KINDS || 4 * tally.few >= tally.many);
	EXPECT(s, enough);
	EXPECT(s, tally.exact * 100 >= tally.lowered * LEAST_PERCENT);
}

static void compare_all(struct simulated *s)
{
	struct mq_rng rng;

	mq_rng_seed(&rng, seed);
	compare_model(s, "gpt:layers=8,hidden=1024,heads=16,seq=512,vocab=8192", &rng);
	compare_model(s, "moe:layers=8,hidden=1024,heads=16,seq=512,vocab=8192,experts=8", &rng);
	EXPECT(s, !unlike || repeated);
}

static void body(void *data)
{
	struct simulated *s = data;

	mq_conduct_bind(s->cluster);
	s->body(s);
	s->finished = true;
}

static void child(const struct mq_platform_spec *spec)
{
	struct simulated s = { .body = compare_all };
	struct mq_err err = MQ_ERR_INIT;

	alarm(240); /* whoever waits for this process does so without a limit */
	mq_platform_start("test");
	s.calib = bare_calib(&s.arena);
	if (mq_calib_load_dir(s.calib, "platforms/calib", &err) ||
	    mq_platform_build(spec, s.calib, &s.arena, &s.cluster, &err) || mq_calib_bind(s.calib, s.cluster, &err)) {
		fprintf(stderr, "%s\n", err.text);
		_exit(99);
	}
	for (uint32_t i = 0; i < s.calib->n_devices; i++)
		s.calib->device[i].overlap_comm = overlap_comm;
	mq_conduct(s.cluster, body, &s);
	_exit(s.failures || !s.finished ? 1 : 0);
}

/* On a generated platform: KEY=VALUE,... */
static void run_on(const char *options, uint32_t its_seed)
{
	int status = -1;
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_platform_spec spec;
	struct mq_err err = MQ_ERR_INIT;

	mq_platform_spec_init(&spec);
	if (mq_opt_parse(mq_platform_opts, &spec, "platform", options, &arena, &err))
		fail_msg("%s", err.text);
	seed = its_seed;
	fflush(NULL);
	pid_t pid = fork();
	if (!pid)
		child(&spec);
	waitpid(pid, &status, 0);
	mq_arena_fini(&arena);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void rails(void **state)
{
	(void)state;
	run_on("gpu=A100-80GB,nodes=16,gpus=4,fabric=rail", 1);
}

static void one_switch(void **state)
{
	(void)state;
	run_on("gpu=A100-80GB,nodes=8,gpus=8,fabric=switch", 2);
}

/* Two GPUs share a port. */
static void shared_ports(void **state)
{
	(void)state;
	run_on("gpu=A100-80GB,nodes=8,gpus=8,nics=4,fabric=switch", 3);
}

/* Leaves of two machines whose trunk carries half of what their ports can. */
static void narrow_trunks(void **state)
{
	(void)state;
	run_on("gpu=A100-80GB,nodes=8,gpus=8,fabric=fat-tree,leaf=2,oversub=2", 4);
}

static void shared_ports_and_narrow_trunks(void **state)
{
	(void)state;
	run_on("gpu=A100-80GB,nodes=16,gpus=4,nics=2,fabric=fat-tree,leaf=1,oversub=2,pod=2,pod_oversub=2", 5);
}

/* GPUs on PCIe switches, one port per machine, nearer to some of them than to others: messages between
 * machines differ, and of plans that send such only the neighbours are folded. */
static void shared_lanes(void **state)
{
	(void)state;
	unlike = true;
	run_on("gpu=A40,nodes=16,gpus=4,intra=pcie,nics=1,fabric=ethernet", 6);
	unlike = false;
}

/* Stages of 8, 16 or 32 lie over NVLink domains of 12 in many ways: their halves differ. */
static void straddled_domains(void **state)
{
	(void)state;
	run_on("gpu=GB200,nodes=15,gpus=4,fabric=nvl72,domain=12", 7);
}

/* Stages have replicas on faster and on slower GPUs. */
static void mixed_types(void **state)
{
	(void)state;
	run_on("gpu=A100-80GB*3x4+H100-80GB*13x4,fabric=rail", 8);
}

/* Compute slows communication: whether it does so all the time or sets the pace at the start may depend
 * neither on what is folded nor on who met whom. */
static void slowed_on_shared_ports(void **state)
{
	(void)state;
	overlap_comm = 0.2;
	run_on("gpu=A100-80GB,nodes=8,gpus=8,nics=4,fabric=fat-tree,leaf=2,oversub=2", 9);
	overlap_comm = 0;
}

static void slowed_on_rails(void **state)
{
	(void)state;
	overlap_comm = 0.1;
	run_on("gpu=H100-80GB,nodes=16,gpus=4,fabric=rail", 10);
	overlap_comm = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(views_grow),
		cmocka_unit_test(views_keep_apart),
		cmocka_unit_test(neighbours_of_unlike),
		cmocka_unit_test(uneven_replicas),
		cmocka_unit_test(fused_passes),
		cmocka_unit_test(not_asked_for),
		cmocka_unit_test(rails),
		cmocka_unit_test(one_switch),
		cmocka_unit_test(shared_ports),
		cmocka_unit_test(narrow_trunks),
		cmocka_unit_test(shared_ports_and_narrow_trunks),
		cmocka_unit_test(shared_lanes),
		cmocka_unit_test(straddled_domains),
		cmocka_unit_test(mixed_types),
		cmocka_unit_test(slowed_on_shared_ports),
		cmocka_unit_test(slowed_on_rails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
