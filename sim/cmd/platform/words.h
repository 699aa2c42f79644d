/* words.h - shared by the sub-commands of `maquette platform`. A child process reads files, because SimGrid aborts on
 * invalid XML and hwloc crashes. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_CMD_PLATFORM_WORDS_H
#define MQ_CMD_PLATFORM_WORDS_H

#include <stdio.h>

#include "maquette/calib.h"
#include "maquette/cluster.h"

/* Runs this program again as `maquette platform WORD ARGS...` with its standard output, and waits. The child's exit
 * status becomes the status, its last line on stderr the message; if a library aborts it, `file` is bad input. */
enum mq_status mq_platform_child(const char *word, const char *file, int argc, char **argv, struct mq_err *err);

/* In the child: loads the platform, or builds it from its keys with `calib`, and computes the routes of the sampled
 * pairs, which are then cached. */
enum mq_status mq_platform_explore(const char *path, const struct mq_calib *calib, struct mq_arena *arena,
				   struct mq_cluster **cluster, struct mq_err *err);

/* The sample: all pairs of up to `most` devices, else pairs of devices spread over machines and fabric. */
struct mq_platform_sample {
	uint32_t n;
	uint32_t *device; /* ascending */
	bool all;
};
void mq_platform_sample(const struct mq_cluster *cluster, struct mq_arena *arena, struct mq_platform_sample *sample);

/* The partner of a rank in the bisection; with odd n the last rank has none. */
uint32_t mq_platform_partner(uint32_t n, uint32_t rank);

/* Tables: devices, link classes, bandwidths between device classes, bisection. */
enum mq_status mq_platform_tables(const struct mq_cluster *cluster, FILE *file, struct mq_err *err);

/* Every device and link as JSON, with units in the names. */
void mq_platform_json(const struct mq_cluster *cluster, FILE *file);

/* Prints "hint: ..." lines about valid but unlikely values; returns their number. */
uint32_t mq_platform_doubts(const struct mq_cluster *cluster, FILE *file);

#endif
