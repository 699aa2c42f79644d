/* allocator_replay.h - replays the allocations and frees of a step on one device through PyTorch's caching allocator,
 * to find the memory lost to fragmentation.
 *
 * A replay has the ops of all model chunks of the device (footprint.h). It starts with parameters, master copies, and
 * gradients unless the backward pass allocates them, and runs two steps: the first ends with the allocation of the
 * optimizer state, which therefore comes after the blocks of activations. It follows the pipeline's order pass by pass
 * and op by op:
 *   forward   allocates an op's output, stored scores, saved tensors; frees tensors that no later op reads and that
 *             are not saved;
 *   backward  allocates what its layer recomputes, the gradient of its input, two of its scores, its weight
 *             gradient; then frees the gradient of its output and its saved tensors.
 * A saved output or input of ops is one block, however many ops save it. Tensors read by a tensor-parallel collective
 * on a separate stream are freed late if the software does so (`record_stream`): the host runs ahead of the device by
 * the capacity of a stream's queue, 1,024 launches (known of CUDA's drivers, but not documented).
 *
 * Long schedules are shortened: to the last ranks of a deep pipeline, and to as many micro-batches as reach its steady
 * state. Saved tensors of the other micro-batches are one permanent block.
 *
 * Not modelled: workspaces, copies inside collectives, explicit frees between steps (torch.cuda.empty_cache).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LOWERING_ALLOCATOR_REPLAY_H
#define MQ_LOWERING_ALLOCATOR_REPLAY_H

#include "schedule/allocation_log.h"
#include "schedule/allocator.h"
#include "lowering/footprint.h"

struct mq_allocator_replay;

/* The replay of a device of pipeline rank `rank`, in the lowering's scratch arena. apart_B: buffers that exist during
 * the whole step. */
struct mq_allocator_replay *mq_allocator_replay_new(struct mq_low *low, uint32_t rank, uint32_t device, double apart_B);
/* Replays on a device of unlimited memory, and logs all allocations. */
void mq_allocator_replay_log(struct mq_low *low, const struct mq_allocator_replay *replay,
			     struct mq_allocation_log *log);
/* A hash of everything a replay depends on. */
uint64_t mq_allocator_replay_hash(const struct mq_allocator_replay *replay, uint64_t seed);
/* Replays on a device with `limit_B` (INFINITY: unlimited) for this allocator. False: out of memory. *use: memory used
 * until then. */
bool mq_allocator_replay_run(struct mq_low *low, const struct mq_allocator_replay *replay, double limit_B,
			     struct mq_allocator_use *use);

#endif
