/* list.c - `maquette list engines|platforms|devices|models|executors|software|parameters`: what there is, one line each.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "session/session.h"
#include "session/pages/page.h"
#include "cmd/list/list.h"
#include "maquette/loader.h"
#include "maquette/opt.h"
#include "model/format.h"
#include "model/formats/lib/huggingface.h"
#include "trust/trust.h"

/* What there is, as lines or as an array of objects. */
struct listing {
	bool json, any;
};

static void line(struct listing *l, const char *name, const char *text)
{
	if (!l->json) {
		printf("%-24s %s\n", name, text);
		return;
	}
	fputs(l->any ? "},\n {\"name\": " : "[\n {\"name\": ", stdout);
	l->any = true;
	mq_json_put_text(stdout, name);
	mq_json_add_text(stdout, "about", text);
}

/* The options of what the last line names. */
static void list_options(struct listing *l, const struct mq_opt *opts, struct mq_arena *arena)
{
	bool any = false;

	if (l->json)
		fputs(", \"options\": [", stdout);
	for (const struct mq_opt *o = opts; o && o->type != MQ_OPT_END; o++) {
		const char *what = o->type == MQ_OPT_BOOL ? (o->initial != 0 ? "true" : "false") :
				   o->text                ? o->text :
							    "";

		if (o->type == MQ_OPT_U32 || o->type == MQ_OPT_F64)
			what = mq_arena_printf(arena, "%g (%g to %g)", o->initial, o->min, o->max);
		if (!l->json) {
			printf("    %-20s %s [%s]\n", o->name, o->help, what);
			continue;
		}
		fputs(any ? ", {\"name\": " : "{\"name\": ", stdout);
		mq_json_put_text(stdout, o->name);
		mq_json_add_text(stdout, "about", o->help);
		mq_json_add_text(stdout, "values", what);
		putchar('}');
		any = true;
	}
	if (l->json)
		putchar(']');
}

/* A name that is none of them, with the near one. */
static enum mq_status check_name(const char *what, const char *only, const char *const *names, struct mq_err *err)
{
	for (const char *const *n = names; only && *n; n++)
		if (!strcmp(*n, only))
			return MQ_OK;
	const char *near = only ? mq_nearest(only, names) : NULL;
	if (!only)
		return MQ_OK;
	return mq_bad(err, "no %s '%s'%s%s%s; `maquette list %ss` has them all", what, only,
		      near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", what);
}

static enum mq_status list_engines(struct listing *l, const char *only, struct mq_arena *arena, struct mq_err *err)
{
	const char *dir, **names;

	MQ_TRY(mq_find_dir("engines", arena, &dir, err));
	MQ_TRY(mq_plugin_names(dir, ".so", arena, &names, err));
	MQ_TRY(check_name("engine", only, names, err));
	for (uint32_t i = 0; names[i]; i++) {
		const struct mq_engine *engine;
		struct mq_err why = MQ_ERR_INIT;

		if (only && strcmp(only, names[i]))
			continue;
		if (mq_engine_open(dir, names[i], arena, &engine, &why) != MQ_OK) {
			line(l, names[i], mq_arena_printf(arena, "(cannot be used: %s)", why.text));
			continue;
		}
		line(l, names[i], engine->summary);
		if (only) {
			if (engine->paper && !l->json)
				printf("    %s\n", engine->paper);
			list_options(l, engine->opts, arena);
		}
	}
	if (!only)
		line(l, "exec:PROGRAM", "a program of yours that speaks JSON lines");
	return MQ_OK;
}

/* The first line of a platform's comment, which says what it is. */
static const char *comment_of(const char *path, struct mq_arena *arena)
{
	struct mq_err none = MQ_ERR_INIT;
	char *text, *start, *end;
	size_t size;

	if (mq_text_read(path, 1024, arena, &text, &size, &none) != MQ_OK || !(start = strstr(text, "<!--")))
		return "";
	start += 4 + strspn(start + 4, " \t\n");
	start[strcspn(start, "\n")] = '\0';
	end = strstr(start, "-->");
	if (end)
		*end = '\0';
	return start;
}

static enum mq_status list_platforms(struct listing *l, const char *only, struct mq_arena *arena, struct mq_err *err)
{
	const char *dir, **names;

	MQ_TRY(mq_find_dir("platforms", arena, &dir, err));
	MQ_TRY(mq_plugin_names(dir, ".xml", arena, &names, err));
	for (uint32_t i = 0; names[i]; i++) {
		char *file = mq_arena_strdup(arena, names[i]);

		for (char *c = file; *c; c++)
			*c = *c == '-' ? '_' : *c;
		line(l, file, comment_of(mq_arena_printf(arena, "%s/%s.xml", dir, file), arena));
	}
	line(l, "model", "the devices that a placement data set brings itself");
	return MQ_OK;
}

static enum mq_status list_models(struct listing *l, const char *only, struct mq_arena *arena, struct mq_err *err)
{
	const char **names = mq_model_names(arena);
	struct mq_builtin is;

	if (only && !strcmp(only, "huggingface")) { /* the families that its reader knows, by "model_type" */
		const struct mq_hf_family *families;

		MQ_TRY(mq_hf_families(arena, &families, err));
		for (const char *const *type = mq_hf_types(families, arena); *type; type++)
			line(l, *type, "");
		return MQ_OK;
	}
	MQ_TRY(check_name("model", only, names, err));
	for (; *names; names++)
		if ((!only || !strcmp(only, *names)) && mq_model_builtin(*names, arena, &is)) {
			line(l, *names, is.summary);
			if (only && is.opts)
				list_options(l, is.opts, arena);
			for (; only && is.made && *is.made; is.made++)
				line(l, mq_arena_printf(arena, "  %s:%s", only, *is.made), "");
		}
	for (const char **hub = mq_hf_shipped(arena); *hub && !only; hub++)
		line(l, *hub, "a configuration of Hugging Face's, as -m ORG/NAME");
	for (const struct mq_format *const *f = mq_formats; *f && !only; f++)
		if ((*f)->load)
			line(l, mq_arena_printf(arena, "(file) %s", (*f)->name), (*f)->summary);
	return MQ_OK;
}

static enum mq_status list_executors(struct listing *l, const char *only, struct mq_arena *arena, struct mq_err *err)
{
	const char *dir, **names;
	struct mq_err none;

	line(l, "simgrid", "discrete-event simulation with contention: the judge");
	line(l, "analytic", "the same schedule in one pass, without contention");
	if (mq_find_dir("executors", arena, &dir, &none) != MQ_OK)
		return MQ_OK;
	MQ_TRY(mq_plugin_names(dir, ".so", arena, &names, err));
	for (; *names; names++)
		line(l, *names, "real hardware, run by maquette-replay");
	return MQ_OK;
}

static enum mq_status list_software(struct listing *l, const char *only, struct mq_arena *arena, struct mq_err *err)
{
	struct mq_software_record *record;
	const char *dir;
	uint32_t n;

	MQ_TRY(mq_find_dir("platforms/software", arena, &dir, err));
	if (only && l->json)
		return mq_bad(err, "--json: the values of '%s' are JSON already: platforms/software/", only);
	if (only)
		return mq_list_software(dir, only, arena, err);
	MQ_TRY(mq_software_load_all(dir, arena, &record, &n, err));
	for (uint32_t i = 0; i < n; i++)
		line(l, record[i].software.name, record[i].software.about);
	return MQ_OK;
}

/* Rows of the index of errors that ran on a device type. */
static uint32_t measured_runs(const struct mq_trust *trust, const char *device)
{
	uint32_t n = 0;

	for (uint32_t i = 0; trust && i < trust->n; i++)
		n += !strcmp(trust->row[i].point.word[MQ_TRUST_device], device);
	return n;
}

static enum mq_status list_devices(struct listing *l, const char *only, struct mq_arena *arena, struct mq_err *err)
{
	const struct mq_list none = { .n = 0 };
	const struct mq_device_calib *one = NULL;
	struct mq_calib *calib;
	struct mq_trust *trust;

	MQ_TRY(mq_calib_open(&none, NULL, arena, &calib, err));
	if (only)
		MQ_TRY(mq_calib_type_get(calib, "device", only, &one, err));
	MQ_TRY(mq_trust_open(&none, arena, &trust, err));
	for (uint32_t i = 0; i < calib->n_devices; i++) {
		const struct mq_device_calib *d = &calib->device[i];
		enum mq_dtype type = d->peak_flops[MQ_BF16] > 0 ? MQ_BF16 :
				     d->peak_flops[MQ_FP16] > 0 ? MQ_FP16 :
								  MQ_FP32;
		const char *price = d->price_per_h > 0 ? mq_arena_printf(arena, ", %.4g $/h", d->price_per_h) : "";
		uint32_t runs = measured_runs(trust, d->name);
		const char *said = mq_arena_printf(arena, "%u measured run%s", runs, runs == 1 ? "" : "s");

		if (one && one != d)
			continue;
		line(l, d->name,
		     mq_arena_printf(arena, "%.4g Tflop/s %s, %.4g GB at %.4g TB/s%s; %s; %s",
				     d->peak_flops[type] / 1e12, mq_dtype_name(type), d->memory_B / 1e9,
				     d->mem_bw_Bps / 1e12, price, said, d->source));
		if (!l->json)
			continue;
		mq_json_add_f64(stdout, "peak_bf16_flops", d->peak_flops[MQ_BF16]);
		mq_json_add_f64(stdout, "mem_bw_Bps", d->mem_bw_Bps);
		mq_json_add_f64(stdout, "memory_B", d->memory_B);
		mq_json_add_f64(stdout, "nvlink_Bps", d->nvlink_Bps);
		mq_json_add_f64(stdout, "price_per_h", d->price_per_h > 0 ? d->price_per_h : (double)NAN);
		mq_json_add_f64(stdout, "power_W", d->power_W);
		mq_json_add_f64(stdout, "measured_runs", runs);
	}
	return MQ_OK;
}

static enum mq_status list_parameters(struct listing *l, const char *only, struct mq_arena *arena, struct mq_err *err)
{
	if (l->json)
		return mq_bad(err, "--json: `list parameters` is Markdown; leave it out");
	mq_list_parameters();
	return MQ_OK;
}

static const struct {
	const char *name;
	enum mq_status (*list)(struct listing *l, const char *only, struct mq_arena *arena, struct mq_err *err);
} lists[] = {
	{ "engines", list_engines },       { "platforms", list_platforms }, { "devices", list_devices },
	{ "models", list_models },         { "executors", list_executors }, { "software", list_software },
	{ "parameters", list_parameters },
};

struct options {
	const char *what, *only;
	bool json;
};

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct options, field, __VA_ARGS__)
static const struct mq_arg rows[] = {
	ROW(TEXT, "KIND", what, NULL, NULL, .flags = MQ_ARG_POSITIONAL),
	ROW(TEXT, "NAME", only, NULL, NULL, .flags = MQ_ARG_POSITIONAL),
	ROW(FLAG, "json", json, NULL, "print an array of objects"),
	{ .type = MQ_ARG_END },
};

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	struct options o = { NULL, NULL, false };
	struct mq_arena arena = MQ_ARENA_INIT;
	const struct mq_args args = {
		.table = { { rows, &o } },
		.args_doc = "engines|platforms|devices|models|executors|software|parameters [NAME]",
		.doc = "Lists what there is, one line each; with NAME of an engine or a model its options, of a software "
		       "its values and where each comes from. `parameters` prints the fields of calibrations and of "
		       "software as Markdown.",
	};

	MQ_TRY(mq_args_parse(&args, argc, argv, err));
	for (size_t i = 0; o.what && i < sizeof(lists) / sizeof(*lists); i++)
		if (!strcmp(lists[i].name, o.what)) {
			struct listing l = { .json = o.json };
			enum mq_status status = lists[i].list(&l, o.only, &arena, err);

			if (status == MQ_OK && l.json)
				puts(l.any ? "}\n]" : "[]");
			mq_arena_fini(&arena);
			return status;
		}
	return mq_bad(err, "%s%s: give engines, platforms, devices, models, executors, software or parameters",
		      o.what ? "no list of " : "nothing to list", o.what ? o.what : "");
}

MQ_DEFINE_COMMAND(list, "engines, platforms, devices, models, executors or software there are");
