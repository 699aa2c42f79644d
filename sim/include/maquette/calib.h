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
	double mem_bw_Bps;              /* nominal memory bandwidth */
	double memory_B;                /* nominal capacity */
	double l2_B, l2_Bps;            /* L2 cache; 0 = unknown. What it reads at */
	double sm_count;                /* streaming multiprocessors, or cores */
	double compute_capability;      /* 70, 80, 90, 100 ...; 0 for a CPU */
	/* Links of generated and imported platforms; nominal bandwidths, one direction. */
	double nvlink_Bps;      /* all NVLinks of its socket; 0 = none */
	double bridge_Bps;      /* NVLink bridge for a pair of cards; 0 = none */
	double nvlink_port_Bps; /* one NVLink, the unit of `nvidia-smi topo` */
	double pcie_Bps;        /* its PCIe lanes; of a CPU: memory between processes */
	double nic_Bps;         /* the usual network port */
	double gpus_per_nic;    /* usual; 0 = one port per machine */
	double nvswitch;        /* 1 = its NVLinks lead to NVSwitches, not to other GPUs */
	double cube_mesh;       /* 1 = eight of them are a hybrid cube mesh */
	double nvls;            /* 1 = its NVSwitch can reduce */
	double p2p;             /* 1 = direct transfers over PCIe */
	/* GEMM: the longer of waves of tiles and memory traffic, plus a fixed time: see kernels/cost.c */
	double gemm_eff, gemm_kt, gemm_a0, gemm_q, gemm_bw_share, gemm_corner, gemm_t0_s;
	double gemm_fp32; /* efficiency of fp32 GEMMs, on plain cores, / gemm_eff */
	double gemm_tf32; /* of tf32 GEMMs, a layer's three together, / gemm_eff */
	double gemm_fp8, gemm_token, gemm_block, gemm_mx, gemm_nv; /* of fp8 and fp4 GEMMs, by scaling */
	double gemm_b0;         /* of a CPU: gemm_a0 of the second operand; 0 = gemm_a0 */
	double gemm_misaligned; /* efficiency factor where rows are multiples of 4 or 8 bytes, not of 16 */
	double gemm_odd;        /* factor where rows have an odd number of 2-byte elements / gemm_misaligned */
	double bmm_misaligned;  /* speed of a step of k in misaligned batched GEMMs of unfused attention; 0 = that of
				 * cores without tensor cores, peak_fp32 / peak */
	double clock;    /* share of its full clock; 0 = full. Not in files: mq_power_clock gives it for long work */
	double conv_eff; /* share of peak of large convolutions */
	double conv_eff_simt;        /* the same in fp32 on a GPU whose tensor cores lack it */
	double conv_volume;          /* efficiency factor of 3D convolutions */
	double conv_depthwise;       /* share of the fp32 peak of depthwise convolutions */
	double attention_scale;      /* speed of fused attention / speed by its counted tiles; of a CPU / speed of its
				      * GEMMs */
	double attention_bwd;        /* the same of the backward / of the forward pass */
	double attention_score;      /* CPU: flop per score besides its GEMMs (softmax) */
	double attention_fp8;        /* share of peak in fp8 relative to 16 bit; .8: FlashAttention-3 (Shah et
				      * al. 2024) reaches 1.2 against .74 Pflop/s on an H100 */
	double scan_share;           /* speed of state-space / of memory-bound kernels */
	double elementwise_bw_share; /* share of memory bandwidth */
	double optimizer_share;      /* speed of the optimizer's / of memory-bound kernels */
	double launch_s;             /* device time per kernel when the queue is full */
	double host_launch_s;        /* host time per kernel: bounds small models (eager) */
	double overlap_compute; /* share of compute lost to an overlapping collective; -1 = the multiprocessors that its
				 * channels hold */
	double overlap_gemms;   /* multiprocessors that GEMMs lose per one that a collective holds */
	double overlap_comm;    /* share by which a collective is slowed by concurrent compute */
	double reserve_B;       /* context and libraries on a CPU; a GPU's is the software's */
	double fragmentation;   /* factor >= 1 on dynamic memory */
	double copy_bw_Bps;     /* pinned host <-> device, one direction */
	double host_bw_Bps;     /* host memory, share of one device (offloaded optimizer) */
	bool serial_comm;       /* communication and compute cannot overlap (CPU cores) */
	double price_per_h, power_W; /* $, board limit in W; NaN = not known */
	/* Power at full clock, see kernels/power.c */
	double power_idle;         /* idle power / board limit */
	double flop_J;             /* energy per operation of 16-bit GEMMs; 0 = unknown: no power limit */
	double flop_fp8, flop_fp4; /* energy with these operands / with 16 bits */
	double memory_J;           /* energy per byte of memory traffic */
	double power_s;            /* seconds over which the limit averages power */
	const char *price_source;  /* source and date of the price, in words; NULL = not given */
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
	double bw_share;            /* share of nominal bandwidth of a large transfer */
	double port_Bps;            /* limit of a node's port, however fast; 0 = none */
	double latency_scale;       /* factor on NCCL's step latencies (1 = InfiniBand, NVLink) */
	double launch_s;            /* host time per GPU and call if one process drives several */
	double launch_channel_s;    /* host time per GPU, call and channel */
	double p2p_latency_s;       /* software latency of one send/recv, link latency apart */
	double ll_Bps;              /* of a small send by protocol LL; 0 = LL is not used */
	double simple_s;            /* extra start time of a send by protocol Simple */
	double peer_s;              /* per further peer of an all-to-all inside a node */
	double channel_Bps;         /* copy speed of one channel of an all-to-all; 0: no limit */
	double start_s;             /* start of a ring's call in a node by Simple, LL, LL128; 0: NCCL's */
	double start_ll_s, start_ll128_s;
	double hop_s;       /* least latency of one step of a collective */
	double fill;        /* part of a step that filling the pipeline adds to a ring's round */
	double chunk_B;     /* overhead per chunk of NVLS, as bytes: see collectives/fill.c */
	double step_B;      /* a step of a channel's buffer, the piece that is stored and forwarded */
	double nvls_share;  /* actual / NCCL's estimate of the bandwidth of NVLS */
	double sharp_share; /* share of a port's nominal bandwidth if switches reduce (CollNet) */
	double fleet;       /* NVLink, pcie: arithmetic of the slowest of 8 GPUs that train together / of one at
			     * the clock that its board limit allows; of others see costing/clocks.c */
	double hop_ll_s;    /* hop_s with protocol LL, LL128; 0: hop_s */
	double hop_ll128_s;
	double clock_Hz;    /* SM clock of the GPUs at its ends; 0 = unknown. A sibling's times are taken in cycles */
	double reported_s;  /* latency that the network plug-in reports; in NCCL's choice each step over the network has
			     * it (twice with Simple) */
	double simple_only; /* 1: the network plug-in forbids LL and LL128 */
	double route_s;     /* link latency contained in the step latencies */
	/* Calls measured by a validator: seconds for 8^1 .. 8^9 bytes, linear between. Index: enum mq_coll_kind, then
	 * MQ_CALL_P2P. See collectives/measured.c. */
	double measured_ranks; /* ranks of the measured communicator; 0 = not measured */
	double call_s[MQ_N_CALLS][MQ_CALL_KNOTS];
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
