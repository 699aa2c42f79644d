/* generate.h - generates clusters from keys: node template x fabric x mix of device types, as SimGrid XML.
 *
 * Its form lets SimGrid load and route 16,384 devices fast:
 * - A *flat* node (NVSwitch or NVLink mesh, up to 16 GPUs, one network port per GPU at most as fast as
 *   its PCIe lanes) has its GPUs directly in its leaf's Cluster zone, where a host_link is the
 *   GPU's port and a bypassRoute is a path inside the node: constant time per route.
 * - Any other node (PCIe tree, NVLink domain of 72) is a Cluster zone of its own with a bypassRoute from
 *   each GPU to the node's gateway, over all the links on the way to its port.
 * - Leaves hang on a star (Floyd zone of few vertices); a leaf's uplinks are one trunk of summed bandwidth.
 * Not modelled: single spine switches, adaptive routing, and in a rail-optimised fabric the choice of rail: a unit's
 * rails share one trunk, so traffic between the rails of one unit sees no spine. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_GENERATE_H
#define MQ_HARDWARE_PLATFORM_GENERATE_H

#include <stdio.h>

#include "maquette/calib.h"
#include "maquette/opt.h"

enum mq_gen_intra { MQ_INTRA_AUTO, MQ_INTRA_NVSWITCH, MQ_INTRA_MESH, MQ_INTRA_PCIE };

enum mq_gen_fabric {
	MQ_GEN_SWITCH,
	MQ_GEN_RAIL,
	MQ_GEN_FAT_TREE,
	MQ_GEN_DRAGONFLY,
	MQ_GEN_TORUS,
	MQ_GEN_NVL72,
	MQ_GEN_ETHERNET
};

/* The options of `maquette platform generate` and the keys platform.* of a study. */
struct mq_platform_spec {
#define MQ_KEY_STR               const char *
#define MQ_KEY_U32               uint32_t
#define MQ_KEY_CHOICE            uint32_t
#define MQ_KEY_F64               double
#define MQ_KEY_BOOL              bool
#define MQ_KEY(kind, field, ...) MQ_KEY_##kind field;
#include "hardware/platform/platform_options.def"
};

/* Rows for every field, with defaults; key = field name. */
extern const struct mq_opt mq_platform_opts[];

/* Fill `spec` with the defaults of the table. */
void mq_platform_spec_init(struct mq_platform_spec *spec);

/* Does the text begin with KEY=, so that it is keys and not a file name? */
bool mq_platform_spec_is(const char *text);
/* Joins the keys by blanks alone, in place: for one line of a job file or a list. */
char *mq_platform_spec_plain(char *text);
/* The kind of network between machines. */
enum mq_fabric mq_platform_spec_network(const struct mq_platform_spec *spec);
/* Reads "KEY=VALUE KEY=VALUE ...", separated by blanks, commas or semicolons, into `spec`, over its values. A key alone
 * turns a switch on ("sharp"); other words continue the mix of a preceding `gpu=`.
 * MQ_EINPUT: an unknown key (with the nearest), a bad value, a word without key. */
enum mq_status mq_platform_spec_parse(const char *text, struct mq_platform_spec *spec, struct mq_arena *arena,
				      struct mq_err *err);
/* The device types of the keys' platform, each once, in rank order, NULL-terminated; none if the keys
 * make no platform. */
const char *const *mq_platform_spec_types(const struct mq_platform_spec *spec, const struct mq_calib *calib,
					  struct mq_arena *arena);
/* Machines of one kind, in rank order as in the keys. */
struct mq_platform_group {
	const char *type;
	uint32_t nodes, gpus; /* devices per machine */
};
/* The machines of the keys' platform, at most `most` kinds. MQ_EINPUT: no platform, or more kinds. */
enum mq_status mq_platform_spec_groups(const struct mq_platform_spec *spec, const struct mq_calib *calib, uint32_t most,
				       struct mq_platform_group *group, uint32_t *n, struct mq_arena *arena,
				       struct mq_err *err);
/* Writes the platform to a file: as XML if `keys` is NULL, else as the keys that `spec` was read from, for
 * mq_platform_build_file (its name ends in MQ_PLATFORM_KEYS). Device types are those of `calib`, by name or alias;
 * any other needs `tflops`. Options of a device (`tflops`, `memory_GB`, ...) become its calibration, a file beside
 * the platform (mq_platform_calib_path). MQ_EINPUT: unknown device type, impossible combination, disk full
 * (removes the file). */
enum mq_status mq_platform_generate(const struct mq_platform_spec *spec, const struct mq_calib *calib, const char *keys,
				    const char *path, struct mq_err *err);
/* As XML to an open file. */
enum mq_status mq_platform_generate_to(const struct mq_platform_spec *spec, const struct mq_calib *calib, FILE *file,
				       struct mq_err *err);

/* The suffix of a file of keys. */
#define MQ_PLATFORM_KEYS ".keys"
/* Checks that a platform can be made of the keys. Errors: as mq_platform_spec_parse and mq_platform_generate. */
enum mq_status mq_platform_keys_check(const char *keys, const struct mq_calib *calib, struct mq_err *err);
/* FILE.calib.json of FILE.xml or FILE.keys: calibrations loaded with the platform, if the file exists. */
const char *mq_platform_calib_path(const char *path, struct mq_arena *arena);

/* The device types of a platform file (mq_type), each once, in file order, NULL-terminated; none if unreadable. */
const char *const *mq_platform_types(const char *path, struct mq_arena *arena);

/* Removes a half-written platform file. */
void mq_platform_discard(const char *path);

#endif
