/* host.h - the parts of the host executor: kernels on CPU cores, and one rank's progress engine.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_VALIDATOR_HOST_H
#define MQ_VALIDATOR_HOST_H

#include "maquette/executor.h"

/* Operands come from a pool that is larger than the caches and is walked round, so that no kernel finds its operands
 * hot by accident. Inputs are random and never overwritten: results cannot drift to infinities or denormals, which
 * would change the speed. */
struct host_pool {
	char *in, *out; /* owned */
	size_t size, in_at, out_at;
};

enum mq_status host_pool_init(struct host_pool *pool, size_t size, uint64_t seed, struct mq_err *err);
void host_pool_fini(struct host_pool *pool);
/* The next `bytes` of the inputs / outputs; bytes <= size. */
void *host_pool_in(struct host_pool *pool, size_t bytes);
void *host_pool_out(struct host_pool *pool, size_t bytes);

/* Bytes of the largest single operand and of all inputs of a kernel: what a pool must hold. */
size_t host_kernel_need(const struct mq_kernel *kernel);
/* MQ_EINPUT: an element type that the CPU has no routine for. */
enum mq_status host_kernel_check(const struct mq_kernel *kernel, struct mq_err *err);
/* Runs one kernel; `poll` is called between its parts so that messages move on. */
void host_kernel_run(struct host_pool *pool, const struct mq_kernel *kernel, void (*poll)(void *), void *context);
/* A copy of `bytes` (MQ_TASK_COPY). */
void host_copy_run(struct host_pool *pool, double bytes);

#endif
