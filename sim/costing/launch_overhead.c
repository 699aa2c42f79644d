/* launch_overhead.c - the time of hosts that launch a pass. See costing.h.
 *
 * A host launches the kernels, collectives and messages of its device in order without waiting for them, so it runs
 * ahead. A pass takes the longer of the host's time for all launches and the device's time for its kernels and
 * collectives, with their dependencies inside the pass; this is less than the sum of such maxima over the runs of
 * kernels between collectives. If the host takes longer, the compute tasks of the pass are stretched in proportion to
 * their times until the device takes as long. If the host synchronizes with its device inside a pass, its lead restarts
 * there: a pass is one or more stretches.
 *
 * Not modelled: hosts that are a whole pass ahead or behind; waits for other devices; waits where recomputation sends
 * tokens to experts again in the backward pass. SPDX-License-Identifier: Apache-2.0 */
#include "costing/costing.h"

#include <math.h>
#include <string.h>

#include "maquette/cost.h"
#include "costing/predict.h"

#define CLOSE 1e-12 /* relative tolerance between device time and host time */
enum { MOST_STEPS = 64 };

struct paced { /* a compute task and the time of its kernels */
	uint32_t task;
	struct mq_cost_parts parts;
};

/* A stretch of a pass on one device, seconds. */
struct pace {
	double kernels_s;  /* of the device */
	double launches_s; /* of the host, for kernels */
	double calls_s;    /* of the host, for all else */
	bool waits;        /* the host waits for each kernel */
	uint32_t n;
	struct paced *paced; /* [n] */
};

/* An end time, from the start of a stretch, and its derivative with respect to the factor `stretch`: the kernel time on
 * the path to it. */
struct moment {
	double s, kernels_s;
};

/* Each work and each collective is costed once. */
struct hosts {
	struct mq_low *low;
	struct mq_arena arena;       /* of the cached answers */
	struct mq_index *known;      /* work and device type -> mq_cost_parts */
	struct mq_index *alone;      /* collectives -> seconds */
	struct mq_index *called;     /* work and call_s -> works of the schedule */
	const struct mq_template *t; /* the current one */
	uint32_t *first, *own;       /* CSR: its tasks by device, in order */
	struct paced *paced;         /* [its tasks] of one stretch */
	struct moment *done;         /* [its tasks] of one stretch, 0 outside it */
	double *call_s;              /* [its tasks]; 0: the cost model's own rule for one work */
};

static const struct mq_device_calib *calib_of(const struct mq_low *low, uint32_t device)
{
	uint32_t calib = low->q.cluster->device[low->prog.schedule->device[device]].calib;

	return calib == MQ_NONE ? NULL : &low->q.calib->device[calib];
}

/* Number of kernels of a work without the wait at its end, if any. */
static uint32_t kernels_of(const struct mq_work *w)
{
	return w->n_kernels - (w->n_kernels && w->kernel[w->n_kernels - 1].kind == MQ_KERNEL_WAIT);
}

/* Time of a work without the waits that lowering put in. */
static struct mq_cost_parts parts_of(struct hosts *h, const struct mq_task *t)
{
	struct mq_work w = h->low->prog.schedule->work[t->work];
	uint32_t calib = h->low->q.cluster->device[h->low->prog.schedule->device[t->device]].calib;
	uint32_t key[] = { t->work, calib };
	bool found;
	struct mq_cost_parts *parts = mq_index_value(h->known, key, sizeof(key), sizeof(*parts), &found);

	w.n_kernels = kernels_of(&w);
	if (!found)
		*parts = mq_cost_parts(&h->low->q.calib->device[calib], &w);
	return *parts;
}

/* Time of a collective alone; 0 if it has no route, an error that the executor reports. */
static double predict(struct mq_low *low, const struct mq_task *t)
{
	struct mq_arena_mark mark = mq_arena_mark(&low->scratch);
	const struct mq_predictor p = { low->q.cluster, low->q.calib, &low->scratch };
	const struct mq_members members = low->prog.member ?
						  low->prog.member[t->comm] :
						  mq_predict_members(low->prog.schedule, t->comm, &low->scratch);
	struct mq_err err = MQ_ERR_INIT;
	struct mq_communication m;
	bool known = mq_predict_communication(&p, low->prog.schedule, t, &members, &m, &err) == MQ_OK;

	mq_arena_rewind(&low->scratch, mark);
	return known ? m.alone_s : 0;
}

static double alone_s(struct hosts *h, const struct mq_task *t)
{
	struct mq_communication_key key = mq_communication_key(t);
	bool found;

	key.root = MQ_NONE;
	double *seconds = mq_index_value(h->alone, &key, sizeof(key), sizeof(*seconds), &found);

	if (!found)
		*seconds = predict(h->low, t);
	return *seconds;
}

/* Host time to agree on a collective first (torch_distributed_debug_us). Left out for gradients: a few calls a step. */
static double check_s(const struct mq_low *low, const struct mq_task *t)
{
	if (t->kind != MQ_TASK_COLLECTIVE || t->stream == MQ_STREAM_GRAD)
		return 0;
	return low->software->torch_distributed_debug_us * 1e-6 *
	       (low->prog.member ? low->prog.member[t->comm].n : low->prog.schedule->comm[t->comm].n);
}

/* Without a fixed capacity per expert, hosts wait for the token counts of their experts before the all-to-all (dropless
 * MoE: Megatron core's token dispatchers, DeepEP). */
static bool waits_for_tokens(const struct mq_low *low, const struct mq_task *t)
{
	return t->kind == MQ_TASK_COLLECTIVE && t->coll == MQ_COLL_ALL_TO_ALL && t->phase == MQ_FORWARD &&
	       !strcmp(low->prog.schedule->comm[t->comm].purpose, "ep") &&
	       low->model->op[t->op].kind != MQ_OP_COMBINE && !low->train->experts.pad;
}

/* Host time of a communication call, in kernel launches; 0 if a graph holds the whole step. With GEMMs split for
 * overlap with tensor-parallel communication, the library that splits them also sends, without the framework's overhead
 * (Transformer Engine: CommOverlapP2PBase::split_overlap_ag, split_overlap_rs). */
static double launches_of_call(const struct mq_low *low, const struct mq_task *t)
{
	const struct mq_software *s = low->software;
	bool inside = low->plan->overlap_tp && t->kind == MQ_TASK_COLLECTIVE && t->stream == MQ_STREAM_COMM &&
		      !strcmp(low->prog.schedule->comm[t->comm].purpose, "tp");

	return !strcmp(s->cuda_graph_scope, "*") ? 0 : s->launches_per_collective * (inside ? 1 : s->host);
}

/* Adds task `id` of the device to the stretch. */
static void launch(struct hosts *h, struct pace *p, uint32_t id)
{
	const struct mq_ttask *t = &h->t->task[id];
	const struct mq_device_calib *calib = calib_of(h->low, t->task.device);

	if (t->task.kind == MQ_TASK_COPY)
		return;
	if (t->task.kind != MQ_TASK_COMPUTE) {
		p->calls_s += launches_of_call(h->low, &t->task) * calib->host_launch_s + check_s(h->low, &t->task);
		return;
	}
	struct mq_cost_parts parts = parts_of(h, &t->task);
	p->kernels_s += mq_cost_busy(&parts);
	p->launches_s += parts.host_s;
	p->waits = parts.waits;
	p->paced[p->n++] = (struct paced){ id, parts };
}

static struct moment later(struct moment a, struct moment b)
{
	return b.s > a.s || (b.s == a.s && b.kernels_s > a.kernels_s) ? b : a;
}

/* When the dependencies of a task are done, those of this device in this stretch. */
static struct moment ready(const struct hosts *h, const struct mq_task *t)
{
	struct moment m = { 0 };

	for (uint32_t i = 0; i < t->n_deps; i++) {
		uint32_t dep = h->t->dep[t->dep_first + i];

		if (dep < h->t->n_tasks && h->t->task[dep].task.device == t->device)
			m = later(m, h->done[dep]);
	}
	return m;
}

/* When a device has finished its tasks own[first, end), those of `p`: kernels `stretch` times as long, and collectives
 * inside the layers. */
static struct moment device_done(struct hosts *h, const struct pace *p, uint32_t first, uint32_t end, double stretch)
{
	struct moment stream[MQ_N_STREAMS] = { { 0 } }, last = { 0 };
	uint32_t next = 0;

	for (uint32_t i = first; i < end; i++) {
		uint32_t id = h->own[i];
		const struct mq_task *t = &h->t->task[id].task;
		struct moment m = later(stream[t->stream], ready(h, t));

		if (next < p->n && p->paced[next].task == id) {
			double busy = mq_cost_busy(&p->paced[next++].parts);

			m.s += stretch * busy;
			m.kernels_s += busy;
		} else if (t->kind == MQ_TASK_COLLECTIVE && t->stream != MQ_STREAM_GRAD) {
			m.s += alone_s(h, t);
		}
		h->done[id] = stream[t->stream] = m;
		last = later(last, m);
	}
	for (uint32_t i = first; i < end; i++)
		h->done[h->own[i]] = (struct moment){ 0 };
	return last;
}

/* The factor on kernel times at which the device takes as long as its host. The device's time is a maximum of linear
 * functions of the factor, hence convex: after the first step, Newton's method approaches the root from above and
 * reaches it after finitely many. */
static double stretch_to(struct hosts *h, const struct pace *p, uint32_t first, uint32_t end, double host_s)
{
	double stretch = 1;

	for (int step = 0; step < MOST_STEPS; step++) {
		struct moment done = device_done(h, p, first, end, stretch);
		double missing_s = host_s - done.s;

		if (fabs(missing_s) <= CLOSE * host_s || (step == 0 && missing_s < 0))
			break;
		stretch = fmax(1, stretch + missing_s / (done.kernels_s > 0 ? done.kernels_s : p->kernels_s));
	}
	return stretch;
}

/* The tasks of `p` are own[first, end). */
static void spread(struct hosts *h, const struct pace *p, uint32_t first, uint32_t end)
{
	double host_s = p->launches_s + p->calls_s, stretch = 1;

	/* kernels alone: the cost model's rule for one work applies */
	if (p->kernels_s <= 0 || (p->n == 1 && p->calls_s <= 0))
		return;
	for (uint32_t i = 0; i < p->n && p->waits; i++) { /* the host waits for each kernel: its calls are added */
		double own_s = mq_cost_busy(&p->paced[i].parts) + p->paced[i].parts.host_s;

		h->call_s[p->paced[i].task] = p->calls_s * own_s / (p->kernels_s + p->launches_s);
	}
	if (p->waits)
		return;
	if (host_s > p->kernels_s)
		stretch = stretch_to(h, p, first, end, host_s);
	for (uint32_t i = 0; i < p->n; i++) {
		double busy = mq_cost_busy(&p->paced[i].parts), launches_s = p->paced[i].parts.host_s;
		double takes_s = stretch * busy;

		if (takes_s != fmax(busy, launches_s))
			h->call_s[p->paced[i].task] = takes_s - launches_s;
	}
}

/* Sets call_s of the compute tasks of a device in the current template. */
static void pace_device(struct hosts *h, uint32_t device)
{
	struct mq_low *low = h->low;
	const struct mq_device_calib *calib = calib_of(low, device);
	uint32_t first = h->first[device], end = h->first[device + 1];
	struct pace p = { .paced = h->paced };

	if (!calib || calib->kind == MQ_CPU)
		return;
	for (uint32_t i = first; i < end; i++) {
		const struct mq_task *t = &h->t->task[h->own[i]].task;
		bool after =
			low->software->blocking_wait && t->kind == MQ_TASK_COLLECTIVE && t->stream != MQ_STREAM_GRAD;
		bool before = p.n && waits_for_tokens(low, t);

		if (!before)
			launch(h, &p, h->own[i]);
		if (before || after) {
			spread(h, &p, first, i + !before);
			p = (struct pace){ .paced = h->paced };
			first = i + !before;
		}
		if (before)
			launch(h, &p, h->own[i]);
	}
	spread(h, &p, first, end);
}

/* The work with a host call appended to its kernels. */
static uint32_t called(struct hosts *h, uint32_t bare, double call_s)
{
	struct mq_schedule *s = h->low->prog.schedule;
	struct {
		double call_s;
		uint32_t work, spare;
	} key = { call_s, bare, 0 };
	bool found;
	uint32_t id = mq_index_put(h->called, &key, sizeof(key), s->n_works, &found);

	if (found)
		return id;
	struct mq_work w = s->work[bare];
	uint32_t n = kernels_of(&w);
	struct mq_kernel *kernel = mq_arena_array(h->low->arena, w.n_kernels + 1, struct mq_kernel);

	memcpy(kernel, w.kernel, n * sizeof(*kernel));
	kernel[n] = (struct mq_kernel){ .op = MQ_NONE, .kind = MQ_KERNEL_CALL, .time_s = call_s };
	memcpy(kernel + n + 1, w.kernel + n, (w.n_kernels - n) * sizeof(*kernel));
	w.kernel = kernel;
	w.n_kernels++;
	MQ_PUSH(h->low->arena, s->work, s->n_works, s->work_room, w);
	return id;
}

static void pace_template(struct hosts *h, struct mq_template *t)
{
	struct mq_arena_mark mark = mq_arena_mark(&h->low->scratch);

	h->t = t;
	h->call_s = mq_arena_array(&h->low->scratch, t->n_tasks, double);
	h->paced = mq_arena_array(&h->low->scratch, t->n_tasks, struct paced);
	h->done = mq_arena_array(&h->low->scratch, t->n_tasks, struct moment);
	mq_csr_make(&h->low->scratch, h->low->prog.schedule->n_devices, t->n_tasks, &t->task->task.device, NULL,
		    sizeof(*t->task), &h->first, &h->own);
	for (uint32_t d = 0; d < h->low->prog.schedule->n_devices; d++)
		pace_device(h, d);
	for (uint32_t i = 0; i < t->n_tasks; i++)
		if (h->call_s[i] != 0)
			t->task[i].task.work = called(h, t->task[i].task.work, h->call_s[i]);
	mq_arena_rewind(&h->low->scratch, mark);
}

void mq_launch_overhead_apply(struct mq_low *low)
{
	struct hosts h = { .low = low, .arena = MQ_ARENA_INIT };

	h.known = mq_index_new(&h.arena);
	h.alone = mq_index_new(&h.arena);
	h.called = mq_index_new(&h.arena);
	for (uint32_t i = 0; i < low->num.n_stages * MQ_N_PASSES; i++)
		if (low->prog.pass[i].n_tasks)
			pace_template(&h, &low->prog.pass[i]);
	mq_arena_fini(&h.arena);
}
