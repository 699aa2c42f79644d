/* astra_sim.c - a simulated schedule as ASTRA-sim's input: Chakra traces, communicators, system, network of the
 * analytical backend, memory, and a script that runs it (platforms/launch/astra_sim.*).
 *
 * The network has one dimension between machines and one inside a machine. ASTRA-sim sends a message through the first
 * dimension in which two devices differ, so devices are numbered with the first GPU of every machine before the second
 * of any: then all hops of a ring that leaves a machine do. A dimension's latency and bandwidth are fitted so that
 * ASTRA-sim's algorithm (a ring, or sequential sends for all-to-alls) takes as long as the plan's calls take here, with
 * NCCL's choice, protocols and channels: least squares over all calls, weighted by 1 / time, and scaled to equal total
 * time; the worst call is reported. Not expressed: shared links, concurrent calls of a device.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "base/template.h"
#include "base/text.h"
#include "export/export.h"
#include "schedule/timeline.h"

enum { BETWEEN, WITHIN, N_WAYS };

/* ASTRA-sim numbers calls from a million times their communicator on, in 31 bits. */
enum { MOST_COMMUNICATORS = 2147 };

/* A call in ASTRA-sim: number of sequential messages, and their bytes together. */
struct call {
	const struct mq_task *task;
	double seconds; /* its time here */
	struct {
		double n, bytes;
	} way[N_WAYS];
};

struct astra {
	struct mq_export_run *run;
	const struct mq_cluster *cluster;
	uint32_t n_nodes, each; /* machines, devices of each */
	uint32_t n_calls;
	struct call *call;
	double latency_s[N_WAYS], byte_s[N_WAYS];
};

static const struct mq_device *device_of(const struct astra *a, uint32_t device)
{
	return &a->cluster->device[a->run->schedule->device[device]];
}

static enum mq_status number_devices(struct astra *a, struct mq_arena *arena, struct mq_err *err)
{
	const struct mq_schedule *s = a->run->schedule;
	uint32_t *used = mq_arena_array(arena, a->cluster->n_devices, uint32_t), *order; /* by machine */

	a->run->number = mq_arena_array(arena, s->n_devices, uint32_t);
	order = mq_arena_array(arena, a->cluster->n_devices, uint32_t);
	for (uint32_t d = 0; d < s->n_devices; d++) {
		uint32_t node = device_of(a, d)->node;
		if (!used[node])
			order[node] = a->n_nodes++;
		a->run->number[d] = used[node]++;
	}
	a->each = used[device_of(a, 0)->node];
	for (uint32_t d = 0; d < s->n_devices; d++) {
		uint32_t node = device_of(a, d)->node;
		if (used[node] != a->each)
			return mq_bad(err,
				      "astra-sim: the plan uses %u devices of one machine and %u of another; "
				      "ASTRA-sim's networks have as many everywhere",
				      a->each, used[node]);
		a->run->number[d] = a->run->number[d] * a->n_nodes + order[node];
	}
	return MQ_OK;
}

static void set_steps(const struct astra *a, struct call *call)
{
	const struct mq_task *t = call->task;
	const struct mq_schedule *s = a->run->schedule;
	double size = (double)mq_export_comm_size(s, t), inside = 0;

	if (t->kind == MQ_TASK_SEND) {
		int way = device_of(a, t->device)->node == device_of(a, t->peer)->node ? WITHIN : BETWEEN;
		call->way[way].n = 1;
		call->way[way].bytes = size;
		return;
	}
	const struct mq_comm *c = &s->comm[t->comm];
	double n = c->n, message = t->coll == MQ_COLL_ALL_GATHER ? size : size / n;
	for (uint32_t i = 0; i < c->n; i++)
		inside += c->rank[i] != t->device && device_of(a, c->rank[i])->node == device_of(a, t->device)->node;
	if (t->coll == MQ_COLL_ALL_TO_ALL) {
		call->way[WITHIN].n = inside;
		call->way[BETWEEN].n = n - 1 - inside;
	} else {
		call->way[inside < n - 1 ? BETWEEN : WITHIN].n = (t->coll == MQ_COLL_ALL_REDUCE ? 2 : 1) * (n - 1);
	}
	for (int way = 0; way < N_WAYS; way++)
		call->way[way].bytes = call->way[way].n * message;
}

static enum mq_status collect_calls(struct astra *a, struct mq_arena *arena, struct mq_err *err)
{
	const struct mq_schedule *s = a->run->schedule;

	if (s->n_comms > MOST_COMMUNICATORS)
		return mq_bad(err, "astra-sim: the plan has %u communicators, ASTRA-sim numbers at most %d", s->n_comms,
			      MOST_COMMUNICATORS);
	a->call = mq_arena_array(arena, s->n_tasks, struct call);
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct mq_task *t = &s->task[i];
		struct call *call = &a->call[a->n_calls];
		if (t->kind == MQ_TASK_COLLECTIVE && t->coll == MQ_COLL_REDUCE)
			return mq_bad(err, "astra-sim: the plan calls reduce, which ASTRA-sim does not have");
		if (t->kind != MQ_TASK_SEND && (t->kind != MQ_TASK_COLLECTIVE || t->coll == MQ_COLL_BROADCAST))
			continue;
		*call = (struct call){ .task = t,
				       .seconds = a->run->timeline->finish_s[i] - a->run->timeline->start_s[i] };
		set_steps(a, call);
		a->n_calls += call->seconds > 0;
	}
	return MQ_OK;
}

/* All-to-alls over both dimensions count for the outer one. */
static bool goes(const struct call *c, int way)
{
	return c->way[way].n > 0 && (way == BETWEEN || c->way[BETWEEN].n <= 0);
}

/* Fits latency and seconds per byte of one dimension to its calls. */
static void fit(struct astra *a, int way)
{
	double nn = 0, nb = 0, bb = 0, nt = 0, bt = 0, seconds = 0;

	for (const struct call *c = a->call; c < a->call + a->n_calls; c++) {
		double n = c->way[way].n, bytes = c->way[way].bytes;
		if (!goes(c, way))
			continue;
		nn += n * n / c->seconds;
		nb += n * bytes / c->seconds;
		bb += bytes * bytes / c->seconds;
		nt += n;
		bt += bytes;
		seconds += c->seconds;
	}
	a->byte_s[way] = 1e-15; /* no call uses it alone: free */
	if (!(seconds > 0))
		return;
	double det = nn * bb - nb * nb, latency_s = (nt * bb - bt * nb) / det, byte_s = (bt * nn - nt * nb) / det;
	bool told = det > 1e-9 * nn * bb && latency_s >= 0 && byte_s > 0;
	if (!told) { /* equal calls: seconds per byte alone */
		latency_s = 0;
		byte_s = bt / bb;
	}
	double all = seconds / (nt * latency_s + bt * byte_s); /* scales to equal total time */
	a->latency_s[way] = latency_s * all;
	a->byte_s[way] = byte_s * all;
}

/* The largest error of ASTRA-sim's time of a call. */
static void tell_worst(const struct astra *a, int way, FILE *report)
{
	const struct call *worst = NULL;
	double off = 0;

	for (const struct call *c = a->call; c < a->call + a->n_calls; c++) {
		double said = 0;
		for (int w = 0; w < N_WAYS; w++)
			if (c->way[w].n > 0)
				said += c->way[w].n * a->latency_s[w] + c->way[w].bytes * a->byte_s[w];
		if (goes(c, way) && (!worst || fabs(said / c->seconds - 1) > fabs(off))) {
			worst = c;
			off = said / c->seconds - 1;
		}
	}
	if (worst)
		fprintf(report, "%s: %.4g GB/s, %.3g us a hop; off by %+.0f %% at most, %s of %.4g MB\n",
			way == BETWEEN ? "between machines" : "inside a machine", 1e-9 / a->byte_s[way],
			a->latency_s[way] * 1e6, off * 100,
			worst->task->kind == MQ_TASK_SEND ? "send" : mq_coll_name(worst->task->coll),
			worst->task->bytes / 1e6);
}

MQ_COMPARE(by_number, uint32_t, MQ_ORDER(*a, *b))

static const char *groups_text(const struct astra *a, struct mq_arena *arena)
{
	const struct mq_schedule *s = a->run->schedule;
	uint32_t *member = mq_arena_array(arena, s->n_devices, uint32_t);
	MQ_FREED struct mq_words memory = { NULL, 0 };
	FILE *f = mq_words_open(&memory);

	for (uint32_t c = 0; c < s->n_comms; c++) {
		for (uint32_t i = 0; i < s->comm[c].n; i++)
			member[i] = a->run->number[s->comm[c].rank[i]];
		qsort(member, s->comm[c].n, sizeof(*member), by_number);
		fprintf(f, "%s  \"%u\": [", c ? ",\n" : "", c + 1);
		for (uint32_t i = 0; i < s->comm[c].n; i++)
			fprintf(f, "%s%u", i ? ", " : "", member[i]);
		fputc(']', f);
	}
	fclose(f);
	return mq_arena_strdup(arena, memory.text);
}

static enum mq_status write_files(const struct astra *a, double simulated_s, struct mq_arena *arena, struct mq_err *err)
{
	static const char *const name[] = { "comm_group.json", "network.yml", "system.json", "memory.json", "run.sh" };
	static const char *const count[] = { "first", "second" }, *const bandwidth[] = { "first_bw", "second_bw" },
				 *const latency[] = { "first_ns", "second_ns" };
	struct mq_template v = { .arena = arena };
	uint32_t size[N_WAYS] = { a->n_nodes, a->each };
	int way[N_WAYS] = { BETWEEN, WITHIN };
	const char *text;

	/* One dimension is divided into two, unless one would be 1 wide: in a single one ASTRA-sim frees data that
	 * rings of some of the devices share. */
	if (a->n_nodes == 1 || a->each == 1) {
		uint32_t n = a->n_nodes * a->each;
		way[0] = way[1] = a->n_nodes > 1 ? BETWEEN : WITHIN;
		size[1] = n > 2 && n % 2 == 0 ? 2 : 1;
		size[0] = n / size[1];
	}
	mq_template_set(&v, "groups", "%s", groups_text(a, arena));
	for (int i = 0; i < N_WAYS; i++) {
		mq_template_set(&v, count[i], "%u", size[i]);
		mq_template_set(&v, bandwidth[i], "%.6g", 1 / a->byte_s[way[i]] / 0x1p30);
		mq_template_set(&v, latency[i], "%.6g", a->latency_s[way[i]] * 1e9);
	}
	mq_template_set(&v, "two", "%s", size[1] > 1 ? "yes" : "");
	mq_template_set(&v, "number", "%u", a->n_nodes * a->each);
	mq_template_set(&v, "alone", "%.6g", a->run->timeline->step_time_s);
	mq_template_set(&v, "simulated", "%.6g", simulated_s);
	for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++) {
		const char *form = mq_arena_printf(arena, "astra_sim.%s.in", name[i]);
		MQ_TRY(mq_template_text(&v, "platforms/launch", form, &text, err));
		MQ_TRY(mq_file_put(mq_arena_printf(arena, "%s/%s", a->run->dir, name[i]), text, err));
	}
	return MQ_OK;
}

enum mq_status mq_export_astra_sim(struct mq_export_run *run, const struct mq_cluster *cluster, double simulated_s,
				   FILE *report, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct astra a = { .run = run, .cluster = cluster };

	MQ_TRY(number_devices(&a, &scratch, err));
	MQ_TRY(collect_calls(&a, &scratch, err));
	for (int way = 0; way < N_WAYS; way++)
		fit(&a, way);
	for (int way = 0; way < N_WAYS; way++)
		tell_worst(&a, way, report);
	run->one_call_at_a_time = true;
	MQ_TRY(mq_export_chakra(run, err));
	return write_files(&a, simulated_s, &scratch, err);
}
