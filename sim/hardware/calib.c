/* calib.c - see calib.h. Reader, writer, defaults, ranges and the documentation of platforms/calib all come from one
 * table with a row per parameter.
 *
 * Not modelled: dependence of parameters on clocks, temperature or library versions; such a machine needs its own file.
 * SPDX-License-Identifier: Apache-2.0 */
#include "hardware/calib_fields.h"
#include "maquette/calib.h"
#include "base/text.h"
#include "hardware/libraries.h"

#include <jansson.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER(...)         \
	{                   \
		__VA_ARGS__ \
	}
#define ROW(...) NUMBER(__VA_ARGS__),
static const struct mq_calib_field device_fields[] = {
#define MQ_DEVICE(field, unit, ...) ROW(#field, unit, offsetof(struct mq_device_calib, field), __VA_ARGS__)
#define MQ_PEAK(name, dtype)                                                                                          \
	ROW("peak_" name "_flops", "flop/s", offsetof(struct mq_device_calib, peak_flops) + (dtype) * sizeof(double), \
	    0, 0, 1e18, "dense peak in " name "; 0 = not supported")
#include "maquette/calib_device.def"
	{ .name = NULL }
};

#define KNOT(name, call, i, size)                                                                                   \
	NUMBER(name "_t" #i "_s", "s",                                                                              \
	       offsetof(struct mq_link_calib, call_s) + ((call)*MQ_CALL_KNOTS + (i)-1) * sizeof(double), 0, 0, 1e4, \
	       "measured time of one " name " of " size "; 0 = not measured")
static const struct mq_calib_field link_fields[] = {
#define MQ_LINK(field, unit, ...) ROW(#field, unit, offsetof(struct mq_link_calib, field), __VA_ARGS__)
#define MQ_CALL(name, call)                                                                                  \
	KNOT(name, call, 1, "8 B"), KNOT(name, call, 2, "64 B"), KNOT(name, call, 3, "512 B"),               \
		KNOT(name, call, 4, "4 KiB"), KNOT(name, call, 5, "32 KiB"), KNOT(name, call, 6, "256 KiB"), \
		KNOT(name, call, 7, "2 MiB"), KNOT(name, call, 8, "16 MiB"), KNOT(name, call, 9, "128 MiB"),
#include "maquette/calib_link.def"
	{ .name = NULL }
};

const struct mq_calib_field *mq_calib_device_fields(void)
{
	return device_fields;
}

const struct mq_calib_field *mq_calib_link_fields(void)
{
	return link_fields;
}

struct mq_calib *mq_calib_new(struct mq_arena *arena)
{
	struct mq_calib *calib = mq_arena_array(arena, 1, struct mq_calib);

	calib->arena = arena;
	calib->libraries = mq_arena_array(arena, 1, struct mq_libraries);
	return calib;
}

void mq_calib_put_device(struct mq_calib *calib, const struct mq_device_calib *entry)
{
	const struct mq_device_calib *old = mq_calib_device(calib, entry->name);
	struct mq_device_calib own = *entry;

	own.libraries = calib->libraries;
	if (old)
		calib->device[old - calib->device] = own;
	else
		MQ_PUSH(calib->arena, calib->device, calib->n_devices, calib->device_room, own);
}

static void put_words(json_t *root, const char *key, const char *const *list)
{
	json_t *array = list ? json_array() : NULL;

	for (; list && *list; list++)
		json_array_append_new(array, json_string(*list));
	if (array)
		json_object_set_new(root, key, array);
}

static json_t *device_json(const struct mq_device_calib *device)
{
	json_t *values = json_object();
	json_t *root =
		json_pack("{s:s, s:s, s:s, s:s, s:b, s:o}", "kind", "device", "name", device->name, "device_kind",
			  device->kind == MQ_CPU ? "cpu" : "gpu", "source", device->source ? device->source : "",
			  "serial_comm", (int)device->serial_comm, "values", values);

	put_words(root, "aliases", device->alias);
	put_words(root, "asks", device->asks);
	put_words(root, "reported", device->reported);
	if (device->assumed)
		json_object_set_new(root, "assumed", json_string(device->assumed));
	for (const struct mq_calib_field *f = device_fields; f->name; f++) {
		double x = *mq_calib_at(f, device);

		if (!isnan(x))
			json_object_set_new(values, f->name, json_pack("{s:f, s:s}", "value", x, "unit", f->unit));
	}
	return root;
}

enum mq_status mq_calib_save_device(const struct mq_device_calib *device, const char *path, struct mq_err *err)
{
	return mq_calib_save_devices(&device, 1, path, err);
}

enum mq_status mq_calib_save_devices(const struct mq_device_calib *const *device, uint32_t n, const char *path,
				     struct mq_err *err)
{
	json_auto_t *root = n == 1 ? device_json(device[0]) : json_pack("{s:[]}", "entries");
	FILE *file;

	for (uint32_t i = 0; i < n && n > 1; i++)
		json_array_append_new(json_object_get(root, "entries"), device_json(device[i]));
	MQ_TRY(mq_file_open(path, &file, err));
	json_dumpf(root, file, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	fputc('\n', file);
	return mq_file_close(file, path, err);
}

const struct mq_device_calib *mq_calib_device(const struct mq_calib *calib, const char *type)
{
	for (uint32_t i = 0; i < calib->n_devices; i++)
		if (!strcmp(calib->device[i].name, type))
			return &calib->device[i];
	return NULL;
}

const struct mq_link_calib *mq_calib_link(const struct mq_calib *calib, const char *class_name)
{
	for (uint32_t i = 0; i < calib->n_links; i++)
		if (!strcmp(calib->link[i].name, class_name))
			return &calib->link[i];
	return NULL;
}

/* Entries are TABLE, or TABLE:PATTERN with a pattern of its systems. */
static bool fitted_to(const struct mq_link_calib *link, ptrdiff_t field, const struct mq_left_out *what)
{
	size_t n = strlen(what->table);

	for (const char *const *t = link->fitted ? link->fitted[field] : NULL; t && *t; t++)
		if (!strncmp(*t, what->table, n) &&
		    (!(*t)[n] || ((*t)[n] == ':' && (!what->system || !fnmatch(*t + n + 1, what->system, 0)))))
			return true;
	return false;
}

/* A sibling's value, times rescaled by the clocks: kernels take equal cycles on both. Host times (launch_...) stay. */
static double scaled(const struct mq_link_calib *from, const struct mq_link_calib *to,
		     const struct mq_calib_field *field)
{
	double value = *mq_calib_at(field, from);

	if (!strcmp(field->unit, "s") && strncmp(field->name, "launch", 6) && from->clock_Hz > 0 && to->clock_Hz > 0)
		value *= from->clock_Hz / to->clock_Hz;
	return value;
}

/* The substitute of a value that was fitted to a table left out. */
static double stand_in(const struct mq_calib *calib, const struct mq_link_calib *link, ptrdiff_t field,
		       const struct mq_left_out *what)
{
	for (const char *const *name = link->sibling; name && *name; name++) {
		const struct mq_link_calib *other = mq_calib_link(calib, *name);

		if (other && !fitted_to(other, field, what))
			return scaled(other, link, &link_fields[field]);
	}
	return link_fields[field].initial;
}

struct mq_calib *mq_calib_leave_out(const struct mq_calib *calib, const struct mq_left_out *what,
				    struct mq_arena *arena)
{
	struct mq_calib *out = mq_arena_array(arena, 1, struct mq_calib);

	*out = *calib;
	out->link = mq_arena_array(arena, calib->n_links, struct mq_link_calib);
	for (uint32_t i = 0; i < calib->n_links; i++) {
		out->link[i] = calib->link[i];
		for (ptrdiff_t f = 0; link_fields[f].name; f++)
			if (fitted_to(&calib->link[i], f, what))
				*mq_calib_at(&link_fields[f], &out->link[i]) =
					stand_in(calib, &calib->link[i], f, what);
	}
	return out;
}

bool mq_calib_is_amd(const struct mq_device_calib *device)
{
	return device && device->kind == MQ_GPU && !strncmp(device->name, "MI", 2);
}

const char *mq_calib_link_class(const struct mq_link *link)
{
	static const char *const names[MQ_N_LINK_CLASSES] = {
		[MQ_LINK_NVLINK] = "nvlink", [MQ_LINK_XGMI] = "nvlink",      [MQ_LINK_NVSWITCH] = "nvlink",
		[MQ_LINK_PCIE] = "pcie",     [MQ_LINK_PCIE_SWITCH] = "pcie", [MQ_LINK_SOCKET] = "pcie",
		[MQ_LINK_NIC] = "ib",        [MQ_LINK_FABRIC] = "ib",        [MQ_LINK_HOST] = "host",
	};
	bool network = link->class == MQ_LINK_NIC || link->class == MQ_LINK_FABRIC;

	return network && link->fabric != MQ_FABRIC_NONE ? mq_fabric_name(link->fabric) : names[link->class];
}

struct mq_device_calib *mq_calib_add_ideal(struct mq_calib *calib, const char *type, double peak_flops,
					   double mem_bw_Bps, double memory_B)
{
	struct mq_device_calib d = {
		.name = mq_arena_strdup(calib->arena, type),
		.source = "ideal device",
		.p2p = 1,
		.nvlink_port_Bps = mem_bw_Bps,
		.pcie_Bps = mem_bw_Bps,
		.nic_Bps = mem_bw_Bps,
		.kind = MQ_GPU,
		.mem_bw_Bps = mem_bw_Bps,
		.memory_B = memory_B,
		.compute_capability = 80,
		.bmm_misaligned = 1,
		.copy_bw_Bps = mem_bw_Bps,
		.host_bw_Bps = mem_bw_Bps,
		.price_per_h = NAN,
		.power_W = NAN,
	};

	for (const struct mq_calib_field *f = device_fields; f->name; f++)
		if (!strcmp(f->unit, "1") && f->min > 0) /* shares and factors */
			*(double *)(void *)((char *)&d + f->offset) = 1;
	for (int i = 0; i < MQ_N_DTYPES; i++)
		d.peak_flops[i] = peak_flops;
	mq_calib_put_device(calib, &d);
	return &calib->device[mq_calib_device(calib, type) - calib->device];
}

static enum mq_status unknown_type(const struct mq_calib *calib, const struct mq_device *device, struct mq_err *err)
{
	char known[384] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < calib->n_devices && used < sizeof(known) - 1; i++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "",
					 calib->device[i].name);
	return mq_bad(err,
		      "device '%s' is of type '%s', which has no calibration: add one "
		      "with --calib, or state mq_memory_B and mq_mem_bw_Bps; known: %s",
		      device->name, device->type, *known ? known : "none");
}

double mq_calib_peak_flops(const struct mq_device_calib *d)
{
	return fmax(d->peak_flops[MQ_FP32], fmax(d->peak_flops[MQ_FP16], d->peak_flops[MQ_BF16]));
}

void mq_calib_describe(struct mq_device_calib *d, const char *name, enum mq_device_kind kind, double peak_flops,
		       double mem_bw_Bps, double memory_B)
{
	bool cpu = kind == MQ_CPU;

	*d = (struct mq_device_calib){
		.name = name,
		.source = "the platform file",
		.kind = kind,
		.assumed =
			cpu ? "efficiencies of its kernels as defaults" :
			      "tf32 at half and fp32 at a sixteenth of its peak, no fp8, efficiencies of its kernels as defaults",
	};
	mq_calib_defaults(device_fields, d);
	d->mem_bw_Bps = mem_bw_Bps;
	d->memory_B = memory_B;
	/* CUDA cores of an A100 reach a sixteenth of its tensor cores; a CPU has vector units */
	d->peak_flops[MQ_FP32] = peak_flops / (cpu ? 1 : 16);
	d->peak_flops[MQ_FP64] = d->peak_flops[MQ_FP32] / 2;
	if (cpu)
		d->compute_capability = 0;
	else
		d->peak_flops[MQ_FP16] = d->peak_flops[MQ_BF16] = peak_flops;
	if (!cpu)
		d->peak_flops[MQ_TF32] = peak_flops / 2;
}

const struct mq_link_calib *mq_calib_link_for(const struct mq_calib *calib, const char *class_name,
					      double compute_capability)
{
	const struct mq_link_calib *found = NULL;
	size_t n = strlen(class_name);

	for (const struct mq_link_calib *l = calib->link; l < calib->link + calib->n_links; l++) {
		char *end;

		if (strncmp(l->name, class_name, n))
			continue;
		if (!strncmp(l->name + n, "-sm", 3) && strtod(l->name + n + 3, &end) == compute_capability && !*end)
			return l;
		if (!l->name[n])
			found = l;
	}
	return found;
}

double mq_calib_port_share(const struct mq_link_calib *entry, double nominal_Bps)
{
	if (entry->port_Bps > 0 && nominal_Bps * entry->bw_share > entry->port_Bps)
		return entry->port_Bps / nominal_Bps;
	return entry->bw_share;
}

/* A link belongs to no device: the first GPU stands for all types. */
void mq_calib_bind_links(const struct mq_calib *calib, struct mq_cluster *cluster)
{
	double capability = calib->device[cluster->device[0].calib].compute_capability;
	const struct mq_link_calib *entry = NULL;

	cluster->nvlink = false;
	for (uint32_t i = 0; i < cluster->n_links; i++) {
		struct mq_link *link = &cluster->link[i];
		const char *class = mq_calib_link_class(link);

		if (!i || link->class != link[-1].class || link->fabric != link[-1].fabric) {
			entry = class ? mq_calib_link_for(calib, class, capability) : NULL;
		}
		cluster->nvlink |= class && !strcmp(class, "nvlink");
		link->share = entry ? entry->bw_share : 1;
		/* for GPUs that class gives the share of their PCIe lanes, and nothing about memory */
		if (link->class == MQ_LINK_HOST && capability > 0)
			link->share = 1;
		if (entry && link->class == MQ_LINK_NIC)
			link->share = mq_calib_port_share(entry, link->bw_Bps);
	}
}

enum mq_status mq_calib_bind(struct mq_calib *calib, struct mq_cluster *cluster, struct mq_err *err)
{
	uint32_t last = MQ_NONE;

	if (!calib->libraries->n_generations)
		return mq_bad(err,
			      "no kernels of libraries are loaded: platforms/calib has no nccl.json; install again");
	for (uint32_t i = 0; i < cluster->n_devices; i++) {
		struct mq_device *d = &cluster->device[i];

		if (last == MQ_NONE || strcmp(calib->device[last].name, d->type)) {
			const struct mq_device_calib *entry = mq_calib_device(calib, d->type);

			if (!entry && d->mem_bw_Bps > 0 && d->memory_B > 0) { /* only the platform describes it */
				struct mq_device_calib own;

				mq_calib_describe(&own, mq_arena_strdup(calib->arena, d->type), d->kind, d->speed_flops,
						  d->mem_bw_Bps, d->memory_B);
				mq_calib_put_device(calib, &own);
				entry = mq_calib_device(calib, own.name);
			}
			if (!entry)
				return unknown_type(calib, d, err);
			last = (uint32_t)(entry - calib->device);
		}
		const struct mq_device_calib *c = &calib->device[last];
		d->calib = last;
		if (!(d->memory_B > 0))
			d->memory_B = c->memory_B;
		if (isnan(d->price_per_h))
			d->price_per_h = c->price_per_h;
		if (isnan(d->power_W))
			d->power_W = c->power_W;
	}
	mq_calib_bind_links(calib, cluster);
	return MQ_OK;
}
