/* types.h - small enumerations that all parts share, and their names. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_TYPES_H
#define MAQUETTE_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "maquette/err.h"

#define MQ_NONE UINT32_MAX /* "no such index" */

/* -1, 0 or 1 for qsort in rising order. */
#define MQ_ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* Defines a function for qsort that orders elements `a` and `b` by an expression, such as MQ_ORDERs joined with ?:. */
#define MQ_COMPARE(name, type, order)                        \
	static int name(const void *left, const void *right) \
	{                                                    \
		const type *a = left, *b = right;            \
                                                             \
		return order;                                \
	}

/* Named dimensions along which an op, and so a plan, may be split. */
enum mq_dim {
	MQ_DIM_BATCH,   /* samples: shares may be uneven */
	MQ_DIM_SEQ,     /* tokens of a sequence (sequence and context parallelism) */
	MQ_DIM_SPATIAL, /* height of an image */
	MQ_DIM_EXPERT,  /* experts of a mixture */
	MQ_DIM_HEAD,    /* attention heads */
	MQ_DIM_OUT,     /* output features (columns of the weight); vocabulary of a loss */
	MQ_DIM_IN,      /* input features (rows of the weight): the outputs are partial sums */
	MQ_N_DIMS
};
/* The degrees of an op that is not split. */
#define MQ_UNSPLIT                  \
	{                           \
		1, 1, 1, 1, 1, 1, 1 \
	}

/* Tensors have a type before MQ_N_TENSOR_DTYPES; FP4 (a scale per 16 elements) is only for operands of GEMMs. */
enum mq_dtype {
	MQ_FP32,
	MQ_TF32,
	MQ_FP16,
	MQ_BF16,
	MQ_FP8,
	MQ_FP64,
	MQ_N_TENSOR_DTYPES,
	MQ_FP4 = MQ_N_TENSOR_DTYPES,
	MQ_N_DTYPES
};

enum mq_phase { MQ_FORWARD, MQ_BACKWARD, MQ_UPDATE, MQ_N_PHASES };

enum mq_verdict {
	MQ_VERDICT_OK,
	MQ_VERDICT_OOM,
	MQ_VERDICT_DEADLOCK,
	MQ_VERDICT_TIMEOUT,
	MQ_VERDICT_CRASH,
	MQ_VERDICT_INVALID, /* violates a rule for all plans of the model */
	MQ_VERDICT_REFUSED, /* a valid plan that this program cannot lower or simulate */
	MQ_N_VERDICTS
};

enum mq_coll_kind {
	MQ_COLL_ALL_REDUCE,
	MQ_COLL_ALL_GATHER,
	MQ_COLL_REDUCE_SCATTER,
	MQ_COLL_BROADCAST,
	MQ_COLL_REDUCE,
	MQ_COLL_ALL_TO_ALL,
	MQ_N_COLL_KINDS
};

enum mq_algo {
	MQ_ALGO_AUTO,
	MQ_ALGO_RING,
	MQ_ALGO_TREE,
	MQ_ALGO_NVLS,
	MQ_ALGO_NVLS_TREE,
	MQ_ALGO_COLLNET_DIRECT,
	MQ_ALGO_COLLNET_CHAIN,
	MQ_ALGO_PAT,
	MQ_N_ALGOS
};

enum mq_proto { MQ_PROTO_AUTO, MQ_PROTO_LL, MQ_PROTO_LL128, MQ_PROTO_SIMPLE, MQ_N_PROTOS };

MQ_API const char *mq_dim_name(enum mq_dim dim);         /* "batch", "seq", ... */
MQ_API const char *mq_dtype_name(enum mq_dtype dtype);   /* "fp16", ... */
MQ_API const char *mq_verdict_name(enum mq_verdict v);   /* "ok", "oom", ... */
MQ_API const char *mq_coll_name(enum mq_coll_kind kind); /* "all_reduce", ... as nccl-tests */
MQ_API const char *mq_algo_name(enum mq_algo algo);      /* "auto", "ring", ... */
MQ_API const char *mq_proto_name(enum mq_proto proto);   /* "auto", "ll", "ll128", "simple" */
/* The values of NCCL_ALGO and NCCL_PROTO; NULL for auto. */
MQ_API const char *mq_algo_nccl(enum mq_algo algo);
MQ_API const char *mq_proto_nccl(enum mq_proto proto);
MQ_API const char *mq_phase_name(enum mq_phase phase); /* "forward", ... */

/* Bytes of one element as stored in memory: 4 for fp32 and tf32, 2, 1, 8. */
MQ_API double mq_dtype_size(enum mq_dtype dtype); /* bytes */

/* Defines the function that names an enum's values; "?" for any other. */
#define MQ_NAMES(function, type, count, ...)                                                          \
	const char *function(type value)                                                              \
	{                                                                                             \
		static const char *const names[] = { __VA_ARGS__ };                                   \
                                                                                                      \
		_Static_assert(sizeof(names) / sizeof(*names) == (count), "one name for each value"); \
		return (unsigned)value < (count) ? names[value] : "?";                                \
	}
/* Index of `text` among the names of an enumeration; `n` = none. */
#define MQ_ENUM_FIND(name_of, n, text) mq_enum_find((const char *(*)(int))(name_of), (n), (text))
MQ_API int mq_enum_find(const char *(*name_of)(int), int n, const char *text);

#endif
