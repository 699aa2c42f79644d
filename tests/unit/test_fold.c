/*
 * test_fold.c - folded and whole schedules take the same time, to 1e-9, wherever folding is accepted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/rng.h"
#include "fold/fold.h"
#include "judge/judge.h"
#include "platform/generate.h"
#include "shipped.h"
#include "simulated.h"

struct lowered {
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

/* Shapes tried on each platform with each model. Sanitizers look at memory, not at seconds: a quarter is enough. */
#ifdef __SANITIZE_ADDRESS__
enum { SHAPES = 15 };
#else
enum { SHAPES = 60 };
#endif

static bool interference;      /* of the shape at hand */
static double overlap_comm;    /* of every device of the platform at hand */
static uint32_t least_percent; /* of the plans that must fold on the platform at hand */

/* The first view of a plan. */
static enum mq_status first_view(const struct mq_fold_request *request, struct mq_arena *arena, struct lowered *out,
				 struct mq_err *err)
{
	struct mq_folding *folding;
	enum mq_status status = mq_folding_begin(request, arena, &out->low, &folding, err);

	if (status == MQ_OK)
		status = mq_folding_next(folding, &out->view, err);
	mq_folding_end(folding);
	return status;
}

static bool run(struct simulated *s, const struct mq_fold_request *request, bool fold, struct mq_arena *arena,
		struct lowered *out)
{
	struct mq_fold_request rq = *request;
	struct mq_err err = MQ_ERR_INIT;

	rq.fold = fold;
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
	if (mq_execute_simgrid(&ex, arena, &out->timeline, &out->verdict, &err)) {
		complain(s, &err);
		return false;
	}
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

struct tally {
	uint32_t tried, lowered, folded, exact;
	uint32_t bare, uneven; /* of the exact ones, with a stage without layers, with unequal shares */
};

/* Folded with no task fused: the same again, and all bytes of all links. */
static void unfused(struct simulated *s, const struct mq_fold_request *request, const struct lowered *whole)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_fold_request rq = *request;
	struct lowered c;

	rq.keep_tasks = true;
	EXPECT(s, run(s, &rq, true, &arena, &c) && c.view.fold && !c.timeline.fold_inexact);
	EXPECT(s, !c.view.fold->fused);
	EXPECT_NEAR(s, c.timeline.step_time_s, whole->timeline.step_time_s, 1e-9);
	for (uint32_t l = 0; l < s->cluster->n_links; l++)
		EXPECT_NEAR(s, c.timeline.link_busy_B[l], whole->timeline.link_busy_B[l], 1e-9);
	mq_arena_fini(&arena);
}

/* What a report says of the step does not depend on what is fused. Between stages a message may be under way
 * beside a collective, and paths over different devices may be equally long: which class of link such a moment is
 * booked on, and whose device is named, are left open there. */
static void explained(struct simulated *s, const struct mq_fold_request *request, bool stages)
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
	EXPECT(s, !strncmp(a->bottleneck, b->bottleneck, stages ? strcspn(b->bottleneck, ";") : sizeof(b->bottleneck)));
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
	struct lowered a = { 0 }, b;
	bool overlap = mq_rng_below(rng, 2);

	interference = mq_rng_below(rng, 2);
	tally->tried++;
	if (mq_plan_from_shape(&shape, model, s->cluster, &arena, &plan, &err) == MQ_OK) {
		plan.says = MQ_SAYS_ALL;
		plan.overlap_grads = overlap;
		/* refused where there is nothing to overlap: never where there is */
		plan.overlap_tp = shape.tp > 1 && tally->tried % 3 == 0;
		plan.overlap_experts = shape.ep > 1 && tally->tried % 2 == 0 &&
				       (shape.pp == 1 ? shape.pipeline == MQ_PIPE_1F1B : shape.virtual > 1);
		int before = s->failures;
		if (run(s, &rq, true, &arena, &a)) {
			tally->lowered++;
			tally->folded += a.view.fold != NULL;
		}
		if (a.view.fold && !a.timeline.fold_inexact && run(s, &rq, false, &arena, &b)) {
			tally->exact++;
			tally->bare += shape.stage_layers != NULL;
			tally->uneven += shape.share != NULL;
			EXPECT(s, a.view.schedule->n_tasks < b.view.schedule->n_tasks);
			EXPECT_NEAR(s, a.timeline.step_time_s, b.timeline.step_time_s, 1e-9);
			for (uint32_t l = 0; l < s->cluster->n_links; l++)
				if (!a.view.fold->fused)
					EXPECT_NEAR(s, a.timeline.link_busy_B[l], b.timeline.link_busy_B[l], 1e-9);
			unfused(s, &rq, &b);
			explained(s, &rq, shape.pp > 1);
		}
		if (s->failures > before)
			fprintf(stderr, "%s: %s, overlap: grads %d tp %d experts %d, interference %d\n", model->name,
				mq_plan_describe(&plan, s->cluster, &arena), plan.overlap_grads, plan.overlap_tp,
				plan.overlap_experts, interference);
	}
	mq_arena_fini(&arena);
}

static void compare_all(struct simulated *s)
{
	static const char *const spec[] = {
		"gpt:layers=8,hidden=1024,heads=16,seq=512,vocab=8192",
		"moe:layers=8,hidden=1024,heads=16,seq=512,vocab=8192,experts=8",
	};
	struct mq_train train = { .batch = 64, .dtype = MQ_BF16, .grad_dtype = MQ_FP32 };
	struct mq_err err = MQ_ERR_INIT;
	struct tally tally = { 0 };
	struct mq_rng rng;

	mq_rng_seed(&rng, 5);
	for (int m = 0; m < 2; m++) {
		struct mq_model_request mr = { .spec = spec[m], .train = &train };
		struct mq_model *model;

		if (mq_model_load(&mr, &s->arena, &model, &err)) {
			complain(s, &err);
			return;
		}
		for (int i = 0; i < SHAPES; i++)
			compare(s, model, &train, &rng, &tally);
	}
	fprintf(stderr,
		"of %u plans %u folded, %u of them exactly; %u have a stage without layers, "
		"%u unequal shares\n",
		tally.lowered, tally.folded, tally.exact, tally.bare, tally.uneven);
	EXPECT(s, tally.bare * 30 >= SHAPES && tally.uneven * 30 >= SHAPES && tally.lowered > SHAPES &&
			  tally.exact * 100 >= tally.lowered * least_percent);
}

static void body(void *data)
{
	struct simulated *s = data;

	mq_conduct_bind(s->cluster);
	s->body(s);
	s->finished = true;
}

static void child(const char *path)
{
	struct simulated s = { .body = compare_all };
	struct mq_err err = MQ_ERR_INIT;

	mq_platform_start("test");
	s.calib = mq_calib_new(&s.arena);
	if (mq_calib_load_dir(s.calib, "platforms/calib", &err) || mq_platform_load(path, &s.arena, &s.cluster, &err) ||
	    mq_calib_bind(s.calib, s.cluster, &err)) {
		fprintf(stderr, "%s\n", err.text);
		_exit(99);
	}
	for (uint32_t i = 0; i < s.calib->n_devices; i++)
		s.calib->device[i].overlap_comm = overlap_comm;
	mq_conduct(s.cluster, body, &s);
	_exit(s.failures || !s.finished ? 1 : 0);
}

/* On a generated platform: KEY=VALUE,... */
static void run_on(const char *options, uint32_t percent)
{
	char path[] = "/tmp/mq-test-XXXXXX.xml";
	int status = -1, fd = mkstemps(path, 4);
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_calib *calib = shipped_calib(&arena);
	struct mq_platform_spec spec;
	struct mq_err err = MQ_ERR_INIT;

	close(fd);
	mq_platform_spec_init(&spec);
	if (mq_opt_parse(mq_platform_opts, &spec, "platform", options, &arena, &err) ||
	    mq_platform_generate(&spec, calib, path, &err))
		fail_msg("%s", err.text);
	least_percent = percent;
	fflush(NULL);
	pid_t pid = fork();
	if (!pid)
		child(path);
	waitpid(pid, &status, 0);
	unlink(path);
	mq_arena_fini(&arena);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void rails(void **state)
{
	(void)state;
	run_on("gpu=A100-80GB,nodes=16,gpus=4,fabric=rail", 85);
}

static void one_switch(void **state)
{
	(void)state;
	run_on("gpu=A100-80GB,nodes=8,gpus=8,fabric=switch", 85);
}

/* Two GPUs share a port. */
static void shared_ports(void **state)
{
	(void)state;
	run_on("gpu=A100-80GB,nodes=8,gpus=8,nics=4,fabric=switch", 85);
}

/* Leaves of two machines whose trunk carries half of what their ports can. */
static void narrow_trunks(void **state)
{
	(void)state;
	run_on("gpu=A100-80GB,nodes=8,gpus=8,fabric=fat-tree,leaf=2,oversub=2", 85);
}

static void shared_ports_and_narrow_trunks(void **state)
{
	(void)state;
	run_on("gpu=A100-80GB,nodes=8,gpus=8,nics=4,fabric=fat-tree,leaf=2,oversub=2,pod=2,pod_oversub=2", 85);
}

/* GPUs on PCIe switches, one port per machine, nearer to some of them than to others: messages between
 * machines differ, and of plans that send such only the neighbours are folded. */
static void shared_lanes(void **state)
{
	(void)state;
	run_on("gpu=A40,nodes=16,gpus=4,intra=pcie,nics=1,fabric=ethernet", 80);
}

/* Stages of 8, 16 or 32 lie over NVLink domains of 12 in many ways: their halves differ. */
static void straddled_domains(void **state)
{
	(void)state;
	run_on("gpu=GB200,nodes=15,gpus=4,fabric=nvl72,domain=12", 70);
}

/* Stages have replicas on faster and on slower GPUs. */
static void mixed_types(void **state)
{
	(void)state;
	run_on("gpu=A100-80GB*3x4+H100-80GB*13x4,fabric=rail", 70);
}

/* Compute slows communication: whether it does so all the time or sets the pace at the start may depend
 * neither on what is folded nor on who met whom. */
static void slowed_on_shared_ports(void **state)
{
	(void)state;
	overlap_comm = 0.2;
	run_on("gpu=A100-80GB,nodes=8,gpus=8,nics=4,fabric=fat-tree,leaf=2,oversub=2", 85);
	overlap_comm = 0;
}

static void slowed_on_rails(void **state)
{
	(void)state;
	overlap_comm = 0.1;
	run_on("gpu=H100-80GB,nodes=16,gpus=4,fabric=rail", 70);
	overlap_comm = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
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
