/*
 * test_runs.c - which tasks of a template are runs that last a time of their own, and how long; by hand.
 *
 * A template is written as one text: "A C1", "R G2 <A", ... a task per item, of device 0: its letter, what it is
 * (C compute, G a collective of the layers, S a message, D a gradient collective), how many seconds it lasts
 * (none: nobody knows), and behind < the letters of what it waits for (* = compute of an earlier instance).
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folding/runs.h"

struct written {
	struct mq_arena arena;
	struct mq_template t;
	struct mq_lines lines;
	uint32_t of_letter[128];
};

static void add(struct written *w, const char *item)
{
	static const char kinds[] = "CGSD";
	static const uint8_t kind[] = { MQ_TASK_COMPUTE, MQ_TASK_COLLECTIVE, MQ_TASK_SEND, MQ_TASK_COLLECTIVE };
	static const uint8_t stream[] = { MQ_STREAM_COMPUTE, MQ_STREAM_COMM, MQ_STREAM_SEND, MQ_STREAM_GRAD };
	size_t k = (size_t)(strchr(kinds, item[2]) - kinds);
	struct mq_ttask task = { .task = { .kind = kind[k], .stream = stream[k], .dep_first = w->t.n_deps } };
	const char *deps = item + strcspn(item, "<,");

	for (const char *d = *deps == '<' ? deps + 1 : ""; isalpha((unsigned char)*d) || *d == '*'; d++) {
		uint32_t dep = *d == '*' ? MQ_DEP_STREAM(MQ_STREAM_COMPUTE) : w->of_letter[(int)*d];
		MQ_PUSH(&w->arena, w->t.dep, w->t.n_deps, w->t.dep_room, dep);
	}
	task.task.n_deps = w->t.n_deps - task.task.dep_first;
	w->of_letter[(int)item[0]] = w->t.n_tasks;
	MQ_PUSH(&w->arena, w->t.task, w->t.n_tasks, w->t.task_room, task);
}

static void write_template(struct written *w, const char *text)
{
	memset(w, 0, sizeof(*w));
	for (const char *item = text; item; item = strchr(item, ',') ? strchr(item, ',') + 2 : NULL)
		add(w, item);
	w->lines = mq_lines_of(&w->t, 1, &w->arena);
	for (const char *item = text; item; item = strchr(item, ',') ? strchr(item, ',') + 2 : NULL) {
		uint32_t place = w->lines.place[w->of_letter[(int)item[0]]];

		if (place != MQ_NONE)
			w->lines.seconds[place] =
				isdigit((unsigned char)item[3]) ? strtod(item + 3, NULL) : (double)NAN;
	}
}

/* The runs of a template as text: "A-C 5", "A-C 5 E-G 7", or "". */
static const char *runs_between(const char *text, struct mq_line_ends ends, char got[64])
{
	struct mq_run run;
	struct written w;

	write_template(&w, text);
	*got = '\0';
	for (uint32_t at = 0; mq_lines_run(&w.lines, 0, &ends, at, &run); at = run.to + 1) {
		char from = '?', to = '?';

		for (char c = 'A'; c <= 'Z'; c++) {
			from = w.of_letter[(int)c] == w.lines.task[run.from] && (c == 'A' || w.of_letter[(int)c]) ?
				       c :
				       from;
			to = w.of_letter[(int)c] == w.lines.task[run.to] && (c == 'A' || w.of_letter[(int)c]) ? c : to;
		}
		snprintf(got + strlen(got), 64 - strlen(got), "%s%c-%c %g", *got ? " " : "", from, to,
			 w.lines.finish_s[run.to]);
	}
	mq_arena_fini(&w.arena);
	return got;
}

static void expect(const char *text, const char *want)
{
	char got[64];

	assert_string_equal(runs_between(text, (struct mq_line_ends){ false, false }, got), want);
}

static void chains_and_forks(void **state)
{
	(void)state;
	expect("A C1, B G2 <A, C C3 <B", "A-C 6");
	expect("A C1, B G2 <A, C C3 <B, D G2 <C, E C1 <D", "A-E 9");
	/* the dgrad C and the scatter D beside the wgrad E, whose input B was gathered beside C */
	expect("A C1, B G2 <A, C C4, D G3 <C, E C2 <B, F C1 <D", "A-F 9");
	/* the same where the network is slower: E waits for B, F for D, which waits for B on its stream */
	expect("A C1, B G7 <A, C C4, D G3 <C, E C2 <B, F C1 <D", "A-F 12");
	expect("A C1, B C2, C C3", "A-C 6");
}

static void exposed(void **state)
{
	struct mq_line_ends ends = { false, false };
	struct mq_run run;
	struct written w;

	(void)state;
	write_template(&w, "A C1, B G7 <A, C C4, D G3 <C, E C2 <B, F C1 <D");
	assert_true(mq_lines_run(&w.lines, 0, &ends, 0, &run));
	mq_lines_expose(&w.lines, &run);
	assert_true(w.lines.exposed_s[1] == 3); /* 1 .. 8, while C runs until 5 */
	assert_true(w.lines.exposed_s[3] == 1); /* 8 .. 11, while E runs until 10 */
	assert_int_equal(w.lines.behind[5], 3); /* the longest path: A, B, D, F */
	assert_int_equal(w.lines.behind[3], 1);
	assert_int_equal(w.lines.behind[1], 0);
	assert_int_equal(w.lines.behind[0], MQ_NONE);
	mq_arena_fini(&w.arena);
}

/* What lies outside and has a say. */
static void outside(void **state)
{
	(void)state;
	expect("A C1, B G <A, C C3 <B", "");                /* how long depends */
	expect("A C1, B G2 <A, C C3 <B, S S0 <A", "");      /* a message of the first */
	expect("A C1, B G2 <A, C C3 <B, S S0 <C", "A-C 6"); /* of the last */
	expect("A C1, B G2 <A, C C3 <B, S S0 <C, D G1 <C, E C1 <D", "A-C 6");
	expect("A C1, D D9 <A, B G2 <A, C C3 <B", "");      /* its gradients are reduced */
	expect("S S1, A C1 <S, B G2 <A, C C3 <B", "A-C 6"); /* the first may wait for anything */
	expect("S S1, A C1, B G2 <A, C C3 <BS", "");        /* no other */
	expect("S S1, A C1, B G2 <AS, C C3 <B", "");
	expect("A C1, B G2 <A, C C3 <B*", "");
	/* B waits for what came before A, and may have begun before it */
	expect("Z C1, S S0 <Z, A C1, B G2 <Z, C C3 <B", "");
}

/* A collective that nobody waits for yet is still under way. */
static void under_way(void **state)
{
	char got[64];

	(void)state;
	expect("A C1, B G2 <A, C C3", "");
	expect("A C1, B G2 <A, C C3, D C1 <B", "A-D 5");
	/* another waits for the first of two, which is over: the second is not */
	expect("A C1, B G2 <A, D G5 <A, C C3 <B", "");
	/* begins while X is under way: B would queue behind it */
	expect("Z C1, S S0 <Z, X G9 <Z, A C1, B G2 <A, C C3 <B", "");
	/* whose collectives are all over when the waiter of the last one starts */
	expect("Z C1, S S0 <Z, X G9 <Z, A C1 <X, B G2 <A, C C3 <B", "A-C 6");
	runs_between("A C1, B G2 <A, C C3 <B", (struct mq_line_ends){ .busy = true }, got);
	assert_string_equal(got, "");
	runs_between("A C1, B G2 <A, C C3 <B, D G2 <C, E C1 <D", (struct mq_line_ends){ .busy = true }, got);
	assert_string_equal(got, "C-E 6");
	runs_between("A C1, B G2 <A, C C3 <B, D G2 <C, E C1 <D, S S1, F C1 <S, H G2 <F, I C1 <H",
		     (struct mq_line_ends){ .busy = true }, got);
	assert_string_equal(got, "C-E 6 F-I 4");
}

/* A later collective that waits for something early queues behind those of the run: they must be seen. */
static void queues_behind(void **state)
{
	char got[64];

	(void)state;
	expect("S S1, A C1, B G2 <A, C C3 <B, D G1 <S, E C1 <D", "");
	expect("S S1, A C1, B G2 <A, C C3 <B, D G1 <SC, E C1 <D", "A-C 6");
	expect("S S1, A C1, B G2 <A, C C3 <B, D G1 <C, E C1 <D, F G1 <S, H C1 <F", "A-C 6");
	/* a collective that waits for the first alone */
	expect("A C1, B G2 <A, C C3 <B, D G <A, E C1 <D", "");
	expect("A C1, B G2 <A, C C3 <B, D G1 <A, E C1 <D", "A-E 7");
	/* a collective that waits for nothing may have begun before the run */
	expect("A C1, B G2, C C3 <B", "");
	/* the same of an instance that follows */
	runs_between("A C1, B G2 <A, C C3 <B", (struct mq_line_ends){ .early = true }, got);
	assert_string_equal(got, "");
	runs_between("A C1, B G2 <A, C C3 <B, D G2 <C, E C1 <D", (struct mq_line_ends){ .early = true }, got);
	assert_string_equal(got, "A-C 6");
}

static struct mq_line_ends ends_of(const char *text)
{
	struct mq_line_ends ends = { false, false };
	struct written w;

	write_template(&w, text);
	mq_lines_ends(&w.lines, 0, &ends);
	mq_arena_fini(&w.arena);
	return ends;
}

static void ends(void **state)
{
	(void)state;
	assert_false(ends_of("A C1, B G2 <A, C C3 <B").busy);
	assert_false(ends_of("A C1, B G2 <A, C C3 <B").early);
	assert_true(ends_of("A C1, B G2 <A").busy);
	assert_true(ends_of("A C1, B G2 <A, D G2 <A, C C3 <B").busy);
	assert_true(ends_of("S S1, B G2 <S, A C1 <B").early);
	assert_true(ends_of("B G2, A C1 <B").early);
	assert_false(ends_of("B G2 <*, A C1 <B").early);
	assert_false(ends_of("A C1, B G2 <A, S S1, D G2 <S, C C1 <D").early); /* it queues behind B */
	assert_false(ends_of("A C1").busy || ends_of("A C1").early);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chains_and_forks), cmocka_unit_test(exposed),       cmocka_unit_test(outside),
		cmocka_unit_test(under_way),        cmocka_unit_test(queues_behind), cmocka_unit_test(ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
