/* coscheduled.c - simulates the steps of several jobs as one schedule. coscheduled.h says which steps are timed;
 * coscheduled_message.c sends the jobs to a worker. SPDX-License-Identifier: Apache-2.0 */
#include "judge/coscheduled.h"

#include <math.h>

enum { MOST_RUNS = 8 };

struct coscheduled_run {
	const struct mq_exec_request *request;
	mq_execute_fn *execute;
	const struct mq_coscheduled_step *step;
	uint32_t n_jobs, steps;
	uint32_t *repeat;        /* [n_jobs] steps simulated */
	struct mq_arena *arena;  /* of the result */
	struct mq_arena scratch; /* one simulation */
	struct mq_coscheduled *out;
	struct mq_err *err;
};

/* ---- one schedule ------------------------------------------------------------------------------------- */

struct merging {
	struct mq_schedule *s;
	struct mq_arena *arena;
	uint32_t *round_of, *before, n_rounds;
	uint32_t group; /* highest mq_task.group used so far; a step's groups are numbered after it */
};

/* Adds a job's devices, communicators and work once: its repeated steps share them. */
static void add_parts(struct merging *m, const struct mq_schedule *job)
{
	struct mq_schedule *s = m->s;

	for (uint32_t d = 0; d < job->n_devices; d++) {
		s->device[s->n_devices + d] = job->device[d];
		s->device_name[s->n_devices + d] = job->device_name[d];
		s->device_type[s->n_devices + d] = job->device_type[d];
		s->clock[s->n_devices + d] = job->clock ? job->clock[d] : 1;
	}
	for (uint32_t c = 0; c < job->n_comms; c++) {
		struct mq_comm comm = job->comm[c];

		comm.rank = mq_arena_array(m->arena, comm.n, uint32_t);
		for (uint32_t i = 0; i < comm.n; i++)
			comm.rank[i] = job->comm[c].rank[i] + s->n_devices;
		MQ_PUSH(m->arena, s->comm, s->n_comms, s->comm_room, comm);
	}
	for (uint32_t w = 0; w < job->n_works; w++)
		MQ_PUSH(m->arena, s->work, s->n_works, s->work_room, job->work[w]);
}

static uint32_t add_round(struct merging *m, uint32_t before)
{
	m->before[m->n_rounds] = before;
	return m->n_rounds++;
}

/* Delays a job's first step: each of its devices computes for start_s before. */
static uint32_t add_delay(struct merging *m, const struct mq_schedule *job, uint32_t first_device, double start_s)
{
	struct mq_schedule *s = m->s;
	struct mq_work work = { .n_kernels = 1 };
	uint32_t round = add_round(m, MQ_NONE);

	work.kernel = mq_arena_array(m->arena, 1, struct mq_kernel);
	work.kernel[0] = (struct mq_kernel){ .op = MQ_NONE, .kind = MQ_KERNEL_TIMED, .count = 1, .time_s = start_s };
	MQ_PUSH(m->arena, s->work, s->n_works, s->work_room, work);
	for (uint32_t d = 0; d < job->n_devices; d++) {
		m->round_of[s->n_tasks] = round;
		s->task[s->n_tasks++] = (struct mq_task){
			.device = first_device + d,
			.kind = MQ_TASK_COMPUTE,
			.stream = MQ_STREAM_COMPUTE,
			.work = s->n_works - 1,
			.op = MQ_NONE,
			.micro_batch = MQ_NONE,
			.dep_first = s->n_deps,
		};
	}
	return round;
}

struct offsets {
	uint32_t device, comm, work;
};

static void add_step(struct merging *m, const struct mq_schedule *job, const struct offsets *at, uint32_t round)
{
	struct mq_schedule *s = m->s;
	uint32_t first_task = s->n_tasks, first_dep = s->n_deps, group = m->group;

	for (uint32_t i = 0; i < job->n_tasks; i++) {
		struct mq_task t = job->task[i];

		t.device += at->device;
		t.dep_first += first_dep;
		t.op = MQ_NONE; /* names are per model */
		if (t.kind == MQ_TASK_COMPUTE)
			t.work += at->work;
		if (t.kind == MQ_TASK_COLLECTIVE)
			t.comm += at->comm;
		if (t.kind == MQ_TASK_SEND || t.kind == MQ_TASK_RECV)
			t.peer += at->device;
		if (t.group) {
			t.group += group;
			if (t.group > m->group)
				m->group = t.group;
		}
		m->round_of[s->n_tasks] = round;
		s->task[s->n_tasks++] = t;
	}
	for (uint32_t d = 0; d < job->n_deps; d++)
		s->dep[s->n_deps++] = job->dep[d] + first_task;
}

static uint64_t count_tasks(const struct coscheduled_run *g)
{
	uint64_t n = 0;

	for (uint32_t j = 0; j < g->n_jobs; j++)
		n += (uint64_t)g->repeat[j] * g->step[j].schedule->n_tasks + g->step[j].schedule->n_devices;
	return n;
}

/* Merges all jobs' repeated steps into one schedule, a round per step; first_round[j]: round of job j's first step. */
static struct mq_view merge(const struct coscheduled_run *g, struct mq_arena *arena, uint32_t *first_round)
{
	struct merging m = { .arena = arena, .s = mq_arena_array(arena, 1, struct mq_schedule) };
	struct mq_schedule *s = m.s;
	size_t devices = 0, tasks = 0, deps = 0, rounds = 0;

	for (uint32_t j = 0; j < g->n_jobs; j++) {
		const struct mq_schedule *job = g->step[j].schedule;

		devices += job->n_devices;
		tasks += (size_t)g->repeat[j] * job->n_tasks + job->n_devices;
		deps += (size_t)g->repeat[j] * job->n_deps;
		rounds += g->repeat[j] + 1;
	}
	s->arena = arena;
	s->model = "several jobs";
	s->device = mq_arena_array(arena, devices, uint32_t);
	s->device_name = mq_arena_array(arena, devices, const char *);
	s->device_type = mq_arena_array(arena, devices, const char *);
	s->clock = mq_arena_array(arena, devices, double);
	s->task = mq_arena_array(arena, tasks, struct mq_task);
	s->dep = mq_arena_array(arena, deps, uint32_t);
	m.round_of = mq_arena_array(arena, tasks, uint32_t);
	m.before = mq_arena_array(arena, rounds, uint32_t);
	for (uint32_t j = 0; j < g->n_jobs; j++) {
		const struct mq_schedule *job = g->step[j].schedule;
		const struct offsets at = { s->n_devices, s->n_comms, s->n_works };
		uint32_t round = MQ_NONE;

		add_parts(&m, job);
		s->n_devices += job->n_devices;
		if (g->step[j].start_s > 0)
			round = add_delay(&m, job, at.device, g->step[j].start_s);
		for (uint32_t k = 0; k < g->repeat[j]; k++) {
			round = add_round(&m, round);
			if (!k)
				first_round[j] = round;
			add_step(&m, job, &at, round);
		}
	}
	struct mq_rounds *r = mq_arena_array(arena, 1, struct mq_rounds);
	*r = (struct mq_rounds){ m.n_rounds, m.round_of, m.before };
	return (struct mq_view){ .schedule = s, .rounds = r };
}

/* ---- runs --------------------------------------------------------------------------------------------- */

/* Simulates the merged schedule: the end of each round, and the bytes on each link (link_B may be NULL). */
static enum mq_status simulate(struct coscheduled_run *g, uint32_t *first_round, double **end_s, double *link_B)
{
	struct mq_exec_request request = *g->request;
	struct mq_timeline timeline;
	enum mq_verdict verdict;

	request.view = merge(g, &g->scratch, first_round);
	MQ_TRY(g->execute(&request, &g->scratch, &timeline, &verdict, g->err));
	if (verdict != MQ_VERDICT_OK)
		return mq_bad(g->err, "jobs together: %s%s%s", mq_verdict_name(verdict),
			      verdict == MQ_VERDICT_TIMEOUT ? "; raise timeout: it counts all steps" : "",
			      verdict == MQ_VERDICT_INVALID ? g->err->text : "");
	const struct mq_rounds *r = request.view.rounds;
	*end_s = mq_arena_array(&g->scratch, r->n, double);
	for (uint32_t t = 0; t < request.view.schedule->n_tasks; t++)
		(*end_s)[r->of[t]] = fmax((*end_s)[r->of[t]], timeline.finish_s[t]);
	for (uint32_t l = 0; link_B && l < timeline.n_links; l++)
		link_B[l] = timeline.link_busy_B[l];
	return MQ_OK;
}

static enum mq_status run_alone(struct coscheduled_run *g, double *link_B)
{
	uint32_t n_links = g->request->cluster->n_links;

	for (uint32_t j = 0; j < g->n_jobs; j++) {
		struct mq_coscheduled_step late = g->step[j];
		struct coscheduled_run one = *g;
		uint32_t first, once = 1;
		double *end_s;

		late.start_s = 0;
		one.step = &late;
		one.n_jobs = 1;
		one.repeat = &once;
		one.scratch = (struct mq_arena)MQ_ARENA_INIT;
		enum mq_status status = simulate(&one, &first, &end_s, link_B + (size_t)j * n_links);
		if (status == MQ_OK)
			g->out->job[j].alone_s = end_s[first];
		mq_arena_fini(&one.scratch);
		MQ_TRY(status);
	}
	return MQ_OK;
}

/* Times the steps of a job that lie within the window, and returns their number. */
static uint32_t count_steps(const double *end_s, uint32_t n, double window_s, struct mq_coscheduled_score *score)
{
	uint32_t last = 0;

	score->shortest_s = INFINITY;
	score->longest_s = 0;
	for (uint32_t k = 1; k < n && end_s[k] <= window_s; k++) {
		double took_s = end_s[k] - end_s[k - 1];

		score->shortest_s = fmin(score->shortest_s, took_s);
		score->longest_s = fmax(score->longest_s, took_s);
		last = k;
	}
	score->steps = last;
	score->together_s = last ? (end_s[last] - end_s[0]) / last : (double)NAN;
	return last;
}

/* Simulates all jobs. Has a job too few steps in the window (*enough = false), the one that ended first gets more. */
static enum mq_status run_together(struct coscheduled_run *g, bool *enough)
{
	uint32_t *first = mq_arena_array(&g->scratch, g->n_jobs, uint32_t), earliest = 0;
	double *end_s, window_s = INFINITY, factor = 1;

	if (count_tasks(g) > MQ_TOGETHER_TASKS)
		return mq_bad(g->err,
			      "jobs together: %.3g tasks, at most %.3g fit; ask for fewer steps, smaller "
			      "jobs, or jobs whose steps are of more similar length",
			      (double)count_tasks(g), (double)MQ_TOGETHER_TASKS);
	MQ_TRY(simulate(g, first, &end_s, NULL));
	for (uint32_t j = 0; j < g->n_jobs; j++) {
		double done_s = end_s[first[j] + g->repeat[j] - 1];

		if (done_s < window_s) {
			window_s = done_s;
			earliest = j;
		}
	}
	for (uint32_t j = 0; j < g->n_jobs; j++) {
		uint32_t n = count_steps(end_s + first[j], g->repeat[j], window_s, &g->out->job[j]);

		if (n < g->steps) /* one more for rounding, one for the first */
			factor = fmax(factor, (g->steps + 2.0) / (n + 1.0));
	}
	*enough = !(factor > 1);
	if (!*enough)
		g->repeat[earliest] = (uint32_t)ceil(g->repeat[earliest] * factor);
	return MQ_OK;
}

static enum mq_status repeat_until_enough(struct coscheduled_run *g)
{
	double longest_s = 0;
	bool enough = false;

	for (uint32_t j = 0; j < g->n_jobs; j++)
		longest_s = fmax(longest_s, g->out->job[j].alone_s + g->step[j].start_s);
	for (uint32_t j = 0; j < g->n_jobs; j++) {
		double n = ceil((g->steps + 1) * longest_s / g->out->job[j].alone_s) + 1;

		if (!(n < MQ_TOGETHER_TASKS))
			return mq_bad(g->err,
				      "jobs together: a step of job %u takes %.3g s, one of another "
				      "%.3g s: too different to wait for",
				      j, g->out->job[j].alone_s, longest_s);
		g->repeat[j] = (uint32_t)n;
	}
	for (int i = 0; i < MOST_RUNS && !enough; i++) {
		MQ_TRY(run_together(g, &enough));
		mq_arena_rewind(&g->scratch, (struct mq_arena_mark){ NULL, 0 });
	}
	return enough ? MQ_OK :
			mq_bad(g->err,
			       "jobs together: %u steps of each while all run were not reached in %d "
			       "runs; ask for fewer steps",
			       g->steps, MOST_RUNS);
}

/* ---- links -------------------------------------------------------------------------------------------- */

/* Lists the links that several jobs use, the busiest first. */
static void list_shared(struct coscheduled_run *g, const double *link_B)
{
	const struct mq_cluster *c = g->request->cluster;
	double *less_B = mq_arena_array(g->arena, c->n_links, double);
	struct mq_coscheduled *out = g->out;

	for (uint32_t l = 0; l < c->n_links; l++) {
		uint32_t users = 0;
		double sum_B = 0;

		for (uint32_t j = 0; j < g->n_jobs; j++) {
			users += link_B[(size_t)j * c->n_links + l] > 0;
			sum_B += link_B[(size_t)j * c->n_links + l];
		}
		if (users > 1 && !c->link[l].fatpipe) {
			less_B[l] = -sum_B;
			out->n_links++;
		}
	}
	out->link = mq_arena_order(g->arena, less_B, c->n_links);
	out->link_B = mq_arena_array(g->arena, (size_t)out->n_links * g->n_jobs, double);
	for (uint32_t i = 0; i < out->n_links; i++)
		for (uint32_t j = 0; j < g->n_jobs; j++)
			out->link_B[(size_t)i * g->n_jobs + j] = link_B[(size_t)j * c->n_links + out->link[i]];
}

static enum mq_status check_devices(const struct coscheduled_run *g)
{
	uint32_t n = g->request->cluster->n_devices;
	uint32_t *owner = mq_arena_none(g->arena, n);

	for (uint32_t j = 0; j < g->n_jobs; j++)
		for (uint32_t d = 0; d < g->step[j].schedule->n_devices; d++) {
			uint32_t rank = g->step[j].schedule->device[d];

			mq_assert(rank < n && !g->step[j].schedule->partial);
			if (owner[rank] != MQ_NONE && owner[rank] != j)
				return mq_bad(g->err,
					      "jobs together: device %u ('%s') is in two jobs; give each "
					      "devices of its own",
					      rank, g->request->cluster->device[rank].name);
			owner[rank] = j;
		}
	return MQ_OK;
}

enum mq_status mq_coscheduled_run(const struct mq_exec_request *request, mq_execute_fn *execute,
				  const struct mq_coscheduled_step *step, uint32_t n, uint32_t steps,
				  struct mq_arena *arena, struct mq_coscheduled *out, struct mq_err *err)
{
	struct coscheduled_run g = { .request = request,
				     .execute = execute,
				     .step = step,
				     .n_jobs = n,
				     .steps = steps,
				     .arena = arena,
				     .out = out,
				     .err = err };
	uint32_t n_links = request->cluster->n_links;
	double *link_B = mq_arena_array(arena, (size_t)n * n_links, double);

	*out = (struct mq_coscheduled){ .n_jobs = n };
	out->job = mq_arena_array(arena, n, struct mq_coscheduled_score);
	g.repeat = mq_arena_array(arena, n, uint32_t);
	MQ_TRY(check_devices(&g));
	enum mq_status status = run_alone(&g, link_B);
	if (status == MQ_OK)
		status = repeat_until_enough(&g);
	if (status == MQ_OK)
		list_shared(&g, link_B);
	mq_arena_fini(&g.scratch);
	return status;
}
