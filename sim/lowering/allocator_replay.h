/* allocator_replay.h - the allocations and frees of a step on one device, in order, through PyTorch's allocator: how
 * much of the device's memory is lost in blocks that the allocator has split.
 *
 * A replay holds the ops of all model chunks of the device (footprint.h). It starts with parameters, master copies, and
 * gradients unless the backward pass makes them, and runs two steps: the first ends with the allocation of the
 * optimizer's state, which therefore lies behind the blocks of activations. It follows the pipeline's order pass by
 * pass and op by op:
 *   forward   an op's output, scores it stores, what it keeps; tensors that no later op reads and nobody keeps
 *             are freed;
 *   backward  what its layer computes again, the gradient of its input, two of its scores, its weight gradient; then
 *             the gradient of its output and what it kept are freed.
 * A tensor that is an op's output or input and is kept is one block, however many keep it. What a tensor-parallel
 * collective on a stream of its own reads is freed late where the software says so (`record_stream`): the host is as
 * many launches ahead of the device as a stream's queue holds, 1,024 (what CUDA's drivers are known to take; no
 * document says so).
 *
 * A long schedule is played short: of a deep pipeline the last ranks, of many micro-batches as many as it takes to come
 * to its steady state. What more of them keep lies there as one block, all the time.
 *
 * Not modelled: workspaces, copies inside collectives, what is freed between steps by hand (torch.cuda.empty_cache).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LOWERING_ALLOCATOR_REPLAY_H
#define MQ_LOWERING_ALLOCATOR_REPLAY_H

#include "schedule/allocation_log.h"
#include "schedule/allocator.h"
#include "lowering/footprint.h"

struct mq_allocator_replay;

/* Of a device of pipeline rank `rank`. `apart_B`: buffers that lie there the whole step. In the lowering's scratch
 * arena. */
struct mq_allocator_replay *mq_allocator_replay_new(struct mq_low *low, uint32_t rank, uint32_t device, double apart_B);
/* Plays it on a device of any size, and writes down all that happens. */
void mq_allocator_replay_log(struct mq_low *low, const struct mq_allocator_replay *replay,
			     struct mq_allocation_log *log);
/* Of all that a replay depends on. */
uint64_t mq_allocator_replay_hash(const struct mq_allocator_replay *replay, uint64_t seed);
/* Plays it on a device of `limit_B` (INFINITY: any) for this allocator. False: out of memory. *use: how much it took
 * until then. */
bool mq_allocator_replay_run(struct mq_low *low, const struct mq_allocator_replay *replay, double limit_B,
			     struct mq_allocator_use *use);

#endif
