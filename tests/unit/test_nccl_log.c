/*
 * test_nccl_log.c - logs of nccl-tests as they lie about: read right, or refused with the line and the reason.
 * The tables are made up; their forms are those of public logs since 2018.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fit/fit.h"

/* Two ranks; an all-reduce's busbw is its algbw then. */
#define RANKS                                                                                \
	"# Using devices\n#  Rank  0 Group  0 Pid  71 on  a1 device  0 [0x07] NVIDIA H100\n" \
	"#  Rank  1 Group  0 Pid  72 on  a1 device  1 [0x0b] NVIDIA H100\n#\n"
#define OLD_RANKS                                                                   \
	"# Using devices\n#   Rank  0 Pid  71 on  a1 device  0 [0x07] Tesla V100\n" \
	"#   Rank  1 Pid  71 on  a1 device  1 [0x0b] Tesla V100\n#\n"
#define HEAD                                                                                        \
	"#                                          out-of-place              in-place\n"           \
	"#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n" \
	"#   (B)  (elements)               (us)  (GB/s)  (GB/s)       (us)  (GB/s)  (GB/s)\n"
#define ROWS                                                                                    \
	"  1048576  262144  float  sum  -1   40.10  26.15  26.15  0   39.90  26.28  26.28  0\n" \
	"  8388608 2097152  float  sum  -1  120.50  69.62  69.62  0  121.00  69.33  69.33  0\n"
#define EIGHT                                                                                              \
	"# Rank 0 on a1\n# Rank 1 on a1\n# Rank 2 on a1\n# Rank 3 on a1\n# Rank 4 on a1\n# Rank 5 on a1\n" \
	"# Rank 6 on a1\n# Rank 7 on a1\n"
#define GATHER "  8388608 1048576  float  none  -1  120.50  69.62  34.81  0  121.00  69.33  34.66  0\n"
#define TAIL   "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 47.8\n#\n"

struct expected {
	const char *file, *text;
	const char *error; /* NULL = read: */
	uint32_t n, ranks, nodes;
	int kind;         /* of the first row, MQ_N_COLL_KINDS = sendrecv */
	double bytes, us; /* of the last row */
};

static const struct expected cases[] = {
	{ "all_reduce_perf.log", RANKS HEAD ROWS TAIL, NULL, 2, 2, 1, MQ_COLL_ALL_REDUCE, 8388608, 120.5 },
	/* Today's first lines name the test. */
	{ "log",
	  "# nccl-tests version 2.18.2 nccl-headers=23007\n# Collective test starting: all_reduce_perf\n" RANKS HEAD
		  ROWS TAIL,
	  NULL, 2, 2, 1, MQ_COLL_ALL_REDUCE, 8388608, 120.5 },
	/* A command line does, NCCL's own lines and colours between. */
	{ "log",
	  "$ mpirun -np 2 ./build/all_reduce_perf -b 1M\n" RANKS
	  "a1:71:75 [0] NCCL INFO comm 0x5 rank 0 nranks 2 - Init COMPLETE\n\033[32m" HEAD "\033[0m" ROWS TAIL,
	  NULL, 2, 2, 1, MQ_COLL_ALL_REDUCE, 8388608, 120.5 },
	/* mpirun --tag-output, srun -l, a collector's timestamps, an indented quotation, carriage returns. */
	{ "all_reduce.log",
	  "[1,0]<stdout>:#  Rank  0 Group  0 Pid  71 on  a1 device  0 [0x07] H100\n"
	  "[1,0]<stdout>:#  Rank  1 Group  0 Pid  72 on  a1 device  1 [0x0b] H100\n"
	  "[1,0]<stdout>:#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
	  "[1,0]<stdout>:  8388608 2097152  float  sum  -1  120.50  69.62  69.62  0  121.00  69.33  69.33  0\n"
	  "[1,0]<stdout>:16777216 4194304  float  sum  -1  220.50  76.09  76.09  0  221.00  75.91  75.91  0\n",
	  NULL, 2, 2, 1, MQ_COLL_ALL_REDUCE, 16777216, 220.5 },
	{ "all_reduce.log",
	  "0: #  Rank  0 Group  0 Pid  71 on  a1 device  0 [0x07] H100\n0: #  Rank  1 Group  0 Pid  72 on  b1 device  0 [0x0b] H100\n"
	  "0: #  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
	  "0:   8388608 2097152  float  sum  -1  120.50  69.62  69.62  0  121.00  69.33  69.33  0\n",
	  NULL, 1, 2, 2, MQ_COLL_ALL_REDUCE, 8388608, 120.5 },
	{ "all_reduce.log",
	  "2024-03-07T10:00:00.123456789Z stdout F #  Rank  0 Group  0 Pid  71 on  a1 device  0 [0x07] H100\n"
	  "2024-03-07T10:00:00.123456789Z stdout F #  Rank  1 Group  0 Pid  72 on  a1 device  1 [0x0b] H100\n"
	  "2024-03-07T10:00:00.223456789Z stdout F #  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
	  "2024-03-07T10:00:01.223456789Z stdout F   8388608 2097152  float  sum  -1  120.50  69.62  69.62  0  121.00  69.33  69.33  0\n",
	  NULL, 1, 2, 1, MQ_COLL_ALL_REDUCE, 8388608, 120.5 },
	{ "all_reduce.log",
	  "2024-03-07 10:00:00 7 worker-0 |     Rank  0 Pid  71 on  a1 device  0 [0x07] H100\r\n"
	  "2024-03-07 10:00:00 7 worker-0 |     Rank  1 Pid  72 on  a1 device  1 [0x0b] H100\r\n"
	  "2024-03-07 10:00:00 7 worker-0 |     size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error\r\n"
	  "2024-03-07 10:00:01 7 worker-0 |  8388608 2097152  float  sum  120.50  69.62  69.62  1e-07  121.00  69.33  69.33  1e-07\r\n",
	  NULL, 1, 2, 1, MQ_COLL_ALL_REDUCE, 8388608, 120.5 },
	/* 2018: errors instead of counts, no root; gathers without an operation. */
	{ "all_reduce.txt",
	  OLD_RANKS "#       size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error\n"
		    "     8388608 2097152  float  sum  120.5  69.62  69.62  0e+00  121.0  69.33  69.33  0e+00\n",
	  NULL, 1, 2, 1, MQ_COLL_ALL_REDUCE, 8388608, 120.5 },
	{ "all_gather.txt",
	  OLD_RANKS "#       size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error\n"
		    "     8388608 1048576  float     120.5  69.62  34.81  0e+00  121.0  69.33  34.66  0e+00\n",
	  NULL, 1, 2, 1, MQ_COLL_ALL_GATHER, 8388608, 120.5 },
	{ "all_gather.txt",
	  OLD_RANKS "#       size  count  type  time  algbw  busbw  error  time  algbw  busbw  error\n"
		    "     8388608 1048576  float     120.5  69.62  69.62  0e+00  121.0  69.33  69.33  0e+00\n",
	  NULL, 1, 2, 1, MQ_COLL_ALL_GATHER, 8388608, 120.5 },
	/* No check asked for; broadcasts; whole microseconds; messages. */
	{ "broadcast_perf.log",
	  RANKS HEAD "  8388608 2097152  float  none  0  120.50  69.62  69.62  N/A  121.00  69.33  69.33  N/A\n"
		     " 536870912 134217728 float none 0  7000  76.70  76.70 N/A  7000  76.70  76.70 N/A\n",
	  NULL, 2, 2, 1, MQ_COLL_BROADCAST, 536870912, 7000 },
	{ "sendrecv.log",
	  RANKS HEAD "  8388608 2097152  float    -1  120.50  69.62  69.62  0  121.00  69.33  69.33  N/A\n", NULL, 1, 2,
	  1, MQ_N_COLL_KINDS, 8388608, 120.5 },
	{ "alltoall.log",
	  RANKS HEAD "  8388608 1048576  float  none  -1  120.50  69.62  34.81  0  121.00  69.33  34.66  N/A\n", NULL,
	  1, 2, 1, MQ_COLL_ALL_TO_ALL, 8388608, 120.5 },
	{ "alltoall.log",
	  RANKS "#  size  count  type  redop  root  time  algbw  busbw #wrong\n"
		"  8388608 1048576  float  none  -1  120.50  69.62  34.81  0\n",
	  NULL, 1, 2, 1, MQ_COLL_ALL_TO_ALL, 8388608, 120.5 },
	/* Other types; a size that is no call. */
	{ "reduce_scatter.log",
	  RANKS HEAD "        0       0  bfloat16  sum  -1  7.10  0.00  0.00  0  7.20  0.00  0.00  0\n"
		     "  8388608 2097152  bfloat16  sum  -1  120.50  69.62  34.81  0  121.00  69.33  34.66  0\n",
	  NULL, 1, 2, 1, MQ_COLL_REDUCE_SCATTER, 8388608, 120.5 },
	/* No lines of ranks: 2(n - 1)/n = 1.75, so 8. */
	{ "all_reduce.log",
	  HEAD " 8589934592 2147483648 float sum -1  30000  286.33  501.08  0  30000  286.33  501.08  0\n", NULL, 1, 8,
	  0, MQ_COLL_ALL_REDUCE, 8589934592, 30000 },
	/* Two tests in one file, each named. */
	{ "log",
	  "# Collective test starting: all_reduce_perf\n" RANKS HEAD ROWS TAIL
	  "# Collective test starting: all_gather_perf\n" RANKS HEAD
	  "  8388608 1048576  float  none  -1  120.50  69.62  34.81  0  121.00  69.33  34.66  0\n" TAIL,
	  NULL, 3, 2, 1, MQ_COLL_ALL_REDUCE, 8388608, 120.5 },

	/* A time that has no room for its digits. */
	{ "sendrecv.log",
	  RANKS HEAD "  17179869184 2147483648  double  sum  -1  1.7e+07  1.02  1.02  0  1.7e+07  1.00  1.00  N/A\n",
	  NULL, 1, 2, 1, MQ_N_COLL_KINDS, 17179869184, 1.7e7 },
	/* Names as people write them; of two collectives' names none is taken. */
	{ "AllReduce-2gpus.log", RANKS HEAD ROWS, NULL, 2, 2, 1, MQ_COLL_ALL_REDUCE, 8388608, 120.5 },
	{ "nccl_reducescatter.log",
	  RANKS HEAD "  8388608 2097152  float  sum  -1  120.50  69.62  34.81  0  121.00  69.33  34.66  0\n", NULL, 1,
	  2, 1, MQ_COLL_REDUCE_SCATTER, 8388608, 120.5 },
	{ "allgather_and_reducescatter.log", RANKS HEAD GATHER, ":8: which collective", 0, 0, 0, 0, 0, 0 },
	/* No name: redop, root and busbw tell those that add; between two ranks an all-reduce is like a sendrecv. */
	{ "job-17.out",
	  EIGHT HEAD "  8388608 2097152  float  sum  -1  120.50  69.62 121.83  0  121.00  69.33 121.33  0\n", NULL, 1,
	  8, 1, MQ_COLL_ALL_REDUCE, 8388608, 120.5 },
	{ "job-17.out",
	  HEAD "  536870912 134217728  float  sum  -1  1205.0  445.54 389.84  0  1210.0  443.70 388.23  0\n", NULL, 1,
	  8, 0, MQ_COLL_REDUCE_SCATTER, 536870912, 1205 },
	{ "job-17.out",
	  RANKS HEAD "  8388608 2097152  float  sum  0  120.50  69.62  69.62  0  121.00  69.33  69.33  0\n", NULL, 1, 2,
	  1, MQ_COLL_REDUCE, 8388608, 120.5 },
	{ "log", RANKS HEAD ROWS, ":9: which collective", 0, 0, 0, 0, 0, 0 },
	{ "log", EIGHT HEAD "  8388608 1048576  float  none  -1  120.50  69.62  60.92  0  121.00  69.33  60.66  0\n",
	  "which collective", 0, 0, 0, 0, 0, 0 },
	{ "all_reduce.log", RANKS HEAD ROWS RANKS HEAD ROWS, ":18: which collective", 0, 0, 0, 0, 0, 0 },
	{ "alltoall.log", RANKS HEAD ROWS, "redop says that this is no alltoall", 0, 0, 0, 0, 0, 0 },
	{ "all_reduce.log", RANKS HEAD "  8388608 2097152  float  sum  -1  120.50  69.62  69.62  0  121.00\n",
	  ":8: a row with other columns", 0, 0, 0, 0, 0, 0 },
	{ "all_reduce.log",
	  RANKS HEAD "  8388608 2097152  float  sum  -1  69.62  69.62  0  120.50  121.00  69.33  69.33  0\n",
	  ":8: size over time is not the algbw", 0, 0, 0, 0, 0, 0 },
	{ "all_reduce.log",
	  RANKS HEAD "  8388608 2097152  float  sum  -1  120.50  69.62  69.62  17  121.00  69.33  69.33  0\n",
	  ":8: this run got wrong results", 0, 0, 0, 0, 0, 0 },
	{ "all_reduce.log", "#  Rank  0 Pid 71 on a1 device 0\n#  Rank  0 Pid 72 on a1 device 0\n" HEAD ROWS,
	  ":2: a second rank 0", 0, 0, 0, 0, 0, 0 },
	{ "all_reduce.log", "#  Rank  0 Pid 71 on a1 device 0\n#  Rank  3 Pid 72 on a1 device 0\n" HEAD ROWS,
	  ":2: the ranks before this one", 0, 0, 0, 0, 0, 0 },
	/* A gather's table under an all-reduce's name. */
	{ "all_reduce.log", RANKS HEAD GATHER, "redop says that this is no all_reduce", 0, 0, 0, 0, 0, 0 },
	{ "broadcast.log", RANKS HEAD GATHER, "busbw is 0.500 of algbw", 0, 0, 0, 0, 0, 0 },
	/* The factor's digits leave 100 ranks and more. */
	{ "all_reduce.log", HEAD "  1048576  262144  float  sum  -1   400.10  2.62  5.19  0   399.90  2.62  5.19  0\n",
	  ":4: no 'Rank N ... on HOST' lines", 0, 0, 0, 0, 0, 0 },
	{ "broadcast.log", HEAD "  8388608 2097152  float  none  0  120.50  69.62  69.62  0  121.00  69.33  69.33  0\n",
	  "no 'Rank N ... on HOST' lines", 0, 0, 0, 0, 0, 0 },
	{ "all_reduce.log", RANKS ROWS, ":5: a row without the line that names its columns", 0, 0, 0, 0, 0, 0 },
	{ "all_reduce.log", RANKS "#  size  count  type  redop  root  time  algbw  busbw  extra more #wrong\n",
	  "columns of a table that this does not know", 0, 0, 0, 0, 0, 0 },
	{ "all_reduce.log", RANKS "#  size  count  type  redop  root  cputime  algbw  busbw #wrong\n",
	  "times of the processor (-C)", 0, 0, 0, 0, 0, 0 },
	/* -I: single iterations; a timestamp */
	{ "all_reduce.log",
	  RANKS
	  "#  size  count  type  redop  root  time  algbw  busbw #wrong i_min i_max i_p99 i_cv%  time  algbw  busbw "
	  "#wrong i_min i_max i_p99 i_cv% timestamp\n"
	  "  1048576  262144  float  sum  -1   40.10  26.15  26.15  0 39 41 41 1.5 39.90  26.28  26.28  0 39 41 41 1.5 "
	  "2026-11-26 12:00:00\n",
	  NULL, 1, 2, 1, MQ_COLL_ALL_REDUCE, 1048576, 40.10 },
	/* -J: as JSON; two processes of two ranks */
	{ "x.json",
	  "{\"version\":3,\"args\":[\"./build/all_gather_perf\",\"-J\",\"x.json\"],\"config\":{\"nthreads\":1,\"ngpus\":2,"
	  "\"devices\":[{\"rank\":0,\"hostname\":\"a1\"},{\"rank\":2,\"hostname\":\"a2\"}]},\"results\":[{\"size\":0,"
	  "\"count\":0,\"type\":\"float\",\"out_of_place\":{\"time\":9.5,\"alg_bw\":0.0,\"bus_bw\":0.0,\"nwrong\":0.0}},"
	  "{\"size\":1048576,\"out_of_place\":{\"time\":40.1,\"alg_bw\":26.149027,\"bus_bw\":19.611770,"
	  "\"nwrong\":null}}]}",
	  NULL, 1, 4, 2, MQ_COLL_ALL_GATHER, 1048576, 40.1 },
	{ "all_gather.json",
	  "{\"config\":{\"nthreads\":1,\"ngpus\":2,\"devices\":[{\"rank\":0}]},\"results\":[{\"size\":1048576,"
	  "\"out_of_place\":{\"time\":40.1,\"alg_bw\":26.149027,\"bus_bw\":26.149027,\"nwrong\":3.0}}]}",
	  ":1: this run got wrong results", 0, 0, 0, 0, 0, 0 },
	/* rccl-tests' -Z json */
	{ "x.json",
	  "[\n{\"numCycle\":0, \"name\":\"AllReduce\", \"nodes\":2, \"ranks\":16, \"size\":1048576, \"inPlace\":1, "
	  "\"time\":50.0, \"algBw\":20.97152, \"busBw\":39.3216, \"wrong\":\"0\"},\n{\"name\":\"AllReduce\", "
	  "\"ranks\":16, \"size\":1048576, \"inPlace\":0, \"time\":40.0, \"algBw\":26.2144, \"busBw\":49.152, "
	  "\"wrong\":\"N/A\"}\n]\n",
	  NULL, 1, 16, 2, MQ_COLL_ALL_REDUCE, 1048576, 40 },
	{ "x.json",
	  "[{\"numCycle\":0, \"name\":\"AllReduce\", \"nodes\":1, \"ranks\":8, \"size\":8, \"inPlace\":0, "
	  "\"time\":40.0, \"algBw\":0.0002, \"busBw\":0.00035, \"wrong\":\"3\"}]",
	  "wrong results", 0, 0, 0, 0, 0, 0 },
	{ "x.json",
	  "[{\"numCycle\":0, \"name\":\"AllReduce\", \"nodes\":1, \"ranks\":8, \"size\":0, \"inPlace\":0, "
	  "\"time\":40.0, \"algBw\":0, \"busBw\":0, \"wrong\":0}, {\"name\":\"AllGather\", \"ranks\":8}]",
	  ":2: a result of another collective", 0, 0, 0, 0, 0, 0 },
	{ "all_gather.json", "{\"a\": 1}", "no JSON of nccl-tests", 0, 0, 0, 0, 0, 0 },
	{ "gather_perf.log", RANKS HEAD ROWS, "leave their tables out", 0, 0, 0, 0, 0, 0 },
	{ "x.log", "./alltoallv_perf -b 8\n" RANKS HEAD ROWS, "leave their tables out", 0, 0, 0, 0, 0, 0 },
	{ "all_reduce.log", RANKS HEAD TAIL, "a table without rows", 0, 0, 0, 0, 0, 0 },
	{ "all_reduce.log", "make: *** [all_reduce] Error 1\n", "no rows of a nccl-tests table", 0, 0, 0, 0, 0, 0 },
	{ "train.log", "a1:71:75 [0] NCCL INFO Channel 00/16 : 0 1\n", "not how long a call takes", 0, 0, 0, 0, 0, 0 },
};

static void check(const struct expected *e)
{
	struct mq_arena a = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	char dir[] = "/tmp/mq-log-XXXXXX", path[64];
	struct mq_nccl_row *row;
	uint32_t n;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/%s", dir, e->file);
	FILE *f = fopen(path, "w");
	fputs(e->text, f);
	fclose(f);
	enum mq_status status = mq_nccl_log_load(path, &a, &row, &n, &err);
	unlink(path);
	rmdir(dir);
	if (e->error && (status != MQ_EINPUT || !strstr(err.text, e->error)))
		fail_msg("'%s' instead of '%s'", status ? err.text : "read", e->error);
	if (!e->error && status)
		fail_msg("%s\n%s", err.text, e->text);
	for (uint32_t i = 0; !e->error && i < 1; i++) {
		const struct mq_nccl_row *last = &row[n - 1];
		int kind = row[0].sendrecv ? MQ_N_COLL_KINDS : (int)row[0].kind;

		if (n != e->n || row[0].ranks != e->ranks || row[0].nodes != e->nodes || kind != e->kind ||
		    last->bytes != e->bytes || fabs(1e6 * last->seconds - e->us) > 1e-6)
			fail_msg("%u rows of %u ranks on %u nodes, kind %d, last %g B in %g us:\n%s", n, row[0].ranks,
				 row[0].nodes, kind, last->bytes, 1e6 * last->seconds, e->text);
	}
	mq_arena_fini(&a);
}

static void logs(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check(&cases[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(logs) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
