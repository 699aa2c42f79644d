/* test_timeline.c - where the time went and the critical path, on timelines made by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#include "base/csv.h"
#include "maquette/result.h"
#include "schedule/timeline.h"
#include "executors/execute.h"
#include "judge/gzip.h"
#include "schedules.h"
#include "libraries.h"

struct fixture {
	struct mq_arena arena;
	struct mq_cluster *cluster;
	struct mq_calib *calib;
	struct mq_schedule *s;
	struct mq_timeline tl;
	struct mq_err err;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->cluster = mq_cluster_flat(&f->arena, 4, "T", 1e12, 16e9, 1e9, 0);
	f->calib = bare_calib(&f->arena);
	mq_calib_add_ideal(f->calib, "T", 1e12, 1e12, 16e9);
	assert_int_equal(mq_calib_bind(f->calib, f->cluster, &f->err), MQ_OK);
	f->s = hand_new(&f->arena, f->cluster);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	mq_arena_fini(&f->arena);
	free(f);
	return 0;
}

static void run(struct fixture *f)
{
	struct mq_exec_request request = {
		.view.schedule = f->s, .cluster = f->cluster, .calib = f->calib, .timeout_s = INFINITY
	};
	enum mq_verdict verdict;

	if (mq_schedule_check(f->s, NULL, &f->err) ||
	    mq_execute_analytic(&request, &f->arena, &f->tl, &verdict, &f->err))
		fail_msg("%s", f->err.text);
	assert_int_equal(verdict, MQ_VERDICT_OK);
}

static void near(double got, double want)
{
	if (fabs(got - want) > 1e-12 * fabs(want) + 1e-15)
		fail_msg("%.17g is not %.17g", got, want);
}

/* Bubble share of a pipeline: (p - 1) / (m + p - 1) of the step, and (p - 1) / m of the work. */
static void pipelines_idle_as_they_must(void **state)
{
	struct fixture *f = *state;
	struct hand_pipe pipe = { .p = 4, .m = 8 };

	pipe.forward = hand_work(f->s, 1);
	pipe.backward = hand_work(f->s, 2);
	hand_pipeline(f->s, &pipe);
	run(f);
	struct mq_breakdown b = mq_timeline_breakdown(f->s, &f->tl, &f->arena);
	near(f->tl.step_time_s, 3 * (8 + 3));
	near(b.compute_s, 24);
	near(b.bubble_s, 9);
	near(b.bubble_s / b.compute_s, 3.0 / 8);
	near(b.exposed_comm_s + 1, 1);
}

/* Device 0 computes 1 s, sends 2e9 bytes (2 s) and computes 1.5 s beside it; device 1 computes after. */
static void hidden_communication_is_not_counted(void **state)
{
	struct fixture *f = *state;
	uint32_t one = hand_work(f->s, 1), more = hand_work(f->s, 1.5), *path;

	uint32_t a = hand_compute(f->s, 0, one);
	uint32_t send = hand_send(f->s, 0, 1, 2e9);
	hand_dep(f->s, a);
	hand_compute(f->s, 0, more);
	uint32_t recv = hand_recv(f->s, 1, 0, 2e9);
	uint32_t last = hand_compute(f->s, 1, one);
	hand_dep(f->s, recv);
	run(f);
	near(f->tl.step_time_s, 4);
	const double *exposed = mq_timeline_exposed(f->s, &f->tl, &f->arena);
	near(exposed[send], 0.5);
	near(exposed[recv], 2);
	/* The other two devices do nothing at all: means over four. */
	struct mq_breakdown b = mq_timeline_breakdown(f->s, &f->tl, &f->arena);
	near(b.compute_s, (2.5 + 1) / 4);
	near(b.exposed_comm_s, (0.5 + 2) / 4);
	near(b.compute_s + b.exposed_comm_s + b.bubble_s, 4);
	assert_int_equal(mq_timeline_critical_path(f->s, &f->tl, &f->arena, &path), 3);
	assert_int_equal(path[0], a);
	assert_int_equal(path[1], send); /* the sender came last: the receiver waited for it */
	assert_int_equal(path[2], last);
}

static void folded_devices_weigh_more(void **state)
{
	struct fixture *f = *state;
	static const double weight[4] = { 3, 1, 0, 0 };

	hand_compute(f->s, 0, hand_work(f->s, 4));
	hand_compute(f->s, 1, hand_work(f->s, 2));
	run(f);
	double inner[2] = { 1, 0 };
	f->tl.weight = weight;
	f->tl.inner_comm_s = inner;
	struct mq_breakdown b = mq_timeline_breakdown(f->s, &f->tl, &f->arena);
	near(b.compute_s, (3 * 3 + 2) / 4.0);
	near(b.exposed_comm_s, 3 / 4.0);
	near(b.bubble_s, 0.5);
}

static void groups_are_looked_through(void **state)
{
	struct fixture *f = *state;
	uint32_t *path, c = hand_compute(f->s, 0, hand_work(f->s, 1));
	uint32_t a = hand_send(f->s, 0, 1, 1e9), b = hand_send(f->s, 0, 2, 1e9);

	f->s->task[a].group = f->s->task[b].group = 1;
	f->s->task[a].dep_first = f->s->n_deps;
	f->s->task[a].n_deps = 1;
	MQ_PUSH(f->s->arena, f->s->dep, f->s->n_deps, f->s->dep_room, c);
	hand_recv(f->s, 1, 0, 1e9);
	hand_recv(f->s, 2, 0, 1e9);
	run(f);
	near(f->tl.start_s[b], 1); /* waits with its group, though it has no dependency itself */
	near(f->tl.step_time_s, 2);
	assert_int_equal(mq_timeline_critical_path(f->s, &f->tl, &f->arena, &path), 2);
	assert_int_equal(path[0], c);
}

static void files_have_all_tasks(void **state)
{
	struct fixture *f = *state;
	struct hand_pipe pipe = { .p = 2, .m = 2, .bytes = 1e6 };
	const struct mq_timeline *const both[] = { &f->tl, &f->tl };
	char csv_path[] = "/tmp/mq-timeline-XXXXXX", trace_path[] = "/tmp/mq-trace-XXXXXX";
	struct mq_csv csv;
	double value;

	close(mkstemp(csv_path));
	close(mkstemp(trace_path));
	pipe.forward = pipe.backward = hand_work(f->s, 0.25);
	hand_pipeline(f->s, &pipe);
	run(f);
	assert_int_equal(mq_timeline_save(f->s, &f->tl, NULL, csv_path, &f->err), MQ_OK);
	assert_int_equal(mq_csv_load(csv_path, &f->arena, &csv, &f->err), MQ_OK);
	assert_int_equal(csv.n_rows, f->s->n_tasks);
	for (uint32_t i = 0; i < csv.n_rows; i++) {
		assert_true(mq_csv_f64(&csv, i, mq_csv_column(&csv, "finish_s"), 0, &value));
		assert_true(fabs(value - f->tl.finish_s[i]) <= 1e-8 * value);
		assert_string_equal(mq_csv_text(&csv, i, mq_csv_column(&csv, "executor")), "analytic");
	}
	FILE *trace = fopen(trace_path, "w");
	mq_timeline_trace(f->s, both, 2, NULL, trace);
	assert_int_equal(fclose(trace), 0);
	json_error_t why;
	json_t *root = json_load_file(trace_path, 0, &why), *event;
	assert_non_null(root);
	size_t i, slices = 0, begun = 0, ended = 0;
	json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
		const char *ph = json_string_value(json_object_get(event, "ph"));
		slices += *ph == 'X';
		begun += *ph == 's';
		ended += *ph == 'f';
	}
	assert_int_equal(slices, 2 * f->s->n_tasks);
	assert_int_equal(begun, 2 * 4);
	assert_int_equal(ended, begun);
	json_decref(root);
	unlink(csv_path);
	unlink(trace_path);
	if (!access("/dev/full", W_OK)) {
		assert_int_equal(mq_timeline_save(f->s, &f->tl, NULL, "/dev/full", &f->err), MQ_EINPUT);
		assert_int_equal(mq_file_create("/dev/full", &trace, &f->err), MQ_OK);
		mq_timeline_trace(f->s, both, 1, NULL, trace);
		assert_int_equal(mq_file_close(trace, "/dev/full", &f->err), MQ_EINPUT);
	} else {
		print_message("skipped: no /dev/full here\n");
	}
}

/* Of two devices with the same number of tasks one has room, or a few of its tasks, the earliest. */
static void files_of_a_size(void **state)
{
	struct fixture *f = *state;
	struct hand_pipe pipe = { .p = 2, .m = 2, .bytes = 1e6 };
	bool show[64];
	uint32_t of_first = 0, n = 0;
	double last = 0;

	pipe.forward = pipe.backward = hand_work(f->s, 0.25);
	hand_pipeline(f->s, &pipe);
	run(f);
	assert_true(f->s->n_tasks <= 64);
	for (uint32_t i = 0; i < f->s->n_tasks; i++)
		of_first += f->s->task[i].device == 0;
	assert_int_equal(mq_timeline_choose(f->s, &f->tl, f->s->n_tasks, show), 2);
	for (uint32_t i = 0; i < f->s->n_tasks; i++)
		assert_true(show[i]);
	assert_int_equal(mq_timeline_choose(f->s, &f->tl, f->s->n_tasks - 1, show), 1);
	for (uint32_t i = 0; i < f->s->n_tasks; i++)
		assert_true(show[i] == (f->s->task[i].device == 0));
	assert_int_equal(mq_timeline_choose(f->s, &f->tl, of_first - 2, show), 1);
	for (uint32_t i = 0; i < f->s->n_tasks; i++)
		if (show[i]) {
			n++;
			last = fmax(last, f->tl.start_s[i]);
		}
	assert_int_equal(n, of_first - 2);
	for (uint32_t i = 0; i < f->s->n_tasks; i++)
		if (!show[i] && f->s->task[i].device == 0)
			assert_true(f->tl.start_s[i] >= last);
}

static void nothing_is_fine(void **state)
{
	struct fixture *f = *state;
	uint32_t *path;

	run(f);
	near(f->tl.step_time_s, 0);
	assert_int_equal(mq_timeline_critical_path(f->s, &f->tl, &f->arena, &path), 0);
	struct mq_breakdown b = mq_timeline_breakdown(f->s, &f->tl, &f->arena);
	near(b.compute_s + b.exposed_comm_s + b.bubble_s, 0);
}

static void nine_digits(void **state)
{
	assert_true(mq_round9(0.123456789449) == 0.123456789);
	assert_true(mq_round9(1.0 / 3) == 0.333333333);
	assert_true(mq_round9(-2e300 / 3) == -6.66666667e299);
	assert_true(mq_round9(0) == 0);
	assert_true(isnan(mq_round9(NAN)));
	assert_true(isinf(mq_round9(INFINITY)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(pipelines_idle_as_they_must, setup, teardown),
		cmocka_unit_test_setup_teardown(hidden_communication_is_not_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(folded_devices_weigh_more, setup, teardown),
		cmocka_unit_test_setup_teardown(groups_are_looked_through, setup, teardown),
		cmocka_unit_test_setup_teardown(files_of_a_size, setup, teardown),
		cmocka_unit_test_setup_teardown(files_have_all_tasks, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_is_fine, setup, teardown),
		cmocka_unit_test(nine_digits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
