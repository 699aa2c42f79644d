/* tasks.h - an operator graph as tasks for list scheduling: groups of ops that share a device, their times per device,
 * the tensors between them, memory. What heft, Baechi's three and metis work on.
 *
 * A task's time is that of its ops, forward and backward, in one step; its memory what they hold and save for one
 * micro-batch. The step has as few micro-batches as let all tasks together fit into all devices together. A tensor
 * costs latency + bytes x slope between two devices, forward and backward. Links are taken two by two, without
 * contention. SPDX-License-Identifier: Apache-2.0 */
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
	double *limit;  /* [n_devices] bytes; +inf = not known */
	struct mq_task_edge *edge;
	uint32_t *in_first, *in;   /* CSR of edges by target */
	uint32_t *out_first, *out; /* CSR of edges by source */
	uint32_t *order;           /* [n] topological, lowest first */
	double *latency, *slope;   /* [n_devices * n_devices]; 0 on the diagonal */
	double messages;           /* of one tensor: 1 in inference, 2 in training */
};

/* MQ_EINPUT: more than 256 devices, devices without route, or a model that no placement of whole ops fits into the
 * devices. */
enum mq_status mq_tasks_make(const struct mq_problem *problem, const char *engine, struct mq_tasks *tasks,
			     struct mq_err *err);

/* The next larger number of micro-batches that divides the batch: less memory per task. False where that saves
 * nothing, or there is none. */
bool mq_tasks_finer(const struct mq_problem *problem, struct mq_tasks *tasks);

static inline double mq_tasks_move(const struct mq_tasks *t, uint32_t a, uint32_t b, double bytes)
{
	size_t at = (size_t)a * t->n_devices + b;

	return a == b ? 0 : t->messages * t->latency[at] + bytes * t->slope[at];
}

/* Mean over devices that can run the task, and over pairs of devices. */
double mq_tasks_mean_time(const struct mq_tasks *tasks, uint32_t task);
double mq_tasks_mean_move(const struct mq_tasks *tasks, double bytes);

/* The start of a schedule: when devices are free, where tasks are, what is left of the memory. */
struct mq_schedule_state {
	uint32_t *device_of; /* [n]; MQ_NONE = not placed */
	double *finish;      /* [n] */
	double *free_at;     /* [n_devices] */
	double *used;        /* [n_devices] bytes */
	double *channel;     /* [n_devices] when its channel is free (Baechi) */
	double *arrived;     /* [n * n_devices] when a task's output is on a device; +inf = not */
	double makespan;
};
void mq_schedule_begin(const struct mq_tasks *tasks, struct mq_arena *arena, struct mq_schedule_state *state);
/* When all inputs of a task could be on a device, with one channel per device if `channels`. */
double mq_schedule_ready(const struct mq_tasks *tasks, const struct mq_schedule_state *state, uint32_t task,
			 uint32_t device, bool channels);
/* Places a task at the end of what the device has; transfers occupy the channels if asked. */
void mq_schedule_place(const struct mq_tasks *tasks, struct mq_schedule_state *state, uint32_t task, uint32_t device,
		       bool channels);

/* An engine that proposes the plan of one schedule: first in its state. `schedule` fills device_of and makespan;
 * MQ_ENOPLAN where memory is out: then micro-batches are made smaller and it is asked again. */
struct mq_list_engine {
	struct mq_tasks tasks;
	enum mq_status (*schedule)(struct mq_list_engine *engine, const struct mq_problem *problem,
				   struct mq_arena *arena, struct mq_schedule_state *state, struct mq_err *err);
	bool done;
};
/* A `start` that has no options to look at, and what such engines have in common. */
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

/* The engine's hooks. What the simulator finds too large is scheduled again in smaller micro-batches. */
enum mq_status mq_list_propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			       struct mq_plan *plan, struct mq_err *err);
void mq_list_observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		     const struct mq_result *result);

#endif
