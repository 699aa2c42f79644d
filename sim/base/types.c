/* types.c - see types.h. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/types.h"

#include <string.h>

MQ_NAMES(mq_dim_name, enum mq_dim, MQ_N_DIMS, "batch", "seq", "spatial", "expert", "head", "out", "in")

MQ_NAMES(mq_dtype_name, enum mq_dtype, MQ_N_DTYPES, "fp32", "tf32", "fp16", "bf16", "fp8", "fp64", "fp4")

MQ_NAMES(mq_coll_name, enum mq_coll_kind, MQ_N_COLL_KINDS, "all_reduce", "all_gather", "reduce_scatter", "broadcast",
	 "reduce", "alltoall")

struct spelled {
	const char *name, *nccl;
};

static const struct spelled algos[MQ_N_ALGOS] = {
	[MQ_ALGO_AUTO] = { "auto", NULL },
	[MQ_ALGO_RING] = { "ring", "Ring" },
	[MQ_ALGO_TREE] = { "tree", "Tree" },
	[MQ_ALGO_NVLS] = { "nvls", "NVLS" },
	[MQ_ALGO_NVLS_TREE] = { "nvlstree", "NVLSTree" },
	[MQ_ALGO_COLLNET_DIRECT] = { "collnet-direct", "CollnetDirect" },
	[MQ_ALGO_COLLNET_CHAIN] = { "collnet-chain", "CollnetChain" },
	[MQ_ALGO_PAT] = { "pat", "PAT" },
};

static const struct spelled protos[MQ_N_PROTOS] = {
	[MQ_PROTO_AUTO] = { "auto", NULL },
	[MQ_PROTO_LL] = { "ll", "LL" },
	[MQ_PROTO_LL128] = { "ll128", "LL128" },
	[MQ_PROTO_SIMPLE] = { "simple", "Simple" },
};

const char *mq_algo_name(enum mq_algo algo)
{
	return (unsigned)algo < MQ_N_ALGOS ? algos[algo].name : "?";
}

const char *mq_algo_nccl(enum mq_algo algo)
{
	return (unsigned)algo < MQ_N_ALGOS ? algos[algo].nccl : NULL;
}

const char *mq_proto_name(enum mq_proto proto)
{
	return (unsigned)proto < MQ_N_PROTOS ? protos[proto].name : "?";
}

const char *mq_proto_nccl(enum mq_proto proto)
{
	return (unsigned)proto < MQ_N_PROTOS ? protos[proto].nccl : NULL;
}

MQ_NAMES(mq_phase_name, enum mq_phase, MQ_N_PHASES, "forward", "backward", "update")

double mq_dtype_size(enum mq_dtype dtype)
{
	static const double sizes[MQ_N_DTYPES] = { 4, 4, 2, 2, 1, 8, .5 };

	mq_assert((unsigned)dtype < MQ_N_DTYPES);
	return sizes[dtype];
}

int mq_enum_find(const char *(*name_of)(int), int n, const char *text)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(name_of(i), text))
			return i;
	return n;
}
