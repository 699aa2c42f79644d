/* plugin_file.h - data files that ship with an engine lie next to its plug-in: strategies/NAME.weights becomes
 * build/engines/NAME.weights, and is installed likewise. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_PLUGIN_FILE_H
#define MQ_STRATEGIES_LIB_PLUGIN_FILE_H

#include "maquette/engine.h"

/* The folder that the plug-in of `engine` was loaded from. */
enum mq_status mq_plugin_folder(const struct mq_engine *engine, struct mq_arena *arena, const char **folder,
				struct mq_err *err);
/* The path of `name` in the folder of the plug-in that holds `engine`. MQ_EINPUT: no such file there. */
enum mq_status mq_plugin_file(const struct mq_engine *engine, const char *name, struct mq_arena *arena,
			      const char **path, struct mq_err *err);

#endif
