/* calib.h - how fast hardware really is: parameters per device type and per link class.
 *
 * Read from platforms/calib/NAME.json (one file per device type, one per link class), each value with its unit, source
 * and, where fitted, confidence interval. Every parameter has a physical meaning; none belongs to a data file or to a
 * model.
 *
 * Files: {"kind": "device"|"link", "name": ..., "source": ..., "values": {"gemm_eff": {"value": .9, "unit": "1",
 * "source": "...", "low": .88, "high": .92}, ...}}; a bare number is accepted for a value, null stands for the default.
 * An entry may have "inherits": NAME: what it leaves out is as NAME's, of its kind, which may stand in the same file or
 * folder, in any order, or in one loaded before; an entry that inherits its own name changes the one loaded before. A
 * device may have "aliases": [...] and "reported": [...] (other names). A price is not inherited from another device;
 * it may have a "date". "asks": aliases that stand for several variants. "assumed": what stands in for what nobody
 * described. A link class may have "siblings": [...], classes that stand in for it, and a value of it "fitted": [...],
 * the tables of measurements that it rests on, TABLE or TABLE:PATTERN of the systems in it: see mq_calib_leave_out. The
 * table in calib.c (one row per field) gives reader, writer, defaults and documentation.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_CALIB_H
#define MAQUETTE_CALIB_H

#include "maquette/arena.h"
#include "maquette/cluster.h"
#include "maquette/model.h"
#include "maquette/types.h"

struct mq_libraries;

#define MQ_ENERGY_OF_HZ 1.2 /* flop_J goes with this power of a chip's clock */

struct mq_device_calib {
	const char *name;                     /* device type */
	const struct mq_libraries *libraries; /* of the set that it is in, borrowed */
	const char *source;
	const char *const *alias;    /* other names it goes by, NULL-terminated; NULL = none */
	const char *const *reported; /* what drivers and the PCI list call it; the same */
	const char *const *asks;     /* aliases that could mean another variant too: who makes a platform is asked */
	enum mq_device_kind kind;
	const char *assumed;            /* of a type that nobody described: what stands in for what is not
					 * known, in words; NULL = described */
	double peak_flops[MQ_N_DTYPES]; /* dense peak, flop/s; 0 = the type is not supported */
	double mem_bw_Bps;              /* nominal memory bandwidth */
	double memory_B;                /* nominal capacity */
	double l2_B;                    /* second-level cache; 0 = not known */
	double sm_count;                /* streaming multiprocessors, or cores */
	double compute_capability;      /* 70, 80, 90, 100 ...; 0 for a CPU */
	/* What generated and imported platforms join it by; bandwidths are nominal, one direction. */
	double nvlink_Bps;      /* all NVLinks of its socket; 0 = none */
	double bridge_Bps;      /* NVLink bridge that can join a pair of cards; 0 = none */
	double nvlink_port_Bps; /* one NVLink, to which `nvidia-smi topo` counts */
	double pcie_Bps;        /* its PCIe lanes; of a CPU: the memory between processes */
	double nic_Bps;         /* network port that is usual beside it */
	double gpus_per_nic;    /* usual; 0 = one port for the whole machine */
	double nvswitch;        /* 1 = its NVLinks end in NVSwitch, not in each other */
	double cube_mesh;       /* 1 = eight of them are a hybrid cube mesh */
	double nvls;            /* 1 = its NVSwitch can reduce */
	double p2p;             /* 1 = direct transfers over PCIe */
	/* GEMM: waves of tiles against memory traffic, plus a fixed time: see cost.c */
	double gemm_eff, gemm_kt, gemm_a0, gemm_q, gemm_bw_share, gemm_corner, gemm_t0_s;
	double gemm_fp32; /* efficiency of fp32 GEMMs, on plain cores, / gemm_eff */
	double gemm_tf32; /* of tf32 GEMMs: of a layer's three together / gemm_eff */
	double gemm_fp8, gemm_token, gemm_block, gemm_mx, gemm_nv; /* of GEMMs of narrow operands by their scaling */
	double gemm_b0;         /* of a CPU: gemm_a0 of the second operand; 0 = gemm_a0 */
	double gemm_misaligned; /* efficiency factor of operands whose rows are multiples of 4 or 8 bytes, not 16 */
	double gemm_odd;        /* that of rows of an odd number of 2-byte elements / that */
	double bmm_misaligned;  /* speed of a step of k in misaligned batched GEMMs of unfused attention;
					0 = that of cores without tensors, peak_fp32 / peak */
	double clock;           /* share of its full clock that it computes at; 0 = all of it. No value of files: what
				 * computes for longer than power_s has what mq_power_clock says */
	double conv_eff;        /* share of peak that convolutions reach at large sizes */
	double conv_eff_simt;   /* the same in fp32 on a GPU whose tensor cores do not take it */
	double conv_volume;     /* efficiency factor of windows with three axes */
	double conv_depthwise;  /* share of the fp32 peak of one filter per channel */
	double attention_scale; /* speed of fused attention / that of its counted tiles; of a CPU / that of
				      * its GEMMs */
	double attention_bwd;   /* the same of backward passes / that of forward ones */
	double attention_score; /* CPU: flop that a score takes besides its GEMMs: the softmax */
	double attention_fp8;   /* share of peak in fp8 relative to 16 bit; .8: FlashAttention-3 (Shah et
				      * al. 2024) reaches 1.2 against .74 Pflop/s on an H100 */
	double scan_share;      /* speed of state-space kernels / that of memory-bound ones */
	double elementwise_bw_share; /* share of memory bandwidth */
	double optimizer_share;      /* speed of the optimizer's sweeps / that of memory-bound kernels */
	double launch_s;             /* device time per kernel when the queue is full */
	double host_launch_s;        /* host time per kernel: bounds small models (eager) */
	double overlap_compute;      /* share of compute lost beside a collective; -1 = that of the
				      * multiprocessors that its channels hold */
	double overlap_gemms;        /* multiprocessors that GEMMs lose for one that a collective holds */
	double overlap_comm;         /* share by which a collective is slowed by concurrent compute */
	double reserve_B;            /* context and libraries, on a CPU; of a GPU it is the software's */
	double fragmentation;        /* factor >= 1 on dynamic memory */
	double copy_bw_Bps;          /* pinned host <-> device, one direction */
	double host_bw_Bps;          /* host memory, share of one device (offloaded optimizer) */
	bool serial_comm;            /* communication and compute cannot overlap (CPU cores) */
	double price_per_h, power_W; /* $, board limit in W; NaN = not known */
	/* What it draws at full clock, see kernels/power.c */
	double power_idle;         /* computing nothing / its board limit */
	double flop_J;             /* energy of an operation of 16-bit GEMMs; 0 = not known, no limit binds */
	double flop_fp8, flop_fp4; /* that of other operands / that of 16 bits */
	double memory_J;           /* energy of a byte of memory traffic */
	double power_s;            /* the limit holds for what is drawn in the mean of so long */
	const char *price_source;  /* where the price is from and when, for people; NULL = not said */
};
/* The share of its full clock that a device computes at. */
static inline double mq_cost_clock(const struct mq_device_calib *device)
{
	return device->clock > 0 ? device->clock : 1;
}

enum { MQ_CALL_P2P = MQ_N_COLL_KINDS, MQ_N_CALLS, MQ_CALL_KNOTS = 9 };

/* Communication software over one class of link: "nvlink", "pcie", "host", "ib", "roce", "eth", "efa",
 * "omnipath", "tcpxo", "gib", "tcpx", "other"; "nvlink-sm70" and so on are taken for GPUs of that compute capability first. */
struct mq_link_calib {
	const char *name;
	const char *source;
	const char *const *sibling; /* classes whose values stand in for its own, NULL-terminated; NULL = none */
	const char *const **fitted; /* [fields] tables that a value was fitted to, NULL-terminated; NULL = none */
	double bw_share;            /* of nominal bandwidth that a large transfer gets */
	double port_Bps;            /* most that a node's port gives, however fast it is; 0 = no limit */
	double latency_scale;       /* factor on the library's own step latencies (1 = InfiniBand, NVLink) */
	double launch_s;            /* host time per GPU and call, where one process drives several */
	double launch_channel_s;    /* host time per GPU, call and channel */
	double p2p_latency_s;       /* software latency of one send/recv, link latency apart */
	double ll_Bps;              /* of a small send by the low-latency protocol; 0 = not used */
	double simple_s;            /* what a large send takes longer to start than a small one */
	double peer_s;              /* each further peer of an all-to-all inside a node */
	double channel_Bps;         /* what one channel of an all-to-all copies; 0: no limit */
	double start_s;             /* start of a ring's call inside a node, by Simple, LL, LL128; 0: the library's */
	double start_ll_s, start_ll128_s;
	double hop_s;       /* least latency of one step of a collective */
	double fill;        /* part of a step that a ring's pipeline adds to each round */
	double chunk_B;     /* what each chunk of NVLS costs, in bytes: see collectives/fill.c */
	double step_B;      /* a step of a channel's buffer: what a pipeline stores and forwards */
	double nvls_share;  /* of the bandwidth that NCCL expects of NVLS */
	double sharp_share; /* of a port's nominal bandwidth, where switches reduce (CollNet) */
	double fleet;       /* NVLink: speed of arithmetic of the slowest of 8 GPUs that train together / of one at
			     * the clock that its board limit allows; of others see costing/clocks.c */
	double hop_ll_s;    /* hop_s with protocol LL, LL128; 0: hop_s */
	double hop_ll128_s;
	double clock_Hz;    /* of the SMs of GPUs at its ends; 0 = not said. Times of a sibling are so many cycles */
	double reported_s;  /* latency that the network's plug-in tells NCCL, which adds it to each step over
				       the network (twice with Simple) before it chooses */
	double simple_only; /* 1: the network's plug-in forbids LL and LL128 */
	double route_s;     /* link latency that the step latencies contain */
	/* Whole calls as measured, where a validator did: seconds for 8^1 .. 8^9 bytes, affine between.
	 * Index: enum mq_coll_kind, then MQ_CALL_P2P. See collective/measured.c. */
	double measured_ranks; /* members of the communicator that was measured; 0 = none was */
	double call_s[MQ_N_CALLS][MQ_CALL_KNOTS];
};

struct mq_calib {
	struct mq_arena *arena; /* borrowed */
	uint32_t n_devices, n_links;
	struct mq_device_calib *device; /* [n_devices] */
	struct mq_link_calib *link;     /* [n_links] */
	uint32_t device_room, link_room;
	uint32_t nccl_version;          /* whose tuning constants to use: 22809 = 2.28.9; 0 = the table's newest */
	struct mq_libraries *libraries; /* what libraries do on every device; empty until it is loaded */
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

/* An empty set; defaults of a device type without file need at least peak and bandwidth. */
MQ_API struct mq_calib *mq_calib_new(struct mq_arena *arena);
/* Add or replace the entries of one JSON file (one object, or {"entries": [...]}). */
MQ_API enum mq_status mq_calib_load(struct mq_calib *calib, const char *path, struct mq_err *err);
/* Every *.json of a folder, in name order. A folder that has nccl.json is a whole set: what libraries do comes with it,
 * from ../kernels too (libraries.h). */
MQ_API enum mq_status mq_calib_load_dir(struct mq_calib *calib, const char *dir, struct mq_err *err);
/* As mq_calib_load_dir, of a folder with a file TYPE.json for each device type: only these types (NULL at the end), what
 * they inherit from, and links. The whole folder where that is not enough. */
MQ_API enum mq_status mq_calib_load_types(struct mq_calib *calib, const char *dir, const char *const *type,
					  struct mq_err *err);
MQ_API enum mq_status mq_calib_save_device(const struct mq_device_calib *device, const char *path, struct mq_err *err);
/* Several in one file. */
MQ_API enum mq_status mq_calib_save_devices(const struct mq_device_calib *const *device, uint32_t n, const char *path,
					    struct mq_err *err);
/* A device of which only kind, 16-bit peak (of a CPU fp32), memory bandwidth and memory are known: defaults for
 * the rest, peaks of other types in the proportions of an A100. */
MQ_API void mq_calib_describe(struct mq_device_calib *device, const char *name, enum mq_device_kind kind,
			      double peak_flops, double mem_bw_Bps, double memory_B);
MQ_API const struct mq_device_calib *mq_calib_device(const struct mq_calib *calib, const char *type);
/* Adds an entry, or replaces that of the same name. */
MQ_API void mq_calib_put_device(struct mq_calib *calib, const struct mq_device_calib *entry);
/* Dense peak of the usual training type: the best of 32 and 16 bits on a GPU. */
MQ_API double mq_calib_peak_flops(const struct mq_device_calib *device);
/* calib_names.c: the device type of a name or alias, without regard to case; NULL where unknown. */
MQ_API const struct mq_device_calib *mq_calib_type(const struct mq_calib *calib, const char *word);
/* The same; MQ_EINPUT with the nearest, or all, known types. `option`: where the word stands ("gpu"). */
MQ_API enum mq_status mq_calib_type_get(const struct mq_calib *calib, const char *option, const char *word,
					const struct mq_device_calib **type, struct mq_err *err);
/* MQ_EINPUT where the word is an alias that several variants go by: the message names them. */
MQ_API enum mq_status mq_calib_type_ask(const struct mq_calib *calib, const char *option, const char *word,
					struct mq_err *err);
/* The device type whose name stands in running text; NULL = none. Case and separators ("RTX 2080 Ti",
 * "RTX-2080Ti") do not count, words do ("B200" is not in "GB200"); the longest name wins, of equals the
 * first in the text. `reported`: by names and what drivers report, which tell variants apart, and not by
 * aliases, of which some stand for the usual variant ("A100"). */
MQ_API const struct mq_device_calib *mq_calib_type_in(const struct mq_calib *calib, const char *text, bool reported);
/* The share of its nominal bandwidth, B/s, that a node's network port of this class gives. */
MQ_API double mq_calib_port_share(const struct mq_link_calib *entry, double nominal_Bps);
MQ_API const struct mq_link_calib *mq_calib_link(const struct mq_calib *calib, const char *class_name);
/* The entry of this class for GPUs of a compute capability ("nvlink-sm90"), else of the class; NULL. */
MQ_API const struct mq_link_calib *mq_calib_link_for(const struct mq_calib *calib, const char *class_name,
						     double compute_capability);
/* The same set as it would be without a table, or without a system of it: a value of a class of links that was
 * fitted to it, be it in part, is that of the first sibling that has one of other origin, the default where none
 * has. Devices are shared. */
struct mq_left_out {
	const char *table, *system; /* system NULL = all of the table's */
};
MQ_API struct mq_calib *mq_calib_leave_out(const struct mq_calib *calib, const struct mq_left_out *what,
					   struct mq_arena *arena);
/* Is it one of AMD's, whose links between GPUs are xGMI? By its name: calibrations have no vendor. */
MQ_API bool mq_calib_is_amd(const struct mq_device_calib *device);
/* The class of communication software over a link ("nvlink", "pcie", "ib", "roce", "eth", "efa",
 * "omnipath", "tcpxo", "gib", "tcpx", "host"), NULL for links that have none (loopback, other). */
MQ_API const char *mq_calib_link_class(const struct mq_link *link);
/* A device entry with neutral values (efficiency 1, no overhead) and the given speeds: for tests and
 * for abstract devices. */
MQ_API struct mq_device_calib *mq_calib_add_ideal(struct mq_calib *calib, const char *type, double peak_flops,
						  double mem_bw_Bps, double memory_B);
/* Point every device of the cluster at its calibration and fill absent memory, price, power; give
 * every link the share of its class (1 where the class has no calibration). A type without calibration
 * whose memory and memory bandwidth the platform states gets an entry of defaults (`assumed`).
 * MQ_EINPUT: any other type without calibration (message lists the known ones); a set without libraries. */
MQ_API enum mq_status mq_calib_bind(struct mq_calib *calib, struct mq_cluster *cluster, struct mq_err *err);
/* The shares of the links of a bound cluster again: after a change of their classes or of their bandwidth, which what a
 * port gives at most (port_Bps) does not follow. */
MQ_API void mq_calib_bind_links(const struct mq_calib *calib, struct mq_cluster *cluster);

#endif
