/*
 * test_wire.c - the wire between ranks of different executors: sums are right, messages do not hold
 * each other up. All ranks live in this process and take turns.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "replay/replay.h"
#include "maquette/wire.h"
#include "sanitized.h"

enum { RANKS = 5, MOST = 3 << 20 };

static struct mq_arena arena;
static struct mq_ranks ranks[RANKS];
static struct mq_wire *wire[RANKS];
static char place[1024];
static uint32_t n_ranks;

static enum mq_status share(void *state, void *data, size_t size, struct mq_err *err)
{
	assert_true(size <= sizeof(place));
	if (state == &ranks[0])
		memcpy(place, data, size);
	else
		memcpy(data, place, size);
	return MQ_OK;
}

/* Rank 0 keeps the memory open while it waits here: time for the others to open it. */
static enum mq_status meet(void *state, struct mq_err *err)
{
	for (uint32_t i = 1; state == &ranks[0] && i < n_ranks; i++)
		assert_int_equal(replay_wire_open(&ranks[i], &arena, &wire[i], err), MQ_OK);
	return MQ_OK;
}

static void open_ranks(uint32_t n)
{
	struct mq_err err = MQ_ERR_INIT;

	n_ranks = n;
	for (uint32_t i = 0; i < n; i++)
		ranks[i] = (struct mq_ranks){
			.rank = i, .size = n, .state = &ranks[i], .broadcast = share, .barrier = meet
		};
	assert_int_equal(replay_wire_open(&ranks[0], &arena, &wire[0], &err), MQ_OK);
}

static void close_ranks(void)
{
	for (uint32_t i = 0; i < n_ranks; i++)
		replay_wire_close(wire[i]);
	mq_arena_fini(&arena);
	arena = (struct mq_arena)MQ_ARENA_INIT;
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* Element e of what rank r gives: small whole numbers, so that sums are exact. */
static double given(uint32_t r, size_t e)
{
	return (double)((e * 7 + r * 13) % 101);
}

static double read_at(const void *data, bool wide, size_t e)
{
	return wide ? ((const double *)data)[e] : (double)((const float *)data)[e];
}

static void fill(void *data, bool wide, uint32_t r, size_t n)
{
	for (size_t e = 0; e < n; e++)
		if (wide)
			((double *)data)[e] = given(r, e);
		else
			((float *)data)[e] = (float)given(r, e);
}

/* What element e of rank me's result has to be; NAN where the call leaves it open. */
static double wanted(const struct mq_wire_coll *c, size_t e, size_t part)
{
	double sum = 0;

	for (uint32_t r = 0; r < c->n; r++)
		sum += given(r, e);
	switch (c->kind) {
	case MQ_COLL_ALL_REDUCE:
		return sum;
	case MQ_COLL_REDUCE:
		return c->me == c->root ? sum : (double)NAN;
	case MQ_COLL_REDUCE_SCATTER:
		return e / part == c->me ? sum : (double)NAN;
	case MQ_COLL_BROADCAST:
		return c->me == c->root ? (double)NAN : given(c->root, e);
	case MQ_COLL_ALL_GATHER:
		return given((uint32_t)(e / part), e % part);
	case MQ_COLL_ALL_TO_ALL:
		return given((uint32_t)(e / part), c->me * part + e % part);
	default:
		return NAN;
	}
}

static void run_all(struct mq_wire_coll *c, uint32_t n)
{
	uint32_t done = 0;

	for (int turns = 0; done < n; turns++) {
		assert_true(turns < 100000); /* somebody waits for ever */
		done = 0;
		/* The last first: no order of turns may matter. */
		for (uint32_t i = n; i-- > 0;)
			done += mq_wire_coll_run(wire[i], &c[i]);
	}
}

static void check_collective(enum mq_coll_kind kind, enum mq_dtype dtype, uint32_t n, double bytes)
{
	static const uint32_t rank[RANKS] = { 0, 1, 2, 3, 4 };
	bool wide = dtype == MQ_FP64;
	size_t size = wide ? 8 : 4, part_B = mq_wire_coll_part_B(dtype, bytes, n);
	struct mq_wire_coll c[RANKS];
	struct mq_arena_mark mark = mq_arena_mark(&arena);

	for (uint32_t i = 0; i < n; i++) {
		char *in = mq_arena_alloc(&arena, part_B * n);

		fill(in, wide, i, part_B * n / size);
		c[i] = (struct mq_wire_coll){ .kind = kind,
					      .dtype = dtype,
					      .n = n,
					      .me = i,
					      .root = n / 2,
					      .rank = rank,
					      .tag = 1ull << 63 | 1ull << 32 | 2,
					      .bytes = bytes,
					      .in = in,
					      .out = mq_arena_alloc(&arena, part_B * n) };
	}
	run_all(c, n);
	for (uint32_t i = 0; i < n; i++)
		for (size_t e = 0; e < part_B * n / size; e++) {
			double want = wanted(&c[i], e, part_B / size);

			if (!isnan(want) && fabs(read_at(c[i].out, wide, e) - want) > 0)
				fail_msg("%s of %g bytes, %u ranks: element %zu of rank %u is %g, "
					 "not %g",
					 mq_coll_name(kind), bytes, n, e, i, read_at(c[i].out, wide, e), want);
		}
	mq_arena_rewind(&arena, mark);
}

/* Sizes below a line, uneven, and larger than a ring (4 MiB), among two to five ranks. */
static void collectives(void **state)
{
	static const double bytes[] = { 4, 1000, 262148, 6e6 };

	for (uint32_t n = 2; n <= RANKS; n++) {
		open_ranks(n);
		for (uint32_t k = 0; k < MQ_N_COLL_KINDS; k++)
			for (size_t b = 0; b < sizeof(bytes) / sizeof(bytes[0]); b++)
				if (!SANITIZED || n == RANKS || bytes[b] < 1e6)
					check_collective((enum mq_coll_kind)k, (k + b) % 2 ? MQ_FP64 : MQ_FP32, n,
							 bytes[b]);
		close_ranks();
	}
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Sends and receives that are posted in opposite orders, larger than the ring, all arrive; one
 * without a receive does not stand in the way. */
static void crossed_messages(void **state)
{
	enum { N = 4 };
	static char data[2][N][MOST];
	struct mq_transfer t[2][N];
	static struct mq_transfer alone;

	open_ranks(2);
	alone = (struct mq_transfer){ .peer = 1, .send = true, .tag = 99, .bytes = MOST };
	mq_wire_post(wire[0], &alone);
	for (uint32_t i = 0; i < N; i++) {
		memset(data[0][i], (int)(i + 1), MOST);
		t[0][i] = (struct mq_transfer){ .peer = 1, .send = true, .tag = i, .bytes = MOST - i };
		t[1][N - 1 - i] = (struct mq_transfer){ .peer = 0, .tag = N - 1 - i, .bytes = MOST - (N - 1 - i) };
		mq_wire_post(wire[0], &t[0][i]);
		mq_wire_post(wire[1], &t[1][N - 1 - i]);
	}
	for (int turn = 0; turn < 1000; turn++)
		for (uint32_t i = 0; i < N; i++) {
			mq_wire_move(wire[0], &t[0][i], data[0][i]);
			mq_wire_move(wire[1], &t[1][i], data[1][i]);
		}
	for (uint32_t i = 0; i < N; i++) {
		assert_true(t[0][i].done && t[1][i].done);
		assert_memory_equal(data[1][i], data[0][i], MOST - i);
	}
	assert_false(alone.done);
	assert_int_equal(alone.moved, 0);
	close_ranks();
}

/* A send has not ended before the far end has taken its bytes: messages are a rendezvous. */
static void rendezvous(void **state)
{
	char sent[64] = "over the wire", got[64] = "";
	struct mq_transfer s = { .peer = 1, .send = true, .tag = 5, .bytes = sizeof(sent) };
	struct mq_transfer r = { .peer = 0, .tag = 5, .bytes = sizeof(got) };

	open_ranks(2);
	mq_wire_post(wire[0], &s);
	for (int i = 0; i < 100; i++)
		mq_wire_move(wire[0], &s, sent);
	assert_int_equal(s.moved, 0); /* nobody has asked */
	mq_wire_post(wire[1], &r);
	mq_wire_progress(wire[1]);
	mq_wire_move(wire[0], &s, sent);
	assert_int_equal(s.moved, sizeof(sent));
	mq_wire_progress(wire[0]);
	assert_false(s.done);
	mq_wire_move(wire[1], &r, got);
	assert_true(r.done);
	mq_wire_progress(wire[0]);
	assert_true(s.done);
	assert_string_equal(got, sent);
	close_ranks();
}

/* Two ranks in two processes of one machine, whose clock is one: an offset that has crept in is gone once they align again. */
static void clocks_aligned_again(void **state)
{
	char path[64];
	int status = -1;

	snprintf(path, sizeof(path), "file:/tmp/mq-wire-%d", (int)getpid());
	pid_t child = fork();
	struct mq_replay_options o = { .rank = child == 0, .size = 2, .deadline_s = 20, .rendezvous = path };
	struct replay_rendezvous m;
	struct mq_err err = MQ_ERR_INIT;
	bool good = replay_rendezvous_open(&m, &o, &arena, &err) == MQ_OK;

	m.clock_offset_s = o.rank ? 5 : 0;
	good = good && replay_rendezvous_align(&m, &err) == MQ_OK && fabs(m.clock_offset_s) < 1e-3;
	replay_rendezvous_close(&m);
	if (!child)
		_exit(good ? 0 : 1);
	assert_true(good);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(collectives), cmocka_unit_test(crossed_messages),
					    cmocka_unit_test(rendezvous), cmocka_unit_test(clocks_aligned_again) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
