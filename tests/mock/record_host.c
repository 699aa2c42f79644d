/*
 * record_host.c - preloaded, writes down what a rank of executor host asks of OpenBLAS and of MPI, and passes
 * it on: MOCK_LOG=DIR gives DIR/rank-N.log, for tests/check-replay to hold against the schedule.
 * SPDX-License-Identifier: Apache-2.0 */
#include <cblas.h>
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define API __attribute__((visibility("default")))

static FILE *log_file(void)
{
	static FILE *file;
	const char *dir = getenv("MOCK_LOG"), *rank = getenv("OMPI_COMM_WORLD_RANK");
	char path[4096];

	if (!dir || !rank)
		return NULL;
	snprintf(path, sizeof(path), "%s/rank-%s.log", dir, rank);
	if (!file)
		file = fopen(path, "w");
	return file;
}

#define WRITE(...)                                   \
	do {                                         \
		FILE *file_ = log_file();            \
		if (file_) {                         \
			fprintf(file_, __VA_ARGS__); \
			fflush(file_);               \
		}                                    \
	} while (0)

static void *next(const char *library, const char *name)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
	void *found = handle ? dlsym(handle, name) : NULL;

	if (!found)
		abort();
	return found;
}

#define GEMM(name, text, type)                                                                                        \
	API void name(const enum CBLAS_ORDER order, const enum CBLAS_TRANSPOSE ta, const enum CBLAS_TRANSPOSE tb,     \
		      const blasint m, const blasint n, const blasint k, const type alpha, const type *a,             \
		      const blasint lda, const type *b, const blasint ldb, const type beta, type *c,                  \
		      const blasint ldc)                                                                              \
	{                                                                                                             \
		void (*real)(enum CBLAS_ORDER, enum CBLAS_TRANSPOSE, enum CBLAS_TRANSPOSE, blasint, blasint, blasint, \
			     type, const type *, blasint, const type *, blasint, type, type *, blasint);              \
                                                                                                                      \
		*(void **)&real = next("libopenblas.so.0", #name);                                                    \
		WRITE("gemm " text " %d %d %d\n", (int)m, (int)n, (int)k);                                            \
		real(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                                    \
	}
GEMM(cblas_sgemm, "fp32", float)
GEMM(cblas_dgemm, "fp64", double)

static const char *type_name(MPI_Datatype type)
{
	return type == MPI_FLOAT ? "fp32" : type == MPI_DOUBLE ? "fp64" : "other";
}

static void call(const char *what, MPI_Datatype type, int count, int root, MPI_Comm comm)
{
	int n;

	PMPI_Comm_size(comm, &n);
	WRITE("call %s %s %d %d %d\n", what, type_name(type), count, root, n);
}

API int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
	WRITE("send %d to %d\n", count, to);
	return PMPI_Isend(data, count, type, to, tag, comm, request);
}

API int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request)
{
	WRITE("recv %d from %d\n", count, from);
	return PMPI_Irecv(data, count, type, from, tag, comm, request);
}

API int MPI_Iallreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
		       MPI_Request *request)
{
	call("all_reduce", type, count, 0, comm);
	return PMPI_Iallreduce(in, out, count, type, op, comm, request);
}

API int MPI_Iallgather(const void *in, int n, MPI_Datatype type, void *out, int each, MPI_Datatype out_type,
		       MPI_Comm comm, MPI_Request *request)
{
	call("all_gather", type, n, 0, comm);
	return PMPI_Iallgather(in, n, type, out, each, out_type, comm, request);
}

API int MPI_Ireduce_scatter_block(const void *in, void *out, int each, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
				  MPI_Request *request)
{
	call("reduce_scatter", type, each, 0, comm);
	return PMPI_Ireduce_scatter_block(in, out, each, type, op, comm, request);
}

API int MPI_Ibcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request)
{
	call("broadcast", type, count, root, comm);
	return PMPI_Ibcast(data, count, type, root, comm, request);
}

API int MPI_Ireduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
		    MPI_Request *request)
{
	call("reduce", type, count, root, comm);
	return PMPI_Ireduce(in, out, count, type, op, root, comm, request);
}

API int MPI_Ialltoall(const void *in, int n, MPI_Datatype type, void *out, int each, MPI_Datatype out_type,
		      MPI_Comm comm, MPI_Request *request)
{
	call("alltoall", type, n, 0, comm);
	return PMPI_Ialltoall(in, n, type, out, each, out_type, comm, request);
}
