/* graph.h - draws a platform: devices, links, and the switches that routes imply.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_GRAPH_H
#define MQ_HARDWARE_PLATFORM_GRAPH_H

#include <stdio.h>

#include "maquette/cluster.h"

/* As graphviz source. */
enum mq_status mq_platform_graph(const struct mq_cluster *cluster, FILE *file, struct mq_err *err);
/* As images made by `dot`: BASE.svg and BASE.png, or one file if `output` ends in .svg, .png, .dot, .pdf.
 * MQ_ENODEV: no graphviz. */
enum mq_status mq_platform_draw(const struct mq_cluster *cluster, const char *output, struct mq_err *err);

#endif
