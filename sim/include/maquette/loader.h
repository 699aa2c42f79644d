/* loader.h - engines as plug-ins: finds DIR/NAME.so, checks it, and gives its hooks.
 *
 * Symbol law: the file my_engine.so exports mq_engine_my_engine, whose name is "my-engine". An engine that is missing,
 * cannot be loaded or was built for another ABI is an error; none is skipped. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_LOADER_H
#define MAQUETTE_LOADER_H

#include "maquette/engine.h"

/* Loads the engine `name` of `dir`. *engine is a copy in the arena in which missing optional hooks are no-ops (except
 * solve and accepts, which stay NULL). MQ_EINPUT: no such engine (lists the others); MQ_ENODEV: it cannot be loaded
 * (names a missing library). */
MQ_API enum mq_status mq_engine_open(const char *dir, const char *name, struct mq_arena *arena,
				     const struct mq_engine **engine, struct mq_err *err);
/* The checks of a loaded struct: ABI, name, summary, mandatory hooks. */
MQ_API enum mq_status mq_engine_check(const struct mq_engine *engine, const char *name, struct mq_err *err);
/* Names in `dir`, sorted, NULL-terminated: "my-engine", without loading anything. */
MQ_API enum mq_status mq_plugin_names(const char *dir, const char *suffix, struct mq_arena *arena, const char ***names,
				      struct mq_err *err);

#endif
