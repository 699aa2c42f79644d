/* generate.c - writes generated platforms as XML: the head, the outermost zone, the file. node.c writes machines,
 * fabric.c the network between them. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "hardware/platform/spec.h"

static void put_head(struct mq_gen *gen)
{
	const struct mq_platform_spec *spec = gen->spec;
	struct mq_platform_spec shown = *spec;
	FILE *f = gen->file;

	/* commas separate options below; '+' joins a mix too */
	char *mix = mq_arena_strdup(gen->arena, spec->gpu);
	for (char *comma = strchr(mix, ','); comma; comma = strchr(comma, ','))
		*comma = '+';
	shown.gpu = mix;
	const char *options = mq_opt_print(mq_platform_opts, &shown, gen->arena), *option;

	fprintf(f,
		"<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
		"<!--\n  %lu devices on %u machine%s. Bandwidths are nominal, latencies rounded; how fast "
		"devices and links\n  really are stands in their calibration. Made by:\n"
		"  maquette platform generate",
		(unsigned long)gen->n_devices, gen->n_nodes, gen->n_nodes > 1 ? "s" : "");
	while ((option = mq_text_next(&options, ",", gen->arena)))
		fprintf(f, " %s", option);
	fprintf(f, "\n-->\n<platform version=\"4.1\">\n");
}

/* Text for XML: only characters that need no quoting. */
static bool plain_text(const char *text)
{
	return !text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.+*@:, /")] &&
	       !strstr(text, "--");
}

const char *mq_gen_name(const struct mq_gen *gen)
{
	const struct mq_platform_spec *spec = gen->spec;

	if (spec->name)
		return spec->name;
	const char *name = "";
	for (uint32_t i = 0; i < gen->n_groups; i++)
		name = mq_arena_printf(gen->arena, "%s%s%s-%lu", name, i ? "+" : "", gen->group[i].type,
				       (unsigned long)gen->group[i].nodes * gen->group[i].gpus);
	return name;
}

static void put_link(struct mq_gen *gen, const char *name, double GBps, double us, const char *class, bool duplex)
{
	fprintf(gen->file,
		"<link id=\"%s\" bandwidth=\"%.9gGBps\" latency=\"%.9gus\" "
		"sharing_policy=\"%s\"><prop id=\"mq_class\" value=\"%s\"/></link>\n",
		name, GBps, us, duplex ? "SPLITDUPLEX" : "SHARED", class);
}

static void put_host(struct mq_gen *gen, const struct mq_gen_host *host)
{
	const struct mq_platform_spec *spec = gen->spec;
	const struct mq_gen_group *g = host->group;
	FILE *f = gen->file;

	fprintf(f,
		"<host id=\"n%ug%u\" speed=\"%.9gTf\"><prop id=\"mq_type\" value=\"%s\"/>"
		"<prop id=\"mq_rank\" value=\"%u\"/><prop id=\"mq_node\" value=\"%u\"/>"
		"<prop id=\"mq_socket\" value=\"%u\"/><prop id=\"mq_nics\" value=\"%u\"/>",
		host->node, host->local, g->tflops, g->type, gen->rank++, host->node, host->socket, g->nics);
	if (g->cpu)
		fprintf(f, "<prop id=\"mq_kind\" value=\"cpu\"/>");
	if (g->mem_bw_Bps > 0)
		fprintf(f, "<prop id=\"mq_memory_B\" value=\"%.9g\"/><prop id=\"mq_mem_bw_Bps\" value=\"%.9g\"/>",
			g->memory_B, g->mem_bw_Bps);
	if (spec->host_memory_GB > 0)
		fprintf(f, "<prop id=\"mq_host_memory_B\" value=\"%.9g\"/>", spec->host_memory_GB * 1e9);
	if (spec->price_per_h >= 0)
		fprintf(f, "<prop id=\"mq_price_per_h\" value=\"%.9g\"/>", spec->price_per_h);
	if (spec->power_W >= 0)
		fprintf(f, "<prop id=\"mq_power_W\" value=\"%.9g\"/>", spec->power_W);
	fprintf(f, "</host>\n");
}

static void put_step(struct mq_gen *gen, const char *link)
{
	fprintf(gen->file, "<link_ctn id=\"%s\"/>", link);
}

static const struct mq_gen_sink xml = { put_link, put_host, put_step };

static void put_all(struct mq_gen *gen)
{
	FILE *f = gen->file;

	put_head(gen);
	fprintf(f,
		"<zone id=\"platform\" routing=\"%s\">\n<prop id=\"mq_name\" value=\"%s\"/>\n"
		"<prop id=\"mq_fabric\" value=\"%s\"/>\n",
		mq_gen_root_routing(gen), mq_gen_name(gen), mq_fabric_name(gen->network));
	if (gen->nvls)
		fprintf(f, "<prop id=\"mq_nvls\" value=\"1\"/>\n");
	if (gen->spec->sharp)
		fprintf(f, "<prop id=\"mq_sharp\" value=\"1\"/>\n");
	/* SimGrid's grammar allows links beside zones only after a zone. */
	if (gen->n_leaves > 1 || !gen->flat)
		mq_gen_hub(gen, "core");
	for (uint32_t n = 0; n < gen->n_nodes; n++)
		mq_gen_node_links(gen, n);
	mq_gen_fabric(gen);
	fprintf(f, "</zone>\n</platform>\n");
}

enum mq_status mq_gen_open(const struct mq_platform_spec *spec, const struct mq_calib *calib, struct mq_arena *arena,
			   struct mq_gen *gen, struct mq_err *err)
{
	if ((spec->name && !plain_text(spec->name)) || (spec->gpu && !plain_text(spec->gpu)))
		return mq_bad(err, "platform: name and gpu take letters, digits and -_.+*@:/ only");
	MQ_TRY(mq_gen_prepare(spec, calib, arena, gen, err));
	return mq_gen_fabric_check(gen, err);
}

enum mq_status mq_platform_generate_to(const struct mq_platform_spec *spec, const struct mq_calib *calib, FILE *file,
				       struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_gen gen;

	MQ_TRY(mq_gen_open(spec, calib, &arena, &gen, err));
	gen.sink = &xml;
	gen.file = file;
	put_all(&gen);
	if (fflush(file) != 0 || ferror(file))
		return mq_bad(err, "cannot write the platform: %m; is the disk full?");
	return MQ_OK;
}

const char *mq_platform_calib_path(const char *path, struct mq_arena *arena)
{
	static const char *const ends[] = { ".xml", MQ_PLATFORM_KEYS };
	size_t n = strlen(path);

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t end = strlen(ends[i]);

		if (n > end && !strcmp(path + n - end, ends[i]))
			return mq_arena_printf(arena, "%.*s.calib.json", (int)(n - end), path);
	}
	return mq_arena_printf(arena, "%s.calib.json", path);
}

/* A device type from the options: a shipped one with values replaced, or a new one. */
static void own_device(const struct mq_platform_spec *spec, const struct mq_gen_group *g, struct mq_arena *arena,
		       struct mq_device_calib *d)
{
	if (!g->known) {
		mq_calib_describe(d, g->type, MQ_GPU, g->tflops * 1e12, g->mem_bw_Bps, g->memory_B);
		d->nvlink_Bps = g->nvlink_GBps * 1e9;
		d->nvswitch = g->intra == MQ_INTRA_NVSWITCH;
		d->pcie_Bps = g->pcie_GBps * 1e9;
		d->nic_Bps = g->nic_GBps * 1e9;
		d->source =
			"given to `maquette platform generate`: speeds and memory; efficiencies are defaults, no run of "
			"it has been compared: unvalidated";
		d->assumed = mq_gen_assumed(spec, g, d->assumed, arena);
		return;
	}
	*d = *g->known;
	double factor = spec->tflops > 0 ? spec->tflops * 1e12 / mq_calib_peak_flops(d) : 1;
	for (int t = 0; t < MQ_N_DTYPES; t++)
		d->peak_flops[t] *= factor;
	if (spec->memory_GB > 0)
		d->memory_B = spec->memory_GB * 1e9;
	if (spec->bw_TBps > 0 || spec->mem_GBps > 0)
		d->mem_bw_Bps = spec->bw_TBps > 0 ? spec->bw_TBps * 1e12 : spec->mem_GBps * 1e9;
	d->source = "the shipped calibration with what was given to `maquette platform generate`: unvalidated";
}

/* Writes the calibrations that the platform needs beside the shipped ones, if any. */
static enum mq_status put_calib(const struct mq_platform_spec *spec, const struct mq_calib *calib, const char *path,
				struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_gen gen;
	struct mq_device_calib *own = mq_arena_array(&arena, MQ_GEN_MAX_GROUPS, struct mq_device_calib);
	const struct mq_device_calib *list[MQ_GEN_MAX_GROUPS];
	bool given = spec->tflops > 0 || spec->memory_GB > 0 || spec->bw_TBps > 0 || spec->mem_GBps > 0;
	uint32_t n = 0;

	MQ_TRY(mq_gen_prepare(spec, calib, &arena, &gen, err));
	for (uint32_t i = 0; i < gen.n_groups; i++) {
		bool done = false;

		for (uint32_t k = 0; k < n; k++)
			done |= !strcmp(list[k]->name, gen.group[i].type);
		if (done || (gen.group[i].known && !given))
			continue;
		own_device(spec, &gen.group[i], &arena, &own[n]);
		list[n] = &own[n];
		n++;
	}
	if (n)
		MQ_TRY(mq_calib_save_devices(list, n, mq_platform_calib_path(path, &arena), err));
	return MQ_OK;
}

void mq_platform_discard(const char *path)
{
	struct stat st;

	if (!lstat(path, &st) && S_ISREG(st.st_mode)) /* never a device such as /dev/full */
		unlink(path);
}

enum mq_status mq_platform_keys_check(const char *keys, const struct mq_calib *calib, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_platform_spec spec;
	struct mq_gen gen;

	mq_platform_spec_init(&spec);
	MQ_TRY(mq_platform_spec_parse(keys, &spec, &arena, err));
	return mq_gen_open(&spec, calib, &arena, &gen, err);
}

enum mq_status mq_platform_generate(const struct mq_platform_spec *spec, const struct mq_calib *calib, const char *keys,
				    const char *path, struct mq_err *err)
{
	FILE *file = fopen(path, "w");
	enum mq_status status;

	if (!file)
		return mq_bad(err, "%s: cannot write: %m", path);
	setvbuf(file, NULL, _IOFBF, 1 << 18);
	status = keys ? mq_platform_keys_check(keys, calib, err) : mq_platform_generate_to(spec, calib, file, err);
	if (keys)
		fprintf(file, "%s\n", keys);
	bool lost = ferror(file) != 0;
	lost = fclose(file) != 0 || lost;
	if (status == MQ_OK && lost)
		status = mq_bad(err, "%s: cannot write: %m; is the disk full?", path);
	if (status == MQ_OK)
		status = put_calib(spec, calib, path, err);
	if (status != MQ_OK)
		mq_platform_discard(path);
	return status;
}
