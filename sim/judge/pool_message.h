/* pool_message.h - messages between the main process, the server and its workers; nobody else includes it.
 *
 * A message is a head and `size` bytes; both sides are the same program on the same machine, so structs travel as they
 * are. File descriptors travel beside the head of a FORK answer. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_JUDGE_POOL_MESSAGE_H
#define MQ_JUDGE_POOL_MESSAGE_H

#include "maquette/arena.h"
#include "maquette/err.h"
#include "maquette/types.h"

enum { MQ_WIRE_FD = 3 }; /* the server finds its socket here */

enum mq_wire_kind {
	MQ_WIRE_READY,    /* server: the cluster, dumped */
	MQ_WIRE_FAILED,   /* either: a struct mq_err */
	MQ_WIRE_ROUTES,   /* main: source and destination; server: source, destination, number of links and links of
			   this and of further routes, uint32_t each */
	MQ_WIRE_FORK,     /* main: nothing; server: pid, with the worker's socket */
	MQ_WIRE_REAP,     /* main: pid, server: its wait status after it was killed */
	MQ_WIRE_JUDGE,    /* main: a job and a plan (mq_job_pack); worker: struct mq_result */
	MQ_WIRE_LAST,     /* worker: the same as its last answer, replace me */
	MQ_WIRE_DETAIL,   /* the same, with the job's outputs */
	MQ_WIRE_TOGETHER, /* main: packed jobs; worker: packed scores (coscheduled.h) */
};

struct mq_wire_head {
	uint32_t kind, unused;
	uint64_t size;
};

/* False: the other side is gone (or, for receive, sent something impossible). `passed`: a file descriptor, -1 for none;
 * who receives and expects none gives NULL. */
bool mq_wire_send(int fd, enum mq_wire_kind kind, const void *bytes, uint64_t size, int passed);
bool mq_wire_receive(int fd, struct mq_arena *arena, struct mq_wire_head *head, void **bytes, int *passed);

#endif
