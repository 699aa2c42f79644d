/* chakra.c - reads MLCommons Chakra's execution traces (.et), one file per rank: nodes with durations, kind and size of
 * collectives and messages. The schema is chakra.proto; messages are read one by one.
 *
 * The rank is the number before the suffix (NAME.3.et). If no node has a start time, nodes are placed one after
 * another, and trace.untimed is set. A synthetic trace without durations is refused.
 *
 * comm_size is taken as the bytes that go into the call. SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chakra.pb-c.h"
#include "trace/trace.h"

/* Numbers of the schema. */
enum { NODE_COMP = 4, NODE_SEND = 5, NODE_RECV = 6, NODE_COLL = 7, N_COLLS = 8 };
enum { MESSAGE_MAX = 64 << 20 };

struct reader {
	struct mq_trace *trace;
	FILE *file;
	uint8_t *message;
	size_t room, size;
	uint64_t at; /* bytes read */
	uint32_t n_kernels;
	bool has_start;
	struct mq_err *err;
};

/* Attributes of a node. */
struct told {
	double bytes;
	int64_t coll; /* -1 = unknown */
	const char *group;
	bool host;
};

static const char *const coll_name[N_COLLS] = { "allreduce", "reduce",    "allgather", "gather",
						"scatter",   "broadcast", "alltoall",  "reducescatter" };

static double value_of(const MqChakra__Attribute *a)
{
	return a->has_int64_value  ? (double)a->int64_value :
	       a->has_uint64_value ? (double)a->uint64_value :
	       a->has_int32_value  ? (double)a->int32_value :
	       a->has_uint32_value ? (double)a->uint32_value :
	       a->has_double_value ? a->double_value :
	       a->has_float_value  ? (double)a->float_value :
	       a->has_bool_value   ? (double)a->bool_value :
				     (double)NAN;
}

static struct told read_attributes(const MqChakra__Node *node)
{
	struct told told = { .bytes = NAN, .coll = -1 };

	for (size_t i = 0; i < node->n_attribute; i++) {
		const MqChakra__Attribute *a = node->attribute[i];
		const char *name = a->name ? a->name : "";
		double x = value_of(a);

		if (!strcmp(name, "is_cpu_op"))
			told.host = x > 0;
		else if (!strcmp(name, "comm_size") && x >= 0)
			told.bytes = x;
		else if (!strcmp(name, "comm_type") && x >= 0 && x < N_COLLS)
			told.coll = (int64_t)x;
		else if (!strcmp(name, "pg_name") && a->string_value)
			told.group = a->string_value;
	}
	return told;
}

static void add_node(struct reader *r, const MqChakra__Node *node)
{
	struct mq_trace *t = r->trace;
	struct told told = read_attributes(node);
	struct mq_event e = { .start_us = (double)node->start_us,
			      .dur_us = (double)node->duration_us,
			      .device = 0,
			      .shape = MQ_NONE,
			      .note = MQ_NONE,
			      .kind = MQ_EVENT_KERNEL };
	const char *name = node->name ? node->name : "";
	bool coll = node->type == NODE_COLL, message = node->type == NODE_SEND || node->type == NODE_RECV;
	struct mq_trace_note note = { .in_n = told.bytes,
				      .out_n = NAN,
				      .element_B = isnan(told.bytes) ? 0 : 1,
				      .collective = !coll          ? "sendrecv" :
						    told.coll >= 0 ? coll_name[told.coll] :
								     NULL };

	t->n_read++;
	r->has_start |= node->start_us > 0;
	if (told.host && mq_trace_range_kind(name) == MQ_EVENT_STEP)
		e.kind = MQ_EVENT_STEP;
	else if (told.host || !node->duration_us || node->type < NODE_COMP || node->type > NODE_COLL)
		return;
	if (told.group && (coll || message))
		note.group = mq_trace_intern(t, told.group, strlen(told.group));
	if ((coll || message) && !strstr(name, "nccl")) /* marks the kernel of a call */
		name = mq_arena_printf(t->arena, "nccl_%s %s", note.collective ? note.collective : "", name);
	e.name = mq_trace_intern(t, name, strlen(name));
	r->n_kernels += e.kind == MQ_EVENT_KERNEL;
	mq_trace_add(t, e, coll || message ? &note : NULL);
}

/* ---- the stream ------------------------------------------------------------------------------ */

static enum mq_status cut_short(struct reader *r)
{
	return mq_bad(r->err, "%s: cut short after byte %.0f: copy the whole file", r->trace->path, (double)r->at);
}

/* Reads the next message, which follows its length; *more = false: end of file. */
static enum mq_status next_message(struct reader *r, bool *more)
{
	int c = 0;

	r->size = 0;
	*more = false;
	for (int shift = 0; shift < 35; shift += 7) {
		if ((c = getc(r->file)) == EOF)
			return shift ? cut_short(r) : MQ_OK;
		r->at++;
		r->size |= (size_t)(c & 0x7f) << shift;
		if (!(c & 0x80))
			break;
	}
	if (c & 0x80 || r->size > MESSAGE_MAX)
		return mq_bad(r->err, "%s: no message of Chakra's at byte %.0f: is it an execution trace?",
			      r->trace->path, (double)r->at);
	*more = true;
	if (r->size > r->room) {
		r->room = 2 * r->size;
		r->message = mq_arena_alloc(r->trace->arena, r->room);
	}
	if (fread(r->message, 1, r->size, r->file) != r->size)
		return cut_short(r);
	r->at += r->size;
	return MQ_OK;
}

static enum mq_status read_nodes(struct reader *r)
{
	bool more;

	MQ_TRY(next_message(r, &more)); /* the head */
	if (more && r->size && memmem(r->message, r->size, "predicted, not measured", 23))
		return mq_bad(r->err, "%s: `maquette export` predicted these durations; give a trace of a run",
			      r->trace->path);
	for (;;) {
		MQ_TRY(next_message(r, &more));
		if (!more)
			return MQ_OK;
		MqChakra__Node *node = mq_chakra__node__unpack(NULL, r->size, r->message);
		if (!node)
			return mq_bad(
				r->err,
				"%s: the message that ends at byte %.0f is no node of Chakra's: is it an execution "
				"trace?",
				r->trace->path, (double)r->at);
		add_node(r, node);
		mq_chakra__node__free_unpacked(node, NULL);
	}
}

/* Places nodes one after another in the file's order; the steps are unknown. */
static void put_in_line(struct mq_trace *t)
{
	double at_us = 0;
	uint32_t kept = 0;

	t->untimed = true;
	for (uint32_t i = 0; i < t->n; i++) {
		if (t->event[i].kind == MQ_EVENT_STEP)
			continue;
		t->event[kept] = t->event[i];
		t->event[kept++].start_us = at_us;
		at_us += t->event[i].dur_us;
	}
	t->n = kept;
}

enum mq_status mq_chakra_read(struct mq_trace *trace, struct mq_err *err)
{
	struct reader r = { .trace = trace, .file = fopen(trace->path, "rb"), .err = err };

	if (!r.file)
		return mq_bad(err, "%s: cannot open the trace: %s", trace->path, strerror(errno));
	const char *end = strrchr(trace->path, '.'), *from = end; /* NAME.3.et */
	while (from && from > trace->path && isdigit((unsigned char)from[-1]))
		from--;
	trace->rank = from && from < end && from > trace->path ? (uint32_t)strtoul(from, NULL, 10) : MQ_NONE;
	enum mq_status status = read_nodes(&r);
	fclose(r.file);
	if (status == MQ_OK && trace->n_read && !r.n_kernels)
		return mq_bad(err,
			      "%s: %.0f nodes, and none of a device has a duration: it was made and not run, or the "
			      "device's side was not linked into it",
			      trace->path, (double)trace->n_read);
	if (status == MQ_OK && !r.has_start)
		put_in_line(trace);
	return status;
}
