/* fabrics.h - the system of a row of collective timings. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCORE_FABRICS_H
#define MQ_SCORE_FABRICS_H

#include "base/csv.h"
#include "maquette/calib.h"
#include "maquette/cluster.h"

enum mq_inside {
	MQ_INSIDE_NONE,
	MQ_INSIDE_SWITCH,
	MQ_INSIDE_CUBE,
	MQ_INSIDE_QUAD,
	MQ_INSIDE_PAIRS,
	MQ_INSIDE_PCIE,
	MQ_INSIDE_HOST
};

struct mq_fabric_spec {
	const char *type; /* device type */
	uint32_t nodes, per_node, rails;
	enum mq_inside inside;
	double nvlink_Bps; /* nominal, per GPU and direction */
	double pcie_Bps;   /* nominal lanes of a GPU */
	double nic_Bps;    /* nominal, of one NIC */
	enum mq_fabric fabric;
	bool nvls, sharp;
	/* The run, from the row. */
	enum mq_algo algo;
	enum mq_proto proto;
	uint32_t nccl_version; /* 0 = not known */
	double per_thread;     /* GPUs per thread of the benchmark; 0 = kernel times, without host */
};

/* The columns that identify a system ("a b c"); results/README.md explains them. */
extern const char mq_fabric_columns[];
/* MQ_EINPUT: an unknown GPU, word or shape, with its name. */
enum mq_status mq_fabric_read(const struct mq_csv *csv, uint32_t row, const struct mq_calib *calib,
			      struct mq_fabric_spec *spec, struct mq_err *err);
/* Its devices and links, bound to the calibration. */
enum mq_status mq_fabric_build(const struct mq_fabric_spec *spec, struct mq_calib *calib, struct mq_arena *arena,
			       struct mq_cluster **cluster, struct mq_err *err);

#endif
