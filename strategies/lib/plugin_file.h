/* plugin_file.h - finds an engine's data files next to its plug-in: strategies/NAME.weights is built as
 * build/engines/NAME.weights, and installed likewise. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_PLUGIN_FILE_H
#define MQ_STRATEGIES_LIB_PLUGIN_FILE_H

#include "maquette/engine.h"

/* The folder from which the engine's plug-in was loaded. */
enum mq_status mq_plugin_folder(const struct mq_engine *engine, struct mq_arena *arena, const char **folder,
				struct mq_err *err);
/* The path of file `name` in that folder. MQ_EINPUT: no such file. */
enum mq_status mq_plugin_file(const struct mq_engine *engine, const char *name, struct mq_arena *arena,
			      const char **path, struct mq_err *err);

#endif
