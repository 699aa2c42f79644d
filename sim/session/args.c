/*
 * args.c - the option table that every simulating command shares, and argp with errors of one
 * line. argp's own "Try `... --help'" text is kept for what only getopt can see (a missing value).
 */
#include "session/session.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ini.h"
#include "maquette/opt.h"
#include "base/quantity.h"
#include "hardware/platform/generate.h"

enum {
	KEY_BATCH = 1000,
	KEY_SEQ,
	KEY_DTYPE,
	KEY_GRAD_DTYPE,
	KEY_PRODUCTS,
	KEY_OPTIMIZER,
	KEY_MODE,
	KEY_CALIB,
	KEY_FIX,
	KEY_MAX,
	KEY_START,
	KEY_SEED,
	KEY_TIMEOUT,
	KEY_NO_INTERFERENCE,
	KEY_NO_FOLD,
	KEY_DEBUG_CHECK,
	KEY_CHANGE,
	KEY_DEVICES,
	KEY_SOFTWARE,
	KEY_TIME_OOM,
	KEY_EXPERT_LOAD,
	KEY_EXPERT_CAPACITY,
	KEY_EXPERT_PAD,
	KEY_DOCUMENTS
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "The question:", 1 },
	{ "model", 'm', "MODEL", 0, "NAME[:key=value,...] of a built-in model, or a file", 1 },
	{ "platform", 'p', "FILE", 0,
	  "platform XML file, a shipped platform's name, keys of `platform "
	  "generate` (\"gpu=H100 nodes=8\"), or 'model'",
	  1 },
	{ "devices", KEY_DEVICES, "RANKS", 0,
	  "use only these devices of the platform: 0-31, or 0-3,8-11; plans number them from 0", 1 },
	{ "batch", KEY_BATCH, "N", 0, "samples per step over all devices; asked for in training", 1 },
	{ "seq", KEY_SEQ, "N", 0, "tokens per sample (default: the model's)", 1 },
	{ "dtype", KEY_DTYPE, "TYPE", 0,
	  "fp32 tf32 fp16 bf16 fp8 fp64 (default bf16 where every GPU has it, else fp16; fp32 on CPUs alone)", 1 },
	{ "software", KEY_SOFTWARE, "NAME[,key=value...]", 0,
	  "training software that runs the plans (see `maquette list software`; default generic)", 1 },
	{ "grad-dtype", KEY_GRAD_DTYPE, "TYPE", 0, "of reduced gradients (default: the software's)", 1 },
	{ "products", KEY_PRODUCTS, "TYPE", 0,
	  "fp8, mxfp8 or fp4: of the operands of layers' products, the rest in --dtype (default as that)", 1 },
	{ "optimizer", KEY_OPTIMIZER, "NAME", 0, "adam sgd momentum (default adam)", 1 },
	{ "mode", KEY_MODE, "MODE", 0, "train or infer (default train)", 1 },
	{ "expert-load", KEY_EXPERT_LOAD, "LOAD", 0,
	  "mixtures: tokens of the fullest expert-parallel rank / the mean, or tokens of each expert: 5,3,1,1 or a file (default: all alike)",
	  1 },
	{ "expert-capacity", KEY_EXPERT_CAPACITY, "C", 0,
	  "an expert takes C times the mean of all, the rest is dropped", 1 },
	{ "expert-pad", KEY_EXPERT_PAD, NULL, 0, "experts are padded to their capacity", 1 },
	{ "documents", KEY_DOCUMENTS, "LENGTHS", 0,
	  "packed into sequences, whose tokens attend to their own: 1000 (all alike), lognormal:MEAN:SIGMA, or lengths to draw from: 300,2000,120 or a file",
	  1 },
	{ "calib", KEY_CALIB, "FILE", 0, "calibration to add to the shipped ones; repeatable", 1 },
	{ NULL, 0, NULL, 0, "Constraints on plans:", 2 },
	{ "fix", KEY_FIX, "KEY=VALUE", 0, "dp tp pp cp ep etp ulysses mbs virtual schedule recompute sync; repeatable",
	  2 },
	{ "max", KEY_MAX, "KEY=VALUE", 0,
	  "dp tp pp devices; of a step: cost ($), energy (kWh), step-time (s), "
	  "memory (GB of a device); repeatable",
	  2 },
	{ "start", KEY_START, "PLAN", 0, "plan file from which engines start", 2 },
	{ NULL, 0, NULL, 0, "Simulation:", 3 },
	{ "seed", KEY_SEED, "N", 0, "of all randomness (default 1)", 3 },
	{ "jobs", 'j', "N", 0, "worker processes (default: the processors); never changes a result", 3 },
	{ "timeout", KEY_TIMEOUT, "S", 0, "simulated seconds after which a plan is given up", 3 },
	{ "change", KEY_CHANGE, "TARGET=NUMBER", 0,
	  "what if: link.CLASS.bw, device.TYPE.flops, rank.N.clock=FACTOR, ...; repeatable", 3 },
	{ "no-interference", KEY_NO_INTERFERENCE, NULL, 0, "compute and communication do not slow each other", 3 },
	{ "no-fold", KEY_NO_FOLD, NULL, 0, "simulate every rank, even identical ones", 3 },
	{ "time-oom", KEY_TIME_OOM, NULL, 0, "time plans that do not fit too; their verdict stands", 3 },
	{ "debug-check", KEY_DEBUG_CHECK, NULL, 0, "check all invariants after each load", 3 },
	{ 0 },
};

void mq_asked_init(struct mq_asked *asked, struct mq_err *err)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	memset(asked, 0, sizeof(*asked));
	asked->software = "generic";
	asked->train = (struct mq_train){ .batch = 1, .dtype = MQ_FP16, .grad_dtype = MQ_FP32 };
	asked->limits.fix_pipeline = asked->limits.fix_recompute = -1;
	asked->limits.fix_sync = -1;
	asked->seed = 1;
	asked->jobs = cpus > 0 ? (uint32_t)cpus : 1;
	asked->timeout_s = 1e6;
	asked->err = err;
}

int mq_arg_f64(const char *option, const char *text, double min, double max, double *value, struct mq_err *err)
{
	double v;

	if (mq_parse_f64(text, &v) && v >= min && v <= max) {
		*value = v;
		return 0;
	}
	mq_fail(err, MQ_EINPUT, "%s %s: give a number from %g to %g", option, text, min, max);
	return EINVAL;
}

int mq_arg_quantity(const char *option, const char *text, const char *unit, double min, double max, double *value,
		    struct mq_err *err)
{
	double v;

	if (mq_parse_quantity(text, unit, &v) && v >= min && v <= max) {
		*value = v;
		return 0;
	}
	mq_fail(err, MQ_EINPUT, "%s %s: give a number from %g to %g, in %s where it has no unit", option, text, min,
		max, unit);
	return EINVAL;
}

int mq_arg_u64(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *value, struct mq_err *err)
{
	uint64_t v;

	if (mq_parse_u64(text, &v) && v >= min && v <= max) {
		*value = v;
		return 0;
	}
	mq_fail(err, MQ_EINPUT, "%s %s: give a whole number from %llu to %llu", option, text, (unsigned long long)min,
		(unsigned long long)max);
	return EINVAL;
}

int mq_arg_push(const char *option, struct mq_list *list, const char *text, struct mq_err *err)
{
	if (list->n == MQ_MAX_LIST) {
		mq_fail(err, MQ_EINPUT, "%s was given more than %d times", option, MQ_MAX_LIST);
		return EINVAL;
	}
	list->item[list->n++] = text;
	return 0;
}

static const char *optimizer_name(enum mq_optimizer o)
{
	static const char *const names[] = { "adam", "sgd", "momentum" };

	return names[o];
}

enum { PRODUCT_FP8, PRODUCT_MXFP8, PRODUCT_FP4, N_PRODUCTS };

static const char *product_name(int product)
{
	static const char *const names[N_PRODUCTS] = { "fp8", "mxfp8", "fp4" };

	return names[product];
}

static const char *mode_name(int infer)
{
	return infer ? "infer" : "train";
}

/* Sets *value to the index of `text` among n names, else reports them all. */
static int choose(const char *option, const char *text, const char *(*name_of)(int), int n, int *value,
		  struct mq_err *err)
{
	char list[256] = "";
	size_t used = 0;

	*value = mq_enum_find(name_of, n, text);
	if (*value < n)
		return 0;
	for (int i = 0; i < n; i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, " %s", name_of(i));
	mq_fail(err, MQ_EINPUT, "%s %s: give one of%s", option, text, list);
	return EINVAL;
}
#define CHOOSE(option, text, name_of, n, value, err) \
	choose(option, text, (const char *(*)(int))(name_of), n, value, err)

static int read_enum_limit(const char *key, const char *value, struct mq_limits *limits, struct mq_err *err)
{
	if (!strcmp(key, "schedule"))
		return CHOOSE("--fix schedule", value, mq_pipeline_name, MQ_N_PIPELINES, &limits->fix_pipeline, err);
	if (!strcmp(key, "recompute"))
		return CHOOSE("--fix recompute", value, mq_recompute_name, MQ_N_RECOMPUTES, &limits->fix_recompute,
			      err);
	return CHOOSE("--fix sync", value, mq_sync_name, MQ_N_SYNCS, &limits->fix_sync, err);
}

/* A budget; true if `key` is one. */
static bool read_budget(const char *key, const char *value, struct mq_limits *limits, int *bad, struct mq_err *err)
{
	const struct {
		const char *name;
		double *field, size;
		const char *unit;
	} rows[] = {
		{ "cost", &limits->max_usd, 1, "$" },
		{ "energy", &limits->max_kWh, 1, "kWh" },
		{ "step-time", &limits->max_step_s, 1, "s" },
		{ "memory", &limits->max_memory_B, 1e9, "GB" },
	};
	char label[32];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (!strcmp(key, rows[i].name)) {
			snprintf(label, sizeof(label), "--max %s", key);
			*bad = mq_arg_quantity(label, value, rows[i].unit, 1e-12, 1e12, rows[i].field, err);
			if (!*bad)
				*rows[i].field *= rows[i].size;
			return true;
		}
	return false;
}

/* One --fix or --max item. */
static int read_limit(const char *option, const char *text, struct mq_limits *limits, struct mq_err *err)
{
	bool fix = !strcmp(option, "--fix");
	const struct {
		const char *name;
		uint32_t *fix, *max;
	} rows[] = {
		{ "dp", &limits->fix_dp, &limits->max_dp },
		{ "tp", &limits->fix_tp, &limits->max_tp },
		{ "pp", &limits->fix_pp, &limits->max_pp },
		{ "cp", &limits->fix_cp, NULL },
		{ "ep", &limits->fix_ep, NULL },
		{ "etp", &limits->fix_etp, NULL },
		{ "ulysses", &limits->fix_ulysses, NULL },
		{ "mbs", &limits->fix_mbs, NULL },
		{ "virtual", &limits->fix_virtual, NULL },
		{ "devices", NULL, &limits->max_devices },
	};
	const char *equals = strchr(text, '=');
	char key[16] = "", label[32];
	uint64_t number;
	int wrong;

	if (equals && (size_t)(equals - text) < sizeof(key))
		memcpy(key, text, (size_t)(equals - text));
	if (fix && (!strcmp(key, "schedule") || !strcmp(key, "recompute") || !strcmp(key, "sync")))
		return read_enum_limit(key, equals + 1, limits, err);
	if (!fix && read_budget(key, equals ? equals + 1 : "", limits, &wrong, err))
		return wrong;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint32_t *field = fix ? rows[i].fix : rows[i].max;

		if (!field || strcmp(key, rows[i].name))
			continue;
		snprintf(label, sizeof(label), "%s %s", option, key);
		int bad = mq_arg_u64(label, equals + 1, 1, UINT32_MAX - 1, &number, err);
		if (!bad)
			*field = (uint32_t)number;
		return bad;
	}
	mq_fail(err, MQ_EINPUT, "%s %s: give KEY=VALUE with KEY one of %s", option, text,
		fix ? "dp tp pp cp ep etp ulysses mbs virtual schedule recompute sync" :
		      "dp tp pp devices cost energy step-time memory");
	return EINVAL;
}

static int parse_training(int key, const char *arg, struct mq_asked *q)
{
	uint64_t number = 0;
	int index = 0, bad;

	switch (key) {
	case KEY_BATCH:
		bad = mq_arg_u64("--batch", arg, 1, 1u << 30, &number, q->err);
		q->train.batch = (double)number;
		q->batch_given = true;
		return bad;
	case KEY_SEQ:
		bad = mq_arg_u64("--seq", arg, 1, 1u << 30, &number, q->err);
		q->seq = (uint32_t)number;
		return bad;
	case KEY_DTYPE:
		bad = CHOOSE("--dtype", arg, mq_dtype_name, MQ_N_TENSOR_DTYPES, &index, q->err);
		q->train.dtype = (enum mq_dtype)index;
		q->dtype_given = true;
		return bad;
	case KEY_GRAD_DTYPE:
		bad = CHOOSE("--grad-dtype", arg, mq_dtype_name, MQ_N_TENSOR_DTYPES, &index, q->err);
		q->train.grad_dtype = (enum mq_dtype)index;
		q->grad_given = true;
		return bad;
	case KEY_PRODUCTS:
		bad = choose("--products", arg, product_name, N_PRODUCTS, &index, q->err);
		q->train.products = index == PRODUCT_FP4 ? MQ_FP4 : MQ_FP8;
		q->train.mx = index == PRODUCT_MXFP8;
		return bad;
	case KEY_OPTIMIZER:
		bad = CHOOSE("--optimizer", arg, optimizer_name, MQ_N_OPTIMIZERS, &index, q->err);
		q->train.optimizer = (enum mq_optimizer)index;
		return bad;
	case KEY_MODE:
		bad = choose("--mode", arg, mode_name, 2, &index, q->err);
		q->train.infer = index == 1;
		return bad;
	case KEY_EXPERT_LOAD:
		q->expert_load = arg;
		return 0;
	case KEY_EXPERT_CAPACITY:
		return mq_arg_f64("--expert-capacity", arg, 1e-3, 1e6, &q->train.experts.capacity, q->err);
	case KEY_DOCUMENTS:
		q->documents = arg;
		return 0;
	case KEY_EXPERT_PAD:
		q->train.experts.pad = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static int parse_simulation(int key, const char *arg, struct mq_asked *q)
{
	uint64_t number = 0;
	int bad;

	switch (key) {
	case KEY_SEED:
		q->seed_given = true;
		return mq_arg_u64("--seed", arg, 0, UINT64_MAX, &q->seed, q->err);
	case 'j':
		bad = mq_arg_u64("--jobs", arg, 1, 4096, &number, q->err);
		q->jobs = (uint32_t)number;
		return bad;
	case KEY_TIMEOUT:
		return mq_arg_quantity("--timeout", arg, "s", 1e-9, 1e12, &q->timeout_s, q->err);
	case KEY_NO_INTERFERENCE:
		q->no_interference = true;
		return 0;
	case KEY_NO_FOLD:
		q->no_fold = true;
		return 0;
	case KEY_TIME_OOM:
		q->time_oom = true;
		return 0;
	case KEY_DEBUG_CHECK:
		q->debug_check = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct mq_asked *q = state->input;
	int bad;

	switch (key) {
	case 'm':
		q->model = arg;
		return 0;
	case 'p':
		q->platform = mq_platform_spec_is(arg) ? mq_platform_spec_plain(arg) : arg;
		return 0;
	case KEY_CALIB:
		return mq_arg_push("--calib", &q->calib, arg, q->err);
	case KEY_CHANGE:
		return mq_arg_push("--change", &q->change, arg, q->err);
	case KEY_FIX:
		bad = read_limit("--fix", arg, &q->limits, q->err);
		return bad ? bad : mq_arg_push("--fix", &q->fix, arg, q->err);
	case KEY_MAX:
		bad = read_limit("--max", arg, &q->limits, q->err);
		return bad ? bad : mq_arg_push("--max", &q->max, arg, q->err);
	case KEY_START:
		q->start = arg;
		return 0;
	case KEY_DEVICES:
		q->devices = arg;
		return 0;
	case KEY_SOFTWARE:
		q->software = arg;
		return 0;
	}
	bad = parse_training(key, arg, q);
	return bad == ARGP_ERR_UNKNOWN ? parse_simulation(key, arg, q) : bad;
}

const struct argp mq_asked_argp = { .options = options, .parser = parse };

static void print_data(const struct mq_asked *q, FILE *file)
{
	if (q->documents)
		mq_ini_put(file, "documents", q->documents);
	if (q->expert_load)
		mq_ini_put(file, "expert-load", q->expert_load);
	if (q->train.experts.capacity > 0)
		fprintf(file, "expert-capacity = %.12g\n", q->train.experts.capacity);
	if (q->train.experts.pad)
		fputs("expert-pad = true\n", file);
}

void mq_asked_print(const struct mq_asked *q, FILE *file)
{
	if (q->model)
		mq_ini_put(file, "model", q->model);
	if (q->platform)
		mq_ini_put(file, "platform", q->platform);
	if (q->devices)
		mq_ini_put(file, "devices", q->devices);
	fprintf(file, "batch = %.0f\n", q->train.batch);
	if (q->seq)
		fprintf(file, "seq = %u\n", q->seq);
	fprintf(file, "software = %s\ndtype = %s\n", q->software, mq_dtype_name(q->train.dtype));
	if (q->grad_given)
		fprintf(file, "grad-dtype = %s\n", mq_dtype_name(q->train.grad_dtype));
	fprintf(file, "optimizer = %s\nmode = %s\n", optimizer_name(q->train.optimizer), mode_name(q->train.infer));
	if (mq_train_casts(&q->train))
		fprintf(file, "products = %s%s\n", q->train.mx ? "mx" : "", mq_dtype_name(q->train.products));
	print_data(q, file);
	for (uint32_t i = 0; i < q->calib.n; i++)
		mq_ini_put(file, "calib", q->calib.item[i]);
	for (uint32_t i = 0; i < q->change.n; i++)
		mq_ini_put(file, "change", q->change.item[i]);
	for (uint32_t i = 0; i < q->fix.n; i++)
		mq_ini_put(file, "fix", q->fix.item[i]);
	for (uint32_t i = 0; i < q->max.n; i++)
		mq_ini_put(file, "max", q->max.item[i]);
	if (q->start)
		mq_ini_put(file, "start", q->start);
	fprintf(file, "seed = %llu\ntimeout = %.12g\n", (unsigned long long)q->seed, q->timeout_s);
	if (q->no_interference)
		fputs("no-interference = true\n", file);
	if (q->no_fold)
		fputs("no-fold = true\n", file);
	if (q->time_oom)
		fputs("time-oom = true\n", file);
	if (q->debug_check)
		fputs("debug-check = true\n", file);
}

enum mq_status mq_asked_train(const struct mq_asked *asked, const struct mq_software *software, struct mq_arena *arena,
			      struct mq_train *train, struct mq_err *err)
{
	*train = asked->train;
	if (!asked->grad_given)
		train->grad_dtype = mq_software_grad_dtype(software, train->dtype);
	if (train->experts.pad && !(train->experts.capacity > 0))
		return mq_fail(err, MQ_EINPUT, "--expert-pad: give --expert-capacity too, to which experts are padded");
	if (asked->expert_load)
		MQ_TRY(mq_expert_load_read("--expert-load", asked->expert_load, arena, &train->experts, err));
	train->documents.seed = asked->seed;
	return asked->documents ?
		       mq_sequence_packing_read("--documents", asked->documents, arena, &train->documents, err) :
		       MQ_OK;
}

/* ---- one-line errors -------------------------------------------------------------------------- */

enum { MAX_LONG = 128 };

static bool has_key(const struct argp *argp, int key)
{
	for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++)
		if (o->key == key)
			return true;
	for (const struct argp_child *c = argp->children; c && c->argp; c++)
		if (has_key(c->argp, key))
			return true;
	return false;
}

static uint32_t long_options(const struct argp *argp, const struct argp_option **option, uint32_t n)
{
	for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++)
		if (o->name && n < MAX_LONG)
			option[n++] = o;
	for (const struct argp_child *c = argp->children; c && c->argp; c++)
		n = long_options(c->argp, option, n);
	return n;
}

/* The option that a word names or begins, as getopt finds it; NULL and *other: it begins two. */
static const struct argp_option *find_long(const struct argp_option *const *option, uint32_t n, const char *word,
					   const struct argp_option **other)
{
	const struct argp_option *found = NULL;

	*other = NULL;
	for (uint32_t i = 0; i < n; i++) {
		if (!strcmp(word, option[i]->name)) {
			*other = NULL;
			return option[i];
		}
		if (strncmp(word, option[i]->name, strlen(word)))
			continue;
		if (found && !*other)
			*other = option[i];
		found = found ? found : option[i];
	}
	return found;
}

/* What argp itself would refuse with three lines and the end of the process: words may come from a job file. */
static enum mq_status check_long(const char *command, const char *arg, const struct argp_option *const *option,
				 uint32_t n, struct mq_err *err)
{
	const struct argp_option *other, *found;
	const char *names[MAX_LONG + 1];
	char word[64] = "";
	size_t length = strcspn(arg, "=");

	if (length >= sizeof(word))
		return mq_fail(err, MQ_EINPUT, "unknown option --%.60s...; see maquette %s --help", arg, command);
	memcpy(word, arg, length);
	found = find_long(option, n, word, &other);
	if (other)
		return mq_fail(err, MQ_EINPUT, "option --%s is the beginning of --%s and of --%s: write more of it",
			       word, found->name, other->name);
	if (found && !found->arg && arg[length])
		return mq_fail(err, MQ_EINPUT, "option --%s takes no value; leave '%.60s' away", found->name,
			       arg + length);
	if (found)
		return MQ_OK;
	for (uint32_t i = 0; i < n; i++)
		names[i] = option[i]->name;
	names[n] = NULL;
	const char *near = mq_nearest(word, names);
	if (near)
		return mq_fail(err, MQ_EINPUT, "unknown option --%s; did you mean --%s?", word, near);
	return mq_fail(err, MQ_EINPUT, "unknown option --%s; see maquette %s --help", word, command);
}

enum mq_status mq_args_parse(const struct argp *argp, int argc, char **argv, void *input, struct mq_err *err)
{
	static const struct argp_option own[] = { { .name = "help" }, { .name = "usage" }, { .name = "version" } };
	const struct argp_option *option[MAX_LONG] = { &own[0], &own[1], &own[2] };
	uint32_t n = long_options(argp, option, 3);

	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strncmp(argv[i], "--", 2))
			MQ_TRY(check_long(argv[0], argv[i] + 2, option, n, err));
	static char help[] = "--help";
	for (int i = 1; i < argc && strcmp(argv[i], "--") && !has_key(argp, 'h'); i++)
		if (!strcmp(argv[i], "-h"))
			argv[i] = help;
	char full_name[64];
	char *command = argv[0];
	snprintf(full_name, sizeof(full_name), "maquette %s", command);
	argv[0] = full_name; /* the name that --help shows */
	argp_err_exit_status = MQ_EINPUT;
	err->status = MQ_OK;
	error_t bad = argp_parse(argp, argc, argv, 0, NULL, input);
	argv[0] = command;
	if (err->status != MQ_OK)
		return err->status;
	if (bad)
		return mq_fail(err, MQ_EINPUT, "bad usage; see maquette %s --help", argv[0]);
	return MQ_OK;
}
