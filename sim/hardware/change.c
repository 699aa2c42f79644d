/* change.c - see change.h. SPDX-License-Identifier: Apache-2.0 */
#include "hardware/change.h"
#include "hardware/calib_fields.h"

#include <math.h>

#include "base/quantity.h"
#include "maquette/rng.h"

/* TARGET split at its dots: kind.name.what; the name may have dots itself. */
struct target {
	char kind[32], name[128], what[64];
	const char *text; /* the value as given; borrowed */
	double value;     /* NaN: the text is no bare number */
};

static enum mq_status split(const char *change, struct target *t, struct mq_err *err)
{
	const char *equals = strrchr(change, '='), *first = strchr(change, '.'), *last = NULL;

	for (const char *c = change; equals && c < equals; c++)
		if (*c == '.')
			last = c;
	if (!equals || !first || !last || first > equals)
		return mq_bad(err, "change '%s': write TARGET=NUMBER, as link.nvlink.bw=1.5 or rank.3.clock=0.8",
			      change);
	size_t kind = (size_t)(first - change), what = (size_t)(equals - last - 1);
	size_t name = last > first ? (size_t)(last - first - 1) : 0;
	if (kind >= sizeof(t->kind) || what >= sizeof(t->what) || name >= sizeof(t->name))
		return mq_bad(err, "change '%s': a name in it is too long", change);
	memset(t, 0, sizeof(*t));
	memcpy(t->kind, change, kind);
	memcpy(t->what, last + 1, what);
	if (name)
		memcpy(t->name, first + 1, name);
	t->text = equals + 1;
	if (mq_parse_f64(t->text, &t->value))
		return MQ_OK;
	t->value = NAN;
	if (strcmp(t->what, "bw") && strcmp(t->what, "latency") && strcmp(t->what, "price_per_h"))
		return mq_bad(err, "change '%s': '%s' is not a number", change, t->text);
	return MQ_OK;
}

static enum mq_status need_factor(const struct target *t, const char *change, struct mq_err *err)
{
	if (t->value > 0 && t->value < 1e9)
		return MQ_OK;
	return mq_bad(err, "change '%s': the factor must be positive (a dead link or device is a platform without it)",
		      change);
}

/* ---- links ------------------------------------------------------------------------------------------- */

static bool in_class(const struct mq_link *link, const char *name)
{
	if (!strcmp(name, "all"))
		return true;
	if (!strcmp(name, "network"))
		return link->class == MQ_LINK_NIC || link->class == MQ_LINK_FABRIC;
	return !strcmp(mq_link_class_name(link->class), name);
}

static bool is_named(const struct mq_link *link, const char *name)
{
	size_t n = strlen(name);

	return !strncmp(link->name, name, n) &&
	       (!link->name[n] || !strcmp(link->name + n, "_UP") || !strcmp(link->name + n, "_DOWN"));
}

static enum mq_status change_links(const struct target *t, const char *change, bool by_name, struct mq_cluster *cluster,
				   struct mq_err *err)
{
	bool bandwidth = !strcmp(t->what, "bw");
	uint32_t found = 0;

	if (!bandwidth && strcmp(t->what, "latency"))
		return mq_bad(err, "change '%s': a link has bw and latency", change);
	bool absolute = isnan(t->value);
	double value = t->value;
	if (absolute && (!mq_parse_quantity(t->text, bandwidth ? "B/s" : "s", &value) || !(value >= 0) ||
			 (bandwidth && !(value > 0))))
		return mq_bad(err, "change '%s': give a factor, or a value with its unit (%s)", change,
			      bandwidth ? "400Gb/s" : "2us");
	if (!absolute)
		MQ_TRY(need_factor(t, change, err));
	for (uint32_t l = 0; l < cluster->n_links; l++) {
		struct mq_link *link = &cluster->link[l];
		double *field = bandwidth ? &link->bw_Bps : &link->lat_s;

		if (by_name ? !is_named(link, t->name) : !in_class(link, t->name))
			continue;
		found++;
		*field = absolute ? value : *field * value;
	}
	if (found)
		return MQ_OK;
	const char *list = "";
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	for (int c = 0; c < MQ_N_LINK_CLASSES; c++)
		list = mq_arena_printf(&scratch, "%s %s", list, mq_link_class_name(c));
	return mq_bad(err, "change '%s': the platform has no link %s '%s'%s%s", change, by_name ? "named" : "of class",
		      t->name, by_name ? "; 'maquette platform show' lists them" : "; classes:", by_name ? "" : list);
}

/* ---- devices ------------------------------------------------------------------------------------------ */

static bool scale_calib(struct mq_device_calib *d, const char *what, double f)
{
	bool clock = !strcmp(what, "clock");

	if (clock || !strcmp(what, "flops"))
		for (int t = 0; t < MQ_N_DTYPES; t++)
			d->peak_flops[t] *= f;
	if (clock || !strcmp(what, "mem_bw"))
		d->mem_bw_Bps *= f;
	if (clock) {
		d->launch_s /= f;
		d->gemm_t0_s /= f;
	}
	if (!strcmp(what, "memory"))
		d->memory_B *= f;
	return clock || !strcmp(what, "flops") || !strcmp(what, "mem_bw") || !strcmp(what, "memory");
}

/* Gives one device its own copy of its calibration. */
static struct mq_device_calib *own_calib(struct mq_calib *calib, struct mq_device *device)
{
	struct mq_device_calib copy = calib->device[device->calib];

	copy.name = mq_arena_printf(calib->arena, "%s@%s", copy.name, device->name);
	MQ_PUSH(calib->arena, calib->device, calib->n_devices, calib->device_room, copy);
	device->calib = calib->n_devices - 1;
	return &calib->device[device->calib];
}

/* Changes a device and its calibration (NULL: already changed): an operation takes less energy at a lower clock. Memory
 * draws the same power at full speed, however fast, since most of it is that of the SMs which it keeps busy: at a lower
 * clock of these, less in proportion. */
static enum mq_status scale(const struct target *t, const char *change, struct mq_device *device,
			    struct mq_device_calib *d, struct mq_err *err)
{
	if (d && !scale_calib(d, t->what, t->value))
		return mq_bad(err,
			      "change '%s': a device has flops, mem_bw, clock and memory, each a factor, and "
			      "price_per_h ($)",
			      change);
	bool clock = !strcmp(t->what, "clock");
	if (d && clock)
		d->flop_J *= pow(t->value, MQ_ENERGY_OF_HZ);
	if (d && (clock || !strcmp(t->what, "mem_bw")))
		d->memory_J /= clock ? fmax(t->value, 1) : t->value;
	if (!strcmp(t->what, "memory"))
		device->memory_B *= t->value;
	return MQ_OK;
}

/* Price of a device type, $/h: the only device value that is not a factor. */
static enum mq_status set_price(const struct target *t, const char *change, struct mq_cluster *cluster,
				struct mq_calib *calib, struct mq_err *err)
{
	const struct mq_device_calib *type = mq_calib_type(calib, t->name);
	uint32_t found = 0;

	double usd;

	if (!mq_parse_quantity(t->text, "$", &usd) || !(usd >= 0) || usd > 1e6)
		return mq_bad(err, "change '%s': a price is 0 to 1e6 $ an hour", change);
	for (uint32_t i = 0; i < cluster->n_devices; i++) {
		struct mq_device *d = &cluster->device[i];

		if (strcmp(t->name, "all") && strcmp(t->name, d->type) && !(type && !strcmp(type->name, d->type)))
			continue;
		d->price_per_h = usd;
		if (d->calib != MQ_NONE)
			calib->device[d->calib].price_source = "as asked";
		found++;
	}
	/* a study's price list may name types that this platform lacks */
	return found || type ? MQ_OK : mq_bad(err, "change '%s': there is no device of type '%s'", change, t->name);
}

static enum mq_status change_type(const struct target *t, const char *change, struct mq_cluster *cluster,
				  struct mq_calib *calib, struct mq_err *err)
{
	bool *done;
	uint32_t found = 0;
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;

	if (!strcmp(t->what, "price_per_h"))
		return set_price(t, change, cluster, calib, err);
	MQ_TRY(need_factor(t, change, err));
	done = mq_arena_array(&scratch, calib->n_devices, bool);
	for (uint32_t i = 0; i < cluster->n_devices; i++) {
		struct mq_device *d = &cluster->device[i];

		if (d->calib == MQ_NONE || (strcmp(t->name, "all") && strcmp(t->name, d->type)))
			continue;
		found++;
		MQ_TRY(scale(t, change, d, done[d->calib] ? NULL : &calib->device[d->calib], err));
		done[d->calib] = true;
	}
	if (!found)
		return mq_bad(err, "change '%s': the platform has no device of type '%s'", change, t->name);
	return MQ_OK;
}

static enum mq_status change_rank(const struct target *t, const char *change, struct mq_cluster *cluster,
				  struct mq_calib *calib, struct mq_err *err)
{
	uint64_t rank;

	MQ_TRY(need_factor(t, change, err));
	if (!mq_parse_u64(t->name, &rank) || rank >= cluster->n_devices)
		return mq_bad(err, "change '%s': '%s' is not a rank; there are 0 to %u", change, t->name,
			      cluster->n_devices - 1);
	struct mq_device *d = &cluster->device[rank];
	return scale(t, change, d, own_calib(calib, d), err);
}

static enum mq_status spread_devices(const struct target *t, const char *change, uint64_t seed,
				     struct mq_cluster *cluster, struct mq_calib *calib, struct mq_err *err)
{
	struct mq_rng all;

	if (strcmp(t->what, "clock") || !(t->value >= 0) || t->value > 1)
		return mq_bad(err, "change '%s': spread.clock takes a deviation of 0 to 1", change);
	mq_rng_seed(&all, seed);
	for (uint32_t i = 0; i < cluster->n_devices; i++) {
		struct mq_rng one = mq_rng_split(&all, i);

		scale_calib(own_calib(calib, &cluster->device[i]), "clock", exp(t->value * mq_rng_normal(&one)));
	}
	return MQ_OK;
}

/* ---- calibration fields ------------------------------------------------------------------------------- */

static enum mq_status set_field(const struct mq_calib_field *fields, void *target, const struct target *t,
				const char *change, struct mq_err *err)
{
	const struct mq_calib_field *f = mq_calib_find(fields, t->what);

	if (!f)
		return mq_bad(err, "change '%s': no calibration field '%s'; `maquette list parameters` has them",
			      change, t->what);
	if (t->value < f->min || t->value > f->max)
		return mq_bad(err, "change '%s': %s is from %g to %g %s", change, f->name, f->min, f->max, f->unit);
	*mq_calib_at(f, target) = t->value;
	return MQ_OK;
}

/* Sets the field of the type and, where devices hold a copy of it, of its devices. */
static enum mq_status set_calib(const struct target *t, const char *change, struct mq_cluster *cluster,
				struct mq_calib *calib, struct mq_err *err)
{
	const struct mq_device_calib *found = mq_calib_device(calib, t->name);

	if (!found)
		return mq_bad(err, "change '%s': no calibration of device type '%s'", change, t->name);
	for (struct mq_device *d = cluster->device; d < cluster->device + cluster->n_devices; d++) {
		double *own = !strcmp(t->what, "memory_B")    ? &d->memory_B :
			      !strcmp(t->what, "power_W")     ? &d->power_W :
			      !strcmp(t->what, "price_per_h") ? &d->price_per_h :
								NULL;

		if (own && d->calib == found - calib->device)
			*own = t->value;
	}
	return set_field(mq_calib_device_fields(), &calib->device[found - calib->device], t, change, err);
}

static enum mq_status set_link_calib(const struct target *t, const char *change, struct mq_calib *calib,
				     struct mq_err *err)
{
	const struct mq_link_calib *l = mq_calib_link(calib, t->name);

	return l ? set_field(mq_calib_link_fields(), &calib->link[l - calib->link], t, change, err) :
		   mq_bad(err, "change '%s': no calibration of link class '%s'", change, t->name);
}

enum mq_status mq_change_apply(const char *change, uint64_t seed, struct mq_cluster *cluster, struct mq_calib *calib,
			       struct mq_err *err)
{
	struct target t;

	MQ_TRY(split(change, &t, err));
	if (!strcmp(t.kind, "device"))
		return change_type(&t, change, cluster, calib, err);
	if (!strcmp(t.kind, "rank"))
		return change_rank(&t, change, cluster, calib, err);
	if (!strcmp(t.kind, "spread"))
		return spread_devices(&t, change, seed, cluster, calib, err);
	if (!strcmp(t.kind, "calib"))
		return set_calib(&t, change, cluster, calib, err);
	if (!strcmp(t.kind, "linkcalib"))
		MQ_TRY(set_link_calib(&t, change, calib, err));
	else if (!strcmp(t.kind, "link") || !strcmp(t.kind, "linkname"))
		MQ_TRY(change_links(&t, change, !strcmp(t.kind, "linkname"), cluster, err));
	else
		return mq_bad(err,
			      "change '%s': '%s' is not one of link, linkname, device, rank, spread, calib, linkcalib",
			      change, t.kind);
	mq_calib_bind_links(calib, cluster);
	return MQ_OK;
}
