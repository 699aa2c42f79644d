/* test_schedule.c - the check of schedules and their files. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "schedule/events.h"
#include "schedules.h"

struct fixture {
	struct mq_arena arena;
	struct mq_cluster *cluster;
	struct mq_schedule *s;
	struct mq_err err;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->cluster = mq_cluster_flat(&f->arena, 4, "T", 1e12, 16e9, 1e9, 0);
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

static void refuses(struct fixture *f, const char *words, bool cycle)
{
	bool deadlock = !cycle;

	assert_int_equal(mq_schedule_check(f->s, &deadlock, &f->err), MQ_EINPUT);
	assert_int_equal(deadlock, cycle);
	if (!strstr(f->err.text, words))
		fail_msg("\"%s\" does not say \"%s\"", f->err.text, words);
}

static void accepts_pipelines(void **state)
{
	struct fixture *f = *state;
	struct hand_pipe pipe = { .p = 4, .m = 8, .bytes = 1e6 };
	bool deadlock;

	pipe.forward = hand_work(f->s, 1);
	pipe.backward = hand_work(f->s, 2);
	hand_pipeline(f->s, &pipe);
	assert_int_equal(mq_schedule_check(f->s, &deadlock, &f->err), MQ_OK);
	pipe.gpipe = true;
	hand_pipeline(f->s, &pipe); /* a second step behind the first */
	assert_int_equal(mq_schedule_check(f->s, &deadlock, &f->err), MQ_OK);
}

static void pairs_messages_in_order(void **state)
{
	struct fixture *f = *state;
	uint32_t a = hand_send(f->s, 0, 1, 10), b = hand_send(f->s, 0, 1, 20);
	uint32_t back = hand_send(f->s, 1, 0, 30);
	uint32_t c = hand_recv(f->s, 1, 0, 10), d = hand_recv(f->s, 1, 0, 20);
	uint32_t e = hand_recv(f->s, 0, 1, 30), *match, *call;

	assert_int_equal(mq_schedule_match(f->s, &f->arena, &match, &call, &f->err), MQ_OK);
	assert_int_equal(match[a], c);
	assert_int_equal(match[c], a);
	assert_int_equal(match[b], d);
	assert_int_equal(match[back], e);
	assert_int_equal(call[b], 1);
	assert_int_equal(call[back], 0);
}

static void channels_are_separate(void **state)
{
	struct fixture *f = *state;
	uint32_t a = hand_send(f->s, 0, 1, 10), b = hand_send(f->s, 0, 1, 20), *match, *call;

	f->s->task[a].channel = 1;
	uint32_t c = hand_recv(f->s, 1, 0, 20), d = hand_recv(f->s, 1, 0, 10);
	f->s->task[d].channel = 1;
	assert_int_equal(mq_schedule_match(f->s, &f->arena, &match, &call, &f->err), MQ_OK);
	assert_int_equal(match[a], d);
	assert_int_equal(match[b], c);
	/* ... but both streams are in order: the first send waits for the second recv. */
	refuses(f, "deadlock", true);
}

static void finds_missing_ends(void **state)
{
	struct fixture *f = *state;

	hand_send(f->s, 0, 1, 10);
	refuses(f, "has no recv at the other end", false);
	hand_recv(f->s, 1, 0, 11);
	refuses(f, "another size", false);
}

static void finds_cycles(void **state)
{
	struct fixture *f = *state;
	uint32_t w = hand_work(f->s, 1);

	/* Each device computes after its recv and sends after computing: both wait. */
	for (uint32_t d = 0; d < 2; d++) {
		uint32_t r = hand_recv(f->s, d, 1 - d, 5);
		uint32_t c = hand_compute(f->s, d, w);
		hand_dep(f->s, r);
		hand_send(f->s, d, 1 - d, 5);
		hand_dep(f->s, c);
	}
	refuses(f, "deadlock: task", true);
}

static void finds_unequal_calls(void **state)
{
	struct fixture *f = *state;
	uint32_t comm = hand_comm(f->s, 0, 1, 2);

	hand_collective(f->s, 0, comm, MQ_COLL_ALL_REDUCE, 100);
	refuses(f, "calls communicator 0", false);
	hand_collective(f->s, 1, comm, MQ_COLL_ALL_GATHER, 100);
	refuses(f, "differs from what another member calls", false);
	f->s->task[1].coll = MQ_COLL_ALL_REDUCE;
	bool deadlock;
	assert_int_equal(mq_schedule_check(f->s, &deadlock, &f->err), MQ_OK);
	hand_collective(f->s, 2, comm, MQ_COLL_ALL_REDUCE, 100);
	refuses(f, "not by a member", false);
}

static void checks_fields(void **state)
{
	struct fixture *f = *state;
	uint32_t w = hand_work(f->s, 1), t = hand_compute(f->s, 0, w);

	f->s->task[t].device = 9;
	refuses(f, "device 9", false);
	f->s->task[t].device = 0;
	f->s->task[t].work = 3;
	refuses(f, "work 3", false);
	f->s->task[t].work = w;
	f->s->task[t].bytes = -1;
	refuses(f, "bytes -1", false);
	f->s->task[t].bytes = 0;
	hand_dep(f->s, t);
	refuses(f, "cannot wait for itself", false);
	f->s->dep[0] = 77;
	refuses(f, "same device", false);
}

static void groups_start_together(void **state)
{
	struct fixture *f = *state;
	bool deadlock;

	/* A ring of sends before recvs on ONE stream only works as groups. */
	for (uint32_t grouped = 0; grouped < 2; grouped++) {
		f->s->n_tasks = 0;
		for (uint32_t d = 0; d < 3; d++) {
			uint32_t a = hand_send(f->s, d, (d + 1) % 3, 8);
			uint32_t b = hand_recv(f->s, d, (d + 2) % 3, 8);
			f->s->task[b].stream = MQ_STREAM_SEND;
			f->s->task[a].group = f->s->task[b].group = grouped;
		}
		enum mq_status status = mq_schedule_check(f->s, &deadlock, &f->err);
		assert_int_equal(status, grouped ? MQ_OK : MQ_EINPUT);
		assert_int_equal(deadlock, !grouped);
	}
	uint32_t w = hand_work(f->s, 1);
	uint32_t x = hand_compute(f->s, 0, w);
	f->s->task[x].stream = MQ_STREAM_SEND;
	uint32_t y = hand_compute(f->s, 0, w);
	f->s->task[y].stream = MQ_STREAM_SEND;
	f->s->task[y].group = 1;
	refuses(f, "group that its stream has left", false);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void fill_everything(struct mq_schedule *s)
{
	struct hand_pipe pipe = { .p = 4, .m = 3, .bytes = 1e6 / 3 };
	uint32_t comm = hand_comm(s, 0, 2, 2);

	s->model = "a \"model\" \\ with\ttext";
	s->plan_hash = 0xfedcba9876543210u;
	s->model_hash = 7;
	pipe.forward = hand_work(s, 1.0 / 3);
	pipe.backward = hand_work(s, 2.385e-5);
	struct mq_kernel *k = s->work[pipe.backward].kernel;
	*k = (struct mq_kernel){ .op = 1,
				 .kind = MQ_KERNEL_GEMM,
				 .phase = MQ_BACKWARD,
				 .dtype = MQ_BF16,
				 .causal = true,
				 .m = 0.1,
				 .n = 1e9 - 0.1,
				 .k = 3,
				 .count = 2,
				 .flop = 1.1,
				 .bytes = 2.2,
				 .launches = 1.5 };
	s->work[pipe.backward].model_flop = 1e15 / 7;
	s->work[pipe.backward].host = 2.5;
	s->work[pipe.backward].waits = true;
	uint32_t more = hand_work(s, 1); /* what belongs to one kind of kernel alone */
	*s->work[more].kernel = (struct mq_kernel){ .op = 1,
						    .kind = MQ_KERNEL_ATTENTION,
						    .steps = .75,
						    .count = 1,
						    .attention = MQ_ATTENTION_TE,
						    .launches = 1 };
	more = hand_work(s, 1);
	*s->work[more].kernel = (struct mq_kernel){ .op = 1,
						    .kind = MQ_KERNEL_CONV,
						    .layout = 1.5,
						    .count = 1,
						    .winograd = 1.25,
						    .volume = true,
						    .work = 2.5,
						    .of_weights = true,
						    .of_input = true,
						    .untimed = true,
						    .graphed = true,
						    .launches = 1,
						    .image = { 224, 225, 112, 113, 7, 5, 2, 1 } };
	s->work[pipe.forward].kernel->time_s = INFINITY;
	more = hand_work(s, 1); /* a host that had more ahead than it needs */
	*s->work[more].kernel = (struct mq_kernel){ .op = MQ_NONE, .kind = MQ_KERNEL_CALL, .time_s = -2.5e-6 };
	s->n_ops = 2;
	s->op_name = mq_arena_array(s->arena, 2, const char *);
	s->op_name[0] = "layer0.qkv";
	s->op_name[1] = "läyer";
	hand_pipeline(s, &pipe);
	for (uint32_t d = 0; d < 4; d += 2) {
		uint32_t t = hand_collective(s, d, comm, MQ_COLL_BROADCAST, 1e9 + 0.5);
		s->task[t].root = 1;
		s->task[t].algo = MQ_ALGO_RING;
		s->task[t].proto = MQ_PROTO_LL128;
		s->task[t].dtype = MQ_FP16;
		s->task[t].micro_batch = 2;
		s->task[t].stage = 3;
		s->task[t].group = 4;
		s->task[t].phase = MQ_UPDATE;
		s->task[t].op = 1;
		hand_dep(s, d ? 13 : 0);
		s->dep[s->task[t].dep_first] = d ? t - 3 : 0;
		for (uint32_t i = 0; s->task[s->dep[s->task[t].dep_first]].device != d; i++)
			s->dep[s->task[t].dep_first] = i;
	}
	uint32_t c = hand_task(s, 3, MQ_TASK_COPY, MQ_STREAM_COPY);
	s->task[c].bytes = 12345;
}

static void same_works(const struct mq_schedule *a, const struct mq_schedule *b)
{
	assert_int_equal(a->n_works, b->n_works);
	for (uint32_t w = 0; w < a->n_works; w++) {
		const struct mq_work *x = &a->work[w], *y = &b->work[w];
		assert_true(x->flop == y->flop && x->bytes == y->bytes);
		assert_true(x->model_flop == y->model_flop && x->host == y->host && x->waits == y->waits);
		assert_int_equal(x->n_kernels, y->n_kernels);
		assert_memory_equal(x->kernel, y->kernel, x->n_kernels * sizeof(*x->kernel));
	}
}

static void files_give_back_the_same(void **state)
{
	struct fixture *f = *state;
	struct mq_schedule *s = f->s, *back;
	char path[] = "/tmp/mq-schedule-XXXXXX", again[] = "/tmp/mq-schedule-XXXXXX";

	close(mkstemp(path));
	close(mkstemp(again));
	fill_everything(s);
	s->clock = mq_arena_array(&f->arena, s->n_devices, double);
	for (uint32_t d = 0; d < s->n_devices; d++)
		s->clock[d] = 1 / (1 + d / 7.0);
	assert_int_equal(mq_schedule_check(s, NULL, &f->err), MQ_OK);
	assert_int_equal(mq_schedule_save(s, path, &f->err), MQ_OK);
	if (mq_schedule_load(path, &f->arena, &back, &f->err))
		fail_msg("%s", f->err.text);
	assert_string_equal(s->model, back->model);
	assert_true(s->plan_hash == back->plan_hash && s->model_hash == back->model_hash);
	assert_memory_equal(s->clock, back->clock, s->n_devices * sizeof(*s->clock));
	assert_int_equal(s->n_tasks, back->n_tasks);
	assert_string_equal(back->op_name[1], "läyer");
	assert_string_equal(back->comm[0].purpose, "dp");
	same_works(s, back);
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		struct mq_task x = s->task[i], y = back->task[i];
		assert_int_equal(x.n_deps, y.n_deps);
		for (uint32_t d = 0; d < x.n_deps; d++)
			assert_int_equal(s->dep[x.dep_first + d], back->dep[y.dep_first + d]);
		x.dep_first = y.dep_first = 0;
		assert_memory_equal(&x, &y, offsetof(struct mq_task, phase) + 1);
		assert_true(x.bytes == y.bytes);
	}
	assert_int_equal(mq_schedule_save(back, again, &f->err), MQ_OK);
	char command[100];
	snprintf(command, sizeof(command), "cmp %s %s", path, again);
	assert_int_equal(system(command), 0);
	unlink(path);
	unlink(again);
}

static void load_refuses(struct fixture *f, const char *text, const char *words)
{
	char path[] = "/tmp/mq-schedule-XXXXXX";
	int fd = mkstemp(path);
	struct mq_schedule *s;

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	assert_int_equal(mq_schedule_load(path, &f->arena, &s, &f->err), MQ_EINPUT);
	unlink(path);
	assert_null(s);
	if (!strstr(f->err.text, words))
		fail_msg("\"%s\" does not say \"%s\"", f->err.text, words);
}

#define HEAD_OF(more)                                                                                            \
	"{\"maquette_schedule\":1,\"model\":\"m\",\"plan_hash\":\"0\",\"model_hash\":\"0\","                     \
	"\"devices\":[{\"rank\":0,\"name\":\"a\",\"type\":\"T\"" more "}],\"comms\":[],\"ops\":[],\"works\":[]," \
	"\"tasks\":"
#define HEAD HEAD_OF("")

static void broken_files_are_named(void **state)
{
	struct fixture *f = *state;

	load_refuses(f, "", "empty");
	load_refuses(f, "[1]\n", ":1: not a JSON object");
	load_refuses(f, "{\"maquette_schedule\":2}\n", ":1:");
	load_refuses(f, HEAD_OF(",\"clock\":0") "1}\n", "\"clock\" must be a number from 0.01 to 1");
	load_refuses(f, HEAD_OF(",\"clock\":1.5") "1}\n", "\"clock\" must be a number from 0.01 to 1");
	load_refuses(f, HEAD "1}\n", "cut short: 0 of 1");
	load_refuses(f, HEAD "1}\n{\"id\":0,\"device\":0", ":2: not a JSON object");
	load_refuses(f,
		     HEAD "1}\n{\"id\":0,\"device\":0,\"kind\":\"copy\",\"stream\":\"copy\","
			  "\"bytes\":\"x\"}\n",
		     "\"bytes\" must be a number");
	load_refuses(f, HEAD "1}\n{\"id\":0,\"device\":4,\"kind\":\"copy\",\"stream\":\"copy\"}\n", "no such device");
	load_refuses(f, HEAD "1}\n{\"id\":0,\"device\":0,\"kind\":\"copy\",\"stream\":\"left\"}\n",
		     "\"stream\" must be a known name");
	load_refuses(f, HEAD "0}\n{\"id\":0,\"device\":0,\"kind\":\"copy\",\"stream\":\"copy\"}\n", "there are more");
	load_refuses(f, HEAD "4294967294}\n", "cut short");
}

/* What an executor cannot make a size of is refused before it tries. */
static void sizes_are_bounded(void **state)
{
	static const struct {
		const char *kernel, *says;
	} bad[] = {
		{ "\"m\":1e18", "\"m\" must be a number from 0 to 1e+09" },
		{ "\"m\":-1", "\"m\" must be" },
		{ "\"n\":1e10", "\"n\" must be" },
		{ "\"k\":-0.5", "\"k\" must be" },
		{ "\"count\":1e300", "\"count\" must be" },
		{ "\"bytes\":1e19", "\"bytes\" must be a number from 0 to 1e+18" },
		{ "\"flop\":-1", "\"flop\" must be" },
		{ "\"time_s\":-1", "\"time_s\" must be" },
		{ "\"launches\":-1", "\"launches\" must be" },
		{ "\"image\":[7,7,7,7,3,3,1]", "\"image\" must be [h, w, out_h" },
		{ "\"image\":[7,7,7,7,3,3,1,0]", "\"image\" must be" },
		{ "\"image\":[7,7,7,7,300,3,1,1]", "\"image\" must be" },
		{ "\"image\":7", "\"image\" must be" },
	};
	struct fixture *f = *state;
	char text[512];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(text, sizeof(text),
			 "{\"maquette_schedule\":1,\"model\":\"m\",\"plan_hash\":\"0\",\"model_hash\":\"0\","
			 "\"devices\":[{\"rank\":0,\"name\":\"a\",\"type\":\"T\"}],\"comms\":[],\"ops\":[],"
			 "\"works\":[{\"flop\":1,\"bytes\":1,\"model_flop\":1,\"kernels\":[{\"kind\":\"gemm\",%s}]}],"
			 "\"tasks\":0}\n",
			 bad[i].kernel);
		load_refuses(f, text, bad[i].says);
	}
	load_refuses(f,
		     HEAD "1}\n{\"id\":0,\"device\":0,\"kind\":\"copy\",\"stream\":\"copy\","
			  "\"bytes\":1e300}\n",
		     "\"bytes\" must be a number from 0");
}

static void full_disk_is_an_error(void **state)
{
	struct fixture *f = *state;

	if (access("/dev/full", W_OK)) {
		print_message("skipped: no /dev/full here\n");
		skip();
	}
	fill_everything(f->s);
	assert_int_equal(mq_schedule_save(f->s, "/dev/full", &f->err), MQ_EINPUT);
	assert_non_null(strstr(f->err.text, "/dev/full"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(accepts_pipelines, setup, teardown),
		cmocka_unit_test_setup_teardown(pairs_messages_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(channels_are_separate, setup, teardown),
		cmocka_unit_test_setup_teardown(finds_missing_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(finds_cycles, setup, teardown),
		cmocka_unit_test_setup_teardown(finds_unequal_calls, setup, teardown),
		cmocka_unit_test_setup_teardown(checks_fields, setup, teardown),
		cmocka_unit_test_setup_teardown(groups_start_together, setup, teardown),
		cmocka_unit_test_setup_teardown(files_give_back_the_same, setup, teardown),
		cmocka_unit_test_setup_teardown(broken_files_are_named, setup, teardown),
		cmocka_unit_test_setup_teardown(sizes_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(full_disk_is_an_error, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
