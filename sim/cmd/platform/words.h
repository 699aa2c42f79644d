/* words.h - what the words of `maquette platform` share. Files are read in a process of its own, because SimGrid aborts
 * on broken XML and hwloc crashes. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_CMD_PLATFORM_WORDS_H
#define MQ_CMD_PLATFORM_WORDS_H

#include <stdio.h>

#include "maquette/calib.h"
#include "maquette/cluster.h"

/* Run this program again as `maquette platform WORD ARGS...` with its standard output, and wait. The
 * child's exit status becomes the status and its last line on stderr the message; a child that a library
 * aborted is bad input, `file` by name. */
enum mq_status mq_platform_child(const char *word, const char *file, int argc, char **argv, struct mq_err *err);

/* In the child: load the platform, or build it of its keys with `calib`, and ask the routes of the sampled pairs (all
 * pairs where there are few devices), so that they are in the cache when this returns. */
enum mq_status mq_platform_explore(const char *path, const struct mq_calib *calib, struct mq_arena *arena,
				   struct mq_cluster **cluster, struct mq_err *err);

/* The sample: all pairs of up to `most` devices, else of devices spread over machines and fabric. */
struct mq_platform_sample {
	uint32_t n;
	uint32_t *device; /* ascending */
	bool all;
};
void mq_platform_sample(const struct mq_cluster *cluster, struct mq_arena *arena, struct mq_platform_sample *sample);

/* Who a rank sends to in the bisection figure; where n is odd the last one has no partner. */
uint32_t mq_platform_partner(uint32_t n, uint32_t rank);

/* Tables: devices, link classes, bandwidths between device classes, bisection. */
enum mq_status mq_platform_tables(const struct mq_cluster *cluster, FILE *file, struct mq_err *err);

/* Every device and link as JSON, with units in the names. */
void mq_platform_json(const struct mq_cluster *cluster, FILE *file);

/* "hint: ..." lines about values that are legal but unlikely; returns their number. */
uint32_t mq_platform_doubts(const struct mq_cluster *cluster, FILE *file);

#endif
