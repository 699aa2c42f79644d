/* chakra.c - a schedule as Chakra execution traces, one file per device.
 *
 * The schema is MLCommons Chakra's et_def.proto: a stream of length-delimited messages, GlobalMetadata first, then one
 * Node per task. Dependencies on tasks of the same device become data dependencies, the order of a stream control
 * dependencies; what crosses devices is in the sends, receives and collectives. Written by hand, because the messages
 * need five kinds of field. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "export/export.h"
#include "maquette/schedule.h"

/* Numbers of the schema. */
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

/* Fields of AttributeProto: name 1, int64 9, bool 27, string 29. */
static void put_attr(FILE *node, const char *name, uint32_t field, uint64_t v, const char *text)
{
	MQ_FREED struct mq_words memory = { NULL, 0 };
	FILE *a = mq_words_open(&memory);

	put_text(a, 1, name);
	if (text)
		put_text(a, field, text);
	else
		put_number(a, field, v);
	fclose(a);
	put_block(node, 10, memory.text, memory.size);
}

static uint64_t et_kind(uint8_t coll)
{
	static const uint64_t kind[MQ_N_COLL_KINDS] = {
		[MQ_COLL_ALL_REDUCE] = ET_ALL_REDUCE,
		[MQ_COLL_ALL_GATHER] = ET_ALL_GATHER,
		[MQ_COLL_REDUCE_SCATTER] = ET_REDUCE_SCATTER,
		[MQ_COLL_BROADCAST] = ET_BROADCAST,
		[MQ_COLL_REDUCE] = ET_REDUCE,
		[MQ_COLL_ALL_TO_ALL] = ET_ALL_TO_ALL,
	};

	return kind[coll];
}

static void put_work(const struct mq_schedule *s, const struct mq_task *t, FILE *node)
{
	bool computes = t->kind == MQ_TASK_COMPUTE && t->work != MQ_NONE;

	put_attr(node, "is_cpu_op", 27, 0, NULL);
	if (t->kind == MQ_TASK_SEND || t->kind == MQ_TASK_RECV) {
		bool send = t->kind == MQ_TASK_SEND;

		put_attr(node, "comm_size", 9, (uint64_t)t->bytes, NULL);
		put_attr(node, "comm_src", 9, send ? t->device : t->peer, NULL);
		put_attr(node, "comm_dst", 9, send ? t->peer : t->device, NULL);
		put_attr(node, "comm_tag", 9, t->channel, NULL);
	} else if (t->kind == MQ_TASK_COLLECTIVE) {
		char group[32];

		snprintf(group, sizeof(group), "%u", t->comm);
		put_attr(node, "comm_type", 9, et_kind(t->coll), NULL);
		put_attr(node, "comm_size", 9, (uint64_t)t->bytes, NULL);
		put_attr(node, "pg_name", 29, 0, group);
	} else {
		put_attr(node, "num_ops", 9, computes ? (uint64_t)s->work[t->work].flop : 0, NULL);
		put_attr(node, "tensor_size", 9, (uint64_t)(computes ? s->work[t->work].bytes : t->bytes), NULL);
	}
}

/* `before`: the task before it on its stream, or MQ_NONE. */
static void put_node(const struct mq_schedule *s, uint32_t id, uint32_t before, FILE *out)
{
	const struct mq_task *t = &s->task[id];
	MQ_FREED struct mq_words memory = { NULL, 0 };
	FILE *node = mq_words_open(&memory);
	const char *name = t->op != MQ_NONE && t->op < s->n_ops ? s->op_name[t->op] : mq_stream_name(t->stream);

	put_number(node, 1, id);
	put_text(node, 2, name);
	put_number(node, 3,
		   t->kind == MQ_TASK_SEND       ? NODE_SEND :
		   t->kind == MQ_TASK_RECV       ? NODE_RECV :
		   t->kind == MQ_TASK_COLLECTIVE ? NODE_COLL :
						   NODE_COMP);
	if (before != MQ_NONE)
		put_number(node, 4, before);
	for (uint32_t i = 0; i < t->n_deps; i++)
		if (s->task[s->dep[t->dep_first + i]].device == t->device)
			put_number(node, 5, s->dep[t->dep_first + i]);
	put_work(s, t, node);
	fclose(node);
	put_varint(out, memory.size);
	fwrite(memory.text, 1, memory.size, out);
}

static enum mq_status write_device(const struct mq_schedule *s, uint32_t device, const char *dir, struct mq_err *err)
{
	static const char version[] = "0.0.4";
	uint32_t before[MQ_N_STREAMS];
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/chakra.%u.et", dir, device);
	MQ_TRY(mq_file_open(path, &f, err));
	put_varint(f, strlen(version) + 2); /* with the field's number and length */
	put_text(f, 1, version);
	for (int i = 0; i < MQ_N_STREAMS; i++)
		before[i] = MQ_NONE;
	for (uint32_t id = 0; id < s->n_tasks; id++) {
		if (s->task[id].device != device)
			continue;
		put_node(s, id, before[s->task[id].stream], f);
		before[s->task[id].stream] = id;
	}
	return mq_file_close(f, path, err);
}

enum mq_status mq_export_chakra(const struct mq_schedule *s, const char *dir, struct mq_err *err)
{
	for (uint32_t d = 0; d < s->n_devices; d++)
		MQ_TRY(write_device(s, d, dir, err));
	return MQ_OK;
}
