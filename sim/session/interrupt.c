/* interrupt.c - Ctrl-C: requests a stop, after which the same command goes on. SPDX-License-Identifier: Apache-2.0 */
#include "session/session.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted; /* global: a signal handler has no argument for state */

static void stop(int signal_number)
{
	static const char text[] = "\nmaquette: stopped; the same command goes on from here\n";
	ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)written;
	interrupted = 1;
	signal(signal_number, SIG_DFL); /* a second Ctrl-C ends the program at once */
}

void mq_job_resumable(void)
{
	signal(SIGINT, stop);
}

bool mq_job_stopped(void)
{
	return interrupted;
}

void mq_job_end_stopped(void)
{
	if (!interrupted)
		return;
	fflush(NULL);
	raise(SIGINT);
}
