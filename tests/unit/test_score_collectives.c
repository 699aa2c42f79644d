/*
 * test_score_collectives.c - machines read from a table's columns; the score of a table of collectives.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "score/score.h"
#include "score/fabrics.h"
#include "shipped.h"
#include "libraries.h"

#define HEADER "gpu,gpus,nodes,inside,nvls,nics,nic_Gbps,fabric,algo,proto,per_process,nccl_version,threads\n"

/* The system of a row, or why it is none. */
static enum mq_status read_cells(struct mq_arena *arena, const char *cells, struct mq_fabric_spec *spec,
				 struct mq_err *err)
{
	char path[] = "/tmp/mq_fabric_XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");
	struct mq_csv csv;

	assert_non_null(file);
	fprintf(file, HEADER "%s\n", cells);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(mq_csv_load(path, arena, &csv, err), MQ_OK);
	unlink(path);
	return mq_fabric_read(&csv, 0, shipped_calib(arena), spec, err);
}

static struct mq_fabric_spec read_row(struct mq_arena *arena, const char *cells)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_fabric_spec spec;

	if (read_cells(arena, cells, &spec, &err) != MQ_OK)
		fail_msg("%s", err.text);
	return spec;
}

/* What a row says, and what is usual beside its GPU where it is silent. */
static void test_columns(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_fabric_spec s;

	s = read_row(&arena, "H100,16,2,nvswitch,1,8,400,ib,nvlstree,simple,,2.18.3");
	assert_string_equal(s.type, "H100-SXM-80GB");
	assert_true(s.inside == MQ_INSIDE_SWITCH && s.nvls && s.rails == 8 && s.fabric == MQ_FABRIC_IB &&
		    fabs(s.nic_Bps - 50e9) < 1 && s.per_thread == 1 && s.nccl_version == 21803 &&
		    s.algo == MQ_ALGO_NVLS_TREE && s.proto == MQ_PROTO_SIMPLE);
	s = read_row(&arena, "H100,16,2");
	assert_true(s.inside == MQ_INSIDE_SWITCH && !s.nvls && s.rails == 8 && fabs(s.nic_Bps - 50e9) < 1);
	assert_true(read_row(&arena, "H100,8,1").nvls && !read_row(&arena, "H100,8,1,,0").nvls);
	assert_true(read_row(&arena, "B200,16,2").nvls);
	s = read_row(&arena, "V100-SXM2-16GB,8,1");
	assert_true(s.inside == MQ_INSIDE_CUBE && !s.nvls && s.per_thread == 8);
	assert_true(read_row(&arena, "V100-SXM2-16GB,4,1").inside == MQ_INSIDE_QUAD);
	assert_true(read_row(&arena, "RTX-4090,8,1").inside == MQ_INSIDE_HOST);
	assert_true(read_row(&arena, "RTX-4090,8,1,pcie").inside == MQ_INSIDE_PCIE);
	assert_true(read_row(&arena, "L40S,8,1").inside == MQ_INSIDE_PCIE);
	s = read_row(&arena, "V100-PCIE-16GB,8,2,host,,1,10,eth");
	assert_true(s.inside == MQ_INSIDE_HOST && s.fabric == MQ_FABRIC_ETHERNET && s.rails == 1 &&
		    fabs(s.nic_Bps - 1.25e9) < 1);
	s = read_row(&arena, "A100,16,2,,,16,100,roce"); /* two ports for each GPU */
	assert_true(s.fabric == MQ_FABRIC_ROCE && s.rails == 8 && fabs(s.nic_Bps - 25e9) < 1);
	s = read_row(&arena, "H100,16,2,,,4,200,tcpx"); /* not the tcpxo of A3 Mega */
	assert_true(s.fabric == MQ_FABRIC_TCPX && s.rails == 4);
	s = read_row(&arena, "T4,2,2,,,1,,efa,,simple,0");
	assert_true(s.inside == MQ_INSIDE_NONE && s.fabric == MQ_FABRIC_EFA && s.per_thread == 0);
	/* nccl-tests -t 4 -g 2: each of four threads launches on two GPUs */
	assert_true(fabs(read_row(&arena, "H100,8,1,,,,,,,,8,,4").per_thread - 2) < 1e-12);
	assert_true(fabs(read_row(&arena, "H100,8,1,,,,,,,,,,8").per_thread - 1) < 1e-12);
	s = read_row(&arena, "RTX-2080Ti,2,1,nvlink-pairs");
	assert_true(s.inside == MQ_INSIDE_PAIRS && fabs(s.nvlink_Bps - 50e9) < 1);
	mq_arena_fini(&arena);
}

static void test_unknown_machine(void **state)
{
	static const char *const bad[][2] = {
		{ "abacus,8,1", "gpu 'abacus'" },
		{ "P100,8,1,nvswitch", "NVLink, which P100 has not" },
		{ "H100,9,2", "as many in every node" },
		{ "V100-SXM2-16GB,16,1,cube-mesh", "it has 8" },
		{ "H100,8,1,string", "inside 'string' is unknown" },
		{ "H100,16,2,,,,,carrier-pigeon", "fabric 'carrier-pigeon'" },
		{ "H100,16,2,,,0,400,ib", "give nics and nic_Gbps" },
		{ "H100,16,2,,,many,400,ib", "nics 'many' is not a number" },
		{ "H100,16,2,,,,,,spiral", "algo 'spiral'" },
		{ "H100,8,1,,,,,,,,8,,9", "threads '9' is not a number from 1 to the 8 GPUs of a process" },
		{ "H100,8,1,,,,,,,,8,,0", "threads '0'" },
	};
	struct mq_arena arena = MQ_ARENA_INIT;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct mq_err err = MQ_ERR_INIT;
		struct mq_fabric_spec spec;

		assert_int_equal(read_cells(&arena, bad[i][0], &spec, &err), MQ_EINPUT);
		if (!strstr(err.text, bad[i][1]))
			fail_msg("'%s' has no '%s'", err.text, bad[i][1]);
	}
	mq_arena_fini(&arena);
}

struct bench {
	struct mq_arena arena;
	struct mq_score_options options;
	char dir[64];
};

static void open_bench(struct bench *b)
{
	struct mq_err err = MQ_ERR_INIT;

	memset(b, 0, sizeof(*b));
	strcpy(b->dir, "/tmp/mq_score_XXXXXX");
	assert_non_null(mkdtemp(b->dir));
	b->options.out = b->dir;
	b->options.arena = &b->arena;
	b->options.calib = bare_calib(&b->arena);
	if (mq_calib_load_dir(b->options.calib, "platforms/calib", &err) != MQ_OK)
		fail_msg("%s (run from the project's root)", err.text);
}

/* The published tables that link classes were fitted to: others say how far that carries, which is no test. */
static const char *const fitted[] = {
	"a100_nvswitch_8",
	"apexplus_h100-sxm-80gb",
	"apexplus_v100-pcie-16gb",
	"aws_efa_1gpu_nodes",
	"hgx_h100_ib_ndr",
	"pcie_boxes",
	"superbench_a100_8",
	"v100_nvlink",
	"vidur_h100_pairwise_nvlink",
	"aws_p3dn_v100_efa",
	"b200_gb300",
	"gcp_a3mega_h100",
};

static void close_bench(struct bench *b)
{
	static const char *const names[] = { "score.csv", "summary.csv", "table.csv" };
	char path[128];

	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", b->dir, names[i]);
		unlink(path);
	}
	for (size_t i = 0; i < sizeof(fitted) / sizeof(*fitted); i++)
		unlink(mq_arena_printf(&b->arena, "%s/fitted/%s.csv", b->dir, fitted[i]));
	rmdir(mq_arena_printf(&b->arena, "%s/fitted", b->dir));
	rmdir(b->dir);
	mq_arena_fini(&b->arena);
}

static void load(struct bench *b, const char *name, struct mq_csv *csv)
{
	struct mq_err err = MQ_ERR_INIT;

	assert_int_equal(mq_csv_load(mq_arena_printf(&b->arena, "%s/%s", b->dir, name), &b->arena, csv, &err), MQ_OK);
}

static const char *cell(const struct mq_csv *csv, uint32_t row, const char *column)
{
	return mq_csv_text(csv, row, mq_csv_column(csv, column));
}

static void test_table(void **state)
{
	struct bench b;
	struct mq_csv csv;
	struct mq_err err = MQ_ERR_INIT;
	double mean;
	FILE *file;

	open_bench(&b);
	b.options.input = mq_arena_printf(&b.arena, "%s/table.csv", b.dir);
	file = fopen(b.options.input, "w");
	assert_non_null(file);
	fputs("gpu,gpus,collective,bytes,time_us,refused\n"
	      "H100,8,all_reduce,64,30,\n"
	      "H100,8,all_reduce,128,300,\n" /* a spike */
	      "H100,8,all_reduce,256,30,\n"
	      "H100,8,all_reduce,4294967296,16000,\n"
	      "H100,8,all_reduce,64,30,degraded\n"
	      "abacus,8,all_reduce,64,30,\n"
	      "H100,8,gossip,64,30,\n",
	      file);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(mq_score_collectives(&b.options, &mean, &err), MQ_OK);
	load(&b, "score.csv", &csv);
	assert_int_equal(csv.n_rows, 7);
	assert_string_equal(cell(&csv, 0, "row_id"), "table:2");
	assert_string_equal(cell(&csv, 0, "verdict"), "ok");
	assert_string_equal(cell(&csv, 1, "verdict"), "refused");
	assert_string_equal(cell(&csv, 3, "algo"), "nvls");
	assert_true(fabs(strtod(cell(&csv, 3, "error"), NULL)) < .05);
	for (uint32_t i = 4; i < 7; i++)
		assert_string_equal(cell(&csv, i, "verdict"), "refused");
	/* nothing was fitted to a table of this name */
	b.options.left_out = true;
	const char *predicted = cell(&csv, 3, "predicted_s");
	assert_int_equal(mq_score_collectives(&b.options, &mean, &err), MQ_OK);
	load(&b, "score.csv", &csv);
	assert_string_equal(cell(&csv, 3, "predicted_s"), predicted);
	close_bench(&b);
}

static const char *fitted_tables(struct bench *b)
{
	const char *folder = mq_arena_printf(b->options.arena, "%s/fitted", b->dir), *command = "tests/kernel-timings";

	for (size_t i = 0; i < sizeof(fitted) / sizeof(*fitted); i++)
		command = mq_arena_printf(b->options.arena, "%s ../shared/data/nccl/%s.csv", command, fitted[i]);
	assert_int_equal(system(mq_arena_printf(b->options.arena, "%s %s", command, folder)), 0);
	return folder;
}

/* On these tables, where they are at hand: the median error by size class. */
static void test_published(void **state)
{
	static const struct {
		const char *name;
		double median;
	} bar[] = {
		{ "all >=4MB", .05 },
		{ "all 64kB-4MB", .12 },
		{ "all <64kB", .10 },
	};
	struct bench b;
	struct mq_csv csv;
	struct mq_err err = MQ_ERR_INIT;
	double mean;
	int found = 0;

	if (access("../shared/data/nccl", R_OK)) {
		print_message("skipped: no ../shared/data/nccl to score\n");
		skip();
	}
	open_bench(&b);
	b.options.input = fitted_tables(&b);
	assert_int_equal(mq_score_collectives(&b.options, &mean, &err), MQ_OK);
	load(&b, "summary.csv", &csv);
	for (uint32_t i = 0; i < csv.n_rows; i++)
		for (int k = 0; k < 3; k++)
			if (!strcmp(cell(&csv, i, "table"), bar[k].name)) {
				double median = strtod(cell(&csv, i, "median"), NULL);

				if (median > bar[k].median)
					fail_msg("%s: median error %g, at most %g was reached", bar[k].name, median,
						 bar[k].median);
				found++;
			}
	assert_int_equal(found, 3);
	close_bench(&b);
}

/* Tables left out: what their values' siblings make of them, where they are at hand. */
static void test_published_left_out(void **state)
{
	struct bench b;
	struct mq_csv csv;
	struct mq_err err = MQ_ERR_INIT;
	double mean;
	bool found = false;

	if (access("../shared/data/nccl", R_OK)) {
		print_message("skipped: no ../shared/data/nccl to score\n");
		skip();
	}
	open_bench(&b);
	b.options.input = fitted_tables(&b);
	b.options.left_out = true;
	assert_int_equal(mq_score_collectives(&b.options, &mean, &err), MQ_OK);
	load(&b, "summary.csv", &csv);
	for (uint32_t i = 0; i < csv.n_rows; i++)
		if (!strcmp(cell(&csv, i, "table"), "all >=4MB")) {
			double median = strtod(cell(&csv, i, "median"), NULL);

			if (median > .12)
				fail_msg("median error %g, at most .12 was reached", median);
			found = true;
		}
	assert_true(found);
	close_bench(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_unknown_machine),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_published),
		cmocka_unit_test(test_published_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
