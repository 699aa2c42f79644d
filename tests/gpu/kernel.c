/* kernel.c - one call of a kernel as the cuda executor runs it, on tensors of a file, for attention.py and grouped.py.
 *
 *   kernel SCHEDULE.jsonl IN OUT
 *
 * SCHEDULE: one task of one device, with one kernel. IN: what it reads, each tensor from a multiple of 256 bytes; OUT:
 * what it writes, likewise. Prints microseconds of a call, the mean of 20 on operands that lie apart.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "maquette/arena.h"
#include "maquette/schedule.h"
#include "cuda/parts.h"

enum { CALLS = 20 };

static void must(enum mq_status status, const struct mq_err *err)
{
	if (status == MQ_OK)
		return;
	fprintf(stderr, "%s\n", err->text);
	exit(1);
}

#define CUDA(call)                                                                                       \
	do {                                                                                             \
		int bad_ = (int)c.kit.call;                                                              \
		if (bad_) {                                                                              \
			fprintf(stderr, "%s: %s\n", #call, c.kit.cudaGetErrorString((cudaError_t)bad_)); \
			exit(1);                                                                         \
		}                                                                                        \
	} while (0)

int main(int argc, char **argv)
{
	struct mq_arena arena = { 0 };
	struct mq_err err = { 0 };
	struct mq_schedule *schedule;
	static const struct mq_replay_executor cuda = { .name = "cuda" }, *const owner = &cuda;

	if (argc != 4)
		return 2;
	must(mq_schedule_load(argv[1], &arena, &schedule, &err), &err);
	struct mq_replay_session session = {
		.arena = &arena, .n_schedules = 1, .schedule = &schedule, .n_devices = 1, .owner = &owner
	};
	struct mq_ranks ranks = { .rank = 0 };
	struct cuda c = { .session = &session, .ranks = &ranks, .pool.size = (size_t)3 << 30 };
	const struct mq_kernel *kernel = &schedule->work[0].kernel[0];
	uint32_t read = cuda_operands_read(&session, 0);

	must(cuda_open_runtime(&c.kit, &err), &err);
	must(cuda_open_blas(&c.kit, &err), &err);
	must(cuda_kernels_ask(&c.kit, &session, &err), &err);
	CUDA(cublasCreate_v2(&c.blas));
	CUDA(cudaStreamCreateWithFlags(&c.stream[MQ_STREAM_COMPUTE], cudaStreamNonBlocking));
	cudaStream_t stream = c.stream[MQ_STREAM_COMPUTE];
	FILE *in = fopen(argv[2], "rb"), *out = fopen(argv[3], "wb");
	char *host = malloc(c.pool.size);
	size_t got = in && out && host ? fread(host, 1, c.pool.size, in) : 0;
	if (!got)
		return 2;
	for (int type = 0; type < CUDA_N_OPERANDS; type++) {
		if (!(read & 1u << type))
			continue;
		CUDA(cudaMalloc((void **)&c.pool.in[type], c.pool.size));
		for (size_t at = 0; at + got <= c.pool.size; at += got) /* for calls after the first too */
			CUDA(cudaMemcpy(c.pool.in[type] + at, host, got, cudaMemcpyHostToDevice));
	}
	CUDA(cudaMalloc((void **)&c.pool.out, c.pool.size));
	CUDA(cudaMemset(c.pool.out, 0x7f, c.pool.size));
	must(cuda_kernels_prepare(&c, &err), &err);
	size_t before = c.pool.out_at; /* of grouped kernels, whose operands have their places by now */
	must(cuda_kernel_enqueue(&c, kernel, MQ_STREAM_COMPUTE, &err), &err);
	while (c.kit.cudaStreamQuery(stream) == cudaErrorNotReady)
		;
	CUDA(cudaMemcpy(host, c.pool.out, c.pool.size, cudaMemcpyDeviceToHost));
	fwrite(host, 1, before ? before : c.pool.out_at, out);
	fclose(out);
	cudaEvent_t begin, end;
	float ms;
	CUDA(cudaEventCreate(&begin));
	CUDA(cudaEventCreate(&end));
	CUDA(cudaEventRecord(begin, stream));
	for (int i = 0; i < CALLS; i++)
		must(cuda_kernel_enqueue(&c, kernel, MQ_STREAM_COMPUTE, &err), &err);
	CUDA(cudaEventRecord(end, stream));
	while (c.kit.cudaEventQuery(end) == cudaErrorNotReady)
		;
	CUDA(cudaEventElapsedTime(&ms, begin, end));
	printf("%s %s, %g x %g x %g, %g of them: %.1f us\n", mq_kernel_kind_name(kernel->kind),
	       mq_phase_name(kernel->phase), kernel->m, kernel->n, kernel->k, kernel->count, (double)ms / CALLS * 1e3);
	return 0;
}
