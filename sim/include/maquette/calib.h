/* calib.h - speeds of real hardware: parameters per device type and per link class.
 *
 * Read from platforms/calib/NAME.json (one file per device type, one per link class), each value with its unit, source
 * and, where fitted, confidence interval. Every parameter has a physical meaning; none belongs to a data file or to a
 * model.
 *
 * Files: {"kind": "device"|"link", "name": ..., "source": ..., "values": {"gemm_eff": {"value": .9, "unit": "1",
 * "source": "...", "low": .88, "high": .92}, ...}}; a bare number is accepted for a value, null stands for the default.
 * An entry may have "inherits": NAME, an entry of its kind, of the same file or folder or loaded before, whose values
 * it takes where it has none; an entry that inherits its own name changes the one loaded before. A device may have
 * "aliases": [...], "reported": [...] (other names), "asks": [...] (aliases of several variants) and "assumed" (the
 * assumptions for a type without data). A price is not inherited from another device; it may have a "date". A link
 * class may have "siblings": [...], classes whose values can replace its own; a value of it may have "fitted": [...],
 * the tables of measurements to which it was fitted, TABLE or TABLE:PATTERN of systems: see mq_calib_leave_out.
 * calib_device.def and calib_link.def (one row per field) give reader, writer, defaults and documentation.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_CALIB_H
#define MAQUETTE_CALIB_H

#include "maquette/arena.h"
#include "maquette/cluster.h"
#include "maquette/model.h"
#include "maquette/types.h"

struct mq_libraries;

#define MQ_ENERGY_OF_HZ 1.2 /* flop_J is proportional to the clock to this power */

struct mq_device_calib {
	const char *name;                     /* device type */
	const struct mq_libraries *libraries; /* of its set, borrowed */
	const char *source;
	const char *const *alias;    /* other names, NULL-terminated; NULL = none */
	const char *const *reported; /* names in drivers and the PCI list; likewise */
	const char *const *asks;     /* aliases of several variants: a generated platform has to choose */
	enum mq_device_kind kind;
	const char *assumed;            /* assumptions for a type without data, in words; NULL = it has data */
	double peak_flops[MQ_N_DTYPES]; /* dense peak, flop/s; 0 = the type is not supported */
	double clock;     /* share of its full clock; 0 = full. Not in files: mq_power_clock gives it for long work */
	bool serial_comm; /* communication and compute cannot overlap (CPU cores) */
	const char *price_source; /* source and date of the price, in words; NULL = not given */
#define MQ_DEVICE(field, ...) double field;
#define MQ_PEAK(...)
#include "maquette/calib_device.def"
};
/* The share of its full clock at which a device computes. */
static inline double mq_cost_clock(const struct mq_device_calib *device)
{
	return device->clock > 0 ? device->clock : 1;
}

enum { MQ_CALL_P2P = MQ_N_COLL_KINDS, MQ_N_CALLS, MQ_CALL_KNOTS = 9 };

/* Communication software over one class of link: "nvlink", "pcie", "host", "ib", "roce", "eth", "efa", "omnipath",
 * "tcpxo", "gib", "tcpx", "other"; GPUs prefer an entry of their compute capability ("nvlink-sm70"). */
struct mq_link_calib {
	const char *name;
	const char *source;
	const char *const *sibling; /* classes whose values can replace its own, NULL-terminated; NULL = none */
	const char *const **fitted; /* [fields] tables that a value was fitted to, NULL-terminated; NULL = none */
	/* Measured times of calls of 8^1 .. 8^9 bytes, see collectives/measured.c; enum mq_coll_kind, then MQ_CALL_P2P */
	double call_s[MQ_N_CALLS][MQ_CALL_KNOTS];
#define MQ_LINK(field, ...) double field;
#define MQ_CALL(...)
#include "maquette/calib_link.def"
};

struct mq_calib {
	struct mq_arena *arena; /* borrowed */
	uint32_t n_devices, n_links;
	struct mq_device_calib *device; /* [n_devices] */
	struct mq_link_calib *link;     /* [n_links] */
	uint32_t device_room, link_room;
	uint32_t nccl_version;          /* version of NCCL: 22809 = 2.28.9; 0 = the table's newest */
	struct mq_libraries *libraries; /* library data for every device; empty until loaded */
};

/* Field tables: name, unit, offset, default, meaning. Used by reader, writer, docs and the fit. */
struct mq_calib_field {
	const char *name, *unit;
	size_t offset;
	double initial; /* default; NaN = must be given */
	double min, max;
	const char *help;
};
MQ_API const struct mq_calib_field *mq_calib_device_fields(void); /* ended by name NULL */
MQ_API const struct mq_calib_field *mq_calib_link_fields(void);

/* An empty set. */
MQ_API struct mq_calib *mq_calib_new(struct mq_arena *arena);
/* Add or replace the entries of one JSON file (one object, or {"entries": [...]}). */
MQ_API enum mq_status mq_calib_load(struct mq_calib *calib, const char *path, struct mq_err *err);
/* Loads every *.json of a folder, in name order. A folder with nccl.json is a complete set: library data are loaded
 * with it, from ../kernels too (libraries.h). */
MQ_API enum mq_status mq_calib_load_dir(struct mq_calib *calib, const char *dir, struct mq_err *err);
/* mq_calib_load_dir for a folder with a file TYPE.json per device type: loads only the links, the types of `type`
 * (NULL-terminated) and their parents; if that is not enough, the whole folder. */
MQ_API enum mq_status mq_calib_load_types(struct mq_calib *calib, const char *dir, const char *const *type,
					  struct mq_err *err);
MQ_API enum mq_status mq_calib_save_device(const struct mq_device_calib *device, const char *path, struct mq_err *err);
/* Several in one file. */
MQ_API enum mq_status mq_calib_save_devices(const struct mq_device_calib *const *device, uint32_t n, const char *path,
					    struct mq_err *err);
/* Fills a device of known kind, 16-bit peak (of a CPU fp32), memory bandwidth and memory: defaults for the rest, peaks
 * of other types in the proportions of an A100. */
MQ_API void mq_calib_describe(struct mq_device_calib *device, const char *name, enum mq_device_kind kind,
			      double peak_flops, double mem_bw_Bps, double memory_B);
MQ_API const struct mq_device_calib *mq_calib_device(const struct mq_calib *calib, const char *type);
/* Adds an entry, or replaces the one of the same name. */
MQ_API void mq_calib_put_device(struct mq_calib *calib, const struct mq_device_calib *entry);
/* Dense peak of the usual training type: the best of 32 and 16 bits on a GPU. */
MQ_API double mq_calib_peak_flops(const struct mq_device_calib *device);
/* calib_names.c: the device type of a name or alias, in any case; NULL: unknown. */
MQ_API const struct mq_device_calib *mq_calib_type(const struct mq_calib *calib, const char *word);
/* The same; MQ_EINPUT with the nearest, or all, known types. `option`: where the word stands ("gpu"). */
MQ_API enum mq_status mq_calib_type_get(const struct mq_calib *calib, const char *option, const char *word,
					const struct mq_device_calib **type, struct mq_err *err);
/* MQ_EINPUT: the word is an alias of several variants, which the message names. */
MQ_API enum mq_status mq_calib_type_ask(const struct mq_calib *calib, const char *option, const char *word,
					struct mq_err *err);
/* The device type named in running text; NULL = none. Case and separators are ignored ("RTX 2080 Ti", "RTX-2080Ti"),
 * whole words count ("B200" is not in "GB200"); the longest name wins, of equals the first in the text. `reported`:
 * search names and driver names, which tell variants apart, but no aliases ("A100" is the usual variant's). */
MQ_API const struct mq_device_calib *mq_calib_type_in(const struct mq_calib *calib, const char *text, bool reported);
/* The share of its nominal bandwidth (B/s) that a node's network port of this class delivers. */
MQ_API double mq_calib_port_share(const struct mq_link_calib *entry, double nominal_Bps);
MQ_API const struct mq_link_calib *mq_calib_link(const struct mq_calib *calib, const char *class_name);
/* The class's entry for GPUs of a compute capability ("nvlink-sm90"), else the class's; NULL: none. */
MQ_API const struct mq_link_calib *mq_calib_link_for(const struct mq_calib *calib, const char *class_name,
						     double compute_capability);
/* A copy of the set without a table, or without one system of it: a link class's value that was fitted to it, even in
 * part, is replaced by that of the first sibling with a value of other origin, else by the default. Devices are
 * shared. */
struct mq_left_out {
	const char *table, *system; /* system NULL = all of the table's */
};
MQ_API struct mq_calib *mq_calib_leave_out(const struct mq_calib *calib, const struct mq_left_out *what,
					   struct mq_arena *arena);
/* Is it an AMD device, whose links between GPUs are xGMI? Told by its name: calibrations have no vendor. */
MQ_API bool mq_calib_is_amd(const struct mq_device_calib *device);
/* The class of communication software over a link ("nvlink", "pcie", "ib", "roce", "eth", "efa", "omnipath", "tcpxo",
 * "gib", "tcpx", "host"), NULL: none (loopback, other). */
MQ_API const char *mq_calib_link_class(const struct mq_link *link);
/* Adds a device with the given speeds and neutral values (efficiency 1, no overhead), for tests and abstract
 * devices. */
MQ_API struct mq_device_calib *mq_calib_add_ideal(struct mq_calib *calib, const char *type, double peak_flops,
						  double mem_bw_Bps, double memory_B);
/* Binds every device of the cluster to its calibration, fills missing memory, price and power, and sets every link's
 * share from its class (1 without calibration). A type without calibration gets an entry of defaults (`assumed`) if the
 * platform states its memory and memory bandwidth. MQ_EINPUT: another type without calibration (the message lists the
 * known ones); a set without libraries. */
MQ_API enum mq_status mq_calib_bind(struct mq_calib *calib, struct mq_cluster *cluster, struct mq_err *err);
/* Sets the links' shares of a bound cluster again, after their classes or bandwidths changed (port_Bps is an absolute
 * limit). */
MQ_API void mq_calib_bind_links(const struct mq_calib *calib, struct mq_cluster *cluster);

#endif
