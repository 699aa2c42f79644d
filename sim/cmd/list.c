/* list.c - `maquette list engines|platforms|devices|models|executors|software|parameters`: a line per item.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "session/session.h"
#include "session/pages/page.h"
#include "maquette/loader.h"
#include "maquette/opt.h"
#include "maquette/software.h"
#include "model/format.h"
#include "model/formats/lib/huggingface.h"
#include "model/formats/lib/names.h"
#include "trust/trust.h"

/* The output: lines, or an array of JSON objects. */
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

/* Prints the options of the item on the last line. */
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
		mq_json_put_after(stdout, any ? ", {\"name\": " : "{\"name\": ", o->name);
		mq_json_add_text(stdout, "about", o->help);
		mq_json_add_text(stdout, "values", what);
		putchar('}');
		any = true;
	}
	if (l->json)
		putchar(']');
}

/* MQ_EINPUT for an unknown name, with the nearest. */
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
		line(l, "exec:PROGRAM", "your program, over JSON lines");
	return MQ_OK;
}

/* The first line of a platform's comment, its summary. */
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

	if (only && !strcmp(only, "huggingface")) { /* the families of its reader, by "model_type" */
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

/* ---- software --------------------------------------------------------------------------------------- */

static void print_value(const struct mq_software_field *f, const struct mq_software *s)
{
	char text[64];

	if (f->opt.type == MQ_OPT_BOOL)
		printf("%.0f", mq_opt_value(&f->opt, s));
	else
		printf("%s", mq_opt_text(&f->opt, s, 6, text));
}

static void print_note(const struct mq_software_field *f, const struct mq_software_note *n, const char *own)
{
	if (n->evidence == MQ_ASSUMED) {
		printf("%s: %s\n", n->source ? n->source : "default", f->opt.help);
		return;
	}
	printf("%s", mq_evidence_name(n->evidence));
	if (!isnan(n->low))
		printf(" (%g to %g)", n->low, n->high);
	printf(": %s", n->source);
	if (n->rows)
		printf(" [%s]", n->rows);
	if (strcmp(n->file, own))
		printf(" (%s)", n->file);
	printf("\n");
}

static void print_bits(const char *label, uint32_t bits, const char *(*name_of)(int), int n)
{
	printf("  %-12s", label);
	for (int i = 0; i < n; i++)
		if (bits & 1u << i)
			printf(" %s", name_of(i));
	printf("\n");
}
#define PRINT_BITS(label, bits, name_of, n) print_bits(label, bits, (const char *(*)(int))(name_of), n)

static void print_space(const struct mq_software_space *s)
{
	printf("plans it runs\n");
	PRINT_BITS("schedules", s->schedules, mq_pipeline_name, MQ_N_PIPELINES);
	PRINT_BITS("sync", s->syncs, mq_sync_name, MQ_N_SYNCS);
	if (~s->sync_split & s->syncs)
		PRINT_BITS("sync_split", s->sync_split & s->syncs, mq_sync_name, MQ_N_SYNCS);
	PRINT_BITS("recompute", s->recomputes, mq_recompute_name, MQ_N_RECOMPUTES);
	PRINT_BITS("dtypes", s->dtypes, mq_dtype_name, MQ_N_DTYPES);
	printf("  %-12s %s\n", "models", mq_models_name((enum mq_models)s->models));
	PRINT_BITS("parts", s->parts, mq_model_part_name, MQ_N_MODEL_PARTS);
	PRINT_BITS("switches", s->switches, mq_switch_name, MQ_N_SWITCHES);
	if (s->tensor) {
		printf("  %-12s%s%s\n", "norms", s->sequence & MQ_WHOLE ? " whole" : "",
		       s->sequence & MQ_SPLIT ? " split along the sequence" : "");
		printf("  %-12s%s%s\n", "vocabulary", s->vocab & MQ_WHOLE ? " whole" : "",
		       s->vocab & MQ_SPLIT ? " split" : "");
	}
	printf("  %-12s%s%s\n  %-12s", "devices", s->gpu ? " gpu" : "", s->cpu ? " cpu" : "", "also");
	for (const struct mq_space_flag *f = mq_space_flags(); f->name; f++)
		if (mq_space_has(s, f))
			printf(" %s", f->name);
	printf("\n");
}

/* Prints all values of one software ("NAME" or "NAME,key=value") with unit and source, and the plans that it runs. */
static enum mq_status print_software(const char *dir, const char *text, struct mq_arena *arena, struct mq_err *err)
{
	struct mq_software_record record;

	MQ_TRY(mq_software_load(dir, text, arena, &record, err));
	printf("%s: %s\n", record.software.name, record.software.about);
	if (record.inherits)
		printf("inherits %s\n", record.inherits);
	if (record.software.target)
		printf("export --to %s (%s)\n", record.software.target, record.software.release);
	for (int group = 0; group < MQ_N_SW_GROUPS; group++) {
		printf("%s\n", mq_software_group_name(group));
		for (const struct mq_software_field *f = mq_software_fields(); f->opt.type != MQ_OPT_END; f++) {
			if ((int)f->group != group)
				continue;
			printf("  %-18s ", f->opt.name);
			print_value(f, &record.software);
			if (strcmp(f->unit, "word") && strcmp(f->unit, "text") && strcmp(f->unit, "0/1") &&
			    strcmp(f->unit, "1"))
				printf(" %s", f->unit);
			printf("  ");
			print_note(f, &record.note[f - mq_software_fields()], record.software.file);
		}
	}
	print_space(&record.software.runs);
	return MQ_OK;
}

static void print_calib(const char *title, const struct mq_calib_field *f)
{
	printf("### %s\n\n| parameter | unit | default | range | meaning |\n"
	       "| --- | --- | --- | --- | --- |\n",
	       title);
	for (; f->name; f++) {
		printf("| `%s` | %s | ", f->name, f->unit);
		if (isnan(f->initial))
			printf("none");
		else
			printf("%g", f->initial);
		printf(" | %g to %g | %s |\n", f->min, f->max, f->help);
	}
	printf("\n");
}

static void print_software_fields(void)
{
	const struct mq_software *plain = mq_software_plain();

	printf("### Training software\n\n| field | group | unit | default | range | meaning |\n"
	       "| --- | --- | --- | --- | --- | --- |\n");
	for (const struct mq_software_field *f = mq_software_fields(); f->opt.type != MQ_OPT_END; f++) {
		printf("| `%s` | %s | %s | ", f->opt.name, mq_software_group_name(f->group), f->unit);
		print_value(f, plain);
		printf(" | ");
		if (f->opt.type == MQ_OPT_F64 || f->opt.type == MQ_OPT_U32)
			printf("%g to %g", f->opt.min, f->opt.max);
		else if (f->opt.type == MQ_OPT_CHOICE)
			for (const char *c = f->opt.text; *c; c++)
				putchar(*c == '|' ? ' ' : *c);
		printf(" | %s |\n", f->opt.help);
	}
	printf("\n");
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
		return print_software(dir, only, arena, err);
	MQ_TRY(mq_software_load_all(dir, arena, &record, &n, err));
	for (uint32_t i = 0; i < n; i++)
		line(l, record[i].software.name, record[i].software.about);
	return MQ_OK;
}

/* Number of rows in the index of errors on a device type. */
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
	print_calib("Device types", mq_calib_device_fields());
	print_calib("Link classes", mq_calib_link_fields());
	print_software_fields();
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
		.doc = "Lists all items of a kind, one line each; with NAME the options of an engine or a model, or "
		       "the values of a software with their sources. `parameters` prints the fields of calibrations "
		       "and of software as Markdown.",
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
