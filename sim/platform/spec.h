/*
 * spec.h - what the options of a generated platform amount to: private to the generator.
 */
#ifndef MQ_PLATFORM_SPEC_H
#define MQ_PLATFORM_SPEC_H

#include "core/cluster.h"
#include "platform/generate.h"

enum { MQ_GEN_MAX_GROUPS = 16, MQ_GEN_MAX_DEVICES = 262144 };

/* Machines of one kind. */
struct mq_gen_group {
	struct mq_arena *arena;
	const struct mq_device_calib *known; /* NULL: a type without calibration */
	const char *type;
	uint32_t first_node, nodes, gpus, nics, sockets, switches;
	uint32_t intra;
	double tflops, nvlink_GBps, pcie_GBps, nic_GBps;
	double memory_B, mem_bw_Bps; /* of a type without calibration; 0 = has one */
	bool p2p, cpu, nvls, cube_mesh;
	bool flat; /* may lie in its leaf's Cluster zone, see generate.h */
};

struct mq_gen {
	const struct mq_platform_spec *spec;
	const struct mq_calib *calib;
	struct mq_arena *arena;
	FILE *file;
	struct mq_gen_group group[MQ_GEN_MAX_GROUPS];
	uint32_t n_groups, n_nodes, n_leaves;
	uint64_t n_devices;
	uint32_t leaf; /* machines per leaf */
	uint32_t rank; /* next device's */
	bool flat, nvls;
	enum mq_fabric network;
	double nic_us, switch_us;
};

/* Check the options and derive everything above but file and rank. */
enum mq_status mq_gen_prepare(const struct mq_platform_spec *spec, const struct mq_calib *calib, struct mq_arena *arena,
			      struct mq_gen *gen, struct mq_err *err) MQ_MUST_CHECK;

#endif
