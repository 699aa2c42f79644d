/* wire.h - messages and collectives between ranks of different executors on one machine, through shared memory:
 * exported by maquette-replay to its executors.
 *
 * No call blocks: a transfer is posted, then its owner moves it part by part through a ring in shared memory. A device
 * copies straight into and out of the ring (mq_wire_span); host memory is copied by mq_wire_move. A send matches the
 * receive of the same tag and peer, in any order of posting, so messages between two ranks delay each other only by the
 * time of their bytes. A send is done when the receiver has taken all its bytes. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_WIRE_H
#define MAQUETTE_WIRE_H

#include "maquette/types.h"
#include "maquette/executor.h"

enum { MQ_WIRE_PART_B = 1 << 20 }; /* largest span */

struct mq_transfer {
	uint32_t peer; /* rank */
	bool send;
	bool done; /* out */
	uint64_t tag;
	size_t bytes, moved; /* moved: of this side, so far */
	/* Private to wire.c. */
	bool active;
	uint64_t first, last; /* positions in the ring of its first byte and of its end */
	struct mq_transfer *next;
};

/* `transfer` must stay where it is until it is done; both sides give the same number of bytes. */
MQ_API void mq_wire_post(struct mq_wire *wire, struct mq_transfer *transfer);
/* Reads announcements and ends of transfers; sets `done`. Cheap. */
MQ_API void mq_wire_progress(struct mq_wire *wire);
/* The next part of the ring that the transfer may fill or read, `ahead` bytes after the advanced ones; NULL and *bytes
 * = 0: none now. */
MQ_API void *mq_wire_span(struct mq_wire *wire, const struct mq_transfer *transfer, size_t ahead, size_t *bytes);
MQ_API void mq_wire_advance(struct mq_wire *wire, struct mq_transfer *transfer, size_t bytes);
/* Calls mq_wire_progress, then moves as much as possible between host memory and the ring. */
MQ_API void mq_wire_move(struct mq_wire *wire, struct mq_transfer *transfer, void *data);
/* The shared memory of the ring to (or from) `peer`, for a device that must register it. */
MQ_API void *mq_wire_memory(struct mq_wire *wire, uint32_t peer, bool to, size_t *bytes);

/* For executors, in open: broadcasts bytes of the executor's first rank to its others, within the deadline. Without a
 * wire, when all ranks are the executor's, it uses the session's broadcast. */
MQ_API enum mq_status mq_wire_share(const struct mq_replay_session *session, void *data, size_t size,
				    struct mq_err *err);

/* A collective on host memory, by a ring of transfers. `bytes` as mq_task.bytes counts; `in` and `out` hold n equal
 * parts of mq_wire_coll_part_B each. Only fp32 and fp64 are added. */
struct mq_wire_coll {
	enum mq_coll_kind kind;
	enum mq_dtype dtype;
	uint32_t n, me, root; /* positions in the group */
	const uint32_t *rank; /* [n] borrowed */
	uint64_t tag;         /* equal on all members, unique in the step */
	double bytes;
	const char *in;
	char *out;
	/* Private to wire_coll.c. */
	uint32_t step;
	bool posted, done;
	struct mq_transfer send, recv;
};
/* A collective for `rank`, a member, without its operands; `call`: the task's ordinal among the communicator's calls.
 * It makes the tag unique: messages have their sender's task id as tag. */
static inline struct mq_wire_coll mq_wire_coll_of(const struct mq_schedule *schedule, const struct mq_task *task,
						  uint32_t rank, uint32_t call)
{
	const struct mq_comm *comm = &schedule->comm[task->comm];
	struct mq_wire_coll coll = { .kind = (enum mq_coll_kind)task->coll,
				     .dtype = (enum mq_dtype)task->dtype,
				     .n = comm->n,
				     .root = task->root,
				     .rank = comm->rank,
				     .tag = 1ull << 63 | (uint64_t)task->comm << 32 | call,
				     .bytes = task->bytes };

	while (comm->rank[coll.me] != rank)
		coll.me++;
	return coll;
}
MQ_API size_t mq_wire_coll_part_B(enum mq_dtype dtype, double bytes, uint32_t n);
/* Call until it returns true. The caller sets the fields before the private ones, which are zero. */
MQ_API bool mq_wire_coll_run(struct mq_wire *wire, struct mq_wire_coll *coll);

#endif
