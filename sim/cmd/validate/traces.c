/* traces.c - see traces.h. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/validate/traces.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/csv.h"

/* ---- loading --------------------------------------------------------------------------------- */

/* Prints the table of calls, and writes it. */
static enum mq_status tell_calls(const struct mq_traces *t, const char *path, struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_csv_create(&w, path, "collective,ranks,bytes,count,median_s,without_waiting_s,ci_low_s,ci_high_s",
			     err));
	if (t->n_rows)
		printf("%-15s %6s %14s %7s %13s %16s\n", "collective", "ranks", "bytes", "count", "median",
		       "without waiting");
	else
		puts("no collectives");
	for (uint32_t i = 0; i < t->n_rows; i++) {
		const struct mq_trace_row *r = &t->row[i];
		const char *name = mq_trace_call_name(r->kind);
		char ranks[16] = "?", bytes[32] = "";

		if (r->ranks)
			snprintf(ranks, sizeof(ranks), "%u", r->ranks);
		if (!isnan(r->bytes))
			snprintf(bytes, sizeof(bytes), "%.0f", r->bytes);
		printf("%-15s %6s %14s %7u %10.2f us %13.2f us\n", name, ranks, *bytes ? bytes : "not told", r->count,
		       1e6 * r->median_s, 1e6 * r->least_median_s);
		mq_csv_row(&w, "%s,%u,%s,%u,%g,%g,%g,%g", name, r->ranks, bytes, r->count, r->median_s,
			   r->least_median_s, r->low_s, r->high_s);
	}
	return mq_csv_close(&w, err);
}

/* Two files of one rank would count everything twice. */
static enum mq_status check_ranks(const struct mq_traces *t, struct mq_err *err)
{
	for (uint32_t i = 0; i < t->n; i++)
		for (uint32_t j = i + 1; j < t->n; j++) {
			const struct mq_trace *a = &t->trace[i], *b = &t->trace[j];

			if (a->rank != MQ_NONE && a->rank == b->rank)
				return mq_bad(err, "%s and %s are both of rank %u: give each rank's trace once",
					      a->path, b->path, a->rank);
			if (a->rank == MQ_NONE && a->n_read == b->n_read && a->n == b->n &&
			    a->event[0].start_us == b->event[0].start_us)
				return mq_bad(err, "%s and %s are the same trace", a->path, b->path);
		}
	return MQ_OK;
}

static void say_trace(const struct mq_trace *t)
{
	uint32_t n[MQ_EVENT_LAYER + 1] = { 0 };

	for (uint32_t i = 0; i < t->n; i++)
		n[t->event[i].kind]++;
	printf("%s: ", t->path);
	if (t->rank != MQ_NONE && t->world)
		printf("rank %u of %u, ", t->rank, t->world);
	else if (t->rank != MQ_NONE)
		printf("rank %u, ", t->rank);
	printf("%s, %u kernels, %u steps marked\n", t->gpu ? t->gpu : "an unnamed GPU", n[MQ_EVENT_KERNEL],
	       n[MQ_EVENT_STEP]);
}

enum mq_status mq_traces_load(const char *const *path, uint32_t n, const char *csv, struct mq_arena *arena,
			      struct mq_traces *t, struct mq_err *err)
{
	uint32_t total = 0;

	*t = (struct mq_traces){ .n = n };
	t->trace = mq_arena_array(arena, n, struct mq_trace);
	t->call = mq_arena_array(arena, n, struct mq_trace_call *);
	t->n_calls = mq_arena_array(arena, n, uint32_t);
	for (uint32_t i = 0; i < n; i++) {
		MQ_TRY(mq_trace_load(path[i], arena, &t->trace[i], err));
		say_trace(&t->trace[i]);
		MQ_TRY(mq_trace_calls(&t->trace[i], arena, &t->call[i], &t->n_calls[i], err));
		total += t->n_calls[i];
	}
	MQ_TRY(check_ranks(t, err));
	if (n > 1) {
		uint32_t aligned = mq_trace_align(t->call, t->n_calls, n);

		printf("%u of %u calls met their like on all %u ranks: the shortest of them is the call, "
		       "what others take longer is waiting\n",
		       aligned, total, n);
	} else if (total) {
		puts("one rank: the shortest of equal calls stands for a call without waiting; the traces of the "
		     "other ranks would tell");
	}
	t->n_rows = mq_trace_rows(t->call, t->n_calls, n, arena, &t->row);
	return tell_calls(t, csv, err);
}

/* ---- observations ---------------------------------------------------------------------------- */

struct builder {
	struct mq_arena *arena;
	struct mq_schedule *schedule;
	struct mq_observations *to;
};

/* Of one communicator, which all ranks are in. */
static struct mq_schedule *new_schedule(const char *model, uint32_t ranks, struct mq_arena *arena)
{
	struct mq_schedule *s = mq_arena_array(arena, 1, struct mq_schedule);

	s->model = model;
	s->n_devices = ranks;
	s->n_comms = 1;
	s->comm = mq_arena_array(arena, 1, struct mq_comm);
	s->comm[0] = (struct mq_comm){ .n = ranks, .purpose = "probe" };
	return s;
}

static void add(struct builder *b, const struct mq_task *task, double median, double low, double high, uint32_t count)
{
	struct mq_schedule *s = b->schedule;
	struct mq_observed o = { .schedule = s, .task = s->n_tasks, .time = { median, low, high, count } };

	MQ_PUSH(b->arena, s->task, s->n_tasks, s->task_room, *task);
	MQ_PUSH(b->arena, b->to->call, b->to->n, b->to->room, o);
}

static void add_works(struct builder *b, const struct mq_trace_work *work, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct mq_schedule *s = b->schedule;
		struct mq_work w = { .n_kernels = 1,
				     .kernel = mq_arena_array(b->arena, 1, struct mq_kernel),
				     .flop = work[i].kernel.flop,
				     .bytes = work[i].kernel.bytes };
		struct mq_task t = { .kind = MQ_TASK_COMPUTE, .work = s->n_works };

		w.kernel[0] = work[i].kernel;
		MQ_PUSH(b->arena, s->work, s->n_works, s->work_room, w);
		add(b, &t, work[i].median_s, work[i].low_s, work[i].high_s, work[i].count);
	}
}

/* The group size with the most time: a link class is fitted to one size. */
static uint32_t main_ranks(const struct mq_traces *t)
{
	double best_s = 0;
	uint32_t best = 0;

	for (uint32_t i = 0; i < t->n_rows; i++) {
		double sum_s = 0;

		for (uint32_t j = 0; j < t->n_rows; j++)
			if (t->row[j].ranks == t->row[i].ranks)
				sum_s += t->row[j].count * t->row[j].median_s;
		if (t->row[i].ranks > 1 && sum_s > best_s) {
			best_s = sum_s;
			best = t->row[i].ranks;
		}
	}
	return best;
}

static void add_calls(struct builder *b, const struct mq_traces *t, uint32_t ranks)
{
	uint32_t other = 0, unknown = 0;

	for (uint32_t i = 0; i < t->n_rows; i++) {
		const struct mq_trace_row *r = &t->row[i];
		struct mq_task task = { .kind = r->kind == MQ_TRACE_SENDRECV ? MQ_TASK_SEND : MQ_TASK_COLLECTIVE,
					.coll = (uint8_t)r->kind,
					.bytes = r->bytes };

		if (isnan(r->bytes) || r->kind == MQ_TRACE_OTHER_CALL)
			unknown += r->count;
		else if (r->ranks != ranks)
			other += r->count;
		else
			add(b, &task, r->least_median_s, r->low_s, r->high_s, r->count);
	}
	if (other)
		printf("left out: %u calls of groups that are not of %u ranks\n", other, ranks);
	if (unknown)
		printf("left out: %u calls whose size or kind is not told (PyTorch 2.1 and on tell it; before, "
		       "record_shapes=True)\n",
		       unknown);
}

enum mq_status mq_traces_observe(const struct mq_traces *t, struct mq_arena *arena, struct mq_observations *to,
				 struct mq_err *err)
{
	uint32_t ranks = main_ranks(t), n_works;
	struct builder b = { arena, new_schedule("trace", ranks ? ranks : 1, arena), to };
	const struct mq_trace **trace = mq_arena_array(arena, t->n, const struct mq_trace *);
	struct mq_trace_work *work;
	uint64_t without;

	for (uint32_t i = 0; i < t->n; i++)
		trace[i] = &t->trace[i];
	MQ_TRY(mq_trace_works(trace, t->n, arena, &work, &n_works, &without, err));
	add_works(&b, work, n_works);
	add_calls(&b, t, ranks);
	printf("%u shapes of products and sweeps; %.0f kernels belong to no operator whose shapes were recorded%s\n",
	       n_works, (double)without, n_works ? "" : " (record_shapes=True has them recorded)");
	if (!b.schedule->n_tasks)
		return mq_bad(err,
			      "%s: no collective's size and no operator's shape is told: there is "
			      "nothing to fit; profile with record_shapes=True",
			      t->trace[0].path);
	return MQ_OK;
}

/* ---- logs of nccl-tests ------------------------------------------------------------------------ */

bool mq_logs_probe(const char *path)
{
	struct stat st;

	return !stat(path, &st) && !S_ISDIR(st.st_mode);
}

/* A link class is measured with one group of ranks: ranks of one node measure the links inside it, ranks of several
 * nodes the links between nodes. */
static enum mq_status group_of(struct mq_logs *logs, const char *path, const struct mq_nccl_row *row,
			       struct mq_log_group **group, struct mq_err *err)
{
	struct mq_log_group *g = &logs->group[row->nodes > 1 ? MQ_LOG_BETWEEN : MQ_LOG_WITHIN];

	if (g->observed.n && (g->ranks != row->ranks || g->nodes != row->nodes))
		return mq_bad(err,
			      "%s:%u: %u ranks on %u nodes, those before are %u on %u: each "
			      "group is a link class of its own: fit them apart, with --link-class",
			      path, row->line, row->ranks, row->nodes, g->ranks, g->nodes);
	g->ranks = row->ranks;
	g->nodes = row->nodes;
	*group = g;
	return MQ_OK;
}

enum mq_status mq_logs_add(struct mq_logs *logs, const char *path, struct mq_arena *arena, struct mq_err *err)
{
	struct mq_schedule *schedule[MQ_N_LOG_GROUPS] = { NULL };
	struct mq_log_group *group = NULL;
	struct mq_nccl_row *row;
	uint32_t n;

	MQ_TRY(mq_nccl_log_load(path, arena, &row, &n, err));
	for (uint32_t i = 0; i < n; i++) {
		const struct mq_task task = { .bytes = row[i].bytes,
					      .coll = (uint8_t)row[i].kind,
					      .kind = row[i].sendrecv ? MQ_TASK_SEND : MQ_TASK_COLLECTIVE };

		MQ_TRY(group_of(logs, path, &row[i], &group, err));
		struct mq_schedule **s = &schedule[group - logs->group];
		if (!*s)
			*s = new_schedule("nccl-tests", group->ranks, arena);
		add(&(struct builder){ arena, *s, &group->observed }, &task, row[i].seconds, row[i].seconds,
		    row[i].seconds, 1);
	}
	return MQ_OK;
}

enum mq_status mq_logs_name(struct mq_logs *logs, const char *names, struct mq_arena *arena, struct mq_err *err)
{
	struct mq_log_group *within = &logs->group[MQ_LOG_WITHIN], *between = &logs->group[MQ_LOG_BETWEEN];
	const char *comma = names ? strchr(names, ',') : NULL;
	bool in_node = within->observed.n, across = between->observed.n;

	if (across && !names)
		return mq_bad(
			err, "these logs are of %u nodes: name the class of the links between them with --link-class%s",
			between->nodes, in_node ? " WITHIN,BETWEEN (inside a node, between nodes)" : "");
	if (in_node && across && (!comma || strchr(comma + 1, ',') || comma == names || !comma[1]))
		return mq_bad(
			err, "--link-class %s: these logs are of one node and of %u: name both classes, WITHIN,BETWEEN",
			names, between->nodes);
	if (comma && in_node != across)
		return mq_bad(err, "--link-class %s: what is measured is of one class: give one name", names);
	within->link_class = comma ? mq_arena_printf(arena, "%.*s", (int)(comma - names), names) : names;
	between->link_class = comma ? comma + 1 : names;
	logs->first = in_node ? within : across ? between : NULL;
	logs->second = in_node && across ? between : NULL;
	return MQ_OK;
}
