/* platform.h - a SimGrid platform file as a cluster.
 *
 * SimGrid allows one engine per process, aborts the process on bad XML and answers routes only from inside an actor. So
 * a process that may die (the worker server) does
 *
 *     mq_platform_start("maquette");                 once, before anything else of SimGrid
 *     mq_platform_load(path, arena, &cluster, err);  once; an abort leaves a line on stderr
 *     ... simgrid_run(), and mq_cluster_route() inside an actor
 *
 * and the main process holds a copy that it got as bytes over a pipe (mq_platform_dump and mq_platform_restore), whose
 * `resolve` it sets to a question to the server. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_PLATFORM_H
#define MQ_HARDWARE_PLATFORM_PLATFORM_H

#include <stddef.h>

#include <simgrid/forward.h>

#include "maquette/cluster.h"
#include "hardware/platform/generate.h"

/* simgrid_init with the configuration that the executor counts on: CM02 without TCP window, cross traffic or rounding
 * of events, small stacks for many actors. SimGrid's own messages go to stderr as bare text. */
void mq_platform_start(const char *program);

/* Load a platform, read its properties (see cluster.h), check it. The links' latencies are kept in the
 * cluster and set to 0 in SimGrid, because CM02 shares links unfairly between flows of different
 * latency. MQ_EINPUT: not readable, no device, a bad property. Aborts the process on broken XML. */
enum mq_status mq_platform_load(const char *path, struct mq_arena *arena, struct mq_cluster **cluster,
				struct mq_err *err);

/* Does mq_platform_build know the fabric? Those of the others are found by SimGrid in a file. */
bool mq_platform_is_built(const struct mq_platform_spec *spec);
/* The cluster that mq_platform_load makes of the file that mq_platform_generate writes, the same to the last digit,
 * without that file: for fabrics that mq_platform_is_built. SimGrid gets hosts and links when a simulation first uses
 * them. `calib` is borrowed. MQ_EINPUT: as mq_platform_generate. */
enum mq_status mq_platform_build(const struct mq_platform_spec *spec, const struct mq_calib *calib,
				 struct mq_arena *arena, struct mq_cluster **cluster, struct mq_err *err);
/* A file of keys (mq_platform_keep_keys), by its name, and the cluster built of it; `calib`: as when it was kept. */
bool mq_platform_is_keys(const char *path);
enum mq_status mq_platform_build_file(const char *path, const struct mq_calib *calib, struct mq_arena *arena,
				      struct mq_cluster **cluster, struct mq_err *err);

/* What a line that SimGrid leaves on stderr says; NULL: nothing, it is a backtrace or the like. */
const char *mq_platform_complaint(const char *line);

/* What a device is where its platform says nothing but the type. */
enum mq_device_kind mq_platform_kind(const char *type);

/* The SimGrid host and link behind a rank or link id of a cluster made by mq_platform_load or mq_platform_build; the
 * link is NULL while no flow has taken it. */
sg_host_t mq_platform_host(const struct mq_cluster *cluster, uint32_t rank);
sg_link_t mq_platform_link(const struct mq_cluster *cluster, uint32_t link);

/* A cluster as one block of bytes in the arena (same machine, same program only), without routes. */
void *mq_platform_dump(const struct mq_cluster *cluster, struct mq_arena *arena, size_t *size);
/* The cluster back from those bytes; `resolve` is NULL and must be set by the caller. MQ_EINPUT: not such bytes. */
enum mq_status mq_platform_restore(const void *bytes, size_t size, struct mq_arena *arena, struct mq_cluster **cluster,
				   struct mq_err *err);

/* links.cpp: a <prop> of a link, or NULL; SimGrid's C interface has none. */
const char *mq_platform_link_property(const_sg_link_t link, const char *name);

#endif
