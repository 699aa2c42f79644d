/* test_pipeline.c - the order in which pipeline ranks run their passes, walked through with passes that take
 * one unit of time each and messages that take none; whole schedules with their messages, which wait for no other; and
 * what a pass waits for that computes nothing. pipeline_orders.txt has the orders that the authors' programs run:
 * ScheduleZBVZeroBubble of PyTorch 2.9 and dualpipev.py of DeepSeek's DualPipe, at 4, 8 and 16 ranks.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lowering/program.h"
#include "lowered.h"
#include "sanitized.h"

enum {
	MOST_RANKS = 64,
	MOST_MICRO_BATCHES = 320,
	MOST_CHUNKS = 4,
	MOST_STAGES = MOST_CHUNKS * MOST_RANKS,
	WALKED_RANKS = SANITIZED ? 16 : MOST_RANKS
};

struct walk {
	struct mq_plan plan;
	uint32_t ranks, n[MOST_RANKS], at[MOST_RANKS];
	struct mq_slot *slot[MOST_RANKS];
	uint32_t end[3][MOST_STAGES][MOST_MICRO_BATCHES]; /* by F, B, W; 0 = not yet */
	uint32_t unit, pair; /* the time of a pass, and of a forward and a backward one that take turns */
	uint32_t pairs[MOST_RANKS];
	uint32_t free_at[MOST_RANKS], in_flight[MOST_RANKS], most_in_flight[MOST_RANKS];
};

static uint32_t pass_index(uint8_t pass)
{
	return pass == MQ_PASS_F ? 0 : pass == MQ_PASS_B ? 1 : 2;
}

static uint32_t max(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* When what a slot needs is there, or 0. */
static uint32_t ready(const struct walk *w, uint32_t rank, const struct mq_slot *s)
{
	uint32_t stages = w->ranks * w->plan.virtual, i = s->micro_batch;
	uint32_t stage = mq_pipeline_stage(w->plan.pipeline, w->ranks, rank, s->chunk);

	if (s->pass == MQ_PASS_F)
		return stage ? w->end[0][stage - 1][i] : 1;
	if (s->pass == MQ_PASS_B)
		return stage + 1 < stages ? w->end[1][stage + 1][i] : w->end[0][stage][i];
	return w->end[1][stage][i];
}

/* A slot is done. */
static void pass(struct walk *w, uint32_t r, const struct mq_slot *s)
{
	uint32_t stage = mq_pipeline_stage(w->plan.pipeline, w->ranks, r, s->chunk);
	uint32_t *end = &w->end[pass_index(s->pass)][stage][s->micro_batch];

	assert_int_equal(*end, 0); /* every pass once */
	*end = w->free_at[r];
	w->at[r]++;
	w->in_flight[r] += s->pass == MQ_PASS_F;
	w->in_flight[r] -= s->pass == (mq_pipeline_splits(w->plan.pipeline) ? MQ_PASS_W : MQ_PASS_B);
	w->most_in_flight[r] = max(w->most_in_flight[r], w->in_flight[r]);
}

/* Runs the next slot of a rank where its input is there; passes that take turns as one, with weight gradients. */
static bool step(struct walk *w, uint32_t r)
{
	const struct mq_slot *s = &w->slot[r][w->at[r]];
	uint32_t together = w->pair && w->at[r] < w->n[r] && s->turns ? 3 : 1, when, other;

	if (w->at[r] == w->n[r] || !(when = ready(w, r, s)))
		return false;
	if (together > 1 && !(other = ready(w, r, s + 1)))
		return false;
	w->free_at[r] = max(max(when, together > 1 ? other : 0), w->free_at[r]) + (together > 1 ? w->pair : w->unit);
	for (uint32_t k = 0; k < together; k++)
		pass(w, r, s + k);
	w->pairs[r] += together > 1;
	return true;
}

/* The time from the first pass to the last. Fails where ranks wait for each other, or leave something out. `pair`: of
 * passes that take turns, where others take 2; 0 = passes take 1 and none takes turns. */
static uint32_t makespan_of(struct walk *w, enum mq_pipeline pipeline, uint32_t ranks, uint32_t virtual, uint32_t m,
			    bool infer, uint32_t pair, struct mq_arena *arena)
{
	char message[256];
	uint32_t total = 0, done = 0, last = 0;
	bool moved = true;

	*w = (struct walk){ .ranks = ranks, .unit = pair ? 2 : 1, .pair = pair };
	w->plan = (struct mq_plan){
		.pipeline = (uint8_t)pipeline, .virtual = virtual, .micro_batches = m, .overlap_experts = pair > 0
	};
	for (uint32_t r = 0; r < ranks; r++) {
		w->slot[r] = mq_pipeline_order(&w->plan, ranks, r, infer, arena, &w->n[r], message);
		assert_non_null(w->slot[r]);
		w->free_at[r] = 1;
		total += w->n[r];
	}
	while (moved) {
		moved = false;
		for (uint32_t r = 0; r < ranks; r++)
			while (step(w, r))
				moved = true;
	}
	for (uint32_t r = 0; r < ranks; r++)
		done += w->at[r];
	assert_int_equal(done, total);
	assert_int_equal(total, ranks * virtual * m * (infer ? 1 : mq_pipeline_splits(pipeline) ? 3 : 2));
	for (uint32_t r = 0; r < ranks; r++)
		last = max(last, w->free_at[r]);
	return last - 1;
}

static uint32_t makespan(struct walk *w, enum mq_pipeline pipeline, uint32_t ranks, uint32_t virtual, uint32_t m,
			 bool infer, struct mq_arena *arena)
{
	return makespan_of(w, pipeline, ranks, virtual, m, infer, 0, arena);
}

/* 1F1B drains for P - 1 pairs of passes; interleaved for as many of chunks. */
static void one_forward_one_backward(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct walk *w = *state;

	assert_int_equal(makespan(w, MQ_PIPE_1F1B, 4, 1, 8, false, &arena), 2 * (8 + 3));
	for (uint32_t r = 0; r < 4; r++)
		assert_int_equal(w->most_in_flight[r], 4 - r);
	assert_int_equal(makespan(w, MQ_PIPE_GPIPE, 4, 1, 8, false, &arena), 2 * (8 + 3));
	assert_int_equal(w->most_in_flight[0], 8);
	assert_int_equal(makespan(w, MQ_PIPE_INTERLEAVED, 4, 2, 8, false, &arena), 2 * (2 * 8 + 3));
	mq_arena_fini(&arena);
}

/* The tables of kinds are whole: each has a name of its own, and an order that ends at the least and at more chunks;
 * the first rank has all micro-batches in flight where the row says so, and only there. */
static void every_kind_has_an_order(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	char message[256];

	for (int i = 0; i < MQ_N_PIPELINES; i++) {
		const struct mq_pipeline_kind *kind = mq_pipeline_kind((enum mq_pipeline)i);

		assert_non_null(kind->name);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(kind->name, mq_pipeline_name((enum mq_pipeline)k));
		assert_true(kind->least_chunks && kind->least_chunks <= kind->most_chunks);
		assert_true(kind->bubble > 0 && kind->bubble <= 1);
		assert_false(mq_pipeline_takes((enum mq_pipeline)i, kind->least_chunks - 1));
		for (uint32_t v = kind->least_chunks; v <= 3 && v <= kind->most_chunks; v++) {
			assert_true(mq_pipeline_takes((enum mq_pipeline)i, v));
			assert_true(mq_pipeline_deals((enum mq_pipeline)i, 4, v, 12, false, message));
			assert_true(makespan(*state, (enum mq_pipeline)i, 4, v, 12, false, &arena) >= 12 * v * 2);
			assert_int_equal(((struct walk *)*state)->most_in_flight[0] == 12 * v, kind->keeps_all);
		}
	}
	assert_string_equal(mq_pipeline_name(MQ_N_PIPELINES), "?");
	mq_arena_fini(&arena);
}

/* How many micro-batches are tried at a depth: from the least that fill it, in odd steps where it is deep. */
static uint32_t next_count(uint32_t m, uint32_t p)
{
	return m + (p < 8 ? 1 : p / 4 + 1);
}

/* Where F, B and W take the same time, a rank that has begun never waits: 6 m passes, and P - 1 before the
 * last rank's first (Qi et al. 2024). No more than 2 P chunks are in flight, what 1F1B holds on its first rank. */
static void zbv_has_no_bubble(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct walk *w = *state;

	for (uint32_t p = 1; p <= WALKED_RANKS; p++)
		for (uint32_t m = 2 * p; m <= 4 * p + 3; m = next_count(m, p)) {
			assert_int_equal(makespan(w, MQ_PIPE_ZBV, p, 2, m, false, &arena), 6 * m + p - 1);
			for (uint32_t r = 0; r < p; r++)
				assert_true(w->most_in_flight[r] <= 2 * p);
			mq_arena_fini(&arena);
		}
}

/* Fewer micro-batches than fill it: it ends all the same. */
static void zbv_takes_short_batches(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;

	for (uint32_t p = 1; p <= 16; p++)
		for (uint32_t m = 1; m < 2 * p; m++)
			assert_true(makespan(*state, MQ_PIPE_ZBV, p, 2, m, false, &arena) >= 6 * m);
	mq_arena_fini(&arena);
}

/* The bubble of the last rank is (P - 1)(F&B + B - 3W), as DeepSeek's table has it for P ranks: here F and W take 2, B
 * with its W 4, and F&B, a forward pass beside a backward one, 6 or the time of two and a half passes. Where nothing
 * takes turns, the first rank waits for as many passes as there are ranks before it. Activations of 2 P + 1 chunks. */
static void dualpipe_v_fills_the_pipeline(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_plan few = { .pipeline = MQ_PIPE_DUALPIPE_V, .virtual = 2, .micro_batches = 7 };
	struct walk *w = *state;
	char message[256];
	uint32_t n;

	for (uint32_t p = 1; p <= WALKED_RANKS; p++)
		for (uint32_t m = 2 * p; m <= 4 * p + 3; m = next_count(m, p)) {
			assert_int_equal(makespan(w, MQ_PIPE_DUALPIPE_V, p, 2, m, false, &arena), 6 * m + p - 1);
			for (uint32_t r = 0; r < p; r++)
				assert_true(w->most_in_flight[r] <= 2 * p + 1);
			for (uint32_t pair = 5; pair <= 6; pair++) {
				uint32_t time = makespan_of(w, MQ_PIPE_DUALPIPE_V, p, 2, m, false, pair, &arena);
				uint32_t pairs = w->pairs[p - 1];

				assert_int_equal(time, pairs * pair + (2 * m - pairs) * 6 + (p - 1) * (pair + 4 - 6));
			}
			mq_arena_fini(&arena);
		}
	assert_null(mq_pipeline_order(&few, 4, 0, false, &arena, &n, message));
	assert_string_equal(message, "the dualpipe-v schedule needs 2 micro-batches for each of its 4 pipeline "
				     "ranks, not 7");
	mq_arena_fini(&arena);
}

/* A line of pipeline_orders.txt is "SCHEDULE RANKS MICRO-BATCHES RANK: f0 b0 w0 F0 ...", the second chunk's passes in
 * capital letters. */
static void v_orders_are_those_of_their_authors(void **state)
{
	static const char *const pass[2] = { "fbw", "FBW" };
	struct mq_arena arena = MQ_ARENA_INIT;
	FILE *in = fopen("tests/unit/pipeline_orders.txt", "r");
	char line[4096], message[256];
	uint32_t lines = 0;

	(void)state;
	assert_non_null(in);
	for (; fgets(line, sizeof(line), in); lines++) {
		struct mq_plan plan = { .pipeline = line[0] == 'z' ? MQ_PIPE_ZBV : MQ_PIPE_DUALPIPE_V, .virtual = 2 };
		uint32_t ranks, rank, n;
		int at;

		assert_int_equal(sscanf(line, "%*s %u %u %u:%n", &ranks, &plan.micro_batches, &rank, &at), 3);
		const struct mq_slot *slot = mq_pipeline_order(&plan, ranks, rank, false, &arena, &n, message);
		const char *ours = "";

		for (uint32_t i = 0; i < n; i++)
			ours = mq_arena_printf(&arena, "%s %c%u", ours, pass[slot[i].chunk][pass_index(slot[i].pass)],
					       slot[i].micro_batch);
		line[strcspn(line, "\n")] = '\0';
		assert_string_equal(ours, line + at);
		mq_arena_fini(&arena);
	}
	assert_int_equal(lines, 2 * (4 + 8 + 16));
	fclose(in);
}

/* Whatever the kind, the depth, the chunks and the micro-batches: the order ends. */
static void no_order_waits_for_ever(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	char message[256];

	for (int i = 0; i < MQ_N_PIPELINES; i++)
		for (uint32_t p = 1; p <= WALKED_RANKS; p += p < 10 ? 1 : 9)
			for (uint32_t v = 1; v <= MOST_CHUNKS; v++)
				for (uint32_t m = 1; m <= 3 * p + 2; m = next_count(m, p)) {
					if (mq_pipeline_takes((enum mq_pipeline)i, v) &&
					    mq_pipeline_deals((enum mq_pipeline)i, p, v, m, false, message))
						makespan(*state, (enum mq_pipeline)i, p, v, m, false, &arena);
					mq_arena_fini(&arena);
				}
}

/* Nor does a schedule, whose messages stand in streams behind others. */
static void no_schedule_waits_for_ever(void **state)
{
	static const uint32_t depth[] = { 2, 3, 5, 6, 7, 8, 12, 16, 33 };
	char message[256];

	(void)state;
	for (int i = 0; i < MQ_N_PIPELINES; i++)
		for (uint32_t k = 0; k < (SANITIZED ? 6 : sizeof(depth) / sizeof(*depth)); k++)
			for (uint32_t v = 1; v <= 3; v++)
				for (uint32_t m = 1; m <= 3; m++) {
					struct mq_shape shape = { .dp = k < 4 ? 2 : 1,
								  .pp = depth[k],
								  .micro_batches = m * depth[k] + (m == 3 && v != 3),
								  .pipeline = (uint8_t)i,
								  .virtual = v };
					struct lowered w;

					if (!mq_pipeline_takes((enum mq_pipeline)i, v) ||
					    !mq_pipeline_deals((enum mq_pipeline)i, shape.pp, v, shape.micro_batches,
							       false, message))
						continue;
					lowered_open(&w, "gpt:layers=99,hidden=64,heads=4,seq=16,vocab=64",
						     shape.pp * shape.dp, shape.dp * shape.micro_batches);
					if (!lowered_shape(&w, &shape))
						fail_msg("%s, %u ranks: %s", mq_pipeline_name((enum mq_pipeline)i),
							 shape.pp, w.low.message);
					lowered_close(&w);
				}
}

/* What an encoder makes goes to all stages of the decoder: no V schedule has that. */
static void v_passes_to_the_next_stage(void **state)
{
	const struct mq_shape shape = { .dp = 1, .pp = 4, .micro_batches = 8, .pipeline = MQ_PIPE_ZBV, .virtual = 2 };
	struct lowered w;

	(void)state;
	lowered_open(&w, "t5:layers=8,hidden=64,heads=4,seq=16,vocab=64", 4, 8);
	assert_null(lowered_shape(&w, &shape));
	assert_int_equal(w.low.verdict, MQ_VERDICT_INVALID);
	assert_non_null(strstr(w.low.message, "the zbv schedule passes tensors from a stage to the next"));
	lowered_close(&w);
}

/* What skips to a later stage is there long before it is taken: no message of a neighbour stands behind it. */
static void messages_over_stages_hold_up_none(void **state)
{
	const struct mq_shape shape = { .dp = 1, .pp = 4, .micro_batches = 8 };
	uint32_t near = 0, far = 0;
	struct lowered w;

	(void)state;
	lowered_open(&w, "unet", 4, 8);
	const struct mq_schedule *s = lowered_shape(&w, &shape);
	assert_non_null(s);
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		bool first = t->stream == MQ_STREAM_SEND || t->stream == MQ_STREAM_RECV;

		if (t->kind != MQ_TASK_SEND && t->kind != MQ_TASK_RECV)
			continue;
		assert_int_equal(first, t->device + 1 == t->peer || t->peer + 1 == t->device);
		near += first;
		far += !first;
	}
	assert_true(near > 0 && far > 0);
	lowered_close(&w);
}

/* FLOPs that are not the model's: of second forward passes, and of the optimizer. */
static double more_flop(struct lowered *w, const struct mq_shape *shape)
{
	const struct mq_schedule *s = lowered_shape(w, shape);
	double flop = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (s->task[i].kind == MQ_TASK_COMPUTE)
			flop += s->work[s->task[i].work].flop - s->work[s->task[i].work].model_flop;
	return flop;
}

/* As with torchgpipe's checkpoint='except_last'. */
static void gpipe_may_keep_one_micro_batch(void **state)
{
	struct lowered w;

	(void)state;
	lowered_open(&w, "gpt:layers=4,hidden=64,heads=4,seq=16,vocab=64", 2, 8);
	for (uint32_t m = 1; m <= 8; m *= 2) {
		struct mq_shape shape = { .dp = 1, .pp = 2, .micro_batches = m, .pipeline = MQ_PIPE_GPIPE };
		double none = more_flop(&w, &shape);

		shape.recompute = MQ_RECOMPUTE_FULL;
		double all = more_flop(&w, &shape);
		w.software.checkpoint_except_last = true;
		assert_within(more_flop(&w, &shape) - none, (all - none) * (m - 1) / m, 1e-9 * all);
		shape.pipeline = MQ_PIPE_1F1B;
		assert_within(more_flop(&w, &shape), all, 1e-9 * all);
		w.software.checkpoint_except_last = false;
	}
	lowered_close(&w);
}

/* Passes that take turns stand side by side, the forward one first. */
static void dualpipe_v_pairs_chunks(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_plan plan = {
		.pipeline = MQ_PIPE_DUALPIPE_V, .virtual = 2, .micro_batches = 8, .overlap_experts = true
	};
	char message[256];
	uint32_t n, pairs = 0;
	struct mq_slot *s = mq_pipeline_order(&plan, 2, 0, false, &arena, &n, message);

	(void)state;
	for (uint32_t i = 0; i < n; i++) {
		if (!s[i].turns)
			continue;
		assert_int_equal(s[i].pass, MQ_PASS_F);
		assert_int_equal(s[i + 1].pass, MQ_PASS_B);
		assert_int_not_equal(s[i].chunk, s[i + 1].chunk);
		pairs++;
	}
	assert_int_equal(pairs, 2 * (8 - 2 * 2 + 1) + 1); /* the steady state, and one more as it drains */
	mq_arena_fini(&arena);
}

/* Inference: the rank where the V turns runs m passes of each chunk, P - 1 others go before and after it. */
static void v_infers(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;

	for (uint32_t p = 1; p <= 4; p++)
		assert_int_equal(makespan(*state, MQ_PIPE_ZBV, p, 2, 9, true, &arena), 2 * 9 + 2 * (p - 1));
	mq_arena_fini(&arena);
}

static void stages_go_there_and_back(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < 8; s++) {
		uint32_t rank = mq_pipeline_rank(MQ_PIPE_ZBV, 4, s);

		assert_int_equal(rank, s < 4 ? s : 7 - s);
		assert_int_equal(mq_pipeline_stage(MQ_PIPE_ZBV, 4, rank, s / 4), s);
		assert_int_equal(mq_pipeline_rank(MQ_PIPE_INTERLEAVED, 4, s), s % 4);
		assert_int_equal(mq_pipeline_stage(MQ_PIPE_INTERLEAVED, 4, s % 4, s / 4), s);
	}
	assert_false(mq_pipeline_takes(MQ_PIPE_ZBV, 1));
	assert_false(mq_pipeline_takes(MQ_PIPE_ZBV, 3));
	assert_true(mq_pipeline_takes(MQ_PIPE_INTERLEAVED, 3));
	assert_false(mq_pipeline_takes(MQ_PIPE_1F1B, 2));
}

/* A stage that has the embedding alone makes all its gradients in the backward pass. They are reduced in the pass of
 * weight gradients, which computes nothing there, and not before that was. */
static void empty_passes_wait(void **state)
{
	static const uint32_t layers[] = { 0, 1, 1 };
	const struct mq_shape shape = {
		.dp = 2, .pp = 3, .micro_batches = 4, .pipeline = MQ_PIPE_ZB_H1, .stage_layers = layers
	};
	uint32_t reduced = 0;
	struct lowered w;

	lowered_open(&w, "gpt:layers=2,hidden=64,heads=4,seq=16,vocab=64", 6, 16);
	assert_int_equal(mq_plan_from_shape(&shape, w.model, w.cluster, &w.arena, &w.plan, &w.err), MQ_OK);
	w.plan.explicit = MQ_EXPLICIT_ALL;
	w.plan.overlap_grads = true;
	const struct mq_schedule *s = lowered_plan(&w);
	assert_non_null(s);
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		bool waits = false;

		if (t->kind != MQ_TASK_COLLECTIVE || t->stream != MQ_STREAM_GRAD || t->stage)
			continue;
		for (uint32_t k = t->dep_first; k < t->dep_first + t->n_deps; k++)
			waits |= s->task[s->dep[k]].kind == MQ_TASK_COMPUTE;
		assert_true(waits);
		reduced++;
	}
	assert_true(reduced > 0);
	lowered_close(&w);
}

/* GEMMs of `op` that stand behind the passes of all micro-batches. */
static uint32_t behind_passes(const struct mq_schedule *s, uint32_t op)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		for (uint32_t k = 0; s->task[i].kind == MQ_TASK_COMPUTE && k < s->work[s->task[i].work].n_kernels;
		     k++) {
			const struct mq_kernel *kernel = &s->work[s->task[i].work].kernel[k];

			n += s->task[i].micro_batch == MQ_NONE && kernel->op == op && kernel->kind == MQ_KERNEL_GEMM;
		}
	return n;
}

/* Gradients of the head's weights that wait for the end are as many as the limit says, on all ranks of the last stage;
 * their inputs, in parts of the sequence, and the gradients of their outputs are there until then. Nothing else is. */
static void head_gradients_wait(void **state)
{
	enum { SEQ = 16, HIDDEN = 64, VOCAB = 128, MICRO = 4, TP = 2, DP = 2 };
	const struct mq_shape shape = { .dp = DP,
					.tp = TP,
					.pp = 2,
					.micro_batches = MICRO,
					.sync = MQ_SYNC_ZERO1,
					.sequence_parallel = true,
					.vocab_parallel = true };
	struct lowered w;
	struct mq_lowered plain;

	(void)state;
	lowered_open(&w, "llama:layers=2,hidden=64,heads=4,kv_heads=4,ffn=96,seq=16,vocab=128", 8, DP * MICRO);
	assert_non_null(lowered_shape(&w, &shape));
	plain = w.low;
	w.software.defer_embedding_wgrad_compute = true;
	for (uint32_t limit = 0; limit <= MICRO + 1; limit++) {
		uint32_t n = limit && limit < MICRO ? limit : MICRO;

		w.software.wgrad_deferral_limit = limit;
		const struct mq_schedule *s = lowered_shape(&w, &shape);

		assert_int_equal(behind_passes(s, mq_model_vocab_op(w.model) - 1), n * TP * DP);
		assert_within(lowered_model_flop(s), lowered_model_flop(plain.schedule), 1e-3);
		assert_within(lowered_count(s, MQ_TASK_COLLECTIVE, MQ_COLL_REDUCE_SCATTER, -1).bytes,
			      lowered_count(plain.schedule, MQ_TASK_COLLECTIVE, MQ_COLL_REDUCE_SCATTER, -1).bytes,
			      1e-3);
		for (uint32_t d = 0; d < w.low.n_devices; d++) {
			bool last = w.low.memory[d].parameter_B != w.low.memory[0].parameter_B;

			assert_within(w.low.memory[d].buffer_B - plain.memory[d].buffer_B,
				      last * n * 2.0 * SEQ * (HIDDEN + VOCAB) / TP, 1e-3);
		}
	}
	w.software.defer_embedding_wgrad_compute = false;
	assert_int_equal(behind_passes(lowered_shape(&w, &shape), mq_model_vocab_op(w.model) - 1), 0);
	lowered_close(&w);
}

int main(void)
{
	static struct walk walk;
	void *w = &walk;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(one_forward_one_backward, w),
		cmocka_unit_test_prestate(every_kind_has_an_order, w),
		cmocka_unit_test_prestate(zbv_has_no_bubble, w),
		cmocka_unit_test_prestate(zbv_takes_short_batches, w),
		cmocka_unit_test_prestate(dualpipe_v_fills_the_pipeline, w),
		cmocka_unit_test(v_orders_are_those_of_their_authors),
		cmocka_unit_test_prestate(no_order_waits_for_ever, w),
		cmocka_unit_test(no_schedule_waits_for_ever),
		cmocka_unit_test(v_passes_to_the_next_stage),
		cmocka_unit_test(messages_over_stages_hold_up_none),
		cmocka_unit_test(gpipe_may_keep_one_micro_batch),
		cmocka_unit_test(dualpipe_v_pairs_chunks),
		cmocka_unit_test_prestate(v_infers, w),
		cmocka_unit_test(stages_go_there_and_back),
		cmocka_unit_test(empty_passes_wait),
		cmocka_unit_test(head_gradients_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
