/* tasks.c - see tasks.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/tasks.h"

#include "lib/plans.h"

#include <math.h>

static const uint32_t whole[MQ_N_DIMS] = MQ_UNSPLIT;

static double samples_of(const struct mq_problem *problem, const struct mq_tasks *t)
{
	return problem->q->train->batch / t->space.micro_batches;
}

static void fill_times(const struct mq_problem *problem, struct mq_tasks *t, bool both)
{
	const struct mq_costs *costs = problem->costs;
	double samples = samples_of(problem, t), times = t->space.micro_batches;

	memset(t->time, 0, (size_t)t->n * t->n_devices * sizeof(*t->time));
	for (uint32_t op = 0; op < problem->q->model->n_ops; op++) {
		uint32_t task = t->space.group_of[op];

		for (uint32_t d = 0; d < t->n_devices; d++) {
			double *time = &t->time[(size_t)task * t->n_devices + d];

			*time += times * costs->op_time(costs->context, op, problem->q->model->op[op].phase,
							t->space.device[d], whole, samples);
			if (both)
				*time += times * costs->op_time(costs->context, op, MQ_BACKWARD, t->space.device[d],
								whole, samples);
		}
	}
}

static void fill_memory(const struct mq_problem *problem, struct mq_tasks *t)
{
	const struct mq_costs *costs = problem->costs;

	memset(t->memory, 0, t->n * sizeof(*t->memory));
	for (uint32_t op = 0; op < problem->q->model->n_ops; op++) {
		struct mq_op_memory memory;
		double known =
			problem->q->model->profile.memory_B ? problem->q->model->profile.memory_B[op] : (double)NAN;

		if (isnan(known)) {
			costs->op_memory(costs->context, op, whole, samples_of(problem, t), MQ_SYNC_ALLREDUCE, 1,
					 MQ_RECOMPUTE_NONE, &memory);
			known = mq_op_static_B(&memory) + memory.kept_B;
		}
		t->memory[t->space.group_of[op]] += known;
	}
}

static void fill_limits(const struct mq_problem *problem, struct mq_tasks *t)
{
	for (uint32_t d = 0; d < t->n_devices; d++)
		t->limit[d] = 0.95 * mq_room_B(problem, t->space.device[d]);
}

/* Doubles the micro-batches until they divide the batch; false: no such number. */
static bool more_micro_batches(const struct mq_problem *problem, struct mq_tasks *t)
{
	for (double m = 2.0 * t->space.micro_batches; m <= problem->q->train->batch && m <= 1e6; m *= 2)
		if (fmod(problem->q->train->batch, m) == 0) {
			t->space.micro_batches = (uint32_t)m;
			return true;
		}
	return false;
}

/* The fewest micro-batches with which all tasks fit 90 % of the total memory (100 % at the largest number of them), and
 * the largest task fits the largest device. */
static enum mq_status fit_memory(const struct mq_problem *problem, const char *engine, struct mq_tasks *t,
				 struct mq_err *err)
{
	double room = 0, largest_room = 0;

	fill_limits(problem, t);
	for (uint32_t d = 0; d < t->n_devices; d++) {
		room += t->limit[d];
		largest_room = fmax(largest_room, t->limit[d]);
	}
	for (;;) {
		double need = 0, largest = 0;

		fill_memory(problem, t);
		for (uint32_t v = 0; v < t->n; v++) {
			need += t->memory[v];
			largest = fmax(largest, t->memory[v]);
		}
		if (need <= 0.9 * room && largest <= largest_room)
			return MQ_OK;
		if (more_micro_batches(problem, t))
			continue;
		if (need <= room && largest <= largest_room)
			return MQ_OK;
		return mq_bad(
			err,
			"engine '%s' places whole ops: with %u micro-batches '%s' needs %.4g GB (largest group %.4g "
			"GB), %u devices of '%s' have %.4g GB (largest %.4g GB); take an engine that splits states, "
			"such as hybrid",
			engine, t->space.micro_batches, problem->q->model->name, need / 1e9, largest / 1e9,
			t->n_devices, problem->q->cluster->name, room / 1e9, largest_room / 1e9);
	}
}

bool mq_tasks_finer(const struct mq_problem *problem, struct mq_tasks *t)
{
	uint32_t before = t->space.micro_batches;
	double was = 0, now = 0;

	for (uint32_t v = 0; v < t->n; v++)
		was += t->memory[v];
	if (!more_micro_batches(problem, t))
		return false;
	fill_memory(problem, t);
	for (uint32_t v = 0; v < t->n; v++)
		now += t->memory[v];
	if (now >= was) {
		t->space.micro_batches = before;
		return false;
	}
	fill_times(problem, t, !problem->q->train->infer && !mq_model_explicit_backward(problem->q->model));
	return true;
}

static bool fill_links(const struct mq_problem *problem, struct mq_tasks *t)
{
	for (uint32_t a = 0; a < t->n_devices; a++)
		for (uint32_t b = 0; b < t->n_devices; b++) {
			size_t at = (size_t)a * t->n_devices + b;

			if (a != b && !mq_transfer_line(problem, t->space.device[a], t->space.device[b], 1e7,
							&t->latency[at], &t->slope[at]))
				return false;
		}
	return true;
}

/* One edge per producing op and receiving task. */
static void fill_edges(const struct mq_problem *problem, struct mq_tasks *t, bool both)
{
	const struct mq_model *m = problem->q->model;
	double width = mq_dtype_size(problem->q->train->dtype) * problem->q->train->batch;

	for (uint32_t e = 0; e < m->n_edges; e++) {
		uint32_t src = t->space.group_of[m->edge[e].src], dst = t->space.group_of[m->edge[e].dst];
		bool again = false;

		for (uint32_t f = m->out_first[m->edge[e].src]; f < e; f++)
			again = again || t->space.group_of[m->edge[f].dst] == dst;
		if (src == dst || again)
			continue;
		t->edge[t->n_edges++] =
			(struct mq_task_edge){ src, dst,
					       m->edge[e].elems * width * (both && !m->edge[e].no_grad ? 2 : 1) };
	}
}

/* Topological order, lowest ready task first. On a cycle (colours may make one) the lowest task goes first, so that
 * every task has a place; it then does not wait for its predecessors on the cycle. */
static void sort_tasks(struct mq_arena *arena, struct mq_tasks *t)
{
	uint32_t *waits = mq_arena_array(arena, t->n, uint32_t), n = 0;
	bool *done = mq_arena_array(arena, t->n, bool);

	for (uint32_t e = 0; e < t->n_edges; e++)
		waits[t->edge[e].dst]++;
	while (n < t->n) {
		uint32_t v = 0;

		while (v < t->n && (done[v] || waits[v]))
			v++;
		if (v == t->n)
			for (v = 0; done[v]; v++)
				continue;
		done[v] = true;
		t->order[n++] = v;
		for (uint32_t i = t->out_first[v]; i < t->out_first[v + 1]; i++)
			if (waits[t->edge[t->out[i]].dst])
				waits[t->edge[t->out[i]].dst]--;
	}
}

enum mq_status mq_tasks_make(const struct mq_problem *problem, const char *engine, struct mq_tasks *t,
			     struct mq_err *err)
{
	struct mq_arena *arena = problem->arena;
	bool both = !problem->q->train->infer && !mq_model_explicit_backward(problem->q->model);

	*t = (struct mq_tasks){ .messages = both ? 2 : 1 };
	placements_init(&t->space, problem);
	t->n = t->space.n_groups;
	t->n_devices = t->space.n_devices;
	if (!t->n_devices)
		return mq_bad(err, "engine '%s': no device of '%s' can run '%s'", engine, problem->q->cluster->name,
			      problem->q->model->name);
	if (t->n_devices > 256)
		return mq_bad(err,
			      "engine '%s' places single ops on at most 256 devices, '%s' has %u: use --max devices=N",
			      engine, problem->q->cluster->name, t->n_devices);
	t->time = mq_arena_array(arena, (size_t)t->n * t->n_devices, double);
	t->memory = mq_arena_array(arena, t->n, double);
	t->limit = mq_arena_array(arena, t->n_devices, double);
	t->edge = mq_arena_array(arena, problem->q->model->n_edges, struct mq_task_edge);
	t->order = mq_arena_array(arena, t->n, uint32_t);
	t->latency = mq_arena_array(arena, (size_t)t->n_devices * t->n_devices, double);
	t->slope = mq_arena_array(arena, (size_t)t->n_devices * t->n_devices, double);
	MQ_TRY(fit_memory(problem, engine, t, err));
	fill_times(problem, t, both);
	fill_edges(problem, t, both);
	mq_csr_make(arena, t->n, t->n_edges, &t->edge->dst, NULL, sizeof(*t->edge), &t->in_first, &t->in);
	mq_csr_make(arena, t->n, t->n_edges, &t->edge->src, NULL, sizeof(*t->edge), &t->out_first, &t->out);
	sort_tasks(arena, t);
	if (!fill_links(problem, t))
		return mq_bad(err, "engine '%s': not all devices of '%s' are joined by routes", engine,
			      problem->q->cluster->name);
	return MQ_OK;
}

double mq_tasks_mean_time(const struct mq_tasks *t, uint32_t task)
{
	double sum = 0;
	uint32_t n = 0;

	for (uint32_t d = 0; d < t->n_devices; d++) {
		double s = t->time[(size_t)task * t->n_devices + d];

		if (isfinite(s))
			sum += s, n++;
	}
	return n ? sum / n : (double)INFINITY;
}

double mq_tasks_mean_move(const struct mq_tasks *t, double bytes)
{
	double sum = 0;

	for (uint32_t a = 0; a < t->n_devices; a++)
		for (uint32_t b = 0; b < t->n_devices; b++)
			sum += mq_tasks_move(t, a, b, bytes);
	return t->n_devices > 1 ? sum / t->n_devices / (t->n_devices - 1.0) : 0;
}

/* ---- schedules ---------------------------------------------------------------------------------- */

void mq_schedule_begin(const struct mq_tasks *t, struct mq_arena *arena, struct mq_schedule_state *s)
{
	*s = (struct mq_schedule_state){
		.device_of = mq_arena_array(arena, t->n, uint32_t),
		.finish = mq_arena_array(arena, t->n, double),
		.free_at = mq_arena_array(arena, t->n_devices, double),
		.used = mq_arena_array(arena, t->n_devices, double),
		.channel = mq_arena_array(arena, t->n_devices, double),
		.arrived = mq_arena_array(arena, (size_t)t->n * t->n_devices, double),
	};
	for (uint32_t v = 0; v < t->n; v++)
		s->device_of[v] = MQ_NONE;
	for (size_t i = 0; i < (size_t)t->n * t->n_devices; i++)
		s->arrived[i] = INFINITY;
}

double mq_schedule_ready(const struct mq_tasks *t, const struct mq_schedule_state *s, uint32_t task, uint32_t device,
			 bool channels)
{
	double ready = 0, channel = s->channel[device];

	for (uint32_t i = t->in_first[task]; i < t->in_first[task + 1]; i++) {
		const struct mq_task_edge *e = &t->edge[t->in[i]];
		uint32_t from = s->device_of[e->src];
		double here;

		if (from == MQ_NONE) /* on a cycle of colours */
			continue;
		here = s->arrived[(size_t)e->src * t->n_devices + device];
		if (from == device) {
			here = s->finish[e->src];
		} else if (isinf(here)) {
			double begin = s->finish[e->src];

			if (channels)
				begin = fmax(begin, fmax(channel, s->channel[from]));
			here = begin + mq_tasks_move(t, from, device, e->bytes);
			if (channels)
				channel = here;
		}
		ready = fmax(ready, here);
	}
	return ready;
}

void mq_schedule_place(const struct mq_tasks *t, struct mq_schedule_state *s, uint32_t task, uint32_t device)
{
	double ready = mq_schedule_ready(t, s, task, device, true);

	for (uint32_t i = t->in_first[task]; i < t->in_first[task + 1]; i++) {
		const struct mq_task_edge *e = &t->edge[t->in[i]];
		uint32_t from = s->device_of[e->src];
		double *here = &s->arrived[(size_t)e->src * t->n_devices + device];

		if (from == MQ_NONE || from == device || isfinite(*here))
			continue;
		double begin = fmax(s->finish[e->src], fmax(s->channel[device], s->channel[from]));
		*here = begin + mq_tasks_move(t, from, device, e->bytes);
		s->channel[device] = s->channel[from] = *here;
	}
	s->device_of[task] = device;
	s->finish[task] = fmax(ready, s->free_at[device]) + t->time[(size_t)task * t->n_devices + device];
	s->free_at[device] = s->finish[task];
	s->used[device] += t->memory[task];
	s->makespan = fmax(s->makespan, s->finish[task]);
}

enum mq_status mq_list_propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			       struct mq_plan *plan, struct mq_err *err)
{
	struct mq_list_engine *e = state;
	struct mq_schedule_state s;
	enum mq_status status;

	if (e->done)
		return MQ_DONE;
	e->done = true;
	do
		status = e->schedule(e, problem, arena, &s, err);
	while (status == MQ_ENOPLAN && mq_tasks_finer(problem, &e->tasks));
	MQ_TRY(status);
	placements_plan(&e->tasks.space, s.device_of, problem, arena, plan);
	plan->engine_objective = s.makespan;
	plan->engine_unit = "s";
	return MQ_OK;
}

void mq_list_observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		     const struct mq_result *result)
{
	struct mq_list_engine *e = state;

	if (result->verdict == MQ_VERDICT_OOM && mq_tasks_finer(problem, &e->tasks))
		e->done = false;
}
