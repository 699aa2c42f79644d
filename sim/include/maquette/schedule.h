/* schedule.h - a lowered plan: for each device and stream an ordered list of tasks.
 *
 * The same schedule is simulated and replayed. One task per library call and rank: a collective is one task per member,
 * never its flows. Rules that mq_schedule_check proves:
 * - tasks of one (device, stream) run in the order of their ids, one at a time;
 * - `deps` name earlier-or-later tasks of the SAME device; devices meet only in send/recv pairs
 *   (a rendezvous: the i-th send from a to b on a channel meets the i-th recv of b from a on it) and in
 *   collectives (the i-th call on a communicator meets the i-th of every other member);
 * - tasks with the same non-zero `group` on one device start together (ncclGroup); those on one stream are consecutive
 *   in it and run concurrently;
 * - no cycle among order, deps and communications: free of deadlock.
 *
 * File format: JSON lines, see mq_schedule_save. Folding and rounds are never in a file: they are views of a schedule,
 * not part of it (folding/view.h). SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_SCHEDULE_H
#define MAQUETTE_SCHEDULE_H

#include "maquette/arena.h"
#include "maquette/model.h"
#include "maquette/types.h"

enum mq_task_kind {
	MQ_TASK_COMPUTE, /* kernels of work[task.work], one after another */
	MQ_TASK_SEND,
	MQ_TASK_RECV,
	MQ_TASK_COLLECTIVE,
	MQ_TASK_COPY, /* host <-> device, `bytes` over the device's own copy engine */
	MQ_N_TASK_KINDS
};
MQ_API const char *mq_task_kind_name(enum mq_task_kind kind);

enum mq_stream {
	MQ_STREAM_COMPUTE, /* kernels */
	MQ_STREAM_COMM,    /* collectives inside the layers (tensor, context, expert parallelism) */
	MQ_STREAM_GRAD,    /* gradient reduction, parameter gathering: overlaps with compute */
	MQ_STREAM_SEND,    /* to other stages and devices */
	MQ_STREAM_RECV,
	MQ_STREAM_COPY,
	MQ_STREAM_EXPERT,    /* all-to-all of experts that overlaps another micro-batch's compute */
	MQ_STREAM_SEND_BACK, /* V schedules: gradients, and the second chunk's messages, have their own */
	MQ_STREAM_RECV_BACK, /* streams, since messages in both directions cross each border and */
	MQ_STREAM_SEND_2,    /* none may queue behind another kind */
	MQ_STREAM_RECV_2,
	MQ_STREAM_SEND_BACK_2,
	MQ_STREAM_RECV_BACK_2,
	MQ_N_STREAMS
};
MQ_API const char *mq_stream_name(enum mq_stream stream);

struct mq_comm {
	uint32_t n;
	uint32_t *rank;      /* [n] indices into the schedule's devices, in ring order */
	const char *purpose; /* "tp", "dp", "ep", "cp", "pp", "embedding", ...: for reports */
};

struct mq_task {
	uint32_t device; /* index into mq_schedule.device */
	uint8_t kind, stream;
	uint8_t coll, algo, proto, dtype; /* collectives: enum mq_coll_kind, forced algorithm or AUTO */
	uint32_t work;                    /* COMPUTE: index into work[] */
	uint32_t comm;                    /* COLLECTIVE: index into comm[] */
	uint32_t peer;                    /* SEND, RECV: the other device (schedule index) */
	bool to_host;                     /* COPY: true = device to host */
	uint8_t channel;                  /* SEND, RECV: 0 forward, 1 backward; each has its own communicator */
	uint32_t root;                    /* BROADCAST, REDUCE: index inside the communicator */
	uint32_t group;                   /* tasks of a device that start together; 0 = none */
	uint32_t dep_first, n_deps;       /* into dep[] */
	uint32_t op;                      /* model op to display, or MQ_NONE */
	uint32_t micro_batch;             /* MQ_NONE outside the pipeline */
	uint16_t stage;
	uint8_t phase; /* enum mq_phase */
	double bytes;  /* SEND/RECV/COPY: message; COLLECTIVE: as nccl-tests counts (all_gather:
			* gathered total, reduce_scatter: input, alltoall: send total per rank) */
};

/* Bytes that a device holds for one stage by the memory model (lowering/footprint.h), so that a replay can hold as
 * much. Parameters, gradients, optimizer state and buffers stay for the whole step; `kept` from the forward pass of a
 * micro-batch to the end of its backward pass; `forward` and `backward` are the peaks within such a pass, the
 * micro-batch's kept activations included; `step` during the optimizer step. */
struct mq_held {
	uint32_t device; /* index into the schedule's devices */
	uint32_t stage;
#define MQ_HELD(X) \
	X(parameter_B) X(gradient_B) X(optimizer_B) X(buffer_B) X(kept_B) X(forward_B) X(backward_B) X(step_B)
#define MQ_MEMBER(field) double field;
	MQ_HELD(MQ_MEMBER)
#undef MQ_MEMBER
};

struct mq_schedule {
	struct mq_arena *arena; /* borrowed */
	const char *model;      /* name */
	uint64_t plan_hash, model_hash;
	uint32_t n_devices;
	uint32_t *device;                        /* [n_devices] cluster ranks */
	const char **device_name, **device_type; /* [n_devices] */
	double *clock; /* [n_devices] share of its full clock at which it computes (costing/clocks.c); NULL = 1 */
	uint32_t n_tasks, n_deps, n_works, n_comms, n_ops;
	struct mq_task *task; /* id = index */
	uint32_t *dep;
	struct mq_work *work;
	struct mq_comm *comm;
	const char **op_name; /* [n_ops] names of model ops, so that a file needs no model */
	uint32_t task_room, dep_room, work_room, comm_room;
	uint32_t n_held; /* 0 = not asked for */
	struct mq_held *held;
	bool partial; /* some devices of the plan have no tasks: communicators list only members with tasks, roots index
		       * all members. Only in simulating executors: never saved or replayed */
};

/* All members of a communicator, also in a partial schedule. */
struct mq_members {
	uint32_t n;
	const uint32_t *rank; /* [n] cluster ranks, in ring order */
};

/* MQ_EINPUT: names the violated rule and the task. *deadlock (may be NULL): the reason is a cycle of waits. O(tasks +
 * deps). */
MQ_API enum mq_status mq_schedule_check(const struct mq_schedule *schedule, bool *deadlock, struct mq_err *err);

/* JSON lines: a header {"maquette_schedule":1, model, plan_hash, model_hash, devices:[{rank,name,type}],
 * comms:[{id,purpose,ranks}], ops:[names], works:[{flop,bytes,model_flop,kernels:[{op,phase,kind,dtype,
 * m,n,k,count,flop,bytes,launches}]}], held:[{device,stage,parameter_B,...}] where it is known, tasks:N}, then one line
 * per task {id, device, stream, kind, deps, group, op, work, flop, dtype, bytes, peer, channel | to_host | comm, coll,
 * algo, proto, root, micro_batch, stage, phase}. Load checks the schedule and gives back exactly what was saved. */
MQ_API enum mq_status mq_schedule_save(const struct mq_schedule *schedule, const char *path, struct mq_err *err);
MQ_API enum mq_status mq_schedule_load(const char *path, struct mq_arena *arena, struct mq_schedule **schedule,
				       struct mq_err *err);

/* Pairs up communication: match[i] = the task at the other end (send <-> recv), MQ_NONE for others; for collectives
 * call[i] = ordinal of the call among its device's calls on the communicator. Arrays of n_tasks in the arena. */
MQ_API enum mq_status mq_schedule_match(const struct mq_schedule *schedule, struct mq_arena *arena, uint32_t **match,
					uint32_t **call, struct mq_err *err);

#endif
