/* worker.c - the hidden command behind every simulation: `maquette worker key=value...` is started by the others (see
 * judge/pool.h) and serves them over a socket. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <signal.h>

#include "judge/pool.h"

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	signal(SIGINT, SIG_IGN); /* Ctrl-C is for who asks: it ends this one when it has written what it knows */
	return mq_pool_serve(argc - 1, argv + 1, err);
}

MQ_DEFINE_COMMAND(worker, NULL);
