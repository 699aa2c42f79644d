/* state.c - shared by the cuda executor's parts: operands, the clock, and errors of failed calls.
 *
 * Operands come in turn from a pool larger than the L2 cache and are random numbers of their type; inputs are never
 * overwritten, since all-zero data runs faster than real data. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda/parts.h"

enum { LINE = 256 };

double cuda_now(const struct cuda *c)
{
	return c->ranks->now(c->ranks->state);
}

enum mq_status cuda_failed(const struct cuda *c, const char *call, int error, struct mq_err *err)
{
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(call, "("), call);
	if (error == cudaErrorMemoryAllocation)
		return mq_fail(err, MQ_ENODEV, "rank %u: out of memory on GPU %d (%s)", c->ranks->rank, c->device,
			       name);
	return mq_fail(err, MQ_ETIME, "rank %u: %s failed on GPU %d: %s (error %d)", c->ranks->rank, name, c->device,
		       c->kit.cudaGetErrorString((cudaError_t)error), error);
}

enum mq_status cuda_wait(struct cuda *c, cudaStream_t stream, double until_s, const char *what, bool *late,
			 struct mq_err *err)
{
	for (uint32_t polls = 1;; polls++) {
		int state = (int)c->kit.cudaStreamQuery(stream);

		*late = state == cudaErrorNotReady && cuda_now(c) > until_s;
		if (state == cudaSuccess || *late)
			return MQ_OK;
		if (state != cudaErrorNotReady)
			return cuda_failed(c, what, state, err);
		if (polls % 256 == 0)
			MQ_TRY(cuda_comms_check(c, err));
		if (polls > 4096)
			usleep(20);
	}
}

enum cuda_operand cuda_operand_of(uint8_t dtype)
{
	return dtype == MQ_FP8 ? CUDA_E4M3 : dtype == MQ_FP16 ? CUDA_FP16 : CUDA_WORDS;
}

void *cuda_pool_in(struct cuda_pool *pool, enum cuda_operand type, size_t bytes)
{
	return mq_pool_take(pool->in[type], &pool->in_at, pool->size, bytes, 0, LINE);
}

void *cuda_pool_out(struct cuda_pool *pool, size_t bytes)
{
	return mq_pool_take(pool->out, &pool->out_at, pool->size, bytes, 0, LINE);
}
