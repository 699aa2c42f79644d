/*
 * schedules.h - small schedules made by hand, for tests: every compute task lasts a given time.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_SCHEDULES_H
#define MQ_TESTS_SCHEDULES_H

#include "maquette/calib.h"
#include "maquette/cluster.h"
#include "maquette/schedule.h"

/* A schedule over the devices of a cluster (schedule index = cluster rank), no tasks yet. */
static inline struct mq_schedule *hand_new(struct mq_arena *arena, const struct mq_cluster *cluster)
{
	struct mq_schedule *s = mq_arena_array(arena, 1, struct mq_schedule);

	s->arena = arena;
	s->model = "by hand";
	s->n_devices = cluster->n_devices;
	s->device = mq_arena_array(arena, s->n_devices, uint32_t);
	s->device_name = mq_arena_array(arena, s->n_devices, const char *);
	s->device_type = mq_arena_array(arena, s->n_devices, const char *);
	for (uint32_t d = 0; d < s->n_devices; d++) {
		s->device[d] = d;
		s->device_name[d] = cluster->device[d].name;
		s->device_type[d] = cluster->device[d].type;
	}
	return s;
}

static inline uint32_t hand_work(struct mq_schedule *s, double seconds)
{
	struct mq_work work = { .n_kernels = 1 };

	work.kernel = mq_arena_array(s->arena, 1, struct mq_kernel);
	work.kernel[0] = (struct mq_kernel){ .op = MQ_NONE, .kind = MQ_KERNEL_TIMED, .count = 1, .time_s = seconds };
	MQ_PUSH(s->arena, s->work, s->n_works, s->work_room, work);
	return s->n_works - 1;
}

static inline uint32_t hand_task(struct mq_schedule *s, uint32_t device, enum mq_task_kind kind, enum mq_stream stream)
{
	struct mq_task task = { .device = device,
				.kind = (uint8_t)kind,
				.stream = (uint8_t)stream,
				.op = MQ_NONE,
				.micro_batch = MQ_NONE };

	task.dep_first = s->n_deps;
	MQ_PUSH(s->arena, s->task, s->n_tasks, s->task_room, task);
	return s->n_tasks - 1;
}

/* Only for the newest task. */
static inline void hand_dep(struct mq_schedule *s, uint32_t dep)
{
	MQ_PUSH(s->arena, s->dep, s->n_deps, s->dep_room, dep);
	s->task[s->n_tasks - 1].n_deps++;
}

static inline uint32_t hand_compute(struct mq_schedule *s, uint32_t device, uint32_t work)
{
	uint32_t t = hand_task(s, device, MQ_TASK_COMPUTE, MQ_STREAM_COMPUTE);

	s->task[t].work = work;
	return t;
}

static inline uint32_t hand_send(struct mq_schedule *s, uint32_t from, uint32_t to, double bytes)
{
	uint32_t t = hand_task(s, from, MQ_TASK_SEND, MQ_STREAM_SEND);

	s->task[t].peer = to;
	s->task[t].bytes = bytes;
	return t;
}

static inline uint32_t hand_recv(struct mq_schedule *s, uint32_t at, uint32_t from, double bytes)
{
	uint32_t t = hand_task(s, at, MQ_TASK_RECV, MQ_STREAM_RECV);

	s->task[t].peer = from;
	s->task[t].bytes = bytes;
	return t;
}

/* A communicator over devices first, first + step, ... (n of them). */
static inline uint32_t hand_comm(struct mq_schedule *s, uint32_t first, uint32_t step, uint32_t n)
{
	struct mq_comm comm = { .n = n, .purpose = "dp" };

	comm.rank = mq_arena_array(s->arena, n, uint32_t);
	for (uint32_t i = 0; i < n; i++)
		comm.rank[i] = first + i * step;
	MQ_PUSH(s->arena, s->comm, s->n_comms, s->comm_room, comm);
	return s->n_comms - 1;
}

static inline uint32_t hand_collective(struct mq_schedule *s, uint32_t device, uint32_t comm, enum mq_coll_kind kind,
				       double bytes)
{
	uint32_t t = hand_task(s, device, MQ_TASK_COLLECTIVE, MQ_STREAM_GRAD);

	s->task[t].comm = comm;
	s->task[t].coll = (uint8_t)kind;
	s->task[t].bytes = bytes;
	return t;
}

/* One device's part of a pipeline of `p` stages and `m` micro-batches: 1F1B warms up with
 * p - 1 - stage forwards and then alternates; GPipe runs all forwards first. Device offset `base`. */
struct hand_pipe {
	uint32_t p, m, base;
	bool gpipe;
	uint32_t forward, backward; /* works */
	double bytes;               /* between stages, each way */
};

static inline void hand_forward(struct mq_schedule *s, const struct hand_pipe *h, uint32_t stage)
{
	uint32_t d = h->base + stage, recv = MQ_NONE;

	if (stage)
		recv = hand_recv(s, d, d - 1, h->bytes);
	uint32_t c = hand_compute(s, d, h->forward);
	if (recv != MQ_NONE)
		hand_dep(s, recv);
	if (stage + 1 < h->p) {
		hand_send(s, d, d + 1, h->bytes);
		hand_dep(s, c);
	}
}

static inline void hand_backward(struct mq_schedule *s, const struct hand_pipe *h, uint32_t stage)
{
	uint32_t d = h->base + stage, recv = MQ_NONE;

	if (stage + 1 < h->p) {
		recv = hand_recv(s, d, d + 1, h->bytes);
		s->task[recv].channel = 1;
	}
	uint32_t c = hand_compute(s, d, h->backward);
	s->task[c].phase = MQ_BACKWARD;
	if (recv != MQ_NONE)
		hand_dep(s, recv);
	if (stage) {
		uint32_t send = hand_send(s, d, d - 1, h->bytes);
		s->task[send].channel = 1;
		hand_dep(s, c);
	}
}

static inline void hand_pipeline(struct mq_schedule *s, const struct hand_pipe *h)
{
	for (uint32_t stage = 0; stage < h->p; stage++) {
		uint32_t ahead = h->gpipe ? h->m : h->p - 1 - stage, f = 0, b = 0;
		if (ahead > h->m)
			ahead = h->m;
		for (; f < ahead; f++)
			hand_forward(s, h, stage);
		for (; b < h->m; b++) {
			if (f < h->m) {
				hand_forward(s, h, stage);
				f++;
			}
			hand_backward(s, h, stage);
		}
	}
}

#endif
