/* lower.c - plan -> schedule: the steps, and instances of templates. See lower.h, program.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lowering/lower.h"

#include <stdio.h>
#include <string.h>

#include "maquette/rng.h"
#include "lowering/program.h"

static void verdict(struct mq_lowered *out, enum mq_verdict v, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void verdict(struct mq_lowered *out, enum mq_verdict v, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(out->message, sizeof(out->message), format, ap);
	va_end(ap);
	out->verdict = v;
}

/* More tasks than this exceed the memory of a machine: 64 bytes each, and as much again in simulation. */
enum { MAX_TASKS = 16 * 1000 * 1000 };

static double most_tasks(const struct mq_low *low)
{
	double asked = low->rq.max_tasks;

	return asked > 0 && asked < MAX_TASKS ? asked : MAX_TASKS;
}

/* A lower bound on the tasks, before listing them: one per pass of a micro-batch over a stage. */
static bool few_passes(struct mq_low *low)
{
	double passes = (double)low->plan->micro_batches * low->num.n_stages * (low->train->infer ? 1 : 2);

	if (passes > most_tasks(low))
		verdict(low->out, MQ_VERDICT_REFUSED,
			"%.0f tasks or more are too many to simulate one by one: %u "
			"micro-batches over %u stages; use fewer micro-batches",
			passes, low->plan->micro_batches, low->num.n_stages);
	return passes <= most_tasks(low);
}

/* ---- the schedule's head ------------------------------------------------------------------------------------ */

static void begin_schedule(struct mq_low *low)
{
	struct mq_schedule *s = mq_arena_alloc(low->arena, sizeof(*s));
	const struct mq_cluster *cluster = low->q.cluster;
	uint32_t n = low->out->n_devices;

	s->arena = low->arena;
	s->model = low->model->name;
	s->plan_hash = mq_plan_hash(low->plan);
	s->model_hash = mq_hash(MQ_HASH_INIT, s->model, strlen(s->model));
	s->device = mq_arena_array(low->arena, n, uint32_t);
	s->device_name = mq_arena_array(low->arena, n, const char *);
	s->device_type = mq_arena_array(low->arena, n, const char *);
	low->prog.index_of = mq_arena_none(&low->scratch, cluster->n_devices);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t d = low->out->device[i];

		if (low->prog.active && !low->prog.active[d])
			continue;
		low->prog.index_of[d] = s->n_devices;
		s->device[s->n_devices] = d;
		s->device_name[s->n_devices] = cluster->device[d].name;
		s->device_type[s->n_devices++] = cluster->device[d].type;
	}
	s->n_ops = low->model->n_ops;
	s->op_name = mq_arena_array(low->arena, s->n_ops, const char *);
	for (uint32_t op = 0; op < s->n_ops; op++)
		s->op_name[op] = low->model->op[op].name;
	s->partial = low->prog.active != NULL;
	low->prog.schedule = s;
	low->emit.open = mq_arena_array(&low->scratch, n, uint32_t);
	low->emit.last_compute = mq_arena_array(&low->scratch, n, uint32_t);
	low->emit.unit_end = mq_arena_array(&low->scratch, n, uint32_t);
	low->emit.pending = mq_arena_array(&low->scratch, n, struct mq_ids);
	low->emit.owed_s = mq_arena_array(&low->scratch, n, double);
	low->emit.gathered = mq_arena_array(&low->scratch, n, struct mq_ids);
	low->emit.copied = mq_arena_array(&low->scratch, n, uint32_t);
	low->emit.kv = mq_arena_array(&low->scratch, n, struct mq_ids);
	low->moves.n_messages = low->prog.member_room = 0;
	low->prog.member = NULL;
	low->prog.whole = NULL;
	low->prog.comm_index = mq_index_new(low->arena);
	low->prog.work_index = mq_index_new(low->arena);
	mq_low_take_seats(low);
}

/* ---- templates ------------------------------------------------------------------------------------------------ */

/* Seconds to make and simulate a task of a template, and a task of an instance, on one core of 2026, within a
 * factor of three. */
static const double TEMPLATE_TASK_S = 4e-6, TASK_S = 1e-6;

static double template_tasks(const struct mq_low *low)
{
	double n = 0;

	for (uint32_t i = 0; i < low->num.n_stages * MQ_N_PASSES; i++)
		n += low->prog.pass[i].n_tasks;
	return n;
}

static bool too_dear(const struct mq_low *low, double tasks, double task_s)
{
	double limit_s = low->rq.simulation_s;

	if (!(limit_s > 0) || tasks * task_s <= limit_s)
		return false;
	verdict(low->out, MQ_VERDICT_REFUSED,
		"its simulation takes more than %.2g s (%.2g tasks%s on %u ranks), --simulation-time allows %.3g; raise it",
		tasks * task_s, tasks, task_s > TASK_S ? " of a micro-batch" : "", low->prog.schedule->n_devices,
		limit_s);
	return true;
}

bool mq_low_templates(struct mq_low *low, const bool *active)
{
	bool zb = mq_pipeline_splits(low->plan->pipeline), infer = low->train->infer;

	low->prog.active = active;
	begin_schedule(low);
	if (too_dear(low, low->prog.tasks_each * low->prog.schedule->n_devices, TEMPLATE_TASK_S))
		return false;
	mq_offload_plan(low);
	low->prog.pass = mq_arena_array(&low->scratch, low->num.n_stages * MQ_N_PASSES, struct mq_template);
	low->prog.firsts = mq_arena_array(&low->scratch, low->num.n_stages, uint32_t);
	for (uint32_t s = 0; s < low->num.n_stages; s++)
		if (low->num.like[0][s] == s)
			mq_pass_forward(low, s, MQ_PASS_F);
	/* backward passes have as many; the last micro-batch has another template */
	if (too_dear(low, (infer ? 1 : 3) * template_tasks(low), TEMPLATE_TASK_S))
		return false;
	if (infer)
		return true;
	for (uint32_t s = 0; s < low->num.n_stages; s++)
		if (low->num.like[0][s] == s && mq_sync_gathers_first(low, s))
			mq_pass_forward(low, s, MQ_PASS_F_FIRST);
	for (uint32_t s = low->num.n_stages; s-- > 0;) {
		low->prog.firsts[s] = mq_low_keeps_one(low);
		for (uint32_t i = low->num.stage_first[s]; i < low->num.stage_first[s + 1]; i++)
			if (mq_low_deferred(low, low->num.stage_op[i]))
				low->prog.firsts[s] = mq_low_deferred(low, low->num.stage_op[i]);
		if (low->num.like[1][s] != s)
			continue;
		mq_pass_backward(low, s, MQ_PASS_B);
		if (low->prog.firsts[s])
			mq_pass_backward(low, s, MQ_PASS_B_FIRST);
		mq_pass_backward(low, s, MQ_PASS_B_LAST);
		if (zb) {
			mq_pass_weights(low, s, MQ_PASS_W);
			mq_pass_weights(low, s, MQ_PASS_W_LAST);
		}
	}
	for (uint32_t s = 0; s < low->num.n_stages; s++) {
		if (low->num.like[1][s] != s)
			continue;
		mq_pass_reduce(low, s);
		mq_pass_post(low, s);
	}
	low->prog.tasks_each = template_tasks(low) / low->prog.schedule->n_devices;
	return true;
}

/* ---- instances ------------------------------------------------------------------------------------------------- */

struct instancer {
	struct mq_low *low;
	uint32_t *newest; /* [devices * streams] newest task of each stream, or MQ_NONE */
};

/* The ids of an instance's tasks: from `base` on, or those in `at`. */
struct seat {
	uint32_t base;
	const uint32_t *at;
};

static void copy_deps(struct instancer *in, const struct mq_template *t, const struct mq_task *task,
		      const struct seat *seat)
{
	struct mq_schedule *s = in->low->prog.schedule;

	for (uint32_t k = 0; k < task->n_deps; k++) {
		uint32_t d = t->dep[task->dep_first + k];

		if (d >= MQ_DEP_STREAM(0))
			d = in->newest[task->device * MQ_N_STREAMS + (d & 0xff)];
		else
			d = seat->at ? seat->at[d] : seat->base + d;
		if (d != MQ_NONE)
			MQ_PUSH(in->low->arena, s->dep, s->n_deps, s->dep_room, d);
	}
}

/* A pass of one micro-batch. */
struct pass_instance {
	const struct mq_template *t;
	uint32_t stage, micro_batch;
	struct seat seat;
};

static void add_task(struct instancer *in, const struct pass_instance *p, uint32_t i)
{
	struct mq_low *low = in->low;
	struct mq_schedule *s = low->prog.schedule;
	struct mq_task task = p->t->task[i].task;
	uint32_t first = s->n_deps;

	copy_deps(in, p->t, &task, &p->seat);
	task.dep_first = first;
	task.n_deps = s->n_deps - first;
	task.stage = (uint16_t)p->stage;
	task.micro_batch = p->micro_batch;
	MQ_PUSH(low->arena, s->task, s->n_tasks, s->task_room, task);
}

/* Markers refer to the streams before the instance. */
static void note_newest(struct instancer *in, uint32_t base)
{
	const struct mq_schedule *s = in->low->prog.schedule;

	for (uint32_t i = base; i < s->n_tasks; i++)
		in->newest[s->task[i].device * MQ_N_STREAMS + s->task[i].stream] = i;
}

static void instantiate(struct instancer *in, const struct mq_template *t, uint32_t stage, uint32_t micro_batch)
{
	uint32_t base = in->low->prog.schedule->n_tasks;
	struct pass_instance p = { t, stage, micro_batch, { base, NULL } };

	for (uint32_t i = 0; i < t->n_tasks; i++)
		add_task(in, &p, i);
	note_newest(in, base);
}

/* Instantiates two alternating passes, see pair.c. */
static void instantiate_pair(struct instancer *in, struct pass_instance pass[2])
{
	struct mq_low *low = in->low;
	uint32_t base = low->prog.schedule->n_tasks, n = pass[0].t->n_tasks;
	uint32_t all = n + pass[1].t->n_tasks;
	struct mq_arena_mark mark = mq_arena_mark(&low->scratch);
	uint32_t *at = mq_arena_array(&low->scratch, all, uint32_t);
	const uint32_t *order = mq_pair_order(pass[0].t, pass[1].t, low->prog.schedule->n_devices, &low->scratch);

	for (uint32_t k = 0; k < all; k++)
		at[order[k]] = base + k;
	pass[0].seat.at = at;
	pass[1].seat.at = at + n;
	for (uint32_t k = 0; k < all; k++)
		add_task(in, &pass[order[k] >= n], order[k] >= n ? order[k] - n : order[k]);
	mq_arena_rewind(&low->scratch, mark);
	note_newest(in, base);
}

static void run_rank(struct instancer *in, uint32_t rank, const struct mq_order *order)
{
	struct mq_low *low = in->low;

	for (uint32_t i = 0; i < order->n; i++) {
		uint32_t both = order->slot[i].turns ? 2 : 1;
		struct pass_instance pass[2];

		for (uint32_t k = 0; k < both; k++)
			pass[k] = (struct pass_instance){
				.t = order->t[i + k],
				.stage = mq_low_stage(low, rank, order->slot[i + k].chunk),
				.micro_batch = order->slot[i + k].micro_batch,
			};
		if (both == 2)
			instantiate_pair(in, pass);
		else
			instantiate(in, pass[0].t, pass[0].stage, pass[0].micro_batch);
		i += both - 1;
	}
	for (uint32_t pass = MQ_PASS_REDUCE; pass <= MQ_PASS_POST && !low->train->infer; pass++)
		for (uint32_t k = 0; k < low->plan->virtual; k++) {
			uint32_t s = mq_low_stage(low, rank, k);

			instantiate(in, &low->prog.pass[mq_low_template(low, s, pass)], s, MQ_NONE);
		}
}

struct mq_schedule *mq_low_schedule(struct mq_low *low, const char *otherwise, uint32_t filling,
				    const struct mq_steady **steady)
{
	struct instancer in = { low, NULL };
	struct mq_schedule *s = low->prog.schedule;
	struct mq_order *order = mq_arena_array(&low->scratch, low->num.n_ranks, struct mq_order);
	double tasks = 0;

	*steady = NULL;
	in.newest = mq_arena_none(&low->scratch, s->n_devices * MQ_N_STREAMS);
	for (uint32_t r = 0; r < low->num.n_ranks; r++)
		if (!mq_low_order(low, r, low->plan->micro_batches, &order[r], low->out->message)) {
			low->out->verdict = MQ_VERDICT_REFUSED;
			return NULL;
		}
	if (filling)
		*steady = mq_low_steady(low, filling, order);
	for (uint32_t r = 0; r < low->num.n_ranks; r++) /* the limits apply to the tasks that will run */
		tasks += order[r].tasks;
	if (tasks > most_tasks(low)) {
		verdict(low->out, MQ_VERDICT_REFUSED, "%.0f tasks are too many to simulate one by one%s", tasks,
			otherwise);
		return NULL;
	}
	if (too_dear(low, tasks, TASK_S))
		return NULL;
	s->n_tasks = s->n_deps = s->task_room = 0;
	for (uint32_t r = 0; r < low->num.n_ranks; r++)
		s->task_room += (uint32_t)order[r].tasks;
	s->task = mq_arena_array(low->arena, s->task_room, struct mq_task);
	for (uint32_t r = 0; r < low->num.n_ranks; r++)
		run_rank(&in, r, &order[r]);
	return s;
}

/* ---- the steps ------------------------------------------------------------------------------------------------- */

/* False: the verdict ends the lowering. */
static bool begin(struct mq_low *low)
{
	struct mq_lowered *out = low->out;
	struct mq_err reason = MQ_ERR_INIT;

	if (mq_plan_check(low->rq.plan, low->rq.q->model, low->q.cluster, low->train, &reason) != MQ_OK ||
	    !mq_software_runs(low->software, low->rq.q, low->rq.plan, reason.text, sizeof(reason.text))) {
		verdict(low->out, MQ_VERDICT_INVALID, "%.250s", reason.text);
		return false;
	}
	mq_software_apply_defaults(low->software, low->model, low->rq.plan, low->arena, low->resolved);
	if (low->resolved->overlap_param_gather && low->resolved->broadcast_params) {
		verdict(low->out, MQ_VERDICT_INVALID,
			"overlap_param_gather gathers what broadcast_params broadcasts: ask "
			"for one of them");
		return false;
	}
	if (low->train->infer) /* no backward pass to alternate with */
		low->resolved->overlap_experts = false;
	mq_low_number(low);
	if (out->verdict != MQ_VERDICT_OK || !few_passes(low))
		return false;
	out->model_flop = low->train->batch * mq_sample_flop(low->rq.q->model, low->train, low->software);
	if (!low->rq.any_memory)
		mq_low_memory(low);
	if ((out->verdict != MQ_VERDICT_OK && !low->rq.past_memory) || low->rq.memory_only)
		return false;
	mq_transfers_plan(low);
	mq_buckets_plan(low);
	mq_low_alike_stages(low);
	return true;
}

struct mq_low *mq_low_begin(const struct mq_lower_request *request, struct mq_arena *arena, struct mq_lowered *lowered)
{
	struct mq_low *low = mq_arena_alloc(arena, sizeof(*low));

	*low = (struct mq_low){ .rq = *request,
				.q = mq_question_for(request->q, request->plan, arena),
				.resolved = mq_arena_array(arena, 1, struct mq_plan),
				.arena = arena,
				.scratch = MQ_ARENA_INIT,
				.out = lowered };
	low->plan = low->resolved;
	low->model = low->q.model;
	low->software = low->q.software;
	low->train = low->q.train;
	memset(lowered, 0, sizeof(*lowered));
	lowered->verdict = MQ_VERDICT_OK;
	if (begin(low))
		return low;
	mq_low_end(low);
	return NULL;
}

void mq_low_end(struct mq_low *low)
{
	mq_arena_fini(&low->scratch);
}
