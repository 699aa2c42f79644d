/* loader.h - engines as plug-ins: finds DIR/NAME.so, checks it, and gives its hooks.
 *
 * Symbol law: the file my_engine.so exports mq_engine_my_engine, whose name is "my-engine". What is not found, cannot
 * be loaded or was built for another ABI is an error that says so; nothing is skipped.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_LOADER_H
#define MAQUETTE_LOADER_H

#include "maquette/engine.h"

/* The engine called `name` in `dir`. *engine is a copy in the arena whose absent optional hooks are
 * no-ops (except solve and accepts, which stay NULL). MQ_EINPUT: no such engine (lists what exists);
 * MQ_ENODEV: it cannot be loaded (a library is missing), says which. */
MQ_API enum mq_status mq_engine_open(const char *dir, const char *name, struct mq_arena *arena,
				     const struct mq_engine **engine, struct mq_err *err);
/* The checks of a loaded struct: ABI, size, name, mandatory hooks. */
MQ_API enum mq_status mq_engine_check(const struct mq_engine *engine, const char *name, struct mq_err *err);
/* Names in `dir`, sorted, NULL-terminated: "my-engine", without loading anything. */
MQ_API enum mq_status mq_plugin_names(const char *dir, const char *suffix, struct mq_arena *arena, const char ***names,
				      struct mq_err *err);

#endif
