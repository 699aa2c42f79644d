/* chakra.c - a simulated schedule as Chakra execution traces, one file per device.
 *
 * The schema is MLCommons Chakra's et_def.proto, release 1.0.0: a stream of length-delimited messages, GlobalMetadata
 * first, then one Node per task. Dependencies on tasks of the same device become data dependencies, the order of a
 * stream control dependencies; sends, receives and collectives connect devices. A node's duration is its time alone,
 * rounded to microseconds so that sums along a stream are right; work of the copy engine is a node of the host. Bytes
 * are ASTRA-sim's: of an all-gather those of one member. The encoder is our own, because the messages need five kinds
 * of field. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "export/export.h"
#include "schedule/timeline.h"

/* Field and enum numbers of the schema. */
enum { NODE_COMP = 4, NODE_SEND = 5, NODE_RECV = 6, NODE_COLL = 7 };
enum {
	ET_ALL_REDUCE = 0,
	ET_REDUCE = 1,
	ET_ALL_GATHER = 2,
	ET_BROADCAST = 5,
	ET_ALL_TO_ALL = 6,
	ET_REDUCE_SCATTER = 7
};

static void put_varint(FILE *f, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		fputc((int)(v & 0x7f) | 0x80, f);
	fputc((int)v, f);
}

static void put_number(FILE *f, uint32_t field, uint64_t v)
{
	put_varint(f, (uint64_t)field << 3);
	put_varint(f, v);
}

static void put_block(FILE *f, uint32_t field, const void *data, size_t n)
{
	put_varint(f, (uint64_t)field << 3 | 2);
	put_varint(f, n);
	fwrite(data, 1, n, f);
}

static void put_text(FILE *f, uint32_t field, const char *text)
{
	put_block(f, field, text, strlen(text));
}

/* An AttributeProto (name 1, int64 9, bool 27, string 29) as field `at` of its message. */
static void put_attr(FILE *message, uint32_t at, const char *name, uint32_t field, uint64_t v, const char *text)
{
	MQ_FREED struct mq_words memory = { NULL, 0 };
	FILE *a = mq_words_open(&memory);

	put_text(a, 1, name);
	if (text)
		put_text(a, field, text);
	else
		put_number(a, field, v);
	fclose(a);
	put_block(message, at, memory.text, memory.size);
}

static const uint8_t et_kind[MQ_N_COLL_KINDS] = {
	[MQ_COLL_ALL_REDUCE] = ET_ALL_REDUCE,
	[MQ_COLL_ALL_GATHER] = ET_ALL_GATHER,
	[MQ_COLL_REDUCE_SCATTER] = ET_REDUCE_SCATTER,
	[MQ_COLL_BROADCAST] = ET_BROADCAST,
	[MQ_COLL_REDUCE] = ET_REDUCE,
	[MQ_COLL_ALL_TO_ALL] = ET_ALL_TO_ALL,
};

static bool meets(const struct mq_task *t)
{
	return t->kind == MQ_TASK_SEND || t->kind == MQ_TASK_RECV || t->kind == MQ_TASK_COLLECTIVE;
}

uint64_t mq_export_comm_size(const struct mq_schedule *s, const struct mq_task *t)
{
	double n = t->kind == MQ_TASK_COLLECTIVE ? s->comm[t->comm].n : 1, part = fmax(ceil(t->bytes / n), 1);

	return (uint64_t)(t->kind == MQ_TASK_COLLECTIVE && t->coll != MQ_COLL_ALL_GATHER ? part * n : part);
}

static void put_work(const struct mq_export_run *run, const struct mq_task *t, FILE *node)
{
	const struct mq_schedule *s = run->schedule;
	bool computes = t->kind == MQ_TASK_COMPUTE && t->work != MQ_NONE, send = t->kind == MQ_TASK_SEND;
	char group[32];

	put_attr(node, 10, "is_cpu_op", 27, t->kind == MQ_TASK_COPY, NULL);
	if (!meets(t)) {
		put_attr(node, 10, "num_ops", 9, computes ? (uint64_t)s->work[t->work].flop : 0, NULL);
		put_attr(node, 10, "tensor_size", 9, (uint64_t)(computes ? s->work[t->work].bytes : t->bytes), NULL);
		return;
	}
	put_attr(node, 10, "comm_size", 9, mq_export_comm_size(s, t), NULL);
	if (t->kind == MQ_TASK_COLLECTIVE) {
		snprintf(group, sizeof(group), "%u", t->comm + 1); /* 0 is the group of all */
		put_attr(node, 10, "comm_type", 9, et_kind[t->coll], NULL);
		put_attr(node, 10, "pg_name", 29, 0, group);
	} else {
		put_attr(node, 10, "comm_src", 9, run->number[send ? t->device : t->peer], NULL);
		put_attr(node, 10, "comm_dst", 9, run->number[send ? t->peer : t->device], NULL);
		put_attr(node, 10, "comm_tag", 9, t->channel, NULL);
	}
}

/* The last tasks of a device so far. Receives of a stream have their own order: in a group with sends
 * neither is first. */
struct queue {
	uint32_t last[MQ_N_STREAMS], received[MQ_N_STREAMS]; /* task, or MQ_NONE */
	double spent_s[MQ_N_STREAMS];
};

static void put_node(const struct mq_export_run *run, uint32_t id, struct queue *q, FILE *out)
{
	const struct mq_schedule *s = run->schedule;
	const struct mq_task *t = &s->task[id];
	uint32_t stream = run->one_call_at_a_time && meets(t) ? MQ_STREAM_COMM : t->stream;
	uint32_t *before = t->kind == MQ_TASK_RECV ? &q->received[t->stream] : &q->last[stream];
	double begun_s = q->spent_s[stream];
	MQ_FREED struct mq_words memory = { NULL, 0 };
	FILE *node = mq_words_open(&memory);

	put_number(node, 1, id);
	put_text(node, 2, t->op != MQ_NONE && t->op < s->n_ops ? s->op_name[t->op] : mq_stream_name(t->stream));
	put_number(node, 3,
		   t->kind == MQ_TASK_SEND       ? NODE_SEND :
		   t->kind == MQ_TASK_RECV       ? NODE_RECV :
		   t->kind == MQ_TASK_COLLECTIVE ? NODE_COLL :
						   NODE_COMP);
	if (*before != MQ_NONE)
		put_number(node, 4, *before);
	*before = id;
	for (uint32_t i = 0; i < t->n_deps; i++)
		if (s->task[s->dep[t->dep_first + i]].device == t->device)
			put_number(node, 5, s->dep[t->dep_first + i]);
	q->spent_s[stream] += run->timeline->finish_s[id] - run->timeline->start_s[id];
	put_number(node, 7, (uint64_t)(llround(q->spent_s[stream] * 1e6) - llround(begun_s * 1e6)));
	put_work(run, t, node);
	fclose(node);
	put_varint(out, memory.size);
	fwrite(memory.text, 1, memory.size, out);
}

struct begun {
	uint32_t device, task;
	double start_s, finish_s;
};

MQ_COMPARE(by_start, struct begun,
	   MQ_ORDER(a->device, b->device)             ?:
		   MQ_ORDER(a->start_s, b->start_s)   ?:
		   MQ_ORDER(a->finish_s, b->finish_s) ?:
							MQ_ORDER(a->task, b->task))

static enum mq_status write_device(const struct mq_export_run *run, uint32_t device, const struct begun *begun,
				   uint32_t n, struct mq_err *err)
{
	MQ_FREED struct mq_words memory = { NULL, 0 };
	FILE *head = mq_words_open(&memory), *f;
	struct queue queue;
	char path[4096];

	put_text(head, 1, "1.0.0");
	put_attr(head, 2, "producer", 29, 0, "maquette: predicted, not measured");
	fclose(head);
	for (int i = 0; i < MQ_N_STREAMS; i++) {
		queue.last[i] = queue.received[i] = MQ_NONE;
		queue.spent_s[i] = 0;
	}
	snprintf(path, sizeof(path), "%s/chakra.%u.et", run->dir, run->number[device]);
	MQ_TRY(mq_file_open(path, &f, err));
	put_varint(f, memory.size);
	fwrite(memory.text, 1, memory.size, f);
	for (uint32_t i = 0; i < n; i++)
		put_node(run, begun[i].task, &queue, f);
	return mq_file_close(f, path, err);
}

enum mq_status mq_export_chakra(const struct mq_export_run *run, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	const struct mq_schedule *s = run->schedule;
	struct begun *begun = mq_arena_array(&scratch, s->n_tasks, struct begun);

	for (uint32_t i = 0; i < s->n_tasks; i++)
		begun[i] =
			(struct begun){ s->task[i].device, i, run->timeline->start_s[i], run->timeline->finish_s[i] };
	qsort(begun, s->n_tasks, sizeof(*begun), by_start);
	for (uint32_t d = 0, i = 0, n; d < s->n_devices; d++, i += n) {
		for (n = 0; i + n < s->n_tasks && begun[i + n].device == d;)
			n++;
		MQ_TRY(write_device(run, d, &begun[i], n, err));
	}
	return MQ_OK;
}
