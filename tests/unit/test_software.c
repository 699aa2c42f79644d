/*
 * test_software.c - files of training software: fields, inheritance, what is refused and how; and what software
 * makes of a plan, a vocabulary, a device's memory.
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

#include "models.h"
#include "folder.h"
#include "libraries.h"

#define SHIPPED "platforms/software"

static const char *put(const char *name, const char *text)
{
	return put_file(mq_arena_printf(&arena, "%s.json", name), text);
}

/* A file that says these keys. */
static const char *put_keys(const char *name, const char *keys)
{
	return put(name, mq_arena_printf(&arena, "{\"maquette_software\": 1, \"about\": \"made up: %s\"%s%s}", name,
					 *keys ? ", " : "", keys));
}

static struct mq_software_record read_software(const char *folder, const char *text)
{
	struct mq_software_record record;
	struct mq_err err = MQ_ERR_INIT;

	if (mq_software_load(folder, text, &arena, &record, &err) != MQ_OK)
		fail_msg("%s: %s", text, err.text);
	return record;
}

static void refuse_software(const char *text, const char *says)
{
	struct mq_software_record record;
	struct mq_err err = MQ_ERR_INIT;

	assert_int_equal(mq_software_load(dir, text, &arena, &record, &err), MQ_EINPUT);
	if (!strstr(err.text, says))
		fail_msg("%s: '%s' does not say '%s'", text, err.text, says);
	assert_null(strchr(err.text, '\n'));
}

static const struct mq_software_note *note_of(const struct mq_software_record *r, const char *field)
{
	uint32_t i = mq_software_field_find(field);

	assert_true(i != UINT32_MAX);
	return &r->note[i];
}

static bool same_field(const struct mq_software_field *f, const struct mq_software *a, const struct mq_software *b)
{
	const void *x = (const char *)a + f->opt.offset, *y = (const char *)b + f->opt.offset;

	switch (f->opt.type) {
	case MQ_OPT_F64:
		return *(const double *)x == *(const double *)y;
	case MQ_OPT_U32:
	case MQ_OPT_CHOICE:
		return *(const uint32_t *)x == *(const uint32_t *)y;
	case MQ_OPT_BOOL:
		return *(const bool *)x == *(const bool *)y;
	case MQ_OPT_STR:
		return !strcmp(*(const char *const *)x, *(const char *const *)y);
	case MQ_OPT_END:
		break;
	}
	return false;
}

/* Words of a field are in the order of its enumeration, whose names schedule files have too. */
static void words_are_names(void **state)
{
	const char *words = mq_software_fields()[mq_software_field_find("attention")].opt.text;

	(void)state;
	for (int i = 0; i < MQ_N_ATTENTIONS; i++) {
		size_t n = strcspn(words, "|");
		const char *name = mq_attention_name((enum mq_attention_kernel)i);

		assert_int_equal(strlen(name), n);
		assert_memory_equal(name, words, n);
		words += n + (words[n] == '|');
	}
	assert_int_equal(*words, 0);
}

/* A file that says nothing is the defaults of the table, and they are mq_software_plain, every plan allowed. */
static void defaults_are_plain(void **state)
{
	const struct mq_software *plain = mq_software_plain();
	uint32_t n = 0;

	(void)state;
	put_keys("nothing", "");
	struct mq_software_record r = read_software(dir, "nothing");
	for (const struct mq_software_field *f = mq_software_fields(); f->opt.type != MQ_OPT_END; f++, n++) {
		if (!same_field(f, &r.software, plain))
			fail_msg("%s is not as in mq_software_plain", f->opt.name);
		assert_int_equal(mq_software_field_find(f->opt.name), n);
		assert_int_equal(r.note[n].evidence, MQ_ASSUMED);
		assert_true(!r.note[n].file && !r.note[n].source && isnan(r.note[n].low));
		assert_true(*f->opt.help && *f->unit && (unsigned)f->group < MQ_N_SW_GROUPS);
	}
	assert_true(n > 40);
	assert_memory_equal(&r.software.runs, &plain->runs, sizeof(plain->runs));
	assert_int_equal(mq_software_field_find("no_such_field"), UINT32_MAX);
	assert_string_equal(r.software.name, "nothing");
	assert_string_equal(r.software.about, "made up: nothing");
}

static void values_of_each_kind(void **state)
{
	(void)state;
	put_keys("kinds",
		 "\"traffic\": {\"value\": 1.75, \"from\": \"fitted\", \"source\": \"a fit\", \"rows\": \"two tables\","
		 "              \"interval\": [1.5, 2]},"
		 "\"chunks\": {\"value\": 3, \"from\": \"documented\", \"source\": \"its manual\"},"
		 "\"attention\": {\"value\": \"te\", \"from\": \"documented\", \"source\": \"its manual\"},"
		 "\"overlap_grads\": {\"value\": false, \"from\": \"counted\", \"source\": \"its source\"},"
		 "\"cuda_launch_blocking\": {\"value\": 1, \"from\": \"counted\", \"source\": \"its source\"},"
		 "\"recompute_ops\": {\"value\": \"q|norm*\", \"from\": \"documented\", \"source\": \"its manual\"},"
		 "\"runs\": {\"schedules\": [\"1f1b\", \"zb-h1\"], \"sync\": [\"zero3\"], \"recompute\": [\"full\"],"
		 "           \"dtypes\": [\"bf16\"], \"devices\": [\"gpu\"], \"shares\": false}");
	struct mq_software_record r = read_software(dir, "kinds");
	const struct mq_software *s = &r.software;
	const struct mq_software_note *n = note_of(&r, "traffic");

	assert_true(s->traffic == 1.75 && s->chunks == 3 && s->attention == MQ_ATTENTION_TE);
	assert_true(!s->overlap_grads && s->cuda_launch_blocking);
	assert_string_equal(s->recompute_ops, "q|norm*");
	assert_int_equal(n->evidence, MQ_FITTED);
	assert_true(n->low == 1.5 && n->high == 2);
	assert_string_equal(n->rows, "two tables");
	assert_string_equal(n->source, "a fit");
	assert_string_equal(n->file, "kinds");
	assert_int_equal(note_of(&r, "overlap_grads")->evidence, MQ_COUNTED);
	assert_true(isnan(note_of(&r, "chunks")->low));
	assert_int_equal(s->runs.schedules, 1u << MQ_PIPE_1F1B | 1u << MQ_PIPE_ZB_H1);
	assert_int_equal(s->runs.syncs, 1u << MQ_SYNC_ZERO3);
	assert_int_equal(s->runs.recomputes, 1u << MQ_RECOMPUTE_FULL);
	assert_int_equal(s->runs.dtypes, 1u << MQ_BF16);
	assert_true(s->runs.gpu && !s->runs.cpu && !s->runs.shares && s->runs.uneven_stages);
}

/* What a file does not say is its parent's, with where it comes from; rules of plans one by one. */
static void children_inherit(void **state)
{
	(void)state;
	put_keys("old", "\"traffic\": {\"value\": 3, \"from\": \"fitted\", \"source\": \"old fit\", \"rows\": \"r\","
			" \"interval\": [2, 4]}, \"host\": {\"value\": 5, \"from\": \"counted\", \"source\": \"old\"},"
			"\"runs\": {\"schedules\": [\"gpipe\"], \"tensor\": false}");
	put_keys("mid",
		 "\"inherits\": \"old\", \"host\": {\"value\": 7, \"from\": \"documented\", \"source\": \"mid\"}");
	put_keys("young", "\"inherits\": \"mid\", \"runs\": {\"pipeline\": false}");
	struct mq_software_record r = read_software(dir, "young");

	assert_true(r.software.traffic == 3 && r.software.host == 7 && r.software.loss_B == 12);
	assert_string_equal(r.inherits, "mid");
	assert_string_equal(r.software.name, "young");
	assert_string_equal(r.software.file, "young");
	assert_string_equal(r.software.about, "made up: young");
	assert_string_equal(note_of(&r, "traffic")->file, "old");
	assert_true(note_of(&r, "traffic")->low == 2);
	assert_string_equal(note_of(&r, "host")->file, "mid");
	assert_int_equal(note_of(&r, "host")->evidence, MQ_DOCUMENTED);
	assert_null(note_of(&r, "loss_B")->file);
	assert_int_equal(r.software.runs.schedules, 1u << MQ_PIPE_GPIPE);
	assert_true(!r.software.runs.tensor && !r.software.runs.pipeline && r.software.runs.context);
	assert_null(read_software(dir, "old").inherits);
}

static void what_is_refused(void **state)
{
	static const struct {
		const char *keys, *says;
	} bad[] = {
		{ "\"inherits\": \"knds\"", "no training software 'knds'; did you mean 'kinds'?" },
		{ "\"inherits\": \"bad\"", "inherits 'bad', which inherits it: a loop" },
		{ "\"inherits\": 7", "'inherits' is not the name of a software" },
		{ "\"trafic\": {\"value\": 1, \"from\": \"counted\", \"source\": \"s\"}",
		  "software has no 'trafic'; did you mean 'traffic'?" },
		{ "\"colour\": {\"value\": 1, \"from\": \"counted\", \"source\": \"s\"}",
		  "software has no 'colour'; `maquette list software NAME` prints all" },
		{ "\"attention\": {\"value\": \"flash9\", \"from\": \"documented\", \"source\": \"s\"}", "flash2" },
		{ "\"traffic\": {\"value\": 99, \"from\": \"counted\", \"source\": \"s\"}",
		  "traffic=99 is out of range; give 0.1 to 20" },
		{ "\"chunks\": {\"value\": 1.5, \"from\": \"counted\", \"source\": \"s\"}",
		  "must be a whole number from 0 to 1000" },
		{ "\"tf32\": {\"value\": 2, \"from\": \"counted\", \"source\": \"s\"}", "neither true nor false" },
		{ "\"traffic\": 2", "has no \"value\"" },
		{ "\"traffic\": {\"value\": [1], \"from\": \"counted\", \"source\": \"s\"}", "has no \"value\"" },
		{ "\"traffic\": {\"value\": 2, \"source\": \"s\"}", "does not say where it is from" },
		{ "\"traffic\": {\"value\": 2, \"from\": \"assumed\", \"source\": \"s\"}",
		  "give \"from\": documented, counted or fitted" },
		{ "\"traffic\": {\"value\": 2, \"from\": \"counted\"}", "'traffic' has no \"source\"" },
		{ "\"traffic\": {\"value\": 2, \"from\": \"counted\", \"source\": \"\"}", "has no \"source\"" },
		{ "\"traffic\": {\"value\": 2, \"from\": \"fitted\", \"source\": \"s\", \"interval\": [1, 3]}",
		  "is fitted: give its \"rows\" and \"interval\"" },
		{ "\"traffic\": {\"value\": 2, \"from\": \"fitted\", \"source\": \"s\", \"rows\": \"r\"}",
		  "is fitted: give its \"rows\" and \"interval\"" },
		{ "\"traffic\": {\"value\": 2, \"from\": \"fitted\", \"source\": \"s\", \"rows\": \"r\","
		  " \"interval\": [3, 1]}",
		  "[low, high]" },
		{ "\"traffic\": {\"value\": 2, \"from\": \"fitted\", \"source\": \"s\", \"rows\": \"r\","
		  " \"interval\": [\"a\", \"b\"]}",
		  "[low, high]" },
		{ "\"runs\": []", "'runs' is not an object" },
		{ "\"runs\": {\"schedules\": \"1f1b\"}", "'schedules' in \"runs\" is not a list" },
		{ "\"runs\": {\"schedules\": [\"2f2b\"]}", "schedules has no '2f2b'" },
		{ "\"runs\": {\"devices\": [\"tpu\"]}", "'devices' in \"runs\" are gpu and cpu" },
		{ "\"runs\": {\"devices\": []}", "'devices' in \"runs\" is a list of gpu and cpu" },
		{ "\"runs\": {\"tensor\": 1}", "'tensor' in \"runs\" is true or false" },
		{ "\"runs\": {\"loops\": true}", "'loops' in \"runs\" is unknown; there are schedules sync" },
	};

	(void)state;
	put_keys("kinds", "");
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		const char *path = put_keys("bad", bad[i].keys);

		refuse_software("bad", bad[i].says);
		refuse_software("bad", path); /* names the file */
	}
	/* a loop over several, told where it closes */
	put_keys("bad", "\"inherits\": \"via\"");
	put_keys("via", "\"inherits\": \"bad\"");
	refuse_software("bad", "via.json: inherits 'bad', which inherits it: a loop");
	refuse_software("via", "a loop");
	unlink(mq_arena_printf(&arena, "%s/via.json", dir));
	put("bad", "{\"maquette_software\": 2, \"about\": \"x\"}");
	refuse_software("bad", "it begins with \"maquette_software\": 1");
	put("bad", "{\"maquette_software\": 1}");
	refuse_software("bad", "'about' is missing");
	put("bad", "{\"maquette_software\": 1,\n\"about\": \"x\",\n\"about\": \"y\"}");
	refuse_software("bad", "bad.json:3: duplicate object key");
	put("bad", "{\"maquette_software\"");
	refuse_software("bad", "bad.json:1:");
	put("bad", "[1]");
	refuse_software("bad", "it begins with");
	unlink(mq_arena_printf(&arena, "%s/bad.json", dir));
	refuse_software("bad", "no training software 'bad'");
	refuse_software("kind", "did you mean 'kinds'? `maquette list software` has all");
	refuse_software("something-else-entirely", "there are:");
	refuse_software("", "no training software ''");
	refuse_software("/no/such/file.json", "/no/such/file.json: cannot open");
	refuse_software("kinds.json", "kinds.json: cannot open"); /* a path, and not of this folder */
}

/* "NAME,key=value;key=value": on top of what the file says; they are in the name, and no file's. */
static void options_come_last(void **state)
{
	(void)state;
	put_keys("base", "\"traffic\": {\"value\": 3, \"from\": \"counted\", \"source\": \"s\"}");
	struct mq_software_record r = read_software(dir, "base ,traffic=2 ;norm=eager, overlap_tp=yes");

	assert_true(r.software.traffic == 2 && r.software.norm == MQ_EAGER && r.software.overlap_tp);
	assert_string_equal(r.software.name, "base,traffic=2,norm=eager,overlap_tp=yes");
	assert_string_equal(r.software.file, "base");
	assert_int_equal(note_of(&r, "traffic")->evidence, MQ_ASSUMED);
	assert_null(note_of(&r, "traffic")->file);
	assert_string_equal(note_of(&r, "traffic")->source, "an option");
	/* the name is what is asked for again */
	struct mq_software_record again = read_software(dir, r.software.name);
	for (const struct mq_software_field *f = mq_software_fields(); f->opt.type != MQ_OPT_END; f++)
		assert_true(same_field(f, &r.software, &again.software));
	assert_string_equal(again.software.name, r.software.name);
	assert_string_equal(read_software(dir, "base;").software.name, "base");
	refuse_software("base,traffic", "--software base: 'traffic' is not KEY=VALUE");
	refuse_software("base,trafic=2", "--software base: software has no 'trafic'; did you mean 'traffic'?");
	refuse_software("base,traffic=0", "--software base: traffic=0 is out of range; give 0.1 to 20");
	refuse_software("base,traffic=nan", "is not a number");
	refuse_software("base,attention=flash",
			"is not one of stored|eager|masked-softmax|xla|tensorflow|fused-softmax|flash1");
}

/* A path is a file of anybody's, whose parents are those of the folder. */
static void a_file_is_a_software(void **state)
{
	(void)state;
	put_keys("parent", "\"traffic\": {\"value\": 3, \"from\": \"counted\", \"source\": \"s\"}");
	char other[] = "/tmp/test-software-file-XXXXXX.json";
	int fd = mkstemps(other, 5);
	static const char text[] = "{\"maquette_software\": 1, \"inherits\": \"parent\", \"about\": \"mine\"}";

	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	struct mq_software_record r = read_software(dir, mq_arena_printf(&arena, "%s,host=2", other));
	assert_true(r.software.traffic == 3 && r.software.host == 2);
	assert_string_equal(r.software.file, other);
	assert_string_equal(r.inherits, "parent");
	unlink(other);
}

/* Of gpt with a layer of 64 wide and 32 tokens, attention is 4 x 32 x 32 x 64 forward and twice that back. */
static void logs_count_attention(void **state)
{
	const struct mq_train step = { .batch = 1, .dtype = MQ_BF16 };
	const struct mq_model *m = load("gpt:layers=1,hidden=64,heads=2,vocab=128", 32, &step);
	struct mq_software half = *mq_software_plain(), whole = half;

	(void)state;
	half.halves_causal = true;
	assert_true(mq_sample_flop(m, &step, &whole) - mq_sample_flop(m, &step, &half) == 3 * 4. * 32 * 32 * 64 / 2);
	assert_string_equal(mq_flop_convention(&half), "half of causal attention counted");
}

static void generations_end(void **state)
{
	(void)state;
	put_keys("g0", "\"host\": {\"value\": 4, \"from\": \"counted\", \"source\": \"s\"}");
	for (int i = 1; i <= 16; i++)
		put_keys(mq_arena_printf(&arena, "g%d", i), mq_arena_printf(&arena, "\"inherits\": \"g%d\"", i - 1));
	assert_true(read_software(dir, "g15").software.host == 4);
	refuse_software("g16", "more than 16 generations");
}

/* What is shipped: every file loads by its name, fits contain their values, parents are there. */
static void shipped_files_load(void **state)
{
	static const char *const promised[] = {
		"generic",
		"megatron-core",
		"megatron-core-0.8",
		"megatron-lm-2021",
		"megatron-deepspeed",
		"deepspeed",
		"torchtitan",
		"torchtitan-eager",
		"torchtitan-0.1",
		"fsdp",
		"fsdp-compiled",
		"ddp",
		"internevo",
		"llm-foundry",
		"tensorflow",
		"tensorflow-xla",
		"mxnet",
		"paddle",
		"oneflow",
		"nanotron",
		"llama3",
		"nemo",
		"megatron-bridge",
		"megatron-bridge-26.06",
	};
	struct mq_err err = MQ_ERR_INIT;
	const char **names;
	uint32_t found = 0;

	(void)state;
	assert_int_equal(mq_software_names(SHIPPED, &arena, &names, &err), MQ_OK);
	for (const char **name = names; *name; name++) {
		struct mq_software_record r = read_software(SHIPPED, *name);

		assert_string_equal(r.software.name, *name);
		assert_true(strlen(r.software.about) > 10);
		if (name > names)
			assert_true(strcmp(name[-1], *name) < 0);
		for (size_t i = 0; i < sizeof(promised) / sizeof(*promised); i++)
			found += !strcmp(promised[i], *name);
		for (uint32_t i = 0; mq_software_fields()[i].opt.type != MQ_OPT_END; i++) {
			const struct mq_software_field *f = &mq_software_fields()[i];
			double value;

			if (r.note[i].evidence != MQ_FITTED || f->opt.type != MQ_OPT_F64)
				continue;
			value = *(const double *)((const char *)&r.software + f->opt.offset);
			if (!(r.note[i].low <= value && value <= r.note[i].high))
				fail_msg("%s: %s = %g lies outside its interval", *name, f->opt.name, value);
		}
	}
	assert_int_equal(found, sizeof(promised) / sizeof(*promised));
	/* `generic` runs any plan */
	struct mq_software_record generic = read_software(SHIPPED, "generic");
	assert_memory_equal(&generic.software.runs, &mq_software_plain()->runs, sizeof(struct mq_software_space));
	assert_int_equal(mq_software_names("/no/such/folder", &arena, &names, &err), MQ_EINPUT);
}

static struct mq_plan shape_plan(const struct mq_model *model, const struct mq_shape *shape)
{
	struct mq_cluster *cluster = mq_cluster_flat(&arena, 64, "ideal", 1e12, 16e9, 1e9, 1e-6);
	struct mq_err err = MQ_ERR_INIT;
	struct mq_plan plan;

	if (mq_plan_from_shape(shape, model, cluster, &arena, &plan, &err) != MQ_OK)
		fail_msg("%s", err.text);
	return plan;
}

static struct mq_plan dress(const struct mq_software *s, const struct mq_model *model, const struct mq_plan *plan)
{
	struct mq_plan to;

	mq_software_apply_defaults(s, model, plan, &arena, &to);
	assert_int_equal(to.explicit, MQ_EXPLICIT_ALL);
	return to;
}

static const char gpt[] = "gpt:layers=4,hidden=64,heads=4,vocab=100";
static const char moe[] = "moe:layers=4,hidden=64,heads=4,ffn=32,vocab=100,experts=4,top_k=2";

/* Every decision is the plan's where it says so, and the software's where it does not. */
static void plans_decide_first(void **state)
{
	const struct mq_model *model = load(moe, 32, &TRAIN);
	const struct mq_shape shape = {
		.dp = 2, .tp = 2, .ep = 2, .micro_batches = 4, .pipeline = MQ_PIPE_1F1B, .sequence_parallel = true
	};
	struct mq_plan plan = shape_plan(model, &shape);
	struct mq_software on = *mq_software_plain(), off = on;
	struct mq_plan p;

	(void)state;
	assert_int_equal(plan.explicit, 0);
	off.overlap_grads = off.scatter_gather = false;
	on.broadcast_params = on.early_stop = on.overlap_tp = on.overlap_experts = on.offload_optimizer = true;
	on.bucket_MB = 40, on.offload_layers = 3;
	for (int said = 0; said < 2; said++) { /* 1: the plan says the opposite of the software */
		plan.explicit = said ? MQ_EXPLICIT_ALL : 0;
		plan.overlap_grads = plan.scatter_gather = plan.broadcast_params = plan.early_stop = false;
		plan.overlap_tp = plan.overlap_experts = plan.offload_optimizer = false;
		plan.bucket_B = 5, plan.offload_layers = 7;
		p = dress(&on, model, &plan);
		assert_int_equal(p.overlap_grads, !said);
		assert_int_equal(p.scatter_gather, !said);
		assert_int_equal(p.broadcast_params, !said);
		assert_int_equal(p.early_stop, !said);
		assert_int_equal(p.overlap_tp, !said);
		assert_int_equal(p.overlap_experts, !said);
		assert_int_equal(p.offload_optimizer, !said);
		assert_true(p.bucket_B == (said ? 5 : 40e6) && p.offload_layers == (said ? 7 : 3));
		plan.overlap_grads = plan.scatter_gather = plan.broadcast_params = plan.early_stop = true;
		plan.overlap_tp = plan.overlap_experts = plan.offload_optimizer = true;
		p = dress(&off, model, &plan);
		assert_int_equal(p.overlap_grads, said);
		assert_int_equal(p.scatter_gather, said);
		assert_int_equal(p.broadcast_params, said);
		assert_int_equal(p.early_stop, said);
		assert_int_equal(p.overlap_tp, said);
		assert_int_equal(p.overlap_experts, said);
		assert_int_equal(p.offload_optimizer, said);
		assert_true(p.bucket_B == (said ? 5 : 0));
	}
	/* one alone: the others stay the software's */
	plan.explicit = MQ_EXPLICIT_BUCKET;
	p = dress(&off, model, &plan);
	assert_true(p.bucket_B == 5 && !p.overlap_grads && !p.early_stop);
	/* no software is the plain one */
	plan.explicit = 0;
	p = dress(NULL, model, &plan);
	assert_true(p.overlap_grads && p.scatter_gather && !p.early_stop && p.bucket_B == 0);
}

/* What a plan has no place for, software does not do. */
static void conditions_of_overlap(void **state)
{
	static const struct {
		struct mq_shape shape;
		bool tp, experts, scatter;
	} cases[] = {
		{ { .dp = 2, .micro_batches = 4, .pipeline = MQ_PIPE_1F1B }, false, false, false },
		{ { .tp = 2, .micro_batches = 4, .pipeline = MQ_PIPE_1F1B }, false, false, true },
		{ { .tp = 2, .micro_batches = 4, .sequence_parallel = true, .pipeline = MQ_PIPE_1F1B },
		  true,
		  false,
		  true },
		{ { .dp = 2, .ep = 2, .micro_batches = 4, .pipeline = MQ_PIPE_1F1B }, false, true, false },
		{ { .dp = 2, .ep = 2, .micro_batches = 4, .pipeline = MQ_PIPE_GPIPE }, false, false, false },
		{ { .dp = 2, .ep = 2, .micro_batches = 1, .pipeline = MQ_PIPE_1F1B }, false, false, false },
		{ { .dp = 2, .ep = 2, .pp = 2, .micro_batches = 4, .pipeline = MQ_PIPE_1F1B }, false, false, false },
		{ { .dp = 2, .ep = 2, .pp = 2, .virtual = 2, .micro_batches = 4, .pipeline = MQ_PIPE_INTERLEAVED },
		  false,
		  true,
		  false },
	};
	const struct mq_model *model = load(moe, 32, &TRAIN);
	struct mq_software s = *mq_software_plain();
	struct mq_cluster *cluster = mq_cluster_flat(&arena, 64, "ideal", 1e12, 16e9, 1e9, 1e-6);
	const struct mq_train train = { .batch = 64, .dtype = MQ_BF16 };

	(void)state;
	s.overlap_tp = s.overlap_experts = true;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct mq_plan plan = shape_plan(model, &cases[i].shape), p = dress(&s, model, &plan);
		struct mq_err err = MQ_ERR_INIT;

		if (p.overlap_tp != cases[i].tp || p.overlap_experts != cases[i].experts ||
		    p.scatter_gather != cases[i].scatter)
			fail_msg("case %zu: overlap_tp %d, overlap_experts %d, scatter_gather %d", i, p.overlap_tp,
				 p.overlap_experts, p.scatter_gather);
		if (mq_plan_check(&p, model, cluster, &train, &err) != MQ_OK)
			fail_msg("case %zu: %s", i, err.text); /* what is resolved is a plan */
	}
}

static void sharding_groups(void **state)
{
	const struct mq_model *model = load(gpt, 32, &TRAIN);
	struct mq_shape shape = { .dp = 8, .micro_batches = 1, .sync = MQ_SYNC_ZERO3 };
	struct mq_software s = *mq_software_plain();
	struct mq_plan plan = shape_plan(model, &shape);

	(void)state;
	assert_int_equal(dress(&s, model, &plan).zero_group, 0);
	s.shard_group = 4;
	assert_int_equal(dress(&s, model, &plan).zero_group, 4);
	plan.zero_group = 2; /* the plan's own */
	assert_int_equal(dress(&s, model, &plan).zero_group, 2);
	plan.zero_group = 0;
	s.shard_group = 3; /* does not divide the replicas */
	assert_int_equal(dress(&s, model, &plan).zero_group, 0);
	s.shard_group = 8; /* all of them: no group */
	assert_int_equal(dress(&s, model, &plan).zero_group, 0);
	s.shard_group = 4;
	shape.sync = MQ_SYNC_ALLREDUCE; /* nothing is sharded */
	plan = shape_plan(model, &shape);
	assert_int_equal(dress(&s, model, &plan).zero_group, 0);
	shape = (struct mq_shape){ .dp = 4, .cp = 2, .micro_batches = 1, .sync = MQ_SYNC_ZERO2 };
	plan = shape_plan(model, &shape); /* along the sequence too all hold the same */
	assert_int_equal(dress(&s, model, &plan).zero_group, 4);
}

static bool is_again(const struct mq_model *model, const struct mq_plan *p, const char *op)
{
	uint32_t id = (uint32_t)(op_of(model, op) - model->op);

	assert_true(p->config_of[id] < p->n_configs);
	return p->config[p->config_of[id]].recompute == MQ_RECOMPUTE_FULL;
}

/* Selective recomputation of more than attention becomes two configs, of which one computes all again. */
static void selective_recomputation(void **state)
{
	const struct mq_model *model = load(gpt, 32, &TRAIN);
	struct mq_shape shape = { .dp = 2, .micro_batches = 2, .recompute = MQ_RECOMPUTE_SELECTIVE };
	struct mq_plan plan = shape_plan(model, &shape), p;
	struct mq_software s = *mq_software_plain();

	(void)state;
	p = dress(&s, model, &plan); /* attention: the plan's own way, nothing is divided */
	assert_int_equal(p.n_configs, plan.n_configs);
	assert_int_equal(p.config[0].recompute, MQ_RECOMPUTE_SELECTIVE);

	s.selective = MQ_SELECTIVE_LAYERS;
	p = dress(&s, model, &plan);
	assert_int_equal(p.n_configs, 2 * plan.n_configs);
	assert_true(is_again(model, &p, "layer0.qkv") && is_again(model, &p, "layer2.norm1"));
	assert_false(is_again(model, &p, "layer1.qkv") || is_again(model, &p, "layer3.norm1"));
	assert_false(is_again(model, &p, "embedding") || is_again(model, &p, "loss"));

	/* qkv proj up down: of two layers each product is kept once, and attention always */
	s.selective = MQ_SELECTIVE_OPS;
	p = dress(&s, model, &plan);
	assert_true(is_again(model, &p, "layer0.qkv") && !is_again(model, &p, "layer0.proj"));
	assert_true(!is_again(model, &p, "layer1.qkv") && is_again(model, &p, "layer1.proj"));
	assert_true(is_again(model, &p, "layer0.norm1") && is_again(model, &p, "layer1.activation"));
	assert_false(is_again(model, &p, "layer0.attention") || is_again(model, &p, "layer1.attention"));

	s.selective = MQ_SELECTIVE_NAMED;
	s.recompute_ops = "up|norm*";
	p = dress(&s, model, &plan);
	assert_true(is_again(model, &p, "layer0.up") && is_again(model, &p, "layer3.norm2"));
	assert_false(is_again(model, &p, "layer0.down") || is_again(model, &p, "layer0.attention"));
	s.recompute_ops = "";
	p = dress(&s, model, &plan);
	assert_false(is_again(model, &p, "layer0.up"));

	/* plans that recompute nothing, or everything, stay as they are */
	s.recompute_ops = "up";
	for (int all = 0; all < 2; all++) {
		shape.recompute = all ? MQ_RECOMPUTE_FULL : MQ_RECOMPUTE_NONE;
		plan = shape_plan(model, &shape);
		p = dress(&s, model, &plan);
		assert_int_equal(p.n_configs, plan.n_configs);
		assert_int_equal(is_again(model, &p, "layer0.down"), all);
	}
}

/* ---- what follows from the fields ---------------------------------------------------------------------- */

static void types_and_casts(void **state)
{
	struct mq_software s = *mq_software_plain();

	(void)state;
	assert_int_equal(mq_software_grad_dtype(&s, MQ_BF16), MQ_FP32);
	s.grad_dtype = MQ_GRAD_AS_TRAINED;
	assert_int_equal(mq_software_grad_dtype(&s, MQ_BF16), MQ_BF16);
	assert_int_equal(mq_software_grad_dtype(&s, MQ_FP32), MQ_FP32);
	s.grad_dtype = MQ_GRAD_BF16;
	assert_int_equal(mq_software_grad_dtype(&s, MQ_FP32), MQ_BF16);
	s.grad_dtype = MQ_GRAD_FP16;
	assert_int_equal(mq_software_grad_dtype(&s, MQ_BF16), MQ_FP16);

	s.fp8_cast_B = 3;
	s.mxfp8_cast_B = 5;
	s.fp4_cast_B = 7;
	assert_true(mq_software_cast_B(&s, MQ_GEMM_FP8) == 3 && mq_software_cast_B(&s, MQ_GEMM_MXFP8) == 5);
	assert_true(mq_software_cast_B(&s, MQ_GEMM_FP4) == 7 && mq_software_cast_B(&s, MQ_GEMM_AS_DTYPE) == 0);

	for (uint32_t a = MQ_ATTENTION_STORED; a <= MQ_ATTENTION_TE; a++) {
		s.attention = a;
		assert_int_equal(mq_software_stores_scores(&s), a <= MQ_ATTENTION_FUSED_SOFTMAX);
	}
	for (int i = 0; i < MQ_N_EVIDENCE; i++)
		assert_true(*mq_evidence_name((enum mq_evidence)i) != '?');
	for (int i = 0; i < MQ_N_SW_GROUPS; i++)
		assert_true(*mq_software_group_name((enum mq_software_group)i) != '?');
}

/* Software that stores scores has no fused attention, whatever the model asks for. */
static void software_chooses_attention(void **state)
{
	struct mq_software s = *mq_software_plain();
	struct mq_model_request ask = { .spec = gpt, .train = &TRAIN, .seq = 32, .software = &s };
	struct mq_model *model;
	struct mq_err err = MQ_ERR_INIT;

	(void)state;
	for (uint32_t a = MQ_ATTENTION_STORED; a <= MQ_ATTENTION_TE; a++) {
		s.attention = a;
		ask.spec = gpt;
		assert_int_equal(mq_model_load(&ask, &arena, &model, &err), MQ_OK);
		assert_int_equal(op_of(model, "layer0.attention")->fused, a > MQ_ATTENTION_FUSED_SOFTMAX);
		ask.spec = mq_arena_printf(&arena, "%s,fused_attention=false", gpt);
		assert_int_equal(mq_model_load(&ask, &arena, &model, &err), MQ_OK);
		assert_false(op_of(model, "layer0.attention")->fused);
	}
}

static void expect_same_op(const struct mq_op *a, const struct mq_op *b)
{
	const double x[] = { a->m,     a->n,         a->k,         a->count, a->flop,   a->flop_bwd, a->read,
			     a->write, a->moved_bwd, a->fixed_bwd, a->param, a->output, a->saved,    a->saved_selective,
			     a->masks, a->kernels };
	const double y[] = { b->m,     b->n,         b->k,         b->count, b->flop,   b->flop_bwd, b->read,
			     b->write, b->moved_bwd, b->fixed_bwd, b->param, b->output, b->saved,    b->saved_selective,
			     b->masks, b->kernels };

	for (size_t i = 0; i < sizeof(x) / sizeof(*x); i++)
		if (!(fabs(x[i] - y[i]) <= 1e-12 * fabs(y[i])))
			fail_msg("op %s, number %zu: %.17g instead of %.17g", a->name, i, x[i], y[i]);
	for (int d = 0; d < MQ_N_DIMS; d++)
		assert_true(a->extent[d] == b->extent[d]);
	assert_true(a->n == b->n); /* to the last bit: alignment is asked of it */
}

static void expect_padded(const char *builder, const char *rest, uint32_t vocab, double multiple, uint32_t parts,
			  uint32_t want)
{
	const struct mq_model *m = load(mq_arena_printf(&arena, "%s:vocab=%u,%s", builder, vocab, rest), 32, &TRAIN);
	const struct mq_model *built = load(mq_arena_printf(&arena, "%s:vocab=%u,%s", builder, want, rest), 32, &TRAIN);
	const struct mq_model *padded = mq_model_pad_vocab(m, multiple, parts, &arena);
	struct mq_err err = MQ_ERR_INIT;

	assert_int_equal(padded->vocab, want);
	assert_int_equal(padded == m, vocab == want); /* nothing changes: the model itself */
	assert_int_equal(m->vocab, vocab);            /* which stays as it is */
	assert_int_equal(padded->n_ops, built->n_ops);
	for (uint32_t i = 0; i < built->n_ops; i++)
		expect_same_op(&padded->op[i], &built->op[i]);
	for (uint32_t e = 0; e < built->n_edges; e++)
		assert_near(padded->edge[e].elems, built->edge[e].elems);
	assert_near(mq_model_totals(padded).parameters, mq_model_totals(built).parameters);
	assert_int_equal(mq_model_check(padded, &err), MQ_OK);
}

/* A padded model is the one that a builder makes of the padded vocabulary. */
static void padded_vocabularies(void **state)
{
	static const struct {
		const char *builder, *rest;
	} models[] = {
		{ "gpt", "layers=2,hidden=64,heads=4" }, /* embeddings tied */
		{ "llama", "layers=2,hidden=64,heads=4,kv_heads=2,ffn=96" },
		{ "bert", "layers=2,hidden=64,heads=4" },
		{ "t5", "layers=2,hidden=64,heads=4" },
		{ "moe", "layers=2,hidden=64,heads=4,ffn=32,experts=4,top_k=2" },
		{ "moe", "layers=2,hidden=64,heads=4,ffn=32,experts=4,top_k=2,mtp=1" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
		expect_padded(models[i].builder, models[i].rest, 50257, 128, 4, 50688);
		expect_padded(models[i].builder, models[i].rest, 50257, 128, 1, 50304);
		expect_padded(models[i].builder, models[i].rest, 50688, 128, 4, 50688);
		expect_padded(models[i].builder, models[i].rest, 50257, 0, 1, 50257);
		expect_padded(models[i].builder, models[i].rest, 50257, 0, 8, 50256); /* no part of a column */
	}
	const struct mq_model *images = load("resnet50", 0, &TRAIN);
	assert_true(mq_model_pad_vocab(images, 128, 4, &arena) == images);
	assert_int_equal(mq_model_vocab_op(images), MQ_NONE);
}

/* Of a question: as many parts as the plan splits the head in. */
static void questions_of_plans(void **state)
{
	const struct mq_model *model = load("gpt:layers=4,hidden=64,heads=4,vocab=1000", 32, &TRAIN);
	struct mq_software s = *mq_software_plain();
	struct mq_question q = { .model = model, .train = &TRAIN }, own;
	struct mq_shape shape = { .tp = 4, .micro_batches = 1, .vocab_parallel = true };
	struct mq_plan split = shape_plan(model, &shape), whole;

	(void)state;
	shape.vocab_parallel = false;
	whole = shape_plan(model, &shape);
	own = mq_question_for(&q, &split, &arena);
	assert_true(own.software == mq_software_plain() && own.model == model); /* 1000 divides by 4 */
	s.vocab_multiple = 128;
	q.software = &s;
	assert_int_equal(mq_question_for(&q, &split, &arena).model->vocab, 1024);
	assert_int_equal(mq_question_for(&q, &whole, &arena).model->vocab, 1024);
	s.vocab_multiple = 100;
	assert_int_equal(mq_question_for(&q, &split, &arena).model->vocab, 1200);
	assert_int_equal(mq_question_for(&q, &whole, &arena).model->vocab, 1000);
	assert_true(mq_question_for(&q, &split, &arena).software == &s);
}

/* Memory that is no tensor: the software's on a GPU, of communicators where NVLink joins GPUs; the calibration's
 * on a CPU and under a measured model. */
static void reserves(void **state)
{
	const struct mq_model *model = load(gpt, 32, &TRAIN);
	struct mq_model measured = *model;
	struct mq_cluster *cluster = mq_cluster_flat(&arena, 2, "ideal", 1e12, 16e9, 1e9, 1e-6);
	struct mq_calib *calib = bare_calib(&arena);
	struct mq_software s = *mq_software_plain();
	struct mq_question q = { .model = model, .cluster = cluster, .calib = calib, .train = &TRAIN };
	struct mq_err err = MQ_ERR_INIT;

	(void)state;
	assert_true(mq_reserve_B(&q, 0) == 0); /* not bound */
	mq_calib_add_ideal(calib, "ideal", 1e12, 1e12, 16e9)->reserve_B = 5e8;
	assert_int_equal(mq_calib_bind(calib, cluster, &err), MQ_OK);
	assert_true(mq_reserve_B(&q, 0) == 0); /* plain software */
	q.software = &s;
	s.reserve_GB = 1.5;
	s.comm_GB = 2;
	cluster->nvlink = false;
	assert_true(mq_reserve_B(&q, 0) == 1.5e9);
	cluster->nvlink = true;
	assert_true(mq_reserve_B(&q, 0) == 3.5e9);
	cluster->device[1].kind = MQ_CPU;
	assert_true(mq_reserve_B(&q, 1) == 5e8);
	measured.profile.n_types = 1;
	q.model = &measured;
	assert_true(mq_reserve_B(&q, 0) == 5e8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_plain),
		cmocka_unit_test(logs_count_attention),
		cmocka_unit_test(words_are_names),
		cmocka_unit_test(values_of_each_kind),
		cmocka_unit_test(children_inherit),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(options_come_last),
		cmocka_unit_test(a_file_is_a_software),
		cmocka_unit_test(generations_end),
		cmocka_unit_test(shipped_files_load),
		cmocka_unit_test(plans_decide_first),
		cmocka_unit_test(conditions_of_overlap),
		cmocka_unit_test(sharding_groups),
		cmocka_unit_test(selective_recomputation),
		cmocka_unit_test(types_and_casts),
		cmocka_unit_test(software_chooses_attention),
		cmocka_unit_test(padded_vocabularies),
		cmocka_unit_test(questions_of_plans),
		cmocka_unit_test(reserves),
	};

	return cmocka_run_group_tests_name("software", tests, make_dir, remove_dir);
}
