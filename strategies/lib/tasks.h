/* tasks.h - an operator graph as tasks for list scheduling: groups of ops that share a device, their times per device,
 * the tensors between them, memory. Used by heft, Baechi's three, metis and coarse.h.
 *
 * A task's time is that of its ops, forward and backward, in one step; its memory is static bytes plus the activations
 * of one micro-batch. The step has the fewest micro-batches with which all tasks together fit all devices together. A
 * tensor costs latency + bytes x slope between two devices in each direction. Transfers do not contend for links.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_TASKS_H
#define MQ_STRATEGIES_LIB_TASKS_H

#include "maquette/engine.h"
#include "lib/placements.h"

struct mq_task_edge {
	uint32_t src, dst;
	double bytes; /* both passes */
};

struct mq_tasks {
	struct placements space;
	uint32_t n, n_edges, n_devices;
	double *time;   /* [n * n_devices] s; +inf = cannot run there */
	double *memory; /* [n] bytes */
	double *limit;  /* [n_devices] bytes; +inf = unknown */
	struct mq_task_edge *edge;
	uint32_t *in_first, *in;   /* CSR of edges by target */
	uint32_t *out_first, *out; /* CSR of edges by source */
	uint32_t *order;           /* [n] topological, lowest first */
	double *latency, *slope;   /* [n_devices * n_devices]; 0 on the diagonal */
	double messages;           /* transfers per tensor: 1 in inference, 2 in training */
};

/* MQ_EINPUT: more than 256 devices, no route between devices, or the model does not fit as a placement of whole ops. */
enum mq_status mq_tasks_make(const struct mq_problem *problem, const char *engine, struct mq_tasks *tasks,
			     struct mq_err *err);

/* Doubles the micro-batches until they divide the batch again: less memory per task. False: no such number, or it saves
 * no memory. */
bool mq_tasks_finer(const struct mq_problem *problem, struct mq_tasks *tasks);

static inline double mq_tasks_move(const struct mq_tasks *t, uint32_t a, uint32_t b, double bytes)
{
	size_t at = (size_t)a * t->n_devices + b;

	return a == b ? 0 : t->messages * t->latency[at] + bytes * t->slope[at];
}

/* Means over the devices that can run the task, and over pairs of devices. */
double mq_tasks_mean_time(const struct mq_tasks *tasks, uint32_t task);
double mq_tasks_mean_move(const struct mq_tasks *tasks, double bytes);

/* A partial schedule: where tasks are, when they and the devices are done, the memory used. */
struct mq_schedule_state {
	uint32_t *device_of; /* [n]; MQ_NONE = not placed */
	double *finish;      /* [n] */
	double *free_at;     /* [n_devices] */
	double *used;        /* [n_devices] bytes */
	double *channel;     /* [n_devices] when the channel is free (Baechi) */
	double *arrived;     /* [n * n_devices] when a task's output is on a device; +inf = not sent */
	double makespan;
};
void mq_schedule_begin(const struct mq_tasks *tasks, struct mq_arena *arena, struct mq_schedule_state *state);
/* The earliest time at which all inputs of a task are on a device; `channels`: one transfer at a time per device. */
double mq_schedule_ready(const struct mq_tasks *tasks, const struct mq_schedule_state *state, uint32_t task,
			 uint32_t device, bool channels);
/* Appends a task to a device's schedule; its transfers occupy the channels. */
void mq_schedule_place(const struct mq_tasks *tasks, struct mq_schedule_state *state, uint32_t task, uint32_t device);

/* State of an engine that proposes the plan of one schedule; the first member of its own. `schedule` fills device_of
 * and makespan; on MQ_ENOPLAN (out of memory) it is called again with smaller micro-batches. */
struct mq_list_engine {
	struct mq_tasks tasks;
	enum mq_status (*schedule)(struct mq_list_engine *engine, const struct mq_problem *problem,
				   struct mq_arena *arena, struct mq_schedule_state *state, struct mq_err *err);
	bool done;
};
/* A `start` without options, and the members of struct mq_engine that such engines share. */
#define MQ_LIST_START(name, how)                                                                       \
	static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err) \
	{                                                                                              \
		struct mq_list_engine *e = state;                                                      \
                                                                                                       \
		e->schedule = how;                                                                     \
		return mq_tasks_make(problem, name, &e->tasks, err);                                   \
	}
#define MQ_LIST_ENGINE                                                                      \
	.state_size = sizeof(struct mq_list_engine), .lacks = MQ_LACKS_ALL, .start = start, \
	.propose = mq_list_propose, .observe = mq_list_observe

/* Hooks of these engines. A plan that the simulator finds too large is scheduled again with smaller micro-batches. */
enum mq_status mq_list_propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			       struct mq_plan *plan, struct mq_err *err);
void mq_list_observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		     const struct mq_result *result);

#endif
