/* graph.h - a platform as a drawing: devices, the junctions that their routes imply, links.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_GRAPH_H
#define MQ_HARDWARE_PLATFORM_GRAPH_H

#include <stdio.h>

#include "maquette/cluster.h"

/* In graphviz's language. */
enum mq_status mq_platform_graph(const struct mq_cluster *cluster, FILE *file, struct mq_err *err);
/* The same through `dot`: BASE.svg and BASE.png, or one file where `output` ends in .svg, .png, .dot, .pdf.
 * MQ_ENODEV: no graphviz. */
enum mq_status mq_platform_draw(const struct mq_cluster *cluster, const char *output, struct mq_err *err);

#endif
