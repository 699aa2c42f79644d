/* wire.h - messages and collectives between ranks of different executors on one machine, through shared memory:
 * exported by maquette-replay to its executors.
 *
 * Nothing blocks: a transfer is posted, then moved on whenever its owner looks, part by part through a ring in shared
 * memory. A device copies straight into and out of the ring (mq_wire_span); host memory is copied by mq_wire_move. A
 * send meets a receive of the same tag from the same peer, whatever else is posted before or after:
 * messages between two ranks do not hold each other up for longer than their bytes take. A send is done when the
 * receiver has taken all its bytes. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_WIRE_H
#define MAQUETTE_WIRE_H

#include "maquette/types.h"
#include "maquette/executor.h"

enum { MQ_WIRE_PART_B = 1 << 20 }; /* most that a span gives at once */

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
/* Looks for announcements and ends of transfers; sets `done`. Cheap. */
MQ_API void mq_wire_progress(struct mq_wire *wire);
/* The next part of the ring that the transfer may fill or read, `ahead` bytes after those advanced over; *bytes = 0
 * (and NULL) where there is none now. */
MQ_API void *mq_wire_span(struct mq_wire *wire, const struct mq_transfer *transfer, size_t ahead, size_t *bytes);
MQ_API void mq_wire_advance(struct mq_wire *wire, struct mq_transfer *transfer, size_t bytes);
/* Moves what can be moved between host memory and the ring, with progress before. */
MQ_API void mq_wire_move(struct mq_wire *wire, struct mq_transfer *transfer, void *data);
/* The shared memory of the rings to and from `peer`, for a device that has to know it. */
MQ_API void *mq_wire_memory(struct mq_wire *wire, uint32_t peer, bool to, size_t *bytes);

/* For executors, while they open: bytes of an executor's first rank to its others, under the deadline. Where there
 * is no wire all ranks are the executor's and the session's own broadcast serves. */
MQ_API enum mq_status mq_wire_share(const struct mq_replay_session *session, void *data, size_t size,
				    struct mq_err *err);

/* A collective on host memory, by a ring of transfers. `bytes` as mq_task.bytes counts; `in` and `out` hold n equal
 * parts of mq_wire_coll_part_B each. Only fp32 and fp64 are added. */
struct mq_wire_coll {
	enum mq_coll_kind kind;
	enum mq_dtype dtype;
	uint32_t n, me, root; /* positions in the group */
	const uint32_t *rank; /* [n] borrowed */
	uint64_t tag;         /* the same on all members, of no other call of the step */
	double bytes;
	const char *in;
	char *out;
	/* Private to wire_coll.c. */
	uint32_t step;
	bool posted, done;
	struct mq_transfer send, recv;
};
/* The `call`-th of a communicator as the task has it, for `rank`: all but operands. Messages have their sender's task
 * id as tag. */
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
/* Call until it returns true. Fields above the private ones are given, the rest is zero. */
MQ_API bool mq_wire_coll_run(struct mq_wire *wire, struct mq_wire_coll *coll);

#endif
