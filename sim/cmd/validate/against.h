/* against.h - the parts of `validate --against`: communicators and layers of a real step beside the predicted ones.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_CMD_VALIDATE_AGAINST_H
#define MQ_CMD_VALIDATE_AGAINST_H

#include "cmd/validate/plans.h"
#include "cmd/validate/traces.h"

/* The device of a plan that a trace is of. */
uint32_t mq_against_device(const struct mq_trace *trace);

/* Calls, bytes and time per step of each communicator and kind, means over the traces: prints a table and writes
 * DIR/against_calls.csv. Communicators are joined by their ranks where all calls tell them, else by how many they are. */
enum mq_status mq_against_calls(const struct mq_validated *plan, const struct mq_traces *traces, const char *dir,
				struct mq_arena *arena, struct mq_err *err) MQ_MUST_CHECK;

/* Forward time of each layer that both name; nothing where the trace names none. */
enum mq_status mq_against_layers(const struct mq_validated *plan, const struct mq_traces *traces, const char *dir,
				 struct mq_arena *arena, struct mq_err *err) MQ_MUST_CHECK;

#endif
