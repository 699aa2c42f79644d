/* schedule.c - see schedule.h: names. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/schedule.h"

MQ_NAMES(mq_task_kind_name, enum mq_task_kind, MQ_N_TASK_KINDS, [MQ_TASK_COMPUTE] = "compute", [MQ_TASK_SEND] = "send",
	 [MQ_TASK_RECV] = "recv", [MQ_TASK_COLLECTIVE] = "collective", [MQ_TASK_COPY] = "copy")

MQ_NAMES(
	mq_stream_name, enum mq_stream,
	MQ_N_STREAMS, [MQ_STREAM_COMPUTE] = "compute", [MQ_STREAM_COMM] = "comm", [MQ_STREAM_GRAD] = "grad",
	[MQ_STREAM_SEND] = "send", [MQ_STREAM_RECV] = "recv", [MQ_STREAM_COPY] = "copy", [MQ_STREAM_EXPERT] = "expert",
	[MQ_STREAM_SEND_BACK] = "send-back", [MQ_STREAM_RECV_BACK] = "recv-back", [MQ_STREAM_SEND_2] = "send-2",
	[MQ_STREAM_RECV_2] = "recv-2", [MQ_STREAM_SEND_BACK_2] = "send-back-2", [MQ_STREAM_RECV_BACK_2] = "recv-back-2")
