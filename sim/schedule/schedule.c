/* schedule.c - see schedule.h: names. */
#include "maquette/schedule.h"

static const char *const kind_names[MQ_N_TASK_KINDS] = {
	[MQ_TASK_COMPUTE] = "compute",       [MQ_TASK_SEND] = "send", [MQ_TASK_RECV] = "recv",
	[MQ_TASK_COLLECTIVE] = "collective", [MQ_TASK_COPY] = "copy",
};

const char *mq_task_kind_name(enum mq_task_kind kind)
{
	return (unsigned)kind < MQ_N_TASK_KINDS ? kind_names[kind] : "unknown";
}

static const char *const stream_names[MQ_N_STREAMS] = {
	[MQ_STREAM_COMPUTE] = "compute", [MQ_STREAM_COMM] = "comm",           [MQ_STREAM_GRAD] = "grad",
	[MQ_STREAM_SEND] = "send",       [MQ_STREAM_RECV] = "recv",           [MQ_STREAM_COPY] = "copy",
	[MQ_STREAM_EXPERT] = "expert",   [MQ_STREAM_SEND_BACK] = "send-back", [MQ_STREAM_RECV_BACK] = "recv-back",
};

const char *mq_stream_name(enum mq_stream stream)
{
	return (unsigned)stream < MQ_N_STREAMS ? stream_names[stream] : "unknown";
}
