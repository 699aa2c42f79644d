/* worker.c - the hidden command that simulates: other commands start `maquette worker key=value...` (see judge/pool.h)
 * and use it over a socket. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <signal.h>

#include "judge/pool.h"

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	/* a signal to the process group is for the client, which ends this process when it has written its results */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	return mq_pool_serve(argc - 1, argv + 1, err);
}

MQ_DEFINE_COMMAND(worker, NULL);
