/* attention.c - one call of the cuda executor's fused attention on tensors of a file, for attention.py.
 *
 *   attention forward|backward HEADS KV_HEADS QUERIES KEYS WIDTH CAUSAL IN OUT
 *
 * IN: Q, K, V in bf16, and backward O, dO, then the logarithms of the sums in fp32, each from a multiple of 256 bytes;
 * OUT: what the graph writes, likewise. Prints microseconds of a call, the mean of 20.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "maquette/arena.h"
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

	if (argc != 10)
		return 2;
	struct mq_replay_session session = { .arena = &arena };
	struct mq_ranks ranks = { .rank = 0 };
	struct cuda c = { .session = &session, .ranks = &ranks, .pool.size = (size_t)1 << 30 };
	bool back = !strcmp(argv[1], "backward");
	double heads = atof(argv[2]), kv = atof(argv[3]), m = atof(argv[4]), n = atof(argv[5]), k = atof(argv[6]);
	struct mq_kernel kernel = { .kind = MQ_KERNEL_ATTENTION,
				    .phase = back ? MQ_BACKWARD : MQ_FORWARD,
				    .dtype = MQ_BF16,
				    .causal = atoi(argv[7]),
				    .m = m,
				    .n = n,
				    .k = k,
				    .count = heads,
				    .flop = (back ? 8 : 4) * m * n * k * heads,
				    .bytes = 2 * ((back ? 4 : 2) * m * k * heads + (back ? 4 : 2) * n * k * kv) };
	struct cuda_attention *plan;
	size_t workspace_B;
	void *workspace = NULL;

	must(cuda_open_runtime(&c.kit, &err), &err);
	must(cuda_open_dnn(&c.kit, &err), &err);
	if (!cuda_attention_runs(&kernel))
		return 3;
	must(cuda_attention_prepare(&c, &kernel, &plan, &workspace_B, &err), &err);
	CUDA(cudaMalloc((void **)&c.pool.in, c.pool.size));
	CUDA(cudaMalloc((void **)&c.pool.out, c.pool.size));
	CUDA(cudaMalloc(&workspace, workspace_B + 256));
	CUDA(cudaMemset(c.pool.out, 0x7f, c.pool.size));
	FILE *in = fopen(argv[8], "rb"), *out = fopen(argv[9], "wb");
	char *host = malloc(c.pool.size);
	size_t got = in && out && host ? fread(host, 1, c.pool.size, in) : 0;
	CUDA(cudaMemcpy(c.pool.in, host, got, cudaMemcpyHostToDevice));
	must(cuda_attention_enqueue(&c, plan, &kernel, workspace, NULL, &err), &err);
	CUDA(cudaMemcpy(host, c.pool.out, c.pool.out_at, cudaMemcpyDeviceToHost));
	fwrite(host, 1, c.pool.out_at, out);
	fclose(out);
	cudaEvent_t begin, end;
	float ms;
	CUDA(cudaEventCreate(&begin));
	CUDA(cudaEventCreate(&end));
	CUDA(cudaEventRecord(begin, NULL));
	for (int i = 0; i < CALLS; i++) {
		c.pool.in_at = c.pool.out_at = 0;
		must(cuda_attention_enqueue(&c, plan, &kernel, workspace, NULL, &err), &err);
	}
	CUDA(cudaEventRecord(end, NULL));
	while (c.kit.cudaEventQuery(end) == cudaErrorNotReady)
		;
	CUDA(cudaEventElapsedTime(&ms, begin, end));
	printf("%s heads %g of %g, %g x %g, %g wide, causal %d: %.1f us, workspace %zu B\n", argv[1], heads, kv, m, n,
	       k, (int)kernel.causal, (double)ms / CALLS * 1e3, workspace_B);
	return 0;
}
