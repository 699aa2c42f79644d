/*
 * test_fold.c - folded and whole schedules take the same time, to 1e-9, wherever folding is accepted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/rng.h"
#include "executors/platform_generate.h"
#include "lower/lower.h"
#include "simulated.h"

struct lowered {
	struct mq_lowered low;
	struct mq_timeline timeline;
	enum mq_verdict verdict;
};

static void complain(struct simulated *s, const struct mq_err *err)
{
	s->failures++;
	fprintf(stderr, "%s\n", err->text);
}

static bool run(struct simulated *s, const struct mq_lower_request *request, bool fold,
		struct mq_arena *arena, struct lowered *out)
{
	struct mq_lower_request rq = *request;
	struct mq_err err = MQ_ERR_INIT;

	rq.fold = fold;
	if (mq_lower(&rq, arena, &out->low, &err)) {
		complain(s, &err);
		return false;
	}
	if (out->low.verdict != MQ_VERDICT_OK)
		return false;
	if (mq_schedule_check(out->low.schedule, NULL, &err)) {
		complain(s, &err);
		return false;
	}
	struct mq_exec_request ex = { .schedule = out->low.schedule,
				      .cluster = s->cluster,
				      .calib = s->calib,
				      .timeout_s = INFINITY };
	if (mq_execute_simgrid(&ex, arena, &out->timeline, &out->verdict, &err)) {
		complain(s, &err);
		return false;
	}
	return out->verdict == MQ_VERDICT_OK;
}

static struct mq_shape random_shape(struct mq_rng *rng)
{
	static const uint32_t degree[] = { 1, 2, 4 };
	struct mq_shape shape = {
		.dp = degree[mq_rng_below(rng, 3)],
		.tp = degree[mq_rng_below(rng, 3)],
		.pp = degree[mq_rng_below(rng, 3)],
		.micro_batches = 4,
		.pipeline = (uint8_t)mq_rng_below(rng, MQ_N_PIPELINES),
		.sync = (uint8_t)(mq_rng_below(rng, 2) ? MQ_SYNC_ALLREDUCE : MQ_SYNC_ZERO1),
		.recompute = (uint8_t)mq_rng_below(rng, MQ_N_RECOMPUTES),
		.sequence_parallel = mq_rng_below(rng, 2),
		.vocab_parallel = mq_rng_below(rng, 2),
	};

	if (shape.pipeline == MQ_PIPE_INTERLEAVED && shape.pp > 1)
		shape.virtual = 2;
	return shape;
}

static void compare_all(struct simulated *s)
{
	struct mq_train train = { .batch = 64, .dtype = MQ_BF16, .grad_dtype = MQ_FP32 };
	struct mq_model_request mr = { .spec = "gpt:layers=8,hidden=1024,heads=16,seq=512,vocab=8192",
				       .train = &train };
	struct mq_err err = MQ_ERR_INIT;
	struct mq_model *model;
	struct mq_rng rng;
	uint32_t folded = 0, exact = 0, fewer = 0;

	mq_rng_seed(&rng, 5);
	if (mq_model_load(&mr, &s->arena, &model, &err)) {
		complain(s, &err);
		return;
	}
	for (int i = 0; i < 120; i++) {
		struct mq_arena arena = MQ_ARENA_INIT;
		struct mq_shape shape = random_shape(&rng);
		struct mq_plan plan;
		struct mq_lower_request rq = { .model = model,
					       .cluster = s->cluster,
					       .calib = s->calib,
					       .train = &train,
					       .plan = &plan };
		struct lowered a, b;

		if (mq_plan_from_shape(&shape, model, s->cluster, &arena, &plan, &err) == MQ_OK) {
			plan.overlap_grads = mq_rng_below(&rng, 2);
			if (run(s, &rq, true, &arena, &a) && a.low.folded) {
				folded++;
				if (!a.timeline.fold_inexact && run(s, &rq, false, &arena, &b)) {
					exact++;
					fewer += a.low.schedule->n_tasks < b.low.schedule->n_tasks;
					EXPECT_NEAR(s, a.timeline.step_time_s,
						    b.timeline.step_time_s, 1e-9);
				}
			}
		}
		mq_arena_fini(&arena);
	}
	fprintf(stderr, "folded %u, exact %u of 120 shapes\n", folded, exact);
	EXPECT(s, folded > 30 && exact > 15 && fewer == exact);
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
	if (mq_calib_load_dir(s.calib, "platforms/calib", &err) ||
	    mq_platform_load(path, &s.arena, &s.cluster, &err) ||
	    mq_calib_bind(s.calib, s.cluster, &err)) {
		fprintf(stderr, "%s\n", err.text);
		_exit(99);
	}
	mq_conduct(s.cluster, body, &s);
	_exit(s.failures || !s.finished ? 1 : 0);
}

static void run_on(const struct mq_platform_spec *spec)
{
	char path[] = "/tmp/mq-test-XXXXXX.xml";
	int status = -1, fd = mkstemps(path, 4);
	struct mq_err err = MQ_ERR_INIT;

	close(fd);
	if (mq_platform_generate(spec, path, &err))
		fail_msg("%s", err.text);
	fflush(NULL);
	pid_t pid = fork();
	if (!pid)
		child(path);
	waitpid(pid, &status, 0);
	unlink(path);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void rails_fold_exactly(void **state)
{
	struct mq_platform_spec spec;

	(void)state;
	mq_platform_spec_init(&spec);
	spec.gpu = "A100-80GB";
	spec.nodes = 8;
	spec.gpus = 4;
	spec.fabric = MQ_GEN_RAIL;
	run_on(&spec);
}

/* Two GPUs share a port: folding across them must be refused, not wrong. */
static void shared_ports_fold_exactly_or_not_at_all(void **state)
{
	struct mq_platform_spec spec;

	(void)state;
	mq_platform_spec_init(&spec);
	spec.gpu = "A100-80GB";
	spec.nodes = 4;
	spec.gpus = 8;
	spec.nics = 4;
	spec.fabric = MQ_GEN_FAT_TREE;
	run_on(&spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rails_fold_exactly),
		cmocka_unit_test(shared_ports_fold_exactly_or_not_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
