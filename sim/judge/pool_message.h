/* pool_message.h - messages between the main process, the server and its workers (pool.c, pool_server.c).
 *
 * A message is a head and `size` bytes; both sides are the same program on the same machine, so structs travel as they
 * are. A FORK answer passes a file descriptor with its head (SCM_RIGHTS). SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_JUDGE_POOL_MESSAGE_H
#define MQ_JUDGE_POOL_MESSAGE_H

#include "maquette/arena.h"
#include "maquette/err.h"
#include "maquette/types.h"

enum { MQ_WIRE_FD = 3 }; /* the server finds its socket here */

enum mq_wire_kind {
	MQ_WIRE_READY,    /* server: the cluster (mq_platform_dump) */
	MQ_WIRE_FAILED,   /* either: a struct mq_err */
	MQ_WIRE_ROUTES,   /* main: source, destination; server, for this and further routes: source, destination,
			   * number of links, links; uint32_t each */
	MQ_WIRE_FORK,     /* main: empty; server: the worker's pid, and its socket as file descriptor */
	MQ_WIRE_REAP,     /* main: pid to kill; server: its wait status */
	MQ_WIRE_JUDGE,    /* main: a job and a plan (mq_job_pack); worker: struct mq_result */
	MQ_WIRE_LAST,     /* worker: struct mq_result, and it exits: replace it */
	MQ_WIRE_DETAIL,   /* like JUDGE; the worker also writes the job's output files */
	MQ_WIRE_TOGETHER, /* main: packed jobs; worker: packed scores (coscheduled.h) */
};

struct mq_wire_head {
	uint32_t kind, unused;
	uint64_t size;
};

/* False: the other side is gone (or, for receive, sent an impossible size). `passed`: a file descriptor, -1 = none;
 * NULL to receive: none is expected. */
bool mq_wire_send(int fd, enum mq_wire_kind kind, const void *bytes, uint64_t size, int passed);
bool mq_wire_receive(int fd, struct mq_arena *arena, struct mq_wire_head *head, void **bytes, int *passed);

#endif
