/* platform.h - loads a SimGrid platform file as a cluster.
 *
 * SimGrid allows one engine per process, aborts the process on bad XML and answers routes only from inside an actor. So
 * a process that may die (the worker server) does
 *
 *     mq_platform_start("maquette");                 once, before anything else of SimGrid
 *     mq_platform_load(path, arena, &cluster, err);  once; an abort leaves a line on stderr
 *     ... simgrid_run(), and mq_cluster_route() inside an actor
 *
 * and the main process has a copy, received over a pipe (mq_platform_dump and mq_platform_restore), whose `resolve` it
 * sets to ask the server. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_PLATFORM_H
#define MQ_HARDWARE_PLATFORM_PLATFORM_H

#include <stddef.h>

#include <simgrid/forward.h>

#include "maquette/cluster.h"
#include "hardware/platform/generate.h"

/* Calls simgrid_init with the executor's configuration: CM02 without TCP window, cross traffic or rounding of events,
 * small stacks for many actors. SimGrid's messages go to stderr as bare text. */
void mq_platform_start(const char *program);

/* Loads a platform, reads its properties (see cluster.h) and checks it. The cluster keeps the links' latencies; in
 * SimGrid they are 0, because CM02 shares links unevenly between flows of different latency. MQ_EINPUT: not readable,
 * no device, a bad property. Aborts the process on invalid XML. */
enum mq_status mq_platform_load(const char *path, struct mq_arena *arena, struct mq_cluster **cluster,
				struct mq_err *err);

/* Can mq_platform_build build this fabric? Others need a file for SimGrid's routing. */
bool mq_platform_is_built(const struct mq_platform_spec *spec);
/* Builds a cluster equal to the last digit to what mq_platform_load makes of mq_platform_generate's file, without that
 * file, for fabrics with mq_platform_is_built. SimGrid gets hosts and links when a simulation first uses them. `calib`
 * is borrowed. MQ_EINPUT: as mq_platform_generate. */
enum mq_status mq_platform_build(const struct mq_platform_spec *spec, const struct mq_calib *calib,
				 struct mq_arena *arena, struct mq_cluster **cluster, struct mq_err *err);
/* Is it a file of keys (mq_platform_generate), by its name? Builds its cluster; calib: the same as when it was
 * written. */
bool mq_platform_is_keys(const char *path);
enum mq_status mq_platform_build_file(const char *path, const struct mq_calib *calib, struct mq_arena *arena,
				      struct mq_cluster **cluster, struct mq_err *err);

/* The message in a line of SimGrid's on stderr; NULL: none, as in a backtrace. */
const char *mq_platform_complaint(const char *line);

/* The kind of a device whose platform gives only the type. */
enum mq_device_kind mq_platform_kind(const char *type);

/* The SimGrid host of a rank, and link of a link id, in a cluster of mq_platform_load or mq_platform_build; the link is
 * NULL until a flow uses it. */
sg_host_t mq_platform_host(const struct mq_cluster *cluster, uint32_t rank);
sg_link_t mq_platform_link(const struct mq_cluster *cluster, uint32_t link);

/* A cluster as a block of bytes in the arena (for the same machine and program), without routes. */
void *mq_platform_dump(const struct mq_cluster *cluster, struct mq_arena *arena, size_t *size);
/* The cluster from those bytes; `resolve` is NULL and must be set by the caller. MQ_EINPUT: not such bytes. */
enum mq_status mq_platform_restore(const void *bytes, size_t size, struct mq_arena *arena, struct mq_cluster **cluster,
				   struct mq_err *err);

/* links.cpp: a <prop> of a link, or NULL; SimGrid's C interface has none. */
const char *mq_platform_link_property(const_sg_link_t link, const char *name);

#endif
