/*
 * test_calib.c - reading and writing calibrations: defaults, refusals, round trip, every file shipped.
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

#include "hardware/calib_fields.h"
#include "maquette/calib.h"
#include "shipped.h"
#include "libraries.h"

static struct mq_arena arena = MQ_ARENA_INIT;
static char path[] = "/tmp/mq-calib-XXXXXX";

static enum mq_status load(struct mq_calib *calib, const char *text, struct mq_err *err)
{
	strcpy(path + strlen(path) - 6, "XXXXXX");
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	enum mq_status status = mq_calib_load(calib, path, err);
	unlink(path);
	return status;
}

#define HEAD "{\"kind\": \"device\", \"name\": \"x\", \"source\": \"s\", \"values\": {"
#define NEED "\"mem_bw_Bps\": 1e12, \"memory_B\": 1e10, \"peak_fp16_flops\": 1e14"

static void test_read(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_calib *calib = mq_calib_new(&arena);

	assert_int_equal(load(calib,
			      HEAD NEED ", \"gemm_eff\": {\"value\": 0.75, \"unit\": \"1\","
					" \"low\": 0.7, \"high\": 0.8}}}",
			      &err),
			 MQ_OK);
	const struct mq_device_calib *d = mq_calib_device(calib, "x");
	assert_non_null(d);
	assert_true(d->gemm_eff == .75 && d->mem_bw_Bps == 1e12 && d->peak_flops[MQ_FP16] == 1e14);
	assert_true(d->peak_flops[MQ_BF16] == 0 && isnan(d->power_W) && d->kind == MQ_GPU);
	assert_true(d->clock == 0 && d->flop_J == 0); /* a default */
	assert_null(mq_calib_device(calib, "y"));
	/* the same name replaces */
	assert_int_equal(load(calib, HEAD NEED ", \"gemm_eff\": 0.5}}", &err), MQ_OK);
	assert_int_equal(calib->n_devices, 1);
	assert_true(mq_calib_device(calib, "x")->gemm_eff == .5);
	assert_int_equal(load(calib,
			      "{\"entries\": [{\"kind\": \"link\", \"name\": \"ib\", "
			      "\"values\": {\"bw_share\": 0.85}}]}",
			      &err),
			 MQ_OK);
	assert_true(mq_calib_link(calib, "ib")->bw_share == .85);
}

static void test_refuse(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ HEAD "\"memory_B\": 1e10, \"peak_fp16_flops\": 1e14}}", "mem_bw_Bps" },
		{ HEAD "\"memory_B\": 1e10, \"mem_bw_Bps\": 1e12}}", "no peak" },
		{ HEAD NEED ", \"gem_eff\": 1}}", "gem_eff" },
		{ HEAD NEED ", \"gemm_eff\": -1}}", "outside" },
		{ HEAD NEED ", \"gemm_eff\": \"fast\"}}", "no number" },
		{ HEAD NEED ", \"gemm_t0_s\": {\"value\": 5, \"unit\": \"us\"}}}", "'us'" },
		{ "{\"kind\": \"device\", \"name\": \"x\"}", "values" },
		{ "{\"kind\": \"device\", \"values\": {}}", "name" },
		{ "{\"kind\": \"chip\", \"name\": \"x\", \"values\": {}}", "chip" },
		{ "{\"kind\": ", "1" },
		{ "[]", "name" },
		{ "", "" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct mq_err err = MQ_ERR_INIT;
		struct mq_calib *calib = mq_calib_new(&arena);

		assert_int_equal(load(calib, bad[i].text, &err), MQ_EINPUT);
		if (!strstr(err.text, bad[i].says) || !strstr(err.text, path))
			fail_msg("case %zu: '%s' does not say '%s'", i, err.text, bad[i].says);
		assert_int_equal(calib->n_devices, 0);
	}
	struct mq_err err = MQ_ERR_INIT;
	assert_int_equal(mq_calib_load_dir(mq_calib_new(&arena), "/nowhere", &err), MQ_EINPUT);
}

static void test_round_trip(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_calib *calib = mq_calib_new(&arena), *again = mq_calib_new(&arena);
	struct mq_device_calib *d = mq_calib_add_ideal(calib, "a\"b", 1.25e13, 3e11, 5e9);

	static const char *const alias[] = { "other", "a", NULL };
	d->gemm_q = .375;
	d->alias = alias;
	d->serial_comm = true;
	d->kind = MQ_CPU;
	strcpy(path + strlen(path) - 6, "XXXXXX");
	close(mkstemp(path));
	assert_int_equal(mq_calib_save_device(d, path, &err), MQ_OK);
	assert_int_equal(mq_calib_load(again, path, &err), MQ_OK);
	unlink(path);
	const struct mq_device_calib *e = mq_calib_device(again, "a\"b");
	assert_non_null(e);
	for (const struct mq_calib_field *f = mq_calib_device_fields(); f->name; f++) {
		double x, y;

		memcpy(&x, (const char *)d + f->offset, sizeof(x));
		memcpy(&y, (const char *)e + f->offset, sizeof(y));
		assert_true(x == y || (isnan(x) && isnan(y)));
	}
	assert_true(e->serial_comm && e->kind == MQ_CPU && !e->reported);
	assert_true(!strcmp(e->alias[0], "other") && !strcmp(e->alias[1], "a") && !e->alias[2]);
	assert_int_equal(mq_calib_save_device(d, "/dev/full", &err), MQ_EINPUT);
	assert_int_equal(mq_calib_save_device(d, "/nowhere/x.json", &err), MQ_EINPUT);
}

#define DEVICE(name) "{\"kind\": \"device\", \"name\": \"" name "\", "
#define FROM(name)   "\"inherits\": \"" name "\", "

/* What a child leaves out is its parent's; null is the default; the order of entries does not matter. */
static void test_inherit(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_calib *calib = mq_calib_new(&arena);

	if (load(calib,
		 "{\"entries\": [" DEVICE("c") FROM(
			 "b") "\"values\": {\"gemm_q\": null, \"power_W\": {\"value\": null}}}," DEVICE("b")
			 FROM("a") "\"aliases\": [\"bee\"], \"source\": \"sb\", "
				   "\"values\": {\"memory_B\": 2e10}}," DEVICE(
					   "a") "\"device_kind\": \"cpu\", \"serial_comm\": true, \"aliases\": [\"ay\"], "
						"\"source\": \"sa\", \"values\": {" NEED
						", \"gemm_q\": 0.5, \"power_W\": 300}}]}",
		 &err))
		fail_msg("%s", err.text);
	const struct mq_device_calib *b = mq_calib_device(calib, "b"), *c = mq_calib_device(calib, "c");
	assert_string_equal(calib->device[0].name, "c"); /* in the file's order */
	assert_true(b->memory_B == 2e10 && b->mem_bw_Bps == 1e12 && b->gemm_q == .5 && b->power_W == 300);
	assert_true(b->kind == MQ_CPU && b->serial_comm && !strcmp(b->source, "sb"));
	assert_true(c->memory_B == 2e10 && c->gemm_q == .253 && isnan(c->power_W) && !*c->source);
	/* names are one's own */
	assert_ptr_equal(mq_calib_type(calib, "AY"), mq_calib_device(calib, "a"));
	assert_ptr_equal(mq_calib_type(calib, "bee"), b);
	/* from one loaded before; from oneself: a change of it, which others do not see */
	assert_int_equal(load(calib, DEVICE("d") FROM("b") "\"values\": {\"gemm_q\": 0.25}}", &err), MQ_OK);
	assert_true(mq_calib_device(calib, "d")->memory_B == 2e10);
	assert_int_equal(load(calib, DEVICE("b") FROM("b") "\"values\": {\"gemm_q\": 0.75}}", &err), MQ_OK);
	b = mq_calib_device(calib, "b");
	assert_true(b->gemm_q == .75 && b->memory_B == 2e10);
	assert_ptr_equal(mq_calib_type(calib, "bee"), b); /* what replaces it goes by its names */
	assert_true(mq_calib_device(calib, "d")->gemm_q == .25 && calib->n_devices == 4);
}

#define LINK(name) "{\"kind\": \"link\", \"name\": \"" name "\", "

/* A class of links likewise, and what its values were fitted to: left out, what it took over stands in too. */
static void test_inherit_link(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_calib *calib = mq_calib_new(&arena);
	struct mq_left_out out = { .table = "two" };
	const struct mq_link_calib *a, *b;
	(void)state;

	if (load(calib,
		 "{\"entries\": [" LINK("b") FROM("a") "\"siblings\": [\"c\"], \"values\": {\"bw_share\": 0.5}}," LINK(
			 "a") "\"values\": {\"bw_share\": {\"value\": 0.9, \"fitted\": [\"one\"]}, \"hop_s\": {\"value\": 2e-5, "
			      "\"fitted\": [\"two\"]}}}," LINK("c") "\"values\": {\"hop_s\": 7e-5}}]}",
		 &err))
		fail_msg("%s", err.text);
	a = mq_calib_link(calib, "a");
	b = mq_calib_link(calib, "b");
	assert_true(a->bw_share == .9 && b->bw_share == .5 && b->hop_s == 2e-5 && b->latency_scale == 1);
	calib = mq_calib_leave_out(calib, &out, &arena);
	assert_true(mq_calib_link(calib, "b")->hop_s == 7e-5 && mq_calib_link(calib, "b")->bw_share == .5);
	assert_int_equal(load(calib, LINK("b") FROM("b") "\"values\": {\"bw_share\": 0.6}}", &err), MQ_OK);
	assert_true(mq_calib_link(calib, "b")->bw_share == .6 && mq_calib_link(calib, "b")->hop_s == 7e-5);
}

static void test_refuse_inheritance(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ DEVICE("kid") FROM("papa") "\"values\": {}}", "'kid' inherits 'papa'" },
		{ DEVICE("kid") FROM("kid") "\"values\": {}}", "'kid' inherits 'kid'" },
		{ DEVICE("kid") "\"inherits\": 4, \"values\": {}}", "no name" },
		{ "{\"entries\": [" DEVICE("kid") FROM("pope") "\"values\": {}}," DEVICE("papa") "\"values\": {" NEED
												 "}}]}",
		  "did you mean 'papa'" },
		{ "{\"entries\": [" DEVICE("x") FROM("y") "\"values\": {}}," DEVICE("y")
			  FROM("z") "\"values\": {}}," DEVICE("z") FROM("x") "\"values\": {}}]}",
		  "'z' inherits 'x'" },
		{ LINK("wire") FROM("papa") "\"values\": {}}", "no such link class" },
		{ "{\"entries\": [" LINK("x") FROM("y") "\"values\": {}}," LINK("y") FROM("x") "\"values\": {}}]}",
		  "'y' inherits 'x'" },
		{ DEVICE("x") "\"values\": {" NEED ", \"memory_B\": null}}", "" },
		{ DEVICE("x") "\"aliases\": \"y\", \"values\": {" NEED "}}", "no list" },
		{ DEVICE("x") "\"aliases\": [\"y\", 1], \"values\": {" NEED "}}", "entry 2" },
		{ "{\"entries\": [" DEVICE("x") "\"aliases\": [\"w\"], \"values\": {" NEED
						"}}," DEVICE("y") "\"aliases\": [\"W\"], \"values\": {" NEED "}}]}",
		  "an alias of" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct mq_err err = MQ_ERR_INIT;

		assert_int_equal(load(mq_calib_new(&arena), bad[i].text, &err), MQ_EINPUT);
		if (!strstr(err.text, bad[i].says) || !strstr(err.text, path))
			fail_msg("case %zu: '%s' does not say '%s'", i, err.text, bad[i].says);
	}
}

/* Files of a folder may inherit from each other in any order. */
static void test_folder(void **state)
{
	static const char *const text[2] = { DEVICE("a") FROM("b") "\"values\": {\"gemm_q\": 0.5}}",
					     DEVICE("b") "\"values\": {" NEED "}}" };
	struct mq_err err = MQ_ERR_INIT;
	char dir[] = "/tmp/mq-calib-XXXXXX";

	for (int swap = 0; swap < 2; swap++) {
		struct mq_calib *calib = mq_calib_new(&arena);

		strcpy(dir + sizeof(dir) - 7, "XXXXXX");
		assert_non_null(mkdtemp(dir));
		for (int i = 0; i < 2; i++) {
			FILE *file = fopen(mq_arena_printf(&arena, "%s/%d.json", dir, i), "w");

			fputs(text[i ^ swap], file);
			assert_int_equal(fclose(file), 0);
		}
		assert_int_equal(mq_calib_load_dir(calib, dir, &err), MQ_OK);
		assert_true(mq_calib_device(calib, "a")->gemm_q == .5);
		assert_true(mq_calib_device(calib, "a")->memory_B == 1e10);
		for (int i = 0; i < 2; i++)
			unlink(mq_arena_printf(&arena, "%s/%d.json", dir, i));
		rmdir(dir);
	}
}

/* A type read with what it inherits from is the one of the whole folder; one that has no file is looked for there. */
static void some_types_are_as_in_the_whole(void **state)
{
	const struct mq_calib_field *field = mq_calib_device_fields();
	struct mq_calib *whole = mq_calib_new(&arena);
	struct mq_err err = MQ_ERR_INIT;

	assert_int_equal(mq_calib_load_dir(whole, "platforms/calib", &err), MQ_OK);
	for (uint32_t i = 0; i < whole->n_devices; i++) {
		const struct mq_device_calib *a = &whole->device[i], *b;
		const char *const type[] = { a->name, NULL };
		struct mq_calib *some = mq_calib_new(&arena);

		assert_int_equal(mq_calib_load_types(some, "platforms/calib", type, &err), MQ_OK);
		b = mq_calib_device(some, a->name);
		for (const struct mq_calib_field *f = field; f->name; f++)
			assert_memory_equal(mq_calib_at(f, a), mq_calib_at(f, b), sizeof(double));
		assert_true(some->n_devices < 8 && some->n_links == whole->n_links);
	}
	const char *const unknown[] = { "X1", NULL };
	struct mq_calib *all = mq_calib_new(&arena);
	assert_int_equal(mq_calib_load_types(all, "platforms/calib", unknown, &err), MQ_OK);
	assert_int_equal(all->n_devices, whole->n_devices);
}

static const char *type_in(const struct mq_calib *calib, const char *text, bool reported)
{
	const struct mq_device_calib *type = mq_calib_type_in(calib, text, reported);

	return type ? type->name : "none";
}

/* Device types in running text: whole words, the longest name, no aliases where drivers speak. */
static void test_names_in_text(void **state)
{
	static const struct {
		const char *text, *table, *driver;
	} cases[] = {
		{ "8x A100-SXM4-40GB", "A100-SXM4-40GB", "A100-SXM4-40GB" },
		{ "DGX with a100", "A100-SXM4-80GB", "none" },
		{ "NVIDIA A100-PCIE-40GB", "A100-PCIE-40GB", "A100-PCIE-40GB" },
		{ "NVIDIA A100 80GB PCIe", "A100-PCIE-80GB", "A100-PCIE-80GB" },
		{ "NVIDIA H100 80GB HBM3", "H100-SXM-80GB", "H100-SXM-80GB" },
		{ "GH100 [H100 SXM5 80GB]", "H100-SXM-80GB", "H100-SXM-80GB" },
		{ "4x H100 NVL", "H100-NVL-94GB", "H100-NVL-94GB" },
		{ "8x H100 NVLink", "H100-SXM-80GB", "none" },
		{ "NVIDIA GB200", "GB200", "GB200" },
		{ "NVIDIA H200", "H200-SXM-141GB", "H200-SXM-141GB" },
		{ "NVIDIA GeForce RTX 2080 Ti", "RTX-2080Ti", "RTX-2080Ti" },
		{ "M60", "none", "none" },
		{ "NVIDIA A10", "A10", "A10" },
		{ "NVIDIA A10G", "A10G", "A10G" },
		{ "Tesla P40", "P40", "P40" },
		{ "NVIDIA RTX A6000", "RTX-A6000", "RTX-A6000" },
		{ "NVIDIA L40", "L40", "L40" },
		{ "NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada", "RTX-6000-Ada" },
		{ "Tesla V100S-PCIE-32GB", "V100S-PCIE-32GB", "V100S-PCIE-32GB" },
		{ "GP102 [GeForce GTX 1080 Ti]", "1080Ti", "1080Ti" },
		{ "TU104GL [Tesla T4]", "T4", "T4" },
		{ "p3dn.24xlarge", "V100-SXM2-32GB", "none" },
		{ "", "none", "none" },
	};
	const struct mq_calib *calib = shipped_calib(&arena);

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_string_equal(type_in(calib, cases[i].text, false), cases[i].table);
		assert_string_equal(type_in(calib, cases[i].text, true), cases[i].driver);
	}
}

/* A type that only the platform knows gets defaults where the platform says what its memory is. */
static void test_described(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_calib *calib = bare_calib(&arena);
	struct mq_device device[2] = {
		{ .name = "d0", .type = "new", .speed_flops = 16e12, .memory_B = 3e10 },
		{ .name = "d1", .type = "new", .speed_flops = 16e12, .memory_B = 3e10, .mem_bw_Bps = 2e12 },
	};
	struct mq_cluster cluster = { .n_devices = 2, .device = device };

	assert_int_equal(mq_calib_bind(calib, &cluster, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "mq_mem_bw_Bps"));
	device[0].mem_bw_Bps = 2e12;
	assert_int_equal(mq_calib_bind(calib, &cluster, &err), MQ_OK);
	assert_int_equal(calib->n_devices, 1);
	const struct mq_device_calib *d = mq_calib_device(calib, "new");
	assert_true(d->assumed && d->peak_flops[MQ_BF16] == 16e12 && d->peak_flops[MQ_TF32] == 8e12 &&
		    d->peak_flops[MQ_FP32] == 1e12 && d->mem_bw_Bps == 2e12 && d->gemm_eff == .78);
	assert_true(mq_calib_peak_flops(d) == 16e12);
}

static void test_bind(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_calib *calib = bare_calib(&arena);
	struct mq_device device[3] = { { .name = "d0", .type = "b", .power_W = NAN },
				       { .name = "d1", .type = "a", .memory_B = 7e9, .power_W = 5 },
				       { .name = "d2", .type = "b" } };
	struct mq_link link[5] = { { .class = MQ_LINK_NIC, .fabric = MQ_FABRIC_ROCE, .bw_Bps = 5e9 },
				   { .class = MQ_LINK_NVSWITCH },
				   { .class = MQ_LINK_OTHER },
				   { .class = MQ_LINK_NIC, .fabric = MQ_FABRIC_ROCE, .bw_Bps = 20e9 },
				   { .class = MQ_LINK_FABRIC, .fabric = MQ_FABRIC_ROCE, .bw_Bps = 20e9 } };
	struct mq_cluster cluster = { .n_devices = 3, .device = device, .n_links = 5, .link = link };

	assert_int_equal(load(calib,
			      "{\"kind\": \"link\", \"name\": \"roce\", \"values\": "
			      "{\"bw_share\": 0.6, \"port_Bps\": 4e9}}",
			      &err),
			 MQ_OK);
	mq_calib_add_ideal(calib, "a", 1e12, 1e11, 1e9);
	assert_int_equal(mq_calib_bind(calib, &cluster, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "'b'"));
	assert_non_null(strstr(err.text, "known: a"));
	mq_calib_add_ideal(calib, "b", 2e12, 1e11, 3e9)->power_W = 250;
	assert_int_equal(mq_calib_bind(calib, &cluster, &err), MQ_OK);
	assert_int_equal(device[0].calib, 1);
	assert_int_equal(device[1].calib, 0);
	assert_int_equal(device[2].calib, 1);
	assert_true(device[0].memory_B == 3e9 && device[0].power_W == 250);
	assert_true(link[0].share == .6 && link[1].share == 1 && link[2].share == 1);
	assert_true(link[3].share == .2 && link[4].share == .6); /* a port's limit; not that of a trunk */
	assert_true(device[1].memory_B == 7e9 && device[1].power_W == 5);
}

/* The class of a link, or the class for one compute capability: whole names. */
static void test_link_for(void **state)
{
	struct mq_err err = MQ_ERR_INIT;
	struct mq_calib *calib = mq_calib_new(&arena);

	assert_int_equal(load(calib,
			      "{\"entries\": [{\"kind\": \"link\", \"name\": \"roce-sm90-lab\", \"values\": {}}, "
			      "{\"kind\": \"link\", \"name\": \"roce-small\", \"values\": {}}, "
			      "{\"kind\": \"link\", \"name\": \"roce-sm80\", \"values\": {}}, "
			      "{\"kind\": \"link\", \"name\": \"roce\", \"values\": {}}]}",
			      &err),
			 MQ_OK);
	assert_string_equal(mq_calib_link_for(calib, "roce", 80)->name, "roce-sm80");
	assert_string_equal(mq_calib_link_for(calib, "roce", 90)->name, "roce");
	assert_string_equal(mq_calib_link_for(calib, "roce", 0)->name, "roce"); /* a processor's */
	assert_null(mq_calib_link_for(calib, "ro", 80));
}

/* A value that was fitted to a table is the first sibling's of other origin; the rest stays. */
static void test_left_out(void **state)
{
	struct mq_calib *calib = mq_calib_new(&arena), *without;
	struct mq_err err = MQ_ERR_INIT;

	assert_int_equal(
		load(calib,
		     "{\"entries\": [{\"kind\": \"link\", \"name\": \"a\", \"siblings\": [\"b\", \"c\"], "
		     "\"values\": {\"bw_share\": {\"value\": 0.5, \"fitted\": [\"t\", \"u\"]}, \"fill\": 0.3}},"
		     "{\"kind\": \"link\", \"name\": \"b\", \"values\": {\"bw_share\": "
		     "{\"value\": 0.6, \"fitted\": [\"t\"]}, \"fill\": {\"value\": 0.4, \"fitted\": [\"t\"]}}},"
		     "{\"kind\": \"link\", \"name\": \"c\", \"values\": {\"bw_share\": {\"value\": 0.7, "
		     "\"fitted\": [\"tt\", \"v:*box*\"]}}},"
		     "{\"kind\": \"link\", \"name\": \"fast\", \"values\": {\"clock_Hz\": 2e9, \"hop_s\": 1e-6, \"launch_s\": 5e-6}},"
		     "{\"kind\": \"link\", \"name\": \"slow\", \"siblings\": [\"fast\"], \"values\": {\"clock_Hz\": 1e9, "
		     "\"hop_s\": {\"value\": 9e-6, \"fitted\": [\"t\"]}, \"launch_s\": {\"value\": 9e-6, \"fitted\": [\"t\"]}}}]}",
		     &err),
		MQ_OK);
	without = mq_calib_leave_out(calib, &(struct mq_left_out){ .table = "t" }, &arena);
	assert_true(fabs(mq_calib_link(without, "slow")->hop_s - 2e-6) < 1e-12);    /* cycles of half the clock */
	assert_true(fabs(mq_calib_link(without, "slow")->launch_s - 5e-6) < 1e-12); /* the host's */
	assert_true(fabs(mq_calib_link(without, "a")->bw_share - .7) < 1e-12);      /* b's is of t too */
	assert_true(fabs(mq_calib_link(without, "a")->fill - .3) < 1e-12);
	assert_true(fabs(mq_calib_link(without, "b")->fill) < 1e-12); /* no sibling: the default */
	without = mq_calib_leave_out(calib, &(struct mq_left_out){ .table = "u" }, &arena);
	assert_true(fabs(mq_calib_link(without, "a")->bw_share - .6) < 1e-12);
	assert_true(fabs(mq_calib_link(without, "b")->bw_share - .6) < 1e-12);
	assert_true(fabs(mq_calib_link(calib, "a")->bw_share - .5) < 1e-12);
	without = mq_calib_leave_out(calib, &(struct mq_left_out){ "v", "4 in a box" }, &arena); /* no sibling */
	assert_true(fabs(mq_calib_link(without, "c")->bw_share - .7) > .01);
	without = mq_calib_leave_out(calib, &(struct mq_left_out){ "v", "a rack" }, &arena);
	assert_true(fabs(mq_calib_link(without, "c")->bw_share - .7) < 1e-12);
	without = mq_calib_leave_out(calib, &(struct mq_left_out){ .table = "v" }, &arena); /* all its systems */
	assert_true(fabs(mq_calib_link(without, "c")->bw_share - .7) > .01);
	assert_int_equal(
		load(calib, "{\"kind\": \"link\", \"name\": \"d\", \"siblings\": \"b\", \"values\": {}}", &err),
		MQ_EINPUT);
	assert_non_null(strstr(err.text, "siblings"));
}

/* Every file shipped loads, and says where its values come from. */
static void test_shipped(void **state)
{
	const struct mq_calib *calib = shipped_calib(&arena);

	assert_true(calib->n_devices >= 31);
	for (uint32_t i = 0; i < calib->n_devices; i++) {
		const struct mq_device_calib *d = &calib->device[i];

		assert_true(*d->source);
		assert_true(d->kind == MQ_CPU || d->peak_flops[MQ_FP16] > 1e12);
	}
	assert_true(mq_calib_device(calib, "A100-SXM4-80GB")->peak_flops[MQ_BF16] == 312e12);
	/* Grace takes more per call than x86 hosts do; GB300 has GB200's */
	assert_true(mq_calib_device(calib, "GB300")->host_launch_s == 11.3e-6);
	assert_true(mq_calib_device(calib, "A100-SXM4-80GB")->host_launch_s == 5e-6);
	/* exported models: as their siblings but for NVLink */
	const struct mq_device_calib *a800 = mq_calib_device(calib, "A800-SXM4-80GB");
	assert_true(a800->peak_flops[MQ_BF16] == 312e12 && a800->nvlink_Bps == 200e9);
	assert_true(a800->flop_J > 0 && a800->flop_J == mq_calib_device(calib, "A100-SXM4-80GB")->flop_J);
	assert_true(mq_calib_device(calib, "H800-SXM-80GB")->nvlink_Bps == 200e9);
}

static int teardown(void **state)
{
	mq_arena_fini(&arena);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_read, teardown),
		cmocka_unit_test_teardown(test_refuse, teardown),
		cmocka_unit_test_teardown(test_round_trip, teardown),
		cmocka_unit_test_teardown(test_inherit, teardown),
		cmocka_unit_test_teardown(test_inherit_link, teardown),
		cmocka_unit_test_teardown(test_refuse_inheritance, teardown),
		cmocka_unit_test_teardown(test_folder, teardown),
		cmocka_unit_test_teardown(some_types_are_as_in_the_whole, teardown),
		cmocka_unit_test_teardown(test_names_in_text, teardown),
		cmocka_unit_test_teardown(test_described, teardown),
		cmocka_unit_test_teardown(test_bind, teardown),
		cmocka_unit_test_teardown(test_link_for, teardown),
		cmocka_unit_test_teardown(test_left_out, teardown),
		cmocka_unit_test_teardown(test_shipped, teardown),
	};

	return cmocka_run_group_tests_name("calib", tests, NULL, NULL);
}
