/* platform.c - `maquette platform generate|check|show|import`: makes clusters from keys, checks and shows one, imports
 * the user's machine or network. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <string.h>
#include <unistd.h>

#include "session/session.h"
#include "cmd/platform/words.h"
#include "hardware/platform/graph.h"
#include "hardware/platform/import.h"

enum { MAX_OPTIONS = 64 };

/* ---- generate ----------------------------------------------------------------------------------- */

struct generating {
	struct mq_platform_spec spec;
	struct mq_arena arena;
	struct mq_list calib;
	const char *output;
};

static enum mq_status set(const struct mq_arg *row, void *target, const char *text, struct mq_err *err)
{
	struct generating *g = target;

	return row->flags & MQ_ARG_POSITIONAL ?
		       mq_platform_spec_parse(text, &g->spec, &g->arena, err) :
		       mq_opt_set(mq_platform_opts, &g->spec, "platform", row->name, text, &g->arena, err);
}

static const struct mq_arg generate_rows[] = {
	{ .type = MQ_ARG_READ, .name = "KEY=VALUE", .read = set, .flags = MQ_ARG_POSITIONAL },
	MQ_ARG(TEXT, "output", struct generating, output, "FILE", "platform file to write (default: standard output)",
	       .letter = 'o'),
	MQ_ARG(LIST, "calib", struct generating, calib, "FILE", "further device types; repeatable", .letter = 'c'),
	{ .type = MQ_ARG_END },
};

/* Help of a key, with its words or its default. */
static const char *help_of(const struct mq_opt *o, struct mq_arena *arena)
{
	if (o->text)
		return mq_arena_printf(arena, o->type == MQ_OPT_CHOICE ? "%s: %s" : "%s (default %s)", o->help,
				       o->text);
	return o->type != MQ_OPT_BOOL && o->initial > 0 ?
		       mq_arena_printf(arena, "%s (default %g)", o->help, o->initial) :
		       o->help;
}

/* A key of a platform as an option. */
static struct mq_arg option_of(const struct mq_opt *o, struct mq_arena *arena)
{
	return (struct mq_arg){
		.type = o->type == MQ_OPT_BOOL ? MQ_ARG_SWITCH : MQ_ARG_READ,
		.name = o->name,
		.value = o->type == MQ_OPT_CHOICE ? "NAME" :
			 o->type == MQ_OPT_STR    ? "TEXT" :
						    "N",
		.help = help_of(o, arena),
		.read = set,
	};
}

/* Prints the calibration beside the platform, and its assumptions. */
static enum mq_status say_own(struct mq_calib *calib, const char *path, struct mq_err *err)
{
	uint32_t first = calib->n_devices;

	MQ_TRY(mq_calib_load(calib, path, err));
	printf("%s\n", path);
	for (uint32_t i = first; i < calib->n_devices; i++)
		if (calib->device[i].assumed)
			fprintf(stderr, "assumed: %s: %s\n", calib->device[i].name, calib->device[i].assumed);
	return MQ_OK;
}

static enum mq_status generate(struct generating *g, struct mq_err *err)
{
	struct mq_calib *calib;

	MQ_TRY(mq_calib_open(&g->calib, NULL, &g->arena, &calib, err));
	MQ_TRY(g->output ? mq_platform_generate(&g->spec, calib, NULL, g->output, err) :
			   mq_platform_generate_to(&g->spec, calib, stdout, err));
	if (g->output)
		printf("%s\n", g->output);
	if (g->output && (g->spec.tflops > 0 || g->spec.memory_GB > 0 || g->spec.bw_TBps > 0 || g->spec.mem_GBps > 0))
		MQ_TRY(say_own(calib, mq_platform_calib_path(g->output, &g->arena), err));
	return MQ_OK;
}

static enum mq_status run_generate(int argc, char **argv, struct mq_err *err)
{
	struct generating g = { .arena = MQ_ARENA_INIT };
	struct mq_arg keys[MAX_OPTIONS + 1] = { { .type = MQ_ARG_END } };
	const struct mq_args args = {
		.table = { { generate_rows, &g }, { keys, &g } },
		.args_doc = "[KEY=VALUE...]",
		.doc = "Writes a SimGrid platform: machines of one or several kinds, joined by a fabric. Every option "
		       "can also be written KEY=VALUE (several in one word: KEY=VALUE,KEY=VALUE) and is the key "
		       "platform.KEY of a study; -p of other commands takes these keys in place of a file.",
	};

	for (int i = 0; mq_platform_opts[i].type != MQ_OPT_END; i++) {
		mq_assert(i < MAX_OPTIONS);
		keys[i] = option_of(&mq_platform_opts[i], &g.arena);
	}
	mq_platform_spec_init(&g.spec);
	enum mq_status status = mq_args_parse(&args, argc, argv, err);
	if (status == MQ_OK)
		status = generate(&g, err);
	mq_arena_fini(&g.arena);
	return status;
}

/* ---- check and show ----------------------------------------------------------------------------- */

struct looking {
	const char *file, *output;
	struct mq_list calib;
	bool json;
};

#define LOOK(kind, name, field, ...) MQ_ARG(kind, name, struct looking, field, __VA_ARGS__)
#define LOOK_ROWS                                                                                        \
	LOOK(TEXT, "FILE", file, NULL, NULL, .flags = MQ_ARG_POSITIONAL),                                \
		LOOK(LIST, "calib", calib, "FILE", "calibration to add to the shipped ones; repeatable", \
		     .letter = 'c')
static const struct mq_arg check_rows[] = { LOOK_ROWS, { .type = MQ_ARG_END } };
static const struct mq_arg show_rows[] = {
	LOOK_ROWS,
	LOOK(TEXT, "output", output, "FILE",
	     "draw it: FILE.svg and FILE.png, or what FILE ends in (.svg .png .pdf .dot)", .letter = 'o'),
	LOOK(FLAG, "json", json, NULL, "print every device and link as JSON"),
	{ .type = MQ_ARG_END },
};

static enum mq_status parse_file(bool show, int argc, char **argv, struct looking *l, struct mq_err *err)
{
	const struct mq_args args = {
		.table = { { show ? show_rows : check_rows, l } },
		.args_doc = "FILE",
		.doc = show ? "Prints a platform's devices, links, the bandwidth between its kinds of devices and its "
			      "bisection; with -o draws it through graphviz." :
			      "Loads a platform, checks its values, asks the routes between its devices, and looks for "
			      "each device type's calibration.",
	};

	MQ_TRY(mq_args_parse(&args, argc, argv, err));
	if (!l->file)
		return mq_bad(err, "give a platform file, the name of a shipped platform, or keys "
				   "as generate takes them (\"gpu=H100 nodes=2\")");
	return MQ_OK;
}

/* A file, or keys of `generate`. */
static enum mq_status explore(const struct looking *l, struct mq_arena *arena, struct mq_calib **calib,
			      struct mq_cluster **cluster, struct mq_err *err)
{
	struct mq_platform_file file;

	MQ_TRY(mq_calib_open(&l->calib, NULL, arena, calib, err));
	enum mq_status status = mq_platform_open(l->file, *calib, arena, &file, err);
	if (status == MQ_OK)
		status = mq_platform_explore(file.path, *calib, arena, cluster, err);
	const char *beside = status == MQ_OK ? mq_platform_calib_path(file.path, arena) : NULL;
	if (beside && !access(beside, F_OK))
		status = mq_calib_load(*calib, beside, err);
	mq_platform_file_close(&file);
	return status;
}

/* In the child process. */
static enum mq_status look(const struct looking *l, bool show, struct mq_arena *arena, struct mq_err *err)
{
	struct mq_cluster *cluster;
	struct mq_calib *calib;
	struct mq_platform_sample sample;

	MQ_TRY(explore(l, arena, &calib, &cluster, err));
	MQ_TRY(mq_calib_bind(calib, cluster, err));
	if (!show) {
		mq_platform_sample(cluster, arena, &sample);
		uint32_t hints = mq_platform_doubts(cluster, stdout);
		printf("%s: ok: %u devices on %u machine%s, %u links, %s%u routes asked, %u hints\n", cluster->name,
		       cluster->n_devices, cluster->n_nodes, cluster->n_nodes > 1 ? "s" : "", cluster->n_links,
		       sample.all ? "all " : "", sample.n * (sample.n - 1), hints);
		return MQ_OK;
	}
	if (l->json)
		mq_platform_json(cluster, stdout);
	else
		MQ_TRY(mq_platform_tables(cluster, stdout, err));
	return l->output ? mq_platform_draw(cluster, l->output, err) : MQ_OK;
}

static enum mq_status run_look(int argc, char **argv, bool show, bool inside, struct mq_err *err)
{
	struct looking l = { 0 };
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;

	MQ_TRY(parse_file(show, argc, argv, &l, err));
	return inside ? look(&l, show, &arena, err) :
			mq_platform_child(show ? "show-inside" : "check-inside", l.file, argc - 1, argv + 1, err);
}

/* ---- import ------------------------------------------------------------------------------------- */

struct importing {
	struct mq_import_options options;
	const char *file, *output;
	struct mq_list calib;
	bool here;
};

#define IMPORT(kind, name, field, ...) MQ_ARG(kind, name, struct importing, field, __VA_ARGS__)
static const struct mq_arg import_rows[] = {
	IMPORT(TEXT, "FILE", file, NULL, NULL, .flags = MQ_ARG_POSITIONAL),
	IMPORT(TEXT, "output", output, "FILE", "platform file to write", .letter = 'o'),
	IMPORT(TEXT, "gpu", options.gpu, "TYPE", "device type (most of hwloc's files name it)", .letter = 'g'),
	IMPORT(TEXT, "name", options.name, "NAME", "name of the platform (default: the file's)", .letter = 'n'),
	IMPORT(FLAG, "here", here, NULL, "instead of a file: this machine, as hwloc finds it", .letter = 'H'),
	IMPORT(LIST, "calib", calib, "FILE", "further device types; repeatable", .letter = 'c'),
	{ .type = MQ_ARG_END },
};

/* hwloc crashes on some invalid files, so a child process reads them. */
static enum mq_status run_import(int argc, char **argv, bool inside, struct mq_err *err)
{
	struct importing i = { .here = false };
	const struct mq_args args = {
		.table = { { import_rows, &i } },
		.args_doc = "FILE",
		.doc = "Makes a platform of your machine from the output of `nvidia-smi topo -m` or `rocm-smi "
		       "--showtopo`, NCCL's topology dump (NCCL_TOPO_DUMP_FILE), or hwloc's XML (`lstopo "
		       "machine.xml`); or of a network of machines with --gpu TYPExN from Slurm's topology.conf or the "
		       "output of ibnetdiscover.",
	};
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_import_report r;
	struct mq_calib *calib;

	MQ_TRY(mq_args_parse(&args, argc, argv, err));
	if (!i.file == !i.here || !i.output)
		return mq_bad(err, "import: give the file to read (or --here) and -o FILE to write");
	MQ_TRY(mq_output_apart("-o", i.output, (const char *const *)&i.file, 1, err));
	MQ_TRY(mq_output_apart("-o", i.output, i.calib.item, i.calib.n, err));
	if (!inside)
		return mq_platform_child("import-inside", i.here ? "this machine" : i.file, argc - 1, argv + 1, err);
	enum mq_status status = mq_calib_open(&i.calib, NULL, &arena, &calib, err);
	i.options.calib = status == MQ_OK ? calib : NULL;
	if (status == MQ_OK)
		status = mq_platform_import(i.file, &i.options, i.output, &r, err);
	if (status != MQ_OK)
		return status;
	if (r.n_machines) {
		printf("%s: %u machines (%s); its first lines have the keys of `platform generate`\n", i.output,
		       r.n_machines, r.format);
	} else {
		printf("%s: %u %s%s, %u sockets, %u network ports", i.output, r.n_devices, r.type,
		       r.nvswitch ? " on NVSwitch" : "", r.n_sockets, r.n_nics);
		if (r.nic_GBps > 0)
			printf(" of %.4g GB/s", r.nic_GBps);
		printf(" (%s)\n", r.format);
	}
	if (*r.unused)
		printf("not used or not said: %s\n", r.unused);
	return MQ_OK;
}

/* ---- all ---------------------------------------------------------------------------------------- */

static const char usage[] = "Usage: maquette platform generate|check|show|import [options]\n\n"
			    "  generate [KEY=VALUE...] [-o FILE]  a cluster from its keys, as SimGrid XML\n"
			    "  check FILE                         load it, check values and routes\n"
			    "  show FILE [-o FILE]                tables; with -o a drawing (SVG, PNG)\n"
			    "  import FILE|--here -o FILE         yours, from topo -m, NCCL, hwloc, topology.conf\n\n"
			    "Each has --help; `maquette list devices` has the device types.\n";

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	static const char *const words[] = { "generate", "check", "show", "import", NULL };
	const char *word = argc > 1 ? argv[1] : "";
	char name[64];

	if (mq_args_describe(argc, argv))
		return run_generate(argc, argv, err);
	if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "-?") || !strcmp(word, "--usage"))
		return fputs(usage, stdout) < 0 ? mq_bad(err, "standard output: %m") : MQ_OK;
	if (argc > 1) { /* the name in --help and messages */
		snprintf(name, sizeof(name), "platform %.40s", word);
		argv[1] = name;
	}
	if (!strcmp(word, "generate"))
		return run_generate(argc - 1, argv + 1, err);
	if (!strcmp(word, "check") || !strcmp(word, "check-inside"))
		return run_look(argc - 1, argv + 1, false, word[5] == '-', err);
	if (!strcmp(word, "show") || !strcmp(word, "show-inside"))
		return run_look(argc - 1, argv + 1, true, word[4] == '-', err);
	if (!strcmp(word, "import") || !strcmp(word, "import-inside"))
		return run_import(argc - 1, argv + 1, word[6] == '-', err);
	const char *near = mq_nearest(word, words);
	if (near)
		return mq_bad(err, "no '%s'; did you mean '%s'?", word, near);
	return mq_bad(err, "say generate, check, show or import; see --help");
}

MQ_DEFINE_COMMAND(platform, "generate, check, show or import a cluster");
