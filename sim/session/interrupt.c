/* interrupt.c - Ctrl-C, `kill` and `timeout`: requests a stop, after which what there is is written.
 * SPDX-License-Identifier: Apache-2.0 */
#include "session/session.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* global: a signal handler has no argument for state */
static volatile sig_atomic_t interrupted; /* the signal; 0 = none */
static volatile time_t interrupted_s;
static const char *volatile next; /* what is said of a stop; NULL: nothing */

/* `timeout` and terminals of some batch systems send a signal to the process and again to its group. */
enum { TWICE_S = 1 };

static void stop(int signal_number)
{
	static const char text[] = "\nmaquette: stopped; ";
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!interrupted) {
		interrupted = signal_number;
		interrupted_s = now.tv_sec;
		if (next && write(STDERR_FILENO, text, sizeof(text) - 1) > 0)
			(void)!write(STDERR_FILENO, next, strlen(next));
	} else if (now.tv_sec - interrupted_s > TWICE_S) { /* a second Ctrl-C ends the program at once */
		signal(signal_number, SIG_DFL);
		raise(signal_number);
	}
}

void mq_job_stops(const char *said)
{
	next = said;
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	if (signal(SIGHUP, stop) == SIG_IGN) /* under nohup */
		signal(SIGHUP, SIG_IGN);
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
	signal(interrupted, SIG_DFL);
	raise(interrupted);
}
