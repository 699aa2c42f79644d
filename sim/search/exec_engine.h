/* exec_engine.h - `-e exec:PROGRAM`: an engine in any language, spoken to in JSON lines over pipes. The protocol is
 * described in strategies/README.md. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SEARCH_EXEC_ENGINE_H
#define MQ_SEARCH_EXEC_ENGINE_H

#include "maquette/engine.h"

/* An engine that runs `program` through the shell; `options` ("key=value,...") are handed to it. Lives in the arena. */
MQ_API const struct mq_engine *mq_exec_engine_new(const char *program, const char *options, struct mq_arena *arena);

#endif
